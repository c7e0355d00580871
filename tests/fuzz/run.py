"""Fuzz for as long as told: ``python tests/fuzz/run.py --minutes 60 --seed 0``.

Cases are drawn and checked in a process of its own, which may crash, hang or run out of memory: that is a finding like
any other, and the next process goes on with other cases. Counts by strategy are printed every few minutes and at the
end. Each finding is shrunk for a while and written to ``--output`` as a program that shows it again:
``python tests/fuzz/run.py --again FILE``. The exit status is 1 if there are findings.
"""

import argparse
import faulthandler
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):  # run as a program
    sys.path[:0] = [str(Path(__file__).resolve().parents[i]) for i in (1, 2)]

import enum  # noqa: F401  what the repr of cases may name
from math import inf, nan

SHRINK = 20  # seconds of shrinking a finding
CHUNK = 25  # cases of one strategy before the next one has its turn
MEMORY = 6 * 2**30  # bytes of address space


# --- the process that checks cases ----------------------------------------------------------------------------------


class Enough(BaseException):
    """Ends the shrinking of a finding, or the work; no Exception, so that hypothesis lets it pass."""


def signature(error):
    """Return what tells findings apart: the exception, its first words, and where it came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if re.search("/tests/|sklearn_hocrf", f.filename)]
    inner = frames[-1] if frames else None
    place = f"{Path(inner.filename).name}:{inner.name}" if inner else "?"
    words = re.split(r"[\[{('\"\n]", str(error))[0]
    words = re.sub(r"[0-9.e+-]*[0-9]", "#", words)[:80]
    return f"{type(error).__name__} in {place}: {words}"


class Worker:
    """Checks cases of a strategy, notes each outcome, and shrinks what is new."""

    def __init__(self, folder, known, hang, end):
        self.folder = folder
        self.hang = hang
        self.end = end
        self.journal = (folder / "journal.jsonl").open("a", buffering=1)
        self.known = set(known)
        self.shrinking = None  # the finding at hand: signature, until when, smallest case
        self.name = None
        self.n_checked = 0

    def note(self, outcome):
        self.journal.write(json.dumps([self.name, outcome]) + "\n")

    def check(self, name, case):
        """Check a case; raise if it is a finding that is to be shrunk."""
        from fuzz.checks import judge

        if self.shrinking is None and self.n_checked and time.monotonic() > self.end:  # one case in any case
            raise Enough
        self.n_checked += 1
        text = repr(case)
        (self.folder / "current").write_text(json.dumps([name, text]))
        faulthandler.dump_traceback_later(self.hang, exit=True)
        try:
            outcome = judge(name, case)
        except Exception as error:
            finding = signature(error)
            if self.shrinking is None:
                self.note(f"FINDING {finding}")
                if finding in self.known:
                    return
                self.shrinking = [finding, time.monotonic() + SHRINK, text, error]
            elif finding == self.shrinking[0] and len(text) < len(self.shrinking[2]):
                self.shrinking[2:] = text, error
            elif finding != self.shrinking[0]:
                return
            if time.monotonic() > self.shrinking[1]:
                raise Enough from None
            raise
        else:
            if self.shrinking is None:
                self.note(outcome)
            elif time.monotonic() > self.shrinking[1]:
                raise Enough
        finally:
            faulthandler.cancel_dump_traceback_later()

    def run(self, name, n_cases, seed):
        """Check cases that a seed draws."""
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as start_at

        from fuzz.strategies import STRATEGIES

        self.name = name
        options = settings(
            max_examples=n_cases,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
        )

        @start_at(seed)
        @options
        @given(STRATEGIES[name])
        def draw_and_check(case):
            self.check(name, case)

        try:
            draw_and_check()
        except Enough:
            pass
        except Exception:
            if self.shrinking is None:
                raise
        if self.shrinking is not None:
            finding, _, text, error = self.shrinking
            self.known.add(finding)
            details = "".join(traceback.format_exception(error))
            self.journal.write(json.dumps(["new finding", [name, finding, text, details[-4000:]]]) + "\n")
            self.shrinking = None


def work(folder, seconds, seed, names, known, hang):
    """Check cases until the time is over: the strategies take turns."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    end, turn = time.monotonic() + seconds, 0
    worker = Worker(folder, known, hang, end)
    while turn == 0 or time.monotonic() < end:
        worker.run(names[(seed + turn) % len(names)], CHUNK, seed * 1_000_003 + turn)
        turn += 1


# --- the process that watches ---------------------------------------------------------------------------------------


