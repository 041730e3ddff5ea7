"""The extents of a statement's indices, inferred from the shapes of what it reads.

An index that stands alone (`A[i]`) runs over the whole axis. An index that is shifted or scaled
(`A[i + 1]`, `A[2*i]`) runs as far as every read stays inside its tensor: `D[i] = A[i+1] - A[i]` has
one element fewer than A. Where the shape of the result is given, that is the range, and every read
is checked against it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched.workloads.expression.interval import interval
from autosched.workloads.expression.statement import (
    Statement,
    branches,
    index_list,
    loads_of,
    tensor_of,
)


@dataclass(frozen=True, slots=True)
class _Use:
    """A read of an axis of length `size`.

    - `index`: the index expression.
    - `linear`: its coefficients by index name, the constant under ""; None when it is not linear.
    - `longer`: the axis may be longer than the reader needs: it is one of a helper, in which the
      index is shifted or scaled.
    """

    load: ast.Subscript
    index: ast.expr
    size: int
    linear: dict[str, int] | None
    longer: bool

    @property
    def names(self) -> list[str]:
        return [name for name in self.linear or {} if name]

    @property
    def alone(self) -> str | None:
        """The name of the index if it stands alone and runs over the whole axis; else None."""
        return self.index.id if isinstance(self.index, ast.Name) and not self.longer else None


def infer_extents(
    statement: Statement,
    shapes: Mapping[str, tuple[int, ...]],
    helpers: Mapping[str, Statement],
) -> None:
    """Fill in `statement.extents`: the length of every index, from the shapes of what it reads.

    `shapes` may include the result. `helpers` compute reductions inside of statements; an index
    that is shifted or scaled there may run further than here. Raises ConfigError when a length does
    not follow from the shapes, is contradictory, or lets a read (outside of a branch) leave its
    tensor.
    """
    extents = statement.extents
    written = statement.written
    _take_declared(statement, shapes)
    uses, inside_branches = _uses(statement, shapes, helpers)
    fixed = frozenset(extents)
    statement.whole = fixed.union(use.alone for use in uses if use.alone is not None)
    _from_whole_axes(statement, uses, fixed)
    _from_windows(statement, uses, fixed)
    for use in inside_branches:  # here an index may stop before the end of the axis
        if use.alone is not None:
            extents.setdefault(use.alone, use.size)
    _from_windows(statement, uses, fixed)
    if _missing(statement) and statement.outer is not None:
        for name, length in (*statement.around.items(), *_whole_axes(statement.outer, shapes)):
            if name in _missing(statement):
                extents[name] = length
        _from_windows(statement, uses, fixed)
    missing = _missing(statement)
    if missing:
        name, remedy = missing[0], ""
        if name in statement.reduce_indices:
            remedy = f"give it, e.g. {statement.reducer}({name} < 8, ...), or "
        elif written.name not in shapes:
            remedy = f"give the shape of {written.name} too, or "
        statement.fail(
            f"the length of index {name} does not follow from the shapes; {remedy}index a tensor "
            f"by {name} alone"
        )
    for use in uses:
        _check_inside(statement, use)


def _take_declared(statement: Statement, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Record the lengths of the indices on the left, if the shape of the result is given."""
    written = statement.written
    declared = shapes.get(written.name)
    if declared is not None:
        if len(declared) != len(written.indices):
            statement.fail(
                f"{written.name}: expected a size under shapes for each index on the left "
                f"({len(written.indices)}), found {len(declared)}"
            )
        if statement.table is not None and statement.table.shape != tuple(declared):
            statement.fail(
                f"the table has the shape {statement.table.shape}, but under shapes {written.name} "
                f"has {tuple(declared)}"
            )
        lengths = zip(written.indices, declared, strict=True)
        statement.extents.update((name, n) for name, n in lengths if name in statement.indices)


def _uses(
    statement: Statement,
    shapes: Mapping[str, tuple[int, ...]],
    helpers: Mapping[str, Statement],
) -> tuple[list[_Use], list[_Use]]:
    """The indices of all reads: those outside of branches, and those inside of them."""
    guarded = {id(n) for arm in branches(statement.body) for n in ast.walk(arm)}
    uses: list[_Use] = []
    inside_branches: list[_Use] = []
    for load in loads_of(statement.body):
        shape = shapes[tensor_of(load)]
        indices = index_list(load)
        if len(indices) != len(shape):
            axes = "dimension" if len(shape) == 1 else "dimensions"
            statement.fail(
                f"{ast.unparse(load)} has {len(indices)} indices, the tensor has "
                f"{len(shape)} {axes}"
            )
        for index, size in zip(indices, shape, strict=True):
            helper = helpers.get(tensor_of(load))
            longer = helper is not None and not helper.whole.intersection(linear(index) or ())
            use = _Use(load, index, size, linear(index), longer)
            (inside_branches if id(load) in guarded else uses).append(use)
    return uses, inside_branches


