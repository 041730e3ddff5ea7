"""Buffers that a traced model writes: what a call returns is memory of its own.

    h = tanh(...); copy_ = copy_(self.h, h)        return copy_   ->   return h
    old = self.h[0]; copy_ = copy_(self.h, h)      return old     ->   return clone(old)

`torch.export` returns the buffers themselves, which the next call overwrites.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from autosched.errors import ConfigError

Node = Any
_aten = torch.ops.aten


def is_write(node: Node) -> bool:
    """Whether the node writes a buffer."""
    return node.op == "call_function" and node.target is _aten.copy_.default


def return_own(graph: Any) -> None:
    """Return what is written to buffers, and copies of what they held, instead of the buffers."""
    place = {node: k for k, node in enumerate(graph.nodes)}
    writes = [node for node in place if is_write(node)]
    if not writes:
        return
    written = {w.args[0].target for w in writes if w.args[0].op == "get_attr"}

    def own(node: Node) -> Node:
        if is_write(node):
            source = node.args[1]
            if _is_stored_as(source, node):
                return own(source)
        elif not (_whole(node).op == "get_attr" and _whole(node).target in written):
            return node
        last = node if is_write(node) or place[node] > place[writes[0]] else writes[0].prev
        with graph.inserting_after(last):
            copy = graph.call_function(_aten.clone.default, (node,))
        copy.meta = dict(node.meta)
        return copy

    (output,) = (node for node in graph.nodes if node.op == "output")
    output.args = fx.map_arg(output.args, own)


def _is_stored_as(source: Node, written: Node) -> bool:
    """Whether both are tensors of one shape, type and order of elements in memory."""
    values = [n.meta.get("val") for n in (source, written) if isinstance(n, fx.Node)]
    if len(values) < 2 or not all(isinstance(value, torch.Tensor) for value in values):
        return False
    one, two = ((value.shape, value.dtype, value.stride()) for value in values)
    return bool(one == two)


def _whole(node: Node) -> Node:
    """The node whose memory `node` is a view of; itself where it is none."""
    while node.op == "call_function" and not is_write(node) and _is_view(node.target):
        node = node.args[0]
    return node


def _is_view(target: Any) -> bool:
    """Whether the operation may return memory of its first argument."""
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    return target is operator.getitem or any(r.alias_info is not None for r in returns)


def refuse_old_values(program: Any) -> None:
    """Raise ConfigError if a call returns what a buffer held before the model assigned it anew.

    `program` is as `torch.export` makes it, with a write without users at the end for each such
    assignment. Its decomposition then returns the new value.
    """
    buffers = program.graph_signature.inputs_to_buffers
    assigned = {w.args[0].name for w in program.graph.nodes if is_write(w) and not w.users}
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
