"""Answers beyond the best labelling: the n best labellings, samples, entropies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..._data._settings import check, is_integer
from ..._data.batch import Sequences
from ..._data.tagger import Labelling
from ..._data.warnings import warn_user
from ..._engine.inference.answers import BestLabellings
from .fitted_model import FittedModel, Query

_MOST_LABELS = 1 << 24  # of candidates computed at a time: 128 MiB of their codes and lengths


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


def check_nbest(n: Any, accept: Any, max_candidates: Any) -> None:
    """Raise a ValueError for invalid arguments of ``predict_nbest``."""
    check(is_integer(n) and n >= 1, "n", "an integer of at least 1", n)
    check(accept is None or callable(accept), "accept", "a callable or None", accept)
    check(is_integer(max_candidates) and max_candidates >= 1, "max_candidates", "a positive integer", max_candidates)


def check_samples(n_samples: Any, random_state: Any) -> int:
    """Return the seed of samples, or raise a ValueError for invalid arguments of ``sample``."""
    check(is_integer(n_samples) and n_samples >= 1, "n_samples", "an integer of at least 1", n_samples)
    return int(check_random_state(random_state).randint(2**31))


def check_level(level: Any) -> None:
    """Raise a ValueError for an invalid ``level`` of entropies."""
    check(level in ("sequence", "token"), "level", "'sequence' or 'token'", level)


def nbest(query: Query, n: int, accept: Callable[[Any], bool] | None, max_candidates: int) -> list[list[Labelling]]:
    """Return what ``predict_nbest`` returns."""
    posterior, log_z = query.posterior.with_log_z()
    batch, least = posterior.batch, n if accept is None else max_candidates
    found: list[list[Labelling]] = [[] for _ in range(len(batch))]
    asked, waiting = n, np.arange(len(batch))
    while len(waiting):
        short = []
        for chosen in _portions(waiting, batch.lengths, asked):
            part = posterior if len(chosen) == len(batch) else posterior.part(chosen)
            candidates = _candidates(query._replace(posterior=part), part.best_labellings(asked), log_z[chosen])
            for slot, sequence in enumerate(chosen.tolist()):
                accepted = [c for c in candidates[slot] if accept is None or accept(c.labels)]
                found[sequence] = accepted[:n]
                if len(accepted) < n and len(candidates[slot]) == asked:
                    short.append(sequence)
        if asked >= least:
            _warn_of_short(short, n, found, asked)
            break
        asked, waiting = min(4 * asked, max_candidates), np.array(short, dtype=np.int64)
    return found


def samples(query: Query, n_samples: int, seed: int) -> list[list[Any]]:
    """Return what ``sample`` returns."""
    drawn = _labellings(query, *(table.T for table in query.posterior.draw(n_samples, seed)))
    n_sequences = len(query.posterior.batch)
    return [drawn[first::n_sequences] for first in range(n_sequences)]


def entropy_of(query: Query, level: str) -> Any:
    """Return what ``entropy`` returns."""
    if level == "sequence":
        return query.posterior.entropy()
    return query.reshape(_entropy_of_rows(query.class_marginals()))


def _portions(sequences: np.ndarray, lengths: np.ndarray, n_best: int) -> list[np.ndarray]:
    """Return the sequences in portions such that the labels of all candidates take little memory."""
    before = np.cumsum(lengths[sequences]) - lengths[sequences]
    _, firsts = np.unique(before * n_best // _MOST_LABELS, return_index=True)
    return np.split(sequences, firsts[1:])


def _candidates(query: Query, best: BestLabellings, log_z: np.ndarray) -> list[list[Labelling]]:
    """Return the best labellings of each sequence for users."""
    n_sequences, score = len(log_z), best.score - best.regret + query.posterior.reduction
    log_probability = np.minimum(best.score - log_z, 0.0) - best.regret  # rounded alike for all
    labellings = _labellings(query, best.codes, best.lengths)
    rows = list(map(Labelling, labellings, score.ravel().tolist(), log_probability.ravel().tolist()))
    n_found = (best.regret < np.inf).sum(axis=0).tolist()
    return [rows[first::n_sequences][:n] for first, n in enumerate(n_found)]


def _labellings(query: Query, codes: np.ndarray, lengths: np.ndarray) -> list:
    """Return labellings of all sequences, shape (n, N), one after the other, as :meth:`predict` returns them."""
    posterior, offsets = query.posterior, query.posterior.batch.offsets
    every = np.append((offsets[:-1] + offsets[-1] * np.arange(len(codes))[:, None]).ravel(), codes.size)
    return query.targets.as_predicted(posterior.model.labelling(every, codes.ravel(), lengths.ravel()), every)


def _warn_of_short(short: list[int], n: int, found: list[list[Labelling]], asked: int) -> None:
    """Warn of sequences with fewer than n accepted labellings."""
    if short:
        others = f" (likewise for {len(short) - 1} other sequences)" if len(short) > 1 else ""
        warn_user(
            f"sequence {short[0]}: only {len(found[short[0]])} of its {asked} best labellings are accepted, fewer than "
            f"{n}{others}. Increase max_candidates"
        )


def _entropy_of_rows(probabilities: ArrayLike) -> np.ndarray:
    """Return the entropies of the rows of a table, without differences of numbers near 1."""
    table = np.array(probabilities, dtype=np.float64)
    rows = np.arange(len(table))
    table[rows, table.argmax(axis=1)] = 0.0
    rest = table.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        others = -np.where(table > 0, table * np.log(table), 0.0).sum(axis=1)
        return others - np.where(rest < 1, (1.0 - rest) * np.log1p(-rest), 0.0)