def _missing(statement: Statement) -> list[str]:
    """The indices whose length is not known yet."""
    every = (*statement.indices, *statement.reduce_indices)
    return [name for name in every if name not in statement.extents]


def _whole_axes(
    statement: Statement, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, int]]:
    """Indices that stand alone in reads of known tensors, and the lengths of those axes."""
    for load in loads_of(statement.body):
        for index, size in zip(index_list(load), shapes.get(tensor_of(load), ()), strict=False):
            if isinstance(index, ast.Name):
                yield index.id, size


def _from_whole_axes(statement: Statement, uses: Sequence[_Use], fixed: frozenset[str]) -> None:
    """Set the lengths of indices that stand alone; a given result shape may be shorter."""
    extents = statement.extents
    for use in uses:
        name = use.alone
        if name is None:
            continue
        known = extents.setdefault(name, use.size)
        if known > use.size or (known < use.size and name not in fixed):
            statement.fail(
                f"index {name} has length {known}, but {ast.unparse(use.load)} needs {use.size}"
                f"{_shorter(statement, name, min(known, use.size), fixed)}"
            )


def _shorter(statement: Statement, name: str, length: int, fixed: frozenset[str]) -> str:
    """A remedy to stop an index at the shorter of two axes; empty where its length is given."""
    if name in fixed:
        return ""
    if name in statement.reduce_indices:
        return f"; to stop short, write {statement.reducer}({name} < {length}, ...)"
    return f"; to stop short, give the shape of {statement.written.name} too"


def _from_windows(statement: Statement, uses: Sequence[_Use], fixed: frozenset[str]) -> None:
    """Set the lengths of indices that are shifted, scaled or added to known ones.

    They run as far as every read stays inside its tensor.
    """
    extents = statement.extents
    bound: dict[str, int] = {}
    for use in uses:
        if len(use.names) == 1 and use.alone is None and use.names[0] not in fixed:
            name = use.names[0]
            room = _room(statement, use, name)
            if room is not None:
                bound[name] = min(room, bound.get(name, room))
    for name, length in bound.items():
        extents[name] = min(length, extents.get(name, length))
    while True:
        found: dict[str, int] = {}
        for use in uses:
            unknown = [name for name in use.names if name not in extents]
            if len(unknown) == 1:
                room = _room(statement, use, unknown[0])
                if room is not None:
                    found[unknown[0]] = min(room, found.get(unknown[0], room))
        if not found:
            break
        extents.update(found)
    for use in uses:
        loose = [name for name in use.names if name not in statement.whole]
        if len(loose) == 1 and extents.keys() >= set(use.names):
            room = _room(statement, use, loose[0])
            if room is not None:
                extents[loose[0]] = min(room, extents[loose[0]])


def _room(statement: Statement, use: _Use, name: str) -> int | None:
    """How many values `name` can take before the read leaves the axis; None for a negative step."""
    assert use.linear is not None
    step = use.linear[name]
    if step <= 0:
        return None
    rest = {other: c for other, c in use.linear.items() if other != name}
    room = use.size - 1 - _highest(rest, statement.extents)
    if room < 0:
        statement.fail(f"index {name} would have no elements in {ast.unparse(use.load)}")
    return room // step + 1


def _highest(coefficients: Mapping[str, int], extents: Mapping[str, int]) -> int:
    return coefficients.get("", 0) + sum(
        max(0, c * (extents[name] - 1)) for name, c in coefficients.items() if name
    )


def _check_inside(statement: Statement, use: _Use) -> None:
    """Refuse a read that leaves its tensor.

    The range of an index that is not linear may be too wide: where it reaches beyond the tensor on
    one side, `workloads.reads.check_reads` works the index out.
    """
    found = interval(use.index, statement.extents, lambda _: None)
    if found is None or (found[0] >= 0 and found[1] < use.size):
        return
    if use.linear is None and found[0] < use.size and found[1] >= 0:
        return
    low, high = int(found[0]), int(found[1])
    hint = (
        "indices start at 0, so shift all reads up"
        if low < 0
        else f"give {statement.written.name} a smaller shape under shapes"
    )
    statement.fail(
        f"{ast.unparse(use.load)} reads elements {low}..{high} of an axis of length {use.size}; "
        f"{hint}, or choose with `a if condition else b`"
    )


def linear(e: ast.expr) -> dict[str, int] | None:
    """Coefficients by index name, the constant under ""; None when `e` is not linear."""
    match e:
        case ast.Name(id=name):
            return {name: 1}
        case ast.Constant(value=int(value)):
            return {"": value}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = linear(operand)
            return None if inner is None else {k: -c for k, c in inner.items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            for name, c in b.items():
                a[name] = a.get(name, 0) + (c if isinstance(sign, ast.Add) else -c)
            return {name: c for name, c in a.items() if c or not name}
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            if set(b) <= {""}:
                return {name: c * b.get("", 0) for name, c in a.items()}
            if set(a) <= {""}:
                return {name: c * a.get("", 0) for name, c in b.items()}
    return None
