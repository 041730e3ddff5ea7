"""Axes that the loops around a stage cannot reach keep their own full range, as in Ansor."""

from __future__ import annotations

from typing import Any

import pytest

from autosched import te
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.schedule.schedule import Schedule
from kit.te import compute_of


def regions(s: Schedule, tensor: Any) -> list[str]:
    n = s.normalize()
    bounds = infer_bound(n)
    return [repr(bounds[iv]) for iv in compute_of(n[tensor]).axis]


def batched(n: int = 6, h: int = 8) -> tuple[Schedule, Any, Any]:
    """P[n, h + 2], of which C reads windows of three along h."""
    A = te.placeholder((n, h + 2), name="A")
    P = te.compute((n, h + 2), lambda b, i: A[b, i] * 2.0, name="P")
    r = te.reduce_axis((0, 3), "r")
    C = te.compute((n, h), lambda b, i: te.sum(P[b, i + r], axis=r), name="C")
    return te.create_schedule(C.op), P, C


@pytest.mark.parametrize(
    ("tile", "rows"),
    [
        (6, "[0, 0 + 6)"),
        (3, "[b.outer.i.outer.fused // 2 * 3, b.outer.i.outer.fused // 2 * 3 + 3)"),
        (1, "[b.outer.i.outer.fused // 2, b.outer.i.outer.fused // 2 + 1)"),
    ],
)
def test_a_fused_loop_moves_only_the_tiles_it_counts(tile: int, rows: str) -> None:
    s, P, C = batched()
    b, i = C.op.axis
    bo, bi = s[C].split(b, factor=tile)
    io, ii = s[C].split(i, factor=4)
    s[C].reorder(bo, io, bi, ii)
    s[P].compute_at(s[C], s[C].fuse(bo, io))
    columns = "b.outer.i.outer.fused % 2 * 4"
    assert regions(s, P) == [rows, f"[{columns}, {columns} + 6)"]


def test_a_stage_inside_a_whole_region_forgets_the_fused_loop() -> None:
    """Q is whole along b in the loop it stands in: what P needs of it does not mention the loop."""
    A = te.placeholder((6, 8), name="A")
    P = te.compute((6, 8), lambda b, i: A[b, i] * 2.0, name="P")
    Q = te.compute((6, 8), lambda b, i: P[b, i] + 1.0, name="Q")
    C = te.compute((6, 8), lambda b, i: Q[b, i] * 3.0, name="C")
    s = te.create_schedule(C.op)
    bo, bi = s[C].split(C.op.axis[0], factor=6)
    io, ii = s[C].split(C.op.axis[1], factor=2)
    s[C].reorder(bo, io, bi, ii)
    s[Q].compute_at(s[C], s[C].fuse(bo, io))
    outer, _ = s[Q].split(Q.op.axis[0], factor=3)
    s[P].compute_at(s[Q], outer)
    assert regions(s, Q)[0] == "[0, 0 + 6)"
    assert regions(s, P)[0] == "[b.outer * 3, b.outer * 3 + 3)"


@pytest.mark.parametrize("around", [0, 1])
def test_a_point_and_the_whole_of_one_axis_are_the_whole(around: int) -> None:
    """expsum reads all of exp's row, norm one element of it, both inside norm's loops."""
    A = te.placeholder((3, 8), name="A")
    E = te.compute((3, 8), lambda i, j: te.exp(A[i, j]), name="E")
    k = te.reduce_axis((0, 8), "k")
    S = te.compute((3,), lambda i: te.sum(E[i, k], axis=k), name="S")
    C = te.compute((3, 8), lambda i, j: E[i, j] / S[i], name="C")
    s = te.create_schedule(C.op)
    for stage in (E, S):
        s[stage].compute_at(s[C], C.op.axis[around])
    assert regions(s, E) == ["[i, i + 1)", "[0, 0 + 8)"]
