"""Training and prediction on a Dask cluster, for data that one machine cannot store, or cannot process fast enough.

This module requires Dask: ``pip install 'sklearn_hocrf[dask]'``. Training uses the same solver, and minimises the same
function, as on one machine.

============================  ==========================================================================================
:class:`DaskSequenceLabeler`  wraps an estimator, and takes Dask collections instead of lists; its ``estimator_`` is an
                              ordinary fitted estimator
:class:`DaskExtractor`        fits a transformer to all partitions, and applies it on their workers
============================  ==========================================================================================

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/large_data.html.
"""

from __future__ import annotations

try:
    from ._estimators import DaskExtractor, DaskSequenceLabeler
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError("sklearn_hocrf.dask requires Dask: pip install 'sklearn_hocrf[dask]'") from error

__all__ = ["DaskExtractor", "DaskSequenceLabeler"]
