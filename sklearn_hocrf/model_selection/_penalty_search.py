"""Search for penalties by cross-validation."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from .._estimator.base import BaseSequenceLabeler
from .._estimator.callbacks import CallbacksMixin, SearchTasks
from .._estimator.fit_steps import FitSteps
from .._estimator.progress import duration, tell
from .._persistence import VersionMixin
from .._settings import check
from .._solvers import SearchEnd, minimize_in_box, one_blas_thread
from .._validation import check_sequence_weight, unwarned, warn_user
from .._validation._delegation import MethodsOfModel, check_fit
from .._validation._sklearn import N_JOBS, Interval, StrOptions, check_declared, fit_context
from .._validation._splits import indexable_sequences, splits_of
from ._fold import RESIDUAL, Fold, FoldStep
from ._groups import WeightGroups, check_keys, check_searchable, check_weights, column_name
from ._splits import make_fold, refuse_missing_labels, split_data, training_data, used_parts, warn_of_folds

__all__ = ["PenaltySearchCV"]

N_FOLDS = 5
SHRINKING = 0.5  # factor of the tolerance from step to step
LEAST_GAIN = 0.5  # of a step, relative to ``tol`` times the score
PATH = 1.0, 0.1, 0.01, 0.001, 0.0  # of l1, in units of a useful one
LOOSE = 0.3  # residual where no gradient is needed
WIDEST_L1 = np.log(1e6)  # of the search from where it starts
UTMOST_BOUNDS = 1e-100, 1e100  # of sigma: its square must be finite and positive
COLD, WARM = 1.0, 0.3  # length of the first step, in log sigma and log l1, of the first order and of others


class _Tolerances(NamedTuple):
    """Of the training of folds; the finer ones in units of the root of ``tol``."""

    loosest: float  # in the first step
    finest: float
    precise: float  # of the best step at the end
    residual: float  # of the linear system, in units of the tolerance of training, if that is more than RESIDUAL
    residual_of_precise: float


SMOOTH = _Tolerances(0.05, 0.1, 0.05, 0.0, RESIDUAL)
SPARSE = _Tolerances(0.1, 0.3, 0.1, 1.0, LOOSE)  # with L1 learned, gradients jump, and more precise ones are no use


class _Step(NamedTuple):
    """One choice of penalties.   F folds, G groups."""

    order: int
    sigma: dict  # by group, without groups that have no weights in all data
    folds: list[FoldStep]
    l1: dict = {}  # likewise; empty unless it is learned

    @classmethod
    def of(cls, order: int, groups: WeightGroups, values: np.ndarray, folds: list[FoldStep]) -> Self:
        """Return the step for results of the folds; ``values``, of shape (1 or 2, G), and gradients have all groups."""
        used = np.flatnonzero(groups.has_weights)
        kept = [fold._replace(gradient=fold.gradient.reshape(values.shape)[:, used].ravel()) for fold in folds]
        sigma, *l1 = ({groups.keys[group]: float(of_kind[group]) for group in used} for of_kind in values)
        return cls(order, sigma, kept, *l1)

    @property
    def score(self) -> float:
        return float(np.mean([fold.score for fold in self.folds]))

    @property
    def gradient(self) -> np.ndarray:
        """Return the gradient with respect to log sigma, and to log l1 if it is learned; shape (G,) or (2G,)."""
        return np.mean([fold.gradient for fold in self.folds], axis=0)

    def after(self, earlier: Self) -> Self:
        """Return the step with the passes and seconds of an earlier evaluation added."""
        spent = [
            fold._replace(n_passes=fold.n_passes + before.n_passes, seconds=fold.seconds + before.seconds)
            for fold, before in zip(self.folds, earlier.folds, strict=True)
        ]
        return self._replace(folds=spent)

    def plain(self) -> list:
        """Return lists and arrays without a dict, because skops does not allow tuples as keys."""
        folds = [list(fold) for fold in self.folds]
        return [self.order, list(self.sigma), list(self.sigma.values()), folds, list(self.l1.values())]

    @classmethod
    def of_plain(cls, plain: list) -> Self:
        """Return the step for a result of :meth:`plain`."""
        order, keys, sigma, folds, *l1 = plain  # earlier versions did not learn l1
        by_key = [dict(zip(keys, values, strict=True)) if values else {} for values in (sigma, *l1)]
        return cls(order, by_key[0], [FoldStep(*fold) for fold in folds], *by_key[1:])


class PenaltySearchCV(VersionMixin, MethodsOfModel, CallbacksMixin, MetaEstimatorMixin, BaseEstimator):
    """Learn ``sigma_reg`` and ``l1_reg`` of each group of weights by cross-validation, with exact gradients.

    The search maximises the mean log-likelihood of held-out tokens over the penalties of all groups at once. It follows
    the gradient, which requires one linear system per fold for all groups together [1]_, so that many groups cost
    little more than one. A grid over that many groups would be infeasible.

    Each fold uses the model that ``fit`` creates from its training part: label patterns that do not occur in this part
    have no weights. The labels, and the maximum length of segments of each label, are taken from all data, so that
    held-out likelihoods are finite.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF or Pipeline
        The model, or a pipeline that ends in one; the other steps are fitted to each training part. Its
        ``sigma_reg`` is the start of the search. Its ``l1_reg`` is kept, unless it is learned.
    cv : "shuffled", int, cross-validation generator, iterable or None, default="shuffled"
        "shuffled" means five folds with a fixed seed: of sequences, or of groups if ``groups`` are passed to ``fit``.
        Other values are as in :class:`~sklearn.model_selection.GridSearchCV`, where an int k means ``KFold(k)``, which
        does not shuffle. The folds must mimic what will be new at prediction time: penalties that suit known words, for
        example, may not suit new ones.
    penalty_groups : "order" or list of keys, default="order"
        Groups of weights that have common penalties. "order": the features and the weights of the patterns
        themselves, by the order of the pattern. Otherwise keys of ``sigma_reg`` as a mapping, see
        :class:`~sklearn_hocrf.HighOrderCRF`, which must cover all weights.
    orders : list of int, default=None
        Values of ``max_order`` to try, each starting from the best penalties and the weights for the previous one. A
        lower order is chosen if a higher one gains at most a standard error. None means the ``max_order``
        of the estimator.
    bounds : tuple of float, default=(0.01, 100)
        Minimum and maximum ``sigma_reg``.
    learn_l1 : bool, default=False
        Whether to learn ``l1_reg`` of each group, too; 0 where the scores are best without. Try it if there are more
        attributes than tokens. It takes two to three times as long.
    max_steps : int, default=20
        Maximum number of steps for each order.
    max_time : float, default=None
        Seconds after which no further step begins, and the best penalties so far are used. None means no limit.
    tol : float, default=1e-3
        Relative tolerance of the best score. Weights are trained to a tenth of its square root in the last steps, with
        ``learn_l1`` to three tenths, and less precisely in the first ones. The search stops when each of two successive
        steps gains less than half of this share of the score, or when the second one would according to the gradient.
    refit : bool, default=True
        Whether to fit the estimator to all data with the best penalties.
    n_jobs : int or None, default=None
        Number of folds evaluated in parallel, each in a thread. Results do not depend on it.
    verbose : int, default=0
        If nonzero, write a line to stderr after each step, with an estimate of the remaining time.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator with the best parameters, fitted to all data; only with ``refit``.
    best_params_ : dict
        The best parameters, named as in GridSearchCV: ``sigma_reg``, a mapping, if there are weights, ``l1_reg``
        likewise if it is learned, and ``max_order`` if ``orders`` are given; in a pipeline, prefixed with the name of
        the last step.
    best_score_ : float
        Mean over the folds of the log-likelihood per held-out token, in nats.
    best_index_ : int
        Index of the best step, which is not necessarily the last one. With ``orders``, its score may be lower than that
        of a higher order.
    cv_results_ : dict of arrays of shape (n_steps,)
        As in GridSearchCV: ``params``, ``param_sigma_reg``, ``split0_test_score`` ..., ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``. In addition ``max_order``; ``sigma_<group>`` and ``gradient_<group>``,
        the derivative of the mean score with respect to log sigma, for each group (``sigma_features_0``,
        ``sigma_patterns_1``, ...; nan if an order lacks the group), and if it is learned ``param_l1_reg``,
        ``l1_<group>`` and ``gradient_l1_<group>``; ``token_accuracy``, the mean over the folds;
        ``n_passes`` over training parts and ``seconds``, both summed over the folds.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds for fitting the best estimator; only with ``refit``.

    Notes
    -----
    Use it if groups of weights differ in reliability, which is most pronounced at high orders. Each held-out part
    should be new in the same way as the data at prediction time, by ``groups`` of words, writers or documents in
    :meth:`fit`: known words require weak penalties of patterns, new words strong ones, and the wrong choice is harmful.
    Text with many rare features gains less; ``penalty_groups=[None]``, one value for all weights, shows how much. The
    search maximises the likelihood; other scores such as F1 do not necessarily improve as well.

    Predictions and the other methods of ``best_estimator_`` are available: ``predict``, ``predict_marginals``,
    ``score`` (the token accuracy), ``log_likelihood`` and so on. For a pipeline, this includes methods that
    :class:`~sklearn.pipeline.Pipeline` does not have: X is first transformed by the other steps.

    Callbacks (``set_callbacks``) have a task for each order, with a task for each step, and a task for the final refit,
    which is propagated to ``estimator`` as in :class:`~sklearn.model_selection.GridSearchCV`. Returning True from a
    step ends the search for that order; returning True from an order skips the remaining orders. The best penalties so
    far are used. Training of folds calls no callbacks. Callbacks set on ``estimator`` itself run only during the final
    refit.

    With ``pruning``, each fold trains its own level 0, on its training part alone, and held-out tokens keep the labels
    that this one chooses. The score of a sequence is then log(0.99 p + 0.01 q), where p is the probability of its
    labels, which is 0 if one of them is not kept, and q their probability according to level 0.

    The weights of a fold are trained by L-BFGS, or OWL-QN, for any ``solver``, starting from the weights of the
    best step so far. They are determined only to a tolerance, which shrinks from step to step; scores are corrected for
    this to first order. At the end the best step is evaluated precisely, as are all steps that are better than it after
    that, so that ``best_score_`` is accurate for its parameters. The other steps are only as precise as the search
    needs: their gradients are off by a few percent. Unsupported settings raise an error: infinite ``sigma_reg``,
    criteria without Hessian products, and stochastic solvers. Each fold stores up to 128 MiB of curvature information
    of L-BFGS.

    With an L1 penalty, the derivatives are those of the weights that are not 0 [3]_. They jump where a weight becomes
    0, so that steps count by their scores alone. ``learn_l1`` first lowers one value for all groups from step to step,
    until the score falls. From the best one it follows the gradient. At the end of the first order, each group is also
    tried without L1.

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
    >>> X, X_test, y, y_test = make_digit_words(random_state=0)
    >>> X, y = X[:120], y[:120]
    >>> crf = HighOrderCRF(max_order=2)
    >>> search = PenaltySearchCV(crf, cv=3, max_steps=4).fit(X, y)
    >>> list(search.best_params_["sigma_reg"])
    [('features', 0), ('patterns', 0), ('patterns', 1), ('patterns', 2)]
    >>> search.score(X_test, y_test) > crf.fit(X, y).score(X_test, y_test)
    True
    """

    __module__ = "sklearn_hocrf.model_selection"  # where users import it from: files of models name this module

    _answering = "best_estimator_"
    _parameter_constraints: dict = {
        "estimator": [BaseSequenceLabeler, Pipeline],
        "cv": ["cv_object", StrOptions({"shuffled"})],
        "penalty_groups": [str, list, tuple],
        "orders": ["array-like", None],
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
        estimator: Any,
        *,
        cv: Any = "shuffled",
        penalty_groups: Any = "order",
        orders: Sequence[int] | None = None,
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
    def fit(self, X: Any, y: Any, *, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the penalties, and fit the estimator to all data with the best ones.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
        y : list of label sequences, or array-like
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
            For a pipeline, the input of its first step.
        groups : array-like of shape (n_sequences,), default=None
            Groups of sequences, such as words, writers or documents, that will be new as a whole at prediction time:
            for ``cv="shuffled"`` and splitters such as :class:`~sklearn.model_selection.GroupKFold`. They are unrelated
            to ``penalty_groups``.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, in training and in the score.

        Returns
        -------
        self : object
            The fitted search.

        Raises
        ------
        ValueError, TypeError
            For invalid parameters and data, and for models whose penalties cannot be learned in this way; raised before
            training.

        Warns
        -----
        UserWarning
            If the best ``sigma_reg`` of a group is at a bound. Without ``groups``, also if held-out parts have far more
            unseen features than shuffled ones would, and if nearly all held-out label sequences of three or more tokens
            occur in training.
        sklearn.exceptions.ConvergenceWarning
            If the weights of a fold did not converge within ``max_iter`` iterations of the estimator.
        """
        X, y, groups, weight, splits = self._prepared(X, y, groups, sample_weight)
        whole = training_data(self.estimator, X, y, weight)
        check_weights(self, whole, self._final, self._orders())
        splits = used_parts(whole, splits)
        if groups is None:
            warn_of_folds(whole, splits)
        parts = [split_data(self.estimator, X, y, weight, *split) for split in splits]
        tasks = SearchTasks(self, len(self._orders()), self.max_steps, X, y, sample_weight)
        steps: list[_Step] = []
        start, folds = None, list[Any]([None] * len(parts))
        for order in self._orders():
            tasks.begin_order(order)
            with one_blas_thread():
                of_order = self._search(order, whole, parts, folds, start, tasks)
            tasks.end_order()
            start, folds = of_order.best, of_order.folds
            steps += of_order.steps
            if tasks.is_stopped or tasks.is_late:
                break
        attributes = _attributes_of_steps(steps, self._prefix, self.orders is not None)
        self._warn_of_steps(steps)
        if self.refit:
            attributes |= self._refit(X, y, sample_weight, attributes["best_params_"], tasks)
        for name in {"best_estimator_", "refit_time_"} - set(attributes):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.__dict__.update(attributes)
        tasks.end()
        return self

    def __check_fit__(self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None, **_: Any) -> None:
        check_declared(self)
        if X is None:
            self._check_parameters()
            return self._check_targets(y, sample_weight)
        X, y, groups, weight, _splits = self._prepared(X, y, groups, sample_weight)
        if self._final is self.estimator:  # there are no transformers to fit first
            with unwarned():
                whole = training_data(self.estimator, X, y, weight)
            check_weights(self, whole, self._final, self._orders())

    def _prepared(self, X, y, groups, sample_weight) -> tuple[Any, Any, Any, np.ndarray | None, list]:
        """Return data, groups, weights and splits, or raise what can be refused before transformers are fitted."""
        self._check_parameters()
        X, y, groups = indexable_sequences(X, y, groups)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        weight = check_sequence_weight(sample_weight, len(y))
        splits = splits_of(self._splitter(groups), X, y, groups=groups)
        self._check_targets(y, weight)
        return X, y, groups, weight, splits

    def _check_targets(self, y, weight) -> None:
        """Raise for y that the model at the end of a pipeline refuses, at one of the orders."""
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

    def _refit(self, X, y, sample_weight, best_params, tasks) -> dict:
        """Return the attributes of the estimator with the best parameters, fitted to all data."""
        begun = time.perf_counter()
        best = clone(self.estimator).set_params(**copy.deepcopy(best_params))
        tasks.refit(best, lambda: best.fit(X, y, **self._fit_options(sample_weight)))
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
        orders = [] if self.orders is None else list(self.orders)
        valid = all(isinstance(order, Integral) and not isinstance(order, bool) and order >= 0 for order in orders)
        check(
            valid and (self.orders is None or len(orders) > 0), "orders", "None or a list of integers >= 0", self.orders
        )
        is_empty = isinstance(self.estimator, Pipeline) and not self.estimator.steps
        if is_empty or not isinstance(self._final, BaseSequenceLabeler):
            raise TypeError(
                "estimator must be a HighOrderCRF or HighOrderSemiCRF, or a Pipeline that ends in one, got "
                f"{self.estimator!r:.200}"
            )
        check_keys(self.penalty_groups)
        for order in self._orders():
            check_searchable(clone(self._final).set_params(max_order=order))

    @property
    def _final(self) -> Any:
        """Return the model, without the other steps of a pipeline."""
        return self.estimator.steps[-1][1] if isinstance(self.estimator, Pipeline) else self.estimator

    @property
    def _prefix(self) -> str:
        """Return the prefix of the names of the model's parameters."""
        return f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""

    def _orders(self) -> list[int]:
        return [self._final.max_order] if self.orders is None else [int(order) for order in self.orders]

    def _search(self, order, whole, parts, earlier, start, tasks) -> _OrderSearch:
        """Return the ended search of an order; ``earlier`` and ``start`` are folds and best step of the last one."""
        final = clone(self._final).set_params(max_order=order)
        layout = FitSteps(final).layout(whole)
        groups = WeightGroups.of(layout, whole, self.penalty_groups, order)
        folds = [make_fold(final, part, whole.targets, groups, fold) for part, fold in zip(parts, earlier, strict=True)]
        search = _OrderSearch(self, order, groups, folds, tasks, COLD if start is None else WARM)
        sigma, l1 = ({}, {}) if start is None else (start.sigma, start.l1)
        log_sigma = np.clip(np.log(groups.start(final.sigma_reg, layout, whole, sigma)), *np.log(self.bounds))
        with suppress(SearchEnd):
            if self.learn_l1:
                search.learn_l1(log_sigma, np.nan_to_num(groups.nearest(l1), nan=max(l1.values())) if l1 else None)
            else:
                search.descend(log_sigma)
        if not tasks.is_late:
            _settle(search.steps, search.evaluate_precisely)
        return search

    def _warn_of_steps(self, steps: list[_Step]) -> None:
        for key, sigma in steps[_best_index(steps)].sigma.items():
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

    # --- state: parameters, steps and the best estimator; the rest is derived from these ------------------------------

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        if "_steps" not in state:
            return state
        made = _attributes_of_steps(self._steps, *self._names)
        state = {name: value for name, value in state.items() if name not in made}
        return {**state, "_steps": [step.plain() for step in self._steps], "_names": list(self._names)}

    def __setstate__(self, state: dict) -> None:
        state = dict(state)
        plain, names = state.pop("_steps", None), state.pop("_names", None)
        super().__setstate__(state)
        if plain is not None:
            self.__dict__.update(_attributes_of_steps([_Step.of_plain(step) for step in plain], *names))

    # --- methods of the best estimator --------------------------------------------------------------------------------

    def _refusing(self, name: str) -> Callable:
        def refuse(*args, **options):
            if self.__sklearn_is_fitted__():
                raise AttributeError(f"{name} requires the best estimator, which is not fitted with refit=False")
            return unfitted(*args, **options)

        unfitted = super()._refusing(name)
        return refuse

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_params_")


