"""Statements: loops, branches, lets, assertions, storage."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from autosched.codegen.llvm import emit_llvm
from autosched.errors import CompileError, MeasureError
from autosched.runtime.cpu import build_artifact, load, register_extern
from autosched.runtime.native import runtime_library
from autosched.target import cpu_target
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    BufferLoad,
    Call,
    IntImm,
    IterKind,
    IterVar,
    Let,
    Range,
    StringImm,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    While,
    seq,
)
from kit.stmts import loop
from kit.types import MakeKernel, RunKernel

F32 = DType("float32")


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.UNROLLED, ForKind.PARALLEL])
def test_loops_with_a_minimum(
    kind: ForKind, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    out = decl_buffer((12,), "int32", "o")
    i = Var("i")
    body = For(i, IntImm(3), IntImm(7), kind, BufferStore(out, i * i, (i,)))
    same_as_interpreted(func(body, [out]), np.zeros(12, np.int32))


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_loops_whose_extent_is_a_parameter(extent: int, run: RunKernel) -> None:
    out, n, i = decl_buffer((8,), "int32", "o"), Var("n"), Var("i")
    handle = pointer("o_handle", out.dtype)
    body = For(i, IntImm(0), n, ForKind.SERIAL, BufferStore(out, i + 1, (i,)))
    f = PrimFunc((handle, n), body, {handle: out}, {"global_symbol": "kernel"})
    o = np.zeros(8, np.int32)
    run(f, o, extent)
    assert o.tolist() == [k + 1 if k < extent else 0 for k in range(8)]


def test_triangular_loops(func: MakeKernel, run: RunKernel) -> None:
    out, i, j = decl_buffer((6, 6), "int32", "o"), Var("i"), Var("j")
    flat = decl_buffer((36,), "int32", "flat", data=out.data)
    inner = For(j, i, 6 - i, ForKind.SERIAL, BufferStore(flat, i * 10 + j, (i * 6 + j,)))
    o = np.zeros((6, 6), np.int32)
    run(func(loop(i, 6, inner), [out]), o)
    assert o.tolist() == [[10 * a + c if c >= a else 0 for c in range(6)] for a in range(6)]


def test_branches_likely_and_lets(func: MakeKernel, same_as_interpreted: RunKernel) -> None:
    out, i, x = decl_buffer((9,), "int32", "o"), Var("i"), Var("x")
    body = LetStmt(
        x,
        i * 3,
        IfThenElse(
            op.likely(op.lt(x, 12)),
            BufferStore(out, x, (i,)),
            IfThenElse(op.eq(i, 7), BufferStore(out, op.const(-1), (i,))),
        ),
    )
    same_as_interpreted(func(loop(i, 9, body), [out]), np.zeros(9, np.int32))


def test_a_let_that_was_copied_binds_anew(func: MakeKernel, same_as_interpreted: RunKernel) -> None:
    a, out, x = decl_buffer((2,), "int32", "a"), decl_buffer((2,), "int32", "o"), Var("x")
    zero, one = IntImm(0), IntImm(1)
    body = seq(
        LetStmt(x, BufferLoad(a, (zero,)), BufferStore(out, x * 2, (zero,))),
        LetStmt(x, BufferLoad(a, (one,)), BufferStore(out, x * 2, (one,))),
    )
    same_as_interpreted(func(body, [a, out]), np.array([3, 5], np.int32), np.zeros(2, np.int32))


def test_while(func: MakeKernel, same_as_interpreted: RunKernel) -> None:
    out = decl_buffer((1,), "int32", "o")
    value = BufferLoad(out, (IntImm(0),))
    body = While(op.lt(value, 100), BufferStore(out, value * 3, (IntImm(0),)))
    same_as_interpreted(func(body, [out]), np.ones(1, np.int32))


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL])
def test_a_failed_assertion_raises_its_message(
    kind: ForKind, func: MakeKernel, run: RunKernel
) -> None:
    a, i = decl_buffer((8,), "int32", "a"), Var("i")
    check = AssertStmt(op.lt(BufferLoad(a, (i,)), 5), "values must be below 5", Evaluate(IntImm(0)))
    f = func(For(i, IntImm(0), IntImm(8), kind, check), [a])
    run(f, np.zeros(8, np.int32))
    with pytest.raises(MeasureError, match="values must be below 5"):
        run(f, np.arange(8, dtype=np.int32))


@pytest.mark.parametrize("elements", [16, 100_000])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_allocations(
    elements: int, parallel: bool, dynamic: bool, func: MakeKernel, run: RunKernel
) -> None:
    out, i, j, k = decl_buffer((64,), "float32", "o"), Var("i"), Var("j"), Var("k")
    data = pointer("tmp", F32)
    tmp = decl_buffer((elements,), F32, "tmp", data=data)
    size = i * 0 + elements if dynamic else IntImm(elements)
    extent = op.max_(Var("i"), 0) if False else size
    if dynamic:
        extent = i - i + elements
    fill = loop(j, 16, BufferStore(tmp, op.cast(F32, i * 16 + j), (j,)))
    drain = loop(k, 16, BufferStore(out, BufferLoad(tmp, (15 - k,)), (i * 16 + k,)))
    body = loop(
        i,
        4,
        Allocate(data, F32, (extent,), TRUE, seq(fill, drain)),
        ForKind.PARALLEL if parallel else ForKind.SERIAL,
    )
    run(func(body, [out]), np.zeros(64, np.float32))
    o = np.zeros(64, np.float32)
    run(func(body, [out]), o)
    np.testing.assert_array_equal(o, np.arange(64).reshape(4, 16)[:, ::-1].ravel())


def test_constant_arrays(func: MakeKernel, run: RunKernel) -> None:
    out, i, data = decl_buffer((6,), "int16", "o"), Var("i"), pointer("table", DType("int16"))
    table = decl_buffer((6,), "int16", "table", data=data)
    values = np.array([3, -1, 4, -1, 5, -9], np.int16)
    inner = loop(i, 6, BufferStore(out, BufferLoad(table, (i,)), (i,)), ForKind.PARALLEL)
    o = np.zeros(6, np.int16)
    run(
        func(AllocateConst(data, DType("int16"), (IntImm(6),), values, inner), [out]),
        o,
    )
    np.testing.assert_array_equal(o, values)


def test_pragmas_are_ignored_and_thread_axes_refused(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    out = decl_buffer((1,), "int32", "o")
    store = BufferStore(out, op.const(7), (IntImm(0),))
    same_as_interpreted(
        func(AttrStmt(None, "pragma_something", IntImm(1), store), [out]), np.zeros(1, np.int32)
    )
    axis = IterVar(Range.of(4), Var("threadIdx.x"), IterKind.THREAD, "threadIdx.x")
    with pytest.raises(CompileError, match="thread axis"):
        emit_llvm(func(AttrStmt(axis, "thread_extent", IntImm(4), store), [out]), cpu_target(1))


def test_python_functions_can_be_called(func: MakeKernel) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_int32)
    callback = kind(lambda x, k: x + 10 * k)
    register_extern("test_llvm_stmt_callback", callback)
    a, out, i = decl_buffer((4,), "float32", "a"), decl_buffer((4,), "float32", "o"), Var("i")
    value = Call(F32, "call_extern", (StringImm("test_llvm_stmt_callback"), BufferLoad(a, (i,)), i))
    body = loop(i, 4, BufferStore(out, value, (i,)), ForKind.PARALLEL)
    x, o = np.ones(4, np.float32), np.zeros(4, np.float32)
    load(build_artifact(func(body, [a, out]), cpu_target(2)))(x, o)
    assert o.tolist() == [1, 11, 21, 31]


def test_a_missing_function_is_reported_when_loading(func: MakeKernel) -> None:
    out = decl_buffer((1,), "float32", "o")
    value = Call(F32, "call_extern", (StringImm("no_such_function_anywhere"),))
    artifact = build_artifact(func(BufferStore(out, value, (IntImm(0),)), [out]), cpu_target(1))
    with pytest.raises(MeasureError, match="no_such_function_anywhere"):
        load(artifact)


def test_nested_parallel_loops_and_outer_variables(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    out, i, j, k, x = decl_buffer((24,), "int32", "o"), Var("i"), Var("j"), Var("k"), Var("x")
    inner = loop(k, 4, BufferStore(out, x * 100 + k, (i * 12 + j * 4 + k,)), ForKind.PARALLEL)
    body = loop(i, 2, LetStmt(x, i + 5, loop(j, 3, inner, ForKind.PARALLEL)), ForKind.SERIAL)
    same_as_interpreted(func(body, [out]), np.zeros(24, np.int32))


def test_a_parallel_loop_takes_nothing_along_that_it_defines_itself(
    func: MakeKernel, run: RunKernel
) -> None:
    """Statements share the expressions that passes make: one inside of a loop that may not run."""
    a, n = decl_buffer((8,), "int32", "a"), decl_buffer((1,), "int32", "n")
    out, x, i, j = decl_buffer((16,), "int32", "o"), Var("x"), Var("i"), Var("j")
    shared = Let(x, BufferLoad(a, (IntImm(0),)) + 1, x * x)
    first = For(
        i, IntImm(0), BufferLoad(n, (IntImm(0),)), ForKind.SERIAL, BufferStore(out, shared, (i,))
    )
    body = seq(first, loop(j, 8, BufferStore(out, shared + j, (j + 8,)), ForKind.PARALLEL))
    kernel = func(body, [a, n, out])
    o = np.zeros(16, np.int32)
    run(kernel, np.full(8, 6, np.int32), np.zeros(1, np.int32), o)
    np.testing.assert_array_equal(o, [*[0] * 8, *range(49, 57)])


def test_many_parallel_loops_in_one_function(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    out = decl_buffer((40,), "int32", "o")
    loops = []
    for n in range(4):
        i = Var("i")
        loops.append(loop(i, 10, BufferStore(out, i * n, (i * 4 + n,)), ForKind.PARALLEL))
    same_as_interpreted(func(seq(*loops), [out]), np.zeros(40, np.int32))


def test_nothing_runs_after_a_parallel_loop_that_failed(func: MakeKernel, run: RunKernel) -> None:
    a, out, i = decl_buffer((8,), "int32", "a"), decl_buffer((1,), "int32", "o"), Var("i")
    check = AssertStmt(op.lt(BufferLoad(a, (i,)), 5), "too large", Evaluate(IntImm(0)))
    loop = For(i, IntImm(0), IntImm(8), ForKind.PARALLEL, check)
    f = func(seq(loop, BufferStore(out, op.const(1), (IntImm(0),))), [a, out])
    o = np.zeros(1, np.int32)
    with pytest.raises(MeasureError, match="too large"):
        run(f, np.arange(8, dtype=np.int32), o)
    assert o[0] == 0
    run(f, np.zeros(8, np.int32), o)
    assert o[0] == 1


@pytest.mark.parametrize("fails", [False, True])
def test_workspace_is_given_back_also_after_a_failure(fails: bool, func: MakeKernel) -> None:
    """What was free before the call is free after it: the same block is handed out again."""
    elements = 300_000
    a, j = decl_buffer((1,), "int32", "a"), Var("j")
    data = pointer("tmp", F32)
    tmp = decl_buffer((elements,), F32, "tmp", data=data)
    fill = loop(j, elements, BufferStore(tmp, op.cast(F32, j), (j,)))
    check = AssertStmt(op.lt(BufferLoad(a, (IntImm(0),)), 5), "too large", Evaluate(IntImm(0)))
    body = Allocate(data, F32, (IntImm(elements),), TRUE, seq(fill, check))
    kernel = load(build_artifact(func(body, [a]), cpu_target(1)))
    addresses = runtime_library().addresses
    take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(addresses["autosched_workspace_alloc"])
    give = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses["autosched_workspace_free"])
    block = take(4 * elements)
    give(block)
    for _ in range(3):
        if fails:
            with pytest.raises(MeasureError, match="too large"):
                kernel(np.full(1, 7, np.int32))
        else:
            kernel(np.zeros(1, np.int32))
    again = take(4 * elements)
    give(again)
    assert again == block
