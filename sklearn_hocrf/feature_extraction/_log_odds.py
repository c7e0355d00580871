"""SegmentLogOddsEncoder: how often a string of tokens was a segment in training, and how often it was not."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import freeze
from .._data.batch import SequenceBatch, with_blocks
from .._data.checks import short
from .._data.labels import SEEN, sorted_labels
from .._data.schemes import SCHEMES
from .._data.segment_features import RowBlock
from .._validation import read_partition_targets
from .._validation._sklearn import Interval, StrOptions, fit_context
from ._base import CountingTransformer, fit_task, read_training_segments
from ._input_space import InputSpace, has_tokens, kept_blocks, text_field
from ._log_odds_rows import KINDS, LogOddsRows, StringCounts
from ._merging import merge_codes
from ._names import names_of_blocks
from ._tries import TokenCodes


class LogOddsCounts(NamedTuple):
    """The counts of training sequences for a :class:`SegmentLogOddsEncoder`; ``space`` is None without tokens."""

    space: InputSpace | None
    batch: Any = None  # SequenceBatch of no sequences, with the features that X already has
    token_codes: Any = None  # TokenCodes
    strings: Any = None  # StringCounts
    labels: Sequence = ()  # of segments, sorted
    longest: int = 0  # length of the longest segment
    scheme: str = ""  # in which y gives the segments

    def merged(self, other) -> LogOddsCounts:
        """Return the sums of the counts of both."""
        if self.space is None or other.space is None:
            return other if self.space is None else self
        space = self.space.merged(other.space)
        token_codes, codes = merge_codes(self.token_codes, other.token_codes)
        labels = sorted_labels([*self.labels, *other.labels], [0], at_least=1).tolist()
        of_labels = [np.array([labels.index(label) for label in part.labels], dtype=np.int64) for part in (self, other)]
        if not self.strings.n_labels:
            of_labels = [indices[:0] for indices in of_labels]
        strings = self.strings.merged(other.strings, codes, token_codes.size, of_labels)
        longest = max(self.longest, other.longest)
        return LogOddsCounts(space, self.batch, token_codes, strings, labels, longest, self.scheme)


class SegmentLogOddsEncoder(CountingTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Measure how often the text of a candidate segment was a segment in training, as log-odds.

    For a string of tokens let w be the number of training segments with this text, and n the number of its other
    occurrences in the training sequences, including overlapping ones. With the smoothing s the feature ``log_odds`` is
    ``log((w + s) / (n + s))``; ``log_probability``, for comparison, is ``log((w + s) / (w + n + 2 s))``. One
    real-valued feature can thus replace or support one indicator for each string. It also distinguishes a string that
    is never a segment from a string that never occurs in training.

    .. warning::

        ``fit_transform(X, y)`` is not ``fit(X, y).transform(X)``. In `fit_transform` the counts for a sequence leave
        out this sequence with all of its segments and occurrences (*leave-one-out*). In `transform` all counts are
        used. The segmentation of a training sequence contributes to the counts. With all counts, every training segment
        would be evidence for itself, and the model would trust the feature too much on new sequences. Therefore train
        on the result of `fit_transform` and predict on the result of `transform`. A :class:`~sklearn.pipeline.Pipeline`
        does this automatically, also in each fold of a cross-validation. scikit-learn's `TargetEncoder` makes the same
        distinction for the same reason.

    Parameters
    ----------
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        Format in which y specifies the segments, as for :class:`~sklearn_hocrf.HighOrderSemiCRF`. O tokens of "bio" and
        "bioes" are segments of one token with the label "O".
    per_label : bool, default=False
        Whether to add a feature for each label, ``log_odds=<label>``: w counts the segments with this label, n all
        other occurrences.
    smoothing : float, default=1.0
        The s in the formulas, greater than 0.
    kind : {"log_odds", "log_probability"} or tuple of both, default="log_odds"
        The features to make.
    field : field, tuple of fields or None, default=None
        Raw columns of the tokens whose values form the string. None means the first text field, or the first field if
        there is no text field.
    max_length : int or None, default=None
        Maximum length of the strings that are counted. None means the length of the longest training segment.

    Attributes
    ----------
    labels_ : list
        Labels of segments, sorted.
    max_length_ : int
        Maximum length of the strings that are counted.
    n_features_out_ : int
        Number of features, including the earlier features of a `SequenceBatch`.

    See Also
    --------
    SegmentFeatureExtractor : Other features of segments; ``identity`` makes an indicator for each string.

    Notes
    -----
    Strings that do not occur in training, strings longer than `max_length_` and strings with missing values have
    w = n = 0. Their log-odds are 0, which is the same as no feature; their log probability is log(1/2).

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

    __module__ = "sklearn_hocrf.feature_extraction"  # where users import it from: files of models name this module

    _parameter_constraints = {
        "scheme": [StrOptions({"auto", *SCHEMES})],
        "per_label": ["boolean"],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "kind": [StrOptions(set(KINDS)), tuple, list],
        "field": "no_validation",
        "max_length": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        scheme: str = "auto",
        *,
        per_label: bool = False,
        smoothing: float = 1.0,
        kind: str | tuple[str, ...] = "log_odds",
        field: Any = None,
        max_length: int | None = None,
    ) -> None:
        self.scheme = scheme
        self.per_label = per_label
        self.smoothing = smoothing
        self.kind = kind
        self.field = field
        self.max_length = max_length

    def fit(self, X: Any, y: Any) -> Self:
        """Count strings and segments of training sequences.

        Parameters
        ----------
        X : SequenceBatch with raw token columns, or list of sequences of tokens
            Raw tokens, as in :class:`SequenceFeatureExtractor`, have no token features.
        y : list of sequences
            The segments, in the format given by `scheme`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter or y does not match X; the message names sequence and position.
        TypeError
            If a token or a part of y has a wrong type.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any) -> SequenceBatch:
        """Count strings and segments, and return the training sequences with **leave-one-out** features.

        This differs from ``fit(X, y).transform(X)``: the features of a sequence use the counts of all other sequences.

        Parameters
        ----------
        X : SequenceBatch with raw token columns, or list of sequences of tokens
            As in `fit`, with the same errors.
        y : list of sequences
            As in `fit`, with the same errors.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        return self._to_batch(*self._learn(X, y))

    def transform(self, X: Any) -> SequenceBatch:
        """Return sequences with features from **all** training counts.

        For training sequences the result differs from that of `fit_transform`.

        Parameters
        ----------
        X : SequenceBatch, or list of sequences of tokens
            Of the form seen in `fit`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError
            If X does not have the same features and fields as in `fit`.
        sklearn.exceptions.NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self, "n_features_out_")
        batch = self._space.read(X, self._token_codes.fields)
        return self._to_batch(batch, self._token_codes.encode(batch.columns), {})

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        tags.input_tags.categorical = True
        return tags

    def transform_partition(self, X: Any, y: Any = None) -> SequenceBatch:
        """Return the **leave-one-out** features of a part of the training sequences, as `fit_transform` of the whole.

        Parameters
        ----------
        X : SequenceBatch or list of sequences
            The same sequences as for `fit_partition`.
        y : list of label sequences
            Their labels, as for `fit_partition`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError, TypeError
            As for `transform` and `fit`; also if y has a label that did not occur in any part.
        """
        check_is_fitted(self, "n_features_out_")
        batch = self._space.read(X, self._token_codes.fields)
        codes = self._token_codes.encode(batch.columns)
        if not batch.n_tokens:
            return self._to_batch(
                batch, codes, {"length": codes[:0], **({"label": codes[:0]} if self.per_label else {})}
            )
        targets = read_partition_targets(y, batch.lengths, type(self).__name__, scheme=self.scheme)
        for label in targets.labels.tolist():
            if label not in self.labels_:
                raise ValueError(f"y has segments with the label {short(label)}, which is not among {SEEN}")
        own = np.array([self.labels_.index(label) for label in targets.labels.tolist()], dtype=np.int32)
        return self._to_batch(batch, codes, self._gold(batch, targets.segments, own[targets.segments.codes]))

    @fit_context(prefer_skip_nested_validation=True)
    def _count_partition(self, X, y) -> LogOddsCounts:
        if self.max_length is None:
            raise ValueError(
                "SegmentLogOddsEncoder requires max_length when it is fitted by partitions: a partition does not know "
                "the longest segment of the others, and therefore not which of its strings to count"
            )
        if not has_tokens(X):
            return LogOddsCounts(None)
        return self._count(X, y, read_partition_targets)[0]

    @fit_context(prefer_skip_nested_validation=True)
    @fit_task
    def _learn(self, X, y):
        """Set the fitted attributes; return X as a batch, the codes of its tokens, and its segments by first token."""
        counts, batch, codes, gold = self._count(X, y, read_training_segments)
        self._finish(counts)
        return batch, codes, gold

    def _count(self, X, y, read):
        """Return the counts of sequences, their batch, the codes of its tokens, and its segments by first token."""
        _check_kinds(self.kind)
        space, batch = InputSpace.of(X)
        fields = text_field(space, self.field, "field")
        targets = read(y, batch.lengths, type(self).__name__, scheme=self.scheme)
        segments, labels = targets.segments, targets.labels.tolist()
        longest = int(segments.lengths.max())
        token_codes = TokenCodes.of(batch.columns, fields)
        codes = token_codes.encode(batch.columns)
        gold = self._gold(batch, segments, segments.codes)
        max_length = min(longest if self.max_length is None else self.max_length, int(batch.lengths.max()))
        n_labels = len(labels) if self.per_label else 0
        strings = StringCounts.of(codes, batch.offsets, gold, max_length, token_codes.size, n_labels)
        counts = LogOddsCounts(space, batch[:0], token_codes, strings, labels, longest, targets.scheme)
        return counts, batch, codes, gold

    def _gold(self, batch, segments, labels) -> dict:
        """Return the lengths of segments and, if they are distinguished, their labels, at their first tokens."""
        gold = {"length": np.zeros(batch.n_tokens, dtype=np.int32)}
        gold["length"][segments.start] = segments.lengths
        if self.per_label:
            gold["label"] = np.zeros(batch.n_tokens, dtype=np.int32)
            gold["label"][segments.start] = labels
        return gold

    def _finish(self, counts):
        """Set the fitted attributes."""
        if counts.space is None:
            raise ValueError("X has no tokens to learn features from")
        if counts.scheme == "runs":
            sorted_labels(counts.labels, [0])  # raises if there is only one
        self.labels_ = counts.labels
        self.max_length_ = counts.longest if self.max_length is None else self.max_length
        self._space, self._scheme, self._token_codes = counts.space, counts.scheme, counts.token_codes
        labels = self.labels_ if self.per_label else []
        self._maker = LogOddsRows(counts.strings, labels, _check_kinds(self.kind), float(self.smoothing))
        blocks = *kept_blocks(counts.batch), RowBlock(self._maker, {})
        self._feature_names = names_of_blocks(blocks, self._space.features.attribute_names)
        self.n_features_out_ = len(self._feature_names)

    def _to_batch(self, batch, codes, gold) -> SequenceBatch:
        data = {name: freeze(array, np.int32) for name, array in {"code": codes, **gold}.items()}
        return with_blocks(batch, (*kept_blocks(batch), RowBlock(self._maker, data, self._scheme)), self._feature_names)


def _check_kinds(kind) -> tuple:
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    if not kinds or len(set(kinds)) < len(kinds) or not set(kinds) <= set(KINDS):
        raise ValueError(f"kind must be one of {KINDS!r} or a tuple of both, got {kind!r}")
    return kinds
