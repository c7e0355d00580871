"""Features of segments against plain loops over tokens and segments."""

import pickle
import warnings
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import pytest
from feature_definitions import length_value, positions, runs
from feature_definitions import tags_of_segment as tags_of
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    PRESETS,
    SequenceBatch,
    fingerprints,
    names_of_blocks,
    segment_features,
    tag_channel,
    text_column,
    token_numbers,
)
from refusals import refusals
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_log_odds import candidates, values_of

from sklearn_hocrf import HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

# ---- what is expected, as plainly as possible


def token_values(sequence, places, scheme, start, stop):
    """Return {name: sum of values} of one segment; ``places`` gives the beginnings of names that count at a place."""
    values = Counter()
    for place, beginnings in places.items():
        for t in positions(place, scheme, start, stop, len(sequence)):
            for name, value in sequence[t].items():
                if beginnings is True or name.startswith(tuple(beginnings)):
                    values[f"{place}:{name}" if place else name] += value
    return {name: value for name, value in values.items() if value}


def attributes(batch):
    """Return one {name: value} per token of each sequence, whatever blocks there are."""
    names = np.asarray(batch.attribute_names)
    rows = batch.toarray()
    tokens = [{name: row[i] for i, name in enumerate(names) if row[i]} for row in rows]
    return [tokens[a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]


def compare(batch, expected_of):
    """Compare all segments of a batch with ``expected_of(n, start, stop)``."""
    segments = candidates(batch)
    for segment, values in zip(segments, values_of(batch, segments), strict=True):
        assert values == pytest.approx(expected_of(*segment)), segment


# ---- data

X = [
    [("In", 1.0), ("the", 0.0), ("end", 2.5), ("the", 1.0)],
    [("end", -1.0)],
    [],
    [("the", 1.0), ("the", 2.0), ("In", 0.5)],
]
Y = [["P", "N", "N", "D"], ["N"], [], ["D", "D", "P"]]
WORDS = [[word for word, _ in sequence] for sequence in X]
EXTRACTOR = SequenceFeatureExtractor([(0, 0), (1, 0), (0, 1)], bias=True)
TOKENS = EXTRACTOR.fit_transform(X)
NGRAMS = ["B", "I", "BI", "II", "BII", "BIII", "III", "B|", "I|"]
PREFIXES = ["0[0]=the", "0[0]", "1[0]", "bias", "0"]
CHOICES = st.one_of(st.just(True), st.lists(st.sampled_from(PREFIXES), max_size=2).map(tuple))


# ---- token features


@given(CHOICES, CHOICES, CHOICES, CHOICES, st.data())
def test_token_features_count_where_they_should(bag, begin, end, inside, data):
    tags = data.draw(st.dictionaries(st.sampled_from(NGRAMS), CHOICES, max_size=4))
    extractor = SegmentFeatureExtractor(bag, begin=begin, end=end, inside=inside, tags=tags)
    batch = extractor.fit_transform(TOKENS)
    places = {"": bag, "begin": begin, "end": end, "inside": inside, **tags}
    tokens = attributes(TOKENS)
    compare(batch, lambda n, u, v: token_values(tokens[n], places, "bio", u, v))
    wanted = [
        f"{place}:{name}" if place else name
        for place, beginnings in places.items()
        for name in np.asarray(TOKENS.attribute_names)
        if beginnings is True or name.startswith(tuple(beginnings))
    ]
    assert extractor.get_feature_names_out().tolist() == wanted
    assert extractor.n_features_out_ == batch.n_features == len(wanted)


def test_every_bigram_of_tags_of_a_segmentation_is_counted_once():
    """Over any segmentation, the preset counts each tag at its token and each pair of tags at its second token."""
    X = [["a", "b", "c", "d", "e", "f", "g"]]
    segments = [(0, 1), (1, 2), (2, 5), (5, 7)]
    tokens = SequenceFeatureExtractor([("w", 0)], token_features=None).fit_transform(X)
    batch = SegmentFeatureExtractor((), tags="bigrams").fit_transform(tokens)
    counts = Counter()
    for values in values_of(batch, [(0, u, v) for u, v in segments]):
        counts.update({name.replace("w[0]=", ""): value for name, value in values.items()})
    sequence = [tag for u, v in segments for tag in tags_of(v - u, "bio")]
    expected = Counter(f"{tag}:{word}" for tag, word in zip(sequence, X[0], strict=True))
    borders = {u for u, _ in segments}
    for t in range(1, len(sequence)):
        pair = f"{sequence[t - 1]}|" if t in borders else sequence[t - 1] + sequence[t]
        expected[f"{pair}:{X[0][t]}"] += 1
    assert counts == expected


def test_exactly_the_possible_tag_ngrams_have_channels():
    from itertools import product

    for n in range(1, 6):
        possible = {
            "".join(tags[i : i + n])
            for tags in (tags_of(length, "bio") for length in range(1, 9))
            for i in range(len(tags) - n + 1)
        }
        assert {"".join(c) for c in product("BI", repeat=n) if tag_channel("".join(c))} == possible
    assert [tag for tag in "BIES" if tag_channel(f"{tag}|")] == list(PRESETS["unigrams"]) == ["B", "I"]


def test_a_beginning_that_no_name_has_is_told():
    with pytest.warns(UserWarning, match=r"begin: no token feature has a name that begins with 'v\[0\]'") as record:
        SegmentFeatureExtractor(begin=("0", "v[0]")).fit(TOKENS)
    assert record[0].filename == __file__
    tokens = SequenceFeatureExtractor().fit_transform(WORDS)
    with pytest.warns(UserWarning, match=r"'bias'; SequenceFeatureExtractor\(bias=True\)"):
        SegmentFeatureExtractor(inside="bias").fit(tokens)


# ---- lengths


def length_values(kinds, longest, length):
    names = {"gamma": ["length", "log_length"], "indicator": [f"length={d}" for d in range(1, longest + 1)]}
    names["capped"] = [*names["indicator"][:-1], f"length={longest}+"]
    values = {name: length_value(name, length) for kind in kinds for name in names[kind]}
    return {name: value for name, value in values.items() if value}


@pytest.mark.parametrize("kinds", ["indicator", "capped", "gamma", ("indicator", "gamma"), ["gamma", "capped"]])
@pytest.mark.parametrize("max_length", [None, 1, 3])
def test_lengths(kinds, max_length):
    extractor = SegmentFeatureExtractor((), length=kinds, max_length=max_length)
    batch = extractor.fit_transform(TOKENS, Y)
    kinds = [kinds] if isinstance(kinds, str) else kinds
    longest = max_length or 2
    compare(batch, lambda n, u, v: length_values(kinds, longest, v - u))
    assert extractor.max_length_ == (None if kinds == ["gamma"] else longest)
    if kinds == ["gamma"] or max_length is not None:
        assert clone(extractor).fit(TOKENS).n_features_out_ == batch.n_features  # without y


@pytest.mark.parametrize(
    ("scheme", "y", "longest"),
    [
        ("runs", [["A", "A", "A", "B"], ["B"], [], ["A", "A", "B"]], 3),
        ("bio", [["B", "I", "B", "I"], ["O"], [], ["O", "O", "B"]], 2),
        ("bioes", [["B", "I", "I", "E"], ["S"], [], ["S", "B", "E"]], 4),
        ("segments", [[(0, 3, "x"), (3, 4, "x")], [(0, 1, "x")], [], [(0, 1, "x"), (1, 3, "x")]], 3),
    ],
)
def test_schemes_of_y(scheme, y, longest):
    extractor = SegmentFeatureExtractor((), length="indicator", scheme=scheme).fit(TOKENS, y)
    assert extractor.max_length_ == longest


# ---- chains of transformers


def test_names_are_one_object_for_all_batches():
    extractor = SegmentFeatureExtractor(begin=True, tags="unigrams", length="gamma")
    first = extractor.fit_transform(TOKENS)
    later = extractor.transform(EXTRACTOR.transform(X[:1]))
    names = first.feature_names
    assert all(batch.feature_names is names for batch in (later, first[1:], first[[0, 3]], first[2]))
    copy = pickle.loads(pickle.dumps(first))
    assert copy.feature_names is not names
    assert list(copy.feature_names) == list(names) == extractor.get_feature_names_out().tolist()
    assert names[3] == list(names)[3]
    assert names[-1] == "log_length"
    assert repr(names).startswith(f"FeatureNames({len(names)} names: '{names[0]}', '{names[1]}', '{names[2]}', ...)")
    assert repr(names_of_blocks((), None)) == "FeatureNames(0 names)"
    kept = pickle.loads(pickle.dumps((extractor, first)))
    assert kept[0].transform(TOKENS).feature_names is kept[1].feature_names


def test_slices_have_the_features_of_the_whole():
    extractor = SegmentFeatureExtractor(begin="0", tags="bigrams", identity=0, length="gamma", functions=count_words)
    batch = extractor.fit_transform(TOKENS, Y)
    segments = candidates(batch)
    whole = dict(zip(segments, values_of(batch, segments), strict=True))
    for chosen in ([3, 0], [1], [2], [0, 3, 3]):
        part = batch[chosen]
        for segment, actual in zip(candidates(part), values_of(part, candidates(part)), strict=True):
            assert actual == whole[chosen[segment[0]], *segment[1:]]


def test_segment_features_are_appended_to_segment_features():
    batch = SegmentFeatureExtractor((), begin="0[0]", length="gamma").fit_transform(TOKENS)
    tokens, last = attributes(TOKENS), SegmentFeatureExtractor(end="1[0]")
    both = last.fit_transform(batch)

    def expected(n, u, v):
        return (
            token_values(tokens[n], {"begin": ("0[0]",)}, "bio", u, v)
            | length_values(["gamma"], 0, v - u)
            | token_values(tokens[n], {"end": ("1[0]",)}, "bio", u, v)
        )

    compare(both, expected)
    assert last.get_feature_names_out().tolist() == list(both.feature_names)
    assert last.n_features_out_ == both.n_features
    assert last.transform(batch).feature_names is both.feature_names
    with pytest.raises(ValueError, match="bag must be None"):
        SegmentFeatureExtractor(()).fit(batch)
    with pytest.raises(ValueError, match="unlike the X of fit|features, but had"):
        last.transform(TOKENS)


def count_words(tokens, starts, stops):
    words = tokens[0] if isinstance(tokens, dict) else tokens
    sums = np.cumsum([0, *(words == "the")])
    return sums[stops] - sums[starts]


# ---- identity


def known_texts(X, y, min_count, text):
    counts = Counter(text(s[u:v]) for s, labels in zip(X, y, strict=True) for u, v, _ in runs(labels))
    return {string for string, count in counts.items() if string is not None and count >= min_count}


LETTERS = st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=6), min_size=1, max_size=5)


