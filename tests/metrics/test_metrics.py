"""Scores against scikit-learn and seqeval, segments against plain loops, and properties of the randomisation test."""

import functools
import itertools
import warnings

import numpy as np
import pandas
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals
from seqeval import metrics as seqeval_metrics
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Entities
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.inspection import permutation_importance
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, metrics
from sklearn_hocrf.text import extract_segments

TYPES = ("PER", "A-B", "L")
TAGS = {
    "bio": ["O", "B", "I", *(f"{prefix}-{label}" for prefix in "BI" for label in TYPES)],
    "bioes": ["O", "B", "I", "E", "S", *(f"{prefix}-{label}" for prefix in "BIES" for label in TYPES)],
    "bilou": ["O", "B", "I", "L", "U", *(f"{prefix}-{label}" for prefix in "BILU" for label in TYPES)],
}
TAGS["iob1"] = TAGS["bio"]
SCHEMES = {"bio": IOB2, "bioes": IOBES, "bilou": BILOU, "iob1": IOB1}
# undefined ratios are part of most examples here; what warns and what does not has tests of its own
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")


def labellings(labels, n_systems=2, max_sequences=5, max_length=6):
    """Draw the labels of several systems for the same tokens."""

    def of_lengths(lengths):
        sequence = [st.lists(st.sampled_from(labels), min_size=length, max_size=length) for length in lengths]
        return st.tuples(*[st.tuples(*sequence).map(list)] * n_systems)

    return st.lists(st.integers(0, max_length), min_size=1, max_size=max_sequences).flatmap(of_lengths)


def flat(y):
    return list(itertools.chain.from_iterable(y))


def object_array(sequences):
    array = np.empty(len(sequences), dtype=object)
    array[:] = [np.array(sequence) for sequence in sequences]
    return array


# --- tokens -----------------------------------------------------------------------------------------------------------


@given(labellings("ABC"))
def test_accuracies(pair):
    y_true, y_pred = pair
    equal = [true == predicted for true, predicted in zip(y_true, y_pred, strict=True)]
    assert metrics.sequence_accuracy_score(y_true, y_pred) == np.mean(equal)
    if flat(y_true):
        expected = sklearn.metrics.accuracy_score(flat(y_true), flat(y_pred))
        assert metrics.token_accuracy_score(y_true, y_pred) == pytest.approx(expected, abs=1e-15)


def test_other_labels_are_not_scored_but_still_wrong_elsewhere():
    y_true, y_pred = [["A", "O", "A"], ["B", "A"]], [["A", "B", "A"], ["O", "A"]]
    scores = metrics.segment_precision_recall_fscore_support(y_true, y_pred, scheme="runs", labels=["A", "B"])
    np.testing.assert_array_equal(scores, [[1, 0], [1, 0], [1, 0], [3, 1]])  # of A and B
    assert metrics.segment_f1_score(y_true, y_pred, labels=["A", "B"]) == pytest.approx(6 / 8)
    scores = metrics.segment_precision_recall_fscore_support(y_true, y_pred, labels=["A", "O"])
    assert scores[1].tolist() == [1, 0]


# --- segments ---------------------------------------------------------------------------------------------------------


@given(labellings("AB", n_systems=1))
def test_runs_are_those_of_groupby(systems):
    (y,) = systems
    expected = []
    for labels in y:
        segments, start = [], 0
        for label, run in itertools.groupby(labels):
            stop = start + len(list(run))
            segments.append((start, stop, label))
            start = stop
        expected.append(segments)
    assert extract_segments(y) == expected
    assert extract_segments(expected, scheme="segments") == expected


@pytest.mark.parametrize(
    ("scheme", "longest"),
    [
        *[("bio", 4), ("iob1", 4), ("bioes", 3), ("bilou", 3), ("bmes", 3)],
        *[pytest.param(*row, marks=pytest.mark.slow) for row in [("bio", 6), ("iob1", 6), ("bioes", 4), ("bilou", 4)]],
    ],
)
def test_all_short_sequences_are_read_as_by_seqeval(scheme, longest):
    """Also those with invalid tags; seqeval has no "bmes", which is "bioes" with an M."""
    letters = {"bilou": "BILU", "bioes": "BIES", "bmes": "BIES"}.get(scheme, "BI")
    tags = ["O", *(f"{letter}-{label}" for letter in letters for label in "XY")]
    y = [list(labels) for length in range(longest + 1) for labels in itertools.product(tags, repeat=length)]
    entities = Entities(y, SCHEMES["bioes" if scheme == "bmes" else scheme]).entities
    expected = [[(entity.start, entity.end, entity.tag) for entity in of_one] for of_one in entities]
    if scheme == "bmes":
        y = [[tag.replace("I-", "M-") for tag in labels] for labels in y]
    assert extract_segments(y, scheme=scheme, strict=True) == expected


