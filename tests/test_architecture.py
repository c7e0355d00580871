"""The layers of the package and the rules for kernels, checked on the source code.

Each rule is a function from source code to a list of violations. The tests apply it to the package, which must have no
violations, and to a small example that violates it, because a rule that finds nothing would otherwise pass unnoticed.
"""

import ast
import functools
import inspect
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import sklearn_hocrf
from sklearn_hocrf._engine.inference.candidates import LatticeModel
from sklearn_hocrf._engine.inference.chain import ChainModel
from sklearn_hocrf._engine.inference.posterior import LanePosterior, Posterior
from sklearn_hocrf._engine.inference.segment import SegmentModel

ROOT = Path(sklearn_hocrf.__file__).parent
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
KERNELS = {name: source for name, source in SOURCES.items() if name.startswith("_engine/kernels/")}
PARTED = ("_engine", "_estimator")  # their subpackages are components
KERNEL_FILES = {Path(name).stem for name in KERNELS}
parse = functools.cache(ast.parse)  # several rules read each file


@functools.cache
def nodes_of(source):
    return [*ast.walk(parse(source))]


# -------------------------------------------------------------------------------------------------------------- layers

# component -> other components that it may import, in layers from below; a component is a module or a subpackage of
# sklearn_hocrf, or a subpackage of _engine or _estimator
ENGINE = {"_engine.structure", "_engine.inference", "_engine.training"}
ESTIMATORS = {"_estimator", "_estimator.labels", "_estimator.answers", "_estimator.fit"}
BELOW = {"_data", "_sklearn", "_reading"}
TOOLS = {"datasets", "feature_extraction", "metrics", "text"}
FACES = {"crf", "semicrf", "training", "tagger", "scores", "inspection", "model_selection", "dask"}
MAY_IMPORT = {
    "_data": set(),  # numpy and scipy.sparse alone: it knows no labels
    "datasets": {"_data"},
    "_sklearn": {"_data"},
    "_engine": set(),
    "_engine.kernels": set(),
    "_engine.structure": {"_data", "_engine.kernels"},
    "_engine.inference": {"_data", "_engine.kernels", "_engine.structure"},
    "_engine.training": {"_data", "_engine.kernels", "_engine.structure", "_engine.inference"},
    "_reading": {"_data", "_sklearn", "_engine.kernels"},  # one kernel, which sorts attributes, imported at its call
    "feature_extraction": BELOW | {"_engine.kernels"},  # likewise, which mixes the numbers of tokens
    "metrics": BELOW,
    "text": {"_data", "_reading"},
    "_estimator.labels": {"_data", "_reading", "_engine.structure", "_engine.inference", "_engine.kernels"},
    "_estimator.answers": BELOW | ENGINE | {"_estimator.labels"},
    "_estimator.fit": BELOW | ENGINE | {"_estimator.labels", "_estimator.answers"},
    "_estimator": BELOW | ENGINE - {"_engine.inference"} | ESTIMATORS - {"_estimator"},
    "crf": {"_estimator"},
    "semicrf": {"_estimator"},
    "training": {"_estimator", "_engine.training"},
    "tagger": {"_data", "_estimator", "_engine.inference"},
    "scores": {
        "_data",
        "_reading",
        "_engine.structure",
        "_engine.inference",
        "_estimator.labels",
        "_estimator.answers",
    },
    "inspection": BELOW | {"_engine.structure", "_estimator.answers"},
    "model_selection": BELOW | ENGINE | ESTIMATORS - {"_estimator.labels"},
    "dask": BELOW | ENGINE - {"_engine.inference"} | ESTIMATORS,
    "__init__": {"_data", "_sklearn", "_estimator", "_estimator.labels"} | TOOLS | FACES,
    "_shell": {"_data", "_engine.kernels", "__init__"},  # public names, as any user has them
    "__main__": {"_shell"},
}

