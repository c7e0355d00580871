"""References between the pages on theory and design, CONTRIBUTING.md, the notebook on theory, and the code."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

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


def test_page_names_all_modules_above_those_that_import_them():
    table = PAGE.split("| layer | component |")[1].split("\n\n")[0]
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
    """A wheel has no pages: a message or help that names a file of docs/ sends its reader nowhere."""
    (site,) = re.findall(r'Documentation = "(.+)"', (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"{site}/guide" == GUIDE
    named = set()
    for path in (CHECKOUT / "sklearn_hocrf").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source if "docs/" in source else "")  # which takes its time
        strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        # kernels and their callers cite equations, but no help shows them
        assert not [node.lineno for node in strings if re.search(r"\bdocs/(?!develop/theory)", str(node.value))], path
        found = re.findall(rf"(\{{GUIDE\}}|{site})/([\w/]+)\.html(?:#([\w-]+))?", source)
        named.update((f"{'guide/' if where != site else ''}{page}", anchor) for where, page, anchor in found)
    assert len(named) > 10
    for page, anchor in named:
        text = (CHECKOUT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        titles = [title.lower().replace(" ", "-") for title in re.findall("^#+ (.+)$", text, re.MULTILINE)]
        assert not anchor or anchor in titles


@pytest.mark.slow  # .ci/run looks in an environment that lacks them
@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="scikit-learn < 1.9 asks the hidden pandas"
)
def test_pages_without_the_libraries_of_extras():
    """``help``, ``dir`` and ``import *`` work where no extra is installed: they are there to say what to install."""
    program = [sys.executable, CHECKOUT / "tests" / "bare.py", "--hide"]
    run = subprocess.run(program, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
