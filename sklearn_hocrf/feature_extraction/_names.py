"""Names of features, created when first needed.

A transformer creates one :class:`FeatureNames` in `fit` and passes it to all its batches. If a batch contains the same
object as the training batch, an estimator does not need to compare the names.

Names of features are unique, so that weights can be looked up by name. When strings are joined, ambiguous characters
are escaped with a backslash ("a|b" and "c" become ``a\\|b|c``). If two transformers produce equal names, a number is
appended to the later ones (``w[0]=the#2``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.utils import murmurhash3_32

from .._data.arrays import freeze_indices, offsets_of
from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.messages import pack_texts, unpack_texts
from .._data.segment_features import RowBlock
from .._data.segments import TokenBlock


def escape(text, marks) -> str:
    """Return a string with a backslash inserted before each backslash and each of the given characters.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction._names import escape
    >>> print(escape("a|b", "|"), escape("a b", "|"))
    a\\|b a b
    """
    for mark in ("\\", *marks):
        text = text.replace(mark, f"\\{mark}")
    return text


class ConstantNames:
    """A part of ``FeatureNames`` with existing names: an array of objects, or other ``FeatureNames``."""

    def __init__(self, array):
        self.array = array
        self._packed: tuple | list | FeatureNames | None = None  # one object, shared by all references in a file

    def __getstate__(self):
        if self._packed is None:
            self._packed = self.array if isinstance(self.array, FeatureNames) else pack_texts(self.array)
        return {"names": self._packed}

    def __setstate__(self, state):
        names = state["names"]
        self.__init__(names if isinstance(names, FeatureNames) else np.array(unpack_texts(names), object))

    def __len__(self):
        return len(self.array)

    def names(self) -> np.ndarray:
        return self.array


class PrefixedNames:
    """The names of some attributes, with a prefix."""

    def __init__(self, attribute_names, attributes, prefix):
        self.attribute_names = attribute_names
        self.attributes = freeze_indices(attributes, len(attribute_names), "attributes that have names")
        self.prefix = prefix

    def __reduce__(self):
        return PrefixedNames, (self.attribute_names, self.attributes, self.prefix)

    def __len__(self):
        return len(self.attributes)

    def names(self) -> np.ndarray:
        names = np.asarray(self.attribute_names)[self.attributes]
        return self.prefix + names if self.prefix else names


def hash_names(names, n_features) -> np.ndarray:
    """Return an int32 in [0, n_features) for each name, as computed by scikit-learn's FeatureHasher without signs."""
    hashes = np.fromiter(map(murmurhash3_32, names), np.int64, len(names))
    return (np.abs(hashes) % n_features).astype(np.int32)


class HashedNames:
    """Names of hashed features; a part of ``FeatureNames``. The hashed attribute names are not stored."""

    def __init__(self, n_features):
        self._n_features = n_features

    def __len__(self):
        return self._n_features

    def names(self) -> np.ndarray:
        return np.array([f"hash[{index}]" for index in range(self._n_features)], dtype=object)


class FeatureNames(Sequence):
    """Names of features, created when first needed.

    Parameters
    ----------
    parts : list of TemplateVocabularies, HashedNames, ConstantNames and PrefixedNames
        Objects with a length and a method ``names``.
    """

    def __init__(self, parts):
        self._parts = parts
        self._starts = offsets_of([len(part) for part in parts])
        self._array: np.ndarray | None = None

    @classmethod
    def from_names(cls, names) -> FeatureNames:
        """Return the given names as FeatureNames."""
        return cls([ConstantNames(np.array(names, dtype=object))])

    def __len__(self):
        return int(self._starts[-1])

    def __iter__(self):
        return iter(np.asarray(self))

    def __getitem__(self, key):
        """Return one name for an int, or an array of names for any other array index."""
        return np.asarray(self)[key]

    def tolist(self) -> list:
        return np.asarray(self).tolist()

    def __repr__(self):
        some = np.asarray(self)[:3].tolist()
        names = ", ".join([*map(repr, some), *(["..."] if len(self) > 3 else [])])
        return f"FeatureNames({len(self)} names: {names})" if some else "FeatureNames(0 names)"

    def __array__(self, dtype=None, copy=None):
        if self._array is None:
            names = np.concatenate([np.empty(0, dtype=object), *(part.names() for part in self._parts)])
            self._array = _number_repeated(names)
            self._array.flags.writeable = False
        return self._array.astype(dtype or object, copy=bool(copy))

    def __reduce__(self):
        return FeatureNames, (self._parts,)  # the strings are created again rather than sent to a worker


def _number_repeated(names) -> np.ndarray:
    """Return the names, with "#2", "#3" and so on appended to repeated names."""
    taken = set(names.tolist())
    if len(taken) == len(names):
        return names
    count: Counter = Counter()
    for i, name in enumerate(names.tolist()):
        count[name] += 1
        while count[name] > 1 and (numbered := f"{name}#{count[name]}") in taken:
            count[name] += 1
        if count[name] > 1:
            names[i] = numbered
            taken.add(numbered)
    return names


def names_of_blocks(blocks, attribute_names) -> FeatureNames:
    """Return the feature names of blocks as an object that contains no reference to a batch."""
    return FeatureNames(
        [
            PrefixedNames(attribute_names, block.attributes, block.prefix)
            if isinstance(block, TokenBlock)
            else ConstantNames(block.maker.feature_names if isinstance(block, RowBlock) else block.names(None))
            for block in blocks
        ]
    )


class InputFeatures(NamedTuple):
    """The features that X already contains; a transformer that appends features compares new data with them."""

    attribute_names: Sequence | np.ndarray  # "x0", "x1" .. if the batch has no names
    feature_names: Sequence | np.ndarray  # the same object if there are no blocks
    has_blocks: bool

    @classmethod
    def from_input(cls, X) -> InputFeatures:
        """Return the features of a SequenceBatch; raw sequences have none."""
        if not isinstance(X, SequenceBatch):
            empty = np.empty(0, dtype=object)
            return cls(empty, empty, False)
        attribute_names = X.attribute_names
        if attribute_names is None:
            attribute_names = FeatureNames.from_names([f"x{i}" for i in range(X.n_attributes)])
        if X.blocks is None:
            return cls(attribute_names, attribute_names, False)
        names = names_of_blocks(X.blocks, attribute_names) if X.block_names is None else X.block_names
        return cls(attribute_names, names, True)

    def check_same(self, features: InputFeatures) -> None:
        """Raise an error if the features of new data differ from the features in `fit`."""
        if features.has_blocks != self.has_blocks:
            raise ValueError(
                f"X comes {'with' if features.has_blocks else 'without'} features of segments, unlike the X of fit"
            )
        _check_feature_names(features.attribute_names, self.attribute_names, "token feature")
        _check_feature_names(features.feature_names, self.feature_names, "feature")


def _check_feature_names(names, fitted, what):
    """Raise an error if names differ; identical objects and empty lists, the usual cases, need no comparison."""
    if names is fitted or not len(names) + len(fitted):
        return
    if len(names) != len(fitted):
        raise ValueError(f"X has {len(names)} {what}s, but had {len(fitted)} in fit")
    different = np.flatnonzero(np.asarray(names) != np.asarray(fitted))
    if len(different):
        i = int(different[0])
        raise ValueError(f"X has the {what} {short(names[i])}, but fit had {short(fitted[i])} instead")
