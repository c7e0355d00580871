"""Batches as folders of .npy files, which can be read as memory maps, and the replacement of files by new ones.

    folder/batch.json                 format, generation, sizes, and the type and shape of each array
    folder/arrays.GENERATION/*.npy    the arrays, typed as in :class:`SequenceBatch`; strings as two (``pack_texts``)

A generation is a random number; a folder gets a new one each time that a batch is saved in it. The header is written
last and replaced as a whole. Because each generation has separate paths, processes that load the batch find either the
earlier or the new generation, never a mixture, even if a writer is killed. A writer removes the arrays that it
replaces, and the leftovers of killed writers: arrays that no header names and that have not been changed for a day.

Nothing in a folder is executed or unpickled. Before a batch is returned, the sizes of the files are compared with the
header, and all indices used by kernels are checked once.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .arrays import PIECE
from .checks import short
from .columns import DenseColumns, TokenColumn
from .messages import pack_texts, unpack_texts

FORMAT, FORMAT_VERSION = "sklearn_hocrf.SequenceBatch", 2
HEADER, ARRAYS = "batch.json", "arrays"
SECONDS_OF_LEFTOVERS = 86_400  # a running writer changes its arrays more often
_MOST_HEADER = 1 << 24  # bytes; a larger file is not a header
_TYPES = {name: np.dtype(name).newbyteorder("<") for name in ("int32", "int64", "float32", "float64", "uint8")}


# ---- writing


class _GrowingArray:
    """A .npy file whose first axis grows."""

    def __init__(self, folder: Path, name: str, dtype, width: int | None = None) -> None:
        self.path, self.dtype = folder / f"{name}.npy", np.dtype(dtype).newbyteorder("<")
        self._tail = () if width is None else (width,)
        self.length = 0
        self.file = open(self.path, "wb")  # noqa: SIM115   closed by the writer
        self._write_header()

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self.file, header)  # with space for a longer first axis

    @property
    def shape(self) -> tuple:
        return (self.length, *self._tail)

    def append(self, array) -> None:
        array = np.ascontiguousarray(array, dtype=self.dtype)
        self.file.write(memoryview(array).cast("B") if array.size else b"")
        self.length += len(array)

    def fill(self, value, length) -> None:
        for start in range(0, length, PIECE):
            self.append(np.full((min(PIECE, length - start), *self._tail), value, dtype=self.dtype))

    def finish(self) -> None:
        self.file.seek(0)
        self._write_header()
        self.file.flush()
        os.fsync(self.file.fileno())


class _FolderWriter:
    """A writer that saves batches of the same form, one after the other, as one batch in a folder."""

    def __init__(self, folder: Path, with_dense: Callable) -> None:
        self._with_dense = with_dense
        self._folder = folder
        self._arrays: dict[str, _GrowingArray] = {}
        self._first: Any = None  # the first batch, without sequences; it defines the form
        self._names: Any = None
        self._columns: list[_Column] = []
        self._n_sequences = self._n_tokens = 0

    def _array(self, name, dtype, width=None) -> _GrowingArray:
        if name not in self._arrays:
            self._arrays[name] = _GrowingArray(self._folder, name, dtype, width)
        return self._arrays[name]

    def append(self, batch, index: int) -> None:
        """Write a batch; ``index`` is its position, for messages."""
        _refuse_blocks(batch)
        if self._first is None:
            self._begin(batch)
        batch = self._like_first(batch, index)
        indices = self._array("indices", np.int32)
        if batch.values is not None or "values" in self._arrays:
            values = self._array("values", np.float64)
            values.fill(1.0, indices.length - values.length)  # of earlier batches, whose values are all 1
            values.append(np.ones(len(batch.indices)) if batch.values is None else batch.values)
        self._array("offsets", np.int64).append(batch.offsets[1:] + self._n_tokens)
        self._array("indptr", np.int64).append(batch.indptr[1:] + indices.length)
        indices.append(batch.indices)
        if (dense := batch.dense) is not None:
            self._array("dense_values", dense.values.dtype, len(dense.attributes)).append(dense.values)
        for column in self._columns:
            column.append(batch.columns[column.field], self._n_tokens, index)
        self._n_sequences += len(batch)
        self._n_tokens += batch.n_tokens

    def _begin(self, batch):
        self._first = batch[:0]
        self._names = batch.attribute_names
        for name in ("offsets", "indptr"):
            self._array(name, np.int64).append(np.zeros(1, np.int64))
        self._columns = [_Column(field, i, self._array) for i, field in enumerate(batch.columns)]
        if batch.dense is not None:
            self._array("dense_attributes", np.int32).append(batch.dense.attributes)

    def _like_first(self, batch, index):
        """Return a batch with the same dense columns as the first one, or raise an error if its form differs."""
        first = self._first
        if batch.n_attributes != first.n_attributes:
            raise ValueError(f"batch {index} has {batch.n_attributes} features, but batch 0 has {first.n_attributes}")
        if batch.attribute_names is not self._names and not np.array_equal(batch.attribute_names, self._names):
            raise ValueError(f"the features of batch {index} have other names than in batch 0")
        if list(batch.columns) != list(first.columns):
            raise ValueError(
                f"batch {index} has the raw columns {short(list(batch.columns))}, but batch 0 has "
                f"{short(list(first.columns))}"
            )
        if first.dense is None:
            return self._with_dense(batch, None)
        if batch.dense is None or not np.array_equal(batch.dense.attributes, first.dense.attributes):
            batch = self._with_dense(batch, first.dense.attributes)
        values = batch.dense.values.astype(first.dense.values.dtype, copy=False)
        if not np.array_equal(values, batch.dense.values, equal_nan=True):
            raise ValueError(f"batch {index} has dense columns of float64, but batch 0 has float32")
        return batch

    def finish(self) -> Path:
        """Complete the files, write the header last, and return its path."""
        if self._first is None:
            raise ValueError("there is no batch to save")
        fields = [column.finish(self._n_tokens) for column in self._columns]
        if self._names is not None:
            _write_texts(self._array, "names", np.asarray(self._names), "names of features")
        for array in self._arrays.values():
            array.finish()
        arrays = {name: {"dtype": array.dtype.name, "shape": array.shape} for name, array in self._arrays.items()}
        sizes = self._n_sequences, self._n_tokens, self._first.n_attributes
        header = _Header(self._folder.suffix[1:], *sizes, fields, arrays)
        path = self._folder / HEADER
        with open(path, "w", encoding="ascii") as file:
            json.dump({"format": FORMAT, "format_version": FORMAT_VERSION} | header._asdict(), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        return path

    def close(self) -> None:
        for array in self._arrays.values():
            array.file.close()


class _Column:
    """A writer of one raw column, whose first values determine whether it contains strings or numbers."""

    def __init__(self, field, index, array) -> None:
        if type(field) not in (str, int):
            raise TypeError(f"the raw column {short(field)} cannot be saved: its name must be a str or an int")
        self.field, self._stem, self._array = field, f"column_{index}", array
        self._is_text: bool | None = None
        self._code_of: dict = {}

    def append(self, column, n_before, index) -> None:
        is_text = isinstance(column, TokenColumn)
        if is_text and not len(column.values):
            if self._is_text is not None:
                self._part().fill(-1 if self._is_text else np.nan, len(column.codes))
            return
        if self._is_text is None:
            self._is_text = is_text
            self._part().fill(-1 if is_text else np.nan, n_before)
        if self._is_text != is_text:
            was, now = ("text", "numbers") if self._is_text else ("numbers", "text")
            raise ValueError(f"the raw column {short(self.field)} has {was} in batch 0, but {now} in batch {index}")
        self._part().append(self._coded(column) if is_text else column)

    def _part(self) -> _GrowingArray:
        return self._array(self._stem, np.int32 if self._is_text else np.float64)

    def _coded(self, column) -> np.ndarray:
        code_of = self._code_of
        codes = [code_of.setdefault(value, len(code_of)) for value in column.values.tolist()]
        return np.array([*codes, -1], dtype=np.int32)[column.codes]

    def finish(self, n_tokens) -> dict:
        """Return the header's entry for the column."""
        if self._is_text is None:  # missing everywhere
            self._is_text = True
            self._part().fill(-1, n_tokens)
        if self._is_text:
            _write_texts(self._array, f"{self._stem}_values", list(self._code_of), f"values of {short(self.field)}")
        return {"field": self.field, "kind": "text" if self._is_text else "numbers"}