class Tally:
    """Counts of outcomes by strategy, and the findings."""

    def __init__(self, output):
        self.output = output
        self.counts = {}
        self.findings = {}  # signature: file

    def read(self, folder):
        """Add what a worker has noted."""
        journal = folder / "journal.jsonl"
        lines = journal.read_text().splitlines() if journal.exists() else []
        for line in lines:
            try:
                name, outcome = json.loads(line)
            except json.JSONDecodeError:  # the worker died while it wrote
                continue
            if name == "new finding":
                self.add_finding(*outcome)
            else:
                self.counts.setdefault(name, Counter())[outcome] += 1
        journal.unlink(missing_ok=True)

    def add_finding(self, name, finding, text, details):
        """Write the program that shows a finding again."""
        if finding in self.findings:
            return
        number = len(list(self.output.glob("*.py"))) + 1
        path = self.output / f"finding_{number:03d}_{name}.py"
        comment = "\n".join(f"# {line}".rstrip() for line in details.splitlines())
        path.write_text(f"# {finding}\nNAME = {name!r}\nCASE = {text!r}\n\n{comment}\n")
        self.findings[finding] = path
        print(f"FINDING {finding}\n        {path}", flush=True)

    def died(self, folder, status, stderr):
        """Note that a worker ended by a crash or a hang."""
        name, text = json.loads((folder / "current").read_text())
        kind = "hang" if "Timeout" in stderr else f"crash with exit status {status}"
        frames = [line.strip() for line in stderr.splitlines() if "sklearn_hocrf" in line]
        finding = f"{kind} in {frames[0][-90:] if frames else '?'}"
        self.counts.setdefault(name, Counter())[f"FINDING {finding}"] += 1
        self.add_finding(name, finding, text, stderr[-4000:])

    def table(self):
        """Return the counts as text."""
        lines = [f"{'strategy':12}{'cases':>8}{'refused':>9}{'findings':>10}"]
        for name, outcomes in sorted(self.counts.items()):
            refused, found = (sum(c for o, c in outcomes.items() if o.startswith(k)) for k in ("refused", "FINDING"))
            lines.append(f"{name:12}{outcomes.total():8}{refused:9}{found:10}")
        counts = sum(self.counts.values(), Counter())
        lines += [f"{count:6} x {outcome}" for outcome, count in counts.most_common() if outcome.startswith("FINDING")]
        return "\n".join(lines)


def watch(arguments):
    """Start workers until the time is over; return the tally."""
    output = Path(arguments.output)
    folder = output / "work"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "journal.jsonl").unlink(missing_ok=True)
    tally, start, number = Tally(output), time.monotonic(), 0
    end = start + 60 * arguments.minutes
    while (left := end - time.monotonic()) > 0:
        seconds = min(left, 60 * arguments.report)
        command = [sys.executable, __file__, "--work", str(folder), "--seconds", str(seconds)]
        seed = arguments.seed * 10_007 + number
        command += ["--hang", str(arguments.hang), "--seed", str(seed), "--strategies", *arguments.strategies]
        (folder / "known.json").write_text(json.dumps(list(tally.findings)))
        try:
            done = subprocess.run(
                command, stderr=subprocess.PIPE, text=True, errors="replace", timeout=seconds + 3 * arguments.hang
            )
            status, stderr = done.returncode, done.stderr
        except subprocess.TimeoutExpired as error:  # so stuck that not even the watchdog's thread ran
            status, stderr = "none", f"Timeout {error.stderr}"
        tally.read(folder)
        if status != 0:
            tally.died(folder, status, stderr)
        number += 1
        print(f"\n--- {(time.monotonic() - start) / 60:.1f} minutes\n{tally.table()}", flush=True)
    return tally


def again(path):
    """Check the case of a finding's file."""
    from fuzz.checks import judge
    from fuzz.strategies import CASES, SGD

    saved = {}
    exec(Path(path).read_text(), saved)
    case = eval(saved["CASE"], {**CASES, "SGD": SGD, "nan": nan, "inf": inf})
    print(case)
    print(judge(saved["NAME"], case))


def main():
    from fuzz.strategies import STRATEGIES

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=list(STRATEGIES))
    parser.add_argument("--output", default="fuzz-findings", help="folder of the findings")
    parser.add_argument("--report", type=float, default=5, help="minutes between two tables")
    parser.add_argument(
        "--hang", type=float, default=120, help="seconds after which a case hangs; some compile kernels"
    )
    parser.add_argument("--again", metavar="FILE", help="show a finding again, and do nothing else")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.again:
        return again(arguments.again)
    if arguments.work:
        folder = Path(arguments.work)
        known = json.loads((folder / "known.json").read_text())
        return work(folder, arguments.seconds, arguments.seed, arguments.strategies, known, arguments.hang)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return 1 if watch(arguments).findings else 0


if __name__ == "__main__":
    sys.exit(main())
