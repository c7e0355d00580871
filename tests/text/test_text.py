"""Tokens with their characters, and conversion between spans of characters and labels of tokens."""

import pickle
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import schemes
from refusals import refusals

from sklearn_hocrf.text import TokenizedText, convert_tags, extract_segments, spans_from_tags, tags_from_spans, tokenize

# letters of all widths: two UTF-16 units, a combining accent, right to left, a lone surrogate, spaces
ALPHABET = "ab1_ .-\n\t\u00a0é\u0301中א\U0001f600\U0001d400\ud83d\u200c\u200d\u094d\u0915"
TEXTS = st.lists(st.text(ALPHABET, max_size=20), max_size=4)
LABELS = st.sampled_from(["A", "B", "_", "I-B", "\U0001f600"])


@st.composite
def annotated(draw):
    """Return texts as tokens, and aligned spans of each text in order."""
    tokenized = tokenize(draw(TEXTS))
    spans = []
    for tokens in tokenized:
        spans.append([])
        t = 0
        while t < len(tokens):
            stop = draw(st.integers(t, min(t + 3, len(tokens))))
            if stop > t:
                spans[-1].append((int(tokens.offsets[t, 0]), int(tokens.offsets[stop - 1, 1]), draw(LABELS)))
            t = max(stop, t + 1)
    return tokenized, spans


def touching(tokenized, spans):
    """Return whether two spans of one label have no token between them."""
    tags = tags_from_spans(tokenized, spans, "iob1")
    return any(tag[0] == "B" for labels in tags for tag in labels)


# -------------------------------------------------------------------------------------------------------------- tokens


def words_of(text):
    """Return the tokens, character by character."""
    words, last = [], ""
    for t, c in enumerate(text):
        before, after = text[t - 1 : t], text[t + 1 : t + 2]
        is_word = re.match(r"\w", c) is not None
        is_mark = unicodedata.category(c)[0] == "M"
        joins = c in "\u200c\u200d" and last == "word"
        joins = joins and (unicodedata.category(before)[0] == "M" or re.match(r"\w", after or " ") or is_mark_of(after))
        if (is_mark and last) or (last == "word" and (is_word or joins)):
            words[-1] += c
        elif not c.isspace():
            words.append(c)
            last = "word" if is_word else "other"
        else:
            last = ""
    return words


def is_mark_of(text):
    return bool(text) and unicodedata.category(text)[0] == "M"


@given(TEXTS)
def test_tokens_are_their_characters(texts):
    tokenized = tokenize(texts)
    assert [tokens.text for tokens in tokenized] == texts
    for text, tokens in zip(texts, tokenized, strict=True):
        assert [text[start:stop] for start, stop in tokens.offsets] == list(tokens) == words_of(text)
        assert tokens.offsets.shape == (len(tokens), 2)
        assert tokens.offsets.dtype == np.int64
        assert not tokens.offsets.flags.writeable


@pytest.mark.parametrize("misaligned", ["raise", "expand", "contract", "drop"])
def test_spans_that_cut_a_letter_from_its_mark(misaligned):
    text = "by Jose\u0301 M."
    message = r"text 0: span \(3, 7, 'PER'\) cuts 'e' at character 7 from its mark U\+0301"
    cut = tokenize([text], r"\w+|[^\w\s]")  # the tokens cut it, too
    assert tags_from_spans(cut, [[(3, 8, "PER")]], misaligned=misaligned) == [["O", "B-PER", "I-PER", "O", "O"]]
    whole = tokenize([text])
    if misaligned == "raise":
        with pytest.raises(ValueError, match=f'{message}; misaligned="expand" takes the whole token'):
            tags_from_spans(whole, [[(3, 7, "PER")]])
    else:
        expected = "B-PER" if misaligned == "expand" else "O"
        assert tags_from_spans(whole, [[(3, 7, "PER")]], misaligned=misaligned) == [["O", expected, "O", "O"]]


