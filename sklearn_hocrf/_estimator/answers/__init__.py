"""The fitted state, and every question to it in the form of X."""
