"""The loops around accumulators."""

from autosched.nest.loop_nest import InnerLoop
from autosched.nest.loop_order import around_accumulators, last_reduction


def order(*loops: tuple[str, int]) -> tuple[str, str]:
    """Loops as letters: capital ones reduce. Their extents follow."""
    nest = [InnerLoop(extent, 0 if name.isupper() else 64, ()) for name, extent in loops]
    outer, inside = around_accumulators(nest, range(len(nest)))
    return "".join(loops[k][0] for k in outer), "".join(loops[k][0] for k in inside)


def test_the_innermost_reductions_are_inside() -> None:
    assert order(("i", 4), ("K", 32), ("L", 8)) == ("i", "KL")


def test_loops_inside_the_reduction_move_outside_of_it() -> None:
    assert order(("K", 32), ("i", 4), ("j", 4)) == ("ij", "K")


def test_a_short_reduction_takes_the_one_before_along() -> None:
    assert order(("K", 32), ("i", 4), ("L", 8), ("j", 2)) == ("ij", "KL")
    assert order(("K", 32), ("i", 4), ("L", 16), ("j", 2)) == ("Kij", "L")


def test_spatial_loops_without_a_reduction_outside_stay() -> None:
    assert order(("i", 4), ("L", 8), ("j", 2)) == ("ij", "L")


def test_the_last_reduction_is_one_that_runs_if_there_is_one() -> None:
    nest = [InnerLoop(extent, 0, ()) for extent in (8, 1)]
    assert last_reduction(nest) == 0
    assert last_reduction(nest[1:]) == 0


def test_only_the_loops_that_are_kept_are_put_in_order() -> None:
    nest = [InnerLoop(4, 64, ()), InnerLoop(32, 0, ()), InnerLoop(2, 1, ())]
    assert around_accumulators(nest, [1, 2]) == ((2,), (1,))
