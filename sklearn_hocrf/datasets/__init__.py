"""Data for examples, tests and comparisons with published results.

Generators (``make_*``) need only a random state; ``make_name_sentences`` and ``make_references`` generate text. Loaders
(``load_*``) read local copies, plain or gzipped, of public data sets, which ``find_data`` finds; nothing is downloaded.
Observations are returned as a list of sequences: lists of strings or dicts if tokens are text, arrays of shape (T,
n_features) if they are numbers. Labels are returned as a list of lists of strings, as a list of integer arrays of shape
(T,), or, for segments, as a list of lists of (start, stop, label). ``load_conll`` and ``load_doccano`` read your own
files; ``dump_conll`` and ``dump_doccano`` write them. :func:`sequences_from_frame` reads data frames, and
:func:`frame_from_predictions` adds predictions to their rows.

Examples
--------
>>> from sklearn_hocrf.datasets import make_name_sentences
>>> X, y = make_name_sentences(2, random_state=0)
>>> list(zip(X[0], y[0]))
[('Berlin', 'B-LOC'), ('is', 'O'), ('larger', 'O'), ('than', 'O'), ('Delhi', 'B-LOC'), ('.', 'O')]

User guide: docs/guide/inputs.md.
"""

from ._chinese import load_ud_chinese
from ._columns import dump_conll
from ._doccano import dump_doccano, load_doccano
from ._files import find_data, load_conll, load_cora_references, load_ocr_letters
from ._frames import frame_from_predictions, sequences_from_frame
from ._generators import make_digit_words, make_markov_sequences
from ._invented import make_name_sentences, make_references

__all__ = [
    "dump_conll",
    "dump_doccano",
    "find_data",
    "frame_from_predictions",
    "load_conll",
    "load_cora_references",
    "load_doccano",
    "load_ocr_letters",
    "load_ud_chinese",
    "make_digit_words",
    "make_markov_sequences",
    "make_name_sentences",
    "make_references",
    "sequences_from_frame",
]
