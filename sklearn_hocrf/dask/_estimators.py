"""The estimators that train and predict on a cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from dask import bag, delayed
from distributed import Client
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from .._data.labels import sorted_labels
from .._docstrings import share_docstring
from .._estimator.base import BaseSequenceLabeler
from .._estimator.constraints import Constraints, compile_constraints
from .._estimator.decoding import SegmentDecoding, TokenDecoding
from .._estimator.fitting import Training, choose_objective, choose_training, warn_not_converged
from .._estimator.label_parts import compile_label_parts
from .._estimator.pattern_search import PatternSearch, pattern_search
from .._estimator.patterns import ObservedPatterns
from .._estimator.progress import lines_of
from .._estimator.pruning import Pruning
from .._objectives import Objective
from .._persistence import VersionMixin
from .._validation import TrainingData, check_class_weight
from .._validation._sklearn import fit_context
from ..crf import HighOrderCRF
from ..semicrf import HighOrderSemiCRF
from ._collections import WithoutClient, collected, find_client, number_of_sequences, parts_of, sources
from ._objectives import ClusterProblem, on_cluster
from ._partitions import Kept, Partitions, naming
from ._parts import Agreement, Description, Setting, Survey, count_features, describe, prepare, read_part, survey

__all__ = ["DaskHighOrderCRF", "DaskHighOrderSemiCRF"]

_ON_CLIENT = {
    "sigma_reg": 1.0,
    "l1_reg": 0.0,
    "penalty": None,
    "solver": "auto",
    "objective": "likelihood",
    "verbose": 0,
}


class DaskSequenceLabeler(WithoutClient, VersionMixin, BaseEstimator):
    """Fit, predict and score of a sequence model on a cluster; see :class:`DaskHighOrderCRF`."""

    _local_class: ClassVar[type[BaseSequenceLabeler]]
    client: Any
    patterns: Any
    objective: Any
    warm_start: bool

    # --- training -----------------------------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to labelled sequences on the workers of a cluster.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            Sequences. Each partition is what the local estimator takes as X: a list of sequences, a
            :class:`~sklearn_hocrf.feature_extraction.SequenceBatch`, or an array. It may be empty.
        y : dask.bag.Bag, or list of Delayed or Future
            Labels, in partitions like those of X.
        sample_weight : Bag, dask array, or list of Delayed or Future, default=None
            One weight per sequence, in partitions like those of X.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            For invalid parameters, before any work, and for invalid data; messages name partition, sequence and
            position. The estimator is left unchanged.
        ConnectionError
            If the connection to the scheduler is lost.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            As the local estimator.
        """
        local = self._local()
        training = self._choose_training(local)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        parts = sources(X=X, y=y, sample_weight=sample_weight)
        partitions = Partitions(find_client(self.client), parts)
        try:
            learned, report = self._train(local, training, partitions)
        finally:
            partitions.release()
        fitted = self._local()
        fitted._keep(learned)
        self._trained = fitted
        lines_of(training.solver).end(report[-1])
        warn_not_converged(type(self).__name__, training.solver, report)
        return self

    def _choose_training(self, local) -> Training:
        """Check the parameters, and return the training that they specify."""
        local._check_parameters()
        if pattern_search(self.patterns) is not None:
            raise ValueError(
                f"patterns={self.patterns!r} are not searched on a cluster: search them in a part of the data with "
                f"{self._local_class.__name__}, and give patterns=crf.patterns_"
            )
        parameters = local.get_params(deep=False)
        if parameters.get("pruning") is not None:
            raise ValueError(f"pruning={parameters['pruning']!r} does not work on a cluster: use pruning=None")
        if parameters["max_order"] is None:
            raise ValueError("max_order=None needs a search for patterns, which clusters do not do: give a number")
        parameters["objective"] = on_cluster(choose_objective(self.objective))
        return choose_training(parameters, type(self).__name__)

    def _train(self, local, training, partitions):
        """Return the record of the fitted model, and the reports of the stages of training."""
        remote = Kept(self._local(**_ON_CLIENT))
        partitions.add_step(read_part, remote)
        described: Description | None = partitions.total(describe, Description.merged)
        if described is None:
            raise ValueError("X has no sequences of positive weight: fit needs at least one")
        labels = sorted_labels(described.labels, [0, len(described.labels)], self._least_labels)
        features = described.features
        rules = compile_constraints(local.constraints, labels)
        parts = compile_label_parts(local.label_parts, labels)
        partitions.add_step(prepare, remote, Kept(Agreement(labels, features)))
        surveyed: Survey = partitions.total(survey, Survey.merged, remote)
        if local.class_weight is not None:
            check_class_weight(local.class_weight, labels, surveyed.label_counts)  # workers would do it one by one
        data = TrainingData(None, surveyed.targets, None, features, rules, parts)  # type: ignore[arg-type]
        observed = ObservedPatterns(surveyed.n_positions, lambda *_: surveyed.patterns)
        builder = local._layout_builder(data, local._select_patterns(None, data, observed))
        layout = builder.build(partitions.total(count_features, _merged, Kept(builder)))
        setting = Setting(remote.value, layout, surveyed.label_counts)
        problem = ClusterProblem(partitions, setting, surveyed.n_sequences)
        penalty = local._choose_penalty(training.prior, layout, data)
        before = self._before()
        start = np.zeros(layout.n_weights) if before is None else before._last_weights(layout, data)
        stages = training.run(problem, penalty, start, is_warm=before is not None)
        return local._report_learned(data, problem, penalty, stages[-1]), stages

    @property
    def _least_labels(self) -> int:
        """The lowest number of labels."""
        return 2

    def _before(self) -> BaseSequenceLabeler | None:
        """Return the model from whose weights training starts, if there is one."""
        return self._trained if self.warm_start and hasattr(self, "_trained") else None

    def _local(self, **changes: Any) -> BaseSequenceLabeler:
        """Return a local estimator, which is not fitted, with the parameters of this one but for some changes."""
        parameters = {**self.get_params(deep=False), **changes}
        del parameters["client"]
        return self._local_class(**parameters)

    def to_local(self) -> Any:
        """Return the fitted model as an estimator that needs no cluster, with all methods.

        Returns
        -------
        crf : HighOrderCRF or HighOrderSemiCRF
            With the parameters and the fitted attributes of this one.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        """
        if not hasattr(self, "_trained"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first")
        parameters = self.get_params(deep=False)
        del parameters["client"]
        return copy.copy(self._trained).set_params(**parameters)

    # --- predictions --------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> bag.Bag:
        """Return the most probable label sequence of each sequence.

        Parameters
        ----------
        X : as in :meth:`fit`
            Sequences may be empty.

        Returns
        -------
        labels : dask.bag.Bag
            In partitions like those of X. It is lazy: ``compute()`` gives a list, ``persist()`` keeps it on the
            workers of the default client. Where ``client`` is another one: ``client.compute(labels, sync=True)``.
        """
        return self._ask("predict", X)

    def predict_marginals(self, X: Any) -> bag.Bag:
        """Return the probability of each label at each token.

        Parameters
        ----------
        X : as in :meth:`predict`

        Returns
        -------
        probabilities : dask.bag.Bag of ndarray of shape (n_tokens, n_classes)
            In partitions like those of X.
        """
        return self._ask("predict_marginals", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of tokens with the right label.

        Parameters
        ----------
        X, y, sample_weight : as in :meth:`fit`

        Returns
        -------
        accuracy : float
        """
        model = delayed(self.to_local())
        score = delayed(_count_right, pure=False)
        parts = sources(X=X, y=y, sample_weight=sample_weight)
        counts = [score(model, number, *part) for number, part in enumerate(parts)]
        client = find_client(self.client)
        right, total = np.sum(client.gather(client.compute(counts)), axis=0)
        if not total:
            raise ValueError("X has no tokens of positive weight: there is nothing to score")
        return float(right / total)

    def _ask(self, question, X):
        model = delayed(self.to_local())
        answer = delayed(_answer, pure=False)
        return bag.from_delayed([answer(model, question, number, part) for number, part in enumerate(parts_of(X, "X"))])

    # --- fitted attributes --------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute, which is that of the local estimator."""
        trained = self.__dict__.get("_trained")
        if trained is None or name.startswith("_") or not name.endswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(trained, name)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_trained")


def _merged(one, other):
    return one.merged(other)


@share_docstring(HighOrderCRF)
class DaskHighOrderCRF(DaskSequenceLabeler):
    """High-order conditional random field, trained on a cluster.

    It takes dask collections, and trains on the workers of a cluster what :class:`~sklearn_hocrf.HighOrderCRF` trains
    on one machine: the same minimised function, the same optimum up to the solver's tolerance, the same fitted
    attributes. The bits of the result depend on the partitions, and not on the number of workers, their threads, or
    which of them has which partition.

    Parameters
    ----------
    max_order, sigma_reg, l1_reg, patterns, min_pattern_count, feature_order : as in :class:`HighOrderCRF`
    min_feature_count, fit_intercept, unsupported, label_parts, class_weight : as in :class:`HighOrderCRF`
    constraints, pruning : as in :class:`HighOrderCRF`
    objective, penalty, solver, max_iter, tol, missing_label, warm_start : as in :class:`HighOrderCRF`
    n_jobs, verbose, decoding, random_state : as in :class:`HighOrderCRF`
    client : distributed.Client, default=None
        The connection to the cluster. None means the default client, the one that was made last. Copies by
        :func:`sklearn.base.clone`, deep copies and pickles have None.

    Attributes
    ----------
    classes_, patterns_, coef_, pattern_coef_, ... : as in HighOrderCRF
        All fitted attributes of the local estimator.

    See Also
    --------
    DaskHighOrderSemiCRF : The same for segments.
    sklearn_hocrf.HighOrderCRF : For data in the memory, or on the disk, of one machine.

    Notes
    -----
    ``n_jobs`` is the number of threads with which a worker evaluates one partition, while its threads evaluate several
    ones side by side: leave it at None.

    These work: ``objective="likelihood"`` and ``"local_feature_matching"``; "lbfgs", "owlqn", "newton-cg" and custom
    solvers that need values, gradients and Hessian products alone; penalties of all kinds, ``sample_weight``,
    ``class_weight``, constraints, ``warm_start``. Refused, before any work: "hinge", "perceptron" and stochastic
    solvers, which go from sequence to sequence; ``patterns="auto"``; ``pruning``; objectives of your own. Holes in y
    are refused as soon as a worker has read them. There are no callbacks of scikit-learn, but those of solvers, and no
    ``partial_fit``. What workers warn of is in their logs.

    Examples
    --------
    See :mod:`sklearn_hocrf.dask`.
    """

    _local_class = HighOrderCRF
    _parameter_constraints: ClassVar[dict] = {**HighOrderCRF._parameter_constraints, "client": "no_validation"}

    def __init__(
        self,
        max_order: int | None = 1,
        *,
        sigma_reg: float | Sequence[float] | Mapping[Any, float] = 1.0,
        l1_reg: float | Sequence[float] | Mapping[Any, float] = 0.0,
        patterns: str | Iterable[tuple] | PatternSearch = "observed",
        min_pattern_count: float = 1,
        feature_order: int | Mapping[str, Any] = 0,
        min_feature_count: float = 1,
        fit_intercept: bool = True,
        unsupported: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        constraints: str | Constraints | Callable[[Any, Any], bool] | None = None,
        pruning: int | Pruning | None = None,
        label_parts: Mapping[Any, Iterable] | Callable[[Any], Iterable] | None = None,
        objective: str | Objective = "likelihood",
        penalty: Any = None,
        solver: Any = "auto",
        max_iter: int = 500,
        tol: float = 3e-3,
        missing_label: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        decoding: str | TokenDecoding | SegmentDecoding = "viterbi",
        random_state: int | np.random.RandomState | None = None,
        client: Client | None = None,
    ) -> None:
        self.max_order = max_order
        self.sigma_reg = sigma_reg
        self.l1_reg = l1_reg
        self.patterns = patterns
        self.min_pattern_count = min_pattern_count
        self.feature_order = feature_order
        self.min_feature_count = min_feature_count
        self.fit_intercept = fit_intercept
        self.unsupported = unsupported
        self.class_weight = class_weight
        self.constraints = constraints
        self.pruning = pruning
        self.label_parts = label_parts
        self.objective = objective
        self.penalty = penalty
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.missing_label = missing_label
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.decoding = decoding
        self.random_state = random_state
        self.client = client


@share_docstring(HighOrderSemiCRF)
class DaskHighOrderSemiCRF(DaskSequenceLabeler):
    """High-order semi-Markov conditional random field, trained on a cluster.

    It is :class:`~sklearn_hocrf.HighOrderSemiCRF` as :class:`DaskHighOrderCRF` is :class:`~sklearn_hocrf.HighOrderCRF`,
    with the same limits.

    Parameters
    ----------
    max_order, encoding, max_segment_length, min_segment_length : as in :class:`HighOrderSemiCRF`
    sigma_reg, l1_reg, patterns, min_pattern_count, feature_order : as in :class:`HighOrderSemiCRF`
    min_feature_count, fit_intercept, unsupported, label_parts, class_weight : as in :class:`HighOrderSemiCRF`
    constraints, objective, penalty, solver, max_iter, tol, missing_label : as in :class:`HighOrderSemiCRF`
    warm_start, n_jobs, verbose, decoding, random_state : as in :class:`HighOrderSemiCRF`
    client : distributed.Client, default=None
        As in :class:`DaskHighOrderCRF`.

    See Also
    --------
    DaskHighOrderCRF : The same for labels of tokens.

    Examples
    --------
    See :mod:`sklearn_hocrf.dask`.
    """

    _local_class = HighOrderSemiCRF
    _parameter_constraints: ClassVar[dict] = {**HighOrderSemiCRF._parameter_constraints, "client": "no_validation"}

    def __init__(
        self,
        max_order: int | None = 1,
        *,
        encoding: str = "runs",
        max_segment_length: float | Mapping[Any, float] | None = None,
        min_segment_length: int | Mapping[Any, int] | None = None,
        sigma_reg: float | Sequence[float] | Mapping[Any, float] = 1.0,
        l1_reg: float | Sequence[float] | Mapping[Any, float] = 0.0,
        patterns: str | Iterable[tuple] | PatternSearch = "observed",
        min_pattern_count: float = 1,
        feature_order: int | Mapping[str, Any] = 0,
        min_feature_count: float = 1,
        fit_intercept: bool | str = True,
        unsupported: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        constraints: Constraints | Callable[[Any, Any], bool] | None = None,
        label_parts: Mapping[Any, Iterable] | Callable[[Any], Iterable] | None = None,
        objective: str | Objective = "likelihood",
        penalty: Any = None,
        solver: Any = "auto",
        max_iter: int = 500,
        tol: float = 3e-3,
        missing_label: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        decoding: str | TokenDecoding | SegmentDecoding = "viterbi",
        random_state: int | np.random.RandomState | None = None,
        client: Client | None = None,
    ) -> None:
        self.max_order = max_order
        self.encoding = encoding
        self.max_segment_length = max_segment_length
        self.min_segment_length = min_segment_length
        self.sigma_reg = sigma_reg
        self.l1_reg = l1_reg
        self.patterns = patterns
        self.min_pattern_count = min_pattern_count
        self.feature_order = feature_order
        self.min_feature_count = min_feature_count
        self.fit_intercept = fit_intercept
        self.unsupported = unsupported
        self.class_weight = class_weight
        self.constraints = constraints
        self.label_parts = label_parts
        self.objective = objective
        self.penalty = penalty
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.missing_label = missing_label
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.decoding = decoding
        self.random_state = random_state
        self.client = client

    @property
    def _least_labels(self):
        return 2 if self.encoding == "runs" else 1


# ----------------------------------------------------------------------------------------------------------- on workers


def _answer(model, question, number, part) -> list:
    """Return a model's answers for the sequences of a partition."""
    part = collected(part)
    if not number_of_sequences(part):
        return []
    with naming(number):
        return list(getattr(model, question)(part))


def _count_right(model, number, X, y, sample_weight=None) -> tuple[float, float]:
    """Return how many tokens of a partition are predicted correctly, and how many there are, both weighted."""
    X, y = collected(X), collected(y)
    sample_weight = None if sample_weight is None else collected(sample_weight)
    if not number_of_sequences(X) and not len(y) or sample_weight is not None and not np.any(sample_weight):
        return 0.0, 0.0
    with naming(number):
        return model._count_right(X, y, sample_weight)
