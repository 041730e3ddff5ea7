"""Softmax, and normalisations: of layers, of groups and instances, by the root mean square."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from autosched.torch.computation import Computation, NoRuleError, Operand, Shape, whole
from autosched.torch.model_graph import arguments_of, shape_of
from autosched.torch.operands import (
    has_channels_last,
    ordered,
    storage_order,
    stored,
    unless_usual,
)
from autosched.torch.windows import in_order

_APART = "abcdefgh"


def softmax(node: Any) -> Computation:
    """`aten.softmax` over any dimension."""
    return _softmax(node, "softmax", "E{at} / t{row}")


def log_softmax(node: Any) -> Computation:
    """`aten.log_softmax` over any dimension: differences first, logarithms of sums alone."""
    return _softmax(node, "log_softmax", "{x} - m{row} - log(t{row})")


def _softmax(node: Any, kind: str, value: str) -> Computation:
    given = arguments_of(node)
    x = given["self"]
    shape = shape_of(x)
    if not shape:
        raise NoRuleError("its input is a number, at least one dimension is expected")
    dim = given["dim"] % len(shape)
    axes, lengths, element, operand = _around(x, dim)
    inner = axes.index("j")
    end = ", ".join(axis for axis in axes if axis != "j")
    row, at = f"[{end}]", f"[{', '.join(axes)}]"
    terms = f"[{', '.join((*axes[:inner], 'k', *axes[inner + 1 :]))}]"
    return Computation(
        kind=kind,
        statements=(
            f"m{row} = max(k, {element('k')})",
            f"E{at} = exp({element('j')} - m{row})",
            f"t{row} = sum(k, E{terms})",
            f"Y{at} = {value.format(x=element('j'), at=at, row=row)}",
        ),
        operands={"X": operand},
        result="Y",
        axes=axes,
        shape=lengths,
    )


def _around(x: Any, dim: int) -> tuple[tuple[str, ...], Shape, Callable[[str], str], Operand]:
    """The axes of a softmax, their lengths, the element of the input at an index in place of the
    axis `j`, and the input.

    The dimensions before `dim`, and those behind it, are one axis each. Where the input is stored
    in another order, all are apart:  X[i, j, l];  X[a, c, d, j] of channels last
    """
    shape = shape_of(x)
    read, operand = stored("X", x, [(size,) for size in shape])
    if operand.order and len(shape) <= len(_APART):
        names = tuple("j" if d == dim else _APART[d] for d in range(len(shape)))
        return names, shape, lambda j: read([(name.replace("j", j),) for name in names]), operand
    before, after = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    count = 3 if after > 1 else 2
    axes, lengths = ("i", "j", "l")[:count], (before, shape[dim], after)[:count]
    return axes, lengths, lambda j: f"X[{', '.join(axes).replace('j', j)}]", whole(x, lengths)


def layer_norm(node: Any) -> Computation:
    """`aten.layer_norm`: the variance is the mean of squared differences, as PyTorch has it."""
    return _normalised(
        node,
        "layer_norm",
        "m[i] = mean(k, X[i, k])",
        "D[i, j] = X[i, j] - m[i]",
        "v[i] = mean(k, D[i, k] * D[i, k])",
        f"Y[i, j] = D[i, j] * rsqrt(v[i] + {arguments_of(node)['eps']!r})",
    )


def rms_norm(node: Any) -> Computation:
    """`aten.rms_norm`; without a number to add to the mean of squares, the step of float32 at 1."""
    eps = arguments_of(node)["eps"]
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    return _normalised(
        node,
        "rms_norm",
        "v[i] = mean(k, X[i, k] * X[i, k])",
        f"Y[i, j] = X[i, j] * rsqrt(v[i] + {eps!r})",
    )


def group_norm(node: Any) -> Computation:
    """`aten.group_norm`: each group of the channels of each image is normalised.

    m[n, p] = mean(c, s, X[n, p, c, s]); of channels last  m[n, p] = mean(s, c, X[n, s, p, c])
    """
    given = arguments_of(node)
    return _of_groups(node, "group_norm", given["num_groups"])


def instance_norm(node: Any) -> Computation:
    """`aten.instance_norm`: each channel of each image is normalised."""
    given = arguments_of(node)
    if not given["use_input_stats"] or given["running_mean"] is not None:
        raise NoRuleError("it normalises with means and variances that are given, or changes them")
    return _of_groups(node, "instance_norm", shape_of(given["input"])[1])


def _of_groups(node: Any, kind: str, groups: int) -> Computation:
    given = arguments_of(node)
    x = given["input"]
    images, channels, *sizes = shape_of(x)
    each, size = channels // groups, math.prod(sizes)
    channels_of = {"p": groups, **({"c": each} if each > 1 else {})}
    lengths = [{"n": images}, channels_of, {"s": size}]
    order = storage_order(node)
    places = (0, 2, 1) if has_channels_last(node) else (0, 1, 2)
    axes = in_order(lengths, places)
    shape = in_order([(*each.values(),) for each in lengths], places)
    reduced = ", ".join(i for i in axes if i in "cs")
    at = f"[{', '.join(axes)}]"
    result = Computation(
        kind=kind,
        statements=(
            f"m[n, p] = mean({reduced}, X{at})",
            f"D{at} = X{at} - m[n, p]",
            f"v[n, p] = mean({reduced}, D{at} * D{at})",
            f"Y{at} = D{at} * rsqrt(v[n, p] + {given['eps']!r})",
        ),
        operands={"X": ordered(x, shape, order)},
        result="Y",
        axes=axes,
        shape=shape,
        channels=(*channels_of,),
        order=unless_usual(order),
    )
    return _scaled(result, given, result.channels, (*channels_of.values(),))


def _normalised(node: Any, kind: str, *statements: str) -> Computation:
    """What the statements compute of rows, with the weights of `node`."""
    given = arguments_of(node)
    x, count = given["input"], math.prod(given["normalized_shape"])
    rows = math.prod(shape_of(x)) // count
    result = Computation(
        kind=kind,
        statements=statements,
        operands={"X": whole(x, (rows, count))},
        result="Y",
        axes=("i", "j"),
        shape=(rows, count),
    )
    return _scaled(result, given, ("j",), (count,))


def _scaled(
    result: Computation, given: Mapping[str, Any], axes: Sequence[str], shape: Shape
) -> Computation:
    """The result times the weight, and plus the bias, where there are such, along these axes."""
    index = ", ".join(axes)
    for key, name, sign in (("weight", "g", "*"), ("bias", "b", "+")):
        if given.get(key) is not None:
            value = f"{result.value} {sign} {name}[{index}]"
            result = result.then("", value, {name: whole(given[key], shape)})
    return result
