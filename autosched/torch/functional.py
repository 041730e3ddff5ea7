"""A graph of torch.compile as one of PyTorch's own operators, for the inputs of a call.

    x.add_(1); return (x * 2,)   ->   add = x + 1; mul = add * 2; x.copy_(add); return (mul,)

`torch.export` makes the same graph in several times the time. It has a state for all threads
besides, by which calls of `torch.compile` in other threads fail meanwhile.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import (
    FunctionalTensor,
    FunctionalTensorMode,
    dispatch_functionalize,
)
from torch.amp.autocast_mode import _enter_autocast
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.traceback import preserve_node_meta

from autosched.torch.model_graph import alone, attribute_of, prepared, without_logs
from autosched.torch.written_buffers import is_write

Node = Any
Tensor = Any
_aten = torch.ops.aten


class NotFunctionalError(Exception):
    """A graph that cannot be made here; `torch.export` may be able to."""


def functional(graph: Any, inputs: Sequence[Any]) -> Any:
    """The GraphModule of `graph` in inference, with a placeholder for each of the inputs.

    What the graph writes to an input is written at its end. Raises NotFunctionalError where more
    than that would be missing: results that are parts of such an input, inputs that get another
    shape, and what PyTorch converts under `torch.autocast`.
    """
    if torch.is_autocast_enabled("cpu"):
        raise NotFunctionalError("its operations are converted by torch.autocast")
    try:
        module = _traced(graph, inputs)
        _write_at_end(module.graph, graph, inputs)
    except NotFunctionalError:
        raise
    except Exception as error:  # of PyTorch's many kinds
        raise NotFunctionalError(str(error)) from error
    _leave_out(module.graph)
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        if not _is_known(node, module):
            raise NotFunctionalError(f"{node.target} is no operation on tensors")
    return prepared(module)


def _traced(graph: Any, inputs: Sequence[Any]) -> Any:
    """The graph of pure operations, which returns its inputs as they are then after its results."""

    def with_inputs(*given: Any) -> Any:
        return _Inference(graph).run(*given), given

    run = dispatch_functionalize(with_inputs, FunctionalTensorMode(pre_dispatch=True, export=True))
    with alone(), _compiling(), without_logs(), preserve_node_meta(), _without_values() as like:
        return make_fx(run, pre_dispatch=True)(*map(like, inputs))


class _Inference(fx.Interpreter):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """Runs a graph; what `torch.utils.checkpoint` computes again for gradients is a part of it."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, which may be a part that is computed again."""
        if str(target) == "tag_activation_checkpoint":  # torch.ops has it after PyTorch 2.6 only
            return _Inference(args[0]).run(*args[1:])
        return super().call_function(target, args, kwargs)


@contextmanager
def _compiling() -> Iterator[None]:
    """PyTorch knows that this is no trace by a user's hand, in which other threads could call
    nothing of torch.compile."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextmanager
def _without_values() -> Iterator[Callable[[Any], Any]]:
    """Tensors have no values; yields what makes one in memory of its own that is like another."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True)

    def like(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            return mode.from_tensor(value)
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )

    with torch.inference_mode(False), torch.no_grad(), mode:
        yield like


def _write_at_end(made: Any, graph: Any, inputs: Sequence[Any]) -> None:
    """Let `made` return what `graph` does, and write at its end what that writes to its inputs."""
    (output,) = made.find_nodes(op="output")
    results, after = output.args[0]
    places = made.find_nodes(op="placeholder")
    written = [i for i, now in enumerate(after) if isinstance(now, fx.Node) and now != places[i]]
    own = _written_results(graph, inputs, written) if written else {}
    output.args = (tuple(places[own[k]] if k in own else r for k, r in enumerate(results)),)
    for i in written:
        with made.inserting_before(output):
            write = made.call_function(_aten.copy_.default, (places[i], after[i]))
        write.meta["val"] = places[i].meta["val"]


def _written_results(graph: Any, inputs: Sequence[Any], written: Sequence[int]) -> dict[int, int]:
    """Which results are inputs that the graph writes to, and which ones.

    Raises NotFunctionalError for a result that is a part of such an input, or is stored otherwise,
    and for such an input that gets another shape.
    """
    with _without_values() as like:
        given = list(map(like, inputs))
        before = [_place(given[i]) for i in written]
        results = fx.Interpreter(graph).run(*given)
    if before != [_place(given[i]) for i in written]:
        raise NotFunctionalError("an input becomes another tensor")
    found: dict[int, int] = {}
    for k, result in enumerate(results):
        for i in written:
            if isinstance(result, torch.Tensor) and _memory(result) == _memory(given[i]):
                if _place(result) != _place(given[i]):
                    raise NotFunctionalError("a result is a part of what is written")
                found[k] = i
    return found


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype


def _leave_out(graph: Any) -> None:
    """Remove gradients and conversions that are turned off; dropout in inference is a copy, as
    `torch.export` has it."""
    for node in list(graph.nodes):
        if node.target in _DROPOUTS and not node.args[2]:
            node.target, node.args = _aten.clone.default, node.args[:1]
            node.meta["val"] = node.args[0].meta["val"].clone()
            continue
        if node.target is _enter_autocast and (node.args[0] != "cpu" or not node.args[2]):
            for exit_ in list(node.users):
                graph.erase_node(exit_)
        elif node.target is not torch._C._set_grad_enabled or node.args[0]:
            continue
        graph.erase_node(node)


def _is_known(node: Node, module: Any) -> bool:
    """Whether the node computes something of tensors, reads one, or is a write at the end."""
    if node.op == "get_attr":
        return not isinstance(attribute_of(module, node.target), FakeTensor | FunctionalTensor)
    if node.op != "call_function":
        return True
    if isinstance(node.target, torch._ops.OpOverload):
        return not node.target._schema.is_mutable or is_write(node)
    plain = getattr(node.target, "__module__", "") in (operator.add.__module__, math.__name__)
    return plain or isinstance(node.target, torch._ops.HigherOrderOperator)


_DROPOUTS = {
    _aten.dropout.default,
    _aten.feature_dropout.default,
    _aten.alpha_dropout.default,
    _aten.feature_alpha_dropout.default,
}
