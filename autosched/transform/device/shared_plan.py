"""Placement of buffers in one piece of memory, given the intervals in which they are in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import lcm

from autosched.transform.device.shared_liveness import Interval

_MATCH = 16
"""A free piece is reused for requests of at least 1/16 of its size."""


@dataclass(frozen=True, slots=True)
class Request:
    """A buffer of `size` bytes at a multiple of `alignment` bytes, in use during `live`."""

    name: str
    size: int
    alignment: int
    live: Interval


@dataclass(frozen=True, slots=True)
class Plan:
    """The byte offset of each request, in the order of the requests, and the total in bytes."""

    offsets: tuple[int, ...]
    total: int


def plan_memory(requests: Sequence[Request], planner: str) -> Plan:
    """Place the requests so that no two that are in use at the same time overlap.

    `planner` is first_fit (largest first, each at the lowest free offset), best_fit (in the order
    of first use, each into the smallest free piece that fits) or auto, the better of both. Raises
    ValueError for any other name.
    """
    if planner == "auto":
        return min((plan(requests) for plan in _PLANNERS.values()), key=lambda plan: plan.total)
    if planner not in _PLANNERS:
        known = ", ".join((*_PLANNERS, "auto"))
        raise ValueError(f"no planner of shared memory is called {planner!r}, only {known}")
    return _PLANNERS[planner](requests)


def align_up(value: int, alignment: int) -> int:
    """The least multiple of `alignment` that is at least `value`."""
    return -(-value // alignment) * alignment


def _first_fit(requests: Sequence[Request]) -> Plan:
    def rank(k: int) -> tuple[int, int, str]:
        return -requests[k].size, requests[k].live.first, requests[k].name

    offsets: dict[int, int] = {}
    for k in sorted(range(len(requests)), key=rank):
        own = requests[k]
        taken = sorted(
            (offsets[j], offsets[j] + requests[j].size)
            for j in offsets
            if requests[j].live.meets(own.live)
        )
        at = 0
        for begin, end in taken:
            if at + own.size <= begin:
                break
            at = max(at, align_up(end, own.alignment))
        offsets[k] = at
    return _plan(requests, offsets)


@dataclass(slots=True, eq=False)
class _Piece:
    size: int
    alignment: int
    members: list[tuple[int, int]] = field(default_factory=list)  # request, byte offset in it


def _best_fit(requests: Sequence[Request]) -> Plan:
    pieces: list[_Piece] = []
    free: list[_Piece] = []  # in the order in which they became free
    holder: dict[int, _Piece] = {}
    # Live intervals include both ends, so at the same place a begin comes before an end.
    begins = [(r.live.first, 0, k) for k, r in enumerate(requests)]
    ends = [(r.live.last, 1, k) for k, r in enumerate(requests)]
    for _, is_end, k in sorted(begins + ends):
        if is_end:
            free.append(holder[k])
        else:
            holder[k] = _take(requests[k], k, pieces, free)
    offsets: dict[int, int] = {}
    top = 0
    for piece in sorted(pieces, key=lambda p: -p.alignment):
        top = align_up(top, piece.alignment)
        for k, at in piece.members:
            offsets[k] = top + at
        top += piece.size
    return _plan(requests, offsets)


def _take(own: Request, k: int, pieces: list[_Piece], free: list[_Piece]) -> _Piece:
    """The piece for request k: a free one, several free ones merged, or a new one."""
    size = align_up(own.size, own.alignment)
    fitting = [p for p in free if size <= p.size <= _MATCH * size]
    if fitting:
        piece = min(fitting, key=lambda p: p.size)
        free.remove(piece)
        piece.alignment = lcm(piece.alignment, own.alignment)
        piece.members.append((k, 0))
        return piece
    new = _Piece(0, own.alignment)
    for smaller in sorted((p for p in free if p.size < size), key=lambda p: -p.size):
        if new.size >= size:
            break
        base = align_up(new.size, smaller.alignment)
        new.alignment = lcm(new.alignment, smaller.alignment)
        new.members += [(j, base + at) for j, at in smaller.members]
        new.size = base + smaller.size
        free.remove(smaller)
        pieces.remove(smaller)
    new.members.append((k, 0))
    new.size = max(new.size, size)
    pieces.append(new)
    return new


def _plan(requests: Sequence[Request], offsets: dict[int, int]) -> Plan:
    ends = [offsets[k] + r.size for k, r in enumerate(requests)]
    return Plan(tuple(offsets[k] for k in range(len(requests))), max(ends, default=0))


_PLANNERS: dict[str, Callable[[Sequence[Request]], Plan]] = {
    "first_fit": _first_fit,
    "best_fit": _best_fit,
}