LENIENT = "bio", "bioes", "iob1"  # seqeval does not know L and U where it is lenient


@pytest.mark.parametrize(
    ("scheme", "strict"), [*((scheme, True) for scheme in SCHEMES), *((scheme, False) for scheme in LENIENT)]
)
@given(data=st.data())
def test_tags_are_those_of_seqeval(scheme, strict, data):
    y_true, y_pred = data.draw(labellings(TAGS[scheme]))
    params, theirs = {"scheme": scheme, "strict": strict}, {"mode": "strict", "scheme": SCHEMES[scheme]}
    scores = metrics.segment_precision_recall_fscore_support(y_true, y_pred, average="micro", **params)
    for quantity, ours in zip(("precision", "recall", "f1"), scores[:3], strict=True):
        expected = getattr(seqeval_metrics, f"{quantity}_score")(y_true, y_pred, **(theirs if strict else {}))
        assert ours == pytest.approx(expected, abs=1e-14)
    assert metrics.segment_f1_score(y_true, y_pred, **params) == scores[2]


@pytest.mark.parametrize("scheme", ["bio", "bioes", "bilou", "iob1", "bmes"])
@pytest.mark.parametrize("strict", [False, True])
@given(data=st.data())
def test_tags_show_their_scheme(scheme, strict, data):
    """The default is the scheme that was drawn, or one that reads the same tags alike."""
    letters = {"bmes": "BMES"}.get(scheme, "".join(sorted({tag[0] for tag in TAGS.get(scheme, ["O"])} - {"O"})))
    y_true, y_pred = data.draw(labellings(["O", *(f"{letter}-{label}" for letter in letters for label in TYPES)]))
    drawn = {tag[0] for tag in flat(y_true) + flat(y_pred)}
    if strict and not drawn >= set(letters) or scheme == "iob1" and strict and "B" in drawn:
        return  # tags that are invalid in one scheme, and valid in another one
    params = {"average": None, "strict": strict}
    guessed = metrics.segment_precision_recall_fscore_support(y_true, y_pred, **params)
    for one, other in zip(
        guessed, metrics.segment_precision_recall_fscore_support(y_true, y_pred, scheme=scheme, **params), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "score", [metrics.segment_f1_score, lambda t, p: extract_segments(t), metrics.segment_classification_report]
)
def test_doubtful_guesses_are_told(score):
    bare, mixed = [["B", "I", "O"]], [["B-X", "author"]]
    with pytest.warns(UserWarning, match=r"""scheme="auto": \['B', 'I'\] are read as tags of "bio";""") as record:
        score(bare, bare)
    assert [warning.filename for warning in record] == [__file__]
    with pytest.warns(UserWarning, match="'B-X' looks like a tag, but not all .* \\('author' is not a tag\\), so segm"):
        score(mixed, mixed)
    with pytest.warns(UserWarning, match="'B-X' looks like a tag, but not all labels are tags of one scheme, so segm"):
        score([["B-X", "M-X", "L-X"]], [["B-X", "M-X", "L-X"]])
    with warnings.catch_warnings(action="error"):
        for tags in (["B-X", "I-X", "O"], ["B-X", "E-X", "S-X"], ["B-X", "O"], ["B", "O"], ["noun"], [3, 1]):
            score([tags], [tags])


