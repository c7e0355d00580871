"""Templates: the fields, and their offsets from the token, that form an attribute.

    template ((w, -1), (w, 0))   ->   one attribute for each pair of neighbouring words seen, "w[-1]|w[0]=in|the"

A field is represented by an array of integer codes for its sorted values. A template shifts the arrays of its fields.
An attribute is a value or a tuple of values; the vocabulary of a template is the sorted table of the training tokens'
codes, with a column for each (field, offset) pair. Names are created when they are first needed, because creating a
third of a million strings takes more time than all other steps of the extraction. The dicts that look up the attributes
of a few tokens are also created when they are first needed.
"""

from __future__ import annotations

import operator
from functools import partial
from itertools import chain, compress, pairwise
from numbers import Integral

import numpy as np

from .._data.arrays import cached_property, freeze_indices, offsets_of
from .._data.checks import is_integer, short
from .._data.messages import pack_texts, unpack_texts
from .._data.tagger import AFTER, BEFORE, Made, TemplateIds
from ._columns import MISSING, is_text, kind_of_column
from ._names import escape, hash_names
from ._token_functions import Phrases, as_function

BOS, EOS = "__BOS__", "__EOS__"
FEW_HASHES = 1 << 12  # hashes per template that are kept for calls with one sequence
TABLE_FACTOR = 4  # keys are looked up in a table, not by bisection, if it has at most this many cells per token


def check_templates(templates) -> list[tuple]:
    """Return the templates as tuples of (field, offset) pairs; a single pair is a template, too."""
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
    if len(template) == 2 and not isinstance(template[0], (tuple, list)) and isinstance(template[1], Integral):
        template = (template,)  # a single pair
    for pair in template:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"templates[{i}] = {template!r}: {pair!r} must be a (field, offset) pair")
        if not is_integer(pair[1]):
            raise TypeError(f"templates[{i}] = {template!r}: the offset {pair[1]!r} must be an integer")
    template = tuple((field, operator.index(offset)) for field, offset in template)
    if len(set(template)) < len(template):
        raise ValueError(f"templates[{i}] = {template!r} has the same (field, offset) pair twice")
    return template


def value_text(value, joined) -> str:
    """Return a value as written in names: escaped if it is ``joined`` to others or looks like a boundary mark."""
    text = escape(value, "|") if joined else value
    return f"\\{text}" if text.lstrip("\\") in (BOS, EOS) else text


class FieldTable:
    """The sorted values of one field in training.

    Parameters
    ----------
    labels : list of str, or None for a numeric field

    Attributes
    ----------
    size : int
        Number of codes without boundary marks: the number of ``labels``, or 1 for a numeric field.
    n_codes : int
        Number of codes with the two boundary marks.
    """

    def __init__(self, labels):
        self.labels = labels
        self.size = 1 if self.labels is None else len(self.labels)
        self.n_codes = self.size + 2
        self.code_of = None if self.labels is None else {label: code for code, label in enumerate(self.labels)}

    def texts(self, joined) -> np.ndarray:
        """Return the string of each code in names; None for numbers, whose names contain no value."""
        if self.labels is None:
            return np.array([None, BOS, EOS], dtype=object)
        return np.array([*(value_text(label, joined) for label in self.labels), BOS, EOS], dtype=object)

    def encode(self, column, field) -> np.ndarray:
        """Return the codes of a column, (N,) int32; -1 for values that are missing, zero, or absent from training."""
        if is_text(column) != (self.labels is not None) and kind_of_column(column) != MISSING:
            was = "numbers" if self.labels is None else "text"
            raise ValueError(f"field {short(field)} held {was} in fit, but holds {kind_of_column(column)} now")
        if not is_text(column):
            return np.where(np.nan_to_num(column, nan=0.0) != 0, 0, -1).astype(np.int32)
        code = [-1 if self.labels is None else self.code_of.get(value, -1) for value in column.values.tolist()]
        return np.array([*code, -1], dtype=np.int32)[column.codes]


class Window:
    """Look-up of neighbouring tokens in the same sequence."""

    def __init__(self, offsets):
        lengths = np.diff(offsets)
        self.from_begin = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        self.to_end = np.repeat(lengths, lengths) - 1 - self.from_begin

    def shift(self, values, offset, before, after) -> np.ndarray:
        """Return the values at ``offset`` from each token; outside the sequence, these are ``before`` or ``after``."""
        if offset == 0:
            return values
        shifted = np.roll(values, -offset, axis=0)
        shifted[self.from_begin < -offset if offset < 0 else self.to_end < offset] = before if offset < 0 else after
        return shifted


