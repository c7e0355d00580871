"""Conversion of feature dicts and lists of attribute names to a batch, in one pass.

    {"word": "Rome", "title": True, "length": 4}   ->   word:Rome = 1, title = 1, length = 4
    ["word:Rome", "title"]                         ->   word:Rome = 1, title = 1

The rules are those of python-crfsuite's ``ItemSequence``: a str value becomes part of the name, a list (set,
``dict.keys()``, ...) contains several such values, and a nested dict prefixes the names of its own attributes. bytes
are decoded as UTF-8.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import accumulate, chain, count
from numbers import Number

import numpy as np
from scipy import sparse

from .._data.arrays import cached_property, freeze_all, offsets_of
from .._data.batch import SequenceBatch, batch_of_rows
from .._data.checks import short
from .._data.messages import warn_user
from .._data.tagger import ARE_AMOUNTS, HAS_AMOUNT, AttributeIds, ids_and_amounts
from .rows import NA_TOKENS, not_finite, refuse_infinite_values, refuse_non_sequence
from .values import is_missing, to_float

SEPARATOR = ":"
MAX_DEPTH = 100  # of nested dicts
PORTION = 512  # tokens that are read together, so that their values stay in the cache
FEWEST_ALIKE = 16  # tokens with the same keys for which reading by key is faster


class Vocabulary(dict):
    """Feature ids by attribute name; unknown names have the id -1.

    Attributes
    ----------
    complete : tuple of str
        Keys of feature dicts that every training token contains.
    """

    complete: tuple = ()

    @cached_property
    def tables(self) -> AttributeIds:
        """The ids by key and value, for a vocabulary that no longer grows."""
        return AttributeIds(self)

    def ids_of(self, tokens) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
        """Return the ids of the attributes of a sequence, -1 for unknown ones, the range of each token, and the values.

        The values are None if all are 1. The result is None if tokens are of uncommon types or require a warning: the
        caller then builds a batch.
        """
        if type(tokens) is not list or not tokens:
            return None
        if self.complete and not (type(tokens[0]) is dict and all(key in tokens[0] for key in self.complete)):
            return None
        attribute_ids: list = []
        amounts = array("d")
        widths = self.tables.add(tokens, attribute_ids, amounts)
        if widths is None:
            return None
        ids, values = ids_and_amounts(attribute_ids, amounts)
        return ids, np.fromiter(accumulate(widths, initial=0), np.int64, len(widths) + 1), values

    def batch_of(self, tokens) -> SequenceBatch | None:
        """Return the batch of a sequence; None if :meth:`ids_of` returns None, or if no attribute is known."""
        attributes = self.ids_of(tokens)
        if attributes is None or attributes[0].max(initial=-1) < 0:
            return None
        ids, indptr, values = attributes
        return known_batch(np.array([0, len(indptr) - 1]), indptr, ids, values, len(self), None)

    def __getstate__(self) -> dict:
        """Return the state for files, without the tables, which are computed on demand."""
        return {name: value for name, value in vars(self).items() if name != "tables"}

    def like(self, ids) -> Vocabulary:
        """Return a vocabulary with other ids, learned from the same tokens."""
        new = Vocabulary(ids)
        new.complete = self.complete
        return new

    @classmethod
    def of_names(cls, names, complete) -> Vocabulary:
        """Return a vocabulary that maps the names to their indices; ``complete`` becomes the attribute of this name."""
        new = cls(zip(names, range(len(names)), strict=True))
        if len(new) != len(names):
            raise ValueError("an attribute name occurs twice")
        new.complete = tuple(complete)
        return new

    def __missing__(self, name):
        return -1


def looks_like_rows(X, *, default) -> bool:
    """Return whether the sequences are rows of numbers rather than attributes; ``default`` if all are empty."""
    for n, sequence in enumerate(X):
        if len(getattr(sequence, "shape", ())) == 2:
            return not (isinstance(sequence, np.ndarray) and sequence.dtype.kind in "SUT")
        if type(sequence) is not list:  # a call for each list would take longer than this check
            refuse_non_sequence(sequence, n)
        for token in sequence:
            if isinstance(token, np.ndarray):
                return token.dtype.kind in "biufc"
            if isinstance(token, (list, tuple)) and len(token):
                return isinstance(token[0], Number)
            if not isinstance(token, (list, tuple)):
                return isinstance(token, Number)
    return default


def read_attributes(X, vocabulary, *, grow) -> SequenceBatch:
    """Return the batch of sequences of feature dicts or attribute-name lists.

    Parameters
    ----------
    X : iterable of sequences
    vocabulary : Vocabulary
        With ``grow=True``, the names in X are added to it, and get ids in the order in which they occur. Features may
        then repeat within a token, and the batch must be passed to :func:`sort_vocabulary`. With ``grow=False``,
        unknown names are left out.
    grow : bool

    Raises
    ------
    TypeError, ValueError
        If a token, a name or a value is invalid; the message names the sequence and the position.
    """
    names = _Growing(count().__next__) if grow else vocabulary
    tables = AttributeIds(names) if grow else vocabulary.tables
    lengths: list[int] = []
    complete, parts = None, []
    for first, sequences in _portions(X):
        tokens = [*chain.from_iterable(sequences)]
        parts.append(_read_columns(tokens, tables, grow) or _read_each(sequences, first, tables, grow))
        lengths += map(len, sequences)
        complete = _common_keys(tokens, complete) if grow else None
    widths, ids, values = parts[0] if len(parts) == 1 else _joined(parts)
    if grow:
        vocabulary.update(names)
        vocabulary.complete = tuple(sorted(_decoded(complete or ())))
        return SequenceBatch(offsets_of(lengths), offsets_of(widths), ids, values, len(vocabulary))
    return known_batch(offsets_of(lengths), offsets_of(widths), ids, values, len(vocabulary), None)


class _Growing(defaultdict):
    """Feature ids by attribute name; a new name gets the next id."""

    def get(self, name, default=None):
        return self[name]


def _portions(X):
    """Yield groups of neighbouring sequences with about ``PORTION`` tokens, and the index of each group's first one."""
    first, sequences, n_tokens = 0, [], 0
    for n, sequence in enumerate(X):
        if type(sequence) is not list:  # a call for each list would take longer than this check
            refuse_non_sequence(sequence, n)
        sequences.append(sequence)
        n_tokens += len(sequence)
        if n_tokens >= PORTION:
            yield first, sequences
            first, sequences, n_tokens = n + 1, [], 0
    yield first, sequences


