"""Training on streams: partial_fit of both estimators, growing vocabularies and layouts, feature hashing."""

import pickle
import warnings

import numpy as np
import pytest
from internals import SequenceBatch
from refusals import refusals
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils.estimator_checks import check_estimator

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.training import LBFGS, SGD

RNG = np.random.default_rng(0)
LETTERS = list("abcdefgh")
WORDS = [[LETTERS[i] for i in RNG.integers(0, 8, RNG.integers(3, 9))] for _ in range(120)]
X = [[[f"w={word}", "bias"] for word in words] for words in WORDS]


def labels_of(words):
    """Label runs of letters: "L" up to the letter c, "M" after an L, else "R"."""
    labels = []
    for word in words:
        labels.append("L" if word < "d" else "M" if labels and labels[-1] == "L" else "R")
    return labels


Y = [labels_of(words) for words in WORDS]
CLASSES = ["L", "M", "R"]
ESTIMATORS = [HighOrderCRF, HighOrderSemiCRF]
SOLVER = {"solver": "sgd", "random_state": 0}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return request.param


@pytest.fixture
def crf(estimator):
    crf = estimator(max_order=2, solver="sgd", random_state=0, sigma_reg=2.0)
    return crf.set_params(segment_length=9) if estimator is HighOrderSemiCRF else crf


def batches(size, X=X, Y=Y):
    return [(X[start : start + size], Y[start : start + size]) for start in range(0, len(X), size)]


def stream(crf, size=20, **first):
    for x, y in batches(size):
        crf.partial_fit(x, y, **first)
        first = {}
    return crf


def quietly(crf, X, Y):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return crf.fit(X, Y)


def snapshot(crf):
    return pickle.dumps(crf.__dict__), list(vars(crf))


# ------------------------------------------------------------------------------------------------------------- streams


def test_a_stream_is_learned(crf):
    assert stream(crf, classes=CLASSES) is crf
    assert crf.score(X, Y) > 0.85
    assert crf.classes_.tolist() == CLASSES
    assert crf.n_iter_ == 1
    assert len(crf.objective_history_) == 2
    assert crf.objective_history_[1] < crf.objective_history_[0]
    assert crf.optimality_gap_ == np.inf
    assert crf.n_passes_ == 3
    arrays = [np.array(labels) for labels in Y[:9]]
    assert type(crf.partial_fit(X[:9], arrays).predict(X[:1])[0]) is list  # as in the first call


def test_the_history_has_the_share_of_the_penalty():
    crf = HighOrderCRF(**SOLVER).partial_fit(X[:60], Y[:60])
    w, before = crf._state.weights, crf.log_likelihood(X[60:], Y[60:]).sum()
    crf.partial_fit(X[60:], Y[60:])
    assert crf.objective_history_[0] == pytest.approx(w @ w / 4 - before)


@pytest.mark.usefixtures("all_lines")
def test_verbose_streams_write_a_line_a_call(capsys):
    crf = HighOrderCRF(solver="sgd", random_state=0, verbose=1).partial_fit(X[:9], Y[:9]).partial_fit(X[9:], Y[9:])
    lines = capsys.readouterr().err.splitlines()
    assert [f"objective {crf.objective_history_[-1]:.6f}" in line for line in lines] == [False, True]


@pytest.mark.slow
def test_many_rounds_through_a_stream_come_to_the_optimum(estimator):
    settings = {"max_order": 1}
    if estimator is HighOrderSemiCRF:
        settings["segment_length"] = 9
    best = estimator(**settings).fit(X, Y)
    crf = estimator(**settings, solver=SGD(n_sequences=len(X)), random_state=0)
    for _ in range(25):
        stream(crf, 60)

    def objective(model):
        weights = np.concatenate([model.coef_.data, model.pattern_coef_, getattr(model, "token_intercept_", [])])
        return -model.log_likelihood(X, Y).sum() + weights @ weights / 2

    assert set(crf.patterns_) == set(best.patterns_)
    assert objective(best) == pytest.approx(best.objective_history_[-1], rel=1e-9)
    assert objective(best) < objective(crf) < 1.02 * objective(best)


