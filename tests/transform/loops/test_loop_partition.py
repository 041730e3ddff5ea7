from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_compile import is_explicit
from autosched.driver import lower, lower_steps
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target, cpu_target
from autosched.task import Task
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Call, Expr, IntImm, IterKind, IterVar, Var
from autosched.tir.op import all_, likely
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.verify import verify
from autosched.tir.walk import all_exprs
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.loops.inject_double_buffer import InjectDoubleBuffer
from autosched.transform.loops.loop_partition import LoopPartition
from kit.stmts import as_a, loop
from kit.types import BodyText, MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")


def copy(index: Expr) -> BufferStore:
    return BufferStore(B, A[index] + 1.0, (index,))


def split(limit: int = 10, kind: ForKind = ForKind.SERIAL) -> For:
    body = IfThenElse(likely(i * 4 + j < limit), copy(i * 4 + j))
    return loop(i, 3, loop(j, 4, body, kind))


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    before = make_func(split(), A, B)
    after = LoopPartition(partition_const_loops=True)(before)
    assert (
        body_text(after)
        == """\
for i in range(2):
    for j in range(4):
        B[i * 4 + j] = A[i * 4 + j] + 1.0
for j_1 in range(2):
    B[8 + j_1] = A[8 + j_1] + 1.0"""
    )
    same_result(before, after)


def test_constant_loops_only_lose_likely_by_default(
    make_func: MakeFunc, body_text: BodyText
) -> None:
    after = LoopPartition()(make_func(split(), A, B))
    assert (
        body_text(after)
        == """\
for i in range(3):
    for j in range(4):
        if i * 4 + j < 10:
            B[i * 4 + j] = A[i * 4 + j] + 1.0"""
    )


def test_no_likely_returns_the_same_object(make_func: MakeFunc) -> None:
    func = make_func(loop(i, 4, IfThenElse(i < 3, copy(i))), A, B)
    assert LoopPartition(partition_const_loops=True)(func) is func


