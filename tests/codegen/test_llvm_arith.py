"""Arithmetic, scalar and vector, against NumPy or the interpreter (see test_one_meaning too)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import llvmlite.binding as llvm
import numpy as np
import pytest

from autosched import te
from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_compile import Level
from autosched.driver import lower
from autosched.runtime.cpu import build_artifact, load
from autosched.target import HardwareParams, Target, cpu_target
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Add, BufferLoad, Expr, Mul
from autosched.tir.parser import parse_func
from kit.floats import patterns, same_bits
from kit.te import compute_of
from kit.types import Array, Elementwise, RunKernel

N = 64


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, -3, -4])
@pytest.mark.parametrize("name", ["truncdiv", "truncmod", "floordiv", "floormod"])
def test_division_by_constants_is_exhaustive_for_int8(
    name: str, divisor: int, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    f = elementwise(lambda a: getattr(op, name)(a, divisor), ["int8"], "int8", 256, 16)
    same_as_interpreted(f, np.arange(-128, 128).astype(np.int8), np.zeros(256, np.int8))


@pytest.mark.parametrize("lanes", [1, 8])
def test_booleans(lanes: int, elementwise: Elementwise, same_as_interpreted: RunKernel) -> None:
    def formula(a: Expr, b: Expr, c: Expr) -> Expr:
        return op.or_(op.and_(a, op.not_(b)), c)

    f = elementwise(formula, ["bool"] * 3, "bool", N, lanes)
    rng = np.random.default_rng(0)
    same_as_interpreted(f, *(rng.random(N) < 0.5 for _ in range(3)), np.zeros(N, bool))


@pytest.mark.parametrize("lanes", [1, 8])
def test_nodes_that_add_and_multiply_booleans(
    lanes: int, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    """What no pass has made `or` and `and`; in one bit true and true were false."""
    rng = np.random.default_rng(0)
    inputs = [rng.random(N) < 0.5 for _ in range(2)]
    for node in (Add, Mul):
        f = elementwise(node, ["bool"] * 2, "bool", N, lanes)
        same_as_interpreted(f, *inputs, np.zeros(N, bool))


def test_float_to_integer_saturates(elementwise: Elementwise, run: RunKernel) -> None:
    values = np.array([1e30, -1e30, np.nan, np.inf, 3.9, -3.9, 0, 1], np.float32)
    out = np.zeros(8, np.int32)
    run(elementwise(lambda a: op.cast("int32", a), ["float32"], "int32", 8), values, out)
    assert out.tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, 3, -3, 0, 1]


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_vectors_of_floats_become_integers(
    source: str, target: str, elementwise: Elementwise, run: RunKernel
) -> None:
    """As single numbers do: cut towards zero, saturated, NaN zero."""
    kind, limits = DType(source).numpy, np.iinfo(DType(target).numpy)
    ends = np.array([limits.min, limits.max, 0.0, -1.0, 2.5, -2.5], np.longdouble)
    with np.errstate(over="ignore"):
        near = np.concatenate([ends + shift for shift in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)])
        near = np.concatenate([near, [np.inf, -np.inf, np.nan, -0.0, 1e30, -1e30]]).astype(kind)
        neighbours = [np.nextafter(near, kind.type(side)) for side in (-np.inf, np.inf)]
    x = np.concatenate([near, *neighbours])
    found = [np.empty(len(x), limits.dtype) for _ in range(2)]
    for lanes, out in zip((1, 16), found, strict=True):

        def cast(a: Expr, lanes: int = lanes) -> Expr:
            return op.cast(DType(target).with_lanes(lanes), a)

        run(elementwise(cast, [source], target, len(x), lanes), x, out)
    exact = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
    expected = [min(max(int(value), int(limits.min)), int(limits.max)) for value in exact]
    assert found[0].tolist() == expected
    assert found[1].tolist() == expected


def test_vectors_of_floats_become_integers_at_once(elementwise: Elementwise) -> None:
    def cast(a: Expr) -> Expr:
        return op.cast(DType("int8").with_lanes(16), a)

    text = emit_llvm(elementwise(cast, ["float32"], "int8", 64, 16), cpu_target(1))
    assert "fptosi <16 x float>" in text and ".sat." not in text


def test_products_and_sums_that_become_integers_are_rounded_each(
    elementwise: Elementwise, run: RunKernel
) -> None:
    """Fused, 0.1 * 10 - 1 is above zero."""
    a, b = np.full(16, 0.1, np.float32), np.full(16, 10, np.float32)
    for lanes in (1, 16):
        out = np.ones(16, np.int32)

        def formula(a: Expr, b: Expr, lanes: int = lanes) -> Expr:
            above = op.call("ceil", a * b - op.const(1, a.dtype))
            return op.cast(DType("int32").with_lanes(lanes), above)

        run(elementwise(formula, ["float32"] * 2, "int32", 16, lanes), a, b, out)
        assert not out.any()


def test_nan_goes_through_minimum_and_maximum(elementwise: Elementwise, run: RunKernel) -> None:
    a = np.array([1, np.nan, 3, np.nan] * 4, np.float32)
    b = np.array([np.nan, 2, 1, np.nan] * 4, np.float32)
    for fn, ref in ((op.min_, np.minimum), (op.max_, np.maximum)):
        for lanes in (1, 16):
            out = np.zeros(16, np.float32)
            run(elementwise(fn, ["float32"] * 2, "float32", 16, lanes), a, b, out)
            np.testing.assert_array_equal(out, ref(a, b))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operands", [3, 4, 5])
def test_nan_of_any_operand_goes_through_a_chain(
    operands: int, dtype: str, elementwise: Elementwise, run: RunKernel
) -> None:
    """Extremes of three and more are compared in a chain."""
    inputs = np.random.default_rng(0).normal(size=(operands, 16)).astype(dtype)
    inputs[range(operands), range(operands)] = np.nan
    inputs[0, 8] = inputs[1, 8] = np.nan
    for fn, ref in ((op.min_, np.minimum), (op.max_, np.maximum)):
        f = elementwise(lambda *a, fn=fn: reduce(fn, a), [dtype] * operands, dtype, 16, 8)
        out = np.zeros(16, dtype)
        run(f, *inputs, out)
        np.testing.assert_array_equal(out, ref.reduce(inputs))


def test_a_chain_of_extremes_looks_for_nan_in_pairs(elementwise: Elementwise) -> None:
    """Of three operands behind the first: of two together, and of one."""
    f = elementwise(lambda *a: reduce(op.max_, a), ["float32"] * 4, "float32", 16, 8)
    avx2, avx512 = (
        emit_llvm(f, Target("cpu", HardwareParams(2), 2, "x86-64", features, "", 32))
        for features in ("+avx2", "+avx2,+avx512f,+avx512vl")
    )
    assert (avx2.count("fcmp uno"), avx2.count("fcmp ord")) == (2, 0)
    assert (avx512.count("fcmp uno"), avx512.count("fcmp ord")) == (0, 2)
    assert "llvm.maximum" not in avx2 + avx512


@pytest.mark.skipif(
    llvm.llvm_version_info[0] < 22, reason="this LLVM aborts whatever the form of the extremes"
)
@pytest.mark.parametrize("value", ["B[1:6]", "broadcast(0.0, 5)"])
def test_extremes_in_memory_with_avx512f_alone(value: str) -> None:
    """LLVM 22 aborts at its own form of these, a store with a mask of integers."""
    func = parse_func(f"""\
