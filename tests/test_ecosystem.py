"""scikit-learn's tools for tables, given sequences: they work, or one sentence names what to use instead."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LearningCurveDisplay,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    ValidationCurveDisplay,
    cross_val_score,
    train_test_split,
)
from sklearn.utils import resample

from sklearn_hocrf import HighOrderCRF, make_pipeline, metrics
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV, cross_val_predict

X = [["the", "old", "man"], ["the", "man"], ["a", "big", "old", "man"]] * 4
Y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], ["DET", "ADJ", "ADJ", "NOUN"]] * 4
CLASSES = [len(labels) > 2 for labels in Y]
TOKEN_ACCURACY = make_scorer(metrics.token_accuracy_score)
SCORERS = [name for name in metrics.__all__ if name.endswith("_scorer")]


@pytest.fixture
def pipe():
    return make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(tol=1e-2))


# --- batches are no tables --------------------------------------------------------------------------------------------


def test_chained_extractors_are_a_union():
    one, two = SequenceFeatureExtractor([("w", 0)]), SequenceFeatureExtractor([("w", -1)])
    chained = make_pipeline(one, two).fit_transform(X)
    np.testing.assert_array_equal(
        chained.toarray(), np.hstack([one.fit_transform(X).toarray(), two.fit_transform(X).toarray()])
    )


# --- scorers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_have_names(name):
    scorer = getattr(metrics, name)
    assert scorer.__name__ == name


def test_curves_take_scorers(pipe):
    pytest.importorskip("matplotlib", reason="matplotlib is absent").use("Agg")
    options = {"cv": 2, "scoring": metrics.segment_f1_scorer}
    curve = LearningCurveDisplay.from_estimator(pipe, X, Y, train_sizes=[0.5, 1.0], **options)
    assert curve.ax_.get_ylabel() == "Segment f1 scorer"
    options["scoring"] = metrics.log_likelihood_scorer
    orders = {"param_name": "highordercrf__max_order", "param_range": [0, 1]}
    assert (
        ValidationCurveDisplay.from_estimator(pipe, X, Y, **orders, **options).ax_.get_ylabel()
        == "Log likelihood scorer"
    )


# --- splits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("splitter", [StratifiedKFold(2), RepeatedStratifiedKFold(n_splits=2)])
@pytest.mark.parametrize(
    "fit",
    [
        lambda pipe, cv: PenaltySearchCV(pipe, cv=cv).fit(X, Y),
        lambda pipe, cv: CalibratedSequenceLabeler(pipe, cv=cv).fit(X, Y),
        lambda pipe, cv: cross_val_predict(pipe, X, Y, cv=cv),
        lambda pipe, cv: cross_val_predict(pipe, X[:1] * 4, Y[:1] * 4, cv=cv),  # labels that make an array
    ],
)
def test_stratified_splits(pipe, splitter, fit):
    name = type(splitter).__name__
    with pytest.raises(ValueError, match=rf"{name} needs one class for each sequence.* cv=list\({name}\(..\).split"):
        fit(pipe, splitter)


def test_stratified_splits_of_tokens():
    """The y of a table is one of classes; what is wrong with it is scikit-learn's to say."""
    table, classes = np.eye(8), np.arange(8) % 2
    assert len(cross_val_predict(HighOrderCRF(), table, classes, cv=StratifiedKFold(2))) == 8
    with pytest.raises(ValueError, match="cannot be greater than"):
        cross_val_predict(HighOrderCRF(), table, classes, cv=StratifiedKFold(5))


@pytest.mark.parametrize(
    "fit",
    [
        lambda pipe, X, y: PenaltySearchCV(pipe).fit(X, y),
        lambda pipe, X, y: CalibratedSequenceLabeler(pipe).fit(X, y),
        lambda pipe, X, y: cross_val_predict(pipe, X, y),
    ],
)
def test_what_cannot_be_indexed(pipe, fit):
    with pytest.raises(TypeError, match="X is a generator, which cannot be split into folds: pass a list of it"):
        fit(pipe, (sequence for sequence in X), Y)
    bag = pytest.importorskip("dask.bag", reason="Dask is absent")
    with pytest.raises(TypeError, match="y is a Bag, which cannot be split into folds"):
        fit(pipe, X, bag.from_sequence(Y))


def test_no_splits(pipe):
    for search in PenaltySearchCV(pipe, cv=[]), CalibratedSequenceLabeler(pipe, cv=[]):
        with pytest.raises(ValueError, match="cv has no splits"):
            search.fit(X, Y)
    with pytest.raises(ValueError, match="cv has no splits"):
        cross_val_predict(pipe, X, Y, cv=[])


def test_what_the_table_names(pipe):
    """The lines of the table in ``model_selection`` that name no tool of this package."""
    folds = list(StratifiedKFold(2).split(X, CLASSES))
    assert len(cross_val_score(pipe, X, Y, cv=folds, scoring=TOKEN_ACCURACY)) == 2
    assert len(cross_val_predict(pipe, X, Y, cv=folds)) == len(X)
    assert np.mean(train_test_split(X, Y, CLASSES, stratify=CLASSES, test_size=6, random_state=0)[-1]) == 4 / 6
    assert len(cross_val_score(pipe, X, Y, cv=KFold(2, shuffle=True, random_state=0))) == 2
    models = [clone(pipe).fit(*resample(X, Y, random_state=seed, stratify=CLASSES)) for seed in range(2)]
    assert np.mean([model.predict_marginals(X)[1] for model in models], axis=0).shape == (2, 3)


# --- scores of single labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", ["f1_macro", "accuracy", "balanced_accuracy"])
def test_scores_of_single_labels_cannot_score_sequences(pipe, scoring):
    for y in (Y, [np.array(labels) for labels in Y]):
        with pytest.warns(UserWarning, match="Scoring failed"):
            assert np.isnan(cross_val_score(pipe, X, y, cv=2, scoring=scoring)).all()


def test_accuracy_of_indicators_is_that_of_sequences():
    """Arrays of 0 and 1 in sequences of one length look like indicators of labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=(20, 3))
    grid = y[:, :, None] + rng.normal(size=(20, 3, 1))
    found = cross_val_score(HighOrderCRF(), grid, y, cv=2, scoring="accuracy")
    whole = cross_val_score(HighOrderCRF(), grid, y, cv=2, scoring=metrics.sequence_accuracy_scorer)
    np.testing.assert_array_equal(found, whole)
    assert (found < cross_val_score(HighOrderCRF(), grid, y, cv=2, scoring=metrics.token_accuracy_scorer)).all()


def test_scores_of_single_labels_take_tables(pipe):
    table, labels = np.repeat(np.eye(2), 6, axis=0), np.repeat(["a", "b"], 6)
    folds = KFold(2, shuffle=True, random_state=0)
    assert cross_val_score(HighOrderCRF(), table, labels, cv=folds, scoring="f1_macro").min() == 1
    arrays = [np.array(y) for y in Y]
    search = GridSearchCV(pipe, {"highordercrf__max_order": [0, 1]}, cv=2, scoring=TOKEN_ACCURACY)
    assert search.fit(X, arrays).best_score_ > 0.5
