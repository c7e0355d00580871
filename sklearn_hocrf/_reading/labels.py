"""Conversion between the user's labels and codes 0 .. L - 1.

Labels are hashable objects that can be sorted together: strings, integers, booleans, tuples, enumeration members.
Inside the package, they exist only as int32 codes, in the order of the sorted labels. Functions pass concatenated
labels with the ``offsets`` of their sequences, so that an error can name the sequence and the position.
"""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np

from .._data.arrays import pieces
from .._data.checks import is_integer, short
from .values import IGNORED, is_ordered_collection, no_label, unmasked

SEEN = "the labels seen in fit"
LONGEST_TEXT = 1000  # because every row of a fixed-width array takes as much memory as the longest string
# kinds of arrays, and the types that they keep unchanged
_NATIVE = {"b": (bool, np.bool_), "iu": (int, np.integer), "f": (float, np.floating), "U": (str, np.str_)}


def position_name(offsets, token) -> str:
    """Return the name of a token's position in a flat array: its sequence, and its position in the sequence.

    Examples
    --------
    >>> from sklearn_hocrf._reading.labels import position_name
    >>> position_name([0, 3, 3, 5], 4)
    'sequence 2, position 1'
    """
    sequence = int(np.searchsorted(offsets, token, side="right")) - 1
    return f"sequence {sequence}, position {int(token) - int(offsets[sequence])}"


def flatten_labels(sequences, name="y") -> np.ndarray | list:
    """Return the concatenated labels of all sequences.

    Arrays of the same kind are concatenated to an array, so that ``classes_`` keeps their dtype. Other labels become a
    list of Python objects: numpy would convert ``["A", 1]`` to two strings. ``name`` is the name of y in messages.
    """
    for n, labels in enumerate(sequences):
        if getattr(labels, "ndim", 1) > 1:
            raise ValueError(f"{name}[{n}] (sequence {n}) has {labels.ndim} dimensions, not 1: one label per token")
    kinds = {labels.dtype.kind if isinstance(labels, np.ndarray) else "O" for labels in sequences if len(labels)}
    if len(kinds) == 1 and kinds != {"O"}:
        return np.concatenate([labels for labels in sequences if len(labels)])
    return list(chain.from_iterable(s.tolist() if isinstance(s, np.ndarray) else s for s in sequences))


def sorted_labels(labels, offsets, at_least=2, positions=None, name="y") -> np.ndarray:
    """Return the distinct labels, sorted: the ``classes_`` of an estimator.

    Parameters
    ----------
    labels : ndarray of shape (N,) or list of length N
        Labels, as :func:`flatten_labels` returns them.
    offsets : ndarray of shape (n_sequences + 1,)
        Token range of each sequence, for error messages.
    at_least : int, default=2
        Required number of distinct labels.
    positions : list of int or None
        The token of each label; None if all tokens have one.
    name : str, default="y"
        Name of y in messages.

    Returns
    -------
    classes : ndarray of shape (n_labels,)
        Of dtype object if numpy has no dtype that keeps the labels unchanged.

    Raises
    ------
    TypeError
        If a label is not hashable, or if labels cannot be sorted together.
    ValueError
        If a label is -100 and no other label is a negative integer, if a label is inf or a real number that is not
        whole, or if there are too few distinct labels.

    Examples
    --------
    >>> from sklearn_hocrf._reading.labels import sorted_labels
    >>> sorted_labels(["N", "V", "N"], [0, 2, 3])
    array(['N', 'V'], dtype='<U1')
    """
    positions = range(len(labels)) if positions is None else positions

    def where(t):
        return position_name(offsets, positions[t])

    distinct = np.unique(labels) if isinstance(labels, np.ndarray) else set(check_hashable(labels, where))
    if has_ignored(distinct):
        raise no_label(IGNORED, where(list(labels).index(IGNORED)))
    classes = distinct if isinstance(distinct, np.ndarray) else _sorted_objects(labels, distinct, where)
    _refuse_real_numbers(labels, classes, where)
    if len(classes) < at_least:
        only_class = f", {short(classes.tolist()[0])}" if len(classes) else ""
        raise ValueError(f"{name} has only one class{only_class}, but needs at least {at_least} distinct labels")
    return classes


def has_ignored(labels) -> bool:
    """Return whether labels contain Hugging Face's mark of tokens without a label, and no other negative number."""
    integers = {int(label) for label in labels if is_integer(label)}
    return IGNORED in integers and min(integers - {IGNORED}, default=0) >= 0


def _sorted_objects(labels, distinct, where):
    try:
        classes = sorted(distinct)
    except TypeError as error:
        first = labels[0]
        others = [t for t, label in enumerate(labels) if type(label) is not type(first)]
        others += [t for t, label in enumerate(labels) if label != first]  # one type, such as Enum
        other = others[0]
        raise TypeError(
            f"labels must be sortable together, but {short(labels[other])} ({where(other)}) and "
            f"{short(first)} ({where(0)}) are not: {error}"
        ) from error
    return as_array(classes)


def as_array(values, kinds="biufU") -> np.ndarray:
    """Return a list as an array of one of the given kinds, or of objects if numpy would change its values."""
    for of_kind, (kind, scalar) in _NATIVE.items():
        if of_kind in kinds and all(type(value) is kind or isinstance(value, scalar) for value in values):
            if of_kind == "U" and max(map(len, values), default=0) > LONGEST_TEXT:
                break
            native = np.array(values)
            # numpy strips trailing NULs, and converts integers beyond int64 to floats, which may be equal
            if native.dtype.kind in of_kind and native.tolist() == values:
                return native
    native = np.empty(len(values), dtype=object)
    native[:] = values
    return native


