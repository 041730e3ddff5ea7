"""Constant folding agrees with evaluation: one thread, many threads, and vector lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autosched.tir import interp, interp_math, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType, bool_, float32, int32, int64
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
)
from autosched.tir.stmt import BufferStore, Stmt
from autosched.tir.walk import substitute
from kit.corners import corners
from kit.programs import Programs
from kit.random_values import INTS as CORNER_INTS
from kit.random_values import SMALL
from kit.tir import number_of

# (class, operand, ...) or ("leaf", index)
Tree = tuple[Any, ...]

INTS = ("int8", "uint8", "int32", "uint32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
ARITHMETIC = {Add: op.add, Sub: op.sub, Mul: op.mul, Min: op.min_, Max: op.max_}
DIVISIONS = {Div: op.truncdiv, Mod: op.truncmod, FloorDiv: op.floordiv, FloorMod: op.floormod}
COMPARISONS = {EQ: op.eq, NE: op.ne, LT: op.lt, LE: op.le, GT: op.gt, GE: op.ge}
LOGIC = {And: op.and_, Or: op.or_}
FOLD: dict[Any, Callable[..., Expr]] = {**ARITHMETIC, **DIVISIONS, **COMPARISONS, **LOGIC}


@st.composite
def programs(draw: DrawFn, dtype: str, depth: int = 3) -> tuple[Tree, list[float]]:
    """(tree, constants): nodes are (class, ...) tuples, leaves are ("leaf", index)."""
    kind_of = DType(dtype)
    values: list[float] = []

    def leaf() -> Tree:
        if kind_of.is_float:
            value = draw(st.floats(-64, 64, width=16))
        else:
            low, high = int(kind_of.min_value), int(kind_of.max_value)
            value = draw(st.integers(max(low, -9), 9) | st.integers(low, high))
        values.append(value)
        return ("leaf", len(values) - 1)

    def number(level: int) -> Tree:
        if level == 0 or draw(st.integers(0, 4)) == 0:
            return leaf()
        kinds = [*ARITHMETIC, *(DIVISIONS if not kind_of.is_float else (Div,)), Select]
        kind = draw(st.sampled_from(kinds))
        if kind is Select:
            return (Select, truth(level - 1), number(level - 1), number(level - 1))
        return (kind, number(level - 1), number(level - 1))

    def truth(level: int) -> Tree:
        kind = draw(st.sampled_from([*COMPARISONS, *LOGIC, Not]))
        if level == 0 or kind in COMPARISONS:
            kind = kind if kind in COMPARISONS else LT
            return (kind, number(max(level - 1, 0)), number(max(level - 1, 0)))
        if kind is Not:
            return (Not, truth(level - 1))
        return (kind, truth(level - 1), truth(level - 1))

    return number(depth), values


class LeftToRunError(Exception):
    pass


def build(tree: Tree, leaves: Sequence[Expr], fold: bool) -> Expr:
    """The expression of `tree`, by the folding functions or the raw classes."""
    kind, *args = tree
    if kind == "leaf":
        return leaves[args[0]]
    parts = [build(a, leaves, fold) for a in args]
    if kind is Select:
        return (op.select if fold else Select)(*parts)
    if kind is Not:
        return (op.not_ if fold else Not)(*parts)
    result: Expr = (FOLD[kind] if fold else kind)(*parts)
    if fold and isinstance(result, Div):
        raise LeftToRunError  # x / 0.0
    return result


def run_scalar(tir: type[Programs], tree: Tree, dtype: DType, values: Sequence[float]) -> Any:
    variables = [Var(f"x{k:02}", dtype) for k in range(len(values))]
    numbers = {v.name: value for v, value in zip(variables, values)}
    return tir.evaluate(build(tree, variables, False), **numbers)


def run_wide(
    tir: type[Programs], tree: Tree, dtype: DType, values: Sequence[float], vector: bool
) -> Any:
    """All values loaded from memory: by 4 threads, or as vectors of 4 lanes."""
    n = 4
    buffers = [decl_buffer((n,), dtype, f"b{k}") for k in range(len(values))]
    if vector:
        index: Expr = Ramp(IntImm(0), IntImm(1), n)
    else:
        axis = tir.thread("threadIdx.x")
        index = axis.var
    body = build(tree, [BufferLoad(b, (index,)) for b in buffers], False)
    out = decl_buffer((n,), body.dtype.element, "out")
    stmt: Stmt = BufferStore(out, body, (index,))
    if not vector:
        stmt = tir.launch(stmt, (axis, n))
    arrays = [np.array([v] * n).astype(dtype.numpy) for v in values]
    result = np.zeros(n, body.dtype.element.numpy)
    interp.run(tir.func([*buffers, out], stmt), [*arrays, result], eager_select=True)
    assert (result == result[0]).all() or (result != result).all()
    return result[0]


def same(a: object, b: float) -> bool:
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("name", [*INTS, *FLOATS])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_folding_equals_evaluation(name: str, data: st.DataObject, tir: type[Programs]) -> None:
    dtype = DType(name)
    tree, values = data.draw(programs(name))
    values = [dtype.numpy.type(v) for v in values]
    values = [float(v) if dtype.is_float else int(v) for v in values]
    try:
        folded = build(tree, [op.const(v, dtype) for v in values], True)
    except ZeroDivisionError:  # what is written so is refused; run, it is 0
        run_scalar(tir, tree, dtype, values)
        return
    except LeftToRunError:
        return
    found = [
        run_scalar(tir, tree, dtype, values),
        run_wide(tir, tree, dtype, values, False),
        run_wide(tir, tree, dtype, values, True),
    ]
    assert isinstance(folded, IntImm | FloatImm)
    assert all(same(x, folded.value) for x in found), (found, folded)


I, J = Var("i"), Var("j")
F = Var("f", "float32")


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: I + 0, lambda: I),
        (lambda: 0 + I, lambda: I),
        (lambda: I - 0, lambda: I),
        (lambda: I * 1, lambda: I),
        (lambda: I * 0, lambda: IntImm(0)),
        (lambda: I // 1, lambda: I),
        (lambda: I % 1, lambda: IntImm(0)),
        (lambda: op.floordiv(0, I), lambda: IntImm(0)),
        (lambda: op.and_(True, I < J), lambda: I < J),
        (lambda: op.and_(I < J, False), lambda: IntImm(0, bool_)),
        (lambda: op.or_(I < J, True), lambda: IntImm(1, bool_)),
        (lambda: op.or_(False, I < J), lambda: I < J),
        (lambda: op.min_(I, I), lambda: I),
        (lambda: op.max_(I, I), lambda: I),
        (lambda: op.select(True, I, J), lambda: I),
        (lambda: op.if_then_else(False, I, J), lambda: J),
        (lambda: op.likely(True), lambda: IntImm(1, bool_)),
        (lambda: op.all_(), lambda: IntImm(1, bool_)),
        (lambda: op.any_(), lambda: IntImm(0, bool_)),
        (lambda: op.truncdiv(-7, 2), lambda: IntImm(-3)),
        (lambda: op.truncmod(-7, 2), lambda: IntImm(-1)),
        (lambda: op.floordiv(-7, 2), lambda: IntImm(-4)),
        (lambda: op.floormod(-7, 2), lambda: IntImm(1)),
        (lambda: op.cast("int32", op.const(-1.9)), lambda: IntImm(-1)),
        (lambda: op.cast("int8", 200), lambda: IntImm(-56, DType("int8"))),
        (lambda: op.neg(op.const(3)), lambda: IntImm(-3)),
    ],
)
def test_fold(found: Callable[[], Expr], wanted: Callable[[], Expr]) -> None:
    assert found() is wanted()


def test_floats_do_not_fold_where_it_would_change_the_value() -> None:
    assert isinstance(op.floordiv(F, 1.0), FloorDiv)
    assert isinstance(op.truncdiv(F, 0.0), Div)


def test_division_by_zero_is_refused() -> None:
    for fn in (op.truncdiv, op.truncmod, op.floordiv, op.floormod):
        with pytest.raises(ZeroDivisionError):
            fn(I, 0)


@pytest.mark.parametrize("fn", [op.truncdiv, op.truncmod, op.floordiv, op.floormod])
def test_a_division_whose_divisor_becomes_zero_is_zero(fn: Callable[..., Expr]) -> None:
    """As it is where it runs: one iteration of a loop that is unrolled."""
    e = fn(I, I - 3)
    assert e.with_children((I, IntImm(0))) is IntImm(0)
    assert substitute(e, {I: IntImm(3)}) is IntImm(0)


def test_integer_slash_is_ambiguous() -> None:
    with pytest.raises(TypeError, match="ambiguous"):
        I / 2


def test_numbers_adapt_to_the_other_operand() -> None:
    assert (F + 1).dtype is float32
    assert (I + 1).dtype is int32
    assert (I + 2**40).dtype is int64
    assert (I + 1.5).dtype is float32
    assert (Var("n", "int64") + 1).dtype is int64
    wider = I + Var("n", "int64")
    assert isinstance(wider, Add) and wider.a is Cast(int64, I)
    assert (Var("u", "uint8") + 1).dtype.name == "uint8"


def test_vectors_take_scalars() -> None:
    vector = Ramp(I, IntImm(1), 4)
    sums = vector + 1
    assert isinstance(sums, Add) and sums.b is Broadcast(IntImm(1), 4)
    selected = op.select(op.lt(vector, 3), 1.0, 0.0)
    assert selected.dtype.name == "float32x4"
    with pytest.raises(TypeError, match="different lengths"):
        op.add(vector, Ramp(I, IntImm(1), 8))


def test_half_and_brain_floats_meet_in_float32() -> None:
    total = Var("h", "float16") + Var("b", "bfloat16")
    assert total.dtype is float32


def test_float64_becomes_float16_in_one_rounding() -> None:
    """bfloat16 is made from float32, as in ml_dtypes, where the tie goes to even."""
    small = 2.0**-40
    assert number_of(op.cast("float16", op.const(1 + 2**-11 + small, "float64"))) == 1 + 2**-10
    assert number_of(op.cast("bfloat16", op.const(1 + 2**-8 + small, "float64"))) == 1


def test_constants_round() -> None:
    assert number_of(op.const(0.1)) == float(np.float32(0.1))
    assert number_of(op.const(1e39, "float32")) == float("inf")
    assert op.const(2**31).dtype is int64
    assert number_of(op.cast("uint8", op.const(300))) == 44
    assert op.const(True) is IntImm(1, bool_)
    assert op.min_value("int8") is IntImm(-128, DType("int8"))
    assert number_of(op.max_value("float16")) == 65504


ALL_TYPES = ("bool", *CORNER_INTS, "float16", *SMALL, "float32", "float64")


@pytest.mark.parametrize("source", ALL_TYPES)
def test_casts_of_constants_are_those_of_values(source: str) -> None:
    """0.5 is True, -1.25 is 0 without a sign, and 300.0 is the nearest int8."""
    for target in ALL_TYPES:
        kind = DType(target)
        for value in corners(source):
            folded = op.cast(target, op.const(value.item(), source))
            if isinstance(folded, Cast):  # NaN and infinity as integers are left to the hardware
                assert kind.is_integral and not math.isfinite(float(value))
                continue
            with np.errstate(all="ignore"):
                wanted = interp_math.cast_one(value, kind)
                found = np.asarray(number_of(folded)).astype(kind.numpy)
            same = np.asarray(wanted, kind.numpy).tobytes() == found.tobytes()
            assert same or (wanted != wanted and found != found), (target, value, folded)


def test_intrinsics_take_the_type_of_their_first_argument() -> None:
    assert op.call("exp", F) is Call(float32, "exp", (F,))
    assert op.likely(I < J).dtype is bool_


def test_no_arithmetic_on_pointers() -> None:
    with pytest.raises(TypeError, match="handle"):
        op.add(Var("p", "handle"), I)


@pytest.mark.parametrize("fold", [op.min_, op.max_])
@pytest.mark.parametrize("values", [(math.nan, 0.0), (0.0, math.nan)])
def test_the_extremum_of_constants_with_a_nan_is_nan(
    fold: Callable[[Expr, Expr], Expr], values: tuple[float, float]
) -> None:
    result = fold(*(op.const(v, float32) for v in values))
    assert isinstance(result, FloatImm) and math.isnan(result.value)


@pytest.mark.parametrize("value", [3.7, math.inf, math.nan, np.float32(0.5)])
def test_what_is_not_whole_is_no_integer(value: float) -> None:
    """It was cut off; infinity was an OverflowError of Python."""
    with pytest.raises(ValueError, match=f"const: {value} is no int32; round it"):
        op.const(value, "int32")
    assert op.const(3.0, "int32") is op.const(3) and op.const(0.5, "bool") is op.const(True)


@pytest.mark.parametrize("value", [1j, None, "x", np.complex64(1), [1.0]])
def test_what_is_no_number_is_no_operand(value: Any) -> None:
    with pytest.raises(TypeError, match="expected an expression or a number, found"):
        op.add(Var("x", "float32"), value)
