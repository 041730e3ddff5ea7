from collections.abc import Callable

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import floordiv, floormod, truncdiv, truncmod
from autosched.tir.stmt import BufferStore, For, ForKind, IfThenElse
from autosched.transform.expressions.renormalize_split_pattern import RenormalizeSplitPattern
from kit.types import BodyText, MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
i = Var("i")


def func_of(make_func: Callable[..., PrimFunc], index: Expr) -> PrimFunc:
    store = IfThenElse(index < 60, BufferStore(B, A[index], (i,)))
    return make_func(For(i, IntImm(0), IntImm(64), ForKind.SERIAL, store), A, B)


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    before = func_of(make_func, i % 32 // 4)
    after = RenormalizeSplitPattern()(before)
    assert (
        body_text(after)
        == """\
for i in range(64):
    if i // 4 % 8 < 60:
        B[i] = A[i // 4 % 8]"""
    )
    same_result(before, after)


def test_inside_other_expressions(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    before = func_of(make_func, (i * 3 % 48 // 2 + 1) % 12 // 3)
    after = RenormalizeSplitPattern()(before)
    assert "A[(i * 3 // 2 % 24 + 1) // 3 % 4]" in body_text(after)
    same_result(before, after)


@pytest.mark.parametrize(
    "index",
    [
        floordiv(floormod(i, 30), 4),  # 4 does not divide 30
        floordiv(floormod(i, 4), 8),
        floormod(floordiv(i, 4), 8),
        truncdiv(truncmod(i, 32), 4),
        floordiv(i, 4),
    ],
)
def test_other_forms_return_the_same_object(make_func: MakeFunc, index: Expr) -> None:
    func = func_of(make_func, index)
    assert RenormalizeSplitPattern()(func) is func
