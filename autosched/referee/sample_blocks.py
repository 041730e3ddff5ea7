"""The choice of blocks of a kernel that represent all blocks.

Two blocks for which all conditions have the same value run the same code on shifted data.
Conditions depend on the axes that were fused into blockIdx, so one block is taken per boundary of
each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from autosched.tir.expr import Call, Div, Expr, FloorDiv, FloorMod, IntImm, IterVar, Mod, Var
from autosched.tir.function import PrimFunc
from autosched.tir.interp_threads import BLOCK_TAGS
from autosched.tir.stmt import AttrStmt
from autosched.tir.walk import all_exprs, stmts

Array = np.ndarray[Any, Any]

_MOST_AXES = 5
_RANDOM = 2


def representative_blocks(
    functions: Iterable[PrimFunc], seed: int = 0
) -> Callable[[Mapping[str, int]], Array]:
    """A function that chooses at most d + 4 blocks for d axes in blockIdx, for `Watch.blocks`.

    These are the block that is first on all axes, the one that is last on all axes, for each axis
    the last block in the middle of the other axes, and two random ones. The axes follow from the
    divisions of blockIdx in `functions`; of more than five axes the longest five count.
    """
    strides = _strides(functions)

    def choose(extents: Mapping[str, int]) -> Array:
        axes: list[tuple[int, int]] = []  # (blocks between neighbours, length)
        below = 1
        for tag in BLOCK_TAGS:
            extent = extents.get(tag, 1)
            edges = [1, *_chain(strides.get(tag, set()), extent), extent]
            axes += [(below * a, b // a) for a, b in pairwise(edges) if b > a]
            below *= extent
        kept = sorted(axes, key=lambda axis: axis[1])[-_MOST_AXES:]
        middle = sum(step * (length // 2) for step, length in axes)
        numbers = [0, below - 1]
        numbers += [middle + step * (length - 1 - length // 2) for step, length in kept]
        numbers += np.random.default_rng(seed).integers(0, below, _RANDOM).tolist()
        return np.unique(np.array(numbers, np.int64))

    return choose


def _chain(strides: set[int], extent: int) -> list[int]:
    """The strides that divide one another and the extent, in ascending order."""
    found = [1]
    for stride in sorted(strides):
        if found[-1] < stride < extent and stride % found[-1] == 0 and extent % stride == 0:
            found.append(stride)
    return found[1:]


def _strides(functions: Iterable[PrimFunc]) -> dict[str, set[int]]:
    """For each thread axis, the divisors applied to it, directly or in a chain of divisions."""
    found: dict[str, set[int]] = {}
    for func in functions:
        tags: dict[Var, str] = {}
        for s in stmts(func.body):
            if isinstance(s, AttrStmt) and s.key == "thread_extent" and isinstance(s.node, IterVar):
                tags[s.node.var] = s.node.thread_tag or s.node.var.name
        for e in all_exprs(func.body):
            tag, divisor, rest = _quotient(e, tags)
            if tag is not None:
                found.setdefault(tag, set()).update({divisor, divisor * rest})
    return found


def _quotient(e: Expr, tags: Mapping[Var, str]) -> tuple[str | None, int, int]:
    """(axis, d, m) if `e` is `axis // d % m`; m is 1 without a remainder."""
    match e:
        case Var() if e in tags:
            return tags[e], 1, 1
        case FloorDiv(a, IntImm(n)) | Div(a, IntImm(n)) if n > 0:
            tag, divisor, rest = _quotient(a, tags)
            if rest % n:
                return (tag, divisor * n, 1) if rest == 1 else (None, 1, 1)
            return tag, divisor * n, rest // n
        case FloorMod(a, IntImm(n)) | Mod(a, IntImm(n)) if n > 0:
            tag, divisor, rest = _quotient(a, tags)
            return (tag, divisor, n) if rest == 1 else (None, 1, 1)
        case Call("shift_right", (a, IntImm(k))):
            return _quotient(FloorDiv(a, IntImm(1 << k, a.dtype)), tags)
        case Call("bitwise_and", (a, IntImm(n))) if n & (n + 1) == 0:
            tag, divisor, rest = _quotient(a, tags)
            return (tag, divisor, n + 1) if rest == 1 else (None, 1, 1)
    return None, 1, 1
