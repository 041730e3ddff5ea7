"""Scaling of a candidate to a smaller problem, on which all its blocks can run.

Every inner length of a split is kept and only the outermost loop shrinks. An axis of length E whose
split has the inner product P gets a length P * o + E mod P, so both whole tiles and the remainder
still occur. Axes that are fused and then split, or form the rows of a matrix product together, keep
whole tiles of their product, and at least half of its remainder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autosched.errors import AutoschedError
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Iterator, IterKind
from autosched.state.state import State
from autosched.state.steps import MatrixTilesStep, PragmaStep, SplitStep, Step
from autosched.task import Task
from autosched.te.intrin.registry import instruction
from autosched.te.schedule.matrix_view import matrix_view

SPATIAL_TILES = 2
REDUCTION_TILES = 3
_WINDOW = 16
"""A reduction up to this length that is not split counts as a window and keeps its length."""

_Axis = tuple[str, int]
"""An axis: the name of its stage and its position among the stage's loops."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """What an axis of `length` must keep: `tiles` whole tiles of `inner`, and the remainder."""

    length: int
    inner: int
    tiles: int

    def allows(self, length: int) -> bool:
        """Whether the axis may have this length."""
        least = min(self.length // self.inner, self.tiles)
        same_rest = length % self.inner == self.length % self.inner
        return same_rest and length <= self.length and length // self.inner >= least


@dataclass(frozen=True, slots=True)
class _Limits:
    """What each axis must keep, and axes that are one loop together, which keeps half its rest."""

    axes: dict[_Axis, _Limit]
    fused: list[tuple[tuple[_Axis, ...], _Limit]]

    def allow(self, lengths: Mapping[_Axis, int]) -> bool:
        """Whether axes may have these lengths."""
        for axes, limit in self.fused:
            if not all(axis in lengths for axis in axes):
                continue
            whole, some = divmod(prod(lengths[axis] for axis in axes), limit.inner)
            tiles, rest = divmod(limit.length, limit.inner)
            if whole < min(tiles, limit.tiles) or bool(some) != bool(rest) or 2 * some < rest:
                return False
        return all(self.axes[axis].allows(length) for axis, length in lengths.items())


def scaled(
    task: Task, steps: Iterable[Step], *, least: bool = False
) -> tuple[Task, tuple[Step, ...]] | None:
    """A smaller task of the same workload with the same steps; None if nothing can shrink.

    Sizes become as small as their axes allow; with `least`, whatever axes are fused. Strides,
    kernel sizes and the like stay, because no split axis depends on them. The extents that splits
    record become those of the smaller loops.
    """
    steps = tuple(steps)
    args = task.to_json()["workload"].get("args")
    if args is None:
        return None
    limits = _limits(task.dag, steps)
    if least:
        limits = replace(limits, fused=[])
    small = dict(args)
    for name, value in args.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 2:
            continue
        small[name] = _smallest(task, small, name, limits)
    if small == args:
        return None
    smaller = _with(task, small)
    return smaller, _with_extents(smaller.dag, steps)


def _with(task: Task, args: Mapping[str, Any]) -> Task:
    workload = task.workload.to_json()
    smaller = Task.from_json_workload({**workload, "args": dict(args)}, task.target)
    return replace(smaller, lowering=task.lowering)


def _lengths(dag: ComputeDAG) -> dict[_Axis, int]:
    """The length of every loop of the computation as it is defined."""
    return {
        (stage.name, place): it.extent
        for stage in dag.init_state.stages
        if not stage.is_placeholder
        for place, it in enumerate(stage.iters)
        if it.extent is not None
    }


def _limits(dag: ComputeDAG, steps: Iterable[Step]) -> _Limits:
    """What each axis must keep so that the steps find their tiles."""
    state = dag.init_state
    limits, names = {}, {}
    together: list[tuple[tuple[_Axis, ...], _Limit]] = []
    for stage in state.stages:
        for place, it in enumerate(stage.iters):
            if stage.is_placeholder or it.extent is None:
                continue
            axis = stage.name, place
            names[stage.name, it.name] = axis
            reduction = it.kind is IterKind.REDUCTION
            stays = reduction and it.extent <= _WINDOW
            tiles = REDUCTION_TILES if reduction else SPATIAL_TILES
            limits[axis] = _Limit(it.extent, it.extent if stays else 1, tiles)
    for step in steps:
        if isinstance(step, SplitStep):
            stage, inner = state.stages[step.stage_id], prod(n or 1 for n in step.lengths)
            cut = stage.iters[step.iter_id]
            own = stage.name.removesuffix(".local")
            parts = [names.get((own, it.name.removesuffix("_c"))) for it in _parts(cut)]
            axes = tuple(axis for axis in parts if axis is not None)
            if len(parts) == len(axes) == 1:
                limits[axes[0]] = replace(limits[axes[0]], inner=inner)
            elif len(parts) == len(axes):
                together.append((axes, _joined([limits[axis] for axis in axes], inner)))
        elif isinstance(step, PragmaStep) and step.pipeline_stages:
            stage = state.stages[step.stage_id]
            name = stage.iters[step.iter_id].name.partition(".")[0].removesuffix("_c")
            found = names.get((stage.name.removesuffix(".local"), name))
            if found is not None:  # a tile per stage, and one that reuses memory
                tiles = max(REDUCTION_TILES, step.pipeline_stages + 1)
                limits[found] = replace(limits[found], tiles=tiles)
        elif isinstance(step, MatrixTilesStep):
            for cuts, inner in _blocks(state, step):
                axes = tuple(names[cut] for cut in cuts)
                if len(axes) == 1:
                    limit = limits[axes[0]]  # each slice of the reduction has its tiles
                    limits[axes[0]] = replace(limit, inner=inner * limit.inner)
                else:
                    together.append((axes, _joined([limits[axis] for axis in axes], inner)))
        state = state.apply(step)
    return _Limits(limits, together)


def _joined(limits: Sequence[_Limit], inner: int) -> _Limit:
    """What several axes must keep that are cut by `inner` as one loop."""
    length = prod(limit.length for limit in limits)
    return _Limit(length, inner, max(limit.tiles for limit in limits))


def _parts(it: Iterator) -> list[Iterator]:
    """The loops of which `it` was fused, in order; itself if it was not."""
    return [part for each in it.orig_iters for part in _parts(each)] or [it]


def _blocks(state: State, step: MatrixTilesStep) -> Iterable[tuple[list[tuple[str, str]], int]]:
    """The stages and loops that a product on tensor cores tiles, with the tile sizes.

    Names are those of the computation before its reduction was factored. A part of a factored loop
    counts alone, not together with others: its length stays.
    """
    stage = state.stages[step.stage_id]
    view = matrix_view(stage.op, instruction(step.instruction))
    if isinstance(view, str):
        return
    name = stage.name.removesuffix(".rf")
    for own, inner in zip((view.m, view.n, view.k), step.sizes, strict=False):
        names = [iv.var.name for iv in own]
        if len(names) > 1:
            names = [each for each in names if "." not in each]
        if names:
            yield [(name, each.partition(".")[0]) for each in names], inner


def _smallest(task: Task, args: Mapping[str, Any], name: str, limits: _Limits) -> int:
    """The least value of the argument `name` for which every axis keeps what it must.

    The old value if no smaller one reduces the work, or if only a longer axis would allow it.
    """
    value: int = args[name]
    dag = _with(task, args).dag
    now = _lengths(dag)
    expected = _lines(task, args, name)
    if expected.keys() == now.keys() and not any(step for _, step in expected.values()):
        return value  # such as a seed, or a number that elements are compared with
    for candidate in range(1, value):
        if not limits.allow({a: n + step * candidate for a, (n, step) in expected.items()}):
            continue
        try:
            smaller = _with(task, {**args, name: candidate}).dag
        except AutoschedError:  # inconsistent sizes
            continue
        found = _lengths(smaller)
        if found.keys() != now.keys() or found == now:
            continue
        fits = all(n <= now[axis] for axis, n in found.items()) and limits.allow(found)
        if fits and smaller.flop_count < dag.flop_count:
            return candidate
    return value


def _lines(task: Task, args: Mapping[str, Any], name: str) -> dict[_Axis, tuple[int, int]]:
    """The axes whose length is linear in the argument `name`, as (length at 0, increment).

    The last three values decide, which saves the construction of most smaller computations.
    """
    value: int = args[name]
    try:
        last = [
            _lengths(_with(task, {**args, name: value - less}).dag)
            for less in range(3 if value > 2 else 0)
        ]
    except AutoschedError:
        return {}
    if not last or any(lengths.keys() != last[0].keys() for lengths in last):
        return {}
    three = {axis: [lengths[axis] for lengths in last] for axis in last[0]}
    return {
        axis: (a - (a - b) * value, a - b) for axis, (a, b, c) in three.items() if a - b == b - c
    }


def _with_extents(dag: ComputeDAG, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    state = dag.init_state
    result: list[Step] = []
    for step in steps:
        if isinstance(step, SplitStep):
            extent = state.stages[step.stage_id].iters[step.iter_id].extent
            step = replace(step, extent=extent)
        state = state.apply(step)
        result.append(step)
    return tuple(result)
