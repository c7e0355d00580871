"""The estimator that predicts one label per token."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from numbers import Integral
from os import PathLike
from typing import Self

import numpy as np

from .._engine.training.lbfgs import LBFGS
from .._engine.training.stochastic import SGD
from .._sklearn.names import Interval, StrOptions
from .answers.predictions import TagSegmentsMixin
from .base import BaseSequenceLabeler
from .fit.parameters import PARAMETER_CONSTRAINTS
from .labels.constraints import Constraints
from .labels.kinds import Kind


class HighOrderCRF(TagSegmentsMixin, BaseSequenceLabeler):
    """High-order conditional random field for sequence labelling.

    Given a sequence x, the probability of a labelling y is proportional to the exponential of a sum over positions t of

    * the weight of (label y_t, feature i) times the value of the feature, for each feature i of token t,
    * the weight of z, for each label pattern z that ends at t (the labels up to y_t end with z),
    * and, with ``feature_order``, the weight of each pair (z, feature i) times the value of the feature.

    A pattern of k + 1 labels has order k [1]_ [2]_. ``max_order=1`` gives the usual linear-chain CRF, and
    ``max_order=0`` a logistic regression for each token. Training maximises the log-likelihood of the training labels
    minus a Gaussian penalty. The problem is convex, and ``optimality_gap_`` bounds the difference between the final
    value of the objective and the optimum.

    **Start with** ``max_order`` (the length of label patterns), ``sigma_reg`` and ``l1_reg`` (the penalty),
    ``constraints`` (for BIO tags) and ``n_jobs`` (threads). Read more in the user guide:
    https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/order.html.

    Parameters
    ----------
    max_order : int, default=2
        Highest order of the label patterns: a pattern contains at most ``max_order + 1`` labels. Also try 1 and 3, and
        choose by the accuracy on held-out data.
    history : {"tokens", "segments"}, default="tokens"
        Whether patterns contain the labels of neighbouring tokens, or of neighbouring segments, which are runs of equal
        labels. "segments" cannot be combined with tagging schemes, ``pruning`` or "local_feature_matching". See
        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/order.html.
    sigma_reg : float or mapping, default=1.0
        Standard deviation of the Gaussian prior: the penalty is the sum of w^2 / (2 sigma^2), so smaller values give a
        stronger penalty, and ``inf`` gives none. A mapping contains a value for each group of weights;
        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/training.html lists its keys.
    l1_reg : float or mapping, default=0.0
        Strength of the L1 penalty (CRFsuite's c1), the sum of l1_reg * abs(w); or a mapping, as for ``sigma_reg``. The
        penalty makes many weights exactly 0; patterns and pairs without nonzero weights are removed from the fitted
        model.
    constraints : {"bio", "bioes", "bilou", "bmes", "iob1"}, Constraints or None, default=None
        Which labels may follow each other. A label sequence that violates a constraint has probability 0, and causes an
        error in training. If you pass the name of a tagging scheme, only the valid tag sequences of the scheme are
        possible. :class:`~sklearn_hocrf.Constraints` forbids runs of labels, or lists the allowed pairs and the labels
        that a sequence may begin and end with.

    patterns : {"observed", "all"} or iterable of tuples of labels, default="observed"
        "observed" selects the patterns that occur in the training labels; "all" selects every possible pattern (more
        than a million raise an error). An iterable selects its patterns and all single labels. ``l1_reg`` removes
        patterns whose weights become 0.
    min_count : float, default=1
        Minimum number of occurrences in the training data: patterns of two or more labels and (pattern, feature) pairs
        that occur less often get no weight. Counts are weighted by ``sample_weight``. ``min_count`` does not apply to
        patterns that you pass, or to pairs if ``all_pairs=True``.
    feature_order : int or dict, default=0
        Orders of the patterns that are paired with features. An int k means orders 0 to k. A dict maps prefixes of
        feature names to an int k or to a tuple of exact orders. The longest matching prefix applies; features without a
        matching prefix get order 0.
    all_pairs : bool, default=False
        Whether (pattern, feature) pairs that do not occur in the training data get a weight. A pair occurs where
        the feature is nonzero at the position at which the pattern ends.
    fit_intercept : bool, default=True
        Whether to fit an intercept for each label. Intercepts are penalised like the other weights.
    label_parts : callable or None, default=None
        A function that returns the parts of a label, for example NOUN, Gen and Sg for ``"NOUN|Gen|Sg"``. Features have
        weights for parts in addition to those for labels, so that rare labels share weights with frequent ones. Parts
        must be hashable and mutually comparable. ``label_parts`` cannot be combined with "local_feature_matching". See
        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/many_labels.html.
    pruning : int or None, default=None
        Number of labels that a model of order 0 selects for each token before training; useful if there are many
        labels. All other labels have probability 0 at the token. The selection depends on ``random_state``, but is the
        same in all fits if ``random_state`` is None. Pruning requires the objective "likelihood", ``feature_order=0``
        and a y without missing labels, and cannot be combined with "sgd" or ``partial_fit``. See
        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/many_labels.html.
    objective : {"likelihood", "local_feature_matching"}, default="likelihood"
        The function that training minimises together with the penalty, summed over sequences:

        * "likelihood": the negative log-likelihood; if labels are missing, only of the known labels.
        * "local_feature_matching": the squared distance between observed and expected features, at each position or in
          each candidate segment. This objective is not convex: training starts from the weights that maximise the
          likelihood, unless ``warm_start`` provides others; ``n_iter_`` does not count the iterations that find these
          weights.

    solver : {"auto", "lbfgs", "sgd"}, LBFGS or SGD, default="auto"
        The optimisation algorithm. "auto" and "lbfgs" use L-BFGS, or OWL-QN if any ``l1_reg`` > 0. "sgd" first takes
        stochastic gradient steps, each on a few sequences; it requires the objective "likelihood". Instances of
        :class:`~sklearn_hocrf.training.LBFGS` and :class:`~sklearn_hocrf.training.SGD` provide more settings.
    max_iter : int, default=500
        Maximum number of iterations; for "sgd", epochs (passes over the training sequences) count as iterations.
    tol : float, default=3e-3
        Tolerance of the solver. Training stops when the objective is guaranteed to be at most a fraction ``tol**2``
        above the optimum; ``tol=0.03`` is sufficient for hyperparameter searches.
        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/training.html gives the rules for other cases.
    warm_start : bool, default=False
        Whether :meth:`fit` starts from the weights of the previous fit, matched by pattern and feature; new weights
        start at 0.
    n_jobs : int or None, default=None
        Number of threads. None means 1 unless in a :obj:`joblib.parallel_config` context; -1 means all processors.
        Results do not depend on the number of threads.
    verbose : int or bool, default=0
        Whether to report the progress of training on stderr, with an estimate of the time left.
    random_state : int, RandomState instance or None, default=None
        Determines the random order of the sequences in training. Pass an int for reproducible results. If None, the
        order in "sgd" differs between fits.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    scheme_ : str
        How labels encode segments: the scheme that ``constraints`` names, otherwise the scheme that all labels fit,
        otherwise "runs".
    patterns_ : list of tuples of labels
        The label patterns, by order. The single labels come first, in the order of ``classes_``. With
        ``history="segments"``, a pair of equal labels means that a segment continues.
    pattern_coef_ : ndarray of shape (n_patterns,)
        Weight of each pattern; 0 for single labels if ``fit_intercept=False``.
    coef_ : scipy.sparse.csr_array of shape (n_patterns, n_features_in_)
        Weight of each (pattern, feature) pair. The first rows belong to the single labels.
    label_parts_ : ndarray of shape (n_parts,)
        The parts that two or more labels share, sorted; empty without ``label_parts``.
    part_coef_ : scipy.sparse.csr_array of shape (n_parts, n_features_in_)
        Weight of each (part, feature) pair. The weight is added to the weights in ``coef_`` of all labels with this
        part.
    automaton_ : PatternAutomaton
        The compiled patterns.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any.
    n_iter_ : int
        Number of iterations up to the one that produced the weights.
    intercept_ : ndarray of shape (n_labels,)
        Weight of each single label: the first elements of ``pattern_coef_``.
    n_parameters_ : int
        Number of weights, without those that an L1 penalty has made 0.
    n_passes_ : int or float
        Number of passes over the data.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Values of the objective plus the penalty, in nats for the likelihood, from the start to the fitted weights.
    optimality_gap_ : float
        Upper bound on the difference between the last value of ``objective_history_`` and the optimum: max(sigma)^2 *
        norm(gradient)^2 / 2, with the shortest subgradient if there is an L1 penalty; inf if any sigma is inf, for
        "local_feature_matching", and if labels were missing.
    pruning_recall_ : float
        The fraction of tokens whose true label pruning keeps, in sequences on which the model of order 0 was not
        trained; nan if there is only one sequence. Defined only if ``pruning`` removed labels.

    See Also
    --------
    HighOrderSemiCRF : Label segments of several tokens, with features of whole segments.
    sklearn_hocrf.training : Settings of solvers, and early stopping.

    Notes
    -----
    The estimator is not a :class:`~sklearn.base.ClassifierMixin`, because its targets are sequences.

    With ``l1_reg``, L-BFGS becomes OWL-QN [3]_, and the fitted model contains only nonzero weights, single labels and
    the names of all features. With both ``l1_reg`` and ``sigma_reg=inf``, the optimum need not be unique.

    References
    ----------
    .. [1] Ye, Lee, Chieu and Wu, "Conditional random fields with high-order features for sequence labeling", NIPS 2009.
    .. [2] Cuong, Ye, Lee and Chieu, "Conditional random field with high-order dependencies for sequence labeling and
       segmentation", JMLR 15, 2014.
    .. [3] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> X = [
    ...     [{"word": "the"}, {"word": "old"}, {"word": "man"}],
    ...     [{"word": "the"}, {"word": "man"}],
    ... ]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(max_order=2).fit(X, y)
    >>> crf.predict([[{"word": "the"}, {"word": "old"}, {"word": "house"}]])
    [['DET', 'ADJ', 'NOUN']]
    >>> crf.predict_marginals(X)[1].round(2)
    array([[0.2 , 0.59, 0.21],
           [0.2 , 0.21, 0.59]])
    >>> crf.patterns_[3:]
    [('ADJ', 'NOUN'), ('DET', 'ADJ'), ('DET', 'NOUN'), ('DET', 'ADJ', 'NOUN')]
    """

    __module__ = "sklearn_hocrf.crf"  # the public module: model files contain this name
    _kind = Kind()
    _parameter_constraints: dict = {
        **PARAMETER_CONSTRAINTS,
        "history": [StrOptions({"tokens", "segments"})],
        "label_parts": [callable, None],
        "pruning": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        max_order: int = 2,
        *,
        history: str = "tokens",
        sigma_reg: float | Mapping[Hashable, float] = 1.0,
        l1_reg: float | Mapping[Hashable, float] = 0.0,
        constraints: str | Constraints | None = None,
        patterns: str | Iterable[tuple] = "observed",
        min_count: float = 1,
        feature_order: int | Mapping[str, int | tuple] = 0,
        all_pairs: bool = False,
        fit_intercept: bool = True,
        label_parts: Callable[..., Iterable] | None = None,
        pruning: int | None = None,
        objective: str = "likelihood",
        solver: str | LBFGS | SGD = "auto",
        max_iter: int = 500,
        tol: float = 3e-3,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.max_order = max_order
        self.history = history
        self.sigma_reg = sigma_reg
        self.l1_reg = l1_reg
        self.constraints = constraints
        self.patterns = patterns
        self.min_count = min_count
        self.feature_order = feature_order
        self.all_pairs = all_pairs
        self.fit_intercept = fit_intercept
        self.label_parts = label_parts
        self.pruning = pruning
        self.objective = objective
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @property
    def pruning_recall_(self) -> float:
        """The fraction of held-out tokens whose label pruning keeps; defined only if ``pruning`` removed labels."""
        state = getattr(self, "_state", None)
        if state is None or state.level_zero is None:
            raise AttributeError(f"{type(self).__name__} has no pruning_recall_: its tokens keep all labels")
        return state.level_zero.recall

    @classmethod
    def from_crfsuite(cls, model: str | PathLike[str], *, encoding: str = "utf-8") -> Self:
        """Return a CRFsuite model as a fitted estimator.

        The estimator predicts the same labels and marginals as CRFsuite, and accepts the same X: sequences of feature
        dicts, or of lists of attribute names. All methods of a fitted estimator are available, such as
        ``predict_nbest`` and ``predict_segments``. If several labellings have the same score, CRFsuite and the
        estimator may predict different ones.

        The features of CRFsuite are pairs of an attribute and a label, and pairs of neighbouring labels. There are no
        weights of single labels, so the estimator has ``fit_intercept=False``. The CRFsuite algorithms "ap", "pa" and
        "arow" do not train a probabilistic model; the estimator nevertheless computes marginals, like CRFsuite.

        Parameters
        ----------
        model : str or path-like
            The path of a CRFsuite model file, written by any program; no other package is required to read it. For a
            fitted ``sklearn_crfsuite.CRF``, the path is ``modelfile.name``.
        encoding : str, default="utf-8"
            Encoding of labels and attributes in the file. Python packages write UTF-8; the CRFsuite command-line
            program writes the bytes that it has read.

        Returns
        -------
        crf : HighOrderCRF
            A model with ``max_order=1``. ``n_iter_`` is 0, and ``objective_history_`` is nan. ``classes_`` and
            ``feature_names_in_`` are sorted. Other parameters have their defaults. If you set ``warm_start=True``,
            :meth:`fit` starts from these weights.

        Raises
        ------
        ValueError
            If the file is not a CRFsuite model, is damaged, contains names that are invalid in this encoding, or
            contains fewer than two labels. Reading damaged files is safe here, whereas CRFsuite may crash the process.
        LookupError
            If the encoding does not exist.
        OSError
            If the file cannot be read.
        TypeError
            If the model is not a path.

        References
        ----------
        .. [1] Okazaki, "CRFsuite: a fast implementation of Conditional Random Fields (CRFs)", 2007,
           http://www.chokkan.org/software/crfsuite/.

        Examples
        --------
        >>> import sklearn_crfsuite  # pip install sklearn-crfsuite
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X, y = (
        ...     [[{"word": "Ann"}, {"word": "left"}], [{"word": "left"}]],
        ...     [["B-PER", "O"], ["O"]],
        ... )
        >>> theirs = sklearn_crfsuite.CRF(c2=0.5).fit(X, y)
        >>> crf = HighOrderCRF.from_crfsuite(theirs.modelfile.name)
        >>> crf.predict(X) == [list(labels) for labels in theirs.predict(X)]
        True

        The ten best labellings in which each field occurs at most once:

        >>> once = lambda labels: all(
        ...     labels.count(label) <= 1 for label in labels if label.startswith("B-")
        ... )
        >>> candidates = crf.predict_nbest(X, 10, accept=once)
        """
        from .crfsuite import crfsuite_estimator

        return crfsuite_estimator(cls, model, encoding)
