"""Queries for one sequence at a time: the bits of a batch, without repeated preparation of the model."""

import copy
import sys
from functools import partial
from operator import methodcaller

import numpy as np
import pytest
from cases import peak_of

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")

RNG = np.random.default_rng(0)
WORDS = [f"{RNG.choice(['a', 'B', 'é', '文', 'x-1'])}{number}" for number in RNG.integers(0, 30, 200)]
X = [
    [(str(RNG.choice(WORDS)), str(RNG.choice(["N", "V"]))) for _ in range(length)] for length in (*range(1, 13), 40, 90)
]
Y = [["OBI"[int(word[-1]) % 3] + "-P" if int(word[-1]) % 3 else "O" for word, _ in sequence] for sequence in X]
Y = [[label.replace("I-", "B-") if t == 0 or y[t - 1] == "O" else label for t, label in enumerate(y)] for y in Y]

MODELS = {
    "chain": HighOrderCRF(2, max_iter=5),
    "features of pairs": HighOrderCRF(1, feature_order=1, max_iter=5),
    "constraints": HighOrderCRF(2, constraints="bio", max_iter=5),
    "parts": HighOrderCRF(1, label_parts=methodcaller("split", "-"), max_iter=5),
    "pruning": HighOrderCRF(1, pruning=2, max_iter=5),
    "segments": HighOrderSemiCRF(2, scheme="bio", max_iter=5),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    steps = [SequenceFeatureExtractor()]
    if request.param == "segments":
        steps.append(SegmentFeatureExtractor(begin=True, length="capped", scheme="bio"))
    return make_pipeline(*steps, copy.deepcopy(MODELS[request.param])).fit(X, Y)


@pytest.mark.parametrize("ask", ["predict", "predict_marginals", "predict_segments", "entropy", "predict_nbest"])
def test_a_sequence_alone_has_the_bits_of_a_batch(model, ask):
    answers = getattr(model, ask)(X)
    for sequence, together in zip(X, answers, strict=True):
        (alone,) = getattr(model, ask)([sequence])
        if ask in ("predict_marginals", "entropy"):
            np.testing.assert_array_equal(alone, together)
        else:
            assert str(alone) == str(together)


def test_segments_with_probabilities_alone_have_the_bits_of_a_batch(model):
    answers = model.predict_segments(X, with_probability=True)
    assert any(map(len, answers))
    for sequence, together in zip(X, answers, strict=True):
        (alone,) = model.predict_segments([sequence], with_probability=True)
        assert alone.tolist() == together.tolist()


# --------------------------------------------------------------------------------------------------- what a model keeps


def calls_of(function):
    """Return how many functions, of Python and of C, are called inside of scikit-learn, and how many elsewhere."""
    n_calls = {True: 0, False: 0}

    def count(frame, event, argument):
        if event in ("call", "c_call"):
            n_calls[frame.f_globals.get("__name__", "").startswith("sklearn.")] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return n_calls[True], n_calls[False]


QUESTIONS = {
    "predict": (HighOrderCRF(1, max_iter=3), {}, 900),
    "predict_marginals": (HighOrderCRF(1, max_iter=3), {}, 900),
    "predict_segments": (HighOrderCRF(1, max_iter=3), {"with_probability": True}, 1200),
    "predict_nbest": (HighOrderCRF(1, max_iter=3), {}, 1100),
    "predict of segments": (HighOrderSemiCRF(2, max_iter=3), {}, 1100),
    "predict_marginals of segments": (HighOrderSemiCRF(2, max_iter=3), {}, 1150),
    "predict_segments of segments": (HighOrderSemiCRF(2, max_iter=3), {"with_probability": True}, 1400),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_work_grows_with_the_number_of_weights(question):
    """Calls are counted, and the memory that they take; what goes through all weights must not be called."""
    estimator, options, most_calls = QUESTIONS[question]
    counts, peaks = {}, {}
    for n_words in (50, 5000):
        many = [[f"w{number:04d}" for number in row] for row in RNG.integers(0, n_words, (n_words // 5, 10))]
        many[0] = [f"w{number:04d}" for number in range(10)]
        labels = [list("AABCCABBCA")] * len(many)  # of the same patterns and lengths
        crf = make_pipeline(SequenceFeatureExtractor(), copy.deepcopy(estimator)).fit(many, labels)
        ask = partial(getattr(crf, question.split()[0]), many[:1], **options)
        ask()
        layout = crf[-1]._state.layout
        layout.dense_table = layout.coef = layout.bias_of_pattern = layout.with_columns = None  # not to be called
        counts[n_words], peaks[n_words] = calls_of(ask), peak_of(ask)
    assert abs(sum(counts[5000]) - sum(counts[50])) <= 40  # segments are as many as are predicted
    assert counts[50][1] < most_calls  # scikit-learn 1.9 makes 110 more inside, 1.6 makes 420
    assert abs(peaks[5000] - peaks[50]) < layout.n_features  # not even a byte for each feature
