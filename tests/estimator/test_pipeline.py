"""Pipelines with all methods of the estimators, and the likelihood as a score of searches."""

import inspect
import runpy
import subprocess
import sys

import numpy as np
import pytest
from refusals import refusals
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf._estimator.pipeline import SequencePipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.metrics import log_likelihood_scorer
from sklearn_hocrf.model_selection import PenaltySearchCV

X = [["Ann", "Lee", "met", "Bob"], ["met", "Ann"], ["Bob", "met", "Lee"], ["Ann", "met", "Ann", "Lee"]] * 3
Y = [["B-P", "I-P", "O", "B-P"], ["O", "B-P"], ["B-P", "O", "B-P"], ["B-P", "O", "B-P", "I-P"]] * 3
QUESTIONS = {
    "predict": (),
    "predict_proba": (),
    "predict_marginals": (),
    "log_likelihood": (Y,),
    "pattern_marginals": ([("P", "O")],),
    "entropy": (),
    "predict_segments": (),
}


@pytest.fixture(scope="module")
def tagger():
    return make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X, Y)


@pytest.fixture(scope="module")
def segmenter():
    return make_pipeline(
        SequenceFeatureExtractor(), SegmentFeatureExtractor(scheme="bio"), HighOrderSemiCRF(scheme="bio")
    ).fit(X, Y)


def assert_same(one, other):
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# --- the methods ------------------------------------------------------------------------------------------------------


def test_every_question_of_the_last_step_is_answered(segmenter):
    features, crf = segmenter[:-1], segmenter[-1]
    for name, rest in QUESTIONS.items():
        answer = getattr(segmenter, name)(X, *rest)
        assert_same(answer, getattr(crf, name)(features.transform(X), *rest))
    assert_same(segmenter.predict_segments(X=X, threshold=0.3), segmenter.predict_segments(X, threshold=0.3))
    assert segmenter.predict_nbest(X, 3) == crf.predict_nbest(features.transform(X), 3)


def test_methods_are_those_of_the_last_step(tagger):
    assert not hasattr(tagger, "partial_fit")
    assert hasattr(make_pipeline(HighOrderSemiCRF()), "predict_segments")
    assert not hasattr(make_pipeline(SequenceFeatureExtractor()), "predict_segments")
    for pipe in make_pipeline(SequenceFeatureExtractor()), SequencePipeline([]), make_pipeline("passthrough"):
        assert not hasattr(pipe, "log_likelihood")


def test_new_methods_of_the_estimators_come_by_themselves(monkeypatch):
    monkeypatch.setattr(HighOrderCRF, "oddity", lambda self, X, *, of="sequence": (X, of), raising=False)
    monkeypatch.setattr(HighOrderCRF, "describe", lambda self, depth=1: depth, raising=False)  # no question about X
    names = runpy.run_path(inspect.getfile(SequencePipeline), run_name=SequencePipeline.__module__)
    pipe = names["make_pipeline"](HighOrderCRF())
    assert pipe.oddity([1], of="token") == ([1], "token")
    assert not hasattr(pipe, "describe")


@pytest.mark.slow
def test_estimators_do_without_the_pipelines_of_scikit_learn():
    program = "import sys; from sklearn_hocrf import HighOrderCRF; assert 'sklearn.pipeline' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_help_names_methods_and_parameters():
    assert "threshold" in inspect.signature(SequencePipeline.predict_segments).parameters
    assert "HighOrderCRF.predict_segments" in SequencePipeline.predict_segments.__doc__
    assert "HighOrderCRF.log_likelihood" in SequencePipeline.log_likelihood.__doc__
    assert "predict_marginals" in dir(SequencePipeline)


# --- steps ------------------------------------------------------------------------------------------------------------

DICTS = [[{"w": word} for word in sequence] for sequence in X]


@pytest.mark.parametrize("before", [[], ["passthrough"], ["passthrough", None], [SequenceFeatureExtractor(), None]])
def test_steps_that_do_nothing(before):
    data = X if len(before) and isinstance(before[0], SequenceFeatureExtractor) else DICTS
    steps = [(f"s{number}", step) for number, step in enumerate(before)]
    pipe = SequencePipeline([*steps, ("crf", HighOrderCRF())]).fit(data, Y)
    given = clone(before[0]).fit_transform(data) if data is X else data
    assert_same(pipe.predict_marginals(data), HighOrderCRF().fit(given, Y).predict_marginals(given))


