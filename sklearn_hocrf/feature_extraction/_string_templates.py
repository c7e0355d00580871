"""Features by the template files of CRF++ and Wapiti: each line is a text with places for what tokens hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._validation._sklearn import Interval
from ._vectorizer import AttributeCounts, SequenceDictVectorizer

__all__ = ["TemplateVectorizer", "read_templates"]

_MACRO = re.compile(r"%([A-Za-z])(?:\[\s*(@?)\s*([-+]?\d+)\s*,\s*(\d+)\s*((?:,[^\]]*)?)\])?")
_FAR = 4  # places outside a sequence beyond this one are all the same in Wapiti


class Place(NamedTuple):
    """A macro: the column of a token at an offset."""

    offset: int
    column: int
    is_lower: bool


class Line(NamedTuple):
    """A line of templates."""

    orders: tuple[int, ...]  # of the label patterns with which its features are paired
    texts: list[str]  # around the places
    places: list[Place]
    text: str


def read_templates(path: str | PathLike[str], *, style: str = "auto", min_count: int = 1) -> TemplateVectorizer:
    """Return a transformer that makes the features of a template file of CRF++ or Wapiti.

    Parameters
    ----------
    path : str or path-like
        A text file in UTF-8, see :class:`TemplateVectorizer`. Lines that are empty or begin with ``#`` are skipped, and
        so are spaces and tabs around a template.
    style : {"auto", "crf++", "wapiti"}, default="auto"
        As for :class:`TemplateVectorizer`.
    min_count : int, default=1
        Features of fewer training tokens than this are left out.

    Returns
    -------
    transformer : TemplateVectorizer
        Its attributes ``max_order`` and ``feature_order`` are the parameters of a :class:`~sklearn_hocrf.HighOrderCRF`
        with the pairs of labels that the file asks for.

    Raises
    ------
    ValueError
        For a line that is not a template, or that has one of Wapiti's tests, ``%t`` and ``%m``; the message names the
        file and the line. For bytes that are not UTF-8 it names their line and their place in the file.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf import HighOrderCRF, make_pipeline
    >>> from sklearn_hocrf.feature_extraction import read_templates
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "template")
    ...     _ = path.write_text("U00:%x[0,0]\\nU01:%x[-1,0]/%x[0,1]\\n\\nB\\n")
    ...     templates = read_templates(path)
    >>> templates.max_order, templates.feature_order
    (1, 0)
    >>> X, y = [[("He", "PRP"), ("runs", "VBZ")]], [["B-NP", "B-VP"]]
    >>> pipe = make_pipeline(
    ...     templates,
    ...     HighOrderCRF(templates.max_order, feature_order=templates.feature_order),
    ... )
    >>> pipe.fit(X, y)[0].get_feature_names_out().tolist()
    ['U00:He', 'U00:runs', 'U01:He/VBZ', 'U01:_B-1/PRP']
    """
    lines = {}
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        template = line.strip(" \t\r")  # no more: a space of another kind belongs to the text
        if template and not template.startswith("#"):
            lines[number] = template
    made = TemplateVectorizer(list(lines.values()), style=style, min_count=min_count)
    try:
        made._compile()
    except _BadTemplate as error:
        raise ValueError(f"{path}, line {list(lines)[error.number]}: {error}") from None
    return made


def _read_text(path: str | PathLike[str]) -> str:
    content = Path(path).read_bytes()
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        place = error.start + (len(content) - len(error.object))  # the mark at the beginning is not in ``object``
        line = content.count(b"\n", 0, place) + 1
        raise ValueError(f"{path}, line {line}: byte {place} of the file, {content[place]:#x}, is not UTF-8") from None


class _BadTemplate(ValueError):
    """A template that cannot be read; ``number`` is its place in the list."""

    def __init__(self, number, message):
        super().__init__(message)
        self.number = number


class TemplateVectorizer(SequenceDictVectorizer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Make the features of templates of CRF++ and Wapiti, each of which is a string.

    A template is a text with macros: ``%x[-1,0]`` stands for the first column of the token before, so that
    ``U01:%x[-1,0]/%x[0,1]`` gives ``U01:the/NN``. Equal strings are one feature, whichever template they come from: in
    these programs, and so here, identifiers such as ``U01:`` tell templates apart, and templates without one make
    features that hold at any of their places. The first letter of a template says with what its features are paired:
    ``U`` with labels, ``B`` with pairs of labels, ``*`` with both; in either case. ``B`` or ``*`` alone are the pairs
    of labels themselves. ``%X`` makes the text lower-case.

    Parameters
    ----------
    templates : sequence of str
        The templates.
    style : {"auto", "crf++", "wapiti"}, default="auto"
        What stands for places outside the sequence: ``_B-1``, ``_B+1`` and so on in CRF++, ``_x-1``, ``_x+1`` in
        Wapiti. "auto" is Wapiti's style if some template begins with ``*``, ``u`` or ``b``.
    min_count : int, default=1
        Features of fewer training tokens than this are left out.

    Attributes
    ----------
    max_order : int
        1 if there are pairs of labels, else 0.
    feature_order : int or dict
        For the parameter of the estimators.
    vocabulary_ : dict
        Number of each feature, by its string.
    n_features_out_ : int
        Number of features.

    See Also
    --------
    read_templates : Reads a file of templates.
    SequenceFeatureExtractor : The features of this package, which take a fraction of the time.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction import TemplateVectorizer
    >>> templates = TemplateVectorizer(["U:%x[0,0]", "U:%x[1,0]", "*:%X[0,0]"])
    >>> templates.fit([[["In", "IN"], ["May", "NNP"]]]).get_feature_names_out().tolist()
    ['*:in', '*:may', 'U:In', 'U:May', 'U:_x+1']
    >>> templates.max_order, templates.feature_order
    (1, {'*': 1})
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # where users import it from: files of models name this place

    _parameter_constraints = {
        "templates": [tuple, list],
        "style": [str],
        "min_count": [Interval(Integral, 1, None, closed="left")],
    }
    columns = ()

    def __init__(self, templates: Sequence[str], *, style: str = "auto", min_count: int = 1) -> None:
        self.templates = templates
        self.style = style
        self.min_count = min_count

    @property
    def max_order(self) -> int:
        """The highest order of label patterns that the templates ask for."""
        return max((max(line.orders) for line in self._compile()), default=0)

    @property
    def feature_order(self) -> int | dict[str, Any]:
        """The orders of the label patterns that are paired with features, by the first letter of their names."""
        orders = {line.text[0]: line.orders for line in self._compile() if len(line.text) > 1 and max(line.orders)}
        return {letter: 1 if len(of_letter) == 2 else of_letter for letter, of_letter in sorted(orders.items())} or 0

    def transform(self, X: Any) -> SequenceBatch:
        """Return the batch of sequences; features that were not seen in training are ignored.

        Parameters
        ----------
        X : list of sequences of tokens
            A token is a list or tuple of texts, its columns, or a text, which is the only column.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError, TypeError
            If a token is not of this form or lacks a column; the message names sequence and position.
        """
        return super().transform(self._strings(X))

    def _learn(self, X) -> SequenceBatch:
        return super()._learn(self._strings(X))

    def _count_partition(self, X, y) -> AttributeCounts:
        return super()._count_partition(self._strings(X), y)

    def _compile(self) -> list[Line]:
        """Return the templates, read; raise a ValueError for one that is not valid."""
        if self.style not in ("auto", "crf++", "wapiti"):
            raise ValueError(f"style must be 'auto', 'crf++' or 'wapiti', got {short(self.style)}")
        return [_line(number, text) for number, text in enumerate(self.templates)]

    def _strings(self, X) -> list[list[list[str]]]:
        """Return the features of each token."""
        lines, style = compiled_templates(self)
        n_columns = 1 + max((place.column for line in lines for place in line.places), default=0)
        outside = _outside_of_wapiti if style == "wapiti" else _outside
        return [_strings_of(sequence, lines, outside) for sequence in _tokens(X, n_columns)]


def compiled_templates(vectorizer: TemplateVectorizer) -> tuple[list[Line], str]:
    """Return the templates that make features, and the style of what stands for places outside."""
    style = vectorizer.style
    if style == "auto":
        style = "wapiti" if any(line[:1] in "*ub" for line in vectorizer.templates) else "crf++"
    return [line for line in vectorizer._compile() if len(line.text) > 1], style


def _line(number: int, text: Any) -> Line:
    if not isinstance(text, str) or not text or text[0] not in "UuBb*":
        raise _BadTemplate(number, f"a template begins with U, B or *, got {short(text)}")
    orders = {"u": (0,), "b": (1,), "*": (0, 1)}[text[0].lower()]
    texts, places, last = [], [], 0
    for macro in _MACRO.finditer(text):
        letter, is_absolute, offset, column, rest = macro.groups()
        if letter.lower() != "x" or offset is None or is_absolute or rest:
            why = "tests are not supported" if letter.lower() in "tm" else "this is not a place such as %x[-1,0]"
            raise _BadTemplate(number, f"{macro.group()} in {short(text)}: {why}")
        texts.append(text[last : macro.start()])
        places.append(Place(int(offset), int(column), letter == "X"))
        last = macro.end()
    if "%x[" in (rest_of := text[last:]).lower() or any("%x[" in part.lower() for part in texts):
        raise _BadTemplate(number, f"{short(text)} has a place that cannot be read; one is %x[-1,0]")
    return Line(orders, [*texts, rest_of], places, text)


def _outside(place: int, length: int) -> str:
    """Return what stands for a place outside a sequence in CRF++."""
    return f"_B{place}" if place < 0 else f"_B+{place - length + 1}"


def _outside_of_wapiti(place: int, length: int) -> str:
    """Return what stands for a place outside a sequence in Wapiti."""
    far = -place if place < 0 else place - length + 1
    return f"_x{'-' if place < 0 else '+'}{far if far <= _FAR else '#'}"


def _tokens(X: Any, n_columns: int) -> Iterable[list[Sequence[str]]]:
    """Yield each sequence as a list of tokens with enough columns, or raise."""
    if isinstance(X, (str, bytes, SequenceBatch)) or not isinstance(X, Iterable):
        raise TypeError(f"X must be a list of sequences of tokens, got {type(X).__name__}")
    for n, sequence in enumerate(X):
        if isinstance(sequence, (str, bytes)) or not isinstance(sequence, Iterable):
            raise TypeError(f"sequence {n} must be a list of tokens, got {short(sequence)}")
        tokens: list[Sequence[str]] = []
        for t, token in enumerate(sequence):
            columns = [token] if isinstance(token, str) else token
            if not isinstance(columns, (list, tuple)) or not all(isinstance(column, str) for column in columns):
                raise TypeError(f"sequence {n}, position {t}: a token must be texts in columns, got {short(token)}")
            if len(columns) < n_columns:
                raise ValueError(
                    f"sequence {n}, position {t}: the token {short(token)} has {len(columns)} columns, but the "
                    f"templates read {n_columns}"
                )
            tokens.append(columns)
        yield tokens


def _strings_of(
    sequence: list[Sequence[str]], lines: list[Line], outside: Callable[[int, int], str]
) -> list[list[str]]:
    """Return the strings of each token, in the order of the templates."""
    length = len(sequence)
    columns = {}
    for place in dict.fromkeys(place for line in lines for place in line.places):
        offset, column, is_lower = place
        texts = [sequence[t][column] if 0 <= t < length else outside(t, length) for t in range(offset, offset + length)]
        inside = range(max(0, -offset), min(length, length - offset))
        columns[place] = [text.lower() if is_lower and t in inside else text for t, text in enumerate(texts)]
    by_line = []
    for line in lines:
        parts: list[Iterable[str]] = [[line.texts[0]] * length]
        for place, text in zip(line.places, line.texts[1:], strict=True):
            parts += [columns[place], [text] * length]
        by_line.append(map("".join, zip(*parts, strict=True)))
    return [list(strings) for strings in zip(*by_line, strict=True)] if lines else [[] for _ in sequence]
