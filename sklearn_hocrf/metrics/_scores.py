"""Scores of tokens, whole sequences and exact segments, computed with scikit-learn's functions, and scorers of models.

A segment is correct if its start, stop and label are correct.

Scorers are functions of an estimator, X and y, for searches and cross-validation.

scikit-learn's own scorers, such as "accuracy" and "f1_macro", take one label per sample, so they cannot score
sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sized
from typing import Any, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import classification_report, f1_score, precision_recall_fscore_support

from .._data.checks import check_choice
from .._data.messages import warn_user
from .._reading.known import lengths_of_targets
from .._reading.label_sequences import (
    LabelSequences,
    hold_any_segments,
    read_segment_lists,
    read_segmentations,
    refuse_other_sizes,
)
from .._reading.values import is_ordered_collection, unmasked, without_columns
from .._sklearn.layers import method_of_model, model_inside
from ._items import Items, check_weight, items_of_segments, items_of_tokens, read_items

AVERAGES = ("micro", "macro", "weighted")
Four = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class ScoreOptions(TypedDict, total=False):
    """Options of the segment scores, for type checkers, except ``average``, which determines the type of the result."""

    scheme: str
    strict: bool
    labels: Iterable[Hashable] | None
    zero_division: str | float
    sample_weight: ArrayLike | None


class SegmentOutcomes(NamedTuple):
    """All predicted segments in order, each marked correct or wrong, with its probability.   M segments.

    The result of :func:`segment_outcomes`; see the examples there.
    """

    is_right: np.ndarray  # (M,) bool
    probability: np.ndarray  # (M,) float64


# --- tokens and sequences ---------------------------------------------------------------------------------------------


def _share(right: np.ndarray, weight: np.ndarray, items: str) -> float:
    if not weight.any():
        raise ValueError(f"there are no {items} with a weight above 0, so there is no accuracy")
    return float(np.average(right, weights=weight))


def token_accuracy_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of tokens with the correct label.

    For the F1 of token labels, see :func:`token_f1_scorer`; for reports, call scikit-learn's functions with flattened
    lists.

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
    (items,) = items_of_tokens(y_true=y_true, y_pred=y_pred)
    weight = check_weight(sample_weight, items.n_sequences)[items.sequence]
    return _share(items.true == items.predicted, weight, "tokens")


def sequence_accuracy_score(
    y_true: LabelSequences, y_pred: LabelSequences, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of sequences without an error.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts. The two may
        have different forms; if one contains tags, segments of the other that are labelled "O" do not count. Segments
        may be in any order. Empty sequences are correct.
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
    labellings = {"y_true": y_true, "y_pred": y_pred}
    (items,) = items_of_segments(labellings) if hold_any_segments(**labellings) else items_of_tokens(**labellings)
    return _share(items.right_sequences, check_weight(sample_weight, items.n_sequences), "sequences")


# --- segments ---------------------------------------------------------------------------------------------------------


@overload
def segment_precision_recall_fscore_support(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: None = None, **options: Unpack[ScoreOptions]
) -> Four: ...
@overload
def segment_precision_recall_fscore_support(
    y_true: LabelSequences, y_pred: LabelSequences, *, average: str, **options: Unpack[ScoreOptions]
) -> tuple[float, float, float, None]: ...
def segment_precision_recall_fscore_support(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    strict: bool = False,
    labels: Iterable[Hashable] | None = None,
    average: str | None = None,
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> Four | tuple[float, float, float, None]:
    """Return precision, recall, F1 and support of exact segments, as ``precision_recall_fscore_support`` does.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts. The two may
        have different forms; if one contains tags, segments of the other that are labelled "O" do not count.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        The scheme by which token labels encode segments (see :func:`~sklearn_hocrf.text.extract_segments`). "auto"
        means the scheme that all labels in ``y_true`` and ``y_pred`` fit; the function warns if they also fit another
        one.
    strict : bool, default=False
        Whether to leave invalid tags out of segments (see :func:`~sklearn_hocrf.text.extract_segments`).
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None means all labels in ``y_true`` or
        ``y_pred``, sorted. Pass labels to leave out runs of "O", or segments between names that only one of ``y_true``
        and ``y_pred`` contains.
    average : {"micro", "macro", "weighted"} or None, default=None
        None returns one value for each label, "micro" the ratio of counts summed over labels, "macro" the mean over
        labels, and "weighted" the mean over labels, weighted by their support.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" means 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages
        ignore nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    precision : float, or ndarray of shape (n_labels,), float64, with ``average=None``
        The share of predicted segments that are correct.
    recall : float, or ndarray of shape (n_labels,), float64
        The share of true segments that are found.
    fscore : float, or ndarray of shape (n_labels,), float64
        F1, 2 correct / (predicted + true).
    support : None, or ndarray of shape (n_labels,), int64, or float64 with weights
        The number of true segments of each label; None if averaged.

    Raises
    ------
    ValueError
        If lengths differ, if a tag or a segment is invalid, or if a parameter has an invalid value.
    TypeError
        If y is not a list of label sequences or segment lists, or if labels cannot be sorted together.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_precision_recall_fscore_support
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "B-LOC", "I-LOC"]]
    >>> segment_precision_recall_fscore_support(y_true, y_pred, labels=["PER", "LOC"])
    (array([1., 0.]), array([1., 0.]), array([1., 0.]), array([1, 1]))
    >>> y_true, y_pred = [[(0, 2, "PER"), (3, 4, "LOC")]], [[(0, 2, "PER"), (2, 4, "LOC")]]
    >>> segment_precision_recall_fscore_support(y_true, y_pred, average="micro")
    (0.5, 0.5, 0.5, None)
    """
    items = read_items(y_true, y_pred, scheme, strict, labels, sample_weight)
    return _scores(items, average, zero_division)


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
    average: str | None = "micro",
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> float | np.ndarray:
    """Return the F1 of exact segments: 2 correct / (predicted + true).

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts. The two may
        have different forms; if one contains tags, segments of the other that are labelled "O" do not count.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        The scheme by which token labels encode segments (see :func:`~sklearn_hocrf.text.extract_segments`). "auto"
        means the scheme that all labels in ``y_true`` and ``y_pred`` fit; the function warns if they also fit another
        one.
    strict : bool, default=False
        Whether to leave invalid tags out of segments (see :func:`~sklearn_hocrf.text.extract_segments`).
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None means all labels in ``y_true`` or
        ``y_pred``, sorted. Pass labels to leave out runs of "O", or segments between names that only one of ``y_true``
        and ``y_pred`` contains.
    average : {"micro", "macro", "weighted"} or None, default="micro"
        As for :func:`segment_precision_recall_fscore_support`.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" means 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages
        ignore nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    f1 : float, or ndarray of shape (n_labels,) with ``average=None``

    Raises
    ------
    ValueError, TypeError
        As for :func:`segment_precision_recall_fscore_support`.

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
    items = read_items(y_true, y_pred, scheme, strict, labels, sample_weight)
    return _scores(items, average, zero_division, warn_for=("f-score",))[2]


