"""Lower and build candidates of a task with the task's layout, passes and settings.

Everything that makes code of a task's candidate uses these functions. `driver.py` has functions of
the same kind that take steps and a computation; they lower in the current context and know no task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autosched.driver import build_cuda, build_steps, cuda_source, lower_steps, lower_to_kernels
from autosched.errors import AutoschedError, CompileError
from autosched.state.steps import Step
from autosched.target import Target
from autosched.task import Task
from autosched.tir.function import IRModule, PrimFunc
from autosched.words import told, visible

if TYPE_CHECKING:
    from autosched.codegen.cubin_cache import CubinCache
    from autosched.runtime.cpu import CpuArtifact
    from autosched.runtime.cuda_artifact import CudaArtifact


def lower_candidate(task: Task, steps: Iterable[Step], target: Target | None = None) -> PrimFunc:
    """The optimised TIR of one candidate (`driver.lower_steps`), for `target` or the task's target.

    >>> task = Task.from_workload("matmul", M=2, N=2, K=2)
    >>> plain = lower_candidate(task, ())  # no steps: the loops as declared
    """
    with _lowering_of(task):
        return lower_steps(task.dag, steps, target or task.target, layout=task.layout)


def kernels_of_candidate(task: Task, steps: Iterable[Step]) -> IRModule:
    """The host function and the kernels of one candidate for a GPU, ready to be compiled."""
    with _lowering_of(task):
        return lower_to_kernels(lower_steps(task.dag, steps, task.target, task.function_name))


def build_candidate(task: Task, steps: Iterable[Step], *, name: str = "kernel") -> CpuArtifact:
    """Object code of one candidate (`driver.build_steps`); `name` is that of its function."""
    with _lowering_of(task):
        return build_steps(task.dag, steps, task.target, name, task.layout)


def build_cuda_candidate(
    task: Task,
    steps: Iterable[Step],
    target: Target | None = None,
    cubins: CubinCache | None = None,
) -> CudaArtifact:
    """One candidate for a GPU with its cubin, which `cubins` may have (`driver.build_cuda`)."""
    with _lowering_of(task):
        return build_cuda(task.dag, steps, target or task.target, task.function_name, cubins)


def cuda_source_of_candidate(
    task: Task, steps: Iterable[Step], target: Target | None = None, name: str = ""
) -> CudaArtifact:
    """The artifact of `build_cuda_candidate` without a cubin; `name` is that of its functions."""
    with _lowering_of(task):
        return cuda_source(task.dag, steps, target or task.target, name or task.function_name)


@contextmanager
def _lowering_of(task: Task) -> Iterator[None]:
    """The context of a task's lowering; CompileErrors of code after its passes name the passes."""
    with task.lowering.context():
        try:
            yield
        except CompileError as error:
            if error.kind != "error" or not task.lowering.passes:
                raise
            text = _after_passes(task, str(error))
            raise CompileError(text, line=error.line, statement=error.statement) from error
        except (AutoschedError, MemoryError, OSError):
            raise
        except Exception as error:
            if not task.lowering.passes:
                raise
            raise CompileError(_after_passes(task, told(error))) from error


def _after_passes(task: Task, why: str) -> str:
    """The message for code that cannot be compiled, as one line that names the user's passes."""
    passes = ", ".join(visible(each.spec) for each in task.lowering.passes)
    return f"the code cannot be compiled after {passes}: {' '.join(why.split())}"