class TemplateVocabulary:
    """The attributes that one template produces.   V attributes.

    Parameters
    ----------
    template : tuple of (field, offset) pairs
    tables : list of FieldTable
        The table of each pair's field.

    Attributes
    ----------
    codes : list of (V,) int32
        For each pair, the codes of its value in all attributes; the attributes are in ascending order of their codes.
    """

    def __init__(self, template, tables):
        self.template = template
        self.tables = tables
        self.codes = [np.empty(0, dtype=np.int32)] * len(template)

    def __len__(self):
        return len(self.codes[0])

    def learn(self, columns, min_count=1) -> np.ndarray:
        """Collect the rows of codes that occur at least ``min_count`` times; return their ids as :meth:`lookup` does.

        ``columns`` contains an int32 array of shape (N,) for each pair, -1 where a value is missing.
        """
        position, n_of, row_of = distinct_rows(columns, [table.n_codes for table in self.tables])
        kept = np.flatnonzero(n_of >= min_count)
        self.codes = [column[row_of[kept]] for column in columns]
        ids = np.full(len(n_of) + 1, -1, dtype=np.int32)
        ids[kept] = np.arange(len(kept))
        return ids[position]

    def lookup(self, columns) -> np.ndarray:
        """Return the attribute id of each row of codes, of shape (N,) int32, in [0, V); -1 if there is none."""
        keys, key_index = np.unique(self.codes[0], return_inverse=True)
        position = find_keys(keys, columns[0])
        for column, known, table in zip(columns[1:], self.codes[1:], self.tables[1:], strict=True):
            keys, key_index = np.unique(key_index * table.n_codes + known, return_inverse=True)
            position = find_keys(keys, _joined(position, column, table.n_codes))
        return position.astype(np.int32)

    def ids_by_value(self) -> dict:
        """Return a dict from the value, or tuple of values, of each attribute to its id; True represents numbers."""
        values = [
            np.array([*([True] if table.labels is None else table.labels), BEFORE, AFTER], dtype=object)[code].tolist()
            for table, code in zip(self.tables, self.codes, strict=True)
        ]
        return dict(zip(values[0] if len(values) == 1 else zip(*values, strict=True), range(len(self)), strict=True))

    @cached_property
    def head(self) -> str:
        """The common beginning of the attribute names."""
        return "|".join(f"{escape(str(field), '|=')}[{offset}]" for field, offset in self.template)

    def hash_of(self, n_features, value) -> int:
        """Return the hash of an attribute's name; ``value`` is as in ``ids_by_value``, but None if it is missing."""
        values, is_joined = value if len(self.template) > 1 else (value,), len(self.template) > 1
        if None in values:
            return -1
        marks = {BEFORE: BOS, AFTER: EOS}
        texts = [marks[one] if one in marks else value_text(one, is_joined) for one in values if one is not True]
        return int(hash_names([f"{self.head}={'|'.join(texts)}" if texts else self.head], n_features)[0])

    def names(self) -> np.ndarray:
        """Return the names of the attributes as an array of dtype object."""
        head = self.head
        texts = [table.texts(len(self.tables) > 1) for table in self.tables]
        cells = (values[code].tolist() for values, code in zip(texts, self.codes, strict=True))
        rows = ([text for text in row if text is not None] for row in zip(*cells, strict=True))
        return np.array([f"{head}={'|'.join(row)}" if row else head for row in rows], dtype=object)


