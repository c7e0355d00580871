"""Soft labels on real data: are probabilities of labels worth more than the most probable ones?

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_soft_labels.py [--sentences N] [--labelled N] [--teacher N]
        [--draws N] [--order K]

Names of conll2002 with the template of ``bench_ner``. In each draw a model is trained on some sentences with their true
labels ("labelled") and on others ("sentences") whose labels come from a teacher, a model of still other sentences
("teacher"): its predictions; its marginals, as soft labels; or five labellings that it draws, each with the weight 1/5.
Then the same with three annotators, each of whom misses 30 % of the names and gives 20 % of the others another type:
the most frequent label of a token, or the shares of the labels. Prints F1 of names and mean log-likelihood of the
sentences of esp.testb, both as means over draws. Needs conll2002 in SKLEARN_HOCRF_DATA or ../shared/data.
"""

from collections import Counter

import bench_ner
import common
import numpy as np

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.metrics import extract_segments, segment_f1_score

MISSED, MISTYPED, N_ANNOTATORS, N_SAMPLES = 0.3, 0.2, 3, 5
TYPES = ["LOC", "MISC", "ORG", "PER"]


def annotated(y, random):
    """Return the tags of one annotator."""
    found = []
    for labels, segments in zip(y, extract_segments(y, scheme="bio"), strict=True):
        tags = ["O"] * len(labels)
        for start, stop, name in segments:
            if random.random() < MISSED:
                continue
            if random.random() < MISTYPED:
                name = random.choice([other for other in TYPES if other != name])
            tags[start:stop] = [f"B-{name}", *[f"I-{name}"] * (stop - start - 1)]
        found.append(tags)
    return found


def votes(annotations):
    """Return the most frequent label of each token, the first one of equals, and the shares of labels as dicts."""
    counts = [
        [Counter(of_token) for of_token in zip(*of_sentence, strict=True)]
        for of_sentence in zip(*annotations, strict=True)
    ]
    most = [[count.most_common(1)[0][0] for count in sentence] for sentence in counts]
    return most, [[{k: n / N_ANNOTATORS for k, n in count.items()} for count in sentence] for sentence in counts]


def ways(teacher, X, y, random):
    """Return labels for X by name, as lists of (labels, weight of each sequence)."""
    classes = teacher.classes_.tolist()
    marginals = [
        [dict(zip(classes, row, strict=True)) for row in table.tolist()] for table in teacher.predict_marginals(X)
    ]
    samples = zip(*teacher.sample(X, N_SAMPLES, random_state=0), strict=True)
    most, shares = votes([annotated(y, random) for _ in range(N_ANNOTATORS)])
    return {
        "the labelled sentences alone": [],
        "and the teacher's predictions": [(teacher.predict(X), 1.0)],
        "and its marginals": [(marginals, 1.0)],
        "and five of its labellings": [(list(labels), 1 / N_SAMPLES) for labels in samples],
        "and the majority of annotators": [(most, 1.0)],
        "and their shares": [(shares, 1.0)],
    }


def main(arguments=None):
    options = common.parse(__doc__, arguments, sentences=1500, labelled=200, teacher=4000, draws=3, order=2)
    if common.skipped(common.absent(bench_ner.TRAIN, bench_ner.TEST)):
        return
    names, found = bench_ner.load_names(), {}
    for draw in range(options.draws):
        random = np.random.default_rng(draw)
        sizes = np.cumsum([options.labelled, options.sentences, options.teacher])
        own, others, taught = np.split(random.permutation(len(names.y_train))[: sizes[-1]], sizes[:-1])
        teacher = fitted(names, options.order, [(taught, part(names.y_train, taught), 1.0)])
        for name, labels in ways(teacher, names.train[others], part(names.y_train, others), random).items():
            rows = [(own, part(names.y_train, own), 1.0), *((others, *pair) for pair in labels)]
            model = fitted(names, options.order, rows)
            f1 = segment_f1_score(names.y_test, model.predict(names.test), scheme="bio")
            found.setdefault(name, []).append((100 * f1, model.log_likelihood(names.test, names.y_test).mean()))
        print(".", end="", flush=True)
    print()
    rows = [[name, *(f"{mean:.2f}" for mean in np.mean(values, axis=0))] for name, values in found.items()]
    common.print_table(["", "F1", "log-likelihood"], rows)


def part(y, numbers):
    return [y[i] for i in numbers.tolist()]


def fitted(names, order, rows):
    """Return the model of sequences, given as (numbers, labels, weight of each sequence)."""
    numbers = np.concatenate([numbers for numbers, _, _ in rows])
    y = [labels for _, of, _ in rows for labels in of]
    weight = np.concatenate([np.full(len(numbers), weight) for numbers, _, weight in rows])
    return common.fit_quietly(HighOrderCRF(order), names.train[numbers], y, sample_weight=weight)


if __name__ == "__main__":
    main()
