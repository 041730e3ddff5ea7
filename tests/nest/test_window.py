"""Windows of a reduction: what they load, when they are unrolled, in which order."""

from __future__ import annotations

import itertools
import math

import pytest

from autosched.nest.core import core_of
from autosched.nest.loop_nest import InnerLoop
from autosched.nest.plan import ScalarStore, plan_store
from autosched.nest.register_tile import Operand, cost, needs, window_of
from autosched.nest.window import Window, elements, statements, window_over

Moves = list[tuple[int, int]]


@pytest.mark.parametrize(
    "moves",
    [
        [(1, 4), (1, 3)],
        [(2, 7), (1, 3)],
        [(2, 4), (1, 2)],  # they meet, but share nothing
        [(4, 7), (1, 3)],
        [(16, 7), (16, 3), (1, 5), (1, 3)],
        [(32, 7), (16, 3), (1, 4)],
        [(-8, 5), (8, 3)],
        [],
    ],
)
def test_elements_are_counted_once(moves: Moves) -> None:
    points = itertools.product(*(range(extent) for _, extent in moves))
    places = {sum(k * s for k, (s, _) in zip(p, moves, strict=True)) for p in points}
    assert elements(moves) == len(places)


def read(tile: tuple[int, ...], window: tuple[int, ...]) -> Operand:
    return Operand(1.0, tuple(s != 0 for s in tile), tile, window)


IMAGE = read((16, 1, 0), (16, 1))  # X[h + rh, w + rw]
WEIGHTS = read((0, 0, 16), (384, 128))  # K[rh, rw, c]


def test_what_steps_share_is_loaded_once() -> None:
    found = window_over((IMAGE, WEIGHTS), (3, 3), 9, (2, 4, 1), 32, 1.0)
    assert found == Window(2, 9, 8, (4 * 6 + 9) / 9, 1 + 9, 0)


@pytest.mark.parametrize(
    ("steps", "tile", "registers", "weight"),
    [
        pytest.param(27, (2, 4, 1), 32, 1.0, id="the accumulators live longer"),
        pytest.param(9, (1, 1, 8), 32, 1.0, id="no step reads what another one does"),
        pytest.param(9, (2, 4, 1), 16, 1.0, id="registers do not suffice"),
        pytest.param(9, (7, 14, 1), 512, 1.0, id="the code is long"),
        pytest.param(9, (2, 4, 1), 32, 4.0, id="so are its statements"),
        pytest.param(1, (2, 4, 1), 32, 1.0, id="there is one step"),
    ],
)
def test_other_reductions_have_no_window(
    steps: int, tile: tuple[int, ...], registers: int, weight: float
) -> None:
    assert window_over((IMAGE, WEIGHTS), (3, 3), steps, tile, registers, weight) is None


@pytest.mark.parametrize(
    ("image", "window", "tile"),
    [
        (IMAGE, (3, 3), (3, 4, 2)),
        (read((32, 2, 0), (16, 1)), (3, 3), (3, 4, 2)),  # of strides 2
        (read((16, 1, 0), (32, 2)), (3, 2), (5, 5, 1)),  # dilated
        (read((-16, 0, 5), (16, 1)), (3, 4), (3, 2, 2)),
        (read((16, 1, 0), (7, 16, 1)), (3, 3), (3, 4, 2)),  # a loop outside of the window
    ],
)
def test_statements_are_in_the_order_of_what_they_read(
    image: Operand, window: tuple[int, ...], tile: tuple[int, ...]
) -> None:
    found = statements(image, window, tile)
    assert len(found) == len(set(found)) == math.prod(window) * math.prod(tile)
    for point in itertools.product(*map(range, tile)):
        steps = [step for step, at in found if at == point]
        assert steps == sorted(steps)  # results do not change by a bit
    along = image.along[-len(window) :]
    places = [
        sum(k * s for k, s in zip((*step, *point), (*along, *image.steps), strict=True))
        for step, point in found
    ]
    assert len([place for place, _ in itertools.groupby(places)]) == len(set(places))


def convolution(column: int, lanes: int = 8) -> tuple[InnerLoop, ...]:
    """rw, rc.o, h.o x 2, w x 14, rh, rc.i, h.i x 7 of a 3x3 convolution with `column` channels."""
    row = 16 * column
    return (
        InnerLoop(3, 0, (column, 65536)),
        InnerLoop(64, 0, (4, 1024)),
        InnerLoop(2, 98 * lanes, (7 * row, 0)),
        InnerLoop(14, lanes, (column, 0)),
        InnerLoop(3, 0, (row, 196608)),
        InnerLoop(4, 0, (1, 256)),
        InnerLoop(7, 14 * lanes, (row, 0)),
        InnerLoop(lanes, 1, (0, 1), True),
    )


@pytest.mark.parametrize("column", [256, 272])
def test_rows_of_a_convolution_share_what_they_read(column: int) -> None:
    """Whether or not rows compete for one place of the cache: 0.78 and 0.83 of the time of the
    best tile that goes step by step (Sapphire Rapids, 256-bit vectors), as fast as LLVM's O3."""
    loops = convolution(column)
    (piece,) = plan_store(ScalarStore(loops, 2, 4, 1.0, updates=True), core_of(64))
    tile = piece.tile
    assert tile is not None
    window = window_of(tile.problem, tile.chosen, 12)
    assert window is not None
    assert (window.steps, window.copies, tile.factors[6]) == (12, 14, 7)
    assert needs(tile.problem, tile.chosen, 12) == (window.live, window.loads)
    assert window.loads < 0.6 * 15
    assert cost(tile.problem, tile.chosen, 12) < cost(tile.problem, tile.chosen, 24)
    assert window_of(tile.problem, tile.chosen, 24) is None


@pytest.mark.parametrize(
    ("loops", "windows"),
    [
        (convolution(256, lanes=2), True),
        ((*convolution(256)[:6], convolution(256)[6]._replace(conditional=True)), True),
        ((*convolution(256)[:6], convolution(256)[6]._replace(blocks=(2, 0))), True),
        (convolution(256), False),
    ],
    ids=["two lanes", "guarded reads", "uneven reads", "a GPU"],
)
def test_no_window_is_looked_for(loops: tuple[InnerLoop, ...], windows: bool) -> None:
    core = core_of(64)._replace(windows=windows)
    lanes = () if len(loops) == 8 else (InnerLoop(8, 1, (0, 1), True),)
    for piece in plan_store(ScalarStore((*loops, *lanes), 2, 4, 1.0, updates=True), core):
        assert piece.tile is not None
        assert not piece.tile.problem.window
