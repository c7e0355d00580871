"""Labels of one sequence at a time, by a search without a batch."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.batch import SequenceBatch
from .._inference.families import Family
from .._inference.one_sequence import OneSequence

if TYPE_CHECKING:
    from .fitted_state import FittedState

__all__ = ["OneCall", "predict_one"]


class OneCall:
    """What a fitted state needs for one sequence, made at the first call with one; in no copy and no file.

    Parameters
    ----------
    state : FittedState
    family : Family
    """

    def __init__(self, state: FittedState, family: Family) -> None:
        self.weights, self.features = state.weights, state.features
        self.complete = set(getattr(self.features.vocabulary, "complete", ()))
        labels = getattr(state.targets, "labels", np.empty(0))
        self.as_lists = state.targets.as_lists
        self.labels: Any = labels.astype(object).tolist() if self.as_lists else labels
        model = state.model(family)
        is_kept = state.tables is not None and state.tables.model is model
        self.search = OneSequence.of(model, state.borders) if is_kept else None

    def predict(self, X: Any) -> list | None:
        """Return the labels of the only sequence of X in a list; None where they need the way of batches."""
        if self.search is None:
            return None
        found = self._of_batch(X) if isinstance(X, SequenceBatch) else self._of_tokens(X[0])
        codes = None if found is None else self.search.decode(*found)
        if codes is None:
            return None
        return [[*map(self.labels.__getitem__, codes.tolist())] if self.as_lists else self.labels[codes]]

    def _of_batch(self, batch: SequenceBatch) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the attributes and the ranges of the tokens, if the batch is one of the training features."""
        features = self.features
        is_alike = batch.attribute_names is features.names and batch.n_attributes == features.n_features
        is_plain = batch.values is None and batch.dense is None and batch.blocks is None and features.kinds is None
        return (batch.indices, batch.indptr) if is_alike and is_plain else None

    def _of_tokens(self, tokens: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the attributes and the ranges of tokens, if they are of common types and no warning is due."""
        vocabulary = self.features.vocabulary
        if vocabulary is None or type(tokens) is not list or not tokens:
            return None
        if self.complete and not (type(tokens[0]) is dict and self.complete <= tokens[0].keys()):
            return None
        found: list = []
        widths = vocabulary.tables.add(tokens, found)
        if widths is None:
            return None
        try:
            ids = np.fromiter(found, np.int32, len(found))
        except TypeError:  # some have values other than 1
            return None
        if ids.max(initial=-1) < 0:
            return None
        return ids, np.fromiter(accumulate(widths, initial=0), np.int64, len(widths) + 1)


def predict_one(estimator: Any, X: Any) -> list | None:
    """Return the labels of X, a list or a batch of one sequence; None where they need the way of batches."""
    if not (type(X) is list or type(X) is SequenceBatch) or len(X) != 1:
        return None
    state: FittedState | None = estimator.__dict__.get("_state")  # once: another thread may fit the estimator
    if state is None or state.tables is None:
        return None
    one = state.tables.one
    if one is None or one.weights is not state.weights:  # states may be copied with other weights
        one = state.tables.one = OneCall(state, estimator._family)
    return one.predict(X)
