"""The version of the package, for the build, pickles and users, and the site that documents it."""

__version__ = "0.1.0"
SITE = "https://sklearn-hocrf.github.io/sklearn-hocrf/stable"
