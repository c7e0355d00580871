"""The layers of the package and the rules for kernels, read off the source text.

Each rule is a function from source text to a list of violations. It is applied to the package, which must have none,
and to a small offender, which must have one: a rule that never bites would pass unnoticed.
"""

import ast
import builtins
import inspect
import sys
from pathlib import Path

import pytest
from import_graph import module_circle, read_graph

import sklearn_hocrf
from sklearn_hocrf._inference.families import CHAIN, LATTICE, SEGMENTS
from sklearn_hocrf._inference.posterior import LanePosterior, Posterior

ROOT = Path(sklearn_hocrf.__file__).parent
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
KERNELS = {name: source for name, source in SOURCES.items() if name.startswith("_kernels/")}
KERNEL_FILES = {Path(name).stem for name in KERNELS}

# -------------------------------------------------------------------------------------------------------------- layers

# room -> other rooms of the package it may import; a room is a module or a subpackage of sklearn_hocrf
CORE = {"_kernels", "_data", "_structure", "_inference"}
LEARNING = {"_objectives", "_penalties", "_solvers"}
TOOLS = {"feature_extraction", "metrics", "datasets"}
ESTIMATORS = {"_estimator", "crf", "semicrf"}
MAY_IMPORT = {
    "_kernels": set(),
    "_files": set(),
    "_data": {"_kernels", "_files", "_version"},
    "_structure": {"_kernels", "_data"},
    "_inference": {"_kernels", "_data", "_structure"},
    "_objectives": CORE - {"_kernels"} | {"_settings"},
    "_version": set(),
    "_names_elsewhere": {"_data"},
    "_persistence": {"_version"},
    "_settings": set(),
    "_display": {"_kernels", "_data"},
    "_penalties": set(),
    "_solvers": {"_kernels", "_settings"},  # sums of vectors, which are no more of a CRF than BLAS
    "_validation": CORE | {"_tagger"},  # which reads feature dicts in the same way
    "feature_extraction": CORE | {"_validation", "_persistence", "_tagger"},  # some extractors learn from y, too
    "metrics": CORE | {"_validation", "_names_elsewhere"},
    "datasets": CORE | {"_validation"},
    "text": {"_data"},
    "inspection": CORE | {"_validation", "_display", "_estimator"},
    "training": {"_estimator", "_solvers"},
    "scores": CORE - {"_kernels"} | {"_settings", "_validation", "_estimator", "_tagger"},
    "_estimator": CORE | LEARNING | TOOLS | {"_validation", "_persistence", "_settings", "_tagger", "_names_elsewhere"},
    "_crfsuite": CORE | {"_validation", "_estimator", "_files"},
    "crf": CORE | LEARNING | TOOLS | {"_validation", "_persistence", "_settings", "_estimator", "_crfsuite"},
    "semicrf": CORE | LEARNING | TOOLS | {"_validation", "_persistence", "_settings", "_estimator"},
    "model_selection": CORE | LEARNING | {"_validation", "_persistence", "_settings", "_estimator", "metrics", "text"},
    "_pipeline": ESTIMATORS | {"_validation", "_names_elsewhere"},
    "_stacked": CORE | {"_validation", "_persistence", "_solvers", "crf"},
    "dask": CORE | {"_estimator", "_validation", "_objectives", "_persistence", "_settings"},
    "_tagger": set(),  # numpy alone: it may be copied elsewhere
    "_export": CORE | {"_validation", "_estimator", "_files", "_tagger"},
    "tagger": {"_tagger", "_crfsuite", "_export", "_names_elsewhere"},
    "__init__": TOOLS
    | ESTIMATORS
    | {
        "inspection",
        "_names_elsewhere",
        "_version",
        "_persistence",
        "_data",
        "training",
        "scores",
        "model_selection",
        "_pipeline",
        "_stacked",
        "text",
        "dask",
        "tagger",
    },
    "_warm_up": TOOLS | ESTIMATORS | {"_kernels", "model_selection", "training"},
    "_commands": TOOLS | ESTIMATORS | {"_files", "_persistence", "_pipeline", "_tagger", "tagger", "text"},
    "__main__": TOOLS | ESTIMATORS | {"__init__", "_warm_up", "_commands"},
}

