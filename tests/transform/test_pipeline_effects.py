"""What each pass is in the pipelines for: a program whose final code shows its work.

Each case has a program and what holds of it after the whole pipeline. It must not hold when the
pass is disabled: the case would say nothing of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import HardwareParams, Target, cuda_target
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import op
from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    BinaryExpr,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Select,
    Shuffle,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
)
from autosched.tir.walk import all_exprs, child_stmts, free_vars, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.low_precision.fixed_point import register_fixed_point
from autosched.transform.pipeline import CPU_PIPELINE, FROM_BLOCKS, GPU_PIPELINE
from kit.pipeline_cases import CASES as PIPELINE_CASES
from kit.te import compute_of
from kit.tir import value_of

register_fixed_point()
CPU = Target("cpu", HardwareParams(4), 4, "haswell", "+avx2,+fma", "", 32)
SCALAR = Target("cpu", HardwareParams(4), 4, "x86-64", "", "", 4)
GPU = cuda_target()


S = TypeVar("S", bound=Stmt)
E = TypeVar("E", bound=Expr)


def lowered_args(name: str) -> tuple[Any, list[Any]]:
    """A schedule of the pipeline's golden texts, for a GPU."""
    return PIPELINE_CASES[name](True)


def statements(func: PrimFunc, kind: type[S]) -> list[S]:
    return [s for s in stmts(func.body) if isinstance(s, kind)]


def expressions(func: PrimFunc, *kinds: type[E]) -> list[E]:
    return [e for e in all_exprs(func.body) if isinstance(e, kinds)]


def attributes(func: PrimFunc) -> set[str]:
    return {s.key for s in statements(func, AttrStmt)}


def chain(
    n: int = 64, f: Callable[[Expr], Expr] = lambda x: x + 1.0, g: Callable[..., Expr] = te.exp
) -> tuple[Tensor, Tensor, Tensor, Schedule]:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: f(A[i]), name="B")
    C = te.compute((n,), lambda i: g(B[i]), name="C")
    return A, B, C, te.create_schedule(C.op)


def prefetched() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: te.exp(A[i]), name="B")
    sch = te.create_schedule(B.op)
    outer, _ = sch[B].split(B.op.axis[0], factor=16)
    sch[B].prefetch(A, outer, 1)
    return sch, [A, B], CPU


def two_stages() -> tuple[Schedule, list[Tensor], Target]:
    A, _, C, sch = chain()
    return sch, [A, C], CPU


def looked_up() -> tuple[Schedule, list[Tensor], Target]:
    A, J = te.placeholder((8,), name="A"), te.placeholder((8,), "int32", name="J")
    B = te.compute((8,), lambda i: A[J[i]], name="B")
    return te.create_schedule(B.op), [A, J, B], CPU


def divided_rows() -> tuple[Schedule, list[Tensor], Target]:
    """The sum of a row stands inside the loop over its elements, on which it does not depend."""
    A = te.placeholder((4, 200), name="A")
    k = te.reduce_axis((0, 200), name="k")
    total = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="total")
    D = te.compute((4, 200), lambda i, j: A[i, j] / total[i], name="D")
    sch = te.create_schedule(D.op)
    sch[total].compute_at(sch[D], D.op.axis[1])
    return sch, [A, D], SCALAR


def scaled_rows() -> tuple[Schedule, list[Tensor], Target]:
    """The exponentials of a row, divided by their sum."""
    A = te.placeholder((4, 200), name="A")
    E = te.compute((4, 200), lambda i, j: te.exp(A[i, j]), name="E")
    k = te.reduce_axis((0, 200), name="k")
    total = te.compute((4,), lambda i: te.sum(E[i, k], axis=k), name="total")
    D = te.compute((4, 200), lambda i, j: E[i, j] / total[i], name="D")
    sch = te.create_schedule(D.op)
    sch[E].compute_at(sch[D], compute_of(D).axis[0])
    sch[total].compute_at(sch[D], compute_of(D).axis[0])
    return sch, [A, D], CPU


def small_floats(dtype: str, n: int | Var) -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] * A[i] + A[i], name="B")
    C = te.compute((n,), lambda i: B[i] - A[i], name="C")
    return te.create_schedule(C.op), [A, C], CPU


def is_computed_in(f: PrimFunc, dtype: str) -> bool:
    return any(e.dtype.element.name == dtype for e in expressions(f, BinaryExpr))


