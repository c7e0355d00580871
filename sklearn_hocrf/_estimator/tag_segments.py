"""Segments encoded by token labels as tags: their probabilities, and decoding for them."""

from __future__ import annotations

import itertools
from typing import Any, Literal, overload

import numpy as np

from .._data.arrays import offsets_of
from .._data.batch import SequenceBatch
from .._data.checks import check_choice, short
from .._data.masks import Mask
from .._data.schemes import (
    guessed_scheme,
    segment_lists,
    segments_of_labels,
    segments_of_tags,
    split_tag,
)
from .._data.segments import Segments
from .._settings import check, is_number
from .._validation import read_sequences
from .._validation._sklearn import available_if
from .decoding import RARE, SegmentDecoding, best_cover, best_writing
from .hooks import Hooks
from .tags import SEGMENT_SCHEMES, SegmentTags, each_its_own, read_segment_tags, segment_tables

__all__ = ["TagSegmentsMixin", "check_threshold"]


def check_threshold(threshold: Any) -> None:
    """Raise a ValueError unless a threshold is a probability."""
    check(is_number(threshold) and 0 <= threshold <= 1, "threshold", "a probability, a number in [0, 1]", threshold)


class TagSegmentsMixin(Hooks):
    """Segments of :class:`~sklearn_hocrf.HighOrderCRF`."""

    @available_if(lambda self: self._has_probabilities())
    def segment_marginals(
        self, X: Any, threshold: float = 1e-6, *, scheme: str = "auto", known: Any = None
    ) -> list[np.ndarray]:
        """Return all segments, as encoded by labels, whose probability reaches a threshold.

        The probability of a segment is the total probability of the labellings in which it occurs with exactly this
        start, stop and label; it is exact at any order. Tags are read as
        :func:`~sklearn_hocrf.metrics.extract_segments` reads them: an I-PER after an O also begins a segment.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        threshold : float, default=1e-6
            Lowest probability of a segment.
        scheme : {"auto", "bio", "bioes", "bilou", "bmes", "iob1", "runs"}, default="auto"
            How ``classes_`` encode segments; "runs" means runs of equal labels, of any kind. "auto" is the scheme that
            ``constraints`` name, otherwise the scheme of ``classes_`` if all look like tags, and else "runs".
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        segments : list of structured arrays of shape (n_segments,)
            For each sequence, fields ``start`` and ``stop`` (int64), ``label`` and ``probability`` (float64), sorted by
            start, stop and label.

        Raises
        ------
        ValueError
            If the threshold is not in [0, 1], or if a label is not a tag of the scheme.

        Notes
        -----
        For other probabilities of segments, use :meth:`log_likelihood`, which accepts labels with holes: the
        probability that tokens 3 and 4 are in some segment of a label, for instance, is the probability of the labels
        ``[None, None, None, {"B-PER", "I-PER"}, "I-PER", None]``.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderCRF(constraints="bio").fit(X, y)
        >>> for start, stop, label, probability in crf.segment_marginals(X, threshold=0.2)[
        ...     0
        ... ].tolist():
        ...     print(start, stop, label, round(probability, 2))
        0 1 PER 0.29
        0 2 PER 0.38
        1 2 PER 0.22
        3 4 PER 0.6
        """
        check_threshold(threshold)
        fitted: Any = self._as_fitted()
        tags = _tags_of(fitted, scheme)
        batch, form = read_sequences(fitted, X)
        mask = fitted._mask(batch, form, known)
        with fitted._asked(batch, mask) as model:
            segments, probability = model.segment_marginals(
                batch, threshold, tags.tags, n_jobs=fitted.n_jobs, mask=mask
            )
        return segment_tables(batch, segments, probability, tags.names)

    @overload
    def predict_segments(
        self, X: Any, *, scheme: str = "auto", known: Any = None, with_probability: Literal[False] = False
    ) -> list[list[tuple[int, int, Any]]]: ...
    @overload
    def predict_segments(
        self, X: Any, *, scheme: str = "auto", known: Any = None, with_probability: Literal[True]
    ) -> list[np.ndarray]: ...
    @overload
    def predict_segments(self, X: Any, *, scheme: str = "auto", known: Any = None, with_probability: bool) -> list: ...
    def predict_segments(
        self, X: Any, *, scheme: str = "auto", known: Any = None, with_probability: bool = False
    ) -> list:
        """Return the segments encoded by the predicted labels.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`predict`.
        scheme : {"auto", "bio", "bioes", "bilou", "bmes", "iob1", "runs"}, default="auto"
            As in :meth:`segment_marginals`.
        known : list of label sequences, or array-like, default=None
            As in :meth:`predict`.
        with_probability : bool, default=False
            Whether to include the probabilities of the segments, as in :meth:`segment_marginals`.

        Returns
        -------
        segments : list of lists of (int, int, label), or list of structured arrays
            (start, stop, label) of each segment in order, with ``stop`` excluded. With probabilities, arrays like those
            of :meth:`segment_marginals`; pass their ``tolist()`` to json, which does not support numpy numbers.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
        >>> crf = HighOrderCRF(constraints="bio").fit(X, y)
        >>> crf.predict_segments(X)
        [[(0, 2, 'PER'), (3, 4, 'PER')], [(1, 2, 'PER')]]
        >>> crf.predict_segments(X, with_probability=True)[1]["probability"].round(2)
        array([0.69])
        """
        fitted: Any = self._as_fitted()
        tags = _tags_of(fitted, scheme)
        if with_probability:
            fitted._has_probabilities()
        batch, form = read_sequences(fitted, X)
        mask = fitted._mask(batch, form, known)
        plan = fitted._plan(batch, mask) if with_probability else None
        codes = fitted._decode(batch, mask, plan)
        if tags.scheme == "runs":
            segments = segments_of_labels(codes, batch.offsets)
        else:
            segments = segments_of_tags(tags.table.prefix[codes], tags.table.label[codes], batch.offsets).without(-1)
        if not with_probability:
            return segment_lists(segments, batch.offsets, tags.names.tolist())
        with fitted._asked(batch, mask) as model:
            options = {"n_jobs": fitted.n_jobs, "mask": mask, "plan": plan}
            probability = model.segment_probabilities(batch, segments, tags.tags, **options)
        return segment_tables(batch, segments, probability, tags.names)

    @property
    def scheme_(self) -> str:
        """How labels encode segments: the scheme of the constraints, or guessed from the labels."""
        fitted: Any = self
        constraints = fitted._fitted.trained_with.get("constraints")
        return constraints if isinstance(constraints, str) else guessed_scheme(fitted.classes_.tolist())

    def _decode_tokens(
        self, batch: SequenceBatch, gains: np.ndarray, mask: Mask | None, constrained: bool
    ) -> np.ndarray:
        fitted: Any = self
        if constrained:
            with fitted._asked(batch, mask) as model:
                return model.decode_gains(batch, gains, n_jobs=fitted.n_jobs, mask=mask)
        if mask is not None:
            gains = np.where(mask.allowed, gains, -np.inf)
        return gains.argmax(axis=1).astype(np.int32)

    def _decode_segments(self, batch: SequenceBatch, decoding: SegmentDecoding, mask: Mask | None) -> np.ndarray:
        fitted: Any = self
        tags = _tags_of(fitted, decoding.scheme, "SegmentDecoding, scheme")
        thresholds = decoding.thresholds(tags.names.tolist())
        model = fitted._build_model()
        with fitted._naming_the_impossible(model, batch, mask):
            mask = model.narrowed(batch, mask)  # for a pruned model, to the candidates
        is_forced = np.zeros(batch.n_tokens, dtype=bool)
        if tags.outside < 0:  # all tokens are in segments
            thresholds[:], is_forced[:] = 0.0, True
        elif mask is not None:
            is_forced = ~mask.allowed[:, tags.outside]
        least = RARE if is_forced.any() else float(thresholds.min(initial=1.0))
        with fitted._asked(batch, mask) as model:
            segments, probability = model.segment_marginals(batch, least, tags.tags, n_jobs=fitted.n_jobs, mask=mask)
        gains = probability - thresholds[segments.codes]
        codes, begins = np.full(batch.n_tokens, tags.outside, np.int32), np.zeros(batch.n_tokens, bool)
        for first, stop in itertools.pairwise(batch.offsets.tolist()):
            cover = best_cover(stop - first, _listed(segments, gains, first, stop), is_forced[first:stop])
            _write_tags(codes[first:stop], cover, tags, tags.scheme == "iob1")
            begins[first:stop] = codes[first:stop] == tags.outside
            begins[[first + start for _, start, *_ in cover]] = True
        for n in _misread(fitted, batch, codes, begins, tags, mask).tolist():
            first, stop = batch.offsets[n : n + 2].tolist()
            part = None if mask is None else mask.part(np.arange(first, stop))
            one = batch[[n]]
            with fitted._asked(one, part) as model:
                options = {"n_jobs": fitted.n_jobs, "mask": part}
                segments, probability = model.segment_marginals(one, RARE, tags.tags, **options)
                candidates = _listed(segments, probability - thresholds[segments.codes], 0, stop - first)
                allowed = np.ones((stop - first, len(fitted.classes_)), bool) if part is None else part.allowed
                written = best_writing(candidates, tags, allowed, set(fitted._layout.forbidden))
                codes[first:stop] = model.decode(one, **options) if written is None else written
        return codes


