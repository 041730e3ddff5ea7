"""Bounds and loops of all stages of many candidates that compute the same.

The arrays say what InferBound and ScheduleOps would: the region of every stage, its loops, and its
axes in terms of the loops around. Where a candidate needs a rule that is not here (a split that
does not divide, a region that leaves its tensor, reads that differ) it is marked `bad`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autosched.features.batched.forms import Flags, Form, Forms, Ints, Term, fixed
from autosched.features.batched.loops import (
    Group,
    StageLoops,
    extents_of,
    make_loops,
    values_of,
)
from autosched.features.batched.ops import Indices, ProgramOps, StageOps
from autosched.features.batched.plan import Factored, UnsupportedError
from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var

_DIGIT = 12  # bits of a token of a place in the program
_DEPTH = 4  # tokens after the first
_LAST = (1 << _DIGIT) - 1


@dataclass(frozen=True, eq=False)
class Population:
    """Candidates of one program, as arrays: for each stage how its loops come about.

    `target` is the stage that a stage is computed in (-1: none), `at` the position of the loop
    there, `step` the stage's own limit of unrolling (-1: none). `factored` has the factors of the
    old stage's splits for a stage of partial results.
    """

    count: int
    groups: list[list[Group]]
    target: list[Ints]
    at: list[Ints]
    step: list[Ints]
    factored: list[tuple[Factored, Ints] | None]


@dataclass(eq=False)
class Stage:
    """A stage with its loops; `axes` are the values of its axes and of the axes it comes from."""

    ops: StageOps
    loops: StageLoops
    extents: list[Ints]
    axes: dict[Var, Form]
    order: tuple[Ints, Ints]
    step: Ints


@dataclass(eq=False)
class Nest:
    """All stages in order. `inside[s][t]` is the innermost loop of t around s, or -1.

    `own_step` are the limits of unrolling that the stages themselves set, or -1.
    """

    forms: Forms
    ops: ProgramOps
    inside: list[dict[int, Ints]]
    own_step: list[Ints]
    shapes: dict[int, list[Ints]] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)

    def around(self, s: int, t: int, position: int) -> Flags:
        """Where the loop at `position` of stage t is around stage s."""
        found: Flags = self.inside[s][t] >= position
        return found


def index_form(forms: Forms, e: Expr, axes: Mapping[Var, Form]) -> Form:
    """The form of an index. Raises UnsupportedError for one that is no sum of digits."""
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
            parts = forms.divmod(index_form(forms, a, axes), forms.full(value))
            return parts[isinstance(e, FloorMod)]
    raise UnsupportedError(f"an index like {e!r}")


def build_nest(ops: ProgramOps, population: Population) -> Nest:
    """The nest of all candidates of `population`."""
    forms = Forms(population.count)
    count = len(ops.stages)
    nest = Nest(forms, ops, [{} for _ in range(count)], population.step)
    for buffer, known in ops.buffers.items():
        if all(extent is not None for extent in known.shape):
            nest.shapes[buffer] = [forms.full(extent or 0) for extent in known.shape]
    sizes: dict[int, list[Ints]] = {}  # of the leaves of factored reductions
    for s, stage in enumerate(ops.stages):
        given = population.factored[s]
        if given is not None:
            sizes[s] = _factored(nest, stage, given)
    owner = {stage.buffer: s for s, stage in enumerate(ops.stages)}
    for s in range(count - 1, -1, -1):
        _inside(nest, population, s)
        _add_stage(nest, population, s, sizes, owner)
    return nest


def _factored(nest: Nest, stage: StageOps, given: tuple[Factored, Ints]) -> list[Ints]:
    factored, factors = given
    axes = [nest.forms.full(extent) for extent in stage.origin_extents]
    sizes, bad = extents_of(factored.loops, axes, factors)
    nest.forms.bad |= bad
    shape = [sizes[k] for k in range(factored.data)]
    shape.insert(factored.position, sizes[factored.factor])
    nest.shapes[stage.buffer] = shape
    return sizes


def _inside(nest: Nest, population: Population, s: int) -> None:
    target, at = population.target[s], population.at[s]
    for t in range(s + 1, len(nest.inside)):
        found = np.where(target == t, at, -1)
        for u in range(s + 1, t):
            found = np.where(target == u, nest.inside[u][t], found)
        nest.inside[s][t] = found


def _add_stage(
    nest: Nest,
    population: Population,
    s: int,
    sizes: dict[int, list[Ints]],
    owner: dict[int, int],
) -> None:
    forms, ops = nest.forms, nest.ops.stages[s]
    mins, extents = _region(nest, population, s)
    reducing = [nest.forms.full(e or 0) for e in ops.extents[ops.data :]]
    factored = population.factored[s]
    if factored is not None:
        reducing = [sizes[s][leaf] for leaf in factored[0].rest]
    elif ops.extents[-1] is None:  # the sum of partial results
        reducing = [sizes[s - 1][_partial(population, s - 1).factor]]
    loops = make_loops(forms, population.groups[s], ops.data, extents + reducing)
    axes: dict[Var, Form] = {}
    for k, (var, value) in enumerate(zip(ops.axes, loops.values, strict=True)):
        axes[var] = forms.add(value, mins[k]) if k < ops.data else value
        if k < ops.data:
            low, high = forms.ends(axes[var])
            forms.bad |= (low < 0) | (high >= nest.shapes[ops.buffer][k])
    if factored is not None:
        axes.update(_origin(forms, ops, factored[0], sizes[s], axes))
    order = _place(nest, population, s)
    step = _step(nest, population, s, loops)
    nest.stages[s] = Stage(ops, loops, extents, axes, order, step)


def _partial(population: Population, s: int) -> Factored:
    found = population.factored[s]
    if found is None:
        raise UnsupportedError("partial results that are not right before their sum")
    return found[0]


def _origin(
    forms: Forms, ops: StageOps, factored: Factored, sizes: list[Ints], axes: dict[Var, Form]
) -> dict[Var, Form]:
    """The values of the axes that the factored reduction had."""
    data = [var for k, var in enumerate(ops.axes[: ops.data]) if k != factored.position]
    leaf = {k: axes[var] for k, var in enumerate(data)}
    leaf[factored.factor] = axes[ops.axes[factored.position]]
    leaf.update(zip(factored.rest, (axes[v] for v in ops.axes[ops.data :]), strict=True))
    values = values_of(forms, factored.loops, sizes, [leaf[k] for k in factored.loops.leaves])
    return dict(zip(ops.origin, values, strict=True))


def _step(nest: Nest, population: Population, s: int, loops: StageLoops) -> Ints:
    """The limit of unrolling around the stage's loops; its own is added at the stores."""
    target, at = population.target[s], population.at[s]
    found = nest.forms.zero
    for t in range(s + 1, len(nest.ops.stages)):
        above = nest.stages[t]
        own = population.step[t]
        there = np.where((own >= 0) & (at >= above.loops.unroll), own, above.step)
        found = np.where(target == t, there, found)
    return found


