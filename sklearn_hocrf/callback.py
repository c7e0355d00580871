"""Progress, early stopping and checkpoints: scikit-learn callbacks for long fits.

``set_callbacks`` of the estimators registers callbacks that are called after each iteration of ``fit``, for any solver.
It requires scikit-learn 1.9 or later.

========================================  ==============================================================================
:class:`EarlyStopping`                    stops when predictions of held-out data no longer improve, and keeps the best
                                          model
:class:`Checkpoint`                       writes the model to a file every few iterations, from which a fit can be
                                          resumed
:class:`sklearn.callback.ProgressBar`     needs rich: ``pip install 'sklearn_hocrf[progress]'``
:class:`sklearn.callback.ScoringMonitor`  scores the training data, by plain functions: ``scoring={"nats":
                                          log_likelihood_scorer}``
========================================  ==============================================================================

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.callback import EarlyStopping
>>> from sklearn_hocrf.datasets import make_digit_words
>>> X, X_dev, y, y_dev = make_digit_words(120, random_state=0)
>>> weak = HighOrderCRF(sigma_reg=1000).fit(X, y)
>>> stopped = (
...     HighOrderCRF(sigma_reg=1000)
...     .set_callbacks(EarlyStopping(X_dev, y_dev, patience=3))
...     .fit(X, y)
... )
>>> stopped.n_iter_ < weak.n_iter_
True

User guide: docs/guide/training.md, also for custom callbacks.
"""

from __future__ import annotations

import copy
import os
import pickle
import shutil
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import check_scoring

from ._estimator.base import BaseSequenceLabeler
from ._estimator.callbacks import FIT, ITERATION, STARTING, check_held_out
from ._files import claimed, output_file, replace, unclaimed
from ._settings import check, is_integer, is_number

__all__ = ["Checkpoint", "EarlyStopping"]


