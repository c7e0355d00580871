"""Ctrl-C while kernels run."""

import _thread
import signal
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import replace

import numpy as np
import pytest
from internals import Schedule, SegmentModel, SegmentPlan, SharedWork
from segment_cases import random_segment_case, to_segment_layout, to_segment_model


class SlowPlan(SharedWork):
    """Two chunks, each of which is one call of a kernel that takes as long as a test says."""

    calls_are_long = True

    def __init__(self, n_jobs):
        super().__init__(Schedule(), n_jobs)
        self.chunks = [0, 1]


@pytest.fixture
def interrupts():
    """Answer interrupts: shells start what they put into the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_does_not_wait_for_a_kernel(n_jobs):
    begun, release, ended = threading.Barrier(n_jobs + 1), threading.Event(), []

    def work(chunk, tables):
        begun.wait(30)
        release.wait(30)  # the kernel
        try:
            tables("next", 1)
        except CancelledError:
            ended.append(chunk)
            raise

    def interrupt():
        begun.wait(30)
        time.sleep(0.05)
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        SlowPlan(n_jobs).add_up(work)
    assert time.perf_counter() - start < 5
    release.set()
    while len(ended) < n_jobs and time.perf_counter() - start < 10:
        time.sleep(0.01)
    assert sorted(ended) == list(range(n_jobs)), "each thread ends with the kernel that it was in"
    assert SlowPlan(n_jobs).add_up(lambda chunk, _: (np.array([chunk + 1]),)) == (3,)


def test_errors_of_long_calls_are_raised():
    def work(chunk, _):
        raise ValueError(f"chunk {chunk}")

    with pytest.raises(ValueError, match="chunk 0"):
        SlowPlan(1).add_up(work)


def test_long_calls_give_the_same_bits():
    rng = np.random.default_rng(0)
    case = random_segment_case(rng, (40, 3, 0, 17), longest=(5, 3), patterns=[(0, 1), (1, 0)])
    model, batch = to_segment_model(case)
    expected = model.posterior_on(SegmentPlan(model.layout, batch)).expectations()
    schedule = replace(SegmentPlan.default_schedule, long_call=0)
    plan = SegmentPlan(model.layout, batch, schedule)
    assert plan.calls_are_long
    assert not SegmentPlan(model.layout, batch[2:3], schedule).calls_are_long
    for n_jobs in (None, 2):
        plan.n_jobs = n_jobs
        actual = model.posterior_on(plan).expectations()
        for one, two in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one, two)
    empty = SegmentModel(to_segment_layout(case), model.weights, schedule=schedule).posterior(batch[2:3]).log_z()
    assert empty.tolist() == [0.0]
