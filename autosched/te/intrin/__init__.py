"""Tensor instructions of processors: their description as data, and the TIR that issues them."""
