import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import float32, handle, int32
from autosched.tir.expr import Call, Expr, StringImm, Var
from autosched.tir.op import call, likely, lt
from autosched.transform.expressions.effects import has_side_effect, is_lasting

A, i = decl_buffer((8,), "float32", "A"), Var("i")
extern = Call(float32, "call_extern", (StringImm("f"),))


@pytest.mark.parametrize(
    ("expr", "lasting", "effect"),
    [
        (i * 2 + 1, True, False),
        (likely(lt(i, 3)), True, False),
        (call("exp", A[i]), False, False),
        (Call(handle, "address_of", (A[i],)), False, False),
        (extern + 1.0, False, True),
        (Call(int32, "no_such_intrinsic", ()), False, True),
    ],
)
def test_effects(expr: Expr, lasting: bool, effect: bool) -> None:
    assert is_lasting(expr) == lasting
    assert has_side_effect(expr) == effect
