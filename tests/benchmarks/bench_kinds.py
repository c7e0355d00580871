"""Prediction of one sequence per call, by kind of features, compared with python-crfsuite and scikit-learn.

    python tests/benchmarks/bench_kinds.py [words of names of kinds]

The first table gives processor time in microseconds. Sequences contain ten tokens (recordings: 100 rows), and models
have order 2. The data are drawn at random: labels B, I and O of three kinds of segments, and words that mostly
determine them. LogisticRegression predicts all rows of a sequence in one call. Times are medians over rounds of 100
calls, in which the programs take turns.

The second table is for batches of feature dicts, by the types of their values, and for models of order 1. It gives
thousands of tokens per second for ``predict`` and for python-crfsuite, their ratio, and the microseconds that both need
to read a token for training. ``compare.py --tasks latency`` includes both tables.
"""

import sys
import time
import warnings
from functools import partial
from operator import methodcaller
from tempfile import TemporaryDirectory

import numpy as np
from common import absent
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf._reading.attributes import Vocabulary, read_attributes
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

N_TOKENS, N_CALLS = 10, 100
SHAPES = str.lower, str.upper, str.title


def reason_to_skip():
    return absent(modules=["pycrfsuite"])


def draw_sequences(rng, n, length):
    """Return sequences of words and their tags."""
    X, y = [], []
    for _ in range(n):
        tags: list[str] = []
        while len(tags) < length:
            kind = rng.choice(["O", "P", "Q", "R"])
            tags += ["O"] if kind == "O" else [f"B-{kind}", *[f"I-{kind}"] * rng.integers(3)]
        y.append(tags[:length])
        numbers = rng.integers(40, size=length)
        X.append([SHAPES[k % 3](f"{tag[-1]}{tag[0]}word{k}") for tag, k in zip(y[-1], numbers, strict=True)])
    return X, y


def texts_of(words):
    """Return feature dicts of texts and bools."""
    padded = ["^", *words, "$"]
    return [
        {"w": word, "suffix": word[-2:], "before": padded[t], "after": padded[t + 2], "title": word.istitle()}
        for t, word in enumerate(words)
    ]


def rows_of(rng, tags, n):
    """Return rows of numbers that depend on tags."""
    return np.array([[hash_of(tag, i) for i in range(n)] for tag in tags]) + rng.normal(size=(len(tags), n))


def hash_of(tag, i):
    return sum(map(ord, tag)) * (i + 3) % 7 / 7


class Kinds:
    """Models of all kinds of features and some sequences for each."""

    def setup(self):
        rng = np.random.default_rng(0)
        self.words, self.y = draw_sequences(rng, 300, N_TOKENS)
        self.texts = [texts_of(words) for words in self.words]
        lists = [[{**token, "kinds": [token["w"][0], token["w"][1]]} for token in x] for x in self.texts]
        real = [[{**token, "length": len(token["w"]) / 10} for token in x] for x in self.texts]
        self.rows = [rows_of(rng, tags, 9) for tags in self.y]
        long = draw_sequences(rng, 30, 100)[1]
        recordings = [rows_of(rng, tags, 8) for tags in long]
        functions = SequenceFeatureExtractor(token_features=["lower", "is_title", "length"])
        hashing = SequenceFeatureExtractor(n_features=2**18)
        columns = [[(word, len(word), float(word.istitle())) for word in x] for x in self.words]
        constraints = Constraints(forbid=[("O", f"I-{kind}") for kind in "PQR"], start=["O", "B-P", "B-Q", "B-R"])
        arrays = [np.array(tags) for tags in self.y]
        segments = SequenceFeatureExtractor(), SegmentFeatureExtractor(begin=True, identity=True, scheme="bio")
        crf = partial(HighOrderCRF, 2, max_iter=10)
        self.cases = {
            "texts and bools": (crf(), self.texts, self.y),
            "one real value": (crf(), real, self.y),
            "one list": (crf(), lists, self.y),
            "rows of 9 numbers": (crf(), self.rows, self.y),
            "recordings 100 x 8": (crf(), recordings, long),
            "pipeline, default": (make_pipeline(SequenceFeatureExtractor(), crf()), self.words, self.y),
            "pipeline, functions": (make_pipeline(functions, crf()), self.words, self.y),
            "pipeline, hashing": (make_pipeline(hashing, crf()), self.words, self.y),
            "pipeline, fields of numbers": (make_pipeline(SequenceFeatureExtractor(), crf()), columns, self.y),
            "label arrays": (crf(), self.texts, arrays),
            "label_parts": (crf(label_parts=methodcaller("split", "-")), self.texts, self.y),
            "constraints": (crf(constraints=constraints), self.texts, self.y),
            "history of segments": (crf(history="segments"), self.texts, self.y),
            "semi-CRF": (HighOrderSemiCRF(2, max_iter=10), self.texts, self.y),
            "semi-CRF, segment features": (
                make_pipeline(*segments, HighOrderSemiCRF(2, max_iter=10)),
                self.words,
                self.y,
            ),
        }
        with warnings.catch_warnings(action="ignore"):
            self.models = {name: model.fit(X, y) for name, (model, X, y) in self.cases.items()}

    def calls(self):
        """Yield the kind, the question, and a function of the number of a sequence that asks it."""
        for name, (_, X, _) in self.cases.items():
            model = self.models[name]
            yield name, "predict", lambda n, model=model, X=X: model.predict([X[n % len(X)]])
            yield name, "marginals", lambda n, model=model, X=X: model.predict_marginals([X[n % len(X)]])
            yield name, "segments", lambda n, model=model, X=X: model.predict_segments([X[n % len(X)]])
        yield from self.peers()

    def peers(self):
        """Yield the same of python-crfsuite, and of LogisticRegression for the rows."""
        for name in "texts and bools", "one real value", "one list":
            X = self.cases[name][1]
            tagger = tagger_of(trainer_of(X, self.y))
            yield f"python-crfsuite, {name}", "predict", lambda n, tagger=tagger, X=X: tagger.tag(X[n])
        labels = np.concatenate(self.y)
        regression = LogisticRegression().fit(np.concatenate(self.rows), labels)
        yield "LogisticRegression, rows of 9 numbers", "predict", lambda n: regression.predict(self.rows[n])
        encoder = DictVectorizer()
        encoded = encoder.fit_transform([token for x in self.texts for token in x])
        of_texts = LogisticRegression(max_iter=20).fit(encoded, labels)
        yield (
            "LogisticRegression, texts and bools",
            "predict",
            lambda n: of_texts.predict(encoder.transform(self.texts[n])),
        )

    def track_microseconds(self, words=()):
        """Return the time of a call by kind and question, of the kinds whose names have some words."""
        found: dict = {}
        with warnings.catch_warnings(action="ignore"):
            for name, question, call in self.calls():
                if all(word in name for word in words):
                    found.setdefault(name, {})[question] = microseconds(call)
        return found


