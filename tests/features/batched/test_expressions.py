"""Rows at once of operators that are written as text are those of one by one, bit for bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from autosched.features.batched.forms import Form, Forms
from autosched.features.batched.sets import batched_features
from autosched.features.sets import ANSOR, AUTOSCHED_1
from autosched.state.steps import Step, steps_from_json
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.one_by_one import SETS, bits, rows_of_both, rows_of_one
from kit.relatives import with_relatives

COUNT = 10


class Case(NamedTuple):
    """An operator, for which kind of target."""

    kind: str
    expr: str
    shapes: dict[str, tuple[int, ...]]
    dtype: Any = "float32"


CASES = {
    "a division that is no multiplication": Case(
        "cpu",
        "T[i, j] = A[i, j] / 3; U[i, j] = min(max(T[i, j] + b[i], 0), 6)",
        {"A": (33, 33), "b": (33,)},
    ),
    "a mean of float16": Case(
        "cuda", "Y[y, c] = mean(r, q, X[y + r, q, c])", {"X": (7, 3, 16), "Y": (5, 16)}, "float16"
    ),
    "a choice by what is loaded": Case(
        "cpu",
        "T[i, j, l] = where(A[i, j, l] > 0, A[i, j, l], 0); U[i, l, j] = T[i, j, l] + b[l]",
        {"A": (7, 6, 11), "b": (11,)},
        "uint8",
    ),
    "a choice of a row": Case(
        "cpu", "T[j, i] = where(b[j] > 0, A[i, j], b[j])", {"A": (24, 16), "b": (16,)}, "int8"
    ),
    "a choice in a sum": Case(
        "cpu",
        "T[i] = sum(j, A[i, j] if A[i, j] > 0 and b[j] > 0 else c[i])",
        {"A": (24, 24), "b": (24,), "c": (24,)},
    ),
    "a choice without loops": Case("cpu", "Y[i] = where(A[i] > 0, A[i], 0)", {"A": (1,)}),
    "a choice for threads": Case(
        "cuda", "T[i, j] = where(b[i] > 0, A[i, j], 0)", {"A": (24, 16), "b": (24,)}, "float16"
    ),
    "short rows in slices": Case("cpu", "C[j] = sum(i, A[i, j])", {"A": (999, 5)}),
    "images in slices, of a square": Case(
        "cpu",
        "m[c] = sum(n, h, w, A[n, h, w, c]);"
        "v[c] = sum(n, h, w, (A[n, h, w, c] - m[c]) * (A[n, h, w, c] - m[c]))",
        {"A": (4, 8, 10, 12)},
    ),
    "gates of one sum": Case(
        "cpu",
        "G[b, g, h] = sum(k, X[b, k] * W[k, g, h]) + p[g, h];"
        "Y[b, h] = sigmoid(G[b, 1, h]) * C[b, h] + sigmoid(G[b, 0, h]) * tanh(G[b, 2, h])",
        {"X": (8, 12), "W": (12, 3, 20), "p": (3, 20), "C": (8, 20)},
    ),
    "a stencil": Case(
        "cpu",
        "Y[i, j] = 0.25 * (X[i, j + 1] + X[i + 1, j] + X[i + 1, j + 2] + X[i + 2, j + 1])",
        {"X": (26, 34)},
    ),
    "one place twice": Case("cpu", "Y[i] = X[i] * X[i] + X[i + 1]", {"X": (49,)}),
    "two places without loops": Case("cpu", "Y[i] = X[i] + X[i + 1]", {"X": (2,)}),
    "places that go down": Case("cpu", "Y[i] = X[47 - i] - X[2*i]", {"X": (95,), "Y": (48,)}),
    "a sum of distances": Case(
        "cpu",
        "F[i, c] = sum(j, (X[j, c] - X[i, c]) * (X[j, 0] - X[i, 0]))",
        {"X": (24, 3)},
    ),
    "products of columns": Case(
        "cpu",
        "m[i] = sum(n, X[n, i]); C[i, j] = sum(n, (X[n, i] - m[i]) * (X[n, j] - m[j]))",
        {"X": (24, 16)},
    ),
    "distances for threads": Case(
        "cuda",
        "F[i, c] = sum(j, (X[j, c] - X[i, c]) * (X[j, 0] - X[i, 0]))",
        {"X": (64, 4)},
    ),
    "a number in four bits": Case(
        "cpu",
        "Y[i, j] = sum(k, X[i, k] * float32((int32(W[j, k // 2]) >> (4 * (k % 2))) & 15))",
        {"X": (8, 32), "W": (24, 16), "Y": (8, 24)},
        {"X": "float32", "W": "uint8"},
    ),
    "three parts beside each other": Case(
        "cpu",
        "Y[i, j] = A[i, j] * 2 if j < 16 else (B[i, j - 16] if j < 40 else C[i, j - 40])",
        {"A": (30, 16), "B": (30, 24), "C": (30, 8), "Y": (30, 48)},
    ),
    "a part of a sum": Case(
        "cpu",
        "Y[i, j] = sum(k, A[i, k] * B[k, j] if abs(i - k) < 8 else 0)",
        {"A": (32, 32), "B": (32, 24)},
    ),
    "two numbers in turn": Case(
        "cpu",
        "Y[i, c] = A[i, 0] - B[i, 1] if c == 0 else A[i, 1] + B[i, 0]",
        {"A": (48, 2), "B": (48, 2), "Y": (48, 2)},
    ),
    "stencils in a row": Case(
        "cpu",
        "T[i, j] = sqrt(X[i, j + 1]) + X[i + 2, j]; U[i, j] = T[i + 1, j] * T[i, j + 3];"
        "Y[i, j] = U[i, j] - U[i + 1, j + 1]",
        {"X": (23, 29), "T": (21, 26), "U": (20, 23), "Y": (19, 22)},
    ),
    "stencils of every second place": Case(
        "cpu",
        "T[i, j] = exp(X[i, j + 1]); Y[i, j] = T[2*i, 2*j] - T[2*i + 1, 2*j + 1]",
        {"X": (20, 27), "T": (20, 26), "Y": (10, 13)},
    ),
    "a stencil for threads": Case(
        "cuda", "Y[i, j] = X[i, j + 1] + X[i + 1, j]", {"X": (26, 101), "Y": (25, 100)}
    ),
    "products of stencils for threads": Case(
        "cuda",
        "T[i, j] = X[i, j + 2] - X[i, j]; Y[i, j] = sum(r < 3, T[i + r, j] * T[i + r, j + 1])",
        {"X": (20, 21), "T": (20, 19), "Y": (18, 18)},
    ),
    "wavelets for threads": Case(
        "cuda",
        "L[i, j] = X[2*i, j] + X[2*i + 1, j]; Y[i, j] = (L[i, 2*j] - L[i, 2*j + 1]) * L[i, 2*j]",
        {"X": (16, 26), "L": (8, 26), "Y": (8, 13)},
    ),
    "a place read from both ends": Case(
        "cuda", "Y[i, j] = X[22 - i, j] + X[i // 2, j]", {"X": (23, 31), "Y": (23, 31)}
    ),
    "edges that are repeated": Case(
        "cpu",
        "Y[i, j] = X[min(i + 1, 19), j] + X[max(i - 1, 0), j] - 2 * X[i, min(j + 1, 20)]",
        {"X": (20, 21), "Y": (20, 21)},
    ),
    "a sum over repeated edges": Case(
        "cpu",
        "Y[h, o] = sum(r < 3, c, X[min(max(h + r - 1, 0), 9), c] * W[r, c, o])",
        {"X": (10, 8), "W": (3, 8, 12), "Y": (10, 12)},
    ),
    "repeated edges of what is computed": Case(
        "cpu",
        "P[i] = max(r < 3, X[min(2*i + r, 20)]); Y[i] = P[i] - mean(r < 2, P[min(i + r, 4)])",
        {"X": (21,), "P": (10,), "Y": (5,)},
    ),
    "repeated edges for threads": Case(
        "cuda",
        "Y[i, j] = X[min(i + 1, 19), j] + X[max(i - 1, 0), j] - 2 * X[i, j]",
        {"X": (20, 21), "Y": (20, 21)},
    ),
    "a product of differences": Case(
        "cuda",
        "T[i, k] = X[i, 0] - X[i, k]; Y[i, j] = sum(k, T[i, k] * W[k, j])",
        {"X": (12, 14), "W": (14, 20)},
    ),
    "windows that are written out": Case(
        "cuda",
        "T[y, x, r, s, c] = X[y + r, x + s, c];"
        "Y[y, x, o] = sum(r, s, c, T[y, x, r, s, c] * W[r, s, c, o])",
        {"X": (8, 9, 3), "T": (6, 7, 3, 3, 3), "W": (3, 3, 3, 8)},
    ),
    "what goes round": Case(
        "cuda",
        "T[i, j] = X[(i + 1) % 30, j] - X[(i + 29) % 30, j]; Y[i, j] = T[i, (j + 1) % 20]",
        {"X": (30, 20), "T": (30, 20), "Y": (30, 20)},
    ),
    "a quotient beside a constant": Case(
        "cpu", "Y[i, j] = A[(i + 48) // 32] * B[j]", {"A": (2,), "B": (9,), "Y": (2, 9)}
    ),
    "a transposed tile times one that is read unevenly": Case(
        "cuda",
        "T[i, j] = A[j, i] * B[(j*4 + i) // 3]; Y[i, j] = sum(k, T[j, j] - A[i, k])",
        {"A": (5, 6), "B": (6,), "T": (4, 4), "Y": (5, 4)},
    ),
    "neighbours of two columns": Case(
        "cpu", "Y[i, j] = A[i + j] * B[i]", {"A": (13,), "B": (8,), "Y": (8, 2)}
    ),
    "vectors beside a limit": Case(
        "cuda",
        "Y[i, j] = A[i, j] if i < 4 else B[i, j]",
        {"A": (32, 4), "B": (32, 4), "Y": (32, 4)},
    ),
    "what a part for each thread reads": Case(
        "cuda",
        "T[i] = max(r < 2, A[r, 3]); Y[i, j] = T[(j*5 + i) // 2]",
        {"A": (2, 5), "T": (21,), "Y": (5, 5)},
    ),
    "threads beyond the part that is read": Case(
        "cuda",
        "T[i, j] = sum(r < 2, s < 2, A[j] * A[r + s]);"
        "Y[i, j] = sum(r < 4, T[j*2 + i, i] + T[i, j + 1])",
        {"A": (5,), "T": (4, 5), "Y": (2, 2)},
    ),
}
ONE_BY_ONE = {
    "halves that change places": Case(
        "cpu",
        "Y[i, h, d] = X[i, h, d] * c[i, d] + (-X[i, h, d + 32] if d < 32 else X[i, h, d - 32])",
        {"X": (128, 4, 64), "c": (128, 64), "Y": (128, 4, 64)},
    ),
    "a choice beside other reads": Case(
        "cuda",
        "Y[i, j] = (X[max(i - 1, 0), j] if i > 0 else 0) + X[i, j]",
        {"X": (26, 101), "Y": (26, 101)},
    ),
    "a choice between limits": Case(
        "cpu", "Y[i, j] = X[max(i - 1, 0), j] if i > 0 else 0", {"X": (26, 34), "Y": (26, 34)}
    ),
    "limits of limits": Case(
        "cuda",
        "T[i] = X[min(i + 1, 99)] - X[max(i - 1, 0)]; Y[i] = T[min(i + 1, 99)] * T[i]",
        {"X": (100,), "T": (100,), "Y": (100,)},
    ),
    "halves that change places in a product": Case(
        "cuda",
        "Q[i, d] = q[i, d] * c[i, d] - (q[i, d + 4] if d < 4 else q[i, (d + 4) % 8]);"
        "S[i, j] = sum(d, Q[i, d] * k[j, d])",
        {"q": (10, 8), "c": (10, 8), "k": (11, 8), "Q": (10, 8)},
    ),
    "a choice by a remainder": Case(
        "cpu",
        "Y[n, c] = X[n, c] * g[c // 4] + (b[c] if c % 2 == 0 else 0)",
        {"X": (40, 64), "g": (16,), "b": (64,), "Y": (40, 64)},
    ),
    "a read that cancels out": Case(  # but T is computed for it
        "cpu",
        "T[i] = sum(k, A[i, k]); Y[i] = T[i + 1] - T[i + 1] + T[i]",
        {"A": (25, 8), "Y": (24,)},
        "int32",
    ),
    "both sides of a diagonal": Case(
        "cuda",
        "T[i, j] = max(A[i, j], A[j, i]); Y[i, k] = sum(j, T[i, j] * B[j, k])",
        {"A": (1, 1), "B": (1, 40)},
        "int8",
    ),
    "a sum of nothing": Case(
        "cpu",
        "C[i, j] = sum(k, 0 * A[i, k]) + b[j]",
        {"A": (5, 13), "b": (4,), "C": (5, 4)},
        "int8",
    ),
    "a border at a quotient that is no digit": Case(
        "cpu",
        "T[i, j] = sum(k < 6, A[j + k] * B[k, i % 4] if i // 4 < 1 else 0)",
        {"A": (7,), "B": (6, 4), "T": (20, 2)},
    ),
    "an index and its quotient": Case(
        "cuda",
        "T[i, j] = sum(k < 2, A[k + 2, k] + B[j // 3 + j + 2]); Y[j, i] = T[i, j] * 2",
        {"A": (4, 2), "B": (9,), "T": (6, 6), "Y": (6, 6)},
    ),
    "one place of two": Case(
        "cuda",
        "T[a, b, i] = sum(k, C[i, k, k] * B[i, a] + C[k, i, b]);"
        "Y[i, j] = sum(k, T[i % 2, 1, i] + A[k, j])",
        {"A": (13, 13), "B": (13, 2), "C": (13, 13, 13), "T": (2, 2, 13), "Y": (13, 13)},
    ),
    "quotients beyond the part that is read": Case(
        "cuda",
        "T[i, j] = sum(r, max(A[i, r], A[j // 4, r])); Y[i, j] = T[j, j]",
        {"A": (3, 3), "T": (3, 12), "Y": (12, 3)},
    ),
}
"""Those of which some or all candidates have no rule."""


@pytest.fixture(autouse=True)
def _all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in ("batch", "device.batch"):
        name = f"autosched.features.batched.autosched_1.{where}.WORTH_AT_ONCE"
        monkeypatch.setattr(name, 1)


def _task(case: Case) -> Task:
    target = cuda_target() if case.kind == "cuda" else cpu_target(threads=2)
    return Task.from_expression(case.expr, case.shapes, dtype=case.dtype, target=target)


@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_one_by_one(name: str) -> None:
    task = _task(CASES[name])
    found = with_relatives(task, 5, COUNT, 3)
    one = [rows_of_both(task, steps) for steps in found]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        rows = batched.rows_of(found)
        assert batched.share.one_by_one <= len(found) / 2, (features, batched.share.reasons)
        assert [bits(r) for r in rows] == [bits(own[features]) for own in one], features


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_what_has_no_rule_is_worked_out_one_by_one(name: str) -> None:
    task = _task(ONE_BY_ONE[name])
    found = with_relatives(task, 5, COUNT, 3)
    one = [rows_of_both(task, steps) for steps in found]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        rows = batched.rows_of(found)
        assert features == ANSOR or batched.share.one_by_one > 0
        assert [bits(r) for r in rows] == [bits(own[features]) for own in one], features


PADDED = (
    "P[n, c, x] = X[n, c, x - 3] if 3 <= x and x < 5 else 0;"
    "Y[n, o, x] = sum(c, r, P[n, c, 4*x + r] * W[o, c, r])"
)
"""A sum of one element a thread, whose padding is read without a copy."""
_SHARED: list[Any] = [
    *(["FU", 3, [3, 4]], ["SP", 3, 3, 32, [1], 1], ["AN", 3, 4, 6], ["CI", 1]),
    *(["FU", 3, [0, 1, 2]], ["AN", 3, 0, 5], ["PR", 3, 0, "auto_unroll_max_step$512"]),
]
_STAGED: list[Any] = [
    *(["SP", 3, 0, 2, [1, 2, 1, 1], 1], ["SP", 3, 5, 24, [1, 12, 2, 1], 1]),
    *(["SP", 3, 10, 2, [1, 2, 1, 1], 1], ["SP", 3, 15, 12, [12, 1], 1]),
    ["SP", 3, 18, 1, [1, 1], 1],
    ["RE", 3, [0, 5, 10, 1, 6, 11, 2, 7, 12, 15, 18, 16, 19, 3, 8, 13, 17, 20, 4, 9, 14]],
    *(["FSP", 4, 0, 0, 3], ["FSP", 4, 4, 1, 3], ["FSP", 4, 8, 2, 3]),
    ["RE", 4, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]],
    *(["CA", 3, 4, 8], ["CHR", 2, "shared", [3]], ["CA", 3, 4, 10]),
    *(["CHR", 1, "shared", [4]], ["CA", 2, 5, 10], ["CI", 1]),
    *(["FU", 6, [0, 1, 2]], ["AN", 6, 0, 5], ["FU", 6, [1, 2, 3]], ["AN", 6, 1, 4]),
    *(["FU", 6, [2, 3, 4]], ["AN", 6, 2, 6], ["FU", 4, [0, 1, 2]]),
    *(["SP", 4, 0, 288, [1], 1], ["AN", 4, 1, 2], ["FFSP", 4, 0, [2, 1, 0], 1, 1]),
    *(["AN", 4, 1, 6], ["FU", 2, [0, 1, 2]], ["SP", 2, 0, 120, [1], 1], ["AN", 2, 1, 2]),
    *(["FFSP", 2, 0, [2, 1, 0], 1, 1], ["AN", 2, 1, 6]),
]
_STICKING_OUT: list[Any] = [
    *(["CHW", 2, "local"], ["SP", 2, 0, 20, [2, 5, 1, 1], 1], ["SP", 2, 5, 21, [1, 21, 1, 1], 1]),
    *(["SP", 2, 10, 3, [3, 1], 1], ["SP", 2, 13, 3, [1, 1], 1]),
    ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 13, 11, 14, 3, 8, 12, 15, 4, 9]],
    *(["FSP", 3, 0, 1, 3], ["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]]),
    *(["CA", 2, 3, 5], ["CHR", 1, "shared", [2]], ["CA", 2, 3, 7], ["CHR", 0, "shared", [3]]),
    *(["CA", 1, 4, 7], ["FU", 5, [0, 1]], ["AN", 5, 0, 5], ["FU", 5, [1, 2]], ["AN", 5, 1, 4]),
    *(["FU", 5, [2, 3]], ["AN", 5, 2, 6], ["FU", 3, [0, 1]], ["SP", 3, 0, 3, [3], 1]),
    *(["AN", 3, 1, 2], ["FFSP", 3, 0, [2, 1], 1, 1], ["AN", 3, 1, 6], ["FU", 1, [0, 1]]),
    *(["SP", 1, 0, 252, [4], 1], ["AN", 1, 1, 2], ["FFSP", 1, 0, [2, 1], 1, 1], ["AN", 1, 1, 6]),
]
"""A fetch in vectors of a region that begins and ends outside of the tensor."""


_IMAGES = Case("cpu", "C[c] = sum(n, h, w, A[n, h, w, c])", {"A": (8, 8, 10, 12)})


def _in_slices(axis: int, terms: int, rows: int, slices: int) -> list[Any]:
    """Partial results [slice, row, column], of which rows and columns are one loop."""
    return [
        *(["SP", 1, axis, terms, [rows], 1], ["RF", 1, axis + 1, 0]),
        *(["SP", 1, axis + 1, terms, [slices], 0], ["RF", 1, axis + 1, 0]),
        *(["RE", 1, [0, 3, 1, 2]], ["FU", 1, [2, 3]], ["AN", 1, 0, 3]),
    ]


_THREE_SUMS = Case("cpu", "C[c] = sum(n, h, w, A[n, h, w + 1, c])", {"A": (4, 6, 7, 5), "C": (5,)})
_FACTORED: list[Any] = [["SP", 1, 1, 4, [2], 0], ["RF", 1, 1, 0]]
"""What is left of the axis is the last reduction of its part."""


@pytest.mark.parametrize(
    ("features", "case", "written"),
    [
        (
            ANSOR,
            Case("cuda", PADDED, {"X": (1, 32, 2), "W": (6, 32, 1), "P": (1, 32, 8)}),
            _SHARED,
        ),
        (
            AUTOSCHED_1,
            Case(
                "cuda",
                "P[n, c, x] = X[n, c, x - 2] if 2 <= x and x < 5 else 0;"
                "Y[n, o, x] = sum(c, r, int32(P[n, c, 4*x + 2*r]) * int32(W[o, c, r]));"
                "Z[n, o, x] = max(Y[n, o, x], 0)",
                {"X": (2, 12, 3), "W": (24, 12, 1), "P": (2, 12, 7), "Y": (2, 24, 2)},
                {"X": "int8", "W": "int8", "Y": "int32", "P": "int8"},
            ),
            _STAGED,
        ),
        (
            AUTOSCHED_1,
            Case(
                "cuda",
                "Y[i, j] = sum(r < 3, s < 3, (A[i + r - 1, j + s - 1] if i + r > 0 and i + r < 21"
                " and j + s > 0 and j + s < 22 else 0) * W[r, s])",
                {"A": (20, 21), "W": (3, 3), "Y": (20, 21)},
            ),
            _STICKING_OUT,
        ),
        (
            ANSOR,
            Case("cpu", "Y[i] = A[(8 * i + 3) % 64]", {"A": (64,), "Y": (64,)}),
            [["SP", 1, 0, 64, [2], 1], ["AN", 1, 0, 3], ["AN", 1, 1, 2]],
        ),
        (
            ANSOR,
            Case("cpu", "S[i] = sum(k, A[i, k] if k <= i else 0)", {"A": (12, 12), "S": (12,)}),
            [
                *(["SP", 1, 1, 12, [1], 1], ["RF", 1, 1, 1], ["FU", 1, [0, 1]], ["AN", 1, 0, 3]),
                ["AN", 2, 0, 3],
            ],
        ),
        (
            ANSOR,
            Case("cuda", "Y[i, j] = A[i // 3, j % 3] + 1", {"A": (31, 3), "Y": (93, 72)}),
            [["FU", 1, [0, 1]], ["SP", 1, 0, 6696, [4], 1], ["AN", 1, 0, 5], ["AN", 1, 1, 6]],
        ),
        (ANSOR, _THREE_SUMS, [*_FACTORED, ["AN", 1, 0, 3]]),
        (
            ANSOR,
            Case("cuda", "Y[i] = min(r < 21, A[(r*5 + i) // 105])", {"A": (1,), "Y": (5,)}),
            [["SP", 1, 1, 21, [16], 1], ["AN", 1, 0, 5], ["AN", 1, 2, 6]],
        ),
    ],
    ids=[
        *("shared by threads", "border of integers", "sticking out", "offset in a remainder"),
        *("triangle in parts", "remainder of a part of a fused loop", "one of three sums in parts"),
        "quotient of a sum over threads",
    ],
)
def test_rows_of_rare_candidates(features: str, case: Case, written: list[Any]) -> None:
    task = _task(case)
    steps = steps_from_json(written)
    batched = batched_features(task.dag, task.target, features)
    (rows,) = batched.rows_of([steps])
    assert batched.share.one_by_one == 0, batched.share.reasons
    assert rows is not None and bits(rows) == bits(rows_of_one(task, steps, features))


@pytest.mark.parametrize(
    ("case", "written"),
    [
        (
            Case("cpu", "Y[i] = sum(k, T[i - k + 19] * X[k])", {"T": (39,), "X": (20,)}),
            [
                *(["SP", 2, 1, 20, [1], 1], ["RF", 2, 1, 1], ["FU", 2, [0, 1]]),
                *(["AN", 2, 0, 3], ["AN", 3, 0, 3]),
            ],
        ),
        (_THREE_SUMS, [["FU", 1, [2, 3]], *_FACTORED]),
        (Case("cpu", "C[j] = sum(i, A[i, j])", {"A": (640, 5)}), _in_slices(1, 640, 48, 8)),
        (_IMAGES, [["FU", 1, [1, 2, 3]], *_in_slices(1, 640, 48, 7)]),
        (_IMAGES, [["FU", 1, [1, 2, 3]], *_in_slices(1, 640, 20, 16)]),
        (
            Case(
                "cpu",
                "T[i] = max(k < 8, m, A[i, k - 1, m] if k >= 1 else 0)",
                {"A": (6, 8, 4), "T": (6,)},
            ),
            [["FU", 1, [1, 2]], ["SP", 1, 1, 32, [2], 1], ["RF", 1, 1, 1]],
        ),
        (
            Case(
                "cpu",
                "T[i] = sum(k, m, A[i, 4 - k, m] if k < 1 else B[k, m, i])",
                {"A": (6, 5, 3), "B": (5, 3, 6)},
            ),
            [
                *(["FU", 2, [1, 2]], ["SP", 2, 1, 15, [1], 1], ["RF", 2, 1, 1]),
                *(["FU", 2, [0, 1]], ["AN", 2, 0, 3], ["AN", 3, 0, 3]),
            ],
        ),
    ],
    ids=[
        "a digit less another one of the same loop",
        *("a sum in parts beside others that are fused", "slices of a sum without terms"),
        *("rows that do not divide images", "slices that end inside of an image"),
        *("a condition on a quotient of two loops", "a condition on a digit of a digit of a loop"),
    ],
)
def test_rare_candidates_that_go_one_by_one(case: Case, written: list[Any]) -> None:
    task = _task(case)
    steps = steps_from_json(written)
    batched = batched_features(task.dag, task.target, ANSOR)
    assert [bits(r) for r in batched.rows_of([steps])] == [bits(rows_of_one(task, steps, ANSOR))]
    assert batched.share.one_by_one == 1


def test_quotients_of_joined_parts_are_not_guessed() -> None:
    """f // 3 * 6 + f % 3 * 2 is f * 2, but divided by 3 it is told as two digits."""
    shapes: dict[str, tuple[int, ...]] = {"A": (4, 31), "B": (31, 1), "Y": (12, 1)}
    task = _task(Case("cpu", "Y[i, j] = sum(k, A[i // 3, k] * B[k, j])", shapes))
    written: list[Any] = [
        *(["SP", 2, 0, 12, [3, 1, 2], 1], ["SP", 2, 4, 1, [1, 1, 1], 1], ["SP", 2, 8, 31, [31], 1]),
        *(["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], ["FU", 2, [0, 1, 2, 3]], ["AN", 2, 0, 3]),
    ]
    steps = steps_from_json(written)
    batched = batched_features(task.dag, task.target, ANSOR)
    assert [bits(r) for r in batched.rows_of([steps])] == [bits(rows_of_one(task, steps, ANSOR))]


def test_an_axis_that_conditions_make_zero_divides_late() -> None:
    """b // 5 + (o * 90 + t) // 150, divided by 3, stays a quotient of a quotient under a condition
    that keeps the second part at 0."""
    parts = "S[b, i, k] = Q[b // 3, i, b % 3, k]; T[b, k, j] = K[b // 3, j, b % 3, k];"
    shapes = {"Q": (2, 30, 3, 10), "K": (2, 30, 3, 10), "S": (6, 30, 10), "T": (6, 10, 30)}
    task = _task(Case("cuda", f"{parts} C[b, i, j] = sum(k, S[b, i, k] * T[b, k, j])", shapes))
    written: list[Any] = [
        *(["CHW", 4, "local"], ["SP", 4, 0, 6, [1, 1, 1, 1], 1], ["SP", 4, 5, 30, [1, 6, 1, 1], 1]),
        *(["SP", 4, 10, 30, [1, 15, 2, 1], 1], ["SP", 4, 15, 10, [5, 2], 1]),
        ["RE", 4, [0, 5, 10, 1, 6, 11, 2, 7, 12, 15, 16, 3, 8, 13, 17, 4, 9, 14]],
        *(["FSP", 5, 0, 1, 3], ["FSP", 5, 4, 2, 3], ["FSP", 5, 8, 3, 3]),
        ["RE", 5, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]],
        *(["CA", 4, 5, 8], ["CHR", 3, "shared", [4]], ["CA", 4, 5, 9], ["CI", 3]),
        *(["CHR", 1, "shared", [5]], ["CA", 2, 6, 9], ["CI", 1]),
        *(["FU", 7, [0, 1, 2]], ["AN", 7, 0, 5], ["FU", 7, [1, 2, 3]], ["AN", 7, 1, 4]),
        *(["FU", 7, [2, 3, 4]], ["AN", 7, 2, 6], ["FU", 5, [0, 1, 2]]),
        *(["SP", 5, 0, 300, [2], 1], ["AN", 5, 1, 2], ["FFSP", 5, 0, [3, 2, 1], 1, 1]),
        *(["AN", 5, 1, 6], ["FU", 2, [0, 1, 2]], ["SP", 2, 0, 60, [2], 1], ["AN", 2, 1, 2]),
        *(["FFSP", 2, 0, [3, 2, 1], 1, 1], ["AN", 2, 1, 6]),
    ]
    steps = steps_from_json(written)
    batched = batched_features(task.dag, task.target, ANSOR)
    assert [bits(r) for r in batched.rows_of([steps])] == [bits(rows_of_one(task, steps, ANSOR))]
    assert batched.share.one_by_one == 1


def test_many_reads_of_one_tensor_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices with other constants differ: of 40 reads, not each is compared with all before."""
    text = "Y[i] = " + " + ".join(f"A[i + {k}] * {k}" for k in range(40))
    task = _task(Case("cpu", text, {"A": (100,), "Y": (60,)}))
    compared = []
    same = Forms.same

    def counted(self: Forms, a: Form, b: Form) -> Any:
        compared.append((a, b))
        return same(self, a, b)

    monkeypatch.setattr(Forms, "same", counted)
    steps: list[tuple[Step, ...]] = [()] * 4
    batched = batched_features(task.dag, task.target, AUTOSCHED_1)
    want = bits(rows_of_one(task, (), AUTOSCHED_1))
    assert [bits(rows) for rows in batched.rows_of(steps)] == [want] * 4
    assert batched.share.one_by_one == 0 and len(compared) < 40


@pytest.mark.parametrize("features", [ANSOR, AUTOSCHED_1])
def test_partial_results_beyond_every_index_are_illegal(features: str) -> None:
    case = Case("cpu", "Y[i] = sum(r < 3, A[i + r])", {"A": (1000000002,)})
    task = _task(case)
    steps = steps_from_json([["SP", 1, 1, 3, [1], 1], ["RF", 1, 1, 1]])
    assert rows_of_one(task, steps, features) is None
    batched = batched_features(task.dag, task.target, features)
    assert batched.rows_of([steps] * 2) == [None, None]