def test_tokenized_text_is_a_sequence():
    (tokens,) = tokenize(["one two three"])
    assert (tokens[0], tokens[-1], len(tokens), "two" in tokens, tokens.index("three")) == ("one", "three", 3, True, 2)
    assert list(tokens[1:]) == ["two", "three"]
    assert tokens[1:].offsets.tolist() == [[4, 7], [8, 13]]
    assert tokens == tokenize(["one two three"])[0] != tokens[1:]
    assert tokens != list(tokens)
    assert len({tokens, tokenize(["one two three"])[0]}) == 1
    copy = pickle.loads(pickle.dumps(tokens))
    assert copy == tokens
    assert not copy.offsets.flags.writeable
    assert repr(tokens) == "TokenizedText('one two three', 3 tokens)"
    with pytest.raises(ValueError, match="in order"):
        tokens[::-1]


def test_patterns_find_tokens():
    for pattern in (r"\S+", re.compile(r"\S+")):
        first, second = tokenize(["ab cd.", ""], pattern)
        assert (list(first), list(second)) == (["ab", "cd."], [])


# ------------------------------------------------------------------------------------------------------ there and back


@given(annotated())
def test_spans_come_back(data):
    tokenized, spans = data
    for scheme in schemes.SCHEMES:
        if scheme == "runs" and touching(tokenized, spans):
            with pytest.raises(ValueError, match='which scheme="runs" would join'):
                tags_from_spans(tokenized, spans, scheme)
            continue
        y = tags_from_spans(tokenized, spans, scheme)
        assert spans_from_tags(tokenized, y, scheme) == spans
        assert len(y) == len(tokenized)
        if scheme != "segments":
            assert list(map(len, y)) == list(map(len, tokenized))
        for way in ("expand", "contract", "drop"):
            assert tags_from_spans(tokenized, [of_text[::-1] for of_text in spans], scheme, misaligned=way) == y


@given(annotated())
def test_written_iob1_keeps_its_own_rules(data):
    table = schemes.TagTable(np.array([schemes.B, schemes.I, schemes.O]), np.array([0, 0, 1]))
    follow, borders = schemes.legal_tags(table, "iob1")
    for tags in tags_from_spans(data[0], [[(*span[:2], "A") for span in of_text] for of_text in data[1]], "iob1"):
        codes = ["BIO".index(tag[0]) for tag in tags]
        assert follow[codes[:-1], codes[1:]].all()
        assert borders[0, codes[:1]].all()


@given(st.text(ALPHABET, min_size=1, max_size=15), st.data())
def test_misaligned_spans_beside_brute_force(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(start + 1, len(text)))
    tokenized = tokenize([text])
    offsets = tokenized[0].offsets.tolist()
    touched = [s < stop and start < e for s, e in offsets]
    inside = [start <= s and e <= stop for s, e in offsets]
    ends = (start in [s for s, _ in offsets]) and (stop in [e for _, e in offsets])
    found = {
        way: [label == "A" for label in tags_from_spans(tokenized, [[(start, stop, "A")]], "runs", misaligned=way)[0]]
        for way in ("expand", "contract", "drop")
    }
    assert found == {"expand": touched, "contract": inside, "drop": inside if ends else [False] * len(offsets)}
    if not ends:
        with pytest.raises(ValueError, match="text 0: span"):
            tags_from_spans(tokenized, [[(start, stop, "A")]])


# -------------------------------------------------------------------------------------------------------------- errors


# --- other schemes ----------------------------------------------------------------------------------------------------

SCHEMES = [scheme for scheme in schemes.SCHEMES if scheme not in ("runs", "segments")]
PREFIX_LETTERS = {"bio": "BI", "iob1": "BI", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}


@given(data=st.data())
def test_converted_tags_have_the_same_segments(data):
    """Whatever the tags are, legal or not: what is written is legal, and is read as the same segments."""
    source, target = data.draw(st.sampled_from(SCHEMES)), data.draw(st.sampled_from(SCHEMES))
    tags = ["O", *(f"{letter}-{label}" for letter in PREFIX_LETTERS[source] for label in ("X", "Y"))]
    y = data.draw(st.lists(st.lists(st.sampled_from(tags), max_size=7), max_size=4))
    converted = convert_tags(y, source, target)
    expected = extract_segments(y, scheme=source)
    assert [len(labels) for labels in converted] == [len(labels) for labels in y]
    assert extract_segments(converted, scheme=target) == expected
    if target != "iob1":
        assert extract_segments(converted, scheme=target, strict=True) == expected
    assert convert_tags(converted, target, target) == converted
    assert convert_tags(converted, target, source) == convert_tags(y, source, source)


