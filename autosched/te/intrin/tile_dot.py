"""Products of AMX tiles: `rows` by `columns` accumulator tiles at a time, over a whole reduction.

    C[mt, nt, 0:16, 0:16] += A[mt * 16 + 0:16, :] * B[:, nt]

    compute:  tilezero(0); ...                       sums are in tiles 0 to rows * columns - 1
              for step in range(depth / 64):
                  tileloadd(4, A); tileloadd(6, B)   operands are in the tiles after the sums,
                  tdpbusd(0, 4, 6); ...              loaded one step ahead (tile_pipeline.py)
    store:    tilestored(0, D); ...                  D[m, n] = C[m / 16, n / 16, m % 16, n % 16]

The sums stay in tile registers until they are stored, across all reduction loops around the
product: nothing else uses tiles in between, and no memory is allocated for C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.interleave import declare_interleave
from autosched.te.intrin.tile_pipeline import TileLoad, TileProduct, pipelined
from autosched.te.intrin.turn import declare_turn
from autosched.te.operations.compute import compute, placeholder, reduce_axis, var
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Call,
    Expr,
    IntImm,
    StringImm,
)
from autosched.tir.op import add, cast, const, mul
from autosched.tir.stmt import Evaluate, Stmt, seq
from autosched.tir.tiles import CONFIGURE, LOAD, RELEASE, ROW_BYTES, ROWS, SCOPE, STORE, TILES, ZERO

BLOCKS = ((2, 2), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1))
"""The blocks of accumulator tiles, (rows, columns), that fit AMX's eight tiles.

Beside its accumulators a block needs `rows` tiles of A and `columns` tiles of B."""

_READ, _WRITE = 1, 2
"""The access masks of tvm_access_ptr."""


def declare_tile_dot(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements "compute" and "store" for each of BLOCKS, and the packing of B.

    "pack_b" packs a B whose rows run along n, "turn_b" one whose rows run along k.
    """
    k = 4 // it.a.dtype.bytes
    parts: dict[str, TensorIntrin] = {}
    for over, suffix in ((False, ""), (True, ".over")):
        parts |= {f"compute{suffix}.{m}x{n}": _declare(it, m, n, over) for m, n in BLOCKS}
        parts |= {f"store{suffix}.{m}x{n}": declare_store(it, m, n, over) for m, n in BLOCKS}
    pack = declare_interleave(f"{it.name}.pack_b", it.b.dtype, k, ROWS)
    return {**parts, "pack_b": pack, "turn_b": declare_turn(f"{it.name}.turn_b", it.b.dtype)}


