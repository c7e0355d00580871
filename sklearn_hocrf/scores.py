"""A CRF as the last layer of another program, such as a neural network, that computes label scores.

===============================  =======================================================================================
:func:`posterior`                all results of a model: labels, segments and their probabilities, samples, entropies
:func:`sequence_log_likelihood`  log-likelihoods of label sequences, and their gradients
===============================  =======================================================================================

>>> from sklearn_hocrf.scores import posterior
>>> logits = [[2.0, 0.5, 1.0], [0.2, 1.5, 1.0], [0.1, 0.4, 2.0]]
>>> found = posterior(logits, labels=["B-PER", "I-PER", "O"], constraints="bio")
>>> found.predict_segments()
[[(0, 2, 'PER')]]

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/scores.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._data.arrays import offsets_of
from ._data.batch import SequenceBatch
from ._data.checks import is_number, short
from ._data.columns import DenseColumns, dense_dtype
from ._data.segments import Mask
from ._data.tagger import Labelling
from ._engine.inference.chain import ChainModel
from ._engine.structure.layout import WeightLayout
from ._engine.structure.pairs import FeatureMap
from ._engine.structure.patterns import given_patterns
from ._estimator.answers.query import Query
from ._estimator.labels.constraints import Constraints, check_constraints, compile_rules
from ._estimator.labels.patterns import pattern_codes, tags_of_labels
from ._reading.known import Known, check_classes
from ._reading.labels import label_codes, position_name
from ._reading.targets import TokenTargets
from ._reading.values import is_ordered_collection

__all__ = ["posterior", "sequence_log_likelihood"]


class ScoredPosterior:
    """The distribution of labellings that :func:`posterior` computes from label scores.

    Its methods have the same names and parameters as those of :class:`~sklearn_hocrf.HighOrderCRF`, except for the
    parameters X, ``scheme`` (which you pass to :func:`posterior` instead) and ``unknown``. They return a list with an
    element for each sequence, or an array of shape (n_sequences,). ``known`` contains a list of known labels for each
    sequence, as in :meth:`HighOrderCRF.predict <sklearn_hocrf.HighOrderCRF.predict>`: None means any label, and a set
    means one of its members.
    """

    def __init__(self, query: Query, scheme: str, constraints: Any) -> None:
        self._query, self._scheme, self._constraints = query, scheme, constraints

    def predict(self, *, known: Sized | None = None) -> list[Any]:
        """Return the most probable labels of each sequence; ties go to the label of the first column.

        Parameters
        ----------
        known : list of label sequences, default=None
            Known labels.

        Returns
        -------
        labels : list of lists, or list of arrays of shape (n_tokens,)
            Arrays if you passed ``labels`` to :func:`posterior` as an array.
        """
        return self._ask(known).labels()

    def predict_marginals(self, *, known: Sized | None = None) -> list[np.ndarray]:
        """Return the probability of each label at each token, given the whole sequence.

        Parameters
        ----------
        known : list of label sequences, default=None
            Known labels.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_labels), float64
            Columns as in ``scores``; rows sum to 1.
        """
        query = self._ask(known)
        return query.reshape(query.class_marginals())

    def pattern_marginals(self, patterns: Iterable[tuple], *, known: Sized | None = None) -> list[np.ndarray]:
        """Return the probability that an occurrence of each label pattern ends at each token.

        Parameters
        ----------
        patterns : iterable of tuples of labels
            Patterns of any length, with or without a weight.
        known : list of label sequences, default=None
            Known labels.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_patterns), float64
            Columns in the order of ``patterns``.
        """
        query = self._ask(known)
        codes = pattern_codes(patterns, query.targets.labels, query.posterior.model.layout.patterns.history)
        return query.reshape(query.posterior.pattern_marginals(codes))

    def predict_segments(
        self, *, threshold: float | None = None, known: Sized | None = None, with_probability: bool = False
    ) -> list:
        """Return the segments of the best labelling, or all segments whose probability reaches a threshold.

        Parameters
        ----------
        threshold : float or None, default=None
            If None, the method returns the segments of :meth:`predict`. If a number in [0, 1], it returns all segments
            that are at least as probable, with their probabilities; they may overlap if the threshold is at most 0.5.
        known : list of label sequences, default=None
            Known labels.
        with_probability : bool, default=False
            Whether to include the probabilities of the segments of the best labelling.

        Returns
        -------
        segments : list of lists of (int, int, label), or list of structured arrays of shape (n_segments,)
            The tuple (start, stop, label) of each segment or, with probabilities, an array with the fields ``start``,
            ``stop``, ``label`` and ``probability``, as in :meth:`HighOrderCRF.predict_segments
            <sklearn_hocrf.HighOrderCRF.predict_segments>`.
        """
        Query.check_threshold(threshold)
        tags = tags_of_labels(self._query.targets.labels, self._scheme, self._constraints)
        return self._ask(known).segments(threshold, with_probability, tags)

    def predict_nbest(
        self,
        n: int = 10,
        *,
        known: Sized | None = None,
        accept: Callable[[Any], bool] | None = None,
        max_candidates: int = 1000,
    ) -> list[list[Labelling]]:
        """Return the n most probable labellings of each sequence, best first.

        Parameters
        ----------
        n : int, default=10
            Number of labellings; for a sequence with fewer possible labellings, all are returned.
        known : list of label sequences, default=None
            Known labels.
        accept : callable or None, default=None
            A function that receives ``labels`` and returns whether to accept them.
        max_candidates : int, default=1000
            Maximum number of calls of ``accept`` for a sequence.

        Returns
        -------
        candidates : list of lists of Labelling
            Named tuples ``(labels, score, log_probability)``.
        """
        Query.check_nbest(n, accept, max_candidates)
        return self._ask(known).nbest(n, accept, max_candidates)

    def sample(
        self, n_samples: int = 1, *, known: Sized | None = None, random_state: int | np.random.RandomState | None = None
    ) -> list[list[Any]]:
        """Draw labellings of each sequence from their exact distribution.

        Parameters
        ----------
        n_samples : int, default=1
            Number of independent labellings of each sequence.
        known : list of label sequences, default=None
            Known labels.
        random_state : int, RandomState instance or None, default=None
            An int gives the same samples in each call.

        Returns
        -------
        samples : list of lists
            ``n_samples`` labellings for each sequence, each as returned by :meth:`predict`.
        """
        seed = Query.check_samples(n_samples, random_state)
        return self._ask(known).samples(n_samples, seed)

    def entropy(self, *, level: str = "sequence", known: Sized | None = None) -> Any:
        """Return the entropy of the labels, in nats.

        Parameters
        ----------
        level : {"sequence", "token"}, default="sequence"
            Whether to return one entropy per sequence, of the whole labelling, or one per token.
        known : list of label sequences, default=None
            Known labels.

        Returns
        -------
        entropy : ndarray of shape (n_sequences,), or list of arrays of shape (n_tokens,)
        """
        Query.check_level(level)
        return self._ask(known).entropy(level)

    def log_likelihood(self, y: Sized) -> np.ndarray:
        """Return the log-probability of the labels of each sequence.

        Parameters
        ----------
        y : list of label sequences
            Labels may be missing, as in ``known``; the result is then the log-probability that the labelling agrees
            with the given labels.

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,), float64
            0 for empty sequences, and -inf for labels that scores, patterns or constraints forbid.
        """
        return self._query.labelled(self._known(y, "y")).log_likelihood(self._query.posterior.model)

    def _ask(self, known: Sized | None) -> Query:
        """Return the query, conditioned on known labels."""
        return self._query if known is None else self._query.with_evidence(self._known(known, "known").mask)

    def _known(self, labels: Any, what: str) -> Known:
        """Return the known labels in ``labels``; ``what`` is the name of this argument in error messages."""
        lengths = self._query.posterior.batch.lengths
        if is_ordered_collection(labels):
            if len(labels) != len(lengths):
                raise ValueError(f"{what} must have the labels of {len(lengths)} sequences, got {len(labels)}")
            for n, (part, length) in enumerate(zip(labels, lengths.tolist(), strict=True)):
                if hasattr(part, "__len__") and len(part) != length:
                    raise ValueError(f"sequence {n} has {length} tokens in scores, but {len(part)} labels in {what}")
        targets, batch = self._query.targets, self._query.posterior.batch
        return targets.read_known(labels, batch, "sequences", "posterior", what, among="the labels of the scores")


def posterior(
    scores: ArrayLike | list[ArrayLike],
    patterns: Mapping[tuple, float] | None = None,
    *,
    labels: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    constraints: str | Constraints | None = None,
    scheme: str | None = None,
    history: str = "tokens",
    n_jobs: int | None = None,
) -> ScoredPosterior:
    """Return the distribution over labellings for label scores that another program computes.

    For labellings that the constraints allow, the probability is proportional to exp of the sum of the labelling's
    scores and of the weights of the label patterns that occur in it. All results are exact, including the probability
    that a span of tokens is a segment, which is neither the mean nor the product of token probabilities.

    Parameters
    ----------
    scores : array-like of shape (n_tokens, n_labels), or list of such arrays
        The score of each label at each token, such as the logits of a token classifier: one array of all sequences, one
        after the other, or an array for each sequence. Without patterns and constraints, the labels of tokens are
        independent, with the softmax of the scores as probabilities. -inf forbids the label at the token. A single
        array of float32 or float64 without -inf is not copied, so do not change it while you use the result. Tensors on
        the CPU are accepted. If you have padded scores of shape (n_sequences, length, n_labels) and a boolean mask of
        the tokens, pass ``scores[mask]`` and ``lengths=mask.sum(1)``.
    patterns : mapping from tuples of labels to float, default=None
        The weight of each label pattern, such as ``{("B-PER", "O"): 0.3}``; None means no patterns. A pattern of two or
        more labels is forbidden if its weight is -inf, whether its labels are those of tokens or of segments.
    labels : array-like of shape (n_labels,), default=None
        The label of each column of ``scores``, such as ``[*model.config.id2label.values()]``; None means 0 to
        ``n_labels - 1``. Patterns, constraints, known labels and all results use these labels.
    lengths : array-like of shape (n_sequences,), int, default=None
        The number of tokens of each sequence, if ``scores`` is one array; None means one sequence.
    constraints : {"bio", "bioes", "bilou", "bmes", "iob1"}, Constraints or None, default=None
        A tagging scheme, or other rules for the order of labels, as in :class:`~sklearn_hocrf.HighOrderCRF`.
    scheme : {"auto", "bio", "bioes", "bilou", "bmes", "iob1", "runs"}, default=None
        The scheme by which labels encode segments, for ``predict_segments``. None and "auto" mean the scheme that
        ``constraints`` names. If it names none, they mean the scheme of the labels if all labels look like tags, and
        "runs" of equal labels if no label does; otherwise ``predict_segments`` raises an error.
    history : {"tokens", "segments"}, default="tokens"
        Whether patterns consist of the labels of consecutive tokens, or of consecutive segments, which are runs of
        equal labels. See :class:`~sklearn_hocrf.HighOrderCRF`.
    n_jobs : int or None, default=None
        Number of threads; results do not depend on it.

    Returns
    -------
    found : ScoredPosterior
        The distribution. Its methods correspond to those of :class:`~sklearn_hocrf.HighOrderCRF`, without the parameter
        X. They return lists or arrays with an element for each sequence, even if there is only one sequence:

        =====================================================  =======================================================
        ``predict()``                                          the best labelling
        ``predict_marginals()``                                probabilities of the labels of each token
        ``pattern_marginals(patterns)``                        probabilities that a pattern ends at each token
        ``predict_segments(threshold=, with_probability=)``    segments, with their probabilities
        ``predict_nbest(n, accept=)``                          the n best labellings
        ``sample(n_samples, random_state=)``                   labellings drawn from their distribution
        ``entropy(level=)``                                    entropies of sequences or tokens, in nats
        ``log_likelihood(y)``                                  log-probability of labels, some of which may be missing
        =====================================================  =======================================================

        All methods except the last one accept known labels as ``known=``, and condition their results on them.

    Raises
    ------
    TypeError, ValueError
        If a score is nan or inf, if a token has no possible label, if shapes or lengths do not match, if labels are not
        tags of the scheme, or if patterns or constraints contain unknown labels. The methods raise a ValueError if all
        labellings of a sequence are forbidden.

    See Also
    --------
    sequence_log_likelihood : Gradients with respect to scores and weights, for training.
    sklearn_hocrf.HighOrderCRF : A model that learns its weights.

    Examples
    --------
    >>> from sklearn_hocrf.scores import posterior
    >>> logits = [[2.0, 0.5, 1.0], [0.2, 1.5, 1.0], [0.1, 0.4, 2.0]]
    >>> found = posterior(logits, labels=["B-PER", "I-PER", "O"], constraints="bio")
    >>> found.predict()
    [['B-PER', 'I-PER', 'O']]
    >>> for start, stop, label, p in found.predict_segments(threshold=0.2)[0].tolist():
    ...     print(start, stop, label, round(p, 2))
    0 1 PER 0.38
    0 2 PER 0.41

    Compute the log-probability that the first token begins a name and the last one is outside names, and the best
    labelling if the second token is known to be outside:

    >>> found.log_likelihood([["B-PER", None, "O"]]).round(2)
    array([-0.4])
    >>> found.predict(known=[[None, "O", None]])
    [['B-PER', 'O', 'O']]

    Pass two sequences, of two tokens and of one token, and weights of patterns:

    >>> found = posterior(logits, {(0, 1): -1.0, (1, 1): 0.7}, lengths=[2, 1])
    >>> [labels for labels, _, _ in found.predict_nbest(2)[0]]
    [[0, 2], [1, 1]]
    """
    problem = _read_all(scores, {} if patterns is None else patterns, lengths, history, n_jobs, labels, constraints)
    if scheme is not None:
        tags_of_labels(problem.query.targets.labels, scheme, constraints)  # rejects labels that are not tags
        if history == "segments" and scheme not in ("auto", "runs"):
            raise ValueError(f'for history="segments", pass scheme="runs" (runs of equal labels), not "{scheme}"')
    return ScoredPosterior(problem.query, scheme or "auto", constraints)


class ScoredLikelihood(NamedTuple):
    """Log-likelihoods of label sequences, given scores of labels.   See :func:`sequence_log_likelihood`."""

    log_likelihood: np.ndarray  # (n_sequences,)
    score_gradient: np.ndarray  # (n_tokens, n_labels)
    pattern_gradient: np.ndarray  # (n_patterns,)


def sequence_log_likelihood(
    scores: ArrayLike | list[ArrayLike],
    y: ArrayLike,
    patterns: Mapping[tuple[int, ...], float],
    lengths: ArrayLike | None = None,
    *,
    history: str = "tokens",
    n_jobs: int | None = None,
) -> ScoredLikelihood:
    """Return the log-likelihood of label sequences, and its gradient, for scores that another program computes.

    The model is a high-order CRF over label scores, such as those of a neural encoder: the potential of a labelling is
    exp of the sum of its scores and of the weights of the label patterns that occur in it, once for each occurrence.
    All results are exact, for patterns of any length.

    Parameters
    ----------
    scores : array-like of shape (n_tokens, n_labels), or list of such arrays
        The score of each label at each token: one array of all sequences, one after the other, or an array for each
        sequence. -inf forbids the label at the token.
    y : array-like of shape (n_tokens,), int
        The labels of the tokens, from 0 to ``n_labels - 1``.
    patterns : mapping from tuples of int to float
        The weight of each label pattern, such as ``{(0, 1): 0.5, (0, 1, 1): -np.inf}``. A pattern of two or more labels
        is forbidden if its weight is -inf. The weights of a fitted :class:`~sklearn_hocrf.HighOrderCRF` are in
        ``patterns_`` and ``pattern_coef_``; replace the labels in ``patterns_`` by their indices in ``classes_``.
    lengths : array-like of shape (n_sequences,), int, default=None
        The number of tokens of each sequence; None means one sequence.
    history : {"tokens", "segments"}, default="tokens"
        Whether patterns consist of the labels of consecutive tokens, or of consecutive segments, which are runs of
        equal labels. The weight of a pattern of segments is added at the first token of its last segment, and the
        weight of a pair of equal labels at each token that continues a segment, as in
        :class:`~sklearn_hocrf.HighOrderCRF`. Only :func:`posterior` supports segments that tags encode.
    n_jobs : int or None, default=None
        Number of threads; results do not depend on it.

    Returns
    -------
    likelihood : named tuple
        The fields are three arrays of float64. ``log_likelihood``, of shape (n_sequences,), contains log P(y given
        scores) of each sequence. ``score_gradient``, of shape (n_tokens, n_labels), contains the derivatives of the sum
        of these log-likelihoods with respect to ``scores``: indicators of ``y`` minus marginals. ``pattern_gradient``,
        of shape (n_patterns,), contains the derivatives of the sum with respect to the weights of ``patterns``, in the
        same order: observed minus expected counts, and 0 for forbidden patterns.

    Raises
    ------
    TypeError, ValueError
        If shapes do not match, if a score is nan or inf, if a token has no possible label, if a label is out of range,
        or if the labels of a sequence are forbidden.

    See Also
    --------
    posterior : All other results for such scores.

    References
    ----------
    Cuong, Ye, Lee and Chieu: Conditional random field with high-order dependencies for sequence labeling and
    segmentation. JMLR 15, 2014, section 3.

    Examples
    --------
    >>> from sklearn_hocrf.scores import sequence_log_likelihood
    >>> scores, y = [[0.5, 0.0], [0.0, 0.0], [1.0, 0.0]], [0, 1, 0]
    >>> likelihood = sequence_log_likelihood(scores, y, {(0, 1): 0.4, (0, 1, 0): 0.3})
    >>> likelihood.log_likelihood.round(3), likelihood.pattern_gradient.round(3)
    (array([-1.072]), array([0.414, 0.658]))
    >>> likelihood.score_gradient.round(3)
    array([[ 0.301, -0.301],
           [-0.423,  0.423],
           [ 0.281, -0.281]])
    """
    problem = _read_all(scores, patterns, lengths, history, n_jobs)
    posterior, batch = problem.query.posterior, problem.query.posterior.batch
    codes, weight = _checked_codes(y, problem.query), np.ones(len(batch))
    score = posterior.log_score(codes)
    _refuse_impossible(score, codes, posterior)
    expected = posterior.expectations(weight)
    log_z, centred = expected.log_z, posterior.centred_unless_small(expected.log_z)
    if centred is not posterior:
        score, log_z = centred.log_score(codes), centred.log_z()
    counts = (posterior.plan.empirical_counts(codes, weight) - expected.counts)[problem.bias_id]
    truth = codes[:, None] == np.arange(posterior.model.layout.automaton.n_labels)
    return ScoredLikelihood(
        np.minimum(score - log_z, 0.0),
        truth - posterior.marginals(),
        np.where(problem.is_forbidden, 0.0, counts),
    )


# --- reading ----------------------------------------------------------------------------------------------------------


class _Scored(NamedTuple):
    """Scores of labels as the dense features of a batch.   L labels, P patterns."""

    query: Query  # its labels are those of the columns
    bias_id: np.ndarray  # (P,)   the index of the weight of each pattern; arbitrary for forbidden patterns
    is_forbidden: np.ndarray  # (P,) bool


def _read_all(scores, patterns, lengths, history, n_jobs, given_labels=None, constraints=None) -> _Scored:
    check_constraints(constraints, history)
    table, offsets = _read_scores(scores, lengths)
    labels = _read_labels(given_labels, table.shape[1])
    rules = compile_rules(history, constraints, labels)
    keys, weights = _read_patterns(patterns, labels, history)
    is_forbidden = weights == -np.inf
    layout = _layout(tuple(keys), tuple(is_forbidden.tolist()), rules.forbidden, len(labels), history)
    row_of = {pattern: row for row, pattern in enumerate(layout.patterns.tuples())}
    bias_id = layout.first_bias + np.array([row_of.get(key, 0) for key in keys], dtype=np.int64)
    vector = np.zeros(layout.n_weights)
    vector[: len(labels)] = 1.0  # the weight of the label's own score
    np.add.at(vector, bias_id[~is_forbidden], weights[~is_forbidden])
    borders = np.ones((2, len(labels)), bool) if rules.borders is None else rules.borders
    mask = Mask.of_borders(offsets, borders)
    is_impossible = table == -np.inf
    if is_impossible.any():
        empty = np.flatnonzero(is_impossible.all(axis=1))
        if len(empty):
            raise ValueError(f"scores leave no label possible at {position_name(offsets, empty[0])}: all are -inf")
        mask.allowed[is_impossible] = False
        table = np.where(is_impossible, 0.0, table)  # kernels multiply by the numbers in all columns
    dense = DenseColumns(np.arange(len(labels), dtype=np.int32), table)
    nothing = np.zeros(len(table) + 1, np.int64), np.zeros(0, np.int32)
    batch = SequenceBatch(offsets, *nothing, None, len(labels), dense=dense)
    support = None if mask.allowed.all() else mask
    targets = TokenTargets(np.empty(0, np.int32), labels, not isinstance(given_labels, np.ndarray))
    return _Scored(Query(ChainModel(layout, vector).posterior(batch, support, n_jobs), targets), bias_id, is_forbidden)


@lru_cache(maxsize=8)  # training calls it again with other weights of the same patterns
def _layout(keys: tuple, is_forbidden: tuple, rules: tuple, n_labels: int, history: str) -> WeightLayout:
    """Return the layout with one weight for each label's score and one for each pattern."""
    pairs = list(zip(keys, is_forbidden, strict=True))
    table = given_patterns([key for key, forbidden in pairs if not forbidden], n_labels, history)
    labels = np.arange(n_labels)
    features = FeatureMap.of_tokens(labels)
    forbidden = [*rules, *(key for key, is_one in pairs if is_one)]
    return WeightLayout(table, features, labels, labels, np.arange(len(table.lengths)), forbidden=forbidden)


