"""Values of estimator parameters that have their own settings.

========================  ===============  ==============================================================
class                     parameter        meaning
========================  ===============  ==============================================================
:class:`Constraints`      ``constraints``  which labels may follow each other, or begin and end sequences
========================  ===============  ==============================================================

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.settings import Constraints
>>> X, y = [[[], [], []], [[], []]], [["W", "N1", "REM"], ["W", "W"]]
>>> model = HighOrderCRF(constraints=Constraints(forbid=[("REM", "W", "REM")])).fit(
...     X, y
... )
>>> model.log_likelihood([[[], [], []]], [["REM", "W", "REM"]])
array([-inf])

User guide: docs/guide/answers.md.
"""

from ._estimator.constraints import Constraints

__all__ = ["Constraints"]
