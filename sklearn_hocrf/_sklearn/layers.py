"""Access to models inside pipelines and searches, which offer only scikit-learn's methods; splits of sequences.

The estimators do not import this module, because it imports scikit-learn's pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from functools import wraps
from inspect import getattr_static, signature
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from .._data.batch import Sequences
from .._data.checks import short
from .names import check_declared, check_method_params, safe_indexing


class TaggerFeatures(NamedTuple):
    """Description from which a tagger (see ``tagger``) computes attributes.

    The method ``__tagger_features__`` of a transformer returns this description, given a bool array that is True for
    attributes with weights; the file need not contain other attributes.
    """

    entry: dict  # "features" of the header
    attributes: np.ndarray  # attributes in the file, in the order of the file
    texts: list  # strings in the file
    code: np.ndarray = np.empty(0, np.uint8)
    always: Sequence = ()  # pairs of a row in the array ``always`` and an attribute

    @classmethod
    def of_names(cls, names, kept) -> TaggerFeatures:
        """Return the description of attributes that the tokens themselves name."""
        attributes = np.flatnonzero(kept)
        return cls({"kind": "names"}, attributes, [names[i] for i in attributes.tolist()])


def checked_name(name: Any) -> Any:
    """Return the name of a field, or raise a ValueError if tagger files do not support it."""
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise ValueError(f"a tagger has names of fields that are texts or integers, not {name!r:.60}")
    return name


def check_fit(estimator: BaseEstimator, X: Sized | None, y: Sized | None, **params: Any) -> None:
    """Raise the errors that an estimator's ``fit`` would raise, as far as they can be found without training.

    Estimators of this package have a method ``__check_fit__`` with the parameters of ``fit``. For other estimators,
    only the declared parameters are checked, as in scikit-learn.

    Parameters
    ----------
    estimator : estimator
        A model, a pipeline, a search or a meta-estimator, nested in any way; or any other estimator.
    X : object or None
        As in ``fit``; None if X does not exist yet, because transformers must compute it.
    y, **params : object
        As in ``fit``.
    """
    if isinstance(estimator, (FrozenEstimator, type)):
        return
    if hasattr(estimator, "__check_fit__"):
        estimator.__check_fit__(X, y, **params)
        return
    if hasattr(estimator, "_parameter_constraints") and not get_config()["skip_parameter_validation"]:
        check_declared(estimator)
    if isinstance(estimator, Pipeline) and estimator.steps:
        (_, steps), (name, last) = next(layers(estimator)), estimator.steps[-1]
        for step in steps:
            check_fit(step, None, y)
        check_fit(last, None if steps else X, y, **_params_of_step(estimator, name, params))
        keep_sequences = steps and all(hasattr(step, "__tagger_features__") for step in steps)
        if keep_sequences and hasattr(X, "__len__") and hasattr(y, "__len__"):
            check_consistent_length(X, y)
    elif _is_search(estimator) and hasattr(estimator, "param_grid"):
        _check_candidates(estimator, X, y, params)


def _params_of_step(pipeline, name, params) -> dict:
    """Return the parameters of ``fit`` that a step of a pipeline receives."""
    if get_config()["enable_metadata_routing"]:
        return process_routing(pipeline, "fit", **params)[name].fit if params else {}
    prefix = f"{name}__"
    return {key.removeprefix(prefix): value for key, value in params.items() if key.startswith(prefix)}


def _check_candidates(search, X, y, params):
    """Raise the error of a search's first candidate if all are rejected; a search continues if some can be fitted."""
    from sklearn.model_selection import ParameterGrid  # slow to import

    refusals = []
    for candidate in ParameterGrid(search.param_grid):
        try:
            return check_fit(clone(search.estimator).set_params(**clone(candidate, safe=False)), X, y, **params)
        except (TypeError, ValueError) as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


def method_of_model(estimator: BaseEstimator, name: str) -> Callable:
    """Return a method of a model, or of the model at the end of a pipeline or inside a search.

    The method of a pipeline first transforms X with all other steps. The method of a search uses the best estimator.

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
        If the model has no such method; the message comes from the model.
    """
    if isinstance(estimator, FrozenEstimator):
        return method_of_model(estimator.estimator, name)
    if isinstance(estimator, Pipeline) and not hasattr(Pipeline, name):
        return through_steps(estimator, name)
    if _is_search(estimator) and not hasattr(estimator, name):
        return _of_best(estimator, name)
    return getattr(estimator, name)


def model_inside(estimator: BaseEstimator) -> Any:
    """Return the model inside an estimator, fitted or not."""
    *_, (model, _) = layers(estimator)
    return model


