"""A service with a tagger: the code in its documentation, and model files that are replaced while they are read."""

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf._data import tagger as _tagger
from sklearn_hocrf.datasets import make_name_sentences
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger

CHECKOUT = Path(__file__).resolve().parents[2]
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


BAD_BODIES = {  # with words of the message
    b'["Ann", ': "Expecting value",
    b"\xff\xfe\xff": "decode",
    b'["\xe9"]': "decode",
    b"null": "a sequence is a list of tokens, got None",
    b'"Ann left"': "a sequence is a list of tokens",
    b"[1, 2]": "holds 1 now",
    b"[null]": "None",
    b"[NaN]": "NaN is not JSON",
    b'[["Ann"], ["left"]]': "tokens are not of the form of fit",
    b'[{"word": "Ann"}]': "is missing",
    b'[{"w": ["Ann"]}]': "field 'w' held text in fit, but holds ['Ann'] now",
    b"[" * 100_000: "while decoding a JSON array",
    b'["Ann", ["left"]]': "tokens are not of the form of fit",
}


NOT_JSON = b'["Ann", ', b"\xff\xfe\xff", b'["\xe9"]', b"[NaN]", b"[" * 100_000


def post(port, body, length=None, method="POST"):
    """Return the status and the error of an answer to a body, with another length or without any."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, "/")
    if body is not None:
        connection.putheader("Content-Length", length or str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "application/json"
    message = json.loads(answer.read())["error"]
    connection.close()
    return answer.status, message


@pytest.mark.filterwarnings("ignore")  # models are not trained to their optimum
def test_the_documented_service(tmp_path):
    """A folder with the module, a model and the lines, where nothing but numpy can be imported."""
    X, y = make_name_sentences(60, random_state=0)
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio", max_iter=9)).fit(X, y)
    export_tagger(model, tmp_path / "names.hocrf")
    (tmp_path / "tagger.py").write_bytes(Path(_tagger.__file__).read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = lines_of_service()
    assert 10 <= program.count("\n") <= 40
    (tmp_path / "server.py").write_text(BLOCKER + program.replace("8000", str(port)), encoding="utf-8")
    with subprocess.Popen([sys.executable, "-I", "server.py"], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            answers = [ask(port, tokens) for tokens in X[:5]]
            refused = [post(port, body) for body in BAD_BODIES]
            without_length, endless = post(port, None), post(port, b"[]", length="1" + "0" * 12)
            other_method = post(port, None, method="GET")
            again = ask(port, X[0])
        finally:
            process.terminate()
    found = Tagger(tmp_path / "names.hocrf")
    tables = [found.predict_segments(tokens, with_probability=True).tolist() for tokens in X[:5]]
    assert answers == [list(map(list, table)) for table in tables]
    assert any(answers)
    assert again == answers[0]
    for body, (status, message) in zip(BAD_BODIES, refused, strict=True):
        assert status == (400 if body in NOT_JSON else 422), body[:40]
        assert BAD_BODIES[body] in message, body[:40]
    assert (without_length[0], endless) == (400, (400, "a body has at most 10**5 bytes, not 1000000000000"))
    assert other_method == (501, "Unsupported method ('GET')")


@pytest.mark.filterwarnings("ignore")
def test_files_that_are_replaced_while_threads_read_them(tmp_path):
    """Each answer is that of the old model or of the new one."""
    X, y = make_name_sentences(20, random_state=0)
    pipes = [make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=9)).fit(X[:n], y[:n]) for n in (20, 5)]
    allowed, path = list(zip(*(pipe.predict(X) for pipe in pipes), strict=True)), tmp_path / "names.hocrf"
    export_tagger(pipes[0], path)

    def tag(number):
        return number, Tagger(path).predict(X[number % len(X)])

    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(tag, range(200))
        for turn in range(9):
            export_tagger(pipes[1 - turn % 2], path)
        found = {(n % len(X), allowed[n % len(X)].index(labels)) for n, labels in answers}  # none but these two
    assert {model for _, model in found} == {0, 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["names.hocrf"]
