"""A service under load: the standard library's threading server with an exported tagger, and with a pipeline.

    python tests/benchmarks/bench_service.py [--requests 20000] [--clients 8] [--quick]

Clients are threads of another process on the loopback. Reported are medians and 99th percentiles of latencies, requests
per second, and resident memory before and after; each answer is compared with ``predict``. In the last round, new model
files replace the old one while requests go on: each answer is that of the old or of the new model.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from common import fit_quietly, parse, print_table

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.datasets import make_name_sentences
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

CLIENTS = Path(__file__).with_name("_clients.py")


class FromFile:
    """A tagger that is loaded again when its file has been replaced."""

    def __init__(self, path):
        self.path, self.loaded = path, None

    def __call__(self, tokens):
        found = os.stat(self.path)
        version = found.st_ino, found.st_mtime_ns
        if self.loaded is None or self.loaded[0] != version:
            self.loaded = version, Tagger(self.path)  # in one step: other threads may do the same
        return self.loaded[1].tag(tokens)


def serve(tag):
    """Return a server of a function of tokens, on a port of its own, and its thread."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize, disable_nagle_algorithm = -1, True  # one packet an answer, at once

        def do_POST(self):
            tokens = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(tag(tokens)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def resident():
    """Return the resident memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def load(tag, sentences, allowed, options, meanwhile=None):
    """Return what a service does under load: figures by name."""
    server, before = serve(tag), resident()
    command = [sys.executable, CLIENTS, *map(str, (server.server_port, options.requests, options.clients))]
    with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+") as answered:
        json.dump(sentences, asked)
        asked.seek(0)
        process = subprocess.Popen(command, stdin=asked, stdout=answered, text=True)
        while process.poll() is None:
            if meanwhile is not None:
                meanwhile()
            time.sleep(0.05)
        answered.seek(0)
        results, seconds = json.load(answered)
    server.shutdown()
    wrong = sum(answer not in [model[number] for model in allowed] for number, _, answer in results)
    p50, p99 = np.percentile([1000 * took for _, took, _ in results], [50, 99])
    rate = len(results) / seconds
    return [len(results), wrong, f"{p50:.2f}", f"{p99:.2f}", f"{rate:.0f}", f"{before:.0f}", f"{resident():.0f}"]


def main(arguments=None):
    options = parse(__doc__, arguments, requests=20_000, clients=8, quick=False)
    if options.quick:
        options.requests = 400
    X, y = make_name_sentences(400, random_state=0)
    X_new, _ = make_name_sentences(300, random_state=1)
    pipes = [
        fit_quietly(make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio")), X[:n], y[:n])
        for n in (400, 40)
    ]
    allowed, state = [pipe.predict(X_new) for pipe in pipes], {"turn": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "names.hocrf")
        export_tagger(pipes[0], path)

        def replace():
            state["turn"] += 1
            export_tagger(pipes[state["turn"] % 2], path)

        rows = [
            ["pipeline", *load(lambda tokens: pipes[0].predict([tokens])[0], X_new, allowed[:1], options)],
            ["tagger", *load(FromFile(path), X_new, allowed[:1], options)],
            ["tagger, replaced", *load(FromFile(path), X_new, allowed, options, replace)],
        ]
    heads = ["service", "requests", "wrong", "p50 ms", "p99 ms", "per second", "MiB before", "after"]
    print_table(heads, rows)
    print(f"replaced {state['turn']} times")
    return rows


if __name__ == "__main__":
    main()
