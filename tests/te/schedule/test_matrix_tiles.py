"""Products on tensor cores: the lockstep run equals NumPy, no bank is met twice, NVRTC takes them.

Operands are small integers, of which every sum is exact.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.codegen.nvrtc import load_nvrtc
from autosched.driver import lower_func, lower_to_kernels, schedule_ops
from autosched.errors import CompileError, ScheduleError
from autosched.referee.device_pipeline import device_function
from autosched.referee.static_checks import BARRIERS, UNIFORM, prove
from autosched.runtime.cuda_artifact import cuda_artifact
from autosched.target import cuda_target
from autosched.te.intrin.registry import instruction
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.matrix_stages import MatrixTile
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_watch import Watch
from autosched.tir.op import max_
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.device.shared_layout import plan_layout

TYPES = {
    "mma.m16n8k16.f16": ("float16", "float16", "float32"),
    "mma.m16n8k16.bf16": ("bfloat16", "bfloat16", "float32"),
    "mma.m16n8k32.s8": ("int8", "int8", "int32"),
    "mma.m16n8k32.u8.s8": ("uint8", "int8", "int32"),
    "mma.m16n8k8.tf32": ("float32", "float32", "float32"),
}
OF_WARPGROUPS = {
    "wgmma.m64k64.f16": ("float16", "float16", "float32"),
    "wgmma.m64k64.bf16": ("bfloat16", "bfloat16", "float32"),
    "wgmma.m64k128.s8": ("int8", "int8", "int32"),
    "wgmma.m64k128.u8.s8": ("uint8", "int8", "int32"),
}
F16 = "mma.m16n8k16.f16"
GROUP_F16 = "wgmma.m64k64.f16"
SMALL = MatrixTile(32, 32, 32, 16, 16)
GROUP = MatrixTile(64, 64, 64, 16, 64)
GROUP_S8 = MatrixTile(64, 64, 128, 16, 64)


def product(
    m: int, n: int, k: int, left: str, right: str, total: str, turned: str = "", bias: bool = False
) -> tuple[list[Tensor], Tensor]:
    """Arguments, and C = A B; the operands named in `turned` are stored by columns."""
    a = te.placeholder((k, m) if "a" in turned else (m, k), left, "A")
    b = te.placeholder((n, k) if "b" in turned else (k, n), right, "B")
    axis = te.reduce_axis((0, k), "k")

    def term(i: Any, j: Any) -> Any:
        x = a[axis, i] if "a" in turned else a[i, axis]
        y = b[j, axis] if "b" in turned else b[axis, j]
        return x.astype(total) * y.astype(total)

    c = te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=axis), "C")
    if not bias:
        return [a, b, c], c
    d = te.placeholder((n,), total, "bias")
    return [a, b, d, te.compute((m, n), lambda i, j: max_(c[i, j] + d[j], 0), "D")], c


def tiled(
    arguments: list[Tensor], c: Tensor, tile: MatrixTile, name: str
) -> tuple[Schedule, PrimFunc]:
    s = te.create_schedule(arguments[-1].op)
    s.matrix_tiles(c, tile, name, None if arguments[-1] is c else arguments[-1])
    return s, schedule_ops(s, arguments)


def run(arguments: list[Tensor], func: PrimFunc, turned: str) -> Watch:
    """Runs the kernel and compares it with NumPy."""
    rng = np.random.default_rng(0)
    shapes = [[e.value for e in t.shape] for t in arguments]  # type: ignore[attr-defined]  # constants
    arrays: list[np.ndarray[Any, Any]] = [
        rng.integers(-4, 5, shape).astype(t.dtype.numpy)
        for t, shape in zip(arguments, shapes, strict=True)
    ]
    a, b = (x.astype(np.int64) for x in arrays[:2])
    want = (a.T if "a" in turned else a) @ (b.T if "b" in turned else b)
    if len(arrays) == 4:
        want = np.maximum(want + arrays[2].astype(np.int64), 0)
    watch = Watch(outputs={arguments[-1].name}, counting=True)
    interp.run(func, arrays, watch=watch)
    np.testing.assert_array_equal(arrays[-1], want)
    return watch


def degrees(watch: Watch) -> dict[tuple[str, bool], float]:
    """Passes of shared memory for a request, by buffer and whether it is stored."""
    return {key[1:]: count.conflict_degree for key, count in watch.counts.items() if count.passes}


CASES: dict[str, tuple[str, tuple[int, int, int], str, bool, MatrixTile]] = {
    "f16 that divides": (F16, (64, 64, 128), "", False, MatrixTile(64, 64, 32, 32, 32)),
    "f16 of odd sizes": (F16, (17, 1, 31), "", False, MatrixTile(32, 16, 16, 16, 16, 2)),
    "f16 by columns, bias": (F16, (40, 24, 48), "ab", True, replace(SMALL, stages=4)),
    "bf16": ("mma.m16n8k16.bf16", (20, 40, 48), "b", False, SMALL),
    "int8": ("mma.m16n8k32.s8", (20, 24, 80), "b", True, replace(SMALL, block_k=64)),
    "int8 that must be turned": ("mma.m16n8k32.s8", (20, 24, 40), "", False, SMALL),
    "bytes of two types": ("mma.m16n8k32.u8.s8", (20, 24, 40), "b", True, SMALL),
    "tf32": ("mma.m16n8k8.tf32", (20, 24, 20), "b", False, replace(SMALL, stages=1)),
    "warpgroups": (GROUP_F16, (128, 128, 256), "", False, MatrixTile(128, 128, 64, 16, 128, 3)),
    "warpgroups, odd sizes": (GROUP_F16, (70, 65, 333), "", False, replace(GROUP, stages=4)),
    "warpgroups, by columns": (GROUP_F16, (72, 200, 336), "ab", True, replace(GROUP, stages=4)),
    "warpgroups, rows by columns": ("wgmma.m64k64.bf16", (130, 72, 200), "a", False, GROUP),
    "warpgroups, one stage": (
        "wgmma.m64k64.bf16",
        (64, 40, 136),
        "b",
        True,
        replace(GROUP, stages=1),
    ),
    "warpgroups, bytes": (
        "wgmma.m64k128.s8",
        (70, 65, 333),
        "b",
        True,
        replace(GROUP_S8, stages=4),
    ),
    "warpgroups, bytes that must be turned": (
        "wgmma.m64k128.u8.s8",
        (64, 128, 256),
        "",
        False,
        MatrixTile(64, 128, 256, 16, 128, 2),
    ),
    "warpgroups, two steps": (
        GROUP_F16,
        (64, 192, 512),
        "",
        False,
        MatrixTile(64, 192, 128, 16, 192, 2),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(case: str) -> None:
    name, sizes, turned, bias, tile = CASES[case]
    arguments, c = product(*sizes, *(TYPES | OF_WARPGROUPS)[name], turned, bias)
    _, func = tiled(arguments, c, tile, name)
    final = device_function(func)
    watch = run(arguments, final, turned)
    assert set(degrees(watch).values()) <= {1.0, 4.0 if "turned" in case else 1.0}
    proofs = {p.question: p.trouble for p in prove(final)}
    assert not proofs[BARRIERS] and not proofs[UNIFORM]


@pytest.mark.parametrize("turned", ["", "b"])
@pytest.mark.parametrize("name", TYPES)
def test_memory_is_met_as_well_as_it_can_be(name: str, turned: str) -> None:
    """Sectors as few as the bytes, no bank twice; bytes that are turned are stored in four passes.

    Each element of A and B is copied once, and each of C stored once.
    """
    arguments, c = product(64, 64, 64, *TYPES[name], turned)
    tile = MatrixTile(64, 64, 2 * instruction(name).extent("k"), 32, 32, 2)
    watch = run(arguments, device_function(tiled(arguments, c, tile, name)[1]), turned)
    sectors = Counter[str]()
    for (_, buffer, _), count in watch.counts.items():
        sectors[buffer] += count.sectors
    for tensor in arguments:
        assert sectors[tensor.name] == 64 * 64 * tensor.dtype.bytes // 32
    worst = {key for key, degree in degrees(watch).items() if degree > 1}
    bytes_turned = TYPES[name][1] == "int8" and not turned
    assert worst == ({("C.b", True)} if bytes_turned else set())
    assert max(degrees(watch).values()) == (4 if bytes_turned else 1)


@pytest.mark.parametrize("turned", ["", "a", "b"])
@pytest.mark.parametrize("name", OF_WARPGROUPS)
def test_tiles_of_warpgroups(name: str, turned: str) -> None:
    """Each element is copied once, no bank is met twice; the code is wgmma's, for sm_90 alone.

    Bytes that are turned while they are copied are stored in up to four passes.
    """
    step = instruction(name).extent("k")
    arguments, c = product(128, 128, 2 * step, *OF_WARPGROUPS[name], turned)
    _, func = tiled(arguments, c, MatrixTile(128, 128, step, 16, 128, 2), name)
    watch = run(arguments, device_function(func), turned)
    worst = {key for key, degree in degrees(watch).items() if degree > 1}
    of_bytes = step == 128
    assert worst <= ({("C.a", True), ("C.b", True)} if of_bytes else set())
    assert max(degrees(watch).values()) <= (4 if of_bytes else 1)
    for tensor in arguments:
        sectors = sum(x.sectors for (_, b, _), x in watch.counts.items() if b == tensor.name)
        size = math.prod(e.value for e in tensor.shape)  # type: ignore[attr-defined]  # constants
        assert sectors == size * tensor.dtype.bytes // 32
    lowered = lower_to_kernels(lower_func(func, cuda_target(arch="sm_90")))
    source = cuda_artifact(lowered, "main").source
    (used,) = load_nvrtc("sm_90").compile(source, "sm_90").resources.values()
    assert (used.stack, used.spill_loads) == (0, 0)
    if turned:  # the instruction is the same
        return
    shape = f"m64n128k{step // 4}"
    assert f"wgmma.mma_async.sync.aligned.{shape}" in source
    with pytest.raises(CompileError, match="wgmma"):
        load_nvrtc("sm_80").compile(source, "sm_80")


FAULTS = {
    "a group of copies too few": ("ptx_wait_group(1)", "ptx_wait_group(2)"),
    "the tile that is still read": ("(ko.outer + 2) % 4", "(ko.outer + 3) % 4"),
    "a product too few waited for": (", 1, 1, dtype=float32)", ", 1, 2, dtype=float32)"),
    "the last one not waited for": ("ptx_wgmma_wait(0)", "ptx_wgmma_wait(1)"),
    "no barrier": ('            tvm_storage_sync("shared")\n', ""),
    "the plain layout": (", 1, 1, dtype=float32)", ", 0, 1, dtype=float32)"),
    "a row further": ("threadIdx.z * 1024, C.b", "threadIdx.z * 1024 + 64, C.b"),
    "another slab": (" % 4 * 4096, 4096,", " % 4 * 4096, 512,"),
}


@cache
def _faultless(wide: bool) -> tuple[list[Tensor], str]:
    """A product by a warpgroup, of tiles of one or two slabs, that is right, as text."""
    arguments, c = product(64, 128, 512, *OF_WARPGROUPS[GROUP_F16])
    tile = MatrixTile(64, 128, 64, 16, 128, 4) if wide else replace(GROUP, stages=4)
    _, func = tiled(arguments, c, tile, GROUP_F16)
    text = to_text(lower_func(func, cuda_target(arch="sm_90")))
    run(arguments, parse_func(text), "")
    return arguments, text


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_warpgroups_are_found(fault: str) -> None:
    """In the lockstep run: products that go on while tiles are filled are done when waited for."""
    arguments, text = _faultless("slab" in fault)
    old, new = FAULTS[fault]
    if "slab" in fault:
        old = " % 4 * 8192, 4096,"
    assert old in text
    with pytest.raises((InterpreterError, AssertionError)):
        run(arguments, parse_func(text.replace(old, new)), "")


def test_tiles_of_warpgroups_begin_where_eight_rows_do() -> None:
    """Also where other memory, of an odd size, is in use beside them."""
    product = 'ptx_wgmma(64, "fp16", "fp16", "mk", "nk", C, 0, A, 0, B, 0, 0, 1, 0, dtype=float32)'
    text = f"""\
