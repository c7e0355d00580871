"""Transformers fitted to parts of the data equal transformers fitted to the whole."""

import pickle
import re
from functools import reduce

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refusals
from sklearn.base import clone

from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

pytestmark = pytest.mark.filterwarnings("ignore:.*tokens lack a field", "ignore:none of the", "ignore:no token of X")

WORDS = st.sampled_from(["a", "B", "bc", "a b", "a|b", "é", "__BOS__", "in", "In", None])


def merged(transformer, parts, order):
    """Merge neighbours in a drawn order, each time after a pickle, as between processes."""
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    for place in order:
        if len(parts) == 1:
            break
        i = place % (len(parts) - 1)
        pair = parts[i : i + 2]
        before = pickle.dumps(pair)
        parts[i : i + 2] = [pickle.loads(pickle.dumps(transformer.merge(*pair)))]
        assert pickle.dumps(pair) == before  # they stay as they are
    return reduce(transformer.merge, parts)


def cut(data, cuts):
    bounds = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    return [data[i:j] for i, j in zip(bounds, bounds[1:], strict=False)]


CUTS = st.lists(st.integers(0, 6), max_size=4)
ORDER = st.lists(st.integers(0, 10), max_size=5)


def assert_same_batches(one, other):
    for name in ("offsets", "indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    assert one.shape == other.shape
    assert (one.feature_names is None) == (other.feature_names is None)
    if one.feature_names is not None:
        assert list(one.feature_names) == list(other.feature_names)
    assert (one.dense is None) == (other.dense is None)
    if one.dense is not None:
        np.testing.assert_array_equal(one.dense.attributes, other.dense.attributes)
        np.testing.assert_array_equal(one.dense.values, other.dense.values, strict=True)


def assert_same_fits(whole, parted, X, fitted):
    assert {name for name in vars(whole) if name.endswith("_")} == {name for name in vars(parted) if name.endswith("_")}
    for name in fitted:
        assert getattr(whole, name) == getattr(parted, name), name
    assert whole.get_feature_names_out().tolist() == parted.get_feature_names_out().tolist()
    assert_same_batches(whole.transform(X), parted.transform(X))
    for n in range(len(X)):
        assert_same_batches(whole.transform(X[n : n + 1]), parted.transform(X[n : n + 1]))


def fit_by_parts(transformer, X, cuts, order):
    counts = [transformer.fit_partition(part) for part in cut(X, cuts)]
    assert not [name for name in vars(transformer) if name.endswith("_")]  # it stays as it is
    return transformer.finish(merged(transformer, counts, order))


def both_fits(transformer, X, cuts, order):
    """Return a fit to all data and one by parts; where the first is refused, so is the second, and there is none."""
    try:
        whole = clone(transformer).fit(X)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error)[:20])):
            fit_by_parts(transformer, X, cuts, order)
        return []
    return [(whole, fit_by_parts(transformer, X, cuts, order))]


# ---- attributes of tokens


DICTS = st.lists(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"w": WORDS.filter(bool), "n": st.sampled_from([0, 1, 2.5]), "b": st.booleans()}
        ),
        max_size=4,
    ),
    min_size=1,
    max_size=6,
)


@given(DICTS, CUTS, ORDER, st.integers(1, 3))
@example([[{"w": "a"}], [{"b": True}]], [1], [0], 1)
def test_attributes_of_dicts(X, cuts, order, min_count):
    extractor = SequenceFeatureExtractor("attributes", min_count=min_count)
    for whole, parted in both_fits(extractor, X, cuts, order):
        assert_same_fits(whole, parted, X, ["n_features_out_"])
        assert parted._vocabularies.vocabulary.complete == whole._vocabularies.vocabulary.complete


def test_values_that_cancel_out():
    X = [[{"a": {"b": 1.0}, "a:b": -1.0, "c": 2.0}], [["c"]]]
    parted = fit_by_parts(SequenceFeatureExtractor("attributes"), X, [1], [])
    assert_same_fits(SequenceFeatureExtractor("attributes").fit(X), parted, X, ["n_features_out_"])


# ---- templates

