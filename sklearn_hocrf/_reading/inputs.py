"""The forms of X, and the training data as a whole."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._data.arrays import offsets_of
from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.messages import pack_texts, unpack_texts, warn_user
from .._data.segments import LengthBlock, TokenBlock
from .._sklearn.names import get_feature_names
from .attributes import Vocabulary, looks_like_rows, read_attributes, read_known_attributes
from .known import lengths_of_targets
from .rows import ROWS_OF_NUMBERS, check_table, n_tokens, refuse_infinite_values, refuse_non_sequence, stack_rows
from .values import number_weights, without_columns

_MOST_TOKENS = 10**8  # largest number that y may imply
_OTHER_SEGMENT_FEATURES = (
    "X does not have the segment features that {} was fitted on: pass it through the transformers that made the "
    "training X"
)
NO_TOKENS = "X has no tokens in sequences of positive weight: fit needs at least one"


class Reader(NamedTuple):
    """The settings of an estimator that are needed to read its data."""

    name: str  # of the class of the estimator, for messages
    scheme: str = "tokens"  # form of labels in y: one for each token, or segments in a scheme
    segment_length: Any = None  # the parameter
    check_columns: Callable | None = None  # raises scikit-learn's errors unless tables have the columns of fit


class FeatureSpace(NamedTuple):
    """The features of X in fit, with which new data are compared."""

    n_features: int
    names: Any  # (n_features,) object array, a lazy sequence of names, or None
    vocabulary: Vocabulary | None  # feature id by attribute name, if X had attribute names
    is_table: bool  # X was a plain 2-D array: sequences of length 1
    kinds: tuple | None = None  # the kinds of segment features, if X was a batch with such features

    def packed(self) -> FeatureSpace:
        """Return the object for a file, with the names as two arrays and only the complete keys of the vocabulary."""
        names = pack_texts(self.names) if isinstance(self.names, np.ndarray) else self.names
        complete: Any = None if self.vocabulary is None else list(self.vocabulary.complete)
        return self._replace(names=names, vocabulary=complete)

    def unpacked(self) -> FeatureSpace:
        """Return the original object, given the result of :meth:`packed`."""
        names, vocabulary = self.names, self.vocabulary
        if isinstance(names, (tuple, list)):
            texts = unpack_texts(names)
            names = np.empty(len(texts), dtype=object)
            names[:] = texts
        if isinstance(vocabulary, list):
            if names is None:
                raise ValueError("a vocabulary needs names")
            vocabulary = Vocabulary.of_names(list(names), vocabulary)
        return self._replace(names=names, vocabulary=vocabulary)

    def check(self, n_features):
        """Raise a ValueError unless the object describes ``n_features`` features."""
        if self.n_features != n_features or (self.names is not None and len(self.names) != n_features):
            raise ValueError(f"the weights are of {n_features} features, but fit saw {self.n_features} or others")
        if self.vocabulary is None:
            return
        if not isinstance(self.vocabulary, Vocabulary) or self.names is None:
            raise ValueError("attribute names need a vocabulary, and must be an array")
        if [self.vocabulary[name] for name in self.names] != list(range(len(self.vocabulary))):
            raise ValueError("the vocabulary does not index the names of the features")


class TrainingSequences(NamedTuple):
    """Validated training sequences, before their targets are read."""

    batch: SequenceBatch  # all sequences of X
    form: str  # of X
    features: FeatureSpace  # of earlier training data, if there are any
    sequence_weight: np.ndarray | None  # (n_sequences,) float64; None: all 1
    is_used: np.ndarray | None  # (n_sequences,) bool: with tokens and a positive weight; None: all are
    vocabulary: Vocabulary | None = None  # of attribute names; not yet in ``features``
    has_times: bool = False  # X was a plain table whose index contains times in order

    def warn_of_one_recording(self, codes) -> None:
        """Warn if the rows of a plain 2-D X seem to be one sequence, judging by their index or labels.

        The labels cause a warning if neighbours differ in label less than half as often as expected at random, with a
        difference of more than six standard deviations, and if labels recur, unlike those of sorted rows.
        """
        n_changes, n_pairs = int(np.count_nonzero(codes[1:] != codes[:-1])), len(codes) - 1
        if self.form != "table" or n_pairs < 1:
            return
        share = np.bincount(codes) / len(codes)
        same, thrice = (share**2).sum(), (share**3).sum()
        expected = n_pairs * (1.0 - same)
        deviation = np.sqrt(n_pairs * (same * (1.0 - same) + 2.0 * (thrice - same**2)))
        is_rare = n_changes < min(expected / 2.0, expected - 6.0 * deviation)
        reason = "its index has times in order"
        if not self.has_times:
            if not is_rare or n_changes < np.count_nonzero(share):
                return
            percent = 100.0 * (1.0 - n_changes / n_pairs)
            reason = f"{percent:.1f} % of the rows have the label of the row before, {100.0 * same:.1f} % by chance"
        warn_user(
            f"X is a plain table, so its {len(codes)} rows are as many sequences of one token, without neighbours; but "
            f"{reason}. Is it one sequence? Use fit([X], [y]), and predict([X])"
        )

    @property
    def sequence_ids(self) -> np.ndarray:
        """The indices in X of the used sequences."""
        return np.arange(len(self.batch)) if self.is_used is None else np.flatnonzero(self.is_used)


def read_training_sequences(reader, X, sample_weight=None, earlier=None) -> TrainingSequences:
    """Return validated training sequences, or raise an error that names the sequence, position and value.

    Parameters
    ----------
    reader : Reader
    X : sequences
        In one of the forms that the docstring of :mod:`sklearn_hocrf._reading` lists.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence.
    earlier : FeatureSpace, default=None
        The features of training data in earlier calls of partial_fit. New attribute names get the next free ids.
    """
    X = without_columns(X)
    form = input_form(X)
    batch, space = _read(reader, X, form, earlier, grow=True)
    if not len(batch):
        raise ValueError(f"X has no sequences: {'fit' if earlier is None else 'partial_fit'} needs at least one")
    weight = check_sequence_weight(sample_weight, len(batch))
    features = space._replace(vocabulary=None) if earlier is None else earlier
    is_used, has_times = used_sequences(batch.lengths, weight), earlier is None and _has_times(X)
    return TrainingSequences(batch, form, features, weight, is_used, space.vocabulary, has_times)


def _has_times(X) -> bool:
    """Return whether X is a data frame whose index contains times in order."""
    index: Any = getattr(X, "index", None)
    return getattr(getattr(index, "dtype", None), "kind", "") == "M" and bool(index.is_monotonic_increasing)


def sequences_like(reader, y, sample_weight=None) -> TrainingSequences | None:
    """Return training sequences that have the lengths of the sequences in y, but no features, if X is not known.

    The result is None if y is ambiguous: tuples may be sequences or labels.

    Parameters
    ----------
    reader, sample_weight
        As for :func:`read_training_sequences`.
    y : sequences
        Labels, tags or segments, according to ``reader.scheme``.
    """
    lengths, form = lengths_of_targets(without_columns(y), reader.name, reader.scheme)
    if lengths is None or lengths.sum() > _MOST_TOKENS:
        return None
    offsets = offsets_of(lengths)
    batch = SequenceBatch(offsets, np.zeros(offsets[-1] + 1), np.zeros(0), None, 0)
    weight = check_sequence_weight(sample_weight, len(batch))
    features = FeatureSpace(0, None, None, form == "table")
    return TrainingSequences(batch, form, features, weight, used_sequences(lengths, weight))


def used_sequences(lengths, weight) -> np.ndarray | None:
    """Return the mask of the sequences that training uses: those with tokens and a positive weight; None means all."""
    is_used = lengths > 0 if weight is None else (lengths > 0) & (weight > 0)
    return None if is_used.all() else is_used


def refuse_no_tokens(is_used) -> None:
    """Raise a ValueError if training uses no sequence; ``is_used`` is the result of :func:`used_sequences`."""
    if is_used is not None and not is_used.any():
        raise ValueError(NO_TOKENS)


def check_sequence_weight(sample_weight, n_sequences):
    """Return one weight per sequence as float64, or None if there are no weights."""
    if sample_weight is None:
        return None
    weight = np.asarray(number_weights(sample_weight), dtype=np.float64)
    weight = np.full(n_sequences, weight) if weight.ndim == 0 else weight
    if weight.shape != (n_sequences,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, but there are {n_sequences} sequences")
    for n in np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))[:1].tolist():
        raise ValueError(f"sample_weight must be finite and not negative, but sequence {n} has {weight[n]}")
    if n_sequences and not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    with np.errstate(over="ignore"):
        if np.isinf(weight.sum()):
            n = int(np.argmax(weight))
            raise ValueError(f"the sum of sample_weight is too large for a float; highest: {weight[n]} (sequence {n})")
    return weight


def input_form(X) -> str:
    """Return the form of X: "table", "grid" or "sequences"."""
    if isinstance(X, SequenceBatch):
        return "sequences"
    if isinstance(X, (str, bytes)):
        raise TypeError(f"X is the str {short(X)}, but must be a list of sequences; for one text: `[list(text)]`")
    if sparse.issparse(X):
        return "table"
    n_axes = len(X.shape) if hasattr(X, "shape") else np.asarray(X).ndim if hasattr(X, "__array__") else None
    if n_axes is None or (n_axes == 1 and X.dtype.kind in "OSUT"):
        return _form_of_list(X)
    if n_axes == 0:
        raise ValueError(f"Expected 2D array, got scalar array instead: X is the single value {short(X)}")
    if n_axes > 3:
        raise ValueError(f"X has {n_axes} dimensions, but at most 3 are possible: sequence, position, feature")
    return "grid" if n_axes == 3 else "table"


def _form_of_list(X):
    """Return "sequences" or "table" for a list, depending on its first non-empty element."""
    if isinstance(X, (dict, set, frozenset)) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        kind = type(X).__name__
        hint = ": pass [X.items()]" if kind == "ItemSequence" else ""  # of python-crfsuite
        raise TypeError(f"X must be a list of sequences, an array or a sparse matrix, not a {kind}{hint}")
    for n, element in enumerate(X):
        if isinstance(element, Number):
            return "table"
        refuse_non_sequence(element, n)
        if hasattr(element, "shape"):
            if element.shape == (0,):
                continue
            return "table" if len(element.shape) == 1 and element.dtype.kind in "biufc" else "sequences"
        if len(element):
            return "table" if isinstance(element[0], Number) else "sequences"
    return "sequences"


def common_column_names(X):
    """Return the column names of sequences that are data frames; sequences without tokens need no names."""
    full = [n for n, sequence in enumerate(X) if n_tokens(sequence)]
    names = get_feature_names(X[full[0]]) if full else None
    if names is not None:
        for n in full:
            if not np.array_equal(names, get_feature_names(X[n])):
                raise ValueError(f"sequence {n} of X does not have the column names of sequence {full[0]}")
    return names


def read_sequences(reader, X, fitted) -> tuple[SequenceBatch, str]:
    """Return X as a batch with the features ``fitted`` of training data, and the form of X; sequences may be empty."""
    vocabulary = fitted.vocabulary
    if vocabulary is not None and type(X) is list and len(X) == 1 and (batch := vocabulary.batch_of(X[0])):
        return batch, "sequences"
    if isinstance(X, SequenceBatch) and X.block_names is not None and X.block_names is fitted.names:
        refuse_infinite_values(X)
        return X, "sequences"  # from the transformer used in fit, which creates the same blocks
    X = without_columns(X)
    form = input_form(X)
    return _read(reader, X, form, fitted)[0], form


def _read(reader, X, form, fitted=None, grow=False) -> tuple[SequenceBatch, FeatureSpace]:
    """Return X as a batch, and its features, which must match ``fitted``, the features of training data, if given.

    With ``grow``, a new vocabulary receives the attribute names; otherwise, names outside the fitted vocabulary are
    left out.
    """
    name, names = reader.name, None
    if isinstance(X, SequenceBatch):
        space = FeatureSpace(X.n_features, X.feature_names, None, is_table=False, kinds=_kinds_of(X))
        _refuse_segment_features(X, reader)
        if fitted is None:
            _warn_of_other_scheme(X, reader)
        else:
            _refuse_other_features(space, fitted, name)
        refuse_infinite_values(X)
        return X, space
    if fitted is not None and fitted.kinds is not None:
        raise ValueError(_OTHER_SEGMENT_FEATURES.format(name))
    if form == "table":
        matrix = check_table(X, name)
        offsets = np.arange(matrix.shape[0] + 1)
        if fitted is None:
            names = get_feature_names(X)
        elif fitted.is_table:
            _check_columns(X, fitted, reader)
        else:
            _refuse_table(matrix.shape[1], fitted, name)
    else:
        X = list(X)
        are_rows = form == "grid" or looks_like_rows(X, default=fitted is not None and fitted.vocabulary is None)
        if fitted is not None:
            _check_kind(are_rows, fitted, name)
        if not are_rows and not grow:
            return read_known_attributes(X, fitted.vocabulary), fitted
        if not are_rows:
            vocabulary = Vocabulary()
            return read_attributes(X, vocabulary, grow=True), FeatureSpace(0, None, vocabulary, is_table=False)
        if fitted is None:
            names = common_column_names(X)
        for sequence in () if fitted is None else X:
            if hasattr(sequence, "columns") and n_tokens(sequence):
                _check_columns(sequence, fitted, reader)
        matrix, offsets = stack_rows(X, name, fitted and fitted.n_features)
    batch = SequenceBatch.from_table(matrix, offsets, names if fitted is None else fitted.names)
    refuse_infinite_values(batch)
    return batch, FeatureSpace(matrix.shape[1], names, None, is_table=form == "table")


def _refuse_table(n_columns, fitted, name):
    """Raise an error for a plain 2-D X if training data were sequences; the message shows how to convert X."""
    _check_kind(True, fitted, name)
    remedy = ROWS_OF_NUMBERS
    if n_columns == fitted.n_features:
        remedy = "if X is one, wrap it: `[X]`"
    elif fitted.n_features > 1:
        remedy = f"X has {n_columns} features, but {name} is expecting {fitted.n_features} features as input"
    raise ValueError(f"X is a plain 2-D array, but {name} was fitted on sequences; {remedy}")


def _check_kind(rows, features, name):
    if rows and features.vocabulary is not None:
        raise ValueError(f"X has rows of numbers, but {name} was fitted on attribute names: prepare X as for fit")
    if not rows and features.vocabulary is None:
        raise ValueError(
            f"X has attribute names, but {name} was fitted on rows of numbers or on a SequenceBatch: pass X through "
            "the transformer that made the training X"
        )


def _check_columns(table, fitted, reader):
    """Raise an error unless a table has as many columns as the training data, with the same names."""
    if reader.check_columns is not None:
        return reader.check_columns(table)
    features = FeatureSpace(table.shape[1], get_feature_names(table), None, is_table=True)
    return _refuse_other_features(features, fitted, reader.name)


def _refuse_segment_features(batch, reader):
    if batch.blocks is not None and reader.scheme == "tokens":
        raise ValueError(f"X has segment features; {reader.name} has no segments: use HighOrderSemiCRF")


def _warn_of_other_scheme(batch, reader):
    """Warn if segment features were learned with a scheme other than that of ``reader``.

    The function does not raise an error, because the schemes may differ if the forms of y differ.
    """
    schemes = {getattr(block, "scheme", None): block for block in batch.blocks or ()}
    for scheme, block in schemes.items():
        if reader.scheme != "auto" and scheme not in (None, reader.scheme):
            some = ", ".join([*block.names(batch.attribute_names)[:1], "..."])
            warn_user(
                f"segment features in X ({some}) were learned with scheme={scheme!r}, but {reader.name} "
                f"has scheme={reader.scheme!r}: both must match y"
            )


def _kinds_of(batch):
    """Return the kinds of segment features of a batch, without their names; None if it has none."""

    def kind(block):
        details = block.channel if isinstance(block, TokenBlock) else block if isinstance(block, LengthBlock) else ()
        return type(block).__name__, block.n_features, *details

    return None if batch.blocks is None else tuple(map(kind, batch.blocks))


def refuse_other_names(names, fitted, name) -> None:
    """Raise a ValueError if the names of features, or their order, differ from those in fit; None means no names."""
    if first := _first_other_name(names, fitted):
        raise ValueError(f"the features of X differ from those {name} was fitted on: {first}")


def _first_other_name(names, fitted) -> str:
    if names is fitted or names is None or fitted is None:
        return ""
    both = np.asarray(names), np.asarray(fitted)  # they may be lazy
    n = min(map(len, both))
    i = int(np.append(np.flatnonzero(both[0][:n] != both[1][:n]), n)[0])
    in_x, in_fit = (short(some[i]) if i < len(some) else "missing" for some in both)
    return f"feature {i} is {in_x}, in fit it was {in_fit}" if in_x != in_fit else ""


def _refuse_other_features(features, fitted, name):
    """Raise an error unless the features of a batch are those of the training data.

    Names are compared if ``features`` and ``fitted`` both contain names, but not if these are one object, as usual.
    """
    if features.n_features != fitted.n_features:
        first = _first_other_name(features.names, fitted.names)
        message = f"X has {features.n_features} features, but {name} is expecting {fitted.n_features} features as input"
        raise ValueError(message + (first and f": {first}"))
    refuse_other_names(features.names, fitted.names, name)
    if features.kinds != fitted.kinds:
        raise ValueError(_OTHER_SEGMENT_FEATURES.format(name))
