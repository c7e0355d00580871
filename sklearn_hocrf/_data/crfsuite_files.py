"""Conversion of CRFsuite's model files to names and weights, and back."""

from __future__ import annotations

from itertools import chain
from os import PathLike
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from .arrays import offsets_of
from .checks import short

HEADER = np.dtype(
    [("magic", "S4"), ("size", "<u4"), ("kind", "S4"), ("version", "<u4"), ("n_features", "<u4"), ("n_labels", "<u4")]
    + [(name, "<u4") for name in ("n_attributes", "features", "labels", "attributes", "of_labels", "of_attributes")]
)
CHUNK_HEADER = np.dtype([("magic", "S4"), ("size", "<u4"), ("count", "<u4")])
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
NAME_OFFSETS = np.dtype(
    [("magic", "S4"), ("size", "<u4"), ("flag", "<u4"), ("order", "<u4"), ("count", "<u4"), ("positions", "<u4")]
)
RECORD = np.dtype([("id", "<u4"), ("size", "<u4")])
HASH_TABLE = np.dtype([("position", "<u4"), ("size", "<u4")])
SLOT = np.dtype([("hash", "<u4"), ("position", "<u4")])  # position 0: empty
OFFSET, BYTE = np.dtype("<u4"), np.dtype("u1")
VERSION, BYTE_ORDER, N_TABLES = 100, 0x62445371, 256
MAX_SIZE = 2**32 - 1  # of a file, in bytes
HEADERS, EACH_NAME, EACH_FEATURE = 4231, 36, 24  # bytes, at most, of: all headers, a name besides its text, a feature
BLOCK = 12  # bytes that are hashed at a time
OF_ATTRIBUTE, OF_LABEL = 0, 1  # kinds of features: (attribute, label) and (label, next label)


class ReadWeights(NamedTuple):
    """The weights of pairs (source, target)."""

    source: np.ndarray  # int64
    target: np.ndarray  # int64
    weight: np.ndarray  # float64


class CRFsuiteWeights(NamedTuple):
    """The weights of a CRFsuite model; missing weights are 0."""

    labels: list[str]
    attributes: list[str]
    state: ReadWeights  # by the ids of attribute and label
    transition: ReadWeights  # by the ids of a label and the next one


def read_crfsuite_file(path: str | PathLike[str], encoding: str) -> CRFsuiteWeights:
    """Return the weights in a file, or raise a ValueError that names the file and the error."""
    file = _File(str(path), Path(path).read_bytes())
    header = file.read(HEADER, 0, 1, "header")[0]
    if (header["magic"], header["kind"]) != (b"lCRF", b"FOMC"):
        file.refuse(f"it begins with {short(file.content[:12])}")
    if header["version"] != VERSION:
        file.refuse(f"it has version {header['version']}, but only {VERSION} is known")
    if header["size"] > len(file.content):
        file.refuse(f"it has {len(file.content)} of {header['size']} bytes")
    labels = file.names(int(header["labels"]), int(header["n_labels"]), "labels", encoding)
    attributes = file.names(int(header["attributes"]), int(header["n_attributes"]), "attributes", encoding)
    state, transition = file.features(int(header["features"]), len(attributes), len(labels))
    return CRFsuiteWeights(labels, attributes, state, transition)


