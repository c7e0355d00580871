"""Tiny models for the tests: drawn by hypothesis, in plain Python, and converted to semi-CRFs of the package.

A CRF is a case whose segments have length 1; ``cases`` draws such cases and converts them to chains.

The features of a case are blocks of the package, but this module computes their values in a segment token by token,
from the definition of channels. The weight of each token of a segment is represented by one more feature, after all
others, whose value is the length of the segment.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import segment_oracle as so
from feature_definitions import length_value
from hypothesis import assume
from hypothesis import strategies as st
from internals import (
    BAG,
    BEGIN,
    END_OF_SEGMENT,
    FROM_START,
    FROM_STOP,
    INSIDE,
    NO_LIMIT,
    RANGE,
    AgedModel,
    Channel,
    LayoutFrame,
    LengthBlock,
    PairRule,
    RowBlock,
    SegmentKind,
    SegmentLayoutBuilder,
    SegmentModel,
    Segments,
    SequenceBatch,
    TokenBlock,
    TokenColumn,
    freeze,
    given_patterns,
    what_needs_lengths,
)
from scipy import sparse

from sklearn_hocrf import HighOrderSemiCRF
from sklearn_hocrf._data.arrays import cached_property

MODERATE = st.floats(-3, 3, allow_subnormal=False)
EXTREME = st.one_of(MODERATE, st.sampled_from([-1e3, 1e3, -400.0, 150.0]))
VALUES = st.sampled_from([1.0, 1.0, 2.0, -0.5, 0.25])

# by prefix of the features' names: tag n-grams of BIO and BIOES inside a segment, across its last border, and others
CHANNELS = {
    "bag:": BAG,
    "begin:": BEGIN,
    "end:": END_OF_SEGMENT,
    "inside:": INSIDE,
    "BI:": Channel(FROM_START, 1, 2),
    "II:": Channel(RANGE, 2, 3),
    "BII:": Channel(FROM_START, 2, 3),
    "|:": Channel(FROM_STOP, -1),
    "B|:": Channel(FROM_STOP, -1, 1, 1),
    "I|:": Channel(FROM_STOP, -1, 2),
    "bioes S:": Channel(FROM_START, 0, 1, 1),
    "bioes B:": Channel(FROM_START, 0, 2),
    "bioes I:": Channel(RANGE, 1, 3),
    "bioes E:": Channel(FROM_STOP, 0, 2),
    "bioes BE:": Channel(FROM_START, 1, 2, 2),
    "bioes BI:": Channel(FROM_START, 1, 3),
    "bioes II:": Channel(RANGE, 2, 4),
    "bioes IE:": Channel(FROM_STOP, 0, 3),
    "bioes S|:": Channel(FROM_STOP, -1, 1, 1),
    "begin of 2 to 3:": Channel(FROM_START, 0, 2, 3),
    "border of 2 to 3:": Channel(FROM_STOP, -1, 2, 3),
    "last but one of 3 to 4:": Channel(FROM_STOP, 1, 3, 4),
    "all but the last:": Channel(RANGE, 0, 2),
}
LENGTHS = [LengthBlock("indicator", 2), LengthBlock("capped", 1), LengthBlock("capped", 3), LengthBlock("gamma", 0)]
WORDS = ("a", "b", "ab")


def channel_tokens(channel, u, v, length):
    """Return the tokens that a channel selects for the segment [u, v) of a sequence."""
    if channel.anchor == RANGE:
        trim = channel.shortest - channel.offset - 1
        return list(range(u + channel.offset, v - trim))
    t = u + channel.offset if channel.anchor == FROM_START else v - 1 - channel.offset
    return [t] if channel.shortest <= v - u <= channel.longest and t < length else []


def whole_values(words, mass, u, length):
    """Return three features of a segment as a whole, none of which is a sum over its tokens.

    The segment consists of the given words and masses, and begins with token u of a sequence of ``length`` tokens.
    """
    same_ends = float(len(words) > 1 and words[0] == words[-1])
    is_part = u > 0 or len(words) < length
    return [same_ends, math.prod(mass) - 1.0, float(is_part and "".join(words) in ("ab", "aab"))]


class WholeMaker:
    """A maker of ``whole_values`` for the package, from the raw column "word" and the token data "mass"."""

    feature_names = np.array(["same_ends", "product", "text=(a)ab"], dtype=object)
    n_features = 3

    def rows(self, columns, offsets, token_data, start, stop):
        words, mass = columns["word"].values[columns["word"].codes], token_data["mass"]
        assert len(words) == len(mass) == offsets[-1]
        table = np.empty((len(start), self.n_features))
        for row, u, v in zip(table, np.asarray(start).tolist(), np.asarray(stop).tolist(), strict=True):
            first, last = _sequence_around(offsets, u, v)
            row[:] = whole_values(words[u:v].tolist(), mass[u:v].tolist(), u - first, last - first)
        rows = sparse.csr_array(table)
        return rows.indptr, rows.indices, rows.data


def _sequence_around(offsets, u, v):
    sequence = np.searchsorted(offsets, u, side="right") - 1
    first, last = int(offsets[sequence]), int(offsets[sequence + 1])
    assert first <= u < v <= last, f"candidate [{u}, {v}) is not inside a sequence of {list(offsets)}"
    return first, last


class Case(NamedTuple):
    """A model, and data for its queries."""

    model: so.Model  # its features are 0 .. n_features - 1, and n_features for the weights of tokens
    feature_orders: list  # one tuple of orders per feature
    blocks: Any  # tuple of blocks, or None; token data of row blocks is left out
    n_attributes: int
    rows: list  # a list of {attribute: value} per sequence
    words: list  # a list of str per sequence
    segmentations: list  # one per sequence


class SegmentCase(Case):
    """A case with sequences in the form of the oracle."""

    @property
    def labels(self):
        """The labels of the segments of each sequence; if all segments have length 1, those of its tokens."""
        return [tuple(y for _, _, y in segmentation) for segmentation in self.segmentations]

    @cached_property
    def sequences(self):
        """The sequences in the form of the oracle."""
        return [
            so.Sequence(len(rows), SegmentValues(self.blocks, self.n_attributes, rows, words))
            for rows, words in zip(self.rows, self.words, strict=True)
        ]

    def replace_sequences(self, numbers):
        """Return the case with only the sequences of the given numbers."""
        chosen = {name: [getattr(self, name)[n] for n in numbers] for name in ("rows", "words", "segmentations")}
        return self._replace(**chosen)


class SegmentValues:
    """The values of all features of one sequence, computed at the first access: values(feature, u, v)."""

    def __init__(self, blocks, n_attributes, rows, words):
        self.rows, self.words, self.mass = rows, words, [mass_of(word) for word in words]
        self.features = list(features_of(blocks, n_attributes))
        self.known = {}

    def __call__(self, feature, u, v):
        if feature == len(self.features):
            return float(v - u)
        key = feature, u, v
        if key not in self.known:
            self.known[key] = self._compute(*self.features[feature], u, v)
        return self.known[key]

    def _compute(self, block, number, u, v):
        if isinstance(block, LengthBlock):
            return length_value(block.names(None)[number], v - u)
        if isinstance(block, RowBlock):
            return whole_values(self.words[u:v], self.mass[u:v], u, len(self.words))[number]
        attribute = int(block.attributes[number])
        tokens = channel_tokens(block.channel, u, v, len(self.rows))
        return math.fsum(self.rows[t].get(attribute, 0.0) for t in tokens)

    def is_supported(self, feature, u, v):
        """Return whether a feature occurs in a segment, even if its values at several tokens cancel."""
        if feature == len(self.features):
            return True
        block, number = self.features[feature]
        if not isinstance(block, TokenBlock):
            return self(feature, u, v) != 0
        attribute = int(block.attributes[number])
        return any(self.rows[t].get(attribute, 0.0) for t in channel_tokens(block.channel, u, v, len(self.rows)))


def features_of(blocks, n_attributes):
    """Yield (block, number in the block) of each feature; without blocks, each token attribute is a bag feature."""
    if blocks is None:
        blocks = (token_block(BAG, range(n_attributes)),)
    for block in blocks:
        yield from ((block, number) for number in range(block.n_features))


def token_block(channel, attributes, prefix=""):
    return TokenBlock(channel, freeze(sorted(attributes), np.int32), prefix)


WHOLE = RowBlock(WholeMaker(), {})
MIXED = (token_block(BAG, [0]), token_block(BEGIN, [0, 1]), token_block(INSIDE, [1]), LENGTHS[2], WHOLE)
FEATURES = {  # each kind by itself, and some of all
    **{prefix.rstrip(":"): (token_block(channel, [0, 1], prefix),) for prefix, channel in CHANNELS.items()},
    **{f"length_{block.kind}_{block.longest}": (block,) for block in LENGTHS},
    "whole": (WHOLE,),
    "twice": (token_block(BAG, [0, 1]), token_block(BAG, [0])),
    "plain": None,
    "all": MIXED,
}


def mass_of(word):
    """Return the number of a word in the token data "mass"."""
    return {"a": 0.5, "b": -1.0, "ab": 1.5}[word]


def with_token_weights(longest, blocks, feature_orders):
    """Return the labels that have weights for tokens in addition to weights for segments and lengths."""
    numbered = features_of(blocks, 0) if blocks else ()
    for (block, number), orders in zip(numbered, feature_orders, strict=False):
        if isinstance(block, LengthBlock) and block.kind == "gamma" and number == 0 and 0 in orders:
            return []  # the length itself is such a weight
    return [y for y, most in enumerate(longest) if most > 1 and len(longest) > 1]


LIMITS = st.sampled_from([1, 2, 3, math.inf])
MOST_TOKENS = {1: 6, 2: 5, 3: 4, 4: 3}  # at most a hundred segmentations or two


@st.composite
def block_lists(draw, n_attributes, by_token=False):
    """Draw the blocks of a batch: None, or one to three blocks; with ``by_token``, scores are sums over tokens."""
    if draw(st.integers(0, 4)) == 0:
        return None
    attributes = st.sets(st.integers(0, n_attributes - 1), min_size=1, max_size=2)
    token_blocks = st.builds(
        lambda prefix, a: token_block(CHANNELS[prefix], a, prefix), st.sampled_from([*CHANNELS]), attributes
    )
    by_length = [block for block in LENGTHS if block.kind != "gamma"]
    # the length itself replaces only weights of observed pairs
    other_blocks = st.sampled_from(by_length if by_token else [*LENGTHS[:4], WHOLE])
    return tuple(draw(st.lists(st.one_of(token_blocks, token_blocks, other_blocks), min_size=1, max_size=3)))


@st.composite
def segment_cases(
    draw, weights=MODERATE, forbid=False, n_sequences=4, blocks=None, max_order=3, limits=LIMITS, by_token=False
):
    """Draw a model of order 0 to 3 with training data, for which all sequences have an allowed segmentation.

    With ``by_token``, the score of a segment is a sum over its tokens.
    """
    n_labels = draw(st.integers(1, 4))
    longest = tuple(draw(st.lists(limits, min_size=n_labels, max_size=n_labels)))
    shortest = tuple(draw(st.integers(1, min(most, 3))) for most in longest) if draw(st.booleans()) else ()
    shortest = () if by_token else shortest
    repeats = draw(st.booleans())
    patterns = draw_patterns(draw, n_labels, draw(st.integers(0, max_order)), repeats)
    n_attributes = draw(st.integers(1, 3))
    blocks = draw(block_lists(n_attributes, by_token)) if blocks is None else blocks
    highest = max(map(len, patterns)) - 1
    orders = st.sets(st.integers(0, highest), min_size=1).map(sorted).map(tuple)
    feature_orders = [draw(orders) for _ in features_of(blocks, n_attributes)]
    model = draw_model(
        draw, so.Model(n_labels, longest, repeats, patterns, {}, shortest), feature_orders, weights, forbid
    )
    of_tokens = {
        (len(feature_orders), (y,)): draw(weights) for y in with_token_weights(longest, blocks, feature_orders)
    }
    model = model._replace(features=model.features | of_tokens)
    row = st.dictionaries(st.integers(0, n_attributes - 1), VALUES)
    rows = draw(st.lists(st.lists(row, max_size=MOST_TOKENS[n_labels]), min_size=1, max_size=n_sequences))
    words = [draw(st.lists(st.sampled_from(WORDS), min_size=len(s), max_size=len(s))) for s in rows]
    allowed = [list(so.segmentations(model, len(s))) for s in rows]
    assume(all(allowed))
    segmentations = [draw(st.sampled_from(choices)) for choices in allowed]
    return SegmentCase(model, feature_orders, blocks, n_attributes, rows, words, segmentations)


def draw_model(draw, model, feature_orders, weights, forbid):
    """Draw the weights of a model's patterns, which may be -inf for two or more labels, and of their features."""
    pattern_weight = st.one_of(weights, st.just(-math.inf)) if forbid else weights
    return model._replace(
        patterns={z: draw(pattern_weight if len(z) > 1 else weights) for z in model.patterns},
        features={
            (f, z): draw(weights) for f, k in enumerate(feature_orders) for z in model.patterns if len(z) - 1 in k
        },
    )


