"""Hypothesis strategies for cases. A case is plain data: ``repr`` makes it again."""

from typing import Any, NamedTuple

from cases import of_history
from hypothesis import strategies as st

from sklearn_hocrf.training import SGD

from .builders import ATTRIBUTE_FORMS, GRIDS, JUNK, LABELS, ROW_FORMS, TABLES, Y_FORMS

SCHEMES = ("runs", "bio", "bioes", "segments")

# --- sequences of tokens --------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["w", "é", "a:b", "", "x"])
NAMES = st.sampled_from(["a", "b", "名", "a:b", "", "x", "w:a"])
NUMBERS = st.sampled_from([0, 1, -1, 2, 0.5, True, False, 1e-3, -0.25])
UNKNOWN = st.sampled_from(["a", "b", "名", "a:b", "", "new", "w:new", "ü" * 50])
ROW_NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, 0.0, 1e-3])


def dicts(names, keys=KEYS):
    plain = st.one_of(names, names, NUMBERS, st.lists(names, max_size=3))
    return st.dictionaries(keys, st.one_of(plain, st.dictionaries(keys, plain, max_size=2)), max_size=3)


def tokens_of(form, width, known=True):
    """Return a strategy for one token in a form."""
    names = NAMES if known else UNKNOWN
    if form in ("dicts", "dicts in tuples"):
        return dicts(names)
    if form in ATTRIBUTE_FORMS:
        return st.lists(names, max_size=4)
    return st.lists(ROW_NUMBERS, min_size=width, max_size=width)


@st.composite
def lengths_of(draw, form, longest=4, least=1, n_least=1):
    """Draw the lengths of sequences: of one token for a table, equal for a grid."""
    if form in TABLES:
        return [1] * draw(st.integers(max(n_least, 1), 6))
    if form in GRIDS:
        return [draw(st.integers(1, longest))] * draw(st.integers(max(n_least, 1), 3))
    return draw(st.lists(st.integers(least, longest), min_size=n_least, max_size=4))


def sequences_of(token, lengths):
    return st.tuples(*(st.lists(token, min_size=n, max_size=n) for n in lengths)).map(list)


WEIGHTS = st.sampled_from([0, 0.5, 1, 2, 1.0])


def weights_of(n):
    return st.none() | st.lists(WEIGHTS, min_size=n, max_size=n)


# --- parameters of estimators ---------------------------------------------------------------------------------------

LABEL = st.integers(0, 2)
MOSTLY = st.sampled_from([True] * 9 + [False])


def patterns_of(label):
    some = st.lists(st.lists(label, min_size=1, max_size=3).map(tuple), max_size=4, unique=True)
    return st.one_of(st.just("observed"), st.just("observed"), st.just("all"), some)


@st.composite
def label_sequences(draw, lengths):
    """Draw a label number for each token; mostly there are two labels at least."""
    sequences = draw(sequences_of(LABEL, lengths))
    if len({y for labels in sequences for y in labels}) == 1 and draw(MOSTLY):
        longest = max(sequences, key=len)
        longest[-1] = (longest[-1] + 1) % 3
    return sequences


SIGMAS = 1.0, 0.5, {("features", 0): 1, None: 0.5}, {("features", 0): 0.5, ("patterns", 1): 2.0, None: 1.0}
LONG = {("features", 0): 0.0, ("patterns", 0): 0.0, None: 0.5}  # an L1 penalty of what goes with two or more labels


@st.composite
def parameters(draw, by_name, used, sigmas=SIGMAS):
    """Draw parameters of an estimator that is trained to the optimum of a likelihood.

    Labels in them are numbers, mostly ``used`` ones.
    """
    label = st.sampled_from(sorted(used)) if draw(MOSTLY) else LABEL
    prefixes = st.sampled_from(["w", "", "x", "é", "no such"])
    orders = st.one_of(st.integers(0, 2), st.lists(st.integers(0, 2), min_size=1, max_size=2).map(tuple))
    feature_order = st.integers(0, 2)
    if by_name:
        feature_order |= st.dictionaries(prefixes, orders, max_size=2)
    patterns = draw(patterns_of(label))
    order = draw(st.integers(0, 3)) if patterns == "observed" else 2
    solver = draw(st.sampled_from(["auto", "lbfgs"]))
    l1 = draw(st.sampled_from([0.0, 0.0, 0.1, LONG]))
    return {
        "max_order": order,
        "patterns": patterns,
        "sigma_reg": draw(st.sampled_from(sigmas)),
        "l1_reg": l1,
        "feature_order": draw(feature_order),
        "min_count": draw(st.sampled_from([1, 1, 0, 2, 1.5])),
        "fit_intercept": draw(st.booleans()),
        "all_pairs": draw(st.booleans()),
        "solver": solver,
        "n_jobs": draw(st.sampled_from([None, 2])),
    }


