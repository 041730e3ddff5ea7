"""What a call of a model with kernels takes, compared with PyTorch.

    python benchmarks/torch_models.py [--trials 32] [--threads 2] [--models block perceptron ...]

Each model is tuned (`--trials` a task) into a file of `--folder` unless that has it already, and
then called in turns in one process: as it is (eager), by inductor with `--inductor`, with each
kernel called as an operator of PyTorch, and as `with_kernels` returns it. The columns are
microseconds of the fastest of many rounds: other programs only add to them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import autosched
import autosched.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.torch_models import Transformer

_SECONDS = 0.02  # of a round of one way
_ROUNDS = 40

Tensor = Any


class Block(Transformer):
    """A block of a transformer with PyTorch's own attention."""

    def forward(self, x: Tensor) -> Tensor:
        shape = *x.shape[:2], 3, self.heads, x.shape[2] // self.heads
        q, k, v = self.qkv(self.before(x)).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(y)
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Residual(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """Two convolutions plus the input."""

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, wider, 3, stride, 1, bias=False)
        self.norm, self.norm2 = nn.BatchNorm2d(wider), nn.BatchNorm2d(wider)
        self.second = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
        self.down = nn.Conv2d(channels, wider, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.second(functional.relu(self.norm(self.first(x)))))
        return functional.relu(y + self.down(x))


def perceptron() -> tuple[Any, Tensor]:
    """Four small layers on one row."""
    widths = (64, 64, 64, 64, 10)
    layers: list[Any] = []
    for wide, wider in pairwise(widths):
        layers += [nn.Linear(wide, wider), nn.ReLU()]
    return nn.Sequential(*layers), torch.randn(1, 64)


def resnet() -> tuple[Any, Tensor]:
    """Three residual blocks on one small image, channels last."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1),
        nn.ReLU(),
        *(Residual(*sizes) for sizes in ((32, 32, 1), (32, 64, 2), (64, 128, 2))),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    ).to(memory_format=torch.channels_last)
    return model, torch.randn(1, 3, 32, 32).to(memory_format=torch.channels_last)


MODELS: dict[str, Callable[[], tuple[Any, Tensor]]] = {
    "perceptron": perceptron,
    "small block": lambda: (Block(32, 2), torch.randn(1, 8, 32)),
    "block": lambda: (Block(128, 4), torch.randn(1, 64, 128)),
    "resnet": resnet,
}


def in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The microseconds of the fastest round of each call."""
    best = dict.fromkeys(calls, float("inf"))
    numbers: dict[str, int] = {}
    for name, call in calls.items():
        for _ in range(5):
            call()
        start = time.perf_counter()
        call()
        numbers[name] = max(1, int(_SECONDS / (time.perf_counter() - start)))
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(numbers[name]):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / numbers[name] * 1e6)
    return best


def compare(name: str, folder: Path, trials: int, inductor: bool) -> None:
    """Print the line of one model."""
    torch.manual_seed(0)
    model, x = MODELS[name]()
    model.eval()
    found = autosched.torch.tasks_of(model, x)
    path = folder / f"{name.replace(' ', '_')}.{trials}.jsonl"
    if not path.exists():
        number = trials * len(found.tasks)
        autosched.tune(found.tasks, weights=found.weights, trials=number, records=path)
    fast = autosched.torch.with_kernels(model, path, x)
    calls = {"eager": lambda: model(x), "operators": lambda: fast.graph_module(x)}
    if inductor:
        compiled = torch.compile(model)
        calls["inductor"] = lambda: compiled(x)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-3, atol=1e-3)
        times = in_turns({**calls, "with kernels": lambda: fast(x)})
    mine = times["with kernels"]
    told = ", ".join(f"{way} {took:.1f} us" for way, took in times.items())
    ratios = ", ".join(f"{mine / times[way]:.2f} of {way}" for way in calls)
    print(f"{name}: {len(fast.report.replaced)} kernels; {told}; {ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--inductor", action="store_true", help="compare with inductor, too")
    parser.add_argument("--folder", type=Path, help="where records are kept")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name in options.models:
            compare(name, folder, options.trials, options.inductor)


if __name__ == "__main__":
    main()
