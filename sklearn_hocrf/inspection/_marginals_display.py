"""Probabilities along a sequence."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._data.checks import short
from .._data.schemes import hold_segments
from .._data.texts import escaped, visible
from .._display import Display, bar, color_map, html_table, listed, pyplot, texts_of, tokens_of
from .._validation._delegation import method_of_model, model_inside
from .._validation._sklearn import safe_indexing
from ._paths import read_position
from ._texts import read_rows, segment_labels

__all__ = ["MarginalsDisplay"]

_MOST_TICKS = 40  # most tokens of a plot that are written below it
_LINE = 90  # characters of a line of tokens
_SEEN = 0.02  # lowest probability that HTML and legends show
_LEGEND_ROWS = 12


class MarginalsDisplay(Display):
    """Display of the probabilities of labels at each token of a sequence, or of competing segments.

    Create one with :meth:`from_estimator` or :meth:`from_predictions`. Notebooks show it as HTML; :meth:`plot` shows
    long sequences, such as those of sensors, as areas over time.

    Parameters
    ----------
    tokens : list of str
        The texts of the tokens.
    probabilities : ndarray of shape (n_tokens, n_classes), or None
        The probability of each class at each token; None with ``segments``.
    classes : list of labels
        The classes; with ``segments``, all labels that segments may have.
    segments : list of (start, stop, label, probability) or None, default=None
        Segments, which may overlap, instead of the probabilities of tokens.

    Attributes
    ----------
    max_tokens : int
        Maximum number of tokens shown in HTML, 200 by default.
    colors : dict
        The colour of each class as "#RRGGBB", in the order of ``classes``; it can be changed. "O" is grey.
    ax_, figure_ : matplotlib Axes and Figure
        After :meth:`plot`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import MarginalsDisplay
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(max_order=2).fit(X, y)
    >>> display = MarginalsDisplay.from_estimator(crf, X, 1)
    >>> display.probabilities.round(2)
    array([[0.2 , 0.59, 0.21],
           [0.2 , 0.21, 0.59]])
    """

    max_tokens = 200

    def __init__(
        self, tokens: list[str], probabilities: np.ndarray | None, classes: list, segments: list[tuple] | None = None
    ) -> None:
        self.tokens, self.probabilities, self.classes, self.segments = tokens, probabilities, classes, segments
        self.colors = color_map(classes)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        sequence: int = 0,
        *,
        of: str = "tokens",
        threshold: float = 0.05,
        known: Any = None,
        field: Any = None,
        **options: Any,
    ) -> Self:
        """Return the display of the probabilities of one sequence.

        Parameters
        ----------
        estimator : estimator
            A fitted model of this package, or a pipeline or a search around one.
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in the estimator's ``predict``.
        sequence : int, default=0
            The number of the sequence in X.
        of : {"tokens", "segments"}, default="tokens"
            Whether to show ``predict_marginals``, or the segments of ``predict_segments``.
        threshold : float, default=0.05
            Lowest probability of a segment.
        known : list of label sequences, or array-like, default=None
            As in the estimator's ``predict``.
        field : object, default=None
            As in :meth:`SegmentsDisplay.from_estimator`.
        **options
            Further parameters of the method, such as ``scheme="bioes"``.

        Returns
        -------
        display : MarginalsDisplay
            The display, not yet plotted.

        Raises
        ------
        AttributeError
            If the model has no probabilities.
        """
        if of not in ("tokens", "segments"):
            raise ValueError(f"of must be 'tokens' or 'segments', got {of!r:.80}")
        check_is_fitted(estimator)
        X = listed(X)
        number = read_position(sequence, len(X) if hasattr(X, "__len__") else X.shape[0], "sequence")
        one = safe_indexing(X, [number])
        if known is not None:
            options["known"] = safe_indexing(known, [number])
        tokens = tokens_of(one, number, field)
        if of == "segments":
            marginals = method_of_model(estimator, "predict_segments")(one, threshold=threshold, **options)[0].tolist()
            labels = segment_labels(model_inside(estimator), options.get("scheme", "auto"))
            return cls(tokens, None, labels, read_rows(marginals, len(tokens), 0, "marginals"))
        marginals = method_of_model(estimator, "predict_marginals")(one, **options)[0]
        return cls.from_predictions(tokens, marginals, model_inside(estimator).classes_.tolist())

    @classmethod
    def from_predictions(cls, x: Any, marginals: Any, classes: Any = None, *, field: Any = None) -> Self:
        """Return the display of given probabilities of one sequence.

        Parameters
        ----------
        x : sequence
            The tokens.
        marginals : array-like of shape (n_tokens, n_classes), or segments
            As ``predict_marginals`` or ``predict_segments`` return it for the sequence.
        classes : list of labels
            The classes, if ``marginals`` are probabilities of tokens.
        field : object, default=None
            As in :meth:`SegmentsDisplay.from_estimator`.

        Returns
        -------
        display : MarginalsDisplay
            The display, not yet plotted.

        Raises
        ------
        ValueError, TypeError
            If there is not one row for each token and one column for each class, if a segment is not valid or ends
            after the last token, or if a probability is not a finite number.
        """
        [tokens] = texts_of([x], field)
        if classes is None:
            rows = marginals.tolist() if isinstance(marginals, np.ndarray) else list(marginals)
            if rows and not hold_segments([rows], sizes=(4,)):
                raise ValueError("marginals must be segments (start, stop, label, probability), or give their classes")
            rows = read_rows(rows, len(tokens), 0, "marginals")
            return cls(tokens, None, sorted({row[2] for row in rows}, key=str), rows)
        table, classes = np.asarray(marginals, dtype=np.float64), list(classes)
        if table.ndim == 1 and len(tokens) == 1:
            table = table[None]
        if table.shape != (len(tokens), len(classes)):
            raise ValueError(
                f"marginals have shape {table.shape}, but there are {len(tokens)} tokens and {len(classes)} classes "
                f"({short(classes)})"
            )
        if not np.isfinite(table).all():
            t, k = np.argwhere(~np.isfinite(table))[0].tolist()
            raise ValueError(f"marginals have {table[t, k]} at position {t} for the class {short(classes[k])}")
        return cls(tokens, table, classes)

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if self.segments is None else f"{len(self.segments)} segments"
        return f"MarginalsDisplay({len(self.tokens)} tokens, {what})"

    # --- HTML ---------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        n_shown = min(len(self.tokens), self.max_tokens)
        rest = len(self.tokens) - n_shown
        after = f"<div>... and {rest} more token{'s' if rest > 1 else ''}</div>" if rest else ""
        if self.segments is not None:
            return f'<div style="overflow-x:auto">{self._segments_html(n_shown)}{after}</div>'
        tables = "".join(self._tokens_html(first, stop) for first, stop in self._lines(n_shown))
        return f'<div style="overflow-x:auto">{tables}{after}</div>'

    def _lines(self, n_shown: int) -> list[tuple[int, int]]:
        """Cut the tokens into lines of about the same width."""
        widths = [max(len(visible(token)), 5) + 2 for token in self.tokens[:n_shown]]
        cuts, width = [0], 0
        for t, size in enumerate(widths):
            if width and width + size > _LINE:
                cuts.append(t)
                width = 0
            width += size
        return list(zip(cuts, [*cuts[1:], n_shown], strict=True))

    def _tokens_html(self, first: int, stop: int) -> str:
        """Return the probabilities of some tokens as a table."""
        assert self.probabilities is not None
        table = self.probabilities[first:stop]
        rows = []
        for label, column in zip(self.classes, table.T.tolist(), strict=True):
            if max(column, default=0.0) >= _SEEN:
                rows.append([escaped(label), *(f"{p:.2f}{bar(p, 1.0)}" if p >= _SEEN else "" for p in column)])
        head = ["", *map(escaped, self.tokens[first:stop])]
        return html_table(head, rows, ["start"] + ["center"] * (stop - first))

    def _segments_html(self, n_shown: int) -> str:
        """Return a table with the tokens above and segments below, in rows without overlaps."""
        style, rows = "padding:.15em .3em;text-align:center", []
        for row in self._packed():
            cells, at = "", 0
            for start, stop, label, p in row:
                if stop > n_shown:
                    continue
                ground = f"background:{self.colors[label]};color:#000;border-radius:.4em;{style}"
                caption = f'{escaped(label)} <span style="font-weight:600">{p:.2f}</span>'
                cells += f'{"<td></td>" * (start - at)}<td colspan="{stop - start}" style="{ground}">{caption}</td>'
                at = stop
            rows.append(f"<tr>{cells}{'<td></td>' * (n_shown - at)}</tr>")
        head = "".join(f'<th style="{style}">{escaped(token)}</th>' for token in self.tokens[:n_shown])
        table = 'style="border-collapse:separate;border-spacing:2px"'
        return f"<table {table}><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"

    def _packed(self) -> list[list[tuple]]:
        """Return the segments in rows without overlaps; the more probable ones come first."""
        rows: list[list[tuple]] = []
        for segment in sorted(self.segments or [], key=lambda row: -row[3]):
            free = (row for row in rows if all(segment[1] <= start or stop <= segment[0] for start, stop, *_ in row))
            row = next(free, None)
            if row is None:
                row = []
                rows.append(row)
            row.append(segment)
        return [sorted(row, key=lambda segment: segment[:2]) for row in rows]

    # --- matplotlib ---------------------------------------------------------------------------------------------------

    def _plot(self, ax: Any) -> Any:
        """Plot probabilities of tokens as areas over time, segments as bars, and return the Axes."""
        rows = self._packed()
        if ax is None:
            height = 3.2 if self.segments is None else 1.0 + 0.4 * max(len(rows), 1)
            _, ax = pyplot().subplots(figsize=(9.0, height), layout="constrained")
        n_tokens = len(self.tokens)
        if self.probabilities is not None and n_tokens:
            self._draw_areas(ax)
        style = {"ha": "center", "va": "center", "fontsize": 8, "color": "black", "clip_on": True, "parse_math": False}
        for level, row in enumerate(rows):
            for start, stop, label, p in row:
                ax.barh(level, stop - start - 0.08, left=start + 0.04, height=0.84, color=self.colors[label])
                ax.text((start + stop) / 2, level, f"{visible(label)} {p:.2f}", **style)
        if self.segments is not None:
            ax.set(ylim=(max(len(rows), 1) - 0.5, -0.5), yticks=[])
        ax.set_xlim(0, max(n_tokens, 1))
        if n_tokens <= _MOST_TICKS:
            names = [visible(token) for token in self.tokens]
            turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor", "fontsize": 8}
            ax.set_xticks(np.arange(n_tokens) + 0.5, names, parse_math=False, **turned)
        else:
            ax.set_xlabel("token")
        return ax

    def _draw_areas(self, ax: Any) -> None:
        """Draw the probabilities of classes stacked on each other, a step for each token."""
        assert self.probabilities is not None
        edges, low = np.arange(len(self.tokens) + 1), np.zeros(len(self.tokens))
        for label, column in zip(self.classes, self.probabilities.T, strict=True):
            name = visible(label) if column.max() >= _SEEN else None  # None is left out of the legend
            ax.stairs(low + column, edges, baseline=low, fill=True, color=self.colors[label], label=name)
            low = low + column
        ax.set(ylim=(0, 1), ylabel="probability")
        if names := ax.get_legend_handles_labels()[1]:
            columns = 1 + (len(names) - 1) // _LEGEND_ROWS
            legend = ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", ncols=columns)
            for text in legend.get_texts():
                text.set_parse_math(False)
