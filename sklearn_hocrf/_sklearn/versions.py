"""Support for files of fitted objects: the version that wrote them, mappings as lists, trusted types.

scikit-learn writes its version only into the pickles of its own estimators, whose module names begin with "sklearn.".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from .. import _data

_KEY = "_sklearn_hocrf_version"

# For skops.io.load(file, trusted=TRUSTED_TYPES): all types of this package in files of its models. Each checks, when it
# is loaded, all indices used by kernels. User-defined functions are not included.
TRUSTED_TYPES = (
    "sklearn_hocrf.Constraints",
    "sklearn_hocrf.StackedSequenceLabeler",
    "sklearn_hocrf._data.segments.Channel",
    "sklearn_hocrf._data.segments.LengthBlock",
    "sklearn_hocrf._data.segments.Segments",
    "sklearn_hocrf._data.segments.TokenBlock",
    "sklearn_hocrf._engine.inference.candidates.LevelZero",
    "sklearn_hocrf._engine.structure.layout.WeightLayout",
    "sklearn_hocrf._engine.structure.pairs.FeatureMap",
    "sklearn_hocrf._engine.structure.pairs.LabelParts",
    "sklearn_hocrf._engine.structure.patterns.PatternTable",
    "sklearn_hocrf._engine.structure.segment_layout.SegmentLayout",
    "sklearn_hocrf._engine.structure.segment_layout.SegmentRules",
    "sklearn_hocrf._engine.training.stochastic.TrainingState",
    "sklearn_hocrf._estimator.answers.fitted.FittedState",
    "sklearn_hocrf._estimator.pipeline.SequencePipeline",
    "sklearn_hocrf._reading.inputs.FeatureSpace",
    "sklearn_hocrf._reading.targets.SegmentTargets",
    "sklearn_hocrf._reading.targets.TokenTargets",
    "sklearn_hocrf.crf.HighOrderCRF",
    "sklearn_hocrf.feature_extraction.SegmentFeatureExtractor",
    "sklearn_hocrf.feature_extraction.SegmentLogOddsEncoder",
    "sklearn_hocrf.feature_extraction.SequenceFeatureExtractor",
    "sklearn_hocrf.feature_extraction.TokenTransformer",
    "sklearn_hocrf.feature_extraction.WindowFeatures",
    "sklearn_hocrf.feature_extraction._attributes.NamedAttributes",
    "sklearn_hocrf.feature_extraction._input_space.InputSpace",
    "sklearn_hocrf.feature_extraction._log_odds.LogOddsRows",
    "sklearn_hocrf.feature_extraction._names.ConstantNames",
    "sklearn_hocrf.feature_extraction._names.FeatureNames",
    "sklearn_hocrf.feature_extraction._names.HashedNames",
    "sklearn_hocrf.feature_extraction._names.InputFeatures",
    "sklearn_hocrf.feature_extraction._names.PrefixedNames",
    "sklearn_hocrf.feature_extraction._segment_rows.FunctionRows",
    "sklearn_hocrf.feature_extraction._segment_rows.IdentityRows",
    "sklearn_hocrf.feature_extraction._templates.TemplateVocabularies",
    "sklearn_hocrf.feature_extraction._token_functions.Phrases",
    "sklearn_hocrf.model_selection.CalibratedSequenceLabeler",
    "sklearn_hocrf.model_selection.ConformalSequenceLabeler",
    "sklearn_hocrf.model_selection.PenaltySearchCV",
    "sklearn_hocrf.semicrf.HighOrderSemiCRF",
    "sklearn_hocrf.training.LBFGS",
    "sklearn_hocrf.training.SGD",
)


class OtherVersionWarning(InconsistentVersionWarning):
    """Warning that an object was saved by another version of sklearn_hocrf.

    Filters for scikit-learn's warning about other versions of scikit-learn also apply to this warning.
    """

    def __init__(self, estimator_name, current_version, original_version):
        super().__init__(estimator_name=estimator_name, current_sklearn_version=None, original_sklearn_version=None)
        self.current_version, self.original_version = current_version, original_version

    def __str__(self):
        return (
            f"this {self.estimator_name} was saved by sklearn_hocrf {self.original_version} and is being loaded by "
            f"{self.current_version}: its results may be wrong. Fit it again, or load it with the version that saved it"
        )


class VersionMixin:
    """Mixin that adds the package's version to the saved state; among base classes, list it before ``BaseEstimator``.

    In notebooks, scikit-learn's diagram of an estimator links to the documentation page that this class specifies.
    """

    _doc_link_module = "sklearn_hocrf"
    _doc_link_template = f"{_data.SITE}/api/generated/{{estimator_module}}.{{estimator_name}}.html"

    def __getstate__(self):
        return {**super().__getstate__(), _KEY: _data.__version__}

    def __setstate__(self, state):
        state = dict(state)
        original, current = state.pop(_KEY, "(an unknown version)"), _data.__version__
        if original != current:
            warnings.warn(OtherVersionWarning(type(self).__name__, current, original), stacklevel=2)
        super().__setstate__(state)


def with_lists(parameters: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return parameters with the named mappings as lists, because skops cannot write tuples as keys."""
    mappings = {name: parameters[name] for name in names if isinstance(parameters.get(name), Mapping)}
    lists = {name: {"keys": list(mapping), "values": list(mapping.values())} for name, mapping in mappings.items()}
    return {**parameters, **lists}


def with_mappings(parameters: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Undo :func:`with_lists`, or raise a ValueError if the parameters cannot be its result."""
    lists = {name: parameters[name] for name in names if isinstance(parameters.get(name), Mapping)}
    try:
        mappings = {name: dict(zip(both["keys"], both["values"], strict=True)) for name, both in lists.items()}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{' and '.join(lists)} need keys and values, got {lists!r:.80}") from error
    return {**parameters, **mappings}
