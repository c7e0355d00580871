"""Which version of the package made a pickled object.

scikit-learn writes its version into the pickles of its own estimators alone: those whose module is "sklearn.".
"""

from __future__ import annotations

import warnings

from sklearn.exceptions import InconsistentVersionWarning

from . import _version

__all__ = ["OtherVersionWarning", "VersionMixin"]

_KEY = "_sklearn_hocrf_version"


class OtherVersionWarning(InconsistentVersionWarning):
    """An object comes from another version of sklearn_hocrf.

    A filter for scikit-learn's own warning about other versions of scikit-learn holds for this one, too.
    """

    def __init__(self, estimator_name, current_version, original_version):
        super().__init__(estimator_name=estimator_name, current_sklearn_version=None, original_sklearn_version=None)
        self.current_version, self.original_version = current_version, original_version

    def __str__(self):
        return (
            f"this {self.estimator_name} was saved by sklearn_hocrf {self.original_version}, and is loaded by "
            f"{self.current_version}: what it answers may be wrong. Fit it again, or load it by the version that saved "
            "it"
        )


class VersionMixin:
    """State that carries the version of the package; to stand before ``BaseEstimator``."""

    def __getstate__(self):
        return {**super().__getstate__(), _KEY: _current_version()}

    def __setstate__(self, state):
        state = dict(state)
        original, current = state.pop(_KEY, "(an unknown version)"), _current_version()
        if original != current:
            warnings.warn(OtherVersionWarning(type(self).__name__, current, original), stacklevel=2)
        super().__setstate__(state)


def _current_version():
    return _version.__version__
