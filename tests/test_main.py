"""The demonstration runs, and shows what it is there to show."""

import subprocess
import sys

import pytest
from internals import Counter, WarmUp, main


def table_of(output):
    """Return the rows of the printed table as dicts of floats."""
    _, header, *rows = output.splitlines()
    return [dict(zip(header.split(), map(float, row.split()), strict=True)) for row in rows]


def test_table(capsys):
    assert main(["--max-order", "2", "--words", "12", "--seed", "3"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("12 training words")
    first, second = table_of(output)
    assert list(first) == ["order", "patterns", "states", "accuracy", "seconds"]
    assert (first["order"], second["order"]) == (1, 2)
    assert first["states"] == 11  # the empty pattern and the ten digits
    assert 10 < first["patterns"] < second["patterns"]
    assert 0 < first["accuracy"] < 1


@pytest.mark.parametrize("seed", [0, 1])
def test_order_3_beats_order_1_by_five_points(capsys, seed):
    main(["--seed", str(seed)])
    rows = table_of(capsys.readouterr().out)
    assert [row["order"] for row in rows] == [1, 2, 3]
    assert rows[2]["accuracy"] >= rows[0]["accuracy"] + 0.05


@pytest.mark.parametrize("arguments", [["--max-order", "0"], ["--words", "none"], ["--what"], ["warm"]])
def test_bad_arguments_end_with_a_message(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_warm_up_says_what_it_has_done(capsys, monkeypatch):
    monkeypatch.setattr("sklearn_hocrf._warm_up.warm_up", lambda tell: WarmUp(7, 5, "folder", 1.2))
    assert main(["warm-up"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("5 kernels compiled, 2 were there: folder (1 s)\n", "")


@pytest.mark.parametrize(
    ("is_terminal", "expected"),
    [
        (True, "0/3 models, 0 kernels\r1/3 models, 4 kernels\r2/3 models, 5 kernels\r3/3 models, 7 kernels\n"),
        (False, "0/3 models, 0 kernels\n2/3 models, 5 kernels\n"),  # one in ten seconds
    ],
)
def test_warm_up_counts(capsys, monkeypatch, is_terminal, expected):
    counter = Counter()
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    for now, n_kernels in enumerate([0, 4, 5, 7]):
        monkeypatch.setattr("time.monotonic", lambda now=now: 6.0 * now)
        counter(now, 3, n_kernels)
    assert capsys.readouterr() == ("", expected)


def test_warm_up_that_can_keep_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "other"))  # which numba has not taken
    assert main(["warm-up"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"NUMBA_CACHE_DIR={tmp_path / 'other'} is not writable" in err


def test_help_from_the_command_line():
    run = subprocess.run([sys.executable, "-m", "sklearn_hocrf", "--help"], capture_output=True, text=True, check=True)
    assert "python -m sklearn_hocrf" in run.stdout