def wide_indices() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((te.const(64, "int64"),), name="A")
    B = te.compute((te.const(64, "int64"),), lambda i: te.exp(A[i]), name="B")
    return te.create_schedule(B.op), [A, B], SCALAR


def odd_tiles(target: Target) -> tuple[Schedule, list[Tensor], Target]:
    A, B, C, sch = chain(100)
    sch[B].compute_inline()
    outer, inner = sch[C].split(compute_of(C).axis[0], factor=16)
    if target.is_gpu:
        sch[C].bind(outer, te.thread_axis("blockIdx.x"))
        sch[C].bind(inner, te.thread_axis("threadIdx.x"))
    else:
        sch[C].parallel(outer)
        sch[C].vectorize(inner)
    return sch, [A, C], target


def virtual_threads() -> tuple[Schedule, list[Tensor], Target]:
    A, B, C, sch = chain()
    outer, inner = sch[C].split(compute_of(C).axis[0], nparts=2)
    sch[C].bind(outer, te.thread_axis("vthread"))
    sch[C].bind(inner, te.thread_axis("threadIdx.x"))
    sch[B].compute_at(sch[C], inner)
    return sch, [A, C], GPU


def double_buffer() -> tuple[Schedule, list[Tensor], Target]:
    A, B, C, sch = chain()
    outer, _ = sch[C].split(compute_of(C).axis[0], factor=16)
    sch[B].compute_at(sch[C], outer)
    sch[B].double_buffer()
    return sch, [A, C], CPU


