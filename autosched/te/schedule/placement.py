"""Primitives that say where a stage is computed and where its result is stored.

The examples show `B[i] = A[i] + 1` and `C[i] = B[i] * 2` over 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.te.bounds.thread_scope import is_virtual_thread
from autosched.te.operations.operation import ComputeOp, Operation, PlaceholderOp, ScanOp
from autosched.te.relations import AttachType
from autosched.te.schedule.refusal import check_thread_tag, leaf_position, refusal
from autosched.tir.expr import Expr, IterKind, IterVar, Reduce
from autosched.tir.op import Operand
from autosched.tir.operators import Comparison

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

STORAGE_SCOPES = frozenset(
    (
        "global",
        "shared",
        "shared.dyn",
        "local",
        "warp",
        "wmma.matrix_a",
        "wmma.matrix_b",
        "wmma.accumulator",
    )
)


def _check_movable(primitive: str, stage: Stage) -> None:
    if isinstance(stage.op, PlaceholderOp):
        raise refusal(primitive, stage, None, "a placeholder is not computed")
    if stage.attach_type is AttachType.SCAN_UPDATE:
        raise refusal(primitive, stage, None, "the update of a scan stays in its scan")


def _check_stores(primitive: str, stage: Stage) -> None:
    if isinstance(stage.op, PlaceholderOp):
        why = "a placeholder is not computed; cache_read copies it into a stage of its own"
        raise refusal(primitive, stage, None, why)
    if type(stage.op) is Operation:
        raise refusal(primitive, stage, None, "a group stores nothing itself; its stages do")


def compute_at(stage: Stage, parent: Stage, axis: IterVar) -> None:
    """Compute the stage inside loop `axis` of its consumer `parent`, only the region needed there.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after s[B].compute_at(s[C], j):
        for j in range(16):
            realize(B[j:j + 1], float32, "", shape=(16,))
            B[j] = A[j] + 1.0
            C[j] = B[j] * 2.0
    """
    _check_movable("compute_at", stage)
    if not isinstance(parent, type(stage)):
        why = f"expected the stage of a consumer, e.g. s[C] for tensor C, {found(parent)}"
        raise refusal("compute_at", stage, None, why)
    if parent is stage:
        raise refusal("compute_at", stage, axis, "a stage cannot be computed inside its own loops")
    if stage.is_output:
        raise refusal("compute_at", stage, axis, "an output must stay at the root")
    leaf_position("compute_at", parent, axis)
    above: Stage | None = parent
    while above is not None:
        if above is stage:
            why = f"stage {parent.name} is itself computed inside this stage"
            raise refusal("compute_at", stage, axis, why)
        grouped = above.attach_type is AttachType.GROUP_ROOT
        above = above.group if grouped else above.attach_stage
    if stage.group is not None:
        group = parent.group
        while group is not None and group is not stage.group:
            group = group.group
        if group is None:
            raise refusal(
                "compute_at", stage, axis, f"stage {parent.name} is outside of the stage's group"
            )
    stage.attach_type = AttachType.SCOPE
    stage.attach_ivar = axis
    stage.attach_stage = parent


def compute_inline(stage: Stage) -> None:
    """Put the stage's expression into its consumers instead of storing it.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after s[B].compute_inline():
        for j in range(16):
            C[j] = (A[j] + 1.0) * 2.0
    """
    _check_movable("compute_inline", stage)
    if not isinstance(stage.op, ComputeOp):
        raise refusal("compute_inline", stage, None, "only te.compute operations can be inlined")
    if len(stage.op.body) != 1:
        raise refusal("compute_inline", stage, None, "it has several outputs")
    if isinstance(stage.op.body[0], Reduce):
        raise refusal("compute_inline", stage, None, "a reduction cannot be inlined")
    if stage.is_output:
        raise refusal("compute_inline", stage, None, "an output must be stored")
    stage.attach_type = AttachType.INLINE
    stage.attach_ivar = stage.attach_stage = None


def compute_root(stage: Stage) -> None:
    """Compute the stage outside of all loops of others: undoes compute_at and compute_inline.

    before s[B].compute_at(s[C], j):
        for j in range(16):
            realize(B[j:j + 1], float32, "", shape=(16,))
            B[j] = A[j] + 1.0
            C[j] = B[j] * 2.0
    after s[B].compute_root():
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    """
    if stage.attach_type is AttachType.SCAN_UPDATE:
        raise refusal("compute_root", stage, None, "the update of a scan stays in its scan")
    stage.attach_type = AttachType.GROUP_ROOT
    stage.attach_ivar = stage.attach_stage = None


def set_scope(stage: Stage, scope: str) -> None:
    """Store the stage's result in `scope`: global, shared, shared.dyn, local, warp, wmma.*.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after s[B].set_scope("local"):
        realize(B[0:16], float32, "local")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    """
    _check_stores("set_scope", stage)
    if not isinstance(scope, str) or (scope and scope not in STORAGE_SCOPES):
        known = ", ".join(sorted(STORAGE_SCOPES))
        raise refusal("set_scope", stage, None, f"unknown scope {scope!r}; the scopes are {known}")
    if stage.attach_type is AttachType.SCAN_UPDATE:
        why = "the update of a scan stores into the scan's tensors; set the scope of that stage"
        raise refusal("set_scope", stage, None, why)
    if stage.is_output and scope not in ("", "global"):
        why = f"an output must be stored in global, found {scope}"
        raise refusal("set_scope", stage, None, why)
    stage.scope = scope


def set_store_predicate(stage: Stage, predicate: Operand | None) -> None:
    """Store only where `predicate`, over thread indices and root axes, holds.

    Of a reduction only the updates: it starts from its identity everywhere, as in TVM.

    before x = te.thread_axis("threadIdx.x"); s[B].bind(j, x):
        for i in range(16):
            launch(threadIdx.x, 16)
            B[i, threadIdx.x] = A[i, threadIdx.x] * 2.0
    after s[B].set_store_predicate(x < 16):
        for i in range(16):
            launch(threadIdx.x, 16)
            if threadIdx.x < 16:
                B[i, threadIdx.x] = A[i, threadIdx.x] * 2.0
    """
    _check_stores("set_store_predicate", stage)
    if isinstance(stage.op, ScanOp):
        why = "a scan stores nothing itself; its update and first steps do"
        raise refusal("set_store_predicate", stage, None, why)
    if isinstance(predicate, Comparison):
        predicate = predicate.condition()
    if predicate is not None and not isinstance(predicate, Expr):
        why = f"expected a condition, e.g. thread < 8, or None, {found(predicate)}"
        raise refusal("set_store_predicate", stage, None, why)
    if predicate is not None and not predicate.dtype.is_bool:
        raise refusal("set_store_predicate", stage, None, f"{predicate!r} is not a condition")
    stage.store_predicate = predicate


def double_buffer(stage: Stage) -> None:
    """Store the result twice, so that iteration k + 1 is written while iteration k is read.

    before s[B].compute_at(s[C], j):
        for j in range(16):
            realize(B[j:j + 1], float32, "", shape=(16,))
            B[j] = A[j] + 1.0
            C[j] = B[j] * 2.0
    after s[B].double_buffer():
        for j in range(16):
            realize(B[j:j + 1], float32, "", shape=(16,))
            with attr(B, "double_buffer_scope", 1):
                B[j] = A[j] + 1.0
            C[j] = B[j] * 2.0
    """
    _check_stores("double_buffer", stage)
    if stage.is_output:
        raise refusal("double_buffer", stage, None, "an output cannot be double buffered")
    stage.is_double_buffered = True


def env_threads(stage: Stage, threads: IterVar | Sequence[IterVar]) -> None:
    """Start the threads at the scan's own stage, so that its update and init stages share them.

    Before a step that reads elements stored by other threads of the block, the threads of a block
    wait for each other. Blocks cannot wait: lowering raises ScheduleError where a step reads
    elements stored by other blocks.

    before:
        for i in range(32):
            scan[0, i] = A[0, i]
        for scan.idx in range(7):
            for i_1 in range(32):
                scan[scan.idx + 1, i_1] = scan[scan.idx + 1 - 1, i_1] + A[scan.idx + 1, i_1]
    after s[scan].env_threads(te.thread_axis((0, 32), "threadIdx.x")):
        launch(threadIdx.x, 32, dom=0:32)
        for i in range(32):
            scan[0, i] = A[0, i]
        for scan.idx in range(7):
            tvm_storage_sync("shared")
            for i_1 in range(32):
                scan[scan.idx + 1, i_1] = scan[scan.idx + 1 - 1, i_1] + A[scan.idx + 1, i_1]
    """
    if not isinstance(threads, IterVar | Sequence) or isinstance(threads, str):
        why = f"expected a te.thread_axis or a list of them, {found(threads)}"
        raise refusal("env_threads", stage, None, why)
    axes = [threads] if isinstance(threads, IterVar) else list(threads)
    if not isinstance(stage.op, ScanOp):
        raise refusal("env_threads", stage, None, "only a scan has environment threads")
    if stage.env_thread_axes:
        raise refusal("env_threads", stage, None, "they have been set already")
    for iv in axes:
        if not isinstance(iv, IterVar):
            raise refusal("env_threads", stage, None, f"expected a te.thread_axis, {found(iv)}")
        if iv.kind != IterKind.THREAD or iv.dom is None:
            raise refusal("env_threads", stage, iv, "expected a te.thread_axis with a domain")
        check_thread_tag("env_threads", stage, iv, iv)
        if is_virtual_thread(iv.thread_tag):
            why = (
                f"{iv.thread_tag} starts no thread; bind loops of the update and init stages to it"
            )
            raise refusal("env_threads", stage, iv, why)
    stage.env_thread_axes = axes
