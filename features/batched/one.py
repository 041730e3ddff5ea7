"""Write out a stored value for one candidate and simplify it, as the pass over its function would.

The result holds for all candidates with the same numbers in the axes of the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from autosched.arith import Analyzer
from autosched.arith.rewrite import is_always
from autosched.features.batched.axis_text import StageText
from autosched.features.batched.context import Text
from autosched.features.batched.forms import Form, Forms, Ints
from autosched.features.batched.plan import Loops
from autosched.features.batched.stage_alone import region_start
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.tir.walk import substitute

Axes = Mapping[Var, Form]
Rows = npt.NDArray[np.intp]
"""Candidates, by index."""


def alike(forms: Forms, axes: Axes, rows: Rows | None = None) -> tuple[Rows, Rows]:
    """One candidate for each set of numbers in the axes, and for each one the number of its set.

    With `rows`, only for these candidates.
    """
    numbers: list[Ints] = []
    for form in axes.values():
        numbers.append(form.base)
        for slot, term in form.every():
            extent = forms.extents[slot]
            there = term.scale != 0
            numbers += (
                np.where(there, x, 0)
                for x in (term.scale, term.lower, np.minimum(term.upper, extent), extent)
            )
            if slot in forms.virtual:
                numbers.append(np.where(there, forms.virtual[slot][0].which, 0))
    if not numbers:
        few = slice(1) if rows is None else rows[:1]
        return np.arange(forms.count)[few], np.zeros(
            forms.count if rows is None else len(rows), np.intp
        )
    if rows is not None:
        numbers = [x[rows] for x in numbers]
    table = np.ascontiguousarray(np.stack(numbers, axis=1))
    whole = table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1])))[:, 0]
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return (first if rows is None else rows[first]), which


def signature(
    forms: Forms,
    axes: Axes,
    n: int,
    order: Mapping[int, int] | None = None,
    own: frozenset[int] = frozenset(),
) -> tuple[int, ...]:
    """All numbers of candidate n in the axes, as a key.

    Loops are numbered in the order of their appearance, or by `order`. The key also tells which
    digits are written as digits of the stage's `own` loops.
    """
    found: list[int] = []
    loops: dict[int, int] = {}
    for form in axes.values():
        for slot, term in form.every():
            if term.scale[n]:
                extent = forms.extents[slot][n]
                upper = min(term.upper[n], extent)
                loop = loops.setdefault(slot, len(loops))
                if order is not None and slot in order:
                    loop = order[slot]
                found += (loop, extent, term.scale[n], term.lower[n], upper)
                if slot in own and term.lower[n] > 1 and upper < extent:
                    found.append(-3)
                if slot in forms.virtual:
                    mixed, axis = forms.virtual[slot]
                    found += (-2, own.isdisjoint(mixed.leaves), axis, *mixed.of(n).key)
        found += (-1, form.base[n])
    return tuple(map(int, found))


def slots_of(forms: Forms, axes: Axes, n: int) -> list[int]:
    """The slots of the loops of candidate n in the order of appearance, as in its signature."""
    every = (slot for form in axes.values() for slot, term in form.every() if term.scale[n])
    return list(dict.fromkeys(every))


def simplified(
    forms: Forms, text: Text, n: int, as_ansor: bool = True
) -> tuple[Expr, dict[int, Var]]:
    """The simplified value for candidate n, and the variables of the loops in it, by slot."""
    slots = {slot: slot for slot in range(len(forms.extents))}
    key = text.value, as_ansor, signature(forms, text.axes, n, slots, text.own)
    found = forms.simple.get(key)
    if found is None:
        found = forms.simple[key] = _simplified(forms, text, n, as_ansor)
    return found


def _simplified(forms: Forms, text: Text, n: int, as_ansor: bool) -> tuple[Expr, dict[int, Var]]:
    analyzer = Analyzer(as_ansor=as_ansor)
    loops: dict[int, Var] = {}
    table: dict[Var, Expr] = {}
    for var, form in text.axes.items():
        table[var] = _written(forms, form, loops, n, text.own)
    for slot, loop in loops.items():
        analyzer.bind(loop, Range(const(0), const(int(forms.extents[slot][n]))), override=True)
    value = substitute(text.value, table)
    with ExitStack() as stack:
        for condition in _of_mixed(forms, text.axes, n):
            stack.enter_context(analyzer.constraint(condition))
        for flag, condition in text.given:
            if is_always(table[flag]):
                plain = analyzer.simplify(substitute(condition, table))
                if not isinstance(plain, IntImm):
                    stack.enter_context(analyzer.constraint(plain))
        return analyzer.simplify(value), loops


def _of_mixed(forms: Forms, axes: Axes, n: int) -> list[Expr]:
    """The conditions around a store of candidate n from stages whose loops are mixed."""
    found: dict[Expr, None] = {}
    for form in axes.values():
        for slot, term in form.every():
            if slot in forms.virtual and term.scale[n]:
                found.update(dict.fromkeys(forms.virtual[slot][0].of(n).conditions))
    return list(found)


def same_loads(a: Expr, b: Expr) -> bool:
    """Whether both load from the same tensors in the same order."""
    return [load.producer for load in tensor_loads(a)] == [
        load.producer for load in tensor_loads(b)
    ]


def _written(forms: Forms, form: Form, loops: dict[int, Var], n: int, own: frozenset[int]) -> Expr:
    """The form as an expression for candidate n.

    Axes of stages around the stage with the `own` loops are written as bound inference writes them
    in its region.
    """
    found: Expr = const(0)
    around: dict[tuple[Loops, StageText], list[tuple[int, int]]] = {}
    for slot, term in form.every():
        scale, lower, upper = (int(x[n]) for x in (term.scale, term.lower, term.upper))
        if scale == 0:
            continue
        digit: Expr
        if slot in forms.virtual:
            mixed, axis = forms.virtual[slot]
            text = mixed.of(n)
            for leaf, var in zip(mixed.leaves, text.variables, strict=True):
                if var is not None:
                    loops.setdefault(leaf, var)
            digit = text.axes[axis].raw
            if own.isdisjoint(mixed.leaves):
                if scale > 0 and lower == 1 and upper >= forms.extents[slot][n]:
                    around.setdefault((mixed.loops, text), []).append((axis, scale))
                    continue
                digit = region_start(mixed.loops, text, ((axis, 1),))
        else:
            digit = loops.setdefault(slot, Var(f"i{slot}"))
        if upper >= forms.extents[slot][n]:
            digit = floordiv(digit, lower)
        elif slot in own and upper % lower == 0:
            digit = floormod(floordiv(digit, lower), upper // lower)
        else:
            digit = floordiv(floormod(digit, upper), lower)
        found = add(found, mul(digit, scale))
    for stage, scales in around.items():
        found = add(found, region_start(*stage, tuple(scales)))
    return add(found, int(form.base[n]))
