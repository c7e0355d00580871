"""Fuzz for as long as told: ``python tests/fuzz/run.py --minutes 60 --seed 0``.

Each turn runs ``test_fuzz`` for one strategy with a seed of its own, in a process that may crash, hang or run out of
memory: that is a finding like any other, and the next turn goes on with other cases. Printed are the outcomes of each
turn, and the end of what a turn with a finding says. The exit status is 1 if there are findings. A turn is repeated by
``FUZZ_SEED=... python -m pytest -s tests/fuzz/test_fuzz.py -k STRATEGY``.
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[i]) for i in (1, 2)]

from fuzz.strategies import STRATEGIES  # noqa: E402  (found only after the line above)

TEST = str(Path(__file__).resolve().with_name("test_fuzz.py"))
MEMORY = 6 * 2**30  # bytes of address space


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def turn(name, seed, seconds):
    """Check the cases that a seed draws; return whether there is no finding."""
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-sq", "-p", "no:cacheprovider", TEST]
    own = os.environ | {"FUZZ_SEED": str(seed), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "preexec_fn": limit_memory, "env": own}
    try:
        done = subprocess.run([*command, "-k", f"{name}]"], timeout=seconds, **pipes)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, output = "hangs", error.stdout or b""
    lines = output.decode(errors="replace").splitlines()
    outcomes = Counter(line for line in lines if line.startswith(("right", "refused: ", "accepted")))
    print(f"FUZZ_SEED={seed} {name}: {dict(outcomes)}", flush=True)
    if status != 0:
        print(f"FINDING, status {status}", *(line[:1000] for line in lines[-60:]), sep="\n", flush=True)
    return status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=list(STRATEGIES))
    parser.add_argument("--hang", type=float, default=900, help="seconds after which a turn hangs")
    options = parser.parse_args()
    end, is_right = time.monotonic() + 60 * options.minutes, True
    for number, name in enumerate(itertools.cycle(options.strategies)):
        if time.monotonic() > end:
            return 0 if is_right else 1
        is_right &= turn(name, options.seed * 1_000_003 + number, options.hang)


if __name__ == "__main__":
    sys.exit(main())
