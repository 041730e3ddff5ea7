"""The referee finds faults: every mutant of ten kernels is reported, with the right statement.

Two kinds of mutants mean what the kernel means, and are named here:

* `if threadIdx.x == 0:` around a store that does not depend on the thread. After a reduction across
  threads all of them hold the result, and all would store the same value at the same place.
* One of two conditions around each other that hold alike, `t // 8 + 4 * k < 129` and
  `t + 32 * k < 1032`. The test drops both, which is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from autosched.referee.check import Report, Verdict, check_function, lowered
from autosched.referee.mutants import Mutant, mutants
from autosched.referee.scale_workload import scaled
from autosched.state.steps import Step
from autosched.task import Task
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_watch import Watch
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import IfThenElse, Stmt
from autosched.tir.walk import free_vars, map_children, stmts
from kit.warp_kernels import MMA, Kernel, ldmatrix

Candidate = Callable[[str, int], tuple[Task, tuple[Step, ...]]]

KERNELS = [
    ("matmul", 33),
    ("batch_matmul", 1),
    ("dense_bias_relu", 0),
    ("conv1d_nlc", 0),
    ("conv2d_nchw_bn_relu", 0),
    ("depthwise_conv2d_nhwc", 16),
    ("max_pool2d_nchw", 0),
    ("softmax", 0),
    ("layer_norm", 0),
    ("norm_bmn", 0),
]
OF_EACH_KIND = 2


def some(func: PrimFunc) -> Iterator[Mutant]:
    """The first and the last mutants of each kind."""
    every = list(mutants(func))
    total = Counter(m.kind for m in every)
    seen: Counter[str] = Counter()
    for m in every:
        seen[m.kind] += 1
        if seen[m.kind] < OF_EACH_KIND or seen[m.kind] == total[m.kind]:
            yield m


def names_the_fault(report: Report, mutant: Mutant) -> bool:
    """A fault is reported in the statement itself, or in one about the same memory."""
    if report.verdict is not Verdict.FAULT or report.stmt is mutant.stmt or not mutant.buffers:
        return report.verdict in (Verdict.FAULT, Verdict.WRONG)
    assert report.stmt is not None
    text = to_text(report.stmt)
    return any(name in text for name in mutant.buffers)


def stores_alike_in_all_threads(s: Stmt) -> bool:
    if not isinstance(s, IfThenElse) or to_text(s).split("\n")[0].strip() != "if threadIdx.x == 0:":
        return False
    (thread,) = free_vars(s.condition)
    store = s.then_case
    return thread not in free_vars(getattr(store, "indices")[0])


def without_both(func: PrimFunc, s: Stmt) -> PrimFunc | None:
    """`func` without `s` and the condition directly around or inside it."""
    if not isinstance(s, IfThenElse):
        return None
    pair = next(
        (
            o
            for o in stmts(func.body)
            if isinstance(o, IfThenElse)
            and isinstance(o.then_case, IfThenElse)
            and s in (o, o.then_case)
        ),
        None,
    )
    if pair is None:
        return None
    inner = pair.then_case
    assert isinstance(inner, IfThenElse)

    def go(x: Stmt) -> Stmt:
        return inner.then_case if x is pair else map_children(x, go)

    return func.with_body(go(func.body))


@pytest.mark.parametrize(("workload", "number"), KERNELS)
def test_mutants_of_golden_candidates(golden: Candidate, workload: str, number: int) -> None:
    task, steps = golden(workload, number)
    small, small_steps = scaled(task, steps) or (task, steps)
    source, final = lowered(small, small_steps)

    def check(func: PrimFunc) -> Report:
        return check_function(small, source, func, seconds=60, sample=False)

    assert check(final).verdict is Verdict.AGREES
    kinds = set()
    for mutant in some(final):
        kinds.add(mutant.kind)
        report = check(mutant.func)
        if report.verdict is Verdict.AGREES:
            both = without_both(final, mutant.stmt)
            if both is not None:
                report = check(both)
            elif stores_alike_in_all_threads(mutant.stmt):
                continue
        assert names_the_fault(report, mutant), f"{mutant}\n{report}"
    assert {"store shifted by one", "load shifted by one"} <= kinds


def test_a_group_too_few_waited_for() -> None:
    """No golden candidate copies asynchronously: a kernel written by hand."""
    text = """\
def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
    launch(threadIdx.x, 64)
    S = allocate((64,), float32, "shared")
    ptx_cp_async(S, threadIdx.x, A, threadIdx.x, 4, dtype=float32)
    ptx_commit_group(dtype=int32)
    ptx_wait_group(0, dtype=int32)
    tvm_storage_sync("shared")
    B[threadIdx.x] = S[63 - threadIdx.x]
"""
    task = Task.from_expression("B[i] = A[63 - i]", {"A": [64], "B": [64]}, target="cuda")
    func = parse_func(text)
    source = parse_func(text)
    assert check_function(task, source, func, seconds=60, sample=False).verdict is Verdict.AGREES
    found = {
        m.kind: check_function(task, source, m.func, seconds=60, sample=False)
        for m in mutants(func)
    }
    waited = found["one group fewer waited for"]
    assert (waited.verdict, waited.kind) == (Verdict.FAULT, "CopyError")
    assert all(r.verdict in (Verdict.FAULT, Verdict.WRONG) for r in found.values())


@pytest.mark.parametrize("kernel", [*MMA.values(), ldmatrix()], ids=[*MMA, "ldmatrix"])
def test_products_of_a_warp(kernel: Kernel) -> None:
    """Swapped lanes, and all else, of matrix products written by hand."""
    kinds = set()
    for mutant in mutants(kernel.func):
        kinds.add(mutant.kind)
        arrays, want = kernel.arguments(1)
        try:
            interp.run(mutant.func, arrays, watch=Watch(outputs={"C"}))
        except InterpreterError:
            continue
        assert not np.array_equal(arrays[2], want), str(mutant)
    assert {"lanes swapped", "store shifted by one", "load shifted by one"} <= kinds
