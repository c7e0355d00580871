"""Transformers that turn raw tokens or numbers into features.

Feature dicts, as in python-crfsuite, and arrays of numbers need no transformer. The extractors and the encoder return a
:class:`~sklearn_hocrf.SequenceBatch`, which all estimators accept. Invalid input raises an error that names the
sequence, the position and the value.

=================================  =====================================================================================
:class:`SequenceFeatureExtractor`  makes features of words, or of tuples or dicts of columns, from templates, including
                                   those of CRF++ and Wapiti; turns feature dicts and lists of attribute names into a
                                   batch
:func:`phrase_marks`               makes a token function that marks the tokens of listed phrases
:class:`SegmentFeatureExtractor`   makes features of whole segments: lengths, texts, first and last tokens, functions
:class:`SegmentLogOddsEncoder`     measures how often a string was a segment in training
:class:`TokenTransformer`          applies a scaler or another scikit-learn transformer to the tokens of all sequences
:class:`WindowFeatures`            adds means, deviations and slopes over neighbouring tokens
=================================  =====================================================================================

>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> extractor = SequenceFeatureExtractor(
...     [("word", 0), (("pos", -1), ("pos", 0))], fields=["word", "pos"]
... )
>>> batch = extractor.fit_transform([[("the", "DT"), ("old", "JJ")]])
>>> extractor.get_feature_names_out().tolist()
['word[0]=old', 'word[0]=the', 'pos[-1]|pos[0]=DT|JJ', 'pos[-1]|pos[0]=__BOS__|DT']

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/inputs.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/segments.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/large_data.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/recording.html.
"""

from ._extractor import SequenceFeatureExtractor
from ._log_odds import SegmentLogOddsEncoder
from ._segment_extractor import SegmentFeatureExtractor
from ._token_functions import phrase_marks
from ._token_transformer import TokenTransformer
from ._window_features import WindowFeatures

__all__ = [
    "SegmentFeatureExtractor",
    "SegmentLogOddsEncoder",
    "SequenceFeatureExtractor",
    "TokenTransformer",
    "WindowFeatures",
    "phrase_marks",
]
