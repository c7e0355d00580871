"""Templates: which fields, at which offsets from the token, make an attribute.

    template ((w, -1), (w, 0))   ->   one attribute for each pair of neighbouring words seen, "w[-1]|w[0]=in|the"

A field is an array of integer codes. A template shifts the arrays of its fields and joins them to one int64 key per
token, in mixed radix; its vocabulary is the sorted array of the training keys. Names are made from the keys at the
first request: a third of a million strings take more time than all other steps.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from itertools import chain, pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import freeze_indices, offsets_of
from .._data.checks import short
from .._data.texts import pack_texts, unpack_texts
from .._kernels.attributes import FEW_CODES, Templates, find_attributes, list_attributes
from ._columns import is_text
from ._names import escape
from ._token_functions import as_function

__all__ = [
    "BOS",
    "EOS",
    "CodedField",
    "FieldTable",
    "TemplateVocabularies",
    "Window",
    "check_kind",
    "check_templates",
]

BOS, EOS = "__BOS__", "__EOS__"
LARGEST_KEY = 2**62
MOST_KNOWN = 50_000  # texts whose codes are kept
TABLE_FACTOR = 4  # keys are looked up in a table, not by sorting, if the table has at most so many cells a token


def check_templates(templates) -> list[tuple]:
    """Return the templates as tuples of (field, offset) pairs; a single pair is a template too."""
    if isinstance(templates, (str, bytes)) or not np.iterable(templates):
        raise TypeError(f"templates must be an iterable of tuples of (field, offset) pairs, got {templates!r}")
    checked = [_check_template(i, template) for i, template in enumerate(templates)]
    for i, template in enumerate(checked):
        if template in checked[:i]:
            raise ValueError(f"templates[{i}] = {template!r} is there twice")
    return checked


def _check_template(i, template):
    if not isinstance(template, (tuple, list)):
        raise TypeError(f"templates[{i}] = {template!r} must be a tuple of (field, offset) pairs")
    if len(template) == 0:
        raise ValueError(f"templates[{i}] is empty; for an attribute that every token has set bias=True")
    if _is_pair(template):
        template = (template,)
    for pair in template:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"templates[{i}] = {template!r}: {pair!r} must be a (field, offset) pair")
        if not isinstance(pair[1], Integral) or isinstance(pair[1], bool):
            raise TypeError(f"templates[{i}] = {template!r}: the offset {pair[1]!r} must be an integer")
    template = tuple((field, operator.index(offset)) for field, offset in template)
    if len(set(template)) < len(template):
        raise ValueError(f"templates[{i}] = {template!r} has the same (field, offset) pair twice")
    return template


def _is_pair(template):
    return len(template) == 2 and not isinstance(template[0], (tuple, list)) and isinstance(template[1], Integral)


class CodedField(NamedTuple):
    """One field of all tokens, as codes of the training values.   N tokens."""

    codes: np.ndarray  # (N,) int32   -1: missing, or never seen in training
    numbers: np.ndarray | None  # (N,) float64   the values of a numeric field, whose codes are 0, or -1 for the value 0


def check_kind(column, was_text, field):
    """Raise an error if a column is text where it was numbers in fit, or the reverse; an empty one is neither."""
    if is_text(column) != was_text and not (is_text(column) and len(column.values) == 0):
        was, now = ("text", "numbers") if was_text else ("numbers", "text")
        raise ValueError(f"field {short(field)} held {was} in fit, but holds {now} now")


class FieldTable:
    """The values that one field had in training, in sorted order.

    Parameters
    ----------
    labels : list of str, or None for a numeric field

    Attributes
    ----------
    size : int
        Number of codes: that of the labels, 1 for a numeric field.
    n_codes : int
        The same with the codes of the two marks outside the sequence.
    """

    def __init__(self, labels):
        self.labels = labels
        self.size = 1 if self.labels is None else len(self.labels)
        self.n_codes = self.size + 2
        self.code_of = None if self.labels is None else {label: code for code, label in enumerate(self.labels)}

    @classmethod
    def of(cls, column) -> FieldTable:
        """Return the table of the values of a column."""
        return cls(sorted(column.values.tolist()) if is_text(column) else None)

    def texts(self, joined) -> np.ndarray:
        """Return the text of each code; None for a number, which has no text.

        Texts to be ``joined`` by bars are escaped. Texts that look like the marks outside are always escaped.
        """
        if self.labels is None:
            return np.array([None, BOS, EOS], dtype=object)
        labels = [escape(label, "|") for label in self.labels] if joined else self.labels
        labels = [f"\\{label}" if label.lstrip("\\") in (BOS, EOS) else label for label in labels]
        return np.array([*labels, BOS, EOS], dtype=object)

    def encode(self, column, field) -> CodedField:
        """Return the codes of a column; values that were not seen in training get -1."""
        check_kind(column, self.labels is not None, field)
        if is_text(column) and self.labels is None:  # all are missing
            return CodedField(column.codes, np.zeros(len(column.codes)))
        if is_text(column):
            code = [self.code_of.get(value, -1) for value in column.values.tolist()]
            return CodedField(np.array([*code, -1], dtype=np.int32)[column.codes], None)
        numbers = np.nan_to_num(column, nan=0.0)
        return CodedField(np.where(numbers != 0, 0, -1).astype(np.int32), numbers)


class Window:
    """Look-up of neighbouring tokens in the same sequence.

    With ``mark``, the two codes after a field's last value stand for positions outside the sequence; otherwise -1 does.
    """

    def __init__(self, offsets, mark: bool):
        lengths = np.diff(offsets)
        n_tokens = int(offsets[-1])
        self.from_begin = np.arange(n_tokens, dtype=np.int64) - np.repeat(offsets[:-1], lengths)
        self.to_end = np.repeat(lengths, lengths) - 1 - self.from_begin
        self.mark = mark
        self._outside: dict[int, np.ndarray] = {}

    def shift(self, field: CodedField, size: int, offset: int) -> CodedField:
        """Return the field at ``offset`` from each token; ``size`` is the number of values of the field."""
        if offset == 0:
            return field
        if offset not in self._outside:
            self._outside[offset] = np.flatnonzero(self.from_begin < -offset if offset < 0 else self.to_end < offset)
        outside = self._outside[offset]
        codes = np.roll(field.codes, -offset)
        codes[outside] = -1 if not self.mark else size if offset < 0 else size + 1
        if field.numbers is None:
            return CodedField(codes, None)
        numbers = np.roll(field.numbers, -offset)
        numbers[outside] = 1.0 if self.mark else 0.0
        return CodedField(codes, numbers)


class TemplateVocabulary:
    """The attributes that one template makes.   V attributes.

    Parameters
    ----------
    template : tuple of (field, offset) pairs
    tables : list of FieldTable
        The table of each pair's field.

    Attributes
    ----------
    keys : (V,) int64, ascending   mixed-radix codes of the attributes
    """

    def __init__(self, template, tables):
        self.template = template
        self.tables = tables
        self.keys = np.empty(0, dtype=np.int64)
        self.prefixes: dict[int, np.ndarray] = {}  # pair index -> keys of the pairs before it, where radix overflows

    def check(self):
        """Raise a ValueError unless the keys are made of codes of the tables."""
        n_keys = 1
        for i, table in enumerate(self.tables):
            if i in self.prefixes:
                _check_keys(self.prefixes[i], n_keys)
                n_keys = len(self.prefixes[i])
            n_keys *= table.n_codes
        _check_keys(self.keys, n_keys)

    def __len__(self):
        return len(self.keys)

    def fit(self, parts: list[CodedField], min_count=1) -> np.ndarray:
        """Collect the attributes that at least ``min_count`` tokens have; return what `lookup` returns."""
        key, n_keys = self._join(parts, fit=True)
        self.keys = _distinct_keys(key, n_keys, min_count)
        return _find(self.keys, key, n_keys)

    def lookup(self, parts: list[CodedField]) -> np.ndarray:
        """Return the attribute id of each token, of shape (N,) int32, in [0, V); -1 for none."""
        return _find(self.keys, *self._join(parts, fit=False))

    def _join(self, parts, fit):
        """Return the key of each token, of shape (N,) int64, -1 where a part is missing, and the number of keys."""
        key, n_keys = parts[0].codes.astype(np.int64), self.tables[0].n_codes
        for i, (part, table) in enumerate(zip(parts[1:], self.tables[1:], strict=True), start=1):
            if n_keys > LARGEST_KEY // table.n_codes:
                if fit:
                    self.prefixes[i] = _distinct_keys(key, n_keys, 1)
                key = _find(self.prefixes[i], key, n_keys).astype(np.int64)
                n_keys = len(self.prefixes[i])
            joined = key * table.n_codes + part.codes
            joined[(key < 0) | (part.codes < 0)] = -1
            key, n_keys = joined, n_keys * table.n_codes
        return key, n_keys

    def starts_of_first_codes(self) -> np.ndarray:
        """Return the id of the first attribute of each few codes of the first of several pairs, and of none.

        It is empty if they are unknown: if later pairs are joined to positions, not to codes.
        """
        if self.prefixes or len(self.tables) == 1:
            return np.empty(0, np.int32)
        n_rest = math.prod(table.n_codes for table in self.tables[1:])
        firsts = np.append(np.arange(0, self.tables[0].n_codes, FEW_CODES), self.tables[0].n_codes)
        return np.searchsorted(self.keys, n_rest * firsts).astype(np.int32)

    def codes(self, chosen=slice(None)) -> list[np.ndarray]:
        """Return, for each pair, the codes of the chosen attributes."""
        key = self.keys[chosen]
        codes = []  # last pair first
        for i in range(len(self.template) - 1, 0, -1):
            key, code = np.divmod(key, self.tables[i].n_codes)
            codes.append(code)
            if i in self.prefixes:
                key = self.prefixes[i][key]
        return [key, *reversed(codes)]

    def names(self, chosen=slice(None)) -> np.ndarray:
        """Return the names of the chosen attributes, of dtype object."""
        head = "|".join(f"{escape(str(field), '|=')}[{offset}]" for field, offset in self.template)
        return self.texts(f"{head}=", head, chosen)

    def texts(self, head="", head_alone="", chosen=slice(None)) -> np.ndarray:
        """Return the joined values of the chosen attributes after a head; ``head_alone`` where there are none."""
        codes = self.codes(chosen)
        joined = len(self.tables) > 1
        texts = [table.texts(joined) for table in self.tables]
        if all(table.labels is not None for table in self.tables):
            # arrays of objects are added in C: text to the few distinct values first, then these to each other
            names = (head + texts[0])[codes[0]]
            for values, code in zip(texts[1:], codes[1:], strict=True):
                names = names + ("|" + values)[code]
            return names
        cells = (values[code].tolist() for values, code in zip(texts, codes, strict=True))
        rows = ([text for text in row if text is not None] for row in zip(*cells, strict=True))
        return np.array([head + "|".join(row) if row else head_alone for row in rows], dtype=object)


class TemplateVocabularies:
    """The vocabularies of several templates, which share the tables of the fields.   A part of ``FeatureNames``.

    Files and copies have them as a few arrays, made once: skops writes an object anew for each reference to it.

    Parameters
    ----------
    templates : list of tuples of (field, offset) pairs
    tables : dict
        The :class:`FieldTable` of each field.
    """

    def __init__(self, templates, tables):
        self.tables = tables
        self.all = [TemplateVocabulary(template, [tables[field] for field, _ in template]) for template in templates]
        self._state: dict | None = None
        self._compiled: CompiledTemplates | None = None

    def compiled(self, functions) -> CompiledTemplates | None:
        """Return the templates for the kernels, made once; None if some field holds numbers.

        ``functions`` has, for fields that are made of another one, this one and the function of its texts, or its name.
        """
        if self._compiled is None and all(table.labels is not None for table in self.tables.values()):
            self._compiled = CompiledTemplates(self, functions)  # in one step: other threads may do the same
        return self._compiled

    @classmethod
    def of(cls, templates, columns) -> TemplateVocabularies:
        """Return empty vocabularies, with the tables of the columns in use."""
        used = dict.fromkeys(field for template in templates for field, _ in template)
        return cls(templates, {field: FieldTable.of(columns[field]) for field in used})

    def __len__(self):
        return sum(map(len, self.all))

    def chosen(self, templates, kept) -> TemplateVocabularies:
        """Return the vocabularies of some templates, with the attributes that ``kept`` tells; bool, by template."""
        used = dict.fromkeys(field for template in templates for field, _ in template)
        new = TemplateVocabularies(templates, {field: self.tables[field] for field in used})
        own = {vocabulary.template: vocabulary for vocabulary in self.all}
        for vocabulary in new.all:
            old = own[vocabulary.template]
            vocabulary.keys, vocabulary.prefixes = old.keys[kept[vocabulary.template]], dict(old.prefixes)
        return new

    def names(self) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype=object), *(vocabulary.names() for vocabulary in self.all)])

    def __getstate__(self):
        if self._state is None:
            index_of = {field: i for i, field in enumerate(self.tables)}
            pairs = [(index_of[field], offset) for vocabulary in self.all for field, offset in vocabulary.template]
            labels = [table.labels for table in self.tables.values()]
            each = enumerate(self.all)
            prefixes = {(i, j): keys for i, vocabulary in each for j, keys in vocabulary.prefixes.items()}
            self._state = {
                "fields": list(self.tables),
                "n_labels": np.array([-1 if known is None else len(known) for known in labels], dtype=np.int64),
                "labels": pack_texts(chain.from_iterable(known or () for known in labels)),
                "n_pairs": np.array([len(vocabulary.template) for vocabulary in self.all], dtype=np.int64),
                "pairs": np.array(pairs, dtype=np.int64).reshape(-1, 2),
                "n_keys": np.array(list(map(len, self.all)), dtype=np.int64),
                "keys": _joined_columns(vocabulary.keys for vocabulary in self.all),
                "prefixes_of": np.array(list(prefixes), dtype=np.int64).reshape(-1, 2),  # template, pair
                "n_prefixes": np.array(list(map(len, prefixes.values())), dtype=np.int64),
                "prefixes": _joined_columns(prefixes.values()),
            }
        return self._state

    def __setstate__(self, state):
        fields, n_labels = state["fields"], state["n_labels"]
        labels = _cut_codes(unpack_texts(state["labels"]), np.maximum(n_labels, 0), len(fields))
        tables = [FieldTable(known if n >= 0 else None) for known, n in zip(labels, n_labels.tolist(), strict=True)]
        for known in labels:
            if any(after <= before for before, after in pairwise(known)):
                raise ValueError("the values of a field must ascend")
        field_ids, offsets = _two_columns(state["pairs"], len(fields), "fields of templates")
        pairs = [(fields[i], offset) for i, offset in zip(field_ids, offsets, strict=True)]
        templates = [tuple(template) for template in _cut_codes(pairs, state["n_pairs"])]
        self.__init__(templates, dict(zip(fields, tables, strict=True)))
        for vocabulary, keys in zip(self.all, _cut_codes(state["keys"], state["n_keys"], len(templates)), strict=True):
            vocabulary.keys = keys
        owners = zip(*_two_columns(state["prefixes_of"], len(templates), "templates of prefixes"), strict=True)
        for (i, j), keys in zip(owners, _cut_codes(state["prefixes"], state["n_prefixes"]), strict=True):
            self.all[i].prefixes[j] = keys
        for vocabulary in self.all:
            vocabulary.check()


class CodeReader:
    """The codes of a text in several fields: its own, and those made of it by functions.

    Texts that have been seen keep their codes, so that a known word costs one look-up.
    """

    def __init__(self) -> None:
        self.columns: list[int] = []
        self._fields: list[tuple[Callable | None, dict[str, int]]] = []
        self._known: dict[str, tuple[int, ...]] = {}

    def add(self, column: int, function: Callable | None, table: FieldTable) -> None:
        """Add a field: its column, how it is made, and its values."""
        self.columns.append(column)
        self._fields.append((function, table.code_of))

    def rows(self, texts: np.ndarray) -> np.ndarray:
        """Return the codes of some texts, and as last row those of no text; shape (len(texts) + 1, n), int32."""
        known = self._known
        rows = [known.get(text) or self._learn(known, text) for text in texts.tolist()]
        if len(known) > MOST_KNOWN:  # after a batch, which may have millions of texts
            self._known = {}
        return np.array([*rows, (-1,) * len(self.columns)], dtype=np.int32)

    def _learn(self, known, text):
        codes = []
        for function, code_of in self._fields:
            made = text if function is None else function(text)
            if not (made is None or isinstance(made, str)):
                raise TypeError(f"{made!r} is not a text")
            codes.append(code_of.get(made, -1))
        known[text] = tuple(codes)
        return known[text]


class CompiledTemplates:
    """Vocabularies of fields of text, as kernels read them; their keys become parts of one array.

    Parameters
    ----------
    vocabularies : TemplateVocabularies
        Of fields of text.
    functions : dict
        As for :meth:`TemplateVocabularies.compiled`.
    """

    def __init__(self, vocabularies: TemplateVocabularies, functions: Mapping) -> None:
        every = vocabularies.all
        self.readers: dict[Any, CodeReader] = {}
        for i, (field, table) in enumerate(vocabularies.tables.items()):
            source, function = functions.get(field, (field, None))
            self.readers.setdefault(source, CodeReader()).add(i, as_function(function), table)
        index_of = {field: i for i, field in enumerate(vocabularies.tables)}
        pairs = [pair for vocabulary in every for pair in vocabulary.template]
        prefixes = [vocabulary.prefixes.get(i, ()) for vocabulary in every for i in range(len(vocabulary.template))]
        keys, key = offsets_of(list(map(len, every))), _joined_columns(vocabulary.keys for vocabulary in every)
        starts = [
            start + vocabulary.starts_of_first_codes()
            for vocabulary, start in zip(every, keys[:-1].tolist(), strict=True)
        ]
        self.templates = Templates(
            offsets_of([len(vocabulary.template) for vocabulary in every]),
            np.array([index_of[field] for field, _ in pairs], np.int64),
            np.array([offset for _, offset in pairs], np.int64),
            np.array([vocabularies.tables[field].n_codes for field, _ in pairs], np.int64),
            keys,
            key,
            offsets_of(list(map(len, prefixes))),
            _joined_columns(np.asarray(some, np.int64) for some in prefixes),
            offsets_of(list(map(len, starts))),
            np.concatenate([np.empty(0, np.int32), *starts]),
        )
        for vocabulary, start, stop in zip(every, keys[:-1].tolist(), keys[1:].tolist(), strict=True):
            vocabulary.keys = key[start:stop]

    def attributes(
        self, columns: Mapping, offsets: np.ndarray, marks: bool, has_bias: bool
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return which attributes tokens have, as ``indptr`` and ``indices``; None if a function gives no text."""
        codes = np.empty((int(offsets[-1]), sum(len(reader.columns) for reader in self.readers.values())), np.int32)
        for field, reader in self.readers.items():
            try:
                rows = reader.rows(columns[field].values)
            except Exception:  # the functions of users may raise what they like; the other way says where
                return None
            codes[:, reader.columns] = rows[columns[field].codes]
        n_tokens, n_templates = len(codes), len(self.templates.pairs) - 1
        ids, bias = np.empty((n_tokens, n_templates), np.int32), int(self.templates.keys[-1])
        find_attributes(self.templates, codes, offsets, marks, ids)
        indptr, indices = np.empty(n_tokens + 1, np.int64), np.empty(n_tokens * (n_templates + 3), np.int32)
        always = bias if has_bias else -1, -1 if marks else bias + has_bias
        n_found = list_attributes(ids, offsets, *always, indptr, indices)
        return indptr, indices[:n_found].copy()


