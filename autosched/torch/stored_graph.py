"""Graphs that pickle stores as they are.

Of an `fx.GraphModule` PyTorch stores the code, and traces that where it is loaded. Operations that
read no argument of the model would be computed once then: random numbers, what is written to a
buffer, what is computed from one. Branches of `torch.cond` cannot be traced at all.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from autosched.torch.model_graph import attribute_of


class StoredGraph(fx.GraphModule):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """A GraphModule whose graph is stored node by node, with the parts that its nodes read."""

    def __reduce__(self) -> tuple[Any, ...]:
        nodes = [
            (node.op, _named(node.target), node.name, *fx.map_arg((node.args, node.kwargs), _place))
            for node in self.graph.nodes
        ]
        return _loaded, (parts_of(self), nodes)


def parts_of(module: Any) -> dict[str, Any]:
    """The tensors and modules that the nodes of a GraphModule read; its graphs are stored, too."""
    targets = [n.target for n in module.graph.nodes if n.op in ("get_attr", "call_module")]
    return {target: storable(attribute_of(module, target)) for target in targets}


def storable(part: Any) -> Any:
    """The part; one that is a graph itself, as branches of `torch.cond` are, as a StoredGraph."""
    if isinstance(part, StoredGraph) or not isinstance(part, fx.GraphModule):
        return part
    return StoredGraph(parts_of(part), part.graph)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class _Operation:
    """One of torch.ops: `aten.add.Tensor`."""

    path: str


def _place(node: Any) -> _Place:
    return _Place(node.name)


def _named(target: Any) -> Any:
    if isinstance(target, torch._ops.OpOverload):
        return _Operation(str(target))
    if isinstance(target, torch._ops.HigherOrderOperator):
        return _Operation(f"higher_order.{target.name()}")
    return target


def _loaded(parts: dict[str, Any], nodes: Sequence[tuple[Any, ...]]) -> StoredGraph:
    graph = fx.Graph()
    made: dict[str, Any] = {}

    def value(each: Any) -> Any:
        return made[each.name] if isinstance(each, _Place) else each

    for op, target, name, args, kwargs in nodes:
        if isinstance(target, _Operation):
            target = functools.reduce(getattr, target.path.split("."), torch.ops)
        args, kwargs = fx.node.map_aggregate((args, kwargs), value)
        made[name] = graph.create_node(op, target, args, kwargs, name)
    module = StoredGraph(parts, graph)
    module.eval()
    return module
