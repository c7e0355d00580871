"""The recipes of the user guide, run with the libraries that they name, where there are some."""

import io
import json
import re
from pathlib import Path

import pytest

from sklearn_hocrf import text
from sklearn_hocrf.text import TokenizedText, spans_from_tags, tags_from_spans, tokenize

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "guide" / "recipes.md").read_text(encoding="utf-8")
TEXT = "Ann Lee lives in Oslo."
SPANS = [(0, 7, "PER"), (17, 21, "LOC")]
TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]


def recipe(title):
    """Return the lines of the code below a title of the page."""
    (lines,) = re.findall(rf"^{re.escape(title)}.*\n(?:.+\n)*\n```python\n((?:(?!```).*\n)+)", PAGE, re.MULTILINE)
    return lines


def run(title, **names):
    """Return the names of a recipe after it has run."""
    namespace = {name: getattr(text, name) for name in text.__all__} | names
    exec(recipe(title), namespace)
    return namespace


def test_conllu():
    pytest.importorskip("conllu", reason="conllu is absent")
    columns = "\t_" * 6
    source = f"# text = Ann left\n1\tAnn\tAnn\tPROPN{columns}\n2\tleft\tleave\tVERB{columns}\n\n"
    more = f"1-2\tzum\t_\t_{columns}\n1\tzu\tzu\tADP{columns}\n2\tdem\tder\t_{columns}\n2.1\tx\tx\tX{columns}\n\n"
    names = run("With the package conllu", source=more)
    assert [token["form"] for token in names["X"][0]] == ["zu", "dem"]
    assert names["y"] == [["ADP", None]]
    names = run("With the package conllu", source=source)
    assert names["X"] == [[{"form": "Ann", "lemma": "Ann"}, {"form": "left", "lemma": "leave"}]]
    assert names["y"] == [["PROPN", "VERB"]]


def test_spacy():
    spacy = pytest.importorskip("spacy", reason="spaCy is absent")
    doc = spacy.blank("en")(TEXT)
    doc.ents = [doc.char_span(*span) for span in SPANS]
    names = run("`docs` are spaCy documents", docs=[doc])
    assert names["X"] == [TokenizedText(TEXT, tokenize([TEXT])[0].offsets)]
    assert names["y"] == tags_from_spans(names["X"], [SPANS])
    words = spacy.tokens.Doc(doc.vocab, words=["Ann", " ", "met", "Bob"], ents=["B-PER", "O", "O", "O"])
    words.set_ents([spacy.tokens.Span(words, 0, 1, "PER")], missing=[words[3:4]], default="outside")
    assert run("`docs` are spaCy documents", docs=[words])["y"] == [["B-PER", "O", None]]
    doc.ents = []
    run("To set entities", docs=[doc], X=names["X"], y_pred=names["y"])
    assert [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents] == SPANS
    offsets_to_biluo_tags = spacy.training.offsets_to_biluo_tags
    assert tags_from_spans(names["X"], [SPANS], "bilou") == [offsets_to_biluo_tags(doc, SPANS)]


def test_datasets():
    datasets = pytest.importorskip("datasets", reason="datasets is absent")
    labels = datasets.ClassLabel(names=["O", "B-PER", "I-PER", "B-LOC"])
    sequence = getattr(datasets, "List", datasets.Sequence)
    features = datasets.Features({"tokens": sequence(datasets.Value("string")), "ner_tags": sequence(labels)})
    rows = {"tokens": [list(tokenize([TEXT])[0])], "ner_tags": [[1, 2, 0, 0, 3, -1]]}
    names = run("`data` is a dataset", data=datasets.Dataset.from_dict(rows, features=features))
    assert names["X"] == rows["tokens"]
    assert names["y"] == [[*TAGS[:-1], None]]


def test_nervaluate():
    nervaluate = pytest.importorskip("nervaluate", reason="nervaluate is absent")
    (code,) = re.findall(r"`(Evaluator\(.*?\)\.evaluate\(\))`", PAGE)
    found = [["B-PER", "O", "O", "O", "B-LOC", "O"]]
    names = {"Evaluator": nervaluate.Evaluator, "y_true": [TAGS], "y_pred": found, "labels": ["PER", "LOC"]}
    overall = eval(code, names)["overall"]
    assert (overall["strict"].correct, overall["partial"].partial) == (1, 1)


LINES_OF_DOCCANO = {  # a message, or the spans
    '{"id": 1, "text": "Ann left", "label": [], "Comments": []}\r': [],
    '{"text": "Ann", "entities": [{"id": 4, "label": "PER", "start_offset": 0, "end_offset": 3}], "relations": [{}]}': [
        (0, 3, "PER")
    ],
    '{"text": "Ann", "label": ["PERS"]}': "too many values to unpack",
    '{"text": "Ann", "entities": [{"start_offset": 0}]}': "end_offset",
    '{"text": "Ann", "annotations": [{"start_offset": 0, "end_offset": 3}]}': "label",
    '{"data": "Ann", "label": []}': "text",
    '[{"text": "Ann", "label": []}]': "no attribute 'get'",
    '{"text": "Ann"}': "no spans",
    '{"text": "Ann", "label": [], "entities": []}': "several lists of spans",
    '{"text": "Ann", "label": [[0, 3, "PER"], [0, 3, "LOC"]]}': "overlap",
    '{"text": "\U0001f600", "label": [[0, 2, "X"]]}': "ends after the text",
}