@given(LETTERS, LETTERS, st.data(), st.integers(1, 2))
def test_identity(train, test, data, min_count):
    train, test = [[*s, "a"] for s in train], [*test, ["d", "a"]]
    train.append(["b"])
    y = [data.draw(st.lists(st.sampled_from("PQ"), min_size=len(s), max_size=len(s))) for s in train]
    y[-2:] = [["P"] * len(train[-2]), ["Q"]]
    as_tokens = [[(letter,) for letter in s] for s in train]
    extractor = SegmentFeatureExtractor(identity=True, min_count=min_count)
    batches = extractor.fit_transform(as_tokens, y), extractor.transform([[(c,) for c in s] for s in test])

    def text(tokens):
        return None if None in tokens else "".join(tokens)

    learned = known_texts(train, y, min_count, text)
    assert set(extractor.get_feature_names_out()) == {f"identity={string}" for string in learned}
    for batch, X in zip(batches, (train, test), strict=True):
        compare(batch, lambda n, u, v, X=X: {f"identity={text(X[n][u:v])}": 1.0} if text(X[n][u:v]) in learned else {})


@given(st.lists(st.sampled_from(["a", "b", "ab", "", None]), max_size=3), st.integers(0, 25), st.randoms())
def test_fingerprints_are_equal_where_strings_are(period, n_periods, random):
    """All strings of tokens that repeat, some of them replaced: lengths around powers of 2, gaps, and no token."""
    tokens = [random.choice(["b", None, "é"]) if random.random() < 0.05 else token for token in period * n_periods]
    start, stop = np.triu_indices(len(tokens) + 1, 1)
    column = text_column(tokens)
    found = fingerprints(token_numbers(column, "w"), start, stop).tolist()
    strings = [tuple(tokens[u:v]) for u, v in zip(start, stop, strict=True)]
    assert all((key == -1) == (None in string) for key, string in zip(found, strings, strict=True))
    pairs = {pair for pair in zip(found, strings, strict=True) if pair[0] != -1}
    assert len(pairs) == len({key for key, _ in pairs}) == len({string for _, string in pairs})


