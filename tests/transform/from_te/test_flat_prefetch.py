import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Range, Var
from autosched.tir.stmt import Evaluate, For
from autosched.tir.walk import stmts
from autosched.transform.from_te.flat_prefetch import flat_prefetch
from kit.stmts import as_a
from kit.tir import value_of
from kit.types import BodyText

FLAT = decl_buffer((4096,), "float32", "A")


def offset(indices: tuple[Expr, ...]) -> Expr:
    row, column = indices
    return row * 64 + column


def nest(rows: int, columns: int, cache_line: int = 64) -> tuple[list[int], BufferLoad]:
    i = Var("i")
    bounds = (Range(i, IntImm(rows)), Range(IntImm(0), IntImm(columns)))
    stmt = flat_prefetch(FLAT, offset, bounds, cache_line)
    loops = [value_of(s.extent) for s in stmts(stmt) if isinstance(s, For)]
    call = next(s.value for s in stmts(stmt) if isinstance(s, Evaluate))
    assert isinstance(call, Call) and call.op == "prefetch"
    assert [value_of(a) for a in call.args[1:]] == [0, 3, 1]
    return loops, as_a(BufferLoad, as_a(Call, call.args[0]).args[0])


@pytest.mark.parametrize(
    ("rows", "columns", "loops"),
    [
        (1, 16, []),  # one line holds all of it
        (4, 4, []),
        (8, 16, [8]),  # a line a row
        (2, 64, [2, 4]),  # four lines a row
        (3, 20, [3, 2]),  # the last line of a row is begun
        (5, 8, [3]),  # two rows a line
    ],
)
def test_one_call_a_line(rows: int, columns: int, loops: list[int]) -> None:
    assert nest(rows, columns)[0] == loops


def test_address(body_text: BodyText) -> None:
    loops, address = nest(2, 64)
    assert loops == [2, 4]
    assert repr(address.indices[0]).endswith("* 16")


def test_short_lines_mean_every_element() -> None:
    assert nest(1, 3, cache_line=1)[0] == [1, 3]
