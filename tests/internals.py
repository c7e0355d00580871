"""All private names of the package that tests import: a module that moves changes one line here."""

# ruff: noqa: F401

from sklearn_hocrf._data.arrays import freeze, mapped_file
from sklearn_hocrf._data.batch import SequenceBatch, as_sparse, with_blocks
from sklearn_hocrf._data.checks import GUIDE
from sklearn_hocrf._data.columns import DenseColumns, TokenColumn
from sklearn_hocrf._data.messages import pack_texts, unpack_texts, warn_user
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
    Mask,
    Segments,
    TokenBlock,
    both,
    token_labels,
)
from sklearn_hocrf._engine import kernels as _kernels
from sklearn_hocrf._engine.inference import schedule
from sklearn_hocrf._engine.inference.candidates import CandidateFinder, Candidates, LatticeModel, LatticePlan
from sklearn_hocrf._engine.inference.chain import ChainModel
from sklearn_hocrf._engine.inference.minibatches import shuffled_minibatches
from sklearn_hocrf._engine.inference.passes import MarginalPass
from sklearn_hocrf._engine.inference.posterior import ImpossibleSequence, LanePosterior
from sklearn_hocrf._engine.inference.schedule import Schedule, SharedWork, _deal, threads_for
from sklearn_hocrf._engine.inference.segment import AgedModel, AgedPlan, SegmentModel, SegmentPlan
from sklearn_hocrf._engine.kernels import (
    _vectors as _wide,
)
from sklearn_hocrf._engine.kernels import (
    lists as rounded,
)
from sklearn_hocrf._engine.kernels._vectors import LANES, STEP, add_folded, load, load_step, store, store_step
from sklearn_hocrf._engine.structure.automaton import build_automaton
from sklearn_hocrf._engine.structure.layout import LayoutBuilder, LayoutFrame, WeightLayout
from sklearn_hocrf._engine.structure.pairs import FeatureMap, LabelParts, PairRule
from sklearn_hocrf._engine.structure.patterns import (
    PatternTable,
    all_patterns,
    count_patterns,
    given_patterns,
)
from sklearn_hocrf._engine.structure.segment_ages import aged, what_needs_lengths
from sklearn_hocrf._engine.structure.segment_layout import (
    SegmentLayout,
    SegmentLayoutBuilder,
    SegmentRules,
)
from sklearn_hocrf._engine.structure.sum_network import build_sum_network
from sklearn_hocrf._engine.structure.weighted_arcs import compile_patterns, log_spread, weighted_arcs
from sklearn_hocrf._engine.training import minimise, pruning
from sklearn_hocrf._engine.training.hypergradient import Fold, FoldStep
from sklearn_hocrf._engine.training.hypergradient import _ByDistance as ByDistance
from sklearn_hocrf._engine.training.lbfgs import LBFGS, LBFGSMemory, LBFGSMinimizer
from sklearn_hocrf._engine.training.minimise import Tied, tie_weights
from sklearn_hocrf._engine.training.objectives import OBJECTIVES, LocalFeatureMatching, NegativeLogLikelihood, Objective
from sklearn_hocrf._engine.training.penalties import Penalty
from sklearn_hocrf._engine.training.problem import Matching, Problem
from sklearn_hocrf._engine.training.pruning import PrunedProblem, _Descent, train_level_zero
from sklearn_hocrf._engine.training.solvers import (
    Minimizer,
    Point,
    SearchEnd,
    minimize_in_box,
    reached_tolerance,
    shortest_subgradient,
    zero_of_slope,
)
from sklearn_hocrf._engine.training.stochastic import SGD, SGDMinimizer, _first_state, _run_epoch
from sklearn_hocrf._estimator import base
from sklearn_hocrf._estimator.answers import query
from sklearn_hocrf._estimator.answers.fitted import FittedModel
from sklearn_hocrf._estimator.answers.predictions import AnswersMixin, PredictionsMixin, TagSegmentsMixin
from sklearn_hocrf._estimator.fit import progress
from sklearn_hocrf._estimator.fit import training as fitting
from sklearn_hocrf._estimator.fit.fit_steps import FitSteps
from sklearn_hocrf._estimator.fit.parameters import CIRCUMSTANCES, FEATURES, REFUSALS, refuse
from sklearn_hocrf._estimator.fit.penalties import weight_groups
from sklearn_hocrf._estimator.fit.progress import ProgressLines, duration, write_line
from sklearn_hocrf._estimator.fit.training import with_targets
from sklearn_hocrf._estimator.labels.constraints import Rules
from sklearn_hocrf._estimator.labels.kinds import SegmentKind
from sklearn_hocrf._estimator.labels.patterns import pattern_labels
from sklearn_hocrf._estimator.pipeline import _methods_of_X
from sklearn_hocrf._reading import schemes
from sklearn_hocrf._reading.attributes import Vocabulary, read_attributes, sort_vocabulary
from sklearn_hocrf._reading.inputs import (
    FeatureSpace,
    Reader,
    check_sequence_weight,
    read_sequences,
    read_training_sequences,
)
from sklearn_hocrf._reading.labels import decode_labels, flatten_labels, position_name, sorted_labels
from sklearn_hocrf._reading.targets import read_segment_targets, read_token_targets
from sklearn_hocrf._shell.commands import main, tell_progress
from sklearn_hocrf._shell.warm_up import WarmUp, kernels
from sklearn_hocrf._sklearn import names as _callbacks
from sklearn_hocrf._sklearn.names import Interval, Options
from sklearn_hocrf.feature_extraction import _string_templates, _template_rows
from sklearn_hocrf.feature_extraction._base import fingerprints, token_numbers
from sklearn_hocrf.feature_extraction._columns import text_column
from sklearn_hocrf.feature_extraction._names import names_of_blocks
from sklearn_hocrf.feature_extraction._segment_extractor import PRESETS, tag_channel
from sklearn_hocrf.feature_extraction._templates import TemplateVocabularies
from sklearn_hocrf.inspection._display import COLORS, Table, color_map, number
from sklearn_hocrf.model_selection import _order_search, _penalty_search
from sklearn_hocrf.model_selection._groups import WeightGroups, make_fold, split_data, training_data, used_parts
from sklearn_hocrf.model_selection._order_search import Step, _refuse_infinite, best_index, has_risen_enough, settle


def observed_patterns(
    codes, offsets, n_labels, max_order, min_count=1, sequence_weight=None, history="tokens", announce=None
):
    """Return the table of the patterns that occur often enough in training labels."""
    counts = count_patterns(codes, offsets, n_labels, max_order, min_count, sequence_weight, history)
    return counts.frequent(n_labels, min_count, announce)
