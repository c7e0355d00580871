"""Fitted models as files for :class:`sklearn_hocrf.tagger.Tagger`.

https://sklearn-hocrf.github.io/sklearn-hocrf/stable/api/tagger_file.html describes the container, a safetensors file.
Entries of the header:

format
    1.
labels
    The L labels: strings, numbers or booleans.
scheme
    How labels describe segments: "runs", "bio", "bioes", "bilou", "bmes", "iob1" or null.
n_columns
    C, the number of scores of a token; those of the L labels come first.
packed
    By name, the type and shape of each array that the file contains as a gzip stream of its bytes. With
    ``export_tagger(model, path, compress=False)``, there are no such arrays.
features
    The description of the attributes; see below.

Arrays, for S states, A arcs and V attributes:

fail, length
    (S,) the longest proper suffix that is a state; the number of labels of the state. State 0 is empty, states 1 to L
    are the single labels, and states are sorted by length.
source, label, target
    (A,) the state that an arc leaves, the label that it reads, and the state that it enters. A state without an arc for
    a label uses the arc of its longest suffix with such an arc; state 0 has arcs for all labels.
score, closed
    (A,) the score of an arc; whether it is impossible (0 or 1). No weight exceeds 1e100.
n_moved, moved
    For each arc, the number of token scores that are added to the score of the arc; the columns of these scores.
borders
    (2, L) whether a label may begin and end a sequence (0 or 1).
always
    (3, C) scores that are added at every token, at the first token, and at the last token.
n_weights, column, weight
    (V,) the number of weights of each attribute; the column and the value of each weight, attribute by attribute.
text, n_text
    All strings in UTF-8, one after the other; the number of characters of each string.
code
    The codes of template attributes, each as the difference from the previous code, modulo the range of the type.

``features`` is ``{"kind": "names"}`` if the V strings are the names of attributes, as in feature dicts or lists of
names. Templates of CRF++ or Wapiti have the kind "strings" and these entries:

templates
    Lists that begin and end with a string. Between strings, ``[offset, column, lower]`` represents the value of the
    token at this offset in a column, counted from 0, converted to lower case if ``lower`` is true.
outside
    The strings for position p < 0 and for the n-th position after the end: "crf++" for ``_Bp`` and ``_B+n``, "wapiti"
    for ``_xp`` and ``_x+n``, where distances above 4 are ``#``. These strings are never converted to lower case.
fields
    Only if columns have names: the names of the columns that are read. If tokens are dicts, these names are the keys.

Field templates have the kind "templates" and these entries:

fields
    ``name``, ``numeric`` and ``complete`` (whether all training tokens contained the field) of each field, and
    ``by_position`` (whether tokens may be tuples).
columns
    Each column is the result of a ``function`` of a ``field``: a named function, a user-defined function (``own``) or
    null. ``values`` is the number of the column's strings, which have the codes 0, 1 and so on; a ``numeric`` column
    contains no strings, and nonzero numbers have the code 0. With ``marks``, the next two codes represent positions
    before and after the sequence.
templates
    For each template, ``places`` (pairs of a column and an offset) and the number of ``attributes``, one for each
    combination of values. For one template after the other, the array ``code`` contains the codes of all attributes at
    the first place, then at the second place, and so on. There is no attribute where a value is missing or has no code.
    The value of an attribute is the product of the numbers at its places, or 1 if there are none.
phrases
    Only with lists of phrases: each list compares the strings of a ``field`` with ``size`` phrases. The strings of the
    phrases follow those of the columns, with the character 0 between words. The last ``fields`` are those of the lists,
    in which "B", "I", "E" and "S" mark the first, inner, last and only token of a phrase. ``normalize`` is "casefold"
    or null.
"""

from __future__ import annotations

import gzip
import json
import os
from itertools import takewhile
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .._data import tagger as _tagger
from .._data.folders import output_file, replace_content
from .._data.messages import pack_texts
from .._data.tagger import ARRAYS, TYPES
from .._engine.structure.weighted_arcs import weighted_arcs
from .._reading.schemes import mixed_tags
from .._sklearn.layers import TaggerFeatures, steps_inside
from .answers.fitted import FittedModel


