"""The weights of a fitted model as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._data.checks import check, check_choice, is_integer, short
from .._estimator.answers.fitted import FittedModel
from ._display import Table

EACH_TOKEN = "(each token)"  # in tables, in place of a feature: the weight of each token of a segment

_HEAD = re.compile(r"((?:[^=\\]|\\.)*)=", re.DOTALL)  # up to the first "=" that no backslash escapes
_HASHED = re.compile(r"hash\[\d+\]$")


class Weight(NamedTuple):
    """One weight of a model: a row of the table that :func:`weights_table` returns.

    See the examples of that function.

    Attributes
    ----------
    pattern : tuple of labels
        The label pattern; for weights that labels share (``label_parts``), a tuple that contains the part.
    order : int
        Order of the pattern, its number of labels minus 1; 0 for parts.
    feature : str, int or None
        Name of the feature, or its index if it has none; None for the weight of the pattern itself, and "(each token)"
        for the weight of each token of a segment, ``token_intercept_``.
    template : str, int or None
        The template of the feature, derived from its name: ``"w[0]"`` for ``"w[0]=the"``.
    weight : float
    """

    pattern: tuple
    order: int
    feature: Any
    template: Any
    weight: float


def weights_table(
    estimator: BaseEstimator,
    *,
    label: Any = None,
    feature: Any = None,
    order: int | Iterable[int] | None = None,
    top: int | None = 20,
    sign: str = "both",
) -> Table:
    """Return weights of a fitted model, the largest first.

    Weights show what a model has learned, not the reasons for its predictions: for those, see :func:`explain`. The
    weight of a feature of value 1 is a log-odds; the weights of other features depend on their scales.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, or a pipeline or search around one
        A fitted model; features have the names that the pipeline's other steps gave them.
    label : label, default=None
        Only weights of patterns that end with this label, and of the label's parts.
    feature : str, compiled regular expression, int or bool, default=None
        A name: only weights of this feature or, if it does not exist, of all features whose names begin with it. A
        regular expression: of features whose names it matches anywhere. An index: of this feature. True: all weights of
        features. False: all weights of patterns themselves, and of tokens. None: all.
    order : int, iterable of int or None, default=None
        Only weights of patterns of these orders: 0 for single labels, 1 for pairs of neighbours.
    top : int or None, default=20
        Number of weights; None means all that are not 0.
    sign : {"both", "positive", "negative"}, default="both"
        "both" sorts by absolute values.

    Returns
    -------
    weights : Table
        A list of named tuples (pattern, order, feature, template, weight). Notebooks show it as a table; ``columns``
        are the names, ``to_frame()`` is a data frame, and ``to_html(path)`` writes a page.

    Raises
    ------
    ValueError, TypeError
        If the model has no such label, feature or order, or if a setting is invalid.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, make_pipeline
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> from sklearn_hocrf.inspection import weights_table
    >>> X, y = (
    ...     [["the", "old", "man"], ["the", "man"]],
    ...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
    ... )
    >>> pipe = make_pipeline(
    ...     SequenceFeatureExtractor([("w", -1), ("w", 0)]), HighOrderCRF()
    ... ).fit(X, y)
    >>> weights_table(pipe, label="NOUN", top=3)
    pattern       order  feature   template  weight
    NOUN              0  w[0]=man  w[0]       0.687
    DET ADJ NOUN      2                       0.635
    ADJ NOUN          1                       0.412
    >>> weights_table(pipe, order=1, top=1)[0].pattern  # neighbouring labels
    ('ADJ', 'NOUN')
    """
    check_choice("sign", sign, ("both", "positive", "negative"))
    check(top is None or (is_integer(top) and top >= 1), "top", "a positive integer or None", top)
    fitted = FittedModel.inside(estimator)
    layout, names = fitted.state.layout, feature_names(fitted)
    feature_id = np.full(layout.n_weights, len(names) + 1)  # without a feature
    feature_id[: layout.first_bias] = len(names)
    feature_id[: layout.n_pairs] = layout.pair_feature
    pattern, values = layout.row_of_weight, fitted.state.weights
    chosen = values != 0 if sign == "both" else (values > 0 if sign == "positive" else values < 0)
    chosen &= _of_label(fitted, label)[pattern] & _of_feature(names, feature, len(layout.token_labels) > 0)[feature_id]
    chosen &= _of_order(layout.order_of_weight, order)
    chosen = np.flatnonzero(chosen)
    chosen = chosen[np.argsort(-np.abs(values[chosen]), kind="stable")][:top]
    vocabulary = fitted.state.features.vocabulary
    keys = () if vocabulary is None else vocabulary.complete
    names += [EACH_TOKEN, None]
    rows, patterns = [], row_names(fitted)
    columns = (column[chosen].tolist() for column in (pattern, feature_id, values))
    for z, f, weight in zip(*columns, strict=True):
        labels, name = patterns[z], names[f]
        rows.append(Weight(labels, len(labels) - 1, name, template_of(name, keys, vocabulary is not None), weight))
    return Table(Weight, rows)


def _of_label(fitted: FittedModel, label: Any) -> np.ndarray:
    """Return which patterns end with a label, and which parts the label contains."""
    layout = fitted.state.layout
    if label is None:
        return np.ones(layout.n_rows, bool)
    chosen = np.array([pattern[-1] == label for pattern in fitted.estimator.patterns_], dtype=bool)
    if not chosen.any():
        raise ValueError(f"unknown label={short(label)}; the labels are {short(fitted.labels.tolist())}")
    single = np.flatnonzero(chosen[: len(fitted.labels)])  # none for a label of the segments that tags describe
    parts = [layout.parts.parts[layout.parts.starts[y] : layout.parts.starts[y + 1]] for y in single]
    return np.concatenate([chosen, np.isin(np.arange(layout.parts.n_parts), np.concatenate([[], *parts]))])


def _of_feature(names: list, feature: Any, has_tokens: bool) -> np.ndarray:
    """Return which features are chosen, followed by the choices for weights of tokens and of patterns themselves."""
    if feature is None or isinstance(feature, bool):
        chosen = np.full(len(names) + 2, feature is not False)
        chosen[-2:] = feature is not True
        return chosen
    of_tokens = has_tokens and isinstance(feature, str) and feature == EACH_TOKEN
    if isinstance(feature, re.Pattern):
        matches = [feature.search(str(name)) is not None for name in names]
    elif isinstance(feature, Integral):
        matches = [i == feature for i in range(len(names))]
    elif isinstance(feature, str):
        is_name = feature in names
        matches = [name == feature if is_name else str(name).startswith(feature) for name in names]
    else:
        raise TypeError(f"feature must be a name, a regular expression, a number or a bool, got {short(feature)}")
    if not any(matches) and not of_tokens:
        raise ValueError(f"feature={short(feature)} matches none of the {len(names)} features")
    return np.array([*matches, of_tokens, False])


def _of_order(orders: np.ndarray, order: Any) -> np.ndarray:
    """Return which weights belong to patterns of given orders."""
    if order is None:
        return np.ones(len(orders), bool)
    wanted: Any = list(order) if isinstance(order, Iterable) else [order]
    if not all(map(is_integer, wanted)):
        raise TypeError(f"order must be an integer, several of them, or None, got {short(order)}")
    if not wanted or not np.isin(wanted, orders).all():
        raise ValueError(f"order={short(order)} selects no weights: the model has orders 0 to {orders.max(initial=0)}")
    return np.isin(orders, wanted)


# --- names ------------------------------------------------------------------------------------------------------------


def feature_names(fitted: FittedModel) -> list:
    """Return the names of a model's features, or their indices where they have none."""
    features = fitted.state.features
    return list(range(features.n_features)) if features.names is None else list(features.names)


