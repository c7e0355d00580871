"""Labelled sequences as arrays: batches, labels, segments, schemes."""
