"""What a function of te.hybrid may call: its kinds of loops, its memory, and functions of te.

The results mean something to `body.py` alone; to type checkers they are Any.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from autosched.te.operations import intrinsics, reduction
from autosched.te.operations.compute import as_shape
from autosched.tir import op
from autosched.tir.dtype import DType, TypeLike
from autosched.tir.expr import Expr
from autosched.tir.given import text
from autosched.tir.stmt import ForKind

Bound = Expr | int


@dataclass(frozen=True, slots=True)
class Loops:
    """Nested loops, outermost first: their ranges (begin, end, step), kind and thread."""

    ranges: tuple[tuple[Bound, Bound, int], ...]
    kind: ForKind = ForKind.SERIAL
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """An array that the function makes; an output has no scope."""

    shape: tuple[Expr, ...]
    dtype: DType
    scope: str = ""
    is_output: bool = False


def _range(what: str, given: Sequence[Any]) -> tuple[Bound, Bound, int]:
    begin, end, step = [*((0, *given) if len(given) == 1 else given), 1][:3]
    if not 1 <= len(given) <= 3 or not isinstance(step, int) or step == 0:
        raise TypeError(f"{what} takes an end, a begin and an end, or also a step (a number)")
    for bound in (begin, end):
        if not op.as_expr(bound).dtype.is_int:
            raise TypeError(f"{what}: the bounds of a loop are integers, found {bound!r}")
    return begin, end, step


def serial(*bounds: Bound) -> Any:
    """A loop: `for i in serial(n)` is `for i in range(n)`."""
    return Loops((_range("range", bounds),))


def parallel(*bounds: Bound) -> Any:
    """A loop whose iterations the worker threads share."""
    return Loops((_range("parallel", bounds),), ForKind.PARALLEL)


def vectorize(*bounds: Bound) -> Any:
    """A loop whose iterations are one vector operation."""
    return Loops((_range("vectorize", bounds),), ForKind.VECTORIZED)


def unroll(*bounds: Bound) -> Any:
    """A loop that is written out in the kernel."""
    return Loops((_range("unroll", bounds),), ForKind.UNROLLED)


def grid(*extents: Bound) -> Any:
    """Nested loops from 0 on: `for i, j in grid(n, m)`."""
    return Loops(tuple(_range("grid", (extent,)) for extent in extents))


def bind(thread: str, extent: Bound) -> Any:
    """A loop that the threads of a GPU run: `for tx in bind("threadIdx.x", 32)`."""
    return Loops(
        (_range("bind", (extent,)),), ForKind.THREAD_BINDING, text("bind: a thread", thread)
    )


def const_range(*bounds: int) -> builtins.range:
    """A loop over numbers, whose body is read once for each: indices of Python lists, say."""
    return builtins.range(*bounds)


def output_tensor(shape: Any, dtype: TypeLike = "float32") -> Any:
    """An output: `c = output_tensor((n, m), "float32")`. The function returns it."""
    return Memory(as_shape(shape), DType(dtype), is_output=True)


def allocate(shape: Any, dtype: TypeLike = "float32", scope: str = "") -> Any:
    """An array that lasts to the end of the block; its scope is that of the threads around it."""
    return Memory(as_shape(shape), DType(dtype), text("allocate: a scope", scope))


_OWN: dict[str, Any] = {
    "allocate": allocate,
    "bind": bind,
    "const_range": const_range,
    "grid": grid,
    "output_tensor": output_tensor,
    "parallel": parallel,
    "range": serial,
    "serial": serial,
    "unroll": unroll,
    "vectorize": vectorize,
}
_TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
)
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{
        name: getattr(intrinsics, name)
        for name in (
            *("acos", "asin", "atan", "atan2", "call_extern", "ceil", "cos", "cosh", "erf", "exp"),
            *("exp2", "floor", "fmod", "isinf", "isnan", "log", "log10", "log1p", "log2"),
            *("popcount", "power", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan"),
            *("tanh", "trunc"),
        )
    },
    "ceil_div": lambda a, b: op.floordiv(op.sub(op.add(a, b), 1), b),
    "if_then_else": op.if_then_else,
    "likely": op.likely,
    "max": reduction.max,
    "min": reduction.min,
    "select": op.select,
}
NAMES: Mapping[str, Any] = {
    **_FUNCTIONS,
    **{dtype: partial(op.cast, dtype) for dtype in _TYPES},
    **_OWN,
}
"""By name, behind what the function's own module defines and before what is built into Python."""
