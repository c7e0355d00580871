"""Inference for whole batches: partition functions, marginals, expectations, best labellings."""
