"""The pipelines, read top to bottom, and every pass by name.

Here are those of Ansor's passes that do something on functions from TE schedules.
Common subexpressions are left to LLVM and NVRTC, which find more of them in less time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from autosched.errors import ConfigError
from autosched.nest.core import core_of
from autosched.tir.function import PrimFunc
from autosched.transform.device.inject_virtual_thread import InjectVirtualThread
from autosched.transform.device.verify_gpu_code import VerifyGPUCode
from autosched.transform.device.verify_memory import VerifyMemory
from autosched.transform.expressions.common_subexpr_elim import CommonSubexprElimTIR
from autosched.transform.expressions.lower_intrin import LowerIntrin
from autosched.transform.expressions.narrow_data_type import NarrowDataType
from autosched.transform.expressions.renormalize_split_pattern import RenormalizeSplitPattern
from autosched.transform.expressions.rewrite_unsafe_select import RewriteUnsafeSelect
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import Pass, Sequential
from autosched.transform.from_te.inject_prefetch import InjectPrefetch
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.loops.hoist_if_then_else import HoistIfThenElse
from autosched.transform.loops.hoist_invariants import HoistInvariants
from autosched.transform.loops.inject_double_buffer import InjectDoubleBuffer
from autosched.transform.loops.loop_partition import LoopPartition
from autosched.transform.loops.remove_no_op import RemoveNoOp
from autosched.transform.loops.unroll_loop import UnrollLoop
from autosched.transform.low_precision.bf16_compute_legalize import BF16ComputeLegalize
from autosched.transform.storage.storage_rewrite import StorageRewrite
from autosched.transform.vector.promote_accumulators import PromoteAccumulators
from autosched.transform.vector.vectorize_innermost import VectorizeInnermost
from autosched.transform.vector.vectorize_loop import VectorizeLoop

_TO_FLAT_LOOPS: tuple[Pass, ...] = (
    InjectPrefetch(),
    StorageFlatten(),
    BF16ComputeLegalize(),
    NarrowDataType(),
    Simplify(),
    LoopPartition(),
    VectorizeLoop(),
    InjectVirtualThread(),
    InjectDoubleBuffer(),
    StorageRewrite(),
    HoistIfThenElse(),
)

_TO_STRAIGHT_CODE: tuple[Pass, ...] = (
    UnrollLoop(),
    RenormalizeSplitPattern(),
    Simplify(),
    RemoveNoOp(),
    RewriteUnsafeSelect(),
)


_ON_CPU: dict[str, Pass] = {
    "LoopPartition": LoopPartition(partition_const_loops=True),
    "VectorizeLoop": VectorizeLoop(masked=True),
}
"""Tiles that do not divide their loop: whole ones without conditions, the last one masked."""


@lru_cache(maxsize=8)
def cpu_pipeline(vector_bytes: int = 64) -> tuple[Pass, ...]:
    """The passes before LLVM code for a CPU with vector registers of `vector_bytes`."""
    first, *others = (_ON_CPU.get(p.name, p) for p in _TO_FLAT_LOOPS)
    return (
        first,
        HoistInvariants(),
        *others,
        PromoteAccumulators(vector_bytes, core_of(vector_bytes).registers),
        VectorizeInnermost(vector_bytes),
        *_TO_STRAIGHT_CODE,
        LowerIntrin(),
    )


CPU_PIPELINE: tuple[Pass, ...] = cpu_pipeline()

GPU_PIPELINE: tuple[Pass, ...] = (
    *_TO_FLAT_LOOPS,
    *_TO_STRAIGHT_CODE,
    VerifyMemory("cuda"),
    LowerIntrin(),
)

FEATURE_CHECK: tuple[Pass, ...] = (
    InjectPrefetch(),
    StorageFlatten(),
    NarrowDataType(),
    Simplify(as_ansor=True),
    VectorizeLoop(),
    InjectVirtualThread(),
    StorageRewrite(),
    Simplify(as_ansor=True),
)
"""What runs on a GPU candidate before VerifyGPUCode."""

PASSES: dict[str, Callable[[], Pass]] = {
    "BF16ComputeLegalize": BF16ComputeLegalize,
    "CommonSubexprElimTIR": CommonSubexprElimTIR,
    "HoistIfThenElse": HoistIfThenElse,
    "HoistInvariants": HoistInvariants,
    "InjectDoubleBuffer": InjectDoubleBuffer,
    "InjectPrefetch": InjectPrefetch,
    "InjectVirtualThread": InjectVirtualThread,
    "LoopPartition": LoopPartition,
    "LowerIntrin": LowerIntrin,
    "NarrowDataType": NarrowDataType,
    "PromoteAccumulators": PromoteAccumulators,
    "RemoveNoOp": RemoveNoOp,
    "RenormalizeSplitPattern": RenormalizeSplitPattern,
    "RewriteUnsafeSelect": RewriteUnsafeSelect,
    "Simplify": Simplify,
    "StorageFlatten": StorageFlatten,
    "StorageRewrite": StorageRewrite,
    "UnrollLoop": UnrollLoop,
    "VectorizeInnermost": VectorizeInnermost,
    "VectorizeLoop": VectorizeLoop,
    "VerifyGPUCode": VerifyGPUCode,
    "VerifyMemory": VerifyMemory,
}

_PHASE_STARTS = {0: "InjectPrefetch", 1: "LoopPartition", 2: "RenormalizeSplitPattern"}


def run_pipeline(passes: tuple[Pass, ...], func: PrimFunc) -> PrimFunc:
    """`func` through the passes that the current context enables, as it configures them."""
    ctx = PassContext.current()
    if ctx.config:
        passes = configured(passes, ctx)
    return Sequential(passes, "lower")(func)


def configured(passes: tuple[Pass, ...], ctx: PassContext) -> tuple[Pass, ...]:
    """The passes with the user's own and without those that the configuration turns off.

    `tir.add_lower_pass` is a list of [phase, pass]: phase 0 is at the start, 1 before loops are
    rewritten, 2 after they are unrolled, 3 after the last clean-up.
    """
    own: dict[int, list[Pass]] = {0: [], 1: [], 2: [], 3: []}
    for phase, pass_ in ctx.setting("tir.add_lower_pass"):
        if phase not in own:
            raise ConfigError(
                f"tir.add_lower_pass: {pass_!r} has phase {phase!r}, expected 0, 1, 2 or 3"
            )
        own[phase].append(pass_)
    before = {name: own[phase] for phase, name in _PHASE_STARTS.items()}
    result: list[Pass] = []
    for pass_ in passes:
        result += before.get(pass_.name, [])
        if pass_.name == "VectorizeLoop" and ctx.setting("tir.disable_vectorize"):
            pass_ = VectorizeLoop(enable=False)
        if pass_.name != "StorageRewrite" or not ctx.setting("tir.disable_storage_rewrite"):
            result.append(pass_)
        if pass_.name == "RewriteUnsafeSelect":
            result += own[3]
    return tuple(result)
