"""Errors for sequences without a labelling that agrees with known labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .._data.batch import SequenceBatch
from .._data.masks import Mask
from .model import Model

__all__ = ["naming_the_impossible"]


@contextmanager
def naming_the_impossible(
    model: Model,
    batch: SequenceBatch,
    mask: Mask | None,
    support: Mask | None = None,
    *,
    what: str = "'known'",
    numbers: np.ndarray | None = None,
) -> Iterator[None]:
    """Raise an error that names sequence and position if inference fails because a mask allows no labelling.

    Parameters
    ----------
    model : Model
    batch : SequenceBatch
    mask : Mask or None
    support : Mask or None
        The labellings that the constraints alone allow.
    what : str
        Source of the rest of the mask, for the message.
    numbers : ndarray or None
        Numbers of the sequences in messages; None means their numbers in the batch.
    """
    try:
        yield
    except ValueError:
        if mask is None:
            raise
        sequences = model.impossible(batch, mask)
        if not len(sequences) or (support is not None and sequences[0] in model.impossible(batch, support)):
            raise  # another error, or the model has no labelling even without known labels
        sequence = int(sequences[0])
        position = _first_without_any(model, batch, mask, sequence)
        number = sequence if numbers is None else int(numbers[sequence])
        raise ValueError(
            f"sequence {number}: no labelling agrees with {what} and the constraints; the first position with none "
            f"left is {position}"
        ) from None


def _first_without_any(model: Model, batch: SequenceBatch, mask: Mask, sequence: int) -> int:
    """Return the first position of a sequence up to which no labelling agrees with a mask."""
    first, stop = batch.offsets[sequence : sequence + 2].tolist()
    alone, mask = batch[[sequence]], mask.part(slice(first, stop))
    free = Mask.free(stop - first, mask.allowed.shape[1])
    possible, impossible = 0, stop - first  # numbers of positions that the mask restricts
    while impossible - possible > 1:
        middle = (possible + impossible) // 2
        start = Mask(*(np.concatenate([a[:middle], b[middle:]]) for a, b in zip(mask, free, strict=True)))
        if len(model.impossible(alone, start)):
            impossible = middle
        else:
            possible = middle
    return impossible - 1
