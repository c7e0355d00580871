"""The hocrf commands: their output, their errors, and their imports."""

import io
import json
import math
import os
import re
import subprocess
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from internals import main
from refusals import refusals
from sklearn.linear_model import LinearRegression

from sklearn_hocrf import Constraints, HighOrderCRF, make_pipeline, metrics
from sklearn_hocrf.datasets import load_conll, make_name_sentences
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

X, Y = make_name_sentences(120, random_state=0)
LINES = ["\n".join(f"{w}\t{len(w)}\t{tag}" for w, tag in zip(*pair, strict=True)) for pair in zip(X, Y, strict=True)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    train, test, model = folder / "train.conll", folder / "test.conll", folder / "names.hocrf"
    train.write_text("\n\n".join(LINES[:100]) + "\n", encoding="utf-8")
    test.write_text("\n\n".join(LINES[100:]) + "\n", encoding="utf-8")
    assert main(["fit", str(train), "-o", str(model), "--order", "2", "--constraints", "bio"]) == 0
    return train, test, model


def tag(monkeypatch, capsys, text, *arguments):
    stream = io.TextIOWrapper(io.BytesIO(text if isinstance(text, bytes) else text.encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    monkeypatch.setattr("sys.stdout.reconfigure", lambda **_: None, raising=False)
    status = main(["tag", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_tags_are_those_of_the_model(files, monkeypatch, capsys):
    _, test, model = files
    tagger = Tagger(model)
    tokens = [[{"0": token["0"], "1": token["1"]} for token in sentence] for sentence in load_conll(test)[0]]
    for content in test.read_text(encoding="utf-8"), test.read_text(encoding="utf-8").replace("\n\n", "\n \n\n"):
        status, out, _ = tag(monkeypatch, capsys, content, model)
        blocks = [block.split("\n") for block in re.split("\n\n+", out.strip("\n"))]
        assert status == 0
        assert [[line.split("\t")[-1] for line in block] for block in blocks] == [tagger.predict(s) for s in tokens]
        assert ["\n".join(line.rpartition("\t")[0] for line in block) for block in blocks] == LINES[100:]


def test_segments_and_best_labellings(files, monkeypatch, capsys):
    tokens = "Victoria\t8\nBerg\t4\nleft\t4\n"
    _, out, _ = tag(monkeypatch, capsys, tokens, files[2], "--nbest", "2")
    heads = [line.split() for line in out.split("\n") if line.startswith("# ")]
    assert [head[1] for head in heads] == ["0", "1"]
    assert float(heads[0][2]) >= float(heads[1][2])
    _, out, _ = tag(monkeypatch, capsys, "\n" + tokens + "\nBerg\t4\n", files[2], "--json")
    first, second = map(json.loads, out.splitlines())
    assert (first["line"], second["line"]) == (2, 6)
    assert first["probability"] == pytest.approx(math.exp(float(heads[0][2])), abs=1e-6)
    assert first["labels"] == ["B-PER", "I-PER", "O"]
    (span,) = first["segments"]
    assert 0 < span.pop("probability") <= 1
    assert span == {"start": 0, "stop": 2, "label": "PER", "text": "Victoria Berg"}


@pytest.mark.parametrize("content", ["", "\n", "a\n", "a", "\n\na\nb\n\n\n \t\r\nc\n\n\n", "\n\na\nb\n\n\n\nc"])
@pytest.mark.parametrize("is_file", [False, True])
def test_as_many_lines_come_out_as_go_in(files, tmp_path, monkeypatch, capsys, content, is_file):
    """Each line is answered where it stands, so that the output can be pasted beside the input."""
    content = re.sub("([abc])", r"\1 1", content)
    (tmp_path / "lines").write_text(content)
    status, out, err = tag(monkeypatch, capsys, content, files[2], *[tmp_path / "lines"] * is_file)
    assert (status, err) == (0, "")
    given, found = content.splitlines(), out.splitlines()
    assert [line.strip() for line in given] == [line.split("\t")[0] for line in found]
    assert [len(line.split("\t")) for line in found] == [2 if line.strip() else 1 for line in given]
    assert out in ("", "\n") or out.endswith("\n")


def test_models_that_cannot_be_exported(tmp_path, monkeypatch, capsys):
    skops = pytest.importorskip("skops.io", reason="skops is absent")
    monkeypatch.chdir(tmp_path)
    messages = {
        "HighOrderCRF": (HighOrderCRF(), "This HighOrderCRF instance is not fitted yet\n"),
        "list": ([1, 2], "it holds a list, not a HighOrderCRF, alone or behind an extractor"),
        "LinearRegression": (
            LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0]),
            "it holds a LinearRegression, not a HighOrderCRF, alone or behind",
        ),
    }
    for name, (model, message) in messages.items():
        skops.dump(model, f"{name}.skops")
        assert main(["export", f"{name}.skops", "-o", "model.hocrf"]) == 2
        assert capsys.readouterr().err.startswith(f"hocrf export: {name}.skops: {message}")


def test_lines_between_documents_are_told(files, tmp_path, capsys):
    _, test, model = files
    path, content = tmp_path / "documents.conll", test.read_text(encoding="utf-8")
    path.write_text("-DOCSTART-\t10\tO\n\n" + content + "\n-DOCSTART-\t10\tO\n", encoding="utf-8")
    for command in (["fit", str(path), "-o", str(tmp_path / "model"), "--max-iter", "1"], ["evaluate", model, path]):
        assert main([*map(str, command)]) == 0
        message = f"hocrf {command[0]}: 2 sequences begin with -DOCSTART-, .*: remove such lines, as grep -v"
        assert re.search(message, capsys.readouterr().err)
    assert main(["evaluate", str(model), str(test)]) == 0
    assert "DOCSTART" not in capsys.readouterr().err


def test_models_of_skops_are_exported(files, tmp_path, capsys):
    skops = pytest.importorskip("skops.io", reason="skops is absent")
    from sklearn_hocrf import HighOrderCRF

    crf = HighOrderCRF().fit([[{"0": "a"}, {"0": "b"}]], [["A", "B"]])
    skops.dump(crf, tmp_path / "model.skops")
    assert main(["export", str(tmp_path / "model.skops"), "-o", str(tmp_path / "model.hocrf")]) == 0
    x = [{"0": "b"}, {"0": "a"}]
    assert Tagger(tmp_path / "model.hocrf").predict(x) == crf.predict([x])[0]


@cache
def model_of_the_command():
    with TemporaryDirectory() as folder:
        train, model = os.path.join(folder, "train"), os.path.join(folder, "model")
        Path(train).write_text("\n\n".join(LINES[:20]) + "\n", encoding="utf-8")
        assert main(["fit", train, "-o", model]) == 0
        return {"train": Path(train).read_bytes(), "model": Path(model).read_bytes()}


def refused(command, content=""):
    """Raise a ValueError with the message of a command that is refused."""
    written = {"empty": b"\n\n", "single": b"a\n\nb\n", "narrow": b"a A\nb B\n", "iob1": b"a I-a\nb O\n"}
    written |= {"templates": b"B\nU:%t[0,0]\n", "wide": b"U:%x[0,1]\n", **model_of_the_command()}
    streams = {"stdin": io.TextIOWrapper(io.BytesIO(content.encode())), "stdout": io.TextIOWrapper(io.BytesIO())}
    with TemporaryDirectory() as folder, chdir(folder), mock.patch.multiple(sys, **streams, stderr=io.StringIO()):
        for name, content_of in written.items():
            Path(name).write_bytes(content_of)
        try:
            status = main(command.split())
        except SystemExit as of_argparse:
            status = of_argparse.code
        assert (status, sorted(os.listdir())) == (2, sorted(written))
        raise ValueError(sys.stderr.getvalue())


TEMPLATES = "# words\nU00:%x[0,0]\nU01:%x[-1,0]/%X[0,0]\nU02:%x[ 1,1]\nB03:%x[0,1]\nB\n"


def test_template_files(files, tmp_path, monkeypatch, capsys):
    """A model with templates tags as the pipeline of the same templates does, and counts its columns."""
    train, test, _ = files
    template, model = tmp_path / "template", tmp_path / "model.hocrf"
    template.write_text(TEMPLATES, encoding="utf-8")
    assert main(["fit", str(train), "-o", str(model), "--templates", str(template), "--sigma", "2"]) == 0
    templates = SequenceFeatureExtractor.from_file(template)
    crf = HighOrderCRF(templates.max_order, feature_order=templates.feature_order, sigma_reg=2.0)
    X_train, y_train = load_conll(train)
    rows = [[tuple(token.values()) for token in tokens] for tokens in X_train]
    expected = make_pipeline(templates, crf).fit(rows, y_train)
    assert expected[-1].max_order == 1
    test_rows = [[tuple(token.values()) for token in tokens] for tokens in load_conll(test)[0]]
    _, out, _ = tag(monkeypatch, capsys, test.read_text(encoding="utf-8"), model)
    found = [[line.split("\t")[-1] for line in block.split("\n")] for block in out.strip("\n").split("\n\n")]
    assert found == [list(labels) for labels in expected.predict(test_rows)]
    status, _, err = tag(monkeypatch, capsys, "Ann 3\n\nAnn\n", model)
    assert (status, err.strip()) == (
        2,
        "hocrf tag: standard input, line 3: 1 columns, but the lines before have 2 (a line is one token, an empty line "
        "ends a sequence)",
    )
    status, _, err = tag(monkeypatch, capsys, "\n\nAnn\n", model)
    assert (status, err.strip()) == (2, "hocrf tag: standard input, line 3: 1 columns, but the model reads 2")
    assert main(["evaluate", str(model), str(test)]) == 0


def test_bytes_that_are_no_text(files, tmp_path, monkeypatch, capsys):
    status, out, err = tag(monkeypatch, capsys, b"Ann\t3\n\nB\xffrg\t4\n", files[2])
    assert (status, out.split("\t")[0]) == (2, "Ann")  # what came before is answered
    assert err.strip() == "hocrf tag: standard input, line 3, character 2: the byte 0xff is not UTF-8"
    (tmp_path / "template").write_bytes(b"\xef\xbb\xbfB\nU:\xe9%x[0,0]\n")
    with pytest.raises(ValueError, match=r"template is not UTF-8: invalid continuation byte, 0xe9"):
        SequenceFeatureExtractor.from_file(tmp_path / "template")


def test_lines_go_to_the_fields_of_a_model(tmp_path, monkeypatch, capsys):
    """Models that were not trained by the command: words, rows, other fields."""
    y, path = [["A", "B"], ["B"]], tmp_path / "model.hocrf"
    forms = {"words": [["a", "b"], ["b"]], "rows": [[("a", "x"), ("b", "y")], [("b", "x")]]}
    forms["fields"] = [[dict(zip("wp", row, strict=True)) for row in rows] for rows in forms["rows"]]
    found = {}
    for name, X in forms.items():
        export_tagger(make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X, y), path)
        found[name] = tag(monkeypatch, capsys, "a x 1\nb y 2\n", path)
    assert [status for status, *_ in found.values()] == [0, 0, 2]
    assert found["words"][1] == found["rows"][1] == "a x 1\tA\nb y 2\tB\n"
    assert "the model reads the fields w, p, but a line has columns by number" in found["fields"][2]


def test_sequences_without_an_answer_are_named(tmp_path, monkeypatch, capsys):
    crf = HighOrderCRF(constraints=Constraints(allow=[("A", "B")], start=["A"], end=["B"]))
    export_tagger(crf.fit([[{"0": "a"}, {"0": "b"}]], [["A", "B"]]), tmp_path / "model.hocrf")
    status, out, err = tag(monkeypatch, capsys, "a\nb\n\n\na\nb\nc\n", tmp_path / "model.hocrf")
    assert (status, out) == (2, "a\tA\nb\tB\n\n\n")
    assert "standard input, lines 5 to 7: the constraints of the model allow no labelling" in err


def test_tagging_streams_and_needs_numpy_alone(files):
    """The first sentence is answered before the second one comes; a reader that goes away is no error."""
    code = (
        "import sys; from sklearn_hocrf.__main__ import main; status = main(sys.argv[1:]); "
        "assert not {'sklearn', 'scipy', 'numba', 'joblib'} & set(sys.modules), sorted(sys.modules); sys.exit(status)"
    )
    command = [sys.executable, "-c", code, "tag", str(files[2])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, encoding="utf-8") as process:
        output, errors = process.communicate("Ann\t3\n\nBerg\t4\n")
    assert (process.returncode, errors) == (0, "")
    assert [line.split("\t")[0] for line in output.split("\n") if line] == ["Ann", "Berg"]
    with subprocess.Popen(command, **pipes, text=True, encoding="utf-8") as process:
        process.stdout.close()
        try:
            process.stdin.write("Ann\t3\n\n" * 20_000)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.stderr.read() == ""


# --- the scheme of the model ------------------------------------------------------------------------------------------

BIOES = "Ann S-P\nmet O\nBob B-P\nLee E-P\n\nJo B-P\nvan I-P\nDam E-P\nran O\n\n"
BIO = "Ann B-P\nmet O\nBob B-P\nLee I-P\n\nJo B-P\nvan I-P\nDam I-P\nran O\n\n"


@pytest.mark.parametrize(
    ("train", "test", "scheme"),
    [
        (BIO, "Bob O\nLee O\nran O\n\n", "bio"),
        (BIOES, "Bob B-P\nLee I-P\nran O\n\n", "bioes"),
        (BIOES.replace("S-", "U-").replace("E-", "L-"), "Bob B-P\nLee I-P\nran O\n\n", "bilou"),
        (BIOES.replace("I-", "M-"), "Jo B-P\nvan E-P\nDam O\n\n", "bmes"),
        (BIO.replace("-P", ""), "Bob B\nLee O\nran O\n\n", "bio"),
    ],
)
def test_evaluation_takes_the_scheme_of_the_model(tmp_path, capsys, train, test, scheme):
    """A small test file lacks tags of the scheme, or has no segment at all; nothing undefined is warned of."""
    (tmp_path / "train").write_text(train * 4)
    (tmp_path / "test").write_text(test)
    assert main(["fit", str(tmp_path / "train"), "-o", str(tmp_path / "m")]) == 0
    assert Tagger(tmp_path / "m").scheme == scheme
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "test")]) == 0
    out, err = capsys.readouterr()
    rows = [line.split()[0] for line in out.splitlines() if line]
    label = "P" if "-P" in train else "_"
    assert [row for row in rows if row not in ("precision", "micro", "macro", "weighted", "token")] == [label]
    assert out.rstrip().endswith(f"segments by --scheme {scheme}")
    assert {"token accuracy", "sequence accuracy"} <= set(re.findall(r"\w+ accuracy", out))
    assert err == ""


