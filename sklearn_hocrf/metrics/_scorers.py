"""Scorers for searches and cross-validation: functions of an estimator, X and y.

scikit-learn's own, such as "accuracy" and "f1_macro", take one label per sample, so they cannot score sequences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import f1_score

from .._data.messages import warn_user
from .._reading.label_sequences import read_segment_table, read_tokens
from .._reading.schemes import looks_like_segments
from .._reading.values import is_ordered_collection, unmasked
from .._sklearn.layers import method_of_model, model_inside
from ._items import check_weight, pair_tokens
from ._scores import segment_f1_score, sequence_accuracy_score, token_accuracy_score


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
    return float(segment_f1_score(*_labels(estimator, X, y), scheme=scheme, sample_weight=sample_weight))


def token_accuracy_scorer(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the fraction of tokens with the right label, for any estimator that predicts sequences of labels.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools. It is the ``score`` of this package's estimators, unless y lists segments.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, for all of its tokens.

    Returns
    -------
    score : float

    Raises
    ------
    TypeError, ValueError
        As for :func:`token_accuracy_score`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X, y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
    >>> metrics.token_accuracy_scorer(HighOrderCRF().fit(X, y), X, [["A", "B"], ["A"]])
    0.6666666666666666
    """
    return token_accuracy_score(*_labels(estimator, X, y), sample_weight=sample_weight)


def token_f1_scorer(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the macro-averaged F1 of token labels: the mean of the F1 of each label.

    Rare labels count as much as frequent ones. Pass the function as ``scoring=`` to
    :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar tools.

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
        That of scikit-learn's ``f1_score(..., average="macro")`` for the labels of all tokens.

    Raises
    ------
    TypeError, ValueError
        As for :func:`token_accuracy_score`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X, y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
    >>> metrics.token_f1_scorer(HighOrderCRF().fit(X, y), X, [["A", "B"], ["A"]])
    0.6666666666666666
    """
    y_true, y_pred = _labels(estimator, X, y)
    items = pair_tokens(*read_tokens(y_true=y_true, y_pred=y_pred))
    weight = check_weight(sample_weight, items.n_sequences)[items.sequence]
    counts = weight > 0
    if not counts.any():
        raise ValueError("there are no tokens with a weight above 0, so there is no F1")
    return float(f1_score(items.true[counts], items.predicted[counts], average="macro", sample_weight=weight[counts]))


def sequence_accuracy_scorer(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the fraction of sequences without an error, such as addresses that are parsed correctly.

    Pass the function as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar
    tools.

    Parameters
    ----------
    estimator : estimator
        A fitted model, pipeline or search.
    X, y : as in its ``fit``
        Sequences and their true labels or segments.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence.

    Returns
    -------
    score : float

    Raises
    ------
    TypeError, ValueError
        As for :func:`sequence_accuracy_score`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF, metrics
    >>> X, y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
    >>> metrics.sequence_accuracy_scorer(HighOrderCRF().fit(X, y), X, [["A", "B"], ["A"]])
    0.5
    """
    return sequence_accuracy_score(*_labels(estimator, X, y), sample_weight=sample_weight)


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
        Sequences and their true labels. Sequences whose labels are None do not count.
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


def _labels(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return true and predicted labels as sequences; the rows of a plain table are sequences of one token."""
    return _as_sequences(y), _as_sequences(estimator.predict(X))


def _as_sequences(y: Any) -> Any:
    """Return label sequences unchanged; plain labels as sequences of one."""
    labels = unmasked(y) if hasattr(y, "__array__") else y
    if not is_ordered_collection(labels) or not len(labels):
        return y
    is_plain = all(isinstance(label, str) or not hasattr(label, "__len__") for label in labels)
    return [[label] for label in labels] if is_plain else y


def _lengths(y: Any) -> np.ndarray:
    """Return the numbers of tokens of valid label sequences, 0 for None; a label of a plain table is one token."""
    sequences = list(unmasked(y) if hasattr(y, "__array__") else y)
    if all(isinstance(labels, str) or not hasattr(labels, "__len__") for labels in sequences):
        return np.ones(len(sequences))
    sequences = [() if labels is None else labels for labels in sequences]
    if not looks_like_segments(sequences):
        return np.array([len(labels) for labels in sequences], dtype=np.float64)
    table, lengths = read_segment_table(sequences, "y"), np.zeros(len(sequences))
    np.maximum.at(lengths, table.sequence, table.stop)
    return lengths
