"""Kernels: compiled loops that read and write arrays."""
