"""Scores of tokens, of whole sequences and of exact segments, and the report in scikit-learn's layout.

A segment is right if its start, stop and label are right.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from .._data.label_sequences import LabelSequences
from ._counts import (
    Counts,
    check_average,
    check_zero_division,
    count_segments,
    count_sequences,
    count_tokens,
    ratio,
    warn_undefined,
)

__all__ = [
    "PrecisionRecallF1",
    "segment_classification_report",
    "segment_f1_score",
    "segment_precision_recall_f1",
    "sequence_accuracy_score",
    "token_accuracy_score",
]

AVERAGES = ("micro", "macro", "weighted")
COLUMNS = ("precision", "recall", "f1-score", "support")
Value = TypeVar("Value", float, np.ndarray)


class ScoreOptions(TypedDict, total=False):
    """Options of the scores of segments, for type checkers, except ``average``, which sets the type of the result."""

    scheme: str
    strict: bool
    labels: Iterable[Hashable] | None
    ignore: Iterable[Hashable]
    zero_division: str | float
    sample_weight: ArrayLike | None


class PrecisionRecallF1(NamedTuple, Generic[Value]):
    """Precision, recall and F1, of each label or averaged.   L labels.

    Returned by :func:`segment_precision_recall_f1`. See the examples there.
    """

    precision: Value  # correct / predicted; (L,) float64 with ``average=None``
    recall: Value  # correct / true
    f1: Value  # 2 correct / (predicted + true)
    support: Value  # number of true segments, weighted if there are weights
    labels: list  # (L,)   the scored labels


# --- tokens and sequences ---------------------------------------------------------------------------------------------


def _accuracy(counts: Counts, sample_weight: ArrayLike | None, items: str) -> float:
    correct, total, _ = counts.totals(sample_weight)[:, 0]
    if total == 0:
        raise ValueError(f"there are no {items} with a weight above 0, so there is no accuracy")
    return float(correct / total)


def token_accuracy_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of tokens with the right label.

    For F1 and reports of token labels, call scikit-learn's functions with flattened lists, as in the user guide:
    docs/guide/recipes.md.

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
    return _accuracy(count_tokens(y_true, y_pred), sample_weight, "tokens")


def sequence_accuracy_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the fraction of sequences without an error.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        True and predicted labels, or lists of (start, stop, label), in any order. Empty sequences are right.
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
    return _accuracy(count_sequences(y_true, y_pred), sample_weight, "sequences")


# --- segments ---------------------------------------------------------------------------------------------------------


@overload
def segment_precision_recall_f1(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: None = None, **options: Unpack[ScoreOptions]
) -> PrecisionRecallF1[np.ndarray]: ...
@overload
def segment_precision_recall_f1(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: str, **options: Unpack[ScoreOptions]
) -> PrecisionRecallF1[float]: ...
def segment_precision_recall_f1(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
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
        Token labels (lists or arrays of shape (n_tokens,)), or lists of (start, stop, label). Sequences may be empty.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How labels encode segments, see :func:`~sklearn_hocrf.text.extract_segments`. "auto" is the scheme of all labels
        in ``y_true`` and ``y_pred``; a warning says if another scheme is possible.
    strict : bool, default=False
        Treatment of invalid tags, see :func:`~sklearn_hocrf.text.extract_segments`.
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None: all labels in ``y_true`` or
        ``y_pred``, sorted.
    ignore : list of labels, default=()
        Segment labels to ignore, such as ``["O"]`` for runs of "O".
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
    >>> scores = segment_precision_recall_f1(y_true, y_pred)
    >>> scores.labels, scores.f1, scores.support
    (['LOC', 'PER'], array([0., 1.]), array([1, 1]))
    >>> y_true, y_pred = [[(0, 2, "PER"), (3, 4, "LOC")]], [[(0, 2, "PER"), (2, 4, "LOC")]]
    >>> segment_precision_recall_f1(y_true, y_pred, average="micro").f1
    0.5
    """
    counts = count_segments(y_true, y_pred, scheme=scheme, strict=strict, labels=labels, ignore=ignore)
    return _scores(counts, average, zero_division, sample_weight)


