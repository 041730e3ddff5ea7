"""Random programs mean the same after StorageRewrite, whatever their types, sizes and structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Expr, IntImm, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import floormod, max_, min_
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import TRUE, Allocate, BufferStore, ForKind, IfThenElse, Stmt, seq
from autosched.tir.verify import verify
from autosched.tir.walk import child_stmts, stmts
from autosched.transform.storage import storage_plan
from autosched.transform.storage.storage_rewrite import StorageRewrite
from kit.stmts import loop
from kit.types import MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
n = Var("n")
TYPES = ("float32", "float64", "int8", "uint8", "int32", "int64", "bool")


class Programs:
    """Draws chains of stages, some inside loops, branches and parallel loops."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0
        self.bound: list[Var] = []

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def buffer(self) -> Buffer:
        self.count += 1
        size: Any = self.pick(8, 16, 16, 48, n, n * 2, 2 * n, n + 8)
        if self.bound and self.rng.integers(5) == 0:
            size = self.bound[-1] + 3
        return decl_buffer((size,), self.pick(*TYPES), f"T{self.count}")

    def read(self, source: Buffer, index: Expr) -> Expr:
        (size,) = source.shape
        place = floormod(index, max_(size, 1))
        return source[place].astype("float32")

    def fill(self, target: Buffer, sources: list[Buffer]) -> Stmt:
        """A loop over all elements of `target`, or one over vectors of four."""
        (size,) = target.shape
        i = Var("i")
        if isinstance(size, IntImm) and target.dtype.bytes == 4 and self.rng.integers(3) == 0:
            at = Ramp(i * 4, IntImm(1), 4)
            value = A[at].astype(target.dtype.with_lanes(4))
            return loop(i, size.value // 4, BufferStore(target, value, (at,)))
        parts = [self.read(s, self.pick(i, i * 3 + 1)) for s in self.some(sources)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        value = min_(max_(total, 0.0), 100.0).astype(target.dtype)
        return loop(i, size, BufferStore(target, value, (i,)))

    def some(self, sources: list[Buffer]) -> list[Buffer]:
        return [self.pick(*sources[-3:]) for _ in range(self.rng.integers(1, 3))]

    def use(self, source: Buffer) -> Stmt:
        """Adds elements to the output: an exact sum, whatever the order of the stages."""
        i = Var("i")
        return loop(i, 64, BufferStore(B, B[i] + self.read(source, i), (i,)))

    def stages(self, depth: int) -> Stmt:
        known, buffers, body = [A], [], []
        for _ in range(self.rng.integers(2, 5)):
            target = self.buffer()
            body.append(self.fill(target, known))
            if depth and self.rng.integers(2):
                body.append(self.wrapped(depth - 1))
            body.append(self.use(target))
            known.append(target)
            buffers.append(target)
        result = seq(*body)
        for buffer in reversed(buffers):
            result = Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, result)
        return result

    def wrapped(self, depth: int) -> Stmt:
        kind = self.rng.integers(5)
        var = Var("p")
        if kind == 0:
            other = self.stages(depth) if self.rng.integers(2) else None
            return IfThenElse(n > 3, self.stages(depth), other)
        if kind == 1:
            return self.stages(depth)
        self.bound.append(var)
        body = self.stages(depth)
        self.bound.pop()
        extent: Any = self.pick(1, 2, n)
        if kind == 2:
            return loop(var, 1, body, ForKind.PARALLEL)
        return loop(var, extent, body)


@pytest.mark.parametrize("block", range(4))
def test_random_programs(
    make_func: MakeFunc, same_result: SameResult, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Small arrays count as too large for registers here: the interpreter is slow."""
    monkeypatch.setattr(storage_plan, "_REGISTER_BITS", 0)
    mixed = 0
    for seed in range(block * 8, block * 8 + 8):
        before = make_func(Programs(seed).stages(2), A, B, scalars=(n,))
        verify(before)
        after = StorageRewrite()(before)
        verify(after)
        for size in (2, 5):
            same_result(before, after, size, seed=seed)
        verify(parse_func(to_text(after)))
        mixed += len(views_of_other_types(after))
    assert mixed


def views_of_other_types(func: PrimFunc) -> set[Var]:
    """Pointers behind which elements of several types are stored."""
    types: dict[Var, set[str]] = {}
    for s in stmts(func.body):
        if isinstance(s, BufferStore):
            types.setdefault(s.buffer.data, set()).add(s.buffer.dtype.name)
    return {pointer for pointer, found in types.items() if len(found) > 1}


def test_memory_holds_all_that_share_it_and_is_aligned_for_them(
    make_func: MakeFunc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An allocation has the bytes of each buffer stored to it, and its widest element type."""
    monkeypatch.setattr(storage_plan, "_REGISTER_BITS", 0)
    for seed in range(40):
        func = StorageRewrite()(make_func(Programs(seed).stages(1), A, B, scalars=(n,)))
        blocks = {s.buffer_var: s for s in stmts(func.body) if isinstance(s, Allocate)}
        for s in stmts(func.body):
            if not isinstance(s, BufferStore) or s.buffer.data not in blocks:
                continue
            block = blocks[s.buffer.data]
            assert block.dtype.bytes * block.dtype.lanes >= s.buffer.dtype.bytes
            size, room = s.buffer.shape[0], block.extents[0]
            if isinstance(size, IntImm) and isinstance(room, IntImm):
                assert room.value * block.dtype.bytes >= size.value * s.buffer.dtype.bytes


def test_nothing_allocated_in_a_parallel_loop_leaves_it(
    make_func: MakeFunc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_plan, "_REGISTER_BITS", 0)
    inside: set[str] = set()
    for seed in range(60):
        func = make_func(Programs(seed).stages(2), A, B, scalars=(n,))
        before, after = owners(func.body), owners(StorageRewrite()(func).body)
        for name, found in after.items():
            assert found == before[name]
        inside |= {name for name, owner in before.items() if owner}
    assert inside


def owners(body: Stmt) -> dict[str, bool]:
    """For each buffer that is stored to, whether its memory is allocated in a parallel loop."""
    found: dict[str, bool] = {}
    memory: dict[Var, bool] = {}

    def look(s: Stmt, parallel: bool) -> None:
        if isinstance(s, Allocate):
            memory[s.buffer_var] = parallel
        if isinstance(s, BufferStore) and s.buffer.data in memory:
            found[s.buffer.name] = memory[s.buffer.data]
        for child in child_stmts(s):
            look(child, parallel or getattr(s, "kind", None) is ForKind.PARALLEL)

    look(body, False)
    return found


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (n, n, True),
        (n * 2, 2 * n, True),
        ((n + 1) * 4, n * 4 + 4, True),
        (n, n + 1, False),
        (n, n * 2, False),
        (n, 64, False),
    ],
)
def test_symbolic_sizes_share_when_they_are_equal(
    make_func: MakeFunc, first: Expr, second: Any, shared: bool
) -> None:
    programs = Programs(0)
    P, Q = decl_buffer((first,), "float32", "P"), decl_buffer((second,), "float32", "Q")
    body: Stmt = seq(programs.fill(P, [A]), programs.use(P), programs.fill(Q, [B]), programs.use(Q))
    for b in (P, Q):
        body = Allocate(b.data, b.dtype, b.shape, TRUE, body)
    after = StorageRewrite()(make_func(body, A, B, scalars=(n,)))
    assert sum(isinstance(s, Allocate) for s in stmts(after.body)) == (1 if shared else 2)


def test_a_size_read_from_memory_stays_behind_its_store(make_func: MakeFunc) -> None:
    sizes = decl_buffer((1,), "int32", "sizes")
    i = Var("i")
    P = decl_buffer((8,), "float32", "P")
    inner = Allocate(P.data, P.dtype, (sizes[0],), TRUE, loop(i, 4, BufferStore(P, A[i], (i,))))
    body = seq(BufferStore(sizes, IntImm(8), (IntImm(0),)), inner)
    func = make_func(body, A, sizes)
    assert StorageRewrite()(func) is func
