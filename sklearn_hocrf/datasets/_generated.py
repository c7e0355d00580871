"""Generated data: sentences with names, bibliographic references, and sequences from Markov chains.

The sequences from Markov chains of any order are generated in three steps:

chain      random successors and probabilities for each context, that is, each tuple of the last ``order`` labels
labels     sampled from the chain, all sequences at once, position by position
tokens     one noisy observation for each label
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state, check_scalar


def _word_list(text: str) -> list[str]:
    return text.split()


GIVEN = _word_list(
    "Ada Alan Anna Ben Carla David Dora Emil Emma Eva Felix Grace Hans Ida Igor Jack Jane Karl Lena Lewis Marie Max "
    "Nora Omar Otto Paula Rosa Sara Tom Vera Victoria Virginia"
)
FAMILY = _word_list(
    "Adler Baker Berg Bohr Church Curie Diaz Eriksen Fischer Hamilton Hopper Jackson Kelly Kim Lee Lewis Lincoln "
    "London Meyer Moreau Novak Okafor Perry Rossi Sato Silva Turing Washington Weber York"
)
CITIES = _word_list(
    "Berlin Bogota Cairo Delhi Geneva Hamilton Jackson Kyoto Lagos Lima Lincoln London Madrid Nairobi Oslo Paris "
    "Perry Quito Rome Sofia Sydney Tokyo Victoria Vienna Virginia Warsaw Washington York"
)
SENTENCES = """\
PER met PER in LOC .
PER , who was born in LOC , works for ORG .
ORG moved from LOC to LOC last year .
The mayor of LOC thanked PER .
On Monday PER and PER left LOC .
PER plays for ORG .
ORG of LOC bought ORG .
Reports from LOC say that ORG will close .
PER ( ORG ) lost to PER of LOC .
It rained in LOC and in LOC .
PER said : " ORG is not for sale . "
Nobody at ORG has seen PER since May .
LOC is larger than LOC .
Trains between LOC and LOC are late .
The letters of PER to PER are in LOC .
Nothing happened on Sunday .
""".splitlines()
SUBJECTS = _word_list(
    "fast slow large random hidden graphs trees fields words of the on in for parsing learning theory"
)
PUBLISHERS = ["Journal of", "Letters on", "Annals of", "Proceedings of", "Notes on"]


def make_name_sentences(
    n_sentences: int = 500, *, random_state: RandomState = None
) -> tuple[list[list[str]], list[list[str]]]:
    """Generate sentences with names of persons, places and organisations.

    Some words can be first names, family names or places, so only the context determines their labels.

    Parameters
    ----------
    n_sentences : int, default=500
        Number of sentences.
    random_state : int, RandomState instance or None, default=None
        Determines the sentences. Pass an int to get the same output in every call.

    Returns
    -------
    X : list of list of str
        The words and punctuation marks of each sentence.
    y : list of list of str
        BIO tags with the labels LOC, ORG and PER.

    Raises
    ------
    ValueError
        If ``n_sentences`` is less than 1.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import make_name_sentences
    >>> X, y = make_name_sentences(3, random_state=0)
    >>> for word, tag in zip(X[2], y[2]):
    ...     print(word, tag)
    Hans B-PER
    Diaz I-PER
    ( O
    University B-ORG
    of I-ORG
    Vienna I-ORG
    ) O
    lost O
    to O
    Kim B-PER
    of O
    Sydney B-LOC
    . O
    """
    check_scalar(n_sentences, "n_sentences", Integral, min_val=1)
    rng = check_random_state(random_state)
    sentences = [_name_sentence(rng) for _ in range(n_sentences)]
    return [words for words, _ in sentences], [tags for _, tags in sentences]


def make_references(
    n_references: int = 200, *, random_state: RandomState = None
) -> tuple[list[list[str]], list[list[str]]]:
    """Generate bibliographic references whose words are labelled with fields.

    The authors come first, then the title, a journal or a book with its editors, pages and the date. Titles and
    journals share words, and editors and authors share names, so only the order of the fields distinguishes them. The
    punctuation between fields is often missing.

    Parameters
    ----------
    n_references : int, default=200
        Number of references.
    random_state : int, RandomState instance or None, default=None
        Determines the references. Pass an int to get the same output in every call.

    Returns
    -------
    X : list of list of str
        The words and punctuation marks of each reference.
    y : list of list of str
        The fields of the words: author, title, journal, volume, editor, booktitle, pages or date.

    Raises
    ------
    ValueError
        If ``n_references`` is less than 1.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import make_references
    >>> X, y = make_references(3, random_state=0)
    >>> " ".join(X[0])
    'L Okafor hidden trees in slow trees Notes on words of theory , 244 250 , 1995'
    >>> y[0][-1]
    'date'
    """
    check_scalar(n_references, "n_references", Integral, min_val=1)
    rng = check_random_state(random_state)
    references = [_reference(rng) for _ in range(n_references)]
    return [words for words, _ in references], [labels for _, labels in references]


def _person(rng: np.random.RandomState) -> list[str]:
    given_names = [str(rng.choice(GIVEN))] * (rng.uniform() < 0.7)
    return [*given_names, str(rng.choice(FAMILY))]


def _location(rng: np.random.RandomState) -> list[str]:
    return ["New"] * (rng.uniform() < 0.1) + [str(rng.choice(CITIES))]


def _organisation(rng: np.random.RandomState) -> list[str]:
    family, city = str(rng.choice(FAMILY)), str(rng.choice(CITIES))
    forms = [["University", "of", city], [city, "Herald"], [family, "&", "Co"], [family, "Motors"], [city, "United"]]
    return forms[rng.randint(len(forms))]


NAME_MAKERS: dict[str, Callable] = {"PER": _person, "LOC": _location, "ORG": _organisation}


def _name_sentence(rng: np.random.RandomState) -> tuple[list[str], list[str]]:
    """Return the words and the tags of one sentence."""
    words: list[str] = []
    tags: list[str] = []
    for slot in SENTENCES[rng.randint(len(SENTENCES))].split():
        slot_words = NAME_MAKERS[slot](rng) if slot in NAME_MAKERS else [slot]
        words += slot_words
        tags += [f"B-{slot}"] + [f"I-{slot}"] * (len(slot_words) - 1) if slot in NAME_MAKERS else ["O"]
    return words, tags


def _people(rng: np.random.RandomState, most: int) -> list[str]:
    names = []
    for _ in range(rng.randint(1, most + 1)):
        initials = [f"{given_name[0]} ." for given_name in rng.choice(GIVEN, size=rng.randint(3))]
        names.append(" ".join([*initials, str(rng.choice(FAMILY))]))
    return " , ".join(names).split()


def _subject(rng: np.random.RandomState, least: int, most: int) -> list[str]:
    return [str(word) for word in rng.choice(SUBJECTS, size=rng.randint(least, most + 1))]


def _reference(rng: np.random.RandomState) -> tuple[list[str], list[str]]:
    """Return the words of one reference and their fields."""
    publisher = str(rng.choice(PUBLISHERS)).split() * (rng.uniform() < 0.7)
    fields = [("author", [*_people(rng, 3), "."]), ("title", [*_subject(rng, 3, 7), "."])]
    if rng.uniform() < 0.5:
        fields += [("journal", [*publisher, *_subject(rng, 2, 3), ","])]
        fields += [("volume", [str(rng.randint(1, 60)), ","])] * (rng.uniform() < 0.5)
    else:
        fields += [("editor", ["In", *_people(rng, 2), ",", "editors", ","])] * (rng.uniform() < 0.5)
        fields += [("booktitle", [*publisher, *_subject(rng, 2, 5), ","])]
    first = rng.randint(1, 400)
    fields += [("pages", [str(first), "-", str(first + rng.randint(1, 30)), ","])]
    fields += [("date", [str(rng.randint(1980, 2021)), "."])]
    kept = [(word, label) for label, words in fields for word in words if word not in ".,-" or rng.uniform() < 0.6]
    return [word for word, _ in kept], [label for _, label in kept]


MAX_CONTEXTS = 1_000_000
RandomState = int | np.random.RandomState | None


class ContextTable(NamedTuple):
    """The possible successors of all contexts of length j.   L labels, C = L**j contexts, r successors.

    The index of a context is the number whose digits to base L are the labels of the context, with the latest label
    last.
    """

    successors: np.ndarray  # (C, r) int64   distinct labels
    cumulative: np.ndarray  # (C, r) float64   cumulative probabilities of the successors; the last column is 1


def random_chain(n_labels: int, n_successors: Sequence[int], rng: np.random.RandomState) -> list[ContextTable]:
    """Return a random Markov chain of order k, as one table for each context length from 0 to k.

    ``n_successors`` contains k + 1 numbers in non-increasing order. The successors of a context are a random subset of
    the successors of the context without its first label. The successors are equally likely, except in the last table,
    where their probabilities are drawn uniformly from [0, 1] and normalised. The other tables are used at the start of
    a sequence.
    """
    order = len(n_successors) - 1
    if n_labels**order > MAX_CONTEXTS:
        raise ValueError(
            f"n_labels={n_labels} and order {order} make {n_labels**order} contexts; at most {MAX_CONTEXTS} are allowed"
        )
    chain: list[ContextTable] = []
    successors = np.arange(n_labels)[np.newaxis]
    for length, chosen in enumerate(n_successors):
        if length > 0:
            successors = np.tile(successors, (n_labels, 1))  # row index modulo L**(length - 1) drops the first label
        subset = rng.uniform(size=successors.shape).argsort(axis=1)[:, :chosen]
        successors = np.take_along_axis(successors, subset, axis=1)
        weights = np.ones(successors.shape)
        if length == order:
            weights -= rng.uniform(size=weights.shape)  # in (0, 1]: never all zero
        cumulative = weights.cumsum(axis=1)
        chain.append(ContextTable(successors, cumulative / cumulative[:, -1:]))
    return chain


def sample_chain(chain: list[ContextTable], n_sequences: int, length: int, rng: np.random.RandomState) -> np.ndarray:
    """Return labels drawn from a chain, of shape (n_sequences, length)."""
    n_labels = chain[0].successors.shape[1]
    labels = np.empty((n_sequences, length), dtype=np.int64)
    context = np.zeros(n_sequences, dtype=np.int64)
    for position in range(length):
        table = chain[min(position, len(chain) - 1)]
        choice = (rng.uniform(size=(n_sequences, 1)) >= table.cumulative[context, :-1]).sum(axis=1)
        labels[:, position] = table.successors[context, choice]
        next_table = chain[min(position + 1, len(chain) - 1)]
        context = (context * n_labels + labels[:, position]) % len(next_table.successors)
    return labels


def make_markov_sequences(
    n_sequences: int = 1000,
    *,
    length: int = 20,
    order: int = 2,
    n_labels: int = 5,
    n_successors: int = 2,
    n_features: int = 3,
    noise: float = 0.05,
    random_state: RandomState = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Generate sequences whose labels follow a Markov chain.

    The function generates data like the synthetic data of Ye, Lee, Chieu and Wu (NIPS 2009, section 4.1). Each context,
    that is, each tuple of the last ``order`` labels, has ``n_successors`` possible next labels, chosen at random; their
    probabilities are drawn uniformly from [0, 1] and normalised. The first ``order`` labels of a sequence are drawn
    uniformly. Each label emits ``n_features`` Gaussian values. The means of these values, different for each label, are
    drawn uniformly from [0, 1], and the standard deviation is ``noise``.

    The chain depends on ``random_state``, so split the sequences from one call into training and test data.

    Parameters
    ----------
    n_sequences : int, default=1000
        Number of sequences.
    length : int, default=20
        Number of tokens in each sequence.
    order : int, default=2
        Order of the chain, at least 0.
    n_labels : int, default=5
        Number of labels.
    n_successors : int, default=2
        Number of labels that may follow a context, at most ``n_labels``.
    n_features : int, default=3
        Number of observed values per token.
    noise : float, default=0.05
        Standard deviation of the observed values.
    random_state : int, RandomState instance or None, default=None
        Determines the chain, the means, the labels and the noise. Pass an int to get the same output in every call.

    Returns
    -------
    X : list of ndarray of shape (length, n_features), float64
        The observations.
    y : list of ndarray of shape (length,), int64
        The labels, in [0, n_labels).

    Raises
    ------
    ValueError
        If a parameter is out of range, or if the chain would have more than a million contexts.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import make_markov_sequences
    >>> X, y = make_markov_sequences(10, length=6, order=3, random_state=0)
    >>> len(X), X[0].shape, y[0].shape
    (10, (6, 3), (6,))
    """
    for name, count in ("n_sequences", n_sequences), ("length", length), ("n_features", n_features):
        check_scalar(count, name, Integral, min_val=1)
    check_scalar(noise, "noise", Real, min_val=0)
    check_scalar(n_labels, "n_labels", Integral, min_val=2)
    check_scalar(order, "order", Integral, min_val=0)
    check_scalar(n_successors, "n_successors", Integral, min_val=1, max_val=n_labels)
    rng = check_random_state(random_state)
    chain = random_chain(n_labels, [n_labels] * order + [n_successors], rng)
    means = rng.uniform(size=(n_labels, n_features))
    labels = sample_chain(chain, n_sequences, length, rng)
    observations = means[labels] + noise * rng.standard_normal((n_sequences, length, n_features))
    return list(observations), list(labels)


