"""Tensor instructions of processors, as data, and their statements."""
