"""Numbers that all NVIDIA GPUs have in common (CUDA C++ Programming and Best Practices Guides)."""

WARP = 32
"""Lanes of a warp."""

BANKS, BANK = 32, 4
"""Banks of shared memory, and the bytes that each has to give in a cycle ("Shared Memory")."""

MOST_BLOCKS = 65535
"""Blocks of a launch along y and along z ("Technical Specifications per Compute Capability")."""

SECTOR = 32
"""Bytes of global memory that are moved together ("Coalesced Access")."""
