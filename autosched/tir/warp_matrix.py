"""Models matrix products of a warp: which lane holds which element, and the result.

A map is an integer array (32 lanes, values of a lane, 2) with the row and column of each value.
With g = lane // 4 and t = lane % 4 (PTX ISA, "Matrix Fragments for mma"):

| atom | A, value i | B, value i | C, value i |
|---|---|---|---|
| m16n8k16, 16-bit floats | row g, +8 for i in 2, 3, 6, 7; column 2t + i % 2, +8 for i >= 4 | row 2t + i % 2, +8 for i >= 2; column g | row g, +8 for i >= 2; column 2t + i % 2 |
| m16n8k8, tf32 | row g, +8 for odd i; column t, +4 for i >= 2 | row t + 4i; column g | as above |
| m16n8k32, int8 | row g, +8 for odd i // 4; column 4t + i % 4, +16 for i >= 8 | row 4t + i % 4, +16 for i >= 4; column g | as above |
| fragments 16x16x16 | as m16n8k16 | two of m16n8k16, 8 columns apart | two of m16n8k16, 8 columns apart |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.gpu import WARP

Array = np.ndarray[Any, Any]


def _map(count: int, row: Callable[..., Array], column: Callable[..., Array]) -> Array:
    lane, i = np.arange(WARP)[:, None], np.arange(count)
    g, t = lane // 4, lane % 4
    both = np.broadcast_arrays(row(g, t, i), column(g, t, i))
    return np.stack(both, axis=-1)


def _side_by_side(half: Array) -> Array:
    return np.concatenate([half, half + np.array([0, 8])], axis=1)


_A16 = _map(8, lambda g, t, i: g + i // 2 % 2 * 8, lambda g, t, i: t * 2 + i % 2 + i // 4 * 8)
_B16 = _map(4, lambda g, t, i: t * 2 + i % 2 + i // 2 * 8, lambda g, t, i: g)
_C = _map(4, lambda g, t, i: g + i // 2 * 8, lambda g, t, i: t * 2 + i % 2)
_A32 = _map(4, lambda g, t, i: g + i % 2 * 8, lambda g, t, i: t + i // 2 * 4)
_B32 = _map(2, lambda g, t, i: t + i * 4, lambda g, t, i: g)
_A8 = _map(16, lambda g, t, i: g + i // 4 % 2 * 8, lambda g, t, i: t * 4 + i % 4 + i // 8 * 16)
_B8 = _map(8, lambda g, t, i: t * 4 + i % 4 + i // 4 * 16, lambda g, t, i: g)


RESULT = _C
"""The map of the 16 x 8 result, the same for every atom."""


@dataclass(frozen=True, eq=False)
class Atom:
    """A product that a warp computes with one instruction: C (m, n) += A (m, k) B (k, n).

    `left` and `right` are the types of A and B in memory, `result` the type of C; `a`, `b` and `c`
    are their maps. `tf32` says that the operands are rounded to TF32.
    """

    m: int
    n: int
    k: int
    left: DType
    right: DType
    result: DType
    a: Array
    b: Array
    c: Array
    tf32: bool = False

    def multiply(self, a: Array, b: Array, c: Array) -> Array:
        """The new values of C in each lane, from the values that lanes hold: (threads, values).

        Products and sums are computed exactly and rounded once, where a GPU rounds in between;
        integers wrap. Operands of a `tf32` atom are first rounded to TF32, ties away from zero.
        """
        if self.tf32:
            a, b = to_tf32(a), to_tf32(b)
        kind = np.int64 if self.result.is_integral else np.float64
        left = _placed(a.astype(kind), self.a, self.m, self.k)
        right = _placed(b.astype(kind), self.b, self.k, self.n)
        total = left @ right + _placed(c.astype(kind), self.c, self.m, self.n)
        found: Array = total[:, self.c[..., 0], self.c[..., 1]].reshape(c.shape)
        return found.astype(self.result.numpy)


def _placed(values: Array, lanes: Array, rows: int, columns: int) -> Array:
    """The matrices (warps, rows, columns) whose elements are in the lanes, by the map `lanes`."""
    matrices = np.zeros((len(values) // WARP, rows, columns), values.dtype)
    matrices[:, lanes[..., 0], lanes[..., 1]] = values.reshape(-1, *lanes.shape[:2])
    return matrices


def to_tf32(values: Array) -> Array:
    """float32 rounded to 10 bits of mantissa, ties away from zero (cvt.rna.tf32.f32)."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


