"""Models packed arguments and calls of the runtime in host code.

A pointer to a DLTensor is a `Tensor`, a pointer to packed values is `Values`, a pointer to elements
is a `Pointer`; the null pointer is None or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.expr import Call, IntImm, StringImm, Var
from autosched.tir.interp_memory import Array, InterpreterError, Storage, nothing
from autosched.tir.interp_value import ATOM, Value, type_interval
from autosched.tir.packed import Field, type_fields
from autosched.tir.stmt import TRUE, Allocate, LetStmt

if TYPE_CHECKING:
    from autosched.tir.interp_expr import ExprCompiler


class Pointer:
    """An address in a storage, from which an external function accesses elements."""

    def __init__(self, storage: Storage, offset: Any, size: Any = None) -> None:
        self._storage, self._offset, self._size = storage, offset, size
        self._shape: tuple[Any, ...] | None = None

    def shaped(self, shape: tuple[Any, ...], offset: Any) -> Pointer:
        """The address `offset` elements further, seen as an array of `shape`."""
        result = Pointer(self._storage, self._offset + offset)
        result._shape = shape
        return result

    def array(self, thread: int) -> Array:
        """The NumPy view of the memory at this address for `thread`."""
        cells = self._storage.cells(self._offset, thread)
        if self._shape is not None:
            count = int(np.prod(self._shape, dtype=np.int64))
            return cells[:count].reshape(self._shape)
        return cells if self._size is None else cells[: int(np.max(self._size))]


class EndOfFunction(Exception):  # noqa: N818 - it is no error
    """Raised by a `ret`: the function ends and returns `value`."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class Tensor:
    """A DLTensor: `fields` maps the number of each field to its value."""

    def __init__(self, fields: dict[int, Any] | None = None) -> None:
        self.fields = {} if fields is None else fields

    @classmethod
    def of(cls, array: Array, device_type: int = 1, device_id: int = 0) -> Tensor:
        """The DLTensor of an array, whose strides may be larger than compact but not negative."""
        code, bits, lanes = type_fields(DType(array.dtype.name))
        steps = [step // array.itemsize for step in array.strides]
        last = sum(step * (n - 1) for n, step in zip(array.shape, steps, strict=True))
        span = (last + 1,) if array.size else (0,)
        flat = np.lib.stride_tricks.as_strided(array, span, (array.itemsize,))
        given = None if array.flags.c_contiguous else _numbers(steps)
        return cls(
            {
                Field.DATA: Pointer(Storage("data", flat), 0),
                Field.SHAPE: _numbers(array.shape),
                Field.STRIDES: given,
                Field.NDIM: array.ndim,
                Field.CODE: code,
                Field.BITS: bits,
                Field.LANES: lanes,
                Field.BYTE_OFFSET: 0,
                Field.DEVICE_ID: device_id,
                Field.DEVICE_TYPE: device_type,
            }
        )

    def array(self) -> Array:
        """The NumPy array that a packed function gets for this DLTensor."""
        fields = self.fields
        data: Array = fields[Field.DATA].array(0)
        shape = fields[Field.SHAPE].array(0)[: fields[Field.NDIM]]
        start = fields[Field.BYTE_OFFSET] // data.itemsize
        count = int(np.prod(shape, dtype=np.int64))
        return data[start : start + count].reshape(shape)


def _numbers(values: Sequence[int]) -> Pointer:
    return Pointer(Storage("numbers", np.array(values, np.int64)), 0)


class Values:
    """An array of packed values, or of DLTensors."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values


def memory_at(place: Any, dtype: DType, name: str) -> Storage:
    """The memory from address `place` on, as elements of `dtype`; empty for the null pointer."""
    if is_null(place):
        return Storage(name, np.empty(0, dtype.numpy))
    if isinstance(place, np.ndarray):
        place = Pointer(Storage(name, place.reshape(-1)), 0)
    if not isinstance(place, Pointer):
        raise InterpreterError(f"{name} points to {type(place).__name__}, not to elements")
    cells = place.array(0)
    bytes_ = cells.view(np.uint8)
    return Storage(name, bytes_[: bytes_.size // dtype.bytes * dtype.bytes].view(dtype.numpy))


def is_null(place: Any) -> bool:
    """Whether `place` is the null pointer."""
    return place is None or (isinstance(place, int | np.integer) and int(place) == 0)


def struct_get(base: Any, index: int, field: int) -> Any:
    """tvm_struct_get: a field of the packed value or DLTensor number `index`."""
    if field == Field.VALUE:
        return base.values[index]
    tensor = base.values[index] if isinstance(base, Values) else base
    if is_null(tensor):
        raise InterpreterError(f"the field {Field(field).name.lower()} of a null pointer is read")
    return tensor if field == Field.ADDRESS else tensor.fields[field]


def struct_set(base: Any, index: int, field: int, value: Any) -> int:
    """tvm_struct_set: store a field of the packed value or DLTensor number `index`."""
    if field == Field.VALUE:
        base.values[index] = value
    else:
        tensor = base.values[index] if isinstance(base, Values) else base
        tensor.fields[field] = value
    return 0


def stack_alloca(kind: str, count: int) -> Any:
    """tvm_stack_alloca: memory for `count` packed values, DLTensors, or integers."""
    if kind == "arg_value":
        return Values([None] * count)
    if kind == "array":
        return Values([Tensor() for _ in range(count)])
    dtype = np.dtype(np.int32 if kind == "arg_tcode" else np.int64)
    return Pointer(Storage(kind, nothing(count, dtype)), 0)


def alloc_workspace(device: int, number: int, size: int, code: int, bits: int) -> Pointer:
    """TVMBackendAllocWorkspace: memory of `size` bytes."""
    return Pointer(Storage("workspace", nothing(int(size), np.dtype(np.uint8))), 0)


def packed_arguments(values: Values, begin: int, end: int) -> list[Any]:
    """The Python arguments of a packed function: values, and arrays in place of DLTensors."""
    return [v.array() if isinstance(v, Tensor) else v for v in values.values[begin:end]]


def throw() -> None:
    """tvm_throw_last_error: raise InterpreterError."""
    raise InterpreterError("a call of the runtime failed")


def returned(value: Any) -> None:
    """ret: end the function with `value`."""
    raise EndOfFunction(value)


def allocation(stmt: LetStmt, call: Call) -> Allocate:
    """The Allocate that a call of nd_mem_alloc_with_scope stands for."""
    shape = call.args[2]
    assert isinstance(shape, Call) and stmt.var.element is not None
    return Allocate(stmt.var, stmt.var.element, shape.args, TRUE, stmt.body)


# -- calls as source -----------------------------------------------------------------------------


def _call(c: ExprCompiler, e: Call) -> Value:
    """The compiled call of the runtime function for `e.op`."""
    texts = ", ".join(c.expr(a).text for a in e.args)
    value = Value(f"{_NAMES[e.op]}({texts})", ATOM, False, *type_interval(e.dtype))
    if e.dtype.is_float:
        return value._replace(text=f"cast_one({value.text}, {c.type_name(e.dtype)})")
    return value


def _packed(c: ExprCompiler, e: Call) -> Value:
    name, values, _, begin, end = e.args[:5]
    assert isinstance(name, StringImm) and isinstance(begin, IntImm) and isinstance(end, IntImm)
    arguments = f"packed_arguments({c.expr(values).text}, {begin.value}, {end.value})"
    text = f"extern([{name.value!r}, *{arguments}], None, True)"
    if not e.dtype.is_handle:
        text = f"cast_one({text}, {c.type_name(e.dtype)})"
    return Value(text, ATOM, False, *type_interval(e.dtype))


def _isnullptr(c: ExprCompiler, e: Call) -> Value:
    pointer = e.args[0]
    if isinstance(pointer, Var) and pointer not in c.names:
        return Value("False", low=0, high=0)
    return Value(f"is_null({c.expr(pointer).text})", ATOM, False, 0, 1)


_NAMES = {
    "tvm_struct_get": "struct_get",
    "tvm_struct_set": "struct_set",
    "tvm_stack_alloca": "stack_alloca",
    "TVMBackendAllocWorkspace": "alloc_workspace",
    "TVMBackendFreeWorkspace": "free_workspace",
    "tvm_throw_last_error": "throw",
    "ret": "returned",
}

CALLS: dict[str, Callable[[ExprCompiler, Call], Value]] = {
    **dict.fromkeys(_NAMES, _call),
    "call_packed_lowered": _packed,
    "call_cpacked_lowered": _packed,
    "isnullptr": _isnullptr,
}

RUNTIME: dict[str, Any] = {
    "Pointer": Pointer,
    "alloc_workspace": alloc_workspace,
    "free_workspace": lambda *_: 0,
    "is_null": is_null,
    "memory_at": memory_at,
    "packed_arguments": packed_arguments,
    "returned": returned,
    "stack_alloca": stack_alloca,
    "struct_get": struct_get,
    "struct_set": struct_set,
    "throw": throw,
}
