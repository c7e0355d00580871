"""Write the page of what goes with what, from the table of refusals.

    python tests/matrix_page.py [docs/guide/matrix.md]

``test_compatibility`` tests every cell, and that the page is that of the table.
"""

import re
import sys
from itertools import product
from pathlib import Path

import numpy as np
from internals import CIRCUMSTANCES, OBJECTIVES, REFUSALS

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "matrix.md"


# parameters that make an estimator have a feature of the table
GIVEN = {
    "pruning": {"pruning": 1},
    "segment history": {"history": "segments"},
    "features of several labels": {"feature_order": 1},
    "parts": {"label_parts": {"A": ["x"], "B": ["x"]}},
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
HEAD = """# What works with what

Every pair of the options below works, unless its cell has a number: then `fit`, or the method that is called, refuses
before any work, with the reason given under that number. A dash stands for two values of one parameter. Tests fit a
model for each cell, with and without a number.

## Two options

The numbers of the columns are those of the rows: column 4 is row 4, parts. Each pair is in the table once, above the
diagonal.
"""
USES = """## Options and uses

The rows are the options again, with an example of each; a column is a use beyond a plain fit:
"""


def reasons(name, other):
    """Return the messages of the rows that refuse a pair, or a feature under a circumstance; "..." for parameters."""
    implied = [[of, *ALSO.get(of, [])] for of in (name, other)]
    pairs = set(map(frozenset, product(*implied)))
    return [re.sub(r"\{.*?\}", "...", row.message) for row in REFUSALS if frozenset(row[:2]) in pairs]


def excludes(name, other):
    """Return whether two features are values of one parameter."""
    return bool(set(GIVEN[name]) & set(GIVEN.get(other, {})))


def _cell(name, other, numbers):
    """Return the text of a cell; a new reason gets the next number."""
    if excludes(name, other):
        return "-"
    found = reasons(name, other)[:1]  # the first row that applies is raised
    return str(numbers.setdefault(found[0], len(numbers) + 1)) if found else ""


def _table(heads, rows):
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, ["---"] * len(heads), *rows))


def page():
    """Return the text of the page."""
    numbers, pairs, uses = {}, [], []
    for place, name in enumerate(MAIN):
        title, given = f"{place + 1} {name}", ", ".join(f"{key}={value!r}" for key, value in GIVEN[name].items())
        cells = [_cell(name, other, numbers) for other in (*MAIN[place:], *CIRCUMSTANCES)]
        n_pairs = len(MAIN) - place
        pairs.append([title, *[""] * place, *cells[:n_pairs]])
        uses.append([title, f"`{given}`", *cells[n_pairs:]])
    tables = (
        _table(["", *(str(place + 1) for place in range(len(MAIN)))], pairs),
        _table(["", "for example", *CIRCUMSTANCES], uses),
    )
    texts = [f"{number}. {text.replace('`', '')}\n" for text, number in numbers.items()]
    parameters = [set(of().get_params()) for of in (HighOrderCRF, HighOrderSemiCRF)]
    alone = [", ".join(f"`{name}`" for name in sorted(one - other)) for one, other in (parameters, parameters[::-1])]
    columns = [f"- {name}: {meaning}\n" for name, meaning in MEANING.items()]
    return (
        f"{HEAD}\n{tables[0]}\n{USES}\n{''.join(columns)}\n{tables[1]}\n## Reasons\n\n{''.join(texts)}\n"
        f"## Parameters of one estimator\n\nOnly `HighOrderCRF` has {alone[0]}; only `HighOrderSemiCRF` has {alone[1]}."
        "\n\n"
        "<!-- made by `python tests/matrix_page.py` from the table from which the errors are raised -->\n"
    )


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(), encoding="utf-8")