# --- chains ---------------------------------------------------------------------------------------------------------


class ChainCase(NamedTuple):
    """Training and test data of a HighOrderCRF."""

    form: str  # of X
    width: int  # columns of rows
    tokens: list
    labels: list  # sequences of label numbers
    kind: str  # of the labels: a key of LABELS
    y_form: str
    weight: list | None
    parameters: dict
    test: list  # sequences of tokens, some empty, some with attributes that are not in training
    test_labels: list


@st.composite
def chain_cases(draw):
    form = draw(st.sampled_from([*ATTRIBUTE_FORMS] * 4 + [*ROW_FORMS]))
    width = draw(st.integers(1, 3))
    lengths = draw(lengths_of(form))
    test_lengths = [lengths[0]] if form in GRIDS else draw(lengths_of(form, least=0))
    kind = draw(st.sampled_from([kind for kind, labels in LABELS.items() if len(labels) == 3]))
    labels = draw(label_sequences(lengths))
    return ChainCase(
        form,
        width,
        draw(sequences_of(tokens_of(form, width), lengths)),
        labels,
        kind,
        draw(st.sampled_from(Y_FORMS)),
        draw(weights_of(len(lengths))),
        draw(with_history(parameters(form in ATTRIBUTE_FORMS, {y for s in labels for y in s}))),
        draw(sequences_of(tokens_of(form, width, known=False), test_lengths)),
        draw(sequences_of(LABEL, test_lengths)),
    )


@st.composite
def with_history(draw, parameters):
    """Draw parameters of a chain of tokens, or of their segments, and patterns that can occur."""
    p, history = draw(parameters), draw(st.sampled_from(["tokens", "segments"]))
    given = p["patterns"] if isinstance(p["patterns"], str) else of_history(p["patterns"], history)
    return p | {"history": history, "patterns": given}


# --- segments -------------------------------------------------------------------------------------------------------


class SegmentCase(NamedTuple):
    """Training and test data of a HighOrderSemiCRF."""

    form: str
    width: int
    tokens: list
    parts: list  # sequences of (length, label number), which tile the sequences
    scheme: str
    kind: str
    y_form: str
    weight: list | None
    segment_length: Any
    parameters: dict
    test: list
    test_parts: list


@st.composite
def parts_of(draw, n_tokens, single=None, n_labels=3):
    """Draw (length, label number) segments that tile a sequence; those of the label ``single`` have one token."""
    parts, left = [], n_tokens
    while left:
        label = draw(st.integers(0, n_labels - 1))
        length = 1 if label == single else draw(st.integers(1, min(left, 3)))
        parts.append((length, label))
        left -= length
    return parts


def kinds_of(scheme):
    if scheme in ("bio", "bioes"):
        return ["tags", "bare"]
    return [kind for kind, labels in LABELS.items() if len(labels) == 3]


def limits():
    number = st.sampled_from([None, None, 1, 2, 3, 4, 10**9, float("inf")])
    return number | st.dictionaries(LABEL, st.sampled_from([1, 2, 3, float("inf")]), max_size=2)


def outside_of(kind):
    return LABELS[kind].index("O") if "O" in LABELS[kind] else None


@st.composite
def segment_cases(draw):
    form = draw(st.sampled_from([*ATTRIBUTE_FORMS] * 4 + [*ROW_FORMS]))
    width = draw(st.integers(1, 2))
    lengths = draw(lengths_of(form))
    test_lengths = [lengths[0]] if form in GRIDS else draw(lengths_of(form, least=0))
    scheme = draw(st.sampled_from(SCHEMES))
    kind = draw(st.sampled_from(kinds_of(scheme)))
    single = outside_of(kind)
    parts = [draw(parts_of(n, single, len(LABELS[kind]))) for n in lengths]
    return SegmentCase(
        form,
        width,
        draw(sequences_of(tokens_of(form, width), lengths)),
        parts,
        scheme,
        kind,
        draw(st.sampled_from(Y_FORMS)),
        draw(weights_of(len(lengths))),
        draw(limits()),
        draw(parameters(form in ATTRIBUTE_FORMS, {y for s in parts for _, y in s})),
        draw(sequences_of(tokens_of(form, width, known=False), test_lengths)),
        [draw(parts_of(n, single, len(LABELS[kind]))) for n in test_lengths],
    )