@pytest.mark.parametrize(
    ("y_true", "message"),
    [
        ([["A"], ["B", None]], r"y_true has the label None \(sequence 1, position 1\): each token needs a label"),
        ([["A"], ["B", float("nan")]], r"y_true contains NaN \(sequence 1, position 1\)"),
        ([[1], [0, -100]], r"y_true has the label -100 \(sequence 1, position 1\): is it Hugging Face"),
        ([np.array([1]), np.ma.array([0, 1], mask=[False, True])], r"y_true has the label None \(sequence 1, posi"),
        ([np.array(["2020"], "M8[D]"), np.array(["2020", "NaT"], "M8[D]")], r"label (None|NaT) \(sequence 1, position"),
    ],
)
def test_labels_that_stand_for_none(y_true, message):
    y_pred = [labels[:1] * len(labels) for labels in [["A"], ["A", "A"]]]
    for score in (metrics.token_accuracy_score, metrics.segment_f1_score):
        with pytest.raises(ValueError, match=message):
            score(y_true, y_pred)
    assert metrics.token_accuracy_score([[-100, -5]], [[-100, 3]]) == 0.5  # integers of any sign are labels


def test_sequence_accuracy_of_segments():
    y_true, y_pred = [["B-A", "I-A"], ["O"], ["O", "B-A"]], [["B-A", "I-A"], ["I-A"], ["O", "O"]]
    assert metrics.sequence_accuracy_score(y_true, y_pred) == pytest.approx(1 / 3)
    true, predicted = [[(0, 2, "A")], []], [[(0, 2, "A"), (2, 3, "A")], []]
    assert metrics.sequence_accuracy_score(true, predicted) == 0.5
    of_one_place = [[(0, 2, "A"), (0, 2, "B")]], [[(0, 2, "B")]]  # equal ones are pairs, whatever their order
    assert metrics.segment_f1_score(*of_one_place) == pytest.approx(2 / 3)
    segments = [extract_segments(y, strict=True) for y in (y_true, y_pred)]
    assert metrics.sequence_accuracy_score(*segments) == pytest.approx(2 / 3)


# --- reports ----------------------------------------------------------------------------------------------------------


def test_reports_have_micro_averages_and_names():
    """Also where all segments are right, in place of an accuracy, and for labels that mean something else elsewhere."""
    y = [["accuracy", "none"], ["-1"]]
    report = metrics.segment_classification_report(y, y)
    assert [line.split() for line in report.splitlines() if line] == [
        ["precision", "recall", "f1-score", "support"],
        *([name, "1.00", "1.00", "1.00", "1"] for name in ("-1", "accuracy", "none")),
        *([*name, "1.00", "1.00", "1.00", "3"] for name in (("micro", "avg"), ("macro", "avg"), ("weighted", "avg"))),
    ]
    flat = [label for labels in y for label in labels]
    expected = sklearn.metrics.classification_report(flat, flat, labels=["accuracy", "X"], zero_division=0, digits=13)
    params = {"labels": ["accuracy", "X"], "zero_division": 0, "digits": 13}
    assert metrics.segment_classification_report(y, y, **params) == expected
    nothing = metrics.segment_classification_report([["O"]], [["O"]], scheme="bio", zero_division=1)
    assert [line.split()[:3] for line in nothing.splitlines()[3:]] == [
        [name, "avg", "1.00"] for name in ("micro", "macro", "weighted")
    ]


# --- division by zero -------------------------------------------------------------------------------------------------


def test_warnings_are_those_of_scikit_learn():
    y_true, y_pred = [["A", "B"]], [["A", "A"]]
    with pytest.warns(UndefinedMetricWarning, match="Precision is ill-defined .* in labels with no predicted"):
        metrics.segment_precision_recall_fscore_support(y_true, y_pred)
    with pytest.warns(UndefinedMetricWarning, match="Recall is ill-defined .* no true samples"):
        metrics.segment_precision_recall_fscore_support(y_pred, y_true, average="macro")
    with pytest.warns(UndefinedMetricWarning, match="F-score is ill-defined .* due to no true nor predicted samples"):
        metrics.segment_f1_score([["O"]], [["O"]])
    with pytest.warns(UndefinedMetricWarning):
        metrics.segment_classification_report(y_true, y_pred)
    with warnings.catch_warnings(action="error"):  # a denominator is not 0, a value is given, or averages are fine
        metrics.segment_f1_score(y_true, y_pred, average=None)
        metrics.segment_precision_recall_fscore_support(y_true, y_pred, zero_division=1)
        metrics.segment_precision_recall_fscore_support(y_true, y_pred, average="micro")