def test_hinted_loops(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    hint = AttrStmt(
        IterVar(None, i, IterKind.DATA_PAR), "pragma_loop_partition_hint", IntImm(1), split()
    )
    before = make_func(hint, A, B)
    after = LoopPartition()(before)
    assert (
        body_text(after)
        == """\
for i in range(2):
    for j in range(4):
        B[i * 4 + j] = A[i * 4 + j] + 1.0
for j_1 in range(4):
    if 8 + j_1 < 10:
        B[8 + j_1] = A[8 + j_1] + 1.0"""
    )
    same_result(before, after)


def test_a_lower_limit_peels_the_front(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    body = IfThenElse(likely(all_(i >= 2, i * 2 <= 9)), copy(i))
    before = make_func(loop(i, 8, body), A, B)
    after = LoopPartition(partition_const_loops=True)(before)
    assert body_text(after) == "for i in range(3):\n    B[i + 2] = A[i + 2] + 1.0"
    same_result(before, after)


@pytest.mark.parametrize("size", [0, 3, 4, 10, 12])
def test_symbolic_extents(make_func: MakeFunc, same_result: SameResult, size: int) -> None:
    body = IfThenElse(likely(i * 4 + j < n), copy(i * 4 + j))
    before = make_func(loop(i, (n + 3) // 4, loop(j, 4, body)), A, B, scalars=(n,))
    after = LoopPartition()(before)
    conditions = [e for e in all_exprs(after.body) if e.dtype.is_bool]
    assert conditions  # only after the middle part
    first = as_a(SeqStmt, after.body).stmts[0]
    assert not [e for e in all_exprs(as_a(For, first).body) if e.dtype.is_bool]
    same_result(before, after, size)


@pytest.mark.parametrize("size", [0, 2, 9, 16])
def test_symbolic_extents_with_both_limits(
    make_func: MakeFunc, same_result: SameResult, size: int
) -> None:
    body = IfThenElse(likely(i >= 3), IfThenElse(likely(i + j < n), copy(i * 2 + j)))
    before = make_func(loop(i, n, loop(j, 2, body)), A, B, scalars=(n,))
    same_result(before, LoopPartition()(before), size)


def test_two_versions_where_the_limit_depends_on_an_outer_loop(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    body = IfThenElse(likely(k * 8 + i * 4 + j < 13), copy(k * 8 + i * 4 + j))
    before = make_func(loop(k, 3, loop(i, 2, loop(j, 4, body)), ForKind.PARALLEL), A, B)
    after = LoopPartition(partition_const_loops=True)(before)
    assert (
        body_text(after)
        == """\
for k in parallel(3):
    if k * 8 <= 5:
        for i in range(2):
            for j in range(4):
                B[k * 8 + i * 4 + j] = A[k * 8 + i * 4 + j] + 1.0
    else:
        for i_1 in range(2):
            if k * 8 + i_1 * 4 <= 9:
                for j_1 in range(4):
                    B[k * 8 + i_1 * 4 + j_1] = A[k * 8 + i_1 * 4 + j_1] + 1.0
            else:
                for j_2 in range(4):
                    if k * 8 + i_1 * 4 + j_2 < 13:
                        B[k * 8 + i_1 * 4 + j_2] = A[k * 8 + i_1 * 4 + j_2] + 1.0"""
    )
    same_result(before, after)


def test_the_last_parallel_iteration_has_a_body_of_its_own(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    body = IfThenElse(likely(k * 8 + i * 4 + j < 30), copy(k * 8 + i * 4 + j))
    before = make_func(loop(k, 4, loop(i, 2, loop(j, 4, body)), ForKind.PARALLEL), A, B)
    after = LoopPartition(partition_const_loops=True)(before)
    assert (
        body_text(Simplify()(after))
        == """\
for k in parallel(4):
    if k < 3:
        for i in range(2):
            for j in range(4):
                B[k * 8 + i * 4 + j] = A[k * 8 + i * 4 + j] + 1.0
    else:
        for j_1 in range(4):
            B[j_1 + 24] = A[j_1 + 24] + 1.0
        for j_2 in range(2):
            B[j_2 + 28] = A[j_2 + 28] + 1.0"""
    )
    same_result(before, after)


def test_a_single_iteration_has_no_double_buffer(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    """Nothing is to be filled ahead; the buffers of loops inside of it stay double."""
    first, second = (decl_buffer((4,), "float32", name, "local") for name in ("S", "T"))
    use = IfThenElse(likely(i * 4 + j < 10), BufferStore(B, first[j] + 1.0, (i * 4 + j,)))
    fill = loop(j, 4, BufferStore(first, A[i * 4 + j], (j,)))
    own = loop(n, 4, BufferStore(second, A[k * 4 + n], (n,)))
    read = loop(n, 4, BufferStore(B, second[n], (32 + k * 4 + n,)))
    inner = seq(AttrStmt(second, "double_buffer_scope", IntImm(1), own), read)
    inner = loop(k, 2, Allocate(second.data, second.dtype, second.shape, TRUE, inner))
    body = seq(AttrStmt(first, "double_buffer_scope", IntImm(1), fill), loop(j, 4, use), inner)
    body = Allocate(first.data, first.dtype, first.shape, TRUE, body)
    before = make_func(loop(i, 3, body), A, B)
    after = LoopPartition(partition_const_loops=True)(before)
    marked = [
        line.split('"')[0].strip()
        for line in body_text(after).splitlines()
        if '"double_buffer_scope"' in line
    ]
    assert marked == ["with attr(S,", "with attr(T,", "with attr(T_1,"]
    doubled = InjectDoubleBuffer()(after)
    assert "double_buffer_scope" not in body_text(doubled)
    same_result(before, doubled)


@pytest.mark.parametrize(("size", "factor"), [(61, 8), (5, 4), (16, 8), (3, 2)])
def test_double_buffers_of_loops_that_nothing_divides(size: int, factor: int) -> None:
    X = te.placeholder((size,), name="X")
    Y = te.compute((size,), lambda a: X[a] * 2.0, name="Y")
    Z = te.compute((size,), lambda a: Y[a] + 1.0, name="Z")
    s = te.create_schedule(Z.op)
    outer, _ = s[Z].split(Z.op.axis[0], factor=factor)
    s[Y].compute_at(s[Z], outer)
    s[Y].double_buffer()
    lowered = lower(s, [X, Z], cpu_target())
    x, z = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    interp.run(lowered, [x, z])
    np.testing.assert_array_equal(z, x * 2 + 1)


@pytest.mark.parametrize("depth", [40, 6, 7, 1])
def test_a_product_whose_fetch_is_double_buffered(depth: int) -> None:
    X = te.placeholder((3, depth), name="X")
    Y = te.placeholder((depth, 5), name="Y")
    r = te.reduce_axis((0, depth), "r")
    Z = te.compute((3, 5), lambda a, b: te.sum(X[a, r] * Y[r, b], axis=r), name="Z")
    s = te.create_schedule(Z.op)
    fetched = s.cache_read(Y, "global", [Z])
    outer, _ = s[Z].split(r, factor=6)
    s[fetched].compute_at(s[Z], outer)
    s[fetched].double_buffer()
    lowered = lower(s, [X, Y, Z], cpu_target())
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((3, depth), (depth, 5)))
    z = np.zeros((3, 5), np.float32)
    interp.run(lowered, [x, y, z])
    np.testing.assert_array_equal(z, x @ y)


def test_growth_is_limited(make_func: MakeFunc, body_text: BodyText) -> None:
    func = make_func(split(), A, B)
    text = body_text(LoopPartition(partition_const_loops=True, max_growth=0)(func))
    assert text == body_text(LoopPartition()(func))


UNDIVIDED: list[list[Any]] = [
    ["CHR", 1, "global", [2]],
    ["SP", 3, 0, 512, [512], 1],
    ["SP", 3, 1, 512, [6], 1],
    ["SP", 3, 3, 512, [144], 1],
    ["SP", 3, 4, 144, [2, 48], 1],
    ["SP", 3, 7, 512, [171], 1],
    ["RE", 3, [0, 3, 7, 4, 1, 5, 8, 2, 6]],
    ["CA", 2, 3, 3],
    ["FU", 3, [0, 1]],
    ["AN", 3, 0, 3],
    ["PR", 3, 0, "auto_unroll_max_step$0"],
]
"""A product whose blocks, panels, parts of the sum and tiles divide nothing."""


def test_a_product_that_nothing_divides_has_no_conditions_in_its_loops() -> None:
    """With 64 statements more, the last of each had them; all of it took four times as long."""
    target = Target("cpu", HardwareParams(2), 2, "skylake-avx512", "+avx512f,+fma", "", 64)
    task = Task.from_workload("matmul", M=512, N=512, K=512, target=target)
    func = lower_steps(task.dag, steps_from_json(UNDIVIDED), target)
    assert is_explicit(emit_llvm(func, target))


def test_symbolic_block_extent(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    block = IterVar(None, Var("blockIdx.x"), IterKind.THREAD, "blockIdx.x")
    body = loop(j, 4, IfThenElse(likely(block.var * 4 + j < n), copy(block.var * 4 + j)))
    before = make_func(AttrStmt(block, "thread_extent", (n + 3) // 4, body), A, B, scalars=(n,))
    after = LoopPartition()(before)
    assert (
        body_text(after)
        == """\
launch(blockIdx.x, (n + 3) // 4)
if blockIdx.x * 4 - n <= -4:
    for j in range(4):
        B[blockIdx.x * 4 + j] = A[blockIdx.x * 4 + j] + 1.0
else:
    for j_1 in range(4):
        if blockIdx.x * 4 + j_1 < n:
            B[blockIdx.x * 4 + j_1] = A[blockIdx.x * 4 + j_1] + 1.0"""
    )
    same_result(before, after, 10)


def test_cross_thread_reductions_are_left_alone(make_func: MakeFunc, body_text: BodyText) -> None:
    reduction = Evaluate(Call(DType("handle"), "tvm_thread_allreduce", (IntImm(1),)))
    guarded = IfThenElse(likely(i * 4 + j < 10), seq(copy(i * 4 + j), reduction))
    func = make_func(loop(i, 3, loop(j, 4, guarded)), A, B)
    after = LoopPartition(partition_const_loops=True)(func)
    assert body_text(after).count("for") == 2


def test_conditions_that_read_memory_stay(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    limit = decl_buffer((1,), "int32", "limit")
    before = make_func(loop(i, 8, IfThenElse(likely(i < limit[0]), copy(i))), A, B, limit)
    after = LoopPartition(partition_const_loops=True)(before)
    assert body_text(after).count("for") == 1
    same_result(before, after)


def test_likely_disappears_from_expressions(make_func: MakeFunc, body_text: BodyText) -> None:
    value = Call(A.dtype, "if_then_else", (likely(i < 3), A[i], A[0]))
    after = LoopPartition()(make_func(loop(i, 4, BufferStore(B, value, (i,))), A, B))
    assert body_text(after).endswith("B[i] = if_then_else(i < 3, A[i], A[0])")


@pytest.mark.parametrize("seed", range(20))
def test_random_nests_keep_their_meaning(
    make_func: MakeFunc, same_result: SameResult, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    extents = rng.integers(1, 5, 3)
    strides = [int(extents[1] * extents[2]), int(extents[2]), 1]
    index = i * strides[0] + j * strides[1] + k
    total = int(np.prod(extents))
    body: Stmt = copy(index)
    for _ in range(rng.integers(1, 4)):
        bound = int(rng.integers(0, total + 2))
        factors = [int(f) for f in rng.integers(-2, 4, 3)]
        other = i * factors[0] + j * factors[1] + k * factors[2]
        kind = rng.integers(4)
        condition = [index < bound, other <= bound, index >= bound // 4, other > -2][kind]
        body = IfThenElse(likely(condition), body, *([copy(index)] * int(rng.integers(2))))
    kinds = [ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED]
    for var, extent in zip((k, j, i), reversed(extents), strict=True):
        body = loop(var, int(extent), body, kinds[rng.integers(3)])
    before = make_func(body, A, B)
    same_result(before, LoopPartition(partition_const_loops=True)(before), seed=seed)


@pytest.mark.parametrize("inner", [4, 7])
@pytest.mark.parametrize("how", ["threads", "vthread", "both", "serial between"])
def test_threads_begin_where_they_did(how: str, inner: int, same_result: SameResult) -> None:
    """Conditions of a symbolic size over blocks mention no thread outside of its launch."""
    size = te.size_var("n")
    X = te.placeholder((size, 6), name="X")
    Y = te.compute((size, 6), lambda i, j: X[i, j] + 1.0, name="Y")
    s = te.create_schedule(Y.op)
    row, column = Y.op.axis
    block, rest = s[Y].split(row, factor=inner * 4)
    middle, last = s[Y].split(rest, factor=4)
    s[Y].bind(block, te.thread_axis("blockIdx.x"))
    if how == "threads":
        s[Y].bind(middle, te.thread_axis("threadIdx.x"))
    elif how == "vthread":
        s[Y].bind(middle, te.thread_axis("vthread"))
        s[Y].bind(last, te.thread_axis("threadIdx.x"))
    elif how == "both":
        s[Y].bind(middle, te.thread_axis("threadIdx.y"))
        s[Y].bind(last, te.thread_axis("threadIdx.x"))
    else:
        s[Y].reorder(block, column, middle, last)
        s[Y].bind(last, te.thread_axis("threadIdx.x"))
    before = StorageFlatten()(schedule_to_prim_func(s, [X, Y]))
    after = LoopPartition()(Simplify()(before))
    verify(after)
    for rows in (1, 15, 16, 28, 31, 57):
        x = np.random.default_rng(rows).random((rows, 6), dtype="float32")
        found = np.zeros((rows, 6), "float32")
        interp.run(after, [x, found])
        np.testing.assert_array_equal(found, x + np.float32(1))
    assert str(after).count("if ") > 1  # partitioned, with a version without conditions


@pytest.mark.parametrize("bounds", ["N[0]", "N[1], N[1] + N[0]"])
def test_bounds_that_the_loop_overwrites(bounds: str, same_result: SameResult) -> None:
    """The pieces behind the first one read them again, and ended too early."""
    before = parse_func(f"""\
def main(N: Buffer((2,), int32), A: Buffer((16,), int32)):
    N[0] = 7
    N[1] = 2
    for i in range({bounds}):
        if likely(i < 3):
            N[0] = 4
            N[1] = 1
        A[i] = i
""")
    after = LoopPartition()(before)
    assert str(after).count("for ") == 2
    same_result(before, after)


def test_a_variable_of_a_loop_and_a_let(same_result: SameResult) -> None:
    """Conditions on the variable of the let were decided by the range of the loop."""
    before = parse_func("""\
def main(A: Buffer((16,), int32)):
    for x in range(4):
        if likely(x < 2):
            A[x] = 4
    A[4] = 9
    x: int32 = A[4]
    if likely(x < 4):
        A[5] = A[5] + 1
    A[6] = A[6] + 1
""")
    same_result(before, LoopPartition()(before))