PAIRS = st.lists(st.lists(st.tuples(WORDS, st.sampled_from(["N", "V", None])), max_size=4), min_size=1, max_size=6)
FORMS = [
    {},
    {"templates": [(0, 0), ((0, -1), (1, 0)), ((0, -2), (0, -1), (0, 1))], "min_count": 2},
    {"templates": [(0, 0)], "token_features": [(1, "lower"), (0, "suffix1")], "padding": "drop", "bias": True},
    {"n_features": 64},
    {"fields": ["w", "pos"], "min_count": 3},
]
FITTED = ["fields_", "templates_", "token_features_", "complete_fields_", "n_features_out_"]


@given(PAIRS, CUTS, ORDER, st.sampled_from(FORMS))
def test_templates_over_tuples(X, cuts, order, form):
    for whole, parted in both_fits(SequenceFeatureExtractor(**form), X, cuts, order):
        assert_same_fits(whole, parted, X, FITTED)


@given(DICTS, CUTS, ORDER, st.integers(1, 2))
def test_templates_over_dicts(X, cuts, order, min_count):
    """With templates that name their fields, dicts of a part may lack any of them."""
    templates = [("w", 0), (("w", -1), ("n", 0)), ("low", 1), ("b", 0)]
    extractor = SequenceFeatureExtractor(templates, {"low": ("w", "lower")}, min_count=min_count)
    for whole, parted in both_fits(extractor, X, cuts, order):
        assert_same_fits(whole, parted, X, FITTED)


def test_keys_beyond_64_bits():
    X = [[f"w{(7 * i + j) % 150}" for j in range(30)] for i in range(10)]
    templates = [tuple(("w", o) for o in range(-5, 6)), ("w", 0)]
    for min_count in (1, 2):
        whole = SequenceFeatureExtractor(templates, min_count=min_count).fit(X)
        parted = fit_by_parts(SequenceFeatureExtractor(templates, min_count=min_count), X, [2, 3, 7], [1, 0])
        assert_same_fits(whole, parted, X, FITTED)


def test_numbers_and_arrays():
    rng = np.random.default_rng(0)
    X = [[{"v": rng.normal(size=2), "w": "ab"[i % 2], "n": float(i)} for i in range(n)] for n in (2, 0, 3, 1)]
    ((whole, parted),) = both_fits(SequenceFeatureExtractor(), X, [1, 3], [0])
    assert_same_fits(whole, parted, X, FITTED)


test_refusals = refusals(
    (lambda: SequenceFeatureExtractor().merge(
         SequenceFeatureExtractor().fit_partition([["a"]]), SequenceFeatureExtractor().fit_partition([[1.0]])),
     "'text' in one partition and 'number' in another"),
    (lambda value: SequenceFeatureExtractor().merge(
         SequenceFeatureExtractor().fit_partition([[("a",)]]), SequenceFeatureExtractor().fit_partition([[value]])),
     ("text in one partition and numbers in another", (1.0,)),
     (r"fields \[0\] in one partition", ("a", "b"))),
    (lambda: SequenceFeatureExtractor().merge(
         *[SequenceFeatureExtractor().fit_partition([[{"v": np.ones(n)}]]) for n in (2, 3)]),
     "arrays of 2 numbers in one partition and arrays of 3"),
    (lambda: SequenceFeatureExtractor().merge(SequenceFeatureExtractor().fit_partition([[{"p": "a", "w": "a"}]]),
         SequenceFeatureExtractor().fit_partition([[{"w": "b"}]])),
     "'lower' is for the field 'p' in one partition and for 'w' in another"),
    (lambda: SequenceFeatureExtractor(token_features=None).finish(SequenceFeatureExtractor(token_features=None).merge(
         SequenceFeatureExtractor(token_features=None).fit_partition([[{"w": "a", "p": "b"}]]),
         SequenceFeatureExtractor(token_features=None).fit_partition([[{"w": "b"}]]))),
     "was not counted in every partition.*give templates"),
    (lambda: SequenceFeatureExtractor(token_features=None).finish(SequenceFeatureExtractor(token_features=None).merge(
         SequenceFeatureExtractor(token_features=None).fit_partition([[], []]),
         SequenceFeatureExtractor(token_features=None).fit_partition([]))),
     "no tokens"),
)  # fmt: skip
