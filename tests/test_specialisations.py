"""How many versions of each kernel are compiled: each costs seconds at its first use, and none may come unseen.

This file is also the program of a fresh process, so that what other tests have compiled does not matter: it fits toys
of every kind, and counts. Only kernels that Python calls are counted; those that kernels call are compiled, and cached,
as parts of these.
"""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sklearn_hocrf
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, _kernels
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

MOST_OF_A_KERNEL = 4  # lanes and single numbers, each plain and dual
MOST = {"toys": 50, "extremes": 67}  # of all kernels together
SOLVERS = [("likelihood", solver) for solver in ("lbfgs", "newton-cg", "sgd", "adagrad", "owlqn")]
SOLVERS += [("local_feature_matching", "lbfgs"), ("hinge", "bcfw"), ("perceptron", "perceptron")]


def compiled():
    """Return the number of versions of each kernel that Python has called."""
    found = {}
    for info in pkgutil.iter_modules(_kernels.__path__):
        module = importlib.import_module(f"{_kernels.__name__}.{info.name}")
        for name, kernel in vars(module).items():
            own = getattr(getattr(kernel, "py_func", None), "__module__", None) == module.__name__
            if own and kernel.signatures and not (info.name.startswith("_") or name.startswith("_")):
                found[f"{info.name}.{name}"] = len(kernel.signatures)
    return found


def use(model, X, y):
    """Fit a model and ask it everything."""
    model.fit(X, y).predict(X)
    model.score(X, y)
    for question in "predict_marginals", "segment_marginals":
        if hasattr(model, question):
            getattr(model, question)(X)
    if hasattr(model, "log_likelihood"):
        model.log_likelihood(X, y)
        model.pattern_marginals(X, [y[0][:2]])


def toy(lengths, n_features):
    """Return numbers and labels of tokens; two neighbours have different labels."""
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 2, size=(length, n_features)).astype(float) for length in lengths]
    return X, [["abc"[label % 3] for label in rng.integers(1, 3, size=length).cumsum()] for length in lengths]


def settings(max_order, **params):
    """Yield models of all objectives and solvers."""
    for objective, solver in SOLVERS:
        l1_reg = 0.1 if solver in ("adagrad", "owlqn") else 0.0
        yield params | {
            "max_order": max_order,
            "objective": objective,
            "solver": solver,
            "l1_reg": l1_reg,
            "max_iter": 2,
        }


def use_chains(X, y, orders, feature_orders):
    """Use chains of all kinds: features of value 1 and others; arrays, sparse matrices, dicts and batches."""
    doubled = [2.0 * rows for rows in X]
    dicts = [[{"f": str(row[0]), "g": row.sum()} for row in rows] for rows in X]
    forms = [X, doubled, [sparse.csr_array(rows) for rows in X], dicts, SequenceFeatureExtractor().fit_transform(dicts)]
    for max_order in orders:
        for form in forms:
            use(HighOrderCRF(max_order, n_jobs=1 + max_order % 2, max_iter=2), form, y)
    for feature_order in feature_orders:
        for params in settings(2, feature_order=feature_order, n_jobs=2):
            for form in X, doubled:
                use(HighOrderCRF(**params), form, y)


def use_segments(X, y, orders, feature_orders):
    """Use semi-CRFs of all kinds: features of tokens alone and of segments, of value 1 and others."""
    names = [[f"w{np.flatnonzero(row).sum()}" for row in rows] for rows in X]
    tokens = SequenceFeatureExtractor([(("w", 0),)]).fit_transform(names)
    extractor = SegmentFeatureExtractor(begin=True, inside=True, length="capped", identity=True)
    forms = [tokens, [2.0 * rows for rows in X], extractor.fit_transform(tokens, y)]
    for max_order in orders:
        for form in forms:
            use(HighOrderSemiCRF(max_order, n_jobs=1 + max_order % 2, max_iter=2), form, y)
    for feature_order in feature_orders:
        for params in settings(2, feature_order=feature_order, n_jobs=2):
            for form in forms[1:]:
                use(HighOrderSemiCRF(**params), form, y)


def use_extremes(X, y):
    """Use a sequence that is long enough to be alone, and features so large that only log space can hold them."""
    for model in HighOrderCRF, HighOrderSemiCRF:
        for solver in "lbfgs", "newton-cg":
            fitted = model(2, feature_order=1, solver=solver, max_iter=2).fit(X, y)
            fitted.predict(X)
            fitted.predict_marginals([1e5 * rows for rows in X[1:]])


def main():
    """Write what is compiled after toys, after data of other sizes, and after extremes: long and large."""
    warnings.simplefilter("ignore")  # not converged
    stages = []
    sizes = ([3, 5, 1, 4], 3, (0, 1, 2, 3), (0, 1)), ([7, 2, *[9] * 20], 6, (2,), (1,))
    for lengths, n_features, orders, feature_orders in sizes:
        for use_all in use_chains, use_segments:
            use_all(*toy(lengths, n_features), orders, feature_orders)
        stages.append(compiled())
    use_extremes(*toy([600, 3, 4], 3))
    json.dump([*stages, compiled()], sys.stdout)


@pytest.mark.slow  # compiles everything
@pytest.mark.needs_jit
def test_compiled_versions():
    here = os.environ | {"PYTHONPATH": str(Path(sklearn_hocrf.__file__).parents[1])}  # the package that is tested here
    run = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True, env=here)
    toys, other_sizes, extremes = json.loads(run.stdout)
    assert len(toys) > 20  # of all kinds, else there is nothing to bound
    assert other_sizes == toys
    assert toys.keys() <= extremes.keys()
    assert max(extremes.values()) <= MOST_OF_A_KERNEL
    assert sum(toys.values()) <= MOST["toys"]
    assert sum(extremes.values()) <= MOST["extremes"]


if __name__ == "__main__":
    main()
