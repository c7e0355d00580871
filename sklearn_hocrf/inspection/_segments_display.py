"""Segments in coloured text."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import check_choice, finite_number, short
from .._data.label_sequences import list_sequences, read_given_segments, segments_of_sequences
from .._data.schemes import (
    NO_LABEL,
    OUTSIDE,
    PREFIXES,
    SCHEMES,
    guessed_scheme,
    hold_segments,
    parts_of_segment,
    read_segment,
    split_tag,
)
from .._data.texts import escaped, visible
from .._display import EDGES, HtmlPage, chip, color_map, listed, texts_of
from .._estimator.fitted_model import FittedModel
from .._validation._delegation import method_of_model, model_inside

__all__ = ["SegmentsDisplay"]

_COLUMNS = 92  # characters of a line of a plot
_CAPTION = 0.78  # size of captions, relative to the text
_INCHES = 9.0  # width of a new figure
_LINE, _ABOVE, _AFTER = 3.6, 1.5, 0.8  # heights of a line, of the captions in it, after a sequence; in characters
_MONO = 0.602  # width of a character of DejaVu Sans Mono, in the size of the font


class SegmentsDisplay(HtmlPage):
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
        The names before the sequences in HTML; None means their indices.
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
    >>> from sklearn_hocrf import HighOrderCRF, make_pipeline
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> from sklearn_hocrf.inspection import SegmentsDisplay
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
        self.segments = _checked_segments(segments, texts, "segments")
        self.true_segments = None if true_segments is None else _checked_segments(true_segments, texts, "true_segments")
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
            :class:`~sklearn_hocrf.SequenceBatch`; None means the first that is a string. Tokens
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
        _check_scheme(scheme)
        X, model = listed(X), model_inside(estimator)
        labels_segments = hasattr(model, "segment_labels_")
        if scheme == "auto":
            scheme = FittedModel(model).scheme
        options = {} if known is None else {"known": known}
        options |= {} if labels_segments else {"scheme": scheme}
        options |= {"with_probability": True} if hasattr(model, "predict_marginals") else {}
        predicted = method_of_model(estimator, "predict_segments")(X, **options)
        texts = {"field": field, "separator": separator, "classes": _labels_shown(model, scheme)}
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
        _check_scheme(scheme)
        X = listed(X)
        texts = texts_of(X, field)
        segments = _read_any_segments(y_pred, scheme, "y_pred", texts)
        true_segments = None if y_true is None else _read_any_segments(y_true, scheme, "y_true", texts)
        labels = None if classes is None else _labels_in(classes, scheme)
        return cls(texts, segments, true_segments, [_gaps_of(x, separator) for x in X], classes=labels)

    # --- what is shown ------------------------------------------------------------------------------------------------

    def _pieces(self, n: int) -> Iterator[_Piece]:
        """Yield all tokens of a sequence in pieces."""
        truth = None if self.true_segments is None else {segment[:3] for segment in self.true_segments[n]}
        at = 0
        for start, stop, label, probability in self.segments[n]:
            if label == OUTSIDE:
                continue
            if at < start:
                yield _Piece(at, start)
            is_wrong = truth is not None and (start, stop, label) not in truth
            yield _Piece(start, stop, label, probability, "wrong" if is_wrong else "")
            at = stop
        if at < len(self.texts[n]):
            yield _Piece(at, len(self.texts[n]))

    def _missed(self, n: int) -> list[_Piece]:
        """Return the true segments that were not found."""
        true, found = (self.true_segments or {n: []})[n], {segment[:3] for segment in self.segments[n]}
        missed = [segment[:3] for segment in true if segment[:3] not in found and segment[2] != OUTSIDE]
        return [_Piece(start, stop, label, None, "missed") for start, stop, label in missed]

    def _text(self, n: int, piece: _Piece) -> str:
        """Return the text of a piece, without the text after it."""
        words = self.texts[n][piece.start : piece.stop]
        return "".join(word + gap for word, gap in zip(words, [*self._gaps(n, piece)[:-1], ""], strict=True))

    def _gap(self, n: int, piece: _Piece) -> str:
        """Return the text after a piece."""
        return self._gaps(n, piece)[-1]

    def _gaps(self, n: int, piece: _Piece) -> list[str]:
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

    def _bracketed(self, n: int, piece: _Piece) -> str:
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

    def _piece_html(self, n: int, piece: _Piece) -> str:
        text = self._text(n, piece)
        if piece.label is None:
            return escaped(text)
        return chip(text, piece.caption, self.colors[piece.label], piece.edge)

    # --- matplotlib ---------------------------------------------------------------------------------------------------

    def plot(self, ax: Any = None) -> Self:
        """Draw the display with matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None means a new figure of the necessary height.

        Returns
        -------
        display : SegmentsDisplay
            The display itself.

        Raises
        ------
        ImportError
            If matplotlib is absent.
        """
        sequences = [self._lines(n) for n in self._shown()]
        height = sum(_LINE * len(lines) + _AFTER for lines in sequences) or 1.0
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError("plot needs matplotlib: pip install 'sklearn_hocrf[plot]'") from error
            ax = pyplot.figure(figsize=(_INCHES, height * _INCHES / _COLUMNS)).add_axes((0, 0, 1, 1))
        ax.set(xlim=(-0.5, _COLUMNS + 0.5), ylim=(height, 0))
        ax.axis("off")
        points = ax.get_window_extent().width / ax.figure.dpi * 72 / (_COLUMNS + 1)  # of a character
        top = _AFTER / 2
        for lines in sequences:
            for line in lines:
                for box in line:
                    self._draw(ax, box, top, 0.95 * points / _MONO)
                top += _LINE
            top += _AFTER
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _lines(self, n: int) -> list[list[_Box]]:
        """Return the boxes to draw for a sequence, line by line."""
        typesetter = _Typesetter()
        for piece in self._pieces(n):
            typesetter.add(piece, self.texts[n][piece.start : piece.stop], self._gaps(n, piece))
        if missed := self._missed(n):
            typesetter.new_line()
            typesetter.add(_Piece(0, 0), ["not", "found:"], [" ", " "])
            for piece in missed:
                typesetter.add(piece, self.texts[n][piece.start : piece.stop], self._gaps(n, piece))
        return typesetter.lines

    def _draw(self, ax: Any, box: _Box, top: float, size: float) -> None:
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
        ax.text(box.left, top + 0.45 * _ABOVE, box.caption, va="center", fontsize=_CAPTION * size, **options)


# --- pieces of text in lines, for plots -------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """Tokens of a sequence: a segment, or the tokens between segments."""

    start: int
    stop: int
    label: Any = None  # None between segments
    probability: float | None = None
    edge: str = ""  # one of EDGES

    @property
    def caption(self) -> str:
        """Label and probability as text."""
        label = "" if self.label == NO_LABEL else visible(self.label)
        caption = label if self.probability is None else f"{label} {self.probability:.2f}".strip()
        return f"✗ {caption}" if self.edge == "wrong" else caption


class _Box(NamedTuple):
    """A part of a piece that is on one line of a plot."""

    piece: _Piece
    text: str
    caption: str
    left: float  # in characters
    right: float


class _Typesetter:
    """Set pieces into lines."""

    def __init__(self) -> None:
        self.lines: list[list[_Box]] = [[]]
        self.at = 0.0

    def new_line(self) -> None:
        self.lines.append([])
        self.at = 0.0

    def add(self, piece: _Piece, words: list[str], gaps: list[str]) -> None:
        """Set a piece: a box on each line that it covers."""
        caption = "" if piece.label is None else piece.caption
        if self.at and self.at + _CAPTION * len(caption) > _COLUMNS:
            self.new_line()
        left, text, gap = self.at, "", ""
        for word, after in zip(words, gaps, strict=True):
            word, after = _cut_text(visible(word)), _cut_text(" " if after.isspace() else visible(after))
            if self.at and self.at + _width(word) > _COLUMNS:
                if text:
                    self._put(piece, text, caption, left)
                    caption = ""
                self.new_line()
                left, text, gap = 0.0, "", ""
            text, gap = text + gap + word, after
            self.at = left + _width(text + gap)
        self._put(piece, text, caption, left)
        self.at = self.lines[-1][-1].right + max(_width(gap), 0.4)

    def _put(self, piece: _Piece, text: str, caption: str, left: float) -> None:
        right = left + max(_width(text), _CAPTION * len(caption))
        self.lines[-1].append(_Box(piece, text, caption, left, right))


def _width(text: str) -> int:
    """Return the width of a text in a font of fixed width; Chinese characters and the like take two columns."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _cut_text(text: str) -> str:
    """Return a text that is not longer than half a line."""
    return text if len(text) <= _COLUMNS // 2 else f"{text[: _COLUMNS // 2 - 1]}…"


