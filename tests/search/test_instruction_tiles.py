"""Which tiles of a tensor instruction are tried."""

from __future__ import annotations

import pytest

from autosched import te
from autosched.search.rules.instruction_tiles import few_registers, tiles_of, tiles_over_rows
from autosched.te.intrin.product import Product, as_product
from autosched.te.intrin.registry import instruction
from kit.te import compute_of


def product_of(name: str, m: int, n: int, k: int = 64) -> Product:
    it = instruction(name)
    a, b = te.placeholder((m, k), it.a.dtype.name), te.placeholder((k, n), it.b.dtype.name)
    r, c = te.reduce_axis((0, k), "r"), it.c.dtype.name
    out = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(c) * b[r, j].astype(c), axis=r))
    found = as_product(compute_of(out), it)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "m", "n", "first"),
    [
        ("vdpbf16ps.zmm", 512, 512, [(6, 4), (4, 4), (8, 2), (12, 2)]),
        ("vdpbf16ps.zmm", 14, 256, [(14, 2), (7, 2)]),  # neither leaves a row out
        ("vdpbf16ps.zmm", 1, 512, [(1, 8)]),
        ("vfmadd.ymm.bf16", 512, 512, [(6, 2), (5, 2), (4, 2), (4, 3)]),
        ("vpmaddwd.ymm.s8", 512, 512, [(6, 2), (5, 2), (4, 2), (14, 1)]),
        ("vpmaddwd.ymm.s8", 14, 256, [(14, 1)]),
        ("amx.tdpbssd", 512, 512, [(2, 2), (1, 2)]),
        ("amx.tdpbssd", 16, 512, [(1, 2), (1, 1)]),
    ],
)
def test_those_that_take_the_least_come_first(
    name: str, m: int, n: int, first: list[tuple[int, int]]
) -> None:
    found = tiles_of(product_of(name, m, n), instruction(name))
    assert found[: len(first)] == first
    assert len(found) <= 4


def test_one_tile_is_not_parallel() -> None:
    it = instruction("vdpbf16ps.zmm")
    assert (7, 2) in tiles_of(product_of(it.name, 14, 32), it)
    assert (14, 2) not in tiles_of(product_of(it.name, 14, 32), it)


def test_accumulators_and_operands_fit_the_registers() -> None:
    """vpmaddwd takes one for what it hands on."""
    it = instruction("vpmaddwd.zmm")
    assert (14, 2) in tiles_of(product_of(it.name, 14, 256), it)  # 28, 2, 1 and 1
    assert few_registers(instruction("vpmaddwd.ymm")) and not few_registers(it)


def test_rows_of_vectors_are_no_steps_of_another_axis() -> None:
    it = instruction("vdpbf16ps.zmm")
    assert tiles_over_rows(product_of(it.name, 14, 256), it) == []
