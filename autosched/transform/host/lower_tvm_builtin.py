"""LowerTVMBuiltin: lower packed calls and large allocations to calls of the runtime.

before:
    def main(A: Buffer((4,), float32), n: int32):
        attrs(target="cpu")
        attr("default", "device_type", 1)
        attr("default", "device_id", 0)
        W = allocate((n,), float32, "global")
        for i in range(n):
            W[i] = 1.0
        call_packed("example", n, 2.5, dtype=int32)
        A[0] = W[0]
after:
    def main(A: Buffer((4,), float32), n: int32):
        attrs(target="cpu")
        stack_tcode: pointer(int32) = tvm_stack_alloca("arg_tcode", 3)
        stack_tcode_1 = declare(stack_tcode, (3,), int32)
        stack_value: handle = tvm_stack_alloca("arg_value", 3)
        W: pointer(float32) = TVMBackendAllocWorkspace(1, 0, uint64(4) * uint64(n), 2, 32)
        W = view(W, (n,), float32)
        attr(data(W), "storage_alignment", 64)
        if isnullptr(W):
            tvm_throw_last_error()
        for i in range(n):
            W[i] = 1.0
        tvm_struct_set(stack_value, 0, 12, int64(n))
        stack_tcode_1[0] = 0
        tvm_struct_set(stack_value, 1, 12, float64(2.5))
        stack_tcode_1[1] = 2
        call_packed_lowered("example", stack_value, stack_tcode, 0, 2, dtype=int32)
        A[0] = W[0]
        if TVMBackendFreeWorkspace(1, 0, W) != 0:
            tvm_throw_last_error()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import CompileError
from autosched.tir.dtype import DType, handle, int32
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Let, Select, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import is_pure
from autosched.tir.op import cast, const, ne
from autosched.tir.packed import CPU, type_fields
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)
from autosched.tir.walk import direct_exprs, map_children, map_expr_children, pre_order
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.function_target import is_host_function, target_of
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.host.memory_info import is_special
from autosched.transform.host.packed_arguments import Wrap, before, declare, is_null, let, nest
from autosched.transform.host.stack_frame import Frame

MOST_ON_STACK = 1024
"""Allocations of fewer bytes stay, and the code generator puts them on the stack."""

KEEP = "disable_lower_builtin"
"""The annotation of an allocation that stays whatever its size."""

_PACKED = ("call_packed", "call_cpacked")
_DMA = ("dma_copy", "dma_wait", "dma_start_group", "dma_end_group")
_DEVICE_NAMES = {1: "cpu", 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm"}
_DEVICE_NAMES |= {12: "ext_dev", 16: "hexagon"}


@dataclass(frozen=True)
class LowerTVMBuiltin(FunctionPass):
    """Lower runtime operations in functions of the host; other functions stay as they are.

    Memory of a device, and CPU memory of at least 1024 bytes or of unknown size, is taken from the
    runtime's workspace of the device that `device_type` and `device_id` around it name. The CPU
    needs no `device_id`. Packed calls pass their arguments in a frame on the stack, one for the
    function and one for each body of a parallel loop. If a statement contains several calls, each
    is made before the statement, in order, and so are the loads beside them.

    Raises CompileError for memory without a named device, and for packed calls in conditions of
    `while` and in arms of conditional expressions, which are not always executed.
    """

    name: ClassVar[str] = "LowerTVMBuiltin"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not is_host_function(func):
            return func
        target = target_of(func)
        lower = _Lower(func.name, CPU if target is None else target.device_type)
        return func.with_body(lower.with_frame(func.body))


class _Lower:
    def __init__(self, name: str, device_type: int) -> None:
        self._name = name
        self._device_type: Expr = const(device_type)
        self._device_id: Expr | None = None
        self._frame = Frame()
        self._before: list[Wrap] = []
        self._several, self._alone = False, True

    def with_frame(self, body: Stmt) -> Stmt:
        """Lower `body` inside a frame of its own, with as much room as it needs."""
        outside, self._frame = self._frame, Frame()
        new = self.stmt(body)
        new = nest(self._frame.wraps(), new)
        self._frame = outside
        return new

    # -- statements

    def stmt(self, s: Stmt) -> Stmt:
        outside, self._before = self._before, []
        many, alone, held = self._several, self._alone, direct_exprs(s)
        self._several, self._alone = _needs_order(held), len(held) == 1
        arrays, numbers = self._frame.array, self._frame.shape
        new = self._lowered(s)
        new = nest(self._before, new)
        self._before, self._several, self._alone = outside, many, alone
        self._frame.array, self._frame.shape = arrays, numbers
        return new

    def _lowered(self, s: Stmt) -> Stmt:
        match s:
            case AttrStmt(key="device_type" | "device_id"):
                with self._device(s):
                    return self.stmt(s.body)
            case Allocate():
                return self._allocate(s)
            case LetStmt(value=Call(op="nd_mem_alloc_with_scope")):
                return self._nd_alloc(s)
            case For(kind=ForKind.PARALLEL):
                low, extent = self.expr(s.min), self.expr(s.extent)
                return s.with_(min=low, extent=extent, body=self.with_frame(s.body))
            case While():
                if any(map(_is_packed, pre_order(s.condition))):
                    raise self._refused("a packed call in the condition of `while`")
        return map_children(s, self.stmt, self.expr)

    @contextmanager
    def _device(self, s: AttrStmt) -> Iterator[None]:
        saved = self._device_type, self._device_id
        if s.key == "device_type":
            self._device_type = s.value
        else:
            self._device_id = s.value
        yield
        self._device_type, self._device_id = saved

    def _allocate(self, s: Allocate) -> Stmt:
        data = s.buffer_var
        if s.annotations.get(KEEP) or is_special(data.scope) or self._stays(s):
            return map_children(s, self.stmt, self.expr)
        uint64 = DType("uint64")
        device_type, device_id = self._known_device(f"the allocation of {data.name}")
        size: Expr = const(s.dtype.value_bytes, uint64)
        for extent in s.extents:
            size = size * cast(uint64, self.expr(extent))
        code, bits, _ = type_fields(s.dtype)
        place = (device_type, device_id)
        made = Call(handle, "TVMBackendAllocWorkspace", (*place, size, const(code), const(bits)))
        free = Call(int32, "TVMBackendFreeWorkspace", (*place, data))
        return _memory(data, made, _throw_unless_zero(free), self.stmt(s.body))

    def _stays(self, s: Allocate) -> bool:
        """Whether the allocation is small and in CPU memory."""
        size = s.constant_bytes
        if s.buffer_var.scope != "global" or size is None:
            return False
        return self._is_cpu() and 0 < size < MOST_ON_STACK

    def _is_cpu(self) -> bool:
        device = self._device_type
        return isinstance(device, IntImm) and device.value == CPU

    def _nd_alloc(self, s: LetStmt) -> Stmt:
        assert isinstance(s.value, Call)
        scope, ndim, shape = s.value.args
        device_type, device_id = self._known_device(f"the allocation of {s.var.name}")
        where = self._device_name()
        code, bits, _ = type_fields(s.var.element or DType("uint8"))
        place = (device_type, device_id)
        kind = (const(code), const(bits))
        alloc = (StringImm(f"{where}.alloc_nd"), *place, *kind, scope, ndim, shape)
        made = self.expr(Call(handle, "call_packed", alloc))
        outside, self._before = self._before, []
        free_nd = (StringImm(f"{where}.free_nd"), *place, scope, s.var)
        free = self.expr(Call(int32, "call_packed", free_nd))
        freed = nest(self._before, _throw_unless_zero(free))
        self._before = outside
        return _memory(s.var, made, freed, self.stmt(s.body))

    def _known_device(self, what: str) -> tuple[Expr, Expr]:
        if self._device_id is None and self._is_cpu():
            return self._device_type, const(0)
        if self._device_id is None:
            raise self._refused(f"{what}: Unknown device id in current IR")
        return self._device_type, self._device_id

    def _device_name(self) -> str:
        device = self._device_type
        if not isinstance(device, IntImm) or device.value not in _DEVICE_NAMES:
            raise self._refused("Unknown device type in current IR")
        return f"device_api.{_DEVICE_NAMES[device.value]}"

    def _refused(self, why: str) -> CompileError:
        return CompileError(f"LowerTVMBuiltin: {self._name}: {why}")

    # -- expressions

    def expr(self, e: Expr) -> Expr:
        """Lower `e`; the statements that must come first are added to `self._before`."""
        if not self._several and not any(map(_is_lowered, pre_order(e))):
            return e
        if self._alone and isinstance(e, Call) and _is_packed(e):  # nothing is evaluated after it
            return self._packed(e)
        return self._expr(e)

    def _expr(self, e: Expr) -> Expr:
        match e:
            case Call() if _is_packed(e):
                call = self._packed(e)
                return self._held("packed", call) if self._several else call
            case Call(op="tvm_context_id"):
                return const(0, e.dtype)
            case Call(op="tvm_stack_make_shape"):
                stores, value = self._frame.make_shape(self._exprs(e.args))
            case Call(op="tvm_stack_make_array"):
                args = self._exprs(e.args)
                device_type, device_id = self._known_device("tvm_stack_make_array")
                stores, value = self._frame.make_array(args, device_type, device_id)
            case Let() if self._several:
                self._before.append(let(e.var, self._expr(e.value)))
                return self._expr(e.body)
            case Call(op="if_then_else") | Select():
                return self._chosen(e)
            case BufferLoad() if self._several:
                return self._held("loaded", map_expr_children(e, self._expr))
            case Call() if self._several and _has_effect(e):
                return self._held("called", map_expr_children(e, self._expr))
            case _:
                return map_expr_children(e, self._expr)
        self._before += map(before, stores)
        return value

    def _chosen(self, e: Expr) -> Expr:
        """Lower a conditional expression; its arms stay, because not all of them are computed."""
        condition, *arms = e.children()
        if _calls_in(arms):
            raise self._refused(f"a packed call in an arm of {e!r}; use an if statement")
        changed = e.with_children((self._expr(condition), *arms))
        return self._held("chosen", changed) if self._several else changed

    def _exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(self._expr, items))

    def _held(self, name: str, value: Expr) -> Var:
        """Bind the value to a variable now."""
        var = Var(name, value.dtype)
        self._before.append(let(var, value))
        return var

    def _packed(self, e: Call) -> Expr:
        frame = self._frame
        name, args, resource = self._parts(e)
        begin, arrays, numbers = frame.begin, frame.array, frame.shape
        frame.take(len(args) + 1)
        values = self._exprs(args)
        for k, value in enumerate(values):
            self._before += map(before, frame.set_argument(begin + k, value))
        frame.begin, frame.array, frame.shape = begin, arrays, numbers
        op = "call_cpacked_lowered" if resource else "call_packed_lowered"
        slots = (frame.values, frame.codes, const(begin), const(begin + len(args)))
        return Call(e.dtype, op, (name, *slots, *resource))

    def _parts(self, e: Call) -> tuple[Expr, tuple[Expr, ...], tuple[Expr, ...]]:
        """(name, arguments, resource handle of a C function) of a packed call."""
        if e.op in _DMA:
            return StringImm(f"{self._device_name()}.{e.op}"), e.args, ()
        if e.op == "call_cpacked":
            return e.args[0], e.args[1:-1], e.args[-1:]
        return e.args[0], e.args[1:], ()


def _is_packed(e: Expr) -> bool:
    return isinstance(e, Call) and (e.op in _PACKED or e.op in _DMA)


def _calls_in(items: Iterable[Expr]) -> int:
    """The number of packed calls."""
    return sum(_is_packed(part) for e in items for part in pre_order(e))


def _needs_order(items: tuple[Expr, ...]) -> bool:
    """Whether a packed call is beside another call with an effect, or inside a `let`."""
    parts = [part for e in items for part in pre_order(e)]
    if not any(map(_is_packed, parts)):
        return False
    return sum(map(_has_effect, parts)) > 1 or any(isinstance(part, Let) for part in parts)


def _has_effect(e: Expr) -> bool:
    """Whether `e` is a call with an effect, or one that reads state which others change."""
    return isinstance(e, Call) and not is_pure(e.op) and (_is_packed(e) or not _is_lowered(e))


def _is_lowered(e: Expr) -> bool:
    made = ("tvm_context_id", "tvm_stack_make_shape", "tvm_stack_make_array")
    return _is_packed(e) or (isinstance(e, Call) and e.op in made)


def _throw() -> Stmt:
    return Evaluate(Call(int32, "tvm_throw_last_error", ()))


def _throw_unless_zero(code: Expr) -> Stmt:
    return IfThenElse(ne(code, const(0)), _throw())


def _memory(data: Var, made: Expr, free: Stmt, body: Stmt) -> Stmt:
    """Bind `data` to its allocation, check it, run `body`, and free the memory."""
    declared: list[Wrap] = []
    while isinstance(body, DeclBuffer):
        declared.append(declare(body.buffer))
        body = body.body
    inside = seq(IfThenElse(is_null(data), _throw()), nest(declared, seq(body, free)))
    return LetStmt(data, made, AttrStmt(data, "storage_alignment", const(64), inside))
