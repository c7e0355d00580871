"""Compatibility with scikit-learn: its private names, pipelines and searches, and versions in files."""
