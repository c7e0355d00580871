"""Queries on a batch. ``posterior.Posterior`` declares them, and its subclasses implement them."""