def test_identity_tells_long_strings_of_two_kinds_of_tokens_apart():
    # a Thue-Morse string and its complement, whose polynomial hashes modulo 2**64 are equal
    ones = [i.bit_count() % 2 for i in range(1024)]
    X = [["ab"[one] for one in ones], ["ba"[one] for one in ones]]
    extractor = SegmentFeatureExtractor(identity=True)
    batch = extractor.fit_transform(X, [["B-X", *["I-X"] * 1023]] * 2)
    features = segment_features(batch, np.array([0, 1024]), np.array([1024, 2048])).toarray()
    assert features.tolist() == [[1, 0], [0, 1]]


def test_identity_of_words_and_numbers():
    extractor = SegmentFeatureExtractor(identity=True).fit(TOKENS, Y)  # the first field of text
    names = ["identity=In", "identity=end", "identity=the", "identity=the end", "identity=the the"]
    bag = EXTRACTOR.n_features_out_
    assert extractor.get_feature_names_out()[bag:].tolist() == names
    by_number = SegmentFeatureExtractor(identity=1).fit(X, Y).get_feature_names_out()
    assert by_number.tolist() == [f"identity={s}" for s in ["-1", "0.5", "1", "0 2.5", "1 2"]]


# ---- functions of segments


def n_and_one(tokens, starts, stops):
    return stops - starts + np.ones(len(starts), dtype=np.float32)