@pytest.mark.parametrize(("zero_division", "expected"), [("warn", 0.0), (0, 0.0), (1.0, 1.0), (np.nan, np.nan)])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_nothing_to_score(zero_division, expected, average):
    for y_true in ([["O", "O"]], [[]], []):
        value = metrics.segment_f1_score(y_true, y_true, scheme="bio", average=average, zero_division=zero_division)
        np.testing.assert_equal(value, expected)
    options = {"scheme": "bio", "average": average, "zero_division": zero_division, "sample_weight": [0.0, 1.0]}
    np.testing.assert_equal(metrics.segment_f1_score([["B"], ["O"]], [["B"], ["O"]], **options), expected)
    assert metrics.segment_f1_score([["O"]], [["O"]], scheme="bio", average=None).shape == (0,)


# --- approximate randomisation test -----------------------------------------------------------------------------------


def exact_p_value(y_true, a, b, metric):
    """Return the share of all 2^n swaps whose absolute difference is at least the observed one."""
    scores = [metric(y_true, list(outputs)) for outputs in itertools.product(*zip(a, b, strict=True))]
    differences = np.abs(np.subtract(scores, scores[::-1]))  # the reverse order: the outputs that were not taken
    return np.mean(differences >= differences[0] - 1e-12)


SYSTEMS = np.random.default_rng(3)
TRUE = [list(SYSTEMS.choice(["B-A", "I-A", "B-B", "O"], size=6)) for _ in range(10)]
SYSTEM_A, SYSTEM_B = (
    [[tag if SYSTEMS.random() < share else str(SYSTEMS.choice(["B-A", "B-C"])) for tag in tags] for tags in TRUE]
    for share in (0.9, 0.6)
)
TESTED = [
    (metrics.token_accuracy_score, {}),
    (metrics.sequence_accuracy_score, {}),
    (metrics.segment_f1_score, {"scheme": "bio"}),
    (metrics.segment_f1_score, {}),
    (metrics.segment_f1_score, {"scheme": "runs"}),
    (metrics.segment_f1_score, {"scheme": "runs", "labels": ["B-A", "O"]}),
    (metrics.segment_f1_score, {"labels": ["B", "X"]}),
    (metrics.segment_f1_score, {"scheme": "bio", "strict": False, "labels": ["B"]}),
]


@pytest.mark.filterwarnings("ignore:.*ill-defined")
@pytest.mark.parametrize(("metric", "params"), TESTED, ids=lambda value: getattr(value, "__name__", str(value)))
def test_adding_up_counts_equals_calling_the_metric(metric, params):
    systems, called = (TRUE[:6], SYSTEM_A[:6], SYSTEM_B[:6]), functools.partial(metric, **params)
    result = metrics.randomization_test(*systems, metric, n_resamples=64, **params)
    assert result.p_value == pytest.approx(exact_p_value(*systems, called))
    assert result.score_a == pytest.approx(called(TRUE[:6], SYSTEM_A[:6]), abs=1e-15)
    assert result.score_b == pytest.approx(called(TRUE[:6], SYSTEM_B[:6]), abs=1e-15)
    assert result.difference == result.score_a - result.score_b


@pytest.mark.parametrize("metric", [metrics.token_accuracy_score, metrics.segment_f1_score], ids=lambda f: f.__name__)
def test_p_value_is_near_that_of_all_swaps(metric):
    systems = TRUE[:6], SYSTEM_A[:6], SYSTEM_B[:6]
    exact = exact_p_value(*systems, metric)
    assert metrics.randomization_test(*systems, metric, n_resamples=64).p_value == pytest.approx(exact)
    n_resamples = 63  # fewer than the ways to swap
    result = metrics.randomization_test(*systems, metric, n_resamples=n_resamples, random_state=0)
    assert abs(result.p_value - exact) < 5 * np.sqrt(exact * (1 - exact) / n_resamples) + 1 / n_resamples
    assert 0.001 < exact < 0.7  # else this would test little


