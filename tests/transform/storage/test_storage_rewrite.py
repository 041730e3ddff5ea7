from collections.abc import Callable, Sequence

import numpy as np
import pytest

from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Call, Expr, IntImm, IterKind, IterVar, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    Stmt,
    seq,
)
from autosched.tir.verify import verify
from autosched.tir.walk import stmts
from autosched.transform.storage.storage_rewrite import StorageRewrite
from kit.stmts import loop
from kit.tir import value_of
from kit.types import BodyText, MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
i, j = Var("i"), Var("j")


def internal(name: str, size: int, scope: str = "global", dtype: str = "float32") -> Buffer:
    return decl_buffer((size,), dtype, name, scope=scope)


def allocate(buffers: Sequence[Buffer], *body: Stmt) -> Stmt:
    result = seq(*body)
    for b in reversed(buffers):
        result = Allocate(b.data, b.dtype, b.shape, TRUE, result)
    return result


def copy(target: Buffer, source: Buffer, extent: int = 64, at: Var = i) -> For:
    return loop(i, extent, BufferStore(target, source[at] + 1.0, (i,)))


def sizes(func: PrimFunc) -> dict[str, int]:
    return {
        s.buffer_var.name: value_of(s.extents[0]) for s in stmts(func.body) if type(s) is Allocate
    }


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    P, Q, R = internal("P", 64), internal("Q", 32), internal("R", 64)
    before = make_func(
        allocate(
            [R, Q, P],
            copy(P, A),
            loop(i, 32, BufferStore(Q, P[i] * P[i + 32], (i,))),
            loop(i, 64, BufferStore(R, Q[i // 2], (i,))),
            copy(B, R),
        ),
        A,
        B,
    )
    after = StorageRewrite()(before)
    assert (
        body_text(after)
        == """\
P = allocate((64,), float32, "global")
R = view(P, (64,), float32)
Q = allocate((32,), float32, "global")
for i in range(64):
    P[i] = A[i] + 1.0
for i in range(32):
    Q[i] = P[i] * P[i + 32]
for i in range(64):
    R[i] = Q[i // 2]
for i in range(64):
    B[i] = R[i] + 1.0"""
    )
    same_result(before, after)
    assert StorageRewrite()(after) is after


def test_nothing_to_do_returns_the_same_object(make_func: MakeFunc) -> None:
    func = make_func(copy(B, A), A, B)
    assert StorageRewrite()(func) is func
    P = internal("P", 64)
    func = make_func(allocate([P], copy(P, A), copy(B, P)), A, B)
    assert StorageRewrite()(func) is func
    assert StorageRewrite(pointer_vectors=True)(func) is func


def test_a_result_overwrites_its_dying_source(make_func: MakeFunc, same_result: SameResult) -> None:
    P, Q = internal("P", 64), internal("Q", 64)
    before = make_func(allocate([P, Q], copy(P, A), copy(Q, P), copy(B, Q)), A, B)
    after = StorageRewrite()(before)
    assert sizes(after) == {"P": 64}
    same_result(before, after)
    assert sizes(StorageRewrite(reuse=False)(before)) == {"P": 64, "Q": 64}


@pytest.mark.parametrize(
    "second",
    [
        # reads other elements than it writes
        lambda P, Q: loop(i, 64, BufferStore(Q, P[63 - i], (i,))),
        # writes each element twice
        lambda P, Q: loop(j, 2, loop(i, 64, BufferStore(Q, P[i] + 1.0, (i,)))),
        # reads what it writes
        lambda P, Q: loop(i, 64, BufferStore(Q, P[i] + Q[i] * 0.5, (i,))),
        # changes its source
        lambda P, Q: loop(
            i, 63, seq(BufferStore(Q, P[i], (i,)), BufferStore(P, A[i] + 5.0, (i + 1,)))
        ),
    ],
)
def test_no_overwriting_when_values_are_still_needed(
    make_func: MakeFunc, second: Callable[[Buffer, Buffer], For]
) -> None:
    P, Q = internal("P", 64), internal("Q", 64)
    body = allocate([P, Q], copy(P, A), second(P, Q), copy(B, Q))
    assert sizes(StorageRewrite()(make_func(body, A, B))) == {"P": 64, "Q": 64}


def reused(make_func: Callable[..., PrimFunc], first: Buffer, second: Buffer) -> bool:
    """Whether `second` gets the memory of `first`, which is dead by then."""
    body = allocate(
        [first, second],
        loop(i, 1, BufferStore(first, A[i].astype(first.dtype), (i,))),
        loop(i, 1, BufferStore(B, first[i].astype("float32"), (i,))),
        loop(i, 1, BufferStore(second, A[i].astype(second.dtype), (i,))),
        loop(i, 1, BufferStore(B, second[i].astype("float32"), (i + 1,))),
    )
    found = sizes(StorageRewrite()(make_func(body, A, B)))
    return found == {"P": max(value_of(first.shape[0]), value_of(second.shape[0]))}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (internal("P", 64), internal("Q", 64), True),
        (internal("P", 64), internal("Q", 4), True),
        (internal("P", 64), internal("Q", 3), False),  # less than a sixteenth
        (internal("P", 4), internal("Q", 64), True),
        (internal("P", 4), internal("Q", 65), False),
        (internal("P", 64), internal("Q", 64, dtype="int32"), False),
        (internal("P", 8192, dtype="int16"), internal("Q", 8192, dtype="float16"), True),
        (internal("P", 8192, dtype="bfloat16"), internal("Q", 8192, dtype="float16"), False),
        (internal("P", 64), internal("Q", 64, "shared"), False),
        (internal("P", 64, "shared"), internal("Q", 64, "shared"), True),
        (internal("P", 64, "local"), internal("Q", 64, "local"), False),  # registers
        (internal("P", 1), internal("Q", 1), False),  # 32 bits
    ],
)
def test_which_free_blocks_are_taken(
    make_func: MakeFunc, first: Buffer, second: Buffer, expected: bool
) -> None:
    assert reused(make_func, first, second) is expected


def test_allocations_stand_at_the_parallel_loop_or_thread(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    P, Q = internal("P", 64), internal("Q", 64)
    inner = allocate([P], copy(P, A), loop(i, 64, BufferStore(B, P[i] + Q[i], (i,))))
    body = allocate([Q], copy(Q, A), loop(Var("p"), 1, loop(j, 2, inner), ForKind.PARALLEL))
    before = make_func(body, A, B)
    after = StorageRewrite()(before)
    assert (
        body_text(after)
        == """\
Q = allocate((64,), float32, "global")
for i in range(64):
    Q[i] = A[i] + 1.0
for p in parallel(1):
    P = allocate((64,), float32, "global")
    for j in range(2):
        for i in range(64):
            P[i] = A[i] + 1.0
        for i in range(64):
            B[i] = P[i] + Q[i]"""
    )
    same_result(before, after)

    S = internal("S", 4, "shared")
    block = IterVar(None, Var("blockIdx.x"), IterKind.THREAD, "blockIdx.x")
    thread = IterVar(None, Var("threadIdx.x"), IterKind.THREAD, "threadIdx.x")
    use = seq(BufferStore(S, A[thread.var], (thread.var,)), copy(B, S, 1, thread.var))
    body = AttrStmt(thread, "thread_extent", IntImm(4), loop(j, 2, allocate([S], use)))
    after = StorageRewrite()(make_func(AttrStmt(block, "thread_extent", IntImm(1), body), A, B))
    assert body_text(after).startswith(
        'launch(blockIdx.x, 1)\nS = allocate((4,), float32, "shared")\nlaunch(threadIdx.x, 4)'
    )


def test_unused_allocations_disappear(make_func: MakeFunc, body_text: BodyText) -> None:
    func = make_func(allocate([internal("P", 64)], copy(B, A)), A, B)
    assert "allocate" not in body_text(StorageRewrite()(func))


def test_an_allocation_sized_by_a_loop_variable_stays(
    make_func: MakeFunc, body_text: BodyText
) -> None:
    P = internal("P", 64)
    inner = Allocate(P.data, P.dtype, (j + 1,), TRUE, seq(BufferStore(P, A[j], (j,))))
    func = make_func(loop(j, 4, inner), A)
    assert StorageRewrite()(func) is func


def test_pointers_used_directly_count_as_accesses(make_func: MakeFunc, body_text: BodyText) -> None:
    P, Q = internal("P", 64), internal("Q", 64)
    touch = Evaluate(Call(A.dtype, "call_extern", (Q.data,)))
    func = make_func(allocate([P, Q], copy(P, A), copy(B, P), copy(Q, A), touch), A, B)
    after = StorageRewrite()(func)
    assert sizes(after) == {"P": 64}
    assert body_text(after).endswith("call_extern(P, dtype=float32)")


def test_pointer_vectors(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    P = internal("P", 64)

    def four(e: Expr) -> Expr:
        return Ramp(e, IntImm(1), 4)

    body = allocate(
        [P],
        loop(i, 16, BufferStore(P, A[four(i * 4)], (four(i * 4),))),
        loop(i, 16, BufferStore(B, P[four(60 - i * 4)], (four(i * 4),))),
    )
    before = make_func(body, A, B)
    after = StorageRewrite(pointer_vectors=True)(before)
    assert (
        body_text(after)
        == """\
P = allocate((16,), float32x4, "global", element=float32)
for i in range(16):
    P[i] = A[i * 4:i * 4 + 4]
for i in range(16):
    B[i * 4:i * 4 + 4] = P[15 - i]"""
    )
    same_result(before, after)
    unaligned = allocate(
        [P],
        loop(i, 15, BufferStore(P, A[four(i * 4)], (four(i * 4 + 2),))),
        loop(i, 15, BufferStore(B, P[four(i * 4 + 2)], (four(i * 4),))),
    )
    func = make_func(unaligned, A, B)
    assert StorageRewrite(pointer_vectors=True)(func) is func


@pytest.mark.parametrize("seed", range(12))
def test_random_chains_keep_their_meaning(
    make_func: MakeFunc, same_result: SameResult, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    buffers = [internal(f"T{n}", int(rng.choice([8, 16, 32, 64]))) for n in range(6)]
    known, body = [A], []
    for buffer in buffers:
        size = value_of(buffer.shape[0])
        source = known[rng.integers(len(known))]
        other = known[rng.integers(len(known))]
        read = min(value_of(s.shape[0]) for s in (source, other))
        value = source[i % read] + other[(i * 3 + 1) % read if rng.integers(2) else i % read]
        if read == size and rng.integers(2):
            value = source[i] * 2.0
        body.append(loop(i, size, BufferStore(buffer, value, (i,))))
        known.append(buffer)
    last = known[-1]
    body.append(loop(i, 64, BufferStore(B, last[i % value_of(last.shape[0])] + A[i], (i,))))
    before = make_func(allocate(buffers, *body), A, B)
    after = StorageRewrite()(before)
    same_result(before, after, seed=seed)


def test_what_declares_or_annotates_an_allocation_without_access_goes_with_it(
    make_func: MakeFunc,
) -> None:
    P = internal("P", 64)
    view = Buffer(P.data, P.dtype, (IntImm(8),), name="view")
    note = AttrStmt(P.data, "volatile_scope", IntImm(1), DeclBuffer(view, copy(B, A)))
    before = make_func(allocate([P], note), A, B)
    verify(before)
    after = StorageRewrite()(before)
    verify(after)
    assert [type(s).__name__ for s in stmts(after.body)] == ["For", "BufferStore"]


def test_memory_of_one_name_in_two_branches(same_result: SameResult) -> None:
    """Parsed, it is one pointer: only the memory of the last branch was allocated, for both."""
    parts = "".join(
        f"""\
    if A[0] < {size}.0:
        S = allocate(({size},), float32, "local")
        for i in range({size}):
            S[i] = A[i] + {size}.0
        for i in range({size}):
            A[i + {size}] = S[{size - 1} - i]
"""
        for size in (8, 4)
    )
    before = parse_func(f"def main(A: Buffer((16,), float32)):\n{parts}")
    after = StorageRewrite()(before)
    verify(after)
    same_result(before, after)


def test_memory_of_one_name_in_two_kernels(same_result: SameResult) -> None:
    """The second kernel had none."""
    before = parse_func("""\
def main(A: Buffer((16,), float32)):
    with launch(threadIdx.x, 4):
        S = allocate((12,), float32, "shared")
        S[threadIdx.x] = A[threadIdx.x]
        A[threadIdx.x + 4] = S[threadIdx.x]
    launch(threadIdx.x, 4)
    with T = allocate((12,), int32, "shared"):
        T[threadIdx.x] = threadIdx.x
    S = allocate((12,), float32, "shared")
    S[threadIdx.x] = A[threadIdx.x]
    A[threadIdx.x + 8] = S[threadIdx.x]
""")
    after = StorageRewrite()(before)
    verify(after)
    same_result(before, after)
