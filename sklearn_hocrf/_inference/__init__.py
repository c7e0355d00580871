"""Questions about whole batches: partition functions, marginals, expectations, best labellings."""