def _listed(segments: Segments, gains: np.ndarray, first: int, stop: int) -> list:
    """Return the segments of a sequence, (stop, start, gain, label), sorted by stop."""
    low, high = np.searchsorted(segments.start, (first, stop))
    columns = segments.stop[low:high] - first, segments.start[low:high] - first, gains[low:high]
    listed = zip(*(column.tolist() for column in (*columns, segments.codes[low:high])), strict=True)
    return sorted(listed, key=lambda segment: segment[0])


def _misread(
    fitted: Any, batch: SequenceBatch, codes: np.ndarray, begins: np.ndarray, tags: SegmentTags, mask: Mask | None
) -> np.ndarray:
    """Return the sequences whose labels are impossible, or encode segments that do not begin as given."""
    is_wrong = np.zeros(batch.n_tokens, bool) if mask is None else ~mask.allowed[np.arange(len(codes)), codes]
    is_wrong |= codes < 0
    goes_on = np.append(False, tags.tags.goes_on[codes[:-1], codes[1:]])[: len(codes)]
    is_first = np.zeros(batch.n_tokens + 1, bool)
    is_first[batch.offsets] = True
    is_wrong |= begins == (goes_on & ~is_first[:-1])
    wrong = np.diff(offsets_of(is_wrong)[batch.offsets]) > 0
    if fitted._layout.forbidden:
        wrong |= fitted._build_model().log_score(batch, np.maximum(codes, 0)) == -np.inf
    return np.flatnonzero(wrong)


