"""Compare the search space `autosched` with Ansor's: operators without reuse, large matmuls.

    python benchmarks/spaces.py [--trials 32]

Tunes each operator in both spaces. Then both best kernels and NumPy are timed in turns in this
process. Prints medians in microseconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import autosched
from autosched.runtime.cpu import CpuKernel, aligned_copy
from autosched.search.options import SearchOptions, SpaceName
from autosched.task import Task

SPACES: tuple[SpaceName, ...] = ("ansor", "autosched")
PRODUCT = "C[i, j] = sum(k, A[i, k] * B[k, j])"
CASES: list[tuple[str, str, dict[str, list[int]], Callable[..., Any]]] = [
    ("sum of columns", "C[j] = sum(i, A[i, j])", {"A": [1024, 1024]}, lambda a: a.sum(0)),
    ("sum of 8 columns", "C[j] = sum(i, A[i, j])", {"A": [100000, 8]}, lambda a: a.sum(0)),
    ("sum of an axis", "C[i, k] = sum(j, A[i, j, k])", {"A": [64, 256, 64]}, lambda a: a.sum(1)),
    ("sum of rows", "C[i] = sum(j, A[i, j])", {"A": [1024, 1024]}, lambda a: a.sum(1)),
    ("transposition", "C[j, i] = A[i, j]", {"A": [1024, 1024]}, lambda a: a.T.copy()),
    ("permutation", "C[k, j, i] = A[i, j, k]", {"A": [64, 256, 64]}, lambda a: a.T.copy()),
    ("copy", "C[i, j] = A[i, j]", {"A": [1024, 1024]}, lambda a: a.copy()),
    ("matmul", PRODUCT, {"A": [1024, 1024], "B": [1024, 1024]}, lambda a, b: a @ b),
    ("odd matmul", PRODUCT, {"A": [500, 333], "B": [333, 1000]}, lambda a, b: a @ b),
    ("bias", "C[i, j] = A[i, j] + B[j]", {"A": [1024, 1024], "B": [1024]}, lambda a, b: a + b),
]


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=51)
    arguments = parser.parse_args()
    print("| operator | ansor | autosched | NumPy | ansor / autosched | NumPy / autosched |")
    print("|---|---|---|---|---|---|")
    for title, expr, shapes, numpy_version in CASES:
        task = Task.from_expression(expr, shapes)
        inputs = [aligned_copy(array) for array in task.inputs()]
        (output,) = (aligned_copy(array) for array in task.reference(inputs))
        calls: list[Callable[[], Any]] = []
        for space in SPACES:
            found = autosched.tune(task, trials=arguments.trials, search=SearchOptions(space=space))
            kernel = found.best.build()
            assert isinstance(kernel, CpuKernel)
            calls.append(kernel.bind(*inputs, output).run)
        calls.append(partial(numpy_version, *inputs))
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(arguments.repeat):
            for k, call in enumerate(calls):
                times[k].append(_seconds(call))
        ansor, ours, theirs = (1e6 * median(t) for t in times)
        print(
            f"| {title} | {ansor:.0f} | {ours:.0f} | {theirs:.0f} | {ansor / ours:.1f} | "
            f"{theirs / ours:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
