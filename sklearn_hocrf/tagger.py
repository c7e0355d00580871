"""Tagging with only numpy installed: functions that write a model to a small file, and a class that reads it.

:func:`export_tagger` writes a fitted :class:`~sklearn_hocrf.HighOrderCRF`, alone or behind an extractor, into one file.
:class:`Tagger` reads the file and predicts the same labels, probabilities and segments as the estimator, one sequence
at a time. This module imports only numpy and the standard library; you may copy the module that reads the files,
`_data/tagger.py`, into a product (BSD-3-Clause).

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

A file contains no code; loading a damaged or malicious file raises a ValueError.

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/production.html, also for a service in a few
lines; https://sklearn-hocrf.github.io/sklearn-hocrf/stable/api/tagger_file.html describes the files.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from ._data import tagger as _tagger
from ._data.tagger import Labelling, Tagger

__all__ = ["Tagger", "export_crfsuite", "export_tagger"]

for _public in (Labelling, Tagger):
    _public.__module__ = __name__  # unless the reader is copied


def _compiled(n_labels, structure, score, borders, pairs):
    """Return the compiled model of a tagger; None without numba, and where a batch is needed."""
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
    """Write a fitted model into a file for :class:`Tagger`.

    Parameters
    ----------
    model : HighOrderCRF, or pipeline, search or calibrated model with one
        A pipeline may contain one :class:`~sklearn_hocrf.feature_extraction.SequenceFeatureExtractor` before the model.
        A model alone must take feature dicts or names.
    path : str or path
        A file of that name is replaced atomically.
    dtype : {"float32", "float64"}, default="float32"
        Type of the weights. With float64, all results are those of the estimator, up to rounding (1e-12).
    compress : bool or None, default=None
        Whether to compress everything except the weights, to about a quarter. None compresses files below 16 MiB;
        processes that map a larger file share its memory.

    Returns
    -------
    n_bytes : int
        The size of the file.

    Raises
    ------
    ValueError, TypeError
        If a tagger cannot represent the model: features of segments, ``pruning``, hashed features, arrays of numbers as
        fields, or several other transformers.

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
    from ._estimator.export import export  # it needs all that reading does not

    return export(model, path, dtype, compress)


def export_crfsuite(model: Any, path: str | os.PathLike, *, bias: str | None = None) -> None:
    """Write a fitted model of order 1 as a model file of CRFsuite.

    python-crfsuite and all other programs that read such files can tag with it, so a product keeps its dependencies and
    code, and only training changes. The file gives the same labels and probabilities as the model.

    Parameters
    ----------
    model : HighOrderCRF, or pipeline or search with one
        A model with ``max_order=1`` and named features. The file does not contain the transformers of a pipeline: the
        program that tags must pass the attributes that they make, by their names in ``feature_names_in_`` of the model.
        For feature dicts and lists of names, these are the attributes of python-crfsuite.
    path : str or path
        A file of that name is replaced atomically.
    bias : str or None, default=None
        Name of an attribute that you will add to each token, with the value 1. Its weights are the model's intercepts,
        plus the weights that an attribute of this name already has. Needed only with ``fit_intercept=True``.

    Raises
    ------
    ValueError
        If the format cannot represent the model: whole segments, a history of segments, patterns of three or more
        labels, ``feature_order``, ``label_parts``, ``constraints``, ``pruning``, intercepts without `bias`, attributes
        without names (arrays, hashed features), or names with null characters or halves of surrogate pairs; or if the
        file would be larger than 4 GiB.
    TypeError
        If some labels or names are not str, or for calibrated, conformal and stacked models.

    See Also
    --------
    sklearn_hocrf.HighOrderCRF.from_crfsuite : Reads these files.
    export_tagger : Files for all orders, read with numpy alone.

    Notes
    -----
    Labels have the order of ``classes_``. As in files of CRFsuite, weights that are 0 and attributes without any other
    weight are left out.

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
