"""Prediction of one sentence per call, from default features of words and tags (conll2000), and by python-crfsuite.

This is the benchmark of ``compare.py --tasks latency``. It gives processor time in microseconds: the mean over 200
sentences, one call each, in the fastest of five rounds. Both programs compute the same attributes of a token,
python-crfsuite's with a plain function.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import absent, data_file, fit_quietly

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.feature_extraction._token_functions import as_function

FILE, N_CALLS = ("conll2000", "train.txt.gz"), 200


def reason_to_skip():
    return absent(FILE, modules=["pycrfsuite"])


def attribute_maker(extractor):
    """Return a function of a sentence that makes the attributes of an extractor of fields w and p, as texts."""
    functions = {name: as_function(function) for name, (_, function) in extractor.token_features_.items()}
    heads = ["|".join(f"{field}[{offset}]" for field, offset in t) + "=" for t in extractor.templates_]

    def attributes(sentence):
        columns = {"w": [word for word, _ in sentence], "p": [tag for _, tag in sentence]}
        columns |= {name: list(map(function, columns["w"])) for name, function in functions.items()}
        padded = {name: ["__BOS__"] * 2 + texts + ["__EOS__"] * 2 for name, texts in columns.items()}
        rows = []
        for head, template in zip(heads, extractor.templates_, strict=True):
            texts = [padded[field][2 + offset : 2 + offset + len(sentence)] for field, offset in template]
            joined = texts[0] if len(texts) == 1 else map("|".join, zip(*texts, strict=True))
            rows.append([head + text for text in joined])
        return [list(token) for token in zip(*rows, strict=True)]

    return attributes


class Latency:
    """A model of each side."""

    def setup(self, n_sentences=None):
        import pycrfsuite

        X, y = load_conll(data_file(*FILE), ["w", "p", "tag"])
        self.X = [[(token["w"], token["p"]) for token in sentence] for sentence in X][:n_sentences]
        extractor = SequenceFeatureExtractor(fields=["w", "p"])
        self.pipe = fit_quietly(make_pipeline(extractor, HighOrderCRF(1, max_iter=15)), self.X, y[:n_sentences])
        self.maker = attribute_maker(self.pipe[0])
        trainer = pycrfsuite.Trainer(verbose=False)
        for sentence, labels in zip(self.X, y, strict=False):
            trainer.append(self.maker(sentence), labels)
        trainer.set_params({"max_iterations": 15})
        self.folder = tempfile.TemporaryDirectory()
        path = str(Path(self.folder.name, "model"))
        trainer.train(path)
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(path)
        self.X = self.X[:N_CALLS]
        self.given = [self.maker(sentence) for sentence in self.X]
        names = self.pipe[0].get_feature_names_out()
        known = set(names.tolist())
        self.lists = [[[name for name in token if name in known] for token in sentence] for sentence in self.given]
        self.of_lists = HighOrderCRF(1, max_iter=5).fit(self.lists, self.pipe.predict(self.X))

    def track_microseconds(self):
        """Return the time of a call of each kind, by name."""
        calls = {
            "pipeline from tokens": lambda n: self.pipe.predict([self.X[n]]),
            "feature lists": lambda n: self.of_lists.predict([self.lists[n]]),
            "marginals": lambda n: self.pipe.predict_marginals([self.X[n]]),
            "segments with probabilities": lambda n: self.pipe.predict_segments([self.X[n]], with_probability=True),
            "ten best": lambda n: self.pipe.predict_nbest([self.X[n]], 10),
            "python-crfsuite, made": lambda n: self.tagger.tag(self.maker(self.X[n])),
            "python-crfsuite, given": lambda n: self.tagger.tag(self.given[n]),
            "python-crfsuite, marginals": self._marginals,
        }
        turns = [[_microseconds(call, len(self.X)) for call in calls.values()] for _ in range(5)]
        return dict(zip(calls, np.min(turns, axis=0).tolist(), strict=True))

    def track_kept(self):
        """Return the memory of what is kept for single sentences, relative to that of the weights."""
        self.pipe.predict(self.X[:1])
        model, dicts = self.pipe[-1]._state.tables.model, self.pipe[0]._vocabularies.by_value({}).ids
        keys = (key for ids in dicts for key in ids if isinstance(key, tuple))  # texts are the vocabularies' own
        return (model.n_bytes + sum(map(sys.getsizeof, [*dicts, *keys]))) / model.weights.nbytes

    def _marginals(self, number):
        self.tagger.tag(self.maker(self.X[number]))
        labels = self.tagger.labels()
        return [[self.tagger.marginal(label, t) for label in labels] for t in range(len(self.X[number]))]


def _microseconds(call, n_calls):
    call(0)
    start = time.process_time()
    for number in range(n_calls):
        call(number)
    return (time.process_time() - start) / n_calls * 1e6
