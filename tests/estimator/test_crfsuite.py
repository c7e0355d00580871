"""Imported CRFsuite models: the same labels and probabilities as in CRFsuite, for each of its algorithms."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals, refusals_of_files
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.inspection import weights_table
from sklearn_hocrf.model_selection import ConformalSequenceLabeler, PenaltySearchCV

ALGORITHMS = ["lbfgs", "l2sgd", "ap", "pa", "arow"]
NAMES = [
    "a",
    "é",
    "x:y",
    "back\\slash",
    "\\:",
    "line\nend",
    " --> ",
    "}",
    "",
    " space ",
    "日本",
    "😀",
    "0: a",
    "(0) a --> b: 1",
]
LABELS = ["B-X", "I-X", "ünïcode", "O O", "l\n}", "a --> b"]


def draw_token(rng):
    """Return a token in one of the forms of python-crfsuite, or without any attribute."""
    if rng.random() < 0.2:
        return rng.choice([{}, []])
    if rng.random() < 0.4:
        return [rng.choice(NAMES) for _ in range(rng.randint(1, 4))]  # some twice
    values = {
        "word": rng.choice(NAMES),
        "length": rng.choice([0, 1, -2, 0.1, 3.75, 1e-3, 40.0]),
        "title": rng.random() < 0.5,
        "é:": rng.gauss(0, 1),
        "next": {"word": rng.choice(NAMES), "\\": {"deep": rng.random(), "flag": True}},
        "set": set(rng.sample(NAMES, 2)),
        "list": rng.choices(NAMES, k=3),
        "number": np.float64(rng.gauss(0, 1)),
        "whole": np.int64(rng.randrange(5)),
    }
    return {key: value for key, value in values.items() if rng.random() < 0.6}


def draw_names(rng):
    """Return a token of names alone."""
    return rng.sample(NAMES, rng.randint(0, 4))


def draw(seed, n_sequences=12, labels=LABELS, draw_token=draw_token):
    rng = random.Random(seed)
    X = [[draw_token(rng) for _ in range(rng.randint(1, 7))] for _ in range(n_sequences)]
    return X, [[rng.choice(labels) for _ in tokens] for tokens in X]


def train(path, X, y, algorithm="lbfgs", **params):
    """Train CRFsuite; return an open tagger of the model, which is at the path."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(tokens), labels)
    trainer.set_params({"max_iterations": 20, **params})
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def their_answers(tagger, X, classes):
    """Return the tagger's best labellings, their probabilities, and the marginals."""
    import pycrfsuite

    tags, probabilities, marginals = [], [], []
    for tokens in X:
        tags.append(tagger.tag(pycrfsuite.ItemSequence(tokens)))
        probabilities.append(tagger.probability(tags[-1]))
        marginals.append([[tagger.marginal(label, t) for label in classes] for t in range(len(tokens))])
    return tags, probabilities, marginals


def same_answers(crf, tagger, X, atol=1e-9):
    """Compare a model with a tagger. Of labellings that tie, each may choose another one.

    Return the number of sequences that do not tie, and whose exponentials have not overflown in CRFsuite.
    """
    tags, probabilities, marginals = their_answers(tagger, X, crf.classes_)
    best = crf.predict(X)
    n_compared = 0
    nearest = crf.predict_nbest(X, 2)
    ours = zip(crf.predict_marginals(X), np.exp(crf.log_likelihood(X, best)), nearest, strict=True)
    for n, (marginal, probability, (first, *second)) in enumerate(ours):
        assert best[n] == first.labels
        if np.isfinite(probabilities[n]) and np.isfinite(marginals[n]).all():  # CRFsuite's exponentials overflow
            np.testing.assert_allclose(marginal, marginals[n], rtol=0, atol=atol)
            assert probability == pytest.approx(probabilities[n], rel=1e-6, abs=atol)
        if not second or first.log_probability - second[0].log_probability > 10 * atol:
            assert best[n] == tags[n]
            n_compared += np.isfinite(marginals[n]).all()
    return n_compared


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_tags_and_marginals_of_each_algorithm(tmp_path, algorithm, seed):
    X, y = draw(seed)
    tagger = train(tmp_path / "model", X, y, algorithm)
    crf = HighOrderCRF.from_crfsuite(tmp_path / "model")
    assert same_answers(crf, tagger, X + draw(seed + 100)[0])
    assert crf.classes_.tolist() == sorted(tagger.labels())


