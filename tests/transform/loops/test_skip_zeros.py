import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from autosched import te
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, Expr, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import const, eq, if_then_else
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    seq,
)
from autosched.tir.walk import stmts
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.loops.skip_zeros import MOST_PHASES, SkipZeros
from kit.te import compute_of
from kit.tir import value_of
from kit.types import BodyText, MakeFunc, SameResult


def transposed(
    sizes: Sequence[int], window: int, strides: Sequence[int], channels: int = 2
) -> tuple[Schedule, Tensor, Tensor, list[Tensor]]:
    """A transposed convolution with one border element: schedule, spread image, output, all."""
    X = te.placeholder((*sizes, channels), name="X")
    K = te.placeholder((*[window] * len(sizes), channels, 3), name="K")
    spread = [(n - 1) * s + 1 for n, s in zip(sizes, strides)]

    def image(*at: Expr) -> Expr:
        inside = [
            te.all(i >= 1, i <= n, eq((i - 1) % s, 0)) for i, n, s in zip(at, spread, strides)
        ]
        where = [(i - 1) // s for i, s in zip(at, strides)]
        return if_then_else(te.all(*inside), X[(*where, at[-1])], const(0.0))

    P = te.compute((*[n + 2 for n in spread], channels), image, name="P")
    steps = [te.reduce_axis((0, window), name=f"r{d}") for d in range(len(sizes))]
    c = te.reduce_axis((0, channels), name="c")

    def total(*at: Expr) -> Expr:
        place = [i + r for i, r in zip(at, steps)]
        result: Expr = te.sum(P[(*place, c)] * K[(*steps, c, at[-1])], axis=[*steps, c])
        return result

    Y = te.compute((*[n + 3 - window for n in spread], 3), total, name="Y")
    return te.create_schedule(Y.op), P, Y, [X, K, Y]


def steps_of(func: PrimFunc) -> int:
    """How often the sum's statement runs; of branches, the mean."""

    def count(s: Stmt) -> float:
        match s:
            case For():
                return value_of(s.extent) * count(s.body)
            case IfThenElse(_, a, b):
                return (count(a) + (0 if b is None else count(b))) / 2
            case BufferStore(buffer, value):
                return buffer.name == "Y" and len(list(te_loads(value))) > 1
            case BufferRealize():
                return count(s.body)
        return sum(map(count, getattr(s, "stmts", ()))) or (
            count(s.body) if hasattr(s, "body") else 0
        )

    return int(count(func.body))


def te_loads(e: Expr) -> list[BufferLoad]:
    found = [e] if isinstance(e, BufferLoad) else []
    return found + [load for child in e.children() for load in te_loads(child)]


def test_golden(body_text: BodyText, same_result: SameResult) -> None:
    """What is read of the image is every second element; nobody reads the others any more."""
    sch, _, _, args = transposed([4], 3, [2])
    func = schedule_to_prim_func(sch, args)
    after = SkipZeros()(func)
    assert (
        body_text(after)
        == """\
realize(P[0:9, 0:2], float32, "")
for at0 in range(4):
    for at1 in range(2):
        P[at0 * 2 + 1, at1] = X[at0, at1]
realize(Y[0:7, 0:3], float32, "global")
for at0_1 in range(4):
    for at1_1 in range(3):
        Y[at0_1 * 2, at1_1] = 0.0
        for c in range(2):
            Y[at0_1 * 2, at1_1] = Y[at0_1 * 2, at1_1] + P[at0_1 * 2 + 1, c] * K[1, c, at1_1]
for at0_2 in range(3):
    for at1_2 in range(3):
        Y[at0_2 * 2 + 1, at1_2] = 0.0
        for r0 in range(2):
            for c_1 in range(2):
                Y[at0_2 * 2 + 1, at1_2] = Y[at0_2 * 2 + 1, at1_2] \
+ P[at0_2 * 2 + r0 * 2 + 1, c_1] * K[r0 * 2, c_1, at1_2]"""
    )
    same_result(func, after)


def inlined(sch: Schedule, P: Tensor, Y: Tensor) -> None:
    sch[P].compute_inline()


def tiled(sch: Schedule, P: Tensor, Y: Tensor) -> None:
    """Tiles of three rows: what an outer loop leaves decides which steps count."""
    outer, _ = sch[Y].split(compute_of(Y).axis[0], factor=3)
    sch[P].compute_at(sch[Y], outer)


def steps_split(sch: Schedule, P: Tensor, Y: Tensor) -> None:
    """Two loops of the sum move the image by odd numbers."""
    (row, *_), channel = compute_of(Y).axis, compute_of(Y).axis[-1]
    step = compute_of(Y).reduce_axis[0]
    outer, inner = sch[Y].split(step, nparts=3)
    sch[Y].reorder(outer, channel, row, inner)


def fused(sch: Schedule, P: Tensor, Y: Tensor) -> None:
    sch[P].fuse(*compute_of(P).axis)
    sch[P].compute_root()


@pytest.mark.parametrize("place", [None, inlined, tiled, steps_split, fused])
@pytest.mark.parametrize(
    ("sizes", "window", "strides"),
    [
        ([5], 1, [2]),
        ([5], 4, [2]),
        ([7], 3, [2]),
        ([4], 2, [3]),
        ([4], 5, [3]),
        ([1], 3, [4]),
        ([3, 4], 3, [2, 3]),
        ([2, 3, 2], 2, [2, 1, 2]),
    ],
    ids=str,
)
def test_nothing_is_multiplied_with_inserted_zeros(
    sizes: list[int],
    window: int,
    strides: list[int],
    place: Callable[[Schedule, Tensor, Tensor], None] | None,
    same_result: SameResult,
) -> None:
    """At most as many steps as the window has in the image, but where tiles end anywhere."""
    sch, P, Y, args = transposed(sizes, window, strides)
    if place is not None:
        place(sch, P, Y)
    func = Simplify()(schedule_to_prim_func(sch, args))
    after = SkipZeros()(func)
    assert after is not func
    same_result(func, after)
    if place in (None, inlined, fused) and window > 1:
        taps = [
            sum(
                (i + r - 1) % s == 0 for i in range((n - 1) * s + 4 - window) for r in range(window)
            )
            for n, s in zip(sizes, strides)
        ]
        assert steps_of(after) == math.prod(taps) * 2 * 3


def test_infinite_weights_meet_only_the_image() -> None:
    """An inserted zero is no factor: as at padded borders, 0 * inf is not added."""
    sch, _, _, args = transposed([4], 2, [2], channels=1)
    func = SkipZeros()(schedule_to_prim_func(sch, args))
    K, Y = np.full((2, 1, 3), np.inf, np.float32), np.zeros((8, 3), np.float32)
    interp.run(func, [np.ones((4, 1), np.float32), K, Y])
    assert np.isposinf(Y).all()


h, r, c = Var("h"), Var("r"), Var("c")
X = decl_buffer((16, 4), name="X")
W = decl_buffer((4,), name="W")
OUT = decl_buffer((16, 4), name="OUT")


def loop(var: Var, extent: int, body: Stmt, kind: ForKind = ForKind.SERIAL) -> For:
    return For(var, const(0), const(extent), kind, body)


def even(value: Expr, index: Expr, modulus: int = 2) -> Expr:
    return if_then_else(eq(index % modulus, 0), value, const(0.0))


def add(term: Expr, place: tuple[Expr, ...] = (h, c), own: Expr = h) -> BufferStore:
    return BufferStore(OUT, BufferLoad(OUT, (own, c)) + term, place)


def product(index: Expr, modulus: int = 2) -> Expr:
    return even(BufferLoad(X, (index // modulus, c)), index, modulus) * BufferLoad(W, (r,))


def summed(body: Stmt, rows: int = 12, kind: ForKind = ForKind.SERIAL) -> For:
    return loop(h, rows, loop(r, 4, loop(c, 4, body)), kind)


@pytest.mark.parametrize(
    "body",
    [
        summed(add(BufferLoad(X, (h + r, c)) * BufferLoad(W, (r,)))),
        summed(add(product(h + r), own=(h + 1) % 12)),  # reads what other rows write
        summed(add(product(c + r))),  # lanes of the last dimension stay together
        summed(add(product(h + r)), kind=ForKind.VECTORIZED),
        summed(add(product(h * r))),  # no remainder that follows from those of the loops
        summed(add(product(h + r, MOST_PHASES + 1))),
        summed(add(even(BufferLoad(X, (r, c)), h + r) + BufferLoad(W, (r,)))),
        summed(BufferStore(OUT, product(h + r), (h, c))),  # no sum
    ],
    ids=range(8),
)
def test_other_loops_stay(body: Stmt, make_func: MakeFunc) -> None:
    func = make_func(body, X, W, OUT)
    assert SkipZeros()(func) is func


@pytest.mark.parametrize("outer", [h, r])
def test_rows_that_several_iterations_store_keep_their_order(
    outer: Var, make_func: MakeFunc, same_result: SameResult
) -> None:
    """Along the diagonals h + r neither loop alone tells the row, and sums do not commute here."""
    inner = r if outer is h else h
    halved = (BufferLoad(OUT, (h + r, c)) + product(h + r) * 0.5, (h + r, c))
    store = BufferStore(OUT, *halved)
    func = make_func(loop(outer, 4, loop(inner, 4, loop(c, 4, store))), X, W, OUT)
    same_result(func, SkipZeros()(func))


@pytest.mark.parametrize("twice", [True, False])
def test_what_else_a_buffer_is_for_keeps_its_zeros(
    twice: bool, make_func: MakeFunc, same_result: SameResult
) -> None:
    """Stored at two places nothing is known of it; read elsewhere it is stored whole."""
    P = decl_buffer((16, 4), name="P")
    fill = loop(h, 16, loop(c, 4, BufferStore(P, even(BufferLoad(X, (h, c)), h), (h, c))))
    k, j = Var("k"), Var("j")
    one = const(1.0)
    again = loop(k, 16, loop(j, 4, BufferStore(P, BufferLoad(P, (k, j)) + one, (k, j))))
    s, t = Var("s"), Var("t")
    term = BufferLoad(P, (s + r, t)) * BufferLoad(W, (r,))
    own = BufferLoad(OUT, (s, t))
    total = loop(s, 12, loop(r, 4, loop(t, 4, BufferStore(OUT, own + term, (s, t)))))
    whole = BufferStore(OUT, BufferLoad(P, (const(3), const(1))), (const(15), const(0)))
    bounds = tuple(Range(const(0), extent) for extent in P.shape)
    last = again if twice else whole
    body = BufferRealize(P, bounds, TRUE, seq(fill, total, last))
    func = make_func(body, X, W, OUT)
    after = SkipZeros()(func)
    assert (after is func) == twice
    same_result(func, after)
    if not twice:
        assert "if_then_else" in repr(next(x for x in stmts(after.body) if isinstance(x, For)))


def test_an_argument_keeps_its_zeros(same_result: SameResult) -> None:
    sch, P, _, (X, K, Y) = transposed([4], 3, [2])
    func = schedule_to_prim_func(sch, [X, K, P, Y])
    after = SkipZeros()(func)
    same_result(func, after)


def test_remainders_of_data_that_wraps_are_worked_out() -> None:
    """N * 3 leaves no remainder by 3 in numbers, and one where it leaves int32."""
    before = parse_func("""
def main(X: Buffer((6,), float32), N: Buffer((8,), int32), Y: Buffer((8,), float32)):
    for h in range(8):
        for r in range(6):
            Y[h] = Y[h] + if_then_else((N[h] * 3 + r) % 3 == 0, X[r], 0.0) * X[5 - r]
""")
    x, n = np.arange(6, dtype=np.float32), np.full(8, 10**9, np.int32)
    expected, found = np.zeros(8, np.float32), np.zeros(8, np.float32)
    interp.run(before, [x, n, expected])
    interp.run(SkipZeros()(before), [x, n, found])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "lines",
    [
        """\
    V = view(Y, (15, 1), float32, elem_offset=1)
    for h in range(15):
        for r in range(4):
            Y[h, 0] = Y[h, 0] + if_then_else((h + r) % 2 == 0, V[h, 0], 0.0) * X[r]""",
        """\
    V = view(Y, (15, 1), float32, elem_offset=1)
    for h in range(15):
        Y[h, 0] = 1.0
        for r in range(4):
            V[h, 0] = V[h, 0] + if_then_else((h + r) % 2 == 0, X[r], 0.0) * X[h]""",
        """\
    realize(P[0:16, 0:1], float32, "global")
    V = view(P, (15, 1), float32, elem_offset=1)
    for h in range(16):
        P[h, 0] = if_then_else(h % 2 == 0, X[h // 2], 0.0)
    for s in range(12):
        for r in range(4):
            Y[s, 0] = Y[s, 0] + V[s + r, 0] * X[r]""",
    ],
    ids=["value", "store", "pattern"],
)
def test_views_that_begin_elsewhere_are_other_elements(lines: str, same_result: SameResult) -> None:
    before = parse_func(
        f"def main(X: Buffer((16,), float32), Y: Buffer((16, 1), float32)):\n{lines}\n"
    )
    same_result(before, SkipZeros()(before))
