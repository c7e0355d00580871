"""Conversion between character spans and token labels, between tagging schemes, and from labels to segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

from .._data.checks import check_choice, short
from .._reading.label_sequences import LabelSequences, hold_any_segments, read_segmentations
from .._reading.schemes import OUTSIDE, PREFIXES, SCHEMES, TAG_SCHEMES, join_tag, read_segment
from .._reading.values import is_missing
from ._tokens import TokenizedText, check_tokenized, is_mark

MISALIGNED = ("raise", "expand", "contract", "drop")
Span = tuple[int, int, Any]


class Text(NamedTuple):
    """The tokens of one text.   T tokens."""

    where: str  # name of the text in messages
    start: list[int]  # (T,)   first character of each token
    stop: list[int]  # (T,)   character after the last
    text: str

    def token(self, t: int) -> str:
        """Return a token with its position, for messages."""
        start, stop = self.start[t], self.stop[t]
        return f"{short(self.text[start:stop])} ({start}, {stop})"


# --- from spans to tags -----------------------------------------------------------------------------------------------


def tags_from_spans(
    tokenized: Sequence[TokenizedText], spans: Iterable[Any], scheme: str = "bio", *, misaligned: str = "raise"
) -> list[list]:
    """Return token labels for annotated character spans.

    Parameters
    ----------
    tokenized : list of TokenizedText
        The tokens, as returned by :func:`tokenize`.
    spans : list of lists of spans
        The spans of each text, in any order: (start, stop, label), with ``stop`` excluded, or in any other form that
        :func:`~sklearn_hocrf.text.extract_segments` accepts, such as dicts.
    scheme : {"bio", "bioes", "bilou", "bmes", "iob1", "runs", "segments"}, default="bio"
        How token labels encode spans, as in :func:`~sklearn_hocrf.text.extract_segments`. Tokens outside all spans get
        "O"; with "segments", each of these tokens becomes a segment labelled "O".
    misaligned : {"raise", "expand", "contract", "drop"}, default="raise"
        How to treat spans that are not aligned with token boundaries. "raise" raises an error, "expand" extends the
        span to all tokens that it touches, "contract" reduces it to the tokens that are completely inside, and "drop"
        omits it. Except with "raise", spans without tokens are omitted.

    Returns
    -------
    y : list of lists
        The labels of each sequence of `tokenized`; with "segments", tuples (start, stop, label), counted in tokens.

    Raises
    ------
    TypeError
        If a span has none of these forms, or if its label is not a string although `scheme` is a tagging scheme.
    ValueError
        If spans overlap or end after the text, if the label of a span is "O", if `misaligned` is "raise" and a span
        does not begin and end at token boundaries, if both a span and the tokens separate a letter from its combining
        mark, or if "runs" would join two spans. The message names the text and the span.

    See Also
    --------
    spans_from_tags : Return character spans for token labels (the inverse).

    Examples
    --------
    >>> from sklearn_hocrf.text import tags_from_spans, tokenize
    >>> tokenized = tokenize(["Ann Lee, Oslo"])
    >>> tags_from_spans(tokenized, [[(0, 7, "PER"), (9, 13, "LOC")]])
    [['B-PER', 'I-PER', 'O', 'B-LOC']]
    >>> tags_from_spans(tokenized, [[(0, 6, "PER")]], "bioes", misaligned="contract")
    [['S-PER', 'O', 'O', 'O']]
    >>> tags_from_spans(tokenized, [[(0, 6, "PER")]])
    Traceback (most recent call last):
    ValueError: text 0: span (0, 6, 'PER') cuts the token 'Lee' (4, 7); misaligned="expand" takes the whole token
    """
    check_choice("scheme", scheme, SCHEMES)
    check_choice("misaligned", misaligned, MISALIGNED)
    tokenized, spans = check_tokenized(tokenized), list(spans)
    if len(spans) != len(tokenized):
        raise ValueError(f"spans has {len(spans)} lists, but tokenized has {len(tokenized)} texts")
    segments = []
    for n, (tokens, of_text) in enumerate(zip(tokenized, spans, strict=True)):
        start, stop = tokens.offsets.T.tolist()
        text = Text(f"text {n}", start, stop, tokens.text)
        segments.append(list(_segments_of_text(text, _read_spans(of_text, text, scheme), misaligned, scheme)))
    return labels_of_segments(segments, [len(tokens) for tokens in tokenized], scheme)


def _read_spans(spans: Any, text: Text, scheme: str) -> list[Span]:
    """Return the spans of a text in order, or raise an error."""
    if isinstance(spans, (str, bytes)) or not hasattr(spans, "__iter__"):
        raise TypeError(f"{text.where}: spans must be a list of (start, stop, label), got {short(spans)}")
    segments = (read_segment(span, f"{text.where}, position {i}", "spans")[:3] for i, span in enumerate(spans))
    read = sorted(segments, key=lambda span: span[:2])
    for span in read:
        if span[1] > len(text.text):
            raise ValueError(
                f"{text.where}: span {short(span)} ends after the text, which has {len(text.text)} characters"
            )
        _check_label(span, text.where, scheme)
    for before, after in pairwise(read):
        if after[0] < before[1]:
            raise ValueError(f"{text.where}: the spans {short(before, 40)} and {short(after, 40)} overlap")
    return read


def _check_label(span: Span, where: str, scheme: str) -> None:
    label = span[2]
    if is_missing(label):
        raise ValueError(f"{where}: span {short(span)} has no label")
    if scheme in PREFIXES and not isinstance(label, str):
        raise TypeError(f"{where}: span {short(span)} has a label that is not a string; for tags, use str(label)")
    if isinstance(label, str) and label in ("", OUTSIDE):
        raise ValueError(
            f"{where}: span {short(span)} has the label {label!r}; 'O' is reserved for tokens outside all spans"
        )


def _segments_of_text(text: Text, spans: list[Span], misaligned: str, scheme: str) -> Iterable[Span]:
    """Yield (start, stop, label), counted in tokens, for each span that is kept."""
    previous: tuple[Span, int] | None = None
    for span in spans:
        first, end = _tokens_of_span(text, span, misaligned)
        if first >= end:
            continue
        if previous is not None and first < previous[1]:
            raise ValueError(
                f"{text.where}: the spans {short(previous[0], 40)} and {short(span, 40)}, expanded, overlap in the "
                f"token {text.token(first)}"
            )
        if scheme == "runs" and previous is not None and first == previous[1] and previous[0][2] == span[2]:
            raise ValueError(
                f"{text.where}: there is no token between the spans {short(previous[0], 40)} and {short(span, 40)} "
                "with the same "
                'label, which scheme="runs" would join'
            )
        previous = (span, end)
        yield first, end, span[2]


def _tokens_of_span(text: Text, span: Span, misaligned: str) -> tuple[int, int]:
    """Return the range of a span's tokens, which is empty if the span is dropped."""
    start, stop, _ = span
    touched = bisect_right(text.stop, start), bisect_left(text.start, stop)
    inside = bisect_left(text.start, start), bisect_right(text.stop, stop)
    first, end = touched
    if first < end and text.start[first] == start and text.stop[end - 1] == stop:
        if cut := _cut_mark(text.text, start, stop):
            raise ValueError(f"{text.where}: span {short(span)} {cut}, as the tokens do: cut texts between letters")
        return touched
    if misaligned == "raise":
        raise ValueError(f"{text.where}: span {short(span)} {_fault(text, start, stop, touched)}")
    return {"expand": touched, "contract": inside, "drop": (0, 0)}[misaligned]


