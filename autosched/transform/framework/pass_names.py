"""The names of passes that a context accepts.

A wrong name would silently disable nothing, so unknown names are refused. When a context is
created, the known names are those of all passes here, whether their files are loaded or not, and of
all pass classes that users have defined so far.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from autosched.arguments import found
from autosched.errors import ConfigError

OWN_PASSES = frozenset(
    (
        "AlternateRows",
        "AnnotateDeviceRegions",
        "AnnotateEntryFunc",
        "BF16ComputeLegalize",
        "BF16StorageLegalize",
        "BindTarget",
        "CombineContextCall",
        "CommonSubexprElimTIR",
        "CompactBufferAllocation",
        "ComputeOnce",
        "ConvertBlocksToOpaque",
        "DelayStores",
        "DropKernels",
        "FP8ComputeLegalize",
        "FP8StorageLegalize",
        "FlattenBuffer",
        "FuseReductions",
        "GuardSelects",
        "HintBorders",
        "HoistIfThenElse",
        "HoistInvariants",
        "InferFragment",
        "InjectDoubleBuffer",
        "InjectPTXAsyncCopy",
        "InjectPTXLDG32",
        "InjectPrefetch",
        "InjectSoftwarePipeline",
        "InjectVirtualThread",
        "InstrumentBoundCheckers",
        "InstrumentProfileIntrinsics",
        "InterleaveFunctions",
        "JoinRows",
        "JoinWindows",
        "LoopPartition",
        "LowerCustomDatatypes",
        "LowerDeviceKernelLaunch",
        "LowerDeviceStorageAccessInfo",
        "LowerInitBlock",
        "LowerIntrin",
        "LowerMatchBuffer",
        "LowerOpaqueBlock",
        "LowerTVMBuiltin",
        "LowerThreadAllreduce",
        "LowerVtcmAlloc",
        "LowerWarpMemory",
        "MakePackedAPI",
        "MergeSharedMemoryAllocations",
        "NarrowDataType",
        "PlanAndUpdateBufferAllocationLocation",
        "PrefetchRows",
        "PromoteAccumulators",
        "RemoveNoOp",
        "RenormalizeSplitPattern",
        "RewriteUnsafeSelect",
        "ScheduleOps",
        "SeparateWindows",
        "SerializeLoops",
        "ShareOutput",
        "SharedToDynamic",
        "Simplify",
        "SinkInit",
        "SkipMasked",
        "SkipZeros",
        "SplitHostDevice",
        "SplitOddVectors",
        "SplitWideVectors",
        "StartInBranches",
        "StorageFlatten",
        "StorageRewrite",
        "SwizzleShared",
        "ThreadSync",
        "TransposeGathers",
        "UnrollLoop",
        "UserPasses",
        "VectorizeInnermost",
        "VectorizeLoop",
        "VerifyGPUCode",
        "VerifyMemory",
        "VerifyVTCMLimit",
    )
)
"""The passes of `transform/pipeline.py`, and ScheduleOps, which instruments see as a pass."""


class Named:
    """The base class of all passes; its subclasses are the passes that are defined."""

    name: ClassVar[str]


def pass_names(what: str, given: Iterable[Any], also: Iterable[Any]) -> frozenset[str]:
    """The names in `given`, checked to be names of passes; `what` names the argument in messages.

    `also` are further objects that may be passes. Raises ConfigError for any other name.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{what}: expected a list of names of passes, {found(given)}")
    names = frozenset(given)
    if names <= OWN_PASSES:
        return names
    known = {*OWN_PASSES, *_defined(Named), *(getattr(each, "name", None) for each in also)}
    for name in sorted(names - known, key=repr):
        texts = sorted(each for each in known if isinstance(each, str))
        near = difflib.get_close_matches(str(name), texts, n=3) or texts
        raise ConfigError(
            f"{what}: no pass is called {name!r}; candidates: {', '.join(near)}. A pass of your "
            "own is known once its class, a FunctionPass or ModulePass, is defined"
        )
    return names


def _defined(base: type[Named]) -> Iterator[str]:
    for each in base.__subclasses__():
        if hasattr(each, "name"):  # FunctionPass and the like have none
            yield each.name
        yield from _defined(each)
