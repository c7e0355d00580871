"""Local feature matching beside maximum likelihood: the study of Kim (2014), and the same on other data.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_local_feature_matching.py [--data NAME ...] [--splits N] [--quick]

* conll2002: Spanish named entities. In each split 2000 random sentences (of at most 200 words), half of them to train
  and half to test; tags without B- and I-. A feature for each word type, and for words that have punctuation, have a
  digit, or are longer than 3 characters, each with all pairs of labels (``feature_order`` exactly 1); at the first word
  with the single labels, as attributes of their own that begin with "start:". Logistic regression is ``max_order=0``.
* handwriting: each split trains on another fold and tests on the other nine; orders 1 and 3, all pixel and letter
  pairs.
* bibliography: SC^2 of bench_bibliography; each split is a random half to train of all references.

Errors are in percent of all tokens, and of the tokens whose label is not O. The strength of the penalty of each method
is that of ``--sigmas`` with the fewest wrong tokens in a fifth of the training sequences, having trained on the others;
then it trains on all. The two objectives have different scales, so with one strength for both (``--sigmas 1``) it is
the strength that is compared, and not the objectives.
Differences are tested by a paired t test over splits, which is too sure of itself: the splits share data.
"""

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
from bench_bibliography import load_references, segment_features, segment_model
from common import data_file, print_table
from scipy.stats import ttest_rel
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import load_conll, load_ocr_letters

SIGMAS = (1.0, 3.0, 10.0, 30.0)
PUBLISHED = {"logistic regression": 45.50, "likelihood": 23.14, "local_feature_matching": 18.83}  # Kim's Table 3
MATCHING = "local_feature_matching"


class Split(NamedTuple):
    """Training and test sequences."""

    X: list
    y: list
    X_test: list
    y_test: list


class Study(NamedTuple):
    """Data sets and the models to compare on them."""

    splits: list  # of functions that return a Split
    models: dict  # name -> function(objective, sigma_reg) that returns an estimator
    comparisons: dict  # name of a row -> (model, objective)
    outside: str | None  # the label O


# --- data -------------------------------------------------------------------------------------------------------------


def word_attributes(words):
    """Return the attributes of the words of a sentence: those that go with pairs of labels, and those of its start."""
    rows = []
    for word in words:
        spelling = {
            "punctuation": any(not (c.isalnum() or c.isspace()) for c in word),
            "digit": any(c.isdigit() for c in word),
            "longer than 3": len(word) > 3,
        }
        rows.append([f"word={word}", *(name for name, has in spelling.items() if has)])
    return [[f"start:{name}" for name in rows[0]] + rows[0], *rows[1:]]


def conll_study(n_splits, n_sentences):
    path = data_file("conll2002", "esp.train.gz")
    if path is None:
        return None
    data = load_conll(path, columns=["word", None, "tag"])
    words = [[token["word"] for token in sentence] for sentence in data.data]
    labels = [[tag.split("-")[-1] for tag in tags] for tags in data.target]
    usable = np.flatnonzero([len(sentence) <= 200 for sentence in words])

    def split(number):
        chosen = np.random.default_rng(number).permutation(usable)[:n_sentences]
        train, test = np.split(chosen, 2)
        X = {n: word_attributes(words[n]) for n in chosen}
        return Split(*([table[n] for n in part] for part in (train, test) for table in (X, labels)))

    def chain(objective, **parameters):
        orders = {"": (1,), "start:": 0}
        settings = {"patterns": "all", "feature_order": orders, "unsupported": True}
        return HighOrderCRF(1, objective=objective, **settings, **parameters)

    def tokens(objective, **parameters):
        return HighOrderCRF(0, objective=objective, unsupported=True, **parameters)

    comparisons = {
        "logistic regression": ("order 0", "likelihood"),
        "likelihood": ("order 1", "likelihood"),
        MATCHING: ("order 1", MATCHING),
    }
    splits = [lambda number=number: split(number) for number in range(n_splits)]
    return Study(splits, {"order 0": tokens, "order 1": chain}, comparisons, "O")


def handwriting_study(n_splits, n_words):
    path = data_file("ocr", "letter.data.gz")
    if path is None:
        return None
    words = load_ocr_letters(path)

    def split(fold):
        train, test = np.flatnonzero(words.fold == fold)[:n_words], np.flatnonzero(words.fold != fold)
        return Split(*([table[n] for n in part] for part in (train, test) for table in (words.data, words.target)))

    def chain(max_order):
        return lambda objective, **parameters: HighOrderCRF(
            max_order, objective=objective, unsupported=True, **parameters
        )

    models = {f"order {k}": chain(k) for k in (0, 1, 3)}
    comparisons = {"logistic regression": ("order 0", "likelihood")}
    for k in (1, 3):
        comparisons[f"likelihood, order {k}"] = (f"order {k}", "likelihood")
        comparisons[f"{MATCHING}, order {k}"] = (f"order {k}", MATCHING)
    return Study([lambda fold=fold: split(fold) for fold in range(n_splits)], models, comparisons, None)


def bibliography_study(n_splits, n_references):
    references = load_references()
    if references is None:
        return None
    X, y = references.X + references.X_test, references.y + references.y_test

    def split(number):
        chosen = np.random.default_rng(number).permutation(len(X))[:n_references]
        train, test = np.split(chosen, 2)
        features = segment_features()
        X_train = features.fit_transform([X[n] for n in train])
        X_test = features.transform([X[n] for n in test])
        return Split(X_train, [y[n] for n in train], X_test, [y[n] for n in test])

    comparisons = {"likelihood": ("SC^2", "likelihood"), MATCHING: ("SC^2", MATCHING)}

    def segments(objective, **parameters):
        return segment_model(2, objective=objective, **parameters)

    splits = [lambda number=number: split(number) for number in range(n_splits)]
    return Study(splits, {"SC^2": segments}, comparisons, None)


