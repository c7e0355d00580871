"""Handwriting on words that training lacks, by the calls that users would write, with defaults but where named.

    OMP_NUM_THREADS=1 python tests/benchmarks/claims.py

Printed is how many letters are right after training on fold 0 of Kassel's words without a fifth of the distinct ones:
of known words by other hands, and of new words; at order 1, and with penalties of order 3 learned by the default folds
and by folds of whole words. Seconds are those of the processor, on one thread, with compiled kernels. The data come
from SKLEARN_HOCRF_DATA or ../shared/data.
"""

import time

import numpy as np
from common import absent, data_file, fit_quietly, skipped
from public_data import load_ocr_letters
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.model_selection import PenaltySearchCV

LETTERS = ("ocr", "letter.data.gz")


def handwriting():
    letters = load_ocr_letters(data_file(*LETTERS))
    written = np.array(["".join(word) for word in letters.target])
    known, new = next(GroupKFold(5, shuffle=True, random_state=0).split(written, groups=written))
    is_first = letters.fold == 0
    parts = known[is_first[known]], known[~is_first[known]], new[~is_first[new]]
    (X, y), *tests = (([letters.data[n] for n in part], [letters.target[n] for n in part]) for part in parts)
    search = PenaltySearchCV(HighOrderCRF(max_order=3))
    models = {
        "HighOrderCRF(max_order=1).fit(X, y)": (HighOrderCRF(max_order=1), {}),
        "PenaltySearchCV(HighOrderCRF(max_order=3)).fit(X, y)": (search, {}),
        "the same with groups=words": (search, {"groups": written[parts[0]]}),
    }
    for name, (model, params) in models.items():
        start = time.process_time()
        fit_quietly(model, X, y, **params)
        seconds = time.process_time() - start
        yield [name, *(f"{model.score(*test):.4f}" for test in tests), f"{seconds:.1f}"]


def main():
    if skipped(absent(LETTERS)):
        return
    print("handwritten letters", "of known words", "of new words", "seconds", sep="\t")
    with threadpool_limits(1):
        for row in handwriting():
            print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
