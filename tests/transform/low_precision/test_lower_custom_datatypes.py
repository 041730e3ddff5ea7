"""LowerCustomDatatypes: what is looked up under which name, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.arith.analyzer import Analyzer
from autosched.errors import ConfigError
from autosched.tir import interp, op
from autosched.tir.dtype import DType
from autosched.tir.expr import BinaryExpr, Call, Cast, Expr, StringImm
from autosched.tir.op import const
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.walk import all_exprs
from autosched.transform.low_precision import datatypes
from autosched.transform.low_precision.datatypes import register_lowering, register_type
from autosched.transform.low_precision.lower_custom_datatypes import LowerCustomDatatypes
from kit.types import Array

Q = "custom[q]8"


def outside(name: str) -> Callable[..., Expr]:
    """A lowering to a call of a function outside."""
    return lambda dtype, *args: Call(dtype, "call_pure_extern", (StringImm(name), *args))


@pytest.fixture(autouse=True)
def _types(monkeypatch: pytest.MonkeyPatch) -> None:
    """The type q, of this file alone, whose operations are functions outside."""
    monkeypatch.setattr(datatypes, "_codes", dict(datatypes._codes))
    monkeypatch.setattr(datatypes, "_lowerings", dict(datatypes._lowerings))
    register_type("q", 200)
    operations = {
        "Cast.q.float": "FromF",
        "Cast.float.q": "ToF",
        "Add.q": "MyAdd",
        "LT.q": "MyLess",
        "Call.intrin.tir.sqrt.q": "MySqrt",
    }
    for operation, name in operations.items():
        register_lowering(operation, outside(name))
    register_lowering("FloatImm.q", lambda dtype, value: const(int(value), dtype), ["cpu"])


def body(text: str, target: str = "cpu") -> str:
    """The last line of what the pass makes of a loop over A, B (float32) and P, R (q)."""
    head = f"def main(A: Buffer((4,), float32), B: Buffer((4,), float32), P: Buffer((4,), {Q}), "
    func = parse_func(f"{head}R: Buffer((4,), bool)):\n    for i in range(4):\n        {text}\n")
    after = LowerCustomDatatypes()(func.with_attrs(target=target))
    assert not any(e.dtype.is_custom for e in all_exprs(after.body))
    assert [b.dtype.name for b in after.buffers] == ["float32", "float32", "uint8", "bool"]
    return to_text(after).splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # The example of the specification: children first.
        (
            f"P[i] = {Q}(A[i]) + {Q}(B[i])",
            'P[i] = call_pure_extern("MyAdd", call_pure_extern("FromF", A[i], dtype=uint8), '
            'call_pure_extern("FromF", B[i], dtype=uint8), dtype=uint8)',
        ),
        ("A[i] = float32(P[i])", 'A[i] = call_pure_extern("ToF", P[i], dtype=float32)'),
        ("P[i] = sqrt(P[i])", 'P[i] = call_pure_extern("MySqrt", P[i], dtype=uint8)'),
        # FIX-8: a comparison is custom where its operands are.
        ("R[i] = P[i] < P[3 - i]", 'R[i] = call_pure_extern("MyLess", P[i], P[3 - i], dtype=bool)'),
        (f"P[i] = {Q}(3.0)", "P[i] = uint8(3)"),
        (
            "P[i] = if_then_else(i < 2, P[i + 1], P[0])",
            "P[i] = if_then_else(i < 2, P[i + 1], P[0])",
        ),
        ("P[i] = reinterpret(uint8(7), dtype=custom[q]8)", "P[i] = uint8(7)"),
        (
            "with x: custom[q]8 = P[0]:\n            P[i] = x + x",
            'P[i] = call_pure_extern("MyAdd", x, x, dtype=uint8)',
        ),
    ],
)
def test_what_becomes_of_operations(text: str, wanted: str) -> None:
    assert body(text) == wanted


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("P[i] = P[i] - P[0]", "cpu", "there is no lowering of Sub.q for the target cpu; say what"),
        (f"P[i] = {Q}(3.0)", "cuda", "there is no lowering of FloatImm.q for the target cuda"),
        ("P[i] = exp(P[i])", "cpu", "no lowering of Call.intrin.tir.exp.q"),
        ("P[i] = custom[q]8(i)", "cpu", "there is no lowering of Cast.q.int"),
        (
            'P[i] = call_extern("f", P[i], dtype=custom[q]8)',
            "cpu",
            r"passes values of custom\[q\]8 to a function outside, which knows no such type",
        ),
        ("A[i] = float32(custom[r]8(A[i]))", "cpu", r"the type custom\[r\]8 is not registered; "),
    ],
)
def test_what_is_refused(text: str, target: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        body(text, target)


def test_a_function_says_its_target() -> None:
    func = parse_func("def main(A: Buffer((4,), float32)):\n    A[0] = 1.0\n")
    with pytest.raises(ConfigError, match="main has no attribute `target`; run BindTarget before"):
        LowerCustomDatatypes()(func)
    assert LowerCustomDatatypes("cpu")(func) is func


def test_a_lowering_of_another_type_is_refused() -> None:
    register_lowering("Mul.q", lambda dtype, a, b: a.astype("int32"))
    with pytest.raises(ConfigError, match=r"lowering of Mul\.q .* gives int32, expected .* uint8"):
        body("P[i] = P[i] * P[0]")


def test_a_lowering_that_fails_is_named_with_its_line() -> None:
    register_lowering("Mul.q", lambda dtype, a, b: a // 0)
    failed = r"the lowering of Mul\.q for the target cpu failed at .*datatypes\.py:\d+: ZeroDivis"
    with pytest.raises(ConfigError, match=failed):
        body("P[i] = P[i] * P[0]")
    register_lowering("Mul.q", lambda a, b: a)
    with pytest.raises(ConfigError, match=r"lowering of Mul\.q .* failed at the call: TypeError"):
        body("P[i] = P[i] * P[0]")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("q", 201, "it is registered with code 200"),
        ("r", 200, "code 200 is that of q"),
        ("r", 128, "expected a code from 129 to 255, found 128"),
        ("1r", 130, "the name is an identifier, found '1r'"),
    ],
)
def test_names_and_codes_are_unique(name: str, code: int, message: str) -> None:
    register_type("q", 200)  # again the same
    with pytest.raises(ConfigError, match=message):
        register_type(name, code)
    with pytest.raises(ConfigError, match=r"register_lowering Add\.r: it names no registered type"):
        register_lowering("Add.r", outside("f"))


def test_nothing_runs_before() -> None:
    func = parse_func(f"def main(A: Buffer((4,), {Q})):\n    A[0] = A[1] + A[2]\n")
    memory: Array = np.zeros(4, DType(Q).numpy)
    with pytest.raises(interp.InterpreterError, match="means nothing before LowerCustomDatatypes"):
        interp.run(func, [memory])


def test_only_a_lowering_knows_what_constants_are_rounded_to() -> None:
    """Operations on constants of such types are not done before: 0.3 + 0.3 need not be 0.6."""
    a, b = const(0.3, Q), const(0.7, Q)
    made = [op.add, op.sub, op.mul, op.truncdiv, op.truncmod, op.min_, op.max_, op.lt, op.eq]
    for operation in made:
        assert isinstance(operation(a, b), BinaryExpr)
        assert isinstance(Analyzer().simplify(operation(a, b)), BinaryExpr)
    assert isinstance(op.cast("float32", a), Cast)
    assert (a + 0.0 is a) and (a * 1.0 is a)
