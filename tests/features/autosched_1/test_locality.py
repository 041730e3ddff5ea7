"""Cache lines and traffic of a matmul of 64 x 64 floats, worked out by hand for lines of 64 bytes.

Under k: 4 lines of A (a row), 64 of B (a column), one of C. Under j and k: 4, 256 (all of B), 4.
Under i, j and k: 256 of each.
"""

import pytest

from autosched.features.autosched_1.locality import Locality, locality
from autosched.features.walk.scope import Access, BufferInfo, Loop
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Var

i, j, k = Var("i"), Var("j"), Var("k")


def access(
    kind: str,
    *index: Var,
    shape: tuple[int, int] = (64, 64),
    realized: tuple[int, int] | None = None,
) -> Access:
    buffer = decl_buffer(shape, name="A")
    info = BufferInfo(tuple(shape), 4, buffer, realized)
    return Access(buffer.data, info, kind, [index], frozenset(index))


def nest(**extents: int) -> list[Loop]:
    names = {"i": i, "j": j, "k": k}
    return [Loop(names[n], e, (0, 0), (0, e - 1), {}) for n, e in extents.items()]


@pytest.fixture
def matmul() -> Locality:
    accesses = [access("kReadWrite", i, j), access("kRead", i, k), access("kRead", k, j)]
    return locality(accesses, nest(i=64, j=64, k=64), 64)


def moved(found: Locality, capacity: int) -> list[int]:
    level = found.fits(capacity)
    return [found.lines_moved(which, level) for which in range(len(found.lines))]


def test_lines_per_level(matmul: Locality) -> None:
    c, a, b = matmul.lines
    assert a == [256, 4, 4, 1]
    assert b == [256, 256, 64, 1]
    assert c == [256, 4, 1, 1]
    assert matmul.bytes == [768 * 64, 264 * 64, 69 * 64, 3 * 64]
    assert matmul.inner == [64**3, 64**2, 64, 1]


def test_all_data_fit(matmul: Locality) -> None:
    assert moved(matmul, 48 * 1024) == [256, 256, 256]


def test_b_stays_while_rows_change(matmul: Locality) -> None:
    """All of B and a row of A and C fit: nothing is loaded twice."""
    assert matmul.fits(32 * 1024) == 1
    assert moved(matmul, 32 * 1024) == [256, 256, 256]


def test_b_is_loaded_for_every_row(matmul: Locality) -> None:
    """A column of B, a row of A: A's row stays while j runs, B comes again for every i."""
    assert matmul.fits(8 * 1024) == 2
    assert moved(matmul, 8 * 1024) == [4 * 64, 4 * 64, 256 * 64]


def test_nothing_fits(matmul: Locality) -> None:
    """Only the innermost loop's last iteration is kept: its own regions for every i and j."""
    assert moved(matmul, 1) == [64**2, 4 * 64**2, 64 * 64**2]


def test_elements_and_memory(matmul: Locality) -> None:
    assert matmul.elements[2] == [4096, 4096, 64, 1]
    accesses = [access("kReadWrite", i, j), access("kRead", i, k), access("kRead", k, j)]
    assert matmul.memory(accesses) == [129 * 4, (64 + 64 + 4096) * 4, 3 * 4096 * 4]


def test_tables_gain_an_entry() -> None:
    loops = nest(i=64, j=16)
    a = access("kWrite", i, j)
    locality([a], loops, 64)
    assert [loop.table[a.data] for loop in loops] == [[(1024, 4)], [(16, 4)]]


def test_runs_join_where_inner_dimensions_are_whole() -> None:
    whole, part = access("kRead", i, j), access("kRead", i, j, shape=(64, 128))
    found = locality([whole, part], nest(i=8, j=64), 64)
    assert found.runs == [8 * 64 * 4, 64 * 4]


def test_short_runs_share_lines_in_narrow_storage() -> None:
    """Four rows of two elements, eight elements apart: 26 elements from first to last, 2 lines."""
    narrow = access("kRead", i, j, shape=(64, 8))
    wide = access("kRead", i, j, shape=(64, 128))
    found = locality([narrow, wide], nest(i=4, j=2), 64)
    assert [lines[0] for lines in found.lines] == [2, 4]


def test_the_realised_part_is_the_storage() -> None:
    tile = access("kRead", i, j, shape=(64, 128), realized=(4, 2))
    assert locality([tile], nest(i=4, j=2), 64).lines[0][0] == 1
