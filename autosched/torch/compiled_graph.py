"""A graph of torch.compile with recorded kernels in it, made anew for other shapes and weights."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from autosched.errors import ConfigError
from autosched.target import make_target
from autosched.torch.direct import Direct
from autosched.torch.elementwise import BATCH_NORMS
from autosched.torch.functional import NotFunctionalError, functional
from autosched.torch.in_place import write_in_place
from autosched.torch.matches import LeftOut, matches_of
from autosched.torch.model_graph import Constants, arguments_of, traced
from autosched.torch.number_inputs import number_inputs
from autosched.torch.recorded import Known, Report, put_kernels
from autosched.torch.replacement import Replacement
from autosched.torch.written_buffers import is_write
from autosched.user_warning import warn
from autosched.words import count

Key = tuple[tuple[Any, int | None], ...]
"""What is seen of each input (`_seen`)."""

MOST_SHAPES = 8
"""For how many shapes a graph is made; torch.compile gives up after as many by itself."""

MOST_WEIGHTS = 64
"""For how many sets of weights: layers of one class may share a graph."""


@dataclass(frozen=True, slots=True)
class _Weight:
    """A weight as it was when it was stored for a kernel; its memory is kept, so that no other
    tensor has its address. PyTorch counts the changes of a tensor, but not those of `.data`, nor
    those that batch normalisation in training makes to its statistics: `values` are these.
    """

    position: int
    tensor: Any
    version: int
    values: Any = None

    def is_in(self, inputs: Sequence[Any]) -> bool:
        """Whether it is the same still. Its address is part of a variant's key."""
        now = inputs[self.position]
        same: bool = self.values is None or torch.equal(self.values, now)
        return same and now._version == self.version