def segment_classification_report(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    strict: bool = False,
    labels: Iterable[Hashable] | None = None,
    digits: int = 2,
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> str:
    """Return a table of the precision, recall, F1 and support of exact segments, for each label and averaged.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts. The two may
        have different forms; if one contains tags, segments of the other that are labelled "O" do not count.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        The scheme by which token labels encode segments (see :func:`~sklearn_hocrf.text.extract_segments`). "auto"
        means the scheme that all labels in ``y_true`` and ``y_pred`` fit; the function warns if they also fit another
        one.
    strict : bool, default=False
        Whether to leave invalid tags out of segments (see :func:`~sklearn_hocrf.text.extract_segments`).
    labels : list of labels, default=None
        The labels of segments to score ("PER", not "B-PER"), in this order. None means all labels in ``y_true`` or
        ``y_pred``, sorted. Pass labels to leave out runs of "O", or segments between names that only one of ``y_true``
        and ``y_pred`` contains.
    digits : int, default=2
        Number of decimal places.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" means 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages
        ignore nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    report : str
        For unrounded values, see :func:`segment_precision_recall_fscore_support`.

    Raises
    ------
    ValueError, TypeError
        As for :func:`segment_precision_recall_fscore_support`.

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
    items = read_items(y_true, y_pred, scheme, strict, labels, sample_weight)
    names = [str(label) for label in items.labels]
    report = _ask(classification_report, items, zero_division, digits=digits, target_names=names or [""])
    head, _, body = report.partition("\n\n")
    rest = body.partition("\n")[2]  # without the row of the label that does not occur
    return f"{head}\n\n{body if names else rest}"


def segment_confusion_matrix(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "auto",
    strict: bool = False,
    labels: Iterable[Hashable] | None = None,
    sample_weight: ArrayLike | None = None,
) -> np.ndarray:
    """Return how often segments of one label are predicted as segments of another label, with the same start and stop.

    If a predicted segment has the same start and stop as a true segment, the pair counts in the row of the true label
    and the column of the predicted label. Otherwise, the true segment is missed and counts in the last column. A
    predicted segment whose start and stop match no true segment is spurious and counts in the last row. Correct
    segments are therefore on the diagonal, the row of each label sums to its number of true segments, and the column of
    each label to its number of predicted segments. A segment with a wrong boundary counts twice, as missed and as
    spurious; :func:`sklearn_hocrf.inspection.error_table` shows which errors are of this kind.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts. The two may
        have different forms; if one contains tags, segments of the other that are labelled "O" do not count.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        The scheme by which token labels encode segments (see :func:`~sklearn_hocrf.text.extract_segments`). "auto"
        means the scheme that all labels in ``y_true`` and ``y_pred`` fit; the function warns if they also fit another
        one.
    strict : bool, default=False
        Whether to leave invalid tags out of segments (see :func:`~sklearn_hocrf.text.extract_segments`).
    labels : list of labels, default=None
        The labels of segments ("PER", not "B-PER") of the rows and columns, in this order; segments with other labels
        are left out. None means all labels in ``y_true`` or ``y_pred``, sorted.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    matrix : ndarray of shape (n_labels + 1, n_labels + 1), int64, or float64 with weights
        The counts: rows are true labels and, last, spurious segments; columns are predicted labels and, last, missed
        segments.

    Raises
    ------
    TypeError, ValueError
        If labels or segments are invalid, or if ``y_true`` and ``y_pred`` differ in the number of sequences or in the
        length of a sequence.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import segment_confusion_matrix
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "O", "B-PER", "B-PER", "O", "O"]]
    >>> segment_confusion_matrix(y_true, y_pred, labels=["LOC", "PER"])
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 2, 0]])

    Plot the matrix with the names of its rows and columns:

    >>> from sklearn.metrics import ConfusionMatrixDisplay
    >>> matrix = segment_confusion_matrix(y_true, y_pred)
    >>> names = ["LOC", "PER", "none"]
    >>> plot = ConfusionMatrixDisplay(
    ...     matrix, display_labels=names
    ... ).plot()  # pip install matplotlib
    """
    items = read_items(y_true, y_pred, scheme, strict, labels, sample_weight)
    weight = np.ones(len(items.true), dtype=np.int64) if items.weight is None else items.weight
    matrix = np.zeros([len(items.labels) + 1] * 2, dtype=weight.dtype)
    np.add.at(matrix, (items.true, items.predicted), weight)  # the code -1 is the last row, or column
    return matrix


def segment_outcomes(
    y_true: LabelSequences, y_pred: LabelSequences, *, scheme: str = "auto", strict: bool = False
) -> SegmentOutcomes:
    """Return which segments are correct, and their probabilities.

    Pass the result to :class:`sklearn.calibration.CalibrationDisplay` or to scikit-learn's other tools for
    probabilities of two classes; see the examples.

    Parameters
    ----------
    y_true : list of sequences
        Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts.
    y_pred : list of sequences of segments
        Segments with probabilities, such as the arrays that ``predict_segments(X, threshold=0)`` returns, or lists of
        (start, stop, label, probability). You may pass all segments with a positive probability, or only the segments
        of the best labelling.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        The scheme by which labels of ``y_true`` encode segments (see :func:`~sklearn_hocrf.text.extract_segments`).
    strict : bool, default=False
        Whether to leave invalid tags out of segments (see :func:`~sklearn_hocrf.text.extract_segments`).

    Returns
    -------
    outcomes : SegmentOutcomes
        Named tuple of ``is_right``, bool, and ``probability``, both of shape (n_segments,), in the order of ``y_pred``.
        A segment is correct if ``y_true`` contains one with the same start, stop and label.

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
    (true,) = read_segmentations({"y_true": y_true}, scheme, strict)
    predicted = read_segment_lists(y_pred, "y_pred", needs_probability=True)
    refuse_other_sizes({"y_true": true, "y_pred": predicted})
    probability, right = np.array(predicted.probability, dtype=np.float64), set(true.rows)
    for i in np.flatnonzero(~((probability >= 0) & (probability <= 1)))[:1].tolist():
        raise ValueError(f"the probability {probability[i]} of y_pred ({predicted.position(i)}) is not in [0, 1]")
    return SegmentOutcomes(np.array([row in right for row in predicted.rows], dtype=bool), probability)


