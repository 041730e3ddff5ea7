"""Vector loads and stores: contiguous, strided, reversed, gathered, masked, of bool."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from autosched.codegen import llvm_memory
from autosched.codegen.llvm import emit_llvm
from autosched.errors import CompileError
from autosched.nest.lanes import MOST_DEALT
from autosched.target import HardwareParams, Target, cpu_target
from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Broadcast, BufferLoad, IntImm, Let, Ramp, Select, Var
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore, Evaluate, seq
from kit.stmts import loop
from kit.types import MakeKernel, RunKernel

AVX512 = Target(
    "cpu", HardwareParams(1), 1, "skylake-avx512", "+avx2,+avx512f,+avx512vl", vector_bytes=64
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16", "bool"])
@pytest.mark.parametrize("stride", [-1, 2, 3, 0])
def test_strided_loads(
    stride: int, dtype: str, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    lanes = 8
    source, out = decl_buffer((64,), DType(dtype), "a"), decl_buffer((lanes,), DType(dtype), "o")
    index = Ramp(IntImm(20), IntImm(stride), lanes)
    body = BufferStore(out, BufferLoad(source, (index,)), (Ramp(IntImm(0), IntImm(1), lanes),))
    kind = DType(dtype).numpy
    same_as_interpreted(
        func(body, [source, out]), (np.arange(64) % 3).astype(kind), np.zeros(lanes, kind)
    )


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "int64"])
@pytest.mark.parametrize("stride", [-1, 2, 5])
def test_strided_stores(
    stride: int, dtype: str, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    lanes = 8
    source, out = decl_buffer((lanes,), DType(dtype), "a"), decl_buffer((64,), DType(dtype), "o")
    value = BufferLoad(source, (Ramp(IntImm(0), IntImm(1), lanes),))
    body = BufferStore(out, value, (Ramp(IntImm(20), IntImm(stride), lanes),))
    kind = DType(dtype).numpy
    same_as_interpreted(
        func(body, [source, out]), (np.arange(lanes) % 2).astype(kind), np.zeros(64, kind)
    )


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("index_type", ["int32", "int64", "uint8", "uint16"])
def test_indirect_loads_and_stores(
    index_type: str, lanes: int, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    n = 256  # an uint8 of 128 or more is no negative number
    table = decl_buffer((n,), "float32", "table")
    where = decl_buffer((n,), index_type, "where")
    out = decl_buffer((n,), "float32", "out")
    i = Var("i")
    at = i if lanes == 1 else Ramp(i * lanes, IntImm(1), lanes)
    position = BufferLoad(where, (at,))
    body = loop(i, n // lanes, BufferStore(out, BufferLoad(table, (position,)), (position,)))
    rng = np.random.default_rng(0)
    same_as_interpreted(
        func(body, [table, where, out]),
        rng.random(n, dtype=np.float32),
        rng.permutation(n).astype(index_type),
        np.zeros(n, np.float32),
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_predicates_keep_lanes_from_memory(stride: int, func: MakeKernel, run: RunKernel) -> None:
    lanes = 8
    source, out = decl_buffer((5,), "float32", "a"), decl_buffer((5 * stride,), "float32", "o")
    lane = Ramp(IntImm(0), IntImm(1), lanes)
    valid = op.lt(lane, Broadcast(IntImm(5), lanes))
    value = BufferLoad(source, (lane,), valid)
    body = BufferStore(out, value, (Ramp(IntImm(0), IntImm(stride), lanes),), valid)
    a, o = np.arange(5, dtype=np.float32), np.full(5 * stride, -1, np.float32)
    run(func(body, [source, out]), a, o)
    np.testing.assert_array_equal(o[::stride], a)


def test_a_scalar_store_under_a_predicate(func: MakeKernel, run: RunKernel) -> None:
    out = decl_buffer((8,), "float32", "o")
    i = Var("i")
    body = loop(i, 8, BufferStore(out, op.const(1.0), (i,), op.lt(i, 3)))
    o = np.zeros(8, np.float32)
    run(func(body, [out]), o)
    assert o.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("lanes", [1, 8])
def test_if_then_else_reads_only_the_branch_taken(
    lanes: int, func: MakeKernel, run: RunKernel, same_as_interpreted: RunKernel
) -> None:
    # Padding: a[i - 2] for 2 <= i < 34, zero outside; the buffer ends at 32 elements.
    source, out = decl_buffer((32,), "float32", "a"), decl_buffer((40,), "float32", "o")
    i = Var("i")
    at = i if lanes == 1 else Ramp(i * lanes, IntImm(1), lanes)
    inside = op.and_(op.ge(at, op.const(2, at.dtype)), op.lt(at, op.const(34, at.dtype)))
    value = op.if_then_else(
        inside,
        op.mul(
            BufferLoad(source, (op.sub(at, op.const(2, at.dtype)),)),
            op.const(2.0, DType("float32").with_lanes(lanes)),
        ),
        op.const(0.0, DType("float32").with_lanes(lanes)),
    )
    body = loop(i, 40 // lanes, BufferStore(out, value, (at,)))
    a, o = np.arange(1, 33, dtype=np.float32), np.zeros(40, np.float32)
    (same_as_interpreted if lanes == 1 else run)(func(body, [source, out]), a, o)
    np.testing.assert_array_equal(o, np.pad(a * 2, (2, 6)))


def test_if_then_else_with_costly_arms_branches(func: MakeKernel, run: RunKernel) -> None:
    source, out = decl_buffer((8,), "float32", "a"), decl_buffer((8,), "float32", "o")
    i = Var("i")
    a = BufferLoad(source, (i,))
    value = op.if_then_else(
        op.lt(i, 4), op.call("exp", a), op.if_then_else(op.lt(i, 6), op.call("sin", a), a)
    )
    x, o = np.linspace(0, 1, 8, dtype=np.float32), np.zeros(8, np.float32)
    run(func(loop(i, 8, BufferStore(out, value, (i,))), [source, out]), x, o)
    expected = np.concatenate([np.exp(x[:4]), np.sin(x[4:6]), x[6:]])
    np.testing.assert_allclose(o, expected, rtol=1e-6)


def test_a_value_read_before_a_store_is_not_reused_after_it(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    a, out = decl_buffer((4,), "float32", "a"), decl_buffer((4,), "float32", "o")
    first = BufferLoad(a, (IntImm(0),))
    body = seq(
        BufferStore(out, first, (IntImm(0),)),
        BufferStore(a, first + 1.0, (IntImm(0),)),
        BufferStore(out, first, (IntImm(1),)),
    )
    same_as_interpreted(func(body, [a, out]), np.ones(4, np.float32), np.zeros(4, np.float32))


def test_negative_offsets_and_buffer_offsets(func: MakeKernel, run: RunKernel) -> None:
    a, out = decl_buffer((16,), "int32", "a"), decl_buffer((8,), "int32", "o")
    view = Buffer(a.data, a.dtype, (IntImm(16),), elem_offset=IntImm(5), name="view")
    i = Var("i")
    body = loop(i, 8, BufferStore(out, BufferLoad(view, (i - 5,)), (7 - i,)))
    o = np.zeros(8, np.int32)
    run(func(body, [a, out]), np.arange(16, dtype=np.int32), o)
    assert o.tolist() == list(range(7, -1, -1))


def test_select_and_let(func: MakeKernel, same_as_interpreted: RunKernel) -> None:
    a, out = decl_buffer((8,), "float32", "a"), decl_buffer((8,), "float32", "o")
    i, x = Var("i"), Var("x", "float32")
    value = Let(x, BufferLoad(a, (i,)) * 2.0, Select(op.lt(x, 6.0), x, x * x))
    same_as_interpreted(
        func(loop(i, 8, BufferStore(out, value, (i,))), [a, out]),
        np.arange(8, dtype=np.float32),
        np.zeros(8, np.float32),
    )


def test_a_buffer_without_storage_is_refused(func: MakeKernel) -> None:
    a, stranger = decl_buffer((4,), "float32", "a"), decl_buffer((4,), "float32", "stranger")
    body = BufferStore(a, BufferLoad(stranger, (IntImm(0),)), (IntImm(0),))
    with pytest.raises(CompileError, match="stranger is used where it is not allocated"):
        emit_llvm(func(body, [a]), cpu_target(1))


def test_address_of_and_reinterpret(func: MakeKernel, run: RunKernel) -> None:
    a, out = decl_buffer((8,), "float32", "a"), decl_buffer((8,), "int32", "o")
    i = Var("i")
    bits = op.call("reinterpret", BufferLoad(a, (i,)), dtype=DType("int32"))
    hint = Evaluate(
        op.call(
            "prefetch",
            op.call("address_of", BufferLoad(a, (i,)), dtype=DType("handle")),
            dtype=DType("int32"),
        )
    )
    o = np.zeros(8, np.int32)
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    run(func(loop(i, 8, seq(hint, BufferStore(out, bits, (i,)))), [a, out]), x, o)
    np.testing.assert_array_equal(o, x.view(np.int32))


def test_a_guarded_scalar_is_not_read_where_it_may_not_be(func: MakeKernel, run: RunKernel) -> None:
    """The elements that the condition guards against are far outside of all memory."""
    source, out = decl_buffer((4,), "float32", "a"), decl_buffer((8,), "float32", "o")
    where = decl_buffer((8,), "int64", "where")
    i = Var("i")
    at = BufferLoad(where, (i,))
    inside = op.lt(at, op.const(4, "int64"))
    value = op.select(inside, BufferLoad(source, (at,), inside), op.const(-1.0))
    body = loop(i, 8, BufferStore(out, value, (i,)))
    a, o = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    indices = np.array([0, 3, 1 << 44, 2, 1 << 45, 1, 1 << 44, 0])
    run(func(body, [source, where, out]), a, indices, o)
    assert o.tolist() == [0, 3, -1, 2, -1, 1, -1, 0]


def test_what_a_condition_reads_is_not_guarded_by_it(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    """Of pointers that a condition chooses LLVM makes gathers."""
    a, b, out = (decl_buffer((20,), "float32", name) for name in "abo")
    i = Var("i")
    x, y = BufferLoad(a, (i,)), BufferLoad(b, (i,))
    kernel = func(
        loop(i, 20, BufferStore(out, op.if_then_else(op.lt(x, y), x, y), (i,))), [a, b, out]
    )
    assert emit_llvm(kernel, cpu_target(1)).count("= load float") == 2
    numbers = np.random.default_rng(0).random((2, 20), dtype=np.float32)
    same_as_interpreted(kernel, *numbers, np.zeros(20, np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("lanes", [4, 5, 7, 8, 14, 16, 28])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_lanes_a_few_elements_apart_are_dealt_out_of_whole_vectors(
    stride: int, lanes: int, dtype: str, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    """No gather, and no load touches what lies before the first or behind the last of them."""
    first, last = 3, 3 + stride * (lanes - 1)
    source = decl_buffer((last + 1,), DType(dtype), "a")
    out = decl_buffer((lanes,), DType(dtype), "o")
    value = BufferLoad(source, (Ramp(IntImm(first), IntImm(stride), lanes),))
    kernel = func(BufferStore(out, value, (Ramp(IntImm(0), IntImm(1), lanes),)), [source, out])
    text = emit_llvm(kernel, cpu_target(1))
    assert "gather" not in text
    assert "extractelement" not in text
    places = {m[1]: int(m[2]) for m in re.finditer(r"(%\w+) = getelementptr .* i64 (\d+)\n", text)}
    spans = [
        (places[m[2]], places[m[2]] + int(m[1]))
        for m in re.finditer(r"load <(\d+) x \w+>, ptr (%\w+)", text)
    ]
    assert min(start for start, _ in spans) == first
    assert max(end for _, end in spans) == last + 1
    kind = DType(dtype).numpy
    same_as_interpreted(kernel, (np.arange(last + 1) % 5).astype(kind), np.zeros(lanes, kind))


@pytest.mark.parametrize(
    ("cpu", "known", "found"),
    [
        ("skylake-avx512", True, (0, 1, 0, 1)),
        ("znver4", True, (8, 0, 8, 0)),
        ("znver4", False, (0, 1, 0, 1)),
    ],
)
def test_lanes_far_apart_are_gathered_where_that_pays(
    cpu: str, known: bool, found: tuple[int, ...], func: MakeKernel
) -> None:
    """On AMD's CPUs only where their places are numbers that memory holds."""
    source, out = decl_buffer((64,), "float32", "a"), decl_buffer((64,), "float32", "o")
    where = decl_buffer((8,), "int32", "w")
    places = BufferLoad(where, (Ramp(IntImm(0), IntImm(1), 8),))
    place = Ramp(IntImm(0), IntImm(7), 8) if known else places
    kernel = func(BufferStore(out, BufferLoad(source, (place,)), (place,)), [source, where, out])
    text = emit_llvm(kernel, replace(AVX512, cpu=cpu))
    patterns = (
        "= load float",
        r"= call .*masked\.gather",
        "store float",
        r" call .*masked\.scatter",
    )
    assert tuple(len(re.findall(pattern, text)) for pattern in patterns) == found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_far_lanes_for_amd_run_as_interpreted(
    dtype: str, func: MakeKernel, same_as_interpreted: RunKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever this CPU is, the loads and stores of each lane are run."""
    monkeypatch.setattr(llvm_memory, "_is_worth_one", lambda *_: False)
    source, out = decl_buffer((64,), dtype, "a"), decl_buffer((64,), dtype, "o")
    place = Ramp(IntImm(1), IntImm(7), 8)
    kernel = func(BufferStore(out, BufferLoad(source, (place,)), (place,)), [source, out])
    kind = DType(dtype).numpy
    same_as_interpreted(kernel, np.arange(64).astype(kind), np.zeros(64, kind))


def test_few_lanes_far_apart_are_loaded_and_stored_one_by_one(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    """No vector of addresses is made only to be taken apart."""
    source, out = decl_buffer((192,), "float32", "a"), decl_buffer((192,), "float32", "o")
    i = Var("i")
    place = Ramp(i * 2, IntImm(57), 3)
    kernel = func(
        loop(i, 8, BufferStore(out, BufferLoad(source, (place,)), (place,))), [source, out]
    )
    text = emit_llvm(kernel, cpu_target(1))
    assert "x i64>" not in text
    assert "x ptr>" not in text
    assert len(re.findall("= load float", text)) == 3
    same_as_interpreted(kernel, np.arange(192, dtype=np.float32), np.zeros(192, np.float32))


@pytest.mark.parametrize(("lanes", "run_of"), [(4, 2), (9, 3), (10, 4), (7, 6)])
def test_runs_of_lanes_at_known_distances_are_loaded_whole(
    lanes: int, run_of: int, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    """The window of a pooling as lanes."""
    source, out = decl_buffer((128,), "float32", "a"), decl_buffer((lanes,), "float32", "o")
    ramp, length = Ramp(IntImm(0), IntImm(1), lanes), Broadcast(IntImm(run_of), lanes)
    place = Broadcast(IntImm(5), lanes) + ramp // length * Broadcast(IntImm(9), lanes)
    place = place + ramp % length
    kernel = func(BufferStore(out, BufferLoad(source, (place,)), (ramp,)), [source, out])
    text = emit_llvm(kernel, cpu_target(1))
    assert len(re.findall(r"= load (<\d+ x )?float", text)) == -(-lanes // run_of)
    assert "gather" not in text
    same_as_interpreted(kernel, np.arange(128, dtype=np.float32), np.zeros(lanes, np.float32))


def test_what_a_plan_counts_on_being_dealt_is() -> None:
    assert all(llvm_memory._deals(stride, 8) for stride in range(2, MOST_DEALT + 1))


BORDER = """
def f(A: Buffer((8,), {dtype}), B: Buffer((16,), {dtype}), k: int32):
    for i in range(2):
        B[i * 8:i * 8 + 8] = if_then_else(k < i, A[k * 8:k * 8 + 8], {other}) + if_then_else(
            k < i, A[k * 8:k * 8 + 8], {other})
"""
"""For k = 0 the first vector lies beyond the border, for k = 1 both do, and A ends before them."""


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "bfloat16"])
@pytest.mark.parametrize("k", [0, 1])
def test_beyond_a_border_a_constant_is_read_without_a_branch(
    k: int, dtype: str, same_as_interpreted: RunKernel
) -> None:
    one = "1" if dtype == "int8" else f"{dtype}(1.0)"
    func = parse_func(BORDER.format(dtype=dtype, other=f"broadcast({one}, 8)"))
    text = emit_llvm(func, cpu_target())
    assert text.count("select i1") == 1, "both uses share one load"
    assert "constant <8 x" in text and "masked" not in text
    kind = DType(dtype).numpy
    same_as_interpreted(func, np.arange(8).astype(kind), np.zeros(16, kind), k)


@pytest.mark.parametrize(
    "value",
    [
        "if_then_else(k < i, A[k:k + 8], A[0:8])",
        "if_then_else(k < i, A[ramp(k, 2, 8)], broadcast(1.0, 8))",
        "if_then_else(k < i, A[k:k + 8] + A[0:8], broadcast(1.0, 8))",
        "if_then_else(B[8] < 1.0, A[k:k + 8], broadcast(1.0, 8))",
    ],
)
def test_other_choices_take_a_branch(value: str, same_as_interpreted: RunKernel) -> None:
    text = f"""
def f(A: Buffer((16,), float32), B: Buffer((16,), float32), k: int32):
    for i in range(2):
        B[i * 8:i * 8 + 8] = {value}
"""
    func = parse_func(text)
    assert "constant <8 x" not in emit_llvm(func, cpu_target())
    same_as_interpreted(func, np.arange(16, dtype=np.float32), np.zeros(16, np.float32), 0)


def test_a_condition_on_values_is_asked_again_after_a_store(
    same_as_interpreted: RunKernel,
) -> None:
    func = parse_func("""
def f(A: Buffer((8,), float32), B: Buffer((17,), float32)):
    B[0:8] = if_then_else(B[16] < 1.0, A[0:8], broadcast(1.0, 8))
    B[16] = 2.0
    B[8:16] = if_then_else(B[16] < 1.0, A[0:8], broadcast(1.0, 8))
""")
    same_as_interpreted(func, np.arange(8, dtype=np.float32), np.zeros(17, np.float32))


def test_vectors_of_truths_beyond_a_border(same_as_interpreted: RunKernel) -> None:
    func = parse_func("""
def f(A: Buffer((8,), bool), B: Buffer((16,), bool), k: int32):
    for i in range(2):
        B[i * 8:i * 8 + 8] = if_then_else(k < i, A[0:8], broadcast(bool(1), 8))
""")
    same_as_interpreted(func, np.arange(8) % 3 == 0, np.zeros(16, bool), 0)
