"""Queries to fitted estimators, for their own methods and for the rest of the package."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..._data.batch import SequenceBatch
from ..._data.masks import Mask
from ..._data.messages import warn_user
from ..._data.segments import NO_LIMIT
from ..._engine.inference.families import SEGMENTS, Family
from ..._engine.inference.labelled import LabelledBatch
from ..._engine.inference.model import Model
from ..._engine.inference.posterior import Evidence, Posterior
from ..._engine.structure.segment_ages import MOST_AGES, what_needs_lengths
from ..._reading.inputs import check_sequence_weight, read_sequences
from .fitted import FittedState
from .query import Query


class FittedModel:
    """A fitted estimator in its current state, which a later fit does not change.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        Fitted.

    Attributes
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        A shallow copy of the estimator, for its parameters and fitted attributes.
    state : FittedState
        The result of fit: layout, weights, features and the rest.
    targets : TokenTargets or SegmentTargets
        Those of the state.
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
        self.estimator = snapshot = estimator.__copy__()  # before the test: another thread may fit the estimator
        if not hasattr(snapshot, "_state"):
            check_is_fitted(snapshot)  # raises the error
        self.state: FittedState = snapshot._state
        self.targets: Any = self.state.targets
        self.labels = self.targets.labels
        self.family: Family = estimator._family
        self.labels_segments = self.family is SEGMENTS
        self.name = type(estimator).__name__
        self.n_jobs: int | None = self.estimator.n_jobs

    @classmethod
    def inside(cls, estimator: Any) -> Self:
        """Return the model at the end of a fitted pipeline, search or other meta-estimator."""
        from ..._sklearn.layers import model_inside  # imports scikit-learn's pipelines

        check_is_fitted(estimator)
        return cls(model_inside(estimator))

    @classmethod
    def and_input(cls, estimator: Any, X: Any) -> tuple[Self, Any]:
        """Return the model, and its input for X."""
        from ..._sklearn.layers import model_and_input

        check_is_fitted(estimator)
        model, X = model_and_input(estimator, X)
        return cls(model), X

    @property
    def scheme(self) -> str:
        """The form in which labels give segments."""
        return self.estimator.scheme_

    # --- data ---------------------------------------------------------------------------------------------------------

    def read(self, X: Any) -> tuple[SequenceBatch, str]:
        """Return X as a batch, and its form."""
        return read_sequences(self.estimator, X)

    def ask(self, X: Any, known: Any = None) -> Query:
        """Return the posterior of X, given the constraints and known labels, and the form of answers."""
        batch, form = self.read(X)
        return Query(self.given(batch, form, known), self.targets, form)

    def read_truth(self, y: Any, batch: SequenceBatch, form: str, unknown: str = "raise") -> Any:
        """Return labels of a batch as a labelling; unknown labels are an error, or with "ignore" coded as -1."""
        known = self.targets.read_known(y, batch, form, self.name, "y", unknown)
        if not known.is_complete:
            raise ValueError(
                "y has missing labels, but the accuracy needs the label of each token; log_likelihood and "
                "metrics.log_likelihood_scorer do not"
            )
        return self.targets.labelling_of(known)

    def read_labelled(self, X: Any, y: Any, unknown: str) -> LabelledBatch:
        """Return sequences with their labels, some of which may be missing; ``unknown`` as for :meth:`read_truth`."""
        query = self.ask(X)
        return query.labelled(self.targets.read_known(y, query.posterior.batch, query.form, self.name, "y", unknown))

    def count_right(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> tuple[float, float]:
        """Return the weighted number of correctly predicted tokens, and of all tokens."""
        batch, form = self.read(X)
        truth = self.read_truth(y, batch, form, unknown="ignore")
        weight = check_sequence_weight(sample_weight, len(batch))
        token_weight = np.ones(batch.n_tokens) if weight is None else np.repeat(weight, batch.lengths)
        if not token_weight.any():
            return 0.0, 0.0
        decoded = self.given(batch, form).decode()
        return float(token_weight @ self.targets.are_right(decoded, truth)), float(token_weight.sum())

    def mask_of(self, known: Any, batch: SequenceBatch, what: str, form: str = "sequences") -> Mask:
        """Return the mask of the labellings that agree with ``known``, called ``what`` in messages."""
        return self.targets.read_known(known, batch, form, self.name, what).mask

    # --- questions ----------------------------------------------------------------------------------------------------

    def model(self) -> Model:
        """Return the model that computes probabilities and best labellings."""
        return self.state.model(self.family)

    def given(self, batch: SequenceBatch, form: str = "sequences", known: Any = None) -> Posterior:
        """Return the posterior of a batch, given the constraints and known labels."""
        if self.labels_segments:
            warn_of_unlimited_lengths(self.state.layout, batch)
        evidence = None if known is None else Evidence(self.mask_of(known, batch, "known", form))
        borders = self.state.borders
        mask = None if borders is None else Mask.of_borders(batch.offsets, borders)
        return self.model().given(batch, mask, self.n_jobs, evidence)

    def divided_by(self, temperature: float) -> Any:
        """Return the fitted estimator with its weights divided, as a copy that shares the rest."""
        state, divided = self.state, copy.copy(self.estimator)
        total = float(state.temperature * temperature)
        # the state of partial_fit belongs to the old weights
        state = state._replace(weights=state.weights / temperature, temperature=total, stream=None)
        state.checked(type(self.targets)).set_on(divided)
        return divided


def warn_of_unlimited_lengths(layout: Any, batch: SequenceBatch, *others: str) -> None:
    """Warn if segments have no limit, sequences are long, and ``others`` or features need all candidate segments."""
    longest = int(batch.lengths.max(initial=0))
    if longest <= MOST_AGES or not (layout.longest == NO_LIMIT).any():
        return
    if found := [*what_needs_lengths(layout), *others]:
        warn_user(
            f"segment_length=inf is slow with {', '.join(found)}: time and memory grow with the tokens times the "
            f"longest sequence, {longest:,} tokens, instead of the tokens alone"
        )
