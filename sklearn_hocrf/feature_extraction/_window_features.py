"""WindowFeatures: means, deviations and slopes over neighbouring tokens."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .._reading.inputs import refuse_other_names
from .._reading.token_rows import TokenRows
from .._sklearn.names import Interval, fit_context
from .._sklearn.versions import VersionMixin

FUNCTIONS = ("mean", "std", "slope")


class WindowFeatures(  # type: ignore[call-arg]
    VersionMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """Add means, deviations and slopes over a window around each token; windows never extend into other sequences.

    Each row of a recording describes a single moment. The added columns let a linear model also use the level, spread
    and trend around that moment: for each column of X, they contain the mean, the standard deviation, and the slope per
    token of the least-squares line.

    Parameters
    ----------
    before : int, default=5
        Number of tokens before each token in its window.
    after : int, default=5
        Number of tokens after each token in its window; use 0 if predictions cannot wait for later tokens.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,), dtype object
        Names of the columns seen in `fit`, if the sequences were data frames.

    See Also
    --------
    TokenTransformer : Apply any scikit-learn transformer to tokens, for example a scaler after this transformer.

    Notes
    -----
    At the ends of a sequence, its first and last tokens are repeated to fill the window. The time per token grows with
    the length of the window; memory use does not.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf.feature_extraction import WindowFeatures
    >>> windows = WindowFeatures(before=1, after=1)
    >>> rows, one = windows.fit_transform(
    ...     [np.array([[1.0], [2.0], [6.0]]), np.array([[5.0]])]
    ... )
    >>> rows.round(2)
    array([[1.  , 1.33, 0.47, 0.5 ],
           [2.  , 3.  , 2.16, 2.5 ],
           [6.  , 4.67, 1.89, 2.  ]])
    >>> one, windows.get_feature_names_out(["speed"]).tolist()
    (array([[5., 5., 0., 0.]]), ['speed', 'speed_mean', 'speed_std', 'speed_slope'])
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # the public module: model files contain this name

    _parameter_constraints = {
        "before": [Interval(Integral, 0, None, closed="left")],
        "after": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, before: int = 5, after: int = 5) -> None:
        self.before = before
        self.after = after

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters and X, and store the number and names of the columns.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, or array-like
            Sequences of rows of numbers: arrays or data frames of shape (T, n_columns), or lists of rows. Each row of a
            plain table is a separate sequence, without neighbours: for one recording, pass ``[X]``.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is invalid, if there are no tokens, if sequences differ in type or columns, or if values are
            not finite numbers.
        """
        self._names = self._read(X, reset=True)[0].names
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns of X, followed by their means, deviations and slopes.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, or array-like
            As in :meth:`fit`.

        Returns
        -------
        X_new : list of n_sequences arrays of shape (T, n_features_out), or in the form of X
            Of dtype float64. A 3-D array, a table or a `SequenceBatch` keeps its form.

        Raises
        ------
        ValueError
            As in :meth:`fit`.
        """
        check_is_fitted(self)
        tokens, rows = self._read(X, reset=False)
        refuse_other_names(tokens.names, self._names, type(self).__name__)
        table = None if rows is None else np.hstack([rows, *_windows(rows, tokens.offsets, self.before, self.after)])
        return tokens.split(table, self.get_feature_names_out(), type(self).__name__)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of X, followed by those of their means, deviations and slopes.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X; None means those seen in `fit`, or else x0, x1 and so on.

        Returns
        -------
        names : ndarray of str objects
        """
        names = super().get_feature_names_out(self._names if input_features is None else input_features)
        return np.array([*names, *(f"{name}_{suffix}" for suffix in FUNCTIONS for name in names)], dtype=object)

    def _read(self, X, reset):
        """Return the tokens of X, and their rows as a float64 array (None if there are no tokens)."""
        tokens = TokenRows.from_sequences(X, type(self).__name__, fit=reset)
        if not tokens.offsets[-1]:
            return tokens, None
        rows = check_array(tokens.rows, dtype=np.float64, input_name="X", estimator=self)  # raises before names are set
        validate_data(self, tokens.rows, reset=reset, skip_check_array=True)
        return tokens, rows

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _windows(rows, offsets, before, after) -> list[np.ndarray]:
    """Return the means, deviations and slopes, looping over window positions and processing all tokens at once."""
    lengths = np.diff(offsets)
    first, last = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:] - 1, lengths)
    lags = np.arange(-before, after + 1)

    def summed(function):
        """Sum ``function(lag, difference)`` over the window; a difference is a neighbour's row minus the token's row.

        In constant columns, the differences are exactly 0.
        """
        tokens = np.arange(len(rows))
        return sum(function(lag, rows[np.clip(tokens + lag, first, last)] - rows) for lag in lags.tolist())

    mean = summed(lambda _, difference: difference) / len(lags)
    slopes = lags - lags.mean()
    slopes /= (slopes**2).sum() or 1.0  # 0 for windows of one token
    deviation = np.sqrt(summed(lambda _, difference: (difference - mean) ** 2) / len(lags))
    return [rows + mean, deviation, summed(lambda lag, difference: slopes[lag + before] * difference)]
