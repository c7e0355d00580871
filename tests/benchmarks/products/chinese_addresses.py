"""Chinese addresses (Li, Lu, Xie and Li, NAACL 2019): chains over characters, chosen by the development set alone.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/chinese_addresses.py [--quick] [--dev-only] [--keep FOLDER]

8,957 addresses to train, 2,985 to choose, 2,985 to test, with 21 labels in BIO tags; tokens are characters and runs of
digits or letters. Measure: F1 of exact segments, as conlleval counts them. Published, and not run here: 89.93 (latent
trees over a BiLSTM with word vectors), trained on the training part and tuned on the development part.

Protocol: models are trained on the training part alone, never on dev. On dev, a threshold of THRESHOLDS is chosen for
each row of likely segments (those whose probability, for POOL the mean of both models, reaches it). The same fitted
models are then run once on test: the best labellings (the plain rows) and the likely segments, with the number of
addresses whose segments are all right. The row to compare with 89.93 is the one with the highest F1 on dev. Intervals
are a bootstrap of addresses. Features, orders and penalties were explored on dev, mostly with a third of the training
part; test was seen twice before, with other models (87.96 by a chain, 89.64 by a semi-CRF with a threshold). Needs
chinese_addresses (SKLEARN_HOCRF_DATA or ../shared/data). --quick: an eighth of the addresses. --dev-only: nothing is
run on test. --keep: a folder for the fitted models, read where they exist.
"""

import os
import re
import time
from bisect import bisect_left
from collections import Counter
from functools import partial

import numpy as np
import protocol
from protocol import print_table

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.text import convert_tags, extract_segments

FILES = {part: ("chinese_addresses", f"{part}.txt.gz") for part in ("train", "dev", "test")}
PUBLISHED, LOWEST, THRESHOLDS, N_RESAMPLED = 89.93, 0.1, (0.3, 0.35, 0.4, 0.45, 0.5), 1999
SEEN = frozenset("省市区县镇村路号")  # province, city, district, county, town, village, road, number
# fields of one letter, each with its offset if that is not 0; features() says what they are
CHARACTERS = ["c", "n", "n-1", "n+1", "n-2", "n+2", "n-1 n", "n n+1", "n-2 n-1", "n+1 n+2", "n-1 n+1", "n-1 n n+1"]
CLASSES = ["k-2 k-1 k", "k-1 k k+1", "k k+1 k+2"]
UNITS = ["u", "u d", "u s", "p", "p u d", "p s"]
PLACES = ["q p u", "u v d", "n u d", "i"]
NAMES = ["m", "m-1 m", "m m+1", "o", "m o", "m b", "m a", "b", "b k", "b u d"]
POOL = "mean of both"
MODELS = {
    "order 2 over segments": (
        [*CHARACTERS, *CLASSES, *UNITS, "w", "r", *PLACES],
        HighOrderCRF(2, history="segments", constraints="bioes", tol=0.03),
    ),
    "order 1, names": (
        [*CHARACTERS, *CLASSES, *UNITS, "w", "r", *NAMES],
        HighOrderCRF(1, constraints="bioes", tol=0.03),
    ),
}


def load(quick):
    """Return the tokens and the tags of each part."""
    parts = {}
    for part, file in FILES.items():
        blocks = "\n".join(protocol.read_lines(*file)).split("\n\n")[:: 8 if quick else 1]
        rows = [[line.rsplit(" ", 1) for line in block.split("\n")] for block in blocks]
        parts[part] = [[token for token, _ in row] for row in rows], [[tag for _, tag in row] for row in rows]
    return parts


def learn(X, y):
    """Return units, characters that usually end a segment, and the labels of names, texts with a usual label.

    A unit occurs at least 20 times, and at least half of the time at the end of a segment. A name has two characters or
    more, and at least 5 of the segments with this text, and at least 60 % of them, have the label.
    """
    tokens, ends, labels = Counter(token for x in X for token in x), Counter(), {}
    for x, segments in zip(X, extract_segments(y, scheme="bio"), strict=True):
        ends.update(x[stop - 1] for _, stop, _ in segments)
        for start, stop, label in segments:
            labels.setdefault(tuple(x[start:stop]), Counter())[label] += 1
    units = {token for token, n in ends.items() if 2 * n >= tokens[token] >= 20 and not token.isascii()}
    usual = {text: counts.most_common(1)[0] for text, counts in labels.items() if len(text) > 1}
    return units, {text: label for text, (label, n) in usual.items() if n >= max(5, 0.6 * labels[text].total())}


def find_names(x, names):
    """Return (start, stop, label) of the longest names of an address, from left to right."""
    found, start = [], 0
    while start < len(x):
        stop = next((stop for stop in range(start + 6, start + 1, -1) if tuple(x[start:stop]) in names), None)
        if stop:
            found.append((start, min(stop, len(x)), names[tuple(x[start:stop])]))
        start = stop or start + 1
    return found


