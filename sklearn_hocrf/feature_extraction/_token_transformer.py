"""TokenTransformer: any scikit-learn transformer, applied to the tokens of sequences."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import offsets_of
from .._data.batch import SequenceBatch
from .._data.checks import short, to_float
from .._data.columns import is_mostly_nonzero
from .._data.labels import position_name
from .._validation._messages import refuse_broken, refuse_masked
from .._validation._sklearn import HasMethods, fit_context
from ._base import SequenceTransformer, fit_task
from ._names import FeatureNames

__all__ = ["TokenTransformer"]


class TokenTransformer(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Apply a scikit-learn transformer to the tokens of numeric sequences, stacked into one table.

    Parameters
    ----------
    transformer : transformer
        Any scikit-learn transformer of tables, or a pipeline of transformers: `StandardScaler`, `PCA`, `Nystroem`,
        `OneHotEncoder`, ... It is cloned, not changed.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    n_features_in_ : int
        Number of columns of a token.
    n_features_out_ : int
        Number of columns that the transformer returns.

    See Also
    --------
    SequenceFeatureExtractor : Features from raw tokens, by templates over neighbouring tokens.

    Notes
    -----
    The features of a `SequenceBatch` are replaced; its raw token columns are kept. The transformer receives the
    features as a dense array if at least half of the training entries are stored, otherwise as a sparse matrix. A
    resulting array that is at least half nonzero is kept dense, and float32 is preserved. Sequences that are pandas or
    polars data frames are stacked into one frame, so that a `ColumnTransformer` can select columns by name, such as a
    column of texts for a `CountVectorizer`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_hocrf.feature_extraction import TokenTransformer
    >>> X = [np.array([[1.0, 10.0], [2.0, 10.0]]), np.array([[3.0, 40.0]])]
    >>> batch = TokenTransformer(StandardScaler()).fit_transform(X)
    >>> batch
    SequenceBatch(2 sequences, 3 tokens, 2 features)
    >>> batch.toarray().round(2).tolist()
    [[-1.22, -0.71], [0.0, -0.71], [1.22, 1.41]]

    Texts next to numbers:

    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> X = [[["old", 1.0], ["cold", 2.0]], [["gold", 3.0]]]
    >>> pairs = CountVectorizer(analyzer="char", ngram_range=(2, 2))
    >>> columns = TokenTransformer(
    ...     make_column_transformer((pairs, 0), (StandardScaler(), [1]))
    ... ).fit(X)
    >>> columns.get_feature_names_out().tolist()
    ['countvectorizer__co', 'countvectorizer__go', 'countvectorizer__ld', 'countvectorizer__ol', 'standardscaler__x1']
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # where users import it from: files of models name this place

    _parameter_constraints = {"transformer": [HasMethods(["fit", "transform"])]}

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer to the stacked tokens.

        Parameters
        ----------
        X : list of sequences, array of shape (n_sequences, T, n_columns), or SequenceBatch
            A sequence is an array or a sparse matrix of shape (T, n_columns), a data frame, or a list of rows.
        y : list of sequences of labels, or None, default=None
            If given, stacked like the tokens and passed to the transformer's ``fit``.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the rows differ in length, if the sequences of y and X differ in length, if X already has features of
            segments, or if the transformer rejects the table.
        """
        self._fit(X, y, "fit")
        return self

    def fit_transform(self, X: Any, y: Any = None) -> SequenceBatch:
        """Fit the transformer to the stacked tokens and return the result of its ``fit_transform``.

        Parameters
        ----------
        X : list of sequences, array of shape (n_sequences, T, n_columns), or SequenceBatch
            As in `fit`, with the same errors.
        y : list of sequences of labels, or None, default=None
            As in `fit`, with the same errors.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        if not hasattr(self.transformer, "fit_transform"):
            return self.fit(X, y).transform(X)
        offsets, result = self._fit(X, y, "fit_transform")
        return self._to_batch(X, offsets, result)

    def transform(self, X: Any) -> SequenceBatch:
        """Apply the fitted transformer to each token.

        Parameters
        ----------
        X : list of arrays, array of shape (n_sequences, T, n_columns), or SequenceBatch
            Sequences with the same columns as in `fit`; empty sequences are allowed.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError
            If the rows do not have the same columns as in `fit`, or if the transformer rejects the table.
        sklearn.exceptions.NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self, "transformer_")
        table, offsets = _stack(X)
        if offsets[-1] == 0:  # transformers reject tables without rows
            return self._to_batch(X, offsets, np.empty((0, self.n_features_out_)))
        return self._to_batch(X, offsets, _call(self.transformer_.transform, offsets, self._as_in_fit(table)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names that the transformer gives to its output columns.

        Parameters
        ----------
        input_features : None
            Ignored: the feature names of a `SequenceBatch` in `fit` are used.

        Returns
        -------
        names : ndarray of shape (n_features_out_,), dtype object
            "pca0", "pca1", ... if the transformer (a `PCA`, say) does not define names.
        """
        check_is_fitted(self, "transformer_")
        return np.array(self._names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.transformer)
        tags.target_tags.required = inner.target_tags.required
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags

    @fit_context(prefer_skip_nested_validation=False)
    @fit_task
    def _fit(self, X, y, method):
        """Fit a clone by the given method; return the offsets of the sequences and the result of the method."""
        table, offsets = _stack(X)
        if offsets[-1] == 0:
            raise ValueError("X has no tokens to fit the transformer to")
        self._dense = not sparse.issparse(table) or is_mostly_nonzero(table)
        self.n_features_in_ = table.shape[1]
        labels = () if y is None else (_stack_labels(y, offsets),)
        self.transformer_ = clone(self.transformer)
        table = self._as_in_fit(table)
        result = _call(getattr(self.transformer_, method), offsets, table, *labels)
        self._names = FeatureNames.of(self._output_names(X, table))
        self.n_features_out_ = len(self._names)
        return offsets, result

    def _as_in_fit(self, table):
        """Return the table as a dense array or sparse matrix, as in fit."""
        if table.shape[1] != self.n_features_in_:
            raise ValueError(f"the tokens have {table.shape[1]} columns, but had {self.n_features_in_} in fit")
        return table.toarray() if self._dense and sparse.issparse(table) else table

    def _output_names(self, X, table):
        names = X.feature_names if isinstance(X, SequenceBatch) else None
        names = None if names is None else np.asarray(names, dtype=object)
        with suppress(AttributeError):  # a pipeline has the method even if one of its steps does not
            return np.array(self.transformer_.get_feature_names_out(names), dtype=object)
        width = self.transformer_.transform(table[:1]).shape[1]
        stem = type(self.transformer_).__name__.lower()
        return np.array([f"{stem}{i}" for i in range(width)], dtype=object)

    def _to_batch(self, X, offsets, result) -> SequenceBatch:
        result = result if sparse.issparse(result) else np.asarray(result)
        shape = (int(offsets[-1]), self.n_features_out_)
        if result.shape != shape:
            raise ValueError(f"the transformer returned a table of shape {result.shape}, expected {shape}")
        if result.dtype.kind not in "fiub":
            raise ValueError(f"the transformer returned values of dtype {result.dtype}; features must be numbers")
        columns = X.columns if isinstance(X, SequenceBatch) else None
        return SequenceBatch.from_table(result, offsets, self._names, columns)


def _call(method, offsets, table, *labels):
    """Call a method of the transformer; if it rejects the table because of nan or inf, name the position."""
    try:
        return method(table, *labels)
    except ValueError as error:
        values = table.toarray() if sparse.issparse(table) else np.asarray(table)
        if values.dtype.kind != "f" or np.isfinite(values).all():
            raise
        t, j = np.argwhere(~np.isfinite(values))[0].tolist()
        first_line = str(error).partition("\n")[0]
        raise ValueError(f"{position_name(offsets, t)}: column {j} holds {values[t, j]}; {first_line}") from error


def _stack(X):
    """Return the stacked rows, of shape (N, n_columns), and the offsets of the sequences."""
    if isinstance(X, SequenceBatch):
        if X.blocks is not None:
            raise ValueError(
                "TokenTransformer replaces the features of tokens, but X has features of segments that are made from "
                "them; put TokenTransformer before the transformer that made the features of segments"
            )
        is_dense = X.dense is not None and len(X.dense.attributes) == X.n_attributes
        return X.dense.values if is_dense else X.tocsr(), X.offsets
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise TypeError(f"X must be a list of sequences, got {type(X).__name__}")
    if sparse.issparse(X) or getattr(X, "ndim", None) == 2:
        raise ValueError("X has two dimensions, which is one sequence; wrap it: [X]")
    X = list(X)
    if X and all(_library(sequence) in ("pandas", "polars") for sequence in X):
        return _stack_frames(X), offsets_of([len(frame) for frame in X])
    tables = [_as_table(sequence, n) for n, sequence in enumerate(X)]
    offsets = offsets_of([table.shape[0] for table in tables])
    filled = [(n, table) for n, table in enumerate(tables) if table.shape[0]]
    for n, table in filled:
        if table.shape[1] != filled[0][1].shape[1]:
            raise ValueError(
                f"sequence {n} has {table.shape[1]} columns, but sequence {filled[0][0]} has {filled[0][1].shape[1]}"
            )
    if not filled:
        return np.empty((0, 0)), offsets
    rows = [table for _, table in filled]
    return sparse.vstack(rows, format="csr") if any(map(sparse.issparse, rows)) else np.concatenate(rows), offsets


def _library(sequence):
    """Return the name of the library of a data frame, None for other sequences."""
    return type(sequence).__module__.partition(".")[0] if hasattr(sequence, "columns") else None


def _stack_frames(frames):
    """Return data frames as one; frames without rows may have other columns."""
    first, filled = next((n for n, frame in enumerate(frames) if len(frame)), 0), [f for f in frames if len(f)]
    library, names = _library(frames[first]), list(frames[first].columns)
    for n, frame in enumerate(frames):
        if len(frame) and (_library(frame) != library or list(frame.columns) != names):
            raise ValueError(
                f"sequence {n} is a {_library(frame)} frame with the columns {short(list(frame.columns))}, but "
                f"sequence {first} is a {library} frame with the columns {short(names)}"
            )
    options = {"how": "vertical_relaxed"} if library == "polars" else {}  # accepts integers next to floats
    return sys.modules[library].concat(filled or frames[:1], **options)


def _as_table(sequence, n):
    """Return one sequence as an array or sparse matrix of shape (T, n_columns)."""
    if sparse.issparse(sequence):
        refuse_broken(sequence, f"sequence {n} of X")
        return sequence
    if isinstance(sequence, (str, bytes, Mapping)) or not isinstance(sequence, Iterable):
        raise TypeError(f"sequence {n} must be an array of shape (T, n_columns), got {type(sequence).__name__}")
    refuse_masked(sequence, n)
    for t, row in enumerate(sequence) if isinstance(sequence, (list, tuple)) else ():
        refuse_masked(row, n, t)
    try:
        table = np.asarray(sequence if hasattr(sequence, "__array__") else list(sequence))
    except ValueError as error:
        widths = [np.size(row) for row in sequence]
        t = next((t for t, width in enumerate(widths) if width != widths[0]), 0)
        raise ValueError(
            f"sequence {n}, position {t}: the row has {widths[t]} columns, but the first has {widths[0]}"
        ) from error
    if table.dtype.kind == "O":
        for (t, *_), value in np.ndenumerate(table) if table.ndim else ():
            if isinstance(value, int) and np.isinf(to_float(value)):
                raise ValueError(
                    f"sequence {n}, position {t}: {short(value)} is beyond the range of floating point numbers"
                )
    if table.size == 0 and table.ndim == 1:
        return table.reshape(0, 0)
    if table.ndim == 1 and isinstance(table[0], str):
        raise ValueError(
            f"sequence {n} is a list of texts, but TokenTransformer takes rows of columns: make each token a row, such "
            f"as [{short(str(table[0]), 20)}], and pass its column to a text transformer by "
            "ColumnTransformer([('texts', CountVectorizer(), 0)])"
        )
    if table.ndim != 2:
        raise ValueError(f"sequence {n} has shape {table.shape}; it must be (T, n_columns)")
    return table


def _stack_labels(y, offsets):
    """Return the labels of all tokens, of shape (N,)."""
    sequences = list(y)
    if len(sequences) != len(offsets) - 1:
        raise ValueError(f"y has {len(sequences)} sequences, but X has {len(offsets) - 1}")
    for n, (labels, length) in enumerate(zip(sequences, np.diff(offsets).tolist(), strict=True)):
        if len(labels) != length:
            raise ValueError(f"sequence {n}: y has {len(labels)} labels, but X has {length} tokens")
    labels = list(chain.from_iterable(sequences))
    stacked = np.asarray(labels)
    if stacked.ndim != 1:  # a tuple is one label
        stacked = np.empty(len(labels), dtype=object)
        stacked[:] = labels
    return stacked