# module -> the only units that may import it
OWNERS = {
    "numba": {"_kernels"},
    "llvmlite": {"_kernels"},  # numba's own back end
    "joblib": {"_inference"},
    "scipy.linalg": {"_solvers"},
    "scipy.optimize": {"_solvers"},
    "scipy.stats": {"metrics"},
    "threadpoolctl": {"_solvers"},  # a dependency of scikit-learn
    "pandas": {"_display"},  # imported when a table is made a frame
    "skops": {"_commands"},  # of the extra "skops": imported when a file of that name is written
    "dask": {"dask"},  # of the extra "dask": that room is imported only by those who ask for it
    "distributed": {"dask"},
}
SKLEARN = (
    TOOLS | ESTIMATORS | {"inspection", "_validation", "model_selection", "_pipeline", "_stacked", "_crfsuite", "dask"}
)
SKLEARN_NAMES = {  # room below these -> all that it may take from scikit-learn
    "_persistence": {"sklearn.exceptions.InconsistentVersionWarning"},
    "_solvers": {"sklearn.utils.check_random_state"},
}
PRIVATE_SKLEARN = "_validation/_sklearn.py"  # the only file that may import what scikit-learn may change
THIRD_PARTY = {"numpy", "scipy.sparse", "sklearn", *OWNERS}


def unit_of(name):
    return name.split("/")[0].removesuffix(".py")


def imported_modules(name, source):
    """Yield the absolute dotted name of everything the file imports, function-level imports included."""
    package = ["sklearn_hocrf", *name.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_in(module, package):
    return module == package or module.startswith(package + ".")


def layer_violations(name, source):
    unit = unit_of(name)
    if unit not in MAY_IMPORT:
        return [f"{name}: {unit} has no layer"]
    violations = []
    for module in imported_modules(name, source):
        if not is_in(module, "sklearn_hocrf"):
            continue
        target = module.split(".")[1] if module.count(".") else "__init__"
        target = target if target in MAY_IMPORT else "__init__"  # a name that the package itself defines
        if target != unit and target not in MAY_IMPORT[unit]:
            violations.append(f"{name} imports {module}")
        shared = any(is_in(module, f"{KERNEL_PACKAGE}.{stem}") for stem in KERNEL_FILES)
        if unit == "_kernels" and not name.endswith("__init__.py") and not shared:
            violations.append(f"{name} imports {module}: kernel files import each other alone")
    return violations


def dependency_violations(name, source):
    unit, violations = unit_of(name), []
    for module in imported_modules(name, source):
        if module.split(".")[0] in sys.stdlib_module_names or is_in(module, "sklearn_hocrf"):
            continue
        if not any(is_in(module, library) for library in THIRD_PARTY):
            violations.append(f"{name} imports {module}, which is no dependency of the package")
        for library, owners in OWNERS.items():
            if is_in(module, library) and unit not in owners:
                violations.append(f"{name} imports {module}, which belongs to {owners}")
        if is_in(module, "sklearn") and "._" in module and name != PRIVATE_SKLEARN:
            violations.append(f"{name} imports {module}, which is private: through {PRIVATE_SKLEARN} alone")
        if is_in(module, "sklearn") and unit not in SKLEARN and module not in SKLEARN_NAMES.get(unit, ()):
            violations.append(f"{name} imports {module} below the layers that know scikit-learn")
    return violations


def print_violations(name, source):
    if name in ("__main__.py", "_commands.py"):
        return []
    return [
        f"{name}, line {node.lineno}: print"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and node.id == "print"
    ]


LOCKLESS = "_data/forks.py"  # the only file that may use functools.cached_property, which it relieves of its lock


def lock_violations(name, source):
    """Nothing else has the lock that this property has before Python 3.12: a fork may copy it while it is held."""
    attributes = [ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    uses = [*imported_modules(name, source), *attributes].count("functools.cached_property")
    return [f"{name} uses functools.cached_property: that of {LOCKLESS} has no lock"] * (name != LOCKLESS and uses)


PRIVATE_ROOMS = {"_estimator", "crf", "semicrf"}  # they share the private members of estimators: FittedModel, FitSteps
OWN = {"self", "cls", "fresh", "np", "numba", "os", "sys"}


def private_violations(name, source):
    """Nobody but the estimators' own rooms reaches for a private member of an object that is not its own.

    Own are members that the file itself defines or sets. What `_validation` asks of estimators is declared there.
    """
    if unit_of(name) in PRIVATE_ROOMS | {"_kernels", "_validation"}:
        return []
    tree = ast.parse(source)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    reached = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    of_self = {node.attr for node in reached if isinstance(node.value, ast.Name) and node.value.id in OWN}
    return [
        f"{name}, line {node.lineno}: {ast.unparse(node)}"
        for node in reached
        if node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in OWN)
        and node.attr not in defined | of_self | NAMED_TUPLE
    ]


NAMED_TUPLE = {
    "_replace",
    "_fields",
    "_field_defaults",
    "_asdict",
    "_make",
    "_repr_html_",
}  # and what notebooks ask for


# ------------------------------------------------------------------------------------------------------------- kernels

KERNEL_PACKAGE = "sklearn_hocrf._kernels"
CACHE_NAMES = {  # of the decorator's file
    "numba",
    "numba.core.caching.FunctionCache",
    "numba.core.caching.IndexDataCacheFile",
    "numba.core.caching.NullCache",
    "numba.core.runtime._nrt_python",  # what machine code from the cache needs, without all that compiling needs
}
NUMBA_NAMES = {  # what vector intrinsics are made of; no njit but our own, no prange, jitclass, vectorize, overload ...
    "numba.config",
    "numba.types",
    "numba.core.cgutils",
    "numba.core.typing",
    "numba.extending.intrinsic",
    "numba.extending.models",
    "numba.extending.register_jitable",
    "numba.extending.register_model",
    "numba.np.arrayobj.make_array",
}
FLAGS = {"cache": True, "nogil": True, "error_model": "numpy"}
MOST_PARAMETERS, MOST_LINES = 10, 105
CALLABLE_BUILTINS = {"range", "len", "min", "max", "abs", "int", "float", "bool", "round", "enumerate", "zip"}


def jitted_functions(tree):
    return {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(item) for item in node.decorator_list)
    }


