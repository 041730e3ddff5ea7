"""Binds the buffers of hand-written statements to regions of the tensors' storage.

External operations and tensor intrinsics are written over declared buffers, before the storage of
their data is known. Here their loads, stores, pointers, element offsets and symbolic shapes and
strides are replaced by those of the storage (Ansor keeps both until the storage is flattened).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.te.operations.tensor import Tensor
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.dtype import handle
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Range, Var
from autosched.tir.op import add, cast, const, eq, floormod, mul, sub
from autosched.tir.stmt import AttrStmt, BufferStore, Stmt
from autosched.tir.tiles import SCOPE
from autosched.tir.walk import free_vars, map_children, map_expr_children, unique_exprs


def whole(tensor: Tensor) -> tuple[Range, ...]:
    """The region that covers all of `tensor`."""
    return tuple(Range(const(0, extent.dtype), extent) for extent in tensor.shape)


def bind_scope(declared: Buffer, tensor: Tensor, region: Sequence[Range], body: Stmt) -> Stmt:
    """`body`, in which the buffer `declared` stands for `region` of `tensor`."""
    numbers = tuple(e for r in region for e in (r.min, r.extent))
    return AttrStmt((declared, tensor), "buffer_bind_scope", Call(handle, "tuple", numbers), body)


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The storage of a region of a tensor in `buffer`.

    `mins` are the tensor indices of the region's first element, `strides` are in elements.
    """

    buffer: Buffer
    mins: tuple[Expr, ...]
    strides: tuple[Expr, ...]


def storage_of(
    buffer: Buffer, bounds: Sequence[Range], aligned: Sequence[tuple[int, int, int]] = ()
) -> Storage:
    """The storage of the region `bounds` of `buffer`, compact except for alignments.

    `aligned` are (dim, factor, offset): the stride of `dim` becomes a multiple of `factor` plus
    `offset`.
    """
    wanted = {dim: (factor, offset) for dim, factor, offset in aligned}
    strides: list[Expr] = []
    step: Expr = IntImm(1)
    for dim in reversed(range(len(bounds))):
        if dim in wanted:
            factor, offset = wanted[dim]
            step = add(step, floormod(sub(factor + offset, floormod(step, factor)), factor))
        strides.append(step)
        step = mul(step, bounds[dim].extent)
    return Storage(buffer, tuple(r.min for r in bounds), tuple(reversed(strides)))


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A declared buffer and the region of a tensor that it stands for.

    `region` has a range of tensor indices for each dimension of the tensor in `storage`. `declared`
    may lack leading dimensions, along which the region must have extent 1.
    """

    declared: Buffer
    storage: Storage
    region: tuple[Range, ...]

    @property
    def skipped(self) -> int:
        """The number of leading dimensions of the region that the declared buffer lacks."""
        return len(self.region) - len(self.declared.shape)

    def indices(self, within: Sequence[Expr]) -> tuple[Expr, ...]:
        """The tensor indices of the element at indices `within` of the declared buffer."""
        head = [r.min for r in self.region[: self.skipped]]
        tail = self.region[self.skipped :]
        return (*head, *(add(r.min, i) for r, i in zip(tail, within, strict=True)))

    def offset(self) -> Expr:
        """The position of the region's first element in the storage (elements)."""
        total: Expr = IntImm(0)
        for r, low, stride in zip(
            self.region, self.storage.mins, self.storage.strides, strict=True
        ):
            total = add(total, mul(sub(r.min, low), stride))
        return total


def bind_buffers(stmt: Stmt, bindings: Sequence[Binding], where: str) -> Stmt:
    """`stmt` with the declared buffers of `bindings` replaced by their storage.

    `where` names the operation in errors. ScheduleError when a declared shape, stride, offset,
    scope or alignment does not fit the region.
    """
    table = {b.declared: b for b in bindings}
    values: dict[Var, Expr] = {}
    used = {e for e in unique_exprs(stmt) if isinstance(e, Var)}
    addressed = set(_addressed(stmt))
    for binding in bindings:
        by_pointer = binding.declared.data in used
        _bind(binding, values, where, by_pointer)
        _check_offset_used(binding, used, where)
        if (by_pointer or binding.declared in addressed) and not binding.declared.strides:
            _check_compact(binding, where)

    def expr(e: Expr) -> Expr:
        if isinstance(e, Var):
            return values.get(e, e)
        done = map_expr_children(e, expr)
        if isinstance(done, BufferLoad) and done.buffer in table:
            bound = table[done.buffer]
            return BufferLoad(bound.storage.buffer, bound.indices(done.indices), done.predicate)
        return done

    def go(s: Stmt) -> Stmt:
        done = map_children(s, go, expr)
        if isinstance(done, BufferStore) and done.buffer in table:
            bound = table[done.buffer]
            return BufferStore(
                bound.storage.buffer, done.value, bound.indices(done.indices), done.predicate
            )
        return done

    return go(stmt)


