"""Memory of special scopes, and pointers into it."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import CompileError, ConfigError
from autosched.tir import interp
from autosched.tir.dtype import handle
from autosched.tir.expr import Call, StringImm
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.verify import verify
from autosched.transform.host.lower_device_storage_access_info import LowerDeviceStorageAccessInfo
from autosched.transform.host.memory_info import MemoryInfo, is_special, register_memory

HEAD = Call(handle, "call_extern", (StringImm("dummy_head_address"),))


@pytest.fixture(autouse=True)
def _scopes() -> None:
    register_memory("global.test_with_head_address", MemoryInfo(8, 8192, lambda: HEAD))
    register_memory("global.test_without_head_address", MemoryInfo(32, 8192))


def func(body: str) -> PrimFunc:
    return parse_func("def main(A: Buffer((8,), float32)):\n" + body)


def lowered(body: str) -> str:
    after = LowerDeviceStorageAccessInfo()(func(body))
    verify(after)
    return "\n".join(line.strip() for line in repr(after).splitlines()[1:])


def test_the_example_of_the_seed() -> None:
    """Document 003; the declaration stays over the same pointer."""
    body = """\
    buf = allocate((16,), float32, "global.test_with_head_address")
    buf_1 = declare(buf, (16,), float32)
    buf_1[0] = 1.0
"""
    assert (
        lowered(body)
        == """\
buf: pointer(float32, "global.test_with_head_address") = call_extern("dummy_head_address")
buf_1 = declare(buf, (16,), float32, pointer=pointer(float32, "global.test_with_head_address"))
buf_1[0] = 1.0"""
    )


def test_memory_without_an_address_is_not_allocated() -> None:
    body = """\
    buf = allocate((16,), float32, "global.test_without_head_address")
    buf_1 = declare(buf, (16,), float32)
    evaluate(1)
"""
    assert lowered(body) == "evaluate(1)"


def test_the_index_of_an_access_is_in_units_of_the_memory() -> None:
    text = lowered("""\
    buf = allocate((16,), float32, "global.test_without_head_address")
    for i in range(4):
        call_extern("use", tvm_access_ptr(int8(0), buf, i * 8, 8, 1, dtype=int32), dtype=int32)
""")
    assert 'call_extern("use", truncdiv(i * 8, 4), dtype=int32)' in text


def test_pointers_into_other_memory_become_addresses() -> None:
    text = lowered(
        """\
    S = allocate((4,), float32, "shared.dyn")
    call_extern("use", tvm_access_ptr(float16(0), A, 6, 8, 1, dtype=handle), dtype=int32)
    call_extern("use", tvm_access_ptr(0.0, S, 2, 8, 1, dtype=handle), dtype=int32)
"""
    )
    assert "A_1 = view(A, (1,), float16)" in text
    assert 'call_extern("use", address_of(A_1[6], dtype=handle), dtype=int32)' in text
    assert 'S = allocate((4,), float32, "shared.dyn")' in text


@pytest.mark.parametrize(
    "body",
    [
        '    W = allocate((4,), float32, "wmma.accumulator")\n    evaluate(1)\n',
        '    W = allocate((4,), float32, "shared.dyn")\n    evaluate(1)\n',
        "    A[0] = 1.0\n",
    ],
)
def test_other_functions_stay(body: str) -> None:
    before = func(body)
    assert LowerDeviceStorageAccessInfo()(before) is before


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            '    W = allocate((257,), float32, "global.test_without_head_address")\n'
            "    evaluate(1)\n",
            "W needs 8224 bits of global.test_without_head_address, which has 8192",
        ),
        (
            '    W = allocate((4,), float32, "global.nowhere")\n    evaluate(1)\n',
            "main: Cannot find memory info of global.nowhere, the scope of W; register it",
        ),
        (
            '    W = allocate((4,), float32, "global.test_without_head_address")\n'
            '    call_extern("use", tvm_access_ptr(0.0, W, 0, 4, 1, dtype=handle), dtype=int32)\n',
            "W is not addressable",
        ),
        (
            '    W = allocate((4,), float32, "global.test_without_head_address")\n    W[0] = 1.0\n',
            "W is not addressable",
        ),
        (
            '    W = allocate((4,), float32, "global.test_with_head_address")\n'
            "    A[tvm_access_ptr(0.0, W, 0, 4, 1, dtype=int32)] = 1.0\n",
            "W: a unit of 8 bits is no whole number of float32",
        ),
        (
            "    A[tvm_access_ptr(0.0, A, 0, 4, 1, dtype=int32)] = 1.0\n",
            "an index into A, whose scope has no units",
        ),
    ],
)
def test_refused(body: str, error: str) -> None:
    with pytest.raises(CompileError, match=error):
        LowerDeviceStorageAccessInfo()(func(body))


@pytest.mark.parametrize("seed", range(4))
def test_random_pointers_show_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = ["A", "S", "T"]
    lines = [
        '    S = allocate((8,), float32, "global")\n',
        '    T = allocate((8,), float32, "global.test_random")\n',
        "    for i in range(8):\n        S[i] = A[i] * 2.0\n        T[i] = A[i] * 3.0\n",
    ]
    for _ in range(8):
        kind, size = [("0.0", 1), ("float16(0)", 2), ("int8(0)", 4)][int(rng.integers(0, 3))]
        offset = f"{int(rng.integers(0, 4))} * {size}"
        if rng.random() < 0.5:
            lines.append(f"    for v{len(lines)} in range(2):\n    ")
            offset = f"({offset} + v{len(lines) - 1})"
        pointer = f"tvm_access_ptr({kind}, {rng.choice(names)}, {offset}, 4, 1, dtype=handle)"
        lines.append(f'    call_extern("look", {pointer}, dtype=int32)\n')
    address = Call(handle, "call_extern", (StringImm("random_memory"),))
    register_memory("global.test_random", MemoryInfo(32, 256, head_address=lambda: address))
    before = func("".join(lines))
    seen: list[list[float]] = []
    interp.register_extern("look", lambda array: seen.append(array[:2].tolist()))
    interp.register_extern("random_memory", lambda: np.zeros(8, np.float32))
    a = rng.random(8, np.float32)
    interp.run(before, [a])
    first = seen.copy()
    seen.clear()
    interp.run(LowerDeviceStorageAccessInfo()(before), [a])
    assert len(seen) >= 8
    np.testing.assert_array_equal(seen, first)


def test_memory_allocated_twice() -> None:
    scope = '"global.test_with_head_address"'
    body = f"    with W = allocate((4,), float32, {scope}):\n        evaluate(1)\n"
    with pytest.raises(CompileError, match="W is allocated twice"):
        LowerDeviceStorageAccessInfo()(func(body + body))


def test_what_can_be_registered() -> None:
    for scope in ("global", "shared.dyn", "wmma.matrix_a", ""):
        assert not is_special(scope)
        with pytest.raises(ConfigError, match="expected one with a tag"):
            register_memory(scope, MemoryInfo(8, 64))
    for bits in (0, -8, 1.5):
        with pytest.raises(ConfigError, match="unit_bits: expected a positive number of bits"):
            MemoryInfo(bits, 64)  # type: ignore[arg-type]  # what the check is for
    with pytest.raises(ConfigError, match=r"head_address: expected a function, .*found 4096"):
        MemoryInfo(8, 64, 4096)  # type: ignore[arg-type]  # what the check is for
