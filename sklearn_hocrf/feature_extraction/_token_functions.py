"""Token functions: functions of the string of a single token, and marks of listed phrases.

The named functions and the search for phrases are in ``_data/tagger.py``, which must not import this package. Functions
are called once per distinct string, not once per token, so plain Python is fast enough. A function returns a str (one
attribute per distinct value), a number (a real-valued attribute), a bool (an indicator) or None (no attribute).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from .._data.checks import short
from .._data.columns import TokenColumn
from .._data.messages import pack_texts, unpack_texts
from .._data.tagger import FUNCTIONS, lengths_by_first, marks_of, named_function
from ._columns import is_text, text_column


def affix_names(longest: int) -> list[str]:
    """Return the names of the functions for prefixes and suffixes of 1 to ``longest`` characters."""
    return [f"{kind}{length}" for kind in ("prefix", "suffix") for length in range(1, longest + 1)]


def as_function(function: Callable | str) -> Callable:
    """Return the token function for a callable or a name; fitted objects contain names, which can be saved."""
    token_function = named_function(function) if isinstance(function, str) else function
    if token_function is None:
        names = ", ".join([*FUNCTIONS, "prefixN", "suffixN"])
        raise ValueError(f"token_features: unknown token function {function!r}; use one of {names}, or a callable")
    return token_function


def named_functions(token_features, default_field) -> dict:
    """Return {name: (field, function or its name)} of the token features; the field defaults to ``default_field``."""
    if isinstance(token_features, str) or not np.iterable(token_features):
        raise TypeError(
            f"token_features must be 'auto', None, a list of functions or a dict of them, got {token_features!r}"
        )
    if isinstance(token_features, Mapping):
        return {name: _field_and_function(spec, default_field)[:2] for name, spec in token_features.items()}
    named = {}
    for spec in token_features:
        field, function, name = _field_and_function(spec, default_field)
        if isinstance(spec, (tuple, list)):
            name = f"{name}({field})"
        if name in named:
            raise ValueError(
                f"token_features: two functions have the name {name!r}; name them in a dict {{name: function}}"
            )
        named[name] = field, function
    return named


def _field_and_function(spec, default_field):
    field, function = default_field, spec
    if isinstance(spec, (tuple, list)):
        if len(spec) != 2:
            raise ValueError(f"token_features: {spec!r} must be a function, or a pair of a field and a function")
        field, function = spec
    elif default_field is None:
        raise ValueError(f"token_features: no field holds text; specify the field of {spec!r}: (field, {spec!r})")
    if isinstance(function, str):
        as_function(function)  # raises if the name is unknown
        return field, function, function
    if not (callable(function) or isinstance(function, Phrases)):
        raise TypeError(f"token_features: {function!r} must be a callable or the name of a token function")
    return field, function, getattr(function, "__name__", type(function).__name__)


class Phrases:
    """A token function that marks the tokens of phrases, as returned by :func:`phrase_marks`.

    Parameters
    ----------
    words : iterable of tuple of str
        The words of each phrase, normalised.
    normalize : "casefold" or None
        How to normalise tokens before comparing them with ``words``.
    """

    __name__ = "phrase_marks"  # name of the token feature, unless the user chooses another

    def __init__(self, words: Iterable[tuple[str, ...]], normalize: str | None):
        self.words, self.normalize = dict.fromkeys(words), normalize  # an ordered set
        self._lengths = lengths_by_first(self.words)

    def column(self, column: Any, offsets: np.ndarray, name: str) -> TokenColumn:
        """Return the marks for a column of strings; ``name`` is the name of the token feature."""
        if not is_text(column):
            raise ValueError(f"the token feature {name!r} marks phrases in texts, but its field holds numbers")
        normal = str.casefold if self.normalize else str
        words = np.array([*map(normal, column.values), None], dtype=object)[column.codes].tolist()
        sequences = (words[start:stop] for start, stop in pairwise(offsets.tolist()))
        return text_column(list(chain.from_iterable(marks_of(texts, self.words, self._lengths) for texts in sequences)))

    def __repr__(self) -> str:
        options = "" if self.normalize == "casefold" else f", normalize={self.normalize!r}"
        return f"phrase_marks(<{len(self.words)} phrases>{options})"

    def __deepcopy__(self, memo: dict) -> Phrases:
        return self  # it is never modified

    def __getstate__(self) -> dict:
        words = pack_texts(chain.from_iterable(self.words))
        return {"words": words, "n_words": np.array(list(map(len, self.words)), np.int64), "normalize": self.normalize}

    def __setstate__(self, state: dict) -> None:
        texts = iter(unpack_texts(state["words"]))
        words = [tuple(islice(texts, n)) for n in state["n_words"].tolist()]
        self.__init__(words, state["normalize"])  # type: ignore[misc]


def phrase_marks(phrases: Iterable[str | Sequence[str]], *, normalize: str | None = "casefold") -> Phrases:
    """Return a token function that marks the tokens of listed phrases, such as the names of cities or journals.

    The function returns "B", "I" and "E" for the first, inner and last tokens of a phrase, "S" for a phrase of one
    token, and None for all other tokens. If phrases overlap, the function marks the one that begins first; if several
    begin at the same token, it marks the longest one.

    Parameters
    ----------
    phrases : iterable of str or sequences of str
        A string is split at white space. If white space does not separate the tokens of your data, pass each phrase as
        a list or tuple of tokens.
    normalize : "casefold" or None, default="casefold"
        How to normalise the tokens and the words of the phrases before comparing them. None means no change.

    Returns
    -------
    function : token function
        An element of `token_features` of a :class:`SequenceFeatureExtractor`.

    Raises
    ------
    TypeError
        If `phrases` is a string or not iterable, or if a phrase is not a string or a list of strings.
    ValueError
        If a phrase contains no words, or if `normalize` is neither "casefold" nor None.

    See Also
    --------
    SegmentLogOddsEncoder : Measure how often a phrase was a segment in training.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor, phrase_marks
    >>> city = phrase_marks(["Oslo", "New York", "New York City"])
    >>> X = [["in", "new", "york", "and", "Oslo"]]
    >>> tokens = SequenceFeatureExtractor(
    ...     [("w", 0), ("city", 0), (("city", 0), ("city", 1))],
    ...     token_features={"city": city},
    ... )
    >>> tokens.fit(X).get_feature_names_out()[5:].tolist()
    ['city[0]=B', 'city[0]=E', 'city[0]=S', 'city[0]|city[1]=B|E', 'city[0]|city[1]=S|__EOS__']
    """
    if normalize not in ("casefold", None):
        raise ValueError(f"normalize must be 'casefold' or None, got {short(normalize)}")
    if isinstance(phrases, (str, bytes)) or not isinstance(phrases, Iterable):
        raise TypeError(f"phrases must be an iterable of phrases, got {short(phrases)}")
    word_lists: list[Sequence[str]] = []
    for i, phrase in enumerate(phrases):
        words = phrase.split() if isinstance(phrase, str) else phrase
        if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"phrases[{i}] must be a text or a list of texts, got {short(phrase)}")
        if not words:
            raise ValueError(f"phrases[{i}] has no words")
        word_lists.append(words)
    normal = str.casefold if normalize else str
    normal_of = {word: normal(word) for word in dict.fromkeys(chain.from_iterable(word_lists))}
    return Phrases((tuple(map(normal_of.__getitem__, words)) for words in word_lists), normalize)
