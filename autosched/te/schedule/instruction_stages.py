"""The operations that replace a matrix product which a tensor instruction computes.

They are packed operands, sums computed tile by tile, for AMX the memory that the tiles are stored
to, and a copy of the result into the original layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched.te.bounds.infer_bound import CONSTANT_READS, WHOLE_TILES
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.operand import element, is_computed
from autosched.te.intrin.product import Product, extent
from autosched.te.intrin.registry import statements
from autosched.te.intrin.split_tile_dot import part_of
from autosched.te.intrin.turn import WORDS, turn_of
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, ProducerLoad, Range, Var
from autosched.tir.op import (
    add,
    all_,
    cast,
    const,
    floordiv,
    floormod,
    if_then_else,
    lt,
    min_,
    mul,
    sub,
)
from autosched.tir.walk import free_vars, substitute

INSTRUCTION = "tensor_instruction"
"""The attribute of an operation that an instruction computes: "<instruction>:<statement>"."""

_EXCESS, _STORE = "excess", "store"

PACKED = "packed_input"
"""The attribute of a stage that packs B without padding: how its index is made of axes of B.

It is an (axis of B, extent) for each digit of the packed index, outermost first. The last two
digits form one axis of the stage."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The numbers of the instruction's tiles accumulated at a time: `m` down, `n` across."""

    m: int
    n: int


