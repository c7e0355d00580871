"""The model of the page "Try it", in a real browser: the labels and probabilities of ``Tagger``, to 1e-6.

python tests/data/browser_demo.py     # needs chromium; usaddress in SKLEARN_HOCRF_DATA, or it says that it is absent
"""

import base64
import gzip
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sklearn_hocrf.tagger import Tagger

DEMO = Path(__file__).parents[2] / "docs" / "_static" / "demo"
DATA = Path(os.environ.get("SKLEARN_HOCRF_DATA", "absent"), "usaddress", "train.jsonl.gz")
SCRIPT = """
const file = Uint8Array.from(atob(ADDRESSES), (character) => character.charCodeAt(0));
new Response(new Blob([file]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer().then((buffer) => {
  const tagger = new HOCRF.Tagger(buffer);
  let largest = 0, different = 0;
  for (const { tokens, marginals, segments, nbest } of EXPECTED) {
    const found = tagger.tag(tokens, nbest.length);
    const note = (p, q) => (largest = Math.max(largest, Math.abs(p - q)));
    marginals.forEach((row, t) => row.forEach((p, y) => note(p, found.marginals[t][y])));
    nbest.forEach(([labels, p], i) => {
      different += labels.join() !== found.nbest[i].labels.join();
      note(p, found.nbest[i].probability);
    });
    segments.forEach(([first, stop, name, p], i) => {
      const { start, stop: end, name: label, probability } = found.segments[i];
      different += first !== start || stop !== end || name !== label;
      note(p, probability);
    });
  }
  document.body.textContent = `RESULT ${JSON.stringify({ different, largest })} END`;
}).catch((error) => (document.body.textContent = `RESULT "${error}" END`));
"""


def expected(tagger, tokens):
    """Return what the tagger says of an address."""
    nbest = [(one.labels, math.exp(one.log_probability)) for one in tagger.predict_nbest(tokens, 5)]
    segments = tagger.predict_segments(tokens, with_probability=True).tolist()
    marginals = tagger.predict_marginals(tokens).tolist()
    return {"tokens": tokens, "marginals": marginals, "segments": segments, "nbest": nbest}


def main():
    browser = shutil.which("chromium")
    if browser is None or not DATA.exists():
        print(f"skipped: {'chromium' if browser is None else DATA} is absent")
        return
    model = re.search('"(.*)"', (DEMO / "addresses.js").read_text(encoding="utf-8"))[1]
    tagger = Tagger(gzip.decompress(base64.b64decode(model)))
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        rows = [expected(tagger, json.loads(line)["tokens"]) for line, _ in zip(lines, range(1000), strict=False)]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        scripts = [(DEMO / name).read_text(encoding="utf-8") for name in ("tagger.js", "addresses.js")]
        parts = [*scripts, f"const EXPECTED = {json.dumps(rows)};", SCRIPT]
        page.write_text("<meta charset=utf-8><body><script>" + "\n".join(parts) + "</script>", encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        options += [f"--user-data-dir={folder}/profile", "--virtual-time-budget=600000", "--dump-dom"]
        text = subprocess.run([browser, *options, page.as_uri()], capture_output=True, text=True, check=True).stdout
    found = json.loads(re.search("<body>RESULT (.*?) END", text, re.DOTALL)[1])
    print(f"{len(rows)} addresses: {found}")
    if found["different"] or not found["largest"] < 1e-6:
        sys.exit("the page does not agree with Tagger")


if __name__ == "__main__":
    main()
