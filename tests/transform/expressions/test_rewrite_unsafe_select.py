from collections.abc import Callable

from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import float32
from autosched.tir.expr import Broadcast, Call, Expr, IntImm, Ramp, Select, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import cast, const, floordiv, if_then_else, lt
from autosched.tir.stmt import BufferStore, For, ForKind
from autosched.transform.expressions.rewrite_unsafe_select import RewriteUnsafeSelect
from kit.stmts import as_a
from kit.types import BodyText, MakeFunc, SameResult

A, B = decl_buffer((8,), "float32", "A"), decl_buffer((16,), "float32", "B")
i = Var("i")
zero = const(0.0)


def stored(
    make_func: Callable[..., PrimFunc], value: Expr, index: Expr = i
) -> tuple[PrimFunc, PrimFunc]:
    loop = For(i, IntImm(0), IntImm(16), ForKind.SERIAL, BufferStore(B, value, (index,)))
    before = make_func(loop, A, B)
    return before, RewriteUnsafeSelect()(before)


def test_golden(make_func: MakeFunc, body_text: BodyText) -> None:
    _, after = stored(make_func, Select(lt(i, 8), A[i], zero))
    assert (
        body_text(after)
        == """\
for i in range(16):
    B[i] = if_then_else(i < 8, A[i], 0.0)"""
    )


def test_it_makes_an_illegal_read_legal(make_func: MakeFunc, same_result: SameResult) -> None:
    _, after = stored(make_func, Select(lt(i, 8), A[i], zero))
    _, guarded = stored(make_func, if_then_else(lt(i, 8), A[i], zero))
    same_result(guarded, after)


def test_arithmetic_arms_are_unchanged(make_func: MakeFunc) -> None:
    before, after = stored(make_func, Select(lt(i, 8), const(1.0), zero))
    assert after is before


def test_impure_calls_count(make_func: MakeFunc) -> None:
    call = Call(float32, "call_extern", (StringImm("f"),))
    _, after = stored(make_func, Select(lt(i, 8), call, zero))
    assert isinstance(as_a(BufferStore, as_a(For, after.body).body).value, Call)


def test_what_is_guarded_inside_counts(make_func: MakeFunc, body_text: BodyText) -> None:
    """The inner condition may hold where the outer one does not: A[i - 1] of i = 0."""
    inner = if_then_else(lt(i, 4), A[i - 1], zero)
    _, after = stored(make_func, Select(lt(0, i), inner, zero))
    assert body_text(after).endswith(
        "B[i] = if_then_else(0 < i, if_then_else(i < 4, A[i - 1], 0.0), 0.0)"
    )


def test_divisions_by_an_index_count(make_func: MakeFunc) -> None:
    _, after = stored(make_func, Select(lt(i, 5), cast(float32, floordiv(64, i - 5)), zero))
    assert isinstance(as_a(BufferStore, as_a(For, after.body).body).value, Call)
    before, after = stored(make_func, Select(lt(i, 5), cast(float32, floordiv(i, 5)), zero))
    assert after is before


def test_vector_conditions_stay(make_func: MakeFunc) -> None:
    lanes = Ramp(i, IntImm(1), 4)
    value = Select(lt(lanes, Broadcast(IntImm(4), 4)), A[lanes], Broadcast(zero, 4))
    before, after = stored(make_func, value, lanes)
    assert after is before
