"""Strides of a traced graph's tensors, where PyTorch's trace and its operations differ.

    x of (8, 3, 1, 1), channels last: strides (3, 1, 3, 3);  x.relu() as it is traced: (3, 1, 3, 3)
                                                             as it is computed: (3, 1, 1, 1)

    x.transpose(1, 2).view(1, 3, 8, 8) for x of (1, 64, 3):      traced: (192, 1, 24, 3)
                                                            computed: (3, 1, 24, 3)

The first are contiguous and channels last at once, but by such strides PyTorch chooses the format
of what comes after: a map that is upsampled from these 1x1 elements is channels first, as is what
a convolution makes of the view.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

_aten = torch.ops.aten

_TRACED_WELL = {
    _aten.conv2d.default,
    _aten.conv2d.padding,
    _aten.conv_transpose2d.input,
    _aten.max_pool2d.default,
    _aten.avg_pool2d.default,
    _aten.adaptive_avg_pool2d.default,
    _aten._native_batch_norm_legit_no_training.default,
    _aten.batch_norm.default,
    _aten.cat.default,
}
"""What takes time, and is traced as it is computed where sizes of 1 leave nothing open."""

_VIEWS = {_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default}

_TRACED_AS_CONTIGUOUS = {_aten.roll.default, _aten.channel_shuffle.default}
"""What PyTorch stores as its input is stored, which its trace does not tell."""

_NORMS = {_aten._native_batch_norm_legit_no_training.default, _aten.batch_norm.default}
"""What stores its result as rows, whatever its input, unless that is channels last."""

FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
"""Formats of memory with channels last, by the number of dimensions."""


def settle_strides(graph: Any) -> None:
    """Give the nodes the strides that PyTorch's operations give their results when they run.

    An operation is computed once, of zeros, where its trace may be wrong (as that of an `einsum` is
    with sizes of 1), where its result may have the strides of either format, and where something
    that it reads was traced wrongly.
    """
    changed: set[Any] = set()
    for node in graph.nodes:
        values, nested = tree_flatten(node.meta.get("val"))
        if not _can_be_tried(node) or not (
            any(map(_is_open, values))
            or _is_split(node)
            or (node.target is _aten.einsum.default and 1 in node.meta["val"].shape)
            or any(n in changed or _may_mislead(n, node) for n in node.all_input_nodes)
        ):
            continue
        found = [*map(_settled, values, tree_leaves(_computed(node)))]
        if any(new is not old for new, old in zip(found, values, strict=False)):
            changed.add(node)
            node.meta["val"] = tree_unflatten(found, nested)


def _can_be_tried(node: Any) -> bool:
    """Whether the node calls an operation of PyTorch's own that draws no random numbers, of and
    for tensors of known sizes.
    """
    own = getattr(node.target, "namespace", "") == "aten" or node.target is operator.getitem
    draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    every = tree_leaves([each.meta.get("val") for each in (node, *node.all_input_nodes)])
    sizes = [size for value in every if isinstance(value, torch.Tensor) for size in value.shape]
    known = all(isinstance(size, int) for size in sizes)
    return node.op == "call_function" and own and known and not draws


def _is_open(value: Any) -> bool:
    """Whether it is contiguous and channels last at once, and has the strides of channels last."""
    kinds = _formats(value)
    return bool(kinds) and value.stride() == kinds[1] != kinds[0] and bool(value.is_contiguous())


def _is_split(node: Any) -> bool:
    """Whether it is a view with a size of 1 of what is not contiguous."""
    if node.target not in _VIEWS:
        return False
    value, before = node.meta["val"], node.args[0].meta["val"]
    return 1 in value.shape and not before.is_contiguous()


def _may_mislead(node: Any, user: Any) -> bool:
    """Whether the trace of `user`, which reads the node, may be wrong as the node is stored.

    PyTorch traces `roll`, convolutions of solids, and what reads strides that neither format gives
    to sizes of 1 (`image.permute(2, 0, 1)[None]`) otherwise than it computes them.
    """
    value = node.meta.get("val")
    if user.target in _TRACED_AS_CONTIGUOUS:
        return isinstance(value, torch.Tensor) and not value.is_contiguous()
    kinds = _formats(value)
    if kinds and value.stride() == kinds[0]:
        return False
    if not kinds or not value.is_contiguous(memory_format=FORMATS[value.dim()]):
        stored = isinstance(value, torch.Tensor) and not value.is_contiguous()
        return stored and user.target in _NORMS
    told = user.target in _TRACED_WELL or torch.Tag.pointwise in getattr(user.target, "tags", ())
    return not told or bool(value.stride() != kinds[1])


def _formats(value: Any) -> list[tuple[int, ...]]:
    """The strides that both formats give its shape; nothing for what has no such formats."""
    if not isinstance(value, torch.Tensor) or value.dim() not in FORMATS:
        return []
    formats = torch.contiguous_format, FORMATS[value.dim()]
    made = (torch.empty(value.shape, device="meta", memory_format=each) for each in formats)
    return [each.stride() for each in made]


def _computed(node: Any) -> Any:
    """What the operation computes of zeros; what was traced if it reads indices.

    A view of what cannot be viewed like that becomes a copy, as the model's own `reshape` is.
    """
    values = [leaf for each in node.all_input_nodes for leaf in tree_leaves(each.meta.get("val"))]
    if not all(map(_may_be_zero, values)):
        return node.meta["val"]
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: tree_map(_zeros, n.meta["val"]))
    try:
        with torch.no_grad():
            return node.target(*args, **kwargs)
    except RuntimeError:
        if node.target is not _aten.view.default:
            return node.meta["val"]
    node.target = _aten.reshape.default  # strides that the trace did not know allow no view
    return node.target(*args, **kwargs)


def _may_be_zero(value: Any) -> bool:
    """Whether it is None, or a tensor of floats or truth values on the CPU."""
    if value is None:
        return True
    tensor = isinstance(value, torch.Tensor) and value.layout == torch.strided
    known = tensor and (value.is_floating_point() or value.dtype == torch.bool)
    return known and value.device.type == "cpu"


def _zeros(value: Any) -> Any:
    if value is None:
        return None
    zeros = torch.zeros(_reach(value), dtype=value.dtype)
    return zeros.as_strided(value.shape, value.stride(), value.storage_offset())


def _settled(traced: Any, computed: Any) -> Any:
    """The traced tensor with the strides of the one that was computed; itself if it has these."""
    if not isinstance(traced, torch.Tensor) or traced.stride() == computed.stride():
        return traced
    storage = traced.new_empty(_reach(computed))
    return storage.as_strided(traced.shape, computed.stride(), computed.storage_offset())


def _reach(value: Any) -> int:
    """How many elements there are from the beginning of its storage to its own last one."""
    if not value.numel():
        return int(value.storage_offset())
    steps = zip(value.shape, value.stride(), strict=True)
    return int(value.storage_offset() + sum((n - 1) * step for n, step in steps) + 1)
