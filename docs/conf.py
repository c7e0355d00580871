"""Sphinx configuration: ``pip install -e ".[docs]"``, then ``sphinx-build -W --keep-going docs docs/_build/html``.

Nothing is executed: notebooks come with their stored outputs, examples of the guide run as doctests of the test suite.
With the environment variable DOCS_OFFLINE set, links to the pages of other libraries are left out. DOCS_VERSION is the
folder of the published site (``.ci/site``): "dev", or the minor version of a release.
"""

import base64
import importlib
import inspect
import json
import operator
import os
import re
import shutil
from pathlib import Path

from docutils.nodes import Text, math_block

import sklearn_hocrf

HERE = Path(__file__).parent
PACKAGE = Path(inspect.getfile(sklearn_hocrf)).parent  # the installed one, if the site is built so
THUMBNAILS = {"05_how_it_works": 1}  # which picture of the notebook; else the first one

project, author, release = "sklearn_hocrf", "sklearn_hocrf developers", sklearn_hocrf.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "paper"]
templates_path, html_static_path, html_css_files = ["_templates"], ["_static"], ["custom.css"]
nitpicky = True
offline = bool(os.environ.get("DOCS_OFFLINE"))
libraries = {
    "python": "https://docs.python.org/3",
    "sklearn": "https://scikit-learn.org/stable",
    "numpy": "https://numpy.org/doc/stable",
    "scipy": "https://docs.scipy.org/doc/scipy",
    "joblib": "https://joblib.readthedocs.io/en/stable",
    "dask": "https://docs.dask.org/en/stable",
    "distributed": "https://distributed.dask.org/en/stable",
}
intersphinx_mapping = {} if offline else {name: (url, None) for name, url in libraries.items()}
nitpick_ignore_regex = [("py:.*", rf"re|({'|'.join(libraries)})\..*")]  # names of other libraries come and go

html_theme, html_title = "pydata_sphinx_theme", f"sklearn_hocrf {release}"
REPOSITORY, SITE = "https://github.com/sklearn-hocrf/sklearn-hocrf", "https://sklearn-hocrf.github.io/sklearn-hocrf"
FOLDER = os.environ.get("DOCS_VERSION", "")
SOURCES = "main" if FOLDER in ("", "dev") else f"v{release}"
html_baseurl, html_favicon = f"{SITE}/stable/", "_static/favicon.svg"  # search engines show one version of each page
html_context = {"github_user": "sklearn-hocrf", "github_repo": "sklearn-hocrf", "github_version": "main"}
html_context["doc_path"], html_context["default_mode"] = "docs", "auto"  # light or dark as the reader's system
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc", "edit-this-page"],
    "use_edit_page_button": True,
    "icon_links": [{"name": "GitHub", "url": REPOSITORY, "icon": "fa-brands fa-github"}],
    "footer_start": ["copyright"],
    "footer_end": [],
}
if FOLDER:
    html_theme_options |= {
        "switcher": {"json_url": f"{SITE}/switcher.json", "version_match": FOLDER},
        "check_switcher": False,  # .ci/site writes the file after the pages
        "show_version_warning_banner": True,
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }
html_sidebars: dict[str, list] = {page: [] for page in ("start", "results", "demo", "404")}  # pages without neighbours
html_copy_source, html_show_sourcelink = False, False
autodoc_typehints, autodoc_member_order = "none", "bysource"
toc_object_entries_show_parents = "hide"
autosummary_generate, numpydoc_show_class_members = True, False
numpydoc_class_members_toctree = False
numpydoc_validation_checks = {"GL03", "PR03", "PR04", "PR05", "PR06", "PR07", "PR10", "SS03", "SS05"}
nb_execution_mode = "off"
nb_mime_priority_overrides = [("html", "text/html", 0)]
myst_enable_extensions, myst_heading_anchors = ["colon_fence", "deflist", "dollarmath", "amsmath"], 4
copybutton_prompt_text, copybutton_prompt_is_regexp = r">>> |\.\.\. |\$ ", True
suppress_warnings = ["mystnb.unknown_mime_type"]


