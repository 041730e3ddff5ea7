"""The types of fixtures that several files use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from autosched.codegen.llvm_compile import Level
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Stmt
from kit.measurer import StubMeasurer

Array = np.ndarray[Any, Any]
Reference = Callable[..., Any]
Check = Callable[[Schedule, Sequence[Tensor], Reference], None]
UseMeasurer = Callable[..., list[tuple[StubMeasurer, dict[str, Any]]]]
BodyText = Callable[[PrimFunc], str]


class MakeTask(Protocol):
    """Makes a small task of a workload, on cpu or cuda."""

    def __call__(self, name: str, target: str = "cpu") -> Task: ...


class MakeContext(Protocol):
    """Makes the context of a task under search options."""

    def __call__(self, task: Task, **options: Any) -> Context: ...


class MakeSpace(Protocol):
    """Makes the search space of a task under search options."""

    def __call__(self, task: Task, **options: Any) -> SearchSpace: ...


class MakeFunc(Protocol):
    """Makes a function, as `kit.stmts.func_of` does."""

    def __call__(
        self,
        body: Stmt,
        *buffers: Buffer,
        te: bool = False,
        scalars: Sequence[Var] = (),
        **attrs: Any,
    ) -> PrimFunc: ...


class SameResult(Protocol):
    """Runs both functions and compares the arrays that they leave behind."""

    def __call__(
        self, before: PrimFunc, after: PrimFunc, *scalars: int | float, seed: int = 0
    ) -> None: ...


class MakeKernel(Protocol):
    """Makes a function whose parameters are the buffers."""

    def __call__(self, body: Stmt, buffers: Sequence[Buffer], name: str = "kernel") -> PrimFunc: ...


class RunKernel(Protocol):
    """Compiles a kernel and runs it on arrays."""

    def __call__(self, f: PrimFunc, *args: Any, level: Level = "auto") -> None: ...


class Elementwise(Protocol):
    """Makes out[i] = f(in0[i], in1[i], ...) over n elements, `lanes` at a time."""

    def __call__(
        self,
        f: Callable[..., Expr],
        inputs: Sequence[str],
        output: str,
        n: int = 64,
        lanes: int = 1,
    ) -> PrimFunc: ...
