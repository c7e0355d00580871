"""A token classifier, and a sequence model whose features are the scores of this classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.extmath import softmax
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import joined_ranges
from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.messages import unwarned, warn_user
from .._engine.training.solvers import ROUNDING, zero_of_slope
from .._estimator.token_labeler import HighOrderCRF
from .._reading.attributes import looks_like_rows
from .._reading.inputs import check_sequence_weight, refuse_no_tokens, refuse_other_names, used_sequences
from .._reading.rows import (
    TOKEN_FEATURES_FIRST,
    Places,
    check_table,
    indexable_sequences,
    n_tokens,
    refuse_infinite_values,
)
from .._reading.targets import read_token_targets
from .._reading.token_rows import TokenRows
from .._reading.values import without_columns
from .._sklearn.layers import (
    MethodsOfModel,
    check_fit,
    each_fold,
    fit_part,
    model_inside,
    name_of_weight,
    splits_of,
)
from .._sklearn.names import N_JOBS, HasMethods, StrOptions, check_declared, fit_context, safe_indexing
from .._sklearn.versions import VersionMixin

FOR_MODEL = (
    "passthrough gives features to the sequence model, which needs finite numbers: list the finite ones, such as "
    "passthrough=[0], or encode texts and fill missing values before"
)
METHODS = ("predict_proba", "decision_function")  # of classifiers, in the order in which "auto" tries them
BOUNDS = 0.01, 1e4  # of temperatures
LEAST = 1e-3  # lower bound on the probability of a class
AXES = 1, 2  # dimensions of a sequence that is an array: of tokens, such as strings, or of their features


class StackedSequenceLabeler(VersionMixin, MethodsOfModel, MetaEstimatorMixin, BaseEstimator):
    """Stack a sequence model on the scores of a token classifier.

    The classifier labels one token at a time. Its class scores are the features of the sequence model, which also uses
    constraints and label patterns of any order. ``fit`` trains one classifier for each fold of whole sequences, and
    trains the sequence model on the scores of held-out sequences, so that the model learns how reliable the scores are
    on new sequences [1]_. Afterwards, ``fit`` trains the classifier on all data.

    ``fit`` centres the scores of each token and divides them by one temperature. It chooses the temperature at which
    the scores predict the labels of held-out sequences best [2]_, because most classifiers are overconfident about new
    sequences, and some are underconfident.

    Stacking helps if there are many features and few examples, as in text, or if a classifier of another kind (boosted
    trees, a neural network) fits the data better than a linear model. By cross-validation, compare the stacked model
    with the sequence model on the features themselves, which is often at least as accurate.

    Parameters
    ----------
    estimator : classifier or Pipeline
        The token classifier. It receives the tokens of all sequences as the rows of a table, or as a list, and must
        have ``predict_proba`` or ``decision_function`` once it is fitted. The rows must already contain the features of
        neighbouring tokens. Instead of labels, the classifier receives codes: 0, 1, ... for the sorted labels of its
        training data. The keys of its `class_weight` are the labels themselves.
    final_estimator : HighOrderCRF, HighOrderSemiCRF, Pipeline, search or None, default=None
        The sequence model. None means ``HighOrderCRF()``, whose parameters a search cannot set; to search over
        ``final_estimator__max_order``, pass ``final_estimator=HighOrderCRF()``. The name of the feature that contains
        the scores of a class is "score=" followed by the class.
    cv : int, cross-validation generator or iterable, default=5
        The folds, which consist of whole sequences; :meth:`fit` accepts ``groups`` of sequences. An int k means
        ``KFold(k)``, or, for a plain table of tokens, ``StratifiedKFold(k)``. A classifier inside a
        :class:`~sklearn.frozen.FrozenEstimator` is already fitted: it is used without change, with its own classes.
        Then pass :meth:`fit` sequences other than those on which the classifier was trained, because the classifier is
        overconfident about its training data.
    stack_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        The method that computes the scores; "auto" means the first of the two that the classifier has. A probability p
        becomes ``log(max(p, 0.001))``; the decision function of two classes is one column.
    passthrough : bool or array-like of str or int, default=False
        Whether the sequence model also receives the features of the tokens, after the scores. True passes all features;
        an array passes those with these names or indices. In a ``sigma_reg`` by group, the key of the scores is
        "score=".
    n_jobs : int or None, default=None
        Number of splits processed in parallel, each in a thread. Results do not depend on it.

    Attributes
    ----------
    estimator_ : classifier or Pipeline
        The classifier, fitted to all tokens with known labels. Unless you passed a fitted classifier, its classes are
        0, 1, ..., the codes of the sorted labels of these tokens.
    final_estimator_ : estimator
        The fitted sequence model.
    stack_method_ : str
        The method of the classifier that computes the scores.
    temperature_ : float
        The temperature T, from 0.01 to 10,000. In both `fit` and prediction, the sequence model receives
        ``(score - mean) / T``, where ``mean`` is the mean of the token's scores, or 0 if there is one column. T
        maximises the likelihood of the known labels under the softmax of ``score / T``, with sequences weighted by
        ``sample_weight``. T > 1 if the classifier is overconfident. The labels are smoothed, with a total weight of one
        token, so that T stays above 0 even if the classifier predicts all of them correctly. Labels that a prefitted
        classifier lacks do not affect T. If the scores are no better than chance, T is 1.
    classes_ : ndarray of shape (n_classes,)
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
    n_features_in_ : int
        Number of features of the classifier, if it has this attribute.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of these features, if the classifier was fitted to a data frame.

    Raises
    ------
    TypeError
        By ``fit``: if the classifier of the first fold has no method that computes scores, or no ``classes_``.
    ValueError
        By ``fit``: before any classifier is fitted, if parameters or data are invalid, including those of the sequence
        model, or if a sequence is not in exactly one test part of `cv`; afterwards, if only some of the classifiers
        have ``predict_proba``.

    Warns
    -----
    UserWarning
        By ``fit``: if the training part of a fold lacks a label, which then gets the lowest score; or if you pass
        ``sample_weight``, but the classifier does not accept it.

    See Also
    --------
    sklearn.ensemble.StackingClassifier : Stacking for tables, with several classifiers.
    sklearn_hocrf.scores.posterior : All results for given scores, with weights of label patterns that you choose.

    Notes
    -----
    All methods of the fitted sequence model that take X are available, and accept the X of this estimator:
    ``predict_marginals``, ``predict_nbest``, ``log_likelihood``, ``predict_segments`` and so on.

    Labels in ``y`` may be missing: the classifier is not fitted to tokens without a label, but computes their scores.

    Without centring, the logarithms of probabilities would be far from 0 for most classes, and training would need up
    to five times as many iterations.

    References
    ----------
    .. [1] Wolpert, "Stacked generalization", Neural Networks 5, 1992, 241-259.
    .. [2] Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn_hocrf import StackedSequenceLabeler
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> X, y = make_digit_words(60, random_state=0)
    >>> X_test, _ = make_digit_words(1, random_state=1)
    >>> forest = RandomForestClassifier(20, random_state=0)
    >>> stacked = StackedSequenceLabeler(forest).fit(X, y)
    >>> stacked.predict(X_test), stacked.predict_marginals(X_test)[0].shape
    ([array([2, 7, 8, 9, 8, 4, 4, 2, 9, 2])], (10, 10))
    """

    __module__ = "sklearn_hocrf"  # the public module: model files contain this name
    _answering, _reading = "final_estimator_", "estimator_"
    _parameter_constraints: dict = {
        "estimator": [HasMethods("fit")],
        "final_estimator": [None, HasMethods("fit")],
        "cv": ["cv_object"],
        "stack_method": [StrOptions({"auto", *METHODS})],
        "passthrough": ["boolean", "array-like"],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        final_estimator: BaseEstimator | None = None,
        *,
        cv: Any = 5,
        stack_method: str = "auto",
        passthrough: Any = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.final_estimator = final_estimator
        self.cv = cv
        self.stack_method = stack_method
        self.passthrough = passthrough
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=False)  # the inner estimators are not validated yet
    def fit(self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the classifier in each fold, the sequence model to the held-out scores, and the classifier to all data.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            The sequences: arrays, sparse matrices or data frames with one row per token or, if the classifier is a
            pipeline that begins with a vectoriser, lists of strings or dicts. Each row of a plain 2-D X is a sequence
            of one token.
        y : list of label sequences, or array-like
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence. Sequences of weight 0 are left out.
        **params : dict
            ``groups`` for the splitter.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        training, splits, scoring, of_final = self._prepared(X, y, sample_weight, params)
        tokens = training.tokens
        if splits is None:
            classifier, scores = self.estimator, scoring.scores(self.estimator, tokens.rows)
        else:
            scoring, scores = self._out_of_fold(training, scoring, splits)
            fitted = fit_part(*training.of_fit(), training.params, np.flatnonzero(training.codes >= 0))
            classifier, scoring = fitted.estimator_, scoring.with_classifier(fitted.estimator_, fitted.codes_)
        final = clone(self._unfitted_final())
        scoring = scoring.scaled_on(scores, training)
        final.fit(scoring.columns(tokens, scores), without_columns(y), **of_final)
        made = {"estimator_": classifier, "final_estimator_": final, "stack_method_": scoring.method}
        names = X.feature_names if isinstance(X, SequenceBatch) else None
        self.__dict__.update(made, temperature_=scoring.temperature, _scored_by=scoring._asdict(), _names=names)
        return self

    def __check_fit__(self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None, **params: Any) -> None:
        check_declared(self)
        with unwarned():
            if X is None:
                check_fit(self._unfitted_final(), None, y, **self._routed(sample_weight, params, 1)[2])
            else:
                self._prepared(X, y, sample_weight, params)

    def _prepared(self, X, y, sample_weight, params) -> tuple[_Training, list | None, _Scoring, dict]:
        """Return the training data and, unless the classifier is fitted, the splits.

        Raise errors before any estimator is fitted.
        """
        X, y = indexable_sequences(X, y)
        tokens = _Tokens.from_sequences(X, type(self).__name__, axes=AXES)
        form, lengths = tokens.form, np.diff(tokens.offsets)
        weight = check_sequence_weight(sample_weight, len(lengths))
        used = used_sequences(lengths, weight)
        refuse_no_tokens(used)
        of_splitter, of_classifier, of_final = self._routed(sample_weight, params, lengths)
        targets = read_token_targets(y, lengths, form, type(self).__name__, used, takes_missing_labels=True)
        codes = np.full(tokens.offsets[-1], -1)
        codes[slice(None) if used is None else np.repeat(used, lengths)] = targets.codes
        weight = np.repeat(np.ones(len(lengths)) if weight is None else weight, lengths)
        training, splits = _Training(self.estimator, tokens, codes, targets.labels, weight, of_classifier), None
        scoring = _Scoring(self.stack_method, targets.labels, self.passthrough)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator.estimator)
            scoring = scoring.with_classifier(self.estimator)._replace(labels=self.estimator.classes_)
        else:
            cv = check_cv(self.cv, y, classifier=form == "table" and targets.known is None)
            splits = splits_of(cv, X, y, **of_splitter)
            training.check(splits)
        like_scores = np.ones((tokens.offsets[-1], len(scoring.labels)))  # no check depends on their values
        columns = scoring._replace(n_columns=len(scoring.labels)).columns(tokens, like_scores)
        check_fit(self._unfitted_final(), columns, y, **of_final)
        return training, splits, scoring, of_final

    def _out_of_fold(self, training: _Training, scoring: _Scoring, splits: list) -> tuple[_Scoring, np.ndarray]:
        """Return the scoring with its method, and each token's scores from a classifier not trained on its sequence."""

        def score(fitted, rows, _):
            fold_scoring = scoring.with_classifier(fitted.estimator_, fitted.codes_)
            return fold_scoring.method, fold_scoring.scores(fitted.estimator_, rows)

        splits = [(training.labelled(train), training.tokens.positions(test)) for train, test in splits]
        threads: dict[str, Any] = {"n_jobs": self.n_jobs, "require": "sharedmem"}
        folds = each_fold(score, *training.of_fit(), splits, training.params, **threads)
        methods, of_folds = zip(*folds, strict=True)
        if len(set(methods)) > 1:
            raise ValueError(f"some classifiers of the splits have {METHODS[0]}, others have not: set stack_method")
        scores = np.concatenate([part for part in of_folds if len(part)])
        scores[np.concatenate([test for _, test in splits])] = scores.copy()
        return scoring._replace(method=methods[0]), scores

    def _routed(self, sample_weight, params, lengths) -> tuple[dict, dict, dict]:
        """Return the options of ``split``, of the classifier's ``fit`` (by token) and of the final ``fit``."""
        of_classifier, of_final = {}, {}
        if sample_weight is not None:
            of_final[name_of_weight(self._unfitted_final()) or "sample_weight"] = sample_weight
            if name := name_of_weight(self.estimator):
                of_classifier[name] = np.repeat(np.asarray(sample_weight), lengths)
            else:
                warn_user(f"{short(self.estimator)} takes no sample_weight: only the final estimator is weighted")
        return params, of_classifier, of_final

    # --- the methods of the final estimator ---------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            Parameters by name; those of the inner estimators begin with ``estimator__`` or ``final_estimator__``.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter does not exist, or belongs to a ``final_estimator`` that is None.
        """
        nested = next((name for name in params if name.startswith("final_estimator__")), None)
        if nested and params.get("final_estimator", self.final_estimator) is None:
            raise ValueError(f"{nested}: final_estimator is None; set it first, as in final_estimator=HighOrderCRF()")
        return super().set_params(**params)

    def _unfitted_final(self) -> Any:
        final = HighOrderCRF() if self.final_estimator is None else self.final_estimator
        if is_classifier(model_inside(final)):
            raise TypeError(f"final_estimator must be a model of sequences, such as HighOrderCRF(), got {short(final)}")
        return final

    def _whole(self) -> Any:
        return self.__dict__.get(self._answering, self._unfitted_final())

    def _given(self, X: Sized) -> Any:
        if isinstance(X, SequenceBatch):
            refuse_other_names(X.feature_names, self._names, type(self).__name__)
        tokens = _Tokens.from_sequences(X, type(self).__name__, axes=AXES)
        scoring = _Scoring(**self._scored_by)
        return scoring.columns(tokens, scoring.scores(self.estimator_, tokens.rows))

    def _passed_on(self, method: Callable) -> Callable:
        if "X" not in signature(method).parameters:
            return method
        return wraps(method)(lambda X, *args, **options: method(self._given(X), *args, **options))

    def __sklearn_tags__(self) -> Any:
        tags, inner = get_tags(self._unfitted_final()), get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.input_tags.three_d_array = True
        return tags


class _Tokens(TokenRows):
    """The tokens of all sequences, one after another, as the input of a classifier. N tokens, n sequences."""

    @property
    def names(self) -> Any:
        """The column names of a batch or of data frames; None for other data."""
        of_batch = super().names
        return getattr(self.rows, "columns", None) if of_batch is None else of_batch

    def numbers(self, rows: Any, names: Any) -> Any:
        """Return columns of the tokens as an array or a sparse matrix; raise an error if a number is not finite."""
        places = Places(self.offsets, names)
        if not looks_like_rows([rows], default=True):
            what = f"{places.row(0)} of X is {short(rows[0])}, not a row of numbers"
            raise TypeError(f"{what}, which this estimator requires: {TOKEN_FEATURES_FIRST}")
        table = check_table(rows, places=places)
        refuse_infinite_values(SequenceBatch.from_table(table, self.offsets), places)
        return table

    def positions(self, sequences: np.ndarray) -> np.ndarray:
        """Return the indices of the tokens of the given sequences."""
        return joined_ranges(self.offsets[sequences], self.offsets[sequences + 1])


class _OfCodes(BaseEstimator):
    """A classifier that receives labels as codes 0 to n - 1 in each part of the data, because some accept no others."""

    def __init__(self, estimator: BaseEstimator, labels: np.ndarray):
        self.estimator, self.labels = estimator, labels

    def fit(self, X: Sized, y: np.ndarray, **params: Any) -> Self:
        """Fit a clone to codes 0, 1, ... of the labels in y; ``codes_`` contains the index of each in ``labels``."""
        self.codes_, codes = np.unique(y, return_inverse=True)
        self.estimator_ = clone(self.estimator).set_params(**self._weights()).fit(X, codes, **params)
        return self

    def _weights(self) -> dict:
        """Return the class weights of the parameters, with codes in place of labels."""
        code_of = {label: code for code, label in enumerate(self.labels[self.codes_].tolist())}
        absent = set(self.labels.tolist()) - set(code_of)
        class_weights = {
            name: value
            for name, value in self.estimator.get_params().items()
            if name.rpartition("__")[2] == "class_weight" and isinstance(value, Mapping)
        }
        return {  # labels that y lacks get further codes, which scikit-learn rejects
            name: {code_of.setdefault(label, len(code_of)): value[label] for label in value if label not in absent}
            for name, value in class_weights.items()
        }


class _Training(NamedTuple):
    """The training data of the classifiers.   N tokens."""

    estimator: Any
    tokens: _Tokens
    codes: np.ndarray  # (N,)   indices of labels; -1 if a token has no known label, or no weight
    labels: np.ndarray  # (L,)
    weight: np.ndarray  # (N,)
    params: dict  # options of ``fit``, by token

    def of_fit(self) -> tuple[Any, Any, np.ndarray]:
        """Return the estimator to fit, and the X and y of all tokens."""
        return _OfCodes(self.estimator, self.labels), self.tokens.rows, self.codes

    def check(self, splits: list) -> None:
        """Raise an error if the classifier or the splits cannot be used; warn of training parts that lack a label."""
        tested = np.concatenate([test for _, test in splits])
        if not np.array_equal(np.sort(tested), np.arange(len(self.tokens.offsets) - 1)):
            raise ValueError("each sequence must be in the test part of exactly one split of cv")
        check_fit(self.estimator, None, self.codes[self.codes >= 0])
        for index, (train, _) in enumerate(splits):
            codes = self.codes[self.labelled(train)]
            if not len(codes):
                raise ValueError(f"the training part of split {index} has no token with a label: choose another cv")
            for label in np.delete(self.labels, codes)[:1]:
                warn_user(f"the training part of split {index} lacks {short(label)}, which gets the lowest score there")

    def labelled(self, sequences: np.ndarray) -> np.ndarray:
        """Return the indices of those tokens of the given sequences that have a known label."""
        at = self.tokens.positions(sequences)
        return at[self.codes[at] >= 0]


class _Scoring(NamedTuple):
    """The conversion of a classifier's scores to columns.   N tokens, K classes."""

    method: str  # may be "auto" until `with_classifier`
    labels: np.ndarray  # (K,)   the classes of the columns
    passthrough: Any
    n_columns: int = 0  # of scores; 1 for the decision function of two classes
    temperature: float = 1.0
    codes: np.ndarray | None = None  # the columns of the classifier's classes 0, 1, ...; None if they are all labels

    def with_classifier(self, classifier: BaseEstimator, codes: np.ndarray | None = None) -> _Scoring:
        """Return a copy with the method of a fitted classifier; ``codes`` are the codes of its labels."""
        asked = METHODS if self.method == "auto" else (self.method,)
        method = next((name for name in asked if hasattr(classifier, name)), None)
        if method is None or not hasattr(classifier, "classes_"):
            lacking = " or ".join(asked) if method is None else "classes_"
            raise TypeError(f"estimator {short(classifier)} has no {lacking}, which gives the scores")
        return self._replace(method=method, codes=codes)

    def scores(self, classifier: BaseEstimator, rows: Any) -> np.ndarray:
        """Return the scores of tokens, of shape (N, columns)."""
        if not n_tokens(rows):
            return np.zeros((0, self.n_columns))
        values = np.asarray(getattr(classifier, self.method)(rows), dtype=np.float64)
        n_classes, is_probability = len(classifier.classes_), self.method == "predict_proba"
        values = values.reshape(len(values), -1)
        is_one = values.shape[1] == 1 and not is_probability  # the score of the second of two classes
        values = np.hstack([-values, values]) if is_one and n_classes == 2 else values
        if values.shape[1] != n_classes:  # such as pairs of classes, which differ between folds if one lacks a class
            what = f"{self.method} has {values.shape[1]} columns for {n_classes} classes"
            raise ValueError(f"{what}: one for each is needed")
        values = np.log(np.maximum(values, LEAST)) if is_probability else values
        if self.codes is not None:
            lowest, class_scores = np.log(LEAST) if is_probability else values.min(), values
            values = np.full((len(class_scores), len(self.labels)), lowest)
            values[:, self.codes[np.asarray(classifier.classes_, np.int64)]] = class_scores
        return values[:, 1:] if is_one and len(self.labels) == 2 else values

    def scaled_on(self, scores: np.ndarray, training: _Training) -> _Scoring:
        """Return a copy with the temperature at which the labels are most likely."""
        column_of = {label: column for column, label in enumerate(self.labels)}
        columns = np.array([column_of.get(label, -1) for label in training.labels])[training.codes]
        at = np.flatnonzero((training.codes >= 0) & (columns >= 0))
        weight, of_classes = training.weight[at], scores[at]
        if scores.shape[1] == 1:
            of_classes = np.hstack([np.zeros_like(of_classes), of_classes])
        above = of_classes - np.take_along_axis(of_classes, columns[at, None], axis=1)  # the score of the label

        smoothed = above.mean(axis=1) / (1 + weight.sum())  # keeps the factor finite if all labels are correct

        def slope(factor):
            return float(weight @ (smoothed - (softmax(factor * above) * above).sum(axis=1)))

        flat = ROUNDING * float(weight @ np.abs(above).sum(axis=1))
        bounds = 1.0 / BOUNDS[1], 1.0 / BOUNDS[0]
        factor = zero_of_slope(slope, bounds, flat=flat) if slope(0.0) > flat else 1.0
        return self._replace(n_columns=scores.shape[1], temperature=1.0 / factor)

    def columns(self, tokens: _Tokens, scores: np.ndarray) -> Any:
        """Return the X for the final estimator: a table or a 3-D array if X is one, otherwise a SequenceBatch."""
        if scores.shape[1] > 1:
            scores = scores - scores.mean(axis=1, keepdims=True)
        scores = scores / self.temperature
        table, names = scores, [f"score={label}" for label in self.labels[-self.n_columns :]]
        if self.passthrough is not False:
            features, passed = self._passed(tokens)
            is_sparse, names = sparse.issparse(features), names + passed
            table = sparse.hstack([scores, features], "csr") if is_sparse else np.hstack([scores, features])
        if tokens.form == "table":
            return table
        if tokens.form == "grid":
            return table.reshape(len(tokens.offsets) - 1, -1, table.shape[1])
        return SequenceBatch.from_table(table, tokens.offsets, names)

    def _passed(self, tokens: _Tokens) -> tuple[Any, list[str]]:
        """Return the features that are passed through, and their names."""
        rows, shown, names = tokens.rows, tokens.names, []
        table = rows if hasattr(rows, "shape") else np.array(rows, dtype=object)
        if len(table.shape) == 2:
            every = range(table.shape[1])
            names = [f"x{i}" for i in every] if shown is None else list(shown)
            if self.passthrough is not True:
                index_of = dict(zip(names, every, strict=True))
                at = [index_of.get(which, which) for which in self.passthrough]
                if unknown := [which for which in at if which not in every]:
                    raise ValueError(f"passthrough has {short(unknown[0])}, which is no feature of X")
                rows, names = safe_indexing(table, at, axis=1), [names[i] for i in at]
                shown = at if shown is None else names
        try:
            return tokens.numbers(rows, shown), names
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}; {FOR_MODEL}") from error
