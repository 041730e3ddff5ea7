"""Calls of a graph with kernels, past PyTorch's dispatcher wherever that sees nothing of them."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from autosched.runtime.parallel import on_workers
from autosched.runtime.sequence import can_be_step
from autosched.torch.registry import NAMESPACE, kernel_for
from autosched.torch.sequences import Called, Recorded, with_sequences, writes


class _Known(NamedTuple):
    """What was made of a graph: the function that its text was, and the call instead of it."""

    code: Any
    call: Any


class Direct:
    """Calls a graph as it is, with kernels that follow one another as one native call.

    The first call on plain tensors is recorded: what it shows of shapes and memory says which
    kernels these are. Calls that are traced, transformed, profiled or seen by hooks go to the
    graph, and so do those of another module, or of a graph with a `forward` of the user's. Its
    tensors may be set anew; a graph that is edited, or another one, is recorded again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = _Known(None, None)

    def __call__(self, graph: Any, *inputs: Any) -> Any:
        """What the graph returns."""
        if _is_watched() or graph._forward_pre_hooks or graph._forward_hooks:
            return graph(*inputs)
        if not isinstance(graph, fx.GraphModule) or "forward" in vars(graph):
            return graph(*inputs)  # it computes something else than its nodes
        code, call = self._known
        return call(*inputs) if code is type(graph).forward else self._first(graph, inputs)

    def _first(self, graph: Any, inputs: Sequence[Any]) -> Any:
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        are_plain = all(type(value) is torch.Tensor for value in tensors)
        if not are_plain:
            return graph(*inputs)
        recorder, code = _Recorder(graph), type(graph).forward
        found = recorder.run(*inputs)
        with self._lock:
            if self._known.code is not code:
                self._known = _Known(code, _with_kernels(graph, recorder.recorded))
        return found


def _with_kernels(graph: Any, recorded: Recorded) -> Callable[..., Any]:
    """The call of a graph. PyTorch's threads have work only where PyTorch computes part of it."""
    call = with_sequences(graph, recorded)
    own = recorded.kernels.keys() | recorded.views.keys()
    others = [node for node in graph.graph.nodes if node.op.startswith("call_")]
    mixed = any(n not in own and n.target is not operator.getitem for n in others)
    return call if mixed else on_workers(call)


_GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
)
"""Of PyTorch: the hooks of all modules, by kind. Its function that asks for any came after 2.6."""


def _is_watched() -> bool:
    """Whether PyTorch, or somebody by its means, is to see each operation of this call."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
        or torch.autograd._profiler_enabled()
        or any(getattr(torch.nn.modules.module, name) for name in _GLOBAL_HOOKS)
    )


class _Recorder(fx.Interpreter):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """Runs a graph and notes its kernels, shapes and views."""

    def __init__(self, graph: Any) -> None:
        super().__init__(graph)
        self.recorded = Recorded()
        self._spans: dict[Any, tuple[Any, ...]] = {}  # of compact tensors

    def run_node(self, n: Any) -> Any:
        """Run the node and take note of it."""
        found = super().run_node(n)
        if _is_compact(found):
            self.recorded.shapes[n] = tuple(found.shape)
            self._spans[n] = found.data_ptr(), found.numel(), found.dtype
        if isinstance(n.target, torch._ops.OpOverload):
            if n.target.namespace == NAMESPACE:
                self._note_kernel(n, self.fetch_args_kwargs_from_env(n)[0])
            elif len(n.all_input_nodes) == 1 and not writes(n):
                self._note_view(n, found)
        return found

    def _note_kernel(self, n: Any, inputs: Sequence[Any]) -> None:
        if all(map(_is_compact, inputs)):
            kernel, output = kernel_for(n.target, inputs)
            if can_be_step(kernel):
                self.recorded.kernels[n] = Called(kernel, output)

    def _note_view(self, n: Any, found: Any) -> None:
        (source,) = n.all_input_nodes
        if not _share_memory(self.env[source], found):
            return
        views = self.recorded.views
        views[n] = source
        while source is not None:
            if n in self._spans and self._spans.get(source) == self._spans[n]:
                self.recorded.wholes[n] = source
            source = views.get(source)


def _share_memory(one: Any, other: Any) -> bool:
    """Whether both are tensors in the same memory."""
    if type(one) is not torch.Tensor or type(other) is not torch.Tensor:
        return False
    if one.layout != torch.strided or other.layout != torch.strided:
        return False
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() != 0)


def _is_compact(value: Any) -> bool:
    """Whether it is a tensor in the CPU's memory whose elements lie in order."""
    return (
        type(value) is torch.Tensor
        and value.device.type == "cpu"
        and value.layout == torch.strided
        and value.is_contiguous()
        and value.numel() > 0
    )
