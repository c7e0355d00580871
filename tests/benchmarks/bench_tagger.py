"""The tagger that needs numpy alone, against python-crfsuite with the same attributes, one sentence at a time.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_tagger.py [--orders 1 3] [--sentences N] [--rounds N] [--max-iter N]

Both tag the test sentences of conll2000 from tokens (word, part of speech); the attributes of python-crfsuite are made
by :func:`attributes`. Prints processor times of a sentence, sizes of files, and what a new process needs to load one.
All models are trained for the same small number of iterations. Needs conll2000 (SKLEARN_HOCRF_DATA or ../shared/data).
"""

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from itertools import groupby
from pathlib import Path

import bench_chunking
import common
import skops.io
from bench_tagging import load_sentences
from common import fit_quietly, print_table, take_turns, with_spread

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

LOADING = """if True:
    import sys, time
    memory = lambda: int([line for line in open("/proc/self/status") if "VmRSS" in line][0].split()[1]) / 1024
    import numpy
    of_numpy, start = memory(), time.process_time()
    from sklearn_hocrf.tagger import Tagger
    imported = time.process_time()
    tagger = Tagger(sys.argv[1])
    print(of_numpy, imported - start, time.process_time() - imported, memory())
"""


def shape(text):
    classes = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)
    return "".join(c for c, _ in groupby(classes))


def attributes(tokens):
    """Return the attribute names of each token: those of SequenceFeatureExtractor's default templates."""
    n, begin, end = len(tokens), ["__BOS__"] * 2, ["__EOS__"] * 2
    w = [*begin, *(word for word, _ in tokens), *end]
    p = [*begin, *(pos for _, pos in tokens), *end]
    s = [*begin, *(shape(word) for word, _ in tokens), *end]
    rows = []
    for t in range(2, n + 2):
        word = w[t]
        row = [f"{name}[{o}]={of[t + o]}" for name, of in (("w", w), ("p", p), ("s", s)) for o in (-2, -1, 0, 1, 2)]
        row += [f"{name}[{o}]2={of[t + o]}|{of[t + o + 1]}" for name, of in (("w", w), ("s", s)) for o in (-1, 0)]
        row += [f"p[{o}]2={p[t + o]}|{p[t + o + 1]}" for o in (-2, -1, 0, 1)]
        row += [f"p[{o}]3={p[t + o]}|{p[t + o + 1]}|{p[t + o + 2]}" for o in (-2, -1, 0)]
        row.append("l=" + word.lower())
        row += [f"<{i}={word[:i]}" for i in range(1, 6)]
        row += [f">{i}={word[-i:]}" for i in range(1, 6)]
        rows.append(row)
    return rows


def train_crfsuite(X, y, max_iter, path):
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False, algorithm="lbfgs")
    trainer.set_params({"c1": 0.0, "c2": 0.5, "max_iterations": max_iter})
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(attributes(tokens), labels)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"--sentences": None, "--rounds": 5, "--max-iter": 10}.items():
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--orders", type=int, nargs="*", default=[1, 3])
    options = parser.parse_args(arguments)
    if reason := bench_chunking.absent() or common.absent(modules=["pycrfsuite"]):
        print(f"skipped: {reason}")
        return
    (X, y), (X_test, _) = (
        load_sentences(which, options.sentences) for which in (bench_chunking.TRAIN, bench_chunking.TEST)
    )
    with tempfile.TemporaryDirectory() as folder:
        crfsuite = train_crfsuite(X, y, options.max_iter, Path(folder, "crfsuite"))
        names = [attributes(tokens) for tokens in X_test]
        cases = {
            "crfsuite": lambda: [crfsuite.tag(attributes(tokens)) for tokens in X_test],
            "crfsuite, ready lists": lambda: [crfsuite.tag(rows) for rows in names],
        }
        sizes = {"crfsuite": Path(folder, "crfsuite").stat().st_size}
        for order in options.orders:
            crf = HighOrderCRF(order, max_iter=options.max_iter)
            model = fit_quietly(make_pipeline(SequenceFeatureExtractor(fields=["w", "p"]), crf), X, y)
            path, name = Path(folder, f"order{order}"), f"tagger, order {order}"
            sizes[name] = export_tagger(model, path).n_bytes
            sizes[f"skops, order {order}"] = len(skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED))
            tagger, cold = Tagger(path), Tagger(path)
            n_wrong = sum(cold.tag(x) != list(z) for x, z in zip(X_test, model.predict(X_test), strict=True))
            print(f"{name}: {n_wrong} sentences with other labels", flush=True)
            cases[name] = lambda tagger=tagger: [tagger.tag(tokens) for tokens in X_test]
            cases[f"{name}, new each time"] = lambda path=path: list(map(Tagger(path).tag, X_test))
            run = subprocess.run([sys.executable, "-c", LOADING, path], capture_output=True, text=True, check=True)
            of_numpy, imported, loaded, memory = map(float, run.stdout.split())
            took = f"import {imported:.3f} s, load {loaded:.3f} s of processor time"
            print(f"{name}: {took}, {memory:.0f} MiB, of which {of_numpy:.0f} are numpy")
        seconds = take_turns(list(cases.values()), options.rounds, time.process_time) / len(X_test) * 1e6
    rows = [
        (n, with_spread(us, ".0f"), with_spread(us / seconds[:, 0], ".2f"))
        for n, us in zip(cases, seconds.T, strict=True)
    ]
    print_table(["", "us a sentence", "ratio"], rows)
    print_table(["file", "bytes"], list(sizes.items()))


if __name__ == "__main__":
    main()
