import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import Call, IntImm, Range, Var
from autosched.tir.op import add, cast, const, lt
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    Prefetch,
    Stmt,
    seq,
)
from autosched.tir.walk import stmts
from autosched.transform.from_te.storage_flatten import StorageFlatten
from kit.stmts import as_a, loop
from kit.tir import value_of
from kit.types import BodyText, MakeFunc, SameResult


def tile(dtype: str = "float32") -> tuple[Buffer, Buffer, Buffer, For]:
    """B is computed four rows at a time into a region of T."""
    A, B = decl_buffer((8, 6), dtype, "A"), decl_buffer((8, 6), dtype, "B")
    T = decl_buffer((8, 6), dtype, "T", scope="")
    i, r, j, r2, j2 = (Var(n) for n in ("i", "r", "j", "r2", "j2"))
    fill = loop(r, 4, loop(j, 6, BufferStore(T, A[i * 4 + r, j], (i * 4 + r, j))))
    drain = loop(r2, 4, loop(j2, 6, BufferStore(B, T[i * 4 + r2, j2], (i * 4 + r2, j2))))
    bounds = (Range(i * 4, IntImm(4)), Range(IntImm(0), IntImm(6)))
    return A, B, T, loop(i, 2, BufferRealize(T, bounds, TRUE, seq(fill, drain)))


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    A, B, _, body = tile()
    before = make_func(body, A, B, te=True)
    after = StorageFlatten()(before)
    assert (
        body_text(after)
        == """\
A_1 = view(A, (48,), float32)
B_1 = view(B, (48,), float32)
for i in range(2):
    T = allocate((24,), float32, "global")
    for r in range(4):
        for j in range(6):
            T[(i * 4 + r - i * 4) * 6 + j] = A_1[(i * 4 + r) * 6 + j]
    for r2 in range(4):
        for j2 in range(6):
            B_1[(i * 4 + r2) * 6 + j2] = T[(i * 4 + r2 - i * 4) * 6 + j2]"""
    )
    same_result(before, after)


def test_only_te_functions(make_func: MakeFunc) -> None:
    A, B, _, body = tile()
    before = make_func(body, A, B)
    assert StorageFlatten()(before) is before


def test_flat_function_is_unchanged(make_func: MakeFunc) -> None:
    A, i = decl_buffer((8,), "float32", "A"), Var("i")
    before = make_func(loop(i, 8, BufferStore(A, A[i] + 1.0, (i,))), A, te=True)
    assert StorageFlatten()(before) is before


def test_bool_is_stored_as_int8(make_func: MakeFunc, same_result: SameResult) -> None:
    A, B = decl_buffer((4, 4), "float32", "A"), decl_buffer((4, 4), "bool", "B")
    C = decl_buffer((4, 4), "float32", "C")
    T = decl_buffer((4, 4), "bool", "T", scope="")
    i, j = Var("i"), Var("j")
    body = seq(
        BufferStore(T, lt(A[i, j], 1.0), (i, j)),
        BufferStore(B, T[i, j], (i, j)),
        BufferStore(C, cast("float32", T[i, j]), (i, j)),
    )
    whole = tuple(Range(IntImm(0), IntImm(4)) for _ in range(2))
    before = make_func(
        BufferRealize(T, whole, TRUE, loop(i, 4, loop(j, 4, body))), A, B, C, te=True
    )
    after = StorageFlatten()(before)
    allocate = next(s for s in stmts(after.body) if isinstance(s, Allocate))
    assert allocate.dtype.name == "int8"
    assert all(
        s.buffer.dtype.name != "bool" for s in stmts(after.body) if isinstance(s, BufferStore)
    )
    same_result(before, after)


def test_alignment_pads_the_stride(make_func: MakeFunc, same_result: SameResult) -> None:
    A, B, T, body = tile()
    realize = body.body
    numbers = tuple(IntImm(n) for n in (0, 8, 1))
    align = AttrStmt(T, "buffer_dim_align", Call(handle, "tuple", numbers), realize)
    before = make_func(loop(body.loop_var, 2, align), A, B, te=True)
    after = StorageFlatten()(before)
    allocate = next(s for s in stmts(after.body) if isinstance(s, Allocate))
    assert value_of(allocate.extents[0]) == 4 * 9  # 6 columns padded to 8n + 1
    assert not any(isinstance(s, AttrStmt) for s in stmts(after.body))
    same_result(before, after)