def _fault(text: Text, start: int, stop: int, touched: tuple[int, int]) -> str:
    first, end = touched
    if first >= end:
        return 'has no token; misaligned="drop" omits it'
    if cut := _cut_mark(text.text, start, stop):
        return f'{cut}; misaligned="expand" takes the whole token'
    for t in (first, end - 1):
        if text.start[t] < start or text.stop[t] > stop:
            return f'cuts the token {text.token(t)}; misaligned="expand" takes the whole token'
    return (
        f'begins or ends between tokens; misaligned="expand" takes its tokens, ({text.start[first]}, '
        f"{text.stop[end - 1]})"
    )


def _cut_mark(text: str, start: int, stop: int) -> str:
    """Describe how a span separates a character from its combining mark; return an empty string if it does not."""
    for t in (start, stop):
        if 0 < t < len(text) and is_mark(text[t]) and not text[t - 1].isspace():
            return f"cuts {text[t - 1]!r} at character {t} from its mark U+{ord(text[t]):04X}"
    return ""


def labels_of_segments(segments: list[list[Span]], lengths: list[int], scheme: str) -> list[list]:
    """Return the token labels for segments; tokens outside all segments get "O"."""
    tiles = [_tile_spans(of_sequence, length) for of_sequence, length in zip(segments, lengths, strict=True)]
    if scheme == "segments":
        return tiles
    if scheme == "runs":
        return [[label for start, stop, label in tile for _ in range(stop - start)] for tile in tiles]
    return [_tags(tile, scheme) for tile in tiles]


