"""Lowers a schedule to a function over buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.errors import ScheduleError
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.bounds.loop_length import MOST_ITERATIONS
from autosched.te.lowering.buffer_binding import Binding, Storage, bind_buffers, storage_of, whole
from autosched.te.lowering.schedule_ops import schedule_ops
from autosched.te.lowering.store_predicates import check_store_predicates
from autosched.te.operations.operation import ComputeOp, Operation, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.te.schedule.schedule import Schedule
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, ProducerLoad, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    AttrStmt,
    BufferRealize,
    BufferStore,
    ProducerRealize,
    ProducerStore,
    Stmt,
)
from autosched.tir.walk import free_vars, map_children, map_expr_children

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def schedule_to_prim_func(
    sch: Schedule, args: Sequence[Tensor | Var], name: str = "main"
) -> PrimFunc:
    """The function `name` of `args` (tensors of the schedule, or scalars) that computes `sch`.

    Every tensor becomes a buffer of its declared shape: a parameter, or storage realized where the
    schedule computes it. A tensor that primitives have replaced, and its replacement
    (`current_tensor`), are the same argument. ScheduleError when the schedule is illegal, an input
    is not an argument, an argument is no tensor of the schedule, is inlined or has storage of its
    own (storage_align), or an operation reads at a variable that nothing gives a value.
    """
    _check_kinds(sch, args, name)
    args = [_declared(sch, arg, name) for arg in args]
    _check_variables(sch, args, name)
    for op in sch.outputs:
        if not any(arg is tensor for tensor in sch[op].origin_op.outputs for arg in args):
            raise ScheduleError(
                f"to_prim_func {name}: {op.name}, which the schedule was created to compute, is no "
                "argument, and its result would be lost; add it to the arguments"
            )
    for arg in args:
        stage = sch.stage_map.get(arg.op) if isinstance(arg, Tensor) else None
        if stage is not None and stage.attach_type is AttachType.INLINE:
            raise ScheduleError(
                f"to_prim_func {name}: tensor {stage.op.name} is an argument, but its stage is "
                "inlined and nothing would store it; leave one of the two out"
            )
        if stage is not None and _is_aligned(stage):
            raise ScheduleError(
                f"to_prim_func {name}: tensor {stage.op.name} is an argument, which is stored as "
                "callers store it, and its stage asks for another storage (storage_align); leave "
                "one of the two out"
            )
    normalized = sch.normalize()
    body = schedule_ops(normalized, infer_bound(normalized))
    check_store_predicates(body, normalized, _known(args))
    return to_prim_func(body, args, name)


def _check_kinds(sch: object, args: object, name: str) -> None:
    for expected, ok, given in (
        ("a schedule, e.g. te.create_schedule(C.op)", isinstance(sch, Schedule), sch),
        ("a list of arguments, e.g. [A, B, C]", isinstance(args, Sequence), args),
    ):
        if not ok:
            raise ScheduleError(f"to_prim_func {name}: expected {expected}, {found(given)}")


def _declared(sch: Schedule, arg: object, name: str) -> Tensor | Var:
    """The argument as the body of the function has it: of a tensor, the one first declared."""
    if isinstance(arg, Var):
        return arg
    if not isinstance(arg, Tensor):
        why = f"to_prim_func {name}: expected tensors and variables as arguments, {found(arg)}"
        if isinstance(arg, Operation):
            why += "; those of an operation are its `outputs`"
        raise ScheduleError(why)
    stage = sch.stage_map.get(arg.op)
    if stage is None:
        if isinstance(arg.op, PlaceholderOp):  # an input that nothing reads
            return arg
        raise ScheduleError(
            f"to_prim_func {name}: tensor {arg.name} is an argument, but this schedule does not "
            f"compute it (its stages are {', '.join(s.op.name for s in sch.stages)}); give the "
            "tensors that it was created of"
        )
    return stage.origin_op.outputs[arg.value_index]


def _check_variables(sch: Schedule, args: Sequence[Tensor | Var], name: str) -> None:
    known = _known(args)
    for stage in sch.stages:
        op = stage.op
        if isinstance(op, ComputeOp):
            own = {axis.var for axis in op.root_iter_vars}
            unknown = frozenset().union(*map(free_vars, op.body)) - own - known
            if unknown:
                names = ", ".join(sorted(var.name for var in unknown))
                raise ScheduleError(
                    f"to_prim_func {name}: {op.name} uses {names}, which is neither one of its "
                    "axes nor an argument; reduce over it (te.sum(..., axis=...)), or add it to "
                    "the arguments"
                )


def _known(args: Sequence[Tensor | Var]) -> set[Var]:
    """The variables that the arguments define: scalars, and variables in tensor shapes."""
    known = {arg for arg in args if isinstance(arg, Var)}
    for arg in args:
        if isinstance(arg, Tensor):
            known.update(*map(free_vars, arg.shape))
    return known


def _is_aligned(stage: Stage) -> bool:
    return any(attr.dim_align_factor for attr in stage.iter_var_attrs.values())


def to_prim_func(body: Stmt, args: Sequence[Tensor | Var], name: str = "main") -> PrimFunc:
    """The function `name` of `args` that runs `body`, with buffers in place of its tensors.

    ScheduleError when an argument, or the realized part of a tensor, has more elements than an
    int32 can index.
    """
    params: list[Var] = []
    buffer_map: dict[Var, Buffer] = {}
    buffers: dict[Tensor, Buffer] = {}
    for arg in args:
        if isinstance(arg, Tensor):
            if arg in buffers:
                raise ScheduleError(f"to_prim_func {name}: tensor {arg.name} is an argument twice")
            _check_elements(name, arg, arg.shape)
            param = Var(f"{arg.name}_handle", handle)
            buffers[arg] = buffer_map[param] = decl_buffer(arg.shape, arg.dtype, arg.name)
            params.append(param)
        else:
            params.append(arg)
    attrs = {"global_symbol": name, "from_legacy_te_schedule": True, "tir.noalias": True}
    return PrimFunc(tuple(params), _Convert(name, buffers).stmt(body), buffer_map, attrs)


def _check_elements(
    name: str,
    tensor: Tensor,
    extents: Sequence[Expr],
    aligned: Sequence[tuple[int, int, int]] = (),
) -> None:
    """ScheduleError when flat int32 indices into `extents` would wrap.

    `aligned` are the (dim, factor, offset) of `storage_of`.
    """
    wanted = {dim: (factor, offset) for dim, factor, offset in aligned}
    elements = 1
    for dim, extent in reversed(list(enumerate(extents))):
        if dim in wanted:
            factor, offset = wanted[dim]
            elements += (factor + offset - elements % factor) % factor
        elements *= extent.value if isinstance(extent, IntImm) else 1
    if elements > MOST_ITERATIONS:
        sizes = ", ".join(map(str, extents))
        padded = ", its rows aligned (storage_align)," if aligned else ","
        raise ScheduleError(
            f"to_prim_func {name}: {tensor.name}, of shape ({sizes}){padded} would have {elements} "
            f"elements, at most {MOST_ITERATIONS} can be indexed; give smaller sizes"
        )


class _Convert:
    """Rewrites statements over tensors to statements over buffers."""

    def __init__(self, name: str, buffers: dict[Tensor, Buffer]) -> None:
        self.name = name
        self.buffers = buffers
        self.storage: dict[Tensor, Storage] = {}
        self.aligned: dict[Tensor, list[tuple[int, int, int]]] = {}
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
        if not e.children() and not isinstance(e, ProducerLoad):
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
                    aligned = self.aligned.get(tensor, ())
                    _check_elements(self.name, tensor, [r.extent for r in bounds], aligned)
                    buffer = decl_buffer(tensor.shape, tensor.dtype, tensor.name, scope)
                    self.buffers[tensor] = buffer
                    self.storage[tensor] = storage_of(buffer, bounds, aligned)
                return BufferRealize(self.buffers[tensor], bounds, condition, self.stmt(body))
            case AttrStmt(node, key, value, body):
                if key == "buffer_bind_scope":
                    return self._bind(s)
                if key == "buffer_dim_align":
                    self._align(node, value)
                if isinstance(node, Tensor):
                    return self._tensor_attr(node, s)
        return map_children(s, self.stmt, self.expr)

    def _tensor_attr(self, tensor: Tensor, s: AttrStmt) -> Stmt:
        # Convert the body first: it may hold the realization that defines the tensor's buffer.
        body = self.stmt(s.body)
        return AttrStmt(self.buffer(tensor), s.key, self.expr(s.value), body)

    def _align(self, tensor: Tensor, value: Expr) -> None:
        if isinstance(value, Call) and all(isinstance(a, IntImm) for a in value.args):
            dim, factor, offset = (a.value for a in value.args if isinstance(a, IntImm))
            self.aligned.setdefault(tensor, []).append((dim, factor, offset))

    def _bind(self, s: AttrStmt) -> Stmt:
        """The statement inside nested buffer_bind_scope attributes, over the actual buffers."""
        bindings: list[Binding] = []
        body: Stmt = s
        while isinstance(body, AttrStmt) and body.key == "buffer_bind_scope":
            declared, tensor = body.node
            assert isinstance(body.value, Call)
            numbers = [self.expr(e) for e in body.value.args]
            region = tuple(map(Range, numbers[::2], numbers[1::2]))
            bindings.append(Binding(declared, self._storage(tensor), region))
            body = body.body
        names = ", ".join(sorted({b.storage.buffer.name for b in bindings}))
        return bind_buffers(
            self.stmt(body), bindings, f"to_prim_func: the statement given over {names}"
        )

    def _storage(self, tensor: Tensor) -> Storage:
        found = self.storage.get(tensor)
        if found is None:
            found = storage_of(self.buffer(tensor), whole(tensor))
        return found
