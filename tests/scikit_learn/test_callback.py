"""scikit-learn callbacks: every solver calls them once per iteration, and only those that stop a fit change it."""

import copy
import itertools
import pickle
import re
import warnings

import joblib
import numpy as np
import pytest
import sklearn
from hypothesis import example, given
from hypothesis import strategies as st
from internals import FitSteps
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
)
from sklearn_hocrf.metrics import log_likelihood_scorer, token_accuracy_score
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.training import LBFGS, SGD, EarlyStopping

pytestmark = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="callbacks need scikit-learn >= 1.9"
)

RNG = np.random.default_rng(0)
WORDS = [[str(word) for word in RNG.choice(list("abcdef"), size=RNG.integers(2, 7))] for _ in range(20)]
X = [[[word] for word in words] for words in WORDS]
Y = [["L" if (word < "d") ^ (RNG.random() < 0.2) else "R" for word in words] for words in WORDS]
HOLES = [[None if RNG.random() < 0.3 else label for label in labels] for labels in Y]
X_DEV, Y_DEV = [[["a"], ["e"], ["b"]], [["f"], ["c"]]], [["L", "R", "L"], ["R", "L"]]

ONE_STAGE = {
    "lbfgs": ({}, Y),
    "owlqn": ({"l1_reg": 0.5}, Y),
    "sgd": ({"solver": "sgd", "random_state": 0}, Y),
    "sgd and l1": ({"solver": SGD(), "random_state": 0, "l1_reg": 0.1}, Y),
}
STAGES = {
    "local": ({"objective": "local_feature_matching"}, Y),
    "missing labels": ({}, HOLES),
}
TRAININGS = ONE_STAGE | STAGES


class Recorder:
    """A callback that notes the ends of tasks, and stops as it is told."""

    def __init__(self, stops=lambda context: False):
        self.begun, self.ends, self.calls, self.stops = [], [], [], stops

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.ends.append(context)
        self.calls.append((X, y, metadata, fitted_estimator))
        return self.stops(context)

    @property
    def models(self):
        """The models after the iterations of the last stage."""
        models = [call[-1] for call in self.calls if isinstance(call, tuple)]
        last = [context for context in self.ends if context.task_name == "iteration"][-1].parent
        return [model for model, context in zip(models, self.ends, strict=True) if context.parent is last]


def at_iteration(number):
    return lambda context: context.task_name == "iteration" and context.task_id == number - 1


def always(context):
    return True


def fail(_):
    raise StopIteration("of a user")


def fit(estimator, y=Y, X=X, **options):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return estimator.fit(X, y, **options)


def fit_without_warnings(estimator, y=Y, X=X):
    with warnings.catch_warnings(action="error"):
        return estimator.fit(X, y)


def assert_same_model(one, other, *names):
    np.testing.assert_array_equal(one.coef_.toarray(), other.coef_.toarray())
    for name in ("pattern_coef_", *names):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.patterns_ == other.patterns_
    assert one.predict(X) == other.predict(X)


NUMBERS = "objective_history_", "n_iter_", "optimality_gap_"

# --- what is called, and what it changes: nothing ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_every_solver_calls_once_an_iteration_and_nothing_changes(estimator, name):
    options, y = TRAININGS[name]
    plain, recorder = fit(estimator(**options), y), Recorder()
    crf = fit(estimator(**options).set_callbacks(recorder), y)
    assert_same_model(crf, plain, *NUMBERS, "n_passes_")
    assert vars(crf).keys() - vars(plain).keys() == {"_skl_callbacks"}
    assert (recorder.calls[0], recorder.calls[-1]) == ("setup", "teardown")
    assert all(call[:3] == (X, y, None) for call in recorder.calls[1:-1])
    assert {id(context) for context in recorder.begun} == {id(context) for context in recorder.ends}
    whole = recorder.ends[-1]
    assert (whole.task_name, whole.parent) == ("fit", None)
    last = whole if name in ONE_STAGE else recorder.ends[-2]
    assert last.task_name == ("fit" if name in ONE_STAGE else "training")
    n_calls = sum(context.parent is last for context in recorder.ends)
    assert n_calls == plain.n_iter_
    if n_calls:
        assert_same_model(recorder.models[-1], plain)
        np.testing.assert_array_equal(recorder.models[-1].objective_history_, plain.objective_history_)
    assert_same_model(recorder.calls[-2][-1], plain, *NUMBERS, "n_passes_")


