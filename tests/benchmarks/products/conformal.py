"""Conformal sets: how often they contain the truth, and how large they are, overall and by stratum.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/conformal.py [--sets NAME ...] [--strata] [--quick]

The data are sentences of conll2002 (Spanish names, words alone, default features) and addresses of usaddress (the
features of that program). Each of twenty random splits has a part to fit ``HighOrderCRF()``, a part for the threshold
of ``ConformalSequenceLabeler``, and a part to test (conll2002: 1,000, 1,000 and 2,000 sentences; usaddress: 744, 372
and 372 addresses). Each model predicts sets with ``alpha`` .1 and .05, at both levels.

- Tokens: the share of sequences whose sets contain the true labels of all tokens, and the mean number of labels per
  token. Strata depend on X alone: quarters of the sequences by length, cut at the quartiles of the whole data set.
- Segments: the mean share of the true segments of a sequence that are in its set, and the mean number of segments in a
  set. Strata are by the label of the segment: a stratum includes the sequences with segments of this label, and counts
  the share of these segments. Labels for which fewer than 2 / alpha sequences are expected in the part for the
  threshold are pooled.

The command prints means over the splits and, for each stratum, its share of the test sequences. A stratum is off if its
mean coverage is more than 3 points below 1 - alpha. If any stratum is off, ``ConformalSequenceLabeler`` needs
thresholds by stratum, which its parameter ``strata`` provides; ``--strata`` sets this parameter.
"""

from collections import Counter
from functools import partial

import numpy as np
import protocol
from protocol import part, print_table
from usaddress import FILE

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import ConformalSequenceLabeler
from sklearn_hocrf.text import extract_segments


def sentences(*file):
    X, y = protocol.words_and_labels(protocol.data_file(*file))
    return SequenceFeatureExtractor().fit_transform(X), y


def addresses(*file):
    X, y = ([row[key] for row in protocol.read_rows(*file)] for key in ("features", "labels"))
    return SequenceFeatureExtractor("attributes").fit_transform(X), y


SETS = {  # the file, what reads it, the scheme, sizes of the parts
    "conll2002": (("conll2002", "esp.train.gz"), sentences, "bio", (1000, 1000, 2000)),
    "usaddress": (FILE, addresses, "runs", (744, 372, 372)),
}
ALPHAS, OFF, POOLED = (0.1, 0.05), 0.03, "(pooled)"


def token_shares(sets, y, strata):
    """Return the stratum of each sequence, and whether its sets contain its labels."""
    covered = [all(label in of for label, of in zip(*both, strict=True)) for both in zip(y, sets, strict=True)]
    return zip(strata, covered, strict=True)


def segment_shares(sets, segments, stratum_of):
    """Yield each stratum of each sequence, and the share of its true segments there that are in the set."""
    for true, found in zip(segments, sets, strict=True):
        shown = {row[:3] for row in found.tolist()}
        for stratum in {stratum_of[label] for *_, label in true}:
            here = [segment in shown for segment in true if stratum_of[segment[2]] == stratum]
            yield stratum, sum(here) / len(here)


def pooled(segments, n_to_calibrate, alpha):
    """Return the stratum of each label: itself, or the pool of those that too few sequences have."""
    n_with = Counter(label for true in segments for label in {label for *_, label in true})
    return {label: label if n * n_to_calibrate / len(segments) >= 2 / alpha else POOLED for label, n in n_with.items()}


def measure(X, y, scheme, sizes, with_strata, seed):
    """Return coverage and size, and the shares of strata, by level and alpha, of one split."""
    order = np.random.default_rng(seed).permutation(len(y))
    fit, calibrate, test = np.split(order, np.cumsum(sizes))[:3]
    model = protocol.fit_quietly(HighOrderCRF(), part(X, fit), part(y, fit))
    lengths, segments = np.array([len(labels) for labels in y]), extract_segments(y, scheme=scheme)
    cuts = np.quantile(lengths, [0.25, 0.5, 0.75])
    quarters = np.searchsorted(cuts, lengths)
    strata = {"token": lambda batch: int(np.searchsorted(cuts, batch.n_tokens)), "segment": "label"}
    found = {}
    for level in "token", "segment":
        for alpha in ALPHAS:
            options = {"strata": strata[level]} if with_strata else {}
            conformal = ConformalSequenceLabeler(model, alpha=alpha, level=level, **options)
            conformal.fit(part(X, calibrate), part(y, calibrate))
            sets = conformal.predict_set(part(X, test))
            if level == "token":
                shares = token_shares(sets, part(y, test), [span_of(lengths, quarters, quarters[i]) for i in test])
            else:
                shares = segment_shares(sets, part(segments, test), pooled(segments, len(calibrate), alpha))
            by_stratum = {}
            for stratum, share in shares:
                by_stratum.setdefault(stratum, []).append(share)
            overall = conformal.coverage(part(X, test), part(y, test))
            found[level, alpha] = overall, {name: (np.mean(of), len(of) / len(test)) for name, of in by_stratum.items()}
    return found


def span_of(lengths, quarters, quarter):
    of = lengths[quarters == quarter]
    return f"{of.min()} to {of.max()} tokens"


def report(name, found):
    """Print the table of a set, and return the strata that are off."""
    rows, off = [], []
    for level, alpha in found[0]:
        overall = np.mean([of[level, alpha][0] for of in found], axis=0)
        rows.append([f"{name}, {level}s", f"{100 - 100 * alpha:.0f}", f"{100 * overall[0]:.1f}", f"{overall[1]:.2f}"])
        strata = sorted({stratum for of in found for stratum in of[level, alpha][1]})
        for stratum in strata:
            shares = [of[level, alpha][1][stratum] for of in found if stratum in of[level, alpha][1]]
            covered, share = np.mean(shares, axis=0)
            is_off = bool(covered < 1 - alpha - OFF)
            off += [(level, alpha, stratum)] if is_off else []
            rows.append([f"    {stratum}, {100 * share:.0f} %", "", f"{100 * covered:.1f}{'*' * is_off}", ""])
    print_table(["", "1 - alpha %", "coverage %", "size"], rows)
    return off


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, sets=list(SETS), splits=20, strata=False, quick=False)
    n_off = 0
    for name in options.sets:
        file, read, scheme, sizes = SETS[name]
        if protocol.skipped(protocol.absent(file)):
            continue
        X, y = read(*file)
        if options.quick:
            sizes = [len(y) // 3] * 3
        n_splits = 2 if options.quick else options.splits
        found = list(map(partial(measure, X, y, scheme, sizes, options.strata), range(n_splits)))
        n_off += len(report(name, found))
    print(f"{n_off} strata are off (*)")


if __name__ == "__main__":
    main()
