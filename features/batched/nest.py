"""The stages and loops of many candidates of one program, and indices in terms of the loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autosched.features.batched.context import Context
from autosched.features.batched.forms import QUOTIENT, Flags, Form, Forms, Ints, fixed
from autosched.features.batched.loops import Group, StageLoops
from autosched.features.batched.mixed import Texts
from autosched.features.batched.ops import ProgramOps, StageOps
from autosched.features.batched.plan import Factored, Plan, UnsupportedError
from autosched.features.batched.value_parts import clamps
from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var


@dataclass(frozen=True, eq=False)
class Population:
    """Candidates of one program, as arrays.

    `groups` says for each stage how its loops come about. `target` is the stage that a stage is
    computed in (-1: none), `at` the position of the loop there. `step` is the stage's own unroll
    limit (-1: none). `factored` has, for a stage of partial results, the factors of the old stage's
    splits. `plan` is the plan of one of the candidates; where they have threads, it holds for all
    of them, and `texts` are the texts of the program. `left` is for stages that have left loops of
    their target: the outermost loop that they left (-1 for other stages); they stand right before
    it, one after the other by `order`. `tiles` says for each stage how many tiles its pipelined
    loop keeps (the plan says which loop that is), `aligned` whether strides of its storage are.
    """

    count: int
    groups: list[list[Group]]
    target: list[Ints]
    at: list[Ints]
    step: list[Ints]
    factored: list[tuple[Factored, Ints] | None]
    plan: Plan
    texts: Texts | None = None
    left: list[Ints] | None = None
    order: list[Ints] = field(default_factory=list)
    tiles: list[Ints] = field(default_factory=list)
    aligned: list[Flags] = field(default_factory=list)


@dataclass(eq=False)
class Stage:
    """A stage with its loops.

    `axes` are the values of its axes and of the axes that these come from. `order` is its position
    in the program. `checked` says where some iterations of its loops are skipped: its stores are
    then in conditions. The initialisation of a reduction is right before the loop at position
    `start`; where `guarded`, it is in a condition on the reduction loops outside of it.
    """

    ops: StageOps
    loops: StageLoops
    extents: list[Ints]
    axes: dict[Var, Form]
    order: tuple[Ints, Ints]
    step: Ints
    checked: Flags
    context: Context
    start: Ints
    guarded: Flags


@dataclass(eq=False)
class Nest:
    """All stages, in order.

    `inside[s][t]` is the position of the innermost loop of stage t around stage s, or -1.
    `own_step` are the unroll limits that the stages themselves set, or -1. With threads, `ranks`
    are the storage ranks of the stages and `tables` the touch tables of the thread axes. `tiles`
    are those of the population.
    """

    forms: Forms
    ops: ProgramOps
    inside: list[dict[int, Ints]]
    own_step: list[Ints]
    shapes: dict[int, list[Ints]] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)
    tables: dict[tuple[int, int], int] = field(default_factory=dict)
    tiles: list[Ints] = field(default_factory=list)

    def around(self, s: int, t: int, position: int) -> Flags:
        """Where the loop at `position` of stage t is around stage s; nowhere if t is before s."""
        if t < s:
            return np.zeros(self.forms.count, bool)
        found: Flags = self.inside[s][t] >= position
        return found


def index_form(forms: Forms, e: Expr, axes: Mapping[Var, Form]) -> Form:
    """The form of an index; candidates are refused where it is no sum of digits.

    Raises UnsupportedError for an index that, even as a text, is not written as the passes leave
    it.
    """
    match e:
        case Var():
            return axes[e]
        case IntImm(value):
            return forms.constant(value)
        case Add(a, b):
            return forms.add(index_form(forms, a, axes), index_form(forms, b, axes))
        case Sub(a, b):
            minus = forms.scaled(index_form(forms, b, axes), -1)
            return forms.add(index_form(forms, a, axes), minus)
        case Mul(a, IntImm(value)) | Mul(IntImm(value), a):
            return forms.scaled(index_form(forms, a, axes), value)
        case FloorDiv(a, IntImm(value)) | FloorMod(a, IntImm(value)) if value > 0:
            inside = index_form(forms, a, axes)
            quotient, remainder = forms.divmod(inside, forms.full(value))
            if isinstance(e, FloorMod):
                return remainder
            shifted = (quotient.base != 0) & (remainder.base != 0)  # (i + 48) // 32 stays
            forms.refuse(shifted & np.logical_not(fixed(remainder)), QUOTIENT)
            return quotient
        case Min() | Max() if len(clamps(e)) == len(set(clamps(e))):
            forms.refuse(~forms.bad, f"an index like {e!r}")
            return forms.constant(0)
    raise UnsupportedError(f"an index like {e!r}")