def main(A: Buffer((8,), float32), B: Buffer((8,), float32)):
    A[1:6] = max(A[1:6], {value})
    A[0:5] = min({value}, A[0:5])
""")
    target = Target(
        "cpu", HardwareParams(1), 1, "x86-64-v3", "+avx2,+fma,+avx512f", vector_bytes=64
    )
    text = emit_llvm(func, target)
    assert "llvm.maximum" not in text and "llvm.minimum" not in text
    build_artifact(func, target)


STORED = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_remainders_of_vectors(dtype: str, elementwise: Elementwise, run: RunKernel) -> None:
    """Those of numbers near and far from one another are exact."""
    kind, random = DType(dtype).numpy, np.random.default_rng(4)
    sizes = 10.0 ** random.uniform(*((-4, 2) if dtype == "float16" else (-30, 4)), (2, 512))
    a, b = (sizes * random.choice([-1, 1], (2, 512))).astype(kind)
    a[:100] = (b[:100].astype(np.float64) * np.arange(100)).astype(kind)
    out = np.zeros(512, kind)
    run(elementwise(op.floormod, [dtype] * 2, dtype, 512, 16), a, b, out)
    rest = np.fmod(a.astype(np.float64), b.astype(np.float64)).astype(kind)
    expected = np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["floordiv", "floormod"])
def test_floor_division_of_floats_is_numpys(
    name: str, dtype: str, lanes: int, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    """Bit for bit: near whole quotients, by zeros and infinities, and of them."""
    kind, random = DType(dtype).numpy, np.random.default_rng(5)
    near = np.array([0.1, 0.2, 0.3, 1 / 3, 0.7, 2.5, 1e4, -0.1, -0.3, -7.0], kind)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], kind)
    b = random.choice(np.concatenate([near, odd]), 2048)
    with np.errstate(all="ignore"):
        a = (random.integers(-40, 40, 2048) * b).astype(kind)
        a[::3] = np.nextafter(a[::3], kind.type(0))
        a[::7] = random.choice(odd, len(a[::7]))
        expected = (np.floor_divide if name == "floordiv" else np.mod)(a, b)
    out = np.zeros(2048, kind)
    same_as_interpreted(elementwise(getattr(op, name), [dtype] * 2, dtype, 2048, lanes), a, b, out)
    np.testing.assert_array_equal(out, expected)
    real = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(out[real]), np.signbit(expected[real]))


def _call(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda x, y: op.call(name, x, y) if name == "fmod" else op.call(name, x)


def _chosen(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda x, y: op.select(getattr(op, name)(x, y), x, y)


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ROUNDINGS = ("floor", "ceil", "round", "nearbyint", "trunc", "fmod")
JUMPS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "floordiv": op.floordiv,
    "floormod": op.floormod,
    "truncmod": op.truncmod,
    **{name: _call(name) for name in ROUNDINGS},
    **{name: _chosen(name) for name in COMPARISONS},
}


@pytest.mark.parametrize("name", JUMPS)
def test_operands_of_jumps_are_not_fused(name: str, elementwise: Elementwise) -> None:
    """The last bit decides for one whole number or the next, or whether a comparison holds."""
    f = elementwise(lambda a, b: JUMPS[name](a * b + a, b), ["float32"] * 2, "float32", 8)
    text = emit_llvm(f, cpu_target(2))
    assert "fadd float" in text
    # What is selected is no operand: the sum stands there once more, and may be fused.
    assert ("contract" in text) == (name in COMPARISONS)


def test_pure_floats_are_fused_beside_jumps_only() -> None:
    """Of an index and a parameter alike: what one of the two needs is not taken for the other."""
    text = emit_llvm(
        parse_func("""\
