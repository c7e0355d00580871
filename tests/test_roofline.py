"""The benchmarks of kernels: counted work is the work that is done, and dedicated kernels give the same answers."""

import importlib
import inspect
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from cases import random_case, to_batch, to_codes, to_layout
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderSemiCRF
from sklearn_hocrf._kernels import _common, chain, segments, semi
from sklearn_hocrf._objectives import ChainProblem, NegativeLogLikelihood
from sklearn_hocrf.feature_extraction import AttributeVectorizer, SegmentFeatureExtractor

BENCHMARKS = Path(__file__).parent / "benchmarks"
KERNELS = _common, chain, segments, semi

pytestmark = pytest.mark.needs_jit


@pytest.fixture
def load(monkeypatch):
    """Import a module of the benchmarks, and forget all of them afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


class Counter:
    """The vector instructions of kernels in numpy, counted: operations, and numbers loaded and stored."""

    def __init__(self, exp):
        self.operations = self.numbers = 0
        binary = {
            "add": np.add,
            "multiply": np.multiply,
            "largest": np.maximum,
            "smallest": np.minimum,
            "multiply_add": lambda left, right, addend: left * right + addend,
            "where_positive": lambda condition, yes, no: np.where(condition > 0, yes, no),
        }
        self.instructions = {name: self._counted(function, 1) for name, function in binary.items()}
        self.instructions |= {
            "exp": self._counted(np.exp, exp),
            "load": self._load,
            "store": self._store,
            "add_folded": self._add_folded,
            "fill": lambda number, width: np.full(width or 1, number),
            "fill_dual": lambda number, derivative, width: np.full(width or 1, number),
        }

    def _counted(self, function, operations):
        def instruction(*lanes):
            self.operations += operations * len(lanes[0])
            return function(*lanes)

        return instruction

    def _load(self, table, row, width):
        self.numbers += table.shape[1]
        return table[row].copy()

    def _store(self, table, row, lanes):
        self.numbers += table.shape[1]
        table[row] = lanes

    def _add_folded(self, table, row, lanes):
        self.operations += len(lanes)
        self.numbers += 2 * table.shape[1]
        table[row] += lanes.reshape(-1, table.shape[1]).sum(axis=0)

    def run(self, kernel, arguments):
        """Run a kernel, and the kernels that it calls, without compilation."""
        with ExitStack() as stack, np.errstate(all="ignore"):
            for module in KERNELS:
                names = {name: value.py_func for name, value in vars(module).items() if hasattr(value, "py_func")}
                names |= {name: value for name, value in self.instructions.items() if hasattr(module, name)}
                stack.enter_context(mock.patch.multiple(module, **names))
            kernel.py_func(*arguments)


def chain_likelihood(max_order, feature_orders, n_labels=8):
    rng = np.random.default_rng(0)
    case = random_case(rng, n_labels, rng.integers(3, 9, size=20), max_order, 60, 1.0, feature_orders)
    layout, _ = to_layout(case)
    problem = ChainProblem(layout, to_batch(case.sequences, len(feature_orders)), to_codes(case.labels))
    return NegativeLogLikelihood().bind(problem)


def segment_likelihood(growth, common):
    X, y = growth.generate(17, 15)
    features = SegmentFeatureExtractor(bag="word", begin="word", length="capped", encoding="segments")
    model = HighOrderSemiCRF(2, encoding="segments", max_segment_length=9, feature_order={"begin:": (0, 1)})
    return common.training_objective(model, make_pipeline(AttributeVectorizer(), features).fit_transform(X, y), y)


@pytest.mark.parametrize("model", ["order 1", "order 3", "order 3 with features", "segments"])
def test_counted_work_is_what_is_done(load, model):
    module = load("bench_roofline")
    if model == "segments":
        objective = segment_likelihood(load("bench_growth"), load("common"))
    else:
        objective = chain_likelihood(int(model[6]), [(0,), (0, 1)] if model.endswith("features") else [(0,), (0,)])
    case, counted = module.Pass(), set()
    case.setup(None, objective)

    def note(name, kernel, arguments):
        if "width" not in inspect.signature(kernel.py_func).parameters:
            return kernel(*arguments)
        counter = Counter(module.EXP)
        counter.run(kernel, arguments)
        done = counter.operations, module.NUMBER * counter.numbers
        assert tuple(module.work_of(name, kernel, arguments)) == pytest.approx(done, rel=0.1), name
        counted.add(name)

    value, gradient = case.time_gradient()
    with module.watched(note):
        again = case.time_gradient()
        case.time_decode()
    assert again[0] == pytest.approx(value, rel=1e-10)  # the stand-ins do the same
    np.testing.assert_allclose(again[1], gradient, atol=1e-9)
    assert len(counted) == (5 if model == "segments" else 4)


def test_work_of_sparse_rows(load):
    """Each feature that has weights is fetched once for each token: the sum of a product of counts."""
    module, problem = load("bench_roofline"), chain_likelihood(1, [(0,), (0,), (0,)]).problem
    entries, matrix = module.entries_of(problem), problem.batch.tocsr()
    assert len(entries.first) == matrix.nnz
    weights = np.zeros(problem.layout.n_pairs)
    np.add.at(weights, np.concatenate([np.arange(*pair) for pair in zip(entries.first, entries.stop, strict=True)]), 1)
    occurs = np.bincount(matrix.indices, minlength=matrix.shape[1])
    np.testing.assert_array_equal(weights, occurs[problem.layout.pair_feature])
    forward, adjoint = entries.work(False), entries.work(True)
    padding = entries.is_dense.sum() * (entries.width - 8)
    assert forward.operations == adjoint.operations == weights.sum() + padding
    assert adjoint.n_bytes - forward.n_bytes == 8 * forward.operations


def test_kernels_are_watched_and_left_as_they_were(load):
    module, objective = load("bench_roofline"), chain_likelihood(2, [(0,)])
    before = chain.forward
    case = module.Pass()
    case.setup(None, objective)
    seconds = module.seconds_of_kernels(case.time_gradient)
    assert chain.forward is before
    kernels = {"rows.score_rows", "chain.exponentiate", "chain.forward", "chain.backward", "rows.add_expectations"}
    assert seconds.keys() == kernels | {None}
    assert 0 <= sum(seconds[name] for name in kernels) <= seconds[None]


def test_main_prints_a_line_a_kernel(load, capsys):
    load("bench_roofline").main(["--quick", "--rounds", "1", "--tasks", "handwriting, order 1"])
    printed = capsys.readouterr().out
    for name in ("rows.score_rows", "chain.backward ", "chain.walk", "outside of kernels"):
        assert name in printed


def test_first_order_kernels_are_the_same_function(load):
    module = load("bench_first_order")
    for n_labels in 8, 3:
        case = module.Gradient()
        case.setup(None, chain_likelihood(1, [(0,), (0,)], n_labels))
        case.check()
        passes = case.passes()
        assert (passes >= 0).all()
        assert (passes[:, 0] <= passes[:, 1]).all()


def test_first_order_kernels_refuse_other_models(load):
    module = load("bench_first_order")
    for max_order, orders in (2, [(0,)]), (1, [(0, 1)]):
        with pytest.raises(ValueError, match="first-order kernels need a chain of order 1"):
            module.FirstOrder(chain_likelihood(max_order, orders))


def test_growth_is_printed(load, capsys):
    load("bench_growth").main(["--quick", "--rounds", "1"])
    assert "time grows as size to the power" in capsys.readouterr().out


def test_exponents(load):
    sizes = np.array([1, 2, 5])
    np.testing.assert_allclose(load("bench_growth").exponents(sizes, np.array([3.0 * sizes, 2.0 * sizes**2])), [1, 2])
