"""Migrate from other programs: read CRFsuite models.

:func:`from_crfsuite` turns a CRFsuite model into a fitted :class:`~sklearn_hocrf.HighOrderCRF`, which gives the same
labels and probabilities and offers more methods.

>>> import sklearn_crfsuite  # pip install sklearn-crfsuite
>>> from sklearn_hocrf.interop import from_crfsuite
>>> X, y = (
...     [[{"word": "the"}, {"word": "man"}], [{"word": "old"}]],
...     [["DET", "NOUN"], ["ADJ"]],
... )
>>> old = sklearn_crfsuite.CRF(c2=0.1).fit(X, y)
>>> from_crfsuite(old).predict(X)
[['DET', 'NOUN'], ['ADJ']]

User guide: docs/guide/migration.md has the options of CRFsuite, CRF++, Wapiti and MALLET, and what they are here.
"""

from ._crfsuite import from_crfsuite

__all__ = ["from_crfsuite"]