@pytest.mark.filterwarnings("ignore:none of the")
@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("lbfgs", {"feature.possible_states": True}),
        ("lbfgs", {"feature.possible_transitions": True}),
        ("lbfgs", {"feature.minfreq": 3}),
        ("lbfgs", {"c1": 0.5, "c2": 0.0}),
        ("lbfgs", {"c1": 1e4}),  # nothing is left
        ("ap", {"feature.possible_states": True, "feature.possible_transitions": True}),
        ("l2sgd", {"feature.minfreq": 2, "feature.possible_transitions": True}),
    ],
)
def test_settings_of_features(tmp_path, algorithm, params):
    X, y = draw(2)
    tagger = train(tmp_path / "model", X, y, algorithm, **params)
    if params.get("c1") == 1e4:
        crf = HighOrderCRF.from_crfsuite(tmp_path / "model")
        assert crf.coef_.nnz == 0
        np.testing.assert_allclose(crf.predict_marginals(X)[0], 1 / len(crf.classes_))
    else:
        assert same_answers(HighOrderCRF.from_crfsuite(tmp_path / "model"), tagger, X + draw(3)[0])


@pytest.mark.parametrize("X", [[[{}, {}], [[]]], [[["a"]], [["b"]]]], ids=["no attributes", "no transitions"])
def test_models_that_lack_something(tmp_path, X):
    y = [["p", "q"][: len(tokens)] for tokens in X]
    y[-1] = ["q"]
    tagger = train(tmp_path / "model", X, y)
    assert same_answers(HighOrderCRF.from_crfsuite(tmp_path / "model"), tagger, [*X, [[], []]])


def test_weights_are_exact(tmp_path):
    """A large value multiplies whatever is lost."""
    rng = random.Random(4)
    X = [[{"length": rng.random(), "é:": rng.gauss(0, 1), "number": rng.random()}] * 3 for _ in range(9)]
    y = [rng.choices("AB", k=3) for _ in X]
    tagger = train(tmp_path / "model", X, y)
    new = [[{"length": 400.0, "é:": -300.0}, {"number": 100.0}], [{"é:": 10.0}]]
    crf = HighOrderCRF.from_crfsuite(tmp_path / "model")
    assert same_answers(crf, tagger, new)


VALUES = st.recursive(
    st.one_of(st.text("ab:\\é", max_size=3), st.booleans(), st.floats(-4, 4), st.integers(-3, 3)),
    lambda inner: st.one_of(
        st.dictionaries(st.text("kl:", max_size=2), inner, max_size=2),
        st.lists(st.text("xy", max_size=2), max_size=3),
        st.sets(st.text("xy", max_size=2), max_size=3),
    ),
    max_leaves=4,
)
TOKENS = st.one_of(
    st.dictionaries(st.text("ij:", max_size=2), VALUES, max_size=3), st.lists(st.text("xy:", max_size=2))
)


@given(st.lists(TOKENS, min_size=1, max_size=4), st.sampled_from(ALGORITHMS))
@pytest.mark.filterwarnings("ignore:none of the")
def test_tokens_are_read_as_python_crfsuite_reads_them(tmp_path_factory, tokens, algorithm):
    path = tmp_path_factory.mktemp("drawn") / "model"
    X, y = [tokens, [["x"], {"i": 2.5}]], [(["A", "B"] * 2)[: len(tokens)], ["B", "A"]]
    tagger = train(path, X, y, algorithm, max_iterations=5)
    same_answers(HighOrderCRF.from_crfsuite(path), tagger, X)


# ----------------------------------------------------------------------------------------- what else a fitted model can