def distinct_rows(columns, n_codes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each row's index among the distinct rows of codes, (N,), and the count and last row of each distinct row.

    Rows with a code of -1 get the index -1. Columns are joined two at a time, so that keys fit into an int64. For a
    single column, the distinct rows are all codes up to the highest one; for codes that do not occur, the last row is
    0.
    """
    position = columns[0].astype(np.int64)
    for column, n in zip(columns[1:], n_codes[1:], strict=True):
        key = np.append(_joined(position, column, n), -1)
        position = np.unique(key, return_inverse=True)[1][:-1] - 1
    n_of = np.bincount(position + 1, minlength=1)[1:]
    row_of = np.zeros(len(n_of) + 1, dtype=np.int64)
    row_of[position] = np.arange(len(position))  # its last element is for rows without an attribute
    return position, n_of, row_of


def _joined(position, column, n_codes) -> np.ndarray:
    """Return a key for each pair of a position and a code, int64; -1 if either is -1."""
    key = position * np.int64(n_codes) + column
    key[(position < 0) | (column < 0)] = -1
    return key


def find_keys(keys, key) -> np.ndarray:
    """Return the position of each element of ``key`` in the sorted ``keys``, int64; -1 if it is absent."""
    if not len(keys):
        return np.full(len(key), -1)
    if keys[-1] < TABLE_FACTOR * len(key):
        table = np.full(keys[-1] + 3, -1)  # the last elements are for higher keys and for the key -1
        table[keys] = np.arange(len(keys))
        return table[np.minimum(key, keys[-1] + 1)]
    position = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    position[keys[position] != key] = -1
    return position


def _made_of(function, is_text, text):
    """Return the result of a function for a string: a string, a number or None; None for a missing string."""
    made = None if text is None else function(text)
    if made is not None and not (isinstance(made, str) if is_text else type(made) in (bool, int, float)):
        raise TypeError(f"{made!r} is of another kind than in fit")
    return made if is_text or made is None else float(made)


class _Hashes(Made):
    """Hashes of attributes by their values."""

    def get(self, value, default=-1):
        return self[value]


class TemplateVocabularies:
    """The vocabularies of several templates, which share the tables of the fields; a part of ``FeatureNames``.

    Files and copies contain the vocabularies as a few arrays that are created only once, because skops writes a
    separate object for each reference.

    Parameters
    ----------
    templates : list of tuples of (field, offset) pairs
    tables : dict
        The :class:`FieldTable` of each field.
    """

    def __init__(self, templates, tables):
        self.tables = tables
        if not {field for template in templates for field, _ in template} <= tables.keys():
            raise ValueError("a template has a field without a table of values")
        self.all = [TemplateVocabulary(template, [tables[field] for field, _ in template]) for template in templates]
        self._state: dict | None = None
        self._by_value: dict[int | None, TemplateIds] = {}

    def by_value(self, functions, n_hashed=None) -> TemplateIds:
        """Return the object that finds the attributes of a few tokens; only the first call creates it.

        ``functions`` maps the name of each token feature to a pair: its field, and its function or the function's name.
        If ids are hashes, ``n_hashed`` is the number of hashed features.
        """
        if n_hashed not in self._by_value:
            made: tuple[dict, dict] = {}, {}  # for strings, for numbers
            for name, table in self.tables.items():
                is_number = table.labels is None
                field, function = functions.get(name, (name, float if is_number else str))
                if isinstance(function, Phrases):  # they depend on neighbours, so they are a column already
                    field, function = name, str
                made[is_number][name] = field, Made(partial(_made_of, as_function(function), not is_number))
            hashes = (_Hashes(partial(vocabulary.hash_of, n_hashed), FEW_HASHES) for vocabulary in self.all)
            ids = [vocabulary.ids_by_value() for vocabulary in self.all] if n_hashed is None else list(hashes)
            # other threads may do the same
            self._by_value[n_hashed] = TemplateIds([vocabulary.template for vocabulary in self.all], ids, *made)
        return self._by_value[n_hashed]

    @cached_property
    def _firsts(self) -> np.ndarray:
        """The first id of each template, followed by the number of ids."""
        return offsets_of([*map(len, self.all)])

    def find(self, columns, functions, marks, n_hashed=None) -> tuple[np.ndarray, np.ndarray | None] | None:
        """Return a sequence's attribute ids, (n_templates, T), -1 for no attribute, and values (None if all are 1).

        ``columns`` contains a list of values for each field. With ``marks``, fields contain boundary marks outside the
        sequence. The result is None if a field is missing, or if a function returns a value of another kind than in
        `fit`.
        """
        try:
            template_ids = self.by_value(functions, n_hashed)
            ids = template_ids.find(columns, marks)
            values = template_ids.amounts(columns, ids.shape[1])
        except Exception:  # user-defined functions may raise any error; the general code names the token
            return None
        if values is None or (values == 1).all():
            return ids, None
        return (np.where(values == 0, -1, ids), values) if np.isfinite(values).all() else None

    def ids_of_texts(
        self, columns, functions, marks, always, n_hashed=None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
        """Return the attributes of a sequence in the form of ``Vocabulary.ids_of``; for the parameters, see ``find``.

        ``always`` contains the ids of all tokens' attributes that do not come from templates, (n_always, T), with -1
        for no attribute.
        """
        attributes = self.find(columns, functions, marks, n_hashed) if self.all else (always[:0], None)
        if attributes is None:
            return None
        ids, values = attributes
        ids = np.where(ids < 0, -1, ids + self._firsts[:-1, None])
        if len(always):
            ids = np.concatenate([ids, always])
            values = None if values is None else np.concatenate([values, np.ones(always.shape)])
        table = ids.T
        values = None if values is None else values.T.ravel()
        return table.ravel().astype(np.int32), np.arange(len(table) + 1) * table.shape[1], values

    @classmethod
    def from_columns(cls, templates, columns) -> TemplateVocabularies:
        """Return vocabularies without attributes, with the tables of the columns in use."""
        used = {field: columns[field] for template in templates for field, _ in template}
        labels = {field: sorted(column.values.tolist()) if is_text(column) else None for field, column in used.items()}
        return cls(templates, {field: FieldTable(known) for field, known in labels.items()})

    def __len__(self):
        return sum(map(len, self.all))

    def chosen(self, templates, kept) -> TemplateVocabularies:
        """Return vocabularies of the given templates that contain only the attributes that ``kept`` selects.

        ``kept`` maps each template to a bool array. The tables do not contain values that occur only in other
        attributes.
        """
        codes = {v.template: [code[kept[v.template]] for code in v.codes] for v in self.all}
        used = {field: np.zeros(table.n_codes, dtype=bool) for field, table in self.tables.items()}
        for template in templates:
            for (field, _), code in zip(template, codes[template], strict=True):
                used[field][code] = True
        tables = {}
        for field in dict.fromkeys(field for template in templates for field, _ in template):
            labels = self.tables[field].labels
            used[field][len(labels or ()) :] = True  # boundary marks have the last codes
            tables[field] = FieldTable(labels and list(compress(labels, used[field])))
        new = TemplateVocabularies(templates, tables)
        new_codes = {field: np.cumsum(used[field], dtype=np.int32) - 1 for field in tables}
        for vocabulary in new.all:
            pairs = zip(vocabulary.template, codes[vocabulary.template], strict=True)
            vocabulary.codes = [new_codes[field][code] for (field, _), code in pairs]
        return new

    def names(self) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype=object), *(vocabulary.names() for vocabulary in self.all)])

    def __getstate__(self):
        if self._state is None:
            labels = [table.labels for table in self.tables.values()]
            codes = [code for vocabulary in self.all for code in vocabulary.codes]
            self._state = {
                "templates": [vocabulary.template for vocabulary in self.all],
                "fields": list(self.tables),
                "n_labels": np.array([-1 if known is None else len(known) for known in labels], dtype=np.int64),
                "labels": pack_texts(chain.from_iterable(known or () for known in labels)),
                "n_codes": np.array(list(map(len, codes)), dtype=np.int64),  # of each pair
                "codes": np.concatenate([np.empty(0, dtype=np.int32), *codes]),
            }
        return self._state

    def __setstate__(self, state):
        n_labels, templates = state["n_labels"], state["templates"]
        labels = _cut(unpack_texts(state["labels"]), np.maximum(n_labels, 0))
        if any(after <= before for known in labels for before, after in pairwise(known)):
            raise ValueError("the values of a field must ascend")
        tables = [FieldTable(known if n >= 0 else None) for known, n in zip(labels, n_labels.tolist(), strict=True)]
        self.__init__(templates, dict(zip(state["fields"], tables, strict=True)))
        codes = _cut(state["codes"], state["n_codes"])
        tables_of_codes = [table for vocabulary in self.all for table in vocabulary.tables]
        codes = [freeze_indices(c, table.n_codes, "codes") for c, table in zip(codes, tables_of_codes, strict=True)]
        for vocabulary in self.all:
            vocabulary.codes, codes = codes[: len(vocabulary.tables)], codes[len(vocabulary.tables) :]
            ids = vocabulary.lookup(vocabulary.codes) if len(set(map(len, vocabulary.codes))) == 1 else [-1]
            if not np.array_equal(ids, np.arange(len(vocabulary))):
                raise ValueError("the attributes of a template must ascend")


def _cut(items, lengths) -> list:
    """Return adjacent parts of the given lengths, or raise a ValueError if these do not cover all items exactly."""
    ends = np.cumsum(lengths, dtype=np.int64)
    if lengths.ndim != 1 or (lengths < 0).any() or int(ends[-1] if len(ends) else 0) != len(items):
        raise ValueError(f"parts of {ends[-1:]} elements, but there are {len(items)}")
    return [items[stop - length : stop] for stop, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
