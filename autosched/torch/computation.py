"""What one kernel computes of a graph: statements, and the nodes that their inputs are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.target import Target
from autosched.task import Task
from autosched.torch.element_types import NARROW, before_widening, name_of, rounded, widened
from autosched.torch.model_graph import value_of

Shape = tuple[int, ...]


class NoRuleError(Exception):
    """Why a node has no kernel, in words: it is left to PyTorch."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An input of a kernel: nodes of the graph, and how the kernel takes them.

    `shape` is that of the kernel's input, with as many elements as the node's and in their order.
    `make` computes the input of several constant nodes; without it there is one node. `order`
    permutes the node's dimensions first; its elements are read as those of `type`, where one is
    given. Of a `part` not all elements are read: its shape does not say how far indices run.
    """

    nodes: tuple[Any, ...]
    shape: Shape
    make: Callable[..., Any] | None = None
    order: tuple[int, ...] = ()
    type: str = ""
    part: bool = False

    @property
    def dtype(self) -> str:
        """The type that the kernel reads; what `make` computes is float32."""
        if self.type or self.make is not None:
            return self.type or "float32"
        return name_of(value_of(self.nodes[0]).dtype)


@dataclass(frozen=True, slots=True)
class Computation:
    """Statements of an expression (docs/expressions.md), the last of which computes the result.

    Everything is computed in float32: `workload` reads elements of 16 bits as such, and rounds the
    result once.

    Args:
        kind: what people call it: `conv2d+relu`.
        statements: one after the other, as if all were float32.
        operands: the inputs by their names in the statements.
        shapes: of what statements compute, where their texts do not say it.
        result: the tensor that the last statement computes.
        axes: the indices of the result.
        channels: those indices that make up dimension 1 of what the node computes.
        shape: of the result; the node's may differ, with as many elements in the same order.
        weights: inputs that a kernel may take in an order of its own, where they are constant.
        output: the type of the result.
        copies: the types of what statements only move, which stays in the type that they read.
        rounded: the types of other results between that are not kept in float32.
        order: the dimensions of what the node computes as the result has them; empty where it has
            them as they are.
        at: the value that the next statement reads, where it is not the result.
        within: operations before the node's own that are computed with it.
        lengths: how far indices run that are none of the result's, where an operand is a part.
    """

    kind: str
    statements: tuple[str, ...]
    operands: Mapping[str, Operand]
    result: str
    axes: tuple[str, ...]
    shape: Shape
    channels: tuple[str, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    weights: tuple[str, ...] = ()
    output: str = "float32"
    copies: Mapping[str, str] = field(default_factory=dict)
    rounded: Mapping[str, str] = field(default_factory=dict)
    order: tuple[int, ...] = ()
    at: str = ""
    lengths: Mapping[str, int] = field(default_factory=dict)
    within: tuple[Any, ...] = ()

    @property
    def value(self) -> str:
        """The result in a statement: `Y[n, o, h, w]`."""
        return self.at or f"{self.result}[{', '.join(self.axes)}]"

    def then(
        self, kind: str, value: str, operands: Mapping[str, Operand] | None = None
    ) -> Computation:
        """The computation followed by another statement; an empty `kind` is not told."""
        number = int(self.result[1:] or 0) + 1
        result = f"{self.result[0]}{number}"
        return replace(
            self,
            kind="+".join(each for each in (self.kind, kind) if each),
            statements=(*self.statements, f"{result}[{', '.join(self.axes)}] = {value}"),
            operands={**self.operands, **(operands or {})},
            result=result,
            at="",
        )

    @property
    def workload(self) -> dict[str, Any]:
        """The text, with shapes and types, as a record has it."""
        shapes = {name: operand.shape for name, operand in self.operands.items()}
        types = {name: operand.dtype for name, operand in self.operands.items()}
        every = {*types.values(), *self.copies.values(), *self.rounded.values(), self.output}
        partial = any(operand.part for operand in self.operands.values())
        between = dict(self._shapes_between(every=partial))
        text = "\n".join(self._typed(types))
        return {
            "expr": _with_lengths(text, self.lengths) if partial else text,
            "shapes": {
                **shapes,
                **between,
                **self.shapes,
                self.result: self.shape,
            },
            "dtype": "float32" if every == {"float32"} else types,
        }

    def _shapes_between(self, *, every: bool) -> Iterator[tuple[str, Shape]]:
        """The shapes of what statements compute, where the lengths of their indices are known.

        Without `every` those alone that do not read along each of their indices: `Y1[i, j] = X[j]`.
        """
        known = {**self.lengths, **dict(zip(self.axes, self.shape, strict=True))}
        for statement in self.statements:
            name, _, rest = statement.partition("[")
            left, _, value = rest.partition("] = ")
            indices = left.split(", ")
            told = not every and {*indices} <= {*re.findall(r"\w+", value)}
            if not told and all(index in known for index in indices):
                yield name, tuple(known[index] for index in indices)

    def _typed(self, types: Mapping[str, str]) -> Iterator[str]:
        """The statements for inputs of these types, computed in float32.

        Y[i, j] = sum(k, float32(X[i, k]) * float32(W[j, k]))
        Y1[i, j] = bfloat16(Y[i, j] + float32(b[j]))
        """
        kinds = {**types, **self.copies, **self.rounded, self.result: self.output}
        narrow = [name for name, kind in kinds.items() if kind in NARROW]
        for statement in self.statements:
            result, _, value = statement.partition(" = ")
            name = result.partition("[")[0]
            if name not in self.copies:
                value = rounded(widened(value, narrow), kinds.get(name, "float32"))
            yield f"{result} = {value}"

    def task(self, target: Target, layout_rewrite: str, constant: Callable[[Any], bool]) -> Task:
        """The task of it. Weights that are not `constant` stay in their order."""
        free = [
            name
            for name in self.weights
            if layout_rewrite != "none"
            and not self.operands[name].part
            and all(map(constant, self.operands[name].nodes))
        ]
        return Task.from_expression(
            **self.workload,
            target=target,
            layout_free=free,
            layout_rewrite=layout_rewrite if free else "none",
        )


def _with_lengths(text: str, lengths: Mapping[str, int]) -> str:
    """The statements with how far the indices of reductions run.

    sum(k, X[i, k] * W[j, k + 8])  ->  sum(k < 8, X[i, k] * W[j, k + 8])
    """
    names = "|".join(lengths) or "$"
    return re.sub(
        rf"\b(sum|max|mean)\(({names}),", lambda m: f"{m[1]}({m[2]} < {lengths[m[2]]},", text
    )


def whole(node: Any, shape: Shape) -> Operand:
    """The node as an input of `shape`."""
    return Operand((before_widening(node),), shape)


def unused(name: str, taken: Collection[str]) -> str:
    """`name`, or `name2` and so on where it is among those `taken`."""
    numbered = (f"{name}{i}" for i in range(2, len(taken) + 2))
    return next(each for each in (name, *numbered) if each not in taken)


def times(factor: int, index: str) -> str:
    """`2*h`, or `h`."""
    return index if factor == 1 else f"{factor}*{index}"


def number_text(value: float) -> str:
    """The number in a statement; infinities are numbers beyond the type."""
    text = "1e999" if math.isinf(value) else repr(abs(float(value)))
    return f"(-{text})" if math.copysign(1, value) < 0 else text
