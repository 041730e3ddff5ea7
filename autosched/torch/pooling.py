"""Pooling over windows, channels first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autosched.torch.computation import Computation, NoRuleError, whole
from autosched.torch.model_graph import arguments_of, shape_of
from autosched.torch.moved import kind_of, moved_input
from autosched.torch.windows import Window, axes_of, padded, positions_of, ranges_of, spread

_LEAST = "-3.4028234663852886e38"
"""The least finite float32, where a maximum over indices begins as well."""


def max_pool(node: Any) -> Computation:
    """`aten.max_pool1d` to `3d`; a border counts as the least number."""
    given = arguments_of(node)
    return _pool(node, given, "max_pool", "max", given["dilation"])


def avg_pool(node: Any) -> Computation:
    """`aten.avg_pool1d` to `3d`, where each window has the same number of elements."""
    given = arguments_of(node)
    if given["ceil_mode"]:
        raise NoRuleError("ceil_mode: windows at the end may have fewer elements")
    if any(_numbers(given["padding"])) and not given["count_include_pad"]:
        raise NoRuleError("count_include_pad=False: windows at the border have fewer elements")
    if given.get("divisor_override") is not None:
        raise NoRuleError("it has a divisor_override")
    return _pool(node, given, "avg_pool", "mean", 1)


def adaptive_avg_pool(node: Any) -> Computation:
    """`aten.adaptive_avg_pool1d` to `3d`, where the windows are equal: lengths are multiples."""
    x, axes = node.args[0], _axes(node)
    sizes, counts = shape_of(x)[-axes:], shape_of(node)[-axes:]
    if any(size % number for size, number in zip(sizes, counts, strict=True)):
        raise NoRuleError(f"{sizes} is no multiple of {counts}: its windows differ")
    kernel = [size // number for size, number in zip(sizes, counts, strict=True)]
    windows = [Window(k, k, 0, 0) for k in kernel]
    return _over(node, x, windows, "avg_pool", "mean", "0")


def _pool(
    node: Any, given: dict[str, Any], kind: str, reducer: str, dilation: int | Sequence[int]
) -> Computation:
    count = _axes(node)
    kernel = spread(given["kernel_size"], count)
    x = given["self"]
    sizes, out = shape_of(x)[-count:], shape_of(node)[-count:]
    strides = spread(given["stride"] or kernel, count)
    paddings, dilations = spread(given["padding"], count), spread(dilation, count)
    windows = []
    for i, size in enumerate(kernel):
        reach = (out[i] - 1) * strides[i] + dilations[i] * (size - 1) + 1
        # The last window of ceil_mode may reach beyond the border.
        after = max(paddings[i], reach - sizes[i] - paddings[i])
        windows.append(Window(size, strides[i], paddings[i], after, dilations[i]))
    return _over(node, x, windows, kind, reducer, _LEAST if reducer == "max" else "0")


def _over(
    node: Any, x: Any, windows: Sequence[Window], kind: str, reducer: str, border: str
) -> Computation:
    """The reduction of windows; batch and channels are one axis."""
    rows = math.prod(shape_of(x)[: -len(windows)])
    sizes, out = shape_of(x)[-len(windows) :], shape_of(node)[-len(windows) :]
    moved = moved_input(x)

    def element(indices: Sequence[str]) -> str:
        """Of the node, whose batch and channels are apart."""
        assert moved is not None
        n, *places = indices
        lead, after = list[str](), rows
        for size in shape_of(x)[: -len(windows)]:
            after //= size
            lead.append(f"({n} // {after} % {size})")
        return moved.text(x, [*lead, *(f"({each})" if " " in each else each for each in places)])

    name, statements, shapes = padded(
        ("n",), (rows,), sizes, windows, border, None if moved is None else element
    )
    read = f"{name}[n, {', '.join(positions_of(windows))}]"
    axes = ("n", *axes_of(windows))
    value = f"{reducer}({ranges_of(windows)}, {read})"
    return Computation(
        kind=f"{kind_of(moved)}{kind}{len(windows)}d",
        statements=(*statements, f"Y[{', '.join(axes)}] = {value}"),
        operands={"X": whole(x, (rows, *sizes))} if moved is None else moved.operands,
        result="Y",
        axes=axes,
        shape=(rows, *out),
        shapes=shapes,
        within=() if moved is None else tuple(moved.nodes),
    )


def _axes(node: Any) -> int:
    """How many axes the windows of the operation have: 2 of `max_pool2d`, whose list may be one."""
    name: str = node.target.overloadpacket.__name__
    return int(name.removesuffix("d")[-1])


def _numbers(value: Any) -> list[int]:
    return list(value) if isinstance(value, list | tuple) else [value]
