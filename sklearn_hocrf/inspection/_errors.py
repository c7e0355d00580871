"""The errors of predicted segments as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from typing import Any, NamedTuple

from .._reading.label_sequences import LabelSequences, read_segmentations
from .._reading.schemes import SCHEMES
from ._display import Table, listed, texts_of

Segment = tuple[int, int, Any]


class SegmentError(NamedTuple):
    """An error in a segmentation: one row of the table that :func:`error_table` returns.

    See the example in :func:`error_table`.

    Attributes
    ----------
    sequence : int
    error : {"label", "other boundary", "missing", "spurious"}
    true, predicted : tuple (start, stop, label), or None
        The true segment and the predicted segment.
    true_text, predicted_text : str
        The texts of the true segment and of the predicted segment.
    probability : float or None
        Probability of the predicted segment.
    """

    sequence: int
    error: str
    true: Segment | None
    predicted: Segment | None
    true_text: str
    predicted_text: str
    probability: float | None


def error_table(
    X: Sized,
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    separator: str = " ",
) -> Table:
    """Return all errors of predicted segments with their texts, the most confident ones first.

    The table shows each wrong predicted segment next to the true segment with the same start and stop ("label"), or
    else next to the true segment with which it shares the most tokens ("other boundary"). Wrong predicted segments that
    match no true segment in this way are "spurious", and the remaining true segments that were not predicted are
    "missing". Errors with high probabilities are often annotation errors. Without probabilities, the errors are in the
    order of the sequences.

    Parameters
    ----------
    X : list of sequences
        The tokens: strings, or tokens with fields or attributes, of which the first string is shown.
    y_true, y_pred : list of sequences
        Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts, such as the
        result of ``predict_segments(X, with_probability=True)``. ``y_true`` and ``y_pred`` may have different forms; if
        one of them contains tags, segments of the other that are labelled "O" are ignored.
    scheme : {"auto", "tokens", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How token labels encode segments (see :func:`~sklearn_hocrf.text.extract_segments`). With "tokens", each token
        is a separate segment.
    separator : str, default=" "
        Separator between the tokens in the texts.

    Returns
    -------
    errors : Table
        A list of named tuples (sequence, error, true, predicted, true_text, predicted_text, probability). Notebooks
        show it as a table, and ``pandas.DataFrame`` converts it to a data frame.

    Raises
    ------
    TypeError, ValueError
        If labels or segments are invalid, or do not match X; the message names the sequence.

    Examples
    --------
    >>> from sklearn_hocrf.inspection import error_table
    >>> X = [["Ann", "Lee", "met", "Bob", "in", "Oslo"]]
    >>> y_true = [["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"]]
    >>> y_pred = [[(0, 1, "PER", 0.6), (3, 4, "LOC", 0.9)]]
    >>> error_table(X, y_true, y_pred)
    sequence  error           true     predicted  true_text  predicted_text  probability
           0  label           3 4 PER  3 4 LOC    Bob        Bob                   0.900
           0  other boundary  0 2 PER  0 1 PER    Ann Lee    Ann                   0.600
           0  missing         5 6 LOC             Oslo
    """
    texts, schemes = texts_of(listed(X)), ("auto", "tokens", *SCHEMES)
    true, predicted = read_segmentations({"y_true": y_true, "y_pred": y_pred}, scheme, schemes=schemes, X=texts)
    known = {row: p for row, p in zip(predicted.rows, predicted.probability, strict=True) if p is not None}
    rows = []
    for n, segments in enumerate(zip(true.lists(), predicted.lists(), strict=True)):
        for error, there, here in _paired(*segments):
            right, wrong = (separator.join(texts[n][one[0] : one[1]]) if one else "" for one in (there, here))
            p = None if here is None else known.get((n, *here))
            rows.append(SegmentError(n, error, there, here, right, wrong, p))
    if known:
        rows.sort(key=lambda row: -1.0 if row.probability is None else row.probability, reverse=True)
    return Table(SegmentError, rows)


def _paired(true: list[Segment], predicted: list[Segment]) -> list[tuple[str, Segment | None, Segment | None]]:
    """Return the kind, the true segment and the predicted segment of each error, in order."""
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
        kind = "missing" if other is None else ("label" if other[:2] == segment[:2] else "other boundary")
        errors.append((kind, segment, other))
    errors += [("spurious", None, segment) for k, segment in enumerate(predicted) if k not in taken]
    return sorted(errors, key=lambda error: (error[1] or error[2])[:2])
