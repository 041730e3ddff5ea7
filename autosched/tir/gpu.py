"""Numbers that all NVIDIA GPUs have in common (CUDA C++ Programming and Best Practices Guides)."""

WARP = 32
"""Lanes of a warp."""

BANKS, BANK = 32, 4
"""Banks of shared memory, and the bytes that each has to give in a cycle ("Shared Memory")."""

SECTOR = 32
"""Bytes of global memory that are moved together ("Coalesced Access")."""
