"""The worked example of Cuong, Ye, Lee and Chieu, JMLR 15 (2014), Appendix B."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from sklearn.utils import Bunch

WORDS = ("Peter", "goes", "to", "Britain", "and", "France", "annually", ".")
LABELS = ("P", "O", "O", "L", "O", "L", "O", "O")
LOL = ("L", "O", "L")

# columns L, O, P and the pattern LOL; two decimals, as printed
AT_FRANCE = (
    12.696,
    [
        [0.21, 0.21, 0.58, 0.00],
        [0.21, 0.58, 0.21, 0.00],
        [0.21, 0.58, 0.21, 0.03],
        [0.68, 0.16, 0.16, 0.08],
        [0.16, 0.68, 0.16, 0.01],
        [0.68, 0.16, 0.16, 0.39],
        [0.21, 0.58, 0.21, 0.01],
        [0.21, 0.58, 0.21, 0.08],
    ],
)
EVERYWHERE = (
    13.0254,
    [
        [0.24, 0.20, 0.55, 0.00],
        [0.30, 0.52, 0.18, 0.00],
        [0.23, 0.60, 0.18, 0.06],
        [0.71, 0.15, 0.14, 0.19],
        [0.17, 0.68, 0.15, 0.02],
        [0.72, 0.15, 0.14, 0.43],
        [0.19, 0.62, 0.18, 0.02],
        [0.31, 0.50, 0.19, 0.20],
    ],
)


@overload
def load_jmlr_example(
    *, everywhere: bool = False, return_X_y: Literal[True]
) -> tuple[list[list[list[str]]], list[list[str]]]: ...
@overload
def load_jmlr_example(*, everywhere: bool = False, return_X_y: Literal[False] = False) -> Bunch: ...
def load_jmlr_example(
    *, everywhere: bool = False, return_X_y: bool = False
) -> Bunch | tuple[list[list[list[str]]], list[list[str]]]:
    """Load a second-order model of one sentence with known weights, partition function and marginals.

    "Peter goes to Britain and France annually .", labels P (person), L (location), O (other). Nine weights are 1: the
    eight pairs of a word and its label, and the label pattern LOL. The text of JMLR's Appendix B names no condition for
    LOL. The numbers of the paper, however, result if LOL is active at the word France only: an observation conjoined
    with a pattern. With ``everywhere=True`` LOL is active at every position, as in the text of the paper; the numbers
    for this case come from enumeration.

    Parameters
    ----------
    everywhere : bool, default=False
        Whether the pattern LOL counts at every position, or at the word France only.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        With

        - ``data``: the sentence, a list of one sequence of attribute-name lists; the word is the attribute;
        - ``target``: its labels, a list of one list of str;
        - ``classes``: the labels, sorted;
        - ``patterns``: the label patterns with weights, a list of tuples of str;
        - ``weights``: dict {(word or None, pattern): weight}; None stands for a bias, active at every position;
        - ``log_partition``: ln Z;
        - ``marginals``: ndarray of shape (8, 3), probabilities of ``classes`` at each position, to two decimals;
        - ``pattern_marginals``: ndarray of shape (8,), probability that LOL ends at each position, to two decimals.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import load_jmlr_example
    >>> example = load_jmlr_example()
    >>> example.data[0][5], example.target[0][5], example.weights["France", ("L", "O", "L")]
    (['France'], 'L', 1.0)
    >>> example.log_partition
    12.696
    """
    X = [[[word] for word in WORDS]]
    y = [list(LABELS)]
    if return_X_y:
        return X, y
    log_partition, table = EVERYWHERE if everywhere else AT_FRANCE
    weights: dict[tuple[str | None, tuple[str, ...]], float]
    weights = {(word, (label,)): 1.0 for word, label in zip(WORDS, LABELS, strict=True)}
    weights[None if everywhere else "France", LOL] = 1.0
    return Bunch(
        data=X,
        target=y,
        classes=sorted(set(LABELS)),
        patterns=[("L",), ("O",), ("P",), LOL],
        weights=weights,
        log_partition=log_partition,
        marginals=np.array(table)[:, :3],
        pattern_marginals=np.array(table)[:, 3],
    )
