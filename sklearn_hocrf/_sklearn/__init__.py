"""Compatibility with scikit-learn: its private names, pipelines and searches, versions in files."""