def main(Y: Buffer((64,), float32), t: float32):
    for i in range(64):
        Y[i] = Select(float32(i) * t + t > t, float32(i) * t + t, t)
"""),
        cpu_target(1),
    )
    assert text.count("fadd contract float") == text.count("fadd float") == 1


def test_what_a_jump_reads_through_a_variable_is_not_fused(run: RunKernel) -> None:
    """Fused, 0.1 * 10 - 1 is above zero; the second variable is made of the first."""
    f = parse_func("""\
def main(A: Buffer((16,), float32), B: Buffer((16,), float32), Y: Buffer((16,), float32)):
    for i in range(16):
        t: float32 = A[i] * B[i] - float32(1.0)
        u: float32 = t + t
        v: float32 = A[i] * B[i] + A[i]
        Y[i] = Select(u > float32(0.0), v, ceil(t))
""")
    a, b, y = np.full(16, 0.1, np.float32), np.full(16, 10, np.float32), np.ones(16, np.float32)
    run(f, a, b, y)
    np.testing.assert_array_equal(y, 0)
    assert emit_llvm(f, cpu_target(1)).count("fadd contract") == 1  # what is selected


def test_what_a_jump_reads_from_memory_is_not_fused(run: RunKernel) -> None:
    """Fused, 0.1 * 10 - 1 is above zero; what is added to a sum may be."""
    f = parse_func("""\
def main(A: Buffer((16,), float32), B: Buffer((16,), float32), Y: Buffer((16,), float32)):
    T = allocate((16,), float32, "global")
    S = allocate((16,), float32, "global")
    for i in range(16):
        T[i] = A[i] * B[i] - float32(1.0)
        S[i] = S[i] + A[i] * B[i]
    for j in range(16):
        Y[j] = Select(S[j] == T[j], T[j], ceil(T[j]))
