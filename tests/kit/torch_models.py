"""PyTorch models, and checks that models with untuned kernels compute the same."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

import autosched.torch
from autosched.session.tuned import TunedKernel
from autosched.task import Task
from autosched.torch.matches import RULES
from autosched.torch.model_graph import exported
from autosched.torch.sequences import writes
from kit.exporting import record

Tensor = Any


def untuned(tasks: Sequence[Task]) -> list[TunedKernel]:
    """Kernels whose loops are as the computation states them."""
    return [TunedKernel(task, record(task)) for task in tasks]


def drawn(*shapes: Sequence[int], seed: int = 0) -> tuple[Tensor, ...]:
    """Tensors of normally distributed numbers."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def filled(model: Any, seed: int = 0) -> Any:
    """The model in inference mode, with random floating-point parameters and statistics."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
    return model.eval()


class Calls(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A model that calls a function with the modules it holds, if any, and its inputs."""

    def __init__(self, function: Any, *modules: Any) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*self.parts, *inputs)


class Residual(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """Two convolutions plus the input, with in-place activations."""

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first: Any = nn.Conv2d(channels, wider, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(wider)
        self.second: Any = nn.Conv2d(wider, wider, 3, 1, 1)
        self.norm2 = nn.BatchNorm2d(wider)
        self.down: Any = nn.Conv2d(channels, wider, 1, stride)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.first(x)))
        return self.act(self.norm2(self.second(y)) + self.down(x))


