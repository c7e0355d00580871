"""The version of the package, for the build, pickles and users."""

__version__ = "0.1.0"
