"""High-order conditional random fields for scikit-learn users.

:class:`HighOrderCRF` labels each token of a sequence, :class:`HighOrderSemiCRF` splits sequences into labelled
segments. Both have weights not only for pairs of neighbouring labels but for label patterns of any length. Training is
exact, and both are scikit-learn estimators.

The docstring of each public module is a guide with examples: see, for instance, ``help(sklearn_hocrf.crf)``.

=======================================  ===============================================================================
:mod:`sklearn_hocrf.crf`                 labels of tokens: why order helps, queries of a model, constraints, known
                                         and missing labels
:mod:`sklearn_hocrf.semicrf`             labels of segments: schemes, lengths, features of segments, hybrid models
:mod:`sklearn_hocrf.feature_extraction`  forms of input, and the transformers that make features
:mod:`sklearn_hocrf.pipeline`            pipelines with all methods of the estimators
:mod:`sklearn_hocrf.training`            objectives, penalties and solvers, also user-defined ones; scores of encoders
:mod:`sklearn_hocrf.settings`            constraints, decodings, learned label patterns, pruning
:mod:`sklearn_hocrf.callback`            progress, early stopping, checkpoints
:mod:`sklearn_hocrf.model_selection`     learned penalties, groups and weights, predictions by cross-validation
:mod:`sklearn_hocrf.metrics`             scores, scorers, reports, tables of errors, significance tests
:mod:`sklearn_hocrf.inspection`          weights, explanations, standard errors, durations, what to label next, pictures
:mod:`sklearn_hocrf.calibration`         probabilities that match how often predictions are right; sets with a promise
:mod:`sklearn_hocrf.text`                texts to tokens, spans to tags, and back; formats of other libraries
:mod:`sklearn_hocrf.datasets`            readers of files and data frames, generated data
:mod:`sklearn_hocrf.tagger`              models as small files, which are read with numpy alone
:mod:`sklearn_hocrf.interop`             models of CRFsuite; its options, and those of other tools, side by side
:mod:`sklearn_hocrf.dask`                training and prediction on a cluster: ``pip install 'sklearn_hocrf[dask]'``
=======================================  ===============================================================================

Kernels are compiled at their first use and cached on disk. ``python -m sklearn_hocrf warm-up`` compiles all of them,
for container images and read-only installations: see :mod:`sklearn_hocrf.__main__`.

Saving models
-------------
Fitted estimators, transformers and pipelines can be pickled. Pickle a model for your own use only: loading a pickle can
execute any code. To share a model, save it with skops, whose files execute no code when loaded:
``skops.io.dump(pipe, path, compression=zipfile.ZIP_DEFLATED)`` and ``skops.io.load(path, trusted=TRUSTED_TYPES)``.
``TRUSTED_TYPES`` lists the types of this package in such files. Without ``trusted=``, skops raises an
``UntrustedTypesFoundException`` that lists private names; pass ``TRUSTED_TYPES`` to avoid it. User-defined functions,
such as token features, are not included: you must decide whether to trust them. Files also contain callbacks, which are
not in ``TRUSTED_TYPES``: call ``set_callbacks()``, which removes them, before you save a model that has some. After a
search of scikit-learn, save ``best_estimator_``.

>>> import skops.io  # pip install skops
>>> from sklearn_hocrf import HighOrderCRF, TRUSTED_TYPES
>>> X, y = [[["Ada"], ["Lovelace"]], [["Alan"], ["Turing"]]], [["given", "family"], ["given", "family"]]
>>> crf = HighOrderCRF().fit(X, y)
>>> content = skops.io.dumps(crf)
>>> skops.io.loads(content, trusted=TRUSTED_TYPES).predict(X) == crf.predict(X)
True
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ._version import __version__

__all__ = [
    "HighOrderCRF",
    "HighOrderSemiCRF",
    "SequenceBatch",
    "TRUSTED_TYPES",
    "__version__",
    "calibration",
    "callback",
    "datasets",
    "feature_extraction",
    "inspection",
    "interop",
    "metrics",
    "model_selection",
    "pipeline",
    "settings",
    "tagger",
    "text",
    "training",
]
if TYPE_CHECKING or (find_spec("dask") and find_spec("distributed")):  # of an extra
    __all__ += ["dask"]

if TYPE_CHECKING:
    from . import (
        calibration,
        callback,
        dask,
        datasets,
        feature_extraction,
        inspection,
        interop,
        metrics,
        model_selection,
        pipeline,
        settings,
        tagger,
        text,
        training,
    )
    from ._data.batch import SequenceBatch
    from ._persistence import TRUSTED_TYPES
    from .crf import HighOrderCRF
    from .semicrf import HighOrderSemiCRF
else:
    _PLACES = {
        "HighOrderCRF": "crf",
        "HighOrderSemiCRF": "semicrf",
        "SequenceBatch": "_data.batch",
        "TRUSTED_TYPES": "_persistence",
    }

    def __getattr__(name):
        """Import what is asked for at its first use: a tagger needs numpy alone, and subpackages take their time."""
        if name not in {*__all__, "crf", "dask", "semicrf"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = import_module(f".{_PLACES.get(name, name)}", __name__)
        except ImportError as error:
            if name == "dask":  # help() and hasattr() take no other error for an answer
                raise AttributeError(str(error)) from error
            raise
        if name in _PLACES:
            globals()[name] = getattr(module, name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
