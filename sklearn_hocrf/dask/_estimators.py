"""The estimator that trains and predicts on a cluster, and the transformer that merges counts of partitions."""

from __future__ import annotations

import copy
from collections.abc import Sized
from operator import and_
from typing import Any, Self

import numpy as np
from dask import bag, delayed
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._engine.structure.layout import FeatureCounts, WeightLayout
from .._engine.training.objectives import Objective
from .._engine.training.problem import LARGE
from .._estimator.answers.fitted import FittedModel
from .._estimator.base import BaseSequenceLabeler
from .._estimator.fit.fit_steps import FitSteps
from .._estimator.fit.training import Training, TrainingStructure, last_weights, warn_not_converged
from .._estimator.labels.patterns import ObservedPatterns
from .._reading.inputs import NO_TOKENS
from .._reading.known import least_labels
from .._reading.labels import sorted_labels
from .._sklearn.versions import VersionMixin
from . import _parts
from ._partitions import Kept, Partitions, naming

_ON_CLIENT = {"sigma_reg": 1.0, "l1_reg": 0.0, "solver": "auto", "objective": "likelihood", "verbose": 0}


class DaskSequenceLabeler(_parts.WithoutClient, VersionMixin, BaseEstimator):
    """Fit a sequence model and predict with it on a cluster.

    The wrapper accepts Dask collections and trains, on the workers of a cluster, the same model that the estimator
    trains on one machine: it minimises the same function, reaches the same optimum up to the solver's tolerance, and
    sets the same fitted attributes. The result depends on the partitions. For the same partitions, it is bitwise
    identical for any number of workers and threads, and any assignment of partitions to workers.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        The estimator whose parameters specify the model. It is cloned; the original is not fitted.
    client : distributed.Client, default=None
        The connection to the cluster. None means the default client, which is the last one created. Clones, deep copies
        and pickles do not keep the client.

    Attributes
    ----------
    estimator_ : HighOrderCRF or HighOrderSemiCRF
        The fitted estimator, for data on one machine.

    See Also
    --------
    DaskExtractor : Extract features from raw tokens.

    Notes
    -----
    The estimator's ``n_jobs`` is the number of threads that evaluate one partition. Leave it at None, because the
    threads of a worker already evaluate several partitions in parallel.

    The wrapper supports both objectives, penalties of all kinds, ``sample_weight``, constraints and ``warm_start``.
    Before training, it raises an error for ``pruning``, for scikit-learn callbacks (the ``callback`` of a solver
    works), and for stochastic solvers, which process a few sequences at a time. Missing labels in y raise an error as
    soon as a worker reads them. There is no ``partial_fit``. Workers write their warnings to their logs.

    Examples
    --------
    >>> from dask import bag
    >>> from distributed import Client
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.dask import DaskSequenceLabeler
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> options = {"processes": False, "dashboard_address": None}
    >>> with Client(n_workers=2, threads_per_worker=1, **options) as client:
    ...     X_bag, y_bag = (bag.from_sequence(data, npartitions=2) for data in (X, y))
    ...     labeler = DaskSequenceLabeler(HighOrderCRF(), client).fit(X_bag, y_bag)
    ...     labeler.predict(X_bag).compute()
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    >>> labeler.estimator_.predict(X[:1])  # without a cluster
    [['DET', 'ADJ', 'NOUN']]
    """

    def __init__(self, estimator: BaseEstimator, client: Any = None) -> None:
        self.estimator = estimator
        self.client = client

    # --- training -----------------------------------------------------------------------------------------------------

    def fit(self, X: Sized, y: Sized, sample_weight: Any = None) -> Self:
        """Fit the model to labelled sequences on the workers of a cluster.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            Sequences. Each partition is an X that the estimator accepts: a list of sequences, a
            :class:`~sklearn_hocrf.SequenceBatch`, or an array. A partition may be empty.
        y : dask.bag.Bag, or list of Delayed or Future
            Labels, partitioned like X.
        sample_weight : Bag, dask array, or list of Delayed or Future, default=None
            One weight per sequence, partitioned like X.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If parameters are invalid (the error is raised before training), or if data are invalid (the message names
            the partition, the sequence and the position). The fitted attributes then remain unchanged.
        ConnectionError
            If the connection to the scheduler is lost.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If training does not converge, as in ``fit`` of the local estimator.
        """
        if not isinstance(self.estimator, BaseSequenceLabeler):
            raise TypeError(f"estimator must be a HighOrderCRF or HighOrderSemiCRF, got {self.estimator!r:.200}")
        steps = FitSteps(clone(self.estimator))
        training = self._choose_training(steps)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        parts = _parts.sources(X=X, y=y, sample_weight=sample_weight)
        partitions = Partitions(_parts.find_client(self.client), parts)
        try:
            state, stages = self._train(steps, training, partitions)
        finally:
            partitions.release()
        state.set_on(steps.estimator)
        self.estimator_ = steps.estimator
        training.lines.end(stages[-1])
        warn_not_converged(steps.name, training.solver, stages)
        return self

    def _choose_training(self, steps) -> Training:
        """Check the parameters, and return the training that they specify."""
        steps.check()
        steps.refuse("cluster")
        if getattr(steps.estimator, "_skl_callbacks", None):
            raise ValueError("scikit-learn callbacks do not work on a cluster: use the callback of a solver")
        training = steps.choose_training()
        return training._replace(objective=ClusterObjective(training.objective))

    def _train(self, steps, training, partitions):
        """Return the state of the fitted model, and the reports of the stages of training."""
        local = steps.estimator
        remote = Kept(copy.copy(local).set_params(**_ON_CLIENT))
        training.lines.write(f"workers read {len(partitions)} partitions")
        partitions.add_step(_parts.read_part, remote)
        described: _parts.Description | None = partitions.total(_parts.describe, _parts.Description.merged)
        if described is None:
            raise ValueError(NO_TOKENS)
        labels = sorted_labels(described.labels, [0, len(described.labels)], least_labels(steps.reader.scheme))
        features = described.features
        rules = steps.rules(labels)
        parts = steps.parts(labels)
        partitions.add_step(_parts.prepare_part, remote, Kept(labels), Kept(features))
        surveyed: _parts.Survey = partitions.total(_parts.survey, _parts.Survey.merged, remote)
        data = TrainingStructure(surveyed.targets, features, rules, parts)
        observed = ObservedPatterns(surveyed.n_positions, lambda *_: surveyed.patterns, steps.history)
        builder = steps.layout_builder(data, steps.select_patterns(data, observed))
        layout = builder.build(partitions.total(_parts.count_features, FeatureCounts.merged, Kept(builder)))
        setting = _parts.Setting(remote.value, layout)
        problem = ClusterProblem(partitions, setting, surveyed.n_sequences)
        penalty = steps.penalty(training.prior, layout, data)
        before = getattr(self, "estimator_", None) if local.warm_start else None
        start = np.zeros(layout.n_weights) if before is None else last_weights(vars(before), layout, data)
        stages = training.run([problem], penalty, start, is_warm=before is not None)
        return steps.state(data, problem, penalty, stages[-1]), stages

    def _model(self) -> BaseSequenceLabeler:
        """Return a copy of the fitted estimator, for tasks that may be executed later."""
        check_is_fitted(self)
        return copy.copy(self.estimator_)

    # --- predictions --------------------------------------------------------------------------------------------------

    def predict(self, X: Sized) -> bag.Bag:
        """Return the most probable labels of each sequence.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            As in :meth:`fit`.
            Sequences may be empty.

        Returns
        -------
        labels : dask.bag.Bag
            Partitioned like X. The bag is lazy: ``compute()`` returns a list, and ``persist()`` keeps the bag on the
            workers of the default client. If ``client`` is a different one, use ``client.compute(labels, sync=True)``.

        Raises
        ------
        NotFittedError
            If the estimator has not been fitted.
        TypeError, ValueError
            If sequences are invalid, when the bag is computed; the message names the partition, the sequence and the
            position.
        """
        return _mapped(self._model(), "predict", _parts.sources(X=X))

    def predict_marginals(self, X: Sized) -> bag.Bag:
        """Return the probability of each label at each token.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            As in :meth:`predict`.

        Returns
        -------
        probabilities : dask.bag.Bag of ndarray of shape (n_tokens, n_classes)
            Partitioned like X.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As for :meth:`predict`.
        """
        return _mapped(self._model(), "predict_marginals", _parts.sources(X=X))

    def score(self, X: Sized, y: Sized, sample_weight: Any = None) -> float:
        """Return the share of tokens with the correct label.

        Parameters
        ----------
        X, y : dask.bag.Bag, or list of Delayed or Future
            As in :meth:`fit`.
        sample_weight : Bag, dask array, or list of Delayed or Future, default=None
            As in :meth:`fit`.

        Returns
        -------
        accuracy : float

        Raises
        ------
        NotFittedError
            If the estimator has not been fitted.
        TypeError, ValueError
            If sequences are invalid (the message names the partition, the sequence and the position), or if no token
            has a positive weight.
        """
        model = delayed(self._model())
        score = delayed(_count_right, pure=False)
        parts = _parts.sources(X=X, y=y, sample_weight=sample_weight)
        counts = [score(model, index, *part) for index, part in enumerate(parts)]
        client = _parts.find_client(self.client)
        right, total = np.sum(client.gather(client.compute(counts)), axis=0)
        if not total:
            raise ValueError("X has no tokens of positive weight: there is nothing to score")
        return float(right / total)