# --- features of segments -------------------------------------------------------------------------------------------


class PipelineCase(NamedTuple):
    """Words through extractors into a HighOrderSemiCRF."""

    words: list
    parts: list
    scheme: str
    kind: str
    bias: bool
    extractors: list  # one dict of parameters for each SegmentFeatureExtractor
    log_odds: list  # one dict of parameters for each SegmentLogOddsEncoder
    parameters: dict
    test: list


NGRAMS = ["B", "I", "BI", "II", "BII", "III", "B|", "I|"]
WORDS = st.sampled_from(["a", "b", "ab", "é"])
CHOICES = st.one_of(st.just(()), st.just(True), st.sampled_from(["w[0]=a", "w", "bias", "w[-1]"]))


@st.composite
def segment_extractors(draw, first):
    tags = st.sampled_from([None, "unigrams", "bigrams"]) | st.dictionaries(
        st.sampled_from(NGRAMS), CHOICES, max_size=3
    )
    kinds = st.sampled_from([None, "indicator", "capped", "gamma", ("gamma", "capped"), ("indicator", "gamma")])
    length = draw(kinds)
    return {
        "bag": draw(st.sampled_from([None, (), "w[0]", ("bias", "w[-1]")])) if first else None,
        "begin": draw(CHOICES),
        "end": draw(CHOICES),
        "inside": draw(CHOICES),
        "tags": draw(tags),
        "length": length,
        "max_length": None if length is None else draw(st.sampled_from([None, 1, 2, 5])),
        "identity": draw(st.booleans()),
        "functions": draw(st.sampled_from([0, 0, 1])),  # number of functions
        "min_count": draw(st.sampled_from([1, 1, 2])),
    }


LOG_ODDS = st.fixed_dictionaries(
    {
        "smoothing": st.sampled_from([1.0, 0.1]),
    }
)


@st.composite
def pipeline_cases(draw):
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    test_lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=2))
    scheme = draw(st.sampled_from(SCHEMES))
    kind = draw(st.sampled_from(["tags", "bare"] if scheme in ("bio", "bioes") else ["str", "unicode"]))
    n_extractors = draw(st.sampled_from([1, 1, 2]))
    parts = [draw(parts_of(n, outside_of(kind), len(LABELS[kind]))) for n in lengths]
    settings = draw(parameters(False, {y for s in parts for _, y in s}, sigmas=(*SIGMAS[:3], SIGMAS[-1])))
    settings |= {"feature_order": draw(st.sampled_from([0, 0, 1, {"begin:": (0, 1)}, {"length": 1}]))}
    if draw(st.booleans()):
        settings |= {"l1_reg": 0.0}
    return PipelineCase(
        draw(sequences_of(WORDS, lengths)),
        parts,
        scheme,
        kind,
        draw(st.booleans()),
        [draw(segment_extractors(i == 0)) for i in range(n_extractors)],
        draw(st.lists(LOG_ODDS, max_size=1)),
        settings,
        draw(sequences_of(WORDS | st.just("new"), test_lengths)),
    )


# --- token features -------------------------------------------------------------------------------------------------


class ExtractorCase(NamedTuple):
    """Raw tokens through SequenceFeatureExtractor."""

    form: str  # "text", "number", "tuples", "arrays" (of text) or "dicts"
    train: list  # sequences of {field: value}
    test: list
    templates: list
    padding: str
    bias: bool
    min_count: int
    n_features: int | None


CELLS = st.sampled_from(["a", "b", "a|b", "b=a", "", "é", "__BOS__", "a\\"])
RAW_FORMS = {"text": ["w"], "number": ["x"], "tuples": [0, 1, 2], "arrays": [0, 1], "dicts": ["w", "p", "n"]}


