"""The demonstration, and the warm-up."""

import subprocess
import sys

import pytest
from internals import WarmUp, main, tell_progress


def test_order_3_beats_order_1_by_five_points(capsys):
    assert main([]) == 0
    _, header, *lines = capsys.readouterr().out.splitlines()
    rows = [dict(zip(header.split(), map(float, line.split()), strict=True)) for line in lines]
    assert [row["order"] for row in rows] == [1, 2, 3]
    assert rows[0]["states"] == 11  # the empty pattern and the ten digits
    assert 10 < rows[0]["patterns"] < rows[1]["patterns"]
    assert rows[2]["accuracy"] >= rows[0]["accuracy"] + 0.05


@pytest.mark.parametrize("arguments", [["warm-up", "--what"], ["warm"]])
def test_bad_arguments_end_with_a_message(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_warm_up_says_what_it_has_done(capsys, monkeypatch):
    monkeypatch.setattr("sklearn_hocrf._shell.warm_up.warm_up", lambda tell: WarmUp(7, 5, "folder", 1.2))
    assert main(["warm-up"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("5 kernels compiled, 2 were there: folder (1 s)\n", "")


@pytest.mark.parametrize(
    ("is_terminal", "expected"),
    [
        (True, "0/3 models, 0 kernels\r1/3 models, 4 kernels\r2/3 models, 5 kernels\r3/3 models, 7 kernels\n"),
        (False, "0/3 models, 0 kernels\n3/3 models, 7 kernels\n"),  # and each tenth
    ],
)
def test_warm_up_counts(capsys, monkeypatch, is_terminal, expected):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    for now, n_kernels in enumerate([0, 4, 5, 7]):
        tell_progress(now, 3, n_kernels)
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
