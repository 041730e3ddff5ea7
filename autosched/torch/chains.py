"""Element-wise operations that follow no other kernel: a tree of them is one kernel."""

from __future__ import annotations

import math
import operator
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from autosched.torch.choices import compared, is_truth
from autosched.torch.computation import Computation, NoRuleError
from autosched.torch.element_types import is_float
from autosched.torch.elementwise import (
    BATCH_NORMS,
    FOLLOWERS,
    GLU,
    alike,
    followed_by,
)
from autosched.torch.model_graph import SAME_ELEMENTS, arguments_of, only_user, shape_of, value_of
from autosched.torch.moved import MOVES, Elements, kind_of
from autosched.torch.operands import Reading, is_dense, reading, storage_order

_AXES = ("a", "b", "c", "d", "i", "j")

_MOST = 16
"""Operations of one kernel: what a longer one would compute is read instead."""

_ALONE = "it cannot be part of a kernel before it, and alone it is none"


def chain(
    node: Any, taken: Container[Any], constants: Container[Any]
) -> tuple[Computation, tuple[Any, ...]]:
    """Element-wise operations, at least two, of which `node` is the last, and their nodes.

    What it reads is computed in the kernel as well where nothing else reads it. Raises NoRuleError
    for a single operation, which moves as much memory in a kernel as in PyTorch.
    """
    last = _last(node)
    if last is None or value_of(last) is None:
        raise NoRuleError(_ALONE)
    shape = shape_of(last)
    if not 0 < len(shape) <= len(_AXES) or not is_float(value_of(last)) or not is_dense(last):
        raise NoRuleError(_ALONE)
    axes = _AXES[-len(shape) :]
    start = Computation(
        kind="",
        statements=(),
        operands={},
        result="Y",
        axes=axes,
        shape=shape,
        channels=axes[1:2],
    )
    tree = _Tree(taken, constants)
    computation = tree.computed(start, last)
    if computation is None or not _is_worth(tree.nodes, shape):
        raise NoRuleError(_ALONE)
    return _stored(computation, storage_order(last)), tuple(tree.nodes)


def _is_worth(nodes: Sequence[Any], shape: tuple[int, ...]) -> bool:
    """Whether there are two operations at least of as many elements as the result has.

    What masks are made of may have fewer, and so may what is computed before it is moved.
    """
    if nodes[-1].target in MOVES:
        return any(each.target in FOLLOWERS for each in nodes)
    return sum(_is_whole(each, shape) for each in nodes) + (nodes[-1].target is GLU) > 1


def _stored(computation: Computation, order: tuple[int, ...]) -> Computation:
    """The computation with its result in this order of its dimensions.

    Y[a, i, b, e] = X[a, b, i, e] * 2  ->  Y[a, b, i, e] = X[a, b, i, e] * 2
    """
    if order == tuple(range(len(order))):
        return computation
    *before, last = computation.statements
    axes = tuple(computation.axes[d] for d in order)
    value = last.partition(" = ")[2]
    return replace(
        computation,
        statements=(*before, f"{computation.result}[{', '.join(axes)}] = {value}"),
        axes=axes,
        shape=tuple(computation.shape[d] for d in order),
        order=order,
    )


def _is_whole(node: Any, shape: tuple[int, ...]) -> bool:
    """Whether it is an operation on as many elements as the result has: masks may have fewer."""
    whole = value_of(node) is None or math.prod(shape_of(node)) == math.prod(shape)
    return (node.target in FOLLOWERS or node.target in MOVES) and whole


