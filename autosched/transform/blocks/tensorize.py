"""Tensorization: replace a loop nest around one block by a block with an instruction's statements.

copy = TensorIntrin(parse_func('''
    def description(A: Buffer((4,), float32), B: Buffer((4,), float32)):
        for i in range(4):
            with block("copy"):
                v = axis.data_par(0:4, i)
                reads(A[v:v + 1])
                writes(B[v:v + 1])
                B[v] = A[v]
'''), parse_func('''
    def implementation(A: Buffer((4,), float32), B: Buffer((4,), float32)):
        with block("root"):
            reads(A[0:4])
            writes(B[0:4])
            B[0:4] = A[0:4]
'''))
tensorize(func, "copy", copy)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from autosched.arguments import instance
from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_zero
from autosched.tir.expr import BufferLoad, Expr, IterKind, IterVar, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.loops import nest_of
from autosched.tir.op import add, const, sub
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import free_vars, map_children, stmts, substitute, uses


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """What an instruction computes, and the statements that implement it.

    The description is a loop nest around one block. The implementation is one block without
    variables; its parameters are the buffers of the description, in order, with the same shapes.
    Offsets, strides and extents of its buffers that are variables are bound at the place of use.
    """

    description: PrimFunc
    implementation: PrimFunc

    def __post_init__(self) -> None:
        instance("description", self.description, PrimFunc, "parse_func(text)")
        instance("implementation", self.implementation, PrimFunc, "parse_func(text)")


def tensorize(func: PrimFunc, block: str, intrin: TensorIntrin) -> PrimFunc:
    """Replace the loops directly around the block named `block` by the intrinsic.

    As many loops as the description has become one block `NAME_o` whose variables say where the
    tile starts. If the description has no initialisation, that of the block is kept; if it has one,
    a tile must contain whole reductions. Raises ScheduleError if there is no block of this name or
    more than one, and if extents, indices or statements differ from those of the description.
    ConfigError for arguments of other kinds, such as an intrinsic of te.decl_tensor_intrin.
    """
    instance("func", func, PrimFunc, "parse_func(text)")
    instance("intrin", intrin, TensorIntrin, f"{__name__}.TensorIntrin(description, ...)")
    realize = _only_block(func, block)
    pattern_loops, pattern = _description(intrin)
    found: list[For] = []
    analyzer = Analyzer()
    for loop in stmts(func.body):
        if isinstance(loop, For):
            analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), override=True)

    def go(s: Stmt) -> Stmt:
        if isinstance(s, For):
            chain = nest_of(s)[0][: len(pattern_loops)]
            inner = chain[-1].body if len(chain) == len(pattern_loops) else None
            if inner is realize:
                found.extend(chain)
                match = _Match(block, chain, realize, pattern_loops, pattern, intrin, analyzer)
                return match.replaced()
        return map_children(s, go)

    body = go(func.body)
    if not found:
        _refuse(block, f"expected {len(pattern_loops)} loops right around it, nothing in between")
    return func.with_body(body)


def _refuse(block: str, why: str) -> NoReturn:
    raise ScheduleError(f"tensorize: block {block!r}: {why}")


def _only_block(func: PrimFunc, name: str) -> BlockRealize:
    blocks = [s for s in stmts(func.body) if isinstance(s, BlockRealize)]
    named = [s for s in blocks if s.block.name_hint == name]
    if len(named) != 1:
        known = ", ".join(repr(s.block.name_hint) for s in blocks)
        raise ScheduleError(
            f"tensorize: {func.name} has {len(named)} blocks {name!r}, expected one; its blocks "
            f"are {known or 'none'}"
        )
    return named[0]


def _description(intrin: TensorIntrin) -> tuple[list[For], BlockRealize]:
    body = intrin.description.body
    if isinstance(body, BlockRealize) and not body.iter_values and nest_of(body.block.body)[0]:
        body = body.block.body
    loops, inner = nest_of(body)
    if not loops or not isinstance(inner, BlockRealize):
        raise ScheduleError(
            f"tensorize: the description {intrin.description.name} must be loops around one block"
        )
    return loops, inner


class _Match:
    """Compares a loop nest with a description and builds the block that replaces the nest."""

    def __init__(
        self,
        name: str,
        loops: list[For],
        realize: BlockRealize,
        pattern_loops: list[For],
        pattern: BlockRealize,
        intrin: TensorIntrin,
        analyzer: Analyzer,
    ) -> None:
        self.name = name
        self.loops = loops
        self.realize = realize
        self.pattern = pattern
        self.intrin = intrin
        self.analyzer = analyzer
        self.pattern_loops = pattern_loops
        self.inner = [loop.loop_var for loop in pattern_loops]
        self.buffers: dict[Buffer, Buffer] = {}
        self.starts: dict[Buffer, tuple[Expr, ...]] = {}
        self.stored: set[Buffer] = set()
        self.same: dict[Var, Var] = {v: v for v in self.inner}
        for loop, wanted in zip(loops, pattern_loops, strict=True):
            if not self.analyzer.can_prove_equal(loop.extent, wanted.extent):
                self.refuse(
                    f"loop {loop.loop_var.name} has {loop.extent!r} iterations, the description's "
                    f"loop {wanted.loop_var.name} {wanted.extent!r}"
                )
            self.analyzer.bind(wanted.loop_var, Range(wanted.min, wanted.extent))
        # A loop counts from its own minimum, the description's loop from the description's minimum.
        self.at: dict[Var, Expr] = {
            loop.loop_var: add(loop.min, sub(wanted.loop_var, wanted.min))
            for loop, wanted in zip(loops, pattern_loops, strict=True)
        }
        self.first: dict[Var, Expr] = {loop.loop_var: loop.min for loop in loops}

    def refuse(self, why: str) -> NoReturn:
        """Raise the ScheduleError for this block."""
        _refuse(self.name, why)

    def replaced(self) -> Stmt:
        """Build the block that replaces the nest; raises ScheduleError if they do not match."""
        block, names = self.realize.block, {loop.loop_var for loop in self.loops}
        if uses(self.realize.predicate, names):
            self.refuse("its predicate mentions the loops that the intrinsic replaces")
        if not self.analyzer.can_prove(self.pattern.predicate):
            self.refuse(
                f"the description runs its block only where {self.pattern.predicate!r}; give it "
                "loops that need no condition"
            )
        starts, axes, here = [], [], dict[Var, Expr]()
        for iv, value in zip(block.iter_vars, self.realize.iter_values, strict=True):
            start, moving = self._value(iv, value)
            outer = Var(f"{iv.var.name}_o", iv.var.dtype)
            starts.append(start)
            axes.append(IterVar(iv.dom, outer, iv.kind, iv.thread_tag))
            here[iv.var] = add(outer, moving)
        pattern = self.pattern.block
        there: dict[Var, Expr] = {
            iv.var: value
            for iv, value in zip(pattern.iter_vars, self.pattern.iter_values, strict=True)
        }
        init = block.init
        if pattern.init is not None and init is not None:
            self.stmt(substitute_stmt(pattern.init, there), substitute_stmt(init, here))
            self._require_whole_reductions(starts)
            init = None
        elif pattern.init is not None:
            self.refuse("the description has an initialisation, but the block has none")
        self.stmt(substitute_stmt(pattern.body, there), substitute_stmt(block.body, here))
        for found in self.stored:
            if list(self.buffers.values()).count(found) > 1:
                self.refuse(
                    f"{found.name}, which is written, stands for two buffers of the description"
                )
        if init is not None:
            init = self._initialised(substitute_stmt(init, here))
        new = self._implementation(tuple(axes), init)
        return BlockRealize(tuple(starts), self.realize.predicate, new)

    def _value(self, iv: IterVar, value: Expr) -> tuple[Expr, Expr]:
        """The value of `iv` at the start of the tile, and what the description's loops add."""
        start = substitute(value, self.first)
        moving = self.analyzer.simplify(sub(substitute(value, self.at), start))
        if not free_vars(moving) <= set(self.inner):
            self.refuse(f"the value {value!r} of {iv.var.name} is not a start plus inner loops")
        if self.realize.block.init is not None and iv.kind == IterKind.REDUCE:
            if not self.analyzer.can_prove_greater_equal(moving, 0):  # it would never begin
                self.refuse(f"the reduction {iv.var.name} does not begin at its first value inside")
        return start, moving

    def _require_whole_reductions(self, starts: Iterable[Expr]) -> None:
        """Refuse reductions of which a tile is a part: the block is initialised in the first."""
        for iv, start in zip(self.realize.block.iter_vars, starts, strict=True):
            whole = iv.dom is not None and self.analyzer.can_prove_equal(start, iv.dom.min)
            if iv.kind == IterKind.REDUCE and not whole:
                self.refuse(
                    f"the description initialises each tile, but the reduction {iv.var.name} goes "
                    "over several; leave out its initialisation, and that of the implementation"
                )

    # -- comparison

    def stmt(self, wanted: Stmt, found: Stmt) -> None:
        """Check that both statements do the same to corresponding buffers."""
        match wanted, found:
            case BufferStore(), BufferStore():
                self.stored.add(found.buffer)
                self.access(wanted.buffer, wanted.indices, found.buffer, found.indices)
                self.expr(wanted.value, found.value)
            case SeqStmt(a), SeqStmt(b) if len(a) == len(b):
                for x, y in zip(a, b, strict=True):
                    self.stmt(x, y)
            case IfThenElse(), IfThenElse() if (wanted.else_case is None) == (
                found.else_case is None
            ):
                self.expr(wanted.condition, found.condition)
                self.stmt(wanted.then_case, found.then_case)
                if wanted.else_case is not None and found.else_case is not None:
                    self.stmt(wanted.else_case, found.else_case)
            case For(), For() if wanted.kind is found.kind:
                self.expr(wanted.min, found.min)
                self.expr(wanted.extent, found.extent)
                self.same[wanted.loop_var] = found.loop_var
                self.stmt(wanted.body, found.body)
            case _:
                self.refuse(f"expected, as the description has it,\n{wanted!r}\nfound\n{found!r}")

    def expr(self, wanted: Expr, found: Expr) -> None:
        """Check that both expressions are equal over corresponding buffers."""
        match wanted, found:
            case BufferLoad(), BufferLoad():
                self.access(wanted.buffer, wanted.indices, found.buffer, found.indices)
                return
            case Var(), _ if self.same.get(wanted) is found:
                return
        parts, others = wanted.children(), found.children()
        alike = type(wanted) is type(found) and wanted.dtype is found.dtype
        if wanted is found and not uses(wanted, self.same):
            return
        if not alike or len(parts) != len(others) or not parts or _field(wanted) != _field(found):
            self.refuse(f"expected {wanted!r}, as the description has it, found {found!r}")
        for a, b in zip(parts, others, strict=True):
            self.expr(a, b)

    def access(
        self,
        wanted: Buffer,
        indices: tuple[Expr, ...],
        found: Buffer,
        places: tuple[Expr, ...],
    ) -> None:
        """Map one buffer to the other, shifted by a start that no inner loop changes."""
        if self.buffers.setdefault(wanted, found) is not found or wanted.dtype is not found.dtype:
            self.refuse(
                f"{found.name} is used where the description has {wanted.name}, which is another "
                "buffer or type"
            )
        dropped = len(places) - len(indices)
        if dropped < 0:
            self.refuse(f"{found.name} has fewer dimensions than {wanted.name} of the description")
        renamed: dict[Var, Expr] = dict(self.same)
        own = [substitute(e, renamed) for e in indices]
        start = [self.analyzer.simplify(e) for e in places[:dropped]]
        start += [
            self.analyzer.simplify(sub(a, b)) for a, b in zip(places[dropped:], own, strict=True)
        ]
        moving = set(self.inner) | set(self.same.values())
        if any(uses(e, moving) for e in start):
            self.refuse(
                f"{found.name} is indexed by {', '.join(map(repr, places))}, which is not a start "
                f"plus what the description has for {wanted.name}: "
                f"{', '.join(map(repr, indices))}"
            )
        known = self.starts.setdefault(wanted, tuple(start))
        if not all(map(self.analyzer.can_prove_equal, known, start)):
            self.refuse(f"{found.name} is accessed from two starts: {known!r} and {start!r}")

    # -- the replacement

    def _initialised(self, init: Stmt) -> Stmt:
        """Wrap `init` in fresh copies of the loops whose variables it uses."""
        used = {e for s in stmts(init) for e in _variables(s)}
        for loop, wanted in reversed(list(zip(self.loops, self.pattern_loops, strict=True))):
            inner = wanted.loop_var
            if inner in used:
                var = Var(loop.loop_var.name, inner.dtype)
                init = substitute_stmt(init, {inner: var})
                bound = loop.kind is ForKind.THREAD_BINDING  # the loop's threads are gone
                kind = ForKind.SERIAL if bound else loop.kind
                init = For(var, wanted.min, wanted.extent, kind, init)
        return init

    def _implementation(self, axes: tuple[IterVar, ...], init: Stmt | None) -> Block:
        fresh = parse_func(to_text(self.intrin.implementation))
        body = fresh.body
        if not isinstance(body, BlockRealize) or body.iter_values:
            raise ScheduleError(
                f"tensorize: the implementation {fresh.name} must be one block without variables"
            )
        matches, views = [], {}
        block = self.realize.block
        own = {*block.alloc_buffers, *(match.buffer for match in block.match_buffers)}
        described = self.intrin.description.buffers
        if len(described) != len(fresh.buffers):
            raise ScheduleError(
                f"tensorize: {fresh.name} has {len(fresh.buffers)} buffers, its description "
                f"{len(described)}"
            )
        for wanted, view in zip(described, fresh.buffers, strict=True):
            source = self.buffers.get(wanted)
            if source is None:
                self.refuse(f"nothing stands for {wanted.name} of the description")
            if source in own:
                self.refuse(
                    f"{source.name} is made in the block itself (alloc or match), which the "
                    "intrinsic replaces; make it in a block around"
                )
            if (view.scope or "global") != (source.scope or "global"):
                self.refuse(
                    f"{source.name} is in {source.scope or 'global'} memory, {view.name} of the "
                    f"implementation in {view.scope or 'global'}"
                )
            views[view] = wanted
            whole = self._part(wanted, BufferRegion.full(wanted).region)
            matches.append(MatchBufferRegion(view, whole))
        root = body.block
        return replace(
            root,
            iter_vars=axes,
            reads=tuple(self._part(views[r.buffer], r.region) for r in root.reads),
            writes=tuple(self._part(views[r.buffer], r.region) for r in root.writes),
            name_hint=f"{self.name}_o",
            init=init,
            match_buffers=(*matches, *root.match_buffers),
        )

    def _part(self, wanted: Buffer, region: tuple[Range, ...]) -> BufferRegion:
        """The region of the function's buffer for a region of the description's buffer."""
        starts = self.starts[wanted]
        dropped = len(starts) - len(region)
        one = [Range(e, const(1, e.dtype)) for e in starts[:dropped]]
        kept = zip(starts[dropped:], region, strict=True)
        own = [Range(e if is_zero(r.min) else add(e, r.min), r.extent) for e, r in kept]
        return BufferRegion(self.buffers[wanted], (*one, *own))


def _field(e: Expr) -> Any:
    """The field, besides class and children, that distinguishes nodes: the name of a call."""
    return getattr(e, "op", None)


def _variables(s: Stmt) -> frozenset[Var]:
    found: set[Var] = set()

    def collect(e: Expr) -> Expr:
        found.update(free_vars(e))
        return e

    map_children(s, lambda child: child, collect)
    return frozenset(found)
