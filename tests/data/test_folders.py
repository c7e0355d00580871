"""Batches in folders: they load as they were saved, and wrong folders raise errors before any computation."""

import itertools
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import DenseColumns, SequenceBatch, TokenColumn, mapped_file
from scipy import sparse

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

ARRAYS = ("offsets", "indptr", "indices", "values")


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_the_disk():
    """What is written here need not outlast a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


def array_file(folder, name):
    """Return the file of an array of a saved batch."""
    return folder / f"arrays.{json.loads((folder / 'batch.json').read_text())['generation']}" / f"{name}.npy"


def assert_same(one, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    assert one.n_attributes == other.n_attributes
    assert (one.attribute_names is None) == (other.attribute_names is None)
    if one.attribute_names is not None:
        assert list(one.attribute_names) == list(other.attribute_names)
    assert list(one.columns) == list(other.columns)
    for name, column in one.columns.items():
        if isinstance(column, TokenColumn):
            texts = [np.array([*c.values, None], dtype=object)[c.codes] for c in (column, other.columns[name])]
            assert texts[0].tolist() == texts[1].tolist()
        else:
            np.testing.assert_array_equal(column, other.columns[name], strict=True)
    assert (one.dense is None) == (other.dense is None)
    if one.dense is not None:
        for part, other_part in zip(one.dense, other.dense, strict=True):
            np.testing.assert_array_equal(part, other_part, strict=True)


TEXTS = st.sampled_from(["", "a", "é", "日本", "\ud800", "a\nb", "#"])


@st.composite
def batches(draw):
    lengths = draw(st.lists(st.integers(0, 4), max_size=4))
    n_tokens, n_attributes = sum(lengths), draw(st.integers(1, 5))
    dense = draw(st.booleans())
    sparse = list(range(n_attributes - dense))
    rows = [sorted(draw(st.sets(st.sampled_from(sparse)))) if sparse else [] for _ in range(n_tokens)]
    indices = [attribute for row in rows for attribute in row]
    values = draw(st.sampled_from([None, "some"])) and [float(2 + i) for i in range(len(indices))]
    names = draw(st.sampled_from([None, "some"])) and [f"{draw(TEXTS)}{i}" for i in range(n_attributes)]
    known = draw(st.lists(TEXTS, min_size=1, unique=True))
    codes = [draw(st.integers(-1, len(known) - 1)) for _ in range(n_tokens)]
    columns = {
        "w": TokenColumn(np.array(codes, dtype=np.int32), np.array([*known, None], dtype=object)[:-1]),
        0: np.array([draw(st.sampled_from([0.5, np.nan])) for _ in range(n_tokens)]),
        "nothing": TokenColumn(np.full(n_tokens, -1, dtype=np.int32), np.empty(0, dtype=object)),
    }
    kind = draw(st.sampled_from([np.float32, np.float64]))
    table = DenseColumns([n_attributes - 1], np.arange(1, n_tokens + 1, dtype=kind)[:, None]) if dense else None
    offsets = np.cumsum([0, *lengths])
    indptr = np.cumsum([0, *map(len, rows)])
    return SequenceBatch(offsets, indptr, indices, values, n_attributes, names, columns, dense=table)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "batch"


@given(batches(), st.lists(st.integers(0, 4), max_size=2), st.sampled_from(["r", None]))
def test_what_is_saved_is_read(tmp_path_factory, batch, cuts, mmap_mode):
    folder = tmp_path_factory.mktemp("saved") / "batch"
    bounds = [0, *sorted(min(c, len(batch)) for c in cuts), len(batch)]
    SequenceBatch.save_all(folder, (batch[i:j] for i, j in zip(bounds, bounds[1:], strict=False)))
    again = SequenceBatch.load(folder, mmap_mode=mmap_mode)
    assert_same(batch, again)
    assert_same(batch, pickle.loads(pickle.dumps(again)))
    for i, j in zip(bounds, bounds[1:], strict=False):
        assert_same(batch[i:j], again[i:j])
    assert not any(getattr(again, name) is not None and getattr(again, name).flags.writeable for name in ARRAYS)
    assert (mapped_file(again.indptr) is not None) == (mmap_mode == "r")
    assert os.listdir(folder.parent) == ["batch"]
    shutil.rmtree(folder.parent)


def test_batches_of_one_extractor(folder):
    """Chunks may lack values, texts and dense columns that others have."""
    X = [[{"w": "a", "n": None}], [{"w": "b", "n": 2.0}, {"w": None, "n": 1.0}], [{"w": None, "n": None}]]
    extractor = SequenceFeatureExtractor([("w", 0), ("n", 0), ("w", 1)]).fit(X)
    SequenceBatch.save_all(folder, (extractor.transform([x]) for x in X))
    assert_same(extractor.transform(X), SequenceBatch.load(folder))


def test_dense_columns_where_the_first_batch_has_them(tmp_path):
    rows = [np.ones((2, 2)), np.array([[0.0, 0.0], [0.0, 3.0]])]
    dense = DenseColumns(np.arange(2), rows[0])
    parts = [SequenceBatch.from_csr(sparse.csr_array((2, 2)), [0, 2], ["a", "b"], None, dense)]
    parts.append(SequenceBatch.from_csr(sparse.csr_array(rows[1]), [0, 2], ["a", "b"]))
    assert [part.dense is not None for part in parts] == [True, False]
    for name, order in (("dense", [0, 1]), ("sparse", [1, 0])):
        SequenceBatch.save_all(tmp_path / name, (parts[i] for i in order))
        again = SequenceBatch.load(tmp_path / name)
        assert (again.dense is not None) == (name == "dense")
        np.testing.assert_array_equal(again.toarray(), np.concatenate([rows[i] for i in order]))


def some_batch():
    X = [["the", "old", "man"], ["the", "man"], ["é"]]
    return SequenceFeatureExtractor([("w", 0), (("w", -1), ("w", 0))]).fit_transform(X)


def test_nothing_is_overwritten_unasked(folder):
    batch = some_batch()
    batch.save(folder)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        batch.save(folder)
    batch[1:].save(folder, overwrite=True)
    assert_same(batch[1:], SequenceBatch.load(folder))
    assert os.listdir(folder.parent) == ["batch"]
    other = folder.parent / "other"
    other.mkdir()
    (other / "mine").write_text("precious")
    batch.save(other, overwrite=True)
    assert (other / "mine").read_text() == "precious"
    assert_same(batch, SequenceBatch.load(other))
    (other / "batch.json").write_text("{}")
    with pytest.raises(ValueError, match="is not the header of a saved SequenceBatch"):
        batch.save(other, overwrite=True)
    assert sorted(path.name.partition(".")[0] for path in other.iterdir()) == ["arrays", "batch", "mine"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_of_a_link_its_target_is_replaced(folder):
    batch, link = some_batch(), folder.parent / "link"
    batch.save(folder)
    link.symlink_to(folder)
    batch[1:].save(link, overwrite=True)
    assert_same(batch[1:], SequenceBatch.load(folder))
    assert link.is_symlink()
    assert sorted(os.listdir(folder.parent)) == ["batch", "link"]


MIXED = [np.array([1.0]), TokenColumn(np.zeros(1, np.int32), np.array(["x"], dtype=object))]


def vector_batch(row):
    return SequenceBatch([0, 1], [0, 0], [], None, 1, dense=DenseColumns([0], row[None]))


def test_a_failure_leaves_nothing_behind(folder):
    batch = some_batch()
    batch.save(folder)

    def parts():
        yield batch
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        SequenceBatch.save_all(folder, parts(), overwrite=True)
    assert_same(batch, SequenceBatch.load(folder))
    assert os.listdir(folder.parent) == ["batch"]
    other = SequenceFeatureExtractor([("w", 0)]).fit_transform([["x"]])
    for bad, error, message in [
        ([], ValueError, "no batch"),
        ([batch, other], ValueError, "batch 1 has 1 features, but batch 0 has"),
        ([batch, [["the"]]], TypeError, "batch 1 is a list"),
        ([SequenceBatch([0], [0], [], None, 1, columns={(1, 2): np.empty(0)})], TypeError, "must be a str or an int"),
        ([SequenceBatch([0], [0], [], None, 1, [3])], TypeError, "names of features must be str"),
        ([SequenceBatch([0], [0], [], None, 1, [n]) for n in "ab"], ValueError, "batch 1 have other names"),
        ([SequenceBatch([0, 1], [0, 0], [], None, 1, None, c) for c in ({"a": [1.0]}, {})], ValueError, "raw columns"),
        ([SequenceBatch([0, 1], [0, 0], [], None, 1, None, {"a": c}) for c in MIXED], ValueError, "has numbers in"),
        ([vector_batch(np.float32([1])), vector_batch(np.array([1 / 3]))], ValueError, "dense columns of float64"),
    ]:
        with pytest.raises(error, match=message):
            SequenceBatch.save_all(folder.parent / "new", bad)
    assert os.listdir(folder.parent) == ["batch"]


def test_features_of_segments_are_not_saved(folder):
    batch = SegmentFeatureExtractor(length="gamma").fit_transform(some_batch())
    with pytest.raises(ValueError, match="segment features cannot be saved"):
        batch.save(folder)


def with_values(folder):
    tokens = [{"w": word, "n": number, "v": np.ones(2)} for word, number in (("a", 2.0), ("b", 3.0), ("a", 1.0))]
    SequenceFeatureExtractor([("w", 0), ("n", 0), ("v", 0)]).fit_transform([tokens[:2], tokens[2:]]).save(folder)


@pytest.mark.parametrize("number", range(12))
def test_wrong_files_are_refused(folder, number):
    with_values(folder)
    paths = sorted(array_file(folder, "indices").parent.iterdir())
    assert len(paths) == 12
    path, name = paths[number], paths[number].stem
    good, array = path.read_bytes(), np.load(path)

    def refused(match=None):
        with pytest.raises(ValueError, match=match):
            SequenceBatch.load(folder, mmap_mode=[None, "r"][number % 2])

    for bad in (good[:-1], good[:100], b"", b"\x93NUMPY", pickle.dumps(array), b"PK\x03\x04" + good):
        path.write_bytes(bad)
        refused(name)
    for old, new in ((b"} ", b"}["), (b"': '", b"': ,"), (b" 'fortran", b"b'fortran")):
        path.write_bytes(good.replace(old, new, 1))  # numpy lets errors of Python's tokenizer and of sorting pass
        refused("truncated or not a .npy file")
    np.save(path, array.astype(np.int16))
    refused("int16")
    np.save(path, np.array(array.tolist(), dtype=object), allow_pickle=True)
    refused("truncated or not a .npy file")
    np.save(path, array[:-1])
    refused("shape")
    path.unlink()
    refused("missing")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("offsets", 0, 1),
        ("offsets", 1, -1),
        ("offsets", -1, 4),
        ("offsets", 1, 2**62),
        ("indptr", 1, 7),
        ("indptr", -1, 2**40),
        ("indices", 0, -1),
        ("indices", -1, 1000),
        ("dense_attributes", 0, -1),
        ("dense_attributes", 1, 1000),
        ("dense_attributes", 0, 0),  # which sparse entries have
        ("column_0", 0, 2),
        ("column_0", 0, -2),
        ("names_lengths", 0, -1),
        ("names_lengths", 0, 2**31 - 1),
        ("names_texts", 0, 0xFF),
        ("names_texts", 0, 0xC3),
        ("column_0_values_lengths", 0, 5),
    ],
)
def test_numbers_that_point_outside_are_refused(folder, name, place, value):
    with_values(folder)
    path = array_file(folder, name)
    array = np.load(path)
    array[place] = value
    np.save(path, array)
    with pytest.raises(ValueError, match=r"must|ascend|lengths|sparse entries"):
        SequenceBatch.load(folder)


def test_wrong_headers_are_refused(folder):
    with_values(folder)
    path = folder / "batch.json"
    good = json.loads(path.read_text())

    def refused(header, match):
        path.write_text(header if isinstance(header, str) else json.dumps(header))
        with pytest.raises(ValueError, match=match):
            SequenceBatch.load(folder)

    refused("{", "not valid JSON")
    refused("[" * 100_000, "not valid JSON")
    refused("[]", "not the header")
    refused({**good, "format": "other"}, "not the header")
    refused({**good, "format_version": 1}, "format version 1; this version of the package reads 2")
    for generation in (None, "", "../" + good["generation"], good["generation"][1:]):
        refused({**good, "generation": generation}, "generation")
    refused({**good, "generation": 32 * "0"}, "the array 'indices' is missing")
    for name, bad in (("n_tokens", -1), ("n_tokens", 2.0), ("n_sequences", True), ("columns", {}), ("arrays", [])):
        refused({**good, name: bad}, "lacks sizes, columns or arrays")
    refused({**good, "n_tokens": 2}, "shape")
    refused({**good, "n_attributes": 1}, "shape|must lie")
    refused({**good, "columns": [{"field": [], "kind": "text"}]}, "no raw column")
    refused({**good, "columns": [{"field": "w", "kind": "code"}]}, "no raw column")
    refused({**good, "columns": [*good["columns"], {"field": "more", "kind": "text"}]}, "missing")
    refused({**good, "arrays": {**good["arrays"], "offsets": 1}}, "missing")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="not a saved SequenceBatch"):
        SequenceBatch.load(folder)
    with pytest.raises(FileNotFoundError, match="not a saved SequenceBatch"):
        SequenceBatch.load(folder.parent / "nowhere")
    with pytest.raises(ValueError, match="mmap_mode must be"):
        SequenceBatch.load(folder, mmap_mode="r+")


# ---- several processes


def two_batches():
    """Return batches of other sequences and features, whose arrays have the same shapes."""
    lengths = [[3, 1, 2], [1, 3, 2]]
    extractor = SequenceFeatureExtractor([("w", 0)]).fit([["0", "1"]])
    return [extractor.transform([[str((i + k) % 2)] * n for i, n in enumerate(lengths[k])]) for k in (0, 1)]


def is_same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("offsets", "indptr", "indices"))


def assert_nothing_left(folder):
    assert sorted(os.listdir(folder)) == sorted([array_file(folder, "indices").parent.name, "batch.json"])
    assert os.listdir(folder.parent) == [folder.name]


IMPORTED = os.pathsep.join(map(str, Path(__file__).parents[:2]))  # where processes find this module and ``internals``
KILLED = """
import os, shutil, signal, sys
from pathlib import Path

