"""Soft labels in y: for a token a dict of labels and probabilities, for a sequence an array of them."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

import numpy as np

from .._data.arrays import offsets_of
from .._data.checks import short, to_float
from .._data.labels import label_codes
from ._known import Holes, all_labels, read_entries
from ._targets import check_classes, leave_out, read_labels, read_target_sequences
from ._token_targets import TokenTargets, read_token_targets

__all__ = ["first_soft_label", "has_soft_labels", "read_soft_targets"]

_TOLERANCE = 1e-6  # of sums


def has_soft_labels(y) -> bool:
    """Return whether a sequence of y is an array of probabilities, or has a dict in place of a label."""
    if isinstance(y, np.ndarray) and y.dtype != object:
        return y.ndim == 3 and y.dtype.kind == "f"
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__") or not hasattr(y, "__iter__"):
        return False
    kinds: set[type] = set()
    for labels in y:
        if _is_table(labels):
            return True
        if isinstance(labels, (list, tuple)) or (isinstance(labels, np.ndarray) and labels.dtype == object):
            kinds.update(map(type, labels))
    return any(issubclass(kind, Mapping) for kind in kinds)


def first_soft_label(y) -> str:
    """Return the place of the first soft label, for messages."""
    for n, labels in enumerate(y):
        if _is_table(labels):
            return f"sequence {n}"
        for t, entry in enumerate(labels):
            if isinstance(entry, Mapping):
                return f"sequence {n}, position {t}"
    return "nowhere"


def _is_table(labels) -> bool:
    return isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.dtype.kind == "f"


def _has_dicts(labels) -> bool:
    return any(isinstance(entry, Mapping) for entry in labels)


def read_soft_targets(y, lengths, form, name, kept=None, fixed=None, holes: Holes | None = None) -> TokenTargets:
    """Return the training labels of all tokens, some of which are soft; parameters as in :func:`read_token_targets`.

    Raises
    ------
    ValueError, TypeError
        If what should be a distribution is none, and if a sequence has both soft labels and holes.
    """
    holes = Holes() if holes is None else holes
    used = np.ones(len(lengths), bool) if kept is None else kept
    sequences = read_target_sequences(y, len(lengths), name)
    sequences = [labels if is_used else None for labels, is_used in zip(sequences, used.tolist(), strict=True)]
    classes = getattr(fixed, "labels", fixed)
    if classes is None:
        classes = _classes(sequences, lengths, form, name, used, holes)
    tables = [None if labels is None else _probabilities(labels, n, classes) for n, labels in enumerate(sequences)]
    hard = [_hardened(*of_sequence, classes) for of_sequence in zip(sequences, tables, strict=True)]
    targets = read_token_targets(hard, lengths, form, name, kept, classes, holes)
    probability = (targets.codes[:, None] == np.arange(len(classes))).astype(np.float64)
    offsets = offsets_of(np.where(used, lengths, 0))
    for n, table in enumerate(tables):
        if table is None:
            continue
        tokens = slice(offsets[n], offsets[n + 1])
        unknown = np.flatnonzero(targets.codes[tokens] < 0)
        if len(unknown):
            raise ValueError(
                f"y has a hole (sequence {n}, position {unknown[0]}) in a sequence with probabilities of labels: give "
                "a label or a distribution at each of its tokens"
            )
        probability[tokens] = np.where(np.isnan(table), probability[tokens], table)
    is_certain = (probability.max(axis=1, initial=0.0) == 1.0) | (targets.codes < 0)
    return targets if is_certain.all() else targets._replace(soft=probability)


def _classes(sequences, lengths, form, name, used, holes) -> np.ndarray:
    """Return the labels of y, sorted: with keys of dicts; numbers of columns if there are only arrays."""
    tables = [labels for labels in sequences if _is_table(labels)]
    if tables and all(labels is None or _is_table(labels) for labels in sequences):
        return check_classes(np.arange(tables[0].shape[1]))
    named = [
        None if labels is None or _is_table(labels) else [_keys(entry, n, t) for t, entry in enumerate(labels)]
        for n, labels in enumerate(sequences)
    ]
    labels, offsets = leave_out(read_labels(named, lengths, form, name)[0], lengths, used)
    return all_labels(read_entries(labels, offsets, holes.missing, "y"))


def _keys(entry, n, t):
    """Return the labels of a dict as a set; other entries as they are."""
    if not isinstance(entry, Mapping):
        return entry
    if not entry:
        raise ValueError(f"y has an empty dict (sequence {n}, position {t}): no label is possible there")
    return frozenset(entry)


def _probabilities(labels, n, classes) -> np.ndarray | None:
    """Return the distributions of a sequence, nan at tokens with labels; shape (n_tokens, L). None without any."""
    if _is_table(labels):
        if labels.shape[1] != len(classes):
            raise ValueError(
                f"y[{n}] (sequence {n}) has probabilities in {labels.shape[1]} columns, but y has {len(classes)} "
                f"labels: {short(classes.tolist())}"
            )
        is_soft, table = np.ones(len(labels), bool), labels.astype(np.float64)
    elif _has_dicts(labels):
        code_of = label_codes(classes)
        is_soft = np.array([isinstance(entry, Mapping) for entry in labels])
        table = np.zeros((len(labels), len(classes)))
        for t in np.flatnonzero(is_soft).tolist():
            for label, number in labels[t].items():
                if not isinstance(number, Real):
                    where = f"sequence {n}, position {t}"
                    raise TypeError(f"the probability {short(number)} of {short(label)} ({where} of y) is not a number")
                table[t, code_of[label]] = to_float(number)
    else:
        return None
    with np.errstate(invalid="ignore"):
        total = table.sum(axis=1)
        is_wrong = is_soft & ~((table >= 0).all(axis=1) & (np.abs(total - 1) <= _TOLERANCE))
    for t in np.flatnonzero(is_wrong)[:1].tolist():
        raise ValueError(f"sequence {n}, position {t} of y: {_fault(table[t], classes)}")
    table[is_soft] /= total[is_soft, None]
    table[~is_soft] = np.nan
    return table


def _fault(row, classes) -> str:
    """Return what is wrong with a distribution."""
    is_number = row >= 0  # False for nan
    if not is_number.all():
        code = int(np.argmin(is_number))
        return f"the probability of {short(classes.tolist()[code])} is {row[code]:.6g}, which is not in [0, 1]"
    return f"the probabilities sum to {row.sum():.8g}, not to 1"


def _hardened(labels, table, classes):
    """Return the labels of a sequence, the most probable ones (the first of equals) in place of distributions."""
    if table is None:
        return labels
    best = classes[np.argmax(table, axis=1)]
    if _is_table(labels):
        return best
    return [label if isinstance(entry, Mapping) else entry for label, entry in zip(best.tolist(), labels, strict=True)]