def small_cnn() -> Any:
    return filled(
        nn.Sequential(
            nn.Conv2d(3, 5, 3, padding=1),
            nn.BatchNorm2d(5),
            nn.ReLU(inplace=True),
            Residual(5, 7, 2),
            nn.MaxPool2d(3, 2, 1, ceil_mode=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(7, 4),
            nn.Softmax(-1),
        )
    )


class Transformer(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A transformer block whose attention is written as products and a softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = batch, length, self.heads, width // self.heads
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        weights = torch.softmax(q @ k.transpose(-1, -2) / shape[-1] ** 0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Counting(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A model that changes its weights at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.weight.add_(1)
        return F.linear(x, self.weight)


class Cell(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A recurrent cell that keeps its state in a buffer and returns what `kind` says."""

    state: Any

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.linear: Any = nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(2, 4))

    def forward(self, x: Tensor) -> Any:
        before = self.state
        after = torch.tanh(self.linear(x) + before)
        if self.kind == "in place":
            self.state.copy_(after)
            return self.state + 0, self.state.T, before.view(-1)
        if self.kind == "in other strides":
            self.state = after.T.contiguous().T
            return self.state
        kept = before.clone()
        self.state = after
        found = {
            "new": after,
            "part of new": (self.state[0], after),
            "old and copied": (kept, self.state),
            "old": before,
            "part of old": before[0].view(2, 2),
        }
        return found[self.kind]


class Cache(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A linear layer of all that was given so far, which a buffer keeps."""

    cache: Any

    def __init__(self) -> None:
        super().__init__()
        self.linear: Any = nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        self.cache.index_copy_(0, position, x)
        return self.linear(self.cache)


class Looking(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """An attention that keeps its weights to be looked at."""

    weights: Any

    def __init__(self) -> None:
        super().__init__()
        self.linear: Any = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        weights = (self.linear(x) @ x.mT).softmax(-1)
        self.weights = weights.detach()
        return weights @ x


class Growing(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A table of angles that grows with the longest input."""

    angles: Any

    def __init__(self) -> None:
        super().__init__()
        self.linear: Any = nn.Linear(4, 4)
        self.length = 0
        self.register_buffer("angles", torch.empty(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            self.angles = torch.cos(torch.arange(self.length)[:, None] * torch.full((4,), 0.1))
        return self.linear(x) * self.angles[: x.shape[1]] + x


class Named(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A model whose arguments may be given in several ways."""

    def __init__(self) -> None:
        super().__init__()
        self.linear: Any = nn.Linear(3, 4)

    def forward(
        self, x: Tensor, mask: Any = None, *more: Tensor, factor: float = 1.0, **others: Tensor
    ) -> Any:
        y = self.linear(x) * factor
        y = y if mask is None else y * mask
        return {"y": sum((*more, *others.values()), y)}


class Decorated(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A model whose decorated `forward` sets an argument by name, as those of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear: Any = nn.Linear(3, 4)

    def compute(self, x: Tensor, mask: Any = None, cached: Any = None, **others: Any) -> Tensor:
        y = self.linear(x) if mask is None else self.linear(x) * mask
        return y if cached else y + 1

    @functools.wraps(compute)
    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        return self.compute(*inputs, **{**named, "cached": False})


class Unnamed(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A model with an argument that no name can give, and which has a default."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: Tensor, factor: float = 2.0, /, bias: Any = None) -> Tensor:
        y = self.linear(x) * factor
        return y if bias is None else y + bias


class Causal(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """The weights of an attention whose mask is a buffer."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(length, length).tril())

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[-2]
        mask = self.mask[:length, :length] == 0
        return (x @ x.mT).masked_fill(mask, -torch.inf).softmax(-1)


class Broken(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A layer at which torch.compile breaks the graph of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear: Any = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return F.relu(self.linear(x))


class Pieces(nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A perceptron that torch.compile splits into two graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Any = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 12))
        self.last: Any = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.first(x)
        torch._dynamo.graph_break()
        return self.last(y).softmax(-1)


def agree(model: Any, *inputs: Any, tolerance: float = 1e-5, **named: Any) -> Any:
    """The model with kernels for all of its tasks, checked to compute the same as the model.

    PyTorch computes none of these tasks any more. The second call, without PyTorch's operators,
    computes the same bits as the first. The model is traced once for both uses, because tracing
    takes most of the time.
    """
    graph = exported(model, inputs, named)
    with pytest.MonkeyPatch.context() as patch:
        for user in ("model_tasks", "with_kernels"):
            module = sys.modules[f"autosched.torch.{user}"]
            patch.setattr(module, "exported", lambda *given: graph)
        tasks = autosched.torch.tasks_of(model, *inputs, layout_rewrite="none", **named)
        records = untuned(tasks.tasks)
        fast = autosched.torch.with_kernels(model, records, *inputs, **named)
    with torch.no_grad():
        wanted = model(*inputs, **named)
    found = fast(*inputs, **named)  # by PyTorch's operators, which this call records
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not any(map(writes, fast.graph_module.graph.nodes)):
        torch.testing.assert_close(fast(*inputs, **named), found, rtol=0, atol=0, equal_nan=True)
    assert fast.report.left_out or not computed_by_pytorch(fast.graph_module)
    return fast


def computed_by_pytorch(graph: Any) -> set[Any]:
    """The operations of this graph that have a kernel but are computed by PyTorch."""
    return {node.target for node in graph.graph.nodes} & RULES.keys()


def nearer(model: Any, dtype: Any, *inputs: Any) -> Any:
    """The model in `dtype` with kernels for all tasks, no farther from float64 than PyTorch.

    An element may be a neighbour of the correctly rounded value. On average kernels err less than
    PyTorch, except in attention, whose weights are rounded whatever their number.
    """
    narrow = copy.deepcopy(model).to(dtype).eval()
    given = [x.to(dtype) for x in inputs]
    fast = agree(narrow, *given, tolerance=0.1)
    wide = copy.deepcopy(narrow).double()
    with torch.no_grad():
        every = fast(*given), narrow(*given), wide(*[x.double() for x in given])
    for found, eager, exact in zip(*map(tree_leaves, every), strict=True):
        errors, others = ((each.double() - exact).abs() for each in (found, eager))
        most = torch.finfo(dtype).eps * (exact.abs() + exact.square().mean().sqrt())
        assert (errors <= most).all()
        assert errors.mean() <= 1.5 * others.mean()
        assert found.dtype == dtype
    return fast
