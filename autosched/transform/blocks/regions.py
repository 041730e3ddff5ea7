"""What statements access of buffers, each access with the loops and conditions around it."""

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
    """A loop or a launch of threads: `tag` is the thread tag, empty for loops."""

    var: Var
    domain: Range
    tag: str = ""


class AccessWalk:
    """Walks statements; says of each access where it is and what holds there.

    Subclasses take what they want of `access`, `address`, `pointer` and `block`. `analyzer` knows
    the loops around.
    """

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.analyzer = Analyzer()
        self.conditions: list[Expr] = []
        self.values: dict[Var, Expr] = {}
        self.unknown: set[Var] = set()

    # -- what subclasses take

    def access(self, buffer: Buffer, box: Box, is_write: bool) -> None:
        """An access of the elements of `box`, in terms of the loops around."""

    def address(self, load: BufferLoad) -> None:
        """The address of an element goes somewhere."""

    def pointer(self, var: Var) -> None:
        """A pointer stands by itself: who gets it may access anything."""

    def block(self, block: Block) -> None:
        """A block, once its predicate holds."""
        self.children(block)

    # -- the walk

    def stmt(self, s: Stmt) -> None:
        """Walks one statement."""
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
        """Walks the expressions and statements of `s`; of blocks the statements alone."""
        if not isinstance(s, Block):
            self.exprs(direct_exprs(s))
        for child in child_stmts(s):
            self.stmt(child)

    def exprs(self, found: Iterable[Expr]) -> None:
        """Walks expressions."""
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
        """Where a condition holds, as far as it can be reasoned about."""
        known = self.known(_likely(condition))
        reasonable = is_lasting(known) and not uses(known, self.unknown)
        if reasonable:
            self.conditions.append(known)
        yield
        if reasonable:
            self.conditions.pop()

    def define(self, var: Var, value: Expr) -> None:
        """`var` is `value` from here on; unknown where that comes from memory."""
        known = self.known(value)
        if is_lasting(known) and not uses(known, self.unknown):
            self.values[var] = known
        else:
            self.unknown.add(var)

    def known(self, e: Expr) -> Expr:
        """`e` with values in place of variables."""
        return substitute(e, self.values)

    # -- regions

    def box(self, buffer: Buffer, indices: Sequence[Expr]) -> Box:
        """The element at `indices`; the whole dimension for a vector of any other form."""
        ranges = zip(map(_span, indices), buffer.shape, strict=True)
        return self.known_box([_whole(extent) if r is None else r for r, extent in ranges])

    def known_box(self, ranges: Sequence[Range]) -> Box:
        """`ranges` with values in place of variables."""
        return tuple(Range(self.known(r.min), self.known(r.extent)) for r in ranges)

    def relaxed(
        self, box: Box, scopes: Iterable[Scope], *, only_inner: bool = False
    ) -> tuple[IntSet, ...]:
        """All that is accessed of `box` while the loops of `scopes` run.

        Conditions count that mention these loops; with `only_inner` those that mention nothing
        else.
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
    """The elements from the first to the last lane of an index; None when that is not known."""
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
    """One range for each dimension that covers all boxes; None when there is no access.

    A dimension without bounds, or whose bounds memory decides, is whole.
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
    """What `body` reads and writes of buffers from outside of it, over all loops in it.

    Of blocks in it that is what they declare.
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
        # A region that shrinks where an outer loop ends says no more than its bounds.
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
