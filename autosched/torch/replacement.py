"""Operators in the place of a graph's nodes, with constant inputs stored as kernels want them."""

from __future__ import annotations

from typing import Any

import torch

from autosched.torch.computation import Operand
from autosched.torch.matches import Match
from autosched.torch.model_graph import Constants, shape_of
from autosched.torch.registry import operator_of, prepare

_reshape = torch.ops.aten.reshape.default


class Replacement:
    """Puts operators in the place of matches of one graph; `module` is changed."""

    def __init__(self, module: Any, constants: Constants) -> None:
        self._module = module
        self._constants = constants
        self._new: dict[Any, Any] = {}  # what stands for nodes that were replaced

    def replace(self, match: Match, name: str) -> None:
        """Put the operator `name` in the place of the match's nodes, which nothing reads then."""
        computation, graph = match.computation, self._module.graph
        names = [t.name for t in match.task.tensors[: -match.task.num_outputs]]
        operands = [computation.operands[each] for each in names]
        stored = prepare(name, *map(self._example, operands))
        inputs = []
        with graph.inserting_before(match.last):
            for input_name, operand, tensor in zip(names, operands, stored, strict=True):
                if self.is_constant(operand):
                    buffer = f"autosched_{match.last.name}_{input_name}"
                    self._module.register_buffer(buffer, tensor)
                    inputs.append(graph.get_attr(buffer))
                else:
                    (node,) = operand.nodes
                    inputs.append(self._shaped(self._new.get(node, node), node, operand.shape))
            result = graph.call_function(operator_of(name), tuple(inputs))
            wanted = shape_of(match.last)
            if wanted != computation.shape:
                result = graph.call_function(_reshape, (result, list(wanted)))
        match.last.replace_all_uses_with(result)
        self._new[match.last] = result

    def finish(self) -> Any:
        """The module, without what nothing reads any more."""
        module = self._module
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()
        return module

    def is_constant(self, operand: Operand) -> bool:
        """Whether the input is the same at each call."""
        return all(node in self._constants for node in operand.nodes)

    def _example(self, operand: Operand) -> Any:
        """A constant input in memory of its own, and for others one of their shape."""
        if not self.is_constant(operand):
            return torch.empty(operand.shape)
        values = [self._constants.value(node) for node in operand.nodes]
        value = values[0] if operand.make is None else operand.make(*values)
        return value.reshape(operand.shape).clone(memory_format=torch.contiguous_format)

    def _shaped(self, now: Any, node: Any, shape: tuple[int, ...]) -> Any:
        """`now`, which stands for `node`, in the shape that a kernel takes."""
        if shape_of(node) == shape:
            return now
        return self._module.graph.call_function(_reshape, (now, list(shape)))
