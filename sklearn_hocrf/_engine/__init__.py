"""The engine: from weights and arrays to predictions and gradients, independent of users' labels and of estimators."""
