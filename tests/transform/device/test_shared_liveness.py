"""How long shared memory is in use: places counted by hand."""

from __future__ import annotations

import textwrap

import pytest

from autosched.tir.parser import parse_func
from autosched.tir.stmt import Allocate
from autosched.tir.walk import stmts
from autosched.transform.device.shared_liveness import Interval, live_intervals

HEAD = """\
def main(G: Buffer((64,), float32), I: Buffer((64,), int32)):
    launch(threadIdx.x, 8)
    A = allocate((64,), float32, "shared.dyn")
    B = allocate((64,), float32, "shared.dyn")
    L = allocate((4,), int32, "local")
"""


def places(body: str) -> dict[str, tuple[int, int]]:
    func = parse_func(HEAD + textwrap.indent(body, "    "))
    own = [s.buffer_var for s in stmts(func.body) if isinstance(s, Allocate)]
    shared = [data for data in own if data.scope == "shared.dyn"]
    found = live_intervals(func.body, shared)
    return {data.name: (live.first, live.last) for data, live in found.items()}


def test_straight_code() -> None:
    body = "A[threadIdx.x] = 0.0\nG[0] = A[0]\nB[0] = A[1]\nG[1] = B[0]"
    assert places(body) == {"A": (0, 2), "B": (2, 3)}


def test_what_is_not_used_has_no_interval() -> None:
    assert places("A[0] = 1.0") == {"A": (0, 0)}


def test_the_gemm_of_the_seed() -> None:
    """k: store A, B; t: read. Then C. The loop over t carries both, that over k neither."""
    body = """\
C = allocate((64,), float32, "shared.dyn")
for k in range(4):
    A[threadIdx.x] = G[k]
    B[threadIdx.x] = G[k + 1]
    for t in range(8):
        G[9] = G[9] + A[t] * B[t]
C[threadIdx.x] = G[9]
G[10] = C[threadIdx.x]
"""
    assert places(body) == {"A": (1, 5), "B": (2, 5), "C": (7, 8)}


