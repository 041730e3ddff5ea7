"""What is on the stack and what is on the heap."""

import re
from typing import get_args

import numpy as np
import pytest

from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_compile import Level, optimized
from autosched.codegen.llvm_host import emit_host
from autosched.codegen.llvm_storage import ALLOC, BESIDE_LOOPS, STACK_BYTES, computed_addresses
from autosched.target import cpu_target
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import bool_, handle
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var
from autosched.tir.function import IRModule
from autosched.tir.op import broadcast, cast, const
from autosched.tir.parser import parse_func
from autosched.tir.stmt import TRUE, Allocate, BufferStore, Evaluate, For, ForKind, Stmt, seq
from autosched.transform.storage.storage_rewrite import StorageRewrite
from kit.types import MakeKernel, RunKernel

OUT = decl_buffer((64,), "float32", "out")


def lanes(start: int, count: int = 16) -> Expr:
    return Ramp(const(start), const(1), count)


def allocate(buffer: Buffer, body: Stmt) -> Allocate:
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, body)


def filled(buffer: Buffer, n: int) -> For:
    """A loop that writes `n` elements at computed addresses."""
    i = Var("i")
    value = cast(buffer.dtype, i)
    return For(i, const(0), const(n), ForKind.SERIAL, BufferStore(buffer, value, (i,)))


def summed(tile: Buffer, source: Buffer) -> Stmt:
    """tile[0:16] gathers elements of `source` in a loop and is stored to the output."""
    k = Var("k")
    value = BufferLoad(tile, (lanes(0),)) + broadcast(BufferLoad(source, (k,)), 16)
    step = BufferStore(tile, value, (lanes(0),))
    return seq(
        BufferStore(tile, broadcast(const(0.0, "float32"), 16), (lanes(0),)),
        For(k, const(0), const(32), ForKind.SERIAL, step),
        BufferStore(OUT, BufferLoad(tile, (lanes(0),)), (lanes(0),)),
    )


def stack_elements(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"= alloca \[(\d+) x float\]", text)]


