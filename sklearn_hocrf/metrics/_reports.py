"""Tables of precision, recall and F1 by label, in the layout of scikit-learn's ``classification_report``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from numpy.typing import ArrayLike

from .._docstrings import share_docstring
from ._counts import Counts, count_segments, count_tokens
from ._reading import LabelSequences
from ._segment_scores import segment_precision_recall_f1
from ._token_scores import PrecisionRecallF1, all_scores, token_precision_recall_f1

__all__ = ["segment_classification_report", "token_classification_report"]

AVERAGES = ("micro", "macro", "weighted")
COLUMNS = ("precision", "recall", "f1-score", "support")


@share_docstring(token_precision_recall_f1)
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
    y_true, y_pred, labels, ignore : as in :func:`token_precision_recall_f1`
    digits : int, default=2
        Number of decimals of the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text, with values that are not rounded.
    zero_division, sample_weight : as in :func:`token_precision_recall_f1`

    Returns
    -------
    report : str or dict
        The dict maps str(label), "macro avg" and "weighted avg" to dicts of "precision", "recall", "f1-score" and
        "support", and "accuracy" to a number. If some label is not scored, "micro avg" takes the place of "accuracy".

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


@share_docstring(token_classification_report)
@share_docstring(segment_precision_recall_f1)
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
    y_true, y_pred, scheme, strict, labels, ignore : as in :func:`segment_precision_recall_f1`
    digits, output_dict : as in :func:`token_classification_report`
    zero_division, sample_weight : as in :func:`segment_precision_recall_f1`

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
    """Return the rows of the averages, without warnings: those of the labels say all."""
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
