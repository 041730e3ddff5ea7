"""Which axes of a scan are fixed points, and that only what is read of them is computed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.bounds.scan_fix_point import scan_fix_points
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.operation import ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.tir import interp

M, N = 5, 6
Step = Callable[[Tensor, Tensor, Any, Any, Any], Any]


def scan_of(step: Step) -> tuple[Tensor, Tensor]:
    """A state of M steps of N x N whose update is `step(state, X, t, i, j)`."""
    X = te.placeholder((M, N, N), name="X")
    state = te.placeholder((M, N, N), name="state")
    first = te.compute((1, N, N), lambda _, i, j: X[0, i, j], name="first")
    update = te.compute((M, N, N), lambda t, i, j: step(state, X, t, i, j), name="update")
    return X, te.scan(first, update, state, [X], name="scan")


def through_a_stage(state: Tensor, X: Tensor, t: Any, i: Any, j: Any) -> Any:
    half = te.compute((M, N, N), lambda t, a, b: state[t - 1, b, a] * 0.5, name="half")
    return half[t, j, i] + X[t, i, j]


def summed(state: Tensor, X: Tensor, t: Any, i: Any, j: Any) -> Any:
    k = te.reduce_axis((0, N), "k")
    total = te.compute((M, N), lambda t, a: te.sum(state[t - 1, a, k], axis=k), name="total")
    return total[t, i] + X[t, i, j]


STEPS: dict[str, tuple[Step, set[int]]] = {
    "elementwise": (lambda s, X, t, i, j: s[t - 1, i, j] + X[t, i, j], {0, 1}),
    "two steps back": (
        lambda s, X, t, i, j: s[t - 1, i, j] + te.if_then_else(t > 1, s[t - 2, i, j], 0.0),
        {0, 1},
    ),
    "no state": (lambda s, X, t, i, j: X[t, i, j] * 2.0, {0, 1}),
    "shifted": (lambda s, X, t, i, j: s[t - 1, i, (j + 1) % N] + X[t, i, j], {0}),
    "constant": (lambda s, X, t, i, j: s[t - 1, 0, j] + X[t, i, j], {1}),
    "transposed": (lambda s, X, t, i, j: s[t - 1, j, i] + X[t, i, j], set()),
    "by time": (lambda s, X, t, i, j: s[t - 1, t % N, j], {1}),
    "one of two reads": (lambda s, X, t, i, j: s[t - 1, i, j] + s[t - 1, i, N - 1 - j], {0}),
    "through a stage": (through_a_stage, {0, 1}),
    "summed": (summed, {0}),
}


@pytest.mark.parametrize("name", STEPS)
def test_fixed_points(name: str) -> None:
    step, expected = STEPS[name]
    _, scan = scan_of(step)
    assert isinstance(scan.op, ScanOp)
    found = scan_fix_points(scan.op)
    assert {k for k, iv in enumerate(scan.op.spatial_axis) if iv in found} == expected
    assert all(group == {iv} for iv, group in found.items())


def cropped(step: Step) -> tuple[list[Tensor], te.Schedule]:
    X, scan = scan_of(step)
    out = te.compute((M, 2, 3), lambda t, i, j: scan[t, i + 1, j + 2] * 2.0, name="out")
    return [X, out], te.create_schedule(out.op)


@pytest.mark.parametrize("name", STEPS)
def test_only_what_is_read_is_computed(name: str) -> None:
    step, expected = STEPS[name]
    _, s = cropped(step)
    normalized = s.normalize()
    domains = infer_bound(normalized)
    scan = next(stage.op for stage in normalized.stages if isinstance(stage.op, ScanOp))
    parts = {0: (1, 2), 1: (2, 3)}
    for k, iv in enumerate(scan.spatial_axis):
        low, extent = (int(e.value) for e in (domains[iv].min, domains[iv].extent))  # type: ignore[attr-defined]  # constants
        assert (low, extent) == (parts[k] if k in expected else (0, N))


def run(args: list[Tensor], s: te.Schedule) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (M, N, N)).astype(np.float32)
    out = np.zeros([int(e.value) for e in args[-1].shape], np.float32)  # type: ignore[attr-defined]  # constants
    interp.run(schedule_to_prim_func(s, args), [x, out])
    return out


@pytest.mark.parametrize("name", STEPS)
def test_the_values_of_a_part_are_those_of_the_whole(name: str) -> None:
    step, _ = STEPS[name]
    X, scan = scan_of(step)
    whole = run([X, scan], te.create_schedule(scan.op))
    np.testing.assert_array_equal(run(*cropped(step)), whole[:, 1:3, 2:5] * 2)


def test_inputs_that_are_copied_as_first_steps_keep_the_domain() -> None:
    first = te.placeholder((1, N), name="first")
    state = te.placeholder((M, N), name="state")
    update = te.compute((M, N), lambda t, i: state[t - 1, i] * 2.0, name="update")
    scan = te.scan(first, update, state, name="scan")
    out = te.compute((M, 2), lambda t, i: scan[t, i + 1], name="out")
    s = te.create_schedule(out.op)
    x, found = np.arange(N, dtype=np.float32)[None], np.zeros((M, 2), np.float32)
    interp.run(schedule_to_prim_func(s, [first, out]), [x, found])
    np.testing.assert_array_equal(found, x[0, 1:3] * 2.0 ** np.arange(M)[:, None])


def two_states(swap: bool, sizes: tuple[int, int]) -> ScanOp:
    """Two states that read each other, in the same place or in that of the other axis."""
    n, m = sizes
    X = te.placeholder((M, n, n), name="X")
    a, b = (te.placeholder((M, n, k), name=name) for name, k in (("a", n), ("b", m)))
    inits = [te.compute((1, n, k), lambda _, i, j: X[0, i, 0]) for k in (n, m)]
    new_a = te.compute(
        (M, n, n), lambda t, i, j: a[t - 1, i, j] + (b[t - 1, j, i] if swap else b[t - 1, i, j])
    )
    new_b = te.compute((M, n, m), lambda t, i, j: new_a[t, i, j] * b[t - 1, i, j])
    found = te.scan(inits, [new_a, new_b], [a, b], [X])[0].op
    assert isinstance(found, ScanOp)
    return found


def test_states_that_read_each_other_share_their_ranges() -> None:
    op = two_states(False, (4, 4))
    a0, a1, b0, b1 = op.spatial_axis
    both = {a0: {a0, b0}, b0: {a0, b0}, a1: {a1, b1}, b1: {a1, b1}}
    assert scan_fix_points(op) == both


def test_axes_that_cannot_share_a_range_are_no_fixed_points() -> None:
    assert scan_fix_points(two_states(True, (4, 4))) == {}
    op = two_states(False, (4, 3))
    assert set(scan_fix_points(op)) == {op.spatial_axis[0], op.spatial_axis[2]}


@pytest.mark.parametrize("seed", range(15))
def test_random_steps_and_parts(seed: int) -> None:
    """A part of a scan has the values that the whole has there, whatever the steps read."""
    rng = random.Random(seed)
    choices: list[Callable[[Any], Any]] = [lambda v: v, lambda v: (v + 2) % N, lambda v: N - 1 - v]
    f, g, h = (rng.choice([choices[0], *choices]) for _ in range(3))
    turn = rng.random() < 0.3

    def step(s: Tensor, X: Tensor, t: Any, i: Any, j: Any) -> Any:
        mid = te.compute((M, N, N), lambda t, a, b: s[t - 1, f(a), g(b)] + X[t, a, b], name="mid")
        return mid[t, h(j), i] if turn else mid[t, h(i), j]

    X, scan = scan_of(step)
    whole = run([X, scan], te.create_schedule(scan.op))
    np.testing.assert_array_equal(run(*cropped(step)), whole[:, 1:3, 2:5] * 2)


def test_what_is_no_scan_is_refused() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(ScheduleError, match=r"expected the operation of a te\.scan, found Plac"):
        scan_fix_points(A.op)  # type: ignore[arg-type]
