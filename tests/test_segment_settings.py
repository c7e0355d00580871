"""Semi-CRFs of features that transformers make, with settings at random, against enumeration.

Settings overlap as they like: the first token by ``begin`` and as the tag "B", one transformer after another with the
same features, and so on. What a feature is worth in one given segment has its own tests, against definitions.
"""

import math
import pickle
import warnings

import numpy as np
import pytest
import segment_oracle as so
from hypothesis import example, given, settings
from hypothesis import strategies as st
from internals import (
    BAG,
    INSIDE,
    SEGMENTS,
    NegativeLogLikelihood,
    Problem,
    SegmentModel,
    given_patterns,
    segment_features,
    tie_weights,
)
from segment_cases import build_segment_layout, from_segments, spread, to_segments
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SegmentLogOddsEncoder, SequenceFeatureExtractor

WORDS = ["a", "b", "ab", "ba"]
NGRAMS = ["B", "I", "BI", "II", "B|", "I|"]
CHOICES = st.sampled_from([(), (), True, "bias", ("w[0]=a", "bias")])
OPTIONAL = st.sampled_from([None, None, (), True, "bias"])


def shape(tokens, starts, stops):
    """A function of segments: an indicator, a count, and nothing at times."""
    n_a = np.append(0, np.cumsum(tokens == "a"))
    return {"ends": tokens[starts] + tokens[stops - 1], "a": n_a[stops] - n_a[starts], "long": stops - starts > 2}


@st.composite
def extractors(draw, bag):
    ngrams = st.dictionaries(st.sampled_from(NGRAMS), CHOICES, max_size=4)
    length = draw(st.sampled_from([None, "indicator", "capped", "gamma", ("indicator", "gamma")]))
    return SegmentFeatureExtractor(
        bag=bag,
        begin=draw(CHOICES),
        end=draw(CHOICES),
        inside=draw(CHOICES),
        tags=draw(st.one_of(st.sampled_from([None, "unigrams", "bigrams"]), ngrams)),
        length=length,
        max_length=draw(st.sampled_from([None, 2])) if length not in (None, "gamma") else None,
        identity=draw(st.booleans()),
        functions=draw(st.sampled_from([(), (shape,)])),
        scheme="segments",
    )


@st.composite
def chains(draw):
    """Draw one to three transformers of segments: different ones, or the same again."""
    first = draw(extractors(draw(OPTIONAL)))
    more = st.one_of(
        extractors(None),
        st.just(SegmentFeatureExtractor(**first.get_params() | {"bag": None})),
        st.builds(SegmentLogOddsEncoder, st.just("segments")),
    )
    return [first, *draw(st.lists(more, max_size=2))]


class Setting:
    """Data, features and a model with weights at random.

    Few pairs have weights, as in training, so that the columns of one feature have gaps.
    """

    def __init__(self, steps, seed, n_labels=4, max_order=1, repeats=True, all_pairs=False):
        rng = np.random.default_rng(seed)
        longest = tuple(rng.choice([1, 2, 3, math.inf], n_labels).tolist())
        longest = (*longest[:-1], math.inf)
        patterns = {(y,): 0.0 for y in range(n_labels)}
        lengths = [1, 4, 3, 0, 2, 4][: 6 if n_labels < 5 else 3]
        plain = so.Model(n_labels, longest, repeats, patterns, {})
        every = [list(so.segmentations(plain, length)) for length in lengths]
        self.segmentations = [choices[rng.integers(len(choices))] for choices in every]
        for segmentation in self.segmentations:
            for i in range(len(segmentation)):
                patterns |= dict.fromkeys(so.patterns_ending(segmentation, i)[-1 - max_order :], 0.0)
        patterns = {z: x for z, x in patterns.items() if len(z) <= max_order + 1}
        X = [[WORDS[i] for i in rng.integers(len(WORDS), size=length)] for length in lengths]
        self.batch = batch = batch_of(steps, X, self.segmentations)
        segments = to_segments(self.segmentations, batch.offsets)
        self.layout = build_segment_layout(
            batch,
            segments,
            given_patterns(patterns, n_labels),
            np.array([2**31 - 1 if math.isinf(d) else d for d in longest], dtype=np.int64),
            repeats=repeats,
            feature_orders=[[(0,), (0,), (1,), (0, 1)][i] for i in rng.integers(4, size=batch.n_features)],
            all_pairs=all_pairs,
        )
        self.w = rng.normal(size=self.layout.n_weights)
        of_patterns, of_pairs = spread(self.layout, self.w)
        self.model = so.Model(n_labels, longest, repeats, patterns | of_patterns, of_pairs)
        self.problem = Problem(SEGMENTS, self.layout, batch, segments)
        self.sequences = [
            so.Sequence(length, values_of(batch, first, length))
            for first, length in zip(batch.offsets[:-1].tolist(), lengths, strict=True)
        ]


