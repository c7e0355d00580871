"""Taggers for two languages with little data: Khmer parts of speech and Burmese names, next to published figures.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/small_languages.py [--sets khpos myner joint]

The data are khPOS (12,000 sentences, 23 tags) and myNER 1.0 (22 tags like those of BIOES), with their training and test
files. The features are those that ``SequenceFeatureExtractor()`` computes from the words alone; for myNER, also those
of the notebook of its authors. The order, 1 or 2 (myNER: up to 3), and ``sigma_reg`` are chosen on a fifth of the
sentences of the training file, half of them held out, as protocol.py describes; one fit on the whole file and one test
follow. For myNER, python-crfsuite is also trained, with the features and settings of the authors' notebook, to measure
its time on this machine. "joint" uses the same sentences, with one label for the part of speech and the name tag of
each word; labels with a common part share weights, and each word keeps four labels (``label_parts``, ``pruning``).
Correct tokens and the F1 of names are then those of the name tags. The command prints the share of correct tokens,
weighted and macro F1 (a label that occurs only in predictions counts 0), F1 of exact names, and processor seconds of a
fit from extracted features. Needs python-crfsuite.
"""

from functools import partial
from itertools import chain
from operator import methodcaller

import numpy as np
import protocol
from protocol import Results, Theirs, part, print_table, words_and_labels
from public_data import load_tagged_words
from sklearn.metrics import f1_score

from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import segment_f1_score, token_accuracy_score

AUTHORS = Theirs(c1=0.1, c2=0.1, max_iterations=100, possible_transitions=True)
DIGITS = set("0123456789\u1040\u1041\u1042\u1043\u1044\u1045\u1046\u1047\u1048\u1049")
EVERY = 5
PUBLISHED = {
    "khpos": ["tokens right: ripple-down rules 95.33 %, HMM of order 3 95.26 %, CRF++ 94.82 % (625 s)"],
    "myner": ["sklearn-crfsuite: tokens right 98.18 %, F1 .9812 (weighted), .7405 (macro), 51 s",
              "the same with fastText: .9818, .9811, .7429, 52 s"],
    "joint": ["sklearn-crfsuite: 1,208 s"],
}  # fmt: skip


BURMESE = ["train.conll.gz", "test.conll.gz"]
SETS = {
    "khpos": ("khpos", ["train.txt.gz", "test.txt.gz"], load_tagged_words, (1, 2)),
    "myner": ("myner", BURMESE, partial(words_and_labels, separator="\t"), (1, 2, 3)),
    "joint": ("myner", BURMESE, partial(words_and_labels, columns=["word", "pos", "tag"], separator="\t"), (1,)),
}
SETTINGS = {"joint": {"label_parts": methodcaller("split", "|"), "pruning": 4}}


def of_authors(words):
    """Return the attributes of the words of a sentence in the notebook of myNER's authors."""
    return [
        {"word": word, "is_first": t == 0, "is_last": t + 1 == len(words), "has_hyphen": "-" in word}
        | {f"prefix-{n}": word[:n] for n in (1, 2, 3)}
        | {f"suffix-{n}": word[-n:] for n in (1, 2, 3)}
        | {"prev_word": words[t - 1] if t else "", "next_word": words[t + 1] if t + 1 < len(words) else ""}
        | {"is_numeric": DIGITS.issuperset(word)}
        for t, word in enumerate(words)
    ]


def figures(results, y, name):
    """Return tokens right, F1 weighted and macro, and F1 of exact segments."""
    true, found = part(y, results.tested), part(results.labels, results.tested)
    flat = [list(chain(*labels)) for labels in (true, found)]
    f1 = [f1_score(*flat, average=average, zero_division=0) for average in ("weighted", "macro")]
    true, found = ([[tag.rpartition("|")[2] for tag in tags] for tags in labels] for labels in (true, found))
    names = f"{segment_f1_score(true, found, scheme='bioes'):.4f}" if name != "khpos" else ""
    return [f"{100 * token_accuracy_score(true, found):.2f}", *(f"{value:.4f}" for value in f1), names]


def test_once(models, X, y, train, test):
    """Return the results of the best of some models on the test part."""
    best = protocol.choose(models, X, y, train[::EVERY], 2) if len(models) > 1 else ""
    results = Results(y)
    results.fit(models[best], X, train, test)
    results.chosen.append(best)
    return results


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, sets=list(SETS))
    for name in options.sets:
        folder, files, load, orders = SETS[name]
        if protocol.skipped(protocol.absent(*((folder, file) for file in files), modules=["pycrfsuite"])):
            continue
        (words, y), (X_test, y_test) = (load(protocol.data_file(folder, file)) for file in files)
        train, test = np.arange(len(y)), np.arange(len(y), len(y) + len(y_test))
        words, y, table = words + X_test, y + y_test, []
        X = {"own": SequenceFeatureExtractor().fit_transform(words), "authors": list(map(of_authors, words))}
        rows = {"ours": protocol.chains("own", orders, **SETTINGS.get(name, {}))}
        if name == "myner":
            rows["ours, the authors' features"] = protocol.chains("authors", orders)
            rows["python-crfsuite, as the authors train it"] = {"": [("authors", AUTHORS)]}
        for row, models in rows.items():
            results = test_once(models, X, y, train, test)
            table.append([row, *figures(results, y, name), f"{results.seconds[0]:.1f}", results.chosen[0]])
            print(*table[-1], sep=" | ", flush=True)
        print(name, *PUBLISHED[name], sep="\n  ")
        print_table(["", "tokens right %", "F1 weighted", "macro", "of names", "s a fit", "chosen"], table)


if __name__ == "__main__":
    main()