""")
    a, b, y = np.full(16, 0.1, np.float32), np.full(16, 10, np.float32), np.ones(16, np.float32)
    run(f, a, b, y)
    np.testing.assert_array_equal(y, 0)
    text = emit_llvm(f, cpu_target(1))
    assert text.count("fadd contract") == 1 and "fsub contract" not in text


@pytest.mark.parametrize("shared", ["by StorageRewrite", "by ShareOutput"])
def test_what_a_jump_reads_from_the_memory_of_its_operand_is_not_fused(shared: str) -> None:
    """T is computed in the memory of U, to which it adds a product: it looked like a sum."""
    A, B = (te.placeholder((4096,), name=name) for name in "AB")
    U = te.compute((4096,), lambda i: A[i] + 1.0, name="U")
    V = te.compute((4096,), lambda i: U[i] * 2.0, name="V")
    last = U if shared == "by StorageRewrite" else V
    T = te.compute((4096,), lambda i: A[i] * B[i] + U[i] + last[i] * 0.0, name="T")
    D = te.compute((4096,), lambda i: te.floor(T[i] * 1e6), name="D")
    outputs = [D] if shared == "by StorageRewrite" else [T, D]
    sch = te.create_schedule([tensor.op for tensor in outputs])
    if last is V:
        outer, _ = sch[T].split(compute_of(T).axis[0], 64)
        sch[U].compute_at(sch[T], outer)
        sch[V].compute_at(sch[T], outer)
    func = lower(sch, [A, B, *outputs], cpu_target(1))
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=4096).astype(np.float32) for _ in "ab")
    found = [np.zeros_like(a) for _ in outputs]
    load(build_artifact(func, cpu_target(1)))(a, b, *found)
    np.testing.assert_array_equal(found[-1], np.floor((a * b + (a + 1)) * np.float32(1e6)))


@pytest.mark.parametrize(
    ("name", "divided"), [("round", 0), ("nearbyint", 0), ("trunc", 0), ("floor", 1), ("ceil", 1)]
)
def test_a_term_of_what_is_rounded_to_nearest_is_a_product(
    name: str, divided: int, run: RunKernel
) -> None:
    """Of the quotient by one number and a zero point, as in quantised programs."""
    f = parse_func(f"""\
def main(X: Buffer((4096,), float32), S: Buffer((2,), float32), Y: Buffer((4096,), float32)):
    d: float32 = S[0]
    z: float32 = S[1]
    for j in range(512):
        Y[j * 8:j * 8 + 8] = {name}(X[j * 8:j * 8 + 8] / broadcast(d, 8) + broadcast(z, 8))
""")
    rng = np.random.default_rng(0)
    s = np.array([0.3, 0.5], np.float32)
    whole = (rng.integers(-99, 99, 2048) * s[0]).astype(np.float32)
    values = [np.nextafter(whole, np.float32(9)), rng.normal(size=1024), 1e-37 * rng.random(1024)]
    x, out = np.concatenate(values).astype(np.float32), np.empty(4096, np.float32)
    run(f, x, s, out)
    total = x / s[0] + s[1]
    rounding = {"round": lambda v: np.trunc(v + np.copysign(np.float32(0.5), v))}
    rounding |= {"nearbyint": np.rint, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil}
    np.testing.assert_array_equal(out, rounding[name](total))
    assert emit_llvm(f, cpu_target(1)).count("fdiv <8 x float>") == divided


QUOTIENTS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "{q} * {d} > {x}": lambda q, d, x: q * d > x,
    "floor({q} * {d}) < {x}": lambda q, d, x: np.floor(q * d) < x,
    "{q} == {y}": lambda q, d, x: q == q,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("divisor", [3.0, 0.7])
@pytest.mark.parametrize("condition", QUOTIENTS)
def test_quotients_that_jumps_read_are_rounded(
    dtype: str, condition: str, divisor: float, run: RunKernel
) -> None:
    """Also where they are small: a product with the reciprocal is another float."""
    x, d, y = "X[j * 8:j * 8 + 8]", "broadcast(d, 8)", "Y[j * 8:j * 8 + 8]"
    test = condition.format(q=f"({x} / {d})", d=d, x=x, y=y)
    f = parse_func(f"""\
def main(X: Buffer((4096,), {dtype}), S: Buffer((1,), {dtype}), Y: Buffer((4096,), {dtype})):
    d: {dtype} = S[0]
    for j in range(512):
        Y[j * 8:j * 8 + 8] = Select({test}, broadcast({dtype}(1.0), 8), broadcast({dtype}(0.0), 8))
""")
    rng = np.random.default_rng(0)
    tiny = np.finfo(dtype).tiny
    whole = rng.integers(1, 99, 2048)
    values = np.concatenate([whole, rng.normal(size=1024), rng.uniform(1, 999, 1024) * tiny])
    xs, s = values.astype(dtype), np.array([divisor], dtype)
    expected = (xs / s).astype(dtype)
    out = expected.copy()
    run(f, xs, s, out)
    np.testing.assert_array_equal(out, QUOTIENTS[condition](expected, s, xs))


def test_a_quotient_that_is_rounded_to_a_whole_number_is_not_compared(run: RunKernel) -> None:
    """As a product it may err where it is very small; as one it is computed once more."""
    f = parse_func("""\
