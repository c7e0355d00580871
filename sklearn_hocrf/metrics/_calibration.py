"""How often segments of a given probability are right."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from .._data.checks import short
from .._data.schemes import read_segment
from ._reading import FIELDS, LabelSequences, list_sequences, refuse_other_number, tuples_of_segments
from ._segments import read_given_segments

__all__ = [
    "SegmentOutcomes",
    "calibration_table",
    "expected_calibration_error",
    "segment_brier_score",
    "segment_outcomes",
]

TABLE = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("n_segments", np.int64),
        ("mean_probability", np.float64),
        ("fraction_right", np.float64),
    ]
)


class SegmentOutcomes(NamedTuple):
    """All segments in order, each marked right or wrong, with its probability.   M segments.

    Returned by :func:`segment_outcomes`. See the examples there.
    """

    is_right: np.ndarray  # (M,) bool
    probability: np.ndarray  # (M,) float64


def segment_outcomes(
    y_true: LabelSequences, y_pred: LabelSequences, *, scheme: str = "runs", strict: bool = False
) -> SegmentOutcomes:
    """Return which segments are right, and their probabilities.

    This is the input of :class:`sklearn.calibration.CalibrationDisplay` and of scikit-learn's other tools for the
    probabilities of two classes, see the examples.

    Parameters
    ----------
    y_true : list of sequences
        Token labels (lists or arrays of shape (n_tokens,)), or, with ``scheme="segments"``, lists of
        (start, stop, label).
    y_pred : list of sequences of segments
        For each sequence a structured array with fields ``start``, ``stop``, ``label`` and ``probability``, as
        ``predict_segments`` with a threshold returns it, or a list of (start, stop, label, probability). Any segments
        may be given: all with a positive probability, or only the segments of the best labelling.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        How labels of ``y_true`` encode segments, see :func:`extract_segments`.
    strict : bool, default=False
        Treatment of invalid tags, see :func:`extract_segments`.

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
    >>> is_right, probability = segment_outcomes(y_true, y_pred, scheme="bio")
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


def calibration_table(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    n_bins: int = 10,
    *,
    strategy: str = "uniform",
    scheme: str = "runs",
    strict: bool = False,
) -> np.ndarray:
    """Return how often segments are right, by their probabilities.

    Parameters
    ----------
    y_true : list of sequences
        As in :func:`segment_outcomes`.
    y_pred : list of sequences of segments
        As in :func:`segment_outcomes`.
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        "uniform": all bins have the same width. "quantile": all have about the same number of segments; there are fewer
        bins where many probabilities are equal.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        As in :func:`segment_outcomes`.
    strict : bool, default=False
        As in :func:`segment_outcomes`.

    Returns
    -------
    table : structured array of shape (n_bins,)
        Fields ``low`` and ``high`` (a bin contains the probabilities above ``low`` up to ``high``; the first one also
        its ``low``), ``n_segments``, ``mean_probability`` and ``fraction_right``. If the probabilities are calibrated,
        these two differ only by chance; both are nan in an empty bin.

    Raises
    ------
    TypeError, ValueError
        As for :func:`segment_outcomes`; if a parameter has an invalid value, and if there are no segments.

    See Also
    --------
    sklearn_hocrf.model_selection.CalibratedSequenceLabeler : Calibrate the probabilities of a model.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import calibration_table
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [
    ...     [(0, 2, "PER", 0.9), (0, 1, "PER", 0.1), (3, 4, "PER", 0.3), (3, 4, "LOC", 0.6)]
    ... ]
    >>> for row in calibration_table(y_true, y_pred, 2, scheme="bio").tolist():
    ...     print(row)
    (0.0, 0.5, 2, 0.2, 0.0)
    (0.5, 1.0, 2, 0.75, 1.0)
    """
    return _table(_outcomes(y_true, y_pred, scheme, strict), n_bins, strategy)