@given(st.data())
def test_segments_are_converted_back(data):
    """Segments of tags, without those of "O" or with all, give the tags again; probabilities are left out."""
    scheme = data.draw(st.sampled_from(["bio", "bioes", "bilou", "bmes", "iob1"]))
    tags = convert_tags(data.draw(st.lists(st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b"])))), "bio", scheme)
    tiles = convert_tags(tags, scheme, "segments")
    lengths = list(map(len, tags))
    assert convert_tags(tiles, "segments", scheme) == tags
    assert convert_tags(extract_segments(tags, scheme=scheme), "segments", scheme, lengths=lengths) == tags
    assert convert_tags(extract_segments(tags, scheme=scheme), "segments", "segments", lengths=lengths) == tiles
    fields = [("start", int), ("stop", int), ("label", object), ("probability", float)]
    rows = [np.array([(*segment, 0.5) for segment in segments], dtype=fields) for segments in tiles]
    assert convert_tags(rows, "segments", scheme) == tags


# for refusals
TOKENIZED = tokenize(["Please ship the order to me at last", "I,  you"])


test_refusals = refusals(
    (lambda misaligned: tags_from_spans(
         tokenize(["by José M."], "\\w+|[^\\w\\s]"), [[(3, 7, "PER")]], misaligned=misaligned),
     (r"text 0: span \(3, 7, 'PER'\) cuts 'e' at character 7 from its mark U\+0301, as the tokens do", "raise")),
    (lambda: tokenize("text"), (TypeError, r"for one text: \[text\]")),
    (lambda: tokenize(["a", None]), (TypeError, r"texts\[1\] must be a str, got None \(NoneType\)")),
    (lambda args: tokenize(*args),
     ("pattern is not a regular expression", (["a"], "(")),
     (TypeError, r"pattern must be a regular expression, got 3 \(int\)", (["a"], 3)),
     ("text 0: the pattern .* matches an empty text", (["", "a b"], "\\w*"))),
    (lambda args: TokenizedText(*args),
     ("offsets", ("abc", [(0, 0)]), ("abc", [(1, 3), (0, 1)]), ("abc", [(0, 9)]), ("abc", [0, 1]),
      ("abc", [(0, 2), (1, 3)]), ("abc", [(-1, 1)])),
     (TypeError, "offsets must be integers", ("abc", [(0.0, 1.0)])),
     (TypeError, "text must be a str", (b"abc", [(0, 0)]))),
    (lambda value: tags_from_spans(TOKENIZED, value),
     (r"""text 1: span \(4, 6, 'B'\) cuts the token 'you' \(4, 7\); misaligned="expand" takes the whole token""",
      [[], [(0, 2, "A"), (4, 6, "B")]]),
     (r"""text 0: span \(8, 15, 'ORD'\) cuts the token 'ship' \(7, 11\); misaligned="expand" takes the whole token""",
      [[(8, 15, "ORD")], []]),
     (r"""text 1: span \(2, 4, 'A'\) has no token; misaligned="drop" omits it""", [[], [(2, 4, "A")]]),
     (r"text 1: span \(3, 7, 'A'\) begins or ends between tokens;", [[], [(3, 7, "A")]]),
     (r"text 1: the spans \(0, 2, 'A'\) and \(1, 2, 'B'\) overlap", [[], [(0, 2, "A"), (1, 2, "B")]]),
     ("overlap", [[], [(0, 2, "A"), (0, 2, "A")]]),
     (r"text 1: span \(4, 8, 'A'\) ends after the text, which has 7 characters", [[], [(4, 8, "A")]]),
     (r"spans has the segment \(4, 4, 'A'\) \(text 1, position 0\), but 0 <= start < stop", [[], [(4, 4, "A")]]),
     (TypeError, r"\(0, 1\) of spans \(text 1, position 0\) is not a segment \(start, stop, label\)", [[], [(0, 1)]]),
     (TypeError, r"text 1: span \(0, 1, 7\) has a label that is not a string", [[], [(0, 1, 7)]]),
     ("has the label 'O'", [[], [(0, 1, "O")]]),
     ("has the label ''", [[], [(0, 1, "")]]),
     ("spans has 1 lists, but tokenized has 2 texts", [[]]),
     (TypeError, r"text 1: spans must be a list of \(start, stop, label\), got 'A'", [[], "A"])),
    (lambda: tags_from_spans(TOKENIZED, [[(7, 9, "A"), (9, 11, "B")], []], misaligned="expand"),
     r"text 0: the spans \(7, 9, 'A'\) and \(9, 11, 'B'\), expanded, overlap in the token 'ship' \(7, 11\)"),
    (lambda: tags_from_spans(TOKENIZED, [[], [(0, 1, None)]], scheme="runs"),
     r"text 1: span \(0, 1, None\) has no label"),
    (lambda: tags_from_spans(TOKENIZED, [[], []], scheme="bilo"), "scheme must be one of 'runs', 'bio'"),
    (lambda: tags_from_spans(TOKENIZED, [[], []], misaligned="strict"),
     "misaligned must be one of 'raise', 'expand', 'contract', 'drop'"),
    (lambda: tags_from_spans(TOKENIZED[0], [[]]), (TypeError, r"a single one: pass \[tokenized\]")),
    (lambda: spans_from_tags([["a"]], [["O"]]), (TypeError, r"tokenized\[0\] must be a TokenizedText")),
    (lambda: spans_from_tags(TOKENIZED, [["O"] * 8]), "tokenized has 2 sequences, but y has 1"),
    (lambda: spans_from_tags(TOKENIZED, [["O"] * 8, ["O"]]), "sequence 1 has 3 tokens in tokenized, but 1 in y"),
    (lambda: spans_from_tags(TOKENIZED, [["O"] * 8, ["O", "X", "O"]], scheme="bio"), "'X' of y"),
    (lambda: spans_from_tags(TOKENIZED, [[], [(2, 4, "A")]], scheme="segments"),
     r"y has the segment \(2, 4, 'A'\) \(sequence 1, position 0\), beyond the 3 tokens of tokenized"),
    (lambda args: convert_tags(*args),
     ("source must be one of 'runs', 'bio'", ([["B-X"]], "segment", "bio")),
     ("target must be one of", ([["B-X"]], "bio", "conll")),
     ("'Z-X' .*sequence 1, position 1", ([["B-X"], ["O", "Z-X"]], "bio", "bioes")),
     ("sequence 0, position 1", ([["B-X", None]], "bio", "bioes"))),
    (lambda value: convert_tags([value], "segments", "bio"),
     (TypeError, "'B-X' of y .*sequence 0.* is not a segment", ["B-X"]),
     (r"y\[0\] \(sequence 0\) has no segment at token 1: pass lengths", [(0, 1, "X"), (2, 3, "X")]),
     ("overlap", [(0, 2, "X"), (1, 3, "X")]),
     (TypeError, r"span \(2, 3, 7\) has a label that is not a string", [(0, 2, "X"), (2, 3, 7)])),
    (lambda: convert_tags([[], [(0, 2, "X")]], "segments", "bio", lengths=[3, 1]),
     r"y\[1\] \(sequence 1\) has a segment that ends at 2, but lengths\[1\] is 1"),
    (lambda lengths: convert_tags([[(0, 2, "X")]], "segments", "bio", lengths=lengths),
     ("lengths has 2 numbers, but y has 1 sequences", [3, 1]),
     (r"lengths\[0\] is '3'", ["3"])),
    (lambda: convert_tags([["B-X"]], "bio", "bio", lengths=[1]),
     "lengths are those of sequences with segments, but source='bio'"),
)  # fmt: skip