def weight(tokens, starts, stops):
    sums = np.concatenate([[0.0], np.cumsum(tokens[1])])
    return sums[stops] - sums[starts]


def is_all(tokens, starts, stops):
    return (starts == 0) & (stops == len(tokens[0]))


def has_end(tokens, starts, stops):
    return [bool((tokens[0][start:stop] == "end").any()) for start, stop in zip(starts, stops, strict=True)]


FUNCTIONS = {"n": n_and_one, "weight": weight, "all": is_all, "end": has_end}


def function_values(tokens, start, stop):
    words, numbers = zip(*tokens[start:stop], strict=True)
    values = {
        "n": len(words) + 1.0,
        "weight": sum(numbers),
        "all": float(len(words) == len(tokens)),
        "end": float("end" in words),
    }
    return {name: value for name, value in values.items() if value}


@pytest.mark.parametrize("min_count", [1, 2, 4])
def test_functions(min_count):
    extractor = SegmentFeatureExtractor((), functions=FUNCTIONS, min_count=min_count)
    batch = extractor.fit_transform(TOKENS, Y)
    gold = [function_values(X[n], u, v) for n, labels in enumerate(Y) for u, v, _ in runs(labels)]
    counts = Counter(name for values in gold for name in values)
    kept = {name for name, count in counts.items() if count >= min_count}
    assert extractor.get_feature_names_out().tolist() == sorted(kept)
    later = EXTRACTOR.transform([[("unseen", 3.0), ("The", 1.0)], [("end", 1.0)]])

    def expected(tokens, u, v):
        return {name: value for name, value in function_values(tokens, u, v).items() if name in kept}

    compare(batch, lambda n, u, v: expected(X[n], u, v))
    tokens = [("unseen", 3.0), ("The", 1.0)], [("end", 1.0)]
    compare(extractor.transform(later), lambda n, u, v: expected(tokens[n], u, v))


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([["a", "b"]], ["a", "b"]),
        ([[1, 2.5]], [1.0, 2.5]),
        ([[("a", 1), (None, None)]], {0: ["a", None], 1: [1.0, np.nan]}),
        ([[{"w": "a"}, {"w": "b", "n": True}]], {"w": ["a", "b"], "n": [np.nan, 1.0]}),
        ([[{"w": "a"}, {}]], ["a", None]),
        (
            SequenceFeatureExtractor(fields=["w", "p"]).fit_transform([[("a", "x"), ("b", "y")]]),
            {"w": ["a", "b"], "p": ["x", "y"]},
        ),
    ],
)
def test_tokens_that_functions_see(X, expected):
    seen = []

    def look(tokens, starts, stops):
        seen.append(tokens)
        return starts

    SegmentFeatureExtractor((), functions=look).fit(X, [["P", "Q"]])
    (tokens,) = seen
    named = tokens if isinstance(tokens, dict) else {0: tokens}
    for name, values in (expected if isinstance(expected, dict) else {0: expected}).items():
        np.testing.assert_array_equal(named[name], np.array(values, dtype=named[name].dtype))
    assert len(named) == (len(expected) if isinstance(expected, dict) else 1)


def width(tokens, starts, stops):
    sums = np.concatenate([[0.0], np.cumsum(tokens)])
    return sums[stops] - sums[starts]


