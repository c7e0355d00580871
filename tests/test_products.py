"""The programs for products run on generated data, and choose and count as documented."""

import functools
import gzip
import importlib
import itertools
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

BENCHMARKS = Path(__file__).parent / "benchmarks"
PROGRAMS = ["usaddress", "conformal", "spans", "verse", "small_languages"]


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports a program; the fixture removes it and its modules from memory afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "products"))
    yield importlib.import_module
    for name in ["common", "protocol", *PROGRAMS]:
        sys.modules.pop(name, None)


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


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


def invent_names(folder, rng):
    for part in "train", "testa", "testb":
        blocks = []
        for _ in range(100):
            words = [(rng.choice(["en", "de", "Ana"]), "O"), (rng.choice(["Ana", "Luz", "Paz"]), "B-PER")]
            words += [(rng.choice(["Gil", "Ruiz"]), "I-PER")] * (rng.random() < 0.5) + [
                (rng.choice(["es", "Gil"]), "O")
            ]
            blocks.append("\n".join(f"{word} X {tag}" for word, tag in words))
        write(folder / "conll2002" / f"esp.{part}.gz", "\n\n".join(blocks) + "\n")


def invent_tags(folder, rng):
    for part in "train", "test":
        words = [" ".join(f"{rng.choice(tag + 'ab')}{n}/{tag}" for tag in "NVN" for n in "12") for _ in range(60)]
        write(folder / "khpos" / f"{part}.txt.gz", "\n".join(words) + "\n")


def invent_verses(folder, rng):
    lines = []
    for _ in range(120):
        labels = [label for _ in range(4) for label in rng.choice([["long"] * 2, ["long", "short", "short"]])]
        syllables = [rng.choice("bcd") + rng.choice("aei" if label == "long" else "iou") for label in labels]
        lines.append(json.dumps({"syllables": syllables, "word_start": [1] * len(labels), "labels": labels}))
    write(folder / "hexameter" / "aeneid.jsonl.gz", "\n".join(lines) + "\n")


VERSE = ["by default, python-crfsuite, tuned", "by default, order 1, tuned"]
ADDRESSES = ["python-crfsuite, tuned", "together, more features"]
ARGUMENTS = {
    "usaddress": ["--quick", "--rows", *ADDRESSES],
    "verse": ["--folds", "2", "--rows", *VERSE],
    "small_languages": ["--sets", "khpos"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "invent", "printed"),
    [
        ("usaddress", invent_addresses, ADDRESSES),
        ("conformal", invent_addresses, ["skipped: conll2002", "AddressNumber", "to 3 tokens", "strata are off"]),
        ("spans", invent_names, ["running fold", "exact, pairs fitted", "tokens, exact", "log loss"]),
        ("verse", invent_verses, [*VERSE, "long  short"]),
        ("small_languages", invent_tags, ["CRF++", "100.00", "sigma"]),
    ],
)
def test_programs_run(load, monkeypatch, tmp_path, capsys, name, invent, printed):
    if name in ("usaddress", "verse", "small_languages"):
        pytest.importorskip("pycrfsuite")
    invent(tmp_path, random.Random(0))
    monkeypatch.setenv("SKLEARN_HOCRF_DATA", str(tmp_path))
    load(name).main(ARGUMENTS.get(name, ["--quick"]))
    output = capsys.readouterr().out
    assert all(text in output for text in printed), output


def test_programs_say_what_is_absent(load, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SKLEARN_HOCRF_DATA", str(tmp_path))
    load("usaddress").main(["--quick"])
    assert capsys.readouterr().out.startswith("skipped: ")


def test_folds_are_those_of_the_protocol(load):
    folds = load("protocol").shuffled_folds(23, 10, seed=3)
    random.seed(3)
    indices = list(range(23))
    random.shuffle(indices)
    for k, (train, test) in enumerate(folds):
        assert test.tolist() == indices[k::10]
        assert sorted([*train, *test]) == list(range(23))


@pytest.mark.parametrize("with_pool", [False, True])
def test_choice_sees_the_training_part_alone(load, with_pool):
    protocol = load("protocol")
    rng = np.random.default_rng(0)
    y = [list(rng.choice(["a", "b"], size=5)) for _ in range(40)]
    X = [[[label if rng.random() < 0.8 else "?"] for label in labels] for labels in y]
    weak, strong = (("X", HighOrderCRF(sigma_reg=s)) for s in (0.01, 1.0))
    models = {"weak": [weak], "strong": [strong]} | ({"both": [weak, strong]} if with_pool else {})
    indices = np.arange(0, 40, 2)
    best = protocol.choose(models, {"X": X}, y, indices, 2)
    assert best == "strong"
    for i in range(1, 40, 2):
        X[i] = y[i] = None  # an error, if it were looked at
    assert protocol.choose(models, {"X": X}, y, indices, 2) == best


def test_pool_against_all_labellings(load, monkeypatch):
    protocol = load("protocol")
    monkeypatch.setattr(protocol, "N_BEST", 100)  # all 2 ** 3 of them
    rng = np.random.default_rng(0)
    y = [list(rng.choice(["a", "b"], size=3)) for _ in range(30)]
    X = {
        name: [[[label if rng.random() < 0.7 else "?", str(rng.integers(3))] for label in labels] for labels in y]
        for name in ("one", "other")
    }
    members = [("one", HighOrderCRF(max_order=2)), ("other", HighOrderSemiCRF(sigma_reg=3.0))]
    fitted = protocol.fit_all(members, X, y, np.arange(20))
    labels = protocol.rank(fitted, X, np.arange(20, 30))
    everything = [list(labels) for labels in itertools.product("ab", repeat=3)]
    for n in range(10):
        scores = [
            np.mean([model.log_likelihood([X[of][20 + n]], [other])[0] for of, model in fitted]) for other in everything
        ]
        assert labels[n] == everything[np.argmax(scores)]


def test_means_of_shuffles(load, capsys):
    protocol = load("protocol")
    y = [["a"]] * 8
    shuffles = []
    for right in (6, 4):
        results = {name: protocol.Results(y) for name in ("theirs", "ours")}
        for name, n in ("theirs", 2), ("ours", right):
            results[name].add(np.arange(8), [["a" if i < n else "b"] for i in range(8)], 1.0)
        shuffles.append(results)
    protocol.print_means(shuffles, "theirs")
    output = capsys.readouterr().out
    # two addresses gain in both shuffles, two in one: the sum of eight draws, in halves
    chances = functools.reduce(np.convolve, [[4 / 8, 2 / 8, 2 / 8]] * 8).cumsum()
    low, high = (100 * np.argmax(chances >= share) / 16 for share in (0.025, 0.975))
    assert "ours: 62.50, standard deviation 17.68 of [75.0, 50.0]" in output
    assert f"gain over theirs: +37.50 (+{low:.2f} to +{high:.2f})" in output
