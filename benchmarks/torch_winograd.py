"""Convolutions of a model by Winograd's algorithm, compared with direct ones and PyTorch's.

    python benchmarks/torch_winograd.py                         # 3x3 convolutions of ResNet-18
    python benchmarks/torch_winograd.py --trials 64 --tiles 2 4 6 --shapes 64x56 512x7

Each shape is a convolution with bias and ReLU for one image. Each way is tuned, and all ways are
called in turns in one process. `error` is the largest difference from float64, relative to the
largest result. On a shared machine compare the fastest calls.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import autosched.torch

_ROUNDS = 200
_CALLS = 2  # seconds of a round
_FIRST = 5  # untimed calls


def model_of(channels: int, size: int) -> tuple[Any, Any]:
    """A convolution with bias and ReLU, and an input for it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()).eval()
    return model, torch.randn(1, channels, size, size)


def in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """The milliseconds of each call, sorted."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(_FIRST):
            call()
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            call()
            start = time.perf_counter()
            for _ in range(_CALLS):
                call()
            found[name].append((time.perf_counter() - start) / _CALLS * 1e3)
    return {name: sorted(times) for name, times in found.items()}


def compare(channels: int, size: int, tiles: list[int], trials: int, runs: int) -> None:
    """Print a line for each way to compute the convolution."""
    model, x = model_of(channels, size)
    ways: dict[str, Any] = {"PyTorch": model}
    direct = autosched.torch.tasks_of(model, x)
    for name, tile in (("direct", 0), *((f"winograd {tile}", tile) for tile in tiles)):
        known = direct if tile == 0 else autosched.torch.tasks_of(model, x, winograd=tile)
        task = known.tasks[-1]
        best = min(
            (autosched.tune(task, trials=trials, seed=seed).best for seed in range(runs)),
            key=lambda each: each.seconds,
        )
        ways[name] = autosched.torch.with_kernels(model, best, x)
    exact = copy.deepcopy(model).double()(x.double())
    times = in_turns({name: lambda way=way: way(x) for name, way in ways.items()})  # type: ignore[misc]  # a default of its own for each
    for name, found in times.items():
        error = float((ways[name](x).double() - exact).abs().max() / exact.abs().max())
        told = f"{found[0]:8.3f} {statistics.median(found):8.3f}  {error:.1e}"
        print(f"{channels:4} {size}x{size}  {name:12} {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="+", default=["64x56", "128x28", "256x14", "512x7"])
    parser.add_argument("--tiles", nargs="+", type=int, default=[4])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--runs", type=int, default=1, help="tunes of each; the best is taken")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("channels, image; least and median ms; error")
    with torch.no_grad():
        for shape in options.shapes:
            channels, size = map(int, shape.split("x"))
            compare(channels, size, options.tiles, options.trials, options.runs)


if __name__ == "__main__":
    main()
