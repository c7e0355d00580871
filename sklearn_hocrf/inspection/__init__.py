"""Inspect the weights of a fitted model, the reasons for its predictions, and the predictions themselves.

========================  ==============================================================================================
:func:`explain`           the exact contribution of each weight to the preference for a labelling
:func:`weights_table`     the weights by label, feature and order
:func:`error_table`       the errors of predicted segments with their texts, the most confident first
:class:`SegmentsDisplay`  predicted segments in coloured text, with probabilities and errors
:class:`SequenceDisplay`  the probabilities and segments of one sequence over time, as a picture
========================  ==============================================================================================

Notebooks show displays, explanations and tables as HTML without scripts, which suits light and dark backgrounds;
terminals show plain text. Pictures require matplotlib.

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.inspection import weights_table
>>> X, y = (
...     [[["the"], ["old"], ["man"]], [["the"], ["man"]]],
...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
... )
>>> weights_table(HighOrderCRF().fit(X, y), label="DET", top=2)
pattern  order  feature  weight
DET          0  the       0.743
DET          0            0.106

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/answers.html.
"""

from ._errors import error_table
from ._explanation import explain
from ._segments_display import SegmentsDisplay
from ._sequence_display import SequenceDisplay
from ._weights import weights_table

__all__ = ["SegmentsDisplay", "SequenceDisplay", "error_table", "explain", "weights_table"]
