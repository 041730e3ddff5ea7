"""RemoveNoOp: statements that do nothing disappear.

before:
    def main(A: Buffer((4,), float32)):
        for i in range(4):
            if i < 2:
                pass
            else:
                A[i] = 1.0
        for j in range(0):
            A[j] = 2.0
after:
    def main(A: Buffer((4,), float32)):
        for i in range(4):
            if not i < 2:
                A[i] = 1.0

With data flow analysis, stores that nothing reads disappear, too, and so do stores of values that
are there already.

before:
    def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
        T = allocate((16,), float32, "global")
        for i in range(16):
            B[i] = 1.0
        for i in range(16):
            T[i] = A[i] * 2.0
        for i in range(16):
            B[i] = A[i]
        A[0] = 5.0
        if A[0] < 7.0:
            A[1] = 3.0
        A[0] = 5.0
after RemoveNoOp{dataflow=True}:
    def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
        for i in range(16):
            B[i] = A[i]
        A[0] = 5.0
        A[1] = 3.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from autosched.arith import Analyzer
from autosched.tir.expr import BufferLoad, Expr, IntImm, Range
from autosched.tir.function import PrimFunc
from autosched.tir.op import not_
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    is_nop,
    nop,
    seq,
)
from autosched.tir.undefined import is_used
from autosched.tir.walk import map_children
from autosched.transform.dataflow.dead_stores import remove_dead_stores
from autosched.transform.dataflow.known_values import use_known_values
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class RemoveNoOp(FunctionPass):
    """Removes empty loops, branches, allocations; unused lets; pure evaluations; self-assignments.

    Expressions with a side effect stay: the value of a let, a condition, a loop's extent.

    With `dataflow`, or the configuration `"tir.RemoveNoOp": {"use_dataflow_analysis": True}`, the
    pass also removes stores that are overwritten before they are read, stores into allocations that
    nothing reads, stores of a value that is there already, and branches of conditions that the
    stores before decide. The analysis takes time and is off by default.
    """

    name: ClassVar[str] = "RemoveNoOp"
    dataflow: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if self.dataflow or ctx.setting("tir.RemoveNoOp")["use_dataflow_analysis"]:
            func = remove_dead_stores(use_known_values(func))
        return func.with_body(_RemoveNoOp().stmt(func.body))


def _effects(*values: Expr) -> Stmt:
    """The evaluations of the values that have a side effect."""
    return seq(*(Evaluate(v) for v in values if has_side_effect(v)))


class _RemoveNoOp:
    def __init__(self) -> None:
        self.loops: list[For] = []

    def stmt(self, s: Stmt) -> Stmt:
        rule = self.rules.get(type(s))
        return map_children(s, self.stmt) if rule is None else rule(self, s)

    def _for(self, s: Stmt) -> Stmt:
        assert isinstance(s, For)
        if self._never_runs(s.extent):
            return _effects(s.min, s.extent)
        self.loops.append(s)
        new = map_children(s, self.stmt)
        self.loops.pop()
        assert isinstance(new, For)
        return _effects(s.min, s.extent) if is_nop(new.body) else new

    def _never_runs(self, extent: Expr) -> bool:
        if isinstance(extent, IntImm):
            return extent.value <= 0
        analyzer = Analyzer()
        for loop in self.loops:
            analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), override=True)
        return bool(analyzer.const_int_bound(extent).max_value <= 0)

    def _if(self, s: Stmt) -> Stmt:
        assert isinstance(s, IfThenElse)
        then_case = self.stmt(s.then_case)
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        if else_case is not None and is_nop(else_case):
            else_case = None
        if is_nop(then_case):
            if else_case is None:
                return _effects(s.condition)
            return IfThenElse(not_(s.condition), else_case)
        return s.with_(then_case=then_case, else_case=else_case)

    def _let(self, s: Stmt) -> Stmt:
        assert isinstance(s, LetStmt)
        new = map_children(s, self.stmt)
        assert isinstance(new, LetStmt)
        if is_nop(new.body):
            return _effects(s.value)
        unused = not has_side_effect(s.value) and not is_used(s.var, new.body)
        return new.body if unused else new

    def _attr(self, s: Stmt) -> Stmt:
        assert isinstance(s, AttrStmt)
        if s.key == "pragma_debug_skip_region":
            return nop()
        new = map_children(s, self.stmt)
        assert isinstance(new, AttrStmt)
        return _effects(s.value) if is_nop(new.body) else new

    def _allocate(self, s: Stmt) -> Stmt:
        assert isinstance(s, Allocate)
        new = map_children(s, self.stmt)
        assert isinstance(new, Allocate)
        return _effects(*s.extents) if is_nop(new.body) else new

    def _around(self, s: Stmt) -> Stmt:
        new = map_children(s, self.stmt)
        assert isinstance(new, AllocateConst | DeclBuffer)
        return nop() if is_nop(new.body) else new

    def _evaluate(self, s: Stmt) -> Stmt:
        assert isinstance(s, Evaluate)
        return s if is_nop(s) or has_side_effect(s.value) else nop()

    def _store(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferStore)
        value = s.value
        if (
            isinstance(value, BufferLoad)
            and value.buffer is s.buffer
            and value.indices == s.indices
            and not any(map(has_side_effect, s.indices))
        ):
            return nop()
        return s

    rules: ClassVar[dict[type[Stmt], Callable[[_RemoveNoOp, Stmt], Stmt]]] = {
        For: _for,
        IfThenElse: _if,
        LetStmt: _let,
        AttrStmt: _attr,
        Allocate: _allocate,
        AllocateConst: _around,
        DeclBuffer: _around,
        Evaluate: _evaluate,
        BufferStore: _store,
    }
