"""Inlining all stages of a kind: which are taken, and that the program computes the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.op import const

Inline = Callable[[Schedule], list[Any]]
KINDS: dict[str, Inline] = {
    "elementwise": Schedule.auto_inline_elementwise,
    "broadcast": Schedule.auto_inline_broadcast,
    "injective": Schedule.auto_inline_injective,
}


def program() -> tuple[list[Tensor], Schedule]:
    """A stage of every kind, and a reduction that reads them through one another."""
    A = te.placeholder((4, 6), name="A")
    row = te.placeholder((6,), name="row")
    one = te.placeholder((4, 1), name="one")
    plus = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="plus")
    twice = te.compute((4, 6), lambda i, j: plus[i, j] * plus[i, j], name="twice")
    rows = te.compute((4, 6), lambda i, j: twice[i, j] * row[j] + one[i, 0], name="rows")
    turned = te.compute((6, 4), lambda i, j: rows[j, i], name="turned")
    shifted = te.compute((6, 4), lambda i, j: turned[(i + 1) % 6, j], name="shifted")
    k = te.reduce_axis((0, 4), "k")
    total = te.compute((6,), lambda i: te.sum(shifted[i, k], axis=k), name="total")
    out = te.compute((6,), lambda i: total[i] - row[i], name="out")
    return [A, row, one, out], te.create_schedule(out.op)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("elementwise", ["plus", "twice"]),
        ("broadcast", ["plus", "twice", "rows"]),
        ("injective", ["plus", "twice", "rows", "turned", "shifted"]),
    ],
)
def test_the_stages_of_a_kind(kind: str, names: list[str]) -> None:
    args, plain = program()
    args_of_inlined, s = program()
    assert [stage.name for stage in KINDS[kind](s)] == names
    assert KINDS[kind](s) == []
    assert same(schedule_to_prim_func(plain, args), schedule_to_prim_func(s, args_of_inlined))


def same(before: Any, after: Any) -> bool:
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-4, 5, [e.value for e in b.shape]).astype(np.float32) for b in before.buffers
    ]
    results = []
    for func in (before, after):
        copies = [a.copy() for a in arrays]
        interp.run(func, copies)
        results.append(copies)
    return all(map(np.array_equal, *results))


def chain_to(read: Callable[[Tensor], Tensor]) -> tuple[Tensor, Schedule]:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    return B, te.create_schedule(read(B).op)


def by_extern(B: Tensor) -> Tensor:
    found: Tensor = te.extern(
        (8,), [B], lambda ins, outs: te.call_extern("f", ins[0].data, outs[0].data)
    )
    return found


def by_scan(B: Tensor) -> Tensor:
    first = te.compute((1, 8), lambda _, i: B[i], name="first")
    state = te.placeholder((4, 8), name="state")
    step = te.compute((4, 8), lambda t, i: state[t - 1, i] * 2.0, name="step")
    found: Tensor = te.scan(first, step, state, [B])
    return found


def test_what_a_scan_or_an_extern_reads_stays() -> None:
    for read, names in ((by_extern, []), (by_scan, ["B"])):
        _, s = chain_to(read)
        assert [stage.name for stage in s.auto_inline_injective()] == names
        s.normalize()


def scheduled_stages() -> list[Callable[[Schedule, Tensor, Tensor], object]]:
    return [
        lambda s, B, C: s[B].split(B.op.axis[0], factor=4),
        lambda s, B, C: s[B].parallel(B.op.axis[0]),
        lambda s, B, C: s[B].compute_at(s[C], C.op.axis[0]),
        lambda s, B, C: s[B].set_scope("shared"),
        lambda s, B, C: s[B].double_buffer(),
        lambda s, B, C: s[B].set_store_predicate(B.op.axis[0].var < const(4)),
    ]


@pytest.mark.parametrize("primitive", scheduled_stages())
def test_a_stage_with_a_schedule_of_its_own_stays(
    primitive: Callable[[Schedule, Tensor, Tensor], object],
) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    primitive(s, B, C)
    assert s.auto_inline_injective() == []


def test_a_stage_in_whose_loops_another_is_computed_stays() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((8,), lambda i: C[i] * 2.0, name="D")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert s.auto_inline_injective() == []


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_compute_the_same(seed: int) -> None:
    """Programs of up to eight stages, each reading earlier ones: the same with all inlined."""
    func, inlined = (random_program(random.Random(seed), inline) for inline in (False, True))
    assert same(func, inlined)


def random_program(rng: random.Random, inline: bool) -> Any:
    tensors: list[Tensor] = [te.placeholder((4, 4), name="A"), te.placeholder((4, 4), name="B")]
    reads: list[Callable[[Tensor, Any, Any], Any]] = [
        lambda t, i, j: t[i, j],
        lambda t, i, j: t[j, i],
        lambda t, i, j: t[i, 0],
        lambda t, i, j: te.if_then_else(i < 2, t[i + 1, j], t[3 - i, j]),
    ]
    for n in range(rng.randrange(2, 8)):
        a, b = rng.choice(tensors), rng.choice(tensors[-2:])
        f, g = rng.choice(reads), rng.choice(reads)
        k = te.reduce_axis((0, 4), "k")

        def total(i: Any, j: Any, a: Tensor = a, k: Any = k) -> Any:
            return te.sum(a[i, k], axis=k)

        def both(i: Any, j: Any, a: Tensor = a, b: Tensor = b, f: Any = f, g: Any = g) -> Any:
            return f(a, i, j) + g(b, i, j)

        body = total if rng.random() < 0.2 else both
        tensors.append(te.compute((4, 4), body, name=f"T{n}", axis_names=["i", "j"]))
    s = te.create_schedule(tensors[-1].op)
    if inline:
        rng.choice(list(KINDS.values()))(s)
    inputs = [t for t in tensors[:2] if t.op in s.stage_map]
    return schedule_to_prim_func(s, [*inputs, tensors[-1]])
