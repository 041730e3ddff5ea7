"""Windows that slide over one, two or three axes: convolutions and pooling share them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from autosched.torch.computation import Shape, times

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


def padded(
    leading: Sequence[str],
    lengths: Sequence[int],
    sizes: Shape,
    windows: Sequence[Window],
    value: str,
    element: Callable[[Sequence[str]], str] | None = None,
) -> tuple[str, tuple[str, ...], dict[str, Shape]]:
    """The input `X` with its border: name, statements, shapes.

    `X` itself where no window has a border. `leading` are the indices before those of the windows,
    `lengths` how far these run, `sizes` the lengths of the axes of the windows. `element` is what
    is read at such indices, where it is not `X`.
    """
    if element is None and not any(w.before or w.after for w in windows):
        return "X", (), {}
    inside, source = [], []
    for axis, size, w in zip(axes_of(windows), sizes, windows, strict=True):
        inside += [f"{w.before} <= {axis}"] if w.before else []
        inside += [f"{axis} < {w.before + size}"] if w.after else []
        source.append(f"{axis} - {w.before}" if w.before else axis)
    lead = ", ".join(leading)
    read = element((*leading, *source)) if element else f"X[{lead}, {', '.join(source)}]"
    text = f"P[{lead}, {', '.join(axes_of(windows))}] = {read}"
    text += f" if {' and '.join(inside)} else {value}" if inside else ""
    together = zip(sizes, windows, strict=True)
    shape = (*lengths, *(size + w.before + w.after for size, w in together))
    return "P", (text,), {"P": shape}
