"""Passes and checks for GPU kernels: virtual threads, barriers, memory spaces, launches, limits."""
