"""The approximate randomisation test for two systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import permutation_test
from sklearn.utils import check_random_state

from .._data.checks import check, is_integer
from .._reading.label_sequences import LabelSequences, hold_any_segments
from ._items import Items, items_of_segments, items_of_tokens
from ._scores import segment_f1_score, sequence_accuracy_score, token_accuracy_score

SWAPS_AT_A_TIME = 1 << 22  # swaps drawn at a time, which bounds memory
OPTIONS = {"token_accuracy_score": "", "sequence_accuracy_score": "", "segment_f1_score": "scheme, strict, labels"}
RELATIVE_ROUNDING = 1e-12  # relative; rounding must not make equal differences unequal


class RandomizationTest(NamedTuple):
    """The result of :func:`randomization_test`: two scores, their difference and its p value."""

    score_a: float  # metric of the first system
    score_b: float  # metric of the second system
    difference: float  # score_a - score_b
    p_value: float  # probability of at least this absolute difference by chance


def randomization_test(
    y_true: LabelSequences,
    y_pred_a: LabelSequences,
    y_pred_b: LabelSequences,
    metric: Callable[..., float],
    *,
    n_resamples: int = 999,
    random_state: int | np.random.RandomState | None = None,
    **metric_params: Any,
) -> RandomizationTest:
    """Test whether the scores of two systems differ, by swapping their outputs at random.

    If both systems were equally accurate, their outputs could be exchanged. Each resample swaps the two outputs for
    every sequence with probability 1/2. Let n_c be the number of resamples in which the absolute difference of the
    metric is at least the observed difference. The p value is (n_c + 1) / (n_resamples + 1) [1]_ [2]_. If there are so
    few sequences that there are at most ``n_resamples`` ways to swap their outputs, each way is used once, and the p
    value is exact. The function calls :func:`scipy.stats.permutation_test` for the absolute difference.

    Parameters
    ----------
    y_true : list of sequences
        True labels or segments, in any form that the metric accepts.
    y_pred_a, y_pred_b : list of sequences
        Predictions of the two systems for the same sequences.
    metric : {token_accuracy_score, sequence_accuracy_score, segment_f1_score}
        One of these functions of :mod:`sklearn_hocrf.metrics`; ``segment_f1_score`` computes the micro average.
    n_resamples : int, default=999
        Number of resamples; 1 / (n_resamples + 1) is the smallest possible p value.
    random_state : int, RandomState instance or None, default=None
        Determines the swaps. They do not depend on the metric.
    **metric_params
        Parameters of ``segment_f1_score``: ``scheme``, ``strict`` and ``labels``.

    Returns
    -------
    result : RandomizationTest
        Named tuple of ``score_a``, ``score_b``, ``difference`` (a minus b) and ``p_value``.

    Raises
    ------
    TypeError
        If ``metric`` is another function, or if ``metric_params`` contains a parameter that is not supported for it.
    ValueError
        If lengths differ, or if there are no sequences.

    References
    ----------
    .. [1] Noreen, "Computer-intensive methods for testing hypotheses", Wiley 1989.
    .. [2] Cuong, Ye, Lee and Chieu, "Conditional random field with high-order dependencies for sequence labeling and
       segmentation", JMLR 15, 2014, section 3.2.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import randomization_test, token_accuracy_score
    >>> y_true = [["A", "B"]] * 20
    >>> y_pred_a, y_pred_b = [["A", "B"]] * 20, [["A", "B"]] * 12 + [["A", "A"]] * 8
    >>> result = randomization_test(
    ...     y_true, y_pred_a, y_pred_b, token_accuracy_score, random_state=0
    ... )
    >>> result.score_a, result.score_b, round(result.p_value, 3)
    (1.0, 0.8, 0.01)
    """
    check(is_integer(n_resamples) and n_resamples >= 1, "n_resamples", "an integer of at least 1", n_resamples)
    if not any(metric is one for one in (token_accuracy_score, sequence_accuracy_score, segment_f1_score)):
        raise TypeError(f"metric must be one of the functions {', '.join(OPTIONS)} of metrics, got {metric!r:.60}")
    taken = OPTIONS[metric.__name__]
    for name in metric_params:
        if name not in taken.split(", "):
            raise TypeError(f"{name} is no option of {metric.__name__} here; its options are: {taken or 'none'}")
    by_name = {"y_true": y_true, "y_pred_a": y_pred_a, "y_pred_b": y_pred_b}
    n_sequences, score = _sums(by_name, metric, metric_params)
    if n_sequences == 0:
        raise ValueError("there are no sequences, so there is nothing to test")
    systems = np.zeros(n_sequences), np.ones(n_sequences)
    score_a, score_b = (float(score(system)) for system in systems)
    observed, tolerance = abs(score_a - score_b), RELATIVE_ROUNDING * max(abs(score_a), abs(score_b))

    def difference(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        """Return the smaller of this absolute difference and the observed one, ignoring rounding errors."""
        distance = np.abs(score(one) - score(other))
        return np.where(distance < observed - tolerance, distance, observed)

    p_value = 1.0  # for one sequence, which scipy rejects
    if n_sequences > 1:
        options: dict[str, Any] = {"permutation_type": "samples", "alternative": "greater", "axis": -1}
        options |= {"n_resamples": n_resamples, "batch": max(1, SWAPS_AT_A_TIME // n_sequences)}
        with np.errstate(over="ignore"):  # scipy 1.13 computes 2.0**n_sequences
            result = permutation_test(systems, difference, random_state=check_random_state(random_state), **options)
        p_value = float(result.pvalue)
    return RandomizationTest(score_a, score_b, score_a - score_b, p_value)


def _sums(by_name: dict[str, LabelSequences], metric: Callable, metric_params: dict[str, Any]) -> tuple[int, Callable]:
    """Return the number of sequences, and a function that scores a choice of system 0 or 1 for each sequence.

    All metrics are ratios of sums over sequences.
    """
    if metric is segment_f1_score or (metric is sequence_accuracy_score and hold_any_segments(**by_name)):
        systems = items_of_segments(by_name, **metric_params)
    else:
        systems = items_of_tokens(**by_name)
    a, b = (_counts(items, metric) for items in systems)

    def score(choice: np.ndarray) -> np.ndarray:
        above, below = np.moveaxis(a.sum(axis=0) + choice @ (b - a), -1, 0)
        return np.divide(above, below, out=np.zeros_like(below), where=below > 0)

    return len(a), score


def _counts(items: Items, metric: Callable) -> np.ndarray:
    """Return each sequence's contributions to the numerator and denominator of a score; shape (n_sequences, 2)."""
    if metric is sequence_accuracy_score:
        return np.column_stack([items.right_sequences, np.ones(items.n_sequences)])
    counts = 2 * (items.true == items.predicted), (items.true >= 0) + 1 * (items.predicted >= 0)
    return np.column_stack([np.bincount(items.sequence, count, items.n_sequences) for count in counts])
