"""LogOddsSegments: how often a string of tokens was a segment in training, and how often it was not."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import freeze
from .._data.batch import SequenceBatch
from .._data.encodings import ENCODINGS
from .._data.segments import RowBlock
from .._persistence import VersionMixin
from .._validation import read_segment_targets
from .._validation._sklearn import Interval, StrOptions, fit_context
from ._input_space import InputSpace, kept_blocks, text_field
from ._log_odds_rows import KINDS, LogOddsRows, StringCounts
from ._names import names_of_blocks
from ._tries import TokenCodes

__all__ = ["LogOddsSegments"]


class LogOddsSegments(VersionMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Tell how likely the text of a segment is to be a segment, judged by the training segmentation itself.

    For a string of tokens let w be the number of training segments with this text and n the number of its other
    occurrences in the training sequences, overlapping ones included. With the smoothing s the feature ``log_odds`` is
    ``log((w + s) / (n + s))``, and ``log_probability``, for comparison, ``log((w + s) / (w + n + 2 s))``. One
    real-valued feature can so replace or support one indicator for each string, and tells a string that is never a
    segment from one that was never seen.

    .. warning::

        ``fit_transform(X, y)`` is not ``fit(X, y).transform(X)``. In `fit_transform` the counts for a sequence leave
        out that sequence itself (*leave-one-out*): all of its own segments and occurrences. In `transform` all counts
        are used. The segmentation of a training sequence is part of the counts: with all counts every training segment
        would look as if it had been seen before, and the model would trust the feature more than it deserves on new
        sequences. So train on what `fit_transform` returns and predict on what `transform` returns, as a
        :class:`~sklearn.pipeline.Pipeline` does by itself, in each fold of a cross-validation, too. (For the same
        reason `TargetEncoder` of scikit-learn has such a difference.)

    Parameters
    ----------
    encoding : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        How y says where the segments are, as for :class:`~sklearn_hocrf.HighOrderSemiCRF`. O tokens of "bio" and
        "bioes" are segments of one token with the label "O".
    per_label : bool, default=False
        Whether there are also features for each label, ``log_odds=<label>``: w counts the segments of that label, n all
        other occurrences.
    smoothing : float, default=1.0
        The s in the formulas, greater than 0.
    kind : {"log_odds", "log_probability"} or tuple of both, default="log_odds"
        The features.
    field : field, tuple of fields or None, default=None
        Raw columns of the tokens that make the string. None means the first text field (the first field if none is
        text).
    max_length : int or None, default=None
        Longer strings are not counted. None means the longest training segment.

    Attributes
    ----------
    labels_ : list
        Labels of segments, sorted.
    max_length_ : int
        Length of the longest strings that are counted.
    n_features_out_ : int
        Number of features, including those of a `SequenceBatch` that they are appended to.

    See Also
    --------
    SegmentFeatureExtractor : Other features of segments; ``identity`` makes an indicator for each string.

    Notes
    -----
    Strings that were never seen, longer ones than `max_length_` and those with missing values have w = n = 0: log odds
    of 0, which is the same as no feature, and a log probability of log(1/2), which every candidate segment has that
    says nothing.

    References
    ----------
    Andrew, "A Hybrid Markov/Semi-Markov Conditional Random Field for Sequence Segmentation", EMNLP 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf.feature_extraction import LogOddsSegments
    >>> X = [list("abc"), list("abab")]
    >>> y = [[(0, 2, "word"), (2, 3, "word")], [(0, 2, "word"), (2, 4, "word")]]
    >>> extractor = LogOddsSegments(encoding="segments").fit(X, y)
    >>> start, stop = np.array([0, 0, 1]), np.array([1, 2, 3])  # a, ab and bc: 0 of 3, 3 of 3, 0 of 1
    >>> batch = extractor.transform(X)
    >>> batch.blocks[0].rows(batch, start, stop).toarray().ravel().round(3).tolist()
    [-1.386, 1.386, -0.693]
    >>> batch = extractor.fit_transform(X, y)  # leave-one-out: 0 of 2, 2 of 2, unseen
    >>> batch.blocks[0].rows(batch, start, stop).toarray().ravel().round(3).tolist()
    [-1.099, 1.099, 0.0]
    """

    _parameter_constraints = {
        "encoding": [StrOptions(set(ENCODINGS))],
        "per_label": ["boolean"],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "kind": [StrOptions(set(KINDS)), tuple, list],
        "field": "no_validation",
        "max_length": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        encoding: str = "runs",
        *,
        per_label: bool = False,
        smoothing: float = 1.0,
        kind: str | tuple[str, ...] = "log_odds",
        field: Any = None,
        max_length: int | None = None,
    ) -> None:
        self.encoding = encoding
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
            Raw tokens, as :class:`SequenceFeatureExtractor` takes them, have no token features.
        y : list of sequences
            Where the segments are, in the form that `encoding` says.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For parameters that do not go with X, and for a y that does not go with X; the message names sequence and
            position.
        TypeError
            If a token or a part of y is of a wrong type.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any) -> SequenceBatch:
        """Count strings and segments, and return the training sequences with **leave-one-out** features.

        This differs from ``fit(X, y).transform(X)``: the features of each sequence go by the counts of all others.
        Parameters and errors are those of `fit`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        return self._to_batch(*self._learn(X, y))

    def transform(self, X: Any) -> SequenceBatch:
        """Return sequences with features that go by **all** training counts.

        For training sequences this is not what `fit_transform` returns.

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
            If X does not have the features and fields of `fit`.
        sklearn.exceptions.NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self, "n_features_out_")
        batch = self._space.read(X, self._token_codes.fields)
        return self._to_batch(batch, self._token_codes.encode(batch.columns), {})

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored: those of a `SequenceBatch` are known from `fit`.

        Returns
        -------
        names : ndarray of shape (n_features_out_,), dtype object
        """
        check_is_fitted(self, "n_features_out_")
        return np.array(self._feature_names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.dict = True
        tags.no_validation = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def _learn(self, X, y):
        """Set the fitted attributes; return X as a batch, the codes of its tokens, and where its segments are."""
        kinds = _check_kinds(self.kind)
        space, batch = InputSpace.of(X)
        fields = text_field(space, self.field, "field")
        targets = read_segment_targets(
            y, batch.lengths, "sequences", type(self).__name__, encoding=self.encoding, max_segment_length=None
        )
        segments = targets.segments
        self.labels_ = targets.labels.tolist()
        self.max_length_ = int(segments.lengths.max()) if self.max_length is None else self.max_length
        self._space, self._encoding = space, self.encoding
        self._token_codes = TokenCodes(batch.columns, fields)
        codes = self._token_codes.encode(batch.columns)
        gold = {"length": np.zeros(batch.n_tokens, dtype=np.int32)}
        gold["length"][segments.start] = segments.lengths
        if self.per_label:
            gold["label"] = np.zeros(batch.n_tokens, dtype=np.int32)
            gold["label"][segments.start] = segments.codes
        labels = self.labels_ if self.per_label else []
        longest = min(self.max_length_, int(batch.lengths.max()))
        counts = StringCounts(codes, batch.offsets, gold, longest, self._token_codes.size, len(labels))
        self._maker = LogOddsRows(counts, labels, kinds, float(self.smoothing))
        blocks = *kept_blocks(batch), RowBlock(self._maker, {})
        self._feature_names = names_of_blocks(blocks, space.features.attribute_names)
        self.n_features_out_ = len(self._feature_names)
        return batch, codes, gold

    def _to_batch(self, batch, codes, gold) -> SequenceBatch:
        data = {name: freeze(array, np.int32) for name, array in {"code": codes, **gold}.items()}
        return batch.with_blocks(
            (*kept_blocks(batch), RowBlock(self._maker, data, self._encoding)), self._feature_names
        )


def _check_kinds(kind) -> tuple:
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    if not kinds or len(set(kinds)) < len(kinds) or not set(kinds) <= set(KINDS):
        raise ValueError(f"kind must be one of {KINDS!r} or a tuple of both, got {kind!r}")
    return kinds
