"""Plots of bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.texts import visible
from .._display import NEGATIVE, POSITIVE, pyplot

__all__ = ["bars"]


def bars(names: list[str], values: list[float], what: str, ax: Any) -> Any:
    """Plot horizontal bars, the first one at the top, and return the Axes."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=(6.4, 0.8 + 0.28 * max(len(names), 1)), layout="constrained")
    places = np.arange(len(values))
    ax.barh(places, values, color=[POSITIVE if value >= 0 else NEGATIVE for value in values])
    ax.axvline(0.0, color="gray", linewidth=0.8)
    ax.set_yticks(places, [visible(name) for name in names], fontsize="small", parse_math=False)
    ax.set(xlabel=what, ylim=(len(values) - 0.5, -0.5))
    return ax
