"""The recipes of the user guide, run with the libraries that they name, if these are installed."""

import doctest
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import sklearn
from bare import runnable
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals
from sklearn.utils.fixes import parse_version

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.text import TokenizedText, tags_from_spans, tokenize

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
PAGE = (GUIDE / "recipes.md").read_text(encoding="utf-8")
TEXT = "Ann Lee lives in Oslo."
SPANS = [(0, 7, "PER"), (17, 21, "LOC")]
TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
DOCTESTS = [block for block in BLOCKS if block.startswith(">>>")]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the block with a line in an empty namespace and folder, and returns its names."""
    monkeypatch.chdir(tmp_path)

    def run_block(line):
        (block,) = (block for block in BLOCKS if line in block)
        names = {}
        exec(block, names)
        return names

    return run_block


@pytest.mark.parametrize("block", DOCTESTS, ids=lambda block: re.sub(r"\W+", "-", block)[-30:])
def test_examples_run_alone(block):
    """Each block needs no name of another one; ``pytest docs`` runs all of them in one namespace."""
    if "# scikit-learn >= 1.9" in block and parse_version(sklearn.__version__) < parse_version("1.9"):
        pytest.skip("scikit-learn is older than 1.9")
    test = doctest.DocTestParser().get_doctest(block, {}, "recipes.md", None, 0)
    test.examples = runnable(test.examples)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


def test_spacy(run):
    spacy = pytest.importorskip("spacy", reason="spaCy is absent")
    doc = spacy.blank("en")(TEXT)
    doc.ents = [doc.char_span(*span) for span in SPANS]
    words = spacy.tokens.Doc(doc.vocab, words=["Ann", " ", "met", "Bob"], ents=["B-PER", "O", "O", "O"])
    words.set_ents([spacy.tokens.Span(words, 0, 1, "PER")], missing=[words[3:4]], default="outside")
    spacy.tokens.DocBin(docs=[doc, words]).to_disk("train.spacy")
    names = run("import spacy")
    assert names["X"][0] == TokenizedText(TEXT, tokenize([TEXT])[0].offsets)
    assert names["y"] == [*tags_from_spans(names["X"][:1], [SPANS]), ["B-PER", "O", None]]
    assert [(ent.start_char, ent.end_char, ent.label_) for ent in names["docs"][0].ents] == SPANS
    offsets_to_biluo_tags = spacy.training.offsets_to_biluo_tags
    assert tags_from_spans(names["X"][:1], [SPANS], "bilou") == [offsets_to_biluo_tags(doc, SPANS)]


def test_datasets(run):
    datasets = pytest.importorskip("datasets", reason="datasets is absent")
    labels = datasets.ClassLabel(names=["O", "B-PER", "I-PER", "B-LOC"])
    sequence = getattr(datasets, "List", datasets.Sequence)
    features = datasets.Features({"tokens": sequence(datasets.Value("string")), "ner_tags": sequence(labels)})
    rows = {"tokens": [list(tokenize([TEXT])[0])], "ner_tags": [[1, 2, 0, 0, 3, -1]]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk("train_set")
    names = run("load_from_disk(")
    assert names["X"] == rows["tokens"]
    assert names["y"] == [[*TAGS[:-1], None]]


def test_nervaluate():
    nervaluate = pytest.importorskip("nervaluate", reason="nervaluate is absent")
    (code,) = re.findall(r"`(Evaluator\(.*?\)\.evaluate\(\))`", PAGE)
    found = [["B-PER", "O", "O", "O", "B-LOC", "O"]]
    names = {"Evaluator": nervaluate.Evaluator, "y_true": [TAGS], "y_pred": found, "labels": ["PER", "LOC"]}
    overall = eval(code, names)["overall"]
    assert (overall["strict"].correct, overall["partial"].partial) == (1, 1)


def test_label_studio(run):
    run("from_name")
    (task,) = json.loads(Path("predictions.json").read_text(encoding="utf-8"))
    results = task["predictions"][0]["result"]
    assert [result["score"] for result in results] == [0.9, 0.8]
    assert results[1]["value"] == {"start": 17, "end": 21, "labels": ["LOC"]}
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    export = [{"id": 1, "data": task["data"], "annotations": [{"result": [*results, relation]}]}]
    Path("export.json").write_text(json.dumps(export), encoding="utf-8")
    names = run("export.json")
    assert (names["texts"], names["spans"]) == ([TEXT], [SPANS])


ANSWERS = doctest.DocTestParser().get_examples((GUIDE / "answers.md").read_text(encoding="utf-8"))
BEST_SET: dict = {}
for example in ANSWERS:
    if re.match("from bisect|def best_set", example.source):
        exec(example.source, BEST_SET)
TYPES = [("start", int), ("stop", int), ("label", "U1"), ("probability", float)]
SEGMENT = st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from("AB"), st.integers(0, 8))


@given(st.lists(SEGMENT, max_size=8, unique_by=lambda drawn: drawn[:3]))
def test_best_set(drawn):
    """Against all sets; sums of eighths are exact."""
    segments = sorted((start, start + length, label, eighths / 8) for start, length, label, eighths in drawn)
    found = BEST_SET["best_set"](np.array(segments, TYPES))
    assert set(found) <= set(segments)
    sets = itertools.chain(*(itertools.combinations(segments, n) for n in range(len(segments) + 1)))
    apart = [one for one in sets if all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(one)))]
    assert tuple(found) in apart
    assert sum(p for *_, p in found) == max(sum(p for *_, p in one) for one in apart)


def test_best_set_of_equal_sums():
    segments = [(0, 1, "A", 0.25), (0, 2, "A", 0.5), (1, 2, "A", 0.25), (2, 3, "A", 0.5), (2, 3, "B", 0.5)]
    assert BEST_SET["best_set"](np.array(segments, TYPES)) == [(0, 2, "A", 0.5), (2, 3, "A", 0.5)]
    assert BEST_SET["best_set"](np.array([], TYPES)) == []


test_refusals = refusals(
    (lambda: SequenceFeatureExtractor().fit([["Ann", float("nan")]]),
     "the token nan is a float, .*; pandas.read_csv reads tokens such as NA as nan, unless keep_default_na=False$"),
    (lambda: SequenceFeatureExtractor().fit([[float("nan"), "Ann"]]),
     "the first token nan is a float; .*keep_default_na=False$"),
    (lambda: HighOrderCRF().fit([[{"word": "Ann"}, {"word": float("nan")}]], [["A", "B"]]),
     "^Input X contains NaN: sequence 0, position 1, attribute 'word' is nan; .*keep_default_na=False$"),
)  # fmt: skip
