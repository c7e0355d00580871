"""The fitted state: set at once, results from one model, checked reports, and files that cannot mislead a kernel."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from internals import (
    BAG,
    BEGIN,
    FROM_START,
    FROM_STOP,
    RANGE,
    WHOLE,
    Channel,
    FeatureMap,
    FittedModel,
    LengthBlock,
    PatternTable,
    SegmentLayout,
    SegmentRules,
    TokenColumn,
    WeightLayout,
    base,
    given_patterns,
)
from refusals import refusals
from sklearn.exceptions import ConvergenceWarning, InconsistentVersionWarning

import sklearn_hocrf
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, SequenceBatch
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
TAGS = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
OTHER_X = [[["x"], ["y"]], [["z"], ["x"], ["Ann"]]]
TAGS_OF_RUNS = [["x", "y"], ["y", "z", "z"]]
OTHER_TAGS = [["B-LOC", "O"], ["O", "B-ORG", "I-ORG"]]


@pytest.fixture(params=[HighOrderCRF, HighOrderSemiCRF])
def crf(request):
    settings = {} if request.param is HighOrderCRF else {"scheme": "bio"}
    return request.param(max_order=2, **settings)


def answers(model):
    return model.predict(X), [table.tolist() for table in model.predict_marginals(X)], model.patterns_


# --- what is saved ----------------------------------------------------------------------------------------------------


def test_what_contradicts_the_record_is_not_read(crf):
    state = {**crf.fit(X, TAGS).__getstate__(), "coef_": "nonsense", "classes_": None}
    other = type(crf)()
    other.__setstate__(state)
    assert answers(other) == answers(crf)


def change(crf, **parts):
    """Return the state of a fitted estimator with parts of the record replaced."""
    return {**crf.__getstate__(), "_state": crf._state._replace(**parts)}


def test_records_whose_parts_do_not_fit_are_refused(crf):
    fitted = crf.fit(X, TAGS)._state
    other = copy.copy(crf).fit(OTHER_X, OTHER_TAGS)._state
    twin = (HighOrderSemiCRF if isinstance(crf, HighOrderCRF) else HighOrderCRF)().fit(OTHER_X, TAGS_OF_RUNS)._state
    empty = object.__new__(type(fitted.layout))
    for parts in (
        *({name: getattr(other, name)} for name in ("layout", "targets")),
        *({name: getattr(twin, name)} for name in ("layout", "targets")),
        {"layout": empty},
        {"weights": fitted.weights[:-1]},
        {"weights": np.append(fitted.weights[1:], np.nan)},
        {"weights": fitted.weights.astype(str)},
        {"targets": fitted.targets._replace(labels=np.array(["O"] * len(fitted.targets.labels)))},
        {"history": fitted.history[1:]},
        {"gap": "none"},
        {"trained_with": None},
        {"stream": (None,)},
        {"features": fitted.features._replace(n_features=99)},
    ):
        with pytest.raises(ValueError, match="."):
            type(crf)().__setstate__(change(crf, **parts))


@pytest.mark.parametrize("name", ["w", "sums", "squares", "step", "n_seen", "mass"])
def test_states_of_streams_are_checked(name):
    crf = HighOrderCRF(solver="sgd", random_state=0).partial_fit(X, TAGS)
    value = getattr(crf._state.stream, name)
    for bad in (value[:-1], value.astype(np.float32)) if isinstance(value, np.ndarray) else (-1, np.inf):
        wrong = copy.copy(crf._state.stream)
        setattr(wrong, name, bad)
        with pytest.raises(ValueError, match="the state of the solver"):
            HighOrderCRF().__setstate__(change(crf, stream=wrong))


# --- what kernels index with ------------------------------------------------------------------------------------------

PATTERNS = given_patterns([(0, 1), (1, 0, 1)], 2)
FEATURES = FeatureMap(np.array([0, 1]), np.array([0, 0]), np.array([1, 0, 2]))


def segments(channels=(BAG, BEGIN, WHOLE), blocks=(), longest=(3, 4), **parts):
    whole = FEATURES._replace(channel=np.array([2, 0]))
    rules = SegmentRules(channels, blocks, longest, True)
    return SegmentLayout(rules, PATTERNS, parts.get("features", whole), [0, 1], [0, 3], [0, 2])


@pytest.mark.parametrize(
    "parts",
    [
        {"channels": (BEGIN, BAG, WHOLE)},
        {"channels": (BAG, BEGIN, WHOLE, BAG)},
        *(
            {"channels": (BAG, BEGIN, WHOLE, Channel(*numbers))}
            for numbers in [
                (FROM_START, -1),
                (FROM_STOP, -2),
                (FROM_STOP, 1, 1),
                (RANGE, 1, 1),
                (RANGE, -1),
                (9,),
                (0, 0, 2, 1),
                (0, 0, 0),
                (FROM_START, 2**31),
                (FROM_START, 0.5),
            ]
        ),
        {"blocks": ((0, LengthBlock("cubic", 0)),)},
        {"blocks": ((2, LengthBlock("gamma", 0)),)},
        {"blocks": ((-1, LengthBlock("gamma", 0)),)},
        {"blocks": ((0, LengthBlock("indicator", 3)),)},
        {"longest": (3,)},
        {"longest": (3, 0)},
        {"longest": (3, 2**31)},
        {"features": FEATURES._replace(channel=np.array([3, 0]))},
    ],
)
def test_segment_layouts_refuse_what_does_not_fit(parts):
    with pytest.raises(ValueError, match="."):
        segments(**parts)


def test_weights_must_be_as_many_as_there_are(crf):
    model = FittedModel(crf.fit(X, TAGS)).model()
    with pytest.raises(ValueError, match=f"there are {model.layout.n_weights} weights"):
        type(model)(model.layout, model.weights[:-1])


@pytest.mark.slow
def test_files_with_any_number_changed_are_refused_or_answer():
    """Kernels check indices there, which they otherwise do not: machine code would read or write outside of arrays."""
    script = Path(__file__).with_name("mutate_files.py")
    own_cache = os.path.join(os.environ["NUMBA_CACHE_DIR"], "checked")  # numba's keys do not tell these kernels apart
    checking = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": own_cache}
    environment = {**os.environ, **checking, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in done.stdout.splitlines():
        _, n_files, n_refused = line.rsplit(" ", 2)
        assert int(n_files) > 20
        assert int(n_refused) > int(n_files) / 2


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: HighOrderCRF().fit(X, TAGS), lambda: SequenceFeatureExtractor("attributes").fit(X)]
)
def test_models_of_other_versions_are_warned_about(make, monkeypatch):
    model = make()
    content = pickle.dumps(model)
    with warnings.catch_warnings(action="error"):
        assert not hasattr(pickle.loads(content), "_sklearn_hocrf_version")
        copy.deepcopy(model)
    monkeypatch.setattr(sklearn_hocrf._data, "__version__", "77.0")
    with pytest.warns(InconsistentVersionWarning, match="saved by sklearn_hocrf 0.* loaded by 77.0"):
        pickle.loads(content)
    state = model.__getstate__()
    del state["_sklearn_hocrf_version"]
    with pytest.warns(InconsistentVersionWarning, match="an unknown version"):
        type(model)().__setstate__(state)


# --- old or new -------------------------------------------------------------------------------------------------------


def interrupted(function, number, codes):
    """Call a function, with Ctrl-C at the given line executed by some code; return whether it came to that line."""
    seen = 0

    def trace(frame, event, argument):
        nonlocal seen
        if frame.f_code not in codes:
            return trace if event == "call" else None
        if event in ("line", "return"):
            seen += 1
            if seen == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_interrupts_leave_the_old_model_or_the_new_one(crf, method):
    if method == "partial_fit":
        crf.set_params(solver="sgd", random_state=0)
    old = copy.copy(crf).fit(X, TAGS) if method == "fit" else copy.copy(crf).partial_fit(X, TAGS)
    arguments = (OTHER_X, OTHER_TAGS) if method == "fit" else ([[["new"], ["met"]]], [["O", "B-PER"]])
    new = copy.copy(old)
    getattr(new, method)(*arguments)
    possible = [(answers(model), model.n_features_in_, model.n_iter_, model.classes_.tolist()) for model in (old, new)]
    assert possible[0] != possible[1]
    state, fit = type(old._state), base.BaseSequenceLabeler.fit.__wrapped__
    codes = {f.__code__ for f in (state.set_on, state.attributes, fit, crf.set_params)}
    number, states = 1, []
    while True:
        model = copy.copy(old)
        came = interrupted(lambda model=model: getattr(model, method)(*arguments), number, codes)
        states.append((answers(model), model.n_features_in_, model.n_iter_, model.classes_.tolist()))
        assert states[-1] in possible
        assert vars(model).keys() == vars(old).keys()
        if not came:
            break
        number += 1
    assert number > 20
    assert states[0] == possible[0]
    assert states[-2] == states[-1] == possible[1]


def test_warnings_come_when_the_model_is_there(crf):
    with warnings.catch_warnings(action="error", category=ConvergenceWarning), pytest.raises(ConvergenceWarning):
        crf.set_params(max_iter=1, tol=0.0).fit(X, TAGS)
    assert crf.n_iter_ == 1
    assert len(crf.predict(X)) == 2


def test_predictions_beside_refits_are_old_or_new_ones(crf):
    """Both kinds of answers appear, and nothing else: other labels, other features, other states."""
    questions = [["met"], ["Ann"], ["x"]]
    models = [copy.copy(crf).fit(X, TAGS), copy.copy(crf).fit(OTHER_X, OTHER_TAGS)]
    states = [vars(model) for model in models]
    possible = [(model.predict([questions]), model.predict_marginals([questions])[0].tolist()) for model in models]
    assert possible[0] != possible[1]
    shared, stop, failed = copy.copy(models[0]), threading.Event(), []

    def refit():
        while not stop.is_set():
            for state in states:
                state["_state"].set_on(shared)

    def predict():
        for _ in range(60):
            try:
                assert shared.predict([questions]) in [labels for labels, _ in possible]
                assert shared.predict_marginals([questions])[0].tolist() in [table for _, table in possible]
            except Exception as error:
                failed.append(error)
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=target) for target in (refit, predict, predict)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads[1:]:
            thread.join()
    finally:
        stop.set()
        threads[0].join()
        sys.setswitchinterval(interval)
    assert not failed


# --- what solvers return ----------------------------------------------------------------------------------------------


# for refusals
def chain(**parts):
    arguments = {
        "patterns": PATTERNS,
        "features": FEATURES,
        "pair_feature": np.array([0, 1, 1]),
        "pair_pattern": np.array([0, 1, 3]),
        "bias_pattern": np.array([0, 2]),
        "extra_columns": np.array([2]),
    }
    return WeightLayout(*(parts.get(name, value) for name, value in arguments.items()))


test_refusals = refusals(
    (lambda params: chain(**params),
     ("must", {"pair_feature": np.array([0, 1, 9])}, {"pair_feature": np.array([-1, 0, 1])},
      {"pair_feature": np.array([0.0, 1.0, 0.5])}, {"pair_feature": np.array([[0, 1, 1]])},
      {"pair_pattern": np.array([0, 1, 9])}, {"pair_pattern": np.array([-1, 0, 1])},
      {"pair_pattern": np.array([0.0, 1.0, 0.5])}, {"pair_pattern": np.array([[0, 1, 1]])},
      {"bias_pattern": np.array([0, 1, 9])}, {"bias_pattern": np.array([-1, 0, 1])},
      {"bias_pattern": np.array([0.0, 1.0, 0.5])}, {"bias_pattern": np.array([[0, 1, 1]])},
      {"extra_columns": np.array([0, 1, 9])}, {"extra_columns": np.array([-1, 0, 1])},
      {"extra_columns": np.array([0.0, 1.0, 0.5])}, {"extra_columns": np.array([[0, 1, 1]])}),
     (".", {"pair_feature": np.array([0, 1])}, {"bias_pattern": np.array([2, 0])},
      {"features": FEATURES._replace(attribute=np.array([0, 3]))},
      {"features": FEATURES._replace(channel=np.array([0, 1]))},
      {"features": FEATURES._replace(channel=np.array([0]))},
      {"features": FEATURES._replace(sort_key=np.array([["a"]]))},
      {"patterns": PATTERNS._replace(labels=PATTERNS.labels + 1)},
      {"patterns": PATTERNS._replace(labels=PATTERNS.labels[::-1])},
      {"patterns": PATTERNS._replace(labels=PATTERNS.labels[:-1])},
      {"patterns": PATTERNS._replace(labels=PATTERNS.labels[:, 1:])},
      {"patterns": PATTERNS._replace(lengths=PATTERNS.lengths[::-1])},
      {"patterns": PATTERNS._replace(lengths=PATTERNS.lengths + 1)},
      {"patterns": PatternTable(np.repeat(PATTERNS.labels, 2, axis=0), np.repeat(PATTERNS.lengths, 2))},
      {"patterns": PatternTable(np.empty((0, 1), np.int32), np.empty(0, np.int32))})),
    (lambda value: SequenceBatch([0, 2], [0, 1, 2], [0, 0], None, 1,
         columns={"w": TokenColumn(np.array(value, np.int32), np.array(["a", "b"], dtype=object))}),
     ("column 'w'", [0, 2], [-2, 0], [0])),
)  # fmt: skip
