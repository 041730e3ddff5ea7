"""A graph of torch.compile that takes numbers as numbers.

`torch.compile` gives a number that may change (with `dynamic=True` each one that a model reads, the
epsilon of a normalisation too) as a tensor without dimensions, of which the graph takes the
`item()`: a value that `torch.export` does not know. As inputs, numbers are part of what a graph is
traced for.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx


def number_inputs(graph: Any, examples: Sequence[Any]) -> tuple[Any, tuple[int, ...]]:
    """The graph that takes numbers in the place of tensors, and which of its inputs these are.

        eps = L_eps.item(); batch_norm(x, ..., eps)  ->  batch_norm(x, ..., L_eps)

    They are the inputs of which nothing but the `item()` is read. Without any the graph is itself.
    """
    found = [i for i, n in enumerate(_inputs(graph.graph)) if _is_number(n, examples[i])]
    if not found:
        return graph, ()
    changed = copy.deepcopy(graph.graph)
    inputs = _inputs(changed)
    for i in found:
        for item in list(inputs[i].users):
            item.replace_all_uses_with(inputs[i])
            changed.erase_node(item)
    return fx.GraphModule(graph, changed), tuple(found)


def _inputs(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _is_number(node: Any, example: Any) -> bool:
    tensor = isinstance(example, torch.Tensor) and example.dim() == 0
    items = [(user.op, user.target) == ("call_method", "item") for user in node.users]
    return tensor and bool(items) and all(items)
