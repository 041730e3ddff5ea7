"""Functions over buffers."""

from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import ProducerLoad
from autosched.tir.stmt import BufferRealize, ProducerRealize, ProducerStore
from autosched.tir.walk import all_exprs, stmts
from kit.te import compute_of
from kit.tir import value_of
from kit.types import Check


def program() -> tuple[Tensor, Tensor, Tensor]:
    A = te.placeholder((6, 4), name="A")
    B = te.compute((6, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 4), lambda i, j: B[i, j] * 2.0, name="C")
    return A, B, C


def test_parameters_and_attributes() -> None:
    A, _, C = program()
    func = schedule_to_prim_func(te.create_schedule(C.op), [A, C], name="add_mul")
    assert [b.name for b in func.buffers] == ["A", "C"]
    assert [tuple(value_of(e) for e in b.shape) for b in func.buffers] == [(6, 4), (6, 4)]
    assert func.attrs == {
        "global_symbol": "add_mul",
        "from_legacy_te_schedule": True,
        "tir.noalias": True,
    }


def test_the_tensor_that_has_replaced_an_output_is_the_same_argument(check: Check) -> None:
    """What was given was never written."""
    A, B, C = program()
    s = te.create_schedule(C.op)
    s.cache_write(C, "local")
    s.cache_write(B, "local")
    assert s.current_tensor(C) is not C
    for result in (C, s.current_tensor(C)):
        check(s, [A, result], lambda a: a * 2 + 2)
        check(s, [A, s.current_tensor(B), result], lambda a: (a + 1, a * 2 + 2))
    with pytest.raises(ScheduleError, match="tensor C is an argument twice"):
        schedule_to_prim_func(s, [A, C, s.current_tensor(C)])


def test_what_the_schedule_does_not_compute_is_refused() -> None:
    A, B, C = program()
    s = te.create_schedule(C.op)
    other = te.compute((6, 4), lambda i, j: A[i, j] * 3.0, name="C")
    with pytest.raises(ScheduleError, match=r"tensor C is an argument, .*stages are A, B, C\)"):
        schedule_to_prim_func(s, [A, other])
    with pytest.raises(ScheduleError, match=r"C, which the schedule .* is no argument"):
        schedule_to_prim_func(s, [A, B])
    mistaken: list[Any] = ["C", None, C.op, compute_of(C).axis[0]]
    for wrong in mistaken:
        with pytest.raises(ScheduleError, match="expected tensors and variables as arguments, fou"):
            schedule_to_prim_func(s, [A, wrong])
    swapped: Any = [A, C]
    with pytest.raises(ScheduleError, match=r"expected a schedule, e\.g\. .*, found \[Tensor"):
        schedule_to_prim_func(swapped, s)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(ScheduleError, match=r"expected a list of arguments, .*found Tensor\(C"):
        schedule_to_prim_func(s, C)  # type: ignore[arg-type]  # that is the mistake
    unread = te.placeholder((3,), name="X")
    assert len(schedule_to_prim_func(s, [A, unread, C]).params) == 3


def test_an_argument_that_is_inlined() -> None:
    """Its memory was left as it was."""
    A, B, C = program()
    s = te.create_schedule(C.op)
    schedule_to_prim_func(s, [A, B, C])
    s[B].compute_inline()
    with pytest.raises(ScheduleError, match="tensor B is an argument, but its stage is inlined"):
        schedule_to_prim_func(s, [A, B, C])


def test_internal_buffers_have_the_full_shape() -> None:
    A, B, C = program()
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], compute_of(C).axis[0])
    func = schedule_to_prim_func(s, [A, C])
    (inner,) = [
        x for x in stmts(func.body) if isinstance(x, BufferRealize) and x.buffer.name == "B"
    ]
    assert [value_of(e) for e in inner.buffer.shape] == [6, 4]
    assert [repr(r) for r in inner.bounds] == ["[i, i + 1)", "[0, 0 + 4)"]


def test_no_tensor_is_left() -> None:
    A, _, C = program()
    func = schedule_to_prim_func(te.create_schedule(C.op), [A, C])
    assert not [x for x in stmts(func.body) if isinstance(x, ProducerStore | ProducerRealize)]
    assert not [e for e in all_exprs(func.body) if isinstance(e, ProducerLoad)]


