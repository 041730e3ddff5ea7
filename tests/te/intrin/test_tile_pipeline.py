"""The order of loads and products of tiles: what each product reads stays the same."""

from __future__ import annotations

import pytest

from autosched.te.intrin.tile_pipeline import TileLoad, TileProduct, pipelined
from autosched.tir.dtype import DType
from autosched.tir.expr import Add, Call, Expr, IntImm, StringImm, Sub, Var
from autosched.tir.stmt import Evaluate, For, SeqStmt, Stmt

_SQUARE = ["L4", "L5", "L6", "L7", "P46", "P47", "P56", "P57"]
STEPS = {
    "two by two": _SQUARE,
    "one by one": ["L4", "L6", "P46"],
    "a tile loaded twice": ["L4", "L6", "P46", "L6", "P46", "L4", "P46", "L6", "P46"],
    "parts of two": [*_SQUARE, "L6", "L7", *_SQUARE[4:], "L4", "L5", *_SQUARE[4:]],
}


def _statement(*args: str | Expr) -> Stmt:
    return Evaluate(
        Call(DType("int32"), "call", tuple(StringImm(a) if isinstance(a, str) else a for a in args))
    )


def _load(tile: str, place: int) -> TileLoad:
    return TileLoad(int(tile), lambda step: _statement(tile, step, IntImm(place)))


def _step(texts: list[str]) -> list[TileLoad | TileProduct]:
    """L4: a load of tile 4; P46: a product of tiles 4 and 6."""
    return [
        _load(text[1], k)
        if text[0] == "L"
        else TileProduct((int(text[1]), int(text[2])), _statement(text))
        for k, text in enumerate(texts)
    ]


def _products(stmt: Stmt, steps: int) -> list[str]:
    """What each product reads, in order: the step and the place of the loads of its tiles."""
    tiles: dict[str, str] = {}
    found: list[str] = []

    def value(e: Expr, counter: int) -> int:
        match e:
            case IntImm(value=number):
                return number
            case Var(name="steps"):
                return steps
            case Var():
                return counter
            case Add(a=a, b=b):
                return value(a, counter) + value(b, counter)
            case Sub(a=a, b=b):
                return value(a, counter) - value(b, counter)
        raise AssertionError(e)

    def visit(s: Stmt, counter: int = -1) -> None:
        match s:
            case SeqStmt(stmts=parts):
                for part in parts:
                    visit(part, counter)
            case For(extent=extent, body=body):
                for k in range(value(extent, counter)):
                    visit(body, k)
            case Evaluate(value=Call(args=(StringImm(value=tile), step, IntImm(value=k)))):
                tiles[tile] = f"{value(step, counter)}:{k}"
            case Evaluate(value=Call(args=(StringImm(value=text),))):
                found.append(f"{text} {tiles[text[1]]} {tiles[text[2]]}")
            case _:
                raise AssertionError(s)

    visit(stmt)
    return found


@pytest.mark.parametrize("case", STEPS)
def test_products_read_what_they_read_before(case: str) -> None:
    step = _step(STEPS[case])
    for steps in (1, 2, 5):
        expected: list[str] = []
        tiles: dict[str, str] = {}
        for number in range(steps):
            for k, text in enumerate(STEPS[case]):
                if text[0] == "L":
                    tiles[text[1]] = f"{number}:{k}"
                else:
                    expected.append(f"{text} {tiles[text[1]]} {tiles[text[2]]}")
        assert _products(pipelined(step, Var("steps")), steps) == expected


def test_a_tile_is_loaded_as_soon_as_it_is_free() -> None:
    made = pipelined(_step(_SQUARE), Var("steps"))
    assert isinstance(made, SeqStmt)
    loop = next(s for s in made.stmts if isinstance(s, For))
    assert isinstance(loop.body, SeqStmt)
    calls = [s.value for s in loop.body.stmts if isinstance(s, Evaluate)]
    texts = [
        c.args[0].value for c in calls if isinstance(c, Call) and isinstance(c.args[0], StringImm)
    ]
    assert texts == ["P46", "P47", "4", "P56", "6", "P57", "7", "5"]
