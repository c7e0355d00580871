"""Products on their own data: the programs run on invented data, and choose and count as they say."""

import gzip
import importlib
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent / "benchmarks"
PROGRAMS = ["usaddress", "anystyle", "grobid"]


@pytest.fixture
def load(monkeypatch):
    """Import a program, and forget it and what it shares with others afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "products"))
    yield importlib.import_module
    for name in ["common", "protocol", *PROGRAMS]:
        sys.modules.pop(name, None)


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def invent_addresses(folder, rng):
    lines = []
    for _ in range(90):
        number, name = str(rng.randrange(1000)), rng.choice(["Oak", "Elm", "Main"])
        parts = [(number, "AddressNumber"), (name, "StreetName"), (rng.choice(["St.", "Ave,"]), "StreetNamePostType")]
        if rng.random() < 0.3:
            parts += [("&", "IntersectionSeparator"), (name, "StreetName"), ("St", "StreetNamePostType")]
        tokens, labels = map(list, zip(*parts, strict=True))
        features = [{"word": token.lower(), "digits": token.isdigit()} for token in tokens]
        for before, after in zip(features, features[1:], strict=False):
            before["next"] = {"word": after["word"]}
        lines.append(json.dumps({"text": "", "tokens": tokens, "labels": labels, "features": features}))
    write(folder / "usaddress" / "train.jsonl.gz", "\n".join(lines) + "\n")


def invent_references(folder, rng):
    blocks = []
    for _ in range(400):
        parts = [(rng.choice("ABCDEF") + ".", "author"), (str(rng.randrange(1900, 2000)), "date")]
        parts += [
            (rng.choice(["On", "Of"]), "title"),
            (rng.choice(["words", "labels"]) + str(rng.randrange(99)), "title"),
        ]
        columns = ["none"] * 16
        blocks.append("\n".join(" ".join([t, t.lower(), t[0], t[-1], *columns, label]) for t, label in parts))
    for name, part in ("core", blocks[:200]), ("gold", blocks[190:]):
        write(folder / "anystyle_references" / f"{name}.txt.gz", "\n\n".join(part) + "\n")
    write(folder / "anystyle_references" / "patterns.txt", "*\n\nU:a=%x[ 0,0]\n*:b=%X[-1,1]\n")


def invent_documents(folder, rng):
    blocks = []
    for _ in range(20):
        zones = ["front", *[rng.choice(["page", "body"]) for _ in range(4)]]
        lines = [
            " ".join([zone[0] if rng.random() < 0.9 else "x", str(n), f"I-{zone}" if n == 0 else zone])
            for zone in zones
            for n in range(rng.randrange(1, 4))
        ]
        blocks.append("\n".join(lines))
    write(folder / "grobid_zones" / "train.txt.gz", "\n\n".join(blocks) + "\n")
    write(folder / "grobid_zones" / "segmentation.template", "U00:%x[-1,0]\nU01:%x[0,0]\n\nB\n")


@pytest.mark.parametrize(
    ("name", "invent", "printed"),
    [
        ("usaddress", invent_addresses, ["python-crfsuite", "chosen, more features", "addresses a second"]),
        ("anystyle", invent_references, ["Wapiti", "order 3", "chosen"]),
        ("grobid", invent_documents, ["order 3", "chosen", "F1 of zones"]),
    ],
)
def test_programs_run(load, monkeypatch, tmp_path, capsys, name, invent, printed):
    if name == "usaddress":
        pytest.importorskip("pycrfsuite")
    invent(tmp_path, random.Random(0))
    monkeypatch.setenv("SKLEARN_HOCRF_DATA", str(tmp_path))
    load(name).main(["--quick"])
    output = capsys.readouterr().out
    assert all(text in output for text in printed), output


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_say_what_is_absent(load, monkeypatch, tmp_path, capsys, name):
    monkeypatch.setenv("SKLEARN_HOCRF_DATA", str(tmp_path))
    load(name).main(["--quick"])
    assert capsys.readouterr().out.startswith("skipped: ")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_short_and_use_public_names(name):
    text = (BENCHMARKS / "products" / f"{name}.py").read_text()
    assert text.count("\n") <= 150
    assert "sklearn_hocrf._" not in text


def test_folds_are_those_of_the_protocol(load):
    folds = load("protocol").shuffled_folds(23, 10, seed=3)
    random.seed(3)
    indices = list(range(23))
    random.shuffle(indices)
    for k, (train, test) in enumerate(folds):
        assert test.tolist() == indices[k::10]
        assert sorted([*train, *test]) == list(range(23))


def test_choice_sees_the_training_part_alone(load):
    protocol = load("protocol")
    rng = np.random.default_rng(0)
    y = [list(rng.choice(["a", "b"], size=5)) for _ in range(40)]
    X = [[[label if rng.random() < 0.8 else "?"] for label in labels] for labels in y]
    models = {s: ("X", {"sigma_reg": s}) for s in (0.01, 1.0)}
    indices = np.arange(0, 40, 2)
    best = protocol.choose(models, {"X": X}, y, indices, 2)
    assert best == 1.0
    for i in range(1, 40, 2):
        X[i] = y[i] = None  # an error, if it were looked at
    assert protocol.choose(models, {"X": X}, y, indices, 2) == best


def test_choice_can_meet_unknown_labels(load):
    y = [["a"], ["b"], ["a"], ["b"], ["c"], ["a"], ["b"], ["d"]]
    X = [[labels] for labels in y]
    models = {"only": ("X", {})}
    assert load("protocol").choose(models, {"X": X}, y, np.arange(8), 2) == "only"


def test_accepted_by_the_threshold_of_other_folds(load):
    y = [["a"]] * 400
    results = load("protocol").Results(y)
    for test in np.arange(200), np.arange(200, 400):
        probability = np.linspace(0, 1, 200)
        labels = [["a" if p >= 0.5 or p == 0 else "b"] for p in probability]
        results.add(test, labels, probability, 1.0)
    # 100 right above .5, and one wrong below it leaves 100 / 101 >= .99; two do not
    share, precision = results.accepted()
    assert share == pytest.approx(202 / 400)
    assert precision == pytest.approx(200 / 202)


def product_raises(labels):
    """Return whether usaddress' own loop raises its RepeatedLabelError."""
    seen, last, is_intersection = set(), None, False
    for label in labels:
        is_intersection |= label == "IntersectionSeparator"
        if "StreetName" in label and is_intersection:
            label = "Second" + label
        if label != last and label in seen:
            return True
        seen.add(label)
        last = label
    return False


def test_rule_is_that_of_the_product(load):
    rule = load("usaddress").no_repeats
    rng = random.Random(0)
    names = ["IntersectionSeparator", "StreetName", "StreetNamePostType", "PlaceName"]
    outcomes = set()
    for _ in range(2000):
        labels = [rng.choice(names) for _ in range(rng.randrange(6))]
        assert rule(labels) is not product_raises(labels)
        outcomes.add(rule(labels))
    assert outcomes == {True, False}


def test_results_are_kept(load, tmp_path):
    kept, calls = load("protocol").kept, []
    for _ in range(2):
        assert kept(tmp_path / "1 order 3", lambda: calls.append(1) or [0.5]) == [0.5]
    assert len(calls) == 1


def test_context_of_references(load):
    reference = [["none"] * 20 for _ in range(4)]
    reference[1][14], reference[2][14], reference[1][18] = "and", "in", "strong"
    added = [token[20:] for token in load("anystyle").context(reference)]
    assert [row[0] for row in added] == ["none", "none", "and", "in"]  # the last keyword before
    assert [row[1] for row in added] == ["and", "in", "none", "none"]  # the next one
    assert [row[4:] for row in added] == [["0", "1"], ["0", "1"], ["1", "0"], ["1", "0"]]
