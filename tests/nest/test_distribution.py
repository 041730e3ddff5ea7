"""When a loop over a reduction's start and its steps becomes two."""

from autosched.nest.distribution import MAX_ELEMENTS, footprint, is_distributable


def test_a_start_and_steps_that_write_the_same_are_taken_apart() -> None:
    start, steps = footprint("Y", 14, [(1, 14)]), footprint("Y", 14, [(1, 14), (0, 9)])
    assert start == steps
    assert is_distributable([start, steps], 8)


def test_loops_that_continue_each_other_are_one() -> None:
    assert footprint("Y", 64, [(4, 16), (1, 4)]) == footprint("Y", 64, [(1, 64)])
    assert footprint("Y", 64, [(8, 4), (1, 4)]) != footprint("Y", 64, [(1, 16)])


def test_parts_that_write_elsewhere_stay_together() -> None:
    one = footprint("Y", 14, [(1, 14)])
    for other in (footprint("Z", 14, [(1, 14)]), footprint("Y", 7, [(1, 14)]), None):
        assert not is_distributable([one, other], 8)
        assert not is_distributable([other, one], 8)


def test_iterations_that_meet_stay_together() -> None:
    part = footprint("Y", 7, [(1, 14)])
    assert not is_distributable([part, part], 2)


def test_addresses_that_do_not_rise_are_no_footprint() -> None:
    assert footprint("Y", 0, []) is None
    assert footprint("Y", -1, []) is None
    assert footprint("Y", 8, [(-1, 8)]) is None


def test_more_outputs_than_the_nearest_cache_holds_stay_together() -> None:
    part = footprint("Y", 64, [(1, 64)])
    assert is_distributable([part, part], MAX_ELEMENTS // 64)
    assert not is_distributable([part, part], MAX_ELEMENTS // 64 + 1)
