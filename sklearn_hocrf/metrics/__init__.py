"""Scores of label sequences and of segments, and a significance test for the difference between two systems.

Labels are lists of sequences (lists or arrays), as returned by ``predict``. Segments are read from runs of equal labels
or from BIO and BIOES tags, or are given as (start, stop, label) tuples. Scores follow scikit-learn's conventions for
averages and for divisions by zero; those of BIO and BIOES segments equal the scores of seqeval. Invalid tags are read
as in conlleval and in the estimators, unless ``strict=True``.

=================  =====================================================================================================
segments           :func:`segment_f1_score`, :func:`segment_precision_recall_f1`, :func:`segment_classification_report`,
                   :func:`extract_segments`
tokens, sequences  :func:`token_accuracy_score`, :func:`token_f1_score`, :func:`token_precision_recall_f1`,
                   :func:`token_classification_report`, :func:`sequence_accuracy_score`
errors             :func:`error_table`, :func:`segment_confusion`
probabilities      :func:`calibration_table`, :func:`expected_calibration_error`, :func:`segment_brier_score`,
                   :func:`segment_outcomes`
significance       :func:`randomization_test`
scorers            ``bio_f1_scorer``, ``bioes_f1_scorer``, ``span_f1_scorer`` (lists of segments), ``segment_f1_scorer``
                   (runs of equal labels, also of "O"), ``token_accuracy_scorer``, ``token_f1_scorer``,
                   ``sequence_accuracy_scorer``, ``log_likelihood_scorer``, :class:`LogLikelihoodScorer`
=================  =====================================================================================================

Choose the scorer that matches the form of y: scorers of runs do not interpret the text of a label. For other parameters
use ``make_scorer``, as in ``make_scorer(segment_f1_score, scheme="segments", ignore=["O"])``.

>>> from sklearn_hocrf import metrics
>>> truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
>>> guess = [["B-PER", "I-PER", "O", "O"], ["O", "B-LOC"]]
>>> (
...     round(metrics.segment_f1_score(truth, guess, scheme="bio"), 2),
...     metrics.token_accuracy_score(truth, guess),
... )
(0.8, 0.8333333333333334)

User guide: docs/guide/answers.md, docs/guide/penalties.md.
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
    """Return a scorer with the name that scikit-learn's displays need, and a docstring."""
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
