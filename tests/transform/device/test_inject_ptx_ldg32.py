"""Which loads get the instruction with a guard, and that they load the same."""

from __future__ import annotations

import textwrap

import pytest

from autosched.codegen.cuda import emit_cuda
from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import ScheduleError
from autosched.tir.expr import Call
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.walk import all_exprs
from autosched.transform.device.inject_ptx_ldg32 import InjectPTXLDG32
from autosched.transform.framework.context import PassContext
from kit.types import SameResult

HEAD = """\
def main(G: Buffer((64,), {t}), B: Buffer((64,), {t}), I: Buffer((64,), int32), n: int32):
    launch(threadIdx.x, 32)
    L = allocate((8,), {t}, "local")
    E = view(L, (4,), {t}, strides=(2,))
    S = allocate((64,), {t}, "shared")
"""


def function(store: str, dtype: str = "float32") -> PrimFunc:
    body = f"S[threadIdx.x] = G[threadIdx.x]\n{store}\nB[threadIdx.x] = L[3]"
    return parse_func(HEAD.format(t=dtype) + textwrap.indent(body, "    "))


def count(func: PrimFunc) -> int:
    return sum(isinstance(e, Call) and e.op == "ptx_ldg32" for e in all_exprs(func.body))


TAKEN = {
    "the seed's": ("float32", "L[3] = if_then_else(threadIdx.x % 2 == 0, G[threadIdx.x], 0.0)"),
    "mirrored": ("float32", "L[3] = if_then_else(threadIdx.x < n, 2.5, G[threadIdx.x + 32])"),
    "integers": ("int32", "L[3] = if_then_else(n < 5, G[threadIdx.x * 2], -7)"),
    "where memory ends": ("float32", "L[3] = if_then_else(n < 32, G[n * 2], 1.0)"),
    "in a loop, twice": (
        "float32",
        "for i in range(4):\n"
        "    L[i] = if_then_else(i < n, G[i], 0.0)\n"
        "    L[i + 4] = if_then_else(i < threadIdx.x, G[i + 8], 0.0)",
    ),
}


@pytest.mark.parametrize(("dtype", "store"), TAKEN.values(), ids=TAKEN)
def test_taken(dtype: str, store: str, same_result: SameResult) -> None:
    before = function(store, dtype)
    after = InjectPTXLDG32()(before)
    assert count(after) == store.count("if_then_else")
    assert repr(after).count("allocate(") == repr(before).count("allocate(") + 2
    for n in (0, 3, 32):
        same_result(before, after, n)
    assert InjectPTXLDG32(enable=False)(before) is before
    assert InjectPTXLDG32(by_config=True)(before) is before
    with PassContext(config={"tir.ptx_ldg32": True}):
        assert count(InjectPTXLDG32(by_config=True)(before)) == count(after)


KEPT = {
    "2 bytes": ("float16", "L[3] = if_then_else(n < 5, G[0], float16(0.0))"),
    "8 bytes": ("float64", "L[3] = if_then_else(n < 5, G[0], float64(0.0))"),
    "a vector": ("float32", "L[0:4] = if_then_else(n < 5, G[0:4], broadcast(0.0, 4))"),
    "to shared memory": ("float32", "S[0] = if_then_else(n < 5, G[0], 0.0)"),
    "from shared memory": ("float32", "L[3] = if_then_else(n < 5, S[threadIdx.x], 0.0)"),
    "another value than a constant": ("float32", "L[3] = if_then_else(n < 5, G[0], G[1])"),
    "what the kernel writes": ("float32", "L[3] = if_then_else(n < 5, B[threadIdx.x], 0.0)"),
    "an index that must be guarded": (
        "float32",
        "L[3] = if_then_else(n < 5, G[I[threadIdx.x]], 0.0)",
    ),
    "a division that must be guarded": (
        "float32",
        "L[3] = if_then_else(n > 0, G[5 // n], 0.0)",
    ),
    "to a view of every second element": ("float32", "E[1] = if_then_else(n < 5, G[0], 0.0)"),
    "no condition": ("float32", "L[3] = G[0]"),
}


@pytest.mark.parametrize(("dtype", "store"), KEPT.values(), ids=KEPT)
def test_kept(dtype: str, store: str) -> None:
    func = function(store, dtype)
    assert InjectPTXLDG32()(func) is func


def test_a_kernel_beside_another_and_a_workspace(same_result: SameResult) -> None:
    """What a kernel needs is allocated in it, not outside where memory belongs to the host."""
    before = parse_func("""\
def main(G: Buffer((64,), float32), B: Buffer((64,), float32)):
    W = allocate((64,), float32, "global")
    with launch(threadIdx.x, 64):
        W[threadIdx.x] = G[threadIdx.x] + 1.0
    with launch(threadIdx.x, 64):
        L = allocate((1,), float32, "local")
        L[0] = if_then_else(threadIdx.x < 40, W[63 - threadIdx.x], 0.0)
        B[threadIdx.x] = L[0]
""")
    after = InjectPTXLDG32()(before)
    assert count(after) == 1
    assert repr(after).index("allocate((64,)") < repr(after).index("predicate = ")
    same_result(before, after)


def test_another_target() -> None:
    func = function(TAKEN["the seed's"][1]).with_attrs(target="rocm -mcpu=gfx90a")
    with pytest.raises(ScheduleError, match=r"main: the instruction is there on cuda .* rocm"):
        InjectPTXLDG32()(func)
    InjectPTXLDG32()(func.with_attrs(target="cuda -arch=sm_80"))


def test_the_instruction_compiles() -> None:
    func = InjectPTXLDG32()(function(TAKEN["in a loop, twice"][1]))
    text = emit_cuda([func.with_attrs(global_symbol="k", calling_conv=2)]).text
    assert "ldg32(&L[addr[1]], predicate[0] != 0, &G[addr[0]]);" in text
    nvrtc = load_nvrtc("sm_80")
    assert nvrtc.ptx(text, "sm_80").count("ld.global.nc.b32") == 8, "unrolled"
    assert nvrtc.compile(text, "sm_75").resources["k"].stack == 0
