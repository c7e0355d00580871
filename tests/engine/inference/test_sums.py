"""Sums over chunks are in order, with any number of threads."""

import threading
from itertools import combinations, pairwise
from types import SimpleNamespace

import internals
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Schedule, SharedWork
from numpy.testing import assert_array_equal

N_CHUNKS = 12
TERMS = np.random.default_rng(0).normal(size=(N_CHUNKS, 1000)) * 10.0 ** np.arange(N_CHUNKS)[:, None]


class NumberedPlan(SharedWork):
    """A plan whose chunks are numbers."""

    def __init__(self, n_jobs=None):
        super().__init__(Schedule(), n_jobs)
        self.chunks = list(range(N_CHUNKS))


def in_order():
    total = TERMS[0].copy()
    for term in TERMS[1:]:
        total += term
    return total


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_chunks_are_added_in_order(n_jobs):
    """Sums in another order have other bits; here later chunks come first."""
    plan, came = NumberedPlan(n_jobs), [threading.Event() for _ in range(N_CHUNKS + 1)]
    came[N_CHUNKS].set()
    assert (TERMS[::-1].sum(axis=0) != in_order()).any()

    def work(chunk, _):
        if n_jobs > 1 and chunk % 2 == 0:
            came[chunk + 1].wait(30)  # the other threads go on
        table = np.zeros(1000)
        table += TERMS[chunk]
        came[chunk].set()
        return (table,)

    for _ in range(3):
        assert_array_equal(plan.add_up(work)[0], in_order())
        for event in came[:N_CHUNKS]:
            event.clear()


def test_an_error_leaves_the_plan_as_it_was():
    plan = NumberedPlan()

    def work(chunk, workspace):
        table = np.zeros(1000)
        table += TERMS[chunk]
        workspace("tables", 3)
        if fails and threading.current_thread() is threading.main_thread():
            failed.set()
            raise ValueError("of a chunk")
        if fails:
            failed.wait(30)  # so that the caller's thread has a chunk
        return (table,)

    for n_jobs in 1, 3, 1:
        fails, failed, plan.n_jobs = True, threading.Event(), n_jobs
        with pytest.raises(ValueError, match="of a chunk"):
            plan.add_up(work)
        fails = False
        with plan.workspace() as memory:  # as minibatches take it, which are no evaluation
            memory("tables", 3)
        assert_array_equal(plan.add_up(work)[0], in_order())


@settings(max_examples=300)
@given(st.lists(st.integers(1, 9), max_size=8), st.integers(1, 6))
def test_the_longest_chunk_is_as_short_as_possible(tokens, n_chunks):
    def longest(cuts):
        return max(sum(tokens[start:end]) for start, end in pairwise((0, *cuts, len(tokens))))

    tasks = [SimpleNamespace(n_tokens=n) for n in tokens]
    chunks = internals._deal(tasks, n_chunks)
    assert [task for chunk in chunks for task in chunk] == tasks
    assert all(chunks)
    assert len(chunks) <= n_chunks
    if tokens:
        most_cuts = min(n_chunks, len(tokens)) - 1
        every = (cuts for n in range(most_cuts + 1) for cuts in combinations(range(1, len(tokens)), n))
        assert max(sum(task.n_tokens for task in chunk) for chunk in chunks) == min(map(longest, every))
