"""A thousand labels: a few candidates for each token, beside the model of all labels.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_pruning.py [--tasks T ...] [--orders K ...] [--candidates N ...]

``--exact`` are the orders of models of all labels, and with
``--parts`` labels have parts. One thread, processor seconds. Turkish morphology (981 tags) with affixes of 1 to 10
letters from raw words, sigma 3; joint tags of speech and chunks of conll2000 (319) with the template of
``bench_chunking``. All models have 60 iterations unless ``--max-iter`` says otherwise. Each model has a process of its
own, for its peak of memory. Data come from SKLEARN_HOCRF_DATA or ../shared/data; a task whose data is absent is left
out.
"""

import time

import common
import numpy as np
from bench_features import TEMPLATES
from common import TURKISH, Process, data_file, keep_problem, parse, peak_mebibytes, print_table, words_and_tags

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._objectives import NegativeLogLikelihood
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

CONLL = [("conll2000", f"{part}.txt.gz") for part in ("train", "test")]
HEADS = ["model", "training s", "extraction s", "fit s", "passes", "ms a pass", "steps a token"]
HEADS += ["MiB", "tokens/s", "recall", "accuracy"]


def turkish(n_sentences=None):
    """Return an extractor, training and test data, and parameters."""
    (X, y), test = (words_and_tags(data_file(*parts)) for parts in TURKISH)
    functions = [f"{kind}{k}" for kind in ("prefix", "suffix") for k in range(1, 11)] + ["is_title", "has_digit"]
    templates = [((name, 0),) for name in functions] + [(("w", offset),) for offset in (-1, 0, 1)]
    extractor = SequenceFeatureExtractor(templates, token_features=functions)
    return extractor, (X[:n_sentences], y[:n_sentences]), test, {"sigma_reg": 3.0}


def conll2000(n_sentences=None):
    """Return the same for joint tags of speech and chunks."""
    parts = []
    for file in CONLL:
        rows, tags = load_conll(data_file(*file), ["w", "p", "tag"])
        joint = [
            [f"{token['p']}|{tag}" for token, tag in zip(*pair, strict=True)] for pair in zip(rows, tags, strict=True)
        ]
        parts.append(([[token["w"] for token in row] for row in rows], joint))
    (X, y), test = parts
    templates = [template for template in TEMPLATES if all(field == "w" for field, _ in template)]
    functions = ["prefix1", "prefix2", "prefix3", "suffix1", "suffix2", "suffix3", "shape"]
    templates += [((name, 0),) for name in functions]
    extractor = SequenceFeatureExtractor(templates, token_features=functions)
    return extractor, (X[:n_sentences], y[:n_sentences]), test, {"sigma_reg": 1.0}


def parts_of(tag):
    """Return the parts of a joint tag."""
    return tag.split("|")


TASKS = {task.__name__: task for task in (turkish, conll2000)}


def measure(name, n_sentences, parameters):
    """Return the row of a model."""
    extractor, (X, y), (X_test, y_test), own = TASKS[name](n_sentences)
    crf = HighOrderCRF(**{**own, **parameters})
    problem, seconds = keep_problem(crf), {}

    def timed(what, call, *arguments):
        start = time.process_time()
        result = call(*arguments)
        seconds[what] = seconds.get(what, 0.0) + time.process_time() - start
        return result

    # what is compiled, or read from the disk cache, does not count
    few = HighOrderCRF(**{**own, **parameters, "max_iter": 1})
    common.fit_quietly(few, extractor.fit_transform(X[:50]), y[:50]).predict(extractor.transform(X_test[:5]))
    train = timed("extraction", extractor.fit_transform, X)
    timed("fit", common.fit_quietly, crf, train, y)
    peak = peak_mebibytes()
    predicted = timed("tagging", lambda: crf.predict(extractor.transform(X_test)))
    right = [a == b for mine, true in zip(predicted, y_test, strict=True) for a, b in zip(mine, true, strict=True)]
    objective, gradients = NegativeLogLikelihood().bind(problem[0]), []
    for _ in range(4):
        start = time.process_time()
        objective.value_gradient(crf._weights)
        gradients.append(1e3 * (time.process_time() - start))
    lattice = getattr(problem[0].plan, "lattice", None)
    steps = "" if lattice is None else f"{len(lattice.arc) / problem[0].batch.n_tokens:.1f}"
    return [
        f"order {crf.max_order}, {crf.pruning or 'all labels'}",
        f"{seconds['extraction'] + seconds['fit']:.2f}",
        f"{seconds['extraction']:.2f}",
        f"{seconds['fit']:.2f}",
        int(crf.n_passes_),
        f"{np.median(gradients[1:]):.1f}",
        steps,
        f"{peak:.0f}",
        f"{len(right) / seconds['tagging']:.0f}",
        f"{getattr(crf, 'pruning_recall_', np.nan):.4f}",
        f"{np.mean(right):.4f}",
    ]


class Tagger:
    """Turkish morphology at order 1, for ``compare.py``; ``n_candidates`` 0 stands for all labels.

    With ``has_parts``, labels have parts.
    """

    def setup(self, n_candidates, n_sentences=None, max_iter=60, has_parts=False):
        common.skip_where(common.absent(*TURKISH))
        self.extractor, self.train, self.test, own = turkish(n_sentences)
        own |= {"label_parts": parts_of} if has_parts else {}
        self.model = HighOrderCRF(1, pruning=n_candidates or None, max_iter=max_iter, tol=1e-2, **own)
        problem = keep_problem(self.model)
        self.model.set_params(max_iter=1)
        common.fit_quietly(self.model, self.extractor.fit_transform(self.train[0]), self.train[1])
        self.model.set_params(max_iter=max_iter)
        self.objective, self.w = NegativeLogLikelihood().bind(problem[0]), self.model._weights

    def time_gradient(self, n_candidates):
        self.objective.value_gradient(self.w)

    def time_train(self, n_candidates):
        common.fit_quietly(self.model, self.extractor.fit_transform(self.train[0]), self.train[1])

    def time_tag(self, n_candidates):
        self.model.predict(self.extractor.transform(self.test[0]))

    def track_tokens(self, n_candidates):
        return sum(map(len, self.test[0]))

    def track_accuracy(self, n_candidates):
        predicted = self.model.predict(self.extractor.transform(self.test[0]))
        return float(np.mean([a == b for x, y in zip(predicted, self.test[1]) for a, b in zip(x, y)]))  # noqa: B905


def main():
    limits = {"orders": [1, 2, 3], "candidates": [4, 6], "exact": [1]}
    options = parse(__doc__, None, tasks=list(TASKS), **limits, parts=False, sentences=int, max_iter=60, tol=1e-2)
    for name in options.tasks:
        if common.skipped(common.absent(*{turkish: TURKISH, conll2000: CONLL}[TASKS[name]])):
            continue
        cases = [{"max_order": order} for order in options.exact]
        cases += [{"max_order": order, "pruning": n} for order in options.orders for n in options.candidates]
        rows = []
        for case in cases:
            with Process() as process:
                settings = {**case, "max_iter": options.max_iter, "tol": options.tol}
                settings |= {"label_parts": parts_of} if options.parts else {}
                rows.append(process.run(measure, name, options.sentences, settings))
            print(rows[-1], flush=True)
        print(f"\n{name}")
        print_table(HEADS, rows)


if __name__ == "__main__":
    main()
