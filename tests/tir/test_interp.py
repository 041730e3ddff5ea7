"""The interpreter on programs outside of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import ConfigError
from autosched.tir import interp, op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, float32, handle, int32
from autosched.tir.expr import (
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    IterKind,
    IterVar,
    Let,
    Mod,
    Ramp,
    Range,
    Select,
    StringImm,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    Stmt,
    While,
    seq,
)
from kit.programs import Programs
from kit.stmts import loop
from kit.types import Array

I, J, K = Var("i"), Var("j"), Var("k")


def int_buffer(n: int, name: str) -> Buffer:
    return decl_buffer((n,), "int32", name)


def test_matmul(tir: type[Programs]) -> None:
    n = 16
    A, B, C = (decl_buffer((n, n), name=x) for x in "ABC")
    update = BufferStore(C, C[I, J] + A[I, K] * B[K, J], (I, J))
    init = BufferStore(C, op.const(0.0), (I, J))
    body = tir.loop(I, n, tir.loop(J, n, seq(init, tir.loop(K, n, update)), ForKind.VECTORIZED))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (n, n)).astype("float32") for _ in range(2))
    c = np.empty_like(a)
    interp.run(tir.func([A, B, C], body), [a, b, c])
    np.testing.assert_array_equal(c, a @ b)


def test_realised_region_is_what_may_be_accessed(tir: type[Programs]) -> None:
    A, B = decl_buffer((16,), name="A"), decl_buffer((16,), name="B")
    L = decl_buffer((16,), name="L", scope="local")

    def program(extent: int) -> PrimFunc:
        fill = tir.loop(J, 4, BufferStore(L, A[I * 4 + J] * 2.0, (I * 4 + J,)))
        use = tir.loop(K, 4, BufferStore(B, L[I * 4 + K], (I * 4 + K,)))
        body = BufferRealize(L, (Range.of(extent, I * 4),), TRUE, seq(fill, use))
        return tir.func([A, B], tir.loop(I, 4, body))

    a, b = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    interp.run(program(4), [a, b])
    np.testing.assert_array_equal(b, a * 2)
    message = r"out of bounds: L, index in dimension 0 3 is not in \[0, 3\)"
    with pytest.raises(interp.AccessError, match=message) as info:
        interp.run(program(3), [a, b])
    assert "L[i * 4 + j] = A[i * 4 + j] * 2.0" in info.value.__notes__[0]


@pytest.mark.parametrize("index", [-1, 8])
@pytest.mark.parametrize("lanes", [1, 4])
def test_flat_memory_is_checked(tir: type[Programs], index: int, lanes: int) -> None:
    A = int_buffer(8, "A")
    data = pointer("p", int32)
    flat = Buffer(data, int32, (IntImm(8),))
    at = IntImm(index) if lanes == 1 else Ramp(IntImm(index - 3), IntImm(1), lanes)
    body = BufferStore(flat, Broadcast(A[0], lanes) if lanes > 1 else A[0], (at,))
    func = tir.func([A], Allocate(data, int32, (IntImm(8),), TRUE, body))
    with pytest.raises(interp.AccessError, match=f"index -?{abs(index)} is not|-4 is not"):
        interp.run(func, [np.zeros(8, "int32")])


def test_fresh_memory_is_poison(tir: type[Programs]) -> None:
    out = decl_buffer((1,), name="out")
    L = decl_buffer((1,), name="L")
    body = BufferRealize(L, (Range.of(1),), TRUE, BufferStore(out, L[0], (IntImm(0),)))
    found = np.zeros(1, "float32")
    interp.run(tir.func([out], body), [found])
    assert np.isnan(found[0])


def test_loops_conditions_and_lets(tir: type[Programs]) -> None:
    A = int_buffer(10, "A")
    t = Var("t")
    body = For(
        I,
        IntImm(2),
        IntImm(6),
        ForKind.UNROLLED,
        LetStmt(
            t,
            I * I,
            IfThenElse(
                op.eq(I % 2, 0),
                BufferStore(A, t, (I,)),
                BufferStore(A, Let(J, t + 1, J * 10), (I,)),
            ),
        ),
    )
    found = np.zeros(10, "int32")
    interp.run(tir.func([A], body), [found])
    assert found.tolist() == [0, 0, 4, 100, 16, 260, 36, 500, 0, 0]


def test_while(tir: type[Programs]) -> None:
    A = int_buffer(1, "A")
    body = While(A[0] < 100, BufferStore(A, A[0] * 2, (IntImm(0),)))
    found = np.array([3], "int32")
    interp.run(tir.func([A], body), [found])
    assert found[0] == 192


def test_assertions(tir: type[Programs]) -> None:
    A = int_buffer(1, "A")
    func = tir.func([A], AssertStmt(A[0] < 3, "A is small", Evaluate(IntImm(0))))
    interp.run(func, [np.array([2], "int32")])
    with pytest.raises(interp.InterpreterError, match="A is small"):
        interp.run(func, [np.array([3], "int32")])


def test_if_then_else_is_lazy_and_select_is_not(tir: type[Programs]) -> None:
    A, B = int_buffer(8, "A"), int_buffer(10, "B")
    found = np.zeros(10, "int32")
    for guard in (op.if_then_else, Select):
        body = tir.loop(I, 10, BufferStore(B, guard(I < 8, A[I], IntImm(-5)), (I,)))
        interp.run(tir.func([A, B], body), [np.arange(8, dtype="int32"), found])
        assert found.tolist() == [*range(8), -5, -5]
    with pytest.raises(interp.AccessError):
        interp.run(tir.func([A, B], body), [np.arange(8, dtype="int32"), found], eager_select=True)


def test_vector_branch_reads_only_chosen_lanes(tir: type[Programs]) -> None:
    A, B = int_buffer(6, "A"), int_buffer(8, "B")
    index = Ramp(IntImm(0), IntImm(1), 8)
    value = op.if_then_else(op.lt(index, 6), BufferLoad(A, (index,)), Broadcast(IntImm(-1), 8))
    found = np.zeros(8, "int32")
    interp.run(
        tir.func([A, B], BufferStore(B, value, (index,))), [np.arange(6, dtype="int32"), found]
    )
    assert found.tolist() == [0, 1, 2, 3, 4, 5, -1, -1]


def test_predicated_vectors(tir: type[Programs]) -> None:
    A, B = int_buffer(6, "A"), int_buffer(6, "B")
    index = Ramp(IntImm(0), IntImm(1), 8)
    on = op.lt(index, 6)
    body = BufferStore(B, BufferLoad(A, (index,), on) + 1, (index,), on)
    found = np.zeros(6, "int32")
    interp.run(tir.func([A, B], body), [np.arange(6, dtype="int32"), found])
    assert found.tolist() == [1, 2, 3, 4, 5, 6]


def test_shuffles_in_vectors_of_conditions() -> None:
    """The condition is about the lanes of the result, not about those that a shuffle takes from."""
    func = parse_func("""
