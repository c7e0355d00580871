"""Labels with parts: the same as a plain model whose weights are sums over parts, and all that can be done with them.

The oracle is the plain model: a label's weight with a feature is its own plus those of its parts. Everything that a
model answers must be that model's answer, and derivatives follow by the chain rule.
"""

import copy
import pickle

import numpy as np
import pytest
from cases import cases, random_case, to_batch, to_codes, to_layout
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import (
    BEGIN,
    CHAIN,
    SEGMENTS,
    CandidateFinder,
    Candidates,
    LabelParts,
    Mask,
    Problem,
    Schedule,
    _Descent,
    tie_weights,
)
from scipy import sparse
from scipy.special import log_softmax
from segment_cases import (
    MIXED,
    random_segment_case,
    segment_cases,
    to_segment_batch,
    to_segment_layout,
    to_segments,
)

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.inspection import explain, weights_table
from sklearn_hocrf.training import SGD

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def to_parts(sets, n_parts):
    """Return the parts of labels, given as sets of numbers."""
    return LabelParts(
        np.cumsum([0, *map(len, sets)]), np.array([s for parts in sets for s in sorted(parts)], int), n_parts
    )


def draw_parts(draw, n_labels):
    n_parts = draw(st.integers(1, 3))
    return to_parts([draw(st.sets(st.integers(0, n_parts - 1))) for _ in range(n_labels)], n_parts)


class Pair:
    """A problem with parts, and the plain one of the same data."""

    def __init__(self, kind, case, parts, **options):
        self.kind, self.case, self.parts = kind, case, parts
        if kind == "chain":
            family, batch = CHAIN, to_batch(case.rows, case.n_attributes)
            truth, layouts = to_codes(case.labels), [to_layout(case, parts=p)[0] for p in (parts, None)]
        else:
            family, batch = SEGMENTS, to_segment_batch(case)
            truth = to_segments(case.segmentations, batch.offsets)
            layouts = [to_segment_layout(case, batch, parts=p) for p in (parts, None)]
        self.shared, self.plain = (Problem(family, layout, batch, truth, **options) for layout in layouts)

    def expand(self, w):
        """Return the weights of the plain model."""
        layout, M = self.shared.layout, self.parts.matrix()
        coef = layout.coef(w).tolil()
        coef[: M.shape[0]] = (layout.coef(w)[: M.shape[0]] + M @ layout.part_coef(w)).tolil()
        return self.plain.layout.weights(layout.pattern_coef(w), coef.tocsr(), token_coef=layout.token_coef(w))

    def fold(self, counts):
        """Return derivatives by the weights of the model with parts, given those of the plain one: the transpose."""
        layout, M = self.plain.layout, self.parts.matrix()
        coef, token_coef = layout.coef(counts), layout.token_coef(counts)
        return self.shared.layout.weights(layout.pattern_coef(counts), coef, M.T @ coef[: M.shape[0]], token_coef)

    def draw_weights(self, seed=0, scale=1.0):
        return scale * np.random.default_rng(seed).normal(size=self.shared.n_weights)


def check_pair(pair, w, tol=1e-9):
    """Compare what a model with parts answers with the answers of the plain one."""
    batch, options = pair.shared.batch, {"rtol": tol, "atol": tol}
    expanded = pair.expand(w)
    ours, plain = pair.shared.posterior(w), pair.plain.posterior(expanded)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(batch))
    np.testing.assert_allclose(ours.log_z(), plain.log_z(), **options)
    np.testing.assert_allclose(ours.marginals(), plain.marginals(), **options)
    np.testing.assert_allclose(ours.log_score(pair.shared.truth), plain.log_score(pair.shared.truth), **options)
    expected, of_plain = ours.expectations(weight), plain.expectations(weight)
    np.testing.assert_allclose(expected.counts, pair.fold(of_plain.counts), **options)
    np.testing.assert_allclose(
        pair.shared.layout.empirical_counts(batch, pair.shared.truth, weight),
        pair.fold(pair.plain.layout.empirical_counts(batch, pair.shared.truth, weight)),
        **options,
    )
    direction = pair.draw_weights(2)
    product = plain.hessian_vector_product(pair.expand(direction), weight)
    np.testing.assert_allclose(ours.hessian_vector_product(direction, weight), pair.fold(product), **options)
    some = pair.shared.layout.patterns.tuples()[-1:]
    np.testing.assert_allclose(ours.pattern_marginals(some), plain.pattern_marginals(some), **options)
    best, of_plain = ours.best_labellings(2), plain.best_labellings(2)
    np.testing.assert_allclose(best.score, of_plain.score, **options)
    np.testing.assert_allclose(ours.entropy(), plain.entropy(), rtol=tol, atol=1e-7)


