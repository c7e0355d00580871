"""Check whether held-out parts of a search are more novel, or less novel, than intended."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from .._data.batch import SequenceBatch
from .._data.segments import Segments
from .._validation import TrainingData, warn_user

__all__ = ["warn_of_folds"]

N_SHUFFLES = 20
MOST_UNSEEN = 1.5  # relative to the maximum of shuffled parts
LEAST_UNSEEN = 10  # more features than the maximum of shuffled parts; fewer may be chance
MOST_KNOWN = 0.9  # share of label sequences; addresses, which have few different ones, reach .7
SHORTEST = 3  # number of tokens from which a label sequence is not repeated by chance
FEWEST = 20  # held-out label sequences needed for a meaningful share


def warn_of_folds(whole: TrainingData, splits: list) -> None:
    """Warn if held-out parts have far more unseen features than shuffled ones, or mostly known label sequences.

    Parameters
    ----------
    whole : TrainingData
        All data.
    splits : list of (train, test)
        Numbers of sequences.
    """
    parts = [tuple(_places(whole, part) for part in split) for split in splits]
    unseen, most = _unseen(whole.batch, parts)
    if unseen > max(MOST_UNSEEN * most, most + LEAST_UNSEEN):
        warn_user(
            f"the held-out parts of cv have {unseen} features that their training parts lack, shuffled ones at most "
            f'{most}: the data look sorted. Use cv="shuffled", or groups if data to predict will be equally new'
        )
    known = _share_known(whole, parts)
    if known > MOST_KNOWN:
        warn_user(
            f"{known:.0%} of the held-out label sequences also occur in the training parts: the search learns "
            "penalties for known ones. To predict new ones, specify what is new by fit(X, y, groups=..), such "
            "as words or documents"
        )


def _places(whole: TrainingData, part) -> np.ndarray:
    """Return the positions of a part in all data, which exclude sequences of weight 0."""
    return np.flatnonzero(np.isin(np.asarray(whole.numbers), part))


def _unseen(batch: SequenceBatch, parts: list) -> tuple[int, int]:
    """Return the number of features that occur only in held-out parts, and its maximum for shuffled parts."""
    ones = np.ones(len(batch.indices), dtype=np.float32)
    rows = batch.indptr[batch.offsets]
    occurs = csr_array((ones, batch.indices, rows), (len(batch), batch.n_attributes), copy=True)
    occurs.sum_duplicates()  # in place, hence the copy of the batch
    occurs.data[:] = 1.0
    by_feature, rng = occurs.T, np.random.default_rng(0)

    def count(train, test):
        in_train, in_test = (by_feature @ np.bincount(part, minlength=len(batch)) for part in (train, test))
        return int(((in_test > 0) & (in_train == 0)).sum())

    shuffled = np.zeros(N_SHUFFLES, dtype=np.int64)
    for train, test in parts:
        for number in range(N_SHUFFLES):
            mixed = rng.permutation(np.concatenate([train, test]))
            shuffled[number] += count(mixed[: len(train)], mixed[len(train) :])
    return sum(count(*split) for split in parts), int(shuffled.max())


def _share_known(whole: TrainingData, parts: list) -> float:
    """Return the share of held-out label sequences, except short ones, that occur in their training parts."""
    targets = whole.targets
    codes = np.full(whole.batch.n_tokens, -1, dtype=np.int32)  # -1: inside a segment
    codes[targets.starts] = targets.labelling.codes if isinstance(targets.labelling, Segments) else targets.labelling
    sequences = [labels.tobytes() for labels in np.split(codes, whole.batch.offsets[1:-1])]
    is_long = whole.batch.lengths >= SHORTEST
    known = n_long = 0
    for train, test in parts:
        seen = {sequences[n] for n in train}
        test = test[is_long[test]]
        known += sum(sequences[n] in seen for n in test)
        n_long += len(test)
    return known / n_long if n_long >= FEWEST else 0.0
