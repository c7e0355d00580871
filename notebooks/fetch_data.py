"""Fetch the public data of the notebooks, tests and benchmarks: python notebooks/fetch_data.py FOLDER [SET ...]

Without sets, all that have an address in data_sources.tsv. A file is written only if the SHA-256 of its uncompressed
content is the one given there; files that exist are only checked. usaddress needs its package: pip install
usaddress==0.5.16. docs/guide/data.md has the sources and the licences. Set SKLEARN_HOCRF_DATA to FOLDER afterwards.
"""

import gzip
import hashlib
import io
import json
import sys
import urllib.request
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

SOURCES = Path(__file__).with_name("data_sources.tsv")


def labelled_addresses(xml):
    """Return the addresses of usaddress' training file, each once, with the features of the package: JSON lines."""
    from usaddress import tokens2features

    rows = {}
    for address in ET.fromstring(xml):
        tokens, labels = zip(*((token.text, token.tag) for token in address), strict=True)
        row = {"tokens": tokens, "labels": labels, "features": tokens2features(tokens)}
        rows.setdefault("".join(address.itertext()), row)
    return "".join(json.dumps({"text": text, **row}, ensure_ascii=False) + "\n" for text, row in rows.items()).encode()


def forms_and_tags(conllu):
    """Return form, part of speech and features of the words of a CoNLL-U file."""
    rows = [line.split("\t") for line in conllu.decode().splitlines() if not line.startswith("#")]
    return ("\n".join("\t".join(row[1:6:2]) for row in rows if row[0].isdigit() or not row[0]) + "\n").encode()


def fetched(name, address):
    """Return the uncompressed content of a file from its address."""
    with urllib.request.urlopen(address, timeout=60) as response:
        content = response.read()
    kind = address.rpartition(".")[2]
    if kind == "zip":
        return zipfile.ZipFile(io.BytesIO(content)).read(name.removesuffix(".gz"))
    convert = {"gz": gzip.decompress, "xml": labelled_addresses, "conllu": forms_and_tags}.get(kind, bytes)
    return convert(content)


def fetch(folder, sets=()):
    """Fetch what is absent, check what is there, and print the outcome; return how many files are wrong or absent."""
    n_wrong, rows = 0, [line.split("\t") for line in SOURCES.read_text(encoding="utf-8").splitlines()[1:]]
    if unknown := sorted(set(sets) - {name.partition("/")[0] for name, *_ in rows}):
        raise SystemExit(f"no such sets: {', '.join(unknown)}")
    for name, expected, address in rows:
        path = Path(folder, name)
        if (sets and path.parent.name not in sets) or (address == "-" and not path.exists()):
            continue
        opener = gzip.open if path.suffix == ".gz" else open
        try:
            is_new = not path.exists()
            content = fetched(name, address) if is_new else path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" and not is_new else content
            found = hashlib.sha256(content).hexdigest()
            if is_new and found == expected:
                path.parent.mkdir(parents=True, exist_ok=True)
                with opener(path, "wb") as file:
                    file.write(content)
            outcome = "as expected" if found == expected else f"has SHA-256 {found}, not {expected}"
        except (OSError, ImportError, KeyError) as error:
            outcome = f"not fetched: {error}"
        n_wrong += outcome != "as expected"
        print(f"{name}: {outcome}")
    return n_wrong


if __name__ == "__main__":
    raise SystemExit(fetch(sys.argv[1], sys.argv[2:]) > 0 if len(sys.argv) > 1 else __doc__)
