"""High-order conditional random fields: one label per token, weights on label patterns of any length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ._estimator.base import BaseSequenceLabeler
from ._estimator.parameters import resolve_feature_orders
from ._inference.chain import ChainModel
from ._objectives import ChainProblem, Objective
from ._structure.layout import WeightLayout, build_layout
from ._validation import check_classes, read_label_codes, read_token_targets

__all__ = ["HighOrderCRF"]


class HighOrderCRF(BaseSequenceLabeler):
    """High-order conditional random field for sequence labelling.

    Given a sequence x, the probability of a labelling y is proportional to the exponential of a sum over positions t of

    * the weight of (label y_t, feature i) times the value of the feature, for each feature i of token t,
    * the weight of z, for each label pattern z that ends at t (the labels up to y_t end with z),
    * and, with ``feature_order``, the weights of pairs (pattern z, feature i) in the same way.

    A pattern of k + 1 labels has order k. ``max_order=1`` gives the usual linear-chain CRF, ``max_order=0`` logistic
    regression for each token. Training maximises the log-likelihood of the training labels minus a Gaussian penalty.
    The problem is convex, so the optimum is unique, and ``optimality_gap_`` bounds how far above it the fit ended.

    Parameters
    ----------
    max_order : int, default=1
        Highest order of the label patterns: a pattern has at most ``max_order + 1`` labels.
    sigma_reg : float or sequence of float, default=1.0
        Standard deviation of the Gaussian prior: the penalty is the sum of w^2 / (2 sigma^2). In a sequence, value k
        (from 0) applies to the weights of patterns of order k; the last value repeats, and surplus values are ignored.
        ``inf`` means no penalty.
    l1_reg : float or sequence of float, default=0.0
        Strength of the L1 penalty (CRFsuite's c1), which adds the sum of l1_reg * abs(w). A sequence is read by order,
        as for ``sigma_reg``. An L1 penalty makes many weights exactly 0; patterns and pairs without weights are removed
        from the fitted model, see Notes.
    patterns : {"observed", "all"} or iterable of tuples of labels, default="observed"
        "observed" selects the patterns that occur in the training labels, "all" every possible pattern (an error above
        a million). An iterable selects the given patterns and all single labels.
    min_pattern_count : float, default=1
        Observed patterns of two or more labels whose count is lower are dropped. Counts are weighted by
        ``sample_weight``. A value of at most 1 keeps every pattern that occurs in a sequence of positive weight.
    feature_order : int or dict, default=0
        Orders of the patterns that are paired with features. An int k stands for orders 0 to k. A dict maps prefixes of
        feature names to an int k or to a tuple of exact orders. The longest matching prefix decides; features without a
        matching prefix get order 0.
    min_feature_count : float, default=1
        (Pattern, feature) pairs with a lower count in the training data get no weight. Counts are weighted, and small
        values handled, as for ``min_pattern_count``. Ignored if ``unsupported=True``.
    fit_intercept : bool, default=True
        Whether each single label has a weight of its own. It is penalised like the other weights.
    unsupported : bool, default=False
        Whether (pattern, feature) pairs that do not occur in the training data get a weight, too. A pair occurs where
        the feature is nonzero at the position at which the pattern ends.
    class_weight : dict, "balanced" or None, default=None
        Weights of labels; labels that are missing from a dict have weight 1. The weight of a sequence in the objective
        is its ``sample_weight`` times the mean label weight of its tokens. "balanced" gives a label the weight n /
        (n_classes * n_label), where n and n_label are numbers of tokens, weighted by ``sample_weight``. Unlike
        ``sample_weight``, class weights do not affect the counts behind ``min_pattern_count`` and
        ``min_feature_count``: counts describe the data, whereas class weights describe the cost of errors.
    objective : {"likelihood", "local_feature_matching", "hinge", "perceptron"} or object, default="likelihood"
        The function to minimise, without the penalty:

        * "likelihood": the negative log-likelihood.
        * "local_feature_matching": the squared distance between observed and expected features, position by position
          (for :class:`HighOrderSemiCRF`, candidate segment by candidate segment). It is not convex. Training starts
          from the weights of maximum likelihood, which are found first with the same penalty and solver; the reported
          iterations and passes are those of the second stage. With ``warm_start``, later fits start from the weights of
          the previous fit instead.
        * "hinge": the loss of the structured support vector machine, which is the margin by which the best labelling
          outscores the true one after 1 is added to its score for each wrong token, see
          :class:`~sklearn_hocrf.training.Hinge`.
        * "perceptron": the same without the added 1, for the averaged perceptron. It has no penalty: ``sigma_reg`` is
          ignored.

        Every objective is a weighted sum over sequences. "hinge" and "perceptron" do not train probabilities,
        so methods that return probabilities are not available. An object has a method ``bind(problem)``, see
        :mod:`sklearn_hocrf.training`.
    penalty : object or None, default=None
        A penalty that replaces ``sigma_reg`` and ``l1_reg``, see :mod:`sklearn_hocrf.training`.
    solver : {"auto", "lbfgs", "newton-cg", "owlqn", "sgd", "adagrad", "bcfw", "perceptron"} or object, default="auto"
        The optimisation algorithm. "auto" chooses the default of the objective.

        * For "likelihood": "lbfgs" is L-BFGS, or OWL-QN ("owlqn") if some ``l1_reg`` > 0; "newton-cg" solves for each
          step by conjugate gradients; "sgd" and "adagrad" take a step after every few sequences. Of the last two, only
          "adagrad" supports ``l1_reg``.
        * For "local_feature_matching": "lbfgs" or "owlqn".
        * For "hinge": "bcfw", block-coordinate Frank-Wolfe.
        * For "perceptron": "perceptron", the averaged perceptron.

        An object has a method ``solve(objective, penalty, w0)``; :mod:`sklearn_hocrf.training` has all solvers, with
        all their parameters. An object ignores ``max_iter``, ``tol`` and ``verbose``.
    max_iter : int, default=500
        Maximum number of iterations; for "sgd", "adagrad" and "perceptron", of epochs.
    tol : float, default=1e-4
        Tolerance of the solver. Training stops when the norm of the gradient (with ``l1_reg``, of the shortest
        subgradient) is at most ``tol * max(1, norm of the weights)``. "bcfw" stops when the duality gap, an upper bound
        on the distance from the optimum, is at most ``100 * tol`` of the objective, 1 % by default. "sgd" and "adagrad"
        stop after five consecutive epochs that each fail to lower the objective by a fraction ``tol``, "perceptron"
        after an epoch without mistakes.
    warm_start : bool, default=False
        Whether fit starts from the weights of the previous fit, matched by pattern and feature; new weights start at 0.
        "bcfw" always starts from 0.
    n_jobs : int or None, default=None
        Number of threads. None means 1 unless in a :obj:`joblib.parallel_config` context, -1 means all processors.
        Results do not depend on it.
    verbose : int or bool, default=0
        Whether to write a line to stderr after each iteration: the objective, the norm of the gradient, and the bound
        on the distance from the optimum.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the sequences in "sgd", "adagrad", "bcfw" and "perceptron"; the other solvers are
        deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    patterns_ : list of tuples of labels
        The label patterns, by order. The single labels come first, in the order of ``classes_``.
    pattern_coef_ : ndarray of shape (n_patterns,)
        Weight of each pattern; 0 for single labels if ``fit_intercept=False``.
    coef_ : scipy.sparse.csr_array of shape (n_patterns, n_features_in_)
        Weight of each (pattern, feature) pair. The first rows belong to the single labels, as in
        :class:`~sklearn.linear_model.LogisticRegression`.
    automaton_ : PatternAutomaton
        The compiled patterns: states and arcs.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any: sorted attribute names, columns of a data frame, names of a batch.
    n_iter_ : int
        Number of iterations.
    n_passes_ : int or float
        Number of passes over the data, as counted by the solver. Each evaluation of the objective, of its gradient or
        of both is one pass, and so is each Hessian-vector product and each sweep of stochastic steps; nan if a custom
        solver does not count its passes.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Values of the minimised function, from the start to the fitted weights: the negative log-likelihood in nats, or
        another ``objective``, summed over sequences, plus the penalty.
    optimality_gap_ : float
        Upper bound on the difference between the last value and the optimum: max(sigma)^2 * norm(gradient)^2 / 2, or
        inf if some sigma is inf. With ``l1_reg``, the shortest subgradient takes the place of the gradient. For "hinge"
        it is the duality gap. For "perceptron", which need not approach an optimum, and for "local_feature_matching",
        it is inf.

    See Also
    --------
    HighOrderSemiCRF : Labels segments of several tokens, with features of whole segments.

    Notes
    -----
    The estimator is not a :class:`~sklearn.base.ClassifierMixin`, because its targets are sequences. It works in
    :class:`~sklearn.pipeline.Pipeline`, :class:`~sklearn.model_selection.GridSearchCV` and similar tools.

    With ``l1_reg``, the fitted model consists of the nonzero weights. Patterns of two or more labels without any are
    removed from ``patterns_`` and from the automaton, and prediction stores no (pattern, feature) pairs with weight 0.
    All predictions equal those of the model with its zeros. Single labels stay, as do the names and numbers of
    features. With ``l1_reg`` and ``sigma_reg=inf``, the optimum need not be unique.

    References
    ----------
    .. [1] Ye, Lee, Chieu and Wu, "Conditional random fields with high-order features for sequence labeling", NIPS 2009.
    .. [2] Cuong, Ye, Lee and Chieu, "Conditional random field with high-order dependencies for sequence labeling and
       segmentation", JMLR 15, 2014.
    .. [3] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> X = [[{"word": "the"}, {"word": "old"}, {"word": "man"}], [{"word": "the"}, {"word": "man"}]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(max_order=2).fit(X, y)
    >>> crf.predict([[{"word": "the"}, {"word": "old"}, {"word": "house"}]])
    [['DET', 'ADJ', 'NOUN']]
    >>> crf.predict_marginals(X)[1].round(2)
    array([[0.2 , 0.59, 0.21],
           [0.2 , 0.21, 0.59]])
    >>> crf.patterns_[3:]
    [('ADJ', 'NOUN'), ('DET', 'ADJ'), ('DET', 'NOUN'), ('DET', 'ADJ', 'NOUN')]
    >>> crf.score(X, y)
    1.0
    """

    _layout_class = WeightLayout

    def __init__(
        self,
        max_order: int = 1,
        *,
        sigma_reg: float | Sequence[float] = 1.0,
        l1_reg: float | Sequence[float] = 0.0,
        patterns: str | Iterable[tuple] = "observed",
        min_pattern_count: float = 1,
        feature_order: int | Mapping[str, Any] = 0,
        min_feature_count: float = 1,
        fit_intercept: bool = True,
        unsupported: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        objective: str | Objective = "likelihood",
        penalty: Any = None,
        solver: Any = "auto",
        max_iter: int = 500,
        tol: float = 1e-4,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
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
        self.objective = objective
        self.penalty = penalty
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _read_training_targets(self, y, sequences, known=None):
        name = type(self).__name__
        return read_token_targets(y, sequences.batch.lengths, sequences.form, name, sequences.is_used, known)

    def _check_classes(self, classes):
        return check_classes(classes)

    def _target_attributes(self, targets):
        return {"classes_": targets.labels}

    def _training_codes(self, targets):
        return targets.codes

    def _build_layout(self, data, like=None, patterns=None):
        batch, codes, weight = data.batch, data.targets.codes, data.sequence_weight
        orders = resolve_feature_orders(self.feature_order, self.max_order, data.features.names)
        if like is None:
            patterns = self._select_patterns(patterns, data.targets.labels, codes, batch.offsets, weight)
        else:
            patterns = like.patterns
        return build_layout(
            batch,
            codes,
            patterns,
            feature_orders=orders,
            min_feature_count=self.min_feature_count,
            fit_intercept=self.fit_intercept,
            unsupported=self.unsupported,
            sequence_weight=weight,
            like=like,
        )

    def _pose_problem(self, layout, data):
        weight = self._objective_weight(data)
        return ChainProblem(layout, data.batch, data.targets.codes, sequence_weight=weight, n_jobs=self.n_jobs)

    def _build_model(self):
        return ChainModel(self._layout, self._weights)

    def _read_truth(self, y, batch, form, unknown):
        return read_label_codes(y, batch.lengths, form, type(self).__name__, self.classes_, unknown=unknown)

    def _token_codes(self, decoded):
        return decoded

    def _are_right(self, decoded, truth):
        return decoded == truth

    def _class_marginals(self, batch):
        return self._build_model().marginals(batch, n_jobs=self.n_jobs)
