"""Operation counts of a stored value."""

from autosched import te
from autosched.features.ansor.names import OP_COUNTERS
from autosched.features.walk.count import count_mads, count_ops
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Var

x, y = Var("x", DType("float32")), Var("y", DType("float32"))
i, j = Var("i"), Var("j")


def counted(expr: Expr) -> dict[str, int]:
    return {name: n for name, n in zip(OP_COUNTERS, count_ops(expr), strict=True) if n}


def test_float_or_int_goes_by_the_left_operand() -> None:
    assert counted(x * y + x) == {"float_addsub": 1, "float_mul": 1}
    assert counted(i * j - i) == {"int_addsub": 1, "int_mul": 1}
    assert counted(op.max_(x, y)) == {"float_cmp": 1}
    assert counted(op.lt(i, j)) == {"int_cmp": 1}


def test_index_arithmetic_of_loads_counts() -> None:
    buffer = decl_buffer((64,), name="A")
    assert counted(BufferLoad(buffer, (i * IntImm(8) + j,)) + x) == {
        "float_addsub": 1,
        "int_addsub": 1,
        "int_mul": 1,
    }


def test_calls_and_logic() -> None:
    assert counted(te.exp(x)) == {"float_mathfunc": 1}
    assert counted(Call(DType("float32"), "call_extern", (x,))) == {"float_otherfunc": 1}
    chosen = op.select(op.and_(op.lt(i, j), op.lt(j, i)), x, y)
    assert counted(chosen) == {"int_cmp": 2, "bool_op": 1, "select_op": 1}


def test_multiply_adds_are_found_but_not_counted() -> None:
    assert count_ops(x * y + x)[0] == 0
    assert count_mads(x * y + x) == 1
    assert count_mads((x * y + x) * y + y) == 2
    assert count_mads(x + y) == 0
    assert count_mads(i * j + i) == 0
