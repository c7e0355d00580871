"""Where a labelling that agrees with what is known does not exist."""

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
    """Raise an error that names sequence and position, where a question fails because a mask leaves no labelling.

    Parameters
    ----------
    model : Model
    batch : SequenceBatch
    mask : Mask or None
    support : Mask or None
        What the constraints alone let through.
    what : str
        Where the rest of the mask comes from.
    numbers : ndarray or None
        What messages call the sequences; None stands for their numbers.
    """
    try:
        yield
    except ValueError:
        if mask is None:
            raise
        sequences = model.impossible(batch, mask)
        if not len(sequences) or (support is not None and sequences[0] in model.impossible(batch, support)):
            raise  # something else is wrong, or the model has no labelling whatever is known
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
    possible, impossible = 0, stop - first  # numbers of positions that the mask speaks of
    while impossible - possible > 1:
        middle = (possible + impossible) // 2
        start = Mask(*(np.concatenate([a[:middle], b[middle:]]) for a, b in zip(mask, free, strict=True)))
        if len(model.impossible(alone, start)):
            impossible = middle
        else:
            possible = middle
    return impossible - 1