def sorted_together(what, values) -> list:
    """Return hashable values, sorted, or raise a TypeError that names two of them; ``what`` describes the values."""
    try:
        return sorted(values)
    except TypeError as error:
        by_type = {type(value): value for value in values}  # or all of one type, such as Enum
        examples = list(dict.fromkeys([*by_type.values(), *sorted(values, key=repr)]))[:2]
        some = " and ".join(f"{short(value)} ({type(value).__name__})" for value in examples)
        raise TypeError(f"{what} must be sortable together, but {some} are not") from error


def _refuse_real_numbers(labels, classes, where):
    """Raise an error if labels are real numbers: a regression target is a mistake, as in scikit-learn's classifiers."""
    if classes.dtype.kind not in "fc":
        return
    bad = classes[~(np.isfinite(classes) & (classes == np.floor(classes.real)))]
    if len(bad):
        t = int(np.argmax(np.isin(labels, bad)))
        what = "y contains inf" if np.isinf(labels[t]) else "Unknown label"
        what = what if classes.dtype.kind == "f" else "Complex data not supported"  # words of scikit-learn's checks
        raise ValueError(f"{what}: {labels[t]} ({where(t)}); real numbers are a regression target, not labels")


def distinct_values(values, where, name="") -> tuple[list, np.ndarray, np.dtype | None]:
    """Return the distinct labels, or other entries of y, the index of each value among them, and their dtype.

    Parameters
    ----------
    values : ndarray of shape (N,) or list of length N
        As :func:`flatten_labels` returns them.
    where : callable
        Returns the name of the position of a value, for messages.
    name : str
        As for :func:`check_hashable`.

    Returns
    -------
    distinct : list
    ids : ndarray of shape (N,), int32
    dtype : dtype or None
        The dtype of the values, if they are an array whose dtype is not object.
    """
    ids = np.empty(len(values), np.int32)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OV":
        distinct = np.unique(values)
        for part, of_part in zip(pieces(values), pieces(ids), strict=True):
            of_part[:] = np.searchsorted(distinct, part)
        return distinct.tolist(), ids, values.dtype
    values = values.tolist() if isinstance(values, np.ndarray) else values
    try:
        index_of = {value: i for i, value in enumerate(dict.fromkeys(values))}
    except TypeError:
        check_hashable(values, where, name)
        raise
    ids[:] = np.fromiter(map(index_of.__getitem__, values), dtype=np.int32, count=len(values))
    return list(index_of), ids, None


def list_sequences(y, name, items="labels", may_be_none=False) -> list:
    """Return y as a list of sequences, each of which may be None if missing labels are allowed.

    ``name`` and ``items`` are the names of y and of the members of its sequences, for messages.
    """
    expected = f"a sequence of {items}; a single sequence must be wrapped in a list"
    unchanged = (list, type(None)) if may_be_none else (list,)  # calling a function for each would take longer
    return [
        one if type(one) in unchanged else ordered_collection(one, f"{name}[{n}] (sequence {n})", expected)
        for n, one in enumerate(ordered_collection(y, name, f"a list of sequences of {items}", "[list(text)]"))
    ]


def ordered_collection(value, name, expected, of_text="list(text)"):
    """Return a collection with missing entries of arrays as None, or raise an error if it has no order.

    ``of_text`` is the code that turns a string with a label per character into such a collection.
    """
    is_text = isinstance(value, (str, bytes))  # numpy's strings have ``__array__``, too
    value = unmasked(value) if hasattr(value, "__array__") and not is_text else value
    if not is_ordered_collection(value):
        remedy = f"; for a label per character: `{of_text}`" if is_text else ""
        raise TypeError(f"{name} is {short(value)} ({type(value).__name__}), but must be {expected}{remedy}")
    return value


def check_hashable(labels, where, name=""):
    """Return the labels, or raise an error if one is not hashable; ``name`` is that of y if labels cannot be sets."""
    for t, label in enumerate(labels):
        try:
            hash(label)
        except TypeError:
            remedy = "; use a set if the label is one of several" if isinstance(label, list) and not name else ""
            if isinstance(label, (set, frozenset)):
                remedy = ", but scores need one label for each token"
            raise TypeError(
                f"a label must be hashable, but {short(label)}{name and f' of {name}'} ({where(t)}) is a "
                f"{type(label).__name__}{remedy}"
            ) from None
    return labels


def label_codes(classes) -> dict:
    """Return the code of each label."""
    return {label: code for code, label in enumerate(classes.tolist())}


def decode_labels(codes, classes, offsets, *, as_lists) -> list:
    """Return the labels of each sequence, as a list of Python objects or, unless ``as_lists``, as an array.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf._reading.labels import decode_labels
    >>> decode_labels(np.array([1, 0, 1]), np.array(["N", "V"]), [0, 2, 3], as_lists=True)
    [['V', 'N'], ['V']]
    """
    labels = classes.astype(object)[codes].tolist() if as_lists else classes[codes]
    return [labels[start:stop] for start, stop in pairwise(np.asarray(offsets).tolist())]
