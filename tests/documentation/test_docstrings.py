"""Docstrings are reStructuredText for the pages of the site: docutils parses each of them without errors."""

import ast
import inspect
import operator
import pkgutil
import re
import textwrap
from pathlib import Path

import pytest

import sklearn_hocrf
from sklearn_hocrf._data.tagger import PREFIXES

SECTIONS = "Parameters|Attributes|Returns|Yields|Raises|Warns|Other Parameters"
MODULES = [m for _, m, _ in pkgutil.iter_modules(sklearn_hocrf.__path__) if m[0] != "_"]


@pytest.fixture(scope="module")
def complaints():
    """Return a function from a docstring to what docutils has to say about it."""
    pytest.importorskip("docutils", reason="docutils is absent")
    from docutils import nodes
    from docutils.core import publish_doctree
    from docutils.parsers.rst import roles

    for role in ("class", "func", "meth", "mod", "attr", "data", "exc", "obj", "ref"):  # Sphinx knows these
        roles.register_generic_role(role, nodes.literal)
    settings = {"report_level": 2, "halt_level": 5, "warning_stream": False, "file_insertion_enabled": False}

    def read(text):
        tree = publish_doctree(as_numpydoc_reads_it(text), settings_overrides=settings)
        return [message.astext() for message in tree.findall(nodes.system_message) if message["level"] > 1]

    return read


def as_numpydoc_reads_it(text):
    """Return a docstring with the headers of its entries, such as ``coef_ : ndarray`` and ``*steps``, as literals."""
    for part in re.findall(rf"^(?:{SECTIONS})\n-+\n(?:.*\n?)*?(?=^\S.*\n-{{3,}}$|\Z)", text, re.MULTILINE):
        head, line, body = re.split(r"^(-+)$", part, maxsplit=1, flags=re.MULTILINE)
        entries = re.sub(r"^(\S.*)$", lambda entry: f"\n``{entry[1].replace('`', '')}``", body, flags=re.MULTILINE)
        text = text.replace(part, head + line + entries)
    return text


def docstrings(module):
    """Yield the names and docstrings of a module, its public names, and the public methods of its classes."""
    yield module.__name__, inspect.getdoc(module)
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.ismodule(value) or isinstance(value, (int, str, list, tuple)):
            continue
        yield public, inspect.getdoc(value)
        for name in dir(value) if inspect.isclass(value) else ():
            owner = next(base for base in value.__mro__ if name in vars(base))
            member = vars(owner)[name]
            is_ours = owner.__module__.startswith("sklearn_hocrf") and not name.endswith("_request")  # scikit-learn's
            if not name.startswith("_") and is_ours and (callable(member) or inspect.isdatadescriptor(member)):
                yield f"{public}.{name}", inspect.getdoc(getattr(value, name))


@pytest.mark.parametrize("name", ["", *MODULES])
def test_docstrings_are_restructured_text(complaints, name):
    module = pytest.importorskip(f"sklearn_hocrf.{name}".rstrip("."), exc_type=ImportError)
    found = {place: text or "" for place, text in docstrings(module)}
    assert not [place for place, text in found.items() if "." not in place and text.count(" ") < 2]
    assert not [(place, errors) for place, text in found.items() if (errors := complaints(text))]
    assert not [place for place, text in found.items() if re.search(r"[a-z] -{4}|\n\n\n", text)]


def public_functions(module):
    """Yield the place, the docstring and the function of what is public and callable; ``__init__`` for classes."""
    for place, text in docstrings(module):
        name, _, method = place.partition(".")
        value = getattr(module, name, None)  # not for the module itself
        if inspect.isclass(value):
            value = inspect.getattr_static(value, method or "__init__")
            value = getattr(value, "fn", getattr(value, "__func__", value))  # of available_if; of a class method
        if inspect.isfunction(value):
            yield place, text or "", inspect.unwrap(value)


def raises(function):
    """Return whether the code of a function itself has a statement that raises a new error."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(tree))


@pytest.mark.parametrize("name", ["", *MODULES])
def test_docstrings_have_examples_errors_and_cited_references(name):
    module = pytest.importorskip(f"sklearn_hocrf.{name}".rstrip("."), exc_type=ImportError)
    found = {place: text or "" for place, text in docstrings(module)}
    assert not [place for place in found if "." not in place and not re.search(r"^ *>>> ", found[place], re.MULTILINE)]
    listed = {place: set(re.findall(r"^\.\. \[(\d)\]", text, re.MULTILINE)) for place, text in found.items()}
    assert not [place for place, numbers in listed.items() if numbers - set(re.findall(r"\[(\d)\]_", found[place]))]
    assert not [place for place, text, code in public_functions(module) if raises(code) and "\nRaises\n---" not in text]


def test_docstrings_name_all_tagging_schemes():
    """A list of schemes that contains one of tags contains all of them."""
    lists = [
        (path.name, set(re.findall(r'"(\w+)"', found)))
        for path in Path(sklearn_hocrf.__file__).parent.rglob("*.py")
        for found in re.findall(r"^ *\w+ : \{(.*)\}", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    of_tags = [(name, schemes) for name, schemes in lists if "bio" in schemes]
    assert of_tags
    assert not [name for name, schemes in of_tags if not PREFIXES.keys() <= schemes]


def entries(documented):
    """Return the entries of a docstring, such as parameters, by name."""
    text = re.finditer(
        r"^(\w+(?:, \w+)*) : .*\n(?:(?:    .*)?\n)*(?:    .*\n?)", inspect.getdoc(documented), re.MULTILINE
    )
    return {name: match[0].rstrip() for match in text for name in match[1].split(", ")}


OWN = "max_order patterns min_count fit_intercept all_pairs constraints classes_ patterns_ scheme_"
SAME = [  # an object, another one that has entries of the same names, the names of those that differ
    ("HighOrderCRF", "HighOrderSemiCRF", OWN),
    ("metrics.segment_precision_recall_fscore_support", "metrics.segment_classification_report", ""),
    ("metrics.segment_precision_recall_fscore_support", "metrics.segment_f1_score", "average"),
]


@pytest.mark.parametrize(("first", "second", "own"), SAME)
def test_the_same_parameter_has_the_same_words(first, second, own):
    one, other = (entries(operator.attrgetter(name)(sklearn_hocrf)) for name in (first, second))
    assert len(one.keys() & other.keys()) > len(own.split())
    assert {name for name in one.keys() & other.keys() if one[name] != other[name]} == set(own.split())


@pytest.mark.parametrize("estimator", [sklearn_hocrf.HighOrderCRF, sklearn_hocrf.HighOrderSemiCRF])
def test_estimators_have_the_attributes_that_they_document(estimator):
    """Neither has a parameter or attribute of the other one."""
    crf = estimator(solver="sgd", random_state=0).fit([[["a"], ["b"]]], [["A", "B"]])
    names = {*dir(estimator), *vars(crf)}  # dir of the object leaves out what is not defined
    found = {name for name in names if name[0] != "_" and not callable(getattr(crf, name, None))}
    assert found == entries(estimator).keys()
