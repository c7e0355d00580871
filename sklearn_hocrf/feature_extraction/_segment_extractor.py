"""SegmentFeatureExtractor: features of segments from token features, lengths, texts, tags and functions.

Within a segment, the first token has the tag B and all others have I: the tags of a segment of four tokens are B I I I.
A feature of a tag n-gram counts at the tokens at which the n-gram ends.

A channel describes where an n-gram inside a segment ends: at a fixed distance from the first token of the segment, or
at each token of a range. Only bigrams cross a boundary between segments: they pair the last tag of one segment with the
beginning of the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np

from .._data.batch import SequenceBatch
from .._data.messages import warn_user
from .._data.segments import (
    BAG,
    BEGIN,
    END_OF_SEGMENT,
    FROM_START,
    FROM_STOP,
    INSIDE,
    LENGTH_KINDS,
    NO_LIMIT,
    RANGE,
    Channel,
    LengthBlock,
    TokenBlock,
)
from .._reading.rows import TOKEN_FEATURES_FIRST
from .._reading.schemes import SCHEMES
from .._reading.targets import read_segment_targets
from .._sklearn.names import Interval, StrOptions
from ._base import SegmentFeatures, SegmentTransformer, TrainingStrings
from ._input_space import text_field, token_form
from ._segment_rows import FunctionRows, IdentityRows, check_functions


class SegmentFeatureExtractor(SegmentTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Compute features of segments from token features, lengths, texts and functions.

    The features of a segment [start, stop) are its length, its text, the values of user-defined functions, and token
    features. Token features count at all tokens of the segment (*bag*), at its first token, at its last token, at the
    tokens inside, or at the last token of an n-gram of token tags. With tag features, the model is a hybrid of a Markov
    and a semi-Markov model. :class:`~sklearn_hocrf.HighOrderSemiCRF` learns weights for all these features; without
    this transformer, it uses the token features as a bag.

    The parameters `bag`, `begin`, `end`, `inside` and the values of `tags` select token features whose names begin with
    a given string, or with any string of a tuple; ``True`` selects all and ``()`` none.

    Parameters
    ----------
    bag : None, str or tuple of str, default=None
        Token features that count at every token of a segment; their names do not change. None means all. If X already
        contains segment features, these are kept, and `bag` must be None. An estimator turns dicts, lists and rows of
        numbers into token features, but this transformer reads them as raw tokens, and issues a warning unless `bag` is
        ``()``.
    begin, end, inside : str, tuple of str or True, default=()
        Token features that count at the first token, at the last token, and at all tokens except the first,
        respectively. The names of the resulting features begin with ``"begin:"``, ``"end:"`` and ``"inside:"``. For a
        feature that is always 1, pass ``"bias"``, the attribute that ``SequenceFeatureExtractor(bias=True)`` adds.
    tags : None, "unigrams", "bigrams" or dict, default=None
        ``{n-gram: token features}`` selects token features that count at the last token of an n-gram of token tags
        inside a segment ("B", "I", "BI", "II", "BII" ...). The tag of the first token of a segment is B, and that of
        the others is I. "B|" and "I|" are the bigrams across a boundary: they combine the last tag of a segment with
        the token features of the first token after it. The names of features begin with the n-gram and a colon, as in
        ``"BI:"``. "unigrams" combines every tag with all token features; "bigrams" also combines every pair of tags
        with them.
    length : None, "indicator", "capped", "gamma" or tuple of them, default=None
        Features of the segment's length d. "indicator" creates the features ``length=1`` to ``length=max_length``;
        longer segments get no indicator. "capped" is the same, except that the last indicator, whose name ends with a
        plus sign, also applies to longer segments. "gamma" creates two features for any length: ``length``, which is d
        itself, and ``log_length``, its natural logarithm. With the weights -1 / scale for ``length`` and shape - 1 for
        ``log_length``, the lengths of a label's segments follow a gamma distribution. Because the lengths of a
        sequence's segments have a fixed sum, the weights of ``length`` are determined only up to a constant that all
        labels share.
    max_length : int or None, default=None
        Maximum length with a separate indicator; None means the length of the longest training segment. If `length` is
        None, a number raises an error.
    identity : bool, field or None, default=False
        Whether to create an indicator, ``identity=<text>``, for each text of a training segment. Instead of True, you
        can pass the field that contains the text; True means the first text field of the raw tokens, or the first field
        if there is no text field. None is the same as False.
    functions : callable, sequence of callables, or dict of them by name, default=()
        ``function(tokens, starts, stops)`` is called once for each sequence, with the boundaries of all its candidate
        segments as arrays of shape (n_segments,). The function returns an array of the same shape, which contains the
        values of a feature as numbers or bools. The feature is named after the function or, in a dict, after its key.
        Features that are 0 for all training segments have no effect. `tokens` is an array of shape (T,), of float64
        (nan if missing) or of strings (None if missing); for tokens with several fields, it is a dict of such arrays.
        ``cumsum`` and similar operations are faster than loops. Define functions in an importable module: a fitted
        transformer with lambdas cannot be pickled, and skops cannot load one with methods such as ``dict.get``.
    min_count : int, default=1
        Texts (`identity`) and features of functions that occur in fewer training segments are dropped.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        Format in which y specifies the segments, as in ``scheme`` of :class:`~sklearn_hocrf.HighOrderSemiCRF`. `fit`
        requires y for `identity`, for `functions`, and for length indicators without `max_length`.

    Attributes
    ----------
    max_length_ : int or None
        Maximum length with a separate indicator; None without length indicators.
    n_features_out_ : int
        Number of segment features, including those that a `SequenceBatch` already contains.

    See Also
    --------
    SequenceFeatureExtractor : Make features of tokens.
    SegmentLogOddsEncoder : Measure how often the text of a segment was a segment in training.

    Notes
    -----
    The features of texts and functions are computed when the estimator scores candidate segments, not in `transform`.
    The token features of a `SequenceBatch` are shared, not copied, even if they count at several positions.

    References
    ----------
    Sarawagi and Cohen, "Semi-Markov Conditional Random Fields for Information Extraction", NIPS 2004. Andrew, "A Hybrid
    Markov/Semi-Markov Conditional Random Field for Sequence Segmentation", EMNLP 2006.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction import (
    ...     SegmentFeatureExtractor,
    ...     SequenceFeatureExtractor,
    ... )
    >>> X = [["J.", "Ye", "1992"], ["D.", "Wu", "May", "1992"]]
    >>> y = [["author", "author", "date"], ["author", "author", "date", "date"]]
    >>> tokens = SequenceFeatureExtractor([(("w", 0),)]).fit_transform(X)
    >>> extractor = SegmentFeatureExtractor(
    ...     bag=(), begin="w[0]=19", length="capped", identity=True
    ... )
    >>> extractor.fit_transform(tokens, y)
    SequenceBatch(2 sequences, 7 tokens, 7 features)
    >>> extractor.get_feature_names_out().tolist()
    ['begin:w[0]=1992', 'length=1', 'length=2+',
     'identity=1992', 'identity=D. Wu', 'identity=J. Ye', 'identity=May 1992']
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # the public module: model files contain this name

    _parameter_constraints = {
        "bag": "no_validation",
        "begin": "no_validation",
        "end": "no_validation",
        "inside": "no_validation",
        "tags": "no_validation",
        "length": [StrOptions(set(LENGTH_KINDS)), tuple, list, None],
        "max_length": [Interval(Integral, 1, None, closed="left"), None],
        "identity": "no_validation",
        "functions": "no_validation",
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "scheme": [StrOptions({"auto", *SCHEMES})],
    }

    def __init__(
        self,
        bag: str | tuple[str, ...] | None = None,
        *,
        begin: bool | str | tuple[str, ...] = (),
        end: bool | str | tuple[str, ...] = (),
        inside: bool | str | tuple[str, ...] = (),
        tags: str | Mapping[str, Any] | None = None,
        length: str | tuple[str, ...] | None = None,
        max_length: int | None = None,
        identity: Any = False,
        functions: Callable | Sequence[Callable] | Mapping[str, Callable] = (),
        min_count: int = 1,
        scheme: str = "auto",
    ) -> None:
        self.bag = bag
        self.begin = begin
        self.end = end
        self.inside = inside
        self.tags = tags
        self.length = length
        self.max_length = max_length
        self.identity = identity
        self.functions = functions
        self.min_count = min_count
        self.scheme = scheme

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features of training segments.

        Parameters
        ----------
        X : SequenceBatch, or list of sequences of tokens
            The training sequences. Raw tokens, in the forms that :class:`SequenceFeatureExtractor` reads, provide no
            token features: only `identity` and `functions` read their strings and numbers. Feature dicts, lists of
            attribute names and numeric arrays are also read as raw tokens, unless a :class:`SequenceFeatureExtractor`
            has turned them into features.
        y : list of sequences, or None, default=None
            The training segments, in the format that `scheme` names. Only some features require them.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter or y does not match X, or if y is required but missing; the message names the sequence and
            the position.
        TypeError
            If a parameter, a token or the result of a function has the wrong type.

        Warns
        -----
        UserWarning
            If no token feature has a name that begins with a given prefix, or if tokens that look like token features
            are read as raw tokens although `bag` is not ``()``.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> SequenceBatch:
        """Learn the features of training segments and return the sequences with these features.

        Parameters
        ----------
        X : SequenceBatch, or list of sequences of tokens
            As in `fit`; invalid input raises the same errors.
        y : list of sequences, or None, default=None
            As in `fit`; invalid input raises the same errors.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        return self._to_batch(self._learn(X, y)[1])

    def _learned(self, X, space, batch, y) -> SegmentFeatures:
        functions, kinds = check_functions(self.functions), _check_lengths(self.length)
        if self.max_length is not None and not kinds:
            raise ValueError(
                f'max_length={self.max_length} has no effect without length: did you mean length="capped"?'
            )
        blocks, makers = self._token_blocks(space.features, check_tags(self.tags)), list[Any]()
        has_identity = self.identity is not False and self.identity is not None
        fields = [text_field(space, self.identity, "identity")] if has_identity else []
        if functions:
            text_field(space, True, "functions")
        scheme, strings, has_indicators = None, None, bool(set(kinds) - {"gamma"})
        max_length = self.max_length if has_indicators else None
        learns_length = has_indicators and max_length is None
        if fields or functions or learns_length:
            name = f"{type(self).__name__} with identity, functions or length indicators without max_length"
            targets = read_segment_targets(y, batch.lengths, "sequences", name, scheme=self.scheme)
            scheme, segments = targets.scheme, targets.segments
            max_length = int(segments.lengths.max()) if learns_length else max_length
            if fields:
                strings = TrainingStrings.from_batch(batch, fields[0], segments)
                makers.append(IdentityRows.from_strings(strings, self.min_count))
            if functions:
                fields = space.fields
                makers.append(FunctionRows.from_segments(functions, fields, batch, segments, self.min_count))
        if self.bag is None:
            _warn_of_raw_tokens(X)
        of_y = scheme if learns_length else None
        blocks += [LengthBlock(kind, max_length or 0, None if kind == "gamma" else of_y) for kind in kinds]
        return SegmentFeatures(blocks, makers, fields, max_length, scheme, strings)

    def _token_blocks(self, features, tags) -> list:
        """Return the blocks of token features that count at some tokens of a segment."""
        if self.bag is not None and features.has_blocks:
            raise ValueError(
                "X already has features of segments, which are all kept, so bag must be None; choose bag features "
                "in the transformer that made them"
            )
        wanted = [
            ("bag", BAG, "", () if self.bag is None else self.bag),
            ("begin", BEGIN, "begin:", self.begin),
            ("end", END_OF_SEGMENT, "end:", self.end),
            ("inside", INSIDE, "inside:", self.inside),
            *((f"tags[{tag!r}]", channel, f"{tag}:", prefixes) for tag, (channel, prefixes) in tags.items()),
        ]
        chosen = [
            TokenBlock(channel, _choose(features.attribute_names, prefixes, parameter), prefix)
            for parameter, channel, prefix, prefixes in wanted
        ]
        empty = () if self.bag is None else chosen[:1]  # even a batch without features contains a block
        return [block for block in chosen if block.n_features] or list(empty)


