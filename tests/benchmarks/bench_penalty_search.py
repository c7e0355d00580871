"""Learned penalties: what they bring, and what they cost beside plain cross-validation.

    python tests/benchmarks/bench_penalty_search.py [--tasks T ...]

One thread. Handwriting: fold 0 with the default folds, words at random (orders 3 and 5, with the accuracy on the nine
other folds), and by groups, words held out (orders 0 to 3); claims.py has what both bring for known and for new words.
References and punctuation by segments, SC^2: three folds of the training set, F1 and likelihood on the test set beside
those of sigma 1. conll2000 (held out: the last fifth of the training set) and conll2002 (held out: testa), orders 1 and
2, against a grid of one sigma for all weights. Cost is in units of one cross-validation (or fit) at sigma 1: in
processor seconds of the same run, which other programs stretch, and in passes over the data, those of Hessian products
by their seconds in the units of a gradient.
"""

import argparse
import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import bench_bibliography
import bench_chunking
import bench_handwriting
import bench_ner
import bench_punctuation
import numpy as np
from common import absent, data_file, print_table
from seqeval.metrics import f1_score
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import load_conll, make_digit_words
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import randomization_test, segment_f1_score, token_f1_score
from sklearn_hocrf.model_selection import PenaltySearchCV, _fold

RANDOM, BY_GROUP = KFold(5, shuffle=True, random_state=0), GroupKFold(5, shuffle=True, random_state=0)  # the defaults
HELD_OUT = ("conll2002", "esp.testa.gz")
GRID = (0.3, 1.0, 3.0, 10.0)


def clock(call):
    """Return what a call returns, and its processor seconds."""
    begun = time.process_time()
    result = call()
    return result, time.process_time() - begun


class Passes:
    """Counts gradients and Hessian products of searches, each with its processor seconds, while it is entered."""

    def __enter__(self):
        self._methods = {name: getattr(_fold._Counted, name) for name in ("value_gradient", "hessp")}
        self._seconds = dict.fromkeys(self._methods, 0.0)
        self.counts = dict.fromkeys(self._methods, 0)
        for name in self._methods:
            setattr(_fold._Counted, name, self._counted(name))
        return self

    def __exit__(self, *_):
        for name, method in self._methods.items():
            setattr(_fold._Counted, name, method)

    def _counted(self, name):
        def call(*arguments):
            result, seconds = clock(lambda: self._methods[name](*arguments))
            self._seconds[name] += seconds
            self.counts[name] += 1
            return result

        return call

    def cost(self, search, unit, share):
        """Return the cost in units of so many gradients, without and with the refit; each has a share of all data."""
        gradients, products = self.counts["value_gradient"], self.counts["hessp"]
        ratio = self._seconds["hessp"] / products / (self._seconds["value_gradient"] / gradients)
        searched, refit = gradients + ratio * products, search.best_estimator_.n_passes_ / share
        return f"{searched / unit:.1f}, {(searched + refit) / unit:.1f} (a product is {ratio:.2f} gradients)"

    def __str__(self):
        return f"{self.counts['value_gradient']} + {self.counts['hessp']}"


def compile_kernels():
    """Let no measurement pay for the compilation."""
    X, _, y, _ = make_digit_words(n_train=20, n_test=1, random_state=0)
    for model in HighOrderCRF(2), HighOrderCRF(1, unsupported=True):
        cross_validate(model, X, y, [(range(10), range(10, 20))])
        PenaltySearchCV(model, cv=2, max_steps=1).fit(X, y)


def cross_validate(model, X, y, splits):
    """Return the held-out log-likelihood per token of all folds and the passes, by plain fits."""
    sums = []
    for train, test in splits:
        X_train, y_train, X_test, y_test = (take(s, i) for i in (train, test) for s in (X, y))
        fitted = clone(model).fit(X_train, y_train)
        sums.append((fitted.log_likelihood(X_test, y_test).sum(), sum(map(len, y_test)), fitted.n_passes_))
    log_likelihood, n_tokens, n_passes = np.sum(sums, axis=0)
    return float(log_likelihood / n_tokens), n_passes


def take(sequences, numbers):
    return [sequences[i] for i in numbers] if isinstance(sequences, list) else sequences[numbers]


