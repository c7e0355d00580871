"""Turn any form of X and y into one SequenceBatch and label codes, and report bad input.

    form         X                                                              y
    "table"      plain 2-D array, data frame or sparse matrix                   1-D: n sequences of length 1
    "grid"       3-D array: sequences of one length                             2-D array, or a list of sequences
    "sequences"  list of sequences, or a SequenceBatch                          list of label sequences

A sequence is a list of feature dicts or of attribute-name lists (``_attributes``), or a 2-D array or sparse matrix
(``_rows``). No function of this package changes an estimator: fit keeps its description of X as a
:class:`FeatureSpace`.
"""

from .._data.warnings import scheme_of_labels, unwarned, warn_user
from ._inputs import (
    NO_TOKENS,
    FeatureSpace,
    TrainingData,
    TrainingSequences,
    check_sequence_weight,
    read_sequences,
    read_training_sequences,
    refuse_no_tokens,
    sequences_like,
    used_sequences,
)
from ._messages import refuse_metrics_of_labels
from ._segment_targets import SegmentTargets, read_partition_targets, read_segment_targets
from ._token_targets import TokenTargets, read_token_targets

__all__ = [
    "NO_TOKENS",
    "FeatureSpace",
    "SegmentTargets",
    "TokenTargets",
    "TrainingData",
    "TrainingSequences",
    "check_sequence_weight",
    "read_partition_targets",
    "read_segment_targets",
    "read_sequences",
    "refuse_metrics_of_labels",
    "refuse_no_tokens",
    "read_token_targets",
    "read_training_sequences",
    "scheme_of_labels",
    "sequences_like",
    "unwarned",
    "used_sequences",
    "warn_user",
]