class _OrderSearch:
    """The search for the penalties of one order.   G groups.

    Points are the logarithms of sigma and, if it is learned, of l1, by group; shape (G,) or (2G,).
    """

    def __init__(
        self,
        search: PenaltySearchCV,
        order: int,
        groups: WeightGroups,
        folds: list[Fold],
        tasks: SearchTasks,
        first: float,
    ) -> None:
        self.folds, self.steps = folds, list[_Step]()
        self._search, self._order, self._groups, self._tasks, self._first = search, order, groups, tasks, first
        self._begun, self._n_descended, self._n_groups = time.perf_counter(), 0, len(groups.keys)
        self._tolerances = SPARSE if search.learn_l1 else SMOOTH
        self._states = [fold.state for fold in folds]  # of the best step

    @property
    def best(self) -> _Step:
        return self.steps[_best_index(self.steps)]

    def _evaluate(self, point, before=None, **options):
        """Return the step for a point, and its gradient with respect to all groups."""
        before = [np.nan] * len(self.folds) if before is None else before
        for fold, state in zip(self.folds, self._states, strict=True):
            fold.state = state
        with Parallel(n_jobs=self._search.n_jobs, require="sharedmem") as parallel:  # folds keep their state
            calls = [delayed(fold.step)(point, before=b, **options) for fold, b in zip(self.folds, before, strict=True)]
            answers = list(parallel(calls))
        values = np.exp(point).reshape(-1, self._n_groups)
        values[0] = np.clip(values[0], *self._search.bounds)  # exp rounds
        step = _Step.of(self._order, self._groups, values, answers)
        _refuse_infinite(answers, step)
        return step, np.mean([answer.gradient for answer in answers], axis=0)

    def evaluate_precisely(self, step: _Step) -> _Step:
        """Return a step at the same penalties, whose score is accurate to the tolerance of the search."""
        tol, before = self._search.tol, [fold.score for fold in step.folds]
        precise, residual = self._tolerances.precise, self._tolerances.residual_of_precise
        return self._evaluate(self._point(step), before, tol=precise * tol**0.5, residual=residual, error=tol)[0]

    def _point(self, step):
        kinds = [(step.sigma, 1.0), (step.l1, 0.0)][: 2 if step.l1 else 1]
        with np.errstate(divide="ignore"):  # log 0, where an L1 penalty is switched off
            return np.concatenate([np.log([of.get(key, none) for key in self._groups.keys]) for of, none in kinds])

    def _take(self, point, tol, **options):
        """Evaluate a point as the next step, and return its gradient, or end the search."""
        step, gradient = self._evaluate(point, tol=tol, **options)
        self.steps.append(step)
        if step is self.best:
            self._states = [fold.state for fold in self.folds]
        if self._search.verbose:
            self._write(time.perf_counter() - self._begun)
        if self._tasks.end_step():
            raise SearchEnd
        return gradient

    def _write(self, seconds):
        """Write a line about the last step, and what all steps that are allowed would take."""
        step, most, orders = self.steps[-1], self._search.max_steps, self._search._orders()
        values = [f"{column_name(key)} {value:.3g}" for key, value in step.sigma.items()]
        values += [f"l1 {column_name(key)} {value:.3g}" for key, value in step.l1.items()]
        left = seconds / len(self.steps) * (most * (len(orders) - orders.index(step.order)) - len(self.steps))
        tell(
            f"PenaltySearchCV: order {step.order}, step {len(self.steps)} of at most {most}, score {step.score:.6f}, "
            f"sigma: {', '.join(values)}, {duration(seconds)}, about {duration(left)} left if all steps are needed"
        )

    def _tolerance(self):
        finest = self._tolerances.finest * self._search.tol**0.5
        return max(finest, self._tolerances.loosest * SHRINKING**self._n_descended)

    def descend(self, start: np.ndarray, n_left: int = 0) -> None:
        """Take steps along the gradient, over what is finite, from a point; ``n_left`` are kept for later."""
        finite, n_groups = np.isfinite(start), self._n_groups
        lowest, highest = (np.full(len(start), np.log(bound)) for bound in self._search.bounds)
        lowest[n_groups:], highest[n_groups:] = start[n_groups:] - WIDEST_L1, start[n_groups:] + WIDEST_L1

        def evaluate(values):
            point = start.copy()
            point[finite] = values
            tol = self._tolerance()
            gradient = self._take(point, tol, residual=max(RESIDUAL, self._tolerances.residual * tol))
            self._n_descended += 1
            return -self.steps[-1].score, -gradient[finite]

        most, tol = max(1, self._search.max_steps - len(self.steps) - n_left), LEAST_GAIN * self._search.tol
        box = lowest[finite], highest[finite]
        minimize_in_box(evaluate, start[finite], box, max_evaluations=most, tol=tol, first=self._first)
        if self._tasks.ends_order:
            raise SearchEnd

    def learn_l1(self, log_sigma: np.ndarray, l1: np.ndarray | None) -> None:
        """Search for sigma and l1, from those of another order, or else from the best point of a path of l1."""
        if l1 is not None:
            with np.errstate(divide="ignore"):
                return self.descend(np.concatenate([log_sigma, np.log(l1)]))
        start = self._path(log_sigma)
        while True:
            on = self._n_groups + np.flatnonzero(self._groups.has_weights & np.isfinite(start[self._n_groups :]))
            self.descend(start, len(on))
            best = self.best
            for off in on[: self._search.max_steps - len(self.steps)]:
                without = self._point(self.best)
                without[off] = -np.inf
                self._take(without, self._tolerances.loosest, residual=LOOSE)
            start = self._point(self.best)
            if self.best is best or len(self.steps) >= self._search.max_steps:
                break

    def _path(self, log_sigma):
        """Return the best point of a path with the same l1 for all groups, from much to little, at the given sigma."""
        useful = max(fold.useful_l1() for fold in self.folds)
        for factor in PATH[: self._search.max_steps]:
            with np.errstate(divide="ignore"):
                log_l1 = np.full(self._n_groups, np.log(useful * factor))
            self._take(np.append(log_sigma, log_l1), self._tolerances.loosest, residual=LOOSE)
            if self.steps[-1] is not self.best:
                break
        return self._point(self.best)


