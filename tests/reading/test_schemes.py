"""Token labels, token tags and segments are equivalent, in both directions."""

import itertools
import re
from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    NO_LIMIT,
    Segments,
    SequenceBatch,
    TokenBlock,
    read_segment_targets,
    schemes,
    segment_features,
    token_labels,
)
from refusals import refusals
from registry import tags_of

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.metrics import segment_f1_scorer, token_accuracy_score
from sklearn_hocrf.text import convert_tags

LABELS = ["O", "X", "Y"]
# segmentations as lists of (length, label) per sequence; O is code 0 and has length 1
SEGMENTATIONS = st.lists(
    st.lists(st.one_of(st.just((1, 0)), st.tuples(st.integers(1, 4), st.integers(1, 2))), max_size=5), max_size=4
)


def to_segments(sequences):
    lengths = np.array([d for sequence in sequences for d, _ in sequence], dtype=np.int64)
    stop = np.cumsum(lengths)
    codes = np.array([y for sequence in sequences for _, y in sequence], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, sequences)])
    token_offsets = np.cumsum([0, *(sum(d for d, _ in sequence) for sequence in sequences)])
    return Segments(offsets, stop - lengths, stop, codes), token_offsets


def assert_same(ours, theirs):
    for name, one, other in zip(Segments._fields, ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert [column.dtype for column in ours] == [np.int64, np.int64, np.int64, np.int32]


def read(tags, scheme):
    """Return the segments of lists of tags."""
    parts = [schemes.split_tag(tag, scheme) for sequence in tags for tag in sequence]
    prefixes = np.array([prefix for prefix, _ in parts], dtype=np.int8)
    codes = np.array([LABELS.index(label) for _, label in parts], dtype=np.int32)
    return schemes.segments_of_tags(prefixes, codes, np.cumsum([0, *map(len, tags)]))


# --- tags and segments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bio", "bioes", "bilou", "bmes", "iob1"])
@given(SEGMENTATIONS)
def test_tags_say_what_the_segments_are_and_back(scheme, sequences):
    segments, offsets = to_segments(sequences)
    tags = schemes.tags_of_segments(segments, scheme, outside=0)
    pairs = zip(tags.prefix.tolist(), tags.label.tolist(), strict=True)
    names = [schemes.join_tag(p, LABELS[y], scheme=scheme) for p, y in pairs]
    lists = schemes.segment_lists(segments, offsets, LABELS)
    expected = [tags_of(of_one, "bio" if scheme == "iob1" else scheme) for of_one in lists]
    assert names == [tag for sequence in expected for tag in sequence]
    assert_same(read(expected, scheme), segments)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_broken_tags_are_read_as_conlleval_reads_them(scheme):
    """All sequences of up to three tags of two labels."""
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    all_tags = ["O"] + [f"{p}-{label}" for p in schemes.PREFIXES[scheme] if p != "O" for label in ("X", "Y")]
    tags = [[*sequence] for length in range(4) for sequence in itertools.product(all_tags, repeat=length)]
    segments = read(tags, scheme)
    offsets = np.cumsum([0, *map(len, tags)])
    for sequence, spans in zip(tags, schemes.segment_lists(segments, offsets, LABELS), strict=True):
        entities = [(start, stop + 1, label) for label, start, stop in seqeval.get_entities(sequence)]
        assert [segment for segment in spans if segment[2] != "O"] == entities
        assert all(stop - start == 1 for start, stop, label in spans if label == "O")
        assert [t for start, stop, _ in spans for t in range(start, stop)] == list(range(len(sequence)))


@given(st.lists(st.lists(st.sampled_from("AB"), max_size=6), max_size=4))
def test_runs_are_maximal(sequences):
    offsets = np.cumsum([0, *map(len, sequences)])
    codes = np.array(["AB".index(label) for sequence in sequences for label in sequence], dtype=np.int32)
    segments = schemes.segments_of_labels(codes, offsets)
    np.testing.assert_array_equal(token_labels(segments), codes)
    for sequence, runs in zip(sequences, schemes.segment_lists(segments, offsets, "AB"), strict=True):
        expected = []
        for t, label in enumerate(sequence):
            if expected and expected[-1][2] == label:
                expected[-1] = (expected[-1][0], t + 1, label)
            else:
                expected.append((t, t + 1, label))
        assert runs == expected


def test_each_scheme_has_a_letter_for_each_of_its_prefixes():
    assert [*schemes.TAG_SCHEMES] == [*schemes.PREFIXES]
    for name, rules in schemes.TAG_SCHEMES.items():
        letters = {prefix for prefix, letter in enumerate(schemes.PREFIXES[name]) if letter != "-"}
        assert letters == {schemes.O, rules.only, rules.first, rules.inner, rules.last}


def test_segments_of_single_tokens():
    y = [[], ["b", "b"], ["a"]]
    segments = read_segment_targets(y, np.array([0, 2, 1]), "sequences", "", scheme="runs", segment_length=1).segments
    assert_same(
        segments, Segments(np.array([0, 0, 2, 3]), np.arange(3), np.arange(1, 4), np.array([1, 1, 0], np.int32))
    )
    for nothing in (np.array([0]), np.array([0, 0, 0])):
        assert_same(
            schemes.segments_of_labels(np.zeros(0, np.int32), nothing),
            Segments(nothing, *np.zeros((2, 0), int), np.zeros(0, np.int32)),
        )
        none = np.zeros(0, np.int8)
        assert len(schemes.segments_of_tags(none, none, nothing).start) == 0


# --- names of tags ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "scheme", "parts"),
    [
        ("B-PER", "bio", (schemes.B, "PER")),
        ("I-PER-x", "bio", (schemes.I, "PER-x")),
        ("B", "bio", (schemes.B, "_")),
        ("B-", "bio", None),
        ("O", "bio", (schemes.O, "O")),
        ("E-PER", "bioes", (schemes.E, "PER")),
        ("S", "bioes", (schemes.S, "_")),
        (np.str_("B-PER"), "bio", (schemes.B, "PER")),
        ("B-O", "bio", (schemes.B, "O")),
        ("E-PER", "bio", None),
        ("O-PER", "bio", None),
        ("BPER", "bio", None),
        ("PER", "bio", None),
        ("", "bio", None),
        ("b-PER", "bio", None),
        (3, "bio", None),
        (None, "bio", None),
    ],
)
def test_names_of_tags(tag, scheme, parts):
    assert schemes.split_tag(tag, scheme) == parts


