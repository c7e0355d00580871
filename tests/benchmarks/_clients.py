"""Clients of a service, in threads of a process that needs the standard library alone: ``_clients.py PORT N CLIENTS``.

Reads sentences as JSON from standard input, sends N requests for drawn ones, each client over one connection, and
writes ``[[number of the sentence, seconds, answer], ...]`` and the seconds of all as JSON.
"""

import json
import random
import sys
import threading
import time
from http.client import HTTPConnection


def ask(port, bodies, n_requests, seed, results):
    """Send requests over one connection."""
    connection, draw, found = HTTPConnection("127.0.0.1", port), random.Random(seed), []
    for _ in range(n_requests):
        number, begun = draw.randrange(len(bodies)), time.perf_counter()
        connection.request("POST", "/", bodies[number])
        answer = connection.getresponse().read()
        found.append((number, time.perf_counter() - begun, json.loads(answer)))
    results.extend(found)


def main(port, n_requests, n_clients):
    bodies, results = [json.dumps(tokens) for tokens in json.load(sys.stdin)], []
    threads = [
        threading.Thread(target=ask, args=(port, bodies, n_requests // n_clients, seed, results))
        for seed in range(n_clients)
    ]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump([results, time.perf_counter() - begun], sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