def _mapped(of, method, parts) -> bag.Bag:
    """Return a lazy bag; workers compute each of its partitions by calling the method ``method`` of ``of``."""
    of, apply = delayed(of), delayed(_apply_to_part, pure=False)
    return bag.from_delayed([apply(of, method, index, *part) for index, part in enumerate(parts)])


# ----------------------------------------------------------------------------------------------------------- on workers


def _apply_to_part(of, method, index, *part) -> Any:
    """Return the result of a method of a model or an extractor for a partition, or [] if the partition is empty."""
    X, *more = map(_parts.collected, part)
    if not _parts.count_sequences(X):
        return []
    with naming(index):
        return getattr(of, method)(X, *more)


def _count_right(model, index, X, y, sample_weight=None) -> tuple[float, float]:
    """Return the number of correctly predicted tokens of a partition and the number of all tokens, both weighted."""
    X, y = _parts.collected(X), _parts.collected(y)
    sample_weight = None if sample_weight is None else _parts.collected(sample_weight)
    if not _parts.count_sequences(X) and not len(y) or sample_weight is not None and not np.any(sample_weight):
        return 0.0, 0.0
    with naming(index):
        return FittedModel(model).count_right(X, y, sample_weight)


class ClusterProblem:
    """Labelled training data on a cluster, with one layout of weights.

    Parameters
    ----------
    partitions : Partitions of Part
    setting : Setting
        The estimator and the layout; :meth:`total` adds the criterion.
    n_sequences : int
    """

    level_zero = None  # all tokens may have all labels

    def __init__(self, partitions: Partitions, setting: _parts.Setting, n_sequences: int) -> None:
        self._partitions, self._setting = partitions, setting
        self.layout: WeightLayout = setting.layout
        self.n_weights, self.n_sequences = self.layout.n_weights, n_sequences
        self._bound: Any = None  # the criterion that is bound to the partitions

    def total(self, criterion: Objective, method: str, *vectors: np.ndarray, merge=_parts.add_sums) -> Any:
        """Return the sum over the partitions of what the method ``method`` of the criterion returns for the vectors.

        The criterion is bound to the value of each partition, so that every worker keeps the layout that the criterion
        requires. If the layout were a shared argument of the sums, Dask would drop all copies of it except one between
        two sums, and then send that copy to the workers again.
        """
        if criterion is not self._bound:
            self._partitions.add_step(_parts.bind_criterion, Kept(self._setting._replace(criterion=criterion)))
            self._bound = criterion
        return self._partitions.total(_parts.evaluate, merge, method, *vectors)


