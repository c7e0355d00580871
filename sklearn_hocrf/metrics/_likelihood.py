"""The likelihood of held-out labels, for scikit-learn's searches."""

from __future__ import annotations

import copy
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import MetadataRequest

from .._data.checks import unmasked
from .._data.schemes import looks_like_segments
from .._validation import check_sequence_weight, warn_user
from .._validation._delegation import method_of_model

__all__ = ["LogLikelihoodScorer"]


class LogLikelihoodScorer:
    """Mean held-out log-likelihood per token: the sum over sequences of log P(y given x), divided by the tokens.

    Pass it as ``scoring=`` to :class:`~sklearn.model_selection.GridSearchCV`, ``cross_val_score`` and similar tools,
    for the estimators, any pipeline that ends in one, and searches over these. ``metrics.log_likelihood_scorer`` is an
    instance without a floor.

    A sequence with a label that did not occur in training, or one that the model forbids, such as one with too long a
    segment, has probability 0. The mean is then -inf, unless a floor is given.

    Parameters
    ----------
    floor : float, default=None
        Lowest log-likelihood per token, in nats, below 0: a sequence of n tokens counts at least ``n * floor``. None
        means no floor.

    Raises
    ------
    ValueError
        If the floor is not a finite number below 0.

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
    array([-1.08, -0.35, -0.01])

    Labels that did not occur in training:

    >>> scorer = metrics.LogLikelihoodScorer(floor=-10)
    >>> # and a UserWarning
    >>> round(scorer(search.best_estimator_, X, y[:5] + [["DET", "VERB"]]), 2)
    -1.34
    """

    __name__ = "log_likelihood"  # of instances, for scikit-learn's displays

    def __init__(self, *, floor: float | None = None) -> None:
        if floor is not None and not (isinstance(floor, Real) and -np.inf < floor < 0):
            raise ValueError(f"floor must be None or a finite number below 0, got {floor!r:.80}")
        self.floor = floor
        self._request = MetadataRequest(owner=type(self).__name__)
        self._request.score.add_request(param="sample_weight", alias=None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.floor is None else f'floor={self.floor!r}'})"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log-likelihood per token.

        Parameters
        ----------
        estimator : estimator
            A fitted model, pipeline or search.
        X, y : as in its ``fit``
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
            If sequences have probability 0; the message gives their number.
        """
        found = method_of_model(estimator, "log_likelihood")(X, y, unknown="impossible")
        weight = check_sequence_weight(sample_weight, len(found))
        weight = np.ones(len(found)) if weight is None else weight
        lengths = _lengths(y)
        counts = weight > 0
        found, weight, lengths = found[counts], weight[counts], lengths[counts]
        if lengths.sum() == 0:
            raise ValueError("X has no tokens of positive weight, so the mean log-likelihood is undefined")
        n_impossible = int(np.isneginf(found).sum())
        if n_impossible:
            self._warn(n_impossible, len(found))
        if self.floor is not None:
            found = np.maximum(found, self.floor * lengths)
        return float(weight @ found / (weight @ lengths))

    def _warn(self, n_impossible: int, n_sequences: int) -> None:
        result = "the mean is -inf without a floor, as in LogLikelihoodScorer(floor=-10)"
        if self.floor is not None:
            result = f"they count as {self.floor:.4g} per token"
        warn_user(
            f"{n_impossible} of {n_sequences} sequences have probability 0, because of labels that did not occur in "
            f"training, or because the model forbids or prunes them: {result}"
        )

    # --- metadata routing, as for scikit-learn's scorers --------------------------------------------------------------

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Request ``sample_weight`` from searches, if scikit-learn's metadata routing is enabled.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether searches pass weights to the scorer, or the name under which they do. None: weights raise an error.

        Returns
        -------
        self : object
        """
        self._request.score.add_request(param="sample_weight", alias=sample_weight)
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata requests of the scorer."""
        return copy.deepcopy(self._request)


def _lengths(y: Any) -> np.ndarray:
    """Return the numbers of tokens of valid label sequences; a label that is not a sequence is one token."""
    sequences = list(unmasked(y) if hasattr(y, "__array__") else y)
    if any(isinstance(labels, str) or not hasattr(labels, "__len__") for labels in sequences):
        return np.ones(len(sequences))
    if not looks_like_segments(sequences):
        return np.array([len(labels) for labels in sequences], dtype=np.float64)
    return np.array([max((segment[1] for segment in segments), default=0) for segments in sequences], dtype=np.float64)
