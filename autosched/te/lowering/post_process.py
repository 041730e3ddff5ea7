"""Final clean-up of the assembled statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.operations.operation import Operation, PlaceholderOp, ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr, IterVar, ProducerLoad, Var
from autosched.tir.stmt import AttrStmt, ProducerRealize, ProducerStore, Stmt
from autosched.tir.walk import free_vars, map_children, map_expr_children

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule


def post_process(stmt: Stmt, sch: Schedule, values: dict[Var, Expr]) -> Stmt:
    """`stmt` with attach markers removed and `values` substituted for their variables.

    A thread attribute nested inside one of the same axis is dropped. Tensors of operations that
    caching or inlining rewrote become the tensors of the original operations; the init, update and
    state tensors of a scan become the scan's outputs.
    """
    return _PostProcess(original_tensors(sch), values).stmt(stmt)


def original_tensors(sch: Schedule) -> dict[Tensor, Tensor]:
    """Map each tensor to the one that replaces it in the final statement.

    Covers the tensors of rewritten operations, and the init, update and state tensors of scans.
    """
    table: dict[Tensor, Tensor] = {}
    for op, stage in sch.stage_map.items():  # all earlier rewrites, as a prefetch may name them
        if op is not stage.origin_op:
            table.update(zip(op.outputs, stage.origin_op.outputs, strict=True))
    for stage in sch.stages:
        if isinstance(stage.op, ScanOp):
            outputs = stage.origin_op.outputs
            for parts in (stage.op.init, stage.op.update, stage.op.state):
                table.update(zip(parts, outputs, strict=True))
            for init in stage.op.init:
                if isinstance(init.op, PlaceholderOp):
                    del table[init]  # an input is copied into the scan's output, so it stays
    return table


class _PostProcess:
    def __init__(self, tensors: dict[Tensor, Tensor], values: dict[Var, Expr]) -> None:
        self.tensors = tensors
        self.values = values
        self.open: dict[IterVar, Expr] = {}
        self._memo: dict[Expr, Expr] = {}

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self.values.get(e, e)
        if not self.tensors and free_vars(e).isdisjoint(self.values):
            return e
        done = self._memo.get(e)
        if done is None:
            done = map_expr_children(e, self.expr)
            if isinstance(done, ProducerLoad) and done.producer in self.tensors:
                done = ProducerLoad(self.tensors[done.producer], done.indices)
            self._memo[e] = done
        return done

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, AttrStmt):
            return self._attr(s)
        if isinstance(s, ProducerStore):
            done = map_children(s, self.stmt, self.expr)
            tensor = self.tensors.get(s.producer)
            if tensor is None:
                return done
            assert isinstance(done, ProducerStore)
            return ProducerStore(tensor, done.value, done.indices)
        if isinstance(s, ProducerRealize):
            done = map_children(s, self.stmt, self.expr)
            tensor = self.tensors.get(s.producer)
            if tensor is None:
                return done
            assert isinstance(done, ProducerRealize)
            return ProducerRealize(tensor, done.bounds, done.condition, done.body, done.scope)
        return map_children(s, self.stmt, self.expr)

    def _attr(self, s: AttrStmt) -> Stmt:
        node = s.node
        if s.key == "loop_scope":
            return self.stmt(s.body)
        if s.key == "thread_extent":
            return self._thread(s, node)
        if isinstance(node, Tensor):
            node = self.tensors.get(node, node)
        elif s.key == "buffer_bind_scope":
            node = (node[0], self.tensors.get(node[1], node[1]))
        elif s.key == "double_buffer_scope":
            return self._for_outputs(s, node)
        value, body = self.expr(s.value), self.stmt(s.body)
        return AttrStmt(node, s.key, value, body)

    def _for_outputs(self, s: AttrStmt, op: Operation) -> Stmt:
        body = self.stmt(s.body)
        for tensor in reversed(op.outputs):
            body = AttrStmt(self.tensors.get(tensor, tensor), s.key, s.value, body)
        return body

    def _thread(self, s: AttrStmt, thread: IterVar) -> Stmt:
        extent = self.expr(s.value)
        known = self.open.get(thread)
        if known is not None:
            if known is not extent:
                raise ScheduleError(
                    f"schedule_ops: thread axis {thread.thread_tag} is used with extent {known!r} "
                    f"outside and {extent!r} inside"
                )
            return self.stmt(s.body)
        self.open[thread] = extent
        body = self.stmt(s.body)
        del self.open[thread]
        return AttrStmt(thread, s.key, extent, body)
