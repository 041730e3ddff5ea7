"""Products of two tensors: linear layers, matrices and batches of them, and `einsum`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.torch.computation import Computation, NoRuleError, Operand, whole
from autosched.torch.convolutions import with_bias
from autosched.torch.element_types import before_widening
from autosched.torch.model_graph import arguments_of, is_contiguous, shape_of, value_of
from autosched.torch.operands import (
    along,
    permutation_of,
    read,
    reading,
    storage_order,
    unless_usual,
)

_BATCH = ("a", "b", "c", "d")
_RESULT, _SUMMED = "abcdefgh", "klmn"


def linear(node: Any) -> Computation:
    """`aten.linear`: the last dimension of any input, weights (N, K)."""
    given = arguments_of(node)
    weight, bias = given["weight"], given["bias"]
    for name in ("input", "weight"):
        if len(shape_of(given[name])) == 1:
            raise NoRuleError(f"its {name} has one dimension, at least 2 are expected")
    columns, terms = shape_of(weight)
    if bias is not None and shape_of(bias) != (columns,):
        raise NoRuleError(f"its bias has the shape {shape_of(bias)}, ({columns},) is expected")
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
    """`aten.matmul`, `mm` and `bmm`, of two matrices or of many, broadcast or not.

    An operand that is transposed or permuted is read as it was before: nothing is copied.
    """
    return _product(node, *node.args[:2])


def _product(node: Any, left: Any, right: Any) -> Computation:
    """The matrices of `left` times those of `right`, which have the shape of `node`."""
    ranks = len(shape_of(left)), len(shape_of(right))
    if min(ranks) < 2:
        raise NoRuleError("one of its operands is a vector")
    if ranks[1] == 2 and ranks[0] > 2:
        return _product_with_matrix(node, left, right)
    *batch, rows, columns = shape_of(node)
    if len(batch) > len(_BATCH):
        raise NoRuleError(
            f"it has {len(batch)} dimensions of batches, {len(_BATCH)} at most are supported"
        )
    axes = _BATCH[: len(batch)]
    lengths = dict(zip((*axes, "i", "j", "k"), (*batch, rows, columns, shape_of(left)[-1])))
    first, a = _read_broadcast("A", left, (*axes, "i", "k"), lengths)
    second, b = _read_broadcast("B", right, (*axes, "k", "j"), lengths)
    return Computation(
        kind="batch_matmul" if batch else "matmul",
        statements=(f"Y[{', '.join((*axes, 'i', 'j'))}] = sum(k, {first} * {second})",),
        operands={"A": a, "B": b},
        result="Y",
        axes=(*axes, "i", "j"),
        shape=shape_of(node),
        channels=("j",) if not batch else (),
        weights=("B",),
        lengths={"k": shape_of(left)[-1]},
    )


def baddbmm(node: Any) -> Computation:
    """`aten.baddbmm`: a batch of products times `alpha`, and `beta` times what is added."""
    given = arguments_of(node)
    result = _product(node, given["batch1"], given["batch2"])
    factors = given["alpha"], given["beta"]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in factors):
        raise NoRuleError(f"alpha and beta must be constant, finite numbers, found {factors}")
    value = f"{result.value} * {float(given['alpha'])!r}"
    if given["beta"] == 0:  # what is added is not read
        return result.then("mul", value)
    placed = reading(result, given["self"], shape_of(node))
    if placed is None:
        raise NoRuleError(
            f"what it adds has the shape {shape_of(given['self'])}, which does not fit"
        )
    text = f"{value} + {placed.text} * {float(given['beta'])!r}"
    return placed.computation.then("mul+add", text)


def einsum(node: Any) -> Computation:
    """`aten.einsum` of two tensors, with indices that both have and that are added up.

    einsum("bhid,bhjd->bhij", q, k)  ->  Y[a, b, c, d] = sum(k, A[a, b, c, k] * B[a, b, d, k])
    """
    given = arguments_of(node)
    if len(given["tensors"]) != 2:
        raise NoRuleError(f"it is of {len(given['tensors'])} tensors, 2 are expected")
    texts, result = _letters(given["equation"])
    shared = set(texts[0]) & set(texts[1])
    summed = [letter for letter in dict.fromkeys("".join(texts)) if letter not in result]
    if not summed or not shared.issuperset(summed):
        raise NoRuleError("it sums over no index, or over one that only one of its tensors has")
    if len(result) > len(_RESULT) or len(summed) > len(_SUMMED) or not result:
        raise NoRuleError(f"it has {len(result)} indices, and adds up {len(summed)}")
    names = {**dict(zip(result, _RESULT, strict=False)), **dict(zip(summed, _SUMMED, strict=False))}
    lengths: dict[str, int] = {}
    for text, tensor in zip(texts, given["tensors"], strict=True):
        for letter, size in zip(text, shape_of(tensor), strict=True):
            lengths[names[letter]] = max(size, lengths.get(names[letter], 1))
    order = storage_order(node)
    if not value_of(node).permute(order).is_contiguous():
        raise NoRuleError(f"its result is stored with strides {tuple(value_of(node).stride())}")
    axes = tuple(names[result[d]] for d in order)
    (first, a), (second, b) = (
        read(name, *along(tensor, [(names[each],) for each in text], lengths), lengths)
        for name, text, tensor in zip("AB", texts, given["tensors"], strict=True)
    )
    indices = ", ".join(names[letter] for letter in summed)
    return Computation(
        kind="einsum",
        statements=(f"Y[{', '.join(axes)}] = sum({indices}, {first} * {second})",),
        operands={"A": a, "B": b},
        result="Y",
        axes=axes,
        shape=tuple(lengths[axis] for axis in axes),
        weights=("A", "B"),
        lengths=lengths,
        order=unless_usual(order),
    )


def _letters(equation: str) -> tuple[list[str], str]:
    """The indices of the tensors and of the result. Raises NoRuleError where one is repeated."""
    tensors, arrow, result = equation.replace(" ", "").partition("->")
    several = tensors.split(",")
    if not arrow:  # those that occur once, in the order of the alphabet
        result = "".join(each for each in sorted({*tensors} - {","}) if tensors.count(each) == 1)
    if "." in equation or any(len(set(text)) < len(text) for text in (*several, result)):
        raise NoRuleError(
            f"its equation {equation} repeats an index of a tensor or has an ellipsis"
        )
    return several, result


def addmm(node: Any) -> Computation:
    """`aten.addmm` without factors, of a vector that is added to each row."""
    given = arguments_of(node)
    if given["beta"] != 1 or given["alpha"] != 1:
        raise NoRuleError("it has factors alpha or beta")
    bias, left, right = given["self"], given["mat1"], given["mat2"]
    if shape_of(bias) != shape_of(node)[1:]:
        expected = shape_of(node)[1:]
        raise NoRuleError(f"what it adds has the shape {shape_of(bias)}, {expected} is expected")
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
        lengths={"k": shape_of(left)[-1]},
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
        lengths={"k": terms},
    )


def _read_broadcast(
    name: str, node: Any, axes: Sequence[str], lengths: Mapping[str, int]
) -> tuple[str, Operand]:
    """The operand in a statement, along those of the axes that it has."""
    if shape_of(node) == tuple(lengths[axis] for axis in axes):
        return _read(name, node, tuple(axes))
    return read(name, *along(node, [(axis,) for axis in axes], lengths), lengths)


def _read(name: str, node: Any, axes: tuple[str, ...]) -> tuple[str, Operand]:
    """The operand in a statement, `B[j, k]`, and what is read: before it was permuted.

    Where that is not contiguous either, the kernel takes a copy in the order of its memory.
    """
    source, order = before_widening(node), tuple(range(len(axes)))
    while (step := permutation_of(source)) is not None:
        source, order = before_widening(source.args[0]), tuple(step[i] for i in order)
    if not is_contiguous(source):
        lengths = dict(zip(axes, shape_of(node), strict=True))
        return read(name, node, [(axis,) for axis in axes], lengths)
    places = dict(zip(order, axes, strict=True))  # by dimension of the source
    text = f"{name}[{', '.join(places[i] for i in range(len(axes)))}]"
    return text, whole(source, shape_of(source))
