"""All that the package takes from scikit-learn which scikit-learn does not promise to keep: one file to mend."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _get_feature_names as get_feature_names

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "check_method_params",
    "check_sample_weight",
    "fit_context",
    "get_feature_names",
    "safe_indexing",
]
