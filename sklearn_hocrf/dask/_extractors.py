"""Transformers that learn from the partitions of a collection, by merging the counts of each partition."""

from __future__ import annotations

import copy
from typing import Any, Self

from dask import bag, delayed
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._sklearn.versions import VersionMixin
from ._collections import WithoutClient, collected, find_client, sources
from ._partitions import Kept, Partitions, naming


class DaskExtractor(WithoutClient, TransformerMixin, VersionMixin, BaseEstimator):
    """Fit a transformer of :mod:`sklearn_hocrf.feature_extraction` on a cluster, and apply it there.

    The transformer's ``fit_partition`` counts each partition; the counts are merged along a tree, and ``finish`` makes
    the same vocabulary as on one machine.

    Parameters
    ----------
    extractor : transformer
        A transformer with ``fit_partition``, ``merge``, ``finish`` and ``transform_partition``. It is cloned; the
        original is not fitted.
    client : distributed.Client, default=None
        As in :class:`DaskSequenceLabeler`.

    Attributes
    ----------
    extractor_ : transformer
        The fitted transformer, for data on one machine.

    See Also
    --------
    DaskSequenceLabeler : Train on the result.

    Notes
    -----
    A transformer that learns nothing, because it hashes the names of attributes, does not need this class: use
    ``X.map_partitions(extractor.transform)``.

    Examples
    --------
    See docs/guide/large_data.md.
    """

    def __init__(self, extractor: Any, client: Any = None) -> None:
        self.extractor = extractor
        self.client = client

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features of the sequences of all partitions.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            Each partition is an X that the transformer accepts. It may be empty.
        y : dask.bag.Bag, or list of Delayed or Future, default=None
            Labels, partitioned like X, for transformers that learn from them.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If the transformer cannot learn from partitions.
        ValueError
            For invalid data; messages name partition, sequence and position.
        """
        extractor = clone(self.extractor)
        if not hasattr(extractor, "fit_partition"):
            raise TypeError(
                f"{type(extractor).__name__} does not learn from partitions: fit it on one machine, and map its "
                "transform over the partitions"
            )
        partitions = Partitions(find_client(self.client), sources(X=X, y=y))
        try:
            partitions.add_step(_count_part, Kept(extractor))
            counts = partitions.total(_itself, extractor.merge)
        finally:
            partitions.release()
        self.extractor_ = extractor.finish(counts)
        return self

    def transform(self, X: Any) -> bag.Bag:
        """Return the features of sequences.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            As in :meth:`fit`.

        Returns
        -------
        batches : dask.bag.Bag
            Each partition is a :class:`~sklearn_hocrf.SequenceBatch`. The bag is lazy.
        """
        return self._map("transform", sources(X=X))

    def fit_transform(self, X: Any, y: Any = None) -> bag.Bag:  # type: ignore[override]
        """Learn the features of sequences, and return the same features as ``fit_transform`` on one machine.

        Parameters
        ----------
        X : dask.bag.Bag, or list of Delayed or Future
            As in :meth:`fit`.
        y : dask.bag.Bag, or list of Delayed or Future, default=None
            As in :meth:`fit`.

        Returns
        -------
        batches : dask.bag.Bag
            As in :meth:`transform`.
        """
        return self.fit(X, y)._map("transform_partition", sources(X=X, y=y))

    def _map(self, method, parts):
        check_is_fitted(self)
        extractor, apply = delayed(copy.copy(self.extractor_)), delayed(_apply, pure=False)
        return bag.from_delayed([apply(extractor, method, index, *part) for index, part in enumerate(parts)])


def _count_part(extractor, *data):
    return extractor.fit_partition(*map(collected, data))


def _itself(counts):
    return counts


def _apply(extractor, method, index, *data):
    with naming(index):
        return getattr(extractor, method)(*map(collected, data))
