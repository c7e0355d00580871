"""Sets of labels in y: their likelihood against enumeration in plain Python, and models trained on them."""

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import FitSteps, pattern_labels

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
LETTERS = list("abcdefg")
TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]
PARTS = {"a": ["vowel"], "e": ["vowel"], "b": ["stop"], "d": ["stop"], "B-x": ["x"], "I-x": ["x"]}
FORBIDDEN = [("a", "b"), ("c", "c"), ("b", "a", "c")]


def members(entry, n_labels):
    """Return the labels that an entry of y counts: none for None and for large sets."""
    some = {entry} if isinstance(entry, str) else set(entry or ())
    is_small = len(some) <= 8 and (2 * len(some) <= n_labels or len(some) == 2 < n_labels)
    return sorted(some) if len(some) == 1 or is_small else []


def joined(left, right, history, constraints):
    """Say whether a label may stay in the segment of another, or begin one after it; None for neither."""
    if constraints == "bio":
        if right[0] == "I":
            return ("stay" if history == "segments" else "begin") if left[1:] == right[1:] and left != "O" else None
        return "stay" if history == "segments" and left == right == "O" else "begin"
    if constraints is not None and (left, right) in FORBIDDEN:
        return None
    return "stay" if history == "segments" and left == right else "begin"


def patterns_at(sets, max_order, history, constraints):
    """Return the patterns that may end at each token, from all labellings of the tokens up to it."""
    found = [set() for _ in sets]
    for stop in range(len(sets)):
        for start in range(stop):
            for labels in product(*sets[start : stop + 1]):
                steps = [joined(*pair, history, constraints) for pair in pairwise(labels)]
                pattern = (labels[0], *(name for name, step in zip(labels[1:], steps, strict=True) if step == "begin"))
                if None in steps or max_order == 0:
                    continue
                if steps[-1] == "stay" and len(labels) == 2:
                    found[stop].add(labels)
                elif steps[-1] == "begin" and len(pattern) <= max_order + 1:
                    found[stop].add(pattern)
    return found


def is_possible(pattern, constraints):
    return constraints in (None, "bio") or "".join(FORBIDDEN[2]) not in "".join(pattern)


@st.composite
def with_sets(draw, labels, constraints):
    """Return features and labels of sequences, with sets; the first one has all labels, and no neighbours."""
    sets = st.sets(st.sampled_from(labels), min_size=1, max_size=draw(st.integers(1, len(labels))))
    entry = st.one_of(st.sampled_from(labels), sets, sets, st.none())
    y = [[None, *(one for label in labels for one in (label, None))]]
    for _ in range(draw(st.integers(1, 4))):
        sequence = []
        for label in draw(st.lists(entry, max_size=5)):
            known = [members(one, len(labels)) for one in [*sequence[-1:], label]]
            known = [one for one in known if len(one) == 1]
            is_first = not sequence and constraints == "bio" and "I" in str(known)
            breaks = len(known) == 2 and joined(*known[0], *known[1], "tokens", constraints) is None
            sequence.append(None if is_first or breaks or "bac" in "".join(map(str, [*sequence, label])) else label)
        y.append(sequence)
    features = st.lists(st.integers(0, 2), unique=True, min_size=1)
    X = [[draw(features) for _ in sequence] for sequence in y]
    weights = [1.0, *(draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])) for _ in y[1:])]
    return X, y, weights


def as_numbers(X):
    """Return features as rows of numbers."""
    return [np.array([[2.0 * (f in tokens) for f in range(3)] for tokens in sequence]).reshape(-1, 3) for sequence in X]


def counted(estimator, X, y, weights):
    """Return the counts of patterns and of pairs, and the patterns and pairs that get weights, by name."""
    steps = FitSteps(estimator)
    data = steps.read(X, y, weights)
    labels, part_names = data.targets.labels, data.parts.names.tolist()
    found = steps.observed(data.labelled).counted(estimator.max_order, 1)
    names = pattern_labels(found.frequent(len(labels), 1), labels)[len(labels) :]
    patterns = dict(zip(names, np.concatenate([[], *found.counts]).tolist(), strict=True))
    layout = steps.layout(data)
    part = data.labelled
    builder = steps.layout_builder(part, layout.patterns)
    labelling = part.targets.labelling if part.targets.sets is None else part.targets.sets
    counts = builder.count(part.batch, labelling, part.sequence_weight).pairs.tocoo()
    rows = [*pattern_labels(layout.patterns, labels), *part_names]
    names = data.features.names
    features = [int(name[-1]) for name in names] if names is not None else [0, 1, 2]
    pairs = {(features[f], rows[z]): n for z, f, n in zip(*counts.coords, counts.data.tolist(), strict=True)}
    chosen = {(features[f], rows[z]) for f, z in zip(layout.pair_feature, layout.pair_pattern, strict=True)}
    return patterns, pairs, set(rows[: -len(part_names) or None]), chosen


