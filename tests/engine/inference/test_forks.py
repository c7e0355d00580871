"""Processes that fork while threads run: the child gets the memory and the locks of all threads, but no threads.

Servers fork workers from processes with threads. The tests compile kernels before they fork, because numba's lock is
not ours.
"""

import os
import pickle
import signal
import threading
import traceback
from itertools import product

import numpy as np
import pytest

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf._data.arrays import cached_property
from sklearn_hocrf._engine.inference.schedule import Schedule, SharedWork
from sklearn_hocrf.datasets import make_markov_sequences, make_name_sentences
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]
N_FORKS, SECONDS = 3, 20  # of a case, and until a child that hangs is ended


def is_true_in_child(question, after_fork=lambda: None):
    """Return whether a forked process answers a question, and with yes."""
    child = os.fork()
    if child:
        after_fork()
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        status = 0 if question() else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


X_MARKOV, Y_MARKOV = make_markov_sequences(15, random_state=0)
X_NAMES, Y_NAMES = make_name_sentences(15, random_state=0)
X_DICTS = [[{"word": word, "length": len(word)} for word in words] for words in X_NAMES]


def predict(model):
    return [list(labels) for labels in model.predict(X_DICTS)]


def predict_marginals(model):
    return [table.tolist() for table in model.predict_marginals(X_MARKOV)]


def refit(model):
    return predict_marginals(model.fit(X_MARKOV, Y_MARKOV))


def tag(tagger):
    return [tagger.predict(words) for words in X_NAMES[:10]]


MODELS = {  # and what they are asked
    "predict": (HighOrderCRF(tol=0.1), X_DICTS, Y_NAMES, predict),
    "predict, two threads": (HighOrderCRF(tol=0.1, n_jobs=2), X_DICTS, Y_NAMES, predict),
    "marginals, two threads": (HighOrderCRF(tol=0.1, n_jobs=2), X_MARKOV, Y_MARKOV, predict_marginals),
    "fit, two threads": (HighOrderCRF(max_iter=3, tol=0.0, n_jobs=2), X_MARKOV, Y_MARKOV, refit),
    "pruned": (HighOrderCRF(tol=0.1, pruning=2, n_jobs=2), X_MARKOV, Y_MARKOV, predict_marginals),
    "segments": (HighOrderSemiCRF(tol=0.1), X_DICTS, Y_NAMES, predict),
    "segments, two threads": (HighOrderSemiCRF(tol=0.1, n_jobs=2), X_MARKOV, Y_MARKOV, predict_marginals),
    "tagger": (make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(tol=0.1)), X_NAMES, Y_NAMES, tag),
}
FAST = "predict", "fit, two threads", "pruned", "segments, two threads", "tagger"  # the others run with the slow tests


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in MODELS])
def test_children_answer_beside_a_thread_that_asks_the_same_model(name, tmp_path, many_chunks):
    """A cold model has no cached values yet, so the thread makes them during the fork."""
    model, X, y, ask = MODELS[name]
    model.fit(X, y)
    if ask is tag:
        export_tagger(model, tmp_path / "model")
        model = Tagger(tmp_path / "model")
    fresh, shared, expected = pickle.dumps(model), [model], ask(model)
    failed = []

    def ask_until(forked, is_cold):
        while not forked.is_set():
            if is_cold:
                shared[0] = pickle.loads(fresh)
            if ask(shared[0]) != expected:
                failed.append(name)

    for n_forks, is_cold in product(range(N_FORKS), [False, True]):
        forked = threading.Event()
        thread = threading.Thread(target=ask_until, args=[forked, is_cold], daemon=True)
        thread.start()
        forked.wait(0.002 * n_forks)  # moments of a question
        assert is_true_in_child(lambda: ask(shared[0]) == expected, forked.set), (n_forks, is_cold)
        thread.join()
    assert not failed


def test_children_have_threads_of_their_own():
    class Numbers(SharedWork):
        chunks = [1.0, 2.0, 3.0, 4.0]

    work = Numbers(Schedule(), n_jobs=2)

    def add_up():
        return work.add_up(lambda chunk, workspace: (np.full(1, chunk),))[0] == 10.0

    assert add_up()
    assert is_true_in_child(add_up)
    assert add_up()


def test_cached_values_are_computed_once_and_the_same_for_all_threads():
    together, made = threading.Barrier(2), []

    class Slow:
        @cached_property
        def value(self):
            """Description."""
            together.wait(SECONDS)
            return object()

    one = Slow()
    threads = [threading.Thread(target=lambda: made.append(one.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [one.value] * 2
    assert Slow.value.__doc__ == "Description."
    one.value = 3
    assert one.value == 3
    del one.value
    assert "value" not in vars(one)
