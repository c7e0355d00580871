"""Conformal sets of labellings, labels and segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from .._data.batch import SequenceBatch
from .._data.schemes import hold_segments
from .._estimator.fitted_model import FittedModel
from .._persistence import VersionMixin
from .._validation import warn_user
from .._validation._delegation import MethodsOfModel
from .._validation._sklearn import HasMethods, Interval, StrOptions, fit_context
from ..metrics import extract_segments
from ._temperature import check_labeler, refuse_no_probabilities

__all__ = ["ConformalSequenceLabeler", "Coverage", "LabellingSet"]

_TIES = 1e-9  # probabilities that differ by less are equal: they are computed in several ways
_FIRST = 4  # labellings asked for at first
_LOWEST = 1e-6  # probability of a segment; others are as good as impossible


class LabellingSet(NamedTuple):
    """A set of labellings of one sequence, the most probable first.

    See :meth:`ConformalSequenceLabeler.predict_set`.
    """

    labellings: list  # each as returned by ``predict``
    probabilities: list[float]
    complete: bool  # False if ``max_size`` cut the set


class Coverage(NamedTuple):
    """How often sets contain the truth, and how large they are, on average over sequences.

    See :meth:`ConformalSequenceLabeler.coverage`.
    """

    coverage: float  # the expected value is at least 1 - alpha if all sets are complete
    shown: float  # the same, where a set that ``max_size`` cut contains only what it shows
    size: float  # labellings of a sequence, labels of a token (mean of a sequence), or segments of a sequence
    complete: float  # share of complete sets


class ConformalSequenceLabeler(VersionMixin, MethodsOfModel, MetaEstimatorMixin, BaseEstimator):
    """Predict sets that contain the truth with a given probability, whatever the model.

    Split conformal prediction [1]_: the sequences passed to :meth:`fit`, which the model has not seen in training, give
    a threshold such that for a new sequence the sets of :meth:`predict_set` miss the truth with probability at most
    ``alpha``. This holds for any model and any number of sequences, if these and the new sequence are exchangeable, for
    example drawn independently from one source. It holds on average over sequences, not for each kind of sequence, and
    not where the data change. Better models have smaller sets.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, Pipeline, search, CalibratedSequenceLabeler or FrozenEstimator
        A *fitted* model with probabilities, which is not fitted again. ``clone`` copies it unfitted, unless it is in a
        :class:`~sklearn.frozen.FrozenEstimator`.
    alpha : float, default=0.1
        Highest probability of a miss, or the highest expected share of misses, in (0, 1).
    level : {"sequence", "token", "segment"}, default="sequence"
        What the sets contain: whole labellings, labels of each token, or segments. Of segments, the expected share of
        the true segments of a sequence that are missing is at most ``alpha`` (0 for a sequence without segments).
    conformity : {"probability", "mass"}, default="probability"
        For ``level="sequence"``: include all labellings of at least some probability, or the most probable ones up to
        some total probability. "mass" adapts more: difficult sequences get larger sets and easy ones smaller sets.
    control : {"all", "mean"}, default="all"
        For ``level="token"``: with "all", the sets contain the true labels of *all* tokens of a sequence with
        probability 1 - ``alpha``. With "mean", the expected share of tokens of a sequence whose set misses the true
        label is at most ``alpha``: conformal risk control [2]_.
    max_size : int, default=100
        For ``level="sequence"``: maximum number of labellings of a set. Sets that would be larger are cut and marked as
        not complete; the guarantee holds for complete sets.

    Attributes
    ----------
    threshold_ : float
        The sets contain everything whose nonconformity does not exceed it: 1 - probability, or for "mass" the total
        probability of what is more probable.
    n_sequences_ : int
        The number of sequences that it was determined from.
    estimator_ : estimator
        The fitted estimator, which all other methods call.
    classes_ : ndarray of shape (n_classes,)
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
    n_features_in_ : int
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
        Only if the estimator has them.

    Raises
    ------
    ValueError
        By ``fit``: if there are fewer than 1 / ``alpha`` - 1 sequences, if labels have holes, if the model has no
        probabilities, or, for segments, if too many true segments have probability 0.
    sklearn.exceptions.NotFittedError
        By ``fit``: if the estimator is not fitted.

    Warns
    -----
    UserWarning
        By ``fit``: if the sets contain everything, because the truth has probability 0 too often.

    See Also
    --------
    CalibratedSequenceLabeler : Make probabilities match how often predictions are right.
    sklearn_hocrf.metrics.calibration_table : How often segments of a given probability are right.

    Notes
    -----
    The unit is always the sequence, because the tokens of a sequence depend on each other. Let s_1, ..., s_n be the
    nonconformities of the truths; of several tokens or segments of a sequence each has its share l of the loss. The
    threshold is the smallest one for which (sum of the losses + 1) / (n + 1) is at most ``alpha`` ([2]_, eq. 4). For
    losses of 0 and 1 this is the ceil((n + 1)(1 - alpha))-th smallest of the nonconformities, the quantile of split
    conformal prediction. Ties count as included.

    Where the model has learned constraints or lists of patterns, labellings that it forbids have probability 0: a truth
    among them is in no set, and counts as a miss.

    References
    ----------
    .. [1] Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", Springer 2005, section 2.2; for
       labellings as sets: Angelopoulos and Bates, "Conformal prediction: a gentle introduction", 2023.
    .. [2] Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk control", ICLR 2024.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.calibration import ConformalSequenceLabeler
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> X, X_test, y, y_test = make_digit_words(random_state=0)
    >>> crf = HighOrderCRF().fit(X[:50], y[:50])
    >>> conformal = ConformalSequenceLabeler(
    ...     crf, alpha=0.2, level="token", control="mean"
    ... ).fit(X[50:], y[50:])
    >>> conformal.predict_set(X_test)[0]
    [[0], [5], [8, 9], [0, 6], [5], [1]]
    >>> coverage, _, size, _ = conformal.coverage(X_test, y_test)
    >>> round(coverage, 2), round(size, 1)
    (0.79, 1.5)
    """

    __module__ = "sklearn_hocrf.calibration"  # where users import it from: files of models name this place
    _answering = "estimator_"
    _parameter_constraints: dict = {
        "estimator": [HasMethods("fit")],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "level": [StrOptions({"sequence", "token", "segment"})],
        "conformity": [StrOptions({"probability", "mass"})],
        "control": [StrOptions({"all", "mean"})],
        "max_size": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float = 0.1,
        level: str = "sequence",
        conformity: str = "probability",
        control: str = "all",
        max_size: int = 100,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.level = level
        self.conformity = conformity
        self.control = control
        self.max_size = max_size

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Determine the threshold from labelled sequences that the model has not seen.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
        y : list of label sequences, or array-like
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
            For a pipeline, the input of its first step. Labels must not have holes.

        Returns
        -------
        self : object
        """
        check_labeler(self.estimator)
        fitted, X = FittedModel.and_input(self.estimator, X)
        refuse_no_probabilities(fitted.estimator)
        misses = self._misses(fitted, X, y)
        threshold = _threshold(misses, self.alpha)
        lowest = _LOWEST if self.level == "segment" else _TIES
        if threshold > 1 - lowest:
            self._tell_of_everything(misses, lowest)
        self.__dict__.update(estimator_=self.estimator, threshold_=threshold, n_sequences_=misses.n_sequences)
        return self

    def _tell_of_everything(self, misses, lowest):
        n_impossible = len(np.unique(misses.sequence[misses.score > 1 - lowest]))
        reason = (
            f"the truth of {n_impossible} of {misses.n_sequences} sequences has probability 0 or nearly 0, too many "
            f"for alpha={self.alpha}"
        )
        if self.level == "segment":
            raise ValueError(f"sets would contain all possible segments: {reason}")
        warn_user(f"sets contain everything, up to max_size: {reason}")

    def predict_set(self, X: Any) -> list:
        """Return the set of each sequence.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.predict`.

        Returns
        -------
        sets : list
            For ``level="sequence"``, a :class:`LabellingSet` for each sequence: named tuples ``(labellings,
            probabilities, complete)``. They may be empty.

            For ``level="token"``, a list for each token of each sequence: its labels, the most probable first.

            For ``level="segment"``, structured arrays as returned by
            :meth:`~sklearn_hocrf.HighOrderCRF.predict_segments` with a threshold.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> from sklearn_hocrf.calibration import ConformalSequenceLabeler
        >>> X, y = (
        ...     [[["a"], ["b"]], [["b"], ["a"]]] * 5,
        ...     [["x", "y"], ["y", "x"]] * 4 + [["x", "x"], ["y", "y"]],
        ... )
        >>> crf = HighOrderCRF().fit(X, y)
        >>> ConformalSequenceLabeler(crf, level="token").fit(X, y).predict_set(X[:1])
        [[['x', 'y'], ['y', 'x']]]
        """
        check_is_fitted(self)
        fitted, X = FittedModel.and_input(self.estimator_, X)
        return self._sets(fitted, X)

    def coverage(self, X: Any, y: Any) -> Coverage:
        """Return how often the sets contain the truth, and how large they are.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`fit`.
        y : list of label sequences, or array-like
            As in :meth:`fit`.
            Other sequences than those of fit.

        Returns
        -------
        coverage : Coverage
            Named tuple ``(coverage, shown, size, complete)``: the mean share of the truth that is in the sets, the same
            with nothing counted that ``max_size`` cut off, the mean size, and the share of complete sets.
        """
        check_is_fitted(self)
        fitted, X = FittedModel.and_input(self.estimator_, X)
        misses, sets = self._misses(fitted, X, y), self._sets(fitted, X)
        covered = shown = 1 - misses.losses(self.threshold_)
        complete = np.ones(len(sets), dtype=bool)
        sizes: list[float]
        if misses.probability is not None:
            complete = np.array([one.complete for one in sets], dtype=bool)
            last = np.array([min(one.probabilities, default=1.0) for one in sets])
            shown = np.where(complete | (misses.probability > last - _TIES), covered, 0.0)
            sizes = [len(one.labellings) for one in sets]
        elif self.level == "token":
            sizes = [sum(map(len, one)) / len(one) for one in sets if one]
        else:
            sizes = [len(one) for one in sets]
        return Coverage(
            *(float(np.mean(values)) if len(values) else 1.0 for values in (covered, shown, sizes, complete))
        )

    # --- nonconformities ----------------------------------------------------------------------------------------------

    def _misses(self, fitted: FittedModel, X: Any, y: Any) -> _Misses:
        """Return the nonconformities of the truth."""
        labelled = fitted.read_labelled(X, y, unknown="ignore")
        if labelled.truth is None:
            raise ValueError("y has holes: conformal sets need sequences whose labels are all known")
        if self.level == "segment":
            return _misses_of_segments(fitted, labelled.batch, y)
        if self.level == "token":
            return _misses_of_tokens(fitted, labelled, self.control)
        probability = np.exp(labelled.log_likelihood(fitted.model(), fitted.n_jobs))
        score = 1 - probability
        if self.conformity == "mass":
            score = _mass_before(fitted, labelled.batch, probability, self.max_size)
        return _Misses(np.arange(len(score)), score, np.ones(len(score)), len(score), probability)

    def _sets(self, fitted: FittedModel, X: Any) -> list:
        if self.level == "segment":
            lowest = max(0.0, 1 - self.threshold_ - _TIES)
            return fitted.estimator.predict_segments(X, threshold=lowest)
        batch, _ = fitted.read(X)
        if self.level == "token":
            classes = fitted.estimator.classes_.tolist()
            marginals = fitted.estimator.predict_marginals(batch)
            return [[_labels_of(row, classes, self.threshold_) for row in table] for table in marginals]
        return self._labelling_sets(fitted, batch)

    def _labelling_sets(self, fitted, batch) -> list[LabellingSet]:
        sets: list[Any] = [None] * len(batch)
        is_included = _of_mass if self.conformity == "mass" else _of_probability

        def is_enough(sequence, candidates, probabilities, is_last):
            count = is_included(probabilities, self.threshold_)
            is_whole, size = count < len(probabilities) or is_last, min(count, self.max_size)
            chosen = [candidate.labels for candidate in candidates[:size]]
            sets[sequence] = LabellingSet(chosen, probabilities[:size].tolist(), is_whole and size == count)
            return is_whole

        _enumerate(fitted, batch, np.arange(len(batch)), self.max_size, is_enough)
        return sets


