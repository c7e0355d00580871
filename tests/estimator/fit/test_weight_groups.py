"""``sigma_reg`` and ``l1_reg`` by groups of weights: the value of each weight, and its effect in all of training."""

import warnings

import numpy as np
import pytest
from cases import cases, given_penalty, to_batch, to_layout
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    BEGIN,
    LBFGS,
    FitSteps,
    Penalty,
    SequenceBatch,
    TokenBlock,
    tie_weights,
    weight_groups,
    with_blocks,
)
from refusals import refusals
from registry import values_of
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from test_ties import doubled, kinds

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

RNG = np.random.default_rng(0)
WORDS = ["the", "old", "man", "then", "the", "cat"]
LABELS = {"the": "D", "old": "A", "man": "N", "then": "R", "cat": "N"}
SENTENCES = [[WORDS[i] for i in RNG.integers(6, size=n)] for n in (5, 3, 6, 1, 4, 5, 6, 2)]
X = [[[f"w={word}", f"end={word[-1]}", "bias"] for word in words] for words in SENTENCES]
Y = [[LABELS[word] if RNG.random() < 0.8 else "N" for word in words] for words in SENTENCES]
SIGMA = {("features", 0): 2.0, "w=": 0.5, ("w=the", 1): 0.3, ("patterns", 1): 4.0, ("patterns", 7): 9.0, None: 1.0}
BOTH = pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
MODEL = {"max_order": 2, "feature_order": {"w=": 1}}


def penalty_of(crf, sigma_reg=SIGMA, l1_reg=None):
    """Return the penalty by weight, for the layout of a fit that has kept all weights."""
    layout, names = crf._state.layout, crf.feature_names_in_
    precision = (1.0 / np.array(values_of(sigma_reg, layout, names))) ** 2
    return Penalty(precision) if l1_reg is None else Penalty(precision, values_of(l1_reg, layout, names))


# --- which key covers a weight ----------------------------------------------------------------------------------------

NAMES = st.one_of(st.text("ab\u00e9", max_size=4), st.sampled_from(["features", "features:a", "patterns", "pattern"]))
ORDERS = st.integers(0, 3)
KEYS = st.one_of(
    st.none(), st.tuples(st.sampled_from(["features", "patterns"]), ORDERS), NAMES, st.tuples(NAMES, ORDERS)
)


@given(cases(min_length=1), st.lists(KEYS, unique=True, max_size=8), st.data())
def test_which_key_covers_a_weight(case, keys, data):
    layout, _ = to_layout(case)
    names = data.draw(st.lists(NAMES, min_size=layout.n_features, max_size=layout.n_features))
    expected = values_of({key: index for index, key in enumerate(keys)}, layout, names)
    found = weight_groups(layout, np.array(names, dtype=object), keys)
    assert found.tolist() == [-1 if index is None else index for index in expected]


# --- the estimators ---------------------------------------------------------------------------------------------------


@BOTH
def test_streams(estimator):
    """New features find their groups by name; the penalty covers them from the call in which they come."""
    more_x = [[["w=then", "end=q", "new"], ["w=cat", "w=then"]], X[1]]
    more_y = [["R", "N"], Y[1]]
    crf = estimator(sigma_reg=SIGMA, solver="sgd", random_state=0, **MODEL)
    other = clone(crf)
    if estimator is HighOrderSemiCRF:
        crf.set_params(segment_length=4), other.set_params(segment_length=4)
    few = [[["w=the", "bias"], ["w=man"]], [["end=e"], ["bias"]]], [["D", "N"], ["R", "A"]]
    for x, y in (few, (X, Y), (more_x, more_y)):
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            crf.partial_fit(x, y)
            with given_penalty(penalty_of(crf)):
                other.partial_fit(x, y)
        np.testing.assert_array_equal(crf._state.weights, other._state.weights)
        np.testing.assert_array_equal(crf.objective_history_, other.objective_history_)
    assert {"new", "end=q"} <= set(crf.feature_names_in_)
    assert len(set(penalty_of(crf).precision)) >= 4


# --- tied weights -----------------------------------------------------------------------------------------------------


