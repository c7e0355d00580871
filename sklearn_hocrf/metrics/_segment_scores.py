"""Scores of exact segments: a segment is right if its start, stop and label are right."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from ._counts import count_segments
from ._reading import LabelSequences
from ._token_scores import PrecisionRecallF1, ScoreOptions, all_scores, f1_score

__all__ = ["segment_f1_score", "segment_precision_recall_f1"]


class SegmentScoreOptions(ScoreOptions, total=False):
    """Options of segment scores, for type checkers."""

    scheme: str
    strict: bool


@overload
def segment_precision_recall_f1(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: None = None, **options: Unpack[SegmentScoreOptions]
) -> PrecisionRecallF1[np.ndarray]: ...
@overload
def segment_precision_recall_f1(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: str, **options: Unpack[SegmentScoreOptions]
) -> PrecisionRecallF1[float]: ...
def segment_precision_recall_f1(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "runs",
    strict: bool = False,
    labels: Iterable[Hashable] | None = None,
    ignore: Iterable[Hashable] = (),
    average: str | None = None,
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> PrecisionRecallF1:
    """Return precision, recall, F1 and support of exact segments.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels (lists or arrays of shape (n_tokens,)), or, with ``scheme="segments"``, lists of
        (start, stop, label). Sequences may be empty.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        How labels encode segments, see :func:`extract_segments`. The default does not interpret the text of labels: for
        tags such as "B-PER" choose "bio" or "bioes".
    strict : bool, default=False
        Treatment of invalid tags, see :func:`extract_segments`.
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None: all labels in ``y_true`` or
        ``y_pred``, sorted.
    ignore : list of labels, default=()
        Labels of segments not to score, such as ``["O"]`` for runs of "O".
    average : {"micro", "macro", "weighted"} or None, default=None
        None: one value for each label. "micro": the ratio of counts summed over labels. "macro": the mean over labels.
        "weighted": the mean over labels, weighted by their support.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" is 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages ignore
        nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    scores : PrecisionRecallF1
        Named tuple of ``precision``, ``recall``, ``f1``, ``support`` (arrays of shape (n_labels,), or numbers if
        averaged) and ``labels``.

    Raises
    ------
    ValueError
        If lengths differ, if a tag or a segment is invalid, or if a parameter has an invalid value.
    TypeError
        If y is not a list of label sequences or segment lists, or if labels cannot be sorted together.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_precision_recall_f1
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "B-LOC", "I-LOC"]]
    >>> scores = segment_precision_recall_f1(y_true, y_pred, scheme="bio")
    >>> scores.labels, scores.f1, scores.support
    (['LOC', 'PER'], array([0., 1.]), array([1, 1]))
    >>> y_true, y_pred = [[(0, 2, "PER"), (3, 4, "LOC")]], [[(0, 2, "PER"), (2, 4, "LOC")]]
    >>> segment_precision_recall_f1(y_true, y_pred, scheme="segments", average="micro").f1
    0.5
    """
    counts = count_segments(y_true, y_pred, scheme=scheme, strict=strict, labels=labels, ignore=ignore)
    return all_scores(counts, average, zero_division, sample_weight, "segments")


@overload
def segment_f1_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: str = "micro", **options: Unpack[SegmentScoreOptions]
) -> float: ...
@overload
def segment_f1_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: None, **options: Unpack[SegmentScoreOptions]
) -> np.ndarray: ...
def segment_f1_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "runs",
    strict: bool = False,
    labels: Iterable[Hashable] | None = None,
    ignore: Iterable[Hashable] = (),
    average: str | None = "micro",
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> float | np.ndarray:
    """Return the F1 of exact segments: 2 correct / (predicted + true).

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels (lists or arrays of shape (n_tokens,)), or, with ``scheme="segments"``, lists of
        (start, stop, label). Sequences may be empty.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        How labels encode segments, see :func:`extract_segments`. The default does not interpret the text of labels: for
        tags such as "B-PER" choose "bio" or "bioes".
    strict : bool, default=False
        Treatment of invalid tags, see :func:`extract_segments`.
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None: all labels in ``y_true`` or
        ``y_pred``, sorted.
    ignore : list of labels, default=()
        Labels of segments not to score, such as ``["O"]`` for runs of "O".
    average : {"micro", "macro", "weighted"} or None, default="micro"
        As for :func:`segment_precision_recall_f1`.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" is 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages ignore
        nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    f1 : float, or ndarray of shape (n_labels,) with ``average=None``

    Raises
    ------
    ValueError, TypeError
        As for :func:`segment_precision_recall_f1`.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_f1_score
    >>> y_true, y_pred = [["author", "author", "date"]], [["author", "date", "date"]]
    >>> segment_f1_score(y_true, y_pred)
    0.0
    >>> y_true, y_pred = [["B-PER", "I-PER", "B-LOC"]], [["B-PER", "I-PER", "O"]]
    >>> segment_f1_score(y_true, y_pred, scheme="bio")
    0.6666666666666666
    """
    counts = count_segments(y_true, y_pred, scheme=scheme, strict=strict, labels=labels, ignore=ignore)
    return f1_score(counts, average, zero_division, sample_weight, "segments")
