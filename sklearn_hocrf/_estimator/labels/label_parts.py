"""Parts of labels: from the parameter of the estimators to codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._data.arrays import offsets_of
from ..._data.checks import refuse_iterator, short
from ..._data.messages import warn_unless_saved
from ..._engine.structure.label_parts import LabelParts
from ..._reading.values import is_missing


class NamedParts(NamedTuple):
    """The parts of labels that share weights.   S parts."""

    names: np.ndarray  # (S,)   as given by the user, sorted
    codes: LabelParts

    def equal(self, names: np.ndarray, codes: LabelParts) -> bool:
        """Return whether labels have these parts."""
        return self.names.tolist() == names.tolist() and self.codes.equal(codes)


def check_label_parts(label_parts: Any) -> None:
    """Raise an error for an invalid parameter ``label_parts``, as far as it can be checked without labels."""
    if not isinstance(label_parts, Mapping):
        return
    for label, parts in label_parts.items():
        _check_parts(label, parts)
        refuse_iterator(parts, f"label_parts gives the label {short(label)}")


def compile_label_parts(label_parts: Mapping | Callable | None, labels: np.ndarray) -> NamedParts:
    """Return the parts that two or more of the labels of a model share.

    Parameters
    ----------
    label_parts : mapping, callable or None
        The parameter of the estimators, checked.
    labels : ndarray of shape (L,)
        The labels.

    Raises
    ------
    ValueError, TypeError
        For parts that are missing, not hashable, or not mutually comparable; for a mapping without any of the labels.
    """
    if callable(label_parts):
        warn_unless_saved(label_parts, "label_parts")
    of_label = [_parts_of(label_parts, label) for label in labels.tolist()]
    if isinstance(label_parts, Mapping) and label_parts and not any(map(label_parts.__contains__, labels.tolist())):
        raise ValueError(
            f"label_parts contains none of the labels {short(labels.tolist())}; its keys are {short(list(label_parts))}"
        )
    n_labels_with = Counter(part for parts in of_label for part in parts)
    names = _sorted([part for part, count in n_labels_with.items() if count > 1])
    index_of = {part: i for i, part in enumerate(names)}
    codes = [sorted(index_of[part] for part in parts if part in index_of) for parts in of_label]
    flat = np.array([part for parts in codes for part in parts], dtype=np.int32)
    return NamedParts(named_array(names), LabelParts(offsets_of(list(map(len, codes))), flat, len(names)))


def _parts_of(label_parts: Mapping | Callable | None, label: Any) -> dict:
    """Return the distinct parts of a label, as keys."""
    if label_parts is None:
        return {}
    parts = label_parts.get(label, ()) if isinstance(label_parts, Mapping) else label_parts(label)
    _check_parts(label, parts)
    distinct: dict = {}
    for part in parts:
        if not isinstance(part, Hashable):
            raise TypeError(f"label_parts: the part {short(part)} of the label {short(label)} is not hashable")
        if is_missing(part):
            raise ValueError(f"label_parts: the label {short(label)} has a part that is missing, {short(part)}")
        distinct[part] = None
    return distinct


def _check_parts(label: Any, parts: Any) -> None:
    if isinstance(parts, Mapping):  # {"Case": "Gen"} would be the part "Case"
        raise TypeError(
            f"label_parts must give an iterable of parts for each label, got a mapping, {short(parts)}, for the label "
            f"{short(label)}: give its items, or its keys or values"
        )
    if isinstance(parts, (str, bytes)) or not isinstance(parts, Iterable):
        raise TypeError(
            f"label_parts must give an iterable of parts for each label, got {short(parts)} for the label "
            f"{short(label)}"
        )


def _sorted(names: list) -> list:
    try:
        return sorted(names)
    except TypeError as error:
        other = next((name for name in names if type(name) is not type(names[0])), names[-1])
        raise TypeError(
            f"label_parts: parts must be sortable together, but {short(names[0])} and {short(other)} are not: {error}"
        ) from error


def named_array(names: list) -> np.ndarray:
    """Return names as an array: of strings if it represents them unchanged, else of objects."""
    if names and all(type(name) is str for name in names):
        array = np.array(names)
        if array.tolist() == names:  # numpy strips trailing NULs
            return array
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array
