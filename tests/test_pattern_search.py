"""patterns="auto": the search finds the optimum over all observed patterns, and what goes with it and what does not."""

import pickle
import tracemalloc
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from internals import (
    LabelledSequences,
    compile_patterns,
    given_patterns,
    left_extensions,
    observed_patterns,
    pattern_search,
    patterns,
)
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from test_patterns import flat, labelled
from test_peers import tagged_sentences
from test_sparsity import interleaved

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.settings import PatternSearch
from sklearn_hocrf.training import L2, LBFGS, OWLQN, SGD, NegativeLogLikelihood, NewtonCG

X, Y = tagged_sentences(np.random.default_rng(0), 20)
ESTIMATORS = [HighOrderCRF, HighOrderSemiCRF]
both_estimators = pytest.mark.parametrize("estimator", ESTIMATORS)
FIELDS = ["n_in", "n_out", "n_patterns", "objective", "largest_violation", "certificate", "n_passes"]


def all_at_once(search, **parameters):
    """Return the parameters of the same L1 strengths on all observed patterns."""
    strengths = np.atleast_1d(search.l1_reg)
    by_order = {("patterns", k): float(strengths[min(k, len(strengths) - 1)]) for k in range(1, 12)}
    return {**parameters, "patterns": "observed", "l1_reg": {**by_order, None: 0.0}}


def check_same_optimum(estimator, search, x, y, sample_weight=None, tol=1e-6, **parameters):
    """Compare what a search finds before retraining with training on all observed patterns; return both models."""
    parameters |= {"tol": tol, "max_iter": 5000}
    with warnings.catch_warnings(action="error", category=ConvergenceWarning):
        found = estimator(**parameters, patterns=search.set_params(relax=False)).fit(x, y, sample_weight)
        full = estimator(**all_at_once(search, **parameters)).fit(x, y, sample_weight)
    # strong convexity: a value that is this close to the optimum bounds the distance
    gap = found.optimality_gap_ + full.optimality_gap_ + 1e-9
    assert abs(found.objective_history_[-1] - full.objective_history_[-1]) < gap
    sigma = np.max(parameters.get("sigma_reg", 1.0))
    distance = 2 * sigma * np.sqrt(2 * gap)
    ours, theirs = (dict(zip(crf.patterns_, crf.pattern_coef_, strict=True)) for crf in (found, full))
    for pattern in {*ours, *theirs}:
        assert ours.get(pattern, 0.0) == pytest.approx(theirs.get(pattern, 0.0), abs=distance)
    np.testing.assert_allclose(
        found.log_likelihood(x, y), full.log_likelihood(x, y), atol=20 * distance * max(map(len, y)), rtol=0
    )
    assert found.pattern_search_history_["certificate"][-1]
    assert set(ours) <= set(
        estimator(**{**parameters, "patterns": "observed"}, l1_reg=0).fit(x, y, sample_weight).patterns_
    )
    return found, full


# --- the optimum ------------------------------------------------------------------------------------------------------


@st.composite
def searches(draw):
    """Draw labelled sequences with few features, and what a search depends on."""
    n_labels = draw(st.integers(2, 3))
    labels = draw(st.lists(st.lists(st.integers(0, n_labels - 1), min_size=1, max_size=7), min_size=2, max_size=6))
    assume(len(set(sum(labels, []))) > 1)
    features = [[draw(st.lists(st.sampled_from("ab"), max_size=1)) for _ in y] for y in labels]
    weight = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(labels), max_size=len(labels)))
    strengths = draw(st.sampled_from([0.1, 0.4, 1.0, (9.0, 0.2, 0.5), (0.0, 0.0, 0.3), 30.0]))
    parameters = {
        "max_order": draw(st.integers(0, 4)),
        "sigma_reg": draw(st.sampled_from([1.0, 3.0, (2.0, 1.0, 0.5)])),
        "min_count": draw(st.sampled_from([1, 2, 1.5])),
        "fit_intercept": draw(st.booleans()),
    }
    return features, labels, weight, strengths, parameters


