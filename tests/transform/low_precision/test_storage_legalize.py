"""What BF16- and FP8StorageLegalize share: memory holds bits, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import CompileError
from autosched.tir import interp
from autosched.tir.dtype import DType
from autosched.tir.float_bits import bits_type
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import Allocate, AttrStmt
from autosched.tir.verify import verify
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.framework.passes import FunctionPass, Sequential
from autosched.transform.low_precision.bf16_compute_legalize import BF16ComputeLegalize
from autosched.transform.low_precision.bf16_storage_legalize import BF16StorageLegalize
from autosched.transform.low_precision.fp8_compute_legalize import FP8ComputeLegalize
from autosched.transform.low_precision.fp8_storage_legalize import FP8StorageLegalize
from kit.floats import patterns
from kit.low_precision import SUM_THEN_EXP, example
from kit.types import Array

PASSES: dict[str, tuple[str, FunctionPass, FunctionPass]] = {
    "bfloat16": ("bfloat16", BF16ComputeLegalize(), BF16StorageLegalize()),
    "bfloat16, casts": ("bfloat16", BF16ComputeLegalize(explicit=False), BF16StorageLegalize()),
    "e4m3fn": ("float8_e4m3fn", FP8ComputeLegalize(), FP8StorageLegalize()),
    "e5m2": ("float8_e5m2", FP8ComputeLegalize("float32"), FP8StorageLegalize()),
}
every = pytest.mark.parametrize(("dtype", "compute", "storage"), PASSES.values(), ids=list(PASSES))
PROGRAM = """\
def main(A: pointer({t}), B: pointer({t}), D: pointer({t}), F: pointer(float16), x: {t}):
    attrs(target="cpu")
    A_1 = view(A, (256,), {t})
    B_1 = view(B, (256,), {t})
    D_1 = view(D, (256,), {t})
    F_1 = view(F, (256,), float16)
    S = allocate((256,), {t}, "shared")
    attr(data(S), "storage_alignment", 64)
    for i in range(256):
        S[i] = if_then_else(i < 250, A_1[i], {t}(1.5))
    for i in range(256):
        y: {t} = max(S[i], B_1[255 - i])
        D_1[i] = Select(S[i] < x, y * S[i], B_1[i])
        F_1[i] = float16(D_1[i])
"""


def small_left(func: PrimFunc) -> list[str]:
    """Every trace of a type that is only stored."""
    pointers = [p.element for p in func.params if p.element is not None]
    made = [s.dtype for s in stmts(func.body) if isinstance(s, Allocate)]
    found = [*pointers, *made, *(e.dtype for e in all_exprs(func.body))]
    return [str(dtype) for dtype in found if dtype.is_storage_float]


def left_by(func: PrimFunc, memory: list[Array], x: Array) -> list[Array]:
    """The bytes that `func` leaves in copies of `memory`."""
    arrays = [m.copy() for m in memory]
    kinds = [p.element.numpy for p in func.params if p.element is not None]
    scalar = x.view(func.params[-1].dtype.numpy)[0]
    interp.run(func, [*(a.view(k) for a, k in zip(arrays, kinds, strict=True)), scalar])
    return arrays


@every
def test_a_whole_program_means_the_same(
    dtype: str, compute: FunctionPass, storage: FunctionPass
) -> None:
    before = parse_func(PROGRAM.format(t=dtype))
    after = Sequential((compute, storage))(before)
    assert not small_left(after)
    assert [p.name for p in after.params] == ["A", "B", "D", "F", "x"]
    (allocate,) = [s for s in stmts(after.body) if isinstance(s, Allocate)]
    assert (allocate.buffer_var.name, allocate.buffer_var.scope) == ("S", "shared")
    (attr,) = [s for s in stmts(after.body) if isinstance(s, AttrStmt)]
    assert attr.node is allocate.buffer_var
    rng = np.random.default_rng(3)
    finite = patterns(dtype)
    finite = finite[np.isfinite(finite.astype(np.float32))]
    inputs = [rng.choice(finite, 256).view(np.uint8) for _ in range(2)]
    outputs = [np.zeros(256 * size, np.uint8) for size in (DType(dtype).bytes, 2)]
    x = np.array([0.5], finite.dtype).view(np.uint8)
    one = left_by(before, [*inputs, *outputs], x)
    two = left_by(after, [*inputs, *outputs], x)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert storage(after) is after  # there is nothing left to do


@every
def test_what_is_refused(dtype: str, compute: FunctionPass, storage: FunctionPass) -> None:
    text = f'def main(A: Buffer((4,), {dtype})):\n    attrs(target="cpu")\n    A[0] = A[1] + A[2]\n'
    func = parse_func(text)
    with pytest.raises(CompileError, match=f"{storage.name}: main has buffers among its param"):
        storage(func)
    kept = type(storage)(keep_parameters=True)  # type: ignore[call-arg]  # both have it
    with pytest.raises(CompileError, match=rf"A\[1\] \+ A\[2\] computes in .* run {compute.name}"):
        kept(func)
    legal = kept(compute(func))
    assert legal.buffers == func.buffers
    assert kept(legal) is legal


@every
def test_pointers_count_elements_of_the_same_size(
    dtype: str, compute: FunctionPass, storage: FunctionPass
) -> None:
    before = parse_func(f"""\
def main(A: pointer({dtype})):
    attrs(target="cpu")
    call_extern("f", tvm_access_ptr({dtype}(0.0), A, 2, 6, 1, dtype=handle), dtype=int32)
