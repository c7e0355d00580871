"""Labels with parts: candidates by sums over parts, and all uses of parts in the estimators.

``test_model_laws`` compares the results of models with parts with the enumeration of all labellings.
"""

import pickle

import numpy as np
import pytest
from cases import random_case, to_batch, to_layout
from internals import (
    CandidateFinder,
    LabelParts,
    Mask,
    _Descent,
)
from refusals import refusals
from scipy.special import log_softmax

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.inspection import explain, weights_table

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def to_parts(sets, n_parts):
    """Return the parts of labels, given as sets of numbers."""
    return LabelParts(
        np.cumsum([0, *map(len, sets)]), np.array([s for parts in sets for s in sorted(parts)], int), n_parts
    )


# --------------------------------------------------------------------------------------------------- the plain model


def level_zero_with_parts(seed, lengths=(9, 1, 0, 4, 17, 6)):
    """Return a layout of level 0, a batch with its dense matrix, the 0/1 matrix of parts, and a generator."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, 13, lengths, 2, 20, 1.0, [(0,)] * 6)
    sets = [set(np.flatnonzero(row).tolist()) for row in rng.random((13, 9)) < 0.3]
    parts = to_parts([set(), *sets[1:]], 9)
    layout, batch = to_layout(case, parts=parts)[0].of_order_zero(), to_batch(case.rows, 6)
    return layout, batch, batch.tocsr().toarray(), parts.matrix().toarray(), rng


def without_pairs(layout, some):
    """Return the layout without the pairs of some parts."""
    kept = np.flatnonzero(~np.isin(layout.pair_pattern, layout.patterns.n_labels + np.array(some)))
    pairs = {"pair_feature": layout.pair_feature[kept], "pair_pattern": layout.pair_pattern[kept]}
    return layout.replaced(**pairs, extra_columns=())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gone", [(), (0, 7), tuple(range(9))])
def test_level_zero_finds_the_best_sums(seed, gone):
    layout, batch, rows, M, rng = level_zero_with_parts(seed)
    layout = without_pairs(layout, gone)
    w = rng.integers(-2, 3, layout.n_weights).astype(float)  # ties
    coef = layout.coef(w).toarray() + M @ layout.part_coef(w).toarray()
    scores = rows @ coef.T + layout.pattern_coef(w)
    mask = Mask(rng.random(scores.shape) < 0.5, np.zeros(len(rows), np.int8))
    mask.allowed[:, 3] = True
    for allowed in None, mask:
        found = CandidateFinder(layout, w, 4).find(batch, allowed)
        for t, (labels, own) in enumerate(zip(*(np.split(x, found.starts[1:-1]) for x in found[1:3]), strict=True)):
            possible = np.arange(13) if allowed is None else np.flatnonzero(mask.allowed[t])
            np.testing.assert_allclose(own, scores[t, labels], rtol=1e-12, atol=1e-12)
            best = np.sort(scores[t, possible])[::-1][:4]
            np.testing.assert_allclose(np.sort(own)[::-1], best, rtol=1e-12, atol=1e-12)
            assert set(labels.tolist()) <= set(possible.tolist())
            assert len(set(labels.tolist())) == len(labels)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gone", [(), (0, 7), tuple(range(9))])
def test_level_zero_steps_along_the_gradient(seed, gone):
    layout, batch, rows, M, rng = level_zero_with_parts(seed)
    layout = without_pairs(layout, gone)
    codes = rng.integers(0, 13, len(rows)).astype(np.int32)
    weight = rng.uniform(0.5, 2, len(batch))
    descent, order = _Descent(layout, batch, codes, weight), rng.permutation(len(batch))
    descent.run_epoch(order)
    W, bias, counts = np.zeros((13 + 9, 6)), np.zeros(13), np.delete(M, gone, axis=1).sum()
    has_weight = layout.row_coef(np.ones(layout.n_weights)).toarray() > 0
    to_rows = np.concatenate([np.eye(13), M], axis=1)  # a label's scores are those of its rows
    size = np.abs(rows).sum(axis=0) / np.count_nonzero(rows, axis=0)  # features are learned as if it were 1
    for s in order:
        for t in range(*batch.offsets[s : s + 2]):
            x = rows[t] / size
            error = np.exp(log_softmax(bias + to_rows @ W @ x)) - (np.arange(13) == codes[t])
            step = _Descent.rate / (1 + counts / 13 / 2) * weight[s] / weight.mean() / (1 + x @ x)
            bias -= step * error
            W -= step * np.outer(to_rows.T @ error, x) * has_weight
    assert has_weight[13:].any() == (len(gone) < 9)
    w = descent.weights()
    np.testing.assert_allclose(layout.row_coef(w).toarray(), W / size, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(layout.pattern_coef(w), bias, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- estimators

RNG = np.random.default_rng(0)
TAGS = ["N|Gen|Pl", "N|Gen|Sg", "N|Nom|Sg", "V|Sg", "V|Pl", "X"]
Y = [[TAGS[i] for i in RNG.integers(0, len(TAGS), RNG.integers(1, 7))] for _ in range(20)]
X = [[[f"w{RNG.integers(8)}", f"tag={tag[: RNG.integers(1, 8)]}", "on"] for tag in tags] for tags in Y]


def split(label):
    return label.split("|")


def membership(crf, labels):
    return np.array([[part in split(label) for part in crf.label_parts_] for label in labels], dtype=float)


def test_parts_have_weights_with_all_their_features():
    crf = HighOrderCRF(label_parts=split).fit(X, Y)
    assert crf.label_parts_.tolist() == ["Gen", "N", "Pl", "Sg", "V"]  # "Nom" and "X" are of one label each
    assert crf.part_coef_.shape == (5, crf.n_features_in_)
    assert crf.coef_.shape == (len(crf.patterns_), crf.n_features_in_)
    assert crf.n_parameters_ == crf.coef_.nnz + crf.part_coef_.nnz + len(crf.patterns_)
    plain = HighOrderCRF().fit(X, Y)
    np.testing.assert_array_equal(crf.coef_.indices, plain.coef_.indices)
    assert plain.label_parts_.shape == (0,)
    assert plain.part_coef_.shape == (0, crf.n_features_in_)
    seen = plain.coef_[: len(TAGS)].astype(bool).astype(float)
    np.testing.assert_array_equal(
        crf.part_coef_.astype(bool).toarray(), membership(crf, sorted(TAGS)).T @ seen.toarray() > 0
    )


@pytest.mark.parametrize(
    "parts",
    [lambda label: [label], lambda label: (), lambda label: ["only"] * (label == "X"), lambda label: [label, label]],
)
def test_parts_of_one_label_are_the_label_itself(parts):
    plain, crf = HighOrderCRF(2, max_iter=20).fit(X, Y), HighOrderCRF(2, max_iter=20, label_parts=parts).fit(X, Y)
    assert len(crf.label_parts_) == 0
    np.testing.assert_array_equal(plain.objective_history_, crf.objective_history_)
    np.testing.assert_array_equal(plain.coef_.toarray(), crf.coef_.toarray())
    assert plain.predict(X) == crf.predict(X)


def test_forms_of_parts_agree():
    of_function = HighOrderCRF(label_parts=split).fit(X, Y)
    for parts in (
        {tag: split(tag) for tag in TAGS}.get,
        lambda label: (part for part in split(label)),
        lambda label: split(label) * 2,  # repeated
        lambda label: set(split(label)),
        lambda label: np.array(split(label)),
    ):
        other = HighOrderCRF(label_parts=parts).fit(X, Y)
        np.testing.assert_array_equal(of_function.objective_history_, other.objective_history_)
        np.testing.assert_array_equal(of_function.part_coef_.toarray(), other.part_coef_.toarray())


def test_parts_need_not_be_strings():
    crf = HighOrderCRF(label_parts=lambda label: [(part, len(part)) for part in split(label)]).fit(X, Y)
    assert crf.label_parts_.tolist() == [("Gen", 3), ("N", 1), ("Pl", 2), ("Sg", 2), ("V", 1)]
    other = HighOrderCRF(label_parts=split).fit(X, Y)
    np.testing.assert_allclose(crf.part_coef_.toarray(), other.part_coef_.toarray())
    foreign = HighOrderCRF(label_parts=lambda label: ["Ünlü\0", "日本"]).fit(X, Y)
    assert foreign.label_parts_.tolist() == ["Ünlü\0", "日本"]


def test_rare_pairs_of_parts_get_no_weight():
    counts = {}
    for rows, tags in zip(X, Y, strict=True):
        for row, tag in zip(rows, tags, strict=True):
            for part in split(tag):
                for name in row:
                    counts[part, name] = counts.get((part, name), 0) + 1
    crf = HighOrderCRF(label_parts=split, min_count=4, max_iter=2).fit(X, Y)
    rows, columns = crf.part_coef_.nonzero()
    found = {(crf.label_parts_[s], crf.feature_names_in_[f]) for s, f in zip(rows, columns, strict=True)}
    assert found <= {pair for pair, count in counts.items() if count >= 4}
    assert crf._state.layout.part_coef(np.ones(crf.n_parameters_)).nnz == sum(
        count >= 4 and part in crf.label_parts_ for (part, _), count in counts.items()
    )
    every = HighOrderCRF(label_parts=split, all_pairs=True, max_iter=2).fit(X, Y)
    assert every.part_coef_.nnz == 5 * every.n_features_in_


def test_streams():
    crf = HighOrderCRF(label_parts=split, solver="sgd", random_state=0)
    crf.partial_fit(X[:10], Y[:10], classes=TAGS)
    before = crf.part_coef_.toarray()
    assert crf.label_parts_.tolist() == ["Gen", "N", "Pl", "Sg", "V"]
    crf.partial_fit([[["new", *row] for row in rows] for rows in X[10:]], Y[10:])
    assert crf.part_coef_.shape[1] == before.shape[1] + 1
    assert "new" in crf.feature_names_in_
    assert crf.part_coef_[:, [crf.feature_names_in_.tolist().index("new")]].nnz > 0
    state = pickle.dumps(crf)
    with pytest.raises(ValueError, match="assigns different parts than in the first call"):
        crf.set_params(label_parts=lambda label: [label[0]]).partial_fit(X[:3], Y[:3])
    with pytest.raises(ValueError, match="different parts"):
        crf.set_params(label_parts=None).partial_fit(X[:3], Y[:3])
    again = pickle.loads(state).partial_fit(X[:3], Y[:3])
    np.testing.assert_array_equal(
        again.part_coef_.toarray(), crf.set_params(label_parts=split).partial_fit(X[:3], Y[:3]).part_coef_.toarray()
    )


def test_inspection():
    crf = HighOrderCRF(label_parts=split).fit(X, Y)
    table = weights_table(crf, top=None)
    assert len(table) == np.count_nonzero(crf._state.weights)
    best = max((row for row in table if row.pattern == ("Gen",)), key=lambda row: row.weight)
    s, f = np.unravel_index(
        np.argmax(crf.part_coef_.toarray() * (crf.label_parts_ == "Gen")[:, None]), crf.part_coef_.shape
    )
    assert best.weight == crf.part_coef_.toarray()[s, f]
    assert best.feature == crf.feature_names_in_[f]
    patterns = {row.pattern for row in weights_table(crf, label="N|Gen|Sg", order=0, top=None)}
    assert patterns <= {("N|Gen|Sg",), ("N",), ("Gen",), ("Sg",)}
    assert ("Gen",) in patterns


def test_explanations_add_up():
    crf = HighOrderCRF(label_parts=split).fit(X, Y)
    longest = max(range(len(X)), key=lambda n: len(X[n]))
    for position in range(len(X[longest])):
        explanation = explain(crf, X, longest, position)
        assert sum(row.contribution for row in explanation.table) == pytest.approx(explanation.log_odds_paths, abs=1e-9)
    both_parts = {row.pattern for row in explain(crf, [[["tag=N|G", "on"]]], 0, 0, against="V|Sg").table}
    assert ("N",) in both_parts or ("V",) in both_parts


# ------------------------------------------------------------------------------------------------------------- errors


test_refusals = refusals(
    (lambda parts: level_zero_with_parts(0)[0].replaced(parts=parts),
     ("parts", LabelParts([0, 1, 2], [0, 2], 2), LabelParts([0, 1], [0], 1),
      LabelParts([0, 2, 1, 2, 2, 2, 2], [0, 1], 2))),
    (lambda label_parts: HighOrderCRF(label_parts=label_parts).fit(X, Y),
       (TypeError, r"an iterable of parts, got 'N\|Gen\|Pl' for the label", lambda label: label),
       (TypeError, "got None for the label", lambda label: None),
       (TypeError, "got a mapping, {'Case': 'Gen'}, for the label .*return its items", lambda label: {"Case": "Gen"}),
       ("'label_parts' parameter .*must be a callable or None", {"X": ["x"]}),
       (TypeError, r"the part \['N\|Gen\|Pl'\] of the label 'N\|Gen\|Pl' is not hashable", lambda label: [[label]]),
       (r"the label 'N\|Gen\|Pl' has a part that is missing, None", lambda label: [None]),
       ("missing, nan", lambda label: [float("nan")]),
       (TypeError, r"parts must be sortable together, but 'a' \(str\) and 1 \(int\) are not", lambda label: ["a", 1]),
       (TypeError, "sortable together", lambda label: ["x" * 10 ** 6, 1])),
    (lambda: HighOrderCRF(
           label_parts=split, sigma_reg={("patterns", 0): 1.0, ("patterns", 1): 1.0}).fit(
           [[[name for name in row if tag != "X" or name != "on"] for row, tag in zip(rows, tags, strict=True)]
           for rows, tags in zip(X, Y, strict=True)], Y),
       "has no key for the weight of the feature"),
)  # fmt: skip
