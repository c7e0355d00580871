"""The weights of a fitted model as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._data.checks import check, is_integer, short
from .._estimator.answers.fitted import FittedModel
from ._display import Table

EACH_TOKEN = "(each token)"  # in tables, in place of a feature: the weight of each token of a segment


class Weight(NamedTuple):
    """One weight of a model: a row of the table that :func:`weights_table` returns.

    See the examples of :func:`weights_table`.

    Attributes
    ----------
    pattern : tuple of labels
        The label pattern; for weights that labels share (``label_parts``), a tuple that contains the part.
    order : int
        Order of the pattern, which is its number of labels minus 1; 0 for parts.
    feature : str, int or None
        Name of the feature, or its index if it has no name; None for the weight of the pattern itself, and "(each
        token)" for the weight of each token of a segment (``token_intercept_``).
    weight : float
    """

    pattern: tuple
    order: int
    feature: Any
    weight: float


def weights_table(
    estimator: BaseEstimator,
    *,
    label: Any = None,
    feature: Any = None,
    order: int | Iterable[int] | None = None,
    top: int | None = 20,
) -> Table:
    """Return the weights of a fitted model, with the largest absolute values first.

    Weights describe the model as a whole; :func:`explain` gives the reasons for a single prediction. If a feature has
    the value 1, its weights are log-odds; otherwise, they depend on the scale of the feature's values.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, or a pipeline or search around one
        A fitted model. In a pipeline, features have the names that the other steps gave them.
    label : label, default=None
        If not None, only the weights of patterns that end with this label, and of the label's parts, are returned.
    feature : str, int or bool, default=None
        A name selects the weights of this feature or, if there is no such feature, of all features whose names begin
        with it. An index selects a feature if features have no names. True selects all weights of features, False all
        weights of patterns themselves and of tokens, and None all weights.
    order : int, iterable of int or None, default=None
        If not None, only the weights of patterns of these orders are returned: 0 for single labels, 1 for pairs of
        neighbouring labels.
    top : int or None, default=20
        Maximum number of weights; None means all nonzero weights.

    Returns
    -------
    weights : Table
        A list of named tuples (pattern, order, feature, weight). Notebooks show it as a table, and
        ``pandas.DataFrame`` converts it to a data frame.

    Raises
    ------
    ValueError, TypeError
        If the model has no such label, feature or order, or if a parameter is invalid.

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
    pattern       order  feature   weight
    NOUN              0  w[0]=man   0.687
    DET ADJ NOUN      2             0.635
    ADJ NOUN          1             0.412
    >>> weights_table(pipe, order=1, top=1)[0].pattern  # neighbouring labels
    ('ADJ', 'NOUN')
    """
    check(top is None or (is_integer(top) and top >= 1), "top", "a positive integer or None", top)
    fitted = FittedModel.inside(estimator)
    layout, (feature_id, names) = fitted.state.layout, features_of_weights(fitted)
    pattern, values = layout.row_of_weight, fitted.state.weights
    chosen = (values != 0) & _of_label(fitted, label)[pattern]
    chosen &= _of_feature(names[:-2], feature, len(layout.token_labels) > 0)[feature_id]
    chosen &= _of_order(layout.order_of_weight, order)
    chosen = np.flatnonzero(chosen)
    chosen = chosen[np.argsort(-np.abs(values[chosen]), kind="stable")][:top]
    rows, patterns = [], row_names(fitted)
    columns = (column[chosen].tolist() for column in (pattern, feature_id, values))
    for z, f, weight in zip(*columns, strict=True):
        rows.append(Weight(patterns[z], len(patterns[z]) - 1, names[f], weight))
    return Table(Weight, rows)


def _of_label(fitted: FittedModel, label: Any) -> np.ndarray:
    """Return a mask of the patterns that end with a label, followed by a mask of the label's parts."""
    layout = fitted.state.layout
    if label is None:
        return np.ones(layout.n_rows, bool)
    chosen = np.array([pattern[-1] == label for pattern in fitted.estimator.patterns_], dtype=bool)
    if not chosen.any():
        raise ValueError(f"unknown label={short(label)}; the labels are {short(fitted.labels.tolist())}")
    single = np.flatnonzero(chosen[: len(fitted.labels)])  # none for a segment label of tags
    parts = [layout.parts.parts[layout.parts.starts[y] : layout.parts.starts[y + 1]] for y in single]
    return np.concatenate([chosen, np.isin(np.arange(layout.parts.n_parts), np.concatenate([[], *parts]))])


def _of_feature(names: list, feature: Any, has_tokens: bool) -> np.ndarray:
    """Return a mask of the chosen features, followed by whether weights of tokens and of patterns are chosen."""
    if feature is None or isinstance(feature, bool):
        chosen = np.full(len(names) + 2, feature is not False)
        chosen[-2:] = feature is not True
        return chosen
    of_tokens = has_tokens and isinstance(feature, str) and feature == EACH_TOKEN
    is_name, is_start = feature in names, isinstance(feature, str)
    matches = [name == feature if is_name else is_start and str(name).startswith(feature) for name in names]
    if not any(matches) and not of_tokens:
        raise ValueError(f"feature={short(feature)} matches none of the {len(names)} features")
    return np.array([*matches, of_tokens, False])


def _of_order(orders: np.ndarray, order: Any) -> np.ndarray:
    """Return a mask of the weights that belong to patterns of the given orders."""
    if order is None:
        return np.ones(len(orders), bool)
    wanted: Any = list(order) if isinstance(order, Iterable) else [order]
    if not all(map(is_integer, wanted)):
        raise TypeError(f"order must be an integer, several of them, or None, got {short(order)}")
    if not wanted or not np.isin(wanted, orders).all():
        raise ValueError(f"order={short(order)} selects no weights: the model has orders 0 to {orders.max(initial=0)}")
    return np.isin(orders, wanted)


# --- names ------------------------------------------------------------------------------------------------------------


def features_of_weights(fitted: FittedModel) -> tuple[np.ndarray, list]:
    """Return the feature of each weight, as an index into names, and the names (or else indices) of the features.

    The last two names are for the weights of tokens, and of patterns themselves.
    """
    layout, features = fitted.state.layout, fitted.state.features
    feature = np.full(layout.n_weights, features.n_features + 1)
    feature[: layout.first_bias] = features.n_features
    feature[: layout.n_pairs] = layout.pair_feature
    return feature, [*(range(features.n_features) if features.names is None else features.names), EACH_TOKEN, None]


def row_names(fitted: FittedModel) -> list[tuple]:
    """Return the names of the rows of a model's weights as tuples: its patterns, and then its parts of labels."""
    return [*fitted.estimator.patterns_, *((part,) for part in fitted.state.part_names.tolist())]
