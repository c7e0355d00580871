"""Scores of label sequences and of segments, and a significance test for the difference between two systems.

Labels come as lists of sequences (lists or arrays), as ``predict`` returns them. Segments are read from runs of equal
labels or from BIO and BIOES tags, or are given as (start, stop, label). Scores of tokens and segments follow
scikit-learn's conventions for averages and for divisions by zero. Scores of BIO and BIOES segments equal the scores of
seqeval. Tags that break the rules are read as in conlleval and in the estimators, unless ``strict=True``.

The probabilities of segments, as ``segment_marginals`` returns them, have :func:`calibration_table`,
:func:`expected_calibration_error` and :func:`segment_brier_score`; :func:`segment_outcomes` returns what scikit-learn's
tools for probabilities take.

:func:`segment_confusion` counts which segments are taken for which, and :func:`error_table` lists all errors with their
texts.

The scorers go into :class:`~sklearn.model_selection.GridSearchCV` and the like:

* ``token_accuracy_scorer``, ``token_f1_scorer`` (macro average), ``sequence_accuracy_scorer``;
* ``segment_f1_scorer``: exact runs of equal labels, including runs of "O", micro average;
* ``bio_f1_scorer``, ``bioes_f1_scorer``: exact segments of BIO and BIOES tags, micro average;
* ``span_f1_scorer``: exact segments of lists of (start, stop, label), micro average;
* ``log_likelihood_scorer``: mean log-likelihood per token. :class:`LogLikelihoodScorer` has its parameter.

Choose by the form of y. The scorers of runs give no meaning to the text of a label: runs of "B-PER", of "I-PER" and of
"O" would be segments of three labels. In lists of segments "O" is an ordinary label. For other parameters use
``make_scorer``, as in ``make_scorer(segment_f1_score, scheme="segments", ignore=["O"])``; it also takes a function of
your own that returns the precision or the recall of :func:`segment_precision_recall_f1`.

Examples
--------
>>> from sklearn.model_selection import cross_val_score
>>> from sklearn_hocrf import HighOrderCRF, metrics
>>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]] * 3
>>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]] * 3
>>> cross_val_score(HighOrderCRF(), X, y, cv=3, scoring=metrics.segment_f1_scorer)
array([1., 1., 1.])

Scores of predictions:

>>> truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
>>> guess = [["B-PER", "I-PER", "O", "O"], ["O", "B-LOC"]]
>>> round(metrics.segment_f1_score(truth, guess, scheme="bio"), 2), metrics.token_accuracy_score(truth, guess)
(0.8, 0.8333333333333334)
"""

from collections.abc import Callable
from typing import Any

from sklearn.metrics import make_scorer

from ._calibration import (
    SegmentOutcomes,
    calibration_table,
    expected_calibration_error,
    segment_brier_score,
    segment_outcomes,
)
from ._errors import SegmentConfusion, SegmentError, error_table, segment_confusion
from ._likelihood import LogLikelihoodScorer
from ._randomization import RandomizationTest, randomization_test
from ._reports import segment_classification_report, token_classification_report
from ._segment_scores import segment_f1_score, segment_precision_recall_f1
from ._segments import extract_segments
from ._token_scores import (
    PrecisionRecallF1,
    sequence_accuracy_score,
    token_accuracy_score,
    token_f1_score,
    token_precision_recall_f1,
)

__all__ = [
    "LogLikelihoodScorer",
    "PrecisionRecallF1",
    "RandomizationTest",
    "SegmentConfusion",
    "SegmentError",
    "SegmentOutcomes",
    "bio_f1_scorer",
    "bioes_f1_scorer",
    "calibration_table",
    "error_table",
    "expected_calibration_error",
    "extract_segments",
    "log_likelihood_scorer",
    "randomization_test",
    "segment_brier_score",
    "segment_classification_report",
    "segment_confusion",
    "segment_f1_score",
    "segment_f1_scorer",
    "segment_outcomes",
    "segment_precision_recall_f1",
    "span_f1_scorer",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "token_accuracy_score",
    "token_accuracy_scorer",
    "token_classification_report",
    "token_f1_score",
    "token_f1_scorer",
    "token_precision_recall_f1",
]


def _scorer(name: str, score: Callable, **options: Any) -> Any:
    """Return a scorer that has the name which scikit-learn's displays ask for, and a docstring."""
    scorer = make_scorer(score, **options)
    scorer.__name__ = name
    parameters = "".join(f", {key}={value!r}" for key, value in options.items())
    scorer.__doc__ = f"Scorer of ``{score.__name__}(y, estimator.predict(X){parameters})``."
    return scorer


token_accuracy_scorer = _scorer("token_accuracy", token_accuracy_score)
token_f1_scorer = _scorer("token_f1", token_f1_score)
sequence_accuracy_scorer = _scorer("sequence_accuracy", sequence_accuracy_score)
segment_f1_scorer = _scorer("segment_f1", segment_f1_score)
bio_f1_scorer = _scorer("bio_f1", segment_f1_score, scheme="bio")
bioes_f1_scorer = _scorer("bioes_f1", segment_f1_score, scheme="bioes")
span_f1_scorer = _scorer("span_f1", segment_f1_score, scheme="segments")
log_likelihood_scorer = LogLikelihoodScorer()
