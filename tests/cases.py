"""Tiny models for the tests: drawn by hypothesis, in plain Python, and their translation to the package."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import oracle
from hypothesis import strategies as st
from internals import ChainModel, LayoutBuilder, LayoutFrame, PairRule, SequenceBatch, fitting, given_patterns
from scipy import sparse

GOLDEN = Path(__file__).parent / "golden"
MODERATE = st.floats(-3, 3, allow_subnormal=False)
EXTREME = st.one_of(MODERATE, st.sampled_from([-1e3, 1e3, -400.0, 150.0]))
VALUES = st.sampled_from([1.0, 1.0, 2.0, -0.5, 0.25])


def given_penalty(penalty):
    """Return a context in which training has a given penalty on its weights, instead of that of ``sigma_reg``."""
    return mock.patch.object(fitting.Prior, "penalty", return_value=penalty)


def untied():
    """Return a context in which each weight is trained by itself, also where some must be equal."""
    return mock.patch.object(fitting, "_WORTH_TYING", -1.0)


class Case(NamedTuple):
    """A model and the data it is asked about."""

    model: oracle.Model  # its features are 0 .. n_features - 1
    feature_orders: list  # one tuple of orders per feature
    sequences: list  # of lists of rows
    labels: list  # one labelling per sequence

    @property
    def single_labels(self):
        return [(y,) for y in range(self.model.n_labels)]


@st.composite
def cases(draw, weights=MODERATE, forbid=False, bias_only=False, n_sequences=3, min_length=0, history="tokens"):
    """Draw a model of order 0 to 4 and sequences of up to 5 tokens, with at most 256 labellings each.

    Weights of patterns with two or more labels may be -inf (``forbid``). Features are conjoined with single labels
    (``bias_only``), or with patterns of any orders. ``history`` None is either.
    """
    history = history or draw(st.sampled_from(["tokens", "segments"]))
    n_labels = draw(st.integers(2, 4))
    patterns = of_history(draw_patterns(draw, n_labels, draw(st.integers(0, 4))), history)
    highest = max(map(len, patterns)) - 1
    orders = st.just((0,)) if bias_only else st.sets(st.integers(0, highest), min_size=1).map(sorted).map(tuple)
    feature_orders = draw(st.lists(orders, max_size=3))
    pattern_weight = st.one_of(weights, st.just(-math.inf)) if forbid else weights
    model = oracle.Model(
        n_labels,
        {z: draw(pattern_weight if len(z) > 1 else weights) for z in patterns},
        {(f, z): draw(weights) for f, k in enumerate(feature_orders) for z in patterns if len(z) - 1 in k},
        history,
    )
    longest = 5 if n_labels < 4 else 4
    row = st.dictionaries(st.integers(0, len(feature_orders) - 1), VALUES) if feature_orders else st.just({})
    sequence = st.lists(row, min_size=min_length, max_size=longest)
    sequences = draw(st.lists(sequence, min_size=1, max_size=n_sequences))
    label = st.integers(0, n_labels - 1)
    labels = [tuple(draw(st.lists(label, min_size=len(rows), max_size=len(rows)))) for rows in sequences]
    return Case(model, feature_orders, sequences, labels)


def draw_patterns(draw, n_labels, max_order):
    """Draw patterns as a list of tuples: the single labels, then others, with intermediate lengths missing or not."""
    label = st.integers(0, n_labels - 1)
    longer = (
        draw(st.sets(st.lists(label, min_size=2, max_size=max_order + 1).map(tuple), max_size=8)) if max_order else ()
    )
    return [(y,) for y in range(n_labels)] + sorted(longer, key=lambda z: (len(z), z))


def of_history(patterns, history):
    """Return the patterns that can occur: those of three or more segments have no equal neighbours."""
    if history == "tokens":
        return patterns
    return [z for z in patterns if len(z) < 3 or all(a != b for a, b in itertools.pairwise(z))]


def random_case(rng, n_labels, lengths, max_order, n_patterns, scale, feature_orders, forbidden=0.0, history="tokens"):
    """Return a random case of sequences that may be long."""
    longer = {tuple(rng.integers(0, n_labels, rng.integers(2, max_order + 2)).tolist()) for _ in range(n_patterns)}
    longer = dict.fromkeys(of_history(longer if max_order else (), history), 0.0)
    patterns = {(y,): 0.0 for y in range(n_labels)} | longer
    for z in patterns:
        patterns[z] = -math.inf if len(z) > 1 and rng.random() < forbidden else scale * rng.normal()
    features = {
        (f, z): scale * rng.normal()
        for f, orders in enumerate(feature_orders)
        for z in patterns
        if len(z) - 1 in orders
    }
    sequences = [
        [{f: rng.normal() for f in range(len(feature_orders)) if rng.random() < 0.5} for _ in range(length)]
        for length in lengths
    ]
    labels = [tuple(rng.integers(0, n_labels, length).tolist()) for length in lengths]
    return Case(oracle.Model(n_labels, patterns, features, history), feature_orders, sequences, labels)


def is_possible(case):
    """Say whether every sequence has a labelling that is not forbidden."""
    return all(oracle.log_partition(case.model, rows) > -math.inf for rows in case.sequences)


def to_batch(sequences, n_features):
    """Return sequences of rows ``{feature: value}`` as a SequenceBatch."""
    rows = [sorted(row.items()) for sequence in sequences for row in sequence]
    data = [value for row in rows for _, value in row]
    indices = [feature for row in rows for feature, _ in row]
    indptr = np.cumsum([0, *map(len, rows)])
    offsets = np.cumsum([0, *map(len, sequences)])
    return SequenceBatch.from_csr(sparse.csr_array((data, indices, indptr), shape=(len(rows), n_features)), offsets)


def to_codes(labels):
    """Return labellings as one flat array of label codes."""
    return np.array([y for labelling in labels for y in labelling], dtype=np.int32)


def build_layout(
    batch, codes, patterns, *, fit_intercept=True, sequence_weight=None, forbidden=(), parts=None, like=None, **rule
):
    """Return the layout of labelled data; ``rule`` has the fields of a PairRule, ``like`` is a layout to be like."""
    frame = LayoutFrame.of(patterns, forbidden, parts) if like is None else LayoutFrame.like(like)
    builder = LayoutBuilder(frame, PairRule(**rule), fit_intercept)
    return builder.build(builder.count(batch, codes, sequence_weight))


def to_layout(case, **options):
    """Return the layout of all weights of a case, and their values."""
    patterns = given_patterns(case.model.patterns, case.model.n_labels, case.model.history)
    options = {"all_pairs": True, "fit_intercept": True, **options}
    batch = to_batch(case.sequences, len(case.feature_orders))
    layout = build_layout(batch, to_codes(case.labels), patterns, feature_orders=case.feature_orders, **options)
    row_of = {z: i for i, z in enumerate(patterns.tuples())}
    pattern_coef = np.zeros(len(row_of))
    for z, weight in case.model.patterns.items():
        pattern_coef[row_of[z]] = weight
    coef = np.zeros((len(row_of), len(case.feature_orders)))
    for (feature, z), weight in case.model.features.items():
        coef[row_of[z], feature] = weight
    return layout, layout.weights(pattern_coef, sparse.csr_array(coef))


def to_chain_model(case):
    """Return the case as (ChainModel, SequenceBatch)."""
    layout, weights = to_layout(case)
    return ChainModel(layout, weights), to_batch(case.sequences, len(case.feature_orders))


def reschedule(model, **changes):
    """Return the model with other sizes at which batches are cut."""
    schedule = replace(model.plan_class.default_schedule, **changes)
    return type(model)(model.layout, model.weights, schedule=schedule)


def golden_case(name):
    """Return the content of a golden file, and its model and sequence as a Case."""
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    names = sorted({f for f, _, _ in golden["features"]})
    code = {f: i for i, f in enumerate(names)}
    patterns = {(y,): 0.0 for y in range(golden["n_labels"])} | {tuple(z): w for z, w in golden["patterns"]}
    patterns |= {tuple(z): 0.0 for _, z, _ in golden["features"] if tuple(z) not in patterns}
    features = {(code[f], tuple(z)): w for f, z, w in golden["features"]}
    orders = [tuple(sorted({len(z) - 1 for g, z in features if g == f})) for f in range(len(names))]
    rows = [{code[f]: value for f, value in row.items()} for row in golden["rows"]]
    return golden, Case(oracle.Model(golden["n_labels"], patterns, features), orders, [rows], [golden["best_paths"][0]])


class Counter:
    """Counts the calls of a function that it stands in for."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)


def by_order(*values):
    """Return a mapping for ``sigma_reg`` or ``l1_reg``: a value for each order; the last one also for higher orders."""
    kinds = "features", "patterns"
    return {(kind, order): value for order, value in enumerate(values[:-1]) for kind in kinds} | {None: values[-1]}
