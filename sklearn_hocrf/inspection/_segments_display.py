"""Segments in coloured text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import chain, pairwise
from typing import Any, NamedTuple, Self

from sklearn.base import BaseEstimator

from .._data.checks import check_choice, short
from .._data.messages import escaped, visible
from .._estimator.answers.fitted import FittedModel
from .._reading.label_sequences import read_segment_lists, read_segmentations, refuse_other_sizes, tokens_of
from .._reading.schemes import NO_LABEL, OUTSIDE, PREFIXES, SCHEMES, guessed_scheme, split_tag
from .._sklearn.layers import method_of_model, model_inside
from ._display import chip, color_map, listed, remaining, texts_of


class SegmentsDisplay:
    """Display of sequences as text with coloured segments and their labels and probabilities.

    Create one with :meth:`from_estimator` or :meth:`from_predictions`. A notebook shows the display as HTML without
    scripts, in which every token appears as text, even ``<script>``. Control characters are escaped, and right-to-left
    text runs from right to left.

    Parameters
    ----------
    texts : list of lists of str
        The tokens of each sequence, as strings.
    segments : list of lists of segments
        The segments of each sequence, in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts. They must
        not overlap. Segments with the label "O" are shown like the text between segments. The label "_", which stands
        for tags without a label, is not shown.
    true_segments : list of lists of segments or None, default=None
        The true segments. Predicted segments that are not among the true segments are marked as wrong, and true
        segments that are not predicted are listed below their sequence.
    gaps : list of lists of str or None, default=None
        The text after each token; None means a space after every token.
    names : list of str or None, default=None
        The names to show before the sequences in HTML; None means the indices of the sequences.
    classes : iterable of labels or None, default=None
        All segment labels, to which colours are assigned in this order; None means the labels shown, in sorted order.

    Attributes
    ----------
    max_sequences : int
        Maximum number of sequences shown, 20 by default.
    colors : dict
        The colour of each label as "#RRGGBB"; you can replace the colours. The first eight colours are distinguishable
        with any kind of colour vision; their tints follow, and then the colours repeat.

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
    [Ann Lee | PER 0.82] met [Bob | PER 0.91]
    We met [Ann | PER 0.93]
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
        self.texts, self.names = texts, names
        self.gaps = [[" "] * len(tokens) for tokens in texts] if gaps is None else gaps
        self.segments = _checked_segments(segments, texts, "segments")
        self.true_segments = None if true_segments is None else _checked_segments(true_segments, texts, "true_segments")
        shown = {segment[2] for of_one in [*self.segments, *(self.true_segments or [])] for segment in of_one}
        self.colors = color_map(chain(classes or (), sorted(shown, key=str)))

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Sized,
        y_true: Sized | None = None,
        *,
        scheme: str = "auto",
        known: Sized | None = None,
        separator: str = " ",
    ) -> Self:
        """Return a display of the segments that a model predicts, with their probabilities.

        Parameters
        ----------
        estimator : estimator
            A fitted model of this package, or a pipeline or a search around one.
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in the estimator's ``predict``. For a token that is a mapping, a list or a tuple, the display shows the
            first string; for a token without strings, it shows the position. For a
            :class:`~sklearn_hocrf.SequenceBatch`, the display shows the first column of strings.
        y_true : list of sequences or None, default=None
            The true labels or segments, to show errors.
        scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
            How labels encode segments; "auto" means the scheme of a :class:`~sklearn_hocrf.HighOrderSemiCRF`, the
            scheme that ``constraints`` names, or the scheme of labels that look like tags; otherwise, it means "runs"
            of equal labels.
        known : list of label sequences, or array-like, default=None
            As in the estimator's ``predict``.
        separator : str, default=" "
            The string between tokens; use "" if tokens are characters. The separator is ignored for a
            :class:`~sklearn_hocrf.text.TokenizedText`, which contains the original text.

        Returns
        -------
        display : SegmentsDisplay

        Raises
        ------
        ValueError, TypeError
            If X, ``y_true`` or ``known`` is invalid, or if labels are not tags of the scheme.

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
        check_choice("scheme", scheme, ("auto", *SCHEMES))
        X, model = listed(X), model_inside(estimator)
        labels_segments = hasattr(model, "segment_labels_")
        scheme = FittedModel(model).scheme if scheme == "auto" else scheme
        options: dict[str, Any] = {"known": known, "with_probability": hasattr(model, "predict_marginals")}
        options |= {} if labels_segments else {"scheme": scheme}
        predicted = method_of_model(estimator, "predict_segments")(X, **options)
        classes = model.segment_labels_.tolist() if labels_segments else _labels_in(model.classes_.tolist(), scheme)
        options = {"scheme": scheme, "separator": separator, "classes": classes}
        return cls.from_predictions(X, predicted, y_true, **options)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        y_pred: Sized,
        y_true: Sized | None = None,
        *,
        scheme: str = "auto",
        separator: str = " ",
        classes: Iterable | None = None,
    ) -> Self:
        """Return a display of the given labels or segments.

        Parameters
        ----------
        X : list of sequences
            The tokens, as in :meth:`from_estimator`.
        y_pred : list of sequences
            Token labels, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts, such as the
            arrays that ``predict_segments(X, with_probability=True)`` returns.
        y_true : list of sequences or None, default=None
            The true labels or segments, to show errors.
        scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
            As in :meth:`from_estimator`. The scheme is ignored for segments.
        separator : str, default=" "
            As in :meth:`from_estimator`.
        classes : iterable of labels or None, default=None
            All possible labels (tags or segment labels), in any order, so that all displays, including those of
            :meth:`from_estimator`, use the same colours. None means the labels shown.

        Returns
        -------
        display : SegmentsDisplay

        Raises
        ------
        ValueError, TypeError
            If ``y_pred`` or ``y_true`` is invalid, contains overlapping segments, or does not match X.

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
        X = listed(X)
        texts = texts_of(X)
        labellings = {"y_pred": listed(y_pred)} | ({} if y_true is None else {"y_true": listed(y_true)})
        tables = read_segmentations(labellings, scheme, X=texts)
        segments, *true = (read.lists(with_probability=True) for read in tables)
        labels = None if classes is None else _labels_in(classes, scheme)
        gaps = [_gaps_of(x, [separator] * len(tokens)) for x, tokens in zip(X, texts, strict=True)]
        return cls(texts, segments, true[0] if true else None, gaps, classes=labels)

    # --- contents -----------------------------------------------------------------------------------------------------

    def _pieces(self, n: int) -> Iterator[_Piece]:
        """Yield the pieces of a sequence: its segments, and the tokens between segments."""
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
        """Return the true segments that were not predicted."""
        true, predicted = (self.true_segments or {n: []})[n], {segment[:3] for segment in self.segments[n]}
        missed = [segment[:3] for segment in true if segment[:3] not in predicted and segment[2] != OUTSIDE]
        return [_Piece(start, stop, label, None, "missed") for start, stop, label in missed]

    def _text(self, n: int, piece: _Piece) -> str:
        """Return the text of a piece, without the gap after it."""
        words, gaps = (of_tokens[n][piece.start : piece.stop] for of_tokens in (self.texts, self.gaps))
        return "".join(word + gap for word, gap in zip(words, [*gaps[:-1], ""], strict=True))

    def _gap(self, n: int, piece: _Piece) -> str:
        """Return the gap after a piece."""
        return self.gaps[n][piece.stop - 1]

    def _shown(self) -> range:
        return range(min(len(self.texts), self.max_sequences))

    def _rest(self) -> list[str]:
        return remaining(len(self.texts) - len(self._shown()), "sequence")

    # --- text ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        lines = []
        for n in self._shown():
            lines.append("".join(self._bracketed(n, piece) + self._gap(n, piece) for piece in self._pieces(n)).rstrip())
            if missed := self._missed(n):
                lines.append("    not found: " + " ".join(self._bracketed(n, piece) for piece in missed))
        return "\n".join(line for line in lines + self._rest() if line) or "no tokens"

    def _bracketed(self, n: int, piece: _Piece) -> str:
        text = visible(self._text(n, piece))
        if piece.label is None:
            return text
        return f"[{text} | {piece.caption}]" if piece.caption else f"[{text}]"

    # --- HTML ---------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        sequences = "".join(map(self._sequence_html, self._shown()))
        rest = "".join(f"<div>{text}</div>" for text in self._rest())
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