def intrinsics(tree):
    """Return the names of the module-level intrinsics: decorated functions, or results of a call of ``intrinsic``."""
    decorated = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and "intrinsic" in map(ast.unparse, node.decorator_list)
    }
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("intrinsic(")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return decorated | assigned


def flag_violations(name, source):
    """Every jitted function is a module-level ``@njit(cache=True, nogil=True, error_model="numpy", ...)``."""
    tree, violations = ast.parse(source), []
    decorators = set()
    for function in jitted_functions(tree).values():
        for decorator in function.decorator_list:
            decorators.add(decorator)
            flags = {}
            if isinstance(decorator, ast.Call):
                flags = {keyword.arg: ast.unparse(keyword.value) for keyword in decorator.keywords}
                if decorator.args:
                    violations.append(f"{name}: {function.name} has a signature; kernels compile lazily")
            violations += [
                f"{name}: {function.name} lacks {flag}={value!r}"
                for flag, value in FLAGS.items()
                if flags.get(flag) != repr(value)
            ]
            violations += [
                f"{name}: {function.name} has {flag}={flags[flag]}"
                for flag in ("fastmath", "parallel")
                if flags.get(flag, "False") == "True"
            ]
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "njit"]
    if len(used) != len(decorators):
        violations.append(f"{name}: njit is used otherwise than as a decorator of a module-level function")
    allowed = CACHE_NAMES if name == "_kernels/_jit.py" else NUMBA_NAMES
    for module in imported_modules(name, source):
        if is_in(module, "numba") and module not in allowed:
            violations.append(f"{name} imports {module}")
    return violations


