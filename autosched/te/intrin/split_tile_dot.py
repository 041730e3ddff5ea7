"""Products of float16 by AMX's bfloat16 tiles: each float16 is split exactly into two bfloat16.

    x = high + low      high = the upper 16 bits of float32(x), low = those of x - high

float16 has 11 bits of mantissa, bfloat16 has 8 and a larger exponent range: three bits are left for
`low`, and neither part is denormal. The four products of parts are exact in float32, so that their
sum equals the sum of float16 products in float32, up to the order of rounding. An infinite factor
cannot be split: the result is NaN.

    for step in range(depth / 32):
        A.high, B.high: 4 products      operands are in four tiles; each change of a part
        B.low:          4 products      reloads the tiles of that operand only
        A.low:          4 products
        B.high:         4 products
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.tile_dot import (
    BLOCKS,
    declare_store,
    in_tiles,
    row_strides,
    rows_at,
    tile_address,
    tile_call,
)
from autosched.te.intrin.tile_pipeline import TileLoad, TileProduct, pipelined
from autosched.te.intrin.turn import rows_of, turned
from autosched.te.operations.compute import compute, placeholder, reduce_axis, var
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, Shuffle, Var
from autosched.tir.op import add, call, cast, const, eq, mul, select, sub
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, seq
from autosched.tir.tiles import CONFIGURE, LOAD, ROW_BYTES, ROWS, ZERO

PART = "bfloat16"
HIGH, LOW = 0, 1
_ORDER = ((HIGH, HIGH), (HIGH, LOW), (LOW, LOW), (LOW, HIGH))
"""The order of (part of A, part of B): only one operand changes from one pair to the next."""


def part_of(value: Expr, half: Expr) -> Expr:
    """Part number `half` of the float16 `value`, as bfloat16: 0 is the high part, 1 the low one."""
    bits, rest = _bits_of(value)
    return _narrow(select(eq(half, const(HIGH)), bits, rest))


def parts_of(value: Expr) -> tuple[Expr, Expr]:
    """The high and the low part of a float16, or of a vector of float16, as bfloat16."""
    high, low = map(_narrow, _bits_of(value))
    return high, low


def _bits_of(value: Expr) -> tuple[Expr, Expr]:
    """The high and the low part as float32 bits, of which only the upper 16 are used."""
    lanes = value.dtype.lanes
    wide, word = (DType(name).with_lanes(lanes) for name in ("float32", "uint32"))
    whole = cast(wide, value)
    bits = call("reinterpret", whole, dtype=word)
    mask = const(0xFFFF0000, "uint32")
    cut = call("bitwise_and", bits, Broadcast(mask, lanes) if lanes > 1 else mask)
    return bits, call("reinterpret", sub(whole, call("reinterpret", cut, dtype=wide)), dtype=word)


def _narrow(bits: Expr) -> Expr:
    """The upper 16 bits of each 32-bit word, reinterpreted as bfloat16."""
    lanes = bits.dtype.lanes
    amount = const(16, "uint32")
    upper = call("shift_right", bits, Broadcast(amount, lanes) if lanes > 1 else amount)
    part = cast(DType("uint16").with_lanes(lanes), upper)
    return call("reinterpret", part, dtype=DType(PART).with_lanes(lanes))


def declare_split_tile_dot(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements "compute" and "store" for each of BLOCKS, and the packing of B.

    "pack_b" packs a B whose rows run along n, "turn_b" one whose rows run along k.
    """
    found: dict[str, TensorIntrin] = {}
    for over, suffix in ((False, ""), (True, ".over")):
        found |= {f"compute{suffix}.{m}x{n}": _declare(it, m, n, over) for m, n in BLOCKS}
        found |= {f"store{suffix}.{m}x{n}": declare_store(it, m, n, over) for m, n in BLOCKS}
    return {**found, "pack_b": _declare_pack(it), "turn_b": _declare_turn(it)}


