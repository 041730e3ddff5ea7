"""Unpacking of packed arguments: definitions of parameters, and checks of the arguments.

The messages are those of TVM's `MakePackedAPI` and `ArgBinder`, because programs may look for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autosched.errors import CompileError
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType, bool_, handle, int64
from autosched.tir.expr import EQ, Call, Expr, IntImm, Var, pointer
from autosched.tir.op import and_, cast, const, eq, if_then_else, le, mul, not_, or_, truncmod
from autosched.tir.packed import ArgCode, Field, field_dtype, packed_dtype, type_fields
from autosched.tir.printer import to_text
from autosched.tir.stmt import AssertStmt, AttrStmt, DeclBuffer, IfThenElse, LetStmt, Stmt, nop, seq

Wrap = Callable[[Stmt], Stmt]
"""Puts a statement around, or before, the code that follows it."""


def nest(wraps: Iterable[Wrap], body: Stmt) -> Stmt:
    """`body` inside the statements of `wraps`, the first one outermost."""
    for wrap in reversed(list(wraps)):
        body = wrap(body)
    return body


def let(var: Var, value: Expr) -> Wrap:
    """Define `var` in the code that follows."""
    return lambda body: LetStmt(var, value, body)


def check(condition: Expr, message: str) -> Wrap:
    """Assert `condition` before the code that follows."""
    return lambda body: AssertStmt(condition, message, body)


def declare(buffer: Buffer) -> Wrap:
    """Declare `buffer` for the code that follows."""
    return lambda body: DeclBuffer(buffer, body)


def attribute(node: object, key: str, value: Expr) -> Wrap:
    """Annotate the code that follows."""
    return lambda body: AttrStmt(node, key, value, body)


def before(stmt: Stmt) -> Wrap:
    """Run `stmt` before the code that follows."""
    return lambda body: seq(stmt, body)


def struct_get(base: Expr, index: int, field: Field, dtype: DType | None = None) -> Call:
    """Read a field of a struct; a packed value is read as `dtype`."""
    args = (base, const(index), const(int(field)))
    return Call(field_dtype(field) or dtype or handle, "tvm_struct_get", args)


def is_null(e: Expr) -> Expr:
    """Whether the pointer is null."""
    return Call(bool_, "isnullptr", (e,))


def null() -> Expr:
    """The null pointer."""
    return Call(handle, "reinterpret", (const(0, DType("uint64")),))


_NEVER = const(False, bool_)


class Arguments:
    """Unpacks the arguments of one function, parameter by parameter.

    `definitions` are the lets, `checks` the checks that come after all of them, and `views` the
    declarations of the buffers. `device_id` is the device of the first array.
    """

    def __init__(self, name: str, device_type: int) -> None:
        self._name = name
        self._device_type = device_type
        self._defined: set[Var] = set()
        self.definitions: list[Wrap] = []
        self.checks: list[Wrap] = []
        self.views: list[Wrap] = []
        self.device_id: Var | None = None

    def code(self, codes: Buffer, position: int, param: Var) -> None:
        """Check that the code of an argument is one that the parameter accepts."""
        code = Var(f"{param.name}.code")
        self.definitions.append(let(code, codes[position]))
        wanted, what = _codes(param.dtype)
        condition: Expr = const(False, bool_)
        for value in wanted:
            condition = or_(condition, eq(code, const(int(value))))
        message = f"{self._name}: Expect arg[{position}] to be {what}"
        self.definitions.append(check(condition, message))

    def value(self, args: Var, position: int, param: Var) -> None:
        """Define the parameter as the packed value."""
        packed = struct_get(args, position, Field.VALUE, packed_dtype(param.dtype))
        self._define(param, packed if param.dtype.is_handle else cast(param.dtype, packed))

    def array(self, param: Var, buffer: Buffer) -> None:
        """Unpack a DLTensor and check that it fits the buffer."""
        where = f"{self._name}.{param.name}"
        self.definitions += [
            check(not_(is_null(param)), f"{where} is expected to have non-NULL DLTensor* pointer"),
            check(
                eq(const(len(buffer.shape)), struct_get(param, 0, Field.NDIM)),
                f"{where}.ndim is expected to equal {len(buffer.shape)}",
            ),
        ]
        self._dtype(where, param, buffer.dtype)
        shape = self._numbers(param, "shape", Field.SHAPE, len(buffer.shape))
        for k, extent in enumerate(buffer.shape):
            self._bind(extent, cast(extent.dtype, shape[k]), f"{where}.shape[{k}]")
        count = len(buffer.strides)
        strides = self._numbers(param, "strides", Field.STRIDES, count)
        if buffer.strides:
            self._strides(where, buffer, shape, strides)
        else:
            self._compact(where, buffer, strides)
        self._offset(where, param, buffer)
        self._device(where, param)
        self._data(where, param, buffer)
        self.views.append(declare(buffer))

    # -- parts of a DLTensor

    def _numbers(self, param: Var, what: str, field: Field, count: int) -> Buffer:
        """Declare the int64 array that a field points to."""
        data = pointer(f"{param.name}.{what}", int64)
        numbers = decl_buffer((count,), int64, data.name, data=data)
        self._define(data, struct_get(param, 0, field))
        self.definitions.append(declare(numbers))
        return numbers

    def _dtype(self, where: str, param: Var, dtype: DType) -> None:
        parts = zip((Field.CODE, Field.BITS, Field.LANES), type_fields(dtype), strict=True)
        condition: Expr = const(True, bool_)
        for field, number in parts:
            found = struct_get(param, 0, field)
            condition = and_(condition, eq(found, const(number, found.dtype)))
        self.checks.append(check(condition, f"{where}.dtype is expected to be {dtype}"))

    def _compact(self, where: str, buffer: Buffer, strides: Buffer) -> None:
        """Check that strides are compact.

        Each is the product of the inner extents, or arbitrary for an extent of 1.
        """
        condition: Expr = const(True, bool_)
        expected: Expr = const(1, buffer.shape[-1].dtype) if buffer.shape else const(1)
        for k in reversed(range(len(buffer.shape))):
            extent = buffer.shape[k]
            found = cast(extent.dtype, strides[k])
            alone = eq(extent, const(1, extent.dtype))
            condition = and_(condition, or_(alone, eq(cast(extent.dtype, expected), found)))
            expected = mul(expected, cast(expected.dtype, extent))
        message = f"{where}.strides: expected to be compact array"
        if not _is_true(condition):
            given = AssertStmt(condition, message, nop())
            self.checks.append(before(IfThenElse(not_(is_null(strides.data)), given)))

    def _strides(self, where: str, buffer: Buffer, shape: Buffer, strides: Buffer) -> None:
        """Bind or check each stride; a DLTensor without strides is compact.

        Where an axis has at most one element, its stride moves nothing and may be any.
        """
        compact: Expr = const(1, int64)
        for k in reversed(range(len(buffer.strides))):
            stride = buffer.strides[k]
            found = if_then_else(
                is_null(strides.data), cast(stride.dtype, compact), cast(stride.dtype, strides[k])
            )
            alone = le(buffer.shape[k], const(1, buffer.shape[k].dtype))
            self._bind(stride, found, f"{where}.strides[{k}]", alone)
            compact = mul(compact, shape[k])

    def _offset(self, where: str, param: Var, buffer: Buffer) -> None:
        found = struct_get(param, 0, Field.BYTE_OFFSET)
        size = buffer.dtype.value_bytes
        offset = buffer.elem_offset
        if offset is None or isinstance(offset, IntImm):
            number = 0 if offset is None else offset.value * size
            self._bind(const(number, found.dtype), found, f"{where}.byte_offset")
            return
        elements = cast(offset.dtype, found // const(size, found.dtype))
        if self._bind(offset, elements, f"{where}.elem_offset") and buffer.offset_factor > 1:
            factor = const(buffer.offset_factor, offset.dtype)
            zero = const(0, offset.dtype)
            self._require(zero, truncmod(offset, factor), f"{where}.elem_offset")

    def _device(self, where: str, param: Var) -> None:
        device = struct_get(param, 0, Field.DEVICE_TYPE)
        self._require(const(self._device_type), device, f"{where}.device_type")
        number = struct_get(param, 0, Field.DEVICE_ID)
        if self.device_id is None:
            self.device_id = Var("dev_id")
            self._define(self.device_id, number)
        else:
            self._require(self.device_id, number, f"{where}.device_id")

    def _data(self, where: str, param: Var, buffer: Buffer) -> None:
        """Bind the data pointer, which may be null only if there are no elements."""
        data = buffer.data
        self._define(data, struct_get(param, 0, Field.DATA))
        alignment = const(buffer.data_alignment)
        self.definitions.append(attribute(data, "storage_alignment", alignment))
        fine = not_(is_null(data))
        for extent in buffer.shape:
            if not isinstance(extent, IntImm):
                fine = or_(fine, eq(extent, const(0, extent.dtype)))
        message = f"{where} is expected to have non-NULL data pointer"
        if not any(map(is_zero, buffer.shape)):
            self.checks.append(check(fine, message))

    # -- binding

    def _define(self, var: Var, value: Expr) -> None:
        if var in self._defined:
            raise CompileError(
                f"{self._name}: {var.name} is the pointer of two parameters; give each its own"
            )
        self._defined.add(var)
        self.definitions.append(let(var, value))

    def _bind(self, wanted: Expr, found: Expr, where: str, unless: Expr = _NEVER) -> bool:
        """Define `wanted` if it is a new variable, else require it to equal `found`.

        Returns whether it was defined. `unless` says when it need not be equal.
        """
        if isinstance(wanted, Var) and wanted not in self._defined:
            self._define(wanted, found)
            return True
        self._require(wanted, found, where, unless)
        return False

    def _require(self, wanted: Expr, found: Expr, where: str, unless: Expr = _NEVER) -> None:
        constant = isinstance(wanted, IntImm) and wanted.dtype.is_int
        condition = or_(unless, EQ(found, wanted) if constant else EQ(wanted, found))
        message = f"Argument {where} has an unsatisfied constraint: {to_text(EQ(wanted, found))}"
        if not _is_true(condition):
            self.checks.append(check(condition, message))


def _is_true(condition: Expr) -> bool:
    return isinstance(condition, IntImm) and bool(condition.value)


def _codes(dtype: DType) -> tuple[tuple[ArgCode, ...], str]:
    """The type codes that an argument of this type may have, and their description."""
    if dtype.is_handle:
        pointers = (ArgCode.HANDLE, ArgCode.ND_ARRAY, ArgCode.TENSOR, ArgCode.NULL)
        return pointers, "pointer"
    if dtype.is_bool:
        return (ArgCode.BOOL, ArgCode.INT), "boolean"
    if dtype.is_integral:
        return (ArgCode.INT, ArgCode.BOOL), "int"
    return (ArgCode.FLOAT,), "float"
