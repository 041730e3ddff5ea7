"""Buffers that a traced model writes: what a call returns is memory of its own.

    h = tanh(...); copy_ = copy_(self.h, h)        return copy_   ->   return h

`torch.export` returns the buffer, which the next call overwrites.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from autosched.errors import ConfigError

Node = Any
_aten = torch.ops.aten
_ADDED = "copy__default"


def is_write(node: Node) -> bool:
    """Whether the node writes a buffer."""
    return node.op == "call_function" and node.target is _aten.copy_.default


def return_own(graph: Any) -> None:
    """Return what is written to buffers instead of the buffers."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    output.args = fx.map_arg(output.args, lambda node: node.args[1] if is_write(node) else node)


def _whole(node: Node) -> Node:
    """The node whose memory `node` is a view of; itself where it is none."""
    while node.op == "call_function" and not is_write(node) and is_view(node.target):
        node = node.args[0]
    return node


def is_view(target: Any) -> bool:
    """Whether the operation may return memory of its first argument."""
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    return target is operator.getitem or any(r.alias_info is not None for r in returns)


def refuse_old_values(program: Any) -> None:
    """Raise ConfigError if a call returns what a buffer held before the model assigned it anew.

    `program` is as `torch.export` makes it, which adds a write for each such assignment (those that
    a model calls have other names). Its decomposition then returns the new value.
    """
    buffers = program.graph_signature.inputs_to_buffers
    writes = (node for node in program.graph.nodes if is_write(node))
    assigned = {write.args[0].name for write in writes if write.name.startswith(_ADDED)}
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    for node in output.all_input_nodes:
        name = _whole(node).name
        if name in assigned and name in buffers:
            raise ConfigError(
                f"model: it assigns its buffer {buffers[name]} anew and returns what that held "
                "before, which torch.export does not tell apart; let it return a copy, "
                f"self.{buffers[name]}.clone()"
            )


def reshaped_buffers(program: Any) -> list[str]:
    """The buffers that the model of an exported `program` replaces by tensors of other shapes."""
    buffers = program.graph_signature.inputs_to_buffers
    return [
        buffers[write.args[0].name]
        for write in program.graph.nodes
        if is_write(write)
        and write.args[0].name in buffers
        and write.args[0].meta["val"].shape != write.args[1].meta["val"].shape
    ]
