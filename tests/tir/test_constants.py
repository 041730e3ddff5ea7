from autosched.tir.constants import is_one, is_zero, whole_number
from autosched.tir.dtype import bool_, int64
from autosched.tir.expr import Broadcast, FloatImm, IntImm, Ramp, Var
from autosched.tir.stmt import FALSE, TRUE


def test_constants_of_all_integer_types() -> None:
    assert is_zero(IntImm(0)) and is_zero(IntImm(0, int64)) and is_zero(FALSE)
    assert is_one(IntImm(1)) and is_one(IntImm(1, int64)) and is_one(TRUE)
    for other in (IntImm(2), IntImm(-1), FloatImm(1.0), Var("i"), Var("c", bool_)):
        assert not is_zero(other) and not is_one(other)


def test_whole_numbers_in_all_lanes() -> None:
    assert whole_number(IntImm(-3, int64)) == whole_number(Broadcast(IntImm(-3), 4)) == -3
    for other in (FloatImm(1.0), Var("i"), Ramp(IntImm(0), IntImm(1), 4)):
        assert whole_number(other) is None
