"""The operations of a graph that kernels can compute, and why others are left to PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from autosched.errors import ConfigError
from autosched.target import Target
from autosched.task import Task
from autosched.torch.attention import attention
from autosched.torch.chains import chain
from autosched.torch.choices import TRUTHS
from autosched.torch.computation import Computation, NoRuleError
from autosched.torch.convolutions import convolution, transposed
from autosched.torch.element_types import FLOATS, before_widening, is_float, name_of
from autosched.torch.elementwise import FOLLOWERS, extended
from autosched.torch.model_graph import (
    SAME_ELEMENTS,
    Constants,
    is_contiguous,
    place_of,
    shape_of,
    value_of,
)
from autosched.torch.moved import MOVES, is_moving
from autosched.torch.normalisation import (
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)
from autosched.torch.operands import has_channels_last, is_dense, stored_otherwise
from autosched.torch.parts import VIEWS
from autosched.torch.pooling import adaptive_avg_pool, avg_pool, max_pool
from autosched.torch.products import addmm, baddbmm, einsum, linear, matmul
from autosched.torch.reductions import (
    mean,
    root_mean_square,
    total,
    unit_vectors,
    vector_norm,
)
from autosched.torch.upsampling import upsampled
from autosched.torch.winograd import winograd
from autosched.workloads.winograd import TILES

_aten = torch.ops.aten

RULES: dict[Any, Callable[[Any], Computation]] = {
    _aten.linear.default: linear,
    _aten.matmul.default: matmul,
    _aten.mm.default: matmul,
    _aten.bmm.default: matmul,
    _aten.addmm.default: addmm,
    _aten.baddbmm.default: baddbmm,
    _aten.einsum.default: einsum,
    _aten.conv1d.default: convolution,
    _aten.conv2d.default: convolution,
    _aten.conv3d.default: convolution,
    _aten.conv1d.padding: convolution,
    _aten.conv2d.padding: convolution,
    _aten.conv3d.padding: convolution,
    _aten.conv_transpose1d.default: transposed,
    _aten.conv_transpose2d.input: transposed,
    _aten.conv_transpose3d.input: transposed,
    _aten.max_pool1d.default: max_pool,
    _aten.max_pool2d.default: max_pool,
    _aten.max_pool3d.default: max_pool,
    _aten.avg_pool1d.default: avg_pool,
    _aten.avg_pool2d.default: avg_pool,
    _aten.avg_pool3d.default: avg_pool,
    _aten.adaptive_avg_pool1d.default: adaptive_avg_pool,
    _aten.adaptive_avg_pool2d.default: adaptive_avg_pool,
    _aten.adaptive_avg_pool3d.default: adaptive_avg_pool,
    _aten.upsample_linear1d.vec: upsampled,
    _aten.upsample_bilinear2d.vec: upsampled,
    _aten.upsample_trilinear3d.vec: upsampled,
    _aten.softmax.int: softmax,
    _aten.log_softmax.int: log_softmax,
    _aten.group_norm.default: group_norm,
    _aten.instance_norm.default: instance_norm,
    _aten.mean.default: mean,
    _aten.mean.dim: mean,
    _aten.sum.default: total,
    _aten.sum.dim_IntList: total,
    _aten.linalg_vector_norm.default: vector_norm,
    _aten.layer_norm.default: layer_norm,
    _aten.rms_norm.default: rms_norm,
    _aten.scaled_dot_product_attention.default: attention,
}
"""The first operation of a kernel, by PyTorch's name; element-wise ones may follow it."""

_TYPES = " or ".join(map(name_of, FLOATS))

_TRUTH = {_aten.scaled_dot_product_attention.default}
"""What may take truth values, a mask."""

_ORDERED = {attention, einsum, mean, total, vector_norm}
"""What may store the dimensions of its result in any order."""

_IMAGES = {
    convolution,
    transposed,
    max_pool,
    avg_pool,
    adaptive_avg_pool,
    upsampled,
    group_norm,
    instance_norm,
}
"""What stores its result with channels second or last (`torch.channels_last`)."""

_FAST_PATHS = {
    _aten._transformer_encoder_layer_fwd.default,
    _aten._native_multi_head_attention.default,
}
"""What PyTorch's layers take in inference without `torch.export`: one operation for all."""

_FREE = SAME_ELEMENTS | VIEWS | {_aten.expand.default}
"""What computes nothing, and need not be told of."""


