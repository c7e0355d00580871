"""The command line: ``hocrf``, or ``python -m sklearn_hocrf``.

Models are trained on files with one token per line and its label in the last column, as in CRF++ and Wapiti; an empty
line ends a sequence. ``tag`` reads one sequence at a time and requires only numpy::

    hocrf fit train.conll -o names.hocrf --order 2 --constraints bio
    hocrf fit train.conll -o names.hocrf --templates template
    hocrf tag names.hocrf < lines.conll > tagged.conll
    hocrf tag names.hocrf lines.conll --json
    hocrf evaluate names.hocrf test.conll
    hocrf export model.skops -o names.hocrf
    hocrf warm-up

If a line has too few columns, more than 2**20 characters, or bytes that are not UTF-8, ``tag`` ends with exit code 2
and a message that names the line. ``warm-up`` compiles all kernels and stores them in the folder that the environment
variable NUMBA_CACHE_DIR names, by default next to the package; its exit code is 1 if it cannot store them. Without a
command, the program trains models of increasing order on words of noisy handwritten digits.

User guide, including container images: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/production.html.
"""

from __future__ import annotations

import sys

from sklearn_hocrf._shell.commands import main

if __name__ == "__main__":
    sys.exit(main())
