"""Fetch the public data of the notebooks, tests and benchmarks: python notebooks/fetch_data.py FOLDER [SET ...]

Without sets, the program fetches all sets with an address in data_sources.tsv. It writes a file only if the SHA-256 of
the uncompressed content is the one listed there, and only checks existing files. To convert three sets, it requires
packages: usaddress (pip install usaddress==0.5.16), probablepeople (pip install probablepeople==0.5.6) and hexameter
(pip install MQDQParser==0.6.2 "ipython<9"). docs/examples/data.md lists sources and licences. Then set
SKLEARN_HOCRF_DATA to FOLDER.
"""

import gzip
import hashlib
import io
import json
import sys
import urllib.request
import xml.etree.ElementTree as ET
import zipfile
from itertools import chain
from pathlib import Path

SOURCES = Path(__file__).with_name("data_sources.tsv")


def labelled(files, features_of, key_of, **given):
    """Return one JSON line for each distinct key of strings in XML files: tokens, labels and features of a package."""
    rows = {}
    for string in chain.from_iterable(map(ET.fromstring, files)):
        tokens, labels = zip(*((token.text, token.tag) for token in string), strict=True)
        row = {of: get(string) for of, get in given.items()} | {"tokens": tokens, "labels": labels}
        rows.setdefault(key_of(string), row | {"features": features_of(tokens)})
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values()).encode()


def text_of(string):
    return "".join(string.itertext())


def labelled_addresses(xml):
    """Return the addresses of the usaddress training file as JSON lines."""
    from usaddress import tokens2features

    return labelled([xml], tokens2features, text_of, text=text_of)


def labelled_names(*files):
    """Return the names of the probablepeople training files as JSON lines."""
    from probablepeople import tokens2features

    return labelled(files, tokens2features, lambda string: tuple(token.text for token in string))


def scanned_lines(xml):
    """Return scanned verses as JSON lines: syllables, whether each begins a word, and their lengths.

    Pedecerto's XML marks the length of each syllable of a word; MQDQParser divides the word into syllables. "SY" marks
    an elided last syllable, and "PE" an elided first one.
    """
    from bs4 import BeautifulSoup
    from mqdq.rhyme import _syllabify_word  # the public functions also elide, and mark long syllables

    rows = []
    for line in BeautifulSoup(xml, "xml").find_all("line", pattern=lambda pattern: pattern != "corrupt"):
        row = {"syllables": [], "word_start": [], "labels": []}
        for word in line("word"):
            syllables = [syllable.lower() for syllable in _syllabify_word(word).syls]
            lengths = ["short" if mark in "bc" else "long" for mark in word["sy"][1::2]]
            before, after = ([["elision"], []][word.get("mf") != kind] for kind in ("PE", "SY"))
            row["syllables"] += syllables
            row["word_start"] += [int(t == 0) for t in range(len(syllables))]
            row["labels"] += before + lengths + after
        rows.append(json.dumps(row) + "\n")
    return "".join(rows).encode()


def forms_and_tags(conllu):
    """Return the form, part of speech and features of each word of a CoNLL-U file."""
    rows = [line.split("\t") for line in conllu.decode().splitlines() if not line.startswith("#")]
    return ("\n".join("\t".join(row[1:6:2]) for row in rows if row[0].isdigit() or not row[0]) + "\n").encode()


CONVERTERS = {
    "gz": gzip.decompress,
    "conllu": forms_and_tags,
    "labeled.xml": labelled_addresses,
    "company_labeled.xml": labelled_names,
    "VERG-aene.xml": scanned_lines,
}


def fetched(name, addresses):
    """Fetch a file from its addresses, separated by spaces, and return the uncompressed content."""
    contents = []
    for address in addresses.split():
        with urllib.request.urlopen(address, timeout=60) as response:
            contents.append(response.read())
    source, kind = address.rpartition("/")[2], address.rpartition(".")[2]
    if kind == "zip":
        return zipfile.ZipFile(io.BytesIO(contents[0])).read(name.removesuffix(".gz"))
    convert = CONVERTERS.get(source) or CONVERTERS.get(kind, bytes)
    return convert(*contents)


def fetch(folder, sets=()):
    """Fetch absent files, check existing ones, and print the outcomes; return the number of wrong or absent files."""
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
