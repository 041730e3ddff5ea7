"""From a function to assembly text, object code and levels of optimisation."""

from __future__ import annotations

from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from autosched.codegen.llvm import (
    assembly,
    assertion_messages,
    compile_object,
    emit_llvm,
    size_variables,
)
from autosched.codegen.llvm_compile import Level, is_explicit, optimized
from autosched.errors import CompileError
from autosched.target import cpu_target
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Broadcast, BufferLoad, IntImm, Ramp, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import AssertStmt, BufferStore, Evaluate, ForKind, seq
from kit.stmts import loop
from kit.types import MakeKernel, RunKernel

TARGET = cpu_target(2)


@pytest.fixture
def multiply(func: MakeKernel) -> PrimFunc:
    """C[i, j:j+16] += A[i, k] * B[k, j:j+16] over 32 x 32 matrices, in parallel over i."""
    a, b, c = (decl_buffer((1024,), name=s) for s in "ABC")
    i, j, k = Var("i"), Var("j"), Var("k")
    at = (Ramp(i * 32 + j * 16, IntImm(1), 16),)
    row = Ramp(k * 32 + j * 16, IntImm(1), 16)
    step = BufferLoad(c, at) + Broadcast(BufferLoad(a, (i * 32 + k,)), 16) * BufferLoad(b, (row,))
    start = BufferStore(c, op.const(0.0, step.dtype), at)
    inner = loop(j, 2, seq(start, loop(k, 32, BufferStore(c, step, at))))
    return func(loop(i, 32, inner, ForKind.PARALLEL), [a, b, c])


@pytest.mark.parametrize("level", ["auto", "light", "full"])
def test_levels_agree(multiply: PrimFunc, level: Level, run: RunKernel) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random((1024,), dtype=np.float32) for _ in range(2))
    c = np.zeros(1024, np.float32)
    run(multiply, a, b, c, level=level)
    expected = a.reshape(32, 32).astype(np.float64) @ b.reshape(32, 32)
    np.testing.assert_allclose(c.reshape(32, 32), expected, rtol=1e-5)


def test_loop_invariants_leave_their_loops(multiply: PrimFunc) -> None:
    text = emit_llvm(multiply, TARGET)
    innermost = text[text.index("\nloop", text.index("\nloop", text.index("\nloop") + 1) + 1) :]
    body = innermost[: innermost.index("br i1")]
    assert body.count("getelementptr") == 2  # one for A, one for B: all else is outside
    assert "mul" not in body.replace("fmul", "")  # rows of B are added up


def test_what_only_launches_needs_no_function_of_its_own(
    multiply: PrimFunc, func: MakeKernel, run: RunKernel
) -> None:
    """Arrays that do not overlap are parameters of what touches them."""
    assert emit_llvm(multiply, TARGET).count("define ") == 3
    a, b = (decl_buffer((64,), name=s) for s in "AB")
    i, j = Var("i"), Var("j")
    launch = loop(i, 64, BufferStore(b, BufferLoad(a, (i,)), (i,)), ForKind.PARALLEL)
    more = loop(j, 64, BufferStore(b, BufferLoad(b, (j,)) + 1.0, (j,)))
    both = func(seq(launch, more), [a, b])
    text = emit_llvm(both, TARGET)
    assert text.count("define ") == 4
    assert ".body(ptr noalias %status, ptr noalias" in text
    values, result = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    run(both, values, result)
    assert (result == values + 1).all()


def test_vectors_use_the_whole_registers(multiply: PrimFunc) -> None:
    text = assembly(emit_llvm(multiply, TARGET), TARGET)
    if TARGET.vector_bytes == 64:
        assert "zmm" in text
    if "+fma" in TARGET.features:
        assert "vfmadd" in text