# --- texts of tokens, and segments of any form ------------------------------------------------------------------------


def _gaps_of(sequence: Any, separator: str) -> list[str]:
    """Return the text between tokens: after each token of a sequence, from its offsets if it has any."""
    if not (hasattr(sequence, "text") and hasattr(sequence, "offsets")) or isinstance(sequence, SequenceBatch):
        length = sequence.n_tokens if isinstance(sequence, SequenceBatch) else len(sequence)
        return [separator] * length
    starts, stops = sequence.offsets.T.tolist()
    gaps = [sequence.text[stop:start] for stop, start in zip(stops[:-1], starts[1:], strict=True)]
    return [*gaps, ""] if stops else []


def _check_scheme(scheme: Any) -> None:
    check_choice("scheme", scheme, ("auto", *SCHEMES))


def _labels_shown(model: Any, scheme: str) -> list:
    """Return the labels of all segments that a fitted model may predict."""
    if hasattr(model, "segment_labels_"):
        return model.segment_labels_.tolist()
    return _labels_in(model.classes_.tolist(), FittedModel(model).scheme if scheme == "auto" else scheme)


def _labels_in(classes: Iterable, scheme: str) -> list:
    """Return the segment labels in tags of a scheme, given or guessed; other labels are returned as they are."""
    classes = list(classes)
    scheme = guessed_scheme(classes) if scheme == "auto" else scheme
    parts = [split_tag(label, scheme) if scheme in PREFIXES else None for label in classes]
    return sorted({label if part is None else part[1] for label, part in zip(classes, parts, strict=True)}, key=str)