def draw_patterns(draw, n_labels, max_order, repeats=True):
    """Draw patterns as a list of tuples: single labels, then longer patterns, possibly without intermediate lengths."""
    label = st.integers(0, n_labels - 1)
    longer = (
        draw(st.sets(st.lists(label, min_size=2, max_size=max_order + 1).map(tuple), max_size=8)) if max_order else ()
    )
    kept = [z for z in longer if repeats or not has_repeat(z)]
    return [(y,) for y in range(n_labels)] + sorted(kept, key=lambda z: (len(z), z))


def has_repeat(pattern):
    """Return whether a pattern contains equal neighbours."""
    return any(a == b for a, b in zip(pattern, pattern[1:], strict=False))


def random_segment_case(
    rng,
    lengths,
    blocks=None,
    feature_orders=((0,),),
    *,
    longest,
    shortest=(),
    repeats=True,
    patterns=(),
    scale=1.0,
    forbidden=0.0,
    n_attributes=2,
):
    """Return a random case, whose sequences may be long, with real values and random words."""
    n_labels = len(longest)
    patterns = {(y,): 0.0 for y in range(n_labels)} | dict.fromkeys(patterns, 0.0)
    for z in patterns:
        patterns[z] = -math.inf if len(z) > 1 and rng.random() < forbidden else scale * float(rng.normal())
    feature_orders = list(feature_orders)
    if len(feature_orders) == 1:
        feature_orders *= sum(1 for _ in features_of(blocks, n_attributes))
    features = {
        (f, z): scale * float(rng.normal())
        for f, orders in enumerate(feature_orders)
        for z in patterns
        if len(z) - 1 in orders
    }
    rows = [
        [{a: float(rng.normal()) for a in range(n_attributes) if rng.random() < 0.6} for _ in range(n)] for n in lengths
    ]
    words = [[WORDS[i] for i in rng.integers(0, len(WORDS), n)] for n in lengths]
    model = so.Model(n_labels, tuple(longest), repeats, patterns, features, tuple(shortest))
    segmentations = [random_segmentation(rng, model, n) for n in lengths]
    of_tokens = {
        (len(feature_orders), (y,)): scale * float(rng.normal())
        for y in with_token_weights(longest, blocks, feature_orders)
    }
    model = model._replace(features=features | of_tokens)
    return SegmentCase(model, feature_orders, blocks, n_attributes, rows, words, segmentations)


