"""Element-wise operations that follow no other kernel: a tree of them is one kernel."""

from __future__ import annotations

import operator
from collections.abc import Container
from dataclasses import replace
from typing import Any

from autosched.torch.computation import Computation, NoRuleError
from autosched.torch.elementwise import (
    BATCH_NORMS,
    FOLLOWERS,
    SAME_ELEMENTS,
    alike,
    followed_by,
    reading,
)
from autosched.torch.model_graph import arguments_of, only_user, shape_of, value_of

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
    if not 0 < len(shape) <= len(_AXES) or not alike(last, shape):
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
    if computation is None or "+" not in computation.kind:
        raise NoRuleError(_ALONE)
    return computation, tuple(tree.nodes)


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
        x, *others = _tensors(node, given, last)
        before = list(self.nodes)
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
        self.nodes += [node] if node is last else [node, last]
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
        found = reading(computation, node, shape)
        return None if found is None else replace(found.computation, at=found.text)

    def _is_inner(self, computation: Computation, node: Any) -> bool:
        """Whether the node can be computed in the kernel, and nothing else reads it."""
        between, inner = _behind_views(node)
        stored = all(alike(each, computation.shape) for each in (*between, inner))
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


def _tensors(node: Any, given: dict[str, Any], last: Any) -> list[Any]:
    """What an operation reads: first what has the shape of its result, which a rule goes on from.

    Of a batch normalisation that is its input alone, the others are weights.
    """
    if node.target in BATCH_NORMS:
        return [given["input"]]
    shape = shape_of(last)
    return sorted(node.all_input_nodes, key=lambda each: shape_of(each) != shape)