def test_steps_fall_when_the_number_of_sequences_is_given():
    """m goes on from call to call: the last call moves the weights less than the first ones."""
    crf = HighOrderCRF(solver=SGD(n_sequences=120, step_size=0.3), random_state=0)
    moved = []
    for _ in range(12):
        before = crf.pattern_coef_ if hasattr(crf, "pattern_coef_") else 0
        crf.partial_fit(X, Y)
        moved.append(np.linalg.norm(crf.pattern_coef_ - before))
    assert crf._state.stream.n_seen == 12 * 120
    assert moved[-1] < 0.2 * moved[1]


def test_growing_changes_nothing_for_the_other_weights():
    """A stream whose second batch brings features that no other batch has, against one that knew of them."""
    base = HighOrderCRF(max_order=2, **SOLVER)
    first, second = (X[:40], Y[:40]), (X[40:80], Y[40:80])
    strange = [[["zzz"], ["aaa"]]], [["L", "M"]]
    grown, later = clone(base).partial_fit(*first), (second[0] + strange[0], second[1] + strange[1])
    weights = np.concatenate([grown.coef_.data, grown.pattern_coef_])
    start = -grown.log_likelihood(*later).sum() + 41 / 81 * weights @ weights / 2
    grown.partial_fit(*later)
    assert grown.objective_history_[0] == pytest.approx(start, rel=1e-9)
    assert grown._state.stream.n_seen == 81
    vocabulary = sorted({name for tokens in X + strange[0] for token in tokens for name in token})
    number = {name: i for i, name in enumerate(vocabulary)}

    def batch(X):
        tokens = [sorted(number[name] for name in token) for sequence in X for token in sequence]
        offsets, indptr = np.cumsum([0, *map(len, X)]), np.cumsum([0, *map(len, tokens)])
        return SequenceBatch(offsets, indptr, np.concatenate(tokens), None, len(vocabulary), vocabulary)

    full = clone(base).partial_fit(batch(first[0]), first[1])
    full.partial_fit(batch(second[0] + strange[0]), second[1] + strange[1])
    places = [number[name] for name in grown.feature_names_in_]
    np.testing.assert_allclose(grown.coef_.toarray(), full.coef_.toarray()[:, places], rtol=1e-12)
    np.testing.assert_allclose(grown.pattern_coef_, full.pattern_coef_, rtol=1e-12)
    assert grown.feature_names_in_[-2:].tolist() == ["aaa", "zzz"]
    of_new = grown.coef_.toarray()[:, -2:]
    assert np.argwhere(of_new).tolist() == [[0, 1], [1, 0]], "each where it was seen: L with zzz, M with aaa"
    assert (of_new[[0, 1], [1, 0]] > 0).all()


# ------------------------------------------------------------------------------------------------- classes and patterns