STUDIES = {"conll2002": conll_study, "handwriting": handwriting_study, "bibliography": bibliography_study}
SIZES = {"conll2002": 2000, "handwriting": None, "bibliography": 500}
SMALL = {"conll2002": 120, "handwriting": 60, "bibliography": 40}

# --- the comparison ---------------------------------------------------------------------------------------------------


def select(X, numbers):
    return X[numbers] if hasattr(X, "shape") else [X[n] for n in numbers]


def errors(model, X, y, outside):
    """Return the percentages of wrong tokens: of all of them, and of those whose label is not O."""
    predicted, truth = np.concatenate(model.predict(X)), np.concatenate(y)
    wrong, inside = predicted != truth, truth != outside
    return 100 * wrong.mean(), 100 * wrong[inside].mean()


def fit(make, objective, sigma, X, y, parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make(objective, sigma_reg=sigma, **parameters).fit(X, y)


def choose_sigma(make, objective, sigmas, split, parameters):
    """Return the strength of the penalty with the fewest errors in a fifth of the training sequences."""
    if len(sigmas) == 1:
        return sigmas[0]
    order = np.random.default_rng(0).permutation(len(split.y))
    held_out, rest = np.split(order, [len(order) // 5])
    X, y = select(split.X, rest), select(split.y, rest)
    wrong = [
        errors(
            fit(make, objective, sigma, X, y, parameters), select(split.X, held_out), select(split.y, held_out), None
        )[0]
        for sigma in sigmas
    ]
    return sigmas[int(np.argmin(wrong))]


class Matching:
    """Training by either objective."""

    params = ["likelihood", MATCHING]
    param_names = ["objective"]

    def setup(self, objective, study=None):
        study = handwriting_study(1, None) if study is None else study
        self.split = study.splits[0]()
        self.make, self.objective = study.models["order 1"], objective

    def time_fit(self, *_):
        return fit(self.make, self.objective, 1.0, self.split.X, self.split.y, {})


def run(study, sigmas, parameters):
    """Print the errors of each method in each split; return them, shape (n_methods, n_splits, 2)."""
    table = np.empty((len(study.comparisons), len(study.splits), 2))
    for number, make_split in enumerate(study.splits):
        split = make_split()
        for row, (name, (model, objective)) in enumerate(study.comparisons.items()):
            start = time.perf_counter()
            sigma = choose_sigma(study.models[model], objective, sigmas, split, parameters)
            crf = fit(study.models[model], objective, sigma, split.X, split.y, parameters)
            table[row, number] = errors(crf, split.X_test, split.y_test, study.outside)
            both = ", ".join(f"{error:.2f}" for error in table[row, number])
            seconds = time.perf_counter() - start
            print(
                f"split {number}, {name}: sigma {sigma:g}, {crf.n_iter_} iterations, {seconds:.0f} s, errors {both}",
                flush=True,
            )
    return table


def report(name, study, table):
    rows = []
    for method, values in zip(study.comparisons, table, strict=True):
        published = PUBLISHED.get(method, "") if name == "conll2002" else ""
        spread = values.std(axis=0, ddof=1) if len(study.splits) > 1 else np.full(2, np.nan)
        cells = [f"{mean:.2f} +- {deviation:.2f}" for mean, deviation in zip(values.mean(axis=0), spread, strict=True)]
        rows.append((method, cells[0], cells[1] if study.outside else "", published))
    print(f"\n{name}: token errors in percent, mean and standard deviation over {len(study.splits)} splits")
    print_table(["method", "all tokens", "without O", "published"], rows)
    methods = list(study.comparisons)
    for row, method in enumerate(methods):
        if not method.startswith(MATCHING) or len(study.splits) < 2:
            continue
        other = methods.index(method.replace(MATCHING, "likelihood"))
        for kind, title in enumerate(["all tokens", "without O"] if study.outside else ["all tokens"]):
            difference = table[row, :, kind] - table[other, :, kind]
            p = ttest_rel(table[row, :, kind], table[other, :, kind]).pvalue
            print(
                f"{method} minus {methods[other]}, {title}: {difference.mean():+.2f} [{difference.min():+.2f} "
                f"{difference.max():+.2f}], lower in {np.sum(difference < 0)} of {len(difference)} splits, p = {p:.3f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=STUDIES, default=list(STUDIES), help="data sets (default: all)")
    parser.add_argument("--splits", type=int, default=6, help="random splits, at most 10 (default: %(default)s)")
    parser.add_argument("--sigmas", type=float, nargs="+", default=SIGMAS, help="strengths (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="little data, few iterations, two splits, one strength")
    options = parser.parse_args()
    n_splits, sigmas = (2, (1.0,)) if options.quick else (min(options.splits, 10), tuple(options.sigmas))
    parameters = {"max_iter": 10} if options.quick else {"max_iter": 200, "tol": 1e-3}
    with threadpool_limits(1):
        for name in options.data:
            study = STUDIES[name](n_splits, (SMALL if options.quick else SIZES)[name])
            if study is None:
                print(f"{name} is absent: set SKLEARN_HOCRF_DATA")
                continue
            report(name, study, run(study, sigmas, parameters))


if __name__ == "__main__":
    main()
