"""Training and prediction on a cluster are exact and deterministic, and continue if workers die."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sklearn
from cases import by_order
from internals import threads_for
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import check_is_fitted

distributed = pytest.importorskip("distributed", reason="a cluster needs Dask: pip install 'sklearn_hocrf[dask]'")

from dask import bag, delayed  # noqa: E402
from joblib import parallel_config  # noqa: E402

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF  # noqa: E402
from sklearn_hocrf.dask import DaskExtractor, DaskSequenceLabeler, _partitions  # noqa: E402
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor  # noqa: E402
from sklearn_hocrf.model_selection import PenaltySearchCV  # noqa: E402
from sklearn_hocrf.training import LBFGS, SGD, EarlyStopping  # noqa: E402

pytestmark = pytest.mark.dask
IGNORE_EARLY_END = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
OPTIONS = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}  # logging.CRITICAL


@pytest.fixture(scope="module")
def client():
    """A client of two workers in this process, with one thread each; messages are pickled, as between processes."""
    with (
        distributed.LocalCluster(n_workers=2, processes=False, protocol="tcp://", **OPTIONS) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes():
    """A client of two workers, each a process with one thread."""
    with (
        distributed.LocalCluster(n_workers=2, processes=True, **OPTIONS) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def sentences(n, seed=0, labels=("A", "B", "C")):
    """Return sequences of attribute names, and labels that depend on them and on the labels before."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        codes = np.minimum(rng.integers(len(labels), size=rng.integers(1, 9)).cumsum() % 5, len(labels) - 1)
        noisy = np.where(rng.random(len(codes)) < 0.2, rng.integers(len(labels), size=len(codes)), codes)
        X.append([[f"w{c}", f"v{rng.integers(6)}", f"rare{rng.integers(500)}"] for c in noisy])
        y.append([labels[c] for c in codes])
    return X, y


def tags(y):
    """Return BIO tags in which runs of A and of B are segments."""
    return [
        ["O" if c == "C" else ("I-" if t and y_n[t - 1] == c else "B-") + c for t, c in enumerate(y_n)] for y_n in y
    ]