def test_classes_come_from_the_first_call_or_are_given(estimator):
    crf = estimator(solver="sgd", random_state=0)
    crf.partial_fit(X[:30], Y[:30], classes=["R", "Q", "M", "L"])
    assert crf.classes_.tolist() == ["L", "M", "Q", "R"]
    crf.partial_fit([X[30]], [["Q"] * len(X[30])] if estimator is HighOrderCRF else [Y[30]])
    crf.partial_fit(X[:2], Y[:2], classes=["Q", "L", "M", "R"])
    with pytest.raises(ValueError, match="classes differ from those of the first call"):
        crf.partial_fit(X[:2], Y[:2], classes=CLASSES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (X[:2], [Y[0], [*Y[1][:-1], "never"]]),
            ValueError,
            "unknown label 'never' of y .sequence 1, position .*first",
        ),
        ((X[:2], Y[:1]), ValueError, "X has 2 sequences, y has 1"),
        ((X[:2], [Y[0], Y[1][:-1]]), ValueError, "sequence 1 has"),
        (([[], []], [[], []]), ValueError, "X has no tokens in sequences of positive weight"),
        (([], []), ValueError, "X has no sequences"),
        (([np.ones((2, 3))], [["L", "R"]]), ValueError, "rows of numbers"),
        ((X[:2], Y[:2], ["L"]), ValueError, "classes has only one class|classes differ from"),
        ((X[:2], Y[:2], "LMR"), TypeError, "classes must be a list"),
        ((X[:2], Y[:2], None, [1.0]), ValueError, "sample_weight"),
    ],
)
def test_errors_leave_the_estimator_as_it_was(crf, arguments, error, message):
    crf.partial_fit(X[:40], Y[:40])
    before = snapshot(crf)
    with pytest.raises(error, match=message):
        crf.partial_fit(*arguments)
    assert snapshot(crf) == before
    x, y = X[40:80], Y[40:80]
    same = clone(crf).partial_fit(X[:40], Y[:40]).partial_fit(x, y)
    np.testing.assert_array_equal(crf.partial_fit(x, y).coef_.toarray(), same.coef_.toarray())


