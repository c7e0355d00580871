"""Search for penalties by cross-validation."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence, Sized
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold, check_cv
from sklearn.pipeline import Pipeline

from .._data.checks import check, is_integer
from .._data.messages import unwarned, warn_user
from .._engine.training.solvers import one_blas_thread
from .._estimator.base import BaseSequenceLabeler
from .._estimator.fit.fit_steps import FitSteps
from .._estimator.fit.training import TrainingData
from .._estimator.segment_labeler import HighOrderSemiCRF
from .._estimator.token_labeler import HighOrderCRF
from .._reading.inputs import check_sequence_weight
from .._reading.rows import indexable_sequences
from .._sklearn.layers import MethodsOfModel, check_fit, splits_of
from .._sklearn.names import N_JOBS, Interval, StrOptions, check_declared, fit_context
from .._sklearn.versions import VersionMixin, with_lists, with_mappings
from ._groups import (
    WeightGroups,
    check_keys,
    check_weights,
    make_fold,
    refuse_missing_labels,
    split_data,
    training_data,
    used_parts,
)
from ._order_search import (
    AUTO_ORDERS,
    Course,
    OrderSearch,
    Step,
    attributes_of,
    best_index,
    columns_of_params,
    has_risen_enough,
)

N_FOLDS = 5
UTMOST_BOUNDS = 1e-100, 1e100  # of sigma: its square must be finite and positive


class PenaltySearchCV(VersionMixin, MethodsOfModel, MetaEstimatorMixin, BaseEstimator):
    """Learn ``sigma_reg`` and ``l1_reg`` of each group of weights by cross-validation, with exact gradients.

    The search maximises the log-likelihood per held-out token over the penalties of all groups at once. It follows the
    gradient, which requires one linear system per fold for all groups together [1]_, so many groups take little more
    time than one group. A grid over that many groups would be infeasible.

    Each fold uses the model that the estimator's ``fit`` creates from the training part of the fold: label patterns
    that do not occur in this part have no weights. The labels, and the maximum segment length of each label, are taken
    from all data, so that held-out likelihoods are finite.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF or Pipeline
        The model, or a pipeline that ends in one; the other steps are fitted to each training part. The search starts
        from its ``sigma_reg``, and keeps its ``l1_reg`` unless ``learn_l1`` is True.
    cv : "shuffled", int, cross-validation generator, iterable or None, default="shuffled"
        "shuffled" means five folds with a fixed seed. The folds consist of sequences, or of groups if you pass
        ``groups`` to ``fit``. Other values are as in :class:`~sklearn.model_selection.GridSearchCV`, where an int k
        means ``KFold(k)``, which does not shuffle. Each held-out part must be new in the same way as the data at
        prediction time: penalties that suit known words, for example, may not suit new words.
    penalty_groups : "order" or list of keys, default="order"
        Groups of weights with a common penalty. "order" forms one group of feature weights and one group of pattern
        weights for each order. A list contains keys of a mapping ``sigma_reg`` (see
        :class:`~sklearn_hocrf.HighOrderCRF`); the keys must cover all weights.
    orders : list of int, "auto" or None, default=None
        Values of ``max_order`` to try. None means the ``max_order`` of the estimator.

        For a list, the search first takes one step at each order, with the ``sigma_reg`` of the estimator, and without
        an L1 penalty if ``learn_l1`` is True. Groups that the first order lacks begin with the ``sigma_reg`` of the
        next lower order. Further steps of an order start from the best penalties and the weights of the previous order;
        new groups start from the smaller of their first penalty and the penalty of the next lower order. The search
        chooses a lower order unless a higher one gains more than a standard error, computed from the gains of the
        folds.

        "auto" tries orders 1, 2, 3, ..., up to 8. It stops after two successive orders that do not gain more than a
        standard error over a lower order, or before an order that adds no weights. Each order starts from the previous
        one, and takes only the steps that the comparison needs; further steps follow at the best order. "auto" requires
        ``patterns="observed"``.
    bounds : tuple of float, default=(0.01, 100)
        Minimum and maximum ``sigma_reg``.
    learn_l1 : bool, default=False
        Whether to learn the ``l1_reg`` of each group as well; it is 0 if the score is best without an L1 penalty. Try
        True if there are more attributes than tokens. The search then takes two to three times as long as with False.
    max_steps : int, default=20
        Maximum number of steps for each order.
    max_time : float, default=None
        Time limit of ``fit``, in seconds; None means no limit. The search reserves time for fitting the best estimator,
        and estimates this time from the passes of the best step so far. A step begins only if the remaining time is at
        least half of the duration of the last step. Each step is completed, so ``fit`` may exceed the limit by part of
        a step and by the error of the estimate. The first step of the first order always begins; the first steps of
        other orders begin only if time remains. The remaining time is divided equally between the orders, and later
        orders may use the time that an order does not need. With ``orders="auto"``, each order may use all remaining
        time. When the time is up, the search uses the best penalties so far, whose score may then be imprecise.
    tol : float, default=1e-3
        Relative tolerance of the best score. In the last steps, the tolerance of the weights is a tenth of the square
        root of ``tol`` (three tenths with ``learn_l1``); in the first steps, it is larger. The search stops when each
        of two successive steps gains less than half of ``tol`` times the score, or when the gradient predicts such a
        gain for the second step.
    refit : bool, default=True
        Whether to fit the estimator to all data with the best penalties.
    n_jobs : int or None, default=None
        Number of folds evaluated in parallel, each in a thread. Results do not depend on it.
    verbose : int, default=0
        If nonzero, ``fit`` writes a line to stderr after each step, with an estimate of the remaining time, including
        the final refit.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator with the best parameters, fitted to all data; only with ``refit``.
    best_params_ : dict
        The best parameters, named as in GridSearchCV: ``sigma_reg``, a mapping, if there are weights; ``l1_reg``, also
        a mapping, if it is learned; and ``max_order`` if you pass ``orders``. For a pipeline, the names are prefixed
        with the name of the last step.
    best_score_ : float
        Mean over the folds of the log-likelihood per held-out token, in nats.
    best_index_ : int
        Index of the best step, which is not necessarily the last one. With ``orders``, its score may be lower than that
        of a higher order.
    cv_results_ : dict of arrays of shape (n_steps,)
        As in GridSearchCV: ``params``, ``param_sigma_reg``, ``split0_test_score`` ..., ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``. There are also ``max_order``; ``token_accuracy``, the mean over the
        folds; and ``n_passes`` over training parts and ``seconds``, both summed over the folds. For each group
        (``features_0``, ``patterns_1``, ...), ``sigma_<group>`` contains its penalty, and ``gradient_<group>`` the
        derivative of the mean score with respect to log sigma; both are nan if an order lacks the group. If ``l1_reg``
        is learned, ``param_l1_reg``, ``l1_<group>`` and ``gradient_l1_<group>`` contain the same for L1 penalties. All
        steps of an order are consecutive.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds that the final fit of the best estimator took; only with ``refit``.

    Notes
    -----
    Use this search if groups of weights differ in reliability, especially at high orders. Each held-out part should be
    new in the same way as the data at prediction time: pass ``groups`` of words, writers or documents to :meth:`fit`.
    Known words require weak penalties on patterns, and new words require strong ones; the wrong choice lowers accuracy.
    On text with many rare features, the search gains less; compare its result with that of ``penalty_groups=[None]``,
    which means one penalty for all weights. The search maximises the likelihood; other scores such as F1 do not
    necessarily improve.

    The methods of ``best_estimator_`` are available: ``predict``, ``predict_marginals``, ``score`` (the token
    accuracy), ``log_likelihood`` and so on. For a pipeline, this includes methods that
    :class:`~sklearn.pipeline.Pipeline` lacks; the other steps first transform X.

    Callbacks of ``estimator`` run only during the final refit.

    Whatever the ``solver`` of the estimator, the weights of a fold are trained by L-BFGS (or by OWL-QN with an L1
    penalty), starting from the weights of the best step so far. The tolerance shrinks from step to step [2]_, and
    scores are corrected, to first order, for the remaining errors of the weights. At the end, the search evaluates the
    best step precisely, and then any step that is now better, so that ``best_score_`` is accurate for its parameters.
    Other steps are only as precise as the search needs: their gradients have errors of a few percent. These settings
    are not supported and raise an error: infinite ``sigma_reg``, criteria without Hessian products, and stochastic
    solvers. Each fold stores up to 128 MiB of curvature information for L-BFGS.

    With an L1 penalty, the derivatives take only the nonzero weights into account [3]_. They are discontinuous where a
    weight becomes 0, so the search compares steps only by their scores. With ``learn_l1``, the steps after the first
    use one ``l1_reg`` for all groups and lower it from step to step, until the score falls. From the best point so far,
    the search then follows the gradient. At the end of the first order, the search also tries each group without its L1
    penalty.

    References
    ----------
    .. [1] Foo, Do and Ng, "Efficient multiple hyperparameter learning for log-linear models", NIPS 2007.
    .. [2] Pedregosa, "Hyperparameter optimization with approximate gradient", ICML 2016.
    .. [3] Bertrand, Klopfenstein, Blondel, Vaiter, Gramfort and Salmon, "Implicit differentiation of Lasso-type models
       for hyperparameter optimization", ICML 2020.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> from sklearn_hocrf.model_selection import PenaltySearchCV
    >>> X, y = make_digit_words(60, random_state=0)
    >>> X_test, y_test = make_digit_words(random_state=1)
    >>> crf = HighOrderCRF(max_order=2)
    >>> search = PenaltySearchCV(crf, cv=2, max_steps=2).fit(X, y)
    >>> list(search.best_params_["sigma_reg"])
    [('features', 0), ('patterns', 0), ('patterns', 1), ('patterns', 2)]
    >>> search.score(X_test, y_test) > crf.fit(X, y).score(X_test, y_test)
    True
    >>> search = PenaltySearchCV(crf, orders="auto", cv=2, max_steps=2, refit=False).fit(
    ...     X, y
    ... )
    >>> search.best_params_["max_order"], int(search.cv_results_["max_order"].max())
    (3, 5)
    """

    __module__ = "sklearn_hocrf.model_selection"  # the public module: model files contain this name

    _answering = "best_estimator_"
    _parameter_constraints: dict = {
        "estimator": [HighOrderCRF, HighOrderSemiCRF, Pipeline],
        "cv": ["cv_object", StrOptions({"shuffled"})],
        "penalty_groups": [str, list, tuple],
        "orders": ["array-like", StrOptions({"auto"}), None],
        "bounds": [tuple, list],
        "learn_l1": ["boolean"],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "refit": ["boolean"],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        cv: Any = "shuffled",
        penalty_groups: Any = "order",
        orders: Sequence[int] | str | None = None,
        bounds: tuple[float, float] = (0.01, 100.0),
        learn_l1: bool = False,
        max_steps: int = 20,
        max_time: float | None = None,
        tol: float = 1e-3,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.penalty_groups = penalty_groups
        self.orders = orders
        self.bounds = bounds
        self.learn_l1 = learn_l1
        self.max_steps = max_steps
        self.max_time = max_time
        self.tol = tol
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- fit ----------------------------------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Sized, y: Sized, *, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the penalties, and fit the estimator to all data with the best ones.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`; for a pipeline, the input of its first step.
        y : list of label sequences, or array-like
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
        groups : array-like of shape (n_sequences,), default=None
            Groups of sequences, such as words, writers or documents, that will be new as a whole at prediction time.
            ``cv="shuffled"`` and splitters such as :class:`~sklearn.model_selection.GroupKFold` use them. They are
            unrelated to ``penalty_groups``.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, used in training and in the score.

        Returns
        -------
        self : object
            The fitted search.

        Raises
        ------
        ValueError, TypeError
            If parameters or data are invalid, or if the search does not support a setting of the model. These errors
            are raised before training.

        Warns
        -----
        UserWarning
            If the best ``sigma_reg`` of a group is at a bound, if the time was up before the first step of an order, or
            if the best order is the highest that was tried and a higher one would have more weights.
        sklearn.exceptions.ConvergenceWarning
            If the weights of a fold did not converge within the estimator's ``max_iter`` iterations.
        """
        course = Course(self)
        X, y, weight, splits, whole = self._prepared(X, y, groups, sample_weight)
        whole = training_data(self.estimator, X, y, weight) if whole is None else whole
        course.reading, course.n_orders = course.elapsed(), len(self._orders())
        check_weights(self, whole, self._final, self._orders())
        parts = [split_data(self.estimator, X, y, weight, *split) for split in used_parts(whole, splits)]
        with one_blas_thread():
            run = self._run_rising if isinstance(self.orders, str) else self._run_given
            run(whole, parts, course)
        attributes = attributes_of(course.steps, self._prefix, self.orders is not None)
        self._warn_of_orders(course, whole)
        self._warn_of_steps(course.steps)
        if self.refit:
            attributes |= self._refit(X, y, sample_weight, attributes["best_params_"])
        for name in {"best_estimator_", "refit_time_"} - set(attributes):  # attributes of an earlier fit
            self.__dict__.pop(name, None)
        self.__dict__.update(attributes)
        return self

    def __check_fit__(self, X: Sized, y: Sized, *, groups: Any = None, sample_weight: Any = None, **_: Any) -> None:
        check_declared(self)
        if X is None:
            self._check_parameters()
            return self._check_targets(y, sample_weight)
        with unwarned():
            whole = self._prepared(X, y, groups, sample_weight)[-1]
        if whole is not None:
            check_weights(self, whole, self._final, self._orders())

    def _prepared(self, X, y, groups, sample_weight) -> tuple[Any, Any, np.ndarray | None, list, TrainingData | None]:
        """Return checked data, weights, splits and, unless transformers must be fitted first, the training data."""
        self._check_parameters()
        X, y, groups = indexable_sequences(X, y, groups)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        weight = check_sequence_weight(sample_weight, len(y))
        splits = splits_of(self._splitter(groups), X, y, groups=groups)
        is_alone = self._final is self.estimator
        whole = training_data(self.estimator, X, y, weight) if is_alone else None  # errors in X come before those in y
        self._check_targets(y, weight)
        return X, y, weight, splits, whole

    def _check_targets(self, y, weight) -> None:
        """Raise an error if the model at the end of a pipeline rejects y at one of the orders."""
        with unwarned():
            refuse_missing_labels(FitSteps(self._final).read_without_features(y, weight))
        for order in self._orders():
            model = clone(self.estimator).set_params(**{f"{self._prefix}max_order": order})
            check_fit(model, None, y, **self._fit_options(weight))

    def _splitter(self, groups) -> Any:
        if not isinstance(self.cv, str):
            return check_cv(self.cv)
        splitter = KFold if groups is None else GroupKFold
        return splitter(N_FOLDS, shuffle=True, random_state=0)

    def _refit(self, X, y, sample_weight, best_params) -> dict:
        """Return the attributes of the estimator with the best parameters, fitted to all data."""
        begun = time.perf_counter()
        best = clone(self.estimator).set_params(**copy.deepcopy(best_params))
        best.fit(X, y, **self._fit_options(sample_weight))
        return {"best_estimator_": best, "refit_time_": time.perf_counter() - begun}

    def _fit_options(self, sample_weight) -> dict:
        """Return the weights of sequences as an option of the estimator's ``fit``."""
        name = "sample_weight" if get_config()["enable_metadata_routing"] else f"{self._prefix}sample_weight"
        return {} if sample_weight is None else {name: sample_weight}

    def _check_parameters(self) -> None:
        bounds = np.asarray(self.bounds, dtype=object)
        valid = bounds.shape == (2,) and all(isinstance(bound, Real) for bound in bounds)
        least, most = UTMOST_BOUNDS
        needed = f"two numbers low < high from {least:g} to {most:g}"
        check(valid and least <= bounds[0] < bounds[1] <= most, "bounds", needed, self.bounds)
        if not isinstance(self.orders, str):
            valid = self.orders is None or (len(self.orders) > 0 and all(is_integer(k) and k >= 0 for k in self.orders))
            check(valid, "orders", 'None, "auto" or a list of integers >= 0', self.orders)
        is_empty = isinstance(self.estimator, Pipeline) and not self.estimator.steps
        if is_empty or not isinstance(self._final, BaseSequenceLabeler):
            raise TypeError(
                "estimator must be a HighOrderCRF or HighOrderSemiCRF, or a Pipeline that ends in one, got "
                f"{self.estimator!r:.200}"
            )
        check_keys(self.penalty_groups)
        patterns = self._final.patterns
        if isinstance(self.orders, str) and not (isinstance(patterns, str) and patterns == "observed"):
            raise ValueError(
                f'orders="auto" tries orders up to {max(AUTO_ORDERS)}, but patterns={patterns!r:.60} have orders of '
                'their own: set patterns="observed", or pass a list of orders'
            )
        for order in self._orders():
            steps = FitSteps(clone(self._final).set_params(max_order=order))
            steps.check()
            steps.refuse("learned penalties")

    @property
    def _final(self) -> Any:
        """Return the model, without the other steps of a pipeline."""
        return self.estimator.steps[-1][1] if isinstance(self.estimator, Pipeline) else self.estimator

    @property
    def _prefix(self) -> str:
        """Return the prefix of the names of the model's parameters."""
        return f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""

    def _orders(self) -> list[int]:
        if self.orders is None:
            return [self._final.max_order]
        return [int(order) for order in (AUTO_ORDERS if isinstance(self.orders, str) else self.orders)]

    def _run_given(self, whole, parts, course) -> None:
        """Take the first step of each order, and then search at each order in turn."""
        for order in self._orders():
            if not course.searches or course.left() > 0:
                self._add(order, whole, parts, course).begin()
                if course.n_orders > 1:
                    course.searches[-1].forget()
            else:
                course.untried.append(order)
        best = None
        for number, search in enumerate(course.searches):
            if course.share(number):
                search.run(best)
                best = best if search.best is search.steps[0] else search  # the last order that has gained

    def _run_rising(self, whole, parts, course) -> None:
        """Compare rising orders for as long as the score rises, and then continue the search at the best one."""
        earlier = None
        for order in self._orders():
            if earlier and not self._has_more_weights(order, whole):
                break
            if earlier and course.left() <= 0:
                course.untried.append(order)
                break
            search = self._add(order, whole, parts, course)
            if earlier is None:
                search.begin()
            course.share(len(course.searches) - 1)
            search.run(earlier, is_compared=True)
            earlier = search
            if has_risen_enough(course.steps):
                break
        order = course.steps[best_index(course.steps)].order
        best = next(search for search in course.searches if search.steps and search.steps[0].order == order)
        if course.left() > 0:
            best.run(best)

    def _has_more_weights(self, order, whole) -> bool:
        """Return whether a model of this order has more weights than one of the next lower order."""
        models = [FitSteps(clone(self._final).set_params(max_order=k)) for k in (order - 1, order)]
        with unwarned():
            fewer, more = (steps.layout(whole).n_weights for steps in models)
        return more > fewer

    def _add(self, order, whole, parts, course) -> OrderSearch:
        """Add the search at an order to the course, and return it."""
        final = clone(self._final).set_params(max_order=order)
        layout = FitSteps(final).layout(whole)
        groups = WeightGroups.for_layout(layout, whole, self.penalty_groups, order)
        earlier = course.searches[-1].folds if course.searches else [None] * len(parts)
        folds = [make_fold(final, part, whole.targets, groups, fold) for part, fold in zip(parts, earlier, strict=True)]
        lower = course.searches[0].steps[0].sigma if course.searches else {}
        sigma = groups.start(final.sigma_reg, layout, whole, lower)
        course.searches.append(OrderSearch(self, order, groups, sigma, folds, course))
        return course.searches[-1]

    def _warn_of_orders(self, course: Course, whole: TrainingData) -> None:
        """Warn of untried orders, or that a higher order may be better because the highest one tried is the best."""
        if course.untried:
            fewer = "" if isinstance(self.orders, str) else ", or pass fewer orders"
            warn_user(
                f"max_time={self.max_time:g} was over before the first step of orders {course.untried}, which are not "
                f"tried: increase max_time{fewer}"
            )
            return
        tried = {step.order for step in course.steps}
        best, patterns = course.steps[best_index(course.steps)].order, self._final.patterns
        is_all = isinstance(patterns, str) and patterns == "all"
        if best == max(tried) > min(tried) and (is_all or self._has_more_weights(best + 1, whole)):
            is_other = not is_all and not isinstance(self.orders, str) and best < max(AUTO_ORDERS)
            warn_user(
                f"the best order is {best}, the highest that was tried: a higher one may be better. Pass "
                f"orders=[{best}, {best + 1}, {best + 2}]" + (', or orders="auto"' if is_other else "")
            )

    def _warn_of_steps(self, steps: list[Step]) -> None:
        for key, sigma in steps[best_index(steps)].sigma.items():
            if np.isclose(sigma, self.bounds, rtol=1e-6).any():
                warn_user(
                    f"the best sigma_reg of {key!r} is at a bound, {sigma:.4g}: the score may grow beyond it. Widen "
                    f"bounds={self.bounds!r}, or accept that the group needs no penalty, or no weights"
                )
        answers = [fold for step in steps for fold in step.folds]
        unfinished = sum(not answer.converged for answer in answers)
        if unfinished:
            warn_user(
                f"the weights of a fold did not converge {unfinished} times in {len(answers)}, so "
                f"scores and gradients are less exact: increase max_iter (now {self._final.max_iter})",
                ConvergenceWarning,
            )

    # --- state, in which skops cannot write mappings whose keys are tuples --------------------------------------------

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        if "cv_results_" in state:
            columns = {name: column for name, column in self.cv_results_.items() if not name.startswith("param_")}
            columns["params"] = [with_lists(params, params) for params in columns["params"]]
            state = {name: value for name, value in state.items() if name != "best_params_"} | {"cv_results_": columns}
        return state

    def __setstate__(self, state: dict) -> None:
        if "cv_results_" in state:
            columns = dict(state["cv_results_"])
            params = [with_mappings(params, params) for params in columns.pop("params")]
            best = copy.deepcopy(params[state["best_index_"]])
            state = {**state, "best_params_": best, "cv_results_": columns_of_params(params) | columns}
        super().__setstate__(state)

    # --- methods of the best estimator --------------------------------------------------------------------------------

    def _refusing(self, name: str) -> Callable:
        if self.__sklearn_is_fitted__():
            raise AttributeError(f"{name} requires the best estimator, which is not fitted with refit=False")
        return super()._refusing(name)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_params_")
