"""Explanations as HTML: contributions summed by weight, and both labellings."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._data.texts import escaped, visible
from .._display import bar, html_table, number
from ._segments_display import SegmentsDisplay

__all__ = ["Reason", "Reasons", "explanation_html", "reasons_of"]

_SHORT = 16  # characters of the beginning, and of the end, of long texts


class Reason(NamedTuple):
    """The contribution of one weight, summed over all places."""

    tokens: str
    pattern: tuple
    feature: Any
    value: Any  # None if several weights are added up
    weight: Any
    contribution: float


class Reasons(NamedTuple):
    """The largest contributions, and the sum of the others."""

    largest: list[Reason]
    n_others: int
    sum_of_others: float


def reasons_of(explanation: Any, top: int) -> Reasons:
    """Return the largest contributions of an :class:`Explanation`, summed by weight."""
    rows: dict = {}
    for row in explanation.table:
        rows.setdefault((row.pattern, row.feature), []).append(row)
    reasons = []
    for (pattern, feature), same in rows.items():
        sums = sum(row.value for row in same), same[0].weight, sum(row.contribution for row in same)
        reasons.append(Reason(_places(explanation, same), pattern, feature, *sums))
    reasons.sort(key=lambda reason: -abs(reason.contribution))
    others = reasons[top:]
    return Reasons(reasons[:top], len(others), sum(reason.contribution for reason in others))


def _places(explanation: Any, rows: list) -> str:
    """Return the text of the tokens of the contributions of one weight."""
    if len(rows) > 1:
        return f"{len(rows)} places"
    stop = rows[0].position + 1 if hasattr(rows[0], "position") else rows[0].stop
    text = " ".join(explanation.tokens[rows[0][0] : stop])
    return text if len(text) <= 2 * _SHORT + 3 else f"{text[:_SHORT]} … {text[-_SHORT:]}"


def explanation_html(explanation: Any, top: int) -> str:
    """Return an :class:`Explanation` as HTML: both labellings, and its largest contributions."""
    shown, rows = reasons_of(explanation, top), []
    largest = max((abs(reason.contribution) for reason in shown.largest), default=1.0)
    for reason in shown.largest:
        feature = "" if reason.feature is None else reason.feature
        numbers = map(number, (reason.value, reason.weight, reason.contribution))
        cells = map(escaped, (reason.tokens, " ".join(map(visible, reason.pattern)), feature))
        rows.append([*cells, *numbers, bar(reason.contribution, largest, signed=True)])
    if shown.n_others:
        rest = number(shown.sum_of_others), bar(shown.sum_of_others, largest, signed=True)
        rows.append(["", f"{shown.n_others} others", "", "", "", *rest])
    rows.append(["", "sum", "", "", "", number(explanation.log_odds_paths), '<div style="width:10em"></div>'])
    table = html_table([*Reason._fields, ""], rows, ["start"] * 3 + ["right"] * 3 + ["start"])
    both = SegmentsDisplay.from_predictions([explanation.tokens] * 2, [explanation.labels, explanation.labels_against])
    both.names = ["best:", "against:"]
    return f'<div style="font-weight:600">{escaped(explanation.title)}</div>{both._repr_html_()}{table}'