INTERFACE = {  # module of _engine -> the names that other components may import from it
    "": "kernels",
    "inference.candidates": "LatticeModel LevelZero",
    "inference.chain": "ChainModel OneSequence",
    "inference.model": "LabelledBatch Model",
    "inference.posterior": "Evidence Posterior",
    "inference.segment": "SegmentModel",
    "kernels": "lists",
    "kernels._jit": "waiting",
    "kernels.lists": "mix_strings sort_ids",
    "kernels.tag_segments": "Tags",
    "structure.layout": "FeatureCounts LayoutBuilder LayoutFrame WeightLayout",
    "structure.pairs": "FeatureMap LabelParts PairRule SetSequences",
    "structure.patterns": (
        "PatternCounts PatternTable SEGMENTS TOKENS "
        "all_patterns contain_any count_patterns given_patterns has_equal_neighbours "
        "without_equal_neighbours"
    ),
    "structure.segment_ages": "what_is_slow",
    "structure.segment_layout": "SegmentLayoutBuilder",
    "structure.weighted_arcs": "arcs_of_labels compile_patterns weighted_arcs",
    "training.hypergradient": "Fold FoldStep",
    "training.lbfgs": "LBFGS",
    "training.minimise": "minimise",
    "training.objectives": "OBJECTIVES Objective",
    "training.penalties": "Penalty",
    "training.problem": "LARGE Problem",
    "training.pruning": "prune",
    "training.solvers": (
        "Minimizer Progress ROUNDING STOPPED SearchEnd Solver SolverReport minimize_in_box one_blas_thread "
        "zero_of_slope"
    ),
    "training.stochastic": "SGD TrainingState",
}

# module -> the only components that may import it
OWNERS = {
    "numba": {"_engine.kernels"},
    "llvmlite": {"_engine.kernels"},  # numba's own back end
    "joblib": {"_engine.inference"},
    "scipy.linalg": {"_engine.training"},
    "scipy.optimize": {"_engine.training"},
    "scipy.stats": {"metrics"},
    "threadpoolctl": {"_engine.training"},  # a dependency of scikit-learn
    "pandas": {"inspection"},  # imported when a table is made a frame
    "matplotlib": {"inspection"},  # of the extra "plot": imported when a display is plotted
    "skops": {"_shell"},  # of the extra "skops": imported when a file of that name is written
    "dask": {"dask"},  # of the extra "dask": imported only by users who ask for it
    "distributed": {"dask"},
}
SKLEARN = TOOLS | ESTIMATORS | {"_sklearn", "_reading", "datasets", "inspection", "model_selection", "dask"}
SKLEARN_NAMES = {  # component below these -> all that it may import from scikit-learn
    "_engine.training": {"sklearn.base.BaseEstimator", "sklearn.utils.check_random_state"},  # of settings of solvers
}
PRIVATE_SKLEARN = "_sklearn/names.py"  # the only file that may import what scikit-learn may change
THIRD_PARTY = {"numpy", "scipy.sparse", "sklearn", *OWNERS}


def unit_of(name):
    first, *rest = name.removesuffix(".py").split("/")
    return f"{first}.{rest[0]}" if len(rest) > 1 and first in PARTED else first


@functools.cache
def imported_modules(name, source):
    """Return the absolute dotted names of all imports of a file, including those inside functions."""
    package, found = ["sklearn_hocrf", *name.split("/")[:-1]], []
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [f"{module}.{alias.name}" for alias in node.names]
    return found


def module_circle(sources):
    """Return the modules of an import cycle, or None; modules of a package may import the package's own file."""
    module_of = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in sources}
    graph = {}
    for name, source in sources.items():
        own = module_of[name]
        targets = graph[own] = set()
        for imported in imported_modules(name, source):
            parts = imported.split(".")[1:] if is_in(imported, "sklearn_hocrf") else []
            while parts and ".".join(parts) not in module_of.values():
                parts.pop()
            targets |= {".".join(parts)} - {"", own, own.split(".")[0]}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


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
        parts = module.split(".")[1:]
        target = next((name for n in (2, 1) if (name := ".".join(parts[:n])) in MAY_IMPORT), "__init__")
        if target != unit and target not in MAY_IMPORT[unit]:
            violations.append(f"{name} imports {module}")
        shared = any(is_in(module, f"{KERNEL_PACKAGE}.{stem}") for stem in KERNEL_FILES)
        if unit == "_engine.kernels" and not name.endswith("__init__.py") and not shared:
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


