"""Matrix products of a warp equal NumPy's, and are refused where a warp is not whole."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.dtype import DType
from autosched.tir.interp_memory import (
    AlignmentError,
    InterpreterError,
    RaceError,
    UninitialisedError,
    WarpError,
)
from autosched.tir.interp_watch import Watch
from autosched.tir.parser import parse_func
from autosched.tir.warp_matrix import ATOMS, FRAGMENTS, to_tf32
from autosched.tir.warp_matrix import RESULT as RESULT_MAP
from kit.types import Array
from kit.warp_kernels import MMA, Kernel, fragments, ldmatrix

PRODUCTS = {
    **MMA,
    "four matrices at once": ldmatrix(4, 2),
    "two and one": ldmatrix(2, 1),
    "fragments": fragments(),
}


def run(text: str, arrays: list[Array]) -> Watch:
    watch = Watch(outputs={"C"})
    interp.run(parse_func(text), arrays, watch=watch)
    return watch


@pytest.mark.parametrize("kernel", PRODUCTS.values(), ids=PRODUCTS)
def test_products(kernel: Kernel) -> None:
    arrays, want = kernel.arguments()
    watch = run(kernel.text, arrays)
    np.testing.assert_array_equal(arrays[2], want)
    assert watch.written["C"].all()


RESULT = """\
def main(C: Buffer((160,), float32)):
    launch(threadIdx.x, 32)
    S = allocate((160,), float32, "shared")
    c = allocate((4,), float32, "local")
    ptx_mma_fill(4, c, 0, dtype=float32)
    for i in unrolled(4):
        c[i] = c[i] + float32(ptx_lane_id(dtype=int32) * 4 + i)
    ptx_mma_store(S, 0, {stride}, c, 0, dtype=float32)
    tvm_storage_sync("shared")
    for i in range(5):
        C[i * 32 + threadIdx.x] = if_then_else((i * 32 + threadIdx.x) % 10 < 8, S[i * 32 + threadIdx.x], 0.0)
