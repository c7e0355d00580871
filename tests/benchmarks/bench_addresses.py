"""Addresses a second from the feature dicts of usaddress, beside python-crfsuite with the same dicts.

What ``compare.py --tasks addresses`` measures, on the processor of one thread. python-crfsuite has a linear chain,
trained as the product does; its conversion of dicts counts, as ours does. Needs python-crfsuite and the data.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from common import fit_quietly

sys.path.append(str(Path(__file__).parent / "products"))
import protocol
import usaddress

from sklearn_hocrf import make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

MODELS = usaddress.models_of("own", all_pairs=True)


def reason_to_skip():
    return protocol.absent(usaddress.FILE, modules=["pycrfsuite"])


class Addresses:
    """A model of each kind, of order 3; python-crfsuite's."""

    def setup(self, every=1):
        rows = [json.loads(line) for line in protocol.read_lines(*usaddress.FILE)[::every]]
        self.X, y = ([row[key] for row in rows] for key in ("features", "labels"))
        self.folder = tempfile.TemporaryDirectory()
        path = str(Path(self.folder.name, "model"))
        self.peer = usaddress.fit_theirs(protocol.Results(y), self.X, range(len(y)), [], path)
        [(_, chain)], [(_, segments)] = MODELS["order 3"], MODELS["segments"]
        self.chain = fit_quietly(make_pipeline(SequenceFeatureExtractor("attributes"), chain), self.X, y)
        borders = SegmentFeatureExtractor(bag=(), begin=True, end=True, length="capped", max_length=10)
        self.segments = make_pipeline(SequenceFeatureExtractor("attributes"), borders, segments)
        fit_quietly(self.segments, self.X, y)
        export_tagger(self.chain, path + ".hocrf")
        self.tagger = Tagger(path + ".hocrf")
        self.sizes = [Path(file).stat().st_size for file in (path + ".hocrf", path)]

    def track_rates(self):
        """Return the addresses a second of each case, by name, and those of its peer."""
        peer = self._rate(lambda: [self.peer.tag(dicts) for dicts in self.X])
        exported = self._rate(lambda: [self.tagger.predict(dicts) for dicts in self.X])
        return {
            "order 3, in a batch": (self._rate(lambda: self.chain.predict(self.X)), peer),
            "segments of order 3, in a batch": (self._rate(lambda: self.segments.predict(self.X)), peer),
            "order 3, exported, one by one": (exported, peer),
            "order 3, one by one": (self._rate(lambda: [self.chain.predict([dicts]) for dicts in self.X]), peer),
            "order 3, labels and marginals": (self._rate(self._marginals), self._rate(self._peer_marginals)),
        }

    def track_sizes(self):
        """Return the bytes of the exported file, and of python-crfsuite's."""
        return self.sizes

    def _marginals(self):
        return self.chain.predict(self.X), self.chain.predict_marginals(self.X)

    def _peer_marginals(self):
        labels = self.peer.labels()
        for dicts in self.X:
            self.peer.tag(dicts)
            [[self.peer.marginal(label, t) for label in labels] for t in range(len(dicts))]

    def _rate(self, tag):
        start = time.process_time()
        tag()
        return len(self.X) / (time.process_time() - start)