def test_known_labels_and_other_methods(tmp_path):
    train(tmp_path / "model", *draw(5, 20, labels=["B-T", "I-T", "B-N", "O"]))
    crf, X = HighOrderCRF.from_crfsuite(tmp_path / "model"), [tokens for tokens in draw(6)[0] if 2 < len(tokens) < 6]
    known = [["O", *[None] * (len(tokens) - 2), {"O", "B-T"}] for tokens in X]
    for labels in crf.predict(X, known=known):
        assert labels[0] == "O"
        assert labels[-1] in {"O", "B-T"}
    entropies = crf.entropy(X)
    assert (entropies > 0).all()
    assert len(crf.sample(X, 2, random_state=0)[0]) == 2
    assert len(crf.predict_segments(X)) == len(crf.predict_segments(X, threshold=0.1)) == len(X)
    with pytest.warns(UserWarning, match="none of the"):
        crf.predict([[["never seen"]]])


# ------------------------------------------------------------------------------------------------------- training again


def peer(**params):
    sklearn_crfsuite = pytest.importorskip("sklearn_crfsuite", reason="sklearn-crfsuite is not installed")
    exact = {} if "algorithm" in params else {"epsilon": 1e-9, "delta": 1e-13}
    return sklearn_crfsuite.CRF(max_iterations=3000, **exact, **params)


def of_peer(theirs, **params):
    """Return the model of an estimator of sklearn-crfsuite, with parameters."""
    return HighOrderCRF.from_crfsuite(theirs.modelfile.name).set_params(**params)


