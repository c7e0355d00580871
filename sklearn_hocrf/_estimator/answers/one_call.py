"""Labels and probabilities of one sequence at a time, without a batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ..._data.batch import SequenceBatch
from ..._engine.inference.families import Family
from ..._engine.inference.one_sequence import OneSequence

__all__ = ["OneCall", "one_call", "predict_one"]


class OneCall:
    """What a fitted state needs for one sequence, made at the first call with one; in no copy and no file.

    Parameters
    ----------
    state : FittedState
    family : Family
    """

    def __init__(self, state: Any, family: Family) -> None:
        self.weights, self.features = state.weights, state.features
        self.as_lists, labels = state.targets.as_lists, getattr(state.targets, "labels", np.empty(0))
        self.labels: Any = labels.astype(object).tolist() if self.as_lists else labels
        self.code_of = {label: code for code, label in enumerate(self.labels)} if self.as_lists else {}
        model = state.model(family)
        is_kept = state.tables is not None and state.tables.model is model
        self.search = OneSequence.of(model, state.borders) if is_kept else None

    def ask(self, question: str, X: Any, *arguments: Any, steps: Sequence = ()) -> Any:
        """Return an answer of :class:`OneSequence` about the only sequence of X; None where a batch is needed."""
        found = None if self.search is None else self._attributes(X, steps)
        return None if found is None else getattr(self.search, question)(*found, *arguments)

    def predict(self, X: Any, steps: Sequence = ()) -> list | None:
        """Return the labels of the only sequence of X in a list; None where they need a batch."""
        codes = self.ask("decode", X, steps=steps)
        if codes is None:
            return None
        return [[*map(self.labels.__getitem__, codes.tolist())] if self.as_lists else self.labels[codes]]

    def marginals(self, X: Any) -> list[np.ndarray] | None:
        """Return the probabilities of labels in the only sequence of X, in a list; None where they need a batch."""
        sums = self.ask("marginals", X)
        return None if sums is None else [sums[1]]

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray | None:
        """Return the log-likelihood of the only sequence of X, whose labels must be texts in a list; likewise."""
        if type(y) is not list or len(y) != 1 or type(y[0]) is not list or set(map(type, y[0])) != {str}:
            return None
        codes = [*map(self.code_of.get, y[0], repeat(-1))]
        log_likelihood = None if min(codes) < 0 else self.ask("log_likelihood", X, codes)
        return None if log_likelihood is None else np.array([log_likelihood])

    def _attributes(self, X: Any, steps: Sequence = ()) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the attributes of the sequence and the ranges of its tokens; None where X must be read as a batch."""
        if steps:
            read = getattr(steps[0], "__token_ids__", None) if len(steps) == 1 and type(X) is list else None
            read_ids = read and read(X[0])
            return read_ids[1:3] if read_ids and read_ids[0] is self.features.names else None
        if type(X) is list:
            vocabulary = self.features.vocabulary
            return None if vocabulary is None else vocabulary.ids_of(X[0])
        is_alike = X.attribute_names is self.features.names and X.n_attributes == self.features.n_features
        is_plain = X.values is None and X.dense is None and X.blocks is None and self.features.kinds is None
        return (X.indices, X.indptr) if is_alike and is_plain else None


def one_call(estimator: Any, X: Any) -> OneCall | None:
    """Return what answers for X, a list or a batch of one sequence; None if a batch is needed."""
    if not (type(X) is list or type(X) is SequenceBatch) or len(X) != 1:
        return None
    state = getattr(estimator, "__dict__", {}).get("_state")  # once: another thread may fit
    if state is None or state.tables is None:
        return None
    one = state.tables.one
    if one is None or one.weights is not state.weights:  # states may be copied with other weights
        one = state.tables.one = OneCall(state, estimator._family)
    return one


def predict_one(estimator: Any, X: Any, steps: Sequence = ()) -> list | None:
    """Return the labels of X, a list or a batch of one sequence, after some transformers; None if a batch is needed."""
    one = one_call(estimator, X)
    return None if one is None else one.predict(X, steps)