@pytest.mark.parametrize("line", LINES_OF_DOCCANO)
def test_odd_lines_of_doccano(line):
    code = recipe("Open files with")
    lines = [part[4:] for part in code.split("\n") if part.startswith((">>> ", "... "))]
    namespace = {}
    exec("\n".join(lines[: lines.index("    return texts, spans") + 1]), namespace)
    expected = LINES_OF_DOCCANO[line]
    if isinstance(expected, list):
        assert namespace["read_doccano"](["\n", line])[1] == [expected]
        return

    def read():
        texts, spans = namespace["read_doccano"]([line])
        tags_from_spans(tokenize(texts), spans)

    with pytest.raises((ValueError, TypeError, KeyError, AttributeError), match=expected):
        read()


def region(start, end, text=None, labels=("PER",), kind="labels"):
    value = {"start": start, "end": end, "labels": list(labels), **({} if text is None else {"text": text})}
    return {"type": kind, "value": value}


def task(*annotations, text=TEXT, **keys):
    return {"id": 1, "data": {"text": text}, "annotations": list(annotations), **keys}


def made(*regions, **keys):
    return {"result": list(regions), **keys}


ANN, LEE = region(0, 3, "Ann"), region(4, 7, "Lee")
EXPORTS = {  # a message, or texts and spans
    "nobody has labelled it": ([task(), task(made(ANN))], ([TEXT], [[(0, 3, "PER")]])),
    "skipped": ([task(made(was_cancelled=True)), task(made(ANN))], ([TEXT], [[(0, 3, "PER")]])),
    "skipped by one": ([task(made(was_cancelled=True), made(ANN, was_cancelled=False))], ([TEXT], [[(0, 3, "PER")]])),
    "without names": ([task(made())], ([TEXT], [[]])),
    "two annotators": ([task(made(ANN), made(LEE))], "task 0 has 2 annotations: keep one"),
    "two labels": ([task(made(region(0, 3, "Ann", ["PER", "LOC"])))], "task 0: .* needs one label"),
    "no label": ([task(made(region(0, 3, "Ann", [])))], "needs one label"),
    "UTF-16": ([task(made(region(5, 6, "a")), text="\U0001f600\U0001f600 a b c")], "has the text 'b' at its offsets"),
    "UTF-16 at the end": ([task(made(region(3, 6, "Ann")), text="\U0001f600 Ann")], "has the text 'nn' at its"),
    "lines": ([task(made(region(0, 7, "Ann\\nLee")), text="Ann\nLee")], (["Ann\nLee"], [[(0, 7, "PER")]])),
    "CRLF": ([task(made(region(0, 8, "Ann\\n\\nLee")), text="Ann\r\nLee")], (["Ann\r\nLee"], [[(0, 8, "PER")]])),
    "a backslash": ([task(made(region(0, 6, "C:\\new")), text="C:\\new x")], (["C:\\new x"], [[(0, 6, "PER")]])),
    "HTML": ([task(made({"type": "hypertextlabels", "value": {"hypertextlabels": ["PER"]}}))], "start"),
    "CRLF that became LF": ([task(made(region(5, 8, "Lee")), text="Ann\nLee")], "has the text 'ee' at its offsets"),
    "another key": (
        [{"id": 1, "data": {"body": TEXT}, "annotations": []}],
        "'text'",
    ),
    "min": ([{"id": 1, "text": TEXT, "label": []}], "'data'"),
    "old": ([{"id": 1, "data": {"text": TEXT}, "completions": []}], "'annotations'"),
    "relations": ([task(made(ANN, {"type": "relation"}, region(4, 7, kind="choices")))], ([TEXT], [[(0, 3, "PER")]])),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_odd_exports_of_label_studio(name):
    """What the recipe leaves out it says, and no span gets a label that the annotator gave to another text."""
    tasks, expected = EXPORTS[name]
    if isinstance(expected, str):
        with pytest.raises((ValueError, KeyError), match=expected):
            run("To read a Label Studio export", source=json.dumps(tasks))
        return
    names = run("To read a Label Studio export", source=json.dumps(tasks))
    assert (names["texts"], names["spans"]) == expected
    assert len(tags_from_spans(tokenize(names["texts"]), names["spans"])) == len(expected[0])


def test_tables_with_na():
    """Tokens that pandas takes for missing values stay tokens; an empty cell is an unknown label, never ''."""
    pd = pytest.importorskip("pandas", reason="pandas is absent")
    lines = [line[4:] for line in recipe("A CSV file").splitlines() if line.startswith((">>> ", "... "))]
    (read,) = [n for n, line in enumerate(lines) if "pd.read_csv" in line]
    table = "doc,word,tag\nd1,NA,A\nd1,null,\nd2,,B\nd2,nan,A\n,last,A\n"
    names = {"pd": pd, "path": io.StringIO(table)}
    exec("\n".join(lines[read - 1 : read + 2]), names)  # with the values that stand for nothing
    frame = names["frame"]
    assert frame["word"].tolist() == ["NA", "null", "", "nan", "last"]
    assert frame["tag"].tolist() == ["A", None, "B", "A", "A"]
    assert frame["doc"].isna().tolist() == [False] * 4 + [True]


def test_label_studio():
    spans = spans_from_tags(tokenize([TEXT]), [TAGS], probability=[[0.5, 0.25]])
    (task,) = run("To import spans", texts=[TEXT], spans=spans)["predictions"]
    results = task["predictions"][0]["result"]
    assert [result["score"] for result in results] == [0.5, 0.25]
    assert results[1]["value"] == {"start": 17, "end": 21, "labels": ["LOC"]}
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    export = [{"id": 1, "data": task["data"], "annotations": [{"result": [*results, relation]}]}]
    names = run("To read a Label Studio export", source=json.dumps(export))
    assert (names["texts"], names["spans"]) == ([TEXT], [SPANS])