def _read_scores(scores, lengths) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of all tokens, float32 or float64, and the offsets of sequences."""
    is_list = isinstance(scores, (list, tuple)) and any(np.ndim(part) > 1 for part in scores)
    if is_list:
        if lengths is not None:
            raise ValueError("lengths must be None, because scores is a list with an array for each sequence")
        parts = [np.asarray(part) for part in scores]
        for n, part in enumerate(parts):
            if part.ndim != 2 or part.shape[1] != parts[0].shape[1]:
                raise ValueError(
                    f"scores[{n}] (sequence {n}) has the shape {part.shape}, but all must have (n_tokens, n_labels)"
                )
        lengths = list(map(len, parts))
    array = np.concatenate(parts) if is_list else np.asarray(scores)
    if array.ndim != 2 or array.shape[1] < 1:
        padded = "; without padding: scores[mask], lengths=mask.sum(1)" if array.ndim == 3 else ""
        raise ValueError(f"scores must have the shape (n_tokens, n_labels), got {array.shape}{padded}")
    if array.dtype.kind not in "biufO":
        raise TypeError(f"scores must be numbers, got the type {array.dtype}")
    table: np.ndarray = np.asarray(array, dense_dtype(array.dtype), order="C")
    offsets = offsets_of(_checked_lengths(lengths, len(table)))
    wrong = np.argwhere(~(table < np.inf))
    if len(wrong):
        token, column = wrong[0].tolist()
        where = f"column {column} ({position_name(offsets, token)})"
        raise ValueError(f"scores must be finite or -inf, got {table[token, column]} in {where}")
    return table, offsets


def _read_labels(labels, n_labels) -> np.ndarray:
    """Return the labels of the columns."""
    if labels is None:
        return np.arange(n_labels)
    distinct = check_classes(labels, 1, "labels")
    named = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if not len(named) == len(distinct) == n_labels:
        raise ValueError(f"labels must be {n_labels} distinct ones, one for each column of scores, got {short(named)}")
    code_of = label_codes(distinct)
    return distinct[[code_of[label] for label in named]]


def _read_patterns(patterns, labels, history) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Return patterns as tuples of codes, and their weights."""
    if not isinstance(patterns, Mapping):
        raise TypeError(f"patterns must be a mapping from tuples of labels to weights, got {type(patterns).__name__}")
    keys = pattern_codes(patterns, labels, history)
    for (pattern, weight), key in zip(patterns.items(), keys, strict=True):
        if not is_number(weight) or not (abs(weight) < np.inf or (weight == -np.inf and len(key) > 1)):
            raise ValueError(
                f"patterns: the weight of {short(pattern)} must be a finite number, or -inf for two or more labels, "
                f"got {short(weight)}"
            )
    return keys, np.array(list(patterns.values()), dtype=np.float64)