def check_counts(estimator, data, patterns, pairs):
    """Compare what an estimator counts, and what gets weights, with wanted counts."""
    got_patterns, got_pairs, rows, chosen = counted(estimator, *data)
    least = estimator.min_count
    wanted = {z for z, n in patterns.items() if n >= least or least <= 1}
    pairs = {(f, z): n for (f, z), n in pairs.items() if isinstance(z, str) or len(z) == 1 or z in wanted}
    assert {z: n for z, n in got_patterns.items() if z in patterns} == patterns
    assert {z for z in rows if len(z) > 1} == wanted
    assert got_pairs == pairs
    assert chosen == {pair for pair, n in pairs.items() if n >= least or least <= 1}


@given(st.data())
def test_counts_in_tokens(draw):
    constraints = draw.draw(st.sampled_from([None, "bio", Constraints(forbid=FORBIDDEN)]))
    labels = TAGS if constraints == "bio" else LETTERS[: draw.draw(st.integers(3, 7))]
    X, y, weights = draw.draw(with_sets(labels, constraints))
    histories = ["tokens"] if constraints == "bio" else ["tokens", "segments"]
    options = {"max_order": draw.draw(st.integers(0, 3)), "history": draw.draw(st.sampled_from(histories))}
    options |= {"min_count": draw.draw(st.integers(1, 3)), "feature_order": draw.draw(st.integers(0, 2))}
    options["feature_order"] = min(options["feature_order"], options["max_order"])
    crf = HighOrderCRF(constraints=constraints, label_parts=lambda label: PARTS.get(label, ()), **options)
    patterns, pairs = Counter(), Counter()
    common = {part for part, n in Counter(p for y in labels for p in PARTS.get(y, ())).items() if n > 1}
    for tokens, entries, weight in zip(X, y, weights, strict=True):
        sets = [members(entry, len(labels)) for entry in entries]
        at = patterns_at(sets, options["max_order"], options["history"], constraints)
        for features, here, ended in zip(tokens, sets, at, strict=True):
            ended = {z for z in ended if is_possible(z, constraints)}
            rows = [*((label,) for label in here), *(z for z in ended if len(z) <= 1 + options["feature_order"])]
            rows += [part for label in here for part in PARTS.get(label, ()) if part in common]
            patterns.update(dict.fromkeys(ended, weight))
            for pair in product(features, rows):
                pairs[pair] += weight
    data = [as_numbers(X) if draw.draw(st.booleans()) else [[[f"f{f}" for f in t] for t in s] for s in X], y, weights]
    check_counts(crf, data, +patterns, +pairs)


# --- what is the same -------------------------------------------------------------------------------------------------


def bits(crf):
    return [crf.coef_.toarray(), crf.pattern_coef_, crf.objective_history_, crf.optimality_gap_]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["tokens", "segments"]))
