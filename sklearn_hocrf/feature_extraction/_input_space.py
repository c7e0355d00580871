"""Conversion of X, in any form, to a SequenceBatch for segment transformers, and merging of parts of training data.

The result of a merge is the same as if all parts had been read at once: each part numbers its values and attributes
separately, but the merged ids are assigned in sorted order, so they do not depend on the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.columns import TokenColumn
from .._data.segment_features import blocks_of
from ._columns import (
    MISSING,
    TokenTable,
    check_complete,
    complete_fields,
    is_text,
    kind_of_column,
    read_tokens,
    text_column,
    without_arrays,
)
from ._names import InputFeatures
from ._templates import FieldTable, TemplateVocabularies

FEATURES_BY_TYPE = {Mapping: "dicts", np.ndarray: "rows of numbers", list: "lists"}


class InputSpace(NamedTuple):
    """The form of X in `fit`, with which new data are compared."""

    features: InputFeatures
    form: str  # of the tokens: "text", "number", "tuple", "dict", "attributes" or "batch"
    kinds: dict  # of the raw columns by field; see ``kind_of_column``
    complete: list  # fields that every token contains

    @classmethod
    def from_input(cls, X, table) -> InputSpace:
        """Return the form of X; ``table`` contains its tokens."""
        if not table.offsets[-1]:
            raise ValueError("X has no tokens to learn features from")
        kinds = {field: kind_of_column(column) for field, column in table.columns.items()}
        return cls(InputFeatures.from_input(X), table.kind, kinds, complete_fields(table.columns))

    @property
    def fields(self) -> list:
        """The fields of the raw columns."""
        return list(self.kinds)

    @property
    def text_fields(self) -> list:
        """The text fields; fields without any values count as text."""
        return [field for field, kind in self.kinds.items() if kind in ("text", MISSING)]

    def merged(self, other) -> InputSpace:
        """Return the common form of this X and another, or raise an error if the two are incompatible."""
        if self.form != other.form:
            raise ValueError(f"tokens have the form {self.form!r} in one partition and {other.form!r} in another")
        if self.form != "dict" and self.fields != other.fields:
            raise ValueError(
                f"tokens have the fields {short(self.fields)} in one partition and {short(other.fields)} in another"
            )
        kinds = dict(self.kinds)  # in the order in which fields first appear
        for field, kind in other.kinds.items():
            first_kind = kinds.get(field, MISSING)
            if first_kind != kind and MISSING not in (first_kind, kind):
                raise ValueError(f"field {short(field)} holds {first_kind} in one partition and {kind} in another")
            kinds[field] = kind if first_kind == MISSING else first_kind
        complete = [field for field in self.complete if field in other.complete]
        return InputSpace(self.features, self.form, kinds, complete)

    def like_fitted(self, X, table, used) -> TokenTable:
        """Return the table of new data with exactly the fields of `fit`; raise an error if a ``used`` field is absent.

        If there was a single field in `fit`, plain strings are read as values of that field.
        """
        self.features.check_same(InputFeatures.from_input(X))
        fields, columns = self.fields, table.columns
        if table.kind == "text" and len(fields) == 1 and self.text_fields:
            columns = dict.fromkeys(fields, *columns.values())
        lacking = {field for field in fields if field not in columns}
        surplus = table.kind == "tuple" and len(columns) > len(fields)
        optional = table.kind == "empty" or table.kind == self.form == "dict"
        if surplus or (lacking and not optional):
            raise ValueError(f"the tokens have the fields {short(list(columns))}, but those in fit had {short(fields)}")
        missing = text_column([None] * int(table.offsets[-1])) if lacking else None
        columns = {field: columns.get(field, missing) for field in fields}
        for field, column in columns.items():
            was, now = "text" if field in self.text_fields else self.kinds[field], kind_of_column(column)
            if now not in (was, MISSING):
                raise ValueError(f"field {short(field)} held {was} in fit, but holds {now} now")
        complete = [field for field in self.complete if field in used]
        check_complete(columns, table.offsets, complete, table.absent | lacking)
        return table._replace(columns=columns)

    def read(self, X, used) -> SequenceBatch:
        """Return new data as a batch with the columns of `fit`, or raise an error."""
        return batch_of(X, self.like_fitted(X, raw_table(X), used))


def raw_table(X) -> TokenTable:
    """Return the tokens of X with their raw columns, except those of arrays."""
    if isinstance(X, SequenceBatch):
        return TokenTable(X.offsets, dict(X.columns), "batch" if X.n_tokens else "empty")
    table = read_tokens(X)
    return table._replace(columns=without_arrays(table.columns))


def batch_of(X, table) -> SequenceBatch:
    """Return X as a batch; raw sequences have no token features."""
    if isinstance(X, SequenceBatch):
        return X
    no_rows = np.zeros(int(table.offsets[-1]) + 1), np.empty(0), None, 0, np.empty(0, dtype=object)
    return SequenceBatch(table.offsets, *no_rows, table.columns)


def token_form(X) -> str | None:
    """Return the form of tokens that an estimator would read as token features; None for raw strings and tuples."""
    for sequence in X:
        if hasattr(sequence, "columns"):
            return "rows of a data frame"
        if getattr(sequence, "ndim", None) == 2:
            return FEATURES_BY_TYPE[np.ndarray]
        for token in sequence:
            return next((form for kind, form in FEATURES_BY_TYPE.items() if isinstance(token, kind)), None)
    return None


def kept_blocks(batch) -> tuple:
    """Return the blocks of a batch or, if the batch contains none yet, the block of its token features, if any."""
    return tuple(block for block in blocks_of(batch) if batch.blocks is not None or block.n_features)


def text_field(space: InputSpace, field, parameter):
    """Return the field that a parameter names; True or None means the first text field, or else the first field."""
    if not space.fields:
        raise ValueError(
            f"{parameter} needs the raw tokens, but this SequenceBatch has no raw token columns: put a "
            "SequenceFeatureExtractor with templates of their fields first"
        )
    if field is True or field is None:
        return next(iter(space.text_fields), space.fields[0])
    if field not in space.fields:
        raise ValueError(
            f"{parameter} names the field {short(field)}, but the tokens have the fields {short(space.fields)}"
        )
    return field


def _merge_tables(left, right, field) -> FieldTable:
    if left.labels is not None and right.labels is not None:
        return FieldTable(sorted({*left.labels, *right.labels}))
    if left.labels or right.labels:
        raise ValueError(f"field {short(field)} holds text in one partition and numbers in another")
    return FieldTable(None)  # a field without any values in a part looks like text there


def _new_codes(table, merged) -> np.ndarray:
    """Return the code in the merged table for each code of a table and for the boundary marks; int32."""
    known = [0] * table.size if merged.labels is None else [merged.code_of[label] for label in table.labels]
    return np.array([*known, merged.size, merged.size + 1], dtype=np.int32)


def without_tokens(columns) -> dict:
    """Return columns that contain the values of the given columns, but no tokens."""
    nothing = np.empty(0, np.int64)
    return {field: column.take(nothing) for field, column in columns.items()}


def merge_columns(left, right) -> dict:
    """Return columns with the values of both arguments but no tokens, in the order in which fields first appear."""
    merged = {**left, **right}
    for field, column in left.items():
        other = merged[field]
        if is_text(column) and is_text(other):
            values = dict.fromkeys([*column.values.tolist(), *other.values.tolist()])  # as they first appear
            merged[field] = TokenColumn(column.codes, np.array([*values, None], dtype=object)[:-1])
        elif is_text(other):  # no values in that part
            merged[field] = column
    return merged


def lacks_counts(what, fields) -> ValueError:
    """Return the error for a feature that was counted in only some partitions."""
    return ValueError(
        f"{what} was not counted in every partition, because some have no values of a field: give templates and "
        f"token_features with their fields; the tokens have {short(fields)}"
    )


class TemplateCounts(NamedTuple):
    """All attributes that templates produce in a part of the training sequences, including rare ones."""

    vocabularies: TemplateVocabularies
    n_of: dict  # number of tokens with each attribute, by template

    def merged(self, other) -> TemplateCounts:
        """Return the combined counts of this part and ``other``, for the templates that both contain."""
        templates = [template for template in self.n_of if template in other.n_of]
        parts = [self, other]
        left, right = (part.vocabularies.tables for part in parts)
        used = dict.fromkeys(field for template in templates for field, _ in template)
        tables = {field: _merge_tables(left[field], right[field], field) for field in used}
        moved = [{field: _new_codes(part[field], table) for field, table in tables.items()} for part in (left, right)]
        codes = [{vocabulary.template: vocabulary.codes for vocabulary in part.vocabularies.all} for part in parts]
        merged, n_of = TemplateVocabularies(templates, tables), {}
        for vocabulary in merged.all:
            columns = [
                np.concatenate([new[field][of[vocabulary.template][i]] for new, of in zip(moved, codes, strict=True)])
                for i, (field, _) in enumerate(vocabulary.template)
            ]
            ids = vocabulary.learn(columns)
            counts = np.concatenate([part.n_of[vocabulary.template] for part in parts])
            n_of[vocabulary.template] = np.bincount(ids, counts, len(vocabulary)).astype(np.int64)  # exact below 2**53
        return TemplateCounts(merged, n_of)


class TokenCounts(NamedTuple):
    """Counts of a `SequenceFeatureExtractor` for a part of the training sequences; empty for parts without tokens."""

    space: Any  # an InputSpace
    columns: dict = {}  # raw columns of no tokens, with all values
    functions: dict = {}  # the field of each token feature
    counted: Any = None  # AttributeCounts or TemplateCounts

    def merged(self, other) -> TokenCounts:
        """Return the combined counts of this part and ``other``; neither part is empty."""
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
