"""Scores of label sequences and of segments, and a significance test for the difference between two systems.

Labels are lists of sequences (lists or arrays), as returned by ``predict``. Segments are read from BIO, BIOES and
similar tags or from runs of equal labels, or are given as tuples, dicts or structured arrays. Scores follow
scikit-learn's conventions for averages and for divisions by zero; those of BIO and BIOES segments equal the scores of
seqeval. Invalid tags are read as in conlleval and in the estimators, unless ``strict=True``.

=================  =====================================================================================================
segments           :func:`segment_f1_score`, :func:`segment_precision_recall_fscore_support`,
                   :func:`segment_classification_report`, :func:`segment_confusion_matrix`
tokens, sequences  :func:`token_accuracy_score`, :func:`sequence_accuracy_score`
probabilities      :func:`segment_outcomes`
significance       :func:`randomization_test`
scorers            :func:`segment_f1_scorer`, :func:`token_f1_scorer`, :func:`token_accuracy_scorer`,
                   :func:`sequence_accuracy_scorer`, :func:`log_likelihood_scorer`
=================  =====================================================================================================

With the default ``scheme="auto"``, the tags encode segments if all labels are tags of one scheme; otherwise, segments
are runs of equal labels. ``segment_f1_scorer`` uses the scheme of the model.

>>> from sklearn_hocrf import metrics
>>> truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
>>> guess = [["B-PER", "I-PER", "O", "O"], ["O", "B-LOC"]]
>>> metrics.segment_f1_score(truth, guess), metrics.token_accuracy_score(truth, guess)
(0.8, 0.8333333333333334)

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/answers.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/penalties.html;
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/recipes.html for scikit-learn's calibration curves and for
other scorers.
"""

from ._randomization import randomization_test
from ._scores import (
    log_likelihood_scorer,
    segment_classification_report,
    segment_confusion_matrix,
    segment_f1_score,
    segment_f1_scorer,
    segment_outcomes,
    segment_precision_recall_fscore_support,
    sequence_accuracy_score,
    sequence_accuracy_scorer,
    token_accuracy_score,
    token_accuracy_scorer,
    token_f1_scorer,
)

__all__ = [
    "log_likelihood_scorer",
    "randomization_test",
    "segment_classification_report",
    "segment_confusion_matrix",
    "segment_f1_score",
    "segment_f1_scorer",
    "segment_outcomes",
    "segment_precision_recall_fscore_support",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "token_accuracy_score",
    "token_accuracy_scorer",
    "token_f1_scorer",
]
