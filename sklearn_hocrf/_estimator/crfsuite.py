"""CRFsuite models as fitted estimators and back: :meth:`HighOrderCRF.from_crfsuite`, :func:`tagger.export_crfsuite`.

Model files are read byte by byte. python-crfsuite provides the weights only as a text, which rounds them to 6 decimals
and breaks at line ends in names, and its library ends the process (SIGSEGV) on some damaged files. The format has not
changed since 2011:

    header | features | names of labels | names of attributes | tables of the features of each of these

All numbers are little-endian. A database of names (CQDB) has 256 hash tables of its records, which give an id for each
name, and ends with a list of the positions of the records, by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from .._data._files import output_file, replace_content
from .._data.arrays import offsets_of
from .._data.checks import short
from .._data.labels import sorted_labels
from .._engine.structure.layout import WeightLayout
from .._engine.structure.pairs import FeatureMap
from .._engine.structure.patterns import TOKENS, given_patterns
from .._reading._token_targets import TokenTargets
from .._reading.attributes import Vocabulary
from .._reading.inputs import FeatureSpace, TrainingData
from .._sklearn.layers import MethodsOfModel, layers
from .answers.fitted_model import FittedModel
from .fit.fit_steps import FitSteps
from .labels.constraints import Rules
from .labels.label_parts import compile_label_parts

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
HASH_TABLE = np.dtype([("position", "<u4"), ("size", "<u4")])
SLOT = np.dtype([("hash", "<u4"), ("position", "<u4")])  # position 0: empty
OFFSET, BYTE = np.dtype("<u4"), np.dtype("u1")
VERSION, BYTE_ORDER, N_TABLES = 100, 0x62445371, 256
MAX_SIZE = 2**32 - 1  # of a file in bytes, of which
HEADERS, EACH_NAME, EACH_FEATURE = 4231, 36, 24  # are of all headers, and of a name beside its text, at most
BLOCK = 12  # bytes that are hashed at a time
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
        labels, attributes, _coordinates(info.state_features, *ids), _coordinates(info.transitions, ids[1], ids[1])
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
    names = np.array(attributes, dtype=object)
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
    label_id, attribute_id = _ranks(weights.labels, labels), _ranks(weights.attributes, attributes)
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


def _ranks(names: list[str], in_order: list[str]) -> np.ndarray:
    """Return the position of each name among the sorted names."""
    index_of = {name: i for i, name in enumerate(in_order)}
    return np.array([index_of[name] for name in names], dtype=np.int64)


# --- files ------------------------------------------------------------------------------------------------------------


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


# --- writing ----------------------------------------------------------------------------------------------------------


def write_crfsuite_file(model: Any, path: str | PathLike[str], bias: str | None) -> None:
    """Write a fitted model; parameters and errors as for :func:`sklearn_hocrf.tagger.export_crfsuite`."""
    weights = _written_weights(model, bias)
    labels, attributes = _encoded(weights.labels, "label"), _encoded(weights.attributes, "attribute")
    size = HEADERS + sum(len(key) + EACH_NAME for key in chain(labels, attributes))
    size += EACH_FEATURE * (len(weights.state.weight) + len(weights.transition.weight))
    if size > MAX_SIZE:
        raise ValueError(f"the model takes {size} bytes, but a CRFsuite file has at most {MAX_SIZE}: use l1_reg")
    replace_content(output_file(path), _content(labels, attributes, weights.state, weights.transition))


def _written_weights(model: Any, bias: str | None) -> CRFsuiteWeights:
    """Return the weights of a fitted model other than 0, sorted by source, and the attributes that have some."""
    fitted = FittedModel.inside(model)
    for layer, _ in layers(model, fitted=True):
        if isinstance(layer, MethodsOfModel) and not hasattr(layer, "best_estimator_"):
            raise TypeError(
                f"a CRFsuite file cannot hold a {type(layer).__name__}: export the HighOrderCRF or pipeline inside, or "
                "use export_tagger"
            )
    for what, instead in _lacking(fitted):
        raise ValueError(f"a CRFsuite file cannot hold {what}: {instead}")
    layout, weights, n_labels = fitted.state.layout, fitted.state.weights, len(fitted.labels)
    names, of_patterns = list(fitted.state.features.names), layout.pattern_coef(weights)
    table, intercepts = layout.coef(weights)[:n_labels].T.tocsr(), of_patterns[:n_labels]
    if intercepts.any():
        if not isinstance(bias, str):
            raise ValueError(
                "a CRFsuite file cannot hold the intercepts of labels: fit with fit_intercept=False, or name an "
                "attribute that each token will have, as in bias='bias'"
            )
        names += [] if bias in names else [bias]
        cells = [names.index(bias)] * n_labels, range(n_labels)
        table.resize(len(names), n_labels)
        table = table + sparse.coo_array((intercepts, cells), shape=table.shape)
    table.eliminate_zeros()
    counts = np.diff(table.indptr)
    used = np.flatnonzero(counts)
    state = ReadWeights(np.repeat(np.arange(len(used)), counts[used]), table.indices, table.data)
    runs = np.flatnonzero((layout.patterns.lengths == 2) & (of_patterns != 0))
    pairs = np.array([run[-2:] for run in layout.patterns.labels[runs].tolist()], np.int64).reshape(-1, 2)
    transition = ReadWeights(pairs[:, 0], pairs[:, 1], of_patterns[runs])
    return CRFsuiteWeights(fitted.labels.tolist(), [names[i] for i in used.tolist()], state, transition)


def _lacking(fitted: FittedModel) -> Iterator[tuple[str, str]]:
    """Yield what the format lacks and a model has, and what to use instead."""
    state, layout, weights = fitted.state, fitted.state.layout, fitted.state.weights
    if fitted.labels_segments:
        yield "a model of whole segments", "use HighOrderCRF"
    if layout.patterns.history != TOKENS:
        yield "a history of segments", "use history='tokens' or export_tagger"
    if state.level_zero is not None:
        yield "pruning", "fit without it"
    if layout.parts.n_parts:
        yield "label_parts", "fit without them, or use export_tagger"
    if layout.forbidden or state.borders is not None:
        yield "constraints", "fit without them, or use export_tagger"
    coef = layout.coef(weights)
    coef.eliminate_zeros()
    of_features = np.diff(coef.indptr) > 0
    if of_features[len(fitted.labels) :].any():
        yield "features of two or more labels", "use feature_order=0 or export_tagger"
    if layout.pattern_coef(weights)[layout.patterns.lengths > 2].any():
        yield "patterns of three or more labels", "use max_order=1 or export_tagger"
    if state.features.names is None:
        yield "attributes without names, as of arrays or hashed", "fit on feature dicts or lists of names"


def _encoded(names: list, what: str) -> list[bytes]:
    """Return names as null-terminated bytes, or raise an error that names the first one that cannot be in a file."""
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
    """Return the bytes of a file."""
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
    counts = 0, len(labels), len(attributes)  # CRFsuite counts the features with them
    return np.array((b"lCRF", total, b"FOMC", VERSION, *counts, *places), HEADER).tobytes() + b"".join(parts)


def _references(magic: bytes, source: np.ndarray, n_sources: int, first: int, start: int) -> bytes:
    """Return the table of the features of each source: a count and ids, which begin with ``first`` at the first source.

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
    """Return the database of names whose ids are their positions."""
    sizes = np.array([len(key) for key in keys], np.int64)
    records = np.empty(len(keys), RECORD)
    records["id"], records["size"] = np.arange(len(keys)), sizes
    heads, width = records.tobytes(), RECORD.itemsize
    stored = b"".join(chain.from_iterable((heads[width * i : width * (i + 1)], key) for i, key in enumerate(keys)))
    begin = NAME_OFFSETS.itemsize + N_TABLES * HASH_TABLE.itemsize
    positions = begin + offsets_of(sizes + width)
    hashes = _hashes(keys, sizes)
    slots = offsets_of(2 * np.bincount(hashes % N_TABLES, minlength=N_TABLES))  # of each table, half of them empty
    tables = np.zeros(N_TABLES, HASH_TABLE)
    tables["size"] = np.diff(slots)
    tables["position"] = np.where(tables["size"], positions[-1] + slots[:-1] * SLOT.itemsize, 0)
    buckets = _hashed(hashes, positions[:-1], slots)
    total = int(positions[-1]) + buckets.nbytes
    head = (b"CQDB", total + len(keys) * OFFSET.itemsize, 0, BYTE_ORDER, len(keys), total if keys else 0)
    parts = np.array(head, NAME_OFFSETS), tables, stored, buckets, positions[:-1].astype(OFFSET)
    return b"".join(part if isinstance(part, bytes) else part.tobytes() for part in parts)


def _hashed(hashes: np.ndarray, positions: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Return the slots of all hash tables: a record is in the first empty one from where its hash points."""
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

    It mixes three numbers with blocks of 12 bytes, which the longest names here have to the end: all names at once.
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
        n_after = int(np.searchsorted(-n_blocks, -block - 1))  # have further blocks
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
