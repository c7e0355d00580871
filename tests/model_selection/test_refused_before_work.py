"""Meta-estimators raise the errors of the inner model before they fit anything, with the same messages.

The tests try each pair of a table of meta-estimators and a table of settings and data, and count the fits.
"""

import re

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import StackingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, StackedSequenceLabeler, make_pipeline
from sklearn_hocrf._estimator.fit.training import Training
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV, cross_val_predict

COUNT = {"fits": 0}


class Classifier(LogisticRegression):
    """A classifier that counts its fits."""

    def fit(self, *args, **params):
        COUNT["fits"] += 1
        return super().fit(*args, **params)


class Passing(TransformerMixin, BaseEstimator):
    """A transformer that counts its fits, and changes nothing."""

    def fit(self, X, y=None):
        COUNT["fits"] += 1
        return self

    def transform(self, X):
        return X

    def __sklearn_is_fitted__(self):
        return True


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    """Count how often a model is trained."""
    train = Training.run

    def counting(*args, **options):
        COUNT["fits"] += 1
        return train(*args, **options)

    monkeypatch.setattr(Training, "run", counting)
    COUNT["fits"] = 0


Y = [["walk"] * 3 + ["rest"] * 2 + ["run"] * 2, ["run"] * 3 + ["walk"] * 4] * 6
X = [np.arange(7.0)[:, None] + np.eye(7)[:, :2]] * len(Y)


def stacked(model):
    return StackedSequenceLabeler(Classifier(), model, cv=3)


def calibrated(model):
    return CalibratedSequenceLabeler(model, cv=3)


def learned(model):
    return PenaltySearchCV(model, cv=2, max_steps=1)


def piped(model):
    return make_pipeline(Passing(), model)


def searched(model):
    return GridSearchCV(model, {}, cv=2, error_score="raise")


def of_orders(model):
    return GridSearchCV(model, {"tol": [1e-3, 1e-2]}, cv=2)