def name_of_weight(estimator: BaseEstimator) -> str | None:
    """Return the name of the ``fit`` parameter for sample weights (in pipelines, that of the last step), or None."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        name = name_of_weight(last)
        return name if name is None or get_config()["enable_metadata_routing"] else f"{step}__{name}"
    if "sample_weight" in signature(estimator.fit).parameters:
        return "sample_weight"
    return name_of_weight(estimator.estimator) if hasattr(estimator, "estimator") else None


def steps_inside(estimator: BaseEstimator) -> list:
    """Return the steps of fitted pipelines, including pipelines in searches and calibrators, followed by the model."""
    levels = list(layers(estimator, fitted=True))
    return [one for _, steps in levels for step in steps for one in steps_inside(step)] + [levels[-1][0]]


def model_and_input(estimator: BaseEstimator, X: Sized) -> tuple[Any, Any]:
    """Return the model inside a fitted estimator (see :func:`layers`), and X as this model receives it."""
    for layer, steps in layers(estimator, fitted=True):
        X = layer._given(X) if isinstance(layer, MethodsOfModel) else _transformed(steps, X)
    return layer, X


def layers(estimator: BaseEstimator, fitted: bool = False) -> Iterator[tuple[Any, list]]:
    """Yield an estimator, the one inside it, and so on down to the model, each with the steps that transform its X.

    Parameters
    ----------
    estimator : estimator
        A model, a pipeline, a search or a meta-estimator, nested in any way. The estimator inside a pipeline without
        steps is None.
    fitted : bool
        Whether a search without a best estimator raises an AttributeError. If False, the unfitted estimator of such a
        search follows.
    """
    while True:
        steps: list = []
        if isinstance(estimator, FrozenEstimator):
            inner = estimator.estimator
        elif isinstance(estimator, Pipeline):
            steps = [step for _, step in estimator.steps[:-1] if step is not None and step != "passthrough"]
            inner = estimator.steps[-1][1] if estimator.steps else None
        elif _is_search(estimator):
            unfitted = () if fitted else (estimator.estimator,)
            inner = getattr(estimator, "best_estimator_", *unfitted)
        elif isinstance(estimator, MethodsOfModel):
            steps = [getattr(estimator, estimator._reading)] if fitted and estimator._reading else []
            inner = estimator._whole()
        else:
            yield estimator, []
            return
        yield estimator, steps
        estimator = inner


def _is_search(estimator):
    return hasattr(estimator, "estimator") and hasattr(estimator, "refit")  # any search class


def through_steps(pipeline: Pipeline, name: str) -> Callable:
    """Return a method of a pipeline's last step that first transforms X with all other steps."""
    if not pipeline.steps:
        raise AttributeError(f"a pipeline without steps has no attribute {name!r}")
    method = method_of_model(pipeline.steps[-1][1], name)

    def with_transformed(X, *args, **options):
        _, steps = next(layers(pipeline))
        return method(_transformed(steps, X), *args, **options)

    return with_transformed


def _transformed(steps, X):
    for step in steps:
        X = step.transform(X)
    return X


def _of_best(search, name):
    if not search.refit:
        raise AttributeError(f"{name} needs a best estimator, which refit=False does not fit")
    method = method_of_model(getattr(search, "best_estimator_", search.estimator), name)

    @wraps(method)  # whose signature shows whether it takes X
    def of_fitted(*args, **options):
        check_is_fitted(search)  # its ``estimator`` may have been fitted before
        return method(*args, **options)

    return of_fitted