def _declare(it: Instruction, rows: int, columns: int, over: bool) -> TensorIntrin:
    group = 4 // it.a.dtype.bytes
    depth, size, dtype = it.extent("k"), it.a.dtype.bytes, it.c.dtype.name
    steps, length = var("steps"), var("length")
    shape = (rows, ROWS, length) if over else (rows * ROWS, length)
    a = placeholder(shape, it.a.dtype.name, "a")
    b = placeholder((steps, columns, ROWS, ROWS * group), it.b.dtype.name, "b")
    ko, ki = reduce_axis((0, steps), "ko"), reduce_axis((0, depth), "ki")
    c = compute(
        (rows, columns, ROWS, ROWS),
        lambda mt, nt, m, n: sum_over(
            a[(*rows_at(mt, m, over), ko * depth + ki)].astype(dtype)
            * b[ko, nt, ki // group, n * group + ki % group].astype(dtype),
            axis=[ko, ki],
        ),
        "c",
    )
    strides, apart = row_strides(over)
    pitch = strides[-2]
    left = decl_buffer(
        a.shape, a.dtype, "a", strides=strides, elem_offset=var("a_at"), data_alignment=1
    )
    sums = [(m, n, m * columns + n) for m in range(rows) for n in range(columns)]
    of_a, of_b = rows * columns, rows * columns + rows
    assert of_b + columns <= TILES, "BLOCKS fit"

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        matrix, packed = ins
        row_bytes = mul(cast("int64", pitch), const(size, "int64"))
        reach = add(mul(pitch, ROWS - 1), depth)
        block = ROWS * ROW_BYTES // it.b.dtype.bytes

        def row(m: int) -> TileLoad:
            def load(step: Expr) -> Stmt:
                at = add(mul(apart, m), mul(step, depth))
                return tile_call(LOAD, of_a + m, tile_address(matrix, at, reach), row_bytes)

            return TileLoad(of_a + m, load)

        def column(n: int) -> TileLoad:
            def load(step: Expr) -> Stmt:
                at = tile_address(packed, add(mul(step, columns * block), n * block), IntImm(block))
                return tile_call(LOAD, of_b + n, at, const(ROW_BYTES, "int64"))

            return TileLoad(of_b + n, load)

        products = [
            TileProduct((of_a + m, of_b + n), tile_call(it.calls[0], number, of_a + m, of_b + n))
            for m, n, number in sums
        ]
        loop = pipelined([*map(row, range(rows)), *map(column, range(columns)), *products], steps)
        clear = seq(tile_call(CONFIGURE), *(tile_call(ZERO, number) for _, _, number in sums))
        return seq(clear, loop), clear, loop

    binds = {a: left, c: in_tiles(c)}
    return decl_tensor_intrin(c.op, statements, f"{it.name}.{rows}x{columns}", binds=binds)


def in_tiles(c: Tensor) -> Buffer:
    """The buffer of sums that stay in tiles."""
    return decl_buffer(c.shape, c.dtype, c.name, SCOPE, elem_offset=var("c_at"), data_alignment=1)


def rows_at(tile: Expr, row: Expr, over: bool) -> tuple[Expr, ...]:
    """The indices of row `row` of tile `tile`: one axis for both, or with `over` one for each."""
    return (tile, row) if over else (add(mul(tile, ROWS), row),)


def row_strides(over: bool) -> tuple[tuple[Expr | int, ...], Expr]:
    """The strides of a buffer indexed by `rows_at` and a column, and the distance of tiles.

    Both are in elements; the pitch of rows, and with `over` the distance, are fresh variables.
    """
    pitch = var("pitch")
    if not over:
        return (pitch, 1), mul(pitch, ROWS)
    apart = var("apart")
    return (apart, pitch, 1), apart


def declare_store(it: Instruction, rows: int, columns: int, over: bool) -> TensorIntrin:
    """The intrinsic that stores `rows` by `columns` accumulator tiles to memory."""
    dtype, size = it.c.dtype.name, it.c.dtype.bytes
    c = placeholder((rows, columns, ROWS, ROWS), dtype, "c")
    d: Tensor
    if over:
        d = compute(
            (rows, ROWS, columns * ROWS), lambda mt, m, n: c[mt, n // ROWS, m, n % ROWS], "d"
        )
    else:
        d = compute(
            (rows * ROWS, columns * ROWS),
            lambda m, n: c[m // ROWS, n // ROWS, m % ROWS, n % ROWS],
            "d",
        )
    strides, apart = row_strides(over)
    pitch = strides[-2]
    target = decl_buffer(
        d.shape, d.dtype, "d", strides=strides, elem_offset=var("d_at"), data_alignment=1
    )

    def statement(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        reach = add(mul(pitch, ROWS - 1), ROWS)
        row_bytes = mul(cast("int64", pitch), const(size, "int64"))
        stores = []
        for number in range(rows * columns):
            m, n = divmod(number, columns)
            at = add(mul(apart, m), n * ROWS)
            stores.append(
                tile_call(STORE, number, tile_address(outs[0], at, reach, _WRITE), row_bytes)
            )
        return seq(*stores, tile_call(RELEASE))

    name = f"{it.name}.store.{rows}x{columns}"
    return decl_tensor_intrin(d.op, statement, name, binds={c: in_tiles(c), d: target})


def tile_call(name: str, *args: Expr | int) -> Stmt:
    """A statement that calls the AMX intrinsic `name`; tiles are given by number."""
    values = tuple(IntImm(x) if isinstance(x, int) else x for x in args)
    return Evaluate(Call(DType("int32"), "call_llvm_intrin", (StringImm(name), *values)))


def tile_address(buffer: Buffer, at: Expr, extent: Expr, access: int = _READ) -> Expr:
    """The address of the `extent` elements from `at` on, relative to the buffer's first element."""
    kind = const(0, f"uint{buffer.dtype.bits}")  # raw bits: AMX never converts elements
    offset = at if buffer.elem_offset is None else add(buffer.elem_offset, at)
    return Call(
        DType("handle"), "tvm_access_ptr", (kind, buffer.data, offset, extent, IntImm(access))
    )
