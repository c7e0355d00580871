"""Names of python-crfsuite, sklearn-crfsuite, seqeval and hmmlearn: errors that say what each is called here.

Constructors and methods of estimators, attributes of estimators and taggers, and modules raise them; a name in none of
the tables fails as in any class. docs/guide/migration.md and hmmlearn.md have the same names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from opcode import opmap
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from ._data.checks import GUIDE


def _table(text: str) -> dict[str, str]:
    """Return what is after the first colon of each line, by the names before it; deeper lines continue one."""
    lines = [line.partition(": ") for line in text.replace("\n        ", " ").strip().splitlines()]
    return {name: ours for names, _, ours in lines for name in names.split()}


PARAMETERS = _table("""
    algorithm: solver="lbfgs" or "sgd"
    c1: l1_reg, the same number
    c2: sigma_reg, which is (2 * c2) ** -0.5
    max_iterations n_iter: max_iter
    epsilon delta: tol, which bounds the distance from the optimum
    min_freq feature.minfreq: min_count
    all_possible_states feature.possible_states: all_pairs=True
    all_possible_transitions feature.possible_transitions: patterns="all"
    order: max_order
    model_filename keep_tempfiles: pickle, skops or tagger.export_tagger
    num_memories linesearch max_linesearch period trainer_cls calibration_eta calibration_rate calibration_samples
        calibration_candidates calibration_max_trials: solver
    pa_type c error_sensitive averaging variance gamma params init_params implementation n_trials: there is no such
        setting, and none is needed
    class_weight: sample_weight of fit for whole sequences; to find more of a label, predict_segments(X,
        threshold=0.2)
    n_components n_mix: as many as y has distinct labels: training needs y
    startprob_prior transmat_prior emissionprob_prior: sigma_reg, the prior of all weights
    covariance_type min_covar means_prior means_weight covars_prior covars_weight weights_prior: nothing: weights of
        features stand in place of densities and transition matrices
""")
METHOD_PARAMETERS = {"class_weight": PARAMETERS["class_weight"]} | _table("""
    X_dev y_dev: training.EarlyStopping(X_dev, y_dev)
    lengths: X as a list of sequences: np.split(X, np.cumsum(lengths)[:-1])
""")
ATTRIBUTES = _table("""
    state_features_: coef_, or inspection.weights_table(crf, order=0, feature=True, top=None)
    transition_features_: pattern_coef_ with patterns_, or inspection.weights_table(crf, order=1, top=None)
    info dump: coef_ and pattern_coef_, or inspection.weights_table(crf, top=None)
    attributes_: feature_names_in_
    num_attributes_: n_features_in_
    size_: n_parameters_
    training_log_ monitor_: objective_history_
    modelfile: tagger.export_tagger
    tagger_: tagger.export_tagger, which writes a file for tagger.Tagger
    append train clear: fit(X, y), which begins anew
    set select: set_params, whose solver is the algorithm; X and y are those of each call
    get help: get_params
    open open_inmemory: tagger.Tagger(path), or HighOrderCRF.from_crfsuite(path)
    close: nothing to close
    labels: classes_
    predict_single tag: predict([x])[0]
    predict_marginals_single marginal: predict_marginals([x])[0], an array whose columns are classes_
    probability: log_likelihood([x], [labels]), its logarithm
    logparser message: verbose=1, or set_callbacks
    on_start on_end on_iteration on_prepared on_prepare_error on_featgen_progress on_featgen_end
        on_optimization_start on_optimization_end: set_callbacks
    startprob_ transmat_: pattern_coef_ with patterns_, which are weights
    means_ covars_ emissionprob_ weights_: coef_, the weights of features
    decode: predict([x])[0], and predict_nbest([x], 1) with its score
    score_samples: predict_marginals(X), an array for each sequence
    get_stationary_distribution: sample and predict_marginals: a CRF models labels given X
    aic bic: log_likelihood(X, y) on data left out of training
""")
TAGGER = _table("""
    set: nothing to set: predict_marginals(x) and log_likelihood(x, labels) take the tokens
    marginal: predict_marginals(x)[t, labels.index(label)]
    probability: exp(log_likelihood(x, labels))
    info dump: inspection.weights_table(crf, top=None) of the model that was exported
    open open_inmemory: Tagger(path), or Tagger(content) of bytes
    close: nothing to close
    predict_single: predict(x)
    predict_marginals_single: predict_marginals(x)
    classes_: labels
