"""What only moves elements, read in the kernel that wants them: pads, joins, upsampling, shuffles.

    conv2d(F.pad(F.interpolate(x, scale_factor=2), (1, 1, 1, 1)), w)
        ->  P[n, c, h, w] = X[n, c, (h - 1) // 2, (w - 1) // 2] if 1 <= h and ... else 0.0
    x * cos + torch.cat((-x[..., 4:], x[..., :4]), -1) * sin
        ->  X[i, j] * R[i, j] + ((-X[i, (j + 4)]) if j < 4 else X[i, (j - 4)]) * R2[i, j]

Parts and views between are read where they lie. Nothing is written that is only read once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from autosched.torch.computation import Operand, number_text, times, unused
from autosched.torch.element_types import before_widening, is_float, name_of
from autosched.torch.model_graph import (
    SAME_ELEMENTS,
    arguments_of,
    name_of_operation,
    only_user,
    shape_of,
    value_of,
)
from autosched.torch.operands import (
    groups_of,
    is_dense,
    permutation_of,
    storage_order,
    unless_usual,
)
from autosched.torch.reordered import REORDERED, place_in_input

_aten = torch.ops.aten

PADS = {_aten.pad.default, _aten.constant_pad_nd.default}
_JOINS = {_aten.cat.default, _aten.stack.default}
_UPSAMPLED = {
    _aten.upsample_nearest1d.vec,
    _aten.upsample_nearest2d.vec,
    _aten.upsample_nearest3d.vec,
    _aten._upsample_nearest_exact1d.vec,
    _aten._upsample_nearest_exact2d.vec,
    _aten._upsample_nearest_exact3d.vec,
}
MOVES = PADS | _JOINS | _UPSAMPLED | REORDERED
"""What copies elements to other places, whatever they are."""

_SPLITS = {
    _aten.split.Tensor,
    _aten.split_with_sizes.default,
    _aten.chunk.default,
    _aten.unbind.int,
}

_COMPUTED = {
    _aten.neg.default: "(-{})",
    _aten.add.Tensor: "({} + {})",
    _aten.sub.Tensor: "({} - {})",
    _aten.mul.Tensor: "({} * {})",
    _aten.div.Tensor: "({} / {})",
}
"""What may be computed of elements before they are moved."""


@dataclass(slots=True)
class Elements:
    """Reads elements of nodes at any indices, and collects the inputs that a kernel needs for that.

    `nodes` are the operations that it needs no longer, in an order in which they can be computed.
    `only_moved`: none of them computes anything. There are at most `most`, with which texts grow.
    """

    operands: dict[str, Operand] = field(default_factory=dict)
    fixed: Container[str] = ()
    taken: Container[Any] = ()
    constants: Container[Any] = ()
    only_moved: bool = True
    most: int = 8
    nodes: list[Any] = field(default_factory=list)

    def text(self, node: Any, indices: Sequence[str]) -> str:
        """The element of the node at these indices, one for each of its dimensions."""
        found = self._through(node, indices)
        return self._read(node, indices) if found is None else found

    def _through(self, node: Any, indices: Sequence[str]) -> str | None:
        """The element as one of what the node is made of; None where it has to be read."""
        if node.op != "call_function" or node in self.constants or value_of(node) is None:
            return None
        seen = _viewed(node, indices)
        if seen is not None:
            return self.text(*seen) if self._is_worth(node) else None
        rule = _RULES.get(node.target)
        if rule is None and not (node.target in _COMPUTED and not self.only_moved):
            return None
        if not self.is_inner(node):
            return None
        before = len(self.nodes), dict(self.operands)
        text = _computed(self, node, indices) if rule is None else rule(self, node, indices)
        if text is None:
            del self.nodes[before[0] :]
            self.operands = before[1]
            return None
        self.nodes.append(node)
        return text

    def moving(self, node: Any, indices: Sequence[str]) -> str | None:
        """The element of a node that moves others, whatever reads it; None without a rule."""
        text = _RULES[node.target](self, node, indices)
        self.nodes += [] if text is None else [node]
        return text

    def _is_worth(self, view: Any) -> bool:
        """Whether a view is read as what it is of: where a kernel could not read it as it is."""
        if not is_dense(view):
            return True
        while _viewed(view, ["0"] * len(shape_of(view))) is not None and only_user(view):
            view = view.args[0].args[0] if view.target is operator.getitem else view.args[0]
        return view.op == "call_function" and (view.target in _RULES or view.target in _COMPUTED)

    def is_inner(self, node: Any) -> bool:
        """Whether nothing else reads the node, and a kernel may compute it."""
        alone = only_user(node) is not None and node not in self.taken
        values = [value_of(each) for each in (node, *node.all_input_nodes)]
        of_one_type = all(map(is_float, values)) and len({value.dtype for value in values}) == 1
        return alone and of_one_type and len(self.nodes) < self.most

    def _read(self, node: Any, indices: Sequence[str]) -> str:
        source = before_widening(node)
        order = storage_order(source)
        shape = shape_of(source)
        permuted = unless_usual(order)
        operand = Operand(
            (source,), tuple(shape[d] for d in order) or (1,), order=permuted, part=True
        )
        names = [
            name
            for name, each in self.operands.items()
            if name not in self.fixed and replace(each, part=True) == operand
        ]
        name = names[0] if names else unused("R" if self.operands else "X", self.operands)
        self.operands[name] = operand
        return f"{name}[{', '.join(indices[d] for d in order) or '0'}]"


def moved_input(node: Any) -> Elements | None:
    """Elements to read the node with, where it is made by moving those of others, of its type."""
    trial = Elements()
    trial.text(node, ["0"] * len(shape_of(node)))
    types = {operand.dtype for operand in trial.operands.values()}
    return Elements() if trial.nodes and types == {name_of(value_of(node).dtype)} else None


def is_moving(node: Any) -> bool:
    """Whether it moves elements and has a rule: of pads those with a number."""
    if node.op != "call_function" or node.target not in MOVES:
        return False
    return node.target not in PADS or _pads_with_number(arguments_of(node))


def _pads_with_number(given: Mapping[str, Any]) -> bool:
    return given.get("mode", "constant") == "constant" and not math.isnan(given["value"] or 0)


def kind_of(elements: Elements | None) -> str:
    """What is told of the operations that are read through: `pad+`."""
    nodes = [] if elements is None else elements.nodes
    return "".join(f"{name_of_operation(each)}+" for each in nodes)


def _viewed(node: Any, indices: Sequence[str]) -> tuple[Any, list[str]] | None:
    """Of what the node is a view, and where the element lies there; None for other nodes."""
    target, found = node.target, list(indices)
    order = permutation_of(node)
    if order is not None:
        source = node.args[0]
        return source, [found[order.index(d)] for d in range(len(order))]
    if target is operator.getitem and node.args[0].target in _SPLITS:
        return _of_split(node.args[0], node.args[1], found)
    given = arguments_of(node) if hasattr(target, "_schema") else {}
    source = given.get("self")
    if target is _aten.slice.Tensor:
        shape = shape_of(source)
        d, step = given["dim"] % len(shape), given["step"]
        start, *_ = slice(given["start"], given["end"], step).indices(shape[d])
        found[d] = _plus(times(step, found[d]), start)
        return source, found
    if target is _aten.select.int:
        shape = shape_of(source)
        d = given["dim"] % len(shape)
        found.insert(d, str(given["index"] % shape[d]))
        return source, found
    if target is _aten.expand.default:
        shape = shape_of(source)
        found = found[len(found) - len(shape) :]
        return source, ["0" if size == 1 else i for i, size in zip(found, shape, strict=True)]
    if target in SAME_ELEMENTS:
        return _reshaped(node, node.args[0], found)
    return None


def _of_split(node: Any, number: int, indices: list[str]) -> tuple[Any, list[str]]:
    given = arguments_of(node)
    source = given["self"]
    d = given["dim"] % len(shape_of(source))
    if node.target is _aten.unbind.int:
        indices.insert(d, str(number % shape_of(source)[d]))
        return source, indices
    before = node.meta["val"][: number % len(node.meta["val"])]
    indices[d] = _plus(indices[d], sum(int(each.shape[d]) for each in before))
    return source, indices


def _reshaped(node: Any, source: Any, indices: Sequence[str]) -> tuple[Any, list[str]] | None:
    """Dimensions that have as many elements in both are taken apart and put together anew."""
    found: list[str] = []
    own, other = shape_of(node), shape_of(source)
    if 0 in own:
        return None
    for mine, theirs in groups_of(own, other):
        place, width = "0", 1
        for d in reversed(mine):
            if own[d] > 1:
                term = times(width, indices[d])
                place = term if place == "0" else f"({place} + {term})"
                width *= own[d]
        parts: list[str] = []
        inner = 1
        for position, d in enumerate(reversed(theirs)):
            text = place if inner == 1 else f"{place} // {inner}"
            outer = all(other[e] == 1 for e in theirs[: len(theirs) - 1 - position])
            text = text if outer else f"({text}) % {other[d]}"
            parts.insert(0, "0" if other[d] == 1 else f"({text})" if " " in text else text)
            inner *= other[d]
        found += parts
    return source, found


def _padded(elements: Elements, node: Any, indices: Sequence[str]) -> str | None:
    given = arguments_of(node)
    if not _pads_with_number(given):
        return None
    shape, found, inside = shape_of(given["self"]), list(indices), []
    amounts = [*given["pad"]]
    for position in range(len(amounts) // 2):
        d = len(shape) - 1 - position
        before, after = amounts[2 * position : 2 * position + 2]
        inside += [f"{before} <= {found[d]}"] if before > 0 else []
        inside += [f"{found[d]} < {before + shape[d]}"] if after > 0 else []
        found[d] = _plus(found[d], -before)
    text = elements.text(given["self"], found)
    return (
        f"({text} if {' and '.join(inside)} else {number_text(given['value'] or 0)})"
        if inside
        else text
    )


def _joined(elements: Elements, node: Any, indices: Sequence[str]) -> str | None:
    given = arguments_of(node)
    tensors, stacked = given["tensors"], node.target is _aten.stack.default
    rank = len(shape_of(node))
    if any(len(shape_of(each)) != rank - stacked or 0 in shape_of(each) for each in tensors):
        return None
    d, start = given["dim"] % rank, 0
    texts: list[str] = []
    ends: list[int] = []
    for each in tensors:
        found = list(indices)
        if stacked:
            found.pop(d)
        else:
            found[d] = _plus(found[d], -start)
        texts.append(elements.text(each, found))
        start += 1 if stacked else shape_of(each)[d]
        ends.append(start)
    result = texts.pop()
    for text, end in zip(reversed(texts), reversed(ends[:-1]), strict=True):
        result = f"({text} if {indices[d]} < {end} else {result})"
    return result


def _upsampled(elements: Elements, node: Any, indices: Sequence[str]) -> str | None:
    """Whole factors: those that PyTorch's float32 places agree with (tried for 2 to 39)."""
    given = arguments_of(node)
    source = given["input"]
    sizes, wanted = shape_of(source)[2:], shape_of(node)[2:]
    if any(w % s for s, w in zip(sizes, wanted, strict=True)):
        return None
    factors = [w // s for s, w in zip(sizes, wanted, strict=True)]
    scales = given["scale_factors"]
    if max(factors) > 32 or (scales is not None and list(scales) != factors):
        return None
    places = [i if f == 1 else f"({i} // {f})" for i, f in zip(indices[2:], factors, strict=True)]
    return elements.text(source, [*indices[:2], *places])


def _reordered(elements: Elements, node: Any, indices: Sequence[str]) -> str | None:
    found = None if 0 in shape_of(node) else place_in_input(node, indices)
    return None if found is None else elements.text(node.args[0], found)


def _computed(elements: Elements, node: Any, indices: Sequence[str]) -> str | None:
    given = arguments_of(node)
    if given.get("alpha", 1) != 1:
        return None
    texts: list[str] = []
    for each in (given["self"], given["other"]) if "other" in given else (given["self"],):
        if isinstance(each, int | float):
            if isinstance(each, bool) or not math.isfinite(each):
                return None
            texts.append(number_text(each))
            continue
        shape = shape_of(each)
        own = indices[len(indices) - len(shape) :]
        places = ["0" if size == 1 else i for i, size in zip(own, shape, strict=True)]
        texts.append(elements.text(each, places))
    return _COMPUTED[node.target].format(*texts)


def _plus(index: str, amount: int) -> str:
    if not amount:
        return index
    return f"({index} + {amount})" if amount > 0 else f"({index} - {-amount})"


Rule = Callable[[Elements, Any, Sequence[str]], str | None]

_RULES: Mapping[Any, Rule] = {
    **dict.fromkeys(PADS, _padded),
    **dict.fromkeys(_JOINS, _joined),
    **dict.fromkeys(_UPSAMPLED, _upsampled),
    **dict.fromkeys(REORDERED, _reordered),
}
