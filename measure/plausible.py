"""The least time that any kernel of a task can take: what is below it was not measured."""

from __future__ import annotations

import math

from autosched.errors import ConfigError
from autosched.task import Task
from autosched.te.operations.operation import ComputeOp
from autosched.tir.walk import pre_order
from autosched.transform.loops.known_zeros import zero_unless

# A call and a return take longer on any CPU; on a GPU a launch takes microseconds.
_CALL_SECONDS = {"cpu": 2e-9, "cuda": 1e-7}

# Multiply-adds of 16 float32 numbers, two in each cycle, count as 64 operations; no clock reaches
# 8 GHz. A CPU with more or wider units than two of 64 bytes would need another number here.
_THREAD_FLOPS = 64 * 8e9

ABOVE_PEAK = 2.0
"""Times the measured peak that a record may claim: a peak that is measured while another program
has half of each core is half of what the record was measured at."""


def has_rate(task: Task) -> bool:
    """Whether operations a second say what is impossible: of floats, counted and not declared."""
    floats = all(tensor.dtype.numpy.name in ("float32", "float64") for tensor in task.tensors)
    return floats and not any("FLOP" in op.attrs for op in task.dag.ops)


def least_operations(task: Task) -> float:
    """Operations that a kernel of the task cannot do without.

    Those of the computation but for products with zeros that were inserted between the elements of
    a tensor (transposed convolutions), which the code generator leaves out: of elements that are
    zero unless an index has one of n remainders, it reads every n-th.
    """
    bodies = [value for op in task.dag.ops if isinstance(op, ComputeOp) for value in op.body]
    moduli = [r.modulus for value in bodies for e in pre_order(value) for r in zero_unless(e, {})]
    return task.dag.flop_count / math.prod(moduli)


def least_seconds(task: Task) -> float:
    """Seconds that no kernel of the task is faster than, on any machine; far below real times.

    A call takes 2 ns (CUDA: 100 ns), and for CPUs 5e11 operations a second of each thread are more
    than any has.
    """
    least = _CALL_SECONDS.get(task.target.kind, 0.0)
    if task.target.is_gpu or not has_rate(task):
        return least
    return max(least, least_operations(task) / (task.target.threads * _THREAD_FLOPS))


def least_of(entry: dict[str, object]) -> float:
    """As `least_seconds`, of a task as records hold it; 0 where it cannot be rebuilt here."""
    try:
        return least_seconds(Task.from_json(entry, to_run=False))
    except ConfigError:
        return 0.0
