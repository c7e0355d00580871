"""Training and prediction on a Dask cluster, for data that do not fit on one machine, or train too slowly there.

This module requires Dask: ``pip install 'sklearn_hocrf[dask]'``. :class:`DaskSequenceLabeler` takes an estimator, and
Dask collections instead of lists. It trains the same model: the same solver minimises exactly the same function, and
its ``estimator_`` is an ordinary fitted estimator with all methods, to save or to use on one machine.

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

:class:`DaskExtractor` fits a transformer of :mod:`sklearn_hocrf.feature_extraction` to raw tokens of all partitions,
and applies it where the partitions are:

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
numbers of sequences. A partition of X is anything that the estimator accepts: a list of sequences of attribute
names or feature dicts, arrays, or a :class:`~sklearn_hocrf.feature_extraction.SequenceBatch`. Let workers read their
partitions (``dask.delayed(load)(path)`` or ``dask.bag.read_text``) instead of sending data from the client. Partitions
may be empty. Attribute names and labels are collected from all of them; batches and arrays must have the same features
everywhere.

How it works
------------
Workers read their partitions, and count labels, label patterns, and pairs of features and patterns. The merged counts
determine the weights of the model. Each iteration then sends the weights to all workers, each worker evaluates its
parts, and the gradients are summed along a binary tree over the numbers of the partitions; the solver runs on the
client. The bits of the result therefore depend only on the partitions, not on the number or the speed of workers or on
faults.

If a worker dies, Dask reads and prepares its partitions again on another worker, and training continues. Sources of
partitions must be able to provide the same data again: a file can, a generator of random numbers without a seed cannot.
Data sent from the client (``Client.scatter``) are lost with their worker. A client that loses the scheduler raises a
ConnectionError; ``warm_start`` continues from a previously fitted model.

Deployment
----------
* Workers: one thread each is simplest, and equally fast: ``dask worker --nworkers 8 --nthreads 1``. Threads of one
  worker share weights and layout, which saves memory for large models. Leave ``n_jobs`` at None.
* Kernels: all workers of a machine should share a folder of compiled kernels, given by the environment variable
  ``NUMBA_CACHE_DIR``. Put it into the image, with ``python -m sklearn_hocrf warm-up``: otherwise every worker that
  cannot write to the folder of the package compiles for half a minute.
* Partitions: use one or two per thread, each with at least a few tokens per weight: in every iteration a partition
  costs several passes over vectors of all weights in addition to its tokens. Four partitions of 600,000 tokens and 3.5
  million weights took 1.5 times as long per token as one of 2.5 million. With more partitions, less has to be repeated
  when a worker dies.
* Memory, estimated from use on one machine and by counting arrays: all workers together need about 300 bytes per token
  with ten features (the batch, and the positions of its weights). In addition, each worker needs 5 vectors of all
  weights, of 8 bytes each, and one more for each of its threads. The client needs 25 to 200 (the memory of L-BFGS takes
  at most 128 MB in addition to ten pairs).
* Dask may spill partitions to disk if memory is scarce (``distributed.worker.memory``). Partitions that are read back
  are prepared again, which takes as long as several gradients, in every iteration: give workers more memory, or use
  more workers.
* Network: an iteration sends 16 bytes per weight to and from each worker, which is 160 MB for 10 million weights.

Searches on a cluster
---------------------
Searches over data that fit on one machine do not need any of the above: joblib distributes the fits of local estimators
over the workers. Each fit uses one thread there, regardless of the size of the cluster. X and y are lists:
scikit-learn's searches cannot index bags, and fail with "Input should have at least 1 dimension". Search on a sample,
then fit on the bags.

>>> from joblib import parallel_config
>>> from sklearn.model_selection import GridSearchCV
>>> with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
...     with parallel_config(backend="dask"):
...         search = GridSearchCV(HighOrderCRF(), {"sigma_reg": [0.5, 1]}, cv=2).fit(X[:2] * 4, y[:2] * 4)
>>> search.best_params_["sigma_reg"]
0.5

:class:`~sklearn_hocrf.model_selection.PenaltySearchCV` keeps its folds in one process, with threads for ``n_jobs``:
with the Dask backend it runs on the client, unless it is itself the estimator of a search or of
:func:`~sklearn.model_selection.cross_validate`.
"""

from __future__ import annotations

try:
    from ._estimators import DaskSequenceLabeler
    from ._extractors import DaskExtractor
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError("sklearn_hocrf.dask requires Dask: pip install 'sklearn_hocrf[dask]'") from error

__all__ = ["DaskExtractor", "DaskSequenceLabeler"]
