"""Register tiles at the border: windows that reach past it read a constant there.

    for w in 14:                               (tiles of 7 columns; the first begins at the border)
        for r in 3:
            for c in 16:
                Y[w*16 + c] += if_then_else(1 <= w + r and w + r < 15, X[(w + r - 1)*16 + c], 0)

Register tiles are planned as if there were no border. Where conditions choose between values in
memory and a constant, and are the same for all lanes, a tile has two versions: one without the
conditions that hold throughout the tile, and one with all of them. At run time each tile takes one
of the two. As tiles are unrolled, only the steps that may reach past the border have conditions
left, and the code generator reads a vector of constants for them without a branch.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

from autosched.tir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, Var
from autosched.tir.kinds import bits_of, kinds, nodes_with
from autosched.tir.lanes import scalar_of
from autosched.tir.op import add, all_
from autosched.tir.walk import free_vars, map_expr_children, substitute
from autosched.transform.loops.loop_interval import Part, as_part, likely_parts
from autosched.transform.vector.reduction_nest import Nest

_CALLS = bits_of(Call)
Span = tuple[int, int]


class Inside(NamedTuple):
    """The version of a tile's value inside the border, and the condition that chooses it."""

    condition: Expr
    value: Expr


def borders_in(value: Expr) -> Iterator[Call]:
    """The loads in `value` that are constants beyond a border."""
    return filter(is_border, nodes_with(value, _CALLS))


def is_border(e: Expr) -> TypeGuard[Call]:
    """Whether `e` loads from memory, or is a constant beyond a border.

    Its conditions are comparisons of scalar indices. What is computed from a load, or chosen by
    further conditions, would take a branch there.
    """
    if not isinstance(e, Call) or e.op != "if_then_else" or e.args[0].dtype.lanes > 1:
        return False
    _, value, other = e.args
    if not isinstance(value, BufferLoad):
        return False
    constant = scalar_of(other)
    return isinstance(constant, FloatImm | IntImm) and None not in map(as_part, _sources(e))


def is_linear(border: Call, variables: Container[Var]) -> bool:
    """Whether the conditions of `border` are linear in each of the `variables`."""
    parts = [part for part in map(as_part, _sources(border)) if part is not None]
    terms = (term for part in parts for term in part.terms if not isinstance(term, Var))
    return not any(var in variables for term in terms for var in free_vars(term))


def value_inside(value: Expr, holds: Container[Expr] | None = None) -> Expr:
    """`value` where the comparisons `holds` of borders are true; None: all of them."""
    return _Inside(holds)(value)


class _Inside:
    """The function of `value_inside`."""

    def __init__(self, holds: Container[Expr] | None) -> None:
        self._holds = holds
        self._memo: dict[Expr, Expr] = {}

    def __call__(self, e: Expr) -> Expr:
        if not kinds(e) & _CALLS:
            return e
        done = self._memo.get(e)
        if done is None:
            done = self._memo[e] = self._chosen(e) if is_border(e) else map_expr_children(e, self)
        return done

    def _chosen(self, border: Call) -> Expr:
        holds = self._holds
        left = [] if holds is None else [c for c in _sources(border) if c not in holds]
        _, chosen, other = border.args
        return Call(border.dtype, border.op, (all_(*left), chosen, other)) if left else chosen


def without_borders(nest: Nest) -> Nest:
    """`nest` where every border chooses the value in memory."""
    value = value_inside(nest.value)
    return nest if value is nest.value else replace(nest, value=value)


def conditional_variables(value: Expr) -> frozenset[Var]:
    """The variables of the conditions of borders in `value`."""
    found = (free_vars(e.args[0]) for e in borders_in(value))
    return frozenset().union(*found)


def inside_of(
    nest: Nest, points: Sequence[Sequence[tuple[Var, Expr]]], reductions: Sequence[int]
) -> Inside | None:
    """The version of a tile of `nest` inside the border; None if it has no condition less.

    `points` has for each loop over outputs that the tile takes iterations from the values of its
    variable in the tile. `reductions` are the positions of the loops inside the tile.
    """
    within: dict[Var, Span] = {}
    around: dict[Var, Span] = {}
    at: dict[Var, Expr] = {}
    tiled = {values[0][0]: values for values in points}
    for k, axis in enumerate(nest.axes):
        values = tiled.get(axis.var)
        if values is not None:
            step = Var(axis.var.name, axis.var.dtype)
            within[step] = 0, len(values) - 1
            first = values[0][1]
            at[axis.var] = add(first, step)
            around |= dict.fromkeys(free_vars(first), (0, axis.extent // len(values) - 1))
        else:
            (within if k in reductions else around)[axis.var] = 0, axis.extent - 1
    holds: set[Expr] = set()
    tests: dict[Expr, None] = {}
    for source in dict.fromkeys(c for border in borders_in(nest.value) for c in _sources(border)):
        whole = _throughout(substitute(source, at), within)
        limits = None if whole is None else whole.bounds(around)
        if whole is None or (limits is not None and limits[0] > 0):
            continue
        holds.add(source)
        if limits is None or limits[1] > 0:
            tests[whole.expr(next(iter(whole.terms)).dtype)] = None
    if not holds:
        return None
    return Inside(all_(*tests), value_inside(nest.value, holds))


def _throughout(comparison: Expr, within: Mapping[Var, Span]) -> Part | None:
    """The comparison that holds where `comparison` does for all values of the variables `within`.

    None if it is not linear in these variables.
    """
    part = as_part(comparison)
    assert part is not None, "conditions of borders are comparisons"
    whole = part.relaxed(within)
    return whole if all(free_vars(t).isdisjoint(within) for t in whole.terms) else None


def _sources(border: Call) -> list[Expr]:
    """The comparisons that must all hold for `border` to choose the value in memory."""
    return [source for source, _ in likely_parts(border.args[0])]
