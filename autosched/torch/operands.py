"""How a kernel reads a node: in the order in which its memory has it, and along which indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from autosched.torch.computation import Computation, NoRuleError, Operand, Shape, times, unused
from autosched.torch.element_types import FLOATS, INTEGERS, before_widening
from autosched.torch.model_graph import shape_of, value_of
from autosched.torch.parts import part_of
from autosched.torch.strides import FORMATS

_aten = torch.ops.aten
_expand = _aten.expand.default


def read(
    name: str, node: Any, axes: Sequence[tuple[str, ...]], lengths: Mapping[str, int]
) -> tuple[str, Operand]:
    """The node in a statement, `Q[a, i, b, e]`, and the kernel's input, whose rows are its own.

    `axes` are the indices of each dimension of the node: several share one, none are for one of
    length 1. `lengths` says how far each runs. Of a part of another node, as those of `split` and
    `slice` are, the kernel reads that other: nothing is copied.
    """
    node = before_widening(node)
    part = part_of(node, axes, lengths)
    if part is not None:
        return f"{name}[{', '.join(part.indices) or '0'}]", Operand(
            (part.whole,), part.shape, part=True
        )
    order = storage_order(node)
    indices = [axis for dimension in order for axis in axes[dimension]]
    shape = tuple(lengths[axis] for axis in indices)
    found = Operand((node,), shape or (1,), order=unless_usual(order))
    return f"{name}[{', '.join(indices) or '0'}]", found


def stored(
    name: str, node: Any, lengths: Sequence[Shape]
) -> tuple[Callable[[Sequence[Sequence[str]]], str], Operand]:
    """A function that writes an element of the node in a statement, and the kernel's input.

    Both have the dimensions in the order of the node's memory. A dimension may be several indices,
    as groups and their channels are: `lengths` has how far those of each dimension run, and the
    function takes them. For a node that is channels last it makes `X[n, h - 1, w, g, c]` of
    `[["n"], ["g", "c"], ["h - 1"], ["w"]]`.
    """
    order = storage_order(before_widening(node))

    def text(indices: Sequence[Sequence[str]]) -> str:
        return f"{name}[{', '.join(index for d in order for index in indices[d])}]"

    shape = tuple(length for d in order for length in lengths[d])
    return text, ordered(node, shape, order)


def ordered(node: Any, shape: Shape, order: tuple[int, ...]) -> Operand:
    """The node with its dimensions permuted to `order`, as an input of `shape`."""
    return Operand((before_widening(node),), shape, order=unless_usual(order))


def storage_order(node: Any) -> tuple[int, ...]:
    """The dimensions of a node by their strides, the widest first.

    Their usual order for elements that are read several times, as those of `expand` are. Where
    sizes of 1 allow several orders, the one of a memory format of PyTorch's: channels last if all
    strides are those of that format, else the usual order if possible.
    """
    value = value_of(node)
    shape, strides = shape_of(node), value.stride()
    usual, last = tuple(range(value.dim())), channels_last(value.dim())
    images = value.dim() in FORMATS
    several = zip(strides, shape, strict=True)
    if strides == _strides(shape, usual) or any(s == 0 and size > 1 for s, size in several):
        return usual
    if images and strides == _strides(shape, last):
        return last
    if value.is_contiguous():
        return usual
    if images and value.is_contiguous(memory_format=FORMATS[value.dim()]):
        return last
    return tuple(sorted(usual, key=lambda d: -strides[d]))


def channels_last(rank: int) -> tuple[int, ...]:
    """The order of the dimensions of images whose channels, the second, are stored last."""
    usual = range(rank)
    return (*usual[:1], *usual[2:], *usual[1:2])


def has_channels_last(node: Any) -> bool:
    """Whether the node is stored with channels last, and not in the usual order."""
    order = storage_order(node)
    return order != tuple(range(len(order))) and order == channels_last(len(order))


def stored_otherwise(node: Any) -> str:
    """Why a node is left out whose elements do not lie as a kernel would store them."""
    return f"its result is stored in another order: strides {tuple(value_of(node).stride())}"


def _strides(shape: Shape, order: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor whose dimensions are stored in this order, without gaps."""
    found, step = [0] * len(shape), 1
    for d in reversed(order):
        found[d] = step
        step *= shape[d]
    return tuple(found)


def unless_usual(order: tuple[int, ...]) -> tuple[int, ...]:
    """The order; empty for the usual one, as `Operand.order` and `Computation.order` have it."""
    return () if order == tuple(range(len(order))) else order


def is_dense(node: Any) -> bool:
    """Whether its elements lie one after the other, in whatever order of its dimensions."""
    return bool(value_of(node).permute(storage_order(node)).is_contiguous())


def permutation_of(node: Any) -> list[int] | None:
    """Which dimension of its input each of its own is; None for other nodes."""
    if node.op != "call_function" or value_of(node) is None:
        return None
    rank = len(shape_of(node))
    if node.target is _aten.permute.default:
        return [int(i) % rank for i in node.args[1]]
    order = list(range(rank))
    if node.target is _aten.t.default:
        return order[::-1]
    if node.target is _aten.transpose.int:
        first, second = (int(i) % rank for i in node.args[1:3])
        order[first], order[second] = order[second], order[first]
        return order
    return None