sys.path[:0] = sys.argv[2].split(os.pathsep)  # where Python does not look for it by itself under PYTHONSAFEPATH
from tests_of_folders import SequenceBatch, assert_nothing_left, is_same, two_batches

from sklearn_hocrf._data import folders

folders.SECONDS_OF_LEFTOVERS = -1  # nothing else writes
os.fsync = lambda descriptor: None  # which is slow, and of no use here
folder = Path(sys.argv[1])
one, other = two_batches()
LOOKED_AT = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir"}


def save_and_die(moment):  # before the file operation of that number
    left = [moment]

    def hook(event, args):
        left[0] -= event in LOOKED_AT
        if left[0] < 0:
            left[0] = 10**9  # os.kill comes here, too
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        sys.addaudithook(hook)
        other.save(folder, overwrite=True)
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


for is_first in (True, False):
    seen, moment = [], 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not is_first:
            one.save(folder)
        is_killed = save_and_die(moment)
        try:
            batch = SequenceBatch.load(folder)
            seen.append("old" if is_same(batch, one) else "new" if is_same(batch, other) else "mixed")
        except FileNotFoundError:
            seen.append("none")
        one.save(folder, overwrite=True)
        assert_nothing_left(folder)
        if not is_killed:
            break
        moment += 1
    print(" ".join(dict.fromkeys(seen)), len(seen) > 15)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs kill -9")
