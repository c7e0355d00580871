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

    The probability of labels y given a sequence x is proportional to the exponential of a sum over positions t of

    * for each feature i of token t, the weight of (label y_t, feature i) times the feature's value,
    * for each label pattern z that ends at t (the last labels are z), the weight of z,
    * and, with ``feature_order``, the weights of (pattern z, feature i) in the same way.

    A pattern of k + 1 labels has order k; ``max_order=1`` is the usual linear-chain CRF, ``max_order=0`` is logistic
    regression for each token. The weights maximise the likelihood of the training labels minus a Gaussian penalty. The
    problem is convex, so the optimum is unique, and ``optimality_gap_`` bounds how far from it the fit stopped.

    Parameters
    ----------
    max_order : int, default=1
        Highest order of label patterns: patterns have up to ``max_order + 1`` labels.
    sigma_reg : float or sequence of float, default=1.0
        Standard deviation of the Gaussian prior: the penalty is the sum of w^2 / (2 sigma^2). In a sequence the k-th
        value (from 0) is for weights of patterns of order k; the last one repeats, surplus ones are ignored. ``inf``
        means no penalty.
    l1_reg : float or sequence of float, default=0.0
        L1 strength (CRFsuite's c1): the penalty has the sum of l1_reg * abs(w), too. In a sequence by order as for
        ``sigma_reg``. It makes many weights exactly 0, and patterns and pairs without weights leave the fitted model,
        see Notes.
    patterns : {"observed", "all"} or iterable of tuples of labels, default="observed"
        "observed": all patterns that occur in the training labels; "all": all there can be (refused above a million);
        or the given ones and all single labels.
    min_pattern_count : float, default=1
        Observed patterns of two or more labels that occur less often, counted by ``sample_weight``, are left out. Up to
        1, none is that occurs in a sequence of positive weight.
    feature_order : int or dict, default=0
        Orders of the patterns with which features are conjoined. An int k stands for orders 0 to k. A dict maps
        prefixes of feature names to an int k or to a tuple of exact orders; the longest prefix counts, and features
        that have none of them get order 0.
    min_feature_count : float, default=1
        (Feature, pattern) pairs that occur less often in training get no weight; counted in the same way. Without
        effect if ``unsupported=True``.
    fit_intercept : bool, default=True
        Whether each single label has a weight of its own, penalised like the others.
    unsupported : bool, default=False
        Whether (feature, pattern) pairs that do not occur in training get a weight, too. A pair occurs where the
        feature is not 0 at a position at which the pattern ends.
    class_weight : dict, "balanced" or None, default=None
        Weights of labels; those that a dict does not name have weight 1. The weight of a sequence in the objective is
        its ``sample_weight`` times the mean weight of the labels of its tokens. "balanced" gives a label the weight n /
        (n_classes * n_label), where n and n_label count tokens, weighted by ``sample_weight``. Unlike ``sample_weight``
        it has no say in what occurs often enough to have a weight: a count is a property of the data, and a rare label
        should not need fewer occurrences because its errors cost more.
    objective : {"likelihood", "local_feature_matching", "hinge", "perceptron"} or object, default="likelihood"
        What is minimised, without the penalty; or an object with a method ``bind(problem)``, see
        :mod:`sklearn_hocrf.training`. "local_feature_matching" is the squared distance between the features of each
        position and what the model expects there. It is not convex, and starts from the weights of maximum likelihood,
        which are trained first, with the same penalty and solver; what is said of iterations and passes is about what
        comes then. With ``warm_start`` a later fit starts from the weights of the fit before. "hinge" is the loss of
        the structured support vector machine: by how much the best labelling scores higher than the true one, with 1
        added for each wrong token. "perceptron" is that without the 1, for the averaged perceptron, which uses no
        penalty: ``sigma_reg`` is without effect. Both sum over sequences, by their weights. "hinge" and "perceptron"
        train no probabilities: methods that return some do not exist then.
    penalty : object or None, default=None
        A penalty to use in place of that of ``sigma_reg`` and ``l1_reg``, see :mod:`sklearn_hocrf.training`.
    solver : {"auto", "lbfgs", "newton-cg", "owlqn", "sgd", "adagrad", "bcfw", "perceptron"} or object, default="auto"
        What minimises. "auto" is what suits the objective. "lbfgs" is L-BFGS or, if some ``l1_reg`` > 0, OWL-QN;
        "newton-cg" solves for each step by conjugate gradients; "sgd" and "adagrad" take a step after every few
        sequences, "adagrad" with ``l1_reg``, too. These are for "likelihood". "bcfw" is block-coordinate Frank-Wolfe,
        for "hinge"; "perceptron" the averaged perceptron, for "perceptron". An object has a method ``solve(objective,
        penalty, w0)``, see :mod:`sklearn_hocrf.training`, where the solvers are with all their parameters.
        ``max_iter``, ``tol`` and ``verbose`` are an object's own affair.
    max_iter : int, default=500
        Highest number of iterations of the solver: epochs of "sgd", "adagrad" and "perceptron".
    tol : float, default=1e-4
        The solver stops when the norm of the gradient is at most ``tol * max(1, norm of the weights)``; with ``l1_reg``
        that of the shortest subgradient. "bcfw" stops when the duality gap, which bounds the distance from the optimum,
        is at most ``100 * tol`` of the objective: 1 % by default. "perceptron" stops after an epoch without mistakes,
        "sgd" and "adagrad" after five that have not lowered the minimised function by a share of ``tol`` each.
    warm_start : bool, default=False
        Whether fit starts from the weights of the fit before, matched by pattern and feature; new ones start at 0.
        "bcfw" always starts from 0.
    n_jobs : int or None, default=None
        Number of threads; None means 1 unless in a :obj:`joblib.parallel_config` context, -1 all processors. Results
        do not depend on it.
    verbose : int or bool, default=0
        Whether each iteration writes a line to stderr: objective, norm of the gradient, bound on the distance from the
        optimum.
    random_state : int, RandomState instance or None, default=None
        For the order of the sequences in "sgd", "adagrad", "bcfw" and "perceptron"; the other solvers are
        deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    patterns_ : list of tuples of labels
        The label patterns, by order; the single labels come first, in the order of ``classes_``.
    pattern_coef_ : ndarray of shape (n_patterns,)
        Weight of each pattern; 0 for single labels if ``fit_intercept=False``.
    coef_ : scipy.sparse.csr_array of shape (n_patterns, n_features_in_)
        Weight of each (pattern, feature) pair. The first ``n_classes`` rows read like those of
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
        Number of passes over the data that the solver counts: each evaluation of the objective, its gradient or both is
        one, and so is each product of the Hessian with a vector, and each pass of steps from sequence to sequence; nan
        where an own solver does not count them.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The minimised function, from the start to the fitted weights: negative log-likelihood in nats, or what other
        ``objective`` there is, summed over sequences, plus penalty.
    optimality_gap_ : float
        Upper bound on how far the last value is above the optimum: max(sigma)^2 * norm(gradient)^2 / 2; inf where some
        sigma is inf. With ``l1_reg`` the shortest subgradient takes the gradient's place. For "hinge" it is the duality
        gap; for "perceptron", which need not approach an optimum, and for "local_feature_matching", it is inf.

    See Also
    --------
    HighOrderSemiCRF : Labels segments of several tokens, with features of whole segments.

    Notes
    -----
    The estimator is no :class:`~sklearn.base.ClassifierMixin`, because its targets are sequences. It works in
    :class:`~sklearn.pipeline.Pipeline`, :class:`~sklearn.model_selection.GridSearchCV` and the like.

    With ``l1_reg`` the fitted model has only what has a weight other than 0: other patterns of two or more labels are
    neither in ``patterns_`` nor in the automaton, and the tables of prediction have no other (pattern, feature) pairs.
    All answers are those of the model with its zeros. Single labels stay, and so do the names and numbers of features.
    With ``sigma_reg=inf`` beside it, the optimum need not be unique.

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

    def _read_training_targets(self, y, lengths, form, name, kept, known=None):
        return read_token_targets(y, lengths, form, name, kept, known)

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