def _refuse_infinite(answers: list[FoldStep], step: _Step) -> None:
    for index, answer in enumerate(answers):
        if not np.isfinite([answer.score, *answer.gradient]).all():
            also = f" and l1_reg={step.l1}" if step.l1 else ""
            raise ValueError(
                f"the held-out likelihood of split {index} at sigma_reg={step.sigma}{also}, or its gradient, is not "
                "finite: rescale numeric features, or choose narrower bounds"
            )


def _settle(steps: list[_Step], evaluate_precisely: Callable[[_Step], _Step]) -> None:
    """Evaluate the best step precisely, then any step that is now better, until the best one is precise."""
    precise: set[int] = set()
    while (best := _best_index(steps)) not in precise:
        steps[best] = evaluate_precisely(steps[best]).after(steps[best])
        precise.add(best)


def _best_index(steps: list[_Step]) -> int:
    """Return the index of the best step: the first one with the best score of its order.

    A lower order is better than a higher one of which the folds gain at most a standard error.
    """
    means = np.array([step.score for step in steps])
    scores = np.array([[fold.score for fold in step.folds] for step in steps])
    best = int(np.argmax(means))
    for order in sorted({step.order for step in steps if step.order < steps[best].order}):
        lower = max((n for n, step in enumerate(steps) if step.order == order), key=means.__getitem__)
        gains = scores[best] - scores[lower]
        if len(gains) > 1 and gains.mean() <= gains.std(ddof=1) / len(gains) ** 0.5:
            return lower
    return best


