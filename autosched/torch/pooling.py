"""Pooling over windows, in the memory format of its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from autosched.torch.computation import Computation, NoRuleError, Operand, whole
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
        raise NoRuleError(f"its windows differ in size: {sizes} is not a multiple of {counts}")
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


def _numbers(value: Any) -> list[int]:
    return list(value) if isinstance(value, list | tuple) else [value]
