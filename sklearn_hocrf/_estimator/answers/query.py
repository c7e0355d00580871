"""Queries about labellings, with results in terms of the user's labels and in the form of X."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..._data.arrays import offsets_of
from ..._data.checks import check, is_integer, is_number
from ..._data.messages import warn_user
from ..._data.segments import Mask, Segments, both, token_labels
from ..._data.tagger import Labelling
from ..._engine.inference.model import LabelledBatch
from ..._engine.inference.posterior import Evidence
from ..._reading.known import Known
from ..._reading.schemes import segment_lists, segments_of_tags
from ..labels.patterns import SegmentTags, segment_tables


class Query(NamedTuple):
    """Sequences for which a model computes results, and the form of the results. N tokens."""

    posterior: Any  # Posterior
    targets: Any  # TokenTargets or SegmentTargets
    form: str = "sequences"  # of X

    def with_evidence(self, mask: Mask) -> Self:
        """Return the query conditional on known labels; ``mask`` contains the labellings that agree with them."""
        free = self.posterior
        evidence = Evidence(mask)
        return self._replace(posterior=free.model.posterior(free.batch, free.support, free.n_jobs, evidence))

    def class_marginals(self) -> np.ndarray:
        """Return the probabilities of ``classes_`` at each token; shape (N, n_classes)."""
        channels = self.targets.tag_channels()
        if channels is None:
            return self.posterior.marginals()
        table = self.posterior.tag_marginals(channels)
        return np.divide(table, np.add.reduce(table, axis=1, keepdims=True), out=table)

    def reshape(self, rows: np.ndarray) -> Any:
        """Reshape a table with one row per token to the form of X."""
        if self.form == "table":
            return rows
        batch = self.posterior.batch
        if self.form == "grid":
            length = int(batch.lengths[0]) if len(batch) else 0
            return rows.reshape(len(batch), length, *rows.shape[1:])
        return [rows[start:stop] for start, stop in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]

    def labelled(self, known: Known) -> LabelledBatch:
        """Return the sequences with the labels in ``known``."""
        posterior, plan, support = self.posterior, self.posterior.plan, self.posterior.support
        if not known.is_complete:
            event = plan.masked(both(support, known.mask), may_be_impossible=True)
            return LabelledBatch(plan, None, event, known.is_impossible)
        truth = self.targets.labelling_of(known)
        is_impossible = np.zeros(len(posterior.batch), dtype=bool)
        if support is not None:
            codes = token_labels(posterior.model.layout.units(posterior.batch, truth))
            is_allowed = support.allowed[np.arange(len(codes)), codes] & (codes >= 0)  # -1 is not a label
            is_impossible = np.diff(offsets_of(~is_allowed)[posterior.batch.offsets]) > 0
        return LabelledBatch(plan, truth, None, is_impossible)

    def labels(self) -> Any:
        """Return the labels of the best labellings, in the form of X."""
        targets = self.targets
        labelling = self.posterior.decode()
        if self.form == "sequences" or targets.scheme == "segments":
            return targets.as_predicted(labelling, self.posterior.batch.offsets)
        return self.reshape(targets.classes[targets.token_codes(labelling)])

    @staticmethod
    def check_nbest(n: int, accept: Callable | None, max_candidates: int) -> None:
        """Raise a ValueError for invalid arguments of ``predict_nbest``."""
        check(is_integer(n) and n >= 1, "n", "an integer of at least 1", n)
        check(accept is None or callable(accept), "accept", "a callable or None", accept)
        check(
            is_integer(max_candidates) and max_candidates >= 1, "max_candidates", "a positive integer", max_candidates
        )

    def nbest(self, n: int, accept: Callable[..., bool] | None, max_candidates: int) -> list[list[Labelling]]:
        """Return the result of ``predict_nbest``."""
        posterior, log_z = self.posterior.with_log_z()
        batch, least = posterior.batch, n if accept is None else max_candidates
        labellings: list[list[Labelling]] = [[] for _ in range(len(batch))]
        asked, waiting = n, np.arange(len(batch))
        while len(waiting):
            short = []
            for chosen in _portions(waiting, batch.lengths, asked):
                part = posterior if len(chosen) == len(batch) else posterior.part(chosen)
                candidates = self._replace(posterior=part)._candidates(asked, log_z[chosen])
                for slot, sequence in enumerate(chosen.tolist()):
                    accepted = [c for c in candidates[slot] if accept is None or accept(c.labels)]
                    labellings[sequence] = accepted[:n]
                    if len(accepted) < n and len(candidates[slot]) == asked:
                        short.append(sequence)
            if asked >= least:
                _warn_of_short(short, n, labellings, asked)
                break
            asked, waiting = min(4 * asked, max_candidates), np.array(short, dtype=np.int64)
        return labellings

    def _candidates(self, n_best: int, log_z: np.ndarray) -> list[list[Labelling]]:
        """Return the best labellings of each sequence, with the user's labels."""
        best = self.posterior.best_labellings(n_best)
        n_sequences, score = len(log_z), best.score - best.regret + self.posterior.reduction
        log_probability = np.minimum(best.score - log_z, 0.0) - best.regret  # all share its rounding
        labellings = self._labellings(best.codes, best.lengths)
        rows = list(map(Labelling, labellings, score.ravel().tolist(), log_probability.ravel().tolist()))
        n_found = (best.regret < np.inf).sum(axis=0).tolist()
        return [rows[first::n_sequences][:n] for first, n in enumerate(n_found)]

    def _labellings(self, codes: np.ndarray, lengths: np.ndarray) -> list:
        """Convert the codes of labellings, shape (n, N), to a list of labellings in the form of :meth:`predict`."""
        posterior, offsets = self.posterior, self.posterior.batch.offsets
        every = np.append((offsets[:-1] + offsets[-1] * np.arange(len(codes))[:, None]).ravel(), codes.size)
        return self.targets.as_predicted(posterior.model.labelling(every, codes.ravel(), lengths.ravel()), every)

    @staticmethod
    def check_samples(n_samples: int, random_state: int | np.random.RandomState | None) -> int:
        """Return the seed for sampling, or raise a ValueError for invalid arguments of ``sample``."""
        check(is_integer(n_samples) and n_samples >= 1, "n_samples", "an integer of at least 1", n_samples)
        return int(check_random_state(random_state).randint(2**31))

    def samples(self, n_samples: int, seed: int) -> list[list]:
        """Return the result of ``sample``."""
        drawn = self._labellings(*(table.T for table in self.posterior.draw(n_samples, seed)))
        n_sequences = len(self.posterior.batch)
        return [drawn[first::n_sequences] for first in range(n_sequences)]

    @staticmethod
    def check_level(level: str) -> None:
        """Raise a ValueError for an invalid ``level`` of entropies."""
        check(level in ("sequence", "token"), "level", "'sequence' or 'token'", level)

    def entropy(self, level: str) -> Any:
        """Return the result of ``entropy``."""
        if level == "sequence":
            return self.posterior.entropy()
        return self.reshape(_entropy_of_rows(self.class_marginals()))

    @staticmethod
    def check_threshold(threshold: float | None) -> None:
        """Raise a ValueError unless a threshold is a probability or None."""
        is_valid = threshold is None or (is_number(threshold) and 0 <= threshold <= 1)
        check(is_valid, "threshold", "a probability, a number in [0, 1], or None", threshold)

    def segments(
        self, threshold: float | None, with_probability: bool, tags: SegmentTags | None = None
    ) -> list[list] | list[np.ndarray]:
        """Return the result of ``predict_segments``; for models of tokens, ``tags`` contains the labels as tags."""
        posterior, offsets = self.posterior, self.posterior.batch.offsets
        names, of_tags = (self.targets.labels, ()) if tags is None else (tags.names, (tags.tags,))
        outside = self.targets.outside if tags is None else -1
        if threshold is not None:
            segments, probability = posterior.segment_marginals(threshold, *of_tags)
            probability = probability[segments.codes != outside]
            return segment_tables(offsets, segments.without(outside), probability, names)
        best = posterior.decode()
        segments = best.without(outside) if tags is None else segments_of_codes(best, offsets, tags)
        if not with_probability:
            return segment_lists(segments, offsets, names.tolist())
        return segment_tables(offsets, segments, posterior.segment_probabilities(segments, *of_tags), names)


