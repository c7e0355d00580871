"""Real data: numbers of weights and optima that separate implementations reach with the same features."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent / "benchmarks"

pytestmark = pytest.mark.slow


@pytest.fixture
def load(monkeypatch, data_dir):
    """Return a function that imports modules of the benchmarks; the fixture removes them from memory afterwards."""
    monkeypatch.setenv("SKLEARN_HOCRF_DATA", str(data_dir))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


def weights_up_to(model):
    """Return the numbers of weights of a model for patterns of up to order 0, 1, 2, ..."""
    orders = np.array([len(pattern) - 1 for pattern in model.patterns_])
    has_bias = (orders > 0) | model.fit_intercept
    return np.cumsum(np.bincount(orders, weights=np.diff(model.coef_.indptr) + has_bias)).astype(int).tolist()


@pytest.mark.parametrize(
    ("kind", "order", "sizes", "optimum", "f1", "accuracy"),
    [
        ("chain", 2, (38987, 267, 101), 328.893, 85.69, 92.58),
        ("segment", 1, (38894, 87, 14), 384.246, 85.94, 93.01),
    ],
)
def test_optimum_of_references(load, kind, order, sizes, optimum, f1, accuracy):
    task = load("bench_bibliography")
    references = task.load()
    if references is None:
        pytest.skip("cora_references is absent: python notebooks/fetch_data.py data")
    model = getattr(task, f"{kind}_model")(order, tol=3e-3)  # enough for the optimum to a hundredth
    fitted = load("common").train(references, getattr(task, f"{kind}_features")(), model, task.score)
    assert (weights_up_to(model)[-1], len(model.patterns_), model.automaton_.n_states) == sizes
    assert model.optimality_gap_ < 5e-3
    assert model.objective_history_[-1] == pytest.approx(optimum, abs=5e-3)
    assert fitted.scores == pytest.approx([f1, accuracy], abs=0.1)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("bibliography", {0: 32432 + 5370, 1: 38894, 2: 39039}),
        ("punctuation", {1: 425784, 2: 431832, 3: 437625}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_of_weights(load, task, expected):
    module = load(f"bench_{task}")
    data = module.load()
    if data is None:
        pytest.skip(f"the data of {task} is absent: python notebooks/fetch_data.py data")
    batch = module.segment_features().fit_transform(data.X)
    model = module.segment_model(max(expected), max_iter=0).fit(batch, data.y)
    n_weights = weights_up_to(model)
    assert {order: n_weights[order] for order in expected} == expected
