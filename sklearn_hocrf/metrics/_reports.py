"""Tables of precision, recall and F1 by label, in the layout of scikit-learn's ``classification_report``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from numpy.typing import ArrayLike

from ._counts import Counts, count_segments, count_tokens
from ._reading import LabelSequences
from ._token_scores import PrecisionRecallF1, all_scores

__all__ = ["segment_classification_report", "token_classification_report"]

AVERAGES = ("micro", "macro", "weighted")
COLUMNS = ("precision", "recall", "f1-score", "support")


def token_classification_report(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: Iterable[Hashable] | None = None,
    ignore: Iterable[Hashable] = (),
    digits: int = 2,
    output_dict: bool = False,
    zero_division: str | float = "warn",
    sample_weight: ArrayLike | None = None,
) -> str | dict[str, Any]:
    """Return a table of precision, recall, F1 and support of each token label, and of their averages.

    Parameters
    ----------
    y_true, y_pred : list of sequences
        True and predicted labels: lists or arrays of shape (n_tokens,). Sequences may be empty.
    labels : list of labels, default=None
        The labels to score, in this order. None: all labels in ``y_true`` or ``y_pred``, sorted.
    ignore : list of labels, default=()
        Labels not to score, such as ``["O"]``.
    digits : int, default=2
        Number of decimals of the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text, with unrounded values.
    zero_division : {"warn", 0, 1, nan}, default="warn"
        Value of a ratio 0 / 0; "warn" is 0 with an :class:`~sklearn.exceptions.UndefinedMetricWarning`. Averages ignore
        nan.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens.

    Returns
    -------
    report : str or dict
        The dict maps str(label), "macro avg" and "weighted avg" to dicts of "precision", "recall", "f1-score" and
        "support", and "accuracy" to a number. If some labels are not scored, "micro avg" replaces "accuracy".

    Raises
    ------
    ValueError, TypeError
        As for :func:`token_precision_recall_f1`.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import token_classification_report
    >>> y_true, y_pred = [["A", "A", "O"], ["B", "O"]], [["A", "O", "O"], ["B", "B"]]
    >>> print(token_classification_report(y_true, y_pred, ignore=["O"]))
                  precision    recall  f1-score   support
    <BLANKLINE>
               A       1.00      0.50      0.67         2
               B       0.50      1.00      0.67         1
    <BLANKLINE>
       micro avg       0.67      0.67      0.67         3
       macro avg       0.75      0.75      0.67         3
    weighted avg       0.83      0.67      0.67         3
    <BLANKLINE>
    """
    counts = count_tokens(y_true, y_pred, labels=labels, ignore=ignore)
    by_label = all_scores(counts, None, zero_division, sample_weight, "tokens")
    averages = _averages(counts, zero_division, sample_weight)
    n_tokens = sum(len(labels) for labels in y_true)
    all_scored = counts.totals()[1:].sum() == 2 * n_tokens  # then the micro average is the accuracy
    return _report(by_label, averages, all_scored, digits, output_dict)


def segment_classification_report(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str = "runs",
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
    >>> print(segment_classification_report(y_true, y_pred, scheme="bio"))
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
    by_label = all_scores(counts, None, zero_division, sample_weight, "segments")
    averages = _averages(counts, zero_division, sample_weight)
    return _report(by_label, averages, False, digits, output_dict)


def _averages(counts: Counts, zero_division: str | float, sample_weight: ArrayLike | None) -> dict[str, tuple]:
    """Return the rows of the averages, without warnings: the rows of the labels have already warned."""
    quiet = 0 if isinstance(zero_division, str) else zero_division
    return {f"{average} avg": all_scores(counts, average, quiet, sample_weight, "")[:4] for average in AVERAGES}


def _report(
    by_label: PrecisionRecallF1, averages: dict[str, tuple], has_accuracy: bool, digits: int, output_dict: bool
) -> str | dict[str, Any]:
    columns: tuple[Any, ...] = by_label[:4]
    rows = {str(label): values for label, *values in zip(by_label.labels, *columns, strict=True)}
    if output_dict:
        report: dict[str, Any] = {
            name: dict(zip(COLUMNS, map(float, row), strict=True)) for name, row in (rows | averages).items()
        }
        if has_accuracy:
            accuracy = report.pop("micro avg")["precision"]
            report = {**{name: report[name] for name in rows}, "accuracy": accuracy} | report
        return report
    width = max(len(name) for name in (*rows, *averages, " " * digits))
    lines = [_line("", COLUMNS, width), ""]
    lines += [_line(name, _cells(row, digits), width) for name, row in rows.items()]
    lines.append("")
    for name, row in averages.items():
        cells = _cells(row, digits)
        if has_accuracy and name == "micro avg":
            name, cells = "accuracy", ["", "", *cells[2:]]
        lines.append(_line(name, cells, width))
    return "\n".join(lines) + "\n"


def _cells(row: Iterable[Any], digits: int) -> list[str]:
    *ratios, support = row
    return [*(f"{value:.{digits}f}" for value in ratios), str(support)]


def _line(name: str, cells: Iterable[str], width: int) -> str:
    return f"{name:>{width}} " + "".join(f" {cell:>9}" for cell in cells)
