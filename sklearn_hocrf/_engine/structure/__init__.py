"""Model structure: label patterns, their automaton and sum network, and the layout of the weights."""
