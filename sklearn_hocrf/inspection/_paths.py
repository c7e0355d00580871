"""Two competing labellings of a sequence: the best one, and the best one that differs in some respect."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import is_integer, short
from .._data.segments import Mask, Segments, both
from .._estimator.answers.fitted import FittedModel
from .._reading.labels import label_codes
from .._reading.schemes import TAG_SCHEMES

_LABELS = 240  # characters of a list of labels in a message: about twenty of them


class Contest:
    """The best labelling of a sequence, and its competitors.

    Parameters
    ----------
    fitted : FittedModel
    batch : SequenceBatch
        One sequence.
    """

    def __init__(self, fitted: FittedModel, batch: SequenceBatch) -> None:
        self.fitted, self.batch, self.model = fitted, batch, fitted.model()
        self.n_tokens, self.labels_segments = batch.n_tokens, fitted.kind.labels_segments
        self.posterior, self.best = fitted.posterior(batch).narrowed().centred()

    def score(self, labelling: Any) -> float:
        """Return the log potential of a labelling."""
        return float(self.posterior.log_score(labelling)[0])

    def unit(self, labelling: Any, position: int) -> Segments:
        """Return the unit of a labelling that contains a token."""
        units = self.model.layout.units(self.batch, labelling)
        index = np.searchsorted(units.start, [position], side="right") - 1
        return Segments(np.array([0, 1]), units.start[index], units.stop[index], units.codes[index])

    def name(self, labelling: Any, position: int) -> Any:
        """Return the label of a token in a labelling, or the segment that contains it."""
        unit = self.unit(labelling, position)
        label = self.fitted.labels[unit.codes].tolist()[0]
        return (int(unit.start[0]), int(unit.stop[0]), label) if self.labels_segments else label

    def log_probability(self, labelling: Any, position: int) -> float:
        """Return the log probability of the label of a token in a labelling, or of the segment that contains it."""
        unit = self.unit(labelling, position)
        if self.labels_segments:
            probability = self.posterior.segment_probabilities(unit)[0]
        else:
            probability = self.posterior.marginals()[position, unit.codes[0]]
        with np.errstate(divide="ignore"):
            return float(np.log(probability))

    # --- competitors --------------------------------------------------------------------------------------------------

    def other(self, position: int | None, against: Any) -> Any:
        """Return the best competing labelling; parameters as in :func:`explain`."""
        if against is None:
            return self._second() if position is None else self._runner_up(position)
        if position is None:  # labels of all tokens, some of which may be missing
            return self._different(self._best_under(self.fitted.mask_of([against], self.batch, "against")), "against")
        what, mask = f"{short(against)} at position {position}", self._of_class(position, against)
        return self._different(None if mask is None else self._best_under(mask), what)

    def _second(self) -> Any:
        best = self.posterior.best_labellings(2)
        if not best.regret[1, 0] < np.inf:
            raise ValueError("the model allows only one labelling of the sequence, so there is nothing to explain")
        return self.model.labelling(self.batch.offsets, best.codes[1], best.lengths[1])

    def _runner_up(self, position: int) -> Any:
        """Return the best labelling that differs at a token."""
        rivals = [labelling for mask in self._elsewhere(position) if (labelling := self._best_under(mask)) is not None]
        if not rivals:
            raise ValueError(f"the model allows nothing else at position {position}, so there is nothing to explain")
        return max(rivals, key=self.score)

    def _elsewhere(self, position: int) -> Iterator[Mask]:
        """Yield masks that together allow all labellings that differ at a token."""
        unit = self.unit(self.best, position)
        mask = self._free()
        mask.allowed[position, unit.codes[0]] = False
        yield mask
        if self.labels_segments:  # or the segment begins or ends elsewhere
            start, stop = int(unit.start[0]), int(unit.stop[0])
            for border in range(max(start, 1), min(stop + 1, self.n_tokens)):
                mask = self._free()
                mask.begins[border] = 1 if start < border < stop else -1
                yield mask

    def _of_class(self, position: int, against: Any) -> Mask | None:
        """Return the mask of the labellings with a class at a token; None if this is impossible."""
        fitted, classes = self.fitted, self.fitted.estimator.classes_
        code = label_codes(classes).get(against, -1) if isinstance(against, Hashable) else -1
        if code < 0:
            raise ValueError(
                f"against={short(against)} is not one of the classes, which are {short(classes.tolist(), _LABELS)}"
            )
        mask, tags = self._free(), fitted.targets.tags
        label = code if tags is None else int(tags.label[code])
        mask.allowed[position] &= np.arange(mask.allowed.shape[1]) == label
        if tags is None:
            return mask
        begins, ends = TAG_SCHEMES[fitted.scheme].borders(tags.prefix[code])
        return self._with_borders(mask, {position: begins, position + 1: ends})

    def _with_borders(self, mask: Mask, borders: dict[int, int]) -> Mask | None:
        """Set at which tokens segments begin or do not begin; segments begin and end with the sequence."""
        for border, begins in borders.items():
            if border in (0, self.n_tokens):
                if begins < 0:
                    return None
            elif begins:
                mask.begins[border] = begins
        return mask

    def _free(self) -> Mask:
        return Mask.free(self.n_tokens, len(self.fitted.labels))

    def _best_under(self, mask: Mask) -> Any:
        """Return the best labelling that a mask allows, or None."""
        posterior = self.model.posterior(self.batch, both(self.posterior.mask, mask))
        return posterior.decode() if posterior.is_possible()[0] else None

    def _different(self, labelling: Any, what: str) -> Any:
        if labelling is None:
            raise ValueError(f"no labelling that the model allows agrees with {what}")
        if all(map(np.array_equal, labelling, self.best)):  # the labels of tokens, or the arrays of segments
            raise ValueError(f"the best labelling agrees with {what}: give something that it does not contain")
        return labelling


def read_position(index: Any, n_positions: int, what: str) -> int:
    """Return the index of a sequence or token, or raise an error."""
    if not is_integer(index):
        raise TypeError(f"{what} must be an integer, got {short(index)}")
    if not 0 <= int(index) < n_positions:
        raise ValueError(f"{what}={index} is out of range: there are {n_positions}, counted from 0")
    return int(index)
