"""Matmuls by tensor instructions against PyTorch's (oneDNN), in turns, and the measured peak.

    python benchmarks/tensor_instructions.py --types int8 --size 512 --candidates 8

For each sketch that uses the best instruction of the types, `--candidates` random candidates are
built and run; the fastest is then timed in turns with torch._int_mm (int8) or a @ b (bfloat16,
whose result PyTorch rounds to bfloat16; ours stays float32). Lower quartiles.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from autosched import te
from autosched.driver import build_steps
from autosched.measure.instruction_peak import instruction_peak
from autosched.runtime.cpu import CpuKernel, load
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.steps import InstructionStep
from autosched.target import cpu_target
from autosched.te.intrin.registry import available, instruction

Array = np.ndarray[Any, Any]
SUMS = {"int8": "int32", "bfloat16": "float32"}


def matmul(dtype: str, size: int) -> ComputeDAG:
    """C = A * B in the type of sums."""
    a, b = (te.placeholder((size, size), dtype, name) for name in "AB")
    k, sums = te.reduce_axis((0, size), "k"), SUMS[dtype]
    c = te.compute(
        (size, size),
        lambda i, j: te.sum(a[i, k].astype(sums) * b[k, j].astype(sums), axis=k),
        "C",
    )
    return ComputeDAG([a, b, c])


def seconds(run: Callable[[], object], turns: int = 5) -> float:
    """The shortest of some runs."""
    run()
    found = []
    for _ in range(turns):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def in_turns(runs: list[Callable[[], object]], turns: int = 60) -> list[float]:
    """The lower quartile of each, visited in turn."""
    found: list[list[float]] = [[] for _ in runs]
    for _ in range(turns):
        for own, run in zip(found, runs, strict=True):
            start = time.perf_counter()
            run()
            run()
            own.append((time.perf_counter() - start) / 2)
    return [sorted(own)[len(own) // 4] for own in found]


def fastest(
    space: SearchSpace, inputs: list[Array], out: Array, each: int
) -> tuple[str, CpuKernel]:
    """The fastest of some candidates of each sketch with an instruction, and which that is."""
    rng = np.random.default_rng(0)
    best: tuple[float, str, CpuKernel] | None = None
    for sketch in space.sketches:
        step = next((s for s in sketch.steps if isinstance(s, InstructionStep)), None)
        if step is None:
            continue
        for steps in space.sample(rng, each, sketch=sketch)[:each]:
            kernel = load(
                build_steps(space.context.dag, steps, cpu_target(torch.get_num_threads()))
            )
            took = seconds(lambda kernel=kernel: kernel(*inputs, out))  # type: ignore[misc]  # bound
            if best is None or took < best[0]:
                best = took, step.instruction, kernel
    if best is None:
        raise SystemExit("this machine has no tensor instruction of these types")
    return best[1], best[2]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", choices=list(SUMS), default="int8")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--candidates", type=int, default=8)
    options = parser.parse_args()
    size, dtype = options.size, options.types
    target, dag = cpu_target(torch.get_num_threads()), matmul(options.types, options.size)
    context = Context(dag, target.hardware, False, SearchOptions(), available(target))
    rng = np.random.default_rng(0)
    numpy_type = dag.tensors[0].dtype.numpy
    inputs = [rng.integers(-100, 100, (size, size)).astype(numpy_type) for _ in range(2)]
    out = np.zeros((size, size), dag.tensors[2].dtype.numpy)
    name, kernel = fastest(SearchSpace.of(context), inputs, out, options.candidates)
    if dtype == "int8":
        a, b = (torch.from_numpy(x) for x in inputs)
        theirs: Callable[[], object] = lambda: torch._int_mm(a, b)  # noqa: E731
        expected = torch._int_mm(a, b).numpy()
    else:
        a, b = (torch.from_numpy(x.astype(np.float32)).bfloat16() for x in inputs)
        theirs = lambda: a @ b  # noqa: E731
        expected = inputs[0].astype(np.float32) @ inputs[1].astype(np.float32)
    kernel(*inputs, out)
    np.testing.assert_array_equal(out, expected)
    ours, torch_seconds = in_turns([lambda: kernel(*inputs, out), theirs])
    rate = 2 * size**3 / ours
    print(
        f"{name} {dtype} {size}: {ours * 1e3:.4f} ms, {rate / 1e9:.0f} GOPS; "
        f"PyTorch {torch_seconds * 1e3:.4f} ms, ours is {torch_seconds / ours:.2f} times as fast"
    )
    peak = instruction_peak(target, instruction(name))
    if peak:
        print(f"{rate / peak:.2f} of the instruction's peak, {peak / 1e9:.0f} GOPS")


if __name__ == "__main__":
    main()
