"""Tagging with only numpy installed: functions that write a model to a small file, and a class that reads the file.

:func:`export_tagger` writes a fitted :class:`~sklearn_hocrf.HighOrderCRF`, alone or in a pipeline with an extractor, to
one file. :class:`Tagger` reads the file and predicts the same labels, probabilities and segments as the estimator, one
sequence at a time. This module imports only numpy and the standard library. You may copy the module that reads the
files, `_data/tagger.py`, into a product (BSD-3-Clause).

>>> import os, tempfile
>>> from sklearn_hocrf import HighOrderCRF, datasets, make_pipeline
>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> from sklearn_hocrf.tagger import Tagger, export_tagger
>>> X, y = datasets.make_name_sentences(200, random_state=0)
>>> pipe = make_pipeline(
...     SequenceFeatureExtractor(), HighOrderCRF(constraints="bio")
... ).fit(X, y)
>>> folder = tempfile.TemporaryDirectory()
>>> path = os.path.join(folder.name, "names.hocrf")
>>> size = export_tagger(pipe, path)
>>> tagger = Tagger(path)  # by any number of threads and processes
>>> [tagger.predict(tokens) for tokens in X] == pipe.predict(X)
True
>>> tokens = "Victoria Berg left Kyoto for York & Co .".split()
>>> tagger.predict(tokens)
['B-PER', 'I-PER', 'O', 'B-LOC', 'O', 'B-ORG', 'I-ORG', 'I-ORG', 'O']
>>> for start, stop, label, probability in tagger.predict_segments(
...     tokens, with_probability=True
... ):
...     print(start, stop, label, probability > 0.8)
0 2 PER True
3 4 LOC True
5 8 ORG True

Files contain no code, and loading a damaged or malicious file raises a ValueError.

User guide, including a service in a few lines:
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/production.html. Description of the files:
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/api/tagger_file.html.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from ._data import tagger as _tagger
from ._data.tagger import Labelling, Tagger

__all__ = ["Tagger", "export_crfsuite", "export_tagger"]

for _public in (Labelling, Tagger):
    _public.__module__ = __name__  # but not in a copy of _data/tagger.py


def _compiled(n_labels, structure, score, borders, pairs):
    """Return the compiled model of a tagger, or None if numba is absent or the model requires a batch."""
    try:
        from ._engine.inference.chain import OneSequence
    except ImportError:
        return None
    return OneSequence.of_arrays(n_labels, structure, score, borders, pairs)


_tagger.compiled = _compiled


def export_tagger(
    model: Any,
    path: str | os.PathLike,
    *,
    dtype: Literal["float32", "float64"] = "float32",
    compress: bool | None = None,
) -> int:
    """Write a fitted model to a file for :class:`Tagger`.

    Parameters
    ----------
    model : HighOrderCRF, or pipeline, search or calibrated model with one
        A pipeline may contain one :class:`~sklearn_hocrf.feature_extraction.SequenceFeatureExtractor` before the model.
        A model without a pipeline must have been fitted on feature dicts or lists of attribute names.
    path : str or path
        An existing file of that name is replaced atomically.
    dtype : {"float32", "float64"}, default="float32"
        Type of the weights. With float64, all results equal those of the estimator up to rounding (1e-12).
    compress : bool or None, default=None
        Whether to compress all arrays except the weights, to about a quarter of their size. None compresses files below
        16 MiB; larger files stay uncompressed, so that processes that map the same file share memory.

    Returns
    -------
    n_bytes : int
        The size of the file.

    Raises
    ------
    ValueError, TypeError
        If the model has a property that a tagger cannot represent: features of segments, ``pruning``, hashed features,
        arrays of numbers as fields, or transformers other than one extractor.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.tagger import Tagger, export_tagger
    >>> X, y = (
    ...     [[["the"], ["old"], ["man"]], [["the"], ["man"]]],
    ...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = export_tagger(
    ...         HighOrderCRF().fit(X, y), os.path.join(folder, "tags.hocrf")
    ...     )
    ...     tagger = Tagger(os.path.join(folder, "tags.hocrf"))
    >>> tagger.predict([["the"], ["old"], ["house"]])
    ['DET', 'ADJ', 'NOUN']
    """
    from ._estimator.export import export  # imports packages that are not required to read a file

    return export(model, path, dtype, compress)


def export_crfsuite(model: Any, path: str | os.PathLike, *, bias: str | None = None) -> None:
    """Write a fitted model of order 1 as a CRFsuite model file.

    python-crfsuite and all other programs that read such files can tag with the file, so only the training code of an
    application has to change. These programs predict the same labels and probabilities as the model.

    Parameters
    ----------
    model : HighOrderCRF, or pipeline or search with one
        A model with ``max_order=1`` and named features. The file does not contain the transformers of a pipeline: the
        tagging program must pass the attributes that the transformers would produce, with their names in
        ``feature_names_in_`` of the model. For feature dicts and lists of attribute names, these attributes are the
        same as in python-crfsuite.
    path : str or path
        An existing file of that name is replaced atomically.
    bias : str or None, default=None
        Name of an attribute that you will add to each token, with the value 1. The weights of this attribute are the
        model's intercepts, plus the weights that an attribute of the same name already has. Required only if
        ``fit_intercept=True``.

    Raises
    ------
    ValueError
        If the model has a property that the format cannot represent: whole segments, a history of segments, patterns of
        three or more labels, ``feature_order``, ``label_parts``, ``constraints``, ``pruning``, intercepts without
        `bias`, attributes without names (arrays, hashed features), or names with null characters or halves of surrogate
        pairs; or if the file would be larger than 4 GiB.
    TypeError
        If a label or name is not a string, or if the model is calibrated, conformal or stacked.

    See Also
    --------
    sklearn_hocrf.HighOrderCRF.from_crfsuite : Read CRFsuite model files.
    export_tagger : Write models of any order to files that can be read with numpy alone.

    Notes
    -----
    Labels are in the order of ``classes_``. As in files that CRFsuite writes, zero weights, and attributes that have
    only zero weights, are left out.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.tagger import export_crfsuite
    >>> X, y = (
    ...     [[["the"], ["old"], ["man"]], [["the"], ["man"]]],
    ...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
    ... )
    >>> crf = HighOrderCRF(max_order=1, fit_intercept=False).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_crfsuite(crf, os.path.join(folder, "tags.crfsuite"))
    ...     again = HighOrderCRF.from_crfsuite(os.path.join(folder, "tags.crfsuite"))
    >>> again.predict([[["the"], ["old"], ["house"]]])
    [['DET', 'ADJ', 'NOUN']]
    """
    from ._estimator.crfsuite import write_crfsuite_file

    write_crfsuite_file(model, path, bias)
