"""Segments of label sequences."""

from __future__ import annotations

from typing import Any

from .._data.label_sequences import LabelSequences, read_given_segments, segments_of_sequences

__all__ = ["extract_segments"]


def extract_segments(
    y: LabelSequences, *, scheme: str = "auto", strict: bool = False
) -> list[list[tuple[int, int, Any]]]:
    """Return the segments of label sequences.

    Parameters
    ----------
    y : list of sequences
        Label sequences of any lengths: lists, tuples or arrays of shape (n_tokens,).
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="auto"
        How labels encode segments:

        * "auto": the scheme that all labels fit, or else "runs"; "segments" if y consists of them;
        * "runs": a segment is a maximal run of equal labels;
        * "bio": tags "B-PER", "I-PER", "O"; a segment begins with B and continues with I of the same label;
        * "bioes": the same with E for the last token and S for segments of one token; "bilou" (spaCy) and "bmes" use
          other letters for the same tags;
        * "iob1": a segment begins with I, but with B directly after a segment of the same label;
        * "segments": y already contains segments, (start, stop, label) with ``stop`` excluded; they are only checked.

        A tag without a label ("B", "I") has the label "_". Labels that are all "O" are tags.
    strict : bool, default=False
        Whether invalid tags are left out of segments, as with ``mode="strict"`` in seqeval. Examples are an I of "bio"
        after an O and a B of "bioes" without an E. If False, every tag other than O belongs to a segment; a new segment
        begins at B, at S, after E, and where the label changes. These are the rules of conlleval, seqeval's default
        mode and :class:`~sklearn_hocrf.HighOrderSemiCRF`.

            tags (bio)           strict=False            strict=True
            O    I-PER           [1, 2) PER              none
            B-PER  I-LOC         [0, 1) PER, [1, 2) LOC  [0, 1) PER
            B-PER  B-PER  I-PER  [0, 1) PER, [1, 3) PER  the same

    Returns
    -------
    segments : list of lists of (int, int, label)
        (start, stop, label) of each segment, in order.

    Raises
    ------
    TypeError, ValueError
        If a tag or a segment is invalid; the message names sequence and position.

    Warns
    -----
    UserWarning
        If "auto" may have guessed wrongly: where tags have no labels, and where some labels look like tags, but others
        do not.

    Examples
    --------
    >>> from sklearn_hocrf.text import extract_segments
    >>> extract_segments([["author", "author", "date"], []])
    [[(0, 2, 'author'), (2, 3, 'date')], []]
    >>> tags = [["I-PER", "O", "B-LOC", "I-LOC", "B-LOC"]]
    >>> extract_segments(tags)
    [[(0, 1, 'PER'), (2, 4, 'LOC'), (4, 5, 'LOC')]]
    >>> extract_segments(tags, strict=True)
    [[(2, 4, 'LOC'), (4, 5, 'LOC')]]
    """
    return segments_of_sequences(read_given_segments(y, scheme, strict, "y")[0])
