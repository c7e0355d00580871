"""Training and prediction on a Dask cluster, for data that do not fit on one machine, or train too slowly there.

This module requires Dask: ``pip install 'sklearn_hocrf[dask]'``. The same solver minimises exactly the same function as
on one machine.

============================  ==========================================================================================
:class:`DaskSequenceLabeler`  takes an estimator, and Dask collections instead of lists; its ``estimator_`` is an
                              ordinary fitted estimator
:class:`DaskExtractor`        fits a transformer to all partitions, and applies it where they are
============================  ==========================================================================================

>>> import dask.bag
>>> from distributed import Client, LocalCluster
>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.dask import DaskSequenceLabeler
>>> X, y = (
...     [[["the"], ["old"], ["man"]], [["the"], ["man"]]],
...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
... )
>>> options = {"processes": False, "dashboard_address": None, "threads_per_worker": 1}
>>> with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
...     X_bag, y_bag = (
...         dask.bag.from_sequence(X, npartitions=2),
...         dask.bag.from_sequence(y, npartitions=2),
...     )
...     DaskSequenceLabeler(HighOrderCRF(), client).fit(X_bag, y_bag).predict(
...         X_bag
...     ).compute()[1]
['DET', 'NOUN']

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
