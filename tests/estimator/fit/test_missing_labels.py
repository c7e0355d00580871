"""Training with missing labels: the marginal likelihood, its gradient, and the quality of the model at its maximum."""

import warnings

import numpy as np
import pytest
from refusals import refusals
from registry import KINDS, fitted, hide, written
from sklearn.base import clone
from test_known import random_words

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF


def labelled(rng, n_sequences=8, length=6):
    """Return sequences, labels that go with their words, and these, partial in all but the first two sequences."""
    y = [[str(label) for label in rng.choice(list("xyz"), length)] for _ in range(n_sequences)]
    X = [[["w=" + label if rng.random() < 0.7 else "w=?", "b"] for label in labels] for labels in y]
    return X, y, [*y[:2], *[[hide(rng, label, ["x", "y", "z"]) for label in labels] for labels in y[2:]]]


@pytest.mark.parametrize("name", ["order 3", "scheme"])
def test_without_missing_labels_all_ways_are_one(name):
    """Sets of one label are labels: the fit has the same bits."""
    kind, plain = KINDS[name], fitted(name)
    sets = [[frozenset({label}) for label in labels] for labels in kind.y()]
    same = clone(kind.estimator).fit(kind.X(), sets)
    np.testing.assert_array_equal(plain.coef_.toarray(), same.coef_.toarray())
    np.testing.assert_array_equal(plain.pattern_coef_, same.pattern_coef_)
    assert plain.optimality_gap_ == same.optimality_gap_ < np.inf


def is_known(label):
    return label is not None and len(label) == 1  # letters, and sets


def known_runs(X, y):
    """Return sequences cut where labels are not known."""
    runs_X, runs_y = [], []
    for tokens, labels in zip(X, y, strict=True):
        for t, label in enumerate(labels):
            if is_known(label) and t > 0 and is_known(labels[t - 1]):
                runs_X[-1].append(tokens[t])
                runs_y[-1].append(*label)
            elif is_known(label):
                runs_X.append([tokens[t]])
                runs_y.append([*label])
    return runs_X, runs_y


def test_training_starts_from_what_is_known():
    X, _, y = labelled(np.random.default_rng(8))
    options = {"patterns": "all", "all_pairs": True}  # the known labels and the sets count in other places
    crf = HighOrderCRF(1, **options).fit(X, y)
    assert crf.optimality_gap_ == np.inf
    assert crf._state.targets.known is None  # nothing of the data is kept
    known = HighOrderCRF(1, **options).fit(*known_runs(X, y))
    start = [known.pattern_coef_, known.coef_.toarray().ravel()]
    penalty = 0.5 * sum(float(w @ w) for w in start)
    assert crf.objective_history_[0] == pytest.approx(penalty - known.log_likelihood(X, y).sum(), rel=1e-9)
    last = crf.objective_history_[-1]
    again = crf.set_params(warm_start=True).fit(X, y)
    assert again.objective_history_[0] == pytest.approx(last, rel=1e-12)


# --- what y may be ----------------------------------------------------------------------------------------------------


def test_sets_name_labels_that_missing_labels_hide():
    X = [[["a"], ["b"], ["c"]], [["b"], ["a"]]]
    crf = HighOrderCRF(1, patterns="all", all_pairs=True).fit(X, [["x", None, {"y", "w"}], ["y", "x"]])
    assert crf.classes_.tolist() == ["w", "x", "y"]


def test_lengths_of_segments_are_at_least_those_of_known_pieces():
    X = [[["a"], ["b"], ["c"], ["d"]], [["b"], ["a"]]]
    bio = HighOrderSemiCRF(scheme="bio").fit(X, [["O", None, "I-x", "I-x"], ["B-x", "O"]])
    assert bio.segment_length_ == {"O": (1, 1), "x": (1, 3)}  # it begins before the third token
    runs = HighOrderSemiCRF(scheme="runs").fit(X, [["x", "x", None, "y"], ["y", "y"]])
    assert runs.segment_length_ == {"x": (1, 2), "y": (1, 2)}