def check_ties(layout, batch, groups):
    """Check that attributes are tied exactly if they are of one kind and their pairs in the same groups."""
    ties = tie_weights(layout, batch, groups)
    starts, found = layout.pairs.starts, kinds(layout, batch)
    of_attribute = [tuple(groups[start:stop]) for start, stop in zip(starts[:-1], starts[1:], strict=True)]
    rank = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    keys = [(kind, of_attribute[r]) for kind, r in zip(found, rank, strict=False)] + found[layout.n_pairs :]
    ids = {}
    assert [ids.setdefault(key, i) for key, i in zip(keys, ties.variable, strict=True)] == ties.variable.tolist()
    assert len(set(ids.values())) == len(ids) == len(ties.root) == ties.layout.n_weights
    precision = np.array([0.5, 1.0, 3.0])[groups]
    assert Penalty(precision).tied(ties.variable, ties.root) is not None
    return ties


@given(cases(min_length=1), st.data())
def test_ties_of_chains(case, data):
    n = len(case.feature_orders)
    case = doubled(case, data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.just(1)), max_size=4)) if n else [])
    layout, _ = to_layout(case)
    check_ties(layout, to_batch(case.rows, case.n_attributes), draw_groups(data, layout))


def draw_groups(data, layout):
    """Draw groups by weight or, so that attributes are tied, by feature and order."""
    if data.draw(st.booleans()):
        return np.array(data.draw(st.lists(st.integers(0, 2), min_size=layout.n_weights, max_size=layout.n_weights)))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    pairs = rng.integers(3, size=(layout.n_features, 9))[layout.pair_feature, layout.order_of_weight[: layout.n_pairs]]
    return np.concatenate([pairs, rng.integers(3, size=layout.n_weights - layout.n_pairs)])


def test_one_column_twice_with_the_groups_the_other_way_round():
    """Two features count an attribute alike, in the groups 0 and 1; another attribute has the groups 1 and 0."""
    rows = SequenceBatch([0, 2], [0, 2, 3], [0, 1, 2], None, 3)
    block = TokenBlock(BEGIN, np.arange(3, dtype=np.int32), "")
    batch = with_blocks(rows, (block, block), [f"{n}.{i}" for n in "pq" for i in range(3)])
    crf = HighOrderSemiCRF(1, fit_intercept=False, max_iter=0)
    with pytest.warns(ConvergenceWarning):
        layout = crf.fit(batch, [["a", "b"]])._state.layout
    attribute = layout.features.attribute[layout.pair_feature]
    twice = np.flatnonzero(attribute == 0), np.flatnonzero(attribute == 1)
    assert [len(pairs) for pairs in twice] == [2, 2]
    groups = np.zeros(layout.n_weights, dtype=np.int64)
    assert len(tie_weights(layout, rows, groups).root) == layout.n_weights - 2
    groups[[twice[0][0], twice[1][1]]] = 1
    ties = tie_weights(layout, rows, groups)
    assert len(ties.root) == layout.n_weights
    assert Penalty([1.0 + group for group in groups]).tied(ties.variable, ties.root) is not None


# --- the parameters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapping", "named"),
    [
        ({("features", 0): 1.0, ("patterns", 0): 1.0}, r"the pattern \('A', 'N'\) of order 1: add \('patterns', 1\)"),
        ({"w=": 1.0, "end=": 1.0, ("patterns", 0): 1.0, ("patterns", 1): 1.0}, r"the feature 'bias' with the pattern"),
        ({("", 1): 1.0, ("patterns", 0): 1.0, ("patterns", 1): 1.0}, r"of order 0: add \('features', 0\), or None"),
    ],
    ids=["pattern", "feature", "prefix of another order"],
)
@pytest.mark.parametrize("name", ["sigma_reg", "l1_reg"])
def test_a_weight_that_no_key_covers(name, mapping, named):
    called = []
    crf = HighOrderCRF(**{name: mapping}, solver=LBFGS(callback=called.append))
    with pytest.raises(ValueError, match=f"{name} has no key for the weight of .*{named}"):
        crf.fit([[["w=old", "end=d", "bias"], ["w=man", "bias"]]], [["A", "N"]])
    assert not called
    assert not hasattr(crf, "_state")


