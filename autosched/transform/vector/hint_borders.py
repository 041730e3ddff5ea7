"""HintBorders: loops around windows that reach past the border are marked to be cut there.

before:
    def main(A: Buffer((64,), float32), Y: Buffer((64,), float32)):
        for i in range(64):
            for k in range(3):
                Y[i] = max(Y[i], if_then_else(1 <= i + k and i + k < 65, A[i + k - 1], -1.0))
after:
    def main(A: Buffer((64,), float32), Y: Buffer((64,), float32)):
        pragma(var(i), "loop_partition_hint", 1)
        for i in range(64):
            for k in range(3):
                Y[i] = max(Y[i], if_then_else(1 <= i + k and i + k < 65, A[i + k - 1], -1.0))

LoopPartition then leaves the conditions to the first and the last iterations. The iterations
between have vectors without masks, and their steps share what they read. A pooling of 64x112x112
with stride 2 takes half of its time. If a condition also depends on an outer loop, the
initialisation of the reduction becomes a loop of its own. The copy of an input with its border is
marked, too, at the outermost of its own loops.

A reduction whose conditions are the same for all lanes of a vector is not marked: its register
tiles have a version for the border (border_tiles.py). Cut up, a tile at the border would become
single outputs with loops of their own. On a Zen 4, depthwise convolutions of 57x57x25 and
112x112x32 take 0.79 and 0.91 of their time with such tiles, and a third of the time to compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.expr import Add, BufferLoad, Call, Expr, IntImm, Max, Min, Mul
from autosched.tir.function import PrimFunc
from autosched.tir.linear import linear
from autosched.tir.loops import nest_of
from autosched.tir.op import const
from autosched.tir.stmt import AttrStmt, BufferStore, For, ForKind, SeqStmt, Stmt, seq
from autosched.tir.walk import child_stmts, free_vars, map_children, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.known_conditions import HINT
from autosched.transform.vector.border_tiles import is_border, is_linear
from autosched.transform.vector.distribute_loops import distribute
from autosched.transform.vector.reduction_nest import is_counted


@dataclass(frozen=True)
class HintBorders(FunctionPass):
    """Marks loops around copies and reductions of values that a condition on the loop chooses.

    The mark is at the outermost serial loop around each copy of such a value, and around each sum,
    maximum or minimum of it, or of its product with a factor. Reductions that PromoteAccumulators
    holds in tiles with vectors of `vector_bytes` stay unmarked, if all lanes have one condition.
    """

    vector_bytes: int = 64
    name: ClassVar[str] = "HintBorders"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        # What may overlap is not held in tiles.
        return func.with_body(_hinted(func.body, self.vector_bytes if func.noalias else None))


def _hinted(s: Stmt, vector_bytes: int | None) -> Stmt:
    """`s` with marks; without `vector_bytes`, nothing is held in tiles."""
    if isinstance(s, AttrStmt) and s.key == HINT:
        return s
    if isinstance(s, For) and s.kind is ForKind.SERIAL and _has_border(s):
        if vector_bytes and has_tiles(s, vector_bytes):
            return _with_copies_hinted(s)
        apart = distribute(s) if is_counted(s) and _asks_outside(s) else s
        parts = apart.stmts if isinstance(apart, SeqStmt) else (apart,)
        return seq(*map(_marked, parts))
    return _copy_hinted(s) or map_children(s, lambda inner: _hinted(inner, vector_bytes))


def _with_copies_hinted(s: Stmt) -> Stmt:
    """`s` with marks at copies alone."""
    return _copy_hinted(s) or map_children(s, _with_copies_hinted)


def _copy_hinted(s: Stmt) -> Stmt | None:
    """The copy `s` of an input with a border, marked; None for any other statement."""
    if isinstance(s, For) and s.kind is ForKind.SERIAL and _is_padded_copy(s):
        return AttrStmt(s.loop_var, HINT, const(1), s)
    return None


def _is_padded_copy(loop: For) -> bool:
    """Whether the loop begins a perfect nest that stores a value chosen by a condition on the loop.

    The copy of an input with a border is such a nest.
    """
    body: Stmt = loop
    while isinstance(body, For) and body.kind in (ForKind.SERIAL, ForKind.VECTORIZED):
        body = body.body
    if not isinstance(body, BufferStore):
        return False
    value = body.value
    if not isinstance(value, Call) or value.op != "if_then_else":
        return False
    return loop.loop_var in free_vars(value.args[0])


def has_tiles(s: Stmt, vector_bytes: int) -> bool:
    """Whether PromoteAccumulators holds all reductions of `s` that have borders in register tiles.

    All lanes of their vectors, of `vector_bytes`, have one condition.
    """
    loops, body = nest_of(s)
    if isinstance(body, BufferStore):
        border = _chosen_factor(body.value, BufferLoad(body.buffer, body.indices))
        return border is None or _is_held(loops, body, border, vector_bytes)
    return all(has_tiles(part, vector_bytes) for part in child_stmts(body))


def _is_held(loops: Sequence[For], store: BufferStore, border: Call, vector_bytes: int) -> bool:
    """Whether the perfect nest `loops` around `store` is a reduction that is held in tiles."""
    counted = all(is_counted(loop) or loop.kind is ForKind.VECTORIZED for loop in loops)
    if not counted or store.predicate is not None or not is_border(border):
        return False
    extents = {p.loop_var: p.extent.value for p in loops if isinstance(p.extent, IntImm)}
    moving = frozenset().union(*map(free_vars, store.indices))
    if all(extent == 1 or var in moving for var, extent in extents.items()):
        return False
    conditional = {v for v in free_vars(border.args[0]) if v in extents}
    if not is_linear(border, conditional):
        return False
    *outer, last = store.indices
    strides = linear(last)[1]
    lanes, wanted = 1, vector_bytes // store.buffer.dtype.bytes
    for var in sorted(extents, key=lambda v: strides.get(v, 0)):
        apart = var in conditional or any(var in free_vars(index) for index in outer)
        if strides.get(var) == lanes and not apart:
            lanes *= extents[var]
    return lanes >= wanted


def _marked(part: Stmt) -> Stmt:
    if isinstance(part, For) and _has_border(part):
        return AttrStmt(part.loop_var, HINT, const(1), part)
    return part


def _has_border(loop: For) -> bool:
    return any(loop.loop_var in free_vars(condition) for condition in _conditions(loop))


def _asks_outside(loop: For) -> bool:
    """Whether a condition depends on an outer loop, too.

    Such a loop gets two versions of its body. The initialisation of the reduction must not stand
    beside them.
    """
    inside = {s.loop_var for s in stmts(loop) if isinstance(s, For)}
    return any(free_vars(condition) - inside for condition in _conditions(loop))


def _conditions(loop: For) -> list[Expr]:
    """The conditions that choose operands of the sums, maxima and minima in the loop."""
    found = (
        _chosen_factor(s.value, BufferLoad(s.buffer, s.indices))
        for s in stmts(loop)
        if isinstance(s, BufferStore)
    )
    return [chosen.args[0] for chosen in found if chosen is not None]


def _chosen_factor(value: Expr, own: Expr) -> Call | None:
    """The if_then_else that is combined with `own` by a sum, maximum or minimum; else None.

    It may also be a factor of the value that is combined with `own`.
    """
    if not isinstance(value, Add | Max | Min):
        return None
    for kept, taken in ((value.a, value.b), (value.b, value.a)):
        factors = (taken.a, taken.b) if isinstance(taken, Mul) else (taken,)
        for factor in factors if kept is own else ():
            if isinstance(factor, Call) and factor.op == "if_then_else":
                return factor
    return None