def _tags_of(fitted: Any, scheme: str, what: str = "scheme") -> SegmentTags:
    """Return the labels of a fitted model as tags of segments; ``what`` is the name of the scheme in messages."""
    check_choice(what, scheme, SEGMENT_SCHEMES)
    made = fitted._fitted.made
    if scheme not in made.tags:
        made.tags[scheme] = _read_tags(fitted, scheme, what)
    return made.tags[scheme]


def _read_tags(fitted: Any, scheme: str, what: str) -> SegmentTags:
    if scheme == "auto":
        scheme = fitted.scheme_
        _refuse_mixture(fitted.classes_.tolist(), scheme, what)
    return each_its_own(fitted.classes_) if scheme == "runs" else read_segment_tags(fitted.classes_, scheme, what)


def _refuse_mixture(labels: list, scheme: str, what: str) -> None:
    """Raise a ValueError if some labels look like tags although not all labels are tags of one scheme."""
    tags = [label for label in labels if isinstance(label, str) and label.startswith("B-") and split_tag(label, "bio")]
    if tags and scheme == "runs":
        others = [label for label in labels if split_tag(label, "bio") is None]
        raise ValueError(
            f'{what}="auto": the label {short(tags[0])} looks like a tag, but not all labels are tags of one scheme'
            f'{f" ({short(others[0])} is not a tag)" if others else ""}: name the scheme, or "runs" of equal labels'
        )


def _write_tags(codes: np.ndarray, cover: list, tags: SegmentTags, is_iob1: bool) -> None:
    """Write the labels of segments (stop, start, gain, label), in order, to the tokens of a sequence."""
    before = None
    for stop, start, _, label in cover:
        first, inner, last, only = tags.roles[label].tolist()
        if is_iob1 and before != (start, label):  # B only after a segment of the same label
            first = only = inner
        codes[start:stop] = inner
        codes[stop - 1], codes[start] = last, only if stop - start == 1 else first
        before = stop, label
