"""Tiny CRFs for the tests, as cases whose segments have length 1, and their conversion for the package."""

import itertools
import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import segment_oracle as so
from hypothesis import strategies as st
from internals import (
    ChainModel,
    LayoutBuilder,
    LayoutFrame,
    MarginalPass,
    PairRule,
    Problem,
    fitting,
    given_patterns,
    minimise,
)
from segment_cases import (
    MODERATE,
    VALUES,
    SegmentCase,
    draw_model,
    draw_patterns,
    has_repeat,
    random_segment_case,
    to_batch,
    to_weights,
)

GOLDEN = Path(__file__).parent / "golden"


def given_penalty(penalty):
    """Return a context in which training applies a given penalty instead of that of ``sigma_reg``."""
    return mock.patch.object(fitting.Prior, "penalty", return_value=penalty)


def untied():
    """Return a context in which each weight is trained separately, including weights that must be equal."""
    return mock.patch.object(minimise, "_WORTH_TYING", -1.0)


def chain_case(model, feature_orders, rows, labels):
    """Return a case with features 0 .. n_features - 1; its data are rows {feature: value} and labels of tokens."""
    words, gold = [["a"] * len(sequence) for sequence in rows], [so.tokenwise(sequence) for sequence in labels]
    return SegmentCase(model, feature_orders, None, len(feature_orders), rows, words, gold)


@st.composite
def cases(draw, weights=MODERATE, forbid=False, bias_only=False, n_sequences=3, min_length=0, history="tokens"):
    """Draw a model of order 0 to 4 and sequences of up to 5 tokens, with at most 256 labellings each.

    With ``forbid``, weights of patterns with two or more labels may be -inf. Features are paired with patterns of any
    order or, with ``bias_only``, only with single labels. If ``history`` is None, it is drawn, too.
    """
    history = history or draw(st.sampled_from(["tokens", "segments"]))
    n_labels = draw(st.integers(2, 4))
    patterns = of_history(draw_patterns(draw, n_labels, draw(st.integers(0, 4))), history)
    highest = max(map(len, patterns)) - 1
    orders = st.just((0,)) if bias_only else st.sets(st.integers(0, highest), min_size=1).map(sorted).map(tuple)
    feature_orders = draw(st.lists(orders, max_size=3))
    model = draw_model(draw, so.chain(n_labels, patterns, {}, history), feature_orders, weights, forbid)
    longest = 5 if n_labels < 4 else 4
    row = st.dictionaries(st.integers(0, len(feature_orders) - 1), VALUES) if feature_orders else st.just({})
    sequence = st.lists(row, min_size=min_length, max_size=longest)
    rows = draw(st.lists(sequence, min_size=1, max_size=n_sequences))
    label = st.integers(0, n_labels - 1)
    labels = [tuple(draw(st.lists(label, min_size=len(sequence), max_size=len(sequence)))) for sequence in rows]
    return chain_case(model, feature_orders, rows, labels)


def of_history(patterns, history):
    """Return the patterns that can occur: without equal neighbours if they have three or more segments."""
    if history == "tokens":
        return patterns
    return [z for z in patterns if len(z) < 3 or not has_repeat(z)]


def random_case(rng, n_labels, lengths, max_order, n_patterns, scale, feature_orders, forbidden=0.0, history="tokens"):
    """Return a random case, whose sequences may be long."""
    longer = {tuple(rng.integers(0, n_labels, rng.integers(2, max_order + 2)).tolist()) for _ in range(n_patterns)}
    options = {"patterns": of_history(longer if max_order else (), history), "scale": scale, "forbidden": forbidden}
    options |= {"longest": (1,) * n_labels, "n_attributes": len(feature_orders)}
    case = random_segment_case(rng, lengths, None, feature_orders, **options)
    return case._replace(model=case.model._replace(history=history))


def peak_of(action):
    """Return the peak of the memory that a call allocates, in bytes."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def to_codes(labels):
    """Return labellings as one flat array of label codes."""
    return np.array([y for labelling in labels for y in labelling], dtype=np.int32)


def build_layout(
    batch, codes, patterns, *, fit_intercept=True, sequence_weight=None, forbidden=(), parts=None, like=None, **rule
):
    """Return the layout of labelled data; ``rule`` gives fields of a PairRule, ``like`` is a layout to imitate."""
    frame = LayoutFrame(patterns, forbidden, parts)
    if like is not None:
        frame = LayoutFrame(like.patterns, like.forbidden, like.parts, like.compiled)
    builder = LayoutBuilder(frame, PairRule(**rule), fit_intercept)
    return builder.build(builder.count(batch, codes, sequence_weight))


def to_layout(case, **options):
    """Return the layout of all weights of a case, and their values."""
    patterns = given_patterns(case.model.patterns, case.model.n_labels, case.model.history)
    options = {"all_pairs": True, "fit_intercept": True, **options}
    batch = to_batch(case.rows, case.n_attributes)
    layout = build_layout(batch, to_codes(case.labels), patterns, feature_orders=case.feature_orders, **options)
    return layout, to_weights(case, layout)


def to_chain_model(case, **options):
    """Return the case as (ChainModel, SequenceBatch)."""
    layout, weights = to_layout(case, **options)
    return ChainModel(layout, weights), to_batch(case.rows, case.n_attributes)


def to_problem(case, sequence_weight=None, schedule=None, **options):
    """Return the training problem of a case's data, with the weights that occur in these data."""
    batch, codes = to_batch(case.rows, case.n_attributes), to_codes(case.labels)
    patterns = given_patterns(case.model.patterns, case.model.n_labels)
    options |= {"feature_orders": case.feature_orders, "sequence_weight": sequence_weight}
    layout = build_layout(batch, codes, patterns, **options)
    return Problem(ChainModel, layout, batch, codes, sequence_weight=sequence_weight, schedule=schedule)


