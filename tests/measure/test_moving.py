"""Moving the bytes of an operator: every vector is read and written, near the asked ratio."""

import numpy as np
import pytest

from autosched.measure import moving
from autosched.measure.moving import seconds_to_move, turn
from autosched.runtime.memory import empty
from autosched.target import cpu_target


@pytest.mark.parametrize(
    ("reads", "writes", "vectors"),
    [
        (100, 100, (4, 4)),
        (200, 100, (4, 2)),
        (100, 200, (2, 4)),
        (400, 100, (4, 1)),
        (1000, 1, (8, 0)),
        (0, 7, (0, 8)),
        (333, 250, (4, 3)),
    ],
)
def test_a_turn_has_the_ratio_of_the_bytes(
    reads: int, writes: int, vectors: tuple[int, int]
) -> None:
    assert turn(reads, writes) == vectors


@pytest.mark.parametrize(("loads", "stores"), [(2, 1), (1, 3), (0, 8)])
def test_all_is_written_and_nothing_else(loads: int, stores: int) -> None:
    width, turns = 16, 5
    source, target = (empty((1 + width * turns * 8,), np.uint8) for _ in range(2))
    source[:], target[:] = 3, 9
    moving._mover(width, loads, stores)(source.ctypes.data, target.ctypes.data, turns, 3)
    written = width * turns * stores
    assert (target[:written] != 9).all()
    assert (target[written:] == 9).all()


def test_more_bytes_take_longer() -> None:
    target = cpu_target(1)
    assert 0 < seconds_to_move(target, 2**14, 2**13) < seconds_to_move(target, 2**21, 2**20)
    with pytest.raises(ValueError, match="expected bytes"):
        seconds_to_move(target, 0, 0)
