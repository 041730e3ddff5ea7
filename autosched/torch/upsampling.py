"""Linear interpolation of one to three dimensions, one after the other: `F.interpolate`.

    F.interpolate(x, scale_factor=2, mode="linear")  of rows of 5
        ->  Y[n, c, w] = X[n, c, max(2*w - 1, 0) // 4] * (1.0 - max(2*w - 1, 0) % 4 * 0.25)
            + X[n, c, min(max(2*w - 1, 0) // 4 + 1, 4)] * (max(2*w - 1, 0) % 4 * 0.25)

Places are quotients of integers, where PyTorch's are rounded to float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autosched.torch.computation import Computation, NoRuleError, Shape, times
from autosched.torch.model_graph import arguments_of, name_of_operation, shape_of
from autosched.torch.operands import storage_order, stored, unless_usual
from autosched.torch.windows import axes_of


def upsampled(node: Any) -> Computation:
    """`aten.upsample_linear1d`, `upsample_bilinear2d` and `upsample_trilinear3d`.

    Raises NoRuleError for a factor that does not give the result's size.
    """
    given = arguments_of(node)
    x = given["input"]
    sizes, wanted, factors = shape_of(x)[2:], shape_of(node)[2:], given["scale_factors"]
    if factors and any(n * f != w for n, f, w in zip(sizes, factors, wanted, strict=True)):
        raise NoRuleError(f"its factors {list(factors)} give no whole sizes of {sizes}")
    order = storage_order(node)
    text, source = stored("X", x, [(size,) for size in shape_of(x)])
    spatial = axes_of(sizes)
    axes = tuple(("n", "c", *spatial)[d] for d in order)
    statements: list[str] = []
    shapes: dict[str, Shape] = {}
    for d in reversed(range(len(sizes))):

        def element(place: str, d: int = d) -> str:
            if not statements:
                places = (*spatial[:d], place, *spatial[d + 1 :])
                return text([("n",), ("c",), *((each,) for each in places)])
            before = statements[-1].partition("[")[0]
            return f"{before}[{', '.join(place if a == spatial[d] else a for a in axes)}]"

        name = f"T{len(sizes) - d}" if d else "Y"
        lengths = (*shape_of(x)[:2], *sizes[:d], *wanted[d:])
        shapes[name] = tuple(lengths[each] for each in order)
        value = _between(element, spatial[d], sizes[d], wanted[d], corners=given["align_corners"])
        statements.append(f"{name}[{', '.join(axes)}] = {value}")
    return Computation(
        kind=name_of_operation(node),
        statements=tuple(statements),
        operands={"X": source},
        result="Y",
        axes=axes,
        shape=shapes["Y"],
        channels=("c",),
        shapes=shapes,
        order=unless_usual(order),
    )


def _between(
    element: Callable[[str], str], axis: str, size: int, wanted: int, *, corners: bool
) -> str:
    """What lies at `axis` of `wanted` elements between two of `size`.

    With `corners` the first and the last are those of the input; else elements have widths, and
    their middles are where they lie.
    """
    if corners:
        step, start, whole = size - 1, 0, max(wanted - 1, 1)
        step *= wanted > 1
    else:
        step, start, whole = 2 * size, size - wanted, 2 * wanted
    divisor = math.gcd(step, start, whole)
    step, start, whole = step // divisor, start // divisor, whole // divisor
    if size == 1 or not step:
        return element("0")
    place = times(step, axis)
    if start:
        place = f"{place} {'+' if start > 0 else '-'} {abs(start)}"
    place = f"max({place}, 0)" if start < 0 else f"({place})" if start else place
    if whole == 1:
        return element(place)
    first = f"{place} // {whole}"
    part = f"({place} % {whole} * {1 / whole!r})"
    return (
        f"{element(first)} * (1.0 - {part}) + {element(f'min({first} + 1, {size - 1})')} * {part}"
    )
