"""Run the commands of README and docs/results.md, and print the figures of the pages next to those of the commands.

    python tests/benchmarks/reproduce.py [--only PART ...]

Each row of reproduce.tsv contains a part, a command (below tests/benchmarks), the beginning of a line that the command
prints, the positions of the relevant numbers in the rest of this line, and the figures of the pages. All parts together
take most of a day, and need the data of notebooks/fetch_data.py; if data are absent, their figures are missing. Figures
of time and memory depend on the machine. The figures that pages quote from a notebook are in the outputs of that
notebook.
"""

import re
import shlex
import subprocess
import sys
from itertools import groupby
from pathlib import Path

from common import parse, print_table

HERE = Path(__file__).parent
ROWS = [line.split("\t") for line in (HERE / "reproduce.tsv").read_text(encoding="utf-8").splitlines()[1:]]
NUMBER = r"[-+]?(?:\d[\d,]*)?\.?\d+(?:e[-+]\d+)?"


def find(output, begin, places):
    """Return the numbers at some places of the last line that begins so, whatever its blanks; or none."""
    for line in reversed([" ".join(line.split()) for line in output.splitlines()]):
        if line.startswith(begin):
            numbers = re.findall(NUMBER, line[len(begin) :])
            return [numbers[int(place) - 1] for place in places if int(place) <= len(numbers)]
    return []


def main(arguments=None):
    options, table = parse(__doc__, arguments, only=list(dict.fromkeys(part for part, *_ in ROWS))), []
    for command, rows in groupby((row for row in ROWS if row[0] in options.only), key=lambda row: row[1]):
        print(command, flush=True)
        run = subprocess.run([sys.executable, *shlex.split(command)], cwd=HERE, stdout=subprocess.PIPE, text=True)
        print(run.stdout)
        table += [
            [part, begin, said, " ".join(find(run.stdout, begin, at.split()))] for part, _, begin, at, said in rows
        ]
    print_table(["part", "line", "said", "found"], table)


if __name__ == "__main__":
    main()
