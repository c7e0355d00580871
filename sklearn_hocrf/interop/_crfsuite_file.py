"""Read model files of CRFsuite byte by byte.

python-crfsuite provides the weights only as a text, which rounds them to 6 decimals and breaks at line ends in names,
and its library ends the process (SIGSEGV) on some damaged files. The format has not changed since 2011:

    header | features | names of labels | names of attributes | tables of the features of each of these

All numbers are little-endian. A database of names (CQDB) ends with a list of the positions of the records, by number.
"""

from __future__ import annotations

from os import PathLike
from typing import NamedTuple, NoReturn

import numpy as np

from .._data.checks import short

__all__ = ["CRFsuiteWeights", "Weights", "read_crfsuite_file"]

HEADER = np.dtype(
    [("magic", "S4"), ("size", "<u4"), ("kind", "S4"), ("version", "<u4"), ("n_features", "<u4"), ("n_labels", "<u4")]
    + [(name, "<u4") for name in ("n_attributes", "features", "labels", "attributes", "of_labels", "of_attributes")]
)
CHUNK = np.dtype([("magic", "S4"), ("size", "<u4"), ("count", "<u4")])
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
NAMES = np.dtype(
    [("magic", "S4"), ("size", "<u4"), ("flag", "<u4"), ("order", "<u4"), ("count", "<u4"), ("places", "<u4")]
)
RECORD = np.dtype([("number", "<u4"), ("size", "<u4")])
OFFSET, BYTE = np.dtype("<u4"), np.dtype("u1")
VERSION = 100
OF_ATTRIBUTE, OF_LABEL = 0, 1  # kinds of features: (attribute, label) and (label, next label)


class Weights(NamedTuple):
    """The weights of pairs."""

    source: np.ndarray  # int64
    target: np.ndarray  # int64
    weight: np.ndarray  # float64


class CRFsuiteWeights(NamedTuple):
    """The weights of a CRFsuite model; missing weights are 0."""

    labels: list[str]
    attributes: list[str]
    state: Weights  # by the numbers of attribute and label
    transition: Weights  # by the numbers of a label and the next one


def read_crfsuite_file(path: str | PathLike[str], encoding: str) -> CRFsuiteWeights:
    """Return the weights in a file, or raise a ValueError that names the file and the error."""
    with open(path, "rb") as stream:
        file = _File(str(path), stream.read())
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
        """Return an array from the file."""
        if start + count * dtype.itemsize > len(self.content):
            self.refuse(f"the {what} at {start} would end after {len(self.content)} bytes, the end of the file")
        return np.frombuffer(self.content, dtype, count, start)

    def features(self, start: int, n_attributes: int, n_labels: int) -> list[Weights]:
        """Return the weights of both kinds."""
        chunk = self.read(CHUNK, start, 1, "features")[0]
        if chunk["magic"] != b"FEAT":
            self.refuse(f"the features begin with {short(chunk['magic'])}")
        table = self.read(FEATURE, start + CHUNK.itemsize, int(chunk["count"]), "features")
        if not np.isfinite(table["weight"]).all():
            self.refuse("some weights are not finite")
        found = []
        for kind, n_sources in (OF_ATTRIBUTE, n_attributes), (OF_LABEL, n_labels):
            some = table[table["kind"] == kind]
            if (some["source"] >= n_sources).any() or (some["target"] >= n_labels).any():
                self.refuse(f"some features are not of the {n_attributes} attributes and {n_labels} labels")
            found.append(Weights(some["source"].astype(np.int64), some["target"].astype(np.int64), some["weight"]))
        if sum(len(weights.weight) for weights in found) < len(table):
            self.refuse("some features are of an unknown kind")
        return found

    def names(self, start: int, count: int, what: str, encoding: str) -> list[str]:
        """Return the names in a database, by number."""
        head = self.read(NAMES, start, 1, what)[0]
        if head["magic"] != b"CQDB" or head["count"] < count:
            self.refuse(f"it does not have {count} names of {what}")
        places = self.read(OFFSET, start + int(head["places"]), count, what)
        found, n_bytes = [], 0
        for number, place in enumerate(places.tolist()):
            raw = self._record(start + place, number, what)
            n_bytes += len(raw)
            if n_bytes > len(self.content):  # so that a small file does not fill the memory
                self.refuse(f"names of {what} overlap")
            found.append(self._decode(raw, number, what, encoding))
        return found

    def _record(self, start: int, number: int, what: str) -> bytes:
        """Return the name with a number."""
        record = self.read(RECORD, start, 1, what)[0]
        raw = self.read(BYTE, start + RECORD.itemsize, int(record["size"]), what).tobytes()
        if record["number"] != number or raw[-1:] != b"\0":
            self.refuse(f"number {number} of the {what} has no name")
        return raw[:-1]

    def _decode(self, raw: bytes, number: int, what: str, encoding: str) -> str:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path}: number {number} of the {what}, {short(raw)}, is not text in {encoding} "
                f"({error.reason}): specify its encoding"
            ) from None
