"""Counts of items, and their ratios.

An item is a token, a sequence or a segment. Every metric of this package is a function of sums over sequences: of
correct, predicted and true items, by label. Given the counts of each sequence, one can compute the metric for any
weights of the sequences, or any mixture of two systems, without reading labels again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning

from .._data.checks import number_weights, refuse_infinite_sum
from .._data.label_sequences import (
    LabelSequences,
    SegmentTable,
    hold_any_segments,
    read_pair,
    read_segment_pair,
    sorted_union,
)
from .._validation import warn_user

__all__ = [
    "Counts",
    "check_average",
    "check_zero_division",
    "count_segments",
    "count_sequences",
    "count_tokens",
    "ratio",
    "warn_undefined",
]

AVERAGES_OR_NONE = ("micro", "macro", "weighted", None)


class Counts(NamedTuple):
    """Items of each sequence by label.   n sequences, L labels."""

    correct: sparse.csr_array  # (n, L) float64   items that are both predicted and true
    predicted: sparse.csr_array  # (n, L) float64
    true: sparse.csr_array  # (n, L) float64
    labels: list  # (L,)

    def totals(self, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Return sums over sequences: correct, predicted and true, of shape (3, L)."""
        weight = _check_sample_weight(sample_weight, self.true.shape[0])
        return np.stack([weight @ matrix for matrix in self[:3]])

    def with_labels(self, labels: list) -> Counts:
        """Return the same counts, with a column for each of ``labels``."""
        codes = _codes_in(labels, self.labels)
        entries = [matrix.tocoo() for matrix in self[:3]]
        correct, predicted, true = (
            _matrix(coo.row, codes[coo.col], coo.shape[0], len(labels), coo.data) for coo in entries
        )
        return Counts(correct, predicted, true, labels)


def _check_sample_weight(sample_weight: ArrayLike | None, n_sequences: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n_sequences)
    weight = np.asarray(number_weights(sample_weight), dtype=np.float64)
    if weight.shape != (n_sequences,):
        raise ValueError(f"sample_weight has shape {weight.shape}, but there are {n_sequences} sequences")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(f"sample_weight must be finite and not negative, but sequence {bad[0]} has {weight[bad[0]]}")
    if n_sequences and not weight.any():
        raise ValueError("sample_weight is 0 for all sequences")
    refuse_infinite_sum(weight)
    return weight


def _matrix(
    rows: np.ndarray, codes: np.ndarray, n_rows: int, n_labels: int, data: np.ndarray | None = None
) -> sparse.csr_array:
    """Add up items by row and label; the code -1 marks labels that are left out."""
    kept = codes >= 0
    data = np.ones(len(rows)) if data is None else data
    return sparse.csr_array((data[kept], (rows[kept], codes[kept])), shape=(n_rows, n_labels))


def _codes_in(labels: list, old_labels: list) -> np.ndarray:
    """Return for each old label its index in ``labels``, or -1."""
    code_of = {label: code for code, label in enumerate(labels)}
    return np.array([code_of.get(label, -1) for label in old_labels], dtype=np.int64)


def _scored_labels(labels: Iterable[Hashable] | None, ignore: Iterable[Hashable], *labels_in_data: list) -> list:
    """Return the labels to score: the given labels, else all labels in the data, without the ignored labels."""
    ignore = _check_labels("ignore", ignore)
    union = sorted_union(*labels_in_data) if labels is None else _check_labels("labels", labels)
    if labels is not None and not union:
        raise ValueError("labels must have at least one label")
    return [label for label in union if label not in ignore]


def _check_labels(name: str, labels: Iterable[Hashable]) -> list:
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
        raise TypeError(f"{name} must be a list of labels, got {labels!r:.60}")
    labels = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if len(set(labels)) < len(labels):
        raise ValueError(f"{name} has a label more than once: {labels!r:.60}")
    return labels


# --- counting ---------------------------------------------------------------------------------------------------------


def count_tokens(y_true: LabelSequences, y_pred: LabelSequences) -> Counts:
    """Count tokens without regard to their labels, so that the precision is the accuracy."""
    correct, lengths = _right_tokens(y_true, y_pred)
    return Counts(_column(correct), _column(lengths), _column(lengths), [None])


