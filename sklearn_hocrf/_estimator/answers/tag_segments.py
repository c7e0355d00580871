"""Segments encoded by token labels as tags."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ..._data.checks import check_choice
from ..._reading.schemes import segment_lists
from ..labels.tags import SEGMENT_SCHEMES, SegmentTags, scheme_of, segment_tables
from .fitted_model import FittedModel
from .one_call import one_call
from .query import check_threshold, segments_of_codes, segments_of_query, tags_of_labels


class TagSegmentsMixin:
    """Segments of :class:`~sklearn_hocrf.HighOrderCRF`."""

    @overload
    def predict_segments(
        self,
        X: Any,
        *,
        threshold: None = None,
        scheme: str = "auto",
        known: Any = None,
        with_probability: Literal[False] = False,
    ) -> list[list[tuple[int, int, Any]]]: ...
    @overload
    def predict_segments(
        self, X: Any, *, threshold: float, scheme: str = "auto", known: Any = None, with_probability: bool = False
    ) -> list[np.ndarray]: ...
    @overload
    def predict_segments(
        self,
        X: Any,
        *,
        threshold: float | None = None,
        scheme: str = "auto",
        known: Any = None,
        with_probability: Literal[True],
    ) -> list[np.ndarray]: ...
    @overload
    def predict_segments(
        self,
        X: Any,
        *,
        threshold: float | None = None,
        scheme: str = "auto",
        known: Any = None,
        with_probability: bool = False,
    ) -> list: ...
    def predict_segments(
        self,
        X: Any,
        *,
        threshold: float | None = None,
        scheme: str = "auto",
        known: Any = None,
        with_probability: bool = False,
    ) -> list:
        """Return the segments of the best labelling, or all segments whose probability reaches a threshold.

        The probability of a segment is the total probability of the labellings in which it occurs with exactly this
        start, stop and label; it is exact at any order. Tags are read as
        :func:`~sklearn_hocrf.text.extract_segments` reads them: an I-PER after an O also begins a segment.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        threshold : float or None, default=None
            None returns the segments that the labels of :meth:`predict` encode. A number in [0, 1] returns all segments
            that are at least as probable, with their probabilities. Up to 0.5 they may overlap: a low threshold finds
            more of the true segments than the best labelling has.
        scheme : {"auto", "bio", "bioes", "bilou", "bmes", "iob1", "runs"}, default="auto"
            How ``classes_`` encode segments; "runs" means runs of equal labels, of any kind. "auto" is the scheme that
            ``constraints`` name, otherwise the scheme of ``classes_`` if all look like tags, and else "runs".
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
            Probabilities are conditional on the labelling agreeing with it.
        with_probability : bool, default=False
            Whether to include the probabilities of the segments of the best labelling. With a threshold, they are
            always included.

        Returns
        -------
        segments : list of lists of (int, int, label), or list of structured arrays of shape (n_segments,)
            (start, stop, label) of each segment in order, with ``stop`` excluded. With probabilities, arrays with the
            fields ``start`` and ``stop`` (int64), ``label`` and ``probability`` (float64), sorted by start, stop and
            label; pass their ``tolist()`` to json, which does not support numpy numbers.

        Raises
        ------
        ValueError
            If the threshold is not in [0, 1], or if a label is not a tag of the scheme.

        Notes
        -----
        For other probabilities of segments, use :meth:`log_likelihood`, which accepts partial labels: the
        probability that tokens 3 and 4 are in some segment of a label, for instance, is the probability of the labels
        ``[None, None, None, {"B-PER", "I-PER"}, "I-PER", None]``.

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
        check_threshold(threshold)
        fitted = FittedModel(self)
        tags = _tag_table(fitted, scheme)
        one = one_call(fitted.estimator, X) if threshold is None and known is None else None
        if one is not None and (codes := one.ask("decode", X)) is not None:
            offsets = np.array([0, len(codes)])
            segments = segments_of_codes(codes, offsets, tags)
            if not with_probability:
                return segment_lists(segments, offsets, tags.names.tolist())
            probability = one.ask("segment_probabilities", X, segments, tags.tags)
            if probability is not None:
                return segment_tables(offsets, segments, probability, tags.names)
        return segments_of_query(fitted.ask(X, known), tags, threshold, with_probability)

    @property
    def scheme_(self) -> str:
        """How labels encode segments: the scheme of the constraints, or guessed from the labels."""
        fitted: Any = self
        return scheme_of(fitted._state.trained_with.get("constraints"), fitted.classes_)


def _tag_table(fitted: FittedModel, scheme: str) -> SegmentTags:
    """Return the labels of a fitted model as tags of segments."""
    check_choice("scheme", scheme, SEGMENT_SCHEMES)
    tables: Any = fitted.state.tables
    if scheme not in tables.tags:
        tables.tags[scheme] = tags_of_labels(fitted.labels, scheme, fitted.state.trained_with.get("constraints"))
    return tables.tags[scheme]