def test_an_accumulator_is_on_the_stack_when_arrays_before_it_take_all_the_room(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    """It was the order of appearance that counted: the accumulator stayed in memory."""
    elements = STACK_BYTES // 4
    pad, tile = decl_buffer((elements,), name="pad"), decl_buffer((16,), name="tile")
    body = allocate(pad, allocate(tile, seq(filled(pad, elements), summed(tile, pad))))
    f = func(body, [OUT])
    text = emit_llvm(f, cpu_target(2))
    assert sorted(stack_elements(text)) == [16, elements]
    assert f"call noalias align 64 ptr @{ALLOC}" not in text
    same_as_interpreted(f, np.zeros(64, np.float32))


def test_of_each_function_of_a_module_its_own_pointers_count() -> None:
    """With those of the first, large arrays of the others would be taken for registers."""
    first = parse_func("""
        def first(A: Buffer((64,), float32)):
            for i in range(64):
                A[i] = 1.0
    """)
    second = parse_func(f"""
        def second(A: Buffer((64,), float32)):
            large = allocate(({STACK_BYTES // 4 + 1},), float32, "global")
            for i in range(64):
                large[i] = 1.0
    """)
    text = emit_host(IRModule({"first": first, "second": second}), cpu_target(2))
    assert stack_elements(text) == [] and f"call noalias align 64 ptr @{ALLOC}" in text


def test_the_large_ones_go_to_the_heap_when_the_small_ones_leave_no_room(
    func: MakeKernel, same_as_interpreted: RunKernel
) -> None:
    sizes = [STACK_BYTES // 4 - 64, 32, 128]
    arrays = [decl_buffer((n,), name=f"a{n}") for n in sizes]
    body = seq(*(filled(a, 32) for a in arrays), filled(OUT, 64))
    for a in arrays:
        body = allocate(a, body)
    f = func(body, [OUT])
    text = emit_llvm(f, cpu_target(2))
    assert sorted(stack_elements(text)) == [32, 128]
    assert text.count(f"call noalias align 64 ptr @{ALLOC}") == 1
    same_as_interpreted(f, np.zeros(64, np.float32))


@pytest.mark.parametrize("beside", [0, 64])
def test_a_function_and_its_parallel_loop_share_the_stack_of_a_thread(
    func: MakeKernel, same_as_interpreted: RunKernel, beside: int
) -> None:
    """Either could fill all of it: on the 128 KiB of a thread of musl a kernel crashed."""
    elements = BESIDE_LOOPS // 4 + beside
    outer, inner = decl_buffer((elements,), name="outer"), decl_buffer((2**14,), name="inner")
    i = Var("i")
    copy = BufferStore(OUT, BufferLoad(inner, (i,)) + BufferLoad(outer, (i,)), (i,))
    each = allocate(inner, seq(filled(inner, 64), copy))
    loop = For(i, const(0), const(64), ForKind.PARALLEL, each)
    f = func(allocate(outer, seq(filled(outer, 64), loop)), [OUT])
    text = emit_llvm(f, cpu_target(2))
    on_stack = [2**14] if beside else [BESIDE_LOOPS // 4, 2**14]
    assert sorted(stack_elements(text)) == on_stack
    same_as_interpreted(f, np.zeros(64, np.float32))


def test_many_tiles_leave_the_arrays_their_room(func: MakeKernel) -> None:
    """Tiles become registers: they do not count against the arrays."""
    pad = decl_buffer((STACK_BYTES // 4,), name="pad")
    body: Stmt = filled(pad, 8)
    for k in range(40):
        tile = decl_buffer((1024,), name=f"tile{k}")
        body = allocate(tile, seq(body, summed(tile, pad)))
    text = emit_llvm(func(allocate(pad, body), [OUT]), cpu_target(2))
    assert sorted(stack_elements(text)) == [1024] * 40 + [STACK_BYTES // 4]


A = decl_buffer((64,), name="A")
K = Var("k")


@pytest.mark.parametrize(
    ("use", "computed"),
    [
        (BufferStore(A, const(0.0, "float32"), (const(3),)), False),
        (BufferStore(A, broadcast(const(0.0, "float32"), 16), (lanes(16),)), False),
        (BufferStore(OUT, BufferLoad(A, (lanes(0),)), (lanes(0),)), False),
        (BufferStore(A, const(0.0, "float32"), (K,)), True),
        (BufferStore(OUT, BufferLoad(A, (K,)), (const(0),)), True),
        (BufferStore(OUT, BufferLoad(A, (Ramp(K, const(1), 16),)), (lanes(0),)), True),
        (BufferStore(OUT, BufferLoad(A, (Ramp(const(0), const(2), 16),)), (lanes(0),)), True),
        (BufferStore(A, const(0.0, "float32"), (const(0),), IntImm(1, bool_)), True),
        (Evaluate(Call(handle, "address_of", (BufferLoad(A, (const(0),)),))), True),
        (Evaluate(Call(handle, "call_extern", (A.data,))), True),
    ],
)
def test_memory_reached_by_constant_addresses_alone(use: Stmt, computed: bool) -> None:
    assert (A.data in computed_addresses(use)) is computed


SHARED_ACROSS_TYPES = """
def main(A: Buffer((4096,), float32), B: Buffer((4096,), float32)):
    P = allocate((16384,), int8, "global")
    Q = allocate((4096,), float32, "global")
    S = allocate((2048,), float64, "global")
    for i in range(16384):
        P[i] = int8(i % 7)
    for i in range(4096):
        B[i] = A[i] + float32(P[i * 3])
    for i in range(256):
        Q[i * 16:i * 16 + 16] = B[4080 - i * 16:4080 - i * 16 + 16]
    for i in range(256):
        B[i * 16:i * 16 + 16] = Q[i * 16:i * 16 + 16] * A[i * 16:i * 16 + 16]
    for i in range(2048):
        S[i] = float64(B[4095 - i])
    for i in range(2048):
        B[i] = float32(S[2047 - i]) + B[i]
"""


def test_memory_shared_across_types(same_as_interpreted: RunKernel) -> None:
    """The one block is aligned for vectors of every type in it, and each reads what it wrote."""
    func = StorageRewrite()(parse_func(SHARED_ACROSS_TYPES))
    text = emit_llvm(func, cpu_target(2))
    assert re.findall(r"alloca \[(\d+) x (\w+)\], align 64", text) == [("2048", "double")]
    numbers = np.random.default_rng(0).integers(-4, 5, 4096).astype(np.float32)
    same_as_interpreted(func, numbers, np.zeros(4096, np.float32))


@pytest.mark.parametrize("level", get_args(Level))
def test_parts_of_an_array_may_be_stored_in_any_order(level: Level) -> None:
    """LLVM joins them where the last part is stored; the first is worked out only after that."""
    text = """\
define void @joined(ptr %p, ptr %q) {
  %a = alloca [4 x float], align 16
  %x = load <2 x float>, ptr %p, align 4
  %last = getelementptr float, ptr %a, i64 2
  store <2 x float> %x, ptr %last, align 4
  %y = fadd <2 x float> %x, %x
  store <2 x float> %y, ptr %a, align 4
  %v = load <4 x float>, ptr %a, align 4
  store <4 x float> %v, ptr %q, align 4
  ret void
}
"""
    assert "alloca" not in optimized(text, cpu_target(2), level)
