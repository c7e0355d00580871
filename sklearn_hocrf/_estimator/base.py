"""The base class of the sequence labellers: ``fit``, fitted attributes, and the state that files contain.

Subclasses define the kind of model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags

from .._sklearn.names import CallbacksMixin, available_if, fit_context, without_tasks
from .._sklearn.versions import VersionMixin, with_lists, with_mappings
from .answers.fitted import FittedState
from .answers.predictions import AnswersMixin, PredictionsMixin
from .fit.fit_steps import FitSteps
from .fit.parameters import MAPPINGS, is_stochastic
from .labels.kinds import Kind


def _can_stream(estimator: BaseEstimator) -> bool:
    """Return True if the solver is stochastic; otherwise raise an AttributeError that names the remedy."""
    if is_stochastic(estimator.solver):
        return True
    raise AttributeError(
        f"partial_fit of {type(estimator).__name__} needs the solver 'sgd', or an instance of SGD; got solver="
        f"{estimator.solver!r}"
    )


class BaseSequenceLabeler(VersionMixin, PredictionsMixin, AnswersMixin, CallbacksMixin, BaseEstimator):
    """The methods of a penalised sequence model; see :class:`~sklearn_hocrf.HighOrderCRF`.

    Both estimators document their common parameters and attributes in the same words
    (tests/documentation/test_docstrings.py).
    """

    _doc_link_template = VersionMixin._doc_link_template.replace("{estimator_module}", "sklearn_hocrf")
    _kind: Kind
    _state: FittedState

    # --- fit ----------------------------------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to labelled sequences.

        A plain 2-D X, such as a data frame of a time series, with a 1-D y is read as n sequences of one token, not as
        one sequence. The model is then multinomial logistic regression; `fit` warns of this if the index of X consists
        of times, or if neighbouring rows have the same label far more often than by chance, as in a recording. To fit
        one sequence, use ``fit([X], [y])``; to fit several, one for each value of a column, use ``fit([rows for _, rows
        in frame.groupby("series")], ...)``.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            A sequence is a list of feature dicts, a list of attribute-name lists, or a 2-D array or sparse matrix of
            shape (n_tokens, n_features). A 3-D array is a list of sequences of equal length; a plain 2-D array, data
            frame or sparse matrix is n sequences of length 1. Empty sequences have no effect. The model keeps an array
            dense if at least half of its values are nonzero, and does not convert float32 to float64. Dense arrays and
            float32 save memory and time, and change results only by rounding.
        y : list of label sequences, or array-like
            One label per token: hashable values that are mutually comparable. For a plain 2-D X, y is 1-D. For
            :class:`~sklearn_hocrf.HighOrderSemiCRF`, y contains labels, tags or segments, according to ``scheme``.
            Labels may be missing, as in ``known`` of :meth:`predict`: None stands for an unknown label, or for a whole
            unlabelled sequence. :class:`~sklearn_hocrf.HighOrderCRF` also accepts sets of possible labels; see Notes.
            Patterns and features that occur only at sets of more than 8 labels, or of more than half of all labels
            (except two of three), get no weights.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, which also weights the counts of patterns and features. A weight of 0 excludes the
            sequence.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If parameters or data are invalid. The error is raised before training, and the estimator is left unchanged.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If a solver stopped before the gradient was small enough, or could not decrease the objective; also if there
            is no optimum, for example because a model without a penalty separates the data. There is no warning if a
            callback stopped the solver, or if ``max_iter`` did and the objective is at most 1 % above the optimum
            (``optimality_gap_``).
        UserWarning
            If the label patterns contain more than a million labels in total and may take much time or memory. The
            warning precedes training and estimates the time and memory. There is also a warning if fewer than a tenth
            of the tokens have a label in y, or if the rows of a plain 2-D X seem to be one sequence.

        Notes
        -----
        If labels are missing, training maximises the probability of the known labels, which is the sum of the
        probabilities of all labellings that agree with them [1]_. This problem is not convex: training starts from
        weights that were fitted to the longest runs of known labels, if there are any, and ends in a nearby local
        optimum; ``optimality_gap_`` is inf. The labels of the model are all labels in y, including those in sets. Local
        feature matching, ``pruning`` and :class:`~sklearn_hocrf.model_selection.PenaltySearchCV` require a y without
        missing labels.

        By default, only single labels, and patterns and (pattern, feature) pairs that occur in the training data, have
        weights. A set counts as an occurrence of each of its labels, and a pattern occurs wherever the labels and sets
        of neighbouring tokens contain it and the constraints allow it. No pattern occurs at missing labels, or at sets
        of more than 8 labels or of more than half of all labels (except two of three); these sets only restrict the
        possible labels.

        Which labels are missing may depend on X and the known labels, but must not depend on the missing labels
        themselves. If only entities are labelled, and the labels of all other tokens are missing, a model that finds
        entities everywhere has the highest likelihood; therefore also label tokens with "O". Completely unlabelled
        sequences have no effect.

        References
        ----------
        .. [1] Tsuboi, Kashima, Mori, Oda and Matsumoto, "Training conditional random fields using incomplete
           annotations", COLING 2008.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> HighOrderCRF().fit(X, y).classes_
        array(['ADJ', 'DET', 'NOUN'], dtype='<U4')

        Some labels are missing:

        >>> y = [["DET", None, "NOUN"], [{"DET", "ADJ"}, "NOUN"]]
        >>> HighOrderCRF().fit(X, y).predict(X)
        [['DET', 'NOUN', 'NOUN'], ['DET', 'NOUN']]
        """
        FitSteps(self).fit(X, y, sample_weight)
        return self

    @available_if(_can_stream)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Sized,
        y: Sized,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on the next sequences of a stream, with one pass over them.

        This method is available if the solver is "sgd" or an instance of :class:`~sklearn_hocrf.training.SGD`. The
        state of the solver (the number of sequences seen, sums of squared gradients, ...) is kept between calls. On a
        fitted estimator, training continues from its weights, regardless of the solver that found them. :meth:`fit`
        starts from scratch.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            The next sequences, as in :meth:`fit`. New attribute names get the next free column indices. If X has any
            other form, it must have the same features as in the first call. For raw tokens, a hashing extractor needs
            no vocabulary: ``SequenceFeatureExtractor(n_features=...)``.
        y : list of label sequences, or array-like
            As in :meth:`fit`.
        classes : array-like of labels, default=None
            All labels of the stream; for tagging schemes, all tags. If None, these are the labels in y of the first
            call. Later calls do not need ``classes``. The first call also fixes the constraints, which apply to these
            labels, and the label patterns: ``patterns="observed"`` selects those that occur in y of the first call.
        sample_weight : array-like of shape (n_sequences,), default=None
            As in :meth:`fit`.

        Returns
        -------
        self : object
            ``objective_history_`` contains two values, from before and after the pass, for the sequences of this call
            and their share of the penalty. ``optimality_gap_`` is inf.

        Raises
        ------
        AttributeError
            If the solver is not stochastic.
        ValueError, TypeError
            If data are invalid, or if a label is not among the classes. The estimator is left unchanged.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the first pass increased the minimised function.

        Notes
        -----
        The penalty applies to the stream as a whole; each sequence receives a share of 1 / N. N is the setting
        ``n_sequences`` of :class:`~sklearn_hocrf.training.SGD`, by default the number of sequences seen so far. Set
        ``n_sequences`` if you read a file several times.

        A call takes about as long as a pass over its sequences and over all weights, so it is best to pass thousands of
        sequences in each call. The first call determines the step size from its sequences, unless you set ``step_size``
        of the solver; this call should therefore contain more than a few sequences. A ``min_count`` above 1 raises an
        error, because the counts would depend on the entire stream.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> crf = HighOrderCRF(solver="sgd", random_state=0)
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> for _ in range(3):
        ...     crf = crf.partial_fit(X, y, classes=["ADJ", "DET", "NOUN", "VERB"])
        >>> crf.partial_fit([[["men"], ["walk"]]], [["NOUN", "VERB"]]).predict(
        ...     [[["the"], ["walk"]]]
        ... )
        [['DET', 'NOUN']]
        """
        FitSteps(self).partial_fit(X, y, classes, sample_weight)
        return self

    def __check_fit__(self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None, **_: Any) -> None:
        FitSteps(self).check_fit(X, y, sample_weight)

    # --- files --------------------------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__ = without_tasks(self.__dict__.copy())  # in one step, because other threads may refit
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters and the state, without the attributes that can be derived from the state."""
        attributes = _without_derived(without_tasks(super().__getstate__()))
        if "_state" in attributes:
            state = attributes["_state"]
            attributes["_state"] = state._replace(features=state.features.packed(), tables=None)
        return with_lists(attributes, MAPPINGS)

    def __setstate__(self, own: Mapping[str, Any]) -> None:
        own = with_mappings(_without_derived(own), MAPPINGS)
        state = own.pop("_state", None)
        super().__setstate__(own)
        if state is not None:
            FittedState(*state).checked(self._kind).set_on(self)

    # --- fitted attributes --------------------------------------------------------------------------------------------

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, of shape (n_features_in_,); defined only if the training X had feature names."""
        state = getattr(self, "_state", None)
        if state is None or state.features.names is None:
            raise AttributeError(f"{type(self).__name__} has no feature_names_in_: X had no feature names in fit")
        return np.asarray(state.features.names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        # not a ClassifierMixin: GridSearchCV(cv=5) would then require one label per sequence (type_of_target)
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        tags.input_tags.sparse = tags.input_tags.dict = True
        tags.input_tags.three_d_array = True
        return tags


def _without_derived(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an estimator without those that its state determines."""
    return {name: value for name, value in attributes.items() if name.startswith("_") or not name.endswith("_")}