@st.composite
def extractor_cases(draw):
    form = draw(st.sampled_from(list(RAW_FORMS)))
    fields = RAW_FORMS[form]
    numbers = st.sampled_from([0, 1, -2, 0.5, True])
    may_miss = form in ("tuples", "dicts")
    cells = {field: CELLS | st.none() if may_miss else CELLS for field in fields}
    if form == "number":
        cells = {"x": numbers}
    elif form in ("tuples", "dicts"):
        cells[fields[2]] = numbers | st.none()
    token = st.fixed_dictionaries(cells)
    pairs = st.tuples(st.sampled_from(fields), st.integers(-2, 2))
    hashed = draw(st.sampled_from([None, None, None, 2**20]))
    return ExtractorCase(
        form,
        draw(st.lists(st.lists(token, max_size=4), min_size=1, max_size=4).filter(any)),
        draw(st.lists(st.lists(token, max_size=4), max_size=3)),
        draw(st.lists(st.lists(pairs, min_size=1, max_size=3, unique=True).map(tuple), max_size=4, unique=True)),
        draw(st.sampled_from(["mark", "drop"])),
        draw(st.booleans()),
        1 if hashed else draw(st.sampled_from([1, 1, 2])),
        hashed,
    )


# --- ways to train --------------------------------------------------------------------------------------------------


class TrainingCase(NamedTuple):
    """An estimator with any objective, solver and penalty."""

    segments: bool
    width: int
    tokens: list  # rows of numbers
    labels: list
    weight: list | None
    scale: float  # of the rows
    parameters: dict
    keep: str  # "pickle", "joblib", "deepcopy": what the fitted estimator goes through


SOLVERS = ["auto", "lbfgs", "sgd", SGD(random_state=0)]


@st.composite
def training_cases(draw):
    width = draw(st.integers(1, 2))
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    objective = draw(st.sampled_from([*["likelihood"] * 3, "local_feature_matching"]))
    fits = draw(st.sampled_from([True, True, True, True, False]))
    return TrainingCase(
        draw(st.booleans()),
        width,
        draw(sequences_of(tokens_of("arrays", width), lengths)),
        draw(label_sequences(lengths)),
        draw(weights_of(len(lengths))),
        draw(st.sampled_from([1.0, 1.0, 1.0, 30.0, 1e4, 1e-6, 1e150])),
        {
            "objective": objective,
            "solver": draw(st.sampled_from(SOLVERS[:2] if fits and objective != "likelihood" else SOLVERS)),
            "sigma_reg": draw(st.sampled_from([1.0, 1.0, 10.0, 1e-3, 1e6, float("inf")])),
            "l1_reg": draw(st.sampled_from([0.0, 0.0, 0.0, 0.3])),
            "max_order": draw(st.integers(0, 2)),
            "max_iter": draw(st.sampled_from([100, 100, 3, 1, 0])),
            "tol": draw(st.sampled_from([1e-4, 1e-4, 1e-8, 0.0])),
            "warm_start": draw(st.booleans()),
            "n_jobs": draw(st.sampled_from([None, 2])),
            "random_state": draw(st.integers(0, 3)),
        },
        draw(st.sampled_from(["pickle", "joblib", "deepcopy"])),
    )


class StreamCase(NamedTuple):
    """Calls of ``partial_fit``, one of them perhaps with bad data."""

    segments: bool
    l1_reg: float
    batches: list  # of (sequences of feature dicts, sequences of label numbers)
    weights: list  # of each batch
    bad: int | None  # before this call there is one with a broken X
    name_classes: bool


@st.composite
def stream_cases(draw):
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
        names = draw(st.sampled_from([NAMES, UNKNOWN]))
        batches.append((draw(sequences_of(dicts(names), lengths)), draw(label_sequences(lengths))))
    return StreamCase(
        draw(st.booleans()),
        draw(st.sampled_from([0.0, 0.2])),
        batches,
        [draw(weights_of(len(X))) for X, _ in batches],
        draw(st.none() | st.integers(0, len(batches) - 1)),
        draw(st.booleans()),
    )


# --- one model by several ways --------------------------------------------------------------------------------------


class RouteCase(NamedTuple):
    """Feature dicts that reach an estimator in two forms, which must give one model."""

    segments: bool
    tokens: list
    labels: list
    route: str  # a key of checks.ROUTES
    max_order: int
    test: list
    order: list  # in which the test sequences are asked for one by one


ROUTES = ("vectorizer", "arrays", "csr", "frames", "batch", "shuffled", "summed", "jobs")


@st.composite
def route_cases(draw):
    lengths, test_lengths = draw(lengths_of("dicts")), draw(lengths_of("dicts", least=0))
    return RouteCase(
        draw(st.booleans()),
        draw(sequences_of(dicts(NAMES), lengths)),
        draw(label_sequences(lengths)),
        draw(st.sampled_from(ROUTES)),
        draw(st.integers(0, 2)),
        draw(sequences_of(dicts(UNKNOWN), test_lengths)),
        draw(st.permutations(range(len(test_lengths)))),
    )


