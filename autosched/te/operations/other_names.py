"""Remedies for names of TVM's te and NumPy that do not exist here: what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from autosched.words import missing

OF_TE = {
    "AXIS_SEPARATOR": "te.decl_buffer(..., axis_separators=[1])",
    "BaseComputeOp": "te.ComputeOp or te.TensorComputeOp",
    "Cast": "te.cast(dtype, value)",
    "HybridOp": "te.ExternOp, which te.hybrid.script makes",
    "IterVar": "te.reduce_axis and te.thread_axis make them (autosched.tir.expr.IterVar)",
    "Select": "te.select(condition, a, b)",
    "SpecializedCondition": "a schedule for each case, and an `if` of Python's between kernels",
    "TensorSlice": "A[i, j] itself, an expression",
    "Var": "te.var makes them (autosched.tir.expr.Var)",
    "argmax": "te.comm_reducer of pairs (place, value)",
    "argmin": "te.comm_reducer of pairs (place, value)",
    "build": "autosched.driver.build(schedule, [A, B], autosched.target.cpu_target())",
    "call_intrin": "te.call_extern, or the function of its name",
    "call_packed": "te.call_extern(name, ...)",
    "call_pure_extern": "te.call_extern(name, ..., dtype=...)",
    "ceildiv": "(a + b - 1) // b",
    "clip": "te.max(te.min(x, high), low)",
    "convert": "the number itself, or te.const(value, dtype)",
    "create_specialized_condition": "a schedule for each case, and an `if` of Python's between "
    "kernels",
    "create_prim_func": "autosched.driver.lower(schedule, [A, B], autosched.target.cpu_target())",
    "cumsum": "te.scan, or te.sum(A[k], axis=k, where=k <= i)",
    "dot": "te.sum(A[i, k] * B[k, j], axis=k)",
    "equal": "te.eq(a, b)",
    "extern_primfunc": "te.extern",
    "gradient": "te.compute, of the derivative that you write down",
    "inf": 'float("inf")',
    "infinity": 'float("inf")',
    "logaddexp": "te.max(a, b) + te.log1p(te.exp(-te.abs(a - b)))",
    "lower": "autosched.driver.lower(schedule, [A, B], autosched.target.cpu_target())",
    "matmul": "te.sum(A[i, k] * B[k, j], axis=k)",
    "maximum": "te.max(a, b)",
    "mean": "te.sum(A[k], axis=k), divided in the tensor that reads it",
    "minimum": "te.min(a, b)",
    "mod": "te.truncmod(a, b), or te.floormod for Python's %",
    "not_equal": "te.ne(a, b)",
    "relu": "te.max(x, 0)",
    "tag_scope": "te.compute(..., tag=...)",
    "where": "te.if_then_else(condition, a, b)",
}
"""Remedies for attributes of the module `autosched.te`."""

OF_TENSORS = {
    "T": "te.compute((n, m), lambda i, j: A[j, i])",
    "axis": "A.op.axis",
    "flatten": "te.compute((n * m,), lambda i: A[i // m, i % m])",
    "max": "te.max(A[i, k], axis=k) over a te.reduce_axis k",
    "mean": "te.sum(A[i, k], axis=k) over a te.reduce_axis k, divided in the tensor that reads it",
    "min": "te.min(A[i, k], axis=k) over a te.reduce_axis k",
    "prod": "te.prod(A[i, k], axis=k) over a te.reduce_axis k",
    "reduce_axis": "A.op.reduce_axis",
    "reshape": "te.compute((n * m,), lambda i: A[i // m, i % m])",
    "size": "math.prod(A.shape)",
    "sum": "te.sum(A[i, k], axis=k) over a te.reduce_axis k",
    "transpose": "te.compute((n, m), lambda i, j: A[j, i])",
}
OF_OPERATIONS = {
    "axis": "op.root_iter_vars; inputs and te.extern have no loops",
    "input_tensors": "op.inputs",
    "num_outputs": "len(op.outputs)",
    "reduce_axis": "op.root_iter_vars; of te.compute alone some are reduced",
    "state_placeholder": "op.state",
}
OF_SCHEDULES = {
    "axis": "s[C].op.axis",
    "reduce_axis": "s[C].op.reduce_axis",
    "rolling_buffer": "s[B].compute_at(s[C], axis), which computes again what steps share",
    "set_axis_separators": "te.decl_buffer(..., axis_separators=[1])",
    "transform_layout": "a te.compute with the axes in that order",
}
"""Remedies for attributes of schedules and their stages."""


class OtherNames:
    """The base of classes whose AttributeError says what to write for a name in `other_names`."""

    __slots__ = ()
    other_names: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # a type checker shall still report names that do not exist

        def __getattr__(self, name: str) -> object:
            what = f"{type(self).__name__!r} object"
            raise missing(what, name, self.other_names)