def random_segmentation(rng, model, length):
    """Return an allowed segmentation; without repeats, some label must have no limit of length."""
    segments, u, before = [], 0, None
    while u < length:
        y = int(rng.choice([y for y in range(model.n_labels) if model.repeats or y != before]))
        least = min(model.shortest[y] if model.shortest and u else 1, length - u)
        v = u + int(rng.integers(least, min(model.longest[y], length - u, 8) + 1))
        segments.append((u, v, y))
        u, before = v, y
    return tuple(segments)


def is_possible(case):
    """Return whether every sequence has a segmentation that is not forbidden."""
    return all(so.log_partition(case.model, sequence) > -math.inf for sequence in case.sequences)


def to_batch(sequences, n_features):
    """Return sequences of rows ``{feature: value}`` as a SequenceBatch."""
    rows = [sorted(row.items()) for sequence in sequences for row in sequence]
    data = [value for row in rows for _, value in row]
    indices = [feature for row in rows for feature, _ in row]
    indptr = np.cumsum([0, *map(len, rows)])
    offsets = np.cumsum([0, *map(len, sequences)])
    return SequenceBatch.from_csr(sparse.csr_array((data, indices, indptr), shape=(len(rows), n_features)), offsets)


def to_segment_batch(case):
    """Return the data of a case as a SequenceBatch."""
    plain = to_batch(case.rows, case.n_attributes)
    words = [word for sequence in case.words for word in sequence]
    column = TokenColumn(freeze([WORDS.index(word) for word in words], np.int32), np.array(WORDS, dtype=object))
    mass = {"mass": freeze([mass_of(word) for word in words], np.float64)}
    blocks = case.blocks
    if blocks is not None:
        blocks = tuple(RowBlock(block.maker, mass) if isinstance(block, RowBlock) else block for block in blocks)
    arrays = plain.offsets, plain.indptr, plain.indices, plain.values
    return SequenceBatch(*arrays, case.n_attributes, None, {"word": column}, blocks)


