"""Conversion of any form of X and y to a SequenceBatch and label codes, with errors for invalid input.

    form         X                                                              y
    "table"      plain 2-D array, data frame or sparse matrix                   1-D: n sequences of length 1
    "grid"       3-D array: sequences of equal length                           2-D array, or a list of sequences
    "sequences"  list of sequences, or a SequenceBatch                          list of label sequences

A sequence is a list of feature dicts or of attribute-name lists (``attributes``), or a 2-D array or sparse matrix
(``rows``). No function of this subpackage changes an estimator: ``fit`` stores the description of X as a
:class:`FeatureSpace`.
"""
