"""A lower bound of the time of any kernel of a task: a shorter time was not measured."""

from __future__ import annotations

import math

from autosched.errors import ConfigError
from autosched.task import Task
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import IntImm
from autosched.tir.walk import pre_order
from autosched.transform.loops.known_zeros import zero_unless
from autosched.transform.loops.masked_values import numbers_unless, share_kept

# A call and a return take longer on any CPU; on a GPU a launch takes microseconds.
_CALL_SECONDS = {"cpu": 2e-9, "cuda": 1e-7}

# Two multiply-adds of 16 float32 lanes in each cycle are 64 operations; no clock reaches 8 GHz. A
# CPU with more or wider units than two of 64 bytes would need another number here.
_THREAD_FLOPS = 64 * 8e9

ABOVE_PEAK = 2.0
"""How many times the measured peak a record may claim.

If another program has half of each core while the peak is measured, the peak is half of what it was
when the record was measured.
"""


def has_rate(task: Task) -> bool:
    """Whether a rate gives a bound: only float32 and float64, and no declared operation count."""
    floats = all(tensor.dtype.numpy.name in ("float32", "float64") for tensor in task.tensors)
    return floats and not any("FLOP" in op.attrs for op in task.dag.ops)


def least_operations(task: Task) -> float:
    """The number of operations that every kernel of the task must perform.

    These are the operations of the computation without the products with zeros inserted between the
    elements of a tensor (transposed convolutions), which the code generator leaves out: where
    elements are zero unless an index has one of n remainders, it reads every n-th. It also leaves
    out what is behind conditions such as `j <= i`.
    """
    ops = [op for op in task.dag.ops if isinstance(op, ComputeOp)]
    bodies = [value for op in ops for value in op.body]
    moduli = [r.modulus for value in bodies for e in pre_order(value) for r in zero_unless(e, {})]
    return task.dag.flop_count / math.prod(moduli) * math.prod(map(_share_behind, ops))


def _share_behind(op: ComputeOp) -> float:
    """The share of an operation that is behind its conditions that compare axes."""
    ranges = {
        axis.var: (0, axis.dom.extent.value - 1)
        for axis in op.root_iter_vars
        if axis.dom is not None and isinstance(axis.dom.extent, IntImm)
    }
    found = [n for value in op.body for e in pre_order(value) for n in numbers_unless(e)]
    return share_kept([n for n in found if len(n.terms) > 1], ranges)


def least_seconds(task: Task) -> float:
    """A lower bound in seconds of any kernel of the task on any machine; far below real times.

    A call takes 2 ns (CUDA: 100 ns). On CPUs, no thread reaches more than 5e11 operations per
    second.
    """
    least = _CALL_SECONDS.get(task.target.kind, 0.0)
    if task.target.is_gpu or not has_rate(task):
        return least
    return max(least, least_operations(task) / (task.target.threads * _THREAD_FLOPS))


def least_of(entry: dict[str, object]) -> float:
    """`least_seconds` of a task as records hold it; 0 where the task cannot be rebuilt here."""
    try:
        return least_seconds(Task.from_json(entry, to_run=False))
    except ConfigError:
        return 0.0
