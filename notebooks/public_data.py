"""Functions that read the public data sets of the notebooks, tests and benchmarks from a local folder.

The environment variable ``SKLEARN_HOCRF_DATA`` names the folder; the module downloads nothing.
"""

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from sklearn_hocrf.datasets import load_conll

N_ROWS, N_COLUMNS = 16, 8  # of a letter image


def find_data(*names: str) -> list[Path] | None:
    """Return the paths of files in the data folder, or None if the folder or any file is absent."""
    folder = os.environ.get("SKLEARN_HOCRF_DATA")
    paths = [Path(folder, name) for name in names] if folder else []
    return paths if paths and all(path.is_file() for path in paths) else None


def load_cora_references(path: str | Path) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words of bibliographic references and their fields: author, title, date ...

    The file is ``ref.train`` or ``ref.test`` of the HOSemiCRF release: Cora references in the split and tokenisation of
    Cuong, Ye, Lee and Chieu (JMLR 15, 2014). A segment is a run of equal fields.
    """
    X, y = load_conll(path, ["word", "field"])
    return [[token["word"] for token in tokens] for tokens in X], y


def load_ud_chinese(path: str | Path, *, max_word_length: float = np.inf) -> tuple[list[list[str]], list[list[tuple]]]:
    """Return Chinese sentences as characters, with their words as segments (start, stop, "_").

    The file is a part of the treebank UD Chinese GSD (universaldependencies.org; Nivre et al., LREC 2016) in CoNLL-U
    format. The function skips sentences with a word of more than ``max_word_length`` characters.
    """
    columns = [None, "form", None, "upos", *[None] * 6]
    sentences, _ = load_conll(path, columns, separator="\t", comment="#")
    X, y = [], []
    for sentence in sentences:
        words = [token["form"] for token in sentence]
        if max(map(len, words)) <= max_word_length:
            ends = np.cumsum([len(word) for word in words]).tolist()
            X.append(list("".join(words)))
            y.append([(stop - len(word), stop, "_") for word, stop in zip(words, ends, strict=True)])
    return X, y


def load_tagged_words(path: str | Path) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words and tags of a gzipped file; each line is a sentence of ``word/TAG`` pairs, separated by spaces.

    The file is ``train.txt.gz`` or ``test.txt.gz`` of khPOS 1.0, Khmer words with parts of speech (Thu, Chea and
    Sagisaka, ONA 2017).
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = [[token.rpartition("/") for token in line.split()] for line in file]
    return tuple([[token[field] for token in sentence] for sentence in sentences] for field in (0, 2))


def load_hexameters(path: str | Path) -> tuple[list[list[tuple[str, str]]], list[list[str]]]:
    """Return the syllables of verses, and the length of each: long, short or elision.

    The file is ``aeneid.jsonl.gz``, which ``fetch_data.py`` writes: the 9,840 hexameters of the Aeneid that Pedecerto
    scanned. A token is a pair of a syllable and "1" if the syllable begins a word, else "0". The number of syllables of
    a word comes from the scansion, as in L. Nolden's thesis (Leiden 2022): mention this when you report accuracies.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    X = [list(zip(line["syllables"], map(str, line["word_start"]), strict=True)) for line in lines]
    return X, [line["labels"] for line in lines]


def load_ocr_letters(path: str | Path, *, folds: Iterable[int] | None = None) -> Bunch:
    """Return handwritten words as binary images of letters, each with 16 rows of 8 pixels.

    The file, plain or gzipped, is ``letter.data``: R. Kassel's 6877 words, cleaned by B. Taskar (2003), in ten folds.
    They are copies of only 55 distinct words, and every fold contains all of these: mention this when you report
    accuracies. The result contains ``data``, a list of uint8 arrays of shape (T, 128) in which 1 is ink; ``target``, a
    list of lists of letters; ``fold``, an array of shape (n_words,); and ``feature_names``, 128 names ``p_row_column``.
    """
    data, target, fold, pixels, letters = [], [], [], [], []
    with (gzip.open if Path(path).suffix == ".gz" else open)(path, "rt", encoding="ascii") as file:
        for line in file:
            _, letter, next_letter, _, _, word_fold, *image = line.split()
            letters.append(letter)
            pixels.append(image)
            if next_letter == "-1":
                if folds is None or int(word_fold) in folds:
                    data.append(np.array(pixels, dtype=np.uint8))
                    target.append(letters)
                    fold.append(int(word_fold))
                pixels, letters = [], []
    names = [f"p_{row}_{column}" for row in range(N_ROWS) for column in range(N_COLUMNS)]
    return Bunch(data=data, target=target, fold=np.array(fold), feature_names=names)
