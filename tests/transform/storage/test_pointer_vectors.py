import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, StringImm, Var
from autosched.tir.stmt import TRUE, Allocate, BufferStore, DeclBuffer, Evaluate, Stmt, seq
from autosched.transform.storage.pointer_vectors import vectorise_pointers

A = decl_buffer((64,), "float32", "A")
P = decl_buffer((16,), "float32", "P")
LATER = decl_buffer((12,), "float32", "later", data=P.data, elem_offset=2)
EVEN = decl_buffer((8,), "float32", "even", data=P.data, strides=(2,))
i = Var("i")


def ramp(base: Expr | int, stride: int = 1, lanes: int = 4) -> Expr:
    return Ramp(base if not isinstance(base, int) else IntImm(base), IntImm(stride), lanes)


def allocate(*body: Stmt) -> Allocate:
    return Allocate(P.data, P.dtype, P.shape, TRUE, seq(*body))


FILL = BufferStore(P, A[ramp(i * 4)], (ramp(i * 4),))


def test_golden() -> None:
    stmt = allocate(FILL, BufferStore(A, P[ramp(12 - i * 4)], (ramp(0),)))
    assert (
        repr(vectorise_pointers(stmt))
        == """\
P = allocate((4,), float32x4, "global", element=float32)
P[i] = A[i * 4:i * 4 + 4]
A[0:4] = P[3 - i]"""
    )


@pytest.mark.parametrize(
    "other",
    [
        BufferStore(A, P[i], (i,)),
        BufferStore(A, P[ramp(i * 2, 1, 2)], (ramp(0, 1, 2),)),
        BufferStore(A, P[ramp(i * 2)], (ramp(0),)),
        BufferStore(A, P[ramp(i * 4, 2)], (ramp(0),)),
        BufferStore(A, LATER[ramp(i * 4)], (ramp(0),)),
        BufferStore(A, EVEN[ramp(i * 4)], (ramp(0),)),
        BufferStore(A, BufferLoad(P, (ramp(0),), ramp(0) < ramp(1, 0)), (ramp(0),)),
        Evaluate(Call(A.dtype, "call_extern", (StringImm("f"), P.data))),
        DeclBuffer(P, Evaluate(IntImm(1))),
    ],
)
def test_other_accesses_keep_the_type(other: Stmt) -> None:
    stmt = allocate(FILL, other)
    assert vectorise_pointers(stmt) is stmt


def test_the_width_must_divide_the_extent() -> None:
    stmt = Allocate(P.data, P.dtype, (IntImm(18),), TRUE, FILL)
    assert vectorise_pointers(stmt) is stmt