class CrossValPredict(BaseEstimator):
    """The function as an estimator."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y, **params):
        return cross_val_predict(self.model, X, y, cv=3, params=params)


KNOWN_X = {
    "the model": lambda model: model,
    "stacked": stacked,
    "calibrated": calibrated,
    "stacked, calibrated": lambda model: calibrated(stacked(model)),
    "calibrated, stacked": lambda model: stacked(calibrated(model)),
    "search, stacked": lambda model: stacked(of_orders(model)),
    "search, calibrated, stacked": lambda model: stacked(calibrated(of_orders(model))),
    "stacked, calibrated, search": lambda model: searched(calibrated(stacked(model))),
    "cross_val_predict": CrossValPredict,
    "stacked, cross_val_predict": lambda model: CrossValPredict(stacked(model)),
    "pipeline of one step": lambda model: calibrated(Pipeline([("no", "passthrough"), ("model", model)])),
}
WRAPPERS = {
    **KNOWN_X,
    "pipeline": piped,
    "stacked, pipeline": lambda model: piped(stacked(model)),
    "pipeline, calibrated": lambda model: calibrated(piped(model)),
    "pipeline of scikit-learn, calibrated": lambda model: calibrated(Pipeline([("a", Passing()), ("b", model)])),
    "calibrated, pipeline": lambda model: piped(calibrated(model)),
    "pipeline, search": lambda model: searched(piped(model)),
    "pipeline, stacked": lambda model: stacked(piped(model)),
    "pipeline, cross_val_predict": lambda model: CrossValPredict(piped(model)),
    "learned penalties": learned,
    "pipeline, learned penalties": lambda model: learned(piped(model)),
    "learned penalties, stacked": lambda model: stacked(learned(model)),
    "learned penalties, pipeline": lambda model: piped(learned(model)),
}
SETTINGS = {
    "sigma_reg": HighOrderCRF(sigma_reg=-1),
    "sigma_reg empty": HighOrderCRF(sigma_reg={}),
    "sigma_reg too small": HighOrderCRF(sigma_reg=1e-160),
    "key": HighOrderCRF(sigma_reg={3: 1.0}),
    "l1_reg": HighOrderCRF(l1_reg=np.inf),
    "max_order": HighOrderCRF(max_order=True),
    "min_count": HighOrderCRF(min_count=-1),
    "solver": HighOrderCRF(solver="newton"),
    "n_jobs": HighOrderCRF(n_jobs=0),
    "pruning with history": HighOrderCRF(pruning=2, history="segments"),
    "pruning with one thing more": HighOrderCRF(pruning=2, objective="local_feature_matching"),
    "tags": HighOrderCRF(constraints="bio"),
    "forbidden": HighOrderCRF(constraints=Constraints([("walk", "rest")])),
    "unknown label": HighOrderCRF(constraints=Constraints([("walk", "fly")])),
    "end": HighOrderCRF(constraints=Constraints(end=["run"])),
    "patterns": HighOrderCRF(patterns=[("walk", "fly")]),
    "order of patterns": HighOrderCRF(patterns=[("walk", "rest", "run", "rest")]),
    "patterns that end": HighOrderCRF(patterns=iter([("walk", "rest")])),
    "label_parts": HighOrderCRF(label_parts=lambda label: 3),
    "feature_order": HighOrderCRF(feature_order={"a": -1}),
    "segment_length": HighOrderSemiCRF(segment_length=2),
    "least length": HighOrderSemiCRF(segment_length={"rest": (3, None)}),
    "limits": HighOrderSemiCRF(segment_length=(3, 2)),
    "scheme": HighOrderSemiCRF(scheme="bio"),
    "constraints": HighOrderSemiCRF(constraints="bio"),
    "segments": HighOrderSemiCRF(scheme="words"),
}
# they pass on what each wrapper inside is tried with; a search for penalties itself checks what is in a pipeline
NESTED = {name for name in WRAPPERS if "," in name and "penalties" not in name}
FOR_NESTED = "sigma_reg", "pruning with history", "unknown label", "patterns that end", "least length", "scheme"
PAIRS = [(name, setting) for name in WRAPPERS for setting in (FOR_NESTED if name in NESTED else SETTINGS)]
UNCOVERED = {
    "no key": HighOrderCRF(sigma_reg={("features", 0): 1.0}),
    "no key of l1": HighOrderCRF(l1_reg={("patterns", 0): 1.0}),
}
BAD_Y = {
    "none": None,
    "one class": [["walk"] * 7] * len(Y),
    "no order": [*Y[1:], ["walk"] * 6 + [3]],
    "not hashable": [*Y[1:], ["walk"] * 6 + [["run"]]],
    "a number": [*Y[1:], 3],
    "nothing known": [None] * len(Y),
    "empty set": [*Y[1:], ["walk"] * 6 + [set()]],
    "nan": [*Y[1:], ["walk"] * 6 + [float("nan")]],
}
LABELS = [(name, y) for name in WRAPPERS for y in (("one class", "not hashable") if name in NESTED else BAD_Y)]


def refusal(fit, *data, **params):
    """Return the error of a fit."""
    with pytest.raises((ValueError, TypeError)) as caught:
        fit(*data, **params)
    return type(caught.value), str(caught.value)


def assert_refused_at_once(wrapper, model, *data, **params):
    kind, words = refusal(clone(model).fit, *data, **params)
    found = refusal(wrapper(clone(model)).fit, *data, **params)
    assert COUNT["fits"] == 0
    return kind, words, found


@pytest.mark.parametrize(("wrapper", "setting"), PAIRS)
def test_settings(wrapper, setting):
    kind, words, found = assert_refused_at_once(WRAPPERS[wrapper], SETTINGS[setting], X, Y)
    if "penalties" in wrapper and setting.startswith("pruning with"):  # the search has a reason of its own
        return
    sequence = re.compile(r"sequence \d+")  # in a search, it is one of a fold
    assert found[0] is kind
    assert sequence.sub("", found[1]) == sequence.sub("", words)


@pytest.mark.parametrize("setting", UNCOVERED)
@pytest.mark.parametrize("wrapper", KNOWN_X)
def test_penalties_of_known_features(wrapper, setting):
    kind, words, found = assert_refused_at_once(KNOWN_X[wrapper], UNCOVERED[setting], X, Y)
    assert found[0] == kind
    assert "has no key for the weight of" in found[1]


@pytest.mark.parametrize(("wrapper", "y"), LABELS)
@pytest.mark.parametrize("model", [HighOrderCRF(), HighOrderSemiCRF()], ids=["tokens", "segments"])
def test_labels(wrapper, model, y):
    assert_refused_at_once(WRAPPERS[wrapper], model, X, BAD_Y[y])


@pytest.mark.parametrize("wrapper", KNOWN_X)
def test_lengths(wrapper):
    wrong = [labels[1:] for labels in Y]
    kind, words, found = assert_refused_at_once(KNOWN_X[wrapper], HighOrderCRF(), X, wrong)
    assert "has 7 tokens in X, but 6 labels in y" in found[1]


@pytest.mark.parametrize("wrapper", ["stacked", "calibrated", "stacked, calibrated", "calibrated, stacked"])
@pytest.mark.parametrize("weight", [[-1.0] * 12, [0.0] * 12, [1.0] * 5, ["a"] * 12, [np.nan] * 12], ids=str)
def test_weights(wrapper, weight):
    assert_refused_at_once(WRAPPERS[wrapper], HighOrderCRF(), X, Y, sample_weight=weight)


def test_pipelines_whose_transformers_keep_sequences_count_them():
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[12, 11\]"):
        make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit([["a", "b"]] * 12, [["x", "y"]] * 11)


def test_what_transformers_may_do():
    """They may make other sequences of X, labels may be tuples, and segments do not tell all lengths."""
    documents = ["a b. b", "b. a a"]
    split = FunctionTransformer(lambda X: [part.split() for text in X for part in text.split(".")])
    y = [["x", "y"], ["y"], ["y"], ["x", "x"]]
    pipe = make_pipeline(split, SequenceFeatureExtractor(), HighOrderCRF()).fit(documents, y)
    assert pipe.predict(documents) == y
    rows = np.arange(6.0)[:, None]
    pairs = [("a", 1), ("b", 2)] * 3
    assert make_pipeline(StandardScaler(), HighOrderCRF()).fit(rows, pairs).predict(rows)[0] in pairs
    model = HighOrderSemiCRF(scheme="segments")
    for segments in (
        [[(0, 2, "x"), (2, 3, "y")]] * 4,
        [((0, 2, "x"), (2, 3, "y"))] * 4,
        [[(0, 2, "x"), (2, 3, "y")], []] * 2,
    ):
        words = [["a", "a", "b"] if part else [] for part in segments]
        make_pipeline(SequenceFeatureExtractor(), model).fit(words, segments)
    with pytest.warns(UserWarning, match="the gaps are read as unknown"):
        make_pipeline(SequenceFeatureExtractor(), model).fit(
            [["a", "a", "b", "c"]] * 4, [[(0, 2, "x"), (2, 3, "y")]] * 4
        )


UNWEIGHTED = {
    "stacked": {},
    "calibrated": {},
    "stacked, calibrated": {},
    "calibrated, stacked": {},
    "pipeline": {"prefix": "highordercrf__"},
    "calibrated, pipeline": {"prefix": "calibratedsequencelabeler__"},
    "stacked, pipeline": {"prefix": "stackedsequencelabeler__"},
    "learned penalties": {},
    "pipeline, learned penalties": {},
    "learned penalties, pipeline": {"prefix": "penaltysearchcv__"},
    "learned penalties, stacked": {},
}


@pytest.mark.parametrize("wrapper", UNWEIGHTED)
@pytest.mark.filterwarnings("ignore")
def test_what_has_no_weight_is_not_refused(wrapper):
    y, weight = [*Y[1:], ["rest", "walk", "walk", "walk", "fly", "run", "run"]], [1.0] * 11 + [0.0]
    model = WRAPPERS[wrapper](HighOrderCRF(max_iter=2, constraints=Constraints([("rest", "walk")])))
    fitted = model.fit(X, y, **{f"{UNWEIGHTED[wrapper].get('prefix', '')}sample_weight": weight})
    assert sorted(fitted.classes_.tolist()) == ["rest", "run", "walk"]


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (PenaltySearchCV(piped(HighOrderCRF()), orders=[]), "orders"),
        (PenaltySearchCV(piped(HighOrderCRF()), orders=[1, -1]), "orders"),
        (PenaltySearchCV(piped(HighOrderCRF()), bounds=(2, 1)), "bounds"),
        (PenaltySearchCV(piped(HighOrderCRF()), max_time=-1), "max_time"),
        (PenaltySearchCV(piped(HighOrderCRF()), max_steps=0), "max_steps"),
        (PenaltySearchCV(piped(HighOrderCRF()), cv=13), "n_splits=13 greater than"),
        (PenaltySearchCV(piped(HighOrderCRF()), penalty_groups=["a", "a"]), "penalty_groups"),
        (PenaltySearchCV(piped(HighOrderCRF(solver="sgd", objective="local_feature_matching"))), "."),
        (stacked(PenaltySearchCV(HighOrderCRF(), cv=13)), "n_splits=13 greater than"),
        (stacked(PenaltySearchCV(HighOrderCRF(), orders=[])), "orders"),
        (stacked(PenaltySearchCV(HighOrderCRF(), max_time=-1)), "max_time"),
        (stacked(calibrated(HighOrderCRF()).set_params(cv=13)), "n_splits=13 greater than"),
        (stacked(calibrated(HighOrderCRF()).set_params(n_jobs=0)), "n_jobs"),
        (calibrated(stacked(HighOrderCRF()).set_params(stack_method="x")), "stack_method"),
        (calibrated(stacked(HighOrderCRF()).set_params(passthrough=["q"])), "passthrough has 'q'"),
        (calibrated(stacked(HighOrderCRF()).set_params(cv=13)), "n_splits=13 greater than"),
        (stacked(HighOrderCRF()).set_params(cv=[(range(5), [5])]), "exactly one split"),
        (StackedSequenceLabeler(Classifier(C=-1)), "'C' parameter of Classifier"),
        (calibrated(StackedSequenceLabeler(Classifier(C=-1), cv=2)), "'C' parameter of Classifier"),
        (make_pipeline(Passing(), SelectKBest(k=-1), HighOrderCRF()), "'k' parameter of SelectKBest"),
        (stacked(GridSearchCV(HighOrderCRF(), {"sigma_reg": [-1.0, -2.0]})), "Got -1.0"),
        (stacked(GridSearchCV(HighOrderCRF(), {"sigma": [1.0]})), "Invalid parameter 'sigma'"),
    ],
    ids=str,
)
def test_settings_of_the_meta_estimators(estimator, words):
    _, found = refusal(estimator.fit, X, Y)
    assert re.search(words, found), found
    assert COUNT["fits"] == 0


def test_a_group_that_a_later_order_lacks_is_missed_before_the_first_order():
    groups = [("features", 0), ("patterns", 0), ("patterns", 1)]
    search = PenaltySearchCV(HighOrderCRF(), orders=[1, 2], penalty_groups=groups, cv=2, max_steps=1)
    with pytest.raises(ValueError, match="penalty_groups has no key for the weight of the pattern"):
        search.fit(X, [["walk", "rest", "walk", "run", "rest", "run", "walk"]] * len(X))
    assert COUNT["fits"] == 0


@pytest.mark.parametrize("wrapper", ["calibrated", "pipeline, calibrated", "cross_val_predict"])
def test_a_fold_of_one_class(wrapper):
    y = [["walk"] * 7] * 8 + [["rest"] * 7] * 4
    with pytest.raises(ValueError, match="at least 2 distinct labels"):
        WRAPPERS[wrapper](HighOrderCRF()).fit(X, y)
    assert COUNT["fits"] == 0


def test_a_fold_without_a_known_label():
    y = [Y[0], *[[None] * 7] * 11]
    with pytest.raises(ValueError, match="the training part of split 0 has no token with a label"):
        stacked(HighOrderCRF()).fit(X, y)
    assert COUNT["fits"] == 0


@pytest.mark.filterwarnings("ignore")
def test_a_search_with_a_candidate_that_can_be_fitted_is_not_refused():
    search = GridSearchCV(HighOrderCRF(sigma_reg=-1), {"sigma_reg": [-2.0, 1.0]}, cv=2)
    assert stacked(search).fit(X, Y).final_estimator_.best_params_ == {"sigma_reg": 1.0}


# --- attributes that come with fit ------------------------------------------------------------------------------------


def test_methods_that_come_with_fit():
    """A StackingClassifier gets its probabilities with fit, and this search loses those of its unfitted estimator."""
    found = StackedSequenceLabeler(StackingClassifier([("a", LogisticRegression())], cv=2), cv=2, n_jobs=2)
    with parallel_config("threading"):
        assert found.fit(X, Y).stack_method_ == "predict_proba"
    search = GridSearchCV(Pipeline([("model", LogisticRegression())]), {"model": [LinearSVC()]}, cv=2)
    assert StackedSequenceLabeler(search, cv=2).fit(X, Y).stack_method_ == "decision_function"
    frozen = FrozenEstimator(clone(found.estimator).fit(np.concatenate(X), np.concatenate(Y)))
    assert StackedSequenceLabeler(frozen).fit(X, Y).stack_method_ == "predict_proba"
    calibrated(found.set_params(n_jobs=None)).set_params(cv=2).fit(X, Y)


class NoScores(Classifier):
    """A classifier without scores."""

    predict_proba = decision_function = property()


class NoClasses(Classifier):
    """A classifier that does not tell its classes."""

    def fit(self, rows, labels):
        super().fit(rows, labels)
        del self.classes_
        return self


@pytest.mark.parametrize(
    ("classifier", "words"),
    [
        (NoScores(), r"NoScores\(\) has no predict_proba or decision_function"),
        (NoClasses(), r"NoClasses\(\) has no classes_"),
    ],
    ids=["no scores", "no classes"],
)
def test_what_a_fitted_classifier_lacks_is_told_on_the_first_fold(classifier, words):
    with pytest.raises(TypeError, match=words):
        StackedSequenceLabeler(classifier, cv=3).fit(X, Y)
    assert COUNT["fits"] == 1


def test_a_fitted_regression_is_refused_by_name():
    fitted = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(TypeError, match=r"LinearRegression\(\)\) has no predict_proba or decision_function"):
        StackedSequenceLabeler(FrozenEstimator(fitted)).fit(X, Y)


def test_folds_whose_classifiers_have_different_methods_are_refused():
    class Changing(BaseEstimator):
        def fit(self, rows, labels):
            COUNT["fits"] += 1
            self.model_ = (SVC() if COUNT["fits"] % 2 else LogisticRegression()).fit(rows, labels)
            self.classes_ = self.model_.classes_
            return self

        def __getattr__(self, name):
            if name in ("predict_proba", "decision_function") and "model_" in vars(self):
                return getattr(self.model_, name)
            raise AttributeError(name)

    with pytest.raises(ValueError, match="some classifiers of the splits have predict_proba, others have not"):
        StackedSequenceLabeler(Changing(), cv=KFold(2)).fit(X, Y)
    model = StackedSequenceLabeler(Changing(), cv=KFold(2), stack_method="decision_function").fit(X, Y)
    assert model.stack_method_ == "decision_function"
