"""Sums over chunks: in order, in any number of threads, in memory that is used again."""

import threading

import numpy as np
import pytest
from internals import Plan, Schedule, add_up
from numpy.testing import assert_array_equal

N_CHUNKS = 12
TERMS = np.random.default_rng(0).normal(size=(N_CHUNKS, 1000)) * 10.0 ** np.arange(N_CHUNKS)[:, None]


class NumberedPlan(Plan):
    """A plan whose chunks are numbers."""

    def __init__(self):
        super(Plan, self).__init__(Schedule())
        self.chunks = list(range(N_CHUNKS))


def in_order():
    total = TERMS[0].copy()
    for term in TERMS[1:]:
        total += term
    return total


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_chunks_are_added_in_order(n_jobs):
    """Sums in another order have other bits; here later chunks come first."""
    plan, came = NumberedPlan(), [threading.Event() for _ in range(N_CHUNKS + 1)]
    came[N_CHUNKS].set()
    assert (TERMS[::-1].sum(axis=0) != in_order()).any()

    def work(chunk):
        if n_jobs > 1 and chunk % 2 == 0:
            came[chunk + 1].wait(30)  # the other threads go on
        table = plan.zeros(1000)
        table += TERMS[chunk]
        came[chunk].set()
        return (table,)

    for _ in range(3):
        assert_array_equal(add_up(work, plan, n_jobs)[0], in_order())
        for event in came[:N_CHUNKS]:
            event.clear()


def test_memory_is_used_again_and_what_is_returned_is_not():
    plan, made = NumberedPlan(), []

    def work(chunk):
        table = plan.zeros(1000)
        assert not table.any()
        made.append(table.__array_interface__["data"][0])
        table += TERMS[chunk]
        return table, np.ones(3)

    first, second = add_up(work, plan), add_up(work, plan)
    assert first[0] is not second[0]
    assert_array_equal(first[0], second[0], strict=True)
    assert len(set(made)) == 3  # two sums and the chunk that is added to them
    assert_array_equal(first[1], np.full(3, float(N_CHUNKS)))


def test_an_error_leaves_the_plan_as_it_was():
    plan = NumberedPlan()

    def work(chunk):
        table = plan.zeros(1000)
        table += TERMS[chunk]
        with plan.workspace() as memory:
            memory("tables", 3)
        if fails and threading.current_thread() is threading.main_thread():
            failed.set()
            raise ValueError("of a chunk")
        if fails:
            failed.wait(30)  # so that the caller's thread has a chunk
        return (table,)

    for n_jobs in 1, 3, 1:
        fails, failed = True, threading.Event()
        with pytest.raises(ValueError, match="of a chunk"):
            add_up(work, plan, n_jobs)
        fails = False
        with plan.workspace() as memory:  # as minibatches take it, which are no evaluation
            memory("tables", 3)
        assert_array_equal(add_up(work, plan, n_jobs)[0], in_order())


def test_few_arrays_are_kept_and_only_whole_ones():
    plan, long = NumberedPlan(), np.arange(2000.0)
    plan.zeros(1000)
    plan.take_back([np.arange(1000), long[:1000], *np.ones((20, 1000)), *(np.ones(1000) for _ in range(20))])
    assert sum(map(len, plan._spare_tables.values())) == plan.most_spare
    lent = [plan.zeros(1000) for _ in range(5)]
    assert all(table.dtype == np.float64 and not table.any() for table in lent)
    for table in lent:
        table += 7.0
    assert_array_equal(long, np.arange(2000.0))


def test_no_chunks_have_no_sum():
    plan = NumberedPlan()
    plan.chunks = []
    assert add_up(lambda chunk: (np.ones(1),), plan, 2) is None
