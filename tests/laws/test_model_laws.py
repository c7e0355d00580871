"""Laws for models of every kind: each test runs for each kind of ``registry.KINDS``."""

import copy
import pickle
import random
from functools import cache

import joblib
import numpy as np
import pytest
import registry
import skops.io
from internals import FittedModel, LocalFeatureMatching, NegativeLogLikelihood
from registry import GROUPS, KINDS, NEW, STREAM, asked, fitted, labellings, problem_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sklearn_hocrf import TRUSTED_TYPES, HighOrderCRF
from sklearn_hocrf.model_selection import PenaltySearchCV

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:no feature name")


SLOW = {"groups of l1", "dense parts", "history of groups", "bilou", "segment groups"}  # each like two other kinds
TRAINED_ALIKE = {name for name in KINDS if "log space" in name} | {"order 0", "high order", "bioes"}  # as another kind


WIDE = "segment log space", "unlimited in log space"  # their entropies need kernels that take 8 s to compile


def kinds(*without, is_central=False, slow=()):
    """Parametrise a law by the kinds that are made for all of it.

    The fast tests try a central law with all kinds, and any other law with a random half of the kinds, which depends
    on the name of the law. They never use the kinds in ``SLOW`` and ``slow``.
    """

    def decorate(law):
        left_out = TRAINED_ALIKE if "training" in without else ()
        names = [name for name, kind in KINDS.items() if name not in left_out and not {*without} & {*kind.without}]
        half = random.Random(law.__name__).sample(names, len(names) // 2)
        fast = {*(names if is_central else half)} - {*SLOW, *slow}
        rows = [pytest.param(name, marks=[pytest.mark.slow] * (name not in fast)) for name in names]
        return pytest.mark.parametrize("name", rows)(law)

    return decorate


def close(found, expected, atol):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=atol)


# --- answers, by enumeration ----------------------------------------------------------------------------------------


@kinds(is_central=True, slow=WIDE)
def test_answers_are_those_of_all_labellings(name):
    """Scores by the fitted weights and the definitions of features, in plain Python, make every answer."""
    assert_answers(asked(name), [labellings(name, number) for number in range(len(NEW))])


