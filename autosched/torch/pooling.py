"""Pooling over windows, in the memory format of its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from autosched.torch.computation import Computation, NoRuleError, Operand, Shape, times, whole
from autosched.torch.model_graph import arguments_of, is_contiguous, shape_of
from autosched.torch.moved import kind_of, moved_input
from autosched.torch.operands import (
    has_channels_last,
    storage_order,
    stored,
    stored_otherwise,
    unless_usual,
)
from autosched.torch.windows import (
    Window,
    axes_of,
    bordered,
    in_order,
    positions_of,
    ranges_of,
    spread,
)

_LEAST = "-3.4028234663852886e38"
"""The least finite float32, where a maximum over indices begins as well."""


def max_pool(node: Any) -> Computation:
    """`aten.max_pool1d` to `3d`; a border counts as the least number."""
    given = arguments_of(node)
    return _pool(node, given, "max_pool", "max", given["dilation"])


def avg_pool(node: Any) -> Computation:
    """`aten.avg_pool1d` to `3d`.

    Where windows differ in how many elements count, the sum is divided by the number of these:
    those within the image, or within it and its border (`count_include_pad`).
    """
    given = arguments_of(node)
    if given.get("divisor_override") is not None:
        raise NoRuleError("it has a divisor_override")
    windows, sizes, out = _windows(node, given, 1), _sizes(node.args[0], node), _sizes(node, node)
    counts = []
    for axis, window, size, number in zip(axes_of(windows), windows, sizes, out, strict=True):
        border = window.before if given["count_include_pad"] else 0
        first, end = -border, size + border
        starts = [window.stride * i - window.before for i in range(number)]
        elements = {min(i + window.size, end) - max(i, first) for i in starts}
        start = times(window.stride, axis)
        start += f" - {window.before}" if window.before else ""
        low = f"max({start}, {first})" if -window.before < first else f"({start})"
        text = f"(min({start} + {window.size}, {end}) - {low})"
        counts.append(str(window.size) if elements == {window.size} else text)
    if all(text.isdigit() for text in counts):
        return _pool(node, given, "avg_pool", "mean", 1)
    found = _pool(node, given, "avg_pool", "sum", 1)
    return found.then("", f"{found.value} / float32({' * '.join(counts)})")


def adaptive_avg_pool(node: Any) -> Computation:
    """`aten.adaptive_avg_pool1d` to `3d`, where the windows are equal: lengths are multiples."""
    x, axes = node.args[0], _axes(node)
    sizes, counts = shape_of(x)[-axes:], shape_of(node)[-axes:]
    if any(size % number for size, number in zip(sizes, counts, strict=True)):
        raise NoRuleError(f"its windows differ in size: {sizes} is not a multiple of {counts}")
    kernel = [size // number for size, number in zip(sizes, counts, strict=True)]
    windows = [Window(k, k, 0, 0) for k in kernel]
    return _over(node, x, windows, "avg_pool", "mean", "0")


def _pool(
    node: Any, given: dict[str, Any], kind: str, reducer: str, dilation: int | Sequence[int]
) -> Computation:
    windows = _windows(node, given, dilation)
    return _over(node, given["self"], windows, kind, reducer, _LEAST if reducer == "max" else "0")


def _windows(node: Any, given: dict[str, Any], dilation: int | Sequence[int]) -> list[Window]:
    count = _axes(node)
    kernel = spread(given["kernel_size"], count)
    sizes, out = _sizes(given["self"], node), _sizes(node, node)
    strides = spread(given["stride"] or kernel, count)
    paddings, dilations = spread(given["padding"], count), spread(dilation, count)
    windows = []
    for i, size in enumerate(kernel):
        reach = (out[i] - 1) * strides[i] + dilations[i] * (size - 1) + 1
        # The last window of ceil_mode may reach beyond the border.
        after = max(paddings[i], reach - sizes[i] - paddings[i])
        windows.append(Window(size, strides[i], paddings[i], after, dilations[i]))
    return windows


def _sizes(x: Any, node: Any) -> Shape:
    """The lengths of the windows' axes in `x`, where `node` is the operation."""
    return shape_of(x)[-_axes(node) :]


def _over(
    node: Any, x: Any, windows: Sequence[Window], kind: str, reducer: str, border: str
) -> Computation:
    """The reduction of windows; batch and channels are one axis, but for channels last."""
    image = _image(node, x, len(windows))
    moved = moved_input(x)

    def element(places: Sequence[str]) -> str:
        if moved is None:
            return image.text(places)
        return moved.text(x, [*image.outer, *(f"({p})" if " " in p else p for p in places)])

    sizes, out = shape_of(x)[-len(windows) :], shape_of(node)[-len(windows) :]
    source = bordered(
        image.lead, sizes, windows, image.order, border, element, copied=moved is not None
    )
    axes = in_order([*image.lead, *((each,) for each in axes_of(windows))], image.order)
    lengths = [*(each.values() for each in image.lead), *((each,) for each in out)]
    value = f"{reducer}({ranges_of(windows)}, {source.read(positions_of(windows))})"
    return Computation(
        kind=f"{kind_of(moved)}{kind}{len(windows)}d",
        statements=(*source.statements, f"Y[{', '.join(axes)}] = {value}"),
        operands={"X": image.operand} if moved is None else moved.operands,
        result="Y",
        axes=axes,
        shape=in_order(lengths, image.order),
        channels=("c",) if "c" in axes else (),
        shapes=source.shapes,
        order=unless_usual(image.order),
        within=() if moved is None else tuple(moved.nodes),
    )


class _Image(NamedTuple):
    """How the input of a pooling is read at places of its windows.

    `lead` are the lengths of the indices of each dimension before those of the windows, `outer`
    the indices of the node's own dimensions there, `order` permutes the result's.
    """

    text: Callable[[Sequence[str]], str]
    operand: Operand
    lead: tuple[Mapping[str, int], ...]
    outer: tuple[str, ...]
    order: tuple[int, ...]


def _image(node: Any, x: Any, count: int) -> _Image:
    """The input of `node`, whose windows have `count` axes."""
    several, sizes = shape_of(x)[:-count], shape_of(x)[-count:]
    if has_channels_last(node) and len(several) == 2:
        read, operand = stored("X", x, [(size,) for size in shape_of(x)])
        return _Image(
            lambda places: read([*"nc", *((each,) for each in places)]),
            operand,
            ({"n": several[0]}, {"c": several[1]}),
            ("n", "c"),
            storage_order(node),
        )
    if not is_contiguous(node):
        raise NoRuleError(stored_otherwise(node))
    rows = after = math.prod(several)
    outer: list[str] = []
    for size in several:
        after //= size
        outer.append(f"(n // {after} % {size})")
    return _Image(
        lambda places: f"X[n, {', '.join(places)}]",
        whole(x, (rows, *sizes)),
        ({"n": rows},),
        tuple(outer),
        tuple(range(count + 1)),
    )


def _axes(node: Any) -> int:
    """How many axes the windows of the operation have: 2 of `max_pool2d`, whose list may be one."""
    name: str = node.target.overloadpacket.__name__
    return int(name.removesuffix("d")[-1])
