"""Tightly coupled memory: how much of it is used, and how it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.verify import verify
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import Sequential
from autosched.transform.host.bind_target import BindTarget
from autosched.transform.host.lower_tvm_builtin import LowerTVMBuiltin
from autosched.transform.host.lower_vtcm_alloc import LowerVtcmAlloc
from autosched.transform.host.verify_vtcm_limit import VerifyVTCMLimit, peak_bytes
from kit.host_programs import Mix, random_program


def func(
    target: str, allocations: str = '    V = allocate((1024,), float32, "global.vtcm")\n'
) -> PrimFunc:
    attrs = f"    attrs(target={target})\n" if target else ""
    return parse_func(f"def main(n: int32):\n{attrs}{allocations}    evaluate(1)\n")


HEXAGON = '{{"kind": "hexagon", "vtcm-capacity": {}}}'


@pytest.mark.parametrize(
    ("target", "capacity", "default", "fits"),
    [
        (HEXAGON.format(4096), 0, "", True),
        (HEXAGON.format(4095), 0, "", False),
        (HEXAGON.format(0), 4095, "", False),
        (HEXAGON.format(4096), 4095, "", True),
        ('"hexagon"', 0, "", True),
        ('"cpu"', 4095, "", False),
        ("", 4095, "", True),  # without any target nothing is looked at
        ("", 4095, "cpu", False),
        ("", 4096, "cpu", True),
    ],
)
def test_the_capacity(target: str, capacity: int, default: str, fits: bool) -> None:
    before = func(target)
    with PassContext(config={"tir.vtcm_capacity": capacity}):
        if fits:
            assert VerifyVTCMLimit(default)(before) is before
            return
        with pytest.raises(ScheduleError, match=r"exceeded \(allocated 4096, limit 4095 bytes\)"):
            VerifyVTCMLimit(default)(before)


def test_the_peak_is_that_of_the_nesting() -> None:
    """Not the sum, which the seed says (passes.md 6.2)."""
    body = """\
    with V = allocate((768,), float32, "global.vtcm"):
        W = allocate((100,), float32, "global")
        evaluate(2)
    with V_1 = allocate((3, 128), float16x2, "global.vtcm"):
        with V_2 = allocate((n,), float32, "global.vtcm"):
            evaluate(3)
        V_3 = allocate((100,), bool, "global.vtcm")
        evaluate(4)
"""
    assert peak_bytes(func("", body).body) == max(3072, 3 * 128 * 4 + 100)


def test_memory_without_the_scope_stays() -> None:
    plain = func("", '    W = allocate((8,), float32, "global")\n')
    assert LowerVtcmAlloc()(plain) is plain
    nested = func(
        "",
        '    V = allocate((8,), float32, "global.vtcm")\n'
        '    W = allocate((4, n), int8, "global.vtcm.pool")\n',
    )
    text = repr(LowerVtcmAlloc()(nested))
    assert "allocate" not in text
    assert (
        'W: pointer(int8, "global.vtcm.pool") = nd_mem_alloc_with_scope("global.vtcm.pool", '
        in (text)
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_compute_the_same(seed: int) -> None:
    text = repr(random_program(np.random.default_rng(seed))).replace('"global"', '"global.vtcm"')
    before = parse_func(text)
    after = LowerVtcmAlloc()(before)
    verify(after)
    assert VerifyVTCMLimit()(after) is after
    outcomes = []
    for each in (before, after):
        mix = Mix()
        mix.register()
        interp.run(each, [mix.table, 3])
        outcomes.append(mix.outcome)
    assert outcomes[0] == outcomes[1]


def test_the_way_down_to_the_device() -> None:
    attrs = '    attr("default", "device_type", 16)\n    attr("default", "device_id", 0)\n'
    before = func("", attrs + '    V = allocate((4, n), float16, "global.vtcm")\n')
    text = repr(Sequential((BindTarget(), LowerVtcmAlloc(), LowerTVMBuiltin()))(before))
    assert (
        'V: pointer(float16, "global.vtcm") = call_packed_lowered("device_api.hexagon.alloc_nd"'
        in (text)
    )
    assert "tvm_struct_set(stack_value, 2, 12, int64(2))" in text  # the code of floats
    assert "tvm_struct_set(stack_value, 3, 12, int64(16))" in text
