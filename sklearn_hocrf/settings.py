"""Values of estimator parameters that have their own settings.

========================  ===============  ==============================================================
class                     parameter        meaning
========================  ===============  ==============================================================
:class:`TokenDecoding`    ``decoding``     predictions of the lowest expected cost, token by token
:class:`SegmentDecoding`  ``decoding``     predictions of segments above a probability
:class:`PatternSearch`    ``patterns``     label patterns that training chooses
:class:`Pruning`          ``pruning``      few candidates for each token, among hundreds of labels
========================  ===============  ==============================================================

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.settings import Pruning
>>> HighOrderCRF(pruning=Pruning(3, n_states=25)).get_params()["pruning__n_states"]
25

User guide: docs/guide/answers.md, docs/guide/training.md, docs/guide/many_labels.md.
"""

from ._estimator.decoding import SegmentDecoding, TokenDecoding
from ._estimator.pattern_search import PatternSearch
from ._estimator.pruning import Pruning

__all__ = ["PatternSearch", "Pruning", "SegmentDecoding", "TokenDecoding"]
