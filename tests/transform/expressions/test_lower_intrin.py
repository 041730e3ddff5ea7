"""Every branch against Python's // and %, on all values of int8."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from autosched.errors import CompileError
from autosched.runtime.cpu import build_artifact, load
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    EQ,
    BinaryExpr,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Mod,
    Ramp,
    Select,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import (
    broadcast,
    call,
    cast,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    lt,
    max_,
    ne,
    truncdiv,
)
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore, For, ForKind, IfThenElse, seq
from autosched.tir.verify import verify
from autosched.tir.walk import all_exprs
from autosched.transform.expressions.lower_intrin import LowerIntrin
from kit.stmts import as_a, func_of
from kit.types import Array, BodyText, MakeFunc, SameResult

ALL = np.arange(-128, 128)


def is_lowered(func: PrimFunc) -> bool:
    return not any(isinstance(e, FloorDiv | FloorMod) for e in all_exprs(func.body))


def run_both(
    make_func: Callable[..., PrimFunc],
    make_value: Callable[..., Expr],
    a: Array,
    b: Array,
    dtype: str,
    guard: None = None,
) -> Array:
    """make_value(x, y) for all pairs of the arrays, after lowering."""
    A, B = (decl_buffer((len(v),), dtype, n) for v, n in ((a, "A"), (b, "B")))
    i = Var("i")
    value = make_value(A[i], B[i])
    C = decl_buffer((len(a),), value.dtype, "C")
    func = make_func(
        For(i, IntImm(0), IntImm(len(a)), ForKind.SERIAL, BufferStore(C, value, (i,))), A, B, C
    )
    lowered = LowerIntrin()(func)
    assert is_lowered(lowered)
    result = np.zeros(len(a), value.dtype.numpy)
    interp.run(lowered, [a.astype(DType(dtype).numpy), b.astype(DType(dtype).numpy), result])
    return result


def pairs(low: int, high: int, dividends: Array = ALL) -> tuple[Array, Array]:
    a, b = np.meshgrid(dividends, np.arange(low, high))
    keep = (b != 0) & ~((a == -128) & (b == -1))
    return a[keep], b[keep]


def test_any_signs(make_func: MakeFunc) -> None:
    a, b = pairs(-128, 128, ALL[::3])  # both ends are among them
    np.testing.assert_array_equal(run_both(make_func, floordiv, a, b, "int8"), a // b)
    np.testing.assert_array_equal(run_both(make_func, floormod, a, b, "int8"), a % b)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_constant_divisors(make_func: MakeFunc, dtype: str) -> None:
    """Powers of two, other positive ones and negative ones."""
    divisors = [d for d in range(-128, 128) if d not in (0, -1)] if dtype == "int8" else [3, -5, 8]
    A = decl_buffer((256,), dtype, "A")
    Q, R = (decl_buffer((len(divisors), 256), dtype, n) for n in "QR")
    i = Var("i")
    for op, reference, C in ((floordiv, np.floor_divide, Q), (floormod, np.mod, R)):
        stores = [
            BufferStore(C, op(A[i], const(d, dtype)), (IntImm(k), i))
            for k, d in enumerate(divisors)
        ]
        loops = [For(i, IntImm(0), IntImm(256), ForKind.SERIAL, store) for store in stores]
        lowered = LowerIntrin()(make_func(seq(*loops), A, C))
        assert is_lowered(lowered)
        values = ALL.astype(DType(dtype).numpy)
        result = np.zeros((len(divisors), 256), DType(dtype).numpy)
        interp.run(lowered, [values, result])
        expected = reference(ALL[None, :], np.array(divisors)[:, None])
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_divisors_known_to_be_positive(make_func: MakeFunc, dtype: str) -> None:
    a, b = pairs(1, 128)

    def positive(y: Expr) -> Expr:
        return max_(y, const(1, dtype))

    def quotient(x: Expr, y: Expr) -> Expr:
        return floordiv(x, positive(y))

    def rest(x: Expr, y: Expr) -> Expr:
        return floormod(x, positive(y))

    np.testing.assert_array_equal(run_both(make_func, quotient, a, b, dtype), a // b)
    np.testing.assert_array_equal(run_both(make_func, rest, a, b, dtype), a % b)


def test_uint8(make_func: MakeFunc) -> None:
    a, b = pairs(1, 256, np.arange(256))
    np.testing.assert_array_equal(run_both(make_func, floordiv, a, b, "uint8"), a // b)
    np.testing.assert_array_equal(run_both(make_func, floormod, a, b, "uint8"), a % b)


@pytest.mark.parametrize("low", [-128, -127, -100, -5, 0, 3])
@pytest.mark.parametrize("divisor", [3, 7, 100, 127])
def test_bounded_dividends(make_func: MakeFunc, low: int, divisor: int) -> None:
    """A loop variable with a known lower bound; nothing may overflow int8 on the way."""
    i = Var("i", "int8")
    extent = min(127, 127 - low)
    C = decl_buffer((256,), "int8", "C")
    for op, reference in ((floordiv, np.floor_divide), (floormod, np.mod)):
        store = BufferStore(C, op(i, const(divisor, "int8")), (cast("int32", i) - low,))
        loop = For(i, const(low, "int8"), const(extent, "int8"), ForKind.SERIAL, store)
        lowered = LowerIntrin()(make_func(loop, C))
        assert is_lowered(lowered)
        result = np.zeros(256, np.int8)
        interp.run(lowered, [result])
        expected = reference(np.arange(low, low + extent), divisor)
        np.testing.assert_array_equal(result[:extent], expected)


def test_golden(make_func: MakeFunc, body_text: BodyText) -> None:
    A, C = decl_buffer((16,), "int32", "A"), decl_buffer((16,), "int32", "C")
    i = Var("i")

    def text(value: Expr) -> str:
        store = BufferStore(C, value, (i,))
        loop = For(i, IntImm(0), IntImm(16), ForKind.SERIAL, store)
        return body_text(LowerIntrin()(make_func(loop, A, C))).splitlines()[1].strip()

    shifted = "shift_right(A[i], 3) + bitwise_and(A[i], 7)"
    assert text(floordiv(A[i], 8) + floormod(A[i], 8)) == f"C[i] = {shifted}"
    assert text(floordiv(i - 5, 3)) == text(truncdiv(i - 5 + 6, 3) - 2)
    assert "shift_right(" in text(floordiv(A[i], 3)) and "31" in text(floordiv(A[i], 3))


def test_unchanged(make_func: MakeFunc) -> None:
    A, i = decl_buffer((16,), "int32", "A"), Var("i")
    loop = For(i, IntImm(0), IntImm(16), ForKind.SERIAL, BufferStore(A, A[i] * 2, (i,)))
    before = make_func(loop, A)
    assert LowerIntrin()(before) is before


def test_comparison_with_zero(make_func: MakeFunc) -> None:
    a, b = pairs(3, 8)
    for compare, expected in ((eq, a % b == 0), (ne, a % b != 0)):

        def value(x: Expr, y: Expr, compare: Callable[..., Expr] = compare) -> Expr:
            return cast("int32", compare(floormod(x, y), const(0, "int8")))

        np.testing.assert_array_equal(run_both(make_func, value, a, b, "int8"), expected)


def test_maximum_with_zero(make_func: MakeFunc) -> None:
    a, b = pairs(1, 128)

    def value(x: Expr, y: Expr) -> Expr:
        return Max(floordiv(x, max_(y, const(1, "int8"))), const(0, "int8"))

    np.testing.assert_array_equal(run_both(make_func, value, a, b, "int8"), np.maximum(a // b, 0))


def test_conditions_bound_the_dividend(make_func: MakeFunc, same_result: SameResult) -> None:
    A, i = decl_buffer((16,), "int32", "A"), Var("i")
    store = BufferStore(A, floormod(i - 5, 3), (i,))
    guarded = IfThenElse(ge(i, 5), store)
    before = make_func(For(i, IntImm(0), IntImm(16), ForKind.SERIAL, guarded), A)
    after = LowerIntrin()(before)
    test = as_a(IfThenElse, as_a(For, after.body).body)
    value = as_a(BufferStore, test.then_case).value
    assert isinstance(value, Mod) and value.a is i - 5
    same_result(before, after)


def test_vectors(make_func: MakeFunc, same_result: SameResult) -> None:
    A = decl_buffer((16,), "int32", "A")
    lanes = Ramp(IntImm(0), IntImm(1), 16)
    for divisor in (8, 3, -3):
        value = floordiv(A[lanes], divisor) + floormod(A[lanes], divisor)
        before = make_func(BufferStore(A, value, (lanes,)), A)
        after = LowerIntrin()(before)
        assert is_lowered(after)
        same_result(before, after)


@pytest.mark.parametrize("divide", [floordiv, floormod])
def test_floats_stay(make_func: MakeFunc, divide: Callable[..., Expr]) -> None:
    """floor(a / b) is no whole number of divisors below a: 1.0 / 0.1 rounds to 10."""
    A, i = decl_buffer((16,), "float32", "A"), Var("i")
    store = BufferStore(A, divide(A[i], const(0.1)), (i,))
    before = make_func(For(i, IntImm(0), IntImm(16), ForKind.SERIAL, store), A)
    assert LowerIntrin()(before) is before


def test_integers_in_divisions_of_floats(make_func: MakeFunc) -> None:
    A, n = decl_buffer((16,), "float32", "A"), Var("n")
    store = BufferStore(
        A, floordiv(A[floordiv(n, 3)], floormod(A[floormod(n, 7)], const(0.1))), (IntImm(0),)
    )
    text = repr(LowerIntrin()(make_func(For(n, IntImm(0), IntImm(9), ForKind.SERIAL, store), A)))
    assert "A[truncdiv(n, 3)] // (A[truncmod(n, 7)] % 0.1)" in text


def test_mathematics_stays(make_func: MakeFunc) -> None:
    A, i = decl_buffer((16,), "float32", "A"), Var("i")
    store = BufferStore(A, call("exp", A[i]), (i,))
    before = make_func(
        IfThenElse(lt(A[0], 1.0), For(i, IntImm(0), IntImm(9), ForKind.SERIAL, store)), A
    )
    assert LowerIntrin()(before) is before


def test_the_example_of_the_seed() -> None:
    """Document 003, word for word."""
    head = """\
