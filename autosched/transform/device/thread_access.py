"""The accesses of kernel statements to memory that threads share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import And, BufferLoad, Call, Expr, IntImm, Ramp, StringImm, Var
from autosched.tir.intrin import POINTER_OFFSETS
from autosched.tir.lanes import add_lanes
from autosched.tir.linear import linear
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.tir.stmt import BufferStore, Evaluate, Stmt
from autosched.tir.walk import direct_exprs, distinct, free_vars, rewrite_expr, substitute
from autosched.tir.warpgroup_matrix import WGMMA_TILES, group_product_of
from autosched.transform.device.thread_index import LANE, Place, Span

_COVERS = {"global": 3, "shared": 2, "shared.dyn": 2, "warp": 1}
_READS = frozenset(("ptx_ldmatrix", "tvm_load_matrix_sync"))
_WRITES = frozenset(("tvm_store_matrix_sync",))


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of `data`; `place` is None if the elements are not known.

    `guard` is the condition under which the access is made, None if there is none. `met_in_warp`
    says that the lanes of a warp have met since. `closed` says that all threads meet before they
    reach the code behind the statement that contains the access.
    """

    data: Var
    dtype: DType
    is_write: bool
    place: Place | None
    double_buffer: bool = False
    guard: Expr | None = None
    met_in_warp: bool = False
    closed: bool = False

    def depends_on(self, var: Var | None) -> bool:
        """True if the accessed elements depend on `var`."""
        return self.place is not None and var in free_vars(self.place.index)

    def under(self, condition: Expr | None) -> Access:
        """The access with `condition` added to its guard; unchanged for None."""
        if condition is None:
            return self
        both = condition if self.guard is None else And(self.guard, condition)
        return replace(self, guard=both)

    def around(self, loop: Span | None, var: Var | None) -> Access:
        """The access over all iterations of a loop over `var`.

        Without `loop` the iterations are not known: a place that depends on `var` becomes None.
        """
        if self.place is None or not self.depends_on(var):
            return self
        if loop is None:
            return replace(self, place=None)
        return replace(self, place=Place(self.place.index, (*self.place.inner, loop)))


