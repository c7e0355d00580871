"""A sequence model on a classifier of tokens: equal to the separate steps, in every form of X."""

import pickle
import warnings

import numpy as np
import pytest
from refusals import refusals
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, SequenceBatch, StackedSequenceLabeler, make_pipeline
from sklearn_hocrf._sklearn.names import get_feature_names
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.inspection import weights_table
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, ConformalSequenceLabeler
from sklearn_hocrf.model_selection._stacking import _Scoring
from sklearn_hocrf.tagger import export_tagger

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(2, 9, 18)
OFFSETS = np.r_[0, np.cumsum(LENGTHS)]
FLAT_Y = RNG.choice(["a", "b", "c"], OFFSETS[-1])
ROWS = np.eye(3)[np.unique(FLAT_Y, return_inverse=True)[1]] + RNG.normal(size=(OFFSETS[-1], 3))
OWNER = np.repeat(np.arange(18), LENGTHS)
NAMES = ["u", "v", "w"]
TEXTS = [" ".join(name for name, value in zip(NAMES, row, strict=True) if value > 0.5) + " ." for row in ROWS]
TOKEN_FOLDS = [(np.flatnonzero(OWNER % 3 != k), np.flatnonzero(OWNER % 3 == k)) for k in range(3)]
FOLDS = [(np.flatnonzero(np.arange(18) % 3 != k), np.arange(k, 18, 3)) for k in range(3)]
LOGISTIC = LogisticRegression()


def cut(flat):
    return [flat[start:stop] for start, stop in zip(OFFSETS, OFFSETS[1:], strict=False)]


def frames():
    pandas = pytest.importorskip("pandas", reason="pandas is absent")
    return cut(pandas.DataFrame(ROWS, columns=NAMES))


X, Y = cut(ROWS), [labels.tolist() for labels in cut(FLAT_Y)]
FORMS = {
    "arrays": lambda: X,
    "lists": lambda: [rows.tolist() for rows in X],
    "sparse": lambda: [sparse.csr_array(rows) for rows in X],
    "batch": lambda: SequenceBatch.from_table(ROWS, OFFSETS),
    "frames": frames,
    "frames of polars": lambda: cut(pytest.importorskip("polars").DataFrame(ROWS, schema=NAMES)),
}


def by_hand(estimator=LOGISTIC, rows=ROWS, y=FLAT_Y, method="predict_proba"):
    """Return the scores out of folds, and the fitted classifier, by scikit-learn alone."""
    scores = cross_val_predict(estimator, rows, y, cv=TOKEN_FOLDS, method=method)
    return scores, clone(estimator).fit(rows, y)


def logs(probabilities, eps=1e-3):
    return np.log(np.maximum(probabilities, eps))


def best_temperature(scores, y, weight=None):
    """Return the temperature at which the known labels of tokens are most likely, by direct minimisation."""
    is_known = np.array([label is not None for label in y])
    weight = np.ones(len(y)) if weight is None else weight
    codes, smoothing = np.unique(y[is_known], return_inverse=True)[1], 1 / (1 + weight[is_known].sum())
    scores = (np.hstack([0 * scores, scores]) if scores.shape[1] == 1 else scores)[is_known]

    def loss(log_temperature):
        logs = log_softmax(scores / np.exp(log_temperature), axis=1)
        of_labels = (1 - smoothing) * logs[np.arange(len(codes)), codes] + smoothing * logs.mean(axis=1)
        return -weight[is_known] @ of_labels

    found = minimize_scalar(loss, bounds=(np.log(0.01), np.log(1e4)), method="bounded", options={"xatol": 1e-9})
    return np.exp(found.x)


def scaled(stacked, scores):
    """Return scores as the sequence model gets them; the temperature is checked elsewhere."""
    mean = scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else 0
    return (scores - mean) / stacked.temperature_