def main(A: Buffer((16,), int32), B: Buffer((16,), int32)):
    attrs(target="llvm")
    for i in range(16):
        B[i] = """
    after = LowerIntrin()(parse_func(head + "A[i] // 8 + A[i] % 8"))
    assert repr(after) == head + "shift_right(A[i], 3) + bitwise_and(A[i], 7)"


RULES = LowerIntrin(rules=True)


def ruled(target: str, value: str) -> str:
    """What the rules make of a value of x and y (float32), h (float16), d (float64) and i."""
    head = "def main(x: float32, y: float32, h: float16, d: float64, i: uint32):"
    after = RULES(parse_func(f"{head}\n    attrs(target={target})\n    {value}\n"))
    verify(after)
    return repr(after).splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        ('"llvm"', "exp(x)", 'call_llvm_pure_intrin("llvm.exp.f32", x, dtype=float32)'),
        ('"cpu"', "floor(d)", 'call_llvm_pure_intrin("llvm.floor.f64", d, dtype=float64)'),
        ('"llvm"', "popcount(i)", 'call_llvm_pure_intrin("llvm.ctpop.i32", i, dtype=uint32)'),
        (
            '"llvm"',
            "sqrt(broadcast(x, 4))",
            'call_llvm_pure_intrin("llvm.sqrt.v4f32", broadcast(x, 4), dtype=float32x4)',
        ),
        ('"llvm"', "erf(x)", 'call_pure_extern("erff", x, dtype=float32)'),
        ('"cuda"', "exp(x)", 'call_pure_extern("__expf", x, dtype=float32)'),
        ('"cuda"', "exp(d)", 'call_pure_extern("exp", d, dtype=float64)'),
        ('"cuda"', "exp(h)", 'call_pure_extern("hexp", h, dtype=float16)'),
        ('"cuda"', "tanh(x)", 'call_pure_extern("tanhf", x, dtype=float32)'),
        ('"cuda"', "tanh(h)", "tanh(h)"),
        ('"cuda"', "pow(x, y)", 'call_pure_extern("powf", x, y, dtype=float32)'),
        ('"cuda"', "rsqrt(x)", '1.0 / call_pure_extern("sqrtf", x, dtype=float32)'),
        ('"cuda"', "x * y + x", "x * y + x"),
        (
            '"cuda"',
            "tvm_warp_shuffle(i, x, 3, 32, 32, dtype=float32)",
            'call_pure_extern("__shfl_sync", i, x, 3, 32, dtype=float32)',
        ),
        (
            '"cuda"',
            "tvm_warp_activemask(dtype=uint32)",
            'call_pure_extern("__activemask", dtype=uint32)',
        ),
        ('"c"', "exp(x)", 'call_pure_extern("expf", x, dtype=float32)'),
        (
            '"c"',
            "sigmoid(d)",
            "float64(1.0) / (float64(1.0) + "
            'call_pure_extern("exp", float64(0.0) - d, dtype=float64))',
        ),
        (
            '"llvm"',
            "x + y * x",
            'call_llvm_pure_intrin("llvm.fmuladd.f32", y, x, x, dtype=float32)',
        ),
        (
            '"cuda"',
            "broadcast(int32(int8(i)), 4) * broadcast(int32(i), 4) + broadcast(int32(i), 4)",
            "int32x4(broadcast(int8(i), 4)) * broadcast(int32(i), 4) + broadcast(int32(i), 4)",
        ),
    ],
)
def test_rules_of_targets(target: str, value: str, expected: str) -> None:
    assert ruled(target, value) == expected


def test_rules_keep_what_is_computed() -> None:
    """The hyperbolic tangent of large numbers is 1, not the quotient of two infinities."""
    names = ["exp", "exp10", "tanh", "tan", "sigmoid", "log", "cos", "floor", "fabs", "rsqrt"]
    lines = [f"    A[{k}, i] = {name}(X[i])" for k, name in enumerate(names)]
    head = f"def main(X: Buffer((64,), float64), A: Buffer(({len(names)}, 64), float64)):\n"
    before = parse_func(
        head + '    attrs(target="llvm")\n    for i in range(64):\n    ' + "\n    ".join(lines)
    )
    after = RULES(before)
    assert not {"tanh", "sigmoid", "rsqrt", "exp10"} & {
        e.op for e in all_exprs(after.body) if isinstance(e, Call)
    }
    x = np.concatenate([np.linspace(0.1, 9, 62), [400.0, 1e-8]])
    found = [np.zeros((len(names), 64)) for _ in range(2)]
    interp.run(before, [x, found[0]])
    interp.run(after, [x, found[1]])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-15)


def test_compiled_rules() -> None:
    """LLVM's intrinsics, of vectors too, and the library's functions."""
    func = parse_func("""\