def assert_answers(crf, sequences):
    """Compare all answers about some sequences with those that their labellings give."""
    X, patterns = sequences[0].kind.X([every.words for every in sequences]), registry.some_patterns(crf)
    found = [crf.predict(X), crf.predict_marginals(X), crf.predict_proba(X), crf.pattern_marginals(X, patterns)]
    found += [crf.entropy(X), crf.entropy(X, level="token"), crf.predict_nbest(X, 7), crf.sample(X, 30, random_state=0)]
    for every, labels, marginals, same, ends, entropy, of_tokens, candidates, drawn in zip(
        sequences, *found, strict=True
    ):
        p, slack, some = np.exp(every.log_p), every.tolerance, range(0, len(every.y), 1 + len(every.y) // 100)
        close(crf.log_likelihood(every.X(len(some)), [every.y[i] for i in some]), every.log_p[some], 100 * slack)
        assert every.scores[every.y.index(labels)] >= every.scores.max() - slack
        close(marginals, every.token_table(p), 10 * slack)
        close(marginals.sum(axis=1), 1.0, 1e-12)
        np.testing.assert_array_equal(same, marginals)
        close(ends, every.pattern_table(patterns, p), 10 * slack)
        close(entropy, -sum(p[p > 0] * every.log_p[p > 0]), 100 * slack)
        close(of_tokens, -(marginals * np.log(np.maximum(marginals, 1e-300))).sum(axis=1), 100 * slack)
        close([one.log_probability for one in candidates], np.sort(every.log_p)[::-1][:7], 100 * slack)
        ranked = [every.y.index(one.labels) for one in candidates]
        assert len(set(ranked)) == len(ranked)
        close(every.log_p[ranked], [one.log_probability for one in candidates], 100 * slack)
        assert all(every.log_p[every.y.index(labels)] > -700 for labels in drawn)
    assert [table.shape for table in crf.pattern_marginals(X, [])] == [(len(every.words), 0) for every in sequences]
    if not isinstance(crf, HighOrderCRF):
        assert_segments(crf, X, sequences)


def assert_segments(crf, X, sequences):
    outside = () if crf.scheme in ("runs", "segments") else ("O",)
    found = [crf.predict(X), crf.predict_segments(X), crf.predict_segments(X, with_probability=True)]
    found += [crf.predict_segments(X, threshold=threshold) for threshold in (0, 0.1)]
    for every, labels, predicted, with_probability, table, probable in zip(sequences, *found, strict=True):
        of_segments, slack = every.segment_table(np.exp(every.log_p)), 10 * every.tolerance
        listed = {row[:3]: row[3] for row in table.tolist()}
        assert {one for one, q in of_segments.items() if q > 1e-9} <= listed.keys() <= of_segments.keys()
        close([*listed.values()], [of_segments[one] for one in listed], slack)
        np.testing.assert_array_equal(probable, table[table["probability"] >= 0.1])
        assert predicted == [s for s in every.segments[every.y.index(labels)] if s[2] not in outside]
        assert with_probability[["start", "stop", "label"]].tolist() == predicted
        close(with_probability["probability"], [of_segments[one] for one in predicted], slack)


@kinds("known", slow=WIDE)
def test_what_is_known_leaves_the_labellings_that_agree(name):
    crf, n = asked(name), 12
    n_inside = assert_known_labels(crf, [labellings(name, number) for number in (0, 3)], n)
    assert n_inside > 3 or KINDS[name].scale > 10
    X = labellings(name, 3).X(n)
    assert crf.predict(X, known=[None] * n) == crf.predict(X)
    close(crf.log_likelihood(X, [None] * n), 0.0, 0.0)


def assert_known_labels(crf, sequences, n=12):
    """Compare answers about sequences of which something is known; return how many are neither certain nor refuted."""
    rng, n_inside = np.random.default_rng(7), 0
    for every in sequences:
        drawn = [every.draw_known(rng) for _ in range(n)]
        X, known, slack = every.X(n), [entries for entries, _ in drawn], 10 * every.tolerance
        expected = np.array([np.logaddexp.reduce(every.log_p[agrees]) for _, agrees in drawn])
        close(crf.log_likelihood(X, known), expected, 10 * slack)
        n_inside += int(((expected < -1e-3) & (expected > -100)).sum())
        best, marginals = crf.predict(X, known=known), crf.predict_marginals(X, known=known)
        patterns, entropies = crf.patterns_[-2:], crf.entropy(X, known=known)
        ends = crf.pattern_marginals(X, patterns, known=known)
        probability = np.array([every.given(agrees) for _, agrees in drawn])
        for labels, (_, agrees) in zip(best, drawn, strict=True):
            chosen = every.y.index(labels)
            assert agrees[chosen]
            assert every.scores[chosen] >= every.scores[agrees].max() - slack
        close(marginals, every.token_table(probability), slack)
        close(ends, every.pattern_table(patterns, probability), slack)
        close(entropies, [-sum(p[p > 0] * np.log(p[p > 0])) for p in probability], 10 * slack)
        if not isinstance(crf, HighOrderCRF):
            of_segments = every.segment_table(probability)
            for i, table in enumerate(crf.predict_segments(X, threshold=0, known=known)):
                listed = {row[:3]: row[3] for row in table.tolist()}
                assert {one for one, q in of_segments.items() if q[i] > 1e-9} <= listed.keys()
                close([*listed.values()], [of_segments[one][i] if one in of_segments else 0.0 for one in listed], slack)
    return n_inside


@kinds()
def test_a_batch_equals_its_sequences_one_by_one(name):
    """In any order; ``test_one_sequence`` compares the bits."""
    crf, words = asked(name), [*NEW[:2], NEW[3], registry.WORDS[0]]
    alone = [answers(crf, KINDS[name].X([own])) for own in words]
    for order in [*range(4), *range(3, -1, -1)] * 3, range(3, -1, -1):  # a full block of lanes and a part; a part
        together = answers(crf, KINDS[name].X([words[n] for n in order]))
        for found, *expected in zip(together, *(alone[n] for n in order), strict=True):
            wanted = [answer[0] for answer in expected]
            if isinstance(wanted[0], list):
                assert found == wanted
            else:
                found, wanted = (np.concatenate([np.atleast_1d(part) for part in parts]) for parts in (found, wanted))
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def answers(crf, X):
    """Return what a model says about sequences: the best labellings, those after them, segments, and probabilities."""
    best = crf.predict(X)
    after = [[one.labels for one in candidates] for candidates in crf.predict_nbest(X, 2)]
    return best, after, crf.predict_segments(X), crf.predict_marginals(X), crf.log_likelihood(X, best)


def assert_same(found, expected):
    """Compare answers to the last bit."""
    for one, other in zip(found, expected, strict=True):
        assert [np.asarray(part, dtype=object).tolist() for part in one] == [
            np.asarray(part, dtype=object).tolist() for part in other
        ]


@kinds(slow=WIDE)
def test_empty_sequences_get_empty_answers(name):
    crf, kind = asked(name), KINDS[name]
    first, none = kind.X([NEW[0]]), [] if kind.reader != "table" else np.empty((0, 3))
    given = [first[0], none, []] if isinstance(first, list) else kind.X([NEW[0], [], []])
    classes, best = len(crf.classes_), crf.predict(first)[0]
    assert crf.predict(given) == [best, [], []]
    assert [table.shape for table in crf.predict_marginals(given)] == [(3, classes), (0, classes), (0, classes)]
    assert [table.shape for table in crf.pattern_marginals(given, crf.patterns_[-1:])] == [(3, 1), (0, 1), (0, 1)]
    np.testing.assert_array_equal(crf.log_likelihood(given, [best, [], []])[1:], 0.0)
    np.testing.assert_array_equal(crf.entropy(given)[1:], 0.0)
    assert crf.score(given, [best, [], []]) == 1.0
    assert [part[0][:2] for part in crf.predict_nbest(given, 2)[1:]] == [([], 0.0)] * 2
    assert crf.sample(given, 2, random_state=0)[1:] == [[[], []]] * 2
    if not isinstance(crf, HighOrderCRF):
        assert [len(table) for table in crf.predict_segments(given, threshold=0.5)][1:] == [0, 0]
        assert crf.predict_segments(given)[1:] == [[], []]
    for n in range(3):
        nothing = kind.X([[]] * n) if not isinstance(first, list) else [[]] * n
        assert crf.predict(nothing) == [[]] * n
        assert [table.shape for table in crf.predict_marginals(nothing)] == [(0, classes)] * n
        assert crf.log_likelihood(nothing, [[]] * n).shape == (n,)
        with pytest.raises(ValueError, match="no tokens"):
            crf.score(nothing, [[]] * n)


# --- the function that is minimised ---------------------------------------------------------------------------------


def objective_of(name, **changes):
    """Return the objective of a kind's training data; ``changes`` are words, y and sample_weight."""
    kind = KINDS[name] if isinstance(name, str) else name
    words, y = changes.get("words", kind.chosen(kind.words)), changes.get("y", kind.y())
    problem = problem_of(copy.deepcopy(kind.estimator), kind.X(words), y, changes.get("sample_weight"))
    criterion = NegativeLogLikelihood if "likelihood" not in kind.without else LocalFeatureMatching
    return criterion().bind(problem)


def some_weights(objective, scale=1.0):
    return scale * np.random.default_rng(1).normal(size=objective.problem.n_weights)


def weights_of_sequences(name):
    return np.random.default_rng(2).uniform(0.5, 2.0, len(KINDS[name].y()))


@cache
def weighted_objective(name):
    return objective_of(name, sample_weight=weights_of_sequences(name))


@kinds("likelihood")
def test_the_objective_is_the_log_likelihood(name):
    """Also of partial labels; what the log-likelihood is, enumeration has shown."""
    crf, weight = copy.deepcopy(fitted(name)), weights_of_sequences(name)
    problem = problem_of(crf, KINDS[name].X(), KINDS[name].y(), weight)
    objective = NegativeLogLikelihood().bind(problem)
    if problem.layout.n_weights != len(crf._state.weights):  # of weights that were 0 none is left
        return
    if crf.__dict__.get("pruning") is None:
        w = some_weights(objective, KINDS[name].scale)
        crf._state._replace(weights=w).set_on(crf)
        value = -weight @ crf.log_likelihood(KINDS[name].X(), KINDS[name].y())
        if not KINDS[name].partial:
            assert objective.value(w) == pytest.approx(value, rel=1e-11)
        assert objective.value_gradient(w)[0] == pytest.approx(value, rel=1e-11)


@kinds(is_central=True)
def test_gradients_are_those_of_central_differences(name):
    objective = weighted_objective(name)
    w, rng = some_weights(objective, 0.5), np.random.default_rng(3)
    before = w.copy()
    gradient = objective.value_gradient(w)[1]
    np.testing.assert_array_equal(w, before)
    units = np.eye(len(w))[rng.choice(len(w), min(8, len(w)), replace=False)]
    for direction in [*rng.normal(size=(4, len(w))), *units]:
        ends = [objective.value_gradient(w + step * direction)[0] for step in (1e-5, -1e-5)]
        assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-6)