def _attributes_of_steps(steps: list[_Step], prefix: str, with_orders: bool) -> dict:
    """Return the attributes of a search that are derived from its steps."""
    params = []
    for step in steps:
        order = {f"{prefix}max_order": step.order} if with_orders else {}
        of_kinds = {f"{prefix}sigma_reg": step.sigma, f"{prefix}l1_reg": step.l1}
        params.append(order | {name: values for name, values in of_kinds.items() if values})
    results: dict[str, Any] = {"params": params}
    for name in dict.fromkeys(name for given in params for name in given):
        column = np.ma.masked_all(len(steps), dtype=object)
        for i, given in enumerate(params):
            if name in given:  # a model without weights has no penalties
                column[i] = given[name]
        results[f"param_{name}"] = column
    scores = np.array([[fold.score for fold in step.folds] for step in steps])
    results.update({f"split{index}_test_score": column for index, column in enumerate(scores.T)})
    mean = np.array([step.score for step in steps])
    ranks = 1 + (mean > mean[:, None]).sum(axis=1).astype(np.int32)
    results.update(mean_test_score=mean, std_test_score=scores.std(axis=1), rank_test_score=ranks)
    results["max_order"] = np.array([step.order for step in steps])
    for kind, of_gradient in ("sigma", "gradient"), ("l1", "gradient_l1"):
        rows = [(getattr(step, kind), step.gradient[len(step.sigma) if kind == "l1" else 0 :]) for step in steps]
        for key in dict.fromkeys(key for values, _ in rows for key in values):
            name = column_name(key)
            results[f"{kind}_{name}"] = np.array([values.get(key, np.nan) for values, _ in rows])
            slopes = [dict(zip(values, gradient, strict=False)).get(key, np.nan) for values, gradient in rows]
            results[f"{of_gradient}_{name}"] = np.array(slopes)
    results["token_accuracy"] = np.array([np.mean([fold.accuracy for fold in step.folds]) for step in steps])
    results["n_passes"] = np.array([sum(fold.n_passes for fold in step.folds) for step in steps])
    results["seconds"] = np.array([sum(fold.seconds for fold in step.folds) for step in steps])
    best = _best_index(steps)
    return {
        "_steps": steps,
        "_names": (prefix, with_orders),
        "cv_results_": results,
        "n_splits_": scores.shape[1],
        "multimetric_": False,
        "best_index_": best,
        "best_score_": float(mean[best]),
        "best_params_": copy.deepcopy(params[best]),
    }
