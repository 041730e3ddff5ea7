"""Random copies with a border: what passes make of them, by rule and by running the passes.

    python benchmarks/borders.py [--borders 10000] [--seed 0]

Copies have one to three padded axes and one without, some loops of their own, in any order and of
any kind, and loops around them, of which one may be fused: its digits are in several axes. All that
rows depend on is compared. Prints how many the rule knew, how many differ, and what each took in
processor time; the exit status is 1 when anything differs.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from autosched.features.batched.autosched_1.border_copy import Copied
from autosched.features.batched.autosched_1.borders import by_passes, by_rule
from autosched.features.batched.context import Context
from autosched.features.batched.forms import WHOLE, Form, Forms, Ints, Term
from autosched.features.batched.one import Rows
from autosched.features.batched.ops import parts_of_axes
from autosched.features.batched.padding import padding_of
from autosched.features.batched.stores import Store
from autosched.te.operations.compute import placeholder
from autosched.tir.expr import Expr, ProducerLoad, Var
from autosched.tir.op import add, all_, const, if_then_else

COUNT = 40
"""Copies of one store: what they have in common is the store's text."""
_SIZES = np.array([1, 2, 2, 3, 4, 5, 6, 7, 8, 14])
_SCALES = np.array([1, 1, 2, 3, 4, 7, 14, 28])
_KINDS = np.array([0, 0, 0, 0, 0, 1, 2, 3])


class Drawn:
    """A store of `COUNT` candidates that copies random axes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.forms = Forms(COUNT)
        padded = int(rng.integers(1, 4))
        self._vars = [Var(f"x{k}") for k in range(padded + 1)]
        fused = [rng.choice(_SIZES, COUNT) for _ in self._vars]
        around = self.forms.slot(np.prod(fused, axis=0) * rng.choice([1, 1, 2], COUNT))
        below = self.forms.one
        self._axes: dict[Var, Form] = {}
        self._own: list[int] = []
        ends = []
        for k, (var, size) in enumerate(zip(self._vars, fused, strict=True)):
            parts = [self._loop(own=True)]
            parts += [self._loop(own=False) for _ in range(int(rng.choice([0, 0, 1, 2])))]
            upper = np.where(below * size < self.forms.extents[around], below * size, WHOLE)
            there = (size > 1) & self._chance(0.7)
            tile = np.maximum(1, self.forms.extents[parts[0][0]] - rng.integers(0, 3, COUNT))
            scale = np.where(self._chance(0.7) > 0, tile, self._scales())
            parts.append((around, Term(below, upper, scale * there)))
            below = below * size
            terms: dict[int, tuple[Term, ...]] = {}
            for slot, term in parts:
                terms[slot] = (*terms.get(slot, ()), term)
            self._axes[var] = Form(terms, self.forms.zero)
            if k < padded:
                high = int(np.median(self.forms.ends(self._axes[var])[1]))
                ends.append((int(rng.integers(1, 4)), max(4, high - int(rng.integers(0, 4)))))
        rng.shuffle(self._own)
        self.store = self._made(ends)

    def _chance(self, chance: float) -> Ints:
        return (self._rng.random(COUNT) < chance).astype(np.int64)

    def _scales(self) -> Ints:
        found: Ints = self._rng.choice(_SCALES, COUNT)
        return found

    def _loop(self, own: bool) -> tuple[int, Term]:
        """A loop of the copy, or around it, and its part of an axis."""
        forms = self.forms
        most = self._rng.choice(_SIZES, COUNT) + self._rng.choice([0, 0, 2, 50], COUNT) * own
        slot = forms.slot(most)
        scale = np.where(self._chance(0.8) > 0, 1, self._scales()) if own else self._scales()
        if own:
            self._own.append(slot)
        return slot, Term(forms.one, forms.whole, scale * (forms.extents[slot] > 1))

    def _made(self, ends: list[tuple[int, int]]) -> Store:
        rng = self._rng
        source = placeholder((1,) * len(self._vars), name="X")
        conditions: list[Expr] = []
        indices: list[Expr] = []
        for var, (first, end) in zip(self._vars, ends, strict=False):
            which = int(rng.integers(0, 4))
            own = [] if which == 1 else [var >= first]
            own += [] if which == 2 else [var < end]
            conditions += own
            indices.append(add(var, -first))
        load = ProducerLoad(source, (*indices, self._vars[-1]))
        original = if_then_else(all_(*conditions), load, const(0.0))
        parts = parts_of_axes(original)
        kinds = [np.where(self._chance(0.3) > 0, rng.choice(_KINDS, COUNT), 0) for _ in self._own]
        loops = SimpleNamespace(slots=tuple(self._own), kinds=tuple(kinds), uneven=())
        context = Context(self.forms, self._vars, cast(Any, loops), [], self._axes)
        ops = SimpleNamespace(
            original=original,
            parts=parts,
            paddings=tuple(map(padding_of, parts)),
            loads=((0, load.indices),),
        )
        stage_ops = SimpleNamespace(axes=tuple(self._vars), data=len(self._vars))
        stage = SimpleNamespace(loops=loops, context=context, ops=stage_ops, axes=self._axes)
        return cast(Store, SimpleNamespace(ops=ops, stage=stage))


def comparable(made: tuple[Copied, ...] | None) -> list[Copied] | None:
    """With the loops of places by slot, in one order."""
    if made is None:
        return None
    found = []
    for copied in made:
        places = [
            tuple([
                (constant, tuple(sorted((copied.slots[name], *rest) for name, *rest in digits)))
                for constant, digits in place
            ])
            for place in (copied.stored, copied.loaded)
        ]  # fmt: skip
        stored, loaded = cast(Any, places)
        found.append(replace(copied, stored=stored, loaded=loaded, slots={}, grown=0))
    return found


def compare(seed: int, seconds: Counter[str]) -> Counter[str]:
    """How many copies of a store are the same, differ, or have no rule."""
    drawn = Drawn(np.random.default_rng(seed))
    forms, store = drawn.forms, drawn.store
    rows: Rows = np.flatnonzero(~forms.bad)
    start = time.process_time()
    ruled, which = by_rule(forms, store, rows)
    middle = time.process_time()
    passed, other = by_passes(forms, store, rows, {})
    seconds["rule"] += middle - start  # type: ignore[assignment]
    seconds["passes"] += time.process_time() - middle  # type: ignore[assignment]
    found: Counter[str] = Counter()
    for a, b in {*zip(which.tolist(), other.tolist(), strict=True)}:
        mine, theirs = comparable(ruled[a]), comparable(passed[b])
        if mine is None:
            found["no rule"] += 1
        elif theirs is None:
            found["passes only"] += 1
        else:
            found["same" if mine == theirs else "differ"] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--borders", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    seed = options.seed
    while found["same"] + found["differ"] < options.borders:
        found += compare(seed, seconds)
        seed += 1
    total = found.total()
    each = ", ".join(f"{count} {what}" for what, count in found.most_common())
    print(f"{total} copies: {each}")
    print(", ".join(f"{what} {1e6 * s / total:.0f} us each" for what, s in seconds.items()))
    return 1 if found["differ"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