def test_all_labels_are_a_missing_label(seed, history):
    rng = np.random.default_rng(seed)
    labels = LETTERS[: rng.integers(2, 5)]
    X = [[[f"f{f}" for f in rng.integers(0, 4, 2)] for _ in range(6)] for _ in range(3)]
    y = [[str(label) for label in rng.choice(labels, 6)] for _ in range(2)] + [labels + [labels[0]] * (6 - len(labels))]
    hidden = [[(label, {label}, None, set(rng.choice(labels, 2).tolist()))[rng.integers(4)] for label in s] for s in y]
    hidden[2] = y[2]
    other = [[set(labels) if e is None else {e} if isinstance(e, str) else e for e in s] for s in hidden]
    crf = HighOrderCRF(2, history=history, max_iter=5)
    for one, same in zip(bits(crf.fit(X, hidden)), bits(crf.fit(X, other)), strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize(("n_labels", "counted"), [(2, 1), (3, 2), (4, 2), (5, 2), (6, 3), (15, 7), (16, 8), (30, 8)])
def test_large_sets_count_as_missing(n_labels, counted):
    labels = [f"y{i:02}" for i in range(n_labels)]
    X = [[[label] for label in labels], [["large"]], [["small"]]]
    y = [labels, [set(labels[: counted + 1])], [set(labels[:counted])]]
    crf = HighOrderCRF(1).fit(X, y)
    of_feature = dict(zip(crf.feature_names_in_.tolist(), crf.coef_.toarray().T != 0, strict=True))
    assert not of_feature["large"].any()
    assert np.flatnonzero(of_feature["small"]).tolist() == list(range(counted))


# --- what is learned --------------------------------------------------------------------------------------------------


def sentences_of_types(rng, n_sequences):
    """Return words, BIO tags, and these without borders, of words whose type shows, and whose border mostly does."""
    words, tags = [], []
    for _ in range(n_sequences):
        kinds = rng.choice(["x", "y", "O"], 6).tolist()
        tags.append([tag for kind in kinds for tag in (["O"] if kind == "O" else [f"B-{kind}", f"I-{kind}"])])
        words.append([[f"{tag[-1]}{rng.integers(3)}", f"{tag[0]}" if rng.random() < 0.8 else "?"] for tag in tags[-1]])
    sets = [["O" if tag == "O" else {f"B-{tag[2:]}", f"I-{tag[2:]}"} for tag in sequence] for sequence in tags]
    return words, tags, sets


def accuracy(crf, X, y):
    return np.mean([a == b for p, q in zip(crf.predict(X), y, strict=True) for a, b in zip(p, q, strict=True)])


@pytest.mark.parametrize("seed", range(2))
def test_types_without_borders_train_features(seed):
    """The default is as good as all pairs, for full tags, where a third of the sentences have borders."""
    X, y, sets = sentences_of_types(np.random.default_rng(seed), 60)
    partly = [*y[:20], *sets[20:]]
    default = HighOrderCRF(1, constraints="bio").fit(X, partly)
    every = HighOrderCRF(1, constraints="bio", all_pairs=True).fit(X, partly)
    assert accuracy(default, X, y) >= accuracy(every, X, y) - 0.02
    types = HighOrderCRF(1, constraints="bio").fit(X, sets)  # no border is known
    assert (
        np.mean([p[-1] == q[-1] for a, b in zip(types.predict(X), y, strict=True) for p, q in zip(a, b, strict=True)])
        == 1
    )


@pytest.mark.parametrize(
    ("scheme", "y"),
    [("bio", [["O", {"B-x", "I-x"}], ["B-x"]]), ("segments", [[(0, 1, {"O", "x"}), (1, 2, "x")], [(0, 1, "O")]])],
)
def test_segments_have_no_sets(scheme, y):
    """Neither a fit nor a prediction takes them."""
    X, crf = [[["a"], ["b"]], [["b"]]], HighOrderSemiCRF(scheme=scheme)
    with pytest.raises(TypeError, match=r"y has the set .* \(sequence 0, position [01]\): only HighOrderCRF takes"):
        crf.fit(X, y)
    names = ["O", "B-x"] if scheme == "bio" else ["O", "x"]
    complete = [[names[n] for n in range(2)], names[1:]]
    if scheme == "segments":
        complete = [[(t, t + 1, name) for t, name in enumerate(one)] for one in complete]
    crf.fit(X, complete)
    with pytest.raises(TypeError, match=r"known has the set .* \(sequence 0, position [01]\): only HighOrderCRF takes"):
        crf.predict(X, known=y)


def test_only_sets():
    """Where each token has a set, there is nothing to start from, but enough to learn."""
    X = [[["a"], ["b"]], [["b"], ["a"]], [["c"], ["c"]]]
    y = [[{"x", "y"}, {"z", "w"}], [{"z", "w"}, {"x", "y"}], [{"v", "x"}, {"v", "z"}]]
    crf = HighOrderCRF(1).fit(X, y)
    assert crf.coef_.toarray()[:, crf.feature_names_in_ == "c"].ravel().astype(bool).tolist()[:5] == [1, 0, 1, 0, 1]
    assert all(label in labels for label, labels in zip(*crf.predict(X[:1]), y[0], strict=True))
    assert {("x", "z"), ("z", "y"), ("v", "v")} <= set(crf.patterns_)
