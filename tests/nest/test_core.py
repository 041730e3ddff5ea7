"""The model of a core."""

import numpy as np

from autosched.nest.core import Core, core_of


def test_registers_go_by_the_width_of_vectors() -> None:
    assert core_of(64) == Core(64, 32)
    assert core_of(32) == Core(32, 16)
    assert core_of(16) == Core(16, 32)
    assert core_of(16, 16) == Core(16, 16)  # SSE


def test_a_register_holds_at_least_one_element() -> None:
    assert (core_of(64).lanes(4), core_of(16).lanes(8), core_of(4).lanes(8)) == (16, 2, 1)


def test_what_binds_is_the_slowest_part() -> None:
    core = core_of(64)
    assert core.cycles(work=12, loads=4, others=2, least=4) == 6  # two multiply-adds a cycle
    assert core.cycles(work=2, loads=14, others=2, least=4) == 7  # two loads a cycle
    assert core.cycles(work=10, loads=10, others=8, least=4) == 7  # four instructions a cycle
    assert core.cycles(work=1, loads=1, others=2, least=4) == 4  # one accumulation waits


def test_arrays_of_candidates_take_the_same_cycles() -> None:
    core = core_of(64)
    work, loads = np.array([12.0, 2.0, 10.0, 1.0]), np.array([4.0, 14.0, 10.0, 1.0])
    others, least = np.array([2, 2, 8, 2]), 4.0
    one_by_one = [core.cycles(w, n, o, 4.0) for w, n, o in zip(work, loads, others)]
    assert np.asarray(core.cycles(work, loads, others, least)).tolist() == one_by_one
