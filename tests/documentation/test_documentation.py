"""What the pages on theory and design, CONTRIBUTING.md, the notebook on theory and the code state about each other."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import sklearn
from internals import GUIDE
from sklearn.utils.fixes import parse_version
from test_architecture import MAY_IMPORT

from sklearn_hocrf import __version__
from sklearn_hocrf._estimator.pipeline import SequencePipeline

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
THEORY = (CHECKOUT / "docs" / "develop" / "theory.md").read_text(encoding="utf-8")
DESIGN = (CHECKOUT / "docs" / "develop" / "design.md").read_text(encoding="utf-8")
NUMBERS = [int(number) for number in re.findall(r"\\tag\{(\d+)\}", THEORY)]
assert list(range(1, len(NUMBERS) + 1)) == NUMBERS  # in order
NOTEBOOK = json.loads((CHECKOUT / "notebooks" / "05_how_it_works.ipynb").read_text(encoding="utf-8"))


def test_notebook_uses_the_numbers_of_the_page():
    text = "".join("".join(cell["source"]) for cell in NOTEBOOK["cells"])
    tags = [int(tag) for tag in re.findall(r"\\tag\{(\d+)\}", text)]
    assert len(tags) == len(set(tags)) > 10
    assert set(tags) <= set(NUMBERS)


def cited(text):
    """Return the numbers in parentheses at the ends of lines, and after the word equation."""
    at_ends = re.findall(r"^.*?[^\w.(\[].*[ ,]\((\d+)\)(?: \*/)?$", text, re.MULTILINE)
    return {int(number) for number in at_ends + re.findall(r"equations? \(?(\d+)\)?", text)}


def test_code_cites_equations_that_exist():
    """Kernels cite equations by number, and name the page that has them; so do all others that cite it."""
    kernels = CHECKOUT / "sklearn_hocrf" / "_engine" / "kernels"
    cited_by_kernels = set()
    for path in (CHECKOUT / "sklearn_hocrf").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "docs/develop/theory.md" in text:
            assert cited(text) <= set(NUMBERS), path.name
            cited_by_kernels |= cited(text) if path.parent == kernels else set()
        else:
            assert not re.search(r"# .*\(\d+\)$|\bequation \(?\d", text, re.MULTILINE), path.name
    assert len(cited_by_kernels) > 20


def numbers(text):
    """Return the numbers of a text, as written but without commas."""
    found = re.findall(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+)", text)
    return [number.replace(",", "") for number in found]


def shown_numbers(cells):
    """Return the numbers in the sources and the outputs of code cells."""
    texts = []
    for cell in cells:
        texts.append("".join(cell["source"]))
        for output in cell["outputs"]:
            data = {**output.get("data", {}), "text/stream": output.get("text", "")}
            texts += ["".join(text) for kind, text in data.items() if kind.startswith("text/")]
    return {float(number) for text in texts for number in numbers(text)}


def is_shown(number, shown):
    """Return whether a number is among those shown, perhaps rounded, or in percent."""
    digits = len(number.partition(".")[2])
    return any(round(known * unit, digits) == float(number) for known in shown for unit in (1, 100))


@pytest.mark.parametrize("path", sorted((CHECKOUT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_numbers_in_prose_are_in_outputs(path):
    """Each number of a notebook's prose is in its code or its outputs, perhaps rounded, or in percent.

    Integers of one or two digits, years and versions are left out. In texts of pictures, all numbers count.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    shown = shown_numbers([cell for cell in cells if cell["cell_type"] == "code"])
    if path.stem == "05_how_it_works":  # which cites these pages
        shown |= {float(number) for number in numbers(THEORY + DESIGN)}
    for cell in cells:
        if cell["cell_type"] != "code":
            formulas_and_code = r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)|scikit-learn [\d.]+"
            for number in numbers(re.sub(formulas_and_code, "", "".join(cell["source"]), flags=re.DOTALL)):
                if "." in number or (float(number) >= 100 and not 1950 <= float(number) < 2050):
                    assert is_shown(number, shown), number
        elif "mystnb" in cell["metadata"]:
            for number in numbers(cell["metadata"]["mystnb"]["image"]["alt"]):
                assert is_shown(number, shown), number


def test_page_names_all_modules_above_those_that_import_them():
    table = PAGE.split("| floor | room |")[1].split("\n\n")[0]
    rows = [re.findall(r"`([\w.]+)`", row.split("|")[2]) for row in table.splitlines()[2:]]
    place = {name: i for i, names in enumerate(rows) for name in names}
    assert set(place) == set(MAY_IMPORT)
    assert not [(name, other) for name in place for other in MAY_IMPORT[name] if place[other] >= place[name]]


