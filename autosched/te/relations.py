"""What the primitives record of loops: how they came from others, where a stage is attached.

Only `te/schedule/` and `normalize` change these; `te/bounds/` and `te/lowering/` read them.
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
    """parent = outer * extent(inner) + inner; exactly one of factor and nparts is given."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None
    disable_predication: bool = False


@dataclass(slots=True, eq=False)
class Fuse:
    """fused = outer * extent(inner) + inner."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


@dataclass(slots=True, eq=False)
class Rebase:
    """parent = rebased + min(parent); made by `normalize` only."""

    parent: IterVar
    rebased: IterVar


@dataclass(slots=True, eq=False)
class Singleton:
    """A loop of extent 1 that no axis stands behind."""

    iter: IterVar


Relation = Split | Fuse | Rebase | Singleton


class AttachType(Enum):
    """Where a stage is computed."""

    GROUP_ROOT = "root"
    INLINE = "inline"
    INLINED = "inlined"  # the inlining has been carried out by normalize
    SCOPE = "scope"
    SCAN_UPDATE = "scan_update"


@dataclass(slots=True, eq=False)
class IterVarAttr:
    """What is known of one iteration variable beyond its position.

    `iter_kind` is an IterKind that overrides the variable's own (vectorized, unrolled,
    parallelized, tensorized); `pragmas` are (key, value) with value None when undefined;
    `prefetch` are (tensor, offset).
    """

    iter_kind: str = ""
    bind_thread: IterVar | None = None
    pragmas: list[tuple[str, Expr | None]] = field(default_factory=list)
    dim_align_factor: int = 0
    dim_align_offset: int = 0
    prefetch: list[tuple[Tensor, Expr]] = field(default_factory=list)
    tensor_intrin: object | None = None

    def copy(self) -> IterVarAttr:
        """A copy whose lists may be appended to."""
        return IterVarAttr(
            self.iter_kind,
            self.bind_thread,
            list(self.pragmas),
            self.dim_align_factor,
            self.dim_align_offset,
            list(self.prefetch),
            self.tensor_intrin,
        )
