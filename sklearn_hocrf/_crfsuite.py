"""CRFsuite models as fitted estimators: :meth:`HighOrderCRF.from_crfsuite`.

Model files are read byte by byte. python-crfsuite provides the weights only as a text, which rounds them to 6 decimals
and breaks at line ends in names, and its library ends the process (SIGSEGV) on some damaged files. The format has not
changed since 2011:

    header | features | names of labels | names of attributes | tables of the features of each of these

All numbers are little-endian. A database of names (CQDB) ends with a list of the positions of the records, by id.
"""

from __future__ import annotations

from os import PathLike
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ._data.checks import short
from ._data.labels import sorted_labels
from ._estimator.constraints import Rules
from ._estimator.fit_steps import FitSteps
from ._estimator.label_parts import compile_label_parts
from ._structure.layout import WeightLayout
from ._structure.pairs import FeatureMap
from ._structure.patterns import given_patterns
from ._validation import FeatureSpace, TokenTargets, TrainingData
from ._validation._attributes import Vocabulary

__all__ = ["crfsuite_estimator"]

PENALISED = {"lbfgs": "auto", "l2sgd": "sgd"}  # algorithms for the penalised likelihood, and our solvers
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
OFFSET, BYTE = np.dtype("<u4"), np.dtype("u1")
VERSION = 100
OF_ATTRIBUTE, OF_LABEL = 0, 1  # kinds of features: (attribute, label) and (label, next label)


class ReadWeights(NamedTuple):
    """The weights of pairs."""

    source: np.ndarray  # int64
    target: np.ndarray  # int64
    weight: np.ndarray  # float64


class CRFsuiteWeights(NamedTuple):
    """The weights of a CRFsuite model; missing weights are 0."""

    labels: list[str]
    attributes: list[str]
    state: ReadWeights  # by the ids of attribute and label
    transition: ReadWeights  # by the ids of a label and the next one


def crfsuite_estimator(kind: Any, model: Any, encoding: str) -> Any:
    """Return a CRFsuite model as a fitted estimator of a kind; parameters as for ``HighOrderCRF.from_crfsuite``."""
    if isinstance(model, (str, PathLike)):
        return _fitted(kind(max_order=1, fit_intercept=False), read_crfsuite_file(model, encoding), str(model))
    if hasattr(model, "modelfile") and hasattr(model, "all_possible_states"):
        if getattr(model, "tagger_", None) is None:
            raise NotFittedError(f"this {type(model).__name__} is not fitted, so it has no model")
        path = model.modelfile.name
        return _fitted(_with_parameters_of(kind, model), read_crfsuite_file(path, encoding), path)
    if hasattr(model, "info") and hasattr(model, "marginal"):
        return _fitted(kind(max_order=1, fit_intercept=False), _weights_of_tagger(model), "the Tagger")
    raise TypeError(
        "model must be the path of a model file, a sklearn_crfsuite.CRF or a pycrfsuite.Tagger, not a "
        f"{type(model).__name__}"
    )


def _with_parameters_of(kind: Any, model: Any) -> Any:
    """Return an unfitted estimator that minimises the same function as an estimator of sklearn-crfsuite."""
    params: dict[str, Any] = {"max_order": 1, "fit_intercept": False}
    algorithm = model.algorithm or "lbfgs"
    if algorithm in PENALISED:
        c2 = 1.0 if model.c2 is None else float(model.c2)
        params |= {"sigma_reg": (2 * c2) ** -0.5 if c2 else np.inf, "solver": PENALISED[algorithm]}
    if algorithm == "lbfgs":
        params["l1_reg"] = float(model.c1 or 0.0)
    if model.all_possible_transitions:
        params["patterns"] = "all"
    if model.all_possible_states:
        params["all_pairs"] = True
    if model.min_freq:
        params["min_count"] = float(model.min_freq)
    return kind(**params)


def _weights_of_tagger(tagger: Any) -> CRFsuiteWeights:
    """Return the weights of an open tagger."""
    try:
        info = tagger.info()
    except (AttributeError, AssertionError, IndexError, UnicodeError) as error:  # its parser of its own text has failed
        raise ValueError(
            f"python-crfsuite cannot read the names in its text of this model ({type(error).__name__}): pass the path "
            "of the file"
        ) from error
    labels, attributes = list(info.labels), list(info.attributes)
    ids = [{name: i for i, name in enumerate(names)} for names in (attributes, labels)]
    return CRFsuiteWeights(
        labels,
        attributes,
        _coordinates(info.state_features, *ids),
        _coordinates(info.transitions, ids[1], ids[1]),
    )


def _coordinates(weights: dict, sources: dict, targets: dict) -> ReadWeights:
    """Return the ids of the names of pairs, and their weights."""
    rows, columns = (
        np.array([ids[pair[side]] for pair in weights], dtype=np.int64) for side, ids in enumerate((sources, targets))
    )
    return ReadWeights(rows, columns, np.array(list(weights.values()), dtype=np.float64))


