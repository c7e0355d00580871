"""Scores of tokens and of whole sequences."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypedDict, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from ._counts import (
    Counts,
    check_average,
    check_zero_division,
    count_sequences_as_items,
    count_tokens,
    count_tokens_as_items,
    ratio,
    warn_undefined,
)
from ._reading import LabelSequences

__all__ = [
    "PrecisionRecallF1",
    "all_scores",
    "f1_score",
    "sequence_accuracy_score",
    "token_accuracy_score",
    "token_f1_score",
    "token_precision_recall_f1",
]


Value = TypeVar("Value", float, np.ndarray)


class ScoreOptions(TypedDict, total=False):
    """Options of all scores, for type checkers, except ``average``, which determines the type of the result."""

    labels: Iterable[Hashable] | None
    ignore: Iterable[Hashable]
    zero_division: str | float
    sample_weight: ArrayLike | None


class PrecisionRecallF1(NamedTuple, Generic[Value]):
    """Precision, recall and F1, of each label or averaged.   L labels.

    Returned by :func:`token_precision_recall_f1` and :func:`segment_precision_recall_f1`. See the examples there.
    """

    precision: Value  # correct / predicted; (L,) float64 with ``average=None``
    recall: Value  # correct / true
    f1: Value  # 2 correct / (predicted + true)
    support: Value  # number of true items, weighted if there are weights
    labels: list  # (L,)   the scored labels


def f1_score(
    counts: Counts, average: str | None, zero_division: str | float, sample_weight: ArrayLike | None, items: str
) -> float | np.ndarray:
    """Return F1, and warn on behalf of a public function."""
    check_average(average)
    undefined = check_zero_division(zero_division)
    totals = counts.totals(sample_weight)
    if isinstance(zero_division, str):
        warn_undefined(totals, ["f1"], average, items)
    value = ratio(totals, "f1", average, undefined)
    return value if average is None else float(value)


def all_scores(
    counts: Counts, average: str | None, zero_division: str | float, sample_weight: ArrayLike | None, items: str
) -> PrecisionRecallF1:
    """Return precision, recall, F1 and support, and warn on behalf of a public function."""
    check_average(average)
    undefined = check_zero_division(zero_division)
    totals = counts.totals(sample_weight)
    quantities = ["precision", "recall", "f1"]
    if isinstance(zero_division, str):
        warn_undefined(totals, quantities, average, items)
    precision, recall, f1 = (ratio(totals, quantity, average, undefined) for quantity in quantities)
    support = totals[2] if sample_weight is not None else totals[2].astype(np.int64)
    if average is None:
        return PrecisionRecallF1(precision, recall, f1, support, counts.labels)
    return PrecisionRecallF1(float(precision), float(recall), float(f1), support.sum().item(), counts.labels)


def _accuracy(counts: Counts, sample_weight: ArrayLike | None, items: str) -> float:
    correct, total, _ = counts.totals(sample_weight)[:, 0]
    if total == 0:
        raise ValueError(f"there are no {items} with a weight above 0, so there is no accuracy")
    return float(correct / total)


def token_accuracy_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of tokens with the right label.

    To leave out tokens whose true label is, for example, "O", use the recall:
    ``token_precision_recall_f1(y_true, y_pred, average="micro", ignore=["O"]).recall``.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        True and predicted labels: lists or arrays of shape (n_tokens,). Sequences may be empty.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens.

    Returns
    -------
    accuracy : float

    Raises
    ------
    ValueError
        If lengths differ, or if there are no tokens.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import token_accuracy_score
    >>> token_accuracy_score([["N", "V"], ["N", "V", "N"]], [["N", "V"], ["N", "N", "N"]])
    0.8
    """
    return _accuracy(count_tokens_as_items(y_true, y_pred), sample_weight, "tokens")


