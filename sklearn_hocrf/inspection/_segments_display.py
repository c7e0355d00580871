"""Segments in coloured text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Self

from .._data.schemes import OUTSIDE
from .._data.texts import escaped, visible
from .._display import EDGES, Display, chip, color_map, listed, pyplot, texts_of
from .._estimator.fitted_model import FittedModel
from .._validation._delegation import method_of_model, model_inside
from ._texts import (
    check_scheme,
    checked_segments,
    gaps_of,
    labels_in,
    read_any_segments,
    segment_labels,
)
from ._typesetting import CAPTION, COLUMNS, Box, Piece, Typesetter

__all__ = ["SegmentsDisplay"]

_INCHES = 9.0  # width of a new figure
_LINE, _ABOVE, _AFTER = 3.6, 1.5, 0.8  # heights of a line, of the captions in it, after a sequence; in characters
_MONO = 0.602  # width of a character of DejaVu Sans Mono, in the size of the font


class SegmentsDisplay(Display):
    """Display of sequences as text with coloured segments, with their labels and probabilities.

    Create one with :meth:`from_estimator` or :meth:`from_predictions`. A notebook shows it as HTML without scripts, in
    which every token is text: ``<script>`` is an ordinary token, control characters are shown as escapes, and
    right-to-left text runs from right to left. :meth:`plot` draws the same with matplotlib (the extra "plot"), where
    segments always run from left to right.

    Parameters
    ----------
    texts : list of lists of str
        The texts of the tokens of each sequence.
    segments : list of lists of (start, stop, label) or (start, stop, label, probability)
        The segments of each sequence, which do not overlap. Segments with the label "O" are shown like the text between
        segments, and the label "_", of tags without a label, is not written.
    true_segments : list of lists of (start, stop, label) or None, default=None
        The true segments. Segments that are not among them are marked as wrong, and true segments that are not found
        are listed below their sequence.
    gaps : list of lists of str or None, default=None
        The text after each token; None means spaces.
    names : list of str or None, default=None
        The names before the sequences in HTML; None means their numbers.
    classes : iterable of labels or None, default=None
        All labels of segments, to which colours are assigned in this order; None means the labels shown, sorted.

    Attributes
    ----------
    max_sequences : int
        Maximum number of sequences shown, 20 by default.
    colors : dict
        The colour of each label as "#RRGGBB"; it can be changed. The first eight are distinguishable with any kind of
        colour vision; tints of them follow, then they repeat.
    ax_, figure_ : matplotlib Axes and Figure
        After :meth:`plot`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> from sklearn_hocrf.inspection import SegmentsDisplay
    >>> from sklearn_hocrf.pipeline import make_pipeline
    >>> X = [["Ann", "Lee", "met", "Bob"], ["We", "met", "Ann"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "O", "B-PER"]]
    >>> tagger = make_pipeline(
    ...     SequenceFeatureExtractor(), HighOrderCRF(constraints="bio")
    ... ).fit(X, y)
    >>> SegmentsDisplay.from_estimator(tagger, X, y)  # coloured text in a notebook
    [Ann Lee | PER 0.81] met [Bob | PER 0.90]
    We met [Ann | PER 0.92]
    """

    max_sequences = 20

    def __init__(
        self,
        texts: list[list[str]],
        segments: list[list[tuple]],
        true_segments: list[list[tuple]] | None = None,
        gaps: list[list[str]] | None = None,
        names: list[str] | None = None,
        classes: Iterable | None = None,
    ) -> None:
        self.texts, self.gaps, self.names = texts, gaps, names
        self.segments = checked_segments(segments, texts, "segments")
        self.true_segments = None if true_segments is None else checked_segments(true_segments, texts, "true_segments")
        shown = {segment[2] for of_one in [*self.segments, *(self.true_segments or [])] for segment in of_one}
        self.colors = color_map(chain(classes or (), sorted(shown, key=str)))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y_true: Any = None,
        *,
        scheme: str = "auto",
        known: Any = None,
        field: Any = None,
        separator: str = " ",
    ) -> Self:
        """Return the display of the segments that a model predicts, with their probabilities.

        Parameters
        ----------
        estimator : estimator
            A fitted model of this package, or a pipeline or a search around one.
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in the estimator's ``predict``.
            The source of the texts of tokens, see ``field``.
        y_true : list of sequences or None, default=None
            The true labels or segments, to show errors.
        scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
            How labels encode segments; "auto" is the scheme of a :class:`~sklearn_hocrf.HighOrderSemiCRF`, the scheme
            that ``constraints`` name, the scheme of labels that look like tags, and else "runs" of equal labels.
        known : list of label sequences, or array-like, default=None
            As in the estimator's ``predict``.
        field : object, default=None
            Which field of a token that is a mapping, a list or a tuple is its text, or which column of a
            :class:`~sklearn_hocrf.feature_extraction.SequenceBatch`; None means the first that is a string. Tokens
            without text show their position.
        separator : str, default=" "
            The text between tokens, "" for characters; ignored for a :class:`~sklearn_hocrf.text.TokenizedText`, which
            contains it.

        Returns
        -------
        display : SegmentsDisplay
            The display, not yet plotted.

        Raises
        ------
        ValueError, TypeError
            If X, ``y_true`` or ``known`` are not valid, if a token has no such field, or if labels are not tags of the
            scheme.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> from sklearn_hocrf.inspection import SegmentsDisplay
        >>> X = [[{"w": "Ng"}, {"w": "Slow"}, {"w": "trees"}, {"w": "1999"}]]
        >>> crf = HighOrderSemiCRF().fit(X, [["author", "title", "title", "date"]])
        >>> SegmentsDisplay.from_estimator(crf, X, [["author", "author", "title", "date"]])
        [Ng | ✗ author 0.47] [Slow trees | ✗ title 0.27] [1999 | date 0.47]
            not found: [Ng Slow | author] [trees | title]
        """
        check_scheme(scheme)
        X, model = listed(X), model_inside(estimator)
        labels_segments = hasattr(model, "segment_labels_")
        if scheme == "auto":
            scheme = FittedModel(model).scheme
        options = {} if known is None else {"known": known}
        options |= {} if labels_segments else {"scheme": scheme}
        options |= {"with_probability": True} if hasattr(model, "predict_marginals") else {}
        predicted = method_of_model(estimator, "predict_segments")(X, **options)
        texts = {"field": field, "separator": separator, "classes": segment_labels(model, scheme)}
        return cls.from_predictions(X, predicted, y_true, scheme=scheme, **texts)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        y_pred: Any,
        y_true: Any = None,
        *,
        scheme: str = "auto",
        field: Any = None,
        separator: str = " ",
        classes: Iterable | None = None,
    ) -> Self:
        """Return the display of given labels or segments.

        Parameters
        ----------
        X : list of sequences
            The tokens, see :meth:`from_estimator`.
        y_pred : list of sequences
            Labels of the tokens; or segments: lists of (start, stop, label) or (start, stop, label, probability), or
            arrays such as ``predict_segments(X, with_probability=True)`` returns.
        y_true : list of sequences or None, default=None
            The true labels or segments, to show errors.
        scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
            As in :meth:`from_estimator`.
        field : object, default=None
            As in :meth:`from_estimator`.
        separator : str, default=" "
            As in :meth:`from_estimator`.
            The scheme is ignored for segments.
        classes : iterable of labels or None, default=None
            All existing labels, tags or labels of segments, in any order: with them, colours are the same in all
            displays and in :meth:`from_estimator`. None means the labels shown.

        Returns
        -------
        display : SegmentsDisplay
            The display, not yet plotted.

        Raises
        ------
        ValueError, TypeError
            If ``y_pred`` or ``y_true`` are not valid, overlap, or do not match X.

        Examples
        --------
        >>> from sklearn_hocrf.inspection import SegmentsDisplay
        >>> SegmentsDisplay.from_predictions(
        ...     ["Ann Lee met Bob".split()], [[(0, 2, "PER", 0.9)]]
        ... )
        [Ann Lee | PER 0.90] met Bob
        >>> SegmentsDisplay.from_predictions(
        ...     [list("thecat")], [[(0, 3, "word"), (3, 6, "word")]], separator=""
        ... )
        [the | word][cat | word]
        """
        check_scheme(scheme)
        X = listed(X)
        texts = texts_of(X, field)
        segments = read_any_segments(y_pred, scheme, "y_pred", texts)
        true_segments = None if y_true is None else read_any_segments(y_true, scheme, "y_true", texts)
        labels = None if classes is None else labels_in(classes, scheme)
        return cls(texts, segments, true_segments, [gaps_of(x, separator) for x in X], classes=labels)

    # --- what is shown ------------------------------------------------------------------------------------------------

    def _pieces(self, n: int) -> Iterator[Piece]:
        """Yield all tokens of a sequence in pieces."""
        truth = None if self.true_segments is None else {segment[:3] for segment in self.true_segments[n]}
        at = 0
        for start, stop, label, probability in self.segments[n]:
            if label == OUTSIDE:
                continue
            if at < start:
                yield Piece(at, start)
            is_wrong = truth is not None and (start, stop, label) not in truth
            yield Piece(start, stop, label, probability, "wrong" if is_wrong else "")
            at = stop
        if at < len(self.texts[n]):
            yield Piece(at, len(self.texts[n]))

    def _missed(self, n: int) -> list[Piece]:
        """Return the true segments that were not found."""
        true, found = (self.true_segments or {n: []})[n], {segment[:3] for segment in self.segments[n]}
        missed = [segment[:3] for segment in true if segment[:3] not in found and segment[2] != OUTSIDE]
        return [Piece(start, stop, label, None, "missed") for start, stop, label in missed]

    def _text(self, n: int, piece: Piece) -> str:
        """Return the text of a piece, without the text after it."""
        words = self.texts[n][piece.start : piece.stop]
        return "".join(word + gap for word, gap in zip(words, [*self._gaps(n, piece)[:-1], ""], strict=True))

    def _gap(self, n: int, piece: Piece) -> str:
        """Return the text after a piece."""
        return self._gaps(n, piece)[-1]

    def _gaps(self, n: int, piece: Piece) -> list[str]:
        return [" "] * (piece.stop - piece.start) if self.gaps is None else self.gaps[n][piece.start : piece.stop]

    def _shown(self) -> range:
        return range(min(len(self.texts), self.max_sequences))

    def _rest(self) -> str:
        n_left = len(self.texts) - len(self._shown())
        return f"... and {n_left} more sequence{'s' if n_left > 1 else ''}" if n_left else ""

    # --- text ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        lines = []
        for n in self._shown():
            lines.append("".join(self._bracketed(n, piece) + self._gap(n, piece) for piece in self._pieces(n)).rstrip())
            if missed := self._missed(n):
                lines.append("    not found: " + " ".join(self._bracketed(n, piece) for piece in missed))
        return "\n".join(line for line in [*lines, self._rest()] if line) or "no tokens"

    def _bracketed(self, n: int, piece: Piece) -> str:
        text = visible(self._text(n, piece))
        if piece.label is None:
            return text
        return f"[{text} | {piece.caption}]" if piece.caption else f"[{text}]"

    # --- HTML ---------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        sequences = "".join(map(self._sequence_html, self._shown()))
        rest = f"<div>{self._rest()}</div>" if self._rest() else ""
        return f'<div style="max-width:60em;line-height:2.1;overflow-wrap:anywhere">{sequences}{rest}</div>'

    def _sequence_html(self, n: int) -> str:
        name = n if self.names is None else self.names[n]
        before = f'<bdi style="opacity:.6;font-size:.75em">{escaped(name)}</bdi> ' if len(self.texts) > 1 else ""
        body = "".join(self._piece_html(n, piece) + escaped(self._gap(n, piece)) for piece in self._pieces(n))
        if missed := self._missed(n):
            chips = " ".join(chip(self._text(n, m), m.caption, self.colors[m.label], m.edge) for m in missed)
            body += f'<div style="font-size:.85em"><bdi>not found:</bdi> {chips}</div>'
        return f'<div dir="auto" style="margin:0 0 .5em">{before}{body}</div>'

    def _piece_html(self, n: int, piece: Piece) -> str:
        text = self._text(n, piece)
        if piece.label is None:
            return escaped(text)
        return chip(text, piece.caption, self.colors[piece.label], piece.edge)

    # --- matplotlib ---------------------------------------------------------------------------------------------------

    def _plot(self, ax: Any) -> Any:
        """Draw the text, in a new figure of the necessary height, and return the Axes."""
        sequences = [self._lines(n) for n in self._shown()]
        height = sum(_LINE * len(lines) + _AFTER for lines in sequences) or 1.0
        if ax is None:
            ax = pyplot().figure(figsize=(_INCHES, height * _INCHES / COLUMNS)).add_axes((0, 0, 1, 1))
        ax.set(xlim=(-0.5, COLUMNS + 0.5), ylim=(height, 0))
        ax.axis("off")
        points = ax.get_window_extent().width / ax.figure.dpi * 72 / (COLUMNS + 1)  # of a character
        top = _AFTER / 2
        for lines in sequences:
            for line in lines:
                for box in line:
                    self._draw(ax, box, top, 0.95 * points / _MONO)
                top += _LINE
            top += _AFTER
        return ax

    def _lines(self, n: int) -> list[list[Box]]:
        """Return the boxes to draw for a sequence, line by line."""
        typesetter = Typesetter()
        for piece in self._pieces(n):
            typesetter.add(piece, self.texts[n][piece.start : piece.stop], self._gaps(n, piece))
        if missed := self._missed(n):
            typesetter.new_line()
            typesetter.add(Piece(0, 0), ["not", "found:"], [" ", " "])
            for piece in missed:
                typesetter.add(piece, self.texts[n][piece.start : piece.stop], self._gaps(n, piece))
        return typesetter.lines

    def _draw(self, ax: Any, box: Box, top: float, size: float) -> None:
        """Draw a box whose line begins at ``top``."""
        middle, options = top + (_ABOVE + _LINE) / 2, {"family": ["monospace", "sans-serif"], "parse_math": False}
        if box.piece.label is None:
            ax.text(box.left, middle, box.text, va="center_baseline", fontsize=size, **options)
            return
        from matplotlib.patches import Rectangle

        line, color = EDGES[box.piece.edge]
        edge: dict[str, Any] = {"edgecolor": "none" if color == "transparent" else color, "linestyle": line}
        low, width, height = top + _ABOVE + 0.1, box.right - box.left, _LINE - _ABOVE - 0.2
        ax.add_patch(
            Rectangle(
                (box.left - 0.2, low), width, height, facecolor=self.colors[box.piece.label], linewidth=1.5, **edge
            )
        )
        ax.text(box.left + 0.1, middle, box.text, va="center_baseline", fontsize=size, color="black", **options)
        ax.text(box.left, top + 0.45 * _ABOVE, box.caption, va="center", fontsize=CAPTION * size, **options)
