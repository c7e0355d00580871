"""The approximate randomisation test for two systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import permutation_test
from sklearn.utils import check_random_state

from .._data.checks import check, check_choice, is_integer
from .._reading.label_sequences import LabelSequences, hold_any_segments
from .._reading.labels import list_sequences
from ._items import Items, items_of_segments, items_of_tokens
from ._scores import AVERAGES, segment_f1_score, sequence_accuracy_score, token_accuracy_score

SWAPS_AT_A_TIME = 1 << 22  # swaps drawn at a time, to bound memory
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
    """Test whether two systems differ, by swapping their outputs at random.

    If both systems were equally good, their outputs could be exchanged. Each resample swaps the two outputs for every
    sequence with probability 1/2. Let n_c be the number of resamples in which the absolute difference of the metric is
    at least the observed difference. The p value is (n_c + 1) / (n_resamples + 1) [1]_ [2]_. If there are at most
    ``n_resamples`` ways to swap, because the sequences are few, each way counts once, and the p value is exact. The
    function calls :func:`scipy.stats.permutation_test` for the absolute difference.

    Parameters
    ----------
    y_true : list of sequences
        True labels, or segments, in any form that the metric takes.
    y_pred_a, y_pred_b : list of sequences
        Predictions of the two systems for the same sequences; for metrics of other modules, both in the same form.
    metric : callable
        ``metric(y_true, y_pred, **metric_params)`` returns a number. For scores of this module, labels are read only
        once and resamples are matrix products; other functions are called ``2 * n_resamples`` times.
    n_resamples : int, default=999
        Number of resamples; 1 / (n_resamples + 1) is the smallest possible p value.
    random_state : int, RandomState instance or None, default=None
        Determines the swaps. They do not depend on the metric.
    **metric_params
        Parameters of the metric, such as ``scheme="bio"`` or ``ignore=["O"]``; not ``sample_weight``.

    Returns
    -------
    result : RandomizationTest
        Named tuple of ``score_a``, ``score_b``, ``difference`` (a minus b) and ``p_value``.

    Raises
    ------
    TypeError
        If the metric lacks one of the parameters.
    ValueError
        If lengths differ, if the metric is nan, or if it returns more than one number (``average=None``).

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
    if "sample_weight" in metric_params:
        raise TypeError("randomization_test takes no sample_weight: all sequences count the same")
    if not callable(metric):
        raise TypeError(f"metric must be a function of y_true and y_pred, got {metric!r:.60}")
    is_sum = metric in (token_accuracy_score, sequence_accuracy_score, segment_f1_score)
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
    """Return the same as ``_calls`` for the scores of this module, which are functions of sums over sequences."""
    params = _bound_params(metric, metric_params)
    average, undefined = params.get("average", "micro"), params.get("zero_division", "warn")
    if average is None:
        raise ValueError("average=None returns a number for each label, but the test needs a single number")
    check_choice("average", average, AVERAGES)
    undefined = 0.0 if undefined == "warn" else segment_f1_score([], [], zero_division=undefined)
    a, b = (_counts(items, average) for items in _items(metric, params, by_name))
    total, change = a.sum(axis=0), b - a

    def score(choice: np.ndarray) -> np.ndarray:
        sums = (total + choice @ change).reshape(*choice.shape[:-1], 3, -1)
        return _f1(np.moveaxis(sums, -2, 0), average, undefined, params.get("labels") is not None)

    return a.shape[0], score


def _bound_params(metric: Callable, metric_params: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all parameters of a metric of this module."""
    allowed = {name: value for name, value in (metric.__kwdefaults__ or {}).items() if name != "sample_weight"}
    for name in metric_params:
        if name not in allowed:
            raise TypeError(f"{metric.__name__} has no parameter {name!r}; it has {', '.join(allowed)}")
    return allowed | metric_params


def _items(metric: Callable, params: dict[str, Any], by_name: dict[str, LabelSequences]) -> Iterator[Items]:
    """Yield the items of each system, whose F1 is its score."""
    if metric is segment_f1_score or (metric is sequence_accuracy_score and hold_any_segments(**by_name)):
        params = _bound_params(segment_f1_score, params)
        pairs = items_of_segments(by_name, *(params[name] for name in ("scheme", "strict", "labels", "ignore")))
    else:
        pairs = items_of_tokens(**by_name)
    for items in pairs:
        if metric is sequence_accuracy_score:  # labels are "right" or "wrong"; all true ones "right"
            right = items.right_sequences.astype(np.int64)
            items = Items(np.arange(len(right)), np.ones_like(right), right, [False, True], len(right))
        yield items


def _counts(items: Items, average: str) -> sparse.csr_array:
    """Return the correct, predicted and true items of each sequence, by label or as one; (n_sequences, 3 n_labels)."""
    codes = np.stack([np.where(items.true == items.predicted, items.true, -1), items.predicted, items.true])
    kind, item = np.nonzero(codes >= 0)
    n_labels, label = (1, 0) if average == "micro" else (max(len(items.labels), 1), codes[kind, item])
    entries = np.ones(len(item)), (items.sequence[item], kind * n_labels + label)
    return sparse.csr_array(entries, shape=(items.n_sequences, 3 * n_labels))


def _f1(sums: np.ndarray, average: str, undefined: float, all_labels: bool) -> np.ndarray:
    """Return F1 as ``segment_f1_score`` does, from correct, predicted and true items by label; (3, ..., n_labels)."""
    correct, predicted, true = sums
    below = predicted + true
    f1 = np.divide(2 * correct, below, out=np.full(below.shape, undefined), where=below > 0)
    usable = ((below > 0) | all_labels) & ~np.isnan(f1)
    weight = usable * true if average == "weighted" else usable.astype(np.float64)
    weight = np.where(weight.any(axis=-1, keepdims=True), weight, usable)  # no true items: all labels weigh the same
    total = weight.sum(axis=-1)
    above = (weight * np.where(usable, f1, 0.0)).sum(axis=-1)
    return np.divide(above, total, out=np.full(total.shape, undefined), where=total > 0)
