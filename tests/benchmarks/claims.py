"""What README claims, by the calls that its readers would write: all settings are defaults but for those named.

    OMP_NUM_THREADS=1 python tests/benchmarks/claims.py [handwriting] [names] [turkish]

handwriting: how many letters are right after training on fold 0 of Kassel's words without a fifth of the distinct ones:
of known words by other hands, and of new words; at order 1, and with penalties of order 3 learned by the default folds
and by folds of whole words.
names: F1 of Spanish names (conll2002, training on esp.train) from words alone, beside the tutorials of python-crfsuite
and sklearn-crfsuite, which use parts of speech, too: their features and parameters. turkish: 981 tags of morphology,
with few candidates for each word, and with all labels. Seconds are those of the processor, on one thread, with
extraction and compiled kernels. Data come from SKLEARN_HOCRF_DATA or ../shared/data; what needs absent data or modules
is left out. compare.py measures how the time of training compares with that of python-crfsuite.
"""

import argparse
import time

import common
import numpy as np
from common import TURKISH, data_file, fit_quietly, words_and_tags
from public_data import load_ocr_letters
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import segment_f1_score
from sklearn_hocrf.model_selection import PenaltySearchCV

LETTERS = [("ocr", "letter.data.gz")]
NAMES = [("conll2002", f"esp.{part}.gz") for part in ("train", "testa", "testb")]


def handwriting():
    letters = load_ocr_letters(data_file(*LETTERS[0]))
    written = np.array(["".join(word) for word in letters.target])
    known, new = next(GroupKFold(5, shuffle=True, random_state=0).split(written, groups=written))
    is_first = letters.fold == 0
    parts = known[is_first[known]], known[~is_first[known]], new[~is_first[new]]
    (X, y), *tests = (([letters.data[n] for n in part], [letters.target[n] for n in part]) for part in parts)
    search = PenaltySearchCV(HighOrderCRF(max_order=3))
    models = {
        "HighOrderCRF().fit(X, y)": (HighOrderCRF(), {}),
        "PenaltySearchCV(HighOrderCRF(max_order=3)).fit(X, y)": (search, {}),
        "the same with groups=words": (search, {"groups": written[parts[0]]}),
    }
    for name, (model, params) in models.items():
        start = time.process_time()
        fit_quietly(model, X, y, **params)
        seconds = time.process_time() - start
        yield [name, *(f"{model.score(*test):.4f}" for test in tests), f"{seconds:.1f}"]


def attributes(sentence, t, near):
    """Return the attributes of a token in the tutorials, or those of a neighbour, which are fewer."""
    word, tag = sentence[t]
    short = {"word.lower()": word.lower(), "word.istitle()": word.istitle(), "word.isupper()": word.isupper()}
    short |= {"postag": tag, "postag[:2]": tag[:2]}
    if near:
        return {f"{near}:{name}": value for name, value in short.items()}
    return {"bias": 1.0, **short, "word[-3:]": word[-3:], "word[-2:]": word[-2:], "word.isdigit()": word.isdigit()}


def tutorial(sentence):
    """Return the attributes of all tokens of a sentence of (word, part of speech)."""
    last = len(sentence) - 1
    return [
        attributes(sentence, t, "")
        | (attributes(sentence, t - 1, "-1") if t > 0 else {"BOS": True})
        | (attributes(sentence, t + 1, "+1") if t < last else {"EOS": True})
        for t in range(len(sentence))
    ]


def names():
    import sklearn_crfsuite

    parts = [load_conll(data_file(*file), ["word", "pos", "tag"]) for file in NAMES]
    X, y = zip(*parts, strict=True)
    tokens = [[[(token["word"], token["pos"]) for token in sentence] for sentence in part] for part in X]
    only_words = [[[word for word, _ in sentence] for sentence in part] for part in tokens]
    dicts = [[tutorial(sentence) for sentence in part] for part in tokens]
    suite = {"algorithm": "lbfgs", "all_possible_transitions": True}
    models = {
        "HighOrderCRF(), words": (make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()), only_words),
        "HighOrderCRF(), words, parts of speech": (make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()), tokens),
        "HighOrderCRF(), tutorial": (HighOrderCRF(), dicts),
        "python-crfsuite, tutorial": (sklearn_crfsuite.CRF(c1=1.0, c2=1e-3, max_iterations=50, **suite), dicts),
        "sklearn-crfsuite, tutorial": (sklearn_crfsuite.CRF(c1=0.1, c2=0.1, max_iterations=100, **suite), dicts),
    }
    for name, (model, (train, *tests)) in models.items():
        start = time.process_time()
        fit_quietly(model, train, y[0])
        seconds = time.process_time() - start
        scores = [segment_f1_score(*pair, scheme="bio") for pair in zip(y[1:], map(model.predict, tests), strict=True)]
        yield [name, *(f"{score:.4f}" for score in scores), f"{seconds:.1f}"]


def turkish():
    (X, y), (X_test, y_test) = (words_and_tags(data_file(*file)) for file in TURKISH)
    for affixes in None, 10:
        for pruning in (4, None) if affixes else (4,):
            model = make_pipeline(SequenceFeatureExtractor(affixes=affixes), HighOrderCRF(pruning=pruning))
            start = time.process_time()
            fit_quietly(model, X, y)
            seconds = time.process_time() - start
            name = f"affixes={affixes}, pruning={pruning}"
            yield [name, f"{model.score(X_test, y_test):.4f}", f"{seconds:.1f}", model[-1].n_iter_]


TASKS = {
    "handwriting": (handwriting, ["handwritten letters", "of known words", "of new words", "seconds"], LETTERS, []),
    "names": (names, ["Spanish names", "F1 testa", "F1 testb", "seconds"], NAMES, ["sklearn_crfsuite"]),
    "turkish": (turkish, ["Turkish morphology", "accuracy", "seconds", "iterations"], TURKISH, []),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", choices=[*TASKS, []])  # a dict cannot be asked for []
    for name in parser.parse_args().tasks or TASKS:
        measure, heads, files, modules = TASKS[name]
        if reason := common.absent(*files, modules=modules):
            print(f"{name}, skipped: {reason}")
            continue
        print("\t".join(heads))
        with threadpool_limits(1):
            for row in measure():
                print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
