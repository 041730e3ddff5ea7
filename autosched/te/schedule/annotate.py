"""Primitives that annotate a loop of a stage: bound, vectorized, unrolled, and so on.

The examples show `B[i, j] = A[i, j] * 2` over 16 x 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.te.operations.operation import ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.te.relations import AttachType, IterVarAttr
from autosched.te.schedule.refusal import check_kind, check_thread_tag, leaf_position, refusal
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar
from autosched.tir.op import as_expr

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def _changed(stage: Stage, iv: IterVar) -> IterVarAttr:
    """Replace the attributes of `iv` by a copy, and return it for the caller to change."""
    old = stage.iter_var_attrs.get(iv)
    new = IterVarAttr() if old is None else old.copy()
    stage.iter_var_attrs[iv] = new
    return new


def bind(stage: Stage, iv: IterVar, thread: IterVar) -> None:
    """Run the iterations of loop `iv` on the thread index `thread` (te.thread_axis).

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].bind(i, te.thread_axis("blockIdx.x")):
        launch(blockIdx.x, 16)
        for j in range(16):
            B[blockIdx.x, j] = A[blockIdx.x, j] * 2.0
    """
    leaf_position("bind", stage, iv)
    check_kind("bind", stage, iv, (IterKind.DATA_PAR, IterKind.REDUCE))
    if not isinstance(thread, IterVar) or thread.kind != IterKind.THREAD:
        raise refusal("bind", stage, iv, f"expected a te.thread_axis, found {thread!r}")
    check_thread_tag("bind", stage, iv, thread)
    attr = stage.iter_var_attrs.get(iv)
    if attr is not None and attr.bind_thread is not None:
        tag = attr.bind_thread.thread_tag
        raise refusal("bind", stage, iv, f"already bound to {tag}")
    _changed(stage, iv).bind_thread = thread


def _check_loop(primitive: str, stage: Stage, iv: IterVar) -> None:
    """ScheduleError unless `iv` is a leaf loop of the stage, and not an axis of a scan."""
    leaf_position(primitive, stage, iv)
    if iv.kind == IterKind.OPAQUE:
        why = "a scan has no loop of its own for this axis; its update and first steps have"
        raise refusal(primitive, stage, iv, why)


def _annotate(primitive: str, stage: Stage, iv: IterVar, kind: str, data_only: bool) -> None:
    _check_loop(primitive, stage, iv)
    if data_only:
        check_kind(primitive, stage, iv, (IterKind.DATA_PAR,))
    _changed(stage, iv).iter_kind = kind


def vectorize(stage: Stage, iv: IterVar) -> None:
    """Run all iterations of loop `iv` as one vector operation. Not for reduction axes.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].vectorize(j):
        for i in range(16):
            for j in vectorized(16):
                B[i, j] = A[i, j] * 2.0
    """
    _annotate("vectorize", stage, iv, IterKind.VECTORIZED, data_only=True)


def unroll(stage: Stage, iv: IterVar) -> None:
    """Replace loop `iv` by copies of its body (its extent must turn out constant).

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].unroll(j):
        for i in range(16):
            for j in unrolled(16):
                B[i, j] = A[i, j] * 2.0
    """
    _annotate("unroll", stage, iv, IterKind.UNROLLED, data_only=False)


def parallel(stage: Stage, iv: IterVar) -> None:
    """Run the iterations of loop `iv` on the threads of the CPU. Not for reduction axes.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].parallel(i):
        for i in parallel(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    """
    _annotate("parallel", stage, iv, IterKind.PARALLELIZED, data_only=True)


def pragma(stage: Stage, iv: IterVar, key: str, value: Expr | int | str | None = None) -> None:
    """Put the hint `key` = `value` on loop `iv`; keys `unroll` and `vectorize` are primitives.

    Unknown keys are allowed, for passes of your own. ScheduleError for TVM's keys that have no
    meaning here, for a key that nearly equals a known one, and for a value that is not a number
    where a number is expected.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].pragma(i, "auto_unroll_max_step", 16):
        pragma(i, "auto_unroll_max_step", 16)
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    """
    if not isinstance(key, str):
        raise refusal("pragma", stage, None, f"key: expected a name, {found(key)}")
    if key == "unroll":
        return unroll(stage, iv)
    if key == "vectorize":
        return vectorize(stage, iv)
    _check_loop("pragma", stage, iv)
    _check_pragma(stage, iv, key, value)
    try:
        number = None if value is None else as_expr(value)
    except TypeError as error:
        raise refusal("pragma", stage, iv, f"{key}: {error}") from None
    _changed(stage, iv).pragmas.append((key, number))
    return None


_NUMBERS = ("auto_unroll_max_step", "software_pipeline", "unroll_explicit")
_KNOWN = (*_NUMBERS, "debug_skip_region", "loop_partition_hint", "swizzle", "unroll", "vectorize")
_OF_TVM = {
    "import_c": "call the function with te.call_extern",
    "import_llvm": "call the function with te.call_extern",
    "parallel": "use the primitive s[C].parallel(axis)",
    "parallel_barrier_when_finish": "s[C].parallel(axis) always waits at its end",
    "parallel_launch_point": "s[C].parallel(axis) starts the threads itself",
    "parallel_stride_pattern": "split the axis and use s[C].parallel(outer)",
    "tensor_core": 'use s.matrix_tiles(C, te.MatrixTile(...), "mma.m16n8k16.f16")',
}
"""The pragmas of TVM that have no meaning here, and what to write instead."""


def _check_pragma(stage: Stage, iv: IterVar, key: str, value: object) -> None:
    if key in _OF_TVM:
        raise refusal("pragma", stage, iv, f"autosched has no pragma {key!r}; {_OF_TVM[key]}")
    near = () if key in _KNOWN else get_close_matches(key, _KNOWN, 1, 0.85)
    if near:
        raise refusal("pragma", stage, iv, f"{key!r} is not known; write {near[0]!r}")
    if key in _NUMBERS and not isinstance(value, Integral | IntImm):
        raise refusal("pragma", stage, iv, f"{key} takes a whole number, {found(value)}")


def tensorize(stage: Stage, iv: IterVar, intrin: TensorIntrin) -> None:
    """Replace loop `iv` and all loops inside it by a call of `intrin` (te.decl_tensor_intrin).

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].tensorize(j, twice):
        for i in range(16):
            call_extern("twice", address_of(B[i, 0], dtype=handle),
                    address_of(A[i, 0], dtype=handle), dtype=int32)
    """
    _check_loop("tensorize", stage, iv)
    if not isinstance(intrin, TensorIntrin):
        several = isinstance(intrin, Mapping)  # te.tensor_instruction
        remedy = f"; choose one by name: {', '.join(map(str, intrin))}" if several else ""
        why = f"expected a tensor intrinsic, {found(intrin)}{remedy}"
        raise refusal("tensorize", stage, iv, why)
    attr = _changed(stage, iv)
    attr.iter_kind = IterKind.TENSORIZED
    attr.tensor_intrin = intrin


def prefetch(stage: Stage, tensor: Tensor, iv: IterVar, offset: Expr | int) -> None:
    """Prefetch, in each iteration of loop `iv`, what iteration `iv + offset` reads of `tensor`.

    before:
        for i in range(16):
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    after s[B].prefetch(A, i, 1):
        for i in range(16):
            attr(A, "prefetch_scope", 1)
            for j in range(16):
                B[i, j] = A[i, j] * 2.0
    """
    _check_loop("prefetch", stage, iv)
    if not isinstance(tensor, Tensor):
        raise refusal("prefetch", stage, iv, f"expected a tensor it reads, {found(tensor)}")
    if tensor not in stage.op.inputs:
        raise refusal("prefetch", stage, iv, f"the stage does not read {tensor.name}")
    whole = isinstance(offset, Integral) and not isinstance(offset, bool)
    if not whole and not (isinstance(offset, Expr) and offset.dtype.is_integral):
        why = f"offset: expected an integer number of iterations, {found(offset)}"
        raise refusal("prefetch", stage, iv, why)
    _changed(stage, iv).prefetch.append((tensor, as_expr(offset)))


def storage_align(stage: Stage, axis: IterVar, factor: int, offset: int) -> None:
    """Pad the stage's own storage: the stride of `axis` becomes factor * k + offset (elements).

    `axis` is a data axis of the tensor; it may have been split or fused. Arguments of a function
    are stored as its callers store them: ScheduleError for an output here, and for any other
    argument when the schedule is lowered.

    before AS = s.cache_read(A, "shared", [B]):
        realize(A.shared[0:16, 0:16], float32, "shared")
        for ax0 in range(16):
            for ax1 in range(16):
                A.shared[ax0, ax1] = A[ax0, ax1]
        for i in range(16):
            for j in range(16):
                B[i, j] = A.shared[i, j] * 2.0
    after s[AS].storage_align(AS.op.axis[0], 32, 1):
        attr(A.shared, "buffer_dim_align", tuple(0, 32, 1))
        realize(A.shared[0:16, 0:16], float32, "shared")
        for ax0 in range(16):
            for ax1 in range(16):
                A.shared[ax0, ax1] = A[ax0, ax1]
        for i in range(16):
            for j in range(16):
                B[i, j] = A.shared[i, j] * 2.0
    """
    if not any(axis is known for known in stage.all_iter_vars):
        raise refusal("storage_align", stage, axis, "it is not an axis of this stage")
    if axis not in getattr(stage.op, "axis", ()):
        why = "it is not one dimension of its tensor, but a reduction, part of one, or several"
        if isinstance(stage.op, ScanOp):
            why = "the tensors of a scan cannot be padded"
        raise refusal("storage_align", stage, axis, why)
    if stage.attach_type is AttachType.SCAN_UPDATE:
        why = "the update of a scan stores into the scan's tensors, which cannot be padded"
        raise refusal("storage_align", stage, axis, why)
    numbers = (factor, offset)
    if any(not isinstance(x, Integral) or isinstance(x, bool) or x < 0 for x in numbers):
        raise refusal(
            "storage_align",
            stage,
            axis,
            f"factor and offset are non-negative numbers of elements, found {factor}, {offset}",
        )
    if stage.is_output:
        why = "callers determine how an output is stored; align a stage that cache_write makes"
        raise refusal("storage_align", stage, axis, why)
    attr = _changed(stage, axis)
    attr.dim_align_factor, attr.dim_align_offset = int(factor), int(offset)