def _joined_columns(arrays) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def _two_columns(table, stop, what) -> tuple[list, list]:
    """Return the columns of a table of integers, the first of them in [0, stop), or raise a ValueError."""
    if table.shape != (len(table), 2) or table.dtype.kind != "i":
        raise ValueError(f"{what} must be a table of two columns, not of shape {table.shape}")
    return freeze_indices(table[:, 0], stop, what).tolist(), table[:, 1].tolist()


def _cut_codes(items, lengths, n_parts=None) -> list:
    """Return neighbouring parts of some lengths, or raise a ValueError unless they make up the whole."""
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    if lengths.ndim != 1 or (lengths < 0).any() or total != len(items) or n_parts not in (None, len(lengths)):
        raise ValueError(f"{len(lengths)} parts of {total} elements, but there are {len(items)} in {n_parts} parts")
    return [items[stop - length : stop] for stop, length in zip(ends.tolist(), lengths.tolist(), strict=True)]


def _check_keys(keys, n_keys):
    """Raise a ValueError unless these are sorted, distinct keys below ``n_keys``."""
    freeze_indices(keys, n_keys, "keys of attributes", np.int64)
    if (np.diff(keys) <= 0).any():
        raise ValueError("keys of attributes must ascend")


def _distinct_keys(key, n_keys, min_count) -> np.ndarray:
    """Return the sorted distinct keys >= 0 that occur ``min_count`` times."""
    if n_keys <= TABLE_FACTOR * len(key):
        return np.flatnonzero(np.bincount(key + 1, minlength=1)[1:] >= min_count)
    key = np.sort(key)
    key = key[np.searchsorted(key, 0) :]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    return key[first[np.diff(first, append=len(key)) >= min_count]]


def _find(keys, key, n_keys) -> np.ndarray:
    """Return the position of each element of ``key`` in the sorted ``keys``, as int32; -1 where it is not there."""
    if len(keys) == 0:
        return np.full(len(key), -1, dtype=np.int32)
    if n_keys <= TABLE_FACTOR * len(key):
        table = np.full(n_keys + 1, -1, dtype=np.int32)  # its last element is that of the key -1
        table[keys] = np.arange(len(keys), dtype=np.int32)
        return table[key]
    position = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return np.where(keys[position] == key, position, -1).astype(np.int32)