def features(x, units, names):
    """Return the fields of each token of an address."""
    shapes = [re.sub("[0-9]", "9", re.sub("[A-Za-z]", "A", token)) for token in x]
    classes = [n if n != t or t in units or not "一" <= t <= "鿿" else "x" for t, n in zip(x, shapes, strict=True)]
    marks = [i for i, token in enumerate(x) if token in units or shapes[i] != token]
    around = ["^", "^", *[classes[i] for i in marks], "$", "$"]
    tokens = []
    for i, token in enumerate(x):
        n = bisect_left(marks, i)
        tokens.append({"c": token, "n": shapes[i], "k": classes[i]})  # itself; digits and letters alike; its class
        tokens[i] |= dict(zip("qpuv", around[n : n + 4], strict=True))  # two units or numbers before, two from here on
        tokens[i] |= {"s": str(min(i - [-1, *marks][n], 5)), "d": str(min([*marks, len(x)][n] - i, 5))}  # how far
        tokens[i] |= {"w": "".join(sorted(SEEN.intersection(x[:i]))), "r": str(token in x[:i])}  # seen; repeated
        tokens[i] |= {"i": str(min(i, 15)), "m": "-", "o": "-"}
    found = find_names(x, names)
    for start, stop, label in found:
        others = [[name for name in found if name[1] <= start], [name for name in found if name[0] >= stop]]
        once = [str(label in {name[2] for name in side}) for side in others]  # does its label occur before, or after
        for i in range(start, stop):
            tokens[i] |= {"m": label + ("B" if i == start else "E" if i == stop - 1 else "I"), "o": " ".join(once)}
    for i, token in enumerate(tokens):  # labels of the names before and after
        token["b"] = " ".join([label for _, stop, label in found if stop <= i][-3:])
        token["a"] = " ".join([label for start, _, label in found if start > i][:2])
    return tokens


def templates_of(texts):
    """Return the templates that texts like those above describe."""
    return [[(field[0], int(field[1:] or 0)) for field in text.split()] for text in texts]


def run(templates, crf, parts):
    """Return the fitted model and the processor seconds of its features and its fit."""
    start = time.process_time()
    units, names = learn(*parts["train"])
    X = [features(x, units, names) for x in parts["train"][0]]
    extractor = SequenceFeatureExtractor(templates_of(templates), None)
    model = make_pipeline(extractor, crf)
    protocol.fit_quietly(model, X, convert_tags(parts["train"][1], "bio", "bioes"))
    return model, time.process_time() - start


def predict(model, X):
    """Return the segments of the best labelling of each sequence, and the probabilities of all that are likely."""
    likely = [table.tolist() for table in model.predict_segments(X, threshold=LOWEST)]
    plain = [set(segments) for segments in model.predict_segments(X)]
    return plain, [{tuple(segment): p for *segment, p in table} for table in likely]


def above(members, threshold):
    """Return the segments whose mean probability in all members reaches a threshold."""
    return [
        {one for one in set().union(*of) if sum(likely.get(one, 0) for likely in of) >= threshold * len(members)}
        for of in zip(*members, strict=True)
    ]


def counts(truth, found):
    """Return (right, true and found) segments of each address, shape (n, 2): F1 is twice the first by the second."""
    return np.array([(len(one & other), len(one) + len(other)) for one, other in zip(truth, found, strict=True)])


def f1(of):
    right, total = of.sum(axis=-2).T
    return 200 * right / total


def answers(fitted, parts, part):
    """Return the true segments of a part, those of the best labellings by model, and the likely ones by row."""
    units, names = learn(*parts["train"])
    X = [features(x, units, names) for x in parts[part][0]]
    truth = [set(segments) for segments in extract_segments(parts[part][1], scheme="bio")]
    found = {name: predict(model, X) for name, (model, _) in fitted.items()}
    likely = {name: [of] for name, (_, of) in found.items()} | {POOL: [of for _, of in found.values()]}
    return truth, {name: plain for name, (plain, _) in found.items()}, likely


def row(name, seconds, truth, found):
    """Return a line of the table: F1, its bootstrap interval over addresses, and how many addresses have no error."""
    of = counts(truth, found)
    drawn = np.random.default_rng(0).integers(len(of), size=(N_RESAMPLED, len(of)))
    low, high = np.quantile(f1(of[drawn]), [0.025, 0.975])
    right = sum(one == other for one, other in zip(truth, found, strict=True))
    return [name, f"{f1(of):.2f}", f"{low:.2f} to {high:.2f}", f"{right} of {len(of)}", f"{seconds:.0f}"]


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False, dev_only=False, keep="")
    if protocol.skipped(protocol.absent(*FILES.values())):
        return
    parts, fitted = load(options.quick), {}
    for name, (templates, crf) in MODELS.items():
        path = os.path.join(options.keep, name) if options.keep else None
        fitted[name] = protocol.kept(path, partial(run, templates, crf, parts))
    seconds = {name: of for name, (_, of) in fitted.items()}
    seconds[POOL] = sum(seconds.values())
    truth, plain, likely = answers(fitted, parts, "dev")
    score = {(name, t): f1(counts(truth, above(of, t))) for name, of in likely.items() for t in THRESHOLDS}
    chosen = {name: max(THRESHOLDS, key=lambda t, name=name: score[name, t]) for name in likely}
    for part in ["dev"] if options.dev_only else ["dev", "test"]:
        if part == "test":
            truth, plain, likely = answers(fitted, parts, part)
        rows = [row(name, seconds[name], truth, found) for name, found in plain.items()]
        for name, of in likely.items():
            rows.append(row(f"{name}, p >= {chosen[name]}", seconds[name], truth, above(of, chosen[name])))
        rows += [["published", f"{PUBLISHED:.2f}", "", "", ""]] if part == "test" else []
        print_table([part, "F1", "95 % interval", "addresses right", "s a fit"], rows)


if __name__ == "__main__":
    main()