def _place(nest: Nest, population: Population, s: int) -> tuple[Ints, Ints]:
    """A number that orders the places of the program, and the bits left below it."""
    prefix = nest.forms.full(s << (_DIGIT * _DEPTH))
    shift = nest.forms.full(_DIGIT * (_DEPTH - 1))
    target, at = population.target[s], population.at[s]
    for t in range(s + 1, len(nest.ops.stages)):
        above, room = nest.stages[t].order
        here = target == t
        token = (at * 64 + s) << np.maximum(room, 0)
        prefix, shift = np.where(here, above + token, prefix), np.where(here, room - _DIGIT, shift)
    nest.forms.bad |= shift < 0
    return prefix, shift


def place_of_store(stage: Stage, is_init: bool) -> Ints:
    """The place of a store among all stores: smaller is earlier."""
    prefix, shift = stage.order
    token = stage.loops.common * 64 - 1 if is_init else _LAST
    found: Ints = prefix + (token << np.maximum(shift, 0))
    return found


def _region(nest: Nest, population: Population, s: int) -> tuple[list[Form], list[Ints]]:
    """The domains of the data axes: mins and extents."""
    forms, ops = nest.forms, nest.ops.stages[s]
    shape = nest.shapes[ops.buffer]
    if ops.is_output:
        forms.bad |= population.target[s] >= 0
        return [forms.constant(0) for _ in shape], list(shape)
    found: list[tuple[Form, Ints]] | None = None
    for c in range(s + 1, len(nest.ops.stages)):
        reader = nest.stages[c]
        for indices in _reads(reader.ops, ops.buffer):
            for t in range(s + 1, len(nest.ops.stages)):
                if t != c:
                    forms.bad |= (population.target[s] == t) & (
                        nest.inside[c].get(t, forms.full(-1)) < population.at[s]
                    )
            here = [
                _read(nest, s, index_form(forms, index, reader.axes), shape[d])
                for d, index in enumerate(indices)
            ]
            if found is not None:
                here = [_union(forms, a, b) for a, b in zip(found, here, strict=True)]
            found = here
    if found is None:
        raise UnsupportedError("a stage that nobody reads")
    return [low for low, _ in found], [extent for _, extent in found]


def _reads(reader: StageOps, buffer: int) -> list[Indices]:
    loads = dict.fromkeys(load for store in reader.stores for load in store.loads)
    return [indices for found, indices in loads if found == buffer]


def _read(nest: Nest, s: int, index: Form, shape: Ints) -> tuple[Form, Ints]:
    """What one iteration of the loops around stage s reads: the min and the extent."""
    forms = nest.forms
    terms: dict[int, tuple[Term, ...]] = {}
    base, width = index.base, forms.zero
    for slot, own in index.terms.items():
        kept = _is_around(nest, s, slot)
        for term in own:
            reach = np.where(kept, 0, term.scale * forms.largest(slot, term))
            base, width = base + np.minimum(reach, 0), width + np.abs(reach)
        if kept.any():
            terms[slot] = tuple(Term(t.lower, t.upper, np.where(kept, t.scale, 0)) for t in own)
    low = Form(terms, base)
    constant = fixed(low)
    forms.bad |= np.logical_not(constant) & (forms.ends(low)[1] <= 0)
    whole = constant & (base <= 0) & (base + width >= shape - 1)
    return Form(terms, np.where(whole, 0, base)), np.where(whole, shape, width + 1)


def _is_around(nest: Nest, s: int, slot: int) -> Flags:
    for t, stage in nest.stages.items():
        if slot in stage.loops.slots:
            return nest.around(s, t, stage.loops.slots.index(slot))
    raise AssertionError(f"slot {slot} is of no stage")


def _union(forms: Forms, a: tuple[Form, Ints], b: tuple[Form, Ints]) -> tuple[Form, Ints]:
    """What covers both; regions that differ must be between constants."""
    same = forms.same(a[0], b[0]) & (a[1] == b[1])
    constant = fixed(a[0]) & fixed(b[0])
    forms.bad |= ~same & np.logical_not(constant)
    low = np.minimum(a[0].base, b[0].base)
    high = np.maximum(a[0].base + a[1], b[0].base + b[1])
    base = np.where(constant, low, a[0].base)
    return Form(a[0].terms, base), np.where(constant, high - low, a[1])