def _write_texts(array, stem, texts, what) -> None:
    packed = pack_texts(texts)
    if isinstance(packed, list):
        odd = next(text for text in packed if not isinstance(text, str))
        raise TypeError(f"{what} must be str to be saved, but {short(odd)} is a {type(odd).__name__}")
    for part, dtype, name in zip(packed, (np.uint8, np.int32), ("texts", "lengths"), strict=True):
        array(f"{stem}_{name}", dtype).append(part)


def _refuse_blocks(batch):
    if batch.blocks is not None:
        raise ValueError(
            "a batch with segment features cannot be saved: they are computed by the transformer that made them. Save "
            "the input of that transformer, and transform the loaded batch"
        )


def write_folder(folder, batches: Iterable, with_dense: Callable, overwrite: bool) -> None:
    """Write batches, one after the other, as a single batch; see :meth:`SequenceBatch.save_all`.

    ``with_dense`` is a function that returns a batch with other dense columns.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    if not is_new and not overwrite:
        raise FileExistsError(f"{folder} exists already; overwrite=True replaces a saved batch")
    folder.mkdir(exist_ok=True)
    _current_arrays(folder)  # raises an error if the header is not that of a batch
    arrays = new_name(folder / ARRAYS)
    writer, unused = _FolderWriter(arrays, with_dense), {arrays}
    try:
        arrays.mkdir()
        for index, batch in enumerate(batches):
            writer.append(batch, index)
        header = writer.finish()
        unused |= _current_arrays(folder)
        replace(header, folder / HEADER)
    finally:
        writer.close()
        _remove_arrays(folder, unused)
        if is_new:
            with suppress(OSError):  # if the folder contains a batch
                folder.rmdir()


def _remove_arrays(folder, unused):
    """Remove arrays that are no longer used: the given ones, unless they are current, and leftovers."""
    left = {arrays for arrays in folder.glob(f"{ARRAYS}.*") if arrays in unused or _is_left(arrays)}
    for arrays in left - _current_arrays(folder):  # read last: one of them may just have become current
        shutil.rmtree(arrays, ignore_errors=True)  # Windows keeps files that are being read


def _is_left(arrays) -> bool:
    """Return whether no writer has written to the arrays for a day; False if another writer is removing them."""
    with suppress(OSError):
        latest = max(path.stat().st_mtime for path in (arrays, *arrays.iterdir()))
        return latest < time.time() - SECONDS_OF_LEFTOVERS
    return False


def _current_arrays(folder) -> set[Path]:
    """Return the folder of the current generation's arrays, in a set that is empty if there is none."""
    return {_arrays(folder, read_header(folder).generation)} if os.path.lexists(folder / HEADER) else set()


