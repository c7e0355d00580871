"""Pictures of the weights of label patterns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._data.texts import escaped, visible
from .._display import Display, bar, html_table, number, pyplot, table_of
from .._estimator.fitted_model import FittedModel
from ._bars import bars
from ._weights import weights

__all__ = ["PatternWeightsDisplay"]

_MOST_LABELS = 25  # of a matrix of weights


class PatternWeightsDisplay(Display):
    """Display of the weights of label patterns themselves: pairs of labels as a matrix, others as bars.

    Notebooks show it as HTML.

    Parameters
    ----------
    patterns : list of tuples of labels
        The patterns to show.
    weights : list of float
        The weight of each pattern, the largest first.
    labels : list of labels or None, default=None
        If given, the patterns are pairs of these labels, shown as a matrix.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After :meth:`plot`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import PatternWeightsDisplay
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> PatternWeightsDisplay.from_estimator(HighOrderCRF().fit(X, y))
    first  ADJ    DET  NOUN
    ADJ                0.493
    DET    0.493       0.338
    NOUN
    """

    def __init__(self, patterns: list[tuple], weights: list[float], labels: list | None = None) -> None:
        self.patterns, self.weights, self.labels = patterns, weights, labels

    @classmethod
    def from_estimator(cls, estimator: Any, *, order: int | None = 1, top: int = 20) -> Self:
        """Return the display of weights of a fitted model.

        Parameters
        ----------
        estimator : HighOrderCRF, HighOrderSemiCRF, or a pipeline or search around one
            The fitted model.
        order : int or None, default=1
            The order of the patterns; None means all orders from 1.
        top : int, default=20
            Number of patterns to show as bars, those with the largest weights. Pairs of labels are shown as a matrix if
            there are at most 25 labels.

        Returns
        -------
        display : PatternWeightsDisplay
            The display, not yet plotted.

        Raises
        ------
        ValueError
            If the model has no weights of patterns of this order.
        """
        fitted = FittedModel.inside(estimator)
        labels, table = fitted.labels.tolist(), weights(fitted.estimator, feature=False, order=order, top=None)
        rows = [row for row in table if order is not None or row.order > 0]
        as_matrix = order == 1 and len(labels) <= _MOST_LABELS
        rows = rows if as_matrix else rows[:top]
        return cls([row.pattern for row in rows], [row.weight for row in rows], labels if as_matrix else None)

    def matrix(self) -> np.ndarray:
        """Return the weights of pairs of labels, by first and second label.

        Returns
        -------
        matrix : ndarray of shape (n_labels, n_labels)
            nan where a pair has no weight.
        """
        if self.labels is None:
            raise ValueError("the display contains the patterns with the largest weights, not all pairs of labels")
        place = {label: i for i, label in enumerate(self.labels)}
        matrix = np.full((len(place),) * 2, np.nan)
        for (first, second), weight in zip(self.patterns, self.weights, strict=True):
            matrix[place[first], place[second]] = weight
        return matrix

    def _rows(self) -> list[list]:
        if self.labels is None:
            return [[pattern, weight] for pattern, weight in zip(self.patterns, self.weights, strict=True)]
        rows = zip(self.labels, self.matrix().tolist(), strict=True)
        return [[label, *(None if np.isnan(weight) else weight for weight in row)] for label, row in rows]

    def __repr__(self) -> str:
        return repr(table_of(("pattern", "weight") if self.labels is None else ("first", *self.labels), self._rows()))

    def _repr_html_(self) -> str:
        largest = max(map(abs, self.weights), default=1.0)
        if self.labels is None:
            rows = [
                [escaped(" ".join(map(visible, pattern))), number(weight), bar(weight, largest, signed=True)]
                for pattern, weight in self._rows()
            ]
            head = ["pattern", "weight", '<div style="width:10em"></div>']
            return html_table(head, rows, ["start", "right", "start"])
        rows = [
            [escaped(label), *("" if w is None else number(w) + bar(w, largest, signed=True) for w in row)]
            for label, *row in self._rows()
        ]
        table = html_table(["", *map(escaped, self.labels)], rows, ["start"] + ["right"] * len(self.labels))
        return f'<div style="overflow-x:auto">{table}</div>'

    def _plot(self, ax: Any) -> Any:
        """Plot the matrix of pairs of labels, or bars, and return the Axes."""
        if self.labels is None:
            names = [" ".join(map(str, pattern)) for pattern in self.patterns]
            return bars(names, self.weights, "weight", ax)
        if ax is None:
            _, ax = pyplot().subplots(layout="constrained")
        matrix, largest = self.matrix(), max(map(abs, self.weights), default=1.0)
        image = ax.imshow(matrix, cmap="RdBu", vmin=-largest, vmax=largest)  # blue is positive, as everywhere here
        ax.figure.colorbar(image, ax=ax, label="weight")
        places, names = range(len(self.labels)), [visible(label) for label in self.labels]
        ax.set_xticks(places, names, rotation=60, ha="right", rotation_mode="anchor", parse_math=False)
        ax.set_yticks(places, names, parse_math=False)
        ax.set(xlabel="second label", ylabel="first label")
        return ax
