"""Conformal sets of labels and segments."""

from __future__ import annotations

from collections.abc import Sized
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from .._data.checks import short
from .._data.messages import warn_user
from .._estimator.answers.fitted import FittedModel
from .._reading.label_sequences import read_segmentations
from .._sklearn.layers import MethodsOfModel
from .._sklearn.names import HasMethods, Interval, StrOptions, fit_context
from .._sklearn.versions import VersionMixin
from ._temperature import check_labeler

_TIES = 1e-9  # probabilities that differ by less count as equal: they are computed in several ways
_LOWEST = 1e-6  # probability of a segment; less probable segments count as impossible


class Coverage(NamedTuple):
    """The frequency with which sets contain the true labels or segments, and the mean size of the sets.

    See :meth:`ConformalSequenceLabeler.coverage`.
    """

    coverage: float  # the expected value is at least 1 - alpha
    size: float  # labels per token (mean over a sequence), or segments per sequence


class ConformalSequenceLabeler(VersionMixin, MethodsOfModel, MetaEstimatorMixin, BaseEstimator):
    """Predict sets of labels or segments, with a bound that you choose on how often true ones are missing.

    With split conformal prediction [1]_, :meth:`fit` computes a threshold from sequences on which the model was not
    trained. For a new sequence, the probability that a true label is not in its set of :meth:`predict_set`, or the
    expected share of true segments that are not in the set, is then at most ``alpha``. This guarantee holds for any
    model and any number of sequences, if these and the new sequence are exchangeable, for example drawn independently
    from one source. It holds on average over sequences and, with `strata`, on average over each kind of sequence or
    segment, but not if new data come from another source. More accurate models yield smaller sets.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, Pipeline, search, CalibratedSequenceLabeler or FrozenEstimator
        A *fitted* model, which is not fitted again. A ``clone`` of it is unfitted, unless it is in a
        :class:`~sklearn.frozen.FrozenEstimator`.
    alpha : float, default=0.1
        The highest probability of a miss, or the highest expected share of misses, in (0, 1).
    level : {"token", "segment"}, default="token"
        The elements of the sets. With "token", each token gets a set of labels, and the sets contain the true labels of
        *all* tokens of a sequence with a probability of at least 1 - ``alpha``. With "segment", each sequence gets a
        set of segments, and the expected share of the true segments of a sequence that are missing is at most ``alpha``
        (the share is 0 for a sequence without segments). This is conformal risk control [2]_.

    strata : callable, "label" or None, default=None
        Kinds of sequences or labels with separate thresholds, so that the guarantee holds for each of them. With
        ``level="token"``, pass a function that takes a sequence of X and returns its kind, such as
        ``lambda tokens: len(tokens) > 20``. With ``level="segment"``, pass "label": for each label, the expected share
        of the true segments that are missing is at most ``alpha``, over sequences that contain the label. Kinds with
        fewer than 2 / ``alpha`` sequences in ``fit`` share one threshold with kinds that do not occur in ``fit``; if
        even all these sequences together are too few for ``alpha``, these kinds get the threshold that applies without
        `strata`.

    Attributes
    ----------
    threshold_ : float
        The sets contain every label or segment whose nonconformity, 1 - probability, does not exceed this threshold.
        With `strata`, the threshold applies to the kinds that are not in ``thresholds_``.
    thresholds_ : dict
        The thresholds of the kinds that have separate ones.
    n_sequences_ : int
        Number of sequences passed to `fit`.
    estimator_ : estimator
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
    n_features_in_ : int
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        As in :class:`~sklearn_hocrf.HighOrderCRF`. This attribute exists only if the estimator has it.

    Raises
    ------
    ValueError
        By ``fit``: if there are fewer than 1 / ``alpha`` - 1 sequences, if labels are missing, or,
        for segments, if too many true segments have probability 0.
    sklearn.exceptions.NotFittedError
        By ``fit``: if the estimator is not fitted.

    Warns
    -----
    UserWarning
        By ``fit``: if the sets contain all labels, because the truth has probability 0 too often.

    See Also
    --------
    CalibratedSequenceLabeler : Make probabilities match how often predictions are correct.
    sklearn_hocrf.metrics.segment_outcomes : Mark segments as correct or wrong, with their probabilities.

    Notes
    -----
    The unit of the guarantee is always the sequence, because the tokens of a sequence depend on each other. Let s_1,
    ..., s_n be the nonconformities of the true labels: for tokens, the largest one of each sequence; for segments, all
    of them, each with its share of the loss. The threshold is the smallest one for which
    ``(sum of the losses + 1) / (n + 1)`` is at most ``alpha`` ([2]_, eq. 4). For losses of 0 and 1, this is the
    ``ceil((n + 1)(1 - alpha))``-th smallest of the nonconformities, the quantile of split conformal prediction. Labels
    and segments at the threshold are included.

    Labellings that the model's constraints forbid have probability 0: if the true labelling is among them, no set
    contains it, and it counts as a miss.

    References
    ----------
    .. [1] Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", Springer 2005, section 2.2.
    .. [2] Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk control", ICLR 2024.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.model_selection import ConformalSequenceLabeler
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> X, y = make_digit_words(200, random_state=0)
    >>> X_new, y_new = make_digit_words(random_state=1)
    >>> crf = HighOrderCRF().fit(X, y)
    >>> conformal = ConformalSequenceLabeler(crf, alpha=0.2).fit(X_new[:200], y_new[:200])
    >>> conformal.predict_set(X_new[200:])[0]
    [[9, 0], [2], [6], [7], [5], [5], [3], [0, 9], [3, 7, 9]]
    >>> coverage, size = conformal.coverage(X_new[200:], y_new[200:])
    >>> round(coverage, 2), round(size, 1)
    (0.83, 2.1)

    Use separate thresholds for long and short words:

    >>> conformal = ConformalSequenceLabeler(
    ...     crf, alpha=0.2, strata=lambda word: len(word) > 8
    ... )
    >>> conformal = conformal.fit(X_new[:200], y_new[:200])
    >>> {kind: round(threshold, 2) for kind, threshold in conformal.thresholds_.items()}
    {True: 0.96, False: 0.98}
    """

    __module__ = "sklearn_hocrf.model_selection"  # the public module: model files contain this name
    _answering = "estimator_"
    _parameter_constraints: dict = {
        "estimator": [HasMethods("fit")],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "level": [StrOptions({"token", "segment"})],
        "strata": [callable, StrOptions({"label"}), None],
    }

    def __init__(
        self, estimator: BaseEstimator, *, alpha: float = 0.1, level: str = "token", strata: Any = None
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.level = level
        self.strata = strata

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Sized, y: Sized) -> Self:
        """Determine the threshold from labelled sequences on which the model was not trained.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`; for a pipeline, the input of its first step.
        y : list of label sequences, or array-like
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`. No label may be missing.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError, ValueError
            If parameters or data are invalid, if ``strata`` does not match ``level``, or if the truth of too many
            sequences is impossible, so that sets would contain all possible segments.
        """
        check_labeler(self.estimator)
        if self.strata is not None and (self.strata == "label") != (self.level == "segment"):
            raise ValueError(f"strata={short(self.strata)} is not for level={self.level!r}")
        fitted, inner = FittedModel.and_input(self.estimator, X)
        misses = self._misses(fitted, inner, y, self._kinds(X))
        others, rare, thresholds = misses, set(), {}
        if self.strata is not None:
            of = {kind: misses.among({kind}) for kind in dict.fromkeys(misses.kind)}
            rare = {kind for kind, one in of.items() if one.n_sequences < 2 / self.alpha}
            thresholds = {kind: self._threshold(one, {kind}) for kind, one in of.items() if kind not in rare}
            pool = misses.among(rare)
            others, rare = (misses, set()) if pool.n_sequences < 1 / self.alpha - 1 - _TIES else (pool, rare)
        attributes = {"threshold_": self._threshold(others, rare), "thresholds_": thresholds}
        self.__dict__.update(attributes, estimator_=self.estimator, n_sequences_=misses.n_sequences)
        return self

    def _threshold(self, misses: _Misses, kinds: set) -> float:
        """Return the threshold for all sequences or for ``kinds``; warn or raise an error if it excludes nothing."""
        threshold = _threshold(misses, self.alpha)
        lowest = _LOWEST if self.level == "segment" else _TIES
        if threshold <= 1 - lowest:
            return threshold
        n_impossible = len(np.unique(misses.sequence[misses.score > 1 - lowest]))
        which = f" with {short(kinds)}" if kinds else ""
        reason = (
            f"the truth of {n_impossible} of {misses.n_sequences} sequences{which} has probability 0 or nearly 0, too "
            f"many for alpha={self.alpha}"
        )
        if self.level == "segment":
            raise ValueError(f"sets would contain all possible segments: {reason}")
        warn_user(f"sets contain all labels: {reason}")
        return threshold

    def _kinds(self, X: Any) -> list | None:
        """Return the kind of each sequence, or None if sequences have no kinds."""
        return [self.strata(tokens) for tokens in X] if callable(self.strata) else None

    def _threshold_of(self, kind: Any) -> float:
        return self.thresholds_.get(kind, self.threshold_)

    def predict_set(self, X: Sized) -> list:
        """Return the sets of labels or of segments of each sequence.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.predict`.

        Returns
        -------
        sets : list
            For ``level="token"``, a list for each sequence, with a list of labels for each token, the most probable
            first.

            For ``level="segment"``, structured arrays as returned by
            :meth:`~sklearn_hocrf.HighOrderCRF.predict_segments` with a threshold.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> from sklearn_hocrf.model_selection import ConformalSequenceLabeler
        >>> X, y = (
        ...     [[["a"], ["b"]], [["b"], ["a"]]] * 5,
        ...     [["x", "y"], ["y", "x"]] * 4 + [["x", "x"], ["y", "y"]],
        ... )
        >>> crf = HighOrderCRF().fit(X, y)
        >>> ConformalSequenceLabeler(crf).fit(X, y).predict_set(X[:1])
        [[['x', 'y'], ['y', 'x']]]
        """
        check_is_fitted(self)
        fitted, inner = FittedModel.and_input(self.estimator_, X)
        return self._sets(fitted, inner, self._kinds(X))

    def coverage(self, X: Sized, y: Sized) -> Coverage:
        """Return how often the sets contain the truth, and how large they are.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`fit`.
        y : list of label sequences, or array-like
            As in :meth:`fit`. The sequences must not be those that you passed to ``fit``.

        Returns
        -------
        coverage : Coverage
            Named tuple ``(coverage, size)``. With ``level="token"``, these are the share of sequences whose sets
            contain all true labels, and the mean number of labels per token. With ``level="segment"``, they are the
            mean share of a sequence's true segments that are in its set, and the mean number of segments per set.
        """
        check_is_fitted(self)
        kinds, (fitted, X) = self._kinds(X), FittedModel.and_input(self.estimator_, X)
        misses, sets = self._misses(fitted, X, y, kinds), self._sets(fitted, X, kinds)
        covered = 1 - misses.losses([self._threshold_of(kind) for kind in misses.kind])
        sizes: list[float] = list(map(len, sets))
        if self.level == "token":
            sizes = [sum(map(len, one)) / len(one) for one in sets if one]
        return Coverage(*(float(np.mean(values)) if len(values) else 1.0 for values in (covered, sizes)))

    # --- nonconformities ----------------------------------------------------------------------------------------------

    def _misses(self, fitted: FittedModel, X: Sized, y: Sized, kinds: list | None = None) -> _Misses:
        """Return the nonconformities of the true labels or segments."""
        labelled = fitted.read_labelled(X, y, unknown="ignore")
        if labelled.truth is None:
            raise ValueError("y has missing labels: conformal sets need sequences whose labels are all known")
        if self.level == "segment":
            return _misses_of_segments(fitted, labelled.batch, y)
        n_sequences = len(labelled.batch)
        if kinds is not None and len(kinds) != n_sequences:
            raise ValueError(f"strata needs X as a list of sequences: there are {n_sequences}, not {len(kinds)}")
        return _misses_of_tokens(fitted, labelled, kinds)

    def _sets(self, fitted: FittedModel, X: Sized, kinds: list | None) -> list:
        if self.level == "segment":
            highest = max([self.threshold_, *self.thresholds_.values()])
            candidates = fitted.estimator.predict_segments(X, threshold=max(0.0, 1 - highest - _TIES))
            return [self._within(segments) for segments in candidates] if self.thresholds_ else candidates
        batch, _ = fitted.read(X)
        classes = fitted.estimator.classes_.tolist()
        marginals = fitted.estimator.predict_marginals(batch)
        thresholds = map(self._threshold_of, [None] * len(batch) if kinds is None else kinds)
        pairs = zip(marginals, thresholds, strict=True)
        return [[_label_sets(row, classes, threshold) for row in table] for table, threshold in pairs]

    def _within(self, segments: np.ndarray) -> np.ndarray:
        """Return the segments whose nonconformity is within the threshold of their label."""
        thresholds = np.array([self._threshold_of(label) for label in segments["label"].tolist()])
        return segments[1 - segments["probability"] <= thresholds + _TIES]


