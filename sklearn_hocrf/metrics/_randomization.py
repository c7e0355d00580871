"""The approximate randomisation test for two systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .._data.label_sequences import (
    LabelSequences,
    code_tokens,
    hold_any_segments,
    list_sequences,
    refuse_other_number,
    scheme_of,
    sorted_union,
)
from ._counts import (
    check_average,
    check_zero_division,
    count_segments,
    count_sequences,
    count_tokens,
    ratio,
)
from ._scores import segment_f1_score, sequence_accuracy_score, token_accuracy_score

__all__ = ["RandomizationTest", "randomization_test"]

# metric -> the function that counts its items, and the ratio of the counts
COUNTED: dict[Callable, tuple[Callable, str]] = {
    token_accuracy_score: (count_tokens, "precision"),
    sequence_accuracy_score: (count_sequences, "precision"),
    segment_f1_score: (count_segments, "f1"),
}
SWAPS_AT_A_TIME = 1 << 22  # swaps drawn at a time, to bound memory
RELATIVE_ROUNDING = 1e-12  # relative; rounding must not make equal differences unequal


class RandomizationTest(NamedTuple):
    """Result of :func:`randomization_test`: the probability of a score difference by chance.

    See the example there.
    """

    score_a: float  # metric of the first system
    score_b: float  # metric of the second system
    difference: float  # score_a - score_b
    p_value: float  # (n_c + 1) / (n_trials + 1), n_c = number of trials with at least this absolute difference


def randomization_test(
    y_true: LabelSequences,
    y_pred_a: LabelSequences,
    y_pred_b: LabelSequences,
    metric: Callable[..., float],
    *,
    n_trials: int = 999,
    random_state: int | np.random.RandomState | None = None,
    **metric_params: Any,
) -> RandomizationTest:
    """Test whether two systems differ, by swapping their outputs at random.

    If both systems were equally good, their outputs could be exchanged. Each trial swaps the two outputs for every
    sequence with probability 1/2. Let n_c be the number of trials in which the absolute difference of the metric is at
    least the observed difference. The p value is (n_c + 1) / (n_trials + 1) [1]_ [2]_.

    Parameters
    ----------
    y_true : list of sequences
        True labels, or segments.
    y_pred_a, y_pred_b : list of sequences
        Predictions of the two systems for the same sequences.
    metric : callable
        ``metric(y_true, y_pred, **metric_params)`` returns a number. For scores of this module, labels are read only
        once and trials are matrix products; any other function is called ``2 * n_trials`` times.
    n_trials : int, default=999
        Number of trials; 1 / (n_trials + 1) is the smallest possible p value.
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
    (1.0, 0.8, 0.007)
    """
    if not isinstance(n_trials, Integral) or isinstance(n_trials, bool) or n_trials < 1:
        raise ValueError(f"n_trials must be an integer of at least 1, got {n_trials!r}")
    if "sample_weight" in metric_params:
        raise TypeError("randomization_test takes no sample_weight: all sequences count the same")
    if not callable(metric):
        raise TypeError(f"metric must be a function of y_true and y_pred, got {metric!r:.60}")
    mix = _mix_counts if metric in COUNTED else _mix_outputs
    n_sequences, score = mix(y_true, y_pred_a, y_pred_b, metric, metric_params)
    if n_sequences == 0:
        raise ValueError("there are no sequences, so there is nothing to test")
    (score_a,), (score_b,) = score(np.zeros((1, n_sequences), dtype=bool))
    if np.isnan(score_a) or np.isnan(score_b):
        raise ValueError(f"the metric is {score_a} for y_pred_a and {score_b} for y_pred_b: there is nothing to test")
    tolerance = RELATIVE_ROUNDING * max(abs(score_a), abs(score_b))
    n_at_least = 0
    for swapped in _swaps(n_sequences, n_trials, random_state):
        a, b = score(swapped)
        n_at_least += int(np.sum(~(np.abs(a - b) < abs(score_a - score_b) - tolerance)))  # nan counts against
    p_value = (n_at_least + 1) / (n_trials + 1)
    return RandomizationTest(float(score_a), float(score_b), float(score_a - score_b), p_value)


def _swaps(n_sequences: int, n_trials: int, random_state: int | np.random.RandomState | None) -> Iterator[np.ndarray]:
    """Yield blocks of shape (trials, n_sequences) that define which outputs are swapped."""
    rng = check_random_state(random_state)
    size = max(1, SWAPS_AT_A_TIME // max(1, n_sequences))
    for start in range(0, n_trials, size):
        yield rng.random_sample((min(size, n_trials - start), n_sequences)) < 0.5


def _mix_counts(
    y_true: LabelSequences,
    y_pred_a: LabelSequences,
    y_pred_b: LabelSequences,
    metric: Callable[..., float],
    metric_params: dict[str, Any],
) -> tuple[int, Callable[[np.ndarray], Any]]:
    """Return the number of sequences, and a function from swaps to scores that adds up counts."""
    count, quantity = COUNTED[metric]
    params = _bound_params(metric, metric_params)
    average = params.get("average", "micro")
    check_average(average)
    if average is None:
        raise ValueError("average=None returns a number for each label, but the test needs a single number")
    undefined = check_zero_division(params.get("zero_division", 0))
    if params.get("scheme") == "auto":
        params["scheme"] = _scheme_of_all(y_true, y_pred_a, y_pred_b)
    count_params = {name: value for name, value in params.items() if name in signature(count).parameters}
    with _noting("y_pred_a"):
        a = count(y_true, y_pred_a, **count_params)
    with _noting("y_pred_b"):
        b = count(y_true, y_pred_b, **count_params)
    labels = a.labels if a.labels == b.labels else sorted_union(a.labels, b.labels)
    a, b = a.with_labels(labels), b.with_labels(labels)
    n_sequences, n_labels = a.true.shape
    totals_a, totals_b = a.totals(), b.totals()
    # a swap adds this to the counts of a and subtracts it from the counts of b; the true items are the same
    change = sparse.hstack([b.correct - a.correct, b.predicted - a.predicted], format="csr")

    def score(swapped: np.ndarray) -> list[np.ndarray]:
        moved = (change.T @ swapped.T.astype(np.float64)).T.reshape(len(swapped), 2, n_labels).transpose(1, 0, 2)
        values = []
        for totals, sign in ((totals_a, 1), (totals_b, -1)):
            mixed = np.repeat(totals[:, None, :], len(swapped), axis=1)
            mixed[:2] += sign * moved
            # requested labels always count, otherwise only the labels that occur
            present = None if params.get("labels") is not None else mixed[1] + mixed[2] > 0
            values.append(ratio(mixed, quantity, average, undefined, present))
        return values

    return n_sequences, score


def _scheme_of_all(y_true: LabelSequences, y_pred_a: LabelSequences, y_pred_b: LabelSequences) -> str:
    """Return one scheme for the truth and both systems, each of which may lack the tags that show it."""
    if hold_any_segments(y_true=y_true):
        return "segments"
    labels = set(code_tokens(y_true, "y_true").labels)
    for name, y in (("y_pred_a", y_pred_a), ("y_pred_b", y_pred_b)):
        with _noting(name):
            if hold_any_segments(y_pred=y):
                return "segments"
            labels.update(code_tokens(y, "y_pred").labels)
    return scheme_of("auto", labels)


@contextmanager
def _noting(name: str) -> Iterator[None]:
    """Say in errors which of the two systems is called y_pred there."""
    try:
        yield
    except (TypeError, ValueError) as error:
        error.add_note(f"y_pred is {name}")
        raise


def _bound_params(metric: Callable[..., float], metric_params: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all parameters of a metric of this module."""
    allowed = {
        name: parameter.default
        for name, parameter in signature(metric).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY and name != "sample_weight"
    }
    for name in metric_params:
        if name not in allowed:
            raise TypeError(f"{metric.__name__} has no parameter {name!r}; it has {', '.join(allowed)}")
    return allowed | metric_params


def _mix_outputs(
    y_true: LabelSequences,
    y_pred_a: LabelSequences,
    y_pred_b: LabelSequences,
    metric: Callable[..., float],
    metric_params: dict[str, Any],
) -> tuple[int, Callable[[np.ndarray], Any]]:
    """Return the number of sequences, and a function from swaps to scores that calls the metric."""
    y_true = list_sequences(y_true, "y_true")
    a, b = list_sequences(y_pred_a, "y_pred_a"), list_sequences(y_pred_b, "y_pred_b")
    refuse_other_number(len(y_true), len(a))
    refuse_other_number(len(y_true), len(b))

    def score(swapped: np.ndarray) -> np.ndarray:
        scores = np.empty((2, len(swapped)))
        for trial, swap in enumerate(swapped.tolist()):
            scores[0, trial] = metric(y_true, [b[n] if s else a[n] for n, s in enumerate(swap)], **metric_params)
            scores[1, trial] = metric(y_true, [a[n] if s else b[n] for n, s in enumerate(swap)], **metric_params)
        return scores

    return len(y_true), score
