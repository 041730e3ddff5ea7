"""Loop nests in numbers."""

import itertools
import random

from autosched.nest.loop_nest import (
    Drop,
    InnerLoop,
    LoopNest,
    is_injective,
    without_single_iterations,
)


def loops(*pairs: tuple[int, int]) -> tuple[InnerLoop, ...]:
    return tuple(InnerLoop(extent, stride, ()) for extent, stride in pairs)


def test_injective_means_that_no_element_is_written_twice() -> None:
    rng = random.Random(0)
    seen = set()
    for _ in range(400):
        nest = [(rng.choice((1, 2, 3, 5)), rng.choice((0, 1, 2, 3, 4, 6, 12))) for _ in range(3)]
        width = rng.choice((1, 2, 4))
        moving = [(extent, stride) for extent, stride in nest if stride]
        written = [
            sum(stride * i for (_, stride), i in zip(moving, at)) + lane
            for at in itertools.product(*(range(extent) for extent, _ in moving))
            for lane in range(width)
        ]
        found = is_injective(loops(*nest), width)
        seen.add(found)
        if found:  # the reverse need not hold: loops may interleave
            assert len(set(written)) == len(written), (nest, width)
    assert seen == {True, False}


def test_loops_that_run_once_disappear() -> None:
    nest = LoopNest(loops((1, 64), (8, 1), (1, 0), (4, 0)), 1, ())
    less = without_single_iterations(nest)
    assert [loop.extent for loop in less.loops] == [8, 4]
    assert less.moves == (Drop((0, 2)),)
    assert without_single_iterations(less) is less


def test_one_loop_that_reduces_stays() -> None:
    nest = LoopNest(loops((8, 1), (1, 0), (1, 0)), 1, ())
    less = without_single_iterations(nest)
    assert [(loop.extent, loop.stride) for loop in less.loops] == [(8, 1), (1, 0)]
    assert less.moves == (Drop((1,)),)