""")
MODULES = _table("""
    CRF BaseTrainer: HighOrderCRF
    Trainer: HighOrderCRF, its fit(X, y)
    Tagger: tagger.Tagger
    ItemSequence: a list of feature dicts or of lists of names, such as its items()
    CRFSuiteError: ValueError and TypeError
    scorers flat_accuracy sequence_accuracy: metrics.token_accuracy_scorer, or sequence_accuracy_scorer
    utils flatten: itertools.chain.from_iterable
    flat_accuracy_score accuracy_score: metrics.token_accuracy_score
    flat_f1_score: sklearn.metrics.f1_score of flattened lists, or metrics.segment_f1_score
    flat_fbeta_score: sklearn.metrics.fbeta_score of flattened lists, or metrics.segment_f1_score
    flat_precision_score: sklearn.metrics.precision_score of flattened lists, or metrics.segment_f1_score
    flat_recall_score: sklearn.metrics.recall_score of flattened lists, or metrics.segment_f1_score
    flat_classification_report: sklearn.metrics.classification_report of flattened lists, or
        metrics.segment_classification_report
    f1_score: metrics.segment_f1_score
    precision_score recall_score precision_recall_fscore_support: metrics.segment_precision_recall_fscore_support
    classification_report: metrics.segment_classification_report
    performance_measure: sklearn.metrics.confusion_matrix of flattened lists, or metrics.segment_confusion_matrix
    get_entities extract_segments: text.extract_segments
    IOB1: scheme="iob1"
    IOB2: scheme="bio"
    IOBES: scheme="bioes"
    BILOU: scheme="bilou"
    IOE1 IOE2: scheme="iob1" or "bio": tags whose ends are marked must be converted
    hmm GaussianHMM GMMHMM CategoricalHMM MultinomialHMM PoissonHMM: HighOrderCRF, which learns from labels y; there
        is no model for X alone
""")
_Method = TypeVar("_Method", bound=Callable)


def _answer(owner: str, names: Iterable[str], table: dict[str, str]) -> str | None:
    """Return the message for the first of some names that is in a table; None if none is."""
    for name in names:
        if name in table:
            return (
                f"{owner} has no {name}, a name of other programs; here: {table[name]} "
                f"(all names: {GUIDE}/migration.html, hmmlearn.html)"
            )
    return None


def refuse(module: str, name: str) -> NoReturn:
    """Raise the error for a name that a module lacks; its ``__getattr__`` calls this.

    It is an AttributeError, as for ``hasattr``, except in ``from module import name``, where Python puts an ImportError
    of its own in place of any AttributeError.
    """
    answer, caller = _answer(f"module {module!r}", [name], MODULES), sys._getframe(2)
    if answer and caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]:
        raise ImportError(answer, name=module)
    raise AttributeError(answer or f"module {module!r} has no attribute {name!r}")


def answering(most: int, extra: str) -> Callable[[_Method], _Method]:
    """Return a decorator of methods; ``extra`` is what others take as one argument more than ``most`` by position."""

    def decorate(method):
        @wraps(method)
        def asked(self, *args, **options):
            if len(args) > most or not METHOD_PARAMETERS.keys().isdisjoint(options):
                names = [extra] if len(args) > most else options
                raise TypeError(_answer(f"{type(self).__name__}.{method.__name__}", names, METHOD_PARAMETERS))
            return method(self, *args, **options)

        return asked

    return decorate


def answer_as_tagger(tagger: Any) -> None:
    """Let the class of taggers answer to names of python-crfsuite; its file, which may be copied, has none of them."""
    make = tagger.__init__

    @wraps(make)
    def __init__(self, *args, **options):
        if not args and "path" not in options:
            raise TypeError("Tagger() without a path is python-crfsuite's; here: Tagger(path), which opens the file")
        make(self, *args, **options)

    def __getattr__(self, name):
        if answer := _answer("Tagger", [name], TAGGER):
            raise AttributeError(answer)
        return object.__getattribute__(self, name)  # raises the error of any object

    tagger.__init__, tagger.__getattr__ = __init__, __getattr__


def _foreign(cls: Any, names: Iterable[str]) -> list[str]:
    """Return the names of other libraries; a subclass may have a parameter of the same name."""
    return [name for name in names if name in PARAMETERS and name not in cls._get_param_names()]


class NamesElsewhere:
    """Raise errors for names of other libraries; list this mixin before ``BaseEstimator``."""

    if not TYPE_CHECKING:  # type checkers know the names that exist

        def __new__(cls, *args, **parameters):
            if answer := _answer(cls.__name__, _foreign(cls, parameters), PARAMETERS):
                raise TypeError(answer)
            return super().__new__(cls)

        def __getattr__(self, name):
            if answer := _answer(type(self).__name__, [name], PARAMETERS | ATTRIBUTES):
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
        if answer := _answer(type(self).__name__, _foreign(type(self), params), PARAMETERS):
            raise ValueError(answer)
        return super().set_params(**params)  # type: ignore[misc]
