from __future__ import annotations

import random
from typing import Any

import pytest

from autosched.arith import Analyzer
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import float32
from autosched.tir.expr import BufferLoad, Expr, Ramp, Range, Var, pointer
from autosched.tir.op import (
    add,
    const,
    floordiv,
    floormod,
    lt,
    mul,
    select,
    sub,
    truncdiv,
    truncmod,
)
from autosched.tir.printer import to_text
from kit.seeds import each_seed

I, J, K, T, O = (Var(name) for name in "ijkto")


@pytest.fixture
def analyzer() -> Analyzer:
    analyzer = Analyzer()
    analyzer.bind(I, Range.of(8))
    analyzer.bind(J, Range.of(16))
    analyzer.bind(T, Range.of(32))
    analyzer.bind(O, Range.of(33))
    return analyzer


# The first six are the examples of the specification.
FORMS: list[tuple[Expr, str]] = [
    (J + I * 16, "i * 16 + j"),
    ((I * 16 + J) // 32, "i // 2"),
    ((I * 16 + J) % 32, "i % 2 * 16 + j"),
    ((I * 16 + J) // 4 % 8 * 4 + K, "i % 2 * 16 + j // 4 * 4 + k"),
    (K * 2 + I * 2 + J * 4, "j * 4 + k * 2 + i * 2"),
    (5 + I - J, "i + 5 - j"),
    # merging of quotients and remainders
    (K // 4 * 4 + K % 4, "k"),
    (K // 16 * 16 + K % 16 // 4 * 4 + K % 4, "k"),
    (K % 16 // 4 * 4 + K % 4, "k % 16"),
    ((K // 4) // 8, "k // 32"),
    ((K % 64) % 16, "k % 16"),
    ((K % 4) // 8, "0"),
    ((K // 4) % 8, "k % 32 // 4"),
    ((O * 32 + T) // 8, "o * 4 + t // 8"),
    ((O * 32 + T) % 8, "t % 8"),
    ((O * 32 + T) // 1032, "(o * 32 + t) // 1032"),
    ((O * 32 + T) // 64, "o // 2"),
    ((K * 8 + I) // 8 * 8 + (K * 8 + I) % 8, "k * 8 + i"),
    # constants
    (K * 4 + 7 - 3, "k * 4 + 4"),
    ((K * 4 + 9) // 4, "k + 2"),
    ((K * 4 + 9) % 4, "1"),
    (3 - K, "3 - k"),
    (sub(0, K) - 3, "0 - k - 3"),
    (K - K, "0"),
    # products of variables
    (K * 2 * (J * 3), "k * j * 6"),
    (K * J * 2 + K * J * 3, "k * j * 5"),
    # comparisons
    (lt(I * 8 + T % 8, 16), "i < 2"),
    (lt(I * 4 + J, 20), "i * 4 + j < 20"),
    (lt(I * 64 + T % 32, 96), "i < 2"),
    (lt(K + 1, J + 2), "k <= j"),
    (I + 1 <= J, "i < j"),
    (J >= I, "i <= j"),
]


@pytest.mark.parametrize(("e", "text"), FORMS, ids=[to_text(e) for e, _ in FORMS])
def test_canonical_text(analyzer: Analyzer, e: Expr, text: str) -> None:
    assert to_text(analyzer.simplify(e)) == text


def test_truncated_division_of_what_is_not_negative(analyzer: Analyzer) -> None:
    e = truncdiv(I * 16 + J, 4)
    assert to_text(analyzer.simplify(e)) == to_text(add(mul(I, 4), truncdiv(J, 4)))
    e = truncmod(K * 4 + J, 4)
    assert analyzer.simplify(e) is truncmod(K * 4 + J, 4)
    assert analyzer.simplify(truncdiv(J, 16)) is const(0)


def test_wide_indices_keep_their_type() -> None:
    n, m = Var("n", "int64"), Var("m", "int64")
    result = Analyzer().simplify((n * 4 + m * 4 + 4) // 4)
    assert result is n + m + const(1, "int64")
    assert Analyzer().simplify(n - n) is const(0, "int64")


def test_loads_and_calls_have_simplified_arguments(analyzer: Analyzer) -> None:
    from autosched.tir.buffer import decl_buffer
    from autosched.tir.dtype import float32
    from autosched.tir.expr import BufferLoad, Call, Ramp

    A = decl_buffer((1000,), "float32", "A")
    load = BufferLoad(A, (J + I * 16,))
    assert analyzer.simplify(load) is BufferLoad(A, (I * 16 + J,))
    call = Call(float32, "exp", (load,))
    assert analyzer.simplify(call) is Call(float32, "exp", (BufferLoad(A, (I * 16 + J,)),))
    vector = BufferLoad(A, (Ramp(J + I * 16, const(1), 4),))
    assert analyzer.simplify(vector) is BufferLoad(A, (Ramp(I * 16 + J, const(1), 4),))
    product = analyzer.simplify(BufferLoad(A, (J + I * 16,)) * 2.0)
    assert product is BufferLoad(A, (I * 16 + J,)) * 2.0


@each_seed(100)
def test_sums_of_divided_variables_keep_their_values(
    evaluate: Any, all_points: Any, seed: int
) -> None:
    rng = random.Random(seed)
    variables = [Var("a"), Var("b")]
    domains = {v: range(rng.choice((0, -5)), rng.randrange(3, 40)) for v in variables}
    analyzer = Analyzer()
    for v, r in domains.items():
        analyzer.bind(v, Range.of(len(r), r.start))
    everywhere = list(all_points(domains))
    points = rng.sample(everywhere, min(20, len(everywhere)))
    for _ in range(6):
        e: Expr = const(rng.randrange(-3, 4))
        for _ in range(rng.randrange(1, 6)):
            e = add(e, mul(_divided(rng, rng.choice(variables)), rng.choice((1, 2, 4, 8, -1, -4))))
        e = _divided(rng, e)
        simple = analyzer.simplify(e)
        for point in points:
            assert evaluate(simple, point) == evaluate(e, point), f"{e!r} -> {simple!r}"


def _divided(rng: random.Random, e: Expr) -> Expr:
    for _ in range(rng.randrange(3)):
        by = rng.choice((2, 2, 4, 4, 8, 16, 3, 6, 12))
        e = rng.choice((floordiv, floordiv, floormod, floormod, truncdiv, truncmod))(e, by)
    return e


def test_a_quotient_of_a_remainder_that_it_does_not_divide(evaluate: Any, all_points: Any) -> None:
    """x % 12 // 8 * 8 + x % 8 looks like x % 12, and is 12 for x = 20."""
    x = Var("x")
    analyzer = Analyzer()
    analyzer.bind(x, Range.of(100, 0))
    for m, n in ((12, 8), (10, 4), (9, 6), (6, 4), (15, 10)):
        e = add(mul(floordiv(floormod(x, m), n), n), floormod(x, n))
        simple = analyzer.simplify(e)
        canonical = analyzer.canonical_simplify(e)
        for value in range(100):
            assert evaluate(simple, {x: value}) == value % m // n * n + value % n, (m, n)
            assert evaluate(canonical, {x: value}) == value % m // n * n + value % n, (m, n)


def test_what_is_settled_is_what_no_rule_changes(analyzer: Analyzer) -> None:
    """Simplifying stops there: rewriting and canonical form alone would leave it as it is."""
    a = Buffer(pointer("A", float32), float32, (const(1 << 20),))

    def load(at: Expr) -> Expr:
        return BufferLoad(a, (at,))

    rows = [I * 16 + J, (I * 16 + J) // 32 * 4 + K, Ramp(J * 4 + I * 64 + 3, const(1), 16), T]
    for at in rows:
        analyzer.simplify(add(load(at), mul(load(at), const(2.0, load(at).dtype))))
        analyzer.simplify(sub(load(at), load(add(at, const(0, at.dtype)))))
        analyzer.simplify(select(lt(I, 3), load(at), mul(load(at), load(at))))
    settled = [e for e in analyzer.settled if isinstance(e, BufferLoad)]
    assert len(settled) >= len(rows)
    for e in analyzer.settled:
        fresh = Analyzer()
        for var, size in ((I, 8), (J, 16), (T, 32)):
            fresh.bind(var, Range.of(size))
        assert fresh.rewrite(e) is e
        assert fresh.canonical.visit(e) is e


@pytest.mark.parametrize(
    ("e", "text"),
    [
        # as Ansor has them
        (sub(0, I * 28), "i * -28"),
        (I * -28, "i * -28"),
        (I * -1, "i * -1"),
        (sub(0, I), "0 - i"),
        (I * -4 * K, "i * k * -4"),
        (I * -2 + K * -3, "0 - i * 2 - k * 3"),
        (floormod(I, 6) * -8 + 3, "3 - i % 6 * 8"),
        (I * -8 + 3, "3 - i * 8"),
    ],
)
def test_a_single_negative_term_is_a_product(e: Expr, text: str) -> None:
    assert repr(Analyzer().simplify(e)) == repr(Analyzer(True).simplify(e)) == text
