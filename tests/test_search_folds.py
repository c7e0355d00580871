"""The folds of a search for penalties: the default ones, and warnings of those that do not say what is new."""

import gzip
import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import _unseen, training_data, warn_of_folds
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.datasets import load_conll, make_references
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import PenaltySearchCV

RNG = np.random.default_rng(0)
SUBJECTS = [[f"{subject}{RNG.integers(30)}" for _ in range(6)] for subject in "abcde" for _ in range(12)]
TOPICS = np.repeat(np.arange(5), 12)
LABELS = [[str(label) for label in RNG.integers(3, size=6)] for _ in SUBJECTS]


def features(sequences):
    return [[{word: 1.0} for word in sequence] for sequence in sequences]


def warnings_of(X, y, splits, model=None, weight=None):
    whole = training_data(HighOrderCRF(max_order=0) if model is None else model, X, y, weight)
    with warnings.catch_warnings(record=True, action="always") as caught:
        warn_of_folds(whole, splits)
    return [str(warning.message) for warning in caught]


def splits_of_numbers(splitter, X, groups=None):
    return list(splitter.split(X, groups=groups))


def search(cv="shuffled"):
    return PenaltySearchCV(HighOrderCRF(max_order=0), cv=cv, max_steps=1, refit=False)


def split_scores(fitted):
    return [fitted.cv_results_[f"split{number}_test_score"][0] for number in range(fitted.n_splits_)]


def test_default_folds_are_shuffled_with_a_fixed_seed():
    X = features(SUBJECTS)
    given = search(KFold(5, shuffle=True, random_state=0)).fit(X, LABELS)
    assert split_scores(search().fit(X, LABELS)) == split_scores(given)
    assert search().get_params()["cv"] == "shuffled"


def test_default_folds_keep_groups_together():
    X, groups = features(SUBJECTS), np.arange(len(SUBJECTS)) % 7
    given = search(GroupKFold(5, shuffle=True, random_state=0)).fit(X, LABELS, groups=groups)
    assert split_scores(search().fit(X, LABELS, groups=groups)) == split_scores(given)
    assert split_scores(given) != split_scores(search().fit(X, LABELS))


@pytest.mark.filterwarnings("ignore:the held-out parts")
def test_numbers_and_none_are_not_shuffled():
    X = features(SUBJECTS)
    of_order = split_scores(search(KFold(5)).fit(X, LABELS))
    assert split_scores(search(None).fit(X, LABELS)) == split_scores(search(5).fit(X, LABELS)) == of_order


def test_sorted_data_are_warned_about():
    X = features(SUBJECTS)
    with pytest.warns(UserWarning, match=r'held-out parts of cv have \d+ features .* cv="shuffled"'):
        search(5).fit(X, LABELS)
    (message,) = warnings_of(X, LABELS, splits_of_numbers(KFold(5), X))
    n_unseen = len({word for sequence in SUBJECTS for word in sequence})  # each topic has its own
    assert f"have {n_unseen} features" in message


@pytest.mark.filterwarnings("error")
def test_who_gives_groups_is_not_warned():
    search().fit(features(SUBJECTS), LABELS, groups=TOPICS)
    search(GroupKFold(5)).fit(features(SUBJECTS), LABELS, groups=TOPICS)


@pytest.mark.filterwarnings("error")
def test_shuffled_folds_of_sorted_data_are_fine():
    search().fit(features(SUBJECTS), LABELS)


WORDS = st.lists(st.lists(st.sampled_from(["a", "é", "文", "b=c", ""]), max_size=4), min_size=1, max_size=3)


@given(st.lists(WORDS, min_size=2, max_size=8), st.data())
def test_what_held_out_parts_lack_is_counted(X, data):
    """Beside plain Python: tokens without features and with repeated ones, parts that overlap, or have one sequence."""
    batch = SequenceFeatureExtractor("attributes").fit_transform(X)
    before = batch.indices.copy()
    numbers = st.lists(st.integers(0, len(X) - 1), min_size=1, unique=True).map(np.array)
    parts = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=3))
    of_sequence = [{name for token in sequence for name in token} for sequence in X]
    expected = sum(
        len(set().union(*(of_sequence[n] for n in test)) - set().union(*(of_sequence[n] for n in train)))
        for train, test in parts
    )
    unseen, most = _unseen(batch, parts)
    assert unseen == expected
    assert 0 <= most <= len(parts) * len(set().union(*of_sequence))
    np.testing.assert_array_equal(batch.indices, before)


