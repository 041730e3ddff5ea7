"""Whether a statement may write its result over the buffer that it reads."""

from __future__ import annotations

from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Ramp, Var
from autosched.tir.kinds import loads_in
from autosched.tir.linear import linear
from autosched.tir.stmt import AttrStmt, BufferStore, For, LetStmt, Stmt, While
from autosched.tir.walk import direct_exprs, free_vars, stmts


def can_run_in_place(stmt: Stmt, target: Var, source: Var) -> bool:
    """True if `target` may use the memory of `source`, where only `stmt` accesses both.

    This holds if `stmt` has one store to `target`, which reaches no element twice and reads
    `source` only at the stored indices, and if nothing else in `stmt` accesses either.
    """
    loops: dict[Var, Expr] = {}
    bound: set[Var] = set()
    store: BufferStore | None = None
    for s in stmts(stmt):
        if isinstance(s, For):
            loops[s.loop_var] = s.extent
        elif isinstance(s, While):
            return False  # the next iteration would read what this one has written
        elif isinstance(s, AttrStmt) and isinstance(s.node, IterVar):
            loops[s.node.var] = s.value
        elif isinstance(s, LetStmt):
            bound.add(s.var)
        elif isinstance(s, AttrStmt) and s.key == "extern_scope":
            return False
        if isinstance(s, BufferStore) and s.buffer.data is target:
            if store is not None:
                return False
            store = s
            if not _reads_only(s.value, target, source, s):
                return False
            rest: tuple[Expr, ...] = s.indices if s.predicate is None else (*s.indices, s.predicate)
        elif isinstance(s, BufferStore) and s.buffer.data is source:
            return False
        else:
            rest = direct_exprs(s)
        if not all(_reads_only(e, target, source, None) for e in rest):
            return False
    return store is not None and _reaches_once(store.indices, loops, bound)


def _reads_only(value: Expr, target: Var, source: Var, store: BufferStore | None) -> bool:
    """True if `value` does not access `target`, and accesses `source` only where `store` writes."""
    seen: set[tuple[Expr, BufferStore | None]] = set()
    stack = [(value, store)]
    while stack:
        e, own = item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if e is target or e is source:
            return False
        if isinstance(e, BufferLoad):
            if e.buffer.data is target:
                return False
            if e.buffer.data is source and not (
                own is not None
                and e.buffer.is_laid_out_as(own.buffer)
                and e.indices == own.indices
                and e.predicate is own.predicate
            ):
                return False
            own = None  # the indices of the load must not read the source
        stack += [(child, own) for child in e.children()]
    return True


def _reaches_once(indices: tuple[Expr, ...], loops: dict[Var, Expr], bound: set[Var]) -> bool:
    """True if different iterations of `loops` give different scalar or vector indices.

    `loops` maps variables, also of threads, to extents. Variables in `bound` and values from memory
    may differ in each iteration.
    """
    if len(indices) != 1:
        return False
    extents: dict[Var, int] = {}
    for var, count in loops.items():
        if not isinstance(count, IntImm):
            return False
        extents[var] = count.value
    index, steps = indices[0], []
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
        steps.append((abs(index.stride.value), index.lanes))
        index = index.base
    if index.dtype.lanes > 1:
        return False
    _, terms = linear(index)
    others = terms.keys() - extents.keys()
    if any(True for t in others for _ in loads_in(t)):
        return False
    if not all(free_vars(t).isdisjoint(bound.union(extents)) for t in others):
        return False
    steps += [(abs(terms.get(v, 0)), extent) for v, extent in extents.items() if extent > 1]
    span = 0
    for stride, extent in sorted(steps):
        if stride <= span:
            return False
        span += stride * (extent - 1)
    return True