@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_a_whole_batch(folder):
    """At each of its file operations; the next writer removes what is left."""
    script = KILLED.replace("tests_of_folders", Path(__file__).stem)
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder), IMPORTED]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.stderr, process.stdout.splitlines()) == ("", ["none new True", "old new True"])


def test_leftovers_are_removed_after_a_day(folder):
    batch, now = some_batch(), time.time()
    batch.save(folder)
    left = [folder / f"arrays.{letter * 32}" for letter in "abc"]
    for path, hours in zip(left, (0, 23, 25), strict=True):
        path.mkdir()
        (path / "indices.npy").touch()
        for one in (path / "indices.npy", path):
            os.utime(one, (now - 3600 * hours,) * 2)
    os.utime(left[0], (now - 90_000,) * 2)  # but a file in it is new
    batch[1:].save(folder, overwrite=True)
    assert_same(batch[1:], SequenceBatch.load(folder))
    assert [path.exists() for path in left] == [True, True, False]


WRITER = """
import os, sys
from pathlib import Path

sys.path[:0] = sys.argv[2].split(os.pathsep)
from tests_of_folders import two_batches

os.fsync = lambda descriptor: None  # which is slow, and of no use here
batch = two_batches()[int(sys.argv[3])]
while not Path(sys.argv[1] + ".end").exists():
    batch.save(sys.argv[1], overwrite=True)
"""


