"""Scores of labels that another program computes, such as a neural network: a CRF as its last layer.

===============================  =======================================================================================
:func:`sequence_log_likelihood`  log-likelihoods of label sequences, and their gradients
:func:`predict_from_scores`      the best labelling
===============================  =======================================================================================

>>> from sklearn_hocrf.scores import predict_from_scores
>>> scores = [[0.5, 0.0], [0.0, 0.2], [1.0, 0.0]]
>>> predict_from_scores(scores, {(0, 1): -0.6, (0, 0, 0): -1.0}).tolist()
[1, 1, 0]

User guide: docs/guide/scores.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._data.arrays import offsets_of
from ._data.batch import SequenceBatch
from ._data.columns import DenseColumns
from ._data.masks import Mask
from ._inference.chain import ChainModel, ChainPosterior
from ._settings import is_integer, is_number
from ._structure.layout import WeightLayout
from ._structure.pairs import FeatureMap
from ._structure.patterns import HISTORIES, SEGMENTS, TOKENS, given_patterns, has_equal_neighbours

__all__ = ["predict_from_scores", "sequence_log_likelihood"]


class ScoredLikelihood(NamedTuple):
    """Log-likelihoods of label sequences, given scores of labels.   See :func:`sequence_log_likelihood`."""

    log_likelihood: np.ndarray  # (n_sequences,)
    score_gradient: np.ndarray  # (n_tokens, n_labels)
    pattern_gradient: np.ndarray  # (n_patterns,)


def sequence_log_likelihood(
    scores: ArrayLike,
    y: ArrayLike,
    patterns: Mapping[tuple[int, ...], float],
    lengths: ArrayLike | None = None,
    *,
    history: str = TOKENS,
    sequence_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> ScoredLikelihood:
    """Return the log-likelihood of label sequences, and its gradient, for scores that another program computes.

    The model is a high-order CRF over label scores, such as those of a neural encoder: the potential of a labelling is
    exp of the sum of its scores and of the weights of the label patterns that occur in it, with one weight for each
    occurrence. Everything is exact, for patterns of any length.

    Parameters
    ----------
    scores : array-like of shape (n_tokens, n_labels)
        The score of each label at each token of all sequences, one after the other. -inf means that the token cannot
        have the label.
    y : array-like of shape (n_tokens,), int
        The labels of the tokens, from 0 to ``n_labels - 1``.
    patterns : mapping from tuples of int to float
        The weight of each label pattern, such as ``{(0, 1): 0.5, (0, 1, 1): -np.inf}``. A pattern of two or more labels
        of weight -inf is forbidden. For a fitted :class:`~sklearn_hocrf.HighOrderCRF`, they are ``patterns_`` with
        ``pattern_coef_``, its labels replaced by their indices in ``classes_``.
    lengths : array-like of shape (n_sequences,), int, default=None
        The numbers of tokens of the sequences; None means one sequence.
    history : {"tokens", "segments"}, default="tokens"
        Whether patterns run over the labels of consecutive tokens, or of consecutive segments, the runs of equal
        labels. A pattern of segments counts at the first token of its last segment, and a pair of equal labels at each
        token that continues a segment, as in :class:`~sklearn_hocrf.HighOrderCRF`, which alone has segments of tags.
    sequence_weight : array-like of shape (n_sequences,), default=None
        Weights of the sequences in the gradients: with c, these are the gradients of the sum of c_n log P(y_n).
    n_jobs : int or None, default=None
        Number of threads; results do not depend on it.

    Returns
    -------
    likelihood : named tuple
        The fields ``(log_likelihood, score_gradient, pattern_gradient)``, float64: log P(y given scores) of each
        sequence, of shape (n_sequences,); the derivatives of the (weighted) sum with respect to ``scores``, which are
        truth minus marginals, of shape (n_tokens, n_labels); and those with respect to the weights of ``patterns`` in
        their order, observed minus expected counts, 0 for forbidden ones.

    Raises
    ------
    TypeError, ValueError
        If shapes do not match, if a score is nan or inf, if a label is out of range, or if the labels of a sequence are
        forbidden.

    See Also
    --------
    predict_from_scores : The best labelling for such scores.

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
    problem = _read_patterns(scores, patterns, lengths, history, n_jobs)
    posterior, batch = problem.posterior, problem.posterior.batch
    codes = _checked_codes(y, problem)
    weight = _checked_weight(sequence_weight, len(batch))
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
        np.repeat(weight, batch.lengths)[:, None] * (truth - posterior.marginals()),
        np.where(problem.is_forbidden, 0.0, counts),
    )


