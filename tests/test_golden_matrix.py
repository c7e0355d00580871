"""The program that makes and compares golden files finds what differs, and nothing where nothing does."""

import copy

import golden_matrix
import numpy as np
import pytest
from scipy import sparse

CELLS = "^crf: (stream|l1|l1 x stream)$"


@pytest.fixture(scope="module")
def outcomes():
    return {name: golden_matrix.outcome(*cell) for name, *cell in golden_matrix.cells(CELLS)}


def test_outcomes_repeat(outcomes):
    again = {name: golden_matrix.outcome(*cell, n_jobs=2) for name, *cell in golden_matrix.cells(CELLS)}
    assert list(golden_matrix.differences(outcomes, again, numbers=False)) == []


@pytest.mark.parametrize(
    "other",
    [
        [np.array([1.0, np.nextafter(2.0, 3.0)]), "a"],
        [np.array([1.0, 2.0], dtype=np.float32), "a"],
        [np.array([[1.0, 2.0]]), "a"],
        [np.array([1.0, 2.0]), None],
        [[np.array([1.0, 2.0]), "a"]],
        [sparse.csr_array([[1.0, 2.0]]), "a"],
        [{"value": np.array([1.0, 2.0])}, "a"],
    ],
)
def test_hashes_are_of_all_bits(other):
    def hash_of(value):
        return golden_matrix.answer(lambda case: case, value)

    one = [np.array([1.0, 2.0]), "a"]
    assert hash_of(one) == hash_of(copy.deepcopy(one))
    assert hash_of(one) != hash_of(other)


@pytest.mark.parametrize(
    ("cell", "part", "is_number"),
    [("crf: l1", "marginals", True), ("crf: stream", "sample", True), ("crf: l1 x stream", "fit", False)],
)
def test_differences_are_found(outcomes, cell, part, is_number):
    changed = copy.deepcopy(outcomes)
    changed[cell][part] += "0"
    ((name, told),) = golden_matrix.differences(outcomes, changed, numbers=False)
    assert name == cell
    assert [text.partition(":")[0] for text in told] == [part]
    assert bool(list(golden_matrix.differences(outcomes, changed, numbers=True))) is is_number


def test_what_is_refused_and_what_is_not_differ_even_in_numbers(outcomes):
    changed = copy.deepcopy(outcomes)
    changed["crf: l1 x stream"] = changed["crf: l1"]
    ((name, told),) = golden_matrix.differences(outcomes, changed, numbers=True)
    assert name == "crf: l1 x stream"
    assert [text.partition(":")[0] for text in told] == ["fit"]


def test_table(outcomes):
    rows = list(golden_matrix.table(outcomes))
    assert ("crf", "l1", "", "works", "", "") in rows
    assert [row[:5] for row in rows if row[2] == "stream"] == [("crf", "l1", "stream", "refused", "fit")]
