"""Feature hashing: attribute names to numbers, without a vocabulary."""

from __future__ import annotations

import numpy as np
from sklearn.feature_extraction import FeatureHasher

__all__ = ["HashedNames", "hash_names"]


def hash_names(names, n_features) -> np.ndarray:
    """Return a number in [0, n_features) for each name: scikit-learn's MurmurHash, without signs; int32."""
    if len(names) == 0:  # scikit-learn's hasher raises an error for it
        return np.empty(0, dtype=np.int32)
    hasher = FeatureHasher(n_features, input_type="string", alternate_sign=False)
    return hasher.transform([[name] for name in names]).indices.astype(np.int32)


class HashedNames:
    """Names of hashed features, as a part of ``FeatureNames``; the hashed attribute names are not stored."""

    def __init__(self, n_features):
        self._n_features = n_features

    def __len__(self):
        return self._n_features

    def names(self, chosen=slice(None)) -> np.ndarray:
        return np.array([f"hash[{number}]" for number in np.arange(self._n_features)[chosen]], dtype=object)
