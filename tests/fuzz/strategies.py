"""Hypothesis strategies for cases. A case is plain data: its ``repr`` recreates it."""

from math import inf
from typing import NamedTuple

import registry
from hypothesis import strategies as st

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

from .builders import TABLES, junk

SCHEMES = ("runs", "bio", "bioes", "segments")

# --- sequences of tokens --------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["w", "é", "a:b", "", "x"])
NAMES = st.sampled_from(["a", "b", "名", "a:b", "", "x", "w:a"])
NUMBERS = st.sampled_from([0, 1, -1, 2, 0.5, True, False, 1e-3, -0.25])
ROW_NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, 0.0, 1e-3])


PLAIN = st.one_of(NAMES, NAMES, NUMBERS, st.lists(NAMES, max_size=3))
DICTS = st.dictionaries(KEYS, st.one_of(PLAIN, st.dictionaries(KEYS, PLAIN, max_size=2)), max_size=3)


def tokens_of(form, width):
    """Return a strategy for one token in a form."""
    if form == "dicts":
        return DICTS
    if form == "attributes":
        return st.lists(NAMES, max_size=4)
    return st.lists(ROW_NUMBERS, min_size=width, max_size=width)


@st.composite
def lengths_of(draw, form):
    """Draw the lengths of sequences: of one token for a table."""
    if form in TABLES:
        return [1] * draw(st.integers(2, 6))
    return draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))


def sequences_of(token, lengths):
    return st.tuples(*(st.lists(token, min_size=n, max_size=n) for n in lengths)).map(list)


LABEL = st.integers(0, 2)
MOSTLY = st.sampled_from([True] * 9 + [False])


@st.composite
def label_sequences(draw, lengths):
    """Draw a label number for each token; mostly there are two labels at least."""
    sequences = draw(sequences_of(LABEL, lengths))
    if len({y for labels in sequences for y in labels}) == 1 and draw(MOSTLY):
        longest = max(sequences, key=len)
        longest[-1] = (longest[-1] + 1) % 3
    return sequences


# --- models of drawn kinds ------------------------------------------------------------------------------------------


class ModelCase(NamedTuple):
    """A kind of model as in ``registry``, with data of its own, and new sequences."""

    segments: bool
    parameters: dict
    reader: str
    words: list
    labelled: list  # sequences of (start, stop, label)
    partial: bool
    scale: float  # of random weights; 0: those of training
    new: list

    def kind(self):
        make, rules = (registry.semi if self.segments else registry.crf), self.parameters.get("constraints")
        legal = {"bio": registry.follow_tags, None: None}.get(rules, registry.follow_rules)
        estimator = make(**self.parameters | ({"constraints": registry.RULES} if rules == "rules" else {}))
        return registry.Kind(
            *(estimator, self.reader, self.partial, legal, self.scale, (), self.words, self.labelled),
        )


@st.composite
def segments_of(draw, n_tokens):
    """Draw (start, stop, label) of segments as ``registry`` has them: no neighbours alike, those of O of one token."""
    segments, start = [], 0
    while start < n_tokens:
        label = draw(st.sampled_from([label for label in "OPQ" if not segments or label != segments[-1][2]]))
        stop = min(n_tokens, start + {"O": 1, "P": draw(st.integers(1, 3)), "Q": 2}[label])
        segments.append((start, stop, label))
        start = stop
    return segments


PENALTIES = {  # of orders and names; the L1 penalty of what goes with one label alone may be 0
    "sigma_reg": [1.0, 1.0, 0.5, {("features", 0): 0.5, ("patterns", 1): 2.0, None: 1.0}, registry.GROUPS],
    "l1_reg": [0.0, 0.0, 0.1, {("features", 0): 0.0, ("patterns", 0): 0.0, None: 0.5}, registry.BY_L1],
}
LENGTHS = [None, None, inf, 4, {"P": inf, "Q": (1, 5)}, {"Q": (2, 3)}, {"P": 3, "Q": inf}]


