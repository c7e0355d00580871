"""Plots of searches."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._display import LINES, MARKERS, pyplot
from ._groups import column_name, group_name

if TYPE_CHECKING:
    from ._penalty_search import PenaltySearchCV

__all__ = ["PenaltySearchDisplay"]


class PenaltySearchDisplay:
    """Penalties and score of a :class:`PenaltySearchCV`, step by step.

    Create it by :meth:`from_search`. Plotting requires matplotlib.

    Parameters
    ----------
    sigma : dict of str to ndarray of shape (n_steps,)
        ``sigma_reg`` by the name of the group; nan for steps without this group.
    score : ndarray of shape (n_steps,)
        Mean log-likelihood per held-out token.
    best_index : int
        Index of the best step.

    Attributes
    ----------
    axes_ : ndarray of two matplotlib Axes
        Penalties above, score below; after :meth:`plot`.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib  # pip install matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.model_selection import PenaltySearchCV, PenaltySearchDisplay
    >>> X = [
    ...     [["the"], ["old"], ["man"]],
    ...     [["the"], ["man"]],
    ...     [["old"], ["man"]],
    ...     [["the"], ["old"], ["man"]],
    ... ]
    >>> y = [
    ...     ["DET", "ADJ", "NOUN"],
    ...     ["DET", "NOUN"],
    ...     ["ADJ", "NOUN"],
    ...     ["DET", "ADJ", "NOUN"],
    ... ]
    >>> search = PenaltySearchCV(HighOrderCRF(), cv=2, max_steps=3).fit(X, y)
    >>> display = PenaltySearchDisplay.from_search(search)
    >>> list(display.sigma)
    ['features, order 0', 'patterns, order 0', 'patterns, order 1']
    """

    def __init__(self, sigma: dict[str, np.ndarray], score: np.ndarray, best_index: int) -> None:
        self.sigma, self.score, self.best_index = sigma, score, best_index

    @classmethod
    def from_search(cls, search: PenaltySearchCV, *, axes: Any = None) -> Self:
        """Return the display of a fitted search, plotted.

        Parameters
        ----------
        search : PenaltySearchCV
            The fitted search.
        axes : sequence of two matplotlib Axes, default=None
            Axes to plot on; None creates a new figure.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        """
        check_is_fitted(search)
        results = search.cv_results_
        keys = dict.fromkeys(
            key for params in results["params"] for name in params if name.endswith("sigma_reg") for key in params[name]
        )
        sigma = {group_name(key): results[f"sigma_{column_name(key)}"] for key in keys}
        return cls(sigma, results["mean_test_score"], search.best_index_).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Plot penalties above the score.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Axes to plot on; None creates a new figure.

        Returns
        -------
        display : PenaltySearchDisplay
        """
        if axes is None:
            _, axes = pyplot().subplots(2, 1, sharex=True, figsize=(7.0, 5.0), layout="constrained")
        above, below = axes
        steps = np.arange(1, len(self.score) + 1)
        styles = zip(itertools.cycle(LINES), itertools.cycle(MARKERS), itertools.cycle(("-", "--", "-.")), strict=False)
        for (name, values), (color, marker, line) in zip(self.sigma.items(), styles, strict=False):
            above.plot(steps, values, color=color, marker=marker, markersize=4, linestyle=line, label=name)
        above.set(yscale="log", ylabel="sigma_reg")
        above.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
        below.plot(steps, self.score, marker=".", color="black")
        for panel in above, below:
            panel.axvline(self.best_index + 1, color="gray", linestyle=":", zorder=0)
            panel.locator_params(axis="x", integer=True)  # steps are whole numbers
        below.set(xlabel="step", ylabel="held-out log-likelihood\nper token")
        self.axes_, self.figure_ = np.array([above, below], dtype=object), above.figure
        return self
