"""A model as a graph of PyTorch's own operators, and what is known of its nodes.

`torch.export` traces the model rather than a backend of `torch.compile`: its graph says which
tensors are weights, so that they can be stored once as a kernel expects them, and a backend is
given them as inputs. Operators stay as the model calls them (`linear`, not `permute` and `addmm`),
without operations in place.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from autosched.arguments import found
from autosched.errors import ConfigError
from autosched.torch.call_arguments import check_examples, parameters_of
from autosched.torch.pure import FILLED, PURE
from autosched.torch.strides import settle_strides
from autosched.torch.written_buffers import (
    is_write,
    refuse_old_values,
    reshaped_buffers,
    return_own,
)

Node = Any
Tensor = Any


def exported(model: Any, inputs: Sequence[Any], named: Mapping[str, Any] | None = None) -> Any:
    """The GraphModule of `model` in inference, for a call with these arguments.

    Its nodes have the shapes of these inputs; weights are `get_attr` nodes. It takes all arguments
    by position, in the order of `Parameters.by_name`. Raises ConfigError for a model that is not in
    inference, arguments that it does not take, and where `traced` does.
    """
    if isinstance(model, torch.export.ExportedProgram):
        raise ConfigError(
            "model: expected a torch.nn.Module, found an ExportedProgram; give its module()"
        )
    if not isinstance(model, torch.nn.Module):
        raise ConfigError(f"model: expected a torch.nn.Module, {found(model)}")
    if model.training and not _is_exported(model):
        raise ConfigError(
            "model: expected a model in inference, found one in training; call model.eval() first"
        )
    check_examples(model, inputs, named or {})
    parameters = parameters_of(model)
    arguments = parameters.by_name(inputs, named or {})
    return traced(model, *parameters.split(arguments, len(inputs)))


def _is_exported(model: Any) -> bool:
    """Whether it is a module of torch.export's, which computes as it was exported.

    It calls itself in training always, and refuses `eval()`.
    """
    return isinstance(model, fx.GraphModule) and "eval" in vars(model)


def traced(model: Any, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The GraphModule of `model` for this call.

    Raises ConfigError for a model that PyTorch cannot export, or not rightly, or that writes to its
    inputs.
    """
    values = list(_distinct(model, (*inputs, *named.values())))
    given = tuple(values[: len(inputs)])
    by_name = dict(zip(named, values[len(inputs) :], strict=True))
    try:
        program = _in_its_mode(model, given, by_name)
    except ConfigError:
        raise
    except Exception as error:  # of PyTorch's many kinds
        raise ConfigError(
            f"model: torch.export cannot trace it: {_first_line(error)}; try "
            "torch.export.export(model, example_inputs), which says more, and give the part of the "
            "model that it can trace"
        ) from error
    written = dict(getattr(program.graph_signature, "user_inputs_to_mutate", {}))
    if written:
        raise ConfigError(
            f"model: it writes to its input {', '.join(map(str, written.values()))}; give it a "
            "copy to write to, x.clone()"
        )
    module = program.module()
    return_own(module.graph)
    return prepared(module)


def prepared(module: Any) -> Any:
    """The traced module as matches read it: without checks, with strides as they will be."""
    for node in list(module.graph.nodes):
        # Checks of the inputs and of what is converted, made by export.
        if not node.users and (node.op == "call_module" or node.target is _CHECK):
            module.graph.erase_node(node)
    _name_types(module.graph)
    settle_strides(module.graph)
    return fx.GraphModule(module, module.graph)  # a plain one: export's refuses eval()


def _name_types(graph: Any) -> None:
    """Replace each `x.type_as(y)` by a conversion to the type of y, or by x if it has that."""
    for node in list(graph.find_nodes(op="call_function", target=_aten.type_as.default)):
        x, other = (each.meta["val"] for each in node.args)
        if x.device != other.device:
            continue
        found = node.args[0]
        if x.dtype != other.dtype:
            with graph.inserting_before(node):
                found = graph.call_function(
                    _aten._to_copy.default, (found,), {"dtype": other.dtype}
                )
            found.meta = dict(node.meta)
        node.replace_all_uses_with(found)
        graph.erase_node(node)


