"""Generated sentences with names, and generated bibliographic references: text for examples and tests."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from ._generators import RandomState


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

    Some words can be a given name, a family name or a place, so that only the context determines their labels.

    Parameters
    ----------
    n_sentences : int, default=500
        Number of sentences.
    random_state : int, RandomState instance or None, default=None
        Determines the sentences. Pass an int for the same output at every call.

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
    journals share words, and editors and authors share names: the order of the fields distinguishes them. The
    punctuation between fields is often missing.

    Parameters
    ----------
    n_references : int, default=200
        Number of references.
    random_state : int, RandomState instance or None, default=None
        Determines the references. Pass an int for the same output at every call.

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
    given = [str(rng.choice(GIVEN))] * (rng.uniform() < 0.7)
    return [*given, str(rng.choice(FAMILY))]


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
        found = NAME_MAKERS[slot](rng) if slot in NAME_MAKERS else [slot]
        words += found
        tags += [f"B-{slot}"] + [f"I-{slot}"] * (len(found) - 1) if slot in NAME_MAKERS else ["O"]
    return words, tags


def _people(rng: np.random.RandomState, most: int) -> list[str]:
    names = []
    for _ in range(rng.randint(1, most + 1)):
        initials = [f"{given[0]} ." for given in rng.choice(GIVEN, size=rng.randint(3))]
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
