"""The pass pipelines, read top to bottom, and a registry of all passes by name.

The pipelines contain the passes of Ansor that have an effect on functions from TE schedules. Common
subexpressions are left to LLVM and NVRTC, which find more of them in less time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from autosched.nest.core import core_of
from autosched.target import THREAD_BYTES
from autosched.transform.blocks.compact_buffer_allocation import CompactBufferAllocation
from autosched.transform.blocks.convert_blocks_to_opaque import ConvertBlocksToOpaque
from autosched.transform.blocks.flatten_buffer import FlattenBuffer
from autosched.transform.blocks.lower_init_block import LowerInitBlock
from autosched.transform.blocks.lower_match_buffer import LowerMatchBuffer
from autosched.transform.blocks.lower_opaque_block import LowerOpaqueBlock
from autosched.transform.blocks.plan_and_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)
from autosched.transform.cpu_loops import CPU_LOOPS
from autosched.transform.device.annotate_device_regions import AnnotateDeviceRegions
from autosched.transform.device.infer_fragment import InferFragment
from autosched.transform.device.inject_ptx_async_copy import InjectPTXAsyncCopy
from autosched.transform.device.inject_ptx_ldg32 import InjectPTXLDG32
from autosched.transform.device.inject_software_pipeline import InjectSoftwarePipeline
from autosched.transform.device.inject_virtual_thread import InjectVirtualThread
from autosched.transform.device.lower_device_kernel_launch import LowerDeviceKernelLaunch
from autosched.transform.device.lower_thread_allreduce import LowerThreadAllreduce
from autosched.transform.device.lower_warp_memory import LowerWarpMemory
from autosched.transform.device.merge_shared_memory_allocations import (
    MergeSharedMemoryAllocations,
)
from autosched.transform.device.shared_to_dynamic import STATIC_BYTES, SharedToDynamic
from autosched.transform.device.split_host_device import SplitHostDevice
from autosched.transform.device.split_wide_vectors import SplitWideVectors
from autosched.transform.device.swizzle_shared import SwizzleShared
from autosched.transform.device.thread_sync import ThreadSync
from autosched.transform.device.verify_gpu_code import VerifyGPUCode
from autosched.transform.device.verify_memory import VerifyMemory
from autosched.transform.expressions.common_subexpr_elim import CommonSubexprElimTIR
from autosched.transform.expressions.guard_selects import GuardSelects
from autosched.transform.expressions.instrument_bound_checkers import InstrumentBoundCheckers
from autosched.transform.expressions.lower_intrin import LowerIntrin
from autosched.transform.expressions.narrow_data_type import NarrowDataType
from autosched.transform.expressions.renormalize_split_pattern import RenormalizeSplitPattern
from autosched.transform.expressions.rewrite_unsafe_select import RewriteUnsafeSelect
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.passes import Pass
from autosched.transform.framework.user_passes import UserPasses
from autosched.transform.from_te.inject_prefetch import InjectPrefetch
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.host.annotate_entry_func import AnnotateEntryFunc
from autosched.transform.host.bind_target import BindTarget
from autosched.transform.host.combine_context_call import CombineContextCall
from autosched.transform.host.drop_kernels import DropKernels
from autosched.transform.host.lower_device_storage_access_info import LowerDeviceStorageAccessInfo
from autosched.transform.host.lower_tvm_builtin import LowerTVMBuiltin
from autosched.transform.host.lower_vtcm_alloc import LowerVtcmAlloc
from autosched.transform.host.make_packed_api import MakePackedAPI
from autosched.transform.host.verify_vtcm_limit import VerifyVTCMLimit
from autosched.transform.loops.alternate_rows import AlternateRows
from autosched.transform.loops.compute_once import ComputeOnce
from autosched.transform.loops.delay_stores import DelayStores
from autosched.transform.loops.hoist_if_then_else import HoistIfThenElse
from autosched.transform.loops.hoist_invariants import HoistInvariants
from autosched.transform.loops.inject_double_buffer import InjectDoubleBuffer
from autosched.transform.loops.instrument_profile_intrinsics import InstrumentProfileIntrinsics
from autosched.transform.loops.loop_partition import LoopPartition
from autosched.transform.loops.prefetch_rows import PrefetchRows
from autosched.transform.loops.remove_no_op import RemoveNoOp
from autosched.transform.loops.serialize_loops import SerializeLoops
from autosched.transform.loops.sink_init import SinkInit
from autosched.transform.loops.skip_masked import SkipMasked
from autosched.transform.loops.skip_zeros import SkipZeros
from autosched.transform.loops.unroll_loop import UnrollLoop
from autosched.transform.low_precision.bf16_compute_legalize import BF16ComputeLegalize
from autosched.transform.low_precision.bf16_storage_legalize import BF16StorageLegalize
from autosched.transform.low_precision.fp8_compute_legalize import FP8ComputeLegalize
from autosched.transform.low_precision.fp8_storage_legalize import FP8StorageLegalize
from autosched.transform.low_precision.lower_custom_datatypes import LowerCustomDatatypes
from autosched.transform.storage.share_output import ShareOutput
from autosched.transform.storage.storage_rewrite import StorageRewrite
from autosched.transform.vector.fuse_reductions import FuseReductions
from autosched.transform.vector.hint_borders import HintBorders
from autosched.transform.vector.interleave_functions import InterleaveFunctions
from autosched.transform.vector.join_rows import JoinRows
from autosched.transform.vector.join_windows import JoinWindows
from autosched.transform.vector.promote_accumulators import PromoteAccumulators
from autosched.transform.vector.separate_windows import SeparateWindows
from autosched.transform.vector.split_odd_vectors import SplitOddVectors
from autosched.transform.vector.start_in_branches import StartInBranches
from autosched.transform.vector.transpose_gathers import TransposeGathers
from autosched.transform.vector.vectorize_innermost import VectorizeInnermost
from autosched.transform.vector.vectorize_loop import VectorizeLoop

FROM_BLOCKS: tuple[Pass, ...] = (
    LowerInitBlock(),
    PlanAndUpdateBufferAllocationLocation(),
    ConvertBlocksToOpaque(),
    CompactBufferAllocation(),
    LowerMatchBuffer(),
    LowerOpaqueBlock(),
    FlattenBuffer(),
)
"""From blocks to flat TIR; StorageFlatten does this for functions from schedules."""

COPY_STEPS, WIDE_COPY_STEPS = 32, 64
"""Most vectors that a copy is unrolled to, for registers of up to 32 bytes and for wider ones.

