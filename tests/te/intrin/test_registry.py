"""Every registered tensor instruction: its statements, in the interpreter and in machine code."""

from __future__ import annotations

from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from autosched import te
from autosched.codegen.llvm import assembly, emit_llvm
from autosched.driver import build_func, lower
from autosched.errors import ConfigError
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.registry import (
    INSTRUCTIONS,
    available,
    instruction,
    statements,
)
from autosched.tir.dtype import DType
from autosched.tir.function import PrimFunc
from autosched.tir.interp import run

_STEPS = 3
_VECTOR_DOTS = [name for name, it in INSTRUCTIONS.items() if it.c.scope == "local"]


def _kernel(it: Instruction) -> PrimFunc:
    """C += A * B over three steps of the reduction, by the instruction."""
    body = statements(it.name)["compute"]
    extents = [int(t.shape[0].value) for t in (*body.inputs, body.op.output(0))]  # type: ignore[attr-defined]  # constants
    a, b = (
        te.placeholder((_STEPS, n), t.dtype.name, name)
        for n, t, name in zip(extents, body.inputs, "ab", strict=False)
    )
    outer = te.reduce_axis((0, _STEPS), "outer")
    k = te.reduce_axis((0, it.extent("k")), "k")
    matrix, dtype, products = it.a.extent("m") > 1, it.c.dtype.name, it.extent("k")
    c = te.compute(
        (1, extents[2]),
        lambda _, i: te.sum(
            a[outer, (i // 2 * products if matrix else 0) + k].astype(dtype)
            * b[outer, (i % 2 if matrix else i) * products + k].astype(dtype),
            axis=[outer, k],
        ),
        "c",
    )
    s = te.create_schedule(c.op)
    one, i = c.op.axis
    s[c].reorder(one, outer, i, k)
    s[c].tensorize(i, body)
    return lower(s, [a, b, c], cpu_target(1))


def _operand(rng: np.random.Generator, dtype: DType, n: int) -> np.ndarray:
    if dtype.is_float:
        return rng.standard_normal((_STEPS, n)).astype(dtype.numpy)
    low, high = int(dtype.min_value), int(dtype.max_value)
    return rng.integers(low, high + 1, (_STEPS, n)).astype(dtype.numpy)


@pytest.mark.parametrize("name", _VECTOR_DOTS)
def test_computes_its_description(name: str) -> None:
    """The interpreter equals NumPy; machine code equals the interpreter; it is the instruction."""
    it = instruction(name)
    func = _kernel(it)
    rng = np.random.default_rng(0)
    a, b, c = (int(buffer.shape[-1].value) for buffer in func.buffers)  # type: ignore[attr-defined]  # constants
    left, right = _operand(rng, it.a.held, a), _operand(rng, it.b.held, b)
    found = np.zeros((1, c), it.c.dtype.numpy)
    run(func, [left, right, found])
    products = it.extent("k")
    wide = np.float64 if it.c.dtype.is_float else np.int64
    rows = left.astype(wide).reshape(_STEPS, -1, products)
    columns = right.astype(wide).reshape(_STEPS, -1, products)
    expected = np.einsum("smk,snk->mn", rows, columns).reshape(1, c)
    if it.c.dtype.is_float:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    else:
        np.testing.assert_array_equal(found, expected.astype(np.int32))
    here = cpu_target(1)
    if it in available(here):
        np.testing.assert_array_equal(load(build_func(func, here))(left, right), found)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = ",".join(f"+{feature}" for feature in it.features)
    target = replace(here, cpu="", features=features, triple=f"{it.triple}-unknown-linux-gnu")
    text = assembly(emit_llvm(func, target), target)
    assert name.removeprefix("neon.").split(".")[0] in text


def test_what_a_target_has() -> None:
    here = replace(cpu_target(1), triple="x86_64-unknown-linux-gnu", features="+avx512vnni")
    names = ["vpdpbusd.zmm", "vpdpbusd.zmm.s8", "vpdpwssd.zmm"]
    assert [it.name for it in available(here)] == names
    assert available(replace(here, triple="aarch64-unknown-linux-gnu", features="-dotprod")) == ()
    old = replace(here, features="+sse2,+avx2,+fma,+f16c")
    assert {it.name.partition(".")[2].split(".")[0] for it in available(old)} == {"xmm", "ymm"}
    with pytest.raises(ConfigError, match=r"'vdot' is unknown; expected one of amx\.tdpbf16ps, "):
        instruction("vdot")
    with pytest.raises(ConfigError, match=r"tensor instruction \['vdot'\] is unknown; expected"):
        instruction(["vdot"])  # type: ignore[arg-type]  # what is refused


def test_pairs_of_the_largest_factors_wrap() -> None:
    """(-2**15)**2 twice is 2**31, the only sum of two products that int32 does not hold."""
    it = instruction("vpmaddwd.ymm")
    a, b, c = (int(x.shape[-1].value) for x in _kernel(it).buffers)  # type: ignore[attr-defined]  # constants
    least = np.full((_STEPS, a), -(2**15), np.int16), np.full((_STEPS, b), -(2**15), np.int16)
    found = np.zeros((1, c), np.int32)
    run(_kernel(it), [*least, found])
    assert (found == np.int32(-(2**31))).all()  # 3 * 2**31 wraps to it


@pytest.mark.parametrize("suffix", ["s8", "u8.s8", "s8.u8", "u8"])
def test_bytes_are_packed_as_int16(suffix: str) -> None:
    """Nothing saturates: a pair of the largest bytes of both signs is exact."""
    it = instruction(f"vpmaddwd.ymm.{suffix}")
    assert {it.a.held, it.b.held} == {DType("int16")}
    assert all(x.dtype.bits == 8 and x.wide is x.held for x in (it.a, it.b))
    pack = statements(it.name)["pack_b"]
    b = te.placeholder((2, 16), it.b.dtype.name, "b")
    p = te.compute((2, 16), lambda n, i: b[i % 2, n * 8 + i // 2].astype("int16"), "p")
    s = te.create_schedule(p.op)
    s[p].tensorize(p.op.axis[1], pack)
    ends = int(it.b.dtype.min_value), int(it.b.dtype.max_value)
    values = np.linspace(*ends, 32).astype(it.b.dtype.numpy).reshape(2, 16)
    func, found = lower(s, [b, p], cpu_target(1)), np.zeros((2, 16), np.int16)
    run(func, [values, found])
    expected = values.reshape(2, 2, 8).transpose(1, 2, 0).reshape(2, 16)
    np.testing.assert_array_equal(found, expected)
