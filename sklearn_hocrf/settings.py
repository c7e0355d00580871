"""Values of estimator parameters that have their own settings.

========================  ===============  ==============================================================
class                     parameter        meaning
========================  ===============  ==============================================================
:class:`Constraints`      ``constraints``  which labels may follow each other, or begin and end sequences
:class:`TokenDecoding`    ``decoding``     predictions of the lowest expected cost, token by token
:class:`SegmentDecoding`  ``decoding``     predictions of segments above a probability
:class:`PatternSearch`    ``patterns``     label patterns that training chooses
:class:`Pruning`          ``pruning``      few candidates for each token, among hundreds of labels
========================  ===============  ==============================================================

>>> from sklearn_hocrf import Constraints, HighOrderCRF
>>> X, y = [[[], [], []], [[], []]], [["W", "N1", "REM"], ["W", "W"]]
>>> model = HighOrderCRF(constraints=Constraints(forbid=[("REM", "W", "REM")])).fit(
...     X, y
... )
>>> model.log_likelihood([[[], [], []]], [["REM", "W", "REM"]])
array([-inf])

User guide: docs/guide/answers.md, docs/guide/training.md, docs/guide/many_labels.md.
"""

from ._estimator.constraints import Constraints
from ._estimator.decoding import SegmentDecoding, TokenDecoding
from ._estimator.pattern_search import PatternSearch
from ._estimator.pruning import Pruning

__all__ = ["Constraints", "PatternSearch", "Pruning", "SegmentDecoding", "TokenDecoding"]
