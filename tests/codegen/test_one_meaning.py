"""Compiled code and the interpreter give every operator one meaning, at the ends of the types too.

Values are drawn from those where meanings part: NaN, infinities, subnormals, the ends of integer
types and what lies next to them as floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.runtime.cpu import build_artifact, load
from autosched.target import cpu_target
from autosched.tir import interp, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, FloatImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, seq
from kit.stmts import func_of, loop

Array = np.ndarray[Any, Any]
Elementwise = Callable[..., PrimFunc]

N = {1: 4096, 8: 1024}  # values by lanes: the interpreter takes vectors one by one
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def corners(dtype: str) -> Array:
    """The values of `dtype` at which meanings part."""
    kind = DType(dtype)
    if kind.is_bool:
        return np.array([False, True])
    if kind.is_integral:
        low, high = int(kind.min_value), int(kind.max_value)
        whole = [low, low + 1, high, high - 1, high // 2, 0, 1, 2, 3, 7, 255, 256, 65535]
        signed = [-1, -2, -3, -128, -129, -32768] if kind.is_int else []
        return np.array([v for v in whole + signed if low <= v <= high], kind.numpy)
    powers = [2.0**k for k in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)]
    near = [p * f for p in powers for f in (1, 1 - 2**-11, 1 - 2**-24, 1 + 2**-10)]
    values = [0.0, 0.5, 0.999, 1.0, 1.5, 2.5, 255.4, 1e-40, 6e-8, 5e-324, 1e30, 1e300, *near]
    values += [float(kind.max_value), np.inf, np.nan]
    with np.errstate(over="ignore"):
        return np.array([*values, *(-v for v in values)]).astype(kind.numpy)


def sample(dtype: str, seed: int, count: int = N[1]) -> Array:
    """`count` values: every corner, then corners and values over the whole range of bits."""
    rng = np.random.default_rng(seed)
    kind = DType(dtype)
    every = corners(dtype)
    drawn = np.concatenate([rng.permutation(every), rng.choice(every, count - len(every))])
    if kind.is_bool:
        return drawn
    random_bits = rng.integers(0, 256, count * kind.bytes, dtype=np.uint8).view(kind.numpy)
    chosen = rng.random(count) < 0.5
    chosen[: len(every)] = False
    drawn[chosen] = random_bits[chosen]
    return drawn


def both(f: PrimFunc, *inputs: Array, out: str, each: int = 1) -> None:
    """The same values from compiled code and from the interpreter (all zeros are one).

    `each` are the outputs of one element, which follow one another.
    """
    count = each * len(inputs[0])
    compiled, interpreted = (np.zeros(count, DType(out).numpy) for _ in range(2))
    load(build_artifact(f, cpu_target(2), "auto"))(*inputs, compiled)
    interp.run(f, [*inputs, interpreted])
    kind = DType(out)
    if kind.is_float:
        with np.errstate(invalid="ignore"):
            a, b = (x.astype(np.float64) for x in (compiled, interpreted))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    else:
        same = compiled == interpreted
    if not same.all():
        k = int(np.argmin(same))
        values = ", ".join(repr(x[k // each]) for x in inputs)
        raise AssertionError(f"of {values}: compiled {compiled[k]!r}, run {interpreted[k]!r}")


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "min_", "max_"])
def test_arithmetic(name: str, dtype: str, lanes: int, elementwise: Elementwise) -> None:
    f = elementwise(getattr(op, name), [dtype, dtype], dtype, N[lanes], lanes)
    both(f, sample(dtype, 1, N[lanes]), sample(dtype, 2, N[lanes]), out=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["truncdiv", "truncmod", "floordiv", "floormod"])
def test_division_of_floats(name: str, dtype: str, elementwise: Elementwise) -> None:
    f = elementwise(getattr(op, name), [dtype, dtype], dtype, N[1], 1)
    a, b = sample(dtype, 3), sample(dtype, 4)
    if name == "floormod":  # of infinities it has no value to agree on
        with np.errstate(invalid="ignore"):
            keep = np.isfinite((a * 0 + b * 0).astype(np.float64))
        a, b = (np.where(keep, x, np.ones(1, x.dtype)) for x in (a, b))
    both(f, a, b, out=dtype)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", ["truncdiv", "truncmod", "floordiv", "floormod"])
def test_division_of_integers(name: str, dtype: str, elementwise: Elementwise) -> None:
    a, b = sample(dtype, 5), sample(dtype, 6)
    b = np.where(b == 0, np.ones(1, b.dtype), b)
    if DType(dtype).is_int:  # min / -1 leaves the type, and the processor refuses it
        b = np.where((a == DType(dtype).min_value) & (b == -1), np.ones(1, b.dtype), b)
    both(elementwise(getattr(op, name), [dtype, dtype], dtype, N[1], 1), a, b, out=dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name: str, dtype: str, elementwise: Elementwise) -> None:
    f = elementwise(getattr(op, name), [dtype, dtype], "bool", N[1], 1)
    both(f, sample(dtype, 7), sample(dtype, 8), out="bool")


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("target", [*FLOATS, *INTS, "bool"])
@pytest.mark.parametrize("source", [*FLOATS, *INTS, "bool"])
def test_conversions(source: str, target: str, lanes: int, elementwise: Elementwise) -> None:
    kind = DType(target).with_lanes(lanes)
    f = elementwise(lambda a: op.cast(kind, a), [source], target, N[lanes], lanes)
    both(f, sample(source, 9, N[lanes]), out=target)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
)
def test_bits(name: str, dtype: str, lanes: int, elementwise: Elementwise) -> None:
    kind = DType(dtype).with_lanes(lanes)
    n = N[lanes]
    f = elementwise(lambda a, b: Call(kind, name, (a, b)), [dtype, dtype], dtype, n, lanes)
    both(f, sample(dtype, 10, n), sample(dtype, 11, n), out=dtype)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", ["bitwise_not", "clz", "popcount"])
def test_bits_of_one(name: str, dtype: str, elementwise: Elementwise) -> None:
    result = dtype if name == "bitwise_not" else "int32"
    f = elementwise(lambda a: Call(DType(result), name, (a,)), [dtype], result, N[1], 1)
    both(f, sample(dtype, 12), out=result)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name", ["sqrt", "fabs", "floor", "ceil", "trunc", "round", "nearbyint", "copysign"]
)
def test_exact_functions(name: str, dtype: str, elementwise: Elementwise) -> None:
    count = 2 if name == "copysign" else 1
    kind = DType(dtype)
    f = elementwise(lambda *x: Call(kind, name, x), [dtype] * count, dtype, N[1], 1)
    both(f, *(sample(dtype, 13 + k) for k in range(count)), out=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fused_multiply_add_rounds_once(dtype: str, elementwise: Elementwise) -> None:
    kind = DType(dtype)
    f = elementwise(lambda *x: Call(kind, "fma", x), [dtype] * 3, dtype, N[1], 1)
    a, b, c = (sample(dtype, 15 + k) for k in range(3))
    rng = np.random.default_rng(18)
    with np.errstate(all="ignore"):  # sums that cancel, and sums that lie between two floats
        near = (-(a * b) * rng.choice([1, 1 + 2**-8, 2**-12, 2**-24, 0.5], N[1])).astype(kind.numpy)
    both(f, a, b, np.where(rng.random(N[1]) < 0.7, near, c), out=dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_constants_are_exact(dtype: str) -> None:
    """Each element is compared with 48 constants of one kernel."""
    kind = DType(dtype)
    rng = np.random.default_rng(0)
    drawn = np.where(rng.random(48) < 0.5, rng.choice(sample(dtype, 19), 48), rng.normal(size=48))
    inputs = sample(dtype, 20, 512)
    a, out = decl_buffer((512,), kind, "a"), decl_buffer((512 * 48,), kind, "out")
    i = Var("i")
    stores = [
        BufferStore(out, op.min_(BufferLoad(a, (i,)), FloatImm(float(value), kind)), (i * 48 + k,))
        for k, value in enumerate(drawn.astype(np.float64))
    ]
    both(func_of(loop(i, 512, seq(*stores)), a, out), inputs, out=dtype, each=48)
