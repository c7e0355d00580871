"""Write models with skops, change integers and bytes in the files, and load them: ``python mutate_files.py``.

Run the program with NUMBA_BOUNDSCHECK=1, so that a kernel that reads outside an array raises an IndexError instead of
reading on. For each changed file, loading or prediction must raise a ValueError, or prediction must give results. The
program prints one line for each kind of model: its name, the number of changed files, the number of files that could
not be loaded, and any other outcomes.
"""

import io
import json
import sys
import warnings
import zipfile

import numpy as np
import skops.io
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SegmentLogOddsEncoder, SequenceFeatureExtractor

X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
TAGS = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
UNEQUAL = Constraints(allow=[("O", "PER"), ("PER", "O")])
WORDS = [["Ann", "Lee", "met", "Bob"], ["met", "Ann"]]


def models():
    """Return pairs (model, its X, its y) by name."""
    extractors = (
        SequenceFeatureExtractor(templates=[[("w", 0)]], token_features=()),
        SegmentFeatureExtractor(scheme="bio", begin=True, identity=True, length="indicator"),
        SegmentLogOddsEncoder(scheme="bio"),
    )
    return {
        "stream": (HighOrderCRF(2, constraints="bio", solver="sgd", random_state=0).partial_fit(X, TAGS), X, TAGS),
        "segments": (
            make_pipeline(*extractors, HighOrderSemiCRF(scheme="bio", constraints=UNEQUAL, max_iter=2)),
            WORDS,
            TAGS,
        ),
    }


def ask(model, X, y):
    """Ask a model everything."""
    if hasattr(model, "steps"):
        model, X = model[-1], model[:-1].transform(X)
    model.predict(X)
    model.predict_marginals(X)
    model.log_likelihood(X, y)
    if hasattr(model, "partial_fit"):
        model.partial_fit(X, y)


def changed(array):
    """Yield arrays that are not right."""
    for index, value in ((-1, 10**6), (0, -7)) if array.dtype != np.uint8 else ((0, 200),):
        if array.size and np.can_cast(np.min_scalar_type(value), array.dtype):
            other = array.copy()
            other.flat[index] += value
            yield other
    yield array[:-1] if array.ndim else array + 1
    if array.ndim:
        yield np.concatenate([array, array])


def changed_files(files):
    """Yield the files of an archive with one array of integers, or integer of the layout, changed; and what it was."""
    for name, content in files.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content))
            # texts are bytes; numpy's own generators have other unsigned integers
            for other in changed(array) if array.dtype.kind == "i" or array.dtype == np.uint8 else ():
                stream = io.BytesIO()
                np.save(stream, other)
                yield f"{array.tolist()} -> {other.tolist()}", {**files, name: stream.getvalue()}
    schema = json.loads(files["schema.json"])
    for node, path in list(numbers(schema["content"], "")):
        kept = dict(node)
        for value in (10**6, -7) if "._state[0]" in path else ():
            # skops reads nodes of one number once
            node.update(content=str(value), __id__=-1)
            yield f"{path}: {kept['content']} -> {value}", {**files, "schema.json": json.dumps(schema).encode()}
        node.update(kept)


def numbers(node, path):
    """Yield the nodes of a schema that are integers, with their path."""
    if isinstance(node, dict):
        if node.get("__loader__") == "JsonNode":
            if type(json.loads(node["content"])) is int:
                yield node, path
        else:
            for key, part in node.items():
                yield from numbers(part, f"{path}.{key}" if key != "content" else path)
    elif isinstance(node, list):
        for i, part in enumerate(node):
            yield from numbers(part, f"{path}[{i}]")


def main():
    warnings.simplefilter("ignore")
    failures = []
    for name, (model, X, y) in models().items():
        model = model.fit(X, y) if hasattr(model, "steps") else model
        archive = zipfile.ZipFile(io.BytesIO(skops.io.dumps(model)))
        files = {file: archive.read(file) for file in archive.namelist()}
        n_files = n_refused = 0
        for change, contents in changed_files(files):
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as out:
                for file, content in contents.items():
                    out.writestr(file, content)
            trusted = skops.io.get_untrusted_types(data=stream.getvalue())
            n_files += 1
            stage = "loading"
            try:
                loaded = skops.io.loads(stream.getvalue(), trusted=trusted)
                stage = "asking"
                ask(loaded, X, y)
            except ValueError:
                n_refused += stage == "loading"
            except Exception as error:
                failures.append(f"{name}, {stage}, {change}: {error!r:.300}")
        sys.stdout.write(f"{name}: {n_files} {n_refused}\n")
    sys.stdout.write("\n".join(failures))
    sys.exit(len(failures) > 0)


if __name__ == "__main__":
    main()