def _bind(binding: Binding, values: dict[Var, Expr], where: str, by_pointer: bool) -> None:
    """Check `binding` and record in `values` the values of its declared buffer's variables.

    `by_pointer` says that the statement uses the buffer's data pointer, so that the region must
    begin at that pointer unless an element offset is declared.
    """
    _check_storage(binding, where)
    declared, storage = binding.declared, binding.storage
    analyzer = Analyzer()

    def match(what: str, expected: Expr, found: Expr) -> None:
        if isinstance(expected, Var) and expected not in values:
            values[expected] = cast(expected.dtype, found)
            return
        expected = values.get(expected, expected) if isinstance(expected, Var) else expected
        if not analyzer.can_prove_equal(expected, cast(expected.dtype, found)):
            raise ScheduleError(
                f"{where}: buffer {declared.name} is declared with {what} {expected!r}, but the "
                f"region of {storage.buffer.name} has {found!r}"
            )

    for dim, r in enumerate(binding.region[: binding.skipped]):
        if not analyzer.can_prove_equal(r.extent, const(1, r.extent.dtype)):
            raise ScheduleError(
                f"{where}: dimension {dim} of {storage.buffer.name}, which buffer {declared.name} "
                f"lacks, has extent {r.extent!r}, expected 1"
            )
    tail = binding.region[binding.skipped :]
    strides = storage.strides[binding.skipped :]
    values[declared.data] = storage.buffer.data
    for dim, (shape, r) in enumerate(zip(declared.shape, tail, strict=True)):
        match(f"extent {dim}", shape, r.extent)
    for dim, (stride, actual) in enumerate(zip(declared.strides, strides, strict=False)):
        match(f"stride {dim}", stride, actual)
    if declared.elem_offset is not None:
        offset = analyzer.simplify(binding.offset())
        match("element offset", declared.elem_offset, offset)
        factor = declared.offset_factor
        if factor > 1 and not analyzer.can_prove(eq(floormod(offset, factor), 0)):
            raise ScheduleError(
                f"{where}: the offset {offset!r} of buffer {declared.name} in "
                f"{storage.buffer.name} is not known to be a multiple of {factor}"
            )
    elif by_pointer:
        match("element offset", IntImm(0), analyzer.simplify(binding.offset()))


def _addressed(stmt: Stmt) -> Iterator[Buffer]:
    """The buffers of whose elements the statement takes the address."""
    for e in unique_exprs(stmt):
        match e:
            case Call(op="address_of", args=(BufferLoad() as load,)):
                yield load.buffer


def _check_offset_used(binding: Binding, used: Container[Expr], where: str) -> None:
    """ScheduleError where a pointer is used as if a symbolic element offset were 0."""
    declared = binding.declared
    variables = free_vars(declared.elem_offset) if declared.elem_offset is not None else ()
    if declared.data not in used or not variables or any(v in used for v in variables):
        return
    offset = Analyzer().simplify(binding.offset())
    if not Analyzer().can_prove_equal(offset, const(0, offset.dtype)):
        first = ", ".join("0" for _ in declared.shape)
        raise ScheduleError(
            f"{where}: the pointer {declared.name}.data is that of all of "
            f"{binding.storage.buffer.name}, whose region begins at element {offset!r}; give the "
            f"address te.address_of({declared.name}[{first}]), or {declared.name}.elem_offset too"
        )


def _check_storage(binding: Binding, where: str) -> None:
    """ScheduleError unless the tensor has the declared rank, scope and alignment, or better.

    What stays in AMX tiles (`tir.tiles.SCOPE`) has no memory that could be in a scope.
    """
    declared, storage = binding.declared, binding.storage
    if binding.skipped < 0:
        raise ScheduleError(
            f"{where}: buffer {declared.name} has more dimensions than the tensor "
            f"{storage.buffer.name}"
        )
    if declared.scope not in ("", "global", SCOPE, storage.buffer.scope):
        raise ScheduleError(
            f"{where}: buffer {declared.name} is declared in scope {declared.scope}, but "
            f"{storage.buffer.name} is in {storage.buffer.scope or 'none that is given'}; set the "
            "scope of its stage (cache_read, cache_write, set_scope)"
        )
    if storage.buffer.data_alignment % declared.data_alignment:
        raise ScheduleError(
            f"{where}: buffer {declared.name} is declared with an alignment of "
            f"{declared.data_alignment} bytes, {storage.buffer.name} has "
            f"{storage.buffer.data_alignment}"
        )


def _check_compact(binding: Binding, where: str) -> None:
    step: Expr = IntImm(1)
    tail = binding.region[binding.skipped :]
    strides = binding.storage.strides[binding.skipped :]
    for r, stride in reversed(list(zip(tail, strides, strict=True))):
        single = is_one(r.extent)
        if not single and not Analyzer().can_prove_equal(step, stride):
            raise ScheduleError(
                f"{where}: buffer {binding.declared.name} is declared compact, but the region of "
                f"{binding.storage.buffer.name} has strides "
                f"{', '.join(map(repr, strides))}; declare it with strides"
            )
        step = mul(step, r.extent)
