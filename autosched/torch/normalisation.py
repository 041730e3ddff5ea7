"""Softmax, and normalisations: of layers, of groups and instances, by the root mean square."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from autosched.torch.computation import Computation, NoRuleError, Shape, whole
from autosched.torch.model_graph import arguments_of, shape_of


def softmax(node: Any) -> Computation:
    """`aten.softmax` over any dimension."""
    return _softmax(node, "softmax", "E{at} / t{row}")


def log_softmax(node: Any) -> Computation:
    """`aten.log_softmax` over any dimension: differences first, logarithms of sums alone."""
    return _softmax(node, "log_softmax", "X{at} - m{row} - log(t{row})")


def _softmax(node: Any, kind: str, value: str) -> Computation:
    given = arguments_of(node)
    x = given["self"]
    shape = shape_of(x)
    if not shape:
        raise NoRuleError("its input is a number, at least one dimension is expected")
    dim = given["dim"] % len(shape)
    before, columns, after = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    last = ("l",) if after > 1 else ()
    end = "".join(f", {axis}" for axis in last)
    row, at, terms = f"[i{end}]", f"[i, j{end}]", f"[i, k{end}]"
    return Computation(
        kind=kind,
        statements=(
            f"m{row} = max(k, X{terms})",
            f"E{at} = exp(X{at} - m{row})",
            f"t{row} = sum(k, E{terms})",
            f"Y{at} = {value.format(at=at, row=row)}",
        ),
        operands={"X": whole(x, (before, columns, after)[: 2 + len(last)])},
        result="Y",
        axes=("i", "j", *last),
        shape=(before, columns, after)[: 2 + len(last)],
    )


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
    """`aten.group_norm`: each group of the channels of each image is normalised."""
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
    within, reduced = (("c", "s"), "c, s") if each > 1 else (("s",), "s")
    shape = (images, groups, *[each] * (each > 1), size)
    at = f"[n, p, {', '.join(within)}]"
    result = Computation(
        kind=kind,
        statements=(
            f"m[n, p] = mean({reduced}, X{at})",
            f"D{at} = X{at} - m[n, p]",
            f"v[n, p] = mean({reduced}, D{at} * D{at})",
            f"Y{at} = D{at} * rsqrt(v[n, p] + {given['eps']!r})",
        ),
        operands={"X": whole(x, shape)},
        result="Y",
        axes=("n", "p", *within),
        shape=shape,
        channels=("p", "c")[: len(shape) - 2],
    )
    return _scaled(result, given, result.channels, shape[1:-1])


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
