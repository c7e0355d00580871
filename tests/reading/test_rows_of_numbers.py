"""Sequences of plain numbers, in every shape: the change that an error message recommends works."""

import re

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, StackedSequenceLabeler, make_pipeline
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler

NUMBERS = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [2.0, 1.0, 3.0], [1.0, 3.0, 2.0]])
LABELS = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])
SEGMENTS = [[(0, 1, "p"), (1, 3, "q")]] * 4
MODELS = {
    "crf": HighOrderCRF(max_iter=2),
    "semi-CRF": HighOrderSemiCRF(max_iter=2),
    "pipeline": make_pipeline(HighOrderCRF(max_iter=2)),
    "calibrated": CalibratedSequenceLabeler(HighOrderCRF(max_iter=2), cv=2),
}
pytestmark = pytest.mark.filterwarnings("ignore")


def advised(error, **given):
    """Return what the code in a message makes of X or y."""
    return [eval(code, {"np": np, **given}) for code in re.findall("`(.*?)`", str(error))]


def refusal(call, *args, **params):
    with pytest.raises((TypeError, ValueError)) as caught:
        call(*args, **params)
    return caught.value


TABLES = {
    "array": (NUMBERS, LABELS),
    "array, lists of labels": (NUMBERS, LABELS.tolist()),
    "arrays": (list(NUMBERS), list(LABELS)),
    "arrays, lists of labels": (list(NUMBERS), LABELS.tolist()),
    "lists": (NUMBERS.tolist(), LABELS.tolist()),
    "codes": (NUMBERS.astype(int), LABELS),
    "lists of codes": (NUMBERS.astype(int).tolist(), LABELS.tolist()),
    "missing labels": (NUMBERS, [[None, *labels[1:]] for labels in LABELS.tolist()]),
}
PAIRS = sorted({*(("crf", name) for name in TABLES), *((m, name) for m in MODELS for name in ("arrays", "codes"))})


@pytest.mark.parametrize(("model", "name"), PAIRS)
def test_sequences_of_one_length(model, name):
    X, y = TABLES[name]
    model = MODELS[model]
    error = refusal(model.fit, X, y)
    cures = advised(error, X=X)
    assert "every token is a row" in str(error)
    assert [np.shape(cure) for cure in cures] == [(4, 3, 1), (4, 3, 1)]  # numbers, and names of codes
    for cure in cures:
        fitted = model.fit(cure, y)
        assert len(fitted.predict(cure)) == 4
        again = refusal(fitted.predict, X)
        if isinstance(cure, list):
            assert "was fitted on attribute names: prepare X as for fit" in str(again)
        else:
            for right in advised(again, X=X)[:1]:
                np.testing.assert_array_equal(fitted.predict(right), fitted.predict(cure))


@pytest.mark.parametrize("name", [name for name in TABLES if name != "missing labels"])
def test_one_sequence(name):
    X, y = (part[:1] for part in TABLES[name])
    model = HighOrderCRF(max_iter=2)
    for cure in advised(refusal(model.fit, X, y), X=X):
        model.fit(cure, y)
    flat, labels = X[0], list(TABLES[name][1][0])
    for given in labels, [labels]:
        error = refusal(model.fit, flat, given)
        numbers, codes, *_ = advised(error, X=flat)
        model.fit(numbers, [labels])
        assert len(model.predict(numbers)[0]) == 3
        model.fit(codes, [labels])
    table = HighOrderCRF(max_iter=2).fit(NUMBERS, [0, 1, 1, 0])
    *_, row = advised(refusal(table.predict, flat), X=flat)
    assert len(table.predict(row)) == 1
    rows = HighOrderCRF(max_iter=2).fit([NUMBERS], [[0, 1, 1, 0]])
    *_, token, _ = advised(refusal(rows.predict, flat), X=flat)
    assert len(rows.predict(token)[0]) == 1


METHODS = ("predict", "predict_marginals", "predict_segments", "predict_nbest")


@pytest.mark.parametrize("method", METHODS)
def test_predictions(method):
    one = HighOrderCRF(max_iter=2).fit(NUMBERS[:, :, None], LABELS)
    for X in NUMBERS, list(NUMBERS), NUMBERS[:1], [NUMBERS[0]], NUMBERS.astype(int), NUMBERS[0]:
        answers = [getattr(one, method)(cure) for cure in advised(refusal(getattr(one, method), X), X=X)[:1]]
        assert len(answers[0]) == (1 if np.ndim(X) == 1 else len(X))
    three = HighOrderCRF(max_iter=2).fit([NUMBERS], [[0, 1, 1, 0]])
    (cure,) = advised(refusal(getattr(three, method), NUMBERS), X=NUMBERS)  # it is one sequence
    assert len(getattr(three, method)(cure)) == 1
    error = refusal(getattr(three, method), NUMBERS[:, :2])
    assert "X has 2 features, but HighOrderCRF is expecting 3" in str(error)
    assert not advised(error)
    names = HighOrderCRF(max_iter=2).fit([[["a"], ["b"]]], [[0, 1]])
    for X in NUMBERS, [NUMBERS], NUMBERS[:, :, None]:
        assert "fitted on attribute names: prepare X as for fit" in str(refusal(getattr(names, method), X))


def test_labels_in_other_forms():
    model = HighOrderCRF(max_iter=2)
    wrapped = advised(refusal(model.fit, NUMBERS, [[0, 1, 1, 0]]), X=NUMBERS)  # X is one sequence of rows
    model.fit(*wrapped, [[0, 1, 1, 0]])
    column = [[0], [1], [1], [0]]
    model.fit(NUMBERS, *advised(refusal(model.fit, NUMBERS, column), y=column))
    halves = [NUMBERS[:2, :, None], NUMBERS[2:, :, None]], [LABELS[:2], LABELS[2:]]
    for X, y in ([NUMBERS[:, :, None]], [LABELS]), halves:
        (cure,) = advised(refusal(model.fit, X, y), X=X)
        (labels,) = advised(refusal(model.fit, X, y), X=y)
        model.fit(cure, labels)


def test_segments_of_plain_numbers():
    model = HighOrderSemiCRF(scheme="segments", max_iter=2)
    for cure in advised(refusal(model.fit, NUMBERS, SEGMENTS), X=NUMBERS):
        model.fit(cure, SEGMENTS)


def test_stacked_models():
    model = StackedSequenceLabeler(GaussianNB(), cv=2)
    cure, _ = advised(refusal(model.fit, NUMBERS, LABELS), X=NUMBERS)
    model.fit(cure, LABELS)
