"""The engine: from weights and arrays to answers and gradients; it knows no labels and no estimators."""
