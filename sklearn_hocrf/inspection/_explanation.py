"""Explanations of why a model prefers one labelling to another: the contribution of each weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._data.messages import escaped, visible
from .._estimator.answers.fitted import FittedModel
from .._sklearn.names import safe_indexing
from ._display import Table, listed, remaining, texts_of
from ._paths import Contest, read_position
from ._segments_display import SegmentsDisplay
from ._weights import features_of_weights, row_names

_MOST_ROWS = 20  # shown in the table
_ROUNDING = 1e-12  # relative: rounding errors in sums of features that cancel


class Contribution(NamedTuple):
    """The contribution of one weight: a row of the ``table`` of an explanation.

    See the examples of :func:`explain`.

    Attributes
    ----------
    pattern : tuple of labels
        The label pattern, in one of the labellings; for a weight that labels share (``label_parts``), a tuple that
        contains the part.
    feature : str, int or None
        The feature; None for the weight of the pattern itself.
    value : float
        The sum of the feature's values (1 for the weight of the pattern itself) where the pattern occurs in the first
        labelling, minus this sum for the second labelling.
    weight : float
    contribution : float
        The product of the value and the weight.
    """

    pattern: tuple
    feature: Any
    value: float
    weight: float
    contribution: float


@dataclass(repr=False, eq=False)
class Explanation:
    """Explanation of why a model prefers one labelling to another; :func:`explain` describes the attributes."""

    sequence: int
    position: int | None
    label: Any
    against: Any
    labels: Any
    labels_against: Any
    log_odds_paths: float
    log_odds_marginal: float | None
    table: Table
    tokens: list[str]

    @property
    def title(self) -> str:
        """Summary of the explanation in one line."""
        if self.position is None:
            return f"the best labelling against another: log-odds {self.log_odds_paths:.2f}"
        return (
            f"{visible(self.tokens[self.position])}: {visible(self.label)} rather than {visible(self.against)}: "
            f"log-odds {self.log_odds_paths:.2f}"
        )

    def __repr__(self) -> str:
        return "\n".join([self.title, repr(self.table[:_MOST_ROWS]), *self._rest()])

    def _repr_html_(self) -> str:
        """Return both labellings and the largest contributions as HTML."""
        both = SegmentsDisplay.from_predictions([self.tokens] * 2, [self.labels, self.labels_against])
        both.names = ["best:", "against:"]
        rest = "".join(f"<div>{text}</div>" for text in self._rest())
        title = f'<div style="font-weight:600">{escaped(self.title)}</div>'
        return f"{title}{both._repr_html_()}{self.table[:_MOST_ROWS]._repr_html_()}{rest}"

    def _rest(self) -> list[str]:
        return remaining(len(self.table) - _MOST_ROWS, "row")


def explain(
    estimator: BaseEstimator,
    X: Any,
    sequence: int = 0,
    position: int | None = None,
    *,
    against: Any = None,
) -> Explanation:
    """Explain by exact log-odds, weight by weight, why a model prefers its best labelling of a sequence to another.

    Let y be the most probable labelling and y' the most probable one that labels a token differently. In log P(y) - log
    P(y'), all weights cancel except those that contribute differently to the two labellings. Each of these weights is a
    row of the table, which therefore contains not only the weights of features at the token, but also those of label
    patterns and of neighbours whose labels differ in y'.

    Parameters
    ----------
    estimator : HighOrderCRF, or a pipeline or search around one
        A fitted model, whose most probable labelling is y.
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        As in the estimator's ``predict``.
    sequence : int, default=0
        The index of the sequence in X.
    position : int or None, default=None
        The index of the token. If None, the whole labelling is explained.
    against : object, default=None
        The label or labels that y' must contain.

        * With a position: a label, one of ``classes_``, that the token has in y'. None means any other label.
        * Without a position: labels of the sequence, such as the true ones, in the form of y in ``fit``; some may be
          missing, as in ``known`` of ``predict``. None means the second-best labelling.

    Returns
    -------
    explanation : Explanation
        Notebooks show the explanation as HTML. Its attributes are:

        sequence : int
            The index of the sequence in X.
        position : int or None
            The token to explain.
        label, against : label or None
            The labels of the token in the two labellings.
        labels, labels_against : as ``predict`` returns them for one sequence
            The best labelling, and its best competitor.
        log_odds_paths : float
            log P(labels) - log P(labels_against), which is the difference between their scores.
        log_odds_marginal : float or None
            log P(label) - log P(against) for the token, where the other tokens may have any labels; None without a
            position.
        table : Table
            Columns ``pattern``, ``feature``, ``value``, ``weight`` and ``contribution``, the largest contributions
            first. The contributions add up to ``log_odds_paths``.
        tokens : list of str
            The tokens as strings.

    Raises
    ------
    TypeError
        If the model is a :class:`~sklearn_hocrf.HighOrderSemiCRF`, or if an index is not an integer.
    ValueError
        If there is no such sequence, token or label, if the best labelling already contains ``against``, or if
        ``against`` is impossible.

    Notes
    -----
    Two passes of the Viterbi algorithm find y and y'.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import explain
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF().fit(X, y)
    >>> explain(crf, X, 1, 1, against="ADJ")
    man: NOUN rather than ADJ: log-odds 0.99
    pattern   feature   value  weight  contribution
    NOUN      man       1.000   0.743         0.743
    DET ADJ            -1.000   0.432        -0.432
    DET NOUN            1.000   0.365         0.365
    ADJ                -1.000  -0.212         0.212
    NOUN                1.000   0.106         0.106
    >>> explanation = explain(crf, X, 1, 1)
    >>> explanation.against, round(explanation.log_odds_marginal, 2)
    ('ADJ', 1.1)

    Compare the prediction with another labelling:

    >>> explain(crf, X, 0, against=["DET", "NOUN", "NOUN"])
    the best labelling against another: log-odds 1.36
    pattern       feature   value  weight  contribution
    DET ADJ NOUN            1.000   0.693         0.693
    ADJ           old       1.000   0.488         0.488
    DET ADJ                 1.000   0.432         0.432
    ADJ NOUN                1.000   0.432         0.432
    DET NOUN               -1.000   0.365        -0.365
    ADJ                     1.000  -0.212        -0.212
    NOUN                   -1.000   0.106        -0.106
    """
    X = listed(X)
    index = read_position(sequence, len(X) if hasattr(X, "__len__") else X.shape[0], "sequence")
    one = safe_indexing(X, [index])
    fitted, inner = FittedModel.and_input(estimator, one)
    if fitted.kind.labels_segments:
        raise TypeError("explain is for HighOrderCRF, got a HighOrderSemiCRF; weights_table shows the weights of both")
    batch, _ = fitted.read(inner)
    if position is not None:
        position = read_position(position, batch.n_tokens, "position")
    contest = Contest(fitted, batch)
    other = contest.other(position, against)
    odds = None
    if position is not None:
        odds = contest.log_probability(contest.best, position) - contest.log_probability(other, position)
    is_table = getattr(one, "ndim", 3) == 2  # whose rows are sequences of one token
    return Explanation(
        sequence=index,
        position=position,
        label=None if position is None else contest.name(contest.best, position),
        against=None if position is None else contest.name(other, position),
        labels=fitted.targets.as_predicted(contest.best, batch.offsets)[0],
        labels_against=fitted.targets.as_predicted(other, batch.offsets)[0],
        log_odds_paths=contest.score(contest.best) - contest.score(other),
        log_odds_marginal=odds,
        table=_contributions_table(contest, other),
        tokens=[str(index)] if is_table else texts_of(one)[0],
    )


def _contributions_table(contest: Contest, other: Any) -> Table:
    """Return the contributions of all weights that distinguish the best labelling from another one."""
    fitted, batch, layout = contest.fitted, contest.batch, contest.fitted.state.layout
    rows = layout.rows(batch)
    counts = [layout.empirical_counts(batch, labelling, np.ones(1), rows) for labelling in (contest.best, other)]
    value, weight = counts[0] - counts[1], fitted.state.weights
    contribution = np.where(np.abs(value) > _ROUNDING * np.abs(counts).sum(axis=0), value * weight, 0.0)
    order = np.argsort(-np.abs(contribution), kind="stable")
    order = order[contribution[order] != 0]
    (feature, names), patterns = features_of_weights(fitted), row_names(fitted)
    columns = (column[order].tolist() for column in (layout.row_of_weight, feature, value, weight, contribution))
    made = (Contribution(patterns[z], names[f], *numbers) for z, f, *numbers in zip(*columns, strict=True))
    return Table(Contribution, made)
