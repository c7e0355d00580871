"""Plots of one sequence over time, with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from datetime import timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._data.batch import SequenceBatch
from .._data.checks import check_choice, short
from .._data.messages import visible
from .._estimator.answers.fitted import FittedModel
from .._reading.label_sequences import read_segmentations
from .._reading.schemes import SCHEMES
from .._reading.values import finite_numbers
from .._sklearn.layers import method_of_model, model_inside
from ._display import color_map
from ._segments_display import SegmentsDisplay, labels_of_classes

_BAR, _GAP, _SIGNAL = 0.16, 0.06, 0.4  # heights; the height of the probabilities is 1
_LEAST = 0.01  # labels that are never this probable are not in the legend


class SequenceDisplay:
    """Plot of one sequence: the probabilities of labels for each token, below the predicted and the true segments.

    Create one with :meth:`from_estimator` or :meth:`from_predictions`, which also plot it. Plotting requires
    matplotlib: ``pip install 'sklearn_hocrf[plot]'``.

    Parameters
    ----------
    n_tokens : int
        Number of tokens of the sequence.
    segments : list of (start, stop, label)
        The predicted segments.
    true_segments : list of (start, stop, label) or None, default=None
        The true segments.
    probabilities : array-like of shape (n_tokens, n_labels) or None, default=None
        The probabilities of labels for each token.
    labels : sequence of n_labels labels, default=()
        The labels of the columns of ``probabilities``.
    times : array-like of shape (n_tokens,) or None, default=None
        The beginning of each token on the horizontal axis, as ascending numbers or times. None means the positions of
        the tokens.
    signals : mapping of str to array-like of shape (n_tokens,), or None, default=None
        Numbers to draw below the probabilities, by name, such as columns of X. Each signal is drawn on a separate
        scale.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        The axes of the last plot.
    figure_ : matplotlib.figure.Figure
        The figure that contains the axes.
    colors : dict
        The colour of each label as "#RRGGBB"; you can replace the colours. The default colours are those of
        :class:`SegmentsDisplay`: the first eight are distinguishable with any kind of colour vision.

    Raises
    ------
    TypeError, ValueError
        If segments, probabilities, times or signals do not match the number of tokens, or do not have the types above.

    See Also
    --------
    SegmentsDisplay : Predicted segments in coloured text.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import SequenceDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["rest"] * 20 + ["walk"] * 30 + ["rest"] * 10)
    >>> x = (y == "walk")[:, None] + rng.normal(size=(60, 2))
    >>> crf = HighOrderCRF().fit([x], [y])
    >>> seconds, speed = np.arange(60) / 10, x[:, 0]
    >>> display = SequenceDisplay.from_estimator(
    ...     crf, x, y, times=seconds, signals={"speed": speed}
    ... )  # pip install matplotlib
    >>> _ = display.ax_.set_xlabel("seconds")
    >>> display.figure_.savefig("recording.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        n_tokens: int,
        segments: Sequence[tuple],
        true_segments: Sequence[tuple] | None = None,
        *,
        probabilities: ArrayLike | None = None,
        labels: Sequence = (),
        times: ArrayLike | None = None,
        signals: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_tokens, self.segments, self.true_segments = n_tokens, segments, true_segments
        self.labels, self.times = list(labels), _checked_times(times, n_tokens)
        repeated = [label for i, label in enumerate(self.labels) if label in self.labels[:i]]
        if repeated:
            raise ValueError(f"labels contain {short(repeated[0])} twice: one label for each column of probabilities")
        self.probabilities = None if probabilities is None else np.asarray(probabilities, dtype=np.float64)
        if self.probabilities is not None and self.probabilities.shape != (n_tokens, len(self.labels)):
            raise ValueError(
                f"probabilities have the shape {self.probabilities.shape}, but there are {n_tokens} tokens and "
                f"{len(self.labels)} labels"
            )
        whose = f"the sequence has {n_tokens} tokens"
        self.signals = {
            name: finite_numbers(values, n_tokens, f"signals[{name!r}]", whose)
            for name, values in dict({} if signals is None else signals).items()
        }
        shown = [*segments, *(true_segments or [])]
        last = max((stop for _, stop, _ in shown), default=0)
        if last > n_tokens:
            raise ValueError(f"a segment ends at {last}, but the sequence has {n_tokens} tokens")
        for start, stop, label in shown:
            if not 0 <= start < stop:
                raise ValueError(f"({start}, {stop}, {short(label)}) is no segment: start must be in [0, stop)")
        self.colors = color_map([*self.labels, *sorted({label for *_, label in shown}, key=str)])

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        x: Any,
        y: Sized | None = None,
        *,
        scheme: str = "auto",
        times: ArrayLike | None = None,
        signals: Mapping[str, Any] | None = None,
        ax: Any = None,
    ) -> Self:
        """Plot the predictions of a model for one sequence.

        Parameters
        ----------
        estimator : estimator
            A fitted model of this package, or a pipeline or a search around one.
        x : sequence, or SequenceBatch of one sequence
            One sequence, in any form that the X of the estimator's ``predict`` may contain.
        y : sequence of labels or of segments, or None, default=None
            The true labels or segments of the sequence.
        scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
            How labels encode segments, as in :meth:`SegmentsDisplay.from_estimator`. The probability of a label is the
            sum of the probabilities of its tags.
        times : array-like of shape (n_tokens,) or None, default=None
            As in the class.
        signals : mapping of str to array-like of shape (n_tokens,), or None, default=None
            As in the class.
        ax : matplotlib.axes.Axes or None, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : SequenceDisplay

        Raises
        ------
        ImportError
            If matplotlib is absent.
        ValueError, TypeError
            If x or y is invalid, or if times or signals do not match x.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> from sklearn_hocrf.inspection import SequenceDisplay
        >>> x, y = [["Ann"], ["Lee"], ["met"]], ["B-PER", "I-PER", "O"]
        >>> crf = HighOrderCRF().fit([x], [y])
        >>> SequenceDisplay.from_estimator(crf, x, y).labels  # pip install matplotlib
        ['O', 'PER']
        """
        _pyplot()  # before any work
        X = x if isinstance(x, SequenceBatch) else [x]
        first = x[0] if isinstance(x, list) and x else None
        has_tokens = isinstance(first, list) and isinstance(next(iter(first), 0), (list, Mapping))
        if has_tokens or getattr(first, "ndim", 1) == 2:
            raise ValueError("x is a list of sequences, but a SequenceDisplay shows one: pass x[0], and y[0]")
        check_choice("scheme", scheme, ("auto", *SCHEMES))
        shown = SegmentsDisplay.from_estimator(estimator, X, None if y is None else [y], scheme=scheme)
        if len(shown.texts) != 1:
            raise ValueError(f"x has {len(shown.texts)} sequences, but a SequenceDisplay shows one: x[:1]")
        model = model_inside(estimator)
        options: dict[str, Any] = {"times": times, "signals": signals}
        if hasattr(model, "predict_marginals"):
            marginals = method_of_model(estimator, "predict_marginals")(X)[0]
            scheme = FittedModel(model).scheme if scheme == "auto" else scheme
            options |= _by_label(marginals, model.classes_.tolist(), scheme)
        true = None if shown.true_segments is None else [segment[:3] for segment in shown.true_segments[0]]
        predicted = [segment[:3] for segment in shown.segments[0]]
        return cls(len(shown.texts[0]), predicted, true, **options).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_pred: Sized,
        y_true: Sized | None = None,
        *,
        probabilities: ArrayLike | None = None,
        classes: Sequence | None = None,
        scheme: str = "auto",
        times: ArrayLike | None = None,
        signals: Mapping[str, Any] | None = None,
        ax: Any = None,
    ) -> Self:
        """Plot labels or segments of one sequence.

        Parameters
        ----------
        y_pred : sequence of labels or of (start, stop, label)
            The predicted labels of the tokens, or segments.
        y_true : sequence of labels or of (start, stop, label), or None, default=None
            The true labels or segments.
        probabilities : array-like of shape (n_tokens, n_classes) or None, default=None
            The probabilities of the labels of each token.
        classes : sequence of n_classes labels or None, default=None
            The labels of the columns of ``probabilities``, such as ``classes_`` of a model.
        scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
            How labels encode segments; "auto" means the scheme of labels that look like tags, or else "runs" of equal
            labels.
        times : array-like of shape (n_tokens,) or None, default=None
            As in the class.
        signals : mapping of str to array-like of shape (n_tokens,), or None, default=None
            As in the class.
        ax : matplotlib.axes.Axes or None, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : SequenceDisplay

        Raises
        ------
        ImportError
            If matplotlib is absent.
        ValueError, TypeError
            If labels, segments, probabilities, times or signals are invalid or do not match each other.

        Examples
        --------
        >>> from sklearn_hocrf.inspection import SequenceDisplay
        >>> y_pred, y_true = ["walk", "walk", "run"], ["walk", "run", "run"]
        >>> display = SequenceDisplay.from_predictions(y_pred, y_true)  # pip install matplotlib
        >>> display.true_segments
        [(0, 1, 'walk'), (1, 3, 'run')]
        """
        _pyplot()
        if probabilities is not None and (classes is None or np.ndim(probabilities) != 2):
            raise ValueError("probabilities need the shape (n_tokens, n_classes), and classes with their labels")
        labellings = {"y_pred": [y_pred]} | ({} if y_true is None else {"y_true": [y_true]})
        tables = read_segmentations(labellings, scheme)
        lengths = [int(table.lengths[0]) for table in tables if table.lengths is not None]
        # segments do not determine the length
        lengths += [np.shape(part)[0] for part in (probabilities, times) if part is not None]
        n_tokens = lengths[0] if lengths else max((row[2] for table in tables for row in table.rows), default=0)
        options: dict[str, Any] = {"times": times, "signals": signals}
        if probabilities is not None and classes is not None:
            options |= _by_label(np.asarray(probabilities, dtype=np.float64), list(classes), scheme)
        return cls(n_tokens, *(table.lists()[0] for table in tables), **options).plot(ax)

    def plot(self, ax: Any = None, *, start: int = 0, stop: int | None = None) -> Self:
        """Plot the sequence, or a part of it.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            The axes to plot on; None creates a new figure.
        start, stop : int or None, default=0, None
            The range of tokens to plot, as in a slice; ``stop=None`` means the end. It is best to plot long sequences
            in parts.

        Returns
        -------
        display : SequenceDisplay
            This object.

        Raises
        ------
        ImportError
            If matplotlib is absent.
        ValueError
            If the range contains no tokens.
        """
        pyplot, tokens = _pyplot(), range(self.n_tokens)[start:stop]
        if not tokens:
            raise ValueError(f"there are no tokens from {start} to {stop}: the sequence has {self.n_tokens}")
        if ax is None:
            height = 2.5 + 0.6 * len(self.signals)
            ax = pyplot.figure(figsize=(8, height), layout="constrained").add_subplot()
        self.ax_, self.figure_ = ax, ax.figure
        edges = self._edges()[tokens.start : tokens.stop + 1]
        ticks = self._plot_signals(edges, tokens) | self._plot_probabilities(edges, tokens)
        bottom = 0.0 if self.probabilities is None else 1.0
        seen = self._probable(tokens)
        for name, segments in {"predicted": self.segments, "true": self.true_segments}.items():
            if segments is not None:
                seen |= self._plot_segments(edges, tokens, segments, bottom + _GAP)
                bottom += _GAP + _BAR
                ticks[bottom - _BAR / 2] = name
        ax.set_yticks(list(ticks), list(ticks.values()))
        ax.set(xlim=(edges[0], edges[-1]), ylim=(-_SIGNAL * len(self.signals), bottom + _GAP))
        if self.times is None:
            ax.set_xlabel("token")
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.spines[["top", "right"]].set_visible(False)
        self._add_legend(seen)
        return self

    def _edges(self) -> np.ndarray:
        """Return the beginning of each token, followed by the end of the last one."""
        if self.times is None:
            return np.arange(self.n_tokens + 1)
        if self.n_tokens == 1:
            return np.append(self.times, self.times + (timedelta(days=1) if self.times.dtype == object else 1))
        return np.append(self.times, 2 * (self.times[-1:] - self.times[-2:-1]) + self.times[-2:-1])

    def _plot_signals(self, edges: np.ndarray, tokens: range) -> dict[float, str]:
        """Plot each signal in a row below 0; return a dict from heights to names."""
        ticks = {}
        for row, (name, values) in enumerate(self.signals.items(), start=1):
            shown = np.array(values[tokens.start : tokens.stop])
            shown = (shown - shown.min()) / (np.ptp(shown) or 1.0)
            ticks[_SIGNAL * (0.5 - row)] = _plain(name)
            heights = _SIGNAL * (0.9 * np.append(shown, shown[-1]) - row)
            color = self.ax_.xaxis.label.get_color()  # visible on any background
            self.ax_.plot(edges, heights, drawstyle="steps-post", color=color, linewidth=0.8)
        return ticks

    def _plot_probabilities(self, edges: np.ndarray, tokens: range) -> dict[float, str]:
        """Plot the probabilities as bands from 0 to 1; return the ticks."""
        if self.probabilities is None:
            return {}
        bands = self.probabilities[tokens.start : tokens.stop].T
        colors = [self.colors[label] for label in self.labels]
        self.ax_.stackplot(edges, np.hstack([bands, bands[:, -1:]]), colors=colors, step="post", linewidth=0)
        return {0.0: "0", 0.5: "probability", 1.0: "1"}

    def _probable(self, tokens: range) -> set:
        """Return the labels whose bands are visible."""
        if self.probabilities is None:
            return set()
        largest = self.probabilities[tokens.start : tokens.stop].max(axis=0)
        return {label for label, p in zip(self.labels, largest.tolist(), strict=True) if p >= _LEAST}

    def _plot_segments(self, edges: np.ndarray, tokens: range, segments: Sequence[tuple], bottom: float) -> set:
        """Plot segments as bars, and return their labels."""
        spans: dict[Any, list] = {}
        for start, stop, label in segments:
            first, last = max(start, tokens.start) - tokens.start, min(stop, tokens.stop) - tokens.start
            if first < last:
                spans.setdefault(label, []).append((edges[first], edges[last] - edges[first]))
        for label, bars in spans.items():
            colors = {"facecolor": self.colors[label], "edgecolor": self.ax_.get_facecolor()}
            self.ax_.broken_barh(bars, (bottom, _BAR), linewidth=0.5, **colors)
        return set(spans)

    def _add_legend(self, seen: set) -> None:
        from matplotlib.patches import Patch

        handles = [Patch(color=color, label=_plain(label)) for label, color in self.colors.items() if label in seen]
        where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": 1 + (len(handles) - 1) // 10}
        self.ax_.legend(handles=handles, frameon=False, **where)