_MOST_LABELS = 1 << 24  # of candidates in a portion; their codes and lengths take 128 MiB


def _portions(sequences: np.ndarray, lengths: np.ndarray, n_best: int) -> list[np.ndarray]:
    """Return portions of the sequences, small enough that the labels of their candidates take little memory."""
    before = np.cumsum(lengths[sequences]) - lengths[sequences]
    _, firsts = np.unique(before * n_best // _MOST_LABELS, return_index=True)
    return np.split(sequences, firsts[1:])


def _warn_of_short(short: list[int], n: int, nbest: list[list[Labelling]], asked: int) -> None:
    """Warn about sequences with fewer than n accepted labellings."""
    if short:
        others = f" (likewise for {len(short) - 1} other sequences)" if len(short) > 1 else ""
        warn_user(
            f"sequence {short[0]}: only {len(nbest[short[0]])} of its {asked} best labellings are accepted, fewer than "
            f"{n}{others}. Increase max_candidates"
        )


def _entropy_of_rows(probabilities: ArrayLike) -> np.ndarray:
    """Return the entropy of each row of a table; no step subtracts numbers near 1 from each other."""
    table = np.array(probabilities, dtype=np.float64)
    rows = np.arange(len(table))
    table[rows, table.argmax(axis=1)] = 0.0
    rest = table.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        others = -np.where(table > 0, table * np.log(table), 0.0).sum(axis=1)
        return others - np.where(rest < 1, (1.0 - rest) * np.log1p(-rest), 0.0)


def segments_of_codes(codes: np.ndarray, offsets: np.ndarray, tags: SegmentTags) -> Segments:
    """Return the segments that labels encode."""
    return segments_of_tags(tags.table.prefix[codes], tags.table.label[codes], offsets).without(-1)
