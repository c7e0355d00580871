"""Queries about a batch. ``model.Model`` declares them; ``families`` lists the classes that implement them."""