@pytest.mark.parametrize("name", ONE_STAGE)
def test_a_fit_that_is_stopped_is_one_of_so_many_iterations(name):
    options, y = ONE_STAGE[name]
    recorder = Recorder(at_iteration(3))
    crf = fit_without_warnings(HighOrderCRF(**options).set_callbacks(recorder), y)
    short = HighOrderCRF(**options, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        short.fit(X, y)
    assert_same_model(crf, short, *NUMBERS, "n_passes_")
    assert_same_model(recorder.models[-1], short, "objective_history_", "n_iter_")
    assert recorder.models[-1].optimality_gap_ >= short.optimality_gap_  # inf where it takes a pass to know


@pytest.mark.parametrize("name", STAGES)
def test_stages_that_follow_one_that_is_stopped_take_no_step(name):
    options, y = STAGES[name]
    recorder = Recorder(always)
    crf = fit_without_warnings(HighOrderCRF(**options).set_callbacks(recorder), y)
    assert [context.task_name for context in recorder.ends].count("iteration") == 1
    assert (crf.n_iter_, len(crf.objective_history_)) == (0, 1)
    assert all(context.task_name != "training" for context in recorder.begun)
    best = fit(HighOrderCRF(**options), y)
    assert crf.objective_history_[-1] > best.objective_history_[-1]
    assert crf.objective_history_[-1] - best.objective_history_[-1] <= crf.optimality_gap_


@pytest.mark.parametrize("name", STAGES)
def test_to_stop_an_iteration_stops_its_stage(name):
    options, y = STAGES[name]
    recorder = Recorder(at_iteration(2))
    crf = fit_without_warnings(HighOrderCRF(**options).set_callbacks(recorder), y)
    stages = [context for context in recorder.ends if context.task_name not in ("fit", "iteration")]
    assert [context.task_name for context in stages][-1] == "training"
    counts = [sum(context.parent is stage for context in recorder.ends) for stage in stages]
    assert max(counts) <= 2
    assert counts[-1] == crf.n_iter_


def test_models_after_iterations_answer_as_if_fit_had_ended_there():
    recorder = Recorder()
    HighOrderCRF(max_order=2, tol=1e-6).set_callbacks(recorder).fit(X, Y)
    for number, model in enumerate(recorder.models, 1):
        short = fit(HighOrderCRF(max_order=2, tol=1e-6, max_iter=number))
        assert_same_model(model, short, *NUMBERS, "n_passes_")
        np.testing.assert_array_equal(model.log_likelihood(X, Y), short.log_likelihood(X, Y))
        assert pickle.loads(pickle.dumps(model.set_callbacks())).predict(X) == short.predict(X)


class Modest(Recorder):
    """A callback that does not ask for models."""

    def on_fit_task_end(self, estimator, context):
        self.ends.append(context)


@pytest.mark.parametrize("asked", [[], [Modest()], [Modest(), Recorder()]])
def test_models_are_made_for_callbacks_that_ask(monkeypatch, asked):
    made, state = [], FitSteps.state
    monkeypatch.setattr(FitSteps, "state", lambda *args: made.append(args) or state(*args))
    crf = HighOrderCRF().set_callbacks(*asked).fit(X, Y)
    assert len(made) == 1 + (crf.n_iter_ if len(asked) == 2 else 0)


def test_models_of_a_second_fit_forget_the_first():
    crf = HighOrderCRF().fit(X_DEV, [["Q", "R", "Q"], ["R", "Q"]])
    recorder = Recorder()
    crf.set_callbacks(recorder).fit(X, Y)
    assert all(model.classes_.tolist() == ["L", "R"] for model in recorder.models)


def test_weights_go_to_callbacks():
    recorder, weight = Recorder(), np.arange(len(X), dtype=float)
    fit(HighOrderCRF(max_iter=1).set_callbacks(recorder), sample_weight=weight)
    assert all(call[2]["sample_weight"] is weight for call in recorder.calls[1:-1])


@pytest.mark.usefixtures("all_lines")
@pytest.mark.parametrize("verbose", [0, 1])
def test_verbose_is_what_it_was(capfd, verbose):
    def written(estimator):
        estimator.fit(X, Y)
        return [re.sub(r"[\d.]+ s\b", "seconds", text) for text in capfd.readouterr()]

    plain = written(HighOrderCRF(verbose=verbose))
    assert written(HighOrderCRF(verbose=verbose).set_callbacks(Recorder())) == plain
    assert bool(plain[1]) == bool(verbose)


def test_callbacks_of_the_solver_are_called_too():
    seen, recorder = [], Recorder()
    crf = HighOrderCRF(solver=LBFGS(callback=seen.append)).set_callbacks(recorder).fit(X, Y)
    assert len(seen) == len(recorder.models) == crf.n_iter_


@pytest.mark.parametrize("hook", ["setup", "on_fit_task_begin", "on_fit_task_end", "teardown"])
def test_a_callback_that_fails_leaves_no_half_fitted_estimator(hook):
    def fail(*args, **options):
        raise RuntimeError(f"in {hook}")

    crf, recorder = HighOrderCRF(), Recorder()
    setattr(recorder, hook, fail)
    before = set(vars(crf))
    with pytest.raises(RuntimeError, match=f"in {hook}"):
        crf.set_callbacks(recorder).fit(X, Y)
    assert vars(crf).keys() - before <= {"_skl_callbacks"} or hook == "teardown"
    if hook != "teardown":
        with pytest.raises(NotFittedError):
            crf.predict(X)
    assert crf.set_callbacks().fit(X, Y).predict(X)


def test_wrong_data_are_told_before_any_callback():
    recorder = Recorder()
    with pytest.raises(ValueError, match="."):
        HighOrderCRF().set_callbacks(recorder).fit(X, Y[:-1])
    assert recorder.calls == []


def test_clones_and_pickles_have_the_callbacks():
    stopping = EarlyStopping(X_DEV, Y_DEV, patience=1)
    crf = HighOrderCRF().set_callbacks(stopping)
    assert clone(crf)._skl_callbacks == [stopping]
    crf.fit(X, Y)
    for other in (clone(crf), copy.deepcopy(crf), pickle.loads(pickle.dumps(crf))):
        assert_same_model(other.fit(X, Y), crf, *NUMBERS)
    with pytest.raises(TypeError, match="FitCallback"):
        crf.set_callbacks(Recorder)
    crf.set_callbacks()
    assert "_skl_callbacks" not in vars(crf)


# --- early stopping ---------------------------------------------------------------------------------------------------


def stopping_by(values, **options):
    scores = itertools.chain(values, itertools.repeat(values[-1]))
    return EarlyStopping(X_DEV, Y_DEV, scoring=lambda *args: next(scores), **options)


def stops_after(values, patience):
    """Return the number of iterations until there are ``patience`` in a row without progress."""
    reference, in_vain = values[0], 0
    for number, value in enumerate(values[1:], 2):
        if value > reference:
            reference, in_vain = value, 0
        else:
            in_vain += 1
        if in_vain == patience:
            return number
    return len(values)


TIGHT = {"max_order": 2, "tol": 1e-9, "sigma_reg": 10.0}
N_ITER = 8


@given(
    values=st.lists(st.sampled_from([-np.inf, 0, 0.5, 1, 1.25, 2]), min_size=N_ITER, max_size=N_ITER),
    patience=st.integers(1, 5),
)
@example(values=[2] + [0] * (N_ITER - 1), patience=1)
@example(values=[0, 0.5, 1, 1.25, 1.25, 2, 2, 2], patience=2)
def test_early_stopping_is_what_it_says(values, patience):
    stopping = stopping_by(values, patience=patience)
    crf = fit(HighOrderCRF(**TIGHT, max_iter=N_ITER).set_callbacks(stopping))
    last = stops_after(values, patience)
    assert stopping.scores_ == values[:last]
    n_iter = int(np.argmax(values[:last])) + 1
    assert_same_model(crf, fit(HighOrderCRF(**TIGHT, max_iter=n_iter)), *NUMBERS)
    assert crf.n_passes_ == fit(HighOrderCRF(**TIGHT, max_iter=last)).n_passes_


@pytest.mark.parametrize("name", TRAININGS)
def test_the_best_model_of_every_solver_is_restored(name):
    options, y = TRAININGS[name]
    recorder, stopping = Recorder(), stopping_by([1, 2, 0, 1.5, 0, 0], patience=3)
    crf = fit_without_warnings(HighOrderCRF(**options).set_callbacks(stopping, recorder), y)
    plain = fit(HighOrderCRF(**options), y)
    assert stopping.scores_ == [1, 2, 0, 1.5, 0]  # of the last stage
    assert_same_model(crf, recorder.models[1], *NUMBERS)
    np.testing.assert_array_equal(crf.objective_history_, plain.objective_history_[:3])


def test_a_fit_that_ends_by_itself_has_the_best_model_and_its_warning():
    stopping = stopping_by([0, 1, 0], patience=9)
    with pytest.warns(ConvergenceWarning, match="did not converge in 4 iterations"):
        crf = HighOrderCRF(**TIGHT, max_iter=4).set_callbacks(stopping).fit(X, Y)
    assert crf.n_iter_ == 2
    stopping = stopping_by([0, 1, 0], patience=99)
    assert fit_without_warnings(HighOrderCRF().set_callbacks(stopping)).n_iter_ == 2


def test_real_scores_stop_a_model_without_a_penalty():
    stopping = EarlyStopping(X_DEV, Y_DEV, scoring=log_likelihood_scorer, patience=2)
    crf = fit_without_warnings(HighOrderCRF(sigma_reg=np.inf).set_callbacks(stopping))
    assert log_likelihood_scorer(crf, X_DEV, Y_DEV) == max(stopping.scores_)
    assert crf.n_iter_ == np.argmax(stopping.scores_) + 1
    assert crf.optimality_gap_ == np.inf
    default = EarlyStopping(X_DEV, Y_DEV, patience=1)
    crf.set_callbacks(default).fit(X, Y)
    assert crf.score(X_DEV, Y_DEV) == max(default.scores_)


def test_early_stopping_in_searches():
    crf = HighOrderCRF().set_callbacks(EarlyStopping(X_DEV, Y_DEV, patience=1))
    search = GridSearchCV(crf, {"sigma_reg": [1, 10]}, cv=2).fit(X, Y)
    best = fit(HighOrderCRF(**search.best_params_).set_callbacks(EarlyStopping(X_DEV, Y_DEV, patience=1)))
    assert_same_model(search.best_estimator_, best, *NUMBERS)
    assert crf._skl_callbacks[0]._runs == {}
    threads = GridSearchCV(crf, {"sigma_reg": [1, 10]}, cv=2, n_jobs=2)
    with joblib.parallel_config("threading"):
        threads.fit(X, Y)
    np.testing.assert_array_equal(threads.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_early_stopping_tells_what_is_wrong():
    with pytest.raises(ValueError, match="^EarlyStopping: .*sequence 0") as caught:
        HighOrderCRF().set_callbacks(EarlyStopping(X_DEV, [Y_DEV[0][1:], *Y_DEV[1:]])).fit(X, Y)
    assert caught.value.__notes__ == ["This refers to the held-out X and y of EarlyStopping."]
    for value in (np.nan, {"f1": 1.0}, None):
        with pytest.raises(ValueError, match="EarlyStopping returned .*, not a number"):
            HighOrderCRF().set_callbacks(stopping_by([value])).fit(X, Y)
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).set_callbacks(EarlyStopping(WORDS, Y))
    with pytest.raises(
        TypeError, match="EarlyStopping is for HighOrderCRF .*, not for SequencePipeline: call set_call"
    ):
        pipe.fit(WORDS, Y)
    pipe[-1].set_callbacks(EarlyStopping(pipe[:-1].fit_transform(WORDS), Y, patience=1))
    assert pipe.set_callbacks().fit(WORDS, Y).predict(WORDS)


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        ((WORDS, Y), "X has attribute names, but HighOrderCRF was fitted on rows of numbers or on a SequenceBatch"),
        (([[{"w": word} for word in words] for words in WORDS], Y), "X has attribute names"),
        ((SequenceFeatureExtractor().fit_transform(WORDS[:1]), Y[:1]), r"X has \d+ features, but"),
        (([np.zeros((2, 3))], [["L", "L"]]), "X has 3 features"),
        ((["text"], Y[:1]), "."),
    ],
)
def test_held_out_data_of_another_form_are_found_before_training(held_out, message):
    recorder = Recorder()
    crf = HighOrderCRF().set_callbacks(recorder, EarlyStopping(*held_out))
    with pytest.raises((ValueError, TypeError), match="^EarlyStopping: .*" + message):
        make_pipeline(SequenceFeatureExtractor(), crf).fit(WORDS, Y)
    assert not recorder.ends


