"""A service on a tagger: the lines in its documentation, and answers under load while model files are replaced."""

import json
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from sklearn_hocrf import HighOrderCRF, make_pipeline, tagger
from sklearn_hocrf.datasets import make_name_sentences
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

CHECKOUT = Path(__file__).resolve().parents[1]
BENCHMARKS = CHECKOUT / "tests" / "benchmarks"
BLOCKER = """if True:
    import sys
    class Blocker:
        def find_spec(self, name, path=None, target=None):
            root = name.partition(".")[0]
            if root not in ("numpy", "tagger") and root not in sys.stdlib_module_names:
                raise ImportError(name + " is blocked")
    sys.meta_path.insert(0, Blocker())
    sys.path.insert(0, ".")
"""


def lines_of_service():
    """Return the program in the user guide."""
    page = (CHECKOUT / "docs" / "guide" / "production.md").read_text(encoding="utf-8")
    return page.partition("### A service\n")[2].partition("```python\n")[2].partition("```")[0]


def ask(port, tokens):
    """Return the answer of a service, which may not be there yet."""
    for attempt in range(200):
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("POST", "/", json.dumps(tokens))
            return json.loads(connection.getresponse().read())
        except ConnectionRefusedError:
            assert attempt < 199
            time.sleep(0.1)
        finally:
            connection.close()
    return None


@pytest.mark.filterwarnings("ignore")  # models are not trained to their optimum
def test_the_documented_service(tmp_path):
    """A folder with the module, a model and the lines, where nothing but numpy can be imported."""
    X, y = make_name_sentences(60, random_state=0)
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio", max_iter=9)).fit(X, y)
    export_tagger(model, tmp_path / "names.hocrf")
    (tmp_path / "tagger.py").write_bytes(Path(tagger.__file__).read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = lines_of_service()
    assert 10 <= program.count("\n") <= 18
    (tmp_path / "server.py").write_text(BLOCKER + program.replace("8000", str(port)), encoding="utf-8")
    with subprocess.Popen([sys.executable, "-I", "server.py"], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            answers = [ask(port, tokens) for tokens in X[:5]]
        finally:
            process.terminate()
    found = Tagger(tmp_path / "names.hocrf")
    assert answers == [[list(s) for s in found.segments(tokens, with_probability=True)] for tokens in X[:5]]
    assert any(answers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_load(monkeypatch, capsys):
    """Clients in threads of another process: all are answered, by the old model or the new one."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    try:
        import bench_service

        rows = bench_service.main(["--requests", "320", "--clients", "4"])
    finally:
        for path in BENCHMARKS.glob("[!_]*.py"):
            sys.modules.pop(path.stem, None)
    assert [row[0] for row in rows] == ["pipeline", "tagger", "tagger, replaced"]
    assert [row[1:3] for row in rows] == [[320, 0]] * 3
    assert int(capsys.readouterr().out.rpartition("replaced ")[2].split()[0]) > 0