# --------------------------------------------------------------------------------------------------- the plain model


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_chains_answer_as_plain_models(data):
    case = data.draw(cases())
    pair = Pair("chain", case, draw_parts(data.draw, case.model.n_labels))
    check_pair(pair, pair.draw_weights())


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_segments_answer_as_plain_models(data):
    case = data.draw(segment_cases())
    pair = Pair("segments", case, draw_parts(data.draw, case.model.n_labels))
    check_pair(pair, pair.draw_weights())


def some_pair(kind, seed=0, scale=0.5, lengths=(9, 1, 4, 17, 6, 3, 12, 2, 5, 8, 7, 30), **options):
    rng = np.random.default_rng(seed)
    if kind == "chain":
        case = random_case(rng, 6, lengths, 2, 12, scale, [(0,), (0, 1), (2,), (0,)])
        return Pair(kind, case, to_parts([{0, 1}, {0}, {1, 2}, set(), {2}, {0, 1, 2}], 3), **options)
    patterns = [(0, 1), (1, 0), (0, 1, 0), (2, 0)]
    case = random_segment_case(rng, lengths, MIXED, ((0, 1),), longest=(5, 3, 1), scale=scale, patterns=patterns)
    return Pair(kind, case, to_parts([{0}, {0, 1}, {1}], 2), **options)


kinds = pytest.mark.parametrize("kind", ["chain", "segments"])


@kinds
def test_many_sequences_answer_as_plain_models(kind):
    pair = some_pair(kind)
    check_pair(pair, pair.draw_weights(scale=0.5))


@kinds
def test_what_scaling_cannot_represent(kind):
    pair = some_pair(kind, lengths=(9, 3, 4))
    check_pair(pair, pair.draw_weights(scale=300.0), tol=1e-7)


def test_sequences_cut_by_position():
    pair = some_pair("chain", lengths=(60, 3))
    w = pair.draw_weights(scale=0.5)
    cut = Problem(CHAIN, pair.shared.layout, pair.shared.batch, pair.shared.truth, schedule=Schedule(cut_size=256))
    expected = pair.shared.posterior(w).expectations().counts
    np.testing.assert_allclose(cut.posterior(w).expectations().counts, expected, rtol=1e-9, atol=1e-9)


@kinds
def test_masks(kind):
    pair = some_pair(kind, lengths=(5, 4, 6))
    n_labels, w = len(pair.parts.starts) - 1, pair.draw_weights(scale=0.5)
    mask = Mask.free(pair.shared.batch.n_tokens, n_labels)
    mask.allowed[3] = np.arange(n_labels) == 1
    ours, plain = pair.shared.model(w), pair.plain.model(pair.expand(w))
    batch = pair.shared.batch
    np.testing.assert_allclose(ours.given(batch, mask).marginals(), plain.given(batch, mask).marginals(), atol=1e-12)


@kinds
def test_layouts_that_change_keep_the_weights(kind):
    pair = some_pair(kind)
    layout, w, batch = pair.shared.layout, pair.draw_weights(), pair.shared.batch
    w[np.random.default_rng(5).random(len(w)) < 0.4] = 0.0
    expected = pair.shared.model(w).given(batch).log_z()
    pruned, kept = layout.pruned(w)
    assert pruned.n_weights == len(kept) == np.count_nonzero(w)
    np.testing.assert_allclose(pair.shared.under(pruned).model(kept).given(batch).log_z(), expected, rtol=1e-12)
    for same in (pickle.loads(pickle.dumps(layout)), copy.copy(layout), layout.with_columns([((0, 2), BEGIN)])[0]):
        np.testing.assert_allclose(pair.shared.under(same).model(w).given(batch).log_z(), expected, rtol=1e-12)
    ties = tie_weights(layout, batch)
    u = np.random.default_rng(6).normal(size=len(ties.root))
    root = np.concatenate([u[: ties.layout.n_pairs] * ties.root[: ties.layout.n_pairs], u[ties.layout.n_pairs :]])
    np.testing.assert_allclose(
        pair.shared.under(ties.layout).model(root).given(batch).log_z(),
        pair.shared.model(ties.widen(u)).given(batch).log_z(),
        rtol=1e-9,
    )


