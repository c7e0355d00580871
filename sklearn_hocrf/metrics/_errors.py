"""Predicted segments one by one: a table of errors, confusions, and which segments of a given probability are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain, pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .._data.checks import check_choice, finite_number, finite_numbers, short
from .._data.label_sequences import (
    FIELDS,
    CodedLabels,
    LabelSequences,
    check_scheme,
    code_tokens,
    coded_segments,
    list_sequences,
    read_given_segments,
    refuse_other_lengths,
    refuse_other_number,
    scheme_of,
    segments_of_sequences,
    sorted_union,
    tuples_of_segments,
)
from .._data.schemes import SCHEMES, hold_segments, parts_of_segment, read_segment
from .._display import Table, listed, table_of, texts_of

__all__ = [
    "SegmentConfusion",
    "SegmentError",
    "SegmentOutcomes",
    "error_table",
    "segment_confusion",
    "segment_outcomes",
]

OTHER, MISSING, SPURIOUS = "other boundary", "missing", "spurious"
Segment = tuple[int, int, Any]


class SegmentConfusion(NamedTuple):
    """How often segments of a label are predicted as segments of another one.   L labels.

    Returned by :func:`segment_confusion`. See the example there.

    Attributes
    ----------
    matrix : ndarray of shape (L + 2, L + 2), int64
        Counts.
    rows : list
        Names of the rows (true segments): the labels, "other boundary" and "spurious".
    columns : list
        Names of the columns (predicted segments): the labels, "other boundary" and "missing".
    """

    matrix: np.ndarray
    rows: list
    columns: list

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        counts = zip(self.rows, self.matrix.tolist(), strict=True)
        return table_of(("", *map(str, self.columns)), ((name, *of_row) for name, of_row in counts))


class SegmentError(NamedTuple):
    """One error of a segmentation: a row of the table that :func:`error_table` returns.

    See the example there.

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


class SegmentOutcomes(NamedTuple):
    """All segments in order, each marked right or wrong, with its probability.   M segments.

    Returned by :func:`segment_outcomes`. See the examples there.
    """

    is_right: np.ndarray  # (M,) bool
    probability: np.ndarray  # (M,) float64


def segment_confusion(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    strict: bool = False,
    ignore: Iterable[Hashable] = (),
) -> SegmentConfusion:
    """Return which segments are predicted with another label, with other boundaries, or not at all.

    A true segment counts in the row of its label: in the column of the label of the predicted segment with the same
    start and stop; if there is none, in "other boundary" if it overlaps a predicted one, and in "missing" otherwise. A
    predicted segment that does not have the start and stop of a true one counts in the column of its label, in the row
    "other boundary" if it overlaps a true one, and in "spurious" otherwise. Thus the rows of labels sum to the numbers
    of true segments, the columns of labels to the numbers of predicted segments, and correct segments are on the
    diagonal.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels, or lists of (start, stop, label), as for :func:`error_table`; the two may have different forms.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How token labels encode segments, see :func:`~sklearn_hocrf.text.extract_segments`. Lists of segments are read
        as such, whatever the scheme is.
    strict : bool, default=False
        Treatment of invalid tags, see :func:`~sklearn_hocrf.text.extract_segments`.
    ignore : iterable of labels, default=()
        Labels of segments that are left out, such as "O" of "runs".

    Returns
    -------
    confusion : SegmentConfusion
        Named tuple of the ``matrix`` and the names of its ``rows`` and ``columns``: ``pandas.DataFrame(*confusion)``
        makes a data frame; notebooks display a table. A label with the name of another row or column, such as
        "missing", is put in quotation marks.

    Raises
    ------
    TypeError, ValueError
        If labels or segments are invalid, and if the numbers of sequences or the lengths of two labellings differ.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_confusion
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "O", "B-PER", "B-PER", "O", "O"]]
    >>> segment_confusion(y_true, y_pred)
                    LOC  PER  other boundary  missing
    LOC               0    1               0        1
    PER               0    0               1        0
    other boundary    0    1               0        0
    spurious          0    1               0        0
    """
    check_scheme(scheme, strict)
    given = _read_both(y_true, y_pred, scheme, strict)
    _refuse_other_sizes(*given)
    ignored = set(ignore)
    true, predicted = ([[s for s in of_one if s[2] not in ignored] for of_one in one.segments] for one in given)
    labels = sorted_union((label for *_, label in chain(*true)), (label for *_, label in chain(*predicted)))
    index_of = {label: i for i, label in enumerate(labels)}
    other, none = len(labels), len(labels) + 1
    matrix = np.zeros((none + 1, none + 1), dtype=np.int64)
    for of_true, of_predicted in zip(true, predicted, strict=True):
        there = {segment[:2]: index_of[segment[2]] for segment in of_predicted}
        for segment, overlaps in zip(of_true, _overlap(of_true, of_predicted), strict=True):
            matrix[index_of[segment[2]], there.get(segment[:2], other if overlaps else none)] += 1
        known = {segment[:2] for segment in of_true}
        for segment, overlaps in zip(of_predicted, _overlap(of_predicted, of_true), strict=True):
            if segment[:2] not in known:
                matrix[other if overlaps else none, index_of[segment[2]]] += 1
    names = [_quoted(label) for label in labels]
    return SegmentConfusion(matrix, [*names, OTHER, SPURIOUS], [*names, OTHER, MISSING])


