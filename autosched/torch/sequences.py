"""A graph in which kernels that follow one another are one native call (`runtime/sequence.py`).

Results that only these kernels read are no tensors then, and views between them are left out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx

from autosched.runtime.cpu import CpuKernel
from autosched.runtime.sequence import Argument, Intermediate, Place, Step, sequence
from autosched.torch.model_graph import attribute_of

Node = Any
Tensor = Any
Values = dict[Node, Tensor]


class Called(NamedTuple):
    """A kernel that can be a step, and a tensor like its output."""

    kernel: CpuKernel
    output: Tensor


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a call has shown of a graph's nodes.

    `kernels` are the nodes that call kernels on compact tensors; `shapes` those of all nodes that
    are compact tensors; `views` the nodes that are views of others, and these; `wholes`, of the
    nodes that have all elements of another in its order, both compact, the first such other.
    """

    kernels: dict[Node, Called] = field(default_factory=dict)
    shapes: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    views: dict[Node, Node] = field(default_factory=dict)
    wholes: dict[Node, Node] = field(default_factory=dict)

    def whole(self, node: Node) -> Node:
        """What a kernel may read instead of the node."""
        return self.wholes.get(node, node)


def writes(node: Node) -> bool:
    """Whether the node may write to what it reads, or do something else that has its time.

    Of functions that are no operators, methods and modules, which only an edited graph calls,
    nothing tells that they do not.
    """
    if not node.op.startswith("call_") or node.target is operator.getitem:
        return False
    schema = getattr(node.target, "_schema", None)
    return bool(schema is None or schema.is_mutable)


def with_sequences(graph: Any, recorded: Recorded) -> Callable[..., Any]:
    """A function that computes what `graph` does, and reads the graph's tensors at each call."""
    code = _Copy(graph, recorded).made().python_code("self")
    names = dict(code.globals)
    exec(code.src, names)
    forward: Callable[..., Any] = names["forward"]
    return forward.__get__(graph)  # type: ignore[no-any-return]


class _Copy:
    """Copies the nodes of a graph; kernels wait until something beside them reads a result."""

    def __init__(self, graph: Any, recorded: Recorded) -> None:
        self._graph, self._recorded = graph, recorded
        self._new = fx.Graph()
        self._copies: dict[Node, Node] = {}
        self._waiting: dict[Node, None] = {}  # kernels, and views of their results, in order

    def made(self) -> Any:
        """The copy."""
        kernels, views = self._recorded.kernels, self._recorded.views
        for node in self._graph.graph.nodes:
            reads_waiting = any(each in self._waiting for each in node.all_input_nodes)
            if node in kernels:
                if not self._joins(node):
                    self._run_waiting()
                self._waiting[node] = None
            elif reads_waiting and node in views:
                self._waiting[node] = None
            else:
                if reads_waiting or writes(node):
                    self._run_waiting()
                self._copy(node)
        fetched = {
            copy for node, copy in self._copies.items() if node in views or node.op == "get_attr"
        }
        self._new.eliminate_dead_code(lambda node: node not in fetched)
        return self._new

    def _copy(self, node: Node) -> None:
        self._copies[node] = self._new.node_copy(node, self._copies.__getitem__)

    def _joins(self, node: Node) -> bool:
        """Whether the kernel reads whole results of those that wait, if any, and all of these have
        as many threads as it, or one."""
        kernels = self._recorded.kernels
        read = map(self._recorded.whole, node.args)
        if any(each in self._waiting and each not in kernels for each in read):
            return False
        threads = {kernels[each].kernel.threads for each in (*self._steps, node)}
        return len(threads - {1}) <= 1

    @property
    def _steps(self) -> list[Node]:
        return [node for node in self._waiting if node in self._recorded.kernels]

    def _is_read(self, node: Node) -> bool:
        """Whether something beside those that wait reads the node."""
        views = self._recorded.views
        return any(
            user not in self._waiting or (user in views and self._is_read(user))
            for user in node.users
        )

    def _run_waiting(self) -> None:
        """Call the kernels that wait, and make the views of their results that others read."""
        steps, whole = self._steps, self._recorded.whole
        if not steps:
            return
        read = dict.fromkeys(whole(each) for node in steps for each in node.args)
        others = [node for node in read if node not in self._waiting]
        stored = {n: place for n in others if (place := _stored(self._graph, n)) is not None}
        given = [node for node in others if node not in stored]
        results = [node for node in steps if self._is_read(node)]
        call = _Sequence(self._recorded, steps, given, stored, results).function()
        found = self._new.call_function(call, tuple(self._copies[node] for node in given))
        for k, node in enumerate(results):
            self._copies[node] = self._new.call_function(operator.getitem, (found, k))
        for node in self._waiting:
            if node in self._recorded.views and self._is_read(node):
                self._copy(node)
        self._waiting.clear()


_Stored = tuple[Any, str]
"""A module, and the name of a tensor of its: a buffer, for which a parameter may be set."""


def _stored(module: Any, node: Node) -> _Stored | None:
    """Where the buffer is that the node gets from the module; None for other nodes."""
    if node.op != "get_attr":
        return None
    path, _, name = node.target.rpartition(".")
    owner = attribute_of(module, path) if path else module
    return (owner, name) if name in owner._buffers else None


class _Sequence:
    """Kernels of a graph as one call.

    It takes the values of the nodes `given`, finds those of `stored` where they say, and returns a
    list of `results`.
    """

    def __init__(
        self,
        recorded: Recorded,
        steps: Sequence[Node],
        given: Sequence[Node],
        stored: Mapping[Node, _Stored],
        results: Sequence[Node],
    ) -> None:
        self._recorded, self._steps = recorded, steps
        self._given, self._stored, self._results = given, stored, results

    def function(self) -> Callable[..., list[Tensor]]:
        """The call, under a name that a graph can print."""
        quick = self._native()
        stored = [(owner._buffers, name) for owner, name in self._stored.values()]
        like = [self._recorded.kernels[node].output for node in self._results]

        def kernels(*given: Tensor) -> list[Tensor]:
            made = [torch.empty_like(each) for each in like]
            own = [buffers.get(name) for buffers, name in stored]  # None does not fit
            if quick((*given, *own, *made)):
                return self._one_by_one(given)
            return made

        return kernels

    def _native(self) -> Callable[[tuple[Any, ...]], int]:
        arguments = [*self._given, *self._stored, *self._results]
        position = {node: k for k, node in enumerate(arguments)}
        number = {node: k for k, node in enumerate(self._steps)}

        def place(node: Node) -> Place:
            at = position.get(node)
            return Intermediate(number[node]) if at is None else Argument(at)

        whole, kernels = self._recorded.whole, self._recorded.kernels
        steps = [
            Step(kernels[node].kernel, (*[place(whole(each)) for each in node.args], place(node)))
            for node in self._steps
        ]
        return sequence(steps, [self._recorded.shapes[node] for node in arguments])

    def _one_by_one(self, given: Sequence[Tensor]) -> list[Tensor]:
        """The results from PyTorch's operators, which copy what does not fit, or say why not."""
        values: Values = dict(zip(self._given, given, strict=True))
        values |= {node: getattr(owner, name) for node, (owner, name) in self._stored.items()}
        return [_value(node, values) for node in self._results]


def _value(node: Node, values: Values) -> Tensor:
    """What the node computes of the nodes in `values`, to which it is added."""
    if node not in values:
        args, named = fx.node.map_arg((node.args, node.kwargs), lambda n: _value(n, values))
        values[node] = node.target(*args, **named)
    return values[node]
