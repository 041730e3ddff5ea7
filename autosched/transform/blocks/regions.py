"""Regions of buffers that statements access, with the loops and conditions around each access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autosched.arith import Analyzer
from autosched.arith.intset import IntSet, union_set
from autosched.arith.region_bound import estimate_region_upper_bound
from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    IterVar,
    Let,
    Ramp,
    Range,
    Var,
)
from autosched.tir.op import add, all_, const, not_, sub
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from autosched.tir.walk import child_stmts, direct_exprs, free_vars, stmts, substitute, uses
from autosched.transform.expressions.effects import is_lasting

Box = tuple[Range, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A loop or a thread launch: its variable, its range, and its thread tag ("" for loops)."""

    var: Var
    domain: Range
    tag: str = ""


class AccessWalk:
    """Walks statements and tracks the loops, conditions and values around each access.

    Subclasses override the hooks `access`, `address`, `pointer` and `block` that they need. Fields:
    `scopes` are the enclosing loops and launches, outermost first; `analyzer` knows their ranges;
    `conditions` are the conditions that hold; `values` maps variables to the expressions that they
    are bound to; `unknown` holds variables whose value depends on memory.
    """

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.analyzer = Analyzer()
        self.conditions: list[Expr] = []
        self.values: dict[Var, Expr] = {}
        self.unknown: set[Var] = set()

    # -- hooks for subclasses

    def access(self, buffer: Buffer, box: Box, is_write: bool) -> None:
        """Called for each access of the elements of `box`, in terms of enclosing loop variables."""

    def address(self, load: BufferLoad) -> None:
        """Called where the address of an element is taken."""

    def pointer(self, var: Var) -> None:
        """Called where a pointer is used by itself: whoever gets it may access any element."""

    def block(self, block: Block) -> None:
        """Called for each block, with its predicate among `conditions`."""
        self.children(block)

    # -- the walk

    def stmt(self, s: Stmt) -> None:
        """Walk one statement."""
        match s:
            case For():
                self.exprs((s.min, s.extent))
                tag = "" if s.thread_binding is None else s.thread_binding.thread_tag
                self._inside(s.loop_var, s.min, s.extent, tag, s.body)
            case AttrStmt(IterVar() as iv, "thread_extent" | "virtual_thread", extent):
                self.exprs((extent,))
                tag = iv.thread_tag or iv.var.name
                self._inside(iv.var, const(0, iv.var.dtype), extent, tag, s.body)
            case IfThenElse():
                self.exprs((s.condition,))
                with self.under(s.condition):
                    self.stmt(s.then_case)
                if s.else_case is not None:
                    with self.under(not_(s.condition)):
                        self.stmt(s.else_case)
            case LetStmt():
                self.exprs((s.value,))
                self.define(s.var, s.value)
                self.stmt(s.body)
            case BufferStore():
                self.children(s)
                self.access(s.buffer, self.box(s.buffer, s.indices), True)
            case BlockRealize():
                self.exprs((*s.iter_values, s.predicate))
                for iv, value in zip(s.block.iter_vars, s.iter_values, strict=True):
                    self.define(iv.var, value)
                with self.under(s.predicate):
                    self.block(s.block)
            case Block():
                self.block(s)
            case _:
                self.children(s)

    def children(self, s: Stmt) -> None:
        """Walk the expressions and child statements of `s`; of a block only the statements."""
        if not isinstance(s, Block):
            self.exprs(direct_exprs(s))
        for child in child_stmts(s):
            self.stmt(child)

    def exprs(self, found: Iterable[Expr]) -> None:
        """Walk expressions."""
        for e in found:
            self._expr(e)

    def _expr(self, e: Expr) -> None:
        match e:
            case Var():
                if e.dtype.is_handle:
                    self.pointer(e)
            case BufferLoad():
                self.exprs(e.children())
                self.access(e.buffer, self.box(e.buffer, e.indices), False)
            case Call("address_of", (BufferLoad() as load,)):
                self.exprs(load.children())
                self.address(load)
            case Call("if_then_else", (condition, yes, no)):
                self._expr(condition)
                with self.under(condition):
                    self._expr(yes)
                with self.under(not_(condition)):
                    self._expr(no)
            case Let():
                self._expr(e.value)
                self.define(e.var, e.value)
                self._expr(e.body)
            case _:
                self.exprs(e.children())

    def _inside(self, var: Var, low: Expr, extent: Expr, tag: str, body: Stmt) -> None:
        domain = Range(self.known(low), self.known(extent))
        self.scopes.append(Scope(var, domain, tag))
        self.analyzer.bind(var, domain, override=True)
        self.stmt(body)
        self.scopes.pop()

    @contextmanager
    def under(self, condition: Expr) -> Iterator[None]:
        """Add `condition` to `conditions`, unless it depends on memory."""
        known = self.known(_likely(condition))
        reasonable = is_lasting(known) and not uses(known, self.unknown)
        if reasonable:
            self.conditions.append(known)
        yield
        if reasonable:
            self.conditions.pop()

    def define(self, var: Var, value: Expr) -> None:
        """Bind `var` to `value`; `var` becomes unknown if the value depends on memory."""
        known = self.known(value)
        if is_lasting(known) and not uses(known, self.unknown):
            self.values[var] = known
        else:
            self.unknown.add(var)

    def known(self, e: Expr) -> Expr:
        """Substitute the known values of variables in `e`."""
        return substitute(e, self.values)

    # -- regions

    def box(self, buffer: Buffer, indices: Sequence[Expr]) -> Box:
        """The box of an access at `indices`, one range per dimension.

        A scalar or broadcast index is one element. A ramp with a constant stride spans from its
        lowest to its highest lane. Any other vector index stands for the whole dimension.
        """
        ranges = zip(map(_span, indices), buffer.shape, strict=True)
        return self.known_box([_whole(extent) if r is None else r for r, extent in ranges])

    def known_box(self, ranges: Sequence[Range]) -> Box:
        """Substitute the known values of variables in `ranges`."""
        return tuple(Range(self.known(r.min), self.known(r.extent)) for r in ranges)

    def relaxed(
        self, box: Box, scopes: Iterable[Scope], *, only_inner: bool = False
    ) -> tuple[IntSet, ...]:
        """The region that accesses of `box` cover while the loops of `scopes` run.

        Conditions that mention these loops narrow the region; with `only_inner` only conditions
        that mention no other variable do.
        """
        domains = {s.var: s.domain for s in scopes}
        holding = [
            c
            for c in self.conditions
            if uses(c, domains) and not (only_inner and free_vars(c) - domains.keys())
        ]
        return estimate_region_upper_bound(box, domains, all_(*holding), self.analyzer)