def test_estimators_link_to_their_page():
    """In notebooks, scikit-learn's diagram of an estimator links to a page that a list of docs/api makes."""
    made, linked = set(), []
    for page in (CHECKOUT / "docs" / "api").glob("*.rst"):
        _, *parts = re.split(r"currentmodule:: (\S+)", page.read_text(encoding="utf-8"))
        for module, names in zip(parts[::2], parts[1::2], strict=True):
            made.update(f"{module}.{name}.html" for name in re.findall(r"^   (\w+)$", names, re.MULTILINE))
            found = [
                getattr(importlib.import_module(module), name, None) for name in dir(importlib.import_module(module))
            ]
            linked += [value for value in found if getattr(value, "_doc_link_module", "") == "sklearn_hocrf"]
    links = {estimator._get_doc_link(estimator.__new__(estimator)) for estimator in [*linked, SequencePipeline]}
    assert len(links) >= 10
    assert {link.rsplit("/", 1)[1] for link in links} <= made


def test_gains_of_order_two():
    """The means and the median that pages state are those of the table in the log."""
    table = (CHECKOUT / "docs" / "develop" / "measured.md").read_text(encoding="utf-8")
    table = table.partition("## Which order is the better default?")[2].partition("## ")[0]
    rows = [row for row in table.splitlines() if re.search(r"\d: [+-]", row)]
    gains = [
        [float(cell.partition(": ")[2].partition(" ")[0] or "nan") for cell in row.split("|")[2:4]] for row in rows
    ]
    few, every = np.array([[a, a if np.isnan(b) else b] for a, b in gains]).T
    others = ["handwriting" not in row for row in rows]
    assert len(every) == len(others) == 10 == sum(others) + 1
    page = (CHECKOUT / "docs" / "guide" / "order.md").read_text(encoding="utf-8")
    mean, without, median = (round(of, 1) for of in (every.mean(), every[others].mean(), np.median(every)))
    assert re.search(f"{mean} percentage points.*\n.* {without} points without.* {median} points", page)
    assert f"{few[others].mean():.1f} and {without}; the medians" in table
    assert f"{np.median(few):.2f} and {np.median(every):.2f}. For" in table


def test_what_archives_and_conda_are_told_is_what_the_package_says():
    """The conda recipe has the version and the dependencies of the package; the archive, the title of the citation."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (CHECKOUT / ".ci" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{__version__}"' in recipe
    needed = [f"python {project['requires-python']}", *(name.replace(">=", " >=") for name in project["dependencies"])]
    assert re.findall("- (.+)", recipe.partition("  run:\n")[2].partition("\n\n")[0]) == needed
    assert [f"{name} = {what}" for name, what in project["scripts"].items()] == re.findall(r"- (\w+ = .+)", recipe)
    archive = json.loads((CHECKOUT / ".zenodo.json").read_text(encoding="utf-8"))
    assert f'title: "{archive["title"]}"' in (CHECKOUT / "CITATION.cff").read_text(encoding="utf-8")


def test_links_of_readme_to_the_site_lead_somewhere():
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)", readme) + re.findall(r'src(?:set)?="([^"]+)"', readme):
        raw = link.removeprefix("https://raw.githubusercontent.com/sklearn-hocrf/sklearn-hocrf/main/")
        path = re.sub(r"https://sklearn-hocrf.github.io/sklearn-hocrf/stable/(.+)\.html", r"docs/\1.md", raw)
        assert path.startswith("http") or (CHECKOUT / path).exists(), link


def test_messages_name_pages_of_the_site():
    """A wheel has no pages: a message that names a file of docs/ sends its reader nowhere."""
    (site,) = re.findall(r'Documentation = "(.+)"', (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"{site}/guide" == GUIDE
    named = set()
    for path in (CHECKOUT / "sklearn_hocrf").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source if "docs/" in source else "")  # which takes its time
        strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        # those of one line: docstrings, which the site turns into links, have several
        assert not [node.lineno for node in strings if re.match(r"[^\n]*\bdocs/[^\n]*$", str(node.value))], path
        named.update(re.findall(r"\{GUIDE\}/(\w+)\.html(?:#([\w-]+))?", source))
    assert len(named) > 1
    for page, anchor in named:
        text = (CHECKOUT / "docs" / "guide" / f"{page}.md").read_text(encoding="utf-8")
        titles = [title.lower().replace(" ", "-") for title in re.findall("^#+ (.+)$", text, re.MULTILINE)]
        assert not anchor or anchor in titles


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="scikit-learn < 1.9 asks the hidden pandas"
)
def test_pages_without_the_libraries_of_extras():
    """``help``, ``dir`` and ``import *`` work where no extra is installed: they are there to say what to install."""
    program = [sys.executable, CHECKOUT / "tests" / "bare.py", "--hide"]
    run = subprocess.run(program, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
