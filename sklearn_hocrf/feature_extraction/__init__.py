r"""Forms of input, and transformers that turn raw tokens or numbers into features.

Feature dicts, as for python-crfsuite
-------------------------------------
The values are strings, bools, numbers, or lists and nested dicts of these. Lists of attribute names work, too. No
extractor is needed:

>>> from sklearn_hocrf import HighOrderCRF
>>> X_dicts = [
...     [{"word": "the"}, {"word": "old", "adj": True}, {"word": "man", "length": 0.3}],
...     [{"word": "the"}, {"word": "man"}],
... ]
>>> y_dicts = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
>>> tagger = HighOrderCRF(max_order=2).fit(X_dicts, y_dicts)
>>> tagger.feature_names_in_.tolist()
['adj', 'length', 'word:man', 'word:old', 'word:the']
>>> tagger.predict([[{"word": "the"}, {"word": "house", "adj": False}]])  # unknown attributes are ignored
[['DET', 'NOUN']]

Attributes that are 0 or False wherever they occur in training get no weights here; python-crfsuite gives them weights.
Otherwise, ``sigma_reg=(2 * c2) ** -0.5, fit_intercept=False`` gives the same model as ``c2`` of python-crfsuite.

Numbers
-------
A sequence is an array or a sparse matrix of shape (tokens, features). A 3-D array holds several sequences of the same
length. A plain 2-D ``X`` with a 1-D ``y`` is read as n sequences of one token. :class:`TokenTransformer` applies any
scikit-learn transformer of tables to numeric tokens:

>>> from sklearn.preprocessing import StandardScaler
>>> from sklearn_hocrf.datasets import make_markov_sequences
>>> from sklearn_hocrf.feature_extraction import TokenTransformer
>>> from sklearn_hocrf.pipeline import make_pipeline
>>> X_num, y_num = make_markov_sequences(200, order=2, noise=0.1, random_state=0)
>>> X_num[0].shape, y_num[0].shape
((20, 3), (20,))
>>> scaled = make_pipeline(TokenTransformer(StandardScaler()), HighOrderCRF(max_order=2)).fit(X_num[:100], y_num[:100])
>>> scaled.predict(X_num[100:])[0].shape
(20,)

Raw tokens
----------
Strings, numbers, tuples or dicts of columns go through :class:`SequenceFeatureExtractor`. A template is a tuple of
(field, offset) pairs, as in CRFsuite's examples; several pairs make a conjunction. Token functions add fields. They are
named functions of the package or your own callables, which are called once for each distinct value. Without arguments,
the extractor chooses default templates and functions; `affixes=10` adds longer prefixes and suffixes to them.

>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> def ends_in_vowel(word):
...     return word[-1] in "aeiou"
>>> extractor = SequenceFeatureExtractor(
...     templates=[(("word", 0),), (("pos", -1), ("pos", 0)), (("ends_in_vowel", 0),), (("suffix2", 0),)],
...     token_features=["suffix2", ends_in_vowel],
...     fields=["word", "pos"],
... )
>>> batch = extractor.fit_transform([[("the", "DT"), ("old", "JJ"), ("house", "NN")]])
>>> extractor.get_feature_names_out()[3:7].tolist()
['pos[-1]|pos[0]=DT|JJ', 'pos[-1]|pos[0]=JJ|NN', 'pos[-1]|pos[0]=__BOS__|DT', 'ends_in_vowel[0]']

:func:`read_templates` reads the template files of CRF++ and Wapiti.

Your own files
--------------
Any code that produces a list of sequences and a list of label sequences will do. :mod:`sklearn_hocrf.datasets` reads
CoNLL files, data frames and copies of some public data sets, :mod:`sklearn_hocrf.text` annotated texts. For other
formats a few lines are enough:

>>> text = "the\tDET\nold\tADJ\nman\tNOUN\n\nthe\tDET\nman\tNOUN\n"
>>> sentences = [[line.split("\t") for line in block.splitlines()] for block in text.split("\n\n")]
>>> X_own = [[word for word, label in sentence] for sentence in sentences]
>>> y_own = [[label for word, label in sentence] for sentence in sentences]
>>> make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X_own, y_own).predict([["the", "old"]])
[['DET', 'ADJ']]

Features with label patterns
----------------------------
By default a feature has one weight per label. ``feature_order`` conjoins features with longer patterns:
``feature_order=1`` adds label pairs. A dict sets the order by the prefix of the feature's name; a tuple in it lists
exact orders.

>>> for feature_order in (0, 1, {"word:": (0, 2)}):
...     model = HighOrderCRF(max_order=2, feature_order=feature_order).fit(X_dicts, y_dicts)
...     print(feature_order, model.coef_.nnz)
0 5
1 10
{'word:': (0, 2)} 6

Data larger than memory
-----------------------
A batch is saved as a folder of arrays and loaded as memory maps. Every estimator trains on it and predicts from it,
with the same results as from a batch in memory, and stores its intermediate arrays in files as well. The transformers
are fitted part by part: ``fit_partition`` counts the attributes or strings of one part of the data, without changing
the transformer; ``merge`` adds up the counts of neighbouring parts; ``finish`` sets the same fitted attributes as
``fit`` with all parts. Parts can therefore be counted in several processes. ``transform_partition`` applies to one part
what ``fit_transform`` applies to the whole. Labels as integers in arrays, one array per sequence, take the least
memory.

>>> from functools import reduce
>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> parts = [X_own[:1], X_own[1:]]  # or any number of them, read one at a time
>>> chunked = SequenceFeatureExtractor(min_count=1)
>>> counts = reduce(chunked.merge, (chunked.fit_partition(part) for part in parts))
>>> with TemporaryDirectory() as folder:
...     SequenceBatch.save_all(Path(folder, "train"), map(chunked.finish(counts).transform_partition, parts))
...     X_mapped = SequenceBatch.load(Path(folder, "train"))
...     HighOrderCRF().fit(X_mapped, y_own).score(X_mapped, y_own)
1.0

With ``n_features``, a :class:`SequenceFeatureExtractor` learns nothing and needs no fit. :class:`SegmentLogOddsEncoder`
requires `max_length` here. Fit :class:`TokenTransformer` on all data or on a sample.

The transformers return a :class:`SequenceBatch`, which all estimators accept; it is sliced like a list of sequences.
:class:`SegmentFeatureExtractor` and :class:`SegmentLogOddsEncoder` make features of whole segments: see
:mod:`sklearn_hocrf.semicrf`. Bad input raises an error that names the sequence, the position and the value.
"""

from .._data.batch import SequenceBatch
from ._extractor import SequenceFeatureExtractor
from ._log_odds import SegmentLogOddsEncoder
from ._phrases import PhraseFeatures
from ._segment_extractor import SegmentFeatureExtractor
from ._string_templates import TemplateVectorizer, read_templates
from ._token_transformer import TokenTransformer
from ._vectorizer import SequenceDictVectorizer

__all__ = [
    "SequenceDictVectorizer",
    "PhraseFeatures",
    "SegmentLogOddsEncoder",
    "SegmentFeatureExtractor",
    "SequenceBatch",
    "SequenceFeatureExtractor",
    "TemplateVectorizer",
    "TokenTransformer",
    "read_templates",
]
