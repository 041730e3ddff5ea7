"""SplitWideVectors: keep vectors only for memory accesses, and compute lane by lane.

A vector is loaded once, and stored at once:

before:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 16)
        B[threadIdx.x * 4:threadIdx.x * 4 + 4] = A[threadIdx.x * 4:threadIdx.x * 4 +
                4] + broadcast(1.0, 4)
after:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 16)
        A_v: float32x4 = A[threadIdx.x * 4:threadIdx.x * 4 + 4]
        B[threadIdx.x * 4:threadIdx.x * 4 + 4] = shuffle([shuffle([A_v], [0]) + 1.0, shuffle([A_v],
                [1]) + 1.0, shuffle([A_v], [2]) + 1.0, shuffle([A_v], [3]) + 1.0], [0, 1, 2, 3])

More than 16 bytes become several accesses, and places that may be unaligned become scalar ones:

before:
    def main(A: Buffer((8,), float32), B: Buffer((9,), float32), n: int32):
        launch(threadIdx.x, 1)
        B[0:6] = A[0:6]
        B[n:n + 2] = broadcast(0.0, 2)
after:
    def main(A: Buffer((8,), float32), B: Buffer((9,), float32), n: int32):
        launch(threadIdx.x, 1)
        with A_v: float32x4 = A[0:4]:
            B[0:4] = A_v
        with A_v_1: float32x2 = A[4:6]:
            B[4:6] = A_v_1
        B[n] = 0.0
        B[n + 1] = 0.0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import CompileError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Let,
    Ramp,
    Shuffle,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const, if_then_else, mul
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    let,
    seq,
)
from autosched.tir.walk import direct_exprs, distinct, free_vars, map_children
from autosched.transform.device.alignment import WIDEST, is_aligned
from autosched.transform.expressions.effects import loads_elsewhere
from autosched.transform.expressions.facts import Facts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_THREAD_KEYS = ("thread_extent", "virtual_thread")


@dataclass(frozen=True)
class SplitWideVectors(FunctionPass):
    """Cut vector stores into pieces of 16, 8, 4 or 2 bytes, or elements if they are not aligned.

    A vector that a piece loads is loaded once, into a variable. Everything else is computed per
    lane, and a vector variable becomes one variable per lane. Masked accesses, strided accesses and
    accesses of bools become scalar. Memory of vectors becomes memory of their elements. Afterwards
    a vector is only what is loaded or stored at once.
    """

    name: ClassVar[str] = "SplitWideVectors"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Splitter(func).stmt(func.body))


class _Splitter:
    def __init__(self, func: PrimFunc) -> None:
        self.facts = Facts(func)
        self.scalar: dict[Buffer, Buffer] = {}
        self.known: dict[Expr, bool] = {}
        self.lanes: dict[Var, list[Var]] = {}

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                self.facts.bind(s.loop_var, s.min, s.extent)
            case AttrStmt() if s.key in _THREAD_KEYS:
                self.facts.bind(s.node.var, const(0, s.node.var.dtype), s.value)
            case BufferStore() if _wide(s) or any(map(self._vectors, direct_exprs(s))):
                return self._store(s)
            case LetStmt() if s.var.dtype.lanes > 1:
                return self._lanes_of_variable(s)
            case Allocate() if s.dtype.lanes > 1:
                extents = (*s.extents, const(s.dtype.lanes))
                return Allocate(
                    s.buffer_var,
                    s.dtype.element,
                    extents,
                    s.condition,
                    self.stmt(s.body),
                    s.annotations,
                )
            case DeclBuffer() if s.buffer.dtype.lanes > 1:
                return DeclBuffer(self._elements(s.buffer), self.stmt(s.body))
        return map_children(s, self.stmt, self._expr)

    def _lanes_of_variable(self, s: LetStmt) -> Stmt:
        """Bind a variable for each lane of a vector variable."""
        count = range(s.var.dtype.lanes)
        values = [self._lane(s.value, k, {}) for k in count]
        lanes = [Var(f"{s.var.name}_{k}", s.var.dtype.element) for k in count]
        self.lanes[s.var] = lanes
        return let(zip(lanes, values, strict=True), self.stmt(s.body))

    def _vectors(self, e: Expr) -> bool:
        """True if `e` is a vector or contains one."""
        found = self.known.get(e)
        if found is None:
            found = e.dtype.lanes > 1 or any(map(self._vectors, e.children()))
            self.known[e] = found
        return found

    def _expr(self, e: Expr) -> Expr:
        """Take apart the vectors inside a scalar expression."""
        return self._lane(e, 0, {}) if self._vectors(e) else e

    # -- stores -------------------------------------------------------------------------------

    def _store(self, s: BufferStore) -> Stmt:
        buffer, index = self._flat(s.buffer, s.indices)
        lanes = index.dtype.lanes
        parts: list[Stmt] = []
        start = 0
        while start < lanes:
            width = 1
            if s.predicate is None and not buffer.dtype.is_bool:
                width = self._width(buffer, index, start, lanes)
            parts.append(self._piece(s, buffer, index, start, width))
            start += width
        if len(parts) > 1 and loads_elsewhere(s.value, s.buffer, s.indices):
            return self._all_values_first(s, buffer, index)
        return seq(*parts)

    def _all_values_first(self, s: BufferStore, buffer: Buffer, index: Expr) -> Stmt:
        """Compute all lanes before the stores, one of which changes what a later lane loads."""
        lanes = range(index.dtype.lanes)
        names = [Var(f"{buffer.name}_{k}", buffer.dtype) for k in lanes]
        stores: list[Stmt] = []
        for k in lanes:
            store: Stmt = BufferStore(buffer, names[k], (_element(index, k),))
            if s.predicate is not None:
                store = IfThenElse(self._lane(s.predicate, k, {}), store)
            stores.append(store)
        return let([(names[k], self._lane(s.value, k, {})) for k in lanes], seq(*stores))

    def _width(self, buffer: Buffer, index: Expr, start: int, lanes: int) -> int:
        """The greatest number of lanes from `start` on that one aligned access covers."""
        width = WIDEST // buffer.dtype.bytes
        while width > 1:
            piece = _part(index, start, width) if start + width <= lanes else None
            if piece is not None and is_aligned(buffer, piece, self.facts.analyzer):
                return width
            width //= 2
        return 1

    def _piece(self, s: BufferStore, buffer: Buffer, index: Expr, start: int, width: int) -> Stmt:
        """The store of the lanes start .. start + width - 1."""
        loaded: dict[tuple[Expr, int], Expr] = {}
        lets: list[tuple[Var, Expr]] = []
        if width > 1:
            for load in _vectors_loaded(s.value):
                self._load_at_once(load, start, width, loaded, lets)
        values = [self._lane(s.value, start + k, loaded) for k in range(width)]
        if width == 1:
            predicate = None if s.predicate is None else self._lane(s.predicate, start, loaded)
            store: Stmt = BufferStore(buffer, values[0], (_element(index, start),))
            if predicate is not None:
                return IfThenElse(predicate, store)
            return store
        place = _part(index, start, width)
        assert place is not None
        return let(lets, BufferStore(buffer, _vector(values), (place,)))

    def _load_at_once(
        self,
        e: Expr,
        start: int,
        width: int,
        loaded: dict[tuple[Expr, int], Expr],
        lets: list[tuple[Var, Expr]],
    ) -> None:
        """Load lanes of `e`, a load with or without a guard, into a variable if they are aligned.

        The variable is added to `lets`, and its lanes to `loaded`.
        """
        load = e.args[1] if isinstance(e, Call) else e
        assert isinstance(load, BufferLoad)
        buffer, index = self._flat(load.buffer, load.indices)
        piece = _part(index, start, width)
        if load.predicate is not None or buffer.dtype.is_bool or piece is None:
            return
        if not is_aligned(buffer, piece, self.facts.analyzer):
            return
        value: Expr = BufferLoad(buffer, (piece,))
        if isinstance(e, Call):
            condition, other = (self._lane(e.args[k], 0, loaded) for k in (0, 2))
            value = Call(value.dtype, e.op, (condition, value, Broadcast(other, width)))
        var = Var(f"{buffer.name}_v", value.dtype)
        lets.append((var, value))
        for k in range(width):
            loaded[e, start + k] = Shuffle((var,), (const(k),))

    # -- lanes --------------------------------------------------------------------------------

    def _lane(self, e: Expr, k: int, loaded: dict[tuple[Expr, int], Expr]) -> Expr:
        """Lane k of the vector `e`; for a scalar, `e` with the vectors inside it taken apart."""
        known = loaded.get((e, k))
        if known is not None:
            return known
        match e:
            case Ramp():
                return add(self._lane(e.base, 0, loaded), mul(e.stride, k))
            case Broadcast():
                return self._lane(e.value, 0, loaded)
            case BufferLoad():
                buffer, index = self._flat(e.buffer, e.indices)
                if e.predicate is None and index.dtype.lanes == 1 and not self._vectors(index):
                    return e
                load = BufferLoad(buffer, (self._lane(index, k, loaded),))
                if e.predicate is None:
                    return load
                on = self._lane(e.predicate, k, loaded)
                return if_then_else(on, load, const(0, load.dtype))
            case Shuffle():
                return self._shuffled(e, k, loaded)
            case Let() if e.var.dtype.lanes > 1:
                return self._let(e, k, loaded)
            case Var() if e in self.lanes:
                return self.lanes[e][k]
            case Var() if e.dtype.lanes > 1:
                raise CompileError(f"the vector variable {e.name} cannot be split into lanes")
        children = e.children()
        if not children:
            return e
        lanes = [self._lane(c, k if c.dtype.lanes > 1 else 0, loaded) for c in children]
        if isinstance(e, Call):
            return Call(e.dtype.element, e.op, tuple(lanes))
        return e.with_children(tuple(lanes))

    def _let(self, e: Let, k: int, loaded: dict[tuple[Expr, int], Expr]) -> Expr:
        """Lane k of a let of a vector, which binds a variable for each lane that the body uses."""
        names = [Var(e.var.name, e.var.dtype.element) for _ in range(e.var.dtype.lanes)]
        own: dict[tuple[Expr, int], Expr] = {(e.var, n): name for n, name in enumerate(names)}
        body = self._lane(e.body, k, {**loaded, **own})
        used = free_vars(body)
        for n, name in reversed(list(enumerate(names))):
            if name in used:
                body = Let(name, self._lane(e.value, n, loaded), body)
        return body

    def _shuffled(self, e: Shuffle, k: int, loaded: dict[tuple[Expr, int], Expr]) -> Expr:
        number = e.indices[k]
        if not isinstance(number, IntImm):
            raise CompileError(f"a shuffle needs constant lane numbers, found {number!r}")
        at = number.value
        for vector in e.vectors:
            if at < vector.dtype.lanes:
                return self._lane(vector, at, loaded)
            at -= vector.dtype.lanes
        raise CompileError(f"a shuffle names a lane that does not exist: {e!r}")

    # -- buffers ------------------------------------------------------------------------------

    def _flat(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Buffer, Expr]:
        """The flat buffer of elements and the index of an access, also for memory of vectors."""
        if len(indices) != 1:
            raise CompileError(f"an access to {buffer.name} has {len(indices)} indices: flatten it")
        (index,) = indices
        lanes = buffer.dtype.lanes
        if lanes == 1:
            return buffer, index
        if index.dtype.lanes > 1:
            raise CompileError(f"a vector index into the buffer of vectors {buffer.name}")
        return self._elements(buffer), Ramp(mul(index, lanes), const(1, index.dtype), lanes)

    def _elements(self, buffer: Buffer) -> Buffer:
        """The buffer of the elements of a buffer of vectors."""
        found = self.scalar.get(buffer)
        if found is None:
            lanes = buffer.dtype.lanes
            last = mul(buffer.shape[-1], lanes)
            offset = None if buffer.elem_offset is None else mul(buffer.elem_offset, lanes)
            found = self.scalar[buffer] = Buffer(
                buffer.data,
                buffer.dtype.element,
                (*buffer.shape[:-1], last),
                (),
                offset,
                buffer.name,
                buffer.data_alignment,
            )
        return found


def _wide(s: BufferStore) -> bool:
    return s.buffer.dtype.lanes > 1


def _vectors_loaded(e: Expr) -> Iterator[Expr]:
    """The vector loads in `e` that are always executed, each once, in order.

    `if_then_else(p, load, constant)` with one condition for all lanes counts as a load. What needs
    a variable that `e` binds is left out.
    """
    found: list[Expr] = []
    bound: set[Var] = set()
    for node in distinct(e, _executed):
        if isinstance(node, BufferLoad):
            if node.dtype.lanes > 1:
                found.append(node)
        elif isinstance(node, Call) and node.op == "if_then_else":
            condition, load, other = node.args
            guarded = isinstance(load, BufferLoad) and node.dtype.lanes > 1
            if guarded and condition.dtype.lanes == 1 and isinstance(other, Broadcast):
                found.append(node)
        elif isinstance(node, Let):
            bound.add(node.var)
    return (load for load in found if bound.isdisjoint(free_vars(load)))


def _executed(e: Expr) -> Sequence[Expr]:
    """The children of `e` that are always executed; indices are no vectors to load."""
    conditional = isinstance(e, Call) and e.op == "if_then_else"
    return () if conditional or isinstance(e, BufferLoad) else e.children()


def _part(index: Expr, start: int, width: int) -> Ramp | None:
    """Lanes start .. start + width - 1 of a ramp; None for another index or missing lanes."""
    if not isinstance(index, Ramp) or start + width > index.lanes:
        return None
    return Ramp(add(index.base, mul(index.stride, start)), index.stride, width)


def _element(index: Expr, k: int) -> Expr:
    """Lane k of an index."""
    match index:
        case Ramp():
            return add(index.base, mul(index.stride, k))
        case Broadcast():
            return index.value
    if index.dtype.lanes == 1:
        return index
    lanes = [_element(child, k) for child in index.children()]
    return index.with_children(tuple(lanes))


def _vector(values: Sequence[Expr]) -> Expr:
    """The vector of `values`: a broadcast, the variable whose lanes they are, or a new vector."""
    numbers = tuple(map(const, range(len(values))))
    first = values[0]
    if all(value is first for value in values):
        return Broadcast(first, len(values))
    if isinstance(first, Shuffle) and first.vectors[0].dtype.lanes == len(values):
        whole = first.vectors[0]
        if all(v is Shuffle((whole,), (n,)) for v, n in zip(values, numbers, strict=True)):
            return whole
    return Shuffle(tuple(values), numbers)