def test_an_array_has_the_name_of_its_function():
    extractor = SegmentFeatureExtractor((), functions=width)
    batch = extractor.fit_transform([[1.0, 2.0, 4.0], [8.0]], [["P", "P", "Q"], ["P"]])
    assert extractor.get_feature_names_out().tolist() == ["width"]
    named = SegmentFeatureExtractor((), functions={"n": width, "m": width}).fit([[1.0, 2.0]], [["P", "Q"]])
    assert named.get_feature_names_out().tolist() == ["m", "n"]
    features = segment_features(batch, np.array([0, 0, 3, 1]), np.array([2, 3, 4, 3])).toarray()
    assert features[:, 0].tolist() == [3, 7, 8, 6]


def test_functions_are_called_once_a_sequence():
    calls = []

    def count(tokens, starts, stops):
        calls.append((tokens.tolist(), len(starts)))
        return stops - starts

    X, y = [["a", "b", "c", "d"], ["e"], []], [["P", "P", "Q", "Q"], ["P"], []]
    batch = SegmentFeatureExtractor((), functions=count).fit_transform(X, y)
    assert calls == [(["a", "b", "c", "d"], 2), (["e"], 1)]
    HighOrderSemiCRF(segment_length=3).fit(batch[:2], y[:2])
    assert max(n for _, n in calls) == 4 + 3 + 2  # all candidates of the first sequence
    assert (
        len(calls) <= 4 * 2
    )  # in fit of the extractor; true segments, candidates and new ones in that of the estimator


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        ([1.0], ValueError, r"the result has the shape \(1,\), but there are 2 segments"),
        ([[1.0], [2.0]], ValueError, r"the result has the shape \(2, 1\)"),
        ({"a": [1, 2]}, TypeError, "the result must be an array of numbers or bools, got {'a': "),
        (["x", "y"], TypeError, "the result must be an array of numbers or bools, got ..x"),
        ([1.0, None], TypeError, "the result must be an array of numbers or bools, got .1.0, None"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), TypeError, "the result must be an array of numbers"),
        ([1.0, np.nan], ValueError, "start 2, stop 3: the result is nan; numbers must be finite"),
    ],
)
def test_arrays_that_are_none(result, error, message):
    def odd(tokens, starts, stops):
        return result if len(tokens) == 3 else np.ones(len(starts))

    extractor = SegmentFeatureExtractor(functions=odd)
    with pytest.raises(error, match=message) as caught:
        extractor.fit([["a"] * 2, ["a", "b", "c"]], [["P", "Q"], ["P", "P", "Q"]])
    assert "the segment function 'odd', sequence 1" in str(caught.value)


def scaled(tokens, starts, stops, factor):
    return (stops - starts) * factor


def test_arrays_of_one_name_are_refused():
    X, y = [["a", "b", "c"]], [["P", "P", "Q"]]
    both = [partial(scaled, factor=1.0), partial(scaled, factor=10.0)]
    one = SegmentFeatureExtractor((), functions=both[1]).fit(X, y)
    assert one.get_feature_names_out().tolist() == ["scaled"]
    with pytest.raises(ValueError, match="two functions have the name 'scaled': name them in a dict"):
        SegmentFeatureExtractor((), functions=both).fit(X, y)


def fail(tokens, starts, stops):
    if (stops - starts == 2).any():
        raise RuntimeError("no")
    return starts


def test_errors_of_functions_say_where():
    batch = SegmentFeatureExtractor(functions=fail).fit_transform([["a"], ["a", "b", "c"]], [["P"], ["P", "Q", "P"]])
    with pytest.raises(RuntimeError, match="no") as caught:
        segment_features(batch, np.array([1, 2]), np.array([2, 4]))
    assert caught.value.__notes__ == ["in the segment function 'fail', sequence 1"]


# ---- X of other forms


@pytest.mark.parametrize(
    ("X", "form"),
    [
        ([[{"w": "a"}, {"w": "b"}]], "dicts"),
        ([[], [["a"], ["b"]]], "lists"),
        ([[[1.0, 2.0], [0.0, 1.0]]], "lists"),
        ([np.ones((2, 3))], "rows of numbers"),
        (np.ones((1, 2, 3)), "rows of numbers"),
        ([[np.ones(3), np.ones(3)]], "rows of numbers"),
        ([pd.DataFrame({"a": [1, 2]})], "rows of a data frame"),
    ],
)
def test_what_an_estimator_would_take_for_token_features_is_not_dropped_in_silence(X, form):
    parameters = {"length": "capped", "max_length": 2}
    with pytest.warns(UserWarning, match=f"the tokens are {form}: no token features.*'attributes'.*bag=") as record:
        SegmentFeatureExtractor(**parameters).fit(X)
    assert record[0].filename == __file__
    with pytest.raises(ValueError, match="end: X has no token features; put a SequenceFeatureExtractor"):
        SegmentFeatureExtractor(end=True).fit(X)
    with warnings.catch_warnings(action="error"):
        SegmentFeatureExtractor((), **parameters).fit(X)


