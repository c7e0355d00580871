"""Pictures of explanations and of weights of label patterns."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from .._data.texts import escaped, visible
from .._display import NEGATIVE, POSITIVE, Table, bar, html_table, number
from ._explanation import Explanation, explain
from ._segments_display import SegmentsDisplay
from ._weights import fitted_model, weights

__all__ = ["ExplanationDisplay", "PatternWeightsDisplay"]

_MOST_LABELS = 25  # of a matrix of weights
_SHORT = 16  # characters of the beginning, and of the end, of long texts


class _Reason(NamedTuple):
    """What one weight contributes, at all places together."""

    tokens: str
    pattern: tuple
    feature: Any
    value: Any  # None where several weights are added up
    weight: Any
    contribution: float


class ExplanationDisplay:
    """Why a model prefers a labelling to another one: both labellings, and bars of the contributions of weights.

    Notebooks show it as HTML, and :class:`Explanation` in the same way.

    Parameters
    ----------
    explanation : Explanation
    top : int, default=15
        How many contributions are shown, those of one weight together; the others are added up.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After :meth:`plot`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import ExplanationDisplay
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF().fit(X, y)
    >>> ExplanationDisplay.from_estimator(crf, X, 1, 1, top=2)
    man: NOUN rather than ADJ: log-odds 0.95
    tokens  pattern   feature  value   weight  contribution
    man     NOUN      man      1.000   0.784          0.784
    man     DET ADJ            -1.000  0.493         -0.493
            3 others                                  0.654
    """

    def __init__(self, explanation: Explanation, top: int = 15) -> None:
        self.explanation, self.top = explanation, top

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        sequence: int = 0,
        position: int | None = None,
        *,
        against: Any = None,
        field: Any = None,
        top: int = 15,
    ) -> Self:
        """Return the display of what :func:`explain` says.

        Parameters
        ----------
        estimator, X, sequence, position, against, field : as in :func:`explain`
        top : int, default=15
            How many contributions are shown.

        Returns
        -------
        display : ExplanationDisplay
            It is not plotted yet.
        """
        return cls(explain(estimator, X, sequence, position, against=against, field=field), top)

    def _reasons(self) -> tuple[list[_Reason], int, float]:
        """Return the largest contributions, those of one weight together, how many others there are, and their sum."""
        rows: dict = {}
        for row in self.explanation.table:
            rows.setdefault((row.pattern, row.feature), []).append(row)
        reasons = []
        for (pattern, feature), same in rows.items():
            sums = sum(row.value for row in same), same[0].weight, sum(row.contribution for row in same)
            reasons.append(_Reason(self._places(same), pattern, feature, *sums))
        reasons.sort(key=lambda reason: -abs(reason.contribution))
        left = reasons[self.top :]
        return reasons[: self.top], len(left), sum(reason.contribution for reason in left)

    def _places(self, rows: list) -> str:
        """Return the text of the tokens of the contributions of one weight."""
        if len(rows) > 1:
            return f"{len(rows)} places"
        stop = rows[0].position + 1 if hasattr(rows[0], "position") else rows[0].stop
        text = " ".join(self.explanation.tokens[rows[0][0] : stop])
        return text if len(text) <= 2 * _SHORT + 3 else f"{text[:_SHORT]} … {text[-_SHORT:]}"

    def __repr__(self) -> str:
        reasons, count, total = self._reasons()
        rows = [*reasons, _Reason("", (f"{count} others",), None, None, None, total)] if count else reasons
        return f"{self.explanation.title}\n{Table(_Reason, rows)!r}"

    def _repr_html_(self) -> str:
        (reasons, count, total), rows = self._reasons(), []
        largest = max((abs(reason.contribution) for reason in reasons), default=1.0)
        for reason in reasons:
            feature = "" if reason.feature is None else reason.feature
            numbers = map(number, (reason.value, reason.weight, reason.contribution))
            cells = map(escaped, (reason.tokens, " ".join(map(visible, reason.pattern)), feature))
            rows.append([*cells, *numbers, bar(reason.contribution, largest, signed=True)])
        if count:
            rows.append(["", f"{count} others", "", "", "", number(total), bar(total, largest, signed=True)])
        rows.append(["", "sum", "", "", "", number(self.explanation.log_odds_paths), '<div style="width:10em"></div>'])
        table = html_table([*_Reason._fields, ""], rows, ["start"] * 3 + ["right"] * 3 + ["start"])
        title = f'<div style="font-weight:600">{escaped(self.explanation.title)}</div>'
        return f"{title}{self._paths()._repr_html_()}{table}"

    def _paths(self) -> SegmentsDisplay:
        """Return the two labellings."""
        both = [self.explanation.labels, self.explanation.labels_against]
        shown = SegmentsDisplay.from_predictions([self.explanation.tokens] * 2, both)
        shown.names = ["best:", "against:"]
        return shown

    def plot(self, ax: Any = None) -> Self:
        """Plot the contributions as bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; None stands for a new figure.

        Returns
        -------
        display : ExplanationDisplay
        """
        reasons, count, total = self._reasons()
        names, values = [], [reason.contribution for reason in reasons]
        for reason in reasons:
            feature = "" if reason.feature is None else f", {reason.feature}"
            names.append(f"{' '.join(map(str, reason.pattern))}{feature} @ {reason.tokens}")
        if count:
            names.append(f"{count} others")
            values.append(total)
        self.ax_ = bars(names, values, "log-odds", ax)
        self.figure_ = self.ax_.figure
        write = self.figure_.suptitle if ax is None else self.ax_.set_title
        write(visible(self.explanation.title), fontsize="medium", parse_math=False)
        return self


class PatternWeightsDisplay:
    """Weights of label patterns themselves: of pairs of labels as a matrix, of others as bars.

    Notebooks show it as HTML.

    Parameters
    ----------
    patterns : list of tuples of labels
    weights : list of float
        The weight of each of them, the largest first.
    labels : list of labels or None, default=None
        With labels, patterns are pairs of them, shown as a matrix.

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
    DET    0.493       0.337
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
        order : int or None, default=1
            The order of the patterns; None stands for all orders from 1 on.
        top : int, default=20
            How many patterns are shown as bars, those of the largest weights. Pairs of labels are shown as a matrix if
            there are at most 25 labels.

        Returns
        -------
        display : PatternWeightsDisplay
            It is not plotted yet.

        Raises
        ------
        ValueError
            If the model has no weights of patterns of this order.
        """
        fitted = fitted_model(estimator)
        labels, table = fitted._labels.tolist(), weights(fitted, feature=False, order=order, top=None)
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
            raise ValueError("these are not all pairs of labels, but the patterns of the largest weights")
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
        class Row(tuple):
            _fields = ("pattern", "weight") if self.labels is None else ("first", *map(visible, self.labels))

        return repr(Table(Row, map(Row, self._rows())))

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

    def plot(self, ax: Any = None) -> Self:
        """Plot the matrix of pairs of labels, or bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; None stands for a new figure.

        Returns
        -------
        display : PatternWeightsDisplay
        """
        if self.labels is None:
            names = [" ".join(map(str, pattern)) for pattern in self.patterns]
            self.ax_ = bars(names, self.weights, "weight", ax)
            self.figure_ = self.ax_.figure
            return self
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        matrix, largest = self.matrix(), max(map(abs, self.weights), default=1.0)
        image = ax.imshow(matrix, cmap="RdBu", vmin=-largest, vmax=largest)  # blue is positive, as everywhere here
        ax.figure.colorbar(image, ax=ax, label="weight")
        places, names = range(len(self.labels)), [visible(label) for label in self.labels]
        ax.set_xticks(places, names, rotation=60, ha="right", rotation_mode="anchor", parse_math=False)
        ax.set_yticks(places, names, parse_math=False)
        ax.set(xlabel="second label", ylabel="first label")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def bars(names: list[str], values: list[float], what: str, ax: Any) -> Any:
    """Plot horizontal bars, the first one above, and return the Axes."""
    if ax is None:
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 0.8 + 0.28 * max(len(names), 1)), layout="constrained")
    places = np.arange(len(values))
    ax.barh(places, values, color=[POSITIVE if value >= 0 else NEGATIVE for value in values])
    ax.axvline(0.0, color="gray", linewidth=0.8)
    ax.set_yticks(places, [visible(name) for name in names], fontsize="small", parse_math=False)
    ax.set(xlabel=what, ylim=(len(values) - 0.5, -0.5))
    return ax
