"""Standard errors by the Laplace approximation.

The covariance of the weights is the inverse of A = (Hessian of the negative log-likelihood) + (precision of the prior).
A is never formed. Conjugate gradients solve A x = g by products of A with vectors; each product is a pass over the
training data on dual numbers. The variance of a weight, or of a function of the weights with gradient g, is g' x (delta
method).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from .._data.batch import SequenceBatch
from .._estimator.course import Course
from .._estimator.fitted_model import FittedModel
from .._validation import check_sequence_weight, warn_user
from ._names import EACH_TOKEN, row_names

__all__ = ["log_odds_standard_errors", "weight_standard_errors"]

_NEAR = 0.1  # distance from the optimum, in standard errors, above which there is a warning


def weight_standard_errors(
    estimator: Any,
    X: Any,
    weights: Iterable[tuple],
    *,
    y: Any = None,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> np.ndarray:
    """Return standard errors of weights of a fitted model, by the Laplace approximation.

    Parameters
    ----------
    estimator : estimator
        A fitted model with ``objective="likelihood"`` and a Gaussian prior (no L1 penalty), or a pipeline, a search or
        calibration around one. The temperature of calibration is treated as known: it divides the errors as it divides
        the weights.
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        The training data, as in ``fit`` of the estimator. Without ``pruning``, labels are not
        needed: the curvature of the likelihood does not depend on them.
    weights : list of tuples (pattern, feature)
        The weights. A pattern is a tuple of labels, as in ``patterns_``. A feature is a name, as in
        ``feature_names_in_``, a column of ``coef_``, None for the weight of the pattern itself, or "(each token)" for
        the weight of each token of a segment.
    y : list of label sequences, or array-like, default=None
        As in the estimator's ``fit``.
        The training labels, which ``pruning`` adds to the candidates.
    sample_weight : array-like of shape (n_sequences,), default=None
        As in ``fit``.
    tol : float, default=1e-6
        Relative error of the residual at which conjugate gradients stop.
    max_iter : int, default=1000
        Maximum number of iterations for each weight; each is a pass over X.

    Returns
    -------
    errors : ndarray of shape (n_weights,), float64

    Raises
    ------
    ValueError
        If the model was not trained in this way, if it lacks one of the weights, if ``pruning``
        needs ``y``, if y does not match X or has labels that the model does not know, or if a setting is out of range.
    numpy.linalg.LinAlgError
        If conjugate gradients do not converge. They cannot if neither data nor prior determine a weight.

    Warns
    -----
    ConvergenceWarning
        If, according to ``optimality_gap_``, weights may be more than a tenth of a standard error away from the
        optimum.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import weight_standard_errors
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF().fit(X, y)
    >>> weight_standard_errors(crf, X, [(("DET",), "the"), (("DET", "NOUN"), None)]).round(
    ...     3
    ... )
    array([0.874, 0.876])
    """
    fitted, X = FittedModel.and_input(estimator, X)
    laplace = _Laplace(fitted, X, y, sample_weight, tol, max_iter)
    names, weights = _FeatureNumbers(fitted.estimator), list(weights)
    numbers = [_weight_number(fitted, names, weight) for weight in weights]
    errors = np.empty(len(numbers))
    for row, (number, weight) in enumerate(zip(numbers, weights, strict=True)):
        gradient = np.zeros(laplace.n_weights)
        gradient[number] = 1.0
        errors[row] = laplace.standard_error(gradient, f"the weight of {weight!r}")
    return errors


def log_odds_standard_errors(
    estimator: Any,
    X: Any,
    X_new: Any,
    positions: Iterable[tuple[int, int]],
    *,
    y: Any = None,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> np.ndarray:
    """Return standard errors of the log-odds of predicted labels, by the Laplace approximation and the delta method.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        The fitted model, as in :func:`weight_standard_errors`.
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        The sequences of its training.
    X_new : list of sequences, SequenceBatch, array-like or sparse matrix
        Sequences to predict.
    positions : list of tuples (sequence, token)
        The tokens: the number of the sequence in ``X_new`` and the number of the token in it, from 0.
    y : list of label sequences, or array-like, default=None
        The labels of training, as in :func:`weight_standard_errors`.
    sample_weight : array-like of shape (n_sequences,), default=None
        The weights of training.
    tol : float, default=1e-6
        As in :func:`weight_standard_errors`.
    max_iter : int, default=1000
        As in :func:`weight_standard_errors`.

    Returns
    -------
    table : structured ndarray of shape (n_positions,)
        Fields ``label``, ``log_odds`` and ``standard_error``. The label is the token's label in the most probable
        labelling; for :class:`~sklearn_hocrf.HighOrderSemiCRF` it is the label of the token's segment, one of
        ``segment_labels_``. The log-odds are log P / (1 - P), where P is the probability that the token has this label.
        If P is exactly 1 in floating point, log-odds and standard error are inf and nan.

    Raises
    ------
    ValueError
        As :func:`weight_standard_errors`, and if a position does not exist.
    numpy.linalg.LinAlgError
        If conjugate gradients do not converge.

    Warns
    -----
    ConvergenceWarning
        As :func:`weight_standard_errors`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.inspection import log_odds_standard_errors
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF().fit(X, y)
    >>> for label, log_odds, error in log_odds_standard_errors(
    ...     crf, X, X, [(0, 0), (0, 1)]
    ... ).tolist():
    ...     print(f"{label} {log_odds:.2f} +- {error:.2f}")
    DET 0.48 +- 1.03
    ADJ -0.16 +- 1.20
    """
    fitted, inner = FittedModel.and_input(estimator, X)
    laplace = _Laplace(fitted, inner, y, sample_weight, tol, max_iter)
    model, labels, n_jobs = fitted.model(), fitted.labels, fitted.n_jobs
    batch, form = fitted.read(FittedModel.and_input(estimator, X_new)[1])
    mask = fitted.mask(batch, form)
    positions = list(positions)
    tokens = [_token_number(batch, position) for position in positions]
    marginals = model.marginals(batch, n_jobs, mask)
    codes = model.label_codes(model.decode(batch, n_jobs, mask))
    fields = [("label", labels.dtype), ("log_odds", np.float64), ("standard_error", np.float64)]
    table = np.empty(len(tokens), dtype=fields)
    for row, (token, position) in enumerate(zip(tokens, positions, strict=True)):
        code = int(codes[token])
        yes, no = marginals[token, code], np.delete(marginals[token], code).sum()
        table[row] = labels[code], np.inf, np.nan
        if no > 0:
            gradient = model.label_gradient(batch, token, code, mask) / (yes * no)
            table["log_odds"][row] = np.log(yes) - np.log(no)
            table["standard_error"][row] = laplace.standard_error(gradient, f"the log-odds at {position!r}")
    return table


class _Laplace:
    """The Gaussian approximation of the posterior of the weights, which a temperature may divide."""

    def __init__(
        self, fitted: FittedModel, X: Any, y: Any, sample_weight: ArrayLike | None, tol: Any, max_iter: Any
    ) -> None:
        if not (isinstance(tol, Real) and 0 < float(tol) < 1):
            raise ValueError(f"tol must be a number between 0 and 1, got {tol!r}")
        if not (isinstance(max_iter, Integral) and int(max_iter) >= 1):
            raise ValueError(f"max_iter must be an integer >= 1, got {max_iter!r}")
        trained = fitted.as_trained()
        penalty = fitted.penalty()
        Course(trained).refuse("standard errors", penalty)
        self.precision = penalty.precision
        if fitted.record.had_holes:
            raise ValueError(
                "standard errors require maximum likelihood with all labels, but y had holes in fit: the likelihood is "
                "then not convex, and X alone does not determine the known labels"
            )
        if fitted.record.level_zero is not None and y is None:
            raise ValueError(
                f"pruning={trained.pruning!r} keeps the true labels of tokens in training, so that the objective "
                "depends on them: pass y"
            )
        _warn_if_far(fitted.estimator)
        self.temperature, self.n_jobs = fitted.record.temperature, fitted.n_jobs
        self.model = fitted.at_optimum()
        if y is None:
            batch, form = fitted.read(X)
            self.weight = check_sequence_weight(sample_weight, len(batch))
            self.plan = self.model.plan(batch, fitted.mask(batch, form))
        else:
            problem = fitted.training_problem(X, y, sample_weight)
            self.weight, self.plan = problem.sequence_weight, problem.plan
        self.n_weights, self.tol, self.max_iter = self.model.layout.n_weights, tol, max_iter

    def standard_error(self, gradient: np.ndarray, name: str) -> float:
        """Return the standard error of a function of the weights; ``name`` is for errors."""
        operator = LinearOperator((self.n_weights,) * 2, matvec=self._product, dtype=np.float64)
        solution, failed = cg(operator, gradient, rtol=self.tol, maxiter=self.max_iter)
        if failed:
            residual = np.linalg.norm(self._product(solution) - gradient) / np.linalg.norm(gradient)
            raise np.linalg.LinAlgError(
                f"conjugate gradients did not converge for {name}: after {self.max_iter} iterations the relative "
                f"residual is {residual:.1e}, and tol={self.tol:g}. Increase max_iter or tol; with sigma_reg=inf the "
                "data may leave the weights undetermined"
            )
        return float(np.sqrt(gradient @ solution)) / self.temperature

    def _product(self, v: np.ndarray) -> np.ndarray:
        v = np.asarray(v, np.float64).ravel()
        return self.model.hessian_vector_product(self.plan, v, self.weight, self.n_jobs) + self.precision * v


def _warn_if_far(estimator: Any) -> None:
    """Warn of a fitted model whose weights may differ from the optimum by a considerable part of a standard error.

    With A as above, a change v of the weights lowers the objective by v' A v / 2, and the largest change of a weight,
    or of a linear function of the weights, divided by its standard error is the square root of v' A v.
    """
    gap, value = estimator.optimality_gap_, float(estimator.objective_history_[-1])
    if _NEAR**2 / 2 < gap < np.inf:
        tol = 0.9 * _NEAR * (2 * value) ** -0.5
        warn_user(
            f"{type(estimator).__name__} may be {(2 * gap) ** 0.5:.2g} standard errors away from the optimum, where "
            f"the Laplace approximation is valid: fit with tol={tol:.0e}",
            ConvergenceWarning,
        )


class _FeatureNumbers:
    """The numbers of features, by name or number."""

    def __init__(self, estimator: Any) -> None:
        names = getattr(estimator, "feature_names_in_", None)
        self.n_features = estimator.n_features_in_
        self.by_name = {} if names is None else {name: number for number, name in enumerate(names)}

    def __getitem__(self, feature: Any) -> int:
        if isinstance(feature, Hashable) and feature in self.by_name:
            return self.by_name[feature]
        if isinstance(feature, Integral) and not isinstance(feature, bool) and 0 <= int(feature) < self.n_features:
            return int(feature)
        raise ValueError(f"the model has no feature {feature!r}")


def _weight_number(fitted: FittedModel, features: _FeatureNumbers, weight: tuple) -> int:
    """Return the number of a weight, given as (pattern, feature)."""
    if not isinstance(weight, tuple) or len(weight) != 2:
        raise ValueError(f"a weight is a tuple (pattern, feature), got {weight!r}")
    pattern, feature = weight
    pattern = tuple(pattern) if isinstance(pattern, (tuple, list)) else pattern
    rows, layout = row_names(fitted), fitted.record.layout
    if pattern not in rows:
        raise ValueError(f"the model has no pattern {pattern!r}; patterns are tuples of labels, see patterns_")
    row = rows.index(pattern)
    if isinstance(feature, str) and feature == EACH_TOKEN and len(layout.token_labels):
        numbers = layout.n_pairs + np.flatnonzero(layout.token_labels == row)
    elif feature is None:
        numbers = layout.first_bias + np.flatnonzero(layout.bias_pattern == row)
    else:
        numbers = np.flatnonzero((layout.pair_pattern == row) & (layout.pair_feature == features[feature]))
    if not len(numbers):
        what = "its own weight" if feature is None else f"a weight with the feature {feature!r}"
        raise ValueError(f"the pattern {pattern!r} does not have {what}")
    return int(numbers[0])


def _token_number(batch: SequenceBatch, position: tuple[int, int]) -> int:
    """Return the number in a batch of the token at (sequence, token)."""
    valid = isinstance(position, tuple) and len(position) == 2 and all(isinstance(n, Integral) for n in position)
    if not valid or not 0 <= position[0] < len(batch) or not 0 <= position[1] < batch.lengths[position[0]]:
        raise ValueError(f"positions are tuples (sequence, token) of numbers from 0, in X_new; got {position!r}")
    return int(batch.offsets[position[0]]) + int(position[1])