def _tile_spans(segments: list[Span], n_tokens: int) -> list[Span]:
    """Return the segments, and a segment labelled "O" for each token between them."""
    tile: list[Span] = []
    last = 0
    for segment in [*segments, (n_tokens, n_tokens, OUTSIDE)]:
        tile += [(t, t + 1, OUTSIDE) for t in range(last, segment[0])]
        last = segment[1]
        tile += [segment] if segment[0] < segment[1] else []
    return tile


def _tags(tile: list[Span], scheme: str) -> list[str]:
    """Return the tags of a sequence, given segments that cover all its tokens."""
    rules, before = TAG_SCHEMES[scheme], OUTSIDE
    tags: list[str] = []
    for start, stop, label in tile:
        prefixes = [rules.first, *[rules.inner] * (stop - start - 2), rules.last]
        prefixes = [rules.only] if stop - start == 1 else prefixes
        if rules.has_separators and label != before:
            prefixes[0] = rules.inner
        tags += [OUTSIDE] if label == OUTSIDE else [join_tag(prefix, label, scheme=scheme) for prefix in prefixes]
        before = label
    return tags


# --- from tags to spans -----------------------------------------------------------------------------------------------


def spans_from_tags(tokenized: Sequence[TokenizedText], y: Sequence[Any], scheme: str = "auto") -> list[list[tuple]]:
    """Return character spans for token labels.

    Parameters
    ----------
    tokenized : list of TokenizedText
        The tokens, as returned by :func:`tokenize`.
    y : list of label sequences
        The true or predicted labels of each sequence; or segments, counted in tokens, in any form that
        :func:`~sklearn_hocrf.text.extract_segments` accepts, such as the arrays that ``predict_segments(X,
        with_probability=True)`` returns, or that a :class:`~sklearn_hocrf.tagger.Tagger` returns for each sequence.
    scheme : {"auto", "bio", "bioes", "bilou", "bmes", "iob1", "runs", "segments"}, default="auto"
        How labels encode segments, as in :func:`~sklearn_hocrf.text.extract_segments`. Segments with the label "O" are
        omitted.

    Returns
    -------
    spans : list of lists of (start, stop, label) or (start, stop, label, probability)
        The character spans of each text, with the probabilities that `y` contains, if any; ``stop`` is excluded. A span
        extends from the start of its first token to the stop of its last token.

    Raises
    ------
    TypeError, ValueError
        If `y` does not match the tokens, or if a label is not a tag; the message names the sequence and the position.

    See Also
    --------
    tags_from_spans : Return token labels for character spans (the inverse).

    Examples
    --------
    >>> from sklearn_hocrf.text import spans_from_tags, tokenize
    >>> tokenized = tokenize(["Ann Lee, Oslo"])
    >>> spans_from_tags(tokenized, [["B-PER", "I-PER", "O", "B-LOC"]])
    [[(0, 7, 'PER'), (9, 13, 'LOC')]]
    >>> spans_from_tags(tokenized, [[(0, 2, "PER", 0.5), (3, 4, "LOC", 0.25)]])
    [[(0, 7, 'PER', 0.5), (9, 13, 'LOC', 0.25)]]
    """
    tokenized, y = check_tokenized(tokenized), list(y)
    (read,) = read_segmentations({"y": y}, scheme, tokenized=tokenized)
    with_probability = bool(read.rows) and None not in read.probability
    return [
        [
            (int(tokens.offsets[start, 0]), int(tokens.offsets[stop - 1, 1]), label, *probability)
            for start, stop, label, *probability in segments
            if not (isinstance(label, str) and label == OUTSIDE)
        ]
        for tokens, segments in zip(tokenized, read.lists(with_probability=with_probability), strict=True)
    ]


