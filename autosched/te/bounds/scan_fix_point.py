"""Fixed points of a scan: axes along which an element depends on its own index in earlier steps.

    step = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])     i is a fixed point
    step = te.compute((m, n), lambda t, i: state[t - 1, n - 1 - i])       i is not a fixed point

A consumer that reads a part of the scan along a fixed point needs only that part of every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autosched.arguments import found
from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.te.operations.graph import sub_graph
from autosched.te.operations.operation import ComputeOp, Operation, ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import IterVar, Var


@dataclass(frozen=True, slots=True)
class _Place:
    """Dimension `dim` of state number `state` of a scan.

    `_ELSEWHERE` stands for an index that is not the axis of such a dimension.
    """

    state: int
    dim: int


_ELSEWHERE = _Place(-1, -1)
Labels = dict[Tensor, list[set[_Place]]]
"""For each dimension of a tensor: the dimensions of the updates whose axis indexes its reads."""


def scan_fix_points(op: ScanOp) -> dict[IterVar, frozenset[IterVar]]:
    """The axes of `op.spatial_axis` that are fixed points, each with the group that it belongs to.

    An axis is a fixed point when element i along it reads the states, through all operations of a
    step, only at index i of the same axis or of an axis of another state. Axes that read each other
    so form a group: a consumer that needs a range of one needs the same range of all. The axes of
    a group have the same extent. Axes that are not in the result are needed whole.
    """
    if not isinstance(op, ScanOp):
        raise ScheduleError(f"scan_fix_points: expected the operation of a te.scan, {found(op)}")
    places = list(_places(op))
    axes = dict(zip(places, op.spatial_axis, strict=True))
    groups = {place: {place} for place in places}
    moving: set[_Place] = set()
    labels = _labels(op)
    for place in places:
        for origin in labels.get(op.state[place.state], [set()] * (place.dim + 1))[place.dim]:
            if origin not in axes:
                moving.add(place)
                continue
            merged = groups[place] | groups[origin]
            groups.update(dict.fromkeys(merged, merged))
    return {
        axes[place]: frozenset(axes[p] for p in group)
        for place, group in groups.items()
        if group.isdisjoint(moving) and _alike([(p, axes[p]) for p in group])
    }


def _places(op: ScanOp) -> Iterable[_Place]:
    """The dimension that each spatial axis is, in the order of the axes; dimension 0 is time."""
    for k, state in enumerate(op.state):
        for dim in range(1, state.ndim):
            yield _Place(k, dim)


def _alike(group: list[tuple[_Place, IterVar]]) -> bool:
    """True when the axes of `group` belong to different states and have the same extent."""
    if len({place.state for place, _ in group}) < len(group):
        return False
    domains = [iv.dom for _, iv in group if iv.dom is not None]
    analyzer = Analyzer()
    return all(analyzer.can_prove_equal(r.extent, domains[0].extent) for r in domains[1:])


def _labels(op: ScanOp) -> Labels:
    """The labels of all tensors of a step and of the states, passed from readers to producers."""
    labels: Labels = {}

    def label(tensor: Tensor, dim: int, origins: set[_Place]) -> None:
        labels.setdefault(tensor, [set() for _ in tensor.shape])[dim] |= origins

    for k, update in enumerate(op.update):
        for dim in range(update.ndim):
            label(update, dim, {_Place(k, dim)})
    for reader in reversed(sub_graph(op.update, op.state, False)):
        if not isinstance(reader, ComputeOp):
            for tensor in reader.inputs:
                for dim in range(tensor.ndim):
                    label(tensor, dim, {_ELSEWHERE})
            continue
        own = _own_labels(reader, labels)
        for load in reader.distinct_loads:
            for dim, index in enumerate(load.indices):
                found = own.get(index) if isinstance(index, Var) else None
                label(load.producer, dim, {_ELSEWHERE} if found is None else found)
    return labels


def _own_labels(op: Operation, labels: Labels) -> dict[Var, set[_Place]]:
    """The labels of each data axis of `op`: those of its dimension in all outputs of `op`."""
    assert isinstance(op, ComputeOp)
    own: dict[Var, set[_Place]] = {iv.var: set() for iv in op.axis}
    for tensor in op.outputs:
        for iv, origins in zip(op.axis, labels.get(tensor, ()), strict=False):
            own[iv.var] |= origins
    return own
