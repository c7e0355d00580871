"""Zones of scholarly documents, the data and the template of GROBID's segmentation model: orders 1 to 3.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/grobid.py [--quick] [--max-iter N] [--n-jobs N]
        [--models M ...] [--keep FOLDER]

The short protocol of the data: 100 documents to train, 100 to test, of about 1000 lines each. A line is a token, its
label the zone with a mark at its beginning. "chosen" is the best of MODELS inside the training part, by the
log-likelihood of its second half after training on the first. Prints how well labels can be told from those before, of
lines and of zones; lines that are right, F1 of exact zones, processor seconds and iterations of a fit, and a paired
randomisation test of the F1 against order 1; and how long the last model takes to tag the longest of all documents, and
the peak of memory that it allocates for that. Needs grobid_zones (SKLEARN_HOCRF_DATA or ../shared/data). --quick: 8 and
8 documents of at most 300 lines, 30 iterations. --keep: a folder for results, which are read where they exist.
"""

import os
import random
import time
import tracemalloc
from collections import Counter, defaultdict
from functools import partial

import numpy as np
import protocol
from protocol import Results, choose, print_table

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import randomization_test, segment_f1_score, token_accuracy_score

FILES = [("grobid_zones", "train.txt.gz"), ("grobid_zones", "segmentation.template")]
ORDERS = {f"order {k}": {"max_order": k, "sigma_reg": 1.0, "tol": 0.01} for k in (1, 2, 3)}
SEGMENTS = {"history": "segments", "constraints": "bio"}
MODELS = ORDERS | {f"segments, order {k}": ORDERS[f"order {k}"] | SEGMENTS for k in (1, 2, 3)}
MODELS |= {"order 3, sigma .3": ORDERS["order 3"] | {"sigma_reg": 0.3}}


def load(quick):
    """Return columns and tags of the documents, training part first, and the columns of the longest of all."""
    documents = [block.split("\n") for block in "\n".join(protocol.read_lines(*FILES[0])).split("\n\n")]
    longest = [line.split(" ")[:-1] for line in max(documents, key=len)]
    order = list(range(len(documents)))
    random.Random(0).shuffle(order)
    documents = [documents[i] for i in order if not quick or len(documents[i]) <= 300][: 16 if quick else 200]
    lines = [[line.split(" ") for line in document] for document in documents]
    # a zone begins at I-, also after one of its own name: B- here, so that tags are those of the scheme "bio"
    tags = [[f"B-{tag[2:]}" if tag.startswith("I-") else f"I-{tag}" for *_, tag in document] for document in lines]
    return [[columns for *columns, _ in document] for document in lines], tags, longest


def cross_entropy(training, test, length):
    """Return the mean -log p of each item of test sequences, given the ``length`` items before it, in nats.

    p is the share among what followed these items in training, mixed with that of a shorter history by the number of
    different items that followed (Witten and Bell); an item that training lacks has what is equal for all items.
    """
    followers = defaultdict(Counter)
    for items in training:
        for t, item in enumerate(items):
            for k in range(min(t, length) + 1):
                followers[tuple(items[t - k : t])][item] += 1
    n_items = len({item for items in [*training, *test] for item in items})
    losses = []
    for items in test:
        for t, item in enumerate(items):
            p = 1 / n_items
            for k in range(min(t, length) + 1):
                seen = followers.get(tuple(items[t - k : t]), {})
                p = (seen.get(item, 0) + len(seen) * p) / (sum(seen.values()) + len(seen)) if seen else p
            losses.append(-np.log(p))
    return np.mean(losses)


def print_histories(tags, n):
    """Print how well lines tell the tag of the next line, and zones the name of the next zone, without features."""
    zones = [[tag[2:] for tag in of if tag.startswith("B-")] for of in tags]
    lengths = range(5)
    rows = [
        [what, *(f"{cross_entropy(data[:n], data[n:], length):.3f}" for length in lengths)]
        for what, data in {"tag of a line, by lines": tags, "name of a zone, by zones": zones}.items()
    ]
    same = [all(tag.startswith("I-") for tag in of[t - 3 : t]) for of in tags[n:] for t in range(3, len(of))]
    print_table(["nats, by length of history", *map(str, lengths)], rows)
    print(f"{100 * np.mean(same):.1f} % of the lines have three lines of one zone before them\n")


def print_longest(patterns, model, longest):
    """Print how long a document takes from its columns to its zones, and the peak of allocated memory."""
    start = time.process_time()
    model.predict(patterns.transform([longest]))
    seconds = time.process_time() - start
    tracemalloc.start()
    model.predict(patterns.transform([longest]))
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"a document of {len(longest)} lines: {seconds:.1f} s of processor time, {peak:.0f} MiB")


def main(arguments=None):
    options = protocol.parse(
        __doc__, arguments, quick=False, max_iter=300, models=[*MODELS, "chosen"], keep="", n_jobs=1
    )
    if protocol.skipped(protocol.absent(*FILES)):
        return
    X, y, longest = load(options.quick)
    n = len(X) // 2
    train, test = np.arange(n), np.arange(n, len(X))
    print_histories(y, n)
    patterns = SequenceFeatureExtractor.from_file(protocol.data_file(*FILES[1]))
    X = {"own": patterns.fit_transform(X)}
    limit = {"max_iter": min(options.max_iter, 30) if options.quick else options.max_iter, "n_jobs": options.n_jobs}
    models = {name: [("own", HighOrderCRF(**params | limit))] for name, params in MODELS.items()}

    def fit(name):
        best = choose(models, X, y, train, 2, utility=np.positive) if name == "chosen" else name
        results = Results(y)
        return best, results, *results.fit(models[best], X, train, test)

    rows, found, truth = [], {}, y[n:]
    for name in options.models:
        path = os.path.join(options.keep, name) if options.keep else None
        best, results, model = protocol.kept(path, partial(fit, name))
        found[name] = [results.labels[i] for i in test]
        scores = token_accuracy_score(truth, found[name]), segment_f1_score(truth, found[name], scheme="bio")
        p = ""
        if name != "order 1" and "order 1" in found:
            compared = truth, found[name], found["order 1"]
            p = randomization_test(*compared, segment_f1_score, scheme="bio", random_state=0).p_value
        shown = f"chosen: {best}" if name == "chosen" else name
        rows.append([shown, *(f"{score:.4f}" for score in scores), f"{results.seconds[0]:.0f}", model.n_iter_, p])
        print(*rows[-1], flush=True)
    print_table(["", "lines right", "F1 of zones", "s a fit", "iterations", "p against order 1"], rows)
    if rows:
        print_longest(patterns, model, longest)


if __name__ == "__main__":
    main()