def _check_lengths(length) -> tuple:
    kinds = () if length is None else (length,) if isinstance(length, str) else tuple(length)
    for kind in kinds:
        if kind not in LENGTH_KINDS:
            raise ValueError(f"length must be None, one of {LENGTH_KINDS!r} or a tuple of them, got {length!r}")
    if kinds.count("gamma") > 1 or len(kinds) - kinds.count("gamma") > 1:
        raise ValueError(f"length={length!r} has the same features twice")
    return kinds


def _warn_of_raw_tokens(X):
    """Warn if X looks like token features."""
    form = None if isinstance(X, SequenceBatch) else token_form(X)
    if form is not None:
        warn_user(f"the tokens are {form}: no token features are made of them; {TOKEN_FEATURES_FIRST}, or set bag=()")


def _choose(names, prefixes, parameter) -> np.ndarray:
    """Return the ids of the token features whose names begin with one of the prefixes."""
    if prefixes is not True:
        prefixes = (prefixes,) if isinstance(prefixes, str) else prefixes
        if not isinstance(prefixes, (tuple, list)) or not all(isinstance(prefix, str) for prefix in prefixes):
            raise TypeError(
                f"{parameter} must be True, the beginning of a token feature's name, or a tuple of beginnings, got "
                f"{prefixes!r}"
            )
        if not prefixes:
            return np.empty(0, dtype=np.int32)
    if not len(names):
        raise ValueError(f"{parameter}: X has no token features; {TOKEN_FEATURES_FIRST}")
    if prefixes is True:
        return np.arange(len(names), dtype=np.int32)
    chosen = np.zeros(len(names), dtype=bool)
    for prefix in prefixes:
        matches = np.fromiter((str(name).startswith(prefix) for name in np.asarray(names)), bool, len(names))
        if not matches.any():
            hint = "; SequenceFeatureExtractor(bias=True) adds it" if prefix == "bias" else ""
            warn_user(f"{parameter}: no token feature has a name that begins with {prefix!r}{hint}")
        chosen |= matches
    return np.flatnonzero(chosen).astype(np.int32)


