"""Check an environment that contains only the dependencies of the package: all that needs no extra must work.

    python tests/bare.py [--hide] [doctests]

The program checks the parts that need only numpy, from a text to its entities, and each module: it can be imported, and
``help``, ``dir`` and ``import *`` of public modules show their names. If Dask is absent, the import of
``sklearn_hocrf.dask`` must raise an error with the command that installs it. ``doctests`` also runs the doctests of the
package and of README.md; ``--hide`` hides the installed libraries of all extras.

If a doctest needs a library of an extra, a comment on the first line that uses this library gives the command that
installs it: ``import skops.io  # pip install skops``. If the library is absent, the program omits the doctest from this
line on.
"""

import argparse
import doctest
import importlib
import pkgutil
import pydoc
import re
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

OPTIONAL = ("crfsuite", "dask", "distributed", "matplotlib", "pandas", "polars", "rich", "sklearn_crfsuite", "skops")
NEEDS = re.compile(r"  # pip install ([\w-]+)$")
README = Path(__file__).resolve().parents[1] / "README.md"


def runnable(examples):
    """Return the examples of a doctest that precede the first one whose library is absent."""
    for number, example in enumerate(examples):
        needed = NEEDS.search(example.source.strip())
        if needed and find_spec(needed[1].replace("-", "_")) is None:
            return examples[:number]
    return examples


def check_page(module):
    """Check the output of ``help``, ``dir`` and ``import *`` of a module."""
    page, names, starred = pydoc.plain(pydoc.render_doc(module)), dir(module), {}
    exec(f"from {module.__name__} import *", starred)
    for name in module.__all__:
        assert name in page or name == "__version__", f"help({module.__name__}) lacks {name}"
        assert name in names, f"dir({module.__name__}) lacks {name}"
        assert name in starred, f"from {module.__name__} import * lacks {name}"
    for name in names:
        assert hasattr(module, name), f"dir({module.__name__}) has {name}, which cannot be had"
        value = getattr(module, name)
        if isinstance(value, type) and value.__module__.startswith("sklearn_hocrf"):
            assert all(hasattr(value, attribute) or attribute.startswith("__") for attribute in dir(value)), name


def check_absent(package):
    """Check the error that the import of the Dask module raises if Dask is absent."""
    assert "dask" not in dir(package)
    assert not hasattr(package, "dask")
    assert "pip install 'sklearn_hocrf[dask]'" in pydoc.plain(pydoc.render_doc(package))
    assert "pip install 'sklearn_hocrf[dask]'" in error_of(AttributeError, lambda: package.dask)
    importing = error_of(ImportError, lambda: importlib.import_module("sklearn_hocrf.dask"))
    assert "pip install 'sklearn_hocrf[dask]'" in importing


NUMPY_ALONE = """
import sys
sys.modules.update(dict.fromkeys(["scipy", "sklearn", "numba", "joblib", "pandas"]))
from sklearn_hocrf.tagger import Tagger
from sklearn_hocrf.text import convert_tags, extract_segments, spans_from_tags, tags_from_spans, tokenize
X, tagger = tokenize(["Ann met Bob."]), Tagger(sys.argv[1])
y = [tagger.predict(X[0])]
assert spans_from_tags(X, y) == [[(0, 3, "PER"), (8, 11, "PER")]], y
assert tags_from_spans(X, [[(0, 3, "PER"), (8, 11, "PER")]]) == convert_tags(y, "bio", "bio") == y
assert extract_segments(y) == [[(0, 1, "PER"), (2, 3, "PER")]]
((start, stop, label, probability), _), = spans_from_tags(X, [tagger.predict_segments(X[0], with_probability=True)])
assert (start, stop, label) == (0, 3, "PER") and 0.5 < probability <= 1
"""


def check_numpy_alone(package):
    """Tag a text in a process that imports only numpy and the standard library."""
    X = package.text.tokenize(["Ann met Bob.", "Bob left."])
    y = package.text.tags_from_spans(X, [[(0, 3, "PER"), (8, 11, "PER")], [(0, 3, "PER")]])
    model = package.make_pipeline(package.feature_extraction.SequenceFeatureExtractor(), package.HighOrderCRF())
    with TemporaryDirectory() as folder:
        path = Path(folder, "names.hocrf")
        package.tagger.export_tagger(model.fit(X, y), path)
        run = subprocess.run([sys.executable, "-c", NUMPY_ALONE, path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def error_of(kind, get):
    """Return the message of the error that a call raises, or an empty string if it raises none."""
    try:
        get()
    except kind as error:
        return str(error)
    return ""


def modules(package):
    """Import all modules except those whose libraries are absent, and yield them."""
    yield package
    for _, name, is_package in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if name == "sklearn_hocrf.dask" and not (find_spec("dask") and find_spec("distributed")):
            check_absent(package)
        elif is_package:
            yield from modules(importlib.import_module(name))
        else:
            yield importlib.import_module(name)


def run_doctests(found):
    """Run the doctests of the modules and of README.md; return the number of failures."""
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    tests = [test for module in found for test in doctest.DocTestFinder().find(module)]
    text = README.read_text(encoding="utf-8")
    tests.append(doctest.DocTestParser().get_doctest(text, {}, README.name, str(README), 0))
    runner, n_left_out = doctest.DocTestRunner(optionflags=options), 0
    for test in tests:
        n_examples = len(test.examples)
        test.examples = runnable(test.examples)
        n_left_out += len(test.examples) < n_examples
        runner.run(test)
    n_tests = sum(bool(test.examples) for test in tests)
    sys.stdout.write(f"doctests: {n_tests} run, {runner.failures} examples failed; {n_left_out} need more\n")
    return runner.failures


def main():
    """Check all modules and the parts that the arguments select; the exit code is 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hide", action="store_true", help="hide the libraries of extras that are installed")
    parser.add_argument("what", nargs="?", choices=["doctests"], help="what to run beside")
    options = parser.parse_args()
    if options.hide:
        sys.modules.update(dict.fromkeys(OPTIONAL))
    else:
        there = [library for library in OPTIONAL if find_spec(library)]
        assert not there, f"this environment has {', '.join(there)}, which are no dependencies of the package"
    package = importlib.import_module("sklearn_hocrf")
    check_numpy_alone(package)
    assert package.crf.HighOrderCRF is package.HighOrderCRF
    found = list(modules(package))
    public = [module for module in found if "._" not in module.__name__]
    for module in public:
        if hasattr(module, "__all__"):
            check_page(module)
    sys.stdout.write(f"{len(found)} modules can be imported, {len(public)} of them are public\n")
    warnings.simplefilter("ignore")  # not converged
    return bool(options.what and run_doctests(found))


if __name__ == "__main__":
    sys.exit(main())