def to_segments(segmentations, token_offsets):
    """Return one segmentation per sequence as Segments."""
    flat = [
        (u + int(first), v + int(first), y)
        for segmentation, first in zip(segmentations, token_offsets[:-1], strict=True)
        for u, v, y in segmentation
    ]
    start, stop, codes = np.array(flat, dtype=np.int64).reshape(-1, 3).T
    offsets = np.cumsum([0, *map(len, segmentations)])
    return Segments(freeze(offsets, np.int64), freeze(start, np.int64), freeze(stop, np.int64), freeze(codes, np.int32))


def from_segments(segments, token_offsets):
    """Return Segments as one segmentation per sequence, with positions relative to the sequence."""
    assert (segments.start.dtype, segments.stop.dtype, segments.codes.dtype) == (np.int64, np.int64, np.int32)
    flat = list(zip(segments.start.tolist(), segments.stop.tolist(), segments.codes.tolist(), strict=True))
    parts = [flat[a:b] for a, b in zip(segments.offsets[:-1], segments.offsets[1:], strict=True)]
    assert segments.offsets[0] == 0
    assert segments.offsets[-1] == len(flat)
    return [
        tuple((u - first, v - first, y) for u, v, y in part)
        for part, first in zip(parts, token_offsets[:-1].tolist(), strict=True)
    ]


