"""A program that compiles all kernels, by models of every kind on toys, and counts their versions.

    python tests/all_kernels.py
    python tests/all_kernels.py --backwards   # a second process: both meet in the middle, as each finds what is there

The first writes a JSON list of three objects, kernels with their numbers of versions: after toys, after data of other
sizes, and after extremes. Only kernels that Python calls are counted; those that kernels call are compiled, and cached,
as parts of these. It needs no more than the package does.
"""

import json
import sys
import warnings

from sklearn_hocrf._shell.warm_up import EXTREME, SIZES, compiled, everything, extremes, toy


def main():
    """Write what is compiled after toys, after data of other sizes, and after extremes: long and large."""
    warnings.simplefilter("ignore")  # not converged
    if "--backwards" in sys.argv:
        use_all(reversed([*everything(*SIZES[0])]))
        return
    stages = []
    for size in SIZES:
        use_all(everything(*size))
        stages.append(compiled())
    use_all(extremes(*toy(*EXTREME)))
    json.dump([*stages, compiled()], sys.stdout)


def use_all(uses):
    for use_model in uses:
        use_model()


if __name__ == "__main__":
    main()