def _declare(it: Instruction, rows: int, columns: int, over: bool) -> TensorIntrin:
    depth, dtype = it.extent("k"), it.c.dtype.name
    steps, length = var("steps"), var("length")
    shape = (2, rows, ROWS, length) if over else (2, rows * ROWS, length)
    a = placeholder(shape, PART, "a")
    b = placeholder((steps, columns, 2, ROWS, 2 * ROWS), PART, "b")
    ko, ki = reduce_axis((0, steps), "ko"), reduce_axis((0, depth), "ki")
    left, right = reduce_axis((0, 2), "left"), reduce_axis((0, 2), "right")
    c = compute(
        (rows, columns, ROWS, ROWS),
        lambda mt, nt, m, n: sum_over(
            a[(left, *rows_at(mt, m, over), ko * depth + ki)].astype(dtype)
            * b[ko, nt, right, ki // 2, n * 2 + ki % 2].astype(dtype),
            axis=[ko, left, right, ki],
        ),
        "c",
    )
    far, (strides, apart) = var("far"), row_strides(over)
    pitch = strides[-2]
    matrix = decl_buffer(
        a.shape, a.dtype, "a", strides=(far, *strides), elem_offset=var("a_at"), data_alignment=1
    )
    sums = [(m, n, m * columns + n) for m in range(rows) for n in range(columns)]
    of_a, of_b = rows * columns, rows * columns + rows
    block = ROWS * ROW_BYTES // 2

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        source, packed = ins
        row_bytes = mul(cast("int64", pitch), const(2, "int64"))
        reach = add(mul(pitch, ROWS - 1), depth)

        def row(m: int, part: int) -> TileLoad:
            def load(step: Expr) -> Stmt:
                at = add(mul(far, part), add(mul(apart, m), mul(step, depth)))
                return tile_call(LOAD, of_a + m, tile_address(source, at, reach), row_bytes)

            return TileLoad(of_a + m, load)

        def column(n: int, part: int) -> TileLoad:
            def load(step: Expr) -> Stmt:
                at = add(mul(step, 2 * columns * block), (2 * n + part) * block)
                place = tile_address(packed, at, IntImm(block))
                return tile_call(LOAD, of_b + n, place, const(ROW_BYTES, "int64"))

            return TileLoad(of_b + n, load)

        body: list[TileLoad | TileProduct] = []
        held = (-1, -1)
        for parts in _ORDER:
            if parts[0] != held[0]:
                body += [row(m, parts[0]) for m in range(rows)]
            if parts[1] != held[1]:
                body += [column(n, parts[1]) for n in range(columns)]
            held = parts
            body += [
                TileProduct(
                    (of_a + m, of_b + n), tile_call(it.calls[0], number, of_a + m, of_b + n)
                )
                for m, n, number in sums
            ]
        loop = pipelined(body, steps)
        clear = seq(tile_call(CONFIGURE), *(tile_call(ZERO, number) for _, _, number in sums))
        return seq(clear, loop), clear, loop

    binds = {a: matrix, c: in_tiles(c)}
    return decl_tensor_intrin(c.op, statements, f"{it.name}.{rows}x{columns}", binds=binds)


def _declare_pack(it: Instruction) -> TensorIntrin:
    """The intrinsic for P[h, g, l] = part h of B[2 * g + l % 2, l // 2]: one tile for each part."""
    b = placeholder((2 * ROWS, ROWS), it.b.dtype.name, "b")
    packed = compute((2, ROWS, 2 * ROWS), lambda h, g, i: part_of(b[g * 2 + i % 2, i // 2], h), "p")

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        g = Var("g")
        at, both = (Ramp(IntImm(0), IntImm(1), n) for n in (ROWS, 2 * ROWS))
        pair = [parts_of(BufferLoad(ins[0], (add(mul(g, 2), k), at))) for k in range(2)]
        order = tuple(IntImm(row * ROWS + lane) for lane in range(ROWS) for row in range(2))
        bits = DType("uint16").with_lanes(ROWS)
        stores = []
        for half in (HIGH, LOW):
            words = tuple(Call(bits, "reinterpret", (one[half],)) for one in pair)
            value = Call(DType(PART).with_lanes(2 * ROWS), "reinterpret", (Shuffle(words, order),))
            stores.append(BufferStore(outs[0], value, (IntImm(half), g, both)))
        return For(g, IntImm(0), IntImm(ROWS), ForKind.SERIAL, seq(*stores))

    return decl_tensor_intrin(
        packed.op, statements, f"{it.name}.pack_b", binds={b: rows_of(b.shape, b.dtype)}
    )


def _declare_turn(it: Instruction) -> TensorIntrin:
    """The intrinsic for P[h, g, l] = part h of B[l // 2, 2 * g + l % 2]: B is transposed."""
    b = placeholder((ROWS, 2 * ROWS), it.b.dtype.name, "b")
    packed = compute((2, ROWS, 2 * ROWS), lambda h, g, i: part_of(b[i // 2, g * 2 + i % 2], h), "p")
    at, kind = Ramp(IntImm(0), IntImm(1), 2 * ROWS), DType(PART).with_lanes(2 * ROWS)
    sides = [Ramp(IntImm(side * ROWS), IntImm(1), ROWS) for side in range(2)]

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        rows = [
            [parts_of(BufferLoad(ins[0], (IntImm(n), side))) for side in sides] for n in range(ROWS)
        ]

        def store(half: int) -> Callable[[Sequence[Expr]], Stmt]:
            return lambda columns: seq(
                *(
                    BufferStore(
                        outs[0],
                        Call(kind, "reinterpret", (row,)),
                        (IntImm(half), IntImm(g), at),
                    )
                    for g, row in enumerate(columns)
                )
            )

        return seq(
            *(
                turned([_joined([side[half] for side in row]) for row in rows], store(half))
                for half in (HIGH, LOW)
            )
        )

    return decl_tensor_intrin(
        packed.op, statements, f"{it.name}.turn_b", binds={b: rows_of(b.shape, b.dtype)}
    )


def _joined(values: Sequence[Expr]) -> Expr:
    """Concatenate two vectors of 16-bit elements and reinterpret the result as 32-bit words."""
    lanes = values[0].dtype.lanes
    bits = tuple(Call(DType("uint16").with_lanes(lanes), "reinterpret", (v,)) for v in values)
    order = tuple(IntImm(k) for k in range(len(bits) * lanes))
    return Call(DType("uint32").with_lanes(lanes), "reinterpret", (Shuffle(bits, order),))
