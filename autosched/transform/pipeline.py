"""The pipelines, read top to bottom, and every pass by name (spec te_bounds 6, passes 4).

Of the reference's passes, those stand here that do something on functions from TE schedules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from autosched.transform.bf16_compute_legalize import BF16ComputeLegalize
from autosched.transform.common_subexpr_elim import CommonSubexprElimTIR
from autosched.transform.hoist_if_then_else import HoistIfThenElse
from autosched.transform.inject_double_buffer import InjectDoubleBuffer
from autosched.transform.inject_prefetch import InjectPrefetch
from autosched.transform.inject_virtual_thread import InjectVirtualThread
from autosched.transform.loop_partition import LoopPartition
from autosched.transform.lower_intrin import LowerIntrin
from autosched.transform.module import Pass
from autosched.transform.narrow_data_type import NarrowDataType
from autosched.transform.promote_accumulators import PromoteAccumulators
from autosched.transform.remove_no_op import RemoveNoOp
from autosched.transform.renormalize_split_pattern import RenormalizeSplitPattern
from autosched.transform.rewrite_unsafe_select import RewriteUnsafeSelect
from autosched.transform.simplify import Simplify
from autosched.transform.storage_flatten import StorageFlatten
from autosched.transform.storage_rewrite import StorageRewrite
from autosched.transform.unroll_loop import UnrollLoop
from autosched.transform.vectorize_loop import VectorizeLoop
from autosched.transform.verify_gpu_code import VerifyGPUCode
from autosched.transform.verify_memory import VerifyMemory

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


@lru_cache(maxsize=8)
def cpu_pipeline(vector_bytes: int = 64) -> tuple[Pass, ...]:
    """The passes before LLVM code for a CPU with vector registers of `vector_bytes`.

    Common subexpressions are left to LLVM.
    """
    return (
        *_TO_FLAT_LOOPS,
        PromoteAccumulators(vector_bytes, registers=32 if vector_bytes >= 64 else 16),
        *_TO_STRAIGHT_CODE,
        LowerIntrin(),
    )


CPU_PIPELINE: tuple[Pass, ...] = cpu_pipeline()

GPU_PIPELINE: tuple[Pass, ...] = (
    *_TO_FLAT_LOOPS,
    *_TO_STRAIGHT_CODE,
    CommonSubexprElimTIR(),
    VerifyMemory(),
    LowerIntrin(),
)

FEATURE_CHECK: tuple[Pass, ...] = (
    InjectPrefetch(),
    StorageFlatten(),
    NarrowDataType(),
    Simplify(),
    VectorizeLoop(),
    InjectVirtualThread(),
    StorageRewrite(),
    Simplify(),
)
"""What runs on a GPU candidate before VerifyGPUCode (spec per_store_features 1)."""

PASSES: dict[str, Callable[[], Pass]] = {
    "BF16ComputeLegalize": BF16ComputeLegalize,
    "CommonSubexprElimTIR": CommonSubexprElimTIR,
    "HoistIfThenElse": HoistIfThenElse,
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
    "VectorizeLoop": VectorizeLoop,
    "VerifyGPUCode": VerifyGPUCode,
    "VerifyMemory": VerifyMemory,
}
