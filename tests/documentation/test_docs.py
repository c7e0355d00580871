"""The pages of the site: public names, links, lines of examples. The tests do not build the site: .ci/full does."""

import json
import pkgutil
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

import sklearn_hocrf

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
BUILT = ("_build", "generated")
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not set(BUILT) & set(path.parts)]
PUBLIC_MODULES = [m for _, m, _ in pkgutil.iter_modules(sklearn_hocrf.__path__) if m[0] != "_"]
TOP = (
    "Constraints",
    "HighOrderCRF",
    "HighOrderSemiCRF",
    "SequenceBatch",
    "TRUSTED_TYPES",
    "__version__",
    "StackedSequenceLabeler",
    "make_pipeline",
)  # documented where users import them from


def names_on_api_pages():
    """Return how often each public name is on a page of the API, by its dotted name."""
    counts, module = Counter(), ""
    for page in set((DOCS / "api").glob("*.rst")) - {DOCS / "api" / "index.rst"}:
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith((".. currentmodule:: ", ".. py:module:: ")):
                module = line.partition(":: ")[2]
            elif found := re.match(r"(?:   |\.\. py:data:: )(\w+)$", line):
                counts[f"{module}.{found[1]}"] += 1
    return counts


def test_public_names_are_on_one_page_each():
    counts = names_on_api_pages()
    assert set(counts.values()) == {1}, counts.most_common(3)
    expected = {f"sklearn_hocrf.{name}" for name in TOP}
    for name in PUBLIC_MODULES:
        module = pytest.importorskip(f"sklearn_hocrf.{name}", exc_type=ImportError)
        expected |= {f"sklearn_hocrf.{name}.{public}" for public in module.__all__ if public not in TOP}
    index = {name for name in counts if re.match(r"sklearn_hocrf\.\w", name)}
    assert index == expected
    modules = {name for name in sklearn_hocrf.__all__ if name in PUBLIC_MODULES}
    assert set(sklearn_hocrf.__all__) - modules == set(TOP)


def anchors(text):
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def text_of(path):
    """Return the Markdown of a page or of the cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown")


def broken_links(path, text):
    """Return the links of a page to files, pages and anchors that are not there."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    roles = re.findall(r"\{(\w+)\}`([^`]+)`", text)
    without_code = re.sub(r"`[^`]+`", "", re.sub(r"\{\w+\}`[^`]+`", "", text))
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", without_code)
    pages = {page: DOCS / page[1:] if page[0] == "/" else path.parent / page for role, page in roles if role == "doc"}
    pages = {name: page for name, page in pages.items() if not (CHECKOUT / "notebooks" / f"{page.name}.ipynb").exists()}
    targets += [f"{name}.{'rst' if page.with_suffix('.rst').exists() else 'md'}" for name, page in pages.items()]
    found = []
    for target in targets:
        name, _, anchor = target.partition("#")
        page = (DOCS / name[1:] if name.startswith("/") else path.parent / name) if name else path
        if not page.exists() or (anchor and anchor not in anchors(text_of(page))):
            found.append(target)
    return found


NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
REPOSITORY = "git+https://github.com/sklearn-hocrf/sklearn-hocrf"
LINKED = [*PAGES, *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]


def test_links_lead_somewhere():
    broken = {path.relative_to(CHECKOUT): broken_links(path, text_of(path)) for path in [*LINKED, *NOTEBOOKS]}
    assert {name: links for name, links in broken.items() if links} == {}
    assert broken_links(DOCS / "index.md", "[a](absent.md) [b](#none) [c](start.md#train) {doc}`/guide/order`") == [
        *("absent.md", "#none", "start.md#train"),
    ]


def test_the_picture_of_the_tutorial_is_what_its_code_shows():
    folder = DOCS / "_static"
    picture = runpy.run_path(str(folder / "make_start.py"))["picture"]
    assert (folder / "start_names.html").read_text(encoding="utf-8") == picture(), "run docs/_static/make_start.py"


def test_examples_do_not_scroll():
    for path in PAGES:
        for line in path.read_text(encoding="utf-8").splitlines():
            assert len(line) <= 88 or not line.startswith((">>>", "...")), (path.name, line)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_executed_and_describe_their_pictures(path):
    """Outputs are there, in order, without errors, warnings and paths; each picture has a text for those who do not
    see it.
    """
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not [output for output in cell["outputs"] if output["output_type"] == "error"]
        assert not [output["text"] for output in cell["outputs"] if output.get("name") == "stderr"]
        texts = [output.get("text", output.get("data", {}).get("text/plain", "")) for output in cell["outputs"]]
        assert not re.findall(r"(?<![\w:/.])/\w+/\w\S*", "".join(map("".join, texts)))
        if any("image/svg+xml" in output.get("data", {}) for output in cell["outputs"]):
            assert len(cell["metadata"]["mystnb"]["image"]["alt"]) > 30, "".join(cell["source"])[:60]


def pictures(path):
    """Return the descriptions of the pictures of a notebook, in order."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    shown = [c for c in cells if any("image/svg+xml" in output.get("data", {}) for output in c.get("outputs", []))]
    return [cell["metadata"]["mystnb"]["image"]["alt"] for cell in shown]


def test_figures_show_what_their_pages_say():
    """A page that shows a picture of a notebook describes it as the notebook does: pictures are numbered there."""
    found = 0
    for page in PAGES:
        figures = re.findall(
            r"figure\} \.\./examples/(\w+?)(?:_(\d))?\.svg\n:alt: (.*)\n", page.read_text(encoding="utf-8")
        )
        for name, number, alt in figures:
            found += 1
            assert alt.strip("'") == pictures(CHECKOUT / "notebooks" / f"{name}.ipynb")[int(number or 0)], page.name
    assert found > 2


def code_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_can_be_copied_alone(path):
    """They say how to install the package, need no file beside them but the module that they fetch, and show none."""
    text, code = text_of(path), code_of(path)
    assert f'`pip install "sklearn_hocrf[notebooks] @ {REPOSITORY}"`' in " ".join(text.split())
    assert not re.findall(r"!\[[^]]*\]\((?!https?:)", text)
    beside = {module.stem for module in path.parent.glob("*.py")}
    assert set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.MULTILINE)) & beside <= {"public_data"}
    if "public_data" in code:
        (folder,) = re.findall(r'"https://raw.githubusercontent.com/sklearn-hocrf/sklearn-hocrf/main/(.+)"', code)
        assert (CHECKOUT / folder / "public_data.py").is_file()
        first = re.search(r"^.*public_data.*$", code, re.MULTILINE).start()
        assert code[:first].endswith("try:\n")


def test_each_notebook_is_a_page_of_the_site():
    listed = []
    for page in ("examples/index.md", "develop/index.md"):
        tree = (DOCS / page).read_text(encoding="utf-8").partition("```{toctree}")[2]
        listed += re.findall(r"^(?:/examples/)?(\d\d_\w+)$", tree, re.MULTILINE)
    assert sorted(listed) == [path.stem for path in NOTEBOOKS]
