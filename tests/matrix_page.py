"""Write the page on combinations of features, from the table of refusals.

    python tests/matrix_page.py [docs/api/matrix.md]

``test_compatibility`` tests every cell of the table, and that the page agrees with the table.
"""

import sys
from itertools import product
from operator import methodcaller
from pathlib import Path

import numpy as np
from internals import CIRCUMSTANCES, OBJECTIVES, REFUSALS, refuse

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api" / "matrix.md"


# parameters that make an estimator have a feature of the table
GIVEN = {
    "pruning": {"pruning": 1},
    "segment history": {"history": "segments"},
    "features of several labels": {"feature_order": 1},
    "parts": {"label_parts": methodcaller("split", "|")},
    "no penalty": {"sigma_reg": {("patterns", 1): np.inf, None: 1.0}},
    "frequent features": {"min_count": 2},
    **{name.replace("_", " "): {"objective": name} for name, kind in OBJECTIVES.items() if kind.excludes},
    "a stochastic solver": {"solver": "sgd"},
}
MAIN = list(GIVEN)
ALSO = {  # features that go with one of the main ones
    "stream": ["a stochastic solver"],
}
# the questions behind circumstances
MEANING = {
    "missing labels": "`None` or sets in y",
    "stream": "`partial_fit`",
    "cluster": "`dask`",
    "learned penalties": "`PenaltySearchCV`",
}
HEAD = """# Which options work together

Any two of these options work together, and each option works with each use below, unless the exceptions list the pair.
`partial_fit` requires a stochastic solver. A test fits a model for every pair.
"""
EXCEPTIONS = """## Exceptions

These pairs raise errors before any work starts, with these messages:
"""
NEEDS = " needs "  # in the messages: who needs something, and what


def reasons(name, other):
    """Return the rows that refuse a pair of features, or a feature under a circumstance."""
    implied = [[of, *ALSO.get(of, [])] for of in (name, other)]
    pairs = set(map(frozenset, product(*implied)))
    return [row for row in REFUSALS if frozenset(row[:2]) in pairs]


def message(row):
    """Return the two parts of a row's message for the example values of its features: the subject, and its need."""
    parameters = HighOrderCRF().get_params() | GIVEN[row.feature] | GIVEN.get(row.other, {})
    try:
        refuse(parameters, row.other if row.other in CIRCUMSTANCES else "")
    except ValueError as error:
        return str(error).split(NEEDS)


def excludes(name, other):
    """Return whether two features are values of one parameter."""
    return bool(set(GIVEN[name]) & set(GIVEN.get(other, {})))


def _exceptions():
    """Return the messages as sentences; subjects with the same need share a sentence."""
    subjects = {}
    for row in REFUSALS:
        subject, need = message(row)
        subjects.setdefault(need, {})[subject] = None
    sentences = [f"{' or '.join(', '.join(of).rsplit(', ', 1))}{NEEDS}{need}" for need, of in subjects.items()]
    return [f"{number}. {sentence}.\n" for number, sentence in enumerate(sentences, start=1)]


def _table(*rows):
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


def page():
    """Return the text of the page."""
    given = [", ".join(f"{key}={value!r}" for key, value in GIVEN[name].items()) for name in MAIN]
    options = _table(("option", "for example"), *((name, f"`{text}`") for name, text in zip(MAIN, given, strict=True)))
    uses = _table(("use", "how"), *MEANING.items())
    parameters = [set(of().get_params()) for of in (HighOrderCRF, HighOrderSemiCRF)]
    names = [[f"`{name}`" for name in sorted(one - other)] for one, other in (parameters, parameters[::-1])]
    alone = [" and ".join([", ".join(of[:-1]), of[-1]]) for of in names]
    return (
        f"{HEAD}\n{options}\n{uses}\n{EXCEPTIONS}\n{''.join(_exceptions())}\n"
        f"## Parameters of one estimator\n\nOnly `HighOrderCRF` takes {alone[0]};"
        f" only `HighOrderSemiCRF` takes {alone[1]}.\n\n"
        "<!-- made by `python tests/matrix_page.py` from the table from which the errors are raised -->\n"
    )


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(), encoding="utf-8")
