"""The stack frame of packed calls: argument slots, and arrays and shapes passed by them."""

from __future__ import annotations

from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType, handle, int32, int64
from autosched.tir.expr import Call, Expr, StringImm, Var, pointer
from autosched.tir.op import cast, const
from autosched.tir.packed import ArgCode, Field, packed_dtype, type_fields
from autosched.tir.stmt import BufferStore, Evaluate, IfThenElse, Stmt
from autosched.transform.host.packed_arguments import (
    Wrap,
    declare,
    is_null,
    let,
    null,
    struct_get,
)

_UINT64 = DType("uint64")


def struct_set(base: Expr, index: int, field: Field, value: Expr) -> Stmt:
    """Store a field of a struct, or a packed value."""
    args = (base, const(index), const(int(field)), value)
    return Evaluate(Call(int32, "tvm_struct_set", args))


class Frame:
    """Stack space for the packed calls of one function, or of one parallel loop's body.

    A call takes slots from `begin` on, one for each argument and one for the result. Its slots are
    free again after the call, so the frame is as large as the call that needs most.
    """

    def __init__(self) -> None:
        self.codes = pointer("stack_tcode", int32)
        self.values = Var("stack_value", handle)
        self.arrays = Var("stack_array", handle)
        self.shapes = pointer("stack_shape", int64)
        self.begin = self.array = self.shape = 0
        self._slots = self._arrays = self._numbers = 0
        self._code_view = decl_buffer((1,), int32, "stack_tcode", data=self.codes)
        self._shape_view = decl_buffer((1,), int64, "stack_shape", data=self.shapes)

    def take(self, slots: int) -> int:
        """Reserve so many slots and return the first one."""
        begin = self.begin
        self.begin += slots
        self._slots = max(self._slots, self.begin)
        return begin

    def wraps(self) -> list[Wrap]:
        """The lets that allocate the frame with the size that was used; none if none was."""
        # The buffers are already used: set their final sizes here.
        self._code_view.shape = (const(self._slots),)
        self._shape_view.shape = (const(self._numbers),)
        found: list[Wrap] = []
        if self._slots:
            found += [let(self.codes, _alloca("arg_tcode", self._slots)), declare(self._code_view)]
            found.append(let(self.values, _alloca("arg_value", self._slots)))
        if self._arrays:
            found.append(let(self.arrays, _alloca("array", self._arrays)))
        if self._numbers:
            found += [let(self.shapes, _alloca("shape", self._numbers)), declare(self._shape_view)]
        return found

    def set_argument(self, slot: int, value: Expr) -> list[Stmt]:
        """The stores of `value` and its type code into a slot."""
        if isinstance(value, StringImm):
            return [struct_set(self.values, slot, Field.VALUE, value), self._code(slot, 11)]
        if not value.dtype.is_handle:
            code = ArgCode.FLOAT if value.dtype.is_float else ArgCode.INT
            packed = cast(packed_dtype(value.dtype), value)
            return [struct_set(self.values, slot, Field.VALUE, packed), self._code(slot, code)]
        store = struct_set(self.values, slot, Field.VALUE, value)
        if self._is_array(value):
            return [store, self._code(slot, ArgCode.TENSOR)]
        kinds = self._code(slot, ArgCode.NULL), self._code(slot, ArgCode.HANDLE)
        return [store, IfThenElse(is_null(value), *kinds)]

    def _code(self, slot: int, code: int) -> Stmt:
        return BufferStore(self._code_view, const(int(code)), (const(slot),))

    def _is_array(self, value: Expr) -> bool:
        return (
            isinstance(value, Call)
            and value.op == "tvm_struct_get"
            and (value.args[0] is self.arrays)
        )

    def make_shape(self, extents: tuple[Expr, ...]) -> tuple[list[Stmt], Expr]:
        """(stores of a shape, its address)."""
        begin = self.shape
        self.shape += len(extents)
        self._numbers = max(self._numbers, self.shape, 1)
        stores: list[Stmt] = [
            BufferStore(self._shape_view, cast(int64, extent), (const(begin + k),))
            for k, extent in enumerate(extents)
        ]
        return stores, Call(handle, "address_of", (self._shape_view[begin],))

    def make_array(
        self, args: tuple[Expr, ...], device_type: Expr, device_id: Expr
    ) -> tuple[list[Stmt], Expr]:
        """(stores of the array of a `tvm_stack_make_array`, its address)."""
        data, shape, strides, ndim, probe, offset = args
        index = self.array
        self.array += 1
        self._arrays = max(self._arrays, self.array)
        code, bits, lanes = type_fields(probe.dtype)
        size = const(probe.dtype.value_bytes, _UINT64)
        fields = {
            Field.DATA: data,
            Field.SHAPE: shape,
            Field.STRIDES: strides if strides.dtype.is_handle else null(),
            Field.NDIM: cast(int32, ndim),
            Field.CODE: const(code, DType("uint8")),
            Field.BITS: const(bits, DType("uint8")),
            Field.LANES: const(lanes, DType("uint16")),
            Field.BYTE_OFFSET: cast(_UINT64, offset) * size,
            Field.DEVICE_ID: device_id,
            Field.DEVICE_TYPE: device_type,
        }
        stores = [struct_set(self.arrays, index, f, value) for f, value in fields.items()]
        return stores, struct_get(self.arrays, index, Field.ADDRESS)


def _alloca(kind: str, count: int) -> Expr:
    return Call(handle, "tvm_stack_alloca", (StringImm(kind), const(count)))