def _common_keys(tokens, keys):
    """Return those ``keys`` (None: any) that all tokens contain, or an empty set if a token is not a dict."""
    for token in tokens:
        if type(token) is not dict and not isinstance(token, Mapping):
            return set()
        if keys is None or not keys <= token.keys():
            keys = set(token) if keys is None else keys & token.keys()
    return keys


def _joined(parts):
    """Join the results of :func:`_read_each` for several groups of sequences into the result of a single call."""
    widths, ids, values = zip(*parts, strict=True)
    if any(amounts is not None for amounts in values):
        values = [np.ones(len(of_part)) if v is None else v for of_part, v in zip(ids, values, strict=True)]
        return np.concatenate(widths), np.concatenate(ids), np.concatenate(values)
    return np.concatenate(widths), np.concatenate(ids), None


def _read_columns(tokens, tables, grow):
    """Return the result of :func:`_read_each`, reading key by key, which takes a third of the time for numbers.

    The result is None if few tokens have the same keys, or if the values of a key are neither all strings nor all
    finite numbers.
    """
    if len(tokens) < FEWEST_ALIKE or {*map(type, tokens)} != {dict} or {list, dict} & {*map(type, tokens[0].values())}:
        return None
    rows_of, keys_of = defaultdict(list), [*map(tuple, tokens)]
    if keys_of.count(keys_of[0]) == len(tokens):  # takes half as long as grouping
        rows_of[keys_of[0]] = range(len(tokens))
    else:
        for t, keys in enumerate(keys_of):
            rows_of[keys].append(t)
    if FEWEST_ALIKE * len(rows_of) > len(tokens):
        return None
    widths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    starts = offsets_of(widths)
    ids, values = np.empty(starts[-1], np.int32), np.ones(starts[-1])
    try:
        for keys, rows in rows_of.items():
            cells = starts[rows][:, None] + np.arange(len(keys))
            cell_values = [*chain.from_iterable(tokens[t].values() for t in rows)]
            ids[cells], values[cells] = _read_alike(keys, cell_values, tables)
    except (TypeError, ValueError, OverflowError):  # `_read_each` names the invalid value
        return None
    if not np.isfinite(values).all():
        return None
    if not grow:
        ids[values == 0.0] = -1
    return widths, ids, None if (values == 1.0).all() else values


