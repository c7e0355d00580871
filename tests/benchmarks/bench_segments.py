"""Training time of segmentation, with CRFs (C) and semi-CRFs (SC) of several orders.

This is the benchmark of ``compare.py --tasks punctuation``: the time of a gradient, and of training to convergence,
including the extraction of features. Needs punctuation in SKLEARN_HOCRF_DATA or ../shared/data.
"""

import bench_punctuation
from common import fit_quietly, keep_problem, skip_where, some_weights

from sklearn_hocrf._engine.training.objectives import NegativeLogLikelihood

MORE_THAN_NEEDED = 2000  # iterations


class Segmentation:
    """Features and a model for a case."""

    def setup(self, model, order, n_sequences=None, max_iter=MORE_THAN_NEEDED):
        kind, few, data = {"C": "chain", "SC": "segment"}[model], *map(bench_punctuation.load, (10, n_sequences))
        skip_where("the data of punctuation is absent" if data is None else None)
        self.features, make = (getattr(bench_punctuation, f"{kind}_{what}") for what in ("features", "model"))
        self.features, self.crf = self.features(), make(order, max_iter=max_iter)
        # loads the kernels
        fit_quietly(make(order, max_iter=1), self.features.fit_transform(few.X, few.y), few.y)
        self.X, self.y = data.X, data.y
        self.problem = keep_problem(self.crf)

    def extract(self):
        self.batch = self.features.fit_transform(self.X, self.y)

    def fit(self):
        fit_quietly(self.crf, self.batch, self.y)


class Training(Segmentation):
    """Training to convergence, features included."""

    def time_train(self, *_):
        self.extract()
        self.fit()


class Gradient(Segmentation):
    """Value and gradient of the likelihood at one point."""

    def setup(self, model, order, n_sequences=None, n_jobs=1):
        super().setup(model, order, n_sequences, max_iter=1)
        self.extract()
        self.fit()
        self.problem[0].n_jobs = n_jobs
        self.objective = NegativeLogLikelihood().bind(self.problem[0])
        self.w = some_weights(self.objective)

    def time_gradient(self, *_):
        return self.objective.value_gradient(self.w)
