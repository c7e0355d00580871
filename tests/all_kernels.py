"""Compile all kernels, with small models of every kind, and count the compiled versions of each.

    python tests/all_kernels.py
    python tests/all_kernels.py --forwards    # only compiles; with a second process, --backwards, both meet in the
                                              # middle, because each finds what the other has compiled

The first command writes a JSON list of three objects, which give the number of versions of each kernel: after the small
models, after other sizes, forms and settings, and after extreme cases. The program counts only kernels that Python
calls; kernels that these call are compiled, and cached, as parts of them. It requires only the dependencies of the
package.
"""

import gc
import json
import sys
import warnings
from functools import partial
from itertools import product

from scipy import sparse

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf._estimator.answers.fitted import FittedModel
from sklearn_hocrf._shell.warm_up import (
    EXTREME,
    SIZE,
    compiled,
    everything,
    extremes,
    search_penalties,
    tags_of,
    toy,
    use,
    use_answers,
)
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

OTHER = [7, 2, *[9] * 20], 6
TRAININGS = {}, {"l1_reg": 0.1}, {"solver": "sgd"}, {"objective": "local_feature_matching"}


def main():
    """Write the numbers of compiled versions after small models, after other uses, and after extreme cases."""
    warnings.simplefilter("ignore")  # not converged
    gc.freeze()
    gc.set_threshold(20_000, 50, 1000)  # the collections of numba's objects would take a fifth of the time
    if len(sys.argv) > 1:
        uses = [*everything(*toy(*SIZE)), *extremes(*toy(*EXTREME)), partial(use_product, *toy(*EXTREME))]
        use_all(uses[:: 1 if "--forwards" in sys.argv else -1])
        return
    stages = []
    for uses in [*everything(*toy(*SIZE))], [*everything(*toy(*OTHER)), *others(*toy(*SIZE)), *others(*toy(*OTHER))]:
        use_all(uses)
        stages.append(compiled())
    use_all(extremes(*toy(*EXTREME)))
    json.dump([*stages, compiled()], sys.stdout)


def others(X, y):
    """Yield uses of other forms of X, orders and settings, which need the same kernels as :func:`everything`."""
    lists = [[[f"f{row[0]}", "g"] for row in rows] for rows in X]
    doubled, names = [2.0 * rows for rows in X], [[f"w{int(row.sum())}" for row in rows] for rows in X]
    forms = (
        X,
        doubled,
        list(map(sparse.csr_array, X)),
        lists,
        SequenceFeatureExtractor("attributes").fit_transform(lists),
    )
    for max_order, form in product(range(4), forms):
        yield partial(use, HighOrderCRF(max_order, n_jobs=1 + max_order % 2, max_iter=2), form, y)
    of_segments = SegmentFeatureExtractor(begin=True, inside=True, length="capped", identity=True)
    of_segments = of_segments.fit_transform(SequenceFeatureExtractor([(("w", 0),)]).fit_transform(names), y)
    for max_order, form in product(range(4), [X, doubled, of_segments]):
        yield partial(use, HighOrderSemiCRF(max_order, n_jobs=1 + max_order % 2, max_iter=2), form, y)
    forms_of = {HighOrderCRF: (X, doubled), HighOrderSemiCRF: (X, doubled, of_segments)}
    for (kind, forms), feature_order in product(forms_of.items(), range(2)):
        for form, training in product(forms, TRAININGS):
            yield partial(use, kind(2, feature_order=feature_order, n_jobs=2, max_iter=2, **training), form, y)
        for form in forms:
            yield partial(search_penalties, kind(2, feature_order=feature_order, n_jobs=2), form, y)
    yield partial(use, HighOrderCRF(3, pruning=2, max_iter=2), doubled, y)
    yield partial(use_answers, HighOrderCRF(3, pruning=2, constraints="bio", max_iter=2), doubled, tags_of(X))


def use_product(X, y):
    """Multiply a Hessian by weights on wide numbers, so that no process of tests has to compile kernels for this."""
    posterior, *_ = FittedModel(HighOrderCRF(2, max_iter=2).fit(X, y)).query([1e5 * rows for rows in X[1:]])
    posterior.hessian_vector_product(posterior.model.weights)


def use_all(uses):
    for use_model in uses:
        use_model()


if __name__ == "__main__":
    main()
