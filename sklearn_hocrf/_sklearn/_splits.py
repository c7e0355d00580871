"""Splits of sequences for meta-estimators, by scikit-learn's splitters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.parallel import Parallel, delayed

from .._data.checks import short
from .layers import check_fit
from .names import check_method_params, safe_indexing

ASKED = ("fit", "predict", "predict_proba", "score")  # methods that pass metadata on to the estimator that answers


def router_of(owner: Any, cv: Any, **callees: tuple[Any, tuple[str, ...]]) -> MetadataRouter:
    """Return the router of what fits folds: for each callee, the estimator and the methods that get metadata."""
    router = MetadataRouter(owner=owner)
    for name, (estimator, methods) in callees.items():
        mapping = MethodMapping()
        for method in methods:
            mapping.add(caller=method, callee=method)
        router.add(**{name: estimator}, method_mapping=mapping)
    return router.add(splitter=cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))


def check_fits(estimator: Any, X: Any, y: Any, splits: list, params: dict) -> None:
    """Raise what ``fit`` to all data, or to the training part of a split, would raise, before the first of them."""
    check_fit(estimator, X, y, **params)
    for train, _ in splits if y is not None else ():
        check_fit(estimator, None, safe_indexing(y, train), **check_method_params(X, params, indices=train))


def each_fold(use: Callable, estimator: Any, X: Any, y: Any, splits: list, params: dict, **parallel: Any) -> list:
    """Return what a function returns for each split: it gets a clone fitted to the training part, and the test part.

    Parameters
    ----------
    use : callable
        Its arguments are the fitted estimator, X of the test part, and the indices of the test part.
    estimator, X, y, params
        As in :func:`fit_part`.
    splits : list of (train, test)
        Indices of sequences.
    **parallel : object
        Arguments of joblib's ``Parallel``.
    """
    run = delayed(_fit_and_use)
    return Parallel(**parallel)(run(use, estimator, X, y, params, *split) for split in splits)


def _fit_and_use(use, estimator, X, y, params, train, test):
    return use(fit_part(estimator, X, y, params, train), safe_indexing(X, test), test)


def fit_part(estimator: Any, X: Any, y: Any, params: dict, part: np.ndarray) -> Any:
    """Return a clone of an estimator, fitted to a part of the data and of the ``params`` with an entry per sequence."""
    known = () if y is None else (safe_indexing(y, part),)
    return clone(estimator).fit(safe_indexing(X, part), *known, **check_method_params(X, params, indices=part))


def splits_of(splitter: Any, X: Any, y: Any, **params: Any) -> list:
    """Return the pairs of training and test parts of a splitter, as indices of sequences, or raise.

    Raises
    ------
    ValueError
        If the splitter refuses the data; for a stratified splitter, the message names alternatives. Also if there are
        no splits, or if one contains anything but indices of sequences.
    """
    name = type(splitter).__name__
    try:
        splits = list(splitter.split(X, y, **params))
    except ValueError as error:
        if "Stratified" not in name or all(isinstance(labels, str) or not hasattr(labels, "__len__") for labels in y):
            raise
        raise ValueError(
            f"{name} needs one class for each sequence, but y has labels of tokens: use KFold(shuffle=True) or "
            f"GroupKFold, or make a class for each sequence and pass cv=list({name}(..).split(X, classes))"
        ) from error
    if not splits:
        raise ValueError("cv has no splits (left): pass a splitter or a list")
    n_sequences = X.shape[0] if hasattr(X, "shape") else len(X)
    return [tuple(_part_indices(part, n, n_sequences) for part in split) for n, split in enumerate(splits)]


def _part_indices(part: Any, n: int, n_sequences: int) -> np.ndarray:
    """Return the indices of the sequences in one part of a split, which may be a mask, or raise a ValueError."""
    part = np.asarray(part)
    if part.dtype == bool and len(part) == n_sequences:
        return np.flatnonzero(part)
    if not part.size:
        return part.astype(np.int64)
    if not np.issubdtype(part.dtype, np.integer):
        raise ValueError(f"split {n} of cv must have indices of sequences, or masks of {n_sequences}: {short(part)}")
    out = part[(part < -n_sequences) | (part >= n_sequences)]
    if len(out):
        raise ValueError(f"split {n} of cv has the index {out[0]}, but there are {n_sequences} sequences")
    return part % n_sequences  # negative indices count from the end