class _Piece(NamedTuple):
    """Tokens of a sequence: a segment, or the tokens between segments."""

    start: int
    stop: int
    label: Any = None  # None between segments
    probability: float | None = None
    edge: str = ""  # one of EDGES

    @property
    def caption(self) -> str:
        """The label and the probability as a string."""
        label = "" if self.label == NO_LABEL else visible(self.label)
        caption = label if self.probability is None else f"{label} {self.probability:.2f}".strip()
        return f"✗ {caption}" if self.edge == "wrong" else caption


# --- texts of tokens, and segments of any form ------------------------------------------------------------------------


def _gaps_of(sequence: Any, separators: list[str]) -> list[str]:
    """Return the text after each token, from a sequence's text and offsets, or from ``separators`` if it has none."""
    if not (hasattr(sequence, "text") and hasattr(sequence, "offsets")):
        return separators
    starts, stops = sequence.offsets.T.tolist()
    gaps = [sequence.text[stop:start] for stop, start in zip(stops[:-1], starts[1:], strict=True)]
    return [*gaps, ""] if stops else []


def _labels_in(classes: Iterable, scheme: str) -> list:
    """Return the segment labels in tags of a known or guessed scheme; other labels are returned unchanged."""
    return sorted(set(labels_of_classes(list(classes), scheme)), key=str)


def labels_of_classes(classes: list, scheme: str) -> list:
    """Return the segment label of each class that is a tag of a known or guessed scheme; other classes are
    unchanged."""
    scheme = guessed_scheme(classes) if scheme == "auto" else scheme
    parts = [split_tag(label, scheme) if scheme in PREFIXES else None for label in classes]
    return [label if part is None else part[1] for label, part in zip(classes, parts, strict=True)]


def _checked_segments(segments: Any, texts: list[list[str]], name: str) -> list[list[tuple]]:
    """Return (start, stop, label, probability or None) of each segment, in order, or raise an error."""
    read = read_segment_lists(segments, name)
    refuse_other_sizes({"texts": tokens_of(texts), name: read})
    ordered = [sorted(rows, key=lambda row: row[:2]) for rows in read.lists(with_probability=True)]
    for n, rows in enumerate(ordered):
        for before, row in pairwise(rows):
            if row[0] < before[1]:
                raise ValueError(
                    f"{name} has segments that overlap: {short(before[:3])} and {short(row[:3])} (sequence {n})"
                )
    return ordered