@dataclass(frozen=True, slots=True)
class Match:
    """Nodes of a graph that one kernel computes; the last of them has the result.

    `others` are other ways to compute the same of the same nodes, with inputs as they are.
    """

    computation: Computation
    task: Task
    nodes: tuple[Any, ...]
    others: tuple[Computation, ...] = ()

    @property
    def last(self) -> Any:
        """The node that the kernel stands for."""
        return self.nodes[-1]

    @property
    def read(self) -> set[Any]:
        """The nodes that its kernel, or that of another way, reads."""
        ways = (self.computation, *self.others)
        return {node for way in ways for each in way.operands.values() for node in each.nodes}

    @property
    def place(self) -> str:
        """Where the first operation is: its module, or its own name."""
        first = next(node for node in self.nodes if node.target not in MOVES)
        return place_of(first) or str(first.name)

    def by(self, other: Computation) -> Match:
        """The match computed in one of the `others`. Raises NoRuleError where no task can be."""
        return Match(other, _task(other, self.task.target, "none", ()), self.nodes)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An operation that PyTorch goes on computing, and why."""

    operation: str
    place: str
    reason: str


def matches_of(
    module: Any,
    constants: Constants,
    target: Target,
    layout_rewrite: str,
    tiles: Sequence[int] = TILES,
) -> tuple[list[Match], list[LeftOut]]:
    """The matches of the graph in its order, and what is left out.

    Convolutions that can be are matched by Winograd's algorithm, too, once for each of `tiles`.
    """
    taken: set[Any] = set()
    read: set[Any] = set()
    found: dict[Any, Match | LeftOut] = {}
    nodes = [n for n in module.graph.nodes if n.op == "call_function" and n not in constants]
    late = FOLLOWERS | MOVES
    first = [node for node in nodes if node.target not in late]
    # What may follow others is looked at when they are known, from the last of a chain on.
    after = [node for node in reversed(nodes) if node.target in late]
    for node in (*first, *after):
        if node in taken or _is_read_before(node, taken, read):
            continue
        try:
            computation, together = _from(node, taken, constants)
            task = _task(computation, target, layout_rewrite, constants)
            others = tuple(_by_winograd(node, together, tiles, taken, constants))
        except NoRuleError as error:
            if str(error):
                name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
                found[node] = LeftOut(name, place_of(node) or node.name, str(error))
            continue
        match = found[together[0]] = Match(computation, task, together, others)
        taken.update(together)
        read.update(match.read)
    in_order = [found[node] for node in nodes if node in found]
    return (
        [each for each in in_order if isinstance(each, Match)],
        [each for each in in_order if isinstance(each, LeftOut)],
    )


def _from(node: Any, taken: set[Any], constants: Constants) -> tuple[Computation, tuple[Any, ...]]:
    """What a kernel can compute with this node as its first, or as the last of a chain; its nodes.

    NoRuleError says why it is left out, empty where it is no matter.
    """
    if node.target in _FREE:
        raise NoRuleError("")
    if node.target in FOLLOWERS or is_moving(node):
        for tensor in node.all_input_nodes if node.target not in TRUTHS else ():
            _check(tensor, truth=True)
        return _typed(*chain(node, taken, constants))
    rule = RULES.get(node.target)
    if node.target in _FAST_PATHS:
        raise NoRuleError(
            "it is PyTorch's fast path of a whole layer; torch.backends.mha."
            "set_fastpath_enabled(False) before the model is compiled shows its operations"
        )
    if rule is None:
        raise NoRuleError("there is no rule for it here")
    for tensor in (*node.all_input_nodes, node):
        _check(tensor, truth=node.target in _TRUTH)
    in_images = rule in _IMAGES and has_channels_last(node)
    if not (is_contiguous(node) or in_images or (rule in _ORDERED and is_dense(node))):
        raise NoRuleError(stored_otherwise(node))
    found = root_mean_square(node, taken) or unit_vectors(node, taken)
    computation, nodes = found or ((alone := rule(node)), (*alone.within, node))
    computation, followers = extended(computation, nodes[-1], taken, constants)
    return _typed(computation, (*nodes, *followers))


def _typed(computation: Computation, nodes: tuple[Any, ...]) -> tuple[Computation, tuple[Any, ...]]:
    """The computation whose result has the type of the last node's."""
    return replace(computation, output=name_of(value_of(nodes[-1]).dtype)), nodes


def _is_read_before(node: Any, taken: Container[Any], read: Container[Any]) -> bool:
    """Whether kernels read what the node converts or moves, and nothing the node itself or a view
    of it.
    """

    def unread(node: Any) -> bool:
        free = all(user in taken or (user.target in _FREE and unread(user)) for user in node.users)
        return node not in read and free

    return (before_widening(node) is not node or node.target in MOVES) and unread(node)


def _by_winograd(
    node: Any,
    together: tuple[Any, ...],
    tiles: Sequence[int],
    taken: set[Any],
    constants: Constants,
) -> Iterator[Computation]:
    """The convolution with what follows it, `together`, by tiles of each of these sizes."""
    for tile in tiles:
        plain = winograd(node, tile, constants)
        if plain is not None:
            computation, followers = extended(plain, node, taken, constants)
            assert (*plain.within, node, *followers) == together
            yield _typed(computation, together)[0]


def _task(
    computation: Computation, target: Target, layout_rewrite: str, constants: Container[Any]
) -> Task:
    try:
        task = computation.task(target, layout_rewrite, constants.__contains__)
        assert task.tensors  # made here, where what cannot be is told
    except ConfigError as error:  # more elements than a tensor may have
        raise NoRuleError(str(error)) from error
    return task


def _check(node: Any, *, truth: bool) -> None:
    traced, value = node.meta.get("val"), value_of(node)
    if value is None and isinstance(traced, torch.Tensor):
        raise NoRuleError(f"{node.name} has sizes that are not known: {tuple(traced.shape)}")
    if not is_float(value) and not (truth and value is not None and value.dtype == torch.bool):
        kind = "no tensor" if value is None else name_of(value.dtype)
        raise NoRuleError(f"{node.name} is {kind}, expected {_TYPES}")
    if value.device.type != "cpu":
        raise NoRuleError(f"{node.name} is on {value.device}, expected on the CPU")
    if 0 in shape_of(node):
        raise NoRuleError(f"{node.name} has no elements")
