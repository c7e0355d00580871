"""The benchmarks run, and what they compare with gives the same answers."""

import importlib
import os
import sys
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from cases import random_case, to_batch, to_codes, to_layout
from internals import CHAIN, NegativeLogLikelihood, Problem

BENCHMARKS = Path(__file__).parent / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("[!_]*.py"))


@pytest.fixture
def load(monkeypatch):
    """Import a module of the benchmarks, and forget all of them afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


def test_order_over_segments(load):
    bench = load("bench_history")
    rows = bench.measure(*bench.draw(900, (15, 40)), 3, 1)
    assert [row[0] for row in rows] == [f"3, {name}" for name in bench.MODELS]
    assert all(len(row) == len(bench.HEADS) and row[-1] == 0 for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_modules_import(load, name):
    assert load(name).__doc__


def small_objective():
    rng = np.random.default_rng(0)
    case = random_case(rng, 3, [7, 1, 5, 0, 9], 3, 12, 1.0, [(0,), (0,)])
    layout, weights = to_layout(case)
    batch = to_batch(case.rows, case.n_attributes)
    return NegativeLogLikelihood().bind(Problem(CHAIN, layout, batch, to_codes(case.labels))), weights


def test_transitions(load):
    objective, _ = small_objective()
    automaton = objective.problem.layout.automaton
    transitions = load("dense_chain").all_transitions(automaton)
    names = {0: ()}  # of the states, as tuples of labels
    for arc in np.argsort(automaton.arc_length, kind="stable"):
        source, target = automaton.arc_source[arc], automaton.arc_target[arc]
        if automaton.arc_length[arc] == automaton.state_length[target]:
            names[target] = (*names[source], int(automaton.arc_label[arc]))
    assert len(set(names.values())) == automaton.n_states
    number = {name: state for state, name in names.items()}
    for state, name in names.items():
        for label in range(automaton.n_labels):
            text = (*name, label)
            longest = next(text[i:] for i in range(len(text) + 1) if text[i:] in number)
            assert transitions.target[state * automaton.n_labels + label] == number[longest]
    arcs = np.repeat(np.arange(automaton.n_arcs), np.diff(transitions.starts))
    np.testing.assert_array_equal(arcs, transitions.arc_of_source)
    of_source = transitions.source * automaton.n_labels + automaton.arc_label[arcs]
    np.testing.assert_array_equal(arcs, transitions.arc[of_source])


def test_dense_automaton_is_the_same_function(load):
    objective, weights = small_objective()
    value, gradient = objective.value_gradient(weights)
    dense = load("dense_chain").ByArc(objective)
    assert_same(dense.value_gradient(weights), value, gradient)
    assert_same(objective.value_gradient(weights), value, gradient)  # as it was before


def assert_same(actual, value, gradient):
    assert actual[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(actual[1], gradient, rtol=1e-10, atol=1e-12)


def test_options_are_read_by_their_defaults(load):
    parse = load("common").parse
    defaults = {"quick": False, "rounds": 3, "tol": 0.1, "tasks": ["a", "b"], "sizes": [1, 2], "max_iter": int}
    assert vars(parse("", [], **defaults)) == defaults | {"max_iter": None}
    given = ["--quick", "--rounds", "5", "--tasks", "b", "--sizes", "3", "--max-iter", "7"]
    expected = {"quick": True, "rounds": 5, "tol": 0.1, "tasks": ["b"], "sizes": [3], "max_iter": 7}
    assert vars(parse("", given, **defaults)) == expected
    with pytest.raises(SystemExit):
        parse("", ["--tasks", "c"], **defaults)


def test_turns_are_taken(load):
    calls = []
    clock = iter(range(100))
    cases = [lambda: calls.append("a"), lambda: calls.append("b")]
    seconds = load("common").take_turns(cases, 2, clock=lambda: next(clock))
    assert calls == ["a", "b"] * 3
    np.testing.assert_array_equal(seconds, np.ones((2, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["bibliography", "punctuation", "chinese_words"])
def test_segmentations_run(load, capsys, task):
    load(f"bench_{task}").main(["--quick"])
    printed = capsys.readouterr().out
    assert "randomisation tests of F1" in printed or printed.startswith("skipped")


def test_punctuation_is_encoded(load):
    module = load("bench_punctuation")
    y = [["O", "O", ","], [".", "?", "O"], []]
    encoded = module.encode_punctuation(y)
    assert encoded == [["O-,", "O", ","], [".-.", "?-?", "O"], []]
    assert module.decode_punctuation(encoded) == module.decode_punctuation(y) == y


def test_real_punctuation(load, data_dir):
    y = load("bench_punctuation").load_words(data_dir / "punctuation" / "punc.tr")[1]
    counts = {"O": 11519, "O-.": 2617, ".": 2617, ",-,": 1722, "O-,": 1179, ",": 1179, "O-?": 1153, "?": 1153}
    assert Counter(label for labels in y for label in labels) == counts | {".-.": 310, "?-?": 132}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["bibliography", "punctuation"])
def test_segmentations_are_measured(load, task):
    module, sizes = load("bench_segments"), {"n_sequences": 30}
    training, gradient = module.Training(), module.Gradient()
    try:
        training.setup(task, "SC", 2, max_iter=2, **sizes)
    except load("common").Absent as reason:
        pytest.skip(str(reason))
    assert training.peakmem_train() > 0
    assert training.crf.n_iter_ == 2
    gradient.setup(task, "SC", 2, **sizes)
    assert gradient.time_gradient()[0] > 0


@pytest.mark.slow
def test_passes_are_counted(load, capsys):
    load("bench_passes").main(["--quick", "--tasks", "references"])
    printed = capsys.readouterr().out
    assert "references, order 1, L1" in printed or "skipped: anystyle" in printed


class Toy:
    """A benchmark for another process."""

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
        ("cluster", "fits that lose a worker, with the same bits | 1 of 1"),
        ("passes", "references settle, order 1, L1"),
    ],
)
def test_comparison_runs(load, capsys, task, row):
    compare, before = load("compare"), dict(os.environ)
    assert compare.main(["--quick", "--tasks", task]) == 0
    printed = capsys.readouterr().out
    assert f"| {task} | {row} |" in printed or f"- {task}: skipped" in printed
    assert dict(os.environ) == before


def test_figures_of_a_cluster(load):
    seconds = np.array([[0.9, 1.5], [0.6, 1.0], [0.4, 0.5]])
    found = load("bench_dask").Measured(1000, seconds, np.array([32000, 40000, 48000]), 0.5)
    np.testing.assert_allclose(found.iterations, [[1.4, 2.0], [1.1, 1.5], [0.9, 1.0]])
    assert found.bare == pytest.approx(1.035 / 1.5)
    assert found.sent.tolist() == [2, 2.5, 3]


@pytest.mark.parametrize("every", [1, 1000])
def test_training_settles(load, monkeypatch, every):
    module = load("bench_passes")
    monkeypatch.setattr(module, "EVERY", every)  # 1000: no report before the end
    X, y = [[["a"], ["b"], ["b"]], [["b"], ["a"]]], [["A", "B", "B"], ["B", "A"]]
    task = module.Task((X, y), (X, y), {}, module.token_accuracy_score)
    model = module.HighOrderCRF(1)
    for variant in module.VARIANTS:
        found = module.measure(task, model, variant)
        assert found.scores.tolist() == [1.0]
        assert 0 < found.passes <= found.all_passes
        assert 0 < found.seconds <= found.all_seconds
        assert (found.passes == found.all_passes) == (every > 1)


def test_course_of_a_training(load):
    seconds, wall, objective = np.array([1.0, 3.0, 4.0]), np.array([2.0, 4.0, 6.0]), np.array([9.0, 7.0, 5.0])
    course = load("bench_chunking").Course(seconds, wall, objective, 0.0, 0.0, 0, 0.0, 0.0)
    assert course.seconds_to(7.0) == 3.0
    assert course.seconds_to(6.9, "wall") == 6.0
    assert course.seconds_to(4.9) == np.inf
    assert course.per_iteration.tolist() == [1.0, 2.0, 1.0]


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
        tags += [np.concatenate(case.time_ready_features()), np.concatenate(case.time_raw_tokens())]
    np.testing.assert_array_equal(tags[0], tags[1])
    np.testing.assert_array_equal(tags[2], tags[3])
    assert np.mean(tags[0] == tags[2]) > 0.99


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks can be reset on Linux only")
def test_peaks_are_reset(load):
    module = load("bench_memory")
    np.ones(40 * 2**17)  # 40 MiB that must not count
    before = module.resident()
    np.ones(16 * 2**17)
    assert 15 < module.mebibytes("VmHWM") - before < 24
