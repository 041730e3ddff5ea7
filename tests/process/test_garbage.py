"""What drawing and lowering make is freed when it is done with, without looking for cycles."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable

import numpy as np

from autosched.codegen.llvm import emit_llvm
from autosched.driver import lower_steps
from autosched.errors import CompileError, ScheduleError
from autosched.features.lowering import features_of_steps
from autosched.features.sets import FEATURE_SETS
from autosched.process.garbage import rarely_collect
from autosched.search.space import SearchSpace
from autosched.search.structure import Steps
from autosched.target import cpu_target
from autosched.task import Task

MOST_A_TENSOR = 30
"""Objects that hang on a tensor and its operation: these refer to each other, nothing else does."""


def left_by(work: Callable[[], None]) -> Counter[str]:
    """The kinds of the objects that `work` leaves for the garbage collector."""
    gc.collect()
    gc.freeze()  # looking through what other tests made takes seconds
    gc.disable()
    flags = gc.get_debug()
    try:
        work()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return Counter(type(o).__qualname__ for o in gc.garbage)
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


def draw(task: Task, count: int) -> list[Steps]:
    """Candidates of the task."""
    return SearchSpace(task).sample(np.random.default_rng(3), count)[:count]


def compile_all(task: Task, candidates: list[Steps]) -> None:
    """Rows of every set and, on the CPU, code of the candidates that are allowed."""
    for steps in candidates:
        try:
            for name in FEATURE_SETS:
                features_of_steps(task.dag, steps, task.target, name)
            func = lower_steps(task.dag, steps, task.target)
            if not task.target.is_gpu:
                emit_llvm(func, task.target)
        except (ScheduleError, CompileError):
            continue


def test_few_cycles() -> None:
    target = cpu_target(threads=2)
    task = Task.from_workload("matmul", target=target, M=64, N=64, K=64)
    candidates = draw(task, 2)
    compile_all(task, candidates)  # what is made once, such as a table of rules
    for left in (
        left_by(lambda: compile_all(task, candidates)),
        left_by(lambda: [draw(task, len(candidates))].clear()),
    ):
        assert not left.keys() & {"function", "method", "Analyzer", "Entry"}, left
        assert left.total() <= MOST_A_TENSOR * left["Tensor"], left


def test_what_there_is_already_is_not_looked_at_again() -> None:
    """A list from before is of no generation; one made later is."""
    threshold = gc.get_threshold()
    before, after = list[list[int]](), list[list[int]]()
    try:
        rarely_collect()
        after.append([])
        assert all(o is not before for o in gc.get_objects())
        assert any(o is after[0] for o in gc.get_objects())
        assert gc.get_threshold()[0] == 500_000
    finally:
        gc.set_threshold(*threshold)
