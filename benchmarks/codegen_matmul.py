"""The speed of compiled matrix multiplications against NumPy's, timed in turns in one process.

    python benchmarks/codegen_matmul.py [--sizes 512 1024] [--rounds 21]

Each line is one schedule of Ansor's plain space (no packing), given by the tile of i and j and the
block of k. The share is NumPy's time over ours, from the lower quartiles of interleaved rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

# OpenBLAS's threads would otherwise spin for 27 ms after each call, on a core our kernels need.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import numpy as np

from autosched import te
from autosched.codegen.llvm import compile_object, emit_llvm
from autosched.driver import lower
from autosched.measure.result import lower_quartile
from autosched.runtime.cpu import aligned_empty, artifact_of, load
from autosched.target import Target, cpu_target
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule


@dataclass(frozen=True)
class Tiles:
    """Rows and columns of one parallel task and of its inner tile, and the block of k."""

    rows: int
    columns: int
    inner_rows: int
    inner_columns: int
    depth: int


TILES = (
    Tiles(64, 128, 8, 64, 64),
    Tiles(128, 64, 16, 32, 128),
    Tiles(256, 64, 8, 64, 256),
    Tiles(32, 256, 4, 64, 32),
    Tiles(128, 128, 8, 16, 16),
)


def schedule(n: int, tiles: Tiles) -> tuple[Schedule, list[Tensor]]:
    """C = A B over n x n matrices in Ansor's SSRSRS structure."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = te.create_schedule(c.op)
    stage = sch[c]
    i, j = c.op.axis
    i0, i1 = stage.split(i, factor=tiles.rows)
    i1, i2 = stage.split(i1, factor=tiles.inner_rows)
    j0, j1 = stage.split(j, factor=tiles.columns)
    j1, j2 = stage.split(j1, factor=tiles.inner_columns)
    k0, k1 = stage.split(k, factor=tiles.depth)
    stage.reorder(i0, j0, k0, i1, j1, k1, i2, j2)
    stage.parallel(stage.fuse(i0, j0))
    stage.vectorize(j2)
    return sch, [a, b, c]


def kernel(n: int, tiles: Tiles, target: Target) -> tuple[Callable[..., object], str]:
    """The loaded kernel, and a text about its build."""
    sch, args = schedule(n, tiles)
    start = time.perf_counter()
    func = lower(sch, args, target, "matmul")
    lowered = time.perf_counter()
    text = emit_llvm(func, target)
    emitted = time.perf_counter()
    code = compile_object(text, target)
    done = time.perf_counter()
    took = (
        f"lower {1e3 * (lowered - start):.0f}, emit {1e3 * (emitted - lowered):.0f}, "
        f"LLVM {1e3 * (done - emitted):.0f} ms"
    )
    return load(artifact_of(func, code, target.threads)), took


def measure(n: int, rounds: int, target: Target) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (aligned_empty((n, n)) for _ in range(3))
    a[...], b[...] = rng.random((n, n)), rng.random((n, n))
    expected = a @ b
    calls: list[tuple[str, Callable[[], float]]] = []

    def numpy_once() -> float:
        start = time.perf_counter_ns()
        np.matmul(a, b, out=c)
        return time.perf_counter_ns() - start

    calls.append(("NumPy", numpy_once))
    for tiles in TILES:
        loaded, took = kernel(n, tiles, target)
        c[...] = 0
        loaded(a, b, c)
        error = float(np.abs(c - expected).max() / expected.max())
        assert error < 1e-5, f"{tiles}: wrong by {error}"
        timer = loaded.timer(a, b, c)  # type: ignore[attr-defined]
        calls.append((f"{tiles}  ({took})", partial(timer, 1)))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for (_, call), samples in zip(calls, times, strict=True):
            call()  # Warm up, because the other kernels have used the caches since.
            samples.append(call())
    reference = lower_quartile(times[0])
    print(f"{n} x {n} x {n}, {target.threads} threads")
    for (name, _), samples in zip(calls, times, strict=True):
        quartile = lower_quartile(samples)
        share = reference / quartile
        print(f"  {2 * n**3 / quartile:7.1f} GFLOP/s  {share:5.2f} of NumPy  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    for n in options.sizes:
        measure(n, options.rounds, cpu_target())


if __name__ == "__main__":
    main()
