"""Decoding for a loss: predictions other than the most probable labelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._data.checks import check_choice, short
from .._data.labels import label_codes
from .._persistence import with_lists, with_mappings
from .._settings import check, is_number
from .tags import SEGMENT_SCHEMES, SegmentTags

__all__ = [
    "DECODINGS",
    "RARE",
    "SegmentDecoding",
    "TokenDecoding",
    "best_cover",
    "best_writing",
    "check_decoding",
    "choose_decoding",
]

RARE = 1e-9  # probability below which a segment counts as impossible when segments are chosen


class TokenDecoding(BaseEstimator):
    """Decoding for the fewest wrong tokens, or for the lowest cost of tokens: a value of the parameter ``decoding``.

    The prediction is the labelling with the lowest expected cost: a sum over tokens, by their ``predict_marginals``.
    Without costs, it has the highest expected number of correct tokens.

    Parameters
    ----------
    cost : dict, array-like of shape (n_classes, n_classes) or None, default=None
        The cost of a token, as ``{(true, predicted): cost}``; pairs that are not listed cost 1, and correct tokens 0.
        The rows of an array are the true classes, in the order of ``classes_``. For instance, ``{("B-PER", "O"): 5}``
        makes a model find more names. None means 1 for each wrong token.
    constrained : bool, default=True
        Whether to predict only labellings that ``constraints`` allow. If False, each token gets its own best label;
        :class:`~sklearn_hocrf.HighOrderSemiCRF` still predicts segmentations.

    See Also
    --------
    SegmentDecoding : Decoding for whole segments.

    Notes
    -----
    With ``constrained=True``, Viterbi decoding finds the labelling, with the expected gains of labels as their scores.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.settings import TokenDecoding
    >>> X = [[["Ann"], ["met"], ["Bob"]], [["it"], ["met"], ["it"]]]
    >>> y = [["PER", "O", "PER"], ["O", "O", "O"]]
    >>> crf = HighOrderCRF().fit(X, y)
    >>> crf.predict([[["Eve"], ["met"], ["Bob"]]])
    [['O', 'O', 'PER']]
    >>> crf.set_params(decoding=TokenDecoding({("PER", "O"): 2})).predict(
    ...     [[["Eve"], ["met"], ["Bob"]]]
    ... )
    [['PER', 'O', 'PER']]
    """

    __module__ = "sklearn_hocrf.settings"  # where users import it from: files of models name this place

    def __init__(self, cost: Mapping | ArrayLike | None = None, *, constrained: bool = True) -> None:
        self.cost = cost
        self.constrained = constrained

    def __getstate__(self) -> dict[str, Any]:
        return with_lists(super().__getstate__(), ["cost"])

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(with_mappings(state, ["cost"]))

    def check(self) -> None:
        """Raise a ValueError for an invalid setting, as far as it can be checked without labels."""
        check(
            isinstance(self.constrained, (bool, np.bool_)),
            "constrained of TokenDecoding",
            "True or False",
            self.constrained,
        )
        if isinstance(self.cost, Mapping):
            for pair, cost in self.cost.items():
                valid = isinstance(pair, tuple) and len(pair) == 2
                check(valid, "a key of the cost of TokenDecoding", "a pair (true, predicted)", pair)
                check(is_number(cost) and np.isfinite(cost), "a cost of TokenDecoding", "a finite number", cost)
        elif self.cost is not None:
            table = np.asarray(self.cost)
            valid = table.ndim == 2 and table.shape[0] == table.shape[1] and table.dtype.kind in "iufb"
            check(bool(valid and np.isfinite(table).all()), "cost of TokenDecoding", "a square table", self.cost)

    def decode(self, fitted: Any, batch: Any, mask: Any) -> Any:
        """Return the labelling of a batch by a fitted estimator, given a mask."""
        marginals = fitted._class_marginals(batch, mask)
        gains = marginals if self.cost is None else -marginals @ self._cost_table(fitted.classes_)
        return fitted._decode_tokens(batch, np.ascontiguousarray(gains), mask, self.constrained)

    def _cost_table(self, classes: np.ndarray) -> np.ndarray:
        """Return the costs by true and predicted class; shape (n_classes, n_classes)."""
        if not isinstance(self.cost, Mapping):
            table = np.asarray(self.cost, dtype=np.float64)
            if len(table) != len(classes):
                raise ValueError(f"cost of TokenDecoding has {len(table)} classes, the model has {len(classes)}")
            return table
        table, code_of = 1.0 - np.eye(len(classes)), label_codes(classes)
        for pair, cost in self.cost.items():
            unknown = [label for label in pair if label not in code_of]
            if unknown:
                raise ValueError(f"cost of TokenDecoding names {short(unknown[0])}, which is not among classes_")
            table[code_of[pair[0]], code_of[pair[1]]] = cost
        return table


class SegmentDecoding(BaseEstimator):
    """Decoding for the best segments: a value of the parameter ``decoding``.

    A segment is predicted where its probability is above a threshold, unless it overlaps others that together exceed
    their thresholds by more: the sum over the predicted segments of probability minus threshold is the highest. Low
    thresholds find more of the true segments, high thresholds predict fewer wrong ones. If all tokens are in segments,
    as for "runs", the sum of the probabilities, which is the expected number of correct segments, is maximised, and the
    threshold is not used. Segments that exclude each other, because ``constraints``, known labels or ``pruning`` rule
    out the labels that would encode them, are not predicted together.

    Parameters
    ----------
    threshold : float or dict, default=0.5
        Threshold of the probability, for all segments or by label; 0.5 for labels that are missing from a dict.
    scheme : {"auto", "bio", "bioes", "bilou", "bmes", "iob1", "runs"}, default="auto"
        How the labels of :class:`~sklearn_hocrf.HighOrderCRF` encode segments, as for its ``segment_marginals``: "auto"
        is the scheme that ``constraints`` name, otherwise the scheme of labels that look like tags, and else "runs".
        :class:`~sklearn_hocrf.HighOrderSemiCRF` uses its own scheme.

    See Also
    --------
    TokenDecoding : Decoding for single tokens.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderSemiCRF
    >>> from sklearn_hocrf.settings import SegmentDecoding
    >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
    >>> crf = HighOrderSemiCRF(scheme="bio", decoding=SegmentDecoding(0.5)).fit(X, y)
    >>> crf.predict(X)
    [['O', 'O', 'O', 'B-PER'], ['O', 'B-PER']]
    >>> crf.set_params(decoding=SegmentDecoding(0.3)).predict(X)
    [['B-PER', 'B-PER', 'O', 'B-PER'], ['O', 'B-PER']]
    """

    __module__ = "sklearn_hocrf.settings"  # where users import it from: files of models name this place

    def __init__(self, threshold: float | Mapping[Any, float] = 0.5, *, scheme: str = "auto") -> None:
        self.threshold = threshold
        self.scheme = scheme

    def check(self) -> None:
        """Raise a ValueError for an invalid setting, as far as it can be checked without labels."""
        given = self.threshold.values() if isinstance(self.threshold, Mapping) else [self.threshold]
        for threshold in given:
            valid = is_number(threshold) and 0 <= threshold <= 1
            check(valid, "threshold of SegmentDecoding", "a probability, or a dict of them by label", threshold)
        check_choice("scheme of SegmentDecoding", self.scheme, SEGMENT_SCHEMES)

    def decode(self, fitted: Any, batch: Any, mask: Any) -> Any:
        """Return the labelling of a batch by a fitted estimator, given a mask."""
        return fitted._decode_segments(batch, self, mask)

    def thresholds(self, names: list) -> np.ndarray:
        """Return the threshold of each segment label; ``names`` are all segment labels."""
        if not isinstance(self.threshold, Mapping):
            return np.full(len(names), float(self.threshold))
        unknown = [label for label in self.threshold if label not in set(names)]
        if unknown:
            raise ValueError(f"threshold of SegmentDecoding names {short(unknown[0])}, which is not a segment label")
        return np.array([self.threshold.get(name, 0.5) for name in names], dtype=np.float64)


DECODINGS = {"viterbi": None, "token": TokenDecoding(), "segment": SegmentDecoding()}


def choose_decoding(decoding: Any) -> Any:
    """Return the decoding of the parameter ``decoding``, None for the most probable labelling."""
    return DECODINGS[decoding] if isinstance(decoding, str) else decoding


def check_decoding(decoding: Any) -> None:
    """Raise a ValueError for an invalid parameter ``decoding``."""
    if isinstance(decoding, str) and decoding in DECODINGS:
        return
    if isinstance(decoding, (TokenDecoding, SegmentDecoding)):
        decoding.check()
        return
    names = ", ".join(map(repr, DECODINGS))
    raise ValueError(f"decoding must be one of {names}, a TokenDecoding or a SegmentDecoding, got {short(decoding)}")


def best_cover(length: int, candidates: list, is_forced: np.ndarray) -> list:
    """Return the non-overlapping candidates with the highest sum of gains.

    Parameters
    ----------
    length : int
        Tokens of the sequence.
    candidates : list of (stop, start, gain, ...)
        Segments, sorted by stop.
    is_forced : ndarray of shape (length,), bool
        Tokens that must be covered.
    """
    total, chosen, number = [0.0] * (length + 1), [-1] * (length + 1), 0
    for stop in range(1, length + 1):
        total[stop] = total[stop - 1] - (_UNCOVERED if is_forced[stop - 1] else 0.0)
        while number < len(candidates) and candidates[number][0] == stop:
            gain = total[candidates[number][1]] + candidates[number][2]
            if gain > total[stop]:
                total[stop], chosen[stop] = gain, number
            number += 1
    cover, stop = [], length
    while stop > 0:
        if chosen[stop] >= 0:
            cover.append(candidates[chosen[stop]])
            stop = candidates[chosen[stop]][1]
        else:
            stop -= 1
    return cover[::-1]


_UNCOVERED = 1e6  # more than a sequence can gain: one probability per segment


def best_writing(candidates: list, tags: Any, allowed: np.ndarray, forbidden: set) -> list | None:
    """Return the labels of the segments with the highest sum of gains that possible labels can encode.

    Unlike :func:`best_cover`, it remembers the last labels, so it takes longer.

    Parameters
    ----------
    candidates : list of (stop, start, gain, label)
    tags : SegmentTags
    allowed : ndarray of shape (length, L), bool
        Labels allowed at each token.
    forbidden : set of tuples of int
        Runs of labels that may not occur.

    Returns
    -------
    codes : list of int, or None
        None if no labelling is possible.
    """
    write = _Writer(tags, allowed, forbidden)
    beginning: list[list] = [[] for _ in range(len(allowed))]
    for stop, start, gain, label in candidates:
        beginning[start].append((stop, gain, label))
    best: list[dict] = [{} for _ in range(len(allowed) + 1)]  # by last labels: gain, position and last labels before
    best[0][()] = 0.0, -1, (), []
    for position, listed in enumerate(beginning):
        for history, (total, *_) in best[position].items():
            for stop, gain, label in ((position + 1, 0.0, -1), *listed):
                for last, codes in write.segment(history, position, stop, label).items():
                    if last not in best[stop] or total + gain > best[stop][last][0]:
                        best[stop][last] = total + gain, position, history, codes
    if not best[-1]:
        return None
    labels: list[int] = []
    position, history = len(allowed), max(best[-1], key=lambda last: best[-1][last][0])
    while position > 0:
        _, position, history, codes = best[position][history]
        labels = codes + labels
    return labels


class _Writer:
    """Encode segments as labels that are possible after given ones; parameters as in :func:`best_writing`."""

    def __init__(self, tags: SegmentTags, allowed: np.ndarray, forbidden: set[tuple[int, ...]]) -> None:
        self.tags, self.allowed, self.forbidden = tags, allowed, forbidden
        self.lengths = {len(run) for run in forbidden}
        self.memory = max(self.lengths, default=2) - 1

    def segment(self, history: tuple[int, ...], start: int, stop: int, label: int) -> dict:
        """Return all encodings of a segment (label -1: a token outside), by the last labels to be remembered."""
        found: dict = {history: []}
        for token in range(start, stop):
            longer: dict = {}
            for last, codes in found.items():
                for code in self._choices(label, token == start, token + 1 == stop):
                    goes_on = bool(last) and bool(self.tags.tags.goes_on[last[-1], code])
                    run = (*last, code)
                    if goes_on == (token > start) and self.allowed[token, code] and self._is_possible(run):
                        longer.setdefault(run[-self.memory :], [*codes, code])
            found = longer
        return found

    def _choices(self, label: int, is_first: bool, is_last: bool) -> list:
        """Return the labels of tokens in segments of a label, the usual one first."""
        codes = np.flatnonzero(self.tags.tags.segment_label == label).tolist()
        if label < 0:
            return codes
        first, inner, last, only = self.tags.roles[label].tolist()
        usual = (only if is_last else first) if is_first else (last if is_last else inner)
        return sorted(codes, key=lambda code: code != usual)

    def _is_possible(self, run: tuple[int, ...]) -> bool:
        return not any(run[-length:] in self.forbidden for length in self.lengths)