PRESETS = {"unigrams": ("B", "I"), "bigrams": ("B", "I", "BI", "II", "B|", "I|")}


def tag_channel(tags: str) -> Channel | None:
    """Return the channel of the last token of a tag n-gram, or None if there is no such n-gram.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction._segment_extractor import tag_channel
    >>> tag_channel("BI")
    Channel(anchor=0, offset=1, shortest=2, longest=2147483647)
    >>> tag_channel("IB") is None
    True
    """
    if tags in ("B|", "I|"):
        return Channel(FROM_STOP, -1, *((1, 1) if tags == "B|" else (2, NO_LIMIT)))
    if re.fullmatch("BI*", tags):
        return Channel(FROM_START, len(tags) - 1, len(tags))
    return Channel(RANGE, len(tags), len(tags) + 1) if re.fullmatch("I+", tags) else None


def check_tags(tags) -> dict:
    """Return the parameter ``tags`` as {n-gram: (channel, prefixes of attribute names, or True for all)}."""
    if tags is None:
        return {}
    if isinstance(tags, str) and tags in PRESETS:
        tags = dict.fromkeys(PRESETS[tags], True)
    if not isinstance(tags, Mapping):
        raise (ValueError if isinstance(tags, str) else TypeError)(
            f"tags must be None, 'unigrams', 'bigrams' or a dict {{tag n-gram: prefixes}}, got {tags!r}"
        )
    checked = {}
    for ngram, prefixes in tags.items():
        channel = tag_channel(ngram) if isinstance(ngram, str) else None
        if channel is None:
            raise ValueError(
                f"tags has {ngram!r}, which is not a tag n-gram. Use 'B' or 'I', either with any number of 'I' after "
                "it, and 'B|' and 'I|' for the first token of the next segment"
            )
        checked[ngram] = channel, prefixes
    return checked
