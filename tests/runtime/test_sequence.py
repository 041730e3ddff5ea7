"""Kernels that run one after the other in one native call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from autosched.runtime.cpu import CpuKernel, build_artifact, load
from autosched.runtime.memory import empty
from autosched.runtime.parallel import ensure_pool
from autosched.runtime.quick_call import UNFIT
from autosched.runtime.sequence import Argument, Intermediate, Place, Step, _offsets, sequence
from autosched.target import cpu_target
from autosched.tir.buffer import decl_buffer
from autosched.tir.conversion import const
from autosched.tir.expr import BufferLoad, IntImm, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.op import lt
from autosched.tir.stmt import AssertStmt, BufferStore, For, ForKind
from kit.seeds import each_seed

Array = np.ndarray[Any, Any]
N = 24


def kernel_of(factor: float, threads: int = 1, limit: float = np.inf) -> CpuKernel:
    """C[i] = A[i] + factor * B[i]; it fails unless A[0] < limit."""
    a, b, c = (decl_buffer((N,), "float32", name) for name in "ABC")
    handles = [pointer(f"{x.name}_handle", x.dtype) for x in (a, b, c)]
    i = Var("i")
    value = BufferLoad(a, (i,)) + const(factor, "float32") * BufferLoad(b, (i,))
    kind = ForKind.PARALLEL if threads > 1 else ForKind.SERIAL
    body: Any = For(i, IntImm(0), IntImm(N), kind, BufferStore(c, value, (i,)))
    if limit < np.inf:
        fine = lt(BufferLoad(a, (IntImm(0),)), const(limit, "float32"))
        body = AssertStmt(fine, "too large", body)
    bound = dict(zip(handles, (a, b, c), strict=True))
    func = PrimFunc(tuple(handles), body, bound, {"global_symbol": "add"})
    return load(build_artifact(func, cpu_target(threads)))


@pytest.fixture(scope="module")
def kernels() -> list[CpuKernel]:
    return [kernel_of(factor) for factor in (1.0, 2.0, -1.0)]


def arrays(number: int) -> list[Array]:
    made = [empty((N,), np.dtype(np.float32)) for _ in range(number)]
    for k, array in enumerate(made):
        array[:] = np.arange(k, k + N)
    return made


def made(steps: Sequence[tuple[CpuKernel, Sequence[Place]]], arguments: int) -> Any:
    return sequence([Step(k, tuple(places)) for k, places in steps], [(N,)] * arguments)


def test_what_only_steps_read_is_no_argument(kernels: list[CpuKernel]) -> None:
    one, two, less = kernels
    a, b, c = map(Argument, range(3))
    call = made(
        [
            (one, (a, b, Intermediate(0))),
            (two, (Intermediate(0), a, Intermediate(1))),
            (less, (Intermediate(1), Intermediate(0), c)),
        ],
        3,
    )
    x, y, z = arrays(3)
    assert call((x, y, z)) == 0
    np.testing.assert_array_equal(z, 2 * x)


@each_seed(20)
def test_random_steps(kernels: list[CpuKernel], seed: int) -> None:
    """Results are read at any distance, so that memory is used again as it becomes free."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 12))
    inputs = min(3, number)
    outputs = sorted({number - 1, *rng.integers(number, size=2).tolist()})
    place_of: dict[int, Place] = {k: Argument(inputs + n) for n, k in enumerate(outputs)}
    given = arrays(inputs + len(outputs))
    values: list[tuple[Place, Array]] = [(Argument(k), given[k].copy()) for k in range(inputs)]
    steps = []
    for k in range(number):
        factor = int(rng.integers(3))
        first = k if k < inputs else int(rng.integers(len(values)))  # all inputs are read
        (p, left), (q, right) = (values[n] for n in (first, int(rng.integers(len(values)))))
        place = place_of.get(k, Intermediate(k))
        steps.append((kernels[factor], (p, q, place)))
        values.append((place, left + np.float32((1.0, 2.0, -1.0)[factor]) * right))
    assert made(steps, len(given))(tuple(given)) == 0
    for n, k in enumerate(outputs):
        np.testing.assert_array_equal(given[inputs + n], values[inputs + k][1])


def test_memory_is_used_again(kernels: list[CpuKernel]) -> None:
    places: list[Place] = [Argument(0), *map(Intermediate, range(9)), Argument(1)]
    steps = [Step(kernels[0], (p, p, q)) for p, q in pairwise(places)]
    offsets, room = _offsets(steps)
    assert len(offsets) == 9 and room == 128 + 4 * N  # two at a time, at multiples of 64 bytes
    call = sequence(steps, [(N,)] * 2)
    x, y = arrays(2)
    assert call((x, y)) == 0
    np.testing.assert_array_equal(y, 1024 * x)


def test_nothing_runs_where_an_argument_does_not_fit(kernels: list[CpuKernel]) -> None:
    a, b, c = map(Argument, range(3))
    call = made([(kernels[0], (a, a, Intermediate(0))), (kernels[0], (Intermediate(0), b, c))], 3)
    x, y, z = arrays(3)
    before = z.copy()
    wrong = [(x, y), (x, y[:-1], z), (x.astype(np.float64), y, z), (z, y, z), (x, y[::-1], z)]
    for given in wrong:
        assert call(given) == UNFIT
    np.testing.assert_array_equal(z, before)
    assert call((x, x, z)) == 0


def test_another_shape_with_as_many_elements(kernels: list[CpuKernel]) -> None:
    places = Argument(0), Argument(0), Argument(1)
    call = sequence([Step(kernels[0], places)], [(4, 6), (N,)])
    x, y = arrays(2)
    assert call((x.reshape(4, 6), y)) == 0
    np.testing.assert_array_equal(y, 2 * x)
    assert call((x, y)) == UNFIT


def test_a_step_that_fails_is_the_last(kernels: list[CpuKernel]) -> None:
    a, b, c = map(Argument, range(3))
    call = made(
        [
            (kernels[0], (a, a, b)),
            (kernel_of(1.0, limit=5), (b, b, Intermediate(1))),
            (kernels[0], (Intermediate(1), a, c)),
        ],
        3,
    )
    x, y, z = arrays(3)
    assert call((x, y, z)) == 0
    np.testing.assert_array_equal(z, 5 * x)
    x += 3
    before = z.copy()
    assert call((x, y, z)) == 1
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(z, before)


def test_steps_with_threads_and_without(kernels: list[CpuKernel]) -> None:
    a, b = Argument(0), Argument(1)
    call = made(
        [(kernels[0], (a, a, Intermediate(0))), (kernel_of(2.0, 2), (Intermediate(0), a, b))], 2
    )
    x, y = arrays(2)
    ensure_pool(1)
    assert call((x, y)) == UNFIT  # until the threads are there
    ensure_pool(2)
    assert call((x, y)) == 0
    np.testing.assert_array_equal(y, 4 * x)
