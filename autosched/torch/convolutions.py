"""Convolutions as PyTorch lays them out: channels first, weights (CO, CI/groups, KH, KW)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from autosched.torch.computation import Computation, NoRuleError, Shape, whole
from autosched.torch.model_graph import arguments_of, shape_of
from autosched.torch.moved import kind_of, moved_input
from autosched.torch.windows import (
    Window,
    axes_of,
    padded,
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
    axes = axes_of(windows)
    moved = moved_input(x)

    def element(indices: Sequence[str]) -> str:
        """Of the node's channels, which are two indices where there are groups."""
        assert moved is not None
        n, *several = indices[: -len(kernel)]
        places = [f"({each})" if " " in each else each for each in indices[-len(kernel) :]]
        several = several if len(several) == 1 else [f"({several[0]}*{inner[0]} + {several[1]})"]
        return moved.text(x, [n, *several, *places])

    name, statements, shapes = padded(
        ("n", *channels.inputs),
        (batch, *channels.input_sizes),
        tuple(sizes),
        windows,
        "0",
        None if moved is None else element,
    )
    read = f"{name}[n, {', '.join((*channels.inputs, *positions_of(windows)))}]"
    weight_axes = (*channels.outputs, *channels.summed, *steps_of(windows))
    term = f"{read} * W[{', '.join(weight_axes)}]"
    summed = ", ".join((*channels.summed, ranges_of(windows)))
    result_axes = ("n", *channels.outputs, *axes)
    source = whole(x, (batch, *channels.input_sizes, *sizes))
    result = Computation(
        kind=f"{kind_of(moved)}{'depthwise_' if depthwise else ''}conv{len(kernel)}d",
        statements=(*statements, f"Y[{', '.join(result_axes)}] = sum({summed}, {term})"),
        operands={
            **({"X": source} if moved is None else moved.operands),
            "W": whole(weight, (*channels.output_sizes, *inner, *kernel)),
        },
        result="Y",
        axes=result_axes,
        shape=(batch, *channels.output_sizes, *shape_of(node)[2:]),
        channels=channels.outputs,
        shapes=shapes,
        weights=("W",),
        copies={"P": source.dtype},
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
    conditions, places, lengths = [], [], []
    for i, (axis, stride, w) in enumerate(zip(axes, strides, windows, strict=True)):
        border = w.dilation * (w.size - 1) - paddings[i]
        if border < 0:
            raise NoRuleError(f"its padding {paddings[i]} is larger than its window's border")
        place = f"({axis} - {border})" if border else axis
        conditions += [f"{border} <= {axis}"] if border else []
        conditions += [f"{axis} < {border + (sizes[i] - 1) * stride + 1}"]
        conditions += [f"{place} % {stride} == 0"] if stride > 1 else []
        places.append(f"{place} // {stride}" if stride > 1 else place)
        lengths.append(out[i] + w.dilation * (w.size - 1))
    lead = ", ".join(("n", *channels.inputs))
    turned = [f"{w.size - 1} - {step}" for step, w in zip(steps, windows, strict=True)]
    weight_axes = (*channels.inputs, channels.outputs[-1], *turned)
    result_axes = ("n", *channels.outputs, *axes)
    source = whole(x, (batch, *channels.input_sizes, *sizes))
    result = Computation(
        kind=f"conv_transpose{count}d",
        statements=(
            f"D[{lead}, {', '.join(axes)}] = X[{lead}, {', '.join(places)}] "
            f"if {' and '.join(conditions)} else 0",
            f"Y[{', '.join(result_axes)}] = sum({', '.join(channels.summed)}, "
            f"{ranges_of(windows)}, D[{lead}, {', '.join(positions_of(windows))}] "
            f"* W[{', '.join(weight_axes)}])",
        ),
        operands={
            "X": source,
            "W": whole(weight, (*channels.input_sizes, per_group, *kernel)),
        },
        result="Y",
        axes=result_axes,
        shape=(batch, *channels.output_sizes, *out),
        channels=channels.outputs,
        shapes={"D": (batch, *channels.input_sizes, *lengths)},
        weights=("W",),
        copies={"D": source.dtype},
    )
    return with_bias(result, given["bias"])


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
