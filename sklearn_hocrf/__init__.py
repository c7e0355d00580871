"""High-order conditional random fields for scikit-learn users.

:class:`HighOrderCRF` gives each token of a sequence a label, :class:`HighOrderSemiCRF` cuts sequences into labelled
segments. ``feature_extraction`` makes their features, ``metrics`` says how good their predictions are, ``inspection``
how sure they are, ``datasets`` reads and generates data.
"""

from . import datasets, feature_extraction, inspection, metrics
from .crf import HighOrderCRF
from .semicrf import HighOrderSemiCRF

__version__ = "0.1.0"

__all__ = ["HighOrderCRF", "HighOrderSemiCRF", "__version__", "datasets", "feature_extraction", "inspection", "metrics"]
