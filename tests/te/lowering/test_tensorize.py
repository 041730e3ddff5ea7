"""Loops done by tensor intrinsics."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.te.schedule.schedule import Schedule
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, IterVar, Reduce, Var
from kit.te import compute_of


def matmul(m: int = 32, n: int = 32, l: int = 32) -> tuple[Tensor, Tensor, Tensor, Schedule]:
    A = te.placeholder((m, l), name="A")
    B = te.placeholder((n, l), name="B")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    return A, B, C, te.create_schedule(C.op)


def first(buffer: Buffer) -> Expr:
    return te.address_of(buffer[0, 0])


def gemm(m: int = 8, n: int = 4, l: int = 16, parts: int = 3, swap: bool = False) -> TensorIntrin:
    a = te.placeholder((m, l), name="a")
    b = te.placeholder((n, l), name="b")
    k = te.reduce_axis((0, l), "k")

    def element(i: Var, j: Var) -> Reduce:
        product = b[j, k] + a[i, k] if swap else a[i, k] * b[j, k]
        result: Reduce = te.sum(product, axis=k)
        return result

    c = te.compute((m, n), element, name="c")

    def calls(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Expr | None, ...]:
        ab = (first(ins[0]), first(ins[1]))
        all_ = (
            te.call_extern("gemm", *ab, first(outs[0])),
            te.call_extern("reset", first(outs[0])),
            te.call_extern("update", *ab, first(outs[0])),
        )
        return (all_[0], None, all_[2]) if parts == 2 else all_[:parts]

    strided = {
        t: te.decl_buffer(t.shape, strides=[te.var("s"), 1], elem_offset=te.var("o"))
        for t in (a, b, c)
    }
    return te.decl_tensor_intrin(c.op, calls, name="gemm", binds=strided)


def tiled(s: Schedule, C: Tensor, m: int = 8, n: int = 4, l: int = 16) -> IterVar:
    i, j = compute_of(C).axis
    io, ii = s[C].split(i, factor=m)
    jo, ji = s[C].split(j, factor=n)
    ko, ki = s[C].split(compute_of(C).reduce_axis[0], factor=l)
    s[C].reorder(io, jo, ko, ii, ji, ki)
    return ii


def calls(s: Schedule, args: list[Tensor]) -> list[str]:
    text = repr(schedule_to_prim_func(s, args))
    return [line.strip() for line in text.splitlines()[3:]]


def address(name: str, *indices: str) -> str:
    return f"address_of({name}[{', '.join(indices)}], dtype=handle)"


def test_reduction_with_init_and_update() -> None:
    A, B, C, s = matmul()
    s[C].tensorize(tiled(s, C), gemm())
    a = address("A", "i.outer * 8", "k.outer * 16")
    b = address("B", "j.outer * 4", "k.outer * 16")
    c = address("C", "i.outer * 8", "j.outer * 4")
    assert calls(s, [A, B, C]) == [
        "for i.outer in range(4):",
        "for j.outer in range(8):",
        f'call_extern("reset", {c}, dtype=int32)',
        "for k.outer in range(2):",
        f'call_extern("update", {a}, {b}, {c}, dtype=int32)',
    ]


def test_whole_reduction_inside_needs_the_body_only() -> None:
    A, B, C, s = matmul(l=16)
    s[C].tensorize(tiled(s, C), gemm(parts=1))
    text = "\n".join(calls(s, [A, B, C]))
    assert '"gemm"' in text and '"update"' not in text


def test_the_body_starts_a_reduction_without_init() -> None:
    A, B, C, s = matmul()
    s[C].tensorize(tiled(s, C), gemm(parts=2))
    lines = calls(s, [A, B, C])
    assert "if k.outer == 0:" in lines
    assert '"gemm"' in lines[lines.index("if k.outer == 0:") + 1]


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((32, 32, 32), {"parts": 1}, "has no reduce_update"),
        ((32, 32, 32), {"m": 4}, "axis i has extent 8 inside, the intrinsic's i 4"),
        ((32, 32, 32), {"swap": True}, "the stage computes"),
        ((30, 32, 32), {}, "would be needed inside the intrinsic"),
    ],
)
def test_refusals(sizes: tuple[int, int, int], options: dict[str, Any], message: str) -> None:
    A, B, C, s = matmul(*sizes)
    s[C].tensorize(tiled(s, C), gemm(**options))
    with pytest.raises(ScheduleError, match=f"stage C, axis i.inner, intrinsic gemm: .*{message}"):
        schedule_to_prim_func(s, [A, B, C])


def own_operation(dtype: str = "float32") -> tuple[Tensor, Tensor, Tensor]:
    A = te.placeholder((8, 16), dtype, name="A")
    B = te.placeholder((4, 16), dtype, name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((8, 4), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    return A, B, C


def test_the_operation_of_the_stage_may_be_the_pattern() -> None:
    A, B, C = own_operation()

    def call(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Expr:
        return te.call_extern("f", first(ins[0]), first(ins[1]), first(outs[0]))

    s = te.create_schedule(C.op)
    s[C].tensorize(compute_of(C).axis[0], te.decl_tensor_intrin(C.op, call, name="own"))
    (line,) = calls(s, [A, B, C])[-1:]
    assert all(address(name, "0", "0") in line for name in "ABC"), line


ORDERS = [
    lambda x, y, z: x * y + z,
    lambda x, y, z: z + x * y,
    lambda x, y, z: z + y * x,
    lambda x, y, z: y * x + z,
]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_operands_may_be_exchanged(dtype: str, order: int) -> None:
    def program(
        combine: Callable[[Expr, Expr, Expr], Expr], prefix: str
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        x, y, z = (te.placeholder((8,), dtype, name=prefix + n) for n in "xyz")
        c = te.compute((8,), lambda i: combine(x[i], y[7 - i], z[i]), name=prefix + "c")
        return (x, y, z), c

    inputs, C = program(ORDERS[order], "P")
    _, c = program(ORDERS[0], "q")

    def call(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Expr:
        at = [te.address_of(b[0]) for b in (*ins, *outs)]
        return te.call_extern("f", *at)

    s = te.create_schedule(C.op)
    s[C].tensorize(compute_of(C).axis[0], te.decl_tensor_intrin(c.op, call, name="fma"))
    text = repr(schedule_to_prim_func(s, [*inputs, C]))
    places = [text.rindex(f"address_of({name}[") for name in ("Px", "Py", "Pz", "Pc")]
    assert places == sorted(places)  # each input takes the place of its partner


def test_sums_of_integers_may_be_regrouped_those_of_floats_not() -> None:
    def program(
        dtype: str, prefix: str, left: bool
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        x, y, z = (te.placeholder((8,), dtype, name=prefix + n) for n in "xyz")

        def element(i: Var) -> Expr:
            result: Expr = x[i] + (y[i] * 2 + z[i]) if left else z[i] + x[i] + y[i] * 2
            return result

        return (x, y, z), te.compute((8,), element, name=prefix + "c")

    for dtype in ("int32", "float32"):
        inputs, C = program(dtype, "P", True)
        _, c = program(dtype, "q", False)
        s = te.create_schedule(C.op)

        def call(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Expr:
            at = [te.address_of(b[0]) for b in (*ins, *outs)]
            return te.call_extern("f", *at)

        s[C].tensorize(compute_of(C).axis[0], te.decl_tensor_intrin(c.op, call, name="sum"))
        if dtype == "int32":
            schedule_to_prim_func(s, [*inputs, C])
        else:
            with pytest.raises(ScheduleError, match="where the intrinsic does"):
                schedule_to_prim_func(s, [*inputs, C])