def _arrays(folder, generation) -> Path:
    return folder / f"{ARRAYS}.{generation}"


# ---- reading


class _Header(NamedTuple):
    """The contents of ``batch.json``."""

    generation: str
    n_sequences: int
    n_tokens: int
    n_attributes: int
    columns: list
    arrays: dict


def read_header(folder: Path) -> _Header:
    """Return the header of a folder, or raise a ValueError."""
    path = folder / HEADER
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a saved SequenceBatch: it has no file {HEADER}")
    if path.stat().st_size > _MOST_HEADER:
        raise ValueError(f"{path} is too large for the header of a saved SequenceBatch")
    try:
        header = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON: {short(str(error))}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is not the header of a saved SequenceBatch")
    if header.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"{folder} has the format version {short(header.get('format_version'))}; this version of the package reads "
            f"{FORMAT_VERSION}"
        )
    fields = _Header._make(map(header.get, _Header._fields))
    if not isinstance(fields.generation, str) or not re.fullmatch(NUMBER, fields.generation):
        raise ValueError(f"{path} has the generation {short(fields.generation)}, but must have 32 hexadecimal digits")
    is_good = all(type(size) is int and 0 <= size < 2**62 for size in fields[1:4])
    if not is_good or not isinstance(fields.columns, list) or not isinstance(fields.arrays, dict):
        raise ValueError(f"{path} lacks sizes, columns or arrays, or has a wrong type for them")
    return fields


def read_folder(folder, mmap_mode, make: Callable):
    """Return a saved batch, built by ``make`` with SequenceBatch's arguments; see :meth:`SequenceBatch.load`."""
    if mmap_mode not in ("r", None):
        raise ValueError(f"mmap_mode must be 'r' or None, got {mmap_mode!r}")
    folder = Path(folder)
    while True:
        header = read_header(folder)
        try:
            return _read_folder(folder, header, mmap_mode, make)
        except (ValueError, OSError):  # a writer may have removed the files during reading
            if read_header(folder).generation == header.generation:
                raise


def _read_folder(folder, header, mmap_mode, make):
    """Return the batch that a header describes."""
    reader = _Reader(folder, header, mmap_mode)
    n_sequences, n_tokens, n_attributes = header[1:4]
    indices = reader.array("indices", "int32")
    offsets, indptr = reader.array("offsets", "int64", n_sequences + 1), reader.array("indptr", "int64", n_tokens + 1)
    values = reader.array("values", "float64", len(indices)) if "values" in header.arrays else None
    names = reader.texts("names", n_attributes) if "names_texts" in header.arrays else None
    dense = None
    if "dense_values" in header.arrays or "dense_attributes" in header.arrays:
        attributes = reader.array("dense_attributes", "int32")
        dense = DenseColumns(attributes, reader.array("dense_values", None, n_tokens, len(attributes)))
    columns = dict(reader.columns(n_tokens))
    try:
        return make(offsets, indptr, indices, values, n_attributes, names, columns, dense=dense)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


