"""Text in, entities out: tokens that know their characters, tags from spans of characters, and spans from tags.

:func:`tokenize` cuts texts into tokens, :func:`tags_from_spans` turns annotated spans of characters into labels of
tokens, :func:`spans_from_tags` turns predicted labels into spans. Positions count the characters of a Python string,
which are code points, as in spaCy; JavaScript and Java count UTF-16 units, of which an emoji has two.

Examples
--------
>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> from sklearn_hocrf.pipeline import make_pipeline
>>> from sklearn_hocrf.text import spans_from_tags, tags_from_spans, tokenize
>>> texts = ["Ann Lee lives in Oslo.", "Bob met Ann in Bergen.", "In Oslo, Bob met Eve."]
>>> spans = [[(0, 7, "PER"), (17, 21, "LOC")], [(0, 3, "PER"), (8, 11, "PER"), (15, 21, "LOC")],
...          [(3, 7, "LOC"), (9, 12, "PER"), (17, 20, "PER")]]
>>> X = tokenize(texts)
>>> model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio")).fit(X, tags_from_spans(X, spans))
>>> new = tokenize(["Eve lives in Bergen."])
>>> spans_from_tags(new, model.predict(new))
[[(0, 3, 'PER'), (13, 19, 'LOC')]]
"""

from ._alignment import spans_from_tags, tags_from_spans
from ._tokens import TokenizedText, tokenize

__all__ = ["TokenizedText", "spans_from_tags", "tags_from_spans", "tokenize"]