def _likely(condition: Expr) -> Expr:
    inside = isinstance(condition, Call) and condition.op == "likely"
    return condition.children()[0] if inside else condition


def _whole(extent: Expr) -> Range:
    return Range(const(0, extent.dtype), extent)


def _span(index: Expr) -> Range | None:
    """The range from the lowest to the highest lane of an index; None if it is not known."""
    match index:
        case Ramp(base, IntImm(step), lanes) if step > 0:
            return Range(base, const((lanes - 1) * step + 1, base.dtype))
        case Ramp(base, IntImm(step), lanes):
            length = const((lanes - 1) * -step + 1, base.dtype)
            return Range(add(base, const((lanes - 1) * step, base.dtype)), length)
        case Broadcast(value, _):
            return Range(value, const(1, value.dtype))
    return Range(index, const(1, index.dtype)) if index.dtype.lanes == 1 else None


def hull(boxes: Iterable[tuple[IntSet, ...]], buffer: Buffer, walk: AccessWalk) -> Box | None:
    """One range per dimension that covers all boxes; None if there is no access.

    A dimension without bounds, or with bounds that depend on memory, is covered as a whole.
    """
    analyzer = walk.analyzer
    present = [box for box in boxes if not any(s.is_nothing for s in box)]
    if not present:
        return None
    found: list[Range] = []
    for dim, extent in enumerate(buffer.shape):
        whole = union_set((box[dim] for box in present), analyzer)
        if not (whole.has_lower_bound and whole.has_upper_bound):
            found.append(_whole(extent))
            continue
        low = analyzer.simplify(whole.min_value)
        length = analyzer.simplify(sub(add(whole.max_value, 1), low))
        lasting = all(is_lasting(e) and not uses(e, walk.unknown) for e in (low, length))
        found.append(Range(low, length) if lasting else _whole(extent))
    return tuple(found)


def block_regions(body: Stmt) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """The regions (reads, writes) that `body` accesses over all loops in it.

    Buffers allocated or declared inside `body` are left out. A nested block counts with the regions
    that it declares.
    """
    walk = _BlockRegions()
    for s in stmts(body):
        match s:
            case Allocate(var) | AllocateConst(var):
                walk.made.add(var)
            case DeclBuffer(buffer):
                walk.made.add(buffer)
            case Block():
                walk.made.update(b.data for b in s.alloc_buffers)
    walk.stmt(body)
    return walk.found(walk.reads), walk.found(walk.writes)


class _BlockRegions(AccessWalk):
    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[Buffer, list[tuple[IntSet, ...]]] = {}
        self.writes: dict[Buffer, list[tuple[IntSet, ...]]] = {}
        self.made: set[Buffer | Var] = set()

    def access(self, buffer: Buffer, box: Box, is_write: bool) -> None:
        if buffer in self.made or buffer.data in self.made:
            return
        table = self.writes if is_write else self.reads
        # A region that shrinks in the last iterations of an outer loop counts with its upper
        # bounds.
        table.setdefault(buffer, []).append(self.relaxed(box, self.scopes, only_inner=True))

    def block(self, block: Block) -> None:
        for regions, is_write in ((block.reads, False), (block.writes, True)):
            for r in regions:
                self.access(r.buffer, self.known_box(r.region), is_write)

    def found(self, table: dict[Buffer, list[tuple[IntSet, ...]]]) -> tuple[BufferRegion, ...]:
        regions = []
        for buffer, boxes in table.items():
            box = hull(boxes, buffer, self)
            if box is not None:
                regions.append(BufferRegion(buffer, box))
        return tuple(regions)
