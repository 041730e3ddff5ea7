"""HoistIfThenElse: conditions that a loop does not change move out of it.

before:
    def main(A: Buffer((64,), float32)):
        for i in range(8):
            for j in range(8):
                if i < 3:
                    A[i * 8 + j] = 0.0
after:
    def main(A: Buffer((64,), float32)):
        for i in range(8):
            if i < 3:
                for j in range(8):
                    A[i * 8 + j] = 0.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.division import divides_by_variable
from autosched.tir.expr import Expr
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import AttrStmt, For, IfThenElse, LetStmt, Stmt
from autosched.tir.walk import child_stmts, distinct, map_children, uses
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.remove_no_op import RemoveNoOp

_THREAD_KEYS = ("thread_extent", "virtual_thread")


@dataclass(frozen=True)
class HoistIfThenElse(FunctionPass):
    """Moves an `if` that is all of a loop's body out of it; each branch gets a copy of the loop.

    The condition must neither depend on the loop nor read memory. Attributes, lets and conditions
    without else may stand between the loop and the `if`, but no thread attributes or sequences. A
    function in which something moved is simplified and freed of no-ops.
    """

    name: ClassVar[str] = "HoistIfThenElse"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        hoisted = func.with_body(_hoist(func.body))
        if hoisted is func:
            return func
        return RemoveNoOp()(Simplify()(hoisted))


def _hoist(s: Stmt) -> Stmt:
    if not _has_condition_in_loop(s, False):
        return s
    new = map_children(s, _hoist)
    return _lift(new) if isinstance(new, For) else new


def _has_condition_in_loop(s: Stmt, in_loop: bool) -> bool:
    if isinstance(s, IfThenElse) and in_loop:
        return True
    inside = in_loop or isinstance(s, For)
    return any(_has_condition_in_loop(child, inside) for child in child_stmts(s))


def _lift(loop: For) -> Stmt:
    """The loop with invariant conditions moved around it; the loop itself if there are none."""
    branch = _free_branch(loop.body, loop)
    if branch is None:
        return loop

    def around(case: Stmt) -> Stmt:
        inner = _replace(loop, branch, case)
        return _lift(inner) if isinstance(inner, For) else inner

    then_case = around(branch.then_case)
    if branch.else_case is None:
        return IfThenElse(branch.condition, then_case)
    return IfThenElse(branch.condition, then_case, copy_stmt(around(branch.else_case), {}))


def _free_branch(s: Stmt, loop: For) -> IfThenElse | None:
    """The first `if` on the chain of statements below `loop` that does not depend on it."""
    bound = [loop.loop_var]
    while True:
        if isinstance(s, IfThenElse):
            if not uses(s.condition, bound) and _is_computable_anywhere(s.condition):
                return s
            if s.else_case is not None:
                return None
            s = s.then_case
        elif isinstance(s, LetStmt):
            bound.append(s.var)
            s = s.body
        elif isinstance(s, AttrStmt) and s.key not in _THREAD_KEYS:
            s = s.body
        else:
            return None


def _is_computable_anywhere(condition: Expr) -> bool:
    """Whether `condition` neither reads memory nor divides by a variable: it is safe anywhere."""
    return is_lasting(condition) and not any(map(divides_by_variable, distinct(condition)))


def _replace(chain: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """The nest `chain` with the statement `old` at its end replaced."""
    if chain is old:
        return new
    return map_children(chain, lambda inner: _replace(inner, old, new))
