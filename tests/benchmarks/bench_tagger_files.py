"""Files of taggers: their sizes, what a new process needs to read one, and how its answers differ from the estimator's.

    python tests/benchmarks/bench_tagger_files.py [--data NAME ...] [--max-iter N] [--parts]

trains a model of order 1 (handwriting: 5) on each data set, writes it with weights of both types, and with float32
without compression, and compares labels and probabilities of the test sequences. ``skops`` is the size of the same
model in a file of skops with ZIP_DEFLATED. ``--parts`` also prints the bytes of each array, alone and compressed. Data
sets that are absent are left out (SKLEARN_HOCRF_DATA or ../shared/data).
"""

import gzip
import json
import lzma
import random
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import skops.io
from bench_handwriting import load_words
from bench_tagger import LOADING
from bench_tagging import load_sentences
from common import Split, absent, data_file, fit_quietly, parse, print_table

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import export_tagger


def shuffled(X, y, n_folds):
    """Return the data with its first fold held out."""
    order = list(range(len(X)))
    random.Random(0).shuffle(order)
    held_out = set(order[::n_folds])
    train = [i for i in order if i not in held_out]
    return Split(*([data[i] for i in part] for part in (train, sorted(held_out)) for data in (X, y)))


def usaddress(**options):
    """Feature dicts of addresses, with the penalties of the product."""
    with gzip.open(data_file("usaddress", "train.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    model = HighOrderCRF(1, sigma_reg=(2 * 0.01) ** -0.5, l1_reg=0.1, **options)  # c1 = 0.1, c2 = 0.01
    return model, shuffled([row["features"] for row in rows], [row["labels"] for row in rows], 10)


def anystyle(**options):
    """Columns of references, with the template file of the product, and L1 as there."""
    X, y = [], []
    for part in "core", "gold":
        tokens, labels = load_conll(data_file("anystyle_references", f"{part}.txt.gz"), return_X_y=True)
        X += [[tuple(token.values()) for token in sequence] for sequence in tokens]
        y += labels
    templates = SequenceFeatureExtractor.from_file(data_file("anystyle_references", "patterns.txt"))
    crf = HighOrderCRF(templates.max_order, feature_order=templates.feature_order, l1_reg=0.5, **options)
    return make_pipeline(templates, crf), shuffled(X, y, 2)


def conll2000(**options):
    """Words and parts of speech, with the default features."""
    train, test = (load_sentences(("conll2000", f"{part}.txt.gz")) for part in ("train", "test"))
    extractor = SequenceFeatureExtractor(fields=["w", "p"])
    return make_pipeline(extractor, HighOrderCRF(1, sigma_reg=1.0, **options)), Split(*train, *test)


def handwriting(**options):
    """Names of the pixels that are on; fold 0 is for training."""
    train, test, _ = load_words()
    names = np.array([f"{row}.{column}" for row in range(16) for column in range(8)])
    (X, y), (X_test, y_test) = (
        ([[names[np.asarray(letter) > 0].tolist() for letter in word] for word in X], y) for X, y in (train, test)
    )
    return HighOrderCRF(5, sigma_reg=1.0, **options), Split(X, y, X_test, y_test)


DATA = {
    usaddress: [("usaddress", "train.jsonl.gz")],
    anystyle: [("anystyle_references", f"{part}.txt.gz") for part in ("core", "gold")],
    conll2000: [("conll2000", f"{part}.txt.gz") for part in ("train", "test")],
    handwriting: [("ocr", "letter.data.gz")],
}
HEADS = ["file", "weights", "bytes", "skops", "ratio", "import cpu s", "load cpu s", "MiB", "of numpy"]
HEADS += ["labels differ", "of tokens", "largest difference"]


def in_new_processes(path, n=5):
    """Return medians of processor seconds to import the module and to load a file, and resident memory after both."""
    runs = []
    for _ in range(n):
        run = subprocess.run([sys.executable, "-c", LOADING, path], capture_output=True, text=True, check=True)
        runs.append(list(map(float, run.stdout.split())))
    of_numpy, imported, loaded, memory = map(statistics.median, zip(*runs, strict=True))
    return f"{imported:.3f}", f"{loaded:.3f}", f"{memory:.0f}", f"{of_numpy:.0f}"


FORMS = {"float64": {"dtype": "float64"}, "float32": {}, "not compressed": {"compress": False}}


def rows_of(name, model, X, show_parts):
    """Return a row of the table for each form of a file."""
    skops_size, rows = len(skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED)), []
    n_weights = (model[-1] if hasattr(model, "steps") else model).n_parameters_
    for form, options in FORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            found = export_tagger(model, path, X=X, **options)
            head = f"{name}, {form}", n_weights, found.n_bytes, skops_size, f"{found.n_bytes / skops_size:.2f}"
            difference = f"{found.largest_difference:.1e}"
            rows.append([*head, *in_new_processes(path), found.n_different_labels, found.n_tokens, difference])
            if show_parts and "compress" in options:
                print_parts(path.read_bytes(), name)
    return rows


def print_parts(content, name):
    """Print the type, the shape and the bytes of each array of a file that is not compressed."""
    size = int.from_bytes(content[8:16], "little")
    arrays, parts = json.loads(content[16 : 16 + size])["arrays"], [["header", "", "", size, ""]]
    body = content[-(-(16 + size) // 64) * 64 :]
    for array, (dtype, shape, offset) in arrays.items():
        part = body[offset : offset + int(np.prod(shape)) * int(dtype[2])]
        packed = lzma.compress(part, filters=[{"id": lzma.FILTER_LZMA2, "lc": 2, "lp": 2, "pb": 2}])
        parts.append([array, dtype, shape, len(part), len(packed)])
    print_table([name, "type", "shape", "bytes", "compressed"], parts)


def main(arguments=None):
    names = [load.__name__ for load in DATA]
    options = parse(__doc__, arguments, data=names, max_iter=200, parts=False)
    rows = []
    for load, files in DATA.items():
        if load.__name__ not in options.data:
            continue
        if reason := absent(*files):
            print(f"{load.__name__} is left out: {reason}")
            continue
        model, split = load(max_iter=options.max_iter)
        rows += rows_of(load.__name__, fit_quietly(model, split.X, split.y), split.X_test, options.parts)
    print_table(HEADS, rows)


if __name__ == "__main__":
    main()
