"""The commands of hocrf: what they write, what they refuse, and what they import."""

import io
import subprocess
import sys

import pytest
from internals import main

from sklearn_hocrf.datasets import load_conll, make_name_sentences
from sklearn_hocrf.tagger import Tagger

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
    stream = io.TextIOWrapper(io.BytesIO(text.encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    monkeypatch.setattr("sys.stdout.reconfigure", lambda **_: None, raising=False)
    status = main(["tag", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_tags_are_those_of_the_model(files, monkeypatch, capsys):
    _, test, model = files
    tagger = Tagger(model)
    tokens = [[{"0": token["0"], "1": token["1"]} for token in sentence] for sentence in load_conll(test).data]
    for content in test.read_text(encoding="utf-8"), test.read_text(encoding="utf-8").replace("\n\n", "\n \n\n"):
        status, out, _ = tag(monkeypatch, capsys, content, model)
        blocks = [block.split("\n") for block in out.strip("\n").split("\n\n")]
        assert status == 0
        assert [[line.split("\t")[-1] for line in block] for block in blocks] == [tagger.tag(s) for s in tokens]
        assert ["\n".join(line.rpartition("\t")[0] for line in block) for block in blocks] == LINES[100:]


def test_probabilities_segments_and_best_labellings(files, monkeypatch, capsys):
    tokens = "Victoria\t8\nBerg\t4\nleft\t4\n"
    _, out, _ = tag(monkeypatch, capsys, tokens, files[2], "--probability")
    assert [line.split("\t")[2] for line in out.strip().split("\n")] == ["B-PER", "I-PER", "O"]
    assert all(0 < float(line.split("\t")[3]) <= 1 for line in out.strip().split("\n"))
    _, out, _ = tag(monkeypatch, capsys, tokens, files[2], "--segments")
    start, stop, label, probability, text = out.strip().split("\t")
    assert (start, stop, label, text) == ("0", "2", "PER", "Victoria Berg")
    assert 0 < float(probability) <= 1
    _, out, _ = tag(monkeypatch, capsys, tokens, files[2], "--nbest", "2")
    heads = [line.split() for line in out.split("\n") if line.startswith("# ")]
    assert [head[1] for head in heads] == ["0", "1"]
    assert float(heads[0][2]) >= float(heads[1][2])


def test_evaluation_reports_by_label(files, capsys):
    assert main(["evaluate", str(files[2]), str(files[1])]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("PER", "LOC", "ORG", "token accuracy", "sequence accuracy"))


def test_models_of_skops_are_exported(files, tmp_path, capsys):
    skops = pytest.importorskip("skops.io", reason="skops is absent")
    from sklearn_hocrf import HighOrderCRF

    crf = HighOrderCRF().fit([[{"0": "a"}, {"0": "b"}]], [["A", "B"]])
    skops.dump(crf, tmp_path / "model.skops")
    assert main(["export", str(tmp_path / "model.skops"), "-o", str(tmp_path / "model.hocrf")]) == 0
    assert Tagger(tmp_path / "model.hocrf").tag([{"0": "b"}, {"0": "a"}]) == crf.predict([[{"0": "b"}, {"0": "a"}]])[0]


@pytest.mark.parametrize(
    ("arguments", "content", "message"),
    [
        (["tag", "MODEL"], "a\t1\nb\n", "hocrf tag: standard input, line 2: 1 columns, but the lines before have 2"),
        (["tag", "absent.hocrf"], "a 1\n", "hocrf tag: .*absent.hocrf"),
        (["tag", "TRAIN"], "a 1\n", "hocrf tag: "),
        (["evaluate", "MODEL", "EMPTY"], "", "there are no tokens"),
        (["fit", "EMPTY", "-o", "new.hocrf"], "", "hocrf fit: "),
        (["fit", "TRAIN", "-o", "new.hocrf", "--sigma", "-1"], "", "sigma_reg"),
    ],
)
def test_what_is_refused_is_named(files, monkeypatch, capsys, tmp_path, arguments, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("\n\n")
    paths = {"TRAIN": files[0], "MODEL": files[2], "EMPTY": tmp_path / "empty"}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    monkeypatch.setattr("sys.stdout.reconfigure", lambda **_: None, raising=False)
    assert main([str(paths.get(argument, argument)) for argument in arguments]) == 2
    assert pytest.importorskip("re").search(message, capsys.readouterr().err)
    assert not (tmp_path / "new.hocrf").exists()


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
