"""Two competing labellings of a sequence: the best one, and the best of the others that meet a condition."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import is_integer, short
from .._data.segments import Mask, both
from .._estimator.answers.fitted import FittedModel
from .._reading.labels import label_codes

_LABELS = 240  # characters of a list of labels in a message: about twenty labels


class Contest:
    """The best labelling of a sequence, and its competitors.

    Parameters
    ----------
    fitted : FittedModel
        A model that labels tokens.
    batch : SequenceBatch
        One sequence.
    """

    def __init__(self, fitted: FittedModel, batch: SequenceBatch) -> None:
        self.fitted, self.batch, self.model = fitted, batch, fitted.model()
        self.posterior, self.best = fitted.posterior(batch).narrowed().centred()

    def score(self, labelling: Any) -> float:
        """Return the log potential of a labelling."""
        return float(self.posterior.log_score(labelling)[0])

    def name(self, labelling: np.ndarray, position: int) -> Any:
        """Return the label of a token in a labelling."""
        return self.fitted.labels[labelling[[position]]].tolist()[0]

    def log_probability(self, labelling: np.ndarray, position: int) -> float:
        """Return the log probability of a token's label in a labelling."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.posterior.marginals()[position, labelling[position]]))

    # --- competitors --------------------------------------------------------------------------------------------------

    def other(self, position: int | None, against: Any) -> Any:
        """Return the best competing labelling; the parameters are those of :func:`explain`."""
        if against is None:
            return self._second() if position is None else self._runner_up(position)
        if position is None:  # labels of all tokens, some of which may be missing
            return self._different(self._best_under(self.fitted.mask_of([against], self.batch, "against")), "against")
        what, mask = f"{short(against)} at position {position}", self._of_class(position, against)
        return self._different(self._best_under(mask), what)

    def _second(self) -> Any:
        best = self.posterior.best_labellings(2)
        if not best.regret[1, 0] < np.inf:
            raise ValueError("the model allows only one labelling of the sequence, so there is nothing to explain")
        return self.model.labelling(self.batch.offsets, best.codes[1], best.lengths[1])

    def _runner_up(self, position: int) -> Any:
        """Return the best of the labellings that label a token differently from the best labelling."""
        labelling = self._best_under(self._mask(position, np.arange(len(self.fitted.labels)) != self.best[position]))
        if labelling is None:
            raise ValueError(f"the model allows nothing else at position {position}, so there is nothing to explain")
        return labelling

    def _of_class(self, position: int, against: Any) -> Mask:
        """Return a mask that allows only labellings with a given class at a token."""
        classes = self.fitted.labels
        code = label_codes(classes).get(against, -1) if isinstance(against, Hashable) else -1
        if code < 0:
            raise ValueError(
                f"against={short(against)} is not one of the classes, which are {short(classes.tolist(), _LABELS)}"
            )
        return self._mask(position, np.arange(len(classes)) == code)

    def _mask(self, position: int, labels: np.ndarray) -> Mask:
        """Return a mask that allows only certain labels at a token, given as a bool array of shape (L,)."""
        mask = Mask.free(self.batch.n_tokens, len(labels))
        mask.allowed[position] = labels
        return mask

    def _best_under(self, mask: Mask) -> Any:
        """Return the best labelling that a mask allows, or None."""
        posterior = self.model.posterior(self.batch, both(self.posterior.mask, mask))
        return posterior.decode() if posterior.is_possible()[0] else None

    def _different(self, labelling: Any, what: str) -> Any:
        if labelling is None:
            raise ValueError(f"no labelling that the model allows agrees with {what}")
        if np.array_equal(labelling, self.best):
            raise ValueError(f"the best labelling agrees with {what}: give something that it does not contain")
        return labelling


def read_position(index: Any, n_positions: int, what: str) -> int:
    """Return the index of a sequence or token, or raise an error."""
    if not is_integer(index):
        raise TypeError(f"{what} must be an integer, got {short(index)}")
    if not 0 <= int(index) < n_positions:
        raise ValueError(f"{what}={index} is out of range: there are {n_positions}, counted from 0")
    return int(index)
