"""What statements of a kernel do to memory that threads share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from autosched.tir.dtype import DType
from autosched.tir.expr import And, BufferLoad, Call, Expr, IntImm, Ramp, StringImm, Var
from autosched.tir.op import add, mul
from autosched.tir.stmt import BufferStore, Evaluate, Stmt
from autosched.tir.walk import direct_exprs, free_vars, pre_order, substitute
from autosched.transform.device.thread_index import Place, Span

_COVERS = {"global": 3, "shared": 2, "shared.dyn": 2, "warp": 1}
_READS = frozenset(("ptx_ldmatrix", "tvm_load_matrix_sync"))
_WRITES = frozenset(("tvm_store_matrix_sync",))


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of `data`; `place` is None where the elements are not known.

    `guard` holds where it is made; `met_in_warp` says that the lanes of a warp have met since.
    """

    data: Var
    dtype: DType
    is_write: bool
    place: Place | None
    double_buffer: bool = False
    guard: Expr | None = None
    met_in_warp: bool = False

    def depends_on(self, var: Var | None) -> bool:
        """True when the elements are others for other values of `var`."""
        return self.place is not None and var in free_vars(self.place.index)

    def under(self, condition: Expr | None) -> Access:
        """The access where `condition` holds, too (None: whatever it was)."""
        if condition is None:
            return self
        both = condition if self.guard is None else And(self.guard, condition)
        return replace(self, guard=both)

    def around(self, loop: Span | None, var: Var | None) -> Access:
        """The access over all iterations of a loop over `var`, of unknown extent without `loop`."""
        if self.place is None or not self.depends_on(var):
            return self
        if loop is None:
            return replace(self, place=None)
        return replace(self, place=Place(self.place.index, (*self.place.inner, loop)))


def in_parts(access: Access, other: Access) -> Access:
    """`access` to memory that `other` sees as another type, in elements as small as both have.

    Its place is None where the elements of one are no whole number of the other's.
    """
    own, part = (a.dtype.bytes * a.dtype.lanes for a in (access, other))
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
    """Stands among accesses for a point at which threads have met: all of them with BARRIER."""


BARRIER = Barrier()

MAYBE = Barrier()
"""A point that some ways through a statement do not come to; none skips what stands before it."""


WARP = Barrier()
"""A point at which the lanes of each warp have met."""


def is_barrier(s: Stmt, scope: str) -> bool:
    """True for a tvm_storage_sync that orders accesses to memory of `scope`."""
    if not isinstance(s, Evaluate) or not isinstance(s.value, Call):
        return False
    call = s.value
    if call.op != "tvm_storage_sync" or not isinstance(call.args[0], StringImm):
        return False
    return _COVERS.get(call.args[0].value, 0) >= _COVERS[scope]


def accesses_of(s: Stmt, scope: str, table: Mapping[Var, Expr]) -> list[Access]:
    """What `s` itself (not the statements inside it) does to memory of `scope`, in order.

    `table` has the values of variables in indices: one variable per thread axis, lets.
    """
    found: list[Access] = []
    for root in direct_exprs(s):
        found += _of_expr(root, scope, table)
    if isinstance(s, BufferStore) and s.buffer.scope == scope:
        place = _place(s.indices, table)
        found.append(Access(s.buffer.data, s.buffer.dtype, True, place))
    return found


def _of_expr(root: Expr, scope: str, table: Mapping[Var, Expr]) -> Iterator[Access]:
    for e in pre_order(root):
        if isinstance(e, BufferLoad) and e.buffer.scope == scope:
            place = _place(e.indices, table)
            yield Access(e.buffer.data, e.buffer.dtype, False, place)
        elif isinstance(e, Call):
            yield from _of_call(e, scope)


def _of_call(e: Call, scope: str) -> Iterator[Access]:
    """Pointers that a call gets, through which it may read and write anything."""
    reads, writes = e.op not in _WRITES, e.op not in _READS
    pointers = [a for a in e.args if isinstance(a, Var) and a.dtype.is_handle]
    if e.op == "tvm_access_ptr":
        mode = e.args[4]
        bits = mode.value if isinstance(mode, IntImm) else 3
        reads, writes = bool(bits & 1), bool(bits & 2)
    elif e.op == "ptx_cp_async":
        pointers, reads = pointers[:1], False  # the source is global memory
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


def _place(indices: tuple[Expr, ...], table: Mapping[Var, Expr]) -> Place | None:
    if len(indices) != 1:
        return None
    return Place(substitute(indices[0], table))
