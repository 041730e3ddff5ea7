"""FP8ComputeLegalize: seed document 003's example, the options and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.tir import interp
from autosched.tir.dtype import DType
from autosched.tir.expr import Call, Let
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.walk import all_exprs
from autosched.transform.low_precision.fp8_compute_legalize import FP8ComputeLegalize
from autosched.transform.low_precision.fp8_storage_legalize import FP8StorageLegalize
from kit.low_precision import example

COMPUTED = (
    "        C[i] = reinterpret(shift_left(uint16(reinterpret(A_1[i], dtype=uint8)), uint16(8)), "
    "dtype=float16) + reinterpret(shift_left(uint16(reinterpret(B_1[i], dtype=uint8)), uint16(8)), "
    "dtype=float16)\n"
    "        D_1[i] = reinterpret(uint8(shift_right(reinterpret(exp(C[i]), dtype=uint16) + "
    "(bitwise_and(shift_right(reinterpret(exp(C[i]), dtype=uint16), uint16(8)), uint16(1)) + "
    "uint16(127)), uint16(8))), dtype=float8_e5m2)"
)
STORED = (
    "        C[i] = reinterpret(shift_left(uint16(A_1[i]), uint16(8)), dtype=float16) + "
    "reinterpret(shift_left(uint16(B_1[i]), uint16(8)), dtype=float16)\n"
    "        D_1[i] = uint8(shift_right(reinterpret(exp(C[i]), dtype=uint16) + "
    "(bitwise_and(shift_right(reinterpret(exp(C[i]), dtype=uint16), uint16(8)), uint16(1)) + "
    "uint16(127)), uint16(8)))"
)


def test_the_example_of_the_seed() -> None:
    """Its text is what the short forms give, first by this pass, then by FP8StorageLegalize."""
    before = parse_func(example("float8_e5m2", "float8_e5m2"))
    computed = FP8ComputeLegalize(nan_safe=False)(before)
    assert to_text(computed) == example("float8_e5m2", "float16", COMPUTED)
    stored = FP8StorageLegalize()(computed)
    assert to_text(stored) == example("uint8", "float16", STORED)


def test_the_seed_is_wrong_for_nan() -> None:
    """FIX-3: it makes a NaN infinity or -0, and computes exp twice; the default does neither."""
    kind = DType("float8_e5m2").numpy
    func = parse_func(
        """\
def main(A: Buffer((4,), float16), B: Buffer((4,), float8_e5m2)):
    attrs(target="cpu")
    for i in range(4):
        B[i] = float8_e5m2(fabs(A[i]))
"""
    )
    values = np.array([0x7C01, 0x7FFF, 0x7C00, 0x3C00], np.uint16).view(np.float16)
    found = []
    for nan_safe in (False, True):
        after = FP8ComputeLegalize(nan_safe=nan_safe)(func)
        calls = [e for e in all_exprs(after.body) if isinstance(e, Call) and e.op == "fabs"]
        assert len(calls) == (1 if nan_safe else 2)
        assert any(isinstance(e, Let) for e in all_exprs(after.body)) == nan_safe
        out = np.zeros(4, kind)
        interp.run(after, [values, out])
        found.append(out.view(np.uint8).tolist())
    assert found == [[0x7C, 0x80, 0x7C, 0x3C], [0x7E, 0x7E, 0x7C, 0x3C]]


@pytest.mark.parametrize(
    ("arch", "changed"), [("sm_75", True), ("sm_80", True), ("sm_89", False), ("sm_90a", False)]
)
def test_gpus_that_convert_themselves(arch: str, changed: bool) -> None:
    before = parse_func(example("float8_e5m2", "float8_e5m2", arch=arch))
    assert (FP8ComputeLegalize()(before) is not before) == changed
    assert (FP8StorageLegalize()(FP8ComputeLegalize()(before)) is not before) == changed


def test_what_is_refused() -> None:
    func = parse_func("def main(A: Buffer((4,), float8_e5m2)):\n    A[0] = A[1] + A[2]\n")
    with pytest.raises(ConfigError, match="main has no attribute `target`; run BindTarget"):
        FP8ComputeLegalize()(func)
    with pytest.raises(ConfigError, match="FP8StorageLegalize: the function main has no attribute"):
        FP8StorageLegalize(keep_parameters=True)(func)
    with pytest.raises(ConfigError, match="promote is 'bfloat16', expected float16 or float32"):
        FP8ComputeLegalize("bfloat16", kind="cpu")(func)


def test_saturating_conversions() -> None:
    func = parse_func(
        """\
def main(A: Buffer((3,), float32), B: Buffer((3,), float8_e4m3fn)):
    for i in range(3):
        B[i] = float8_e4m3fn(A[i])
"""
    )
    values = np.array([500, -np.inf, np.nan], np.float32)
    for saturate, wanted in ((False, [0x7F, 0xFF, 0x7F]), (True, [0x7E, 0xFE, 0x7F])):
        out = np.zeros(3, DType("float8_e4m3fn").numpy)
        interp.run(FP8ComputeLegalize(saturate=saturate, kind="cpu")(func), [values, out])
        assert out.view(np.uint8).tolist() == wanted
