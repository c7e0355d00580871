"""Numbers: a CRF on the scores of a classifier, beside the classifier alone and the CRF on the features themselves.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/recordings.py [--sets ocr houseA houseB houseC eyes]

ocr     letters of handwritten words, of two folds; pixels.
houseA  what people do at home, also houseB and houseC (T. van Kasteren; agnesvanbelle/TL on GitHub, "houseA-as.txt" and
        the like in the folder "houses"): days of slices of five minutes; sensors that changed, and the last that did.
eyes    movements of eyes, as labelled by the expert MN (R. Andersson et al.; EyeMovementDetectorEvaluation on GitHub,
        files such as dots_TH20_trial1_labelled_MN.mat in the folder "eyes"), at 125 Hz; speeds and turns over 1 to 16
        samples.

4 folds of words, days or persons. Classifiers: logistic regression, and a random forest with at least 3 rows in a leaf;
all other settings are the defaults. The table is that of ``stacking``. Needs the data in
SKLEARN_HOCRF_DATA or ../shared/data; sets that are absent are skipped.
"""

from datetime import datetime

import numpy as np
import protocol
from scipy.io import loadmat
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler
from stacking import alone, report

from sklearn_hocrf import HighOrderCRF, StackedSequenceLabeler

SCALES = (1, 2, 4, 8, 16)
HOUSES = {f"house{name}": ("houses", f"house{name}-as.txt") for name in "ABC"}
FILES = {"ocr": ("ocr", "letter.data.gz"), **HOUSES, "eyes": ("eyes", "dots_TH20_trial1_labelled_MN.mat")}


def ocr():
    """Return pixels and letters of the words of two folds, and words as groups."""
    words = {}
    for line in protocol.read_lines("ocr", "letter.data.gz"):
        cells = line.split("\t")
        if cells[5] in "01":
            words.setdefault(cells[3], []).append((int(cells[4]), cells[1], np.array(cells[6:134], float)))
    words = [sorted(word, key=lambda letter: letter[0]) for word in words.values()]
    return [np.array([x for *_, x in word]) for word in words], [[y for _, y, _ in word] for word in words], None


def house(name, minutes=5):
    """Return slices of the days of a house, and their activities; days are groups."""
    activities, sensors = (list(read_events(name, kind)) for kind in ("as", "ss"))
    day, size = 86400, 60 * minutes
    start = min(begin for begin, _, _ in activities) // day * day
    n_days = int(max(end for _, end, _ in activities) - start) // day + 1
    labels, changed, last = np.zeros(n_days * day // size, dtype=int), np.zeros((2, n_days * day // size, 100)), {}
    for begin, end, activity in activities:
        labels[int(begin - start) // size : int(end - start) // size + 1] = activity
    for time, sensor in sorted((time, sensor) for begin, end, sensor in sensors for time in (begin, end)):
        if 0 <= (at := int(time - start) // size) < len(labels):
            changed[0, at, sensor], last[at] = 1, sensor
    latest = 0
    for at in range(len(labels)):
        latest = last.get(at, latest)
        changed[1, at, latest] = 1
    rows = np.hstack([*changed, np.roll(changed[0], 1, axis=0), np.roll(changed[0], -1, axis=0)])
    rows = rows[:, rows.any(axis=0)]
    days = zip(np.split(rows, n_days), np.split(labels, n_days), strict=True)
    X, y = zip(*(one for one in days if np.mean(one[1] > 0) > 0.05), strict=True)
    return list(X), [labels.astype(str).tolist() for labels in y], None


def read_events(house, kind):
    """Yield begin, end and number of the activities ("as") or sensors ("ss") of a house."""
    for line in protocol.data_file("houses", f"{house}-{kind}.txt").read_text().splitlines():
        cells = line.strip().split("\t")
        if len(cells) > 2:
            yield *(datetime.strptime(cell, "%d-%b-%Y %H:%M:%S").timestamp() for cell in cells[:2]), int(cells[2])


def eyes():
    """Return speeds, turns and labels of recordings, and the persons."""
    X, y, persons = [], [], []
    for path in sorted(protocol.data_file("eyes").glob("*_MN.mat"))[::2]:
        data = loadmat(path)["ETdata"][0, 0]
        rate, size = data["sampFreq"].item(), (data["screenDim"] / data["screenRes"]).ravel()
        step, places = round(rate / 125), np.nan_to_num(data["pos"][:, 3:5])
        degrees, columns = np.rad2deg(np.arctan(places * size / data["viewDist"].item())), [(places == 0).all(axis=1)]
        for scale in SCALES:
            wide = np.pad(degrees, ((scale * step, scale * step), (0, 0)), "edge")
            moved = wide[scale * step :] - wide[: -scale * step]
            before, after = moved[: len(degrees)], moved[scale * step :]
            speeds = [np.hypot(*part.T) for part in (before, after)]
            turn = (before * after).sum(axis=1) / (speeds[0] * speeds[1] + 1e-6)
            columns += [*(np.log1p(speed * rate / (scale * step)) for speed in speeds), turn]
        X.append(np.column_stack(columns)[::step].astype(float))
        y.append(data["pos"][::step, 5].astype(int).astype(str).tolist())
        persons.append(path.name.split("_")[1])
    return X, y, persons


def of_numbers(name):
    X, y, groups = house(name) if name in HOUSES else {"ocr": ocr, "eyes": eyes}[name]()
    scaled = StandardScaler().fit(np.concatenate(X))
    X, groups = [scaled.transform(x) for x in X], np.arange(len(X)) if groups is None else groups
    folds, answers = list(GroupKFold(4, shuffle=True, random_state=0).split(X, groups=groups)), {}
    for classifier in (LogisticRegression(max_iter=2000), RandomForestClassifier(min_samples_leaf=3, random_state=0)):
        kind = type(classifier).__name__
        models = {f"{kind} alone": None, "CRF": HighOrderCRF(), f"{kind} stacked": StackedSequenceLabeler(classifier)}
        models[f"{kind} stacked, passthrough"] = StackedSequenceLabeler(classifier, passthrough=True)
        for model in [model for model in models if model not in answers]:
            answers[model] = found = [None] * len(X)
            for train, test in folds:
                known, labels, new = ([of[n] for n in part] for of, part in ((X, train), (y, train), (X, test)))
                if models[model] is None:
                    predicted = alone(classifier, known, labels, new)
                else:
                    predicted = protocol.fit_quietly(models[model], known, labels).predict(new)
                for n, labels_of in zip(test, predicted, strict=True):
                    found[n] = list(labels_of)
            print(name, model, flush=True)
    report(name, y, answers)


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, sets=list(FILES))
    for name in options.sets:
        if not protocol.skipped(protocol.absent(FILES[name])):
            of_numbers(name)


if __name__ == "__main__":
    main()