def batch_of(steps, X, segmentations):
    y = [[(u, v, "wxyz_"[label]) for u, v, label in segmentation] for segmentation in segmentations]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no feature begins with ...
        tokens = SequenceFeatureExtractor([(("w", 0),)], bias=True)
        return make_pipeline(tokens, *steps).fit_transform([[{"w": word} for word in line] for line in X], y)


def values_of(batch, first, length):
    """Return a function of feature and segment of one sequence."""
    pairs = [(u, v) for u in range(length) for v in range(u + 1, length + 1)]
    start, stop = (first + np.array(pairs, dtype=np.int64).reshape(-1, 2)).T
    table = dict(zip(pairs, segment_features(batch, start, stop).toarray().tolist(), strict=True))
    return lambda feature, u, v: table[u, v][feature] if feature < batch.n_features else float(v - u)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@settings(max_examples=10)
@given(
    st.builds(
        Setting,
        chains(),
        st.integers(0, 10**6),
        n_labels=st.integers(2, 5),
        max_order=st.integers(0, 2),
        repeats=st.booleans(),
        all_pairs=st.booleans(),
    )
)
@example(Setting([SegmentFeatureExtractor(begin=True, tags="unigrams")], 14, max_order=0))
@example(Setting([SegmentFeatureExtractor(inside=True, tags="unigrams")] * 2, 14, max_order=0))
def test_random_settings_agree_with_enumeration(case):
    check_answers(case)
    check_training(case)
    check_layouts(case)


def check_answers(case):
    model, batch = SegmentModel(case.layout, case.w), case.batch
    log_z = model.given(batch).log_z()
    marginals = np.split(model.given(batch).marginals(), batch.offsets[1:-1])
    likely, probability = model.given(batch).segment_marginals(1e-300)
    likely, probability = from_segments(likely, batch.offsets), np.split(probability, likely.offsets[1:-1])
    best = from_segments(model.given(batch).decode(), batch.offsets)
    for n, sequence in enumerate(case.sequences):
        table = so.scores(case.model, sequence)
        one = batch[np.full(len(table), n)]
        scores = model.given(one).log_score(to_segments(list(table), one.offsets))
        close(scores, list(table.values()))
        close(np.exp(scores - log_z[n]).sum(), 1.0)
        expected = so.segment_marginals(so.distribution(case.model, sequence))
        assert dict(zip(likely[n], probability[n].tolist(), strict=True)) == pytest.approx(expected, abs=1e-10)
        cover = np.zeros(marginals[n].shape)
        for (u, v, y), p in zip(likely[n], probability[n], strict=True):
            cover[u:v, y] += p
        close(marginals[n], cover)
        assert best[n] in so.best_segmentations(case.model, sequence)[1]


def check_training(case):
    """Each derivative, of all sequences at once and one by one; second derivatives."""
    problem, w, rng = case.problem, case.w, np.random.default_rng(0)
    objective = NegativeLogLikelihood().bind(problem)
    value, gradient = objective.value_gradient(w)
    data = list(zip(case.sequences, case.segmentations, strict=True))
    assert value == pytest.approx(math.fsum(so.negative_log_likelihood(case.model, *one) for one in data), abs=1e-9)
    exact = [so.gradient(case.model, *one) for one in data]
    for part, derivatives in enumerate(spread(case.layout, gradient)):
        for key in [case.model.patterns, case.model.features][part]:
            if part or key in spread(case.layout, w)[0]:
                assert derivatives.get(key, 0.0) == pytest.approx(math.fsum(g[part][key] for g in exact), abs=1e-9)
    by_sequence = np.zeros(len(w))
    for n in range(len(data)):
        touched = problem.minibatches.weights(np.array([n]))
        assert len(np.unique(touched)) == len(touched)
        by_sequence[touched] += problem.minibatches.value_gradient(w, np.array([n]), touched)[1]
    close(by_sequence, gradient)
    direction, step = rng.normal(size=len(w)), 1e-5
    slope = problem.posterior(w).hessian_vector_product(direction)
    change = objective.value_gradient(w + step * direction)[1] - objective.value_gradient(w - step * direction)[1]
    np.testing.assert_allclose(slope, change / (2 * step), rtol=1e-5, atol=1e-7)
    matching, pace = problem.matching.value_gradient(w)
    ahead, behind = (problem.matching.value_gradient(w + sign * step * direction)[0] for sign in (1, -1))
    assert matching >= 0
    assert pace @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-6)


