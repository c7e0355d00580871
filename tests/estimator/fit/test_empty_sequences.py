"""Empty training sequences change no bit of a model, in any form of X and with any meta-estimator.

``test_model_laws`` tests this law for models of every kind, ``test_dask`` for partitions.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, SequenceBatch, StackedSequenceLabeler, make_pipeline
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
    TokenTransformer,
    WindowFeatures,
)
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV, cross_val_predict
from sklearn_hocrf.tagger import Tagger, export_tagger

RNG = np.random.default_rng(0)
LENGTHS = RNG.permutation([0, 0, 0, 0, 3, 4, 2, 5, 1, 6, 3, 4, 7, 2, 3, 4, 5, 6, 2, 3])
LENGTHS[[0, 1, 9, -1]] = 0  # the first ones, one in the middle, the last one
FULL = np.flatnonzero(LENGTHS)
OFFSETS = np.append(0, np.cumsum(LENGTHS))
ROWS = RNG.normal(size=(OFFSETS[-1], 3))
LABELS = np.array(["a", "b", "c"])[np.argmax(ROWS + 0.5 * RNG.normal(size=ROWS.shape), axis=1)]
WEIGHT = RNG.integers(1, 4, len(LENGTHS)) / 2.0
GROUPS = np.arange(len(LENGTHS)) % 2


def cut(flat):
    return [flat[start:stop] for start, stop in zip(OFFSETS, OFFSETS[1:], strict=False)]


def chosen(data):
    return data[FULL] if hasattr(data, "shape") or isinstance(data, SequenceBatch) else [data[n] for n in FULL]


X, Y = cut(ROWS), [labels.tolist() for labels in cut(LABELS)]
WORDS = [[f"w{int(10 * abs(row[0]))}" for row in rows] for rows in X]


def assert_same(one, other, *asked):
    for name in ("coef_", "pattern_coef_"):
        ours, theirs = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(*(a.toarray() if sparse.issparse(a) else a for a in (ours, theirs)))
    assert one.classes_.dtype == other.classes_.dtype
    assert one.patterns_ == other.patterns_
    assert [type(labels) for labels in one.predict(*asked)] == [type(labels) for labels in other.predict(*asked)]


def test_all_of_them_empty():
    for empty in ([], np.empty((0, 3)), sparse.csr_array((0, 3))):
        for model in (HighOrderCRF(), HighOrderSemiCRF(), StackedSequenceLabeler(LogisticRegression(), cv=2)):
            with pytest.raises(ValueError, match="^X has no tokens in sequences of positive weight: fit needs"):
                model.fit([empty] * 4, [[]] * 4)


TEMPLATES = [(("w", -1),), (("w", 0), ("w", 1))]
PIPELINES = {
    "words": lambda: make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()),
    "templates": lambda: make_pipeline(SequenceFeatureExtractor(TEMPLATES, fields=["w"]), HighOrderCRF()),
    "segments": lambda: make_pipeline(
        SequenceFeatureExtractor(), SegmentFeatureExtractor(begin=True, length="capped"), HighOrderSemiCRF()
    ),
    "recordings": lambda: make_pipeline(WindowFeatures(), TokenTransformer(StandardScaler()), HighOrderCRF()),
    "log odds": lambda: make_pipeline(SequenceFeatureExtractor(), SegmentLogOddsEncoder(), HighOrderSemiCRF()),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("weight", [False, True])
def test_pipelines(name, weight, tmp_path):
    found = []
    tokens = {"templates": [[(word,) for word in words] for words in WORDS], "recordings": X}.get(name, WORDS)
    for data, y, weights in ((tokens, Y, WEIGHT), (chosen(tokens), chosen(Y), WEIGHT[FULL])):
        pipe = PIPELINES[name]()
        options = {f"{pipe.steps[-1][0]}__sample_weight": weights} if weight else {}
        found.append(pipe.fit(data, y, **options))
    assert_same(found[0][-1], found[1][-1], found[0][:-1].transform(tokens))
    for number, pipe in enumerate(found if name == "words" else ()):
        export_tagger(pipe, tmp_path / str(number))
    if name == "words":
        assert Tagger(tmp_path / "0").predict(WORDS[FULL[0]]) == Tagger(tmp_path / "1").predict(WORDS[FULL[0]])


SPLITS = [(np.flatnonzero(GROUPS != k), np.flatnonzero(GROUPS == k)) for k in range(2)]
FULL_SPLITS = [tuple(np.flatnonzero(np.isin(FULL, part)) for part in split) for split in SPLITS]


@pytest.mark.parametrize("weight", [False, True])
def test_meta_estimators(weight):
    weights, of_full = (WEIGHT, WEIGHT[FULL]) if weight else (None, None)
    pairs = []
    for fit, cv in ((True, SPLITS), (False, FULL_SPLITS)):
        data = (X, Y, weights) if fit else (chosen(X), chosen(Y), of_full)
        stacked = StackedSequenceLabeler(LogisticRegression(), cv=cv).fit(*data)
        calibrated = CalibratedSequenceLabeler(HighOrderCRF(), cv=cv).fit(*data)
        search = PenaltySearchCV(HighOrderCRF(), cv=cv, max_steps=1).fit(*data[:2], sample_weight=data[2])
        pairs.append((stacked, calibrated, search))
    (stacked, calibrated, search), others = pairs
    assert_same(stacked.final_estimator_, others[0].final_estimator_, stacked._given(X))
    assert calibrated.temperature_ == others[1].temperature_
    assert_same(calibrated.calibrated_estimator_, others[1].calibrated_estimator_, X)
    assert search.best_params_ == others[2].best_params_
    assert_same(search.best_estimator_, others[2].best_estimator_, X)


def test_groups_and_predictions_stay_aligned():
    found = cross_val_predict(HighOrderCRF(), X, Y, groups=GROUPS, cv=GroupKFold(2))
    same = cross_val_predict(HighOrderCRF(), chosen(X), chosen(Y), cv=FULL_SPLITS)
    assert chosen(found) == same
    assert [len(labels) for labels in found] == LENGTHS.tolist()
    StackedSequenceLabeler(LogisticRegression(), cv=GroupKFold(2)).fit(X, Y, groups=GROUPS)
    PenaltySearchCV(HighOrderCRF(), cv=GroupKFold(2), max_steps=1).fit(X, Y, groups=GROUPS)


def test_parts_of_splits_that_have_no_tokens():
    empty = np.flatnonzero(LENGTHS == 0)
    cv = [(FULL, empty), (np.flatnonzero(np.arange(len(LENGTHS)) % 2), FULL)]
    with pytest.raises(
        ValueError, match="the held-out part of split 0 has no sequences of positive weight, or no tokens"
    ):
        PenaltySearchCV(HighOrderCRF(), cv=cv).fit(X, Y)
    with pytest.raises(ValueError, match="X has no tokens"):
        CalibratedSequenceLabeler(HighOrderCRF(), cv=[(empty, FULL)]).fit(X, Y)
    with pytest.raises(ValueError, match="X has no tokens"):
        cross_val_predict(HighOrderCRF(), X, Y, cv=[(empty, FULL), (FULL, empty)])
    cv = [(FULL, empty), (np.arange(len(LENGTHS)), FULL)]
    assert len(StackedSequenceLabeler(LogisticRegression(), cv=cv).fit(X, Y).predict(X)) == len(X)
    assert len(cross_val_predict(HighOrderCRF(), X, Y, cv=cv)) == len(X)