def trainer_of(X, y):
    """Return python-crfsuite's trainer with the data."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for x, tags in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), tags)
    return trainer


def tagger_of(trainer):
    """Return python-crfsuite's tagger after ten iterations."""
    import pycrfsuite

    trainer.set_params({"max_iterations": 10})
    with TemporaryDirectory() as folder:
        trainer.train(folder + "/model")
        tagger = pycrfsuite.Tagger()
        tagger.open(folder + "/model")
    return tagger


class Batches:
    """Batches of 200 sequences of 20 feature dicts, by the types of their values."""

    def setup(self):
        rng = np.random.default_rng(0)
        texts, names = ([f"{letter}{i}" for i in range(19)] for letter in "tn")

        def drawn(n_texts, n_numbers, kind=float):
            words = (f"v{k}" for k in rng.integers(50, size=n_texts))
            numbers = map(kind, 5 * rng.normal(size=n_numbers))
            return dict(zip(texts, words, strict=False)) | dict(zip(names, numbers, strict=False))

        kinds = {
            "19 texts": (19, 0),
            "19 texts, 11 float": (19, 11),
            "19 texts, 11 np.float64": (19, 11, np.float64),
            "19 texts, 11 np.float32": (19, 11, np.float32),
            "5 texts, 10 bool": (5, 10, lambda number: bool(number > 0)),
            "11 float": (0, 11),
            "11 np.float64": (0, 11, np.float64),
            "11 np.float32": (0, 11, np.float32),
            "11 int": (0, 11, int),
        }
        self.X = {name: [[drawn(*kind) for _ in range(20)] for _ in range(200)] for name, kind in kinds.items()}
        self.X["a text, 2 lists"] = [
            [drawn(1, 0) | {key: [*drawn(6, 0).values()] for key in "ab"} for _ in range(20)] for _ in range(200)
        ]
        self.y = rng.choice(["A", "B", "C"], size=(200, 20)).tolist()

    def track_rates(self, words=()):
        """Return by kind the tokens a second of ours and of python-crfsuite, and the same of reading for training."""
        found = {}
        for name, X in self.X.items():
            if not all(word in name for word in words):
                continue
            tagger = tagger_of(trainer_of(X, self.y))
            with warnings.catch_warnings(action="ignore"):
                model = HighOrderCRF(max_iter=5).fit(X, self.y)
            calls = [
                lambda _, X=X, model=model: model.predict(X),
                lambda _, X=X, tagger=tagger: [tagger.tag(x) for x in X],
                lambda _, X=X: read_attributes(X, Vocabulary(), grow=True),
                lambda _, X=X: trainer_of(X, self.y),
            ]
            turns = [[microseconds(call, 1, 1) for call in calls] for _ in range(9)]
            found[name] = (1e6 * 4000 / np.median(turns, axis=0)).tolist()
        return found


def microseconds(call, n_calls=N_CALLS, n_turns=5):
    """Return the median time of some turns of calls, each with another sequence."""
    call(0)
    turns = []
    for _ in range(n_turns):
        start = time.process_time()
        for number in range(n_calls):
            call(number)
        turns.append((time.process_time() - start) / n_calls * 1e6)
    return float(np.median(turns))


def main():
    kinds, batches, words = Kinds(), Batches(), sys.argv[1:]
    kinds.setup()
    print(f"{'':38}{'predict':>10}{'marginals':>10}{'segments':>10}")
    for name, times in kinds.track_microseconds(words).items():
        print(f"{name:38}{''.join(f'{time:10.0f}' for time in times.values())}", flush=True)
    batches.setup()
    print(f"{'thousands of tokens a second':38}{'here':>10}{'peer':>10}{'ratio':>10}{'read here':>10}{'there, us':>10}")
    for name, (ours, theirs, read, read_there) in batches.track_rates(words).items():
        rates = f"{ours / 1e3:10.0f}{theirs / 1e3:10.0f}{ours / theirs:10.2f}{1e6 / read:10.1f}{1e6 / read_there:10.1f}"
        print(f"{name:38}{rates}", flush=True)


if __name__ == "__main__":
    main()