def _right_tokens(y_true: LabelSequences, y_pred: LabelSequences) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of right tokens and of all tokens of each sequence."""
    true, predicted = read_pair(y_true, y_pred)
    sorted_union(true.labels, predicted.labels)  # labels of different kinds, such as 1 and "1", are an error
    hits = true.codes == _take(_codes_in(true.labels, predicted.labels), predicted.codes)
    rows = np.repeat(np.arange(len(true.lengths)), true.lengths)
    return np.bincount(rows, weights=hits, minlength=len(true.lengths)), true.lengths


def count_sequences(y_true: LabelSequences, y_pred: LabelSequences) -> Counts:
    """Count sequences without an error, so that the precision is the sequence accuracy."""
    if hold_any_segments(y_true=y_true, y_pred=y_pred):
        counts = count_segments(y_true, y_pred, scheme="segments")
        correct, predicted, true = (matrix.sum(axis=1) for matrix in counts[:3])
        right = (correct == predicted) & (correct == true)
    else:
        right = np.equal(*_right_tokens(y_true, y_pred))
    one = _column(np.ones(len(right)))
    return Counts(_column(right), one, one, [None])


def _column(values: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array(values.astype(np.float64).reshape(-1, 1))


def count_segments(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    strict: bool = False,
    labels: Iterable[Hashable] | None = None,
    ignore: Iterable[Hashable] = (),
) -> Counts:
    """Count segments by label; one is correct if there is a true one with the same start, stop and label."""
    true, predicted = read_segment_pair(y_true, y_pred, scheme, strict)
    scored = _scored_labels(labels, ignore, _labels_used(true), _labels_used(predicted))
    true = true._replace(label=_take(_codes_in(scored, true.labels), true.label))
    predicted = predicted._replace(label=_take(_codes_in(scored, predicted.labels), predicted.label))
    common_sequence, common_label = _common(true, predicted)
    shape = true.n_sequences, len(scored)
    return Counts(
        _matrix(common_sequence, common_label, *shape),
        _matrix(predicted.sequence, predicted.label, *shape),
        _matrix(true.sequence, true.label, *shape),
        scored,
    )


def _take(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    return values[index] if len(values) else np.zeros(0, dtype=np.int64)


def _labels_used(table: SegmentTable) -> list:
    return [table.labels[code] for code in np.unique(table.label).tolist()]


def _common(true: SegmentTable, predicted: SegmentTable) -> tuple[np.ndarray, np.ndarray]:
    """Return sequence and label of the segments that are in both tables; neither contains duplicates."""
    both = np.concatenate([np.stack(true[:4]), np.stack(predicted[:4])], axis=1)
    both = both[:, np.lexsort(both)]
    repeated = (both[:, 1:] == both[:, :-1]).all(axis=0)
    return both[0, 1:][repeated], both[3, 1:][repeated]


# --- ratios -----------------------------------------------------------------------------------------------------------


def check_average(average: str | None) -> None:
    """Raise unless the average is valid."""
    if not (average is None or isinstance(average, str)) or average not in AVERAGES_OR_NONE:
        raise ValueError(f'average must be "micro", "macro", "weighted" or None, got {average!r}')


def check_zero_division(zero_division: str | float) -> float:
    """Return the value of ratios whose denominator is 0."""
    if isinstance(zero_division, str) and zero_division == "warn":
        return 0.0
    if isinstance(zero_division, (int, float, np.number)) and (zero_division in (0, 1) or np.isnan(zero_division)):
        return float(zero_division)
    raise ValueError(f'zero_division must be "warn", 0, 1 or nan, got {zero_division!r}')


def _fraction(totals: np.ndarray, quantity: str) -> tuple[np.ndarray, np.ndarray]:
    correct, predicted, true = totals
    if quantity == "precision":
        return correct, predicted
    if quantity == "recall":
        return correct, true
    return 2 * correct, predicted + true


def ratio(
    totals: np.ndarray, quantity: str, average: str | None, undefined: float, present: np.ndarray | None = None
) -> np.ndarray:
    """Return precision, recall or F1 of counts.

    Parameters
    ----------
    totals : ndarray of shape (3, ..., L)
        Correct, predicted and true items by label.
    quantity : {"precision", "recall", "f1"}
    average : {"micro", "macro", "weighted", None}
    undefined : float
        Value of 0 / 0.
    present : ndarray of shape (..., L), bool, or None
        Labels that take part in averages; None: all.

    Returns
    -------
    value : ndarray of shape (...), or (..., L) without an average
    """
    if average == "micro":
        totals, present = totals.sum(axis=-1, keepdims=True), None
    above, below = _fraction(totals, quantity)
    value = np.full(below.shape, float(undefined))
    np.divide(above, below, out=value, where=below != 0)
    if average is None:
        return value
    present = np.ones(value.shape, dtype=bool) if present is None else present
    usable = present & ~np.isnan(value)
    weight = np.where(usable, totals[2] if average == "weighted" else 1.0, 0.0)
    # no true items: the unweighted mean, as in scikit-learn
    weight = np.where(weight.sum(axis=-1, keepdims=True) > 0, weight, usable)
    total = weight.sum(axis=-1)
    mean = np.where(present.any(axis=-1), np.nan, float(undefined))  # if there is nothing to average
    np.divide((weight * np.where(usable, value, 0.0)).sum(axis=-1), total, out=mean, where=total > 0)
    return mean


def warn_undefined(totals: np.ndarray, quantities: Iterable[str], average: str | None) -> None:
    """Warn of ratios 0 / 0, with scikit-learn's message."""
    if average == "micro":
        totals = totals.sum(axis=-1, keepdims=True)
    lacking = {"precision": "predicted", "recall": "true", "f1": "true nor predicted"}
    for quantity in quantities:
        _, below = _fraction(totals, quantity)
        if not len(below) or (below == 0).any():
            where = "due to" if len(below) == 1 else "in labels with"
            warn_user(
                f"{'F-score' if quantity == 'f1' else quantity.capitalize()} is ill-defined and being set to 0.0 "
                f"{where} no {lacking[quantity]} segments. Use `zero_division` parameter to control this behavior.",
                UndefinedMetricWarning,
            )