@given(searches())
@pytest.mark.slow
def test_drawn_chains(case):
    x, y, weight, strengths, parameters = case
    check_same_optimum(HighOrderCRF, PatternSearch(strengths), x, y, weight, **parameters)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(searches(), st.booleans())
def test_drawn_segments(case, repeats):
    x, y, weight, strengths, parameters = case
    if repeats:  # each token is a segment
        y = [[(i, i + 1, label) for i, label in enumerate(labels)] for labels in y]
        parameters["scheme"] = "segments"
    check_same_optimum(HighOrderSemiCRF, PatternSearch(strengths), x, y, weight, **parameters)


@pytest.mark.slow
@both_estimators
@pytest.mark.parametrize(("strengths", "max_order"), [(0.3, 2), ((0, 0.5, 1.0), 3), (2.0, 3)])
def test_tagged_sentences(estimator, strengths, max_order):
    found, full = check_same_optimum(
        estimator, PatternSearch(strengths), X, Y, max_order=max_order, class_weight="balanced"
    )
    assert len(found.classes_) < len(found.patterns_)
    assert found.patterns_ == full.patterns_


def balanced(repeats):
    """Return sequences in which each label is that before the last one, and no pair of labels is a surprise."""
    labels = [[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]] * repeats
    return [[[]] * 6 for _ in labels], labels


def test_patterns_whose_suffixes_say_nothing():
    x, y = balanced(3)
    _, pairs = HighOrderCRF(1).fit(x, y), HighOrderCRF(1, patterns="auto").fit(x, y)
    assert pairs.patterns_ == [(0,), (1,)]
    assert pairs.pattern_search_history_["largest_violation"].max() == 0
    found, _ = check_same_optimum(HighOrderCRF, PatternSearch(), x, y, max_order=2)
    assert found.patterns_ == [(0,), (1,), (0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)]
    history = found.pattern_search_history_
    assert history["certificate"].tolist()[0]  # the extensions of single labels have nothing to offer
    assert found.objective_history_[-1] < 0.8 * pairs.objective_history_[-1]


@pytest.mark.parametrize("strength", [1.0, 2.0])
@pytest.mark.parametrize("max_order", [2, 3])
def test_interleaved_sequences(strength, max_order):
    x, y = interleaved(20, 12)
    found, _ = check_same_optimum(HighOrderCRF, PatternSearch(strength), x, y, max_order=max_order)
    assert {len(pattern) for pattern in found.patterns_} >= {1, 3}


@pytest.mark.slow
@both_estimators
def test_without_a_limit_of_the_order(estimator):
    x, y = interleaved(6, 10)
    y = y if estimator is HighOrderCRF else [[(i, i + 1, label) for i, label in enumerate(labels)] for labels in y]
    scheme = {} if estimator is HighOrderCRF else {"scheme": "segments"}
    search = PatternSearch(1.5)
    found, _ = check_same_optimum(estimator, search, x, y, max_order=9, **scheme)
    free = estimator(None, patterns=search, tol=1e-6, max_iter=5000, **scheme).fit(x, y)
    assert free.patterns_ == found.patterns_
    np.testing.assert_array_equal(free.pattern_coef_, found.pattern_coef_)
    assert 2 < max(map(len, free.patterns_)) < 10


def test_a_strength_of_0_chooses_all():
    crf = HighOrderCRF(2, patterns=PatternSearch(0.0)).fit(X[:5], Y[:5])
    assert crf.patterns_ == HighOrderCRF(2).fit(X[:5], Y[:5]).patterns_


def test_few_patterns_at_a_time(monkeypatch):
    monkeypatch.setattr(pattern_search, "_GROWTH", 0.0)
    monkeypatch.setattr(pattern_search, "_ALWAYS", 1)
    found, _ = check_same_optimum(HighOrderCRF, PatternSearch(0.3), X[:8], Y[:8], max_order=2)
    assert found.pattern_search_history_["n_in"].max() == 1


# --- training again ---------------------------------------------------------------------------------------------------