def test_equal_differences_tie_in_spite_of_rounding():
    """The systems differ by 8/63, and so do outputs that swap two sequences, but for one rounding error."""

    def segments(n_right, n_wrong):
        return [(t, t + 1, "A" if t < n_right else "B") for t in range(n_right + n_wrong)]

    y_true = [segments(n, 0) for n in (2, 3, 1, 3)]
    a = [segments(1, 1), segments(2, 1), segments(0, 2), segments(2, 0)]
    b = [segments(1, 2), segments(1, 0), segments(0, 0), segments(1, 0)]
    result = metrics.randomization_test(y_true, a, b, metrics.segment_f1_score, n_resamples=16)
    assert result.difference == pytest.approx(8 / 63)
    assert result.p_value == exact_p_value(y_true, a, b, metrics.segment_f1_score)


# --- tuples -----------------------------------------------------------------------------------------------------------


def test_labels_that_are_tuples_are_still_labels():
    y = [[(0, 1, "A"), (0, 1, "A")], [(0, 2, "A")]]
    assert metrics.token_accuracy_score(y, y) == 1
    y = [[(1, 0, "A")], [(0, 1.5, "A")]]
    assert metrics.segment_f1_score(y, y) == 1


# --- scorers ----------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
WORDS = [[str(word) for word in RNG.choice(list("abcd"), size=RNG.integers(1, 6))] for _ in range(16)]
LABELS = [["B-X" if word < "b" else "I-X" if word < "c" else "O" for word in sequence] for sequence in WORDS]
X = [[{"word": word, "noise": str(RNG.integers(3))} for word in sequence] for sequence in WORDS]
SCORERS = {name: getattr(metrics, name) for name in metrics.__all__ if name.endswith("_scorer")}


def test_every_scorer_in_cross_validation():
    scoring = SCORERS | {"token_accuracy": make_scorer(metrics.token_accuracy_score)}
    assert len(scoring) == 6
    for y in (LABELS, [np.array(labels) for labels in LABELS], object_array(LABELS)):
        crf = HighOrderCRF(sigma_reg=0.1)
        results = cross_validate(crf, X, y, cv=2, scoring=scoring, error_score="raise")
        half = len(X) // 2
        predicted = crf.fit(X[half:], y[half:]).predict(X[:half])
        lengths = sum(map(len, y[:half]))
        expected = crf.log_likelihood(X[:half], y[:half]).sum() / lengths  # sums in another order round
        assert results["test_log_likelihood_scorer"][0] == pytest.approx(expected, rel=1e-14)
        assert results["test_token_accuracy"][0] == metrics.token_accuracy_score(y[:half], predicted)
        expected = seqeval_metrics.f1_score(LABELS[:half], list(map(list, predicted)))
        assert results["test_segment_f1_scorer"][0] == pytest.approx(expected)
        tokens = flat(LABELS[:half]), flat(map(list, predicted))
        assert results["test_token_accuracy_scorer"][0] == sklearn.metrics.accuracy_score(*tokens)
        assert results["test_token_f1_scorer"][0] == sklearn.metrics.f1_score(*tokens, average="macro")
        whole = [list(one) == list(other) for one, other in zip(y[:half], predicted, strict=True)]
        assert results["test_sequence_accuracy_scorer"][0] == np.mean(whole)
    single = [["S-X" if label != "O" else "O" for label in labels] for labels in LABELS]
    assert cross_val_score(HighOrderCRF(), X, single, cv=2, scoring=metrics.segment_f1_scorer).min() > 0.8


def test_sequences_without_labels_do_not_count_in_the_likelihood_of_a_token():
    crf = HighOrderCRF(sigma_reg=0.1).fit(X, LABELS)
    some = [None if i % 3 == 0 else labels for i, labels in enumerate(LABELS)]
    known = [labels for labels in some if labels is not None]
    found = metrics.log_likelihood_scorer(
        crf, [x for x, labels in zip(X, some, strict=True) if labels is not None], known
    )
    assert metrics.log_likelihood_scorer(crf, X, some) == pytest.approx(found, rel=1e-14)


