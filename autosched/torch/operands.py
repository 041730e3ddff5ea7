"""How a kernel reads a node: in the order in which its memory has it, and along which indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from autosched.torch.computation import Computation, NoRuleError, Operand, Shape
from autosched.torch.element_types import FLOATS, INTEGERS, before_widening
from autosched.torch.model_graph import shape_of, value_of
from autosched.torch.parts import part_of

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
    permuted = () if order == tuple(range(len(order))) else order
    return f"{name}[{', '.join(indices) or '0'}]", Operand((node,), shape or (1,), order=permuted)


def storage_order(node: Any) -> tuple[int, ...]:
    """The dimensions of a node by their strides, the widest first.

    As they are where elements are read several times, as those of `expand` are.
    """
    value = value_of(node)
    strides = value.stride()
    several = zip(strides, value.shape, strict=True)
    if value.is_contiguous() or any(s == 0 and size > 1 for s, size in several):
        return tuple(range(value.dim()))
    return tuple(sorted(range(value.dim()), key=lambda d: -strides[d]))


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
    name: str, node: Any, shape: Shape, axes: Sequence[str], sizes: Shape
) -> tuple[str, Operand] | None:
    """The node, which is broadcast to `shape`, along the axes of a kernel's result.

    `sizes` are the lengths of `axes`, with as many elements as `shape` in the same order; None
    where an index is of the node in part.
    """
    node = before_expanding(node)
    own = shape_of(node)
    own = (1,) * (len(shape) - len(own)) + own
    lengths = dict(zip(axes, sizes, strict=True))
    together: list[tuple[str, ...]] = []
    apart = True
    for dimensions, several in groups_of(shape, sizes):
        indices = tuple(axes[i] for i in several)
        whole = all(own[d] == shape[d] for d in dimensions)
        if not whole and any(own[d] != 1 for d in dimensions):
            return None
        apart &= len(dimensions) == 1
        together += [indices if whole else ()] + [()] * (len(dimensions) - 1)
    if apart and len(together) == len(shape):
        return read(name, node, together[len(shape) - len(shape_of(node)) :], lengths)
    indices = tuple(axis for each in together for axis in each)
    found = Operand((node,), tuple(lengths[axis] for axis in indices) or (1,))
    return f"{name}[{', '.join(indices) or '0'}]", found


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

    `truth`: also what is no float, truth values as bytes. None for a type that kernels do not take,
    and where the node has no axes of the result.
    """
    dtype = None if value_of(node) is None else value_of(node).dtype
    if dtype not in FLOATS and not (truth and (dtype == torch.bool or dtype in INTEGERS)):
        return None
    several = [name for name in computation.operands if name not in computation.weights]
    fresh = computation.fresh("R" if computation.operands else "X")
    for name in (*several, fresh):
        placed = broadcast(name, node, shape, computation.axes, computation.shape)
        if placed is None:
            return None
        text, operand = placed
        operand = replace(operand, type="uint8") if dtype == torch.bool else operand
        there = computation.operands.get(name, operand)
        if there in (operand, replace(operand, part=True)):  # read elsewhere in part, too
            operands = {**computation.operands, name: there}
            return Reading(replace(computation, operands=operands), text)
    return None
