"""Latin verse: python-crfsuite and high orders, tuned, with the same features and with default features.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/verse.py [--folds N] [--rows ROW ...] [--keep DIR]

The task is the length of each syllable (long, short, elision) in the 9,840 hexameters of the Aeneid, in the five folds
of L. Nolden (thesis, Leiden 2022): ``KFold(5, shuffle=True, random_state=42)``. The number of syllables of each word is
given. The features are those of Nolden's program (the syllable, its ends, its neighbours and their ends), or those that
``SequenceFeatureExtractor()`` computes from the syllable and from whether it begins a word. The rows are those of
``protocol.table_rows``, with orders 2, 3 and 5; that program trains python-crfsuite with c1 = c2 = .1 for 100
iterations. Choices are made inside each training part, on an eighth of its lines, half of them held out, as protocol.py
describes; one fit with the chosen settings on all training lines follows. The command prints the F1 of each label. It
also prints the share of lines without an error if a spelling rule counts the syllables of each word, where lines with a
wrong count are wrong; and the results of protocol.print_results, by line. Needs python-crfsuite.
"""

import re
from functools import partial
from itertools import chain, pairwise

import numpy as np
import protocol
from protocol import Theirs, part, print_table
from public_data import load_hexameters
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold

from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

FILE, LABELS = ("hexameter", "aeneid.jsonl.gz"), ("long", "short", "elision")
PROGRAM = Theirs(c1=0.1, c2=0.1, max_iterations=100, possible_transitions=True)
SETS, ORDERS, EVERY = ("program's features", "by default"), (2, 3, 5), 8
ROWS = {
    f"{of}, {row}": models
    for of in SETS
    for row, models in protocol.table_rows(PROGRAM, f"{of}, dicts", of, ORDERS).items()
}
# letters that are no vowels, and what is one vowel, in Latin words that are spelled with j and v
NO_VOWEL = re.compile("(?<=q)u|(?<=ng)u(?=[aeiouy])|(?<=[aeiouy])i(?=[aeiouy])")
VOWEL = re.compile("ae|au|oe|eu(?!s$|m$)|(?<=^c)ui|(?<=^h)ui|[aeiouy]")


def of_syllable(syllables, t):
    """Return the attributes that the program gives to a syllable."""
    here = syllables[t]
    found = {"bias": True, "here": here, "last2": here[-2:], "last1": here[-1:]}
    if t:
        before = syllables[t - 1]
        found |= {"-1": before, "-1last1": before[-1:], "-1last2": before[-2:]}
    if t + 1 < len(syllables):
        after = syllables[t + 1]
        found |= {"+1": after, "+1first1": after[:1], "+1first2": after[:2]}
    return found | ({} if t else {"begin": True}) | ({} if t + 1 < len(syllables) else {"end": True})


def is_counted(line):
    """Return whether the rule finds as many syllables in each word as the scansion."""
    starts = [t for t, (_, begins) in enumerate(line) if begins == "1"]
    words = [[syllable for syllable, _ in line[a:b]] for a, b in pairwise([*starts, len(line)])]
    return all(len(VOWEL.findall(NO_VOWEL.sub("", "".join(word)))) == len(word) for word in words)


def both_forms(X, extractor):
    """Return features as lists of attribute names for python-crfsuite, and as a batch for ours."""
    batch = extractor.fit_transform(X)
    names, csr = extractor.get_feature_names_out(), batch.tocsr()
    rows = [[names[j] for j in csr.indices[a:b]] for a, b in zip(csr.indptr[:-1], csr.indptr[1:], strict=True)]
    return [rows[a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)], batch


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, folds=5, rows=list(ROWS), keep="")
    if protocol.skipped(protocol.absent(FILE, modules=["pycrfsuite"])):
        return
    pairs, y = load_hexameters(protocol.data_file(*FILE))
    lines = [[syllable for syllable, _ in line] for line in pairs]
    dicts = [[of_syllable(syllables, t) for t in range(len(syllables))] for syllables in lines]
    sources = (dicts, SequenceFeatureExtractor("attributes")), (pairs, SequenceFeatureExtractor())
    X = {}
    for name, of in zip(SETS, sources, strict=True):
        X[f"{name}, dicts"], X[name] = both_forms(*of)
    folds = list(KFold(5, shuffle=True, random_state=42).split(y))[: options.folds]
    results = {}
    for name in options.rows:
        print(f"{name}:", flush=True)
        run = partial(protocol.cross_validate, ROWS[name], X, y, folds, every=EVERY)
        results[name] = protocol.kept(options.keep, f"{name} {options.folds}", run)
    counted, rows = np.array([is_counted(line) for line in pairs]), []
    for name, of in results.items():
        flat = [list(chain(*part(labels, of.tested))) for labels in (y, of.labels)]
        f1 = f1_score(*flat, labels=LABELS, average=None, zero_division=0)
        right = 100 * (of.is_right & counted[of.tested]).mean()
        rows.append([f"F1, {name}", *(f"{value:.3f}" for value in f1), f"{right:.1f}"])
    print_table(["", *LABELS, f"entirely right %, syllables counted ({100 * counted.mean():.1f} % as given)"], rows)
    for features in SETS:
        of_features = {name: of for name, of in results.items() if name.startswith(features)}
        protocol.print_results(of_features, f"{features}, python-crfsuite, tuned")


if __name__ == "__main__":
    main()
