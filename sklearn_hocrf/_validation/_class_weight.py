"""Weights of labels."""

from __future__ import annotations

from numbers import Real

import numpy as np

from .._data.checks import short, to_float

__all__ = ["check_class_weight"]


def check_class_weight(class_weight, labels, counts) -> np.ndarray:
    """Return the weight of each label; shape (L,), float64.

    Parameters
    ----------
    class_weight : "balanced" or dict
        "balanced" means ``sum of token weights / (L * sum of weights of the label's tokens)``, as in
        :func:`sklearn.utils.class_weight.compute_class_weight`. Labels that a dict does not name have weight 1.
    labels : ndarray of shape (L,)
        The labels.
    counts : ndarray of shape (L,)
        Sum of the weights of the tokens of each label.

    Raises
    ------
    ValueError
        If a weight is not a finite number >= 0, if all labels have weight 0, or if there are both keys that are not
        labels and labels without a key. A dict with keys for all labels may have further keys: a fold of
        cross-validation may lack these labels.
    """
    if isinstance(class_weight, str):
        if not counts.all():  # holes hide a label
            label = labels.tolist()[int(np.argmin(counts))]
            raise ValueError(
                f"class_weight={class_weight!r} needs tokens of each label, but none is known to be {short(label)}"
            )
        return counts.sum() / (len(labels) * counts)
    for label, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 <= to_float(weight) < np.inf:
            raise ValueError(f"class_weight maps labels to finite numbers >= 0, got {short(label)}: {short(weight)}")
    present = labels.tolist()
    unknown = [label for label in class_weight if label not in present]
    without = [label for label in present if label not in class_weight]
    if unknown and without:
        raise ValueError(
            f"class_weight has the key {short(unknown[0])}, which is not a label of y, and the labels {short(without)} "
            "of y are not in class_weight"
        )
    weights = np.array([class_weight.get(label, 1.0) for label in present], dtype=np.float64)
    if not weights.any():
        raise ValueError(f"class_weight is 0 for all labels of y, {short(present)}: there is nothing to learn from")
    return weights
