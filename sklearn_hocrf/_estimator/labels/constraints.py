"""Constraints on runs of labels and on the first and last labels of sequences; parts of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..._data.arrays import offsets_of
from ..._data.checks import check_choice, refuse_iterator, short
from ..._data.segments import Mask
from ..._engine.structure.pairs import LabelParts
from ..._engine.structure.patterns import SEGMENTS, TOKENS, PatternTable, contain_any, given_patterns
from ..._engine.structure.weighted_arcs import arcs_of_labels, compile_patterns
from ..._reading.labels import as_array, label_codes, sorted_together
from ..._reading.schemes import TAG_SCHEMES, E, I, guessed_scheme, legal_tags, split_tag
from ..._reading.values import is_missing
from .patterns import read_tags, refuse_equal_neighbours


class Constraints(BaseEstimator):
    """Rules about which labels may follow each other, for the parameter ``constraints``.

    A labelling that violates a constraint has probability 0. In both training and prediction, the probabilities of all
    other labellings sum to 1. ``fit`` raises an error if a training sequence violates a constraint.

    Parameters
    ----------
    forbid : iterable of tuples of labels, default=()
        Runs of two or more labels that must not occur. For example, ``("O", "I-PER")`` forbids I-PER directly after O.
    allow : iterable of pairs of labels, default=None
        The only pairs of labels that may be neighbours; cannot be combined with ``forbid``. None allows all pairs. If a
        label may follow itself, include this pair; with "runs" of :class:`~sklearn_hocrf.HighOrderSemiCRF`, no label
        follows itself.
    start, end : iterable of labels, default=None
        The labels that a sequence may begin with, and those that it may end with. None allows all labels.

    See Also
    --------
    sklearn_hocrf.HighOrderCRF : Accepts tagging schemes by name, as in ``constraints="bio"``.

    Notes
    -----
    For :class:`~sklearn_hocrf.HighOrderSemiCRF`, labels are segment labels, and neighbours are neighbouring segments.
    For ``HighOrderCRF(history="segments")``, neighbours are also neighbouring segments, except that a pair of equal
    labels represents a token that continues a segment: if ``("REM", "REM")`` is forbidden, REM segments consist of one
    token. Forbidden runs of at most ``max_order + 1`` labels take no additional time. Longer runs take as much time as
    patterns of the same length. Each run takes about a kilobyte of memory.

    Examples
    --------
    No noun follows another noun, and no sentence ends with a noun:

    >>> from sklearn_hocrf import Constraints, HighOrderCRF
    >>> X = [[["dogs"], ["bark"]], [["cats"], ["see"], ["dogs"], ["bark"]]]
    >>> y = [["NOUN", "VERB"], ["NOUN", "VERB", "NOUN", "VERB"]]
    >>> constraints = Constraints(forbid=[("NOUN", "NOUN")], end=["VERB"])
    >>> constraints
    Constraints(end=['VERB'], forbid=[('NOUN', 'NOUN')])
    >>> HighOrderCRF(constraints=constraints).fit(X, y).predict(
    ...     [[["cats"], ["see"], ["dogs"]]]
    ... )
    [['NOUN', 'VERB', 'VERB']]

    A list comprehension gives the pairs that a rule allows. Here, each label is a step of a recipe, and the order of
    the steps is fixed:

    >>> X = [[["wash"], ["cut"], ["chop"], ["fry"]], [["cut"], ["fry"]]]
    >>> y = [["1 wash", "2 cut", "2 cut", "3 fry"], ["2 cut", "3 fry"]]
    >>> steps = ["1 wash", "2 cut", "3 fry"]
    >>> constraints = Constraints(
    ...     allow=[(left, right) for left in steps for right in steps if left <= right]
    ... )
    >>> crf = HighOrderCRF(constraints=constraints).fit(X, y)
    >>> crf.log_likelihood([[["fry"], ["wash"]]], [["3 fry", "1 wash"]])
    array([-inf])
    """

    __module__ = "sklearn_hocrf"  # the public module: model files contain this name

    def __init__(
        self,
        forbid: Iterable[tuple] = (),
        *,
        allow: Iterable[tuple] | None = None,
        start: Iterable[Any] | None = None,
        end: Iterable[Any] | None = None,
    ) -> None:
        self.forbid = forbid
        self.allow = allow
        self.start = start
        self.end = end

    def check(self) -> None:
        """Check the settings as far as possible without labels.

        Raises
        ------
        ValueError
            If a setting is invalid; the message names the first one.
        """
        for name in ("forbid", "allow", "start", "end"):
            setting = getattr(self, name)
            if setting is None and name != "forbid":
                continue
            what = "tuples of labels" if name in ("forbid", "allow") else "labels"
            if isinstance(setting, (str, bytes)) or not isinstance(setting, Iterable):
                raise ValueError(f"{name} of Constraints must be a list of {what}, got {short(setting)}")
            refuse_iterator(setting, f"{name} of Constraints is")
            if name in ("start", "end") and not len(list(setting)):
                raise ValueError(f"{name} of Constraints is empty: every sequence has to {name} with some label")
        for name, expected, most in ("forbid", "tuples of two or more labels", np.inf), ("allow", "pairs of labels", 2):
            for run in getattr(self, name) or ():
                if not isinstance(run, (tuple, list)) or not 2 <= len(run) <= most:
                    raise ValueError(f"{name} of Constraints must have {expected}, got {short(run)}")
        if self.allow is not None and len(list(self.forbid)):
            raise ValueError("allow and forbid of Constraints exclude each other: allow names all pairs that may occur")


class Rules(NamedTuple):
    """Constraints over label codes.   L labels."""

    forbidden: tuple[tuple[int, ...], ...] = ()  # runs of label codes
    borders: np.ndarray | None = None  # (2, L) bool   labels at the start and at the end of a sequence; None: all

    def mask(self, offsets: np.ndarray) -> Mask | None:
        """Return a mask of the labellings that begin and end with allowed labels; None means all labellings."""
        return None if self.borders is None else Mask.of_borders(offsets, self.borders)

    def equal(self, other: Rules) -> bool:
        """Return whether ``other`` contains equivalent rules."""
        borders: list[Any] = [self.borders, other.borders]
        return set(self.forbidden) == set(other.forbidden) and np.array_equal(*borders)


def check_constraints(constraints: str | Constraints | None, history: str = TOKENS) -> None:
    """Raise an error for invalid ``constraints`` and ``history``, as far as they can be checked without labels."""
    check_choice("history", history, (TOKENS, SEGMENTS))
    if isinstance(constraints, Constraints):
        constraints.check()
    elif constraints is not None:
        check_choice("constraints", constraints, tuple(TAG_SCHEMES))
        if history == SEGMENTS:
            raise ValueError(
                f"constraints={constraints!r} needs history='tokens': with history='segments', segments are runs of "
                "equal labels, not of tags"
            )


def compile_rules(history: str, constraints: str | Constraints | None, labels: np.ndarray) -> Rules:
    """Return the constraints as rules over label codes.

    Parameters
    ----------
    history : {"tokens", "segments"}
    constraints : str, Constraints or None
    labels : ndarray of shape (L,)

    Raises
    ------
    ValueError
        If the constraints name a label that the model lacks, if a label is not a tag of the named scheme, or if a
        forbidden run cannot occur as a run of segments.
    """
    if constraints is None:
        return Rules()
    if isinstance(constraints, str):
        return _rules(*legal_tags(read_tags(labels, constraints, "constraints")[0], constraints))
    if history == SEGMENTS:
        for run in constraints.forbid:
            refuse_equal_neighbours("forbid of Constraints:", run)
    return _rules_of_labels(constraints, labels)


def _rules(follow: np.ndarray, borders: np.ndarray) -> Rules:
    """Convert tables to rules: which labels may follow each label, and which labels may begin and end sequences."""
    return Rules(tuple(map(tuple, np.argwhere(~follow).tolist())), None if borders.all() else borders)


def _rules_of_labels(constraints: Constraints, labels: np.ndarray) -> Rules:
    code_of = label_codes(labels)
    runs = list(constraints.forbid if constraints.allow is None else constraints.allow)
    border_labels = [None if ends is None else list(ends) for ends in (constraints.start, constraints.end)]
    named = [label for labels in (*runs, *border_labels) if labels is not None for label in labels]
    unknown = [label for label in named if not isinstance(label, Hashable) or label not in code_of]
    if unknown:
        distinct = [label for i, label in enumerate(unknown) if label not in unknown[:i]]
        raise ValueError(f"constraints name labels that the model does not have: {short(distinct)}")
    codes = [tuple(code_of[label] for label in run) for run in runs]
    borders = np.ones((2, len(labels)), dtype=bool)
    for row, ends in zip(borders, border_labels, strict=True):
        if ends is not None:
            row[:] = np.isin(np.arange(len(row)), [code_of[label] for label in ends])
    follow = np.ones((len(labels), len(labels)), dtype=bool)
    if constraints.allow is not None:
        follow[:] = False
        follow[tuple(np.array(codes, dtype=np.int64).reshape(-1, 2).T)] = True
        codes = []
    rules = _rules(follow, borders)
    return rules._replace(forbidden=(*rules.forbidden, *codes))


def without_forbidden_patterns(
    rules: Rules, constraints: str | Constraints | None, patterns: PatternTable, labels: np.ndarray, is_given: bool
) -> PatternTable:
    """Return the possible patterns of a model; raise a ValueError if a pattern that the user passed is impossible."""
    if not rules.forbidden:
        return patterns
    never = contain_any(patterns.labels, rules.forbidden)
    if is_given and never.any():
        codes = patterns.tuples()[int(np.argmax(never))]
        pattern = tuple(labels.tolist()[code] for code in codes)
        raise ValueError(
            f"patterns: {short(pattern)} can never occur, because constraints={_rule_text(constraints)} forbids it"
        )
    return patterns.subset(~never)


def _rule_text(constraints: str | Constraints | None) -> str:
    return f'"{constraints}"' if isinstance(constraints, str) else " ".join(short(constraints).split())


# -------------------------------------------------------------------------------------------------------- violations


class LabelRuns(NamedTuple):
    """The labels of sequences, as in y.   N tokens or segments."""

    codes: np.ndarray  # (N,)   -1 where the label is not known
    offsets: np.ndarray  # (n_sequences + 1,)
    position: np.ndarray  # (N,)   where each token or segment starts in its sequence
    sequence: np.ndarray  # (n_sequences,)   index of each sequence in y


def refuse_breaches(
    rules: Rules, constraints: str | Constraints | None, labels: np.ndarray, runs: LabelRuns, history: str
) -> None:
    """Raise a ValueError for the first training labels that violate a constraint.

    Parameters
    ----------
    rules : Rules
    constraints : object
        The constraints as the user specified them, for the message.
    labels : ndarray of shape (L,)
    runs : LabelRuns
    history : {"tokens", "segments"}
        Whether the rules forbid runs of the labels in ``runs``, or runs of the labels of segments (maximal runs of
        equal labels).
    """
    breaches = [*_forbidden_run(rules, len(labels), runs, history), *_forbidden_border(rules, runs)]
    if not breaches:
        return
    token, tokens, where = min(breaches)
    sequence = int(np.searchsorted(runs.offsets, token, side="right")) - 1
    names = [labels.tolist()[code] for code in runs.codes[tokens].tolist()]
    last = short(names[-1], 40)
    what = f"{last} {where}"
    if not where:
        what = f"{last} after {short(names[0], 40)}" if len(names) == 2 else f"the run of labels {short(tuple(names))}"
    raise ValueError(
        f"sequence {runs.sequence[sequence]}, position {runs.position[token]}: {what} is forbidden by "
        f"constraints={_rule_text(constraints)}{_reading(constraints, labels, names[-1], where)}"
    )


def _reading(constraints: str | Constraints | None, labels: np.ndarray, tag: Hashable, where: str) -> str:
    """Return the part of a message that explains how to make an invalid tag acceptable."""
    if not isinstance(constraints, str):
        return ""
    rules = TAG_SCHEMES[constraints]
    if rules.marks_ends and guessed_scheme(labels.tolist()) == "bio":
        return (
            f'; no label marks the end of a segment, so the tags may be those of constraints="bio"; '
            f'text.convert_tags(y, "bio", "{constraints}") makes "{constraints}" of them'
        )
    prefix = split_tag(tag, constraints)
    begins = where != _AT_END and prefix is not None and prefix[0] in (I, E) and not rules.begins_inside
    reading = "reads it as a begin" if begins else "also reads such tags"
    return (
        f'; text.convert_tags(y, "{constraints}", "{constraints}") repairs such tags, and HighOrderSemiCRF(scheme='
        f'"{constraints}") {reading}'
    )


_AT_START, _AT_END = "at the start of a sequence", "at the end of a sequence"


def _forbidden_run(rules: Rules, n_labels: int, runs: LabelRuns, history: str) -> list:
    """Return a list with the end, positions and description of the first forbidden run, or an empty list."""
    if not rules.forbidden:
        return []
    compiled = compile_patterns(given_patterns((), n_labels + 1, history), rules.forbidden)
    automaton, is_forbidden = compiled.automaton, np.zeros(compiled.automaton.n_arcs, dtype=bool)
    is_forbidden[compiled.forbidden_arcs] = True
    codes = np.where(runs.codes < 0, n_labels, runs.codes)  # unknown labels get a code that no rule forbids
    arcs = arcs_of_labels(automaton, runs.offsets, codes)
    ends = np.flatnonzero(is_forbidden[arcs])
    if not len(ends):
        return []
    arc = arcs[ends[0]]
    while is_forbidden[automaton.arc_suffix[arc]]:
        arc = automaton.arc_suffix[arc]
    tokens = [int(ends[0])]
    while len(tokens) < automaton.arc_length[arc]:
        before = tokens[0] - 1
        while history == SEGMENTS and len(tokens) > 1 and codes[before] == codes[tokens[0]]:
            before -= 1  # which is in the same segment
        tokens.insert(0, before)
    return [(tokens[-1], tokens, "")]


def _forbidden_border(rules: Rules, runs: LabelRuns) -> list:
    """Return a list, as :func:`_forbidden_run` does, for the first forbidden labels at starts and ends of sequences."""
    if rules.borders is None:
        return []
    violations, has_labels = [], np.diff(runs.offsets) > 0
    borders = runs.offsets[:-1][has_labels], runs.offsets[1:][has_labels] - 1
    for is_allowed, tokens, where in zip(rules.borders, borders, (_AT_START, _AT_END), strict=True):
        is_right = np.append(is_allowed, True)[runs.codes[tokens]]  # -1: unknown
        violations += [(token, [token], where) for token in tokens[~is_right][:1].tolist()]
    return violations


class NamedParts(NamedTuple):
    """The parts of labels that share weights.   S parts."""

    names: np.ndarray  # (S,)   as given by the user, sorted
    codes: LabelParts

    def equal(self, names: np.ndarray, codes: LabelParts) -> bool:
        """Return whether the given names and codes describe the same parts as this object."""
        return self.names.tolist() == names.tolist() and self.codes.equal(codes)


def compile_label_parts(label_parts: Callable | None, labels: np.ndarray) -> NamedParts:
    """Return the parts that two or more of the labels of a model share.

    Parameters
    ----------
    label_parts : callable or None
        The parameter of the estimators.
    labels : ndarray of shape (L,)
        The labels.

    Raises
    ------
    ValueError, TypeError
        If a part is missing or not hashable, or if parts are not mutually comparable.
    """
    of_label = [{} if label_parts is None else _parts_of(label_parts, label) for label in labels.tolist()]
    n_labels_with = Counter(part for parts in of_label for part in parts)
    names = sorted_together("label_parts: parts", [part for part, count in n_labels_with.items() if count > 1])
    index_of = {part: i for i, part in enumerate(names)}
    codes = [sorted(index_of[part] for part in parts if part in index_of) for parts in of_label]
    flat = np.array([part for parts in codes for part in parts], dtype=np.int32)
    return NamedParts(as_array(names, "U"), LabelParts(offsets_of(list(map(len, codes))), flat, len(names)))


def _parts_of(label_parts: Callable, label: Hashable) -> dict:
    """Return the distinct parts of a label, as keys."""
    parts = label_parts(label)
    if isinstance(parts, Mapping):  # {"Case": "Gen"} would be the part "Case"
        raise TypeError(
            f"label_parts must return an iterable of parts, got a mapping, {short(parts)}, for the label "
            f"{short(label)}: return its items, or its keys or values"
        )
    if isinstance(parts, (str, bytes)) or not isinstance(parts, Iterable):
        raise TypeError(
            f"label_parts must return an iterable of parts, got {short(parts)} for the label {short(label)}"
        )
    distinct: dict = {}
    for part in parts:
        if not isinstance(part, Hashable):
            raise TypeError(f"label_parts: the part {short(part)} of the label {short(label)} is not hashable")
        if is_missing(part):
            raise ValueError(f"label_parts: the label {short(label)} has a part that is missing, {short(part)}")
        distinct[part] = None
    return distinct