@both_estimators
@pytest.mark.parametrize(
    "parameters",
    [{}, {"feature_order": {"ending": 1}}, {"sigma_reg": {("patterns", 1): 3.0, None: 0.5}}, {"solver": "newton-cg"}],
    ids=str,
)
@pytest.mark.slow
def test_relaxed_is_training_on_what_was_found(estimator, parameters):
    crf = estimator(2, patterns="auto", tol=1e-6, **parameters).fit(X, Y)
    strict = estimator(
        2, patterns=PatternSearch(relax=False), tol=1e-6, **{**parameters, "feature_order": 0, "solver": "auto"}
    )
    assert crf.patterns_ == strict.fit(X, Y).patterns_
    again = estimator(2, patterns=crf.patterns_, tol=1e-6, **parameters).fit(X, Y)
    assert crf.patterns_ == again.patterns_
    assert (crf.coef_ - again.coef_).power(2).sum() < 1e-6
    np.testing.assert_allclose(crf.pattern_coef_, again.pattern_coef_, atol=1e-4)
    assert crf.objective_history_[-1] == pytest.approx(again.objective_history_[-1], rel=1e-9)
    assert crf.n_iter_ == len(crf.objective_history_) - 1


def test_warm_start_goes_on_from_the_last_patterns():
    crf = HighOrderCRF(2, patterns=PatternSearch(0.5, relax=False), warm_start=True, tol=1e-5)
    cold = crf.fit(X, Y).pattern_search_history_
    first = crf.patterns_, crf.pattern_coef_
    warm = crf.fit(X, Y).pattern_search_history_
    assert warm["n_in"][0] == len(crf.patterns_) - len(crf.classes_)
    assert warm["n_passes"].sum() < 0.5 * cold["n_passes"].sum()
    assert crf.patterns_ == first[0]
    np.testing.assert_allclose(crf.pattern_coef_, first[1], atol=1e-4)
    labels = [[label for label in y if label != "NOUN"] for y in Y]
    other = [[row for row, label in zip(rows, y, strict=True) if label != "NOUN"] for rows, y in zip(X, Y, strict=True)]
    kept = [i for i, y in enumerate(labels) if y]
    x, y = [other[i] for i in kept], [labels[i] for i in kept]
    fresh = clone(crf).fit(x, y)
    assert crf.fit(x, y).patterns_ == fresh.patterns_
    assert crf.objective_history_[-1] == pytest.approx(fresh.objective_history_[-1], rel=1e-7)
    assert len(crf.set_params(max_order=1).fit(x, y).patterns_[-1]) <= 2
    assert crf.set_params(min_count=1e9).fit(x, y).patterns_ == [(label,) for label in crf.classes_]


# --- the record of the search -----------------------------------------------------------------------------------------


def test_history():
    crf = HighOrderCRF(2, patterns="auto").fit(X, Y)
    history = crf.pattern_search_history_
    assert list(history.dtype.names) == FIELDS
    np.testing.assert_array_equal(np.cumsum(history["n_in"] - history["n_out"]), history["n_patterns"])
    assert history["n_patterns"][-1] == len(crf.patterns_) - len(crf.classes_)
    assert (np.diff(history["objective"]) <= 1e-9).all()
    assert history["certificate"][-1]
    assert (history["n_passes"] > 0).all()
    assert crf.set_params(patterns="observed").fit(X, Y) is crf
    with pytest.raises(AttributeError, match="HighOrderCRF has no pattern_search_history_"):
        _ = crf.pattern_search_history_


@both_estimators
def test_threads_make_no_difference(estimator):
    one, two = (estimator(2, patterns="auto", n_jobs=n).fit(X, Y) for n in (1, 2))
    np.testing.assert_array_equal(one.pattern_search_history_, two.pattern_search_history_)
    np.testing.assert_array_equal(one.pattern_coef_, two.pattern_coef_)
    assert one.patterns_ == two.patterns_