def best_score(search, y, splits):
    """Return the best held-out log-likelihood per token of all folds, where the search has the mean over folds."""
    scores = [search.cv_results_[f"split{number}_test_score"][search.best_index_] for number in range(len(splits))]
    return float(np.average(scores, weights=[sum(map(len, take(y, test))) for _, test in splits]))


def sigmas(search):
    given = next(value for name, value in search.best_params_.items() if name.endswith("sigma_reg"))
    return ", ".join(f"{value:.3g}" for value in given.values())


def handwriting(orders=(3, 5)):
    """Words at random: likelihood, accuracy on the nine other folds, and cost."""
    (X, y), (X_test, y_test), source = bench_handwriting.load_words()
    splits, rows = list(RANDOM.split(X)), []
    for order in orders:
        model = HighOrderCRF(order, unsupported=True)
        (fixed, n_passes), unit = clock(lambda model=model: cross_validate(model, X, y, splits))
        with Passes() as passes:
            search, seconds = clock(lambda model=model: PenaltySearchCV(model).fit(X, y))
        rows.append(
            (
                order,
                f"{-fixed:.4f} / {model.fit(X, y).score(X_test, y_test):.4f}",
                f"{-best_score(search, y, splits):.4f} / {search.score(X_test, y_test):.4f}",
                sigmas(search),
                f"{len(search.cv_results_['params'])}, {passes}",
                f"{(seconds - search.refit_time_) / unit:.1f}, {seconds / unit:.1f}",
                passes.cost(search, n_passes, 1 - 1 / len(splits)),
            )
        )
        print(rows[-1], flush=True)
    heads = (
        "order",
        "sigma 1: nats a letter / accuracy",
        "learned",
        "sigma_reg by group",
        "steps, gradients + products",
        "cost, refit",
        "in passes",
    )
    print(f"{source}, words at random; cost in cross-validations at sigma 1, without and with the refit\n")
    print_table(heads, rows)


def new_words(orders=(0, 1, 2, 3)):
    """Words held out: likelihood and accuracy of held-out words."""
    (X, y), _, source = bench_handwriting.load_words()
    words = ["".join(map(str, labels)) for labels in y]
    splits, rows = list(BY_GROUP.split(X, y, words)), []
    for order in orders:
        model = HighOrderCRF(order, unsupported=True)
        fixed, _ = cross_validate(model, X, y, splits)
        search = PenaltySearchCV(model, refit=False).fit(X, y, groups=words)
        accuracy = search.cv_results_["token_accuracy"]
        best = accuracy[search.best_index_]
        rows.append(
            (
                order,
                f"{-fixed:.4f}",
                f"{-best_score(search, y, splits):.4f}",
                f"{accuracy[0]:.4f}",
                f"{best:.4f}",
                sigmas(search),
            )
        )
        print(rows[-1], flush=True)
    print(f"{source}, words held out\n")
    print_table(("order", "sigma 1, nats", "learned, nats", "sigma 1, accuracy", "learned", "sigma_reg by group"), rows)


def segmentation(name, module, data, score):
    """SC^2: three folds of the training set; likelihood and F1 on the test set."""
    features = module.segment_features()
    X, X_test = features.fit_transform(data.X), features.transform(data.X_test)
    model = module.segment_model(2)
    fixed = clone(model).fit(X, data.y)
    search = PenaltySearchCV(model, cv=KFold(3, shuffle=True, random_state=0)).fit(X, data.y)
    n_tokens = sum(map(len, data.y_test))
    rows, predicted = [], []
    for what, fitted in ("sigma 1", fixed), ("learned", search):
        predicted.append(fitted.predict(X_test))
        likelihood = fitted.log_likelihood(X_test, data.y_test)
        finite = np.isfinite(likelihood)
        mean = likelihood[finite].sum() / sum(len(s) for s, f in zip(data.y_test, finite, strict=True) if f)
        rows.append((what, f"{100 * score(data.y_test, predicted[-1]):.2f}", f"{mean:.4f}", int((~finite).sum())))
    test = randomization_test(data.y_test, *predicted, metric=score, random_state=0)
    first = search.cv_results_["mean_test_score"][0]
    print(f"{name}, SC^2, {n_tokens} test tokens: sigma {sigmas(search)}; p = {test.p_value:.3f}")
    print(f"held-out log-likelihood a token {first:.4f} -> {search.best_score_:.4f}\n")
    print_table(("", "F1 on test", "log-likelihood a test token", "without a likelihood"), rows)


