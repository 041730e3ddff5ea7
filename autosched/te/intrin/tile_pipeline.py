"""Software pipelining of AMX tiles: each tile is reloaded right after the last product of it.

AMX does not rename its tiles: a load waits for the products that read the tile's old contents, and
later instructions wait for the load. A tile is loaded for the next step as soon as it is free:

    before:                                   after:
        for step in range(steps):                 load 4, 6, 7, 5 of step 0
            load 4; load 5; load 6; load 7        for step in range(steps - 1):
            product 0, 4, 6                           product 0, 4, 6
            product 1, 4, 7                           product 1, 4, 7
            product 2, 5, 6                           load 4 of step + 1
            product 3, 5, 7                           product 2, 5, 6
                                                      load 6 of step + 1
                                                      product 3, 5, 7
                                                      load 7, 5 of step + 1
                                                  product 0, 4, 6; ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import add, sub
from autosched.tir.stmt import For, ForKind, Stmt, seq


@dataclass(frozen=True, slots=True)
class TileLoad:
    """A load of tile number `tile`; `of_step(step)` is the statement that loads it for a step."""

    tile: int
    of_step: Callable[[Expr], Stmt]


@dataclass(frozen=True, slots=True)
class TileProduct:
    """A product, and the numbers of the two operand tiles that it reads."""

    reads: tuple[int, int]
    stmt: Stmt


def pipelined(step: Sequence[TileLoad | TileProduct], steps: Expr) -> Stmt:
    """The statement that runs the loads and products of `step` `steps` times, pipelined.

    `steps` is at least 1. Every tile that a product reads must be loaded in `step`.
    """
    products = [each for each in step if isinstance(each, TileProduct)]
    behind: list[list[TileLoad]] = [[] for _ in products]
    ahead: list[list[TileLoad]] = [[] for _ in products]
    first: list[TileLoad] = []
    begun = 0
    for each in step:
        if isinstance(each, TileProduct):
            begun += 1
            continue
        uses = [k for k, product in enumerate(products) if each.tile in product.reads]
        before = [k for k in uses if k < begun]
        if before:
            behind[before[-1]].append(each)
        else:
            first.append(each)
            ahead[uses[-1]].append(each)

    def first_use(load: TileLoad) -> int:
        return next(k for k, product in enumerate(products) if load.tile in product.reads)

    counter = Var("step")
    body: list[Stmt] = []
    last: list[Stmt] = []
    for product, now, later in zip(products, behind, ahead, strict=True):
        body += [product.stmt, *(load.of_step(counter) for load in now)]
        last += [product.stmt, *(load.of_step(sub(steps, 1)) for load in now)]
        body += [load.of_step(add(counter, 1)) for load in sorted(later, key=first_use)]
    begin = [load.of_step(IntImm(0)) for load in sorted(first, key=first_use)]
    loop = For(counter, IntImm(0), sub(steps, 1), ForKind.SERIAL, seq(*body))
    return seq(*begin, loop, *last)