PRIVATE_COMPONENTS = ESTIMATORS | {"_sklearn", "_engine.kernels"}  # FittedModel, FitSteps ...
OWN = {"self", "cls", "fresh", "np", "numba", "os", "sys"}


def private_violations(name, source):
    """Check that only components of the estimators use private members of other objects.

    A file may use all members that it defines or sets.
    """
    if unit_of(name) in PRIVATE_COMPONENTS:
        return []
    defined = {node.name for node in nodes_of(source) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    reached = [node for node in nodes_of(source) if isinstance(node, ast.Attribute)]
    of_self = {node.attr for node in reached if isinstance(node.value, ast.Name) and node.value.id in OWN}
    return [
        f"{name}, line {node.lineno}: {ast.unparse(node)}"
        for node in reached
        if node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in OWN)
        and node.attr not in defined | of_self | NAMED_TUPLE
    ]


NAMED_TUPLE = {"_replace", "_fields", "_field_defaults", "_asdict", "_make"} | {"_repr_html_"}  # of notebooks


# ------------------------------------------------------------------------------------------------------------- kernels

KERNEL_PACKAGE = "sklearn_hocrf._engine.kernels"
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
    """Return the names of the module-level intrinsics: decorated functions, and results of a call of ``intrinsic``."""
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
    """Check that jitted functions are module-level ``@njit(cache=True, nogil=True, error_model="numpy", ...)``."""
    tree, violations = parse(source), []
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
    used = [node for node in nodes_of(source) if isinstance(node, ast.Name) and node.id == "njit"]
    if len(used) != len(decorators):
        violations.append(f"{name}: njit is used otherwise than as a decorator of a module-level function")
    allowed = CACHE_NAMES if name == "_engine/kernels/_jit.py" else NUMBA_NAMES
    for module in imported_modules(name, source):
        if is_in(module, "numba") and module not in allowed:
            violations.append(f"{name} imports {module}")
    return violations


def size_violations(name, source):
    """Check that jitted functions are short and have few parameters; related values are passed as a NamedTuple."""
    violations = []
    for function in jitted_functions(parse(source)).values():
        n_lines, arguments = function.end_lineno - function.lineno + 1, function.args
        n_parameters = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
        if arguments.vararg or n_parameters > MOST_PARAMETERS:
            violations.append(f"{name}: {function.name} has {n_parameters} parameters, or any number")
        if n_lines > MOST_LINES:
            violations.append(f"{name}: {function.name} has {n_lines} lines")
    return violations


def taken_kernels(tree):
    """Return the names that a file imports by ``from .file import name``, which the key of the disk cache follows."""
    return {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for alias in node.names
        if alias.asname is None and node.module in KERNEL_FILES
    }


