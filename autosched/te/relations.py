"""Records that schedule primitives make: relations between loops, attributes, attach types.

Only `te/schedule/` (with `normalize`) changes them; `te/bounds/` and `te/lowering/` read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from autosched.tir.expr import Expr, IterVar

if TYPE_CHECKING:
    from autosched.te.operations.tensor import Tensor


@dataclass(slots=True, eq=False)
class Split:
    """The loop `parent` split in two: parent = outer * extent(inner) + inner.

    Exactly one of `factor` (the extent of inner) and `nparts` (the extent of outer) is given.
    `disable_predication` omits the guard for a factor that does not divide the extent.
    """

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None
    disable_predication: bool = False


@dataclass(slots=True, eq=False)
class Fuse:
    """Two loops fused into one: fused = outer * extent(inner) + inner."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


@dataclass(slots=True, eq=False)
class Rebase:
    """The loop `parent` replaced by one that starts at 0: parent = rebased + min(parent).

    Only `normalize` makes it.
    """

    parent: IterVar
    rebased: IterVar


@dataclass(slots=True, eq=False)
class Singleton:
    """A loop `iter` of extent 1 that derives from no axis."""

    iter: IterVar


Relation = Split | Fuse | Rebase | Singleton


class AttachType(Enum):
    """Where a stage is computed: at root, inlined, inside a loop, or in the step of a scan."""

    GROUP_ROOT = "root"
    INLINE = "inline"
    INLINED = "inlined"  # normalize has put the stage into its consumers
    SCOPE = "scope"
    SCAN_UPDATE = "scan_update"


@dataclass(slots=True, eq=False)
class IterVarAttr:
    """The annotations of one loop (iteration variable) of a stage.

    `iter_kind` is an IterKind that overrides the variable's own (vectorized, unrolled,
    parallelized, tensorized), or empty. `bind_thread` is the thread axis that runs the loop.
    `pragmas` are (key, value), with value None when the user gave none. `dim_align_factor` and
    `dim_align_offset` are the arguments of storage_align, 0 without it. `prefetch` are (tensor,
    offset). `tensor_intrin` is the intrinsic of a tensorized loop.
    """

    iter_kind: str = ""
    bind_thread: IterVar | None = None
    pragmas: list[tuple[str, Expr | None]] = field(default_factory=list)
    dim_align_factor: int = 0
    dim_align_offset: int = 0
    prefetch: list[tuple[Tensor, Expr]] = field(default_factory=list)
    tensor_intrin: object | None = None

    def copy(self) -> IterVarAttr:
        """A copy with lists of its own, to which the caller may append."""
        return IterVarAttr(
            self.iter_kind,
            self.bind_thread,
            list(self.pragmas),
            self.dim_align_factor,
            self.dim_align_offset,
            list(self.prefetch),
            self.tensor_intrin,
        )
