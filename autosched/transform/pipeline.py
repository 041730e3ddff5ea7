"""The pipelines, read top to bottom, and every pass by name (spec te_bounds 6, passes 4).

Of the reference's passes, those stand here that do something on functions from TE schedules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from autosched.transform.bf16_compute_legalize import BF16ComputeLegalize
from autosched.transform.common_subexpr_elim import CommonSubexprElimTIR
from autosched.transform.hoist_if_then_else import HoistIfThenElse
from autosched.transform.inject_prefetch import InjectPrefetch
from autosched.transform.inject_virtual_thread import InjectVirtualThread
from autosched.transform.lower_intrin import LowerIntrin
from autosched.transform.module import Pass
from autosched.transform.narrow_data_type import NarrowDataType
from autosched.transform.promote_accumulators import PromoteAccumulators
from autosched.transform.remove_no_op import RemoveNoOp
from autosched.transform.rewrite_unsafe_select import RewriteUnsafeSelect
from autosched.transform.simplify import Simplify
from autosched.transform.storage_flatten import StorageFlatten
from autosched.transform.storage_rewrite import StorageRewrite
from autosched.transform.unroll_loop import UnrollLoop
from autosched.transform.vectorize_loop import VectorizeLoop
from autosched.transform.verify_gpu_code import VerifyGPUCode
from autosched.transform.verify_memory import VerifyMemory

LOWER: tuple[Pass, ...] = (
    InjectPrefetch(),
    StorageFlatten(),
    BF16ComputeLegalize(),
    NarrowDataType(),
    Simplify(),
    VectorizeLoop(),
    InjectVirtualThread(),
    StorageRewrite(),
    HoistIfThenElse(),
    UnrollLoop(),
    Simplify(),
    RemoveNoOp(),
    RewriteUnsafeSelect(),
)


@lru_cache(maxsize=8)
def cpu_pipeline(vector_bytes: int = 64) -> tuple[Pass, ...]:
    """The passes before LLVM code for a CPU with vector registers of `vector_bytes`."""
    promote = PromoteAccumulators(vector_bytes, registers=32 if vector_bytes >= 64 else 16)
    at = next(k for k, p in enumerate(LOWER) if p.name == "UnrollLoop")
    return (*LOWER[:at], promote, *LOWER[at:], LowerIntrin())


CPU_PIPELINE: tuple[Pass, ...] = cpu_pipeline()

GPU_PIPELINE: tuple[Pass, ...] = (
    *LOWER,
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
    "InjectPrefetch": InjectPrefetch,
    "InjectVirtualThread": InjectVirtualThread,
    "LowerIntrin": LowerIntrin,
    "NarrowDataType": NarrowDataType,
    "PromoteAccumulators": PromoteAccumulators,
    "RemoveNoOp": RemoveNoOp,
    "RewriteUnsafeSelect": RewriteUnsafeSelect,
    "Simplify": Simplify,
    "StorageFlatten": StorageFlatten,
    "StorageRewrite": StorageRewrite,
    "UnrollLoop": UnrollLoop,
    "VectorizeLoop": VectorizeLoop,
    "VerifyGPUCode": VerifyGPUCode,
    "VerifyMemory": VerifyMemory,
}