def main(X: Buffer((4096,), float32), S: Buffer((1,), float32), Y: Buffer((4096,), float32)):
    d: float32 = S[0]
    for j in range(512):
        x: float32x8 = X[j * 8:j * 8 + 8]
        Y[j * 8:j * 8 + 8] = trunc(x / broadcast(d, 8)) + Select(x / broadcast(d, 8)
                * broadcast(d, 8) > x, broadcast(float32(1.0), 8), broadcast(float32(0.0), 8))
""")
    tiny = np.finfo(np.float32).tiny / 64
    x = (np.random.default_rng(0).uniform(1, 999, 4096) * tiny).astype(np.float32)
    d, out = np.array([0.1], np.float32), np.empty(4096, np.float32)
    run(f, x, d, out)
    np.testing.assert_array_equal(out, x / d * d > x)


@pytest.mark.parametrize("source", ["float16", "float32"])
@pytest.mark.parametrize("dtype", STORED)
def test_floats_that_are_only_stored_are_those_of_ml_dtypes(
    dtype: str, source: str, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    """Rounded to nearest, ties to even, NaN and infinities included; and exact on the way back."""
    wide = patterns(source)
    out = np.zeros(len(wide), DType(dtype).numpy)
    same_as_interpreted(
        elementwise(lambda a: op.cast(f"{dtype}x16", a), [source], dtype, len(wide), 16), wide, out
    )
    same_bits(out, wide.astype(np.float32), dtype)
    small = patterns(dtype)
    back = np.zeros(len(small), source)
    f = elementwise(lambda a: op.cast(f"{source}x16", a), [dtype], source, len(small), 16)
    same_as_interpreted(f, small, back)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(back, small.astype(np.float32).astype(source))
    assert (np.signbit(back) == np.signbit(small)).all()


@pytest.mark.parametrize("lanes", [1, 8])
def test_float64_becomes_float16_in_one_rounding(
    lanes: int, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    """What lies between two floats, and a little beside: by way of float32 it would be the tie."""
    halves = np.sort(patterns("float16").astype(np.float64))
    halves = halves[np.isfinite(halves)]
    ties = (halves[1:] + halves[:-1]) / 2
    beside = [ties * (1 + k * 2.0**-50) for k in (-1, 0, 1)]
    ends = [np.nan, np.inf, 65520, 65520 - 2**-30, 1e300, 5e-324, 2**-25, 2**-25 * (1 + 2**-50)]
    x = np.concatenate([*beside, ends, np.negative(ends)])
    x = x[len(x) % lanes :]
    out = np.zeros(len(x), np.float16)
    kind = DType("float16").with_lanes(lanes)
    f = elementwise(lambda a: op.cast(kind, a), ["float64"], "float16", len(x), lanes)
    same_as_interpreted(f, x, out)
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(wanted))


@pytest.mark.parametrize("dtype", STORED[1:])
def test_arithmetic_of_float8(
    dtype: str, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    """Every pair of bit patterns, rounded after every operation."""
    a, b = (x.reshape(-1) for x in np.meshgrid(patterns(dtype), patterns(dtype)))

    def formula(x: Expr, y: Expr) -> Expr:
        quotient = op.truncdiv(op.max_(x, y), op.call("sqrt", op.call("fabs", y)))
        return op.select(op.lt(x, y), x * y, op.add(quotient, op.const(0.75, x.dtype)))

    n = len(a)
    same_as_interpreted(
        elementwise(formula, [dtype] * 2, dtype, n, 8), a, b, np.zeros(n, DType(dtype).numpy)
    )


@pytest.mark.parametrize("level", ["light", "full"])
def test_float64_through_8_bits_to_float16(level: Level, run: RunKernel) -> None:
    """LLVM copies the sign of the double to the half by a conversion that it takes for a call."""
    f = parse_func("""\
def main(X: Buffer((31,), float64), Y: Buffer((31,), float16)):
    for i in range(31):
        if X[i] < float64(2.0):
            Y[i] = float16(float8_e4m3fn(X[i]))
        else:
            Y[i] = float16(1.0)
