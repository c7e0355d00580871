"""Questions about a batch. ``model.Model`` declares them; chain, segment and lattice answer; ``families`` lists these."""
