"""A stage of a loop state: an operation with its loops, outer to inner."""

from __future__ import annotations

from enum import IntEnum

from autosched.errors import ScheduleError
from autosched.state.iterator import Iterator, IterKind, clean_name
from autosched.te.operations.operation import ComputeOp, Operation, PlaceholderOp
from autosched.tir.expr import IntImm, IterVar


class ComputeAt(IntEnum):
    """Where a stage is computed: on its own, in its readers' bodies, or inside a loop."""

    ROOT = 0
    INLINED = 1
    ITER = 2


class StateStage:
    """One stage; immutable.

    `auto_unroll_max_step` and `storage_offset` are 0 when not set. `note` is printed with the
    stage.
    """

    __slots__ = (
        "auto_unroll_max_step",
        "compute_at",
        "iters",
        "note",
        "op",
        "storage_offset",
    )

    def __init__(
        self,
        op: Operation,
        iters: tuple[Iterator, ...],
        compute_at: ComputeAt = ComputeAt.ROOT,
        auto_unroll_max_step: int = 0,
        storage_offset: int = 0,
        note: str = "",
    ) -> None:
        self.op = op
        self.iters = iters
        self.compute_at = compute_at
        self.auto_unroll_max_step = auto_unroll_max_step
        self.storage_offset = storage_offset
        self.note = note

    @staticmethod
    def of(op: Operation) -> StateStage:
        """The stage of an untransformed operation: an iterator per data axis, then per reduction
        axis.

        Raises ScheduleError for an operation that is neither a placeholder nor a compute.
        """
        if isinstance(op, PlaceholderOp):
            return StateStage(op, ())
        if not isinstance(op, ComputeOp):
            raise ScheduleError(
                f"compute DAG: {op!r} is neither a placeholder nor a compute operation; "
                "automatic scheduling knows only these two"
            )
        spatial = (_axis_iterator(axis, IterKind.SPATIAL) for axis in op.axis)
        reduction = (_axis_iterator(axis, IterKind.REDUCTION) for axis in op.reduce_axis)
        return StateStage(op, (*spatial, *reduction))

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.op.name

    @property
    def is_placeholder(self) -> bool:
        """Whether the stage is an input."""
        return isinstance(self.op, PlaceholderOp)

    @property
    def is_inlined(self) -> bool:
        """Whether the stage is inlined into its readers."""
        return self.compute_at is ComputeAt.INLINED

    def _evolved(
        self,
        op: Operation | None = None,
        iters: tuple[Iterator, ...] | None = None,
        compute_at: ComputeAt | None = None,
        auto_unroll_max_step: int | None = None,
        storage_offset: int | None = None,
        note: str | None = None,
    ) -> StateStage:
        """The stage with some parts replaced; None keeps a part."""
        return StateStage(
            self.op if op is None else op,
            self.iters if iters is None else iters,
            self.compute_at if compute_at is None else compute_at,
            self.auto_unroll_max_step if auto_unroll_max_step is None else auto_unroll_max_step,
            self.storage_offset if storage_offset is None else storage_offset,
            self.note if note is None else note,
        )

    def with_op(self, op: Operation) -> StateStage:
        """The same loops for another operation (after a DAG change)."""
        return self._evolved(op=op)

    def with_iters(self, iters: tuple[Iterator, ...]) -> StateStage:
        """The stage with other loops."""
        return self._evolved(iters=iters)

    def placed(self, compute_at: ComputeAt, *, keep_ranges: bool) -> StateStage:
        """The stage computed elsewhere; its ranges become undefined unless kept."""
        iters = None if keep_ranges else tuple([it.ranged(None) for it in self.iters])
        return self._evolved(iters=iters, compute_at=compute_at)

    def with_attrs(
        self, *, auto_unroll_max_step: int | None = None, storage_offset: int | None = None
    ) -> StateStage:
        """The stage with other attributes; None keeps an attribute."""
        return self._evolved(
            auto_unroll_max_step=auto_unroll_max_step, storage_offset=storage_offset
        )

    def noted(self, note: str) -> StateStage:
        """The stage with a note, which distinguishes it from a stage with the same loops."""
        return self._evolved(note=note)

    def __repr__(self) -> str:
        return f"StateStage({self.name}, {self.compute_at.name}, {list(self.iters)!r})"


def _axis_iterator(axis: IterVar, kind: IterKind) -> Iterator:
    name = clean_name(axis.var.name)
    if axis.dom is None:
        return Iterator(name, None, kind)
    low, extent = axis.dom.min, axis.dom.extent
    if isinstance(low, IntImm) and isinstance(extent, IntImm):
        return Iterator(name, extent.value, kind, min=low.value)
    return Iterator(name, None, kind)
