"""A part of the lanes of a vector expression has those lanes' values."""

from collections.abc import Sequence

import numpy as np
import pytest

from autosched.tir import interp, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, LetStmt, Stmt, seq
from autosched.transform.vector.lanes import lane_slice
from kit.types import Array

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((16,), "float32", "B")
X = Var("x")
LANES = Ramp(X * 2 + 1, IntImm(3), 16)
F32 = DType("float32").with_lanes(16)
ONE = op.const(1.0, F32)


def load(index: Expr) -> BufferLoad:
    return BufferLoad(A, (index,))


EXPRESSIONS = {
    "a strided load": load(LANES),
    "a falling load": load(Ramp(IntImm(40), IntImm(-2), 16)),
    "a broadcast": load(LANES) + Broadcast(BufferLoad(A, (X,)), 16),
    "a cast of the index": op.cast(F32, LANES),
    "a choice": op.select(load(LANES) > ONE, load(LANES), -ONE),
    "elementwise calls": op.max_(op.call("exp", load(LANES)), op.call("sqrt", load(LANES + 1))),
    "a sum of ramps": load(LANES + Ramp(IntImm(0), IntImm(-1), 16)),
    "a predicate": BufferLoad(A, (LANES,), Broadcast(IntImm(70), 16) > LANES),
}


def result(stores: Sequence[Stmt]) -> Array:
    handles = [pointer(b.name + "_h", b.dtype) for b in (A, B)]
    body = LetStmt(X, IntImm(2), seq(*stores))
    func = PrimFunc(tuple(handles), body, dict(zip(handles, (A, B))), {})
    a = np.random.default_rng(0).random(64, np.float32) * 4
    out = np.zeros(16, np.float32)
    interp.run(func, [a, out])
    return out


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_parts_are_the_whole(name: str, lanes: int) -> None:
    e = EXPRESSIONS[name]
    whole = result([BufferStore(B, e, (Ramp(IntImm(0), IntImm(1), 16),))])
    stores = []
    for start in range(0, 16, lanes):
        part = lane_slice(e, start, lanes)
        at = IntImm(start) if lanes == 1 else Ramp(IntImm(start), IntImm(1), lanes)
        assert part is not None and part.dtype.lanes == lanes
        stores.append(BufferStore(B, part, (at,)))
    np.testing.assert_array_equal(result(stores), whole)


def test_a_scalar_stays_and_other_calls_have_no_parts() -> None:
    assert lane_slice(X + 1, 4, 2) == X + 1
    shuffled = Call(F32, "vectorlow", (load(Ramp(IntImm(0), IntImm(1), 32)),))
    assert lane_slice(shuffled, 0, 4) is None
    assert lane_slice(ONE + shuffled, 0, 4) is None