def test_sums_of_float16_are_fused_32_at_a_time(func: MakeKernel) -> None:
    """By AVX512-FP16 where a target has it, whatever this machine has."""
    a, b, c = (decl_buffer((1024,), "float16", s) for s in "ABC")
    k, at = Var("k"), Ramp(IntImm(0), IntImm(1), 32)
    row = BufferLoad(b, (Ramp(k * 32, IntImm(1), 32),))
    step = BufferLoad(c, (at,)) + Broadcast(BufferLoad(a, (k,)), 32) * row
    kernel = func(loop(k, 32, BufferStore(c, step, (at,))), [a, b, c])
    target = replace(
        TARGET,
        cpu="",
        features="+avx512f,+avx512vl,+avx512bw,+avx512fp16",
        triple="x86_64-unknown-linux-gnu",
    )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = assembly(emit_llvm(kernel, target), target)
    fused = [line for line in text.splitlines() if "vfmadd" in line and "ph\t" in line]
    assert fused and all("%zmm" in line for line in fused)


def test_the_level_follows_the_code(multiply: PrimFunc, func: MakeKernel) -> None:
    assert is_explicit(emit_llvm(multiply, TARGET))
    a, i = decl_buffer((64,), name="A"), Var("i")
    scalar = func(loop(i, 64, BufferStore(a, BufferLoad(a, (i,)) + 1.0, (i,))), [a])
    text = emit_llvm(scalar, TARGET)
    assert not is_explicit(text)
    assert "x float>" in optimized(text, TARGET)  # LLVM has vectorised it


def test_zeros_beside_vectors_and_short_vectors_are_explicit(func: MakeKernel) -> None:
    """O3 neither joins what lies rows apart nor makes short vectors longer."""
    a, i = decl_buffer((64,), name="A"), Var("i")
    one = op.const(1.0, "float32")
    zero = BufferStore(a, op.const(0.0, "float32"), (i * 8,))
    pair = BufferStore(a, Broadcast(one, 2), (Ramp(i * 8 + 1, IntImm(1), 2),))
    assert is_explicit(emit_llvm(func(loop(i, 8, seq(zero, pair)), [a]), TARGET))
    copy = BufferStore(a, BufferLoad(a, (i * 8 + 4,)), (i * 8,))
    assert not is_explicit(emit_llvm(func(loop(i, 8, seq(copy, pair)), [a]), TARGET))


def test_objects_are_position_independent_elf_or_macho(multiply: PrimFunc) -> None:
    code = compile_object(emit_llvm(multiply, TARGET), TARGET)
    assert code[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")


def test_emission_is_repeatable(multiply: PrimFunc) -> None:
    assert emit_llvm(multiply, TARGET) == emit_llvm(multiply, TARGET)


def test_rejected_assembly_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="LLVM rejected"):
        compile_object("define void @f( {", TARGET)


def test_other_targets_can_be_compiled_for(multiply: PrimFunc) -> None:
    old = replace(TARGET, cpu="x86-64", features="", vector_bytes=16)
    if TARGET.triple.startswith("x86_64"):
        assert "xmm" in assembly(emit_llvm(multiply, old), old)


def test_sizes_and_messages_of_a_function() -> None:
    n, m = Var("n"), Var("m")
    a = decl_buffer((n, m), name="A")
    handle = pointer("A_handle", a.dtype)
    body = AssertStmt(op.lt(n, 5), "too many rows", Evaluate(IntImm(0)))
    func = PrimFunc((handle, m), body, {handle: a}, {})
    assert size_variables(func) == (n,)
    assert assertion_messages(func) == ("too many rows",)


def test_several_indices_are_refused(func: MakeKernel) -> None:
    a = decl_buffer((4, 4), name="A")
    body = BufferStore(a, op.const(0.0), (IntImm(0), IntImm(0)))
    flat = decl_buffer((16,), name="A")
    with pytest.raises(CompileError, match="A has 2 indices: flatten storage first"):
        emit_llvm(func(body, [a]), TARGET)
    view = decl_buffer((4,), name="V", data=flat.data, strides=(2,))
    for target, source in ((view, op.const(0.0)), (flat, view[0])):
        body = BufferStore(target, source, (IntImm(0),))
        with pytest.raises(CompileError, match="V has strides: flatten storage first"):
            emit_llvm(func(body, [flat]), TARGET)


def test_names_must_be_identifiers(func: MakeKernel) -> None:
    a = decl_buffer((4,), name="A")
    body = BufferStore(a, op.const(0.0), (IntImm(0),))
    with pytest.raises(CompileError, match="not an identifier"):
        emit_llvm(func(body, [a], "my kernel"), TARGET)
