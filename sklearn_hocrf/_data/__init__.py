"""Sequences, segments and masks as arrays, their files, the module that reads tagger files, and helpers for messages.

These modules import only numpy and scipy.sparse, and do not depend on users' labels. The version of the package is
defined here.
"""

__version__ = "0.1.0"
SITE = "https://sklearn-hocrf.github.io/sklearn-hocrf/stable"