def _scores(items: Items, average: str | None, zero_division: str | float, **options: Any) -> Any:
    """Return precision, recall, F1 and support."""
    if average is not None:
        check_choice("average", average, AVERAGES)
    scores = _ask(precision_recall_fscore_support, items, zero_division, average=average, **options)
    return tuple(values[: len(items.labels)] for values in scores) if average is None else scores


def _ask(score: Callable, items: Items, zero_division: str | float, **options: Any) -> Any:
    """Call a scikit-learn score for all labels or, if there are no labels, for a label that does not occur.

    The function adds an item that has no label and affects no count. Because of this item, some data have a positive
    weight, reports contain no accuracy row, and counts are integers.
    """
    true, predicted = np.append(items.true, -1), np.append(items.predicted, -1)
    options["sample_weight"] = None if items.weight is None else np.append(items.weight, 1.0)
    return score(true, predicted, labels=range(max(len(items.labels), 1)), zero_division=zero_division, **options)


def segment_f1_scorer(estimator: BaseEstimator, X: Sized, y: Sized, sample_weight: ArrayLike | None = None) -> float:
    """Return the micro-averaged F1 of exact segments: ``segment_f1_score(y, estimator.predict(X))``.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools.

    The function reads segments with the scheme of the model: that of a :class:`~sklearn_hocrf.HighOrderSemiCRF` or, for
    a :class:`~sklearn_hocrf.HighOrderCRF`, the scheme that its ``constraints`` name or else that of its labels. The
    model may be inside a pipeline, a search or a calibrated model. For other models, the function infers the scheme
    from the labels. For other parameters and averages, see the recipe for scorers in the user guide:
    https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/recipes.html.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    score : float

    Raises
    ------
    TypeError, ValueError
        As for :func:`segment_f1_score`.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X = [[["Ann"], ["left"]], [["Bob"], ["met"], ["Ann"]]] * 3
    >>> y = [["B-PER", "O"], ["B-PER", "O", "B-PER"]] * 3
    >>> cross_val_score(HighOrderCRF(), X, y, cv=3, scoring=metrics.segment_f1_scorer)
    array([1., 1., 1.])
    """
    scheme = getattr(model_inside(estimator), "scheme_", "auto")
    return float(segment_f1_score(*_labels(estimator, X, y), scheme=scheme, sample_weight=sample_weight))


