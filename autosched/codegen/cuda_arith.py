"""Operators, comparisons and conversions in CUDA C, with the meaning they have on the CPU.

Integers wrap. Sums and products of data are computed in an unsigned type, because signed overflow
is undefined in C. Sums and products of indices stay in their type and are computed in it. 16-bit
floats are computed in float and rounded once. Operands of operations that jump, such as floor
(`tir/jumps.py`), are rounded separately.
"""

from __future__ import annotations

from autosched.codegen.cuda_types import is_half, unsigned, value_type
from autosched.codegen.cuda_writer import Level, Text, Writer
from autosched.errors import CompileError
from autosched.tir.constants import whole_number
from autosched.tir.data import is_data
from autosched.tir.dtype import DType, float32
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
)

_OPERATORS: dict[type[Expr], tuple[str, Level]] = {
    Add: ("+", Level.ADD),
    Sub: ("-", Level.ADD),
    Mul: ("*", Level.MUL),
    Div: ("/", Level.MUL),
    Mod: ("%", Level.MUL),
    EQ: ("==", Level.EQUAL),
    NE: ("!=", Level.EQUAL),
    LT: ("<", Level.LESS),
    LE: ("<=", Level.LESS),
    GT: (">", Level.LESS),
    GE: (">=", Level.LESS),
    And: ("&&", Level.AND),
    Or: ("||", Level.OR),
}
_ROUNDED: dict[type[Expr], str] = {Add: "add", Sub: "sub", Mul: "mul"}
"""CUDA's names for operations that are never fused, whatever statements they stand in."""
_STRONGER = {level: Level(level + 1) for level in Level if level < Level.PRIMARY}


def arithmetic(w: Writer, e: Expr) -> Text:
    """Add, Sub, Mul."""
    assert isinstance(e, BinaryExpr)
    if e.dtype.is_float:
        return _float_operator(w, e)
    if not wraps(e):
        return _joined(type(e), w.value(e.a), w.value(e.b))
    return Text(f"({value_type(e.dtype)})({_modular(w, e, unsigned(e.dtype)).text})", Level.UNARY)


def wraps(e: Expr) -> bool:
    """Whether the sum or product `e` may overflow its type, which C does not allow."""
    return not e.dtype.is_index or is_data(e)


def _modular(w: Writer, e: Expr, kind: str) -> Text:
    """`e` modulo 2**bits in the unsigned type `kind`; a tree of sums and products at once."""
    if isinstance(e, Add | Sub | Mul):
        return _joined(type(e), _modular(w, e.a, kind), _modular(w, e.b, kind))
    value = w.value(e)
    return Text(f"({kind}){value.within(Level.UNARY)}", Level.UNARY)


def _float_operator(w: Writer, e: BinaryExpr) -> Text:
    if not w.may_fuse and type(e) in _ROUNDED:
        name = f"__{'d' if e.dtype.bits == 64 else 'f'}{_ROUNDED[type(e)]}_rn"
        rounded = Text(f"{name}({w.widened(e.a).text}, {w.widened(e.b).text})")
        return w.narrowed(rounded, e.dtype)
    return w.narrowed(_joined(type(e), w.widened(e.a), w.widened(e.b)), e.dtype)


def _joined(kind: type[Expr], a: Text, b: Text) -> Text:
    symbol, level = _OPERATORS[kind]
    return Text(f"{a.within(level)} {symbol} {b.within(_STRONGER[level])}", level)


def division(w: Writer, e: Expr) -> Text:
    """Div and Mod: exact on floats, toward zero on integers; dividing an integer by 0 gives 0."""
    assert isinstance(e, BinaryExpr)
    if e.dtype.is_float and isinstance(e, Mod):
        name = "fmod" if e.dtype.bits == 64 else "fmodf"
        args = f"{w.widened(e.a).text}, {w.widened(e.b).text}"
        return w.narrowed(Text(f"{name}({args})"), e.dtype)
    if e.dtype.is_float:
        return _float_operator(w, e)
    if whole_number(e.b) in (None, 0, -1):
        kind = w.type(e.dtype)
        a, b = (f"({kind}){w.operand(x, Level.UNARY)}" for x in (e.a, e.b))
        return w.call("quotient_int" if isinstance(e, Div) else "remainder_int", a, b)
    whole = _joined(type(e), w.value(e.a), w.value(e.b))
    if e.dtype.bits >= 32:
        return whole
    return Text(f"({value_type(e.dtype)})({whole.text})", Level.UNARY)