def parts(sequences, sizes=(7, 0, 12, 1)):
    """Return Delayed lists of sequences with these sizes, of which the second is empty, and a list of the rest."""
    cuts = np.cumsum([0, *sizes, len(sequences) - sum(sizes)])
    return [delayed(list(sequences[a:b])) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


X, y = sentences(40)
WEIGHT = np.random.default_rng(1).integers(0, 3, size=40).astype(float)
CHAINS = {
    "order 2": {"max_order": 2, "feature_order": {"w": 1}, "min_count": 3, "sigma_reg": by_order(0.5, 0.2)},
    "all pairs": {
        "all_pairs": True,
        "fit_intercept": False,
        "patterns": [("A", "B"), ("C", "C")],
        "label_parts": {"A": ["vowel"], "B": ["other"], "C": ["other", "vowel"]}.__getitem__,
        "sigma_reg": {"w": 0.5, None: 0.2},
        "constraints": Constraints(end=["A", "B", "C"], forbid=[("A", "A", "A", "A", "A")]),
    },
    "l1": {"l1_reg": 0.5, "sigma_reg": 0.5},
    "all patterns": {"sigma_reg": 0.3, "patterns": "all"},
    "segments": {"max_order": 3, "history": "segments", "min_count": 2, "sigma_reg": 0.3},
    "matching": {"objective": "local_feature_matching", "sigma_reg": 0.2},
}


def check_same(labeler, local, tol=1e-9):
    """Check that an estimator has the model of a cluster, up to the tolerance of the solver."""
    remote = labeler.estimator_
    optimum = local.objective_history_[-1]
    assert abs(remote.objective_history_[-1] - optimum) <= tol * max(1, abs(optimum))
    assert remote.patterns_ == local.patterns_
    assert remote.classes_.tolist() == local.classes_.tolist()
    assert remote.classes_.dtype == local.classes_.dtype
    assert remote.n_features_in_ == local.n_features_in_
    assert remote.n_parameters_ == local.n_parameters_
    np.testing.assert_array_equal(remote.feature_names_in_, local.feature_names_in_)
    np.testing.assert_allclose(remote.coef_.toarray(), local.coef_.toarray(), atol=1e-5)
    np.testing.assert_allclose(remote.pattern_coef_, local.pattern_coef_, atol=1e-5)
    intercepts = (getattr(crf, "token_intercept_", np.empty(0)) for crf in (remote, local))
    np.testing.assert_allclose(*intercepts, atol=1e-5)


@IGNORE_EARLY_END
@pytest.mark.parametrize("weight", [False, True])
def test_empty_sequences_have_no_effect(client, weight):
    """Between others, and as the only ones of a partition, in which no other sequence may have a positive weight."""
    full = parts(X), parts(y), parts(np.ones(40) + np.arange(40) % 3)
    X_empty = [delayed(lambda part: [[], *part[:2], [], [], *part[2:], []])(part) for part in full[0]]
    y_empty = [delayed(lambda part: [[], *part[:2], [], None, *part[2:], []])(part) for part in full[1]]
    weights = [delayed(lambda part: [1.0, *part[:2], 3.0, 0.0, *part[2:], 2.0])(part) for part in full[2]]
    X_empty.append(delayed([[], [["w1"], ["w2"]]]))
    y_empty.append(delayed([[], ["A", "B"]] if weight else [[], ["A", "B"]]))
    weights.append(delayed([1.0, 0.0]))
    if not weight:
        X_empty[-1], y_empty[-1] = delayed([[], []]), delayed([[], None])
    labeler = DaskSequenceLabeler(HighOrderCRF(2, max_iter=1))
    one = clone(labeler).fit(X_empty, y_empty, *([weights] if weight else [])).estimator_
    same = clone(labeler).fit(*full[:2], *([full[2]] if weight else [])).estimator_
    assert_array_equal(one.coef_.toarray(), same.coef_.toarray())
    assert_array_equal(one.pattern_coef_, same.pattern_coef_)
    with pytest.raises(ValueError, match="^X has no tokens in sequences of positive weight: fit needs at least one$"):
        clone(labeler).fit([delayed([[], []])] * 2, [delayed([[], []])] * 2)


class SlowToSend:
    """A number that takes as long to send as a long vector."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        time.sleep(0.5)
        return int, (self.number,)


def raise_timeout(number):
    raise TimeoutError("of the work")


@pytest.mark.slow
def test_a_result_that_is_slow_to_come_is_waited_for(processes, monkeypatch):
    monkeypatch.setattr(_partitions, "_PATIENCE", 0.2)
    numbers = _partitions.Partitions(processes, [(delayed(int)(7),)])
    numbers.add_step(abs)
    assert numbers.total(SlowToSend, max) == 7
    with pytest.raises(TimeoutError, match="of the work"):
        numbers.total(raise_timeout, max)
    numbers.release()


@pytest.mark.slow
def test_threads_that_share_a_client_wait_for_each_other(processes, monkeypatch):
    """A client has few requests under way at a time."""
    monkeypatch.setattr(_partitions, "_PATIENCE", 0.1)

    def total(number):
        numbers = _partitions.Partitions(processes, [(delayed(int)(number),)])
        numbers.add_step(abs)
        return numbers.total(SlowToSend, max)

    with ThreadPoolExecutor(9) as pool:
        assert list(pool.map(total, range(9))) == list(range(9))
    assert processes.submit(abs, -3).result() == 3


@pytest.mark.parametrize("length", [0, 1, 2 * _partitions._WHOLE, 2 * _partitions._WHOLE + 1, 500_003])
@pytest.mark.slow
def test_long_vectors_come_in_slices(length, processes):
    numbers = _partitions.Partitions(processes, [(delayed(int)(number),) for number in range(3)])
    numbers.add_step(abs)
    vector, other = np.random.default_rng(0).normal(size=(2, length))
    expected = np.stack([vector * number - other for number in range(3)])
    assert_array_equal(numbers.total(product_minus, stacked, vector, "a word", other), expected.ravel(), strict=True)
    for other in (np.arange(length), vector[:, None]):  # neither doubles nor a vector: sent whole
        expected = np.concatenate([other * number for number in range(3)])
        assert_array_equal(numbers.total(product, stacked, other), expected, strict=True)
    numbers.release()


@pytest.mark.slow
def test_threads_of_a_worker_share_one_copy_of_a_long_vector():
    options = OPTIONS | {"threads_per_worker": 3}
    with (
        distributed.LocalCluster(n_workers=2, processes=True, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        numbers = _partitions.Partitions(client, [(delayed(int)(number),) for number in range(7)])
        numbers.add_step(abs)
        vector = np.random.default_rng(0).normal(size=500_001)
        found = numbers.total(place_of, set.union, vector)
        numbers.release()
    assert {total for *_, total in found} == {float(vector.sum())}
    assert len(found) == 2  # one for each worker


def place_of(vector, number):
    return {(os.getpid(), vector.__array_interface__["data"][0], float(vector.sum()))}


def product_minus(vector, word, other, number):
    assert word == "a word"
    return vector * number - other


def product(array, number):
    return array * number


def stacked(one, other):
    return np.concatenate([one, other])


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.slow
def test_optimum_is_that_of_one_machine(name, processes):
    settings = {"tol": 1e-8, **CHAINS[name]}
    is_weighted = name in ("order 2", "l1")
    weights = {"sample_weight": WEIGHT} if is_weighted else {}
    remote_weights = {"sample_weight": parts(WEIGHT)} if is_weighted else {}
    local = HighOrderCRF(**settings).fit(X, y, **weights)
    remote = DaskSequenceLabeler(HighOrderCRF(**settings), processes).fit(parts(X), parts(y), **remote_weights)
    check_same(remote, local)
    assert processes.compute(remote.predict(parts(X)), sync=True) == local.predict(X)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "settings"),
    [
        ("runs", {"segment_length": {"B": (1, None)}}),
        ("bio", {"segment_length": {"A": 9}, "max_order": 2}),
        ("segments", {"l1_reg": 0.2}),
    ],
)
def test_segments(scheme, settings, client):
    settings = {"scheme": scheme, "tol": 1e-8, "sigma_reg": 0.3, **settings}
    given = tags(y) if scheme == "bio" else y
    if scheme == "segments":
        model = HighOrderSemiCRF(scheme="runs").fit(X, y)
        given = model.predict_segments(X)
    local = HighOrderSemiCRF(**settings).fit(X, given)
    remote = DaskSequenceLabeler(HighOrderSemiCRF(**settings), client).fit(parts(X), parts(given))
    check_same(remote, local)
    assert remote.estimator_.segment_length_ == local.segment_length_
    assert remote.predict(parts(X)).compute() == local.predict(X)
    assert remote.score(parts(X), parts(given)) == pytest.approx(local.score(X, given))


@pytest.mark.slow
def test_segments_of_one_token_in_some_partitions_alone(client):
    """Whether labels may repeat is a question to all partitions."""
    X, y = [[["a"], ["b"]], [["a"], ["a"], ["b"]]] * 4, [["A", "B"], ["A", "A", "B"]] * 4
    settings = {"tol": 1e-8, "scheme": "runs"}
    remote = DaskSequenceLabeler(HighOrderSemiCRF(**settings), client).fit(
        [delayed(X[::2]), delayed(X[1::2])], [delayed(y[::2]), delayed(y[1::2])]
    )
    check_same(remote, HighOrderSemiCRF(**settings).fit(X, y))


@pytest.mark.slow
def test_forms_of_partitions(client):
    """Bags, Delayed, Futures; lists, batches, arrays; iterators, as maps of bags are."""
    few = {"tol": 1e-8, "sigma_reg": 0.2}
    local = HighOrderCRF(**few).fit(X, y)
    bags = bag.from_sequence(X, npartitions=3).map(list), bag.from_sequence(y, npartitions=3).map(list)
    check_same(DaskSequenceLabeler(HighOrderCRF(**few), client).fit(*bags), local)
    futures = client.scatter([X[:20], X[20:]]), client.scatter([y[:20], y[20:]])
    remote = DaskSequenceLabeler(HighOrderCRF(**few)).fit(*futures)  # the default client
    check_same(remote, local)
    batch = SequenceFeatureExtractor().fit_transform([[token[0] for token in x] for x in X])
    local = HighOrderCRF(**few).fit(batch, y)
    batches = [delayed(batch[:11]), delayed(batch[11:])]
    remote = DaskSequenceLabeler(HighOrderCRF(**few), client).fit(batches, [delayed(y[:11]), delayed(y[11:])])
    check_same(remote, local)
    assert remote.predict(batches).compute() == local.predict(batch)


@IGNORE_EARLY_END
def test_dense_and_sparse_rows(client):
    """Whether features are kept dense is decided by each partition."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(len(x), 3)) * (n % 2 or rng.random((len(x), 3)) < 0.1) for n, x in enumerate(X)]
    local = HighOrderCRF(max_iter=4, sigma_reg=0.2)
    labeler = DaskSequenceLabeler(clone(local), client).fit(
        [delayed(arrays[::2]), delayed(arrays[1::2])], [delayed(y[::2]), delayed(y[1::2])]
    )
    local.fit(arrays, y)
    odd = labeler.estimator_
    assert odd.objective_history_[-1] == pytest.approx(local.objective_history_[-1], rel=1e-9)
    np.testing.assert_allclose(odd.coef_.toarray(), local.coef_.toarray(), atol=1e-5)


@pytest.fixture(params=["three workers", pytest.param("processes", marks=pytest.mark.slow)])
def other(request):
    """A client of another cluster than that of ``client``."""
    if request.param == "processes":
        yield request.getfixturevalue("processes")
        return
    with (
        distributed.LocalCluster(n_workers=3, processes=False, **OPTIONS) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@IGNORE_EARLY_END
def test_bits_depend_on_the_partitions_alone(client, other):
    crf = HighOrderCRF(l1_reg=0.1, max_iter=3)
    of_two, fit = (DaskSequenceLabeler(crf, one).fit(parts(X), parts(y)).estimator_ for one in (client, other))
    assert fit.objective_history_.tobytes() == of_two.objective_history_.tobytes()
    assert fit.coef_.data.tobytes() == of_two.coef_.data.tobytes()
    assert fit.pattern_coef_.tobytes() == of_two.pattern_coef_.tobytes()


def test_warm_start_goes_on(client):
    labeler = DaskSequenceLabeler(HighOrderCRF(tol=0.01, sigma_reg=0.2, warm_start=True), client)
    first, second = (labeler.fit(parts(X), parts(y)).estimator_ for _ in range(2))
    assert second.n_iter_ <= 1
    assert second.objective_history_[0] == pytest.approx(first.objective_history_[-1], rel=1e-12)


def test_missing_optimum_is_told(client):
    X, y = [[["a"], ["b"]]] * 3, [["A", "B"]] * 3
    crf = DaskSequenceLabeler(HighOrderCRF(sigma_reg=np.inf, max_iter=2), client)
    with pytest.warns(ConvergenceWarning, match="There is no optimum"):
        crf.fit([delayed(X), delayed(X)], [delayed(y), delayed(y)])


def test_extractors_learn_from_partitions(client):
    """Vocabularies and minimum counts are those of all data."""
    words = [[token[0] for token in x] for x in X]
    for extractor in SequenceFeatureExtractor(), SequenceFeatureExtractor(min_count=3):
        local, remote = clone(extractor), DaskExtractor(extractor, client=client)
        expected = local.fit_transform(words, y)
        batches = remote.fit_transform(parts(words))
        assert remote.extractor_.get_feature_names_out().tolist() == local.get_feature_names_out().tolist()
        got = [batch for batch in client.gather(client.compute(batches.to_delayed())) if len(batch)]
        assert sum(map(len, got)) == len(words)
        starts = np.cumsum([0, *(len(batch) for batch in got)])
        for start, batch in zip(starts, got, strict=False):
            assert same_features(batch, expected[start : start + len(batch)])
        assert same_features(remote.transform(parts(words)).to_delayed()[4].compute(), local.transform(words[20:]))
        assert pickle.loads(pickle.dumps(remote)).client is None


def same_features(one, other):
    return np.allclose(one.toarray(), other.toarray())


# ------------------------------------------------------------------------------------------------------------- answers


@IGNORE_EARLY_END
def test_answers_and_copies(client):
    local = HighOrderCRF(max_iter=4, sigma_reg=0.2).fit(X, y)
    remote = DaskSequenceLabeler(clone(local), client)
    with pytest.raises(NotFittedError, match="This DaskSequenceLabeler instance is not fitted yet"):
        remote.predict(parts(X))
    remote.fit(parts(X), parts(y))
    marginals = remote.predict_marginals(parts(X)).compute()
    for one, other in zip(marginals, local.predict_marginals(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert remote.score(parts(X), parts(y)) == pytest.approx(local.score(X, y))
    assert remote.score(parts(X), parts(y), parts(WEIGHT)) == pytest.approx(local.score(X, y, WEIGHT))
    assert not hasattr(remote.estimator, "coef_")
    assert remote.estimator_.predict(X) == local.predict(X)
    assert remote.estimator_.get_params() == local.get_params()
    assert pickle.loads(pickle.dumps(remote.estimator_)).predict(X) == local.predict(X)
    answers = remote.predict(parts(X)).compute()
    assert remote.predict([delayed(None), delayed(X[:1])]).compute() == answers[:1]
    assert remote.score([delayed(None), delayed(X[:9])], [delayed(None), delayed(y[:9])]) == local.score(X[:9], y[:9])
    for twin in pickle.loads(pickle.dumps(remote)), copy.deepcopy(remote):
        assert twin.client is None
        assert twin.predict(parts(X)).compute() == answers
    check_is_fitted(remote)
    twin = clone(remote)
    assert twin.client is None
    with pytest.raises(NotFittedError):
        check_is_fitted(twin)
    assert twin.estimator.get_params() == remote.estimator.get_params()
    assert twin.set_params(estimator__sigma_reg=0.7).get_params()["estimator__sigma_reg"] == 0.7
    assert remote.estimator.sigma_reg == 0.2


# -------------------------------------------------------------------------------------------------------------- errors


def test_refused_partitions_leave_no_traceback_in_logs(caplog):
    """The first partition in order is named, whichever worker is first; its traceback is that of the error's cause."""
    X, y = sentences(8)
    y[3], y[6] = y[3][:-1], y[6][:-1]
    options = OPTIONS | {"silence_logs": False}
    with (
        caplog.at_level("WARNING", logger="distributed"),
        distributed.LocalCluster(n_workers=2, processes=False, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        bags = bag.from_sequence(X, npartitions=8), bag.from_sequence(y, npartitions=8)
        with pytest.raises(ValueError, match="^partition 3: sequence 0 has .* tokens in X, but") as caught:
            DaskSequenceLabeler(HighOrderCRF(), client).fit(*bags)
        mixed = bag.from_sequence([["a"], [("a", "b")]], npartitions=2)
        with pytest.raises(ValueError, match="tokens have the form"):
            DaskExtractor(SequenceFeatureExtractor(), client=client).fit(mixed)
    assert "in read_part" in str(caught.value.__cause__)
    assert not [record for record in caplog.records if "Compute Failed" in record.getMessage()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((HighOrderCRF(solver="sgd"),), "a cluster needs solver='lbfgs': solver='sgd' takes"),
        ((HighOrderCRF(solver=SGD()),), r"a cluster needs solver='lbfgs': solver=SGD\(\) takes"),
        ((HighOrderCRF(max_order=-1),), "max_order"),
        ((HighOrderCRF(pruning=3),), "a cluster needs pruning=None, not pruning=3"),
        ((HighOrderCRF(sigma_reg=0),), "sigma_reg"),
        ((HighOrderCRF(max_iter="many"),), "'max_iter' parameter of HighOrderCRF"),
        ((HighOrderCRF(), "tcp://127.0.0.1"), "client must be"),
        ((HighOrderCRF,), "estimator must be a HighOrderCRF or HighOrderSemiCRF, got <class"),
        ((PenaltySearchCV(HighOrderCRF()),), "estimator must be .*, got PenaltySearchCV"),
    ],
)
def test_what_does_not_work_is_refused_before_any_work(arguments, message):
    check_refused(message, *arguments)


@pytest.mark.skipif(parse_version(sklearn.__version__) < parse_version("1.9"), reason="needs scikit-learn >= 1.9")
def test_callbacks_of_scikit_learn_are_refused():
    crf = HighOrderCRF().set_callbacks(EarlyStopping(X, y))
    check_refused("scikit-learn callbacks do not work on a cluster: use the callback of a solver", crf)


def check_refused(message, *arguments):
    """Check that a fit raises an error before any work."""

    def never():
        raise AssertionError("no work must be done")

    with pytest.raises((ValueError, TypeError), match=message):
        DaskSequenceLabeler(*arguments).fit([delayed(never)()], [delayed(never)()])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X, y, "X must be a dask.bag.Bag"),
        (parts(X), y, "y must be a dask.bag.Bag"),
        (parts(X), parts(y)[:2], "X has 5 partitions, but y has 2"),
        ([], [], "no partitions"),
    ],
)
def test_collections_are_checked_before_any_work(X, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DaskSequenceLabeler(HighOrderCRF()).fit(X, y)


BAD = {
    "missing label": (X, [*y[:21], [None] * len(y[21]), *y[22:]], "partition 4: .*missing labels"),
    "missing number": (
        X,
        [*y[:21], ["A", -100, *y[21]][: len(y[21])], *y[22:]],
        "partition 4: .*sequence 1, position 1",
    ),
    "lengths": (X, [*y[:8], y[8] + ["A"], *y[9:]], "partition 2: sequence 1 has"),
    "number of sequences": (X, y[:-1], "partition 4: X has 20 sequences, y has 19"),
    "kinds of labels": (X, [*y[:7], *([[1] * len(y_n) for y_n in y[7:]])], "partitions have 'A' and 1"),
    "no X": (X[:20], y, "partition 4: X has no sequences, y has 20"),
    "no y": (X, y[:20], "partition 4: X has 20 sequences, y has 0"),
    "value": ([*X[:9], [{"a": np.nan}] * len(X[9]), *X[10:]], y, "partition 2: .*sequence 2, position 0"),
    "one label": (X, [["A"] * len(y_n) for y_n in y], "at least 2 distinct labels"),
    "nothing": ([[]] * 0, [], "no tokens in sequences"),
    "rows and names": ([*X[:7], *([[0.5]] * len(x) for x in X[7:])], y, "others rows of numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_name_partition_sequence_and_position(name, client):
    bad_X, bad_y, message = BAD[name]
    sizes = (7, 0, 12, 1) if bad_X else (0, 0)
    crf = DaskSequenceLabeler(HighOrderCRF(), client)
    with pytest.raises((ValueError, TypeError), match=message):
        crf.fit(parts(bad_X, sizes), parts(bad_y, sizes))
    assert not hasattr(crf, "estimator_")


def test_constraints_name_partition_sequence_and_position(client):
    crf = DaskSequenceLabeler(HighOrderCRF(constraints="bio"), client)
    wrong = tags(y)
    wrong[20] = ["I-A"] * len(wrong[20])
    with pytest.raises(ValueError, match="partition 4: sequence 0, position 0: 'I-A' at the start"):
        crf.fit(parts(X), parts(wrong))


@pytest.mark.parametrize(("X_part", "y_part"), [(None, y[:1]), (X[:1], None)])
def test_partitions_that_are_forgotten_are_not_left_out(X_part, y_part, client):
    first = [delayed(X)], [delayed(y)]
    with pytest.raises(ValueError, match=r"partition 1: X has \w+ sequences?, y has"):
        DaskSequenceLabeler(HighOrderCRF(), client).fit([*first[0], delayed(X_part)], [*first[1], delayed(y_part)])


def test_failures_leave_nothing_on_the_cluster(client):
    before = set(client.futures)
    with pytest.raises(ValueError, match="partition 4"):
        DaskSequenceLabeler(HighOrderCRF(), client).fit(parts(X), parts(y[:-1]))
    deadline = time.monotonic() + 5
    while set(client.futures) - before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not set(client.futures) - before


def test_errors_of_the_whole_name_no_partition(client):
    with pytest.raises(ValueError, match="^'A' of the labels"):
        DaskSequenceLabeler(HighOrderCRF(constraints="bio"), client).fit(parts(X), parts(y))


def test_partitions_of_no_values_and_of_iterators(client):
    words = [delayed([["a"], ["b"]]), delayed([]), delayed(None), delayed(iter)([["c"]])]
    extractor = DaskExtractor(SequenceFeatureExtractor([("w", 0)]), client).fit(words)
    assert extractor.extractor_.get_feature_names_out().tolist() == ["w[0]=a", "w[0]=b", "w[0]=c"]
    assert list(map(len, extractor.transform(words).compute())) == [1, 1, 1]


def test_errors_of_sources_are_those_of_the_user(client):
    def read(n):
        raise FileNotFoundError(f"no file {n}")

    with pytest.raises(FileNotFoundError, match="no file 1"):
        DaskSequenceLabeler(HighOrderCRF(), client).fit([delayed(X), delayed(read)(1)], [delayed(y), delayed(y)])


# -------------------------------------------------------------------------------------------------------------- faults


class At:
    """A solver's callback that acts at one iteration."""

    def __init__(self, n_iter, do):
        self.n_iter, self.do = n_iter, do

    def __call__(self, progress):
        if progress.n_iter == self.n_iter:
            self.do()


def kill_one(client):
    """Kill one worker of a client; its nanny starts another worker."""
    address, pid = sorted(client.run(os.getpid).items())[0]
    os.kill(pid, signal.SIGKILL)
    return address


@pytest.mark.slow
@IGNORE_EARLY_END
def test_training_goes_on_after_a_worker_is_killed():
    with (
        distributed.LocalCluster(n_workers=2, processes=True, **OPTIONS) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        expected = DaskSequenceLabeler(HighOrderCRF(max_iter=5), client).fit(parts(X), parts(y)).estimator_
        killed = []
        solver = LBFGS(callback=At(3, lambda: killed.append(kill_one(client))))
        crf = DaskSequenceLabeler(HighOrderCRF(solver=solver, max_iter=5), client).fit(parts(X), parts(y)).estimator_
        assert len(killed) == 1
    assert crf.objective_history_.tobytes() == expected.objective_history_.tobytes()
    assert crf.coef_.data.tobytes() == expected.coef_.data.tobytes()


CLUSTER = """
from distributed import LocalCluster
cluster = LocalCluster(n_workers=1, processes=False, threads_per_worker=1, dashboard_address=None, protocol="tcp://")
print(cluster.scheduler_address, flush=True)
input()
"""


@pytest.mark.slow
def test_a_lost_scheduler_is_an_error_within_seconds():
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            assert address
            with distributed.Client(address, set_as_default=False) as client:
                started = []

                def lose():
                    process.kill()
                    started.append(time.monotonic())

                crf = DaskSequenceLabeler(HighOrderCRF(solver=LBFGS(callback=At(2, lose))), client)
                with pytest.raises(ConnectionError, match="scheduler at .* is lost"):
                    crf.fit(parts(X), parts(y))
                assert time.monotonic() - started[0] < 10
                assert not hasattr(crf, "estimator_")
        finally:
            process.kill()


# ------------------------------------------------------------------------------------------------------------ searches


@pytest.mark.slow
def test_searches_on_a_cluster(client):
    grid = {"max_order": [0, 1], "sigma_reg": [0.5, 1.0]}
    local = GridSearchCV(HighOrderCRF(tol=1e-3), grid, cv=2).fit(X, y)
    with parallel_config(backend="dask"):
        assert threads_for(None) == 1  # not those of the cluster
        assert threads_for(-1) == os.cpu_count() or os.cpu_count() is None
        search = GridSearchCV(HighOrderCRF(tol=1e-3), grid, cv=2).fit(X, y)
        learned = PenaltySearchCV(HighOrderCRF(tol=1e-3), cv=2, max_steps=2).fit(X, y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], local.cv_results_["mean_test_score"])
    expected = PenaltySearchCV(HighOrderCRF(tol=1e-3), cv=2, max_steps=2).fit(X, y)
    assert learned.best_params_ == expected.best_params_
