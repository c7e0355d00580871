"""One sequence a call, by the kind of features: microseconds of the processor, beside python-crfsuite and scikit-learn.

    python tests/benchmarks/bench_kinds.py [words of names of kinds]

Sequences have ten tokens (recordings 100 rows), models order 2. Data are drawn: labels B, I and O of three kinds of
segments, and words that tell them apart most of the time. LogisticRegression predicts the same rows at once.
"""

import sys
import time
import warnings
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
from common import absent
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
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
        parts = {tag: tag.split("-") for tag in dict.fromkeys(np.concatenate(self.y).tolist())}
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
            "label arrays": (crf(), self.texts, arrays),
            "label_parts": (crf(label_parts=parts), self.texts, self.y),
            "constraints": (crf(constraints=constraints), self.texts, self.y),
            "history of segments": (crf(constraints="bio", history="segments"), self.texts, self.y),
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
        import pycrfsuite

        for name in "texts and bools", "one real value", "one list":
            X, trainer = self.cases[name][1], pycrfsuite.Trainer(verbose=False)
            for x, tags in zip(X, self.y, strict=True):
                trainer.append(pycrfsuite.ItemSequence(x), tags)
            trainer.set_params({"max_iterations": 10})
            with TemporaryDirectory() as folder:
                trainer.train(folder + "/model")
                tagger = pycrfsuite.Tagger()
                tagger.open(folder + "/model")
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


def microseconds(call, n_calls=N_CALLS, n_turns=5):
    """Return the least time of some turns of calls, each with another sequence."""
    call(0)
    turns = []
    for _ in range(n_turns):
        start = time.process_time()
        for number in range(n_calls):
            call(number)
        turns.append((time.process_time() - start) / n_calls * 1e6)
    return min(turns)


def main():
    kinds, found = Kinds(), {}
    kinds.setup()
    with warnings.catch_warnings(action="ignore"):
        for name, question, call in kinds.calls():
            if all(word in name for word in sys.argv[1:]):
                found.setdefault(name, {})[question] = microseconds(call)
    print(f"{'':38}{'predict':>10}{'marginals':>10}{'segments':>10}")
    for name, times in found.items():
        cells = (f"{times[question]:10.0f}" for question in ("predict", "marginals", "segments") if question in times)
        print(f"{name:38}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
