"""Pipelines that offer all methods of the estimators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Self

import sklearn.pipeline
from sklearn import get_config
from sklearn.pipeline import Pipeline

from .._data import SITE
from .._sklearn.layers import check_fit, method_of_model, through_steps
from .._sklearn.names import available_if
from .answers.fitted import predict_one
from .answers.predictions import AnswersMixin, PredictionsMixin, TagSegmentsMixin
from .segment_labeler import HighOrderSemiCRF
from .token_labeler import HighOrderCRF

if TYPE_CHECKING:  # for type checkers; at run time, the methods are created below

    class _Pipeline(AnswersMixin, PredictionsMixin, TagSegmentsMixin, Pipeline):
        def fit(self, X: Sized, y: Sized | None = None, **params: Any) -> Self: ...

else:
    _Pipeline = Pipeline


class SequencePipeline(_Pipeline):
    """The pipelines of :func:`make_pipeline`; the parameters are those of :class:`~sklearn.pipeline.Pipeline`.

    The methods that take X are created below. Each transforms X with all steps except the last one, and calls the same
    method of the last step or, if that is a search, of its best estimator. A method exists only if the last step
    provides it.
    """

    _doc_link_module = "sklearn_hocrf"  # for the links in scikit-learn's diagrams
    _doc_link_template = f"{SITE}/api/generated/sklearn_hocrf.make_pipeline.html"

    if not TYPE_CHECKING:  # type checkers use the class above

        @functools.wraps(Pipeline.fit)
        def fit(self, X, y=None, **params):
            check_fit(self, X, y, **params)
            return super().fit(X, y, **params)

        # evaluated in each call; the slower check, which raises the error, is for last steps without this method
        @available_if(
            lambda self: self.steps and hasattr(self.steps[-1][1], "predict") or through_steps(self, "predict")
        )
        def predict(self, X: Sized, **params: Any) -> Any:
            # Pipeline.predict collects the tags of all steps to check that it is fitted; the steps check this, too
            if get_config()["enable_metadata_routing"]:
                return super().predict(X, **params)
            steps = [step for _, step in self.steps]
            is_own = getattr(type(steps[-1]), "predict", None) is PredictionsMixin.predict  # subclasses may override it
            if not params and is_own and (labels := predict_one(steps[-1], X, steps[:-1])) is not None:
                return labels
            return through_steps(self, "predict")(X, **params)


def _methods_of_X(estimator):
    """Return the names of an estimator's methods that take X and that scikit-learn's Pipeline lacks."""
    names = [name for name in dir(estimator) if not name.startswith("_") and not hasattr(Pipeline, name)]
    methods = {name: getattr(estimator, name) for name in names if inspect.isroutine(getattr(estimator, name))}
    about_X = [name for name, method in methods.items() if list(inspect.signature(method).parameters)[1:2] == ["X"]]
    return [name for name in about_X if name != "partial_fit"]  # a method that trains


def _passed_on(name, estimator):
    """Return a method of pipelines that calls the last step, with the signature of an estimator's method."""
    original = getattr(estimator, name)

    @functools.wraps(original)
    def method(self, X, *args, **options):
        return method_of_model(self, name)(X, *args, **options)

    first_line = (inspect.getdoc(original) or f"Return {name} of X.").split("\n")[0]  # python -OO removes docstrings
    method.__doc__ = (
        f"{first_line}\n\nX is first transformed by the other steps. Parameters and result are as for the last step's\n"
        f":meth:`~sklearn_hocrf.{estimator.__name__}.{name}`."
    )
    method.__module__, method.__qualname__ = __name__, f"{SequencePipeline.__name__}.{name}"
    return available_if(lambda self: method_of_model(self, name))(method)


for _estimator in (HighOrderSemiCRF, HighOrderCRF):  # the second one documents the common methods
    for _name in _methods_of_X(_estimator):
        setattr(SequencePipeline, _name, _passed_on(_name, _estimator))


def make_pipeline(
    *steps: Any, memory: Any = None, transform_input: list[str] | None = None, verbose: bool = False
) -> SequencePipeline:
    """Return a scikit-learn pipeline that also offers the additional methods of this package's estimators.

    scikit-learn's pipelines offer only the methods that scikit-learn defines; this pipeline also offers
    ``predict_marginals``, ``pattern_marginals``, ``log_likelihood``, ``predict_segments``, ``predict_nbest``,
    ``sample``, ``entropy`` and all other methods that take X, if its last step provides them. The pipeline transforms X
    with the other steps, passes all other arguments unchanged to the last step, and returns the result. If the last
    step is a search, the pipeline calls the method of its best estimator.

    Parameters
    ----------
    *steps : estimators
        Transformers, followed by the model; "passthrough" instead of a transformer skips a step. The name of each step
        is the name of its class in lower case.
    memory : str, joblib.Memory or None, default=None
        Cache for fitted transformers.
    transform_input : list of str or None, default=None
        Names of the metadata of ``fit`` that the steps also transform; see :class:`~sklearn.pipeline.Pipeline`.
    verbose : bool, default=False
        Whether to print the time that each step takes.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        An instance of a subclass of scikit-learn's pipeline. Slices such as ``pipe[:-1]``, clones, and the
        ``best_estimator_`` of a search over the pipeline are instances of the same subclass.

    Notes
    -----
    scikit-learn's searches offer only scikit-learn's methods, such as ``search.predict(X)``. For other methods, use the
    best estimator, as in ``search.best_estimator_.predict_marginals(X)``.
    :class:`~sklearn_hocrf.model_selection.PenaltySearchCV` offers all methods. Metadata routing does not apply to the
    additional methods.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, make_pipeline
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF())
    >>> list(pipe.named_steps)
    ['sequencefeatureextractor', 'highordercrf']
    >>> X, y = (
    ...     [["the", "old", "man"], ["the", "man"]],
    ...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
    ... )
    >>> pipe.fit(X, y).log_likelihood(X, y).round(1)
    array([-0.4, -0.3])
    >>> pipe.predict_marginals([["the", "man"]])[0].argmax(axis=1)
    array([1, 2])
    >>> pipe.pattern_marginals([["the", "man"]], [("DET", "NOUN")])[0].round(1)
    array([[0. ],
           [0.7]])
    """
    named = sklearn.pipeline.make_pipeline(*steps).steps
    return SequencePipeline(named, transform_input=transform_input, memory=memory, verbose=verbose)
