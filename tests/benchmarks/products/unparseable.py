"""Texts for which users of usaddress met its RepeatedLabelError: how many still have it.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/unparseable.py [--quick]

Tokens and features are made by the product's own functions. python-crfsuite as the product trains it, and chains of
order 1 and 3, are trained on all labelled addresses, and tag the texts that are not among these, letter by letter. True
labels of these are not known. Prints how many predictions repeat a label by the product's rule; how many do with
``predict_nbest(accept=)``, as none of the labellings that it looks at is accepted. Needs usaddress 0.5.16 and
python-crfsuite, both on PyPI, and usaddress (SKLEARN_HOCRF_DATA or ../shared/data). --quick: a third of the addresses,
and a tenth of the texts.
"""

import csv
import importlib.util
import json
import os
import tempfile
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import protocol
import usaddress as program
from protocol import Results, part

from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

TEXTS = ("usaddress", "unparseable.csv")


def load_product():
    """Return the product's package, whose name is that of the program in this folder; or None where it is absent."""
    try:
        path = distribution("usaddress").locate_file("usaddress/__init__.py")
    except PackageNotFoundError:
        return None
    spec = importlib.util.spec_from_file_location("product", path)
    product = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(product)
    return product


def count(labels):
    return sum(not program.no_repeats(one) for one in labels)


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False)
    product = load_product()
    missing = protocol.absent(program.FILE, TEXTS, modules=["pycrfsuite"])
    if protocol.skipped(missing or (None if product else "usaddress is not installed")):
        return
    rows = [json.loads(line) for line in protocol.read_lines(*program.FILE)]
    with open(protocol.data_file(*TEXTS), encoding="utf-8", newline="") as file:
        texts = list(dict.fromkeys(line[0] for line in csv.reader(file)))
    texts = [text for text in texts if text not in {row["text"] for row in rows}]
    if options.quick:
        rows, texts = rows[::3], texts[::10]
    tokens = [product.tokenize(text) for text in texts]
    dicts = [row["features"] for row in rows] + [product.tokens2features(one) for one in tokens]
    y = [row["labels"] for row in rows] + [[None] * len(one) for one in tokens]
    train, test = range(len(rows)), range(len(rows), len(y))
    results = Results(y)
    with tempfile.TemporaryDirectory() as folder:
        program.fit_theirs(results, dicts, train, test, os.path.join(folder, "theirs"))
    table = [[program.PRODUCT, count(part(results.labels, test)), ""]]
    X = {"own": SequenceFeatureExtractor("attributes").fit_transform(dicts)}
    for name in "order 1", "order 3":
        results = Results(y)
        results.fit(program.PLAIN[name], X, np.array(train), np.array(test), program.no_repeats)
        table.append([name, *(count(part(labels, test)) for labels in (results.labels, results.by_rule))])
    protocol.print_table([f"of {len(texts)} texts", "repeated labels", "with accept="], table)


if __name__ == "__main__":
    main()
