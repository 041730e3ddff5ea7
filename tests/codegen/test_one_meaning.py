"""Compiled code and the interpreter give every operator one meaning, at the ends of the types too.

Values are drawn from those where meanings part: NaN, infinities, subnormals, the ends of integer
types and what lies next to them as floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from kit.corners import sample
from kit.stmts import func_of, loop

Array = np.ndarray[Any, Any]
Elementwise = Callable[..., PrimFunc]

N = {1: 2048, 4: 512, 8: 512}  # values by lanes: the interpreter takes vectors one by one
FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@dataclass(frozen=True)
class Case:
    """A kernel of one output with its inputs; `each` outputs of one element follow one another."""

    name: str
    func: PrimFunc
    inputs: tuple[Array, ...]
    out: str
    each: int = 1

    def arrays(self) -> list[Array]:
        return [*self.inputs, np.zeros(self.each * len(self.inputs[0]), DType(self.out).numpy)]

    def problem(self, compiled: Array, interpreted: Array) -> str | None:
        """Where the two outputs differ (all zeros are one, and so are all NaN)."""
        if DType(self.out).is_float:
            with np.errstate(invalid="ignore"):
                a, b = (x.astype(np.float64) for x in (compiled, interpreted))
            same = (a == b) | (np.isnan(a) & np.isnan(b))
        else:
            same = compiled == interpreted
        if same.all():
            return None
        k = int(np.argmin(same))
        values = ", ".join(repr(x[k // self.each]) for x in self.inputs)
        found = f"compiled {compiled[k]!r}, interpreted {interpreted[k]!r}"
        return f"{self.name}: of {values}: {found}"


def assert_one_meaning(cases: Sequence[Case], lanes: int = 1) -> None:
    """Compiled and interpreted, every case writes the same values.

    One function holds all the kernels: LLVM takes some milliseconds for any function, however
    small. Scalar loops get all of LLVM's optimisations, which make vectors of them.
    """
    bodies, buffers = [case.func.body for case in cases], [case.func.buffers for case in cases]
    whole = func_of(seq(*bodies), *(b for each in buffers for b in each))
    compiled, interpreted = ([case.arrays() for case in cases] for _ in range(2))
    artifact = build_artifact(whole, cpu_target(2), "full" if lanes == 1 else "light")
    load(artifact)(*(x for arrays in compiled for x in arrays))
    interp.run(whole, [x for arrays in interpreted for x in arrays])
    found = [
        case.problem(ours[-1], theirs[-1])
        for case, ours, theirs in zip(cases, compiled, interpreted, strict=True)
    ]
    problems = [problem for problem in found if problem is not None]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "min_", "max_"])
def test_arithmetic(name: str, lanes: int, elementwise: Elementwise) -> None:
    cases = []
    for dtype in FLOATS + INTS:
        f = elementwise(getattr(op, name), [dtype, dtype], dtype, N[lanes], lanes)
        inputs = sample(dtype, 1, N[lanes]), sample(dtype, 2, N[lanes])
        cases.append(Case(dtype, f, inputs, dtype))
    assert_one_meaning(cases, lanes)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["truncdiv", "truncmod", "floordiv", "floormod"])
def test_division_of_floats(name: str, lanes: int, elementwise: Elementwise) -> None:
    cases = []
    for dtype in FLOATS:
        f = elementwise(getattr(op, name), [dtype, dtype], dtype, N[lanes], lanes)
        a, b = sample(dtype, 3, N[lanes]), sample(dtype, 4, N[lanes])
        cases.append(Case(dtype, f, (a, b), dtype))
    assert_one_meaning(cases, lanes)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["truncdiv", "truncmod", "floordiv", "floormod"])
def test_division_of_integers(name: str, lanes: int, elementwise: Elementwise) -> None:
    cases = []
    for dtype in INTS:
        f = elementwise(getattr(op, name), [dtype, dtype], dtype, N[lanes], lanes)
        a, b = sample(dtype, 5, N[lanes]), sample(dtype, 6, N[lanes])
        cases.append(Case(dtype, f, (a, b), dtype))
    assert_one_meaning(cases, lanes)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name: str, lanes: int, elementwise: Elementwise) -> None:
    cases = []
    for dtype in FLOATS + INTS:
        f = elementwise(getattr(op, name), [dtype, dtype], "bool", N[lanes], lanes)
        inputs = sample(dtype, 7, N[lanes]), sample(dtype, 8, N[lanes])
        cases.append(Case(dtype, f, inputs, "bool"))
    assert_one_meaning(cases, lanes)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("source", [*FLOATS, *INTS, "bool"])
def test_conversions(source: str, lanes: int, elementwise: Elementwise) -> None:
    inputs = (sample(source, 9, N[lanes]),)

    def to(target: str) -> PrimFunc:
        kind = DType(target).with_lanes(lanes)
        return elementwise(lambda a: op.cast(kind, a), [source], target, N[lanes], lanes)

    cases = [Case(target, to(target), inputs, target) for target in [*FLOATS, *INTS, "bool"]]
    assert_one_meaning(cases, lanes)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
)
def test_bits(name: str, lanes: int, elementwise: Elementwise) -> None:
    n = N[lanes]

    def of(dtype: str) -> PrimFunc:
        kind = DType(dtype).with_lanes(lanes)
        formula = lambda a, b: Call(kind, name, (a, b))  # noqa: E731
        return elementwise(formula, [dtype, dtype], dtype, n, lanes)

    inputs = {dtype: (sample(dtype, 10, n), sample(dtype, 11, n)) for dtype in INTS}
    assert_one_meaning([Case(dtype, of(dtype), inputs[dtype], dtype) for dtype in INTS], lanes)


@pytest.mark.parametrize("name", ["bitwise_not", "clz", "popcount"])
def test_bits_of_one(name: str, elementwise: Elementwise) -> None:
    def of(dtype: str, result: str) -> Case:
        f = elementwise(lambda a: Call(DType(result), name, (a,)), [dtype], result, N[1], 1)
        return Case(dtype, f, (sample(dtype, 12),), result)

    assert_one_meaning([of(t, t if name == "bitwise_not" else "int32") for t in INTS])


@pytest.mark.parametrize(
    "name", ["sqrt", "fabs", "floor", "ceil", "trunc", "round", "nearbyint", "copysign"]
)
def test_exact_functions(name: str, elementwise: Elementwise) -> None:
    count = 2 if name == "copysign" else 1

    def of(dtype: str) -> Case:
        kind = DType(dtype)
        f = elementwise(lambda *x: Call(kind, name, x), [dtype] * count, dtype, N[1], 1)
        return Case(dtype, f, tuple(sample(dtype, 13 + k) for k in range(count)), dtype)

    assert_one_meaning([of(dtype) for dtype in FLOATS])


def test_fused_multiply_add_rounds_once(elementwise: Elementwise) -> None:
    cases = []
    for dtype in FLOATS:
        kind = DType(dtype)
        f = elementwise(lambda *x, kind=kind: Call(kind, "fma", x), [dtype] * 3, dtype, N[1], 1)
        a, b, c = (sample(dtype, 15 + k) for k in range(3))
        rng = np.random.default_rng(18)
        spread = rng.choice([1, 1 + 2**-8, 2**-12, 2**-24, 0.5], N[1])
        with np.errstate(all="ignore"):  # sums that cancel, or lie between two floats
            near = (-(a * b) * spread).astype(kind.numpy)
        cases.append(Case(dtype, f, (a, b, np.where(rng.random(N[1]) < 0.7, near, c)), dtype))
    assert_one_meaning(cases)


def test_constants_are_exact() -> None:
    """Each element is compared with 48 constants of one kernel."""
    cases = []
    for dtype in ("float16", "bfloat16", "float32"):
        kind = DType(dtype)
        rng = np.random.default_rng(0)
        known = rng.choice(sample(dtype, 19), 48)
        drawn = np.where(rng.random(48) < 0.5, known, rng.normal(size=48)).astype(np.float64)
        a, out = decl_buffer((128,), kind, "a"), decl_buffer((128 * 48,), kind, "out")
        i = Var("i")
        each = [op.min_(BufferLoad(a, (i,)), FloatImm(float(value), kind)) for value in drawn]
        stores = [BufferStore(out, value, (i * 48 + k,)) for k, value in enumerate(each)]
        f = func_of(loop(i, 128, seq(*stores)), a, out)
        cases.append(Case(dtype, f, (sample(dtype, 20, 128),), dtype, each=48))
    assert_one_meaning(cases, lanes=48)  # of which LLVM would make vectors for four seconds