def reschedule(model, **changes):
    """Return the model with other sizes at which its schedule cuts batches."""
    schedule = replace(model.plan_class.default_schedule, **changes)
    return type(model)(model.layout, model.weights, schedule=schedule)


def emission_case(n_labels, patterns, scores):
    """Return a sequence whose label scores are the rows of a table; feature y is the score of label y."""
    patterns = {(y,): 0.0 for y in range(n_labels)} | patterns
    features = {(f, (y,)): float(f == y) for f in range(n_labels) for y in range(n_labels)}
    rows = [{y: float(score) for y, score in enumerate(line) if score} for line in scores]
    return chain_case(so.chain(n_labels, patterns, features), [(0,)] * n_labels, [rows], [(0,) * len(rows)])


NO_SWITCH = {z: -math.inf for z in itertools.permutations(range(3), 2)}
NO_SWITCH_2 = {(0, 1): -math.inf, (1, 0): -math.inf}
UNDERFLOWS = {
    # the mass that will win is lost in a product of weights that are all in range, in a row whose total is small itself
    "small_row": emission_case(3, NO_SWITCH, [[0, -576, -460], [-400, 0, -400], [-600, -600, 0], [-600, -600, 0]]),
    "step_by_step": emission_case(2, NO_SWITCH_2, [(0, -9)] * 99 + [(-950, 0)]),
    "and_back": emission_case(2, NO_SWITCH_2, [(0, -600), (-600, 0)] * 4),
    "weak_arcs": emission_case(2, {(0, 1): -630.0, (1, 0): -630.0}, [(0, -300), (-300, 0), (-600, 0), (0, 0)]),
    "far_away": emission_case(2, {(0, 1): -700.0, (1, 0): -700.0}, [(0, -30)] * 40 + [(-30, 0)] * 60),
    "one_huge_token": emission_case(
        2, {(0, 1): 900.0, (1, 0): -900.0}, [(0, 0)] * 30 + [(1000, -1000)] + [(0, 0)] * 30
    ),
    "golden": emission_case(2, {(0, 1): -1000.0, (1, 0): -1000.0}, [(0, -400)] * 3 + [(-400, 150)] * 3),
    "change_of_mind": emission_case(2, NO_SWITCH_2, [(0, -9)] * 99 + [(-9, 0)] * 200),  # log Z = -891
    "one_strong_pattern": emission_case(2, {(1,): 150.0, (0, 1): -math.inf, (0, 0, 0): 640.0}, [(0, 0)] * 3),
    "denormal_row": emission_case(2, {(1,): -math.inf, (0, 0): -632.0}, [[0, 0], [-80, 0], [0, 0]]),
    "dead_end": emission_case(3, {(0, 0, 0): -math.inf, (0, 1): -900.0, (0, 2): -901.0}, [(0, -900, -900)] * 5),
}
RUNS_UNDERFLOW = list(UNDERFLOWS)[:8]  # whose patterns are of neighbours that differ


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
    return golden, chain_case(
        so.chain(golden["n_labels"], patterns, features), orders, [rows], golden["best_paths"][:1]
    )


def count_wide_passes(monkeypatch):
    """Return a counter of the passes on wide numbers, and of the sequences that they process."""
    passes, on_wide_numbers = SimpleNamespace(calls=0, n_sequences=0), MarginalPass._on_wide_numbers

    def counted(scaled, task, factor):
        passes.calls, passes.n_sequences = passes.calls + 1, passes.n_sequences + task.sequences.size
        return on_wide_numbers(scaled, task, factor)

    monkeypatch.setattr(MarginalPass, "_on_wide_numbers", counted)
    return passes


def by_order(*values):
    """Return a mapping for ``sigma_reg`` or ``l1_reg`` by order; the last value also applies to higher orders."""
    kinds = "features", "patterns"
    return {(kind, order): value for order, value in enumerate(values[:-1]) for kind in kinds} | {None: values[-1]}