def test_nothing_agrees():
    X = [[["a"], ["b"], ["c"], ["d"]]] * 3
    y = [["B-x", "I-x", "O", "O"], None, ["O", "B-x", "I-x", "I-x"]]
    short = HighOrderSemiCRF(scheme="bio", segment_length=2)
    with pytest.raises(
        ValueError, match=r"segment \(1, 4, 'x'\) of sequence 2 .* has 3 tokens, but segment_length allows 2"
    ):
        short.fit(X, y)
    y[2] = [None, "I-x", "I-x", None]
    with pytest.raises(ValueError, match="sequence 2: no labelling .* y, segment_length and .* none left is 2$"):
        short.fit(X, y, [1, 0, 1])
    rules = Constraints(forbid=[("x", "y")], start=["x"])
    with pytest.raises(ValueError, match="sequence 1: no labelling agrees with y and the constraints; .* left is 0$"):
        HighOrderCRF(constraints=rules).fit(X[:2], [["x", "z", "y", "x"], [{"y", "z"}, None, "x", None]])


def test_a_warning_where_nearly_all_is_missing():
    X, full, _ = labelled(np.random.default_rng(15), 20, 10)
    y = [full[0], *[None] * 19]
    with pytest.warns(UserWarning, match="only 10 of 200 tokens are labelled"):
        HighOrderCRF().fit(X, y)


def test_segments_with_gaps_everywhere_are_no_segments_outside():
    X = [[["a"], ["b"], ["c"]], [["b"], ["a"]]]
    with pytest.warns(UserWarning, match=r"no sequence of y is tiled by its segments: .* fill them with segments"):
        HighOrderSemiCRF(scheme="segments", segment_length=2).fit(X, [[(0, 1, "x")], [(1, 2, "y")]])


@pytest.mark.filterwarnings("ignore:no sequence of y is tiled")
@pytest.mark.parametrize("scheme", ["segments", "bio", "runs"])
def test_sequences_of_weight_zero_give_no_labels(scheme):
    segments = [[(0, 1, "x"), (1, 3, "y")], [(0, 2, "z")]]
    X = [random_words(np.random.default_rng(0), 4), random_words(np.random.default_rng(1), 2)]
    y = [written(each, scheme) for each in segments]
    y[0] += [] if scheme == "segments" else [None]
    crf = HighOrderSemiCRF(scheme=scheme).fit(X, y, sample_weight=[1.0, 0.0])
    assert crf.segment_labels_.tolist() == ["x", "y"]


def test_segments_that_end_at_missing_labels():
    """A run of labels beside a missing one may go on: it is no segment of known length, and the messages say so."""
    X = [[["x"]] * 6] * 2
    with pytest.raises(ValueError, match=r"no segment of y is known as a whole.* HighOrderCRF\(history="):
        HighOrderSemiCRF().fit(X, [["a", "a", None, None, "b", "b"]] * 2)
    assert HighOrderCRF(history="segments").fit(X, [["a", "a", None, None, "b", "b"]] * 2).predict(X)[0][0] == "a"
    y = [["a", None, "a", None, "b", "b"], ["a", "a", "b", "b", "b", None]]
    with pytest.warns(UserWarning, match="longest run of known labels: set segment_length"):
        short = HighOrderSemiCRF().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        long = HighOrderSemiCRF(segment_length=6).fit(X, y)
    found = [model.log_likelihood(X[:1], [["a"] * 3 + ["b"] * 3])[0] for model in (short, long)]
    assert found[0] == -np.inf < found[1]


test_refusals = refusals(
    (lambda value: HighOrderCRF().fit([[["a"], ["b"], ["c"]], [["b"], ["a"]]], [value, None]),
     ("y has no known labels", [None] * 3),
     (r"y has an empty set \(sequence 0, position 1\)", ["x", set(), "y"]),
     ("y has only one class, 'x', but needs at least 2 distinct labels", ["x", None, "x"]),
     (TypeError, r"sortable together, but 3 \(sequence 0, position 2\)", ["x", None, 3])),
    (lambda: HighOrderCRF(constraints=Constraints(forbid=[("a", "b", "a"), ("a", "a", "a")])).fit(
         [[["v"], ["w"], ["v"]]] * 3, [["a", "b", "b"], ["b", "b", "a"], ["a", None, "a"]], sample_weight=[0, 1, 1]),
     "^sequence 2: no labelling agrees with y and the constraints; .* is 2$"),
    *((lambda method=method: getattr(HighOrderCRF(solver="sgd"), method)([[["v"]] * 3], [["a", "b", None]]),
       "y with missing labels needs solver='lbfgs': solver='sgd' takes a few sequences at a time")
      for method in ("fit", "partial_fit")),
)  # fmt: skip
