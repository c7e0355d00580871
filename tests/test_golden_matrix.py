"""The program for golden files finds all differences, and none if nothing differs."""

import copy

import golden_matrix
import numpy as np
import pytest
from golden_matrix import differences, outcome
from scipy import sparse

CELLS = {"l1: plain": ("l1", "plain"), "matching: stream": ("matching", "stream")}


@pytest.fixture
def outcomes(many_chunks):
    return {name: outcome(*cell) for name, cell in CELLS.items()}


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
    one = [np.array([1.0, 2.0]), "a"]
    hashes = [golden_matrix.answer(lambda value=value: value) for value in (one, copy.deepcopy(one), other)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_differences_are_found(outcomes):
    again = {name: outcome(*cell, n_jobs=2) for name, cell in CELLS.items()}
    assert not list(differences(outcomes, again, numbers=False))
    for (cell, part), is_number in {("l1: plain", "marginals"): True, ("matching: stream", "fit"): False}.items():
        changed = copy.deepcopy(outcomes)
        changed[cell][part] += "0"
        ((name, told),) = differences(outcomes, changed, numbers=False)
        assert (name, [text.partition(":")[0] for text in told]) == (cell, [part])
        assert bool(list(differences(outcomes, changed, numbers=True))) is is_number
    worse = outcomes | {"l1: plain": outcomes["matching: stream"]}
    ((name, told),) = differences(outcomes, worse, numbers=True)
    assert (name, [text.partition(":")[0] for text in told]) == ("l1: plain", ["fit"])