class _ModelCallback(metaclass=ABCMeta):
    """Base class of callbacks that store data for each running fit.

    One object is shared by all clones of an estimator, which may be fitted at the same time.
    """

    def __init__(self) -> None:
        self._runs: dict[Any, Any] = {}  # by estimator, during its fit

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": {}}

    def setup(self, estimator: Any, context: Any) -> None:
        """Prepare for a fit of an estimator."""
        if not isinstance(estimator, BaseSequenceLabeler):
            raise TypeError(
                f"{type(self).__name__} is for HighOrderCRF and HighOrderSemiCRF, not for {type(estimator).__name__}: "
                "call set_callbacks of the estimator inside it"
            )
        self._runs[estimator] = self._new_run(estimator)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Discard the data of the fit of an estimator."""
        self._runs.pop(estimator, None)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:  # noqa: B027
        """Do nothing."""

    @abstractmethod
    def _new_run(self, estimator) -> Any:
        """Return the data to store for a fit."""


class EarlyStopping(_ModelCallback):
    """Stop training when predictions of held-out sequences no longer improve.

    After each iteration the current model predicts held-out sequences. Training stops after ``patience`` successive
    iterations without a better score.

    Parameters
    ----------
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
    y : list of label sequences, or array-like
        As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
        The held-out sequences. X has the form in which the estimator receives it: in a pipeline, it is transformed by
        the preceding steps.
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`, for one score; :mod:`sklearn_hocrf.metrics` has scorers.
        None means ``score`` of the estimator, the token accuracy. Names are those of scikit-learn; scorers for segment
        F1 and other sequence metrics are objects: :data:`~sklearn_hocrf.metrics.segment_f1_scorer`, not "segment_f1".
    patience : int, default=5
        Number of iterations without progress after which training stops.
    min_delta : float, default=0.0
        A score counts as progress if it exceeds the last score that did by more than this.
    restore_best : bool, default=True
        Whether to return the model of the first iteration with the best score rather than of the last iteration, even
        if training has ended for another reason. ``n_iter_``, ``objective_history_`` and ``optimality_gap_`` are then
        the same as if training had ended there, while ``n_passes_`` counts all passes.

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
    Only iterations that train the weights of the final model count, not those of training the
    initial weights. Each iteration costs a prediction of the held-out sequences.

    Early stopping acts like a penalty, and costs less than a search for one. However, its result depends on the solver,
    while the effect of ``sigma_reg`` does not (:class:`~sklearn_hocrf.model_selection.PenaltySearchCV` learns it).

    References
    ----------
    .. [1] Prechelt, "Early stopping - but when?", in Neural Networks: Tricks of the Trade, 1998.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.callback import EarlyStopping
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> from sklearn_hocrf.metrics import log_likelihood_scorer
    >>> X, X_dev, y, y_dev = make_digit_words(random_state=0)
    >>> stopping = EarlyStopping(X_dev, y_dev, scoring=log_likelihood_scorer, patience=2)
    >>> crf = HighOrderCRF(sigma_reg=100).set_callbacks(stopping).fit(X, y)
    >>> (
    ...     crf.n_iter_ == len(stopping.scores_) - 2,
    ...     max(stopping.scores_) == log_likelihood_scorer(crf, X_dev, y_dev),
    ... )
    (True, True)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        scoring: str | Callable | None = None,
        patience: int = 5,
        min_delta: float = 0.0,
        restore_best: bool = True,
    ) -> None:
        is_one = scoring is None or isinstance(scoring, str) or callable(scoring)
        check(is_one, "scoring", "None, a str or a callable", scoring)
        check(is_integer(patience) and patience >= 1, "patience", "an integer >= 1", patience)
        check(is_number(min_delta) and 0 <= min_delta < np.inf, "min_delta", "a finite number >= 0", min_delta)
        check(isinstance(restore_best, (bool, np.bool_)), "restore_best", "True or False", restore_best)
        super().__init__()
        self.X, self.y, self.scoring = X, y, scoring
        self.patience, self.min_delta, self.restore_best = patience, min_delta, restore_best

    def _new_run(self, estimator) -> _Scores:
        try:
            scorer = check_scoring(estimator, self.scoring)
        except ValueError as error:
            if not isinstance(self.scoring, str):
                raise
            raise ValueError(
                f"scoring={self.scoring!r:.80} of EarlyStopping is not a scorer of scikit-learn; scorers for sequences "
                "are objects of sklearn_hocrf.metrics: segment_f1_scorer, log_likelihood_scorer, or your own"
            ) from error
        return _Scores(scorer, [], [])

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any = None) -> None:
        """Check that the held-out data match the training data, before training."""
        if context.task_name == FIT:
            try:
                check_held_out(estimator, X, self.X, self.y)
            except (ValueError, TypeError) as error:
                _say_held_out(error)
                raise

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        """Score the model after an iteration, and return whether training stops."""
        if context.task_name != ITERATION or context.parent.task_name == STARTING:
            return False
        if fitted_estimator is None:
            raise TypeError(
                f"{type(self).__name__} needs the weights after each iteration, which solver={estimator.solver!r:.80} "
                "does not provide: give its Progress a report"
            )
        run = self._runs[estimator]
        score = self._score(run.scorer, fitted_estimator)
        if self.restore_best and (not run.scores or score > max(run.scores)):
            run.best[:] = [fitted_estimator]
        run.scores.append(score)
        return self._n_in_vain(run.scores) >= self.patience

    def _score(self, scorer, model) -> float:
        try:
            score = scorer(model, self.X, self.y)
        except (ValueError, TypeError) as error:
            _say_held_out(error)
            raise
        if not is_number(score):
            raise ValueError(
                f"scoring={self.scoring!r:.80} of {type(self).__name__} returned {score!r:.80}, not a number"
            )
        return float(score)

    def _n_in_vain(self, scores) -> int:
        """Return the number of scores since the last progress."""
        last = 0
        for i, score in enumerate(scores):
            if score > scores[last] + self.min_delta:
                last = i
        return len(scores) - 1 - last

    def _best_estimator(self, estimator) -> Any:
        """Return the model that replaces the last one, or None; the estimator calls this at the end of fit."""
        best = self._runs[estimator].best
        return best[0] if best else None

    def teardown(self, estimator: Any, context: Any) -> None:
        """Discard the data of the fit of an estimator, except its scores."""
        run = self._runs.pop(estimator, None)
        if run is not None:
            self.scores_ = run.scores


def _say_held_out(error: Exception) -> None:
    """Add to the message of an error that it refers to the held-out data."""
    if error.args and isinstance(error.args[0], str):
        error.args = f"EarlyStopping: {error.args[0]}", *error.args[1:]
    error.add_note("This refers to the held-out X and y of EarlyStopping.")


class _Scores(NamedTuple):
    """The data that :class:`EarlyStopping` stores for a fit."""

    scorer: Callable
    scores: list[float]
    best: list[Any]  # the model with the best score, if any


class Checkpoint(_ModelCallback):
    """Write the model to a file every few iterations, and at the end.

    The file contains the whole fitted estimator, as if training had stopped there, without its callbacks. It is
    replaced as a whole, and keeps its mode: a killed process always leaves the last complete file, which is at most
    ``every`` iterations old. The next fit removes any partial file.

    Parameters
    ----------
    path : str or path-like
        The file, in an existing folder. A file with the suffix ".skops" is written by skops (installed by the extra
        ``sklearn_hocrf[skops]``) and read by ``skops.io.load(path, trusted=sklearn_hocrf.TRUSTED_TYPES)``. Any other
        file is a pickle, for ``pickle.load`` or ``joblib.load``.
    every : int, default=10
        Number of iterations between files.

    Raises
    ------
    ValueError
        If ``every`` is out of range.
    TypeError
        If ``path`` is neither a str nor path-like.
    OSError
        In fit, before training: if the file cannot be written, because the folder does not exist, the path is itself a
        folder, or for any other reason.
    ImportError
        In fit, before training: if skops is needed but not installed.

    Notes
    -----
    To resume a fit, load the file and fit with ``warm_start=True``: training continues from its weights, and reaches
    the same optimum as without interruption. The file does not contain the state of the solver, such as the curvature
    information of L-BFGS, so the iterations differ. ``solver="bcfw"`` starts from 0 again; non-convex criteria may end
    in a different optimum.

    Clones that a search fits write the same file, and the last one wins.

    Examples
    --------
    >>> import pickle, tempfile
    >>> from pathlib import Path
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.callback import Checkpoint
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> path = Path(tempfile.mkdtemp()) / "run.pickle"
    >>> crf = (
    ...     HighOrderCRF(max_iter=2, tol=1)
    ...     .set_callbacks(Checkpoint(path, every=1))
    ...     .fit(X, y)
    ... )

    Some other day:

    >>> crf = pickle.loads(path.read_bytes())
    >>> crf.set_params(warm_start=True, max_iter=500, tol=1e-8).fit(
    ...     X, y
    ... ).optimality_gap_ < 1e-8
    True
    """

    def __init__(self, path: str | os.PathLike, *, every: int = 10) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path must be a str or path-like, got {path!r:.80}")
        check(is_integer(every) and every >= 1, "every", "an integer >= 1", every)
        super().__init__()
        self.path, self.every = path, every

    def _new_run(self, estimator) -> list[int]:
        path = output_file(self.path)
        _writer(path)
        for left in unclaimed(_stem(path)):
            with suppress(OSError):
                left.unlink()
        return [0]  # iterations so far

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        """Write the file if it is due."""
        is_due = context.task_name == FIT
        if context.task_name == ITERATION:
            self._runs[estimator][0] += 1
            is_due = self._runs[estimator][0] % self.every == 0
        if is_due and fitted_estimator is not None:
            self._write(copy.copy(fitted_estimator).set_callbacks())
        return False

    def _write(self, model) -> None:
        path = Path(os.path.realpath(self.path))  # of what links lead to
        with claimed(_stem(path)) as new:
            try:
                with open(new, "wb") as file:
                    _writer(path)(model, file)
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(FileNotFoundError):  # the first file
                    shutil.copymode(path, new)
                replace(new, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(new)
                raise


def _stem(path: Path) -> Path:
    """Return the beginning of the names of the temporary files for a path."""
    return path.with_name(f".{path.name}")


def _writer(path: Path) -> Callable:
    """Return a function that writes a model to an open file."""
    if path.suffix != ".skops":
        return pickle.dump
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"{path.name} requires skops: pip install 'sklearn_hocrf[skops]', or use a .pickle file"
        ) from error
    return skops.io.dump
