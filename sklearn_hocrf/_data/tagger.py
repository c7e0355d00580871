"""The module that reads tagger files: :mod:`sklearn_hocrf.tagger` without the functions that write them.

This module imports only numpy and the standard library, and may be copied into the code of a product (BSD-3-Clause).
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/api/tagger_file.html describes the files.
"""

from __future__ import annotations

import heapq
import json
import math
import mmap as mapping
import os
import re
import unicodedata
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import accumulate, chain, groupby, pairwise, repeat
from numbers import Integral, Real
from operator import itemgetter, sub
from typing import Any, Literal, NamedTuple, overload

import numpy as np

__all__ = ["Labelling", "Tagger"]

MAX_HEADER, MAX_DEPTH, MAX_NUMBER = 1 << 24, 8, 1 << 53
MAX_CELLS = 1 << 24  # states times labels: tables of 128 MB
MAX_WEIGHT, MAX_SCORE = 1e100, 1e200  # sums of such scores are finite
LARGE_SCORE = 1e6  # bound on the score of a labelling, above which its rounding matters
SMALL_FILE = 1 << 24  # bytes; such a file is read, not mapped
MAX_PACKED, MAX_RATIO = 1 << 28, 512  # bytes of packed arrays after unpacking: of all, and per byte of the file
MOST_WEIGHTS = 1 << 22  # that compiled code copies: larger files are mapped, and processes share them
MOST_KEYS, MOST_DEPTH = 1 << 9, 9  # keys of feature dicts, and depth of nested dicts, for which tables are kept
MOST_VALUES = 1 << 15  # of a column for which the results of a function are kept
LONGEST_TEXT = 1000  # of a label in a fixed-width array of strings
TINY = 1e-250  # smaller sums of weights are computed again, each on a separate scale
BEFORE, AFTER = object(), object()  # the values before the first and after the last token
TYPES = {"U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "F32": "<f4", "F64": "<f8"}
ARRAYS = {  # kind of numbers, dimensions
    **dict.fromkeys(("fail", "length", "source", "label", "target", "closed", "n_moved", "moved"), ("u", 1)),
    **dict.fromkeys(("n_weights", "column", "n_text", "text", "code"), ("u", 1)),
    "score": ("f", 1), "weight": ("f", 1), "borders": ("u", 2), "always": ("f", 2),
}  # fmt: skip
ONE_SEQUENCE = "a tagger reads one sequence; for a list X of sequences: [tagger.predict(x) for x in X]"
# letters of begin, inside, outside, end and single, or "-" in place of one that a scheme does not have; the names are
# those of spaCy (bilou) and AllenNLP (bmes, iob1)
PREFIXES = {"bio": "BIO", "bioes": "BIOES", "bilou": "BIOLU", "bmes": "BMOES", "iob1": "BIO"}


class Labelling(NamedTuple):
    """One of the best labellings of a sequence. See ``predict_nbest`` of :class:`Tagger` and of the estimators."""

    labels: Any  # as returned by ``predict``
    score: float  # log potential
    log_probability: float


# --- functions of tokens, from which SequenceFeatureExtractor creates features ----------------------------------------


def _character_class(character):
    if character.isupper():
        return "X"
    if character.isalpha():
        return "x"
    return "d" if character.isdigit() else character


def _long_shape(text):
    return "".join(map(_character_class, text))


def _shape(text):
    return "".join(character for character, _ in groupby(_long_shape(text)))


FUNCTIONS: dict[str, Callable] = {
    "lower": str.lower,
    "shape": _shape,
    "long_shape": _long_shape,
    "is_alpha": str.isalpha,
    "is_digit": str.isdigit,
    "is_lower": str.islower,
    "is_punctuation": lambda text: bool(text) and all(unicodedata.category(character)[0] == "P" for character in text),
    "is_title": str.istitle,
    "is_upper": str.isupper,
    "has_digit": lambda text: any(map(str.isdigit, text)),
    "has_hyphen": lambda text: "-" in text,
    "length": len,
}


def lengths_by_first(phrases: Iterable[tuple[str, ...]]) -> dict[str, list[int]]:
    """Return the lengths of the phrases that begin with each word, the longest first."""
    lengths: dict[str, set[int]] = {}
    for words in phrases:
        lengths.setdefault(words[0], set()).add(len(words))
    return {word: sorted(of_word, reverse=True) for word, of_word in lengths.items()}


def marks_of(words: Sequence, phrases: Collection[tuple[str, ...]], lengths: Mapping) -> list:
    """Return B, I, E or S for words in phrases, matched from the left, longest first, and None for other words."""
    words, stop = tuple(words), 0
    marks: list = [None] * len(words)
    for start, word in enumerate(words):
        if start < stop or word not in lengths:
            continue
        for n in lengths[word]:
            if (run := words[start : start + n]) in phrases:  # shorter than n at the end of the sequence
                stop = start + len(run)
                marks[start:stop] = "S" if len(run) == 1 else "B" + "I" * (len(run) - 2) + "E"
                break
    return marks


def named_function(name: str) -> Callable | None:
    """Return the function with the given name, or None if there is none; names such as ``prefix4`` contain a length."""
    affix = re.fullmatch(r"(prefix|suffix)([1-9][0-9]{0,8})", name)
    if affix is None:
        return FUNCTIONS.get(name)
    length = int(affix[2])
    return itemgetter(slice(length) if affix[1] == "prefix" else slice(-length, None))


# --- threads and forks ------------------------------------------------------------------------------------------------


class _CachedProperty:
    """``functools.cached_property`` without a lock, which a fork may copy while another thread holds it."""

    def __init__(self, compute):
        self.compute, self.name = compute, compute.__name__

    def __get__(self, instance, owner):
        if instance is None:  # as help() does
            return self
        return vars(instance).setdefault(self.name, self.compute(instance))  # threads may compute it twice


# --- files ------------------------------------------------------------------------------------------------------------


def _require(condition, what):
    if not condition:
        raise ValueError(f"no file of a tagger, or a damaged one: {what}")


def _distinct_keys(pairs):
    table = dict(pairs)
    _require(len(table) == len(pairs), "the header has a key twice")
    return table


def _parse_number(text):
    number = math.inf
    if len(text) < 400 and text.strip("-")[:1].isdigit():
        number = float(text) if any(mark in text for mark in ".eE") else int(text)
    _require(abs(number) <= MAX_NUMBER, f"the header has the number {text:.30}")
    return number


def _parse_header(content) -> dict:
    """Return the object of a header, or raise an error if it is deeply nested, has large numbers or repeats keys."""
    text, depth = str(content, "utf-8"), 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"[^"\\]*(?:\\.[^"\\]*)*"', "", text, flags=re.DOTALL)):
        depth += 1 if bracket in "[{" else -1
        _require(depth <= MAX_DEPTH, f"the header is nested deeper than {MAX_DEPTH}")
    hooks: dict[str, Any] = {name: _parse_number for name in ("parse_int", "parse_float", "parse_constant")}
    header = json.loads(text, object_pairs_hook=_distinct_keys, **hooks)
    _require(isinstance(header, dict), "the header is no object")
    return header


def _get(table, key, kind, what="the header"):
    """Return an entry of an object in the header; its type must be ``kind``, or one of several types."""
    _require(isinstance(table, dict) and key in table, f"{what} lacks {key}")
    value = table[key]
    exact = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    _require(exact and not (kind is int and value < 0), f"{key} of {what} is {value!r:.60}")
    return value


def _unpacked(stream, n_bytes):
    """Return the content of a gzip stream, which must contain ``n_bytes``, without using more memory than that."""
    _require(0 <= n_bytes <= MAX_RATIO * len(stream), f"an array of {n_bytes} bytes")
    reader = zlib.decompressobj(31)
    try:
        content = reader.decompress(stream, n_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"no file of a tagger, or a damaged one: {error}") from None
    _require(len(content) == n_bytes and reader.eof and not reader.unused_data, "the length of a packed array")
    return content


def _are_sizes(sizes, n):
    return isinstance(sizes, list) and len(sizes) == n and all(type(size) is int and size >= 0 for size in sizes)


def _type_and_size(name, entry, kind):
    """Return an array's type and size in bytes, from ``entry``; ``kind`` specifies the allowed types and shapes."""
    good = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and entry[0] in TYPES
    _require(good and TYPES[entry[0]][1] == kind[0] and _are_sizes(entry[1], kind[1]), f"array {name}: {entry!r:.60}")
    return np.dtype(TYPES[entry[0]]), math.prod(entry[1]) * int(TYPES[entry[0]][2])


def _read_file(content) -> tuple[dict, dict]:
    """Return the header of a tagger in a safetensors file, and the arrays, which are views of the content.

    The function checks the header's entries for arrays: the arrays must be adjacent, and fill the file.
    """
    _require(content[:4] != b"lCRF", "it is a CRFsuite model, which HighOrderCRF.from_crfsuite reads")
    size = int.from_bytes(content[:8], "little")
    _require(8 <= size <= min(MAX_HEADER, len(content) - 8) and size % 8 == 0, f"a header of {size} bytes")
    table, body = _parse_header(content[8 : 8 + size]), memoryview(content)[8 + size :]
    header = _parse_header(_get(_get(table, "__metadata__", dict), "hocrf", str).encode("utf-8", "surrogatepass"))
    _require(_get(header, "format", int) == 1, f"its format is {header['format']}, and this reader knows format 1")
    packed = _get(header, "packed", dict)
    _require(table.keys() == {"__metadata__", *ARRAYS} and packed.keys() <= ARRAYS.keys(), "the names of arrays")
    arrays, places, n_unpacked = {}, [], 0
    for name, kind in ARRAYS.items():
        entry, is_packed = table[name], name in packed
        _require(isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}, f"array {name}")
        shape, place = entry["shape"], entry["data_offsets"]
        dtype, n_bytes = _type_and_size(name, [entry["dtype"], shape], ("u", 1) if is_packed else kind)
        good = _are_sizes(place, 2) and place[1] - place[0] == n_bytes and place[1] <= len(body)
        _require(good and place[0] % dtype.itemsize == 0, f"array {name} is at {place!r:.60}")
        places.append(place)
        part = body[slice(*place)]
        if is_packed:
            dtype, n_bytes = _type_and_size(name, packed[name], kind)
            n_unpacked += n_bytes
            _require(n_unpacked <= MAX_PACKED, f"packed arrays of {n_unpacked} bytes")
            part, shape = _unpacked(part, n_bytes), packed[name][1]
        arrays[name] = np.frombuffer(part, dtype).reshape(shape)
    starts, stops = zip(*sorted(places), strict=True)
    _require((*starts, len(body)) == (0, *stops), "arrays overlap, or leave gaps")
    for name in ("score", "weight", "always"):
        largest = float(np.abs(arrays[name]).max(initial=0.0))
        _require(largest <= MAX_WEIGHT, f"array {name} has the number {largest}")
    return header, arrays


def _offsets(counts, what, total) -> np.ndarray:
    """Return the starts of adjacent parts of these lengths, and the stop of the last part, which must be ``total``."""
    _require(len(counts) == 0 or int(counts.max()) <= total, what)
    offsets = np.append(0, np.cumsum(counts, dtype=np.int64))
    _require(offsets[-1] == total and (np.diff(offsets) >= 0).all(), what)
    return offsets


def _below(array, stop, what) -> np.ndarray:
    """Return an array as indices for numpy; raise an error unless all of them are below ``stop``."""
    _require(array.size == 0 or int(array.max()) < stop, f"{what} is out of range")
    return array.astype(np.intp)


class _Texts:
    """The strings of a file."""

    def __init__(self, arrays):
        self.joined = arrays["text"].tobytes().decode("utf-8", "surrogatepass")
        self.offsets = _offsets(arrays["n_text"], "lengths of texts", len(self.joined))
        self.n_taken = 0

    def take(self, n):
        """Return the ids of the next n strings."""
        _require(n <= len(self.offsets) - 1 - self.n_taken, "there are too few texts")
        bounds = self.offsets[self.n_taken : self.n_taken + n + 1].tolist()
        self.n_taken += n
        ids = {self.joined[start:stop]: i for i, (start, stop) in enumerate(pairwise(bounds))}
        _require(len(ids) == n, "a text is there twice")
        return ids


# --- labels -----------------------------------------------------------------------------------------------------------


class _Automaton:
    """The pattern automaton as tables.   L labels, S states, A arcs.

    ``arcs`` (L, S) contains the arc of each state for each label, and ``target`` (S, L) the next state.
    """

    def __init__(self, arrays, n_labels, n_columns):
        fail, length = arrays["fail"], arrays["length"]
        n_states = len(fail)
        _require(n_labels < n_states == len(length) and n_states * n_labels <= MAX_CELLS, "the number of states")
        length, fail = length.astype(np.int64), _below(fail, n_states, "fail")
        ordered = (np.diff(length) >= 0).all() and length[0] == 0 and length[-1] <= 10_000
        of_labels = np.arange(1, n_labels + 1)
        _require(ordered and np.array_equal(np.flatnonzero(length == 1), of_labels), "the lengths of states")
        _require(fail[0] == 0 and (length[fail[1:]] < length[1:]).all(), "links of states")
        source, target = (_below(arrays[name], n_states, name) for name in ("source", "target"))
        label = _below(arrays["label"], n_labels, "label")
        parts = [source, target, label, arrays["score"], arrays["closed"], arrays["n_moved"]]
        _require(len(set(map(len, parts))) == 1 and (target > 0).all(), "the arcs")
        self.length, self.fail = length, fail
        self.last = np.zeros(n_states, np.intp)  # label of each state
        self.last[target] = label
        known = (self.last[target] == label).all() and (self.last[of_labels] == of_labels - 1).all()
        _require(known and len(np.unique(source * n_labels + label)) == len(source), "the arcs")
        table, of_source = np.empty((n_states, n_labels), np.intp), length[source]
        _require((of_source == 0).sum() == n_labels, "the arcs of the first state")
        for size in np.unique(length).tolist():  # fail leads to shorter states
            states, arcs = length == size, of_source == size
            table[states] = table[fail[states]] if size else 0
            table[source[arcs], label[arcs]] = np.flatnonzero(arcs)
        closed = _below(arrays["closed"], 2, "closed").astype(bool)
        score = arrays["score"].astype(np.float64)
        self.arc_score, self.largest = np.where(closed, -np.inf, score), float(np.abs(score).max(initial=0.0))
        self.arc_source, self.arc_label, self.arc_target = source, label, target
        self.arcs, self.target = np.ascontiguousarray(table.T), target[table]
        self.n_states = n_states
        self.scores = self.arc_score[table]  # (S, L)
        self._read_moves(arrays, n_columns)

    def _read_moves(self, arrays, n_columns):
        """Read the columns that are added to the scores of arcs."""
        columns, counts = _below(arrays["moved"], n_columns, "moved"), arrays["n_moved"]
        offsets = _offsets(counts, "columns of arcs", len(columns))
        self.moved = np.flatnonzero(counts)  # arcs
        self.moved_columns, self.moved_starts = columns, offsets[self.moved]
        self.moves = np.zeros(len(counts), np.intp)  # id of the move of each arc, from 1 on; 0 for none
        self.moves[self.moved] = np.arange(1, len(self.moved) + 1)


class _Pass:
    """The scores of one sequence, and the results computed from them. T tokens, L labels, S states, A arcs."""

    def __init__(self, automaton, scores, borders):
        self.automaton, self.labels, self.moves = automaton, scores[:, : len(automaton.arcs)], None
        self.largest = float(np.maximum.reduce(np.abs(scores), axis=None))  # the largest absolute score
        self.shift = 0.0  # subtracted from the scores of all labellings
        if len(automaton.moved):
            self.moves = np.zeros((len(scores), len(automaton.moved) + 1))
            np.add.reduceat(scores[:, automaton.moved_columns], automaton.moved_starts, axis=1, out=self.moves[:, 1:])
        self.labels[[0, -1]] += borders if len(scores) > 1 else borders.sum(axis=0)

    def _arcs(self, t, after):
        """Return the scores of all arcs at a token, including the scores ``after`` of the states to which they lead."""
        scores = after.take(self.automaton.arc_target, mode="clip")
        scores += self.automaton.arc_score
        if self.moves is not None:
            scores[self.automaton.moved] += self.moves[t, 1:]
        return scores

    def best(self):
        """Return the highest score; store the best scores from each state on, including the score of its label."""
        automaton, beta = self.automaton, np.zeros(self.automaton.n_states)
        self.after = self.labels.take(automaton.last, axis=1)  # (T, S)
        for t in range(len(self.labels) - 1, -1, -1):
            self.after[t] += beta
            beta = np.maximum.reduce(self._arcs(t, self.after[t]).take(automaton.arcs, mode="clip"), axis=0)
        return _possible(beta[0])

    def choices(self, t, state):
        """Return the scores of all possible next labels, including the best scores of later tokens; shape (L,)."""
        automaton = self.automaton
        scores = self.after[t].take(automaton.target[state], mode="clip")
        scores += automaton.scores[state]
        if self.moves is not None:
            scores += self.moves[t].take(automaton.moves.take(automaton.arcs[:, state]))
        return scores

    def decode(self):
        """Return the codes of the best labels; ties go to the lowest code."""
        self.best()
        codes, state = [], 0
        for t in range(len(self.labels)):
            code = int(self.choices(t, state).argmax())
            codes.append(code)
            state = self.automaton.target[state, code]
        return codes

    def weights(self, t, after):
        """Return the weights of labels in all states, (L, S), their sums, (S,), and the logarithms of their scales."""
        scores = self._arcs(t, after)
        shift = scores.max()
        if shift > -np.inf:
            cells = np.exp(scores - shift).take(self.automaton.arcs, mode="clip")
            sums = cells.sum(axis=0)
            if sums.min() > TINY:
                return cells, sums, shift
        cells = scores.take(self.automaton.arcs)
        shift = cells.max(axis=0)
        shift[shift == -np.inf] = 0.0
        cells = np.exp(cells - shift)
        return cells, cells.sum(axis=0), shift

    def total(self):
        """Return the logarithm of the sum over all labellings; store the logarithms of the sums from each state on."""
        beta, self.after = np.zeros(self.automaton.n_states), self.labels.take(self.automaton.last, axis=1)
        with np.errstate(divide="ignore"):
            for t in range(len(self.labels) - 1, -1, -1):
                self.after[t] += beta
                _, sums, shift = self.weights(t, self.after[t])
                beta = np.log(sums) + shift
        return _possible(beta[0])

    def forward(self):
        """Yield, for each token, the probabilities of the states before it, and those of its labels in each state."""
        self.total()
        mass = np.zeros(self.automaton.n_states)
        mass[0] = 1.0
        for t in range(len(self.labels)):
            cells, sums, _ = self.weights(t, self.after[t])
            cells /= np.where(sums > 0.0, sums, 1.0)
            yield mass, cells
            mass = self.move(cells * mass)

    def move(self, flow, codes=slice(None)):
        """Return the sum of ``flow``, of shape (L, S), into each state, through the labels ``codes``."""
        return np.bincount(self.automaton.target[:, codes].ravel(), flow.T.ravel(), self.automaton.n_states)

    def marginals(self):
        """Return the probability of each label at each token; shape (T, L)."""
        return np.array([cells @ mass for mass, cells in self.forward()])

    def terms(self, codes):
        """Return the score of each token in a labelling; shape (T,)."""
        state, terms, self.after = 0, [], self.labels.take(self.automaton.last, axis=1)
        for t, code in enumerate(codes):
            terms.append(float(self.choices(t, state)[code]))
            state = self.automaton.target[state, code]
        return np.array(terms)

    def centre(self):
        """Subtract the rounded score of each token in the best labelling from the scores of all labels of that token.

        Probabilities do not change, and later steps only subtract small numbers from each other.
        """
        terms = np.rint(self.terms(self.decode()))  # sums of integers are exact
        self.labels -= terms[:, None]
        self.shift, self.largest = math.fsum(terms), self.largest + float(np.abs(terms).max())

    def best_labellings(self, n):
        """Return the codes of the n best labellings, best first, each with its regret, and the best score.

        The regret of a labelling is the best score minus the score of the labelling.

        Each labelling deviates from an earlier one at a token, by a label that is not the best in the current state.
        """
        highest, target, length = self.best(), self.automaton.target, len(self.labels)
        labellings: list = []
        waiting = [(0.0, 0, -1, -1)]
        while waiting and len(labellings) < n:
            regret, minus_stop, code, parent = heapq.heappop(waiting)
            codes = [] if parent < 0 else [*labellings[parent][0][: -minus_stop - 1], code]
            labellings.append((codes, regret))
            first, state = len(codes), 0
            for earlier in codes:
                state = target[state, earlier]
            losses = np.full((length - first, target.shape[1]), np.inf)
            for t, row in enumerate(losses, start=first):
                scores = self.choices(t, state)
                best = int(scores.argmax())
                row[:] = scores[best] - scores
                row[best] = np.inf
                codes.append(best)
                state = target[state, best]
            flat = losses.ravel()
            some = np.flatnonzero(flat < np.inf)
            if len(some) > n:
                some = some[np.argpartition(flat[some], n - 1)[:n]]
            for cell in some.tolist():
                t, label = divmod(cell, target.shape[1])
                heapq.heappush(waiting, (regret + float(flat[cell]), -(first + t) - 1, label, len(labellings) - 1))
        return labellings, highest


def _possible(score):
    """Return ``score``, or raise an error if it is -inf because no labelling is possible."""
    if score == -np.inf:
        raise ValueError("the constraints of the model allow no labelling of a sequence of this length")
    return float(score)


class _Segments:
    """The segments that labels describe."""

    def __init__(self, labels, scheme):
        self.names: list = list(labels)
        if scheme == "runs":
            self.goes_on = np.eye(len(labels), dtype=bool)
            self.dtype = _dtype_of(self.names)
            return
        letters = PREFIXES[scheme]
        tags = [re.fullmatch(rf"([{letters.replace('-', '')}])(?:-(.+))?", str(label), re.DOTALL) for label in labels]
        good = [tag is not None and (tag[1] != "O" or tag[2] is None) for tag in tags]
        _require(all(good), f"a label is no tag of {scheme}")
        kind = np.array([letters.index(tag[1]) for tag in tags if tag])  # begin, inside, outside, end, single
        self.names = [None if tag[1] == "O" else tag[2] or "_" for tag in tags if tag]
        self.dtype = np.array([name for name in self.names if name]).dtype
        same = np.array([[one == other for other in self.names] for one in self.names])
        self.goes_on = same & np.isin(kind, (0, 1))[:, None] & np.isin(kind, (1, 3))

    def cut(self, codes):
        """Return the start, stop and label of the segments of a sequence."""
        begins = [t for t, code in enumerate(codes) if not t or not self.goes_on[codes[t - 1], code]]
        bounds = pairwise([*begins, len(codes)])
        return [(u, v, self.names[codes[u]]) for u, v in bounds if self.names[codes[u]] is not None]

    def table(self, segments, probabilities) -> np.ndarray:
        """Return segments with their probabilities, as a structured array like those that estimators return."""
        rows = [(*one, min(p, 1.0)) for one, p in zip(segments, probabilities, strict=True)]
        return np.array(rows, [("start", "i8"), ("stop", "i8"), ("label", self.dtype), ("probability", "f8")])

    def probabilities(self, chain, segments) -> list[float]:
        """Return, for each segment, the probability of all labellings that contain it with the same label and ends."""
        of_label = {label: np.array([name == label for name in self.names]) for _, _, label in segments}
        by_start, probability, flow, stop = {start: (stop, label) for start, stop, label in segments}, [], None, 0
        goes_on = self.onward(chain)
        for t, (mass, cells) in enumerate(chain.forward()):
            if flow is not None and t == stop:
                probability.append(float((cells * ~goes_on).sum(axis=0) @ flow))
                flow = None
            if t in by_start:
                stop, label = by_start[t]
                begins = of_label[label][:, None] & (~goes_on if t else True)
                flow = chain.move(cells * begins * mass)
            elif flow is not None:
                flow = chain.move(cells * goes_on * flow)
        if flow is not None:
            probability.append(float(flow.sum()))
        return probability

    def likely(self, chain, threshold) -> dict:
        """Return all segments whose positive probability reaches a threshold, in order, with their probabilities."""
        codes: dict = {}  # codes of labels, by label of their segments
        for code, name in enumerate(self.names):
            if name is not None:
                codes.setdefault(name, []).append(code)
        flows: dict = {}  # by start and label, of the segments that may continue
        p_of, goes_on = {}, self.onward(chain)
        for t, (mass, cells) in enumerate(chain.forward()):
            others, onward = cells * ~goes_on, cells * goes_on
            ends, begun = others.sum(axis=0), (others if t else cells) * mass
            p_of.update({(start, t, label): float(ends @ flow) for (start, label), flow in flows.items()})
            flows = {key: chain.move(onward[codes[key[1]]] * flow, codes[key[1]]) for key, flow in flows.items()}
            flows |= {(t, label): chain.move(begun[rows], rows) for label, rows in codes.items()}
            flows = {key: flow for key, flow in flows.items() if flow.any() and flow.sum() >= threshold}
        p_of.update({(start, len(chain.labels), label): float(flow.sum()) for (start, label), flow in flows.items()})
        return {one: p for one, p in sorted(p_of.items()) if p > 0.0 and p >= threshold}

    def onward(self, chain):
        """Return which labels continue the segment of each state's last label; shape (L, S)."""
        return np.ascontiguousarray(self.goes_on.T)[:, chain.automaton.last]


def _dtype_of(labels):
    """Return the dtype of ``classes_`` in an estimator with these labels."""
    alike = len(set(map(type, labels))) == 1 and max(len(str(label)) for label in labels) <= LONGEST_TEXT
    native = np.array(labels) if alike else None
    return native.dtype if native is not None and native.tolist() == labels else np.dtype(object)


# --- features ---------------------------------------------------------------------------------------------------------


class _Weights:
    """The weights of attributes.   V attributes, C columns."""

    def __init__(self, arrays, n_columns):
        self.column, self.weight = arrays["column"], arrays["weight"]
        _require(len(self.column) == len(self.weight), "columns do not go with weights")
        _require(len(self.column) == 0 or int(self.column.max()) < n_columns, "column is out of range")
        self.starts = _offsets(arrays["n_weights"], "weights of attributes", len(self.weight))
        self.n_columns, self.n_attributes = n_columns, len(arrays["n_weights"])

    def sums(self, ids, indptr, amounts):
        """Return the sums of the weights of tokens' attributes, except those with the id -1; shape (T, C)."""
        known = (ids >= 0).nonzero()[0]
        attribute, row = ids[known], np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[known]
        first = self.starts[attribute]
        count = self.starts[attribute + 1] - first
        stop = count.cumsum()
        chosen = np.repeat(first - stop + count, count)
        chosen += np.arange(len(chosen))
        cell = np.repeat(row * self.n_columns, count) + self.column[chosen]
        weight = self.weight[chosen]
        if amounts is not None:
            weight = weight * np.repeat(amounts[known], count)
        size = len(indptr) - 1, self.n_columns
        return np.bincount(cell, weight, math.prod(size)).reshape(size).astype(np.float64, copy=False)


class Made(dict):
    """The results of a function by value; if there are too many, they are discarded and computed again."""

    def __init__(self, function: Callable, most: int | None = None) -> None:
        self.function, self.most = function, most or MOST_VALUES

    def __missing__(self, value: Any) -> Any:
        made = self.function(value)
        if len(self) >= self.most:  # other threads may have added to it
            self.clear()
        self[value] = made
        return made


class _Rests(dict):
    """The ids of attributes, or -1, by the rest of the name after a prefix; the object stores ids already found."""

    def __init__(self, ids, prefix, have_amounts=False):
        self.get_id, self.prefix, self.have_amounts = ids.get, prefix, have_amounts

    def __missing__(self, rest):
        attribute_id = self.get_id(self.prefix + rest, -1)  # a TypeError if it is not a str
        coded_id = HAS_AMOUNT - attribute_id if self.have_amounts else attribute_id
        if attribute_id >= 0:
            self[rest] = coded_id
        return coded_id


HAS_AMOUNT = -3  # an id with an amount is coded as this number minus the id, where -1 is the id of unknown attributes

# whether values of a type are amounts of attributes; calling ``isinstance`` for each value takes longer
ARE_AMOUNTS = Made(lambda kind: issubclass(kind, (Real, np.bool_, Decimal)) and not issubclass(kind, (str, bytes)))


class AttributeIds:
    """Ids of the attributes of tokens; those of feature dicts are found by key and value, so that few names are joined.

    Any number of threads may use the same object.
    """

    def __init__(self, ids: Mapping, prefix: str = "") -> None:
        self.ids, self.names, self.numbers = ids, _Rests(ids, prefix), _Rests(ids, prefix, have_amounts=True)
        self.values = Made(lambda key: _Rests(ids, prefix + key + ":"), MOST_KEYS)  # a TypeError if it is not a str
        self.inner = Made(lambda key: AttributeIds(ids, prefix + key + ":"), MOST_KEYS)

    def add(self, tokens: Sequence, attribute_ids: list, amounts: array) -> list | None:
        """Append the ids of the attributes of all tokens, in order, to a list; return how many attributes each has.

        Numbers are appended to ``amounts``, and their ids are coded as in :data:`HAS_AMOUNT`. Unless all tokens are
        feature dicts or lists of attribute names, of common types, nothing is appended, and the result is None.
        """
        before, n_before, stops = len(attribute_ids), len(amounts), [len(attribute_ids)]
        try:
            for token in tokens:
                if token.__class__ is dict:
                    self._add(token, attribute_ids, amounts)
                elif token.__class__ is list:
                    ids = [*map(self.ids.get, token, repeat(-1))]
                    if -1 in ids and set(map(type, token)) - {str}:
                        raise TypeError
                    attribute_ids += ids
                else:
                    raise TypeError
                stops.append(len(attribute_ids))
            if len(amounts) > n_before and not np.isfinite(np.frombuffer(amounts)[n_before:]).all():
                raise ValueError
            return [*map(sub, stops[1:], stops)]
        except (TypeError, ValueError, OverflowError):  # not hashable, of another type, or not finite
            del attribute_ids[before:], amounts[n_before:]
            return None

    def _add(self, token, attribute_ids, amounts, depth=0):
        if depth > MOST_DEPTH:
            raise TypeError
        add, names, numbers, values = attribute_ids.append, self.names, self.numbers, self.values
        for key, value in token.items():
            if value is False and key.__class__ is str:  # first, because most values are False
                continue
            kind = value.__class__
            if kind is str:
                add(values[key][value])
            elif value is True:
                add(names[key])
            elif kind is dict:
                self.inner[key]._add(value, attribute_ids, amounts, depth + 1)
            elif kind is float or ARE_AMOUNTS[kind]:
                add(numbers[key])
                amounts.append(value)
            elif kind is list:
                attribute_ids += map(values[key].__getitem__, value)
            else:
                raise TypeError


class TemplateIds:
    """Ids of the attributes that templates create from the values around a token. J templates, T tokens.

    Any number of threads may use the same object.

    Parameters
    ----------
    templates : list of sequences of (column, offset)
    ids : list of dict
        For each template, its ids by value or, if the template has several pairs, by the tuple of their values.
    made : dict
        For each column of strings, its field, and a :class:`Made` that contains its strings by value of the field.
    numbers : dict
        The same for columns of numbers; in ``ids``, the value True represents all numbers.
    """

    def __init__(self, templates: Sequence, ids: Sequence[Mapping], made: Mapping, numbers: Mapping) -> None:
        self.templates, self.ids, self.numbers = templates, ids, numbers
        are_there = {c: (field, Made(partial(_is_there, of_value))) for c, (field, of_value) in numbers.items()}
        self.made = made = {**made, **are_there}
        self.alone: dict = {}  # numbers of the templates of one pair, by field and offset
        for k, template in enumerate(templates):
            if len(template) == 1:
                column, offset = template[0]
                self.alone.setdefault((made[column][0], offset), []).append(k)
        self.several = [k for k, template in enumerate(templates) if len(template) > 1]
        self.pairs = [*dict.fromkeys(chain.from_iterable(templates[k] for k in self.several))]
        self.place = np.argsort([*chain(*self.alone.values(), self.several)])  # of each template among the results
        self.known = {place: Made(partial(self.ids_of, numbers)) for place, numbers in self.alone.items()}
        self.reach = max((abs(offset) for template in templates for _, offset in template), default=0)

    def ids_of(self, numbers: Sequence[int], value: Any) -> list[int]:
        """Return the ids of a value of a field, or of a mark outside the sequence, in templates of one pair."""
        columns = [self.made[self.templates[k][0][0]][1] for k in numbers]
        values = [value if value is BEFORE or value is AFTER else made[value] for made in columns]
        return [self.ids[k].get(key, -1) for k, key in zip(numbers, values, strict=True)]

    def around(self, columns: Mapping, places: Iterable, before: Any, after: Any) -> list[list]:
        """Return the values of all tokens at each place (a column and an offset)."""
        length = len(next(iter(columns.values()), ()))
        pad = min(self.reach, length)
        padded = {column: [before] * pad + values + [after] * pad for column, values in columns.items()}
        shifts = [(c, offset if -pad <= offset <= pad else pad if offset > 0 else -pad) for c, offset in places]
        return [padded[column][pad + shift : pad + shift + length] for column, shift in shifts]

    def amounts(self, fields: Mapping, n_tokens: int) -> np.ndarray | None:
        """Return the products of the numbers of templates at all tokens, (J, T); None if no template has numbers."""
        if not self.numbers:
            return None
        numbers, amounts = {}, np.ones((len(self.templates), n_tokens))
        for column, (field, made) in self.numbers.items():
            numbers[column] = [made[value] or 0.0 for value in fields[field]]
        for k, template in enumerate(self.templates):
            if places := [place for place in template if place[0] in numbers]:
                amounts[k] = np.prod(self.around(numbers, places, 1.0, 1.0), axis=0)
        return amounts

    def of_several(self, fields: Mapping, marks: bool) -> list[int]:
        """Return the ids from the templates of several pairs: those of all tokens for one template, then for the next.

        ``fields`` maps each field to its values at all tokens. Places outside the sequence have the values BEFORE and
        AFTER if ``marks`` is true, otherwise None.
        """
        made, ids = {column: self.made[column] for column, _ in self.pairs}, list[int]()
        columns = {column: [*map(made_of.__getitem__, fields[field])] for column, (field, made_of) in made.items()}
        values = self.around(columns, self.pairs, *((BEFORE, AFTER) if marks else (None, None)))
        at = dict(zip(self.pairs, values, strict=True))
        for k in self.several:
            ids += map(self.ids[k].get, zip(*[at[pair] for pair in self.templates[k]], strict=True), repeat(-1))
        return ids

    def find(self, fields: Mapping, marks: bool) -> np.ndarray:
        """Return the ids of the attributes of tokens, -1 for none; shape (J, T)."""
        ids: list = []
        values = self.around(fields, self.known, *((BEFORE, AFTER) if marks else (None, None)))
        for known, at_place in zip(self.known.values(), values, strict=True):
            ids += chain.from_iterable(zip(*map(known.__getitem__, at_place), strict=True))
        ids += self.of_several(fields, marks)
        return np.array(ids, np.intp).reshape(len(self.templates), -1)[self.place]


def _is_there(numbers: Mapping, value: Any) -> bool | None:
    return True if numbers[value] else None


def ids_and_amounts(attribute_ids: list, amounts: array, zeros: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """Return ids, with -1 for amounts of 0 unless ``zeros``, and the amounts, or None if all are 1.

    ``attribute_ids`` and ``amounts`` are those to which :class:`AttributeIds` adds.
    """
    ids = np.fromiter(attribute_ids, np.int32, len(attribute_ids))
    if not amounts:
        return ids, None
    have_amounts, values = ids < -1, np.ones(len(ids))
    ids[have_amounts], values[have_amounts] = HAS_AMOUNT - ids[have_amounts], np.frombuffer(amounts)
    if not zeros:
        ids[values == 0.0] = -1
    return ids, values if (values[ids >= 0] != 1.0).any() else None


def _indptr(widths):
    return np.fromiter(accumulate(widths, initial=0), np.int64, len(widths) + 1)


class _Names:
    """Attributes of tokens that are feature dicts or lists of attribute names."""

    fields: list | None = None

    def __init__(self, features, arrays, weights, functions):
        _require(features.keys() == {"kind"} and not len(arrays["code"]), "features")
        if functions:
            raise ValueError(f"functions={list(functions)!r:.80}, but the model has none")
        texts = _Texts(arrays)
        self.ids = texts.take(weights.n_attributes)
        self.tables = AttributeIds(self.ids)
        _require(texts.n_taken == len(texts.offsets) - 1, "there are too many texts")

    def read(self, tokens):
        """Return the ids of the attributes, -1 for unknown ones, the range of each token, and amounts or None."""
        attribute_ids: list = []
        amounts = array("d")
        widths = self.tables.add(tokens, attribute_ids, amounts)
        if widths is None:
            widths = [self._add(token, t, attribute_ids, amounts) for t, token in enumerate(tokens)]
        ids, values = ids_and_amounts(attribute_ids, amounts)
        return ids, _indptr(widths), values

    def _add(self, token, t, attribute_ids, amounts):
        """Add the ids of the known attributes of a token; return the number of these attributes."""
        before = len(attribute_ids)
        if self.tables.add([token], attribute_ids, amounts) is None:
            if isinstance(token, tuple):
                raise TypeError(f"position {t}: a token must be a dict or a list of attribute names, got {token!r:.60}")
            for name, amount in _attributes("", token, t):
                if name in self.ids:
                    attribute_ids.append(HAS_AMOUNT - self.ids[name])
                    amounts.append(amount)
        return len(attribute_ids) - before


def _attributes(prefix, features, t, depth=0):
    """Yield names and amounts of the attributes in a feature dict or list of attribute names, with any values."""
    if isinstance(features, Mapping):
        if depth > 101:
            raise ValueError(f"position {t}: attribute {prefix[:-1]!r:.60} is too deep")
        for key, value in features.items():
            name = prefix + _name(key, t, prefix)
            if isinstance(value, (str, bytes)):
                yield f"{name}:{_name(value, t)}", 1.0
            elif ARE_AMOUNTS[type(value)]:
                yield name, _finite(value, "position {}, attribute {!r}", t, name)
            else:
                yield from _attributes(f"{name}:", value, t, depth + 1)
        return
    is_text = isinstance(features, (str, bytes))
    if is_text or not isinstance(features, Collection) or len(getattr(features, "shape", (0,))) != 1:
        raise TypeError(f"position {t}: {prefix!r:.60} has {features!r:.60}, where names or numbers belong")
    yield from ((prefix + _name(name, t, prefix), 1.0) for name in features)


def template_form(texts: Iterable[str]) -> str:
    """Return the format string that puts the value of a macro between successive strings."""
    return "%s".join(text.replace("%", "%%") for text in texts)


def filled_templates(templates: Sequence, columns: Sequence[Sequence[str]], style: str) -> list[list[str]]:
    """Return the strings that CRF++ or Wapiti templates produce at all tokens of a sequence.

    Parameters
    ----------
    templates : list of (form, macros)
        A macro consists of an offset, a column, and whether its strings are lowercased.
    columns : list of list of str
        The strings of all tokens.
    style : {"crf++", "wapiti"}
        The program whose strings mark positions outside the sequence.
    """
    length, known = len(columns[0]), {}
    for macro in dict.fromkeys(chain.from_iterable(macros for _, macros in templates)):
        offset, column, lower = macro
        texts = [text.lower() for text in columns[column]] if lower else columns[column]
        places = range(offset, offset + length)
        known[macro] = [texts[t] if 0 <= t < length else text_outside(t, length, style) for t in places]
    made = []
    for form, macros in templates:
        parts = zip(*(known[macro] for macro in macros), strict=True) if macros else [()] * length
        made.append([form % part for part in parts])
    return made


def text_outside(position, length, style):
    sign, distance = ("-", -position) if position < 0 else ("+", position - length + 1)
    far = style == "wapiti" and distance > 4
    return f"_{'x' if style == 'wapiti' else 'B'}{sign}{'#' if far else distance}"


class _Strings(_Names):
    """Attributes that CRF++ or Wapiti templates create from columns of strings."""

    def __init__(self, features, arrays, weights, functions):
        _require(features.keys() - {"fields"} == {"kind", "templates", "outside"}, "features")
        super().__init__({"kind": "names"}, arrays, weights, functions)
        self.outside = _get(features, "outside", str)
        _require(self.outside in ("crf++", "wapiti"), "outside")
        self.templates = list(map(self._template, _get(features, "templates", list)))  # formats, and their macros
        self.fields = list(range(1 + max((macro[1] for _, macros in self.templates for macro in macros), default=0)))
        self.has_names = "fields" in features  # of columns, for tokens that are dicts or strings
        if self.has_names:
            names = _get(features, "fields", list)
            _require(len(names) == len(self.fields) and all(isinstance(name, (str, int)) for name in names), "fields")
            self.fields = names

    def _template(self, entry):
        _require(isinstance(entry, list) and len(entry) % 2 == 1, "a template")
        texts, macros = entry[::2], entry[1::2]
        _require(all(isinstance(text, str) for text in texts), "a template")
        good = (isinstance(p, list) and list(map(type, p)) == [int, int, bool] and 0 <= p[1] < 1 << 20 for p in macros)
        _require(all(good) and all(abs(macro[0]) < 1 << 31 for macro in macros), "a place of a template")
        return template_form(texts), [tuple(macro) for macro in macros]

    def read(self, tokens):
        """Return the ids of the attributes in the form of :meth:`_Names.read`."""
        rows = [self._row(token, t) for t, token in enumerate(tokens)]
        columns = [[row[column] for row in rows] for column in range(len(self.fields))]
        made = zip(*filled_templates(self.templates, columns, self.outside), strict=True)  # by token
        ids = [self.ids.get(text, -1) for text in chain.from_iterable(made)]
        return np.array(ids, np.int32), _indptr([len(self.templates)] * len(tokens)), None

    def _row(self, token, t):
        columns = (token,) if isinstance(token, str) else token
        if isinstance(token, Mapping):
            columns = tuple(map(token.get, self.fields))
        if not isinstance(columns, (list, tuple)) or not all(isinstance(column, str) for column in columns):
            raise TypeError(f"position {t}: a token must be texts in columns, got {token!r:.60}")
        if len(columns) < len(self.fields) or (self.has_names and len(columns) > len(self.fields)):
            raise ValueError(f"position {t}: a token has {len(columns)} columns, but templates read {len(self.fields)}")
        return columns


def _name(name, t, prefix=""):
    if isinstance(name, bytes):
        try:
            return str(name, "utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"position {t}: {name!r:.60} is not UTF-8") from None
    if not isinstance(name, str):
        if prefix:
            raise TypeError(f"position {t}: attribute {prefix[:-1]!r:.60} holds {name!r:.60}, which must be a str")
        raise TypeError(f"position {t}: an attribute name must be a str, got {name!r:.60}")
    return name


def _finite(value, what, *names):
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{what.format(*names):.90} is {value!r:.60}; numbers must be finite")
    return number


class _Field:
    """One field of tokens."""

    def __init__(self, entry):
        self.name = _get(entry, "name", (str, int), "a field")
        self.numeric, self.complete = (_get(entry, key, bool, "a field") for key in ("numeric", "complete"))

    def made(self, raw, name, function, numeric):
        """Return the value of a column for a value of the field: a string, a number, or None if it is missing."""
        if raw is None or (not self.numeric and isinstance(raw, float) and math.isnan(raw)):
            return None
        if self.numeric != isinstance(raw, (Real, np.bool_)) or not (self.numeric or isinstance(raw, str)):
            was = "numbers" if self.numeric else "text"
            raise ValueError(f"field {self.name!r:.60} held {was} in fit, but holds {raw!r:.60} now")
        value = _finite(raw, "field {!r}", self.name) if self.numeric else raw
        made = value if function is None else function(value)
        if made is not None and (isinstance(made, str) == numeric or not isinstance(made, (str, Real, np.bool_))):
            was = "numbers" if numeric else "text"
            raise ValueError(f"the column {name!r:.60} held {was} in fit, but holds {made!r:.60} now")
        return _finite(made, "the column {!r}", name) if numeric and made is not None else made


class _Phrases:
    """A list of phrases that mark tokens."""

    def __init__(self, entry, fields):
        normalize = _get(entry, "normalize", (str, type(None)), "phrases")
        self.field = _get(entry, "field", int, "phrases")
        self.name, self.size = _get(entry, "name", (str, int), "phrases"), _get(entry, "size", int, "phrases")
        _require(self.field < len(fields) and fields[self.field] != self.name, "phrases")
        _require(normalize in (None, "casefold"), f"there is no function {normalize!r:.40}")
        self.normal = str.casefold if normalize else str

    def read(self, texts):
        """Read the strings of the phrases, which are the next strings of ``texts``."""
        self.phrases = {tuple(text.split("\0")) for text in texts.take(self.size)}
        self.lengths = lengths_by_first(self.phrases)

    def marks(self, values) -> list:
        """Return the marks of the values of a field."""
        words = [self.normal(value) if isinstance(value, str) else None for value in values]
        return marks_of(words, self.phrases, self.lengths)


class _Templates:
    """Attributes that templates create from the fields of tokens."""

    def __init__(self, features, arrays, weights, functions):
        keys = {"kind", "fields", "by_position", "marks", "columns", "templates"}
        _require(features.keys() - {"phrases"} == keys, "features")
        functions = dict(functions or {})
        texts, self.n_attributes = _Texts(arrays), weights.n_attributes
        self.by_position, self.marks = (_get(features, key, bool) for key in ("by_position", "marks"))
        self.sources = [_Field(entry) for entry in _get(features, "fields", list)]
        self.fields = [source.name for source in self.sources]
        _require(self.fields and len(set(self.fields)) == len(self.fields), "fields")
        entries = _get(features, "phrases", list) if "phrases" in features else []
        self.phrases = [_Phrases(entry, self.fields) for entry in entries]
        names = [one.name for one in self.phrases]
        self.fields = self.fields[: len(self.fields) - len(names)]
        _require(self.fields and [source.name for source in self.sources] == self.fields + names, "lists of phrases")
        self.numbers: dict = {}  # the field of each column, and `Made` of its values
        columns, made = self._read_columns(_get(features, "columns", list), texts, functions)
        for one in self.phrases:
            one.read(texts)
        _require(texts.n_taken == len(texts.offsets) - 1, "there are too many texts")
        code = np.add.accumulate(arrays["code"], dtype=arrays["code"].dtype)  # wraps around, as the differences do
        templates, ids = self._read_templates(_get(features, "templates", list), columns, code)
        self.ids = TemplateIds(templates, ids, made, self.numbers)

    def _read_columns(self, entries, texts, functions):
        """Return the values of columns, by code, and for each column of strings, its field and its :class:`Made`."""
        user_columns, columns, all_made = set(), [], {}
        for number, entry in enumerate(entries):
            name, n_values = _get(entry, "name", (str, int), "a column"), _get(entry, "values", int, "a column")
            field = _get(entry, "field", int, "a column")
            called = _get(entry, "function", (str, type(None)), "a column")
            _require(field < len(self.sources), "the field of a column")
            function: Callable | None = None if called is None else named_function(called)
            if _get(entry, "own", bool, "a column"):
                user_columns.add(name)
                if name not in functions:
                    raise ValueError(f"the model needs your function {called!r:.60}: functions={{{name!r:.60}: ...}}")
                function = functions[name]
            elif called is not None and self.sources[field].numeric:
                function = None  # because these are functions of strings
            _require((called is None) == (function is None), f"there is no function {called!r:.40}")
            numeric = _get(entry, "numeric", bool, "a column")
            made = Made(partial(self.sources[field].made, name=name, function=function, numeric=numeric))
            (self.numbers if numeric else all_made)[number] = field, made
            columns.append([*([True] if numeric else texts.take(n_values)), *([BEFORE, AFTER] if self.marks else [])])
        if unknown := set(functions) - user_columns:
            raise ValueError(f"functions has {sorted(map(str, unknown))!r:.80}, which the model does not need")
        return columns, all_made

    def _read_templates(self, entries, columns, code):
        """Return the places of templates, and the ids of their attributes by value."""
        templates, ids, first, start = [], [], 0, 0
        for entry in entries:
            n, places = _get(entry, "attributes", int, "a template"), _get(entry, "places", list, "a template")
            _require(0 < len(places) <= 1000, "a template")
            for place in places:
                _require(isinstance(place, list) and list(map(type, place)) == [int, int], "a template")
                _require(0 <= place[0] < len(columns) and abs(place[1]) < 1 << 31, "a template")
            stop = start + n * len(places)
            _require(stop <= len(code), "codes of attributes")
            values = [
                map(columns[column].__getitem__, _below(row, len(columns[column]), "code").tolist())
                for (column, _), row in zip(places, code[start:stop].reshape(len(places), n), strict=True)
            ]
            keys = values[0] if len(values) == 1 else zip(*values, strict=True)
            ids.append(dict(zip(keys, range(first, first + n), strict=True)))
            _require(len(ids[-1]) == n, "an attribute is there twice")
            templates.append([tuple(place) for place in places])
            first, start = first + n, stop
        _require(first == self.n_attributes and start == len(code), "the number of attributes")
        return templates, ids

    def read(self, tokens):
        """Return the ids of the attributes in the form of :meth:`_Names.read`."""
        columns = list(map(list, self._values(tokens)))
        for source, values in zip(self.sources, columns, strict=False):  # sources of phrases follow
            for value in values:
                if not isinstance(value, (str, Real, np.bool_, type(None))):  # a list is no key of the tables below
                    source.made(value, source.name, None, source.numeric)
        for one in self.phrases:
            columns.append(one.marks(columns[one.field]))
        fields, size = dict(enumerate(columns)), (len(self.ids.templates), len(tokens))
        ids = self.ids.find(fields, self.marks) if size[0] else np.empty(size)
        amounts = self.ids.amounts(fields, size[1])
        amounts = None if amounts is None else amounts.T.ravel()
        return ids.T.astype(np.int32).ravel(), np.arange(size[1] + 1) * size[0], amounts

    def _values(self, tokens) -> list:
        """Return the values of each field."""
        kinds = set(map(type, tokens))
        if all(issubclass(kind, Mapping) for kind in kinds):
            for field in self.sources:
                if field.complete and not any(field.name in token for token in tokens):
                    raise ValueError(f"the field {field.name!r:.60} is missing, which every training token had")
            return [[token.get(name) for token in tokens] for name in self.fields]
        if all(issubclass(kind, (tuple, list, np.ndarray)) for kind in kinds) and self.by_position:
            tokens = [token.tolist() if isinstance(token, np.ndarray) else token for token in tokens]
            if set(map(len, tokens)) != {len(self.fields)}:
                raise ValueError(f"tokens must have {len(self.fields)} columns, as in fit")
            return list(zip(*tokens, strict=True))
        if len(self.fields) > 1 or not all(issubclass(kind, (str, Real, np.bool_)) for kind in kinds):
            raise ValueError(
                f"tokens are not of the form of fit, with the fields {self.fields!r:.80}: {tokens[0]!r:.60}"
            )
        return [tokens]


# --- the tagger -------------------------------------------------------------------------------------------------------


def compiled(n_labels, structure, score, borders, pairs):
    """Return the compiled implementation, which is None in this module; the package replaces this function."""
    return None


class ReadSequence:
    """A sequence that a tagger has read; see :meth:`Tagger.read`. T tokens."""

    def __init__(self, tagger, tokens):
        tokens = _sequence(tokens)
        self.tagger, self.length, self.log_z = tagger, len(tokens), None  # log Z is known after marginals
        if not self.length:
            return
        try:
            self.ids, self.indptr, self.amounts = tagger._features.read(tokens)
        except (TypeError, ValueError) as error:
            if not _may_be_sequences(tokens, tagger.fields):
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error}; {ONE_SEQUENCE}") from None

    def __len__(self):
        return self.length

    def _fast(self, method, *arguments):
        """Return the result of the compiled method ``method``; None if there is no compiled code, or no token."""
        fast = self.tagger._fast if self.length else None
        return fast and getattr(fast, method)((self.ids, self.indptr, self.amounts), *arguments)

    @_CachedProperty
    def codes(self) -> list[int]:
        """The codes of the best labels."""
        codes = self._fast("decode")
        return self.chain().decode() if codes is None and self.length else [] if codes is None else codes.tolist()

    @_CachedProperty
    def marginals(self) -> np.ndarray:
        """The probability of each label at each token; shape (T, L)."""
        if not self.length:
            return np.zeros((0, len(self.tagger.labels)))
        answer = self._fast("marginals")
        self.log_z, table = (None, self.chain().marginals()) if answer is None else answer
        return table

    def log_likelihood(self, codes) -> float:
        """Return the logarithm of the probability of a labelling."""
        if not self.length:
            return 0.0
        log_probability = self._fast("log_likelihood", codes, self.log_z)
        if log_probability is None:
            chain = self.chain()
            log_probability = min(math.fsum(chain.terms(codes)) - chain.total(), 0.0)
        return log_probability

    def chain(self) -> _Pass:
        """Return the scores of the sequence as an object that computes results from them."""
        tagger = self.tagger
        scores = tagger._weights.sums(self.ids, self.indptr, self.amounts) + tagger._always
        scores[0] += tagger._ends[0]
        scores[-1] += tagger._ends[1]
        chain = _Pass(tagger._automaton, scores, tagger._borders)
        if not chain.largest <= MAX_SCORE:
            raise ValueError("a number of the tokens is so large that the scores of labels are not finite")
        if self.length * (chain.largest + tagger._automaton.largest) > LARGE_SCORE:
            chain.centre()
        return chain


class Tagger:
    """A model that :func:`export_tagger` wrote; it predicts labels, probabilities and segments, one sequence at a time.

    Any number of threads may use one tagger.

    Parameters
    ----------
    path : str, path or bytes
        Name of the file, or its content.
    mmap : bool or None, default=None
        Whether to map the file into memory that processes share, instead of reading it. Do not overwrite a mapped file
        in place; on Windows, do not replace it either. If None, files above 16 MiB are mapped. Processes do not share
        the contents of compressed files.
    functions : dict or None, default=None
        Your own functions that the model uses as token features, by the name of the token feature.

    Attributes
    ----------
    labels : list
        All labels, in the order of ``classes_`` of the estimator.
    fields : list or None
        Names of the fields of tokens, or numbers if tokens consist of columns; None for feature dicts and lists of
        names.
    scheme : {"bio", "bioes", "bilou", "bmes", "iob1", "runs"} or None
        The scheme by which labels describe segments; None if some labels look like tags, but not all are tags of one
        scheme.

    Raises
    ------
    ValueError
        If the file is not a tagger file or is damaged, or if one of your functions is missing.

    Examples
    --------
    https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/production.html shows a service.

    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.tagger import Tagger, export_tagger
    >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
    >>> crf = HighOrderCRF(constraints="bio").fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/names.hocrf"
    ...     size = export_tagger(crf, path)
    ...     tagger = Tagger(path)
    >>> tagger.predict([["met"], ["Lee"]])
    ['O', 'B-PER']
    >>> tagger.predict_segments(X[0])
    [(0, 2, 'PER'), (3, 4, 'PER')]
    >>> tagger.predict_segments(X[0], with_probability=True)["probability"].round(2)
    array([0.51, 0.66])
    >>> tagger.predict_marginals(X[0]).shape, tagger.labels
    ((4, 3), ['B-PER', 'I-PER', 'O'])
    >>> [labels for labels, score, log_probability in tagger.predict_nbest(X[1], 2)]
    [['O', 'B-PER'], ['B-PER', 'B-PER']]
    """

    def __init__(
        self, path: str | os.PathLike | bytes, mmap: bool | None = None, functions: Mapping[str, Callable] | None = None
    ) -> None:
        self._source = path, mmap, functions
        content = path if isinstance(path, bytes) else _read(path, mmap)
        header, arrays = _read_file(content)
        entries = {"format", "packed", "labels", "scheme", "n_columns", "features"}
        _require(header.keys() == entries, f"the header has {sorted(header)!r:.200}")
        self.labels: list = _get(header, "labels", list)
        n_labels, n_columns = len(self.labels), _get(header, "n_columns", int)
        _require(all(isinstance(label, (str, int, float)) for label in self.labels), "labels")
        self._code_of = {label: code for code, label in enumerate(self.labels)}
        _require(0 < n_labels == len(self._code_of) and n_labels <= n_columns < 1 << 31, "labels")
        self.scheme: str | None = _get(header, "scheme", (str, type(None)))
        _require(self.scheme in (*PREFIXES, "runs", None), "scheme")
        self._segments = None if self.scheme is None else _Segments(self.labels, self.scheme)
        shapes = arrays["borders"].shape, arrays["always"].shape
        _require(shapes == ((2, n_labels), (3, n_columns)), "borders or always")
        always, borders = arrays["always"].astype(np.float64), np.where(arrays["borders"], 0.0, -np.inf)
        self._always, self._ends, self._borders = always[0], always[1:], borders
        self._automaton = _Automaton(arrays, n_labels, n_columns)
        self._weights, features = _Weights(arrays, n_columns), _get(header, "features", dict)
        kinds: dict[str, Any] = {"names": _Names, "strings": _Strings, "templates": _Templates}
        _require((kind := _get(features, "kind", str)) in kinds, "features")
        self._features = kinds[kind](features, arrays, self._weights, functions)
        self.fields: list | None = self._features.fields

    def __reduce__(self):
        return Tagger, self._source

    @_CachedProperty
    def _fast(self):
        """The compiled implementation, created at the first call; None if there is none."""
        automaton, weights = self._automaton, self._weights
        if weights.n_columns > len(self.labels) or len(weights.weight) > MOST_WEIGHTS:
            return None
        structure = automaton.length, automaton.fail, automaton.arc_source, automaton.arc_label, automaton.arc_target
        scores = automaton.arc_score + self._always[automaton.arc_label], self._ends + self._borders
        pairs = np.arange(weights.n_attributes), weights.starts, weights.column, weights.weight
        return compiled(len(self.labels), structure, *scores, pairs)

    def read(self, tokens: Sequence | ReadSequence) -> ReadSequence:
        """Return a sequence in a form that all other methods accept, so that several calls read the tokens only once.

        Parameters
        ----------
        tokens : list
            As in :meth:`predict`.

        Returns
        -------
        sequence : ReadSequence
            A sequence that only this tagger accepts. Later changes to the list do not affect it.

        Raises
        ------
        TypeError, ValueError
            If the tokens are not one sequence in the form that the estimator was trained on, or were read by another
            tagger.
        """
        if isinstance(tokens, ReadSequence) and tokens.tagger is not self:
            raise ValueError("the sequence was read by another tagger")
        return tokens if isinstance(tokens, ReadSequence) else ReadSequence(self, tokens)

    @overload
    def predict(self, tokens: Sequence | ReadSequence, with_probability: Literal[False] = False) -> list: ...
    @overload
    def predict(self, tokens: Sequence | ReadSequence, with_probability: Literal[True]) -> list[tuple[Any, float]]: ...
    def predict(self, tokens: Sequence | ReadSequence, with_probability: bool = False) -> list:
        """Return the label of each token.

        Parameters
        ----------
        tokens : list, or result of read
            One sequence, in the form that the estimator was trained on.
        with_probability : bool, default=False
            Whether to return pairs (label, probability).

        Returns
        -------
        labels : list

        Raises
        ------
        TypeError, ValueError
            If the tokens are not one sequence in the form that the estimator was trained on.
        """
        read = self.read(tokens)
        labels = [self.labels[code] for code in read.codes]
        if not with_probability:
            return labels
        return [
            (label, float(p)) for label, p in zip(labels, read.marginals[range(len(read)), read.codes], strict=True)
        ]

    def tag(self, tokens: Sequence | ReadSequence) -> list:
        """Return the label of each token; this is :meth:`predict` under the name that python-crfsuite uses.

        Parameters
        ----------
        tokens : list, or result of read
            As in :meth:`predict`.

        Returns
        -------
        labels : list

        Raises
        ------
        TypeError, ValueError
            As for :meth:`predict`.
        """
        return self.predict(tokens)

    def predict_marginals(self, tokens: Sequence | ReadSequence) -> np.ndarray:
        """Return the probability of each label at each token.

        Parameters
        ----------
        tokens : list, or result of read
            As in :meth:`predict`.

        Returns
        -------
        marginals : ndarray of shape (n_tokens, n_labels)

        Raises
        ------
        TypeError, ValueError
            As for :meth:`predict`.
        """
        return self.read(tokens).marginals.copy()

    @overload
    def predict_segments(
        self, tokens: Sequence | ReadSequence, with_probability: Literal[False] = False, *, threshold: None = None
    ) -> list[tuple]: ...
    @overload
    def predict_segments(
        self, tokens: Sequence | ReadSequence, with_probability: Literal[True], *, threshold: float | None = None
    ) -> np.ndarray: ...
    @overload
    def predict_segments(
        self, tokens: Sequence | ReadSequence, with_probability: bool = False, *, threshold: float
    ) -> np.ndarray: ...
    def predict_segments(
        self, tokens: Sequence | ReadSequence, with_probability: bool = False, *, threshold: float | None = None
    ) -> list[tuple] | np.ndarray:
        """Return the segments that the labels describe, or all segments whose probability reaches a threshold.

        Parameters
        ----------
        tokens : list, or result of read
            As in :meth:`predict`.
        with_probability : bool, default=False
            Whether to include the probabilities of the segments that the labels describe. If there is a threshold,
            probabilities are always included.
        threshold : float or None, default=None
            If None, the method returns the segments that the labels describe. If this is a number in [0, 1], the method
            returns all segments whose probability is at least this number, with their probabilities. The segments may
            overlap if the number is at most 0.5. With a low threshold, the result contains more of the true segments
            than the labels describe.

        Returns
        -------
        segments : list of (start, stop, label), or structured array
            With probabilities, an array with the fields "start", "stop", "label" and "probability", as in the result of
            the estimators' ``predict_segments``. Its ``tolist()`` returns tuples of Python objects, for JSON.

        Raises
        ------
        TypeError, ValueError
            As for :meth:`predict`; also if the threshold is not in [0, 1], or if labels look like tags, but not all are
            tags of one scheme.
        """
        is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if threshold is not None and not (is_number and 0 <= threshold <= 1):
            raise ValueError(f"threshold must be a probability, a number in [0, 1], or None, got {threshold!r:.60}")
        if self._segments is None:
            raise ValueError("some labels look like tags of segments, but not all are tags of one scheme")
        read = self.read(tokens)
        if threshold is not None:
            likely = self._segments.likely(read.chain(), threshold) if len(read) else {}
            return self._segments.table(likely, likely.values())
        segments = self._segments.cut(read.codes)
        if not with_probability:
            return segments
        return self._segments.table(segments, self._segments.probabilities(read.chain(), segments) if segments else [])

    def log_likelihood(self, tokens: Sequence | ReadSequence, labels: Sequence) -> float:
        """Return the logarithm of the probability of a labelling; -inf if it is impossible.

        Parameters
        ----------
        tokens : list, or result of read
            As in :meth:`predict`.
        labels : list of labels, one for each token
            The labels of the tokens.

        Returns
        -------
        log_likelihood : float

        Raises
        ------
        TypeError, ValueError
            As for :meth:`predict`; also if ``labels`` does not consist of one label of the model for each token.
        """
        read, labels = self.read(tokens), _sequence(labels, "labels")
        if len(labels) != len(read):
            raise ValueError(f"there are {len(labels)} labels for {len(read)} tokens of one sequence")
        for label in labels:
            if _is_list(label):
                raise TypeError(f"{label!r:.60} is no label; {ONE_SEQUENCE}")
            if label not in self._code_of:
                raise ValueError(f"{label!r:.60} is no label of the model")
        return read.log_likelihood([self._code_of[label] for label in labels])

    def predict_nbest(self, tokens: Sequence | ReadSequence, n: int = 10) -> list[Labelling]:
        """Return the n labellings with the highest scores, best first, or all labellings if there are fewer.

        Parameters
        ----------
        tokens : list, or result of read
            As in :meth:`predict`.
        n : int, default=10
            Maximum number of labellings.

        Returns
        -------
        labellings : list of Labelling
            Named tuples ``(labels, score, log_probability)``.

        Raises
        ------
        TypeError, ValueError
            As for :meth:`predict`; also if n < 1.
        """
        if not isinstance(n, Integral) or n < 1:
            raise ValueError(f"n must be an integer of at least 1, got {n!r:.30}")
        read = self.read(tokens)
        if not len(read):
            return [Labelling([], 0.0, 0.0)]
        chain = read.chain()
        log_z = chain.total()
        labellings, highest = chain.best_labellings(n)
        score, log_probability = highest + chain.shift, min(highest - log_z, 0.0)  # rounded alike for all labellings
        return [
            Labelling([self.labels[c] for c in codes], score - regret, log_probability - regret)
            for codes, regret in labellings
        ]


def _read(path, mmap):
    """Return the content of a file, or a memory map of it."""
    with open(path, "rb") as file:
        if mmap is None:
            mmap = os.fstat(file.fileno()).st_size > SMALL_FILE
        return mapping.mmap(file.fileno(), 0, access=mapping.ACCESS_READ) if mmap else file.read()


def _sequence(value, of="tokens") -> Sequence:
    if _is_item_sequence(value):
        raise TypeError(f"a sequence is a list of {of}, got {value!r:.60}: pass its items()")
    if hasattr(value, "columns"):  # iteration would yield the names of columns
        raise TypeError(f'a sequence is a list of {of}, got a data frame: pass its to_dict("records"), or to_dicts()')
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise TypeError(f"a sequence is a list of {of}, got {value!r:.60}")
    return value if isinstance(value, (list, tuple)) else list(value)


def _may_be_sequences(tokens, fields) -> bool:
    """Return whether tokens that a user passed as one sequence may be a list of sequences."""
    lists = [token for token in tokens if _is_list(token) and not isinstance(token, Mapping)]
    cells = chain.from_iterable(token for token in lists if not _is_item_sequence(token))
    return any(map(_is_item_sequence, lists)) or any(map(_is_list, cells)) or (len(fields or ()) == 1 and bool(lists))


def _is_list(value):
    return _is_item_sequence(value) or (hasattr(value, "__iter__") and not isinstance(value, (str, bytes)))


def _is_item_sequence(value):
    return type(value).__name__ == "ItemSequence"  # of python-crfsuite
