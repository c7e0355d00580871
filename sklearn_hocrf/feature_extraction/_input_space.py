"""Read X, in any form, as a SequenceBatch for the transformers that make features of whole segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.segment_features import blocks_of
from ._columns import (
    MISSING,
    TokenTable,
    check_complete,
    complete_fields,
    kind_of_column,
    read_tokens,
    text_column,
    without_arrays,
)
from ._names import InputFeatures

FEATURES_BY_TYPE = {Mapping: "dicts", np.ndarray: "rows of numbers", list: "lists"}


class InputSpace(NamedTuple):
    """The form of X in fit; later X are compared with it."""

    features: InputFeatures
    form: str  # of the tokens: "text", "number", "tuple", "dict", "attributes" or "batch"
    kinds: dict  # of raw columns by field, see ``kind_of_column``
    complete: list  # fields that every token has

    @classmethod
    def of(cls, X, table) -> InputSpace:
        """Return the form of X, of which ``table`` has the tokens."""
        if not table.offsets[-1]:
            raise ValueError("X has no tokens to learn features from")
        kinds = {field: kind_of_column(column) for field, column in table.columns.items()}
        return cls(InputFeatures.of(X), table.kind, kinds, complete_fields(table.columns, table.columns))

    @property
    def fields(self) -> list:
        """The fields of the raw columns."""
        return list(self.kinds)

    @property
    def text_fields(self) -> list:
        """The fields of text; those without values are text, too."""
        return [field for field, kind in self.kinds.items() if kind in ("text", MISSING)]

    def merged(self, other) -> InputSpace:
        """Return the common form of both, or raise an error if they differ in form."""
        if self.form != other.form:
            raise ValueError(f"tokens have the form {self.form!r} in one partition and {other.form!r} in another")
        self.features.check_same(other.features)
        if self.form != "dict" and self.fields != other.fields:
            raise ValueError(
                f"tokens have the fields {short(self.fields)} in one partition and {short(other.fields)} in another"
            )
        kinds = dict(self.kinds)  # in the order in which fields first appear
        for field, kind in other.kinds.items():
            own = kinds.get(field, MISSING)
            if own != kind and MISSING not in (own, kind):
                raise ValueError(f"field {short(field)} holds {own} in one partition and {kind} in another")
            kinds[field] = kind if own == MISSING else own
        complete = [field for field in self.complete if field in other.complete]
        return InputSpace(self.features, self.form, kinds, complete)

    def check_fields(self, *parts) -> None:
        """Raise unless each part, of which this is the merged form, has values of all fields."""
        for part in parts:
            if list(part.kinds.items()) != list(self.kinds.items()):
                raise ValueError(
                    f"functions of segments get the fields {short(part.fields)} in one partition, but the whole has "
                    f"{short(self.fields)}; each partition must have values of all fields"
                )

    def like_fitted(self, X, table, used) -> TokenTable:
        """Return the table of a later X with exactly the fields of fit, or raise; all fields ``used`` must be present.

        Plain texts are read as the only field of fit.
        """
        self.features.check_same(InputFeatures.of(X))
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
        """Return a later X as a batch with the columns of fit, or raise."""
        return batch_of(X, self.like_fitted(X, raw_table(X), used))


def raw_table(X) -> TokenTable:
    """Return the tokens of X with their raw columns but those of arrays."""
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
    """Return the form of tokens that an estimator would read as token features; None for raw texts and tuples."""
    for sequence in X:
        if hasattr(sequence, "columns"):
            return "rows of a data frame"
        if getattr(sequence, "ndim", None) == 2:
            return FEATURES_BY_TYPE[np.ndarray]
        for token in sequence:
            return next((form for kind, form in FEATURES_BY_TYPE.items() if isinstance(token, kind)), None)
    return None


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
        return next(iter(space.text_fields), space.fields[0])
    if field not in space.fields:
        raise ValueError(
            f"{parameter} names the field {short(field)}, but the tokens have the fields {short(space.fields)}"
        )
    return field