def size_violations(name, source):
    """Jitted functions are short and have few parameters: what belongs together arrives as a NamedTuple."""
    violations = []
    for function in jitted_functions(ast.parse(source)).values():
        n_lines, arguments = function.end_lineno - function.lineno + 1, function.args
        n_parameters = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
        if arguments.vararg or n_parameters > MOST_PARAMETERS:
            violations.append(f"{name}: {function.name} has {n_parameters} parameters, or any number")
        if n_lines > MOST_LINES:
            violations.append(f"{name}: {function.name} has {n_lines} lines")
    return violations


def taken_kernels(tree):
    """Return what a file imports by ``from .file import name``, as the stamp of the disk cache follows it."""
    return {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for alias in node.names
        if alias.asname is None and node.module in KERNEL_FILES
    }


def closure_violations(name, source):
    """Jitted code uses jitted functions and intrinsics of its own file only, and uses them only by calling them.

    What comes from another file of kernels counts as own, provided that the disk cache's stamp knows of it.
    """
    tree, violations = ast.parse(source), []
    jitted = jitted_functions(tree)
    kernels = {*jitted, *intrinsics(tree), *taken_kernels(tree)}
    constants = {kernel for kernel in kernels if kernel.isupper()}  # compiled in, of the shared files only
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    foreign = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).split(".")[0] not in ("numpy", "math")
    }
    plain = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} - kernels
    for function in jitted.values():
        inside = [node for statement in function.body for node in ast.walk(statement)]
        called = [node.func for node in inside if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        for node in called:
            if node.id not in {*kernels, *classes, *CALLABLE_BUILTINS}:
                violations.append(
                    f"{name}, line {node.lineno}: {function.name} calls {node.id}, no kernel of this file"
                )
        for node in inside:
            if isinstance(node, ast.Name) and node.id in (foreign | plain) - kernels:
                violations.append(f"{name}, line {node.lineno}: {function.name} uses {node.id} from outside")
            if isinstance(node, ast.Name) and node.id in kernels - constants and node not in called:
                violations.append(f"{name}, line {node.lineno}: {function.name} passes the kernel {node.id} around")
    return violations


# --------------------------------------------------------------------------------------------------------------- tests

RULES = [layer_violations, dependency_violations, print_violations, lock_violations, private_violations]
KERNEL_RULES = [flag_violations, size_violations, closure_violations]


def test_there_is_something_to_look_at():
    assert {"__init__.py", "__main__.py", "_data/batch.py", "crf.py", "_inference/chain.py"} <= set(SOURCES)
    assert set(KERNELS) > {"_kernels/__init__.py"}
    assert any(jitted_functions(ast.parse(source)) for source in KERNELS.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package(rule):
    assert [violation for name, source in SOURCES.items() for violation in rule(name, source)] == []


@pytest.mark.parametrize("rule", KERNEL_RULES, ids=lambda rule: rule.__name__)
def test_kernels(rule):
    assert [violation for name, source in KERNELS.items() for violation in rule(name, source)] == []


def test_no_modules_import_each_other():
    assert module_circle(read_graph(ROOT)) is None


@pytest.mark.parametrize(
    "late",
    [
        "from .a import A",
        "def f():\n    from .a import A",
        "import sklearn_hocrf.a",
        "import_module('sklearn_hocrf.a').f()",
    ],
)
def test_circles_bite(tmp_path, late):
    for name, source in {"a": "from .b import B", "b": late, "c": "from . import a, b"}.items():
        (tmp_path / f"{name}.py").write_text(source)
    assert module_circle(read_graph(tmp_path)) in ("a -> b -> a", "b -> a -> b")


# ------------------------------------------------------------------------------------------------- questions to models


PARTS_OF_ANSWERS = {"LatticePosterior": {"lattice_marginals", "exact"}}  # public methods that are no questions


def methods_of(posterior):
    return {name: method for name, method in vars(posterior).items() if inspect.isfunction(method) and name[0] != "_"}


def question_violations(posterior):
    """Return which questions a class answers that :class:`Posterior` does not declare so."""
    name, declared = posterior.__name__, methods_of(Posterior)
    own, known = methods_of(posterior), declared | methods_of(LanePosterior)
    violations = [f"{name}.{extra} is not declared" for extra in own.keys() - known - PARTS_OF_ANSWERS.get(name, set())]
    for question, method in declared.items():
        asked, answered = (list(inspect.signature(f).parameters) for f in (method, own.get(question, method)))
        if asked != answered:
            violations.append(f"{name}.{question} has the parameters {answered}, not {asked}")
    return violations


@pytest.mark.parametrize("family", [CHAIN, SEGMENTS, LATTICE], ids=lambda family: family.model.__name__)
def test_questions_are_declared_once(family):
    assert question_violations(family.model.posterior_class) == []
    assert not family.model.__abstractmethods__ | family.model.posterior_class.__abstractmethods__


def test_questions_bite():
    class Other(CHAIN.model.posterior_class):
        def decode(self, mask=None):
            """Have a parameter that nobody has declared."""

        def guess(self):
            """Answer what nobody has declared."""

    violations = " ".join(question_violations(Other))
    for expected in ("Other.decode has", "Other.guess is not declared"):
        assert expected in violations


def test_builtins_that_kernels_may_call_exist():
    assert set(dir(builtins)) >= CALLABLE_BUILTINS


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (layer_violations, "_data/batch.py", "from .._structure.automaton import build_automaton"),
        (private_violations, "inspection/_weights.py", "def f(fitted):\n    return fitted._layout"),
        (
            private_violations,
            "model_selection/_temperature.py",
            "def f(fitted):\n    return fitted.estimator._ask('decode')",
        ),
        (lock_violations, "_tagger.py", "from functools import cached_property, partial"),
        (lock_violations, "_kernels/_jit.py", "import functools\n\n\nclass A:\n    f = functools.cached_property(g)"),
        (layer_violations, "_solvers.py", "from sklearn_hocrf import _objectives"),
        (layer_violations, "_structure/layout.py", "def f():\n    import sklearn_hocrf._inference.chain"),
        (layer_violations, "_inference/chain.py", "from .._objectives import Problem"),
        (layer_violations, "_objectives/_problem.py", "from .._kernels import lattice"),
        (layer_violations, "_solvers/_lbfgs.py", "from .._inference.chain import ChainModel"),
        (layer_violations, "datasets/_files.py", "from .. import crf"),
        (layer_violations, "datasets/_files.py", "from ..crf import HighOrderCRF"),
        (layer_violations, "crf.py", "from . import HighOrderCRF"),
        (layer_violations, "_kernels/crf.py", "from .decode import viterbi"),
        (layer_violations, "novelty.py", ""),
        (dependency_violations, "crf.py", "import numba"),
        (dependency_violations, "crf.py", "from joblib import Parallel"),
        (dependency_violations, "_objectives.py", "from scipy import optimize"),
        (dependency_violations, "_inference/chain.py", "from sklearn.utils import check_array"),
        (dependency_violations, "_solvers/_lbfgs.py", "from sklearn.utils import check_array"),
        (dependency_violations, "_persistence.py", "from sklearn import exceptions"),
        (dependency_violations, "_estimator/base.py", "import pandas as pd"),
        (dependency_violations, "_estimator/base.py", "from sklearn.base import BaseEstimator, _fit_context"),
        (dependency_violations, "metrics/__init__.py", "from sklearn.utils._param_validation import Interval"),
        (dependency_violations, "_estimator/base.py", "from scipy.special import logsumexp"),
        (print_violations, "crf.py", "def f():\n    print(1)"),
    ],
)
def test_rules_bite(rule, name, source):
    assert rule(name, source)


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (
            layer_violations,
            "crf.py",
            "from ._estimator.base import BaseSequenceLabeler\nfrom sklearn_hocrf import _data",
        ),
        (layer_violations, "datasets/__init__.py", "from ._files import load_conll"),
        (layer_violations, "__main__.py", "from sklearn_hocrf import HighOrderCRF, datasets"),
        (dependency_violations, "_kernels/crf.py", "import numba\nimport math"),
        (dependency_violations, "_validation/_sklearn.py", "from sklearn.base import _fit_context"),
        (dependency_violations, "_solvers.py", "from scipy import optimize"),
        (print_violations, "__main__.py", "print(1)"),
        (lock_violations, LOCKLESS, SOURCES[LOCKLESS]),
        (lock_violations, "crf.py", "import functools\nfrom ._data.forks import cached_property"),
    ],
)
def test_rules_leave_the_innocent_alone(rule, name, source):
    assert rule(name, source) == []


