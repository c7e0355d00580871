"""How many versions of each kernel are compiled: each costs seconds at its first use, and none may come unseen.

This file is also the program of a fresh process, so that what other tests have compiled does not matter: it fits toys
of every kind, and counts. Only kernels that Python calls are counted; those that kernels call are compiled, and cached,
as parts of these.
"""

import importlib
import json
import pkgutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, _kernels
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

# versions after toys of every kind, and after a long sequence and very large features, too
KNOWN = {
    # vectors of LANES numbers, those of dual numbers; single numbers, for long sequences and for log space, and duals
    "chain.exponentiate": (2, 4),
    "chain.forward": (2, 4),
    "chain.backward": (2, 4),
    "semi.forward": (2, 4),
    "semi.backward": (2, 4),
    "segments.assemble": (3, 4),  # single numbers for one sequence at a time, in margin training
    "segments.collect": (2, 4),
    # decoding knows no dual numbers; one sequence at a time in margin training
    "chain.backward_max": (2, 2),
    "semi.backward_max": (2, 2),
    # log space
    "chain_log.forward_log": (0, 1),
    "chain_log.backward_log": (0, 1),
    "semi_log.forward_log": (0, 1),
    "semi_log.backward_log": (0, 1),
    # one version for all
    "chain.walk": (1, 1),
    "chain.label_arcs": (1, 1),
    "corners.multiply_corners": (1, 1),
    "corners.exchange_shares": (1, 1),
    "margin.add_token_costs": (1, 1),
    "margin.add_segment_costs": (1, 1),
    "margin.move": (1, 1),
    "margin.score_arcs": (1, 1),
    "margin.compare_labels": (1, 1),
    "margin.compare_segments": (1, 1),
    "matching.compare": (1, 1),
    "matching.perturb": (1, 1),
    "minibatches.find_pairs": (1, 1),
    "minibatches.subtract_entries": (1, 1),
    "minibatches.subtract_labels": (1, 1),
    "rows.add_expectations": (1, 1),
    "rows.count_kinds": (1, 1),
    "rows.gather": (1, 1),
    "rows.label_counts": (1, 1),
    "rows.label_scores": (1, 1),
    "rows.score_rows": (1, 1),
    "rows.slot_scores": (1, 1),
    "rows.sort_kinds": (1, 1),
    "segment_matching.add_products": (1, 1),
    "segment_matching.compare": (1, 1),
    "segment_matching.perturb": (1, 1),
    "segments.add_candidates": (1, 1),
    "segments.count_likely": (1, 1),
    "segments.list_likely": (1, 1),
    "segments.score_candidates": (1, 1),
    "semi.walk": (1, 1),
}
SOLVERS = [("likelihood", solver) for solver in ("lbfgs", "newton-cg", "sgd", "adagrad", "owlqn")]
SOLVERS += [("local_feature_matching", "lbfgs"), ("hinge", "bcfw"), ("perceptron", "perceptron")]


def compiled():
    """Return the number of versions of each kernel that Python has called."""
    found = {}
    for info in pkgutil.iter_modules(_kernels.__path__):
        module = importlib.import_module(f"{_kernels.__name__}.{info.name}")
        for name, kernel in vars(module).items():
            own = getattr(getattr(kernel, "py_func", None), "__module__", None) == module.__name__
            if own and kernel.signatures and info.name != "_common" and not name.startswith("_"):
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
    """Write what is compiled after toys, after data of other sizes, and after extremes."""
    warnings.simplefilter("ignore")  # not converged
    stages = []
    sizes = ([3, 5, 1, 4], 3, (0, 1, 2, 3), (0, 1)), ([7, 2, *[9] * 20], 6, (2,), (1,))
    for lengths, n_features, orders, feature_orders in sizes:
        for use_all in use_chains, use_segments:
            use_all(*toy(lengths, n_features), orders, feature_orders)
        stages.append(compiled())
    use_extremes(*toy([600, 3, 4], 3))
    json.dump([*stages, compiled()], sys.stdout)


@pytest.mark.needs_jit
def test_compiled_versions():
    written = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True).stdout
    toys, other_sizes, extremes = json.loads(written)
    assert toys == {name: count for name, (count, _) in KNOWN.items() if count}
    assert other_sizes == toys
    assert extremes == {name: count for name, (_, count) in KNOWN.items()}


if __name__ == "__main__":
    main()
