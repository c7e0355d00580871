"""Soft labels: expected counts in place of observed ones, and what training on them is worth."""

import itertools
import math
import re

import numpy as np
import oracle
import pytest
from cases import random_case, to_batch, to_layout
from internals import CHAIN, NegativeLogLikelihood, Problem
from scipy import sparse
from test_holes import assert_gradient, problem_of

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.training import PartialLikelihood

NAMES = ["a", "b", "c"]


def drawn_rows(rng, n_tokens, n_labels=3):
    """Return distributions of labels: some spread, some with zeros, some certain."""
    rows = rng.dirichlet([0.7] * n_labels, n_tokens)
    rows[rng.random(rows.shape) < 0.25] = 0.0
    rows[np.arange(n_tokens), rng.integers(0, n_labels, n_tokens)] += 0.1
    certain = rng.random(n_tokens) < 0.2
    rows[certain] = np.eye(n_labels)[rng.integers(0, n_labels, certain.sum())]
    return rows / rows.sum(axis=1, keepdims=True)


def every_labelling(rows):
    """Return (labels, probability) for all labellings of positive probability."""
    found = []
    for labels in itertools.product(range(rows.shape[1]), repeat=len(rows)):
        probability = math.prod(rows[t, label] for t, label in enumerate(labels))
        if probability > 0:
            found.append((labels, probability))
    return found


def drawn_data(rng, n_sequences=5, n_words=6):
    """Return sequences of feature dicts, distributions as arrays, and the same as dicts."""
    X = [
        [{f"w{rng.integers(n_words)}": 1.0, "x": float(rng.normal())} for _ in range(rng.integers(1, 5))]
        for _ in range(n_sequences)
    ]
    tables = [drawn_rows(rng, len(tokens)) for tokens in X]
    return X, tables, [[as_dict(row) for row in table] for table in tables]


def as_dict(row):
    """Return a distribution as a dict that names all labels."""
    return dict(zip(NAMES, row.tolist(), strict=True))


def same_bits(left, right):
    assert left.patterns_ == right.patterns_
    assert left.classes_.tolist() == right.classes_.tolist()
    assert np.array_equal(left.pattern_coef_, right.pattern_coef_)
    assert (left.coef_ != right.coef_).nnz == 0
    assert np.array_equal(left.objective_history_, right.objective_history_)


# --- the criterion ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_order", [0, 1, 2, 3])
def test_value_and_gradient_against_all_labellings(max_order):
    rng = np.random.default_rng(max_order)
    for _ in range(5):
        case = random_case(rng, 3, [1, 2, 4, 5], max_order, 6 * (max_order > 0), 1.5, [(0,), (0, max_order)])
        layout, w = to_layout(case)
        batch = to_batch(case.sequences, 2)
        rows = drawn_rows(rng, batch.n_tokens)
        weight = rng.uniform(0.5, 2, len(batch))
        truth = rows.argmax(axis=1).astype(np.int32)
        problem = Problem(CHAIN, layout, batch, truth, sequence_weight=weight, soft=rows)
        objective = NegativeLogLikelihood().bind(problem)
        expected = 0.0
        for n, tokens in enumerate(case.sequences):
            mean = sum(
                q * oracle.score(case.model, tokens, labels)
                for labels, q in every_labelling(rows[batch.offsets[n] : batch.offsets[n + 1]])
            )
            expected += weight[n] * (oracle.log_partition(case.model, tokens) - mean)
        assert objective.value(w) == pytest.approx(expected, rel=1e-11)
        assert objective.value_gradient(w)[0] == pytest.approx(expected, rel=1e-11)
        assert objective.is_convex
        assert_gradient(objective, w, rng)


def test_certain_labels_count_as_observed_ones():
    rng = np.random.default_rng(0)
    for max_order in (0, 1, 3):
        case = random_case(rng, 3, [1, 2, 6, 9], max_order, 6 * (max_order > 0), 1.0, [(0,), (0, max_order)])
        layout, _ = to_layout(case)
        batch, codes = to_batch(case.sequences, 2), np.concatenate([*map(np.array, case.labels)]).astype(np.int32)
        weight = rng.uniform(0.5, 2, len(batch))
        soft = Problem(CHAIN, layout, batch, codes, sequence_weight=weight, soft=np.eye(3)[codes])
        hard = Problem(CHAIN, layout, batch, codes, sequence_weight=weight)
        np.testing.assert_allclose(soft.empirical_counts(), hard.empirical_counts(), rtol=1e-12, atol=1e-12)
        part = np.array([3, 1])
        np.testing.assert_allclose(soft.part(part).empirical_counts(), hard.part(part).empirical_counts(), atol=1e-12)


