"""Windows that slide over one, two or three axes: convolutions and pooling share them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from autosched.torch.computation import Shape, times

T = TypeVar("T")

_AXES, _STEPS = ("d", "h", "w"), ("q", "r", "s")


class Window(NamedTuple):
    """What a window does along one axis; `before` and `after` are the border's elements."""

    size: int
    stride: int
    before: int
    after: int
    dilation: int = 1


def spread(value: Any, axes: int) -> tuple[int, ...]:
    """A number for each axis, of one number for all or of a list."""
    found = tuple(value) if isinstance(value, list | tuple) else (value,)
    return found * axes if len(found) == 1 else found


def axes_of(windows: Sequence[Any]) -> tuple[str, ...]:
    """Their indices: `h`, `w`."""
    return _AXES[-len(windows) :]


def ranges_of(windows: Sequence[Window]) -> str:
    """What a reduction over the windows names: `r < 3, s < 3`."""
    return ", ".join(f"{i} < {w.size}" for i, w in zip(steps_of(windows), windows, strict=True))


def steps_of(windows: Sequence[Any]) -> tuple[str, ...]:
    """The indices within the windows: `r`, `s`."""
    return _STEPS[-len(windows) :]


def positions_of(windows: Sequence[Window]) -> list[str]:
    """Where elements of the windows lie, border included: `2*h + r`, `2*w + s`."""
    together = zip(axes_of(windows), steps_of(windows), windows, strict=True)
    return [f"{times(w.stride, axis)} + {times(w.dilation, step)}" for axis, step, w in together]


def in_order(dimensions: Sequence[Iterable[T]], order: Sequence[int]) -> tuple[T, ...]:
    """The indices (or lengths) of all dimensions, with the dimensions in this order."""
    return tuple(each for d in order for each in dimensions[d])


class Bordered(NamedTuple):
    """A function that writes an element of an input with its border, at places of the windows, and
    the statements that compute `P`, the copy with a border, with its shape.
    """

    read: Callable[[Sequence[str]], str]
    statements: tuple[str, ...] = ()
    shapes: Mapping[str, Shape] = {}


def bordered(
    lead: Sequence[Mapping[str, int]],
    sizes: Shape,
    windows: Sequence[Window],
    order: Sequence[int],
    value: str,
    element: Callable[[Sequence[str]], str],
    *,
    copied: bool,
) -> Bordered:
    """The input with the border that the windows reach into.

    P[n, c, h, w] = X[n, c, h - 1, w - 1] if 1 <= h and h < 8 and 1 <= w and w < 8 else 0

    Without any border there is no `P`, and elements are read where they lie, unless they must be
    `copied`.

    Args:
        lead: the dimensions before those of the windows, each with its indices and their lengths.
        sizes: the lengths of the windows' dimensions, without border.
        windows: one for each of these.
        order: of all dimensions in the memory of `P`.
        value: the elements of the border.
        element: writes an element of the input at indices of the windows' dimensions.
        copied: whether `P` is needed also without a border.
    """
    if not copied and not any(w.before or w.after for w in windows):
        return Bordered(element)
    inside, source = [], []
    for axis, size, w in zip(axes_of(windows), sizes, windows, strict=True):
        inside += [f"{w.before} <= {axis}"] if w.before else []
        inside += [f"{axis} < {w.before + size}"] if w.after else []
        source.append(f"{axis} - {w.before}" if w.before else axis)

    def read(places: Sequence[str]) -> str:
        return f"P[{', '.join(in_order([*lead, *((each,) for each in places)], order))}]"

    text = f"{read(axes_of(windows))} = {element(source)}"
    text += f" if {' and '.join(inside)} else {value}" if inside else ""
    together = zip(sizes, windows, strict=True)
    lengths = ((size + w.before + w.after,) for size, w in together)
    shape = in_order([*(tuple(each.values()) for each in lead), *lengths], order)
    return Bordered(read, (text,), {"P": shape})
