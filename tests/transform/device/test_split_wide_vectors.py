"""Vectors taken apart: what is left, and that it computes the same."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from autosched.errors import CompileError
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, Shuffle, Var
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import TRUE, Allocate, BufferStore, LetStmt, seq
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.device.split_wide_vectors import SplitWideVectors
from kit.stmts import func_of

Check = Callable[..., None]
HEAD = """\
def main(A: Buffer((64,), {t}), B: Buffer((64,), {t}), n: int32):
    launch(threadIdx.x, 4)
"""


def function(body: str, dtype: str = "float32") -> PrimFunc:
    return parse_func(HEAD.format(t=dtype) + textwrap.indent(body, "    "))


def accesses(func: PrimFunc) -> list[int]:
    """The lanes of each store."""
    return [s.indices[0].dtype.lanes for s in stmts(func.body) if isinstance(s, BufferStore)]


def only_whole_vectors(func: PrimFunc) -> bool:
    """A vector is a load, a variable, a place, a constant for all lanes or put together."""
    allowed = BufferLoad | Var | Ramp | Shuffle | Broadcast
    vectors = [e for e in all_exprs(func.body) if e.dtype.lanes > 1]
    return all(isinstance(e, allowed) or is_guarded_load(e) for e in vectors)


def is_guarded_load(e: Expr) -> bool:
    return isinstance(e, Call) and e.op == "if_then_else" and isinstance(e.args[1], BufferLoad)


COPY = "B[ramp({place}, 1, {lanes})] = A[ramp({place}, 1, {lanes})] * A[0:{lanes}]"


@pytest.mark.parametrize(
    ("dtype", "place", "lanes", "expected"),
    [
        ("float32", "threadIdx.x * 4", 4, [4]),
        ("float32", "threadIdx.x * 8", 8, [4, 4]),
        ("float32", "threadIdx.x * 3", 3, [1, 1, 1]),
        ("float32", "threadIdx.x * 6", 4, [2, 2]),
        ("float32", "threadIdx.x * 4 + 1", 4, [1, 2, 1]),
        ("float32", "n", 4, [1, 1, 1, 1]),
        ("float32", "8", 3, [2, 1]),
        ("float16", "threadIdx.x * 8", 8, [8]),
        ("float16", "threadIdx.x * 16", 16, [8, 8]),
        ("int8", "threadIdx.x * 16", 16, [16]),
        ("float64", "threadIdx.x * 4", 4, [2, 2]),
    ],
)
def test_pieces(
    dtype: str, place: str, lanes: int, expected: list[int], same_result: Check
) -> None:
    func = function(COPY.format(place=place, lanes=lanes), dtype)
    after = SplitWideVectors()(func)
    assert accesses(after) == expected
    assert only_whole_vectors(after)
    same_result(func, after, 3)


BODIES = {
    "a strided load": "B[threadIdx.x * 4:threadIdx.x * 4 + 4] = A[ramp(threadIdx.x, 2, 4)]",
    "a reversed store": "B[ramp(threadIdx.x * 4 + 3, -1, 4)] = A[0:4]",
    "one value for all": "B[0:4] = broadcast(A[5], 4)",
    "a gather": "B[0:4] = A[int32x4(A[0:4]) + broadcast(8, 4)]",
    "a vector condition": "B[0:4] = Select(A[0:4] > A[4:8], A[0:4], broadcast(0.0, 4))",
    "a mask": "store(B[0:4], A[0:4], predicate=ramp(threadIdx.x, 1, 4) < broadcast(n, 4))",
    "a masked load": "store(B[0:4], load(A[0:4], predicate=ramp(0, 1, 4) < broadcast(n, 4)), "
    "predicate=ramp(0, 1, 4) < broadcast(n, 4))",
    "a guarded load": "B[0:4] = if_then_else(n < 5, A[0:4], broadcast(0.0, 4))",
    "guards of lanes": "B[0:4] = if_then_else(A[0:4] < A[4:8], A[0:4], A[8:12])",
    "in place": "B[0:8] = B[0:8] + A[0:8]",
    "over itself": "B[0:8] = B[4:12] + A[0:8]",
    "backwards over itself": "B[4:12] = B[0:8]",
    "a scalar of a vector": "B[threadIdx.x] = shuffle([A[0:4]], [2])",
    "exp": "B[0:4] = exp(A[0:4])",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_same_is_computed(body: str, same_result: Check) -> None:
    func = function(body.replace("threadIdx.x * 4", "0") if "itself" in body else body)
    after = SplitWideVectors()(func)
    assert after is not func
    same_result(func, after, 2)
    assert only_whole_vectors(after)


def test_a_guarded_load_stays_one_access() -> None:
    after = SplitWideVectors()(function(BODIES["a guarded load"]))
    (let,) = [s for s in stmts(after.body) if isinstance(s, LetStmt)]
    assert let.var.dtype.lanes == 4


def test_bools_are_stored_one_by_one(same_result: Check) -> None:
    func = function("B[0:4] = A[4:8]", "bool")
    after = SplitWideVectors()(func)
    assert accesses(after) == [1, 1, 1, 1]
    same_result(func, after, 0)


def test_memory_that_holds_vectors_becomes_memory_of_elements(same_result: Check) -> None:
    f32 = DType("float32")
    A, B = decl_buffer((16,), f32, "A"), decl_buffer((16,), f32, "B")
    L = decl_buffer((2,), "float32x4", "L", scope="local")

    def four(buffer: object, start: int) -> Expr:
        return Ramp(IntImm(start), IntImm(1), 4)

    body = seq(
        BufferStore(L, BufferLoad(A, (four(A, 4),)), (IntImm(1),)),
        BufferStore(B, BufferLoad(L, (IntImm(1),)) + 1.0, (four(B, 8),)),
    )
    func = func_of(Allocate(L.data, L.dtype, L.shape, TRUE, body), A, B)
    after = SplitWideVectors()(func)
    (memory,) = [s for s in stmts(after.body) if isinstance(s, Allocate)]
    assert memory.dtype is f32
    assert only_whole_vectors(after)
    same_result(func, after)


def test_scalar_code_stays() -> None:
    func = function("B[threadIdx.x] = A[threadIdx.x] + 1.0")
    assert SplitWideVectors()(func) is func


def test_a_vector_variable_is_one_for_each_lane(same_result: Check) -> None:
    func = function("v: float32x4 = A[0:4] + B[0:4]\nB[0:4] = v * A[0:4]\nB[4:8] = v")
    after = SplitWideVectors()(func)
    names = [s.var.name for s in stmts(after.body) if isinstance(s, LetStmt)]
    assert [name for name in names if name.startswith("v")] == ["v_0", "v_1", "v_2", "v_3"]
    assert only_whole_vectors(after)
    same_result(func, after, 3)


@pytest.mark.parametrize(
    "statement",
    [
        "B[0:4] = let j = n + 1 in A[j * 4:j * 4 + 4] * A[0:4]",
        "B[0:4] = let v = A[0:4] in let j = n + 1 in v + A[j * 4:j * 4 + 4]",
        "B[1] = let v = A[0:4] in shuffle([v], [2]) - shuffle([v], [1])",
        "x: float32 = let v = A[0:4] in shuffle([v], [2])\nB[0:4] = broadcast(x, 4)",
    ],
)
def test_what_a_let_expression_binds_stays_inside_of_it(statement: str, same_result: Check) -> None:
    func = function(statement)
    after = SplitWideVectors()(func)
    assert only_whole_vectors(after)
    same_result(func, after, 3)


def test_the_lanes_of_a_variable_from_elsewhere_are_not_known() -> None:
    v = Var("v", DType("float32x4"))
    B = decl_buffer((64,), "float32", "B")
    func = func_of(BufferStore(B, v, (Ramp(IntImm(0), IntImm(1), 4),)), B)
    with pytest.raises(CompileError, match="the vector variable v cannot be split"):
        SplitWideVectors()(func)
