"""Settings of solvers, and early stopping.

Both estimators minimise an ``objective`` plus a penalty with a ``solver``.

======================  ================================================================================================
:class:`LBFGS`          settings of ``solver="lbfgs"``: gradients of all data
:class:`SGD`            settings of ``solver="sgd"``: a few sequences at a time; ``partial_fit`` requires it
:class:`EarlyStopping`  stops when predictions of held-out data no longer improve, and keeps the best model:
                        a callback that you pass to ``set_callbacks``
======================  ================================================================================================

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.training import SGD
>>> X, y = (
...     [["the", "old", "man"], ["the", "man"]],
...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
... )
>>> X = [[[word] for word in words] for words in X]
>>> model = HighOrderCRF(solver=SGD(batch_size=4), random_state=0).fit(X, y)
>>> model.predict(X)[1]
['DET', 'NOUN']

User guide, including other callbacks: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/training.html.
"""

from __future__ import annotations

from ._engine.training.lbfgs import LBFGS
from ._engine.training.stochastic import SGD
from ._estimator.early_stopping import EarlyStopping

__all__ = ["EarlyStopping", "LBFGS", "SGD"]