@kinds("hessp")
def test_products_of_the_hessian_are_differences_of_gradients(name):
    objective = weighted_objective(name)
    w, direction = some_weights(objective, 0.5), np.random.default_rng(4).normal(size=objective.problem.n_weights)
    ends = [objective.value_gradient(w + step * direction)[1] for step in (1e-5, -1e-5)]
    close(objective.hessp(w, direction), (ends[0] - ends[1]) / 2e-5, 1e-5 * max(1.0, np.abs(ends).max()))


@kinds("parts")
def test_minibatches_and_parts_add_up(name):
    """Each sequence is in one minibatch, which reads no weight but those it names."""
    objective = weighted_objective(name)
    w = some_weights(objective, KINDS[name].scale)
    value, gradient = objective.value_gradient(w)
    for batch_size in () if "minibatches" in KINDS[name].without else (1, 3, 100):
        total, sums = 0.0, np.zeros(len(w))
        for part in objective.minibatches(batch_size, np.random.RandomState(0)):
            seen = np.full(len(w), np.nan)
            seen[part.weights] = w[part.weights]
            one, derivatives = part.value_gradient(seen)
            assert len(set(part.weights.tolist())) == len(part.weights)
            assert part.n_sequences <= batch_size
            total, sums[part.weights] = total + one, sums[part.weights] + derivatives
        assert total == pytest.approx(value, rel=1e-10)
        close(sums, gradient, 1e-9)
    halves = [objective.part(np.arange(start, objective.n_sequences, 2)) for start in (0, 1)]
    assert sum(half.value_gradient(w)[0] for half in halves) == pytest.approx(value, rel=1e-11)
    close(sum(half.value_gradient(w)[1] for half in halves), gradient, 1e-9)


