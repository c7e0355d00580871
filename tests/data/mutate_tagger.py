"""Change the golden files of the tagger, and load the changed files.

    python tests/data/mutate_tagger.py [NUMBER] [SEED] [guarded]

For each changed file, the tagger must raise a ValueError, or give results: labels of the model, and probabilities other
than nan. The program prints, for each file, the number of changed files and the number of those that the tagger
rejected. With ``guarded``, each file lies at the end of a memory page, before a page that cannot be read: code that
reads past the end of the file ends the process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import mmap
import random
import sys
import warnings
from pathlib import Path

import numpy as np

from sklearn_hocrf._data import tagger as module
from sklearn_hocrf.tagger import Tagger

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
NUMBERS = [0, 1, 2, 3, 7, 63, 64, 255, 256, 4096, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63, -1]
TYPES = ["F32", "F64", "U8", "U16", "U32", "U64", "I64", "BF16", "BOOL", "O", ""]


def changed_contents(content, n, seed):
    """Yield changed contents of a file."""
    draw, size = random.Random(seed), int.from_bytes(content[:8], "little")
    ways = [_bytes, _bytes, _header_text, _header_value, _header_value, _header_value, _array, _array, _array, _length]
    for _ in range(n):
        yield draw.choice(ways)(draw, content, size)


def parts_of(content):
    """Return the header of a tagger, the entries of its arrays, and the arrays' bytes."""
    size = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + size])
    return json.loads(entries.pop("__metadata__")["hocrf"]), entries, content[8 + size :]


def file_of(header, entries, body):
    """Return a file of such parts; the header may be given as text."""
    text = header if isinstance(header, str) else dumps(header)
    return framed(dumps({**entries, "__metadata__": {"hocrf": text}}).encode(), body)


def framed(text, body):
    """Return a file with the bytes of a safetensors header."""
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def dumps(content):
    return json.dumps(content, separators=(",", ":"))


def _bytes(draw, content, size):
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 3, 20])):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _length(draw, content, size):
    cut = draw.randrange(len(content))
    return draw.choice([content[:cut], content + content[:cut], content[:cut] + content[cut + draw.randrange(99) :]])


def _header_text(draw, content, size):
    text, place = bytearray(content[8 : 8 + size]), draw.randrange(size)
    text[place : place + draw.randrange(4)] = draw.choice(
        [b"", b"[", b"{", b'"', b"9" * 5, b"\xff", b"1e9", b"null", b"\\"]
    )
    return framed(bytes(text), content[8 + size :])


def _values(node):
    """Yield the containers of a header with the keys of their values."""
    if isinstance(node, (dict, list)):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _values(node[key])


def _header_value(draw, content, size):
    """Change a value of the header."""
    header, entries, body = parts_of(content)
    node, key = draw.choice(list(_values(draw.choice([header, entries]))))
    kind = draw.randrange(8)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.append(node[key])
    elif isinstance(node[key], int) and not isinstance(node[key], bool):
        near = [node[key] + draw.choice([-64, -8, -1, 1, 8, 64]), *NUMBERS]
        node[key] = draw.choice([*near[:1] * 9, *near])
    elif isinstance(node[key], str):
        node[key] = draw.choice(
            [*TYPES, "bio", "runs", "token", "lower", "length", "names", "templates", node[key] + "x"]
        )
    else:
        node[key] = draw.choice([None, True, False, [], {}, [[]], 0, "", 0.5, [[0, 0]], [[0, -9], [1, 2]]])
    return file_of(header, entries, body)


def _array(draw, content, size):
    """Change some numbers of an array."""
    header, entries, body = parts_of(content)
    entry = entries[draw.choice(sorted(entries))]
    start, stop = entry["data_offsets"]
    array = np.frombuffer(body[start:stop], module.TYPES[entry["dtype"]]).copy()
    for _ in range(draw.choice([1, 1, 2, 5]) if len(array) else 0):
        place = draw.randrange(len(array))
        if array.dtype.kind == "f":
            array[place] = draw.choice([np.nan, np.inf, -np.inf, 0.0, 1e300, -1e300, 5.0])
        else:
            values = [0, 1, 2, np.iinfo(array.dtype).max, int(array[draw.randrange(len(array))]), int(array.max()) + 1]
            array[place] = min(draw.choice(values), np.iinfo(array.dtype).max)
    return file_of(header, entries, body[:start] + array.tobytes() + body[stop:])


def mapped(content, memory):
    """Return the tagger of a file that is mapped into guarded memory."""
    read, module._read = module._read, lambda *_: memory.holding(content)
    try:
        return Tagger("mapped", mmap=True)
    finally:
        module._read = read


def check_content(content, X, memory=None):
    """Load a file and ask it everything; return whether it was refused. Whatever is wrong is an error."""
    try:
        tagger = Tagger(content) if memory is None else mapped(content, memory)
    except ValueError:
        return True
    for tokens in X:
        try:
            read = tagger.read(tokens)
            labels, marginals = tagger.predict(read), tagger.predict_marginals(read)
            segments, nbest = tagger.predict_segments(read, with_probability=True), tagger.predict_nbest(read, 3)
            log_probability = tagger.log_likelihood(tokens, labels)
        except ValueError:
            continue
        assert len(labels) == len(tokens) == len(marginals)
        assert set(map(repr, labels)) <= set(map(repr, tagger.labels))
        assert np.isfinite(marginals).all()
        assert all(0.0 <= segment[3] <= 1.0 for segment in segments)
        assert log_probability <= 0.0
        assert nbest
    return False


class Guarded:
    """Memory of some pages before one that cannot be read."""

    def __init__(self, n_bytes):
        self.stop = -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.pages = mmap.mmap(-1, self.stop + mmap.PAGESIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self.address + self.stop), ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def holding(self, content):
        """Return a view of a content that ends where the memory does."""
        first = self.address + self.stop - len(content)
        ctypes.memmove(first, content, len(content))
        return memoryview((ctypes.c_ubyte * len(content)).from_address(first)).cast("B").toreadonly()


def main(n=1000, seed=0, guarded=False):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    known = json.loads((GOLDEN / "tagger-1.json").read_text(encoding="utf-8"))
    for path in sorted(GOLDEN.glob("tagger-*.hocrf")):
        X, n_refused = known[path.stem.split("-")[1]]["X"], 0
        memory = Guarded(4 * path.stat().st_size + (1 << 16)) if guarded else None
        for number, content in enumerate(changed_contents(path.read_bytes(), n, seed)):
            try:
                n_refused += check_content(content, X, memory)
            except BaseException:
                sys.stdout.write(f"{path.name}, number {number} of seed {seed}\n")
                raise
        sys.stdout.write(f"{path.name}: {n} {n_refused}\n")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument != "guarded"]
    main(*numbers, guarded="guarded" in sys.argv)
