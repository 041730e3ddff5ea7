from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import cpu_target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.expr import IterVar
from autosched.tir.function import PrimFunc
from autosched.tir.interp_packed import run_packed
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import Allocate, BufferRealize, BufferStore
from autosched.tir.walk import stmts
from autosched.transform.device.verify_memory import VerifyMemory
from autosched.transform.framework.context import CONFIG_KEYS, PassContext
from autosched.transform.framework.pass_text import parse_passes
from autosched.transform.framework.passes import FunctionPass, Pass, Sequential
from autosched.transform.host.verify_vtcm_limit import VerifyVTCMLimit
from autosched.transform.loops.instrument_profile_intrinsics import InstrumentProfileIntrinsics
from autosched.transform.loops.remove_no_op import RemoveNoOp
from autosched.transform.pipeline import (
    CPU_PIPELINE,
    DEVICE_PIPELINE,
    FEATURE_CHECK,
    GPU_PIPELINE,
    HOST_PIPELINE,
    PASSES,
    cpu_pipeline,
)
from kit.gpu_texts import GPU_TEXTS
from kit.te import compute_of
from kit.tir import value_of
from kit.types import SameResult


def run(pipeline: tuple[Pass, ...], func: PrimFunc) -> PrimFunc:
    return Sequential(pipeline)(func)


def matmul(
    n: int = 12, m: int = 10, depth: int = 9
) -> tuple[Tensor, Tensor, Tensor, Tensor, IterVar]:
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, m), lambda i, j: C[i, j] + 1.0, name="D")
    return A, B, C, D, k


def cpu_schedule() -> PrimFunc:
    A, B, C, D, k = matmul()
    sch = te.create_schedule(D.op)
    i, j = compute_of(D).axis
    io, ii = sch[D].split(i, factor=4)
    jo, ji = sch[D].split(j, factor=4)
    sch[D].reorder(io, jo, ii, ji)
    outer = sch[D].fuse(io, jo)
    sch[D].parallel(outer)
    sch[D].vectorize(ji)
    sch[D].pragma(outer, "auto_unroll_max_step", 16)
    sch[C].compute_at(sch[D], outer)
    ko, ki = sch[C].split(k, factor=2)
    ci, cj = compute_of(C).axis
    sch[C].reorder(ko, ci, ki, cj)
    sch[C].vectorize(cj)
    return schedule_to_prim_func(sch, [A, B, D])


def gpu_schedule(bind: bool = True) -> PrimFunc:
    A, B, C, D, _ = matmul(16, 16, 8)
    sch = te.create_schedule(D.op)
    i, j = compute_of(D).axis
    if not bind:
        return schedule_to_prim_func(sch, [A, B, D])
    io, ii = sch[D].split(i, factor=8)
    jo, ji = sch[D].split(j, factor=8)
    sch[D].reorder(io, jo, ii, ji)
    sch[D].bind(io, te.thread_axis("blockIdx.x"))
    sch[D].bind(jo, te.thread_axis("vthread"))
    sch[D].bind(ii, te.thread_axis("threadIdx.y"))
    sch[D].bind(ji, te.thread_axis("threadIdx.x"))
    sch[C].compute_at(sch[D], ji)
    return schedule_to_prim_func(sch, [A, B, D])


def test_cpu(same_result: SameResult) -> None:
    before = cpu_schedule()
    after = run(CPU_PIPELINE, before)
    same_result(before, after)
    for s in stmts(after.body):
        assert not isinstance(s, BufferRealize)
        assert not isinstance(s, BufferStore) or len(s.indices) == 1


def test_gpu(same_result: SameResult) -> None:
    before = gpu_schedule()
    same_result(before, run(GPU_PIPELINE, before))
    same_result(before, run(FEATURE_CHECK, before))


def test_host_code_is_found() -> None:
    with pytest.raises(ScheduleError, match="accessed by the host"):
        run(GPU_PIPELINE, gpu_schedule(bind=False))


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_is_registered_under_its_name(name: str) -> None:
    assert PASSES[name]().info.name == name