def closure_violations(name, source):
    """Check that jitted code uses only jitted functions and intrinsics of the same file, and only calls them.

    Names from another file of kernels are allowed if the key of the disk cache includes this file.
    """
    tree, violations = parse(source), []
    jitted = jitted_functions(tree)
    kernels = {*jitted, *intrinsics(tree), *taken_kernels(tree)}
    constants = {kernel for kernel in kernels if kernel.isupper()}  # compiled in, of the shared files only
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    foreign = {
        (alias.asname or alias.name).split(".")[0]
        for node in nodes_of(source)
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

RULES = [layer_violations, dependency_violations, private_violations]
KERNEL_RULES = [flag_violations, size_violations, closure_violations]


def test_there_is_something_to_look_at():
    assert {"__init__.py", "__main__.py", "_data/batch.py", "crf.py", "_engine/inference/chain.py"} <= set(SOURCES)
    assert set(KERNELS) > {"_engine/kernels/__init__.py"}
    assert any(jitted_functions(parse(source)) for source in KERNELS.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package(rule):
    assert [violation for name, source in SOURCES.items() for violation in rule(name, source)] == []


@pytest.mark.parametrize("rule", KERNEL_RULES, ids=lambda rule: rule.__name__)
def test_kernels(rule):
    assert [violation for name, source in KERNELS.items() for violation in rule(name, source)] == []


def test_no_modules_import_each_other():
    assert module_circle(SOURCES) is None
    circle = {"a.py": "from .b import B", "b.py": "def f():\n    from .a import A", "c.py": "from . import a, b"}
    assert sorted(module_circle(circle)) in (["a", "a", "b"], ["a", "b", "b"])


def test_other_components_import_only_the_interface_of_the_engine():
    others = [(name, source) for name, source in SOURCES.items() if not name.startswith("_engine/")]
    taken = {module for one in others for module in imported_modules(*one) if is_in(module, "sklearn_hocrf._engine")}
    named = {f"{module}.{name}".strip(".") for module, names in INTERFACE.items() for name in names.split()}
    assert {module.removeprefix("sklearn_hocrf._engine.") for module in taken} == named


# ------------------------------------------------------------------------------------------------- questions to models


PARTS_OF_ANSWERS = {"LatticePosterior": {"lattice_marginals", "exact"}}  # public methods that are no questions


def methods_of(posterior):
    return {name: method for name, method in vars(posterior).items() if inspect.isfunction(method) and name[0] != "_"}


def question_violations(posterior):
    """Return the queries of a class that :class:`Posterior` does not declare, or declares with other parameters."""
    name, declared = posterior.__name__, methods_of(Posterior)
    own, known = methods_of(posterior), declared | methods_of(LanePosterior)
    violations = [f"{name}.{extra} is not declared" for extra in own.keys() - known - PARTS_OF_ANSWERS.get(name, set())]
    for question, method in declared.items():
        asked, answered = (list(inspect.signature(f).parameters) for f in (method, own.get(question, method)))
        if asked != answered:
            violations.append(f"{name}.{question} has the parameters {answered}, not {asked}")
    return violations


@pytest.mark.parametrize("model", [ChainModel, SegmentModel, LatticeModel])
def test_questions_are_declared_once(model):
    assert question_violations(model.posterior_class) == []
    assert not model.posterior_class.__abstractmethods__


KERNEL = '@njit(cache=True, nogil=True, error_model="numpy")\ndef f(x):\n    return x'


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (layer_violations, "_data/batch.py", "from .._engine.structure.automaton import build_automaton"),
        (layer_violations, "_engine/structure/layout.py", "def f():\n    import sklearn_hocrf._engine.inference.chain"),
        (layer_violations, "crf.py", "from . import HighOrderCRF"),
        (layer_violations, "_engine/kernels/crf.py", "from .decode import viterbi"),
        (layer_violations, "novelty.py", ""),
        (dependency_violations, "crf.py", "import numba"),
        (dependency_violations, "_data/batch.py", "from sklearn import exceptions"),
        (dependency_violations, "_estimator/base.py", "from sklearn.base import BaseEstimator, _fit_context"),
        (dependency_violations, "_estimator/base.py", "from scipy.special import logsumexp"),
        (private_violations, "inspection/_weights.py", "def f(fitted):\n    return fitted._layout"),
        (flag_violations, "_engine/kernels/crf.py", KERNEL.replace("nogil=True", "nogil=False")),
        (flag_violations, "_engine/kernels/crf.py", KERNEL.replace(")", ", parallel=True)", 1)),
        (flag_violations, "_engine/kernels/crf.py", KERNEL.replace("(", "('f8(f8)', ", 1)),
        (flag_violations, "_engine/kernels/crf.py", "def f(x):\n    return x\ng = njit(cache=True)(f)"),
        (flag_violations, "_engine/kernels/crf.py", "from numba import prange"),
        (
            size_violations,
            "_engine/kernels/crf.py",
            KERNEL.replace("(x)", f"({', '.join(f'x{i}' for i in range(11))})"),
        ),
        (size_violations, "_engine/kernels/crf.py", KERNEL.replace("    return", 104 * "    x += 1\n" + "    return")),
        (closure_violations, "_engine/kernels/crf.py", "from .other import g\n" + KERNEL.replace("n x", "n g(x)")),
        (closure_violations, "_engine/kernels/crf.py", "def g(x):\n    return x\n" + KERNEL.replace("n x", "n g(x)")),
        (
            closure_violations,
            "_engine/kernels/crf.py",
            KERNEL + "\n" + KERNEL.replace("f(x)", "h(x)").replace("n x", "n f"),
        ),
    ],
)
def test_rules_bite(rule, name, source):
    assert rule(name, source)