class _Reader:
    """The arrays of a folder, each of which is compared with the header when it is opened."""

    def __init__(self, folder: Path, header: _Header, mmap_mode) -> None:
        self._folder, self._header, self._mmap_mode = folder, header, mmap_mode
        self._arrays = _arrays(folder, header.generation)

    def array(self, name, dtype, *shape) -> np.ndarray:
        """Return an array; raise an error unless it has the given shape and type (None: floating-point numbers)."""
        path = self._arrays / f"{name}.npy"
        said = self._header.arrays.get(name)
        if not isinstance(said, dict) or not path.is_file():
            raise ValueError(f"{self._folder} is incomplete: the array {name!r} is missing")
        try:
            array = np.lib.format.open_memmap(path, mode="r")
        except Exception as error:  # numpy evaluates headers, so errors of Python's parser are possible, too
            raise ValueError(f"{path} is truncated or not a .npy file: {short(str(error))}") from None
        wanted = {_TYPES[dtype]} if dtype else {_TYPES["float32"], _TYPES["float64"]}
        if array.dtype not in wanted or (array.ndim > 1 and not array.flags.c_contiguous):
            raise ValueError(f"{path} has the type {array.dtype}, not {' or '.join(sorted(t.name for t in wanted))}")
        expected = shape or (array.shape if array.ndim == 1 else (-1,))
        if list(array.shape) != said.get("shape") or array.shape != expected:
            raise ValueError(f"{path} has the shape {array.shape}, which does not match {HEADER}")
        return np.array(array) if self._mmap_mode is None else array

    def texts(self, stem, n_texts) -> np.ndarray:
        """Return strings as an array of objects, in memory."""
        packed = self.array(f"{stem}_texts", "uint8"), self.array(f"{stem}_lengths", "int32", n_texts)
        texts = np.empty(n_texts, dtype=object)
        try:
            texts[:] = unpack_texts(packed)
        except ValueError as error:
            where = f"{self._folder}: the texts of {stem!r} do not have the stated lengths"
            raise ValueError(f"{where}: {short(str(error))}") from None
        return texts

    def columns(self, n_tokens) -> Iterator[tuple[Any, Any]]:
        """Yield the raw columns."""
        for i, said in enumerate(self._header.columns):
            field = said.get("field") if isinstance(said, dict) else None
            if type(field) not in (str, int) or said.get("kind") not in ("text", "numbers"):
                raise ValueError(f"{self._folder / HEADER}: there is no raw column {short(said)}")
            if said["kind"] == "numbers":
                yield field, self.array(f"column_{i}", "float64", n_tokens)
                continue
            stem = f"column_{i}_values"
            values = self.texts(stem, len(self.array(f"{stem}_lengths", "int32")))
            yield field, TokenColumn(self.array(f"column_{i}", "int32", n_tokens), values)


NUMBER = "[0-9a-f]{32}"  # as in the result of :func:`new_name`
_PAUSES = (0.01, 0.03, 0.1, 0.3, 1.0)  # seconds


def output_file(path: str | os.PathLike, *inputs: str | os.PathLike | None) -> Path:
    """Return the path to write to, without symbolic links, or raise an error if it is an input or not writable.

    Callers call this function before they compute the content, so that no work is lost. Errors name the path that the
    user passed.
    """
    for name in inputs:
        with suppress(OSError):  # if one of them does not exist
            if name is not None and os.path.samefile(path, name):
                raise ValueError(f"the output {os.fspath(path)} and the input {os.fspath(name)} are one file")
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():  # a device would be replaced
            raise FileExistsError(errno.EEXIST, "not a regular file")
        with open(probe := new_name(target), "xb"):
            pass
        probe.unlink()
    except OSError as error:
        raise OSError(error.errno, f"cannot be written ({error.strerror})", os.fspath(path)) from None
    return target


def new_name(path: Path) -> Path:
    """Return the name of a new file or folder next to another one: its name, a dot, and a random number."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex}")


def replace(new: Path, path: Path) -> None:
    """Replace the file at ``path`` by the file ``new``.

    Windows refuses this while the old file is open, so the function tries again for a second or two.
    """
    for pause in _PAUSES:
        try:
            os.replace(new, path)
            return
        except PermissionError:
            time.sleep(pause)
    os.replace(new, path)


def replace_content(path: Path, content: bytes) -> None:
    """Write the content to a new file, and replace the file at ``path`` by it."""
    new = new_name(path)
    try:
        new.write_bytes(content)
        replace(new, path)
    finally:
        new.unlink(missing_ok=True)