def test_every_pass_of_a_pipeline_has_its_name_among_them() -> None:
    pipelines = (*CPU_PIPELINE, *GPU_PIPELINE, *DEVICE_PIPELINE, *HOST_PIPELINE, *FEATURE_CHECK)
    assert {pass_.name for pass_ in pipelines} - {"UserPasses"} <= set(PASSES)


OPTIONS = {
    "FP8ComputeLegalize": "{kind='cpu'}",
    "FP8StorageLegalize": "{kind='cpu', keep_parameters=True}",
    "BF16StorageLegalize": "{keep_parameters=True}",
    "LowerCustomDatatypes": "{kind='cpu'}",
}


@cache
def lowered_without(left_out: str) -> PrimFunc:
    """The schedule after all passes for a CPU but one."""
    return run(tuple(p for p in CPU_PIPELINE if p.name != left_out), cpu_schedule())


@pytest.mark.parametrize("name", sorted(set(PASSES) - {"MakePackedAPI"}))
def test_every_pass_keeps_a_lowered_function_meaningful(name: str, same_result: SameResult) -> None:
    """SplitWideVectors knows no vector variables, which only PromoteAccumulators makes.

    MakePackedAPI changes the parameters; `test_the_host_pipeline` runs what it makes.
    """
    lowered = lowered_without("PromoteAccumulators" if name == "SplitWideVectors" else "")
    (pass_,) = parse_passes(name + OPTIONS.get(name, ""), PASSES)
    same_result(lowered, pass_(lowered))


def test_the_host_pipeline() -> None:
    lowered = run(CPU_PIPELINE, cpu_schedule())
    shapes = [[value_of(e) for e in b.shape] for b in lowered.buffers]
    args = [np.ones(shape, np.float32) for shape in shapes]
    others = [a.copy() for a in args]
    interp.run(lowered, args)
    run_packed(run(HOST_PIPELINE, lowered), others)
    for a, b in zip(args, others, strict=True):
        np.testing.assert_array_equal(a, b)


def test_numpy() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (12, 9)).astype(np.float32)
    b = rng.integers(-4, 5, (9, 10)).astype(np.float32)
    out = np.zeros((12, 10), np.float32)
    interp.run(run(CPU_PIPELINE, cpu_schedule()), [a, b, out])
    np.testing.assert_array_equal(out, a @ b + 1)


@dataclass(frozen=True)
class Count(FunctionPass):
    """Notes what it saw."""

    seen: list[PrimFunc]
    name: ClassVar[str] = "Count"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        self.seen.append(func)
        return func


def test_disabled_passes_are_skipped() -> None:
    before = cpu_schedule()
    with PassContext(disabled_pass=["StorageFlatten"]):
        assert run((PASSES["StorageFlatten"](),), before) is before


def test_user_passes_by_phase() -> None:
    seen: list[list[PrimFunc]] = [[] for _ in range(4)]
    before = cpu_schedule()
    extra = [[phase, Count(notes)] for phase, notes in enumerate(seen)]
    with PassContext(config={"tir.add_lower_pass": extra}):
        after = run(CPU_PIPELINE, before)
    assert seen[0] == [before]
    assert any(isinstance(s, Allocate) for s in stmts(seen[1][0].body))
    assert len(seen[2]) == 1 and seen[2][0] is not seen[1][0]
    assert PASSES["LowerIntrin"]()(seen[3][0]).body is not None and after is not seen[0][0]
    with PassContext(config={"tir.add_lower_pass": extra}, disabled_pass=["Count"]):
        run(CPU_PIPELINE, before)
    assert [len(notes) for notes in seen] == [1, 1, 1, 1]


def lowered_text(sch_args: tuple[Schedule, list[Tensor]], **config: Any) -> str:
    with PassContext(config=config):
        return to_text(lower(*sch_args, cpu_target()))


def vectorized_copies() -> tuple[Schedule, list[Tensor]]:
    """Two intermediate stages that do not live together, vectorized."""
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((64,), lambda i: B[63 - i] + 1.0, name="C")
    D = te.compute((64,), lambda i: C[63 - i] + 1.0, name="D")
    E = te.compute((64,), lambda i: D[63 - i] + 1.0, name="E")
    sch = te.create_schedule(E.op)
    for tensor in (B, C, D, E):
        sch[tensor].vectorize(sch[tensor].split(tensor.op.axis[0], factor=8)[1])
    return sch, [A, E]


