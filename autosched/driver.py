"""The pipelines end to end: from steps or a schedule to TIR or an artifact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from autosched.arguments import found, instance, text
from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import CompileError, ConfigError
from autosched.layout import LayoutOption
from autosched.state.dag import ComputeDAG
from autosched.state.layout_rewrite import rewrite_layout
from autosched.state.steps import Step
from autosched.target import Target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import IterKind, Var
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.stmt import nop
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.context import PassContext, PassInfo, Program
from autosched.transform.framework.passes import Pass, Sequential

if TYPE_CHECKING:
    from autosched.codegen.cubin_cache import CubinCache
    from autosched.runtime.cpu import CpuArtifact
    from autosched.runtime.cuda_artifact import CudaArtifact
    from autosched.runtime.host import HostArtifact
    from autosched.te.schedule.schedule import Schedule

SCHEDULE_OPS = PassInfo("ScheduleOps")
"""The pass that instruments see when a function is made from a schedule."""

_CHECKED_BOUNDS = "tir.instrument_bound_checkers"


def lower(
    sch: Schedule,
    args: Sequence[Tensor | Var],
    target: Target,
    name: str = "main",
    *,
    lenient: bool = False,
) -> PrimFunc:
    """Lower `sch` with parameters `args` to optimised, flat TIR, ready for code generation.

    Raises ScheduleError when the schedule is illegal. For `lenient`, see `pipeline_of`.

        >>> from autosched import te
        >>> from autosched.target import cpu_target
        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
        >>> print(lower(te.create_schedule(B.op), [A, B], cpu_target()))
        def main(A: Buffer((4,), float32), B: Buffer((4,), float32)):
            attrs(from_legacy_te_schedule=True, tir.noalias=True)
            B[0:4] = A[0:4] + broadcast(1.0, 4)
    """
    return lower_func(schedule_ops(sch, args, name), target, lenient)


def lower_func(func: PrimFunc, target: Target, lenient: bool = False) -> PrimFunc:
    """Optimise and flatten a function (from a schedule or of blocks) for code generation.

    Raises ScheduleError when a pass refuses it.
    """
    return Sequential(pipeline_of(target, lenient), "lower")(func)


def schedule_ops(sch: Schedule, args: Sequence[Tensor | Var], name: str = "main") -> PrimFunc:
    """Make the function of `sch`, the input of the pipeline, under the current PassContext.

    The context's instruments see this as a pass ScheduleOps on an empty function. Raises
    ConfigError for a name that is no text.
    """
    text("name", name, "main")
    ctx = PassContext.current()

    def made(_: Program) -> PrimFunc:
        func = schedule_to_prim_func(sch, args, name)
        return func if ctx.setting("tir.noalias") else func.with_attrs(**{"tir.noalias": False})

    return cast(PrimFunc, ctx.run(SCHEDULE_OPS, made, PrimFunc((), nop(), {})))


def pipeline_of(target: Target, lenient: bool = False) -> tuple[Pass, ...]:
    """The passes from the statement of ScheduleOps to code generation.

    `lenient` is for candidates, whose vectorized loops no user requested: on a CPU, those that
    cannot be vectorized become serial. Raises ConfigError for a GPU if the current PassContext sets
    `tir.instrument_bound_checkers`.
    """
    from autosched.transform.device.shared_to_dynamic import STATIC_BYTES
    from autosched.transform.pipeline import cpu_pipeline, gpu_pipeline

    if _checked(target).is_gpu:
        if PassContext.current().setting(_CHECKED_BOUNDS):
            raise ConfigError(
                f"PassContext: {_CHECKED_BOUNDS!r} is for CPUs, the target is {target}: kernels "
                "of a GPU cannot report an error"
            )
        own = target.hardware.max_shared_memory_per_block
        return gpu_pipeline(min(own, STATIC_BYTES), target.shared_memory_limit)
    return cpu_pipeline(target.vector_bytes, lenient, target.vector_registers)


def lower_steps(
    dag: ComputeDAG,
    steps: Iterable[Step],
    target: Target,
    name: str = "main",
    layout: LayoutOption = LayoutOption.NO_REWRITE,
) -> PrimFunc:
    """The optimised TIR of one candidate: layouts, replay, bounds, statements, passes.

    >>> import autosched
    >>> task = autosched.Task.from_workload("matmul", M=2, N=2, K=2)
    >>> plain = lower_steps(task.dag, (), task.target)  # no steps: the loops as declared
    """
    sch, tensors = apply_steps(dag, steps, layout)
    return lower_func(schedule_ops(sch, tensors, name), target, lenient=True)


def apply_steps(
    dag: ComputeDAG, steps: Iterable[Step], layout: LayoutOption
) -> tuple[Schedule, list[Tensor]]:
    """The schedule that `steps` describe, and the argument tensors.

    Inputs marked as layout free are stored as `layout` says (`state/layout_rewrite.py`). Raises
    ScheduleError naming the step when one is illegal.
    """
    rewritten = rewrite_layout(*_candidate(dag, steps), layout)
    return rewritten.dag.apply_steps(rewritten.steps)


def _candidate(dag: ComputeDAG, steps: Iterable[Step]) -> tuple[ComputeDAG, tuple[Step, ...]]:
    """The arguments of a candidate; ConfigError for what is no DAG, or no step."""
    instance("dag", dag, ComputeDAG, "task.dag")
    if not isinstance(steps, Iterable):
        raise ConfigError(f"steps: expected a list of transform steps, {found(steps)}")
    return dag, tuple(instance(f"steps[{k}]", step, Step) for k, step in enumerate(steps))


def lower_for_features(
    dag: ComputeDAG,
    steps: Iterable[Step],
    target: Target,
    as_ansor: bool = True,
    ansor_limits: bool = True,
    verified: bool = True,
) -> PrimFunc:
    """The simplified, unflattened TIR from which features are extracted.

    For a GPU, a `verified` candidate must also pass `verify_gpu`. `as_ansor` leaves indices as
    Ansor does, which decides its counts of operations. Tensor instructions become the loops that
    they replace. Raises ScheduleError when the schedule is illegal or exceeds the limits.
    """
    sch, tensors = dag.apply_steps(steps)
    as_loops(sch)
    func = schedule_to_prim_func(sch.normalize_for_feature_extraction(), tensors)
    if target.is_gpu and verified:
        verify_gpu(func, target, ansor_limits)
    return Simplify(as_ansor)(func)


def as_loops(sch: Schedule) -> None:
    """Remove the tensor instructions from `sch`, so that its stages consist of loops only."""
    for stage in sch.stages:
        for attr in stage.iter_var_attrs.values():
            if attr.iter_kind == IterKind.TENSORIZED:
                attr.iter_kind, attr.tensor_intrin = "", None


def verify_gpu(func: PrimFunc, target: Target, ansor_limits: bool = True) -> None:
    """Raise ScheduleError when `func` exceeds the target's limits on blocks, memory or vectors.

    Without `ansor_limits`, shared memory is counted after merging and compared with the limit of
    the architecture, and the arrays of a thread must fit its registers.
    """
    from autosched.transform.device.verify_gpu_code import VerifyGPUCode
    from autosched.transform.pipeline import FEATURE_CHECK

    hardware = target.hardware
    own = hardware.max_shared_memory_per_block
    local = hardware.max_local_memory_per_block
    limits = VerifyGPUCode(
        max_shared_memory_per_block=own if ansor_limits else None,
        max_merged_shared_memory_per_block=None if ansor_limits else target.shared_memory_limit,
        max_local_memory_per_block=local if ansor_limits else hardware.local_memory_limit,
        max_threads_per_block=hardware.max_threads_per_block,
        max_vector_bytes=hardware.vector_unit_bytes,
        max_vthread=hardware.max_vthread_extent,
    )
    Sequential((*FEATURE_CHECK, limits), "verify_gpu")(func)


def lower_to_kernels(func: PrimFunc) -> IRModule:
    """The host and the kernels of a lowered function for a GPU. Raises ScheduleError."""
    from autosched.transform.pipeline import DEVICE_PIPELINE

    return Sequential(DEVICE_PIPELINE, "kernels")(IRModule({func.name: func}))


def build_cuda(
    dag: ComputeDAG,
    steps: Iterable[Step],
    target: Target,
    name: str = "main",
    cubins: CubinCache | None = None,
) -> CudaArtifact:
    """Source and launch plan of one candidate for a GPU, and its cubin for `target.arch`.

    `cubins`, where given, is asked for the cubin first, and keeps it.

    Raises ScheduleError, CompileError, or ConfigError when NVRTC is missing.
    """
    return _compiled(cuda_source(dag, steps, target, name), target, cubins)


def build_cuda_func(func: PrimFunc, target: Target) -> CudaArtifact:
    """`build_cuda` of lowered TIR, such as `lower(s, [A, B], target)` of a schedule by hand.

    `load_cuda` of `autosched.runtime.cuda_kernel` makes a kernel of it that takes arrays.
    """
    from autosched.runtime.cuda_artifact import cuda_artifact

    if _checked(target).kind != "cuda":
        raise CompileError(f"build_cuda_func makes kernels for GPUs, the target is {target}")
    module = lower_to_kernels(instance("func", func, PrimFunc))
    return _compiled(cuda_artifact(module, func.name), target)


def _compiled(
    artifact: CudaArtifact, target: Target, cubins: CubinCache | None = None
) -> CudaArtifact:
    for kernel in artifact.kernels:
        shared = kernel.static_shared + kernel.dynamic_shared
        if shared > target.opt_in_shared_memory:
            raise CompileError(
                f"{kernel.name}: {shared} bytes of shared memory, at most "
                f"{target.opt_in_shared_memory} are possible on {target.arch}",
                kind="illegal",
            )
    nvrtc = load_nvrtc(target.arch)
    compile_ = nvrtc.compile if cubins is None else partial(cubins.compile, nvrtc)
    compiled = compile_(artifact.source, target.arch, statements=artifact.statements)
    return artifact.with_cubin(compiled)


def cuda_source(
    dag: ComputeDAG, steps: Iterable[Step], target: Target, name: str = "main"
) -> CudaArtifact:
    """The artifact of `build_cuda` without a cubin. Raises ScheduleError or CompileError."""
    from autosched.runtime.cuda_artifact import cuda_artifact

    return cuda_artifact(lower_to_kernels(lower_steps(dag, steps, target, name)), name)


def build(sch: Schedule, args: Sequence[Tensor], target: Target, name: str = "main") -> CpuArtifact:
    """Object code of `sch` for the CPU. Raises ScheduleError or CompileError.

    >>> import numpy as np
    >>> from autosched import te
    >>> from autosched.runtime.cpu import load
    >>> from autosched.target import cpu_target
    >>> A = te.placeholder((64,), name="A")
    >>> B = te.compute((64,), lambda i: A[i] + 1.0, name="B")
    >>> s = te.create_schedule(B.op)
    >>> kernel = load(build(s, [A, B], cpu_target()))
    >>> print(kernel(np.zeros(64, np.float32))[:3])
    [1. 1. 1.]
    """
    return build_func(lower(sch, args, target, name), target)


def build_steps(
    dag: ComputeDAG,
    steps: Iterable[Step],
    target: Target,
    name: str = "kernel",
    layout: LayoutOption = LayoutOption.NO_REWRITE,
) -> CpuArtifact:
    """Object code of one candidate. Raises ScheduleError or CompileError.

    With FOR_PRE_TRANSFORMED the artifact says how its layout-free inputs must be stored.
    """
    rewritten = rewrite_layout(*_candidate(dag, steps), layout)
    artifact = build_func(lower_steps(rewritten.dag, rewritten.steps, target, name), target)
    if layout == LayoutOption.FOR_PRE_TRANSFORMED:
        artifact = artifact.with_layouts(rewritten.changes)
    return artifact


def build_host(program: PrimFunc | IRModule, target: Target, device: str = "cpu") -> HostArtifact:
    """Object code of lowered functions that take packed arguments and check them themselves.

    `program` is flat: the result of `lower`, or the module of `lower_to_kernels`, whose kernels are
    left out. Arrays are on a device of the kind `device`. `runtime.host.load_host` loads the
    result. Raises CompileError for a target other than the CPU, and ConfigError for what is no
    function or module.
    """
    from autosched.runtime.host import host_artifact, prepared
    from autosched.transform.pipeline import host_pipeline

    if _checked(target).kind != "cpu":
        raise CompileError(f"build_host makes code for the CPU, the target is {target}")
    if isinstance(program, PrimFunc):
        program = IRModule({program.name: program})
    module, signatures = prepared(instance("program", program, IRModule, "lower_to_kernels(func)"))
    return host_artifact(Sequential(host_pipeline(device), "host")(module), signatures, target)


def build_func(func: PrimFunc, target: Target) -> CpuArtifact:
    """Object code of lowered TIR.

    Raises CompileError for a target other than the CPU, and ConfigError if `func` is not a
    function.
    """
    from autosched.runtime.cpu import build_artifact

    if _checked(target).kind != "cpu":
        raise CompileError(
            f"build makes code for the CPU, the target is {target}; for a GPU write "
            "build_cuda_func(lower(s, [A, B], target), target)"
        )
    return build_artifact(instance("func", func, PrimFunc), target)


def _checked(target: Target) -> Target:
    """Return `target`; ConfigError if it is not a Target (a name, for instance)."""
    return instance("target", target, Target, "autosched.target.cpu_target()")