def _read_alike(keys, cell_values, tables):
    """Return the ids and the amounts of the values of tokens with the same keys, by token and key."""
    n_tokens, n_keys, is_amount = len(cell_values) // max(len(keys), 1), len(keys), ARE_AMOUNTS.__getitem__
    if all(map(is_amount, map(type, cell_values[:n_keys]))) and all(map(is_amount, kinds := {*map(type, cell_values)})):
        ids = np.array([tables.names[key] for key in keys], np.int32)
        return ids, _floats(cell_values, kinds).reshape(n_tokens, n_keys)
    ids, amounts = np.empty((n_tokens, n_keys), np.int32), np.ones((n_tokens, n_keys))
    for k, key in enumerate(keys):
        column = cell_values[k::n_keys]
        kinds = {*map(type, column)}
        if kinds == {str}:
            ids[:, k] = np.fromiter(map(tables.values[key].__getitem__, column), np.int32, n_tokens)
        elif all(map(is_amount, kinds)):
            ids[:, k], amounts[:, k] = tables.names[key], _floats(column, kinds)
        else:
            raise TypeError
    return ids, amounts


def _floats(numbers, kinds):
    """Return numbers of the types ``kinds`` as floats; numbers of one type are usually read faster as that type."""
    kind = next(iter(kinds)) if len(kinds) == 1 else float
    dtype = kind if issubclass(kind, (np.number, np.bool_, int)) else np.float64
    with np.errstate(over="ignore"):  # infinite values are rejected later
        return np.fromiter(numbers, dtype, len(numbers)).astype(np.float64, copy=False)


def _read_each(sequences, first, tables, grow):
    """Return how many attributes each token has, their ids, and their amounts or None if all are 1.

    ``first`` is the index of the first sequence. Unknown names have the id -1; so do amounts of 0, unless ``grow``.
    """
    ids: list = []
    amounts = array("d")  # of the ids coded as in ``HAS_AMOUNT``
    widths, id_of = [], tables.ids.__getitem__
    for n, sequence in enumerate(sequences, first):
        # names in lists may be of other types, which a growing vocabulary would accept
        is_known = not grow or list not in set(map(type, sequence))
        if is_known and (added := tables.add(sequence, ids, amounts)) is not None:
            widths += added
            continue
        for t, token in enumerate(sequence):
            before, is_list = len(ids), type(token) is list  # the other checks take longer
            if not is_list and isinstance(token, Mapping):
                for name, amount in chain.from_iterable(_attributes_of(*entry, n, t) for entry in token.items()):
                    if amount == 1.0:
                        ids.append(id_of(name))
                        continue
                    ids.append(HAS_AMOUNT - id_of(name))
                    amounts.append(amount)
            else:
                ids.extend(map(id_of, _attribute_names(token if is_list else _collection(token, n, t), n, t)))
            widths.append(len(ids) - before)
    return np.array(widths, np.int64), *ids_and_amounts(ids, amounts, grow)


