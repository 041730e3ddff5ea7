"""Tune a convolution and a matrix product of a PyTorch module, and put them in their place.

Run: python examples/torch_module.py [--trials 64] [--records torch_module.jsonl] [--threads 2]

It prints the largest difference between the module as it was and with the tuned operators, eager
and inside torch.compile, and what each operator and each module takes, timed in turns. Records are
kept: a second run continues from them, and with --trials 0 nothing is measured.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import autosched
import autosched.torch
from autosched.target import cpu_target

IMAGE, CHANNELS, FEATURES, CLASSES = 28, (32, 64), 512, 256


class Net(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A convolution, a pooling and two layers, as many networks have them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv: Any = nn.Conv2d(*CHANNELS, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.hidden: Any = nn.Linear(16 * CHANNELS[1], FEATURES)
        self.last = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Any) -> Any:
        """Scores of images, channels first."""
        x = torch.relu(self.conv(x))
        x = torch.relu(self.hidden(self.pool(x).flatten(1)))
        return self.last(x)


class TunedConv2d(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """The convolution of `conv`, computed by a tuned operator, channels last."""

    def __init__(self, conv: Any, operator: Any) -> None:
        super().__init__()
        self.operator = operator
        self.register_buffer("weight", conv.weight.detach().permute(2, 3, 1, 0).contiguous())
        self.register_buffer("bias", conv.bias.detach())

    def forward(self, x: Any) -> Any:
        """`conv(x)`; nothing is copied where `x` is in torch.channels_last."""
        y = self.operator(x.permute(0, 2, 3, 1).contiguous(), self.weight).add_(self.bias)
        return y.permute(0, 3, 1, 2)


class TunedLinear(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """The product of `linear`, computed by a tuned operator."""

    def __init__(self, linear: Any, operator: Any) -> None:
        super().__init__()
        self.operator = operator
        self.register_buffer("weight", linear.weight.detach().t().contiguous())
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, x: Any) -> Any:
        """`linear(x)`."""
        return self.operator(x.contiguous(), self.weight).add_(self.bias)


def main() -> None:
    """Tune, replace, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=64, help="candidates for each operator")
    parser.add_argument("--records", type=Path, default=Path("torch_module.jsonl"))
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.manual_seed(0)
    net = Net().eval()
    images = torch.randn(options.batch, CHANNELS[0], IMAGE, IMAGE)
    images = images.contiguous(memory_format=torch.channels_last)

    ci, co = CHANNELS
    sizes = {"N": options.batch, "H": IMAGE, "W": IMAGE, "CI": ci, "CO": co, "KH": 3, "KW": 3}
    of = partial(autosched.Task.from_workload, target=cpu_target(options.threads))
    tasks = [
        of("conv2d_nhwc", **sizes, stride=1, padding=1),
        of("matmul", M=options.batch, N=FEATURES, K=16 * co),
    ]
    if options.trials:
        trials = options.trials * len(tasks)
        result = autosched.tune(tasks, trials=trials, records=options.records)
        for tuned_task in result:
            print(tuned_task)
    autosched.torch.register(options.records)
    threads = tasks[0].target.threads
    torch.set_num_threads(threads)
    print(f"{threads} threads on both sides; medians of {options.rounds} turns")

    tuned = Net().eval()
    tuned.load_state_dict(net.state_dict())
    tuned.conv = TunedConv2d(net.conv, torch.ops.autosched.conv2d_nhwc_padding1)
    tuned.hidden = TunedLinear(net.hidden, torch.ops.autosched.matmul)
    features = torch.randn(options.batch, 16 * co)
    with torch.inference_mode():
        backend = "inductor" if shutil.which("g++") else "aot_eager"  # inductor compiles C++
        modules = {"PyTorch": net, "autosched": tuned}
        compiled = {name: torch.compile(m, backend=backend) for name, m in modules.items()}
        wanted = net(images)
        for name, module in {"eager": tuned, "compiled": compiled["autosched"]}.items():
            error = float((module(images) - wanted).abs().max() / wanted.abs().max())
            print(f"{name} with tuned operators: differs by {error:.1e} of the largest score")
            assert error < 1e-4
        compare("convolution", images, {"PyTorch": net.conv, "autosched": tuned.conv}, options)
        linear = {"PyTorch": net.hidden, "autosched": tuned.hidden}
        compare("linear layer", features, linear, options)
        compare("module, eager", images, modules, options)
        compare(f"module, {backend}", images, compiled, options)


def compare(
    what: str, x: Any, ways: Mapping[str, Callable[[Any], Any]], options: argparse.Namespace
) -> None:
    """Print what each way takes, called in turns: the fastest of ten calls, to be left alone."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(options.rounds + 1):
        for name, way in ways.items():
            calls = [_seconds(way, x) for _ in range(10)]
            if round_number:  # the first one warms up
                times[name].append(min(calls) * 1e6)
    medians = {name: statistics.median(found) for name, found in times.items()}
    text = ", ".join(f"{name} {median:8.1f} us" for name, median in medians.items())
    print(f"{what:18} {text}, {medians['PyTorch'] / medians['autosched']:.2f} times the speed")


def _seconds(way: Callable[[Any], Any], x: Any) -> float:
    start = time.perf_counter()
    way(x)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