def floor_division(w: Writer, e: Expr) -> Text:
    """FloorDiv and FloorMod of floats; those of integers have been lowered before."""
    assert isinstance(e, FloorDiv | FloorMod)
    if not e.dtype.is_float:
        raise CompileError(
            f"{type(e).__name__} reached CUDA code generation: run the lowering passes first: {e!r}"
        )
    name = "floordiv" if isinstance(e, FloorDiv) else "floormod"
    a, b = w.widened(e.a).text, w.widened(e.b).text
    return w.narrowed(w.call(f"{name}_f{max(e.dtype.bits, 32)}", a, b), e.dtype)


def comparison(w: Writer, e: Expr) -> Text:
    """The six comparisons; false with a NaN, but != is true."""
    assert isinstance(e, BinaryExpr)
    return _joined(type(e), w.widened(e.a), w.widened(e.b))


def logical(w: Writer, e: Expr) -> Text:
    """And, Or."""
    assert isinstance(e, BinaryExpr)
    return _joined(type(e), w.value(e.a), w.value(e.b))


def negation(w: Writer, e: Expr) -> Text:
    """Not."""
    assert isinstance(e, Not)
    return Text(f"!{w.operand(e.a, Level.UNARY)}", Level.UNARY)


def extremum(w: Writer, e: Expr) -> Text:
    """Min and Max; the result is NaN if an operand is."""
    assert isinstance(e, Min | Max)
    if e.dtype.is_bool:
        return _joined(And if isinstance(e, Min) else Or, w.value(e.a), w.value(e.b))
    name = "min" if isinstance(e, Min) else "max"
    a, b = w.widened(e.a).text, w.widened(e.b).text
    if e.dtype.is_float:
        bits = max(e.dtype.bits, 32)
        return w.narrowed(w.call(f"{name}_f{bits}", a, b), e.dtype)
    whole = Text(f"{name}({a}, {b})")
    if e.dtype.bits >= 32:
        return whole
    return Text(f"({value_type(e.dtype)}){whole.text}", Level.UNARY)


# -- conversions ------------------------------------------------------------------------------


def cast(w: Writer, e: Expr) -> Text:
    """Cast."""
    assert isinstance(e, Cast)
    return convert(w, w.value(e.value), e.value.dtype, e.dtype)


def convert(w: Writer, value: Text, source: DType, target: DType) -> Text:
    """`value` of type `source` converted to `target`."""
    if source is target:
        return value
    if source.is_handle or target.is_handle:
        raise CompileError(f"no conversion from {source} to {target} on a GPU")
    if is_half(source):
        wide = w.call(f"{value_type(source)}_to_f32", value.text)
        return convert(w, wide, float32, target)
    if target.name == "float16" and source.name == "float64":
        return w.call("f64_to_f16", value.text)
    if is_half(target):
        wide = convert(w, value, source, float32)
        return w.call(f"f32_to_{value_type(target)}", wide.text)
    if target.is_bool:
        zero = "0.0f" if source.is_float and source.bits == 32 else "0.0"
        zero = zero if source.is_float else "0"
        return Text(f"{value.within(Level.SHIFT)} != {zero}", Level.EQUAL)
    if source.is_float and target.is_integral:
        return _float_to_int(w, value, source, target)
    return Text(f"({value_type(target)}){value.within(Level.UNARY)}", Level.UNARY)


def _float_to_int(w: Writer, value: Text, source: DType, target: DType) -> Text:
    w.use(f"f{source.bits}_to_int")
    sign = "i" if target.code == "int" else "u"
    if target.bits >= 32:
        return Text(f"f{source.bits}_to_{sign}{target.bits}({value.text})")
    # Saturated as an int first, which also makes NaN 0.
    whole = f"f{source.bits}_to_i32({value.text})"
    limited = f"max({target.min_value}, min({target.max_value}, {whole}))"
    return Text(f"({value_type(target)}){limited}", Level.UNARY)
