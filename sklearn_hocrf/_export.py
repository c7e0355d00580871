"""Fitted models as files for :class:`sklearn_hocrf.tagger.Tagger`; ``tagger`` describes the format."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ._data.schemes import guessed_scheme, split_tag
from ._data.texts import pack_texts
from ._estimator.fitted_model import FittedModel
from ._files import claimed, output_file, replace
from ._structure.weighted_arcs import weighted_arcs
from ._validation._delegation import steps_inside
from .feature_extraction import SequenceFeatureExtractor
from .feature_extraction._extractor import fitted_templates
from .feature_extraction._plan import are_strings
from .feature_extraction._string_templates import StringTemplates
from .feature_extraction._token_functions import Phrases
from .tagger import (
    ALIGNMENT,
    ARRAYS,
    MAGIC,
    MAX_CELLS,
    MAX_HEADER,
    MAX_KEY,
    MAX_NUMBER,
    MAX_PACKED,
    MAX_RATIO,
    MAX_WEIGHT,
    SMALL_FILE,
    Exported,
    Tagger,
)

__all__ = ["export"]

LARGEST_PREFIX = 1 << 52  # keys of the first columns of a template, before these are joined to one


def export(
    model: Any, path: str | os.PathLike, dtype: str = "float32", compress: bool | None = None, X: Any = None
) -> Exported:
    """Write a fitted model into a file; see :func:`sklearn_hocrf.tagger.export_tagger`."""
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r:.60}")
    fitted = FittedModel.inside(model)
    *transformers, _ = steps_inside(model)
    target = output_file(path)
    content = _content(fitted, transformers, dtype, compress)
    with claimed(target) as new:
        try:
            new.write_bytes(content)
            replace(new, target)
        finally:
            new.unlink(missing_ok=True)
    return Exported(len(content)) if X is None else _compare(model, X, len(content), content, transformers)


def _content(fitted, transformers, dtype, compress) -> bytes:
    """Return the bytes of a file."""
    _refuse_kinds(fitted)
    columns, weights = _columns(fitted)
    labels = fitted.labels.tolist()
    for label in labels:
        fits = isinstance(label, (str, bool)) or (isinstance(label, (int, float)) and abs(label) <= MAX_NUMBER)
        if not fits:
            raise ValueError(f"a tagger has labels that are texts or numbers, not {label!r:.60}")
    arrays = _automaton(fitted, columns)
    borders = fitted.state.borders
    arrays["borders"] = np.ones((2, len(labels)), np.uint8) if borders is None else borders.astype(np.uint8)
    arrays["always"] = np.zeros((3, weights.shape[1]))
    features = _features(fitted, transformers, weights, arrays)
    header = {
        "labels": labels,
        "scheme": _scheme(fitted),
        "n_columns": weights.shape[1],
        "features": features,
    }
    return _pack(header, arrays, dtype, compress)


def _pack(header, arrays, dtype, compress) -> bytes:
    """Return the bytes of a file with a header and arrays."""
    parts: list[bytes] = []
    entries: dict[str, tuple] = {}
    offset = 0
    for name, (kind, _) in ARRAYS.items():
        array = np.asarray(arrays[name])
        if kind == "f":
            with np.errstate(over="ignore"):
                array = array.astype(np.dtype(dtype).newbyteorder("<"))
            if not float(np.abs(array).max(initial=0.0)) <= MAX_WEIGHT:
                raise ValueError(f"some weights are larger than {dtype}, or a tagger, can have")
        array = array if kind == "f" else _smallest(array)
        entries[name] = array.dtype.str, array.shape, offset
        parts.append(_padded(array.tobytes()))
        offset += len(parts[-1])
    body, packed = b"".join(parts), None
    if compress or (compress is None and len(body) <= SMALL_FILE and find_spec("_lzma")):
        packed, body = len(body), _compressed(body)
    header = {**header, "packed": packed, "arrays": entries}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > MAX_HEADER:
        raise ValueError(f"labels, fields and templates take {len(text)} bytes, more than {MAX_HEADER}")
    return _padded(MAGIC + len(text).to_bytes(8, "little") + text) + body


def _padded(content) -> bytes:
    return content + bytes(-len(content) % ALIGNMENT)


def _compressed(body) -> bytes:
    """Return an .xz stream; most of its bytes come in fours, as weights do."""
    import lzma  # not every Python has it

    size = min(max(len(body), 1 << 12), 1 << 24)  # of what a reader keeps
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": size, "lc": 2, "lp": 2, "pb": 2}]
    stream = lzma.compress(body, lzma.FORMAT_XZ, filters=filters)
    if len(body) > min(MAX_PACKED, MAX_RATIO * len(stream)):
        raise ValueError(f"a file of {len(body)} bytes cannot be compressed: compress=False")
    return stream


def _smallest(array) -> np.ndarray:
    """Return an array of integers in the smallest type, unless it is of unsigned ones already."""
    if array.dtype.kind != "u":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    return array.astype(array.dtype.newbyteorder("<"))


# --- the model --------------------------------------------------------------------------------------------------------


def _refuse_kinds(fitted) -> None:
    """Raise a ValueError for models that a tagger cannot have."""
    if fitted.labels_segments:
        raise ValueError("a tagger is for HighOrderCRF: models of whole segments need the features of all of them")
    if fitted.state.level_zero is not None:
        raise ValueError("a tagger keeps all labels, so pruning, which would need a second model, is not for it")


def _scheme(fitted) -> str | None:
    """Return how labels describe segments; None for labels that are tags in part."""
    scheme, labels = fitted.scheme, fitted.labels.tolist()
    begins = any(isinstance(label, str) and label.startswith("B-") and split_tag(label, "bio") for label in labels)
    return None if begins and scheme == "runs" == guessed_scheme(labels) else scheme


def _columns(fitted) -> tuple[dict, sparse.csr_array]:
    """Return the column of each longer pattern that has weights with features, and the weights, by attribute.

    The first columns are those of the labels. Weights of their parts are added to them.
    """
    layout, n_labels = fitted.state.layout, len(fitted.labels)
    rows = layout.row_coef(fitted.state.weights)
    of_labels = rows[:n_labels]
    n_patterns = len(layout.patterns.lengths)
    if layout.parts.n_parts:
        of_labels = of_labels + layout.parts.matrix() @ rows[n_patterns:]
    of_patterns = sparse.csr_array(rows[n_labels:n_patterns])
    of_patterns.eliminate_zeros()
    used = np.flatnonzero(np.diff(of_patterns.indptr))
    weights = sparse.vstack([of_labels, of_patterns[used]]).tocsr()
    features = np.arange(layout.n_features), layout.features.attribute
    n_attributes = int(layout.features.attribute.max(initial=-1)) + 1
    to_attribute = sparse.csr_array((np.ones(layout.n_features), features), shape=(layout.n_features, n_attributes))
    by_attribute = sparse.csr_array((weights @ to_attribute).T)
    by_attribute.sum_duplicates()
    by_attribute.eliminate_zeros()
    return {n_labels + pattern: n_labels + place for place, pattern in enumerate(used.tolist())}, by_attribute


def _automaton(fitted, column_of_pattern) -> dict:
    """Return the arrays of states and arcs; states shortest first."""
    layout = fitted.state.layout
    automaton, scores = layout.automaton, weighted_arcs(layout, fitted.state.weights)._asdict()["arc_score"]
    if automaton.n_states * automaton.n_labels > MAX_CELLS:
        raise ValueError(
            f"a tagger has at most {MAX_CELLS} pairs of a state and a label, but the patterns of the model have "
            f"{automaton.n_states} states for {automaton.n_labels} labels: lower max_order"
        )
    order = np.argsort(automaton.state_length, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    columns: list[list] = [[] for _ in range(automaton.n_arcs)]
    for arc, columns_of_arc in enumerate(columns) if column_of_pattern else ():
        suffix = arc
        while suffix >= 0:
            column = column_of_pattern.get(int(automaton.arc_pattern[suffix]))
            columns_of_arc += [] if column is None else [column]
            suffix = int(automaton.arc_suffix[suffix])
    closed = np.isneginf(scores)
    return {
        "fail": number[automaton.fail[order]],
        "length": automaton.state_length[order],
        "source": number[automaton.arc_source],
        "label": automaton.arc_label,
        "target": number[automaton.arc_target],
        "score": np.where(closed, 0.0, scores),
        "closed": closed.astype(np.uint8),
        "n_moved": np.array(list(map(len, columns)), np.int64),
        "moved": np.array([column for each in columns for column in each], np.int64),
    }


# --- the features -----------------------------------------------------------------------------------------------------


def _features(fitted, transformers, weights, arrays) -> dict:
    """Return the description of features, and add their arrays."""
    arrays.update(key=np.empty(0, np.uint8), joined=np.empty(0, np.uint8))
    space = fitted.state.features
    if not transformers and space.vocabulary is not None:
        return _names(list(space.vocabulary), weights, arrays)
    if len(transformers) > 1:
        names = ", ".join(type(transformer).__name__ for transformer in transformers)
        raise ValueError(f"a tagger has one transformer before the model at most, not {names}")
    if not transformers or not isinstance(transformers[0], SequenceFeatureExtractor):
        what = type(transformers[0]).__name__ if transformers else "numbers, or a SequenceBatch"
        raise ValueError(f"a tagger reads tokens, feature dicts and lists of names, but the model gets {what}")
    (extractor,) = transformers
    if space.n_features != getattr(extractor, "n_features_out_", None):
        raise ValueError(f"the model was not fitted on the features of {type(extractor).__name__}")
    if fitted_templates(extractor).has_earlier:
        raise ValueError("the extractor adds to features of a SequenceBatch, which a tagger cannot read")
    is_string = are_strings(extractor.templates)
    if not is_string and extractor.templates != "attributes":
        return _Templates(extractor).features(weights, arrays)
    found = _names(extractor.get_feature_names_out().tolist(), weights, arrays)
    return _strings(extractor) if is_string else found


def _names(names, weights, arrays) -> dict:
    kept = np.flatnonzero(np.diff(weights.indptr))
    _add_weights(weights[kept], arrays)
    _add_texts([names[i] for i in kept.tolist()], arrays)
    return {"kind": "names"}


def _strings(extractor) -> dict:
    """Return the templates of CRF++ or Wapiti as a tagger describes them."""
    compiled, templates = StringTemplates(extractor.templates, extractor.padding), []
    for line in compiled.making:
        parts: list = [line.texts[0]]
        for place, text in zip(line.places, line.texts[1:], strict=True):
            parts += [list(place), text]
        templates.append(parts)
    fields = list(map(_name, extractor.fields_[: compiled.n_columns]))
    named = {} if fields == list(range(len(fields))) else {"fields": fields}
    return {"kind": "strings", "templates": templates, "outside": compiled.style, **named}


def _add_weights(weights, arrays):
    arrays.update(n_weights=np.diff(weights.indptr), column=weights.indices, weight=weights.data)


def _add_texts(texts, arrays):
    arrays["text"], arrays["n_text"] = pack_texts(texts)


class _Joined(NamedTuple):
    """Columns that stand for the first columns of templates, where there would be too many keys."""

    entries: list  # of the header
    keys: list  # of ndarray


class _Templates:
    """A fitted extractor as a tagger describes it."""

    def __init__(self, extractor):
        self.extractor, self.fitted = extractor, fitted_templates(extractor)
        functions = extractor.token_features_.items()
        self.phrases = {name: (field, own) for name, (field, own) in functions if isinstance(own, Phrases)}
        self.place = {name: i for i, name in enumerate([*extractor.fields_, *self.phrases])}
        if extractor.n_features is not None:
            raise ValueError("a tagger finds attributes by their values, so hashing (n_features) is not for it")
        if self.fitted.array_fields:
            raise ValueError(f"a tagger has no fields of arrays, such as {self.fitted.array_fields[0]!r:.60}")
        self.tables = self.fitted.vocabularies.tables
        self.names = list(self.tables)
        self.number = {name: i for i, name in enumerate(self.names)}
        self.joined, self.texts = _Joined([], []), []

    def features(self, weights, arrays) -> dict:
        """Return the description of features, and add their arrays."""
        kept = np.diff(weights.indptr) > 0
        chosen = self._chosen(weights, kept, arrays)
        codes = [own.codes(rows) for own, rows in zip(self.fitted.vocabularies.all, chosen, strict=True)]
        columns, numbers = self._columns(codes)
        radices = [4 if column["numeric"] else column["values"] + 3 for column in columns]
        templates, keys, first = [], [np.empty(0, np.int64)], 0
        for own, of_parts in zip(self.fitted.vocabularies.all, codes, strict=True):
            parts = [[self.number[field], offset] for field, offset in own.template]
            new = [numbers[column][code] for (column, _), code in zip(parts, of_parts, strict=True)]
            parts, new = self._join(parts, new, radices)
            templates.append(parts)
            key, size = _keys(parts, new, radices)
            keys.append(first + key)
            first += size
        if first >= MAX_KEY:
            raise ValueError("the templates have too many columns with too many values for a tagger")
        key = np.concatenate(keys)
        order = np.argsort(key)
        arrays["key"] = np.diff(key[order], prepend=0)
        rows = np.flatnonzero(kept[: sum(map(len, self.fitted.vocabularies.all))])
        _add_weights(weights[rows[order]], arrays)
        phrases = self._phrases()
        _add_texts(self.texts, arrays)
        arrays["joined"] = np.concatenate([np.empty(0, np.int64), *self.joined.keys])
        entries = {"columns": columns, "joined": self.joined.entries, "templates": templates}
        flags = {"by_position": self.fitted.by_position, "marks": self.extractor.padding == "mark"}
        return {"kind": "templates", "fields": self._fields(), **flags, **entries, **phrases}

    def _phrases(self) -> dict:
        """Return the entry of phrases, whose texts are added."""
        entries = []
        for name, (field, own) in self.phrases.items():
            if any("\0" in word for words in own.words for word in words):
                raise ValueError(f"a tagger has no phrases with the character 0, as in the list {name!r:.60}")
            self.texts += ["\0".join(words) for words in own.words]
            of_user = callable(own.normalize)
            normalize = _called(own.normalize) if of_user else own.normalize
            lists = [[_name(name), len(own.words)]]
            entries.append({"field": self.place[field], "normalize": normalize, "own": of_user, "lists": lists})
        return {"phrases": entries} if entries else {}

    def _chosen(self, weights, kept, arrays) -> list:
        """Return which attributes of each template have weights; add those of the others to the arrays."""
        chosen, start = [], 0
        for own in self.fitted.vocabularies.all:
            chosen.append(np.flatnonzero(kept[start : start + len(own)]))
            start += len(own)
        place = {"bias": 0, "__BOS__": 1, "__EOS__": 2}
        for row, name in enumerate(self.fitted.always, start=start):
            if row < weights.shape[0]:
                arrays["always"][place[name]] = weights[[row]].toarray()[0]
        return chosen

    def _fields(self) -> list:
        complete, fields = set(self.extractor.complete_fields_), []
        for name in self.place:
            numeric = name not in self.fitted.text_fields and name not in self.phrases
            fields.append({"name": _name(name), "numeric": numeric, "complete": name in complete})
        return fields

    def _columns(self, codes):
        """Return the columns of the header, and the number of each code of their values; those in no key have 0."""
        columns, numbers = [], []
        for name, table in self.tables.items():
            field, function = self.extractor.token_features_.get(name, (name, None))
            if name in self.phrases:
                field, function = name, None
            own = function is not None and not isinstance(function, str)
            used = np.zeros(table.size, bool)
            for template, of_parts in zip(self.fitted.vocabularies.all, codes, strict=True):
                for (part, _), code in zip(template.template, of_parts, strict=True):
                    if part == name:
                        used[code[code < table.size]] = True
            used |= table.labels is None
            number = np.append(np.cumsum(used), used.sum() + np.array([1, 2]))
            columns.append(
                {
                    "field": self.place[field],
                    "name": _name(name),
                    "function": _called(function) if own else function,
                    "own": own,
                    "numeric": table.labels is None,
                    "values": 0 if table.labels is None else int(used.sum()),
                }
            )
            numbers.append(number)
            self.texts += [] if table.labels is None else [table.labels[i] for i in np.flatnonzero(used).tolist()]
        return columns, numbers

    def _join(self, parts, codes, radices):
        """Return the parts of a template and their codes; the first ones are joined where keys would be too large."""
        size = radices[parts[0][0]]
        for i in range(1, len(parts)):
            size *= radices[parts[i][0]]
            if size > LARGEST_PREFIX and i > 1:
                key, _ = _keys(parts[:i], codes[:i], radices)
                known, place = np.unique(key, return_inverse=True)
                self.joined.entries.append({"parts": parts[:i], "n_keys": len(known)})
                self.joined.keys.append(np.diff(known, prepend=0))
                radices.append(len(known) + 1)
                column = len(self.tables) + len(self.joined.entries) - 1
                return self._join([[column, 0], *parts[i:]], [place + 1, *codes[i:]], radices)
        return parts, codes


def _called(function) -> str:
    """Return the name of a function of the user, for messages."""
    return getattr(function, "__qualname__", type(function).__name__)


def _name(name):
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise ValueError(f"a tagger has names of fields that are texts or integers, not {name!r:.60}")
    return name


def _keys(parts, codes, radices):
    """Return keys in mixed radix, and how many there could be."""
    key, size = np.zeros(len(codes[0]), np.int64), 1
    for (column, _), code in zip(parts, codes, strict=True):
        key = key * radices[column] + code
        size *= radices[column]
    return key, size


# --- comparison -------------------------------------------------------------------------------------------------------


def _compare(model, X, n_bytes, content, transformers) -> Exported:
    """Return how the answers of a file differ from those of the estimator."""
    functions: dict[str, Any] = {}
    for transformer in transformers:
        for name, (_, function) in getattr(transformer, "token_features_", {}).items():
            own = function.normalize if isinstance(function, Phrases) else function
            functions |= {name: own} if callable(own) else {}
    tagger, fitted = Tagger(content, functions=functions), FittedModel.and_input(model, X)
    estimator, batch = fitted[0].estimator, fitted[1]
    predicted = estimator.predict(batch)
    n_tokens = n_different = 0
    for tokens, labels in zip(X, predicted, strict=True):
        n_tokens += len(labels)
        n_different += sum(one != other for one, other in zip(tagger.tag(tokens), list(labels), strict=True))
    pairs = zip(X, estimator.predict_marginals(batch), strict=True)
    largest = max((float(np.abs(tagger.marginals(x) - of_x).max(initial=0.0)) for x, of_x in pairs), default=0.0)
    return Exported(n_bytes, largest, n_different, n_tokens)
