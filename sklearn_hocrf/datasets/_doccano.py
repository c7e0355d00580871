"""Files of doccano: a JSON object a line, a text with its annotated spans of characters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from sklearn.utils import Bunch

from .._data.schemes import read_segment
from .._docstrings import share_docstring
from .._validation._messages import short
from ._files import load_conll
from ._lines import MAX_LINE, FileOptions, read_lines

KEYS = "label", "labels", "entities"  # of the spans: of exports, of imports, and of projects with relations
Span = tuple[int, int, str]


@overload
def load_doccano(
    path: str | PathLike[str], *, return_X_y: Literal[True], **options: Unpack[FileOptions]
) -> tuple[list[str], list[list[Span]]]: ...
@overload
def load_doccano(
    path: str | PathLike[str], *, return_X_y: Literal[False] = False, **options: Unpack[FileOptions]
) -> Bunch: ...
@share_docstring(load_conll)
def load_doccano(
    path: str | PathLike[str], *, max_bytes: int | None = None, max_line: int = MAX_LINE, return_X_y: bool = False
) -> Bunch | tuple[list[str], list[list[Span]]]:
    """Load texts and spans that were annotated with doccano, from its JSONL.

    A line is ``{"id": 1, "text": "Ann left", "label": [[0, 3, "PER"]]}``. The key of the spans may be "labels" as well,
    or "entities", of objects with "start_offset", "end_offset" and "label", as in projects with relations. Relations
    and other keys are left out. A text without any of these keys has no spans. Spans may overlap in such a file;
    :func:`~sklearn_hocrf.text.tags_from_spans` names those that do.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzipped, in UTF-8.
    max_bytes, max_line, return_X_y : as in :func:`load_conll`

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        With ``data``, a list of str; ``target``, for each text a list of (start, stop, label) in characters of the
        text, in the order of the file; ``id``, the ids as they are in the file, None where there is none.

    Raises
    ------
    ValueError
        If a line is no such object, or is too long, if a span does not lie in its text, if the file is too large or
        damaged, or has no text. The message names file and line.

    See Also
    --------
    dump_doccano : The way back.
    sklearn_hocrf.text.tags_from_spans : Spans to labels of tokens.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_doccano
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "all.jsonl")
    ...     _ = path.write_text('{"id": 7, "text": "Ann left", "label": [[0, 3, "PER"]]}\\n{"id": 8, "text": "No"}\\n')
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
        raise ValueError(f"{path} holds no text")
    return (texts, spans) if return_X_y else Bunch(data=texts, target=spans, id=ids)


def _read_object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except RecursionError:
        raise ValueError("its JSON is too deep") from None
    except ValueError as error:
        raise ValueError(f"no JSON object, {short(line)}: {short(str(error))}") from None
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
        raise ValueError(f"the span {short(span)} has no label that is text")
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
        The file, which is replaced. It is written when everything has been checked.
    texts : list of str
    spans : list of lists of (start, stop, label)
        For each text its spans in characters, as :func:`load_doccano` and
        :func:`~sklearn_hocrf.text.spans_from_tags` return them; what follows the label, a probability, is left out.
    ids : list of int or str, default=None
        Ids of the texts; None, also in the list, for no id.
    key : {"label", "labels"}, default="label"
        Name of the spans in the file.

    Raises
    ------
    TypeError, ValueError
        If texts, spans and ids do not go together, or if a span is none or does not lie in its text. The message names
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
    """Return a line; half of a surrogate pair, which UTF-8 lacks, is escaped."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(record, allow_nan=False)
    return line + "\n"
