"""Sums of digits: what they say is so, for every value."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.referee.digits import covers, digits, tells_apart
from autosched.tir.expr import Expr, Var
from autosched.tir.op import add, call, const, floordiv, floormod, mul
from autosched.transform.device.thread_index import evaluate
from kit.types import Array

B, T, I = Var("b"), Var("t"), Var("i")


def random_index(rng: np.random.Generator, extents: dict[Var, int]) -> Expr:
    """A sum of multiples of quotients of the variables."""
    total: Expr = const(int(rng.integers(0, 3)))
    for _ in range(int(rng.integers(2, 6))):
        term: Expr = list(extents)[int(rng.integers(0, 3))]
        kind = int(rng.integers(0, 5))
        size = int(rng.choice([2, 3, 4, 6, 8]))
        if kind == 1:
            term = floordiv(term, size)
        elif kind == 2:
            term = floormod(term, size)
        elif kind == 3:
            term = floormod(floordiv(term, 2), size)
        elif kind == 4:
            term = call("bitwise_and", call("shift_right", term, 1), 3)
        factor = int(rng.choice([1, 2, 3, 4, 8, 12, 24, 48]))
        total = add(total, mul(term, factor))
    return total


def values(e: Expr, extents: dict[Var, int]) -> Array:
    """`e` for all values of the variables."""
    env = {
        v: np.arange(n, dtype=np.int64).reshape([-1 if d == axis else 1 for d in range(3)])
        for axis, (v, n) in enumerate(extents.items())
    }
    found = evaluate(e, env)
    assert found is not None
    return np.broadcast_to(found, tuple(extents.values()))


def meet(indices: list[Expr], extents: dict[Var, int]) -> bool:
    """Whether two values of B give one element."""
    found = np.stack([values(e, extents) for e in indices])
    owners = np.broadcast_to(np.arange(extents[B])[:, None, None], found.shape[1:])
    pairs = np.unique(np.stack([found.ravel(), np.tile(owners.ravel(), len(indices))]), axis=1)
    return bool(len(np.unique(pairs[0])) < pairs.shape[1])


def test_digits_add_up_to_the_index_and_tell_apart_what_they_say() -> None:
    rng = np.random.default_rng(5)
    told = 0
    for _ in range(250):
        extents = {v: int(rng.integers(1, 9)) for v in (B, T, I)}
        indices = [random_index(rng, extents)]
        if rng.random() < 0.3:
            indices.append(add(indices[0], int(rng.integers(0, 5))))
        sums = [s for s in (digits(e, extents) for e in indices) if s is not None]
        for e, s in zip(indices, sums, strict=False):
            parts = (f * (values(d.base, extents) // d.below % d.count) for d, f in s.terms.items())
            np.testing.assert_array_equal(values(e, extents), sum(parts, start=s.constant))
        if len(sums) < len(indices):
            continue
        if tells_apart(sums, {B}) and all(covers(s, B, extents[B]) for s in sums):
            told += 1
            assert not meet(indices, extents), (indices, extents)
    assert told > 20, "else the test says nothing"


@pytest.mark.parametrize(
    ("index", "apart"),
    [
        (B * 8 + T, True),
        (B * 7 + T, False),
        (floordiv(B, 4) * 64 + floormod(B, 4) * 8 + T, True),
        (floordiv(B, 4) * 64 + T, False),
        (floormod(B, 4) * 8 + T, False),
        (B + T * 8 + I * 64, True),
        (B + T * 4, False),
        (T + I, False),
        (B * 32 + T + I * 2, True),
        (B * 8 - T, True),
    ],
    ids=repr,
)
def test_blocks_of_eight(index: Expr, apart: bool) -> None:
    extents = {B: 8, T: 8, I: 4}
    found = digits(index, extents)
    assert found is not None
    assert (covers(found, B, 8) and tells_apart([found], {B})) == apart


def test_what_is_no_sum_of_digits() -> None:
    assert digits(floordiv(B, 4) + floormod(B, 6), {B: 24}) is None, "4 and 6 are no chain"
    assert digits(B * T, {B: 4, T: 4}) is None
    assert digits(B + Var("n"), {B: 4}) is None
