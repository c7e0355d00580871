"""Transformers that turn raw tokens or numbers into features.

Feature dicts, as for python-crfsuite, and arrays of numbers need no transformer. The extractors and the encoder return
a :class:`~sklearn_hocrf.SequenceBatch`, which all estimators accept. Bad input raises an error that names the sequence,
the position and the value.

=================================  =====================================================================================
:class:`SequenceFeatureExtractor`  features of words, tuples or dicts of columns, by templates, also those of CRF++ and
                                   Wapiti; feature dicts and lists of names as a batch
:func:`phrase_marks`               makes a token function that marks tokens inside phrases of a list
:class:`SegmentFeatureExtractor`   features of whole segments: lengths, texts, first and last tokens, functions
:class:`SegmentLogOddsEncoder`     how often a string was a segment in training
:class:`TokenTransformer`          a scaler or another transformer of scikit-learn, on the tokens of all sequences
:class:`WindowFeatures`            means, deviations and slopes over neighbouring tokens
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