def _fitted(crf: Any, weights: CRFsuiteWeights, origin: str) -> Any:
    """Set the fitted attributes of an estimator from weights, and return it."""
    labels, attributes = sorted(weights.labels), sorted(weights.attributes)
    for what, texts in ("label", labels), ("attribute", attributes):
        if len(set(texts)) < len(texts):
            raise ValueError(f"{origin} has two {what}s with the same name")
    try:
        classes = sorted_labels(labels, [0, len(labels)])
    except ValueError as error:
        raise ValueError(f"{origin} has {len(labels)} labels, but at least two are required") from error
    layout, vector = _lay_out(weights, labels, attributes)
    names = np.empty(len(attributes), dtype=object)
    names[:] = attributes
    targets = TokenTargets(np.empty(0, dtype=np.int32), classes, as_lists=True)
    features = FeatureSpace(len(names), names, Vocabulary.of_names(attributes, ()), is_table=False)
    parts = compile_label_parts(None, classes)
    data = TrainingData(None, targets, None, features, Rules(), parts)  # type: ignore[arg-type]
    FitSteps(crf).end(data, layout, vector)
    return crf


def _lay_out(weights: CRFsuiteWeights, labels: list[str], attributes: list[str]) -> tuple[WeightLayout, np.ndarray]:
    """Return the layout of pairs (attribute, label) and (label, next label), by sorted names, and the weights.

    Repeated pairs count repeatedly, as in CRFsuite.
    """
    label_id, attribute_id = (
        _offsets_of_names(weights.labels, labels),
        _offsets_of_names(weights.attributes, attributes),
    )
    attribute, label = attribute_id[weights.state.source], label_id[weights.state.target]
    before, after = label_id[weights.transition.source], label_id[weights.transition.target]
    n_labels, n_attributes = len(labels), len(attributes)
    patterns = given_patterns(zip(before.tolist(), after.tolist(), strict=True), n_labels)
    shape = (len(patterns.lengths), n_attributes)
    coef = sparse.coo_array((weights.state.weight, (label, attribute)), shape=shape).tocsr()
    coef.sum_duplicates()
    pair_pattern, pair_feature = coef.nonzero()
    runs = sparse.coo_array((weights.transition.weight, (before, after)), shape=(n_labels, n_labels)).toarray()
    longer = np.arange(n_labels, len(patterns.lengths))
    pattern_coef = np.zeros(len(patterns.lengths))
    if len(longer):
        pattern_coef[longer] = runs[tuple(patterns.labels[longer].T)]
    features = FeatureMap.of_tokens(np.arange(n_attributes))
    layout = WeightLayout(patterns, features, pair_feature, pair_pattern, longer)
    return layout, layout.weights(pattern_coef, coef)


def _offsets_of_names(names: list[str], in_order: list[str]) -> np.ndarray:
    """Return the position of each name among the sorted names."""
    index_of = {name: i for i, name in enumerate(in_order)}
    return np.array([index_of[name] for name in names], dtype=np.int64)


# --- files ------------------------------------------------------------------------------------------------------------


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

    def features(self, start: int, n_attributes: int, n_labels: int) -> list[ReadWeights]:
        """Return the weights of both kinds."""
        chunk = self.read(CHUNK_HEADER, start, 1, "features")[0]
        if chunk["magic"] != b"FEAT":
            self.refuse(f"the features begin with {short(chunk['magic'])}")
        table = self.read(FEATURE, start + CHUNK_HEADER.itemsize, int(chunk["count"]), "features")
        if not np.isfinite(table["weight"]).all():
            self.refuse("some weights are not finite")
        found = []
        for kind, n_sources in (OF_ATTRIBUTE, n_attributes), (OF_LABEL, n_labels):
            some = table[table["kind"] == kind]
            if (some["source"] >= n_sources).any() or (some["target"] >= n_labels).any():
                self.refuse(f"some features are not of the {n_attributes} attributes and {n_labels} labels")
            found.append(ReadWeights(some["source"].astype(np.int64), some["target"].astype(np.int64), some["weight"]))
        if sum(len(weights.weight) for weights in found) < len(table):
            self.refuse("some features are of an unknown kind")
        return found

    def names(self, start: int, count: int, what: str, encoding: str) -> list[str]:
        """Return the names in a database, by id."""
        head = self.read(NAME_OFFSETS, start, 1, what)[0]
        if head["magic"] != b"CQDB" or head["count"] < count:
            self.refuse(f"it does not have {count} names of {what}")
        positions = self.read(OFFSET, start + int(head["positions"]), count, what)
        found, n_bytes = [], 0
        for index, position in enumerate(positions.tolist()):
            raw = self._record(start + position, index, what)
            n_bytes += len(raw)
            if n_bytes > len(self.content):  # so that a small file does not fill the memory
                self.refuse(f"names of {what} overlap")
            found.append(self._decode(raw, index, what, encoding))
        return found

    def _record(self, start: int, index: int, what: str) -> bytes:
        """Return the name with an id."""
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
