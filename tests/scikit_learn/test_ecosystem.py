"""scikit-learn's tools for tables, given sequences: they work, or an error message names the tool to use instead."""

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.inspection import permutation_importance
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
from sklearn.pipeline import make_union
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample
from sklearn.utils.fixes import parse_version

from sklearn_hocrf import HighOrderCRF, make_pipeline, metrics
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV, cross_val_predict

X = [["the", "old", "man"], ["the", "man"], ["a", "big", "old", "man"]] * 4
Y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], ["DET", "ADJ", "ADJ", "NOUN"]] * 4
DICTS = [[{"w": word} for word in words] for words in X]
CLASSES = [len(labels) > 2 for labels in Y]
TOKEN_ACCURACY = make_scorer(metrics.token_accuracy_score)
SCORERS = [name for name in metrics.__all__ if name.endswith("_scorer")]


@pytest.fixture
def pipe():
    return make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(tol=1e-2))


# --- scorers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_have_names(name):
    scorer = getattr(metrics, name)
    assert scorer.__name__ == name


@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore::sklearn.exceptions.ConvergenceWarning")
@given(st.data())
def test_accuracy_of_scikit_learn_is_not_that_of_tokens(data):
    """What the pages and ``score`` say of ``scoring="accuracy"``; ``score`` itself is right in all cases."""
    names = data.draw(st.sampled_from([[0, 1], [3, 7], [False, True], ["a", "b"], [0, 1, 2]]))
    as_arrays, alike = data.draw(st.booleans()), data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    lengths = [4] * 12 if alike else [3, 4, 5] * 4
    y = [[names[i] for i in (*range(len(names)), *rng.integers(0, len(names), n))][:n] for n in lengths]
    given_y = [np.array(labels) for labels in y] if as_arrays else y
    X = [[{"x": rng.normal() + names.index(label)} for label in labels] for labels in y]
    crf = HighOrderCRF(max_iter=4).fit(X, given_y)
    assert crf.score(X, given_y) == metrics.token_accuracy_score(y, crf.predict(X))
    scores = cross_val_score(HighOrderCRF(max_iter=4), X, given_y, cv=2, scoring="accuracy")
    if alike and len(names) == 2 and names != ["a", "b"]:
        whole = make_scorer(metrics.sequence_accuracy_score)
        np.testing.assert_array_equal(
            scores, cross_val_score(HighOrderCRF(max_iter=4), X, given_y, cv=2, scoring=whole)
        )
    else:
        assert np.isnan(scores).all()


def test_weights_of_sequences_in_a_search(pipe):
    """The page on penalties: without routing by the step's name, with it if the model requests them."""
    weights, options = np.arange(len(X)) % 3 + 1.0, {"cv": 2, "error_score": "raise"}
    expected = clone(pipe).set_params(highordercrf__sigma_reg=0.3).fit(X, Y, highordercrf__sample_weight=weights)
    search = GridSearchCV(clone(pipe), {"highordercrf__sigma_reg": [0.3]}, **options)
    search.fit(X, Y, highordercrf__sample_weight=weights)
    found = [search.best_estimator_]
    with config_context(enable_metadata_routing=True):
        crf = clone(pipe[-1]).set_fit_request(sample_weight=True)
        with pytest.raises(UnsetMetadataPassedError, match="HighOrderCRF.score"):
            GridSearchCV(clone(crf), {"sigma_reg": [0.3]}, **options).fit(DICTS, Y, sample_weight=weights)
        crf.set_score_request(sample_weight=True)
        alone = GridSearchCV(clone(crf), {"sigma_reg": [0.3, 1.0]}, **options).fit(DICTS, Y, sample_weight=weights)
        assert len(alone.cv_results_["mean_test_score"]) == 2
        if parse_version(sklearn.__version__) < parse_version("1.7"):  # asks pipelines, not their last steps, for score
            options["scoring"] = metrics.token_accuracy_scorer
        search = GridSearchCV(make_pipeline(pipe[0], crf), {"highordercrf__sigma_reg": [0.3]}, **options)
        found.append(search.fit(X, Y, sample_weight=weights).best_estimator_)
    for model in found:
        np.testing.assert_allclose(model[-1].coef_.toarray(), expected[-1].coef_.toarray(), rtol=1e-9)


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


def test_scores_of_single_labels_take_tables(pipe):
    table, labels = np.repeat(np.eye(2), 6, axis=0), np.repeat(["a", "b"], 6)
    folds = KFold(2, shuffle=True, random_state=0)
    assert cross_val_score(HighOrderCRF(), table, labels, cv=folds, scoring="f1_macro").min() == 1
    arrays = [np.array(y) for y in Y]
    search = GridSearchCV(pipe, {"highordercrf__max_order": [0, 1]}, cv=2, scoring=TOKEN_ACCURACY)
    assert search.fit(X, arrays).best_score_ > 0.5


test_refusals = refusals(
    (lambda use: use(SequenceFeatureExtractor().fit_transform(X)),
     (TypeError, r"chain transformers instead of using FeatureUnion.* TokenTransformer.* toarray\(\)",
      np.asarray,
      lambda batch: np.hstack([batch, batch]),
      lambda _: make_union(SequenceFeatureExtractor(), SequenceFeatureExtractor([("w", -1)])).fit_transform(X),
      StandardScaler(with_mean=False).fit,
      lambda batch: BaggingClassifier(HighOrderCRF(), 2).fit(batch, Y),
      lambda batch: permutation_importance(HighOrderCRF().fit(batch, Y), batch, Y))),
)  # fmt: skip
