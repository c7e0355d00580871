"""Methods of fitted models, with results in the shape of X: labels, probabilities, samples and segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from ..._data.batch import Sequences
from ..._data.tagger import Labelling
from ..._engine.inference.chain import OneSequence
from ..._reading.schemes import segment_lists
from ..labels.patterns import SegmentTags, pattern_codes, scheme_of, segment_tables, tags_of_labels
from .fitted import FittedModel, one_call, predict_one
from .query import Query, segments_of_codes

_Rows: TypeAlias = np.ndarray | list[np.ndarray]  # one row per token


class PredictionsMixin:
    """The prediction methods of both estimators."""

    # --- predictions --------------------------------------------------------------------------------------------------

    @overload
    def predict(self, X: Sequences, *, known: Sized | None = None) -> list: ...
    @overload
    def predict(self, X: Sized, *, known: Sized | None = None) -> Any: ...
    def predict(self, X: Sized, *, known: Sized | None = None) -> list | np.ndarray:
        """Return the most probable label sequence for each sequence.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`fit`.
            Sequences may be empty.
        known : list of label sequences, or array-like, default=None
            The known labels, in the form of y in :meth:`fit`: None means any label, and a set means one of its members;
            None instead of a whole sequence means that nothing is known about it.
            The prediction is the best labelling that agrees with the known labels.

        Returns
        -------
        labels : list of lists, list of arrays, or array
            In the shape of X, and with the type of y in fit: lists of labels if y consisted of lists, otherwise arrays
            of shape (n_tokens,). For a 3-D X, an array of shape (n_sequences, n_tokens); for a plain 2-D X, one of
            shape (n_samples,).

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError, TypeError
            If X is invalid or does not match the X of fit, or if no labelling agrees with ``known``.

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
        if known is None and (labels := predict_one(self, X)) is not None:
            return labels
        return FittedModel(self).query(X, known).labels()

    @overload
    def predict_marginals(self, X: Sequences, *, known: Sized | None = None) -> list[np.ndarray]: ...
    @overload
    def predict_marginals(self, X: Sized, *, known: Sized | None = None) -> Any: ...
    def predict_marginals(self, X: Sized, *, known: Sized | None = None) -> _Rows:
        """Return the probability of each class at each token, given the whole sequence.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
            The probabilities are conditional on the known labels.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_classes), or array
            The columns are those of ``classes_``, and rows sum to 1. For a 3-D X, an array of shape (n_sequences,
            n_tokens, n_classes); for a plain 2-D X, one of shape (n_samples, n_classes). For
            :class:`~sklearn_hocrf.HighOrderSemiCRF`, each value is the probability that the token is in a segment with
            this label ("runs", "segments"), or that it has this tag (tagging schemes).

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
        if one is not None and (marginals := one.marginals(X)) is not None:
            return marginals
        query = FittedModel(self).query(X, known)
        return query.reshape(query.class_marginals())

    @overload
    def predict_proba(self, X: Sequences, *, known: Sized | None = None) -> list[np.ndarray]: ...
    @overload
    def predict_proba(self, X: Sized, *, known: Sized | None = None) -> Any: ...
    def predict_proba(self, X: Sized, *, known: Sized | None = None) -> _Rows:
        """Return the result of :meth:`predict_marginals`, under the name that scikit-learn's meta-estimators expect.

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
    def pattern_marginals(
        self, X: Sequences, patterns: Iterable[tuple], *, known: Sized | None = None
    ) -> list[np.ndarray]: ...
    @overload
    def pattern_marginals(self, X: Sized, patterns: Iterable[tuple], *, known: Sized | None = None) -> Any: ...
    def pattern_marginals(self, X: Sized, patterns: Iterable[tuple], *, known: Sized | None = None) -> _Rows:
        """Return the probability that an occurrence of a label pattern ends at a token.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        patterns : iterable of tuples of labels
            Patterns of any length, with or without a weight in the model. For
            :class:`~sklearn_hocrf.HighOrderSemiCRF`, a pattern consists of the labels of consecutive segments. With
            ``history="segments"``, a pattern occurs at the first token of its last segment, but a single label occurs
            at all of its tokens, and a pair of equal labels, or of tags of one segment, at each token that continues a
            segment.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict_marginals`.

        Returns
        -------
        marginals : list of arrays of shape (n_tokens, n_patterns), or array
            In the shape of X, as in :meth:`predict_marginals`; the columns are the patterns.

        Raises
        ------
        ValueError, TypeError
            If a pattern is empty, or contains labels that are unknown to the model.

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
        query = fitted.query(X, known)
        return query.reshape(query.posterior.pattern_marginals(codes))

    # --- quality ------------------------------------------------------------------------------------------------------

    def score(self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None) -> float:
        """Return the token accuracy: the fraction of tokens that are predicted correctly.

        The prediction for a token is correct if its label is correct. For :class:`~sklearn_hocrf.HighOrderSemiCRF`, the
        tag must be correct if the scheme is a tagging scheme; with "segments", the label must be correct, and a segment
        must start at the token in both the prediction and y, or in neither. For other scores, pass
        ``scoring=metrics.token_f1_scorer``, ``segment_f1_scorer`` or ``sequence_accuracy_scorer`` to searches;
        scikit-learn's own scorers, such as "f1_macro", cannot score sequences.

        scikit-learn's ``scoring="accuracy"`` does not compute this score. That scorer returns nan, unless all sequences
        have the same length and the only labels are two numbers (such as 0 and 1). In that case, it returns the share
        of sequences without errors, without a warning. In searches, pass no ``scoring``, or
        ``scoring=metrics.token_accuracy_scorer``.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        y : list of label sequences, or array-like
            As in :meth:`fit`.
            A label that did not occur in fit counts as a prediction error. Tags that violate the scheme are interpreted
            as in fit.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, which applies to all of its tokens.

        Returns
        -------
        accuracy : float

        Raises
        ------
        ValueError
            If X contains no tokens of positive weight, or if y does not match X.

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

    def log_likelihood(self, X: Sized, y: Sized, *, unknown: str = "raise") -> np.ndarray:
        """Return log P(y given x) of each sequence, without the penalty.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        y : list of label sequences, or array-like
            As in :meth:`fit`. Labels may be missing, as in ``known`` of :meth:`predict`. The result is then the
            log-probability that the labelling agrees with the labels in ``y``.
        unknown : {"raise", "impossible"}, default="raise"
            How to treat labels that did not occur in fit: raise an error, or assign probability 0.

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,)
            In nats: 0 for empty sequences, and -inf if y is impossible, for example because it violates a constraint,
            contains segments longer than ``segment_length_`` allows, or, with ``unknown="impossible"``, contains
            unknown labels.

        Raises
        ------
        ValueError
            If ``unknown="raise"`` and a label did not occur in fit.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> crf.log_likelihood(X, y).round(2)
        array([-1.18, -1.05])

        The probability that the second token is not a noun, and the probability that both of the last two tokens are
        nouns:

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
        if one is not None and (log_probabilities := one.log_likelihood(X, y)) is not None:
            return log_probabilities
        fitted = FittedModel(self)
        if unknown not in ("raise", "impossible"):
            raise ValueError(f"unknown must be 'raise' or 'impossible', got {unknown!r:.80}")
        labelled = fitted.read_labelled(X, y, unknown="raise" if unknown == "raise" else "ignore")
        return labelled.log_likelihood(fitted.model())


class AnswersMixin:
    """Methods that return several labellings of a sequence, or the uncertainty of labellings."""

    def predict_nbest(
        self,
        X: Sized,
        n: int = 10,
        *,
        known: Sized | None = None,
        accept: Callable[..., bool] | None = None,
        max_candidates: int = 1000,
    ) -> list[list[Labelling]]:
        """Return the n most probable labellings of each sequence, best first.

        All labellings differ, and their scores are exact. The first is the result of :meth:`predict`. If the first two
        log-probabilities are close, the model is uncertain:

        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> [
        ...     round(best.log_probability - second.log_probability, 2)
        ...     for best, second in crf.predict_nbest(X, 2)
        ... ]
        [1.36, 0.99]

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        n : int, default=10
            Number of labellings. If a sequence has fewer possible labellings, the result contains all of them.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
        accept : callable or None, default=None
            A function that receives ``labels``, as :meth:`predict` returns them, and returns whether to accept them,
            such as ``lambda labels: labels.count("B-TITLE") <= 1``. The result contains the n best accepted labellings.
        max_candidates : int, default=1000
            Maximum number of labellings of a sequence for which ``accept`` is called.

        Returns
        -------
        candidates : list of lists of Labelling
            Named tuples ``(labels, score, log_probability)``. ``score`` is the sum of the weights that apply to the
            labelling, each times the value of its feature, and ``log_probability`` is the logarithm of its probability,
            given ``known``.

        Raises
        ------
        ValueError
            If n < 1, or if a sequence has no possible labelling.

        Warns
        -----
        UserWarning
            If ``accept`` accepts fewer than n of the ``max_candidates`` best labellings of a sequence.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]], [["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], ["NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> for labels, score, log_probability in crf.predict_nbest(X, 2)[1]:
        ...     print(labels, round(score, 2), round(log_probability, 2))
        ['DET', 'NOUN'] 2.32 -0.97
        ['NOUN', 'NOUN'] 1.42 -1.87
        """
        Query.check_nbest(n, accept, max_candidates)
        return FittedModel(self).query(X, known).nbest(n, accept, max_candidates)

    def sample(
        self,
        X: Sized,
        n_samples: int = 1,
        *,
        known: Sized | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> list[list]:
        """Draw labellings of each sequence from their exact distribution.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        n_samples : int, default=1
            Number of independent labellings of each sequence.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
        random_state : int, RandomState instance or None, default=None
            An int gives the same samples in each call, for any ``n_jobs``.

        Returns
        -------
        samples : list of lists
            ``n_samples`` labellings for each sequence, each as returned by :meth:`predict`.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> samples = crf.sample(X[1:], 100_000, random_state=0)[0]
        >>> round(samples.count(["DET", "NOUN"]) / 100_000, 2)
        0.35
        >>> float(crf.log_likelihood(X[1:], y[1:]).round(2)[0])  # exp(-1.05) = 0.35
        -1.05
        """
        seed = Query.check_samples(n_samples, random_state)
        return FittedModel(self).query(X, known).samples(n_samples, seed)

    @overload
    def entropy(
        self, X: Sized, *, level: Literal["sequence"] = "sequence", known: Sized | None = None
    ) -> np.ndarray: ...
    @overload
    def entropy(self, X: Sequences, *, level: Literal["token"], known: Sized | None = None) -> list[np.ndarray]: ...
    @overload
    def entropy(self, X: Sized, *, level: str, known: Sized | None = None) -> Any: ...
    def entropy(self, X: Sized, *, level: str = "sequence", known: Sized | None = None) -> _Rows:
        """Return the entropy of the labels, a measure of the model's uncertainty, in nats.

        The computation avoids differences of large numbers. The entropy is never negative, and it is 0 if one labelling
        is certain.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        level : {"sequence", "token"}, default="sequence"
            Whether to return one entropy per sequence (of the whole labelling) or one per token.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        entropy : ndarray of shape (n_sequences,), or as :meth:`predict_marginals` without the last axis
            For tokens, the entropy of the distribution over ``classes_``.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> crf = HighOrderCRF(max_order=2).fit(X, y)
        >>> crf.entropy(X).round(2)
        array([2.72, 1.91])
        >>> crf.entropy(X, level="token")[1].round(2)
        array([0.96, 0.96])
        """
        Query.check_level(level)
        return FittedModel(self).query(X, known).entropy(level)


class TagSegmentsMixin:
    """The methods of :class:`~sklearn_hocrf.HighOrderCRF` for segments."""

    @overload
    def predict_segments(
        self,
        X: Sized,
        *,
        threshold: None = None,
        scheme: str = "auto",
        known: Sized | None = None,
        with_probability: Literal[False] = False,
    ) -> list[list[tuple[int, int, Any]]]: ...
    @overload
    def predict_segments(
        self,
        X: Sized,
        *,
        threshold: float,
        scheme: str = "auto",
        known: Sized | None = None,
        with_probability: bool = False,
    ) -> list[np.ndarray]: ...
    @overload
    def predict_segments(
        self,
        X: Sized,
        *,
        threshold: float | None = None,
        scheme: str = "auto",
        known: Sized | None = None,
        with_probability: Literal[True],
    ) -> list[np.ndarray]: ...
    @overload
    def predict_segments(
        self,
        X: Sized,
        *,
        threshold: float | None = None,
        scheme: str = "auto",
        known: Sized | None = None,
        with_probability: bool = False,
    ) -> list: ...
    def predict_segments(
        self,
        X: Sized,
        *,
        threshold: float | None = None,
        scheme: str = "auto",
        known: Sized | None = None,
        with_probability: bool = False,
    ) -> list:
        """Return the segments of the best labelling, or all segments whose probability reaches a threshold.

        The probability of a segment is the total probability of the labellings in which it occurs with exactly this
        start, stop and label; the probability is exact for any order. Tags are read as
        :func:`~sklearn_hocrf.text.extract_segments` reads them: an I-PER after an O also begins a segment.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        threshold : float or None, default=None
            If None, the method returns the segments that the labels of :meth:`predict` encode. If a number in [0, 1],
            it returns all segments whose probabilities are at least this number, with these probabilities. These
            segments may overlap if the threshold is at most 0.5. A low threshold finds more of the true segments than
            the best labelling contains.
        scheme : {"auto", "bio", "bioes", "bilou", "bmes", "iob1", "runs"}, default="auto"
            How ``classes_`` encode segments; "runs" means runs of equal labels of any kind. "auto" selects the scheme
            that ``constraints`` names, otherwise the scheme of ``classes_`` if all of them look like tags, otherwise
            "runs".
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
            The probabilities are conditional on the known labels.
        with_probability : bool, default=False
            Whether to include the probabilities of the segments of the best labelling. With a threshold, probabilities
            are always included.

        Returns
        -------
        segments : list of lists of (int, int, label), or list of structured arrays of shape (n_segments,)
            (start, stop, label) of each segment, in order, with ``stop`` excluded. With probabilities, the result
            consists of arrays with the fields ``start`` and ``stop`` (int64), ``label`` and ``probability`` (float64),
            sorted by start, stop and label; pass their ``tolist()`` to json, which does not support numpy numbers.

        Raises
        ------
        ValueError
            If the threshold is not in [0, 1], or if a label is not a tag of the scheme.

        Notes
        -----
        For other probabilities of segments, use :meth:`log_likelihood`, which accepts partial labels. For example, the
        probability that tokens 3 and 4 are in the same PER segment is the probability of the labels ``[None, None,
        None, {"B-PER", "I-PER"}, "I-PER", None]``.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderCRF(constraints="bio").fit(X, y)
        >>> crf.predict_segments(X)
        [[(0, 2, 'PER'), (3, 4, 'PER')], [(1, 2, 'PER')]]
        >>> crf.predict_segments(X, with_probability=True)[1]["probability"].round(2)
        array([0.68])

        All segments with a probability of at least 0.2:

        >>> for start, stop, label, probability in crf.predict_segments(X, threshold=0.2)[
        ...     0
        ... ].tolist():
        ...     print(start, stop, label, round(probability, 2))
        0 1 PER 0.24
        0 2 PER 0.51
        3 4 PER 0.66
        """
        Query.check_threshold(threshold)
        fitted = FittedModel(self)
        tags = _tag_table(fitted, scheme)
        one = one_call(fitted.estimator, X) if threshold is None and known is None else None
        if one is not None and (codes := one.answer(OneSequence.decode, X)) is not None:
            offsets = np.array([0, len(codes)])
            segments = segments_of_codes(codes, offsets, tags)
            if not with_probability:
                return segment_lists(segments, offsets, tags.names.tolist())
            probability = one.answer(OneSequence.segment_probabilities, X, segments, tags.tags)
            if probability is not None:
                return segment_tables(offsets, segments, probability, tags.names)
        return fitted.query(X, known).segments(threshold, with_probability, tags)

    @property
    def scheme_(self) -> str:
        """How labels encode segments: the scheme that the constraints name, or the one that the labels suggest."""
        fitted: Any = self
        return scheme_of(fitted._state.trained_with.get("constraints"), fitted.classes_)


def _tag_table(fitted: FittedModel, scheme: str) -> SegmentTags:
    """Return the labels of a fitted model as tags of segments."""
    tables: Any = fitted.state.tables
    if scheme not in tables.tags:
        tables.tags[scheme] = tags_of_labels(fitted.labels, scheme, fitted.state.trained_with.get("constraints"))
    return tables.tags[scheme]
