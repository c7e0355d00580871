"""Answers beyond the best labelling: the n best ones, samples, entropies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .._data.arrays import joined_ranges
from .._data.batch import SequenceBatch, Sequences
from .._inference.answers import BestLabellings
from .._settings import check, is_integer
from .._validation import read_sequences, warn_user
from .._validation._sklearn import available_if
from .hooks import Hooks

__all__ = ["AnswersMixin", "Candidate"]

_MOST_LABELS = 1 << 24  # of candidates that are looked for at a time: 128 MiB of their codes and lengths


class Candidate(NamedTuple):
    """One of the best labellings of a sequence."""

    labels: Any  # as predict gives them
    score: float  # log potential
    log_probability: float  # given ``known``; nan where the model has no probabilities


class AnswersMixin(Hooks):
    """The methods that return several labellings of a sequence, and those that say how uncertain labellings are."""

    def predict_nbest(
        self,
        X: Any,
        n: int = 10,
        *,
        known: Any = None,
        accept: Callable[[Any], bool] | None = None,
        max_candidates: int = 1000,
    ) -> list[list[Candidate]]:
        """Return the n most probable labellings of each sequence, best first.

        They are exact and all different. The first is that of :meth:`predict`, unless ``decoding`` asks for another.
        The least confident sequences, whose labels would teach a model most, are those with the smallest difference of
        the first two log probabilities:

        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> [round(best.log_probability - second.log_probability, 2) for best, second in crf.predict_nbest(X, 2)]
        [1.36, 0.99]

        Parameters
        ----------
        X : as in :meth:`predict`
        n : int, default=10
            Number of labellings; a sequence that has fewer gets fewer.
        known : as in :meth:`predict`
        accept : callable or None, default=None
            Which labellings count: called with ``labels``, as :meth:`predict` gives them, it returns a bool. For
            instance, ``lambda labels: labels.count("B-TITLE") <= 1``. The n best that are accepted are returned.
        max_candidates : int, default=1000
            How many labellings of a sequence are looked at, at most, if there is ``accept``.

        Returns
        -------
        candidates : list of lists of Candidate
            Named tuples ``(labels, score, log_probability)``; ``score`` is the logarithm of the potential, and
            ``log_probability``, given ``known``, is nan where the model has no probabilities.

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
        check(is_integer(n) and n >= 1, "n", "an integer of at least 1", n)
        check(accept is None or callable(accept), "accept", "a callable or None", accept)
        least = n if accept is None else max_candidates
        check(
            is_integer(max_candidates) and max_candidates >= 1, "max_candidates", "a positive integer", max_candidates
        )
        fitted: Any = self._as_fitted()
        batch, form = read_sequences(fitted, X)
        mask, model = fitted._mask(batch, form, known), fitted._build_model()
        with fitted._naming_the_impossible(model, batch, mask):
            log_z = model.log_partition(batch, fitted.n_jobs, plan=model.plan(batch, mask))
        if not hasattr(fitted, "sample"):  # there are no probabilities
            log_z[:] = np.nan
        found: list[list[Candidate]] = [[] for _ in range(len(batch))]
        asked, waiting = n, np.arange(len(batch))
        while len(waiting):
            short = []
            for numbers in _portions(waiting, batch.lengths, asked):
                tokens = joined_ranges(batch.offsets[numbers], batch.offsets[numbers + 1])
                part, part_mask = batch[numbers], mask and mask.part(tokens)
                with fitted._asked(part, part_mask) as model:
                    best = model.best_labellings(part, asked, n_jobs=fitted.n_jobs, mask=part_mask)
                candidates = _candidates(fitted, part, best, log_z[numbers])
                for place, sequence in enumerate(numbers.tolist()):
                    accepted = [c for c in candidates[place] if accept is None or accept(c.labels)]
                    found[sequence] = accepted[:n]
                    if len(accepted) < n and len(candidates[place]) == asked:
                        short.append(sequence)
            if asked >= least:
                _warn_of_short(short, n, found, asked)
                break
            asked, waiting = min(4 * asked, max_candidates), np.array(short, dtype=np.int64)
        return found

    @available_if(lambda self: self._has_probabilities())
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
        X : as in :meth:`predict`
        n_samples : int, default=1
            Number of independent labellings of each sequence.
        known : as in :meth:`predict`
        random_state : int, RandomState instance or None, default=None
            An int gives the same samples in each call, whatever ``n_jobs`` is.

        Returns
        -------
        samples : list of lists
            ``n_samples`` labellings for each sequence, each as :meth:`predict` gives it.

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
        check(is_integer(n_samples) and n_samples >= 1, "n_samples", "an integer of at least 1", n_samples)
        seed = int(check_random_state(random_state).randint(2**31))
        fitted: Any = self._as_fitted()
        batch, form = read_sequences(fitted, X)
        mask = fitted._mask(batch, form, known)
        with fitted._asked(batch, mask) as model:
            tables = model.draw(batch, n_samples, seed, n_jobs=fitted.n_jobs, mask=mask)
        drawn = zip(*(table.T for table in tables), strict=True)
        samples = [fitted._as_predicted(model.labelling(batch, *pair), batch) for pair in drawn]
        return [list(labellings) for labellings in zip(*samples, strict=True)]

    @overload
    def entropy(self, X: Any, *, level: Literal["sequence"] = "sequence", known: Any = None) -> np.ndarray: ...
    @overload
    def entropy(self, X: Sequences, *, level: Literal["token"], known: Any = None) -> list[np.ndarray]: ...
    @overload
    def entropy(self, X: Any, *, level: str, known: Any = None) -> Any: ...
    @available_if(lambda self: self._has_probabilities())
    def entropy(self, X: Any, *, level: str = "sequence", known: Any = None) -> Any:
        """Return the entropy of the labels: how uncertain the model is, in nats.

        It is computed without differences of large numbers, is never negative, and is 0 where one labelling is certain.

        Parameters
        ----------
        X : as in :meth:`predict`
        level : {"sequence", "token"}, default="sequence"
            Whether of the whole labelling of each sequence, or of the label of each token.
        known : as in :meth:`predict`

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
        check(level in ("sequence", "token"), "level", "'sequence' or 'token'", level)
        fitted: Any = self._as_fitted()
        batch, form = read_sequences(fitted, X)
        mask = fitted._mask(batch, form, known)
        if level == "token":
            return fitted._reshape(_entropy_of_rows(fitted._class_marginals(batch, mask)), batch, form)
        with fitted._asked(batch, mask) as model:
            return model.entropy(batch, n_jobs=fitted.n_jobs, mask=mask)


def _portions(sequences: np.ndarray, lengths: np.ndarray, n_best: int) -> list[np.ndarray]:
    """Return the sequences in portions of which the labels of all candidates take little memory."""
    before = np.cumsum(lengths[sequences]) - lengths[sequences]
    _, firsts = np.unique(before * n_best // _MOST_LABELS, return_index=True)
    return np.split(sequences, firsts[1:])


def _candidates(
    fitted: Any, batch: SequenceBatch, best: BestLabellings, log_z: np.ndarray | float
) -> list[list[Candidate]]:
    """Return the best labellings of each sequence for users."""
    model = fitted._build_model()
    candidates: list[list[Candidate]] = [[] for _ in range(len(batch))]
    score = best.score - best.regret
    log_probability = np.minimum(score - log_z, 0.0).tolist()
    for number, (regret, codes, lengths) in enumerate(zip(best.regret, best.codes, best.lengths, strict=True)):
        labellings = fitted._as_predicted(model.labelling(batch, codes, lengths), batch)
        rows = zip(labellings, score[number].tolist(), log_probability[number], strict=True)
        for sequence, (is_there, row) in enumerate(zip((regret < np.inf).tolist(), rows, strict=True)):
            if is_there:
                candidates[sequence].append(Candidate(*row))
    return candidates


def _warn_of_short(short: list[int], n: int, found: list[list[Candidate]], asked: int) -> None:
    """Warn of sequences where fewer than n labellings are accepted."""
    if short:
        others = f", and so for {len(short) - 1} other sequences" if len(short) > 1 else ""
        warn_user(
            f"sequence {short[0]}: accept lets only {len(found[short[0]])} of its {asked} best labellings through, not "
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