@st.composite
def model_cases(draw):
    segments, partial = draw(st.booleans()), draw(st.sampled_from([False, False, True]))
    lengths = draw(st.lists(st.integers(1, 6), max_size=4))
    labelled = [*registry.SEGMENTS[:2], *(draw(segments_of(n)) for n in lengths)]  # all labels, of more than one token
    choose: dict = {
        "max_order": st.integers(0, 3),
        "min_count": st.sampled_from([1, 1, 2, 1.5]),
        "fit_intercept": st.booleans(),
        "all_pairs": st.booleans(),
        "patterns": st.sampled_from(["observed", "observed", "observed", "all"]),
        "n_jobs": st.sampled_from([None, 2]),
    }
    if segments:
        choose |= {"scheme": st.sampled_from(registry.SCHEMES), "segment_length": st.sampled_from(LENGTHS)}
        choose["max_order"] = st.integers(0, 2)
    else:
        choose |= {"history": st.sampled_from(["tokens", "segments"]), "constraints": st.sampled_from([None, "bio"])}
        choose["label_parts"] = st.sampled_from([None, None, registry.parts_of])
        choose["pruning"] = st.sampled_from([None, None, None, 2, 3] if not partial else [None])
    reader = draw(st.sampled_from(["attributes", "attributes", "numbers", "table"] + ["segments"] * segments))
    has_names = reader == "attributes"
    choose |= {name: st.sampled_from(values[: None if has_names else -1]) for name, values in PENALTIES.items()}
    by_name = {"attributes": [registry.PAIRS, {"w=": (0, 1)}], "segments": [{"begin:": 1, "length": (0, 1)}]}
    choose["feature_order"] = st.sampled_from([0, 1, 2, *by_name.get(reader, [])])
    parameters = draw(st.fixed_dictionaries(choose))
    if parameters.get("history") == "segments":
        parameters |= {"constraints": None}
    if parameters.get("pruning"):
        parameters |= {"feature_order": 0, "history": "tokens"}
    words = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)
    return ModelCase(
        segments,
        parameters,
        reader,
        [*registry.WORDS[:2], *draw(sequences_of(st.sampled_from("abcd"), lengths))],
        labelled,
        partial,
        draw(st.sampled_from([0.0, 1.5, 200.0])),
        draw(st.lists(words, min_size=1, max_size=2)),
    )


# --- what does not belong -------------------------------------------------------------------------------------------


class SpoiltCase(NamedTuple):
    """Good data with one thing that does not belong, given to a fitted and to a new estimator."""

    segments: bool
    form: str
    width: int
    tokens: list
    labels: list
    where: str  # what is replaced: a key of checks.SPOILT
    junk: str  # by what: a key of junk()
    n: int  # sequence, modulo their number
    t: int  # position, modulo its length
    scheme: str
    parameter: str


SPOILT = ("X", "sequence", "token", "value", "y", "labels", "label", "segment", "weight", "weights", "parameter")
PARAMETERS = sorted({*HighOrderCRF().get_params(), *HighOrderSemiCRF().get_params()})


@st.composite
def spoilt_cases(draw):
    where = draw(st.sampled_from(SPOILT))
    forms = ["dicts", "attributes", "lists of lists", "arrays"]
    forms += {"sequence": [], "value": [], "token": ["table of lists"]}.get(where, ["csr", "table of lists"])
    form = draw(st.sampled_from(forms))
    width = draw(st.integers(1, 2))
    lengths = draw(lengths_of(form))
    return SpoiltCase(
        draw(st.booleans()),
        form,
        width,
        draw(sequences_of(tokens_of(form, width), lengths)),
        draw(label_sequences(lengths)),
        where,
        draw(st.sampled_from([*junk()])),
        draw(st.integers(0, 3)),
        draw(st.integers(0, 3)),
        draw(st.sampled_from(SCHEMES)),
        draw(st.sampled_from(PARAMETERS)),
    )


STRATEGIES = {
    "model": model_cases(),
    "spoilt": spoilt_cases(),
}
