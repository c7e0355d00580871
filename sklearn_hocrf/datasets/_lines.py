"""Read the lines of local text files, plain or gzipped, with limits on their size."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BufferedReader, BytesIO
from os import PathLike
from pathlib import Path

from .._validation._messages import short

MAX_BYTES = 2**30  # ten times 100 MB, the limit for a file on GitHub
MAX_LINE = 2**20  # characters
MAX_RATIO = 128  # of text to gzip: over ten times the ratio of any public data set (11); zlib reaches 1000
SMALL = 2**20  # bytes of text that a gzip file may hold at any ratio
CHARACTERS_AT_A_TIME = 2**16
LINE_END = re.compile("\r{0,2}\n|\r")  # "\r\r\n" is the result of a repeated conversion


class _Refused(ValueError):
    """An error in a file, before file and line are added to the message."""


def read_lines(
    path: str | PathLike, encoding: str = "utf-8-sig", max_bytes: int | None = None, max_line: int = MAX_LINE
) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its line end) of each line of a plain or gzipped text file.

    Lines end with LF, CR LF or CR. The whole file is read before the first line is yielded, so that errors are
    reported before the lines become Python objects, which may take a hundred times as much memory. A pipe is kept in
    memory, as it can be read only once.
    """
    path = Path(path)
    check_encoding(encoding)  # before the file is opened, which may not exist
    with path.open("rb") as raw:
        start = raw.read(2 if path.is_file() else (max_bytes or MAX_BYTES) + 1)
    reopen = partial(path.open, "rb") if path.is_file() else partial(BytesIO, start)
    zipped, size = start[:2] == b"\x1f\x8b", path.stat().st_size or len(start)
    if max_bytes is None:
        max_bytes = min(MAX_BYTES, max(SMALL, MAX_RATIO * size)) if zipped else MAX_BYTES
    deque(_split_lines(path, reopen, zipped, encoding, max_bytes, max_line), maxlen=0)
    yield from _split_lines(path, reopen, zipped, encoding, max_bytes, max_line)


def _split_lines(
    path: Path, reopen: Callable, zipped: bool, encoding: str, max_bytes: int, max_line: int
) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines; every error names file and line."""
    index, rest = 0, ""
    try:
        with reopen() as raw, gzip.open(raw) if zipped else raw as stream:
            for text in _read_text(stream, _new_decoder(encoding), max_bytes):
                rest += text
                held = 2 if rest.endswith("\r\r") else int(rest.endswith("\r"))  # the LF may be in the next chunk
                cut = len(rest) - held
                *lines, last = _split(rest[:cut])
                rest = last + rest[cut:]
                for line in lines:
                    yield index + 1, _checked(line, index, max_line)
                    index += 1
                _checked(last, index, max_line)
        *lines, last = _split(rest)
        for line in [*lines, last] if last else lines:
            yield index + 1, _checked(line, index, max_line)
            index += 1
    except _Refused as error:
        origin = f" (a gzip file of {path.stat().st_size} bytes)" if zipped else ""
        raise ValueError(f"{path}, line {index + 1}: {error}{origin}") from None
    except UnicodeError as error:
        reason = getattr(error, "reason", error)
        raise ValueError(f"{path}, line {index + 1}: not {encoding.removesuffix('-sig')} text ({reason})") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}, line {index + 1}: damaged gzip file ({error})") from error


def _split(text: str) -> list[str]:
    return LINE_END.split(text) if "\r" in text else text.split("\n")  # ten times as fast


def _checked(line: str, index: int, max_line: int) -> str:
    """Return a line without the byte order mark, or raise if it is too long or not text."""
    if len(line) > max_line:
        raise _Refused(f"more than max_line={max_line} characters")
    if "\0" in line:
        raise _Refused("the character U+0000 is not text: is the encoding UTF-16?")
    return line.removeprefix("\ufeff") if index == 0 else line


def _read_text(
    stream: gzip.GzipFile | BufferedReader, decoder: codecs.IncrementalDecoder, max_bytes: int
) -> Iterator[str]:
    """Yield the text in chunks; before a decoding error is raised, yield the text that precedes it."""
    n_bytes, chunk = 0, b" "
    while chunk:
        chunk = stream.read(CHARACTERS_AT_A_TIME)
        n_bytes += len(chunk)
        if n_bytes > max_bytes:
            raise _Refused(f"more than max_bytes={max_bytes} bytes of text")
        state = decoder.getstate()
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            decoder.setstate(state)
            yield decoder.decode(chunk[: max(0, len(chunk) - len(error.object) + error.start)])
            raise
        yield text


def check_encoding(encoding: str) -> None:
    """Raise a ValueError unless Python knows the text encoding."""
    _new_decoder(encoding)


def _new_decoder(encoding: str) -> codecs.IncrementalDecoder:
    """Return an incremental decoder of a text encoding."""
    try:
        with suppress(UnicodeError):  # one byte is not valid UTF-16
            b"a".decode(encoding)  # rejects codecs that are not text encodings, unlike ``codecs``
        return codecs.getincrementaldecoder(encoding)()
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"encoding={short(encoding)} is not a text encoding that Python knows") from error