def _quoted(label: Any) -> Any:
    """Return a label, in quotation marks if it equals the name of another row or column."""
    is_taken = isinstance(label, str) and label.strip("'\"") in (OTHER, MISSING, SPURIOUS)
    return repr(str(label)) if is_taken else label


def error_table(
    X: Any,
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    probability: Any = None,
    field: Any = None,
    separator: str = " ",
) -> Table:
    """Return all errors of predicted segments, with their texts: the most confident ones first, if there are
    probabilities.

    A predicted segment that is not right is shown next to the true one with the same start and stop ("label"), or else
    the one that shares the most tokens with it ("other boundary"). The rest are "spurious" or "missing". Confident
    errors are often annotation errors.

    Parameters
    ----------
    X : list of sequences
        The tokens, as texts or with a text field, see ``field``.
    y_true, y_pred : list of sequences
        Token labels, or lists of (start, stop, label); ``y_pred`` may be the result of
        ``predict_segments(X, with_probability=True)``.
    scheme : {"auto", "tokens", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How token labels encode segments, see :func:`~sklearn_hocrf.text.extract_segments`. "tokens": each token is a
        separate segment.
    probability : list of sequences or None, default=None
        Segments (start, stop, label, probability), as returned by ``predict_segments``, or the probability of the
        predicted label of each token. Default: the probabilities in ``y_pred``, if any.
    field : object, default=None
        The field that contains the text of a token that is a mapping, list or tuple; None means the first text field.
    separator : str, default=" "
        Separator between the texts of tokens.

    Returns
    -------
    errors : Table
        Named tuples (sequence, error, true, predicted, true_text, predicted_text, probability); notebooks display a
        table, and ``pandas.DataFrame`` accepts it.

    Raises
    ------
    TypeError, ValueError
        If labels, segments or probabilities are invalid, or do not match X; the message names the sequence.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import error_table
    >>> X = [["Ann", "Lee", "met", "Bob", "in", "Oslo"]]
    >>> y_true = [["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"]]
    >>> y_pred = [[(0, 1, "PER", 0.6), (3, 4, "LOC", 0.9)]]
    >>> error_table(X, y_true, y_pred)
    sequence  error           true     predicted  true_text  predicted_text  probability
           0  label           3 4 PER  3 4 LOC    Bob        Bob                   0.900
           0  other boundary  0 2 PER  0 1 PER    Ann Lee    Ann                   0.600
           0  missing         5 6 LOC             Oslo
    """
    check_choice("scheme", scheme, ("auto", "tokens", *SCHEMES))
    texts = texts_of(listed(X), field)
    true, predicted = _read_both(y_true, y_pred, scheme)
    for name, given in (("y_true", true), ("y_pred", predicted)):
        _refuse_other_texts(given, name, texts)
    known = predicted.probability
    if probability is not None:
        known = _read_probability(probability, predicted.segments, [len(words) for words in texts])
    rows = []
    for n, (words, of_true, of_predicted) in enumerate(zip(texts, true.segments, predicted.segments, strict=True)):
        for error, there, here in _paired(of_true, of_predicted):
            texts_of_both = [separator.join(words[one[0] : one[1]]) if one else "" for one in (there, here)]
            p = None if here is None else known.get((n, here))
            rows.append(SegmentError(n, error, there, here, texts_of_both[0], texts_of_both[1], p))
    if known:
        rows.sort(key=lambda row: -1.0 if row.probability is None else row.probability, reverse=True)
    return Table(SegmentError, rows)


