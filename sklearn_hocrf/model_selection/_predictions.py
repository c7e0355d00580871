"""Predictions for all sequences, each from a model that was not trained on the sequence."""

from __future__ import annotations

from collections.abc import Sized
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import check_cv

from .._data.checks import check, short
from .._data.messages import warn_user
from .._reading.rows import indexable_sequences
from .._sklearn.layers import check_fits, each_fold, splits_of

BY_LABEL = ("predict_marginals", "predict_proba")  # one column of probabilities for each label


def cross_val_predict(
    estimator: BaseEstimator,
    X: Sized,
    y: Sized | None = None,
    *,
    groups: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: dict | None = None,
    method: str = "predict",
) -> list:
    """Return predictions for all sequences, each from a model that was fitted without the sequence's fold.

    This is :func:`sklearn.model_selection.cross_val_predict` for sequences of different lengths, and for any method
    with one result per sequence. Use the predictions to inspect errors, or to calibrate and stack models. Their score
    is not the mean of the scores of the folds.

    Parameters
    ----------
    estimator : estimator
        An estimator with `fit` and the method that `method` names.
    X : list of sequences or other form of n sequences
        The sequences, in a form that `estimator` accepts.
    y : list of label sequences, or None, default=None
        The labels of the sequences.
    groups : array-like of shape (n_sequences,), default=None
        Groups for the splitter.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn: None means 5 folds, and an int is the number of folds.
    n_jobs : int or None, default=None
        Number of folds fitted in parallel, as defined by joblib.
    verbose : int, default=0
        Verbosity of joblib.
    params : dict or None, default=None
        Parameters of ``fit``, such as ``{"sample_weight": weights}``; values of length n_sequences are split like X.
    method : str, default="predict"
        Name of the method of the fitted estimator.

    Returns
    -------
    predictions : list of length n_sequences
        The result for each sequence, in the order of X.

    Raises
    ------
    AttributeError
        If the estimator has no such method.
    TypeError
        If the result of the method is not a list or array.
    ValueError
        If a sequence is not in exactly one test fold, or if the method does not return one result per sequence.

    Warns
    -----
    RuntimeWarning
        If the training part of a fold lacks a label. The results of ``"predict_marginals"`` and ``"predict_proba"``
        contain one column for each label of any fold, sorted; a label that the training part lacks has probability 0.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.model_selection import cross_val_predict
    >>> X = [
    ...     [["sun"], ["rain"]],
    ...     [["rain"]],
    ...     [["sun"], ["sun"], ["rain"]],
    ...     [["rain"], ["sun"]],
    ... ]
    >>> y = [["dry", "wet"], ["wet"], ["dry", "dry", "wet"], ["wet", "dry"]]
    >>> cross_val_predict(HighOrderCRF(), X, y, cv=2)
    [['dry', 'wet'], ['wet'], ['dry', 'dry', 'wet'], ['wet', 'dry']]
    """
    check(n_jobs != 0, "n_jobs", "an integer other than 0, or None", n_jobs)
    X, y = indexable_sequences(X, y)
    n_sequences = X.shape[0] if hasattr(X, "shape") else len(X)
    cv = check_cv(cv, y, classifier=is_classifier(estimator))
    of_fit, splits = params or {}, splits_of(cv, X, y, groups=groups)
    tested = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(tested), np.arange(n_sequences)):
        raise ValueError("cross_val_predict only works for partitions")
    check_fits(estimator, X, y, splits, of_fit)
    folds = each_fold(partial(_answer, method), estimator, X, y, splits, of_fit, n_jobs=n_jobs, verbose=verbose)
    predictions = list(chain.from_iterable(_with_equal_columns(folds, method)))
    return [predictions[i] for i in np.argsort(tested).tolist()]


def _answer(method: str, fitted: Any, X_test: Sized, test: np.ndarray) -> tuple:
    """Return the results for the test part, and the labels of the fitted estimator."""
    results = getattr(fitted, method)(X_test)
    if not (isinstance(results, list) or (isinstance(results, np.ndarray) and results.ndim)):
        raise TypeError(f"{method} must return a list or an array, not {short(results)} ({type(results).__name__})")
    if len(results) != len(test):
        raise ValueError(f"{method} returned {len(results)} results for {len(test)} sequences; one each is required")
    return list(results), list(fitted.classes_) if hasattr(fitted, "classes_") else None


def _with_equal_columns(folds: list[tuple], method: str) -> list[list]:
    """Return the results of the folds, with one column for each label of any fold if columns are labels."""
    results, labels = map(list, zip(*folds, strict=True))
    if None in labels or all(of_fold == labels[0] for of_fold in labels):
        return results
    union = sorted(set().union(*labels))
    warn_user(
        f"Number of classes in training fold ({min(map(len, labels))}) does not match total "
        f"number of classes ({len(union)}). Results may not be appropriate for your use case.",
        RuntimeWarning,
    )
    if method not in BY_LABEL:
        return results
    column = {label: i for i, label in enumerate(union)}
    return [
        [_spread(result, [column[label] for label in of_fold], len(union)) for result in of_results]
        for of_results, of_fold in zip(results, labels, strict=True)
    ]


def _spread(result: np.ndarray, columns: list[int], n_columns: int) -> np.ndarray:
    spread = np.zeros((*result.shape[:-1], n_columns))
    spread[..., columns] = result
    return spread
