"""HighOrderCRF: the shapes of its predictions, the effect of each parameter, and the attributes that describe a fit."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from internals import Minimizer, SequenceBatch
from refusals import refusals
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

WORDS = [["the", "old", "man"], ["the", "man", "the", "boat"], ["old"], ["man", "old", "boat"]]
X = [[{"word": word, "length": len(word)} for word in sequence] for sequence in WORDS]
Y = [["D", "A", "N"], ["D", "N", "D", "N"], ["A"], ["N", "A", "N"]]
ROWS = [np.array([[float(len(w)), float("o" in w), float(w == "the")] for w in sequence]) for sequence in WORDS]
LABELS = ["A", "D", "N"]


@pytest.fixture(scope="module")
def fitted():
    return HighOrderCRF(max_order=2).fit(X, Y)


# --- predictions ------------------------------------------------------------------------------------------------------


BOTH = pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])


@BOTH
def test_three_dimensional_x(estimator):
    cube = np.random.default_rng(0).normal(size=(6, 4, 3))
    y = (cube[:, :, 0] > 0).astype(int)
    crf = estimator(feature_order=1).fit(cube, y)
    assert crf.predict(cube).shape == (6, 4)
    assert crf.predict(list(cube))[2].shape == (4,)
    np.testing.assert_array_equal(crf.predict(cube), np.array(crf.predict(list(cube))))
    marginals = crf.predict_marginals(cube)
    assert marginals.shape == (6, 4, 2)
    np.testing.assert_allclose(marginals.sum(axis=2), 1, rtol=1e-12)
    assert crf.pattern_marginals(cube, [(0, 1), (1,), (0,)]).shape == (6, 4, 3)
    assert crf.score(cube, y) == np.mean(crf.predict(cube) == y)
    assert crf.log_likelihood(cube, y).shape == (6,)
    assert estimator().fit(cube, y.tolist()).predict(cube).shape == (6, 4)
    assert crf.predict(cube[:0]).shape == (0, 0)
    assert crf.predict_marginals(cube[:, :0]).shape == (6, 0, 2)
    if estimator is HighOrderSemiCRF:
        assert len(crf.predict_segments(cube, threshold=0.5)) == len(crf.predict_segments(cube)) == 6
        as_segments = [[(0, 4, "x")] for _ in cube]
        assert HighOrderSemiCRF(scheme="segments").fit(cube, as_segments).predict(cube) == as_segments


@BOTH
def test_plain_two_dimensional_x(estimator):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["p", "q"])
    y = np.where(frame["p"] > 0, "yes", "no")
    crf = estimator(max_order=3).fit(frame, y)
    assert list(crf.feature_names_in_) == ["p", "q"]
    assert crf.predict(frame).shape == (30,)
    assert crf.predict_proba(frame).shape == (30, 2)
    assert crf.pattern_marginals(frame, [("no", "yes")]).max() == 0
    assert crf.patterns_ == [("no",), ("yes",)]
    assert crf.score(frame, y) > 0.9
    assert crf.score(frame, list(y)) == crf.score(frame, y)
    if estimator is HighOrderSemiCRF:
        assert set(crf.segment_length_.values()) == {(1, 1)}
        assert crf.predict_segments(frame)[0] == [(0, 1, crf.predict(frame)[0])]
        plain = HighOrderCRF(max_order=3).fit(frame, y)
        np.testing.assert_allclose(crf.coef_.toarray(), plain.coef_.toarray(), atol=1e-5)
        tags = np.where(frame["p"] > 0, "B-x", "O")
        assert HighOrderSemiCRF(scheme="bio").fit(frame, tags).score(frame, tags) > 0.9


# --- probabilities against enumeration --------------------------------------------------------------------------------


def test_tolerances_are_those_of_the_solvers():
    assert {HighOrderCRF().tol, HighOrderSemiCRF().tol} == {Minimizer().tol} == {3e-3}


# --- fitted attributes ------------------------------------------------------------------------------------------------


def test_fitted_attributes(fitted):
    assert fitted.classes_.tolist() == LABELS
    assert fitted.patterns_[:3] == [("A",), ("D",), ("N",)]
    observed = {tuple(y[t : t + k]) for y in Y for k in (1, 2, 3) for t in range(len(y) - k + 1)}
    assert set(fitted.patterns_) == observed
    assert fitted.patterns_ == sorted(observed, key=lambda pattern: (len(pattern), pattern))
    names = ["length", "word:boat", "word:man", "word:old", "word:the"]
    assert list(fitted.feature_names_in_) == names
    assert fitted.n_features_in_ == 5
    assert sparse.issparse(fitted.coef_)
    assert fitted.coef_.format == "csr"
    assert fitted.coef_.shape == (len(observed), 5)
    assert fitted.pattern_coef_.shape == (len(observed),)
    assert fitted.automaton_.n_labels == 3
    assert fitted.coef_[1, 4] > 0  # D with "the"


def test_feature_names_are_there_only_if_x_has_some():
    crf = HighOrderCRF().fit(ROWS, Y)
    assert not hasattr(crf, "feature_names_in_")
    batch = SequenceBatch.from_csr(sparse.csr_array(np.vstack(ROWS)), [0, 3, 7, 8, 11], ["a", "b", "c"])
    assert list(crf.fit(batch, Y).feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(crf.fit(ROWS, Y), "feature_names_in_")
    assert not hasattr(HighOrderCRF(), "feature_names_in_")


# --- parameters -------------------------------------------------------------------------------------------------------


def test_patterns_can_be_observed_all_or_given():
    every = HighOrderCRF(max_order=2, patterns="all").fit(X, Y)
    assert len(every.patterns_) == 3 + 9 + 27
    given = HighOrderCRF(max_order=2, patterns={("D", "A", "N"), ("A", "A"), ("N",)}).fit(X, Y)
    assert given.patterns_ == [("A",), ("D",), ("N",), ("A", "A"), ("D", "A", "N")]
    frequent = HighOrderCRF(max_order=2, min_count=2).fit(X, Y)
    assert frequent.patterns_ == [("A",), ("D",), ("N",), ("A", "N"), ("D", "N")]
    for count in 1e300, 10**400:  # an integer that no float holds
        assert HighOrderCRF(max_order=2, min_count=count).fit(X, Y).patterns_ == [("A",), ("D",), ("N",)]
    weighted = HighOrderCRF(max_order=2, min_count=2).fit(X, Y, sample_weight=[2, 0.5, 1, 0.5])
    assert ("D", "A", "N") in weighted.patterns_
    assert ("N", "D") not in weighted.patterns_
    assert HighOrderCRF(max_order=0, patterns=[]).fit(X, Y).patterns_ == [("A",), ("D",), ("N",)]


def test_pattern_marginals_refuse_what_is_no_pattern(fitted):
    with pytest.raises(ValueError, match="has the label 'X'"):
        fitted.pattern_marginals(X, [("A", "X")])
    with pytest.raises(ValueError, match="one or more labels"):
        fitted.pattern_marginals(X, ["A"])


def orders_by_feature(crf):
    """Return for each feature name the orders of the patterns it has a weight with."""
    entries = crf.coef_.tocoo()
    orders = {name: set() for name in crf.feature_names_in_}
    for row, column in zip(entries.row, entries.col, strict=True):
        orders[crf.feature_names_in_[column]].add(len(crf.patterns_[row]) - 1)
    return orders


def test_feature_order():
    parameters = {"max_order": 2, "all_pairs": True}
    names = ["length", "word:boat", "word:man", "word:old", "word:the"]
    assert orders_by_feature(HighOrderCRF(**parameters).fit(X, Y)) == dict.fromkeys(names, {0})
    assert orders_by_feature(HighOrderCRF(feature_order=2, **parameters).fit(X, Y)) == dict.fromkeys(names, {0, 1, 2})
    assert orders_by_feature(HighOrderCRF(feature_order=9, **parameters).fit(X, Y)) == dict.fromkeys(names, {0, 1, 2})
    beyond = HighOrderCRF(feature_order=10**18, **parameters).fit(X, Y)
    assert orders_by_feature(beyond) == dict.fromkeys(names, {0, 1, 2})
    by_name = {"word": 1, "word:man": (2, 0), "word:ma": (7,), "len": (1,), "word:the": (5,)}
    assert orders_by_feature(HighOrderCRF(feature_order=by_name, **parameters).fit(X, Y)) == {
        "length": {1},
        "word:boat": {0, 1},
        "word:man": {0, 2},
        "word:old": {0, 1},
        "word:the": set(),
    }
    unmatched = HighOrderCRF(feature_order={"word:m": (1,)}, **parameters).fit(X, Y)
    assert orders_by_feature(unmatched)["word:old"] == {0}
    assert orders_by_feature(HighOrderCRF(feature_order={"": (1,)}, **parameters).fit(X, Y)) == dict.fromkeys(
        names, {1}
    )


def test_too_few_iterations_warn_with_the_remedy():
    with pytest.warns(ConvergenceWarning, match="Increase max_iter") as caught:
        crf = HighOrderCRF(max_iter=2).fit(X, Y)
    assert caught[0].filename == __file__
    assert crf.n_iter_ == 2
    assert len(crf.objective_history_) == 3
    with warnings.catch_warnings(action="error"):
        HighOrderCRF().fit(X, Y)


def test_the_warning_of_a_tolerance_below_rounding_errors_says_so():
    with pytest.warns(ConvergenceWarning, match="increase tol"):
        HighOrderCRF(tol=0.0).fit(X, Y)


@pytest.mark.usefixtures("all_lines")
def test_verbose_writes_a_line_for_each_iteration_and_one_for_the_end_to_stderr(capsys):
    crf = HighOrderCRF(verbose=1).fit(X, Y)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == crf.n_iter_ + 1
    for line in lines[-2:]:
        assert f"objective {crf.objective_history_[-1]:.6f}" in line
        assert "gradient norm" in line
        assert f"at most {crf.optimality_gap_:.3g} above the optimum, 0." in line  # seconds
    assert f"{crf.n_iter_} iterations" in lines[-1]
    assert lines[-1].endswith(" s, converged")
    HighOrderCRF().fit(X, Y)
    assert capsys.readouterr().err == ""


def test_warm_start_matches_patterns_and_features_by_name():
    crf = HighOrderCRF(max_order=2, warm_start=True, max_iter=0)
    with pytest.warns(ConvergenceWarning):
        crf.set_params(max_iter=3).fit(X, Y)
    before = crf.pattern_coef_.copy(), crf.coef_.toarray(), list(crf.patterns_), list(crf.feature_names_in_)
    more = [[{"aaa": 1, **token} for token in sequence] for sequence in X[1:]] + [[{"word": "the"}, {"word": "fox"}]]
    labels = [*Y[1:], ["Z", "N"]]
    with pytest.warns(ConvergenceWarning):
        crf.set_params(max_order=3, max_iter=0).fit(more, labels)
    assert "aaa" in crf.feature_names_in_
    kept = [pattern for pattern in crf.patterns_ if pattern in before[2]]
    assert ("Z", "N") in crf.patterns_
    assert len(kept) < len(before[2])
    for row, pattern in enumerate(crf.patterns_):
        old_row = before[2].index(pattern) if pattern in before[2] else None
        assert crf.pattern_coef_[row] == (0 if old_row is None else before[0][old_row])
        for column, name in enumerate(crf.feature_names_in_):
            value = crf.coef_.toarray()[row, column]
            is_old = old_row is not None and name in before[3]
            expected = before[1][old_row, before[3].index(name)] if is_old else 0
            assert value in (expected, 0)  # 0 where the pair is not in the new training data
    assert np.count_nonzero(crf.coef_.toarray()) > 5


def test_warm_start_without_names_matches_features_by_number():
    crf = HighOrderCRF(warm_start=True).fit(ROWS, Y)
    assert crf.fit(ROWS, Y).n_iter_ == 0
    wider = [np.column_stack([rows, rows[:, 0]]) for rows in ROWS]
    crf.fit(wider, Y)
    assert crf.n_features_in_ == 4
    cold = HighOrderCRF().fit(wider, Y)
    np.testing.assert_allclose(crf.objective_history_[-1], cold.objective_history_[-1], rtol=1e-6)


# --- quality ----------------------------------------------------------------------------------------------------------


def test_score_is_token_accuracy(fitted):
    truth = [["D", "A", "A"], ["D", "N", "D", "N"], ["never seen"], ["N", "A", "N"]]
    right = [[p == t for p, t in zip(ps, ts, strict=True)] for ps, ts in zip(fitted.predict(X), truth, strict=True)]
    assert fitted.score(X, truth) == np.mean(list(itertools.chain(*right)))
    weight = np.array([1.0, 0.5, 3.0, 0.0])
    expected = sum(w * sum(r) for w, r in zip(weight, right, strict=True)) / (weight @ [3, 4, 1, 3])
    np.testing.assert_allclose(fitted.score(X, truth, sample_weight=weight), expected)
    with pytest.raises(ValueError, match="shape"):
        fitted.score(X, truth, sample_weight=[1.0])
    with pytest.raises(ValueError, match="no tokens of positive weight"):
        fitted.score([[], *X], [[], *Y], sample_weight=[1.0, 0, 0, 0, 0])


def test_log_likelihood_of_what_is_certain_is_not_positive():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(50, 2)) for _ in range(30)]
    y = [(x[:, 0] > 0).astype(int) for x in sequences]
    crf = HighOrderCRF(max_order=2).fit(sequences, y)
    loud = [1e4 * x for x in sequences]
    log_p = crf.log_likelihood(loud, crf.predict(loud))
    assert log_p.max() == 0
    np.testing.assert_allclose(log_p, 0, atol=1e-6)


test_refusals = refusals(
    (lambda: HighOrderCRF().fit([1e+200 * rows for rows in ROWS], Y, None),
     "rescale numeric features, sample weights or the penalty"),
    (lambda: HighOrderCRF().fit(ROWS, Y, [1e+300, 1, 1, 1]), "rescale numeric features, sample weights or the penalty"),
    (lambda: HighOrderCRF(sigma_reg=1e-160).fit(ROWS, Y, None),
     "rescale numeric features, sample weights or the penalty"),
    (lambda params: HighOrderCRF(**params).fit(X, Y),
     (r"pattern \('A', 'X'\) has the label 'X'", {"patterns": [("A", "X")]}),
     ("one or more labels", {"patterns": [()]}),
     ("tuple of one or more labels, got 'AN'", {"patterns": ["AN"]}),
     (r"has the label \['N'\]", {"patterns": [("A", ["N"])]}),
     ("patterns is a list_iterator, which can be read only once", {"patterns": iter([("A", "N")])}),
     ("patterns must be", {"patterns": "seen"}),
     ("1,?000,?000|million|patterns", {"patterns": "all", "max_order": 30}),
     ("feature_order maps name prefixes", {"feature_order": {"a": -1}}, {"feature_order": {3: 1}},
      {"feature_order": {"a": ()}}, {"feature_order": {"a": (0, -1)}}, {"feature_order": {"a": "1"}},
      {"feature_order": {"a": 1.5}}, {"feature_order": {"a": [1]}}, {"feature_order": {"a": None}},
      {"feature_order": {"a": True}})),
    (lambda: HighOrderCRF(1, patterns=[("A", "N", "A")]).fit(X, Y),
     r"pattern \('A', 'N', 'A'\) has order 2, but max_order is 1"),
    (lambda: HighOrderCRF(feature_order={"a": 1}).fit(ROWS, Y), "selects features by name, but X has no feature names"),
)  # fmt: skip
