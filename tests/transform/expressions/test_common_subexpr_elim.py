from autosched import te
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Let, Var
from autosched.tir.op import const, floordiv, lt
from autosched.tir.stmt import BufferStore, IfThenElse, LetStmt, seq
from autosched.tir.verify import verify
from autosched.tir.walk import stmts
from autosched.transform.expressions.common_subexpr_elim import CommonSubexprElimTIR
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import CPU_PIPELINE
from kit.stmts import loop
from kit.types import BodyText, MakeFunc, SameResult

A, B = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")
i, j = Var("i"), Var("j")


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    index = i * 8 + j
    before = make_func(loop(i, 8, loop(j, 8, BufferStore(B, A[index] + 1.0, (index,)))), A, B)
    after = CommonSubexprElimTIR()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    for j in range(8):
        cse_var_1: int32 = i * 8 + j
        B[cse_var_1] = A[cse_var_1] + 1.0"""
    )
    same_result(before, after)


def test_each_part_stands_where_it_is_known(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    stores = [BufferStore(B, A[i * 8 + k], (i * 8 + j,)) for k in (1, 2)]
    before = make_func(loop(i, 8, loop(j, 8, seq(*stores))), A, B)
    after = CommonSubexprElimTIR()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    cse_var_1: int32 = i * 8
    for j in range(8):
        cse_var_2: int32 = cse_var_1 + j
        B[cse_var_2] = A[cse_var_1 + 1]
        B[cse_var_2] = A[cse_var_1 + 2]"""
    )
    same_result(before, after)


def test_nothing_repeated_is_unchanged(make_func: MakeFunc) -> None:
    before = make_func(loop(i, 8, BufferStore(B, A[i * 2], (i,))), A, B)
    assert CommonSubexprElimTIR()(before) is before


def test_it_can_be_disabled(make_func: MakeFunc) -> None:
    index = i * 8 + 1
    before = make_func(loop(i, 4, BufferStore(B, A[index], (index,))), A, B)
    assert CommonSubexprElimTIR(enable=False)(before) is before
    with PassContext(config={"tir.disable_cse_tir": True}):
        assert CommonSubexprElimTIR()(before) is before
    assert CommonSubexprElimTIR()(before) is not before


def test_loads_and_divisions_that_may_trap_stay(make_func: MakeFunc) -> None:
    n = Var("n")
    ratio = floordiv(64, n)
    guarded = IfThenElse(lt(0, n), BufferStore(B, A[ratio], (ratio,)))
    before = make_func(guarded, A, B, scalars=(n,))
    assert CommonSubexprElimTIR()(before) is before
    twice = make_func(loop(i, 8, BufferStore(B, A[i] + A[i], (i,))), A, B)
    assert CommonSubexprElimTIR()(twice) is twice


def test_sibling_loops_over_one_variable(make_func: MakeFunc, same_result: SameResult) -> None:
    """What is named in one loop is not in scope in the next."""
    index = i * 8 + 1
    first = loop(i, 4, BufferStore(B, A[index], (index,)))
    second = loop(i, 4, BufferStore(A, const(2.0), (index,)))
    before = make_func(seq(first, second, loop(i, 4, BufferStore(B, A[index], (index,)))), A, B)
    after = CommonSubexprElimTIR()(before)
    assert sum(isinstance(s, LetStmt) for s in stmts(after.body)) == 2
    same_result(before, after)


def test_schedule(same_result: SameResult) -> None:
    X, Y = te.placeholder((12, 9), name="X"), te.placeholder((9, 10), name="Y")
    k = te.reduce_axis((0, 9), name="k")
    Z = te.compute((12, 10), lambda r, c: te.sum(X[r, k] * Y[k, c], axis=k), name="Z")
    sch = te.create_schedule(Z.op)
    _, inner = sch[Z].split(Z.op.axis[0], factor=5)
    sch[Z].fuse(inner, Z.op.axis[1])
    before = schedule_to_prim_func(sch, [X, Y, Z])
    lowered = Sequential(CPU_PIPELINE)(before)
    after = CommonSubexprElimTIR()(lowered)
    assert after is not lowered
    same_result(before, after)


def test_the_most_used_get_the_names(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    often, twice = i * 8 + j, i * 3 + j * 2
    store = BufferStore(B, A[often] + A[often + 1] + A[twice], (often,))
    other = BufferStore(B, A[twice], (often,))
    before = make_func(loop(i, 4, loop(j, 4, seq(store, other))), A, B)
    after = CommonSubexprElimTIR(limit=1)(before)
    assert body_text(after).count("cse_var_1: int32 = i * 8 + j") == 1
    assert "cse_var_2" not in body_text(after)
    same_result(before, after)
    assert body_text(CommonSubexprElimTIR()(before)).count("int32 =") == 2


def test_what_a_let_binds_stays_inside(make_func: MakeFunc, same_result: SameResult) -> None:
    """Its variable was used in front of the statement, where it is not defined."""
    k = Var("k")
    index = Let(k, i * 8 + j, floordiv(k, 3) + floordiv(k, 3) + (i * 8 + j) % 2)
    before = make_func(loop(i, 8, loop(j, 4, BufferStore(B, A[index], (i * 8 + j,)))), A, B)
    after = CommonSubexprElimTIR()(before)
    verify(after)
    assert "cse_var_1: int32 = i * 8 + j" in str(after)
    same_result(before, after)
