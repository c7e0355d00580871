"""User code with the types that a type checker must infer: ``test_typing`` checks it, but nothing runs it."""

from typing import Any, assert_type

import numpy as np

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, SequenceBatch, make_pipeline
from sklearn_hocrf._estimator.pipeline import SequencePipeline
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.metrics import segment_f1_score, segment_precision_recall_fscore_support
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV


def script() -> None:
    # files
    X, y = load_conll("train.txt", ["word", "tag"], encoding="latin-1")
    assert_type(X, list[list[dict[str, str]]])
    assert_type(y, list[list[str]])
    load_conll("train.txt", ["word", "tag"])[0].clear()
    load_conll("train.txt", separater=";")  # type: ignore[call-arg]

    # estimators
    crf = HighOrderCRF(max_order=2).fit(X, y)
    assert_type(crf, HighOrderCRF)
    assert_type(crf.partial_fit(X, y).set_callbacks(), HighOrderCRF)
    assert_type(crf.predict(X), list[Any])
    assert_type(crf.predict_marginals(X), list[np.ndarray])
    assert_type(crf.predict_marginals(np.zeros((2, 3, 4))), Any)
    assert_type(crf.predict_segments(X), list[list[tuple[int, int, Any]]])
    assert_type(crf.predict_segments(X, with_probability=True), list[np.ndarray])
    assert_type(crf.predict_nbest(X, 2)[0][0].log_probability, float)
    assert_type(crf.log_likelihood(X, y), np.ndarray)
    assert_type(crf.entropy(X), np.ndarray)
    assert_type(crf.entropy(X, level="token"), list[np.ndarray])
    assert_type(crf.score(X, y), float)
    semicrf = HighOrderSemiCRF(scheme="bio").fit(X, y)
    assert_type(semicrf, HighOrderSemiCRF)
    assert_type(semicrf.predict(X), list[Any])
    assert_type(semicrf.predict_segments(X), list[list[tuple[int, int, Any]]])
    crf.predict_marginal(X)  # type: ignore[attr-defined,unused-ignore]  # mypy sees a base class without types

    # pipelines, searches, calibration
    batch = SequenceFeatureExtractor().fit_transform(X)
    assert_type(batch, SequenceBatch)
    assert_type(crf.predict(batch), list[Any])
    pipe = make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(), HighOrderSemiCRF(scheme="bio"))
    assert_type(pipe.fit(X, y), SequencePipeline)
    assert_type(pipe.fit(X, y).predict(X), list[Any])
    assert_type(pipe.predict_marginals(X), list[np.ndarray])
    assert_type(pipe.predict_segments(X, with_probability=True), list[np.ndarray])
    assert_type(pipe.score(X, y), float)
    search = PenaltySearchCV(pipe).fit(X, y)
    assert_type(search, PenaltySearchCV)
    assert_type(search.predict(X), list[Any])
    assert_type(CalibratedSequenceLabeler(pipe).fit(X, y).predict(X), list[Any])

    # scores
    score: float = segment_f1_score(y, crf.predict(X), scheme="bio")
    score = segment_f1_score(y, crf.predict(X), average="macro")
    score = segment_f1_score(y, y, average=None)  # type: ignore[assignment]
    score.is_integer()
    assert_type(segment_f1_score(y, y, average=None), np.ndarray)
    assert_type(segment_precision_recall_fscore_support(y, y)[2], np.ndarray)
    assert_type(segment_precision_recall_fscore_support(y, y, average="micro")[2], float)