def in_parts(access: Access, other: Access) -> Access:
    """`access` in terms of the largest element that divides its own and that of `other`.

    The two access the same memory with different types. The place is None if the elements of one
    type are no whole number of the elements of the other.
    """
    own, part = (a.dtype.value_bytes for a in (access, other))
    size = gcd(own, part)
    if access.place is None or size == own:
        return access
    if own % size or part % size or max(own, part) % min(own, part):
        return replace(access, place=None)
    index, inner = access.place.index, access.place.inner
    if index.dtype.lanes > 1:
        if not isinstance(index, Ramp):
            return replace(access, place=None)
        lane = Var("lane", index.base.dtype)
        inner = (*inner, Span(lane, 0, index.lanes))
        index = add(index.base, mul(lane, index.stride))
    byte = Var("part", index.dtype)
    index = add(mul(index, own // size), byte)
    return replace(access, place=Place(index, (*inner, Span(byte, 0, own // size))))


class Barrier:
    """A point between accesses at which threads have met; BARRIER stands for all of a block."""


BARRIER = Barrier()

MAYBE = Barrier()
"""A barrier that some paths through a statement skip: earlier accesses stay open behind it."""


WARP = Barrier()
"""A point at which the lanes of each warp have met."""


def closed(accesses: Sequence[Access | Barrier]) -> list[Access | Barrier]:
    """The accesses of a statement; those before a barrier on all its paths become `closed`."""
    if BARRIER not in accesses:
        return [*accesses]
    end = accesses.index(BARRIER)
    before = [replace(a, closed=True) if isinstance(a, Access) else a for a in accesses[:end]]
    return [*before, *accesses[end:]]


def is_barrier(s: Stmt, scope: str) -> bool:
    """True for a tvm_storage_sync that orders accesses to memory of `scope`."""
    if not isinstance(s, Evaluate) or not isinstance(s.value, Call):
        return False
    call = s.value
    if call.op != "tvm_storage_sync" or not isinstance(call.args[0], StringImm):
        return False
    return _COVERS.get(call.args[0].value, 0) >= _COVERS[scope]


def accesses_of(s: Stmt, scope: str, table: Mapping[Var, Expr]) -> list[Access]:
    """The accesses of `s` itself, without its child statements, to memory of `scope`, in order.

    `table` maps the variables in indices to values: one variable per thread axis, and lets.
    """
    found: list[Access] = []
    for root in direct_exprs(s):
        found += _of_expr(root, scope, table)
    if isinstance(s, BufferStore) and s.buffer.scope == scope:
        place = _place(s.buffer, s.indices, table)
        found.append(Access(s.buffer.data, s.buffer.dtype, True, place))
    return found


def _of_expr(root: Expr, scope: str, table: Mapping[Var, Expr]) -> Iterator[Access]:
    named: set[Expr] = set()  # elements whose address goes to a call with known accesses
    for e in distinct(root):
        if isinstance(e, Call) and e.op in POINTER_OFFSETS:
            named |= {a.args[0] for a in e.args if isinstance(a, Call) and a.op == "address_of"}
        if isinstance(e, BufferLoad) and e.buffer.scope == scope and e not in named:
            place = _place(e.buffer, e.indices, table)
            yield Access(e.buffer.data, e.buffer.dtype, False, place)
        elif isinstance(e, Call):
            yield from _of_call(e, scope, table)


def _of_call(e: Call, scope: str, table: Mapping[Var, Expr]) -> Iterator[Access]:
    """The accesses of a call to memory that it gets a pointer to.

    An unknown call may read and write everything behind its pointers.
    """
    reads, writes = e.op not in _WRITES, e.op not in _READS
    pointers = [a for a in e.args if isinstance(a, Var) and a.dtype.is_handle]
    if e.op == "tvm_access_ptr":
        mode = e.args[4]
        bits = mode.value if isinstance(mode, IntImm) else 3
        reads, writes = bool(bits & 1), bool(bits & 2)
    elif e.op == "ptx_cp_async":
        yield from _of_copy(e, scope, table)
        return
    elif e.op in ("ptx_ldmatrix", "ptx_mma_store"):
        yield from _of_rows(e, scope, table)
        return
    elif e.op == "ptx_wgmma":
        yield from _of_product(e, scope, table)
        return
    for argument in e.args:
        if isinstance(argument, Call) and argument.op == "address_of":
            (element,) = argument.args
            if isinstance(element, BufferLoad):
                pointers.append(element.buffer.data)
    for data in pointers:
        if data.scope == scope:
            dtype = data.element or e.dtype
            if reads:
                yield Access(data, dtype, False, None)
            if writes:
                yield Access(data, dtype, True, None)


def _of_copy(e: Call, scope: str, table: Mapping[Var, Expr]) -> Iterator[Access]:
    """The elements that an asynchronous copy writes; its source is global memory."""
    data, to, size = e.args[0], e.args[1], e.args[4]
    if not isinstance(data, Var) or data.scope != scope:
        return
    dtype = data.element or e.dtype
    place = None
    if isinstance(size, IntImm) and size.value % dtype.bytes == 0:
        lanes = size.value // dtype.bytes
        index = Ramp(to, const(1, to.dtype), lanes) if lanes > 1 else to
        place = Place(substitute(index, table))
    yield Access(data, dtype, True, place)


def _of_rows(e: Call, scope: str, table: Mapping[Var, Expr]) -> Iterator[Access]:
    """The elements that each lane receives from rows a warp loads, or stores of a result."""
    loads = e.op == "ptx_ldmatrix"
    pointer, offset = (e.args[5], e.args[6]) if loads else (e.args[0], e.args[1])
    first: Expr | None
    match pointer:
        case Var():
            data, dtype, first = pointer, pointer.element or e.dtype, offset
        case Call(op="address_of", args=(BufferLoad() as load,)):
            data, dtype = load.buffer.data, load.buffer.dtype
            index = _element(load.buffer, load.indices)
            first = None if index is None else add(index, offset)
        case _:
            return
    if data.scope != scope:
        return
    if dtype is not e.dtype or first is None:
        yield Access(data, dtype, not loads, None)
        return
    first, inner = _of_lane(e, first) if loads else _of_result(first, e.args[2])
    yield Access(data, dtype, not loads, Place(substitute(first, table), inner))


def _of_product(e: Call, scope: str, table: Mapping[Var, Expr]) -> Iterator[Access]:
    """The rows of the tiles that wgmma reads; whole rows, as a swizzle permutes within them."""
    product = group_product_of(e.args)
    if isinstance(product, str):
        raise ScheduleError(f"ptx_wgmma: {product}: {e!r}")
    tiles = ((product.left, product.place_of_a()), (product.right, product.place_of_b()))
    for k, (dtype, places) in zip(WGMMA_TILES, tiles, strict=True):
        data = e.args[k]
        first: Expr | None = e.args[k + 1]
        if isinstance(data, Call) and data.op == "address_of":
            (load,) = data.args
            assert isinstance(load, BufferLoad)
            index = _element(load.buffer, load.indices)
            first = None if index is None else add(index, e.args[k + 1])
            data = load.buffer.data
        if not isinstance(data, Var) or data.scope != scope:
            continue
        if first is None:
            yield Access(data, dtype, False, None)
            continue
        row = product.row
        rows = int(places.max()) // row + 1
        element = Var("element")
        index = add(_row_of(first, row), element)
        inner = (Span(element, 0, rows * row),)
        yield Access(data, dtype, False, Place(substitute(index, table), inner))


def _row_of(first: Expr, row: int) -> Expr:
    """The first element of the row that contains `first`: keep the terms that count whole rows."""
    constant, terms = linear(first)
    index: Expr = const(constant // row * row, first.dtype)
    for term, factor in terms.items():
        if factor % row == 0:
            index = add(index, mul(term, factor))
    return index


def _of_lane(e: Call, first: Expr) -> tuple[Expr, tuple[Span, ...]]:
    """The elements that a lane receives from ldmatrix; lane 8 * matrix + row addresses a row."""
    own = 4 // e.dtype.bytes
    matrix, k = Var("matrix"), Var("k")
    transposed, number = (x.value if isinstance(x, IntImm) else 0 for x in e.args[:2])
    quarter, rest = floordiv(LANE, 4), floormod(LANE, 4)
    pair = add(mul(rest, own), k)
    row, column = (pair, quarter) if transposed else (quarter, pair)
    giver = add(mul(matrix, 8), row)
    first = rewrite_expr(first, lambda x: giver if _is_lane(x) else None)
    return add(first, column), (Span(matrix, 0, number), Span(k, 0, own))


def _of_result(first: Expr, stride: Expr) -> tuple[Expr, tuple[Span, ...]]:
    """The elements that a lane stores of the 16 x 8 result of ptx_mma."""
    half, k = Var("half"), Var("k")
    row = add(floordiv(LANE, 4), mul(half, 8))
    first = rewrite_expr(first, lambda x: LANE if _is_lane(x) else None)
    column = add(mul(floormod(LANE, 4), 2), k)
    return add(add(first, mul(row, stride)), column), (Span(half, 0, 2), Span(k, 0, 2))


def _is_lane(e: Expr) -> bool:
    return isinstance(e, Call) and e.op == "ptx_lane_id"


def _place(buffer: Buffer, indices: tuple[Expr, ...], table: Mapping[Var, Expr]) -> Place | None:
    index = _element(buffer, indices)
    return None if index is None else Place(substitute(index, table))


def _element(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr | None:
    """The index of an access to flat memory, from the pointer on; None if it is not flat."""
    if len(indices) != 1 or buffer.strides:
        return None
    (index,) = indices
    return index if buffer.elem_offset is None else add_lanes(index, buffer.elem_offset)