def named_here(c1=0.0, c2=1.0, min_freq=1, all_possible_states=False, all_possible_transitions=False):
    """Return our parameters for theirs."""
    penalty = {"sigma_reg": (2 * c2) ** -0.5 if c2 else np.inf, "l1_reg": c1}
    patterns = "all" if all_possible_transitions else "observed"
    return {**penalty, "min_count": min_freq, "all_pairs": all_possible_states, "patterns": patterns}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"c2": 0.1},
        {"c1": 0.5, "c2": 0.05},
        {"c1": 0.5, "c2": 0.0},
        {"min_freq": 3},
        {"all_possible_transitions": True},
        {"all_possible_states": True, "all_possible_transitions": True},
    ],
    ids=str,
)
def test_same_training(params):
    """The table's rows on the penalty and on features: from zero, training ends where CRFsuite's does."""
    X, y = draw(7, 15, draw_token=draw_names)
    theirs = peer(**params).fit(X, y)
    crf = of_peer(theirs, **named_here(**params))
    assert same_answers(crf, theirs.tagger_, X)
    again = clone(crf).set_params(tol=1e-6, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(
        np.concatenate(again.predict_marginals(X)), np.concatenate(crf.predict_marginals(X)), rtol=0, atol=2e-4
    )
    assert again.objective_history_[-1] == pytest.approx(theirs.training_log_.last_iteration["loss"], rel=1e-6)
    warm = crf.set_params(warm_start=True, tol=1e-3).fit(X, y)
    assert warm.n_iter_ <= 2
    assert warm.objective_history_[0] == pytest.approx(again.objective_history_[-1], rel=1e-6)


@given(st.data())
def test_the_optimum_with_numbers(tmp_path_factory, data):
    """The table's rows on entries of dicts that are 0 or negative; other numbers make no difference."""
    kind = data.draw(st.sampled_from(["positive", "zero", "negative"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))

    def number():
        return {"positive": rng.exponential(), "zero": float(rng.integers(3)), "negative": rng.normal()}[kind]

    X = [[{"v": number(), "w": str(rng.integers(3))} for _ in range(6)] for _ in range(20)]
    X[0][0]["u"] = {"positive": 1.0, "zero": 0.0, "negative": -1.0}[kind]  # the pair is lost, or of weight for theirs
    y = [["A" if token["v"] + rng.normal() / 2 > 0.5 else "B" for token in tokens] for tokens in X]
    path = tmp_path_factory.getbasetemp() / "model"

    def theirs(X, **params):
        exact = {"c2": 0.1, "epsilon": 1e-9, "delta": 1e-13, "max_iterations": 3000}
        train(path, X, y, **exact, **params)
        return -HighOrderCRF.from_crfsuite(path).log_likelihood(X, y).sum() + 0.1 * squares(path)

    def ours(X, **options):
        crf = HighOrderCRF(1, sigma_reg=0.2**-0.5, fit_intercept=False, tol=1e-6, max_iter=3000, **options)
        return crf.fit(X, y).objective_history_[-1]

    def squares(path):
        crf = HighOrderCRF.from_crfsuite(path)
        return (crf.coef_.data**2).sum() + (crf.pattern_coef_**2).sum()

    without = [[{name: value for name, value in token.items() if value} for token in tokens] for tokens in X]
    same = pytest.approx(ours(X), rel=1e-5)
    if kind == "negative":
        assert theirs(X) > ours(X) * (1 + 1e-5)
        assert theirs(X, **{"feature.minfreq": -1e9}) == same
    else:
        assert theirs(without) == same
        states = {"feature.possible_states": True}
        assert theirs(X, **states) == pytest.approx(ours(X, all_pairs=True), rel=1e-5)


def test_the_penalty_of_l2sgd():
    X, y = draw(7, 60, draw_token=draw_names)  # of half as many, its calibration leaves the weights near 0
    theirs = of_peer(peer(algorithm="l2sgd", c2=2.0, period=100, delta=1e-7).fit(X, y), **named_here(c2=2.0))
    ours = clone(theirs).fit(X, y)
    others = clone(ours).set_params(sigma_reg=1.0).fit(X, y)
    distances = [
        np.abs(np.concatenate(m.predict_marginals(X)) - np.concatenate(theirs.predict_marginals(X))).max()
        for m in (ours, others)
    ]
    assert distances[0] < 0.005 < 0.05 < distances[1]


def test_partial_fit_goes_on():
    X, y = draw(8, 15)
    crf = of_peer(peer(algorithm="l2sgd", c2=0.1).fit(X, y), solver="sgd", random_state=0, **named_here(c2=0.1))
    before = np.sum(crf.log_likelihood(X, y))
    crf.partial_fit(X, y)
    assert abs(np.sum(crf.log_likelihood(X, y)) - before) < 0.2 * abs(before)
    crf.partial_fit([[["new attribute"], ["w:a"]]], [[LABELS[0], LABELS[1]]])
    assert "new attribute" in crf.feature_names_in_


def test_frequencies_of_crfsuite_are_sums_of_values(tmp_path):
    X = [[{"negative": -1.0, "one": 1.0, "zero": 0.0}, {"half": 0.5, "negative": -2.0}]] * 2
    found = []
    for least in 0, 2:
        train(tmp_path / "model", X, [["A", "B"]] * 2, **{"feature.minfreq": least})
        found.append(HighOrderCRF.from_crfsuite(tmp_path / "model").feature_names_in_.tolist())
    assert found == [["half", "one"], ["one"]]


def test_rows_of_the_table_on_answers():
    X = [[{"w": name, "n": 2.0} for name in "abcabd"[n % 3 :]] for n in range(8)]
    y = [[LABELS[(n + t) % 4] for t in range(len(tokens))] for n, tokens in enumerate(X)]
    theirs = peer().fit(X, y)
    crf = of_peer(theirs)
    ours = [dict(zip(crf.classes_, row, strict=True)) for row in crf.predict_marginals(X[:1])[0]]
    for row, expected in zip(ours, theirs.predict_marginals_single(X[0]), strict=True):
        assert row == pytest.approx(expected, abs=1e-9)
    runs = {run: weight for run, weight in zip(crf.patterns_, crf.pattern_coef_, strict=True) if len(run) == 2}
    assert runs == pytest.approx(theirs.transition_features_, abs=1e-6)
    listed = {row.pattern: row.weight for row in weights_table(crf, order=1, top=None)}
    assert listed == pytest.approx(theirs.transition_features_, abs=1e-6)
    states = weights_table(crf, order=0, feature=True, top=None)
    assert {(row.feature, *row.pattern): row.weight for row in states} == pytest.approx(
        theirs.state_features_, abs=1e-6
    )
    table = crf.coef_.tocoo()
    pairs = zip(table.coords[1], table.coords[0], table.data, strict=True)
    ours = {(crf.feature_names_in_[f], crf.classes_[z]): weight for f, z, weight in pairs}
    assert ours == pytest.approx(theirs.state_features_, abs=1e-6)
    assert crf.predict(X) == [list(tags) for tags in theirs.predict(X)]


def test_only_the_class_makes_models():
    crf = HighOrderCRF().fit([[["a"], ["b"]], [["b"], ["a"]]], [["x", "y"], ["y", "x"]])
    for around in make_pipeline(crf), PenaltySearchCV(crf), ConformalSequenceLabeler(crf):
        assert hasattr(around, "predict_nbest")
        assert not hasattr(around, "from_crfsuite")


# ------------------------------------------------------------------------------------------------------------- refusals


def test_one_label(tmp_path):
    train(tmp_path / "model", [[["a"]]], [["A"]])
    with pytest.raises(ValueError, match="1 labels, but at least two are required"):
        HighOrderCRF.from_crfsuite(tmp_path / "model")


def test_the_scheme_of_names(tmp_path):
    train(tmp_path / "model", [[["a"], [b"caf\xe9"]]], [["A", "B"]])
    with pytest.raises(ValueError, match="not text in utf-8.*specify its encoding"):
        HighOrderCRF.from_crfsuite(tmp_path / "model")
    assert "café" in HighOrderCRF.from_crfsuite(tmp_path / "model", encoding="latin-1").feature_names_in_


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("crfsuite") / "model"
    train(path, *draw(10, 4))
    return path.read_bytes()


def test_every_cut_of_a_file_is_refused(tmp_path, content):
    path = tmp_path / "model"
    for length in {*range(0, 60), *range(60, len(content), 97), len(content) - 1}:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="model is not a CRFsuite model, or is damaged"):
            HighOrderCRF.from_crfsuite(path)


def test_damaged_files_give_a_model_or_a_value_error(tmp_path, content):
    """CRFsuite's own reader ends the process at most of these."""
    path, rng, messages = tmp_path / "model", random.Random(0), []
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 3, 30])):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 127, 128, 255])
        path.write_bytes(damaged)
        try:
            HighOrderCRF.from_crfsuite(path).predict([[["a"], ["b"]]])
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert max(map(len, messages)) < 400 + len(str(path))


