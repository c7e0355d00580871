"""Merge values and attributes of parts of the training data as if all parts had been read at once.

Each part has its own ids. Values of fields and attributes get ids in sorted order, so the merged ids equal the ids of
the whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._data.checks import short
from .._data.columns import TokenColumn
from ._array_fields import ArrayColumn
from ._columns import is_text
from ._input_space import InputSpace
from ._templates import FieldTable, TemplateVocabularies


def _merge_tables(left, right, field) -> FieldTable:
    if left.labels is not None and right.labels is not None:
        return FieldTable(sorted({*left.labels, *right.labels}))
    if left.labels or right.labels:
        raise ValueError(f"field {short(field)} holds text in one partition and numbers in another")
    return FieldTable(None)  # a field that is missing everywhere in one part looks like text there


def _new_codes(table, merged) -> np.ndarray:
    """Return the codes in the merged table of the codes of a table and of the marks outside; int32."""
    known = [0] * table.size if merged.labels is None else [merged.code_of[label] for label in table.labels]
    return np.array([*known, merged.size, merged.size + 1], dtype=np.int32)


def without_tokens(columns) -> dict:
    """Return columns without tokens that hold the same values."""
    return {
        field: column.take(slice(0))
        if is_text(column)
        else ArrayColumn(*(part[:0] for part in column))
        if isinstance(column, ArrayColumn)
        else column[:0].copy()
        for field, column in columns.items()
    }


def merge_columns(left, right) -> dict:
    """Return columns without tokens that hold the values of both, in the order in which fields first appear."""
    merged = {**left, **right}
    for field, column in left.items():
        other = merged[field]
        if is_text(column) and is_text(other):
            values = dict.fromkeys([*column.values.tolist(), *other.values.tolist()])  # as they first appear
            merged[field] = TokenColumn(column.codes, np.array([*values, None], dtype=object)[:-1])
        elif is_text(other):  # missing everywhere in that part
            merged[field] = column
    return merged


def lacks_counts(what, fields) -> ValueError:
    """Return the error about something that only some partitions have counted."""
    return ValueError(
        f"{what} was not counted in every partition, because some have no values of a field: give templates and "
        f"token_features with their fields; the tokens have {short(fields)}"
    )


class TemplateCounts(NamedTuple):
    """The attributes that templates make in some training sequences, however rare."""

    vocabularies: TemplateVocabularies
    n_of: dict  # number of tokens with each of them, by template

    def merged(self, other) -> TemplateCounts:
        """Return the sums of the counts of both, for the templates that both have."""
        templates = [own for own in self.n_of if own in other.n_of]
        parts = [self, other]
        left, right = (part.vocabularies.tables for part in parts)
        used = dict.fromkeys(field for template in templates for field, _ in template)
        tables = {field: _merge_tables(left[field], right[field], field) for field in used}
        moved = [{field: _new_codes(own[field], table) for field, table in tables.items()} for own in (left, right)]
        codes = [{own.template: own.codes for own in part.vocabularies.all} for part in parts]
        merged, n_of = TemplateVocabularies(templates, tables), {}
        for own in merged.all:
            columns = [
                np.concatenate([new[field][of[own.template][i]] for new, of in zip(moved, codes, strict=True)])
                for i, (field, _) in enumerate(own.template)
            ]
            ids, counts = own.learn(columns), np.concatenate([part.n_of[own.template] for part in parts])
            n_of[own.template] = np.bincount(ids, counts, len(own)).astype(np.int64)  # exact below 2**53
        return TemplateCounts(merged, n_of)


class TokenCounts(NamedTuple):
    """The counts of some training sequences for a :class:`SequenceFeatureExtractor`; empty if they have no tokens."""

    space: InputSpace | None
    columns: dict = {}  # raw columns of no tokens, with all values
    functions: dict = {}  # the field of each token feature
    counted: Any = None  # AttributeCounts or TemplateCounts

    def merged(self, other) -> TokenCounts:
        """Return the sums of the counts of both."""
        if self.space is None or other.space is None:
            return other if self.space is None else self
        space = self.space.merged(other.space)
        for name in sorted(self.functions.keys() & other.functions.keys()):
            if self.functions[name] != other.functions[name]:
                raise ValueError(
                    f"the token feature {name!r} is for the field {self.functions[name]!r} in one partition and for "
                    f"{other.functions[name]!r} in another: specify the field in token_features"
                )
        functions = {name: field for name, field in self.functions.items() if name in other.functions}
        columns = merge_columns(self.columns, other.columns)
        return TokenCounts(space, columns, functions, self.counted.merged(other.counted))
