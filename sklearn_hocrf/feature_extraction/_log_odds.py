"""LogOddsSegments: how often a string of tokens was a segment in training, and how often it was not."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import freeze
from .._data.batch import SequenceBatch
from .._data.encodings import ENCODINGS
from .._data.segments import RowBlock
from .._validation import read_segment_targets
from .._validation._sklearn import Interval, StrOptions, fit_context
from ._base import SequenceTransformer, fit_task
from ._input_space import InputSpace, kept_blocks, text_field
from ._log_odds_rows import KINDS, LogOddsRows, StringCounts
from ._names import names_of_blocks
from ._tries import TokenCodes

__all__ = ["LogOddsSegments"]


class LogOddsSegments(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
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
        would be evidence for itself, and the model would trust the feature too much on new sequences. So train on the
        result of `fit_transform` and predict on the result of `transform`. A :class:`~sklearn.pipeline.Pipeline` does
        this by itself, also in each fold of a cross-validation. scikit-learn's `TargetEncoder` makes the same
        difference for the same reason.

    Parameters
    ----------
    encoding : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        Form in which y gives the segments, as for :class:`~sklearn_hocrf.HighOrderSemiCRF`. O tokens of "bio" and
        "bioes" are segments of one token with the label "O".
    per_label : bool, default=False
        Whether to add a feature for each label, ``log_odds=<label>``: w counts the segments with this label, n all
        other occurrences.
    smoothing : float, default=1.0
        The s in the formulas, greater than 0.
    kind : {"log_odds", "log_probability"} or tuple of both, default="log_odds"
        The features to make.
    field : field, tuple of fields or None, default=None
        Raw columns of the tokens whose values form the string. None means the first text field (the first field if none
        is text).
    max_length : int or None, default=None
        Longer strings are not counted. None means the length of the longest training segment.

    Attributes
    ----------
    labels_ : list
        Labels of segments, sorted.
    max_length_ : int
        Length of the longest strings that are counted.
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
            Raw tokens, as in :class:`SequenceFeatureExtractor`, have no token features.
        y : list of sequences
            The segments, in the form given by `encoding`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter or y does not fit X; the message names sequence and position.
        TypeError
            If a token or a part of y is of a wrong type.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any) -> SequenceBatch:
        """Count strings and segments, and return the training sequences with **leave-one-out** features.

        This differs from ``fit(X, y).transform(X)``: the features of a sequence use the counts of all other sequences.
        Parameters and errors are those of `fit`.

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

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored: `fit` keeps the names of a `SequenceBatch`.

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
    @fit_task
    def _learn(self, X, y):
        """Set the fitted attributes; return X as a batch, the codes of its tokens, and its segments by first token."""
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
