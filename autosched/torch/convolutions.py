"""Convolutions as PyTorch lays them out: channels first, weights (CO, CI/groups, KH, KW).

    Y[n, o, h, w] = sum(c, r < 3, s < 3, X[n, c, h + r, w + s] * W[o, c, r, s])

Where the result is channels last, the kernel has all in the order of that memory, and weights
(KH, KW, CI/groups, CO), of which vectors of output channels are read:

    Y[n, h, w, o] = sum(r < 3, s < 3, c, X[n, h + r, w + s, c] * W[r, s, c, o])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from autosched.torch.computation import Computation, NoRuleError, Shape, whole
from autosched.torch.model_graph import arguments_of, shape_of
from autosched.torch.moved import kind_of, moved_input
from autosched.torch.operands import has_channels_last, storage_order, stored, unless_usual
from autosched.torch.windows import (
    T,
    Window,
    axes_of,
    bordered,
    in_order,
    positions_of,
    ranges_of,
    spread,
    steps_of,
)


class _Channels(NamedTuple):
    """Indices and lengths of channels; a group's own index comes first where there are groups."""

    inputs: tuple[str, ...]
    input_sizes: Shape
    outputs: tuple[str, ...]
    output_sizes: Shape
    summed: tuple[str, ...]


def convolution(node: Any) -> Computation:
    """`aten.conv1d`, `conv2d` and `conv3d`, with numbers or a word for the padding."""
    given = arguments_of(node)
    x, weight = given["input"], given["weight"]
    outputs, _, *kernel = shape_of(weight)
    batch, inputs, *sizes = batched(x, kernel)
    strides, dilations = (spread(given[key], len(kernel)) for key in ("stride", "dilation"))
    borders = borders_of(given["padding"], kernel, dilations)
    together = zip(kernel, strides, borders, dilations, strict=True)
    windows = [Window(k, s, *border, d) for k, s, border, d in together]
    channels = _channels(inputs, outputs, given["groups"])
    depthwise = not channels.summed
    inner = () if depthwise else channels.input_sizes[-1:]
    moved = moved_input(x)
    text, source = stored("X", x, [(batch,), channels.input_sizes, *((s,) for s in sizes)])

    def element(places: Sequence[str]) -> str:
        if moved is None:
            return text([("n",), channels.inputs, *((each,) for each in places)])
        several = channels.inputs  # of the node's channels, which are two where there are groups
        channel = several[0] if len(several) == 1 else f"({several[0]}*{inner[0]} + {several[1]})"
        return moved.text(x, ["n", channel, *(f"({p})" if " " in p else p for p in places)])

    order = storage_order(node)
    lead = {"n": batch}, dict(zip(channels.inputs, channels.input_sizes, strict=True))
    image = bordered(lead, tuple(sizes), windows, order, "0", element, copied=moved is not None)
    steps, ranges = steps_of(windows), ranges_of(windows)
    weights = whole(weight, (*channels.output_sizes, *inner, *kernel))
    weight_axes = (*channels.outputs, *channels.summed, *steps)
    summed = ", ".join((*channels.summed, ranges))
    if has_channels_last(node):
        weights = replace(
            weights,
            shape=(*kernel, *inner, *channels.output_sizes),
            order=(*range(2, len(order)), 1, 0),
        )
        weight_axes = (*steps, *channels.summed, *channels.outputs)
        summed = ", ".join((ranges, *channels.summed))
    term = f"{image.read(positions_of(windows))} * W[{', '.join(weight_axes)}]"
    axes = in_order([("n",), channels.outputs, *((each,) for each in axes_of(windows))], order)
    lengths = [(batch,), channels.output_sizes, *((each,) for each in shape_of(node)[2:])]
    result = Computation(
        kind=f"{kind_of(moved)}{'depthwise_' if depthwise else ''}conv{len(kernel)}d",
        statements=(*image.statements, f"Y[{', '.join(axes)}] = sum({summed}, {term})"),
        operands={**({"X": source} if moved is None else moved.operands), "W": weights},
        result="Y",
        axes=axes,
        shape=in_order(lengths, order),
        channels=channels.outputs,
        shapes=image.shapes,
        weights=("W",),
        copies={"P": source.dtype},
        order=unless_usual(order),
        within=() if moved is None else tuple(moved.nodes),
    )
    return with_bias(result, given["bias"])


