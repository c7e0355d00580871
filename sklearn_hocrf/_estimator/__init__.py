"""The common parts of both estimators."""