@kinds("weights")
def test_weight_two_is_the_sequence_twice_and_weight_zero_its_absence(name):
    kind = KINDS[name]
    words, y = kind.chosen(registry.WORDS), kind.y()
    weight = np.array([2, 3, 0, 1, 1, 0, 2, 1, 1, 1])[: len(words)]
    strange = ["z"] * len(words[2])  # names that no other sequence has
    given = objective_of(name, words=[*words[:2], strange, *words[3:]], y=y, sample_weight=weight)
    chosen = np.repeat(np.arange(len(words)), weight)
    same = objective_of(name, words=[words[n] for n in chosen], y=[y[n] for n in chosen])
    w = some_weights(given)
    for one, other in zip(given.value_gradient(w), same.value_gradient(w), strict=True):
        close(one, other, 1e-9)


@cache
def optimum(name):
    return KINDS[name].fit(tol=1e-6, max_iter=3000)


@kinds()
def test_the_fit_ends_at_the_optimum_and_reports_it(name):
    """The penalty by the rules of its parameters; the distance from the optimum, by the shortest subgradient."""
    crf = optimum(name)
    w, has_gap, gap = assert_optimum(KINDS[name], crf)
    assert gap <= 1.01e-12 * crf.objective_history_[-1]
    assert crf.objective_history_[-1] < crf.objective_history_[0]
    assert has_gap == (not KINDS[name].partial and "likelihood" not in KINDS[name].without)
    assert (np.count_nonzero(w) < len(w)) == registry.has_l1(crf)


