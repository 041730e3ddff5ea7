"""Tensor cores in `autosched-1`: fragments are registers, and a warp does their stores together.

The loops of such a store stand for the instructions. No thread axis stands for the 32 lanes, since
ldmatrix, mma.sync and the store of a result are done by all lanes together.
"""

from __future__ import annotations

from autosched.features.autosched_1.store import StoreFacts
from autosched.features.walk.scope import BufferInfo

_FRAGMENT = "wmma."
_SPEED_BITS = 256
"""Bits of one operand that tensor cores multiply in the time of one float32 multiply-add."""
_OF_WARPGROUP = 1.6
"""The speed of wgmma relative to mma.sync, which reaches 0.62 of the peak of an H100's tensor cores
(arXiv 2402.13499)."""
_LOADED_BYTES = 16.0
"""Bytes that one ldmatrix of four matrices loads for a lane."""


def is_fragment(info: BufferInfo) -> bool:
    """Whether the lanes of a warp hold the buffer in registers."""
    return info.scope.startswith(_FRAGMENT)


def scope_of(info: BufferInfo) -> str:
    """The memory scope: global, shared or local; fragments are local."""
    return "local" if is_fragment(info) else info.scope or "global"


def by_warp(store: StoreFacts) -> bool:
    """Whether the lanes of a warp do the store together, because it accesses a fragment."""
    return any(is_fragment(access.info) for access in store.accesses)


def speed(store: StoreFacts) -> float:
    """How many iterations a lane does by one instruction, or in the time of one.

    Tensor cores do 8 (tf32), 16 (16 bits) or 32 times (bytes) the multiply-adds of float32 (NVIDIA
    A100 Tensor Core GPU Architecture, table 1); the ratios of H100 are near. ldmatrix loads 16
    bytes for a lane. A result is stored in pairs.
    """
    if not by_warp(store):
        return 1.0
    sources = [access.info for access in store.accesses[1:]]
    if not is_fragment(store.stored.info):
        return 2.0
    if store.reduces:
        factors = [info for info in sources if is_fragment(info) and info is not store.stored.info]
        if not factors:  # the instruction of a warpgroup, whose operands are in shared memory
            return _OF_WARPGROUP * _SPEED_BITS / (8 * max(info.bytes for info in sources[1:]))
        return _SPEED_BITS / (8 * max(info.bytes for info in factors))
    return _LOADED_BYTES / store.stored.info.bytes if sources else 1.0
