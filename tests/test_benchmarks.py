"""The benchmarks run, and their peers give the same results."""

import importlib
import os
import re
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("[!_]*.py"))


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports modules of the benchmarks; the fixture removes them from memory afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_modules_import(load, name):
    assert load(name).__doc__


def test_options_are_read_by_their_defaults(load):
    parse = load("common").parse
    defaults = {"quick": False, "rounds": 3, "tol": 0.1, "tasks": ["a", "b"], "sizes": [1, 2], "max_iter": int}
    assert vars(parse("", [], **defaults)) == defaults | {"max_iter": None}
    given = ["--quick", "--rounds", "5", "--tasks", "b", "--sizes", "3", "--max-iter", "7"]
    expected = {"quick": True, "rounds": 5, "tol": 0.1, "tasks": ["b"], "sizes": [3], "max_iter": 7}
    assert vars(parse("", given, **defaults)) == expected
    with pytest.raises(SystemExit):
        parse("", ["--tasks", "c"], **defaults)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["bibliography", "punctuation"])
def test_segmentations_run(load, capsys, task):
    load(f"bench_{task}").main(["--quick"])
    printed = capsys.readouterr().out
    assert "\nSC^3 " in printed or printed.startswith("skipped")


def test_punctuation_is_encoded(load):
    module = load("bench_punctuation")
    y = [["O", "O", ","], [".", "?", "O"], []]
    encoded = module.encode_punctuation(y)
    assert encoded == [["O-,", "O", ","], [".-.", "?-?", "O"], []]
    assert module.decode_punctuation(encoded) == module.decode_punctuation(y) == y


def test_numbers_are_found_in_printed_lines(load):
    find = load("reproduce").find
    output = "a  1  2\nab 3\n a   1,500 +.5 (-4.25 to 1e-3) 98.1 %\nb 7\n"
    assert find(output, "a ", "12356") == ["1,500", "+.5", "-4.25", "98.1"]
    assert find(output, "c", "1") == []


def test_the_table_has_what_the_pages_say(load):
    """Page and table have the same commands, and all numbers of the table are on the pages."""
    module, docs = load("reproduce"), BENCHMARKS.parents[1] / "docs"
    text = (docs / "results.md").read_text(encoding="utf-8")
    commands = set(re.findall(r"`((?:products/|bench_|compare)[a-z_]*\.py[^`]*)`", text))
    assert commands == {command for _, command, *_ in module.ROWS}
    numbers = set(re.findall(module.NUMBER, text + (docs.parent / "README.md").read_text(encoding="utf-8")))
    said = {number for *_, of in module.ROWS for number in re.findall(module.NUMBER, of)}
    assert not {number for number in said if not {number, number.lstrip("+")} & numbers}


class Toy:
    """A benchmark that runs in another process."""

    def setup(self, number, step=1):
        if number < 0:
            sys.modules["common"].skip_where("a number is absent")
        self.sum, self.step = number, step

    def time_add(self, number):
        self.sum += self.step

    def track_sum(self, number):
        return self.sum, number, os.getpid()

    def track_crash(self, number):
        os._exit(1)


@pytest.mark.slow
def test_processes_keep_benchmarks(load):
    common = load("common")
    with common.Process() as process:
        cases = process.keep(Toy, 1), process.keep(Toy, 2, step=10)
        assert cases[1].seconds("time_add") >= 0
        sums, numbers, processes = zip(*(case.call("track_sum") for case in cases), strict=True)
        assert sums == (1, 12)
        assert numbers == (1, 2)
        assert processes[0] == processes[1] != os.getpid()
        with pytest.raises(common.Absent, match="a number is absent"):
            process.keep(Toy, -1)
        with pytest.raises(BrokenProcessPool):
            cases[0].call("track_crash")