class _Tree:
    """What is part of a kernel so far: `nodes`, in an order in which they can be computed."""

    def __init__(self, taken: Container[Any], constants: Container[Any]) -> None:
        self._taken = taken
        self._constants = constants
        self._begun = 0
        self.nodes: list[Any] = []

    def computed(self, computation: Computation, last: Any) -> Computation | None:
        """The computation with what `last` computes; None where it has no rule."""
        self._begun += 1
        node = last.args[0] if last.target is operator.getitem else last
        given = arguments_of(node)
        before = list(self.nodes)
        if node.target is GLU or node.target in MOVES:
            return self._from_others(computation, node)
        x, *others = _tensors(node, given, last, self._constants) or [None]
        found: Computation | None = computation
        if x is not None:
            found = self._read(computation, x, shape_of(last))
        known: dict[Any, str] = {}
        for other in others:
            if found is not None and other is not x and self._is_inner(found, other):
                main = found.value
                inner = self._read(found, other, shape_of(last))
                if inner is not None:
                    known[other] = inner.value
                    found = replace(inner, at=main)
        extension = None if found is None else followed_by(found, x, node, self._constants, known)
        if extension is None:
            self.nodes = before
            return None
        self.nodes += extension[1]
        return extension[0]

    def _read(
        self, computation: Computation, node: Any, shape: tuple[int, ...]
    ) -> Computation | None:
        """The computation whose next statement reads the node: computed in it, or an input."""
        if self._is_inner(computation, node):
            between, inner = _behind_views(node)
            computed = self.computed(computation, inner)
            if computed is not None:
                self.nodes += between
                return computed
        found = self._moved(computation, node, shape) or reading(computation, node, shape)
        return None if found is None else replace(found.computation, at=found.text)

    def _from_others(self, computation: Computation, node: Any) -> Computation | None:
        """The computation with elements of tensors of other shapes: halves, or what is moved."""
        if shape_of(node) != computation.shape:
            return None
        elements = self._elements(computation)
        axes = computation.axes
        text: str | None
        if node.target is GLU:
            given = arguments_of(node)
            elements.most = 0
            d = given["dim"] % len(axes)
            upper = (*axes[:d], f"({axes[d]} + {shape_of(node)[d]})", *axes[d + 1 :])
            halves = [elements.text(given["self"], places) for places in (axes, upper)]
            text, kind = f"{halves[0]} * sigmoid({halves[1]})", "glu"
            elements.nodes.append(node)
        else:
            text = elements.moving(node, axes)
            kind = kind_of(elements).strip("+")
        if text is None:
            return None
        self.nodes += elements.nodes
        return replace(computation, operands=elements.operands).then(kind, text)

    def _elements(self, computation: Computation) -> Elements:
        return Elements(
            operands=dict(computation.operands),
            fixed=computation.weights,
            taken=self._taken,
            constants=self._constants,
            only_moved=False,
            most=_MOST - self._begun,
        )

    def _moved(self, computation: Computation, node: Any, shape: tuple[int, ...]) -> Reading | None:
        """An element that others were moved to, of what these are made of."""
        own = () if value_of(node) is None else shape_of(node)
        if shape != computation.shape or len(own) > len(shape):
            return None
        elements = self._elements(computation)
        axes = computation.axes[len(shape) - len(own) :]
        places = ["0" if size == 1 else i for i, size in zip(axes, own, strict=True)]
        text = elements.text(node, places)
        if not any(each.target in MOVES for each in elements.nodes):
            return None
        self.nodes += elements.nodes
        kind = f"{computation.kind}+{kind_of(elements)}".strip("+")
        return Reading(replace(computation, operands=elements.operands, kind=kind), text)

    def _is_inner(self, computation: Computation, node: Any) -> bool:
        """Whether the node can be computed in the kernel, and nothing else reads it."""
        between, inner = _behind_views(node)
        stored = all(alike(each, computation.shape) for each in (*between, inner))
        if not between and is_float(value_of(inner)):  # elements have their places in any order
            stored = stored or shape_of(inner) == computation.shape
        if self._begun >= _MOST or not stored:
            return False
        operation = inner.args[0] if inner.target is operator.getitem else inner
        every = {*between, inner, operation}
        known = operation.op == "call_function" and operation.target in FOLLOWERS
        free = all(each not in self._taken and only_user(each) is not None for each in every)
        return known and free and not any(each in self._constants for each in every)


def _behind_views(node: Any) -> tuple[list[Any], Any]:
    """The views that `node` is of what another computes, in order, and that other."""
    between: list[Any] = []
    while node.op == "call_function" and node.target in SAME_ELEMENTS:
        between.insert(0, node)
        node = node.args[0]
    return between, node


def _last(node: Any) -> Any | None:
    """The node that has the result: of a batch normalisation the first of several."""
    if node.target not in BATCH_NORMS or value_of(node) is not None:
        return node
    user = only_user(node)
    first = user is not None and user.target is operator.getitem and user.args[1] == 0
    return user if first else None


def _tensors(node: Any, given: dict[str, Any], last: Any, constants: Container[Any]) -> list[Any]:
    """What an operation reads: first what has the shape of its result, which a rule goes on from.

    Of a batch normalisation that is its input alone, the others are weights. For a truth value that
    is not stored it is what is compared.
    """
    if node.target in BATCH_NORMS:
        return [given["input"]]
    shape = shape_of(last)
    truths = [each for each in node.all_input_nodes if is_truth(each)]
    tensors = [each for each in node.all_input_nodes if value_of(each) is not None]
    values = [each for each in tensors if each not in truths]
    under = [each for truth in truths for each in compared(truth, constants)]
    return sorted(dict.fromkeys([*values, *under]), key=lambda each: shape_of(each) != shape)