class _File(NamedTuple):
    path: str
    content: bytes

    def refuse(self, reason: str) -> NoReturn:
        raise ValueError(f"{self.path} is not a CRFsuite model, or is damaged: {reason}")

    def read(self, dtype: np.dtype, start: int, count: int, what: str) -> np.ndarray:
        """Return ``count`` items of the file from the position ``start`` on, as an array."""
        if start + count * dtype.itemsize > len(self.content):
            self.refuse(f"the {what} at {start} would end after {len(self.content)} bytes, the end of the file")
        return np.frombuffer(self.content, dtype, count, start)

    def features(self, start: int, n_attributes: int, n_labels: int) -> list[ReadWeights]:
        """Return the weights of attributes, and those of label pairs."""
        chunk = self.read(CHUNK_HEADER, start, 1, "features")[0]
        if chunk["magic"] != b"FEAT":
            self.refuse(f"the features begin with {short(chunk['magic'])}")
        table = self.read(FEATURE, start + CHUNK_HEADER.itemsize, int(chunk["count"]), "features")
        if not np.isfinite(table["weight"]).all():
            self.refuse("some weights are not finite")
        kinds = []
        for kind, n_sources in (OF_ATTRIBUTE, n_attributes), (OF_LABEL, n_labels):
            some = table[table["kind"] == kind]
            if (some["source"] >= n_sources).any() or (some["target"] >= n_labels).any():
                self.refuse(f"some features are not of the {n_attributes} attributes and {n_labels} labels")
            kinds.append(ReadWeights(some["source"].astype(np.int64), some["target"].astype(np.int64), some["weight"]))
        if sum(len(weights.weight) for weights in kinds) < len(table):
            self.refuse("some features are of an unknown kind")
        return kinds

    def names(self, start: int, count: int, what: str, encoding: str) -> list[str]:
        """Return the names in a database, by id."""
        head = self.read(NAME_OFFSETS, start, 1, what)[0]
        if head["magic"] != b"CQDB" or head["count"] < count:
            self.refuse(f"it does not have {count} names of {what}")
        positions = self.read(OFFSET, start + int(head["positions"]), count, what)
        texts, n_bytes = [], 0
        for index, position in enumerate(positions.tolist()):
            raw = self._record(start + position, index, what)
            n_bytes += len(raw)
            if n_bytes > len(self.content):  # so that a small file does not fill the memory
                self.refuse(f"names of {what} overlap")
            texts.append(self._decode(raw, index, what, encoding))
        return texts

    def _record(self, start: int, index: int, what: str) -> bytes:
        """Return the name with the given id."""
        record = self.read(RECORD, start, 1, what)[0]
        raw = self.read(BYTE, start + RECORD.itemsize, int(record["size"]), what).tobytes()
        if record["id"] != index or raw[-1:] != b"\0":
            self.refuse(f"number {index} of the {what} has no name")
        return raw[:-1]

    def _decode(self, raw: bytes, index: int, what: str, encoding: str) -> str:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path}: number {index} of the {what}, {short(raw)}, is not text in {encoding} "
                f"({error.reason}): specify its encoding"
            ) from None


def _encoded(names: list, what: str) -> list[bytes]:
    """Return names as null-terminated bytes, or raise an error for the first one that a file cannot contain."""
    keys = []
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"the {what}s in a CRFsuite file are str, but number {index} is {short(name)}")
        try:
            keys.append(name.encode() + b"\0")
        except UnicodeEncodeError:
            raise ValueError(f"{what} {index}, {short(name)}, has half a surrogate pair, which UTF-8 lacks") from None
        if "\0" in name:
            raise ValueError(f"{what} {index}, {short(name)}, has a null character, which ends names in CRFsuite files")
    if len(set(keys)) < len(keys):
        raise ValueError(f"two {what}s have the same name")
    return keys


def _content(labels: list[bytes], attributes: list[bytes], state: ReadWeights, transition: ReadWeights) -> bytes:
    """Return the content of a model file with the given names and weights."""
    n_state, n_features = len(state.weight), len(state.weight) + len(transition.weight)
    features = np.empty(n_features, FEATURE)
    for some, kind, weights in (slice(n_state), OF_ATTRIBUTE, state), (slice(n_state, None), OF_LABEL, transition):
        features["kind"][some] = kind
        for name, column in weights._asdict().items():
            features[name][some] = column
    size = CHUNK_HEADER.itemsize + features.nbytes
    parts = [np.array((b"FEAT", size, n_features), CHUNK_HEADER).tobytes() + features.tobytes()]
    parts += [_database(labels), _database(attributes)]
    parts[-1] += bytes(-sum(map(len, parts)) % OFFSET.itemsize)
    places = HEADER.itemsize + offsets_of([len(part) for part in parts])
    parts.append(_references(b"LFRF", transition.source, len(labels), n_state, int(places[3])))
    places = np.append(places, places[3] + len(parts[-1]))
    parts.append(_references(b"AFRF", state.source, len(attributes), 0, int(places[4])))
    total = int(places[4]) + len(parts[-1])
    counts = 0, len(labels), len(attributes)  # 0: the table of features contains their number
    return np.array((b"lCRF", total, b"FOMC", VERSION, *counts, *places), HEADER).tobytes() + b"".join(parts)


def _references(magic: bytes, source: np.ndarray, n_sources: int, first: int, start: int) -> bytes:
    """Return the table of the features of each source: their count and their ids, which ascend from ``first``.

    ``start`` is the position of the table in the file.
    """
    counts = np.bincount(source, minlength=n_sources)
    heads = offsets_of(counts + 1)
    body = np.empty(heads[-1], OFFSET)
    is_id = np.ones(len(body), bool)
    is_id[heads[:-1]] = False
    body[~is_id], body[is_id] = counts, np.arange(first, first + len(source))
    begin = CHUNK_HEADER.itemsize + n_sources * OFFSET.itemsize
    head = np.array((magic, begin + body.nbytes, n_sources), CHUNK_HEADER)
    offsets = (start + begin + heads[:-1] * OFFSET.itemsize).astype(OFFSET)
    return head.tobytes() + offsets.tobytes() + body.tobytes()


