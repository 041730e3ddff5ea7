from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from autosched import te
from autosched.errors import ConfigError, ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from autosched.tir.stmt import Allocate, BufferRealize, BufferStore
from autosched.tir.walk import stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.pipeline import (
    CPU_PIPELINE,
    FEATURE_CHECK,
    GPU_PIPELINE,
    PASSES,
    configured,
    run_pipeline,
)


def run(pipeline, func):
    for transform in pipeline:
        func = transform(func)
    return func


def matmul(n=12, m=10, depth=9):
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, m), lambda i, j: C[i, j] + 1.0, name="D")
    return A, B, C, D, k


def cpu_schedule():
    A, B, C, D, k = matmul()
    sch = te.create_schedule(D.op)
    i, j = D.op.axis
    io, ii = sch[D].split(i, factor=4)
    jo, ji = sch[D].split(j, factor=4)
    sch[D].reorder(io, jo, ii, ji)
    outer = sch[D].fuse(io, jo)
    sch[D].parallel(outer)
    sch[D].vectorize(ji)
    sch[D].pragma(outer, "auto_unroll_max_step", 16)
    sch[C].compute_at(sch[D], outer)
    ko, ki = sch[C].split(k, factor=2)
    ci, cj = C.op.axis
    sch[C].reorder(ko, ci, ki, cj)
    sch[C].vectorize(cj)
    return schedule_to_prim_func(sch, [A, B, D])


def gpu_schedule(bind=True):
    A, B, C, D, _ = matmul(16, 16, 8)
    sch = te.create_schedule(D.op)
    i, j = D.op.axis
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


def test_cpu(same_result):
    before = cpu_schedule()
    after = run(CPU_PIPELINE, before)
    same_result(before, after)
    for s in stmts(after.body):
        assert not isinstance(s, BufferRealize)
        assert not isinstance(s, BufferStore) or len(s.indices) == 1


def test_gpu(same_result):
    before = gpu_schedule()
    same_result(before, run(GPU_PIPELINE, before))
    same_result(before, run(FEATURE_CHECK, before))


def test_host_code_is_found():
    with pytest.raises(ScheduleError, match="accessed by the host"):
        run(GPU_PIPELINE, gpu_schedule(bind=False))


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_is_registered_under_its_name(name):
    assert PASSES[name]().info.name == name


@pytest.mark.parametrize("name", sorted(PASSES))
def test_every_pass_keeps_a_lowered_function_meaningful(name, same_result):
    lowered = run(CPU_PIPELINE, cpu_schedule())
    same_result(lowered, PASSES[name]()(lowered))


def test_numpy():
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (12, 9)).astype(np.float32)
    b = rng.integers(-4, 5, (9, 10)).astype(np.float32)
    out = np.zeros((12, 10), np.float32)
    interp.run(run(CPU_PIPELINE, cpu_schedule()), [a, b, out])
    np.testing.assert_array_equal(out, a @ b + 1)


@dataclass(frozen=True)
class Count(FunctionPass):
    """Notes what it saw."""

    seen: list
    name: ClassVar[str] = "Count"

    def apply(self, func, ctx):
        self.seen.append(func)
        return func


def test_configuration_keys():
    plain = configured(CPU_PIPELINE, PassContext())
    assert plain == CPU_PIPELINE
    without = {"tir.disable_vectorize": True, "tir.disable_storage_rewrite": True}
    passes = configured(CPU_PIPELINE, PassContext(config=without))
    assert len(passes) == len(CPU_PIPELINE) - 1
    assert "StorageRewrite" not in {p.name for p in passes}
    assert [p.enable for p in passes if p.name == "VectorizeLoop"] == [False]


def test_disabled_passes_are_skipped():
    before = cpu_schedule()
    with PassContext(disabled_pass=["StorageFlatten"]):
        assert run_pipeline((PASSES["StorageFlatten"](),), before) is before


def test_user_passes_by_phase():
    seen = [[] for _ in range(4)]
    before = cpu_schedule()
    extra = [[phase, Count(notes)] for phase, notes in enumerate(seen)]
    with PassContext(config={"tir.add_lower_pass": extra}):
        after = run_pipeline(CPU_PIPELINE, before)
    assert seen[0] == [before]
    assert any(isinstance(s, Allocate) for s in stmts(seen[1][0].body))
    assert len(seen[2]) == 1 and seen[2][0] is not seen[1][0]
    assert PASSES["LowerIntrin"]()(seen[3][0]).body is not None and after is not seen[0][0]
    with (
        PassContext(config={"tir.add_lower_pass": [[7, Count([])]]}),
        pytest.raises(ConfigError, match="has phase 7"),
    ):
        run_pipeline(CPU_PIPELINE, before)
