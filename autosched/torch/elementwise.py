"""What follows an operation element by element, and becomes part of its kernel."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

import torch

from autosched.torch.choices import CHOICES, TRUTHS, Reader, chosen, condition, inlined, is_truth
from autosched.torch.computation import Computation, Operand, Shape, number_text, unused, whole
from autosched.torch.element_types import is_conversion, is_float, name_of
from autosched.torch.model_graph import (
    SAME_ELEMENTS,
    arguments_of,
    is_contiguous,
    name_of_operation,
    only_user,
    shape_of,
    value_of,
)
from autosched.torch.operands import (
    Reading,
    groups_of,
    is_dense,
    permutation_of,
    reading,
    storage_order,
)

_aten = torch.ops.aten

Rule = Callable[[str, dict[str, Any]], str | None]
"""The value of a node, of its input's value and its arguments; None where it is not known."""


def extended(
    computation: Computation, node: Any, taken: Container[Any], constants: Container[Any]
) -> tuple[Computation, list[Any]]:
    """The computation with all that can follow it in its kernel, and the nodes of that, in order.

    A node follows where it alone reads the result, is not `taken`, and its own result has the same
    elements' places. Views may be between.
    """
    followers: list[Any] = []
    between: list[Any] = []
    seen = computation
    while (user := only_user(node)) is not None and user not in taken:
        if user.op != "call_function":
            break
        if user.target in SAME_ELEMENTS or permutation_of(user) is not None:
            view = _viewed(seen, node, user)
            if view is None:
                break
            between.append(user)
            node, seen = user, view
            continue
        if not _fits(user, node, seen):
            break
        extension = followed_by(seen, node, user, constants)
        if extension is None or not _fits(extension[1][-1], node, seen):
            break
        computation, nodes = extension
        followers += [*between, *nodes]
        between, node, seen = [], nodes[-1], computation
    return computation, followers


def _viewed(computation: Computation, before: Any, node: Any) -> Computation | None:
    """The computation for what reads `node`, a view of `before`, its result or a view of that.

    None where `node` is no view: its elements have other places in memory.

    Y[n, o, h, w] as (n, o, 4, 4);  flatten(2).transpose(1, 2), (n, 16, o)  ->  order (0, 2, 1)
    """
    value = value_of(node)
    if value is None or not is_float(value) or not is_dense(node):
        return None
    if permutation_of(node) is None and not (is_contiguous(before) and is_contiguous(node)):
        try:
            strides = value_of(before).to("meta").view(value.shape).stride()
        except RuntimeError:
            return None
        several = zip(value.shape, strides, value.stride(), strict=True)
        if any(n > 1 and step != own for n, step, own in several):
            return None
    return replace(computation, order=() if is_contiguous(node) else storage_order(node))


def _fits(node: Any, before: Any, computation: Computation) -> bool:
    """Whether the node's result is stored as that of the computation, which `before` stands for.

    If the computation stores its dimensions in another order, the node has the same dimensions.
    """
    value = value_of(node)
    if value is None or not computation.order:
        return alike(node, computation.shape)
    same = is_float(value) and shape_of(node) == shape_of(before)
    return same and bool(value.permute(computation.order).is_contiguous())


def alike(node: Any, shape: Shape) -> bool:
    """Whether the result is stored as the kernel's is, in a type of its, with as many elements."""
    value = value_of(node)
    if value is None:
        return node.target in BATCH_NORMS
    return is_float(value) and is_contiguous(node) and math.prod(value.shape) == math.prod(shape)


def followed_by(
    computation: Computation,
    before: Any,
    node: Any,
    constants: Container[Any],
    known: Mapping[Any, str] | None = None,
) -> tuple[Computation, tuple[Any, ...]] | None:
    """The computation with `node`, which reads `before`, and the nodes that it computes more.

    The last of these has the result. `known` has the values of other nodes that the kernel
    computes. None where there is no rule.
    """
    if any(value_of(each) is None for each in node.all_input_nodes):  # numbers, as of item()
        return None
    if node.target in BATCH_NORMS:
        return _batch_norm(computation, before, node, constants)
    if node.target is PRELU:
        result = _prelu(computation, before, node)
        return None if result is None else (result, (node,))
    if node.target in CONVERSIONS:
        result = _converted(computation, node)
        return None if result is None else (result, (node,))
    shape = shape_of(node) if value_of(node) is not None else ()
    texts = {**(known or {}), before: computation.value}

    def read(computation: Computation, each: Any) -> Reading | None:
        known = texts.get(each)
        return reading(computation, each, shape) if known is None else Reading(computation, known)

    if node.target in CHOICES:
        choice = chosen(computation, node, shape, read, constants)
        return None if choice is None else (choice[0], (*choice[1], node))
    if node.target in _BINARY:
        return _binary(computation, node, read, constants)
    rule = _UNARY.get(node.target)
    if len(node.all_input_nodes) > 1:  # a bound or a factor that is read from a tensor
        return None
    value = None if rule is None else rule(computation.value, arguments_of(node))
    if value is None:
        return None
    return computation.then(name_of_operation(node), value), (node,)