class _Misses(NamedTuple):
    """Nonconformities of the parts of the truth, and what it costs to miss them.   P parts, n sequences."""

    sequence: np.ndarray  # (P,)   number of the sequence of each part
    score: np.ndarray  # (P,)   nonconformity, in [0, 1]
    share: np.ndarray  # (P,)   loss of a sequence if the part is missed
    n_sequences: int
    probability: np.ndarray | None = None  # (n,)   of the truth, for labellings

    def losses(self, threshold: float) -> np.ndarray:
        """Return the loss of each sequence; shape (n,)."""
        missed = np.where(self.score > threshold + _TIES, self.share, 0.0)
        return np.bincount(self.sequence, missed, self.n_sequences)


def _threshold(misses: _Misses, alpha: float) -> float:
    """Return the smallest threshold at which (sum of losses + 1) / (n + 1) is at most alpha (risk control, eq. 4)."""
    n = misses.n_sequences
    allowed = alpha * (n + 1) - 1 + _TIES
    if allowed < 0:
        raise ValueError(f"alpha={alpha} needs at least {int(np.ceil(1 / alpha - 1 - _TIES))} sequences, got {n}")
    order = np.argsort(-misses.score, kind="stable")
    score, missed = misses.score[order], np.cumsum(misses.share[order])
    # at the threshold score[k], what comes before k is missed; of equal scores, all or nothing
    kept = np.flatnonzero(missed > allowed)
    return float(score[kept[0]]) if len(kept) else 0.0