def copy_notebooks(app):
    """Copy the notebooks to the pages of examples, with their pictures: the thumbnail without a number."""
    for path in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copy(path, HERE / "examples" / path.name)
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
        pictures = [data for data in outputs if {"image/svg+xml", "image/png"} & data.keys()]
        for index, data in enumerate(pictures):
            is_thumbnail = index == THUMBNAILS.get(path.stem, 0)
            name = HERE / "examples" / (path.stem if is_thumbnail else f"{path.stem}_{index}")
            if "image/svg+xml" in data:
                name.with_suffix(".svg").write_text("".join(data["image/svg+xml"]), encoding="utf-8")
            else:
                name.with_suffix(".png").write_bytes(base64.b64decode(data["image/png"]))


def link_notebooks(app, docname, source):
    """Links from pages to notebooks and back, which work in the repository, lead to the copies of notebooks."""
    source[0] = re.sub(r"\]\((?:\.\./)+notebooks/(\w+\.ipynb)", r"](/examples/\1", source[0])
    source[0] = source[0].replace("](../notebooks/", "](/../notebooks/")
    source[0] = re.sub(r"\n\n```$", "\n```", source[0].replace("](../docs/", "](/"), flags=re.MULTILINE)  # for doctest


def skip_inherited(app, what, name, obj, skip, options):
    """Leave out what scikit-learn, tuples and objects bring along, and fields of tuples, which the class describes."""
    origin = getattr(getattr(obj, "fget", obj), "__module__", None) or ""
    is_field = type(obj).__name__ == "_tuplegetter"
    return True if is_field or not origin.startswith("sklearn_hocrf") or name.endswith("_request") else None


def adapt_docstring(app, what, name, obj, options, lines):
    """``n_features_in_`` in the type of a parameter is not a hyperlink; addresses of pages lead to this site."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(r"(?<![`\w.])([a-z]\w*)_(?![`\w])", r"\1\\_", line)
            lines[number] = re.sub(rf"{SITE}/stable/([\w/]+)\.html", r":doc:`/\1`", line)


def class_signature(app, what, name, obj, options, signature, annotation):
    """A class shows the parameters of its ``__init__``, even if it inherits a ``__new__`` that refuses other names."""
    if what != "class" or "__new__" not in {key for base in obj.__mro__[:-1] for key in vars(base)}:
        return None
    parameters = [value.replace(annotation=value.empty) for value in inspect.signature(obj).parameters.values()]
    return str(inspect.Signature(parameters)), None


def source_link(domain, info):
    """Return where the source of a public name is, for the links [source]."""
    module = importlib.import_module(info["module"])
    try:
        found = inspect.unwrap(operator.attrgetter(info["fullname"])(module))
        path, (lines, first) = Path(inspect.getfile(found)), inspect.getsourcelines(found)
    except (AttributeError, TypeError, OSError):
        return None
    if PACKAGE not in path.parents:
        return None
    place = path.relative_to(PACKAGE.parent).as_posix()
    return f"{REPOSITORY}/blob/{SOURCES}/{place}#L{first}-L{first + len(lines) - 1}"


linkcode_resolve = source_link


def write_sitemap(app, error):
    """List all pages for search engines."""
    if error is None and app.builder.format == "html":
        pages = "".join(f"<url><loc>{html_baseurl}{page}.html</loc></url>" for page in sorted(app.env.found_docs))
        head = '<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        Path(app.outdir, "sitemap.xml").write_text(f"{head}{pages}</urlset>", encoding="utf-8")


def keep_tags(app, doctree):
    r"""Leave equations of several lines as they are: Sphinx would put them into a split, which allows no ``\tag``."""
    for node in doctree.findall(math_block):
        if r"\\" in node.astext():
            node["no-wrap"] = node["nowrap"] = True  # the name in older versions
            node.children = [Text(rf"\[{node.astext()}\]")]


def setup(app):
    app.connect("doctree-read", keep_tags)
    app.connect("builder-inited", copy_notebooks)
    app.connect("source-read", link_notebooks)
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("autodoc-process-signature", class_signature, priority=400)  # before numpydoc
    app.connect("autodoc-process-docstring", adapt_docstring, priority=600)  # after numpydoc
    app.connect("build-finished", write_sitemap)