def test_the_scheme_of_the_model_wins():
    """The labels of a few sequences may look like those of another scheme."""
    X, y = [[["a"], ["b"], ["c"]], [["b"], ["a"]], [["c"], ["c"]]] * 4, [["B", "I", "O"], ["B", "B"], ["O", "O"]] * 4
    crf = HighOrderCRF(constraints="bio")
    with warnings.catch_warnings(action="error"):  # a guess from these tags without labels would be told
        named = metrics.segment_f1_scorer(crf.fit(X, y), X, y)
        assert named == metrics.segment_f1_score(y, crf.predict(X), scheme="bio")
        pipe = make_pipeline("passthrough", crf)
        assert metrics.segment_f1_scorer(GridSearchCV(pipe, {}, cv=2).fit(X, y), X, y) == named
    runs = HighOrderSemiCRF(scheme="runs").fit(X, y)
    assert metrics.segment_f1_scorer(runs, X, y) == metrics.segment_f1_score(y, runs.predict(X), scheme="runs")
    assert (crf.scheme_, runs.scheme_, HighOrderCRF().fit(X, y).scheme_) == ("bio", "runs", "bio")


TOKEN_SCORES = {
    "token_accuracy_scorer": sklearn.metrics.accuracy_score,
    "token_f1_scorer": functools.partial(sklearn.metrics.f1_score, average="macro"),
}


