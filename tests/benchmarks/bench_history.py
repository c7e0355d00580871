"""Time of order over segments, where segments have 1,000 to 2,000 tokens.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_history.py [--tokens N] [--rounds N]

Drawn labels, each label followed by two of the others, depending on the label before; ten attributes a token, 60 % of
them noise. One sequence, and thirty: 20 iterations of L-BFGS from zero, and 20 after the first 60. Processor seconds,
in turns, beside those of the chain of order 1; and the sequences that left the scaled pass.
"""

import time
from unittest import mock

import numpy as np
from common import fit_quietly, parse, print_table, take_turns, with_spread
from scipy import sparse

from sklearn_hocrf import HighOrderCRF, SequenceBatch
from sklearn_hocrf._inference.chain import ChainPass

N_LABELS, N_ATTRIBUTES, LENGTHS = 8, 10, (1000, 2001)
MODELS = {"tokens": [1, 2], "segments": [2, 3]}
HEADS = [
    "recordings, model",
    "states",
    "arcs",
    "from zero s",
    "of order 1",
    "near the end s",
    "of order 1",
    "in log space",
]


def draw(n_tokens, lengths=LENGTHS, seed=0):
    """Return labels and features of tokens."""
    rng, codes, before = np.random.default_rng(seed), [0], 0
    follow = [rng.permutation([z for z in range(N_LABELS) if z != y])[:4] for y in range(N_LABELS)]
    while len(codes) < n_tokens:
        before, label = codes[-1], follow[codes[-1]][(before + rng.integers(0, 2)) % 4]
        codes += [int(label)] * int(rng.integers(*lengths))
    codes = np.array(codes[:n_tokens])
    noise = (rng.random((n_tokens, N_ATTRIBUTES)) < 0.6) * rng.integers(0, N_LABELS, (n_tokens, N_ATTRIBUTES))
    columns = (codes[:, None] + noise) % N_LABELS + N_LABELS * np.arange(N_ATTRIBUTES)
    ranges = np.arange(0, columns.size + 1, N_ATTRIBUTES)
    shape = n_tokens, N_LABELS * N_ATTRIBUTES
    return codes, sparse.csr_array((np.ones(columns.size), columns.ravel(), ranges), shape=shape)


def measure(codes, features, n_sequences, n_rounds):
    """Return the rows of the models, for a recording cut in parts."""
    offsets = np.linspace(0, len(codes), n_sequences + 1).astype(np.int64)
    X, y = SequenceBatch.from_csr(features, offsets), np.split(codes, offsets[1:-1])
    settings = [(history, order) for history, orders in MODELS.items() for order in orders]

    def model(history, order, max_iter):
        return fit_quietly(HighOrderCRF(order, history=history, max_iter=max_iter, tol=0.0), X, y)

    trained = [model(*setting, 60).set_params(warm_start=True, max_iter=20) for setting in settings]
    with mock.patch.object(ChainPass, "_run_wide", autospec=True, side_effect=ChainPass._run_wide) as slow:
        counts = []
        for setting in settings:
            slow.reset_mock()
            model(*setting, 20)
            counts.append(slow.call_count)
    cases = [lambda setting=setting: model(*setting, 20) for setting in settings]
    cases += [lambda crf=crf: fit_quietly(HighOrderCRF.__copy__(crf), X, y) for crf in trained]
    seconds = np.hsplit(take_turns(cases, n_rounds, time.process_time), 2)
    rows = []
    for number, (history, order) in enumerate(settings):
        crf = trained[number]
        row = [f"{n_sequences}, order {order} over {history}", crf.automaton_.n_states, crf.automaton_.n_arcs]
        for part in seconds:
            row += [with_spread(part[:, number], ".2f"), with_spread(part[:, number] / part[:, 0], ".2f")]
        rows.append([*row, counts[number]])
    return rows


def main(arguments=None):
    options = parse(__doc__, arguments, tokens=60_000, rounds=3)
    codes, features = draw(options.tokens)
    print_table(HEADS, [row for n in (1, 30) for row in measure(codes, features, n, options.rounds)])


if __name__ == "__main__":
    main()
