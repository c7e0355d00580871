"""The approximate randomisation test for two systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import permutation_test
from sklearn.utils import check_random_state

from .._data.checks import check, is_integer
from .._reading.label_sequences import LabelSequences, hold_any_segments
from .._reading.labels import list_sequences
from ._items import Items, items_of_segments, items_of_tokens
from ._scores import segment_f1_score, sequence_accuracy_score, token_accuracy_score

SWAPS_AT_A_TIME = 1 << 22  # swaps drawn at a time, to bound memory
OF_SEGMENTS = {"scheme", "strict", "labels"}  # options of scores of segments with which they are such ratios
RELATIVE_ROUNDING = 1e-12  # relative; rounding must not make equal differences unequal


class RandomizationTest(NamedTuple):
    """Result of :func:`randomization_test`: the probability of a score difference by chance.

    See the example there.
    """

    score_a: float  # metric of the first system
    score_b: float  # metric of the second system
    difference: float  # score_a - score_b
    p_value: float  # of at least this absolute difference by chance


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
    metric is at least the observed difference. The p value is (n_c + 1) / (n_resamples + 1) [1]_ [2]_. If there are at
    most ``n_resamples`` ways to swap, because the sequences are few, each way counts once, and the p value is exact.
    The function calls :func:`scipy.stats.permutation_test` for the absolute difference.

    Parameters
    ----------
    y_true : list of sequences
        True labels, or segments, in any form that the metric takes.
    y_pred_a, y_pred_b : list of sequences
        Predictions of the two systems for the same sequences; for metrics of other modules, both in the same form.
    metric : callable
        ``metric(y_true, y_pred, **metric_params)`` returns a number. For the accuracies of this module and the
        micro-averaged ``segment_f1_score``, labels are read only once, and resamples are matrix products; other
        functions are called ``2 * n_resamples`` times.
    n_resamples : int, default=999
        Number of resamples; 1 / (n_resamples + 1) is the smallest possible p value.
    random_state : int, RandomState instance or None, default=None
        Determines the swaps. They do not depend on the metric.
    **metric_params
        Parameters of the metric, such as ``scheme="bio"`` or ``labels=["PER"]``.

    Returns
    -------
    result : RandomizationTest
        Named tuple of ``score_a``, ``score_b``, ``difference`` (a minus b) and ``p_value``.

    Raises
    ------
    TypeError
        If the metric lacks one of the parameters, or returns more than one number (``average=None``).
    ValueError
        If lengths differ, or if the metric is nan.

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
    if not callable(metric):
        raise TypeError(f"metric must be a function of y_true and y_pred, got {metric!r:.60}")
    options_of_sums = {token_accuracy_score: set(), sequence_accuracy_score: set(), segment_f1_score: OF_SEGMENTS}
    is_sum = metric in options_of_sums and options_of_sums[metric].issuperset(metric_params)
    by_name = {"y_true": y_true, "y_pred_a": y_pred_a, "y_pred_b": y_pred_b}
    n_sequences, score = (_sums if is_sum else _calls)(by_name, metric, metric_params)
    if n_sequences == 0:
        raise ValueError("there are no sequences, so there is nothing to test")
    systems = np.zeros(n_sequences), np.ones(n_sequences)
    score_a, score_b = (float(score(system)) for system in systems)
    if np.isnan(score_a) or np.isnan(score_b):
        raise ValueError(f"the metric is {score_a} for y_pred_a and {score_b} for y_pred_b: there is nothing to test")
    observed, tolerance = abs(score_a - score_b), RELATIVE_ROUNDING * max(abs(score_a), abs(score_b))

    def difference(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        """Return the absolute difference, or the observed one if both are equal up to rounding, or if it is nan."""
        distance = np.abs(score(one) - score(other))
        return np.where(distance < observed - tolerance, distance, observed)

    p_value = 1.0  # of one sequence, which scipy refuses
    if n_sequences > 1:
        options: dict[str, Any] = {"permutation_type": "samples", "alternative": "greater", "axis": -1}
        options |= {"n_resamples": n_resamples, "batch": max(1, SWAPS_AT_A_TIME // n_sequences)}
        with np.errstate(over="ignore"):  # scipy 1.13 computes 2.0**n_sequences
            result = permutation_test(systems, difference, random_state=check_random_state(random_state), **options)
        p_value = float(result.pvalue)
    return RandomizationTest(score_a, score_b, score_a - score_b, p_value)


def _calls(by_name: dict[str, LabelSequences], metric: Callable, metric_params: dict[str, Any]) -> tuple[int, Callable]:
    """Return the number of sequences, and a function that scores outputs of system 0 or 1 for each sequence."""
    true, *systems = (list_sequences(y, name) for name, y in by_name.items())
    for name, system in zip(("y_pred_a", "y_pred_b"), systems, strict=True):
        if len(system) != len(true):
            raise ValueError(f"y_true has {len(true)} sequences, but {name} has {len(system)}")

    def of_one(choice: np.ndarray) -> float:
        return metric(true, [systems[int(k)][n] for n, k in enumerate(choice)], **metric_params)

    return len(true), lambda choice: np.apply_along_axis(of_one, -1, choice)


def _sums(by_name: dict[str, LabelSequences], metric: Callable, metric_params: dict[str, Any]) -> tuple[int, Callable]:
    """Return the same as ``_calls`` for scores of this module that are ratios of sums over sequences."""
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
    """Return what each sequence adds to the numerator and to the denominator of a score; (n_sequences, 2)."""
    if metric is sequence_accuracy_score:
        return np.column_stack([items.right_sequences, np.ones(items.n_sequences)])
    counts = 2 * (items.true == items.predicted), (items.true >= 0) + 1 * (items.predicted >= 0)
    return np.column_stack([np.bincount(items.sequence, count, items.n_sequences) for count in counts])