def test_a_search_as_last_step():
    grid = GridSearchCV(HighOrderCRF(), {"sigma_reg": [0.5, 1]}, cv=2)
    for search in grid, PenaltySearchCV(HighOrderCRF(), cv=2, max_steps=1):
        pipe = make_pipeline(SequenceFeatureExtractor(), search)
        assert hasattr(pipe, "predict_marginals")
        pipe.fit(X, Y)
        best, batch = pipe[-1].best_estimator_, pipe[:-1].transform(X)
        assert_same(pipe.predict_marginals(X), best.predict_marginals(batch))
        assert_same(pipe.pattern_marginals(X, [("O",)]), best.pattern_marginals(batch, [("O",)]))
    pipe = make_pipeline(SequenceFeatureExtractor(), clone(grid).set_params(refit=False)).fit(X, Y)
    assert not hasattr(pipe, "predict_marginals")


def test_a_pipeline_as_last_step(tagger):
    inner = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF())
    nested = make_pipeline("passthrough", GridSearchCV(inner, {"highordercrf__max_order": [2]}, cv=2)).fit(X, Y)
    assert_same(nested.predict_marginals(X), tagger.predict_marginals(X))
    around = PenaltySearchCV(inner, cv=2, max_steps=1).fit(X, Y)
    assert type(around.best_estimator_) is SequencePipeline
    assert_same(around.predict_marginals(X), around.best_estimator_.predict_marginals(X))
    plain = sklearn_make_pipeline(SequenceFeatureExtractor(), HighOrderCRF())
    assert_same(make_pipeline(plain).fit(X, Y).predict_marginals(X), tagger.predict_marginals(X))


# --- among scikit-learn's tools ---------------------------------------------------------------------------------------


class Scaled(TransformerMixin, BaseEstimator):
    """Asks for metadata in ``fit``."""

    def fit(self, X, y=None, sample_weight=None):
        assert sample_weight is not None
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


def test_metadata_routing():
    weight = np.arange(len(X)) % 3 + 1.0
    without = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X, Y, highordercrf__sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        crf = HighOrderCRF().set_fit_request(sample_weight=True)
        pipe = make_pipeline(Scaled().set_fit_request(sample_weight=True), SequenceFeatureExtractor(), crf)
        pipe.fit(X, Y, sample_weight=weight)
        assert_same(pipe.predict_marginals(X), without.predict_marginals(X))
        assert_same(pipe.pattern_marginals(X, [("O",)]), without.pattern_marginals(X, [("O",)]))


# --- the likelihood as a score ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [None, "runs", "bio"])
def test_impossible_labellings(scheme):
    labels = [["P" if tag != "O" else "O" for tag in tags] for tags in Y] if scheme == "runs" else Y
    crf = HighOrderCRF() if scheme is None else HighOrderSemiCRF(scheme=scheme)
    crf.fit(DICTS, labels)
    unknown = "B-X" if scheme != "runs" else "X"
    new = [labels[0], [], [labels[2][0], unknown, labels[2][2]], [unknown] * 4]
    data = [DICTS[0], [], DICTS[2], DICTS[3]]
    with pytest.raises(ValueError, match="unknown label"):
        crf.log_likelihood(data, new)
    found = crf.log_likelihood(data, new, unknown="impossible")
    assert found.tolist() == [*crf.log_likelihood(data[:2], new[:2]).tolist(), -np.inf, -np.inf]
    with pytest.warns(UserWarning, match="2 of 4 sequences have probability 0.*-inf"):
        assert log_likelihood_scorer(crf, data, new) == -np.inf
    counted = log_likelihood_scorer(crf, data, new, sample_weight=[1, 1, 0, 0])  # and no warning
    assert counted == pytest.approx(found[0] / 4)


def test_forbidden_sequences():
    crf = HighOrderSemiCRF(scheme="bio").fit(DICTS, Y)
    with pytest.warns(UserWarning, match="1 of 2 sequences"):
        assert log_likelihood_scorer(crf, DICTS[:2], [["B-P", "I-P", "I-P", "I-P"], Y[1]]) == -np.inf


def test_refused_uses(tagger):
    with pytest.raises(AttributeError, match="log_likelihood"):
        log_likelihood_scorer(SequenceFeatureExtractor().fit(X), X, Y)
    for data, labels, weight in ([[], X[0]], [[], Y[0]], [1, 0]), ([], [], None):
        with pytest.raises(ValueError, match="no tokens of positive weight"):
            log_likelihood_scorer(tagger, data, labels, sample_weight=weight)
    with pytest.raises(ValueError, match="unknown must be"):
        tagger.log_likelihood(X, Y, unknown="ignore")


test_refusals = refusals(
    (lambda value: make_pipeline(*value, HighOrderCRF()).predict_marginals(DICTS),
     (NotFittedError, ".", [], ["passthrough"], [SequenceFeatureExtractor()])),
    (lambda: make_pipeline(GridSearchCV(HighOrderCRF().fit(SequenceFeatureExtractor().fit_transform(X), Y),
         {"max_order": [1]}, cv=2)).predict_marginals(SequenceFeatureExtractor().fit_transform(X)),
     (NotFittedError, ".")),
)  # fmt: skip
