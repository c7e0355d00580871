"""Conversion of CRFsuite models: :meth:`HighOrderCRF.from_crfsuite` and :func:`tagger.export_crfsuite`.

The package reads the binary files itself, because python-crfsuite writes the weights only as text with 6 decimals,
which is ambiguous if names contain line ends, and its library crashes the process (SIGSEGV) on some damaged files. The
format has not changed since 2011:

    header | features | names of labels | names of attributes | tables of the features of each of these

All numbers are little-endian. A database of names (CQDB) contains 256 hash tables of its records, which give an id for
each name, followed by a list of the positions of the records, by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .._data.crfsuite_files import (
    EACH_FEATURE,
    EACH_NAME,
    HEADERS,
    MAX_SIZE,
    CRFsuiteWeights,
    ReadWeights,
    _content,
    _encoded,
    read_crfsuite_file,
)
from .._data.folders import output_file, replace_content
from .._engine.structure.layout import WeightLayout
from .._engine.structure.pairs import FeatureMap
from .._engine.structure.patterns import TOKENS, given_patterns
from .._reading.attributes import Vocabulary
from .._reading.inputs import FeatureSpace
from .._reading.labels import sorted_labels
from .._reading.targets import TokenTargets
from .._sklearn.layers import MethodsOfModel, layers
from .answers.fitted import FittedModel
from .fit.fit_steps import FitSteps
from .fit.training import TrainingStructure
from .labels.constraints import Rules, compile_label_parts


def crfsuite_estimator(kind: Any, model: str | PathLike[str], encoding: str) -> Any:
    """Return a CRFsuite model as a fitted ``kind``; the parameters are as for ``HighOrderCRF.from_crfsuite``."""
    if not isinstance(model, (str, PathLike)):
        raise TypeError(
            f"model must be the path of a model file, not a {type(model).__name__}; of a sklearn_crfsuite.CRF it is "
            "crf.modelfile.name"
        )
    return _fitted(kind(max_order=1, fit_intercept=False), read_crfsuite_file(model, encoding), str(model))


def _fitted(crf: BaseEstimator, weights: CRFsuiteWeights, origin: str) -> BaseEstimator:
    """Set the fitted attributes of an estimator from CRFsuite weights, and return the estimator."""
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
    data = TrainingStructure(targets, features, Rules(), parts)
    FitSteps(crf).state_without_solver(data, layout, vector).set_on(crf)
    return crf


def _lay_out(weights: CRFsuiteWeights, labels: list[str], attributes: list[str]) -> tuple[WeightLayout, np.ndarray]:
    """Return the layout of pairs (attribute, label) and (label, next label), in the order of names, and the weights.

    The weights of repeated pairs are added up, as in CRFsuite.
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


# --- writing ----------------------------------------------------------------------------------------------------------


def write_crfsuite_file(model: BaseEstimator, path: str | PathLike[str], bias: str | None) -> None:
    """Write a fitted model; the parameters and errors are as for :func:`sklearn_hocrf.tagger.export_crfsuite`."""
    weights = _written_weights(model, bias)
    labels, attributes = _encoded(weights.labels, "label"), _encoded(weights.attributes, "attribute")
    size = HEADERS + sum(len(key) + EACH_NAME for key in chain(labels, attributes))
    size += EACH_FEATURE * (len(weights.state.weight) + len(weights.transition.weight))
    if size > MAX_SIZE:
        raise ValueError(f"the model takes {size} bytes, but a CRFsuite file has at most {MAX_SIZE}: use l1_reg")
    replace_content(output_file(path), _content(labels, attributes, weights.state, weights.transition))


def _written_weights(model: BaseEstimator, bias: str | None) -> CRFsuiteWeights:
    """Return the nonzero weights of a fitted model, sorted by source, and the attributes with weights."""
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
    """Yield the properties of a model that the format cannot represent, and the alternatives."""
    state, layout, weights = fitted.state, fitted.state.layout, fitted.state.weights
    if fitted.kind.labels_segments:
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
        yield "attributes without names, as of arrays or hashed", "fit on feature dicts or lists of attribute names"