def main(X: Buffer((8,), float32), A: Buffer((24,), float32)):
    attrs(target="llvm")
    A[0:8] = exp(X[0:8])
    A[8:16] = X[0:8] * X[0:8] + X[0:8]
    for i in range(8):
        A[i + 16] = erf(X[i]) + tanh(X[i])
""")
    x, a = np.linspace(-2, 2, 8, dtype=np.float32), np.zeros(24, np.float32)
    load(build_artifact(RULES(func), cpu_target(1)))(x, a)
    errors = [math.erf(v) + math.tanh(v) for v in x]
    np.testing.assert_allclose(a, [*np.exp(x), *(x * x + x), *errors], rtol=1e-5)


def test_rules_need_a_target() -> None:
    with pytest.raises(CompileError, match="main has no attribute `target`, whose rules"):
        RULES(parse_func("def main(x: float32):\n    evaluate(1)"))
    arm = 'attrs(target={"kind": "llvm", "mtriple": "aarch64-linux-gnu"})'
    func = parse_func(f"def main(A: Buffer((1,), float32)):\n    {arm}\n    A[0] = exp(A[0])")
    assert "llvm.exp.f32" in repr(RULES(func))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("kind", [Div, FloorDiv, FloorMod, Mod])
def test_a_division_by_zero_is_zero(kind: type[BinaryExpr], lanes: int) -> None:
    """In conditions and next to a number, too, for which there are ways of their own."""
    A = decl_buffer((8,), "int32", "A")
    index: Expr = IntImm(2)
    zero: Expr = IntImm(0)
    if lanes > 1:
        index, zero = Ramp(index, IntImm(1), lanes), broadcast(zero, lanes)
    by_zero, three = kind(A[index], zero), broadcast(IntImm(3), lanes)
    for value, wanted in (
        (by_zero, 0),
        (Max(by_zero, three), 3),
        (Select(EQ(by_zero, zero), three, zero), 3),
    ):
        func = LowerIntrin()(func_of(BufferStore(A, value, (index,)), A))
        found = np.full(8, 9, np.int32)
        load(build_artifact(func, cpu_target(1)))(found)
        assert found.tolist() == [9, 9, *lanes * [wanted], *(6 - lanes) * [9]]


@pytest.mark.parametrize("divide", [floordiv, floormod])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_what_is_added_to_a_negative_number_is_one_of_its_type(
    dtype: str, divide: Callable[[Expr, Expr], Expr], make_func: MakeFunc, same_result: SameResult
) -> None:
    """-110 to -11 and four times 33 are 22 to 121: the sum fits, and 132 is no int8."""
    n, i, scale = 100, Var("i"), {"int8": 1, "int16": 256, "int32": 1 << 24}[dtype]
    A = decl_buffer((n,), dtype, "A")
    value = divide(cast(dtype, (i - 110) * scale), const(33 * scale, dtype))
    func = make_func(For(i, IntImm(0), IntImm(n), ForKind.SERIAL, BufferStore(A, value, (i,))), A)
    after = LowerIntrin()(func)
    assert is_lowered(after)
    same_result(func, after)
