"""How long the segments of each label are."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from .._data.texts import visible
from .._display import Display, Table, pyplot
from .._estimator.fitted_model import FittedModel, check_probabilities

__all__ = ["Duration", "DurationsDisplay", "durations"]


class Duration(NamedTuple):
    """The lengths of the segments of a label, in tokens.   See :func:`durations`."""

    label: Any
    n_segments: float  # expected by the model
    mean: float
    std: float
    true_n_segments: int | None  # of y, or None
    true_mean: float | None
    true_std: float | None


def durations(estimator: Any, X: Any, y: Any = None) -> Table:
    """Return mean and standard deviation of the lengths of each label's segments, as a model expects them on X.

    They are those of the segments of all segmentations, weighted by their probabilities given X. Weights of lengths do
    not show them: lengths add up to that of the sequence, and other features also say where segments end.

    Parameters
    ----------
    estimator : HighOrderSemiCRF, or a pipeline or search around one
        A fitted model.
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        As in the estimator's ``predict``.
    y : list of label sequences, or array-like, default=None
        As in the estimator's ``fit``.
        True segmentations of X, without holes, to compare with. Their means differ from those of the model by errors
        of the model, and by chance.

    Returns
    -------
    durations : Table
        Named tuples (label, n_segments, mean, std, true_n_segments, true_mean, true_std), one for each label, except
        "O" of "bio" and similar schemes: the expected number of segments, mean and standard deviation of their lengths
        in tokens, and the same of y (None without y). Means and deviations of no segments are nan.

    Raises
    ------
    AttributeError
        If the model has no probabilities, as with ``objective="hinge"``.
    TypeError
        If the model labels tokens instead of segments.
    ValueError
        If X does not match that of fit, or y does not match X.

    See Also
    --------
    DurationsDisplay : Plot them.

    References
    ----------
    Yu, "Hidden semi-Markov models", Artificial Intelligence 174, 2010, on distributions of durations.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderSemiCRF, make_pipeline
    >>> from sklearn_hocrf.feature_extraction import (
    ...     SegmentFeatureExtractor,
    ...     SequenceFeatureExtractor,
    ... )
    >>> from sklearn_hocrf.inspection import durations
    >>> X, y = (
    ...     [["z", "u", "u", "u", "z", "z"], ["u", "u", "z"]],
    ...     [list("zuuuzz"), list("uuz")],
    ... )
    >>> model = make_pipeline(
    ...     SequenceFeatureExtractor([("w", 0)]),
    ...     SegmentFeatureExtractor(length="gamma"),
    ...     HighOrderSemiCRF(),
    ... ).fit(X, y)
    >>> durations(model, X, y)
    label  n_segments   mean    std  true_n_segments  true_mean  true_std
    u           2.487  2.000  0.799                2      2.500     0.500
    z           2.957  1.361  0.480                3      1.333     0.471
    """
    fitted, X = FittedModel.and_input(estimator, X)
    if not fitted.labels_segments:
        raise TypeError(f"durations are those of segments, but {type(fitted.estimator).__name__} labels tokens")
    check_probabilities(fitted.estimator)
    batch, form = fitted.read(X)
    expected = [_moments(counts) for counts in fitted.length_counts(batch, fitted.mask(batch, form))]
    of_truth: list = [(None, None, None)] * len(expected)
    if y is not None:
        truth = fitted.read_truth(y, batch, form)
        of_label = [np.bincount(truth.lengths[truth.codes == label])[1:] for label in range(len(expected))]
        of_truth = [_moments(counts) for counts in of_label]
    rows = zip(fitted.labels.tolist(), expected, of_truth, strict=True)
    listed = [Duration(label, *numbers, *true) for label, numbers, true in rows]
    return Table(Duration, [row for code, row in enumerate(listed) if code != fitted.outside])


def _moments(counts: np.ndarray) -> tuple[Any, float, float]:
    """Return how many segments there are, mean and standard deviation, given the numbers of lengths 1, 2 ..."""
    lengths, total = np.arange(1, len(counts) + 1), counts.sum()
    if not total > 0:
        return total.item(), np.nan, np.nan
    mean = float(counts @ lengths / total)
    return total.item(), mean, float(np.sqrt(counts @ (lengths - mean) ** 2 / total))


class DurationsDisplay(Display):
    """Display of the lengths of each label's segments: means, with standard deviations as bars.

    Notebooks show it as a table in HTML.

    Parameters
    ----------
    table : Table of Duration
        The result of :func:`durations`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After :meth:`plot`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderSemiCRF
    >>> from sklearn_hocrf.inspection import DurationsDisplay
    >>> X, y = (
    ...     [[["z"], ["u"], ["u"], ["z"]], [["u"], ["u"], ["z"]]],
    ...     [list("zuuz"), list("uuz")],
    ... )
    >>> DurationsDisplay.from_estimator(HighOrderSemiCRF().fit(X, y), X)
    label  n_segments   mean    std  true_n_segments  true_mean  true_std
    u           2.401  1.646  0.478
    z           3.049  1.000  0.000
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None) -> Self:
        """Return the display of a fitted model's durations.

        Parameters
        ----------
        estimator : HighOrderSemiCRF, or a pipeline or search around one
            As in :func:`durations`.
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :func:`durations`.
        y : list of label sequences, or array-like, default=None
            As in :func:`durations`.

        Returns
        -------
        display : DurationsDisplay
            The display, not yet plotted.
        """
        return cls(durations(estimator, X, y))

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    def _plot(self, ax: Any) -> Any:
        """Plot means and standard deviations, those of the model above those of y, and return the Axes."""
        places = np.arange(len(self.table))
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.4, 1.0 + 0.4 * max(len(places), 1)), layout="constrained")
        means, spread = [row.mean for row in self.table], [row.std for row in self.table]
        ax.errorbar(means, places - 0.12, xerr=spread, fmt="o", label="model")
        if any(row.true_mean is not None for row in self.table):
            means, spread = [row.true_mean for row in self.table], [row.true_std for row in self.table]
            ax.errorbar(means, places + 0.12, xerr=spread, fmt="s", color="gray", label="y")
            ax.legend()
        ax.set_yticks(places, [visible(row.label) for row in self.table], fontsize="small", parse_math=False)
        ax.set(xlabel="tokens of a segment (mean, standard deviation)", ylim=(len(places) - 0.5, -0.5))
        return ax