def test_dense_columns_and_parts_count_in_the_same_way():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(4, 3)) for _ in range(5)]
    y = [[as_dict(row) for row in drawn_rows(rng, 4)] for _ in X]
    options = {"label_parts": {"a": ["vowel"], "b": ["other"], "c": ["other"]}, "feature_order": 1, "tol": 1e-8}
    dense = HighOrderCRF(**options).fit(X, y)
    thin = HighOrderCRF(**options).fit([sparse.csr_array(rows) for rows in X], y)
    assert dense.label_parts_.tolist() == ["other"]  # the only one that two labels share
    np.testing.assert_allclose(dense.coef_.toarray(), thin.coef_.toarray(), atol=1e-5)
    np.testing.assert_allclose(dense.part_coef_.toarray(), thin.part_coef_.toarray(), atol=1e-5)
    problem = problem_of(HighOrderCRF(**options), X, y)
    assert_gradient(NegativeLogLikelihood().bind(problem), rng.normal(size=problem.n_weights), rng)


# --- the estimator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_order", [0, 1, 2])
def test_certain_labels_are_hard_labels_to_the_bit(max_order):
    rng = np.random.default_rng(max_order)
    X, tables, _ = drawn_data(rng)
    y = [[NAMES[code] for code in table.argmax(axis=1)] for table in tables]
    y[0][0], y[1][0], y[2][0] = NAMES
    hard = HighOrderCRF(max_order).fit(X, y)
    certain = [[{label: 1.0} if t % 2 else label for t, label in enumerate(labels)] for labels in y]
    same_bits(hard, HighOrderCRF(max_order).fit(X, certain))
    arrays = [np.eye(3)[[NAMES.index(label) for label in labels]] for labels in y]
    same_bits(hard, HighOrderCRF(max_order).fit(X, [*y[:3], *arrays[3:]]))
    numbered = HighOrderCRF(max_order).fit(X, arrays)
    assert numbered.classes_.tolist() == [0, 1, 2]
    assert np.array_equal(numbered.coef_.toarray(), hard.coef_.toarray())


def test_arrays_are_dicts_and_threads_change_no_bit():
    X, tables, dicts = drawn_data(np.random.default_rng(1), 40)
    model = HighOrderCRF(2).fit(X, dicts)
    same_bits(model, HighOrderCRF(2).fit(X, [*dicts[:1], *tables[1:]]))
    same_bits(model, HighOrderCRF(2, n_jobs=3).fit(X, dicts))
    assert model.predict(X) == HighOrderCRF(2).fit(X, [*dicts[:1], *tables[1:]]).predict(X)
    assert len(set(map(type, HighOrderCRF(2).fit(X, tables).predict(X)))) == 1


@pytest.mark.parametrize("options", [{}, {"class_weight": {"a": 3.0}}, {"feature_order": 1}])
def test_two_labels_at_a_token_are_weighted_copies(options):
    """With all weights in both models, a mixture is two sequences that share its weight, but for class weights."""
    rng = np.random.default_rng(5)
    X, tables, _ = drawn_data(rng)
    y = [[NAMES[code] for code in table.argmax(axis=1)] for table in tables]
    y[0][0], y[1][0], y[2][0] = NAMES
    options = {"all_pairs": True, "patterns": "all", "max_order": 2, "tol": 1e-9, **options}
    mixed = [[{"a": 0.3, "b": 0.7}, *y[0][1:]], *y[1:]]
    soft = HighOrderCRF(**options).fit(X, mixed)
    copies = [["a", *y[0][1:]], ["b", *y[0][1:]], *y[1:]]
    shares = np.array([0.3, 0.7] + [1.0] * (len(X) - 1))
    if "class_weight" in options:  # a mixture's weight is the mean of theirs: not the sum that copies have
        means = [np.mean([3.0 if label == "a" else 1.0 for label in labels]) for labels in copies]
        shares[:2] *= (0.3 * means[0] + 0.7 * means[1]) / np.array(means[:2])
    hard = HighOrderCRF(**options).fit([X[0], *X], copies, sample_weight=shares)
    np.testing.assert_allclose(soft.pattern_coef_, hard.pattern_coef_, atol=1e-6)
    np.testing.assert_allclose(soft.coef_.toarray(), hard.coef_.toarray(), atol=1e-6)
    assert soft.objective_history_[-1] == pytest.approx(hard.objective_history_[-1], rel=1e-9)