class _Misses(NamedTuple):
    """Nonconformities of the true labels or segments, and the losses if they are missed. P parts, n sequences.

    A part is the labels of all tokens of a sequence, or one segment.
    """

    sequence: np.ndarray  # (P,)   index of the sequence of each part
    score: np.ndarray  # (P,)   nonconformity, in [0, 1]
    share: np.ndarray  # (P,)   loss of a sequence if the part is missed
    n_sequences: int
    kind: list  # of each part

    def losses(self, thresholds: list) -> np.ndarray:
        """Return the loss of each sequence, given a threshold for each part; shape (n,)."""
        missed = np.where(self.score > np.asarray(thresholds) + _TIES, self.share, 0.0)
        return np.bincount(self.sequence, missed, self.n_sequences)

    def among(self, kinds: set) -> _Misses:
        """Return only the parts of the given kinds; sequences without such a part are left out."""
        kept = np.array([kind in kinds for kind in self.kind], dtype=bool)
        _, sequence, counts = np.unique(self.sequence[kept], return_inverse=True, return_counts=True)
        return _Misses(sequence, self.score[kept], 1 / counts[sequence], len(counts), [])


def _threshold(misses: _Misses, alpha: float) -> float:
    """Return the smallest threshold at which (sum of losses + 1) / (n + 1) is at most alpha (risk control, eq. 4)."""
    n = misses.n_sequences
    allowed = alpha * (n + 1) - 1 + _TIES
    if allowed < 0:
        raise ValueError(f"alpha={alpha} needs at least {int(np.ceil(1 / alpha - 1 - _TIES))} sequences, got {n}")
    order = np.argsort(-misses.score, kind="stable")
    score, missed = misses.score[order], np.cumsum(misses.share[order])
    # at the threshold score[k], the parts before k are missed; of parts with equal scores, all or none
    kept = np.flatnonzero(missed > allowed)
    return float(score[kept[0]]) if len(kept) else 0.0


