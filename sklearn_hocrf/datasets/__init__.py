"""Synthetic data for examples and tests, and functions for files with one token per line.

The generators (``make_*``) require only a random state; ``make_name_sentences`` and ``make_references`` generate text.
X is a list of sequences: lists of strings for text, and arrays of shape (T, n_features) for numbers. y is a list of
lists of strings, or of integer arrays of shape (T,). ``load_conll`` reads your own files, plain or gzipped, and
``dump_conll`` writes plain files. The recipes of the user guide show how to read data frames and doccano files.

Examples
--------
>>> from sklearn_hocrf.datasets import make_name_sentences
>>> X, y = make_name_sentences(2, random_state=0)
>>> list(zip(X[0], y[0]))
[('Berlin', 'B-LOC'), ('is', 'O'), ('larger', 'O'), ('than', 'O'), ('Delhi', 'B-LOC'), ('.', 'O')]

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/inputs.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/recipes.html.
"""

from ._conll import dump_conll, load_conll
from ._generated import make_digit_words, make_markov_sequences, make_name_sentences, make_references

__all__ = [
    "dump_conll",
    "load_conll",
    "make_digit_words",
    "make_markov_sequences",
    "make_name_sentences",
    "make_references",
]
