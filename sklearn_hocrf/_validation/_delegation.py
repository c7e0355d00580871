"""Methods of a model inside of a pipeline or a search, which pass on only the methods that scikit-learn knows.

No part of ``_validation``'s namespace: importing the estimators takes no time for scikit-learn's pipelines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

__all__ = ["method_of_model"]


def method_of_model(estimator: Any, name: str) -> Callable:
    """Return a method of a model, or of the model at the end of a pipeline or inside of a search.

    A pipeline's method takes the X of the pipeline, which goes through all other steps first. A search answers by its
    best estimator.

    Parameters
    ----------
    estimator : estimator
        The model, a pipeline or a search, nested in any way, fitted or not.
    name : str
        Name of the method.

    Returns
    -------
    method : callable

    Raises
    ------
    AttributeError
        If the model has no such method, in its own words.
    """
    if isinstance(estimator, Pipeline) and not hasattr(Pipeline, name):
        return _through_steps(estimator, name)
    is_search = hasattr(estimator, "estimator") and hasattr(estimator, "refit")  # any class of searches
    if is_search and not hasattr(estimator, name):
        return _of_best(estimator, name)
    return getattr(estimator, name)


def _through_steps(pipeline, name):
    if not pipeline.steps:
        raise AttributeError(f"a pipeline without steps has no attribute {name!r}")
    method = method_of_model(pipeline.steps[-1][1], name)

    def with_transformed(X, *args, **options):
        return method(_transformed(pipeline, X), *args, **options)

    return with_transformed


def _transformed(pipeline, X):
    """Return what the last step gets."""
    transforms = any(step is not None and step != "passthrough" for _, step in pipeline.steps[:-1])
    return pipeline[:-1].transform(X) if transforms else X


def _of_best(search, name):
    if not search.refit:
        raise AttributeError(f"{name} needs a best estimator, which refit=False does not fit")
    method = method_of_model(getattr(search, "best_estimator_", search.estimator), name)

    def of_fitted(*args, **options):
        check_is_fitted(search)  # its ``estimator`` may have been fitted before
        return method(*args, **options)

    return of_fitted