def _misses_of_tokens(fitted, labelled, kinds) -> _Misses:
    of_sequences = np.split(fitted.targets.token_codes(labelled.truth), labelled.batch.offsets[1:])  # the last is empty
    parts = zip(of_sequences, fitted.estimator.predict_marginals(labelled.batch), strict=False)
    right = [np.where(codes < 0, 0.0, table[np.arange(len(codes)), codes]) for codes, table in parts]
    worst, n = np.array([(1 - of_one).max(initial=0.0) for of_one in right]), len(right)
    return _Misses(np.arange(n), worst, np.ones(n), n, [None] * n if kinds is None else kinds)


def _misses_of_segments(fitted, batch, y) -> _Misses:
    true = read_segmentations({"y": y}, fitted.scheme)[0].lists()
    marginals = fitted.estimator.predict_segments(batch, threshold=_LOWEST)
    sequence, score, share, kinds = [], [], [], []
    for index, (segments, candidates) in enumerate(zip(true, marginals, strict=True)):
        probability = {(start, stop, label): p for start, stop, label, p in candidates.tolist()}
        score += [1 - probability.get(tuple(segment), 0.0) for segment in segments]
        share += [1 / len(segments) for _ in segments]
        sequence += [index] * len(segments)
        kinds += [label for *_, label in segments]
    return _Misses(np.array(sequence, dtype=np.int64), np.array(score), np.array(share), len(batch), kinds)


def _label_sets(marginals, classes, threshold) -> list:
    """Return the labels of a token whose nonconformity does not exceed the threshold, the most probable first."""
    order = np.argsort(-marginals, kind="stable")
    return [classes[k] for k in order.tolist() if 1 - marginals[k] <= threshold + _TIES]
