"""Matrix products: linear layers, and products of batches whose operands may be transposed."""

from __future__ import annotations

import math
from typing import Any

import torch

from autosched.torch.computation import Computation, NoRuleError, Operand, whole
from autosched.torch.convolutions import with_bias
from autosched.torch.element_types import before_widening
from autosched.torch.model_graph import arguments_of, is_contiguous, shape_of
from autosched.torch.operands import read

_aten = torch.ops.aten
_BATCH = ("a", "b", "c", "d")


def linear(node: Any) -> Computation:
    """`aten.linear`: the last dimension of any input, weights (N, K)."""
    given = arguments_of(node)
    weight, bias = given["weight"], given["bias"]
    for name in ("input", "weight"):
        if len(shape_of(given[name])) == 1:
            raise NoRuleError(f"its {name} has one dimension, at least 2 are expected")
    columns, terms = shape_of(weight)
    if bias is not None and shape_of(bias) != (columns,):
        raise NoRuleError(f"what it adds has the shape {shape_of(bias)}")
    rows = math.prod(shape_of(node)[:-1])
    result = Computation(
        kind="linear",
        statements=("Y[i, j] = sum(k, X[i, k] * W[j, k])",),
        operands={
            "X": whole(given["input"], (rows, terms)),
            "W": whole(weight, (columns, terms)),
        },
        result="Y",
        axes=("i", "j"),
        shape=(rows, columns),
        channels=("j",),
        weights=("W",),
    )
    return with_bias(result, bias)


def matmul(node: Any) -> Computation:
    """`aten.matmul`, `mm` and `bmm`, of two matrices or of equally many.

    An operand that is transposed or permuted is read as it was before: nothing is copied.
    """
    left, right = node.args[:2]
    ranks = len(shape_of(left)), len(shape_of(right))
    if min(ranks) < 2:
        raise NoRuleError("one of its operands is a vector")
    if ranks[1] == 2 and ranks[0] > 2:
        return _product_with_matrix(node, left, right)
    batch = shape_of(node)[:-2]
    for operand in (left, right):
        if shape_of(operand)[:-2] != batch:
            raise NoRuleError("its operands are broadcast")
    if len(batch) > len(_BATCH):
        raise NoRuleError(f"it has {len(batch)} dimensions before the matrices'")
    axes = _BATCH[: len(batch)]
    first, a = _read("A", left, (*axes, "i", "k"))
    second, b = _read("B", right, (*axes, "k", "j"))
    return Computation(
        kind="batch_matmul" if batch else "matmul",
        statements=(f"Y[{', '.join((*axes, 'i', 'j'))}] = sum(k, {first} * {second})",),
        operands={"A": a, "B": b},
        result="Y",
        axes=(*axes, "i", "j"),
        shape=shape_of(node),
        channels=("j",) if not batch else (),
        weights=("B",),
    )


def addmm(node: Any) -> Computation:
    """`aten.addmm` without factors, of a vector that is added to each row."""
    given = arguments_of(node)
    if given["beta"] != 1 or given["alpha"] != 1:
        raise NoRuleError("it has factors alpha or beta")
    bias, left, right = given["self"], given["mat1"], given["mat2"]
    if shape_of(bias) != shape_of(node)[1:]:
        raise NoRuleError(f"what it adds has the shape {shape_of(bias)}")
    first, a = _read("A", left, ("i", "k"))
    second, b = _read("B", right, ("k", "j"))
    result = Computation(
        kind="matmul",
        statements=(f"Y[i, j] = sum(k, {first} * {second})",),
        operands={"A": a, "B": b},
        result="Y",
        axes=("i", "j"),
        shape=shape_of(node),
        channels=("j",),
        weights=("B",),
    )
    return with_bias(result, bias)


def _product_with_matrix(node: Any, left: Any, right: Any) -> Computation:
    """Many matrices times one are one product: their rows lie one after the other."""
    *lead, terms = shape_of(left)
    rows, columns = math.prod(lead), shape_of(node)[-1]
    second, b = _read("B", right, ("k", "j"))
    return Computation(
        kind="matmul",
        statements=(f"Y[i, j] = sum(k, A[i, k] * {second})",),
        operands={"A": whole(left, (rows, terms)), "B": b},
        result="Y",
        axes=("i", "j"),
        shape=(rows, columns),
        weights=("B",),
    )


def _read(name: str, node: Any, axes: tuple[str, ...]) -> tuple[str, Operand]:
    """The operand in a statement, `B[j, k]`, and what is read: before it was permuted.

    Where that is not contiguous either, the kernel takes a copy in the order of its memory.
    """
    source, order = before_widening(node), tuple(range(len(axes)))
    while (step := _permutation(source)) is not None:
        source, order = before_widening(source.args[0]), tuple(step[i] for i in order)
    if not is_contiguous(source):
        lengths = dict(zip(axes, shape_of(node), strict=True))
        return read(name, node, [(axis,) for axis in axes], lengths)
    places = dict(zip(order, axes, strict=True))  # by dimension of the source
    text = f"{name}[{', '.join(places[i] for i in range(len(axes)))}]"
    return text, whole(source, shape_of(source))


def _permutation(node: Any) -> list[int] | None:
    """Which dimension of its input each of its own is; None for other nodes."""
    if node.op != "call_function":
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