"""  # noqa: E501


def test_results_lie_in_rows() -> None:
    """What each lane holds goes to its places; rows of 10 words meet half of the banks twice."""
    c = np.zeros(160, np.float32)
    watch = Watch(outputs={"C"}, counting=True)
    interp.run(parse_func(RESULT.format(stride=10)), [c], watch=watch)
    rows, columns = RESULT_MAP.transpose(2, 0, 1)
    want = np.zeros((16, 10), np.float32)
    want[rows, columns] = np.arange(128).reshape(32, 4)
    np.testing.assert_array_equal(c.reshape(16, 10), want)
    (count,) = (n for (_, name, store), n in watch.counts.items() if name == "S" and store)
    assert (count.requests, count.passes) == (4, 8)
    with pytest.raises(AlignmentError, match="S"):
        interp.run(parse_func(RESULT.format(stride=9)), [c], watch=Watch(outputs={"C"}))


def test_layouts_of_fragments() -> None:
    kernel = fragments("col_major", "col_major", "col_major")
    (a, b, c), want = kernel.arguments()
    a, b = (
        np.ascontiguousarray(x.reshape(s).T).reshape(-1) for x, s in ((a, (16, 32)), (b, (32, 16)))
    )
    run(kernel.text, [a, b, c])
    np.testing.assert_array_equal(c.reshape(16, 16).T.reshape(-1), want)


@pytest.mark.parametrize("atom", [*ATOMS.values(), *FRAGMENTS.values()], ids=repr)
def test_every_element_has_its_lane(atom: object) -> None:
    """The lanes hold each element of a matrix once."""
    for lanes, rows, columns in (("a", "m", "k"), ("b", "k", "n"), ("c", "m", "n")):
        shape = getattr(atom, rows), getattr(atom, columns)
        counts = np.zeros(shape, int)
        where = getattr(atom, lanes)
        np.add.at(counts, (where[..., 0], where[..., 1]), 1)
        assert (counts == 1).all()


def test_tf32_keeps_ten_bits() -> None:
    one = np.float32(1)
    tie = one + np.float32(2**-11)
    values = np.array([one, tie, -tie, np.nextafter(tie, one), 3e38, np.inf, np.nan], np.float32)
    found = to_tf32(values)
    step = one + np.float32(2**-10)
    np.testing.assert_array_equal(found[:4], np.array([one, step, -step, one]))
    assert np.isinf(found[5]) and np.isnan(found[6])
    assert not (found[:5].view(np.uint32) & 0x1FFF).any()


FP16 = MMA["float16"].text
LD = ldmatrix().text
LOAD = '    for j in unrolled(1):\n        ptx_ldmatrix(0, 4, ".b16"'
WMMA = fragments().text
REFUSED: dict[str, tuple[str, str, str, type[InterpreterError], str]] = {
    "half a warp": (
        FP16,
        "launch(threadIdx.x, 32)",
        "launch(threadIdx.x, 16)",
        WarpError,
        "16 of whose 32 lanes do not run it",
    ),
    "a warp that has parted": (
        FP16,
        "    ptx_mma(",
        "    if threadIdx.x > 0:\n        ptx_mma(",
        WarpError,
        "1 of whose 32 lanes do not run it",
    ),
    "a row at an odd place": (LD, "% 16) * 16 +", "% 16) * 16 + 4 +", AlignmentError, "S"),
    "no barrier": (LD, '    tvm_storage_sync("shared")\n', "", RaceError, "data race on S"),
    "a value that nobody wrote": (FP16, "unrolled(8)", "unrolled(7)", UninitialisedError, "a"),
    "a fragment that was not loaded": (
        WMMA,
        "a, k, b, k",
        "a, 1 - k, b, k",
        UninitialisedError,
        "a",
    ),
    "an atom there is not": (FP16, "m16n8k16", "m8n8k4", InterpreterError, "m8n8k4 of fp16"),
    "another sum": (FP16, '"fp32"', '"fp16"', InterpreterError, "adds up in fp32"),
    "another shape": (
        WMMA,
        "c, 16, 16, 16, 0, 0.0",
        "c, 32, 8, 16, 0, 0.0",
        InterpreterError,
        "16 x 16",
    ),
    "addresses that differ in a warp": (
        WMMA,
        "address_of(C[0])",
        "address_of(C[threadIdx.x])",
        WarpError,
        "different addresses",
    ),
    "an element of a fragment": (
        WMMA,
        "    tvm_store",
        "    C[0] = c[0]\n    tvm_store",
        InterpreterError,
        "c is a fragment",
    ),
    "rows in global memory": (LD, "j * 8, S, ", "j * 8, A, ", InterpreterError, "shared memory"),
    "transposed bytes": (
        LD.replace("float16", "int8"),
        "(1, 2",
        "(1, 2",
        InterpreterError,
        "elements of 2 bytes",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case: tuple[str, str, str, type[InterpreterError], str]) -> None:
    text, old, new, kind, message = case
    assert old in text
    func = parse_func(text.replace(old, new))
    arrays = [np.ones(b.shape[0].value, b.dtype.numpy) for b in func.buffers]  # type: ignore[attr-defined]  # constant
    with pytest.raises(kind, match=message):
        interp.run(func, arrays, watch=Watch(outputs={"C"}))


def test_several_warps_and_some_of_them() -> None:
    """Whole warps may skip a product; blocks and warps are told apart."""
    kernel = MMA["int8"]
    text = kernel.text.replace(
        "launch(threadIdx.x, 32)",
        "launch(blockIdx.x, 3)\n    launch(threadIdx.y, 4)\n    launch(threadIdx.x, 32)",
    )
    text = text.replace("    ptx_mma", "    if threadIdx.y % 2 == 0:\n        ptx_mma")
    text = text.replace("Buffer((128,), int32)", "Buffer((1536,), int32)")
    text = text.replace("C[(", "C[(blockIdx.x * 4 + threadIdx.y) * 128 + (")
    (a, b, _), want = kernel.arguments(3)
    c = np.ones(1536, DType("int32").numpy)
    run(text, [a, b, c])
    found = c.reshape(3, 4, 128)
    assert (found[:, ::2] == want).all() and not found[:, 1::2].any()
