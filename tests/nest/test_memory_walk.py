"""The order of the code's loops, and the lines and pages that it walks through."""

import itertools
import random

import pytest

from autosched.features.autosched_1.machine import machine_of
from autosched.features.autosched_1.vector_code import vector_code
from autosched.nest.core import PAGE
from autosched.nest.loop_nest import InnerLoop
from autosched.nest.memory_walk import _touched, walk
from autosched.nest.plan import ScalarStore
from autosched.nest.visits import Visit
from autosched.target import HardwareParams, Target

TARGET = Target(
    "cpu", HardwareParams(2), 2, "cascadelake", vector_bytes=64, caches=(2**15, 2**20, 2**25)
)
MACHINE = machine_of(TARGET)
MEMORY = MACHINE.memory
LINE = 64


def matmul(i: int, j: int, k: int, n: int) -> tuple[InnerLoop, ...]:
    """C[i, j] += A[i, k] * B[k, j], all of rows of n elements."""
    return (
        InnerLoop(j // 16, 16, (0, 16)),
        InnerLoop(i, n, (n, 0)),
        InnerLoop(k, 0, (1, n)),
        InnerLoop(16, 1, (0, 1), True),
    )


def test_the_tile_is_inside_the_reduction() -> None:
    """2 vectors of the loop over j and 8 of that over i are held in registers while k runs."""
    store = ScalarStore(matmul(64, 64, 32, 1024), 2, 4, 1.0, True, True)
    order = vector_code(store, MACHINE.core, 3).order
    assert order == (
        Visit(2, (32, 0, 32)),
        Visit(8, (8 * 1024, 8 * 1024, 0)),
        Visit(32, (0, 1, 1024)),
        Visit(2, (16, 0, 16)),
        Visit(8, (1024, 1024, 0)),
        Visit(16, (1, 0, 1)),
    )


def test_a_copy_moves_every_line_once() -> None:
    visits = Visit(1024, (64, 64)), Visit(64, (1, 1))
    found = walk(visits, (4, 4), MEMORY)
    assert found.lines == (2 * 4096, 2 * 4096, 2 * 4096)
    assert found.runs == (2, 2, 2)  # each array is one run
    assert found.pages == (2 * 64, 2 * 64)


def test_rows_a_page_apart_compete_for_the_same_lines_of_a_cache() -> None:
    """16 rows of 64 lines are 64 KiB and fit L2; 512 rows of one line are 32 KiB and fit L1 when
    they follow each other, but with a page between them only 8 do, and L2 holds 256."""
    again = 10
    close = walk((Visit(again, (0,)), Visit(512, (16,)), Visit(16, (1,))), (4,), MEMORY)
    apart = walk((Visit(again, (0,)), Visit(512, (1024,)), Visit(16, (1,))), (4,), MEMORY)
    assert close.lines == (512, 512, 512)
    assert apart.lines == (again * 512, again * 512, 512)
    assert apart.runs == (again * 512, again * 512, 512)
    assert close.cycles < apart.cycles
    few = walk((Visit(again, (0,)), Visit(256, (1024,)), Visit(16, (1,))), (4,), MEMORY)
    assert few.lines == (again * 256, 256, 256)


def test_pages_beyond_the_tlb_are_looked_up_again() -> None:
    rows = walk((Visit(10, (0,)), Visit(65, (1024,))), (4,), MEMORY)
    assert rows.pages == (650, 65)


def test_a_walk_times_a_factor() -> None:
    found = walk((Visit(64, (1,)),), (4,), MEMORY)
    twice = found.times(2.0)
    assert twice.lines == tuple(2 * lines for lines in found.lines)
    assert twice.cycles == pytest.approx(2 * found.cycles)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_touched_is_counted_like_the_addresses(seed: int) -> None:
    """Loops whose steps are whole multiples of what runs inside them, as those of tiles are."""
    rng = random.Random(seed)
    stride, loops = 4, []
    for _ in range(rng.randint(1, 3)):
        extent = rng.randint(2, 9)
        loops.append((stride, extent))
        stride *= extent
        stride = -(-stride // LINE) * LINE * rng.choice([1, 1, 2, 5, 64])
    starts = [
        sum(s * k for (s, _), k in zip(loops, ks, strict=True))
        for ks in itertools.product(*(range(extent) for _, extent in loops))
    ]
    lines = {start // LINE for start in starts}
    found = _touched(tuple(loops), 4, LINE)
    assert found.lines == len(lines), f"seed {seed}: {loops}"
    assert found.pages >= len({start // PAGE for start in starts}), f"seed {seed}: {loops}"
    if found.needed:
        places = {line % (PAGE // LINE) for line in lines}
        assert found.needed >= len(lines) // len(places) * PAGE, f"seed {seed}: {loops}"


def test_strides_that_meet_within_a_page_share_their_places() -> None:
    """Rows 16 KiB apart, three columns 1 KiB apart and again 7 KiB further: the second three are at
    places of the first, or next to them. 96 lines at four places need 24 of each."""
    moving = [(1024, 3), (7 * 1024, 2), (16 * 1024, 16)]
    assert _touched(tuple(moving), 4, LINE).needed == 96 // 4 * PAGE


@pytest.mark.parametrize(
    ("rows", "moved"), [(12, 12), (15, 0.5 * 15 + 0.5 * 15 * 64), (24, 24 * 64), (30, 30 * 64)]
)
def test_lines_that_exceed_their_places_are_lost_little_by_little(rows: int, moved: float) -> None:
    """Rows a page apart have one line in each of the ways of a cache; all are read in turns 64
    times."""
    again = (Visit(64, (0,)), Visit(rows, (PAGE // 4,)))
    capacity = 10 * PAGE if rows == 15 else 12 * PAGE
    memory = MEMORY._replace(caches=(capacity, 2**25, 2**26))
    assert walk(again, (4,), memory).lines[0] == pytest.approx(moved)