def test_marginals_without_a_penalty_are_the_distributions():
    rng = np.random.default_rng(7)
    tables = [rng.dirichlet([1.0] * 3, 4) for _ in range(3)]
    X = [[[f"{n}.{t}"] for t in range(4)] for n in range(3)]
    model = HighOrderCRF(0, all_pairs=True, sigma_reg=np.inf, tol=1e-9, max_iter=5000).fit(X, tables)
    for found, given in zip(model.predict_marginals(X), tables, strict=True):
        np.testing.assert_allclose(found, given, atol=1e-6)


def test_other_solvers_and_warm_starts_find_the_same_optimum():
    X, _, y = drawn_data(np.random.default_rng(2), 12)
    model = HighOrderCRF(1, tol=1e-8).fit(X, y)
    for options in ({"solver": "newton-cg"}, {"objective": PartialLikelihood("em")}):
        other = HighOrderCRF(1, tol=1e-8, **options).fit(X, y)
        np.testing.assert_allclose(other.coef_.toarray(), model.coef_.toarray(), atol=1e-5)
    assert HighOrderCRF(1, l1_reg=0.5).fit(X, y).n_parameters_ < model.n_parameters_
    assert model.set_params(warm_start=True).fit(X, y).n_iter_ <= 1


def test_balanced_class_weights_count_expected_labels():
    X, tables, y = drawn_data(np.random.default_rng(3))
    counts = np.concatenate(tables).sum(axis=0)
    weights = dict(zip(NAMES, (counts.sum() / (3 * counts)).tolist(), strict=True))
    balanced = HighOrderCRF(class_weight="balanced", tol=1e-7).fit(X, y)
    given = HighOrderCRF(class_weight=weights, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(balanced.coef_.toarray(), given.coef_.toarray(), atol=1e-8)


# --- which weights there are ------------------------------------------------------------------------------------------


def test_the_most_probable_labels_and_frequent_ones_have_weights():
    X = [[["u"], ["v"]]] * 2 + [[["u"], ["r"]]]
    y = [[{"a": 0.6, "b": 0.4}, "b"]] * 2 + [[{"a": 0.6, "b": 0.4}, {"a": 0.9, "b": 0.05, "c": 0.05}]]

    def pairs(model):
        patterns, names = model.patterns_, model.feature_names_in_.tolist()
        cells = model._layout.pair_pattern, model._layout.pair_feature
        return {(*patterns[row], names[feature]) for row, feature in zip(*cells, strict=True)}

    plain = HighOrderCRF().fit(X, y)
    assert plain.classes_.tolist() == ["a", "b", "c"]
    assert plain.patterns_[3:] == [("a", "a"), ("a", "b")]
    assert pairs(plain) == {("a", "u"), ("b", "v"), ("a", "r"), ("b", "u")}  # 3 * 0.4 >= 1
    fewer = HighOrderCRF(min_count=1.5).fit(X, y)
    assert fewer.patterns_[3:] == [("a", "b")]
    assert pairs(fewer) == {("a", "u"), ("b", "v")}
    more = HighOrderCRF(min_count=0.05).fit(X, y)
    assert more.patterns_ == plain.patterns_
    assert pairs(more) == pairs(plain) | {("b", "r"), ("c", "r")}


# --- errors -----------------------------------------------------------------------------------------------------------

X = [[["u"], ["v"]], [["v"], ["u"]]]


@pytest.mark.parametrize(
    ("second", "error", "message"),
    [
        (
            [{"a": 0.5, "b": 0.4}, "b"],
            ValueError,
            "sequence 1, position 0 of y: the probabilities sum to 0.9, not to 1",
        ),
        (["a", {"a": 1.5, "b": -0.5}], ValueError, "sequence 1, position 1 of y: the probability of 'b' is -0.5"),
        (["a", {"a": math.nan, "b": 1.0}], ValueError, "position 1 of y: the probability of 'a' is nan"),
        (["a", {"a": math.inf}], ValueError, "position 1 of y: the probabilities sum to inf"),
        (["a", {}], ValueError, "y has an empty dict (sequence 1, position 1)"),
        (["a", {"a": "1"}], TypeError, "the probability '1' of 'a' (sequence 1, position 1 of y) is not a number"),
        ([None, {"a": 0.5, "b": 0.5}], ValueError, "y has a hole (sequence 1, position 0)"),
        ([{"a", "b"}, {"a": 0.5, "b": 0.5}], ValueError, "y has a hole (sequence 1, position 0)"),
        (["a", {None: 0.5, "b": 0.5}], ValueError, "(sequence 1, position 1)"),
        ([{"a": 0.5, "b": 0.5}], ValueError, "sequence 1 has 2 tokens in X, but 1 labels in y"),
        (np.full((2, 3), 1 / 3), ValueError, "y[1] (sequence 1) has probabilities in 3 columns, but y has 2 labels"),
        (np.full((3, 2), 0.5), ValueError, "sequence 1 has 2 tokens in X, but 3 labels in y"),
        (np.full((2, 2), np.nan), ValueError, "sequence 1, position 0 of y: the probability of 'a' is nan"),
    ],
)
def test_errors_name_the_place(second, error, message):
    model = HighOrderCRF()
    with pytest.raises(error, match=re.escape(message)):
        model.fit(X, [["a", "b"], second])
    assert not hasattr(model, "coef_")


def test_one_column_is_one_label():
    with pytest.raises(ValueError, match="at least 2 distinct labels"):
        HighOrderCRF().fit(X, [np.ones((2, 1))] * 2)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (Constraints(forbid=[("b", "a")]), "sequence 1, position 1: y gives ('b', 'a') the probability 0.2, but"),
        (Constraints(forbid=[("b", "c", "a")]), None),
        (Constraints(start=["a", "c"]), "sequence 1, position 0: y gives 'b' at the start of a sequence"),
        (Constraints(end=["a", "c"]), "sequence 0, position 1: y gives 'b' at the end of a sequence the probability 1"),
        (Constraints(start=["a", "b"], end=["a", "b"]), None),
    ],
)
def test_probability_of_what_constraints_forbid(constraints, message):
    y = [["c", "b"], [{"a": 0.6, "b": 0.4, "c": 0.0}, {"a": 0.5, "b": 0.5}]]
    y = [["a", "b"], *y[1:]] if message is None else y
    if message is None:
        assert HighOrderCRF(2, constraints=constraints).fit(X, y).classes_.tolist() == ["a", "b", "c"]
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        HighOrderCRF(2, constraints=constraints).fit(X, y)


