"""Where the scaled passes of the semi-Markov kernels must give way to log space, and what is compiled once."""

import numpy as np
import pytest
import segment_oracle as so
from internals import segment_scores
from segment_cases import BAG, BEGIN, SegmentCase, to_segment_model, token_block


def lifted_case(gain):
    """Return two labels at three tokens; at token 1 label 1 costs 1000, and its pattern (0, 1) wins that much back.

    ``gain`` are the weights of (0, 1) at its first token and over all tokens of the segment. At token 2 every path but
    those that come from label 1 loses 100: too much for label 0, if label 1 were worth more than exp(-100) by then.
    """
    blocks = token_block(BEGIN, [0, 1]), token_block(BAG, [0, 2])
    features = {(0, (0, 1)): gain[0], (2, (0, 1)): gain[1], (3, (1,)): -1000.0}
    features |= {(1, z): -100.0 for z in [(0, 0), (0, 1), (1, 1)]}
    model = so.Model(2, (2, 2), True, dict.fromkeys([(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)], 0.0), features)
    rows = [[{}, {0: 1.0, 2: 1.0}, {1: 1.0}]]
    orders = [(1,), (1,), (1,), (0,)]
    return SegmentCase(model, orders, blocks, 3, rows, [["a"] * 3], [((0, 1, 0), (1, 2, 0), (2, 3, 0))])


@pytest.mark.parametrize(
    "gain", [(600.0, 0.0), (300.0, 0.0), (0.0, 170.0), (170.0, 170.0), (75.0, 75.0), (39.0, 119.0)]
)
def test_large_weights_do_not_lift_scores_that_exp_cuts_off(gain):
    case = lifted_case(gain)
    model, batch = to_segment_model(case)
    sequence = case.sequences[0]
    assert model.given(batch).log_z()[0] == pytest.approx(so.log_partition(case.model, sequence), rel=1e-12)
    expected = so.token_marginals(so.distribution(case.model, sequence), 2, 3)
    np.testing.assert_allclose(model.given(batch).marginals(), expected, atol=1e-12)


def test_thresholds_of_any_type_use_the_same_machine_code():
    model, batch = to_segment_model(lifted_case((1.0, 1.0)))
    model.given(batch).segment_marginals(0.5)
    compiled = len(segment_scores.count_likely.signatures), len(segment_scores.list_likely.signatures)
    for threshold in (0, np.float32(0.5), np.int64(1)):
        model.given(batch).segment_marginals(threshold)
    assert (len(segment_scores.count_likely.signatures), len(segment_scores.list_likely.signatures)) == compiled
