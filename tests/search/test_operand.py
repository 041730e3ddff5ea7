"""Operands of products that are computed once: KeepOperand and FuseInnerRows."""

from __future__ import annotations

import pytest

from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.task import Task
from kit.sketches import assert_right, sketches_of

GELU = (
    "H[i, j] = sum(k, X[i, k] * A[k, j]); R[i, j] = 0.5 * H[i, j] * (1 + erf(0.7 * H[i, j])); "
    "Y[i, j] = sum(k, R[i, k] * B[k, j])"
)
KEPT = {
    GELU: {"X": [21, 19], "A": [19, 33], "B": [33, 17]},
    # of a product's results: the relu of a first layer costs nothing where its tiles are made
    "H[i, j] = sum(k, X[i, k] * A[k, j]); R[i, j] = max(H[i, j], 0); "
    "Y[i, j] = sum(k, R[i, k] * B[k, j])": {"X": [9, 19], "A": [19, 40], "B": [40, 3]},
    "H[i, j] = sum(k, X[i, k] * A[k, j]); R[i, j] = max(H[i, j], 0); "
    "Y[i, j] = sum(k, R[i, k] * B[k, j]) + R[i, j]": {"X": [9, 19], "A": [19, 18], "B": [18, 18]},
    "R[i, k] = X[i, k] / (1 + abs(X[i, k])); Y[i, j] = sum(k, R[i, k] * B[k, j])": {
        "X": [20, 33],
        "B": [33, 18],
    },
    "R[k, j] = B[k, j] * s[j]; Y[i, j] = sum(k, X[i, k] * R[k, j])": {
        "X": [20, 33],
        "B": [33, 18],
        "s": [18],
    },
    "R[h, w, c] = max(X[h, w, c] + b[c], 0); "
    "Y[h, w, o] = sum(r, s, c, R[h + r, w + s, c] * B[r, s, c, o])": {
        "X": [9, 11, 7],
        "b": [7],
        "B": [3, 3, 7, 16],
    },
}
INLINED = {
    # each element is read once: a copy would be read from memory again
    "R[i, j] = X[i, j] * 2; Y[i] = sum(j, R[i, j] * x[j])": {"X": [20, 33], "x": [33]},
    # nothing is computed
    "R[i, k] = X[i, k + 1]; Y[i, j] = sum(k, R[i, k] * B[k, j])": {
        "X": [20, 34],
        "B": [33, 18],
    },
    # another stage reads it once
    "R[i, k] = X[i, k] * 2; Y[i, j] = sum(k, R[i, k] * B[k, j]); Z[i, k] = R[i, k] + 1": {
        "X": [20, 33],
        "B": [33, 18],
    },
}
ROWS = {
    "S[h, i, j] = sum(d, Q[h, i, d] * K[h, j, d]); M[h, i, j] = S[h, i, j] if j <= i else -9999.0; "
    "m[h, i] = max(j, M[h, i, j]); E[h, i, j] = exp(M[h, i, j] - m[h, i]); "
    "s[h, i] = sum(j, E[h, i, j]); R[h, i, j] = E[h, i, j] / s[h, i]; "
    "Y[h, i, d] = sum(j, R[h, i, j] * V[h, j, d])": {
        "Q": [2, 19, 9],
        "K": [2, 19, 9],
        "V": [2, 19, 18],
    },
    "S[i, j] = sum(d, Q[i, d] * K[j, d]); m[i] = max(j, S[i, j]); R[i, j] = exp(S[i, j] - m[i]); "
    "z[i] = sum(j, R[i, j]); O[i, d] = sum(j, R[i, j] * V[j, d]); Y[i, d] = O[i, d] / z[i]": {
        "Q": [19, 9],
        "K": [21, 9],
        "V": [21, 18],
    },
    "v[i] = sum(j, X[i, j] * X[i, j]); R[i, j] = X[i, j] / sqrt(v[i] + 0.1) * g[j]; "
    "Y[i, k] = sum(j, R[i, j] * B[j, k])": {"X": [20, 33], "g": [33], "B": [33, 18]},
}


def is_inlined(state: State, name: str) -> bool:
    (stage,) = [s for s in state.stages if s.op.name == name]
    return stage.is_inlined


@pytest.mark.parametrize("expr", KEPT)
def test_what_costs_is_computed_once(expr: str) -> None:
    task = Task.from_expression(expr, KEPT[expr])
    old, new = sketches_of(task, "ansor"), sketches_of(task, "autosched")
    assert all(is_inlined(state, "R") for state in old)
    assert not any(is_inlined(state, "R") for state in new)
    assert_right(task, new[:: max(1, len(new) // 6)], 1)


def test_it_is_made_of_the_tiles_of_a_product_before_it() -> None:
    """Results of the first product need not be stored before a function is applied to them."""
    task = Task.from_expression(GELU, KEPT[GELU])
    places = {
        stage.compute_at
        for state in sketches_of(task, "autosched")
        for stage in state.stages
        if stage.op.name == "H"
    }
    assert ComputeAt.ITER in places


@pytest.mark.parametrize("expr", INLINED)
def test_what_costs_nothing_is_inlined(expr: str) -> None:
    task = Task.from_expression(expr, INLINED[expr])
    sketches = sketches_of(task, "autosched")
    assert sketches and all(is_inlined(state, "R") for state in sketches)


@pytest.mark.parametrize("expr", ROWS)
def test_rows_before_a_product_are_computed_together(expr: str) -> None:
    """Where its first reader was to be inlined, so were quotients, in every tile."""
    task = Task.from_expression(expr, ROWS[expr])
    sketches = sketches_of(task, "autosched")
    rows = {"M", "m", "E", "s", "v"}
    for state in sketches:
        assert not is_inlined(state, "R")
        places = {s.compute_at for s in state.stages if s.op.name in rows}
        assert places == {ComputeAt.ITER}
    assert_right(task, sketches[:: max(1, len(sketches) // 6)], 1)


@pytest.mark.parametrize("expr", [*KEPT, *ROWS])
def test_a_gpu_keeps_ansors_sketches(expr: str) -> None:
    task = Task.from_expression(expr, (KEPT | ROWS)[expr])
    old, new = sketches_of(task, "ansor", True), sketches_of(task, "autosched", True)
    assert {state.to_str() for state in old} <= {state.to_str() for state in new}
