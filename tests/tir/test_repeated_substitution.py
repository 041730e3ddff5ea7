"""Copies are what substituting one by one makes, with sums of indices in canonical form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched.arith.analyzer import Analyzer
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Add, Expr, IntImm, Mul, Var
from autosched.tir.op import cast, const, floordiv, floormod
from autosched.tir.repeated_substitution import RepeatedSubstitution
from autosched.tir.walk import substitute

I, J, K, L = Var("i"), Var("j"), Var("k"), Var("l")
A = decl_buffer((8, 8), name="A")
N = decl_buffer((8,), "int32", name="N")


def test_copies_of_an_expression_are_as_if_substituted_one_by_one() -> None:
    e = A[K * 64 + I * 4, 0] * A[K, J * 4] + A[K, K]
    copy = RepeatedSubstitution([I, J])
    for p, q in itertools.product(range(3), range(3)):
        table: dict[Var, Expr] = {I: IntImm(p), J: IntImm(q)}
        assert copy(e, table) is substitute(e, table)
    assert copy(A[K, K], {I: J, J: I}) is A[K, K]


@pytest.mark.parametrize(
    ("e", "value", "copy"),
    [
        (K + I * 64 + 3, const(2), K + 131),
        (I * 64 + K * 4 + L, const(2), K * 4 + L + 128),
        (I * 64 + K, const(0), K),
        (K - I, const(2), K - 2),
        (I - K, const(2), 2 - K),
        (I * 8 - K * 2 - L * 4, const(1), 8 - K * 2 - L * 4),
        (I + K - 5, const(5), K),
        (I * 64 + K, J * 4 + 1, J * 256 + K + 64),
        (I * 64 + K, K * 4, K * 257),
        (I * 64 - K, K, K * 63),
        (I - K, K, const(0)),
        ((I + K) * 3 + I, const(2), K * 3 + 8),
        (floordiv(I + K, 4) * 16 + L, const(2), floordiv(K + 2, 4) * 16 + L),
        (floormod(K, 4) + I, const(-3), floormod(K, 4) - 3),
        (I * K + L, const(3), K * 3 + L),
        (cast("int64", I * 4 + K), const(1), cast("int64", K + 4)),
        (cast("int64", I) * 4 + cast("int64", K), const(1), cast("int64", K) + 4),
        (A[I + K, K], const(2), A[K + 2, K]),
    ],
)
def test_sums_of_indices_have_falling_factors_and_the_constant_after_them(
    e: Expr, value: Expr, copy: Expr
) -> None:
    assert RepeatedSubstitution([I])(e, {I: value}) is copy


def test_arithmetic_on_data_stays_as_it_is() -> None:
    e = N[K] + I + N[K]
    assert RepeatedSubstitution([I])(e, {I: const(3)}) is N[K] + 3 + N[K]


def test_constants_wrap_as_in_the_machine() -> None:
    e = I * 2**30 + K
    assert RepeatedSubstitution([I])(e, {I: const(3)}) is K - 2**30


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_sums_are_canonical_and_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(100):
        e: Expr = I * 7 + int(rng.integers(-9, 9))
        for _ in range(6):
            atom = (I, J, K, L, floordiv(K + I, 3))[rng.integers(5)]
            e = e + Mul(atom, const(int(rng.choice([-6, -2, 2, 3, 5, 7]))))
        table: dict[Var, Expr] = {I: const(int(rng.integers(0, 9))), J: L * 2 + 1}
        copied, plain = RepeatedSubstitution([I, J])(e, table), substitute(e, table)
        at = {K: const(int(rng.integers(0, 99))), L: const(int(rng.integers(0, 99)))}
        assert substitute(copied, at) is substitute(plain, at), (seed, e)
        assert Analyzer().simplify(copied) is Analyzer().simplify(plain), (seed, e)
        if floordiv(K + I, 3) not in _parts(e):
            assert Analyzer().simplify(copied) is copied, (seed, e)


def _parts(e: Expr) -> set[Expr]:
    """What the terms of a sum are multiples of."""
    if isinstance(e, Add):
        return _parts(e.a) | _parts(e.b)
    return {e.a} if isinstance(e, Mul) else {e}
