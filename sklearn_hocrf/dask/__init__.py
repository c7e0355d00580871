"""Training and prediction on a cluster, by Dask: for data that one machine does not hold, or trains too slowly.

This module needs Dask: ``pip install 'sklearn_hocrf[dask]'``. :class:`DaskSequenceLabeler` takes an estimator, and
collections of Dask in place of lists. It trains the same model: the same function is minimised, exactly, by the same
solver, and its ``estimator_`` is the fitted estimator with all methods, to be saved or asked anything on one machine.

>>> import dask.bag
>>> from distributed import Client, LocalCluster
>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.dask import DaskSequenceLabeler
>>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]], [["old"], ["man"]], [["man"]]]
>>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], ["ADJ", "NOUN"], ["NOUN"]]
>>> options = {"processes": False, "dashboard_address": None, "threads_per_worker": 1}
>>> with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
...     X_bag, y_bag = dask.bag.from_sequence(X, npartitions=2), dask.bag.from_sequence(y, npartitions=2)
...     crf = DaskSequenceLabeler(HighOrderCRF(tol=1e-8), client).fit(X_bag, y_bag)
...     print(crf.score(X_bag, y_bag), crf.predict(X_bag).compute()[1])
1.0 ['DET', 'NOUN']
>>> local = HighOrderCRF(tol=1e-8).fit(X, y)
>>> bool(abs(crf.estimator_.objective_history_[-1] - local.objective_history_[-1]) < 1e-9)
True
>>> crf.estimator_.predict(X[:1])
[['DET', 'ADJ', 'NOUN']]

Features of raw tokens are learned from all partitions by :class:`DaskExtractor`, which fits a transformer of
:mod:`sklearn_hocrf.feature_extraction`, and applied where the partitions are:

>>> from sklearn_hocrf.dask import DaskExtractor
>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> words = [[token[0] for token in sequence] for sequence in X]
>>> with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
...     words_bag = dask.bag.from_sequence(words, npartitions=2)
...     extractor = DaskExtractor(SequenceFeatureExtractor([("w", 0)]), client)
...     tagger = DaskSequenceLabeler(HighOrderCRF(), client).fit(extractor.fit_transform(words_bag), y_bag)
>>> extractor.extractor_.get_feature_names_out().tolist(), tagger.estimator_.coef_.shape[1]
(['w[0]=man', 'w[0]=old', 'w[0]=the'], 3)

Partitions
----------
X and y are :class:`dask.bag.Bag` or lists of :class:`~dask.delayed.Delayed` (or Futures), with partitions of the same
numbers of sequences. A partition of X is anything that the estimator takes: a list of sequences of attribute
names or feature dicts, arrays, or a :class:`~sklearn_hocrf.feature_extraction.SequenceBatch`. Let workers read their
partitions (``dask.delayed(load)(path)`` or ``dask.bag.read_text``), rather than send data from the client. Partitions
may be empty. Attribute names and labels are collected from all of them; batches and arrays must have the same features
everywhere.

How it works
------------
Workers read their partitions, and count labels, label patterns, and pairs of features and patterns. The counts,
merged, say which weights there are. Then each iteration sends the weights to all workers, each evaluates its parts,
and the gradients are summed along a binary tree over the numbers of the partitions; the solver runs on the client.
So the bits of the result depend on the partitions, and on nothing else: not on the number of workers, nor on their
speed, nor on faults.

Where a worker dies, Dask reads and prepares its partitions anew, elsewhere, and training goes on. Sources of partitions
must be able to give the same data again: a file can, a generator of random numbers without a seed cannot. Data that
were sent from the client (``Client.scatter``) are lost with their worker. A client that loses the scheduler raises a
ConnectionError; ``warm_start`` goes on from a model that was fitted before.

Deployment
----------
* Workers: one thread each is simplest, and as fast: ``dask worker --nworkers 8 --nthreads 1``. Threads of one worker
  share weights and layout, which saves memory where models are large. Leave ``n_jobs`` at None.
* Kernels: all workers of a machine should share a folder of compiled kernels, which they find by the environment
  variable ``NUMBA_CACHE_DIR``. Put it into the image, with ``python -m sklearn_hocrf warm-up``: else every worker that
  cannot write beside the package compiles for half a minute.
* Partitions: one or two a thread, of a few tokens for each weight at least: beside its tokens, a partition costs some
  passes over vectors of all weights in each iteration. Four partitions of 600,000 tokens and 3.5 million weights took
  1.5 times as long a token as one of 2.5 million. More partitions mean less to make anew when a worker dies.
* Memory, by what one machine takes and by counting arrays: all workers together some 300 bytes a token with ten
  features (the batch, and where kernels find the weights). Each worker needs 5 vectors of all weights beside, of 8
  bytes each, and one more for each of its threads. The client needs 25 to 200 (the memory of L-BFGS takes at most 128
  MB beside ten pairs).
* Dask may spill partitions to disk where memory is short (``distributed.worker.memory``). What comes back is prepared
  again, for the time of several gradients, in every iteration: give workers more memory, or use more of them.
* Network: an iteration sends 16 bytes a weight to and from each worker. With 10 million weights that is 160 MB.

Searches on a cluster
---------------------
Searches over data that one machine holds need none of the above: joblib spreads the fits of local estimators over the
workers. Each fit takes one thread there, whatever the size of the cluster. X and y are lists: scikit-learn's searches
cannot index bags, and fail with "Input should have at least 1 dimension". Search in a sample, then fit on the bags.

>>> from joblib import parallel_config
>>> from sklearn.model_selection import GridSearchCV
>>> with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
...     with parallel_config(backend="dask"):
...         search = GridSearchCV(HighOrderCRF(), {"sigma_reg": [0.5, 1]}, cv=2).fit(X[:2] * 4, y[:2] * 4)
>>> search.best_params_["sigma_reg"]
0.5

:class:`~sklearn_hocrf.model_selection.PenaltySearchCV` keeps its folds in one process, with threads for ``n_jobs``:
under the Dask backend it runs on the client, unless it is itself the estimator of a search or of
:func:`~sklearn.model_selection.cross_validate`.
"""

from __future__ import annotations

try:
    from ._estimators import DaskSequenceLabeler
    from ._extractors import DaskExtractor
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError("sklearn_hocrf.dask needs Dask: pip install 'sklearn_hocrf[dask]'") from error

__all__ = ["DaskExtractor", "DaskSequenceLabeler"]
