"""Scorers that ask the model: for the likelihood of held-out labels, and for the scheme of its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._data.checks import unmasked
from .._data.label_sequences import read_segment_table
from .._data.schemes import looks_like_segments
from .._data.warnings import warn_user
from .._validation._delegation import method_of_model, model_inside
from ._items import check_weight
from ._scores import segment_f1_score


def segment_f1_scorer(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the micro-averaged F1 of exact segments: ``segment_f1_score(y, estimator.predict(X))``.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools.

    Labels encode segments as in the model: the scheme of a :class:`~sklearn_hocrf.HighOrderSemiCRF`, or the one that
    the ``constraints`` of a :class:`~sklearn_hocrf.HighOrderCRF` name, or else the scheme of the labels that it has
    learned. The model may be inside pipelines, searches and calibration. The scheme of any other model is guessed from
    the labels. For other parameters and averages, and for weights in searches, see the recipe for scorers in the user
    guide: docs/guide/recipes.md.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its segments.

    Returns
    -------
    score : float

    Raises
    ------
    TypeError, ValueError
        As for :func:`segment_f1_score`.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X = [[["Ann"], ["left"]], [["Bob"], ["met"], ["Ann"]]] * 3
    >>> y = [["B-PER", "O"], ["B-PER", "O", "B-PER"]] * 3
    >>> cross_val_score(HighOrderCRF(), X, y, cv=3, scoring=metrics.segment_f1_scorer)
    array([1., 1., 1.])
    """
    scheme = getattr(model_inside(estimator), "scheme_", "auto")
    return float(segment_f1_score(y, estimator.predict(X), scheme=scheme, sample_weight=sample_weight))


def log_likelihood_scorer(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean log-likelihood per token: the sum over sequences of log P(y given x), divided by the tokens.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools, for the estimators, any pipeline that ends in one, and searches over these.

    A sequence with a label that did not occur in training, or one that the model forbids, such as one with too long a
    segment, has probability 0. The mean is then -inf. The user guide has a scorer with a lower bound, and weights in
    searches: docs/guide/recipes.md.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens. Sequences of weight 0 do not count.

    Returns
    -------
    score : float
        In nats, at most 0.

    Raises
    ------
    AttributeError
        If the estimator has no ``log_likelihood``.
    ValueError
        If there are no tokens of positive weight, or for invalid data.

    Warns
    -----
    UserWarning
        If sequences have probability 0; the message gives their indices.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]] * 3
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]] * 3
    >>> grid = {"sigma_reg": [0.1, 1, 10]}
    >>> search = GridSearchCV(
    ...     HighOrderCRF(), grid, cv=3, scoring=metrics.log_likelihood_scorer
    ... ).fit(X, y)
    >>> search.cv_results_["mean_test_score"].round(2)
    array([-1.07, -0.29, -0.01])
    """
    found = method_of_model(estimator, "log_likelihood")(X, y, unknown="impossible")
    weight = check_weight(sample_weight, len(found))
    lengths = _lengths(y)
    counts = weight > 0
    found, weight, lengths = found[counts], weight[counts], lengths[counts]
    if lengths.sum() == 0:
        raise ValueError("X has no tokens of positive weight, so the mean log-likelihood is undefined")
    n_impossible = int(np.isneginf(found).sum())
    if n_impossible:
        warn_user(
            f"{n_impossible} of {len(found)} sequences have probability 0, because of labels that did not occur in "
            "training, or because the model forbids or prunes them: the mean is -inf"
        )
    return float(weight @ found / (weight @ lengths))


def _lengths(y: Any) -> np.ndarray:
    """Return the numbers of tokens of valid label sequences; a label that is not a sequence is one token."""
    sequences = list(unmasked(y) if hasattr(y, "__array__") else y)
    if any(isinstance(labels, str) or not hasattr(labels, "__len__") for labels in sequences):
        return np.ones(len(sequences))
    if not looks_like_segments(sequences):
        return np.array([len(labels) for labels in sequences], dtype=np.float64)
    table, lengths = read_segment_table(sequences, "y"), np.zeros(len(sequences))
    np.maximum.at(lengths, table.sequence, table.stop)
    return lengths