# --- outputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["itself", "symbolic link", "hard link", "templates"])
def test_an_input_is_not_replaced(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    train, output = tmp_path / "train", tmp_path / "output"
    train.write_text(BIO)
    (tmp_path / "templates").write_text("U:%x[0,0]\nB\n")
    {"symbolic link": output.symlink_to, "hard link": output.hardlink_to}.get(kind, lambda _: None)(train)
    name = {"itself": "../" + tmp_path.name + "/train", "templates": "templates"}.get(kind, "output")
    assert main(["fit", "train", "--templates", "templates", "-o", name]) == 2
    assert "are one file" in (err := capsys.readouterr().err)
    assert f"the output {name} " in err
    assert train.read_text() == BIO
    assert output.is_symlink() == (kind == "symbolic link")
    pytest.importorskip("skops", reason="skops is absent")
    assert main(["export", "train", "-o", "train"]) == 2
    assert "the output train and the input train are one file" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["nowhere/m.hocrf", ".", "train/m.hocrf", "x" * 250, "pipe"])
def test_outputs_are_checked_before_training(tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").write_text(BIO)
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    assert main(["fit", "train", "-o", output]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1  # no progress of training
    assert "cannot be written" in err
    assert repr(output) in err
    assert ".lock" not in err
    with pytest.raises(OSError, match="cannot be written") as caught:
        export_tagger(HighOrderCRF().fit([[["a"], ["b"]]], [["A", "B"]]), output)
    assert caught.value.filename == output
    assert sorted(os.listdir(tmp_path)) == before


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="needs sh")
def test_input_that_is_the_output(tmp_path, capsys):
    (tmp_path / "train").write_text(BIO)
    assert main(["fit", str(tmp_path / "train"), "-o", str(tmp_path / "m")]) == 0
    assert (capsys.readouterr().out, (tmp_path / "m").exists()) == ("", True)
    command = f'"{sys.executable}" -m sklearn_hocrf tag m < train >> train'
    run = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (2, "hocrf tag: standard input and standard output are one file\n")
    assert (tmp_path / "train").read_text() == BIO


def test_long_lines_are_refused_in_little_memory(files, monkeypatch, capsys):
    status, _, err = tag(monkeypatch, capsys, "Ann\t3\n\n" + "0" * (1 << 20) + "1\t2\n", files[2])
    assert (status, err) == (2, "hocrf tag: standard input, line 3: more than 1048576 characters\n")
    status, out, _ = tag(monkeypatch, capsys, "0" * (1 << 20) + "\n", files[2])
    assert status == 2  # one column, but a line


test_refusals = refusals(
    (lambda value: refused("tag model", value),
     ("^hocrf tag: standard input, line 2: 1 columns, but the lines before have 2", "a\t1\nb\n"),
     ("^hocrf tag: standard input, line 4: 1 columns, but the lines before have 2", "a\t1\n\n\nb\n"),
     ("^hocrf tag: standard input, line 2: 1 columns, but the model reads 2", "\nb\n")),
    (lambda value: refused(value, "a 1\n"),
     ("^hocrf tag: .*absent.hocrf", "tag absent.hocrf"),
     ("^hocrf tag: .*train", "tag train"),
     ("^hocrf tag: .*No such file or directory: 'absent'", "tag model absent"),
     ("^hocrf tag: --nbest must be at least 1, got 0$", "tag model --nbest 0")),
    (refused,
     ("narrow: 1 columns and the label, but the model reads 2 columns", "evaluate model narrow"),
     ("^hocrf evaluate: .*empty", "evaluate model empty"),
     ("single, line 1: one column, 'a', but the label is the last of two or more", "evaluate model single",
      "fit single -o new"),
     ("^hocrf fit: .*absent", "fit train -o new --templates absent"),
     ("templates, line 2: %t", "fit train -o new --templates templates"),
     ("the tokens have the columns .*, but the templates read 2", "fit narrow -o new --templates wide"),
     ("^hocrf fit: .*empty", "fit empty -o new"),
     ("train: The '--sigma' parameter of HighOrderCRF must be .*Got 0", "fit train -o new --sigma 0"),
     ("train: The '--sigma' parameter of HighOrderCRF must be .*Got nan", "fit train -o new --sigma nan"),
     ("train: The '--order' parameter of HighOrderCRF must be .*Got -1", "fit train -o new --order -1"),
     ("argument --order: invalid int value: 'x'", "fit train -o new --order x"),
     ("train: The '--l1' parameter of HighOrderCRF must be .*Got inf", "fit train -o new --l1 inf"),
     (r"--constraints must be bio, bioes, .*, got bioe \(", "fit train -o new --constraints bioe"),
     (r"^hocrf fit: train: sequence \d+, position \d+: .* is forbidden by --constraints=\"bioes\";",
      "fit train -o new --constraints bioes"),
     (r"train: 'I-...' of the labels \(--constraints=\"bmes\"\) is not a tag of scheme='bmes', whose tags are 'O', ",
      "fit train -o new --constraints bmes"),
     (r"narrow: 'A' of the labels \(--constraints=\"bio\"\) is not a tag of scheme='bio',",
      "fit narrow -o new --constraints bio"),
     ("iob1: sequence 0, position 0: 'I-a' at the start of a sequence is forbidden by --constraints=\"bio\"",
      "fit iob1 -o new --constraints bio"),
     ("^hocrf fit: train: --sigma=1e-200 is too small", "fit train -o new --sigma 1e-200")),
    (lambda: metrics.nonsense, (AttributeError, "'sklearn_hocrf.metrics' has no attribute 'nonsense'$")),
)  # fmt: skip
