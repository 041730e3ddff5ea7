"""What `slots` says of random places is so, all elements counted out."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autosched.tir.dtype import int32
from autosched.tir.expr import Expr, Ramp, Var
from autosched.tir.op import add, const, floordiv, floormod, lt, mul
from autosched.transform.device.slots import apart, in_other_slots
from autosched.transform.device.thread_access import Access
from autosched.transform.device.thread_index import Place, Span, evaluate


def _index(rng: random.Random, variables: list[Var]) -> tuple[Expr, Expr | None]:
    """A sum of multiples, remainders and quotients, and a guard of the sum of some variables."""
    inside: Expr = const(0)
    for var in variables:
        if rng.random() < 0.6:
            inside = add(inside, mul(var, const(rng.choice([1, 1, 2, 4]))))
    index = const(rng.choice([0, 0, 3, 20, 40]))
    for _ in range(rng.randint(1, 3)):
        term = rng.choice([inside, inside, rng.choice(variables)])
        if rng.random() < 0.4:
            by = const(rng.choice([2, 3, 5]))
            term = floormod(term, by) if rng.random() < 0.5 else floordiv(term, by)
        index = add(index, mul(term, const(rng.choice([1, 2, 7, 16]))))
    guard = lt(inside, const(rng.randint(1, 14))) if rng.random() < 0.6 else None
    return index if rng.random() < 0.7 else Ramp(index, const(1), 2), guard


def _elements(access: Access, thread: Span, fixed: dict[Var, int]) -> set[int]:
    """What all threads touch for all values of the inner variable."""
    assert access.place is not None
    place = access.place
    base, lanes = (
        (place.index.base, place.index.lanes) if isinstance(place.index, Ramp) else (place.index, 1)
    )
    moving = (thread, *place.inner)
    values = np.indices([span.extent for span in moving])
    env = {var: np.asarray(n) for var, n in fixed.items()}
    env |= {span.var: own for span, own in zip(moving, values, strict=True)}
    found = np.broadcast_to(known(evaluate(base, env)), values[0].shape)
    if access.guard is not None:
        found = found[np.broadcast_to(known(evaluate(access.guard, env)), found.shape)]
    return {int(n) + lane for n in found.flat for lane in range(lanes)}


def known(found: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(4))
def test_places_that_are_apart_share_no_element(seed: int) -> None:
    rng = random.Random(seed)
    thread, loop, outer, mine, other = (Span(Var(n), 0, rng.randint(2, 4)) for n in "tlabc")
    said = 0
    for _ in range(400):
        accesses = []
        for inner in (mine, other):
            index, guard = _index(rng, [thread.var, loop.var, outer.var, inner.var])
            data = Var("S", int32)
            accesses.append(Access(data, int32, True, Place(index, (inner,)), guard=guard))
        first, second = accesses
        if rng.random() < 0.5 and first.place is not None:  # what a loop does twice
            second = first
        across = rng.random() < 0.5
        loops = {span.var: span for span in (loop, outer)}
        if not apart(first, second, [thread], loops, loop if across else None):
            continue
        said += 1
        for at, n, m in itertools.product(range(outer.extent), *[range(loop.extent)] * 2):
            if (n != m) != across:
                continue
            a, b = (
                _elements(own, thread, {outer.var: at, loop.var: k})
                for own, k in ((first, n), (second, m))
            )
            assert not a & b, (seed, first, second, across)
    assert said > 20


@pytest.mark.parametrize("seed", range(4))
def test_places_in_other_slots_share_no_element(seed: int) -> None:
    rng = random.Random(seed)
    data = Var("S", int32)
    thread, outer, twice = (Span(Var(n), 0, rng.randint(3, 5)) for n in "tok")
    said = 0
    for _ in range(400):
        # Two loops may have one variable, which then has any two values.
        inner = (twice,) if rng.random() < 0.5 else ()
        turns, rests = (rng.sample((thread, outer, *inner), 2) for _ in range(2))
        slots, size = rng.randint(2, 3), rng.choice([8, 16])
        accesses = []
        for _ in range(2):
            turn: Expr = const(rng.randint(0, 3))
            for span in turns[: 1 + (turns[1] is outer)]:
                turn = add(turn, span.var)
            index = mul(floormod(turn, const(slots)), const(size))
            for span in rests[: rng.randint(1, 2)]:
                index = add(index, mul(span.var, const(rng.randint(1, 2))))
            accesses.append(Access(data, int32, True, Place(index, inner)))
        first, second = accesses
        assert first.place is not None and second.place is not None
        if in_other_slots(first.place, second.place, [thread], {outer.var: outer}):
            said += 1
            for at in range(outer.extent):
                a, b = (_elements(own, thread, {outer.var: at}) for own in accesses)
                assert not a & b, (seed, accesses)
    assert said > 20
