"""FuseTiles: a convolution by Winograd's algorithm, one row of tiles after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.search.evolution import mutated
from autosched.search.options import SearchOptions
from autosched.search.population import Structures
from autosched.search.rules.fused_tiles import tile_splits
from autosched.search.space import SearchSpace
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import SplitStep
from autosched.target import cuda_target
from autosched.task import Task
from kit.sketches import assert_right

SIZES: dict[str, Any] = {"N": 1, "H": 8, "W": 8, "CI": 16, "CO": 32}


def task_of(**sizes: Any) -> Task:
    return Task.from_workload("conv2d_winograd_nhwc", **{**SIZES, **sizes})


def space_of(**sizes: int) -> SearchSpace:
    return SearchSpace(task_of(**sizes))


def fused(space: SearchSpace) -> list[State]:
    """The sketches that go tile by tile."""
    return [sketch for sketch in space.sketches if tile_splits(sketch.steps)]


def test_all_stages_are_computed_for_some_rows_of_tiles() -> None:
    (sketch,) = fused(space_of(H=10, tile=2))
    last = sketch.stages[-1]
    assert [(it.name, it.extent) for it in last.iters][-3:-1] == [("h.1", 2), ("w.1", 2)]
    row = next(k for k, it in enumerate(last.iters) if it.name == "h.0.0")
    inside = [s.name for s in sketch.stages if s.compute_at is ComputeAt.ITER]
    assert inside == ["pad", "R", "V", "M", "S", "T"]
    assert [
        sketch.stages[k].name for k in sketch.attach_map.attached_at(len(sketch.stages) - 1, row)
    ]
    assert [s.name for s in sketch.stages if s.is_inlined] == ["B", "C", "A", "D"]


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"H": 7, "W": 9, "tile": 2},
        {"H": 14, "W": 5, "CI": 3, "CO": 5},
        {"N": 3, "padding": 0, "bias": 1, "relu": 1},
        {"H": 3, "W": 4, "tile": 6},
        {"H": 1, "W": 1, "CI": 1, "CO": 1},
    ],
    ids=str,
)
def test_computes_the_same(sizes: dict[str, int]) -> None:
    found = fused(space_of(**sizes))
    assert found
    assert_right(task_of(**sizes), found, 4)


def test_what_follows_element_by_element_is_no_matter(tmp_path: Path) -> None:
    """A user's own function around the built-in one: Z = tanh(Y) * X2."""
    (tmp_path / "own.py").write_text(OWN)
    task = Task.from_python(f"{tmp_path / 'own.py'}:scaled")
    found = fused(SearchSpace(task))
    assert found
    assert_right(task, found, 3)


OWN = """
from autosched import te, workloads

def scaled():
    X, U, Y = workloads.get("conv2d_winograd_nhwc").tensors(N=1, H=6, W=7, CI=8, CO=16)
    W = te.placeholder((1, 6, 7, 16), name="W")
    Z = te.compute((1, 6, 7, 16), lambda *i: te.tanh(Y[i]) * W[i], name="Z")
    return X, U, W, Z
"""


FIRST = """
P[n, y, x, c] = X[n, c, y - 1, x - 1] if 1 <= y and y < {h1} and 1 <= x and x < {w1} else 0
B[e, r] = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]
D[e, n, p, x, q, c] = sum(r, P[n, 2*p + r, 2*q + x, c] * B[e, r])
V[e, f, n, p, q, c] = sum(s, D[e, n, p, s, q, c] * B[f, s])
M[e, f, n, p, q, o] = sum(c, V[e, f, n, p, q, c] * U[e, f, c, o])
A[i, r] = [[1, 1, 1, 0], [0, 1, -1, -1]]
S[i, f, n, p, q, o] = sum(r, M[r, f, n, p, q, o] * A[i, r])
T[i, j, n, p, q, o] = sum(s, S[i, s, n, p, q, o] * A[j, s])
Y[n, o, h, w] = T[h % 2, w % 2, n, h // 2, w // 2, o]
"""