def sequence_accuracy_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str | None = None,
    strict: bool = False,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the fraction of sequences without an error.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        True and predicted labels, or segments. Empty sequences are right.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"} or None, default=None
        None: all labels must be right. Otherwise all segments must be right, as read by :func:`extract_segments`.
    strict : bool, default=False
        Treatment of invalid tags, see :func:`extract_segments`.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence.

    Returns
    -------
    accuracy : float

    Raises
    ------
    ValueError
        If lengths differ, or if there are no sequences.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score(
    ...     [["N", "V"], ["N", "V", "N"]], [["N", "V"], ["N", "N", "N"]]
    ... )
    0.5
    """
    counts = count_sequences_as_items(y_true, y_pred, scheme=scheme, strict=strict)
    return _accuracy(counts, sample_weight, "sequences")


@overload
def token_precision_recall_f1(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: None = None, **options: Unpack[ScoreOptions]
) -> PrecisionRecallF1[np.ndarray]: ...
@overload
def token_precision_recall_f1(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: str, **options: Unpack[ScoreOptions]
) -> PrecisionRecallF1[float]: ...
def token_precision_recall_f1(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: Iterable[Hashable] | None = None,
    ignore: Iterable[Hashable] = (),
    average: str | None = None,
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> PrecisionRecallF1:
    """Return precision, recall, F1 and support of token labels.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        True and predicted labels: lists or arrays of shape (n_tokens,). Sequences may be empty.
    labels : list of labels, default=None
        The labels to score, in this order. None: all labels in ``y_true`` or ``y_pred``, sorted.
    ignore : list of labels, default=()
        Labels not to score, such as ``["O"]``.
    average : {"micro", "macro", "weighted"} or None, default=None
        None: one value for each label. "micro": the ratio of counts summed over labels. "macro": the mean over labels.
        "weighted": the mean over labels, weighted by their support.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" is 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages ignore
        nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens.

    Returns
    -------
    scores : PrecisionRecallF1
        Named tuple of ``precision``, ``recall``, ``f1``, ``support`` (arrays of shape (n_labels,), or numbers if
        averaged) and ``labels``.

    Raises
    ------
    ValueError
        If lengths differ, or if a parameter has an invalid value.
    TypeError
        If y is not a list of label sequences, or if labels cannot be sorted together.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import token_precision_recall_f1
    >>> y_true, y_pred = [["A", "A", "O"], ["B", "O"]], [["A", "O", "O"], ["B", "B"]]
    >>> scores = token_precision_recall_f1(y_true, y_pred, ignore=["O"])
    >>> scores.labels, scores.precision, scores.recall
    (['A', 'B'], array([1. , 0.5]), array([0.5, 1. ]))
    """
    counts = count_tokens(y_true, y_pred, labels=labels, ignore=ignore)
    return all_scores(counts, average, zero_division, sample_weight, "tokens")


@overload
def token_f1_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: str = "macro", **options: Unpack[ScoreOptions]
) -> float: ...
@overload
def token_f1_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: None, **options: Unpack[ScoreOptions]
) -> np.ndarray: ...
def token_f1_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: Iterable[Hashable] | None = None,
    ignore: Iterable[Hashable] = (),
    average: str | None = "macro",
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> float | np.ndarray:
    """Return the F1 of token labels: 2 correct / (predicted + true).

    Parameters
    ----------
    y_true, y_pred : list of sequences
        True and predicted labels: lists or arrays of shape (n_tokens,). Sequences may be empty.
    labels : list of labels, default=None
        The labels to score, in this order. None: all labels in ``y_true`` or ``y_pred``, sorted.
    ignore : list of labels, default=()
        Labels not to score, such as ``["O"]``.
    average : {"macro", "micro", "weighted"} or None, default="macro"
        As for :func:`token_precision_recall_f1`. Over all labels, the micro average is the accuracy.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" is 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages ignore
        nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens.

    Returns
    -------
    f1 : float, or ndarray of shape (n_labels,) with ``average=None``

    Raises
    ------
    ValueError, TypeError
        As for :func:`token_precision_recall_f1`.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import token_f1_score
    >>> token_f1_score(
    ...     [["A", "A", "O"], ["B", "O"]], [["A", "O", "O"], ["B", "B"]], ignore=["O"]
    ... )
    0.6666666666666666
    """
    counts = count_tokens(y_true, y_pred, labels=labels, ignore=ignore)
    return f1_score(counts, average, zero_division, sample_weight, "tokens")