def _checked_lengths(lengths, n_tokens) -> np.ndarray:
    sizes = np.asarray([n_tokens] if lengths is None else lengths)
    if sizes.ndim != 1 or (sizes.dtype.kind not in "iu" and sizes.size):
        raise ValueError(f"lengths must be integers, a number of tokens for each sequence, got {short(lengths)}")
    if (sizes < 0).any():
        raise ValueError(f"lengths[{np.argmax(sizes < 0)}] is {sizes[sizes < 0][0]}, which is no number of tokens")
    if sizes.sum() != n_tokens:
        raise ValueError(
            f"lengths must be numbers of tokens that sum to {n_tokens}, the rows of scores, not {sizes.sum()}"
        )
    return sizes.astype(np.int64)


def _checked_codes(y, query) -> np.ndarray:
    """Return the codes of the labels of all tokens, after checks."""
    codes, n_labels, n_tokens = np.asarray(y), len(query.targets.labels), query.posterior.batch.n_tokens
    if codes.shape != (n_tokens,) or (codes.size and codes.dtype.kind not in "iu"):
        raise ValueError(f"y must be {n_tokens} integers, one for each row of scores")
    wrong = np.flatnonzero((codes < 0) | (codes >= n_labels))
    if len(wrong):
        raise ValueError(f"y has the label {codes[wrong[0]]} at token {wrong[0]}, but labels are 0 to {n_labels - 1}")
    return codes.astype(np.int32)


def _refuse_impossible(score, codes, posterior) -> None:
    """Raise a ValueError if patterns (``score`` is then -inf) or label scores forbid the labels of a sequence."""
    impossible = score == -np.inf
    if posterior.mask is not None:
        tokens = np.flatnonzero(~posterior.mask.allowed[np.arange(len(codes)), codes])
        impossible[np.searchsorted(posterior.batch.offsets, tokens, side="right") - 1] = True
    if impossible.any():
        sequence = int(np.argmax(impossible))
        raise ValueError(f"sequence {sequence}: its labels y are forbidden by patterns or by a score of -inf")
