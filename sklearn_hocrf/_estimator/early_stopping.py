"""Early stopping: a scikit-learn callback for the estimators' ``fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring

from .._data.checks import check, is_integer, is_number
from .base import BaseSequenceLabeler
from .fit.progress import FIT, ITERATION, STARTING, check_held_out


class EarlyStopping:
    """A callback that stops training when predictions of held-out sequences no longer improve.

    Pass the callback to the ``set_callbacks`` method of an estimator. The callback follows the protocol of
    scikit-learn's callbacks (1.9 or later) and works with any solver. After each iteration, the current model predicts
    held-out sequences. Training stops after ``patience`` successive iterations without a better score.

    Parameters
    ----------
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        The held-out sequences, as in :meth:`~sklearn_hocrf.HighOrderCRF.fit`. If the estimator is in a pipeline, first
        transform them with the steps before it.
    y : list of label sequences, or array-like
        The labels of X, as in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
    scoring : str, callable or None, default=None
        A single score, as in :class:`~sklearn.model_selection.GridSearchCV`; :mod:`sklearn_hocrf.metrics` contains
        scorers. None means the estimator's ``score`` method, which returns the token accuracy. A string is the name of
        a scikit-learn scorer; for segment F1 and other sequence metrics, pass the scorer itself, such as
        :func:`~sklearn_hocrf.metrics.segment_f1_scorer`.
    patience : int, default=5
        Number of successive iterations without a new highest score after which training stops.

    Attributes
    ----------
    scores_ : list of float
        The scores after each iteration of the last completed fit.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    ``fit`` returns the model of the first iteration with the best score, even if training has ended for another reason.
    ``n_iter_``, ``objective_history_`` and ``optimality_gap_`` are the same as if training had ended at this iteration,
    while ``n_passes_`` counts all passes.

    Early stopping ignores the iterations that train the starting weights. After each of the other iterations,
    predicting the held-out sequences takes additional time.

    Early stopping acts like a penalty [1]_, and takes less time than a search for the best penalty. However, its result
    depends on the solver, whereas the effect of ``sigma_reg``, which
    :class:`~sklearn_hocrf.model_selection.PenaltySearchCV` learns, does not.

    References
    ----------
    .. [1] Prechelt, "Early stopping - but when?", in Neural Networks: Tricks of the Trade, 1998.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import EarlyStopping
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> from sklearn_hocrf.metrics import log_likelihood_scorer
    >>> X, y = make_digit_words(random_state=0)
    >>> X_dev, y_dev = make_digit_words(random_state=1)
    >>> stopping = EarlyStopping(X_dev, y_dev, scoring=log_likelihood_scorer, patience=2)
    >>> crf = HighOrderCRF(sigma_reg=100).set_callbacks(stopping).fit(X, y)
    >>> (
    ...     crf.n_iter_ == len(stopping.scores_) - 2,
    ...     max(stopping.scores_) == log_likelihood_scorer(crf, X_dev, y_dev),
    ... )
    (True, True)
    """

    __module__ = "sklearn_hocrf.training"  # the public module: model files contain this name

    def __init__(
        self,
        X: Sized,
        y: Sized,
        *,
        scoring: str | Callable | None = None,
        patience: int = 5,
    ) -> None:
        is_one = scoring is None or isinstance(scoring, str) or callable(scoring)
        check(is_one, "scoring", "None, a str or a callable", scoring)
        check(is_integer(patience) and patience >= 1, "patience", "an integer >= 1", patience)
        n_x, n_y = (data.shape[0] if hasattr(data, "shape") else len(data) for data in (X, y))
        if n_x != n_y:
            raise ValueError(f"EarlyStopping: X has {n_x} sequences, but y has {n_y}")
        self._runs: dict[Any, _Scores] = {}  # by estimator, during its fit: clones share this object
        self.X, self.y, self.scoring, self.patience = X, y, scoring, patience

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": {}}

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Prepare for the fit of an estimator, or raise an error for its class or for ``scoring``.

        Parameters
        ----------
        estimator : HighOrderCRF or HighOrderSemiCRF
            The estimator that is about to be fitted.
        context : sklearn.callback.CallbackContext
            Not used.

        Raises
        ------
        TypeError
            If the estimator is of another class, such as a pipeline or a search.
        ValueError
            If scikit-learn has no scorer with the name ``scoring``.
        """
        if not isinstance(estimator, BaseSequenceLabeler):
            raise TypeError(
                f"EarlyStopping is for HighOrderCRF and HighOrderSemiCRF, not for {type(estimator).__name__}: "
                "call set_callbacks of the estimator inside it"
            )
        try:
            scorer = check_scoring(estimator, self.scoring)
        except ValueError as error:
            if not isinstance(self.scoring, str):
                raise
            raise ValueError(
                f"scoring={self.scoring!r:.80} of EarlyStopping is not a scorer of scikit-learn; scorers for sequences "
                "are functions of sklearn_hocrf.metrics: segment_f1_scorer, log_likelihood_scorer, or your own"
            ) from error
        self._runs[estimator] = _Scores(scorer, [], [])

    def on_fit_task_begin(self, estimator: BaseEstimator, context: Any, *, X: Any = None) -> None:
        """Before training, check that the held-out data match the training data."""
        if context.task_name == FIT:
            with _about_held_out():
                check_held_out(estimator, X, self.X)

    def on_fit_task_end(self, estimator: BaseEstimator, context: Any, *, fitted_estimator: Any = None) -> bool:
        """Score the model after an iteration, and return whether training stops."""
        if context.task_name != ITERATION or context.parent.task_name == STARTING:
            return False
        run = self._runs[estimator]
        score = self._score(run.scorer, fitted_estimator)
        if not run.scores or score > max(run.scores):
            run.best[:] = [fitted_estimator]
        run.scores.append(score)
        return len(run.scores) - 1 - int(np.argmax(run.scores)) >= self.patience

    def _score(self, scorer: Callable, model: BaseEstimator) -> float:
        with _about_held_out():
            score = scorer(model, self.X, self.y)
        if not is_number(score):
            raise ValueError(f"scoring={self.scoring!r:.80} of EarlyStopping returned {score!r:.80}, not a number")
        return float(score)

    def _best_estimator(self, estimator: BaseEstimator) -> Any:
        """Return the model with the best score, or None. The estimator calls this method at the end of fit."""
        best = self._runs[estimator].best
        return best[0] if best else None

    def teardown(self, estimator: BaseEstimator, context: Any) -> None:
        """Discard the data about an estimator's fit, except the scores."""
        run = self._runs.pop(estimator, None)
        if run is not None:
            self.scores_ = run.scores


@contextmanager
def _about_held_out() -> Iterator[None]:
    """Return a context manager that marks errors as errors in the held-out data."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if error.args and isinstance(error.args[0], str):
            error.args = f"EarlyStopping: {error.args[0]}", *error.args[1:]
        error.add_note("This refers to the held-out X and y of EarlyStopping.")
        raise


class _Scores(NamedTuple):
    """The data that :class:`EarlyStopping` stores during a fit."""

    scorer: Callable
    scores: list[float]
    best: list[Any]  # the model with the best score, if any