def predict_from_scores(
    scores: ArrayLike,
    patterns: Mapping[tuple[int, ...], float],
    lengths: ArrayLike | None = None,
    *,
    history: str = TOKENS,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return the best labelling for scores that another program computes.

    Parameters
    ----------
    scores : array-like of shape (n_tokens, n_labels)
        As in :func:`sequence_log_likelihood`.
    patterns : mapping from tuples of int to float
        As in :func:`sequence_log_likelihood`.
    lengths : array-like of shape (n_sequences,), int, default=None
        As in :func:`sequence_log_likelihood`.
    history : {"tokens", "segments"}, default="tokens"
        As in :func:`sequence_log_likelihood`.
    n_jobs : int or None, default=None
        As in :func:`sequence_log_likelihood`.

    Returns
    -------
    labels : ndarray of shape (n_tokens,), int
        The labels of all tokens; ties go to the lowest label.

    Raises
    ------
    TypeError, ValueError
        As for :func:`sequence_log_likelihood`, and if all labellings of a sequence are forbidden.

    Examples
    --------
    >>> from sklearn_hocrf.scores import predict_from_scores
    >>> predict_from_scores(
    ...     [[0.5, 0.0], [0.0, 0.2], [1.0, 0.0]], {(0, 1): -0.6, (0, 0, 0): -1.0}
    ... )
    array([1, 1, 0], dtype=int32)
    """
    return _read_patterns(scores, patterns, lengths, history, n_jobs).posterior.decode()


class _Scored(NamedTuple):
    """Scores of labels as a batch, whose dense features they are.   N tokens, L labels, P patterns."""

    posterior: ChainPosterior
    bias_id: np.ndarray  # (P,)   where the weight of each pattern is; arbitrary for forbidden ones
    is_forbidden: np.ndarray  # (P,) bool


def _read_patterns(scores, patterns, lengths, history, n_jobs) -> _Scored:
    if history not in HISTORIES:
        raise ValueError(f"history must be one of {HISTORIES}, got {history!r:.60}")
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 1:
        raise ValueError(f"scores must have the shape (n_tokens, n_labels), got {table.shape}")
    if not (table < np.inf).all():
        token, label = np.argwhere(~(table < np.inf))[0].tolist()
        raise ValueError(f"scores must be finite or -inf, got {table[token, label]} for label {label} at token {token}")
    n_tokens, n_labels = table.shape
    keys, weights = _checked_patterns(patterns, n_labels, history)
    is_forbidden = weights == -np.inf
    layout = _layout(tuple(keys), tuple(is_forbidden.tolist()), n_labels, history)
    row_of = {pattern: row for row, pattern in enumerate(layout.patterns.tuples())}
    bias_id = layout.first_bias + np.array([row_of.get(key, 0) for key in keys], dtype=np.int64)
    vector = np.zeros(layout.n_weights)
    vector[:n_labels] = 1.0  # the weight of the label's own score
    np.add.at(vector, bias_id[~is_forbidden], weights[~is_forbidden])
    allowed = table > -np.inf
    mask = None if allowed.all() else Mask(allowed, np.zeros(n_tokens, np.int8))
    values = DenseColumns(np.arange(n_labels, dtype=np.int32), np.where(allowed, table, 0.0))
    offsets = offsets_of(_checked_lengths(lengths, n_tokens))
    nothing = np.zeros(n_tokens + 1, np.int64), np.zeros(0, np.int32)
    batch = SequenceBatch(offsets, *nothing, None, n_labels, dense=values)
    return _Scored(ChainModel(layout, vector).given(batch, mask, n_jobs), bias_id, is_forbidden)


@lru_cache(maxsize=8)  # training asks again with other weights of the same patterns
def _layout(keys: tuple, is_forbidden: tuple, n_labels: int, history: str) -> WeightLayout:
    """Return the layout of a weight for each label's score, and for each pattern."""
    pairs = list(zip(keys, is_forbidden, strict=True))
    table = given_patterns([key for key, forbidden in pairs if not forbidden], n_labels, history)
    labels = np.arange(n_labels)
    features = FeatureMap.of_tokens(labels)
    forbidden = [key for key, is_one in pairs if is_one]
    return WeightLayout(table, features, labels, labels, np.arange(len(table.lengths)), forbidden=forbidden)


def _checked_patterns(patterns: Any, n_labels: int, history: str) -> tuple[list[tuple[int, ...]], np.ndarray]:
    if not isinstance(patterns, Mapping):
        raise TypeError(f"patterns must be a mapping from tuples of labels to weights, got {type(patterns).__name__}")
    keys = []
    for pattern, weight in patterns.items():
        is_pattern = isinstance(pattern, tuple) and len(pattern) and all(map(is_integer, pattern))
        if not is_pattern or not all(0 <= label < n_labels for label in pattern):
            raise ValueError(f"patterns: {pattern!r:.80} is not a tuple of labels from 0 to {n_labels - 1}")
        if history == SEGMENTS and has_equal_neighbours(pattern):
            raise ValueError(f"patterns: {pattern!r:.80} has equal neighbours, which segments have not")
        if not is_number(weight) or not (abs(weight) < np.inf or (weight == -np.inf and len(pattern) > 1)):
            raise ValueError(
                f"patterns: the weight of {pattern!r:.80} must be a finite number, or -inf for two or more labels, got "
                f"{weight!r:.80}"
            )
        keys.append(tuple(map(int, pattern)))
    return keys, np.array(list(patterns.values()), dtype=np.float64)


def _checked_lengths(lengths, n_tokens) -> np.ndarray:
    if lengths is None:
        return np.array([n_tokens])
    given = np.asarray(lengths)
    good = given.ndim == 1 and (given.dtype.kind in "iu" or not given.size) and (given >= 0).all()
    if not good or given.sum() != n_tokens:
        raise ValueError(f"lengths must be numbers of tokens that sum to {n_tokens}, the rows of scores")
    return given.astype(np.int64)


def _checked_codes(y, problem) -> np.ndarray:
    """Return the labels of all tokens."""
    codes, n_labels = np.asarray(y), problem.posterior.model.layout.automaton.n_labels
    if codes.shape != (problem.posterior.batch.n_tokens,) or (codes.size and codes.dtype.kind not in "iu"):
        raise ValueError(f"y must be {problem.posterior.batch.n_tokens} integers, one for each row of scores")
    wrong = np.flatnonzero((codes < 0) | (codes >= n_labels))
    if len(wrong):
        raise ValueError(f"y has the label {codes[wrong[0]]} at token {wrong[0]}, but labels are 0 to {n_labels - 1}")
    return codes.astype(np.int32)


def _refuse_impossible(score, codes, posterior) -> None:
    """Raise a ValueError if labels are forbidden by patterns, which ``score`` shows, or by a score of -inf."""
    impossible = score == -np.inf
    if posterior.mask is not None:
        tokens = np.flatnonzero(~posterior.mask.allowed[np.arange(len(codes)), codes])
        impossible[np.searchsorted(posterior.batch.offsets, tokens, side="right") - 1] = True
    if impossible.any():
        sequence = int(np.argmax(impossible))
        raise ValueError(f"sequence {sequence}: its labels y are forbidden by patterns or by a score of -inf")


def _checked_weight(weight, n_sequences) -> np.ndarray:
    if weight is None:
        return np.ones(n_sequences)
    given = np.asarray(weight, dtype=np.float64)
    if given.shape != (n_sequences,) or not np.isfinite(given).all():
        raise ValueError(f"sequence_weight must be {n_sequences} finite numbers, one for each sequence")
    return given