def main(D: Buffer((2,), float32)):
    launch(threadIdx.x, 128)
    C = allocate((1024,), float32, "wmma.accumulator")
    S = allocate((5001,), float32, "shared.dyn")
    A = allocate((4096,), float16, "shared.dyn")
    B = allocate((4096,), float16, "shared.dyn")
    S[0] = 1.0
    A[0] = float16(0)
    B[0] = float16(0)
    {product}
    D[0] = S[0]
"""
    body = parse_func(text).body
    found = {
        v.name: at for v, at in plan_layout(body, "shared.dyn", 16, "first_fit").offsets.items()
    }
    assert found["A"] % 1024 == found["B"] % 1024 == 0 and len(set(found.values())) == 3


def test_what_a_plain_layout_costs() -> None:
    """Rows of 64 and 128 bytes without a swizzle: four and eight passes for an ldmatrix of 8."""
    arguments, c = product(64, 64, 32, *TYPES[F16])
    _, func = tiled(arguments, c, MatrixTile(64, 64, 32, 32, 32, 3, swizzle=False), F16)
    found = degrees(run(arguments, device_function(func), ""))
    assert (found["C.a", False], found["C.b", False]) == (4, 8)


@pytest.mark.parametrize("name", TYPES)
def test_compiles(name: str) -> None:
    """For sm_80 and sm_90, with everything a warp holds in registers."""
    arguments, c = product(128, 128, 256, *TYPES[name], "b")
    tile = MatrixTile(64, 32, 2 * instruction(name).extent("k"), 32, 16)
    _, func = tiled(arguments, c, tile, name)
    for arch in ("sm_80", "sm_90"):
        lowered = lower_to_kernels(lower_func(func, cuda_target(arch=arch)))
        artifact = cuda_artifact(lowered, "main")
        shape = name.split(".")[1]
        assert f"mma.sync.aligned.{shape}" in artifact.source and "ldmatrix_x4" in artifact.source
        compiled = load_nvrtc(arch).compile(artifact.source, arch)
        (used,) = compiled.resources.values()
        assert (used.stack, used.spill_loads) == (0, 0)


REFUSED: dict[str, tuple[MatrixTile, str, str]] = {
    "types": (SMALL, "mma.m16n8k32.s8", "it sums up float32, the instruction int32"),
    "a warp beyond its block": (replace(SMALL, warp_m=64), F16, "warp_m must be a multiple of 16"),
    "half a step": (replace(SMALL, block_k=24), F16, "block_k must be a multiple of 16"),
    "too many warps": (MatrixTile(256, 256, 16, 16, 16), F16, "at most 32 warps, found 256"),
    "a size as text": (
        replace(SMALL, block_n="64"),  # type: ignore[arg-type]  # that is the mistake
        F16,
        r"block_n must be a whole number, found '64' \(str\)",
    ),
    "no tile": (
        (64, 64),  # type: ignore[dict-item]  # that is the mistake
        F16,
        r"expected a te\.MatrixTile, found \(64, 64\) \(tuple\)",
    ),
    "no stage": (replace(SMALL, stages=0), F16, "stages must be 1 to 8"),
    "part of a warpgroup": (
        replace(GROUP, block_m=96),
        GROUP_F16,
        "block_m must be a multiple of 64",
    ),
    "warps side by side": (replace(GROUP, block_n=128), GROUP_F16, "16 whole rows of the block"),
    "too many columns": (MatrixTile(64, 320, 64, 16, 320), GROUP_F16, "block_n is at most 256"),
    "half a row": (replace(GROUP, block_k=32), GROUP_F16, "block_k must be a multiple of 64"),
    "tiles as they are": (replace(GROUP, swizzle=False), GROUP_F16, "are swizzled"),
    "no stage of a warpgroup": (replace(GROUP, stages=0), GROUP_F16, "stages must be 1 to 8"),
    "too many warpgroups": (replace(GROUP, block_m=1024), GROUP_F16, "at most 32 warps, found 64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    tile, name, message = REFUSED[case]
    arguments, c = product(32, 32, 32, *TYPES[F16])
    with pytest.raises(ScheduleError, match=message):
        tiled(arguments, c, tile, name)


def test_what_is_no_product() -> None:
    a = te.placeholder((8, 8), "float16", "A")
    k = te.reduce_axis((0, 8), "k")
    rows = te.compute((8,), lambda i: te.sum(a[i, k].astype("float32"), axis=k), "rows")
    with pytest.raises(ScheduleError, match="it sums up no products"):
        te.create_schedule(rows.op).matrix_tiles(rows, SMALL, F16)
    twice = te.reduce_axis((0, 2), "twice")

    def doubled(i: Any, j: Any) -> Any:
        product = a[i, k].astype("float32") * a[j, k].astype("float32")
        return te.sum(product, axis=[k, twice])

    double = te.compute((8, 8), doubled, "double")
    with pytest.raises(ScheduleError, match="its sums must run over axes of both operands"):
        te.create_schedule(double.op).matrix_tiles(double, SMALL, F16)
    for combine, identity in ((lambda x, y: x + y + x * y, 0), (lambda x, y: x + y, 5)):
        reducer = te.comm_reducer(combine, lambda t, first=identity: te.const(first, t), "other")

        def other(i: Any, j: Any, reducer: Any = reducer) -> Any:
            return reducer(a[i, k].astype("float32") * a[k, j].astype("float32"), axis=k)

        no_sum = te.compute((8, 8), other, "no_sum")
        with pytest.raises(ScheduleError, match=r"it is no (plain )?sum"):
            te.create_schedule(no_sum.op).matrix_tiles(no_sum, SMALL, F16)
    arguments, c = product(32, 32, 32, *TYPES[F16], bias=True)
    s = te.create_schedule(arguments[-1].op)
    s[c].split(s[c].op.root_iter_vars[0], factor=2)
    with pytest.raises(ScheduleError, match="its loops were changed before"):
        s.matrix_tiles(c, SMALL, F16, arguments[-1])


@pytest.mark.parametrize("through", ["int16", "uint16"])
def test_factors_keep_what_their_casts_make_of_them(through: str) -> None:
    """Negative bytes that become uint16 first were multiplied as bytes."""
    a, b = te.placeholder((8, 8), "int8", "A"), te.placeholder((8, 8), "int8", "B")
    k = te.reduce_axis((0, 8), "k")

    def total(i: Any, j: Any) -> Any:
        factor = a[i, k].astype(through).astype("int32")
        return te.sum(factor * b[k, j].astype("int32"), axis=k)

    c = te.compute((8, 8), total, "C")
    s, name = te.create_schedule(c.op), "mma.m16n8k32.s8"
    if through == "int16":
        assert s.matrix_tiles(c, SMALL, name)
    else:
        with pytest.raises(ScheduleError, match="it multiplies uint16, the instruction int8"):
            s.matrix_tiles(c, SMALL, name)


def batches() -> tuple[list[Tensor], Tensor, Tensor | None]:
    a, b = (te.placeholder((3, n, 20), "float16", name) for n, name in ((20, "A"), (24, "B")))
    k = te.reduce_axis((0, 20), "k")

    def total(n: Any, i: Any, j: Any) -> Any:
        return te.sum(a[n, i, k].astype("float32") * b[n, j, k].astype("float32"), axis=k)

    c = te.compute((3, 20, 24), total, "C")
    return [a, b, c], c, None


def convolution(first: bool) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """Padded 7 x 7 images of 8 channels, which come first or last; 24 of them come out."""
    shape = (1, 8, 7, 7) if first else (1, 7, 7, 8)
    x = te.placeholder(shape, "float16", "X")
    w = te.placeholder((24, 8, 3, 3) if first else (3, 3, 8, 24), "float16", "W")
    rh, rw, rc = (te.reduce_axis((0, n), name) for n, name in ((3, "rh"), (3, "rw"), (8, "rc")))

    def at(h: Any, v: Any, channel: Any) -> Any:
        place = (0, channel, h - 1, v - 1) if first else (0, h - 1, v - 1, channel)
        inside = te.all(h >= 1, h < 8, v >= 1, v < 8)
        return te.if_then_else(inside, x[place], te.const(0.0, "float16"))

    padded = te.compute((9, 9, 8), at, "padded")

    def total(n: Any, *i: Any) -> Any:
        c, h, v = i if first else (i[2], *i[:2])
        weight = w[c, rc, rh, rw] if first else w[rh, rw, rc, c]
        product = padded[h + rh, v + rw, rc].astype("float32") * weight.astype("float32")
        return te.sum(product, axis=[rc, rh, rw] if first else [rh, rw, rc])

    c = te.compute((1, 24, 7, 7) if first else (1, 7, 7, 24), total, "C")
    return [x, w, c], c, padded


def one_term() -> tuple[list[Tensor], Tensor, Tensor | None]:
    """Sums over one term more, of an axis that no factor has."""
    a, b = (te.placeholder((n, 20), "float16", name) for n, name in ((20, "A"), (24, "B")))
    k, one = te.reduce_axis((0, 20), "k"), te.reduce_axis((0, 1), "one")

    def total(i: Any, j: Any) -> Any:
        product = a[i, k].astype("float32") * b[j, k].astype("float32")
        return te.sum(product, axis=[k, one])

    c = te.compute((20, 24), total, "C")
    return [a, b, c], c, None


def pointwise(height: int, width: int) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """A convolution of 1 x 1 windows, whose columns are the places of two images."""
    x = te.placeholder((2, 8, height, width), "float16", "X")
    w = te.placeholder((16, 8, 1, 1), "float16", "W")
    rc, rh, rw = (te.reduce_axis((0, n), name) for n, name in ((8, "rc"), (1, "rh"), (1, "rw")))

    def total(n: Any, c: Any, h: Any, v: Any) -> Any:
        product = x[n, rc, h + rh, v + rw].astype("float32") * w[c, rc, rh, rw].astype("float32")
        return te.sum(product, axis=[rc, rh, rw])

    c = te.compute((2, 16, height, width), total, "C")
    return [x, w, c], c, None


THREE_WARPS = MatrixTile(16, 96, 32, 16, 32, 3)


@pytest.mark.parametrize(
    ("made", "tile"),
    [
        (batches(), SMALL),
        (convolution(True), SMALL),
        (convolution(False), SMALL),
        (one_term(), SMALL),
        (pointwise(5, 6), THREE_WARPS),
        (pointwise(7, 6), THREE_WARPS),
        (pointwise(8, 6), THREE_WARPS),
    ],
    ids=[
        *("batches", "channels first", "channels last", "an axis of one term"),
        *("60 places in tiles of 96", "84 places in tiles of 96", "96 places in a tile"),
    ],
)
def test_other_products(made: tuple[list[Tensor], Tensor, Tensor | None], tile: MatrixTile) -> None:
    """Batches, and convolutions, whose rows are several axes: what the plain loops compute."""
    arguments, c, inlined = made
    rng = np.random.default_rng(0)
    shapes = [[e.value for e in t.shape] for t in arguments]  # type: ignore[attr-defined]  # constants
    arrays: list[np.ndarray[Any, Any]] = [
        rng.integers(-4, 5, s).astype(t.dtype.numpy) for t, s in zip(arguments, shapes, strict=True)
    ]
    want = [*arrays[:-1], np.zeros_like(arrays[-1])]
    interp.run(schedule_ops(te.create_schedule(c.op), arguments), want)
    s = te.create_schedule(c.op)
    s.matrix_tiles(c, tile, F16)
    if inlined is not None:
        s[inlined].compute_inline()
    watch = Watch(outputs={"C"}, counting=True)
    interp.run(device_function(schedule_ops(s, arguments)), arrays, watch=watch)
    np.testing.assert_array_equal(arrays[-1], want[-1])
    loaded = [count for key, count in degrees(watch).items() if not key[1]]
    assert max(loaded) == 1 or tile is THREE_WARPS  # whose result is read along its columns


def too_many(batch: bool) -> tuple[list[Tensor], Tensor]:
    if batch:
        arguments, c, _ = batches()
        return arguments, c
    return product(100, 150, 64, *TYPES[F16])


@pytest.mark.parametrize(
    ("batch", "name", "tile"), [(True, F16, SMALL), (False, F16, SMALL), (False, GROUP_F16, GROUP)]
)
def test_more_blocks_than_a_launch_has_along_y_or_z(
    batch: bool, name: str, tile: MatrixTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, c = too_many(batch)
    rng = np.random.default_rng(0)
    shapes = [[e.value for e in t.shape] for t in arguments]  # type: ignore[attr-defined]  # constants
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in shapes[:2])
    expected = a.astype(np.float32) @ (b.swapaxes(1, 2) if batch else b).astype(np.float32)
    for most, along in ((65535, {"blockIdx.x", "blockIdx.y"}), (1, {"blockIdx.x"})):
        monkeypatch.setattr("autosched.te.schedule.tile_loops.MOST_BLOCKS", most)
        s = te.create_schedule(c.op)
        s.matrix_tiles(c, tile, name)
        func = device_function(schedule_ops(s, arguments))
        used = set(re.findall(r"blockIdx\.[xyz]", to_text(func)))
        assert used - {"blockIdx.z"} == along and ("blockIdx.z" in used) == (batch and most > 1)
        found = np.zeros(shapes[2], np.float32)
        interp.run(func, [a, b, found], check_races=True)
        np.testing.assert_array_equal(found, expected)
