"""FuseReductions: whatever rows reduce, fused loops give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.driver import lower
from autosched.target import HardwareParams, Target
from autosched.te.operations.tensor import Tensor
from autosched.tir import interp
from autosched.tir.expr import Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import const
from autosched.tir.printer import to_text
from autosched.transform.framework.context import PassContext
from kit.te import both_axes

CPU = Target("cpu", HardwareParams(4), 4, "x86-64", "", "", 64)
TERMS: list[Callable[[Expr, Expr], Expr]] = [
    lambda a, first: a,
    lambda a, first: a * a,
    lambda a, first: a - first,
    lambda a, first: te.exp(a),
]


def rows(
    shape: tuple[int, int], terms: list[int], folds: list[bool], together: int, inside: int
) -> PrimFunc:
    """Rows and what is reduced of them, the first `inside` reductions before all rows."""
    A = te.placeholder(shape, name="A")
    found: list[Tensor] = []
    for number, (term, fold) in enumerate(zip(terms, folds, strict=True)):
        found.append(_reduced(A, TERMS[term], fold, found[:1], f"R{number}"))
    D = te.compute(shape, lambda i, j: A[i, j] + reduce(add, [r[i] for r in found]), name="D")
    sch = te.create_schedule(D.op)
    outer, _ = sch[D].split(both_axes(D)[0], factor=together)
    for number, stage in enumerate(found):
        if number >= inside:
            sch[stage].compute_at(sch[D], outer)
    return lower(sch, [A, D], CPU)


def _reduced(
    A: Tensor, term: Callable[[Expr, Expr], Expr], is_maximum: bool, first: list[Tensor], name: str
) -> Tensor:
    """The maximum or the sum of a row of terms."""
    k = te.reduce_axis((0, A.shape[1]), name="k")

    def value(i: Var) -> Expr:
        other = first[0][i] if first else const(0.5)
        reduced: Expr = (te.max if is_maximum else te.sum)(term(A[i, k], other), axis=k)
        return reduced

    result: Tensor = te.compute(A.shape[:1], value, name=name)
    return result


@settings(max_examples=5, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.sampled_from([16, 29, 48])),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=3),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_same_bits(
    shape: tuple[int, int], made: list[tuple[int, bool]], together: int, inside: int
) -> None:
    terms, folds = [t for t, _ in made], [f for _, f in made]
    fused = rows(shape, terms, folds, together, inside)
    with PassContext(disabled_pass=["FuseReductions"]):
        plain = rows(shape, terms, folds, together, inside)
    a = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    one, other = np.zeros_like(a), np.zeros_like(a)
    interp.run(fused, [a, one])
    interp.run(plain, [a, other])
    np.testing.assert_array_equal(one, other)


def test_three_reductions_share_one_loop() -> None:
    fused = to_text(rows((2, 2048), [0, 1, 0], [False, False, True], 2, 0))
    assert fused.count("for k") == 1
