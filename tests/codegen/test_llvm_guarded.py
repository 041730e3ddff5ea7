"""Accesses of many lanes under a mask: in parts, right on CPUs with instructions for it or not."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_guarded import AT_ONCE
from autosched.driver import lower_func
from autosched.runtime.cpu import build_artifact, load
from autosched.runtime.native import processor
from autosched.target import Target, cpu_target
from autosched.tir import interp
from autosched.tir.parser import parse_func

HERE = cpu_target(1)
OLD = replace(HERE, cpu="x86-64", features="", vector_bytes=16)
TARGETS = [HERE, OLD] if processor() == "x86_64" else [HERE]
STORES = {
    "load": "Y[i] = if_then_else(A[i] < A[LAST - i], B[i], A[i])",
    "store": "if A[i] < B[i]:\n            Y[i] = A[i] + B[i]",
    "gather": "Y[i] = if_then_else(A[i] < B[i], B[LAST - i], A[i])",
    "scatter": "if A[i] < B[i]:\n            Y[LAST - i] = B[i]",
}


@pytest.mark.parametrize("target", TARGETS, ids=["here", "old"][: len(TARGETS)])
@pytest.mark.parametrize("lanes", [4 * AT_ONCE, 2 * AT_ONCE + 9])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
@pytest.mark.parametrize("access", STORES)
def test_many_lanes_are_touched_in_parts(
    access: str, dtype: str, lanes: int, target: Target
) -> None:
    params = ", ".join(f"{name}: Buffer(({lanes},), {dtype})" for name in "ABY")
    func = parse_func(
        f"def main({params}):\n    attrs(tir.noalias=False)\n"  # or odd lanes are cut before
        f"    for i in vectorized({lanes}):\n        {STORES[access]}\n".replace(
            "LAST", str(lanes - 1)
        )
    )
    lowered = lower_func(func, target)
    text = emit_llvm(lowered, target)
    of_data = rf"@llvm\.masked\.{access}\.v(\d+)\S*\(.*x i1> %"  # other masks are constants
    found = [int(n) for n in re.findall(of_data, text)]
    parts = [AT_ONCE] * (lanes // AT_ONCE) + [lanes % AT_ONCE] * (lanes % AT_ONCE > 0)
    assert found[: len(parts)] == parts
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 5, lanes).astype(dtype) for _ in range(3)]
    wanted = [x.copy() for x in arrays]
    interp.run(func, wanted)
    load(build_artifact(lowered, target))(*arrays)
    np.testing.assert_array_equal(arrays[2], wanted[2])


@pytest.mark.parametrize(
    "read", ["shuffle([A[0:8]], ORDER)", "(let x = A[0:8] in shuffle([x], ORDER))"]
)
def test_shuffles_under_a_condition_with_lanes(read: str) -> None:
    """The condition is about the lanes of the result, not about those that a shuffle takes from."""
    read = read.replace("ORDER", "[7, 6, 5, 4, 3, 2, 1, 0]")
    func = parse_func(
        "def main(A: Buffer((8,), int32), C: Buffer((8,), bool), Y: Buffer((8,), int32)):\n"
        f"    Y[0:8] = if_then_else(C[0:8], {read}, broadcast(-1, 8))\n"
    )
    a, c = np.arange(8, dtype=np.int32), np.array([1, 0, 1, 1, 0, 0, 0, 1], bool)
    wanted, found = np.zeros((2, 8), np.int32)
    interp.run(func, [a, c, wanted])
    load(build_artifact(lower_func(func, cpu_target(1)), cpu_target(1)))(a, c, found)
    assert wanted.tolist() == found.tolist() == np.where(c, a[::-1], -1).tolist()


@pytest.mark.parametrize("last", [17, 1])  # of a loop that LLVM unrolls, and of a constant
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("int32", "int8"), ("float32", "uint8"), ("int32", "uint16"), ("int64", "int32")],
)
def test_a_narrowed_value_in_one_lane_leaves_the_others_alone(
    wide: str, narrow: str, last: int
) -> None:
    """LLVM 22 stored the bytes of the wide lane."""
    func = parse_func(
        f"def main(X: Buffer((32,), {wide}), Y: Buffer((32,), {narrow})):\n"
        "    for i in range(2):\n"
        f"        store(Y[i * 16:i * 16 + 16], {narrow}x16(X[i * 16:i * 16 + 16]), "
        f"predicate=ramp(i * 16, 1, 16) < broadcast({last}, 16))\n"
    )
    x, y = np.arange(1, 33).astype(wide), np.full(32, 77, narrow)
    load(build_artifact(func, HERE))(x, y)
    np.testing.assert_array_equal(y, np.where(np.arange(32) < last, x.astype(narrow), 77))