def _converted(computation: Computation, node: Any) -> Computation | None:
    """Another type: of 16 bits the value is rounded to it, in float32 it is what it was."""
    if not is_conversion(node):
        return None
    dtype = name_of(value_of(node).dtype)
    kind = f"to_{dtype}"
    if dtype == "float32" and computation.result in computation.rounded:
        return computation.then(kind, computation.value)  # the last result is not rounded
    if dtype == "float32":
        return replace(computation, kind="+".join(filter(None, (computation.kind, kind))))
    found = computation.then(kind, computation.value)
    return replace(found, rounded={**found.rounded, found.result: dtype})


def _binary(
    computation: Computation, node: Any, read: Reader, constants: Container[Any]
) -> tuple[Computation, tuple[Any, ...]] | None:
    """A sum, difference, product, quotient, or the larger or smaller, of a value and a number or a
    tensor, broadcast or not; a factor may be a truth value, 1 or 0.
    """
    given = arguments_of(node)
    if given.get("alpha", 1) != 1:
        return None
    texts: list[str] = []
    nodes: list[Any] = []
    for each in (given["self"], given["other"]):
        if isinstance(each, int | float):
            if isinstance(each, bool) or not math.isfinite(each):
                return None
            texts.append(number_text(each))
            continue
        factor = node.target is _aten.mul.Tensor and is_truth(each)
        if factor:
            placed = condition(computation, each, shape_of(node), read, constants)
            nodes += inlined(each, constants)
        else:
            placed = read(computation, each)
        if placed is None:
            return None
        computation = placed.computation
        texts.append(f"(1.0 if {placed.text} else 0.0)" if factor else placed.text)
    kind = "+".join(name_of_operation(each) for each in (*nodes, node))
    return computation.then(kind, _BINARY[node.target].format(*texts)), (*nodes, node)


def _prelu(computation: Computation, before: Any, node: Any) -> Computation | None:
    """A factor for what is negative, one for all or for each channel."""
    weight, value = arguments_of(node)["weight"], computation.value
    count = math.prod(shape_of(weight))
    lengths = _channels(computation, shape_of(before)) if count > 1 else (1,)
    if not is_float(value_of(weight)) or math.prod(lengths) != count:
        return None
    name = unused("a", computation.operands)
    index = ", ".join(computation.channels) if count > 1 else "0"
    text = f"{value} if {value} > 0 else {value} * {name}[{index}]"
    return computation.then("prelu", text, {name: whole(weight, lengths)})


def _batch_norm(
    computation: Computation, before: Any, node: Any, constants: Container[Any]
) -> tuple[Computation, tuple[Any, ...]] | None:
    """A factor and a summand for each channel, worked out once of the constant statistics."""
    given = arguments_of(node)
    statistics = [given[key] for key in ("weight", "bias", "running_mean", "running_var")]
    last = _result_of(node)
    channels = _channels(computation, shape_of(before))
    if last is None or not channels:
        return None
    if given.get("training", False) or None in statistics[2:]:
        return None
    if any(each is not None and each not in constants for each in statistics):
        return None
    present = [each for each in statistics if each is not None]
    eps = given["eps"]

    def both(*values: Any) -> tuple[Any, Any]:
        remaining = iter(values)
        weight, bias, mean, variance = (
            None if each is None else next(remaining).double() for each in statistics
        )
        factor = (variance + eps).rsqrt() * (1 if weight is None else weight)
        return factor, (0 if bias is None else bias) - mean * factor

    def factor(*values: Any) -> Any:
        return both(*values)[0].float()

    def summand(*values: Any) -> Any:
        return both(*values)[1].float()

    names = unused("f", computation.operands), unused("u", computation.operands)
    makers = factor, summand
    operands = {
        name: Operand(tuple(present), channels, make)
        for name, make in zip(names, makers, strict=True)
    }
    index = ", ".join(computation.channels)
    value = f"{computation.value} * {names[0]}[{index}] + {names[1]}[{index}]"
    return computation.then("batch_norm", value, operands), (node,) if last is node else (
        node,
        last,
    )