def _misses_of_tokens(fitted, labelled, control) -> _Misses:
    codes = fitted.token_codes(labelled.truth)
    tables = fitted.estimator.predict_marginals(labelled.batch)
    marginals = np.concatenate([np.zeros((0, len(fitted.estimator.classes_))), *tables])
    true = np.where(codes < 0, 0.0, marginals[np.arange(len(codes)), codes])
    lengths = labelled.batch.lengths
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    if control == "mean":
        return _Misses(sequence, 1 - true, 1 / lengths[sequence], len(lengths))
    worst = np.zeros(len(lengths))
    np.maximum.at(worst, sequence, 1 - true)
    return _Misses(np.arange(len(lengths)), worst, np.ones(len(lengths)), len(lengths))


def _misses_of_segments(fitted, batch, y) -> _Misses:
    true = [list(segments) for segments in y] if hold_segments(y) else extract_segments(y, scheme=fitted.scheme)
    marginals = fitted.estimator.predict_segments(batch, threshold=_LOWEST)
    sequence, score, share = [], [], []
    for number, (segments, found) in enumerate(zip(true, marginals, strict=True)):
        probability = {(start, stop, label): p for start, stop, label, p in found.tolist()}
        score += [1 - probability.get(tuple(segment), 0.0) for segment in segments]
        share += [1 / len(segments) for _ in segments]
        sequence += [number] * len(segments)
    return _Misses(np.array(sequence, dtype=np.int64), np.array(score), np.array(share), len(batch))