def export(model: BaseEstimator, path: str | os.PathLike, dtype: str = "float32", compress: bool | None = None) -> int:
    """Write a fitted model to a file; see :func:`sklearn_hocrf.tagger.export_tagger`."""
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r:.60}")
    fitted = FittedModel.inside(model)
    *transformers, _ = steps_inside(model)
    target = output_file(path)
    content = _content(fitted, transformers, dtype, compress)
    replace_content(target, content)
    return len(content)


def _content(fitted, transformers, dtype, compress) -> bytes:
    """Return the content of a tagger file, in bytes."""
    _refuse_kinds(fitted)
    columns, weights = _columns(fitted)
    labels = fitted.labels.tolist()
    for label in labels:
        fits = isinstance(label, (str, bool)) or (isinstance(label, (int, float)) and abs(label) <= _tagger.MAX_NUMBER)
        if not fits:
            raise ValueError(f"a tagger has labels that are texts or numbers, not {label!r:.60}")
    arrays = _automaton(fitted, columns)
    borders = fitted.state.borders
    arrays["borders"] = np.ones((2, len(labels)), np.uint8) if borders is None else borders.astype(np.uint8)
    features = _features(fitted, transformers, np.diff(weights.indptr) > 0)
    always = [row for row, _ in features.always]
    arrays["always"] = np.zeros((3, weights.shape[1]))
    arrays["always"][always] = weights[[attribute for _, attribute in features.always]].toarray()
    chosen = weights[features.attributes]
    arrays.update(n_weights=np.diff(chosen.indptr), column=chosen.indices, weight=chosen.data)
    arrays.update(code=features.code)
    arrays["text"], arrays["n_text"] = pack_texts(features.texts)
    header = {"labels": labels, "scheme": _scheme(fitted), "n_columns": weights.shape[1], "features": features.entry}
    return _pack(header, arrays, dtype, compress)


def _pack(header, arrays, dtype, compress) -> bytes:
    """Return the bytes of a safetensors file, with arrays sorted by item size and the header in the metadata."""
    contents: dict[str, np.ndarray] = {}
    for name, (kind, _) in ARRAYS.items():
        array = np.asarray(arrays[name])
        if kind == "f":
            with np.errstate(over="ignore"):
                array = array.astype(np.dtype(dtype).newbyteorder("<"))
            if not float(np.abs(array).max(initial=0.0)) <= _tagger.MAX_WEIGHT:
                raise ValueError(f"some weights are larger than {dtype}, or a tagger, can have")
        contents[name] = array if kind == "f" else _smallest(array)
    contents["code"] = np.diff(contents["code"], prepend=contents["code"].dtype.type(0))  # differences compress better
    packed = {}
    if compress or (compress is None and sum(array.nbytes for array in contents.values()) <= _tagger.SMALL_FILE):
        for name in (name for name, (kind, _) in ARRAYS.items() if kind == "u"):  # weights hardly compress
            array, stream = contents[name], gzip.compress(contents[name].tobytes(), mtime=0)
            if len(stream) < 0.9 * array.nbytes <= _tagger.MAX_RATIO * len(stream):
                packed[name], contents[name] = _type_and_shape(array), np.frombuffer(stream, np.uint8)
    entries: dict[str, Any] = {}
    stop, parts = 0, sorted(contents.items(), key=lambda part: (-part[1].itemsize, part[0]))
    for name, array in parts:
        start, stop = stop, stop + array.nbytes
        entries[name] = dict(zip(("dtype", "shape"), _type_and_shape(array), strict=True), data_offsets=[start, stop])
    entries["__metadata__"] = {"hocrf": _json({"format": 1, "packed": packed, **header})}
    text = _json(entries).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _tagger.MAX_HEADER:
        raise ValueError(f"labels, fields and templates take {len(text)} bytes, more than {_tagger.MAX_HEADER}")
    return b"".join([len(text).to_bytes(8, "little"), text, *(array.tobytes() for _, array in parts)])


def _json(content) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def _type_and_shape(array) -> tuple[str, tuple]:
    """Return the type of an array by its name in safetensors files, and the shape."""
    return next(name for name, dtype in TYPES.items() if dtype == array.dtype.str), array.shape


def _smallest(array) -> np.ndarray:
    """Return an array of integers with the smallest unsigned type; arrays of unsigned types keep their type."""
    if array.dtype.kind != "u":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    return array.astype(array.dtype.newbyteorder("<"))


# --- the model --------------------------------------------------------------------------------------------------------


