"""The fitted state, and predictions in the form of X."""