def convert_tags(
    y: Iterable[Sequence[Any]], source: str, target: str, *, lengths: Iterable[int] | None = None
) -> list[list]:
    """Convert token labels between schemes or to and from segments, or repair invalid tags.

    Parameters
    ----------
    y : list of label sequences
        The tags to convert, or segments in any form that :func:`~sklearn_hocrf.text.extract_segments` accepts.
    source : {"bio", "bioes", "bilou", "bmes", "iob1", "runs", "segments"}
        The scheme of `y`. Invalid tags, such as an I after an O in "bio", begin a segment, as in conlleval (see
        :func:`~sklearn_hocrf.text.extract_segments`).
    target : {"bio", "bioes", "bilou", "bmes", "iob1", "runs", "segments"}
        The scheme of the result. If `y` already has this scheme, valid tags remain the same. With "runs", neighbouring
        segments with the same label become a single segment.
    lengths : iterable of int, default=None
        Number of tokens of each sequence, if the source is "segments"; tokens outside all segments get "O". By default,
        sequences end with their last segments, and there must be no gaps.

    Returns
    -------
    y : list of lists
        Labels in the scheme `target`; with "segments", lists of (start, stop, label) with a segment labelled "O" for
        each token outside all segments.

    Raises
    ------
    TypeError, ValueError
        If a scheme does not exist, if a label is not a tag, if `y` contains segments and the source is another scheme,
        or if segments overlap, end after the last token or, without `lengths`, leave a gap. The message names the
        sequence and the position.

    See Also
    --------
    tags_from_spans : Return token labels for character spans.

    Examples
    --------
    >>> from sklearn_hocrf.text import convert_tags
    >>> convert_tags([["I-PER", "I-PER", "O", "I-LOC", "B-LOC"]], "bio", "bio")
    [['B-PER', 'I-PER', 'O', 'B-LOC', 'B-LOC']]
    >>> convert_tags([["B-PER", "I-PER", "O", "B-LOC"]], "bio", "bilou")
    [['B-PER', 'L-PER', 'O', 'U-LOC']]

    Segments, such as those that ``predict_segments`` returns:

    >>> convert_tags([[(0, 2, "PER")], []], "segments", "bio", lengths=[4, 1])
    [['B-PER', 'I-PER', 'O', 'O'], ['O']]
    """
    check_choice("source", source, SCHEMES)
    check_choice("target", target, SCHEMES)
    if source != "segments" and lengths is not None:
        raise ValueError(f"lengths are those of sequences with segments, but source={source!r}")
    y = [*y]
    if source != "segments" and hold_any_segments(y=y):
        raise ValueError(f'y contains segments (start, stop, label), but source={source!r}: pass source="segments"')
    (read,) = read_segmentations({"y": y}, source)
    lists = read.lists()
    n_tokens = _n_tokens(lists, lengths) if read.lengths is None else read.lengths.tolist()
    segments = [[segment for segment in of_sequence if segment[2] != OUTSIDE] for of_sequence in lists]
    for n, of_sequence in enumerate(segments):
        for segment in of_sequence:
            _check_label(segment, f"y[{n}] (sequence {n})", target)
    return labels_of_segments(segments, n_tokens, target)


def _n_tokens(segments: list[list[Span]], lengths: Iterable[int] | None) -> list[int]:
    """Return the number of tokens of each sequence; without ``lengths``, there must be no gaps between segments."""
    stops = [[0, *(stop for _, stop, _ in of_sequence)] for of_sequence in segments]
    n_tokens = [of_sequence[-1] for of_sequence in stops] if lengths is None else list(lengths)
    if len(n_tokens) != len(segments):
        raise ValueError(f"lengths has {len(n_tokens)} numbers, but y has {len(segments)} sequences")
    for n, (of_sequence, ends, length) in enumerate(zip(segments, stops, n_tokens, strict=True)):
        if not isinstance(length, Integral) or length < ends[-1]:
            raise ValueError(
                f"y[{n}] (sequence {n}) has a segment that ends at {ends[-1]}, but lengths[{n}] is {length!r:.60}"
            )
        for end, segment in zip(ends, of_sequence, strict=False):
            if segment[0] < end:
                raise ValueError(
                    f"y[{n}] (sequence {n}): {short(segment)} overlaps the segment before or is out of order"
                )
            if segment[0] > end and lengths is None:
                raise ValueError(f"y[{n}] (sequence {n}) has no segment at token {end}: pass lengths, in tokens")
    return n_tokens


