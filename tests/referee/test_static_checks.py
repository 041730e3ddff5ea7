"""What is proved of kernels without a run, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from autosched.referee import block_stores, check
from autosched.referee.check import Verdict, check_candidate, lowered
from autosched.referee.static_checks import BARRIERS, BLOCKS, COPIES, UNIFORM, Proof, prove
from autosched.state.steps import Step
from autosched.task import Task
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text

Candidate = Callable[[str, int], tuple[Task, tuple[Step, ...]]]

HEAD = """\
def main(A: Buffer((4096,), float32), B: Buffer((4096,), float32), I: Buffer((64,), int32), n: int32):
    launch(blockIdx.x, 16)
    launch(threadIdx.y, 2)
    launch(threadIdx.x, 64)
    S = allocate((256,), float32, "shared")
    L = allocate((4,), float32, "local")
"""  # noqa: E501


def trouble(body: str, question: str) -> str:
    """What is not proved about a kernel; empty when it is."""
    func = parse_func(HEAD + textwrap.indent(textwrap.dedent(body), "    "))
    (proof,) = [p for p in prove(func) if p.question == question]
    assert (proof.stmt is not None) == bool(proof.trouble) or "ThreadSync" in proof.trouble
    return proof.trouble


ME = "blockIdx.x * 128 + threadIdx.y * 64 + threadIdx.x"
FETCH = "ptx_cp_async(S, threadIdx.x, A, threadIdx.x, 4, dtype=float32)\n"
COMMIT = "ptx_commit_group(dtype=int32)\n"
SYNC = 'tvm_storage_sync("shared")\n'
USE = "B[0] = S[threadIdx.x]\n"


def wait(n: int) -> str:
    return f"ptx_wait_group({n}, dtype=int32)\n"


BLOCK_CASES: dict[str, tuple[str, str]] = {
    "each its own": (f"B[{ME}] = 1.0", ""),
    "vectors": ("B[ramp(blockIdx.x * 256 + threadIdx.x * 4, 1, 4)] = broadcast(1.0, 4)", ""),
    "in a loop": ("for i in range(2, 4):\n    B[blockIdx.x * 2 + i] = 1.0", ""),
    "in a loop, one too many": ("for i in range(3):\n    B[blockIdx.x * 2 + i] = 1.0", "no proof"),
    "up to the end": (
        "for i in range(2):\n"
        "    if i * 64 + threadIdx.x < 100:\n"
        "        B[blockIdx.x * 100 + i * 64 + threadIdx.x] = 1.0",
        "",
    ),
    "past the end": (
        "for i in range(2):\n"
        "    if i * 64 + threadIdx.x < 101:\n"
        "        B[blockIdx.x * 100 + i * 64 + threadIdx.x] = 1.0",
        "no proof",
    ),
    "fused axes": (
        f"B[({ME}) // 7 * 8 + ({ME}) % 7] = 1.0",
        "",
    ),
    "fused axes with a loss": (
        "B[(blockIdx.x * 64 + threadIdx.x) // 7] = 1.0",
        "no proof",
    ),
    "all the same": ("B[threadIdx.x] = 1.0", "the index does not depend on blockIdx.x"),
    "what another block stores is loaded": (
        f"B[{ME}] = 1.0\nL[0] = B[{ME} + 1]",
        "no proof",
    ),
    "what it stored itself is loaded": (f"B[{ME}] = B[{ME}] + 1.0", ""),
    "what memory says": ("B[I[threadIdx.x] * 16 + blockIdx.x] = 1.0", "no proof"),
    "to an address": (
        'tvm_store_matrix_sync(L, 16, 16, 16, 0, address_of(B[0]), 16, "row_major", dtype=handle)',
        "an address whose elements are not known",
    ),
    "as many blocks as n says": ("launch(blockIdx.y, n)\nB[blockIdx.y] = 1.0", "depends on blockI"),
    "as far as n says": ("for i in range(n):\n    B[blockIdx.x + i] = 1.0", "of which the values"),
}


@pytest.mark.parametrize("case", BLOCK_CASES.values(), ids=BLOCK_CASES)
@pytest.mark.parametrize("counting", [True, False])
def test_blocks(case: tuple[str, str], counting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not counting:
        monkeypatch.setattr(block_stores, "_MOST", 0)
    body, wanted = case
    found = trouble(body, BLOCKS)
    assert wanted in found and bool(wanted) == bool(found)


UNIFORM_CASES: dict[str, tuple[str, bool]] = {
    "a loop of all": ("for i in range(n):\n    " + SYNC, True),
    "a condition of all": ("if blockIdx.x < n:\n    " + SYNC, True),
    "some threads": ("if threadIdx.x < n:\n    " + SYNC, False),
    "loops of their own length": ("for i in range(threadIdx.y):\n    " + SYNC, False),
    "inside of one": (
        "for i in range(threadIdx.y, threadIdx.y + 1):\n    if i < n:\n        " + SYNC,
        False,
    ),
    "a let": ("t: int32 = threadIdx.x + 1\nif t < n:\n    " + SYNC, False),
    "what memory says": ("while I[0] < n:\n    " + SYNC, False),
    "warps part, their lanes do not": ('if threadIdx.y < n:\n    tvm_storage_sync("warp")', True),
    "lanes part": ('if threadIdx.x < n:\n    tvm_storage_sync("warp")', False),
}


@pytest.mark.parametrize("case", UNIFORM_CASES.values(), ids=UNIFORM_CASES)
def test_uniform(case: tuple[str, bool]) -> None:
    body, proved = case
    assert (not trouble(body, UNIFORM)) == proved


COPY_CASES: dict[str, tuple[str, bool]] = {
    "in order": (FETCH + COMMIT + wait(0) + SYNC + USE, True),
    "no commit": (FETCH + wait(0) + SYNC + USE, False),
    "no wait": (FETCH + COMMIT + SYNC + USE, False),
    "no barrier": (FETCH + COMMIT + wait(0) + USE, False),
    "a barrier before the wait": (FETCH + COMMIT + SYNC + wait(0) + USE, False),
    "one group may be under way": (FETCH + COMMIT + wait(1) + SYNC + USE, False),
    "another one": (FETCH + COMMIT + COMMIT + wait(1) + SYNC + USE, True),
    "sometimes": (FETCH + COMMIT + f"if n < 3:\n    {wait(0)}" + SYNC + USE, False),
    "around a loop": (
        "for k in range(4):\n" + textwrap.indent(FETCH + COMMIT + wait(0) + SYNC + USE, "    "),
        True,
    ),
    "read before the next iteration's wait": (
        "for k in range(4):\n" + textwrap.indent(USE + FETCH + COMMIT, "    ") + wait(0),
        False,
    ),
    "overwritten": (FETCH + COMMIT + "S[threadIdx.x] = 1.0\n", False),
}


@pytest.mark.parametrize("case", COPY_CASES.values(), ids=COPY_CASES)
def test_copies(case: tuple[str, bool]) -> None:
    body, proved = case
    assert (not trouble(body, COPIES)) == proved


def test_barriers_and_what_is_not_asked() -> None:
    body = "S[threadIdx.x] = A[0]\n{}B[threadIdx.x] = S[63 - threadIdx.x]"
    assert trouble(body.format(""), BARRIERS) == "one may be needed"
    inside = "if threadIdx.x < 8:\n    S[threadIdx.x] = A[0]\n    L[0] = S[7 - threadIdx.x]"
    assert "ThreadSync: main: a barrier for S is needed" in trouble(inside, BARRIERS)
    func = parse_func(HEAD + textwrap.indent(body.format(SYNC), "    "))
    assert [p.question for p in prove(func)] == [BARRIERS, UNIFORM, BLOCKS]


@pytest.mark.parametrize("workload", ["matmul", "layer_norm", "softmax", "conv2d_nhwc"])
def test_golden_candidates_are_proved(golden: Candidate, workload: str) -> None:
    proofs = prove(lowered(*golden(workload, 0))[1])
    assert proofs and all(not p.trouble for p in proofs), "\n".join(map(str, proofs))


def test_what_is_not_proved_runs_whole(golden: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    task, steps = golden("max_pool2d_nchw", 0)
    proved = check_candidate(task, steps, seconds=60)
    assert proved.how == "4 of 1568 blocks"
    assert str(proved).endswith("3 of 3 questions proved)")
    store = lowered(task, steps)[1].body
    unknown = (Proof(1, BLOCKS, "not proved: why", store),)
    monkeypatch.setattr(check, "prove", lambda func: unknown)
    report = check_candidate(task, steps, seconds=60)
    assert report.verdict is Verdict.AGREES
    assert report.how.startswith("all blocks of the smaller max_pool2d_nchw(")
    head = to_text(store).strip().split("\n")[0]
    assert str(report).endswith(f"\nkernel 1: {BLOCKS}: not proved: why, at `{head}`")
