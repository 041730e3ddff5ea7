"""Passes for GPU kernels: virtual threads, limits, memory spaces."""
