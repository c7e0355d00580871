"""What to label next, on real data: F1 by labelled tokens, the sequences chosen by ``select_sequences`` or at random.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_selection.py [--tasks T ...] [--seeds N] [--rounds N]

Names of conll2002 (order 1) and the references of AnyStyle with the product's patterns (order 1). With each seed, there
are 1000 sequences drawn at random to choose from, of which 30 are labelled first, and 800 others to test on. In each
round the same number of tokens is labelled, by the order that ``select_sequences`` gives to what is left, and the model
is trained again, from its weights. Prints F1 of segments at random choice; for each way to choose, the mean difference
to that of the same seed with its standard deviation and in how many seeds it is positive; and the mean length of what
was chosen. Needs conll2002 or anystyle_references in SKLEARN_HOCRF_DATA or ../shared/data.
"""

import sys
from pathlib import Path

import bench_chunking
import bench_ner
import common
import numpy as np

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor, read_templates
from sklearn_hocrf.inspection import select_sequences
from sklearn_hocrf.metrics import segment_f1_score

sys.path.append(str(Path(__file__).parent / "products"))
import anystyle as references
import protocol
from protocol import part

N_POOL, N_TEST, N_FIRST, TOKENS_A_ROUND = 1000, 800, 30, 600
WAYS = {
    "at random": None,
    "entropy per token": {"by": "entropy", "per": "token"},
    "entropy of labellings": {"by": "entropy", "per": "sequence"},
    "margin of labellings": {"by": "margin", "per": "sequence"},
    "least confident per token": {"by": "least confident", "per": "token"},
}


def conll2002():
    """Return features, labels, the scheme of the labels, and parameters."""
    X, y = load_conll(common.data_file(*bench_ner.TRAIN), ["w", "p", "tag"], return_X_y=True)
    X, y = zip(*(pair for pair in zip(X, y, strict=True) if len(pair[1]) <= bench_ner.LONGEST), strict=True)
    extractor = SequenceFeatureExtractor(bench_chunking.TEMPLATES, padding="drop")
    return extractor.fit_transform(list(X)), list(y), "bio", {}


def anystyle():
    """Return the same."""
    X, y = references.load()
    patterns = read_templates(protocol.data_file(*references.FILES[2]), style="wapiti")
    return patterns.fit_transform(X), y, "runs", {"sigma_reg": 2.0}


def learn(X, y, way, score, model, n_rounds, seed):
    """Return (tokens, score) after each round, and the mean length of the sequences that were chosen."""
    random, chosen, points = np.random.default_rng(seed), np.arange(N_FIRST), []
    for number in range(n_rounds + 1):
        common.fit_quietly(model, X[chosen], part(y, chosen))
        points.append((X.lengths[chosen].sum(), score(model)))
        rest = np.setdiff1d(np.arange(len(X)), chosen)
        order = random.permutation(len(rest)) if way is None else select_sequences(model, X[rest], len(rest), **way)
        tokens = X.lengths[rest[order]].cumsum()
        n_chosen = np.searchsorted(tokens, X.lengths[:N_FIRST].sum() + (number + 1) * TOKENS_A_ROUND - points[-1][0])
        chosen = np.append(chosen, rest[order[: n_chosen + 1]])
    return np.array(points), X.lengths[chosen[N_FIRST:]].mean()


def main(arguments=None):
    tasks = {conll2002: [bench_ner.TRAIN], anystyle: references.FILES}
    names = {task.__name__: task for task in tasks}
    options = common.parse(__doc__, arguments, tasks=list(names), seeds=10, rounds=6)
    for name in options.tasks:
        if common.skipped(common.absent(*tasks[names[name]])):
            continue
        X, y, scheme, params = names[name]()
        curves, lengths = {way: [] for way in WAYS}, {way: [] for way in WAYS}
        for seed in range(options.seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            pool, test = order[:N_POOL], order[N_POOL : N_POOL + N_TEST]
            X_test, y_test = X[test], part(y, test)

            def score(model, X_test=X_test, y_test=y_test, scheme=scheme):
                return 100 * segment_f1_score(y_test, model.predict(X_test), scheme=scheme)

            for way, settings in WAYS.items():
                model = HighOrderCRF(1, tol=0.1, warm_start=True, **params)
                points, length = learn(X[pool], part(y, pool), settings, score, model, options.rounds, seed)
                curves[way].append(points)
                lengths[way].append(length)
            print(".", end="", flush=True)
        curves = {way: np.array(of_seeds) for way, of_seeds in curves.items()}  # (seeds, rounds, 2)
        at_random = curves["at random"]
        heads = [f"{tokens:.0f} tokens" for tokens in at_random[:, :, 0].mean(axis=0)]
        rows = []
        for way, of_seeds in curves.items():
            gain = of_seeds[:, :, 1] - at_random[:, :, 1]
            if way == "at random":
                cells = [f"{mean:.1f}" for mean in at_random[:, :, 1].mean(axis=0)]
            else:
                moments = zip(gain.mean(axis=0), gain.std(axis=0), (gain > 0).sum(axis=0), strict=True)
                cells = [f"{mean:+.1f} ± {spread:.1f} ({n})" for mean, spread, n in moments]
            rows.append([way, *cells, f"{np.mean(lengths[way]):.1f}"])
        print(f"\n{name}: {options.seeds} seeds; the mean length of all is {X.lengths.mean():.1f}")
        common.print_table(["", *heads, "mean length"], rows)


if __name__ == "__main__":
    main()