def make_digit_words(
    n_words: int = 500, *, noise: float = 0.5, random_state: RandomState = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Generate words of noisy handwritten digits; the digits follow a Markov chain of order 3.

    A word is a sequence of 5 to 12 images from scikit-learn's :func:`~sklearn.datasets.load_digits`. Five digits may
    follow a given digit; given the last two digits, three may follow, and given the last three, two. With each increase
    of the order, up to 3, label patterns therefore correct more of the errors that noise causes. At the beginning of a
    word, where the context is shorter, all successors are equally likely; afterwards, their probabilities are drawn
    uniformly from [0, 1] and normalised.

    The chain is always the same, so generate training words with one seed, and test words with another. An image may
    occur in several words, each time with fresh noise.

    Parameters
    ----------
    n_words : int, default=500
        Number of words.
    noise : float, default=0.5
        Standard deviation of the Gaussian noise on pixels that range from 0 (paper) to 1 (ink).
    random_state : int, RandomState instance or None, default=None
        Determines the words, the images and the noise. Pass an int to get the same output in every call.

    Returns
    -------
    X : list of ndarray of shape (T, 64), float64
        For each word, one row per digit: the 64 pixels of its 8 x 8 image, with noise.
    y : list of ndarray of shape (T,), int64
        The digits, 0 to 9.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> X, y = make_digit_words(20, random_state=0)
    >>> X_test, y_test = make_digit_words(10, random_state=1)
    >>> len(X), len(y_test), X[0].shape == (len(y[0]), 64)
    (20, 10, True)
    """
    check_scalar(n_words, "n_words", Integral, min_val=1)
    check_scalar(noise, "noise", Real, min_val=0)
    chain = random_chain(10, [10, 5, 3, 2], np.random.RandomState(1))
    rng = check_random_state(random_state)
    lengths = rng.randint(5, 13, size=n_words)
    labels = sample_chain(chain, n_words, 12, rng)
    y = [word[:length] for word, length in zip(labels, lengths, strict=True)]
    tokens = np.concatenate(y)
    images, digits = load_digits(return_X_y=True)
    chosen = np.empty(len(tokens), dtype=np.int64)
    for digit in range(10):
        mine = tokens == digit
        chosen[mine] = rng.choice(np.flatnonzero(digits == digit), size=mine.sum())
    noisy = images[chosen] / 16.0 + noise * rng.standard_normal((len(tokens), 64))
    return np.split(noisy, np.cumsum(lengths)[:-1]), y