def _distinct(model: Any, inputs: Iterable[Any]) -> Iterator[Any]:
    """The inputs as `apart` has them, each in memory of its own, which no weight has either.

    `torch.export` takes a tensor that is given twice, or is a weight, for a single one, and cannot
    tell parts of one memory apart.
    """
    known = set(map(_memory, (*model.parameters(), *model.buffers())))
    for value in map(apart, inputs):
        found = value
        if isinstance(value, torch.Tensor):
            found = _copied(value) if _memory(value) in known else value
            known.add(_memory(found))
        yield found


def _memory(tensor: Tensor) -> int:
    """Which memory it is in; which object it is where that is not known."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    return int(tensor.untyped_storage().data_ptr()) if plain else id(tensor)


def _copied(tensor: Tensor) -> Tensor:
    """Another tensor with the same values, stored with the same strides."""
    if tensor.layout != torch.strided:
        return tensor.detach()
    made = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return made.copy_(tensor.detach())


def _in_its_mode(model: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The program without gradients, or with them where the model turns them on inside.

    Weights that were made in inference mode are traced in that mode: no other takes them.
    """
    given = (v for v in (*inputs, *named.values()) if isinstance(v, torch.Tensor))
    if any(t.is_inference() for t in (*model.parameters(), *model.buffers(), *given)):
        with torch.inference_mode():
            return _program(model, inputs, named)
    try:
        with torch.no_grad():
            return _program(model, inputs, named)
    except ConfigError:
        raise
    except Exception:
        with torch.enable_grad():
            return _program(model, inputs, named)


def _program(model: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The model as `torch.export` traces it."""
    with alone(), _unchanged(model), without_logs(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PyTorch, about its own types
        warnings.filterwarnings("ignore", _LAYERS_OWN, UserWarning)
        program = torch.export.export(model, inputs, named)
        refuse_old_values(program)
        try:
            return program.run_decompositions({})
        except RuntimeError as error:
            shapes = reshaped_buffers(program)
            if not shapes:
                raise
            raise ConfigError(
                f"model: its buffer {', '.join(shapes)} changes its shape in this call, which "
                "torch.export cannot trace; call the model once before"
            ) from error


@contextmanager
def alone() -> Iterator[None]:
    """No other thread traces or compiles meanwhile: PyTorch has one state of it for all threads.

    What others call of torch.compile is computed as it is then, where it would be an error.
    """
    dynamo: Any = torch._dynamo  # imported here, which takes a second
    with dynamo.convert_frame.compile_lock, dynamo.config.patch(error_on_nested_fx_trace=False):
        yield


@contextmanager
def without_logs() -> Iterator[None]:
    """PyTorch's log has no pages of an error that is raised anyway."""
    logs = [logging.getLogger(f"torch.{name}") for name in _LOGS]
    for log in logs:
        log.addFilter(_no_problem)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(_no_problem)


_LOGS = "_subclasses.fake_tensor", "fx.experimental.symbolic_shapes"


def _no_problem(logged: logging.LogRecord) -> bool:
    return logged.levelno < logging.WARNING


@contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Modules lose the attributes that they set while they are traced: tensors without values.

    `torch.export` restores the attributes that there were.
    """
    before = {module: set(vars(module)) for module in model.modules()}
    try:
        yield
    finally:
        for module, names in before.items():
            for name in set(vars(module)) - names:
                delattr(module, name)


_LAYERS_OWN = r"The tensor attributes? (self\.[^ ]*_flat_weights\[\d+\],? )+w"
"""What PyTorch says of `nn.LSTM` and its like, which assign their weights anew: `... were assigned
during export. Such attributes must be registered as buffers`."""


def _first_line(error: Exception) -> str:
    """What the error says first, or its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def apart(value: Any) -> Any:
    """The tensor, copied where elements share memory, as those of `expand` do; others as they are.

    No other input can be stored as such a tensor is.
    """
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value
    reach = 0
    for stride, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size > 1 and stride <= reach:
            return value.contiguous()
        reach += stride * (size - 1)
    return value


def value_of(node: Node) -> Tensor:
    """What the node computes, without values; None where that is no tensor, or one whose sizes
    depend on values.
    """
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) and has_known_sizes(value) else None


def has_known_sizes(tensor: Tensor) -> bool:
    """Whether no size depends on values, as those of `x[x > 0]` do."""
    return all(isinstance(size, int) for size in tensor.shape)