def segment_outcomes(
    y_true: LabelSequences, y_pred: LabelSequences, *, scheme: str = "auto", strict: bool = False
) -> SegmentOutcomes:
    """Return which segments are right, and their probabilities.

    This is the input of :class:`sklearn.calibration.CalibrationDisplay` and of scikit-learn's other tools for the
    probabilities of two classes, see the examples.

    Parameters
    ----------
    y_true : list of sequences
        Token labels (lists or arrays of shape (n_tokens,)), or lists of (start, stop, label).
    y_pred : list of sequences of segments
        For each sequence a structured array with fields ``start``, ``stop``, ``label`` and ``probability``, as
        ``predict_segments(X, threshold=0)`` returns it, or a list of (start, stop, label, probability). Any segments
        may be given: all with a positive probability, or only the segments of the best labelling.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How labels of ``y_true`` encode segments, see :func:`~sklearn_hocrf.text.extract_segments`.
    strict : bool, default=False
        Treatment of invalid tags, see :func:`~sklearn_hocrf.text.extract_segments`.

    Returns
    -------
    outcomes : SegmentOutcomes
        Named tuple of ``is_right``, bool, and ``probability``, both of shape (n_segments,), in the order of ``y_pred``.
        A segment is right if ``y_true`` has one with the same start, stop and label.

    Raises
    ------
    TypeError
        If ``y_pred`` does not consist of segments with probabilities.
    ValueError
        If the numbers of sequences differ, if a probability is not in [0, 1], if a segment ends after the last token or
        occurs twice, or if ``y_true`` is invalid.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_outcomes
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [[(0, 2, "PER", 0.9), (0, 1, "PER", 0.1), (3, 4, "PER", 0.3)]]
    >>> is_right, probability = segment_outcomes(y_true, y_pred)
    >>> is_right
    array([ True, False, False])

    Plot the outcomes:

    >>> from sklearn.calibration import CalibrationDisplay
    >>> plot = CalibrationDisplay.from_predictions
    >>> display = plot(is_right, probability)  # pip install matplotlib
    """
    table, lengths = read_given_segments(y_true, scheme, strict, "y_true")
    predicted = _read_predicted(y_pred, lengths, table.n_sequences)
    columns = (column.tolist() for column in table[:3])
    labels = [table.labels[code] for code in table.label.tolist()]
    right = set(zip(*columns, labels, strict=True))
    is_right = np.array([tuple(segment[:4]) in right for segment in predicted], dtype=bool)
    return SegmentOutcomes(is_right, np.array([segment[4] for segment in predicted], dtype=np.float64))


# --- reading ----------------------------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """Segments of any form."""

    segments: list[list[Segment]]
    probability: dict  # {(sequence, segment): probability}, where known
    lengths: np.ndarray | None  # numbers of labels; None for lists of segments, which do not contain them


def _read_both(y_true: Any, y_pred: Any, scheme: str, strict: bool = False) -> list[_Given]:
    """Read labels of tokens in one scheme, or segments with or without probabilities, each in its own form."""
    sequences = {
        name: list_sequences(y, name, "labels or segments") for name, y in (("y_true", y_true), ("y_pred", y_pred))
    }
    tokens = {
        name: code_tokens(y, name)
        for name, y in sequences.items()
        if scheme != "segments" and not hold_segments(y) and any(map(len, y))
    }
    if tokens:
        scheme = scheme_of(scheme, {label for coded in tokens.values() for label in coded.labels})
    return [
        _read_tokens(tokens[name], scheme, name, strict) if name in tokens else _read_segments(y, name)
        for name, y in sequences.items()
    ]


