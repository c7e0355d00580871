"""Soft labels: each token has a distribution of labels, and label patterns count as often as these let expect.

The distributions of the tokens are independent, so a pattern of k labels ends at a token with the product of k
probabilities. Expected counts take the place of observed ones, in the choice of weights and in the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .._data.batch import SequenceBatch, as_sparse, token_entries, token_rows
from .label_parts import LabelParts
from .pairs import PairRule, rows_of_order
from .weighted_arcs import CompiledPatterns

__all__ = ["SoftLabels"]


class SoftLabels:
    """The distribution of the label of each token.   N tokens, L labels.

    Parameters
    ----------
    probability : ndarray of shape (N, L)
    offsets : ndarray of shape (n_sequences + 1,)
        Token range of each sequence.
    """

    def __init__(self, probability: np.ndarray, offsets: np.ndarray) -> None:
        self.probability = probability
        self._position = np.arange(len(probability)) - np.repeat(offsets[:-1], np.diff(offsets))

    def ending_with(self, pattern: Sequence[int]) -> np.ndarray:
        """Return the probability that the labels up to each token end with a pattern of label codes; shape (N,)."""
        found = np.where(self._position >= len(pattern) - 1, self.probability[:, pattern[-1]], 0.0)
        for back, label in enumerate(pattern[-2::-1], 1):
            found[back:] *= self.probability[:-back, label]
        return found

    def frequent_pairs(
        self, rule: PairRule, compiled: CompiledPatterns, parts: LabelParts, batch: SequenceBatch, weight: np.ndarray
    ) -> sparse.csr_array:
        """Return expected counts of features with rows, where they are at least ``min_count`` and positive.

        They are comparable with those of :func:`~sklearn_hocrf._structure.pairs.count_pairs`.
        """
        batch = as_sparse(batch) if batch.dense is not None else batch
        shape = len(compiled.patterns.lengths) + parts.n_parts, batch.n_attributes
        found = [np.empty((3, 0))]
        occurrences = token_entries(batch, 0, batch.n_tokens).T
        for order, some in [] if rule.all_pairs else rule.by_order(batch.n_attributes):
            is_one = np.ones(batch.n_attributes, bool) if some is None else np.isin(np.arange(shape[1]), some)
            for row in rows_of_order(compiled, parts, order).tolist():
                counts = occurrences @ (weight * self._of_row(row, compiled, parts))
                features = np.flatnonzero((counts >= rule.min_count) & (counts > 0) & is_one)
                found.append(np.stack([counts[features], np.full(len(features), row), features]))
        numbers, rows, columns = np.concatenate(found, axis=1)
        return sparse.csr_array((numbers, (rows.astype(np.int64), columns.astype(np.int64))), shape=shape)

    def _of_row(self, row: int, compiled: CompiledPatterns, parts: LabelParts) -> np.ndarray:
        """Return the probability that a pattern ends at each token, or that its label has a part."""
        patterns = compiled.patterns
        if row < len(patterns.lengths):
            return self.ending_with(patterns.labels[row, -patterns.lengths[row] :].tolist())
        members = parts.labels()[parts.parts == row - len(patterns.lengths)]
        return self.probability[:, members].sum(axis=1)

    def counts(self, layout: Any, batch: SequenceBatch, weight: np.ndarray) -> np.ndarray:
        """Return how often each weight's feature occurs in expectation, weighted; shape (n_weights,).

        For labels that are certain, it is ``layout.empirical_counts``.

        Parameters
        ----------
        layout : WeightLayout
        batch : SequenceBatch
        weight : ndarray of shape (N,)
            The weight of each token's sequence.
        """
        counts, values = np.zeros(layout.n_weights), token_rows(batch, 0, batch.n_tokens).T
        attribute, rows = layout.features.attribute[layout.pair_feature], layout.pair_pattern
        by_row = np.argsort(rows, kind="stable")
        for places in np.split(by_row, np.flatnonzero(np.diff(rows[by_row])) + 1) if len(rows) else ():
            ends = weight * self._of_row(int(rows[places[0]]), layout.compiled, layout.parts)
            counts[places] = (values @ ends)[attribute[places]]
        for place, row in enumerate(layout.bias_pattern.tolist(), layout.first_bias):
            counts[place] = weight @ self._of_row(row, layout.compiled, layout.parts)
        return counts
