"""Warnings at the line of the user's call, strings for display and HTML, and strings in files.

Files contain strings as two arrays, because skops writes about 200 bytes of JSON for each str, and parses them in
Python.
"""

from __future__ import annotations

import html
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_is_quiet = ContextVar("_is_quiet", default=False)
_PASSED_OVER = {"sklearn_hocrf", "sklearn", "joblib"}  # users also call this package through these


@contextmanager
def unwarned() -> Iterator[None]:
    """Suppress the warnings of :func:`warn_user`; unlike warning filters, this affects only the current thread."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def warn_user(message, category: type[Warning] = UserWarning) -> None:
    """Warn on behalf of the innermost caller outside this package, scikit-learn and joblib.

    A constant ``stacklevel`` would count the functions of this package, and would become wrong as soon as one of them
    is split; ``skip_file_prefixes`` needs Python 3.12.

    Parameters
    ----------
    message : str
        Message of the warning.
    category : type of Warning, default=UserWarning
        Category of the warning.

    Examples
    --------
    >>> import warnings
    >>> from sklearn_hocrf._data.messages import warn_user
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("the labels look like BIO tags")
    >>> str(caught[0].message)
    'the labels look like BIO tags'
    """
    if _is_quiet.get():
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


_JOINERS = "\u200c\u200d"  # invisible, but Persian letters and parts of emoji depend on them


def pack_texts(texts) -> tuple | list:
    """Return strings as two arrays: their bytes in UTF-8, uint8, and the number of characters of each, int32.

    If an item is not a str, or has 2^31 or more characters, the result is a list.

    Examples
    --------
    >>> data, lengths = pack_texts(["né", "", "a"])
    >>> data.tobytes(), lengths.tolist()
    (b'n\\xc3\\xa9a', [2, 0, 1])
    """
    texts = list(texts)
    if not all(isinstance(text, str) and len(text) < 2**31 for text in texts):
        return texts
    data = np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    return data, np.fromiter(map(len, texts), np.int32, len(texts))


def unpack_texts(packed) -> list:
    """Return the strings that :func:`pack_texts` has packed, or raise a ValueError."""
    if isinstance(packed, list):
        return packed
    if not isinstance(packed, tuple) or len(packed) != 2:
        raise ValueError(f"packed texts must be two arrays, not a {type(packed).__name__}")
    data, lengths = map(np.asarray, packed)
    if data.ndim != 1 or data.dtype != np.uint8 or lengths.ndim != 1 or lengths.dtype.kind != "i":
        raise ValueError(f"packed texts must be bytes and lengths, not {data.dtype} and {lengths.dtype}")
    joined = data.tobytes().decode("utf-8", "surrogatepass")
    stops = np.cumsum(lengths, dtype=np.int64)
    if (lengths < 0).any() or (stops[-1] if len(stops) else 0) != len(joined):
        raise ValueError(f"the lengths of packed texts do not add up to {len(joined)} characters")
    return [joined[start:stop] for start, stop in zip((stops - lengths).tolist(), stops.tolist(), strict=True)]


def visible(text: Any) -> str:
    r"""Return a string without hidden characters: control characters, such as those that reverse text, become escapes.

    Examples
    --------
    >>> from sklearn_hocrf._data.messages import visible
    >>> print(visible("a\n\u202eb"))
    a\n\u202eb
    """
    text = str(text)
    if text.isprintable():
        return text
    kept = (c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(kept)


def escaped(text: Any) -> str:
    """Return a string, escaped for HTML.

    Examples
    --------
    >>> from sklearn_hocrf._data.messages import escaped
    >>> escaped("<script>")
    '&lt;script&gt;'
    """
    return html.escape(visible(text))