def _read_tokens(tokens: CodedLabels, scheme: str, name: str, strict: bool) -> _Given:
    if scheme == "tokens":
        labels, cuts = [tokens.labels[code] for code in tokens.codes.tolist()], tokens.offsets.tolist()
        segments = [[(t - i, t - i + 1, labels[t]) for t in range(i, j)] for i, j in pairwise(cuts)]
    else:
        segments = segments_of_sequences(coded_segments(tokens, scheme, strict, name))
    return _Given(segments, {}, tokens.lengths)


def _read_segments(sequences: list, name: str) -> _Given:
    rows = [_rows_of_segments(given, f"{name}[{n}] (sequence {n})") for n, given in enumerate(sequences)]
    plain = [[row[:3] if len(row) == len(FIELDS) else row for row in of_one] for of_one in rows]
    segments = segments_of_sequences(read_given_segments(plain, "segments", False, name)[0])
    known = {
        (n, segments[n][i]): finite_number(row[3], f"sequence {n}, position {i}", f"probability of {name}")
        for n, of_one in enumerate(rows)
        for i, row in enumerate(of_one)
        if len(row) == len(FIELDS)
    }
    return _Given(segments, known, None)


def _rows_of_segments(given: Any, where: str) -> list:
    """Return segments as tuples; anything else is returned unchanged."""
    names = getattr(getattr(given, "dtype", None), "names", None) or ()
    rows = tuples_of_segments(given, where, FIELDS if "probability" in names else FIELDS[:3])
    return list(map(parts_of_segment, rows))


def _refuse_other_sizes(true: _Given, predicted: _Given) -> None:
    """Raise unless two segmentations can belong to the same sequences."""
    refuse_other_number(len(true.segments), len(predicted.segments))
    if true.lengths is not None and predicted.lengths is not None:
        refuse_other_lengths(true.lengths, predicted.lengths)
    if true.lengths is not None:
        _refuse_beyond(predicted.segments, true.lengths, "y_pred", "y_true")
    if predicted.lengths is not None:
        _refuse_beyond(true.segments, predicted.lengths, "y_true", "y_pred")


def _refuse_other_texts(given: _Given, name: str, texts: list[list[str]]) -> None:
    """Raise unless labels or segments can belong to the texts."""
    if len(given.segments) != len(texts):
        raise ValueError(f"{name} has {len(given.segments)} sequences, but X has {len(texts)}")
    lengths = [len(words) for words in texts]
    for n, (count, length) in enumerate(zip(lengths if given.lengths is None else given.lengths, lengths, strict=True)):
        if count != length:
            raise ValueError(f"{name} has {count} labels in sequence {n}, but X has {length} tokens")
    _refuse_beyond(given.segments, lengths, name, "X")


def _refuse_beyond(segments: list[list[Segment]], lengths: Iterable[int], name: str, other: str) -> None:
    for n, (of_one, length) in enumerate(zip(segments, lengths, strict=True)):
        for segment in of_one:
            if segment[1] > length:
                raise ValueError(
                    f"{name} has the segment {short(segment)} in sequence {n}, beyond the {length} tokens of {other}"
                )


def _read_probability(probability: Any, predicted: list[list[Segment]], lengths: list[int]) -> dict:
    """Return the given probabilities of predicted segments: {(sequence, segment): probability}."""
    sequences = list_sequences(probability, "probability", "probabilities")
    if len(sequences) != len(predicted):
        raise ValueError(f"probability has {len(sequences)} sequences, but y_pred has {len(predicted)}")
    known: dict = {}
    for n, (given, of_one, length) in enumerate(zip(sequences, predicted, lengths, strict=True)):
        name = f"probability[{n}] (sequence {n})"
        rows = tuples_of_segments(given, name, FIELDS)
        if rows and all(isinstance(p, Real) for p in rows):
            numbers = finite_numbers(rows, length, name, f"sequence {n} of X has {length} tokens")
            known |= {(n, s): numbers[s[0]] for s in of_one if _is_token(s, n)}
        else:
            known |= {(n, row[:3]): row[3] for row in _probable_segments(rows, n)}
    return known