def shape_of(node: Node) -> tuple[int, ...]:
    """The sizes of what the node computes."""
    return tuple(int(size) for size in value_of(node).shape)


def is_contiguous(node: Node) -> bool:
    """Whether its result is stored as a kernel stores one, rows one after the other."""
    value = value_of(node)
    return value is not None and bool(value.is_contiguous())


def attribute_of(module: Any, path: str) -> Any:
    """The part of a module that a `get_attr` node reads: `layer1.conv.weight`."""
    found = module
    for name in path.split("."):
        found = getattr(found, name)
    return found


def arguments_of(node: Node) -> dict[str, Any]:
    """The arguments of a call by the names of PyTorch's schema, those that are left out too."""
    given: Mapping[str, Any] = node.kwargs
    return {
        a.name: node.args[i] if i < len(node.args) else given.get(a.name, a.default_value)
        for i, a in enumerate(node.target._schema.arguments)
    }


def name_of_operation(node: Node) -> str:
    """`add` of `aten.add.Tensor`, `and` of `aten.__and__.Tensor`."""
    name: str = node.target.overloadpacket.__name__
    return name.strip("_")


def only_user(node: Node) -> Node | None:
    """The node that alone reads the result; None where there are several or none."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def place_of(node: Node) -> str:
    """The module that the node is of: `layer1.conv`; an empty text for the model itself."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    places = [path for path, _ in stack.values()]
    return re.sub(r"^L\['\w+'\]\.?", "", places[-1]) if places else ""


class Constants:
    """The tensors of a graph that no input changes: weights, and what is computed from them.

    `given` has the weights that are inputs of the graph, and what they are now.
    """

    def __init__(self, module: Any, given: Mapping[Node, Tensor] | None = None) -> None:
        self._module = module
        self.given = dict(given or {})
        written = (n.args[0] for n in module.graph.nodes if is_write(n))
        self._written = {node.target for node in written if node.op == "get_attr"}
        self._known: dict[Node, bool] = {}
        self._calls: dict[Node, Any] = {}  # arguments of what is computed: erased nodes lose theirs

    def __contains__(self, node: Node) -> bool:
        if node not in self._known:
            self._known[node] = self._is_constant(node)
        return self._known[node]

    def value(self, node: Node) -> Tensor:
        """The tensor of a node that is known as a constant, also of one that was erased since."""
        if node.op == "get_attr":
            return attribute_of(self._module, node.target).detach()
        if node.op == "placeholder":
            return self.given[node].detach()
        args, kwargs = self._calls[node]
        if node.target in FILLED:
            args = (_like(args[0]), *args[1:])
        args, kwargs = fx.map_arg((args, kwargs), self.value)
        with torch.no_grad():
            return node.target(*args, **kwargs)

    def leaves(self, node: Node) -> set[Node]:
        """The weights that a constant node is computed from."""
        return {leaf for each in _inputs(node) for leaf in self.leaves(each)} or {node}

    def _is_constant(self, node: Node) -> bool:
        if node.op == "get_attr":
            return node.target not in self._written and value_of(node) is not None
        if node.op == "placeholder":
            return node in self.given
        pure = node.op == "call_function" and node.target in PURE
        pure = pure and (node.target not in FILLED or value_of(node.args[0]) is not None)
        self._calls[node] = node.args, dict(node.kwargs)
        return pure and all(each in self for each in _inputs(node))


def _inputs(node: Node) -> Iterable[Node]:
    """The nodes whose elements the node's depend on."""
    found: Iterable[Node] = node.all_input_nodes
    return [each for each in found if node.target not in FILLED or each is not node.args[0]]


def _like(node: Node) -> Tensor:
    """A tensor that is stored as the node is, of any values."""
    value = value_of(node)
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


_aten = torch.ops.aten
SAME_ELEMENTS = {
    _aten.view.default,
    _aten.reshape.default,
    _aten._unsafe_view.default,
    _aten.flatten.using_ints,
    _aten.unsqueeze.default,
    _aten.squeeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.clone.default,
    _aten.contiguous.default,
    _aten.alias.default,
    _aten.detach.default,
}
"""Nodes whose result has the elements of their input in their order, if both are contiguous."""

_CHECK = _aten._assert_tensor_metadata.default