class MethodsOfModel:
    """Mixin that gives a meta-estimator the methods of its model; among base classes, list it before ``BaseEstimator``.

    ``_answering`` names the attribute with the fitted estimator whose methods are called; ``_reading`` names the
    attribute with the estimator that receives X, if that is a different one.
    """

    _answering: ClassVar[str]
    _reading: ClassVar[str] = ""
    estimator: Any

    def __getattr__(self, name: str) -> Any:
        """Return a method of the fitted estimator, or of the model inside it."""
        if name.startswith("_") or name.endswith("_") or name == "partial_fit" or "estimator" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        final = model_inside(self._whole())
        is_constructor = isinstance(getattr_static(type(final), name, None), classmethod)
        if is_constructor or not (callable(getattr(type(final), name, None)) or callable(getattr(final, name, None))):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = method_of_model(self._whole(), name)  # raises its own AttributeError if the model lacks it
        return self._passed_on(method) if self._answering in self.__dict__ else self._refusing(name)

    def _whole(self) -> Any:
        """Return the fitted inner estimator or, before `fit`, the unfitted one."""
        return self.__dict__.get(self._answering, self.estimator)

    def _given(self, X: Sized) -> Any:
        """Return the fitted estimator's input for X."""
        return X

    def _passed_on(self, method: Callable) -> Callable:
        """Return a method of the fitted estimator as a method of this estimator."""
        return method

    def _refusing(self, name: str) -> Callable:
        """Return a method that raises a NotFittedError."""
        instance = f"This {type(self).__name__} instance is not fitted yet."

        def refuse(*_, **__):
            raise NotFittedError(f"{instance} Call 'fit' with appropriate arguments before using {name}.")

        return refuse

    @overload
    def predict(self, X: Sequences, **options: Any) -> list[Any]: ...
    @overload
    def predict(self, X: Sized, **options: Any) -> Any: ...
    def predict(self, X: Sized, **options: Any) -> Any:
        """Return the wrapped estimator's predictions for X.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.predict`.
        **options : object
            As in :meth:`~sklearn_hocrf.HighOrderCRF.predict`.

        Returns
        -------
        labels : list of lists, list of arrays, or array
            As in :meth:`~sklearn_hocrf.HighOrderCRF.predict`.
        """
        return self.__getattr__("predict")(X, **options)

    def score(self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None) -> float:
        """Return the token accuracy.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.score`.
        y : list of label sequences, or array-like
            As in :meth:`~sklearn_hocrf.HighOrderCRF.score`.
        sample_weight : array-like of shape (n_sequences,), default=None
            As in :meth:`~sklearn_hocrf.HighOrderCRF.score`.

        Returns
        -------
        accuracy : float
        """
        return self.__getattr__("score")(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the inner estimator."""
        return getattr(self, self._answering).classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features of the inner estimator."""
        return getattr(self, self._reading or self._answering).n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features of the inner estimator."""
        return getattr(self, self._reading or self._answering).feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        return self._answering in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)  # type: ignore[misc]
        tags.estimator_type, tags.classifier_tags = inner.estimator_type, inner.classifier_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        return tags


def check_fits(estimator: BaseEstimator, X: Sized, y: Sized, splits: list, params: dict) -> None:
    """Raise, before the first fit, the errors that ``fit`` would raise for all data or the training part of a split."""
    check_fit(estimator, X, y, **params)
    for train, _ in splits if y is not None else ():
        check_fit(estimator, None, safe_indexing(y, train), **check_method_params(X, params, indices=train))


def each_fold(
    use: Callable, estimator: BaseEstimator, X: Sized, y: Sized, splits: list, params: dict, **parallel: Any
) -> list:
    """Fit a clone for each split, and return the results of the function ``use`` for the clones and test parts.

    Parameters
    ----------
    use : callable
        A function of the fitted estimator, the X of the test part, and the indices of the test part.
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


def fit_part(estimator: BaseEstimator, X: Sized, y: Sized, params: dict, part: np.ndarray) -> Any:
    """Return a clone fitted to a part of the data and to the same part of ``params`` with an entry per sequence."""
    known = () if y is None else (safe_indexing(y, part),)
    return clone(estimator).fit(safe_indexing(X, part), *known, **check_method_params(X, params, indices=part))


def splits_of(splitter: Any, X: Sized, y: Any, **params: Any) -> list:
    """Return a splitter's pairs of training and test parts, as indices of sequences, or raise an error.

    Raises
    ------
    ValueError
        If the splitter rejects the data, for example because there are fewer sequences than folds (for a stratified
        splitter, the message names alternatives), if there are no splits, or if a split contains anything other than
        indices of sequences.
    """
    name, n_sequences = type(splitter).__name__, X.shape[0] if hasattr(X, "shape") else len(X)
    try:
        splits = list(splitter.split(X, y, **params))
    except ValueError as error:
        if name.endswith("KFold") and getattr(splitter, "n_splits", 0) > n_sequences:
            raise ValueError(
                f"cv has {splitter.n_splits} folds, but the number of sequences is {n_sequences}, and each fold needs "
                f"one: set cv to a smaller number, or cut long sequences into pieces ({error})"
            ) from error
        if "Stratified" not in name or all(isinstance(labels, str) or not hasattr(labels, "__len__") for labels in y):
            raise
        raise ValueError(
            f"{name} needs one class for each sequence, but y has labels of tokens: use KFold(shuffle=True) or "
            f"GroupKFold, or create a class for each sequence and pass cv=list({name}(..).split(X, classes))"
        ) from error
    if not splits:
        raise ValueError("cv has no splits (left): pass a splitter or a list")
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
