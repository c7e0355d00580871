"""Access to fitted estimators for the rest of the package."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._data.batch import SequenceBatch
from .._data.masks import Mask
from .._data.segments import Segments
from .._inference.families import SEGMENTS
from .._inference.labelled import LabelledBatch
from .._inference.model import Model
from .._validation import TrainingData, read_sequences
from .._validation._delegation import model_and_input, model_inside
from .fitted import Fitted

__all__ = ["FittedModel"]


class FittedModel:
    """A fitted estimator in its current state, which a later fit does not change.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        Fitted.

    Attributes
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        A shallow copy of the estimator, for its public attributes.
    record : Fitted
        The result of fit: layout, weights, features and the rest.
    labels : ndarray of shape (L,)
        The labels of the patterns.
    labels_segments : bool
        Whether labellings are segmentations.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator._as_fitted()
        self.record: Fitted = self.estimator._fitted
        self.labels = self.record.targets.labels
        self.labels_segments = self.estimator._family is SEGMENTS

    @classmethod
    def inside(cls, estimator: Any) -> Self:
        """Return the model at the end of a fitted pipeline, search or other meta-estimator."""
        check_is_fitted(estimator)
        return cls(model_inside(estimator))

    @classmethod
    def and_input(cls, estimator: Any, X: Any) -> tuple[Self, Any]:
        """Return the model, and its input for X."""
        check_is_fitted(estimator)
        model, X = model_and_input(estimator, X)
        return cls(model), X

    @property
    def n_jobs(self) -> int | None:
        return self.estimator.n_jobs

    @property
    def tags(self) -> Any:
        """The classes of tokens as tags of segments, or None."""
        return getattr(self.estimator, "_tags", None)

    @property
    def outside(self) -> int:
        """The number of the label "O" of tags, or -1."""
        return self.estimator._outside

    @property
    def scheme(self) -> str:
        """The form in which labels give segments."""
        return self.estimator.scheme_

    # --- data ---------------------------------------------------------------------------------------------------------

    def read(self, X: Any) -> tuple[SequenceBatch, str]:
        """Return X as a batch, and its form."""
        return read_sequences(self.estimator, X)

    def read_labelled(self, X: Any, y: Any, unknown: str) -> LabelledBatch:
        """Return sequences with their labels, which may have holes; ``unknown`` as for labels in `_validation`."""
        return self.estimator._read_labelled(X, y, unknown)

    def read_truth(self, y: Any, batch: SequenceBatch, form: str) -> Any:
        """Return labels of a batch as a labelling; unknown labels are an error."""
        return self.estimator._read_truth(y, batch, form, unknown="raise")

    def are_right(self, decoded: Any, truth: Any) -> np.ndarray:
        """Return for each token whether its decoded class is correct; shape (N,)."""
        return self.estimator._are_right(decoded, truth)

    def count_right(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[float, float]:
        """Return the weighted number of correctly predicted tokens, and of all tokens."""
        return self.estimator._count_right(X, y, sample_weight)

    def last_weights(self, layout: Any, data: TrainingData) -> np.ndarray:
        """Return the weights under another layout, matched by pattern and feature; 0 for new ones."""
        return self.estimator._last_weights(layout, data)

    def mask(self, batch: SequenceBatch, form: str = "sequences") -> Mask | None:
        """Return the mask of the labellings that the constraints allow; None allows all."""
        return self.estimator._mask(batch, form)

    def mask_of(self, known: Any, batch: SequenceBatch, what: str) -> Mask:
        """Return the mask of the labellings that agree with ``known``, called ``what`` in messages."""
        return self.estimator._read_known(known, batch, "sequences", what).mask

    def as_predicted(self, labelling: Any, offsets: np.ndarray) -> list:
        """Return a labelling by sequence, in the form of predictions."""
        return self.estimator._as_predicted(labelling, offsets)

    def token_codes(self, labelling: Any) -> np.ndarray:
        """Return the index in ``classes_`` of each token's class, or -1 for an unknown one; shape (N,)."""
        return self.estimator._token_codes(labelling)

    # --- questions ----------------------------------------------------------------------------------------------------

    def model(self) -> Model:
        """Return the model that computes probabilities and best labellings."""
        return self.estimator._build_model()

    def decode(self, batch: SequenceBatch, mask: Mask | None) -> Any:
        """Return the best labelling that a mask allows; errors name the place where it allows none."""
        with self.estimator._asked(batch, mask) as model:
            return model.decode(batch, n_jobs=self.estimator.n_jobs, mask=mask)

    def marginals(self, batch: SequenceBatch, mask: Mask | None) -> np.ndarray:
        """Return the probability of each label at each token; shape (N, L)."""
        with self.estimator._asked(batch, mask) as model:
            return model.marginals(batch, n_jobs=self.estimator.n_jobs, mask=mask)

    def segment_probabilities(self, batch: SequenceBatch, segments: Segments, mask: Mask | None) -> np.ndarray:
        """Return the probability of each segment."""
        with self.estimator._asked(batch, mask) as model:
            return model.segment_probabilities(batch, segments, n_jobs=self.estimator.n_jobs, mask=mask)

    def best_labellings(self, batch: SequenceBatch, n: int, mask: Mask | None) -> Any:
        """Return the n best labellings of each sequence."""
        with self.estimator._asked(batch, mask) as model:
            return model.best_labellings(batch, n, n_jobs=self.estimator.n_jobs, mask=mask)

    # --- training -----------------------------------------------------------------------------------------------------

    def divided_by(self, temperature: float) -> Any:
        """Return the fitted estimator with its weights divided, as a copy that shares the rest."""
        return self.estimator._divided_by(temperature)