class ColumnCase(NamedTuple):
    """An estimator fitted on some columns is asked about others."""

    segments: bool
    form: str  # "frames", "table frame", "arrays", "csr", "table", "grid" or "batch"
    fitted: list  # names of columns
    asked: list
    lengths: list
    seed: int


@st.composite
def column_cases(draw):
    form = draw(st.sampled_from(["frames", "table frame", "arrays", "csr", "table", "grid", "batch"]))
    names = st.sampled_from(["a", "b", "é", "b ", "c"])
    fitted = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    other = st.one_of(st.permutations(fitted), st.lists(names, min_size=1, max_size=3, unique=True), st.just(fitted))
    return ColumnCase(
        draw(st.booleans()),
        form,
        fitted,
        list(draw(other)),
        draw(lengths_of(form, n_least=2)),
        draw(st.integers(0, 99)),
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
    junk: str  # by what: a key of JUNK
    n: int  # sequence, modulo their number
    t: int  # position, modulo its length
    scheme: str
    parameter: str


SPOILT = ("X", "sequence", "token", "value", "y", "labels", "label", "segment", "weight", "weights", "parameter")
PARAMETERS = (
    *("max_order", "sigma_reg", "l1_reg", "patterns", "feature_order", "min_count"),
    *("fit_intercept", "all_pairs", "objective", "solver", "max_iter", "tol"),
    *("warm_start", "n_jobs", "verbose", "random_state", "scheme", "segment_length"),
    *("constraints", "label_parts", "history"),
)


@st.composite
def spoilt_cases(draw):
    where = draw(st.sampled_from(SPOILT))
    forms = ["dicts", "attributes", "lists of lists", "arrays"]
    forms += {"sequence": [], "value": [], "token": ["table of lists"]}.get(where, ["csr", "table of lists"])
    form = draw(st.sampled_from(forms))
    width = draw(st.integers(1, 2))
    lengths = draw(lengths_of(form, longest=3, n_least=2))
    return SpoiltCase(
        draw(st.booleans()),
        form,
        width,
        draw(sequences_of(tokens_of(form, width), lengths)),
        draw(label_sequences(lengths)),
        where,
        draw(st.sampled_from(JUNK)),
        draw(st.integers(0, 3)),
        draw(st.integers(0, 3)),
        draw(st.sampled_from(SCHEMES)),
        draw(st.sampled_from(PARAMETERS)),
    )


# --- files ----------------------------------------------------------------------------------------------------------


class FileCase(NamedTuple):
    """A file of columns, perhaps damaged."""

    content: list  # what it holds: sequences of tokens of columns
    line_end: str
    final: bool  # whether the last line has an end
    zipped: bool
    edits: list  # of (kind, place, bytes): damage, in this order
    options: dict


CELL = st.text(st.sampled_from("abé名#-.,\u00a0\u3000'\"\\"), min_size=1, max_size=3)
EDITS = st.tuples(
    st.sampled_from(["cut", "insert", "replace", "repeat", "delete"]),
    st.integers(0, 10**6),
    st.sampled_from(
        [b"\xff", b"\x00", b" ", b"\t", b"\n", b"\r", b"\n\n", b"x", b"\xef\xbb\xbf", b"9" * 30, b"\x1f\x8b"]
    ),
)


@st.composite
def file_cases(draw):
    n_columns = draw(st.integers(2, 4))
    columns = st.lists(CELL, min_size=n_columns, max_size=n_columns)
    options = st.fixed_dictionaries(
        {"separator": st.sampled_from([None, "\t", " "]), "encoding": st.sampled_from(["utf-8", "utf-16", "cp1252"])}
    )
    return FileCase(
        draw(st.lists(st.lists(columns, min_size=1, max_size=4), min_size=1, max_size=3)),
        draw(st.sampled_from(["\n", "\n", "\r\n"])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.lists(EDITS, max_size=2)),
        draw(options),
    )


# --- scores ---------------------------------------------------------------------------------------------------------


class ScoreCase(NamedTuple):
    """Two segmentations of the same sequences."""

    true: list  # sequences of (length, label number)
    predicted: list
    scheme: str
    kind: str
    y_form: str


@st.composite
def score_cases(draw):
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    scheme = draw(st.sampled_from(SCHEMES))
    kind = draw(st.sampled_from(kinds_of(scheme)))
    form = draw(st.sampled_from(Y_FORMS[:4]))
    sides = ([draw(parts_of(n, outside_of(kind), len(LABELS[kind]))) for n in lengths] for _ in range(2))
    return ScoreCase(*sides, scheme, kind, form)


# --- what is built on fitted models ---------------------------------------------------------------------------------


class SetCase(NamedTuple):
    """Conformal sets."""

    tokens: list  # sequences of lists of names
    labels: list
    max_order: int
    options: dict  # of ConformalSequenceLabeler
    test: list


@st.composite
def set_cases(draw):
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    options = {
        "level": draw(st.sampled_from(["token", "segment"])),
        "alpha": draw(st.sampled_from([0.12, 0.2, 0.34, 0.5, 0.9])),
    }
    return SetCase(
        draw(sequences_of(st.lists(st.sampled_from("abc"), max_size=2), lengths)),
        draw(sequences_of(LABEL, lengths)),
        draw(st.integers(0, 2)),
        options,
        draw(st.lists(st.lists(st.lists(st.sampled_from("abn"), max_size=2), max_size=3), min_size=1, max_size=4)),
    )


class PhraseCase(NamedTuple):
    """Tokens, and lists of phrases that mark them."""

    form: str  # "texts", "tuples", "dicts", "columns" or "batch"
    sequences: list  # of texts, which may be None
    lists: dict  # of lists of words
    joined: bool  # phrases as texts, words separated by spaces
    normalize: str | None  # "casefold", None, or the name of a method of str


PHRASE_WORDS = st.sampled_from(["a", "A", "b", "ß", "SS", "é", "a b", "", " ", "\ud800", "\0"])


@st.composite
def phrase_cases(draw):
    form = draw(st.sampled_from(["texts", "tuples", "dicts", "columns", "batch"]))
    words = PHRASE_WORDS if form in ("texts", "columns") else PHRASE_WORDS | st.none()
    phrases = st.lists(PHRASE_WORDS, min_size=draw(st.sampled_from([1, 1, 1, 0])), max_size=3)
    return PhraseCase(
        form,
        draw(st.lists(st.lists(words, min_size=1, max_size=6), min_size=draw(st.integers(0, 1)), max_size=3)),
        draw(st.dictionaries(st.sampled_from("xxyyw"), st.lists(phrases, max_size=5), min_size=1, max_size=3)),
        draw(st.booleans()),
        draw(st.sampled_from(["casefold", None, "upper"])),
    )


class ScoresInCase(NamedTuple):
    """Label scores that another program computes."""

    n_labels: int
    lengths: list
    scores: list  # rows of numbers
    labels: list
    patterns: dict
    weights: list | None


SCORES = st.sampled_from([0.0, 1.0, -2.5, 700.0, -700.0, float("-inf"), 0.0, 1.0])


@st.composite
def scores_in_cases(draw):
    lengths = draw(st.lists(st.integers(0, 4), max_size=3))
    n_labels, n_tokens = draw(st.integers(1, 3)), sum(lengths)
    label = st.integers(0, n_labels - 1)
    patterns = st.lists(label, min_size=1, max_size=4).map(tuple)
    return ScoresInCase(
        n_labels,
        lengths,
        draw(st.lists(st.lists(SCORES, min_size=n_labels, max_size=n_labels), min_size=n_tokens, max_size=n_tokens)),
        draw(st.lists(label, min_size=n_tokens, max_size=n_tokens)),
        draw(st.dictionaries(patterns, SCORES, max_size=4)),
        draw(
            st.none() | st.lists(st.sampled_from([0.0, 1.0, -2.0, 0.5]), min_size=len(lengths), max_size=len(lengths))
        ),
    )


STRATEGIES = {
    "chain": chain_cases(),
    "segments": segment_cases(),
    "pipeline": pipeline_cases(),
    "extractor": extractor_cases(),
    "training": training_cases(),
    "stream": stream_cases(),
    "routes": route_cases(),
    "columns": column_cases(),
    "spoilt": spoilt_cases(),
    "file": file_cases(),
    "scores": score_cases(),
    "sets": set_cases(),
    "phrases": phrase_cases(),
    "scores in": scores_in_cases(),
}
CASES = {
    case.__name__: case
    for case in (
        *(ChainCase, SegmentCase, PipelineCase, ExtractorCase),
        *(TrainingCase, StreamCase, RouteCase, ColumnCase, SpoiltCase, FileCase, ScoreCase),
        *(SetCase, PhraseCase, ScoresInCase),
    )
}