def _database(keys: list[bytes]) -> bytes:
    """Return the database of names whose ids are their indices in ``keys``."""
    sizes = np.array([len(key) for key in keys], np.int64)
    records = np.empty(len(keys), RECORD)
    records["id"], records["size"] = np.arange(len(keys)), sizes
    heads, width = records.tobytes(), RECORD.itemsize
    stored = b"".join(chain.from_iterable((heads[width * i : width * (i + 1)], key) for i, key in enumerate(keys)))
    begin = NAME_OFFSETS.itemsize + N_TABLES * HASH_TABLE.itemsize
    positions = begin + offsets_of(sizes + width)
    hashes = _hashes(keys, sizes)
    slots = offsets_of(2 * np.bincount(hashes % N_TABLES, minlength=N_TABLES))  # of each table; half of them are empty
    tables = np.zeros(N_TABLES, HASH_TABLE)
    tables["size"] = np.diff(slots)
    tables["position"] = np.where(tables["size"], positions[-1] + slots[:-1] * SLOT.itemsize, 0)
    buckets = _hashed(hashes, positions[:-1], slots)
    total = int(positions[-1]) + buckets.nbytes
    head = (b"CQDB", total + len(keys) * OFFSET.itemsize, 0, BYTE_ORDER, len(keys), total if keys else 0)
    parts = np.array(head, NAME_OFFSETS), tables, stored, buckets, positions[:-1].astype(OFFSET)
    return b"".join(part if isinstance(part, bytes) else part.tobytes() for part in parts)


def _hashed(hashes: np.ndarray, positions: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Return the slots of all hash tables; a record takes the first empty slot at or after the position of its hash."""
    table = hashes % N_TABLES
    start, stop = slots[table], slots[table + 1]
    wanted = start + (hashes >> 8) % np.maximum(stop - start, 1)
    owner = [-1] * int(slots[-1])
    for record, (slot, first, end) in enumerate(zip(wanted.tolist(), start.tolist(), stop.tolist(), strict=True)):
        while owner[slot] >= 0:
            slot = slot + 1 if slot + 1 < end else first
        owner[slot] = record
    buckets, owners = np.zeros(len(owner), SLOT), np.array(owner, np.int64)
    taken = owners >= 0
    buckets["hash"][taken], buckets["position"][taken] = hashes[owners[taken]], positions[owners[taken]]
    return buckets


def _hashes(keys: list[bytes], sizes: np.ndarray) -> np.ndarray:
    """Return the hash of each name: Bob Jenkins' ``hashlittle`` (lookup3.c, 2006) with the initial value 0.

    The hash mixes three numbers with blocks of 12 bytes, for all names at once, up to the end of the longest name.
    """
    n_blocks = -(-sizes // BLOCK)
    order = np.argsort(-n_blocks, kind="stable")
    n_blocks = n_blocks[order]
    text = b"".join(keys[i].ljust(BLOCK * n, b"\0") for i, n in zip(order.tolist(), n_blocks.tolist(), strict=True))
    words, first = np.frombuffer(text, OFFSET).reshape(-1, 3).astype(np.uint32), offsets_of(n_blocks)[:-1]
    state = np.repeat([(0xDEADBEEF + sizes[order]).astype(np.uint32)], 3, axis=0)
    n_before = len(keys)
    for block in range(int(n_blocks.max(initial=0))):
        state[:, :n_before] += words[first[:n_before] + block].T
        n_after = int(np.searchsorted(-n_blocks, -block - 1))  # number of names with further blocks
        a, b, c = state[:, :n_after]
        for amount in (4, 6, 8, 16, 19, 4):
            a -= c
            a ^= _rotated(c, amount)
            c += b
            a, b, c = b, c, a
        a, b, c = state[:, n_after:n_before]
        for amount in (14, 11, 25, 16, 4, 14, 24):
            c ^= b
            c -= _rotated(b, amount)
            a, b, c = b, c, a
        n_before = n_after
    hashes = np.empty(len(keys), np.int64)
    hashes[order] = state[2]
    return hashes


def _rotated(words: np.ndarray, amount: int) -> np.ndarray:
    return (words << np.uint32(amount)) | (words >> np.uint32(32 - amount))
