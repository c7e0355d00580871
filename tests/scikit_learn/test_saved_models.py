"""Model files of skops and pickle: their contents and sizes, and files of earlier versions."""

import json
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import TemplateVocabularies, pack_texts, unpack_texts
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusals
from saved_models import TAGS, estimators, fitted
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

import sklearn_hocrf
from sklearn_hocrf import TRUSTED_TYPES
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

sio = pytest.importorskip("skops.io", reason="skops is absent")

GOLDEN = Path(__file__).parents[1] / "golden"
USERS = ["saved_models.ends_in_vowel", "saved_models.n_tokens", "saved_models.parts_of"]
NAMES = [*estimators(), "stream"]


def reloaded(model):
    return sio.loads(sio.dumps(model), trusted=[*TRUSTED_TYPES, *USERS])


# --- every documented model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_models_answer_the_same(name):
    model, X = fitted(name)
    again = reloaded(model)
    assert again.predict(X) == model.predict(X)
    for question in "predict_marginals", "log_likelihood":
        if hasattr(model, question):
            arguments = (X,) if question == "predict_marginals" else (X, TAGS)
            for ours, theirs in zip(
                getattr(again, question)(*arguments), getattr(model, question)(*arguments), strict=True
            ):
                assert_array_equal(ours, theirs)
    assert again.get_params().keys() == model.get_params().keys()
    assert_array_equal(again.feature_names_in_, model.feature_names_in_) if hasattr(
        model, "feature_names_in_"
    ) else None
    assert pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)


def test_trusted_types_are_those_that_models_need():
    needed = {name for model, _ in map(fitted, NAMES) for name in sio.get_untrusted_types(data=sio.dumps(model))}
    assert needed == {*TRUSTED_TYPES, *USERS}
    assert isinstance(TRUSTED_TYPES, tuple)
    assert list(TRUSTED_TYPES) == sorted(TRUSTED_TYPES)


def test_names_in_files_of_models_stay():
    """A class that moves must remain importable by its old name, which files of released versions hold."""
    frozen = (GOLDEN / "trusted_types.txt").read_text(encoding="utf-8").split()
    assert list(TRUSTED_TYPES) == frozen


def test_token_functions_are_kept_by_name():
    words = [["Ann", "met"], ["x-y"]]
    functions = ["lower", "is_upper", "length", "prefix2"]
    extractor = SequenceFeatureExtractor(token_features=functions).fit(words)
    assert extractor.token_features_ == {name: ("w", name) for name in functions}
    again = reloaded(extractor)
    assert again.token_features_ == extractor.token_features_
    assert list(again.transform(words).feature_names) == list(extractor.transform(words).feature_names)
    assert_array_equal(again.transform(words).toarray(), extractor.transform(words).toarray())


def test_steps_share_names_after_loading():
    """Else each batch would be compared with the names of fit, one by one."""
    model, X = fitted("texts")
    again = reloaded(model)
    batch = again[:-1].transform(X)
    assert batch.feature_names is again[-1]._state.features.names


def test_keys_of_training_tokens_are_saved():
    """They were lost in files of skops, and with them the warning."""
    for name in "CRF on dicts", "vectorizer":
        again, tokens = reloaded(fitted(name)[0]), [[{"w": "Ann", "title": True}]]
        with pytest.warns(UserWarning, match="no token of X has the key 'n', which every training token had"):
            again.predict(tokens)


# --- texts as arrays --------------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=5)))
def test_texts_come_back(texts):
    data, lengths = pack_texts(texts)
    assert data.dtype == np.uint8
    assert lengths.dtype == np.int32
    assert unpack_texts((data, lengths)) == texts


def test_other_objects_stay_as_they_are():
    assert unpack_texts(pack_texts(["a", 1, None])) == ["a", 1, None]


DATA, LENGTHS = pack_texts(["né", "a"])


def vocabularies():
    """Return the vocabularies of templates with more combinations than an int64 can hold."""
    rng = np.random.default_rng(0)
    X = [[tuple(map(str, row)) for row in rng.integers(0, 99, (60, 9))]]
    extractor = SequenceFeatureExtractor([[(f, o) for f in range(9) for o in (0, 1)], [(0, 0)]]).fit(X)
    return extractor._vocabularies


def test_vocabularies_come_back():
    ours = vocabularies()
    again = pickle.loads(pickle.dumps(ours))
    assert_array_equal(again.names(), ours.names())
    assert [known.template for known in again.all] == [known.template for known in ours.all]


# --- earlier versions -------------------------------------------------------------------------------------------------

VERSIONS = sorted(path.stem.removeprefix("answers-") for path in GOLDEN.glob("answers-*.json"))


@pytest.mark.parametrize("kind", ["crf", "semicrf"])
@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_released_versions_load(kind, version):
    known = json.loads((GOLDEN / f"answers-{version}.json").read_text(encoding="utf-8"))[kind]
    with warnings.catch_warnings(record=True, action="always") as caught:
        *transformers, model = sio.load(GOLDEN / f"{kind}-{version}.skops", trusted=TRUSTED_TYPES)
    told = [warning for warning in caught if issubclass(warning.category, InconsistentVersionWarning)]
    assert len(told) == (0 if version == sklearn_hocrf.__version__ else len(transformers) + 1)
    X = known["X"]
    for transformer in transformers:
        X = transformer.transform(X)
    assert model.predict(X) == known["labels"]
    clone(model)  # parameters that are newer than the file have defaults on the class
    for ours, theirs in zip(model.predict_marginals(X), known["marginals"], strict=True):
        assert_allclose(ours, theirs, atol=1e-12)


def test_there_are_files_of_this_version_or_earlier_ones():
    assert VERSIONS
    for version in VERSIONS:
        for kind in "crf", "semicrf":
            assert zipfile.is_zipfile(GOLDEN / f"{kind}-{version}.skops")


STATE = vocabularies().__getstate__()


def broken(**change):
    """Set the state of vocabularies, one part of it changed."""
    ((name, function),) = change.items()
    object.__new__(TemplateVocabularies).__setstate__({**STATE, name: function(STATE[name])})


test_refusals = refusals(
    (lambda: sio.loads(sio.dumps(fitted("a function of the user")[0]), trusted=TRUSTED_TYPES),
     (Exception, "ends_in_vowel")),
    (unpack_texts,
     (".", (DATA, LENGTHS[:-1]), (DATA, LENGTHS + 1), (DATA, np.array([-1, 4], np.int32)),
      (DATA, LENGTHS.astype(float)), (DATA, LENGTHS[:, None]), (DATA[:-2], LENGTHS), (DATA.astype(np.int32), LENGTHS),
      (np.full(3, 255, np.uint8), LENGTHS), (DATA,), "né")),
    (lambda change: broken(**change),
     (".", {"fields": lambda fields: fields[:-1]}, {"fields": lambda fields: [99, *fields[1:]]},
      {"templates": lambda templates: templates[:1]}, {"templates": lambda templates: templates[::-1]},
      {"templates": lambda templates: [templates[0], ((99, 0),)]}, {"n_labels": lambda n: n[:-1]},
      {"n_labels": lambda n: n + 1}, {"n_labels": lambda n: n * 0 - 1},
      {"labels": lambda packed: (packed[0][::-1], packed[1])}, {"n_codes": lambda n: n + 1},
      {"n_codes": lambda n: n[:1]}, {"n_codes": lambda n: n[::-1]}, {"codes": lambda codes: codes[::-1]},
      {"codes": lambda codes: codes - 1}, {"codes": lambda codes: codes * 10**6},
      {"codes": lambda codes: codes * 1.0})),
)  # fmt: skip
