"""A call with one sequence, which a search decodes, always returns the labels of a batch."""

import copy
import pickle
import threading
import warnings
from functools import cache
from operator import methodcaller

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import FittedModel
from sklearn.pipeline import Pipeline

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf._engine.inference.chain import OneSequence
from sklearn_hocrf._estimator.answers.fitted import predict_one
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*(none of the|no token of)")

LABELS = ["B-P", "I-P", "B-Q", "O"]
SETTINGS = {
    "order 0": {"max_order": 0},
    "order 1": {},
    "order 3": {"max_order": 3},
    "all pairs": {"max_order": 2, "all_pairs": True},
    "tags": {"max_order": 2, "constraints": "bio"},
    "history of segments": {"max_order": 2, "history": "segments"},
    "forbidden triple": {"constraints": Constraints(forbid=[("O", "B-P", "O"), ("B-Q", "B-Q")])},
    "borders": {"max_order": 2, "constraints": Constraints(start=["O", "B-P"], end=["O", "B-Q"])},
    "no intercepts": {"max_order": 2, "fit_intercept": False},
    "attributes of pairs": {"feature_order": 1},
    "parts": {"label_parts": methodcaller("split", "-")},
    "pruning": {"pruning": 2},
}
of_each_case = settings(max_examples=max(2, settings().max_examples // 5))  # each of some ten sequences
HOLDS = set(SETTINGS) - {"attributes of pairs", "pruning"}


def token_of(rng, tag):
    """Return a feature dict with rare, repeated and uninformative values."""
    return {"w": str(rng.choice(list("abcdef"))), "t": tag[0], "on": True, "off": False, "in": {"x": "y", "n": 1}}


def numbers_of(rng, tag):
    """Return a feature dict with numbers and lists, of all orders of magnitude, and a value that is there twice."""
    token = token_of(rng, tag) | {"n": float(rng.normal() * 10.0 ** rng.integers(-9, 2)), "z": int(rng.integers(-1, 2))}
    return token | {
        "list": [str(word) for word in rng.choice(list("xyz"), rng.integers(3))],
        "in:n": 0.5,
        "inf": 1e-300,
    }


def row_of(rng, tag):
    """Return a row of numbers, some of them 0."""
    return [float(tag[0] == "B"), float(rng.integers(-1, 2)), float(rng.normal()), 1e-3 * float(rng.integers(3))]


READERS = {
    "texts": lambda rng, tags: [token_of(rng, tag) for tag in tags],
    "numbers": lambda rng, tags: [numbers_of(rng, tag) for tag in tags],
    "rows": lambda rng, tags: np.array([row_of(rng, tag) for tag in tags]).reshape(-1, 4),
    "lists": lambda rng, tags: [row_of(rng, tag) for tag in tags],
    "float32": lambda rng, tags: np.array([row_of(rng, tag) for tag in tags], np.float32).reshape(-1, 4),
    "integers": lambda rng, tags: np.rint([row_of(rng, tag) for tag in tags]).astype(int).reshape(-1, 4),
}
CASES = [(name, "texts") for name in SETTINGS]
CASES += [("order 3", reader) for reader in READERS if reader != "texts"] + [("tags", "numbers"), ("parts", "rows")]


def draw_data(rng, n, reader="texts"):
    """Return sequences of tokens and their tags, those of no token and of one token included."""
    y = [["O", "B-Q"], ["B-P", "I-P", "O"], []]
    for length in [1, *rng.integers(1, 9, n)]:
        tags = [str(rng.choice(["B-P", "B-Q", "O"]))]
        for _ in range(length - 1):
            tags.append(str(rng.choice([*(["I-P"] if tags[-1][2:] == "P" else []), "B-P", "B-Q", "O"])))
        y.append(tags)
    return [READERS[reader](rng, tags) for tags in y], y


def agree(tags, constraints):
    """Return whether a labelling agrees with constraints, those of drawn tags apart."""
    if not isinstance(constraints, Constraints):
        return True
    runs = [tags[start:stop] for stop in range(len(tags) + 1) for start in range(stop)]
    borders = (constraints.start or tags), (constraints.end or tags)
    return tags[0] in borders[0] and tags[-1] in borders[1] and not any(list(run) in runs for run in constraints.forbid)


@cache
def fitted_to(name, seed, reader):
    """Return a model of drawn data, whose patterns and features differ from one seed to the next."""
    X, y = draw_data(np.random.default_rng(seed), 12, reader)
    kept = [n for n, tags in enumerate(y) if tags and agree(tags, SETTINGS[name].get("constraints"))]
    with warnings.catch_warnings(action="ignore"):
        return HighOrderCRF(**{"max_iter": 1} | SETTINGS[name]).fit([X[n] for n in kept], [y[n] for n in kept])


def drawn(name, seed, reader="texts"):
    """Return a model with drawn weights, many of which are equal, and sequences for it."""
    rng, model = np.random.default_rng(seed), copy.deepcopy(fitted_to(name, seed // 3 % 3, reader))
    state = FittedModel(model).state
    kind = seed % 3
    weights = rng.integers(-1, 2, len(state.weights)) if kind == 0 else rng.normal(size=len(state.weights))
    weights = weights * (1e-12, 1.0, 30.0)[rng.integers(3)] if kind == 2 else weights
    state._replace(weights=weights.astype(float)).checked(model._kind).set_on(model)
    more = [[{"w": "new"}], [{"w": "a", "t": "B", "on": 1.0}] * 3] if reader in ("texts", "numbers") else []
    return model, draw_data(rng, 5, reader)[0] + more


def outcome(ask, *asked):
    """Return the first answer, or the text of the error."""
    try:
        return ask(*asked)[0]
    except (TypeError, ValueError) as error:
        return str(error)


@pytest.mark.parametrize(("name", "reader"), CASES)
@pytest.mark.filterwarnings("ignore")  # unknown attributes
@of_each_case
@given(seed=st.integers(0, 10**6))
def test_a_call_with_one_sequence_has_the_answers_of_a_batch(name, reader, seed):
    model, X = drawn(name, seed, reader)
    y = model.predict(X)
    assert [model.predict([x])[0] for x in X] == y
    assert [model.predict_segments([x])[0] for x in X] == model.predict_segments(X)
    for x, segments in zip(X, model.predict_segments(X, with_probability=True), strict=True):
        (alone,) = model.predict_segments([x], with_probability=True)
        assert alone.dtype == segments.dtype
        assert alone[["start", "stop", "label"]].tolist() == segments[["start", "stop", "label"]].tolist()
        np.testing.assert_allclose(alone["probability"], segments["probability"], rtol=1e-9)
    assert (model._state.tables.one.search is not None) == (name in HOLDS)
    X, y = [x for x in X if len(x)], [labels for labels in y if len(labels)]
    log_z = [best.score - best.log_probability for (best,) in model.predict_nbest(X, 1)]
    for x, labels, marginals, expected, size in zip(
        X, y, model.predict_marginals(X), model.log_likelihood(X, y), log_z, strict=True
    ):
        np.testing.assert_allclose(model.predict_marginals([x])[0], marginals, rtol=1e-11, atol=1e-14)
        (found,) = model.log_likelihood([x], [labels])
        assert found == pytest.approx(expected, abs=1e-13 * max(1.0, abs(size)))
    for labels in ["O"], [None], [{"O", "B-P"}], [b"O"], ["new"], []:
        one, other = (outcome(model.log_likelihood, [X[-2]] * n, [labels] * n) for n in (1, 2))
        assert one == other or one == pytest.approx(other, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize(("name", "reader"), [case for case in CASES if case[0] in HOLDS])
def test_the_search_finds_most(name, reader):
    """Equal labels would follow, too, if no call were ever decided."""
    found, asked = 0, 0
    for seed in range(1, 16, 3):  # weights without ties
        model, X = drawn(name, seed, reader)
        model.predict(X[:1])
        results = [model._state.tables.one.predict([x]) for x in X[:-2] if len(x)]
        found, asked = found + sum(result is not None for result in results), asked + len(results)
    assert found > 0.8 * asked


def test_log_likelihoods_of_what_is_certain_are_not_positive():
    for seed in range(2, 62, 3):  # of weights up to 30 times as large
        model, X = drawn("order 3", seed)
        X = [x for x in X if len(x)]
        y = model.predict(X)
        assert max(model.log_likelihood([x], [labels])[0] for x, labels in zip(X, y, strict=True)) <= 0


def test_ties_are_left_to_the_batch():
    model, X = drawn("order 3", 1)
    state = FittedModel(model).state
    state._replace(weights=np.zeros(len(state.weights))).checked(model._kind).set_on(model)
    assert [model.predict([x])[0] for x in X if x] == model.predict([x for x in X if x])
    assert all(model._state.tables.one.predict([x]) is None for x in X if x)


def test_a_model_whose_tables_are_not_kept_is_left_to_the_batch(monkeypatch):
    monkeypatch.setattr("sklearn_hocrf._estimator.answers.fitted.MOST_KEPT", 0)
    model, X = drawn("order 3", 1)
    assert model.predict(X[-1:]) == [model.predict([X[-1], []])[0]]
    assert model._state.tables.one.search is None


@pytest.mark.parametrize("most", [1, 2])
def test_a_search_that_keeps_too_many_states_gives_up(most):
    model, X = drawn("order 3", 1)
    model.predict(X[-1:])
    model._state.tables.one.search.most_kept = most
    assert [model.predict([x])[0] for x in X if x] == model.predict([x for x in X if x])


def test_a_long_sequence_is_left_to_the_batch(monkeypatch):
    model, X = drawn("order 3", 1)
    x = max(X, key=len)
    assert model.predict([x]) == [model.predict([x, []])[0]]
    assert model._state.tables.one.predict([x]) is not None
    assert model._state.tables.one.search.most_kept <= len(model._state.tables.one.search.tables.fail)  # for arrays
    monkeypatch.setattr("sklearn_hocrf._engine.inference.chain.MOST_CELLS", 10)
    assert model._state.tables.one.predict([x]) is None
    assert model.predict([x]) == [model.predict([x, []])[0]]


@pytest.mark.parametrize("value", ["a", b"a", np.str_("a"), ["a", "b"], {"a": {"b": 1}}, 2.5, np.True_])
@pytest.mark.parametrize("key", ["w", b"w"])
@pytest.mark.filterwarnings("ignore")
def test_uncommon_values_are_read_as_in_a_batch(key, value):
    model, x = drawn("order 1", 1)[0], [{"w": "a"}, {key: value}]
    assert model.predict([x])[0] == model.predict([x, []])[0]


@pytest.mark.parametrize(
    "token", [{"w": None}, {"w": np.nan}, {"w": {1: 2}}, {5: False}, {"w": object()}, ("a",), "a", 3]
)
def test_errors_of_one_sequence_are_those_of_a_batch(token):
    model, _ = drawn("order 1", 1)
    with pytest.raises((TypeError, ValueError)) as alone:
        model.predict([[{"w": "a"}, token]])
    with pytest.raises(type(alone.value)) as together:
        model.predict([[{"w": "a"}, token], []])
    assert str(alone.value) == str(together.value)


def test_warnings_of_one_sequence_are_those_of_a_batch():
    model, _ = drawn("order 1", 1)
    for x in ([{"v": "a"}], [{"w": "new", "t": "new"}], [{"w": "a"}]):
        caught = []
        for X in ([x], [x, []]):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                model.predict(X)
            caught.append([str(warning.message) for warning in found])
        assert caught[0] == caught[1]


def test_labels_have_the_type_of_y():
    X = [[{"a": 1}, {"b": 1}], [{"b": 1}]]
    for y in ([[1, 2], [2]], [np.array([1, 2]), np.array([2])], [[True, False], [False]]):
        model = HighOrderCRF().fit(X, y)
        alone, together = model.predict(X[:1]), model.predict(X)[:1]
        assert type(alone[0]) is type(together[0])
        assert type(alone[0][0]) is type(together[0][0])
        np.testing.assert_array_equal(alone[0], together[0])


def test_a_later_fit_and_other_weights_are_met_at_once():
    X, y = [[{"a": 1}, {"b": 1}], [{"b": 1}]], [["A", "B"], ["B"]]
    model = HighOrderCRF(sigma_reg=30).fit(X, y)
    assert model.predict(X[:1]) == [["A", "B"]]
    halved = FittedModel(model).divided_by(2.0)
    assert halved.predict(X[:1]) == [["A", "B"]]
    assert halved._state.tables.one is not model._state.tables.one
    assert model.fit(X, [["B", "A"], ["A"]]).predict(X[:1]) == [["B", "A"]]


def test_copies_and_files_have_no_tables_of_one_call():
    model, X = drawn("order 3", 1)
    before = len(pickle.dumps(model))
    model.predict(X[-1:])
    assert len(pickle.dumps(model)) == before
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.predict(X[-1:]) == model.predict(X[-1:])


def test_a_batch_of_one_sequence():
    words = [["a", "b", "c"], ["b"]]
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(sigma_reg=30)).fit(words, [["A", "B", "A"], ["B"]])
    assert [pipe.predict([x])[0] for x in words] == pipe.predict(words) == [["A", "B", "A"], ["B"]]
    assert pipe[-1]._state.tables.one.predict(pipe[0].transform(words[:1])) == [["A", "B", "A"]]
    with pytest.raises(ValueError, match="feature"):
        pipe[-1].predict(SequenceFeatureExtractor().fit([["z"]]).transform([["z"]]))
    other = SequenceFeatureExtractor().fit([["x", "y", "z"], ["y"]])  # as many, with other names
    assert other.n_features_out_ == pipe[0].n_features_out_
    with pytest.raises(ValueError, match="feature 0 is"):
        pipe[-1].predict(other.transform([["x"]]))
    assert pipe[-1].predict(SequenceFeatureExtractor().fit_transform(words)[:1]) == [["A", "B", "A"]]


WORDS = ["a", "b", "c", "Ab", "a1", "", "-"]


def assert_same_batches(extractor, X):
    """Compare batches of one sequence with the parts of that of all sequences, raw columns included."""
    together = extractor.transform([*X, []])
    for n, x in enumerate(X):
        alone, part = extractor.transform([x]), together[n]
        assert alone.attribute_names is part.attribute_names
        for name in ("offsets", "indptr", "indices"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(part, name))
        np.testing.assert_array_equal(alone.toarray(), part.toarray())
        assert alone.columns.keys() == part.columns.keys()
        for field, column in alone.columns.items():
            other = part.columns[field]
            assert type(column) is type(other)
            if isinstance(column, np.ndarray):
                np.testing.assert_array_equal(column, other)
            else:
                assert column.values[column.codes].tolist() == other.values[other.codes].tolist()


def shout(text):
    if text == "-":
        raise ValueError("no dash")
    return text.upper()


TEMPLATES = [("w", 0), ("shout", -1), (("w", 0), ("w", 1))]
EXTRACTORS = {
    "words": {},
    "bias": {"bias": True},
    "dropped borders": {"padding": "drop"},
    "dropped borders, bias": {"padding": "drop", "bias": True, "token_features": ["lower", "length"]},
    "hashed": {"n_features": 64},
    "hashed, few collisions": {"n_features": 2**18, "bias": True, "padding": "drop"},
    "hashed numbers": {
        "n_features": 50,
        "token_features": ["lower", "is_title", "length"],
        "templates": [(("length", -1), ("lower", 0)), ("is_title", 1), (("w", -2), ("w", 0)), ("length", 0), ("w", 1)],
    },
    "rare ones": {"min_count": 3},
    "numbers": {"token_features": ["lower", "is_title", "length"]},
    "products": {
        "token_features": {
            "n": ("w", "length"),
            "lower": ("w", "lower"),
            "some": ("w", lambda text: len(text) - 1 or None),
        },
        "templates": [
            ("n", 0),
            (("n", -1), ("w", 0)),
            (("n", 1), ("some", 0)),
            (("some", 0), ("lower", 1)),
            ("some", 2),
        ],
    },
    "functions": {"token_features": {"shout": ("w", shout)}, "templates": TEMPLATES},
}


@pytest.mark.parametrize("name", EXTRACTORS)
def test_words_behind_an_extractor(name):
    rng = np.random.default_rng(0)
    known = WORDS[: 6 if name == "functions" else 7]
    X = [[str(rng.choice(known)) for _ in range(length)] for length in rng.integers(1, 9, 15)]
    y = [["AB"[word in ("a", "Ab")] for word in x] for x in X]
    pipe = make_pipeline(SequenceFeatureExtractor(**EXTRACTORS[name]), HighOrderCRF(max_iter=3)).fit(X, y)
    new = [*X, [], ["new"], ["new", "a"] * 5, [np.str_("a"), "b"]]
    together = pipe.predict([*new, []])[:-1]
    assert [pipe.predict([x])[0] for x in new] == together
    assert [Pipeline(pipe.steps).predict([x])[0] for x in new] == together
    assert_same_batches(pipe[0], new)
    assert sum(predict_one(pipe[-1], [x], [pipe[0]]) is not None for x in X) > 12
    if name == "functions":
        with pytest.raises(ValueError, match="no dash"):
            pipe.predict([["-", "a"]])
    with pytest.raises(TypeError, match="sequence 0, position 1"):
        pipe.predict([["a", None, object()]])


@pytest.mark.parametrize("form", ["tuples", "dicts", "dicts in another order", "with more keys"])
def test_columns_of_texts_behind_an_extractor(form):
    rng = np.random.default_rng(1)
    X = [[(str(rng.choice(WORDS)), str(rng.choice(["N", "V"]))) for _ in range(n)] for n in rng.integers(1, 9, 30)]
    y = [["AB"[tag == "N" and word in "ab"] for word, tag in x] for x in X]
    if form != "tuples":
        X = [[{"w": word, "p": tag} for word, tag in x] for x in X]
    pipe = make_pipeline(SequenceFeatureExtractor(fields=["w", "p"]), HighOrderCRF(max_iter=3)).fit(X, y)
    if form == "dicts in another order":
        X = [[{"p": token["p"], "w": token["w"]} for token in x] for x in X]
    elif form == "with more keys":
        X = [[{**token, "z": 1} for token in x] for x in X]
    together = pipe.predict([*X, []])[:-1]
    assert [pipe.predict([x])[0] for x in X] == together
    assert_same_batches(pipe[0], X)
    assert sum(predict_one(pipe[-1], [x], [pipe[0]]) is not None for x in X) > 25
    odd = [("a",), ("a", "N", "z"), ("a", None), ("a", 1)] if form == "tuples" else [{"w": "a"}, {"w": None, "p": "N"}]
    for token in odd:
        assert outcome(pipe.predict, [[X[0][0], token]]) == outcome(pipe.predict, [[X[0][0], token], []])


ODD_ARRAYS = [None, np.ones(3), np.ones(2, int), np.array([1.0, np.nan]), np.array([1e300, 0.0]), [1.0, 2.0], "a"]


@pytest.mark.parametrize("padding", ["mark", "drop"])
@pytest.mark.filterwarnings("ignore")  # tokens without an array, few iterations
def test_arrays_behind_an_extractor(padding):
    rng = np.random.default_rng(2)
    X = [[{"w": str(rng.choice(WORDS)), "v": rng.normal(size=2)} for _ in range(n)] for n in rng.integers(1, 9, 30)]
    y = [["AB"[int(token["v"][0] > 0)] for token in x] for x in X]
    X[1::2] = [[{**token, "v": token["v"].astype(np.float32)} for token in x] for x in X[1::2]]
    extractor = SequenceFeatureExtractor([("w", 0), ("v", 0), ("v", -1), ("w", 1)], padding=padding)
    pipe = make_pipeline(extractor, HighOrderCRF(max_iter=3)).fit(X, y)
    assert [pipe.predict([x])[0] for x in X] == pipe.predict([*X, []])[:-1]
    assert_same_batches(pipe[0], X)
    for n, x in enumerate(X):
        alone, part = pipe[0].transform([x]).dense, pipe[0].transform([*X, []])[n].dense
        assert alone.values.dtype == part.values.dtype
        np.testing.assert_array_equal(alone.values, part.values)
    assert sum(predict_one(pipe[-1], [x], [pipe[0]]) is not None for x in X) > 25
    for cell in ODD_ARRAYS:
        tokens = [X[0][0], {"w": "a", "v": cell}]
        assert outcome(pipe.predict, [tokens]) == outcome(pipe.predict, [tokens, []])


WITH_NUMBERS = {
    "numbers": lambda rng: float(rng.normal()),
    "rows": lambda rng: rng.normal(size=3),
    "tuples": lambda rng: (str(rng.choice(WORDS)), int(rng.integers(-1, 2)), bool(rng.integers(2))),
    "lists": lambda rng: [float(rng.normal()), int(rng.integers(3))],
    "dicts": lambda rng: {
        "w": str(rng.choice(WORDS)),
        "n": np.float64(rng.integers(-1, 2) / 3),
        "v": rng.normal(size=2),
    },
    "arrays alone": lambda rng: {"v": rng.normal(size=3)},
}


@pytest.mark.parametrize("name", WITH_NUMBERS)
@pytest.mark.parametrize("n_features", [None, 7])
@pytest.mark.filterwarnings("ignore")  # few iterations
def test_numbers_behind_an_extractor(name, n_features):
    rng, token_of = np.random.default_rng(3), WITH_NUMBERS[name]
    X = [[token_of(rng) for _ in range(length)] for length in rng.integers(1, 9, 15)]
    X = [np.array(x) for x in X] if name == "rows" else X
    y = [rng.choice(["B-P", "O"], len(x)).tolist() for x in X]
    fields = next(iter(X[0])) if name == "dicts" else range(3 if name in ("rows", "tuples") else 2)
    templates = [[(fields[0], 0)], [(fields[1], 1), (fields[0], 0)]] if name in ("rows", "tuples", "lists") else None
    extractor = SequenceFeatureExtractor(templates, n_features=n_features, bias=name == "rows")
    pipe = make_pipeline(extractor, HighOrderCRF(max_iter=3)).fit(X, y)
    assert sum(predict_one(pipe[-1], [x], [pipe[0]]) is not None for x in X) > 12
    assert_same_batches(pipe[0], X)
    assert [pipe.predict([x])[0] for x in X] == pipe.predict(X)
    assert [pipe.predict_segments([x])[0] for x in X] == pipe.predict_segments(X)
    for x, marginals in zip(X, pipe.predict_marginals(X), strict=True):
        np.testing.assert_allclose(pipe.predict_marginals([x])[0], marginals, rtol=1e-11)


ODD_NUMBERS = [None, np.nan, "a", 10**400, np.inf, np.float32(0.5), 3, True, np.array(1.0), [1.0], "", -0.0]


@pytest.mark.parametrize("cell", ODD_NUMBERS)
@pytest.mark.filterwarnings("ignore")
def test_uncommon_numbers_are_read_as_in_a_batch(cell):
    X, y = [[{"w": "a", "n": 1.5}, {"w": "b", "n": 2.0}]] * 2, [["A", "B"]] * 2
    pipe, answers = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(sigma_reg=30)).fit(X, y), []
    for asked in ([[{"w": "b", "n": cell}]], [[{"w": "b", "n": cell}], []]):
        try:
            answers.append(pipe.predict(asked)[0])
        except (TypeError, ValueError) as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


def test_an_extractor_of_another_fit_is_not_taken():
    X, y = [["a", "b"], ["b"]], [["A", "B"], ["B"]]
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(sigma_reg=30)).fit(X, y)
    assert pipe.predict(X[:1]) == [["A", "B"]]
    pipe[0].set_params(bias=True)  # an attribute beyond those of the model
    with pytest.raises(ValueError, match="must lie in"):
        pipe.predict(X[:1])
    pipe[0].fit([["c", "a", "b", "d"]])
    assert predict_one(pipe[-1], X[:1], [pipe[0]]) is None
    with pytest.raises(ValueError, match="feature"):
        pipe.predict(X[:1])


class Backwards(SequenceFeatureExtractor):
    def transform(self, X):
        return super().transform([x[::-1] for x in X])


def test_methods_of_subclasses_are_called():
    extractor, model = SequenceFeatureExtractor(templates=[("w", 0)]), HighOrderCRF(max_order=0, sigma_reg=30)
    pipe = make_pipeline(extractor, model).fit([["a", "b"]], [["A", "B"]])
    extractor.__class__ = Backwards
    assert pipe.predict([["a", "b"]]) == [["B", "A"]]
    model.__class__ = type("Own", (HighOrderCRF,), {"predict": lambda self, X: "own"})
    assert pipe.predict([["a", "b"]]) == "own"


@pytest.mark.parametrize(("more", "cell"), [({"n": 1.5}, "x"), ({"n": np.ones(2)}, "x"), ({}, {"a": "b"})])
def test_cells_that_no_template_reads_are_checked(more, cell):
    X = [[{"w": "a", **more}, {"w": "b", **more}]]
    pipe = make_pipeline(SequenceFeatureExtractor(templates=[("w", 0)]), HighOrderCRF()).fit(X, [["A", "B"]])
    with pytest.raises((TypeError, ValueError), match="field 'n'"):
        pipe.predict([[{"w": "a", "n": cell}]])


def segment_model():
    """Return a fitted semi-CRF with features of whole segments, and sequences of one to nine words."""
    rng = np.random.default_rng(0)
    y = [rng.choice(["B-P", "I-P", "O"], n).tolist() for n in [*range(1, 10)] * 3]
    y = [
        ["B-P" if tag == "I-P" and tags[t - 1 : t] in ([], ["O"]) else tag for t, tag in enumerate(tags)] for tags in y
    ]
    X = [[str(rng.choice(list("abcdef"))) + tag[-1] * int(rng.integers(2)) for tag in tags] for tags in y]
    features = SequenceFeatureExtractor(), SegmentFeatureExtractor(begin=True, identity=True, scheme="bio")
    return make_pipeline(*features, HighOrderSemiCRF(2, scheme="bio", max_iter=5)).fit(X, y), X


def inverse_length(tokens, starts, stops):
    return 1 / (stops - starts)


def begins_sequence(tokens, starts, stops):
    return starts == 0


def draw_tags(rng, n_tokens):
    """Return tags of segments, the first of which has the label P; those of P have at least two tokens."""
    tags = ["B-P", "I-P"]
    while len(tags) < n_tokens:
        label = rng.choice(list("OPQ"))
        rest = [f"I-{label}"] * int(rng.integers(2) + (label == "P"))
        tags += ["O"] if label == "O" else [f"B-{label}", *rest]
    return tags[:n_tokens]


SEGMENT_SETTINGS = {
    "token features": ([], {}),
    "identity": ([SegmentFeatureExtractor(begin=True, identity=True, scheme="bio")], {}),
    "functions": (
        [SegmentFeatureExtractor(functions=[inverse_length, begins_sequence], end=True, identity=True, scheme="bio")],
        {},
    ),
    "lengths and tags": ([SegmentFeatureExtractor(tags="bigrams", length=("capped", "gamma"), scheme="bio")], {}),
    "log-odds": ([SegmentLogOddsEncoder(scheme="bio"), SegmentFeatureExtractor(identity=True, scheme="bio")], {}),
    "constraints": ([SegmentFeatureExtractor(identity=True, scheme="bio")], {"constraints": Constraints(start=["P"])}),
    "lowest lengths": ([SegmentFeatureExtractor(identity=True, scheme="bio")], {"segment_length": {"P": (2, 4)}}),
    "any length": ([], {"segment_length": np.inf}),
    "pairs": ([SegmentFeatureExtractor(begin=True, scheme="bio")], {"feature_order": 1}),
}
TOKEN_SETTINGS = {
    "words": ({}, lambda rng, tag: str(rng.choice(list("abcdef"))) + tag[-1] * int(rng.integers(2))),
    "hashed": ({"n_features": 40}, lambda rng, tag: str(rng.choice(list("abcdef"))) + tag[-1]),
    "numbers": ({}, lambda rng, tag: (str(rng.choice(list("abc"))), float(rng.normal()))),
    "arrays": ({}, lambda rng, tag: {"w": str(rng.choice(list("abc"))), "v": rng.normal(size=3)}),
}
# words with "identity" need no case, because other cases have its features
SEGMENT_CASES = [(name, "words") for name in SEGMENT_SETTINGS if name != "identity"]
SEGMENT_CASES += [("identity", form) for form in TOKEN_SETTINGS if form != "words"]


@pytest.mark.parametrize(("name", "form"), SEGMENT_CASES)
@pytest.mark.filterwarnings("ignore")  # few iterations, tags that violate the scheme
@of_each_case
@given(seed=st.integers(0, 10**6))
def test_a_call_with_one_sequence_has_the_segments_of_a_batch(name, form, seed):
    """Sequences of several lengths in any order, each twice: the plan of a length is new or known."""
    rng, (transformers, params), (token_params, token_of) = (
        np.random.default_rng(seed),
        SEGMENT_SETTINGS[name],
        TOKEN_SETTINGS[form],
    )
    lengths = [*range(1, 8), *rng.integers(1, 16, 3)]
    y = [draw_tags(rng, length) for length in lengths]
    X = [[token_of(rng, tag) for tag in tags] for tags in y]
    steps = [SequenceFeatureExtractor(**token_params), *map(copy.deepcopy, transformers)]
    model = HighOrderSemiCRF(2, **{"scheme": "bio", "max_iter": 4} | params)
    pipe = make_pipeline(*steps, model).fit(X, y)
    X = [*X, []]
    labels, marginals = pipe.predict(X), pipe.predict_marginals(X)
    segments, tables = pipe.predict_segments(X), pipe.predict_segments(X, with_probability=True)
    for n in rng.permutation(2 * len(X)).tolist():
        n %= len(X)
        assert pipe.predict([X[n]]) == [labels[n]]
        assert np.array_equal(pipe.predict_marginals([X[n]])[0], marginals[n])
        assert pipe.predict_segments([X[n]]) == [segments[n]]
        assert np.array_equal(pipe.predict_segments([X[n]], with_probability=True)[0], tables[n])


@pytest.mark.filterwarnings("ignore")  # few iterations
def test_plans_of_lengths_are_kept_for_other_sequences(monkeypatch):
    monkeypatch.setattr("sklearn_hocrf._engine.inference.model.MOST_PLANS", 3)
    model, X = segment_model()
    labels, marginals = model.predict(X), model.predict_marginals(X)
    for n in np.random.default_rng(1).permutation(len(X)).tolist():
        assert model.predict([X[n]]) == [labels[n]]
        assert np.array_equal(model.predict_marginals([X[n]])[0], marginals[n])
        assert len(FittedModel(model[-1]).model()._plans) <= 3
    plans = FittedModel(model[-1]).model()._plans
    assert plans
    assert all(length == plan.n_tokens and plan.batch is None for length, plan in plans.items())
    assert all(plan.lane is not None for plan in plans.values())


@pytest.mark.parametrize("factor", [0.0, 300.0, 1e7])
@pytest.mark.filterwarnings("ignore")
def test_large_scores_of_segments_are_left_to_the_batch(factor):
    model, X = segment_model()
    state = FittedModel(model[-1]).state
    state._replace(weights=state.weights * factor).checked(model[-1]._kind).set_on(model[-1])
    labels, marginals = model.predict(X), model.predict_marginals(X)
    tables = model.predict_segments(X, with_probability=True)
    for n, x in enumerate(X):
        assert model.predict([x]) == [labels[n]]
        assert np.array_equal(model.predict_marginals([x])[0], marginals[n])
        assert np.array_equal(model.predict_segments([x], with_probability=True)[0], tables[n])


@pytest.mark.filterwarnings("ignore")
def test_plans_of_long_sequences_are_not_kept(monkeypatch):
    monkeypatch.setattr("sklearn_hocrf._engine.inference.model.MOST_OF_PLAN", 0)
    model, X = segment_model()
    assert model.predict([X[5]]) == model.predict([X[5]])
    assert not FittedModel(model[-1]).model()._plans


@pytest.mark.filterwarnings("ignore")
def test_threads_share_the_plan_of_a_length():
    model, X = segment_model()
    X = [x for x in X if len(x) == 7]
    expected, found = model.predict_marginals(X), {}

    def ask(n):
        found[n] = [model.predict_marginals([X[n]])[0] for _ in range(20)]

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(X))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(table, expected[n]) for n in range(len(X)) for table in found[n])


def test_models_with_many_labels_are_left_to_the_batch():
    X = [[{f"w{n}": 1} for n in range(200)]]
    model = HighOrderCRF(max_iter=2, fit_intercept=False).fit(X, [[f"l{n}" for n in range(200)]])
    assert OneSequence.for_model(FittedModel(model).model(), None) is None