def _refuse_kinds(fitted) -> None:
    """Raise a ValueError for models that a tagger cannot represent."""
    if fitted.kind.labels_segments:
        raise ValueError("a tagger is for HighOrderCRF: models of whole segments need the features of all of them")
    if fitted.state.level_zero is not None:
        raise ValueError("a tagger keeps all labels, so pruning, which would need a second model, is not for it")


def _scheme(fitted) -> str | None:
    """Return the scheme by which labels describe segments; None if only some labels are tags."""
    scheme, labels = fitted.scheme, fitted.labels.tolist()
    return None if scheme == "runs" and mixed_tags(labels) else scheme


def _columns(fitted) -> tuple[dict, sparse.csr_array]:
    """Return the columns of patterns of several labels with feature weights, and the weights, one row per attribute.

    The first columns are those of the labels; they include the weights of the labels' parts.
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
    return {n_labels + pattern: n_labels + i for i, pattern in enumerate(used.tolist())}, by_attribute


def _automaton(fitted, column_of_pattern) -> dict:
    """Return the arrays of states and arcs, with the states sorted by length."""
    layout = fitted.state.layout
    automaton, scores = layout.automaton, weighted_arcs(layout, fitted.state.weights)._asdict()["arc_score"]
    if automaton.n_states * automaton.n_labels > _tagger.MAX_CELLS:
        raise ValueError(
            f"a tagger has at most {_tagger.MAX_CELLS} pairs of a state and a label, but the patterns of the model "
            f"have {automaton.n_states} states for {automaton.n_labels} labels: lower max_order"
        )
    order = np.argsort(automaton.state_length, kind="stable")
    new_id = np.empty(len(order), np.int64)
    new_id[order] = np.arange(len(order))
    columns: list[list] = [[] for _ in range(automaton.n_arcs)]
    for arc, columns_of_arc in enumerate(columns) if column_of_pattern else ():
        suffix = arc
        while suffix >= 0:
            column = column_of_pattern.get(int(automaton.arc_pattern[suffix]))
            columns_of_arc += [] if column is None else [column]
            suffix = int(automaton.arc_suffix[suffix])
    closed = np.isneginf(scores)
    return {
        "fail": new_id[automaton.fail[order]],
        "length": automaton.state_length[order],
        "source": new_id[automaton.arc_source],
        "label": automaton.arc_label,
        "target": new_id[automaton.arc_target],
        "score": np.where(closed, 0.0, scores),
        "closed": closed.astype(np.uint8),
        "n_moved": np.array(list(map(len, columns)), np.int64),
        "moved": np.array([column for each in columns for column in each], np.int64),
    }


# --- the features -----------------------------------------------------------------------------------------------------


def _features(fitted, transformers, kept) -> TaggerFeatures:
    """Return the description of the attributes by the transformer or the model; ``kept`` marks those with weights."""
    space = fitted.state.features
    if not transformers and space.vocabulary is not None:
        return TaggerFeatures.of_names(list(space.vocabulary), kept)
    preprocessors = list(takewhile(lambda step: not hasattr(step, "__tagger_features__"), transformers))
    last = transformers[len(preprocessors) :]
    if preprocessors and (len(last) == 1 or (not last and space.vocabulary is not None)):
        steps = "the last two steps of the pipeline" if last else "the last step of the pipeline"
        names = _names(preprocessors)
        raise ValueError(f"a tagger cannot contain {names}: export {steps}, and apply {names} before the tagger")
    if len(transformers) > 1:
        raise ValueError(f"a tagger has one transformer before the model at most, not {_names(transformers)}{_NUMBERS}")
    if not last:
        what = _names(preprocessors) or "numbers, or a SequenceBatch"
        raise ValueError(
            f"a tagger reads tokens, feature dicts and lists of attribute names, but the model gets {what}{_NUMBERS}"
        )
    (transformer,) = transformers
    if space.n_features != getattr(transformer, "n_features_out_", None):
        raise ValueError(f"the model was not fitted on the features of {type(transformer).__name__}")
    return transformer.__tagger_features__(kept)


_NUMBERS = (
    "; for rows of numbers, put a SequenceFeatureExtractor() before the model, fit again, export the last two steps, "
    "and apply those before them before the tagger"
)


def _names(steps) -> str:
    return f"{', '.join(type(step).__name__ for step in steps):.120}"