class ClusterObjective(Objective):
    """A criterion that is a sum over sequences, computed as a sum over the partitions of a cluster.   K weights.

    Parameters
    ----------
    criterion : Objective
        The criterion, without data.
    """

    def __init__(self, criterion: Objective) -> None:
        self._criterion, self.is_convex = criterion, criterion.is_convex

    def starting_objective(self) -> Objective | None:
        first = self._criterion.starting_objective()
        return None if first is None else ClusterObjective(first)

    def _total(self, method, *vectors, merge=_parts.add_sums):
        return self.problem.total(self._criterion, method, *vectors, merge=merge)

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value, and the gradient of shape (K,), at ``w``."""
        return self._total("value_gradient", w)

    def separates(self, w: np.ndarray) -> bool:
        """Return whether ``w`` makes the labels of each sequence more probable than all other labellings together."""
        largest = max(self._total("largest_log_z", w, merge=max), LARGE)
        return self._all_right(w * (LARGE / largest)) and not self._all_right(np.zeros(len(w)))

    def _all_right(self, w):
        return self._total("gives_most_to_truth", w, merge=and_)


class DaskExtractor(_parts.WithoutClient, TransformerMixin, VersionMixin, BaseEstimator):
    """Fit a transformer of :mod:`sklearn_hocrf.feature_extraction` on a cluster, and apply it on the cluster.

    The transformer's ``fit_partition`` counts the features of each partition, ``merge`` adds up the counts along a
    tree, and ``finish`` creates the same vocabulary as ``fit`` on one machine.

    Parameters
    ----------
    extractor : transformer
        A transformer with ``fit_partition``, ``merge`` and ``finish``, such as a
        :class:`~sklearn_hocrf.feature_extraction.SequenceFeatureExtractor`. It is cloned; the original is not fitted.
    client : distributed.Client, default=None
        As in :class:`DaskSequenceLabeler`.

    Attributes
    ----------
    extractor_ : transformer
        The fitted transformer, for data on one machine.

    See Also
    --------
    DaskSequenceLabeler : Train a model on the result.

    Notes
    -----
    A transformer that hashes the names of attributes needs neither ``fit`` nor this class: use
    ``X.map_partitions(extractor.transform)``.

    Examples
    --------
    >>> from dask import bag
    >>> from distributed import Client
    >>> from sklearn_hocrf.dask import DaskExtractor
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> X = [["the", "old", "man"], ["the", "man"]]
    >>> templates = SequenceFeatureExtractor([("w", 0)])
    >>> options = {"processes": False, "dashboard_address": None}
    >>> with Client(n_workers=2, threads_per_worker=1, **options) as client:
    ...     extractor = DaskExtractor(templates, client)
    ...     _ = extractor.fit(bag.from_sequence(X, npartitions=2))
    >>> extractor.extractor_.get_feature_names_out().tolist()
    ['w[0]=man', 'w[0]=old', 'w[0]=the']
    """

    def __init__(self, extractor: Any, client: Any = None) -> None:
        self.extractor = extractor
        self.client = client

    def fit(self, X: Sized, y: Sized | None = None) -> Self:
        """Learn the features of the sequences of all partitions.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            Each partition is an X that the transformer accepts. A partition may be empty.
        y : object, default=None
            Not used.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If the transformer has no ``fit_partition``.
        ValueError
            If data are invalid; messages name the partition, the sequence and the position.
        """
        extractor = clone(self.extractor)
        if not hasattr(extractor, "fit_partition"):
            raise TypeError(
                f"{type(extractor).__name__} does not learn from partitions: fit it on one machine, and map its "
                "transform over the partitions"
            )
        partitions = Partitions(_parts.find_client(self.client), _parts.sources(X=X))
        try:
            partitions.add_step(_count_part, Kept(extractor))
            counts = partitions.total(_itself, extractor.merge)
        finally:
            partitions.release()
        self.extractor_ = extractor.finish(counts)
        return self

    def transform(self, X: Sized) -> bag.Bag:
        """Return the features of the sequences of each partition.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            As in :meth:`fit`.

        Returns
        -------
        batches : dask.bag.Bag
            Each partition is a :class:`~sklearn_hocrf.SequenceBatch`. The bag is lazy.

        Raises
        ------
        NotFittedError
            If the extractor has not been fitted.
        TypeError, ValueError
            If sequences are invalid, when the bag is computed; the message names the partition, the sequence and the
            position.
        """
        check_is_fitted(self)
        return _mapped(copy.copy(self.extractor_), "transform", _parts.sources(X=X))


def _count_part(extractor, part):
    return extractor.fit_partition(_parts.collected(part))


def _itself(counts):
    return counts
