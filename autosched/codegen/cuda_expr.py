"""Expressions as CUDA C: one handler per node class."""

from __future__ import annotations

from autosched.codegen import cuda_arith, cuda_call, cuda_memory
from autosched.codegen.cuda_types import float_constant, int_constant, is_half, value_type
from autosched.codegen.cuda_writer import Handler, Text, Writer
from autosched.errors import CompileError
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Shuffle,
    Sub,
    Var,
)
from autosched.tir.walk import substitute


def _int(w: Writer, e: Expr) -> Text:
    assert isinstance(e, IntImm)
    return Text(int_constant(e.value, e.dtype))


def _float(w: Writer, e: Expr) -> Text:
    assert isinstance(e, FloatImm)
    if is_half(e.dtype):
        w.use(value_type(e.dtype))
    return Text(float_constant(e.value, e.dtype))


def _var(w: Writer, e: Expr) -> Text:
    raise CompileError(f"the variable {e!r} has no value in the kernel")


def _select(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Select)
    return cuda_call.conditional(w, e.condition, e.true_value, e.false_value)


def _let(w: Writer, e: Expr) -> Text:
    """A lambda of the variable, called at once: the value is computed once, and only here."""
    assert isinstance(e, Let)
    if isinstance(e.value, Var | IntImm | FloatImm):
        return w.value(substitute(e.body, {e.var: e.value}))
    kind, value = w.type(e.var.dtype), w.bound_value(e.var, e.value).text
    name = w.names.new(e.var.name)
    w.values[e.var] = Text(name)
    return Text(f"[&]({kind} {name}) {{ return {w.text(e.body)}; }}({value})")


HANDLERS: dict[type[Expr], Handler] = {
    **dict.fromkeys((Add, Sub, Mul), cuda_arith.arithmetic),
    **dict.fromkeys((Div, Mod), cuda_arith.division),
    **dict.fromkeys((FloorDiv, FloorMod), cuda_arith.floor_division),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), cuda_arith.comparison),
    **dict.fromkeys((And, Or), cuda_arith.logical),
    **dict.fromkeys((Min, Max), cuda_arith.extremum),
    Not: cuda_arith.negation,
    Cast: cuda_arith.cast,
    Call: cuda_call.call,
    BufferLoad: cuda_memory.load,
    Shuffle: cuda_memory.lane,
    Select: _select,
    Let: _let,
    IntImm: _int,
    FloatImm: _float,
    Var: _var,
}