@pytest.mark.parametrize("n_words", [8, 200])
def test_repeated_label_sequences_are_warned_about(n_words):
    """As in handwriting, where few words were written often; a label sequence a sequence is no warning."""
    words = ["".join(RNG.choice(list("abcdefgh"), size=5)) for _ in range(n_words)]
    y = [list(words[number % n_words]) for number in range(120)]
    X = features([[letter + str(RNG.integers(3)) for letter in word] for word in y])
    messages = warnings_of(X, y, splits_of_numbers(KFold(5, shuffle=True, random_state=0), X))
    assert [message.split(" label sequences")[0] for message in messages] == ["100% of the held-out"] * (n_words == 8)
    assert all("groups=" in message for message in messages)


def test_short_label_sequences_repeat_by_chance():
    y = [["a", "b"][: 1 + number % 2] for number in range(60)]
    X = features(y)
    assert warnings_of(X, y, splits_of_numbers(KFold(5), X)) == []


@pytest.mark.parametrize(("n_sequences", "n_messages"), [(19, 0), (20, 1)])
def test_few_label_sequences_say_nothing(n_sequences, n_messages):
    y = [["a", "b", "a"]] * n_sequences
    X = features(y)
    assert len(warnings_of(X, y, splits_of_numbers(KFold(5), X))) == n_messages


def test_segments_count_with_their_borders():
    X, y = make_references(60, random_state=0)
    X = features(X)
    model = HighOrderSemiCRF(scheme="runs")
    repeated = [y[0]] * 30
    assert warnings_of(X, y, splits_of_numbers(KFold(5), X), model) == []
    (message,) = warnings_of([X[0]] * 30, repeated, splits_of_numbers(KFold(5), repeated), model)
    assert message.startswith("100% of the held-out label sequences")


def test_sequences_without_weight_do_not_count():
    X, y = features([*SUBJECTS, *(["new"] * 6,) * 40]), [*LABELS, *(["0"] * 6,) * 40]
    weight = np.array([1.0] * len(SUBJECTS) + [0.0] * 40)
    splits = splits_of_numbers(KFold(5, shuffle=True, random_state=1), X)
    assert warnings_of(X, y, splits, weight=weight) == []


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", ["conll2000", "conll2002", "usaddress", "anystyle"])
@pytest.mark.slow
def test_data_sets_without_warnings(data_dir, name, shuffle):
    X, y, model = DATA[name](data_dir)
    splits = KFold(5, shuffle=shuffle, random_state=0 if shuffle else None)
    assert warnings_of(X, y, splits_of_numbers(splits, X), model) == []


def conll(folder, name):
    X, y = load_conll(folder / name)
    return X[:4000], y[:4000], make_pipeline(SequenceFeatureExtractor(affixes=0), HighOrderCRF())


def usaddress(folder):
    with gzip.open(folder / "usaddress" / "train.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["tokens"] for row in rows], [row["labels"] for row in rows], words()


def anystyle(folder):
    with gzip.open(folder / "anystyle_references" / "core.txt.gz", "rt", encoding="utf-8") as file:
        references = [[line.split() for line in block.splitlines()] for block in file.read().strip().split("\n\n")]
    X, y = ([[token[place] for token in reference] for reference in references] for place in (0, -1))
    return X, y, words()


def words():
    return make_pipeline(SequenceFeatureExtractor(), HighOrderCRF())


DATA = {
    "conll2000": lambda folder: conll(folder, "conll2000/train.txt.gz"),
    "conll2002": lambda folder: conll(folder, "conll2002/esp.train.gz"),
    "usaddress": usaddress,
    "anystyle": anystyle,
}