def tiles_in_shared_memory(key: str, value: int | str) -> tuple[Schedule, list[Tensor], Target]:
    """Rows of 64 elements are copied to shared memory and read down their columns."""
    A = te.placeholder((512, 64), name="A")
    B = te.compute((512, 64), lambda i, j: A[i, j], name="B")
    C = te.compute((512, 64), lambda i, j: B[i // 64 * 64 + j, i % 64], name="C")
    sch = te.create_schedule(C.op)
    outer, inner = sch[C].split(C.op.axis[0], factor=64)
    block, outer = sch[C].split(outer, nparts=2)
    sch[C].bind(block, te.thread_axis("blockIdx.x"))
    sch[C].bind(C.op.axis[1], te.thread_axis("threadIdx.x"))
    sch[C].reorder(outer, C.op.axis[1], inner)
    sch[B].set_scope("shared")
    sch[B].compute_at(sch[C], outer)
    sch[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
    at = (sch[C], outer) if key == "software_pipeline" else (sch[B], B.op.axis[0])
    at[0].pragma(at[1], key, value)
    return sch, [A, C], GPU


def reversed_of(A: Tensor, name: str) -> Tensor:
    result: Tensor = te.compute((64,), lambda i: te.exp(A[63 - i]), name=name)
    return result


def four_stages() -> tuple[Schedule, list[Tensor], Target]:
    A = stage = te.placeholder((64,), name="A")
    for name in "BCDE":
        stage = reversed_of(stage, name)
    return te.create_schedule(stage.op), [A, stage], CPU


def store_predicate() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((8, 24), name="A")
    B = te.compute((8, 24), lambda i, j: te.exp(A[i, j]), name="B")
    sch = te.create_schedule(B.op)
    i, _ = B.op.axis
    sch[B].set_store_predicate(te.all(i.var < 7, i.var > 2))
    return sch, [A, B], SCALAR


def matmul() -> tuple[Schedule, list[Tensor], Target]:
    A, B = te.placeholder((8, 64), name="A"), te.placeholder((64, 16), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((8, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), [A, B, C], CPU


def short_loops() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((64, 3), name="A")
    B = te.compute((64, 3), lambda i, j: te.exp(A[i, 2 - j]), name="B")
    sch = te.create_schedule(B.op)
    sch[B].pragma(B.op.axis[0], "auto_unroll_max_step", 16)
    return sch, [A, B], SCALAR


def fused_and_split() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((8,), name="A")
    B = te.compute((256,), lambda x: A[(x + 16) % 32 // 4], name="B")
    return te.create_schedule(B.op), [A, B], SCALAR


def differences_of_indices() -> tuple[Schedule, list[Tensor], Target]:
    A, B, C, sch = chain()
    outer, _ = sch[C].split(compute_of(C).axis[0], factor=16)
    sch[B].compute_at(sch[C], outer)
    return sch, [A, C], SCALAR


def nothing_to_do() -> tuple[Schedule, list[Tensor], Target]:
    """An extern operation whose statement ends with a loop that does nothing."""
    A = te.placeholder((4,), name="A")

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        i, j = Var("i"), Var("j")
        store = BufferStore(outs[0], BufferLoad(ins[0], (i,)), (i,))
        zero, four = IntImm(0), IntImm(4)
        idle = For(j, zero, four, ForKind.PARALLEL, Evaluate(zero))
        copy = For(i, zero, four, ForKind.PARALLEL, store)
        return SeqStmt((copy, idle))

    B = te.extern((4,), [A], body, dtype="float32", name="B")
    return te.create_schedule(B.op), [A, B], SCALAR


def selected() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: op.select(A[i] < 8.0, A[i], A[15 - i]), name="B")
    return te.create_schedule(B.op), [A, B], SCALAR


def shifted() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: op.select(A[i] < 8.0, A[i + 1], 0.0), name="B")
    sch = te.create_schedule(B.op)
    sch[B].vectorize(B.op.axis[0])
    return sch, [A, B], CPU


def odd_vector() -> tuple[Schedule, list[Tensor], Target]:
    A = te.placeholder((12,), name="A")
    B = te.compute((12,), lambda i: A[i] + 1.0, name="B")
    sch = te.create_schedule(B.op)
    sch[B].vectorize(B.op.axis[0])
    return sch, [A, B], CPU


def spread_rows() -> tuple[Schedule, list[Tensor], Target]:
    """Each row with three others, every second of which is zero."""
    A, r = te.placeholder((10, 8), name="A"), te.reduce_axis((0, 4), name="r")

    def total(i: Var, j: Var) -> Expr:
        row = op.if_then_else(op.eq((i + r) % 2, 0), A[(i + r) // 2, j], op.const(0.0))
        result: Expr = te.sum(row * A[r, j], axis=r)
        return result

    B = te.compute((16, 8), total, name="B")
    return te.create_schedule(B.op), [A, B], SCALAR


def lower_rows() -> tuple[Schedule, list[Tensor], Target]:
    """Sums of the elements of each row up to the diagonal."""
    A, r = te.placeholder((4, 300), name="A"), te.reduce_axis((0, 300), name="r")

    def total(i: Var) -> Expr:
        result: Expr = te.sum(op.if_then_else(r <= i, A[i, r], op.const(0.0)), axis=r)
        return result

    B = te.compute((4,), total, name="B")
    return te.create_schedule(B.op), [A, B], SCALAR


def host_code() -> tuple[Schedule, list[Tensor], Target]:
    A, _, C, sch = chain()
    return sch, [A, C], GPU


def is_hoisted(func: PrimFunc) -> bool:
    """No condition stands in a loop that does not change it."""
    return not any(
        loop.loop_var not in free_vars(test.condition)
        for loop in statements(func, For)
        for test in stmts(loop.body)
        if isinstance(test, IfThenElse)
    )


def has_whole_vectors(func: PrimFunc) -> bool:
    """No condition chooses lanes of a vector."""
    return not any(e.dtype.lanes > 1 for e in expressions(func, Select))


def depth(stmt: Stmt) -> int:
    """How many loops are inside one another."""
    return isinstance(stmt, For) + max(map(depth, child_stmts(stmt)), default=0)


Program = Callable[[], tuple[Schedule, list[Tensor], Target]]
CASES: dict[str, tuple[Program, Callable[[PrimFunc], bool]]] = {
    "InjectPrefetch": (prefetched, lambda f: any(e.op == "prefetch" for e in expressions(f, Call))),
    "StorageFlatten": (two_stages, lambda f: not statements(f, BufferRealize)),
    "BF16ComputeLegalize": (
        lambda: small_floats("bfloat16", 32),
        lambda f: not is_computed_in(f, "bfloat16"),
    ),
    "BF16StorageLegalize": (
        lambda: small_floats("bfloat16", 32),
        lambda f: not any(e.dtype.is_float for e in expressions(f, Cast)),
    ),
    "FP8ComputeLegalize": (
        lambda: small_floats("float8_e5m2", 32),
        lambda f: not is_computed_in(f, "float8_e5m2"),
    ),
    "FP8StorageLegalize": (
        lambda: small_floats("float8_e4m3fn", te.var("n")),
        lambda f: [a.dtype.name for a in statements(f, Allocate)] == ["uint8"],
    ),
    "NarrowDataType": (
        wide_indices,
        lambda f: {str(loop.loop_var.dtype) for loop in statements(f, For)} == {"int32"},
    ),
    "Simplify": (differences_of_indices, lambda f: "B[i] = A[" in to_text(f)),
    "HintBorders": (lambda: (*PIPELINE_CASES["pooled_border"](False), CPU), has_whole_vectors),
    "LoopPartition": (
        lambda: odd_tiles(CPU),
        lambda f: any(s.predicate is None for s in statements(f, BufferStore)),
    ),
    "LoopPartition on a GPU": (
        lambda: odd_tiles(GPU),
        lambda f: not any(e.op == "likely" for e in expressions(f, Call)),
    ),
    "VectorizeLoop": (
        lambda: odd_tiles(CPU),
        lambda f: not any(s.kind is ForKind.VECTORIZED for s in statements(f, For)),
    ),
    "InjectVirtualThread": (virtual_threads, lambda f: "virtual_thread" not in attributes(f)),
    "InjectDoubleBuffer": (
        double_buffer,
        lambda f: [value_of(a.extents[0]) for a in statements(f, Allocate)] == [32],
    ),
    "SwizzleShared": (
        lambda: tiles_in_shared_memory("swizzle", "3 2 6"),
        lambda f: any(e.op == "bitwise_xor" for e in expressions(f, Call)),
    ),
    "InjectSoftwarePipeline": (
        lambda: tiles_in_shared_memory("software_pipeline", 3),
        lambda f: (
            [e.op for e in expressions(f, Call)].count("tvm_storage_sync") == 1
            and any(e.op == "ptx_cp_async" for e in expressions(f, Call))
        ),
    ),
    "StorageRewrite": (four_stages, lambda f: len(statements(f, Allocate)) == 2),
    "SkipZeros": (
        spread_rows,
        lambda f: "0.0 *" not in to_text(f),
    ),
    "SkipMasked": (lower_rows, lambda f: "if r.o" in to_text(f)),
    "SinkInit": (
        lambda: (*PIPELINE_CASES["packed_rows"](False), CPU),
        lambda f: "if k.outer == 0" in to_text(f),
    ),
    "HoistInvariants": (divided_rows, lambda f: depth(f.body) == 2),
    "FuseReductions": (
        lambda: (*PIPELINE_CASES["normalised_rows"](False), CPU),
        lambda f: any(
            a.buffer_var.name == "total.acc" and isinstance(a.body, Allocate)
            for a in statements(f, Allocate)
        ),
    ),
    "JoinRows": (
        lambda: (*PIPELINE_CASES["short_rows"](False), CPU),
        lambda f: "B.acc.rows[8:16] = broadcast(0.0, 8)" in to_text(f),
    ),
    "JoinWindows": (
        lambda: (*PIPELINE_CASES["pooled_frame"](False), CPU),
        lambda f: "B.acc" not in to_text(f),
    ),
    "SeparateWindows": (
        lambda: (*PIPELINE_CASES["pooled_image"](False), CPU),
        lambda f: any(a.buffer_var.name == "A.columns" for a in statements(f, Allocate)),
    ),
    "SplitOddVectors": (
        odd_vector,
        lambda f: {s.value.dtype.lanes for s in statements(f, BufferStore)} == {8, 4},
    ),
    "StartInBranches": (
        lambda: (*PIPELINE_CASES["filtered_border"](False), CPU),
        lambda f: "B.acc[0:4] = broadcast(0.0, 4)" in to_text(f),
    ),
    "ComputeOnce": (
        lambda: (*divided_rows()[:2], CPU),
        lambda f: any(s.var.dtype.lanes == 1 for s in statements(f, LetStmt)),
    ),
    "AlternateRows": (
        lambda: (*PIPELINE_CASES["outer_products"](True), GPU),
        lambda f: "C.local[7] = " in to_text(f),
    ),
    "PrefetchRows": (
        lambda: (*PIPELINE_CASES["long_rows"](False), CPU),
        lambda f: bool(statements(f, Prefetch)),
    ),
    "DelayStores": (
        lambda: (*PIPELINE_CASES["long_rows"](False), CPU),
        lambda f: any(s.annotations == {"unroll_count": 1} for s in statements(f, For)),
    ),
    "ShareOutput": (
        scaled_rows,
        lambda f: all(a.buffer_var.name != "E" for a in statements(f, Allocate)),
    ),
    "HoistIfThenElse": (store_predicate, is_hoisted),
    "PromoteAccumulators": (
        matmul,
        lambda f: [a.buffer_var.name for a in statements(f, Allocate)] == ["C.acc"],
    ),
    "VectorizeInnermost": (
        two_stages,
        lambda f: {s.value.dtype.lanes for s in statements(f, BufferStore)} == {8, 32},
    ),
    "TransposeGathers": (
        lambda: (*PIPELINE_CASES["across_rows"](False), CPU),
        lambda f: bool(expressions(f, Shuffle)),
    ),
    "InterleaveFunctions": (
        lambda: (*PIPELINE_CASES["exponentials"](False), CPU),
        lambda f: {s.value.dtype.lanes for s in statements(f, BufferStore)} == {32, 8},
    ),
    "UnrollLoop": (short_loops, lambda f: len(statements(f, BufferStore)) == 3),
    "LowerCustomDatatypes": (
        lambda: small_floats("custom[fixed]16", 32),
        lambda f: not any(e.dtype.is_custom for e in expressions(f, BufferLoad)),
    ),
    "InstrumentBoundCheckers": (looked_up, lambda f: bool(statements(f, AssertStmt))),
    "InstrumentProfileIntrinsics": (
        two_stages,
        lambda f: any(e.op == "end_profile_intrinsic" for e in expressions(f, Call)),
    ),
    "RenormalizeSplitPattern": (fused_and_split, lambda f: "shift_right(x, 2)" in to_text(f)),
    "RemoveNoOp": (nothing_to_do, lambda f: len(statements(f, For)) == 1),
    "GuardSelects": (
        shifted,
        lambda f: any(e.predicate is not None for e in expressions(f, BufferLoad)),
    ),
    "RewriteUnsafeSelect": (selected, lambda f: not expressions(f, Select)),
    "ThreadSync": (
        lambda: (*lowered_args("summed_rows"), GPU),
        lambda f: any(c.op == "tvm_storage_sync" for c in expressions(f, Call)),
    ),
    "LowerThreadAllreduce": (
        lambda: (*lowered_args("summed_rows"), GPU),
        lambda f: not any(c.op == "tvm_thread_allreduce" for c in expressions(f, Call)),
    ),
    "LowerIntrin": (fused_and_split, lambda f: not expressions(f, FloorDiv, FloorMod)),
}


CONFIG: dict[str, dict[str, Any]] = {
    "InstrumentBoundCheckers": {"tir.instrument_bound_checkers": True},
    "InstrumentProfileIntrinsics": {"tir.instrument_lwp": True},
}
"""The settings without which a pass does nothing."""


@pytest.mark.parametrize("name", CASES)
def test_the_work_of_a_pass_shows(name: str) -> None:
    made, holds = CASES[name]
    config = CONFIG.get(name, {})
    with PassContext(config=config):
        func = lower(*made())
    assert holds(func), to_text(func)
    disabled = [name.partition(" ")[0]]
    if disabled[0].endswith("ComputeLegalize"):  # what it leaves is refused by the other
        disabled.append(disabled[0].replace("Compute", "Storage"))
    with PassContext(disabled_pass=disabled, config=config):
        without = lower(*made())
    assert not holds(without), to_text(without)


def test_host_code_for_a_gpu_is_refused() -> None:
    with pytest.raises(ScheduleError, match="accessed by the host"):
        lower(*host_code())


BY_HAND = {"InferFragment", "SharedToDynamic", "InjectPTXAsyncCopy", "InjectPTXLDG32"} | {
    p.name for p in FROM_BLOCKS
}
"""No schedule here gives them work: test_pipeline_golden takes each out of kernels and blocks."""


def test_every_pass_has_a_case() -> None:
    """VerifyMemory only refuses; what users put in between is their own."""
    names = {p.name for p in (*CPU_PIPELINE, *GPU_PIPELINE)} - BY_HAND
    cases = {name.partition(" ")[0] for name in CASES}
    assert {n for n in names if not n.startswith("UserPasses")} == cases | {"VerifyMemory"}