def vectorized(**config: bool) -> str:
    with PassContext(config=config):
        return to_text(PASSES["VectorizeLoop"]()(schedule_to_prim_func(*vectorized_copies())))


def common_subexpressions(**config: bool) -> str:
    _, args = vectorized_copies()
    repeated = te.compute((7, 8), lambda i, j: args[0][i * 8 + j] * args[0][i * 8 + j + 1])
    func = schedule_to_prim_func(te.create_schedule(repeated.op), [args[0], repeated])
    with PassContext(config=config):
        return to_text(PASSES["CommonSubexprElimTIR"]()(func))


def double_buffered(**config: Any) -> str:
    A = te.placeholder((32, 8), name="A")
    B = te.compute((32, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((32, 8), lambda i, j: B[i, 7 - j] + 1.0, name="C")
    sch = te.create_schedule(C.op)
    sch[B].compute_at(sch[C], C.op.axis[0])
    sch[B].double_buffer()
    return lowered_text((sch, [A, C]), **config)


def looked_up() -> tuple[Schedule, list[Tensor]]:
    """An element whose index is data."""
    A, J = te.placeholder((8,), name="A"), te.placeholder((8,), "int32", name="J")
    B = te.compute((8,), lambda i: A[J[i]], name="B")
    return te.create_schedule(B.op), [A, J, B]


STORED_TWICE = """
def main(A: Buffer((8,), float32)):
    A[0] = 1.0
    A[0] = 2.0
"""


def without_no_ops(**config: Any) -> str:
    with PassContext(config=config):
        return to_text(RemoveNoOp()(parse_func(STORED_TWICE)))


def for_a_gpu(name: str) -> Callable[..., str]:
    """What the pipeline makes of a kernel written by hand under a configuration."""

    def text(**config: Any) -> str:
        with PassContext(config=config):
            return to_text(run(GPU_PIPELINE, parse_func(GPU_TEXTS[name])))

    return text


VTCM = """
def main(A: Buffer((8,), float32)):
    V = allocate((8,), float32, "global.vtcm")
    V[0] = A[0]
    A[1] = V[0]
"""


def tightly_coupled(**config: Any) -> str:
    try:
        with PassContext(config=config):
            return to_text(VerifyVTCMLimit("cpu")(parse_func(VTCM)))
    except ScheduleError as error:
        return str(error)


def profiled(**config: Any) -> str:
    base = {"tir.instrument_lwp": True, "tir.reset_start_id": True}
    with PassContext(config={**base, **config}):
        return to_text(InstrumentProfileIntrinsics(by_config=True)(parse_func(SIBLINGS)))


def ids_begin_anew(**config: Any) -> bool:
    config = {"tir.reset_start_id": False, **config}
    return profiled(**config) == profiled(**config)


SIBLINGS = """
def main(A: Buffer((8, 8, 8), float32)):
    for i in range(8):
        for j in range(8):
            for k in range(8):
                A[i, j, k] = 1.0
        for j in range(8):
            A[i, j, 3] = 2.0
"""

CHANGED_BY_KEY: dict[str, tuple[Any, Callable[..., object]]] = {
    "tir.noalias": (False, lambda **config: lowered_text(vectorized_copies(), **config)),
    "tir.disable_vectorize": (True, vectorized),
    "tir.disable_storage_rewrite": (
        True,
        lambda **config: lowered_text(vectorized_copies(), **config),
    ),
    "tir.disable_cse_tir": (True, common_subexpressions),
    "tir.InjectDoubleBuffer": ({"split_loop": 2}, double_buffered),
    "tir.RemoveNoOp": ({"use_dataflow_analysis": True}, without_no_ops),
    "tir.add_lower_pass": (
        [[2, VerifyMemory("cuda")]],
        lambda **config: refusal(vectorized_copies(), **config),
    ),
    "tir.use_async_copy": (True, for_a_gpu("copies marked as asynchronous")),
    "tir.merge_static_smem": (False, for_a_gpu("memory used in turns")),
    "tir.ptx_ldg32": (True, for_a_gpu("a guarded load")),
    "tir.vtcm_capacity": (16, tightly_coupled),
    "tir.instrument_bound_checkers": (True, lambda **config: lowered_text(looked_up(), **config)),
    "tir.instrument_lwp": (True, lambda **config: lowered_text(vectorized_copies(), **config)),
    "tir.instr_siblings": (False, profiled),
    "tir.lwp_max_depth": (
        1,
        lambda **config: profiled(**{"tir.instr_siblings": False, **config}),
    ),
    "tir.lwp_min_height": (0, profiled),
    "tir.lwp_disable_func_prof": (True, profiled),
    "tir.reset_start_id": (True, ids_begin_anew),
}


def refusal(sch_args: tuple[Schedule, list[Tensor]], **config: Any) -> str:
    try:
        return lowered_text(sch_args, **config)
    except ScheduleError as error:
        return str(error)


@pytest.mark.parametrize("key", CONFIG_KEYS)
def test_every_configuration_key_changes_something(key: str) -> None:
    value, outcome = CHANGED_BY_KEY[key]
    assert outcome(**{key: CONFIG_KEYS[key].default}) == outcome()
    assert outcome(**{key: value}) != outcome()


def test_user_passes_are_no_pass_to_instruments() -> None:
    seen = []
    with PassContext(trace=lambda program, info, before: seen.append(info.name)):
        run(CPU_PIPELINE, cpu_schedule())
    assert "UserPasses" not in seen and seen.count("Simplify") == 6


OVERLAPPING: dict[str, str] = {
    "PromoteAccumulators": """
            for k in range(4):
                for j in range(8):
                    C[j + 8] = C[j + 8] + A[k] * B[k * 8 + j]
    """,
    "VectorizeInnermost": """
            for i in range(32):
                C[i + 1] = A[i] * 2.0
    """,
    "SkipZeros": """
            for h in range(16):
                for r in range(4):
                    C[h] = C[h] + if_then_else((h + r) % 2 == 0, A[(h + r) // 2], 0.0) * B[r]
    """,
    "SkipMasked": """
            for i in range(4):
                for j in range(256):
                    C[i] = C[i] + if_then_else(j <= i, A[j // 4], 0.0) * B[j // 4]
    """,
    "SinkInit": """
            for i in range(8):
                C[i] = 0.0
            for k in range(8):
                B[k] = A[k]
                for i in range(8):
                    for r in range(2):
                        C[i] = C[i] + B[k + r]
    """,
    "SeparateWindows": """
            C.acc = allocate((8,), float32, "local")
            C.acc[0:8] = broadcast(0.0, 8)
            for i in unrolled(2):
                for j in unrolled(3):
                    C.acc[0:8] = max(C.acc[0:8], A[ramp(i * 18 + j, 2, 8)])
            C[0:8] = C.acc[0:8]
    """,
    "SplitOddVectors": """
            C[1:25] = A[0:24] * broadcast(2.0, 24)
    """,
}


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("name", OVERLAPPING)
def test_arguments_that_may_overlap(name: str, vector_bytes: int) -> None:
    """Each element is read when the function as it was written reads it; that pass stays out."""
    arguments = ", ".join(f"{argument}: Buffer((64,), float32)" for argument in "ABC")
    alone = parse_func(f"def main({arguments}):{OVERLAPPING[name]}")
    func = alone.with_attrs(**{"tir.noalias": False})
    assert PASSES[name]()(func) is func
    assert PASSES[name]()(alone) is not alone
    lowered = Sequential(cpu_pipeline(vector_bytes))(func)
    for first, second in ((0, 64), (64, 0), (1, 64)):  # where A and B begin in C's memory
        expected, found = (np.arange(192, dtype=np.float32) % 5 for _ in range(2))
        for memory, program in ((expected, func), (found, lowered)):
            places = (first, second, 0)
            interp.run(program, [memory[place : place + 64] for place in places])
        np.testing.assert_array_equal(found, expected)
