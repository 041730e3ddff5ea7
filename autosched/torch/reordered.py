"""Operations each of whose elements is one of their input: `flip`, `roll`, repeats, shuffles.

    y = torch.roll(x, 1, 0)    ->  y[i, j] is x[(i + n - 1) % n, j] of n rows
    y = F.pixel_shuffle(x, 2)  ->  y[n, c, h, w] is x[n, 4*c + 2*(h % 2) + w % 2, h // 2, w // 2]

A kernel behind them reads the input at such indices, and nothing is written in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from autosched.torch.model_graph import arguments_of, shape_of

_aten = torch.ops.aten


def place_in_input(node: Any, indices: Sequence[str]) -> list[str] | None:
    """Where the element at these indices lies in the first argument; None without a rule."""
    return _PLACES[node.target](node, list(indices))


def _flipped(node: Any, indices: list[str]) -> list[str]:
    for d in _list(arguments_of(node)["dims"]):
        indices[d] = f"({shape_of(node)[d] - 1} - {indices[d]})"
    return indices


def _rolled(node: Any, indices: list[str]) -> list[str] | None:
    """Without dimensions, elements are rolled in their order over all: there is no rule for it."""
    given, shape = arguments_of(node), shape_of(node)
    dims, shifts = _list(given["dims"]), _list(given["shifts"])
    if len(dims) != len(shifts):
        return None
    for d, shift in zip(dims, shifts, strict=True):
        back = -shift % shape[d]
        if back:
            indices[d] = f"(({indices[d]} + {back}) % {shape[d]})"
    return indices


def _repeated(node: Any, indices: list[str]) -> list[str]:
    shape = shape_of(node.args[0])
    found = indices[len(indices) - len(shape) :]
    several = zip(found, shape, shape_of(node)[len(indices) - len(shape) :], strict=True)
    return ["0" if n == 1 else i if n == all_ else f"({i} % {n})" for i, n, all_ in several]


def _each_repeated(node: Any, indices: list[str]) -> list[str] | None:
    given = arguments_of(node)
    if given["dim"] is None:
        return None
    d = given["dim"] % len(indices)
    indices[d] = f"({indices[d]} // {given['repeats']})"
    return indices


def _pixels_from_channels(node: Any, indices: list[str]) -> list[str]:
    r = arguments_of(node)["upscale_factor"]
    *batch, c, h, w = indices
    return [
        *batch,
        f"({r * r}*{c} + {r}*({h} % {r}) + {w} % {r})",
        f"({h} // {r})",
        f"({w} // {r})",
    ]


def _channels_from_pixels(node: Any, indices: list[str]) -> list[str]:
    r = arguments_of(node)["downscale_factor"]
    *batch, c, h, w = indices
    return [*batch, f"({c} // {r * r})", f"({r}*{h} + {c} // {r} % {r})", f"({r}*{w} + {c} % {r})"]


def _of_groups(node: Any, indices: list[str]) -> list[str]:
    groups = arguments_of(node)["groups"]
    each = shape_of(node)[1] // groups
    indices[1] = f"({indices[1]} % {groups} * {each} + {indices[1]} // {groups})"
    return indices


def _list(value: Any) -> list[int]:
    return list(value) if isinstance(value, list | tuple) else [value]


_PLACES: Mapping[Any, Callable[[Any, list[str]], list[str] | None]] = {
    _aten.flip.default: _flipped,
    _aten.roll.default: _rolled,
    _aten.repeat.default: _repeated,
    _aten.repeat_interleave.self_int: _each_repeated,
    _aten.pixel_shuffle.default: _pixels_from_channels,
    _aten.pixel_unshuffle.default: _channels_from_pixels,
    _aten.channel_shuffle.default: _of_groups,
}

REORDERED = _PLACES.keys()
"""What copies elements to other places, one for each of its own."""