def build_segment_layout(
    batch,
    segments,
    patterns,
    longest,
    *,
    repeats,
    shortest=None,
    fit_intercept=True,
    sequence_weight=None,
    forbidden=(),
    parts=None,
    like=None,
    **rule,
):
    """Return the layout of labelled segments; ``rule`` gives fields of a PairRule, ``like`` is a layout to imitate.

    The other parameters are those of SegmentRules, LayoutFrame and SegmentLayoutBuilder.
    """
    frame = LayoutFrame(patterns, forbidden, parts)
    if like is not None:
        frame = LayoutFrame(like.patterns, like.forbidden, like.parts, like.compiled)
    builder = SegmentLayoutBuilder((longest, repeats, shortest), frame, PairRule(**rule), fit_intercept)
    return builder.build(builder.count(batch, segments, sequence_weight))


def to_segment_layout(case, batch=None, **options):
    """Return the layout of a case's weights, of all pairs unless the options specify otherwise."""
    batch = to_segment_batch(case) if batch is None else batch
    options = {"all_pairs": True, "fit_intercept": True, **options}
    return build_segment_layout(
        batch,
        to_segments(case.segmentations, batch.offsets),
        given_patterns(case.model.patterns, case.model.n_labels),
        np.array([NO_LIMIT if math.isinf(d) else d for d in case.model.longest], dtype=np.int64),
        repeats=case.model.repeats,
        shortest=np.array(case.model.shortest) if case.model.shortest else None,
        feature_orders=case.feature_orders,
        **options,
    )


