"""A file of user-defined passes (written by the fixture `passes`), and a candidate for them."""

from autosched.state.steps import steps_from_json
from autosched.target import cpu_target
from autosched.task import Task

SOURCE = """
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autosched.tir.conversion import const
from autosched.tir.function import IRModule
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore, For, ForKind, nop
from autosched.tir.walk import map_children
from autosched.transform.framework.passes import FunctionPass, ModulePass


@dataclass(frozen=True)
class OneThread(FunctionPass):
    kind: ForKind = ForKind.SERIAL
    name: ClassVar[str] = "OneThread"

    def apply(self, func, ctx):
        return func.with_body(self.serial(func.body))

    def serial(self, s):
        s = map_children(s, self.serial)
        parallel = isinstance(s, For) and s.kind is ForKind.PARALLEL
        return s.with_(kind=self.kind) if parallel else s


unrolled = OneThread(ForKind.UNROLLED)


class Whole(ModulePass):
    name = "Whole"

    def apply_module(self, module, ctx):
        return IRModule({key: OneThread()(func) for key, func in module.functions.items()})


class Zero(FunctionPass):
    name = "Zero"

    def apply(self, func, ctx):
        return func.with_body(self.zero(func.body))

    def zero(self, s):
        s = map_children(s, self.zero)
        return s.with_(value=s.value * const(0, s.value.dtype)) if isinstance(s, BufferStore) else s


class Failing(FunctionPass):
    name = "Failing"

    def apply(self, func, ctx):
        return {}["x"]


class Exiting(FunctionPass):
    name = "Exiting"

    def apply(self, func, ctx):
        raise SystemExit(3)


class NoReturn(FunctionPass):
    name = "NoReturn"

    def apply(self, func, ctx):
        self


class Text(FunctionPass):
    name = "Text"

    def apply(self, func, ctx):
        return "text"


class Broken(FunctionPass):
    name = "Broken"

    def apply(self, func, ctx):
        return func.with_body(None)


class NoLoops(FunctionPass):
    name = "NoLoops"

    def apply(self, func, ctx):
        return func.with_body(self.forgetful(func.body))

    def forgetful(self, s):
        changed = map_children(s, self.forgetful)
        if isinstance(changed, For):
            return changed


class Fewer(FunctionPass):
    name = "Fewer"

    def apply(self, func, ctx):
        return replace(func, params=func.params[:-1])


class Turned(FunctionPass):
    name = "Turned"

    def apply(self, func, ctx):
        return replace(func, params=func.params[::-1])


class Called(FunctionPass):
    name = "Called"

    def apply(self, func, ctx):
        return func.with_attrs(global_symbol="other")


class NewParameters(FunctionPass):
    name = "NewParameters"

    def apply(self, func, ctx):
        return parse_func(str(OneThread()(func)))


class TwoOfIt(ModulePass):
    name = "TwoOfIt"

    def apply_module(self, module, ctx):
        return IRModule({**module.functions, "more": next(iter(module.functions.values()))})


class WithArguments(FunctionPass):
    name = "WithArguments"

    def __init__(self, number):
        pass

    def apply(self, func, ctx):
        return func


class NoName(FunctionPass):
    def apply(self, func, ctx):
        return func


class NoApply(FunctionPass):
    name = "NoApply"


class Requiring(OneThread):
    name = "Requiring"
    required = ("Simplify",)


class NoApplyModule(ModulePass):
    name = "NoApplyModule"
"""


ONE = "my_passes.py:OneThread"
TASK = Task.from_workload("matmul", M=16, N=16, K=16, target=cpu_target(2))
TILED = steps_from_json([["SP", 2, 1, 16, [8], 1], ["RE", 2, [0, 1, 3, 2]], ["AN", 2, 0, 3]])
"""A candidate of the task that has a parallel loop."""


def line(text: str) -> int:
    """The number, from 1, of the line of the file that contains `text`."""
    return SOURCE[: SOURCE.index(text)].count("\n") + 1
