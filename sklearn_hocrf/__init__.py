"""High-order conditional random fields for scikit-learn users.

:class:`HighOrderCRF` labels each token of a sequence, and :class:`HighOrderSemiCRF` divides sequences into labelled
segments. Both are scikit-learn estimators and learn weights for label patterns of any length, not only for pairs of
neighbouring labels. Gradients and probabilities are exact.

=======================================  ===============================================================================
:mod:`sklearn_hocrf.crf`                 labels of tokens
:mod:`sklearn_hocrf.semicrf`             labels of segments
:mod:`sklearn_hocrf.feature_extraction`  transformers that create features
:mod:`sklearn_hocrf.training`            settings of solvers, early stopping
:mod:`sklearn_hocrf.scores`              label scores of other programs: predictions, log-likelihoods, gradients
:mod:`sklearn_hocrf.model_selection`     learned penalties, cross-validated predictions, calibration, conformal sets
:mod:`sklearn_hocrf.metrics`             scores, scorers, reports, significance tests
:mod:`sklearn_hocrf.inspection`          weights, explanations, tables of errors, segments in coloured text
:mod:`sklearn_hocrf.text`                conversion of texts to tokens, spans to tags, and back
:mod:`sklearn_hocrf.datasets`            functions that read files, and generated data
:mod:`sklearn_hocrf.tagger`              models as small files that need only numpy
:mod:`sklearn_hocrf.dask`                training and prediction on a cluster: ``pip install 'sklearn_hocrf[dask]'``
=======================================  ===============================================================================

:func:`make_pipeline` chains transformers and an estimator into a pipeline that offers all methods of the estimator.
:class:`Constraints` restricts which labels may follow each other. To load a model that skops saved, pass
``TRUSTED_TYPES`` to ``skops.io.load``; see https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/production.html.
``python -m sklearn_hocrf warm-up`` compiles all kernels; see :mod:`sklearn_hocrf.__main__`.

>>> from sklearn_hocrf import HighOrderCRF
>>> X, y = (
...     [[["Ada"], ["Lovelace"]], [["Alan"], ["Turing"]]],
...     [["given", "family"], ["given", "family"]],
... )
>>> HighOrderCRF(max_order=1).fit(X, y).predict([[["Ada"], ["Turing"]]])
[['given', 'family']]

Tutorial: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/start.html. User guide:
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/index.html.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ._data import __version__

__all__ = [
    "Constraints",
    "HighOrderCRF",
    "HighOrderSemiCRF",
    "SequenceBatch",
    "StackedSequenceLabeler",
    "TRUSTED_TYPES",
    "__version__",
    "datasets",
    "feature_extraction",
    "inspection",
    "make_pipeline",
    "metrics",
    "model_selection",
    "scores",
    "tagger",
    "text",
    "training",
]
if TYPE_CHECKING or (find_spec("dask") and find_spec("distributed")):  # installed with an extra
    __all__ += ["dask"]

if TYPE_CHECKING:
    from . import (
        dask,
        datasets,
        feature_extraction,
        inspection,
        metrics,
        model_selection,
        scores,
        tagger,
        text,
        training,
    )
    from ._data.batch import SequenceBatch
    from ._estimator.labels.constraints import Constraints
    from ._estimator.pipeline import make_pipeline
    from ._sklearn.versions import TRUSTED_TYPES
    from .crf import HighOrderCRF
    from .model_selection._stacking import StackedSequenceLabeler
    from .semicrf import HighOrderSemiCRF
else:
    _MODULES = {
        "Constraints": "_estimator.labels.constraints",
        "HighOrderCRF": "crf",
        "HighOrderSemiCRF": "semicrf",
        "SequenceBatch": "_data.batch",
        "StackedSequenceLabeler": "model_selection._stacking",
        "TRUSTED_TYPES": "_sklearn.versions",
        "make_pipeline": "_estimator.pipeline",
    }

    def __getattr__(name):
        """Import a public name at its first use: importing subpackages takes time, and a tagger requires only numpy."""
        if name not in {*__all__, "crf", "dask", "semicrf"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = import_module(f".{_MODULES.get(name, name)}", __name__)
        except ImportError as error:
            if name == "dask":  # help() and hasattr() accept no other error
                raise AttributeError(str(error)) from error
            raise
        if name in _MODULES:
            globals()[name] = getattr(module, name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
