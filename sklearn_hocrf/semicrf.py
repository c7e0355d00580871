"""High-order semi-Markov conditional random fields: labels of segments, weights on patterns of many segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from ._data.arrays import offsets_of
from ._data.encodings import (
    ENCODINGS,
    OUTSIDE,
    PREFIXES,
    TagTable,
    join_tag,
    possible_tags,
    segment_lists,
    tag_channels,
    tag_numbers,
    tags_of_segments,
    token_features,
    token_labels,
)
from ._data.labels import sorted_labels
from ._data.segments import NO_LIMIT, Segments
from ._estimator.base import BaseSequenceLabeler
from ._estimator.parameters import PARAMETER_CONSTRAINTS, check_max_segment_length, resolve_feature_orders
from ._inference.segment import SegmentModel
from ._objectives import Objective, SegmentProblem
from ._structure.patterns import without_repeats
from ._structure.segment_layout import SegmentLayout, build_segment_layout
from ._validation import check_segment_classes, read_segment_targets, read_segments, read_sequences
from ._validation._sklearn import Interval, Options, StrOptions

__all__ = ["HighOrderSemiCRF"]


class HighOrderSemiCRF(BaseSequenceLabeler):
    """High-order semi-Markov conditional random field for segmenting and labelling sequences.

    A segmentation s of a sequence x of T tokens is a list of segments [u, v) with labels y that tile [0, T). Its
    probability is

        P(s | x) = exp( sum over its segments of score([u, v), labels up to y) ) / Z(x),

        score = sum over patterns z and features i of w(z, i) g_i(x, u, v) + sum over patterns z of w(z),

    where z runs over the label patterns that end with this segment (the last segments have the labels z). A feature
    g_i is a function of the whole segment: how often a word occurs in it, its first word, its length. Where X has
    features of tokens only, each counts at all tokens of the segment; segments of one token then make the model a
    :class:`HighOrderCRF`. A pattern of k + 1 labels has order k and reaches over k + 1 segments, however long they are;
    ``max_order=1`` is the semi-Markov CRF of Sarawagi and Cohen [1]_, and features of token tags inside of segments
    give the hybrid model of Andrew [2]_.

    The weights maximise the likelihood of the training segmentations minus a Gaussian penalty. The problem is convex,
    and ``optimality_gap_`` bounds how far from the optimum the fit stopped.

    Parameters
    ----------
    max_order : int, default=1
        Highest order of label patterns: patterns have up to ``max_order + 1`` labels, of consecutive segments.
    encoding : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        How the sequences of y, and those that :meth:`predict` returns, say where segments are:

        * "runs": one label per token; a segment is a maximal run of equal labels, so that two neighbours never have
          the same label. Two or more labels are needed.
        * "bio": one tag per token, "B-PER", "I-PER" or "O"; a segment begins with B and goes on with I. "B" and "I"
          alone stand for the label "_". Every O token is a segment of one token, whose label is "O". An I that follows
          no B or I of its label begins a segment, as in conlleval.
        * "bioes": the same with E for the last token, S for segments of one token; "bilou" (spaCy) and "bmes" are other
          letters for the same.
        * "iob1": as "bio", but a segment begins with I, and with B only right after one of its label. Such tags are
          only read; what is returned is "bio".
        * "segments": lists of (start, stop, label) with ``stop`` excluded, counted from 0 in each sequence. They must
          tile the sequence; gaps can be filled with segments (t, t + 1, "O"). Here "O" is a label as any other: keep it
          at length 1 with ``max_segment_length={"O": 1}`` and leave it out of scores with ``ignore=["O"]``.

    max_segment_length : int, inf, dict or None, default=None
        Highest number of tokens of a segment: for all labels, or by label. Labels that a dict does not name, and all
        with None, have the length of their longest segment in training, see Notes. A training segment that is longer
        than a given maximum is an error. Training takes time in proportion to it (inf: to the longest sequence). The
        label "O" of "bio" and "bioes" keeps length 1. If all maxima of "runs" are 1, given or found, each token is a
        segment of its own, equal neighbours are allowed, and the model is a :class:`HighOrderCRF`.
    sigma_reg : float or sequence of float, default=1.0
        Standard deviation of the Gaussian prior: the penalty is the sum of w^2 / (2 sigma^2). In a sequence the k-th
        value (from 0) is for weights of patterns of order k; the last one repeats, surplus ones are ignored. ``inf``
        means no penalty.
    l1_reg : float or sequence of float, default=0.0
        L1 strength (CRFsuite's c1): the penalty has the sum of l1_reg * abs(w), too. In a sequence by order as for
        ``sigma_reg``. It makes many weights exactly 0, and patterns and pairs without weights leave the fitted model,
        see Notes.
    patterns : {"observed", "all"} or iterable of tuples of labels, default="observed"
        "observed": all patterns that occur in the training segmentations; "all": all there can be (refused above a
        million); or the given ones and all single labels. With "runs" those that have equal neighbours are left out,
        for they cannot occur.
    min_pattern_count : float, default=1
        Observed patterns of two or more labels that occur less often, counted by ``sample_weight``, are left out. Up to
        1, none is that occurs in a sequence of positive weight.
    feature_order : int or dict, default=0
        Orders of the patterns with which features are conjoined. An int k stands for orders 0 to k. A dict maps
        prefixes of feature names to an int k or to a tuple of exact orders; the longest prefix counts, and features
        that have none of them get order 0.
    min_feature_count : float, default=1
        (Feature, pattern) pairs that occur less often in training get no weight; counted in the same way, features of
        tokens once for each token at which they count. Without effect if ``unsupported=True``.
    fit_intercept : bool, default=True
        Whether each single label has a weight of its own, penalised like the others.
    unsupported : bool, default=False
        Whether (feature, pattern) pairs that do not occur in training get a weight, too. A pair occurs where the
        feature is not 0 in a segment with which the pattern ends.
    class_weight : dict, "balanced" or None, default=None
        Weights of segment labels; those that a dict does not name have weight 1. The weight of a sequence in the
        objective is its ``sample_weight`` times the mean over its tokens of the weights of their segments' labels.
        "balanced" gives a label the weight n / (n_labels * n_label), where n and n_label count tokens, weighted by
        ``sample_weight``. Unlike ``sample_weight`` it has no say in what occurs often enough to have a weight: a count
        is a property of the data, and a rare label should not need fewer occurrences because its errors cost more.
    objective : {"likelihood", "local_feature_matching", "hinge", "perceptron"} or object, default="likelihood"
        What is minimised, without the penalty; or an object with a method ``bind(problem)``, see
        :mod:`sklearn_hocrf.training`. "local_feature_matching" is the squared distance between the features of each
        candidate segment and what the model expects there. It is not convex, and starts from the weights of maximum
        likelihood, which are trained first, with the same penalty and solver; what is said of iterations and passes is
        about what comes then. With ``warm_start`` a later fit starts from the weights of the fit before. "hinge" is the
        loss of the structured support vector machine: by how much the best labelling scores higher than the true one,
        with 1 added for each wrong token. "perceptron" is that without the 1, for the averaged perceptron, which uses
        no penalty: ``sigma_reg`` is without effect. Both sum over sequences, by their weights. "hinge" and "perceptron"
        train no probabilities: methods that return some do not exist then. Wrong is a token whose segment has a wrong
        label or, unless the encoding is "runs", with which a segment starts wrongly, or fails to.
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
        What tokens can be, sorted, the columns of :meth:`predict_marginals`: labels ("runs", "segments"), or the tags
        that the segments of at most ``max_segment_length_`` tokens consist of ("bio", "bioes").
    segment_labels_ : ndarray of shape (n_labels,)
        The labels of segments, sorted.
    max_segment_length_ : dict
        Highest number of tokens of a segment by label, int or inf.
    patterns_ : list of tuples of labels
        The patterns of segment labels, by order; the single labels come first, in the order of ``segment_labels_``.
    pattern_coef_ : ndarray of shape (n_patterns,)
        Weight of each pattern; 0 for single labels if ``fit_intercept=False``.
    coef_ : scipy.sparse.csr_array of shape (n_patterns, n_features_in_)
        Weight of each (pattern, feature) pair; the first rows are those of the single labels.
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
    HighOrderCRF : Labels tokens.
    sklearn_hocrf.feature_extraction.SegmentFeatureExtractor : Features of segments.
    sklearn_hocrf.metrics : Scores of segments.

    Notes
    -----
    With ``max_segment_length=None`` the model has no segments longer than those it was trained on. Where a test
    sequence has one, prediction breaks it up, and its log-likelihood is -inf. Unseen lengths cost little where features
    say what a length is worth ("length=7+", "log_length"): ``max_segment_length=inf``, or any number, lifts the limit.

    In a pipeline, which delegates only the methods that scikit-learn knows, segments come from
    ``pipe[-1].predict_segments(pipe[:-1].transform(X))``.

    With ``l1_reg`` the fitted model has only what has a weight other than 0: other patterns of two or more labels are
    neither in ``patterns_`` nor in the automaton, and the tables of prediction have no other (pattern, feature) pairs.
    All answers are those of the model with its zeros. Single labels stay, and so do the names and numbers of features.
    With ``sigma_reg=inf`` beside it, the optimum need not be unique.

    Time and memory of a gradient grow with tokens x (arcs of the automaton + states x longest segment), not with the
    square of the number of labels. ``feature_order`` comes at little cost for features of the first token ("begin:");
    for others it adds tokens x longest segment x patterns that have such features: keep it to those few that need it.

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
    >>> words = [["Liu", ",", "J.", "Fast", "graphs", "1998"], ["Ng", "Slow", "trees", "1999"]]
    >>> X = [[{"word": word, "title": word.istitle(), "digit": word.isdigit()} for word in line] for line in words]
    >>> y = [["author"] * 3 + ["title"] * 2 + ["date"], ["author", "title", "title", "date"]]
    >>> crf = HighOrderSemiCRF(max_order=2).fit(X, y)
    >>> crf.predict_segments(X)[1]
    [(0, 1, 'author'), (1, 3, 'title'), (3, 4, 'date')]
    >>> crf.max_segment_length_
    {'author': 3, 'date': 1, 'title': 2}
    >>> [(label, round(p, 2)) for _, _, label, p in crf.segment_marginals(X[1:], threshold=0.35)[0].tolist()]
    [('author', 0.39), ('date', 0.67)]

    Words in text without spaces, as segments of characters. No word of the training data is longer than three:

    >>> X = [[{"character": c} for c in text] for text in ["thecat", "adog"]]
    >>> y = [[(0, 3, "word"), (3, 6, "word")], [(0, 1, "word"), (1, 4, "word")]]
    >>> segmenter = HighOrderSemiCRF(encoding="segments").fit(X, y)
    >>> segmenter.predict(X[:1])
    [[(0, 3, 'word'), (3, 6, 'word')]]
    >>> segmenter.log_likelihood(X[:1], [[(0, 6, "word")]])
    array([-inf])
    >>> longer = HighOrderSemiCRF(encoding="segments", max_segment_length=10).fit(X, y)
    >>> longer.log_likelihood(X[:1], [[(0, 6, "word")]]).round(1)
    array([-1.8])
    """

    _parameter_constraints: dict = {
        **PARAMETER_CONSTRAINTS,
        "encoding": [StrOptions(set(ENCODINGS))],
        "max_segment_length": [Interval(Integral, 1, None, closed="left"), Options(Real, {np.inf}), dict, None],
    }
    _takes_segment_features = True
    _layout_class = SegmentLayout
    _private_attributes = ("_tags", "_outside")

    def __init__(
        self,
        max_order: int = 1,
        *,
        encoding: str = "runs",
        max_segment_length: float | Mapping[Any, float] | None = None,
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
        self.encoding = encoding
        self.max_segment_length = max_segment_length
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

    # --- fit ----------------------------------------------------------------------------------------------------------

    def _check_parameters(self):
        super()._check_parameters()
        check_max_segment_length(self.max_segment_length)

    def _read_training_targets(self, y, lengths, form, name, kept, known=None):
        return read_segment_targets(
            y,
            lengths,
            form,
            name,
            kept,
            encoding=self.encoding,
            max_segment_length=self.max_segment_length,
            known=known,
        )

    def _check_classes(self, classes):
        return check_segment_classes(classes, self.encoding)

    def _training_codes(self, targets):
        return token_labels(targets.segments)

    def _build_layout(self, data, like=None, patterns=None):
        batch, segments, weight = data.batch, data.targets.segments, data.sequence_weight
        repeats, labels = data.targets.repeats, data.targets.labels
        orders = resolve_feature_orders(self.feature_order, self.max_order, data.features.names)
        if like is None:
            patterns = self._select_patterns(patterns, labels, segments.codes, segments.offsets, weight)
            patterns = patterns if repeats else without_repeats(patterns)
        else:
            patterns = like.patterns
        return build_segment_layout(
            batch,
            segments,
            patterns,
            data.targets.longest,
            repeats=repeats,
            feature_orders=orders,
            min_feature_count=self.min_feature_count,
            fit_intercept=self.fit_intercept,
            unsupported=self.unsupported,
            sequence_weight=weight,
            like=like,
        )

    def _pose_problem(self, layout, data):
        weight = self._objective_weight(data)
        return SegmentProblem(layout, data.batch, data.targets.segments, sequence_weight=weight, n_jobs=self.n_jobs)

    def _target_attributes(self, targets):
        labels, encoding = targets.labels.tolist(), targets.encoding
        outside = labels.index(OUTSIDE) if encoding in PREFIXES and OUTSIDE in labels else -1
        classes, tag_table = targets.labels, None
        if encoding in PREFIXES:
            tags = possible_tags(encoding, targets.longest.tolist(), outside)
            pairs = zip(tags.prefix.tolist(), tags.label.tolist(), strict=True)
            names = [join_tag(prefix, labels[label], targets.bare_tags, encoding) for prefix, label in pairs]
            order = sorted(range(len(names)), key=names.__getitem__)
            tag_table = TagTable(tags.prefix[order], tags.label[order])
            classes = sorted_labels(names, [0, len(names)], at_least=1)
        longest = [float("inf") if most == NO_LIMIT else most for most in targets.longest.tolist()]
        return {
            "classes_": classes,
            "segment_labels_": targets.labels,
            "max_segment_length_": dict(zip(labels, longest, strict=True)),
            "_tags": tag_table,
            "_outside": outside,
        }

    @property
    def _encoding(self):
        return self._fitted.targets.encoding

    # --- predictions --------------------------------------------------------------------------------------------------

    def _build_model(self):
        return SegmentModel(self._layout, self._weights)

    def _token_codes(self, decoded):
        if self._tags is None:
            return token_labels(decoded)
        return tag_numbers(tags_of_segments(decoded, self._encoding, self._outside), self._tags)

    def _class_marginals(self, batch):
        model = self._build_model()
        if self._tags is None:
            return model.marginals(batch, n_jobs=self.n_jobs)
        table = model.tag_marginals(batch, tag_channels(self._tags, self._encoding), n_jobs=self.n_jobs)
        return np.divide(table, table.sum(axis=1, keepdims=True), out=table)

    def _without_outside(self, segments) -> Segments:
        """Leave out the segments of O tokens."""
        kept = segments.codes != self._outside
        offsets = offsets_of(kept)[segments.offsets]
        return Segments(offsets, segments.start[kept], segments.stop[kept], segments.codes[kept])

    def predict(self, X: Any) -> Any:
        """Return the most probable segmentation of each sequence, in the encoding of the y of fit.

        Parameters
        ----------
        X : as in :meth:`fit`
            Sequences may be empty.

        Returns
        -------
        labels : list of lists, list of arrays, or array
            For "runs", "bio" and "bioes" one label or tag per token, in the shape of X and like the y of fit: lists if
            y was lists, else arrays of shape (n_tokens,); an array of shape (n_sequences, n_tokens) for a 3-D X, of
            shape (n_samples,) for a plain 2-D X. For "segments" lists of (start, stop, label).

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError, TypeError
            If X is not valid or does not go with the X of fit.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> HighOrderSemiCRF(encoding="bio").fit(X, y).predict([[["Bob"], ["met"], ["Ann"], ["Lee"]], []])
        [['B-PER', 'O', 'B-PER', 'I-PER'], []]
        """
        fitted = self._as_fitted()
        if fitted._encoding == "segments":
            return fitted.predict_segments(X)
        return super(HighOrderSemiCRF, fitted).predict(X)

    def predict_segments(self, X: Any) -> list[list[tuple[int, int, Any]]]:
        """Return the segments of the most probable segmentation of each sequence.

        Parameters
        ----------
        X : as in :meth:`predict`

        Returns
        -------
        segments : list of lists of (int, int, label)
            (start, stop, label) of each segment, with ``stop`` excluded, in order. They tile the sequence; for "bio"
            and "bioes" the O tokens are left out.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> HighOrderSemiCRF(encoding="bio").fit(X, y).predict_segments(X)
        [[(0, 2, 'PER'), (3, 4, 'PER')], [(1, 2, 'PER')]]
        """
        fitted = self._as_fitted()
        batch, _ = read_sequences(fitted, X)
        segments = fitted._without_outside(fitted._build_model().decode(batch, n_jobs=fitted.n_jobs))
        return segment_lists(segments, batch.offsets, fitted.segment_labels_.tolist())

    @available_if(BaseSequenceLabeler._has_probabilities)
    def predict_marginals(self, X: Any) -> list[np.ndarray] | np.ndarray:
        """Return the probability of each class at each token, given the whole sequence.

        Parameters
        ----------
        X : as in :meth:`predict`

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_classes), or array
            In [0, 1], rows sum to 1, columns as ``classes_``: that the token is in a segment of the label ("runs",
            "segments"), or that it has the tag ("bio", "bioes"). An array of shape (n_sequences, n_tokens, n_classes)
            for a 3-D X, of shape (n_samples, n_classes) for a plain 2-D X.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(encoding="bio").fit(X, y)
        >>> crf.classes_
        array(['B-PER', 'I-PER', 'O'], dtype='<U5')
        >>> crf.predict_marginals(X)[1].round(2)
        array([[0.36, 0.  , 0.64],
               [0.64, 0.15, 0.21]])
        """
        return super().predict_marginals(X)

    @available_if(BaseSequenceLabeler._has_probabilities)
    def segment_marginals(self, X: Any, threshold: float = 1e-6) -> list[np.ndarray]:
        """Return the segments that are probable enough, each with its probability.

        Parameters
        ----------
        X : as in :meth:`predict`
        threshold : float, default=1e-6
            Lowest probability of a segment. With 0 there are all that ``max_segment_length_`` allows.

        Returns
        -------
        segments : list of structured arrays of shape (n_segments,)
            For each sequence, fields ``start`` and ``stop`` (int64), ``label`` and ``probability`` (float64), sorted by
            start, stop and label. The probability is that of a segment with this very start, stop and label. For "bio"
            and "bioes" the O tokens are left out; their probabilities are those of :meth:`predict_marginals`.

        Raises
        ------
        ValueError
            If the threshold is not in [0, 1].

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(encoding="bio").fit(X, y)
        >>> for start, stop, label, probability in crf.segment_marginals(X, threshold=0.1)[0].tolist():
        ...     print(start, stop, label, round(probability, 2))
        0 1 PER 0.44
        0 2 PER 0.23
        1 2 PER 0.41
        2 3 PER 0.22
        2 4 PER 0.14
        3 4 PER 0.59
        """
        fitted = self._as_fitted()
        if not (isinstance(threshold, Real) and 0 <= threshold <= 1):
            raise ValueError(f"threshold must be a probability, a number in [0, 1], got {threshold!r}")
        batch, _ = read_sequences(fitted, X)
        segments, probability = fitted._build_model().segment_marginals(batch, threshold, n_jobs=fitted.n_jobs)
        probability = probability[segments.codes != fitted._outside]
        segments = fitted._without_outside(segments)
        fields = [("start", np.int64), ("stop", np.int64), ("label", fitted.segment_labels_.dtype)]
        table = np.empty(len(probability), dtype=[*fields, ("probability", np.float64)])
        origin = np.repeat(batch.offsets[:-1], np.diff(segments.offsets))
        table["start"], table["stop"] = segments.start - origin, segments.stop - origin
        table["label"], table["probability"] = fitted.segment_labels_[segments.codes], probability
        return np.split(table, segments.offsets[1:-1]) if len(batch) else []

    @available_if(BaseSequenceLabeler._has_probabilities)
    def pattern_marginals(self, X: Any, patterns: Iterable[tuple]) -> list[np.ndarray] | np.ndarray:
        """Return the probability that an occurrence of a pattern of segment labels ends at a token.

        Parameters
        ----------
        X : as in :meth:`predict`
        patterns : iterable of tuples of labels
            Labels of consecutive segments; of any length, whether the model has a weight for them or not.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_patterns), or array
            The probability that the last segment of an occurrence ends with the token. In the shape of X, as for
            :meth:`predict_marginals`; columns as ``patterns``.

        Raises
        ------
        ValueError, TypeError
            For an empty pattern and for labels that are not in ``segment_labels_``.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(encoding="bio").fit(X, y)
        >>> crf.pattern_marginals(X, [("PER",), ("O", "PER")])[1].round(2)
        array([[0.21, 0.  ],
               [0.79, 0.51]])
        """
        return super().pattern_marginals(X, patterns)

    # --- quality ------------------------------------------------------------------------------------------------------

    def _read_truth(self, y, batch, form, unknown):
        return read_segments(
            y,
            batch.lengths,
            form,
            type(self).__name__,
            self.segment_labels_,
            encoding=self._encoding,
            singles=self._encoding == "runs" and self._fitted.targets.repeats,
            unknown=unknown,
        )

    def _are_right(self, decoded, truth):
        features = (token_features(segments, self._encoding, self._outside) for segments in (decoded, truth))
        return np.equal(*features).all(axis=0)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the token accuracy.

        A token counts as right if its label is ("runs"), if its tag is ("bio", "bioes"), or if its label is and
        whether a segment starts with it ("segments"). Scores of whole segments are in :mod:`sklearn_hocrf.metrics`.

        Parameters
        ----------
        X : as in :meth:`predict`
        y : as in :meth:`fit`
            A label that fit has not seen counts as an error of the model. Tags that break the rules stand for those of
            the segments as which fit reads them.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, for all of its tokens.

        Returns
        -------
        accuracy : float

        Raises
        ------
        ValueError
            If X has no tokens of positive weight, or y does not go with it.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> HighOrderSemiCRF(encoding="bio").fit(X, y).score(X[:1], [["B-PER", "B-PER", "O", "B-PER"]])
        0.75
        """
        return super().score(X, y, sample_weight)

    @available_if(BaseSequenceLabeler._has_probabilities)
    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Return log P(y given x) of each sequence, without the penalty.

        Parameters
        ----------
        X : as in :meth:`predict`
        y : as in :meth:`fit`

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,)
            In nats; 0 for empty sequences, -inf where the model forbids y: where a segment is longer than
            ``max_segment_length_``.

        Raises
        ------
        ValueError
            For a label that fit has not seen.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(encoding="bio").fit(X, y)
        >>> crf.log_likelihood(X[:1] * 2, [y[0], ["B-PER", "I-PER", "I-PER", "O"]]).round(2)
        array([-2.15,  -inf])
        """
        return super().log_likelihood(X, y)
