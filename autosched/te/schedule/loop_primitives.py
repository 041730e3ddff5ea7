"""Primitives that change which loops a stage has: split, fuse, reorder, tile.

The examples show `B[i, j] = A[i, j] * 2` over 16 x 16.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.errors import ScheduleError
from autosched.te.relations import Fuse, Singleton, Split
from autosched.te.schedule.refusal import check_kind, leaf_position, names, refusal
from autosched.tir.dtype import int32
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Range, Var
from autosched.tir.given import flag
from autosched.tir.op import cast, const

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

_SPLITTABLE = (IterKind.DATA_PAR, IterKind.REDUCE, IterKind.ORDERED)
_MOVABLE = (IterKind.DATA_PAR, IterKind.REDUCE, IterKind.THREAD)
_RANK = {
    kind: rank
    for rank, kind in enumerate(
        (
            IterKind.DATA_PAR,
            IterKind.THREAD,
            IterKind.REDUCE,
            IterKind.ORDERED,
            IterKind.OPAQUE,
            IterKind.UNROLLED,
            IterKind.VECTORIZED,
            IterKind.PARALLELIZED,
            IterKind.TENSORIZED,
        )
    )
}


def split(
    stage: Stage,
    parent: IterVar,
    factor: Expr | int | None = None,
    nparts: Expr | int | None = None,
    disable_predication: bool = False,
) -> tuple[IterVar, IterVar]:
    """Replace loop `parent` by `parent.outer` and `parent.inner`; returns both.

    Give `factor` (the inner extent) or `nparts` (the outer extent). If that does not divide the
    extent of `parent`, the body gets a guard, unless `disable_predication`.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].split(i, factor=4):
        for i.outer in range(4):
            for i.inner in range(4):
                for j in range(16):
                    B[i.inner + i.outer * 4, j] = A[i.inner + i.outer * 4, j] * 2.0
    after s[B].split(i, nparts=5):
        for i.outer in range(5):
            for i.inner in range(4):
                for j in range(16):
                    if likely(i.inner + i.outer * 4 < 16):
                        B[i.inner + i.outer * 4, j] = A[i.inner + i.outer * 4, j] * 2.0
    """
    unguarded = flag("split: disable_predication", disable_predication)
    position = leaf_position("split", stage, parent)
    check_kind("split", stage, parent, _SPLITTABLE)
    if (factor is None) == (nparts is None):
        raise refusal("split", stage, parent, "give exactly one of factor and nparts")
    what, given = ("nparts", nparts) if factor is None else ("factor", factor)
    size = _iterations("split", stage, parent, what, given)
    dtype = parent.var.dtype
    outer = IterVar(None, Var(f"{parent.var.name}.outer", dtype), parent.kind)
    inner = IterVar(None, Var(f"{parent.var.name}.inner", dtype), parent.kind)
    stage.relations.append(
        Split(
            parent,
            outer,
            inner,
            None if factor is None else size,
            size if factor is None else None,
            unguarded,
        )
    )
    stage.all_iter_vars += (outer, inner)
    stage.leaf_iter_vars[position : position + 1] = (outer, inner)
    return outer, inner


def _iterations(primitive: str, stage: Stage, iv: IterVar, what: str, value: object) -> Expr:
    """`value` as a number of iterations; ScheduleError unless 1 <= value <= max of `iv`'s type."""
    dtype = iv.var.dtype
    if isinstance(value, Expr) and value.dtype.is_integral and not value.dtype.is_bool:
        if not isinstance(value, IntImm):
            return cast(dtype, value)
        value = value.value
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise refusal(primitive, stage, iv, f"{what} must be an integer, {found(value)}")
    number = int(value)
    if number < 1:
        raise refusal(primitive, stage, iv, f"{what} must be at least 1, found {number}")
    if number > dtype.max_value:
        most = f"{what} must be at most {dtype.max_value} (the axis is {dtype})"
        raise refusal(primitive, stage, iv, f"{most}, found {number}")
    return const(number, dtype)