""")
    after = Sequential((compute, storage))(before)
    bits = bits_type(DType(dtype))
    assert f"tvm_access_ptr({bits}(0), A, 2, 6, 1, dtype=handle)" in to_text(after)
    assert small_left(after) == []


@every
def test_what_else_lies_in_its_memory(
    dtype: str, compute: FunctionPass, storage: FunctionPass
) -> None:
    func = parse_func(
        f"""\
def main(A: pointer(int8), D: pointer(int8)):
    attrs(target="cpu")
    A_1 = view(A, (8,), int8)
    D_1 = view(D, (8,), int8)
    S = allocate((8,), {dtype}, "shared")
    T = view(S, (8,), int8)
    for i in range(8):
        T[i] = A_1[i]
    for i in range(8):
        D_1[i] = T[7 - i]
"""
    )
    after = storage(func)
    assert to_text(after) == to_text(func).replace(dtype, bits_type(DType(dtype)).name)
    found = np.zeros(8, np.int8)
    interp.run(after, [np.arange(8, dtype=np.int8), found])
    assert found.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


@every
def test_memory_that_is_part_of_a_wider_allocation(
    dtype: str, compute: FunctionPass, storage: FunctionPass
) -> None:
    """StorageRewrite makes one allocation of two; the buffer was said to have no pointer."""
    func = parse_func(f"""\
def main(A: Buffer((4,), int32), B: Buffer((4,), int32)):
    attrs(target="cpu")
    M = allocate((4,), int32, "shared", element={dtype})
    S = view(M, (4,), {dtype})
    W = view(M, (4,), int32)
    for i in range(4):
        S[i] = {dtype}(A[i])
    for i in range(4):
        B[i] = int32(S[i])
    for i in range(4):
        W[i] = A[i] + 1
    for i in range(4):
        B[i] = B[i] + W[i]
""")
    kept = type(storage)(keep_parameters=True)  # type: ignore[call-arg]  # both have it
    after = Sequential((compute, kept))(func)
    verify(after)
    (allocate,) = [s for s in stmts(after.body) if isinstance(s, Allocate)]
    assert allocate.buffer_var.element is bits_type(DType(dtype))
    found = np.zeros(4, np.int32)
    interp.run(after, [np.arange(4, dtype=np.int32), found])
    np.testing.assert_array_equal(found, 2 * np.arange(4) + 1)


def test_bfloat16_of_the_seed() -> None:
    """Document 003's example, text by text; its input is what BF16ComputeLegalize prints."""

    def text(small: str, middle: str, body: str = SUM_THEN_EXP) -> str:
        return example(small, middle, body, "sm_75", ("shared", "local", ""))

    rounded = (
        "uint16(shift_right(reinterpret(exp(C[i]), dtype=uint32) + (bitwise_and(shift_right("
        "reinterpret(exp(C[i]), dtype=uint32), uint32(16)), uint32(1)) + uint32(32767)), "
        "uint32(16)))"
    )
    wide = "reinterpret(shift_left(uint32({}), uint32(16)), dtype=float32)"
    loads = (wide.format(f"reinterpret({n}_1[i], dtype=uint16)") for n in "AB")
    computed = (
        f"        C[i] = {' + '.join(loads)}\n"
        f"        D_1[i] = reinterpret({rounded}, dtype=bfloat16)"
    )
    stored = (
        f"        C[i] = {' + '.join(wide.format(f'{n}_1[i]') for n in 'AB')}\n"
        f"        D_1[i] = {rounded}"
    )
    func = parse_func(text("bfloat16", "bfloat16"))
    legal = BF16ComputeLegalize(nan_safe=False)(func)
    assert to_text(legal) == text("bfloat16", "float32", computed)
    bits = BF16StorageLegalize()(legal)
    assert to_text(bits) == text("uint16", "float32", stored)


@pytest.mark.parametrize(
    ("arch", "respect", "changed"),
    [("sm_75", True, True), ("sm_80", True, False), ("sm_86", False, True)],
)
def test_gpus_that_have_bfloat16(arch: str, respect: bool, changed: bool) -> None:
    text = (
        "def main(A: pointer(bfloat16)):\n    A_1 = view(A, (4,), bfloat16)\n    A_1[0] = A_1[1]\n"
    )
    func = parse_func(text).with_attrs(target={"kind": "cuda", "arch": arch})
    assert (BF16StorageLegalize(respect_native=respect)(func) is not func) == changed


@every
def test_memory_and_variables_of_one_name(
    dtype: str, compute: FunctionPass, storage: FunctionPass
) -> None:
    """Parsed, they are one; the second was replaced by something that its uses did not name."""
    func = parse_func(f"""\
def main(A: pointer({dtype}), B: pointer({dtype})):
    attrs(target="cpu")
    A_1 = view(A, (4,), {dtype})
    B_1 = view(B, (4,), {dtype})
    with S = allocate((1,), {dtype}, "global"):
        S[0] = A_1[3]
        with x: {dtype} = S[0]:
            B_1[0] = x
    with S = allocate((1,), {dtype}, "global"):
        S[0] = A_1[2]
        with x: {dtype} = S[0]:
            B_1[1] = x
""")
    after = storage(compute(func))
    verify(after)
    assert not small_left(after)
    memory = [np.arange(n, n + 4, dtype=bits_type(DType(dtype)).numpy) for n in (8, 32)]
    wanted, found = ([m.copy() for m in memory] for _ in range(2))
    interp.run(func, [m.view(DType(dtype).numpy) for m in wanted])
    interp.run(after, found)
    np.testing.assert_array_equal(found, wanted)
