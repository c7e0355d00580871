"""High-order conditional random fields for scikit-learn users.

:class:`HighOrderCRF` gives each token of a sequence a label, :class:`HighOrderSemiCRF` cuts sequences into labelled
segments. ``feature_extraction`` turns tokens into features, ``pipeline`` has pipelines with all methods of the
estimators, ``model_selection`` learns penalties, ``callback`` stops training early and writes checkpoints,
``calibration`` makes probabilities honest, ``metrics`` evaluates predictions and lists their errors, ``inspection``
shows predictions, their reasons and the weights, in tables and pictures, ``datasets`` reads and generates data,
``text`` turns texts and annotated spans of characters into tokens and tags, and back, ``interop`` reads models of
CRFsuite and says what the settings of other programs are called here.

Kernels are compiled at their first use, and kept on disk. ``python -m sklearn_hocrf warm-up`` compiles them all, for
images of containers and read-only installations: see :mod:`sklearn_hocrf.__main__`.

Fitted estimators, transformers and pipelines can be pickled. That is for yourself: loading a pickle can run any code.
For others, skops writes files that run none: ``skops.io.dump(pipe, path, compression=zipfile.ZIP_DEFLATED)``, and
``skops.io.load(path, trusted=TRUSTED_TYPES)``. ``TRUSTED_TYPES`` names the types of this package in such files.
Functions of your own, such as token features, are yours to trust. Of scikit-learn's searches, save ``best_estimator_``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._persistence import TRUSTED_TYPES
from ._version import __version__
from .crf import HighOrderCRF
from .semicrf import HighOrderSemiCRF

__all__ = [
    "HighOrderCRF",
    "HighOrderSemiCRF",
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
    "text",
    "training",
]

if TYPE_CHECKING:
    from . import (
        calibration,
        callback,
        datasets,
        feature_extraction,
        inspection,
        interop,
        metrics,
        model_selection,
        pipeline,
        text,
        training,
    )
else:

    def __getattr__(name):
        """Import a subpackage at its first use: together they take as long to import as the estimators."""
        if name in __all__:
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