def test_holes_in_other_sequences_are_holes():
    X = [[["u"], ["v"], ["v"]], [["v"], ["u"]], [["v"], ["u"]]]
    y = [["b", None, "a"], [{"a": 0.3, "b": 0.7}, "b"], ["a", "b"]]
    problem = problem_of(HighOrderCRF(2), X, y)
    rng = np.random.default_rng(0)
    objective, w = NegativeLogLikelihood().bind(problem), rng.normal(size=problem.n_weights)
    assert_gradient(objective, w, rng)
    separate = sum(
        NegativeLogLikelihood().bind(problem.part(np.array([n]))).value_gradient(w)[0] for n in range(len(X))
    )
    assert objective.value(w) == pytest.approx(separate, rel=1e-12)


def test_sequences_of_weight_0_are_left_out():
    y = [["a", {"a": 0.3, "b": 0.7}], [{"z": 1.5}, None]]
    assert HighOrderCRF().fit(X, y, sample_weight=[2.0, 0.0]).classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("method", ["score", "log_likelihood"])
def test_scores_take_labels_only(method):
    y = [["a", {"a": 0.3, "b": 0.7}], ["b", "a"]]
    model = HighOrderCRF().fit(X, y)
    with pytest.raises(TypeError, match="only HighOrderCRF.fit takes probabilities of labels"):
        getattr(model, method)(X, y)


def test_tables_of_integers_are_no_probabilities():
    model, message = HighOrderCRF().fit(X, [np.eye(2)] * 2), r"y\[0\].* has 2 dimensions.*takes.*arrays of floats"
    with pytest.raises(ValueError, match=message):
        model.fit(X, [np.eye(2, dtype=int)] * 2)
    with pytest.raises(ValueError, match=message):
        model.score(X, [np.eye(2)] * 2)


def test_who_refuses():
    y = [[{"a": 0.5, "b": 0.5}, "b"], ["a", "b"]]
    with pytest.raises(ValueError, match="say nothing about where segments begin"):
        HighOrderSemiCRF().fit(X, y)
    with pytest.raises(ValueError, match="needs true labels, but y has probabilities"):
        HighOrderCRF(solver="sgd").partial_fit(X, y)
    with pytest.raises(ValueError, match="no held-out likelihood"):
        PenaltySearchCV(HighOrderCRF(), cv=2).fit(X, y)


def test_refusals_name_the_first_soft_label():
    X, soft = [[["a"], ["b"]], [["b"], ["a"]]], {"x": 0.3, "y": 0.7}
    for y, place in (([["x", "y"], ["y", soft]], "sequence 1, position 1"), ([["x", "y"], np.eye(2)], "sequence 1")):
        with pytest.raises(ValueError, match=rf"where segments begin.* \({place} of y\)$"):
            HighOrderSemiCRF().fit(X, y)