@pytest.mark.slow
def test_two_writers_and_a_reader(folder):
    """A thousand loads, none of which is mixed, while two processes replace the batch again and again."""
    batches, end = two_batches(), folder.with_name("batch.end")
    batches[0].save(folder)
    script = WRITER.replace("tests_of_folders", Path(__file__).stem)
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder), IMPORTED]
    writers = [subprocess.Popen([*command, str(k)]) for k in (0, 1)]
    seen, latest = set(), time.monotonic() + 60
    try:
        for n_loads in itertools.count():
            if time.monotonic() > latest or (n_loads >= 1000 and len(seen) == 2):
                break
            again = SequenceBatch.load(folder)
            seen.add([is_same(again, one) for one in batches].index(True))
    finally:
        end.touch()
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
        end.unlink()
    assert seen == {0, 1}
    batches[1].save(folder, overwrite=True)
    assert is_same(SequenceBatch.load(folder), batches[1])


# ---- training from files


def labelled(rng, n=60, most=12):
    lengths = rng.integers(1, most, size=n)
    X = [[f"w{rng.integers(9)}" for _ in range(length)] for length in lengths]
    y = [np.array([(ord(word[1]) + i) % 3 for i, word in enumerate(x)]) for x in X]
    return X, y


def test_training_from_files_has_the_same_bits(folder):
    X, y = labelled(np.random.default_rng(0))
    batch = SequenceFeatureExtractor(token_features=None).fit_transform(X)
    batch.save(folder)
    mapped = SequenceBatch.load(folder)
    for make in (
        lambda: HighOrderCRF(max_order=2, feature_order=1, max_iter=5),
        lambda: HighOrderCRF(solver="sgd", max_iter=2, random_state=0),
        lambda: HighOrderSemiCRF(max_iter=3),
    ):
        with pytest.warns(match="did not converge"):
            one, other = make().fit(batch, y), make().fit(mapped, y)
        np.testing.assert_array_equal(one.coef_.toarray(), other.coef_.toarray())
        np.testing.assert_array_equal(one.pattern_coef_, other.pattern_coef_)
        assert list(one.feature_names_in_) == list(other.feature_names_in_)
        assert os.listdir(folder.parent) == ["batch"]
        names = os.listdir(array_file(folder, "indices").parent)
        assert all(name.endswith(".npy") for name in names)  # scratch files have no names


# ---- pieces
