"""Apply the moves of a plan to the expressions of a nest.

for i in range(25):                              Slice(0, 0, 24), Take(0, 4):
    C[i*4 : +4] = C[i*4 : +4] + A[i*4 : +4]  ->  for i in range(6):
                                                     C[i*16 : +16] = C[i*16 : +16] + A[i*16 : +16]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from autosched.nest.loop_nest import Drop, Fold, LoopNest, Move, Slice, Take, Unlane
from autosched.nest.piece import Piece
from autosched.tir.expr import BinaryExpr, Expr, Ramp, Var
from autosched.tir.op import add, const, mul
from autosched.tir.stmt import BufferStore
from autosched.tir.walk import substitute
from autosched.transform.vector.border_tiles import conditional_variables, without_borders
from autosched.transform.vector.describe_nest import describe_nest
from autosched.transform.vector.lanes import lane_slice, widen
from autosched.transform.vector.reduction_nest import Axis, Nest, folded_term, output_reads

Plan = Callable[[LoopNest], Sequence[Piece]]


class NoVectorFormError(Exception):
    """The loop at position `loop` of a nest cannot become lanes after all."""

    def __init__(self, loop: int) -> None:
        super().__init__(f"the loop at position {loop} has no vector form")
        self.loop = loop


def planned_nests(nest: Nest, plan: Plan) -> list[tuple[Nest, Piece]]:
    """The nests that `plan` makes of `nest`, each with its piece of the plan, in the order to run.

    `plan` is called again without the loops whose values turn out to have no vector form.
    """
    barred: set[int] = set()
    while True:
        pieces = _planned(nest, plan, barred)
        try:
            return [(apply_moves(nest, piece.nest.moves), piece) for piece in pieces]
        except NoVectorFormError as refusal:
            barred.add(refusal.loop)


def _planned(nest: Nest, plan: Plan, barred: Collection[int]) -> Sequence[Piece]:
    """The plan of `nest`, without its borders unless lanes would differ in a border's condition."""
    conditional = conditional_variables(nest.value)
    if conditional:
        pieces = plan(describe_nest(without_borders(nest), barred))
        taken = (m.loop for piece in pieces for m in piece.nest.moves if isinstance(m, Take))
        if all(k >= len(nest.axes) or nest.axes[k].var not in conditional for k in taken):
            return pieces
    return plan(describe_nest(nest, barred))


def apply_moves(nest: Nest, moves: Iterable[Move]) -> Nest:
    """`nest` after the moves, in order. Raises NoVectorFormError for a move that is impossible."""
    for move in moves:
        match move:
            case Take():
                nest = _taken(nest, move)
            case Slice():
                nest = _sliced(nest, move)
            case Unlane():
                nest = _unlaned(nest)
            case Fold():
                nest = _folding(nest)
            case Drop(loops):
                nest = _without(nest, {nest.axes[k].var for k in loops})
    return nest


def _taken(nest: Nest, move: Take) -> Nest:
    axis, count = nest.axes[move.loop], move.count
    index = nest.index if nest.fold else _side_by_side(nest.index, axis.var, count)
    value = _side_by_side(nest.value, axis.var, count)
    if index is None or value is None or not (nest.fold or isinstance(index, Ramp)):
        raise NoVectorFormError(move.loop)
    if not nest.fold and output_reads(BufferStore(nest.buffer, value, (index,))) is None:
        raise NoVectorFormError(move.loop)
    less = Axis(axis.var, axis.extent // count, axis.stride * count)
    axes = _with_axis(nest, axis, less)
    return replace(nest, axes=axes, index=index, value=value, width=nest.width * count)


def _with_axis(nest: Nest, old: Axis, new: Axis) -> tuple[Axis, ...]:
    return tuple(new if a is old else a for a in nest.axes)


def _side_by_side(e: Expr, var: Var, count: int) -> Expr | None:
    lane = Var(f"{var.name}.lane", var.dtype)
    moved = substitute(e, {var: add(mul(var, const(count, var.dtype)), lane)})
    return widen(moved, lane, count)


def _sliced(nest: Nest, move: Slice) -> Nest:
    axis = nest.axes[move.loop]
    sliced = Axis(axis.var, move.extent, axis.stride)
    if not move.start:
        return replace(nest, axes=_with_axis(nest, axis, sliced))
    fresh = {a.var: Var(f"{a.var.name}.tail", a.var.dtype) for a in nest.axes}
    table: dict[Var, Expr] = dict(fresh)
    table[axis.var] = add(fresh[axis.var], const(move.start, axis.var.dtype))
    axes = tuple(Axis(fresh[a.var], a.extent, a.stride) for a in _with_axis(nest, axis, sliced))
    index, value = substitute(nest.index, table), substitute(nest.value, table)
    return replace(nest, axes=axes, index=index, value=value)


def _unlaned(nest: Nest) -> Nest:
    lane = Var("lane")
    index, value = lane_slice(nest.index, lane, 1), lane_slice(nest.value, lane, 1)
    assert index is not None and value is not None, "the lanes of a nest can be told apart"
    axes = (*nest.axes, Axis(lane, nest.width, 1))
    return replace(nest, axes=axes, index=index, value=value, width=1)


def _folding(nest: Nest) -> Nest:
    term = folded_term(nest)
    assert term is not None, "partial results were planned for a value that has none"
    kind = type(nest.value)
    assert issubclass(kind, BinaryExpr)
    return replace(nest, value=term, fold=kind)


def _without(nest: Nest, variables: set[Var]) -> Nest:
    table = {var: const(0, var.dtype) for var in variables}
    axes = tuple(a for a in nest.axes if a.var not in table)
    index, value = substitute(nest.index, table), substitute(nest.value, table)
    return replace(nest, axes=axes, index=index, value=value)
