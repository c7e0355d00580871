"""Settings about labels: patterns, constraints, tags, parts of labels."""
