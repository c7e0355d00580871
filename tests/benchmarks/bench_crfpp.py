"""Chunking (conll2000) beside CRF++, where its program ``crf_learn`` is on PATH.

    OMP_NUM_THREADS=1 PATH=... python tests/benchmarks/bench_crfpp.py [--rounds N] [--sentences N]

prints processor seconds of a pass over the data, training included what a solver does between passes. CRF++ knows no
models of supported pairs only: every attribute goes with every label, and every label with every other. So HighOrderCRF
gets the same here (``unsupported=True``, ``patterns="all"``), and CRF++'s attributes for what is outside a sentence.
Then both minimise the same function, with ``-c`` in the place of the squared ``sigma_reg``, and end at the same value.
That takes CRF++ long, so both train on part of the sentences for a few passes.
"""

import argparse
import re
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import bench_chunking
import common
import numpy as np
from bench_features import TEMPLATES
from bench_tagging import load_sentences
from common import Process, print_table, skip_where, with_spread

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import AttributeVectorizer

PROGRAMS = ["HighOrderCRF", "CRF++"]
N_SENTENCES, N_PASSES = 2000, 10
COLUMNS = {"w": 0, "p": 1}
SETTINGS = bench_chunking.SETTINGS | {"unsupported": True, "patterns": "all"}


def absent():
    """Return why the benchmark cannot run, or None."""
    if shutil.which("crf_learn") is None:
        return "crf_learn of CRF++ is not on PATH"
    return common.absent(bench_chunking.TRAIN, bench_chunking.TEST)


def template_file():
    """Return the chunking templates as CRF++ reads them, and that of label pairs."""
    lines = [
        f"U{number:02}:" + "/".join(f"%x[{offset},{COLUMNS[field]}]" for field, offset in template)
        for number, template in enumerate(TEMPLATES)
    ]
    return "\n".join([*lines, "B", ""])


def data_file(X, y):
    """Return sentences as CRF++ reads them."""
    sentences = [
        "".join(f"{word} {pos} {label}\n" for (word, pos), label in zip(*pair, strict=True))
        for pair in zip(X, y, strict=True)
    ]
    return "\n".join(sentences) + "\n"


def attributes(sentence):
    """Return the attributes that CRF++ makes of each token."""

    def value(position, column):
        if position < 0:
            return f"_B{position}"
        if position >= len(sentence):
            return f"_B+{position - len(sentence) + 1}"
        return sentence[position][column]

    return [
        [
            f"U{number:02}:" + "/".join(value(t + offset, COLUMNS[field]) for field, offset in template)
            for number, template in enumerate(TEMPLATES)
        ]
        for t in range(len(sentence))
    ]


class Training:
    """Training for a given number of iterations."""

    params = PROGRAMS
    param_names = ["program"]
    timeout = 600

    def setup(self, program, n_sentences=N_SENTENCES):
        skip_where(absent())
        self.X, self.y = load_sentences(bench_chunking.TRAIN, n_sentences)
        if program == "HighOrderCRF":
            self.batch = AttributeVectorizer().fit_transform([attributes(sentence) for sentence in self.X])
            self.train = self.train_ours
        else:
            self.train = self.train_crfpp

    def train_ours(self, n_iterations):
        """Return passes, their seconds and the last objective."""
        solver = bench_chunking.TimedLBFGS(n_iterations)
        crf = HighOrderCRF(**SETTINGS, solver=solver)
        common.fit_quietly(crf, self.batch, self.y)
        return crf.n_passes_, solver.moments.since_first()[0][-1], crf.objective_history_[-1]

    def train_crfpp(self, n_iterations):
        """Return the same of CRF++, whose iterations are passes, with what it does before the first."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "template").write_text(template_file())
            Path(folder, "data").write_text(data_file(self.X, self.y))
            cost = SETTINGS["sigma_reg"] ** 2
            command = ["crf_learn", "-f", "1", "-c", str(cost), "-p", "1", "-m", str(n_iterations)]
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            done = subprocess.run(
                [*command, "template", "data", "model"], cwd=folder, capture_output=True, text=True, check=True
            )
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        objectives = re.findall(r"obj=(\S+)", done.stdout)
        return len(objectives), seconds, float(objectives[-1])

    def track_seconds_per_pass(self, program, n_passes=N_PASSES):
        """Return the seconds of a pass: the difference of a long and a short training."""
        self.train(1)  # loads the kernels
        (few, start, _), (many, stop, _) = self.train(2), self.train(2 + n_passes)
        return (stop - start) / (many - few)


def measure(n_rounds, **settings):
    """Return the seconds of a pass of each of PROGRAMS in each round; shape (2, n_rounds)."""
    with Process() as process:
        cases = [process.keep(Training, program, **settings) for program in PROGRAMS]
        return np.array([[case.call("track_seconds_per_pass") for case in cases] for _ in range(n_rounds)]).T


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the comparison (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=N_SENTENCES, help="to train on (default: %(default)s)")
    options = parser.parse_args(arguments)
    if reason := absent():
        print(f"skipped: {reason}")
        return
    seconds = measure(options.rounds, n_sentences=options.sentences)
    rows = [
        (program, with_spread(column), with_spread(column / seconds[1]))
        for program, column in zip(PROGRAMS, seconds, strict=True)
    ]
    print_table(["seconds per pass: median [least most]", "", "ratio"], rows)


if __name__ == "__main__":
    main()