# --- sets of labellings -----------------------------------------------------------------------------------------------


def _labels_of(marginals, classes, threshold) -> list:
    """Return the labels of a token whose nonconformity does not exceed the threshold, the most probable first."""
    order = np.argsort(-marginals, kind="stable")
    return [classes[k] for k in order.tolist() if 1 - marginals[k] <= threshold + _TIES]


def _of_probability(probabilities, threshold) -> int:
    """Return how many of the best labellings have at least the probability 1 - threshold."""
    return int((1 - probabilities <= threshold + _TIES).sum())


def _of_mass(probabilities, threshold) -> int:
    """Return how many of the best labellings have at most the probability ``threshold`` before them."""
    return int((_masses(probabilities) <= threshold + _TIES).sum())


def _masses(probabilities) -> np.ndarray:
    """Return the total probability of what is more probable than each of the best labellings; ties share it."""
    before = np.concatenate([[0.0], np.cumsum(probabilities)])
    return before[np.searchsorted(-probabilities, -probabilities - _TIES, side="left")]


def _mass_before(fitted, batch, probability, max_size) -> np.ndarray:
    """Return the total probability of the labellings before the true ones.

    Where the true one is not among the ``max_size`` best ones, this is its upper bound 1 - p, so that the threshold
    cannot be too low.
    """
    mass = 1 - probability

    def is_enough(sequence, candidates, probabilities, is_last):
        better = probabilities > probability[sequence] + _TIES
        if better.all() and not is_last:
            return False
        mass[sequence] = min(probabilities[better].sum(), mass[sequence])
        return True

    _enumerate(fitted, batch, np.flatnonzero(probability > 0), max_size, is_enough)
    return mass


def _enumerate(
    fitted: FittedModel, batch: SequenceBatch, numbers: np.ndarray, max_size: int, is_enough: Callable[..., bool]
) -> None:
    """Call ``is_enough(sequence, candidates, probabilities, is_last)`` with more and more of the best labellings.

    The last call has ``max_size`` + 1 of them, which shows whether a set of ``max_size`` is complete.
    """
    for asked in _sizes(max_size):
        left = []
        found = fitted.estimator.predict_nbest(batch[numbers], asked)
        for number, candidates in zip(numbers.tolist(), found, strict=True):
            probabilities = np.exp([candidate.log_probability for candidate in candidates])
            if not is_enough(number, candidates, probabilities, len(candidates) < asked):
                left.append(number)
        numbers = np.array(left, dtype=np.int64)
        if not left:
            break


def _sizes(max_size) -> Iterator[int]:
    """Yield the numbers of labellings to ask for."""
    size = _FIRST
    while size <= max_size:
        yield size
        size *= 4
    yield max_size + 1
