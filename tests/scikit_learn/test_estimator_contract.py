"""The requirements of scikit-learn's tools for estimators: all of scikit-learn's checks, and the same for sequences."""

import importlib
import inspect
import pickle
import pkgutil
from collections import Counter

import numpy as np
import pytest
import sklearn
from internals import _kernels
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.fixes import parse_version

import sklearn_hocrf
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, StackedSequenceLabeler
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
    TokenTransformer,
    WindowFeatures,
)
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, ConformalSequenceLabeler, PenaltySearchCV

pytestmark = pytest.mark.filterwarnings("error:X is a plain table")  # nothing here is one recording

RNG = np.random.default_rng(0)
WORDS = [[str(w) for w in RNG.choice(["a", "b", "c", "d"], size=RNG.integers(2, 7))] for _ in range(24)]
X = [[{"word": word, "first": t == 0} for t, word in enumerate(sequence)] for sequence in WORDS]
Y = [["L" if word < "c" else "R" for word in sequence] for sequence in WORDS]
METHODS = {
    "predict": lambda crf, X, y: crf.predict(X),
    "predict_marginals": lambda crf, X, y: crf.predict_marginals(X),
    "predict_proba": lambda crf, X, y: crf.predict_proba(X),
    "pattern_marginals": lambda crf, X, y: crf.pattern_marginals(X, [("L", "R")]),
    "log_likelihood": lambda crf, X, y: crf.log_likelihood(X, y),
    "score": lambda crf, X, y: crf.score(X, y),
    "predict_nbest": lambda crf, X, y: crf.predict_nbest(X, 3),
    "sample": lambda crf, X, y: crf.sample(X, 3, random_state=0),
    "entropy": lambda crf, X, y: crf.entropy(X),
}
SEGMENT_METHODS = {
    "predict_segments": lambda crf, X, y: crf.predict_segments(X),
    "predict_segments, threshold": lambda crf, X, y: crf.predict_segments(X, threshold=0.01),
}
ESTIMATORS = [HighOrderCRF, HighOrderSemiCRF]


