"""FuseProducts: products and what lies between them, one block of rows after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.runtime.cpu import load
from autosched.search.evolution import mutated
from autosched.search.population import Structures
from autosched.search.space import SearchSpace
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import SplitStep
from autosched.task import Task
from kit.sketches import assert_right

ATTENTION = """
S[a, i, j] = sum(e, Q[a, i, e] * {k}) * 0.25{mask}
m[a, i] = max(j, S[a, i, j]{if_kept})
E[a, i, j] = exp(S[a, i, j] - m[a, i]){or_zero}
t[a, i] = sum(j, E[a, i, j])
A[a, i, f] = sum(j, E[a, i, j] * {v})
"""
QUOTIENTS = "Y[a, i, f] = A[a, i, f] / t[a, i]"


def attention(
    sizes: tuple[int, int, int, int, int],
    *,
    kept: str = "",
    mask: bool = False,
    end: str = QUOTIENTS,
    turned: tuple[str, ...] = ("K",),
) -> Task:
    """Attention of (heads, rows, columns, inner, width); `turned` names what is read across."""
    heads, rows, columns, inner, width = sizes
    text = ATTENTION.format(
        k="K[a, j, e]" if "K" in turned else "K[a, e, j]",
        v="V[a, f, j]" if "V" in turned else "V[a, j, f]",
        mask=" + M[i, j]" if mask else "",
        if_kept=f" if {kept} else -3.4028234663852886e38" if kept else "",
        or_zero=f" if {kept} else 0.0" if kept else "",
    )
    shapes = {
        "Q": (heads, rows, inner),
        "K": (heads, columns, inner) if "K" in turned else (heads, inner, columns),
        "V": (heads, width, columns) if "V" in turned else (heads, columns, width),
        **({"M": (rows, columns)} if mask else {}),
    }
    return Task.from_expression(text + end, shapes)


def inside(sketch: State) -> list[str]:
    """The names of the stages that are computed in a block of rows."""
    return [s.name for s in sketch.stages if s.compute_at is ComputeAt.ITER]


def test_all_stages_are_computed_for_some_rows() -> None:
    (sketch,) = SearchSpace(attention((2, 64, 64, 16, 16))).sketches
    assert inside(sketch) == ["S_sum", "m", "E", "A", "t"]
    last = len(sketch.stages) - 1
    assert [it.name for it in sketch.stages[last].iters] == ["a", "i.0", "i.1", "f"]
    assert len(sketch.attach_map.attached_at(last, 1)) == 5


@pytest.mark.parametrize("turned", [(), ("K",), ("V",), ("K", "V")], ids=str)
def test_what_is_read_across_is_copied(turned: tuple[str, ...]) -> None:
    task = attention((1, 24, 20, 8, 12), turned=turned)
    sketches = SearchSpace(task).sketches
    copies = [s.name for s in sketches[0].stages if s.name.endswith(".global.global")]
    assert copies == [f"{name}.global.global" for name in turned]
    assert_right(task, sketches, 4)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((2, 16, 16, 8, 8), {}),
        ((3, 7, 31, 5, 3), {"mask": True}),
        ((1, 37, 19, 5, 6), {"kept": "j <= i"}),
        ((2, 2, 2, 2, 2), {}),
        ((2, 50, 3, 7, 33), {"end": "Y[i, a, f] = A[a, i, f] / t[a, i]"}),
        ((2, 33, 20, 8, 8), {"end": f"{QUOTIENTS}\nZ[a, i, f] = relu(Y[a, i, f] + Q[a, i, f])"}),
    ],
    ids=str,
)
def test_computes_the_same(sizes: tuple[int, int, int, int, int], options: dict[str, Any]) -> None:
    task = attention(sizes, **options)
    (sketch,) = SearchSpace(task).sketches
    assert {"S_sum", "E", "A"} <= {*inside(sketch)}
    assert_right(task, [sketch], 5)


def test_heads_of_the_query_may_share_keys() -> None:
    text = ";".join(
        (
            "S[g, r, i, j] = sum(e, Q[g, r, i, e] * K[g, j, e])",
            "m[g, r, i] = max(j, S[g, r, i, j])",
            "E[g, r, i, j] = exp(S[g, r, i, j] - m[g, r, i])",
            "t[g, r, i] = sum(j, E[g, r, i, j])",
            "Y[g, r, i, f] = sum(j, E[g, r, i, j] * V[g, j, f]) / t[g, r, i]",
        )
    )
    shapes = {"Q": (2, 3, 20, 8), "K": (2, 12, 8), "V": (2, 12, 8)}
    task = Task.from_expression(text, shapes)
    (sketch,) = SearchSpace(task).sketches
    assert [it.name for it in sketch.stages[-1].iters] == ["g", "r", "i.0", "i.1", "f"]
    assert_right(task, [sketch], 4)


def test_a_function_that_is_read_twice_is_computed_once() -> None:
    text = ATTENTION.replace("S[a, i, j] =", "R[a, i, j] =").format(
        k="K[a, j, e]", v="V[a, j, f]", mask="", if_kept="", or_zero=""
    )
    text = text.replace("m[a", "S[a, i, j] = tanh(R[a, i, j])\nm[a", 1) + QUOTIENTS
    shapes = {"Q": (2, 24, 8), "K": (2, 20, 8), "V": (2, 20, 8)}
    task = Task.from_expression(text, shapes)
    (sketch,) = SearchSpace(task).sketches
    assert "S" in inside(sketch)
    assert_right(task, [sketch], 3)


@pytest.mark.parametrize(
    "text",
    [
        "H[i, j] = sum(k, X[i, k] * B[k, j]); Y[i, j] = sum(k, relu(H[i, k]) * D[k, j]) + 1",
        "S[i, j] = sum(k, X[i, k] * B[k, j]); m[i] = max(j, S[i, j]); Y[i, j] = S[i, j] - m[i]",
        "S[i, j] = sum(k, X[i, k] * B[k, j]); m[j] = max(i, S[i, j]);"
        "Y[i, j] = sum(k, exp(S[i, k] - m[k]) * D[k, j]) + 1",
        "S[g, i, j] = sum(k, X[i, k] * B[k, j] * D[k, g]); m[i] = max(g, j, S[g, i, j]);"
        "Y[i, f] = sum(g, j, exp(S[g, i, j] - m[i]) * D[j, f]) + 1",
    ],
    ids=["no reduction between", "one product", "other rows", "a second axis of the sums"],
)
def test_other_products_have_their_own_sketches(text: str) -> None:
    shapes = {name: (32, 32) for name in ("X", "B", "D") if f"{name}[" in text}
    sketches = SearchSpace(Task.from_expression(text, shapes)).sketches
    products = {"H", "S"}
    assert not any(products & {*inside(s)} and "m" in inside(s) for s in sketches)
    assert len(sketches) > 1


def test_sizes_suit_the_machine() -> None:
    task = attention((4, 1000, 4000, 64, 64))
    space = SearchSpace(task)
    drawn = set()
    for steps in space.sample(np.random.default_rng(0), 60):
        splits = [s for s in steps if isinstance(s, SplitStep) and s.extent == 1000]
        state = task.dag.state_of(steps)
        (rows,) = next(s.lengths for s in splits if state.stages[s.stage_id].name == "Y")
        drawn.add(rows)
    assert len(drawn) > 1
    assert all(n is not None and n * 16000 <= space.context.second_cache // 2 for n in drawn)
    assert all(n is not None and 1000 % n == 0 for n in drawn)


def test_few_rows_make_blocks_for_all_threads() -> None:
    task = attention((1, 24, 64, 16, 16))
    space = SearchSpace(task)
    threads = space.context.hardware.num_cores
    for steps in space.sample(np.random.default_rng(0), 20):
        (rows,) = next(s.lengths for s in steps if isinstance(s, SplitStep) and s.extent == 24)
        assert rows is not None and 24 // rows >= min(24, threads)


def test_mutations_are_right() -> None:
    task = attention((2, 24, 36, 8, 8), kept="j <= i")
    space = SearchSpace(task)
    structures = Structures()
    rng = np.random.default_rng(0)
    rows = structures.rows(space.sample(rng, 12))
    for _ in range(4):
        rows = mutated(space.context, structures, rows, rng)
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    for steps in structures.candidates(rows)[:6]:
        got = np.empty_like(want)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
