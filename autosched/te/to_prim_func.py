"""From a schedule to a function over buffers (spec te_bounds 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds import infer_bound
from autosched.te.operation import ExternOp
from autosched.te.schedule_ops import schedule_ops
from autosched.te.tensor import Tensor
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import BufferLoad, Expr, IntImm, ProducerLoad, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import const, mul
from autosched.tir.stmt import (
    AttrStmt,
    BufferRealize,
    BufferStore,
    ProducerRealize,
    ProducerStore,
    Stmt,
)
from autosched.tir.walk import map_children, map_expr_children

if TYPE_CHECKING:
    from autosched.te.schedule import Schedule


def schedule_to_prim_func(
    sch: Schedule, args: Sequence[Tensor | Var], name: str = "main"
) -> PrimFunc:
    """The function `name` of `args` (tensors of the schedule, or scalars) that computes `sch`.

    Every tensor becomes a buffer of its declared shape: a parameter, or storage realized where the
    schedule computes it. ScheduleError when the schedule is illegal or an input is not an argument.
    """
    normalized = sch.normalize()
    body = schedule_ops(normalized, infer_bound(normalized))
    return to_prim_func(body, args, name)


def to_prim_func(body: Stmt, args: Sequence[Tensor | Var], name: str = "main") -> PrimFunc:
    """`body`, a statement over tensors, as the function `name` of `args`."""
    params: list[Var] = []
    buffer_map: dict[Var, Buffer] = {}
    buffers: dict[Tensor, Buffer] = {}
    for arg in args:
        if isinstance(arg, Tensor):
            if arg in buffers:
                raise ScheduleError(f"to_prim_func {name}: tensor {arg.name} is an argument twice")
            param = Var(f"{arg.name}_handle", handle)
            buffers[arg] = buffer_map[param] = decl_buffer(arg.shape, arg.dtype, arg.name)
            params.append(param)
        else:
            params.append(arg)
    attrs = {"global_symbol": name, "from_legacy_te_schedule": True, "tir.noalias": True}
    return PrimFunc(tuple(params), _Convert(buffers).stmt(body), buffer_map, attrs)


class _Convert:
    """Replaces tensors by buffers."""

    def __init__(self, buffers: dict[Tensor, Buffer]) -> None:
        self.buffers = buffers
        self._memo: dict[Expr, Expr] = {}

    def buffer(self, tensor: Tensor) -> Buffer:
        found = self.buffers.get(tensor)
        if found is None:
            raise ScheduleError(
                f"to_prim_func: tensor {tensor.name} is neither computed by the schedule where it "
                "is used nor an argument"
            )
        return found

    def expr(self, e: Expr) -> Expr:
        children = e.children()
        if not children:
            return e
        done = self._memo.get(e)
        if done is None:
            done = map_expr_children(e, self.expr)
            if isinstance(done, ProducerLoad):
                done = BufferLoad(self.buffer(done.producer), done.indices)
            self._memo[e] = done
        return done

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case ProducerStore(tensor, value, indices):
                return BufferStore(
                    self.buffer(tensor), self.expr(value), tuple(map(self.expr, indices))
                )
            case ProducerRealize(tensor, bounds, condition, body, scope):
                if tensor not in self.buffers:
                    self.buffers[tensor] = decl_buffer(
                        tensor.shape, tensor.dtype, tensor.name, scope
                    )
                return BufferRealize(self.buffers[tensor], bounds, condition, self.stmt(body))
            case AttrStmt(node, key, value, body):
                if isinstance(node, ExternOp) and key == "extern_scope":
                    return self._extern(node)
                if isinstance(node, Tensor):
                    return self._tensor_attr(node, s)
        return map_children(s, self.stmt, self.expr)

    def _tensor_attr(self, tensor: Tensor, s: AttrStmt) -> Stmt:
        body = self.stmt(s.body)  # the attribute may stand around the realization
        return AttrStmt(self.buffer(tensor), s.key, self.expr(s.value), body)

    def _extern(self, op: ExternOp) -> Stmt:
        """The statement of `op` over the buffers that hold its tensors."""
        tensors = (*op.input_tensors, *op.outputs)
        table = dict(
            zip((*op.input_buffers, *op.output_buffers), map(self.buffer, tensors), strict=True)
        )
        return replace_buffers(op.body, table)


def replace_buffers(stmt: Stmt, table: dict[Buffer, Buffer]) -> Stmt:
    """`stmt` over other buffers: loads, stores, pointers, symbolic shapes, strides and offsets."""
    values: dict[Var, Expr] = {}
    for old, new in table.items():
        values[old.data] = new.data
        for a, b in zip(old.shape, new.shape, strict=True):
            _bind(values, a, b)
        for a, b in zip(old.strides, _strides(new), strict=False):
            _bind(values, a, b)
        if old.elem_offset is not None:
            offset = const(0, old.elem_offset.dtype) if new.elem_offset is None else new.elem_offset
            _bind(values, old.elem_offset, offset)

    def expr(e: Expr) -> Expr:
        if isinstance(e, Var):
            return values.get(e, e)
        done = map_expr_children(e, expr)
        if isinstance(done, BufferLoad) and done.buffer in table:
            return BufferLoad(table[done.buffer], done.indices, done.predicate)
        return done

    def go(s: Stmt) -> Stmt:
        done = map_children(s, go, expr)
        if isinstance(done, BufferStore) and done.buffer in table:
            return BufferStore(table[done.buffer], done.value, done.indices, done.predicate)
        return done

    return go(stmt)


def _bind(values: dict[Var, Expr], declared: Expr, actual: Expr) -> None:
    if isinstance(declared, Var):
        values[declared] = actual


def _strides(buffer: Buffer) -> tuple[Expr, ...]:
    """The strides of `buffer` in elements, also when it is compact."""
    if buffer.strides:
        return buffer.strides
    strides: list[Expr] = []
    step: Expr = IntImm(1)
    for extent in reversed(buffer.shape):
        strides.append(step)
        step = mul(step, extent)
    return tuple(reversed(strides))
