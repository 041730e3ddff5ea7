"""Packing of a B whose rows run along k: transposes a 16 by 16 tile of 32-bit words.

P[g, l] = B[l // K, g * K + l % K]                 K consecutive k of one column make a word
P[g, t, l] = B[t * 16 + l // K, g * K + l % K]     several tiles side by side

The transposition takes four rounds. Each interleaves row i with row i + 8 of the sixteen vectors,
which exchanges one bit of the row number with one of the column number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.te.operations.compute import compute, placeholder, var
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Shuffle, Var
from autosched.tir.op import cast
from autosched.tir.stmt import BufferStore, Stmt, let, seq

WORDS = 16
_BITS = DType("uint32").with_lanes(WORDS)


def declare_turn(name: str, dtype: DType) -> TensorIntrin:
    """The intrinsic for P[g, l] = B[l // K, g * K + l % K] on a tile of 16 by 16 words."""
    group = 4 // dtype.bytes
    b = placeholder((WORDS, WORDS * group), dtype.name, "b")
    packed = compute((WORDS, WORDS * group), lambda g, i: b[i // group, g * group + i % group], "p")

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        at = Ramp(IntImm(0), IntImm(1), WORDS * group)
        rows = [_words(BufferLoad(ins[0], (IntImm(k), at))) for k in range(WORDS)]

        def store(turned: Sequence[Expr]) -> Stmt:
            kind = dtype.with_lanes(WORDS * group)
            return seq(
                *(
                    BufferStore(outs[0], Call(kind, "reinterpret", (row,)), (IntImm(g), at))
                    for g, row in enumerate(turned)
                )
            )

        return turned(rows, store)

    return decl_tensor_intrin(packed.op, statements, name, binds={b: rows_of(b.shape, dtype)})


TILES = (1, 2, 4, 8)
"""The numbers of tiles side by side that one statement can transpose."""


def turn_of(tiles: int) -> str:
    """The name of the statement that transposes `tiles` tiles side by side."""
    return f"turn_b.{tiles}"


def declare_turns(name: str, dtype: DType, wide: DType | None) -> dict[str, TensorIntrin]:
    """The transposing statements of the instruction `name`, one for each of TILES, by `turn_of`.

    Unless `wide` is None, the elements are converted to it.
    """
    return {turn_of(n): _declare(f"{name}.{turn_of(n)}", dtype, wide or dtype, n) for n in TILES}


def _declare(name: str, dtype: DType, held: DType, tiles: int) -> TensorIntrin:
    """The intrinsic for P[g, t, l] = B[t * 16 + l // K, g * K + l % K] on `tiles` tiles.

    B has the type `dtype`, P the type `held`.
    """
    group = 4 // held.bytes
    b = placeholder((tiles * WORDS, WORDS * group), dtype.name, "b")
    packed = compute(
        (WORDS, tiles, WORDS * group),
        lambda g, t, i: cast(held, b[t * WORDS + i // group, g * group + i % group]),
        "p",
    )

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        at = Ramp(IntImm(0), IntImm(1), WORDS * group)
        kind = held.with_lanes(WORDS * group)

        def tile(number: int) -> Stmt:
            first = number * WORDS
            loads = [BufferLoad(ins[0], (IntImm(first + k), at)) for k in range(WORDS)]
            rows = [_words(cast(kind, load)) for load in loads]

            def store(words: Sequence[Expr]) -> Stmt:
                values = [Call(kind, "reinterpret", (row,)) for row in words]
                t = IntImm(number)
                return seq(
                    *(BufferStore(outs[0], v, (IntImm(g), t, at)) for g, v in enumerate(values))
                )

            return turned(rows, store)

        return seq(*map(tile, range(tiles)))

    return decl_tensor_intrin(packed.op, statements, name, binds={b: rows_of(b.shape, dtype)})


def rows_of(shape: Sequence[Expr], dtype: DType) -> Buffer:
    """A buffer for rows of B of `shape`, with any offset and any distance between rows."""
    return decl_buffer(
        shape,
        dtype,
        "b",
        strides=(var("pitch"), 1),
        elem_offset=var("b_offset"),
        data_alignment=1,
    )


def turned(rows: Sequence[Expr], body: Callable[[Sequence[Expr]], Stmt]) -> Stmt:
    """`body(columns)`, where `columns` are the transposed sixteen `rows` of sixteen words.

    Every intermediate vector is bound to a variable around the body.
    """
    lets: list[tuple[Var, Expr]] = []

    def named(values: Sequence[Expr], prefix: str) -> list[Expr]:
        names = [Var(f"{prefix}{k}", _BITS) for k in range(WORDS)]
        lets.extend(zip(names, values, strict=True))
        return list(names)

    half = WORDS // 2
    first = tuple(IntImm(k // 2 + k % 2 * WORDS) for k in range(WORDS))
    second = tuple(IntImm(half + k // 2 + k % 2 * WORDS) for k in range(WORDS))
    words = named(rows, "row")
    for turn in range(4):
        pairs = [(words[k], words[k + half]) for k in range(half)]
        mixed = [Shuffle(pair, order) for pair in pairs for order in (first, second)]
        words = named(mixed, f"turn{turn}_")
    return let(lets, body(words))


def _words(e: Expr) -> Expr:
    return e if e.dtype is _BITS else Call(_BITS, "reinterpret", (e,))