def read_known_attributes(X, vocabulary) -> SequenceBatch:
    """Return the batch of X for a fitted vocabulary; warn if X seems to be of another kind than the training data.

    Parameters
    ----------
    X : list of sequences
    vocabulary : Vocabulary

    Warns
    -----
    UserWarning
        If no token contains a key that every training token contains, or if none of the attributes is known.
    """
    batch = read_attributes(X, vocabulary, grow=False)
    lost = _lost_keys(X, vocabulary.complete)
    if lost:
        warn_user(
            f"no token of X has the key {short(lost[0])}, which every training token had (keys: "
            f"{short(list(vocabulary.complete))})"
        )
    if not len(batch.indices):
        new_names = Vocabulary()
        read_attributes(X, new_names, grow=True)
        if new_names and vocabulary.keys().isdisjoint(new_names):
            warn_user(
                f"none of the {len(new_names)} attributes of X occurred in training, such as "
                f"{short(next(iter(new_names)))}: are they spelt as in fit?"
            )
    return batch


def _lost_keys(X, keys) -> list:
    """Return the keys that no token of X contains; usually the first token contains them all."""
    lost = set(keys)
    n_tokens = 0
    for token in chain.from_iterable(X):
        if not lost:
            return []
        n_tokens += 1
        lost -= _decoded(token) if isinstance(token, Mapping) else lost
    return sorted(lost) if n_tokens else []


def _decoded(keys) -> set:
    """Return checked keys of feature dicts as strings."""
    return {str(key, "utf-8") if isinstance(key, bytes) else key for key in keys}


def _attribute_names(names, n, t, key=None):
    """Return the attribute names of a token, or of its attribute ``key``: ``names`` if all are str, or else a list."""
    if isinstance(names, np.ndarray):
        names = names.tolist()
    if set(map(type, names)) - {str}:
        return [_text(name, n, t, key) for name in names]
    return names


def _collection(token, n, t):
    """Return a token, or raise an error unless it is a collection of names; non-empty tuples could be raw tokens."""
    if isinstance(token, (str, bytes)) or not _is_collection(token) or (isinstance(token, tuple) and token):
        raise TypeError(
            f"sequence {n}, position {t} of X is the {type(token).__name__} {short(token)}, but a token must be a dict "
            "or a list of attribute names. For raw tokens put a SequenceFeatureExtractor before the estimator; if X is "
            "one sequence, wrap it: `[X]`"
        )
    return token


def _is_collection(value) -> bool:
    """Return whether a value can contain attribute names; a table has two axes, and a numpy number has none."""
    return isinstance(value, Collection) and len(getattr(value, "shape", (0,))) == 1


def _text(name, n, t, key=None) -> str:
    """Return an attribute name, or a part of one, as a str; ``key`` is the key of its list or dict."""
    if isinstance(name, str):
        return name
    if not isinstance(name, bytes) and key is not None:
        raise TypeError(
            f"sequence {n}, position {t} of X: attribute {short(key)} holds {short(name)} ({type(name).__name__}), but "
            "the items of a list and the keys of a dict must be str. For a vector, put a SequenceFeatureExtractor "
            'before the estimator, which takes numpy arrays, or name its numbers: {"0": 0.5, "1": 0.25}'
        )
    if not isinstance(name, bytes):
        raise TypeError(
            f"an attribute name must be a str, but sequence {n}, position {t} of X has {short(name)} "
            f"({type(name).__name__})"
        )
    try:
        return str(name, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"sequence {n}, position {t} of X: {short(name)} is not UTF-8 (byte {error.start}): decode bytes of "
            'another encoding first, as value.decode("latin-1") does'
        ) from None


def _attributes_of(key, value, n, t, depth=0):
    """Yield the (name, amount) pairs of one entry of a feature dict."""
    key = _text(key, n, t)
    if isinstance(value, (str, bytes)):
        yield key + SEPARATOR + _text(value, n, t), 1.0
    elif ARE_AMOUNTS[type(value)]:
        yield key, _finite(value, key, n, t)
    elif isinstance(value, Mapping):
        if depth > MAX_DEPTH:
            raise ValueError(
                f"sequence {n}, position {t} of X: attribute {short(key)} is a dict more than {MAX_DEPTH} levels deep, "
                "or one that contains itself"
            )
        for inner_key, inner in value.items():
            yield from _attributes_of(key + SEPARATOR + _text(inner_key, n, t, key), inner, n, t, depth + 1)
    elif _is_collection(value):
        for name in _attribute_names(value, n, t, key):
            yield key + SEPARATOR + name, 1.0
    else:
        remedy = ": leave what is missing out of the dict" if is_missing(value) else ""
        raise TypeError(
            f"sequence {n}, position {t} of X: attribute {short(key)} has the value {short(value)} "
            f"({type(value).__name__}); values are str, bool, numbers, lists of str, or dicts of these{remedy}"
        )