class _Variant:
    """The graph for the shapes and the weights of these inputs.

    Made under `torch.autocast` it has the conversions of that, and is called without.
    """

    def __init__(
        self, graph: Any, inputs: Sequence[Any], weights: Sequence[int], known: Known
    ) -> None:
        self._lock = threading.Lock()
        self._whole = graph
        self._written: Sequence[int] = ()
        self._weights: tuple[_Weight, ...] = ()
        self._plain: dict[int, Any] = {}
        self._converts = torch.is_autocast_enabled("cpu")
        try:
            module = _operations(graph, inputs)
        except ConfigError as error:
            self.report = Report((), (LeftOut("the whole graph", "", _named(graph, str(error))),))
            self._call: Callable[..., Any] = graph
            return
        places = [node for node in module.graph.nodes if node.op == "placeholder"]
        written = {node.args[0] for node in module.graph.nodes if is_write(node)}
        self._written = [i for i, place in enumerate(places) if place in written]
        weights = [i for i in weights if places[i] not in written]
        self._constants = Constants(module, {places[i]: inputs[i] for i in weights})
        self._replacement = Replacement(module, self._constants, shared=True)
        statistics = _statistics(module.graph)
        matches, left_out = matches_of(module, self._constants, make_target("cpu"), "none")
        self.report = put_kernels(self._replacement, matches, left_out, known)
        read = self._replacement.read
        self._call = graph
        if self.report.replaced:
            self._graph = self._replacement.finish()
            write_in_place(self._graph.graph)
            self._graph.recompile()
            self._call = partial(Direct(), self._graph)
            self._plain = {i: inputs[i].detach() for i in weights}  # no parameters
        self._places = {i: places[i] for i in weights if places[i] in read}
        self._uncounted = {i for i in self._places if places[i] in statistics}
        self._remember(inputs)

    def __call__(self, *inputs: Any) -> Any:
        if self._written and not self._are_apart(inputs):
            return self._whole(*inputs)
        if not all(weight.is_in(inputs) for weight in self._weights):
            with self._lock:
                self._constants.given = {place: inputs[i] for i, place in self._places.items()}
                self._replacement.refresh(self._graph)
                self._remember(inputs)
        given = [*inputs]
        for i, tensor in self._plain.items():
            given[i] = tensor
        if not (self._converts and self.report.replaced):
            return self._call(*given)
        with torch.autocast("cpu", enabled=False):
            return self._call(*given)

    def _are_apart(self, inputs: Sequence[Any]) -> bool:
        """Whether each input that is written to has memory of its own."""
        tensors = {i: value for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
        memory = {i: value.untyped_storage().data_ptr() for i, value in tensors.items()}
        others = Counter(memory.values())
        return all(others[memory[i]] == 1 for i in self._written)

    def _remember(self, inputs: Sequence[Any]) -> None:
        self._constants.given.clear()
        if self.report.replaced:
            self._weights = tuple(self._weight(i, inputs[i].detach()) for i in self._places)

    def _weight(self, position: int, now: Any) -> _Weight:
        values = now.clone() if position in self._uncounted else None
        return _Weight(position, now, now._version, values)


class CompiledGraph:
    """What the backend returns for `graph`: called as it is, with kernels where there are records.

    A call that asks for gradients goes to the graph as it was; so do calls of shapes beyond the
    first `MOST_SHAPES`, and of weights beyond `MOST_WEIGHTS`. A warning says each of this once.
    `tell` is given the report of each graph that is made.
    """

    def __init__(
        self, graph: Any, examples: Sequence[Any], known: Known, tell: Callable[[Report], None]
    ) -> None:
        self._graph = graph
        self._with_numbers, self._numbers = number_inputs(graph, examples)
        self._known = known
        self._tell_report = tell
        names = [str(n.target) for n in graph.graph.nodes if n.op == "placeholder"]
        self._weights = tuple(map(_is_weight, names, examples))
        self._variants: dict[Key, _Variant] = {}
        self._lock = threading.Lock()
        self._told: set[str] = set()

    def __call__(self, *inputs: Any) -> Any:
        """The graph's results, as a sequence."""
        reason = _reason_against_kernels(inputs)
        if reason:
            self._tell(reason)
            return self._graph(*inputs)
        given = [*inputs]
        for i in self._numbers:
            given[i] = given[i].item()
        key = tuple(map(_seen, self._weights, given))
        variant = self._variants.get(key)
        if variant is None:
            variant = self._variant(key, given)
        return self._graph(*inputs) if variant is None else variant(*given)

    def _variant(self, key: Key, inputs: Sequence[Any]) -> _Variant | None:
        """The variant for these inputs; None where there are as many as there may be."""
        with self._lock:
            if key in self._variants:
                return self._variants[key]
            limits = (0, "shapes and numbers", MOST_SHAPES), (1, "weights", MOST_WEIGHTS)
            for part, which, most in limits:
                known = {tuple(seen[part] for seen in each) for each in self._variants}
                if tuple(seen[part] for seen in key) not in known and len(known) >= most:
                    self._tell(
                        f"it has kernels for {count(most, 'set')} of {which}, others are computed "
                        "by PyTorch"
                    )
                    return None
            positions = [i for i, (_, address) in enumerate(key) if address is not None]
            made = _Variant(self._with_numbers, inputs, positions, self._known)
            self._variants[key] = made
            self._tell_report(made.report)
            return made

    def _tell(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            warn(f"a graph of torch.compile with kernels: {reason}")


def _operations(graph: Any, inputs: Sequence[Any]) -> Any:
    """The graph as one of PyTorch's own operators. Raises ConfigError where there is none."""
    try:
        return functional(graph, inputs)
    except NotFunctionalError:
        return traced(graph, inputs, {})


def _named(graph: Any, text: str) -> str:
    """The text with the graph's names for its inputs, which `torch.export` calls `args_3`."""
    names = [str(node.target) for node in graph.graph.nodes if node.op == "placeholder"]
    return re.sub(r"\bargs_(\d+)\b", lambda found: names[int(found[1])], text)


def _statistics(graph: Any) -> set[Any]:
    """What is known of numbers that batch normalisation normalises: their means and variances."""
    given = [arguments_of(node) for node in graph.nodes if node.target in BATCH_NORMS]
    return {each[key] for each in given for key in ("running_mean", "running_var")}


def _reason_against_kernels(inputs: Sequence[Any]) -> str:
    """Why PyTorch computes a call of the graph; empty where kernels may."""
    if torch.is_grad_enabled() and any(
        value.requires_grad for value in inputs if isinstance(value, torch.Tensor)
    ):
        return (
            "it is asked for gradients, which kernels have not: PyTorch computes it; for inference "
            "call it under torch.no_grad() or torch.inference_mode()"
        )
    return ""


def _is_weight(name: str, example: Any) -> bool:
    """Whether the input is taken for a parameter or buffer, which seldom change.

    Results do not depend on that: what changes is stored anew.
    """
    return isinstance(example, torch.nn.Parameter) or "_buffers_" in name


def _seen(weight: bool, value: Any) -> tuple[Any, int | None]:
    """What a graph depends on of an input, and where it lies if it is a weight.

    A tensor made in inference mode is none: its changes are not counted. Values that are no tensors
    become part of the graph.
    """
    if not isinstance(value, torch.Tensor):
        return (type(value), value), None
    if value.layout != torch.strided:
        return (value.shape, value.layout, value.dtype, False), None
    plain = weight and not value.is_inference()
    kind = value.shape, value.stride(), value.dtype, plain
    return kind, value.data_ptr() if plain else None
