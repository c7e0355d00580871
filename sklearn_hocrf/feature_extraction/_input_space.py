"""Read X, in any form, as a SequenceBatch for the transformers that make features of whole segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.columns import TokenColumn
from .._data.segment_features import blocks_of
from ._columns import check_complete, complete_fields, is_text, read_tokens, without_arrays
from ._names import InputFeatures
from ._templates import check_kind

TOKEN_FEATURES_FIRST = (
    "put a SequenceFeatureExtractor before it (texts, numbers), with templates='attributes' for dicts and lists of "
    "attribute names"
)


class InputSpace(NamedTuple):
    """The form of X in fit; later X are compared with it."""

    features: InputFeatures
    kind: str  # of the tokens: "text", "number", "tuple", "dict", or "batch"
    fields: list  # raw columns
    text_fields: set  # fields that hold text
    complete: list  # fields that every token has
    unknown: tuple = ()  # fields without values, which could be text or numbers

    @classmethod
    def of(cls, X) -> tuple[InputSpace, SequenceBatch]:
        """Return the form of X, and X as a batch; raw sequences have no token features."""
        if isinstance(X, SequenceBatch):
            batch, kind = X, "batch"
        else:
            table = read_tokens(X)
            batch, kind = _raw_batch(table.offsets, without_arrays(table.columns)), table.kind
        if batch.n_tokens == 0:
            raise ValueError("X has no tokens to learn features from")
        text_fields = {field for field, column in batch.columns.items() if is_text(column)}
        complete = complete_fields(batch.columns, batch.columns)
        unknown = tuple(field for field in text_fields if not len(batch.columns[field].values))
        return cls(InputFeatures.of(X), kind, list(batch.columns), text_fields, complete, unknown), batch

    def merged(self, other) -> InputSpace:
        """Return the common form of both, or raise an error if they differ in form."""
        self.features.check_same(other.features)
        if self.kind != other.kind:
            raise ValueError(f"tokens have the form {self.kind!r} in one partition and {other.kind!r} in another")
        fields = list(dict.fromkeys([*self.fields, *other.fields]))  # in the order of their first appearance
        text = {*self.text_fields, *other.text_fields} - self._unsure(other)
        numbers = {field for part in (self, other) for field in part.fields if field not in part.text_fields}
        for field in [field for field in fields if field in text & numbers]:
            raise ValueError(f"field {short(field)} holds text in one partition and numbers in another")
        unknown = {field for field in fields if field not in text | numbers}
        complete = [field for field in self.complete if field in other.complete]
        return InputSpace(self.features, self.kind, fields, text | unknown, complete, tuple(unknown))

    def check_fields(self, *parts) -> None:
        """Raise unless each part, of which this is the merged form, has values of all fields."""
        for part in parts:
            if part.fields != self.fields or set(part.unknown) != set(self.unknown):
                raise ValueError(
                    f"functions of segments get the fields {short(part.fields)} in one partition, but the whole has "
                    f"{short(self.fields)}; each partition must have values of all fields"
                )

    def _unsure(self, other) -> set:
        """Return the fields that neither part knows to be text."""
        sure = {field for part in (self, other) for field in part.text_fields if field not in part.unknown}
        return {*self.unknown, *other.unknown} - sure

    def read(self, X, used) -> SequenceBatch:
        """Return a later X as a batch with the columns of fit, or raise; all fields ``used`` must be present."""
        batch, absent = self._read(X)
        check_complete(batch.columns, batch.offsets, [field for field in self.complete if field in used], absent)
        return batch

    def _read(self, X) -> tuple[SequenceBatch, frozenset]:
        """Return X as a batch, and the fields that its dicts lack."""
        self.features.check(X)
        if isinstance(X, SequenceBatch):
            self._check_columns(X.columns)
            return X, frozenset()
        if self.kind == "batch":
            raise ValueError("X has raw sequences, but fit had a SequenceBatch: pass X through the same transformers")
        table = read_tokens(X, self.fields if self.kind == "dict" else None)  # dicts may lack keys or have others
        if table.kind == "empty":
            missing = TokenColumn(np.empty(0, dtype=np.int32), np.empty(0, dtype=object))
            table = table._replace(columns=dict.fromkeys(self.fields, missing))
        elif table.kind != self.kind:
            raise ValueError(f"X has tokens of the form {table.kind!r}, but in fit they had the form {self.kind!r}")
        columns = without_arrays(table.columns)
        self._check_columns(columns)
        return _raw_batch(table.offsets, columns), table.absent

    def _check_columns(self, columns):
        if not columns.keys() >= set(self.fields):
            raise ValueError(
                f"the tokens have the fields {short(list(columns))}, but those in fit had {short(self.fields)}"
            )
        for field in self.fields:
            check_kind(columns[field], field in self.text_fields, field)


def has_tokens(X) -> bool:
    """Return whether a list of sequences has tokens; True for anything else, which is rejected later."""
    if isinstance(X, SequenceBatch):
        return X.n_tokens > 0
    if not isinstance(X, (list, tuple)):
        return True
    return any(not isinstance(sequence, (list, tuple, np.ndarray)) or len(sequence) for sequence in X)


def token_form(X) -> str | None:
    """Return the form of tokens that an estimator would read as token features; None for raw texts and tuples."""
    for sequence in X:
        if hasattr(sequence, "columns"):
            return "rows of a data frame"
        if getattr(sequence, "ndim", None) == 2:
            return "rows of numbers"
        for token in sequence:
            if isinstance(token, Mapping):
                return "dicts"
            if isinstance(token, np.ndarray):
                return "rows of numbers"
            return "lists" if isinstance(token, list) else None
    return None


def _raw_batch(offsets, columns) -> SequenceBatch:
    n_tokens = int(offsets[-1])
    names = np.empty(0, dtype=object)
    return SequenceBatch(offsets, np.zeros(n_tokens + 1), np.empty(0), None, 0, names, columns)


def kept_blocks(batch) -> tuple:
    """Return the blocks of a batch: its token features, if it has no blocks yet."""
    return tuple(block for block in blocks_of(batch) if batch.blocks is not None or block.n_features)


def text_field(space: InputSpace, field, parameter):
    """Return the field that a parameter names; True or None means the first text field, else the first field."""
    if not space.fields:
        raise ValueError(
            f"{parameter} needs the raw tokens, but this SequenceBatch has no raw token columns. For feature "
            "dicts, SequenceFeatureExtractor('attributes', fields=[...]) keeps them; for numbers, put a "
            "SequenceFeatureExtractor first"
        )
    if field is True or field is None:
        return next((field for field in space.fields if field in space.text_fields), space.fields[0])
    if field not in space.fields:
        raise ValueError(
            f"{parameter} names the field {short(field)}, but the tokens have the fields {short(space.fields)}"
        )
    return field
