"""TokenTransformer: applies scikit-learn transformers of rows to the tokens of all sequences."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from .._data.checks import short
from .._reading.inputs import refuse_other_names
from .._reading.known import read_labels, read_target_sequences
from .._reading.labels import position_name
from .._reading.schemes import looks_like_segments
from .._reading.token_rows import TokenRows
from .._reading.values import is_missing, without_columns
from .._sklearn.layers import check_fit
from .._sklearn.names import HasMethods, available_if, check_declared, fit_context
from .._sklearn.versions import VersionMixin


class TokenTransformer(VersionMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Apply a transformer of rows, such as a scaler, to the tokens of all sequences.

    scikit-learn's transformers require a single table. This transformer stacks the tokens of all sequences, calls the
    wrapped transformer, and splits its result into the original sequences. In a cross-validated pipeline, the wrapped
    transformer is therefore fitted anew in each fold, to training tokens only.

    Parameters
    ----------
    transformer : transformer
        Any transformer that returns one row for each input row: `StandardScaler`, `PCA`, `SimpleImputer`,
        `OneHotEncoder`, `ColumnTransformer` for data frames, `DictVectorizer` for dicts, or a pipeline of such
        transformers. `fit` fits a clone of the transformer, not the original.

    Attributes
    ----------
    transformer_ : transformer
        The fitted transformer.
    n_features_in_ : int
        Number of columns seen in `fit`, if the transformer counts columns.
    feature_names_in_ : ndarray of shape (n_features_in_,), dtype object
        Names of the columns seen in `fit`, if the sequences were data frames.

    See Also
    --------
    WindowFeatures : Means, deviations and slopes over neighbouring tokens.

    Notes
    -----
    After ``set_output(transform="pandas")``, data frames remain data frames with named columns. All sequences that
    contain tokens must have the same type and the same columns.

    The rows of a plain table are transformed like tokens, because estimators read them as sequences of one token.
    Errors about values, such as nan, come from the wrapped transformer, so their row numbers count the tokens of all
    sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_hocrf import HighOrderCRF, make_pipeline
    >>> from sklearn_hocrf.feature_extraction import TokenTransformer
    >>> X = [np.array([[1.0, 900.0], [3.0, 1100.0]]), np.array([[2.0, 1000.0]])]
    >>> [x.round(2).tolist() for x in TokenTransformer(StandardScaler()).fit_transform(X)]
    [[[-1.22, -1.22], [1.22, 1.22]], [[0.0, 0.0]]]
    >>> pipe = make_pipeline(TokenTransformer(StandardScaler()), HighOrderCRF())
    >>> grid = {"tokentransformer__transformer__with_mean": [True, False]}
    >>> search = GridSearchCV(pipe, grid, cv=3).fit(X * 3, [["low", "high"], ["low"]] * 3)
    >>> search.predict(X)
    [['low', 'high'], ['low']]
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # the public module: model files contain this name

    _parameter_constraints = {"transformer": [HasMethods(["fit", "transform"])]}

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def __check_fit__(self, X: Any, y: Any = None, **params: Any) -> None:
        check_declared(self)
        check_fit(self.transformer, None, None)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer to the tokens of all sequences.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            Sequences of rows: arrays, sparse matrices or data frames of shape (T, n_columns), or lists of tokens that
            the transformer accepts as rows.
        y : list of label sequences, default=None
            One label per token, for transformers that learn from labels, such as `SelectKBest`. For such transformers,
            y must contain neither segments, nor unknown labels, nor labels that are sets or tuples.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there are no tokens, if sequences differ in type or columns, if y does not match X, or if the transformer
            rejects the data.
        """
        self._fit(X, y, "fit")
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit the transformer, and return its result for the same sequences.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`fit`; invalid input raises the same errors.
        y : list of label sequences, default=None
            As in :meth:`fit`.

        Returns
        -------
        X_new : list of n_sequences arrays, sparse matrices or data frames, or in the form of X
            As in :meth:`transform`, but computed by the transformer's ``fit_transform``.
        """
        if not hasattr(self.transformer, "fit_transform"):
            return self.fit(X, y).transform(X)
        tokens, rows = self._fit(X, y, "fit_transform")
        return self._split(tokens, rows)

    @fit_context(prefer_skip_nested_validation=False)
    def _fit(self, X, y, method) -> tuple[TokenRows, Any]:
        name, inner = type(self).__name__, clone(self.transformer)
        tokens = TokenRows.from_sequences(X, name, fit=True)
        labels = _labels_of_tokens(y, tokens, name)
        lack = "" if tokens.form == "table" else _lack(y, labels, tokens.offsets)
        try:
            result = getattr(inner, method)(tokens.rows, None if lack else labels)
        except (TypeError, ValueError) as error:  # only the call shows whether the transformer needs labels
            if not lack:
                raise
            first_line = str(error).partition("\n")[0]
            raise ValueError(
                f"{type(inner).__name__} fails without labels ({first_line}), which it does not get: {lack}"
            ) from error
        if method == "fit_transform":
            tokens.refuse_other_size(result, type(inner).__name__)
        self.transformer_, self._names = inner, tokens.names
        return tokens, result

    def transform(self, X: Any) -> Any:
        """Return the result of the transformer for each sequence.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`fit`.

        Returns
        -------
        X_new : list of n_sequences arrays, sparse matrices or data frames, or in the form of X
            The rows of each sequence in the result of the transformer. A 3-D array, a table or a `SequenceBatch` keeps
            its form.

        Raises
        ------
        ValueError
            As in :meth:`fit`.
        """
        check_is_fitted(self)
        tokens = TokenRows.from_sequences(X, type(self).__name__)
        refuse_other_names(tokens.names, self._names, type(self).__name__)
        rows = None if not tokens.offsets[-1] else self.transformer_.transform(tokens.rows)
        return self._split(tokens, rows)

    def _split(self, tokens, rows):
        names = self.get_feature_names_out() if hasattr(self.transformer_, "get_feature_names_out") else None
        return tokens.split(rows, names, type(self.transformer_).__name__)

    @available_if(lambda self: hasattr(getattr(self, "transformer_", self.transformer), "get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that the transformer returns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X; None means those seen in `fit`, if any.

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(self._names if input_features is None else input_features)

    @available_if(lambda self: hasattr(self.transformer, "set_output"))
    def set_output(self, *, transform: Any = None) -> Self:
        """Set the type of the transformer's result, as in scikit-learn.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            Whether sequences become arrays or data frames; None changes nothing.

        Returns
        -------
        self : object
        """
        for transformer in (self.transformer, getattr(self, "transformer_", self.transformer)):
            transformer.set_output(transform=transform)
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen in `fit`."""
        return self.transformer_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns seen in `fit`."""
        return self.transformer_.feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        return "transformer_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.transformer)
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.transformer_tags = inner.transformer_tags
        tags.input_tags.three_d_array, tags.no_validation = True, inner.no_validation
        return tags


def _labels_of_tokens(y, tokens, name):
    """Return the label of each token, or None if y is None or contains segments."""
    if y is None or tokens.form == "table":
        return y
    y, lengths = without_columns(y), np.diff(tokens.offsets)
    sequences = read_target_sequences(y, len(lengths), name)
    if looks_like_segments([sequence for sequence in sequences if sequence is not None]):
        return None
    return read_labels(y, lengths, tokens.form, name, "tokens")[0]


def _lack(y, labels, offsets) -> str:
    """Return the reason why a transformer cannot learn from y, with a remedy; an empty string if it can."""
    if y is not None and labels is None:
        as_tags = "text.convert_tags(y, 'segments', 'bio', lengths=list(map(len, X)))"
        return f"y has segments: pass tags, as {as_tags} returns"
    for t, label in enumerate(labels if isinstance(labels, list) else ()):
        if is_missing(label) or isinstance(label, (set, frozenset, tuple, dict)):
            where = f"{position_name(offsets, t)} of y has {short(label)}, not one label"
            return f"{where}: leave such sequences out, or pass a FrozenEstimator, fitted to tokens with labels"
    return ""
