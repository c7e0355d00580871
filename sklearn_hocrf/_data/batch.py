"""Ragged sequences as flat, immutable arrays.

    sequence n  ->  tokens offsets[n] .. offsets[n + 1]
    token t     ->  features indices[indptr[t]] .. indices[indptr[t + 1]], with their values

A batch contains neither padding nor lists of arrays: a batch of a million tokens consists of five arrays. All of them
are C-contiguous and read-only, and each has a fixed dtype. Thus every kernel is compiled only once, and is also used
for batches in worker processes, whose arrays are read-only memory maps.

Features that nearly every token has, such as embeddings and sensor readings, may be *dense columns* instead: an array
of shape (N, d), in addition to the sparse rows. Except for rounding, results do not depend on which features are dense.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .arrays import PIECE, ascends, freeze, freeze_all, freeze_indices, joined_ranges, offsets_of
from .columns import DenseColumns, TokenColumn, is_mostly_nonzero
from .folders import read_folder, write_folder

MAX_FEATURES = np.iinfo(np.int32).max  # ids of features are int32


class SequenceBatch:
    """A list of sequences, each token of which is a row of sparse and dense features.

    The transformers of :mod:`sklearn_hocrf.feature_extraction` return batches, and estimators accept a batch as X. The
    length of a batch is the number of sequences. Indexing a batch with an int, a slice, a mask or an array of indices
    returns the batch of the selected sequences. A batch is immutable: its arrays are read-only. N is the number of
    tokens of all sequences.

    Parameters
    ----------
    offsets : array-like of shape (n_sequences + 1,)
        The tokens of sequence n are ``offsets[n]`` to ``offsets[n + 1] - 1``; the first offset is 0, and the last one
        is N.
    indptr : array-like of shape (N + 1,)
        The entries of token t in ``indices`` and ``values`` are ``indptr[t]`` to ``indptr[t + 1] - 1``.
    indices : array-like of shape (nnz,)
        Ids of token features, in [0, n_attributes).
    values : array-like of shape (nnz,) or None
        Feature values; None if all are 1.
    n_attributes : int
        Number of token features.
    attribute_names : sequence of str or None
        One name per token feature.
    columns : mapping or None
        Raw token columns by field name: a ``TokenColumn``, or a float64 array of shape (N,) for numeric fields.
    blocks : tuple or None
        The features of segments that a transformer creates; None if there are only token features.
    block_names : sequence of str or None
        Names of the blocks' features: one lazy object for all batches of a transformer. If None, the names are derived
        from the blocks.
    dense : DenseColumns or None
        Token features whose values are stored as an array.

    Attributes
    ----------
    shape : tuple of int
        ``(n_sequences, n_features)``.
    n_features : int
        Number of features: of the blocks, or of tokens if there are no blocks.
    feature_names : ndarray, lazy sequence of str, or None
        Names of these features.

    Raises
    ------
    ValueError
        If the arrays are inconsistent.

    Examples
    --------
    >>> from sklearn_hocrf import SequenceBatch
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> words = SequenceFeatureExtractor([("w", 0)]).fit_transform(
    ...     [["the", "old", "man"], ["the", "man"]]
    ... )
    >>> words
    SequenceBatch(2 sequences, 5 tokens, 3 features)
    >>> words[1:].lengths, words.feature_names.tolist()
    (array([2]), ['w[0]=man', 'w[0]=old', 'w[0]=the'])

    Create a batch from arrays:

    >>> batch = SequenceBatch([0, 2, 3], [0, 1, 2, 3], [0, 1, 0], None, 2)
    >>> len(batch), batch.shape, batch.n_tokens
    (2, (2, 2), 3)
    >>> batch[1].toarray()
    array([[1., 0.]])
    """

    __slots__ = (
        "offsets",
        "indptr",
        "indices",
        "values",
        "n_attributes",
        "attribute_names",
        "columns",
        "blocks",
        "block_names",
        "dense",
    )

    def __init__(
        self,
        offsets: ArrayLike,
        indptr: ArrayLike,
        indices: ArrayLike,
        values: ArrayLike | None,
        n_attributes: int,
        attribute_names: Any = None,
        columns: Mapping | None = None,
        blocks: Any = None,
        block_names: Any = None,
        dense: Any = None,
    ) -> None:
        if n_attributes > MAX_FEATURES:
            raise ValueError(f"a SequenceBatch has {n_attributes} features, but at most {MAX_FEATURES} are possible")
        self.offsets, self.indptr = freeze_all((offsets, indptr), np.int64)
        self.indices = freeze_indices(indices, n_attributes, "indices of a SequenceBatch")
        self.values = None if values is None else freeze(values, np.float64)
        self.n_attributes = int(n_attributes)
        lazy = attribute_names is None or hasattr(attribute_names, "__array__")  # lazy names are created on demand
        self.attribute_names = attribute_names if lazy else np.asarray(attribute_names, dtype=object)
        self.columns: Mapping[Any, Any] = {} if columns is None else dict(columns)
        self.blocks = None if blocks is None else tuple(blocks)
        self.block_names = block_names
        n_tokens = len(self.indptr) - 1
        self.dense = dense if dense is None else DenseColumns(*dense).checked(n_tokens, self.n_attributes, self.indices)
        self._check()

    def _check(self):
        """Raise an error if an index is out of range, because kernels do not check indices."""
        cuts = ("offsets", self.offsets, len(self.indptr) - 1), ("indptr", self.indptr, len(self.indices))
        for name, cut, stop in cuts:
            if not len(cut) or cut[0] != 0 or cut[-1] != stop or not ascends(cut):
                raise ValueError(f"{name} of a SequenceBatch must be in ascending order, from 0 to {stop}")
        if self.values is not None and len(self.values) != len(self.indices):
            raise ValueError(f"a SequenceBatch has {len(self.indices)} indices, but {len(self.values)} values")
        self._check_names()
        for name, column in self.columns.items():
            cells = column.codes if isinstance(column, TokenColumn) else column
            if np.shape(cells) != (self.n_tokens,):
                raise ValueError(f"the column {name!r} of {self.n_tokens} tokens has shape {np.shape(cells)}")
            if isinstance(column, TokenColumn):
                freeze_indices(cells, len(column.values), f"codes of the column {name!r}", start=-1)

    def _check_names(self):
        if self.attribute_names is not None and len(self.attribute_names) != self.n_attributes:
            raise ValueError(f"a SequenceBatch has {self.n_attributes} features, but {len(self.attribute_names)} names")
        if self.block_names is not None and len(self.block_names) != self.n_features:
            raise ValueError(f"the blocks have {self.n_features} features, but {len(self.block_names)} names")

    @classmethod
    def from_csr(
        cls,
        matrix: Any,
        offsets: ArrayLike,
        feature_names: Any = None,
        columns: Mapping | None = None,
        dense: DenseColumns | None = None,
    ) -> SequenceBatch:
        """Return a batch, given the feature rows of the tokens of all sequences as a sparse matrix.

        Parameters
        ----------
        matrix : sparse matrix of shape (N, n_features)
            The features of the tokens of all sequences. Duplicate entries are summed and explicit zeros dropped,
            because every stored entry counts as an occurrence. If all values are 1, they are not stored.
        offsets : array-like of shape (n_sequences + 1,)
            Token range of each sequence; starts with 0 and ends with N.
        feature_names : sequence of str or None, default=None
            One name per feature.
        columns : mapping or None, default=None
            Raw token columns by field name, as for :class:`SequenceBatch`.
        dense : DenseColumns or None, default=None
            Features whose values are stored as an array; they have no entries in the matrix.

        Returns
        -------
        batch : SequenceBatch
        """
        matrix = sparse.csr_array(matrix)
        if not matrix.has_canonical_format or (matrix.data == 0).any():
            matrix = matrix.copy()
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
        values = None if (matrix.data == 1).all() else matrix.data
        parts = matrix.indptr, matrix.indices, values, matrix.shape[1]
        return cls(offsets, *parts, feature_names, columns, dense=dense)

    @classmethod
    def from_table(
        cls, table: Any, offsets: ArrayLike, feature_names: Any = None, columns: Mapping | None = None
    ) -> SequenceBatch:
        """Return a batch, given the feature rows of the tokens of all sequences as an array or a sparse matrix.

        Parameters
        ----------
        table : array or sparse matrix of shape (N, n_features)
            The features of the tokens of all sequences. The columns of an array that is mostly nonzero become dense;
            other tables become sparse rows, as in :meth:`from_csr`.
        offsets : array-like of shape (n_sequences + 1,)
            Token range of each sequence; starts with 0 and ends with N.
        feature_names : sequence of str or None, default=None
            One name per feature.
        columns : mapping or None, default=None
            Raw token columns by field name, as for :class:`SequenceBatch`.

        Returns
        -------
        batch : SequenceBatch
        """
        if sparse.issparse(table) or not is_mostly_nonzero(table):
            return cls.from_csr(sparse.csr_array(table, dtype=np.float64), offsets, feature_names, columns)
        n_tokens, n_features = table.shape
        dense = DenseColumns(np.arange(n_features, dtype=np.int32), table)
        nothing = np.zeros(n_tokens + 1), np.empty(0), None
        return cls(offsets, *nothing, n_features, feature_names, columns, dense=dense)

    def save(self, folder: str | PathLike, *, overwrite: bool = False) -> None:
        """Save the batch as a folder of .npy files, which :meth:`load` can read without copying them into memory.

        Parameters
        ----------
        folder : str or path
            The folder to write; its parent must exist.
        overwrite : bool, default=False
            Whether to replace a saved batch in this folder; other files in the folder are kept.

        Raises
        ------
        FileExistsError
            If this folder exists and ``overwrite`` is False.
        ValueError
            If the batch has segment features, which cannot be saved because only transformers compute them; or if
            ``batch.json`` in ``folder`` does not belong to a saved batch.
        TypeError
            If a feature name or a value of a raw column is not a str, or the name of a raw column is neither str nor
            int.

        Notes
        -----
        All new files are complete before they replace the earlier ones in one step. Other processes may load the batch
        in the meantime: they read the earlier or the new batch. If several processes save at the same time, the batch
        of the process that finishes last remains. If a process is killed, the folder contains the earlier batch or the
        new one; the first process that saves to this folder at least a day later removes the other files. A process
        that saves a batch must therefore write at least once a day.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from sklearn_hocrf import SequenceBatch
        >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
        >>> batch = SequenceFeatureExtractor([("w", 0)]).fit_transform(
        ...     [["the", "old", "man"], ["the", "man"]]
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     batch.save(Path(folder, "train"))
        ...     SequenceBatch.load(Path(folder, "train"))
        SequenceBatch(2 sequences, 5 tokens, 3 features)
        """
        self.save_all(folder, [self], overwrite=overwrite)

    @staticmethod
    def save_all(folder: str | PathLike, batches: Iterable[SequenceBatch], *, overwrite: bool = False) -> None:
        """Save batches, one after the other, as a single batch; only one of them is in memory at a time.

        Parameters
        ----------
        folder : str or path
            As in :meth:`save`.
        batches : iterable of SequenceBatch
            Batches with the same features and raw columns, for example the results of one fitted transformer for parts
            of the data. The features that are dense in the first batch become dense in all.
        overwrite : bool, default=False
            As in :meth:`save`.

        Raises
        ------
        FileExistsError, TypeError
            As for :meth:`save`.
        ValueError
            As for :meth:`save`; also if there are no batches, or if they differ in features or raw columns.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from sklearn_hocrf import SequenceBatch
        >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
        >>> # or read from files, one at a time
        >>> parts = [
        ...     [["the", "old", "man"]],
        ...     [["the", "man"], ["man"]],
        ... ]
        >>> extractor = SequenceFeatureExtractor(n_features=2**18)
        >>> with TemporaryDirectory() as folder:
        ...     SequenceBatch.save_all(
        ...         Path(folder, "train"), (extractor.transform(X) for X in parts)
        ...     )
        ...     SequenceBatch.load(Path(folder, "train"))
        SequenceBatch(3 sequences, 6 tokens, 262144 features)
        """
        write_folder(folder, _only_batches(batches), with_dense, overwrite)

    @staticmethod
    def load(folder: str | PathLike, mmap_mode: str | None = "r") -> SequenceBatch:
        """Return the batch that was saved in a folder.

        All indices are checked once, so that an invalid file cannot cause reads outside the arrays.

        Parameters
        ----------
        folder : str or path
            A folder that :meth:`save` wrote.
        mmap_mode : "r" or None, default="r"
            "r" leaves the arrays in memory-mapped files; the operating system keeps as much of them in memory as fits.
            Do not change the files while the batch is in use; :meth:`save` may replace them. If None, the arrays are
            read into memory.

        Returns
        -------
        batch : SequenceBatch

        Raises
        ------
        FileNotFoundError
            If the folder does not contain a saved batch.
        ValueError
            If files are missing, are truncated, or differ in type or size from the header; if indices are out of range;
            or if another version of the package saved the batch in an unknown format.
        """
        return read_folder(folder, mmap_mode, SequenceBatch)

    def _replace(self, **changes):
        parts = {name: getattr(self, name) for name in self.__slots__}
        return SequenceBatch(**{**parts, **changes})

    @property
    def n_features(self) -> int:
        return self.n_attributes if self.blocks is None else sum(block.n_features for block in self.blocks)

    @property
    def feature_names(self) -> Any:
        if self.blocks is None:
            return self.attribute_names
        if self.block_names is not None:
            return self.block_names
        names = [block.names(self.attribute_names) for block in self.blocks]
        return None if any(part is None for part in names) else np.concatenate(names)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.offsets) - 1, self.n_features

    @property
    def n_tokens(self) -> int:
        return int(self.offsets[-1])

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def tocsr(self) -> sparse.csr_array:
        """Return the rows of all tokens as a sparse matrix of shape (N, n_attributes)."""
        return token_rows(self, 0, self.n_tokens)

    def toarray(self) -> np.ndarray:
        """Return the rows of all tokens as a dense array of shape (N, n_attributes)."""
        table = without_dense(self).tocsr().toarray()
        if self.dense is not None:
            table[:, self.dense.attributes] = self.dense.values
        return table

    def __array__(self, dtype=None, copy=None):
        """Reject the conversion to an array, which numpy and scikit-learn's functions for tables try."""
        raise TypeError(
            "a SequenceBatch cannot be converted to an array, because its sequences differ in length: chain "
            "transformers instead of using FeatureUnion, wrap transformers of tables in a TokenTransformer, or use "
            "toarray(), the table of all tokens; sklearn_hocrf.model_selection lists replacements for scikit-learn's "
            "other tools"
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[SequenceBatch]:
        return (self[n] for n in range(len(self)))

    def __getitem__(self, key: Any) -> SequenceBatch:
        """Return the batch of the sequences that an int, slice, mask or index array selects."""
        if isinstance(key, tuple):  # scikit-learn's indexing helpers use array[key, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError("a SequenceBatch has one axis to index: its sequences")
            key = key[0]
        if isinstance(key, (int, np.integer)):
            index = range(len(self))[key]
            return self._contiguous(index, index + 1)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._contiguous(start, max(start, stop))
        chosen = np.arange(len(self))[key]
        if chosen.ndim != 1:
            raise IndexError("a SequenceBatch is indexed by an int, a slice, a mask or a 1-D array of indices")
        return cut_sequences(self, self.offsets[chosen], self.offsets[chosen + 1])

    def _contiguous(self, start, stop):
        """Return a slice of the sequences without copying the features."""
        tokens = slice(self.offsets[start], self.offsets[stop])
        indptr = self.indptr[tokens.start : tokens.stop + 1]
        offsets = self.offsets[start : stop + 1] - tokens.start
        return self._cut(offsets, indptr - indptr[0], slice(indptr[0], indptr[-1]), tokens)

    def _cut(self, offsets, indptr, entries, tokens):
        """Return the batch of the given tokens and their entries, which are slices or indices."""
        columns = {
            name: column.take(tokens) if isinstance(column, TokenColumn) else freeze(column[tokens], np.float64)
            for name, column in self.columns.items()
        }
        return self._replace(
            offsets=offsets,
            indptr=indptr,
            indices=self.indices[entries],
            values=None if self.values is None else self.values[entries],
            columns=columns,
            blocks=None if self.blocks is None else tuple(block.take(tokens) for block in self.blocks),
            dense=self.dense and self.dense.take(tokens),
        )

    def __repr__(self) -> str:
        return f"SequenceBatch({len(self)} sequences, {self.n_tokens} tokens, {self.n_features} features)"

    def __reduce__(self):
        # via the constructor, so that arrays are read-only again after unpickling
        return SequenceBatch, tuple(getattr(self, name) for name in self.__slots__)


# ------------------------------------------------------------------------------------ batches for the package itself


def batch_of_rows(cuts: tuple, indices: np.ndarray, values: Any, n_attributes: int, names: Any) -> SequenceBatch:
    """Return a batch of sparse rows without checking ``cuts``, the pair of ``offsets`` and ``indptr``."""
    batch = object.__new__(SequenceBatch)
    batch.offsets, batch.indptr = freeze_all(cuts, np.int64)
    batch.indices = freeze_indices(indices, n_attributes, "indices of a SequenceBatch")
    batch.values = None if values is None else freeze(values, np.float64)
    batch.n_attributes, batch.attribute_names, batch.columns = n_attributes, names, {}
    batch.blocks = batch.block_names = batch.dense = None
    return batch


def with_blocks(batch: SequenceBatch, blocks: Any, block_names: Any = None) -> SequenceBatch:
    """Return the batch with other blocks; a layout checks their attributes."""
    changed = object.__new__(SequenceBatch)  # its arrays have already been checked
    for name in SequenceBatch.__slots__:
        setattr(changed, name, getattr(batch, name))
    changed.blocks, changed.block_names = None if blocks is None else tuple(blocks), block_names
    changed._check_names()
    return changed


def without_dense(batch: SequenceBatch) -> SequenceBatch:
    """Return the batch with the same features, but without the values of dense columns."""
    return batch if batch.dense is None else batch._replace(dense=None)


def as_sparse(batch: SequenceBatch) -> SequenceBatch:
    """Return the batch with the features of its dense columns as part of the sparse rows."""
    if batch.dense is None:
        return batch
    matrix = batch.tocsr()
    values = None if (matrix.data == 1).all() else matrix.data
    return batch._replace(indptr=matrix.indptr, indices=matrix.indices, values=values, dense=None)


def with_dense(batch: SequenceBatch, attributes: np.ndarray | None) -> SequenceBatch:
    """Return the batch with the features ``attributes`` as its dense columns; None means no dense columns."""
    if attributes is None:
        return as_sparse(batch)
    matrix = batch.tocsr()
    is_sparse = np.ones(batch.n_attributes, dtype=bool)
    is_sparse[attributes] = False
    data = np.where(is_sparse[matrix.indices], matrix.data, 0.0)
    rest = sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    dense = DenseColumns(attributes, matrix[:, attributes].toarray())
    return SequenceBatch.from_csr(rest, batch.offsets, batch.attribute_names, batch.columns, dense)


def ranges_of_tokens(batch: SequenceBatch) -> list[tuple[int, int]]:
    """Return the start and stop of ranges of tokens that are processed together, to save memory."""
    return [(first, min(first + PIECE, batch.n_tokens)) for first in range(0, batch.n_tokens, PIECE)]


def ranges_of_sequences(batch: SequenceBatch) -> list[tuple[int, int]]:
    """Return the start and stop of runs of sequences, each of about ``PIECE`` tokens."""
    bounds = np.searchsorted(batch.offsets, np.arange(0, batch.n_tokens, PIECE))  # the first one is 0
    bounds = np.unique(np.append(bounds, len(batch)))
    return [(int(first), int(last)) for first, last in zip(bounds[:-1], bounds[1:], strict=True)]


def token_entries(batch: SequenceBatch, first: int, last: int, values: np.ndarray | None = None) -> sparse.csr_array:
    """Return the sparse rows of the tokens first .. last - 1 with other values: ones, or ``values``, one per entry."""
    low, high = batch.indptr[first], batch.indptr[last]
    values = np.ones(high - low) if values is None else values
    parts = values, batch.indices[low:high], batch.indptr[first : last + 1] - low
    return sparse.csr_array(parts, shape=(last - first, batch.n_attributes))


def token_rows(batch: SequenceBatch, first: int, last: int) -> sparse.csr_array:
    """Return the rows of the tokens first .. last - 1 as a sparse matrix of shape (last - first, n_attributes)."""
    values = None if batch.values is None else batch.values[batch.indptr[first] : batch.indptr[last]]
    matrix = token_entries(batch, first, last, values)
    if batch.dense is None:
        return matrix
    return sparse.csr_array(matrix + batch.dense.take(slice(first, last)).tocsr(batch.n_attributes))


def cut_sequences(batch: SequenceBatch, starts: np.ndarray, stops: np.ndarray) -> SequenceBatch:
    """Return the batch whose sequences are the given ranges of tokens of a batch.

    Parameters
    ----------
    batch : SequenceBatch
    starts, stops : ndarray of shape (n_ranges,), int
        First token of each range, and the token after its last one, counted over all sequences.

    Returns
    -------
    batch : SequenceBatch
        One sequence for each range.
    """
    tokens = joined_ranges(starts, stops)
    entries = joined_ranges(batch.indptr[tokens], batch.indptr[tokens + 1])
    return batch._cut(offsets_of(stops - starts), offsets_of(np.diff(batch.indptr)[tokens]), entries, tokens)


def _only_batches(batches):
    """Yield batches, and raise an error for any other object."""
    for index, batch in enumerate(batches):
        if not isinstance(batch, SequenceBatch):
            raise TypeError(f"batch {index} is a {type(batch).__name__}, but must be a SequenceBatch")
        yield batch


class TokenFeatures(NamedTuple):
    """The feature rows of all tokens, for kernels, with the positions of the weights of each entry.

    If kernels looked up positions by feature id, each entry would cost a cache miss. Token t has the rows of the dense
    table ``row_indptr[t] .. row_indptr[t + 1]``, the single pairs ``indptr[t] .. ranges[t]``, and the ranges of pairs
    ``ranges[t] .. indptr[t + 1]``. Rows are in a separate array, because one number, instead of two, determines the
    position of their weights. Values are those of the first token's rows, of its other entries, of the second token's
    rows, and so on: row i of token t has the value ``i + indptr[t]``, and entry i has the value
    ``i + row_indptr[t + 1]``. Kernels that do not use rows require features without rows; entry i then has the value i.
    """

    row_indptr: np.ndarray  # (N + 1,) int64
    rows: np.ndarray  # (n_rows,) uint32   of the dense table
    indptr: np.ndarray  # (N + 1,) int64
    ranges: np.ndarray  # (N,) int64
    pair: np.ndarray  # (nnz,) uint32   the pair, or the first pair of a range
    other: np.ndarray  # (nnz,) uint32   the pair's score column, or the end of the range
    values: np.ndarray  # (n_rows + nnz,) float64, or empty if all values are 1


Sequences: TypeAlias = Sequence[Any] | SequenceBatch  # for type checkers: predictions for them are lists