def main(A: Buffer((4,), int32), C: Buffer((4,), bool), B: Buffer((4,), int32)):
    B[0:4] = Select(C[0:4], shuffle([A[0:4]], [3, 2, 1, 0]), broadcast(-1, 4))
    B[0:3] = Select(C[0:3], shuffle([A[1:3], A[3]], [2, 1, 0]), B[0:3])
""")
    found = np.zeros(4, np.int32)
    interp.run(func, [np.arange(4, dtype=np.int32), np.array([1, 0, 1, 0], bool), found])
    assert found.tolist() == [3, -1, 1, -1]


def test_shuffles_join_integers_of_64_bits() -> None:
    func = parse_func("""
def main(A: Buffer((2,), uint64), n: int32):
    A[0:2] = shuffle([Select(n < 5, uint64(3), A[0]), A[1] + uint64(1)], [1, 0])
""")
    found = np.array([2**63 + 1, 2**63 + 4], np.uint64)
    interp.run(func, [found, 2])
    assert found.tolist() == [2**63 + 5, 3]


def test_predicates_of_one_element() -> None:
    func = parse_func("""
def main(A: Buffer((2,), int32), B: Buffer((2,), int32), n: int32):
    store(B[0], load(A[n], predicate=n < 2) + 1, predicate=n < 1)
    store(B[n], 7, predicate=n < 2)
