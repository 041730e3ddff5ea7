"""Operators in the place of a graph's nodes, with constant inputs stored as kernels want them."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from autosched.torch.computation import Operand
from autosched.torch.matches import Match
from autosched.torch.model_graph import (
    SAME_ELEMENTS,
    Constants,
    attribute_of,
    is_contiguous,
    shape_of,
    value_of,
)
from autosched.torch.operands import permutation_of
from autosched.torch.registry import operator_of, prepare
from autosched.torch.stored_graph import StoredGraph, storable

_reshape = torch.ops.aten.reshape.default
_permute = torch.ops.aten.permute.default
_as_strided = torch.ops.aten.as_strided.default
_view_as = torch.ops.aten.view.dtype


class Replacement:
    """Puts operators in the place of matches of one graph; `module` is changed.

    - `shared`: constant inputs that are stored as a kernel wants them stay in their own memory.
    """

    def __init__(self, module: Any, constants: Constants, *, shared: bool = False) -> None:
        self._module = module
        self._constants = constants
        self._shared = shared
        self._made: dict[str, tuple[str, list[Operand], int]] = {}  # by which call, by the buffer
        self._new: dict[Any, Any] = {}  # what stands for nodes that were replaced
        self._replaced: set[Any] = set()  # those, and what they alone read
        self._buffers: dict[Any, str] = {}  # of constant inputs, by what they are

    def replace(self, match: Match, name: str) -> None:
        """Put the operator `name` in the place of the match's nodes, which nothing reads then."""
        computation, graph = match.computation, self._module.graph
        names = [t.name for t in match.task.tensors[: -match.task.num_outputs]]
        operands = [computation.operands[each] for each in names]
        examples = list(map(self._example, operands))
        stored = prepare(name, *examples)
        inputs: list[Any] = []
        views: dict[Any, Any] = {}  # several inputs may be parts of one node
        with graph.inserting_before(match.last):
            for i, (input_name, operand) in enumerate(zip(names, operands, strict=True)):
                if self.is_constant(operand):
                    own = () if stored[i] is examples[i] else (name, input_name)
                    fresh = f"autosched_{match.last.name}_{input_name}"
                    buffer = self._buffer(operand, own, fresh, stored[i])
                    self._made.setdefault(buffer, (name, operands, i))
                    inputs.append(graph.get_attr(buffer))
                else:
                    (node,) = operand.nodes
                    if operand not in views:
                        now = self._new.get(node, node)
                        views[operand] = self._shaped(now, node, operand)
                    inputs.append(views[operand])
            result = graph.call_function(operator_of(name), tuple(inputs))
            result.meta["val"] = torch.empty(computation.shape, device="meta")
            wanted, order = value_of(match.last), computation.order
            shape = shape_of(match.last)
            stored_as = tuple(shape[d] for d in order) if order else shape
            if stored_as != computation.shape:
                result = self._call(_reshape, result, list(stored_as))
            if order:
                back = [order.index(dimension) for dimension in range(len(order))]
                result = self._call(_permute, result, back)
            if result.meta["val"].stride() != wanted.stride():  # those of sizes of 1
                result = self._call(_as_strided, result, list(shape), list(wanted.stride()))
            result.meta["val"] = wanted
        match.last.replace_all_uses_with(result)
        self._new[match.last] = result
        self._replaced.update(match.nodes)

    def _call(self, target: Any, x: Any, *arguments: Any) -> Any:
        """A node that calls `target`, with its shape and strides."""
        result = self._module.graph.call_function(target, (x, *arguments))
        result.meta["val"] = target(x.meta["val"], *arguments)
        return result

    @property
    def results(self) -> Any:
        """How the results of the graph are nested (a TreeSpec)."""
        return self._module.graph._codegen.pytree_info.out_spec

    def finish(self) -> Any:
        """A module without what nothing reads any more, whose tensors are none of the model's.

        Its inputs and results are flat: to nest them anew takes as long as a small kernel.
        """
        graph = self._module.graph
        graph.set_codegen(fx.graph.CodeGen())
        graph.eliminate_dead_code(self._is_needed)
        graph.lint()
        copies: dict[int, Any] = {}
        parts = {
            node.target: self._own(node, copies)
            for node in graph.nodes
            if node.op in ("get_attr", "call_module")
        }
        return StoredGraph(parts, graph)

    def _is_needed(self, node: Any) -> bool:
        """Whether the node stays though nothing reads it. PyTorch has attention stay, which might
        draw random numbers; a kernel computes one that does not."""
        return bool(node.is_impure()) and node not in self._replaced

    def refresh(self, graph: Any) -> None:
        """Store the constant inputs of `graph`, which `finish` returned, as they are now."""
        for buffer, (name, operands, position) in self._made.items():
            stored = prepare(name, *map(self._example, operands))
            setattr(graph, buffer, stored[position])

    @property
    def read(self) -> set[Any]:
        """The nodes of weights that are stored for kernels."""
        operands = (operands[i] for _, operands, i in self._made.values())
        nodes = [node for operand in operands for node in operand.nodes]
        return {leaf for node in nodes for leaf in self._constants.leaves(node)}

    def is_constant(self, operand: Operand) -> bool:
        """Whether the input is the same at each call."""
        return all(node in self._constants for node in operand.nodes)

    def _buffer(self, operand: Operand, own: tuple[str, ...], name: str, tensor: Any) -> str:
        """The buffer of a constant input: `name`, or one that another kernel has of it.

        `own` tells by which kernel and input it is stored in an order of its own.
        """
        key = (*own, *map(self._identity, operand.nodes), operand.order, operand.shape)
        key = key if operand.make is None else (operand.make, *key)
        if key not in self._buffers:
            self._module.register_buffer(name, tensor)
            self._buffers[key] = name
        return self._buffers[key]

    def _own(self, node: Any, copies: dict[int, Any]) -> Any:
        """What the node reads; a tensor of the model is copied, once for all that read it."""
        found = attribute_of(self._module, node.target)
        if not isinstance(found, torch.Tensor) or node.target in self._buffers.values():
            return storable(found)
        stored = self._buffers.get((id(found), (), tuple(found.shape)))
        if stored is not None:
            return attribute_of(self._module, stored)
        return copies.setdefault(id(found), found.detach().clone())

    def _identity(self, node: Any) -> Any:
        """Equal for nodes that read one tensor: layers may share a weight."""
        return id(attribute_of(self._module, node.target)) if node.op == "get_attr" else node

    def _example(self, operand: Operand) -> Any:
        """A constant input in memory of its own, and for others one of their shape."""
        if not self.is_constant(operand):
            return torch.empty(operand.shape, dtype=getattr(torch, operand.dtype))
        values = [self._constants.value(node) for node in operand.nodes]
        value = values[0] if operand.make is None else operand.make(*values)
        value = value.view(getattr(torch, operand.type)) if operand.type else value
        value = value.permute(operand.order) if operand.order else value
        value = value.reshape(operand.shape)
        if self._shared:
            return value.contiguous()
        return value.clone(memory_format=torch.contiguous_format)

    def _shaped(self, now: Any, node: Any, operand: Operand) -> Any:
        """`now`, which stands for `node`, as a kernel takes it: at most one view of what it is."""
        graph, shape = self._module.graph, shape_of(node)
        if operand.type:
            now = graph.call_function(_view_as, (now, getattr(torch, operand.type)))
        if operand.order:
            shape = tuple(shape[dimension] for dimension in operand.order)
            if _undone(now, operand.order):
                now = now.args[0]
            else:
                now = graph.call_function(_permute, (now, list(operand.order)))
        if value_of(now) is not None:
            now, shape = _unviewed(now), shape_of(_unviewed(now))
        if shape != operand.shape:
            now = graph.call_function(_reshape, (now, list(operand.shape)))
        return now


def _undone(node: Any, order: tuple[int, ...]) -> bool:
    """Whether the node permutes what it reads, and `order` takes that back."""
    step = permutation_of(node)
    if step is None or len(step) != len(order):
        return False
    return [step[i] for i in order] == [*range(len(order))]


def _unviewed(node: Any) -> Any:
    """What the node has the elements of, in their order: `y` of `y.view(6, 4).clone()`, and of
    `y.transpose(0, 1).transpose(0, 1)`.
    """
    while node.op == "call_function" and is_contiguous(node):
        (before, *_) = node.all_input_nodes or [node]
        restrided = node.target is _as_strided and len(node.args) == 3  # no offset
        same = node.target in SAME_ELEMENTS or (restrided and shape_of(node) == shape_of(before))
        if same and is_contiguous(before):
            node = before
        elif _undone(before, tuple(permutation_of(node) or ())):
            node = before.args[0]
        else:
            break
    return node
