"""From the columns of tokens to rows of features, by templates of fields."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.labels import position_name
from ._columns import apply_function
from ._names import hash_names
from ._templates import BOS, EOS, TemplateVocabularies, Window
from ._token_functions import Phrases, as_function

__all__ = ["FieldTemplates"]


class FieldTemplates(NamedTuple):
    """The settings of a fitted extractor that make attributes from columns."""

    templates: list  # those that make attributes
    functions: dict  # {name: (field, function or its name)}
    padding: str
    bias: bool
    n_features: int | None  # of hashing

    def derived(self, columns, offsets) -> dict:
        """Return the columns, the marks of phrases and the token features."""
        derived = {
            name: apply_function(as_function(function), columns[field], name)
            for name, (field, function) in self.functions.items()
            if not isinstance(function, Phrases)
        }
        return {**self.with_phrases(columns, offsets), **derived}

    def with_phrases(self, columns, offsets) -> dict:
        """Return the columns and the marks of phrases, which depend on neighbouring tokens."""
        marks = {
            name: function.column(columns[field], offsets, name)
            for name, (field, function) in self.functions.items()
            if isinstance(function, Phrases)
        }
        return columns | marks

    def attributes(self, vocabularies, offsets, columns, min_count=None) -> list:
        """Return, for each template and each attribute outside the templates, the ids and values of the tokens.

        The ids, of shape (N,) int32, index the attributes of a template, or hashed features; -1 means no attribute.
        The values are float64, or None if all are 1. With ``min_count`` the vocabularies learn their attributes first.
        """
        window = Window(offsets, self.padding == "mark")
        if self.n_features is not None:
            vocabularies = TemplateVocabularies.of(self.templates, columns)  # of this X only
        tables = vocabularies.tables
        coded = {field: table.encode(columns[field], field) for field, table in tables.items()}
        shifted = {
            (field, offset): window.shift(coded[field], tables[field].size, offset)
            for field, offset in dict.fromkeys(pair for vocabulary in vocabularies.all for pair in vocabulary.template)
        }
        attributes = []
        for vocabulary in vocabularies.all:
            parts, values = _multiply([shifted[pair] for pair in vocabulary.template])
            if values is not None and not np.isfinite(values).all():
                t = int(np.argmin(np.isfinite(values)))
                raise ValueError(
                    f"{position_name(offsets, t)}: the product of the template {vocabulary.template!r} is inf"
                )
            if self.n_features is not None:
                vocabulary.fit(parts)
                hashes = np.append(hash_names(vocabulary.names(), self.n_features), np.int32(-1))
                ids = hashes[vocabulary.lookup(parts)]
            else:
                ids = vocabulary.lookup(parts) if min_count is None else vocabulary.fit(parts, min_count)
            attributes.append((ids, values))
        for name, present in zip(self.names_of_always(), self._always(window), strict=True):
            index = 0 if self.n_features is None else hash_names([name], self.n_features)[0]
            attributes.append((np.where(present, index, -1).astype(np.int32), None))
        return attributes

    def _always(self, window):
        """Return, for each attribute outside the templates, which tokens have it."""
        present = [window.from_begin >= 0] if self.bias else []
        return present if window.mark else [*present, window.from_begin == 0, window.to_end == 0]

    def names_of_always(self) -> list[str]:
        """Return the names of the attributes outside the templates."""
        return (["bias"] if self.bias else []) + ([BOS, EOS] if self.padding == "drop" else [])

    def rows_of_texts(self, vocabularies, table) -> tuple | None:
        """Return what :meth:`rows` does where all fields hold text, by kernels; else None."""
        if self.n_features is not None or not len(vocabularies.all):
            return None
        functions = {n: pair for n, pair in self.functions.items() if not isinstance(pair[1], Phrases)}
        compiled = vocabularies.compiled(functions)
        if compiled is None:
            return None
        columns = self.with_phrases(table.columns, table.offsets)
        rows = compiled.attributes(columns, table.offsets, self.padding == "mark", bool(self.bias))
        return None if rows is None else (*rows, None)

    def rows(self, vocabularies, offsets, columns, min_count=None) -> tuple:
        """Return the attributes of all tokens as CSR arrays; the parameters are as for :meth:`attributes`."""
        attributes = self.attributes(vocabularies, offsets, columns, min_count)
        sizes = [*map(len, vocabularies.all)] + [1] * (len(attributes) - len(vocabularies.all))
        return _assemble(int(offsets[-1]), attributes, [0] * len(sizes) if self.n_features is not None else sizes)


def _multiply(parts):
    """Return the parts of a conjunction and the product of their numbers, None if all are texts."""
    factors = [part.numbers for part in parts if part.numbers is not None]
    if not factors:
        return parts, None
    with np.errstate(over="ignore"):
        product = np.prod(factors, axis=0)
    codes = np.where(product == 0, np.int32(-1), parts[0].codes)  # a product may underflow
    return [parts[0]._replace(codes=codes), *parts[1:]], product


def _assemble(n_tokens, attributes, sizes):
    """Return CSR arrays from the attributes of each template; ``sizes`` are the sizes of their vocabularies."""
    starts = offsets_of(sizes)[:-1]
    indices = np.empty((n_tokens, len(attributes)), dtype=np.int32)
    for j, (ids, _) in enumerate(attributes):
        indices[:, j] = ids
    present = indices >= 0
    indices += starts.astype(np.int32)
    indptr = offsets_of(present.sum(axis=1))
    if all(values is None for _, values in attributes):
        return indptr, indices[present], None
    values = np.ones(present.shape)
    for j, (_, column) in enumerate(attributes):
        if column is not None:
            values[:, j] = column
    values = values[present]
    return indptr, indices[present], None if (values == 1).all() else values
