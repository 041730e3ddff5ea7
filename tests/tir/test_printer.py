"""The text of every part of the IR."""

from __future__ import annotations

import textwrap

import pytest

from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, float32, int32
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    CommReducer,
    Div,
    FloorMod,
    IntImm,
    IterKind,
    IterVar,
    Let,
    Mod,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    StringImm,
    Var,
    pointer,
)
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    Stmt,
    While,
    seq,
)
from kit.programs import Programs

I, J, K = Var("i"), Var("j"), Var("k")
F = Var("f", "float32")
A = decl_buffer((16, 16), name="A")


def summed() -> Reduce:
    x, y = Var("x", "float32"), Var("y", "float32")
    reducer = CommReducer((x,), (y,), (x + y,), (op.const(0.0),), "sum")
    return Reduce(reducer, (A[I, K],), (IterVar(Range.of(16), K, IterKind.REDUCE),), K < 3)


EXPRESSIONS = {
    "i + j * k": I + J * K,
    "(i + j) * k": (I + J) * K,
    "i - (j - k)": I - (J - K),
    "i - j - k": I - J - K,
    "i // 4 * 4 + i % 4": I // 4 * 4 + I % 4,
    "i * (j // 4)": I * (J // 4),
    "truncdiv(i, j)": Div(I, J),
    "truncmod(i, j)": Mod(I, J),
    "f / 2.0": F / 2,
    "min(i, max(j, 3))": op.min_(I, op.max_(J, 3)),
    "i < 3 and (j < 4 or k == 0)": op.and_(I < 3, op.or_(J < 4, op.eq(K, 0))),
    "not (i < 3 or j < 3)": op.not_(op.or_(I < 3, J < 3)),
    "(i < j) == (j < k)": op.eq(I < J, J < K),
    "float32(i)": op.cast("float32", I),
    "int64(5)": op.const(5, "int64"),
    "True": TRUE,
    "0.1": op.const(0.1),
    "-1.5": op.const(-1.5),
    "float16(0.1)": op.const(0.1, "float16"),
    "float64(0.1)": op.const(0.1, "float64"),
    'float32("-inf")': op.const(float("-inf")),
    "1.0e+30": op.const(1e30),
    "Select(i < j, i, j)": Select(I < J, I, J),
    "if_then_else(i < j, f, 0.0)": op.if_then_else(I < J, F, 0.0),
    "likely(i < j)": op.likely(I < J),
    "exp(f)": op.call("exp", F),
    'call_extern("g", i, dtype=int32)': Call(int32, "call_extern", (StringImm("g"), I)),
    "reinterpret(f, dtype=int32)": Call(int32, "reinterpret", (F,)),
    "A[i, j + 1]": A[I, J + 1],
    "A[i, j:j + 4]": BufferLoad(A, (I, Ramp(J, IntImm(1), 4))),
    "A[i, ramp(j, 2, 4)]": BufferLoad(A, (I, Ramp(J, IntImm(2), 4))),
    "broadcast(i, 4)": Broadcast(I, 4),
    "shuffle([ramp(i, 1, 4)], [2])": Shuffle((Ramp(I, IntImm(1), 4),), (IntImm(2),)),
    "let i = j + 1 in i * i": Let(I, J + 1, I * I),
    "(let i = j in i) + 1": Let(I, J, I) + 1,
    "sum(A[i, k], axis=[k in 0:16], where=k < 3)": summed(),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text: str) -> None:
    assert to_text(EXPRESSIONS[text]) == text


def test_variables_of_one_name_differ() -> None:
    assert to_text(Var("i") + Var("i") + FloorMod(I, Var("i"))) == "i + i_1 + i_2 % i_3"


def test_pieces() -> None:
    assert to_text(A) == "A: Buffer((16, 16), float32)"
    local = decl_buffer((4,), "int8", "B", "local")
    assert to_text(local) == 'B: Buffer((4,), int8, scope="local")'
    assert to_text(Range.of(4, I)) == "i:i + 4"
    assert to_text(Range.of(4, 2)) == "2:6"
    assert to_text(BufferRegion(A, (Range.of(4, I), Range.of(J)))) == "A[i:i + 4, 0:j]"
    assert to_text(IterVar(Range.of(4), I, IterKind.DATA_PAR)) == "i in 0:4"


def check(node: Stmt | PrimFunc, wanted: str) -> None:
    assert to_text(node) == textwrap.dedent(wanted).strip("\n")


def test_function_of_a_schedule(tir: type[Programs]) -> None:
    local = decl_buffer((16,), name="B.local", scope="local")
    inner, again = Var("i"), Var("i")
    body = seq(
        BufferStore(local, op.const(0.0), (I,)),
        tir.loop(K, 16, BufferStore(local, local[I] + A[I, K], (I,))),
        BufferRealize(local, (Range.of(4, I),), TRUE, BufferStore(local, A[I, 0], (I,))),
        tir.loop(inner, 4, BufferStore(local, A[inner, 0], (inner,)), ForKind.VECTORIZED),
        IfThenElse(op.likely(I < 3), BufferStore(A, local[I], (I, I)), Evaluate(IntImm(0))),
    )
    body = AttrStmt(IterVar(None, I, "data_par"), "pragma_auto_unroll_max_step", IntImm(16), body)
    body = tir.loop(I, 4, body, ForKind.PARALLEL)
    func = tir.func([A], BufferRealize(local, (Range.of(4, again),), TRUE, body))
    check(
        func.with_attrs(**{"tir.noalias": True}),
        """
        def main(A: Buffer((16, 16), float32)):
            attrs(tir.noalias=True)
            realize(B.local[i:i + 4], float32, "local", shape=(16,))
            for i_1 in parallel(4):
                pragma(i_1, "auto_unroll_max_step", 16)
                B.local[i_1] = 0.0
                for k in range(16):
                    B.local[i_1] = B.local[i_1] + A[i_1, k]
                with realize(B.local[i_1:i_1 + 4], float32, "local", shape=(16,)):
                    B.local[i_1] = A[i_1, 0]
                for i_2 in vectorized(4):
                    B.local[i_2] = A[i_2, 0]
                if likely(i_1 < 3):
                    A[i_1, i_1] = B.local[i_1]
                else:
                    pass
        """,
    )


def test_flat_kernel(tir: type[Programs]) -> None:
    bx, tx = tir.thread("blockIdx.x"), tir.thread("threadIdx.x")
    data = pointer("S", float32, "shared")
    shared = Buffer(data, float32, (IntImm(32),))
    half = Buffer(data, DType("float16"), (IntImm(64),), name="H")
    flat = Buffer(A.data, float32, (IntImm(256),))
    body = seq(
        BufferStore(shared, flat[bx.var * 32 + tx.var], (tx.var,)),
        Evaluate(Call(int32, "tvm_storage_sync", (StringImm("shared"),))),
        BufferStore(half, op.const(0, "float16"), (tx.var,)),
    )
    body = Allocate(data, float32, (IntImm(32),), TRUE, body)
    func = tir.func([A], tir.launch(body, (bx, 8), (tx, 32)))
    check(
        func,
        """
        def main(A: Buffer((16, 16), float32)):
            A_1 = view(A, (256,), float32)
            launch(blockIdx.x, 8)
            launch(threadIdx.x, 32)
            S = allocate((32,), float32, "shared")
            H = view(S, (64,), float16)
            S[threadIdx.x] = A_1[blockIdx.x * 32 + threadIdx.x]
            tvm_storage_sync("shared")
            H[threadIdx.x] = float16(0.0)
        """,
    )
    assert to_text(IRModule({"f": func, "g": func})).count("def ") == 2


def test_rare_statements() -> None:
    view = Buffer(A.data, float32, (IntImm(256),), name="V")
    n = Var("n")
    check(
        AssertStmt(
            n < 4,
            "n is small",
            LetStmt(
                I,
                n + 1,
                DeclBuffer(
                    view,
                    seq(
                        While(op.lt(A[0, 0], 3.0), BufferStore(A, op.const(1.0), (I, I))),
                        Prefetch(A, (Range.of(4, I), Range.of(4))),
                        BufferStore(
                            view,
                            Broadcast(op.const(1.0), 4),
                            (Ramp(I, IntImm(1), 4),),
                            op.lt(Ramp(I, IntImm(1), 4), n),
                        ),
                    ),
                ),
            ),
        ),
        """
        assert n < 4, "n is small"
        i: int32 = n + 1
        V = declare(A, (256,), float32)
        while A[0, 0] < 3.0:
            A[i, i] = 1.0
        prefetch(A[i:i + 4, 0:4])
        store(V[i:i + 4], broadcast(1.0, 4), predicate=ramp(i, 1, 4) < broadcast(n, 4))
        """,
    )


def test_block() -> None:
    vi, vk = (
        IterVar(Range.of(16), Var("vi"), "data_par"),
        IterVar(Range.of(16), Var("vk"), "reduce"),
    )
    read = BufferRegion(A, (Range.of(1, vi.var), Range.of(1, vk.var)))
    C = decl_buffer((16,), name="C")
    write = BufferRegion(C, (Range.of(1, vi.var),))
    init = BufferStore(C, op.const(0.0), (vi.var,))
    body = BufferStore(C, C[vi] + A[vi, vk], (vi.var,))
    block = Block((vi, vk), (read,), (write,), "C", body, BufferStore(C, init.value, (vi.var,)))
    check(
        BlockRealize((I, K), I < 3, block),
        """
        with block("C"):
            vi = axis.data_par(0:16, i)
            vk = axis.reduce(0:16, k)
            where(i < 3)
            reads(A[vi:vi + 1, vk:vk + 1])
            writes(C[vi:vi + 1])
            with init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
        """,
    )


def test_text_is_what_repr_shows() -> None:
    assert repr(I + 1) == "i + 1"
    assert repr(BufferStore(A, op.const(0.0), (I, J))) == "A[i, j] = 0.0"


def test_tensors_of_one_name_differ() -> None:
    class Tensor:
        name, dtype = "T", float32

    total = ProducerLoad(Tensor(), (I,)) + ProducerLoad(Tensor(), (I,))
    assert to_text(total) == "T[i] + T_1[i]"
