"""Vectors that LLVM would take apart: one instruction with a mask, where that is faster."""

import re
from dataclasses import replace

import numpy as np
import pytest

from autosched.codegen.llvm import emit_llvm
from autosched.target import HardwareParams, Target
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Expr, IntImm, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import TRUE, Allocate, BufferStore, seq
from kit.stmts import loop
from kit.types import MakeKernel, RunKernel

AVX512 = Target(
    "cpu", HardwareParams(1), 1, "skylake-avx512", "+avx512f,+avx512vl", vector_bytes=64
)
ROWS = 40
i, k = Var("i"), Var("k")


def lanes_at(buffer: Buffer, start: Expr, lanes: int) -> BufferLoad:
    return BufferLoad(buffer, (Ramp(start, IntImm(1), lanes),))


def copy(target: Buffer, source: Buffer, lanes: int, index: Expr = i) -> BufferStore:
    value = lanes_at(source, index * lanes, lanes)
    return BufferStore(target, value, (Ramp(index * lanes, IntImm(1), lanes),))


def masks(func: PrimFunc, target: Target = AVX512) -> list[tuple[str, int, int]]:
    """What the code loads or stores with masks: the verb, lanes that count, and all lanes."""
    calls = re.findall(r"call .*@llvm\.masked\.(load|store)\.\S*\(.*", emit_llvm(func, target))
    lines = re.findall(r"call .*@llvm\.masked\..*", emit_llvm(func, target))
    return [
        (verb, line.count("i1 true"), line.count("i1 true") + line.count("i1 false"))
        for verb, line in zip(calls, lines, strict=True)
    ]


def arrays(lanes: int, dtype: str) -> tuple[Buffer, Buffer]:
    kind = DType(dtype)
    return decl_buffer((ROWS * lanes,), kind, "a"), decl_buffer((ROWS * lanes,), kind, "o")


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize("lanes", [7, 9, 14, 25])
def test_what_is_read_and_written(
    lanes: int, dtype: str, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    """Nothing but the lanes, on this machine too; one instruction for three parts or more."""
    a, o = arrays(lanes, dtype)
    kernel = func(loop(i, ROWS - 1, copy(o, a, lanes)), [a, o])
    values = (np.arange(ROWS * lanes) % 100).astype(DType(dtype).numpy)
    same_as_interpreted(kernel, values, np.full_like(values, 101))
    whole = 1 << lanes.bit_length()
    masked = lanes != 9 and DType(dtype).bytes >= 4
    found = [("load", lanes, whole), ("store", lanes, whole)]
    assert masks(kernel) == (found if masked else [])
    assert masks(kernel, replace(AVX512, features="+avx2", vector_bytes=32)) == []


def test_rows_that_are_updated_have_no_masks(func: MakeKernel) -> None:
    """What was just stored is loaded again: a store with a mask would be waited for."""
    a, o = arrays(14, "float32")
    own = lanes_at(o, i * 14, 14)
    store = BufferStore(o, own + lanes_at(a, i * 14, 14), own.indices)
    assert masks(func(loop(i, ROWS, store), [a, o])) == [("load", 14, 16)]


@pytest.mark.parametrize(("rows", "rolled", "masked"), [(1, False, 0), (4, True, 0), (40, True, 2)])
def test_registers_and_small_arrays_have_no_masks(
    rows: int, rolled: bool, masked: int, func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    """LLVM keeps elements at constant places in registers, and small arrays are read at once."""
    a, o = arrays(14, "float32")
    own = decl_buffer((rows * 14,), "float32", "own")
    at = (i, k) if rolled else (IntImm(0), IntImm(0))
    fill = copy(own, a, 14, at[0])
    shifted = lanes_at(own, at[1] * 14, 14) * 2.0
    use = BufferStore(o, shifted, (Ramp(at[1] * 14, IntImm(1), 14),))
    parts = (loop(i, rows, fill), loop(k, rows, use)) if rolled else (fill, use)
    body = Allocate(own.data, own.dtype, own.shape, TRUE, seq(*parts))
    kernel = func(body, [a, o])
    same_as_interpreted(kernel, np.arange(560, dtype=np.float32), np.zeros(560, np.float32))
    assert len(masks(kernel)) == 2 + masked