def test_held_out_data_of_all_forms_are_taken():
    numbers = [np.array([[ord(word), 1.0] for word in words]) for words in WORDS]
    grid, labels = np.stack([rows[:2] for rows in numbers]), [row[:2] for row in Y]
    batch, dicts = SequenceFeatureExtractor().fit_transform(WORDS), [[{"w": word} for word in words] for words in WORDS]
    for inputs, y in (numbers, Y), (grid, labels), (grid[:, 0], [row[0] for row in Y]), (batch, Y), (dicts, Y), (X, Y):
        stopping = EarlyStopping(inputs[1:4], y[1:4], patience=1)
        assert fit(HighOrderCRF(max_iter=2).set_callbacks(stopping), y, inputs).n_iter_ <= 2


def test_scorers_that_scikit_learn_does_not_know():
    with pytest.raises(ValueError, match="^scoring='bio_f1' of EarlyStopping is not .*metrics: segment_f1_scorer"):
        HighOrderCRF().set_callbacks(EarlyStopping(X_DEV, Y_DEV, scoring="bio_f1")).fit(X, Y)


# --- scikit-learn's own callbacks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", [make_scorer(token_accuracy_score), {"score": log_likelihood_scorer}])
def test_scoring_monitor(scoring):
    from sklearn.callback import ScoringMonitor

    monitor, recorder = ScoringMonitor(scoring=scoring), Recorder()
    HighOrderCRF().set_callbacks(monitor, recorder).fit(X, Y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    score = scoring["score"] if isinstance(scoring, dict) else scoring
    assert [row["score"] for row in rows] == [score(model, X, Y) for model in recorder.models]


def test_transformers_have_one_task():
    segments, batch = [[(0, len(labels), "S")] for labels in Y], SequenceFeatureExtractor().fit_transform(WORDS)
    for transformer, data, y in (
        (SequenceFeatureExtractor(), WORDS, None),
        (SequenceFeatureExtractor("attributes"), X, None),
        (SegmentFeatureExtractor(begin=True, scheme="segments"), batch, segments),
        (SegmentLogOddsEncoder(scheme="segments"), batch, segments),
    ):
        for method in ("fit", "fit_transform"):
            recorder = Recorder()
            getattr(clone(transformer).set_callbacks(recorder), method)(data, y)
            assert [context.task_name for context in recorder.ends] == ["fit"]
            assert recorder.calls[0::2] == ["setup", "teardown"]
            recorder.calls[1][-1].transform(data)


@pytest.mark.filterwarnings("error")
def test_progress_bar(capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    HighOrderCRF().set_callbacks(ProgressBar()).fit(X, Y)
    assert "HighOrderCRF - fit" in capsys.readouterr().out
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_order=2))
    search = GridSearchCV(pipe, {"highordercrf__sigma_reg": [1, 2]}, cv=2)
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(WORDS, Y)
    out = capsys.readouterr().out
    assert "HighOrderCRF - fit" in out


# --- searches for penalties -------------------------------------------------------------------------------------------


def search_for_penalties(**options):
    return PenaltySearchCV(HighOrderCRF(), cv=2, orders=[0, 1], max_steps=3, **options)


def test_callbacks_inside_a_search_for_penalties():
    stopping = EarlyStopping(X_DEV, Y_DEV, patience=1)
    search = search_for_penalties()
    search.estimator.set_callbacks(stopping)
    search.fit(X, Y)
    assert len(stopping.scores_) >= search.best_estimator_.n_iter_ > 0
    assert_same_model(
        search.best_estimator_, clone(search.estimator).set_params(**search.best_params_).fit(X, Y), *NUMBERS
    )
