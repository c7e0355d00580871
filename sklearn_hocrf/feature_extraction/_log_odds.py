"""SegmentLogOddsEncoder: the log-odds that strings of tokens were segments in training.   V strings, N tokens."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags

from .._data.arrays import freeze_indices, offsets_of
from .._data.batch import SequenceBatch
from .._reading.schemes import SCHEMES
from .._reading.targets import read_segment_targets
from .._sklearn.names import Interval, StrOptions
from ._base import SegmentFeatures, SegmentTransformer, TrainingStrings, fingerprints, token_numbers
from ._input_space import text_field
from ._names import FeatureNames
from ._templates import find_keys


class SegmentLogOddsEncoder(SegmentTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Measure how often the text of a candidate segment was a segment in training, as log-odds.

    For a string of tokens, let w be the number of training segments with this text, and n the number of its other
    occurrences in the training sequences, including overlapping ones. With the smoothing s, the feature ``log_odds`` is
    ``log((w + s) / (n + s))``. This single real-valued feature can therefore replace or complement one indicator per
    string. The feature also distinguishes strings that were never segments from strings that never occurred in
    training.

    .. warning::

        ``fit_transform(X, y)`` is not ``fit(X, y).transform(X)``. In `fit_transform`, the counts for a sequence exclude
        the segments and occurrences in that sequence (*leave-one-out*), whereas `transform` uses all counts. If
        training also used all counts, every training segment would be evidence for itself, and the model would learn
        too large a weight for the feature. Therefore, train on the result of `fit_transform` and predict on the result
        of `transform`. A :class:`~sklearn.pipeline.Pipeline` does this automatically, including in each fold of a
        cross-validation. scikit-learn's `TargetEncoder` makes the same distinction for the same reason.

    Parameters
    ----------
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        Format in which y specifies the segments, as in ``scheme`` of :class:`~sklearn_hocrf.HighOrderSemiCRF`. In
        tagging schemes, each O is a segment of one token with the label "O".
    smoothing : float, default=1.0
        The value s in the formula; must be greater than 0.
    field : field or None, default=None
        The raw token column whose values form the strings. None means the first text field, or the first field if there
        is no text field.
    max_length : int or None, default=None
        Maximum length of the strings that are counted. None means the length of the longest training segment.

    Attributes
    ----------
    max_length_ : int
        Maximum length of the strings that are counted.
    n_features_out_ : int
        Number of features, including those that a `SequenceBatch` already contains.

    See Also
    --------
    SegmentFeatureExtractor : Compute other features of segments; ``identity`` creates an indicator for each string.

    Notes
    -----
    For strings that do not occur in training, strings longer than `max_length_` and strings with missing values, w and
    n are 0. The log-odds of such strings are 0, which has the same effect as no feature.

    Strings are compared by their 63-bit fingerprints. Among a million strings, two have the same fingerprint with a
    probability of about 5e-8.

    References
    ----------
    Andrew, "A Hybrid Markov/Semi-Markov Conditional Random Field for Sequence Segmentation", EMNLP 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf.feature_extraction import SegmentLogOddsEncoder
    >>> X = [list("abc"), list("abab")]
    >>> y = [[(0, 2, "word"), (2, 3, "word")], [(0, 2, "word"), (2, 4, "word")]]
    >>> extractor = SegmentLogOddsEncoder(scheme="segments").fit(X, y)
    >>> # a, ab and bc: 0 of 3, 3 of 3, 0 of 1
    >>> start, stop = (
    ...     np.array([0, 0, 1]),
    ...     np.array([1, 2, 3]),
    ... )
    >>> batch = extractor.transform(X)
    >>> batch.blocks[0].rows(batch, start, stop).toarray().ravel().round(3).tolist()
    [-1.386, 1.386, -0.693]
    >>> batch = extractor.fit_transform(X, y)  # leave-one-out: 0 of 2, 2 of 2, unseen
    >>> batch.blocks[0].rows(batch, start, stop).toarray().ravel().round(3).tolist()
    [-1.099, 1.099, 0.0]
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # the public module: model files contain this name

    _parameter_constraints = {
        "scheme": [StrOptions({"auto", *SCHEMES})],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "field": "no_validation",
        "max_length": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self, scheme: str = "auto", *, smoothing: float = 1.0, field: Any = None, max_length: int | None = None
    ) -> None:
        self.scheme = scheme
        self.smoothing = smoothing
        self.field = field
        self.max_length = max_length

    def fit(self, X: Any, y: Any) -> Self:
        """Count the strings and segments of training sequences.

        Parameters
        ----------
        X : SequenceBatch with raw token columns, or list of sequences of tokens
            The training sequences. Raw tokens, in the forms that :class:`SequenceFeatureExtractor` reads, provide no
            token features.
        y : list of sequences
            The segments, in the format that `scheme` names.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter or y does not match X; the message names the sequence and the position.
        TypeError
            If a token or a part of y has the wrong type.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any) -> SequenceBatch:
        """Count strings and segments, and return the training sequences with **leave-one-out** features.

        The result differs from that of ``fit(X, y).transform(X)``: the features of a sequence use only the counts of
        the other sequences.

        Parameters
        ----------
        X : SequenceBatch with raw token columns, or list of sequences of tokens
            As in `fit`; invalid input raises the same errors.
        y : list of sequences
            As in `fit`; invalid input raises the same errors.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        features, batch = self._learn(X, y)
        return self._to_batch(batch, length=features.strings.lengths)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _learned(self, X, space, batch, y) -> SegmentFeatures:
        field = text_field(space, self.field, "field")
        targets = read_segment_targets(y, batch.lengths, "sequences", type(self).__name__, scheme=self.scheme)
        strings = TrainingStrings.from_batch(batch, field, targets.segments)
        max_length = int(targets.segments.lengths.max()) if self.max_length is None else self.max_length
        maker = LogOddsRows.from_strings(strings, max_length, float(self.smoothing))
        return SegmentFeatures([], [maker], [field], max_length, targets.scheme, strings)


class LogOddsRows:
    """The log-odds of candidate segments.   See RowBlock.

    Candidates get leave-one-out values if ``token_data`` contains the "length" of the segment that begins at each
    token.

    Parameters
    ----------
    strings : ndarray of shape (V,)
        Fingerprints, in ascending order.
    occurrences, segments : ndarray of shape (1 + V,)
        How often each string occurs, and how often it is a segment; the first elements, which are 0, apply to all other
        strings.
    smoothing : float
    """

    n_features = 1

    def __init__(self, strings, occurrences, segments, smoothing):
        self._smoothing = smoothing
        self._strings = freeze_indices(strings, 2**63, "strings", np.int64)
        self._occurrences = freeze_indices(occurrences, 2**31, "counts of strings")
        self._segments = freeze_indices(segments, 2**31, "counts of segments")
        if not len(occurrences) == len(segments) == 1 + len(strings) or (self._occurrences < self._segments).any():
            raise ValueError("strings cannot be segments more often than they occur")
        self.feature_names = FeatureNames.from_names(["log_odds"])

    def __reduce__(self):
        return LogOddsRows, (self._strings, self._occurrences, self._segments, self._smoothing)

    @classmethod
    def from_strings(cls, strings, max_length, smoothing) -> LogOddsRows:
        """Return the features for the strings of at most ``max_length`` tokens in training sequences."""
        numbers, offsets = token_numbers(strings.column, strings.field), strings.offsets
        lengths = range(1, min(max_length, int(np.diff(offsets).max(initial=0))) + 1)
        fingerprint, _, is_segment = _occurrences(numbers, offsets, strings.lengths, (0, len(offsets) - 1), lengths)
        distinct, index = np.unique(fingerprint, return_inverse=True)
        size = 1 + len(distinct)
        occurrences, segments = (np.bincount(1 + which, minlength=size) for which in (index, index[is_segment]))
        return cls(distinct, occurrences, segments, smoothing)

    def _find(self, fingerprint) -> np.ndarray:
        """Return the number of the string with each fingerprint, counted from 1; 0 if there is none."""
        return 1 + find_keys(self._strings, fingerprint)

    def rows(self, columns, offsets, token_data, start, stop) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the features of candidate segments; strings that do not occur in training have counts of 0."""
        numbers = token_data["number"]
        string = self._find(fingerprints(numbers, start, stop))
        occurrences, segments = self._occurrences[string], self._segments[string]
        if "length" in token_data and len(start):
            sequence = np.searchsorted(offsets, start, side="right") - 1
            sequences = sequence.min(), sequence.max() + 1
            strings = _occurrences(numbers, offsets, token_data["length"], sequences, np.unique(stop - start))
            # all occurrences of a string in a sequence have the same key
            n_strings = 1 + len(self._strings)
            keys, group = np.unique(strings[1] * n_strings + self._find(strings[0]), return_inverse=True)
            key_index = np.searchsorted(keys, sequence * n_strings + string)
            key_index[string == 0] = len(keys)
            occurrences = occurrences - np.bincount(group, minlength=len(keys) + 1)[key_index]
            segments = segments - np.bincount(group[strings[2]], minlength=len(keys) + 1)[key_index]
        values = np.log((segments + self._smoothing) / (occurrences - segments + self._smoothing))
        present = values != 0
        values = values[present]
        return offsets_of(present), np.zeros(len(values), np.int32), values


def _occurrences(numbers, offsets, lengths_at, sequences, lengths) -> list[np.ndarray]:
    """Return the fingerprint and sequence of each string of the given lengths, and whether the string is a segment.

    Strings with missing values are left out. ``lengths_at`` contains the length of the segment that begins at each
    token.
    """
    first, last = sequences
    tokens = np.arange(offsets[first], offsets[last])
    sequence = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))
    left = offsets[sequence + 1] - tokens
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))]
    for length in lengths:
        start = tokens[left >= length]
        string = fingerprints(numbers, start, start + length)
        known = string >= 0
        parts.append((string[known], sequence[left >= length][known], lengths_at[start[known]] == length))
    return list(map(np.concatenate, zip(*parts, strict=True)))
