"""PhraseFeatures: tokens inside phrases of lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import freeze, offsets_of
from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.columns import TokenColumn
from .._validation._sklearn import StrOptions, fit_context
from ._base import SequenceTransformer
from ._columns import TEXT_FIELD, is_text, read_tokens, without_arrays
from ._tries import Trie

__all__ = ["PhraseFeatures", "compiled_phrases"]

_MARKS = np.array(["B", "I", "E", "S"], dtype=object)
_BEGIN, _INSIDE, _END, _SINGLE = range(4)


class _Phrases(NamedTuple):
    """All phrases as strings of word codes.   V words, K lists."""

    code_of: dict  # of each normalised word
    trie: Trie
    is_listed: np.ndarray  # (K, n_nodes) bool   whether the string of a node is a phrase of a list


class PhraseFeatures(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Mark the tokens inside phrases of lists, such as names of cities, streets or journals.

    Each list becomes a field of the tokens, beside those of X, for templates of a
    :class:`SequenceFeatureExtractor` that follows: "B", "I" and "E" at the first, inner and last token of a phrase, "S"
    at a phrase of one token, and no value elsewhere. Of phrases that overlap, the one that begins first is marked, and
    of those that begin at the same token the longest. Lists do not compete with each other.

    Parameters
    ----------
    phrases : mapping of str to iterable
        The phrases of each list: texts, which are split at white space, or sequences of tokens, for texts whose tokens
        are not separated by white space.
    field : object, default=None
        The text field of the tokens to compare; None means plain texts, or the field "w".
    normalize : "casefold", callable or None, default="casefold"
        Applied to each distinct token and to each word of the phrases before they are compared; a callable gets and
        returns a str. None means no change.
    fields : sequence of str or None, default=None
        Names for the columns of tuples and rows, as for :class:`SequenceFeatureExtractor`.

    Attributes
    ----------
    n_phrases_ : dict
        The number of different phrases of each list.

    Raises
    ------
    TypeError, ValueError
        By ``fit``: if a phrase is not a text or a sequence of texts or has no words; by ``fit`` and ``transform``: if
        the tokens lack the field, if it holds numbers, or if they have a field with the name of a list.

    See Also
    --------
    SegmentLogOddsEncoder : Learns from y how often a phrase was a segment.

    Notes
    -----
    Nothing is learned from X. Distinct values are compared, so a token costs little more than reading it. For features
    of whole segments, pass the method :meth:`of_segments` to ``vector_functions`` of a
    :class:`SegmentFeatureExtractor`.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction import (
    ...     PhraseFeatures,
    ...     SequenceFeatureExtractor,
    ... )
    >>> from sklearn_hocrf import make_pipeline
    >>> phrases = PhraseFeatures({"city": ["Oslo", "New York", "New York City"]})
    >>> X = [["in", "new", "york", "and", "Oslo"]]
    >>> marked = phrases.fit_transform(X)
    >>> marked.columns["city"].values[marked.columns["city"].codes].tolist()[1:3]
    ['B', 'E']
    >>> features = make_pipeline(
    ...     phrases,
    ...     SequenceFeatureExtractor([("w", 0), ("city", 0), (("city", 0), ("city", 1))]),
    ... )
    >>> features.fit(X)[-1].get_feature_names_out()[5:].tolist()
    ['city[0]=B', 'city[0]=E', 'city[0]=S', 'city[0]|city[1]=B|E', 'city[0]|city[1]=S|__EOS__']
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # where users import it from: files of models name this place
    _parameter_constraints: dict = {
        "phrases": [Mapping],
        "field": "no_validation",
        "normalize": [StrOptions({"casefold"}), callable, None],
        "fields": ["array-like", None],
    }

    def __init__(
        self,
        phrases: Mapping[str, Iterable],
        *,
        field: Hashable = None,
        normalize: str | Callable[[str], str] | None = "casefold",
        fields: Any = None,
    ) -> None:
        self.phrases = phrases
        self.field = field
        self.normalize = normalize
        self.fields = fields

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Compile the phrases.

        Parameters
        ----------
        X : list of sequences of tokens, SequenceBatch or None, default=None
            Only checked.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        compiled, sizes = self._compiled()
        if X is not None:
            self._read(X)
        self.__dict__.update(_compiled_phrases=compiled, n_phrases_=sizes)
        return self

    def transform(self, X: Any) -> SequenceBatch:
        """Mark the tokens inside phrases.

        Parameters
        ----------
        X : list of sequences of tokens, or SequenceBatch
            Tokens as for :class:`SequenceFeatureExtractor`; features and columns of a batch are kept.

        Returns
        -------
        batch : SequenceBatch
            With a raw column for each list.
        """
        check_is_fitted(self, "n_phrases_")
        batch, field = self._read(X)
        compiled: _Phrases = self._compiled_phrases
        codes = np.empty(0, dtype=np.int64)
        if batch.n_tokens:
            column = batch.columns[field]
            codes = np.append(self._codes(column.values.tolist()), -1)[column.codes]
        marks = _marks(compiled, codes, batch.offsets)
        columns = {
            name: TokenColumn(freeze(row, np.int32), _MARKS) for name, row in zip(self.phrases, marks, strict=True)
        }
        features = batch.indptr, batch.indices, batch.values, batch.n_attributes, batch.attribute_names
        given = {"blocks": batch.blocks, "block_names": batch.block_names, "dense": batch.dense}
        return SequenceBatch(batch.offsets, *features, {**batch.columns, **columns}, **given)

    def of_segments(self, tokens: Any, starts: np.ndarray, stops: np.ndarray) -> dict[str, np.ndarray]:
        """Return whether segments are phrases: a function for ``vector_functions`` of a SegmentFeatureExtractor.

        Parameters
        ----------
        tokens : ndarray of shape (T,), or dict of such arrays
            The texts of a sequence, or its fields.
        starts, stops : ndarray of shape (n_segments,)
            First token of each segment, and the token after its last.

        Returns
        -------
        features : dict of ndarray of shape (n_segments,), bool
            For each list, whether a segment is one of its phrases.

        Raises
        ------
        ValueError
            If the tokens lack the field, or if it holds numbers.
        """
        check_is_fitted(self, "n_phrases_")
        compiled: _Phrases = self._compiled_phrases
        if isinstance(tokens, Mapping):
            tokens = tokens[self._field_of(list(tokens))]
        texts = np.asarray(tokens).tolist()
        if not all(text is None or isinstance(text, str) for text in texts):
            raise ValueError("tokens are numbers, but phrases are texts: name the field of the texts by field=")
        nodes = compiled.trie.find(self._codes(texts), np.asarray(starts), np.asarray(stops))
        return dict(zip(self.phrases, compiled.is_listed[:, nodes], strict=True))

    # --- phrases ------------------------------------------------------------------------------------------------------

    def _compiled(self) -> tuple[_Phrases, dict]:
        if not self.phrases:
            raise ValueError("phrases is empty: give at least one list of phrases by its name")
        lists = [self._words_of(name, phrases) for name, phrases in self.phrases.items()]
        every = list(chain.from_iterable(lists))
        normal, words = self._normalizer(), dict.fromkeys(chain.from_iterable(every))
        normal_of = {word: normal(word) for word in words}
        number_of = {word: code for code, word in enumerate(dict.fromkeys(normal_of.values()))}
        code_of_word = {word: number_of[normal_word] for word, normal_word in normal_of.items()}
        sizes = np.array(list(map(len, every)), dtype=np.int64)
        codes = np.array([code_of_word[word] for phrase in every for word in phrase], dtype=np.int64)
        starts = offsets_of(sizes)[:-1]
        trie, levels = Trie.of(np.append(codes, -1), starts, sizes, len(number_of))
        nodes = np.zeros(len(every), dtype=np.int64)
        for depth, (chosen, chosen_nodes) in enumerate(levels, 1):
            ends = sizes[chosen] == depth
            nodes[chosen[ends]] = chosen_nodes[ends]
        is_listed = np.zeros((len(lists), trie.n_nodes), dtype=bool)
        is_listed[np.repeat(np.arange(len(lists)), list(map(len, lists))), nodes] = True
        counts = dict(zip(self.phrases, is_listed.sum(axis=1).tolist(), strict=True))
        return _Phrases(number_of, trie, is_listed), counts

    def _words_of(self, name, phrases) -> list:
        """Return the words of each phrase of a list."""
        if isinstance(phrases, (str, bytes)) or not isinstance(phrases, Iterable):
            raise TypeError(f"phrases[{name!r}] must be an iterable of phrases, got {phrases!r:.80}")
        given = list(phrases)
        found = [phrase.split() if isinstance(phrase, str) else phrase for phrase in given]
        for i, (phrase, words) in enumerate(zip(given, found, strict=True)):
            if words is phrase and not _are_texts(words):
                raise TypeError(f"phrases[{name!r}][{i}] must be a text or a list of texts, got {short(phrase)}")
            if not words:
                raise ValueError(f"phrases[{name!r}][{i}] has no words")
        return found

    def _normalizer(self) -> Callable[[str], str]:
        return str.casefold if isinstance(self.normalize, str) else self.normalize or str

    def _codes(self, texts: list) -> np.ndarray:
        """Return the code of each text as a word, -1 for None and for words of no phrase; int64."""
        code_of, normal = self._compiled_phrases.code_of, self._normalizer()
        return np.array([-1 if text is None else code_of.get(normal(text), -1) for text in texts], dtype=np.int64)

    def _field_of(self, fields: list) -> Any:
        """Return which of the fields of tokens to compare."""
        field = self.field
        if field is None:
            field = fields[0] if len(fields) == 1 else TEXT_FIELD
        if field not in fields:
            raise ValueError(f"tokens have no field {short(field)}, but {short(fields)}: name it by field=")
        return field

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _read(self, X) -> tuple[SequenceBatch, Any]:
        """Return X as a batch with raw columns, and the field to compare (None without tokens)."""
        batch = X if isinstance(X, SequenceBatch) else None
        if batch is None:
            table = read_tokens(X, self.fields)
            nothing = np.zeros(int(table.offsets[-1]) + 1, np.int64), np.empty(0, np.int32)
            batch = SequenceBatch(table.offsets, *nothing, None, 0, columns=without_arrays(table.columns))
        field = self._field_of(list(batch.columns)) if batch.n_tokens else None
        if batch.n_tokens and not is_text(batch.columns[field]):
            raise ValueError(f"the field {short(field)} holds numbers, but phrases are texts")
        for name in self.phrases:
            if name in batch.columns:
                raise ValueError(f"tokens already have a field {short(name)}: give the list of phrases another name")
        return batch, field


def compiled_phrases(fitted: PhraseFeatures) -> dict[str, list[tuple[str, ...]]]:
    """Return the normalised words of the phrases of each list."""
    compiled: _Phrases = fitted._compiled_phrases
    words, strings = list(compiled.code_of), [()]
    for parent, code in zip(*(of.tolist() for of in compiled.trie.edges()), strict=True):
        strings.append((*strings[parent], words[code]))
    lists = zip(fitted.phrases, compiled.is_listed, strict=True)
    return {name: [strings[node] for node in np.flatnonzero(is_listed).tolist()] for name, is_listed in lists}


def _are_texts(words) -> bool:
    return isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)


def _marks(compiled, codes, offsets) -> np.ndarray:
    """Return the marks of tokens by list, as indices of ``_MARKS`` or -1; shape (K, N)."""
    n_tokens, n_lists = len(codes), len(compiled.is_listed)
    left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(n_tokens)  # tokens up to the end of the sequence
    longest = np.zeros((n_lists, n_tokens), dtype=np.int64)
    starts = np.flatnonzero(codes >= 0)
    for depth, chosen, nodes in compiled.trie.walk(codes, starts, left[starts]):
        rows, strings = np.nonzero(compiled.is_listed[:, nodes])
        longest[rows, starts[chosen[strings]]] = depth
    marks = np.full((n_lists, n_tokens), -1, dtype=np.int32)
    for row, lengths in zip(marks, longest, strict=True):
        stop = 0
        for start in np.flatnonzero(lengths).tolist():
            if start >= stop:
                stop = start + int(lengths[start])
                row[start:stop] = _INSIDE
                row[start], row[stop - 1] = _BEGIN, _END
                if stop == start + 1:
                    row[start] = _SINGLE
    return marks