def test_symbolic_sizes_can_be_arguments() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    func = schedule_to_prim_func(te.create_schedule(B.op), [n, A, B])
    assert func.params[0] is n


def test_an_intermediate_result_can_be_an_argument(check: Check) -> None:
    A, B, C = program()
    check(te.create_schedule(C.op), [A, B, C], lambda a: (a + 1, (a + 1) * 2))


def test_a_missing_input_is_refused() -> None:
    A, _, C = program()
    with pytest.raises(ScheduleError, match="tensor A is neither computed"):
        schedule_to_prim_func(te.create_schedule(C.op), [C])
    with pytest.raises(ScheduleError, match="tensor A is an argument twice"):
        schedule_to_prim_func(te.create_schedule(C.op), [A, A, C])


def test_the_schedule_is_not_changed() -> None:
    A, _, C = program()
    s = te.create_schedule(C.op)
    before = [list(stage.leaf_iter_vars) for stage in s.stages]
    schedule_to_prim_func(s, [A, C])
    assert [list(stage.leaf_iter_vars) for stage in s.stages] == before


def test_more_elements_than_indices() -> None:
    """Their flat views had -1,794,967,296."""
    A = te.placeholder((50000, 50000), name="A")
    B = te.compute((50000, 50000), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((50000,), lambda i: B[i, 0], name="C")
    found = (
        r"to_prim_func main: A, of shape \(50000, 50000\), would have 2500000000 elements, at most "
        "2147483647 can be indexed; give smaller sizes"
    )
    with pytest.raises(ScheduleError, match=found):
        schedule_to_prim_func(te.create_schedule(C.op), [A, C])
    ones = te.compute((50000, 50000), lambda i, j: te.const(1.0), name="ones")
    C = te.compute((50000,), lambda i: ones[i, 0] + ones[i, 49999], name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match=r"main: ones, of shape \(50000, 50000\)"):
        schedule_to_prim_func(s, [C])
    s[ones].compute_at(s[C], compute_of(C).axis[0])  # a row at a time is enough
    schedule_to_prim_func(s, [C])


def test_an_argument_has_no_storage_of_its_own() -> None:
    """The alignment of a tensor in between was passed over where it is an argument."""
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].storage_align(compute_of(B).axis[0], 32, 1)
    schedule_to_prim_func(s, [A, C])
    message = r"to_prim_func main: tensor B is an argument, .* another storage \(storage_align\)"
    with pytest.raises(ScheduleError, match=message):
        schedule_to_prim_func(s, [A, B, C])


def test_more_elements_than_indices_where_rows_are_aligned() -> None:
    """Their number had wrapped to one below zero, of which nothing was allocated."""
    A = te.placeholder((1000,), name="A")
    T = te.compute((2**21, 1000), lambda i, j: A[j] * i, name="T")
    B = te.compute((2**21,), lambda i: T[i, 0] + T[i, 999], name="B")
    s = te.create_schedule(B.op)
    schedule_to_prim_func(s, [A, B])
    s[T].storage_align(compute_of(T).axis[0], 1024, 8)
    message = (
        r"to_prim_func main: T, of shape \(2097152, 1000\), its rows aligned \(storage_align\), "
        "would have 2164260864 elements, at most 2147483647"
    )
    with pytest.raises(ScheduleError, match=message):
        schedule_to_prim_func(s, [A, B])


def test_variables_without_a_value_are_refused() -> None:
    """The code generator found them, which does not know the axis of what they were."""
    A, n = te.placeholder((4, 8), name="A"), te.var("n")
    j, k = (te.reduce_axis((0, 8), name) for name in "jk")
    for body in (lambda i: A[i, k], lambda i: te.sum(A[i, k], axis=j)):
        B = te.compute((4,), body, name="B")
        with pytest.raises(ScheduleError, match="to_prim_func main: B uses k, which is neither"):
            schedule_to_prim_func(te.create_schedule(B.op), [A, B])
    C = te.compute((4,), lambda i: A[i, n], name="C")
    schedule_to_prim_func(te.create_schedule(C.op), [A, C, n])