def along(
    node: Any, axes: Sequence[tuple[str, ...]], lengths: Mapping[str, int]
) -> tuple[Any, list[tuple[str, ...]]]:
    """The node before it was expanded, and which of the indices `axes` its dimensions have.

    Its last dimension goes with the last of `axes`; one of length 1 is the same for all of an
    index. Raises NoRuleError where the lengths do not fit.
    """
    node = before_expanding(node)
    shape = shape_of(node)
    found: list[tuple[str, ...]] = []
    for size, several in zip(shape, axes[len(axes) - len(shape) :], strict=True):
        length = 1
        for axis in several:
            length *= lengths[axis]
        if size not in (1, length):
            raise NoRuleError(f"{node.name} has the shape {shape}, which does not fit")
        found.append(several if size == length else ())
    return node, found


def before_expanding(node: Any) -> Any:
    """What the node has several times, itself where it is no `expand`."""
    node = before_widening(node)
    while node.target is _expand:
        node = before_widening(node.args[0])
    return node


def broadcast(
    name: str,
    node: Any,
    shape: Shape,
    axes: Sequence[str],
    sizes: Shape,
    order: Sequence[int] = (),
) -> tuple[str, Operand]:
    """The node, which is broadcast to `shape`, along the axes of a kernel's result.

    `sizes` are the lengths of `axes`, with as many elements as `shape` in the same order, or as
    `shape` has them when its dimensions are permuted to `order`. Of an index that runs over
    dimensions of `shape` of which the node has some, it is read at `i % 5` or `i // 5`.
    """
    node = before_expanding(node)
    missing = len(shape) - len(shape_of(node))
    own = (1,) * missing + shape_of(node)
    lengths = dict(zip(axes, sizes, strict=True))
    stored_as = tuple(order) or tuple(range(len(shape)))
    together: list[tuple[str, ...]] = [()] * len(shape)
    indices: list[str] = []
    extents: list[int] = []
    apart, part = True, False
    for places, several in groups_of(tuple(shape[d] for d in stored_as), sizes):
        dimensions = [stored_as[i] for i in places]
        whole = all(own[d] == shape[d] for d in dimensions)
        apart &= len(dimensions) == 1
        for d in dimensions[:1]:
            together[d] = tuple(axes[i] for i in several) if whole else ()
        if whole:
            indices += [axes[i] for i in several]
            extents += [sizes[i] for i in several]
        elif any(own[d] != 1 for d in dimensions):
            part = True
            place = _place([axes[i] for i in several], [sizes[i] for i in several])
            for i, d in enumerate(dimensions):
                if own[d] > 1:
                    after = math.prod(shape[e] for e in dimensions[i + 1 :])
                    indices.append(
                        f"{place} // {after} % {own[d]}" if after > 1 else f"{place} % {own[d]}"
                    )
                    extents.append(own[d])
    if apart:
        return read(name, node, together[missing:], lengths)
    permuted = unless_usual(tuple(d - missing for d in stored_as if d >= missing))
    found = Operand((node,), tuple(extents) or (1,), order=permuted, part=part)
    return f"{name}[{', '.join(indices) or '0'}]", found


def _place(axes: Sequence[str], sizes: Sequence[int]) -> str:
    """Which element it is in the usual order: `(4*i + j)`."""
    wide = (i for i, size in enumerate(sizes) if size > 1)
    terms = [times(math.prod(sizes[i + 1 :]), axes[i]) for i in wide]
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"


def groups_of(shape: Shape, sizes: Shape) -> list[tuple[list[int], list[int]]]:
    """Dimensions of `shape` and of `sizes` that have as many elements, from the first to the last.

    (2, 3, 4) and (6, 4) -> ([0, 1], [0]), ([2], [1])
    """
    found: list[tuple[list[int], list[int]]] = []
    left, right = 0, 0
    while left < len(shape) or right < len(sizes):
        mine: list[int] = []
        others: list[int] = []
        product = other = 1
        while not (mine or others) or product != other:
            if product <= other and left < len(shape):
                mine.append(left)
                product *= shape[left]
                left += 1
            else:
                others.append(right)
                other *= sizes[right]
                right += 1
        found.append((mine, others))
    return found


class Reading(NamedTuple):
    """A computation with an input more, or one that it has, and the input's element."""

    computation: Computation
    text: str


def reading(
    computation: Computation, node: Any, shape: Shape, *, truth: bool = False
) -> Reading | None:
    """The computation that reads the node, broadcast to `shape`, beside its result's elements.

    With `truth` the node may also be of integers or of truth values, which are read as bytes. None
    for other types.
    """
    dtype = None if value_of(node) is None else value_of(node).dtype
    if dtype not in FLOATS and not (truth and (dtype == torch.bool or dtype in INTEGERS)):
        return None
    several = [name for name in computation.operands if name not in computation.weights]
    fresh = unused("R" if computation.operands else "X", computation.operands)
    for name in (*several, fresh):
        text, operand = broadcast(
            name, node, shape, computation.axes, computation.shape, computation.order
        )
        operand = replace(operand, type="uint8") if dtype == torch.bool else operand
        there = computation.operands.get(name, operand)
        if there in (operand, replace(operand, part=True)):  # read elsewhere in part, too
            operands = {**computation.operands, name: there}
            return Reading(replace(computation, operands=operands), text)
    return None
