"""A model in which kernels compute what they were tuned for, and what is told of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from autosched.errors import ConfigError
from autosched.torch.matches import LeftOut
from autosched.torch.model_graph import apart
from autosched.torch.registry import registered
from autosched.torch.tables import left_out_lines, table
from autosched.words import count


@dataclass(frozen=True, slots=True)
class Replaced:
    """A kernel in a model: what it computes of which inputs, where, and its operator's name."""

    kind: str
    inputs: str
    place: str
    operator: str


@dataclass(frozen=True, slots=True)
class Report:
    """What kernels compute in a model, and what PyTorch goes on computing."""

    replaced: tuple[Replaced, ...]
    left_out: tuple[LeftOut, ...]

    def __str__(self) -> str:
        places: dict[tuple[str, str, str], list[str]] = {}
        for r in self.replaced:
            places.setdefault((r.kind, r.inputs, r.operator), []).append(r.place)
        rows = [
            (f"{len(found)}x", kind, inputs, operator, ", ".join(found))
            for (kind, inputs, operator), found in places.items()
        ]
        calls = f"{count(len(self.replaced), 'call')} of {count(len(rows), 'kernel')}"
        head = f"{calls}, {count(len(self.left_out), 'operation')} left to PyTorch"
        return "\n".join([head, *table(rows), *left_out_lines(self.left_out)])


class WithKernels(torch.nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """What `with_kernels` returns: called as the model is, without gradients.

    Arguments of other shapes or types than the examples' go to the model as it was, which a
    warning says once. `report` tells what was replaced. What is pickled is loaded where the same
    operators are: in a process that called `with_kernels` with the same records.
    """

    def __init__(self, model: Any, graph: Any, examples: Sequence[Any], report: Report) -> None:
        super().__init__()
        self.graph_module = graph
        self.report = report
        self._model = (model,)  # no part of this one: its weights would be there twice
        self._examples = tuple(map(_kind, examples))
        self._strides = list(map(_strides, examples))
        self._told = False
        self.eval()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the model computes."""
        with torch.no_grad():
            if named or tuple(map(_kind, inputs)) != self._examples:
                self._tell(inputs, named)
                return self._model[0](*inputs, **named)
            stored = map(_stored, inputs, self._strides)
            if not torch.is_autocast_enabled("cpu"):
                return self.graph_module(*stored)
            with torch.autocast("cpu", enabled=False):  # kernels are for the types of the trace
                return self.graph_module(*stored)

    def extra_repr(self) -> str:
        """The report's first line."""
        return str(self.report).partition("\n")[0]

    def __getstate__(self) -> dict[str, Any]:
        """What pickle stores; the operators come first, since the graph needs them."""
        names = tuple(dict.fromkeys(r.operator for r in self.report.replaced))
        return {"_operators": _Operators(names), **self.__dict__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        del state["_operators"]
        super().__setstate__(state)

    def _tell(self, inputs: Sequence[Any], named: dict[str, Any]) -> None:
        if self._told or torch.compiler.is_compiling():
            return
        self._told = True
        wanted = ", ".join(map(_text, self._examples))
        found = [_text(_kind(value)) for value in inputs]
        found += [f"{name}={_text(_kind(value))}" for name, value in named.items()]
        warnings.warn(
            f"the kernels of this model are for the arguments ({wanted}), found "
            f"({', '.join(found)}); the model as it was computes these: tune it for them with "
            "autosched.torch.tasks_of, and give with_kernels such examples",
            stacklevel=5,  # who calls the module, beyond PyTorch's two functions
        )


class _Operators(NamedTuple):
    """The names of the operators of a model, which are looked for when it is loaded."""

    names: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _operators_here, (self.names,)


def _operators_here(names: tuple[str, ...]) -> _Operators:
    """Raises ConfigError where an operator is missing."""
    known = registered()
    missing = [name for name in names if name not in known]
    if missing:
        raise ConfigError(
            "a model with kernels: expected the operators that it was saved with, this process has "
            f"no {', '.join(missing)}; call autosched.torch.with_kernels(model, records, "
            "*example_inputs) here, and use what it returns"
        )
    return _Operators(names)


def _kind(value: Any) -> Any:
    """What kernels depend on: shape, type, device and layout of a tensor, or value and its type."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype, value.device.type, value.layout
    return type(value), value


def _strides(value: Any) -> Any:
    """How the graph expects the argument stored; None where nothing tells it."""
    dense = isinstance(value, torch.Tensor) and value.layout == torch.strided
    return apart(value).stride() if dense else None


def _stored(value: Any, strides: Any) -> Any:
    """The tensor stored as the example was, so that views of it are what they were."""
    if strides is None or value.stride() == strides:
        return value
    return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)


def _text(kind: Any) -> str:
    if len(kind) == 2:
        return repr(kind[1])
    shape, dtype, device, layout = kind
    where = "" if device == "cpu" else f" on {device}"
    how = "" if layout == torch.strided else f" of the layout {layout}"
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}{where}{how}"
