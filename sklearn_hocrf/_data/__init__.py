"""Arrays: sequences, segments and masks as arrays, files, the reader of taggers, words of messages.

numpy and scipy.sparse alone, and no labels of users. The version is here for the build, pickles and users.
"""

__version__ = "0.1.0"
SITE = "https://sklearn-hocrf.github.io/sklearn-hocrf/stable"
