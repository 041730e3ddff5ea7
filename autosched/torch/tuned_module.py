"""A model in which kernels compute what they were tuned for, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.utils._pytree import tree_structure, tree_unflatten

from autosched.errors import ConfigError
from autosched.torch.call_arguments import parameters_of
from autosched.torch.direct import Direct
from autosched.torch.model_graph import apart
from autosched.torch.recorded import Report
from autosched.torch.registry import registered
from autosched.user_warning import warn


class WithKernels(torch.nn.Module):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """What `with_kernels` returns: called as the model is, without gradients.

    Arguments of other shapes or types than the examples' go to the model as it was, which a
    warning says once; another says that an argument which asks for a gradient gets none, a third
    that it stays in inference. Another type or device is refused. `report` tells
    what was replaced. What is pickled is loaded where the same operators are: in a process
    that called `with_kernels` with the same records.
    """

    def __init__(
        self,
        model: Any,
        graph: Any,
        results: Any,
        examples: Sequence[Any],
        named_examples: Mapping[str, Any],
        report: Report,
    ) -> None:
        super().__init__()
        self.graph_module = graph
        self._direct = Direct()
        self._results = results  # how its results, a flat sequence, are nested
        self.report = report
        self._model = (model,)  # no part of this one: its weights would be there twice
        self._signature = parameters_of(model)
        self._wanted = _texts(examples, named_examples)
        order = self._signature.by_name(examples, named_examples)
        self._names = tuple(order)
        self._by_position = self._signature.by_position(order)
        self._examples = tuple(map(_kind, order.values()))
        self._strides = list(map(_strides, order.values()))
        self._told: set[str] = set()
        self.eval()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the model computes."""
        if not torch.is_grad_enabled():
            return self._computed(inputs, named, gradients=False)
        with torch.no_grad():
            return self._computed(inputs, named, gradients=True)

    def _computed(self, inputs: Sequence[Any], named: Mapping[str, Any], *, gradients: bool) -> Any:
        """The same; `gradients` are what the caller would have."""
        values = self._in_order(inputs, named)
        if values is None or tuple(map(_kind, values)) != self._examples:
            self._tell_of_others(inputs, named)
            return self._model[0](*inputs, **named)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if gradients and any(tensor.requires_grad for tensor in tensors):
            self._tell_of_gradients()
        if forward_ad._current_level >= 0 and any(map(_has_tangent, tensors)):
            self._tell_of_tangents()
        stored = map(_stored, values, self._strides)
        if not torch.is_autocast_enabled("cpu"):
            return tree_unflatten(self._direct(self.graph_module, *stored), self._results)
        with torch.autocast("cpu", enabled=False):  # kernels are for the types of the trace
            return tree_unflatten(self._direct(self.graph_module, *stored), self._results)

    def _in_order(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any] | None:
        """The arguments in the order of the graph's; None where they are others."""
        if not named and len(inputs) == len(self._names) == self._by_position:
            return inputs
        found = self._signature.by_name(inputs, named)
        if tuple(found) != self._names or self._signature.twice(inputs, named):
            return None
        return list(found.values())

    def train(self, mode: bool = True) -> Any:
        """Nothing changes: it stays in inference, which a warning says once."""
        if mode:
            self._tell(
                "training",
                "a model with kernels stays in inference (dropout, batch normalisation, no "
                "gradients); train the model as it was, and call with_kernels again",
            )
        return super().train(False)

    def _apply(self, function: Callable[[Any], Any], recurse: bool = True) -> Any:
        """What `to`, `half` and `cuda` do. ConfigError for what kernels cannot compute with."""
        for name, tensor in self.named_buffers():
            before, after = _how_stored(tensor), _how_stored(function(tensor))
            if before != after:
                raise ConfigError(
                    "a model with kernels: its weights must stay as the kernels were tuned for; "
                    f"{name} is {before} and would become {after}: convert the original model, "
                    "then call with_kernels again"
                )
        return super()._apply(function, recurse)

    def extra_repr(self) -> str:
        """The report's first line."""
        return str(self.report).partition("\n")[0]

    def __getstate__(self) -> dict[str, Any]:
        """What pickle stores; the operators come first, since the graph needs them.

        How results are nested is stored as numbers nested so: PyTorch warns of copies of its type.
        """
        names = tuple(dict.fromkeys(r.operator for r in self.report.replaced))
        nested = tree_unflatten(range(self._results.num_leaves), self._results)
        own = {**self.__dict__, "_results": nested, "_direct": None}
        return {"_operators": _Operators(names), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        del state["_operators"]
        super().__setstate__({**state, "_results": tree_structure(state["_results"])})
        self._direct = Direct()

    def _tell_of_others(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> None:
        self._tell(
            "others",
            f"the kernels of this model are for the arguments ({self._wanted}), found "
            f"({_texts(inputs, named)}); the model as it was computes these: tune it for them with "
            "autosched.torch.tasks_of, and give with_kernels such examples",
        )

    def _tell_of_gradients(self) -> None:
        self._tell(
            "gradients",
            "an argument requires a gradient, and a model with kernels computes without: its "
            "result has none; call it under torch.no_grad(), or the model as it was for a gradient",
        )

    def _tell_of_tangents(self) -> None:
        self._tell(
            "tangents",
            "an argument has a tangent (forward-mode differentiation), and a model with kernels "
            "computes without: its result has none; differentiate the model as it was",
        )

    def _tell(self, kind: str, text: str) -> None:
        """Warn of it, once for each kind."""
        if kind in self._told or torch.compiler.is_compiling():
            return
        self._told.add(kind)
        warn(text)


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
        shape = None if value.is_nested else tuple(value.shape)  # a nested one may not tell it
        return shape, value.dtype, value.device.type, value.layout
    return type(value), value


def _has_tangent(tensor: Any) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None


def _how_stored(tensor: Any) -> str:
    """`float32 on cpu, strides (8, 1)`."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype} on {tensor.device}, strides {tuple(tensor.stride())}"


def _strides(value: Any) -> Any:
    """How the graph expects the argument stored; None where nothing tells it."""
    dense = isinstance(value, torch.Tensor) and value.layout == torch.strided
    return apart(value).stride() if dense else None


def _stored(value: Any, strides: Any) -> Any:
    """A plain tensor, stored as the example was, so that views of it are what they were."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        value = value.detach()
    if strides is None or value.stride() == strides:
        return value
    pairs = zip(value.stride(), strides, value.shape, strict=True)
    if all(found == wanted or size == 1 for found, wanted, size in pairs):
        return value.as_strided(value.shape, strides)
    return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)


def _texts(inputs: Sequence[Any], named: Mapping[str, Any]) -> str:
    """The arguments of a call: `float32[5, 3], mask=None`."""
    found = [_text(_kind(value)) for value in inputs]
    return ", ".join([*found, *(f"{name}={_text(_kind(each))}" for name, each in named.items())])


def _text(kind: Any) -> str:
    if len(kind) == 2:
        return repr(kind[1])
    shape, dtype, device, layout = kind
    where = "" if device == "cpu" else f" on {device}"
    how = "" if layout == torch.strided else f" of the layout {layout}"
    sizes = " (nested)" if shape is None else list(shape)
    return f"{str(dtype).removeprefix('torch.')}{sizes}{where}{how}"
