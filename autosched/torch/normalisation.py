"""Softmax, layer and root mean square normalisation over the last dimensions."""

from __future__ import annotations

import math
from typing import Any

import torch

from autosched.torch.computation import Computation, NoRuleError, whole
from autosched.torch.model_graph import arguments_of, shape_of


def softmax(node: Any) -> Computation:
    """`aten.softmax` over the last dimension."""
    given = arguments_of(node)
    x = given["self"]
    if not shape_of(x):
        raise NoRuleError("its input is a number, at least one dimension is expected")
    *lead, columns = shape_of(x)
    if given["dim"] not in (-1, len(lead)):
        raise NoRuleError(f"it is over dimension {given['dim']}, not over the last one")
    rows = math.prod(lead)
    return Computation(
        kind="softmax",
        statements=(
            "m[i] = max(k, X[i, k])",
            "E[i, j] = exp(X[i, j] - m[i])",
            "t[i] = sum(k, E[i, k])",
            "Y[i, j] = E[i, j] / t[i]",
        ),
        operands={"X": whole(x, (rows, columns))},
        result="Y",
        axes=("i", "j"),
        shape=(rows, columns),
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
    for key, name, sign in (("weight", "g", "*"), ("bias", "b", "+")):
        if given.get(key) is not None:
            value = f"{result.value} {sign} {name}[j]"
            result = result.then("", value, {name: whole(given[key], (count,))})
    return result
