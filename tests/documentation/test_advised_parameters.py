"""Parameters of nested estimators in pages, notebooks and docstrings, such as ``step__parameter``, exist."""

import re
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, StackedSequenceLabeler, make_pipeline
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SequenceFeatureExtractor,
    TokenTransformer,
    WindowFeatures,
)

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]
PAGES += sorted((ROOT / "sklearn_hocrf").rglob("*.py"))
NAME = re.compile(r"(?<![\w.])(?:param_)?([a-z]+(?:_[a-z]+)*__[a-z]+(?:_[a-z]+)*)\b(?!\.)")
FINAL = "final_estimator=HighOrderCRF()"  # a page has to say that the default, None, has no parameters


def advised():
    lines = {page: [line for line in page.read_text(encoding="utf-8").split("\n") if "__" in line] for page in PAGES}
    found = {page: sorted(set(NAME.findall("\n".join(of_page)))) for page, of_page in lines.items()}
    return [pytest.param(page, name, id=f"{page.name}-{name}") for page, names in found.items() for name in names]


def objects(page):
    """Return the objects that pages speak of."""
    final = HighOrderCRF() if FINAL in page.read_text(encoding="utf-8") else None
    yield StackedSequenceLabeler(LogisticRegression(), final)
    for model in (HighOrderCRF(), HighOrderSemiCRF()):
        yield make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(), model)
        yield make_pipeline(WindowFeatures(), TokenTransformer(StandardScaler()), model)
    dask = pytest.importorskip("sklearn_hocrf.dask", reason="Dask is absent")
    yield dask.DaskSequenceLabeler(HighOrderCRF())


def test_there_are_some():
    assert {"final_estimator__max_order", "highordercrf__max_order"} <= {param.values[1] for param in advised()}


@pytest.mark.parametrize(("page", "name"), advised())
def test_names_are_those_of_parameters(page, name):
    if name.endswith("__sample_weight"):  # of fit
        assert name.split("__")[0] in make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).named_steps
        return
    assert any(name in estimator.get_params() for estimator in objects(page))
