"""Solvers with their settings, early stopping, and scores of other models.

Both estimators minimise an ``objective`` plus a penalty with a ``solver``.

================================  ======================================================================================
:class:`LBFGS`                    settings of ``solver="lbfgs"``: gradients of all data
:class:`SGD`                      settings of ``solver="sgd"``: a few sequences at a time; needed by ``partial_fit``
:class:`EarlyStopping`            stops when predictions of held-out data no longer improve, and keeps the best model:
                                  a callback, for ``set_callbacks`` of the estimators
:func:`sequence_log_likelihood`   log-likelihoods and gradients for label scores of other models, such as neural
                                  networks
:func:`predict_from_scores`       the best labelling for such scores
================================  ======================================================================================

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.training import SGD
>>> X, y = (
...     [["the", "old", "man"], ["the", "man"]],
...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
... )
>>> X = [[[word] for word in words] for words in X]
>>> model = HighOrderCRF(solver=SGD(batch_size=4, average=True, random_state=0)).fit(
...     X, y
... )
>>> model.predict(X)[1]
['DET', 'NOUN']

User guide: docs/guide/training.md, also for other callbacks.
"""

from __future__ import annotations

from ._estimator.early_stopping import EarlyStopping
from ._objectives import predict_from_scores, sequence_log_likelihood
from ._solvers import LBFGS, SGD

__all__ = ["EarlyStopping", "LBFGS", "SGD", "predict_from_scores", "sequence_log_likelihood"]