@given(labellings(["a", "b", "c"], max_sequences=4), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_scorers_of_tokens_are_scikit_learns_on_stacked_tokens(systems, weight):
    class Told:
        def predict(self, X):
            return systems[1]

    tokens, weight = list(map(flat, systems)), np.array(weight[: len(systems[0])], dtype=float)
    per_token = np.repeat(weight, list(map(len, systems[0])))
    for name, score in TOKEN_SCORES.items():
        if not tokens[0]:
            with pytest.raises(ValueError, match="there are no tokens with a weight above 0, so there is no"):
                SCORERS[name](Told(), None, systems[0])
            continue
        assert SCORERS[name](Told(), None, systems[0]) == pytest.approx(score(*tokens), rel=1e-12)
        weighted = SCORERS[name](Told(), None, systems[0], weight)
        assert weighted == pytest.approx(score(*tokens, sample_weight=per_token), rel=1e-12)
    whole = [one == other for one, other in zip(*systems, strict=True)]
    assert SCORERS["sequence_accuracy_scorer"](Told(), None, systems[0], weight) == np.average(whole, weights=weight)


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("labels", [["a", "b"], [0, 1]], ids=str)
def test_scorers_take_tables(name, labels):
    """Their rows are sequences of one token."""
    y = np.repeat(labels, 20)
    table = np.column_stack([np.repeat([0.0, 1.0], 20), np.random.default_rng(0).normal(size=40)])
    crf = HighOrderCRF().fit(table, y)
    importance = permutation_importance(crf, table, y, scoring=SCORERS[name], n_repeats=3, random_state=0)
    assert importance.importances_mean[0] > 0.1
    sequences = HighOrderCRF().fit(table[:, None], y[:, None])
    found = SCORERS[name](sequences, table[:, None], y[:, None])
    for form in (y, y.tolist(), pandas.Series(y)):
        assert SCORERS[name](crf, table, form) == pytest.approx(found)


def test_scorers_take_weights():
    crf = HighOrderCRF(sigma_reg=0.1).fit(X, LABELS)
    more = [*X, X[0]], [*LABELS, ["B-new"] * len(X[0])]  # with a label that the model does not know
    for scorer in SCORERS.values():
        twice = scorer(crf, X + X[:3], LABELS + LABELS[:3])
        weight = np.ones(len(X))
        weight[:3] = 2
        assert scorer(crf, X, LABELS, sample_weight=weight) == pytest.approx(twice)
        assert scorer(crf, *more, sample_weight=np.append(weight, 0.0)) == pytest.approx(twice)


# for refusals
GOOD = [["A", "B"], ["A"]]


test_refusals = refusals(
    (lambda: metrics.sequence_accuracy_score([], []), "no sequences"),
    (lambda: metrics.token_accuracy_score([["A"], []], [["A"], []], sample_weight=[0, 1]), "no tokens with a weight"),
    (lambda args: metrics.randomization_test(*args),
     ("y_true has 10 sequences, but y_pred_b has 9", (TRUE, SYSTEM_A, SYSTEM_B[1:], metrics.segment_f1_score)),
     (r"y_pred_b has the label None \(sequence 9, position 0\)",
      (TRUE, SYSTEM_A, [*SYSTEM_B[:9], [None] * 6], metrics.token_accuracy_score)),
     ("no sequences", ([], [], [], metrics.segment_f1_score)),
     (TypeError, "metric must be one of the functions token_accuracy_score, sequence_accuracy_score, segment_f1_score",
      (TRUE, SYSTEM_A, SYSTEM_B, "f1"), (TRUE, SYSTEM_A, SYSTEM_B, lambda true, predicted: 1.0),
      (TRUE, SYSTEM_A, SYSTEM_B, metrics.segment_classification_report))),
    (lambda: metrics.token_accuracy_score([["A"], ["B"]], [["A"], ["B"]], sample_weight=[1e+308, 1e+308]),
     "is too large for a float"),
    (lambda: metrics.segment_f1_score([[(0, 2 ** 70, "A")]], [[(0, 1, "A")]], scheme="segments"),
     r"y_true has the segment .* \(sequence 0, position 0\), but no sequence has that"),
    (lambda sample_weight: metrics.token_accuracy_score(
         [["A"], ["B", "A"]], [["A"], ["B", "B"]], sample_weight=sample_weight),
     (TypeError, r"one number per sequence, but sample_weight\[0\]", np.array(["1", "2"]))),
    *((lambda value, function=function: function(GOOD, value),
       ("sequence 1 has 1 tokens in y_true, but 2 in y_pred", [["A", "B"], ["A", "B"]]),
       ("y_true has 2 sequences, but y_pred has 1", [["A", "B"]]),
       (TypeError, r"y_pred\[0\] \(sequence 0\)", np.array(["A", "B"])),
       (r"y_pred\[1\] \(sequence 1\) has 2 dimensions", [["A", "B"], np.array([["A"]])]),
       (TypeError, r"\['B'\] of y_pred \(sequence 0, position 1\) is a list", [["A", ["B"]], ["A"]]),
       (TypeError, "must be sortable together", [["A", 1], ["A"]]),
       (r"y_pred contains NaN \(sequence 1, position 0\)", [np.array([1.0, 2.0]), np.array([np.nan])]))
      for function in (metrics.token_accuracy_score, metrics.segment_f1_score)),
    (lambda value: metrics.segment_f1_score([["O"], ["O", "O"]], [["O"], ["O", value]], scheme="bio"),
     (r"'O-PER' of y_pred \(sequence 1, position 1\) is not a tag of scheme='bio', whose tags are 'O', 'B-label', ",
      "O-PER")),
    (lambda value: metrics.segment_f1_score([[], []], [[], [(0, 1, "A"), value]], scheme="segments"),
     (TypeError, r"'ABC' of y_pred \(sequence 1, position 1\) is not a segment", "ABC"),
     (TypeError, "start and stop must be integers", (0, 2.0, "A")),
     ("0 <= start < stop", (-1, 2, "A")),
     (r"the segment \(0, 1, 'A'\) twice \(sequence 1, position 1\)", (0, 1, "A")),
     (TypeError, r"\['A'\] of y_pred \(sequence 1, position 1\) is a list", (0, 1, ["A"]))),
    (lambda params: metrics.segment_precision_recall_fscore_support(GOOD, GOOD, **params),
     ("average must be", {"average": "samples"}, {"average": ["micro"]}),
     ("'zero_division' .* must be", {"zero_division": 2}, {"zero_division": "raise"}),
     ("at least one label", {"labels": []}),
     ("more than once", {"labels": ["A", "A"]}),
     (TypeError, "labels must be a list", {"labels": "A"}),
     ("2 sequences", {"sample_weight": [1]}),
     ("sequence 1 has -1", {"sample_weight": [1, -1]}),
     ("at least one non-zero", {"sample_weight": [0, 0]}),
     ("scheme must be one of", {"scheme": "iob"}),
     (TypeError, "strict must be", {"strict": "yes"})),
    (lambda params: metrics.randomization_test(TRUE, SYSTEM_A, SYSTEM_B, metrics.segment_f1_score, **params),
     (TypeError, "average is no option of segment_f1_score here; its options are: scheme, strict, labels",
      {"average": None}, {"average": "macro"}),
     ("n_resamples", {"n_resamples": 0}, {"n_resamples": 9.5})),
    (lambda: metrics.randomization_test(TRUE, SYSTEM_A, SYSTEM_B, metrics.token_accuracy_score, scheme="bio"),
     (TypeError, "scheme is no option of token_accuracy_score here; its options are: none")),
)  # fmt: skip
