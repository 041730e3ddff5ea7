"""Every operation of expressions in every type, at the corner values of `kit.corners`.

All expressions of one type are statements of one program, because LLVM takes some milliseconds for
any function, however small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from autosched.driver import lower
from autosched.runtime.cpu import build_artifact, load
from autosched.target import cpu_target
from autosched.task import Task
from autosched.te.operations.operation import ComputeOp
from autosched.tir import interp
from autosched.tir.dtype import DType
from autosched.tir.function import PrimFunc
from kit.corners import sample
from kit.types import Array

INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
FLOATS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64")

_OF_ALL = (
    *("A[i] + B[i]", "A[i] - B[i]", "A[i] * B[i]", "A[i] // B[i]", "A[i] % B[i]"),
    *("A[i] // 3", "A[i] % 3", "7 // B[i]", "7 % B[i]", "A[i] // 1", "A[i] % 1", "A[i] // A[i]"),
    *(f"int32(A[i] {sign} B[i])" for sign in ("<", "<=", ">", ">=", "==", "!=")),
    *("int32(A[i] and B[i])", "int32(A[i] or not B[i])", "int32(A[i] != A[i])"),
    *("max(A[i], B[i])", "min(A[i], B[i])", "clip(A[i], B[i], 3)", "relu(A[i])", "max(A[i], 1)"),
    *("where(A[i] < B[i], A[i], B[i])", "A[i] if B[i] else 1", "A[i] if A[i] > 0 else -A[i]"),
    *("-A[i]", "abs(A[i])", "square(A[i])", "A[i] ** 0", "A[i] ** 1"),
    *("A[i] + 0", "A[i] * 1", "A[i] * 0", "A[i] - A[i]", "A[i] + 1", "1 - A[i]", "2 * A[i]"),
    *("(A[i] > 0) + (A[i] < 5)", "-(A[i] > 0)", "(A[i] > 0) * A[i]", "(A[i] > 0) + 0.5"),
    *(f"{kind}(A[i])" for kind in (*INTEGERS, *FLOATS)),
)
_OF_INTEGERS = (
    *("A[i] & B[i]", "A[i] | B[i]", "A[i] ^ B[i]", "A[i] << B[i]", "A[i] >> B[i]", "~A[i]"),
    *("A[i] << 3", "A[i] >> 3", "A[i] >> 1 << 1", "A[i] << 31", "A[i] & 7"),
    *("A[i] // -1", "A[i] % -1", "A[i] // -3", "A[i] % -3", "-7 // B[i]", "-7 % B[i]"),
    *("A[i] * 8 // 8", "A[i] * 6 % 3", "(A[i] + 5) - 5", "(A[i] * 2 + 1) % 2", "A[i] * 3 // 3"),
    *("A[i] // 2 * 2 + A[i] % 2", "(A[i] + 7) // 8", "A[i] // 4 // 2", "A[i] % 8 % 4"),
    *("int32(A[i] - 1 < A[i])", "int32(2 * A[i] < 10)", "int32(A[i] * 2 == B[i])"),
    *("-A[i] // 2", "-(A[i] // 2)", "abs(A[i]) % 3", "A[i] ** 3", "float32(A[i]) / 8"),
)
_OF_FLOATS = (
    *("A[i] / B[i]", "fmod(A[i], B[i])", "3 / A[i]", "A[i] / 2", "A[i] // 0.1", "A[i] % 0.1"),
    *(f"{name}(A[i])" for name in ("floor", "ceil", "round", "rint", "trunc", "sqrt")),
    *("floor(A[i] / 3)", "ceil(A[i] * 0.1)", "round(A[i] / B[i])", "rint(A[i] * B[i] - A[i])"),
    *("int8(A[i] / 3)", "int64(A[i] * B[i] + A[i])", "uint8(A[i] / 0.7)", "A[i] ** 0.5"),
    *("int32(A[i] * B[i] + A[i] > 0)", "int32(A[i] / 3 * 3 > A[i])", "fmod(A[i] / 0.1, 1)"),
    *("(A[i] * 3 - B[i]) // B[i]", "(A[i] / 3) % B[i]", "int32(A[i] / 0.7 == B[i] / 0.7)"),
)
_OF_TWO_TYPES = (
    *(f"A[i] {sign} B[i]" for sign in ("+", "-", "*", "/", "//", "%")),
    *(f"int32(A[i] {sign} B[i])" for sign in ("<", "<=", ">", ">=", "==", "!=", "and", "or")),
    *("max(A[i], B[i])", "min(A[i], B[i])", "clip(A[i], B[i], 3)", "fmod(A[i], B[i])"),
    *("A[i] if A[i] > B[i] else B[i]", "(A[i] > 0) + B[i]", "where(B[i] == 0, A[i], B[i])"),
)


def expressions(dtype: str, other: str = "") -> tuple[str, ...]:
    """Expressions whose every bit is defined, except the sign of a zero that max and min choose.

    With `other`, the expressions that make sense if B has another type.
    """
    if other:
        return _OF_TWO_TYPES
    return (*_OF_ALL, *(_OF_FLOATS if DType(dtype).is_float else _OF_INTEGERS))


def programs(dtype: str, other: str, each: Sequence[str], count: int) -> Task:
    """One statement for each expression, over arrays A and B of `count` elements."""
    text = "; ".join(f"R{k}[i] = {e}" for k, e in enumerate(each))
    return Task.from_expression(text, {"A": [count], "B": [count]}, dtype={"A": dtype, "B": other})


def _lowered(task: Task, lanes: int) -> PrimFunc:
    """The lowered function: with one lane, scalar loops for LLVM to vectorise.

    With more, the loops are vectors of `lanes` and a tail.
    """
    sch, tensors = task.dag.apply_steps(())
    for op in [t.op for t in tensors if isinstance(t.op, ComputeOp)]:
        if lanes > 1:
            _, inner = sch[op].split(op.axis[0], factor=lanes)
            sch[op].vectorize(inner)
    return lower(sch, tensors, task.target)


def problems(
    dtype: str,
    each: Sequence[str],
    *,
    other: str = "",
    lanes: int,
    count: int = 301,
    seed: int = 0,
) -> Iterator[str]:
    """The differences between compiled code and the interpreter or NumPy, as messages."""
    types = dtype, other or dtype
    task = programs(*types, each, count)
    inputs = [sample(kind, seed + k, count) for k, kind in enumerate(types, 1)]
    with np.errstate(all="ignore"):
        kinds = [t.dtype.numpy for t in task.tensors[2:]]
        wanted = [x.astype(kind) for x, kind in zip(task.reference(inputs), kinds, strict=True)]
        func = _lowered(task, lanes)
        compiled, interpreted = ([np.zeros(count, kind) for kind in kinds] for _ in range(2))
        load(build_artifact(func, cpu_target(1), "full" if lanes == 1 else "light"))(
            *inputs, *compiled
        )
        interp.run(func, [*inputs, *interpreted])
    for text, ours, *others in zip(each, compiled, interpreted, wanted, strict=True):
        for name, theirs in zip(("interpreted", "NumPy"), others, strict=True):
            same = _same(ours, theirs, signs=not text.startswith(("max", "min", "clip", "relu")))
            if not same.all():
                k = int(np.argmin(same))
                of = ", ".join(str(x[k]) for x in inputs)
                yield (
                    f"{' and '.join(types)}, {lanes} lanes: {text} of {of}: compiled {ours[k]}, "
                    f"{name} {theirs[k]} ({np.sum(~same)} differ)"
                )


def _same(a: Array, b: Array, signs: bool) -> Array:
    if not DType(a.dtype.name).is_float:
        return np.asarray(a == b)
    with np.errstate(invalid="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
    equal = (x == y) & ((np.signbit(x) == np.signbit(y)) | (not signs))
    return np.asarray(equal | (np.isnan(x) & np.isnan(y)))