def _result_of(node: Any) -> Any | None:
    """The node that has the normalised values; None where the others of a tuple are read too."""
    if not isinstance(node.meta["val"], tuple | list):
        return node
    user = only_user(node)
    first = user is not None and user.target is operator.getitem and user.args[1] == 0
    return user if first else None


def _channels(computation: Computation, shape: Shape) -> Shape:
    """The lengths of the channels' axes; nothing where dimension 1 of `shape` is something else."""
    if not computation.channels:
        return ()
    start = computation.axes.index(computation.channels[0])
    lengths = computation.shape[start : start + len(computation.channels)]
    if computation.order and not _are_dimension_1(computation, shape):
        return ()
    before = shape[:1] if computation.order else (math.prod(computation.shape[:start]),)
    return lengths if shape[:2] == (*before, math.prod(lengths)) else ()


def _are_dimension_1(computation: Computation, shape: Shape) -> bool:
    """Whether the channels' axes are dimension 1 of `shape`, as the result is stored."""
    order = computation.order
    for places, several in groups_of(tuple(shape[d] for d in order), computation.shape):
        names = {computation.axes[i] for i in several if computation.shape[i] > 1}
        if 1 in {order[i] for i in places}:
            return names <= {*computation.channels}
    return False


def _clip(value: str, low: Any, high: Any) -> str | None:
    """A bound that is None, or infinite and beyond all numbers, is none."""
    low = None if low == -math.inf else low
    high = None if high == math.inf else high
    if not all(bound is None or math.isfinite(bound) for bound in (low, high)):
        return None
    value = value if low is None else f"max({value}, {number_text(low)})"
    return value if high is None else f"min({value}, {number_text(high)})"


def _gelu(value: str, given: dict[str, Any]) -> str:
    if given["approximate"] == "tanh":
        inner = f"{math.sqrt(2 / math.pi)!r} * ({value} + 0.044715 * {value} * {value} * {value})"
        return f"0.5 * {value} * (1.0 + tanh({inner}))"
    return f"0.5 * {value} * (1.0 + erf({value} * {math.sqrt(0.5)!r}))"


def _leaky_relu(value: str, given: dict[str, Any]) -> str:
    return f"{value} if {value} > 0 else {value} * {number_text(given['negative_slope'])}"


def _elu(value: str, given: dict[str, Any]) -> str | None:
    if given["scale"] != 1 or given["input_scale"] != 1:
        return None
    return f"{value} if {value} > 0 else expm1({value}) * {number_text(given['alpha'])}"


def _from_number(value: str, given: dict[str, Any]) -> str | None:
    other = given["other"]
    known = given["alpha"] == 1 and math.isfinite(other)
    return f"{number_text(other)} - {value}" if known else None


def _scaled_elu(value: str, given: dict[str, Any]) -> str:
    """The constants are those of PyTorch, from Klambauer et al., Self-Normalizing Neural Networks
    (2017)."""
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return f"{value} * {scale!r} if {value} > 0 else expm1({value}) * {scale * alpha!r}"


def _celu(value: str, given: dict[str, Any]) -> str:
    alpha = number_text(given["alpha"])
    return f"{value} if {value} > 0 else expm1({value} / {alpha}) * {alpha}"


def _softplus(value: str, given: dict[str, Any]) -> str | None:
    beta, threshold = given["beta"], given["threshold"]
    if not (beta and math.isfinite(beta) and math.isfinite(threshold)):
        return None
    scaled = value if beta == 1 else f"({value} * {number_text(beta)})"
    smooth = f"log1p(exp({scaled}))" + ("" if beta == 1 else f" / {number_text(beta)}")
    return f"{value} if {scaled} > {number_text(threshold)} else {smooth}"


def _power(value: str, given: dict[str, Any]) -> str | None:
    exponent = given["exponent"]
    if exponent in (2, 3, 4):
        return " * ".join([value] * int(exponent))
    form = _POWERS.get(exponent)
    return None if form is None else form.format(value)


