"""Inner, middle and outer loops of each kind."""

import pytest

from autosched.features.ansor.names import POSITIONS
from autosched.features.autosched_1.positions import MIXED, NONE, annotation, position
from autosched.features.walk.scope import Loop
from autosched.tir.expr import Var

VARS = {name: Var(name) for name in ("i0", "k0", "i1", "k1", "i2", "k2")}
NEST = [Loop(var, 4, (0, 0), (0, 3), {}) for var in VARS.values()]
STORED = frozenset(var for name, var in VARS.items() if name.startswith("i"))


@pytest.mark.parametrize(
    ("loop", "expected"),
    list(
        enumerate(
            (
                "OuterSpatial",
                "OuterReduce",
                "MiddleSpatial",
                "MiddleReduce",
                "InnerSpatial",
                "InnerReduce",
            )
        )
    ),
)
def test_six_positions(loop: int, expected: str) -> None:
    assert POSITIONS[position(NEST[loop], NEST, STORED)] == f"kPos{expected}"


def test_loops_of_one_iteration_do_not_count() -> None:
    nest = [*NEST[:4], Loop(VARS["i2"], 1, (0, 0), (0, 0), {})]
    assert POSITIONS[position(NEST[2], nest, STORED)] == "kPosInnerSpatial"


def test_several_loops() -> None:
    assert annotation([], NEST, STORED) == NONE
    assert annotation([NEST[0], NEST[1]], NEST, STORED) == MIXED
    assert POSITIONS[annotation([NEST[5]], NEST, STORED)] == "kPosInnerReduce"