def test_table_judges_limits(load, monkeypatch):
    compare = load("compare")
    limits = {("t", "low"): compare.AtMost(0.5), ("t", "high"): compare.AtLeast(3), ("t", "alone"): compare.AtMost(7)}
    monkeypatch.setattr(compare, "LIMITS", limits)
    ours, peer = np.array([1.0, 2.0, 9.0]), np.array([2.0, 8.0, 10.0])
    rows = [
        compare.Row("t", "low", "s", ours, peer),  # ratios 0.5, 0.25, 0.9
        compare.Row("t", "high", "s", peer, ours),
        compare.Row("t", "alone", "MiB", peer),
        compare.Row("t", "own", "s", ours, peer, "U", compare.AtMost(0.4)),
        compare.Row("t", "no limit", "s", ours, peer),
    ]
    assert [row.met for row in rows] == [True, False, False, False, None]
    assert rows[0].cells()[2:] == ("2 s", "python-crfsuite: 8 s", "0.500 [0.250 0.900]", "<= 0.5", "yes")
    assert rows[2].cells(judged=False)[2:] == ("8 MiB", "", "8.000 [2.000 10.000]", "<= 7", "")


def test_every_limit_is_of_a_task(load):
    compare = load("compare")
    assert {task for task, _ in compare.LIMITS} <= set(compare.TASKS)


def test_no_task_ends_the_others(load, monkeypatch, capsys, tmp_path):
    compare = load("compare")

    def absent(run):
        compare.skip_where("its data is absent")
        yield "never"

    def failing(run):
        yield "begun"
        raise OSError("broken")

    def working(run):
        yield compare.Row("working", "a thing", "s", np.ones(run.n_rounds), 4 * np.ones(run.n_rounds))

    tasks = {"absent": absent, "failing": failing, "working": working}
    monkeypatch.setattr(compare, "TASKS", tasks)
    assert compare.main(["--tasks", *tasks, "--rounds", "2", "--output", str(tmp_path / "table.md")]) == 1
    report = (tmp_path / "table.md").read_text()
    assert "| working | a thing | 1 s | python-crfsuite: 4 s | 0.250 [0.250 0.250] |  |  |\n" in report
    for remark in "absent: skipped, its data is absent", "begun", "failing: FAILED, OSError('broken')":
        assert f"- {remark}\n" in report
    assert report in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("addresses", "order 3, one by one"),
        ("handwriting", "gradient, order 2"),
        ("large", "training, above inputs"),
        ("cluster", "iteration, 100,000 attributes, on the wall"),
    ],
)
def test_comparison_runs(load, capsys, task, row):
    compare, before = load("compare"), dict(os.environ)
    assert compare.main(["--quick", "--tasks", task]) == 0
    printed = capsys.readouterr().out
    assert f"| {task} | {row} |" in printed or f"- {task}: skipped" in printed
    assert dict(os.environ) == before


@pytest.mark.slow
def test_trainings_solve_the_same_problem(load):
    module = load("bench_chunking")
    courses = []
    for program in module.Fit.params:
        case = module.Fit()
        try:
            case.setup(program, n_sentences=20, max_iter=200)
        except load("common").Absent as reason:
            pytest.skip(str(reason))
        courses.append(case.time_fit(program))
    one, two, peer = courses
    assert one.n_weights == peer.n_weights
    assert one.objective[-1] == pytest.approx(peer.objective[-1], rel=1e-5)
    assert one.accuracy == pytest.approx(peer.accuracy, abs=2e-3)
    assert len(one.wall) == len(one.objective)
    np.testing.assert_array_equal(one.objective, two.objective)
    assert 0 < peer.seconds_to(peer.objective[-1]) <= peer.processor[-1] <= peer.fit_seconds


@pytest.mark.slow
def test_taggers_have_the_same_model(load):
    module = load("bench_tagging")
    tags = []
    for program in module.PROGRAMS:
        case = module.Tagging()
        try:
            case.setup(program, n_sentences=20, max_iter=200)
        except load("common").Absent as reason:
            pytest.skip(str(reason))
        tags += [np.concatenate(case.time_features()), np.concatenate(case.time_raw_tokens())]
    np.testing.assert_array_equal(tags[0], tags[1])
    np.testing.assert_array_equal(tags[2], tags[3])
    assert np.mean(tags[0] == tags[2]) > 0.99


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks can be reset on Linux only")
def test_peaks_are_reset(load):
    module = load("bench_memory")
    np.ones(40 * 2**17)  # 40 MiB that must not count
    before = module.resident()
    np.ones(16 * 2**17)
    assert 15 < module.mebibytes("VmHWM") - before < 24
