"""A reduction made by PromoteAccumulators: accumulators, initial values, loops, results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from autosched.tir.expr import IntImm
from autosched.tir.loops import nest_of
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, For, SeqStmt, Stmt, seq


@dataclass(frozen=True, slots=True)
class HeldReduction:
    """A reduction whose outputs stay in registers.

    `allocated` and `pragmas` enclose three groups of stores: `before`, `steps` in `loops`
    (outermost first), and `after`.
    """

    allocated: tuple[Allocate, ...]
    pragmas: tuple[AttrStmt, ...]
    before: tuple[Stmt, ...]
    loops: tuple[For, ...]
    steps: tuple[Stmt, ...]
    after: tuple[Stmt, ...]

    @property
    def bytes(self) -> int:
        """The size of the accumulators in bytes."""
        sizes = [extent for a in self.allocated for extent in a.extents]
        counts = [e.value if isinstance(e, IntImm) else 1 << 30 for e in sizes]
        return sum(n * a.dtype.bytes for n, a in zip(counts, self.allocated, strict=True))

    def stmt(self) -> Stmt:
        """The reduction as a statement."""
        loop = reduce(lambda body, s: s.with_(body=body), reversed(self.loops), seq(*self.steps))
        body = seq(*self.before, loop, *self.after)
        around = (*self.allocated, *self.pragmas)
        return reduce(lambda body, s: s.with_(body=body), reversed(around), body)


def is_pragma(s: AttrStmt) -> bool:
    """Whether the attribute asks for unrolling, and means nothing else."""
    return s.key in ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")


def held_reduction(s: Stmt) -> HeldReduction | None:
    """The parts of `s`, if it is accumulators in registers and one nest that reduces; else None."""
    allocated: list[Allocate] = []
    pragmas: list[AttrStmt] = []
    while isinstance(s, Allocate) and s.buffer_var.scope == "local" and len(s.extents) == 1:
        allocated.append(s)
        s = s.body
    while isinstance(s, AttrStmt) and is_pragma(s):
        pragmas.append(s)
        s = s.body
    if not allocated or not isinstance(s, SeqStmt):
        return None
    places = [k for k, part in enumerate(s.stmts) if isinstance(part, For)]
    if len(places) != 1:
        return None
    loops, steps = loops_and_steps(s.stmts[places[0]])
    before, after = s.stmts[: places[0]], s.stmts[places[0] + 1 :]
    if not all(isinstance(part, BufferStore) for part in (*before, *steps, *after)):
        return None
    return HeldReduction(tuple(allocated), tuple(pragmas), before, loops, steps, after)


def loops_and_steps(s: Stmt) -> tuple[tuple[For, ...], tuple[Stmt, ...]]:
    """The loops, outermost first, and the statements in the innermost one."""
    loops, inside = nest_of(s)
    return tuple(loops), tuple(inside.stmts) if isinstance(inside, SeqStmt) else (inside,)