@BOTH
@pytest.mark.parametrize("key", ["a", ("a", 0), ""])
def test_prefixes_need_names(estimator, key):
    rows = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]]
    with pytest.raises(ValueError, match="sigma_reg=.* selects features by name, but X has no feature names"):
        estimator(sigma_reg={key: 1.0, None: 1.0}).fit(rows, [["a", "b"], ["a"]])
    sigma_reg = {("features", 0): 2.0, None: 0.5}
    crf = estimator(sigma_reg=sigma_reg).fit(rows, [["a", "b"], ["a"]])
    precision = [0.25] * crf._state.layout.n_pairs + [4.0] * len(crf._state.layout.bias_pattern)
    with given_penalty(Penalty(precision)):
        given = estimator().fit(rows, [["a", "b"], ["a"]])
    np.testing.assert_array_equal(crf._state.weights, given._state.weights)
    with pytest.raises(ValueError, match=r"the feature 0 with the pattern \('a',\)"):
        estimator(sigma_reg={("patterns", 0): 1.0, ("patterns", 1): 1.0}).fit(rows, [["a", "b"], ["a"]])


@BOTH
def test_prefixes_of_no_name(estimator):
    sigma_reg = {"w": 1.0, "ww": 2.0, ("zz", 3): 2.0, ("features", 5): 0.1, None: 1.0}
    crf = estimator(sigma_reg=sigma_reg, l1_reg={"l": 1, None: 0})
    with pytest.warns(UserWarning, match="no feature name begins with") as caught:
        crf.fit(X, Y)
    assert sorted(str(warning.message) for warning in caught) == [
        "l1_reg: no feature name begins with 'l'",
        "sigma_reg: no feature name begins with 'ww'",
        "sigma_reg: no feature name begins with 'zz'",
    ]


BAD_KEYS = [1, ("features",), ("features", -1), ("features", True), ("features", 0.0), ("patterns", "0"), (0, "a"), ()]


@pytest.mark.parametrize("name", ["sigma_reg", "l1_reg"])
@pytest.mark.parametrize("key", BAD_KEYS)
def test_bad_keys(name, key):
    with pytest.raises(ValueError, match=f"{name} maps groups of weights") as error:
        HighOrderCRF(**{name: {None: 1.0, key: 0.5}}).fit(X, Y)
    assert repr(key) in str(error.value)


def test_values_at_the_bounds():
    free = HighOrderCRF(sigma_reg={("patterns", 0): np.inf, None: 1}, l1_reg={None: 0}).fit(X, Y)
    assert free.optimality_gap_ == np.inf
    assert not FitSteps(HighOrderCRF(l1_reg={None: 0})).choose_training().prior.penalty(free._state.layout).is_sparse


test_refusals = refusals(
    (lambda sigma_reg: HighOrderCRF(sigma_reg=sigma_reg).fit(X, Y),
     ("sigma_reg, key 'w=': sigma_reg must be a number > 0", {"w=": 0.0, None: 1.0}),
     ("sigma_reg, key 'w=': .* is too small", {"w=": 1e-300, None: 1.0}),
     ("sigma_reg is an empty mapping", {})),
    *((lambda l1_reg, function=function: function(l1_reg=l1_reg).fit(X, Y),
       ("l1_reg, key None: l1_reg must be a finite number >= 0", {None: np.inf}), ("l1_reg", {}))
      for function in (HighOrderCRF, HighOrderSemiCRF)),
    (lambda sigma_reg: HighOrderCRF(sigma_reg={None: 1.0, "end=": sigma_reg}).fit(X, Y),
     ("sigma_reg.*'end='", -1.0, np.nan, "1", None, True, [1.0], np.ones(2), 1j, 10 ** 400)),
    (lambda l1_reg: HighOrderCRF(l1_reg={None: 1.0, "end=": l1_reg}).fit(X, Y),
     ("l1_reg.*'end='", -1.0, np.nan, "1", None, True, [1.0], np.ones(2), 1j, 10 ** 400)),
    (lambda value: HighOrderCRF().__setstate__(
         {**HighOrderCRF(sigma_reg={None: 1.0}).fit(X, Y).__getstate__(), **{"sigma_reg": value}}),
     ("keys and values|zip", {}, {"keys": [None]}, {"keys": 1, "values": 2}, {"keys": [[]], "values": [1.0]},
      {"keys": [], "values": [1]})),
)  # fmt: skip
