"""What CONTRIBUTING.md, the notebook on theory and the code say of each other."""

import importlib
import inspect
import json
import pkgutil
import pydoc
import re
from pathlib import Path

import pytest
from test_architecture import MAY_IMPORT

import sklearn_hocrf

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NOTEBOOK = json.loads((CHECKOUT / "notebooks" / "05_how_it_works.ipynb").read_text(encoding="utf-8"))


def test_equations_are_numbered_in_order():
    without_pictures = re.sub(r"^```$.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    numbers = [int(number) for number in re.findall(r"^ {4}.* \((\d+)\)$", without_pictures, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 30


def test_notebook_uses_the_numbers_of_the_page():
    text = "".join("".join(cell["source"]) for cell in NOTEBOOK["cells"])
    tags = [int(tag) for tag in re.findall(r"\\tag\{(\d+)\}", text)]
    assert len(tags) == len(set(tags)) > 10
    assert all(f" ({tag})\n" in PAGE for tag in tags)


def test_notebook_imports_private_names_in_one_cell():
    sources = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert sum("sklearn_hocrf._" in source for source in sources) == 1


def test_page_names_all_rooms():
    table = PAGE.split("| room |")[1].split("\n\n")[0]
    first_column = " ".join(row.split("|")[1] for row in table.splitlines()[2:])
    assert set(re.findall(r"`(\w+)`", first_column)) == set(MAY_IMPORT)


def test_table_of_contents_names_all_public_modules():
    """Every public module is in the docstring of the package and in its ``__all__`` or its estimators' modules."""
    public = {name for _, name, _ in pkgutil.iter_modules(sklearn_hocrf.__path__) if not name.startswith("_")}
    named = set(re.findall(r"^:mod:`sklearn_hocrf\.(\w+)`", sklearn_hocrf.__doc__, re.MULTILINE))
    assert named == public
    assert public - {"crf", "semicrf"} <= set(sklearn_hocrf.__all__)


@pytest.mark.parametrize("name", [m for _, m, _ in pkgutil.iter_modules(sklearn_hocrf.__path__) if m[0] != "_"])
def test_public_names_have_a_page(name):
    """pydoc shows each public name of each public module with a text of its own; the module has an example or points
    to one."""
    module = importlib.import_module(f"sklearn_hocrf.{name}")
    page = pydoc.plain(pydoc.render_doc(module))
    for public in module.__all__:
        assert public in page
        value = getattr(module, public)
        if callable(value) and hasattr(value, "__name__"):
            assert (inspect.getdoc(value) or "").count(" ") >= 2, f"{name}.{public} has no docstring"


def test_readme_is_short():
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 160
    for link in re.findall(r"\]\((?!http|#)([^)#]+)", readme):
        assert (CHECKOUT / link).exists(), link


@pytest.mark.parametrize("name", [m for _, m, _ in pkgutil.iter_modules(sklearn_hocrf.__path__) if m[0] != "_"])
def test_public_classes_have_an_example(name):
    """The docstring of each public class has an example, or says where there is one."""
    module = importlib.import_module(f"sklearn_hocrf.{name}")
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isclass(value):
            text = inspect.getdoc(value) or ""
            assert re.search(r">>>|\bSee\s(?!Also)", text), public