def _finite(value, key, n, t):
    amount = to_float(value)
    if not np.isfinite(amount):
        raise not_finite(value, f"sequence {n}, position {t}, attribute {short(key)}", NA_TOKENS)
    return amount


def known_batch(offsets, indptr, ids, values, n_features, names) -> SequenceBatch:
    """Return a batch without the entries whose id is -1; each token's features are sorted, and repeated ones added up.

    ``values`` are None if all are 1.
    """
    from .._engine.kernels.lists import sort_ids  # loads numba, which other forms of X do not need

    arrays = freeze_all((indptr, ids, () if values is None else values), np.int64, np.int32, np.float64)
    ends, feature_ids, amounts = map(np.empty_like, arrays)
    n_found = sort_ids(*arrays, ends, feature_ids, amounts)
    if n_found >= 0:
        amounts = amounts[:n_found]
        are_one = values is None or (amounts == 1).all()
        entries = feature_ids[:n_found], None if are_one else amounts
        return batch_of_rows((offsets, ends), *entries, n_features, names)
    is_known = ids >= 0
    indptr = offsets_of(is_known)[indptr]
    data = np.ones(indptr[-1]) if values is None else values[is_known]
    matrix = sparse.csr_array((data, ids[is_known], indptr), shape=(len(indptr) - 1, n_features))
    batch = SequenceBatch.from_csr(matrix, offsets, names)  # adds up repeated features of a token
    refuse_infinite_values(batch)
    return batch


def sort_vocabulary(batch, vocabulary) -> tuple[SequenceBatch, Vocabulary]:
    """Number the attributes of a batch in the order of their names.

    ``vocabulary`` has grown while the batch was read. Attributes that do not occur in the batch (or are 0 everywhere)
    are left out.
    """
    ids = batch.indices if batch.values is None else batch.indices[batch.values != 0]
    used = (np.bincount(ids, minlength=len(vocabulary)) > 0).tolist()
    names = sorted(name for name, index in vocabulary.items() if used[index])
    rank = np.full(len(vocabulary), -1, dtype=np.int32)
    rank[[vocabulary[name] for name in names]] = np.arange(len(names))
    ranks = rank[batch.indices]
    batch = known_batch(batch.offsets, batch.indptr, ranks, batch.values, len(names), np.array(names, dtype=object))
    return batch, vocabulary.like(zip(names, range(len(names)), strict=True))


def extend_vocabulary(batch, vocabulary, earlier, earlier_names) -> tuple[SequenceBatch, Vocabulary]:
    """Number the attributes of a batch as in an earlier vocabulary; new names get the next ids.

    Parameters
    ----------
    batch : SequenceBatch
    vocabulary : Vocabulary
        Maps each attribute name of the batch to its id.
    earlier : Vocabulary
        The vocabulary of earlier training data; the function does not modify it.
    earlier_names : ndarray of shape (len(earlier),)
        The names of ``earlier``, by id.
    """
    names = list(vocabulary)
    new_ids = np.array([earlier[name] for name in names], dtype=np.int32)
    fresh = np.flatnonzero(new_ids < 0)
    new_ids[fresh] = len(earlier) + np.arange(len(fresh))
    extended = earlier.like(earlier)
    extended.complete = tuple(key for key in earlier.complete if key in vocabulary.complete)
    extended.update((names[i], int(new_ids[i])) for i in fresh)
    all_names = np.concatenate([earlier_names, batch.attribute_names[fresh]])
    ids = new_ids[batch.indices]
    return known_batch(batch.offsets, batch.indptr, ids, batch.values, len(extended), all_names), extended
