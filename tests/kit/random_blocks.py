"""Random programs of blocks whose meaning every block pass must keep.

Rows of A go through buffers of several scopes, row by row or tile by tile, with blocks or without,
under conditions, through views, reductions and scans. The seed alone determines a program.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func

Read = Callable[[str, str], str]
"""Maps the texts of a row and a column to the text of a value."""


def random_blocks(seed: int) -> PrimFunc:
    """The program of a seed, which reads A and writes OUT."""
    return parse_func(random_text(seed))


def random_text(seed: int) -> str:
    """The text of the program of a seed."""
    return _Program(np.random.default_rng(seed)).text()


@dataclass
class _Target:
    """A buffer to write, and the position of row and column in it."""

    name: str
    scope: str
    row_shift: int
    step: int
    shift: int
    columns: int

    def at(self, row: str, column: str) -> str:
        column = column if self.step == 1 else f"({column}) * {self.step}"
        return f"{self.name}[{row} + {self.row_shift}, {column} + {self.shift}]"

    def region(self, row: str, column: str, rows: int = 1, columns: int = 1) -> str:
        first, second = f"{row} + {self.row_shift}", f"({column}) * {self.step} + {self.shift}"
        if self.step == 1:
            second = f"{column} + {self.shift}"
        width = (columns - 1) * self.step + 1
        return f"{self.name}[{first}:{first} + {rows}, {second}:{second} + {width}]"


class _Program:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.threads = self.one("serial", "serial", "blocks", "blocks of threads", "virtual")
        self.outer, self.tiles = self.one(2, 3), 1
        if self.threads != "blocks":
            self.tiles = self.one(1, 2, 3)
        self.rows, self.columns = self.one(1, 2, 3), self.one(2, 3, 5)
        self.total = self.outer * self.tiles * self.rows
        self.buffers: list[str] = []
        self.count = 0

    def one(self, *items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}{self.count}"

    # -- the program

    def text(self) -> str:
        read: Read = lambda row, column: f"A[{row}, {column}]"  # noqa: E731  # one of several
        parts = []
        stages = self.one(1, 2, 3)
        for number in range(stages + 1):
            last = number == stages
            target = self.target(last)
            part, read = self.stage(target, read, last)
            parts.append(part)
        body = "\n".join(parts)
        for head in reversed(self.heads()):
            body = f"{head}\n" + textwrap.indent(body, "    ")
        allocs = "\n".join(self.buffers)
        shape = f"({self.total}, {self.columns})"
        root = (
            f'with block("root"):\n    reads()\n    writes()\n{textwrap.indent(allocs, "    ")}\n'
        )
        body = root + textwrap.indent(body, "    ")
        head = f"def main(A: Buffer({shape}, float32), OUT: Buffer({shape}, float32)):\n"
        return head + textwrap.indent(body, "    ")

    def heads(self) -> list[str]:
        kind, tag, inner = {
            "serial": (self.one("range", "parallel"), "", ""),
            "blocks": ("thread_binding", ', thread="blockIdx.x"', ""),
            "blocks of threads": ("thread_binding", ', thread="blockIdx.x"', "threadIdx.x"),
            "virtual": ("thread_binding", ', thread="blockIdx.x"', "vthread"),
        }[self.threads]
        bound = f', thread="{inner}"' if inner else ""
        loop = f"for t in {'thread_binding' if inner else 'range'}({self.tiles}{bound}):"
        return [f"for o in {kind}({self.outer}{tag}):", loop]

    @property
    def tile(self) -> str:
        return f"(o * {self.tiles} + t)"

    def target(self, last: bool) -> _Target:
        if last:
            return _Target("OUT", "global", 0, 1, 0, self.columns)
        scopes = {
            "serial": ("global",),
            "blocks": ("global", "shared", "local", "warp"),
            "blocks of threads": ("global", "shared", "local", "warp"),
            "virtual": ("global", "shared", "local"),
        }[self.threads]
        scope, name = self.one(*scopes), self.fresh("S")
        step, shift, rows = self.one(1, 1, 2), self.one(0, 1, 3), self.one(0, 2)
        width = step * (self.columns - 1) + shift + 1 + self.one(0, 2)
        height = self.total + rows + self.one(0, 1)
        self.buffers.append(f'{name} = alloc(({height}, {width}), float32, scope="{scope}")')
        return _Target(name, scope, rows, step, shift, self.columns)

    # -- one stage

    def stage(self, target: _Target, read: Read, last: bool) -> tuple[str, Read]:
        guard = self.guard()
        kinds = ["plain", "block", "block", "tile", "scan"] + ([] if last else ["sum"])
        kind = self.one(*kinds)
        text = getattr(self, f"_{kind}")(target, read, guard)
        everywhere = kind == "scan" or (kind == "plain" and self.one(True, False))

        def again(row: str, column: str) -> str:
            if everywhere or guard is None:
                return target.at(row, column)
            return f"if_then_else({guard(row, column)}, {target.at(row, column)}, 2.0)"

        return text, again

    def guard(self) -> Read | None:
        rows, columns = self.total - self.one(1, 2), self.columns - 1
        found: Read | None = self.one(
            None,
            None,
            lambda row, column: f"{row} < {rows}",
            lambda row, column: f"{column} < {columns} and 0 <= {column}",
            lambda row, column: f"{row} + {column} < {self.total}",
        )
        return found

    def value(self, read: Read, row: str, column: str) -> str:
        found = read(row, column)
        return str(self.one(found, f"{found} * 2.0", f"{found} + A[{row}, {column}]"))

    def nest(self, body: str, i: str, j: str) -> str:
        """Loops over rows and columns of a tile, in either order, perhaps around a loop of one."""
        kind = self.one("range", "range", "vectorized", "unrolled")
        loops = [f"for {i} in range({self.rows}):", f"for {j} in {kind}({self.columns}):"]
        if kind != "vectorized" and self.rng.integers(2):
            loops.reverse()
        if self.rng.integers(4) == 0:
            loops.insert(1, f"for {self.fresh('one')} in range(1):")
        for loop in reversed(loops):
            body = f"{loop}\n" + textwrap.indent(body, "    ")
        return body

    def _plain(self, target: _Target, read: Read, guard: Read | None) -> str:
        i, j = self.fresh("i"), self.fresh("j")
        row = f"({self.tile} * {self.rows} + {i})"
        lines = f"{target.at(row, j)} = {self.value(read, row, j)}"
        if self.rng.integers(3) == 0:
            named = self.fresh("x")
            lines = f"{named}: int32 = {row}\n"
            lines += f"{target.at(named, j)} = {self.value(read, named, j)}"
        if guard is not None:
            lines = f"if {guard(row, j)}:\n" + textwrap.indent(lines, "    ")
            lines += f"\nelse:\n    {target.at(row, j)} = 3.0"
        return self.nest(lines, i, j)

    def _block(self, target: _Target, read: Read, guard: Read | None) -> str:
        i, j, vi, vj = (self.fresh(name) for name in ("i", "j", "vi", "vj"))
        row = f"{self.tile} * {self.rows} + {i}"
        lines = self.axes(vi, vj, row, j, "data_par", guard)
        lines += f"reads()\nwrites({target.region(vi, vj)})\n"
        lines += self.alignment(target)
        lines += f"{target.at(vi, vj)} = {self.value(read, vi, vj)}"
        return self.nest(self.block(lines), i, j)

    def axes(self, vi: str, vj: str, row: str, j: str, kind: str, guard: Read | None) -> str:
        lines = f"{vi} = axis.data_par(0:{self.total}, {row})\n"
        lines += f"{vj} = axis.{kind}(0:{self.columns}, {j})\n"
        return lines if guard is None else lines + f"where({guard(f'({row})', j)})\n"

    def alignment(self, target: _Target) -> str:
        if target.name == "OUT" or self.rng.integers(3):
            return ""
        dim, factor, offset = self.one(0, 0, 1), self.one(2, 4), self.one(0, 1)
        return f'annotations({{"buffer_dim_align": [[0, {dim}, {factor}, {offset}]]}})\n'

    def block(self, lines: str) -> str:
        return f'with block("{self.fresh("b")}"):\n' + textwrap.indent(lines, "    ")

    def _tile(self, target: _Target, read: Read, guard: Read | None) -> str:
        """A whole tile in one block, through a view of the target and a view of A."""
        i, j, v, view, of_a = (self.fresh(name) for name in ("i", "j", "v", "M", "N"))
        at, stride, base = self.fresh("at"), self.fresh("s"), self.fresh("base")
        width = (self.columns - 1) * target.step + 1
        first = f"{v} * {self.rows}"
        region = target.region(first, "0", self.rows, self.columns)
        source = f"A[{first}:{first} + {self.rows}, 0:{self.columns}]"
        lines = f"{v} = axis.data_par(0:{self.outer * self.tiles}, {self.tile})\n"
        lines += f"reads({source})\nwrites({region})\n"
        scope = "" if target.scope == "global" else f', scope="{target.scope}"'
        lines += f"{view} = match[{at}: int32, {stride}: int32]({region}, ({self.rows}, {width}), "
        lines += f"float32{scope}, strides=({stride}, 1), elem_offset={at})\n"
        lines += f"{of_a} = match[{base}: int32]({source}, ({self.rows}, {self.columns}), float32, "
        lines += f"elem_offset={base})\n"
        row = f"({first} + {i})"
        column = j if target.step == 1 else f"{j} * {target.step}"
        value = f"{read(row, j)} + {of_a}[{i}, {j}] + float32({base})"
        store = f"{view}[{i}, {column}] = {value}"
        if guard is not None:
            store = f"if {guard(row, j)}:\n    {store}"
        return self.block(lines + self.nest(store, i, j))

    def _scan(self, target: _Target, read: Read, guard: Read | None) -> str:
        """Prefix sums over the columns: each one needs the previous one.

        They are stored in the target itself, or in a buffer that nothing else uses.
        """
        i, j, vi, vj = (self.fresh(name) for name in ("i", "j", "vi", "vj"))
        row = f"{self.tile} * {self.rows} + {i}"
        sums = self.one(target, self.target(last=False))
        before = sums.at(vi, f"({vj} - 1)")
        lines = self.axes(vi, vj, row, j, "ordered", None)
        region = sums.region(vi, vj)
        lines += f"reads({region})\nwrites({region})\n"
        so_far = f"if_then_else({vj} > 0, {before}, 0.0)"
        lines += f"{sums.at(vi, vj)} = {self.value(read, vi, vj)} + {so_far}"
        if sums is not target:
            lines += f"\n{target.at(vi, vj)} = {sums.at(vi, vj)}"
        loops = [f"for {i} in range({self.rows}):", f"for {j} in range({self.columns}):"]
        body = self.block(lines)
        for loop in reversed(loops):
            body = f"{loop}\n" + textwrap.indent(body, "    ")
        return body

    def _sum(self, target: _Target, read: Read, guard: Read | None) -> str:
        """Every column gets the sum of the columns of its row."""
        i, j, k, vi, vj, vk = (self.fresh(name) for name in ("i", "j", "k", "vi", "vj", "vk"))
        row = f"{self.tile} * {self.rows} + {i}"
        low = self.one(0, 1)
        lines = self.axes(vi, vj, row, j, "data_par", guard)
        lines = lines.replace(
            "where(", f"{vk} = axis.reduce({low}:{low + self.columns}, {k})\nwhere("
        )
        if "axis.reduce" not in lines:
            lines += f"{vk} = axis.reduce({low}:{low + self.columns}, {k})\n"
        lines += f"reads()\nwrites({target.region(vi, vj)})\n"
        own = target.at(vi, vj)
        lines += f"with init():\n    {own} = 0.0\n"
        lines += f"{own} = {own} + {self.value(read, vi, f'({vk} - {low})')}"
        loop = f"for {k} in range({low}, {low + self.columns}):\n"
        return self.nest(loop + textwrap.indent(self.block(lines), "    "), i, j)