def transposed(node: Any) -> Computation:
    """`aten.conv_transpose1d` to `3d`: the input spread out with zeros, weights turned around."""
    given = arguments_of(node)
    x, weight = given["input"], given["weight"]
    _, per_group, *kernel = shape_of(weight)
    batch, inputs, *sizes = batched(x, kernel)
    count = len(kernel)
    strides, paddings, dilations = (
        spread(given[key], count) for key in ("stride", "padding", "dilation")
    )
    groups = given["groups"]
    channels = _channels(inputs, per_group * groups, groups, depthwise=False)
    windows = [Window(k, 1, 0, 0, d) for k, d in zip(kernel, dilations, strict=True)]
    axes, steps, out = axes_of(windows), steps_of(windows), shape_of(node)[2:]
    borders = _borders(windows, paddings)
    places = [_place(*of) for of in zip(axes, borders, strides, strict=True)]
    conditions = [
        condition
        for of in zip(axes, borders, strides, sizes, strict=True)
        for condition in _conditions(*of)
    ]
    lengths = [n + w.dilation * (w.size - 1) for n, w in zip(out, windows, strict=True)]
    text, source = stored("X", x, [(batch,), channels.input_sizes, *((s,) for s in sizes)])
    order = storage_order(node)

    def of_all(channel: Sequence[T], several: Iterable[T], first: T) -> tuple[T, ...]:
        return in_order([(first,), channel, *((each,) for each in several)], order)

    turned = [f"{w.size - 1} - {step}" for step, w in zip(steps, windows, strict=True)]
    weights = whole(weight, (*channels.input_sizes, per_group, *kernel))
    weight_axes = (*channels.inputs, channels.outputs[-1], *turned)
    summed = ", ".join((*channels.summed, ranges_of(windows)))
    if has_channels_last(node):
        weights = replace(
            weights,
            shape=(*kernel, *channels.input_sizes, per_group),
            order=(*range(2, len(order)), 0, 1),
        )
        weight_axes = (*turned, *channels.inputs, channels.outputs[-1])
        summed = ", ".join((ranges_of(windows), *channels.summed))
    spread_out, result_axes = (
        of_all(channels.inputs, axes, "n"),
        of_all(channels.outputs, axes, "n"),
    )
    read = of_all(channels.inputs, positions_of(windows), "n")
    result = Computation(
        kind=f"conv_transpose{count}d",
        statements=(
            f"D[{', '.join(spread_out)}] = "
            f"{text([('n',), channels.inputs, *((each,) for each in places)])} "
            f"if {' and '.join(conditions)} else 0",
            f"Y[{', '.join(result_axes)}] = sum({summed}, "
            f"D[{', '.join(read)}] * W[{', '.join(weight_axes)}])",
        ),
        operands={"X": source, "W": weights},
        result="Y",
        axes=result_axes,
        shape=of_all(channels.output_sizes, out, batch),
        channels=channels.outputs,
        shapes={"D": of_all(channels.input_sizes, lengths, batch)},
        weights=("W",),
        copies={"D": source.dtype},
        order=unless_usual(order),
    )
    return with_bias(result, given["bias"])


def _borders(windows: Sequence[Window], paddings: Sequence[int]) -> list[int]:
    """The zeros in front of the first element of the input, spread out, in each dimension."""
    borders = []
    for w, padding in zip(windows, paddings, strict=True):
        border = w.dilation * (w.size - 1) - padding
        if border < 0:
            raise NoRuleError(f"its padding {padding} is larger than its window's border")
        borders.append(border)
    return borders


def _place(axis: str, border: int, stride: int) -> str:
    """The index of the input whose element stands at `axis` of the spread out one."""
    place = _after(axis, border)
    return f"{place} // {stride}" if stride > 1 else place


def _conditions(axis: str, border: int, stride: int, size: int) -> list[str]:
    """When an element of the input stands at `axis` of the spread out one."""
    conditions = [f"{border} <= {axis}"] if border else []
    conditions += [f"{axis} < {border + (size - 1) * stride + 1}"]
    conditions += [f"{_after(axis, border)} % {stride} == 0"] if stride > 1 else []
    return conditions


def _after(axis: str, border: int) -> str:
    return f"({axis} - {border})" if border else axis


def with_bias(computation: Computation, bias: Any) -> Computation:
    """The computation with a number added for each channel; itself where `bias` is None."""
    if bias is None:
        return computation
    sizes = dict(zip(computation.axes, computation.shape, strict=True))
    operand = whole(bias, tuple(sizes[axis] for axis in computation.channels))
    value = f"{computation.value} + b[{', '.join(computation.channels)}]"
    return computation.then("", value, {"b": operand})


def batched(x: Any, kernel: Sequence[int]) -> Shape:
    """The shape of the input. Raises NoRuleError where it has no batch."""
    shape = shape_of(x)
    if len(shape) != len(kernel) + 2:
        raise NoRuleError(f"its input has {len(shape)} dimensions, {len(kernel) + 2} are expected")
    return shape


def borders_of(
    padding: Any, kernel: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """The elements before and after, along each axis; `same` puts the odd one after."""
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    return [(each, each) for each in spread(padding, len(kernel))]


def _channels(inputs: int, outputs: int, groups: int, *, depthwise: bool = True) -> _Channels:
    if groups == 1:
        return _Channels(("c",), (inputs,), ("o",), (outputs,), ("c",))
    if depthwise and inputs == outputs == groups:
        return _Channels(("o",), (inputs,), ("o",), (outputs,), ())
    sizes = (groups, inputs // groups), (groups, outputs // groups)
    return _Channels(("g", "c"), sizes[0], ("g", "o"), sizes[1], ("c",))
