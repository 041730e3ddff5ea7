"""Iterators: the loops of a stage in a loop state."""

from __future__ import annotations

from enum import IntEnum

from autosched.tir.expr import Expr
from autosched.tir.printer import to_text


class Annotation(IntEnum):
    """How a loop runs; the integers are those of the record format."""

    NONE = 0
    UNROLL = 1
    VECTORIZE = 2
    PARALLEL = 3
    VTHREAD = 4
    BLOCK_X = 5
    THREAD_X = 6
    BLOCK_Y = 7
    THREAD_Y = 8
    BLOCK_Z = 9
    THREAD_Z = 10
    TENSORIZE = 11


ANNOTATION_TEXT = (
    "for",
    "unroll",
    "vectorize",
    "parallel",
    "vthread",
    "blockIdx.x",
    "threadIdx.x",
    "blockIdx.y",
    "threadIdx.y",
    "blockIdx.z",
    "threadIdx.z",
    "tensorize",
)
THREAD_ANNOTATIONS = {text: Annotation(k) for k, text in enumerate(ANNOTATION_TEXT) if 4 <= k <= 10}


class IterKind(IntEnum):
    """The axes that a loop iterates over; MIXED is fused from both kinds, SPECIAL is of no axis."""

    SPATIAL = 0
    REDUCTION = 1
    MIXED = 2
    SPECIAL = 3


class Iterator:
    """One loop of a stage; immutable, compared by identity.

    The range is [min, min + extent); an undefined range has `extent` None. `min` is an expression
    where bounds were inferred for a stage computed inside others. An inferred extent that is not
    constant is in `size`, and `extent` is None. `orig_iters` are the iterators that a fused one was
    made from.
    """

    __slots__ = ("annotation", "extent", "kind", "min", "name", "orig_iters", "size")

    def __init__(
        self,
        name: str,
        extent: int | None,
        kind: IterKind,
        annotation: Annotation = Annotation.NONE,
        orig_iters: tuple[Iterator, ...] = (),
        min: int | Expr = 0,
        size: Expr | None = None,
    ) -> None:
        self.name = name
        self.extent = extent
        self.kind = kind
        self.annotation = annotation
        self.orig_iters = orig_iters
        self.min = min
        self.size = size

    def annotated(self, annotation: Annotation) -> Iterator:
        """A copy with `annotation`."""
        return Iterator(
            self.name, self.extent, self.kind, annotation, self.orig_iters, self.min, self.size
        )

    def ranged(self, extent: int | None, min: int | Expr = 0, size: Expr | None = None) -> Iterator:
        """A copy with another range; the same object when nothing differs."""
        known = extent is not None or size is not None
        if extent == self.extent and size is self.size and (not known or min is self.min):
            return self
        return Iterator(self.name, extent, self.kind, self.annotation, self.orig_iters, min, size)

    @property
    def extent_or_unknown(self) -> int:
        """The extent, or -1 when it is undefined."""
        return -1 if self.extent is None else self.extent

    def __repr__(self) -> str:
        return f"{ANNOTATION_TEXT[self.annotation]} {self.name} {self.range_text()}"

    def range_text(self) -> str:
        """`(min,extent)`, or `(None)` when the range is undefined."""
        if self.extent is None and self.size is None:
            return "(None)"
        extent = self.extent if self.size is None else _text(self.size)
        return f"({_text(self.min)},{extent})"


def _text(number: int | Expr) -> str:
    return str(number) if isinstance(number, int) else to_text(number).replace(".", "_")


def clean_name(name: str) -> str:
    """An axis name as Ansor shows it: `k.inner.v` becomes `k_i_v`."""
    name = name.replace(".", "_").replace("@", "_")
    return name.replace("outer", "o").replace("inner", "i")
