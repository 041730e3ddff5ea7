"""Intrinsics and conversions against Python's math and NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from autosched.tir import interp, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import Call, IntImm, Shuffle, Var
from autosched.tir.interp_math import BINARY, INTEGER_CALLS, UNARY
from autosched.tir.intrin import BINARY_MATH, BITWISE, UNARY_MATH
from autosched.tir.stmt import BufferStore
from kit.programs import Programs

X, Y = Var("x", "float32"), Var("y", "float32")

REFERENCE = {
    "exp2": lambda x: 2**x,
    "exp10": lambda x: 10**x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "round": lambda x: math.floor(x + 0.5),
    "nearbyint": lambda x: float(round(x)),
    "asin": lambda x: math.asin(x),
    "acosh": lambda x: math.acosh(x),
}
ARGUMENT = {"acosh": 1.5, "round": 2.5, "nearbyint": 2.5}


def test_every_listed_intrinsic_is_known() -> None:
    known = {*UNARY, *BINARY, *INTEGER_CALLS}
    assert known >= {*UNARY_MATH, *BINARY_MATH, *BITWISE}


@pytest.mark.parametrize("name", sorted(UNARY_MATH - {"clz", "popcount"}))
def test_unary(tir: type[Programs], name: str) -> None:
    x = ARGUMENT.get(name, 0.625)
    expr = Call(DType("bool"), name, (X,)) if name.startswith("is") else op.call(name, X)
    reference = REFERENCE.get(name) or getattr(math, name)
    assert tir.evaluate(expr, x=x) == pytest.approx(reference(x), rel=1e-6)


@pytest.mark.parametrize("name", sorted(BINARY_MATH - {"ldexp"}))
def test_binary(tir: type[Programs], name: str) -> None:
    reference = getattr(math, name)
    found = tir.evaluate(op.call(name, X, Y), x=1.5, y=0.75)
    assert found == pytest.approx(reference(1.5, 0.75), rel=1e-6)


def test_ldexp(tir: type[Programs]) -> None:
    assert tir.evaluate(op.call("ldexp", X, Var("k")), x=1.5, k=3) == 12


def test_half_precision_rounds_after_every_operation(tir: type[Programs]) -> None:
    h, g = Var("h", "float16"), Var("g", "float16")
    assert tir.evaluate((h + g) - h, h=2048.0, g=1.0) == 0
    b = Var("b", "bfloat16")
    found = tir.evaluate(op.call("exp", b), b=1.0)
    assert found == ml_dtypes.bfloat16(math.e)


@pytest.mark.parametrize(
    ("name", "args", "wanted"),
    [
        ("bitwise_and", (12, 10), 8),
        ("bitwise_or", (12, 10), 14),
        ("bitwise_xor", (12, 10), 6),
        ("bitwise_not", (12,), -13),
        ("shift_left", (1, 31), -(2**31)),
        ("shift_right", (-8, 1), -4),
        ("clz", (1,), 31),
        ("clz", (0,), 32),
        ("popcount", (-1,), 32),
    ],
)
def test_integer_intrinsics(
    tir: type[Programs], name: str, args: tuple[int, ...], wanted: int
) -> None:
    variables = [Var(f"x{k}") for k in range(len(args))]
    values = {v.name: a for v, a in zip(variables, args)}
    assert tir.evaluate(Call(int32, name, tuple(variables)), **values) == wanted
    threads = tir.thread("threadIdx.x")
    A, B = (decl_buffer((2,), "int32", n) for n in "AB")
    out = decl_buffer((2,), "int32", "out")
    loads = (A[threads.var], B[threads.var])[: len(args)]
    body = tir.launch(BufferStore(out, Call(int32, name, loads), (threads.var,)), (threads, 2))
    arrays = [np.full(2, (*args, 0)[k], "int32") for k in range(2)]
    found = np.zeros(2, "int32")
    interp.run(tir.func([A, B, out], body), [*arrays, found])
    assert found.tolist() == [wanted] * 2


def test_rounding_multiply_shift(tir: type[Programs]) -> None:
    x, y = Var("x"), Var("y")
    call = Call(int32, "q_multiply_shift", (x, y, IntImm(31), IntImm(1)))
    assert tir.evaluate(call, x=100, y=2**30) == 100
    assert tir.evaluate(call, x=3, y=2**29) == 2  # 1.5 rounds up


def test_reinterpret_keeps_the_bits(tir: type[Programs]) -> None:
    assert tir.evaluate(Call(int32, "reinterpret", (X,)), x=1.0) == 0x3F800000
    i = Var("i")
    assert tir.evaluate(Call(X.dtype, "reinterpret", (i,)), i=0x40490FDB) == np.float32(math.pi)


@pytest.mark.parametrize(
    ("source", "value", "target", "wanted"),
    [
        ("float32", -1.9, "int32", -1),
        ("float32", 3.0, "bool", True),
        ("float32", 1e30, "float16", math.inf),
        ("float64", 1 + 2.0**-11 + 2.0**-40, "float16", 1 + 2.0**-10),
        ("float64", 1 + 2.0**-8 + 2.0**-40, "bfloat16", 1.0),
        ("int32", -1, "uint8", 255),
        ("int32", 300, "int8", 44),
        ("int32", -1, "uint32", 2**32 - 1),
        ("uint32", 2**31, "int32", -(2**31)),
        ("int64", 2**33 + 5, "int32", 5),
        ("int32", 16777217, "float32", 16777216.0),
        ("int32", 7, "bool", True),
    ],
)
def test_conversions(
    tir: type[Programs], source: str, value: float, target: str, wanted: float
) -> None:
    assert tir.evaluate(op.cast(target, Var("v", source)), v=value) == wanted
    threads = tir.thread("threadIdx.x")
    A, out = decl_buffer((2,), source, "A"), decl_buffer((2,), target, "out")
    body = BufferStore(out, op.cast(target, A[threads.var]), (threads.var,))
    found = np.zeros(2, DType(target).numpy)
    func = tir.func([A, out], tir.launch(body, (threads, 2)))
    interp.run(func, [np.full(2, value, source), found])
    assert found.tolist() == [wanted] * 2


def test_what_rounds_to_zero_keeps_its_sign(tir: type[Programs]) -> None:
    for value in (-0.0, -0.25, 0.25, -0.5, 2.5):
        found = tir.evaluate(op.call("round", X), x=value)
        wanted = math.copysign(math.floor(abs(value) + 0.5), value)
        assert (found, math.copysign(1, found)) == (wanted, math.copysign(1, value))


def test_fused_multiply_add(tir: type[Programs]) -> None:
    assert tir.evaluate(Call(X.dtype, "fma", (X, Y, X)), x=2.0, y=3.0) == 8


def test_shuffles_pick_lanes(tir: type[Programs]) -> None:
    from autosched.tir.expr import Ramp

    i = Var("i")
    vector = Ramp(i, IntImm(10), 4)
    two = Shuffle((vector, vector + 1), (IntImm(3), IntImm(4)))
    assert tir.evaluate(two, i=5).tolist() == [35, 6]
    assert tir.evaluate(Shuffle((vector,), (IntImm(2),)), i=5) == 25


def test_unknown_intrinsics_are_named(tir: type[Programs]) -> None:
    with pytest.raises(interp.InterpreterError, match="vscale"):
        tir.evaluate(Call(int32, "vscale", ()))