def test_tags_of_the_nameless_label_are_written_with_or_without_it():
    prefixes = schemes.B, schemes.I, schemes.O, schemes.E, schemes.S
    assert [schemes.join_tag(p, "_") for p in prefixes] == ["B", "I", "O", "E", "S"]
    assert [schemes.join_tag(p, "_", bare=False) for p in prefixes] == ["B-_", "I-_", "O", "E-_", "S-_"]
    assert schemes.join_tag(schemes.B, "PER") == schemes.join_tag(schemes.B, "PER", bare=False) == "B-PER"


# --- which tags there can be, and where -------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@pytest.mark.parametrize("longest", [[1, 1, 2], [1, 3, 1], [1, 4, NO_LIMIT]])
def test_possible_tags_are_those_that_occur(scheme, longest):
    sequences = [[(d, y)] for y in range(3) for d in range(1, min(longest[y], 6) + 1)]
    tags = schemes.tags_of_segments(to_segments(sequences)[0], scheme, outside=0)
    expected = set(zip(tags.prefix.tolist(), tags.label.tolist(), strict=True))
    possible = schemes.possible_tags(scheme, longest, outside=0)
    assert set(zip(possible.prefix.tolist(), possible.label.tolist(), strict=True)) == expected
    numbers = schemes.tag_ids(tags, possible)
    np.testing.assert_array_equal(possible.prefix[numbers], tags.prefix)
    np.testing.assert_array_equal(possible.label[numbers], tags.label)


def test_without_an_outside_every_label_has_tags():
    possible = schemes.possible_tags("bio", [1, 2], outside=-1)
    assert list(zip(possible.prefix.tolist(), possible.label.tolist(), strict=True)) == [
        (schemes.B, 0),
        (schemes.B, 1),
        (schemes.I, 1),
    ]


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@given(SEGMENTATIONS)
def test_channels_are_where_a_token_has_the_tag(scheme, sequences):
    """A feature that every token has counts, in the channel of a tag, the tokens of the segment that have the tag."""
    segments, offsets = to_segments(sequences)
    n_tokens = int(offsets[-1])
    tags = schemes.tags_of_segments(segments, scheme, outside=0)
    possible = schemes.possible_tags(scheme, [1, 4, 4], outside=0)
    for number, (label, channel) in enumerate(schemes.tag_channels(possible, scheme)):
        block = TokenBlock(channel, np.zeros(1, np.int32), "")
        batch = SequenceBatch(offsets, np.arange(n_tokens + 1), np.zeros(n_tokens, int), None, 1, blocks=(block,))
        of_label = segments.codes == label
        counted = segment_features(batch, segments.start[of_label], segments.stop[of_label]).sum(axis=1)
        owner = np.repeat(np.arange(len(of_label)), segments.lengths)
        has_tag = np.bincount(owner[schemes.tag_ids(tags, possible) == number], minlength=len(of_label))
        np.testing.assert_array_equal(np.asarray(counted).ravel(), has_tag[of_label])
        assert not has_tag[~of_label].any()


# --- lists of segments ------------------------------------------------------------------------------------------------


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "segments.md").read_text(encoding="utf-8")
ROWS = re.findall(r'^\| "(\w+)".*?\| `(.+?)`(?:; `predict` returns "(\w+)")? \|$', PAGE, re.MULTILINE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("scheme", "true", "other"), ROWS)
def test_what_predict_returns(scheme, true, other):
    """The table of the user guide, row by row."""
    assert {row[0] for row in ROWS} == {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}
    answer = other or scheme
    predicted = {row[0]: row[1] for row in ROWS}[answer]
    labels = literal_eval(true)
    X = [[["a"], ["b"], ["c"], ["d"]], [["c"], ["d"]]]
    y = [labels, [(0, 1, "O"), (1, 2, "P")] if scheme == "segments" else labels[2:]]
    model = HighOrderSemiCRF(scheme=scheme, sigma_reg=30).fit(X, y)
    found = model.predict(X)
    assert found[0] == literal_eval(predicted)
    assert model.score(X, y) == 1
    assert segment_f1_scorer(model, X, y) == 1
    if scheme != "segments":
        assert convert_tags(found, answer, scheme) == y
        assert (token_accuracy_score(y, found) == 1) == (scheme == answer)
    if scheme not in ("runs", "segments"):
        assert HighOrderCRF(constraints=scheme, sigma_reg=30).fit(X, y).predict(X) == y


test_refusals = refusals(
    (lambda value: schemes.read_segment(value, "here", "y"),
     (TypeError, r"'BIO' of y \(here\) is not a segment", "BIO"),
     (TypeError, r"\(0, 1\) of y \(here\) is not a segment", (0, 1)),
     (TypeError, "is not a segment", 3),
     (TypeError, "start and stop must be integers", (0.0, 1, "X"), (False, 1, "X")),
     ("0 <= start < stop must hold", (2, 2, "X"), (-1, 2, "X"))),
)  # fmt: skip
