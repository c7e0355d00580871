"""Questions to models given a mask, against enumeration of the labellings that the mask lets through."""

import numpy as np
import pytest
import segment_oracle as so
from internals import Mask, both
from mask_cases import all_families, check_answers, feasible

SEEDS = range(12)


@all_families
@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_those_of_enumeration(questions, seed):
    model, batch, mask, possible = questions(seed)
    plan = model.posterior(batch).plan.masked(mask, may_be_impossible=True)
    for got, scores in zip(model.posterior_on(plan).log_z(), possible, strict=True):
        wanted = so.log_sum_exp(scores.values())
        assert got == wanted or abs(got - wanted) <= 1e-13 * max(1.0, abs(wanted))
    check_answers(*feasible(model, batch, mask, possible), [(0,), (1, 0), (0, 0), (0, 1, 0)])


@all_families
def test_impossible_sequences_are_named(questions):
    model, batch, mask, possible = next(q for q in map(questions, range(400)) if not all(q[3]))
    first = next(s for s, scores in enumerate(possible) if not scores)
    posterior = model.posterior(batch, mask)
    for ask in posterior.marginals, posterior.decode:
        with pytest.raises(ValueError, match=f"sequence {first}: the model forbids every labelling"):
            ask()


def test_conjunction():
    left = Mask(np.array([[True, True], [True, False]]), np.array([0, 1], np.int8))
    right = Mask(np.array([[True, False], [True, True]]), np.array([1, -1], np.int8))
    joined = both(left, right)
    assert joined.allowed.tolist() == [[True, False], [False, False]]
    assert joined.begins.tolist() == [1, 1]
    assert both(left, None) is left
    assert both(None, None) is None