def channels_first(h: int, w: int, after: str = "", n: int = 1, outputs: int = 16) -> Task:
    rows, columns, shape = -(-h // 2), -(-w // 2), (n, outputs, h, w)
    shapes = {
        "X": (n, 8, h, w),
        "U": (4, 4, 8, outputs),
        "P": (n, 2 * rows + 2, 2 * columns + 2, 8),
        "D": (4, n, rows, 4, columns, 8),
        "Y": shape,
        **{name: shape for name in ("Z", "R") if f"{name}[" in after},
    }
    return Task.from_expression(FIRST.format(h1=h + 1, w1=w + 1) + after, shapes)


@pytest.mark.parametrize(
    "after", ["", "Z[n, o, h, w] = relu(Y[n, o, h, w] + R[n, o, h, w])"], ids=["alone", "followed"]
)
def test_channels_may_come_first(after: str) -> None:
    """Rows of tiles are the outer loop still; the result is stored along its columns."""
    task = channels_first(7, 9, after, n=2, outputs=24)
    (sketch,) = fused(SearchSpace(task))
    names = [it.name for it in sketch.stages[-1].iters]
    rows, channels = ["n", "h.0.0", "h.0.1"], ["o.0", "o.1"]
    assert names == [*rows, *channels, "h.1", "w.0", "w.1"]
    inside = [s.name for s in sketch.stages if s.compute_at is ComputeAt.ITER]
    assert inside == ["P", "D", "V", "M", "S", "T"]
    inlined = {s.name for s in sketch.stages if s.is_inlined}
    assert inlined == {"A", "B", "Y"} if after else {"A", "B"}
    assert_right(task, [sketch], 4)


ODD = {
    # another output reads what would be computed for some rows of tiles only
    "V is read elsewhere": "Z = te.compute(V.shape, lambda *i: V[i] * 2.0, name='Z')",
    # as many axes as a product of matrices has
    "no tiles": "P = te.compute((6, 7), lambda h, w: Y[0, h, w, 0], name='P'); Y = P; Z = None",
}


@pytest.mark.parametrize("case", ODD)
def test_odd_computations_have_other_sketches(case: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "from autosched import te, workloads\n"
        "def odd():\n"
        "    X, U, Y = workloads.get('conv2d_winograd_nhwc').tensors(N=1, H=6, W=7, CI=8, CO=16)\n"
        "    M = Y.op.inputs[0].op.inputs[0].op.inputs[0]\n"
        "    V = M.op.inputs[0]\n"
        f"    {ODD[case]}\n"
        "    return [X, U, Y, Z] if Z is not None else [X, U, Y]\n"
    )
    space = SearchSpace(Task.from_python(f"{tmp_path / 'odd.py'}:odd"))
    assert space.sketches and not fused(space)
    assert space.sample(np.random.default_rng(0), 2)


def test_tiles_keep_their_size() -> None:
    space = space_of(H=16, W=16)
    rng = np.random.default_rng(0)
    steps = space.sample(rng, 1, sketch=fused(space)[0])[0]
    kept = [steps[k] for k in sorted(tile_splits(steps))]
    assert [s.lengths for s in kept if isinstance(s, SplitStep)] == [(4,), (4,)]
    structures = Structures()
    rows = structures.rows([steps] * 64)
    for _ in range(4):
        rows = mutated(space.context, structures, rows, rng)
    for found in structures.candidates(rows):
        assert [found[k] for k in sorted(tile_splits(found))] == kept


def test_others_have_no_such_sketch() -> None:
    """Ansor's space, GPUs, a plain convolution, and an output that is no tile."""
    assert not fused(SearchSpace(task_of(), SearchOptions(space="ansor")))
    assert not fused(SearchSpace(task_of(target=cuda_target())))
    text = "P[i, j] = sum(k, M[i, k] * M[k, j]); Y[h, w, c] = X[h, w, c] + P[h // 2, w // 2]"
    plain = SearchSpace(Task.from_expression(text, {"X": [8, 8, 4], "M": [4, 4]}))
    assert not any(tile_splits(sketch.steps) for sketch in plain.sketches)
