"""Predictions of fitted models, in the shape of X: labels, their probabilities, accuracy and likelihood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ..._data.batch import Sequences
from ..labels.patterns import pattern_codes
from .fitted_model import FittedModel
from .one_call import one_call, predict_one
from .query import labels_of_query


class PredictionsMixin:
    """Predictions of both estimators."""

    # --- predictions --------------------------------------------------------------------------------------------------

    @overload
    def predict(self, X: Sequences, *, known: Any = None) -> list[Any]: ...
    @overload
    def predict(self, X: Any, *, known: Any = None) -> Any: ...
    def predict(self, X: Any, *, known: Any = None) -> Any:
        """Return the most probable label sequence of each sequence.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`fit`.
            Sequences may be empty.
        known : list of label sequences, or array-like, default=None
            The known labels, in the form of y in :meth:`fit`: None means any label, and a set means one of its members;
            None instead of a whole sequence means that nothing is known about it.
            The prediction is the best labelling that agrees with them.

        Returns
        -------
        labels : list of lists, list of arrays, or array
            In the shape of X, and of the type of y in fit: lists of labels if y consisted of lists, else arrays of
            shape (n_tokens,). For a 3-D X an array of shape (n_sequences, n_tokens), for a plain 2-D X one of shape
            (n_samples,).

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError, TypeError
            If X is invalid or does not match the X of fit, and if no labelling agrees with ``known``.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF().fit(X, y)
        >>> crf.predict([[["the"], ["old"]], []])
        [['DET', 'ADJ'], []]

        Some labels are known:

        >>> crf.predict([[["the"], ["old"], ["house"]]], known=[[None, "NOUN", {"ADJ", "DET"}]])
        [['DET', 'NOUN', 'DET']]
        """
        if known is None and (found := predict_one(self, X)) is not None:
            return found
        return labels_of_query(FittedModel(self).ask(X, known))

    @overload
    def predict_marginals(self, X: Sequences, *, known: Any = None) -> list[np.ndarray]: ...
    @overload
    def predict_marginals(self, X: Any, *, known: Any = None) -> Any: ...
    def predict_marginals(self, X: Any, *, known: Any = None) -> Any:
        """Return the probability of each class at each token, given the whole sequence.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
            The probabilities are conditional on the labelling agreeing with it.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_classes), or array
            Columns as in ``classes_``; rows sum to 1. For a 3-D X an array of shape (n_sequences, n_tokens, n_classes),
            for a plain 2-D X one of shape (n_samples, n_classes). For :class:`~sklearn_hocrf.HighOrderSemiCRF`, the
            probability that the token lies in a segment with this label ("runs", "segments"), or that it has this tag
            ("bio", "bioes").

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> HighOrderCRF(max_order=2).fit(X, y).predict_marginals(X)[1].round(2)
        array([[0.2 , 0.59, 0.21],
               [0.2 , 0.21, 0.59]])

        Tags of segments:

        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
        >>> crf.classes_
        array(['B-PER', 'I-PER', 'O'], dtype='<U5')
        >>> crf.predict_marginals(X)[1].round(2)
        array([[0.38, 0.  , 0.62],
               [0.64, 0.16, 0.2 ]])
        """
        one = one_call(self, X) if known is None else None
        if one is not None and (found := one.marginals(X)) is not None:
            return found
        query = FittedModel(self).ask(X, known)
        return query.reshape(query.class_marginals())

    @overload
    def predict_proba(self, X: Sequences, *, known: Any = None) -> list[np.ndarray]: ...
    @overload
    def predict_proba(self, X: Any, *, known: Any = None) -> Any: ...
    def predict_proba(self, X: Any, *, known: Any = None) -> Any:
        """Return :meth:`predict_marginals` under the name that scikit-learn's meta-estimators expect.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict_marginals`.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict_marginals`.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_classes), or array

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> HighOrderCRF().fit(X, y).predict_proba(X)[0].shape
        (3, 3)
        """
        return self.predict_marginals(X, known=known)

    @overload
    def pattern_marginals(self, X: Sequences, patterns: Iterable[tuple], *, known: Any = None) -> list[np.ndarray]: ...
    @overload
    def pattern_marginals(self, X: Any, patterns: Iterable[tuple], *, known: Any = None) -> Any: ...
    def pattern_marginals(self, X: Any, patterns: Iterable[tuple], *, known: Any = None) -> Any:
        """Return the probability that an occurrence of a label pattern ends at a token.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        patterns : iterable of tuples of labels
            Patterns of any length, with or without a weight in the model. For
            :class:`~sklearn_hocrf.HighOrderSemiCRF`, patterns of segment labels, of consecutive segments. With
            ``history="segments"``, a pattern occurs at the first token of its last segment; a single label at all of
            its tokens, and a pair of equal labels, or of tags of one segment, at each token that continues a segment.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict_marginals`.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_patterns), or array
            In the shape of X, as in :meth:`predict_marginals`; columns as in ``patterns``.

        Raises
        ------
        ValueError, TypeError
            For an empty pattern and for labels that are unknown to the model.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> HighOrderCRF(max_order=2).fit(X, y).pattern_marginals(X, [("DET", "NOUN")])[
        ...     1
        ... ].round(2)
        array([[0.  ],
               [0.35]])

        Patterns of segments:

        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
        >>> crf.pattern_marginals(X, [("PER",), ("O", "PER")])[1].round(2)
        array([[0.22, 0.  ],
               [0.8 , 0.5 ]])
        """
        fitted = FittedModel(self)
        codes = pattern_codes(list(patterns), fitted.labels, fitted.state.layout.patterns.history)
        query = fitted.ask(X, known)
        return query.reshape(query.posterior.pattern_marginals(codes))

    # --- quality ------------------------------------------------------------------------------------------------------

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the token accuracy: the fraction of tokens that are predicted correctly.

        The prediction for a token is correct if its label is correct. For :class:`~sklearn_hocrf.HighOrderSemiCRF`, its
        tag ("bio", "bioes") must be correct, or its label and whether a segment starts there ("segments"). For others,
        pass ``scoring=metrics.token_f1_scorer``, ``segment_f1_scorer`` or ``sequence_accuracy_scorer`` to searches:
        scikit-learn's own, such as "f1_macro", cannot score sequences.

        scikit-learn's ``scoring="accuracy"`` is not this score. It gives nan, or, if y has arrays of one length with
        two numbers as labels (such as 0 and 1), silently the share of sequences that are entirely right. In searches,
        pass no ``scoring``, or ``scoring=metrics.token_accuracy_scorer``.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        y : list of label sequences, or array-like
            As in :meth:`fit`.
            A label that did not occur in fit counts as an error of the model. Tags that violate the scheme are
            interpreted as in fit.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, which applies to all of its tokens.

        Returns
        -------
        accuracy : float

        Raises
        ------
        ValueError
            If X has no tokens of positive weight, or if y does not match X.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> HighOrderCRF().fit(X, y).score(X, [["DET", "ADJ", "ADJ"], ["DET", "NOUN"]])
        0.8

        Tags of segments:

        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> HighOrderSemiCRF(scheme="bio").fit(X, y).score(
        ...     X[:1], [["B-PER", "B-PER", "O", "B-PER"]]
        ... )
        0.75
        """
        right, total = FittedModel(self).count_right(X, y, sample_weight)
        if not total:
            raise ValueError("X has no tokens of positive weight, so the accuracy is undefined")
        return right / total

    def log_likelihood(self, X: Any, y: Any, *, unknown: str = "raise") -> np.ndarray:
        """Return log P(y given x) of each sequence, without the penalty.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        y : list of label sequences, or array-like
            As in :meth:`fit`.
            Labels may be missing, as for ``known`` in :meth:`predict`. The result is then the probability that the
            labelling agrees with the labels that are there.
        unknown : {"raise", "impossible"}, default="raise"
            How to treat labels not seen in fit: raise an error, or assign probability 0.

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,)
            In nats; 0 for empty sequences; -inf where the model rules out y, for example because it violates a
            constraint or has segments longer than ``segment_length_`` allows, and for unknown labels with
            ``unknown="impossible"``.

        Raises
        ------
        ValueError
            For a label that did not occur in fit, with ``unknown="raise"``.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> crf.log_likelihood(X, y).round(2)
        array([-1.18, -1.05])

        The probability that the second token is not a noun, and that both of the last two are:

        >>> np.exp(
        ...     crf.log_likelihood(
        ...         X[:1] * 2, [[None, {"ADJ", "DET"}, None], [None, "NOUN", "NOUN"]]
        ...     )
        ... ).round(2)
        array([0.76, 0.13])

        A segment that is too long:

        >>> from sklearn_hocrf import HighOrderSemiCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
        >>> crf.log_likelihood(X[:1] * 2, [y[0], ["B-PER", "I-PER", "I-PER", "O"]]).round(2)
        array([-2.1, -inf])
        """
        one = one_call(self, X) if unknown == "raise" else None
        if one is not None and (found := one.log_likelihood(X, y)) is not None:
            return found
        fitted = FittedModel(self)
        if unknown not in ("raise", "impossible"):
            raise ValueError(f"unknown must be 'raise' or 'impossible', got {unknown!r:.80}")
        labelled = fitted.read_labelled(X, y, unknown="raise" if unknown == "raise" else "ignore")
        return labelled.log_likelihood(fitted.model())
