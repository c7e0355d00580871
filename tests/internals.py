"""The private names of the package that tests import, all in one place: who moves one changes one line here."""

# ruff: noqa: F401

from sklearn_hocrf import _files, _kernels, _names_elsewhere
from sklearn_hocrf.__main__ import main, tell_progress
from sklearn_hocrf._commands import _check_tags as check_tags
from sklearn_hocrf._data import arrays, batch, folders, schemes
from sklearn_hocrf._data.arrays import BufferPool, allocator, empty_aligned, freeze, mapped_file, reading_order
from sklearn_hocrf._data.batch import SequenceBatch, as_sparse, cut_sequences, with_blocks, without_dense
from sklearn_hocrf._data.checks import GUIDE
from sklearn_hocrf._data.columns import DenseColumns, TokenColumn
from sklearn_hocrf._data.labels import decode_labels, flatten_labels, position_name, sorted_labels
from sklearn_hocrf._data.masks import Mask, both
from sklearn_hocrf._data.segment_features import RowBlock, blocks_of, segment_features
from sklearn_hocrf._data.segments import (
    BAG,
    BEGIN,
    END_OF_SEGMENT,
    FROM_START,
    FROM_STOP,
    INSIDE,
    NO_LIMIT,
    RANGE,
    WHOLE,
    Channel,
    LengthBlock,
    Segments,
    TokenBlock,
)
from sklearn_hocrf._data.texts import pack_texts, unpack_texts
from sklearn_hocrf._data.warnings import warn_user
from sklearn_hocrf._display import COLORS, GREY, Table, color_map, number
from sklearn_hocrf._estimator import answers, base, callbacks, fitted_model, fitting, patterns, progress, pruning
from sklearn_hocrf._estimator.answers import AnswersMixin
from sklearn_hocrf._estimator.compatibility import CIRCUMSTANCES, FEATURES, REFUSALS, refuse
from sklearn_hocrf._estimator.fit_steps import FitSteps
from sklearn_hocrf._estimator.fitted_model import FittedModel
from sklearn_hocrf._estimator.patterns import pattern_labels
from sklearn_hocrf._estimator.predictions import PredictionsMixin
from sklearn_hocrf._estimator.progress import Forecast, duration, lines_of, write_line
from sklearn_hocrf._estimator.tag_segments import TagSegmentsMixin
from sklearn_hocrf._inference import schedule
from sklearn_hocrf._inference.candidates import CandidateFinder, Candidates, _Descent, train_level_zero
from sklearn_hocrf._inference.chain import ChainModel
from sklearn_hocrf._inference.families import CHAIN, SEGMENTS, UNLIMITED, recursion_of
from sklearn_hocrf._inference.feature_matching import Matching
from sklearn_hocrf._inference.lattice import LatticeModel, LatticePlan
from sklearn_hocrf._inference.minibatches import shuffled_minibatches
from sklearn_hocrf._inference.passes import MarginalPass
from sklearn_hocrf._inference.posterior import ImpossibleSequence, LanePosterior
from sklearn_hocrf._inference.schedule import Schedule, SharedWork, Workspace, _deal, threads_for
from sklearn_hocrf._inference.segment import SegmentModel, SegmentPlan
from sklearn_hocrf._inference.segment_ages import AgedModel, AgedPass, AgedPlan
from sklearn_hocrf._kernels import _wide, chain, rounded, segment, segment_scores, token_scores
from sklearn_hocrf._kernels._vectors import LANES, STEP, add_folded, load, load_step, store, store_step
from sklearn_hocrf._objectives import OBJECTIVES, LocalFeatureMatching, NegativeLogLikelihood, Objective, Problem, Tied
from sklearn_hocrf._penalties import Penalty
from sklearn_hocrf._pipeline import _questions
from sklearn_hocrf._solvers import (
    LBFGS,
    SGD,
    LBFGSMemory,
    Progress,
    SearchEnd,
    SolverReport,
    minimize_in_box,
    shortest_subgradient,
    zero_of_slope,
)
from sklearn_hocrf._solvers._common import Point, reached_tolerance
from sklearn_hocrf._solvers._stochastic import _first_state, _run_epoch
from sklearn_hocrf._structure.automaton import build_automaton
from sklearn_hocrf._structure.label_parts import LabelParts
from sklearn_hocrf._structure.layout import LayoutBuilder, LayoutFrame, WeightLayout
from sklearn_hocrf._structure.pairs import FeatureMap, PairRule, first_seen
from sklearn_hocrf._structure.patterns import PatternTable, TagHistory, all_patterns, count_patterns, given_patterns
from sklearn_hocrf._structure.segment_ages import aged, what_needs_lengths
from sklearn_hocrf._structure.segment_layout import SegmentLayout, SegmentLayoutBuilder, SegmentLimits, SegmentRules
from sklearn_hocrf._structure.sum_network import _pairs_with_arcs_below, build_sum_network
from sklearn_hocrf._structure.tied_weights import tie_weights
from sklearn_hocrf._structure.weight_groups import match_prefixes, weight_groups
from sklearn_hocrf._structure.weighted_arcs import compile_patterns, log_spread, weighted_arcs
from sklearn_hocrf._validation import _callbacks
from sklearn_hocrf._validation._attributes import Vocabulary, read_attributes, sort_vocabulary
from sklearn_hocrf._validation._delegation import model_inside
from sklearn_hocrf._validation._inputs import (
    FeatureSpace,
    check_sequence_weight,
    read_sequences,
    read_training_sequences,
)
from sklearn_hocrf._validation._segment_targets import read_segment_targets
from sklearn_hocrf._validation._token_targets import read_token_targets
from sklearn_hocrf._warm_up import WarmUp, compiled, kernels
from sklearn_hocrf.feature_extraction import _template_rows
from sklearn_hocrf.feature_extraction._columns import text_column
from sklearn_hocrf.feature_extraction._names import names_of_blocks
from sklearn_hocrf.feature_extraction._strings import fingerprints, token_numbers
from sklearn_hocrf.feature_extraction._tags import PRESETS, tag_channel
from sklearn_hocrf.feature_extraction._templates import TemplateVocabularies
from sklearn_hocrf.inspection._explanation import _reasons as summed_reasons
from sklearn_hocrf.inspection._weights import template_of
from sklearn_hocrf.model_selection._fold import Fold, FoldStep
from sklearn_hocrf.model_selection._groups import WeightGroups
from sklearn_hocrf.model_selection._order_search import Step, best_index, settle
from sklearn_hocrf.model_selection._splits import (
    make_fold,
    split_data,
    training_data,
    used_parts,
)


def observed_patterns(
    codes, offsets, n_labels, max_order, min_count=1, sequence_weight=None, history="tokens", announce=None
):
    """Return the table of the patterns that occur in training labels often enough."""
    counts = count_patterns(codes, offsets, n_labels, max_order, min_count, sequence_weight, history)
    return counts.frequent(n_labels, min_count, announce)
