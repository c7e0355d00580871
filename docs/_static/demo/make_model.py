"""Train the model of the page "Try it" and write it as a script, which works from file:// too.

python docs/_static/demo/make_model.py     # needs SKLEARN_HOCRF_DATA with usaddress/train.jsonl.gz
"""

import base64
import gzip
import json
import os
import tempfile
from pathlib import Path

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import export_tagger


def train():
    """Return the model of addresses, and the addresses."""
    path = Path(os.environ["SKLEARN_HOCRF_DATA"], "usaddress", "train.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    X, y = [row["tokens"] for row in rows], [row["labels"] for row in rows]
    return make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(3, sigma_reg=2.0, l1_reg=0.1)).fit(X, y), X


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "addresses.hocrf")
        export_tagger(train()[0], path, compress=False)
        packed = gzip.compress(path.read_bytes(), mtime=0)
    text = base64.b64encode(packed).decode()
    script = Path(__file__).with_name("addresses.js")
    script.write_text(f'const ADDRESSES = "{text}";\n', encoding="utf-8")
    print(f"{script.name}: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