class InstructionStages:
    """Makes the operations that replace the operation of `product`, computed by `it`.

    With `over`, the tiles of a column are steps of the axis before the rows (`Product.over`).
    """

    def __init__(self, product: Product, it: Instruction, tile: Tile, over: bool) -> None:
        self.product = product
        self.rows = tile.m
        self.columns = tile.n
        self.lanes = it.extent("n")
        self.depth = it.extent("k")
        self.height = it.extent("m")
        self.name = it.name
        self.parts = it.parts
        self.group = 4 // it.b.held.bytes  # the number of adjacent, consecutive k of a column
        self.wide = it.a.wide, it.b.wide
        self.offset = it.offset
        self.over = product.over() if over else None
        block = f"{'.over' if over else ''}.{tile.m}x{tile.n}"
        self.part = f"compute{block}" if self.height > 1 else "compute"
        self.store = f"{it.name}:{_STORE}{block}"
        self.data = [iv for iv in product.others()[0] if iv is not self.over]
        self.steps = -(-extent(product.k) // self.depth)
        self.across = -(-extent(product.n) // (self.columns * self.lanes))
        self.down = -(-extent(product.m) // (self.rows * self.height))
        self.all_rows = self.down * self.rows * self.height
        if self.over is not None:
            self.down, self.all_rows = extent(self.over) // self.rows, self.height

    def operations(self, pack_a: bool) -> list[ComputeOp]:
        """The new operations in order: packed A with `pack_a`, packed B, excess, sums, stored sums.

        The excess exists for an instruction with an offset only, the stored sums for AMX only.
        """
        product = self.product
        new: list[ComputeOp] = []
        if pack_a:
            new.append(self._packed_a())
        packed_b = self._packed_b()
        new.append(packed_b)
        a = new[0].output(0) if pack_a else product.a.producer
        if self.offset:
            new.append(self._excess(packed_b.output(0)))
        new.append(self._sums(a, packed_b.output(0), pack_a))
        if self.height > 1:
            new.append(self._stored(new[-1].output(0)))
        return new

    def _packed_a(self) -> ComputeOp:
        """A with k as last axis, padded to whole calls.

        Where a row moves the index of A by `step` > 1, that index is split in phase (index % step)
        and place (index // step), so that the rows are adjacent. Where elements are split in parts,
        the axis of parts comes before the rows: [.., part, (over,) rows, k].
        """
        product = self.product
        load, k, m = product.a, product.k, product.m
        last, half = _axis("kp", self.steps * self.depth), _axis("half", self.parts)
        bounds: list[tuple[Expr, int, int]] = [(last.var, extent(k), self.steps * self.depth)]
        axes: list[IterVar] = []
        indices: list[Expr] = []
        rows = product.rows() if self.height > 1 else None
        for d, (index, size) in enumerate(zip(load.indices, load.producer.shape, strict=True)):
            if index is k.var:
                indices.append(last.var)
                continue
            at, step = rows or (-1, 0)
            if d != at:
                axes.append(_axis(f"d{d}", size))
                indices.append(axes[-1].var)
                continue
            assert isinstance(size, IntImm), "extents are constants"
            more = self.all_rows - extent(m)
            place, phase = _axis(f"d{d}", -(-size.value // step) + more), _axis("phase", step)
            axes += [phase] if step > 1 else []
            axes.append(place)
            if self.parts > 1:
                axes.insert(len(axes) - 1 - (self.over is not None), half)
            indices.append(add(mul(place.var, step), phase.var) if step > 1 else place.var)
            bounds.append((indices[-1], size.value, step * (-(-size.value // step) + more)))
        value = _within(element(load, tuple(indices)), bounds)
        if self.offset:  # add in a type that holds the sum
            value = add(cast("int16", value), self.offset)
        value = part_of(value, half.var) if self.parts > 1 else _widened(value, self.wide[0])
        return ComputeOp(f"{load.producer.name}.pack", [*axes, last], [value])

    def _packed_b(self) -> ComputeOp:
        """B packed as [no, other dimensions of B, ko, nt, group of k, lane * size of group + k].

        The axis of groups is absent when a call has a single group. Elements split in parts have
        an axis of parts after nt.
        """
        load, n, k = self.product.b, self.product.n, self.product.k
        dims = list(zip(load.indices, load.producer.shape, strict=True))
        sizes = [size for index, size in dims if index is not n.var and index is not k.var]
        others = [_axis(f"d{d}", size) for d, size in enumerate(sizes)]
        no, ko = _axis("no", self.across), _axis("ko", self.steps)
        nt, lane = _axis("nt", self.columns), _axis("l", self.lanes * self.group)
        groups = [_axis("kg", self.depth // self.group)] if self.depth > self.group else []
        row = add(mul(ko.var, self.depth), floormod(lane.var, self.group))
        for kg in groups:
            row = add(row, mul(kg.var, self.group))
        block = add(mul(no.var, self.columns), nt.var)
        column = add(mul(block, self.lanes), floordiv(lane.var, self.group))
        rest = iter(others)
        indices = [
            row if index is k.var else column if index is n.var else next(rest).var
            for index in load.indices
        ]
        value = element(load, tuple(indices))
        bounds = [
            (row, extent(k), self.steps * self.depth),
            (column, extent(n), self.across * self.columns * self.lanes),
        ]
        half = [_axis("half", self.parts)] if self.parts > 1 else []
        axes = [no, *others, ko, nt, *half, *groups, lane]
        body = _within(value, bounds)
        part = ""
        whole = body is value and not is_computed(load)
        plain = whole and not half and self.wide[1] is None
        if whole:  # the packing statements read whole rows, so that B must need no padding
            rows = load.indices[-1] is n.var and self.group > 1
            part = "pack_b" if rows else self._turn() if load.indices[-1] is k.var else ""
        body = part_of(body, half[0].var) if half else _widened(body, self.wide[1])
        attrs: dict[str, Any] = {INSTRUCTION: f"{self.name}:{part}"} if part else {}
        if plain:
            attrs[PACKED] = self._digits_of_b()
        return ComputeOp(f"{load.producer.name}.pack", axes, [body], attrs=attrs)

    def _turn(self) -> str:
        """The name of the statement that packs a B whose rows run along k; "" if there is none."""
        if self.height > 1:
            return "turn_b"
        name = turn_of(self.columns)
        return name if self.steps % WORDS == 0 and name in statements(self.name) else ""

    def _digits_of_b(self) -> tuple[tuple[int, int], ...]:
        """The value of the attribute PACKED: (axis of B, extent) for each digit of packed B."""
        indices = self.product.b.indices
        n, k = (indices.index(iv.var) for iv in (self.product.n, self.product.k))
        shape = self.product.b.producer.shape
        sizes = [(d, e.value) for d, e in enumerate(shape) if isinstance(e, IntImm)]
        others = [(d, size) for d, size in sizes if d not in (n, k)]
        groups = [(k, self.depth // self.group)] if self.depth > self.group else []
        inner = [*groups, (n, self.lanes), (k, self.group)]
        return ((n, self.across), *others, (k, self.steps), (n, self.columns), *inner)

    def _sums(self, a: Tensor, b: Tensor, pack_a: bool) -> ComputeOp:
        """The sums as tiles [other axes, mo, no, mt, nt, mi, ni].

        The axis mi exists only where a call has several rows.
        """
        product = self.product
        data, reductions = self.data, product.others()[1]
        axes, outer = [_renamed(iv) for iv in data], [_renamed(iv) for iv in reductions]
        mo, no = _axis("mo", self.down), _axis("no", self.across)
        mt, nt, ni = _axis("mt", self.rows), _axis("nt", self.columns), _axis("ni", self.lanes)
        ko, ki = (_axis(s, e, True) for s, e in (("ko", self.steps), ("ki", self.depth)))
        row: Expr = add(mul(mo.var, self.rows), mt.var)
        within = [_axis("mi", self.height)] if self.height > 1 else []
        step_over, table = row, dict[Var, Expr]()
        for mi in within:
            row = add(mul(row, self.height), mi.var)
        if self.over is not None:
            row, table[self.over.var] = within[0].var, step_over
        clamped = not within and extent(product.m) % self.rows > 0
        if clamped:
            row = min_(row, extent(product.m) - 1)  # rows beyond the last are computed and dropped
        step = add(mul(ko.var, self.depth), ki.var)
        table |= {product.m.var: row, product.k.var: step}
        table |= {old.var: new.var for old, new in zip(data, axes, strict=True)}
        table |= {old.var: new.var for old, new in zip(reductions, outer, strict=True)}
        parts = [_axis(side, self.parts, True) for side in ("left", "right") if self.parts > 1]
        left = self._indices_of_a(table, pack_a)
        if parts:
            left.insert(len(left) - 2 - (self.over is not None), parts[0].var)
        others = self._others_of_b(table)
        lane = add(mul(ni.var, self.group), floormod(ki.var, self.group) if within else ki.var)
        groups = [floordiv(ki.var, self.group)] if within else []
        right = (no.var, *others, ko.var, nt.var, *[iv.var for iv in parts[1:]], *groups, lane)
        dtype = product.op.body[0].dtype
        value = mul(
            cast(dtype, ProducerLoad(a, tuple(left))), cast(dtype, ProducerLoad(b, tuple(right)))
        )
        body = sum_over(value, axis=[*outer, ko, *parts, ki])
        attrs: dict[str, Any] = {INSTRUCTION: f"{self.name}:{self.part}"}
        if clamped:
            attrs[CONSTANT_READS] = True
        if within:  # a consumer that needs a part of a tile still gets the whole tile
            attrs[WHOLE_TILES] = (1,) * (len(axes) + 2) + (
                self.rows,
                self.columns,
                self.height,
                self.lanes,
            )
        name = f"{product.op.name}.tile"
        return ComputeOp(name, [*axes, mo, no, mt, nt, *within, ni], [body], attrs=attrs)

    def _excess(self, b: Tensor) -> ComputeOp:
        """The excess [other axes of B, no, nt, ni]: what the offset adds to each column's sums.

        It is the same for all rows.
        """
        product, data, reductions = self.product, self._data_of_b(), self.product.others()[1]
        axes, outer = [_renamed(iv) for iv in data], [_renamed(iv) for iv in reductions]
        table: dict[Var, Expr] = {}
        for old, new in zip((*data, *reductions), (*axes, *outer), strict=True):
            table[old.var] = new.var
        no, nt, ni = _axis("no", self.across), _axis("nt", self.columns), _axis("ni", self.lanes)
        ko, ki = _axis("ko", self.steps, True), _axis("ki", self.depth, True)
        lane = add(mul(ni.var, self.group), ki.var)
        load = ProducerLoad(b, (no.var, *self._others_of_b(table), ko.var, nt.var, lane))
        dtype = product.op.body[0].dtype
        body = sum_over(mul(cast(dtype, load), self.offset), axis=[*outer, ko, ki])
        attrs = {INSTRUCTION: f"{self.name}:{_EXCESS}"}
        return ComputeOp(f"{product.op.name}.excess", [*axes, no, nt, ni], [body], attrs=attrs)

    def _data_of_b(self) -> list[IterVar]:
        """The data axes besides n that occur in the indices of B."""
        used = {v for index in self.product.b.indices for v in free_vars(index)}
        return [iv for iv in self.data if iv.var in used]

    def _others_of_b(self, table: dict[Var, Expr]) -> list[Expr]:
        """The indices of B besides n and k, with `table` substituted."""
        fixed = (self.product.n.var, self.product.k.var)
        indices = self.product.b.indices
        return [substitute(i, table) for i in indices if all(i is not v for v in fixed)]

    def _indices_of_a(self, table: dict[Var, Expr], packed: bool) -> list[Expr]:
        load, k, m = self.product.a, self.product.k, self.product.m
        if not packed:
            return [substitute(index, table) for index in load.indices]
        at, step = (self.product.rows() if self.height > 1 else None) or (-1, 1)
        found: list[Expr] = []
        for d, index in enumerate(load.indices):
            if index is k.var:
                continue
            if d != at or step == 1:
                found.append(substitute(index, table))
                continue
            first = substitute(substitute(index, {m.var: IntImm(0)}), table)
            found += [floormod(first, step), add(table[m.var], floordiv(first, step))]
        return [*found, table[k.var]]

    def _stored(self, sums: Tensor) -> ComputeOp:
        """The sums stored in rows [other axes, m, n], where m and n are padded to whole tiles."""
        axes = [_renamed(iv) for iv in self.data]
        above = [_renamed(self.over)] if self.over is not None else []
        m, n = _axis("m", self.all_rows), _axis("n", self.across * self.columns * self.lanes)
        rows = [iv.var for iv in (*above, m)]
        load = ProducerLoad(sums, self._in_tiles([iv.var for iv in axes], rows, n.var))
        block = [self.rows, self.height] if above else [self.rows * self.height]
        whole = (*(1 for _ in axes), *block, self.columns * self.lanes)
        attrs = {INSTRUCTION: self.store, WHOLE_TILES: whole}
        name = f"{self.product.op.name}.sums"
        return ComputeOp(name, [*axes, *above, m, n], [load], attrs=attrs)

    def copy(self, new: Sequence[ComputeOp]) -> ComputeOp:
        """The replacement of the operation itself: a copy of the last of the `new` operations."""
        product, sums = self.product, new[-1].output(0)
        n, others = product.n.var, [iv.var for iv in self.data]
        rows = [iv.var for iv in (self.over, product.m) if iv is not None]
        op = product.op
        if self.height == 1:
            value: Expr = ProducerLoad(sums, self._in_tiles(others, rows, n))
            if self.offset:
                place = (*[iv.var for iv in self._data_of_b()], *self._column(n))
                value = sub(value, ProducerLoad(new[-2].output(0), place))
            return ComputeOp(op.name, op.axis, [value], op.tag)
        load = ProducerLoad(sums, (*others, *rows, n))
        return ComputeOp(op.name, op.axis, [load], op.tag, {INSTRUCTION: self.store})

    def _in_tiles(self, others: Sequence[Expr], rows: Sequence[Expr], n: Expr) -> tuple[Expr, ...]:
        """The indices of the sums' tiles for row `rows` ((over, m) or (m,)) and column `n`."""
        *over, m = rows
        block, column, lane = self._column(n)
        tile, inner = (over[0], m) if over else (floordiv(m, self.height), floormod(m, self.height))
        return (
            *others,
            floordiv(tile, self.rows),
            block,
            floormod(tile, self.rows),
            column,
            *([inner] if self.height > 1 else []),
            lane,
        )

    def _column(self, n: Expr) -> tuple[Expr, Expr, Expr]:
        """The block of calls (no), the call within it (nt) and the lane (ni) of column n."""
        call = floordiv(n, self.lanes)
        width = self.columns * self.lanes
        return floordiv(n, width), floormod(call, self.columns), floormod(n, self.lanes)


def is_beside_tiles(op: Operation) -> bool:
    """Whether `op` computes what an instruction's offset adds to the columns, or stores tiles."""
    part = str(op.attrs.get(INSTRUCTION, "")).partition(":")[2]
    return part == _EXCESS or part.startswith(_STORE)


def _widened(value: Expr, wide: DType | None) -> Expr:
    return value if wide is None else cast(wide, value)


def _renamed(iv: IterVar) -> IterVar:
    return IterVar(iv.dom, Var(f"{iv.var.name}.t", iv.var.dtype), iv.kind)


def _axis(name: str, size: int | Expr, reduce: bool = False) -> IterVar:
    kind = IterKind.REDUCE if reduce else IterKind.DATA_PAR
    return IterVar(Range.of(size if isinstance(size, Expr) else IntImm(size)), Var(name), kind)


def _within(value: Expr, bounds: Sequence[tuple[Expr, int, int]]) -> Expr:
    """`value`, or 0 where an index exceeds its size.

    `bounds` are (index, size, number of values that the index takes); an index that cannot exceed
    its size is not checked.
    """
    checks = [lt(index, size) for index, size, most in bounds if most > size]
    if not checks:
        return value
    return if_then_else(all_(*checks), value, const(0, value.dtype))