def to_weights(case, layout):
    """Return the weights of a case as a vector in the order of the layout."""
    row_of = {z: i for i, z in enumerate(layout.patterns.tuples())}
    pattern_coef = np.zeros(len(row_of))
    for z, weight in case.model.patterns.items():
        pattern_coef[row_of[z]] = weight
    coef = np.zeros((len(row_of), len(case.feature_orders) + 1))
    for (feature, z), weight in case.model.features.items():
        coef[row_of[z], feature] = weight
    token_coef = coef[: case.model.n_labels, -1]
    return layout.weights(pattern_coef, sparse.csr_array(coef[:, :-1]), token_coef=token_coef)


def to_segment_model(case, **options):
    """Return the case as (SegmentModel, SequenceBatch)."""
    layout = to_segment_layout(case, **options)
    return SegmentModel(layout, to_weights(case, layout)), to_segment_batch(case)


def to_aged_model(case, **options):
    """Return the case as (AgedModel, SequenceBatch), for the recursion over segments of any length."""
    layout = to_segment_layout(case, **options)
    assert not what_needs_lengths(layout)
    return AgedModel(layout, to_weights(case, layout)), to_segment_batch(case)


def spread(layout, w):
    """Return a vector of weights or derivatives as ({pattern: value}, {(feature, pattern): value}), without zeros."""
    patterns = layout.patterns.tuples()
    coef = layout.coef(w).tocoo()
    of_patterns = {patterns[z]: x for z, x in enumerate(layout.pattern_coef(w)) if x}
    of_pairs = {(int(f), patterns[z]): x for z, f, x in zip(coef.row, coef.col, coef.data, strict=True) if x}
    of_tokens = {(layout.n_features, (y,)): x for y, x in enumerate(layout.token_coef(w)) if x}
    return of_patterns, of_pairs | of_tokens


def matching_by_definition(layout, w, case, sequence_weight):
    """Return local feature matching, computed weight by weight and segment by segment; w contains no zeros."""
    biases, pairs = spread(layout, w)
    model, terms = case.model._replace(patterns=biases, features=pairs), []

    def ends(segmentation):
        return {(u, v, z) for i, (u, v, _) in enumerate(segmentation) for z in so.patterns_ending(segmentation, i)}

    for sequence, truth, weight in zip(case.sequences, case.segmentations, sequence_weight, strict=True):
        observed, expected = ends(truth), {}
        for segmentation, p in so.distribution(model, sequence).items():
            for end in ends(segmentation):
                expected.setdefault(end, []).append(p)
        for u, v in itertools.combinations(range(sequence.length + 1), 2):
            features = [(z, 1.0) for z in biases] + [(z, sequence.value(f, u, v)) for f, z in pairs]
            ended = [(value, (u, v, z)) for z, value in features]
            terms += [weight * (x * ((end in observed) - math.fsum(expected.get(end, ())))) ** 2 for x, end in ended]
    return math.fsum(terms)


# --- intercepts -------------------------------------------------------------------------------------------------------


class SegmentIntercepts(HighOrderSemiCRF):
    """A model with one intercept for each label, which counts once per segment, as in published semi-CRFs."""

    class _Kind(SegmentKind):
        intercepts = "segment"

    _kind = _Kind()


class TokenIntercepts(HighOrderSemiCRF):
    """A model with one intercept for each label, which counts once per token."""

    class _Kind(SegmentKind):
        intercepts = "token"

    _kind = _Kind()


WITH_INTERCEPTS = {True: HighOrderSemiCRF, "segment": SegmentIntercepts, "token": TokenIntercepts}