GOOD = '@njit(cache=True, nogil=True, error_model="numpy")\ndef good(x):\n    return np.exp(min(x, 0.0))\n'
DECORATOR = GOOD.split("\n")[0]


@pytest.mark.parametrize("rule", KERNEL_RULES, ids=lambda rule: rule.__name__)
def test_kernel_rules_leave_the_innocent_alone(rule):
    intrinsic = "@intrinsic\ndef _load(context, x):\n    return x\n_add = intrinsic(_binary(1))\n"
    caller = f"{DECORATOR}\ndef caller(x):\n    return _add(_load(x), good(x))\n"
    source = f"import numpy as np\nfrom ._jit import njit\n{intrinsic}{GOOD}{caller}"
    assert rule("_kernels/crf.py", source) == []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (flag_violations, "@njit\ndef f(x):\n    return x"),
        (flag_violations, '@njit(nogil=True, error_model="numpy")\ndef f(x):\n    return x'),
        (flag_violations, DECORATOR.replace("nogil=True", "nogil=False") + "\ndef f(x):\n    return x"),
        (flag_violations, DECORATOR.replace("numpy", "python") + "\ndef f(x):\n    return x"),
        (flag_violations, DECORATOR.replace(")", ", fastmath=True)") + "\ndef f(x):\n    return x"),
        (flag_violations, DECORATOR.replace(")", ", parallel=True)") + "\ndef f(x):\n    return x"),
        (flag_violations, DECORATOR.replace("(", "('f8(f8)', ") + "\ndef f(x):\n    return x"),
        (flag_violations, f"def make():\n    {DECORATOR}\n    def f(x):\n        return x\n    return f"),
        (flag_violations, "def f(x):\n    return x\ng = njit(cache=True)(f)"),
        (flag_violations, "from numba import prange"),
        (flag_violations, f"from numba import njit\n{GOOD}"),
        (size_violations, f"{DECORATOR}\ndef f({', '.join(f'x{i}' for i in range(11))}):\n    return x0"),
        (size_violations, f"{DECORATOR}\ndef f(x, *, {', '.join(f'x{i}' for i in range(10))}):\n    return x0"),
        (size_violations, f"{DECORATOR}\ndef f(*x):\n    return x[0]"),
        (size_violations, f"{DECORATOR}\ndef f(x):\n" + 104 * "    x += 1\n" + "    return x"),
        (closure_violations, f"from .other import g\n{DECORATOR}\ndef f(x):\n    return g(x)"),
        (closure_violations, f"from . import other\n{DECORATOR}\ndef f(x):\n    return other.g(x)"),
        (closure_violations, f"def g(x):\n    return x\n{DECORATOR}\ndef f(x):\n    return g(x)"),
        (closure_violations, f"from .other import _load\n{DECORATOR}\ndef f(x):\n    return _load(x)"),
        (closure_violations, f"from ._vectors import add as plus\n{DECORATOR}\ndef f(x):\n    return plus(x, x)"),
        (closure_violations, f"if True:\n    from ._vectors import add\n{DECORATOR}\ndef f(x):\n    return add(x, x)"),
        (
            closure_violations,
            f"from sklearn_hocrf._kernels._vectors import add\n{GOOD}{DECORATOR}\ndef f(x):\n    return add(x, x)",
        ),
        (closure_violations, f"{DECORATOR}\ndef f(g, x):\n    return g(x)"),
        (closure_violations, f"{GOOD}{DECORATOR}\ndef f(x):\n    g = good\n    return x"),
    ],
)
def test_kernel_rules_bite(rule, source):
    assert rule("_kernels/crf.py", source)
