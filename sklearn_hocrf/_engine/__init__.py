"""The engine computes predictions and gradients from weights and arrays, independently of estimators."""
