"""Time of order over segments, where segments have 1,000 to 2,000 tokens.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_history.py [--tokens N] [--longest N] [--rounds N]

Drawn labels, each label followed by two of the others, depending on the label before; ten attributes a token, 60 % of
them noise. Semi-CRFs have no limit of length. One sequence, and thirty: 20 iterations of L-BFGS from zero, and 20 after
the first 60. Processor seconds, in turns, beside those of the chain of order 1; and the sequences that left the scaled
pass. Then a gradient of order 2 over segments beside one over tokens whose automaton has about as many arcs: runs, and
tags of the scheme "bio".
"""

import time
from copy import copy
from unittest import mock

import numpy as np
from common import fit_quietly, parse, print_table, take_turns, with_spread
from scipy import sparse
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, SequenceBatch
from sklearn_hocrf._estimator.fit_steps import FitSteps
from sklearn_hocrf._inference.chain import ChainPass
from sklearn_hocrf._objectives import NegativeLogLikelihood

N_LABELS, N_ATTRIBUTES, LENGTHS = 8, 10, (1000, 2001)
MODELS = {
    "order 1": HighOrderCRF(1),
    "order 2 over tokens": HighOrderCRF(2),
    "order 2 over segments": HighOrderCRF(2, history="segments"),
    "order 3 over segments": HighOrderCRF(3, history="segments"),
    "semi-CRF of order 1": HighOrderSemiCRF(1, scheme="runs", segment_length=np.inf),
    "semi-CRF of order 2": HighOrderSemiCRF(2, scheme="runs", segment_length=np.inf),
}
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


def n_sequences_of(wide):
    """Return the number of sequences of all passes on wide numbers."""
    return sum(len(call.args[1]) for call in wide.call_args_list)


def measure(codes, features, n_sequences, n_rounds):
    """Return the rows of the models, for a recording cut in parts."""
    offsets = np.linspace(0, len(codes), n_sequences + 1).astype(np.int64)
    X, y = SequenceBatch.from_csr(features, offsets), np.split(codes, offsets[1:-1])

    def fit(model, max_iter):
        return fit_quietly(clone(model).set_params(max_iter=max_iter, tol=0.0), X, y)

    trained = [fit(model, 60).set_params(warm_start=True, max_iter=20) for model in MODELS.values()]
    with mock.patch.object(ChainPass, "_run_wide", autospec=True, side_effect=ChainPass._run_wide) as slow:
        counts = []
        for model in MODELS.values():
            slow.reset_mock()
            fit(model, 20)
            counts.append(n_sequences_of(slow))
    cases = [lambda model=model: fit(model, 20) for model in MODELS.values()]
    cases += [lambda crf=crf: fit_quietly(copy(crf), X, y) for crf in trained]
    seconds = np.hsplit(take_turns(cases, n_rounds, time.process_time), 2)
    rows = []
    for index, (name, crf) in enumerate(zip(MODELS, trained, strict=True)):
        row = [f"{n_sequences}, {name}", crf.automaton_.n_states, crf.automaton_.n_arcs]
        for part in seconds:
            row += [with_spread(part[:, index], ".2f"), with_spread(part[:, index] / part[:, 0], ".2f")]
        rows.append([*row, counts[index]])
    return rows


def gradients(what, X, y, models, n_rounds):
    """Return a row of each model: states, arcs, milliseconds of a gradient after 60 iterations, ratio to the first."""
    evaluate, rows = [], []
    with mock.patch.object(ChainPass, "_run_wide", autospec=True, side_effect=ChainPass._run_wide) as slow:
        for crf in models:
            w = fit_quietly(crf.set_params(max_iter=60, tol=0.0), X, y)._weights
            steps = FitSteps(crf)
            objective = NegativeLogLikelihood().bind(steps.problem(steps.read(X, y, None)))
            slow.reset_mock()
            objective.value_gradient(w)
            evaluate.append(lambda w=w, objective=objective: objective.value_gradient(w))
            automaton = crf.automaton_
            rows.append([f"{what}, {crf.history}", automaton.n_states, automaton.n_open, n_sequences_of(slow)])
    seconds = take_turns(evaluate, n_rounds, time.process_time)
    for row, column in zip(rows, seconds.T, strict=True):
        row += [with_spread(1000 * column, ".1f"), with_spread(column / seconds[:, 0], ".2f")]
    return rows


def as_tags(codes):
    """Return tags of runs of codes: the first code is outside of segments."""
    is_first = np.diff(codes, prepend=-1) != 0
    return [f"{'B' if first else 'I'}-{code}" if code else "O" for code, first in zip(codes, is_first, strict=True)]


def main(arguments=None):
    options = parse(__doc__, arguments, tokens=60_000, rounds=3, longest=2000)
    codes, features = draw(options.tokens, (min(1000, options.longest), options.longest + 1))
    X, rows = SequenceBatch.from_csr(features, np.array([0, len(codes)])), []
    rows += gradients("runs", X, [codes], [HighOrderCRF(2), HighOrderCRF(2, history="segments")], 7 * options.rounds)
    of_tags = HighOrderCRF(3, constraints="bio"), HighOrderCRF(2, constraints="bio", history="segments")
    rows += gradients("tags", X, [as_tags(codes)], of_tags, 7 * options.rounds)
    print_table(["labels, model", "states", "arcs", "in log space", "a gradient ms", "of tokens"], rows)
    print_table(HEADS, [row for n in (1, 30) for row in measure(codes, features, n, options.rounds)])


if __name__ == "__main__":
    main()
