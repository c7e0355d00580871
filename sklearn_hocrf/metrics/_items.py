"""Conversion of two labellings to pairs of labels, of tokens or of segments, as scikit-learn's scores require.

Segments are aligned by their spans: for each start and stop in a sequence, an item contains the labels that the two
labellings give to the segment with this span; -1 means that a labelling does not contain the segment. Precision, recall
and F1 of these labels are then those of exact segments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._reading.inputs import check_sequence_weight
from .._reading.label_sequences import (
    CodedLabels,
    LabelSequences,
    Segmentation,
    read_segmentations,
    read_tokens,
    sorted_union,
)


class Items(NamedTuple):
    """Tokens or spans of segments, each with two labels.   M items, L labels."""

    sequence: np.ndarray  # (M,) int64   index of the sequence
    true: np.ndarray  # (M,) int64   index into ``labels``, -1 for none
    predicted: np.ndarray  # (M,) int64
    labels: list  # (L,)
    n_sequences: int
    weight: np.ndarray | None = None  # (M,) float64

    @property
    def right_sequences(self) -> np.ndarray:
        """The mask of the sequences in which no item has two different labels; shape (n_sequences,), bool."""
        right = np.ones(self.n_sequences, dtype=bool)
        right[self.sequence[self.true != self.predicted]] = False
        return right


def check_weight(sample_weight: ArrayLike | None, n_sequences: int) -> np.ndarray:
    """Return one weight per sequence; 1 by default."""
    weight = check_sequence_weight(sample_weight, n_sequences)
    return np.ones(n_sequences) if weight is None else weight


def items_of_tokens(**labellings: LabelSequences) -> list[Items]:
    """Read true labels and the labels of one or more systems; return, for each system, the tokens with both labels."""
    true, *systems = read_tokens(**labellings)
    return [_pair_tokens(true, system) for system in systems]


def _pair_tokens(true: CodedLabels, predicted: CodedLabels) -> Items:
    labels = sorted_union(true.labels, predicted.labels)  # labels of different types, such as 1 and "1", raise an error
    sequence = np.repeat(np.arange(true.n_sequences), true.lengths)
    return Items(sequence, _codes_in(labels, true), _codes_in(labels, predicted), labels, true.n_sequences)


def read_items(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    scheme: str,
    strict: bool,
    labels: Iterable[Hashable] | None,
    sample_weight: ArrayLike | None,
) -> Items:
    """Read two segmentations, and return the spans of their segments that have one of ``labels``."""
    (items,) = items_of_segments({"y_true": y_true, "y_pred": y_pred}, scheme, strict, labels)
    if sample_weight is None:
        return items
    return items._replace(weight=check_weight(sample_weight, items.n_sequences)[items.sequence])


def items_of_segments(by_name: dict, scheme: str = "auto", strict: bool = False, labels: Any = None) -> list[Items]:
    """Read true segments and the segments of one or more systems; return, for each system, the spans to score.

    Only spans of segments that have one of ``labels`` are scored; None means all labels in the data.
    """
    true, *systems = every = read_segmentations(by_name, scheme, strict)
    scored = sorted_union(*(one.labels() for one in every)) if labels is None else _check_labels(labels)
    return [_pair_segments(true, system, scored) for system in systems]


def _check_labels(labels: Iterable[Hashable]) -> list:
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
        raise TypeError(f"labels must be a list of labels, got {labels!r:.60}")
    labels = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if not labels:
        raise ValueError("labels must have at least one label")
    if len(set(labels)) < len(labels):
        raise ValueError(f"labels has a label more than once: {labels!r:.60}")
    return labels


def _codes_in(labels: list, tokens: CodedLabels) -> np.ndarray:
    """Return the codes of tokens as indices into ``labels``, which include the labels of the tokens."""
    code_of = {label: code for code, label in enumerate(labels)}
    return np.array([code_of[label] for label in tokens.labels], dtype=np.int64)[tokens.codes]


def _pair_segments(true: Segmentation, predicted: Segmentation, labels: list) -> Items:
    """Return the spans of those segments of two labellings that have one of the labels.

    Equal segments are paired first, then other segments of the same span, in order; nearly always, each labelling
    contains at most one segment per span.
    """
    code_of = {label: code for code, label in enumerate(labels)}
    rows = [[row for row in one.rows if row[3] in code_of] for one in (true, predicted)]
    right = set(rows[0]).intersection(rows[1])
    others: defaultdict[tuple, tuple[list, list]] = defaultdict(lambda: ([], []))
    for side in (0, 1):
        for n, start, stop, label in (row for row in rows[side] if row not in right):
            others[n, start, stop][side].append(code_of[label])
    pairs = [(n, code_of[label], code_of[label]) for n, _, _, label in right]
    pairs += [(n, *pair) for (n, *_), codes in others.items() for pair in zip_longest(*codes, fillvalue=-1)]
    sequence, *codes = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    return Items(sequence, codes[0], codes[1], labels, true.n_sequences)
