"""The tables of names in migration.md and hmmlearn.md: our names exist, and accept the parameters of the tables."""

import itertools
import re
from math import exp
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
import sklearn.metrics
from scipy.stats import expon, loguniform

import sklearn_hocrf
from sklearn_hocrf import HighOrderCRF, inspection, metrics, model_selection, tagger

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
NAMES = {"migration.md": ("sklearn-crfsuite, python-crfsuite", "seqeval"), "hmmlearn.md": ("hmmlearn",)}
X, Y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]


def tables():
    for page, titles in NAMES.items():
        text = (GUIDE / page).read_text(encoding="utf-8")
        for title in titles:
            rows = text.split(f"\n| {title} | sklearn_hocrf |\n")[1].split("\n\n")[0].splitlines()[1:]
            yield title, [row.rsplit(" | ", 1)[1].removesuffix(" |") for row in rows]


TABLES = dict(tables())


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Return what the cells refer to; ``tagger`` is both the module and a tagger, as it is in the table."""
    path = tmp_path_factory.mktemp("tagger") / "model.hocrf"
    crf = HighOrderCRF(1, fit_intercept=False, max_iter=1, tol=1e9).fit(X, Y)
    tagger.export_tagger(crf, path)
    one = tagger.Tagger(path)
    both = {name: getattr(one, name) for name in dir(one)} | {name: getattr(tagger, name) for name in tagger.__all__}
    modules = sklearn.metrics, metrics, model_selection, inspection, sklearn_hocrf
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    others = {"itertools": itertools, "numpy": np, "sklearn": sklearn, "exp": exp, "inf": np.inf, "c2": 0.1}
    others |= {"expon": expon, "loguniform": loguniform, "items": lambda: X[0]}
    data = {"X": X, "y": Y, "X_dev": X, "y_dev": Y, "x": X[0], "labels": Y[0], "label": "A", "t": 0, "y_pred": Y}
    data |= {"path": path, "content": path.read_bytes(), "crf": crf, "tagger": SimpleNamespace(**both)}
    return public | others | data


def ways(span):
    """Yield what a cell's code may stand for: an expression, an attribute, a parameter or its value."""
    if re.fullmatch(r"\w+ ?=[^=].*", span):
        yield f"HighOrderCRF().set_params({span})"
        yield f"HighOrderSemiCRF({span}).fit([x], [[(0, 1, 'A'), (1, 2, 'B')]])"
        yield f"crf.predict_segments(X, {span})"
        yield f"weights_table(crf, {span})"
        yield f"segment_f1_score([['O']], [['O']], {span})"
    elif re.fullmatch(r'"\w+"', span):
        yield f"segment_f1_score([['O']], [['O']], scheme={span})"
    else:
        yield from (span, f"crf.{span}", f"tagger.{span}", f"crf.get_params()[{span!r}]")


@pytest.mark.parametrize("title", TABLES)
def test_right_column(title, names):
    wrong = []
    for cell in TABLES[title]:
        for span in re.findall(r"(?<!\})`([^`]+)`", cell):
            errors = []
            names["path"].write_bytes(names["content"])  # the row above may have written another file
            for way in ways(span):
                try:
                    eval(way, names)
                    break
                except Exception as error:
                    errors.append(f"{way}: {error!r}")
                    if "needs scikit-learn >= 1.9" in str(error):
                        break
            else:
                wrong.append((span, errors))
    assert not wrong


def test_item_sequences(names):
    """The error for python-crfsuite's sequences names the method that gives lists."""
    items, crf = pytest.importorskip("pycrfsuite").ItemSequence(X[0]), names["crf"]
    for call in (lambda: crf.fit([items], Y[:1]), lambda: crf.predict([items]), lambda: names["tagger"].predict(items)):
        with pytest.raises(TypeError, match=r"pass its items\(\)$"):
            call()
    with pytest.raises(TypeError, match=r"pass \[X\.items\(\)\]$"):
        crf.predict(items)
    assert crf.predict([items.items()])[0] == names["tagger"].predict(items.items()) == crf.predict(X[:1])[0]
