"""A program that compiles all kernels, by models of every kind on toys, and counts their versions.

    python tests/all_kernels.py

writes a JSON list of three objects, kernels with their numbers of versions: after toys, after data of other sizes, and
after extremes. Only kernels that Python calls are counted; those that kernels call are compiled, and cached, as parts
of these. It needs no more than the package does.
"""

import importlib
import json
import pkgutil
import sys
import warnings

import numpy as np
from scipy import sparse

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, _kernels
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

SOLVERS = [("likelihood", solver) for solver in ("lbfgs", "newton-cg", "sgd", "adagrad", "owlqn")]
SOLVERS += [("local_feature_matching", "lbfgs"), ("hinge", "bcfw"), ("perceptron", "perceptron")]


def compiled():
    """Return the number of versions of each kernel that Python has called."""
    n_versions = {}
    for info in pkgutil.iter_modules(_kernels.__path__):
        module = importlib.import_module(f"{_kernels.__name__}.{info.name}")
        for name, kernel in vars(module).items():
            own = getattr(getattr(kernel, "py_func", None), "__module__", None) == module.__name__
            if own and kernel.signatures and not (info.name.startswith("_") or name.startswith("_")):
                n_versions[f"{info.name}.{name}"] = len(kernel.signatures)
    return n_versions


def use(model, X, y):
    """Fit a model and ask it everything."""
    model.fit(X, y).predict(X)
    model.score(X, y)
    if hasattr(model, "predict_marginals"):
        model.predict_marginals(X)
    if isinstance(model, HighOrderSemiCRF) and hasattr(model, "segment_marginals"):  # labels of chains are no tags here
        model.segment_marginals(X)
    if hasattr(model, "log_likelihood"):
        model.log_likelihood(X, y)
        model.pattern_marginals(X, [y[0][:2]])


def toy(lengths, n_features):
    """Return numbers and labels of tokens; two neighbours have different labels."""
    rng = np.random.default_rng(0)
    X = [(rng.integers(0, 3, size=(length, n_features)) == 0).astype(float) for length in lengths]  # hence sparse
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
    forms += [[rows + 0.5 for rows in X], [(rows + 0.5).astype(np.float32) for rows in X]]  # dense columns
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


def use_answers(X, _, orders, *__):
    """Ask chains and segments of tags for answers beyond the best labelling, given some labels and not."""
    tags = [["B", "I", "O"][: len(rows)] + ["O"] * (len(rows) - 3) for rows in X]
    known = [["B", *[None] * (len(rows) - 1)] for rows in X]
    for model in HighOrderCRF(orders[-1], max_iter=2), HighOrderSemiCRF(orders[-1], encoding="bio", max_iter=2):
        model.fit(X, tags).predict(X, known=known)
        model.predict_nbest(X, 2)
        model.sample(X, 2, known=known)
        model.entropy(X)
        model.entropy(X, known=tags)  # so low that it is computed from choices
        model.segment_marginals(X)
        model.predict_segments(X, with_probability=True)
        for decoding in "token", "segment":
            model.set_params(decoding=decoding).predict(X)


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
        for use_all in use_chains, use_segments, use_answers:
            use_all(*toy(lengths, n_features), orders, feature_orders)
        stages.append(compiled())
    use_extremes(*toy([600, 3, 4], 3))
    json.dump([*stages, compiled()], sys.stdout)


if __name__ == "__main__":
    main()
