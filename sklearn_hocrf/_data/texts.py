"""Texts as two arrays, for files; texts for display and for HTML.

skops writes about 200 bytes of JSON for each str, and reads them in Python.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np

_JOINERS = "\u200c\u200d"  # invisible, but letters of Persian and parts of emoji depend on them


def pack_texts(texts) -> tuple | list:
    """Return texts as two arrays: their bytes in UTF-8, uint8, and how many characters each has, int32.

    If one is not a str, or has 2^31 characters, they are returned as a list.

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
    """Return the texts that :func:`pack_texts` has packed, or raise a ValueError."""
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
    r"""Return a text without hidden characters: control characters, such as those that reverse text, become escapes.

    Examples
    --------
    >>> from sklearn_hocrf._data.texts import visible
    >>> print(visible("a\n\u202eb"))
    a\n\u202eb
    """
    text = str(text)
    if text.isprintable():
        return text
    kept = (c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(kept)


def escaped(text: Any) -> str:
    """Return a text for HTML.

    Examples
    --------
    >>> from sklearn_hocrf._data.texts import escaped
    >>> escaped("<script>")
    '&lt;script&gt;'
    """
    return html.escape(visible(text))
