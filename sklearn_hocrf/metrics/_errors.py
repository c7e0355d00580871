"""Which errors there are: confusions of segments, and a table of all errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .._data.checks import short
from .._display import Table, texts_of
from ._reading import LabelSequences, list_sequences, refuse_other_number, sorted_union
from ._segments import check_encoding, extract_segments

__all__ = ["SegmentConfusion", "SegmentError", "error_table", "segment_confusion"]

OTHER, MISSING, SPURIOUS = "other boundary", "missing", "spurious"
Segment = tuple[int, int, Any]


class SegmentConfusion(NamedTuple):
    """How often segments of a label are predicted as segments of another one.   L labels.

    Attributes
    ----------
    matrix : ndarray of shape (L + 2, L + 2), int64
        Counts.
    rows : list
        What is true: the labels, "other boundary" and "spurious".
    columns : list
        What is predicted: the labels, "other boundary" and "missing".
    """

    matrix: np.ndarray
    rows: list
    columns: list

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        class Row(tuple):
            _fields = ("", *map(str, self.columns))

        return Table(Row, (Row((name, *counts)) for name, counts in zip(self.rows, self.matrix.tolist(), strict=True)))


class SegmentError(NamedTuple):
    """One error of a segmentation.

    Attributes
    ----------
    sequence : int
    error : {"label", "other boundary", "missing", "spurious"}
    true, predicted : tuple (start, stop, label), or None
        The true segment and the predicted one.
    true_text, predicted_text : str
        Their tokens.
    probability : float or None
        Of the predicted segment.
    """

    sequence: int
    error: str
    true: Segment | None
    predicted: Segment | None
    true_text: str
    predicted_text: str
    probability: float | None


def segment_confusion(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    encoding: str = "runs",
    strict: bool = False,
    ignore: Iterable[Hashable] = (),
) -> SegmentConfusion:
    """Return which segments are predicted with another label, with other boundaries, or not at all.

    A true segment counts in the row of its label: in the column of the label of the predicted segment with the same
    start and stop; if there is none, in "other boundary" if it overlaps a predicted one, and in "missing" otherwise. A
    predicted segment that has the start and stop of no true one counts in the column of its label, in the row "other
    boundary" if it overlaps a true one, and in "spurious" otherwise. So the rows of labels sum to the numbers of true
    segments, the columns of labels to those of predicted ones, and the right ones are on the diagonal.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels, or, with ``encoding="segments"``, lists of (start, stop, label).
    encoding, strict : as in :func:`extract_segments`
    ignore : iterable of labels, default=()
        Labels of segments that are left out, such as "O" of "runs".

    Returns
    -------
    confusion : SegmentConfusion
        Named tuple of the ``matrix`` and the names of its ``rows`` and ``columns``: ``pandas.DataFrame(*confusion)``
        makes a data frame, and a notebook shows a table.

    Raises
    ------
    TypeError, ValueError
        If labels or segments are invalid, and if the numbers of sequences differ.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_confusion
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "O", "B-PER", "B-PER", "O", "O"]]
    >>> segment_confusion(y_true, y_pred, encoding="bio")
                    LOC  PER  other boundary  missing
    LOC               0    1               0        1
    PER               0    0               1        0
    other boundary    0    1               0        0
    spurious          0    1               0        0
    """
    true, predicted = _read_pair(y_true, y_pred, encoding, strict)
    ignored = set(ignore)
    true, predicted = ([[s for s in of_one if s[2] not in ignored] for of_one in y] for y in (true, predicted))
    labels = sorted_union((label for *_, label in chain(*true)), (label for *_, label in chain(*predicted)))
    number = {label: i for i, label in enumerate(labels)}
    other, none = len(labels), len(labels) + 1
    matrix = np.zeros((none + 1, none + 1), dtype=np.int64)
    for of_true, of_predicted in zip(true, predicted, strict=True):
        there = {segment[:2]: number[segment[2]] for segment in of_predicted}
        for segment, overlaps in zip(of_true, _overlap(of_true, of_predicted), strict=True):
            matrix[number[segment[2]], there.get(segment[:2], other if overlaps else none)] += 1
        known = {segment[:2] for segment in of_true}
        for segment, overlaps in zip(of_predicted, _overlap(of_predicted, of_true), strict=True):
            if segment[:2] not in known:
                matrix[other if overlaps else none, number[segment[2]]] += 1
    return SegmentConfusion(matrix, [*labels, OTHER, SPURIOUS], [*labels, OTHER, MISSING])


def error_table(
    X: Any,
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    encoding: str = "runs",
    probability: Any = None,
    field: Any = None,
    separator: str = " ",
) -> Table:
    """Return all errors of predicted segments, with their texts: the most confident ones first, if there are
    probabilities.

    A predicted segment that is not right is shown beside the true one with the same start and stop ("label"), or else
    the one that shares most tokens with it ("other boundary"). What is left is "spurious" or "missing". Confident
    errors are often errors of the data.

    Parameters
    ----------
    X : list of sequences
        The tokens, or what the texts of tokens are taken from, see ``field``.
    y_true, y_pred : list of sequences
        Token labels, or lists of (start, stop, label); ``y_pred`` may be what
        ``predict_segments(X, with_probability=True)`` returns.
    encoding : {"tokens", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        How token labels encode segments, see :func:`extract_segments`. "tokens": each token is a segment of its own.
    probability : list of sequences or None, default=None
        Segments with probabilities, such as ``segment_marginals`` returns, or the probability of the predicted label of
        each token. Default: those of ``y_pred``, if it has any.
    field : object, default=None
        Which field of a token that is a mapping, list or tuple is its text; None stands for the first that is one.
    separator : str, default=" "
        What is between the texts of tokens.

    Returns
    -------
    errors : Table
        Named tuples (sequence, error, true, predicted, true_text, predicted_text, probability); a notebook shows a
        table, and ``pandas.DataFrame`` takes it.

    Raises
    ------
    TypeError, ValueError
        If labels or segments are invalid, or do not match X.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import error_table
    >>> X = [["Ann", "Lee", "met", "Bob", "in", "Oslo"]]
    >>> y_true = [["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"]]
    >>> y_pred = [[(0, 1, "PER", 0.6), (3, 4, "LOC", 0.9)]]
    >>> error_table(X, y_true, y_pred, encoding="bio")
    sequence  error           true     predicted  true_text  predicted_text  probability
           0  label           3 4 PER  3 4 LOC    Bob        Bob                   0.900
           0  other boundary  0 2 PER  0 1 PER    Ann Lee    Ann                   0.600
           0  missing         5 6 LOC             Oslo
    """
    if encoding != "tokens":
        check_encoding(encoding, strict=False)
    texts = texts_of(X, field)
    true, _ = _read_any(y_true, encoding, "y_true", texts)
    predicted, known = _read_any(y_pred, encoding, "y_pred", texts)
    if probability is not None:
        known = _read_probability(probability, predicted)
    rows = []
    for n, (words, of_true, of_predicted) in enumerate(zip(texts, true, predicted, strict=True)):
        for error, there, here in _paired(of_true, of_predicted):
            texts_of_both = [separator.join(words[one[0] : one[1]]) if one else "" for one in (there, here)]
            p = None if here is None else known.get((n, here))
            rows.append(SegmentError(n, error, there, here, texts_of_both[0], texts_of_both[1], p))
    if known:
        rows.sort(key=lambda row: -1.0 if row.probability is None else row.probability, reverse=True)
    return Table(SegmentError, rows)


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_pair(y_true: Any, y_pred: Any, encoding: str, strict: bool) -> tuple[list, list]:
    true, predicted = (extract_segments(y, encoding=encoding, strict=strict) for y in (y_true, y_pred))
    refuse_other_number(len(true), len(predicted))
    return true, predicted


def _read_any(y: Any, encoding: str, name: str, texts: list[list[str]]) -> tuple[list[list[Segment]], dict]:
    """Return segments, and the probabilities of those that have one: {(sequence, segment): probability}."""
    sequences = list_sequences(y, name, "labels or segments")
    if len(sequences) != len(texts):
        raise ValueError(f"{name} has {len(sequences)} sequences, but X has {len(texts)}")
    known: dict = {}
    if encoding == "segments" or _are_segments(sequences):
        rows = [s.tolist() if isinstance(s, np.ndarray) else [tuple(one) for one in s] for s in sequences]
        known = {(n, row[:3]): float(row[3]) for n, of_one in enumerate(rows) for row in of_one if len(row) > 3}
        segments = extract_segments([[row[:3] for row in of_one] for of_one in rows], encoding="segments")
    elif encoding == "tokens":
        segments = [[(t, t + 1, label) for t, label in enumerate(labels)] for labels in _as_lists(sequences)]
    else:
        segments = extract_segments(y, encoding=encoding)
    lengths = [len(words) for words in texts]
    for n, (of_one, length) in enumerate(zip(segments, lengths, strict=True)):
        if any(stop > length for _, stop, _ in of_one):
            raise ValueError(f"{name} has labels or segments beyond the {length} tokens of sequence {n} of X")
    return segments, known


def _as_lists(sequences: list) -> list[list]:
    return [labels.tolist() if isinstance(labels, np.ndarray) else list(labels) for labels in sequences]


def _are_segments(sequences: list) -> bool:
    """Tell whether sequences hold segments, with or without probabilities."""
    given = [s.dtype.names is not None if isinstance(s, np.ndarray) else None for s in sequences if len(s)]
    if any(kind is not None for kind in given):
        return all(kind is not None and kind for kind in given)
    items = list(chain(*sequences))
    return all(isinstance(item, (tuple, list)) and len(item) in (3, 4) for item in items)


def _read_probability(probability: Any, predicted: list[list[Segment]]) -> dict:
    """Return the probabilities of predicted segments that are given: {(sequence, segment): probability}."""
    sequences = list_sequences(probability, "probability", "probabilities")
    refuse_other_number(len(sequences), len(predicted))
    known = {}
    for n, (given, of_one) in enumerate(zip(_as_lists(sequences), predicted, strict=True)):
        if all(isinstance(p, Real) for p in given):
            for segment in of_one:
                if segment[1] > len(given) or segment[1] != segment[0] + 1:
                    raise ValueError(
                        f"probability has a number for each token of sequence {n}, but the segment {short(segment)} "
                        "is not one of them: give segments with probabilities, as segment_marginals does"
                    )
                known[n, segment] = float(given[segment[0]])
        else:
            known |= {(n, tuple(row[:3])): float(row[3]) for row in given}
    return known


# --- pairs ------------------------------------------------------------------------------------------------------------


def _overlap(segments: list[Segment], others: list[Segment]) -> list[bool]:
    """Tell which segments share a token with one of the others."""
    last = max((stop for _, stop, _ in chain(segments, others)), default=0)
    covered = np.zeros(last + 1, dtype=np.int64)
    for start, stop, _ in others:
        covered[start] += 1
        covered[stop] -= 1
    n_before = np.append(0, np.cumsum(np.cumsum(covered) > 0))
    return [bool(n_before[stop] > n_before[start]) for start, stop, _ in segments]


def _paired(true: list[Segment], predicted: list[Segment]) -> list[tuple[str, Segment | None, Segment | None]]:
    """Return what is wrong, in order, with the true and the predicted segment of each error."""
    right = set(true) & set(predicted)
    true, predicted = ([s for s in segments if s not in right] for segments in (true, predicted))
    at: dict[int, list[int]] = {}  # predicted segments by token: comparing all pairs takes long in long sequences
    for k, (start, stop, _) in enumerate(predicted):
        for t in range(start, stop):
            at.setdefault(t, []).append(k)
    shared = [
        (t[:2] != predicted[k][:2], -count, i, k)  # what is shared most comes first
        for i, t in enumerate(true)
        for k, count in Counter(k for token in range(*t[:2]) for k in at.get(token, ())).items()
    ]
    partner: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, i, k in sorted(shared):
        if i not in partner and k not in taken:
            partner[i] = k
            taken.add(k)
    errors: list = []
    for i, segment in enumerate(true):
        other = predicted[partner[i]] if i in partner else None
        kind = MISSING if other is None else ("label" if other[:2] == segment[:2] else OTHER)
        errors.append((kind, segment, other))
    errors += [(SPURIOUS, None, segment) for k, segment in enumerate(predicted) if k not in taken]
    return sorted(errors, key=lambda error: (error[1] or error[2])[:2])