def _finite(value: str, given: dict[str, Any]) -> str | None:
    """In float16 a number between two operations may be infinite for PyTorch and none here."""
    dtype = value_of(given["self"]).dtype
    most = torch.finfo(dtype).max
    texts = []
    for key, usual in (("nan", 0.0), ("posinf", most), ("neginf", -most)):
        number = usual if given[key] is None else float(given[key])
        if math.isnan(number):
            return None
        texts.append(number_text(number))
    if dtype == torch.float16:
        return None
    nan, high, low = texts
    limit = torch.finfo(torch.float32).max
    finite = f"({low} if {value} < {-limit!r} else {value})"
    return f"{nan} if {value} != {value} else ({high} if {value} > {limit!r} else {finite})"


def _called(function: str) -> Rule:
    return lambda value, given: f"{function}({value})"


_POWERS = {0.5: "sqrt({0})", -0.5: "rsqrt({0})", -1: "1.0 / {0}", -2: "1.0 / ({0} * {0})"}

_SIX = "min(max({0} + 3.0, 0.0), 6.0)"

_UNARY: dict[Any, Rule] = {
    _aten.relu.default: _called("relu"),
    _aten.sigmoid.default: _called("sigmoid"),
    _aten.tanh.default: _called("tanh"),
    _aten.exp.default: _called("exp"),
    _aten.expm1.default: _called("expm1"),
    _aten.erf.default: _called("erf"),
    _aten.log.default: _called("log"),
    _aten.log1p.default: _called("log1p"),
    _aten.rsqrt.default: _called("rsqrt"),
    _aten.sin.default: _called("sin"),
    _aten.cos.default: _called("cos"),
    _aten.pow.Tensor_Scalar: _power,
    _aten.abs.default: _called("abs"),
    _aten.sqrt.default: _called("sqrt"),
    _aten.neg.default: lambda value, given: f"-{value}",
    _aten.nan_to_num.default: _finite,
    _aten.square.default: lambda value, given: f"{value} * {value}",
    _aten.reciprocal.default: lambda value, given: f"1.0 / {value}",
    _aten.rsub.Scalar: _from_number,
    _aten.relu6.default: lambda value, given: _clip(value, 0, 6),
    _aten.hardtanh.default: lambda value, given: _clip(value, given["min_val"], given["max_val"]),
    _aten.clamp.default: lambda value, given: _clip(value, given["min"], given["max"]),
    _aten.clamp_min.default: lambda value, given: _clip(value, given["min"], None),
    _aten.silu.default: lambda value, given: f"{value} * sigmoid({value})",
    _aten.hardsigmoid.default: lambda value, given: f"{_SIX.format(value)} * {1 / 6!r}",
    _aten.hardswish.default: lambda value, given: f"{value} * {_SIX.format(value)} * {1 / 6!r}",
    _aten.gelu.default: _gelu,
    _aten.leaky_relu.default: _leaky_relu,
    _aten.elu.default: _elu,
    _aten.selu.default: _scaled_elu,
    _aten.celu.default: _celu,
    _aten.softplus.default: _softplus,
    _aten.mish.default: lambda value, given: (
        f"{value} * tanh({value} if {value} > 20.0 else log1p(exp({value})))"
    ),
    _aten.log_sigmoid.default: lambda value, given: (
        f"min({value}, 0.0) - log1p(exp(-abs({value})))"
    ),
    _aten.exp2.default: _called("exp2"),
    _aten.log2.default: _called("log2"),
    _aten.sinh.default: _called("sinh"),
    _aten.cosh.default: _called("cosh"),
    _aten.atan.default: _called("atan"),
}

_BINARY = {
    _aten.add.Tensor: "{} + {}",
    _aten.add.Scalar: "{} + {}",
    _aten.sub.Tensor: "{} - {}",
    _aten.sub.Scalar: "{} - {}",
    _aten.mul.Tensor: "{} * {}",
    _aten.mul.Scalar: "{} * {}",
    _aten.div.Tensor: "{} / {}",
    _aten.div.Scalar: "{} / {}",
    _aten.maximum.default: "max({}, {})",
    _aten.minimum.default: "min({}, {})",
}

BATCH_NORMS = (_aten._native_batch_norm_legit_no_training.default, _aten.batch_norm.default)
"""Their statistics are constants; what they compute beside the result is not read."""

GLU = _aten.glu.default
"""The one half of a tensor times the sigmoid of the other: two operations."""

PRELU = _aten.prelu.default

CONVERSIONS = (_aten._to_copy.default,)
"""Other types."""

FOLLOWERS = {*_UNARY, *_BINARY, *BATCH_NORMS, *CONVERSIONS, *CHOICES, *TRUTHS, PRELU, GLU}
"""What is computed in the kernel of an operation before it, or by PyTorch."""
