"""The template of a feature, derived from its name."""

from __future__ import annotations

import re
from typing import Any

from .._estimator.fitted_model import FittedModel

__all__ = ["EACH_TOKEN", "feature_names", "row_names", "template_of", "templates_of"]

EACH_TOKEN = "(each token)"  # in tables, in place of a feature: the weight of each token of a segment

_HEAD = re.compile(r"((?:[^=\\]|\\.)*)=", re.DOTALL)  # up to the first "=" that no backslash escapes
_HASHED = re.compile(r"hash\[\d+\]$")


def feature_names(fitted: FittedModel) -> list:
    """Return the names of a model's features, or their numbers where they have none."""
    features = fitted.record.features
    return list(range(features.n_features)) if features.names is None else list(features.names)


def row_names(fitted: FittedModel) -> list[tuple]:
    """Return the names of the rows of a model's weights: its patterns, and then its parts of labels, as tuples."""
    return [*fitted.estimator.patterns_, *((part,) for part in fitted.estimator.label_parts_.tolist())]


def templates_of(fitted: FittedModel) -> list:
    """Return the template of each feature of a fitted model."""
    vocabulary = fitted.record.features.vocabulary
    keys = () if vocabulary is None else vocabulary.complete
    return [template_of(name, keys, vocabulary is not None) for name in feature_names(fitted)]


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
    >>> from sklearn_hocrf.inspection._names import template_of
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
    if of_attributes:
        matching = [key for key in keys if name == key or name.startswith(f"{key}:")]
        if matching:
            return max(matching, key=len)
    head = _HEAD.match(name)
    if head is not None and head[1]:
        return head[1]
    if of_attributes and name.rpartition(":")[0]:
        return name.rpartition(":")[0]
    return _HASHED.sub("hash", name)