def assert_optimum(kind, crf):
    objective = objective_of(kind)
    w = registry.kept(crf)(objective.problem, registry.labels_of(crf))
    value, gradient = objective.value_gradient(w)
    names = getattr(crf, "feature_names_in_", np.arange(crf.n_features_in_)).tolist()
    precision = np.array(registry.values_of(crf.sigma_reg, objective.problem.layout, names)) ** -2.0
    strength = np.array(registry.values_of(crf.l1_reg, objective.problem.layout, names))
    value += precision @ w**2 / 2 + strength @ np.abs(w)
    assert crf.objective_history_[-1] == pytest.approx(value, rel=1e-9)
    assert len(crf.objective_history_) == crf.n_iter_ + 1
    assert crf.objective_history_[-1] <= crf.objective_history_[0]
    shortest = shortest_subgradient(w, gradient + precision * w, strength)
    gap = 0.5 * shortest @ (shortest / precision)
    way = 2.0 * np.linalg.norm(shortest) * max(1.0, np.linalg.norm(w))
    assert gap <= 1.01e-10 * value or (strength.any() and way <= 1.01e-5 * value)
    has_gap = bool(crf.optimality_gap_ < np.inf)
    assert not has_gap or crf.optimality_gap_ == pytest.approx(gap, rel=0.1, abs=1e-14)
    assert np.count_nonzero(w) == np.count_nonzero(crf._state.weights)
    return w, has_gap, gap