def test_order_zero_keeps_the_weights():
    case = random_case(np.random.default_rng(0), 4, (6, 3, 8), 2, 8, 0.5, [(0,), (0,)])
    pair = Pair("chain", case, to_parts([{0}, {0, 1}, {1}, set()], 2))
    base, w = pair.shared.layout, pair.draw_weights()
    fewer = base.of_order_zero()
    kept = np.append(w[: base.n_pairs], w[base.n_pairs :][:4])
    np.testing.assert_array_equal(fewer.part_coef(kept).toarray(), base.part_coef(w).toarray())
    again = pickle.loads(pickle.dumps(fewer))
    np.testing.assert_array_equal(again.part_coef(kept).toarray(), base.part_coef(w).toarray())
    np.testing.assert_allclose(
        pair.shared.under(again).model(kept).given(pair.shared.batch).log_z(),
        pair.shared.under(fewer).model(kept).given(pair.shared.batch).log_z(),
        rtol=1e-12,
    )


def level_zero_with_parts(seed, lengths=(9, 1, 0, 4, 17, 6)):
    """Return a layout of level 0, a batch with its dense matrix, the 0/1 matrix of parts, and a generator."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, 13, lengths, 2, 20, 1.0, [(0,)] * 6)
    sets = [set(np.flatnonzero(row).tolist()) for row in rng.random((13, 9)) < 0.3]
    parts = to_parts([set(), *sets[1:]], 9)
    layout, batch = to_layout(case, parts=parts)[0].of_order_zero(), to_batch(case.rows, 6)
    return layout, batch, batch.tocsr().toarray(), parts.matrix().toarray(), rng


def without_pairs(layout, some):
    """Return the layout without the pairs of some parts."""
    kept = np.flatnonzero(~np.isin(layout.pair_pattern, layout.patterns.n_labels + np.array(some)))
    pairs = {"pair_feature": layout.pair_feature[kept], "pair_pattern": layout.pair_pattern[kept]}
    return layout.replaced(**pairs, extra_columns=())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gone", [(), (0, 7), tuple(range(9))])
def test_level_zero_finds_the_best_sums(seed, gone):
    layout, batch, rows, M, rng = level_zero_with_parts(seed)
    layout = without_pairs(layout, gone)
    w = rng.integers(-2, 3, layout.n_weights).astype(float)  # ties
    coef = layout.coef(w).toarray() + M @ layout.part_coef(w).toarray()
    scores = rows @ coef.T + layout.pattern_coef(w)
    mask = Mask(rng.random(scores.shape) < 0.5, np.zeros(len(rows), np.int8))
    mask.allowed[:, 3] = True
    for allowed in None, mask:
        found = CandidateFinder(layout, w, 4).find(batch, allowed)
        for t, (labels, own) in enumerate(zip(*(np.split(x, found.starts[1:-1]) for x in found[1:3]), strict=True)):
            possible = np.arange(13) if allowed is None else np.flatnonzero(mask.allowed[t])
            np.testing.assert_allclose(own, scores[t, labels], rtol=1e-12, atol=1e-12)
            best = np.sort(scores[t, possible])[::-1][:4]
            np.testing.assert_allclose(np.sort(own)[::-1], best, rtol=1e-12, atol=1e-12)
            assert set(labels.tolist()) <= set(possible.tolist())
            assert len(set(labels.tolist())) == len(labels)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gone", [(), (0, 7), tuple(range(9))])
def test_level_zero_steps_along_the_gradient(seed, gone):
    layout, batch, rows, M, rng = level_zero_with_parts(seed)
    layout = without_pairs(layout, gone)
    codes = rng.integers(0, 13, len(rows)).astype(np.int32)
    weight = rng.uniform(0.5, 2, len(batch))
    descent, order = _Descent(layout, batch, codes, weight), rng.permutation(len(batch))
    descent.run_epoch(order)
    W, bias, counts = np.zeros((13 + 9, 6)), np.zeros(13), np.delete(M, gone, axis=1).sum()
    has_weight = layout.row_coef(np.ones(layout.n_weights)).toarray() > 0
    to_rows = np.concatenate([np.eye(13), M], axis=1)  # a label's scores are those of its rows
    size = np.abs(rows).sum(axis=0) / np.count_nonzero(rows, axis=0)  # features are learned as if it were 1
    for s in order:
        for t in range(*batch.offsets[s : s + 2]):
            x = rows[t] / size
            error = np.exp(log_softmax(bias + to_rows @ W @ x)) - (np.arange(13) == codes[t])
            step = _Descent.rate / (1 + counts / 13 / 2) * weight[s] / weight.mean() / (1 + x @ x)
            bias -= step * error
            W -= step * np.outer(to_rows.T @ error, x) * has_weight
    assert has_weight[13:].any() == (len(gone) < 9)
    w = descent.weights()
    np.testing.assert_allclose(layout.row_coef(w).toarray(), W / size, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(layout.pattern_coef(w), bias, rtol=1e-6, atol=1e-6)


def few_candidates(pair, seed=0):
    """Return random candidates of all tokens, the true labels among them."""
    n_labels, codes = len(pair.parts.starts) - 1, pair.shared.truth
    allowed = np.random.default_rng(seed).random((len(codes), n_labels)) < 0.4
    allowed[np.arange(len(codes)), codes] = True
    token, label = np.nonzero(allowed)
    return Candidates.of_counts(np.bincount(token), label)


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_lattices_answer_as_plain_models(data):
    case = data.draw(cases(bias_only=True, min_length=1))
    pair = Pair("chain", case, draw_parts(data.draw, case.model.n_labels))
    w, candidates = pair.draw_weights(scale=data.draw(st.sampled_from([1.0, 300.0]))), few_candidates(pair)
    ours, plain = pair.shared.over(candidates), pair.plain.over(candidates)
    check_lattices(pair, w, ours, plain)


def check_lattices(pair, w, ours, plain):
    model, other = ours.model(w), plain.model(pair.expand(w))
    options = {"rtol": 1e-7, "atol": 1e-7}
    weight = np.random.default_rng(1).uniform(0.5, 2, ours.n_sequences)
    expected, of_plain = model.on(ours.plan).expectations(weight), other.on(plain.plan).expectations(weight)
    np.testing.assert_allclose(expected.log_z, of_plain.log_z, **options)
    np.testing.assert_allclose(expected.counts, pair.fold(of_plain.counts), **options)
    np.testing.assert_allclose(ours.empirical_counts(), pair.fold(plain.empirical_counts()), **options)
    np.testing.assert_allclose(ours.empirical_counts(), pair.shared.empirical_counts(), **options)
    np.testing.assert_allclose(
        model.on(ours.plan).lattice_marginals()[0], other.on(plain.plan).lattice_marginals()[0], **options
    )
    log_z = model.on(ours.plan).log_z()
    np.testing.assert_allclose(log_z, of_plain.log_z, **options)


def test_lattices_of_many_sequences():
    rng = np.random.default_rng(0)
    case = random_case(rng, 6, (9, 1, 0, 4, 17, 6, 3, 12), 2, 12, 0.5, [(0,)] * 3)
    pair = Pair("chain", case, to_parts([{0, 1}, {0}, {1, 2}, set(), {2}, {0, 1, 2}], 3))
    w, candidates = pair.draw_weights(), few_candidates(pair)
    ours, plain = pair.shared.over(candidates), pair.plain.over(candidates)
    check_lattices(pair, w, ours, plain)
    one, two = (ours._with(n_jobs=n).posterior(w).expectations().counts for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    every = Candidates.of_counts(np.full(ours.batch.n_tokens, 6), np.tile(np.arange(6), ours.batch.n_tokens))
    whole = pair.shared.over(every)
    expected = pair.shared.posterior(w).expectations()
    np.testing.assert_allclose(whole.posterior(w).expectations().counts, expected.counts, atol=1e-12)


# ------------------------------------------------------------------------------------------------------- estimators

RNG = np.random.default_rng(0)
TAGS = ["N|Gen|Pl", "N|Gen|Sg", "N|Nom|Sg", "V|Sg", "V|Pl", "X"]
Y = [[TAGS[i] for i in RNG.integers(0, len(TAGS), RNG.integers(1, 7))] for _ in range(20)]
X = [[[f"w{RNG.integers(8)}", f"tag={tag[: RNG.integers(1, 8)]}", "on"] for tag in tags] for tags in Y]
ESTIMATORS = [HighOrderCRF, HighOrderSemiCRF]
both = pytest.mark.parametrize("estimator", ESTIMATORS)


def split(label):
    return label.split("|")


def membership(crf, labels):
    return np.array([[part in split(label) for part in crf.label_parts_] for label in labels], dtype=float)


@both
def test_parts_have_weights_with_all_their_features(estimator):
    crf = estimator(label_parts=split).fit(X, Y)
    assert crf.label_parts_.tolist() == ["Gen", "N", "Pl", "Sg", "V"]  # "Nom" and "X" are of one label each
    assert crf.part_coef_.shape == (5, crf.n_features_in_)
    assert crf.coef_.shape == (len(crf.patterns_), crf.n_features_in_)
    n_tokens = np.count_nonzero(getattr(crf, "token_intercept_", 0))
    assert crf.n_parameters_ == crf.coef_.nnz + crf.part_coef_.nnz + len(crf.patterns_) + n_tokens
    plain = estimator().fit(X, Y)
    np.testing.assert_array_equal(crf.coef_.indices, plain.coef_.indices)
    assert plain.label_parts_.shape == (0,)
    assert plain.part_coef_.shape == (0, crf.n_features_in_)
    seen = plain.coef_[: len(TAGS)].astype(bool).astype(float)
    np.testing.assert_array_equal(
        crf.part_coef_.astype(bool).toarray(), membership(crf, sorted(TAGS)).T @ seen.toarray() > 0
    )


@both
@pytest.mark.parametrize(
    "parts",
    [lambda label: [label], lambda label: (), {"X": ["only"]}, dict.fromkeys(TAGS, []), lambda label: [label, label]],
)
def test_parts_of_one_label_are_the_label_itself(estimator, parts):
    plain, crf = estimator(2, max_iter=20).fit(X, Y), estimator(2, max_iter=20, label_parts=parts).fit(X, Y)
    assert len(crf.label_parts_) == 0
    np.testing.assert_array_equal(plain.objective_history_, crf.objective_history_)
    np.testing.assert_array_equal(plain.coef_.toarray(), crf.coef_.toarray())
    assert plain.predict(X) == crf.predict(X)


@both
def test_forms_of_parts_agree(estimator):
    of_function = estimator(label_parts=split).fit(X, Y)
    mapping = {tag: split(tag) for tag in TAGS}
    for parts in (
        mapping,
        {**mapping, "of no label": ["Gen"]},
        lambda label: (part for part in split(label)),
        lambda label: split(label) * 2,  # repeated
        lambda label: set(split(label)),
        lambda label: np.array(split(label)),
    ):
        other = estimator(label_parts=parts).fit(X, Y)
        np.testing.assert_array_equal(of_function.objective_history_, other.objective_history_)
        np.testing.assert_array_equal(of_function.part_coef_.toarray(), other.part_coef_.toarray())


def test_a_part_of_all_labels_says_nothing_in_chains():
    crf = HighOrderCRF(label_parts=lambda label: ["all"], tol=1e-8).fit(X, Y)
    assert crf.label_parts_.tolist() == ["all"]
    np.testing.assert_allclose(crf.part_coef_.toarray(), 0, atol=1e-12)
    plain = HighOrderCRF(tol=1e-8).fit(X, Y)
    assert crf.objective_history_[-1] == pytest.approx(plain.objective_history_[-1], rel=1e-9)


def test_parts_need_not_be_strings():
    crf = HighOrderCRF(label_parts=lambda label: [(part, len(part)) for part in split(label)]).fit(X, Y)
    assert crf.label_parts_.tolist() == [("Gen", 3), ("N", 1), ("Pl", 2), ("Sg", 2), ("V", 1)]
    other = HighOrderCRF(label_parts=split).fit(X, Y)
    np.testing.assert_allclose(crf.part_coef_.toarray(), other.part_coef_.toarray())
    foreign = HighOrderCRF(label_parts=lambda label: ["Ünlü\0", "日本"]).fit(X, Y)
    assert foreign.label_parts_.tolist() == ["Ünlü\0", "日本"]


def test_labels_need_not_be_strings():
    y = [[TAGS.index(tag) for tag in tags] for tags in Y]
    of_numbers = HighOrderCRF(label_parts={i: split(tag) for i, tag in enumerate(TAGS)}).fit(X, y)
    of_strings = HighOrderCRF(label_parts=split).fit(X, Y)
    assert of_numbers.objective_history_[-1] == pytest.approx(of_strings.objective_history_[-1], rel=1e-6)
    tuples = [[tuple(split(tag)) for tag in tags] for tags in Y]
    crf = HighOrderCRF(label_parts=lambda label: label).fit(X, tuples)
    np.testing.assert_allclose(crf.part_coef_.toarray(), of_strings.part_coef_.toarray(), atol=1e-3)


def test_rare_labels_profit_from_parts():
    """The pair (V, Pl) of parts is seen once, with another word: its parts say which label it is."""
    x = [[["amat"]], [["amant"]], [["canis"]], [["canes"]], [["videt"]]] * 5 + [[["vident", "x"]]]
    x = [[[f"ends {word[-k:]}" for word in row for k in (1, 2, 3)] for row in s] for s in x]
    y = [["V|Sg"], ["V|Pl"], ["N|Sg"], ["N|Pl"], ["V|Sg"]] * 5 + [["V|Pl"]]
    with_parts = HighOrderCRF(0, label_parts=split, sigma_reg=3.0).fit(x, y)
    assert with_parts.score(x, y) == 1.0
    assert weights_table(with_parts, label="V|Pl", order=0, top=None)


@both
def test_dense_columns(estimator):
    table = [np.random.default_rng(n).normal(size=(len(tags), 3)) for n, tags in enumerate(Y)]
    options = {"label_parts": split, "tol": 1e-6, "feature_order": 1}
    dense = estimator(**options).fit(table, Y)
    loose = estimator(**options).fit([sparse.csr_array(rows) for rows in table], Y)
    assert dense.objective_history_[-1] == pytest.approx(loose.objective_history_[-1], rel=1e-9)
    np.testing.assert_allclose(dense.part_coef_.toarray(), loose.part_coef_.toarray(), atol=1e-5)
    np.testing.assert_allclose(dense.log_likelihood(table, Y), loose.log_likelihood(table, Y), rtol=1e-4)
    assert estimator(**options, solver=SGD(max_iter=3, random_state=0)).fit(table, Y).part_coef_.nnz
    rare = estimator(**options, min_count=18.0)
    np.testing.assert_array_equal(
        rare.fit(table, Y).part_coef_.astype(bool).toarray(),
        rare.fit([sparse.csr_array(rows) for rows in table], Y).part_coef_.astype(bool).toarray(),
    )


@both
def test_rare_pairs_of_parts_get_no_weight(estimator):
    counts = {}
    for rows, tags in zip(X, Y, strict=True):
        for row, tag in zip(rows, tags, strict=True):
            for part in split(tag):
                for name in row:
                    counts[part, name] = counts.get((part, name), 0) + 1
    crf = estimator(label_parts=split, min_count=4, max_iter=2).fit(X, Y)
    rows, columns = crf.part_coef_.nonzero()
    found = {(crf.label_parts_[s], crf.feature_names_in_[f]) for s, f in zip(rows, columns, strict=True)}
    assert found <= {pair for pair, count in counts.items() if count >= 4}
    assert crf._layout.part_coef(np.ones(crf.n_parameters_)).nnz == sum(
        count >= 4 and part in crf.label_parts_ for (part, _), count in counts.items()
    )
    every = estimator(label_parts=split, all_pairs=True, max_iter=2).fit(X, Y)
    assert every.part_coef_.nnz == 5 * every.n_features_in_


@both
def test_warm_starts(estimator):
    crf = estimator(label_parts=split, warm_start=True).fit(X, Y)
    first = crf.objective_history_
    assert crf.fit(X, Y).n_iter_ == 0
    assert crf.objective_history_[0] == pytest.approx(first[-1], rel=1e-12)
    # parts are matched by name: the weights of the others start at 0
    by_name = dict(zip(crf.label_parts_.tolist(), crf.part_coef_.toarray(), strict=True))
    crf.set_params(label_parts=lambda label: ["A" if len(label) > 1 else "Z", *split(label)][:2], max_iter=0).fit(X, Y)
    assert crf.label_parts_.tolist() == ["A", "N", "V"]
    for part, row in zip(crf.label_parts_, crf.part_coef_.toarray(), strict=True):
        np.testing.assert_array_equal(row, by_name.get(part, np.zeros(len(row))))


@both
def test_streams(estimator):
    crf = estimator(label_parts=split, solver="sgd", random_state=0)
    crf.partial_fit(X[:10], Y[:10], classes=TAGS)
    before = crf.part_coef_.toarray()
    assert crf.label_parts_.tolist() == ["Gen", "N", "Pl", "Sg", "V"]
    crf.partial_fit([[["new", *row] for row in rows] for rows in X[10:]], Y[10:])
    assert crf.part_coef_.shape[1] == before.shape[1] + 1
    assert "new" in crf.feature_names_in_
    assert crf.part_coef_[:, [crf.feature_names_in_.tolist().index("new")]].nnz > 0
    state = pickle.dumps(crf)
    with pytest.raises(ValueError, match="assigns different parts than in the first call"):
        crf.set_params(label_parts=lambda label: [label[0]]).partial_fit(X[:3], Y[:3])
    with pytest.raises(ValueError, match="different parts"):
        crf.set_params(label_parts=None).partial_fit(X[:3], Y[:3])
    again = pickle.loads(state).partial_fit(X[:3], Y[:3])
    np.testing.assert_array_equal(
        again.part_coef_.toarray(), crf.set_params(label_parts=split).partial_fit(X[:3], Y[:3]).part_coef_.toarray()
    )


@both
def test_inspection(estimator):
    crf = estimator(label_parts=split).fit(X, Y)
    table = weights_table(crf, top=None)
    assert len(table) == np.count_nonzero(crf._weights)
    best = max((row for row in table if row.pattern == ("Gen",)), key=lambda row: row.weight)
    s, f = np.unravel_index(
        np.argmax(crf.part_coef_.toarray() * (crf.label_parts_ == "Gen")[:, None]), crf.part_coef_.shape
    )
    assert best.weight == crf.part_coef_.toarray()[s, f]
    assert best.feature == crf.feature_names_in_[f]
    patterns = {row.pattern for row in weights_table(crf, label="N|Gen|Sg", order=0, top=None)}
    assert patterns <= {("N|Gen|Sg",), ("N",), ("Gen",), ("Sg",)}
    assert ("Gen",) in patterns


@both
def test_explanations_add_up(estimator):
    crf = estimator(label_parts=split).fit(X, Y)
    longest = max(range(len(X)), key=lambda n: len(X[n]))
    for position in range(len(X[longest])):
        explanation = explain(crf, X, longest, position)
        assert sum(row.contribution for row in explanation.table) == pytest.approx(explanation.log_odds_paths, abs=1e-9)
    both_parts = {row.pattern for row in explain(crf, [[["tag=N|G", "on"]]], 0, 0, against="V|Sg").table}
    assert ("N",) in both_parts or ("V",) in both_parts


# ------------------------------------------------------------------------------------------------------------- errors


@both
def test_errors_of_functions_come_through(estimator):
    def fails(label):
        raise KeyError(label)

    with pytest.raises(KeyError, match="N"):
        estimator(label_parts=fails).fit(X, Y)


def test_one_segment_label():
    x = [[["a"], ["b"], ["c"]], [["b"]]]
    y = [["B-P", "I-P", "O"], ["B-P"]]
    crf = HighOrderSemiCRF(scheme="bio", label_parts=lambda label: ["any"]).fit(x, y)
    assert crf.label_parts_.tolist() == ["any"]
    alone = HighOrderSemiCRF(scheme="bio", label_parts=lambda label: ["any"]).fit(x[1:], y[1:])
    assert len(alone.label_parts_) == 0
