"""Inspect what a fitted model has learned, the reasons for its predictions, and the predictions themselves.

========================  ==============================================================================================
:func:`explain`           why the best labelling is better than another one, exactly: an :class:`Explanation`
:func:`weights`           the weights by label, feature and order, as a :class:`Table`
:class:`SegmentsDisplay`  predicted segments in coloured text, with probabilities and errors
========================  ==============================================================================================

Notebooks show displays, explanations and tables as HTML without scripts, on light and dark backgrounds; in terminals
they are plain text. ``SegmentsDisplay.plot`` draws with matplotlib (the extra "plot").

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.inspection import weights
>>> X, y = (
...     [[["the"], ["old"], ["man"]], [["the"], ["man"]]],
...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
... )
>>> weights(HighOrderCRF().fit(X, y), label="DET", top=2)
pattern  order  feature  template  weight
DET          0  the      the        0.784
DET          0                      0.105

User guide: docs/guide/answers.md.
"""

from .._display import Table
from ._explanation import Explanation, explain
from ._segments_display import SegmentsDisplay
from ._weights import weights

__all__ = ["Explanation", "SegmentsDisplay", "Table", "explain", "weights"]
