"""Questions about a batch. ``model.Model`` declares them, ``families`` lists who answers: chain, segment, lattice."""
