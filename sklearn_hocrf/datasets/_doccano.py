"""Files of doccano: one JSON object per line, with a text and its annotated spans of characters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from sklearn.utils import Bunch

from .._data.schemes import read_segment
from .._validation._messages import short
from ._lines import MAX_LINE, FileOptions, read_lines

KEYS = "label", "labels", "entities"  # of the spans: in exports, in imports, and in projects with relations
Span = tuple[int, int, str]


@overload
def load_doccano(
    path: str | PathLike[str], *, return_X_y: Literal[True], **options: Unpack[FileOptions]
) -> tuple[list[str], list[list[Span]]]: ...
@overload
def load_doccano(
    path: str | PathLike[str], *, return_X_y: Literal[False] = False, **options: Unpack[FileOptions]
) -> Bunch: ...
def load_doccano(
    path: str | PathLike[str], *, max_bytes: int | None = None, max_line: int = MAX_LINE, return_X_y: bool = False
) -> Bunch | tuple[list[str], list[list[Span]]]:
    """Load texts and spans that were annotated with doccano, from its JSONL.

    A line is ``{"id": 1, "text": "Ann left", "label": [[0, 3, "PER"]]}``. The key of the spans may also be "labels", or
    "entities" for a list of objects with "start_offset", "end_offset" and "label", as in projects with relations.
    Relations and other keys are ignored. A text without any of these keys has no spans. Spans may overlap in such a
    file; :func:`~sklearn_hocrf.text.tags_from_spans` reports overlapping spans.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzipped, in UTF-8.
    max_bytes : int, default=None
        Maximum size of the text in bytes, after decompression. By default 2**30, and for a gzip file at most 128 times
        its own size (at least 2**20): a small file beyond this ratio is not data, but could fill the memory.
    max_line : int, default=2**20
        Maximum number of characters in a line.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        With ``data``, a list of str; ``target``, for each text a list of (start, stop, label) in characters of the
        text, in the order of the file; ``id``, the ids in the file, None for texts without an id.

    Raises
    ------
    ValueError
        If a line is not such an object or is too long, if a span is not within its text, if the file is too large or
        damaged, or contains no texts. The message names file and line.

    See Also
    --------
    dump_doccano : Write such a file.
    sklearn_hocrf.text.tags_from_spans : Convert spans to labels of tokens.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_doccano
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "all.jsonl")
    ...     line = '{"id": 7, "text": "Ann left", "label": [[0, 3, "PER"]]}'
    ...     _ = path.write_text(line + '\\n{"id": 8, "text": "No"}\\n')
    ...     bunch = load_doccano(path)
    >>> bunch.data, bunch.target, bunch.id
    (['Ann left', 'No'], [[(0, 3, 'PER')], []], [7, 8])
    """
    texts, spans, ids = [], [], []
    for number, line in read_lines(path, max_bytes=max_bytes, max_line=max_line):
        if not line.strip():
            continue
        try:
            record = _read_object(line)
            texts.append(record["text"])
            spans.append(_read_spans(record))
            ids.append(record.get("id"))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    if not texts:
        raise ValueError(f"{path} contains no texts")
    return (texts, spans) if return_X_y else Bunch(data=texts, target=spans, id=ids)


def _read_object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except RecursionError:
        raise ValueError("its JSON is too deeply nested") from None
    except ValueError as error:
        raise ValueError(f"not a JSON object: {short(line)} ({short(str(error))})") from None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError(f'expected an object with a "text", found {short(record)}')
    return record


def _read_spans(record: dict[str, Any]) -> list[Span]:
    given = [key for key in KEYS if record.get(key) is not None]
    if len(given) > 1:
        raise ValueError(f"spans are given twice, as {' and as '.join(map(repr, given))}")
    spans: Any = record[given[0]] if given else []
    if not isinstance(spans, list):
        raise ValueError(f"{given[0]!r} must be a list of spans, not {short(spans)}")
    return [_read_span(span, record["text"]) for span in spans]


def _read_span(span: Any, text: str) -> Span:
    if isinstance(span, dict):
        span = [span.get(key) for key in ("start_offset", "end_offset", "label")]
    start, stop, label = read_segment(span, f"of a text of {len(text)} characters", "the spans")
    if stop > len(text):
        raise ValueError(f"the span {short(span)} ends after the text, which has {len(text)} characters")
    if not isinstance(label, str) or not label:
        raise ValueError(f"the label of the span {short(span)} must be a nonempty text")
    return start, stop, label


def dump_doccano(
    path: str | PathLike[str],
    texts: Iterable[str],
    spans: Iterable[Iterable[tuple]],
    *,
    ids: Iterable[Any] | None = None,
    key: str = "label",
) -> None:
    """Write texts and spans as JSONL that doccano imports: annotations, or predictions to correct.

    Parameters
    ----------
    path : str or path-like
        The file, which is replaced. It is written after all input has been checked.
    texts : list of str
        The texts, one line of the file each.
    spans : list of lists of (start, stop, label)
        The spans of each text in characters, as returned by :func:`load_doccano` and
        :func:`~sklearn_hocrf.text.spans_from_tags`; anything after the label, such as a probability, is ignored.
    ids : list of int or str, default=None
        Ids of the texts; None, or None in the list, means no id.
    key : {"label", "labels"}, default="label"
        Key of the spans in the file.

    Raises
    ------
    TypeError, ValueError
        If the numbers of texts, spans and ids differ, or if a span is invalid or not within its text. The message names
        the text.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import dump_doccano
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "new.jsonl")
    ...     dump_doccano(path, ["Ann left"], [[(0, 3, "PER")]])
    ...     path.read_text()
    '{"text": "Ann left", "label": [[0, 3, "PER"]]}\\n'
    """
    if key not in KEYS[:2]:
        raise ValueError(f"key must be 'label' or 'labels', got {short(key)}")
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts must be a list of str, got {short(texts)}")
    texts, spans = list(texts), list(spans)
    numbers = [None] * len(texts) if ids is None else list(ids)
    if not len(texts) == len(spans) == len(numbers):
        raise ValueError(f"there are {len(texts)} texts, {len(spans)} lists of spans and {len(numbers)} ids")
    lines = []
    for n, (text, of_text, number) in enumerate(zip(texts, spans, numbers, strict=True)):
        if not isinstance(text, str):
            raise TypeError(f"text {n} must be a str, got {short(text)} ({type(text).__name__})")
        try:
            read = [list(_read_span(tuple(span)[:3], str(text))) for span in of_text]
            named = {} if number is None else {"id": number}
            lines.append(_write_object({**named, "text": str(text), key: read}))
        except (TypeError, ValueError) as error:
            raise type(error)(f"text {n}: {error}") from None
    Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")


def _write_object(record: dict[str, Any]) -> str:
    """Return a line; lone surrogates, which UTF-8 cannot represent, are escaped."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(record, allow_nan=False)
    return line + "\n"