@pytest.fixture(scope="module", params=ESTIMATORS)
def estimator(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(estimator):
    return estimator(max_order=2, feature_order={"first": 1}).fit(X, Y)


def methods_of(estimator):
    return {**METHODS, **(SEGMENT_METHODS if estimator is HighOrderSemiCRF else {})}


# --- scikit-learn's own checks ----------------------------------------------------------------------------------------


ONE_SPLIT = ShuffleSplit(1, test_size=0.5, random_state=0)
WEIGHTS = "folds of weighted sequences are not those of repeated ones"
OF_SPARSE = {}
if parse_version(sklearn.__version__) < parse_version("1.7"):
    OF_SPARSE["check_sample_weight_equivalence_on_sparse_data"] = "1.6 asks it of estimators that take no sparse data"
PUBLIC = {  # every public estimator and transformer: an instance (None if it needs fitted models), checks that fail
    "CalibratedSequenceLabeler": (CalibratedSequenceLabeler(HighOrderCRF(max_iter=2), cv=ONE_SPLIT), {}),
    "ConformalSequenceLabeler": (None, {}),
    "HighOrderCRF": (HighOrderCRF(), {}),
    "HighOrderSemiCRF": (HighOrderSemiCRF(), {}),
    "PenaltySearchCV": (
        PenaltySearchCV(HighOrderCRF(max_iter=2), cv=ONE_SPLIT, max_steps=1),
        {f"check_sample_weight_equivalence_on_{kind}_data": WEIGHTS for kind in ("dense", "sparse")},
    ),
    "SegmentFeatureExtractor": (SegmentFeatureExtractor(), {}),
    "SegmentLogOddsEncoder": (SegmentLogOddsEncoder(), {}),
    "SequenceFeatureExtractor": (SequenceFeatureExtractor(), {}),
    "StackedSequenceLabeler": (StackedSequenceLabeler(LogisticRegression(), HighOrderCRF(max_iter=2), cv=2), {}),
    "TokenTransformer": (TokenTransformer(StandardScaler()), OF_SPARSE),
    "WindowFeatures": (WindowFeatures(1, 1), {}),
}
OF_ROWS = "TokenTransformer", "WindowFeatures"  # they take tables as scikit-learn's transformers do
OF_OTHERS = "CalibratedSequenceLabeler", "PenaltySearchCV", "StackedSequenceLabeler"  # each check fits several models


def public_estimators():
    """Return the public classes that fit, by name."""
    names = [m.name for m in pkgutil.iter_modules(sklearn_hocrf.__path__) if m.name[0] != "_" and m.name != "dask"]
    modules = [sklearn_hocrf, *(importlib.import_module(f"sklearn_hocrf.{name}") for name in names)]
    members = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    return {each.__name__: each for each in members if inspect.isclass(each) and hasattr(each, "fit")}


def test_no_public_estimator_is_left_out():
    assert public_estimators().keys() == PUBLIC.keys()


@pytest.mark.parametrize(
    ("name", "legacy"),
    [pytest.param(name, True, marks=[pytest.mark.slow] * (name in OF_OTHERS)) for name in PUBLIC]
    + [(name, False) for name in OF_OTHERS],
)
def test_tags_say_what_goes_in_and_the_checks_for_them_pass(name, legacy):
    """All checks of scikit-learn; without the legacy ones, those of its programming interface."""
    instance, known = PUBLIC[name]
    tags = get_tags(ConformalSequenceLabeler(HighOrderCRF()) if instance is None else instance)
    is_extractor = hasattr(public_estimators()[name], "transform") and name not in OF_ROWS
    assert (tags.no_validation, tags.input_tags.string) == (is_extractor, is_extractor)
    inner = getattr(instance, "estimator", HighOrderCRF())  # scikit-learn 1.6 says that LogisticRegression is dense
    inner = getattr(instance, "transformer", inner) if name != "WindowFeatures" else instance
    takes_sparse = not is_extractor and get_tags(inner).input_tags.sparse
    assert (tags.input_tags.two_d_array, tags.input_tags.sparse) == (not is_extractor, takes_sparse)
    if instance is not None:
        options = {"on_skip": None, "on_fail": None, "expected_failed_checks": known}
        results = check_estimator(instance, legacy=legacy, **options)
        assert not [(each["check_name"], each["exception"]) for each in results if each["status"] == "failed"]
        if name in ("HighOrderCRF", "HighOrderSemiCRF"):  # none is skipped or left out
            assert Counter(each["status"] for each in results) == {"passed": len(results)}
            is_counted = parse_version("1.9") <= parse_version(sklearn.__version__) < parse_version("1.10")
            assert len(results) == 50 if is_counted else len(results) >= 45


def test_it_has_the_tags_of_a_classifier_but_is_none(estimator):
    # is_classifier would make GridSearchCV stratify, which needs one label per sequence
    crf = estimator()
    assert not is_classifier(crf)
    assert crf.__sklearn_tags__().classifier_tags is not None


# --- the same for sequences -------------------------------------------------------------------------------------------


def test_copies_compile_nothing_anew(fitted):
    modules = [
        importlib.import_module(f"{_kernels.__name__}.{m.name}") for m in pkgutil.iter_modules(_kernels.__path__)
    ]
    kernels = [kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "signatures")]
    for method in methods_of(type(fitted)).values():
        method(fitted, X, Y)
    before = [len(kernel.signatures) for kernel in kernels]
    assert any(before)
    restored = pickle.loads(pickle.dumps(fitted))
    for method in methods_of(type(fitted)).values():
        method(restored, X, Y)
    assert [len(kernel.signatures) for kernel in kernels] == before


# --- inside scikit-learn's tools --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted_score", [False, True])
def test_sample_weight_is_routed(estimator, weighted_score):
    weight = np.arange(len(X), dtype=float)
    with sklearn.config_context(enable_metadata_routing=True):
        crf = estimator().set_fit_request(sample_weight=True).set_score_request(sample_weight=weighted_score)
        results = cross_validate(
            crf, X, Y, cv=KFold(2), params={"sample_weight": weight}, return_estimator=True, error_score="raise"
        )
        pipe = make_pipeline(SequenceFeatureExtractor(), crf)
        assert pipe.fit(WORDS, Y, sample_weight=weight).predict(WORDS[-2:]) == Y[-2:]
    for (train, test), crf, score in zip(KFold(2).split(X), results["estimator"], results["test_score"], strict=True):
        alone = estimator().fit([X[n] for n in train], [Y[n] for n in train], sample_weight=weight[train])
        for name in "pattern_coef_", "objective_history_":
            np.testing.assert_array_equal(getattr(crf, name), getattr(alone, name))
        given = {"sample_weight": weight[test]} if weighted_score else {}
        assert score == alone.score([X[n] for n in test], [Y[n] for n in test], **given)
