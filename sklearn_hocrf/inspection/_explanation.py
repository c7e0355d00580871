"""Why a model prefers one labelling to another: the weights in which the two differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .._data.messages import escaped, visible
from .._data.segment_features import segment_features
from .._data.segments import Segments
from .._engine.structure.pairs import endings, values_at
from .._engine.structure.weighted_arcs import arcs_of_labels
from .._estimator.answers.fitted import FittedModel
from .._sklearn.names import safe_indexing
from ._display import Table, listed, remaining, texts_of
from ._paths import Contest, read_position
from ._segments_display import SegmentsDisplay
from ._weights import EACH_TOKEN, feature_names, row_names

_MOST_ROWS = 20  # shown of the table
_ROUNDING = 1e-12  # relative: rounding errors of sums of features that cancel


class Contribution(NamedTuple):
    """The contribution of one weight at one token: a row of the ``table`` of an explanation.

    See the examples of :func:`explain`.

    Attributes
    ----------
    position : int
        The token.
    pattern : tuple of labels
        The label pattern that ends with the token, in one of the labellings; for a weight that labels share
        (``label_parts``), a tuple that contains the part.
    feature : str, int or None
        The feature; None for the weight of the pattern itself, "(each token)" for the weight of each token of a
        segment.
    value : float
        How much more often the weight applies in the first labelling.
    weight : float
    contribution : float
        Their product.
    """

    position: int
    pattern: tuple
    feature: Any
    value: float
    weight: float
    contribution: float


class SegmentContribution(NamedTuple):
    """The contribution of one weight between two borders that both segmentations share.

    It is a row of the ``table`` of an explanation of a segment model. See :func:`explain`.

    Attributes
    ----------
    start, stop : int
        The tokens between the borders.
    pattern, feature, value, weight, contribution
        As in :class:`Contribution`; the last segment of the pattern lies between the borders.
    """

    start: int
    stop: int
    pattern: tuple
    feature: Any
    value: float
    weight: float
    contribution: float


@dataclass(repr=False, eq=False)
class Explanation:
    """Why a model prefers one labelling to another; :func:`explain` returns it and describes its attributes."""

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
        """One-line description of the explanation."""
        if self.position is None:
            return f"the best labelling against another: log-odds {self.log_odds_paths:.2f}"
        return (
            f"{visible(self.tokens[self.position])}: {_said(self.label)} rather than {_said(self.against)}: log-odds "
            f"{self.log_odds_paths:.2f}"
        )

    def __repr__(self) -> str:
        return "\n".join([self.title, repr(self.table[:_MOST_ROWS]), *self._rest()])

    def _repr_html_(self) -> str:
        """Return both labellings, and the largest contributions."""
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
    """Return why a model prefers its best labelling of a sequence to another: exact log-odds, weight by weight.

    Let y be the most probable labelling and y' the most probable one that labels a token differently. In log P(y) - log
    P(y') all weights cancel except those in which the two differ. Each of these is one row of the table: not only
    weights of features at the token, but also of label patterns, and of neighbours whose labels change with it.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, or a pipeline or search around one
        A fitted model; y is the most probable labelling.
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        As in the estimator's ``predict``.
    sequence : int, default=0
        The index of the sequence in X.
    position : int or None, default=None
        The token, from 0. None explains the labelling as a whole.
    against : object, default=None
        The content of y'.

        * With a position: a label, one of ``classes_``, that the token has in y'. None means any other label or, for
          segment models, any other segment.
        * Without a position: labels or segments of the sequence, such as the true ones, in the form of y in ``fit``;
          some may be missing, as ``known`` in ``predict``, so that a single segment can be given. None means the
          second best labelling.

    Returns
    -------
    explanation : Explanation
        Notebooks show it as HTML. Its attributes:

        sequence : int
            The index of the sequence in X.
        position : int or None
            The token to explain.
        label, against : label or (start, stop, label), or None
            The labels of the token in the two labellings. For segment models, the segments that contain it.
        labels, labels_against : as ``predict`` returns them for one sequence
            The best labelling, and its best competitor.
        log_odds_paths : float
            log P(labels) - log P(labels_against), which is the difference of their scores.
        log_odds_marginal : float or None
            log P(label) - log P(against), of the token or of the segments, for any labelling of the rest of the
            sequence; None without a position.
        table : Table
            Columns ``position`` (for segment models ``start`` and ``stop``), ``pattern``, ``feature``, ``value``,
            ``weight`` and ``contribution``, the largest contributions first. They add up to ``log_odds_paths``.
        tokens : list of str
            The texts of the tokens.

    Raises
    ------
    ValueError, TypeError
        If there is no such sequence, token or label, if the best labelling already contains ``against``, or if
        ``against`` is impossible.

    Notes
    -----
    Two passes of Viterbi's algorithm find y and y'; for a segment of n tokens without ``against``, up to n + 2 passes.
    For segment models, the segments of both segmentations between two common boundaries are compared as a whole: a word
    that both sides contain cancels.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import explain
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF().fit(X, y)
    >>> explain(crf, X, 1, 1, against="ADJ")
    man: NOUN rather than ADJ: log-odds 0.99
    position  pattern   feature   value  weight  contribution
           1  NOUN      man       1.000   0.743         0.743
           1  DET ADJ            -1.000   0.432        -0.432
           1  DET NOUN            1.000   0.365         0.365
           1  ADJ                -1.000  -0.212         0.212
           1  NOUN                1.000   0.106         0.106
    >>> explanation = explain(crf, X, 1, 1)
    >>> explanation.against, round(explanation.log_odds_marginal, 2)
    ('ADJ', 1.1)

    The weights that support the prediction and those that support the true label:

    >>> explain(crf, X, 0, against=["DET", "NOUN", "NOUN"]).labels
    ['DET', 'ADJ', 'NOUN']
    """
    X = listed(X)
    index = read_position(sequence, len(X) if hasattr(X, "__len__") else X.shape[0], "sequence")
    one = safe_indexing(X, [index])
    fitted, inner = FittedModel.and_input(estimator, one)
    batch, _ = fitted.read(inner)
    if position is not None:
        position = read_position(position, batch.n_tokens, "position")
    contest = Contest(fitted, batch)
    other = contest.other(position, against)
    odds = None
    if position is not None and hasattr(fitted.estimator, "predict_marginals"):
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


def _said(what: Any) -> str:
    if isinstance(what, tuple) and len(what) == 3:
        return f"{visible(what[2])} of [{what[0]}, {what[1]})"
    return visible(what)


# --- the weights that differ ------------------------------------------------------------------------------------------


def _contributions_table(contest: Contest, other: Any) -> Table:
    """Return the weights in which the best labelling differs from another one."""
    fitted, layout = contest.fitted, contest.fitted.state.layout
    units = [contest.units(labelling) for labelling in (contest.best, other)]
    borders = np.intersect1d(units[0].start, units[1].start)
    best, competing = (_counts(contest, one, borders) for one in units)
    block, pattern, feature, value = map(np.concatenate, zip(best, (*competing[:3], -competing[3]), strict=True))
    n_features = layout.n_features + 2
    keys, rank = np.unique((block * layout.n_rows + pattern) * n_features + feature, return_inverse=True)
    size = np.bincount(rank, np.abs(value), len(keys))
    value = np.bincount(rank, value, len(keys))
    kept = np.abs(value) > _ROUNDING * size
    rest, feature = np.divmod(keys[kept], n_features)
    block, pattern = np.divmod(rest, layout.n_rows)
    weight = _weights_of(layout, fitted.state.weights, pattern, feature)
    stops = np.append(borders[1:], contest.n_tokens)
    bounds = [borders[block], stops[block]] if contest.labels_segments else [borders[block]]
    return _table_rows(fitted, bounds, pattern, feature, value[kept], weight)


def _counts(contest: Contest, units: Segments, borders: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return parallel arrays: block between borders, pattern, feature, and how often the weight counts.

    Two indices follow those of features: no feature, and each token.
    """
    layout, batch = contest.fitted.state.layout, contest.batch
    offsets = np.array([0, len(units.start)])
    arcs = arcs_of_labels(layout.automaton, offsets, units.codes)
    block = np.searchsorted(borders, units.start, side="right") - 1
    matrix = segment_features(batch, units.start, units.stop) if contest.labels_segments else batch.tocsr().copy()
    matrix.sum_duplicates()
    features = sparse.coo_array(matrix)
    has_bias = np.zeros(layout.n_rows, bool)
    has_bias[layout.bias_pattern] = True
    pairs = sparse.csr_array(layout.row_coef(np.ones(layout.n_weights)))
    tokens = np.flatnonzero(np.isin(units.codes, layout.token_labels))
    each_token = np.full(len(tokens), layout.n_features + 1)
    parts = [(block[tokens], units.codes[tokens], each_token, (units.stop - units.start)[tokens])]
    for order in range(int(layout.patterns.lengths.max())):
        at_units = endings(layout.compiled, layout.parts, arcs, order)
        unit, pattern = at_units.pairs()
        bias = np.flatnonzero(has_bias[pattern])
        parts.append((block[unit[bias]], pattern[bias], np.full(len(bias), layout.n_features), np.ones(len(bias))))
        entry, pattern = at_units.take(features.row)
        counts = values_at(pairs, pattern, features.col[entry]) != 0
        entry, pattern = entry[counts], pattern[counts]
        parts.append((block[features.row[entry]], pattern, features.col[entry], features.data[entry]))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def _weights_of(layout: Any, weights: np.ndarray, pattern: np.ndarray, feature: np.ndarray) -> np.ndarray:
    has_feature, is_token = feature < layout.n_features, feature > layout.n_features
    values = np.concatenate([layout.pattern_coef(weights), np.zeros(layout.parts.n_parts)])[pattern]
    coef = sparse.csr_array(layout.row_coef(weights))
    values[has_feature] = values_at(coef, pattern[has_feature], feature[has_feature])
    values[is_token] = layout.token_coef(weights)[pattern[is_token]]
    return values


def _table_rows(
    fitted: FittedModel, bounds: list, pattern: np.ndarray, feature: np.ndarray, value: Any, weight: Any
) -> Table:
    names, contribution, patterns = [*feature_names(fitted), None, EACH_TOKEN], value * weight, row_names(fitted)
    row_type = Contribution if len(bounds) == 1 else SegmentContribution
    order = np.argsort(-np.abs(contribution), kind="stable")
    order = order[contribution[order] != 0]
    columns = [
        *(bound[order].tolist() for bound in bounds),
        [patterns[i] for i in pattern[order].tolist()],
        [names[i] for i in feature[order].tolist()],
        *(column[order].tolist() for column in (value, weight, contribution)),
    ]
    return Table(row_type, map(row_type._make, zip(*columns, strict=True)))