""")
    x, y = np.linspace(-3, 3, 31), np.zeros(31, np.float16)
    run(f, x, y, level=level)
    small = x.astype(np.float32).astype(DType("float8_e4m3fn").numpy).astype(np.float16)
    np.testing.assert_array_equal(y, np.where(x < 2, small, 1))


@pytest.mark.parametrize("lanes", [1, 8])
def test_nothing_is_reassociated(lanes: int, elementwise: Elementwise, run: RunKernel) -> None:
    """(x + 1e8) - 1e8 loses the small part, and (x * 1e30) * 1e10 overflows on the way."""
    f32 = DType("float32").with_lanes(lanes)

    def through(
        kind: Callable[..., Expr], first: float, second: float
    ) -> Callable[[BufferLoad], Expr]:
        return lambda x: kind(kind(x, op.const(first, f32)), op.const(second, f32))

    x = np.linspace(0.5, 2.5, 64, dtype=np.float32)
    for kind, first, second, expected in (
        (op.add, 1e8, -1e8, np.zeros(64)),
        (op.sub, 1e8, -1e8, np.zeros(64)),
        (op.mul, 1e30, 1e10, np.full(64, np.inf)),
        (op.mul, 1e-30, 1e-20, np.zeros(64)),
    ):
        out = np.empty(64, np.float32)
        func = elementwise(through(kind, first, second), ["float32"], "float32", lanes=lanes)
        run(func, x, out, level="full")
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_nan_infinity_and_signed_zeros_are_kept(
    name: str, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e38], np.float32)
    x, y = (a.ravel().copy() for a in np.meshgrid(values, values))
    out = np.empty(64, np.float32)
    same_as_interpreted(
        elementwise(getattr(op, name), ["float32"] * 2, "float32"), x, y, out, level="full"
    )
    with np.errstate(all="ignore"):
        expected = {"add": x + y, "sub": x - y, "mul": x * y}[name]
    np.testing.assert_array_equal(out, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(out[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_of_vectors_by_one_number(dtype: str, run: RunKernel) -> None:
    """It becomes products, which err by two units at most, with every special value."""
    kind = np.dtype(dtype)
    limits = np.finfo(kind)
    rng = np.random.default_rng(0)
    some = rng.integers(0, 2**63, 4096).astype(f"u{kind.itemsize}").view(kind)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.smallest_subnormal, 3.0, 0.1]
    ends = np.array([*special, *np.negative(special)], kind)
    x, s = np.concatenate([ends, some])[:4096], np.concatenate([ends, some[::-1]])[:64]
    f = parse_func(f"""\
def main(X: Buffer((4096,), {dtype}), S: Buffer((64,), {dtype}), Y: Buffer((262144,), {dtype})):
    for i in range(64):
        d: {dtype} = S[i]
        for j in range(512):
            Y[i * 4096 + j * 8:i * 4096 + j * 8 + 8] = X[j * 8:j * 8 + 8] / broadcast(d, 8)
""")
    y = np.zeros(64 * 4096, kind)
    run(f, x, s, y)
    y = y.reshape(64, 4096)
    with np.errstate(all="ignore"):
        expected = x / s[:, None]
        size = np.abs(expected)
        special = ~np.isfinite(x) | ~np.isfinite(s[:, None]) | (x == 0) | (s[:, None] == 0)
        same = np.isnan(expected) & np.isnan(y)
        same |= (y == expected) & (np.signbit(y) == np.signbit(expected))
        assert same[special].all()
        near = np.abs(y.astype(np.float64) - expected) <= 2 * np.spacing(size)
        assert (same | near | (size > limits.max / 2)).all()
        assert (same & ~special).sum() > np.sum(~special) / 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_that_become_integers_are_rounded(dtype: str, run: RunKernel) -> None:
    """A whole number of times a divisor with a rounded reciprocal, which a unit less would miss."""
    f = parse_func(f"""\
def main(X: Buffer((4096,), {dtype}), S: Buffer((64,), {dtype}), Y: Buffer((262144,), int32)):
    for i in range(64):
        d: {dtype} = S[i]
        for j in range(512):
            Y[i * 4096 + j * 8:i * 4096 + j * 8 + 8] = int32x8(X[j * 8:j * 8 + 8] / broadcast(d, 8))
""")
    x = np.arange(4096, dtype=dtype)
    s = np.concatenate([np.arange(1, 33), np.arange(1, 33) / 7]).astype(dtype)
    y = np.zeros(64 * 4096, np.int32)
    run(f, x, s, y)
    np.testing.assert_array_equal(y.reshape(64, 4096), (x / s[:, None]).astype(np.int32))