def assert_is(stacked, scores, of_test, y=Y, sequences=None, passed=None):
    """Check a stacked model of the default order against one whose columns were made by hand."""
    flat, passed = np.concatenate([np.array(labels, object) for labels in y]), ROWS[:, passed or []]
    columns, of_test = (np.hstack([scaled(stacked, part), passed]) for part in (scores, of_test))
    final = HighOrderCRF().fit(cut(columns), y)
    np.testing.assert_allclose(stacked.final_estimator_.coef_.toarray(), final.coef_.toarray(), rtol=1e-9, atol=1e-12)
    expected = final.predict_marginals(cut(of_test))
    for one, other in zip(stacked.predict_marginals(X if sequences is None else sequences), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    is_fitted = isinstance(stacked.estimator, FrozenEstimator)
    if not is_fitted or set(stacked.estimator_.classes_) == set(flat) - {None}:
        np.testing.assert_allclose(stacked.temperature_, best_temperature(scores, flat), rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_the_model_of_scores_out_of_folds(form):
    sequences = FORMS[form]()
    stacked = StackedSequenceLabeler(LOGISTIC, cv=FOLDS).fit(sequences, Y)
    scores, classifier = by_hand()
    assert_is(stacked, logs(scores), logs(classifier.predict_proba(ROWS)), sequences=sequences)
    assert stacked.classes_.tolist() == ["a", "b", "c"]
    assert (stacked.n_features_in_, stacked.stack_method_) == (3, "predict_proba")
    assert stacked.final_estimator_.feature_names_in_.tolist() == ["score=a", "score=b", "score=c"]
    # scikit-learn 1.6 does not know the names of the latest polars
    has_names = form == "frames" or get_feature_names(sequences[0]) is not None
    assert hasattr(stacked, "feature_names_in_") == has_names
    assert stacked.score(sequences, Y) == np.mean(np.concatenate(stacked.predict(sequences)) == FLAT_Y)
    assert stacked.predict(sequences[:0]) == []


def test_decision_functions():
    svc = LinearSVC()
    scores, classifier = by_hand(svc, method="decision_function")
    stacked = StackedSequenceLabeler(svc, cv=FOLDS).fit(X, Y)
    assert_is(stacked, scores, classifier.decision_function(ROWS))
    two = np.where(FLAT_Y == "c", "b", FLAT_Y)
    scores, classifier = by_hand(svc, y=two, method="decision_function")
    stacked = StackedSequenceLabeler(LogisticRegression(), stack_method="decision_function", cv=FOLDS).fit(X, cut(two))
    assert stacked.final_estimator_.feature_names_in_.tolist() == ["score=b"]
    stacked = StackedSequenceLabeler(svc, cv=FOLDS).fit(X, cut(two))
    assert_is(stacked, scores[:, None], classifier.decision_function(ROWS)[:, None], cut(two))


class OnlyCodes(ClassifierMixin, BaseEstimator):
    """A classifier that takes the labels 0, 1, ... alone, all of them, as some of other libraries do."""

    def fit(self, X, y):
        found = np.unique(y)
        if found.dtype.kind not in "iu" or not np.array_equal(found, np.arange(len(found))):
            raise ValueError(f"Invalid classes: expected 0, 1, ..., got {found}")
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class Reversed(OnlyCodes):
    """A classifier whose classes are not sorted."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = self.classes_[::-1]
        return self

    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


class Decisions(OnlyCodes):
    """A classifier with the decision function alone, a table even for two classes."""

    predict_proba = property()

    def decision_function(self, X):
        values = self.model_.decision_function(X)
        return values[:, None] if values.ndim == 1 else values


def boosted_trees():
    return pytest.importorskip("xgboost", reason="xgboost is absent").XGBClassifier(n_estimators=2, n_jobs=1)


CLASSIFIERS = {
    "codes alone": OnlyCodes,
    "not sorted": Reversed,
    "decisions": Decisions,
    "pipeline": lambda: sklearn_make_pipeline(StandardScaler(), OnlyCodes()),
    "search": lambda: GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    "naive Bayes": GaussianNB,
    "neighbours": KNeighborsClassifier,
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=2),
    "forest": lambda: RandomForestClassifier(3, random_state=0),
    "SGD": lambda: SGDClassifier(random_state=0),
    "SVC": LinearSVC,
    "dummy": DummyClassifier,
    "calibrated": lambda: CalibratedClassifierCV(LinearSVC(), cv=2),
    "xgboost": boosted_trees,
}
LACKING = np.where(OWNER % 3 == 0, np.array(["d", "b"])[(np.arange(len(OWNER)) % 4 > 0).astype(int)], FLAT_Y)


def test_two_classes_of_a_fold_have_opposite_scores(monkeypatch):
    seen = []
    monkeypatch.setattr(HighOrderCRF, "fit", lambda self, X, y: None)
    monkeypatch.setattr(_Scoring, "columns", lambda self, tokens, scores: seen.append(scores))
    y = np.where(OWNER % 3 == 0, "d", np.where(FLAT_Y == "c", "b", FLAT_Y))
    with pytest.warns(UserWarning, match="lacks 'd'"):
        StackedSequenceLabeler(LinearSVC(), cv=FOLDS).fit(X, cut(y))
    scores = seen[-1][OWNER % 3 == 0]
    np.testing.assert_array_equal(scores[:, 0], -scores[:, 1])


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("names", [["a", "b", "c", "d"], [False, True]], ids=str)
@pytest.mark.filterwarnings("ignore:.*lacks", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers_see_the_codes_of_their_own_labels(monkeypatch, name, names):
    seen = []
    monkeypatch.setattr(HighOrderCRF, "fit", lambda self, X, y: None)
    monkeypatch.setattr(_Scoring, "columns", lambda self, tokens, scores: seen.append(scores))
    codes = np.unique(LACKING, return_inverse=True)[1] % len(names)  # the first fold lacks "d"
    y, classifier, expected = np.array(names)[codes], CLASSIFIERS[name](), None
    for train, test in TOKEN_FOLDS:
        own, of_own = np.unique(codes[train], return_inverse=True)
        fitted = clone(classifier).fit(ROWS[train], of_own)
        is_probability = hasattr(fitted, "predict_proba")
        values = getattr(fitted, "predict_proba" if is_probability else "decision_function")(ROWS[test])
        values = logs(np.asarray(values, float)) if is_probability else values
        values = values.ravel() if values.size == len(test) else values
        if values.ndim == 1:
            values = np.column_stack([-values, values])
        expected = np.zeros((len(ROWS), len(names))) if expected is None else expected
        expected[test] = np.log(1e-3) if is_probability else values.min()
        expected[np.ix_(test, own[fitted.classes_])] = values
    stacked = StackedSequenceLabeler(classifier, cv=FOLDS).fit(X, cut(y))
    if len(names) == 2 and not is_probability:
        expected = expected[:, 1:]
    np.testing.assert_array_equal(seen[-1], expected)
    assert sorted(stacked.estimator_.classes_) == list(range(len(names)))


def test_the_classes_are_labels_and_those_of_the_classifier_codes():
    with pytest.warns(UserWarning, match="the training part of split 0 lacks 'd', which gets the lowest score"):
        stacked = StackedSequenceLabeler(OnlyCodes(), cv=FOLDS).fit(X, cut(LACKING))
    assert stacked.classes_.tolist() == ["a", "b", "c", "d"]
    assert set(np.concatenate(stacked.predict(X))) <= set(LACKING)
    assert stacked.estimator_.classes_.tolist() == [0, 1, 2, 3]
    assert stacked.final_estimator_.feature_names_in_.tolist() == [f"score={label}" for label in "abcd"]
    some = [np.where(labels == "d", {"d", "c"}, labels).tolist() for labels in cut(LACKING.astype(object))]
    open_label = StackedSequenceLabeler(OnlyCodes(), cv=FOLDS).fit(X, some)  # no classifier knows "d"
    assert open_label.classes_.tolist() == ["a", "b", "c", "d"]
    assert open_label.estimator_.classes_.tolist() == [0, 1, 2]
    columns = open_label._given(X).toarray()
    assert (columns[:, 3] == columns.min(axis=1)).all()


@pytest.mark.filterwarnings("ignore:.*lacks")
def test_class_weights_name_labels():
    numbers = np.array([3, 1, 2, 0])[np.unique(LACKING, return_inverse=True)[1]]
    for y, weights in ((LACKING, {"a": 5.0, "d": 9.0}), (numbers, {1: 5.0, 0: 9.0}), (numbers, {2: 7.0})):
        for wrap in lambda one: one, sklearn_make_pipeline:
            of_labels = wrap(LogisticRegression(class_weight=weights))
            stacked = StackedSequenceLabeler(of_labels, cv=FOLDS).fit(X, cut(y))
            alone = clone(of_labels).fit(ROWS, y)
            np.testing.assert_allclose(stacked.estimator_.predict_proba(ROWS), alone.predict_proba(ROWS))
            assert stacked.estimator.get_params() == of_labels.get_params()
    with pytest.raises(ValueError, match="not in class_weight"):
        StackedSequenceLabeler(LogisticRegression(class_weight={7: 2.0}), cv=FOLDS).fit(X, cut(numbers))


class Counted(LogisticRegression):
    fits = 0

    def fit(self, *args, **params):
        Counted.fits += 1
        return super().fit(*args, **params)


HOLES = np.where(RNG.random(ROWS.shape) < 0.1, np.nan, ROWS)
FILLING = {
    "pipeline": sklearn_make_pipeline(SimpleImputer(), LogisticRegression()),
    "search": GridSearchCV(sklearn_make_pipeline(SimpleImputer(), LogisticRegression()), {}, cv=2),
    "trees": HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=2),
}
HOLED = {
    "arrays": lambda: cut(HOLES),
    "lists": lambda: [rows.tolist() for rows in cut(HOLES)],
    "objects": lambda: cut(HOLES.astype(object)),
    "batch": lambda: SequenceBatch.from_table(HOLES, OFFSETS),
    "frames": lambda: cut(pytest.importorskip("pandas").DataFrame(HOLES, columns=NAMES)),
}
FILLED = [*(("pipeline", form) for form in HOLED), ("search", "lists"), ("trees", "arrays"), ("trees", "frames")]


@pytest.mark.parametrize(("name", "form"), FILLED)
def test_what_a_classifier_takes_is_its_own_affair(monkeypatch, name, form):
    sequences, codes = HOLED[form](), np.unique(FLAT_Y, return_inverse=True)[1]
    seen, columns = [], _Scoring.columns
    monkeypatch.setattr(
        _Scoring, "columns", lambda self, tokens, scores: seen.append(scores) or columns(self, tokens, scores)
    )
    stacked = StackedSequenceLabeler(FILLING[name], cv=FOLDS).fit(sequences, Y)
    np.testing.assert_allclose(seen[-1], logs(by_hand(FILLING[name], HOLES, codes)[0]), rtol=1e-9)
    assert len(stacked.predict(sequences)) == 18


def test_types_of_tokens_stay():
    """Complex numbers, integers and bools reach a pipeline as they are."""
    seen = []

    def look(rows):
        seen.append(rows.dtype)
        return np.abs(rows).astype(float)

    estimator = sklearn_make_pipeline(FunctionTransformer(look), LogisticRegression())
    for kind in complex, int, bool, np.float32:
        StackedSequenceLabeler(estimator, cv=2).fit([rows.astype(kind) for rows in X], Y)
    assert set(seen) == set(map(np.dtype, (complex, int, bool, np.float32)))
    masked = [np.ma.array(X[0], mask=np.eye(len(X[0]), 3)), *X[1:]]
    with pytest.raises(ValueError, match="sequence 0 of X is masked: fill such entries"):
        StackedSequenceLabeler(estimator, cv=2).fit(masked, Y)


@pytest.mark.parametrize("form", [name for name in HOLED if name != "objects"])
def test_features_that_pass_are_finite_numbers_before_any_fit(form):
    sequences, where = HOLED[form](), [np.argwhere(np.isnan(rows)).tolist() for rows in cut(HOLES)]
    n, (t, feature) = next((n, holes[0]) for n, holes in enumerate(where) if holes)
    named = repr(NAMES[feature]) if form == "frames" else feature
    words = f"NaN: sequence {n}, position {t}, feature {named} is nan; passthrough gives features to the sequence model"
    Counted.fits = 0
    counting = sklearn_make_pipeline(SimpleImputer(), Counted())
    for passthrough in True, [feature]:
        with pytest.raises(ValueError, match=words):
            StackedSequenceLabeler(counting, cv=FOLDS, passthrough=passthrough).fit(sequences, Y)
    assert Counted.fits == 0
    whole = [i for i in range(3) if i != feature]
    filled = SimpleImputer().fit_transform(HOLES)
    filled[:, feature] = HOLES[:, feature]  # what does not pass may be missing
    passed = StackedSequenceLabeler(counting, cv=FOLDS, passthrough=whole).fit(cut(filled), Y)
    with pytest.raises(ValueError, match="NaN: sequence .*passthrough gives"):
        passed.predict(cut(np.where(np.arange(3) == whole[0], np.nan, filled)))


def test_columns_of_texts_do_not_pass():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"u": ROWS[:, 0], "place": np.array(["x", "y"])[np.arange(len(ROWS)) % 2]})
    Counted.fits = 0
    classifier = sklearn_make_pipeline(make_column_transformer((OneHotEncoder(), ["place"])), Counted())
    stacked = StackedSequenceLabeler(classifier, cv=FOLDS, passthrough=True)
    with pytest.raises(TypeError, match="sequence 0, position 0, feature 'place' of X is 'x' .*, not a number; pass"):
        stacked.fit(cut(table), Y)
    assert Counted.fits == 0
    stacked.set_params(passthrough=["u"]).fit(cut(table), Y)  # as the message advises
    late = table.astype({"u": object})
    late.iloc[OFFSETS[5] + 1, 0] = "z"
    with pytest.raises(TypeError, match="sequence 5, position 1, feature 'u' of X is 'z'"):
        stacked.predict(cut(late))
    other = [*cut(table)[:-1], cut(table)[-1].rename(columns={"u": "w"})]
    with pytest.raises(ValueError, match="sequence 17 of X has the column 'w' in place of 'u', which sequence 0 has"):
        stacked.fit(other, Y)


WORDS = [["ab"[i % 2] for i in range(len(labels))] for labels in Y]
TOKENS = {
    "dicts": ([[{"w": word} for word in words] for words in WORDS], "attributes"),
    "names": ([[[word, "x"] for word in words] for words in WORDS], "attributes"),
    "texts": (WORDS, None),
    "arrays of texts": ([np.array(words) for words in WORDS], None),
}
TAKEN = [*((kind, LOGISTIC) for kind in TOKENS), ("dicts", GridSearchCV(LOGISTIC, {}, cv=2))]


@pytest.mark.parametrize(("kind", "classifier"), TAKEN, ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_tokens_that_a_classifier_does_not_take(kind, classifier):
    tokens, templates = TOKENS[kind]
    with pytest.raises((TypeError, ValueError)):  # of the classifier
        StackedSequenceLabeler(classifier, cv=2).fit(tokens, Y)
    extractor = SequenceFeatureExtractor(templates)
    make_pipeline(extractor, StackedSequenceLabeler(classifier, cv=2)).fit(tokens, Y)  # as the message advises
    if kind == "dicts":
        taking = sklearn_make_pipeline(DictVectorizer(), LOGISTIC)
        StackedSequenceLabeler(taking, cv=2).fit(tokens, Y)


def test_tokens_without_labels_are_scored_but_teach_no_classifier():
    is_known = RNG.random(len(FLAT_Y)) < 0.7
    partial = [np.where(known, labels, None).tolist() for known, labels in zip(cut(is_known), Y, strict=True)]
    scores = np.empty((len(ROWS), 3))
    for train, test in TOKEN_FOLDS:
        train = train[is_known[train]]
        scores[test] = clone(LOGISTIC).fit(ROWS[train], FLAT_Y[train]).predict_proba(ROWS[test])
    classifier = clone(LOGISTIC).fit(ROWS[is_known], FLAT_Y[is_known])
    stacked = StackedSequenceLabeler(LOGISTIC, cv=FOLDS).fit(X, partial)
    assert_is(stacked, logs(scores), logs(classifier.predict_proba(ROWS)), partial)


def test_weights_of_sequences_count_for_their_tokens():
    weight = np.tile([1.0, 2.0, 0.0], 6)
    cv = [(np.arange(9), np.arange(9, 18)), (np.arange(9, 18), np.arange(9))]
    weighted = StackedSequenceLabeler(LOGISTIC, cv=cv).fit(X, Y, sample_weight=weight)
    copies = np.repeat(np.arange(18), weight.astype(int))
    of_copies = [tuple(np.flatnonzero(np.isin(copies, part)) for part in split) for split in cv]
    repeated = StackedSequenceLabeler(LOGISTIC, cv=of_copies).fit([X[n] for n in copies], [Y[n] for n in copies])
    for one, other in zip(weighted.predict_marginals(X), repeated.predict_marginals(X), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)  # both solvers stop a little before the optimum
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier\(\) takes no sample_weight: only the final"):
        StackedSequenceLabeler(KNeighborsClassifier()).fit(X, Y, sample_weight=weight)
    with warnings.catch_warnings(action="error"):
        StackedSequenceLabeler(sklearn_make_pipeline(LOGISTIC)).fit(X, Y, sample_weight=weight)


def test_the_temperature_counts_weights_and_known_labels():
    weight = np.tile([1.0, 2.0, 0.0], 6)
    partial = FLAT_Y.astype(object)
    partial[::4] = None
    stacked = StackedSequenceLabeler(LOGISTIC, cv=KFold(2)).fit(X, cut(partial), sample_weight=weight)
    of_tokens, scores = weight[OWNER], np.empty((len(ROWS), 3))
    is_known = (partial != None) & (of_tokens > 0)  # noqa: E711
    for train, test in KFold(2).split(X):
        rows = np.flatnonzero(np.isin(OWNER, train) & is_known)
        classifier = clone(LOGISTIC).fit(ROWS[rows], FLAT_Y[rows], of_tokens[rows])
        scores[np.isin(OWNER, test)] = logs(classifier.predict_proba(ROWS[np.isin(OWNER, test)]))
    expected = best_temperature(scores, partial, of_tokens)
    assert abs(expected - best_temperature(scores, partial)) > 0.01
    np.testing.assert_allclose(stacked.temperature_, expected, rtol=1e-6)
    columns = scaled(stacked, logs(stacked.estimator_.predict_proba(ROWS)))
    expected = stacked.final_estimator_.predict_marginals(cut(columns))
    for one, other in zip(stacked.predict_marginals(X), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_temperatures_are_finite():
    """Of scores that are right on all tokens, on none, equal, of few tokens, and of other classes."""
    sure = np.eye(3)[np.unique(FLAT_Y, return_inverse=True)[1]]
    with warnings.catch_warnings(action="error"):
        right = FrozenEstimator(LogisticRegression().fit(sure, FLAT_Y))
        stacked = StackedSequenceLabeler(right).fit(cut(sure), Y)
        np.testing.assert_allclose(
            stacked.temperature_, best_temperature(logs(right.predict_proba(sure)), FLAT_Y), 1e-6
        )
        assert 0.1 < stacked.temperature_ < 1
        assert stacked.score(cut(sure), Y) == 1
        wrong = FrozenEstimator(LogisticRegression(C=100).fit(np.roll(sure, 1, axis=1), FLAT_Y))
        assert StackedSequenceLabeler(wrong).fit(cut(sure), Y).score(cut(sure), Y) == 1
        assert StackedSequenceLabeler(DummyClassifier(strategy="uniform"), cv=3).fit(X, Y).temperature_ == 1
        few = [np.eye(2), np.eye(2)], [["a", "b"], ["a", "b"]]
        assert 0.1 < StackedSequenceLabeler(LOGISTIC, cv=2).fit(*few).temperature_ < 1
        other = FrozenEstimator(LogisticRegression().fit(ROWS, FLAT_Y == "a"))
        assert StackedSequenceLabeler(other).fit(X, Y).temperature_ == 1


def test_groups_and_metadata():
    groups = np.arange(18) % 6
    plain = StackedSequenceLabeler(LOGISTIC, cv=GroupKFold(3)).fit(X, Y, groups=groups)
    splits = list(GroupKFold(3).split(X, groups=groups))
    same = StackedSequenceLabeler(LOGISTIC, cv=splits).fit(X, Y)
    np.testing.assert_array_equal(plain.final_estimator_.pattern_coef_, same.final_estimator_.pattern_coef_)
    weight = np.arange(1.0, 19)
    expected = StackedSequenceLabeler(LOGISTIC, cv=splits).fit(X, Y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        classifier = clone(LOGISTIC).set_fit_request(sample_weight=True)
        final = HighOrderCRF().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        routed = StackedSequenceLabeler(classifier, final, cv=GroupKFold(3))
        routed.fit(X, Y, groups=groups, sample_weight=weight)
    np.testing.assert_array_equal(routed.final_estimator_.pattern_coef_, expected.final_estimator_.pattern_coef_)


def test_a_fitted_classifier_is_used_with_its_own_classes():
    classifier = LogisticRegression().fit(ROWS, np.where(FLAT_Y == "a", "rare", np.where(ROWS[:, 0] > 0, "x", "z")))
    inner = FrozenEstimator(classifier)
    stacked = StackedSequenceLabeler(inner).fit(X, Y)
    columns = logs(classifier.predict_proba(ROWS))
    assert_is(stacked, columns, columns)
    assert stacked.estimator_ is inner


def test_passthrough_of_all_and_of_some_features():
    scores, classifier = by_hand()
    of_test = logs(classifier.predict_proba(ROWS))
    for passed, of, columns in (
        (True, "lists", [0, 1, 2]),
        ([2, 0], "arrays", [2, 0]),
        (["w", "u"], "frames", [2, 0]),
    ):
        sequences = FORMS[of]()
        stacked = StackedSequenceLabeler(LOGISTIC, cv=FOLDS, passthrough=passed).fit(sequences, Y)
        assert_is(stacked, logs(scores), of_test, sequences=sequences, passed=columns)
        names = [NAMES[i] if of == "frames" else f"x{i}" for i in columns]
        assert stacked.final_estimator_.feature_names_in_.tolist()[3:] == names
    pipe = make_pipeline(SequenceFeatureExtractor(), StackedSequenceLabeler(LOGISTIC, passthrough=True))
    names = pipe.fit(cut(TEXTS), Y)[-1].final_estimator_.feature_names_in_
    assert names[:3].tolist() == ["score=a", "score=b", "score=c"]
    assert len(names) > 3
    chosen = StackedSequenceLabeler(LOGISTIC, passthrough=names[-1:])
    assert chosen.fit(pipe[0].transform(cut(TEXTS)), Y).final_estimator_.n_features_in_ == 4


def test_every_method_of_the_sequence_model():
    final = HighOrderCRF(2)
    stacked = StackedSequenceLabeler(GaussianNB(), final, cv=FOLDS)
    with pytest.raises(NotFittedError, match="before using predict_nbest"):
        stacked.predict_nbest(X)
    with pytest.raises(NotFittedError):
        stacked.predict(X)
    absent = "classes_", "n_features_in_", "partial_fit", "decision_function"
    assert not [name for name in absent if hasattr(stacked, name)]
    stacked.fit(X, Y)
    columns = cut(scaled(stacked, logs(stacked.estimator_.predict_proba(ROWS))))
    inside = stacked.final_estimator_
    assert inside.max_order == 2
    assert not hasattr(final, "classes_")
    assert stacked.predict_nbest(X, 2) == inside.predict_nbest(columns, 2)
    assert stacked.sample(X, 2, random_state=0) == inside.sample(columns, 2, random_state=0)
    np.testing.assert_array_equal(stacked.log_likelihood(X, Y), inside.log_likelihood(columns, Y))
    known = [["a"] + [None] * (len(labels) - 1) for labels in Y]
    assert all(labels[0] == "a" for labels in stacked.predict(X, known=known))
    in_pipe = make_pipeline(stacked).fit(X, Y)
    assert in_pipe.predict_nbest(X, 2) == stacked.predict_nbest(X, 2)
    assert len(weights_table(stacked)) == len(weights_table(inside)) > 0


def test_inside_and_around_other_tools(tmp_path):
    stacked = StackedSequenceLabeler(LOGISTIC, HighOrderSemiCRF(), cv=3)
    grid = {"estimator__C": [0.1], "final_estimator__max_order": [0]}
    search = GridSearchCV(stacked, grid, cv=KFold(2)).fit(X, Y)
    assert search.best_estimator_.predict(X) == search.predict(X)
    with warnings.catch_warnings(action="ignore"):  # a sequence has segments that a fold lacks
        calibrated = CalibratedSequenceLabeler(stacked, cv=2).fit(X, Y)
    inside = calibrated.calibrated_estimator_
    plain = clone(stacked).fit(X, Y)
    assert calibrated.predict(X) == plain.predict(X)
    scale = inside.final_estimator_.pattern_coef_ * calibrated.temperature_
    np.testing.assert_allclose(scale, plain.final_estimator_.pattern_coef_)
    sets = ConformalSequenceLabeler(plain, alpha=0.2).fit(X, Y).predict_set(X)
    assert [len(one) for one in sets] == LENGTHS.tolist()
    for files in pickle, pytest.importorskip("skops.io", reason="skops is absent"):
        data = files.dumps(plain)
        loaded = files.loads(data, **({} if files is pickle else {"trusted": files.get_untrusted_types(data=data)}))
        assert loaded.predict_nbest(X, 2) == plain.predict_nbest(X, 2)
        assert loaded.temperature_ == plain.temperature_ != 1
        np.testing.assert_array_equal(loaded.log_likelihood(X, Y), plain.log_likelihood(X, Y))
    with pytest.raises(ValueError, match="but the model gets LogisticRegression"):
        export_tagger(StackedSequenceLabeler(LOGISTIC, cv=3).fit(X, Y), tmp_path / "model")


@pytest.mark.slow
def test_a_fit_in_processes_gives_the_same_model():
    one, other = (StackedSequenceLabeler(LOGISTIC, HighOrderSemiCRF(), cv=3, n_jobs=n).fit(X, Y) for n in (None, 2))
    np.testing.assert_array_equal(one.log_likelihood(X, Y), other.log_likelihood(X, Y))


test_refusals = refusals(
    (lambda: StackedSequenceLabeler(FunctionTransformer()).fit(X, Y),
     (TypeError, r"FunctionTransformer\(\) has no predict_proba or decision_function, which gives the scores")),
    (lambda: StackedSequenceLabeler(FrozenEstimator(LOGISTIC)).fit(X, Y), (NotFittedError, "LogisticRegression")),
    (lambda: StackedSequenceLabeler(LOGISTIC, LOGISTIC).fit(X, Y),
     (TypeError, r"final_estimator must be a model of sequences, such as HighOrderCRF\(\), got LogisticRegression")),
    (lambda: StackedSequenceLabeler(SVC(decision_function_shape="ovo"), cv=3).fit(
         [[[0.0], [1.0], [2.0], [3.0]]] * 3, [[*"abcd"]] * 3),
     "decision_function has 6 columns for 4 classes"),
    (lambda: StackedSequenceLabeler(LOGISTIC).set_params(final_estimator__max_order=1),
     "final_estimator__max_order: final_estimator is None; set it first"),
    (lambda params: StackedSequenceLabeler(LOGISTIC, **params).fit(X, Y),
     ("each sequence must be in the test part of exactly one split", {"cv": ShuffleSplit(2)}),
     ("passthrough has 'q', which is no feature of X", {"passthrough": ["q"]}),
     ("passthrough has 3, which is no feature of X", {"passthrough": [3]})),
    (lambda args: StackedSequenceLabeler(LOGISTIC).fit(*args),
     ("^X has no tokens in sequences of positive weight", ([[], []], [[], []])),
     ("requires y to be passed", (X, None)),
     ("inconsistent numbers", (X, Y[1:])),
     ("sequence 0 has 7 tokens in X, but 6 labels in y", (X, [Y[0][1:], *Y[1:]])),
     ("Input X contains NaN", ([*X[:-1], X[-1] * [1, np.nan, 1]], Y)),
     ("sequence 17 of X is an array with 2 columns, but sequence 0 is", ([*X[:-1], X[-1][:, :2]], Y)),
     (TypeError, r"sequence 0\) is the str 'ab'", (["ab", "ba"], [["a", "b"], ["b", "a"]]))),
    (lambda: StackedSequenceLabeler(LOGISTIC).fit(X, Y, nothing=1), (TypeError, "nothing")),
    (lambda value: StackedSequenceLabeler(LOGISTIC, cv=FOLDS).fit(X, Y).predict(value),
     ("X has 2 features, but LogisticRegression is expecting 3", [X[0][:, :2]]),
     ("X is a plain 2-D array, but HighOrderCRF was fitted on sequences", ROWS)),
)  # fmt: skip