def fuse(stage: Stage, *axes: IterVar) -> IterVar:
    """Replace adjacent loops by one loop `a.b.fused`, fusing from left to right; returns it.

    Without axes, a loop `singleton` of extent 1 is inserted outermost.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].fuse(i, j):
        for i.j.fused in range(256):
            B[i.j.fused // 16, i.j.fused % 16] = A[i.j.fused // 16, i.j.fused % 16] * 2.0
    """
    if not axes:
        return _singleton(stage)
    leaf_position("fuse", stage, axes[0])
    if len(axes) == 1:
        return axes[0]
    before = (stage.leaf_iter_vars.copy(), len(stage.all_iter_vars), len(stage.relations))
    fused = axes[0]
    try:
        for axis in axes[1:]:
            fused = _fuse_pair(stage, fused, axis)
    except ScheduleError:
        stage.leaf_iter_vars[:] = before[0]
        del stage.all_iter_vars[before[1] :]
        del stage.relations[before[2] :]
        raise
    return fused


def _fuse_pair(stage: Stage, outer: IterVar, inner: IterVar) -> IterVar:
    first = leaf_position("fuse", stage, outer)
    second = leaf_position("fuse", stage, inner)
    if first > second:
        outer, inner, first, second = inner, outer, second, first
    for iv in (outer, inner):
        check_kind("fuse", stage, iv, _SPLITTABLE)
    if second != first + 1:
        raise refusal(
            "fuse",
            stage,
            outer,
            f"not adjacent to {inner.var.name}; the loops are {names(stage.leaf_iter_vars)}",
        )
    dtype = max(outer.var.dtype, inner.var.dtype, key=lambda t: t.bits)
    kind = max(outer.kind, inner.kind, key=_RANK.__getitem__)
    fused = IterVar(None, Var(f"{outer.var.name}.{inner.var.name}.fused", dtype), kind)
    stage.relations.append(Fuse(outer, inner, fused))
    stage.all_iter_vars.append(fused)
    stage.leaf_iter_vars[first : first + 2] = (fused,)
    return fused


def _singleton(stage: Stage) -> IterVar:
    iv = IterVar(Range.of(1), Var("singleton", int32), IterKind.DATA_PAR)
    stage.relations.append(Singleton(iv))
    stage.all_iter_vars.append(iv)
    stage.leaf_iter_vars.insert(0, iv)
    return iv


def reorder(stage: Stage, *axes: IterVar) -> None:
    """Put the given loops, in this order, at the positions they occupy now.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].reorder(j, i):
        for j in range(16):
            for i in range(16):
                B[i, j] = A[i, j] * 2.0
    """
    positions = []
    for iv in axes:
        position = leaf_position("reorder", stage, iv)
        check_kind("reorder", stage, iv, _MOVABLE)
        if position in positions:
            raise refusal("reorder", stage, iv, "named twice")
        positions.append(position)
    for position, iv in zip(sorted(positions), axes, strict=True):
        stage.leaf_iter_vars[position] = iv


def tile(
    stage: Stage, x: IterVar, y: IterVar, x_factor: Expr | int, y_factor: Expr | int
) -> tuple[IterVar, IterVar, IterVar, IterVar]:
    """Split both loops and bring the inner ones inside: x.outer, y.outer, x.inner, y.inner.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].tile(i, j, 4, 8):
        for i.outer in range(4):
            for j.outer in range(2):
                for i.inner in range(4):
                    for j.inner in range(8):
                        B[i.inner + i.outer * 4, j.inner + j.outer * 8] = A[i.inner + i.outer * 4,
                                j.inner + j.outer * 8] * 2.0
    """
    for iv in (x, y):
        leaf_position("tile", stage, iv)
        check_kind("tile", stage, iv, _MOVABLE)
    if x is y:
        raise refusal("tile", stage, x, "the two axes must differ")
    for iv, factor in ((x, x_factor), (y, y_factor)):
        _iterations("tile", stage, iv, "a factor", factor)
    x_outer, x_inner = split(stage, x, factor=x_factor)
    y_outer, y_inner = split(stage, y, factor=y_factor)
    reorder(stage, x_outer, y_outer, x_inner, y_inner)
    return x_outer, y_outer, x_inner, y_inner
