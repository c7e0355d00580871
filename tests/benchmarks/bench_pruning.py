"""A thousand labels: models with a few candidates for each token, compared with a model that uses all labels.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_pruning.py [--candidates N ...] [--max-iter N]

The task is Turkish morphology (981 tags, order 1), with affixes of 1 to 10 letters and sigma 3. Times are processor
seconds of training from raw words, on one thread. 0 candidates stand for all labels. The data are in SKLEARN_HOCRF_DATA
or ../shared/data.
"""

import common
import numpy as np
from common import Process, data_file, keep_problem, parse, print_table, words_and_labels

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._engine.training.objectives import NegativeLogLikelihood
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

TURKISH = [("ud_turkish_morphology", f"{part}.tsv.gz") for part in ("train", "test")]


def turkish(n_sentences=None):
    """Return an extractor, training and test data, and parameters."""
    columns = ["word", "pos", "tag"]
    (X, y), test = (words_and_labels(data_file(*parts), columns, separator="\t") for parts in TURKISH)
    functions = [f"{kind}{k}" for kind in ("prefix", "suffix") for k in range(1, 11)] + ["is_title", "has_digit"]
    templates = [((name, 0),) for name in functions] + [(("w", offset),) for offset in (-1, 0, 1)]
    extractor = SequenceFeatureExtractor(templates, token_features=functions)
    return extractor, (X[:n_sentences], y[:n_sentences]), test, {"sigma_reg": 3.0}


def parts_of(tag):
    """Return the parts of a joint tag."""
    return tag.split("|")


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
        self.objective, self.w = NegativeLogLikelihood().bind(problem[0]), self.model._state.weights

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


def main(arguments=None):
    options = parse(__doc__, arguments, candidates=[0, 4, 6], sentences=int, max_iter=60)
    if common.skipped(common.absent(*TURKISH)):
        return
    rows = []
    for n in options.candidates:
        with Process() as process:
            case = process.keep(Tagger, n, n_sentences=options.sentences, max_iter=options.max_iter)
            rows.append([f"{n or 'all'}", f"{case.seconds('time_train'):.2f}", f"{case.call('track_accuracy'):.4f}"])
    print_table(["candidates", "training s", "accuracy"], rows)


if __name__ == "__main__":
    main()
