"""Tokens with character offsets, tags from character spans, and spans from tags.

========================  ==============================================================================================
:func:`tokenize`          splits texts into tokens; each result is a :class:`TokenizedText`
:func:`tags_from_spans`   turns annotated spans of characters into labels of tokens
:func:`spans_from_tags`   turns predicted labels into spans of characters
:func:`convert_tags`      converts between tagging schemes and repairs invalid tags
:func:`extract_segments`  finds the segments of label sequences
========================  ==============================================================================================

Like :mod:`sklearn_hocrf.tagger`, this module requires only numpy. Positions count the characters (code points) of a
Python string, as in spaCy; JavaScript and Java count UTF-16 code units, two for an emoji.

>>> from sklearn_hocrf.text import spans_from_tags, tags_from_spans, tokenize
>>> X = tokenize(["Ann Lee lives in Oslo."])
>>> y = tags_from_spans(X, [[(0, 7, "PER"), (17, 21, "LOC")]])
>>> y
[['B-PER', 'I-PER', 'O', 'O', 'B-LOC', 'O']]
>>> spans_from_tags(X, y)
[[(0, 7, 'PER'), (17, 21, 'LOC')]]

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/recipes.html, also for spaCy, Hugging Face, Label
Studio and CoNLL-U.
"""

from ._alignment import convert_tags, extract_segments, spans_from_tags, tags_from_spans
from ._tokens import TokenizedText, tokenize

__all__ = ["TokenizedText", "convert_tags", "extract_segments", "spans_from_tags", "tags_from_spans", "tokenize"]