@pytest.mark.parametrize(
    ("aligned", "strides"), [({1: (8, 1)}, (45, 9)), ({2: (4, 2), 1: (4, 3)}, (55, 11))]
)
@pytest.mark.parametrize("known", [True, False])
def test_addresses_count_what_aligns_rows(
    make_func: MakeFunc, aligned: dict[int, tuple[int, int]], strides: tuple[int, int], known: bool
) -> None:
    # What reads by address, as tensor intrinsics do, reads the same before and after.
    A, B = decl_buffer((2, 5, 4), "float32", "A"), decl_buffer((2, 5, 4), "float32", "B")
    T, n = decl_buffer((2, 5, 4), "float32", "T"), Var("n")
    flat = Buffer(T.data, T.dtype, (IntImm(2 * strides[0]),), name="flat")
    i, j, k, i2, j2, k2 = (Var(name) for name in ("i", "j", "k", "i2", "j2", "k2"))
    fill = loop(i, 2, loop(j, 5, loop(k, 4, BufferStore(T, A[i, j, k], (i, j, k)))))
    step = 2 if 2 in aligned else 1
    read = flat[i2 * strides[0] + j2 * strides[1] + k2 * step]
    drain = loop(i2, 2, loop(j2, 5, loop(k2, 4, BufferStore(B, read, (i2, j2, k2)))))
    last = IntImm(4) if known else n
    bounds = (Range(IntImm(0), IntImm(2)), Range(IntImm(0), IntImm(5)), Range(IntImm(0), last))
    body: Stmt = BufferRealize(T, bounds, TRUE, seq(fill, drain))
    for dim, (factor, offset) in aligned.items():
        numbers = tuple(IntImm(number) for number in (dim, factor, offset))
        body = AttrStmt(T, "buffer_dim_align", Call(handle, "tuple", numbers), body)
    before = make_func(body, A, B, te=True, scalars=[n])
    value = np.arange(40, dtype=np.float32).reshape(2, 5, 4)
    for func in (before, StorageFlatten()(before)):
        found = np.zeros_like(value)
        interp.run(func, [value, found, 4])
        assert np.array_equal(found, value)


@pytest.mark.parametrize(
    ("tags", "scope"),
    [
        ([], "global"),
        (["blockIdx.x"], "shared"),
        (["blockIdx.x", "threadIdx.x"], "local"),
        (["threadIdx.x", "blockIdx.x"], "shared"),
    ],
)
def test_scope_follows_the_threads(make_func: MakeFunc, tags: list[str], scope: str) -> None:
    A, B, _, inside = tile()
    body: Stmt = inside
    for tag in reversed(tags):
        axis = te.thread_axis((0, 1), tag)
        body = AttrStmt(axis, "thread_extent", IntImm(1), body)
    after = StorageFlatten()(make_func(body, A, B, te=True))
    allocate = next(s for s in stmts(after.body) if isinstance(s, Allocate))
    assert allocate.buffer_var.scope == scope


def test_explicit_scope_stays(make_func: MakeFunc) -> None:
    A, B = decl_buffer((4,), "float32", "A"), decl_buffer((4,), "float32", "B")
    T, i = decl_buffer((4,), "float32", "T", scope="local"), Var("i")
    stores = seq(BufferStore(T, A[i], (i,)), BufferStore(B, T[i], (i,)))
    realize = BufferRealize(T, (Range(IntImm(0), IntImm(4)),), TRUE, loop(i, 4, stores))
    after = StorageFlatten()(make_func(realize, A, B, te=True))
    assert as_a(Allocate, after.body).buffer_var.scope == "local"


def test_parameter_realized_otherwise_is_refused(make_func: MakeFunc) -> None:
    A, i = decl_buffer((8,), "float32", "A"), Var("i")
    store = loop(i, 4, BufferStore(A, const(1.0), (i,)))
    body = BufferRealize(A, (Range(IntImm(0), IntImm(4)),), TRUE, store)
    with pytest.raises(ScheduleError, match="StorageFlatten: parameter A"):
        StorageFlatten()(make_func(body, A, te=True))


def test_symbolic_parameter_is_asserted(make_func: MakeFunc, body_text: BodyText) -> None:
    n, m, i = Var("n"), Var("m"), Var("i")
    A = decl_buffer((n,), "float32", "A")
    store = loop(i, 4, BufferStore(A, const(1.0), (i,)))
    body = BufferRealize(A, (Range(IntImm(0), m),), TRUE, store)
    after = StorageFlatten()(make_func(body, A, te=True, scalars=(n, m)))
    assert "assert" in body_text(after)


def test_prefetch_becomes_calls_by_cache_line(make_func: MakeFunc, body_text: BodyText) -> None:
    A, B, i = decl_buffer((8, 64), "float32", "A"), decl_buffer((8,), "float32", "B"), Var("i")
    region = (Range(add(i, 1), IntImm(1)), Range(IntImm(0), IntImm(64)))
    body = loop(i, 7, seq(Prefetch(A, region), BufferStore(B, A[i, 0], (i,))))
    after = StorageFlatten(cache_line=64)(make_func(body, A, B, te=True))
    text = body_text(after)
    assert "prefetch" in text
    assert "range(4)" in text  # 64 floats are four lines


def test_schedule(same_result: SameResult) -> None:
    A = te.placeholder((10, 12), name="A")
    B = te.compute((10, 12), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((10, 10), lambda i, j: B[i, j] + B[i, j + 2], name="C")
    sch = te.create_schedule(C.op)
    outer, _ = sch[C].split(C.op.axis[0], factor=4)
    sch[B].compute_at(sch[C], outer)
    sch[B].storage_align(B.op.axis[0], 8, 3)
    before = schedule_to_prim_func(sch, [A, C])
    same_result(before, StorageFlatten()(before))