def row_names(fitted: FittedModel) -> list[tuple]:
    """Return the names of the rows of a model's weights: its patterns, and then its parts of labels, as tuples."""
    return [*fitted.estimator.patterns_, *((part,) for part in fitted.state.part_names.tolist())]


def template_of(name: Any, keys: tuple = (), of_attributes: bool = False) -> Any:
    """Return the part of a feature's name that all features of its template share.

    Parameters
    ----------
    name : str, or int for a feature without a name
    keys : tuple of str
        Keys of feature dicts: the part of names before ":".
    of_attributes : bool
        Whether names are those of feature dicts and attribute lists.

    Examples
    --------
    >>> from sklearn_hocrf.inspection._weights import template_of
    >>> [
    ...     template_of(name)
    ...     for name in [
    ...         "w[-1]|w[0]=in|a=b",
    ...         "begin:w[0]=the",
    ...         "length=7+",
    ...         "bias",
    ...         "hash[12]",
    ...         3,
    ...     ]
    ... ]
    ['w[-1]|w[0]', 'begin:w[0]', 'length', 'bias', 'hash', 3]
    >>> [
    ...     template_of(name, ("word",), True)
    ...     for name in ["word:10:30", "word:a=b", "-1:word.lower():the", "w=the"]
    ... ]
    ['word', 'word', '-1:word.lower()', 'w']
    """
    if not isinstance(name, str):
        return name
    if matching := [key for key in keys if name == key or name.startswith(f"{key}:")]:
        return max(matching, key=len)
    head = _HEAD.match(name)
    if head is not None and head[1]:
        return head[1]
    if of_attributes and name.rpartition(":")[0]:
        return name.rpartition(":")[0]
    return _HASHED.sub("hash", name)