def test_errors_of_the_first_call(crf):
    for arguments, message in [
        ((X[:20], Y[:20], ["L", "R"]), "unknown label 'M'"),
        ((X[:20], Y[:20], ["L", 1]), "classes: labels must be sortable"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            crf.partial_fit(*arguments)
        assert not hasattr(crf, "classes_")


def test_patterns_come_from_the_first_call_or_are_given(crf):
    first = clone(crf).partial_fit(X[:1], Y[:1], classes=CLASSES)
    longer = clone(crf).partial_fit(X, Y, classes=CLASSES)
    assert len(first.patterns_) < len(longer.patterns_)
    assert first.partial_fit(X, Y).patterns_ == clone(crf).partial_fit(X[:1], Y[:1], classes=CLASSES).patterns_
    given = clone(crf).set_params(patterns=[("L", "M"), ("M", "R", "L")]).partial_fit(X[:5], Y[:5], CLASSES)
    assert given.patterns_ == [("L",), ("M",), ("R",), ("L", "M"), ("M", "R", "L")]
    assert given.partial_fit(X[5:], Y[5:]).patterns_ == [("L",), ("M",), ("R",), ("L", "M"), ("M", "R", "L")]
    assert len(clone(crf).set_params(patterns="all").partial_fit(X[:5], Y[:5], CLASSES).patterns_) >= 3 + 6 + 12
    assert clone(crf).set_params(patterns=[("L", "M")]).partial_fit(X[:5], Y[:5], CLASSES).patterns_[3:] == [("L", "M")]


TAGS = [["B-P", "I-P", "O"], ["O", "B-Q", "I-Q", "I-Q"], ["B-P", "O"]]
TOKENS = [[["x", tag.lower()] for tag in tags] for tags in TAGS]


def test_tags():
    crf = HighOrderSemiCRF(scheme="bio", **SOLVER)
    classes = ["O", "B-P", "I-P", "B-Q", "I-Q"]
    crf.partial_fit(TOKENS[:2], TAGS[:2], classes=classes)
    crf.partial_fit(TOKENS[2:], TAGS[2:])
    assert crf.classes_.tolist() == sorted(classes)
    assert crf.segment_labels_.tolist() == ["O", "P", "Q"]
    with pytest.raises(ValueError, match="unknown label 'R'"):
        crf.partial_fit(TOKENS[2:], [["B-R", "O"]])
    with pytest.raises(ValueError, match="segment .* has 3 tokens, but segment_length allows 2.*first call"):
        crf.partial_fit(TOKENS[:1], [["B-P", "I-P", "I-P"]])
    with pytest.raises(ValueError, match="'Z' of classes .* is not a tag of scheme='bio'"):
        clone(crf).partial_fit(TOKENS, TAGS, classes=["Z"])


def test_segments_that_become_longer():
    crf = HighOrderSemiCRF(**SOLVER)
    crf.partial_fit([[["a"], ["b"]]], [["A", "B"]])
    with pytest.raises(ValueError, match="has 2 tokens, but segment_length allows 1.*None means the longest"):
        crf.partial_fit([[["a"], ["b"]]], [["A", "A"]])
    crf = clone(crf).set_params(segment_length=3).partial_fit([[["a"], ["b"]]], [["A", "B"]])
    crf.partial_fit([[["a"], ["b"]]], [["A", "A"]])
    assert crf.segment_length_ == {"A": (1, 3), "B": (1, 3)}
    lists = clone(crf).set_params(scheme="segments")
    lists.partial_fit([[["a"], ["b"]]], [[(0, 1, "A"), (1, 2, "B")]], classes=["A", "B", "C"])
    lists.partial_fit([[["a"], ["b"]]], [[(0, 2, "C")]])
    assert lists.predict([[["a"], ["b"]]])[0][0][0] == 0


# ------------------------------------------------------------------------------------------------- beside other methods


@pytest.mark.parametrize("l1_reg", [0.0, 0.1])
def test_partial_fit_goes_on_from_fit(estimator, l1_reg):
    crf = estimator(max_order=2, l1_reg=l1_reg).fit(X[:60], Y[:60])
    before = crf.log_likelihood(X, Y).sum()
    crf.set_params(solver=SGD(step_size=0.05, n_sequences=len(X)), random_state=0)
    crf.partial_fit([*X, [["new"]]], [*Y, Y[0][:1]])  # the fitted weights move to other places
    assert crf.log_likelihood(X, Y).sum() > before
    assert crf.objective_history_[0] < 2 * -before + 100  # from the fitted weights


def test_l1_gives_zeros(estimator):
    crf = estimator(l1_reg=8.0, **SOLVER)
    stream(crf)
    zeros = np.count_nonzero(stream(clone(crf).set_params(l1_reg=0.0)).coef_.toarray()) - crf.coef_.nnz
    assert zeros > 3
    assert (crf.coef_.data != 0).all()


@pytest.mark.parametrize("settings", [{}, {"solver": "lbfgs"}, {"solver": LBFGS()}])
def test_other_solvers_have_no_partial_fit(estimator, settings):
    crf = estimator(**settings)
    assert not hasattr(crf, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        crf.partial_fit(X, Y)
    assert "needs the solver 'sgd', or an instance of SGD" in str(caught.value.__cause__)


def test_what_needs_all_of_the_stream_is_refused(crf):
    with pytest.raises(ValueError, match="min_count=2 needs fit: it depends on all training data"):
        clone(crf).set_params(min_count=2).partial_fit(X, Y)


@pytest.mark.slow
def test_checks_of_scikit_learn():
    """All but the equality of weighted and repeated sequences, which holds at the optimum only."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        results = check_estimator(HighOrderCRF(solver="sgd", max_iter=2), on_skip=None, on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert {name.rsplit("_on_", 1)[0] for name in failed} <= {"check_sample_weight_equivalence"}
    assert len(results) >= 45


# ------------------------------------------------------------------------------------------------------------- hashing

TEMPLATES = [(("w", 0),), (("w", -1), ("w", 0)), (("shape", 1),)]
TEXTS = [["In", "the", "end"], ["The", "End", "2"], ["the"]]


def hashed(n_features=2**16, **options):
    return SequenceFeatureExtractor(TEMPLATES, token_features=["shape"], n_features=n_features, **options)


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"padding": "drop"}])
def test_hashes_are_those_of_the_names(options):
    """The same attributes as with a vocabulary, each where scikit-learn's FeatureHasher puts its name."""
    plain = SequenceFeatureExtractor(TEMPLATES, token_features=["shape"], **options).fit(TEXTS)
    names = plain.get_feature_names_out()
    hasher = FeatureHasher(2**16, input_type="string", alternate_sign=False)
    expected = hasher.transform([names[row.indices] for row in plain.transform(TEXTS).tocsr()])
    for extractor in (hashed(**options), hashed(**options).fit([["other", "Words"]])):
        batch = extractor.transform(TEXTS)
        assert (batch.tocsr() != expected).nnz == 0
        assert batch.shape == (3, 2**16)
        assert batch.feature_names is None
        assert batch.lengths.tolist() == [3, 3, 1]
    assert (hashed(**options).fit_transform(TEXTS).tocsr() != expected).nnz == 0


def test_transform_keeps_no_state():
    extractor = hashed()
    together = extractor.transform(TEXTS)
    apart = [extractor.transform([tokens]).tocsr() for tokens in TEXTS]
    assert (sparse.vstack(apart) != together.tocsr()).nnz == 0
    assert vars(extractor) == vars(hashed())


def test_attributes_of_one_hash_add_up():
    batch = hashed(n_features=2).fit_transform(TEXTS)
    assert batch.toarray().sum() == hashed().transform(TEXTS).toarray().sum()
    assert batch.toarray().max() > 1
    assert hashed(n_features=2).fit(TEXTS).get_feature_names_out().tolist() == ["hash[0]", "hash[1]"]


@pytest.mark.parametrize("X", [[], [[]], [["a"], ["b"]]])
def test_hashing_where_there_is_nothing_to_hash(X):
    extractor = SequenceFeatureExtractor([(("w", 9),)], padding="drop", n_features=16).fit(TEXTS)
    assert extractor.transform(X).lengths.tolist() == [len(sequence) for sequence in X]


def test_hashing_of_numbers_and_default_templates():
    X = [[{"w": "a", "x": 2.0}, {"w": "b", "x": 0.0}], [{"w": "c", "x": -1.5}]]
    extractor = SequenceFeatureExtractor(n_features=2**12).fit(X)
    affixes = [f"{kind}{length}" for kind in ("prefix", "suffix") for length in range(1, 6)]
    assert list(extractor.token_features_) == ["lower", *affixes, "shape"]
    values = extractor.transform(X).toarray()
    assert 2.0 in values[0]
    assert -1.5 in values[2]
    with pytest.raises(ValueError, match="field"):
        extractor.transform([[("a", "b")]])


def test_a_stream_of_raw_tokens(estimator):
    """Neither the extractor nor the estimator has seen the tokens of later batches."""
    extractor = SequenceFeatureExtractor([(("w", 0),), (("w", -1), ("w", 0))], n_features=2**10)
    crf = estimator(**SOLVER)
    if estimator is HighOrderSemiCRF:
        crf.set_params(segment_length=9)
    for words, y in batches(30, WORDS):
        crf.partial_fit(extractor.transform(words), y, classes=CLASSES)
    assert crf.score(extractor.transform(WORDS), Y) > 0.9
    assert crf.n_features_in_ == 2**10
    assert not hasattr(crf, "feature_names_in_")
    first = clone(crf).partial_fit(extractor.transform(WORDS[:2]), Y[:2], CLASSES)
    assert first.coef_.nnz < crf.coef_.nnz


test_refusals = refusals(
    (lambda: HighOrderCRF(solver="sgd").partial_fit([[["w"]] * 3], [list("aba")]).set_params(n_jobs="a").partial_fit(
         [[["w"]] * 3], [list("aba")]),
     "The 'n_jobs' parameter"),
    (lambda: hashed(min_count=2).fit(TEXTS), "min_count=2 needs a vocabulary"),
    (lambda n_features: hashed(n_features=n_features).transform(TEXTS), ("n_features", 0, True, 2.5, 2 ** 31)),
)  # fmt: skip
