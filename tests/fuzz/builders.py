"""Cases as users write them: X and y in every form, spoilt ones, and files."""

import copy
import enum
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator

from sklearn_hocrf.training import SGD

# --- X --------------------------------------------------------------------------------------------------------------


def _dense(tokens, width):
    return [np.array(sequence, dtype=np.float64).reshape(len(sequence), width) for sequence in tokens]


def _strided(matrix):
    """Return a view that is neither C- nor Fortran-contiguous."""
    wide = np.zeros((2 * matrix.shape[0], 2 * matrix.shape[1]))
    wide[::2, ::2] = matrix
    return wide[::2, ::2]


def _read_only(matrix):
    matrix = matrix.copy()
    matrix.flags.writeable = False
    return matrix


def _uncanonical(matrix):
    """Return a CSR matrix with entries that are there twice, in falling order, and a stored zero in each row."""
    indices, data, indptr = [], [], [0]
    for row in matrix:
        for column in reversed(range(len(row))):
            indices += [column, column]
            data += [row[column] - 1.0, 1.0]
        indptr.append(len(indices))
    return sparse.csr_matrix((np.array(data, dtype=float), indices, indptr), shape=matrix.shape)


def _frame(matrix):
    return pd.DataFrame(matrix, columns=[f"x{i}" for i in range(matrix.shape[1])])


OF_EACH = {  # forms of one sequence of rows
    "arrays": lambda m: m,
    "lists of lists": lambda m: m.tolist(),
    "lists of arrays": list,
    "tuples": lambda m: tuple(map(tuple, m.tolist())),
    "fortran": np.asfortranarray,
    "strided": _strided,
    "read-only": _read_only,
    "float32": lambda m: m.astype(np.float32),
    "objects": lambda m: m.astype(object),
    "csr": sparse.csr_matrix,
    "csr array": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_array,
    "lil": sparse.lil_matrix,
    "uncanonical": _uncanonical,
    "frames": _frame,
}
TABLES = {"table": lambda m: m, "table of lists": lambda m: m.tolist(), "table csr": sparse.csr_matrix}
TABLES |= {"table csc": sparse.csc_array, "table uncanonical": _uncanonical, "table frame": _frame}
GRIDS = ("grid", "grid of objects")
ROW_FORMS = (*OF_EACH, *TABLES, *GRIDS)
ATTRIBUTE_FORMS = ("dicts", "dicts in tuples", "attributes", "attributes in tuples")


def build_X(form, tokens, width=0):
    """Return X; ``tokens`` are sequences of feature dicts, of lists of names, or of rows of ``width`` numbers."""
    tokens = copy.deepcopy(tokens)
    if form in ATTRIBUTE_FORMS:
        return tuple(map(tuple, tokens)) if "tuples" in form else tokens
    matrices = _dense(tokens, width)
    if form in TABLES:
        return TABLES[form](np.concatenate([np.empty((0, width)), *matrices]))
    if form in GRIDS:
        return np.stack(matrices).astype(object if "objects" in form else np.float64)
    return [OF_EACH[form](matrix) for matrix in matrices]


# --- y --------------------------------------------------------------------------------------------------------------


class Colour(enum.IntEnum):
    RED = 1
    GREEN = 5
    BLUE = 9


LABELS = {  # sorted
    "str": ["N", "V", "_"],
    "int": [-7, 0, 2**40],
    "bool": [False, True],
    "float": [-1.0, 0.0, 3.0],
    "tuple": [("a", 1), ("a", 2), ("b", 0)],
    "unicode": ["B", "é", "名"],
    "numpy str": [np.str_("aa"), np.str_("aaa"), np.str_("b")],
    "numpy int": [np.int32(-1), np.int32(0), np.int32(4)],
    "enum": [Colour.RED, Colour.GREEN, Colour.BLUE],
    "empty str": ["", " ", "a\tb"],
    "bytes": [b"a", b"b", b"c"],
    "tags": ["LOC", "O", "PER"],
    "bare": ["O", "_"],
}
Y_FORMS = ("lists", "tuples", "arrays", "objects", "series")


def as_objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def build_sequence(labels, form, kind=""):
    """Return one sequence of labels in a form."""
    if form == "arrays" and kind in ("tuple", "enum"):
        form = "objects"
    makers = {"lists": list, "tuples": tuple, "arrays": np.array, "objects": as_objects}
    return pd.Series(as_objects(labels)) if form == "series" else makers[form](labels)


def build_y(sequences, form, kind, x_form):
    """Return y: sequences of labels, tags or (start, stop, label); one label a row for a table."""
    if x_form in TABLES:
        return build_sequence([labels[0] for labels in sequences], form, kind)
    return [build_sequence(labels, form, kind) for labels in sequences]


# --- what is wrong with something -----------------------------------------------------------------------------------


def junk(name):
    """Return a value that does not belong, by name."""
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
    }[name]


JUNK = (
    *("None", "nan", "inf", "huge", "large int", "object", "str", "empty str", "bytes", "int", "half", "list"),
    *("nested list", "list of None", "dict", "dict of None", "dict of nan", "dict of 10**400", "int key", "set"),
    *("array", "text array", "complex", "NaT", "date", "NA", "long str", "function", "class", "generator", "true"),
    *("negative", "pair"),
)


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
    if hasattr(a, "tocsr"):  # a SequenceBatch
        parts = [(list(x.lengths), list(x.feature_names), x.tocsr().toarray()) for x in (a, b)]
        return same(*parts)
    if isinstance(a, np.ndarray):
        alike = a.shape == b.shape and a.dtype == b.dtype
        if alike and a.dtype == object:
            return all(same(x, y) for x, y in zip(a.ravel(), b.ravel(), strict=True))
        return alike and a.tobytes() == b.tobytes()
    if isinstance(a, (pd.DataFrame, pd.Series)):
        names = a.index.equals(b.index) and (not hasattr(a, "columns") or a.columns.equals(b.columns))
        return names and same(a.to_numpy(), b.to_numpy())
    if isinstance(a, BaseEstimator):
        return same(a.get_params(), b.get_params())
    if isinstance(a, SGD):
        return same(vars(a), vars(b))
    if isinstance(a, Mapping):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a.items(), b.items(), strict=True))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a is b or bool(np.all(a == b)) or a != a


def flags_of(value):
    """Return whether the arrays in an input can be written to, which a copy does not keep."""
    if isinstance(value, np.ndarray):
        return value.flags.writeable
    if sparse.issparse(value) or isinstance(value, (pd.DataFrame, pd.Series)):
        return None
    if isinstance(value, (list, tuple)):
        return [flags_of(part) for part in value]
    return [flags_of(part) for part in value.values()] if isinstance(value, Mapping) else None
