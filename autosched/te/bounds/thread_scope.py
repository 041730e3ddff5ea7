"""Storage scopes and thread tags as ranks, which say whether threads share a buffer.

A buffer of storage rank s is private to each thread of thread rank t unless s <= t: global memory
is shared by all, shared memory by the threads of a block, local memory by none.
"""

from __future__ import annotations

from collections.abc import Iterable

GLOBAL, SHARED, WARP, LOCAL = range(4)

_STORAGE_RANKS = {
    "": GLOBAL,
    "global": GLOBAL,
    "shared": SHARED,
    "shared.dyn": SHARED,
    "warp": WARP,
    "local": LOCAL,
    "wmma.matrix_a": 4,
    "wmma.matrix_b": 5,
    "wmma.accumulator": 6,
}
_NAMES = {GLOBAL: "global", SHARED: "shared", WARP: "warp", LOCAL: "local"}
_DEFAULTS = {-1: GLOBAL, 0: SHARED, 1: LOCAL}


def storage_rank(scope: str) -> int:
    """The rank of storage scope `scope`; "" is global. KeyError for an unknown scope."""
    return _STORAGE_RANKS[scope]


def thread_rank(tag: str) -> int:
    """The rank of thread tag `tag`: 0 for blockIdx.*, 1 for threadIdx.*, vthread* and cthread."""
    return 0 if tag.startswith("blockIdx") else 1


def is_virtual_thread(tag: str) -> bool:
    """True for a tag of virtual threads, whose iterations one real thread runs unrolled."""
    return tag.startswith("vthread") or tag == "cthread"


def inferred_storage_rank(tags: Iterable[str]) -> int:
    """The rank of a buffer without explicit scope computed under threads with these tags."""
    ranks = (thread_rank(tag) for tag in tags if tag)
    return _DEFAULTS[max(ranks, default=-1)]


def scope_name(rank: int) -> str:
    """The storage scope of `rank` (global, shared, warp or local)."""
    return _NAMES[rank]
