"""Cases as users would write them: several forms of X, and invalid input."""

import copy
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator

# --- X and y --------------------------------------------------------------------------------------------------------

TABLES = ("table of lists",)
LABELS = {"str": ["N", "V", "_"], "tags": ["LOC", "O", "PER"]}  # sorted


def build_X(form, tokens, width=0):
    """Return X; ``tokens`` are sequences of feature dicts, lists of attribute names, or rows of ``width`` numbers."""
    tokens = copy.deepcopy(tokens)
    if form in ("dicts", "attributes"):
        return tokens
    matrices = [np.array(sequence, dtype=np.float64).reshape(len(sequence), width) for sequence in tokens]
    if form in TABLES:
        return np.concatenate(matrices).tolist()
    return [
        {"arrays": np.asarray, "lists of lists": np.ndarray.tolist, "csr": sparse.csr_matrix}[form](m) for m in matrices
    ]


# --- what is wrong with something -----------------------------------------------------------------------------------


def junk():
    """Return values that do not belong, by name; those that can be read once are new."""
    return {
        "None": None,
        "nan": float("nan"),
        "inf": float("inf"),
        "huge": 10**400,
        "large int": 2**70,
        "object": object(),
        "str": "junk",
        "empty str": "",
        "bytes": b"junk",
        "int": 7,
        "half": 0.5,
        "list": [],
        "nested list": [["a"]],
        "list of None": [None],
        "dict": {},
        "dict of None": {"a": None},
        "dict of nan": {"a": float("nan")},
        "dict of 10**400": {"a": 10**400},
        "int key": {1: "a"},
        "set": {1},
        "array": np.zeros((2, 2, 2)),
        "text array": np.array(["a", "b"]),
        "complex": 1j,
        "NaT": np.datetime64("NaT", "s"),
        "date": np.datetime64("2000-01-01"),
        "NA": pd.NA,
        "long str": "x" * 100_000,
        "function": len,
        "class": int,
        "generator": (i for i in range(3)),
        "true": True,
        "negative": -1,
        "pair": ("a", "b"),
    }


# --- whether something was changed ----------------------------------------------------------------------------------


def same(a, b):
    """Say whether two inputs are equal in type, dtype and every value; nan equals nan."""
    if type(a) is not type(b):
        return False
    if sparse.issparse(a):
        keys = ("shape", "dtype", "format")
        parts = [name for name in ("data", "indices", "indptr", "row", "col", "rows") if hasattr(a, name)]
        return all(getattr(a, k) == getattr(b, k) for k in keys) and all(
            same(np.asarray(getattr(a, k)), np.asarray(getattr(b, k))) for k in parts
        )
    if isinstance(a, np.ndarray):
        alike = a.shape == b.shape and a.dtype == b.dtype
        if alike and a.dtype == object:
            return all(same(x, y) for x, y in zip(a.ravel(), b.ravel(), strict=True))
        return alike and a.tobytes() == b.tobytes()
    if isinstance(a, BaseEstimator):
        return same(a.get_params(), b.get_params())
    if isinstance(a, Mapping):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a.items(), b.items(), strict=True))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a is b or bool(np.all(a == b)) or a != a


def flags_of(value):
    """Return whether the arrays in an input can be written to, which a copy does not keep."""
    if isinstance(value, np.ndarray):
        return value.flags.writeable
    if sparse.issparse(value):
        return None
    if isinstance(value, (list, tuple)):
        return [flags_of(part) for part in value]
    return [flags_of(part) for part in value.values()] if isinstance(value, Mapping) else None
