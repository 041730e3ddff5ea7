"""Reuse, lines and intensity of one store, quirks of `ansor-0.19` included."""

from collections.abc import Sequence

import pytest

from autosched.features.ansor.slots import AccessFeatures, analyse_store
from autosched.features.walk.scope import Access, BufferInfo, Loop
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.walk import free_vars

i, j, k = Var("i"), Var("j"), Var("k")


def loops(**extents: int) -> list[Loop]:
    names = {"i": i, "j": j, "k": k}
    return [Loop(names[n], e, (0, 0), (0, e - 1), {}) for n, e in extents.items()]


def access(kind: str, shape: tuple[int, ...], *indices: tuple[Expr, ...]) -> Access:
    buffer = decl_buffer([n or 1 for n in shape], name="A")
    used = frozenset().union(*(free_vars(e) for index in indices for e in index))
    return Access(buffer.data, BufferInfo(shape, 4, buffer), kind, list(indices), used)


def analyse(
    accesses: Sequence[Access], nest: Sequence[Loop], ops: int = 1, line: int = 64
) -> tuple[list[AccessFeatures], list[float]]:
    prod = 1.0
    for loop in nest:
        prod *= loop.extent
    return analyse_store(accesses, nest, prod, ops, line)


def test_without_loops() -> None:
    (slot,), curve = analyse([access("kWrite", (), ())], [])
    assert (slot.bytes, slot.unique_bytes, slot.lines, slot.unique_lines) == (4, 4, 1, 1)
    assert (slot.reuse_type, slot.stride) == ("kNoReuse", 0)
    assert curve == [0.0] * 10


def test_a_loop_without_the_access_is_reuse() -> None:
    slots, _ = analyse([access("kRead", (8,), (k,)), access("kWrite", (4,), (i,))], loops(i=4, k=8))
    read, write = slots
    assert (read.reuse_type, read.reuse_ct, read.reuse_dis_iter) == ("kLoopMultipleRead", 4, 8)
    assert read.reuse_dis_bytes == 8 * 4 + 4
    assert (write.reuse_type, write.reuse_ct, write.reuse_dis_iter) == ("kLoopMultipleRead", 8, 1)
    assert write.reuse_dis_bytes == 8  # one element of each buffer


def test_an_earlier_store_under_the_same_loop_is_serial_reuse() -> None:
    nest = loops(i=16)
    store = access("kWrite", (16,), (i,))
    analyse([store], nest)
    (slot,), _ = analyse([store], nest)
    assert slot.reuse_type == "kSerialMultipleReadWrite"
    assert (slot.reuse_dis_iter, slot.reuse_dis_bytes, slot.reuse_ct) == (1, 8, 1)


def test_lines_follow_the_stride() -> None:
    slots, _ = analyse(
        [access("kRead", (64, 64), (j, i)), access("kWrite", (64, 64), (i, j))], loops(i=64, j=64)
    )
    column, row = slots
    assert (column.stride, column.lines) == (64, 4096)
    assert (row.stride, row.lines) == (1, 256)


def test_contiguity_is_judged_by_the_stored_buffer() -> None:
    slots, _ = analyse(
        [access("kRead", (64, 2), (i, IntImm(0))), access("kWrite", (64, 64), (i, j))],
        loops(i=64, j=64),
    )
    # The read covers one column only, yet the store's full last dimension is not the read's.
    assert [slot.unique_lines for slot in slots] == [pytest.approx(4.0), pytest.approx(256.0)]


def test_intensity_rises_to_that_of_the_whole_nest() -> None:
    _, curve = analyse(
        [access("kRead", (8,), (k,)), access("kWrite", (4,), (i,))], loops(i=4, k=8), ops=2
    )
    assert curve[0] < curve[-1] == pytest.approx(2 * 32 / ((8 + 4) * 4))
    assert curve == sorted(curve)


def test_no_float_operations_no_intensity() -> None:
    _, curve = analyse([access("kWrite", (4,), (i,))], loops(i=4), ops=0)
    assert curve == [0.0] * 10


def test_no_bytes_as_an_int32_no_intensity() -> None:
    """Threads that round 2**31 - 1 elements up to 2**31: Ansor counts none."""
    slots, curve = analyse([access("kWrite", (2**31 - 1,), (i,))], loops(i=2**31), ops=1)
    assert curve == [0.0] * 10 and len(slots) == 1


def test_intensity_where_all_operations_round_to_more_than_all() -> None:
    """A tenth of ten times 26,847,000 is 26,847,002 in single precision."""
    _, curve = analyse([access("kWrite", (4,), (i,))], loops(i=4), ops=6_711_750)
    assert curve[-1] == pytest.approx(26_847_000 / (4 * 4))
    _, again = analyse([access("kWrite", (4,), (i,))], loops(j=1, i=4), ops=6_711_750)
    assert again[-1] == curve[-1]


def test_operations_of_a_loop_whose_extent_varies_are_those_of_its_first_run() -> None:
    nest = loops(i=4, j=10)
    nest[1].size = i % 2 * 8 + 2
    store = access("kWrite", (64,), (j,))
    _, curve = analyse([store], nest)
    assert curve[0] == pytest.approx(2 / 8)  # of two elements while i is 0
    assert curve[-1] == pytest.approx(2 * 4 / 40)