def test_sequences_without_tokens():
    extractor = SegmentFeatureExtractor(identity=True, length="gamma").fit(WORDS, Y)
    for X in ([], [[]], [[], []]):
        assert extractor.transform(X).shape == (len(X), extractor.n_features_out_)
        with pytest.raises(ValueError, match="no tokens to learn"):
            clone(extractor).fit(X)
    dicts = SegmentFeatureExtractor((), identity="w").fit([[{"w": "a", "p": "b"}, {"w": "c"}]], [["P", "Q"]])
    batch = dicts.transform([[{"p": "b"}], [{"w": "c", "more": 1}]])
    assert values_of(batch, [(0, 0, 1), (1, 0, 1)]) == [{}, {"identity=c": 1.0}]
    with pytest.raises(ValueError, match="no raw token columns.*SequenceFeatureExtractor with templates"):
        SegmentFeatureExtractor(identity=True).fit(SequenceBatch([0, 1], [0, 1], [0], None, 1), [["P"]])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:2], "X has 4 sequences, y has 2"),
        ([Y[0][:3], *Y[1:]], "sequence 0 has 4 tokens in X, but 3 labels in y"),
    ],
)
def test_y_that_does_not_go_with_x(y, message):
    with pytest.raises(ValueError, match=message):
        SegmentFeatureExtractor(identity=True).fit(TOKENS, y)
    SegmentFeatureExtractor(begin=True).fit(TOKENS, y)  # nobody looks at it


test_refusals = refusals(
    (lambda: SegmentFeatureExtractor(begin=True).fit(TOKENS).transform(
         SequenceFeatureExtractor([(0, 0), (1, 0), (0, -1)], bias=True).fit_transform(X)),
     "X has the token feature '.*', but fit had '.*' instead"),
    (lambda: SegmentFeatureExtractor(begin=True).fit(TOKENS).transform(WORDS), "X has 0 token features, but had"),
    (lambda: clone(SegmentFeatureExtractor(begin=True).fit(TOKENS)).transform(TOKENS), (NotFittedError, ".")),
    (lambda params: SegmentFeatureExtractor(**params).fit(TOKENS),
     ("'IB', which is not a tag n-gram. Use 'B' or", {"tags": {"IB": True}}),
     ("3, which is not a tag", {"tags": {3: True}}),
     ("'trigrams'", {"tags": "trigrams"}),
     (TypeError, "tags must be None", {"tags": ["B"]}),
     (TypeError, r"tags\['B'\] must be True, the beginning", {"tags": {"B": 1}}),
     (TypeError, "begin must be True", {"begin": 1}),
     (TypeError, "bag must be True", {"bag": (1,)}),
     ("length must be None", {"length": ("gamma", "short")}),
     ("same features twice", {"length": ("indicator", "capped")}, {"length": ("gamma", "gamma")}),
     ("requires y", {"length": "indicator"}, {"identity": True}, {"functions": len}),
     (r"identity names the field 'word', but the tokens have the fields \[0, 1\]", {"identity": "word"}),
     (r"identity names the field \(1, 0\)", {"identity": (1, 0)}),
     (TypeError, "functions must be", {"functions": "len"}),
     (TypeError, r"functions\[1\]: the name 1 of a function must be a str", {"functions": {1: len}}),
     (TypeError, r"functions\[0\] = 'len' must be callable: function\(tokens, starts", {"functions": ["len"]}),
     ('max_length=3 has no effect without length: did you mean length="capped"', {"max_length": 3})),
    (lambda value: SegmentFeatureExtractor(length="gamma").fit(value).transform([[1.0]]),
     (r"fields \['x'\], but those in fit had \['w'\]", [["a"]],
      SequenceBatch([0, 1], [0, 0], [], None, 0, None, {"w": np.ones(1)}))),
    (lambda value: SegmentFeatureExtractor(length="gamma").fit([[("a", "b")]]).transform([[value]]),
     (r"fields \[0\], but those in fit had \[0, 1\]", ("a",)),
     ("field 1 held text in fit, but holds numbers now", ("a", 2))),
    (lambda: SegmentFeatureExtractor(length="gamma").fit([[["a", "b"], ["c"]]]),
     "sequence 0, position 1.*templates='attributes'"),
)  # fmt: skip