def expected_calibration_error(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    n_bins: int = 10,
    *,
    strategy: str = "uniform",
    scheme: str = "runs",
    strict: bool = False,
) -> float:
    """Return the mean difference between the probability of segments and the fraction that is right.

    It is the mean over the bins of :func:`calibration_table`, weighted by their segments, of the absolute differences
    of ``mean_probability`` and ``fraction_right`` [1]_. Most segments have a low probability; to judge the predictions
    themselves, pass only the segments of the best labelling or those above a threshold.

    Parameters
    ----------
    y_true : list of sequences
        As in :func:`segment_outcomes`.
    y_pred : list of sequences of segments
        As in :func:`segment_outcomes`.
    n_bins : int, default=10
        As in :func:`calibration_table`.
    strategy : {"uniform", "quantile"}, default="uniform"
        As in :func:`calibration_table`.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        As in :func:`segment_outcomes`.
    strict : bool, default=False
        As in :func:`segment_outcomes`.

    Returns
    -------
    error : float
        From 0, the best, to 1.

    Raises
    ------
    TypeError, ValueError
        As for :func:`calibration_table`.

    References
    ----------
    .. [1] Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning", AAAI 2015.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import expected_calibration_error
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [
    ...     [(0, 2, "PER", 0.9), (0, 1, "PER", 0.1), (3, 4, "PER", 0.3), (3, 4, "LOC", 0.6)]
    ... ]
    >>> round(expected_calibration_error(y_true, y_pred, 2, scheme="bio"), 3)
    0.225
    """
    table = _table(_outcomes(y_true, y_pred, scheme, strict), n_bins, strategy)
    table = table[table["n_segments"] > 0]
    differences = np.abs(table["mean_probability"] - table["fraction_right"])
    return float(np.average(differences, weights=table["n_segments"]))


def segment_brier_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, scheme: str = "runs", strict: bool = False
) -> float:
    """Return the mean squared difference between the probability of segments and 1, if right, or 0.

    This is Brier's score [1]_. Unlike the calibration error, it also measures how well probabilities separate right
    segments from wrong ones. Compare scores only if they refer to the same segments.

    Parameters
    ----------
    y_true : list of sequences
        As in :func:`segment_outcomes`.
    y_pred : list of sequences of segments
        As in :func:`segment_outcomes`.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        As in :func:`segment_outcomes`.
    strict : bool, default=False
        As in :func:`segment_outcomes`.

    Returns
    -------
    score : float
        From 0, the best, to 1.

    Raises
    ------
    TypeError, ValueError
        As for :func:`segment_outcomes`, and if there are no segments.

    References
    ----------
    .. [1] Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78, 1950.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_brier_score
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [
    ...     [(0, 2, "PER", 0.9), (0, 1, "PER", 0.1), (3, 4, "PER", 0.3), (3, 4, "LOC", 0.6)]
    ... ]
    >>> round(segment_brier_score(y_true, y_pred, scheme="bio"), 4)
    0.0675
    """
    is_right, probability = _outcomes(y_true, y_pred, scheme, strict)
    return float(np.mean((probability - is_right) ** 2))


def _outcomes(y_true: LabelSequences, y_pred: LabelSequences, scheme: str, strict: bool) -> SegmentOutcomes:
    outcomes = segment_outcomes(y_true, y_pred, scheme=scheme, strict=strict)
    if not len(outcomes.is_right):
        raise ValueError("y_pred has no segments, so there are no probabilities to assess")
    return outcomes


def _table(outcomes: SegmentOutcomes, n_bins: int, strategy: str) -> np.ndarray:
    if not isinstance(n_bins, Integral) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer >= 1, got {n_bins!r:.80}")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy must be 'uniform' or 'quantile', got {strategy!r:.80}")
    edges = np.linspace(0.0, 1.0, int(n_bins) + 1)
    if strategy == "quantile":
        edges = np.unique(np.quantile(outcomes.probability, edges))
        edges = np.repeat(edges, 2) if len(edges) == 1 else edges  # all are equal: one bin
    number = np.searchsorted(edges[1:-1], outcomes.probability)
    table = np.empty(len(edges) - 1, dtype=TABLE)
    table["low"], table["high"] = edges[:-1], edges[1:]
    table["n_segments"] = count = np.bincount(number, minlength=len(table))
    with np.errstate(invalid="ignore"):
        table["mean_probability"] = np.bincount(number, outcomes.probability, len(table)) / count
        table["fraction_right"] = np.bincount(number, outcomes.is_right, len(table)) / count
    return table


# --- segments with probabilities --------------------------------------------------------------------------------------


def _read_predicted(y_pred: LabelSequences, lengths: np.ndarray | None, n_sequences: int) -> list[tuple]:
    """Return (sequence, start, stop, label, probability) of each segment; ``lengths`` may be None."""
    sequences = list_sequences(y_pred, "y_pred", "segments")
    refuse_other_number(n_sequences, len(sequences))
    predicted, seen = [], set()
    for n, segments in enumerate(sequences):
        for i, segment in enumerate(tuples_of_segments(segments, f"y_pred[{n}] (sequence {n})", FIELDS)):
            where = f"sequence {n}, position {i}"
            start, stop, label = _read_segment(segment, where, None if lengths is None else lengths[n])
            if (n, start, stop, label) in seen:
                raise ValueError(f"y_pred has the segment {short((start, stop, label))} twice ({where})")
            seen.add((n, start, stop, label))
            predicted.append((n, start, stop, label, float(segment[3])))
    return predicted


def _read_segment(segment: Any, where: str, length: int | None) -> tuple:
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