@overload
def segment_f1_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: str = "micro", **options: Unpack[ScoreOptions]
) -> float: ...
@overload
def segment_f1_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: None, **options: Unpack[ScoreOptions]
) -> np.ndarray: ...
def segment_f1_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
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
        Token labels (lists or arrays of shape (n_tokens,)), or lists of (start, stop, label). Sequences may be empty.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How labels encode segments, see :func:`~sklearn_hocrf.text.extract_segments`. "auto" is the scheme of all labels
        in ``y_true`` and ``y_pred``; a warning says if another scheme is possible.
    strict : bool, default=False
        Treatment of invalid tags, see :func:`~sklearn_hocrf.text.extract_segments`.
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None: all labels in ``y_true`` or
        ``y_pred``, sorted.
    ignore : list of labels, default=()
        Segment labels to ignore, such as ``["O"]`` for runs of "O".
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
    >>> segment_f1_score(y_true, y_pred)
    0.6666666666666666
    """
    counts = count_segments(y_true, y_pred, scheme=scheme, strict=strict, labels=labels, ignore=ignore)
    return _scores(counts, average, zero_division, sample_weight, warn_of=("f1",)).f1


def segment_classification_report(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    strict: bool = False,
    labels: Iterable[Hashable] | None = None,
    ignore: Iterable[Hashable] = (),
    digits: int = 2,
    output_dict: bool = False,
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> str | dict[str, Any]:
    """Return a table of precision, recall, F1 and support of exact segments of each label, and of their averages.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels (lists or arrays of shape (n_tokens,)), or lists of (start, stop, label). Sequences may be empty.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How labels encode segments, see :func:`~sklearn_hocrf.text.extract_segments`. "auto" is the scheme of all labels
        in ``y_true`` and ``y_pred``; a warning says if another scheme is possible.
    strict : bool, default=False
        Treatment of invalid tags, see :func:`~sklearn_hocrf.text.extract_segments`.
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None: all labels in ``y_true`` or
        ``y_pred``, sorted.
    ignore : list of labels, default=()
        Segment labels to ignore, such as ``["O"]`` for runs of "O".
    digits : int, default=2
        Number of decimals of the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text, with unrounded values.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" is 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages ignore
        nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    report : str or dict
        The dict maps str(label), "micro avg", "macro avg" and "weighted avg" to dicts of "precision", "recall",
        "f1-score" and "support".

    Raises
    ------
    ValueError, TypeError
        As for :func:`segment_precision_recall_f1`.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_classification_report
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "B-LOC", "I-LOC"]]
    >>> print(segment_classification_report(y_true, y_pred))
                  precision    recall  f1-score   support
    <BLANKLINE>
             LOC       0.00      0.00      0.00         1
             PER       1.00      1.00      1.00         1
    <BLANKLINE>
       micro avg       0.50      0.50      0.50         2
       macro avg       0.50      0.50      0.50         2
    weighted avg       0.50      0.50      0.50         2
    <BLANKLINE>
    """
    counts = count_segments(y_true, y_pred, scheme=scheme, strict=strict, labels=labels, ignore=ignore)
    by_label = _scores(counts, None, zero_division, sample_weight)
    quiet = 0 if isinstance(zero_division, str) else zero_division  # the rows of the labels have already warned
    averages = {f"{average} avg": _scores(counts, average, quiet, sample_weight)[:4] for average in AVERAGES}
    columns: tuple[Any, ...] = by_label[:4]
    rows = {str(label): values for label, *values in zip(by_label.labels, *columns, strict=True)}
    if output_dict:
        return {name: dict(zip(COLUMNS, map(float, row), strict=True)) for name, row in (rows | averages).items()}
    width = max(len(name) for name in (*rows, *averages, " " * digits))
    lines = [_line("", COLUMNS, width), ""]
    lines += [_line(name, _cells(row, digits), width) for name, row in rows.items()]
    lines.append("")
    lines += [_line(name, _cells(row, digits), width) for name, row in averages.items()]
    return "\n".join(lines) + "\n"


def _cells(row: Iterable[Any], digits: int) -> list[str]:
    *ratios, support = row
    return [*(f"{value:.{digits}f}" for value in ratios), str(support)]


def _line(name: str, cells: Iterable[str], width: int) -> str:
    return f"{name:>{width}} " + "".join(f" {cell:>9}" for cell in cells)


def _scores(
    counts: Counts,
    average: str | None,
    zero_division: str | float,
    sample_weight: ArrayLike | None,
    warn_of: Iterable[str] = ("precision", "recall", "f1"),
) -> PrecisionRecallF1:
    """Return precision, recall, F1 and support, and warn of those named on behalf of a public function."""
    check_average(average)
    undefined = check_zero_division(zero_division)
    totals = counts.totals(sample_weight)
    if isinstance(zero_division, str):
        warn_undefined(totals, warn_of, average)
    precision, recall, f1 = (ratio(totals, quantity, average, undefined) for quantity in ("precision", "recall", "f1"))
    support = totals[2] if sample_weight is not None else totals[2].astype(np.int64)
    if average is None:
        return PrecisionRecallF1(precision, recall, f1, support, counts.labels)
    return PrecisionRecallF1(float(precision), float(recall), float(f1), support.sum().item(), counts.labels)
