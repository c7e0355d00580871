"""Answers beyond the best labelling: the n best labellings, samples, entropies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from ..._data.batch import Sequences
from ..._data.tagger import Labelling
from .fitted_model import FittedModel
from .query import check_level, check_nbest, check_samples, entropy_of, nbest, samples


class AnswersMixin:
    """Methods that return several labellings of a sequence, or the uncertainty of labellings."""

    def predict_nbest(
        self,
        X: Any,
        n: int = 10,
        *,
        known: Any = None,
        accept: Callable[[Any], bool] | None = None,
        max_candidates: int = 1000,
    ) -> list[list[Labelling]]:
        """Return the n most probable labellings of each sequence, best first.

        They are exact and all different. The first is the result of :meth:`predict`. A sequence is uncertain if the
        first two log probabilities are close:

        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> [
        ...     round(best.log_probability - second.log_probability, 2)
        ...     for best, second in crf.predict_nbest(X, 2)
        ... ]
        [1.36, 0.99]

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        n : int, default=10
            Number of labellings; fewer for a sequence that has fewer.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
        accept : callable or None, default=None
            Which labellings to accept: called with ``labels``, as returned by :meth:`predict`, it returns a bool. For
            instance, ``lambda labels: labels.count("B-TITLE") <= 1``. The n best accepted labellings are returned.
        max_candidates : int, default=1000
            Maximum number of labellings of a sequence to check with ``accept``.

        Returns
        -------
        candidates : list of lists of Labelling
            Named tuples ``(labels, score, log_probability)``; ``score`` is the logarithm of the potential, and
            ``log_probability`` is given ``known``.

        Raises
        ------
        ValueError
            For n < 1, and for sequences without any labelling.

        Warns
        -----
        UserWarning
            If fewer than n of the ``max_candidates`` best labellings of a sequence are accepted.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]], [["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], ["NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> for labels, score, log_probability in crf.predict_nbest(X, 2)[1]:
        ...     print(labels, round(score, 2), round(log_probability, 2))
        ['DET', 'NOUN'] 2.32 -0.97
        ['NOUN', 'NOUN'] 1.42 -1.87
        """
        check_nbest(n, accept, max_candidates)
        return nbest(FittedModel(self).ask(X, known), n, accept, max_candidates)

    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        *,
        known: Any = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> list[list[Any]]:
        """Draw labellings of each sequence from their exact distribution.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        n_samples : int, default=1
            Number of independent labellings of each sequence.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
        random_state : int, RandomState instance or None, default=None
            An int gives the same samples in each call, for any ``n_jobs``.

        Returns
        -------
        samples : list of lists
            ``n_samples`` labellings for each sequence, each as returned by :meth:`predict`.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> samples = crf.sample(X[1:], 100_000, random_state=0)[0]
        >>> round(samples.count(["DET", "NOUN"]) / 100_000, 2)
        0.35
        >>> float(crf.log_likelihood(X[1:], y[1:]).round(2)[0])  # exp(-1.05) = 0.35
        -1.05
        """
        seed = check_samples(n_samples, random_state)
        return samples(FittedModel(self).ask(X, known), n_samples, seed)

    @overload
    def entropy(self, X: Any, *, level: Literal["sequence"] = "sequence", known: Any = None) -> np.ndarray: ...
    @overload
    def entropy(self, X: Sequences, *, level: Literal["token"], known: Any = None) -> list[np.ndarray]: ...
    @overload
    def entropy(self, X: Any, *, level: str, known: Any = None) -> Any: ...
    def entropy(self, X: Any, *, level: str = "sequence", known: Any = None) -> Any:
        """Return the entropy of the labels: how uncertain the model is, in nats.

        It is computed without differences of large numbers, is never negative, and is 0 if one labelling is certain.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        level : {"sequence", "token"}, default="sequence"
            Whether to return one entropy per sequence (of the whole labelling) or one per token.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        entropy : ndarray of shape (n_sequences,), or as :meth:`predict_marginals` without the last axis
            For tokens, the entropy of ``classes_``.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> crf.entropy(X).round(2)
        array([2.72, 1.91])
        >>> crf.entropy(X, level="token")[1].round(2)
        array([0.96, 0.96])
        """
        check_level(level)
        return entropy_of(FittedModel(self).ask(X, known), level)
