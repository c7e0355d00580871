"""Addresses tagged per second from the feature dicts of usaddress, compared with python-crfsuite on the same dicts.

This is the benchmark of ``compare.py --tasks addresses``: processor time, on one thread. The model of python-crfsuite
is a linear chain, trained as usaddress trains it. The times of both programs include the conversion of the dicts. Needs
python-crfsuite and the data.
"""

import importlib.util
import sys
import tempfile
import time
from pathlib import Path

from common import fit_quietly

sys.path.append(str(Path(__file__).parent / "products"))
import protocol
import usaddress
from sklearn.pipeline import Pipeline

from sklearn_hocrf import make_pipeline
from sklearn_hocrf._data import tagger as _tagger
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

MODELS = usaddress.models_of("own", all_pairs=True)


def reason_to_skip():
    return protocol.absent(usaddress.FILE, modules=["pycrfsuite"])


def copied_reader():
    """Return the module of a copied reader, which has no compiled code."""
    spec = importlib.util.spec_from_file_location("copied_reader", _tagger.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Addresses:
    """A model of each kind, of order 3; python-crfsuite's."""

    def setup(self, every=1):
        rows = protocol.read_rows(*usaddress.FILE, every=every)
        self.X, y = ([row[key] for row in rows] for key in ("features", "labels"))
        self.folder = tempfile.TemporaryDirectory()
        path = str(Path(self.folder.name, "model"))
        theirs = protocol.Theirs().fit(self.X, y)
        self.peer = theirs.tagger
        [(_, chain)], [(_, segments)] = MODELS["order 3"], MODELS["segments"]
        self.chain = fit_quietly(make_pipeline(SequenceFeatureExtractor("attributes"), chain), self.X, y)
        borders = SegmentFeatureExtractor(bag=(), begin=True, end=True, length="capped", max_length=10)
        self.segments = make_pipeline(SequenceFeatureExtractor("attributes"), borders, segments)
        fit_quietly(self.segments, self.X, y)
        export_tagger(self.chain, path + ".hocrf")
        self.tagger, self.alone = Tagger(path + ".hocrf"), copied_reader().Tagger(path + ".hocrf")
        self.plain = Pipeline(self.chain.steps)  # scikit-learn's own
        self.sizes = [Path(path + ".hocrf").stat().st_size, theirs.n_bytes]

    def track_rates(self):
        """Return the addresses a second of each case, by name, and those of its peer."""
        peer = self._rate(lambda: [self.peer.tag(dicts) for dicts in self.X])
        peer_questions = self._rate(self._ask_peer)
        return {
            "order 3, in a batch": (self._rate(lambda: self.chain.predict(self.X)), peer),
            "segments of order 3, in a batch": (self._rate(lambda: self.segments.predict(self.X)), peer),
            "order 3, one by one": (self._rate(lambda: [self.chain.predict([dicts]) for dicts in self.X]), peer),
            "the same, scikit-learn's Pipeline": (
                self._rate(lambda: [self.plain.predict([dicts]) for dicts in self.X]),
                peer,
            ),
            "the same, Tagger": (self._rate(lambda: [self.tagger.predict(dicts) for dicts in self.X]), peer),
            "the same, the file alone": (self._rate(lambda: [self.alone.predict(dicts) for dicts in self.X]), peer),
            "labels, marginals, probability, in a batch": (self._rate(self._ask), peer_questions),
            "the same, Tagger, one by one": (self._rate(lambda: self._ask_each(self.tagger)), peer_questions),
        }

    def track_sizes(self):
        """Return the bytes of the exported file, and of python-crfsuite's."""
        return self.sizes

    def _ask(self):
        labels = self.chain.predict(self.X)
        return self.chain.predict_marginals(self.X), self.chain.log_likelihood(self.X, labels)

    def _ask_each(self, tagger):
        for dicts in self.X:
            read = tagger.read(dicts)
            labels = tagger.predict(read)
            tagger.predict_marginals(read)
            tagger.log_likelihood(read, labels)

    def _ask_peer(self):
        names = self.peer.labels()
        for dicts in self.X:
            labels = self.peer.tag(dicts)
            [[self.peer.marginal(name, t) for name in names] for t in range(len(dicts))]
            self.peer.probability(labels)

    def _rate(self, tag):
        start = time.process_time()
        tag()
        return len(self.X) / (time.process_time() - start)