_FLOAT = DType("float32")
_BYTES = {"int8": "s8", "uint8": "u8"}

ATOMS: dict[tuple[str, str, str], Atom] = {
    **{
        ("m16n8k16", short, short): Atom(16, 8, 16, kind, kind, _FLOAT, _A16, _B16, _C)
        for short, kind in (("fp16", DType("float16")), ("bf16", DType("bfloat16")))
    },
    ("m16n8k8", "tf32", "tf32"): Atom(16, 8, 8, _FLOAT, _FLOAT, _FLOAT, _A32, _B32, _C, tf32=True),
    **{
        ("m16n8k32", a, b): Atom(16, 8, 32, DType(a), DType(b), DType("int32"), _A8, _B8, _C)
        for a in _BYTES
        for b in _BYTES
    },
}
"""The atoms by shape and types of A and B, with the names that `ptx_mma` uses."""

FRAGMENTS: dict[str, Atom] = {
    kind.name: Atom(16, 16, 16, kind, kind, _FLOAT, _A16, _side_by_side(_B16), _side_by_side(_C))
    for kind in (DType("float16"), DType("bfloat16"))
}
"""The product of `tvm_mma_sync`, by the type of the operands."""

FRAGMENT_SHAPE = (16, 16, 16)
FRAGMENT_VALUES = 8
"""The number of values of a fragment that a lane holds, the same for all matrices."""
FRAGMENT_MAPS: dict[str, Array] = {
    "wmma.matrix_a": _A16,
    "wmma.matrix_b": _side_by_side(_B16),
    "wmma.accumulator": _side_by_side(_C),
}
"""The map of a fragment's matrix, by storage scope."""


@dataclass(frozen=True, slots=True)
class Product:
    """The product of a call of ptx_mma, and its name, made of the shape and the operand types."""

    atom: Atom
    name: str


def product_of(args: tuple[Any, ...]) -> Product | str:
    """The product that the arguments of ptx_mma describe, or a text that says what is wrong.

    `ptx_mma(shape, "row", "col", type of A, type of B, type of C, a, at, b, at, c, at, saturate)`
    with offsets in elements.
    """
    if len(args) != 13:
        return f"13 arguments are expected, found {len(args)}"
    shape, rows, columns, a, b, c = (getattr(e, "value", None) for e in args[:6])
    atom = ATOMS.get((str(shape), str(a), str(b)))
    if atom is None:
        known = ", ".join(f"{shape} of {a} and {b}" for shape, a, b in ATOMS)
        return f"the atom {shape} of {a} and {b} is not known, only {known}"
    if (rows, columns) != ("row", "col"):
        return f"the operands must be row and col, found {rows} and {columns}"
    wanted = "int32" if atom.result.is_integral else "fp32"
    if c != wanted:
        return f"{shape} of {a} adds up in {wanted}, found {c}"
    if getattr(args[12], "value", None):
        return "sums that saturate are not known"
    return Product(atom, f"{shape}_{'_'.join(short_names(str(a), str(b)))}")


def short_names(a: str, b: str) -> tuple[str, ...]:
    """The PTX names of the operand types, such as s8 or f16; a single one if both are the same."""
    names = [_BYTES.get(kind, kind.replace("fp", "f")) for kind in (a, b)]
    return tuple(dict.fromkeys(names))
