"""Learned penalties with pruning: are they those of the model of all labels?

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_pruned_search.py [--sentences N] [--order K] [--candidates N ...]

The first sentences of conll2002 (names, 9 labels) with the template of ``bench_ner``, five shuffled folds. A row has
the candidates of a token (0: all labels), the best sigma of each group of weights, and the score of the search, which
with pruning is the likelihood of a mixture with level 0; then what the model of *all* labels reaches with these
penalties: its cross-validated log-likelihood for each token, in nats, and its F1 of names in esp.testb after training
on these sentences. Needs conll2002 in SKLEARN_HOCRF_DATA or ../shared/data.
"""

import time

import bench_ner
import common

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.metrics import segment_f1_score
from sklearn_hocrf.model_selection import PenaltySearchCV


def search(names, sigma, order, n_candidates, **settings):
    """Return the fitted search that starts from some penalties."""
    crf = HighOrderCRF(order, sigma_reg=sigma, pruning=n_candidates or None)
    return common.fit_quietly(PenaltySearchCV(crf, **settings), names.train, names.y_train)


def main(arguments=None):
    options = common.parse(__doc__, arguments, sentences=1500, order=1, candidates=[0, 2, 3, 4, 6], max_steps=20)
    if common.skipped(common.absent(bench_ner.TRAIN, bench_ner.TEST)):
        return
    names, rows, keys = bench_ner.load_names(options.sentences), [], None
    for n_candidates in options.candidates:
        begun = time.process_time()
        found = search(names, 1.0, options.order, n_candidates, max_steps=options.max_steps, refit=False)
        seconds = time.process_time() - begun
        sigma = found.best_params_["sigma_reg"]
        keys = list(sigma)
        exact = search(names, sigma, options.order, 0, max_steps=1)
        f1 = segment_f1_score(names.y_test, exact.predict(names.test), scheme="bio")
        values = [f"{value:.3g}" for value in sigma.values()]
        rows.append([n_candidates or "all", *values, f"{found.best_score_:.5f}", f"{exact.best_score_:.5f}"])
        rows[-1] += [f"{100 * f1:.2f}", f"{seconds:.0f}"]
        print(rows[-1], flush=True)
    common.print_table(
        ["candidates", *map(str, keys), "score", "score of all labels there", "F1 there", "seconds"], rows
    )


if __name__ == "__main__":
    main()
