import numpy as np
import pytest

from autosched import te
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    seq,
)
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.loops.inject_double_buffer import InjectDoubleBuffer
from kit.stmts import loop

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
L = decl_buffer((4,), "float32", "L", scope="shared")
M = decl_buffer((4,), "float32", "M", scope="shared")
i, j, k = Var("i"), Var("j"), Var("k")


def allocate(buffer, *body):
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, seq(*body))


def fill(buffer, body):
    return AttrStmt(buffer, "double_buffer_scope", IntImm(1), body)


def copy(target, offset=0):
    return loop(j, 4, BufferStore(target, A[i * 4 + j + offset], (j,)))


def use(value):
    return loop(k, 4, BufferStore(B, value, (i * 4 + k,)))


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_a_symbolic_extent(make_func, same_result, extent) -> None:
    n = Var("n")
    body = loop(i, n, allocate(L, fill(L, copy(L)), use(L[k])))
    before = make_func(body, A, B, scalars=(n,))
    same_result(before, InjectDoubleBuffer()(before), extent)


def test_from_a_schedule() -> None:
    X = te.placeholder((32, 8), name="X")
    Y = te.compute((32, 8), lambda a, b: X[a, b] * 2.0, name="Y")
    Z = te.compute((32, 8), lambda a, b: Y[a, 7 - b] + 1.0, name="Z")
    s = te.create_schedule([Z.op])
    s[Y].compute_at(s[Z], Z.op.axis[0])
    s[Y].double_buffer()
    func = StorageFlatten()(schedule_to_prim_func(s, [X, Z]))
    doubled = InjectDoubleBuffer()(func)
    assert doubled is not func
    rng = np.random.default_rng(0)
    x, z = rng.random((32, 8), dtype=np.float32), np.zeros((32, 8), np.float32)
    interp.run(doubled, [x, z])
    np.testing.assert_array_equal(z, x[:, ::-1] * np.float32(2) + np.float32(1))