def test_overlapping_names_do_not_fill_the_memory(tmp_path, content):
    """The records of all attributes become as long as the file allows; each still has its number."""
    damaged = bytearray(content) + bytes(10_000)
    start, count = struct.unpack_from("<I", content, 36)[0], struct.unpack_from("<I", content, 24)[0]
    places = start + struct.unpack_from("<I", content, start + 20)[0]
    for number in range(count):
        record = start + struct.unpack_from("<I", content, places + 4 * number)[0]
        struct.pack_into("<I", damaged, record + 4, len(damaged) - record - 8)
    (tmp_path / "model").write_bytes(damaged)
    with pytest.raises(ValueError, match="names of attributes overlap"):
        HighOrderCRF.from_crfsuite(tmp_path / "model", encoding="latin-1")


@pytest.mark.parametrize(
    ("place", "number", "message"),
    [
        (0, b"lXRF", "begins with"),
        (12, struct.pack("<I", 101), "version 101"),
        (20, struct.pack("<I", 10**9), "not have 1000000000 names of labels"),
        (28, struct.pack("<I", 2**32 - 1), "would end after"),
        (48, b"XXXX", "the features begin with"),
        (60, struct.pack("<I", 7), "unknown kind"),
        (64, struct.pack("<I", 10**6), "features are not of the"),
        (72, struct.pack("<d", np.nan), "not finite"),
    ],
)
def test_messages_of_damaged_files(tmp_path, content, place, number, message):
    (tmp_path / "model").write_bytes(content[:place] + number + content[place + len(number) :])
    with pytest.raises(ValueError, match=message):
        HighOrderCRF.from_crfsuite(tmp_path / "model")


test_refusals = refusals(
    (lambda: HighOrderCRF.from_crfsuite(peer()), (TypeError, "of a sklearn_crfsuite.CRF it is crf.modelfile.name")),
    (HighOrderCRF.from_crfsuite, (TypeError, "path of a model file", None, 3, b"bytes", HighOrderCRF())),
)  # fmt: skip

test_refusals_of_files = refusals_of_files(
    (lambda tmp_path: HighOrderCRF.from_crfsuite(tmp_path / "absent"), (FileNotFoundError, ".")),
)  # fmt: skip
