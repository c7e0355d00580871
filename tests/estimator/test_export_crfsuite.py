"""Models as CRFsuite files: python-crfsuite's Tagger gives the labels and probabilities of the model."""

import random
import time

import numpy as np
import pytest
from refusals import refusals_of_files
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from test_crfsuite import LABELS, NAMES, draw, draw_names, draw_token, same_answers, train

from sklearn_hocrf import (
    Constraints,
    HighOrderCRF,
    HighOrderSemiCRF,
    SequenceBatch,
    StackedSequenceLabeler,
    make_pipeline,
)
from sklearn_hocrf._data.crfsuite_files import _database, _encoded
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, ConformalSequenceLabeler
from sklearn_hocrf.tagger import Tagger, export_crfsuite

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
PLAIN = {"max_order": 1, "fit_intercept": False}
X, Y = [[["a"], ["b"]], [["b"], ["a"], ["c"]]], [["A", "B"], ["B", "A", "A"]]


def tagger_of(model, path, **options):
    """Write a model; return python-crfsuite's Tagger of the file."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    export_crfsuite(model, path, **options)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def named_weights(crf):
    """Return the weights other than 0 by the names of attribute and label, and by pairs of labels."""
    table = crf.coef_.tocoo()
    names, runs = crf.feature_names_in_, zip(crf.patterns_, crf.pattern_coef_.tolist(), strict=True)
    cells = zip(table.coords[1], table.coords[0], table.data.tolist(), strict=True)
    state = {(names[f], crf.classes_[z]): weight for f, z, weight in cells if weight}
    return state, {run: weight for run, weight in runs if len(run) == 2 and weight}


def odd_name(rng):
    return "".join(rng.choices(":\\ \t\n\"'{}->é日😀xyz\x01\x7f", k=rng.randint(0, 30)))


def drawn_model(seed):
    """Return a fitted model with odd names, the name of an attribute for its intercepts or None, and new data."""
    rng = random.Random(seed)
    names = sorted({*NAMES, *(odd_name(rng) for _ in range(40))})
    names = rng.sample(names, rng.choice([1, 2, 10, len(names)]))
    labels = sorted({*LABELS, *(odd_name(rng) for _ in range(9))} - {""})
    labels = rng.sample(labels, rng.choice([2, 3, len(labels)]))

    def token(rng):
        given = rng.sample(names, rng.randint(0, min(4, len(names))))
        return {name: rng.choice([1.0, 1, True, -0.5, 3.25]) for name in given} if rng.random() < 0.3 else given

    train_on, y = draw(seed, 12, labels, token)
    train_on, y = [*train_on, [[names[0]]] * 2], [*y, labels[:2]]
    bias = rng.choice([None, None, "the bias\\:"])
    settings = {"patterns": rng.choice(["observed", "all"]), "all_pairs": rng.random() < 0.3, "max_iter": 9}
    settings |= {"l1_reg": rng.choice([0.0, 0.0, 0.5, 2.0]), "sigma_reg": rng.choice([0.5, 2.0, 30.0])}
    crf = HighOrderCRF(rng.choice([0, 1, 1, 1]), fit_intercept=bias is not None, **settings).fit(train_on, y)
    return crf, bias, [*train_on, *draw(seed + 10_000, 5, labels, token)[0], [["never seen"], []]]


def with_bias(X, name):
    """Return the sequences with a further attribute at each token."""
    return [[t | {name: 1} if isinstance(t, dict) else [*t, name] for t in tokens] for tokens in X]


def check_drawn(seed, path):
    crf, bias, new = drawn_model(seed)
    tagger = tagger_of(crf, path, bias=bias)
    assert tagger.labels() == crf.classes_.tolist()
    again = HighOrderCRF.from_crfsuite(path)
    if bias is None:
        assert named_weights(again) == named_weights(crf)
    theirs = new if bias is None else with_bias(new, bias)
    same_answers(again, tagger, theirs)
    for ours, exported in zip(crf.predict_marginals(new), again.predict_marginals(theirs), strict=True):
        np.testing.assert_allclose(exported, ours, rtol=0, atol=1e-12)


def test_intercepts_are_added_to_an_attribute_of_that_name(tmp_path):
    crf = HighOrderCRF(1).fit(with_bias(X, "bias"), Y)
    tagger = tagger_of(crf, tmp_path / "model", bias="bias")
    again = HighOrderCRF.from_crfsuite(tmp_path / "model")
    assert same_answers(again, tagger, with_bias(X, "bias"))
    np.testing.assert_allclose(
        np.concatenate(again.predict_marginals(with_bias(X, "bias"))),
        np.concatenate(crf.predict_marginals(with_bias(X, "bias"))),
    )


@pytest.mark.filterwarnings("ignore:none of the", "ignore:no token of X")
@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 50))])
def test_drawn_models(tmp_path, part):
    for seed in range(20 * part, 20 * part + 20):
        check_drawn(seed, tmp_path / "model")


@pytest.mark.slow
def test_many_labels(tmp_path):
    rng = random.Random(0)
    labels = [f"label:{n}\\" for n in range(5000)]
    y = [labels[start : start + 100] for start in range(0, 5000, 100)]
    X = [[rng.choices("abcdefg", k=2) for _ in sequence] for sequence in y]
    crf = HighOrderCRF(**PLAIN, max_iter=2).fit(X, y)
    assert same_answers(crf, tagger_of(crf, tmp_path / "model"), [X[0][:3]]) == 1


@pytest.mark.parametrize("draw_token", [draw_token, draw_names])
def test_a_model_of_crfsuite_comes_back(tmp_path, draw_token):
    X, y = draw(1, 12, draw_token=draw_token)
    train(tmp_path / "theirs", X, y, **{"c1": 0.1})
    theirs = HighOrderCRF.from_crfsuite(tmp_path / "theirs")
    tagger = tagger_of(theirs, tmp_path / "ours")
    assert named_weights(HighOrderCRF.from_crfsuite(tmp_path / "ours")) == named_weights(theirs)
    assert (tmp_path / "ours").stat().st_size == pytest.approx((tmp_path / "theirs").stat().st_size, abs=20)
    assert same_answers(theirs, tagger, X)


def test_a_search_of_pipelines(tmp_path):
    """The file has the attributes that the extractor makes, under its names."""
    X, y = [["the", "old", "man"], ["the", "man"]] * 4, [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]] * 4
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(**PLAIN))
    search = GridSearchCV(pipe, {"highordercrf__sigma_reg": [1.0]}, cv=2).fit(X, y)
    crf, extractor = search.best_estimator_[-1], search.best_estimator_[0]
    names = extractor.get_feature_names_out()
    made = [[[names[i] for i in row.nonzero()[0]] for row in batch.toarray()] for batch in extractor.transform(X)]
    tagger = tagger_of(search, tmp_path / "model")
    assert same_answers(HighOrderCRF.from_crfsuite(tmp_path / "model"), tagger, made)
    assert named_weights(HighOrderCRF.from_crfsuite(tmp_path / "model")) == named_weights(crf)
    state, transitions = named_weights(crf)
    assert tagger.info().transitions == pytest.approx(transitions, abs=1e-6)  # their tables of references
    assert tagger.info().state_features == pytest.approx(state, abs=1e-6)


def test_columns_with_names_are_attributes_with_values(tmp_path):
    rng = np.random.default_rng(0)
    X = [[{"w": w, "v": rng.normal(size=2)} for w in "abc"] for _ in range(4)]
    pipe = make_pipeline(SequenceFeatureExtractor([[("w", 0)], [("v", 0)]], bias=False), HighOrderCRF(**PLAIN))
    pipe.fit(X, [["A", "B", "A"]] * 4)
    names = pipe[0].get_feature_names_out()
    rows = [[dict(zip(names, row, strict=True)) for row in batch.toarray()] for batch in pipe[0].transform(X)]
    tagger = tagger_of(pipe, tmp_path / "model")
    assert same_answers(HighOrderCRF.from_crfsuite(tmp_path / "model"), tagger, rows)
    ours = pipe.predict_marginals(X)
    np.testing.assert_allclose(HighOrderCRF.from_crfsuite(tmp_path / "model").predict_marginals(rows), ours)


@pytest.mark.slow
def test_names_are_hashed_at_once():
    names = [f"{n * 7919 % 100_003:x}:" + "word" * (n % 9) + str(n) for n in range(400_000)]
    start = time.process_time()
    _database(_encoded(names, "attribute"))
    assert time.process_time() - start < 5


# ------------------------------------------------------------------------------------------------------------- refusals


def fitted(kind=HighOrderCRF, **params):
    return kind(**{**PLAIN, **params}).fit(X, Y)


def named(names, labels=Y):
    """Return a model of which attributes and labels have certain names."""
    batch = SequenceBatch([0, 2, 5], range(6), [0, 1, 1, 0, 1], None, 2, names)
    return HighOrderCRF(**PLAIN).fit(batch, labels)


def test_orders_without_weights_are_no_reason(tmp_path):
    """Of order 2 under strong L1 nothing is left but attributes."""
    crf = fitted(max_order=2, l1_reg=1e3)
    export_crfsuite(crf, tmp_path / "model")
    assert named_weights(crf) == ({}, {})


def test_taggers_name_what_reads_these_files():
    with pytest.raises(ValueError, match="a CRFsuite model, which HighOrderCRF.from_crfsuite reads"):
        Tagger(b"lCRF" + bytes(99))


def test_sizes_beyond_those_of_the_format(tmp_path, monkeypatch):
    path, crf = tmp_path / "model", fitted(all_pairs=True)
    export_crfsuite(crf, path)
    monkeypatch.setattr("sklearn_hocrf._estimator.crfsuite.MAX_SIZE", 4000)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="but a CRFsuite file has at most 4000: use l1_reg") as error:
        export_crfsuite(crf, path)
    assert len(before) <= int(str(error.value).split()[3]) <= len(before) + 3
    assert [found.read_bytes() for found in tmp_path.iterdir()] == [before]


test_refusals_of_files = refusals_of_files(
    (lambda tmp_path: export_crfsuite(HighOrderCRF(), tmp_path / "m"), (NotFittedError, "not fitted")),
    (lambda tmp_path: export_crfsuite(fitted(HighOrderSemiCRF), tmp_path / "m"),
     "a model of whole segments: use HighOrderCRF"),
    (lambda params, tmp_path: export_crfsuite(fitted(**params), tmp_path / "m"),
     ("a history of segments: use history='tokens' or export_tagger", {"history": "segments"}),
     ("pruning: fit without it", {"pruning": 1}),
     ("label_parts: fit without them, or use export_tagger", {"label_parts": lambda label: [label, "x"]}),
     ("constraints: fit without them, or use export_tagger", {"constraints": Constraints(forbid=[("B", "B")])}),
     ("features of two or more labels: use feature_order=0 or export_tagger", {"feature_order": 1}),
     ("patterns of three or more labels: use max_order=1 or export_tagger", {"max_order": 2}),
     ("the intercepts of labels: fit with fit_intercept=False, or name an attribute", {"fit_intercept": True})),
    (lambda tmp_path: export_crfsuite(
         HighOrderCRF(**PLAIN, constraints="bio").fit(X, [["O", "O"], ["B-X", "I-X", "O"]]), tmp_path / "m"),
     "constraints: fit"),
    (lambda tmp_path: export_crfsuite(fitted(fit_intercept=True), tmp_path / "m", bias=1), "the intercepts of labels"),
    (lambda tmp_path: export_crfsuite(HighOrderCRF(**PLAIN).fit([np.eye(2)], [["A", "B"]]), tmp_path / "m"),
     "attributes without names, as of arrays or hashed: fit on feature dicts or lists of attribute names"),
    (lambda tmp_path: export_crfsuite(
         make_pipeline(SequenceFeatureExtractor(n_features=8), HighOrderCRF(**PLAIN)).fit([["a", "b"]], [["A", "B"]]),
         tmp_path / "m"),
     "attributes without names"),
    (lambda value, tmp_path: export_crfsuite(named(["a", value]), tmp_path / "m"),
     (r"attribute 1, 'b\\x00', has a null character", "b\x00"),
     (r"attribute 1, '\\ud800', has half a surrogate pair", "\ud800"),
     ("two attributes have the same name", "a"),
     (TypeError, "the attributes in a CRFsuite file are str, but number 1 is 1", 1)),
    (lambda value, tmp_path: export_crfsuite(named(["a", "b"], value), tmp_path / "m"),
     (r"label 1, '\\udfff', has half a surrogate pair", [["A", "\udfff"], ["A", "A", "A"]]),
     (TypeError, "the labels in a CRFsuite file are str, but number 0 is 0", [[0, 1], [1, 0, 1]])),
    (lambda tmp_path: export_crfsuite(CalibratedSequenceLabeler(fitted(), cv=2).fit(X * 2, Y * 2), tmp_path / "m"),
     (TypeError,
      "cannot hold a CalibratedSequenceLabeler: export the HighOrderCRF or pipeline inside, or use export_tagger")),
    (lambda tmp_path: export_crfsuite(
         make_pipeline(ConformalSequenceLabeler(FrozenEstimator(fitted()), alpha=0.5).fit(X * 3, Y * 3)),
         tmp_path / "m"),
     (TypeError, "cannot hold a ConformalSequenceLabeler")),
    (lambda tmp_path: export_crfsuite(
         StackedSequenceLabeler(LogisticRegression(), cv=2).fit([np.eye(2)] * 2, [["A", "B"]] * 2), tmp_path / "m"),
     (TypeError, "cannot hold a StackedSequenceLabeler")),
    (lambda tmp_path: export_crfsuite(fitted(), tmp_path), (IsADirectoryError, "cannot be written")),
)  # fmt: skip