@both_estimators
@pytest.mark.parametrize("relax", [True, False])
def test_saved_and_loaded(estimator, relax):
    crf = estimator(2, patterns=PatternSearch(0.7, relax=relax)).fit(X, Y)
    sio = pytest.importorskip("skops.io", reason="skops is not installed")
    written = sio.dumps(crf)
    for loaded in pickle.loads(pickle.dumps(crf)), sio.loads(written, sio.get_untrusted_types(data=written)):
        assert repr(loaded) == repr(crf)
        assert loaded.patterns_ == crf.patterns_
        np.testing.assert_array_equal(loaded.pattern_search_history_, crf.pattern_search_history_)
        np.testing.assert_array_equal(loaded.pattern_coef_, crf.pattern_coef_)
    spoilt = crf.__getstate__()
    spoilt["_fitted"] = spoilt["_fitted"]._replace(search=np.zeros(3))
    with pytest.raises(ValueError, match="rounds of the search"):
        estimator().__setstate__(spoilt)


# --- parameters -------------------------------------------------------------------------------------------------------


def test_settings():
    search = PatternSearch((0, 1.0, 2.0), relax=False)
    assert repr(search) == "PatternSearch(l1_reg=(0, 1.0, 2.0), relax=False)"
    crf = HighOrderCRF(2, patterns=search)
    assert clone(crf).patterns is not search
    assert repr(clone(crf)) == repr(crf)
    assert repr(search) in repr(crf)
    assert crf.get_params()["patterns__l1_reg"] == (0, 1.0, 2.0)
    assert crf.set_params(patterns__l1_reg=3).patterns.l1_reg == 3
    grid = GridSearchCV(HighOrderCRF(patterns=PatternSearch(), tol=1e-2), {"patterns__l1_reg": [0.1, 100.0]}, cv=2).fit(
        X, Y
    )
    assert set(grid.cv_results_["param_patterns__l1_reg"]) == {0.1, 100.0}
    assert grid.best_estimator_.patterns.l1_reg == grid.best_params_["patterns__l1_reg"]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (PatternSearch(-1), "l1_reg of PatternSearch"),
        (PatternSearch(np.inf), "l1_reg of PatternSearch"),
        (PatternSearch(np.nan), "l1_reg of PatternSearch"),
        (PatternSearch("1"), "l1_reg of PatternSearch"),
        (PatternSearch(()), "l1_reg of PatternSearch"),
        (PatternSearch([[1.0]]), "l1_reg of PatternSearch"),
        (PatternSearch((1, 2, 1)), r"l1_reg=\(1, 2, 1\) of PatternSearch decreases with the order"),
        (PatternSearch(relax="yes"), "relax of PatternSearch"),
        (PatternSearch(max_rounds=0), "max_rounds of PatternSearch"),
        (PatternSearch(max_rounds=True), "max_rounds of PatternSearch"),
    ],
    ids=str,
)
def test_invalid_settings(search, message):
    with pytest.raises(ValueError, match=message):
        HighOrderCRF(patterns=search).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"l1_reg": 0.1}, "its own L1 penalty"),
        ({"l1_reg": {None: 0.1}}, "its own L1 penalty"),
        ({"penalty": L2(1.0)}, "its own L1 penalty"),
        ({"objective": "hinge"}, "objective='likelihood'"),
        ({"objective": "local_feature_matching"}, "objective='likelihood'"),
        ({"objective": type("Own", (NegativeLogLikelihood,), {})()}, "objective='likelihood'"),
        ({"solver": "sgd"}, "gradients of all data"),
        ({"solver": SGD()}, "gradients of all data"),
        ({"solver": "adagrad"}, "gradients of all data"),
        ({"patterns": PatternSearch(relax=False), "feature_order": 1}, "exclude each other"),
        ({"patterns": PatternSearch(relax=False), "feature_order": {"a": (0, 2)}}, "exclude each other"),
        ({"patterns": PatternSearch(relax=False), "solver": "newton-cg"}, "NewtonCG needs"),
        ({"patterns": "observed", "max_order": None}, "max_order=None"),
        ({"patterns": "Auto"}, '"auto"'),
    ],
    ids=str,
)
@both_estimators
def test_refused(estimator, parameters, message):
    with pytest.raises(ValueError, match=message):
        estimator(**{"patterns": "auto", **parameters}).fit(X, Y)