def token_accuracy_scorer(
    estimator: BaseEstimator, X: Sized, y: Sized, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of tokens with the correct label, for any estimator that predicts sequences of labels.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools. The ``score`` method of this package's estimators returns the same value, unless y contains lists of
    segments.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens.

    Returns
    -------
    score : float

    Raises
    ------
    TypeError, ValueError
        As for :func:`token_accuracy_score`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X, y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
    >>> metrics.token_accuracy_scorer(HighOrderCRF().fit(X, y), X, [["A", "B"], ["A"]])
    0.6666666666666666
    """
    return token_accuracy_score(*_labels(estimator, X, y), sample_weight=sample_weight)


def token_f1_scorer(estimator: BaseEstimator, X: Sized, y: Sized, sample_weight: ArrayLike | None = None) -> float:
    """Return the macro-averaged F1 of token labels: the mean of the F1 of each label.

    Rare labels count as much as frequent ones. Pass the function as ``scoring=`` to
    :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar tools.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens. Sequences of weight 0 do not count.

    Returns
    -------
    score : float
        The result of scikit-learn's ``f1_score(..., average="macro")`` for the labels of all tokens.

    Raises
    ------
    TypeError, ValueError
        As for :func:`token_accuracy_score`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X, y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
    >>> metrics.token_f1_scorer(HighOrderCRF().fit(X, y), X, [["A", "B"], ["A"]])
    0.6666666666666666
    """
    y_true, y_pred = _labels(estimator, X, y)
    (items,) = items_of_tokens(y_true=y_true, y_pred=y_pred)
    weight = check_weight(sample_weight, items.n_sequences)[items.sequence]
    counts = weight > 0
    if not counts.any():
        raise ValueError("there are no tokens with a weight above 0, so there is no F1")
    return float(f1_score(items.true[counts], items.predicted[counts], average="macro", sample_weight=weight[counts]))


def sequence_accuracy_scorer(
    estimator: BaseEstimator, X: Sized, y: Sized, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of sequences without an error, for example of addresses without an incorrect label.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels or segments.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence.

    Returns
    -------
    score : float

    Raises
    ------
    TypeError, ValueError
        As for :func:`sequence_accuracy_score`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X, y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
    >>> metrics.sequence_accuracy_scorer(HighOrderCRF().fit(X, y), X, [["A", "B"], ["A"]])
    0.5
    """
    return sequence_accuracy_score(*_labels(estimator, X, y), sample_weight=sample_weight)


def log_likelihood_scorer(
    estimator: BaseEstimator, X: Sized, y: Sized, sample_weight: ArrayLike | None = None
) -> float:
    """Return the log-likelihood per token: the sum over sequences of log P(y given x), divided by the number of tokens.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools. The estimator may be a model of this package, a pipeline that ends in one, or a search over either of these.

    A labelling has probability 0 if it contains a label that did not occur in training, or if the model forbids it, for
    example because a segment is too long. The score is then -inf.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels. Sequences whose labels are None do not count.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens. Sequences of weight 0 do not count.

    Returns
    -------
    score : float
        Log-likelihood per token in nats, at most 0.

    Raises
    ------
    AttributeError
        If the estimator has no ``log_likelihood``.
    ValueError
        If there are no tokens of positive weight, or if the data are invalid.

    Warns
    -----
    UserWarning
        If sequences have probability 0; the message gives their number.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]] * 3
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]] * 3
    >>> grid = {"sigma_reg": [0.1, 1, 10]}
    >>> search = GridSearchCV(
    ...     HighOrderCRF(), grid, cv=3, scoring=metrics.log_likelihood_scorer
    ... ).fit(X, y)
    >>> search.cv_results_["mean_test_score"].round(2)
    array([-1.07, -0.29, -0.01])
    """
    log_p = method_of_model(estimator, "log_likelihood")(X, y, unknown="impossible")
    weight = check_weight(sample_weight, len(log_p))
    # a tuple of valid labels is a sequence, not a label
    y = [list(labels) if isinstance(labels, tuple) else labels for labels in without_columns(y)]
    lengths: Any = lengths_of_targets(y, "log_likelihood_scorer", "auto")[0]
    counts = weight > 0
    log_p, weight, lengths = log_p[counts], weight[counts], lengths[counts]
    if lengths.sum() == 0:
        raise ValueError("X has no tokens of positive weight, so the mean log-likelihood is undefined")
    n_impossible = int(np.isneginf(log_p).sum())
    if n_impossible:
        warn_user(
            f"{n_impossible} of {len(log_p)} sequences have probability 0, because of labels that did not occur in "
            "training, or because the model forbids or prunes them: the mean is -inf"
        )
    return float(weight @ log_p / (weight @ lengths))


def _labels(estimator: BaseEstimator, X: Sized, y: Sized) -> tuple[Any, Any]:
    """Return true and predicted labels as sequences; the rows of a plain table are sequences of one token."""
    return _as_sequences(y), _as_sequences(estimator.predict(X))


def _as_sequences(y: Any) -> Any:
    """Return label sequences unchanged, and plain labels as sequences of one label."""
    labels = unmasked(y) if hasattr(y, "__array__") else y
    if not is_ordered_collection(labels) or any(map(is_ordered_collection, labels)):
        return y
    return [[label] for label in labels]
