"""Random primitives keep the meaning of a program; refused ones leave the schedule unchanged."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.te.schedule.schedule import Schedule
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IterKind, IterVar
from kit.te import compute_of
from kit.types import Array, Check

T = TypeVar("T")

MAX_LOOPS = 7
MAX_DRAWS = 10
REFUSABLE = ("compute_inline:", "compute_at:", "cache_", "rfactor:", "vectorize:", "parallel:")


def _matmul_relu() -> tuple[list[Tensor], Callable[[Array, Array], Array]]:
    A, B = te.placeholder((5, 7), name="A"), te.placeholder((7, 6), name="B")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((5, 6), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((5, 6), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return [A, B, D], lambda a, b: np.maximum(a @ b, 0)


def _padded_window_sums() -> tuple[list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((11,), name="A")
    P = te.compute(
        (13,), lambda i: te.if_then_else(te.all(i >= 1, i < 12), A[i - 1], 0.0), name="P"
    )
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((11,), lambda i: te.sum(P[i + k], axis=k), name="C")
    D = te.compute((11,), lambda i: C[10 - i] * 2.0, name="D")
    return [A, D], lambda a: np.convolve(a, np.ones(3), "same")[::-1] * 2


def _chain_of_maps() -> tuple[list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((4, 9), name="A")
    B = te.compute((4, 9), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((9, 4), lambda i, j: B[j, i] * 2.0, name="C")
    D = te.compute((9, 4), lambda i, j: C[i, 3 - j] - B[j, i], name="D")
    return [A, D], lambda a: ((a + 1) * 2).T[:, ::-1] - (a + 1).T


def _maximum_of_two_axes() -> tuple[list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((3, 4, 5), name="A")
    x, y = te.reduce_axis((0, 4), "x"), te.reduce_axis((0, 5), "y")
    M = te.compute((3,), lambda i: te.max(A[i, x, y], axis=[x, y]), name="M")
    B = te.compute((3, 4), lambda i, j: A[i, j, 0] - M[i], name="B")
    return [A, B], lambda a: a[:, :, 0] - a.max((1, 2))[:, None]


PROGRAMS = (_matmul_relu, _padded_window_sums, _chain_of_maps, _maximum_of_two_axes)


def _snapshot(schedule: Schedule) -> list[tuple[Any, ...]]:
    return [
        (
            stage,
            stage.op,
            list(stage.leaf_iter_vars),
            list(stage.all_iter_vars),
            list(stage.relations),
            dict(stage.iter_var_attrs),
            stage.attach_type,
            stage.attach_stage,
            stage.attach_ivar,
            stage.scope,
        )
        for stage in (*schedule.stages, *schedule.groups)
    ]


def inlined(stage: Stage) -> bool:
    return stage.attach_type is AttachType.INLINE


class Driver:
    """Applies random primitives to a schedule."""

    def __init__(self, schedule: Schedule, rng: np.random.Generator) -> None:
        self.schedule, self.rng = schedule, rng
        self.log: list[str] = []

    def one_of(self, items: Sequence[T]) -> T:
        return items[int(self.rng.integers(len(items)))]

    def stages(self) -> list[Stage]:
        return [stage for stage in self.schedule.stages if isinstance(stage.op, ComputeOp)]

    def split(self, stage: Stage) -> None:
        iv = self.one_of(stage.leaf_iter_vars)
        size = int(self.rng.integers(1, 6))
        if len(stage.leaf_iter_vars) < MAX_LOOPS:
            sizes: dict[str, Any] = {self.one_of(["factor", "nparts"]): size}
            stage.split(iv, **sizes)

    def fuse(self, stage: Stage) -> None:
        leaves = stage.leaf_iter_vars
        first = int(self.rng.integers(len(leaves)))
        axes = leaves[first : first + int(self.rng.integers(0, 4))]
        if len(leaves) < MAX_LOOPS:
            stage.fuse(*axes)

    def reorder(self, stage: Stage) -> None:
        leaves = list(stage.leaf_iter_vars)
        self.rng.shuffle(leaves)
        stage.reorder(*leaves[: int(self.rng.integers(1, len(leaves) + 1))])

    def annotate(self, stage: Stage) -> None:
        iv = self.one_of(stage.leaf_iter_vars)
        getattr(stage, self.one_of(["vectorize", "unroll", "parallel"]))(iv)

    def compute_at(self, stage: Stage) -> None:
        others = [other for other in self.stages() if other is not stage and not inlined(other)]
        if not others:
            return
        parent = self.one_of(others)
        stage.compute_at(parent, self.one_of(parent.leaf_iter_vars))

    def inline(self, stage: Stage) -> None:
        if all(other.attach_stage is not stage for other in self.schedule.stages):
            stage.compute_inline()

    def root(self, stage: Stage) -> None:
        stage.compute_root()

    def cache_write(self, stage: Stage) -> None:
        self.schedule.cache_write(stage.op.output(0), "global")

    def cache_read(self, stage: Stage) -> None:
        self.schedule.cache_read(self.one_of(stage.op.inputs), "global", stage.op)

    def rfactor(self, stage: Stage) -> None:
        axes = [iv for iv in stage.leaf_iter_vars if iv.kind == IterKind.REDUCE]
        iv = self.one_of(axes or stage.leaf_iter_vars)
        self.schedule.rfactor(stage.op.output(0), iv, int(self.rng.integers(-2, 3)))

    def step(self) -> None:
        names = ["split", "fuse", "reorder", "annotate", "compute_at"] * 3
        names += ["inline", "root", "cache_write", "cache_read", "rfactor"]
        if len(self.schedule.stages) > 7:
            names = names[:15]
        name = self.one_of(names)
        stage = self.one_of(self.stages())
        before = _snapshot(self.schedule)
        try:
            getattr(self, name)(stage)
            self.log.append(f"{name} {stage}")
        except ScheduleError as error:
            assert _snapshot(self.schedule) == before, f"{name} changed what it refused: {error}"
            assert str(error).startswith(REFUSABLE)


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_keep_the_meaning(seed: int, check: Check) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(MAX_DRAWS):
        args, reference = PROGRAMS[seed % len(PROGRAMS)]()
        schedule = te.create_schedule(args[-1].op)
        driver = Driver(schedule, rng)
        for _ in range(int(rng.integers(2, 12))):
            driver.step()
        try:
            check(schedule, args, reference)
            return
        except Exception as error:
            if not is_computed_too_late(error):
                error.add_note("\n".join(driver.log))
                raise
    pytest.fail(f"{MAX_DRAWS} schedules in a row compute a stage after it is read")


def is_computed_too_late(error: Exception) -> bool:
    """A stage is attached where not all its readers find it: seen only when bounds are inferred."""
    late = "cannot find the producer along the loop nest of its consumer"
    return isinstance(error, ScheduleError) and bool(re.match(f"infer_bound: .*{late}", str(error)))


@pytest.mark.parametrize("factor", [1, 2, 3, 5, 7, 8])
def test_compute_at_every_place_of_every_stage(factor: int, check: Check) -> None:
    """P into every loop of C, C into every loop of D, for an uneven tiling."""
    args, reference = _padded_window_sums()
    for place in range(2):
        for inner in range(2):
            schedule = te.create_schedule(args[-1].op)
            P, C, D = schedule.stages[1:]
            schedule[D.op].split(D.leaf_iter_vars[0], factor=factor)
            C.compute_at(D, D.leaf_iter_vars[place])
            P.compute_at(C, C.leaf_iter_vars[inner])
            check(schedule, args, reference)


def _random_gpu_matmul(
    rng: np.random.Generator,
) -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    """Blocks, virtual threads and threads of random sizes, with or without caches."""
    m, n, k = (int(x) for x in rng.integers(3, 14, 3))
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((m, n), lambda i, j: te.max(C[i, j], 0.0), name="D")
    s = te.create_schedule(D.op)
    levels, threads = [], 1
    for iv in D.op.axis:
        parts: list[IterVar] = []
        factors = [int(x) for x in rng.integers(1, 4, 3)]
        threads *= factors[1]
        for factor in factors:
            iv, inner = s[D].split(iv, factor=factor)
            parts.insert(0, inner)
        levels.append([iv, *parts])
    s[D].reorder(*(level[d] for d in range(4) for level in levels))
    tags = ("blockIdx.x", "vthread", "threadIdx.x")
    fused = [s[D].fuse(levels[0][d], levels[1][d]) for d in range(3)]
    for iv, tag in zip(fused, tags, strict=True):
        s[D].bind(iv, te.thread_axis(tag))
    compute = C
    if rng.integers(2):
        compute = s.cache_write(C, "local")
        s[C].compute_inline()
    s[compute].compute_at(s[D], fused[2])
    ko, ki = s[compute].split(r, factor=int(rng.integers(1, 5)))
    s[compute].reorder(ko, ki, *compute_of(s[compute]).axis)
    for source in (A, B):
        if rng.integers(2):
            shared = s.cache_read(source, "shared", [compute])
            s[shared].compute_at(s[compute], ko)
            flat = s[shared].fuse(*compute_of(shared).axis)
            _, inner = s[shared].split(flat, factor=threads)
            s[shared].bind(inner, te.thread_axis("threadIdx.x"))
            if rng.integers(2):
                s[shared].storage_align(compute_of(shared).axis[0], 4, 1)
    return s, [A, B, D], lambda a, b: np.maximum(a @ b, 0)


@pytest.mark.parametrize("seed", range(16))
def test_random_gpu_tilings_keep_the_meaning(seed: int, check: Check) -> None:
    check(*_random_gpu_matmul(np.random.default_rng(seed)))