def extract_segments(
    y: LabelSequences, *, scheme: str = "auto", strict: bool = False
) -> list[list[tuple[int, int, Any]]]:
    """Return the segments of label sequences.

    Parameters
    ----------
    y : list of sequences
        Token labels, as lists, tuples or arrays of shape (n_tokens,), which may be empty; or segments, with ``stop``
        excluded, which are only checked, whatever the scheme:

        * tuples or lists (start, stop, label) or (start, stop, label, probability);
        * dicts with the keys "start", "stop" or "end", and "label", or "labels" with one member. "probability" is
          optional, and other keys are ignored;
        * structured arrays with fields of these names, such as those that ``predict_segments`` returns.

        Labels that are tuples of this form, with two integers at the beginning, are also read as segments.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How labels encode segments:

        * "auto": the scheme that all labels fit, or else "runs"; "segments" if y consists of segments;
        * "runs": a segment is a maximal run of equal labels;
        * "bio": tags "B-PER", "I-PER", "O"; a segment begins with B and continues with I of the same label;
        * "bioes": the same, but with E for the last token of a segment and S for segments of one token; "bilou" (spaCy)
          and "bmes" use other letters for the same tags;
        * "iob1": a segment begins with I, or with B if it directly follows a segment of the same label;
        * "segments": `y` must consist of segments.

        A tag without a label ("B", "I") gets the label "_". If all labels are "O", there are no segments.
    strict : bool, default=False
        Whether to exclude invalid tags from segments, as with ``mode="strict"`` in seqeval. Examples are an I after an
        O in "bio", and a B without an E in "bioes". If False, every tag other than O belongs to a segment; a new
        segment begins at B, at S, after E, and where the label changes. The same rules apply in conlleval, in seqeval's
        default mode and in :class:`~sklearn_hocrf.HighOrderSemiCRF`. In "iob1", a B is valid directly after a B or I of
        the same label, even if that tag is invalid itself. An invalid B is read as O; a one-token segment that begins
        with B directly before the invalid tag is also omitted.

            tags (bio)           strict=False            strict=True
            O    I-PER           [1, 2) PER              none
            B-PER  I-LOC         [0, 1) PER, [1, 2) LOC  [0, 1) PER
            B-PER  B-PER  I-PER  [0, 1) PER, [1, 3) PER  the same

            tags (iob1)          strict=False            strict=True
            B-PER  I-PER         [0, 2) PER              [1, 2) PER
            O    B-PER  B-PER    [1, 2) PER, [2, 3) PER  [2, 3) PER
            I-X  B-X    B-Y      three of one token      [0, 1) X

    Returns
    -------
    segments : list of lists of (int, int, label)
        (start, stop, label) of each segment, in order.

    Raises
    ------
    TypeError, ValueError
        If a tag or a segment is invalid; the message names the sequence and the position.

    Warns
    -----
    UserWarning
        If "auto" may be wrong: if tags have no labels, or if some labels look like tags and others do not.

    Examples
    --------
    >>> from sklearn_hocrf.text import extract_segments
    >>> extract_segments([["author", "author", "date"], []])
    [[(0, 2, 'author'), (2, 3, 'date')], []]
    >>> tags = [["I-PER", "O", "B-LOC", "I-LOC", "B-LOC"]]
    >>> extract_segments(tags)
    [[(0, 1, 'PER'), (2, 4, 'LOC'), (4, 5, 'LOC')]]
    >>> extract_segments(tags, strict=True)
    [[(2, 4, 'LOC'), (4, 5, 'LOC')]]
    """
    return read_segmentations({"y": y}, scheme, strict)[0].lists()