def shortest_subgradient(w, gradient, l1):
    """Return the subgradient of least norm of f(w) + sum(l1 * abs(w)) for the gradient of f."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(w != 0, gradient + l1 * np.sign(w), at_zero)


@kinds("weights")
def test_other_names_of_labels_give_the_same_answers(name):
    """P and Q change their names, and so their order."""
    kind, swap = KINDS[name], str.maketrans("PQ", "QP")
    crf = optimum(name)
    renamed = clone(kind.estimator).set_params(**registry.renamed(kind.estimator, swap), tol=1e-6, max_iter=3000)
    renamed.fit(kind.X(), registry.rename(kind.y(), swap))
    X = kind.X(NEW)
    assert registry.rename(renamed.predict(X), swap) == crf.predict(X)
    order = [renamed.classes_.tolist().index(registry.rename(label, swap)) for label in crf.classes_.tolist()]
    for one, other in zip(renamed.predict_marginals(X), crf.predict_marginals(X), strict=True):
        np.testing.assert_allclose(one[:, order], other, atol=1e-4)


# --- ways to train --------------------------------------------------------------------------------------------------


@cache
def answers_to_new(name):
    return answers(fitted(name), KINDS[name].X(NEW))


def assert_as_fitted(model, name):
    """Compare a model with that of its kind, to the last bit."""
    assert_same_attributes(model, fitted(name))
    assert_same(answers(model, KINDS[name].X(NEW)), answers_to_new(name))


def assert_same_model(one, other, X):
    """Compare all fitted attributes and some answers to the last bit."""
    assert_same_attributes(one, other)
    assert_same(answers(one, X), answers(other, X))


def assert_same_attributes(one, other):
    for name in ("coef_", "part_coef_", "pattern_coef_", "token_intercept_", "objective_history_", "classes_"):
        ours, theirs = (getattr(model, name, None) for model in (one, other))
        np.testing.assert_array_equal(*(part.toarray() if hasattr(part, "tocsr") else part for part in (ours, theirs)))
    for name in ("patterns_", "n_iter_", "optimality_gap_", "n_features_in_", "segment_length_", "pruning_recall_"):
        assert getattr(one, name, None) == getattr(other, name, None)


@kinds("training")
def test_any_number_of_threads_gives_the_same_bits(name, many_chunks):
    kind, found = KINDS[name], []
    words, y, X = kind.chosen(registry.WORDS) * 5, kind.y() * 5, kind.X(NEW[1:3] * 9)  # some blocks of sequences
    one, other = (clone(kind.estimator).set_params(n_jobs=n, max_iter=2).fit(kind.X(words), y) for n in (1, 3))
    assert_same_attributes(one, other)
    crf = copy.deepcopy(asked(name))
    assert len(FittedModel(crf).query(X)[0].plan.chunks) > 1
    for n_jobs in (1, 2):
        crf.set_params(n_jobs=n_jobs)
        found.append((crf.sample(X, 3, random_state=0), crf.entropy(X).tolist(), str(answers(crf, X))))
    assert found[0] == found[1]
    assert kind.scale > 10 or crf.sample(X, 3, random_state=1) != found[0][0]


def through_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib", mmap_mode="r")


COPIES = {
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "copy": lambda model, _: copy.copy(model),
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "skops": lambda model, _: skops.io.loads(skops.io.dumps(model), trusted=[*TRUSTED_TYPES, "registry.parts_of"]),
    "joblib": through_joblib,
}


@kinds("training")
def test_copies_are_the_model(name, tmp_path):
    """Also copies of copies: each would lack what one before it has lost."""
    twin = fitted(name)
    for copied in COPIES.values():
        twin = copied(twin, tmp_path)
        assert vars(twin).keys() == vars(fitted(name)).keys()
        assert repr(twin) == repr(fitted(name))
        assert_same_attributes(twin, fitted(name))
    assert_as_fitted(twin, name)


@kinds("training")
def test_fits_leave_parameters_and_data_alone_and_forget_earlier_ones(name):
    kind = KINDS[name]
    crf, X, y = copy.deepcopy(kind.estimator), kind.X(), kind.y()
    before = pickle.dumps((X, y, crf.get_params()))
    assert crf.set_params(max_iter=1).fit(X[:3] if isinstance(X, list) else X[[0, 1, 2]], y[:3]) is crf
    assert_same_attributes(crf.set_params(max_iter=kind.estimator.max_iter).fit(X, y), fitted(name))
    assert pickle.dumps((X, y, crf.get_params())) == before
    crf.set_params(max_order=7, sigma_reg=9.0, feature_order=0, patterns="all", n_jobs=2, constraints=None)
    assert_as_fitted(crf, name)  # parameters set after fit
    unfitted = clone(crf)
    assert unfitted.get_params().keys() == crf.get_params().keys()
    for ask in ("predict", "predict_marginals", "predict_proba", "predict_nbest", "sample", "entropy"):
        with pytest.raises(NotFittedError):
            getattr(unfitted, ask)(X)


@kinds("training")
def test_refused_data_change_nothing(name):
    """An X of other features, lengths or numbers is refused in fit, and in answers, by a model that stays as it was."""
    kind = KINDS[name]
    crf, X, y = copy.deepcopy(fitted(name)), kind.X(), kind.y()
    before = dict(vars(crf))
    for bad_X, bad_y in (
        ([], []),
        (X, y[:-1]),
        (X, [*y[:-1], [*y[-1], y[-1][-1]]]),
        ([np.full((len(words), 3), np.nan) for words in kind.chosen(registry.WORDS)], y),
        ([[None] * len(words) for words in kind.chosen(registry.WORDS)], y),
        (X, None),
    ):
        with pytest.raises((ValueError, TypeError), match="."):
            crf.fit(bad_X, bad_y)
    with pytest.raises(ValueError, match="sample_weight"):
        crf.fit(X, y, sample_weight=[1.0])
    for bad in ([np.ones((2, 99))], [np.full((2, crf.n_features_in_), np.inf)], [[None]], "text", 3.0, None):
        with pytest.raises((ValueError, TypeError), match="."):
            crf.predict(bad)
    assert vars(crf).keys() == before.keys()
    assert all(vars(crf)[key] is value for key, value in before.items())


@kinds("training")
def test_a_warm_start_stays_where_training_ended(name):
    crf = copy.deepcopy(fitted(name)).set_params(warm_start=True)
    end = crf.objective_history_[-1]
    crf.fit(KINDS[name].X(), KINDS[name].y())
    assert crf.n_iter_ == 0
    np.testing.assert_allclose(crf.objective_history_, [end], rtol=1e-11)


def with_empty(sequences, empty=()):
    """Return sequences with empty ones before the first, in a row after the second, and after the last."""
    first, second, *others = sequences
    return [[*empty], first, second, [*empty], [*empty], *others, [*empty]]


@kinds("training")
def test_empty_training_sequences_change_nothing(name):
    kind = KINDS[name]
    words, y = with_empty(kind.chosen(registry.WORDS)), with_empty(kind.y())
    y[-1] = None  # nothing is known of it, as of the other empty ones
    weight = np.arange(len(y)) % 3 + 0.5
    full = np.array([len(part) > 0 for part in words])
    one, other = (clone(kind.estimator).set_params(max_iter=3) for _ in range(2))
    one.fit(kind.X(words), y, weight)
    other.fit(kind.X(), kind.y(), weight[full])
    assert_same_model(one, other, kind.X(NEW))


@kinds("training", "stream")
def test_streams(name):
    """One batch is one epoch of a fit; a stored stream goes on; threads, weights 0 and empty sequences do nothing."""
    kind = KINDS[name]
    X, y = kind.X(), kind.y()
    crf = clone(kind.estimator).set_params(**STREAM)
    epoch = clone(crf).set_params(max_iter=1).fit(X, y)
    once = clone(crf).partial_fit(X, y)
    if not registry.has_l1(crf):  # a fit drops patterns of weight 0
        close(once.coef_.toarray(), epoch.coef_.toarray(), 1e-13)
        close(once.objective_history_, epoch.objective_history_, 1e-13)
    assert once.objective_history_[-1] < once.objective_history_[0]
    stored = pickle.loads(pickle.dumps(once)).set_params(n_jobs=2).partial_fit(X, y)
    assert stored._state.weights.tobytes() == once.partial_fit(X, y)._state.weights.tobytes()
    words, half = kind.chosen(kind.words), np.arange(len(y)) % 2
    full, part = (with_empty([data[n] for n in np.flatnonzero(half)]) for data in (words, y))
    pair = clone(crf), clone(crf)
    for _ in range(2):
        pair[0].partial_fit(X, y, sample_weight=half)
        pair[1].partial_fit(kind.X(full), part)
    assert_same_attributes(*pair)
    best = fitted(name).log_likelihood(X, y).sum()
    assert stored.log_likelihood(X, y).sum() > 3 * best - 5.0


@kinds("training")
def test_searches_take_it(name):
    """Also with empty sequences."""
    kind = KINDS[name]
    X, y = kind.X(with_empty(kind.chosen(registry.WORDS))), with_empty(kind.y())
    y[-1] = None  # nothing is known of it, as of the other empty ones
    crf = clone(kind.estimator).set_params(max_iter=3)
    halves = [(np.arange(len(y)), np.arange(3))]
    search = GridSearchCV(crf, {"max_order": [0]}, cv=halves, refit=False, error_score="raise").fit(X, y)
    assert np.isfinite(search.best_score_)
    if "search" in kind.without:
        with pytest.raises(ValueError, match="."):
            PenaltySearchCV(crf, cv=2, max_steps=1).fit(X, y)
    else:
        found = PenaltySearchCV(crf.set_params(max_iter=25), cv=halves, max_steps=1).fit(X, y)
        scores = found.cv_results_["mean_test_score"]
        assert scores[-1] >= scores[0] - 1e-9 or crf.sigma_reg == GROUPS
        assert np.isfinite(found.predict_marginals(X)[1]).all()
