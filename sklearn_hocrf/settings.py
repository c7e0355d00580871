"""Values of the estimators' parameters that have settings of their own.

========================  ===============  ==============================================================
class                     parameter        meaning
========================  ===============  ==============================================================
:class:`Constraints`      ``constraints``  which labels may follow each other, or begin and end sequences
:class:`TokenDecoding`    ``decoding``     predictions of the lowest expected cost, token by token
:class:`SegmentDecoding`  ``decoding``     predictions of segments above a probability
:class:`PatternSearch`    ``patterns``     label patterns that training chooses
:class:`Pruning`          ``pruning``      few candidates for each token, among hundreds of labels
========================  ===============  ==============================================================

:mod:`sklearn_hocrf.crf` shows constraints, decodings and pruning.

Learned patterns
----------------
With ``patterns="auto"``, training chooses the label patterns: those that an L1 penalty keeps, trained again without it.
It trains with few patterns at a time, and ends when a sweep over all that occur has found none that should come in.
``max_order=None`` sets no limit. :class:`PatternSearch` has the settings. Here, two players say a letter in turn, and
most often repeat their own last one:

>>> import random
>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.settings import PatternSearch
>>> rng = random.Random(2)
>>> def game():
...     letters = rng.choices("abc", k=2)
...     for _ in range(38):
...         letters.append(letters[-2] if rng.random() < 0.8 else rng.choice("abc"))
...     return letters
>>> y_games, y_later = [game() for _ in range(60)], [game() for _ in range(60)]
>>> X_games = [[[]] * 40] * 60  # no features
>>> for patterns in "observed", PatternSearch(l1_reg=10):
...     model = HighOrderCRF(max_order=4, patterns=patterns).fit(X_games, y_games)
...     print(len(model.patterns_), round(model.log_likelihood(X_games, y_later).mean(), 1))
243 -21.3
26 -20.7
>>> ["".join(pattern) for pattern in model.patterns_[:7]]
['a', 'b', 'c', 'aaa', 'aba', 'aca', 'bab']
>>> model.pattern_search_history_["certificate"][-1].item()  # no pattern was missed
True

References
----------
T. Vieira, R. Cotterell, J. Eisner: Speed-accuracy tradeoffs in tagging with variable-order CRFs and structured
sparsity. EMNLP 2016.
"""

from ._estimator.constraints import Constraints
from ._estimator.decoding import SegmentDecoding, TokenDecoding
from ._estimator.pattern_search import PatternSearch
from ._estimator.pruning import Pruning

__all__ = ["Constraints", "PatternSearch", "Pruning", "SegmentDecoding", "TokenDecoding"]
