"""Compile all kernels by fitting models of every kind to toy data, for container images and for tests.

numba compiles kernels for the argument types with which models call them, so no list of these types is needed. A test
checks that this module compiles all kernels.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

import sklearn_hocrf as hocrf

from .._engine import kernels as _kernels
from .._engine.kernels import lists as rounded
from .._engine.kernels._jit import waiting

SIZE = [3, 5, 1, 4], 3  # lengths of sequences, and number of features
EXTREME = [600, 3, 4], 3  # likewise, but the first sequence is long enough to be processed alone


class WarmUp(NamedTuple):
    """Result of a warm-up."""

    n_versions: int  # of kernels that Python code calls, which are compiled with all kernels that they call
    n_compiled: int  # of these versions; the others were in the folder already
    folder: str
    seconds: float


def warm_up(tell: Callable[[int, int, int], None]) -> WarmUp:
    """Compile all kernels into the disk cache.

    Parameters
    ----------
    tell : callable
        Called before the first model and after each model, with the number of models used so far, the total number of
        models, and the number of kernel versions that have been compiled or loaded so far.

    Raises
    ------
    OSError
        If no folder can store the kernels, or if the folder is not the one that NUMBA_CACHE_DIR names.
    """
    start, folder = time.perf_counter(), _folder()
    waiting.is_told = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        warnings.filterwarnings("error", "Compiled kernels cannot be kept")
        try:
            uses = [*everything(*toy(*SIZE)), *extremes(*toy(*EXTREME))]
            for n_done, use_model in enumerate([lambda: None, *uses]):
                use_model()
                tell(n_done, len(uses), sum(compiled().values()))
        except UserWarning as warning:
            raise OSError(str(warning)) from None
    stats = [kernel.stats for kernel in kernels().values()]
    n_compiled = sum(sum(one.cache_misses.values()) for one in stats)
    n_loaded = sum(sum(one.cache_hits.values()) for one in stats)
    return WarmUp(n_compiled + n_loaded, n_compiled, folder, time.perf_counter() - start)


def _folder() -> str:
    """Return the folder of the disk cache, or raise an error if there is none that later runs can use."""
    folders = [kernel.stats.cache_path for kernel in kernels().values()]
    folder, wanted = folders[0], os.environ.get("NUMBA_CACHE_DIR")
    if wanted and (folder is None or os.path.realpath(os.path.dirname(folder)) != os.path.realpath(wanted)):
        raise OSError(f"NUMBA_CACHE_DIR={wanted} is not writable, or others may write to it, too")
    if folder is None:
        raise OSError(
            "neither the package's folder nor the user's cache is writable: set the environment variable "
            "NUMBA_CACHE_DIR to a writable folder"
        )
    return folder


def kernels() -> dict[str, Any]:
    """Return the kernels that Python code may call, by file and name."""
    kernel_of = {}
    for info in pkgutil.iter_modules(_kernels.__path__):
        module = importlib.import_module(f"{_kernels.__name__}.{info.name}")
        for name, kernel in vars(module).items():
            is_local = getattr(getattr(kernel, "py_func", None), "__module__", None) == module.__name__
            if is_local and not (info.name.startswith("_") or name.startswith("_")):
                kernel_of[f"{info.name}.{name}"] = kernel
    return kernel_of


def compiled() -> dict[str, int]:
    """Return the number of compiled versions of each kernel, without kernels that have none."""
    return {name: len(kernel.signatures) for name, kernel in kernels().items() if kernel.signatures}


def everything(X, y) -> Iterator[Callable[[], None]]:
    """Return functions, each of which fits and uses one model on toy data; together, they use all kernels."""
    return chain.from_iterable(kind(X, y) for kind in (chains, segments, parts, answers, lattices, many_weights))


def use(model, X, y):
    """Fit a model and call all of its methods."""
    model.fit(X, y).predict(X)
    model.score(X, y)
    model.predict_marginals(X)
    model.log_likelihood(X, y)
    model.pattern_marginals(X, [y[0][:2]])
    model.predict(X[:1])  # single sequences use separate kernels
    model.predict_marginals(X[:1])
    model.log_likelihood(X[:1], y[:1])
    if getattr(model, "pruning", None) is None:  # use_answers predicts segments of pruned models
        model.predict_segments(X, threshold=0.1)
        model.predict_segments(X[:1], with_probability=True)


def search_penalties(model, X, y):
    """Search for penalties, because this search computes products with the Hessian."""
    hocrf.model_selection.PenaltySearchCV(model, cv=2, max_steps=1, refit=False).fit(X, y)


def toy(lengths, n_features):
    """Return features and labels of tokens; neighbouring tokens have different labels."""
    rng = np.random.default_rng(0)
    X = [(rng.integers(0, 3, size=(length, n_features)) == 0).astype(float) for length in lengths]  # hence sparse
    return X, [["abc"[label % 3] for label in rng.integers(1, 3, size=length).cumsum()] for length in lengths]


def chains(X, y):
    """Yield functions that use chains, with sparse and dense features and with all objectives and solvers."""
    dicts = [[{"f": str(row[0]), "g": row.sum()} for row in rows] for rows in X]
    batch = hocrf.feature_extraction.SequenceFeatureExtractor().fit_transform(dicts)
    for form in X, dicts, batch, [rows + 0.5 for rows in X], [(rows + 0.5).astype(np.float32) for rows in X]:
        yield partial(use, hocrf.HighOrderCRF(max_iter=2), form, y)
    for params in {"feature_order": 1}, {"solver": "sgd"}, {"objective": "local_feature_matching"}:
        yield partial(use, hocrf.HighOrderCRF(max_iter=2, **params), X, y)


def segments(X, y):
    """Yield functions that use semi-CRFs, with and without segment features and with all objectives and solvers."""
    names = [[f"w{np.flatnonzero(row).sum()}" for row in rows] for rows in X]
    tokens = hocrf.feature_extraction.SequenceFeatureExtractor([(("w", 0),)]).fit(names).transform(names)
    extractor = hocrf.feature_extraction.SegmentFeatureExtractor(
        begin=True, inside=True, length="capped", identity=True
    )
    yield partial(use, hocrf.HighOrderSemiCRF(segment_length=np.inf, max_iter=2), tokens, y)
    whole = [["ab"[number % 2]] * len(row) for number, row in enumerate(y)]
    yield partial(hocrf.HighOrderSemiCRF(segment_length={"a": (2, None)}, max_iter=2).fit, tokens, whole)
    for params in {}, {"solver": "sgd"}, {"objective": "local_feature_matching"}:
        yield partial(use, hocrf.HighOrderSemiCRF(max_iter=2, **params), extractor.fit_transform(tokens, y), y)


def parts(X, y):
    """Yield a function that uses a model whose labels share a part."""
    yield partial(use, hocrf.HighOrderCRF(label_parts=lambda _: ["early"], max_iter=2), X, y)


def answers(X, _):
    """Yield functions that call the prediction methods of tagging models, with and without known labels."""
    for model in hocrf.HighOrderCRF(max_iter=2), hocrf.HighOrderSemiCRF(scheme="bio", max_iter=2):
        yield partial(use_answers, model, X, tags_of(X))


def lattices(X, y):
    """Yield functions that use candidate lattices."""
    yield partial(use, hocrf.HighOrderCRF(pruning=2, max_iter=2), X, y)
    yield partial(use_answers, hocrf.HighOrderCRF(pruning=2, constraints="bio", max_iter=2), X, tags_of(X))


def tags_of(X):
    """Return tags of the tokens of toy data."""
    return [["B", "I", "O"][: len(rows)] + ["O"] * (len(rows) - 3) for rows in X]


def many_weights(*_):
    """Yield a function that uses the quasi-Newton kernels for more weights than toy models have."""
    vector = np.zeros(1, np.int16), np.zeros(1)
    yield lambda: rounded.add(*vector, rounded.dot(*vector, np.zeros(1), np.zeros(rounded.ABREAST)), np.zeros(1))


def use_answers(model, X, tags):
    """Fit a tagging model, and call its methods for all predictions except the best labelling."""
    known = [["B", *[None] * (len(rows) - 1)] for rows in X]
    model.fit(X, tags).predict(X, known=known)
    model.predict_nbest(X, 2)
    model.sample(X, 2, known=known)
    model.entropy(X)
    model.entropy(X, known=tags)  # so low that the kernels compute it from choices
    model.predict_segments(X, threshold=0.1)
    model.predict_segments(X, with_probability=True)
    model.predict_segments(X[:1], with_probability=True)


def extremes(X, y):
    """Yield functions that use a sequence long enough to be processed alone, and features that require wide numbers."""
    for kind in hocrf.HighOrderCRF, hocrf.HighOrderSemiCRF:
        model = kind(2, feature_order=1, max_iter=2)
        yield partial(use_extreme, model, X, y)
        yield partial(search_penalties, model, X, y)


def use_extreme(model, X, y):
    """Fit a model, and use it on features with large values."""
    model.fit(X, y).predict(X)
    model.predict_marginals([1e5 * rows for rows in X[1:]])