""")
    for n, wanted in ((0, [7, 9]), (1, [9, 7]), (5, [9, 9])):
        found = np.full(2, 9, np.int32)
        interp.run(func, [np.arange(2, dtype=np.int32), found, n])
        assert found.tolist() == wanted


def test_lanes_that_disagree_are_refused(tir: type[Programs]) -> None:
    A = int_buffer(6, "A")
    body = BufferStore(A, Ramp(IntImm(0), IntImm(1), 4), (Broadcast(IntImm(0), 4),))
    with pytest.raises(interp.RaceError, match="store different values"):
        interp.run(tir.func([A], body), [np.zeros(6, "int32")])


def test_vector_elements_and_views(tir: type[Programs]) -> None:
    A = decl_buffer((8,), name="A")
    data = pointer("p", DType("float32x4"))
    vectors = Buffer(data, DType("float32x4"), (IntImm(2),))
    scalars = Buffer(data, float32, (IntImm(8),), name="s")
    as_bits = Buffer(data, int32, (IntImm(8),), name="bits")
    index = Ramp(I * 4, IntImm(1), 4)
    body = seq(
        tir.loop(I, 2, BufferStore(vectors, BufferLoad(A, (index,)) * 2.0, (I,))),
        tir.loop(J, 8, BufferStore(A, scalars[7 - J], (J,))),
        BufferStore(A, op.cast("float32", as_bits[0]), (IntImm(7),)),
    )
    body = Allocate(data, DType("float32x4"), (IntImm(2),), TRUE, body)
    found = np.arange(8, dtype="float32") + 1
    interp.run(tir.func([A], body), [found])
    bits = np.array([2.0], "float32").view("int32")[0]
    assert found.tolist() == [16, 14, 12, 10, 8, 6, 4, np.float32(bits)]


def test_constants_declared_views_and_notes_for_nothing(tir: type[Programs]) -> None:
    A = int_buffer(4, "A")
    data = pointer("table", int32)
    table = Buffer(data, int32, (IntImm(4),))
    square = Buffer(A.data, int32, (IntImm(2), IntImm(2)), name="S")
    body = AllocateConst(
        data,
        int32,
        (IntImm(4),),
        np.array([3, 1, 4, 1]),
        DeclBuffer(
            square,
            AttrStmt(
                None,
                "pragma_unroll_explicit",
                IntImm(1),
                seq(
                    Prefetch(A, (Range.of(4),)),
                    Evaluate(IntImm(0)),
                    tir.loop(I, 2, BufferStore(square, table[I * 2], (IntImm(1), I))),
                ),
            ),
        ),
    )
    found = np.zeros(4, "int32")
    interp.run(tir.func([A], body), [found])
    assert found.tolist() == [0, 0, 3, 4]


def test_strided_and_offset_views(tir: type[Programs]) -> None:
    A = int_buffer(12, "A")
    view = Buffer(A.data, int32, (IntImm(2), IntImm(3)), (IntImm(5), IntImm(1)), IntImm(2), "V")
    body = tir.loop(I, 2, tir.loop(J, 3, BufferStore(view, I * 3 + J, (I, J))))
    found = np.full(12, -1, "int32")
    interp.run(tir.func([A], body), [found])
    assert found.tolist() == [-1, -1, 0, 1, 2, -1, -1, 3, 4, 5, -1, -1]


def test_many_nested_loops(tir: type[Programs]) -> None:
    A = int_buffer(1, "A")
    body: Stmt = BufferStore(A, A[0] + 1, (IntImm(0),))
    for k in range(30):
        body = tir.loop(Var(f"i{k}"), 2 if k % 10 == 0 else 1, body)
    found = np.zeros(1, "int32")
    interp.run(tir.func([A], body), [found])
    assert found[0] == 8


def test_symbolic_sizes_come_from_arrays_and_scalars(tir: type[Programs]) -> None:
    n, m = Var("n"), Var("m")
    A, B = decl_buffer((n,), name="A"), decl_buffer((n, m), name="B")
    body = For(
        I,
        IntImm(0),
        n,
        ForKind.SERIAL,
        For(J, IntImm(0), m, ForKind.SERIAL, BufferStore(B, A[I], (I, J))),
    )
    func = tir.func([A, B], body, [m])
    a, b = np.arange(3, dtype="float32"), np.zeros((3, 2), "float32")
    interp.run(func, [a, b, 2])
    np.testing.assert_array_equal(b, np.stack([a, a], 1))
    with pytest.raises(ValueError, match=r"B is float32 of shape \(3, 4\)"):
        interp.run(func, [a, b, 4])


def test_objects_of_wrong_types() -> None:
    func: Any = parse_func("def main(n: int32):\n    ret(n)\n")
    for given, message in (
        ((None, []), r"interp\.run: func: expected a PrimFunc, e\.g\. lower.* found None"),
        ((func, None), r"interp\.run: arrays: expected a list, found None"),
    ):
        with pytest.raises(ConfigError, match=message):
            interp.run(*given)
    with pytest.raises(ConfigError, match=r"interp\.run: watch: expected a Watch, found True"):
        interp.run(func, [1], watch=True)  # type: ignore[arg-type]  # what the check is for


def test_arguments_are_checked(tir: type[Programs]) -> None:
    A = int_buffer(4, "A")
    func = tir.func([A], BufferStore(A, IntImm(1), (IntImm(0),)))
    with pytest.raises(ValueError, match="takes 1 arguments"):
        interp.run(func, [])
    with pytest.raises(ValueError, match="found an array of float32"):
        interp.run(func, [np.zeros(4, "float32")])
    with pytest.raises(ValueError, match="takes an array without a mask"):
        interp.run(func, [np.ma.zeros(4, "int32")])
    with pytest.raises(ValueError, match=r"shape \(4,\), found an array of int32 of shape \(5,\)"):
        interp.run(func, [np.zeros(5, "int32")])
    strided = np.zeros(8, "int32")[::2]
    interp.run(func, [strided])
    assert strided.tolist() == [1, 0, 0, 0]


def test_pointer_parameters() -> None:
    p = pointer("p", float32)
    flat = Buffer(p, float32, (IntImm(4),))
    func = PrimFunc((p,), BufferStore(flat, op.const(2.0), (IntImm(3),)), {})
    found = np.zeros(4, "float32")
    interp.run(func, [found])
    assert found.tolist() == [0, 0, 0, 2]


def test_zero_dimensional_buffers(tir: type[Programs]) -> None:
    A = decl_buffer((), name="A")
    found = np.zeros((), "float32")
    interp.run(tir.func([A], BufferStore(A, op.const(2.0), ())), [found])
    assert found == 2


def test_integer_overflow_wraps(tir: type[Programs]) -> None:
    A = decl_buffer((3,), "int32", "A")
    big = 2**31 - 1
    body = seq(
        BufferStore(A, A[0] + 1, (IntImm(0),)),
        BufferStore(A, A[1] * A[1], (IntImm(1),)),
        BufferStore(A, op.cast("int32", op.cast("int8", A[2])), (IntImm(2),)),
    )
    found = np.array([big, 65537, 200], "int32")
    interp.run(tir.func([A], body), [found])
    assert found.tolist() == [-(2**31), 131073, -56]


@pytest.mark.parametrize("kind", [Div, Mod, FloorDiv, FloorMod])
def test_division_by_an_index_that_is_zero(kind: type[BinaryExpr], tir: type[Programs]) -> None:
    """Of a loop, of threads and of lanes, and by the number itself."""
    A, t = int_buffer(3, "A"), te.thread_axis((0, 3), "threadIdx.x")
    lanes = Ramp(IntImm(0), IntImm(1), 3)
    bodies = [
        loop(I, 3, BufferStore(A, kind(IntImm(7), I), (I,))),
        AttrStmt(t, "thread_extent", IntImm(3), BufferStore(A, kind(IntImm(7), t.var), (t.var,))),
        BufferStore(A, kind(op.broadcast(IntImm(7), 3), lanes), (lanes,)),
    ]
    for body in bodies:
        found = np.full(3, 9, "int32")
        interp.run(tir.func([A], body), [found])
        assert found.tolist() == ([0, 7, 3] if kind in (Div, FloorDiv) else [0, 0, 1])
    interp.run(tir.func([A], BufferStore(A, kind(A[2], IntImm(0)), (IntImm(2),))), [found])
    assert found[2] == 0


@pytest.mark.parametrize("kind", [Div, Mod, FloorDiv, FloorMod])
def test_division_by_data_that_is_zero(kind: type[BinaryExpr], tir: type[Programs]) -> None:
    """Of scalars that all threads share and of their own, as in NumPy."""
    A, C, t = int_buffer(4, "A"), int_buffer(4, "C"), te.thread_axis((0, 4), "threadIdx.x")
    least = np.iinfo(np.int32).min
    expected = [0, 0, 0, least if kind in (Div, FloorDiv) else 0]
    for k, want in enumerate(expected):
        a, c = np.array([5, -5, 0, least], "int32"), np.array([0, 0, 0, -1], "int32")
        interp.run(tir.func([A, C], BufferStore(C, kind(A[k], C[k]), (IntImm(k),))), [a, c])
        assert c[k] == want
    a, c = np.array([5, -5, 0, least], "int32"), np.array([0, 0, 0, -1], "int32")
    store = BufferStore(C, kind(A[t.var], C[t.var]), (t.var,))
    interp.run(tir.func([A, C], AttrStmt(t, "thread_extent", IntImm(4), store)), [a, c])
    assert c.tolist() == expected


def test_blocks_initialise_match_and_allocate(tir: type[Programs]) -> None:
    A, C = decl_buffer((4, 4), name="A"), decl_buffer((4,), name="C")
    vi = IterVar(Range.of(4), Var("vi"), IterKind.DATA_PAR)
    vk = IterVar(Range.of(4), Var("vk"), IterKind.REDUCE)
    row = decl_buffer((4,), name="row")
    tmp = decl_buffer((1,), name="tmp")
    source = BufferRegion(A, (Range.of(1, vi.var), Range.of(4)))
    block = Block(
        (vi, vk),
        (),
        (),
        "C",
        seq(
            BufferStore(tmp, row[vk], (IntImm(0),)),
            BufferStore(C, C[vi] + tmp[0], (vi.var,)),
        ),
        BufferStore(C, op.const(0.0), (vi.var,)),
        (tmp,),
        (MatchBufferRegion(row, source),),
    )
    body = tir.loop(I, 4, tir.loop(K, 5, BlockRealize((I, K), K < 4, block)))
    a, c = np.arange(16, dtype="float32").reshape(4, 4), np.zeros(4, "float32")
    interp.run(tir.func([A, C], body), [a, c])
    np.testing.assert_array_equal(c, a.sum(1))


def test_external_functions(tir: type[Programs]) -> None:
    A, B = decl_buffer((4,), name="A"), decl_buffer((2, 2), name="B")
    log = []

    def double(source: Array, target: Array, count: int) -> int:
        log.append((source.shape, target.shape, count))
        target[:count] = source[:count] * 2
        return 7

    def total(matrix: Array) -> None:
        log.append(matrix.shape)
        matrix[0, 0] = matrix.sum()

    interp.register_extern("test.double", double)
    interp.register_extern("test.total", total)
    flat = Buffer(B.data, float32, (IntImm(4),), name="Bf")
    annotation = Call(float32, "tuple", ())
    target = Call(handle, "tvm_access_ptr", (annotation, B.data, IntImm(1), IntImm(2), IntImm(2)))
    source = Call(handle, "address_of", (A[1],))
    shape = Call(handle, "tvm_stack_make_shape", (IntImm(2), IntImm(2)))
    whole = (B.data, shape, IntImm(0), IntImm(2), op.const(0.0), IntImm(0))
    name = StringImm("test.double")
    body = seq(
        Evaluate(Call(int32, "call_extern", (name, source, target, IntImm(2)))),
        Evaluate(
            Call(
                int32,
                "call_packed",
                (StringImm("test.total"), Call(handle, "tvm_stack_make_array", whole)),
            )
        ),
        BufferStore(flat, op.const(9.0), (IntImm(3),)),
    )
    a, b = np.array([1, 2, 3, 4], "float32"), np.ones((2, 2), "float32")
    interp.run(tir.func([A, B], body), [a, b])
    assert log == [((3,), (2,), 2), (2, 2)]
    assert b.tolist() == [[12, 4], [6, 9]]
    missing = Evaluate(Call(int32, "call_extern", (StringImm("test.none"),)))
    with pytest.raises(interp.InterpreterError, match=r"'test\.none' is not known"):
        interp.run(tir.func([A], missing), [a])


def test_what_cannot_run_is_named(tir: type[Programs]) -> None:
    A = decl_buffer((4,), name="A")
    with pytest.raises(interp.InterpreterError, match="variable i is used but nothing binds it"):
        interp.run(tir.func([A], BufferStore(A, op.const(0.0), (I,))), [np.zeros(4, "float32")])
    other = decl_buffer((4,), name="other")
    with pytest.raises(interp.InterpreterError, match="accessed outside of where it is allocated"):
        interp.run(tir.func([A], BufferStore(A, other[0], (I,))), [np.zeros(4, "float32")])
    with pytest.raises(
        interp.InterpreterError, match="value of type int32 is stored where A takes float32"
    ):
        interp.run(tir.func([A], BufferStore(A, IntImm(1), (IntImm(0),))), [np.zeros(4, "float32")])
