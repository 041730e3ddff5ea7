"""Writes of a part of a tensor in its place, in a graph that has its kernels.

    put = index_copy(x, 2, i, y); z = exp(put); x.copy_(put)  ->  x.index_copy_(2, i, y); z = exp(x)

A cache of a few thousand positions is not copied twice for one of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from autosched.torch.written_buffers import is_view, is_write

Node = Any
_aten = torch.ops.aten

_IN_PLACE = {
    _aten.index_copy.default: _aten.index_copy_.default,
    _aten.index_put.default: _aten.index_put_.default,
    _aten.index_add.default: _aten.index_add_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter.value: _aten.scatter_.value,
    _aten.masked_fill.Scalar: _aten.masked_fill_.Scalar,
}
"""What changes a part of its first argument, and the operation that does so in its place."""

_PARTS = {
    _aten.slice_scatter.default: _aten.slice.Tensor,
    _aten.select_scatter.default: _aten.select.int,
}
"""What replaces a part of its first argument by the second, and the operation that is this part."""


def write_in_place(graph: Any) -> None:
    """Let the graph write to inputs and buffers where it changes a part of them, not at its end.

    Nothing may read the tensor as it was afterwards, and no result may be what it is then.
    """
    place = {node: i for i, node in enumerate(graph.nodes)}
    names = Counter(node.target for node in graph.nodes if node.op == "get_attr")
    for write in [node for node in graph.nodes if is_write(node)]:
        tensor, new = write.args[:2]
        if new.target not in {*_IN_PLACE, *_PARTS} or new.args[0] is not tensor:
            continue
        views = _views(tensor)
        readers = {user for each in views for user in each.users if user.op != "output"}
        late = any(place[each] > place[new] for each in readers - {write})
        overlap = any(each in views for each in new.all_input_nodes if each is not tensor)
        returned = any(user.op == "output" for each in _views(new) for user in each.users)
        if late or overlap or returned or names[tensor.target] > 1:
            continue
        with graph.inserting_before(new):
            _put(graph, tensor, new)
        new.replace_all_uses_with(tensor)
        graph.erase_node(write)
        graph.erase_node(new)


def _put(graph: Any, tensor: Node, new: Node) -> None:
    """Write to the tensor what makes it `new`."""
    if new.target in _IN_PLACE:
        graph.call_function(_IN_PLACE[new.target], new.args, new.kwargs)
        return
    _, value, *where = new.args
    part = graph.call_function(_PARTS[new.target], (tensor, *where), new.kwargs)
    graph.call_function(_aten.copy_.default, (part, value))


def _views(node: Node) -> set[Node]:
    """The node and all views of it."""
    views = (user for user in node.users if is_view(user.target))
    return {node}.union(*map(_views, views))
