"""Copies are what substituting one by one makes."""

from __future__ import annotations

import itertools

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.repeated_substitution import RepeatedSubstitution
from autosched.tir.walk import substitute

I, J = Var("i"), Var("j")
A = decl_buffer((8, 8), name="A")


def test_copies_of_an_expression_are_as_if_substituted_one_by_one() -> None:
    k = Var("k")
    e = A[I * 4 + k, 0] * A[k, J * 4] + A[k, k]
    copy = RepeatedSubstitution([I, J])
    for p, q in itertools.product(range(3), range(3)):
        table: dict[Var, Expr] = {I: IntImm(p), J: IntImm(q)}
        assert copy(e, table) is substitute(e, table)
    assert copy(A[k, k], {I: J, J: I}) is A[k, k]
