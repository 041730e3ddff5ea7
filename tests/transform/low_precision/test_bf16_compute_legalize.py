import numpy as np

from autosched.tir import interp
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BinaryExpr, BufferLoad, Call, IntImm, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import call, cast, const
from autosched.tir.stmt import TRUE, Allocate, BufferStore, Evaluate, For, LetStmt, seq
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.low_precision.bf16_compute_legalize import BF16ComputeLegalize
from kit.stmts import as_a, loop
from kit.types import MakeFunc, SameResult

BF16 = DType("bfloat16")
i = Var("i")


def buffer(name: str, scope: str = "global") -> Buffer:
    return decl_buffer((8,), "bfloat16", name, scope)


def computes_in_bf16(func: PrimFunc) -> bool:
    return any(
        e.dtype is BF16
        and (isinstance(e, BinaryExpr) or (isinstance(e, Call) and e.op != "reinterpret"))
        for e in all_exprs(func.body)
    )


def test_other_types_are_unchanged(make_func: MakeFunc) -> None:
    A = decl_buffer((8,), "float32", "A")
    before = make_func(loop(i, 8, BufferStore(A, A[i] + 1.0, (i,))), A)
    assert BF16ComputeLegalize()(before) is before


def test_a_copy_is_not_converted(make_func: MakeFunc) -> None:
    A, B = buffer("A"), buffer("B")
    before = make_func(loop(i, 8, BufferStore(B, A[i], (i,))), A, B)
    after = as_a(For, BF16ComputeLegalize()(before).body)
    assert isinstance(as_a(BufferStore, after.body).value, BufferLoad)


def test_one_operation_rounds_as_before(make_func: MakeFunc, same_result: SameResult) -> None:
    A, B, C = map(buffer, "ABC")
    before = make_func(loop(i, 8, BufferStore(C, A[i] * B[i], (i,))), A, B, C)
    after = BF16ComputeLegalize()(before)
    assert not computes_in_bf16(after)
    same_result(before, after)


def test_internal_buffers_are_promoted(make_func: MakeFunc) -> None:
    A, B, T = buffer("A"), buffer("B"), buffer("T", "local")
    body = seq(BufferStore(T, A[i] + A[i], (i,)), BufferStore(B, T[i] * A[i], (i,)))
    before = make_func(Allocate(T.data, BF16, (IntImm(8),), TRUE, loop(i, 8, body)), A, B)
    after = BF16ComputeLegalize()(before)
    allocate = next(s for s in stmts(after.body) if isinstance(s, Allocate))
    assert allocate.dtype.name == "float32"
    assert (allocate.buffer_var.name, allocate.buffer_var.scope) == ("T", "local")
    assert not computes_in_bf16(after)
    arrays = [np.full(8, 1.5, BF16.numpy), np.zeros(8, BF16.numpy)]
    interp.run(after, arrays)
    assert (arrays[1] == 4.5).all()


def test_a_buffer_whose_address_is_taken_keeps_its_type(make_func: MakeFunc) -> None:
    A, T = buffer("A"), buffer("T")
    taken = Evaluate(Call(DType("handle"), "call_extern", (StringImm("f"), T.data)))
    body = seq(loop(i, 8, BufferStore(T, A[i] + A[i], (i,))), taken)
    after = BF16ComputeLegalize()(make_func(Allocate(T.data, BF16, (IntImm(8),), TRUE, body), A))
    allocate = next(s for s in stmts(after.body) if isinstance(s, Allocate))
    assert allocate.dtype is BF16


def test_casts_constants_and_calls(make_func: MakeFunc, same_result: SameResult) -> None:
    A, B = buffer("A"), decl_buffer((8,), "float32", "B")
    value = cast("float32", call("fabs", A[i]) + const(2.0, BF16)) + cast(
        "float32", cast(BF16, B[i] + 0.001)
    )
    before = make_func(loop(i, 8, BufferStore(B, value, (i,))), A, B)
    after = BF16ComputeLegalize()(before)
    assert not computes_in_bf16(after)
    same_result(before, after)  # the cast to bfloat16 still rounds


def test_lets(make_func: MakeFunc, same_result: SameResult) -> None:
    A, B = buffer("A"), buffer("B")
    x = Var("x", BF16)
    before = make_func(loop(i, 8, LetStmt(x, A[i], BufferStore(B, x + x, (i,)))), A, B)
    after = BF16ComputeLegalize()(before)
    assert as_a(LetStmt, as_a(For, after.body).body).var.dtype.name == "float32"
    same_result(before, after)