def references():
    data = bench_bibliography.load_references()
    segmentation("references", bench_bibliography, data, segment_f1_score)


def marks_f1(y_true, y_pred):
    decoded = map(bench_punctuation.decode_punctuation, (y_true, y_pred))
    return token_f1_score(*decoded, labels=bench_punctuation.MARKS, average="micro", zero_division=0)


def punctuation():
    segmentation("punctuation", bench_punctuation, bench_punctuation.load_dialogues(), marks_f1)


def text(name, data, n_held_out, orders=(1, 2)):
    """Chunks or names: the last sentences are held out, a grid of one sigma beside the learned ones."""
    X, y = data.train, data.y_train
    split = PredefinedSplit(np.where(np.arange(len(y)) >= len(y) - n_held_out, 0, -1))
    train, test = next(split.split())
    rows = []
    for order in orders:
        model = HighOrderCRF(order)
        unit, best = None, (-np.inf, None)
        for sigma in GRID:
            candidate = clone(model).set_params(sigma_reg=sigma)
            (score, n_passes), seconds = clock(
                lambda candidate=candidate: cross_validate(candidate, X, y, [(train, test)])
            )
            unit = (seconds, n_passes) if sigma == 1.0 else unit
            best = max(best, (score, sigma))
            print(name, order, sigma, f"{score:.5f}", f"{seconds:.0f} s, {n_passes:.0f} passes", flush=True)
        grid = clone(model).set_params(sigma_reg=best[1])
        grid.fit(X, y)
        with Passes() as passes:
            search, seconds = clock(lambda model=model: PenaltySearchCV(model, cv=split).fit(X, y))
        results = search.cv_results_
        columns = (results[name] for name in ("mean_test_score", "n_passes", "seconds"))
        for score, n_passes, spent in zip(*columns, strict=True):
            print(f"step: {score:.5f}, {n_passes} passes, {spent:.0f} s")
        f1 = [100 * f1_score(data.y_test, [list(s) for s in m.predict(data.test)]) for m in (grid, search)]
        rows.append(
            (
                order,
                f"{best[0]:.5f} (sigma {best[1]}), {f1[0]:.2f}",
                f"{search.best_score_:.5f}, {f1[1]:.2f}",
                sigmas(search),
                f"{len(results['params'])}, {passes}",
                f"{(seconds - search.refit_time_) / unit[0]:.1f}, {seconds / unit[0]:.1f}",
                passes.cost(search, unit[1], len(train) / len(y)),
            )
        )
        print(rows[-1], flush=True)
    print(f"{name}; cost in fits at sigma 1, without and with the refit\n")
    heads = "order", "grid: held-out, F1", "learned", "sigma_reg by group", "steps, gradients + products"
    print_table((*heads, "cost, refit", "in passes"), rows)


def chunks():
    data = bench_chunking.load_chunks()
    text("conll2000", data, len(data.y_train) // 5)


def names():
    columns = ["w", "p", "tag"]
    files = bench_ner.TRAIN, HELD_OUT, bench_ner.TEST
    (X, y), (X_dev, y_dev), (X_test, y_test) = (load_conll(data_file(*f), columns, return_X_y=True) for f in files)
    X, y = ([s for s in sequences if len(s) <= bench_ner.LONGEST] for sequences in (X, y))
    extractor = SequenceFeatureExtractor(bench_chunking.TEMPLATES, fields=["w", "p"], padding="drop")
    batch = extractor.fit_transform([*X, *X_dev])
    data = bench_chunking.Chunks(batch, extractor.transform(X_test), [*y, *y_dev], y_test)
    text("conll2002", data, len(X_dev))


TASKS = {task.__name__: task for task in (handwriting, new_words, references, punctuation, chunks, names)}
NEEDS = {"references": bench_bibliography.TRAIN, "punctuation": bench_punctuation.TRAIN}
NEEDS |= {"chunks": bench_chunking.TRAIN, "names": bench_ner.TRAIN}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="which ones (default: all)")
    warnings.simplefilter("ignore")
    names = parser.parse_args(arguments).tasks
    compile_kernels()
    for name in names:
        if name in NEEDS and (reason := absent(NEEDS[name])):
            print(f"{name}: skipped, {reason}")
            continue
        begun = time.perf_counter()
        TASKS[name]()
        print(f"\n({name}: {time.perf_counter() - begun:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