def _read_any_segments(y: Any, scheme: str, name: str, texts: list[list[str]]) -> list[list[tuple]]:
    """Return segments, given directly or encoded by labels."""
    y = list_sequences(listed(y), name, "labels or segments")
    if len(y) != len(texts):
        raise ValueError(f"{name} has {len(y)} sequences, but X has {len(texts)}")
    if scheme == "segments" or hold_segments(y) or not any(map(len, y)):
        return [segments.tolist() if isinstance(segments, np.ndarray) else list(segments) for segments in y]
    for n, (labels, words) in enumerate(zip(y, texts, strict=True)):
        if len(labels) != len(words):
            raise ValueError(f"{name} has {len(labels)} labels in sequence {n}, but X has {len(words)} tokens")
    return segments_of_sequences(read_given_segments(y, scheme, False, name)[0])


def _checked_segments(segments: list, texts: list[list[str]], name: str) -> list[list[tuple]]:
    """Return (start, stop, label, probability or None) of each segment, in order, or raise."""
    if len(segments) != len(texts):
        raise ValueError(f"{name} has {len(segments)} sequences, but there are {len(texts)}")
    checked = []
    for n, (of_one, words) in enumerate(zip(segments, texts, strict=True)):
        rows = sorted(_read_rows(of_one, len(words), n, name), key=lambda row: row[:2])
        for before, row in zip(rows[:-1], rows[1:], strict=True):
            if row[0] < before[1]:
                raise ValueError(
                    f"{name} has segments that overlap: {short(before[:3])} and {short(row[:3])} (sequence {n})"
                )
        checked.append(rows)
    return checked


def _read_rows(segments: Any, n_tokens: int, n: int, name: str) -> list[tuple]:
    """Return (start, stop, label, probability or None) of each segment of sequence ``n``, or raise."""
    rows = []
    for i, segment in enumerate(segments):
        where = f"sequence {n}, position {i}"
        row = parts_of_segment(segment)
        start, stop, label = read_segment(row[:3] if len(row) == 4 else row, where, name)
        if not isinstance(label, Hashable):
            raise TypeError(f"a label must be hashable, but {name} has the segment {short(row)} ({where})")
        if stop > n_tokens:
            raise ValueError(
                f"{name} has the segment {short((start, stop, label))} ({where}), but the sequence has {n_tokens} "
                "tokens"
            )
        probability = row[3] if len(row) == 4 else None
        if probability is not None:
            probability = finite_number(probability, where, f"probability of {name}")
        rows.append((start, stop, label, probability))
    return rows
