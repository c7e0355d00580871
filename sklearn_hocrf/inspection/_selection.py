"""Which sequences to label next."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.batch import SequenceBatch
from .._estimator.fitted_model import FittedModel
from .._settings import check, is_integer

__all__ = ["select_sequences"]


def select_sequences(estimator: Any, X: Any, n: int = 10, *, by: str = "entropy", per: str = "token") -> np.ndarray:
    """Return the sequences about which a model is least certain, which are the most informative to label next.

    Uncertainty sampling [1]_: label these sequences, add them to the training data, fit again, and repeat.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, or a pipeline or search around one
        A fitted model.
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        As in the estimator's ``predict``.
        Sequences without labels.
    n : int, default=10
        Number of sequences, at most those of X.
    by : {"entropy", "margin", "least confident"}, default="entropy"
        The uncertainty: the entropy of the labels; how small the difference between the probabilities of the two best
        ones is; or one minus the probability of the best one.
    per : {"token", "sequence"}, default="token"
        Whether these are the labels of a token, of which the mean of a sequence counts, or whole labellings. Whole
        labellings of long sequences are less certain, so "sequence" prefers these, which also take longer to label.

    Returns
    -------
    indices : ndarray of shape (n,), int64
        Numbers of sequences in X, the least certain first. Empty sequences are last; ties are in the order of X.

    Raises
    ------
    ValueError, TypeError
        If an option is invalid, if X has fewer than n sequences, or if X does not match that of fit.

    References
    ----------
    .. [1] Settles and Craven, "An analysis of active learning strategies for sequence labeling tasks", EMNLP 2008,
       section 3.1.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import select_sequences
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF().fit(X, y)
    >>> select_sequences(crf, [[["the"], ["man"]], [["new"], ["word"]], []], 2)
    array([1, 0])
    """
    check(by in ("entropy", "margin", "least confident"), "by", "'entropy', 'margin' or 'least confident'", by)
    check(per in ("token", "sequence"), "per", "'token' or 'sequence'", per)
    fitted, X = FittedModel.and_input(estimator, X)
    batch, _ = fitted.read(X)
    check(is_integer(n) and 1 <= n <= len(batch), "n", f"an integer from 1 to {len(batch)}, the number of sequences", n)
    measure = _of_tokens if per == "token" else _of_labellings
    uncertainty = np.where(batch.lengths > 0, measure(fitted.estimator, batch, by), -np.inf)
    return np.argsort(-uncertainty, kind="stable")[:n]


def _of_tokens(model: Any, batch: SequenceBatch, by: str) -> np.ndarray:
    """Return the mean uncertainty of the tokens of each sequence; shape (n_sequences,)."""
    if by == "entropy":
        tables = model.entropy(batch, level="token")
    else:
        tables = [_of_best(np.sort(table, axis=1).T[::-1], by) for table in model.predict_marginals(batch)]
    return np.array([table.mean() if len(table) else 0.0 for table in tables])


def _of_labellings(model: Any, batch: SequenceBatch, by: str) -> np.ndarray:
    """Return the uncertainty of the labelling of each sequence; shape (n_sequences,)."""
    if by == "entropy":
        return model.entropy(batch)
    found = model.predict_nbest(batch, 2)
    return np.array([_of_best(np.exp([candidate.log_probability for candidate in best]), by) for best in found])


def _of_best(probabilities: np.ndarray, by: str) -> Any:
    """Return the uncertainty, given probabilities that descend along the first axis."""
    if by == "least confident":
        return 1 - probabilities[0]
    return (probabilities[1] if len(probabilities) > 1 else 0.0) - probabilities[0]
