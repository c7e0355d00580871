"""Names of python-crfsuite and sklearn-crfsuite: errors that name the equivalent here.

Constructors, ``set_params``, ``fit`` and attributes raise them; a name in none of the tables fails as in any class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar

__all__ = ["ATTRIBUTES", "NamesElsewhere", "answering"]

_NO_SETTING = "there is no such setting, and none is needed"
PARAMETERS = {
    "algorithm": 'solver="lbfgs" or "sgd"',
    "c1": "l1_reg, the same number",
    "c2": "sigma_reg, which is (2 * c2) ** -0.5",
    "max_iterations": "max_iter",
    **dict.fromkeys(("epsilon", "delta"), "tol, which bounds the distance from the optimum"),
    **dict.fromkeys(("min_freq", "feature.minfreq"), "min_count"),
    **dict.fromkeys(("all_possible_states", "feature.possible_states"), "all_pairs=True"),
    **dict.fromkeys(("all_possible_transitions", "feature.possible_transitions"), 'patterns="all"'),
    "order": "max_order",
    **dict.fromkeys(("model_filename", "keep_tempfiles"), "pickle, skops or tagger.export_tagger"),
    **dict.fromkeys(("num_memories", "linesearch", "max_linesearch", "period", "trainer_cls"), "solver"),
    **dict.fromkeys(
        (f"calibration_{name}" for name in ("eta", "rate", "samples", "candidates", "max_trials")), "solver"
    ),
    **dict.fromkeys(("pa_type", "c", "error_sensitive", "averaging", "variance", "gamma"), _NO_SETTING),
}
FIT_PARAMETERS = {"X_dev": "training.EarlyStopping(X_dev, y_dev)", "y_dev": "training.EarlyStopping(X_dev, y_dev)"}
ATTRIBUTES = {
    "state_features_": "coef_, or inspection.weights_table(crf, order=0, feature=True, top=None)",
    "transition_features_": "pattern_coef_ with patterns_, or inspection.weights_table(crf, order=1, top=None)",
    "info": "coef_ and pattern_coef_, or inspection.weights_table(crf, top=None)",
    "attributes_": "feature_names_in_",
    "num_attributes_": "n_features_in_",
    "size_": "n_parameters_",
    "training_log_": "objective_history_",
    "modelfile": "tagger.export_tagger",
    "tagger_": "tagger.export_tagger, which writes a file for tagger.Tagger",
    **dict.fromkeys(("append", "train"), "fit(X, y)"),
    "open": "tagger.Tagger(path), or HighOrderCRF.from_crfsuite(path)",
    **dict.fromkeys(("predict_single", "tag"), "predict([x])[0]"),
    **dict.fromkeys(
        ("predict_marginals_single", "marginal"), "predict_marginals([x])[0], an array whose columns are classes_"
    ),
    "probability": "log_likelihood([x], [labels]), its logarithm",
}
_Fit = TypeVar("_Fit", bound=Callable)


def _answer(owner: str, names: Iterable[str], table: dict[str, str]) -> str | None:
    """Return the message for the first of some names that is in a table; None if none is."""
    for name in names:
        if name in table:
            return (
                f"{owner} has no {name}, a name of other programs; here: {table[name]} "
                "(docs/guide/migration.md has all names)"
            )
    return None


def answering(fit: _Fit) -> _Fit:
    """Decorate ``fit``: held-out data, which sklearn-crfsuite's takes, raise an error that names the equivalent."""

    @wraps(fit)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        if answer := _answer(f"{type(self).__name__}.fit", ["X_dev"] if len(args) > 3 else options, FIT_PARAMETERS):
            raise TypeError(answer)
        return fit(self, *args, **options)

    return method  # type: ignore[return-value]


class NamesElsewhere:
    """Raise errors for names of sklearn-crfsuite; list this mixin before ``BaseEstimator``."""

    if not TYPE_CHECKING:  # type checkers know the names that exist

        def __new__(cls, *args, **parameters):
            if answer := _answer(cls.__name__, parameters, PARAMETERS):
                raise TypeError(answer)
            return super().__new__(cls)

        def __getattr__(self, name):
            if answer := _answer(type(self).__name__, [name], ATTRIBUTES):
                raise AttributeError(answer)
            return object.__getattribute__(self, name)  # raises the error of the property, or of any object

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator.

        Parameters
        ----------
        **params : dict
            New values by name.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        ValueError
            For a name that is not a parameter.
        """
        if answer := _answer(type(self).__name__, params, PARAMETERS):
            raise ValueError(answer)
        return super().set_params(**params)  # type: ignore[misc]
