"""te.scan: recurrences along the first dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autosched.te.operations.operation import ComputeOp, PlaceholderOp, ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import IterKind, IterVar, Range, Var
from autosched.tir.given import all_of


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] = (),
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """The states of a recurrence over time, the first dimension.

    `init` gives the first steps, `update` (over all steps, with the state's shape) computes step
    t from `state_placeholder` at earlier steps and from `inputs`. One state gives one tensor,
    several give a list. ValueError when shapes or counts do not fit, TypeError for other objects.

        >>> from autosched import te
        >>> X, state = (te.placeholder((16, 4), name=name) for name in ("X", "state"))
        >>> init = te.compute((1, 4), lambda _, i: X[0, i])
        >>> update = te.compute((16, 4), lambda t, i: state[t - 1, i] + X[t, i])
        >>> te.scan(init, update, state, [X], name="total")
        Tensor(total: float32[16, 4])
    """
    inits, updates, states, reads = (
        all_of(Tensor, f"te.scan {name}: {what}", given)
        for what, given in (
            ("init", init),
            ("update", update),
            ("state_placeholder", state_placeholder),
            ("inputs", inputs),
        )
    )
    if not inits or len({len(inits), len(updates), len(states)}) != 1:
        raise ValueError(
            f"te.scan {name}: {len(inits)} init, {len(updates)} update and {len(states)} state "
            "tensors; give one of each for every state"
        )
    first = inits[0].shape[0]
    steps = updates[0].shape[0] - first
    axis = IterVar(Range.of(steps, first), Var(f"{name}.idx", steps.dtype), IterKind.ORDERED)
    spatial = []
    for k, (start, step, state) in enumerate(zip(inits, updates, states, strict=True)):
        if step.shape != state.shape or start.shape[1:] != state.shape[1:]:
            raise ValueError(
                f"te.scan {name}: state {state!r} needs an update of the same shape and an init "
                f"that differs in the first dimension only, found {step!r} and {start!r}"
            )
        if start.shape[0] is not first or state.shape[0] is not states[0].shape[0]:
            raise ValueError(f"te.scan {name}: the states have different numbers of steps")
        if not isinstance(step.op, ComputeOp):
            raise ValueError(f"te.scan {name}: update {step.name} must be a te.compute")
        if not isinstance(state.op, PlaceholderOp):
            raise ValueError(f"te.scan {name}: state {state.name} must be a te.placeholder")
        if not start.dtype is step.dtype is state.dtype:
            raise ValueError(f"te.scan {name}: init, update and state {k} differ in type")
        for dim, extent in enumerate(step.shape[1:], start=1):
            var = Var(f"{name}.out{k}.i{dim}", extent.dtype)
            spatial.append(IterVar(Range.of(extent), var, IterKind.OPAQUE))
    op = ScanOp(name, axis, inits, updates, states, reads, spatial, tag, attrs)
    return op.output(0) if len(inits) == 1 else list(op.outputs)