def _is_token(segment: Segment, n: int) -> bool:
    """Return True, or raise if the segment is not a token and thus has no index."""
    if segment[1] != segment[0] + 1:
        raise ValueError(
            f"probability has a number for each token of sequence {n}, but the segment {short(segment)} is not one "
            "token: pass segments with probabilities, as returned by predict_segments"
        )
    return True


def _probable_segments(rows: list, n: int) -> Iterator[tuple]:
    """Yield (start, stop, label, probability), or raise."""
    for i, row in enumerate(rows):
        where = f"sequence {n}, position {i}"
        if not hold_segments([[row]], sizes=(4,)) or not isinstance(row[3], Real) or not isinstance(row[2], Hashable):
            raise ValueError(
                f"probability has {short(row)} ({where}), but must have segments (start, stop, label, probability), as "
                "returned by predict_segments, or the probability of the predicted label of each token"
            )
        yield *read_segment(tuple(row)[:3], where, "probability"), finite_number(row[3], where, "probability")


def _read_predicted(y_pred: LabelSequences, lengths: np.ndarray | None, n_sequences: int) -> list[tuple]:
    """Return (sequence, start, stop, label, probability) of each segment; ``lengths`` may be None."""
    sequences = list_sequences(y_pred, "y_pred", "segments")
    refuse_other_number(n_sequences, len(sequences))
    predicted, seen = [], set()
    for n, segments in enumerate(sequences):
        for i, segment in enumerate(tuples_of_segments(segments, f"y_pred[{n}] (sequence {n})", FIELDS)):
            where = f"sequence {n}, position {i}"
            start, stop, label = _read_probable(segment, where, None if lengths is None else lengths[n])
            if (n, start, stop, label) in seen:
                raise ValueError(f"y_pred has the segment {short((start, stop, label))} twice ({where})")
            seen.add((n, start, stop, label))
            predicted.append((n, start, stop, label, float(segment[3])))
    return predicted


def _read_probable(segment: Any, where: str, length: int | None) -> tuple:
    if isinstance(segment, (str, bytes)) or not hasattr(segment, "__len__") or len(segment) != len(FIELDS):
        raise TypeError(
            f"{short(segment)} of y_pred ({where}) is not a segment with a probability (start, stop, label, "
            "probability)"
        )
    start, stop, label = read_segment(tuple(segment)[:3], where, "y_pred")
    probability = segment[3]
    if not isinstance(probability, Real):
        raise TypeError(f"the probability {short(probability)} of y_pred ({where}) is not a number")
    if not 0 <= float(probability) <= 1:
        raise ValueError(f"the probability {short(probability)} of y_pred ({where}) is not in [0, 1]")
    if length is not None and stop > length:
        raise ValueError(
            f"y_pred has the segment {short((start, stop, label))} ({where}), but the sequence has {length} tokens"
        )
    return start, stop, label


# --- pairs ------------------------------------------------------------------------------------------------------------


def _overlap(segments: list[Segment], others: list[Segment]) -> list[bool]:
    """Return which segments share a token with one of the others."""
    last = max((stop for _, stop, _ in chain(segments, others)), default=0)
    covered = np.zeros(last + 1, dtype=np.int64)
    for start, stop, _ in others:
        covered[start] += 1
        covered[stop] -= 1
    n_before = np.append(0, np.cumsum(np.cumsum(covered) > 0))
    return [bool(n_before[stop] > n_before[start]) for start, stop, _ in segments]


def _paired(true: list[Segment], predicted: list[Segment]) -> list[tuple[str, Segment | None, Segment | None]]:
    """Return the kind of each error, in order, with its true and its predicted segment."""
    right = set(true) & set(predicted)
    true, predicted = ([s for s in segments if s not in right] for segments in (true, predicted))
    at: dict[int, list[int]] = {}  # predicted segments by token: comparing all pairs is slow in long sequences
    for k, (start, stop, _) in enumerate(predicted):
        for t in range(start, stop):
            at.setdefault(t, []).append(k)
    shared = [
        (t[:2] != predicted[k][:2], -count, i, k)  # largest overlap first
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
