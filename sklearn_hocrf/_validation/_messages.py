"""What the error messages of this package share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from .._batch import SequenceBatch
from .._labels import place

__all__ = ["not_finite", "refuse_non_sequence", "short"]


def short(value, limit=60) -> str:
    """Return the repr of a value, cut to ``limit`` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def not_finite(value, offsets, token, feature) -> ValueError:
    """Return the error for a value that is nan or infinite; scikit-learn's checks look for its first words."""
    what = "NaN" if np.isnan(value) else "inf"
    return ValueError(f"Input X contains {what}: {place(offsets, token)}, feature {feature} is {value}")


def refuse_non_sequence(sequence, n) -> None:
    """Raise if ``X[n]`` cannot be a sequence."""
    if sparse.issparse(sequence):  # first: some kinds are dicts, some have no __getitem__
        return
    if isinstance(sequence, (str, bytes)):
        raise TypeError(
            f"X[{n}] (sequence {n}) is the str {short(sequence)}, where a sequence of tokens belongs; for a sequence "
            "of characters: `list(text)`"
        )
    if isinstance(sequence, Mapping):
        raise TypeError(
            f"X[{n}] (sequence {n}) is the dict {short(sequence)}, where a sequence of tokens belongs. If X is one "
            "sequence, wrap it: `[X]`"
        )
    if isinstance(sequence, SequenceBatch):
        raise TypeError(f"X[{n}] (sequence {n}) is a SequenceBatch: pass a whole batch as X, not a list of batches")
    if not hasattr(sequence, "__getitem__") or not hasattr(sequence, "__iter__"):
        raise TypeError(
            f"X[{n}] (sequence {n}) is {short(sequence)} ({type(sequence).__name__}), where a sequence of tokens "
            "belongs"
        )