def _pyplot() -> Any:
    """Return matplotlib's ``pyplot`` module, or raise an ImportError that names the remedy."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("SequenceDisplay needs matplotlib: pip install 'sklearn_hocrf[plot]'") from error
    return pyplot


def _plain(label: Any) -> str:
    """Return a label as a string that matplotlib reads neither as a formula nor as a hidden label."""
    text = visible(label).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _by_label(probabilities: np.ndarray, classes: list, scheme: str) -> dict[str, Any]:
    """Return the probabilities of segment labels, summed over tags; other classes are labels already."""
    if probabilities.shape[1] != len(classes):
        raise ValueError(f"probabilities have {probabilities.shape[1]} columns, but there are {len(classes)} classes")
    of_class = labels_of_classes(classes, scheme)
    labels = sorted(set(of_class), key=str)
    columns = [probabilities[:, [class_label == label for class_label in of_class]].sum(axis=1) for label in labels]
    return {"probabilities": np.column_stack(columns), "labels": labels}


def _checked_times(times: ArrayLike | None, n_tokens: int) -> np.ndarray | None:
    if times is None:
        return None
    array = np.asarray(times)
    if array.shape != (n_tokens,):
        raise ValueError(f"times have the shape {array.shape}, but the sequence has {n_tokens} tokens")
    if array.dtype.kind in "biuf":  # differences of small integer types would overflow
        array = np.array(finite_numbers(array, n_tokens, "times", f"the sequence has {n_tokens} tokens"))
    late = np.flatnonzero(~(array[1:] > array[:-1]))
    if len(late):
        t = int(late[0]) + 1
        raise ValueError(f"times must ascend, but that of position {t} is {array[t]}, after {array[t - 1]}")
    return array
