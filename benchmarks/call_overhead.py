"""The overhead of a kernel call before the kernel starts, for several ways to call it.

Run: python benchmarks/call_overhead.py [--size 8] [--rounds 200] [--calls 200]

The kernel is an addition of two small vectors. The ways to call it are timed in turns, `calls`
calls in a row, and the median over the rounds is printed. The last column subtracts the kernel's
own time, measured in a native loop. Disturbances that last longer than a turn affect all ways
alike. PyTorch tensors are among the arguments if PyTorch is installed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import autosched
from autosched.driver import build_steps
from autosched.runtime.cpu import CpuKernel, load

Way = Callable[[], Any]


class Dlpack:
    """A tensor of another library that offers only __dlpack__, as cheaply as NumPy does."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.__dlpack__ = array.__dlpack__
        self._device = array.__dlpack_device__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class Interface:
    """A tensor of another library that offers only __array_interface__."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    kernel = _kernel(options.size)
    a, b, c = (autosched.empty(options.size) for _ in range(3))
    a[:], b[:] = 1, 2
    bound = kernel.bind(a, b, c)
    tensors = [Dlpack(array) for array in (a, b, c)]
    shared = [Interface(array) for array in (a, b, c)]
    ways: dict[str, Way] = {
        "kernel(a, b, c), checked": lambda: kernel(a, b, c),
        "kernel.bind(a, b, c).run()": bound.run,
        "numpy.add(a, b, c)": lambda: np.add(a, b, c),
        "kernel(a, b, c) of __dlpack__": lambda: kernel(*tensors),
        "kernel(a, b, c) of __array_interface__": lambda: kernel(*shared),
        "kernel(A=a, B=b, C=c)": lambda: kernel(A=a, B=b, C=c),
        "kernel(a, b, out=c)": lambda: kernel(a, b, out=c),
        "c = kernel(a, b)": lambda: kernel(a, b),
    }
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        x, y, z = (torch.from_numpy(array) for array in (a, b, c))
        ways["kernel(x, y, z) of PyTorch's tensors"] = lambda: kernel(x, y, z)
        ways["z = kernel(x, y) of PyTorch's tensors"] = lambda: kernel(x, y)
        ways["torch.add(x, y, out=z)"] = lambda: torch.add(x, y, out=z)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            times[name].append(_microseconds(way, options.calls))
    own = bound.time_ns(100_000) / 100_000 / 1e3
    print(f"the kernel itself: {own:.3f} us; medians of {options.rounds} rounds, microseconds")
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:42} {median:7.3f} {max(0.0, median - own):7.3f}")


def _kernel(size: int) -> CpuKernel:
    task = autosched.Task.from_expression("C[i] = A[i] + B[i]", {"A": (size,), "B": (size,)})
    return load(build_steps(task.dag, (), task.target))


def _microseconds(way: Way, calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        way()
    return (time.perf_counter_ns() - start) / calls / 1e3


if __name__ == "__main__":
    main()
