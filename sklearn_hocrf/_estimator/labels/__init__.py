"""Settings for labels: patterns, constraints, tags, and parts of labels."""
