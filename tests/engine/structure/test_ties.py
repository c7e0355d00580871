"""Weights that training data cannot distinguish: found, tied, and trained to the same optimum."""

from dataclasses import replace

import numpy as np
import pytest
from cases import build_layout, cases, given_penalty, to_batch, to_codes, to_layout, untied
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    ChainModel,
    LBFGSMinimizer,
    NegativeLogLikelihood,
    Penalty,
    Problem,
    SegmentModel,
    SequenceBatch,
    Tied,
    observed_patterns,
    tie_weights,
)
from segment_cases import segment_cases, to_segment_batch, to_segment_layout, to_segments
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_markov_sequences


def doubled(case, sources):
    """Return a case with more features: number ``n + i`` is a feature times a factor, ``sources[i]``."""
    n, pairs = len(case.feature_orders), list(enumerate(sources))
    more = [[row | {n + i: k * row[f] for i, (f, k) in pairs if f in row} for row in rows] for rows in case.rows]
    orders = case.feature_orders + [case.feature_orders[f] for f, _ in sources]
    return case._replace(rows=more, feature_orders=orders, n_attributes=len(orders))


def kinds(layout, batch):
    """Return what training sees of each weight's feature: its values at all tokens, and its pairs' columns."""
    table, starts = batch.toarray(), layout.pairs.starts
    found = []
    for rank, attribute in enumerate(layout.attribute_of_rank.tolist()):
        values = tuple(table[:, attribute]) if attribute < table.shape[1] else attribute
        columns = tuple(layout.pairs.columns[starts[rank] : starts[rank + 1]].tolist())
        found += [(values, columns, number) for number in range(len(columns))]
    return found + list(range(layout.n_weights - layout.n_pairs))


def check(layout, batch, problem):
    """Check the ties of a problem against their definition, and the narrow function against the whole one."""
    ties = tie_weights(layout, batch)
    seen = {}
    for place, kind in zip(ties.variable, kinds(layout, batch), strict=True):
        assert seen.setdefault(kind, place) == place
    assert len(set(ties.variable)) == len(ties.root) == ties.layout.n_weights
    assert len(set(seen.values())) == len(seen)
    rng = np.random.default_rng(0)
    u, direction = rng.normal(size=(2, len(ties.root)))
    w = ties.widen(u)
    np.testing.assert_allclose(ties.narrow(w), u, rtol=1e-12)
    assert w @ w == pytest.approx(u @ u)
    whole = NegativeLogLikelihood().bind(problem)
    narrow = Tied(NegativeLogLikelihood().bind(replace(problem, layout=ties.layout)), ties)
    value, gradient = narrow.value_gradient(u)
    expected, whole_gradient = whole.value_gradient(w)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(ties.widen(gradient), whole_gradient, rtol=1e-8, atol=1e-9)
    slopes = whole.hessp(w, ties.widen(direction))
    np.testing.assert_allclose(ties.widen(narrow.hessp(u, direction)), slopes, rtol=1e-7, atol=1e-8)
    return ties


@given(cases(min_length=1), st.data())
def test_chains(case, data):
    n = len(case.feature_orders)
    pairs = st.tuples(st.integers(0, n - 1), st.sampled_from([1, 1, 3]))
    sources = data.draw(st.lists(pairs, max_size=4)) if n else []
    case = doubled(case, sources)
    layout, _ = to_layout(case)
    batch = to_batch(case.rows, case.n_attributes)
    ties = check(layout, batch, Problem(ChainModel, layout, batch, to_codes(case.labels)))
    if np.isin(layout.pair_feature, [n + i for i, (_, factor) in enumerate(sources) if factor == 1]).any():
        assert len(ties.root) < layout.n_weights


@given(segment_cases())
def test_segments(case):
    batch = to_segment_batch(case)
    layout = to_segment_layout(case, batch)
    truth = to_segments(case.segmentations, batch.offsets)
    check(layout, batch, Problem(SegmentModel, layout, batch, truth))


def rare_words(n_sequences=60, seed=0):
    """Return sequences of attribute lists, most of which occur once, in company."""
    rng = np.random.default_rng(seed)
    X, y = make_markov_sequences(n_sequences, order=2, noise=0.4, random_state=seed)
    X = [
        [
            [f"near{np.argmin(row)}", *(f"only{n}.{t}.{i}" for i in range(rng.integers(0, 4)))]
            for t, row in enumerate(rows)
        ]
        for n, rows in enumerate(X)
    ]
    return X, [labels.tolist() for labels in y]


