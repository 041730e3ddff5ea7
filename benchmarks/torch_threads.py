"""Kernels beside PyTorch's operations, on autosched's own threads and on PyTorch's.

    python benchmarks/torch_threads.py              # five layers, 32 trials each

Each layer is tuned as an operator and called after a `relu` of PyTorch's, and alone: on the workers
of the pool, on PyTorch's threads (`runtime/team_ir.py`), and by PyTorch. All are called in turns in
one process. On a machine that others use compare medians: a team waits for threads without a core.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import autosched.torch
from autosched.runtime.parallel import on_workers

_ROUNDS = 40
_CALLS = 8  # of a round

LAYERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "conv2d 28x28, 128 to 128": lambda: (
        nn.Conv2d(128, 128, 3, padding=1),
        torch.randn(1, 128, 28, 28),
    ),
    "conv2d 1x1 56x56, 64 to 256": lambda: (nn.Conv2d(64, 256, 1), torch.randn(1, 64, 56, 56)),
    "depthwise 7x7 56x56, 96": lambda: (
        nn.Conv2d(96, 96, 7, padding=3, groups=96),
        torch.randn(1, 96, 56, 56),
    ),
    "layer_norm 512x768": lambda: (nn.LayerNorm(768), torch.randn(512, 768)),
    "linear 8x768x3072": lambda: (nn.Linear(768, 3072), torch.randn(8, 768)),
}


class Beside(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A layer beside an operation that has no kernel."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, other: Any) -> tuple[Any, Any]:
        """What the layer computes, and an operation of PyTorch's on both cores before it."""
        return torch.relu(other), self.layer(x)


def in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """The microseconds of each call, sorted; the threads rest between rounds."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            time.sleep(0.02)
            call()
            start = time.perf_counter()
            for _ in range(_CALLS):
                call()
            found[name].append((time.perf_counter() - start) / _CALLS * 1e6)
    return {name: sorted(times) for name, times in found.items()}


def compare(name: str, trials: int) -> None:
    """Print the times of one layer."""
    torch.manual_seed(0)
    layer, x = LAYERS[name]()
    model, other = Beside(layer.eval()).eval(), torch.randn(64, 20000)
    tuned = autosched.tune(autosched.torch.tasks_of(model, x, other).tasks, trials=trials)
    fast = autosched.torch.with_kernels(model, tuned, x, other)
    alone = autosched.torch.with_kernels(layer, tuned, x)
    own = on_workers(fast)
    times = in_turns(
        {
            "after relu: workers": lambda: own(x, other),
            "PyTorch's threads": lambda: fast(x, other),
            "PyTorch": lambda: model(x, other),
            "alone: workers": lambda: alone(x),
            "PyTorch alone": lambda: layer(x),
        }
    )
    told = [f"{way} {found[0]:.0f}, {statistics.median(found):.0f}" for way, found in times.items()]
    print(f"{name:28} {'; '.join(told)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=32)
    options = parser.parse_args()
    print("fastest and median us")
    with torch.no_grad():
        for name in LAYERS:
            compare(name, options.trials)


if __name__ == "__main__":
    main()