def test_streams_are_refused():
    for given_by in (PatternSearch(), "auto"):
        crf = HighOrderCRF(solver="sgd")
        with pytest.raises(ValueError, match="partial_fit does not have"):
            crf.partial_fit(X, Y, patterns=given_by)
        with pytest.raises(ValueError, match="gradients of all data"):
            crf.set_params(patterns=given_by).partial_fit(X, Y)
    crf = HighOrderCRF(2, patterns=PatternSearch(relax=False)).fit(X, Y).set_params(solver="adagrad")
    with pytest.raises(ValueError, match="gradients of all data"):  # its criterion has the L1 penalty of the search
        crf.partial_fit(X, Y)
    for estimator in ESTIMATORS:
        with pytest.raises(ValueError, match="max_order=None needs"):
            estimator(None, patterns="auto", solver="sgd").partial_fit(X, Y, patterns="observed")


@both_estimators
@pytest.mark.parametrize("given_by", ["auto", "observed"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a pass begins at the optimum
def test_streams_keep_the_patterns_of_a_search(estimator, given_by):
    crf = estimator(None, patterns="auto").fit(X, Y)
    found = crf.patterns_
    assert len(found) > len(crf.classes_)
    assert crf.set_params(patterns=given_by, solver="sgd").partial_fit(X, Y).patterns_ == found
    assert crf.partial_fit(X, Y).patterns_ == found


@pytest.mark.parametrize("parameter", ["auto", PatternSearch(relax=False)], ids=str)
def test_patterns_of_a_stream_stand_in_place_of_the_parameter(parameter):
    crf = HighOrderCRF(2, patterns=parameter, solver="sgd", random_state=0)
    expected = HighOrderCRF(2, solver="sgd", random_state=0)
    for of_stream in "observed", None:
        crf.partial_fit(X, Y, patterns=of_stream)
        expected.partial_fit(X, Y)
        assert crf.patterns_ == expected.patterns_
        np.testing.assert_array_equal(crf.pattern_coef_, expected.pattern_coef_)
        assert crf._fitted.trained_with == expected._fitted.trained_with
    with pytest.raises(ValueError, match="gradients of all data|SGD needs"):
        crf.fit(X, Y)


@pytest.mark.parametrize("solver", [LBFGS(1e-6), OWLQN(1e-6), NewtonCG(1e-6)], ids=repr)
def test_solvers_with_settings(solver):
    crf = HighOrderCRF(2, patterns="auto", solver=solver).fit(X, Y)
    expected = HighOrderCRF(2, patterns="auto", tol=1e-6).fit(X, Y)
    assert crf.patterns_ == expected.patterns_
    assert crf.objective_history_[-1] == pytest.approx(expected.objective_history_[-1], rel=1e-8)


# --- warnings ---------------------------------------------------------------------------------------------------------


def test_searches_that_end_early_say_so():
    with pytest.warns(ConvergenceWarning, match="search for label patterns did not finish in 2 rounds.*max_rounds"):
        HighOrderCRF(2, patterns=PatternSearch(0.1, max_rounds=2)).fit(X, Y)
    # nothing is left to find, but the search has not come to the tolerance of the solver
    with pytest.warns(ConvergenceWarning, match="in 1 round: .* loose tolerance.*max_rounds") as caught:
        crf = HighOrderCRF(2, patterns=PatternSearch(50.0, max_rounds=1)).fit(X, Y)
    assert crf.pattern_search_history_[["largest_violation", "certificate"]].tolist() == [(0.0, True)]
    assert not any("differ" in str(warning.message) for warning in caught)
    # the first rounds are to the tolerance of the solver, so patterns that are out are all that is left
    with pytest.warns(ConvergenceWarning, match="in 1 round: expected and observed counts.*max_rounds"):
        HighOrderCRF(2, patterns=PatternSearch(0.1, max_rounds=1), tol=0.2).fit(X, Y)
    for max_iter in 0, 2:
        with pytest.warns(ConvergenceWarning, match=f"search for label patterns did not converge in {max_iter} iter"):
            HighOrderCRF(2, patterns=PatternSearch(0.1), max_iter=max_iter).fit(X, Y)


def test_many_patterns_are_announced(monkeypatch):
    monkeypatch.setattr(patterns, "_MANY_LABELS", 40)
    with pytest.warns(UserWarning, match="label patterns of up to 3 labels give an automaton") as caught:
        HighOrderCRF(None, patterns=PatternSearch(0.1)).fit(X, Y)
    assert len(caught) == 1


def test_tolerances_of_violations_need_no_copy_of_the_weights():
    search = object.__new__(pattern_search._ActiveSet)
    search.report = SimpleNamespace(w=np.full(400_000, 0.1), history=[3000.0, 1625.0])
    tracemalloc.start()
    assert search.matter([(8.07, (1, 1), 2.0)], 0.1)  # 8.07**2 / (2 * 2.0) > 0.1**2 * 1625
    assert not search.matter([(8.06, (1, 1), 2.0)], 0.1)
    assert search.matter([(7.0, (1, 1), 2.0), (7.0, (1, 0), 4.0)], 0.1)
    assert search.matter([(6.33, (1, 1), 0.0)], 0.1)  # without a penalty, 6.33 > 0.1 * norm(w)
    assert not search.matter([(6.32, (1, 1), 0.0)], 0.1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


# --- the parts --------------------------------------------------------------------------------------------------------


@given(labelled(), st.integers(1, 4), st.integers(1, 3), st.data())
def test_left_extensions(data, order, min_count, draw):
    n_labels, labellings = data
    codes, offsets = flat(labellings)
    weights = draw.draw(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=len(labellings), max_size=len(labellings))
    )
    observed = observed_patterns(codes, offsets, n_labels, order - 1)
    chosen = [z for z in observed.tuples() if len(z) == 1 or draw.draw(st.booleans())]
    table = given_patterns(chosen, n_labels)
    extended = np.array([draw.draw(st.booleans()) for _ in table.lengths])
    sequences = LabelledSequences(codes, offsets, np.array(weights), np.arange(len(weights)) * 1.0, min_count)
    found = left_extensions(compile_patterns(table), extended, order, sequences)
    expected = {}
    to_extend = {z for z, is_one in zip(table.tuples(), extended, strict=True) if is_one and len(z) == order}
    for number, labels in enumerate(labellings):
        for start in range(len(labels) - order):
            z = tuple(labels[start : start + order + 1])
            if z[1:] in to_extend:
                count = expected.setdefault(z, np.zeros(2))
                count += weights[number], number * (weights[number] > 0)
    expected = {
        z: counts[1] for z, counts in expected.items() if counts[0] > 0 and (min_count <= 1 or counts[0] >= min_count)
    }
    assert dict(zip(map(tuple, found.codes.tolist()), found.counts.tolist(), strict=True)) == expected
    assert [table.tuples()[row] for row in found.suffix] == [z[1:] for z in map(tuple, found.codes.tolist())]


@both_estimators
def test_layouts_of_the_same_pairs(estimator):
    crf = estimator(2).fit(X, Y)
    singles = estimator(0).fit(X, Y)._layout
    layout, expected = singles.with_biases(crf._layout.patterns, crf._layout.bias_pattern), crf._layout
    assert layout.n_weights == expected.n_weights
    assert layout.patterns.tuples() == expected.patterns.tuples()
    np.testing.assert_array_equal(layout.order_of_weight, expected.order_of_weight)
    np.testing.assert_array_equal(layout.pattern_coef(crf._weights), crf.pattern_coef_)
    assert (layout.coef(crf._weights) != crf.coef_).nnz == 0
    assert (singles.patterns.lengths == 1).all()
    again = pickle.loads(pickle.dumps(layout))
    np.testing.assert_array_equal(again.bias_pattern, layout.bias_pattern)
    conjoined = estimator(1, feature_order=1).fit(X, Y)._layout
    with pytest.raises(ValueError, match="two or more labels"):
        conjoined.with_biases(crf._layout.patterns, crf._layout.bias_pattern)
