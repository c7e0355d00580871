"""Pictures of explanations."""

from __future__ import annotations

from typing import Any, Self

from .._data.texts import visible
from .._display import Display, Table
from ._bars import bars
from ._explanation import Explanation, explain
from ._reasons import Reason, explanation_html, reasons_of

__all__ = ["ExplanationDisplay"]


class ExplanationDisplay(Display):
    """Display of why a model prefers a labelling to another one: both labellings, and bars of weight contributions.

    Notebooks show it, and also an :class:`Explanation`, as HTML.

    Parameters
    ----------
    explanation : Explanation
        What :func:`explain` returns.
    top : int, default=15
        Number of contributions to show, summed by weight; the others are added up.

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
    man: NOUN rather than ADJ: log-odds 0.94
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
        """Return the display of the result of :func:`explain`.

        Parameters
        ----------
        estimator : HighOrderCRF, HighOrderSemiCRF, or a pipeline or search around one
            As in :func:`explain`.
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :func:`explain`.
        sequence : int, default=0
            As in :func:`explain`.
        position : int or None, default=None
            As in :func:`explain`.
        against, field : object, default=None
            As in :func:`explain`.
        top : int, default=15
            Number of contributions to show.

        Returns
        -------
        display : ExplanationDisplay
            The display, not yet plotted.
        """
        return cls(explain(estimator, X, sequence, position, against=against, field=field), top)

    def __repr__(self) -> str:
        shown = reasons_of(self.explanation, self.top)
        rows = [*shown.largest, Reason("", (f"{shown.n_others} others",), None, None, None, shown.sum_of_others)]
        return f"{self.explanation.title}\n{Table(Reason, rows if shown.n_others else shown.largest)!r}"

    def _repr_html_(self) -> str:
        return explanation_html(self.explanation, self.top)

    def _plot(self, ax: Any) -> Any:
        """Plot the contributions as bars, and return the Axes."""
        shown = reasons_of(self.explanation, self.top)
        names, values = [], [reason.contribution for reason in shown.largest]
        for reason in shown.largest:
            feature = "" if reason.feature is None else f", {reason.feature}"
            names.append(f"{' '.join(map(str, reason.pattern))}{feature} @ {reason.tokens}")
        if shown.n_others:
            names.append(f"{shown.n_others} others")
            values.append(shown.sum_of_others)
        drawn = bars(names, values, "log-odds", ax)
        write = drawn.figure.suptitle if ax is None else drawn.set_title
        write(visible(self.explanation.title), fontsize="medium", parse_math=False)
        return drawn
