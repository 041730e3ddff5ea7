"""Choices between two values, and the truth values that they hang on: masks and comparisons.

    scores.masked_fill(mask == 0, -inf)   ->  Y1[a, i, j] = (-1e999) if M[j] == 0 else Y[a, i, j]
    torch.where((x > 0) & keep, x, 0.0)   ->  Y[i] = X[i] if X[i] > 0.0 and R[i] != 0 else 0.0

Truth values that a model has stored are read as bytes. A comparison is part of the kernel where
nothing else reads what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch

from autosched.torch.computation import Computation, Shape, number_text
from autosched.torch.element_types import INTEGERS, is_float
from autosched.torch.model_graph import arguments_of, name_of_operation, only_user, value_of
from autosched.torch.operands import Reading, reading

_aten = torch.ops.aten

Reader = Callable[[Computation, Any], Reading | None]
"""How a kernel has the elements of a tensor of floats: computed before, or read."""

_COMPARED = {
    getattr(getattr(_aten, name), kind): sign
    for name, sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items()
    for kind in ("Scalar", "Tensor")
}

_JOINED = {
    _aten.bitwise_and.Tensor: "and",
    _aten.__and__.Tensor: "and",
    _aten.logical_and.default: "and",
    _aten.bitwise_or.Tensor: "or",
    _aten.__or__.Tensor: "or",
    _aten.logical_or.default: "or",
}

_TURNED = (_aten.bitwise_not.default, _aten.logical_not.default)

_MOST = "3.4028234663852886e38"
"""The largest finite float32."""

_TESTED = {
    _aten.isnan.default: "{0} != {0}",
    _aten.isinf.default: f"abs({{0}}) > {_MOST}",
    _aten.isfinite.default: f"abs({{0}}) <= {_MOST}",
}
"""What is asked of a number. One of float16 may be infinite for PyTorch and none in a kernel."""

TRUTHS = {*_COMPARED, *_JOINED, *_TURNED, *_TESTED}
"""What makes truth values."""

_VALUES = {
    _aten.where.self: ("condition", "self", "other"),
    _aten.where.ScalarOther: ("condition", "self", "other"),
    _aten.where.ScalarSelf: ("condition", "self", "other"),
    _aten.where.Scalar: ("condition", "self", "other"),
    _aten.masked_fill.Scalar: ("mask", "value", "self"),
    _aten.masked_fill.Tensor: ("mask", "value", "self"),
}
"""The arguments of a choice: what it hangs on, the value where that is true, and the other."""

CHOICES = _VALUES.keys()


def chosen(
    computation: Computation, node: Any, shape: Shape, read: Reader, constants: Container[Any]
) -> tuple[Computation, tuple[Any, ...]] | None:
    """The computation with a choice, and the comparisons that it computes for that."""
    given = arguments_of(node)
    mask, *values = (given[key] for key in _VALUES[node.target])
    texts: list[str] = []
    for value in values:
        if isinstance(value, int | float):
            if math.isnan(value):
                return None
            texts.append(number_text(value))
            continue
        found = read(computation, value)
        if found is None:
            return None
        computation = found.computation
        texts.append(found.text)
    told = condition(computation, mask, shape, read, constants)
    if told is None:
        return None
    computation, text = told
    within = tuple(inlined(mask, constants))
    if not any(isinstance(value, torch.fx.Node) for value in values):
        texts = [f"float32({each})" for each in texts]
    kind = "+".join(name_of_operation(each) for each in (*within, node))
    return computation.then(kind, f"{texts[0]} if {text} else {texts[1]}"), within


def condition(
    computation: Computation, node: Any, shape: Shape, read: Reader, constants: Container[Any]
) -> Reading | None:
    """The text that is true where the node is, of the elements of `shape`; None without a rule."""
    if not _is_inlined(node, constants):
        found = reading(computation, node, shape, truth=True)
        return None if found is None else Reading(found.computation, f"{found.text} != 0")
    texts: list[str] = []
    for each in node.args:
        if not isinstance(each, torch.fx.Node):
            texts.append(_scalar(each, node.args[0]))
            continue
        if is_float(value_of(each)):
            found = read(computation, each)
        elif node.target in _COMPARED:
            found = reading(computation, each, shape, truth=True)
        else:
            found = condition(computation, each, shape, read, constants)
        if found is None:
            return None
        computation = found.computation
        texts.append(found.text)
    if node.target in _TURNED:
        return Reading(computation, f"not ({texts[0]})")
    if node.target in _TESTED:
        return Reading(computation, _TESTED[node.target].format(texts[0]))
    if node.target in _JOINED:
        return Reading(computation, f"({texts[0]}) {_JOINED[node.target]} ({texts[1]})")
    return Reading(computation, f"{texts[0]} {_COMPARED[node.target]} {texts[1]}")


def is_truth(node: Any) -> bool:
    """Whether it is a tensor of truth values."""
    value = value_of(node)
    return value is not None and value.dtype == torch.bool


def inlined(node: Any, constants: Container[Any]) -> Iterator[Any]:
    """The operations of which a kernel computes the truth value itself, in order."""
    if _is_inlined(node, constants):
        for each in dict.fromkeys(node.all_input_nodes):
            yield from inlined(each, constants)
        yield node


def compared(node: Any, constants: Container[Any]) -> Iterator[Any]:
    """The tensors of floats whose elements a kernel compares for a truth value."""
    for each in inlined(node, constants):
        yield from (x for x in each.all_input_nodes if is_float(value_of(x)))


def _is_inlined(node: Any, constants: Container[Any]) -> bool:
    if node.op != "call_function" or node.target not in TRUTHS or node in constants:
        return False
    if only_user(node) is None:
        return False
    values = [value_of(each) for each in node.all_input_nodes]
    if node.target in _TESTED:
        return all(is_float(value) and value.dtype != torch.float16 for value in values)
    if node.target not in _COMPARED:
        return all(value is not None and value.dtype == torch.bool for value in values)
    types = {value.dtype for value in values if value is not None}
    numbers = [each for each in node.args if not isinstance(each, torch.fx.Node)]
    if len(types) != 1:  # PyTorch's common type hangs on more than these
        return False
    (dtype,) = types
    if all(map(is_float, values)):
        return not any(map(math.isnan, numbers))
    whole = all(isinstance(each, int) for each in numbers)
    if dtype in INTEGERS:  # a number beyond the type wraps in PyTorch
        limits = torch.iinfo(dtype)
        return whole and all(limits.min <= each <= limits.max for each in numbers)
    return whole and dtype == torch.bool


def _scalar(number: float, beside: Any) -> str:
    """The number that is compared with a tensor, in the type of that."""
    dtype = value_of(beside).dtype
    if dtype in INTEGERS or dtype == torch.bool:
        return f"({int(number)})" if number < 0 else str(int(number))
    return number_text(torch.tensor(number, dtype=torch.float64).to(dtype).item())