@pytest.mark.parametrize("values", [[2.0], [0.5], [4.0], [1.5], [-1.0], [1.0, 0.3]])
def test_different_attributes_are_not_tied(values):
    n = 20_000
    data = np.full(n, values[0])
    data[0] = values[-1]
    batch = SequenceBatch([0, n], np.arange(n + 1), np.arange(n), data, n)
    codes = np.zeros(n, dtype=np.int32)
    layout = build_layout(batch, codes, observed_patterns(codes, batch.offsets, 1, 0), fit_intercept=False)
    assert len(tie_weights(layout, batch).root) == layout.n_weights == n


def test_fit_ties(monkeypatch):
    sizes, solve = [], LBFGSMinimizer.solve

    def solve_and_note(self, objective, penalty, w0):
        sizes.append(len(w0))
        return solve(self, objective, penalty, w0)

    monkeypatch.setattr(LBFGSMinimizer, "solve", solve_and_note)
    X, y = rare_words()
    with untied():
        whole = HighOrderCRF(max_order=1).fit(X, y)
    HighOrderCRF(max_order=1).fit(X, y)
    assert sizes[0] == whole.n_parameters_
    assert sizes[1] < 0.7 * sizes[0]


def test_weights_that_start_apart_stay_apart_without_a_penalty():
    X = [[["both", "too"], ["other"]]] * 3 + [[["both", "too"], ["both", "too"]]]
    y = [["a", "b"]] * 3 + [["b", "a"]]
    crf = HighOrderCRF(sigma_reg=np.inf, warm_start=True, tol=1e-2).fit(X, y)
    column = crf.feature_names_in_.tolist().index("both")
    coef = crf.coef_.tolil()
    coef[0, column] += 3.0
    crf.coef_ = coef.tocsr()
    before = crf.coef_.toarray()
    crf.fit(X, y)
    moved = crf.coef_.toarray() - before
    other = crf.feature_names_in_.tolist().index("too")
    np.testing.assert_allclose(moved[:, column], moved[:, other], atol=1e-9)


def test_penalties_of_variables():
    place, root = np.array([0, 1, 0, 2, 0]), np.sqrt([3.0, 1.0, 1.0])
    precision, strength = np.array([2.0, 5.0, 2.0, 0.0, 2.0]), np.array([0.5, 0.1, 0.5, 0.0, 0.5])
    u = np.array([1.0, -2.0, 3.0])
    w = (u / root)[place]
    for penalty in (Penalty(0.7), Penalty(precision), Penalty(precision, strength), Penalty(0.3, strength)):
        tied = penalty.tied(place, root)
        assert tied.is_sparse == penalty.is_sparse
        assert tied.value(u) == pytest.approx(penalty.value(w), rel=1e-12)
        gradient = np.array([3.0, -1.0, 2.0])
        assert tied.gap(gradient) == pytest.approx(penalty.gap((gradient / root)[place]), rel=1e-12)


def test_penalties_that_pull_weights_apart_are_not_tied():
    place, root = np.array([0, 0, 1]), np.sqrt([2.0, 1.0])
    assert Penalty([1.0, 2.0, 1.0]).tied(place, root) is None
    assert Penalty(1.0, [1.0, 2.0, 1.0]).tied(place, root) is None
    X, y = rare_words(10)
    crf = HighOrderCRF(tol=1e-7)
    with given_penalty(Penalty(np.linspace(0.5, 2.0, crf.fit(X, y).n_parameters_))):
        found = clone(crf).fit(X, y)
        with untied():
            expected = crf.fit(X, y)
    np.testing.assert_array_equal(found.coef_.toarray(), expected.coef_.toarray())


def test_a_warm_start_of_unequal_weights():
    X, y = rare_words(20)
    crf = HighOrderCRF(warm_start=True, solver="sgd", max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning):
        crf.fit(X, y)
    crf.coef_.data += np.random.default_rng(0).normal(size=crf.coef_.nnz)
    crf.set_params(solver="lbfgs", tol=1e-7, max_iter=500).fit(X, y)
    expected = HighOrderCRF(tol=1e-7).fit(X, y)
    np.testing.assert_allclose(crf.coef_.toarray(), expected.coef_.toarray(), atol=1e-5)
