"""Sums over chunks: in order, in any number of threads, in memory that is used again."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise
from types import SimpleNamespace

import internals
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import LANES, BufferPool, Schedule, SharedWork, Workspace, empty_aligned, freeze
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
        table = plan.memory.zeros(1000)
        table += TERMS[chunk]
        came[chunk].set()
        return (table,)

    for _ in range(3):
        assert_array_equal(plan.add_up(work)[0], in_order())
        for event in came[:N_CHUNKS]:
            event.clear()


def test_memory_is_used_again_and_what_is_returned_is_not():
    plan, made = NumberedPlan(), []

    def work(chunk, workspace):
        table = plan.memory.zeros(1000)
        assert not table.any()
        made.append(table.__array_interface__["data"][0])
        table += TERMS[chunk]
        return table, np.ones(3)

    first, second = plan.add_up(work), plan.add_up(work)
    assert first[0] is not second[0]
    assert_array_equal(first[0], second[0], strict=True)
    assert len(set(made)) == 3  # two sums and the chunk that is added to them
    assert_array_equal(first[1], np.full(3, float(N_CHUNKS)))


def test_an_error_leaves_the_plan_as_it_was():
    plan = NumberedPlan()

    def work(chunk, workspace):
        table = plan.memory.zeros(1000)
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


@pytest.mark.parametrize(
    "derived",
    [
        lambda table: table[5:],
        lambda table: table.reshape(2, -1)[1],
        lambda table: freeze(table, float),
        memoryview,
        lambda table: pickle.PickleBuffer(table[5:]),
        lambda table: np.asarray(memoryview(table))[:1],
        lambda table: table.T[:, None],
    ],
)
def test_memory_that_anything_refers_to_is_not_lent_again(derived):
    memory = BufferPool()
    user = derived(memory.zeros(1000))
    for table in [memory.zeros(1000) for _ in range(20)]:  # more than are kept
        table += 7.0
    assert not np.asarray(memoryview(user)).any()


@pytest.mark.parametrize(
    "make",
    [
        empty_aligned,
        lambda *shape: BufferPool().empty(*shape),
        lambda *shape: BufferPool().zeros(*shape),
        lambda *shape: Workspace()("scores", *shape),
    ],
)
def test_tables_begin_at_cache_lines(make):
    tables = [make(n_rows, LANES) for n_rows in (*range(1, 40), 100_003) for _ in range(3)]
    assert {table.ctypes.data % 64 for table in tables} == {0}
    assert make(0, LANES).shape == (0, LANES)
    for number, table in enumerate(tables):  # to the last number, each in memory of its own
        assert table.flags.c_contiguous
        table.fill(number)
    for number, table in enumerate(tables):
        assert (table == number).all()
        assert table.shape[1] == LANES


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


def test_few_arrays_are_kept():
    memory = BufferPool()
    lent = [memory.zeros(1000) for _ in range(20)]
    assert len({table.__array_interface__["data"][0] for table in lent}) == 20
    assert len(memory._owners[1000,]) == memory.max_kept
    for table in lent:
        table += 7.0
    del lent, table
    kept = {owner.__array_interface__["data"][0] for owner in memory._owners[1000,]}
    table = memory.zeros(1000)
    assert not table.any()
    assert table.__array_interface__["data"][0] in kept


def test_copies_begin_without_memory():
    memory = BufferPool()
    memory.zeros(1000)
    assert not pickle.loads(pickle.dumps(memory))._owners


def test_threads_do_not_get_the_same_memory():
    plan, start = NumberedPlan(), threading.Barrier(4)

    def work(number):
        start.wait()
        for _ in range(2000):
            table = plan.memory.zeros(4)
            table += number
            if (table != number).any():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(1, 5)))


def test_no_chunks_have_no_sum():
    plan = NumberedPlan(2)
    plan.chunks = []
    assert plan.add_up(lambda *_: (np.ones(1),)) is None
