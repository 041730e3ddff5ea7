"""The facts of a stored value that decide its code, whatever the loops around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autosched.arith import Analyzer
from autosched.features.batched.autosched_1.plain_parts import plain_part
from autosched.features.batched.context import Text
from autosched.features.batched.counts import add_index
from autosched.features.batched.forms import Flags, Forms, Ints
from autosched.features.batched.nest import index_form
from autosched.features.batched.one import Rows, alike, same_loads, signature, simplified, slots_of
from autosched.features.batched.ops import StageOps, StoreOps
from autosched.features.batched.plan import Loops, UnsupportedError
from autosched.features.batched.stores import Floats, Store
from autosched.features.batched.value_parts import asks_for_remainders
from autosched.features.walk.count import NUM_COUNTERS, count_mads, count_ops
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Add, Call, Expr, Max, Min, ProducerLoad, Range, Select, Var
from autosched.tir.op import const, ge, lt
from autosched.tir.walk import free_vars, pre_order
from autosched.transform.expressions.unsafe_values import divides_by_unknown
from autosched.transform.loops.known_zeros import residues
from autosched.transform.vector.conditions import conditions_along, guarded_parts
from autosched.transform.vector.instructions import instructions, step_weight

_MATHFUNC, _INT_MATHFUNC, _BOOL_OP = 5, 12, 14
GUARDS = "a Select that guards what it chooses"
DECIDED = "a remainder that simplification knows"


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """Facts of a stored value.

    `mads` are its multiply-adds, `weight` the vector instructions of one iteration besides loads.
    `updates` tells whether it reads the stored element, `folds` whether it only adds something to
    that element, or takes the larger or smaller of both.
    """

    mads: int
    weight: float
    updates: bool
    folds: bool


def value_facts(ops: StoreOps, stage: StageOps, *, on_device: bool) -> ValueFacts:
    """The facts of one store's value; a choice by axes counts as absent (`chosen_by_axes`).

    Raises UnsupportedError where they depend on the candidate in other ways. Other choices are
    simplified as a whole (`simplified_whole`), but on a CPU conditions on remainders split loops,
    and such a choice raises, too.
    """
    if ops.conditional and ops.is_init:
        raise UnsupportedError("a start value with conditions")
    if ops.conditional and not (ops.parts or on_device) and asks_for_remainders(ops.original):
        raise UnsupportedError("a condition on a remainder that is not a choice by axes")
    value = ops.value
    if not _is_free(value, stage):
        raise UnsupportedError(GUARDS)
    own = _own_loads(ops)
    axes = stage.origin or stage.axes
    if any(load.indices != axes[: len(load.indices)] for load in own):
        raise UnsupportedError("a value that reads another element of the buffer it is stored in")
    return ValueFacts(count_mads(value), step_weight(_bare(value)), bool(own), _folds(value, own))


def _folds(value: Expr, own: Sequence[ProducerLoad]) -> bool:
    """Whether the value only adds something to its one load `own`, or is the larger or smaller."""
    sides = (value.a, value.b) if isinstance(value, Add | Max | Min) else ()
    return len(own) == 1 and any(side is own[0] for side in sides)


def _is_free(value: Expr, stage: StageOps) -> bool:
    """Whether both sides of each Select in `value` may be computed, whichever is chosen.

    Other Selects become conditions (`transform/expressions/guard_selects.py`).
    """
    selects = [e for e in pre_order(value) if isinstance(e, Select)]
    arms = [arm for e in selects for arm in e.children()[1:]]
    if any(divides_by_unknown(e) for arm in arms for e in pre_order(arm)):
        return False
    loads = [load for arm in arms for load in tensor_loads(arm)]
    if not loads:
        return True
    analyzer = Analyzer()
    for var, extent in zip(stage.axes, stage.extents, strict=True):
        if extent is not None:
            analyzer.bind(var, Range(const(0, var.dtype), const(extent, var.dtype)))
    return all(
        analyzer.can_prove(ge(index, 0)) and analyzer.can_prove(lt(index, extent))
        for load in loads
        for index, extent in zip(load.indices, load.producer.shape, strict=True)
    )


@dataclass(frozen=True, eq=False)
class Chosen:
    """A value that conditions on axes choose.

    By candidate, `counts` are the counters of `walk.count` and `weight` the vector instructions. By
    loop around the store, `conditional` tells whether what a condition guards varies, and `asked`
    whether a condition does, where that is known.

    For a value that is simplified as a whole, `mads` are its multiply-adds, and `lanes` has by loop
    how many iterations can be lanes (0: any number) if all reads are even.
    """

    counts: Ints
    weight: npt.NDArray[np.float64]
    conditional: Flags
    asked: Flags | None = None
    mads: Ints | None = None
    lanes: Ints | None = None


class _Choice(NamedTuple):
    """A simplified part.

    `counts` are counters, `weight` instructions without those of the choice itself; `chooses` tells
    whether there is a choice. `asked` are the loops that its condition depends on, by their order
    in the axes, `remainders` the number of remainders in the condition.
    """

    counts: tuple[int, ...]
    weight: float
    chooses: bool
    asked: tuple[int, ...]
    remainders: int


_ChosenKey = tuple[Expr, tuple[int, ...]]
_MOST_KNOWN = 100_000


class _Whole(NamedTuple):
    """A simplified value: counters, instructions, multiply-adds.

    `lanes` has, by position of each loop that its conditions vary along, how many iterations can be
    lanes.
    """

    counts: tuple[int, ...]
    weight: float
    mads: int
    lanes: dict[int, int]


_Stage = tuple[Loops, tuple[int, ...]]
_WholeKey = tuple[Expr, tuple[int, ...], tuple[_Stage, ...]]


@dataclass(eq=False)
class KnownChoices:
    """Caches of simplified values with conditions, from call to call: parts and whole values.

    None stands for one that loses a load.
    """

    parts: dict[_ChosenKey, _Choice | None] = field(default_factory=dict)
    whole: dict[_WholeKey, _Whole | None] = field(default_factory=dict)


def chosen_by_axes(forms: Forms, store: Store, known: KnownChoices) -> Chosen:
    """The value from its parts, each simplified for each set of numbers in it.

    `known` caches the parts from call to call. Candidates whose value loses its load are refused.
    """
    counts = np.zeros((NUM_COUNTERS, forms.count), np.int64)
    weight, conditions = np.zeros(forms.count), forms.zero
    asked: Flags | None = None
    if store.ops.keeps_conditions:
        asked = np.zeros((len(store.loops), forms.count), bool)
    for part, padding in zip(store.ops.parts, store.ops.paddings, strict=True):
        text = store.stage.context.text(part)
        table = np.zeros((NUM_COUNTERS + 2, forms.count))
        rest: Rows = np.arange(forms.count)
        if padding is not None and text.value is part:
            own, instructions, choice, plain = plain_part(forms, text, padding)
            table[:NUM_COUNTERS], table[-2], table[-1] = own, instructions, choice
            rest = np.flatnonzero(~plain)
        if len(rest):
            table[:, rest] = _simplified(forms, text, rest, known, store, asked)
        counts += table[:NUM_COUNTERS].astype(np.int64)
        weight += table[-2]
        conditions = conditions + table[-1].astype(np.int64)
    some: Flags = conditions > 0
    for slot in (_MATHFUNC, _INT_MATHFUNC):
        counts[slot] = np.minimum(counts[slot], 1)
    counts[_BOOL_OP] += np.maximum(conditions - 1, 0)
    ((_, indices),) = store.ops.loads
    free = frozenset[Var]().union(*map(free_vars, store.ops.parts))
    for e in indices:
        if free_vars(e).isdisjoint(free):
            add_index(forms, index_form(forms, e, store.stage.axes), counts)
    both = _choice(store.ops.original) * some + np.maximum(conditions - 1, 0)
    along = some & along_reads(store, forms.count)
    return Chosen(counts, np.maximum(1.0, weight + both), along, asked)


def simplified_whole(forms: Forms, store: Store, known: KnownChoices) -> Chosen:
    """A value that is no choice by axes, simplified for each set of numbers in its axes.

    For example max(Y[h], if_then_else(1 <= h + r and h + r < 29, X[h + r - 1], -inf)). Candidates
    whose value loses a load, or no longer folds, are refused.
    """
    text = store.stage.context.text(store.ops.original)
    first, which = alike(forms, text.axes)
    table = np.zeros((NUM_COUNTERS + 2, len(first)))
    conditional, lanes = np.zeros((2, len(store.loops), len(first)), np.int64)
    lost = np.zeros(len(first), bool)
    for k, n in enumerate(first.tolist()):
        key = (
            text.value,
            signature(forms, text.axes, n, store.at, text.own),
            _stages_of(forms, text, store, n),
        )
        if key not in known.whole:
            if len(known.whole) > _MOST_KNOWN:
                known.whole.clear()
            known.whole[key] = _whole_value(forms, text, store, n)
        found = known.whole[key]
        if found is None:
            lost[k] = True
            continue
        table[:, k] = *found.counts, found.weight, found.mads
        for j, most in found.lanes.items():
            conditional[j, k], lanes[j, k] = 1, most
    forms.refuse(lost[which], "a value in which simplification removes a load")
    return Chosen(
        table[:NUM_COUNTERS, which].astype(np.int64),
        table[-2, which],
        conditional[:, which] > 0,
        mads=table[-1, which].astype(np.int64),
        lanes=lanes[:, which],
    )


def _stages_of(forms: Forms, text: Text, store: Store, n: int) -> tuple[_Stage, ...]:
    """For candidate n, the loops of stages that mix them, and their positions around the store."""
    found = []
    for form in text.axes.values():
        for slot, term in form.every():
            if slot in forms.virtual and term.scale[n]:
                mixed, _ = forms.virtual[slot]
                found.append((mixed.loops, tuple([store.at.get(s, -1) for s in mixed.leaves])))
    return tuple(found)


def _whole_value(forms: Forms, text: Text, store: Store, n: int) -> _Whole | None:
    """The simplified value of candidate n; None where it loses a load, or no longer folds."""
    simple, variables = simplified(forms, text, n, as_ansor=False)
    if not same_loads(simple, text.value):
        return None
    updates = [load for k, load in enumerate(tensor_loads(simple)) if k not in store.ops.places]
    if _folds(simple, updates) != _folds(store.ops.value, _own_loads(store.ops)):
        return None
    guarded = guarded_parts(simple)
    lanes = {}
    for slot, var in variables.items():
        along = conditions_along(guarded, var, lambda *_: 0)
        if along.conditional and slot in store.at:
            lanes[store.at[slot]] = along.lanes
    counts = tuple(count_ops(simple))
    return _Whole(counts, step_weight(_bare(simple)), count_mads(simple), lanes)


def _simplified(
    forms: Forms, text: Text, rows: Rows, known: KnownChoices, store: Store, asked: Flags | None
) -> Floats:
    """Simplify a part for the candidates `rows`, once for each set of numbers: counters,
    instructions, and whether there is a choice.

    Candidates that lose their load are refused. For values that keep their conditions, `asked`
    gains the loops that a condition depends on.
    """
    first, which = alike(forms, text.axes, rows)
    table = np.zeros((NUM_COUNTERS + 2, len(first)))
    lost, decided = np.zeros((2, len(first)), bool)
    remainders = _remainders(text.value) if asked is not None else 0
    for k, n in enumerate(first.tolist()):
        found = _one_part(forms, text, n, known)
        if found is None:
            lost[k] = True
        else:
            table[:, k] = *found.counts, found.weight, found.chooses
            if asked is None:
                continue
            decided[k] = found.remainders < remainders
            slots = slots_of(forms, text.axes, n) if found.asked else []
            for place in found.asked:
                at = store.at.get(slots[place])
                if at is not None:
                    asked[at, rows[which == k]] = True
    for flags, why in (
        (lost, "a value in which simplification removes a load"),
        (decided, DECIDED),
    ):
        bad = np.zeros(forms.count, bool)
        bad[rows] = flags[which]
        forms.refuse(bad, why)
    return table[:, which]


def _remainders(part: Expr) -> int:
    """The number of remainders in the condition of a part."""
    return len(list(residues(part.args[0]))) if isinstance(part, Call) else 0


def along_reads(store: Store, count: int) -> Flags:
    """By loop around the store, where it is in the index of a read."""
    found: Flags = np.zeros((len(store.loops), count), bool)
    for j, loop in enumerate(store.loops):
        for access in store.touched[:-1]:
            found[j] |= access.uses(loop.slot, count)
    return found


def loops_asked(forms: Forms, store: Store, rows: Rows) -> Flags:
    """By loop around the store, where a condition in the value of the candidates `rows` has it."""
    found: Flags = np.zeros((len(store.loops), forms.count), bool)
    for part in store.ops.parts:
        text = store.stage.context.text(part)
        for n in rows.tolist():
            simple, variables = simplified(forms, text, n, as_ansor=False)
            free = free_vars(simple.args[0]) if isinstance(simple, Call) else frozenset[Var]()
            for slot, var in variables.items():
                if var in free and slot in store.at:
                    found[store.at[slot], n] = True
    return found


def _one_part(forms: Forms, text: Text, n: int, known: KnownChoices) -> _Choice | None:
    """The simplified part of candidate n; None where it loses its load."""
    key = text.value, signature(forms, text.axes, n, own=text.own)
    if key not in known.parts:
        if len(known.parts) > _MOST_KNOWN:
            known.parts.clear()
        simple, variables = simplified(forms, text, n, as_ansor=False)
        if not same_loads(simple, text.value):
            known.parts[key] = None
        else:
            chooses = isinstance(simple, Call)
            weight = instructions(_bare(simple)) - (_choice(simple) if chooses else 0)
            free = free_vars(simple.args[0]) if isinstance(simple, Call) else frozenset[Var]()
            number = _remainders(simple)
            order = slots_of(forms, text.axes, n) if free else []
            asked = tuple([k for k, slot in enumerate(order) if variables.get(slot) in free])
            known.parts[key] = _Choice(tuple(count_ops(simple)), weight, chooses, asked, number)
    return known.parts[key]


def _choice(value: Expr) -> float:
    """Instructions of an if_then_else besides its condition and its load: itself, and its constant
    (an integer one takes none)."""
    assert isinstance(value, Call)
    return 1.0 + instructions(value.args[2])


def _own_loads(ops: StoreOps) -> list[ProducerLoad]:
    """The loads of the buffer that is stored to."""
    found = []
    others = [indices for _, indices in ops.loads]
    for load in tensor_loads(ops.value):
        if others and load.indices is others[0]:
            del others[0]
        else:
            found.append(load)
    return found


def _bare(value: Expr) -> Expr:
    """The value with each load replaced by a variable."""
    if isinstance(value, ProducerLoad):
        return Var("load", value.dtype)
    children = value.children()
    return value.with_children(tuple(map(_bare, children))) if children else value