def check_layouts(case):
    """Copies, layouts without zeros, of tied weights and of more columns, and joined ones are of the same model."""
    layout, batch, w = case.layout, case.batch, case.w
    log_z = SegmentModel(layout, w).given(batch).log_z()
    close(SegmentModel(pickle.loads(pickle.dumps(layout)), w).given(batch).log_z(), log_z)
    wider, _ = layout.with_columns([((0, 1), BAG), ((0, 1), BAG), ((1,), INSIDE)])
    close(SegmentModel(wider, w).given(batch).log_z(), log_z)
    zeros = np.where(np.random.default_rng(1).random(len(w)) < 0.5, 0.0, w)
    expected = SegmentModel(layout, zeros).given(batch).log_z()
    close(SegmentModel(*layout.pruned(zeros)).given(batch).log_z(), expected)
    fewer = layout.with_pairs(
        layout.pair_feature[zeros[: layout.n_pairs] != 0], layout.pair_pattern[zeros[: layout.n_pairs] != 0]
    )
    both, places = fewer.joined(layout)
    if places is not None:
        assert len(np.unique(places)) == fewer.n_weights
        assert spread(both, np.ones(both.n_weights)) == spread(layout, np.ones(len(w)))
        vector = np.zeros(both.n_weights)
        vector[places] = np.arange(1, fewer.n_weights + 1)
        assert spread(both, vector) == spread(fewer, np.arange(1.0, fewer.n_weights + 1))
    ties = tie_weights(layout, batch)
    u = np.random.default_rng(2).normal(size=len(ties.root))
    close(ties.narrow(ties.widen(u)), u)
    close(
        SegmentModel(ties.layout, u * ties.root).given(batch).log_z(),
        SegmentModel(layout, ties.widen(u)).given(batch).log_z(),
    )


@pytest.mark.parametrize(
    ("seed", "parameters"), [(3, {"begin": True, "tags": "unigrams"}), (9, {"inside": True, "tags": "bigrams"})]
)
def test_probabilities_of_a_fitted_model_sum_to_one(seed, parameters):
    """Through the estimator, at default parameters, with features that count the same tokens twice."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 5, size=8)
    X = [[WORDS[i] for i in rng.integers(len(WORDS), size=n)] for n in lengths]
    every = [list(so.segmentations(so.Model(4, (3,) * 4, True, {}, {}), n)) for n in lengths]
    y = [choices[rng.integers(len(choices))] for choices in every]
    batch = batch_of([SegmentFeatureExtractor(scheme="segments", **parameters)], X, y)
    model = HighOrderSemiCRF(scheme="segments", segment_length=3, max_order=0).fit(batch, [list(s) for s in y])
    choices = [list(s) for s in every[0]]
    likelihoods = model.log_likelihood(batch[np.zeros(len(choices), int)], choices)
    close(np.exp(likelihoods).sum(), 1.0)
    best = model.predict(batch[:1])[0]
    assert likelihoods[choices.index(best)] == pytest.approx(likelihoods.max(), abs=1e-9)
    cover = np.zeros((lengths[0], 4))
    for u, v, label, p in model.predict_segments(batch[:1], threshold=0.0)[0].tolist():
        cover[u:v, list(model.segment_labels_).index(label)] += p
    close(model.predict_marginals(batch[:1])[0], cover)


def test_runs_of_columns_are_strict():
    """Columns 3, 3, 5 are no run, though the last is the first plus 2."""
    case = Setting([SegmentFeatureExtractor(begin=True, tags="unigrams")], 14, max_order=0)
    pairs = case.layout.pairs
    columns = [pairs.columns[a:b].tolist() for a, b in zip(pairs.starts[:-1], pairs.starts[1:], strict=True)]
    expected = [c == list(range(c[0], c[0] + len(c))) for c in columns]
    assert pairs.begins_run[pairs.starts[:-1]].tolist() == expected
    assert any(expected)
    assert any(c[-1] - c[0] == len(c) - 1 and not run for c, run in zip(columns, expected, strict=True))