@pytest.mark.parametrize(
    ("what", "body", "carried"),
    [
        ("written anew", "for i in range(4):\n    A[0] = 1.0\n    G[0] = A[0]\n", False),
        ("read after", "for i in range(4):\n    A[0] = 1.0\nG[0] = A[0]\n", True),
        ("read before", "A[0] = 1.0\nfor i in range(4):\n    G[0] = A[0]\n", True),
        ("another place", "for i in range(4):\n    A[i] = 1.0\n    G[0] = A[0]\n", True),
        (
            "a place by a let",
            "for i in range(4):\n    j: int32 = i * 2\n    A[j] = 1.0\n    G[0] = A[0]\n",
            True,
        ),
        (
            "a let of what stays",
            "for i in range(4):\n    j: int32 = threadIdx.x * 2\n    A[j] = 1.0\n    G[0] = A[0]\n",
            False,
        ),
        (
            "a condition",
            "for i in range(4):\n    if i < 1:\n        A[0] = 1.0\n    G[0] = A[0]\n",
            True,
        ),
        (
            "a condition that stays",
            "for i in range(4):\n    if threadIdx.x < 1:\n        A[0] = 1.0\n    G[0] = A[0]\n",
            False,
        ),
        (
            "a bound",
            "for i in range(4):\n    for j in range(i + 1):\n        A[0] = 1.0\n    G[0] = A[0]\n",
            True,
        ),
        (
            "a branch in a value",
            "for i in range(4):\n    A[0] = 1.0\n    G[0] = if_then_else(i < 2, A[0], 0.0)\n",
            True,
        ),
        (
            "memory written inside",
            "for i in range(4):\n    L[0] = i\n    A[L[0]] = 1.0\n    G[0] = A[0]\n",
            True,
        ),
        (
            "memory from outside",
            "for i in range(4):\n    A[I[0]] = 1.0\n    G[0] = A[0]\n",
            False,
        ),
        (
            "a while loop",
            "L[0] = 0\nwhile L[0] < 4:\n    L[0] = L[0] + 1\n    A[L[0]] = 1.0\n    G[0] = A[0]\n",
            True,
        ),
        (
            "a while loop that writes anew",
            "L[0] = 0\nwhile L[0] < 4:\n    L[0] = L[0] + 1\n    A[0] = 1.0\n    G[0] = A[0]\n",
            False,
        ),
        (
            "allocated inside",
            'for i in range(4):\n    D = allocate((8,), float32, "shared.dyn")\n'
            "    D[i] = 1.0\n    G[0] = D[0]\n",
            False,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_loops_carry_what_is_not_surely_written_anew(what: str, body: str, carried: bool) -> None:
    found = places(body + "B[0] = 1.0\n")
    (name,) = set(found) - {"B"}
    last = found[name][1]
    loop_ends = found["B"][0] - (2 if what == "read after" else 1)
    assert (last >= loop_ends) == carried, what


@pytest.mark.parametrize(
    ("condition", "shared"),
    [
        ("I[0] < 4", True),
        ("threadIdx.x < 4", True),
        ("t < 4", True),
        ("ptx_lane_id(dtype=int32) < 4", True),
        ("u < 2", False),
        ("tvm_thread_invariant(I[0] < 4, dtype=bool)", False),
    ],
)
def test_both_cases_that_threads_are_in_at_once(condition: str, shared: bool) -> None:
    """Their memory is in use for all of the condition, where threads may take different ones."""
    body = f"""\
t: int32 = threadIdx.x * 2
u: int32 = 3
if {condition}:
    A[0] = 1.0
    G[0] = A[0]
else:
    B[0] = 1.0
    G[1] = B[0]
"""
    (first, last), (begin, end) = places(body).values()
    assert (begin <= last) == shared
    assert (last - first, end - begin) == ((5, 5) if shared else (1, 1))


def test_pointers_count() -> None:
    body = """\
A[0] = 1.0
B[0] = 1.0
call_extern("f", address_of(A[0]), dtype=int32)
call_extern("f", tvm_access_ptr(float32(0), B, 0, 8, 1, dtype=handle), dtype=int32)
call_extern("f", A, dtype=int32)
"""
    assert places(body) == {"A": (0, 4), "B": (1, 3)}


def test_a_name_for_a_pointer_counts() -> None:
    body = """\
A[0] = 1.0
p: handle = address_of(A[4])
B[0] = 1.0
call_extern("f", p, dtype=int32)
"""
    assert places(body)["A"] == (0, 3)


COPY = """\
ptx_cp_async(A, threadIdx.x, G, threadIdx.x, 4, dtype=float32)
ptx_commit_group(dtype=int32)
"""


def test_an_asynchronous_copy_lasts_until_its_wait() -> None:
    assert places(COPY + "B[0] = 1.0\nptx_wait_group(0, dtype=int32)\nB[1] = 1.0")["A"] == (0, 3)


def test_groups_that_may_still_fly() -> None:
    assert places(COPY + "ptx_wait_group(1, dtype=int32)\nB[0] = 1.0")["A"] == (0, 4)


def test_a_wait_that_may_not_come() -> None:
    body = COPY + "if threadIdx.x < 4:\n    ptx_wait_group(0, dtype=int32)\nB[0] = 1.0"
    assert places(body)["A"] == (0, 6)


def test_a_copy_that_flies_around_a_loop() -> None:
    """The wait comes after the loop: the copy of one iteration meets the next one's beginning."""
    loop = "for i in range(4):\n    B[0] = 1.0\n" + textwrap.indent(COPY, "    ")
    assert places(loop + "ptx_wait_group(0, dtype=int32)\nG[0] = A[0]")["A"] == (0, 6)


def test_intervals_meet_where_they_have_a_place_in_common() -> None:
    assert Interval(0, 2).meets(Interval(2, 3))
    assert not Interval(0, 1).meets(Interval(2, 3))
