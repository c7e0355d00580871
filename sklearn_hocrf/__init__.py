"""High-order conditional random fields for scikit-learn users."""

from . import datasets, feature_extraction, metrics
from .crf import HighOrderCRF

__version__ = "0.1.0"

__all__ = ["HighOrderCRF", "__version__", "datasets", "feature_extraction", "metrics"]
