"""Arrays: sequences, segments and masks as arrays, files, the reader of taggers, words of messages.

These modules import only numpy and scipy.sparse, and do not depend on users' labels. The version is defined here.
"""

__version__ = "0.1.0"
SITE = "https://sklearn-hocrf.github.io/sklearn-hocrf/stable"
