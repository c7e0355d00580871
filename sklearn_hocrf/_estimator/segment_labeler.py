"""The estimator that predicts labelled segments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sized
from numbers import Integral, Real
from typing import Any, Literal, overload

import numpy as np

from .._data.batch import Sequences
from .._engine.training.lbfgs import LBFGS
from .._engine.training.stochastic import SGD
from .._reading.schemes import SCHEMES
from .._sklearn.names import Interval, Options, StrOptions
from .answers.fitted import FittedModel
from .answers.query import Query
from .base import BaseSequenceLabeler
from .fit.parameters import PARAMETER_CONSTRAINTS
from .labels.constraints import Constraints
from .labels.kinds import SegmentKind


class HighOrderSemiCRF(BaseSequenceLabeler):
    """High-order semi-Markov conditional random field for segmenting and labelling sequences.

    A segmentation s of a sequence x of T tokens is a list of segments [u, v) with labels y that tile [0, T). Its
    probability is

        P(s | x) = exp( sum over its segments of score([u, v), labels up to y) ) / Z(x),

        score = sum over patterns z and features i of w(z, i) g_i(x, u, v) + sum over patterns z of w(z),

    where z runs over the label patterns that end with this segment (the labels of the segments up to this one end with
    z). A feature g_i is a function of the whole segment, such as the number of times that a word occurs in it, its
    first word, or its length. If X contains only features of tokens, each feature contributes at every token of the
    segment; if all segments also consist of one token, the model is equivalent to a :class:`HighOrderCRF`. A pattern of
    k + 1 labels has order k and spans k + 1 segments, however long they are [3]_. ``max_order=1`` gives the semi-Markov
    CRF of Sarawagi and Cohen [1]_, and features of token tags inside segments give the hybrid model of Andrew [2]_.

    Training maximises the log-likelihood of the training segmentations minus a Gaussian penalty. The problem is convex,
    and ``optimality_gap_`` bounds the difference between the final value of the objective and the optimum.

    **Start with** ``max_order`` (the length of label patterns), ``scheme`` (how y represents segments),
    ``segment_length`` (the longest segment), ``sigma_reg`` (the penalty) and ``n_jobs`` (threads). Read more in the
    user guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/segments.html.

    Parameters
    ----------
    max_order : int, default=1
        Highest order of the label patterns: a pattern contains the labels of at most ``max_order + 1`` consecutive
        segments.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How y and the output of :meth:`predict` represent segments:

        * "auto": "segments" if y contains lists of segments; otherwise the scheme that all labels fit, or "runs" if
          there is none. ``scheme_`` contains the result; if another scheme is possible, `fit` issues a warning. Name
          the scheme if tags arrive in parts, from calls of :meth:`partial_fit` with ``classes`` or from Dask.
        * "runs": one label per token. A segment is a maximal run of equal labels, so neighbouring segments never have
          the same label. "runs" requires at least two labels.
        * "bio": one tag per token, "B-PER", "I-PER" or "O". A segment begins with B and continues with I; plain "B" and
          "I" denote the label "_". Each O is a segment of one token. An I that does not follow a B or I of the same
          label begins a segment, as in conlleval.
        * "bioes": like "bio", but with E for the last token of a segment and S for segments of one token. "bilou"
          (spaCy) and "bmes" are the same scheme with other letters.
        * "iob1": like "bio", but a segment begins with I, and with B only directly after a segment of the same label.
          Only y may use this scheme; predictions are in "bio".
        * "segments": lists of (start, stop, label) with ``stop`` excluded, or segments in any other form that
          :func:`~sklearn_hocrf.text.extract_segments` accepts; probabilities are ignored. The labels of tokens between
          the listed segments are unknown. If these tokens belong to no segment, fill the gaps with segments (t, t + 1,
          "O"), and pass ``segment_length={"O": 1}``, because "O" is an ordinary label in this scheme.

    segment_length : int, inf, (minimum, maximum), dict or None, default=None
        The maximum length of segments in tokens, or a pair (minimum, maximum). A single value applies to all labels; a
        dict contains a value for each label. None (also inside a pair or dict), or a label missing from a dict, means
        the length of the label's longest training segment. Training segments outside the limits raise an error;
        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/segments.html shows how to leave out or cut such
        segments. Training time is proportional to the maximum length, unless the maximum is inf (see Notes). With
        "runs" and a maximum length of 1 for all labels, neighbouring segments may have equal labels, and the model is
        equivalent to a :class:`HighOrderCRF`. The first and the last segment of a sequence may be shorter than the
        minimum length. Prediction raises an error if a sequence has no segmentation within the limits. In tagging
        schemes, segments with the label "O" always have length 1.
    sigma_reg : float or mapping, default=1.0
        Standard deviation of the Gaussian prior: the penalty is the sum of w^2 / (2 sigma^2), so smaller values give a
        stronger penalty, and ``inf`` gives none. A mapping contains a value for each group of weights;
        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/training.html lists its keys.
    l1_reg : float or mapping, default=0.0
        Strength of the L1 penalty (CRFsuite's c1), the sum of l1_reg * abs(w); or a mapping, as for ``sigma_reg``. The
        penalty makes many weights exactly 0; patterns and pairs without nonzero weights are removed from the fitted
        model.
    constraints : Constraints or None, default=None
        Which labels may follow each other: forbidden runs of segment labels, or allowed pairs, and the labels that a
        sequence may begin and end with. A segmentation that violates a constraint has probability 0, and causes an
        error in training. With "runs", neighbouring segments with equal labels remain impossible.
    patterns : {"observed", "all"} or iterable of tuples of labels, default="observed"
        "observed" selects the patterns that occur in the training segmentations; "all" selects every possible pattern
        (more than a million raise an error). An iterable selects its patterns and all single labels. ``l1_reg`` removes
        patterns whose weights become 0. With "runs", patterns with equal neighbouring labels are dropped, because they
        cannot occur.
    min_count : float, default=1
        Minimum number of occurrences in the training data: patterns of two or more labels and (pattern, feature) pairs
        that occur less often get no weight. Counts are weighted by ``sample_weight``. ``min_count`` does not apply to
        patterns that you pass, or to pairs if ``all_pairs=True``. Features of tokens count once for each token at which
        they contribute.
    feature_order : int or dict, default=0
        Orders of the patterns that are paired with features. An int k means orders 0 to k. A dict maps prefixes of
        feature names to an int k or to a tuple of exact orders. The longest matching prefix applies; features without a
        matching prefix get order 0.
    all_pairs : bool, default=False
        Whether (pattern, feature) pairs that do not occur in the training data get a weight. A pair occurs where
        the feature is nonzero in the last segment of the pattern.
    fit_intercept : bool, default=True
        Whether to fit two intercepts for each label: one that is added once per segment of the label, and one that is
        added once per token. Intercepts are penalised like the other weights. Labels with a weight of the feature
        ``length`` (``length="gamma"`` of the extractor) have no intercept for tokens, because one of the two weights
        would be redundant.
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
        The classes of tokens, sorted; they are the columns of :meth:`predict_marginals`. For "runs" and "segments",
        they are the labels; for other schemes, the tags of all segments that ``segment_length_`` allows.
    segment_labels_ : ndarray of shape (n_labels,)
        The labels of segments, sorted.
    scheme_ : str
        How labels encode segments: ``scheme``, or the result of "auto".
    segment_length_ : dict
        For each label, the minimum length of a segment (an int) and the maximum length (an int or inf). The first and
        the last segment of a sequence may be shorter than the minimum.
    patterns_ : list of tuples of labels
        The patterns of segment labels, by order. The single labels come first, in the order of ``segment_labels_``.
    token_intercept_ : ndarray of shape (n_labels,)
        Weight of each token of a segment, in the order of ``segment_labels_``; 0 for labels without such a weight.
    pattern_coef_ : ndarray of shape (n_patterns,)
        Weight of each pattern; 0 for single labels if ``fit_intercept=False``.
    coef_ : scipy.sparse.csr_array of shape (n_patterns, n_features_in_)
        Weight of each (pattern, feature) pair. The first rows belong to the single labels.
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

    See Also
    --------
    HighOrderCRF : Label tokens.
    sklearn_hocrf.feature_extraction.SegmentFeatureExtractor : Features of segments.
    sklearn_hocrf.metrics : Scores of segments.
    sklearn_hocrf.training : Settings of solvers, and early stopping.

    Notes
    -----
    With ``segment_length=None``, a segment that is longer than any training segment of its label is never predicted,
    and its log-likelihood is -inf. To allow longer segments, set ``segment_length`` to a number or ``inf``.

    A pipeline from :func:`sklearn_hocrf.make_pipeline` offers all methods, including :meth:`predict_segments`; a
    scikit-learn pipeline offers only the methods that scikit-learn defines.

    Time and memory are proportional to tokens x (arcs of the automaton + states x longest segment), not to the square
    of the number of labels. ``feature_order`` costs little for features of the first token ("begin:"); for other
    features, use it only where it improves the predictions.

    If ``segment_length`` is inf for any label, the model scores segments token by token. The results are the same as
    with a finite limit longer than every sequence. Time and memory are then proportional to tokens x (arcs + 2 x
    states), or, with lengths up to n as features (``length="capped"``), to tokens x (arcs + (n + 1) x states). Some
    settings require all candidate segments instead, up to the length of the longest sequence: features of whole
    segments (``identity``, ``functions``, ``length="gamma"``, and the features of a
    :class:`~sklearn_hocrf.feature_extraction.SegmentLogOddsEncoder`), length features above 254 (255 if capped),
    minimum lengths, maximum lengths above 256 for other labels, and local feature matching. If sequences are long, a
    warning in training and prediction names these settings. With ``l1_reg``, L-BFGS becomes OWL-QN [4]_.

    References
    ----------
    .. [1] Sarawagi and Cohen, "Semi-Markov conditional random fields for information extraction", NIPS 2004.
    .. [2] Andrew, "A hybrid Markov / semi-Markov conditional random field for sequence segmentation", EMNLP 2006.
    .. [3] Cuong, Ye, Lee and Chieu, "Conditional random field with high-order dependencies for sequence labeling and
       segmentation", JMLR 15, 2014.
    .. [4] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.

    Examples
    --------
    Fields of a reference, as runs of equal labels:

    >>> from sklearn_hocrf import HighOrderSemiCRF
    >>> words = [
    ...     ["Liu", ",", "J.", "Fast", "graphs", "1998"],
    ...     ["Ng", "Slow", "trees", "1999"],
    ... ]
    >>> X = [
    ...     [
    ...         {"word": word, "title": word.istitle(), "digit": word.isdigit()}
    ...         for word in line
    ...     ]
    ...     for line in words
    ... ]
    >>> y = [
    ...     ["author"] * 3 + ["title"] * 2 + ["date"],
    ...     ["author", "title", "title", "date"],
    ... ]
    >>> crf = HighOrderSemiCRF(max_order=2).fit(X, y)
    >>> crf.predict_segments(X)[1]
    [(0, 1, 'author'), (1, 3, 'title'), (3, 4, 'date')]
    >>> crf.segment_length_
    {'author': (1, 3), 'date': (1, 1), 'title': (1, 2)}

    Words in text without spaces, as segments of characters. No training word has more than three characters:

    >>> X = [[{"character": c} for c in text] for text in ["thecat", "adog"]]
    >>> y = [[(0, 3, "word"), (3, 6, "word")], [(0, 1, "word"), (1, 4, "word")]]
    >>> segmenter = HighOrderSemiCRF(scheme="segments").fit(X, y)
    >>> segmenter.predict(X[:1])
    [[(0, 3, 'word'), (3, 6, 'word')]]
    >>> segmenter.log_likelihood(X[:1], [[(0, 6, "word")]])
    array([-inf])
    >>> longer = HighOrderSemiCRF(scheme="segments", segment_length=10).fit(X, y)
    >>> longer.log_likelihood(X[:1], [[(0, 6, "word")]]).round(1)
    array([-1.8])
    """

    __module__ = "sklearn_hocrf.semicrf"  # the public module: model files contain this name
    _parameter_constraints: dict = {
        **PARAMETER_CONSTRAINTS,
        "scheme": [StrOptions({"auto", *SCHEMES})],
        "segment_length": [Interval(Integral, 1, None, closed="left"), Options(Real, {np.inf}), tuple, dict, None],
    }
    _kind = SegmentKind()

    def __init__(
        self,
        max_order: int = 1,
        *,
        scheme: str = "auto",
        segment_length: float | tuple[int, float | None] | dict | None = None,
        sigma_reg: float | Mapping[Hashable, float] = 1.0,
        l1_reg: float | Mapping[Hashable, float] = 0.0,
        constraints: Constraints | None = None,
        patterns: str | Iterable[tuple] = "observed",
        min_count: float = 1,
        feature_order: int | Mapping[str, int | tuple] = 0,
        all_pairs: bool = False,
        fit_intercept: bool = True,
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
        self.scheme = scheme
        self.segment_length = segment_length
        self.sigma_reg = sigma_reg
        self.l1_reg = l1_reg
        self.constraints = constraints
        self.patterns = patterns
        self.min_count = min_count
        self.feature_order = feature_order
        self.all_pairs = all_pairs
        self.fit_intercept = fit_intercept
        self.objective = objective
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    # --- predictions --------------------------------------------------------------------------------------------------

    @overload
    def predict(self, X: Sequences, *, known: Sized | None = None) -> list: ...
    @overload
    def predict(self, X: Sized, *, known: Sized | None = None) -> Any: ...
    def predict(self, X: Sized, *, known: Sized | None = None) -> list | np.ndarray:
        """Return the most probable segmentation of each sequence, in the scheme of the training labels.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`fit`.
            Sequences may be empty.
        known : list of label or segment sequences, or array-like, default=None
            The known part of the segmentation, in the scheme of y in fit. The prediction is the best segmentation that
            agrees with the known part. None instead of a label or tag means any label; None instead of a whole sequence
            means that nothing is known about it.

            * "segments": the known segments, which need not tile the sequence. If only the boundaries of a segment are
              known, its label is None.
            * "runs": the labels of the segments that contain the tokens. Neighbours with equal labels are in the same
              segment.
            * "bio" and others: "B-PER" means that a segment with this label begins at the token, and "I-PER" that such
              a segment contains the token but does not begin there. E and S mean that the token is the last one of its
              segment; in schemes with E and S, B and I mean that it is not. If a known neighbouring tag contradicts
              these rules, tags are read as in :meth:`fit`. After an unknown tag, an I of "iob1" may also begin a
              segment.

        Returns
        -------
        labels : list of lists, list of arrays, or array
            For "runs" and tags, one label or tag per token, in the shape of X and with the type of y in fit: lists if y
            consisted of lists, otherwise arrays of shape (n_tokens,). For a 3-D X, an array of shape (n_sequences,
            n_tokens); for a plain 2-D X, one of shape (n_samples,). For "iob1", the tags are those of "bio": before you
            score tokens, convert them with ``text.convert_tags(y_pred, "bio", "iob1")``. For "segments", lists of
            (start, stop, label).

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError, TypeError
            If X is invalid or does not match the X of fit, or if no segmentation agrees with ``known``.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
        >>> crf.predict([[["Bob"], ["met"], ["Ann"], ["Lee"]], []])
        [['B-PER', 'O', 'B-PER', 'I-PER'], []]

        The last token is known to begin a segment:

        >>> crf.predict(
        ...     [[["Bob"], ["met"], ["Ann"], ["Lee"]]], known=[[None, None, None, "B-PER"]]
        ... )
        [['B-PER', 'O', 'B-PER', 'B-PER']]
        """
        return super().predict(X, known=known)

    @overload
    def predict_segments(
        self, X: Sized, *, threshold: None = None, known: Sized | None = None, with_probability: Literal[False] = False
    ) -> list[list[tuple[int, int, Any]]]: ...
    @overload
    def predict_segments(
        self, X: Sized, *, threshold: float, known: Sized | None = None, with_probability: bool = False
    ) -> list[np.ndarray]: ...
    @overload
    def predict_segments(
        self, X: Sized, *, threshold: float | None = None, known: Sized | None = None, with_probability: Literal[True]
    ) -> list[np.ndarray]: ...
    @overload
    def predict_segments(
        self, X: Sized, *, threshold: float | None = None, known: Sized | None = None, with_probability: bool = False
    ) -> list: ...
    def predict_segments(
        self, X: Sized, *, threshold: float | None = None, known: Sized | None = None, with_probability: bool = False
    ) -> list:
        """Return the segments of the best segmentation, or all segments whose probability reaches a threshold.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        threshold : float or None, default=None
            If None, the method returns the segments of the most probable segmentation. If a number in [0, 1], it
            returns all segments whose probabilities are at least this number, with these probabilities. These segments
            may overlap if the threshold is at most 0.5. A low threshold finds more of the true segments than the best
            segmentation contains. A threshold of 0 returns all possible segments, except that some with probabilities
            below 1e-250 may be missing.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
            The probabilities are conditional on the known part.
        with_probability : bool, default=False
            Whether to include the probabilities of the segments of the best segmentation. With a threshold,
            probabilities are always included.

        Returns
        -------
        segments : list of lists of (int, int, label), or list of structured arrays of shape (n_segments,)
            (start, stop, label) of each segment, in order, with ``stop`` excluded. Without a threshold, the segments
            tile the sequence, except that O tokens of tagging schemes are left out; :meth:`predict_marginals` returns
            their probabilities. With probabilities, the result consists of arrays with the fields ``start`` and
            ``stop`` (int64), ``label`` and ``probability`` (float64), sorted by start, stop and label; pass their
            ``tolist()`` to json, which does not support numpy numbers. A probability refers to a segment with exactly
            this start, stop and label.

        Raises
        ------
        ValueError
            If the threshold is not in [0, 1].

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
        >>> crf.predict_segments(X)
        [[(0, 2, 'PER'), (3, 4, 'PER')], [(1, 2, 'PER')]]
        >>> crf.predict_segments(X, with_probability=True)[1]["probability"].round(2)
        array([0.64])

        All segments with a probability of at least 0.2:

        >>> for start, stop, label, probability in crf.predict_segments(X, threshold=0.2)[
        ...     0
        ... ].tolist():
        ...     print(start, stop, label, round(probability, 2))
        0 1 PER 0.44
        0 2 PER 0.24
        1 2 PER 0.4
        2 3 PER 0.22
        3 4 PER 0.6
        """
        Query.check_threshold(threshold)
        return FittedModel(self).query(X, known).segments(threshold, with_probability)
