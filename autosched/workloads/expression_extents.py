"""The statements of an expression workload, and how long their indices run."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from autosched.errors import ConfigError


@dataclass
class Statement:
    """`name[indices] = reducer(reduce_indices, body)`; reducer is "" without a reduction."""

    text: str
    name: str
    indices: tuple[str, ...]
    reducer: str
    reduce_indices: tuple[str, ...]
    body: ast.expr
    extents: dict[str, int] = field(default_factory=dict)

    def fail(self, reason: str) -> NoReturn:
        """Raise the ConfigError that quotes the statement."""
        raise ConfigError(f"expr: in `{self.text}`: {reason}")


def loads_of(body: ast.expr) -> list[ast.Subscript]:
    """The tensor reads, in the order of the text."""
    found = [n for n in ast.walk(body) if isinstance(n, ast.Subscript)]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def index_list(load: ast.Subscript) -> list[ast.expr]:
    """The index expressions of a read."""
    return list(load.slice.elts) if isinstance(load.slice, ast.Tuple) else [load.slice]


def infer_extents(
    statement: Statement,
    shapes: Mapping[str, tuple[int, ...]],
    declared: tuple[int, ...] | None,
) -> None:
    """Fill `statement.extents`: the length of every index, from the shapes of what it reads.

    `declared` is the shape given for the result, if any. Raises ConfigError when a length does not
    follow, is contradictory, or lets a read (outside of a branch) leave its tensor.
    """
    extents = statement.extents
    if declared is not None:
        if len(declared) != len(statement.indices):
            statement.fail(f"{statement.name} has {len(declared)} dimensions under shapes")
        extents.update(zip(statement.indices, declared, strict=True))
    guarded = {
        id(n) for e in ast.walk(statement.body) if isinstance(e, ast.IfExp) for n in ast.walk(e)
    }
    uses: list[tuple[ast.Subscript, dict[str, int], int]] = []
    bare: list[tuple[str, int]] = []
    for load in loads_of(statement.body):
        shape = shapes[load.value.id]  # type: ignore[attr-defined]  # checked to be a Name
        indices = index_list(load)
        if len(indices) != len(shape):
            statement.fail(
                f"{ast.unparse(load)} has {len(indices)} indices, the tensor has {len(shape)} "
                "dimensions"
            )
        for index, size in zip(indices, shape, strict=True):
            linear = _linear(index)
            if id(load) in guarded:
                bare += [(index.id, size)] if isinstance(index, ast.Name) else []
            elif linear is not None:
                uses.append((load, linear, size))
    _solve(statement, uses, extents)
    for name, size in bare:  # inside a branch an index may also stop short of the axis
        extents.setdefault(name, size)
    _solve(statement, uses, extents)
    names = (*statement.indices, *statement.reduce_indices)
    missing = [name for name in names if name not in extents]
    if missing:
        statement.fail(
            f"the length of index {missing[0]} does not follow from the shapes; give the shape of "
            f"{statement.name} too, or index a tensor by {missing[0]} alone"
        )
    for load, linear, size in uses:
        low, high = _bounds(linear, extents)
        if low < 0 or high >= size:
            statement.fail(
                f"{ast.unparse(load)} reads elements {low}..{high} of an axis of length {size}"
            )


def _solve(
    statement: Statement,
    uses: Sequence[tuple[ast.Subscript, dict[str, int], int]],
    extents: dict[str, int],
) -> None:
    """Indices that stand alone first, then those bounded by a sum with known indices."""
    for load, linear, size in uses:
        names = [name for name in linear if name]
        if len(names) == 1 and linear[names[0]] == 1 and not linear.get(""):
            known = extents.setdefault(names[0], size)
            if known != size:
                statement.fail(
                    f"index {names[0]} has length {known}, but {ast.unparse(load)} needs {size}"
                )
    progress = True
    while progress:
        progress = False
        for _, linear, size in uses:
            unknown = [name for name in linear if name and name not in extents]
            if len(unknown) == 1 and linear[unknown[0]] > 0:
                rest = {name: c for name, c in linear.items() if name != unknown[0]}
                room = size - 1 - _bounds(rest, extents)[1]
                if room < 0:
                    statement.fail(f"index {unknown[0]} would have no elements")
                extents[unknown[0]] = room // linear[unknown[0]] + 1
                progress = True


def _bounds(linear: Mapping[str, int], extents: Mapping[str, int]) -> tuple[int, int]:
    low = high = linear.get("", 0)
    for name, c in linear.items():
        if name:
            span = c * (extents[name] - 1)
            low, high = low + min(span, 0), high + max(span, 0)
    return low, high


def _linear(e: ast.expr) -> dict[str, int] | None:
    """Coefficients by index name, the constant under ""; None when `e` is not linear."""
    match e:
        case ast.Name(id=name):
            return {name: 1}
        case ast.Constant(value=int(value)):
            return {"": value}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _linear(operand)
            return None if inner is None else {k: -c for k, c in inner.items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            a, b = _linear(left), _linear(right)
            if a is None or b is None:
                return None
            for name, c in b.items():
                a[name] = a.get(name, 0) + (c if isinstance(sign, ast.Add) else -c)
            return {name: c for name, c in a.items() if c or not name}
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = _linear(left), _linear(right)
            if a is None or b is None:
                return None
            if set(b) <= {""}:
                return {name: c * b.get("", 0) for name, c in a.items()}
            if set(a) <= {""}:
                return {name: c * a.get("", 0) for name, c in b.items()}
    return None
