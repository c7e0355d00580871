"""Code shared by both estimators."""
