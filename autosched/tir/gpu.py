"""Numbers that all NVIDIA GPUs have in common (CUDA C++ Programming and Best Practices Guides)."""

WARP = 32
"""The number of lanes of a warp."""

BANKS, BANK = 32, 4
"""The number of shared-memory banks, and the bytes that a bank delivers per cycle ("Shared
Memory")."""

MOST_BLOCKS = 65535
"""The most blocks of a launch along y and z ("Technical Specifications per Compute Capability")."""

SECTOR = 32
"""The bytes of a sector, the unit of global-memory transfers ("Coalesced Access")."""