On a Zen 3 and a Zen 4 kernels take the same time, and those that copied by 512 stores take a third
of the time to compile. With registers of 64 bytes, a depthwise convolution whose padding is 60
stores takes 1.5 times as long if the limit is 32.
"""


@lru_cache(maxsize=8)
def cpu_pipeline(
    vector_bytes: int = 64, lenient: bool = False, registers: int = 0
) -> tuple[Pass, ...]:
    """The passes before code generation by LLVM for a CPU with vector registers of `vector_bytes`.

    `registers` is their number, 0 for the usual number for that width. With `lenient`, loops whose
    extents prevent vectorization become serial instead of being refused.
    """
    return (
        UserPasses(0),
        InjectPrefetch(),
        *CPU_LOOPS,
        SkipMasked(),
        StorageFlatten(),
        *FROM_BLOCKS,
        BF16ComputeLegalize(explicit=False),
        NarrowDataType(),
        Simplify(),
        UserPasses(1),
        InstrumentBoundCheckers(by_config=True),
        GuardSelects(),
        # Tiles that do not divide their loop: full tiles have no conditions, the last tile is
        # masked.
        HintBorders(vector_bytes),
        LoopPartition(partition_const_loops=True),
        VectorizeLoop(masked=True, lenient=lenient),
        InjectVirtualThread(),
        InjectDoubleBuffer(),
        StorageRewrite(),
        HoistIfThenElse(),
        StartInBranches(),
        PromoteAccumulators(vector_bytes, core_of(vector_bytes, registers).registers),
        VectorizeInnermost(vector_bytes, registers),
        FuseReductions(vector_bytes, registers),
        JoinWindows(vector_bytes),
        SeparateWindows(vector_bytes, registers),
        TransposeGathers(),
        InterleaveFunctions(vector_bytes),
        ComputeOnce(),
        UnrollLoop(copy_steps=COPY_STEPS if vector_bytes <= 32 else WIDE_COPY_STEPS),
        SplitOddVectors(vector_bytes),
        JoinRows(vector_bytes),
        UserPasses(2),
        RenormalizeSplitPattern(),
        Simplify(),
        RemoveNoOp(),
        RewriteUnsafeSelect(),
        PrefetchRows(),
        DelayStores(vector_bytes, registers),
        UserPasses(3),
        InstrumentProfileIntrinsics(by_config=True),
        FP8ComputeLegalize("float32", kind="cpu"),
        FP8StorageLegalize(keep_parameters=True, kind="cpu"),
        BF16StorageLegalize(keep_parameters=True),
        LowerCustomDatatypes("cpu"),
        LowerIntrin(),
    )


CPU_PIPELINE: tuple[Pass, ...] = cpu_pipeline()

PRIVATE = ("local", "warp")
"""The storage that no two threads of a GPU, or no two warps, share."""


@lru_cache(maxsize=8)
def gpu_pipeline(
    static_bytes: int = STATIC_BYTES, shared_limit: int | None = None
) -> tuple[Pass, ...]:
    """The passes from ScheduleOps' statement to one function with its barriers.

    Kernels with more than `static_bytes` of shared memory request it at their launch, at most
    `shared_limit` bytes (None: no limit).
    """
    return (
        UserPasses(0),
        InjectPrefetch(),
        StorageFlatten(),
        *FROM_BLOCKS,
        # Shared memory is checked against the GPU's limits with the type that it has.
        BF16ComputeLegalize(explicit=False, scopes=PRIVATE),
        NarrowDataType(),
        Simplify(),
        UserPasses(1),
        GuardSelects(),
        LoopPartition(max_growth=64),  # what kernels were timed with
        VectorizeLoop(),
        InjectVirtualThread(),
        InjectDoubleBuffer(),
        SwizzleShared(),
        InjectSoftwarePipeline(),
        StorageRewrite(),
        HoistIfThenElse(),
        # NVRTC unrolls: that takes a third of the time, and the code is the same. Arrays that do
        # not fit into the registers of a thread stay in memory, however much is unrolled.
        UnrollLoop(mark_only=True, unroll_local_access=True, local_bytes=THREAD_BYTES),
        AlternateRows(),
        UserPasses(2),
        RenormalizeSplitPattern(),
        Simplify(),
        RemoveNoOp(),
        RewriteUnsafeSelect(),
        UserPasses(3),
        FP8ComputeLegalize("float32", scopes=PRIVATE, kind="cuda"),
        VerifyMemory("cuda"),
        SharedToDynamic(static_bytes, shared_limit),
        ThreadSync("shared", by_config=True),
        ThreadSync("shared.dyn"),
        ThreadSync("warp"),
        InferFragment(),
        LowerThreadAllreduce(),
        # Copies need the barriers that are placed by now, and merging changes them to bytes later.
        InjectPTXAsyncCopy(by_config=True),
        InjectPTXLDG32(by_config=True),
    )


GPU_PIPELINE: tuple[Pass, ...] = gpu_pipeline()

DEVICE_PIPELINE: tuple[Pass, ...] = (
    AnnotateDeviceRegions(),
    SplitHostDevice(),
    MergeSharedMemoryAllocations(by_config=True),
    FP8StorageLegalize(keep_parameters=True, kind="cuda"),
    BF16StorageLegalize(keep_parameters=True),
    LowerDeviceKernelLaunch(),
    LowerWarpMemory(),
    Simplify(),
    LowerCustomDatatypes("cuda"),
    SplitWideVectors(),
    LowerIntrin(),
)
"""The passes from the result of `gpu_pipeline` to a host function and kernels, for CUDA C."""


def names_of(kind: str) -> tuple[str, ...]:
    """The names of the passes that candidates for a kind of target run through.

    They end where code is generated.
    """
    passes = (*GPU_PIPELINE, *DEVICE_PIPELINE) if kind == "cuda" else CPU_PIPELINE
    return tuple(dict.fromkeys(p.name for p in passes if not isinstance(p, UserPasses)))


@lru_cache(maxsize=8)
def host_pipeline(kind: str = "cpu") -> tuple[Pass, ...]:
    """From flat functions to host code that takes packed arguments and calls the runtime.

    `kind` is the kind of device on which the argument arrays are.
    """
    return (
        DropKernels(),
        BindTarget(kind, "cpu"),
        VerifyVTCMLimit(),
        LowerVtcmAlloc(),
        AnnotateEntryFunc(),
        MakePackedAPI(),
        # Functions that are called only by name keep their parameters.
        FP8StorageLegalize(keep_parameters=True),
        BF16StorageLegalize(keep_parameters=True),
        LowerTVMBuiltin(),
        LowerCustomDatatypes(),
        LowerIntrin(),
        LowerDeviceStorageAccessInfo(),
        CombineContextCall(),
    )


HOST_PIPELINE: tuple[Pass, ...] = host_pipeline()

FEATURE_CHECK: tuple[Pass, ...] = (
    InjectPrefetch(),
    StorageFlatten(),
    NarrowDataType(),
    Simplify(as_ansor=True),
    VectorizeLoop(as_ansor=True),
    InjectVirtualThread(),
    InjectSoftwarePipeline(),
    StorageRewrite(),
    Simplify(as_ansor=True),
)
"""The passes that run on a GPU candidate before VerifyGPUCode."""

PASSES: dict[str, Callable[[], Pass]] = {
    "AlternateRows": AlternateRows,
    "AnnotateDeviceRegions": AnnotateDeviceRegions,
    "AnnotateEntryFunc": AnnotateEntryFunc,
    "BF16ComputeLegalize": BF16ComputeLegalize,
    "BF16StorageLegalize": BF16StorageLegalize,
    "BindTarget": BindTarget,
    "CombineContextCall": CombineContextCall,
    "CommonSubexprElimTIR": CommonSubexprElimTIR,
    "CompactBufferAllocation": CompactBufferAllocation,
    "ComputeOnce": ComputeOnce,
    "ConvertBlocksToOpaque": ConvertBlocksToOpaque,
    "DelayStores": DelayStores,
    "DropKernels": DropKernels,
    "FlattenBuffer": FlattenBuffer,
    "FP8ComputeLegalize": FP8ComputeLegalize,
    "FP8StorageLegalize": FP8StorageLegalize,
    "FuseReductions": FuseReductions,
    "GuardSelects": GuardSelects,
    "HintBorders": HintBorders,
    "HoistIfThenElse": HoistIfThenElse,
    "HoistInvariants": HoistInvariants,
    "InferFragment": InferFragment,
    "InjectDoubleBuffer": InjectDoubleBuffer,
    "InjectPTXAsyncCopy": InjectPTXAsyncCopy,
    "InjectPTXLDG32": InjectPTXLDG32,
    "InjectPrefetch": InjectPrefetch,
    "InjectSoftwarePipeline": InjectSoftwarePipeline,
    "InjectVirtualThread": InjectVirtualThread,
    "InstrumentBoundCheckers": InstrumentBoundCheckers,
    "InstrumentProfileIntrinsics": InstrumentProfileIntrinsics,
    "InterleaveFunctions": InterleaveFunctions,
    "JoinRows": JoinRows,
    "JoinWindows": JoinWindows,
    "LoopPartition": LoopPartition,
    "LowerCustomDatatypes": LowerCustomDatatypes,
    "LowerDeviceKernelLaunch": LowerDeviceKernelLaunch,
    "LowerDeviceStorageAccessInfo": LowerDeviceStorageAccessInfo,
    "LowerInitBlock": LowerInitBlock,
    "LowerIntrin": LowerIntrin,
    "LowerMatchBuffer": LowerMatchBuffer,
    "LowerOpaqueBlock": LowerOpaqueBlock,
    "LowerTVMBuiltin": LowerTVMBuiltin,
    "LowerThreadAllreduce": LowerThreadAllreduce,
    "LowerVtcmAlloc": LowerVtcmAlloc,
    "LowerWarpMemory": LowerWarpMemory,
    "MakePackedAPI": MakePackedAPI,
    "MergeSharedMemoryAllocations": MergeSharedMemoryAllocations,
    "NarrowDataType": NarrowDataType,
    "PlanAndUpdateBufferAllocationLocation": PlanAndUpdateBufferAllocationLocation,
    "PrefetchRows": PrefetchRows,
    "PromoteAccumulators": PromoteAccumulators,
    "RemoveNoOp": RemoveNoOp,
    "RenormalizeSplitPattern": RenormalizeSplitPattern,
    "RewriteUnsafeSelect": RewriteUnsafeSelect,
    "SeparateWindows": SeparateWindows,
    "SerializeLoops": SerializeLoops,
    "ShareOutput": ShareOutput,
    "SharedToDynamic": SharedToDynamic,
    "Simplify": Simplify,
    "SinkInit": SinkInit,
    "SkipMasked": SkipMasked,
    "SkipZeros": SkipZeros,
    "SplitHostDevice": SplitHostDevice,
    "SplitOddVectors": SplitOddVectors,
    "SplitWideVectors": SplitWideVectors,
    "StartInBranches": StartInBranches,
    "StorageFlatten": StorageFlatten,
    "StorageRewrite": StorageRewrite,
    "SwizzleShared": SwizzleShared,
    "ThreadSync": ThreadSync,
    "TransposeGathers": TransposeGathers,
    "UnrollLoop": UnrollLoop,
    "VectorizeInnermost": VectorizeInnermost,
    "VectorizeLoop": VectorizeLoop,
    "VerifyGPUCode": VerifyGPUCode,
    "VerifyMemory": VerifyMemory,
    "VerifyVTCMLimit": VerifyVTCMLimit,
}
